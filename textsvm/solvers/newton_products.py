"""Products with rows of features for `solvers.newton`, on the CPU; and with dense rows, on either device.

A preconditioner for conjugate gradients with dense rows: the Hessian of some free rows, factored.

With A = [X, constant] and d features Newton's equation has H = diag(1, .., 1, hold) + A'DA, (d + 1)^2
numbers, for each column. A sample of SAMPLE d free rows, each counted for those it stands for, gives a P with
|P^-1/2 H P^-1/2 - I| of about SAMPLE^-1/2, whatever the condition of H: a handful of iterations instead of
hundreds, at a cost that does not grow with n. An old P, of another sigma or of other free rows, is as right
and only slower; it is made anew where the step before took so many iterations that making it is cheaper.

P^-1 = W'W with W the inverse of P's Cholesky factor, all in float64: it stays positive definite when rounded.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from textsvm.linalg.products import InvertedIndex
from textsvm.linalg.rows import FeatureRows
from textsvm.linalg.sparse import Sparse
from textsvm.runtime.device import array_module, device_of
from textsvm.solvers.proximal import NewtonSystem, Products, conjugate_gradients, constant_of

if TYPE_CHECKING:
    from textsvm.linalg.dense import DenseRows
    from textsvm.solvers.proximal import NewtonSystem


Array = Any  # CuPy or NumPy
#: Free rows in the sample for each feature.
SAMPLE = 16
#: Additions of a product of matrices in the time of one in a pass over rows, which waits for memory.
RATE = 32
#: Iterations that a new preconditioner takes as well.
FRESH = 10
#: Products of d x d matrices that a factor and its inverse take.
FACTOR = 3
#: Bytes of W that there is room for, of all columns.
MOST_BYTES = 2 << 30


class Preconditioner:
    """P^-1 of every column, none at first.

    Parameters
    ----------
    constant : float
        What stands beside X.
    """

    def __init__(self, constant: float) -> None:
        self.constant, self.iterations = constant, 0
        self._inverses: list[Array] = []

    def prepare(self, xp: Any, x: DenseRows, system: NewtonSystem) -> None:
        """Make it for a system, if that pays."""
        d, k = system.gradient.shape
        if len(self._inverses) != k:  # of other machines
            self._inverses.clear()
        free = (system.curvature > 0).sum(axis=0)
        rows = float(xp.minimum(free, SAMPLE * d).sum()) + FACTOR * k * d
        cost = rows * d / (2 * RATE * max(1, int((system.curvature > 0).any(axis=1).sum())))
        if self.iterations > FRESH + cost and 8 * k * (d + 1) ** 2 <= MOST_BYTES:
            self._inverses.clear()  # room for the new ones
            self._inverses += [self._inverse(xp, x, system, c) for c in range(k)]

    def apply(self, xp: Any, r: Array, r_bias: Array) -> tuple[Array, Array]:
        """P^-1 r of every column."""
        if not self._inverses:
            return r, r_bias
        columns = xp.concatenate([r, r_bias[None]]).T
        found = xp.stack([w.T @ (w @ a) for w, a in zip(self._inverses, columns, strict=True)], axis=1)
        return found[:-1], found[-1]

    def _inverse(self, xp: Any, x: DenseRows, system: NewtonSystem, c: int) -> Array:
        """W of a column."""
        index, scale = sampled(xp, system.curvature[:, c], SAMPLE * x.n_features)
        hessian = x.scatter(index, system.curvature[index, c] * scale, self.constant)
        diagonal = hessian.reshape(-1)[:: len(hessian) + 1]
        rounding = len(hessian) * np.finfo(np.float64).eps * diagonal.sum()
        diagonal[:-1] += 1
        diagonal[-1] += system.hold[c]
        diagonal += rounding
        return xp.linalg.inv(xp.linalg.cholesky(hessian))


def sampled(xp: Any, curvature: Array, most: int) -> tuple[Array, float]:
    """At most so many free rows, spread evenly over all, and how many each of them stands for."""
    index = xp.flatnonzero(curvature)
    n = len(index)
    if n <= most:
        return index, 1.0
    at = (np.arange(most) + np.random.default_rng(0).random(most)) * (n / most)
    return index[xp.asarray(np.minimum(at.astype(np.int64), n - 1))], n / most


def products_of(rows: FeatureRows) -> Products:
    """Products with rows, sparse or dense, where they are."""
    if isinstance(rows.x, Sparse):
        return HostProducts(rows)
    if hasattr(rows.x, "passed"):  # CudaRows, which are imported where there is a card
        from textsvm.solvers.newton_cuda import CudaProducts

        return CudaProducts(rows)
    return DenseProducts(rows)


class HostProducts:
    """Products with sparse rows on all cores, kept by rows and by columns: see `Products`."""

    def __init__(self, rows: FeatureRows, constant: float | None = None) -> None:
        self.x, self._given, by_columns = rows.x, rows, InvertedIndex(rows.x)
        self.xp, self.ridge = np, rows.ridge
        self.constant = constant_of(rows, self.x.squares()) if constant is None else constant
        # A row of X' is a sum of its own: threads share these, as they could not share sums over rows of X.
        self._columns = Sparse(by_columns.indptr, by_columns.documents, by_columns.values, len(self.x))

    def values(self, weights: Array, bias: Array) -> Array:
        """See `Products`."""
        return self.x.dot(weights) + self.constant * bias

    def combine(self, coef: Array) -> Array:
        """See `Products`."""
        return self._columns.dot(coef)

    def take(self, index: Array) -> HostProducts:
        """See `Products`."""
        return HostProducts(self._given.take(index), self.constant)

    def newton_step(self, system: NewtonSystem) -> tuple[Array, Array, int]:
        """See `Products`."""
        index, bent = np.flatnonzero(system.curvature.any(axis=1)), np.zeros_like(system.curvature)
        free, curvature = self.x.take(index), system.curvature[index]

        def curve(d: Array, d_bias: Array) -> tuple[Array, Array]:
            bent[index] = curvature * (free.dot(d) + self.constant * d_bias)
            return self.combine(bent), self.constant * bent.sum(axis=0)

        return conjugate_gradients(np, system, curve)


class DenseProducts:
    """The same with dense rows, on either device."""

    def __init__(self, rows: FeatureRows, preconditioner: Preconditioner | None = None) -> None:
        self.x: Any = rows.x
        self._given, self.ridge = rows, rows.ridge
        self.xp = array_module(device_of(rows.ridge))
        self.preconditioner = preconditioner or Preconditioner(constant_of(rows, self.x.squares()))
        self.constant = self.preconditioner.constant

    def values(self, weights: Array, bias: Array) -> Array:
        """See `Products`."""
        return self.x.dot(weights) + self.constant * bias

    def combine(self, coef: Array) -> Array:
        """See `Products`."""
        return self.x.transposed_dot(coef)

    def take(self, index: Array) -> DenseProducts:
        """See `Products`."""
        return DenseProducts(self._given.take(index), self.preconditioner)

    def newton_step(self, system: NewtonSystem) -> tuple[Array, Array, int]:
        """See `Products`."""
        index = self.xp.flatnonzero(system.curvature.any(axis=1))
        free, curvature = self.x.take_for_products(index), system.curvature[index]

        def curve(d: Array, d_bias: Array) -> tuple[Array, Array]:
            bent = curvature * (free.dot(d) + self.constant * d_bias)
            return free.transposed_dot(bent), self.constant * bent.sum(axis=0)

        self.preconditioner.prepare(self.xp, self.x, system)
        found = conjugate_gradients(self.xp, system, curve, partial(self.preconditioner.apply, self.xp))
        self.preconditioner.iterations = found[2]
        return found
