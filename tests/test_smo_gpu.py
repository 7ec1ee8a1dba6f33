"""The CUDA solver against LIBSVM, the optimality conditions and the CPU twin (`-m gpu`)."""

import numpy as np
import pytest
from problems import ArrayRows, chains, degenerate, gaussian, indefinite, judge, libsvm, solve_dual, svr

from textsvm.errors import InputError
from textsvm.gram.base import CachedGram, DenseGram, needed_bytes
from textsvm.runtime import device as devices
from textsvm.solvers import cuda_queue, smo_cuda
from textsvm.solvers.dual import Dual, svc
from textsvm.solvers.solution import Stopping
from textsvm.solvers.solve import solve_chains

pytestmark = pytest.mark.gpu


def on_device(matrix):
    return DenseGram(devices.cupy().asarray(matrix))


@pytest.mark.parametrize("n", [10, 1024, 1025, 3000])
@pytest.mark.parametrize("C", [0.1, 10, 1000])
def test_equals_libsvm_on_positive_definite_grams(n, C):
    matrix, y = gaussian(n)
    loose, tight = (solve_dual(on_device(matrix), svc(y, C), tol=tol) for tol in (1e-3, 1e-6))
    judge(loose, matrix, svc(y, C), 1e-3)
    judge(tight, matrix, svc(y, C), 1e-6)
    assert loose.converged
    objective = libsvm(matrix, y, C)[2]
    assert loose.objective <= objective + 1e-5 * abs(objective)
    cpu = solve_dual(DenseGram(matrix), svc(y, C), tol=1e-6)
    assert tight.objective == pytest.approx(cpu.objective, rel=1e-6)
    values = matrix.astype(np.float64)
    decisions = values @ (y * tight.alpha) + tight.bias
    np.testing.assert_allclose(decisions, values @ (y * cpu.alpha) + cpu.bias, atol=1e-4)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("n", [300, 2500])
def test_indefinite_grams_end_at_a_stationary_point(seed, n):
    matrix, y = indefinite(n, seed)
    solution = solve_dual(on_device(matrix), svc(y, 10))
    assert solution.converged
    judge(solution, matrix, svc(y, 10), 1e-3)


@pytest.mark.parametrize("name", degenerate())
@pytest.mark.parametrize("C", [1e-6, 1.0, 1e10])
def test_degenerate_grams(name, C):
    matrix, y = degenerate()[name]
    dual = svc(y, C)
    solution = solve_dual(on_device(matrix), dual, max_iter=1_000_000)
    judge(solution, matrix, dual, 1e-3)
    if C <= 1:
        assert solution.converged
        if name != "negative":
            objective = libsvm(matrix, y, C)[2]
            assert solution.objective <= objective + 1e-5 * abs(objective) + 1e-12


def test_random_small_problems():
    rng = np.random.default_rng(0)
    for _ in range(60):
        n, seed = int(rng.integers(2, 40)), int(rng.integers(1000))
        matrix, y = (gaussian if rng.random() < 0.5 else indefinite)(n, seed)
        dual = svc(y, rng.choice([1e-4, 1.0, 100.0, 1e7]), rng.choice([0.0, 0.5, 1.0, 2.0], n))
        tol = rng.choice([1e-1, 1e-3, 1e-6])
        judge(solve_dual(on_device(matrix), dual, tol=tol, max_iter=1_000_000), matrix, dual, tol)


def test_classes_in_order():
    matrix, y = gaussian(4000)
    order = np.argsort(y)
    matrix, y = np.ascontiguousarray(matrix[np.ix_(order, order)]), y[order]
    solution = solve_dual(on_device(matrix), svc(y, 10))
    assert solution.converged
    judge(solution, matrix, svc(y, 10), 1e-3)


