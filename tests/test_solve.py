"""Many problems side by side on the CPU, and where each starts, against each solved alone."""

import threading
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from problems import ArrayRows, chains, gaussian, indefinite, judge, solve_dual
from refusals import refuses

from textsvm.gram.base import CachedGram, DenseGram, needed_bytes
from textsvm.runtime import parallel
from textsvm.solvers import cuda_queue, smo
from textsvm.solvers import dual as duals
from textsvm.solvers.dual import one_class, svc, svr
from textsvm.solvers.solution import Stopping, bounds, warm_start
from textsvm.solvers.solve import divide, solve_chains


def value(matrix, dual, coef):
    """The objective and the responses at these coefficients, in float64."""
    values = matrix.astype(np.float64)[np.ix_(dual.index, dual.index)]
    q = dual.sign * dual.linear
    return 0.5 * coef @ values @ coef + q @ coef, values @ coef + q


@pytest.fixture(params=[1, 4])
def threads(request):
    with parallel.limit(request.param):
        yield request.param


@pytest.mark.parametrize("name", chains(20))
def test_chains_equal_problems_solved_alone(name, threads):
    matrix, problems, initial = chains(150)[name]
    many = solve_chains(DenseGram(matrix), problems, Stopping(1e-6), initial=initial)
    assert [len(solutions) for solutions in many] == [len(chain) for chain in problems]
    for chain, solutions in zip(problems, many, strict=True):
        for dual, solution in zip(chain, solutions, strict=True):
            judge(solution, matrix, dual, 1e-6)
            assert solution.converged
            start = feasible(dual)
            alone = solve_dual(DenseGram(matrix), dual, tol=1e-6, initial=start)
            assert solution.objective == pytest.approx(alone.objective, rel=1e-6, abs=1e-9)


def feasible(dual):
    """Some variables with the right total."""
    if dual.total == 0:
        return None
    before = np.concatenate([[0.0], np.cumsum(dual.upper)[:-1]])
    start = np.clip(dual.total - before, 0, dual.upper)
    return start


def test_a_path_costs_less_than_its_problems_alone():
    matrix, y = gaussian(400)
    path = [svc(y, C) for C in np.logspace(-2, 1, 12)]
    many = solve_chains(DenseGram(matrix), [path])[0]
    alone = [solve_dual(DenseGram(matrix), dual) for dual in path]
    assert sum(s.iterations for s in many) < 0.7 * sum(s.iterations for s in alone)


@given(
    seed=st.integers(0, 500),
    n=st.integers(2, 25),
    C=st.tuples(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3)),
    epsilon=st.tuples(st.floats(0, 1), st.floats(0, 1)),
    kind=st.sampled_from(["svc", "weights", "svr", "one class"]),
    definite=st.booleans(),
)
def test_a_warm_start_is_feasible_and_no_worse(seed, n, C, epsilon, kind, definite):
    matrix, y = gaussian(n, seed) if definite else indefinite(n, seed)
    rng = np.random.default_rng(seed)
    index = rng.permutation(n)
    start = None
    if kind == "svr":
        first, then = (svr(y * rng.random(n), c, e, index=index) for c, e in zip(C, epsilon, strict=True))
    elif kind == "one class":
        (first, start), (then, _) = (one_class(n, min(1, c / 1e3 + 0.01), index=index) for c in C)
    else:
        weight = [rng.choice([0.0, 1.0, 2.0], n) if kind == "weights" else None for _ in C]
        first, then = (svc(y, c, w, index) for c, w in zip(C, weight, strict=True))
    if kind == "svr":  # the same targets, which `svr` was given anew
        then = duals.Dual(first.sign, first.linear - epsilon[0] + epsilon[1], then.upper, first.index)
    solution = solve_dual(DenseGram(matrix), first, initial=start, max_iter=100_000)
    coef, responses = warm_start(then, first, solution)
    low, high = bounds(then)
    assert ((low <= coef) & (coef <= high)).all()
    scale = max(1.0, float(np.abs(coef).sum()))
    assert abs(coef.sum() - then.total) <= 1e-9 * scale
    objective, exact = value(matrix, then, coef)
    if responses is not None:
        np.testing.assert_allclose(responses, exact, rtol=0, atol=1e-9 * max(scale, C[1]))
        former = first.sign * solution.alpha
        for other in (former, 0 * former) if then.total == 0 else (former,):
            assert objective <= value(matrix, then, other)[0] + 1e-9 * scale * max(1.0, scale)
    elif kind == "svc":
        assert C[1] < C[0]
    judge(solve_dual(DenseGram(matrix), then, initial=np.abs(coef), max_iter=100_000), matrix, then, 1e-3)


def test_rows_on_demand_along_a_chain():
    matrix, problems, _ = chains(150)["C up and down"]
    many = solve_chains(CachedGram(ArrayRows(matrix), needed_bytes(150, 40)), problems, Stopping(1e-6))
    for chain, solutions in zip(problems, many, strict=True):
        for dual, solution in zip(chain, solutions, strict=True):
            judge(solution, matrix, dual, 1e-6)


def test_the_same_bits_on_any_number_of_threads():
    matrix, problems, _ = chains(150)["folds, C up"]
    found = []
    for threads in (1, 3):
        with parallel.limit(threads):
            found.append(solve_chains(DenseGram(matrix), problems))
    for one, other in zip(*found, strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a.alpha, b.alpha)
            np.testing.assert_array_equal(a.responses, b.responses)


