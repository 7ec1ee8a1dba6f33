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
from functools import cached_property, partial
from typing import Any

import numpy as np

from textsvm.arrays import Array, Floats, Ints, SignedInts
from textsvm.errors import InputError
from textsvm.linalg.sparse import Sparse, index_type, run_on_ranges
from textsvm.runtime import device as devices
from textsvm.runtime.compiled import njit, scipy

ROOM = 1 << 26  #: Bytes up to which a matrix is dense
MOST_TIMES = 16  #: Bytes of a larger dense matrix, at most, as a multiple of those of its sparse form
BYTES_PER_ENTRY = 12  #: Of a sparse matrix: a float64 and an int32
BLOCK = 4  #: Documents whose kernel values are multiplied with the coefficients together


def stacked(rows: Sequence[Floats], places: Sequence[Ints], n: int) -> Array:
    """Rows of n numbers, given at ascending places: a sparse array if a dense array is large and mostly 0."""
    used = [np.flatnonzero(row) for row in rows]
    starts = np.cumsum([0, *map(len, used)])
    if not keep_sparse((len(rows), n), int(starts[-1])):
        dense = np.zeros((len(rows), n))
        for out, row, place in zip(dense, rows, places, strict=True):
            out[place] = row
        return dense
    data = np.concatenate([row[at] for row, at in zip(rows, used, strict=True)])
    columns = np.concatenate([place[at] for place, at in zip(places, used, strict=True)])
    return scipy.sparse.csr_array((data, columns.astype(np.int32), starts), shape=(len(rows), n))


def keep_sparse(shape: tuple[int, int], n_values: int) -> bool:
    """Whether a dense array of this shape is large beside a sparse form with `n_values` values."""
    return 8 * shape[0] * shape[1] > max(ROOM, MOST_TIMES * BYTES_PER_ENTRY * n_values)


def as_dense(coef: Array) -> Floats:
    """Coefficients as a dense array."""
    return np.asarray(coef.toarray() if scipy_sparse(coef) else coef)


def scipy_sparse(array: Array) -> bool:
    """Whether an array is sparse, without importing SciPy."""
    return not isinstance(array, np.ndarray)


def should_factor(x: Sparse, coef: Array) -> bool:
    """Whether weights W = X' A' should be kept as factors."""
    n_coef: int = coef.nnz if scipy_sparse(coef) else int(np.count_nonzero(coef))
    return keep_sparse((x.n_features, coef.shape[0]), len(x.values) + n_coef)