def test_regression_and_one_class_come_with_data_alone():
    matrix, _ = gaussian(1500)
    y = matrix[:, 3].astype(np.float64) + 0.1 * np.random.default_rng(0).normal(size=1500)
    dual = svr(y, 10, 0.05)
    solution = solve_dual(on_device(matrix), dual, tol=1e-5)
    judge(solution, matrix, dual, 1e-5)
    assert solution.objective == pytest.approx(
        solve_dual(DenseGram(matrix), dual, tol=1e-5).objective, rel=1e-6
    )
    start = np.where(np.arange(1500) < 300, 1.0, 0.0)
    dual = Dual(np.ones(1500), np.zeros(1500), np.ones(1500), np.arange(1500), total=300.0)
    solution = solve_dual(on_device(matrix), dual, initial=start)
    assert solution.converged
    judge(solution, matrix, dual, 1e-3)


@pytest.mark.parametrize("rows", [2, 3, 5, 100, 1100, 2000])
def test_rows_on_demand(rows):
    n = 2000 if rows > 5 else 200
    rows = min(rows, n)
    matrix, y = gaussian(n)
    gram = CachedGram(ArrayRows(devices.cupy().asarray(matrix)), needed_bytes(n, rows))
    assert gram.capacity == rows
    solution = solve_dual(gram, svc(y, 10))
    assert solution.converged
    judge(solution, matrix, svc(y, 10), 1e-3)
    if rows >= 1024:
        dense = solve_dual(on_device(matrix), svc(y, 10))
        np.testing.assert_array_equal(solution.alpha, dense.alpha)
        assert solution.bias == dense.bias
    if rows == n:
        assert gram.computed <= n


def test_two_runs_give_the_same_bits():
    matrix, y = indefinite(2500)
    first, second = (solve_dual(on_device(matrix), svc(y, 10)) for _ in range(2))
    np.testing.assert_array_equal(first.alpha, second.alpha)
    assert (first.bias, first.iterations) == (second.bias, second.iterations)


def test_a_bound_on_iterations_is_not_convergence():
    matrix, y = gaussian(2000)
    solution = solve_dual(on_device(matrix), svc(y, 10), max_iter=50)
    assert solution.iterations == 50
    assert solution.status == "stopped at 50 iterations"
    judge(solution, matrix, svc(y, 10), 1e-3)


def test_warm_start():
    matrix, y = gaussian(2000)
    dual = svc(y, 10)
    cold = solve_dual(on_device(matrix), dual)
    warm = solve_dual(on_device(matrix), dual, tol=1e-4, initial=cold.alpha)
    judge(warm, matrix, dual, 1e-4)
    assert 0 < warm.iterations < cold.iterations


def test_progress_grows_and_may_stop():
    matrix, y = gaussian(3000)
    seen = []
    solve_dual(on_device(matrix), svc(y, 1000), progress=lambda *now: seen.append(now))
    assert [now[0] for now in seen] == sorted(now[0] for now in seen)
    assert seen[-1][0] == seen[-1][1]

    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        solve_dual(on_device(matrix), svc(y, 1000), progress=stop)


@pytest.mark.parametrize("place", [(3, 3), (3, 7)])
def test_a_gram_that_is_not_finite_is_refused(place):
    matrix, y = gaussian(50)
    matrix[place] = matrix[place[::-1]] = np.nan
    with pytest.raises(InputError, match="finite"):
        solve_dual(on_device(matrix), svc(y, 10))


def test_real_grams_against_libsvm(data, device):

    from benchmarks.corpora import paper_tasks
    from benchmarks.solver import compare_with_libsvm

    assert len(compare_with_libsvm(paper_tasks(data), device, repeats=1)) == 12


