"""The CPU solver against LIBSVM, against the optimality conditions, and at the edges."""

from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import ArrayRows, degenerate, gaussian, indefinite, judge, libsvm, solve_dual
from refusals import refuses

from textsvm.gram.base import CachedGram, DenseGram, needed_bytes
from textsvm.solvers import smo, smo_loop
from textsvm.solvers.dual import Dual, svc
from textsvm.solvers.smo import Run
from textsvm.solvers.smo_loop import DECREASE
from textsvm.solvers.solution import Stopping
from textsvm.solvers.solve import solve_chains


@pytest.mark.slow
@pytest.mark.parametrize("n", [10, 200, 1500])
@pytest.mark.parametrize("C", [0.1, 10, 1000])
def test_equals_libsvm_on_positive_definite_grams(n, C):
    matrix, y = gaussian(n)
    loose, tight = (solve_dual(DenseGram(matrix), svc(y, C), tol=tol) for tol in (1e-3, 1e-6))
    judge(loose, matrix, svc(y, C), 1e-3)
    judge(tight, matrix, svc(y, C), 1e-6)
    objective = libsvm(matrix, y, C)[2]
    assert loose.objective <= objective + 1e-5 * abs(objective)
    coef, bias, objective = libsvm(matrix, y, C, tol=1e-6)
    assert tight.objective == pytest.approx(objective, rel=1e-6)
    values = matrix.astype(np.float64)
    np.testing.assert_allclose(values @ (y * tight.alpha) + tight.bias, values @ coef + bias, atol=1e-4)
    assert 0 <= tight.duality_gap < 1e-4


@pytest.mark.parametrize("name", degenerate())
@pytest.mark.parametrize("C", [1e-6, 1.0, 1e10])
def test_degenerate_grams(name, C):
    matrix, y = degenerate()[name]
    dual = svc(y, C)
    solution = solve_dual(DenseGram(matrix), dual)
    judge(solution, matrix, dual, 1e-3)
    assert solution.converged or solution.status.startswith("stalled")
    if C <= 1:
        assert solution.converged
        _, _, objective = libsvm(matrix, y, C)
        if name != "negative":
            assert solution.objective <= objective + 1e-5 * abs(objective) + 1e-12


@settings(max_examples=40)
@given(
    n=st.integers(2, 30),
    seed=st.integers(0, 1000),
    C=st.sampled_from([1e-4, 1.0, 100.0, 1e7]),
    tol=st.sampled_from([1e-1, 1e-3, 1e-6]),
    definite=st.booleans(),
)
def test_any_problem_ends_with_an_honest_status(n, seed, C, tol, definite):
    matrix, y = gaussian(n, seed) if definite else indefinite(n, seed)
    dual = svc(y, C, np.random.default_rng(seed).choice([0.0, 0.5, 1.0, 1.0, 2.0], n))
    [[solution]] = solve_chains(DenseGram(matrix), [[dual]], Stopping(tol))
    judge(solution, matrix, dual, tol)


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(2, 60),
    seed=st.integers(0, 1000),
    C=st.sampled_from([1e-2, 1.0, 100.0, 1e7]),
    definite=st.booleans(),
    part=st.booleans(),
    rows=st.sampled_from([None, 2, 9]),
    share=st.sampled_from([1.0, 0.5]),
)
def test_numpy_iterates_with_the_bits_of_compiled_code(n, seed, C, definite, part, rows, share):
    """Also on some rows of a Gram, with few rows in memory, and if the forms change in the middle."""
    matrix, y = gaussian(2 * n, seed) if definite else indefinite(2 * n, seed)
    rng = np.random.default_rng(seed)
    index = np.sort(rng.permutation(2 * n)[:n]) if part else np.arange(2 * n)
    index[:2] = 0, 1  # a row of each label
    chain = [replace(svc(y[index], c), index=index) for c in (C, 3 * C)]
    results = []
    for answer in (lambda size: False, lambda size: rng.random() < share):
        gram = DenseGram(matrix) if rows is None else CachedGram(ArrayRows(matrix), needed_bytes(2 * n, rows))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(smo_loop, "use_numpy", answer)
            patch.setattr(smo, "_STRETCH", 30)  # variables are set aside, and added again
            results.append(solve_chains(gram, [chain], Stopping(1e-5, 3000))[0])
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_array_equal(ours.alpha, theirs.alpha)
        for name in ("bias", "objective", "iterations", "status"):
            assert getattr(ours, name) == getattr(theirs, name)


