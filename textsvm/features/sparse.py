"""A sparse matrix of values >= 0, a row for each document, and what becomes of it, on the CPU.

Positions are int64. Features are int32 while there are less than 2^31 of them, else int64.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

Array = NDArray[Any]
#: Features that int32 can number.
MAX_INT32 = (1 << 31) - 1


def feature_type(n_features: int) -> type[np.signedinteger]:
    """What numbers so many features."""
    return np.int32 if n_features <= MAX_INT32 else np.int64


@dataclass(frozen=True)
class Sparse:
    """Rows of X: document i has `values[indptr[i]:indptr[i + 1]]` at these `features`.

    Attributes
    ----------
    indptr : int64 array, shape (n + 1,)
    features : int32 or int64 array, shape (number of entries,)
    values : float32 array, shape (number of entries,)
    n_features : int
    """

    indptr: NDArray[np.int64]
    features: NDArray[np.signedinteger]
    values: NDArray[np.float32]
    n_features: int

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def select(self, target: NDArray[np.signedinteger], n_features: int) -> Sparse:
        """Only the entries of features whose `target` is not -1, at that one of `n_features`."""
        indptr = np.zeros_like(self.indptr)
        _count_kept(self.indptr, self.features, target, indptr)
        np.cumsum(indptr, out=indptr)
        kept = _empty(indptr, n_features)
        _keep(self.features, self.values, target, kept.features, kept.values)
        return kept

    def take(self, indices: NDArray[np.int64]) -> Sparse:
        """The rows at `indices`."""
        numbers = np.diff(self.indptr)[indices]
        indptr = np.concatenate([[0], np.cumsum(numbers)])
        at = np.repeat(self.indptr[indices] - indptr[:-1], numbers) + np.arange(indptr[-1])
        return Sparse(indptr, self.features[at], self.values[at], self.n_features)

    def unary(self, counts: NDArray[np.int32], starts: NDArray[np.int64]) -> Sparse:
        """Every entry repeated `counts` times, at the features from `starts[feature]` on."""
        ends = np.zeros(len(counts) + 1, np.int64)
        np.cumsum(counts, out=ends[1:])
        code = _empty(ends[self.indptr], int(starts[-1]))
        _unary(self.features, self.values, counts, starts, code.features, code.values)
        return code

    def squares(self) -> NDArray[np.float64]:
        """|x|^2 of every row, shape (n,)."""
        values = np.zeros(len(self))
        _squares(self.indptr, self.values, values)
        return values

    def dot(self, dense: NDArray[np.float64]) -> NDArray[np.float64]:
        """X @ dense: (n_features, k) -> (n, k)."""
        return self._matrix @ dense

    def transposed_dot(self, dense: NDArray[np.float64]) -> NDArray[np.float64]:
        """X.T @ dense: (n, k) -> (n_features, k)."""
        return self._matrix.T @ dense

    @property
    def _matrix(self) -> csr_matrix:
        return csr_matrix((self.values, self.features, self.indptr), shape=(len(self), self.n_features))


def unary_starts(features: Array, counts: NDArray[np.int32], size: int) -> NDArray[np.int64]:
    """Where the unary code of each of `size` features starts, and their sum: as long as its largest count."""
    largest = np.ones(size, np.int64)
    _raise_to(features, counts, largest)
    return np.concatenate([[0], np.cumsum(largest)])


def match_unary(
    columns: NDArray[np.int64], rows: NDArray[np.int64], found: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The column of each digit of the unary codes of other documents, -1 if there is none.

    Parameters
    ----------
    columns, rows : int64 arrays
        Where the code of each feature starts, in the columns' numbering and in the others'.
    found : int64 array, shape (len(rows) - 1,)
        The columns' number of each feature of the others, -1 if they do not have it.
    """
    known = np.repeat(found, np.diff(rows))
    height = np.arange(rows[-1]) - np.repeat(rows[:-1], np.diff(rows))
    target = columns[known] + height
    target[(known < 0) | (target >= columns[known + 1])] = -1
    return target


def _empty(indptr: NDArray[np.int64], n_features: int) -> Sparse:
    n = int(indptr[-1])
    return Sparse(indptr, np.empty(n, feature_type(n_features)), np.empty(n, np.float32), n_features)


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
def _raise_to(features: Array, counts: Array, largest: Array) -> None:
    """largest[u] becomes at least the count of every entry of feature u."""
    for k in range(len(features)):
        if counts[k] > largest[features[k]]:
            largest[features[k]] = counts[k]
