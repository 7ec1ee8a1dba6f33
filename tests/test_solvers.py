"""Random learning problems: what a solver says of its solution is true, and LIBSVM's is no better."""

import dataclasses
from itertools import chain

import numpy as np
import pytest
from problems import gaussian, solve_dual

from benchmarks import numerics
from benchmarks.random_problems import GRAMS, PROBLEMS, random_problem
from textsvm.gram.base import DenseGram
from textsvm.solvers import crammer_singer as multiclass
from textsvm.solvers import problems
from textsvm.solvers.dual import crammer_singer, svc
from textsvm.solvers.solution import Stopping, assess
from textsvm.solvers.solve import solve_chains


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, 500, 100))
def test_five_hundred_problems(start):
    trials = [numerics.trial(seed) for seed in range(start, start + 100)]
    assert [one for one in trials if one.wrong] == []
    assert sum(one.excess is not None for one in trials) > 40
    assert len({one.kind for one in trials}) == len(PROBLEMS)
    assert len({one.gram for one in trials}) == len(GRAMS)
    assert {one.semidefinite for one in trials} == {True, False}
    assert {one.converged for one in trials} == {True, False}


def test_the_judge_sees_what_is_untrue():
    matrix = np.eye(4, dtype=np.float32)
    dual = svc([1, -1, 1, -1], 10)
    solution = solve_dual(DenseGram(matrix), dual, tol=1e-6)

    def said(**changes):
        return numerics.judge(matrix, dual, dataclasses.replace(solution, **changes), 1e-6, 1.0)[0]

    assert said() == ""
    assert "violation" in said(violation=1e-7)
    assert "objective" in said(objective=solution.objective + 1e-6)
    assert "flag" in said(converged=False)
    assert "status" in said(status="stalled")
    assert "infeasible" in said(coef=solution.coef + np.array([1e-3, 0, 0, 0]))
    assert "finite" in said(bias=np.nan)


@pytest.mark.parametrize("seed", [165, 254, 920])
def test_what_has_converged_has(seed):
    """Rounding of many steps had added up to more than the tolerance: said to be below it, and was not."""
    one = numerics.trial(seed)
    assert not one.wrong
    assert not (one.converged and one.beyond)


def test_what_stops_short_says_how_far_it_has_come():
    """50,000 steps had added up to more than rounding of the terms can."""
    one = numerics.trial(18404)
    assert not one.converged
    assert not one.wrong


def test_rounding_that_does_not_even_out():
    """Of 10,000 steps after responses had been made anew, ten times what a random walk would have made."""
    assert not numerics.trial(67336).wrong


@pytest.mark.parametrize("seed", [1301, 1432])
def test_kernel_values_beside_a_diagonal_of_0_count(seed):
    """Minus squared distances: rounding was judged by the diagonal alone, and nothing was said of it."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(5, 40))
    points = rng.integers(-3, 4, size=(n, int(rng.integers(1, 4)))) * 10.0 ** rng.integers(2, 6)
    matrix = -((points[:, None] - points) ** 2).sum(2).astype(np.float32)
    C, y = 10.0 ** rng.integers(-4, 4), np.where(rng.random(n) < 0.5, 1, -1)
    y[:2] = 1, -1
    solution = solve_dual(DenseGram(matrix), svc(y, C), 1e-6, 20_000)
    assert numerics.judge(matrix, svc(y, C), solution, 1e-6, 1.0) == ("", False)


@pytest.mark.parametrize("seed", [715, 2824])
def test_rounding_is_carried_along_a_path_of_C(seed):
    """Responses of a warm start are a multiple of the former ones, and so is what these were off by."""
    _, matrix, _, problem, unit = random_problem(seed)
    tol = 1e-6 * unit
    paths = [
        problems.machine_duals(dataclasses.replace(problem, C=problem.C * 10.0**k)) for k in range(-4, 1)
    ]
    chains = [[part.dual for part in parts] for parts in zip(*paths, strict=True)]
    solved = solve_chains(DenseGram(matrix), chains, Stopping(tol, 5000))
    for dual, solution in zip(chain(*chains), chain(*solved), strict=True):
        values = matrix[np.ix_(dual.index, dual.index)].astype(np.longdouble)
        responses = np.asarray(values @ solution.coef + dual.sign * dual.linear, np.float64)
        true = assess(dual, solution.coef, responses, 0, "", Stopping(tol)).violation
        reach = float((np.abs(values) @ np.abs(solution.coef)).max()) + unit
        assert abs(true - solution.violation) < 0.02 * tol + 20 * np.finfo(float).eps * reach


def test_gradients_of_several_classes_are_made_anew(monkeypatch):
    matrix, _ = gaussian(60)
    dual = crammer_singer(np.arange(60) % 3, 3, 10.0)
    one_round, noise = multiclass.MulticlassRun.round, np.random.default_rng(0).normal(size=(3, 60))

    def off(run, *given):
        made = one_round(run, *given)
        run.G += 1e-6 * noise
        run.largest = 1e15  # rounding that would explain it
        return made

    monkeypatch.setattr(multiclass.MulticlassRun, "round", off)
    for most in (100, -1):
        [[solution]] = solve_chains(DenseGram(matrix), [[dual]], Stopping(1e-6, most))
        assert numerics.judge(matrix, dual, solution, 1e-6, 1.0) == ("", False)
        assert solution.converged == (most < 0)
