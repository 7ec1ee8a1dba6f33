"""Weights of many machines as a product of two sparse matrices, and sparse coefficients.

With thousands of classes of a few texts each, the weights W (n_features, n_machines) take gigabytes, and the
factors of W = X' D A' take megabytes: the features X (n_sv, n_features) and scales D of the support vectors,
and the coefficients A (n_machines, n_sv), most of which are 0. A value x W = ((x X') D) A' is a sum over the
support vectors that share features with x, in float64, so it differs from that of dense weights by rounding
alone. The terms of a sum of kernels have the same A: kernel values are added up before they are multiplied by
it. Values of a document do not depend on the other documents.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from textsvm.arrays import Array, Floats, Ints, SignedInts
from textsvm.errors import InputError
from textsvm.linalg.sparse import Sparse, index_type, run_on_ranges, unsigned
from textsvm.runtime import device as devices
from textsvm.runtime.compiled import njit, scipy, simd

ROOM = 1 << 26  #: Bytes up to which a matrix is dense
MOST_TIMES = 16  #: Bytes of a larger dense matrix, at most, as a multiple of those of its sparse form
COPIES = 4  #: Of dense weights in memory while they are computed
BYTES_PER_ENTRY = 12  #: Of a sparse matrix: a float64 and an int32


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
    """Whether an array, of NumPy or SciPy, is SciPy's. No import of SciPy is needed to tell."""
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
        entries = x.values, x.features, x.indptr.astype(index_type(len(x.values)))  # else indices are int64
        features = scipy.sparse.csr_array(entries, shape=(len(x), x.n_features))
        return cls(features.T.tocsr(), scale, scipy.sparse.csr_array(coef).T.tocsr())

    @property
    def shape(self) -> tuple[int, int]:
        """(n_features, n_machines)."""
        return self.features_t.shape[0], self.coef_t.shape[1]

    def to_sparse(self) -> Any:
        scaled = self.features_t.astype(np.float64) @ scipy.sparse.diags_array(self.scale)
        return (scaled @ self.coef_t).tocsr()

    def __getitem__(self, features: Ints) -> Floats:
        """Dense weights of some features."""
        n = len(features)
        x = Sparse(np.arange(n + 1), features, np.ones(n, np.float32), self.shape[0])
        return sum_of_products([(self, x, np.ones(n), 1.0)], in_common=False)

    def dense(self) -> Floats:
        """W as a dense array; InputError if it does not fit into memory."""
        check_dense([self])
        return as_dense(self.to_sparse())

    @cached_property
    def common(self) -> tuple[Floats, SignedInts]:
        """Dense weights of common features, and the row of each such feature, -1 of others.

        Common features are in over a quarter as many support vectors as there are machines: a row of dense
        weights takes less time than such a list of support vectors.
        """
        lengths = np.diff(self.features_t.indptr)
        common = np.flatnonzero(lengths > self.shape[1] // 4)
        rows = np.full(len(lengths), -1, index_type(len(lengths)))
        rows[common] = np.arange(len(common))
        return self[common], rows


def sum_of_products(
    terms: Sequence[tuple[FactoredWeights, Sparse, Floats, float]], in_common: bool = True
) -> Floats:
    """Sum of diag(scale) X W on all cores, given W, X, scale and the multiple of the first A of each term."""
    coef_t, width = terms[0][0].coef_t, simd.LANES
    coef, out = (coef_t.indptr, coef_t.indices, coef_t.data), np.zeros((len(terms[0][1]), coef_t.shape[1]))
    arrays = []
    for weights, x, scale, factor in terms:
        rows = np.full(weights.shape[0], -1, np.int32)
        if in_common:
            dense, rows = weights.common
            out += scale[:, None] * x.select(rows, len(dense)).dot(dense)
        lists = weights.features_t.indptr, unsigned(weights.features_t.indices), weights.features_t.data
        own = (x.indptr, unsigned(x.features), x.values, scale, rows)
        arrays.append((*own, *lists, factor * weights.scale))

    def add_range(first: int, last: int) -> None:
        kernel, total = np.zeros((width, coef_t.shape[0])), np.zeros((coef_t.shape[1], width))
        for begin in range(first, last, width):
            for term in arrays:
                _add_kernel(*term, kernel, begin, min(begin + width, last))
            _add_multiples(kernel, *coef, np.zeros(width), total, out[begin : min(begin + width, last)])

    run_on_ranges(np.sum([x.indptr for _, x, *_ in terms], axis=0), add_range)
    return out


def check_dense(parts: Sequence[Any]) -> None:
    """InputError if the weights of all terms of a kernel do not fit into memory as dense arrays."""
    shapes = [part.shape for part in parts if isinstance(part, FactoredWeights)]
    n_features, free = sum(shape[0] for shape in shapes), devices.free_memory(devices.select("cpu"))
    need = 8 * sum(shape[0] * shape[1] for shape in shapes)
    if COPIES * need > free:
        raise InputError(
            f"a weight for each of {n_features:,} features and {shapes[0][1]:,} machines takes "
            f"{need / 2**30:.1f} GiB, {COPIES} copies are needed and {free / 2**30:.1f} GiB are free; "
            f"take fewer classes, or a kernel with fewer lengths (p)"
        )


@njit(nogil=True, cache=True)
def _add_kernel(
    indptr, features, values, scale, common, starts, members, list_values, list_scale, kernel, first, last
):
    """Add the products of some rows of X with support vectors, without common features."""
    for i in range(first, last):
        own = kernel[i - first]
        for k in range(indptr[i], indptr[i + 1]):
            if common[features[k]] < 0:
                value = values[k] * scale[i]
                for at in range(starts[features[k]], starts[features[k] + 1]):
                    own[members[at]] += value * (list_values[at] * list_scale[members[at]])


@njit(nogil=True, cache=True)
def _add_multiples(kernel, starts, machines, coef, values, total, out):
    """Add the products of kernel values with A to `out`; `kernel` and `total` are 0 before and after."""
    flat, width = total.ravel(), np.uint64(len(values))
    for j in range(kernel.shape[1]):
        values[:] = kernel[:, j]
        if values.any():
            own = simd.load(values, 0)
            for k in range(starts[j], starts[j + 1]):
                at = np.uint64(machines[k]) * width
                simd.store(flat, at, simd.load(flat, at) + simd.fill(coef[k]) * own)
    for machine in range(len(total)):
        for i in range(len(out)):
            out[i, machine] += total[machine, i]
    kernel[:], total[:] = 0, 0
