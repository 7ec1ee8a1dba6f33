"""Rows of kernels of sparse vectors on a GPU, made as `textsvm.features.sparsity` decides."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from textsvm import device as devices
from textsvm.device import Device
from textsvm.features.clusters import Clusters, cluster
from textsvm.features.clusters_cuda import CudaClusters
from textsvm.features.finish_cuda import Finish
from textsvm.features.products_cuda import NARROW_SHARE, WIDE_SHARE, CudaColumns, Factors, mirror
from textsvm.features.sparse_cuda import CudaSparse
from textsvm.features.sparsity import Sparsity, Way, choose
from textsvm.features.vectors import Vectors
from textsvm.kernels.rows import BLOCK_BYTES
from textsvm.kernels.vectors import VectorKernel
from textsvm.parallel import Progress

Array = Any  # a CuPy array


class CudaSparseVectorRows:
    """Kernel values with fixed sparse vectors (`KernelRows`), by dense and listed features or by clusters.

    Parameters
    ----------
    kernel : VectorKernel
    documents : Vectors
        Sparse.
    device : Device
    way : Way, optional
        How products are made; None leaves it to `choose`.

    Attributes
    ----------
    description : str
        How products are made, for people.
    """

    def __init__(
        self, kernel: VectorKernel, documents: Vectors, device: Device, way: Way | None = None
    ) -> None:
        self.kernel, self.documents, self.device, self.n = kernel, documents, device, len(documents)
        self.finish = Finish(kernel.finish, kernel.numbers) if kernel.finish else Finish()
        self.squares = squares_of(documents)
        with devices.use(device):
            self.x = upload(documents)
            self.factors = Factors(self.squares, self.squares)
            self.clusters: Clusters | None = None
            self.way = way or self._decide()
        self.description = self.way.description

    def diag(self) -> Array:
        """See `MatrixRows`."""
        with devices.use(self.device):
            return devices.cupy().asarray(self._diag())

    def rows(self, indices: NDArray[np.int64]) -> Array:
        """See `MatrixRows`."""
        with devices.use(self.device):
            which = devices.cupy().asarray(indices, np.int64)
            return self._valued(self._columns.rows(which, self._what), self.factors.scale[which])

    def gram(self, progress: Progress | None = None) -> Array:
        """See `MatrixRows`."""
        with devices.use(self.device):
            matrix = self._columns.half(self._what, progress)
            mirror(matrix, self._diag() if self.kernel.finish else self.squares.astype(np.float32))
            return self._valued(matrix, self.factors.scale)

    def cross(self, others: Vectors, progress: Progress | None = None) -> Array:
        """See `KernelRows`."""
        with devices.use(self.device):
            squares = squares_of(others)
            factors = Factors(squares, squares)
            values = self._columns.cross(upload(others), factors, self._what, progress)
            return self._valued(values, factors.scale)

    def decision(
        self, others: Vectors, coef: NDArray[np.float64], progress: Progress | None = None
    ) -> NDArray[np.float64]:
        """See `KernelRows`."""
        values = np.empty((len(others), coef.shape[1]))
        size = max(1, 8 * BLOCK_BYTES // (4 * max(1, self.n)))
        for start in range(0, len(others), size):
            block = others.take(np.arange(start, min(start + size, len(others))))
            with devices.use(self.device):
                values[start : start + size] = (self.cross(block) @ devices.cupy().asarray(coef)).get()
            if progress is not None:
                progress(min(start + size, len(others)), len(others))
        return values

    @cached_property
    def _columns(self) -> CudaColumns | CudaClusters:
        if self.way.name == "columns":
            return CudaColumns(self.x, self.factors, self.finish)
        return CudaClusters(self.x, self.factors, self._clustered(), self.finish)

    def _decide(self) -> Way:
        """Vectors are clustered only if that could be fastest."""
        sparsity, memory = sparsity_of(self.x), devices.free_memory() // 3
        way = choose(sparsity, memory)
        if way.name != "clusters":
            return way
        return choose(replace(sparsity, active=self._clustered().active), memory)

    def _clustered(self) -> Clusters:
        if self.clusters is None:
            matrix = csr_matrix(self.documents.values)
            self.clusters = cluster(matrix.indptr, matrix.indices, self.documents.n_features)
        return self.clusters

    @property
    def _what(self) -> str:
        return f"the {self.kernel.name} kernel"

    def _diag(self) -> NDArray[np.float32]:
        squares = self.squares[None]
        return self.kernel.value(squares.copy(), squares, squares[0])[0].astype(np.float32)

    def _valued(self, products: Array, squares: Array) -> Array:
        """Kernel values, which products are already if their kernel has a `finish`."""
        size = max(1, BLOCK_BYTES // (8 * max(1, self.n)))
        for first in range(0, 0 if self.kernel.finish else len(products), size):
            some = products[first : first + size]
            rows = squares[first : first + size, None]
            some[:] = self.kernel.value(some.astype(np.float64), rows, self.factors.scale)
        return products


def squares_of(documents: Vectors) -> NDArray[np.float64]:
    """|x|^2 of sparse vectors, shape (n,)."""
    values = csr_matrix(documents.values, dtype=np.float64)
    return np.asarray(values.multiply(values).sum(axis=1), np.float64).reshape(len(documents))


def upload(documents: Vectors) -> CudaSparse:
    """Sparse vectors on the current card, in float64."""
    cp = devices.cupy()
    matrix = csr_matrix(documents.values)
    entries, d = int(matrix.indptr[-1]), documents.n_features
    devices.require_memory(48 * entries + 16 * d, f"{len(documents):,} sparse vectors")
    indptr = cp.asarray(matrix.indptr.astype(np.int64))
    features = cp.asarray(matrix.indices.astype(np.int32))
    values = cp.asarray(matrix.data.astype(np.float64))
    rows = cp.searchsorted(indptr, cp.arange(entries), side="right").astype(np.int32) - 1
    df, highest = cp.bincount(features, minlength=d).astype(np.int32), cp.zeros(d, np.int32)
    whole = bool((values == cp.rint(values)).all()) and float(abs(values).max(initial=0)) < 1 << 31
    if whole:
        cp.maximum.at(highest, features, abs(values).astype(np.int32))
    return CudaSparse(indptr, rows, features, values, df, highest, whole)


def sparsity_of(x: CudaSparse) -> Sparsity:
    """What the decision is made from."""
    df, n = x.df.astype(np.float64), len(x)
    full = df > (NARROW_SHARE if x.whole else WIDE_SHARE) * n
    small = x.whole and int(x.highest.max(initial=0)) < 128
    listed = float((df[~full] ** 2).sum())
    return Sparsity(n, len(x.df), len(x.features), int(full.sum()), listed, small)
