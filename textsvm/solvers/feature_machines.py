"""Classifiers from features: the duals of `problems`, solved without any kernel value.

A machine takes turns: coordinate descent (`columns`, float32) finds which alphas stand at which bound, a
step on the face of those that stand at none (`faces`, float64) brings these to their optimum, and all
responses, in float64, say how well. Machines of the same rows descend together before they part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.linalg.rows import FeatureRows
from textsvm.runtime.parallel import Progress, run
from textsvm.solvers.columns import LEAST_COLUMNS, Columns, Descent, solve_columns
from textsvm.solvers.dual import Dual
from textsvm.solvers.faces import Face, balanced, descend_face
from textsvm.solvers.problems import Classification, Labelling, Machines, Part, collect, parts_of
from textsvm.solvers.solution import Solution, Stopping, assess, bounds, log_progress

Vector = NDArray[np.float64]
#: Where machines part: far from the optimum most rows move in some, near it few do, other ones in each.
TOGETHER = 0.03
#: The violation that the first descent of a machine ends at.
FIRST = 0.01
#: Epochs, and products of a face, of a turn.
EPOCHS, PRODUCTS = 20, 60


def can_solve(problem: object) -> bool:
    """Whether a problem is one of classifiers with a bias, each on its own."""
    if isinstance(problem, Classification):
        return problem.strategy in ("ovr", "ovo")
    return isinstance(problem, Labelling)


def solve_classifier(
    problem: Classification | Labelling,
    rows: FeatureRows,
    tol: float,
    max_epochs: int = 1000,
    progress: Progress | None = None,
    duality_gap: float | None = None,
) -> Machines:
    """Train the machines of a classifier; see `textsvm.solvers.problems.solve`.

    Parameters
    ----------
    problem : Classification or Labelling
        One that `can_solve` accepts; its index counts rows.
    rows : FeatureRows
    tol : float
        Largest violation of the optimality conditions.
    max_epochs : int
        Bound on the passes over the rows, products of a face among them.
    progress : callable, optional
    duality_gap : float, optional
        Relative duality gap that is small enough.
    """
    some = rows if np.array_equal(problem.index, np.arange(len(rows.x))) else rows.take(problem.index)
    parts, stopping = parts_of(problem), Stopping(tol, duality_gap=duality_gap)
    starts, used = _together(parts, some, tol, max_epochs)
    solutions: list[Any] = [None] * len(parts)

    def solve_part(k: int, step: Progress | None = None) -> None:
        own = some if len(parts[k].at) == len(some.x) else some.take(parts[k].at)
        made: Any = parts[k].dual
        solutions[k] = Machine(own, made, stopping, max_epochs).solve(starts[k], used, step)

    if len(parts) == 1:
        solve_part(0, progress)
    else:
        run(solve_part, range(len(parts)), progress=progress)
    return collect(problem, parts, solutions)


def _together(
    parts: Sequence[Part], rows: FeatureRows, tol: float, max_epochs: int
) -> tuple[list[Vector | None], int]:
    """Alphas that machines of the same rows start from, and the epochs these took."""
    n, m = len(rows.x), len(parts)
    duals: list[Any] = [part.dual for part in parts]
    if m < LEAST_COLUMNS or any(len(part.at) < n for part in parts):
        return [None] * m, 0
    signs = np.stack([one.sign for one in duals], axis=1).astype(np.int8)
    box = np.stack([one.upper for one in duals], axis=1).astype(np.float32)
    found = solve_columns(rows, Columns(np.arange(n), signs, box), max(tol / 2, TOGETHER), max_epochs)
    return [np.minimum(found.alpha[:, k], one.upper) for k, one in enumerate(duals)], found.epochs


@dataclass(frozen=True)
class Machine:
    """One dual of a classifier, and the rows of its variables.

    Attributes
    ----------
    rows : FeatureRows, m of them
    dual : Dual, m variables
    stopping : Stopping
    max_epochs : int
    """

    rows: FeatureRows
    dual: Dual
    stopping: Stopping
    max_epochs: int

    def solve(
        self, start: Vector | None = None, epochs: int = 0, progress: Progress | None = None
    ) -> Solution:
        """Train it, from these alphas on if there are any."""
        box, tol = bounds(self.dual), self.stopping.tol
        descent = Descent(self.rows, np.arange(len(self.dual)))
        coef, bias, order = np.zeros(len(self.dual)), 0.0, np.flatnonzero(self.dual.upper)
        if start is not None:
            coef = balanced(self.dual.sign * start, box)
        goal, most = max(tol / 2, FIRST), self.max_epochs
        first = 0.0
        while True:
            if start is None:
                coef, took = self._descend(
                    descent, order, coef, bias, goal, min(most, self.max_epochs - epochs)
                )
                epochs += took
            coef, took = self._face(balanced(coef, box), box, self.max_epochs - epochs)
            epochs += took
            solution = self._assess(coef, epochs)
            if solution.converged or epochs >= self.max_epochs:
                return solution
            first = max(first, solution.violation)
            if progress is not None:
                progress(*log_progress(first, solution.violation, tol))
            start, bias, most = None, solution.bias, EPOCHS
            order = self._open(solution)
            goal = max(0.3 * tol, 0.1 * solution.violation)

    def _descend(
        self, descent: Descent, order: NDArray[np.int64], coef: Vector, bias: float, tol: float, most: int
    ) -> tuple[Vector, int]:
        """Coefficients after coordinate descent over some rows, and the epochs it took."""
        sign, upper = self.dual.sign, self.dual.upper
        before = (sign * coef).astype(np.float32)
        alpha, box = before.copy(), upper.astype(np.float32)
        weights = self._weights(coef).astype(np.float32)
        at = np.array([bias], np.float32)
        column = sign.astype(np.int8), box, weights, alpha, at
        epochs, _ = descent.one(order, column, tol, most)
        moved = np.where(alpha >= box, upper, np.minimum(alpha, upper))
        return np.where(alpha == before, coef, sign * moved), epochs

    def _face(self, coef: Vector, box: tuple[Vector, Vector], most: int) -> tuple[Vector, int]:
        """Coefficients of which the free ones are better, and the products with their Gram."""
        low, high = box
        free = np.flatnonzero((coef > low) & (coef < high))
        if len(free) < 2 or most <= 0:
            return coef, 0
        responses = self._responses(coef, free)
        moved, took = descend_face(
            Face(self.rows, free), coef[free], (low[free], high[free]), responses,
            0.1 * self.stopping.tol, min(most, PRODUCTS),
        )  # fmt: skip
        coef = coef.copy()
        coef[free] = moved
        return coef, took

    def _weights(self, coef: Vector) -> Vector:
        return self.rows.x.transposed_dot(coef[:, None])[:, 0]

    def _responses(self, coef: Vector, some: NDArray[np.int64] | None = None) -> Vector:
        """The gradient with respect to coefficients, of some or of all of them."""
        rows = self.rows if some is None else self.rows.take(some)
        own = slice(None) if some is None else some
        values = rows.x.dot(self._weights(coef)[:, None])[:, 0]
        return np.asarray(values + rows.ridge * coef[own] - self.dual.sign[own])

    def _assess(self, coef: Vector, epochs: int) -> Solution:
        passed = epochs * len(coef)
        responses, why = self._responses(coef), "stopped at its bound on epochs"
        solution = assess(self.dual, coef, responses, passed, why, self.stopping.tol)
        if self.stopping.satisfied(solution.duality_gap):
            return replace(solution, converged=True, status="converged")
        return solution

    def _open(self, solution: Solution) -> NDArray[np.int64]:
        """The variables that may move: all but those that are well on the right side of a bound."""
        slack = self.dual.sign * (solution.responses + solution.bias)
        margin = max(solution.violation, self.stopping.tol)
        settled = ((solution.alpha <= 0) & (slack > margin)) | (
            (solution.alpha >= self.dual.upper) & (slack < -margin)
        )
        return np.flatnonzero(~settled & (self.dual.upper > 0))
