"""Random learning problems: what a solver says of its solution is true, and LIBSVM's is no better."""

import dataclasses

import numpy as np
import pytest

from textsvm.bench import numerics
from textsvm.bench.random_problems import GRAMS, PROBLEMS
from textsvm.gram.base import DenseGram
from textsvm.solvers import smo
from textsvm.solvers.dual import svc


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
    solution = smo.solve(DenseGram(matrix), dual, tol=1e-6)

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
