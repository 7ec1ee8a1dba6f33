"""Products with rows of features for `solvers.newton`, on the CPU; and with dense rows, on either device."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from textsvm.device import array_module, device_of
from textsvm.features.products import Columns
from textsvm.features.rows import FeatureRows
from textsvm.features.sparse import Sparse
from textsvm.solvers.preconditioner import Preconditioner
from textsvm.solvers.proximal import NewtonSystem, Products, conjugate_gradients, constant_of

Array = Any


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
        self.x, self._given, by_columns = rows.x, rows, Columns(rows.x)
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