@pytest.mark.parametrize("n", [60, 1500])
@pytest.mark.parametrize("name", chains(20))
def test_chains_equal_problems_solved_on_the_cpu(name, n):
    matrix, problems, initial = chains(n)[name]
    many = solve_chains(on_device(matrix), problems, Stopping(1e-6), initial=initial)
    host = solve_chains(DenseGram(matrix), problems, Stopping(1e-6), initial=initial)
    for chain, solutions, others in zip(problems, many, host, strict=True):
        for dual, solution, other in zip(chain, solutions, others, strict=True):
            judge(solution, matrix, dual, 1e-6)
            assert solution.converged
            assert solution.objective == pytest.approx(other.objective, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("slots", [1, 3, 5])
def test_slots_are_filled_again(slots, monkeypatch):
    monkeypatch.setattr(cuda_queue, "most_slots", lambda: slots)
    monkeypatch.setattr(smo_cuda, "BURST", 100)
    for name in ("folds, C up", "lengths", "one class"):
        matrix, problems, initial = chains(1500)[name]
        done, totals = [], []

        def record(now, total, done=done, totals=totals):
            done.append(now)
            totals.append(total)

        many = solve_chains(on_device(matrix), problems, initial=initial, progress=record)
        for chain, solutions in zip(problems, many, strict=True):
            for dual, solution in zip(chain, solutions, strict=True):
                judge(solution, matrix, dual, 1e-3)
                assert solution.converged
        assert done == sorted(done)
        assert done[-1] == totals[-1] == len(problems)


def test_side_by_side_gives_the_bits_of_one_alone():
    matrix, problems, _ = chains(1500)["folds, C up"]
    singles = [[chain[2]] for chain in problems]
    many = solve_chains(on_device(matrix), singles)
    again = solve_chains(on_device(matrix), singles)
    for solutions, others, (dual,) in zip(many, again, singles, strict=True):
        alone = solve_dual(on_device(matrix), dual)
        np.testing.assert_array_equal(solutions[0].alpha, others[0].alpha)
        if solutions[0].iterations < 2000:
            np.testing.assert_array_equal(solutions[0].alpha, alone.alpha)
        assert solutions[0].objective == pytest.approx(alone.objective, rel=1e-6)


def test_rows_on_demand_along_chains():
    matrix, problems, _ = chains(300)["regression, C"]
    gram = CachedGram(ArrayRows(devices.cupy().asarray(matrix)), needed_bytes(300, 40))
    many = solve_chains(gram, problems, Stopping(1e-5))
    for chain, solutions in zip(problems, many, strict=True):
        for dual, solution in zip(chain, solutions, strict=True):
            judge(solution, matrix, dual, 1e-5)


def test_a_duality_gap_and_a_bound_hold_for_each_problem():
    matrix, problems, _ = chains(1500)["folds, C up"]
    tight = solve_chains(on_device(matrix), problems, Stopping(1e-6))
    loose = solve_chains(on_device(matrix), problems, Stopping(1e-6, duality_gap=0.05))
    for a, b in zip(loose, tight, strict=True):
        assert all(s.converged and s.status == "converged" and s.duality_gap <= 0.05 for s in a)
        for one, best in zip(a, b, strict=True):
            assert one.objective - best.objective <= 0.055 * abs(one.objective)
    count = [sum(s.iterations for chain in many for s in chain) for many in (loose, tight)]
    assert count[0] < 0.7 * count[1]
    single = solve_dual(on_device(matrix), problems[0][2], tol=1e-6, duality_gap=0.05)
    assert single.converged
    assert single.duality_gap <= 0.05
    few = solve_chains(on_device(matrix), problems, Stopping(max_iter=70))
    for chain, solutions in zip(problems, few, strict=True):
        for dual, solution in zip(chain, solutions, strict=True):
            assert solution.iterations <= 70
            assert solution.converged or solution.status == "stopped at 70 iterations"
            judge(solution, matrix, dual, 1e-3)


def test_many_progress_may_stop_it():
    matrix, problems, _ = chains(1500)["folds, C up"]

    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        solve_chains(on_device(matrix), problems, progress=stop)
    assert solve_dual(on_device(matrix), problems[0][0]).converged


def test_duplicated_examples_equal_weight_two():
    matrix, y = gaussian(800)
    weight = np.random.default_rng(0).choice([1.0, 2.0], 800)
    twice = np.repeat(np.arange(800), weight.astype(int))
    both = [[svc(y, 3.0, weight)], [svc(y[twice], 3.0, index=twice)]]
    one, other = (solutions[0] for solutions in solve_chains(on_device(matrix), both, Stopping(1e-6)))
    assert one.objective == pytest.approx(other.objective, rel=1e-6)