@dataclass(frozen=True)
class FactoredWeights:
    """W = X' D A'; see the top of the module."""

    features_t: Any  #: X', csr_array of shape (n_features, n_sv)
    scale: Floats  #: shape (n_sv,): The diagonal of D
    coef_t: Any  #: A', csr_array of shape (n_sv, n_machines)

    @classmethod
    def of(cls, x: Sparse, scale: Floats, coef: Array) -> FactoredWeights:
        """From the features of support vectors; coef, shape (n_machines, n_sv), may be dense."""
        features = scipy.sparse.csr_array((x.values, x.features, x.indptr), shape=(len(x), x.n_features))
        return cls(features.T.tocsr(), scale, scipy.sparse.csr_array(coef).T.tocsr())

    @classmethod
    def from_sparse(cls, weights: Any) -> FactoredWeights:
        """From W as a csr_array."""
        m = weights.shape[1]
        return cls(weights, np.ones(m), scipy.sparse.eye_array(m, format="csr"))

    @property
    def shape(self) -> tuple[int, int]:
        """(n_features, n_machines)."""
        return self.features_t.shape[0], self.coef_t.shape[1]

    def to_sparse(self) -> Any:
        """W as a csr_array."""
        scaled = self.features_t.astype(np.float64) @ scipy.sparse.diags_array(self.scale)
        return (scaled @ self.coef_t).tocsr()

    def __getitem__(self, features: Ints) -> Floats:
        """Dense weights of some features."""
        out, lists = np.zeros((len(features), self.shape[1])), self.features_t[features]
        factors = [(part.indptr, part.indices, part.data) for part in (lists, self.coef_t)]
        run_on_ranges(lists.indptr, partial(_add_rows, *factors[0], self.scale, *factors[1], out))
        return out

    def dense(self) -> Floats:
        """W as a dense array; InputError if it does not fit into memory."""
        check_dense([self])
        return as_dense(self.to_sparse())

    @cached_property
    def _common(self) -> tuple[Floats, SignedInts, SignedInts]:
        """Dense weights of common features; row of each such feature or -1; each other feature's index or -1.

        Common features are in over a quarter as many support vectors as there are machines: a row of dense
        weights takes less time than such a list of support vectors.
        """
        lengths = np.diff(self.features_t.indptr)
        common = np.flatnonzero(lengths > self.shape[1] // 4)
        rows = np.full(len(lengths), -1, index_type(len(lengths)))
        rows[common] = np.arange(len(common))
        return self[common], rows, np.where(rows < 0, np.arange(len(lengths), dtype=rows.dtype), -1)

    def dot(self, x: Sparse, target: SignedInts | None = None) -> Floats:
        """X @ W on all cores; feature u of `x` is row `target[u]` of W, if given, or dropped if it is -1."""
        x, (dense, rows, others) = x if target is None else x.select(target, self.shape[0]), self._common
        out, x = x.select(rows, len(dense)).dot(dense), x.select(others, self.shape[0])
        factors = [(part.indptr, part.indices, part.data) for part in (self.features_t, self.coef_t)]
        entries = (x.indptr, x.features, x.values)
        run_on_ranges(x.indptr, partial(_add_products, *entries, *factors[0], self.scale, *factors[1], out))
        return out


def check_dense(parts: Sequence[Any], copies: int = 3, advice: str = "") -> None:
    """InputError if the weights of all terms of a kernel do not fit into memory as dense arrays."""
    shapes = [part.shape for part in parts if isinstance(part, FactoredWeights)]
    n_features, free = sum(shape[0] for shape in shapes), devices.free_memory(devices.select("cpu"))
    need = 8 * sum(shape[0] * shape[1] for shape in shapes)
    if copies * need > free:
        raise InputError(
            f"a weight for each of {n_features:,} features and {shapes[0][1]:,} machines takes "
            f"{need / 2**30:.1f} GiB, {copies} copies are needed and {free / 2**30:.1f} GiB are free; "
            f"take fewer classes, or a kernel with fewer lengths (p){advice}"
        )


@njit(nogil=True, cache=True)
def _add_rows(list_starts, members, list_values, scale, coef_starts, machines, coef, out, first, last):
    for u in range(first, last):
        for at in range(list_starts[u], list_starts[u + 1]):
            value = list_values[at] * scale[members[at]]
            for k in range(coef_starts[members[at]], coef_starts[members[at] + 1]):
                out[u, machines[k]] += value * coef[k]


@njit(nogil=True, cache=True)
def _add_products(
    indptr, features, values, list_starts, members, list_values, scale, coef_starts, machines, coef, out,
    first, last,
):  # fmt: skip
    n_support, n_machines = len(scale), out.shape[1]
    sums, kernel, total = np.zeros((n_support, BLOCK)), np.zeros(BLOCK), np.zeros((n_machines, BLOCK))
    for begin in range(first, last, BLOCK):
        end = min(begin + BLOCK, last)
        for i in range(begin, end):
            for k in range(indptr[i], indptr[i + 1]):
                value = np.float64(values[k])
                for at in range(list_starts[features[k]], list_starts[features[k] + 1]):
                    sums[members[at], i - begin] += value * list_values[at]
        for j in range(n_support):
            shared = False
            for b in range(BLOCK):
                shared |= sums[j, b] != 0
                kernel[b], sums[j, b] = sums[j, b] * scale[j], 0.0
            if shared:
                for k in range(coef_starts[j], coef_starts[j + 1]):
                    for b in range(BLOCK):
                        total[machines[k], b] += coef[k] * kernel[b]
        for machine in range(n_machines):
            for i in range(begin, end):
                out[i, machine] += total[machine, i - begin]
            total[machine] = 0.0
