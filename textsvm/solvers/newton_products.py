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
from textsvm.solvers.newton import Products

Array = Any
#: Rows of a piece of work, at least.
PIECE = 256


def products_of(rows: FeatureRows) -> Products:
    """Products with rows, sparse or dense, where they are."""
    if not isinstance(rows.x, Sparse):
        return DenseProducts(rows)
    if device_of(rows.x.values).kind == "cuda":
        from textsvm.solvers.newton_cuda import CudaProducts

        return CudaProducts(rows)
    return HostProducts(rows)


def constant_of(rows: FeatureRows, squares: Array) -> float:
    """What the bias is multiplied by: as much as a row is long."""
    mean = float((squares + rows.ridge).mean()) if len(rows.ridge) else 1.0
    return float(np.sqrt(mean)) if mean > 0 else 1.0


class HostProducts:
    """Products with sparse rows on all cores, kept by rows and by columns: see `Products`."""

    def __init__(self, rows: FeatureRows) -> None:
        x = rows.x
        self.xp, self.ridge, self.constant = np, rows.ridge, constant_of(rows, x.squares())
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

    def free_rows(self, curvature: Array) -> Array:
        """See `Products`."""
        return curvature

    def curve(self, rows: Array, weights: Array, bias: Array) -> tuple[Array, Array]:
        """See `Products`."""
        bent = rows * (_products(self._rows, weights, rows.any(axis=1)) + self.constant * bias)
        return self.combine(bent), self.constant * bent.sum(axis=0)


class DenseProducts:
    """The same with dense rows, on either device."""

    def __init__(self, rows: FeatureRows) -> None:
        self.x: Any = rows.x
        squares = self.x.squares()
        self.xp, self.ridge = array_module(device_of(squares)), rows.ridge
        self.constant = constant_of(rows, squares)

    def values(self, weights: Array, bias: Array) -> Array:
        """See `Products`."""
        return self.x.dot(weights) + self.constant * bias

    def combine(self, coef: Array) -> Array:
        """See `Products`."""
        return self.x.transposed_dot(coef)

    def free_rows(self, curvature: Array) -> tuple[Any, Array]:
        """See `Products`."""
        index = self.xp.flatnonzero(curvature.any(axis=1))
        return self.x.take_for_products(index), curvature[index]

    def curve(self, rows: tuple[Any, Array], weights: Array, bias: Array) -> tuple[Array, Array]:
        """See `Products`."""
        free, curvature = rows
        bent = curvature * (free.dot(weights) + self.constant * bias)
        return free.transposed_dot(bent), self.constant * bent.sum(axis=0)


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
