"""All free alphas of a machine at once: conjugate gradients on a face of the box, over features.

Near the optimum nearly all rows stay at their bounds, and coordinate descent moves the free ones by less and
less. On the face of the box that these span, the dual is a quadratic programme without bounds,

    minimise   1/2 d'K d + g'd   subject to   sum d = 0,      K the Gram of the free rows, g their responses,

for a change d of their coefficients. Conjugate gradients solve it with residuals projected on sum d = 0
(Gould, Hribar and Nocedal 2001), preconditioned by the diagonal. Where coefficients would leave the box they
are put back on it, and the step is halved until the dual falls: Moré and Toraldo 1991.

A product with K is one with X' and one with X. Features that one free row alone has are in the diagonal, and
X is kept by rows and by columns: every number is one sum in a fixed order, by whichever thread.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.linalg.rows import FeatureRows
from textsvm.linalg.sparse import share
from textsvm.runtime.compiled import njit
from textsvm.runtime.memory import empty

Array = NDArray[Any]
Vector = NDArray[np.float64]
#: How often a step is halved at most, and the share of the promised fall that it must keep.
HALVINGS, ENOUGH = 12, 1e-4
#: Largest residual left of the first.
REDUCTION = 0.05


class Face:
    """The Gram of some rows, as products with it.

    Parameters
    ----------
    rows : FeatureRows
    free : int64 array, shape (m,)
        Which of the rows.
    """

    def __init__(self, rows: FeatureRows, free: NDArray[np.int64]) -> None:
        x = rows.x
        starts = np.zeros(x.n_features + 1, np.int64)
        self.indptr = np.zeros(len(free) + 1, np.int64)
        number = np.empty(x.n_features, np.int32)
        n_features = _number_shared(x.indptr, x.features, free, starts, number, self.indptr)
        self.starts, size = starts[: n_features + 1], int(self.indptr[-1])
        self.features, self.values = empty(size, np.int32), empty(size, np.float32)
        self.members, self.by_feature = empty(size, np.int32), empty(size, np.float32)
        self.diagonal = rows.ridge[free].astype(np.float64)
        self.squares = self.diagonal.copy()
        _fill(
            x.indptr, x.features, x.values, free, number, self.indptr, self.features, self.values,
            self.starts[:-1].copy(), self.members, self.by_feature, self.diagonal, self.squares,
        )  # fmt: skip

    def product(self, vector: Vector) -> Vector:
        """K @ vector."""
        weights, values = np.empty(len(self.starts) - 1), np.empty(len(self.diagonal))
        columns = (self.starts, self.members, self.by_feature, vector)
        share(self.starts, lambda a, b: _sum(a, b, *columns, weights))
        share(self.indptr, lambda a, b: _sum(a, b, self.indptr, self.features, self.values, weights, values))
        return values + self.diagonal * vector


def descend_face(
    face: Face,
    coef: Vector,
    box: tuple[Vector, Vector],
    responses: Vector,
    tol: float,
    most: int,
) -> tuple[Vector, int]:
    """Move the coefficients of a face to where the dual is less, their sum as it is.

    Parameters
    ----------
    face : Face
    coef : float64 array, shape (m,)
        Inside of the box.
    box : two float64 arrays, shape (m,)
        Least and largest coefficients.
    responses : float64 array, shape (m,)
        The gradient.
    tol : float
        Residual that is small enough.
    most : int
        Bound on the products with K.

    Returns
    -------
    float64 array, shape (m,), and the number of products
    """
    step, products = _conjugate_gradients(face, responses, tol, most)
    for _ in range(HALVINGS):
        trial = balanced(coef + step, box, float(coef.sum()))
        change = trial - coef
        promised = float((responses * change).sum())
        products += 1
        if promised + 0.5 * float((change * face.product(change)).sum()) <= ENOUGH * promised < 0:
            return trial, products
        step *= 0.5
    return coef, products


def balanced(coef: Vector, box: tuple[Vector, Vector], total: float = 0.0) -> Vector:
    """Coefficients of this sum in their box: what is left over is taken from those that are free."""
    low, high = box
    near = 1e-6 * (high - low)
    coef = np.where(coef < low + near, low, np.where(coef > high - near, high, coef))
    for _ in range(100):
        rest = coef.sum() - total
        if abs(rest) <= 1e-12 * np.abs(coef).sum():  # rounding: alphas at their bounds stay there
            break
        movable = (coef > low) & (coef < high)
        if not movable.any():
            movable = coef > low if rest > 0 else coef < high
        if not movable.any():
            break
        coef[movable] -= rest / np.count_nonzero(movable)
        coef = np.clip(coef, low, high)
    return coef


def _conjugate_gradients(face: Face, gradient: Vector, tol: float, most: int) -> tuple[Vector, int]:
    inverse = 1 / np.maximum(face.squares, 1e-12)
    share = inverse / inverse.sum()

    def project(residual: Vector) -> Vector:
        return residual - float((share * residual).sum())

    step, residual = np.zeros(len(gradient)), project(-gradient)
    goal = max(tol, REDUCTION * float(np.abs(residual).max(initial=0.0)))
    z = inverse * residual
    direction, slope = z, float((residual * z).sum())
    for products in range(most):
        if float(np.abs(residual).max(initial=0.0)) <= goal:
            return step, products
        product = face.product(direction)
        curve = float((direction * product).sum())
        if curve <= 1e-14 * slope:  # flat, as between equal documents: coordinate descent goes on
            return step, products + 1
        step += (slope / curve) * direction
        residual = project(residual - (slope / curve) * product)
        z = inverse * residual
        before, slope = slope, float((residual * z).sum())
        direction = z + (slope / before) * direction
    return step, most


@njit(nogil=True, cache=True)
def _number_shared(
    indptr: Array, features: Array, free: Array, starts: Array, number: Array, to: Array
) -> int:
    """Number the features that two of the rows have; where columns and rows start; how many there are."""
    for i in free:
        for k in range(indptr[i], indptr[i + 1]):
            starts[features[k]] += 1
    shared, end = 0, 0
    for u in range(len(number)):
        times = starts[u]
        number[u] = -1
        if times > 1:
            number[u] = shared
            starts[shared] = end
            shared += 1
            end += times
    starts[shared] = end
    for at in range(len(free)):
        size = 0
        for k in range(indptr[free[at]], indptr[free[at] + 1]):
            size += number[features[k]] >= 0
        to[at + 1] = to[at] + size
    return shared


@njit(nogil=True, cache=True)
def _fill(
    indptr: Array,
    features: Array,
    values: Array,
    free: Array,
    number: Array,
    begin: Array,
    to_features: Array,
    to_values: Array,
    cursor: Array,
    members: Array,
    by_feature: Array,
    diagonal: Array,
    squares: Array,
) -> None:
    for at in range(len(free)):
        to = begin[at]
        for k in range(indptr[free[at]], indptr[free[at] + 1]):
            v, u = values[k], number[features[k]]
            square = np.float64(v) * np.float64(v)
            squares[at] += square
            if u < 0:
                diagonal[at] += square
            else:
                to_features[to], to_values[to] = u, v
                to += 1
                members[cursor[u]], by_feature[cursor[u]] = at, v
                cursor[u] += 1


@njit(nogil=True, cache=True, fastmath={"nsz", "contract", "reassoc"})
def _sum(
    first: int, last: int, starts: Array, places: Array, values: Array, vector: Array, sums: Array
) -> None:
    for i in range(first, last):
        total = 0.0
        for k in range(starts[i], starts[i + 1]):
            total += np.float64(values[k]) * vector[places[k]]
        sums[i] = total