def test_zero_weights_leave_nothing_to_solve():
    matrix, y = gaussian(20)
    solution = solve_dual(DenseGram(matrix), svc(y, 1, np.zeros(20)))
    assert solution.converged
    assert not solution.alpha.any()


def test_one_class_comes_with_data_and_a_start():
    matrix, _ = gaussian(100)
    start = np.where(np.arange(100) < 20, 1.0, 0.0)
    dual = Dual(np.ones(100), np.zeros(100), np.ones(100), np.arange(100), total=20.0)
    solution = solve_dual(DenseGram(matrix), dual, initial=start)
    assert solution.converged
    judge(solution, matrix, dual, 1e-3)


def test_cached_rows_give_the_same_bits_as_dense():
    matrix, y = gaussian(400)
    dense = solve_dual(DenseGram(matrix), svc(y, 10))
    for rows in (2, 30, 400):
        gram = CachedGram(ArrayRows(matrix), 4 * 400 * (rows + max(2, rows // 8)) + 16 * 400)
        assert gram.capacity == rows
        cached = solve_dual(gram, svc(y, 10))
        np.testing.assert_array_equal(cached.alpha, dense.alpha)
        assert (cached.bias, cached.objective) == (dense.bias, dense.objective)
    assert gram.computed <= 400


def test_a_bound_on_iterations_is_not_convergence():
    matrix, y = gaussian(300)
    solution = solve_dual(DenseGram(matrix), svc(y, 10), max_iter=50)
    assert solution.iterations == 50
    assert not solution.converged
    assert solution.status == "stopped at 50 iterations"
    judge(solution, matrix, svc(y, 10), 1e-3)


def test_warm_start():
    matrix, y = gaussian(500)
    dual = svc(y, 10)
    cold = solve_dual(DenseGram(matrix), dual)
    warm = solve_dual(DenseGram(matrix), dual, tol=1e-4, initial=cold.alpha)
    judge(warm, matrix, dual, 1e-4)
    assert 0 < warm.iterations < cold.iterations
    assert solve_dual(DenseGram(matrix), dual, initial=cold.alpha).iterations == 0


def test_progress_grows_to_its_total_and_may_stop():
    matrix, y = gaussian(1500)
    seen = []
    solve_dual(DenseGram(matrix), svc(y, 1000), progress=lambda *now: seen.append(now))
    assert len(seen) > 3
    done = [now[0] for now in seen]
    assert done == sorted(done)
    assert seen[-1][0] == seen[-1][1]

    with pytest.raises(KeyboardInterrupt):
        solve_dual(DenseGram(matrix), svc(y, 1000), progress=Mock(side_effect=KeyboardInterrupt))


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("place", [(3, 3), (3, 7)])
def test_a_gram_that_is_not_finite_is_refused(value, place):
    matrix, y = gaussian(50)
    matrix[place] = matrix[place[::-1]] = value
    refuses("finite", solve_dual, DenseGram(matrix), svc(y, 10))


def test_a_run_stops_when_the_objective_no_longer_decreases():
    matrix, y = indefinite(20, 1)
    solution = solve_dual(DenseGram(matrix), svc(y, 1e6), tol=1e-12, max_iter=300_000)
    assert solution.status.startswith("stalled")
    assert solution.iterations < 300_000


@pytest.mark.parametrize(("m", "least"), [(30, 20_000), (3000, 30_000)])
def test_a_run_is_stalled_if_the_objective_stays_over_many_iterations(m, least):
    run = SimpleNamespace(m=m, mark=(0, 0.0))

    def stalled(iterations, decrease):
        run.iterations, run.extrema = iterations, {DECREASE: decrease}
        return Run.stalled(run)

    assert not stalled(least - 1, 0.0)
    assert not stalled(least, 1e6)
    assert not stalled(2 * least, 1e6 + 1e-8)
    assert not stalled(3 * least - 1, 1e6 + 1e-8)
    assert stalled(3 * least, 1e6 + 1e-8)
    assert not stalled(4 * least - 1, 1e6 + 1e-8)


@pytest.mark.parametrize("n", [2000, 4000])
def test_all_variables_are_set_aside(n):
    """As many iterations as end a stretch bring all to their bounds, and shrinking leaves none."""
    solution = solve_dual(DenseGram(np.eye(n, dtype=np.float32)), svc(np.resize([1, -1], n), 0.5))
    assert (solution.status, solution.iterations) == ("converged", n // 2)
    np.testing.assert_array_equal(np.abs(solution.coef), 0.5)
