"""Weights of many machines as a product of two sparse matrices, and sparse coefficients.

With thousands of classes of a few texts each, the weights W (n_features, n_machines) take gigabytes, and the
factors of W = X' D A' take megabytes: the features X (n_sv, n_features) and scales D of the support vectors,
and the coefficients A (n_machines, n_sv), most of which are 0. A value x W = ((x X') D) A' is a sum over the
support vectors that share features with x, in float64, so it differs from that of dense weights by rounding
alone. Values of a document do not depend on the other documents.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from textsvm.arrays import Array, Floats, Ints, SignedInts
from textsvm.linalg.sparse import Sparse, run_on_ranges
from textsvm.runtime.compiled import njit, scipy

#: Dense matrices up to ROOM bytes, or MOST_TIMES the bytes of their sparse form, are not replaced by it.
ROOM, MOST_TIMES = 1 << 26, 16
#: Documents whose kernel values are multiplied with the coefficients together.
BLOCK = 16


def stacked(rows: Sequence[Floats], places: Sequence[Ints], n: int) -> Array:
    """Rows of n numbers, given at ascending places: a sparse array if a dense array is large and mostly 0."""
    used = [np.flatnonzero(row) for row in rows]
    starts = np.cumsum([0, *map(len, used)])
    if not keep_sparse((len(rows), n), int(starts[-1])):
        dense = np.zeros((len(rows), n))
        for out, row, place in zip(dense, rows, places, strict=True):
            out[place] = row
        return dense
    data = np.concatenate([row[own] for row, own in zip(rows, used, strict=True)])
    columns = np.concatenate([place[own] for place, own in zip(places, used, strict=True)])
    return scipy.sparse.csr_array((data, columns.astype(np.int32), starts), shape=(len(rows), n))


def keep_sparse(shape: tuple[int, int], n_values: int) -> bool:
    """Whether a dense array of coefficients is large, and would have few values that are not 0."""
    return 8 * shape[0] * shape[1] > max(ROOM, MOST_TIMES * 12 * n_values)


def unpacked(coef: Array) -> Floats:
    """Coefficients as a dense array."""
    return np.asarray(coef.toarray() if scipy_sparse(coef) else coef)


def scipy_sparse(array: Array) -> bool:
    """Whether an array is sparse, without importing SciPy."""
    return not isinstance(array, np.ndarray)


def is_factored(x: Sparse, coef: Array) -> bool:
    """Whether weights W = X' A' should remain factors."""
    dense = 8 * x.n_features * coef.shape[0]
    if dense <= 4 * ROOM:
        return False
    n_coef = coef.nnz if scipy_sparse(coef) else np.count_nonzero(coef)
    return bool(dense > MOST_TIMES * 12 * (len(x.values) + n_coef))


@dataclass(frozen=True)
class FactoredWeights:
    """W = X' D A'; see the top of the module."""

    lists: Any  #: X', csr_array of shape (n_features, n_sv)
    scale: Floats  #: shape (n_sv,): The diagonal of D
    coef: Any  #: A, csr_array of shape (n_machines, n_sv)

    @classmethod
    def of(cls, x: Sparse, scale: Floats, coef: Array) -> FactoredWeights:
        """From the features of support vectors; coef may be dense."""
        shape = (len(x), x.n_features)
        lists = scipy.sparse.csr_array((x.values, x.features, x.indptr), shape=shape).T.tocsr()
        return cls(lists, scale, scipy.sparse.csr_array(coef))

    @classmethod
    def of_product(cls, weights: Any) -> FactoredWeights:
        """From W as a csr_array."""
        m = weights.shape[1]
        return cls(weights, np.ones(m), scipy.sparse.eye_array(m, format="csr"))

    @property
    def shape(self) -> tuple[int, int]:
        """(n_features, n_machines)."""
        return self.lists.shape[0], self.coef.shape[0]

    @property
    def product(self) -> Any:
        """W as a csr_array."""
        scaled = self.lists.astype(np.float64) @ scipy.sparse.diags_array(self.scale)
        return (scaled @ self.coef.T).tocsr()

    def __getitem__(self, features: Ints) -> Floats:
        """Dense weights of some features."""
        part = FactoredWeights(self.lists[features], self.scale, self.coef)
        return unpacked(part.product)

    def dot(self, x: Sparse, target: SignedInts) -> Floats:
        """X @ W on all cores; feature u of `x` is row `target[u]` of W, or dropped if it is -1."""
        x, out = x.select(target, self.shape[0]), np.zeros((len(x), self.shape[1]))
        factors = [(part.indptr, part.indices, part.data) for part in (self.lists, self.coef)]
        entries = (x.indptr, x.features, x.values)
        run_on_ranges(x.indptr, partial(_dot, *entries, *factors[0], self.scale, *factors[1], out))
        return out


@njit(nogil=True, cache=True)
def _dot(
    indptr, features, values, list_starts, members, list_values, scale, coef_starts, support, coef, out,
    first, last,
):  # fmt: skip
    n_support = len(scale)
    sums, kernel, total = np.zeros(n_support), np.zeros((n_support, BLOCK)), np.empty(BLOCK)
    for begin in range(first, last, BLOCK):
        end = min(begin + BLOCK, last)
        for i in range(begin, end):
            for k in range(indptr[i], indptr[i + 1]):
                value = np.float64(values[k])
                for at in range(list_starts[features[k]], list_starts[features[k] + 1]):
                    sums[members[at]] += value * list_values[at]
            for j in range(n_support):
                kernel[j, i - begin] = sums[j] * scale[j]
                sums[j] = 0.0
        for machine in range(out.shape[1]):
            total[:] = 0
            for k in range(coef_starts[machine], coef_starts[machine + 1]):
                for b in range(BLOCK):
                    total[b] += coef[k] * kernel[support[k], b]
            for i in range(begin, end):
                out[i, machine] = total[i - begin]
