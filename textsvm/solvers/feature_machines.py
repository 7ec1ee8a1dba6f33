"""Classifiers from features: the duals of `problems`, solved by `columns` without any kernel value."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from textsvm.features.rows import FeatureRows
from textsvm.parallel import Progress
from textsvm.solvers import dual
from textsvm.solvers.columns import Columns, ColumnSolution, solve_columns
from textsvm.solvers.problems import Classification, Machines
from textsvm.solvers.solution import Solution, assess, bounds


def can_solve(problem: object) -> bool:
    """Whether a problem is one that columns stand for: one machine a class, or one of two classes."""
    return isinstance(problem, Classification) and (
        problem.strategy == "ovr" or (problem.n_classes == 2 and problem.strategy == "ovo")
    )


def columns_of(problem: Classification) -> Columns:
    """The machines of a classifier: each class against the rest, of two the second against the first."""
    first = 1 if problem.n_classes == 2 else 0
    machines = np.arange(first, problem.n_classes)
    signs = np.where(problem.target[:, None] == machines, 1, -1).astype(np.int8)
    box = np.repeat((problem.C * problem.weight)[:, None], len(machines), axis=1)
    return Columns(np.arange(len(signs)), signs, box.astype(np.float32))


def solve_classifier(
    problem: Classification,
    rows: FeatureRows,
    tol: float,
    max_epochs: int = 1000,
    progress: Progress | None = None,
) -> Machines:
    """Train the machines of a classifier; see `textsvm.solvers.problems.solve`.

    Parameters
    ----------
    problem : Classification
        One that `can_solve` accepts; its index counts rows.
    rows : FeatureRows
    tol : float
        Largest violation of the optimality conditions.
    max_epochs : int
    progress : callable, optional
    """
    some = rows.take(problem.index) if len(problem.index) < len(rows.x) else rows
    columns = columns_of(problem)
    found = solve_columns(some, columns, tol / 2, max_epochs, progress=progress)
    solutions = _assess_all(found, columns, problem, some, tol)
    missed = [k for k, one in enumerate(solutions) if not one.converged]
    if missed and found.epochs < max_epochs:  # by what the balance took from free alphas
        few = Columns(columns.index, columns.signs[:, missed], columns.box[:, missed])
        again = _assess_all(solve_columns(some, few, tol / 20, max_epochs), few, problem, some, tol)
        for k, one in zip(missed, again, strict=True):
            solutions[k] = one
    coefs = np.array([solution.coef for solution in solutions])
    return Machines(problem.index, coefs, np.array([one.bias for one in solutions]), tuple(solutions))


def _assess_all(
    found: ColumnSolution, columns: Columns, problem: Classification, rows: FeatureRows, tol: float
) -> list[Solution]:
    solutions = []
    for k in range(columns.signs.shape[1]):
        sign = columns.signs[:, k].astype(np.float64)
        coef = _balanced(sign * found.alpha[:, k], sign, problem)
        solutions.append(_assessed(coef, sign, problem, rows, tol, found.epochs))
    return solutions


def _balanced(
    coef: NDArray[np.float64], sign: NDArray[np.float64], problem: Classification
) -> NDArray[np.float64]:
    """Coefficients of sum 0, in their box: what is left over is taken from those that are free."""
    made = dual.svc(sign, problem.C, problem.weight, problem.index)
    low, high = bounds(made)
    coef = np.clip(coef, low, high)
    near = 1e-6 * (high - low)
    coef = np.where(coef < low + near, low, np.where(coef > high - near, high, coef))
    for _ in range(100):
        rest = coef.sum()
        if abs(rest) <= 1e-12 * np.abs(coef).sum():  # rounding: alphas at their bounds stay there
            break
        movable = (coef > low) & (coef < high)
        if not movable.any():
            movable = coef > low if rest > 0 else coef < high
        coef[movable] -= rest / np.count_nonzero(movable)
        coef = np.clip(coef, low, high)
    return coef


def _assessed(
    coef: NDArray[np.float64],
    sign: NDArray[np.float64],
    problem: Classification,
    rows: FeatureRows,
    tol: float,
    epochs: int,
) -> Solution:
    made = dual.svc(sign, problem.C, problem.weight, problem.index)
    values = rows.x.dot(rows.x.transposed_dot(coef[:, None]))[:, 0] + rows.ridge * coef
    return assess(made, coef, values - sign, epochs * len(coef), "stopped at its bound on epochs", tol)
