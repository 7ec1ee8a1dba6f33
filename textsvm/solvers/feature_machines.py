"""Classifiers from sparse features on a CPU, without kernel values.

Coordinate descent (`columns`, float32) runs until the tolerance is reached, and all responses are computed,
in float64, to judge optimality. If descent is too slow, or the tolerance too small for float32, a machine
alternates between descent and steps on the face of the free alphas (float64).

Faces. Near the optimum nearly all rows stay at their bounds, and coordinate descent may move the free ones by
less and less. On the face of the box that the free alphas span, the dual is a quadratic programme without
bounds,

    minimise   1/2 d'K d + g'd   subject to   sum d = 0,      K the Gram of the free rows, g their responses,

for a change d of their coefficients. Conjugate gradients solve it with residuals projected on sum d = 0
(Gould, Hribar and Nocedal 2001), preconditioned by the diagonal. Coefficients that would leave the box are
put back on it, and the step is halved until the dual falls (Moré and Toraldo 1991).

A product with K is a product with X' and then with X. Features of a single free row are in the diagonal, and
X is stored by rows and by columns: every number is a sum in a fixed order, for any number of threads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from textsvm.arrays import Floats, Ints, Ints32
from textsvm.linalg.products import InvertedIndex
from textsvm.linalg.rows import FeatureRows
from textsvm.linalg.sparse import Sparse, run_on_ranges, unsigned
from textsvm.runtime.compiled import njit, simd
from textsvm.runtime.memory import empty
from textsvm.runtime.parallel import Progress, report, run
from textsvm.solvers.columns import Descent
from textsvm.solvers.dual import Dual
from textsvm.solvers.problems import Classification, Labelling, Machines, collect, machine_duals
from textsvm.solvers.solution import Solution, Stopping, assess, balance_columns, bounds, log_progress

Box = tuple[Floats, Floats]
MAX_EPOCHS = 1000  #: Bound on epochs if the user sets none.
ROUGH = 0.02  #: A tolerance that descent alone attains at less cost.
FIRST = 0.5  #: Violation at which the first descent of a machine ends, in units of the tolerance.
FINEST = 5e-4  #: Minimum of this violation, in units of decision values: descent is in float32.
FIRST_EPOCHS = 400  #: Bound on the epochs of the first descent.
EPOCHS = 20  #: Epochs of coordinate descent per step.
PRODUCTS = 60  #: Products with the Gram of a face per step.
HALVINGS = 12  #: Maximum number of halvings of a step on a face.
ENOUGH = 1e-4  #: Share of the predicted decrease that a step on a face must attain.
REDUCTION = 0.05  #: Residual, in units of the first, at which conjugate gradients end.


def solve_by_descent(
    problem: Classification | Labelling, rows: FeatureRows, stop: Stopping, progress: Progress | None = None
) -> Machines:
    """Train the machines of a classifier with strategy "ovr" or "ovo"; its index refers to `rows`.

    Epochs are passes over all rows, or products with the Gram of a face; for the bound of `stop` an epoch
    counts as n iterations.
    """
    part_rows = rows if np.array_equal(problem.index, np.arange(len(rows.x))) else rows.take(problem.index)
    parts, max_epochs = machine_duals(problem), epochs_of(stop, len(rows.x))
    solutions: list[Any] = [None] * len(parts)

    def solve_part(k: int, step: Progress | None = None) -> None:
        own = part_rows if len(parts[k].at) == len(part_rows.x) else part_rows.take(parts[k].at)
        dual: Any = parts[k].dual
        solutions[k] = FeatureMachine(own, dual, stop, max_epochs).solve(progress=step)

    if len(parts) == 1:
        solve_part(0, progress)
    else:
        run(solve_part, range(len(parts)), progress=progress)
    return collect(problem, parts, solutions)


def epochs_of(stopping: Stopping, n: int) -> int:
    """Bound on the epochs of n rows."""
    return MAX_EPOCHS if stopping.max_iter < 0 else max(1, stopping.max_iter // max(1, n))


@dataclass(frozen=True)
class FeatureMachine:
    """A dual of a classifier with m variables, and the m rows of these variables."""

    rows: FeatureRows
    dual: Dual
    stopping: Stopping
    max_epochs: int

    def solve(self, start: Floats | None = None, progress: Progress | None = None) -> Solution:
        """Train the machine, starting from the alphas `start` if given."""
        box, tol = bounds(self.dual), self.stopping.tol
        coef, bias, order = np.zeros(len(self.dual)), 0.0, np.flatnonzero(self.dual.upper)
        epochs = 0
        if start is not None:
            coef = balance(self.dual.sign * start, box)
            solution = self._assess(coef, epochs)
            if solution.converged:
                return solution
            bias, order = solution.bias, self._open(solution)
        descent = Descent(self.rows, np.arange(len(self.dual)))
        goals = sorted({max(FIRST * tolerance, FINEST) for tolerance in self.stopping.tolerances()})
        most, first = FIRST_EPOCHS, 0.0
        while True:
            goal, left = goals.pop(), min(most, self.max_epochs - epochs)
            coef, passes, violation = self._descend(descent, order, coef, bias, goal, left)
            coef, epochs = balance(coef, box), epochs + passes
            if violation <= goal and (goal <= tol or goals):  # descent alone may suffice
                solution = self._assess(coef, epochs)
                if solution.converged:
                    return solution
                if goals:
                    bias = solution.bias
                    continue
            coef, passes = self._face(coef, box, self.max_epochs - epochs)
            epochs += passes
            solution = self._assess(coef, epochs)
            if solution.converged or epochs >= self.max_epochs:
                return solution
            first = max(first, solution.violation)
            report(progress, *log_progress(first, solution.violation, tol))
            bias, most, order = solution.bias, EPOCHS, self._open(solution)
            goals = [max(0.3 * tol, 0.1 * solution.violation)]

    def _descend(
        self, descent: Descent, order: Ints, coef: Floats, bias: float, tol: float, most: int
    ) -> tuple[Floats, int, float]:
        """Coefficients after coordinate descent over some rows, the number of epochs, and the violation."""
        sign, upper = self.dual.sign, self.dual.upper
        before = (sign * coef).astype(np.float32)
        alpha, box = before.copy(), upper.astype(np.float32)
        weights = self._weights(coef).astype(np.float32)
        at = np.array([bias], np.float32)
        column = sign.astype(np.int8), box, weights, alpha, at
        epochs, violation = descent.solve_column(order, column, tol, most)
        moved = np.where(alpha >= box, upper, np.minimum(alpha, upper))
        return np.where(alpha == before, coef, sign * moved), epochs, violation

    def _face(self, coef: Floats, box: Box, most: int) -> tuple[Floats, int]:
        """Coefficients after a step on their face, and the number of products with its Gram."""
        low, high = box
        free = np.flatnonzero((coef > low) & (coef < high))
        if len(free) < 2 or most <= 0:
            return coef, 0
        responses = self._responses(coef, free)
        moved, products = descend_face(
            Face(self.rows, free), coef[free], (low[free], high[free]), responses,
            0.1 * self.stopping.tol, min(most, PRODUCTS),
        )  # fmt: skip
        coef = coef.copy()
        coef[free] = moved
        return coef, products

    def _weights(self, coef: Floats) -> Floats:
        return self.rows.x.transposed_dot(coef[:, None])[:, 0]

    def _responses(self, coef: Floats, index: Ints | None = None) -> Floats:
        """The gradient with respect to the coefficients, or to some of them."""
        rows = self.rows if index is None else self.rows.take(index)
        own = slice(None) if index is None else index
        values = rows.x.dot(self._weights(coef)[:, None])[:, 0]
        return np.asarray(values + rows.ridge * coef[own] - self.dual.sign[own])

    def _assess(self, coef: Floats, epochs: int) -> Solution:
        passes, status = epochs * len(coef), "stopped at its bound on epochs"
        return assess(self.dual, coef, self._responses(coef), passes, status, self.stopping)

    def _open(self, solution: Solution) -> Ints:
        """The variables that may move: all except variables that the gradient clearly keeps at a bound."""
        slack = self.dual.sign * (solution.responses + solution.bias)
        margin = max(solution.violation, self.stopping.tol)
        at_zero, at_upper = solution.alpha <= 0, solution.alpha >= self.dual.upper
        settled = (at_zero & (slack > margin)) | (at_upper & (slack < -margin))
        return np.flatnonzero(~settled & (self.dual.upper > 0))


class Face:
    """Products with the Gram of some rows; `free` holds their m numbers."""

    def __init__(self, rows: FeatureRows, free: Ints) -> None:
        own = restricted(rows, free)
        columns, self.x = InvertedIndex(own.x), own.x
        self.starts, self.members, self.by_feature = columns.indptr, columns.documents, columns.values
        self.diagonal, self.squares = own.ridge, own.x.squares() + own.ridge

    def product(self, vector: Floats) -> Floats:
        """K @ vector."""
        weights, values = np.empty(len(self.starts) - 1), np.empty(len(self.diagonal))
        columns = (unsigned(self.starts), unsigned(self.members), self.by_feature, vector, weights)
        rows = (unsigned(self.x.indptr), unsigned(self.x.features), self.x.values, weights, values)
        run_on_ranges(self.starts, lambda a, b: _sum(a, b, *columns))
        run_on_ranges(self.x.indptr, lambda a, b: _sum(a, b, *rows))
        return values + self.diagonal * vector


def descend_face(
    face: Face, coef: Floats, box: Box, responses: Floats, tol: float, most: int
) -> tuple[Floats, int]:
    """Lower the dual on a face, with the sum of the free coefficients `coef`, inside `box`, fixed.

    Stops at residual `tol` or after `most` products with K. Returns coefficients and the number of products.
    """
    step, products = _conjugate_gradients(face, responses, tol, most)
    for _ in range(HALVINGS):
        trial = balance(coef + step, box, float(coef.sum()))
        change = trial - coef
        predicted = float((responses * change).sum())
        products += 1
        if predicted + 0.5 * float((change * face.product(change)).sum()) <= ENOUGH * predicted < 0:
            return trial, products
        step *= 0.5
    return coef, products


def balance(coef: Floats, box: Box, total: float = 0.0) -> Floats:
    """Put coefficients into their box, and make their sum `total` by moving free coefficients equally."""
    low, high = box
    near = 1e-6 * (high - low)
    coef = np.where(coef < low + near, low, np.where(coef > high - near, high, coef))
    return balance_columns(np, coef[:, None], low[:, None], high[:, None], np.array([total]))[:, 0]


def _conjugate_gradients(face: Face, gradient: Floats, tol: float, most: int) -> tuple[Floats, int]:
    inverse = 1 / np.maximum(face.squares, 1e-12)
    shares = inverse / inverse.sum()

    def project(residual: Floats) -> Floats:
        return residual - float((shares * residual).sum())

    step, residual = np.zeros(len(gradient)), project(-gradient)
    goal = max(tol, REDUCTION * float(np.abs(residual).max(initial=0.0)))
    z = inverse * residual
    direction, slope = z, float((residual * z).sum())
    for products in range(most):
        if float(np.abs(residual).max(initial=0.0)) <= goal:
            return step, products
        product = face.product(direction)
        curve = float((direction * product).sum())
        if curve <= 1e-14 * slope:  # flat, as between equal documents: left to coordinate descent
            return step, products + 1
        step += (slope / curve) * direction
        residual = project(residual - (slope / curve) * product)
        z = inverse * residual
        before, slope = slope, float((residual * z).sum())
        direction = z + (slope / before) * direction
    return step, most


def restricted(rows: FeatureRows, at: Ints, numbers: Ints32 | None = None) -> FeatureRows:
    """Some rows, over the features that several of them have; `numbers`, zeros, are restored."""
    x, ridge = rows.x, rows.ridge[at]
    size = int(np.diff(x.indptr)[at].sum())
    indptr, features, values = np.zeros(len(at) + 1, np.int64), empty(size, np.int32), empty(size, np.float32)
    numbers = np.zeros(x.n_features, np.int32) if numbers is None else numbers
    n_features = _take(x.indptr, x.features, x.values, at, numbers, indptr, features, values, ridge)
    return FeatureRows(Sparse(indptr, features[: indptr[-1]], values[: indptr[-1]], n_features), ridge)


@njit(nogil=True, cache=True)
def _take(indptr, features, values, at, numbers, to, to_features, to_values, ridge):
    """Fill the arrays of `restricted`; returns the number of features."""
    for i in at:
        for k in range(indptr[i], indptr[i + 1]):
            numbers[features[k]] -= 1
    n_features = place = 0
    for row in range(len(at)):
        for k in range(indptr[at[row]], indptr[at[row] + 1]):
            u, value = features[k], values[k]
            simd.prefetch(numbers, np.int64(features[min(k + 32, len(features) - 1)]))  # seldom in a cache
            if numbers[u] == -1:  # of this row alone
                ridge[row] += np.float64(value) * np.float64(value)
                continue
            if numbers[u] < 0:
                n_features += 1
                numbers[u] = n_features
            to_features[place], to_values[place] = numbers[u] - 1, value
            place += 1
        to[row + 1] = place
    for i in at:
        for k in range(indptr[i], indptr[i + 1]):
            numbers[features[k]] = 0
    return n_features


@njit(nogil=True, cache=True, fastmath={"nsz", "contract", "reassoc"})
def _sum(first, last, starts, places, values, vector, sums):
    for i in range(first, last):
        total = 0.0
        for k in range(starts[i], starts[i + 1]):
            total += np.float64(values[k]) * vector[places[k]]
        sums[i] = total
