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

    def select(self, target: NDArray[np.int32]) -> Sparse:
        """Only the entries of features whose `target` is not -1, at that feature."""
        indptr = np.zeros_like(self.indptr)
        _count_kept(self.indptr, self.features, target, indptr)
        np.cumsum(indptr, out=indptr)
        kept = Sparse(indptr, np.empty(indptr[-1], np.int32), np.empty(indptr[-1], np.float32))
        _keep(self.features, self.values, target, kept.features, kept.values)
        return kept

    def take(self, indices: NDArray[np.int64]) -> Sparse:
        """The rows at `indices`."""
        numbers = np.diff(self.indptr)[indices]
        indptr = np.concatenate([[0], np.cumsum(numbers)])
        at = np.repeat(self.indptr[indices] - indptr[:-1], numbers) + np.arange(indptr[-1])
        return Sparse(indptr, self.features[at], self.values[at])

    def unary(self, counts: NDArray[np.int32], starts: NDArray[np.int64]) -> Sparse:
        """Every entry repeated `counts` times, at the features from `starts[feature]` on."""
        ends = np.zeros(len(counts) + 1, np.int64)
        np.cumsum(counts, out=ends[1:])
        code = Sparse(ends[self.indptr], np.empty(ends[-1], np.int32), np.empty(ends[-1], np.float32))
        _unary(self.features, self.values, counts, starts, code.features, code.values)
        return code

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
            self._dense[share] = Dense(self.x, full_columns(self.df, self.n, share), len(self.df))
        return self._dense[share]


class Dense:
    """Some columns of X as a dense matrix, shape (n, number of columns).

    float32 where X has whole numbers and all products stay below 2^24, hence exact; else float64.
    """

    def __init__(self, x: Sparse, features: NDArray[np.int64], n_features: int) -> None:
        self.column = np.full(n_features, -1, np.int32)
        self.column[features] = np.arange(len(features))
        self.width = len(features)
        part = x.select(self.column)
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
        target = np.arange(len(self.column), dtype=np.int32)
        target[self.column >= 0] = -1
        return x.select(target), beside[self.column[x.features] < 0]


class Half:
    """Products of the rows of X with each other, each pair once, without lists of columns that give none.

    Parameters
    ----------
    x : Sparse
    n_features : int
    """

    def __init__(self, x: Sparse, n_features: int) -> None:
        df = np.bincount(x.features, minlength=n_features)
        self.dense = Dense(x, full_columns(df, len(x.indptr) - 1), n_features)
        listed = (df > 1) & (self.dense.column < 0)
        target = np.where(listed, np.cumsum(listed) - 1, -1).astype(np.int32)
        self.rest = x.select(target)
        self.index = Index(self.rest, int(listed.sum()))
        #: None where all are 1 (presence, intersection): they need not be read.
        self.values = None if bool(np.all(self.rest.values == 1)) else self.index.values

    def add(self, first: int, last: int, total: NDArray[np.float32]) -> None:
        """total[i, i:] += the products, i from first to last; each is rounded once."""
        tile = self.dense.matrix[first:last] @ self.dense.matrix[first:].T
        rows = (self.rest.indptr, self.rest.features, self.rest.values, self.index.after)
        _add_half(first, last, *rows, self.index.indptr, self.index.documents, self.values, tile, total)


def full_columns(df: NDArray[np.int64], n: int, share: float = DENSE_SHARE) -> NDArray[np.int64]:
    """The columns to be kept dense, given how many of `n` rows hold each, the fullest first."""
    full = np.flatnonzero(df > share * n) if n >= DENSE_ROWS else np.empty(0, np.int64)
    return full[np.argsort(-df[full], kind="stable")[: DENSE_BYTES // (4 * max(n, 1))]]


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
def _add_half(
    first: int,
    last: int,
    indptr: Array,
    features: Array,
    values: Array,
    starts: Array,
    ends: Array,
    documents: Array,
    x: Array | None,
    tile: Array,
    total: Array,
) -> None:
    n = total.shape[1]
    sums = np.zeros(n)
    for i in range(first, last):
        for k in range(indptr[i], indptr[i + 1]):
            value = np.float64(values[k])
            for at in range(starts[k], ends[features[k] + 1]):
                sums[documents[at]] += 1.0 if x is None else value * x[at]
        for j in range(i, n):
            total[i, j] += np.float32(sums[j] + tile[i - first, j - first])
            sums[j] = 0.0


@njit(nogil=True, cache=True)
def scale_half(first: int, last: int, total: Array, scale: Array, out: Array) -> None:
    """out[i, i:] = total[i, i:] scaled, rounded once; `out` may be `total`."""
    for i in range(first, last):
        for j in range(i, total.shape[1]):
            out[i, j] = total[i, j] * (scale[i] * scale[j])


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


@njit(nogil=True, cache=True)
def _count_kept(indptr: Array, features: Array, target: Array, kept: Array) -> None:
    for i in range(len(indptr) - 1):
        count = 0
        for k in range(indptr[i], indptr[i + 1]):
            if target[features[k]] >= 0:
                count += 1
        kept[i + 1] = count


@njit(nogil=True, cache=True)
def _keep(features: Array, values: Array, target: Array, kept_features: Array, kept_values: Array) -> None:
    to = 0
    for k in range(len(features)):
        feature = target[features[k]]
        if feature >= 0:
            kept_features[to] = feature
            kept_values[to] = values[k]
            to += 1


@njit(nogil=True, cache=True)
def _unary(
    features: Array, values: Array, counts: Array, starts: Array, code_features: Array, code_values: Array
) -> None:
    to = 0
    for k in range(len(features)):
        for height in range(counts[k]):
            code_features[to] = starts[features[k]] + height
            code_values[to] = values[k]
            to += 1


@njit(nogil=True, cache=True)
def raise_to(features: Array, counts: Array, largest: Array) -> None:
    """largest[u] becomes at least the count of every entry of feature u."""
    for k in range(len(features)):
        if counts[k] > largest[features[k]]:
            largest[features[k]] = counts[k]