def test_chains_do_run_side_by_side(monkeypatch):
    matrix, problems, _ = chains(60)["folds, C up"]
    both = threading.Barrier(2, timeout=20)
    run = smo.Run.solve

    def together(self):
        both.wait()  # breaks unless two chains are under way
        return run(self)

    problems = [problems[0][:1], problems[1][:1]]
    monkeypatch.setattr(smo.Run, "solve", together)
    with parallel.limit(2):
        solve_chains(DenseGram(matrix), problems)


def test_progress_grows_to_its_total(threads):
    matrix, problems, _ = chains(150)["pairs of classes"]
    seen = []
    solve_chains(DenseGram(matrix), problems, progress=lambda *now: seen.append(now))
    done = [now[0] for now in seen]
    assert done == sorted(done)
    assert seen[-1][0] == pytest.approx(seen[-1][1])


def test_an_interruption_stops_all_threads(threads):
    matrix, y = gaussian(1200)
    problems = [[svc(y, C) for C in np.logspace(1, 5, 40)]] * 4
    seen = []

    def stop(done, total):
        seen.append(done / total)
        raise KeyboardInterrupt

    before = set(threading.enumerate())
    with pytest.raises(KeyboardInterrupt):
        solve_chains(DenseGram(matrix), problems, progress=stop)
    assert seen[0] < 0.9
    for thread in set(threading.enumerate()) - before:
        thread.join(5)  # the stretch it is in is its last
        assert not thread.is_alive()


@pytest.mark.parametrize("place", [(3, 3), (3, 4)])
def test_a_failure_in_one_chain_reaches_the_caller(threads, place):
    matrix, problems, _ = chains(60)["folds, C up"]
    matrix[place] = matrix[place[::-1]] = np.nan
    refuses("finite", solve_chains, DenseGram(matrix), problems)


def test_a_failure_in_progress_stops_all_threads(threads):
    matrix, y = gaussian(1200)
    problems = [[svc(y, C) for C in np.logspace(1, 5, 40)]] * 4

    with pytest.raises(ZeroDivisionError):
        solve_chains(DenseGram(matrix), problems, progress=Mock(side_effect=ZeroDivisionError))


def test_max_iter_holds_for_each_problem(threads):
    matrix, problems, _ = chains(150)["folds, C up"]
    many = solve_chains(DenseGram(matrix), problems, Stopping(max_iter=7))
    for chain, solutions in zip(problems, many, strict=True):
        for dual, solution in zip(chain, solutions, strict=True):
            assert solution.iterations <= 7
            assert solution.converged or solution.status == "stopped at 7 iterations"
            judge(solution, matrix, dual, 1e-3)
    assert not all(solution.converged for solutions in many for solution in solutions)


def test_a_duality_gap_holds_for_each_problem(threads):
    matrix, problems, _ = chains(150)["folds, C up"]
    loose = solve_chains(DenseGram(matrix), problems, Stopping(1e-6, duality_gap=0.05))
    tight = solve_chains(DenseGram(matrix), problems, Stopping(1e-6))
    for a, b in zip(loose, tight, strict=True):
        assert all(s.converged and s.duality_gap <= 0.05 for s in a)
        for one, best in zip(a, b, strict=True):
            assert one.objective - best.objective <= 0.05 * abs(one.objective) * 1.1
    count = [sum(s.iterations for chain in many for s in chain) for many in (loose, tight)]
    assert count[0] < 0.7 * count[1]


def test_no_chains():
    assert solve_chains(DenseGram(np.eye(3, dtype=np.float32)), []) == []


@given(st.lists(st.floats(0.1, 100), max_size=60), st.integers(1, 8))
def test_cards_share_all_work_fairly(costs, cards):
    shares = divide(costs, cards)
    assert len(shares) == cards
    assert sorted(k for share in shares for k in share) == [*range(len(costs))]
    assert all(share == sorted(share) for share in shares)
    loads = [sum(costs[k] for k in share) for share in shares]
    # Who has most was the one with least before it took its last piece.
    assert max(loads) <= min(loads) + max(costs, default=0) + 1e-9


def test_the_largest_problem_has_a_card_of_its_own():
    assert divide([1, 1, 10, 1, 1], 2) == [[2], [0, 1, 3, 4]]


@pytest.mark.parametrize("slots", [1, 3, 7, 100])
@pytest.mark.parametrize("name", ["lengths", "one class", "pairs of classes"])
def test_stretches_are_the_chains_in_pieces(name, slots):
    problems = chains(30)[name][1]
    pieces = list(cuda_queue.stretches(problems, slots, cuts=True))
    every = [(c, k) for c, first, last in pieces for k in range(first, last)]
    assert sorted(every) == [(c, k) for c, chain in enumerate(problems) for k in range(len(chain))]
    if name == "one class":  # zeros are not feasible within it
        assert pieces == [(0, 0, 4)]
    else:
        assert max(last - first for _, first, last in pieces) <= -(-len(every) // slots)
    whole = list(cuda_queue.stretches(problems, slots, cuts=False))
    assert sorted(whole) == [(c, 0, len(chain)) for c, chain in enumerate(problems)]
