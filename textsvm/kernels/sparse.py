"""A sparse matrix X of values >= 0 and products of its rows with each other, on the CPU.

Columns that many rows hold are kept dense, for tile products (BLAS); the others are lists (an inverted
index): row i adds x_iu x_ju to an accumulator of n float64 sums for every row j on the list of u.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

Array = NDArray[Any]
#: A column is kept dense when this share of the rows holds it; at most these bytes of them, and not
#: for fewer rows than pay for it.
DENSE_SHARE = 0.15
DENSE_BYTES = 1 << 28
DENSE_ROWS = 128


@dataclass(frozen=True)
class Sparse:
    """Rows of X: document i has `values[indptr[i]:indptr[i + 1]]` at these `features`.

    indptr int64 (n + 1,); features int32, values float32, both (number of entries,).
    """

    indptr: NDArray[np.int64]
    features: NDArray[np.int32]
    values: NDArray[np.float32]

    def select(self, keep: NDArray[np.bool_], features: NDArray[np.int32] | None = None) -> Sparse:
        """Only the entries to `keep`, under new feature numbers if given."""
        kept = np.concatenate([[0], np.cumsum(keep)])
        features = self.features if features is None else features
        return Sparse(kept[self.indptr], features[keep], self.values[keep])

    def take(self, indices: NDArray[np.int64]) -> Sparse:
        """The rows at `indices`."""
        numbers = np.diff(self.indptr)[indices]
        indptr = np.concatenate([[0], np.cumsum(numbers)])
        at = np.repeat(self.indptr[indices] - indptr[:-1], numbers) + np.arange(indptr[-1])
        return Sparse(indptr, self.features[at], self.values[at])

    def unary(self, counts: NDArray[np.int32], starts: NDArray[np.int64]) -> Sparse:
        """Every entry repeated `counts` times, at the features from `starts[feature]` on."""
        ends = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        height = np.arange(ends[-1]) - np.repeat(ends[:-1], counts)
        features = np.repeat(starts[self.features], counts) + height
        return Sparse(ends[self.indptr], features.astype(np.int32), np.repeat(self.values, counts))

    def matrix(self, n_features: int) -> csr_matrix:
        shape = (len(self.indptr) - 1, n_features)
        return csr_matrix((self.values, self.features, self.indptr), shape=shape)

    def squares(self) -> NDArray[np.float64]:
        """k(s, s) of every row, shape (n,)."""
        values = np.zeros(len(self.indptr) - 1)
        _squares(self.indptr, self.values, values)
        return values


class Index:
    """Columns of X for products with its rows: lists of entries, and the fullest ones dense.

    Attributes
    ----------
    indptr : int64 array, shape (number of features + 1,)
    documents, values : int32 and float32 arrays, shape (number of entries,)
        Feature u is held by `documents[indptr[u]:indptr[u + 1]]`, ascending.
    after : int64 array, shape (number of entries,)
        For every entry of X, the place in the list of its feature just behind itself.
    """

    def __init__(self, x: Sparse, n_features: int) -> None:
        self.x = x
        self.n = len(x.indptr) - 1
        self.df = np.bincount(x.features, minlength=n_features)
        self.indptr = np.concatenate([[0], np.cumsum(self.df)])
        self.documents = np.empty(len(x.features), np.int32)
        self.values = np.empty(len(x.features), np.float32)
        self.after = np.empty(len(x.features), np.int64)
        cursor = self.indptr[:-1].copy()
        _transpose(x.indptr, x.features, x.values, cursor, self.documents, self.values, self.after)
        self._dense: dict[float, Dense] = {}

    @property
    def lists(self) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
        return self.indptr, self.documents, self.values

    def dense(self, share: float = DENSE_SHARE) -> Dense:
        """The columns that more than this share of the documents hold; kept once made."""
        if share not in self._dense:
            most = DENSE_BYTES // (4 * max(self.n, 1))
            full = np.flatnonzero(self.df > share * self.n) if self.n >= DENSE_ROWS else np.empty(0, np.int64)
            full = full[np.argsort(-self.df[full], kind="stable")[:most]]
            self._dense[share] = Dense(self.x, full, len(self.df))
        return self._dense[share]


class Dense:
    """Some columns of X as a dense matrix, shape (n, number of columns).

    float32 where X has whole numbers and all products stay below 2^24, hence exact; else float64.
    """

    def __init__(self, x: Sparse, features: NDArray[np.int64], n_features: int) -> None:
        self.column = np.full(n_features, -1, np.int32)
        self.column[features] = np.arange(len(features))
        self.width = len(features)
        part = x.select(self.column[x.features] >= 0)
        whole = bool(np.all(part.values == np.rint(part.values)))
        exact = whole and bool(np.all(part.squares() < 1 << 24))
        self.dtype = np.float32 if exact else np.float64
        self.matrix = self.rows(x, 0, len(x.indptr) - 1)

    def rows(self, x: Sparse, first: int, last: int) -> NDArray[np.floating]:
        """These columns of the rows first..last of a matrix over the same features."""
        matrix = np.zeros((last - first, self.width), self.dtype)
        _densify(first, last, x.indptr, x.features, x.values, self.column, matrix)
        return matrix

    def remove(self, x: Sparse, beside: NDArray[Any]) -> tuple[Sparse, NDArray[Any]]:
        """`x` without these columns, and what lies beside its entries likewise."""
        if not self.width:
            return x, beside
        keep = self.column[x.features] < 0
        return x.select(keep), beside[keep]


@njit(nogil=True, cache=True)
def add_rows(
    first: int,
    last: int,
    begin: int,
    indptr: Array,
    features: Array,
    values: Array,
    starts: Array,
    ends: Array,
    documents: Array,
    x: Array,
    tile: Array,
    row_scale: Array,
    scale: Array,
    out: Array,
) -> None:
    """out[i, begin:] of the rows first..last: tile product plus lists, scaled and rounded once."""
    n = out.shape[1]
    sums = np.zeros(n)
    for i in range(first, last):
        for k in range(indptr[i], indptr[i + 1]):
            value = np.float64(values[k])
            for at in range(starts[k], ends[features[k] + 1]):
                sums[documents[at]] += value * x[at]
        for j in range(begin, n):
            out[i, j] = (sums[j] + tile[i - first, j - begin]) * (row_scale[i] * scale[j])
            sums[j] = 0.0


@njit(nogil=True, cache=True)
def mirror(first: int, last: int, out: Array) -> None:
    for j in range(first + 1, out.shape[0]):
        for i in range(first, min(last, j)):
            out[j, i] = out[i, j]


@njit(nogil=True, cache=True)
def _transpose(
    indptr: Array, features: Array, values: Array, cursor: Array, documents: Array, x: Array, after: Array
) -> None:
    for i in range(len(indptr) - 1):
        for k in range(indptr[i], indptr[i + 1]):
            at = cursor[features[k]]
            documents[at] = i
            x[at] = values[k]
            after[k] = at + 1
            cursor[features[k]] = at + 1


@njit(nogil=True, cache=True)
def _densify(
    first: int, last: int, indptr: Array, features: Array, values: Array, column: Array, matrix: Array
) -> None:
    for i in range(first, last):
        for k in range(indptr[i], indptr[i + 1]):
            if column[features[k]] >= 0:
                matrix[i - first, column[features[k]]] = values[k]


@njit(nogil=True, cache=True)
def _squares(indptr: Array, values: Array, squares: Array) -> None:
    for i in range(len(indptr) - 1):
        total = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            total += np.float64(values[k]) * np.float64(values[k])
        squares[i] = total
