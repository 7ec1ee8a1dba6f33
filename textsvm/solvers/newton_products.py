"""Products with rows of features for `solvers.newton`, on the CPU; and with dense rows, on either device."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from textsvm.device import array_module, device_of
from textsvm.features.rows import FeatureRows
from textsvm.features.sparse import Sparse
from textsvm.parallel import n_threads, run
from textsvm.solvers.proximal import NewtonSystem, Products, conjugate_gradients, constant_of

Array = Any
#: Rows of a piece of work, at least.
PIECE = 256


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
        x, self._given = rows.x, rows
        self.xp, self.ridge = np, rows.ridge
        self.constant = constant_of(rows, x.squares()) if constant is None else constant
        self._rows = (x.indptr, x.features, x.values)
        starts = np.concatenate([[0], np.cumsum(np.bincount(x.features, minlength=x.n_features))])
        documents, values = np.empty(len(x.features), np.int32), np.empty(len(x.values), np.float32)
        _transpose(*self._rows, starts[:-1].copy(), documents, values)
        self._columns = (starts, documents, values)

    def values(self, weights: Array, bias: Array) -> Array:
        """See `Products`."""
        return _products(self._rows, weights) + self.constant * bias

    def combine(self, coef: Array) -> Array:
        """See `Products`."""
        return _products(self._columns, coef)

    def take(self, index: Array) -> HostProducts:
        """See `Products`."""
        return HostProducts(self._given.take(index), self.constant)

    def newton_step(self, system: NewtonSystem) -> tuple[Array, Array, int]:
        """See `Products`."""
        wanted = system.curvature.any(axis=1)

        def curve(d: Array, d_bias: Array) -> tuple[Array, Array]:
            bent = system.curvature * (_products(self._rows, d, wanted) + self.constant * d_bias)
            return self.combine(bent), self.constant * bent.sum(axis=0)

        return conjugate_gradients(np, system, curve)


class DenseProducts:
    """The same with dense rows, on either device."""

    def __init__(self, rows: FeatureRows, constant: float | None = None) -> None:
        self.x: Any = rows.x
        self._given, squares = rows, self.x.squares()
        self.xp, self.ridge = array_module(device_of(squares)), rows.ridge
        self.constant = constant_of(rows, squares) if constant is None else constant

    def values(self, weights: Array, bias: Array) -> Array:
        """See `Products`."""
        return self.x.dot(weights) + self.constant * bias

    def combine(self, coef: Array) -> Array:
        """See `Products`."""
        return self.x.transposed_dot(coef)

    def take(self, index: Array) -> DenseProducts:
        """See `Products`."""
        return DenseProducts(self._given.take(index), self.constant)

    def newton_step(self, system: NewtonSystem) -> tuple[Array, Array, int]:
        """See `Products`."""
        index = self.xp.flatnonzero(system.curvature.any(axis=1))
        free, curvature = self.x.take_for_products(index), system.curvature[index]

        def curve(d: Array, d_bias: Array) -> tuple[Array, Array]:
            bent = curvature * (free.dot(d) + self.constant * d_bias)
            return free.transposed_dot(bent), self.constant * bent.sum(axis=0)

        return conjugate_gradients(self.xp, system, curve)


def _products(
    rows: tuple[Array, Array, Array], dense: NDArray[np.float64], wanted: NDArray[np.bool_] | None = None
) -> NDArray[np.float64]:
    """Rows times a dense matrix, 0 where a row is not wanted."""
    n = len(rows[0]) - 1
    out, dense = np.zeros((n, dense.shape[1])), np.ascontiguousarray(dense)
    wanted = np.ones(n, bool) if wanted is None else wanted
    step = max(PIECE, n // (8 * n_threads()) + 1)
    run(lambda first: _dot(first, min(first + step, n), *rows, dense, wanted, out), range(0, n, step))
    return out


@njit(nogil=True, cache=True)
def _dot(
    first: int,
    last: int,
    indptr: Array,
    features: Array,
    values: Array,
    dense: Array,
    wanted: Array,
    out: Array,
) -> None:
    for i in range(first, last):
        if wanted[i]:
            for k in range(indptr[i], indptr[i + 1]):
                v, u = values[k], features[k]
                for c in range(dense.shape[1]):
                    out[i, c] += v * dense[u, c]


@njit(nogil=True, cache=True)
def _transpose(
    indptr: Array, features: Array, values: Array, cursor: Array, documents: Array, x: Array
) -> None:
    for i in range(len(indptr) - 1):
        for k in range(indptr[i], indptr[i + 1]):
            at = cursor[features[k]]
            documents[at] = i
            x[at] = values[k]
            cursor[features[k]] = at + 1
