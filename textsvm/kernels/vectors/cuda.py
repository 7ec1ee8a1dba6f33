"""GPU twin of kernels on vectors. Values of sparse vectors come from the method of least predicted time.

    digits      vectors are converted to dense digits (`linalg/vectors_cuda`), if memory suffices
    columns     frequent features are dense, the others lists of vectors (`linalg/products_cuda`)

Rates were measured on an H200 for whole kernel matrices of a9a, w8a, ijcnn1, sector, Reuters and dense
vectors of 16 to 2,000 numbers; on other GPUs both methods slow down by similar factors. Clusters of similar
sparsity (GTSVM) were never the fastest method (reports/history.md).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from textsvm.arrays import Array, Floats, Ints
from textsvm.kernels.contract import decision_by_rows
from textsvm.linalg.products_cuda import NARROW_SHARE, VECTOR_SHARE, CudaColumns, Factors, mirror
from textsvm.linalg.sparse_cuda import FIXED, CudaSparse, Finish, finish_defines, rows_of, warps
from textsvm.linalg.vectors import Vectors
from textsvm.linalg.vectors_cuda import MAX_FEATURES, SLAB, DigitColumns, dense_columns, digits_of, on_card
from textsvm.runtime import device as gpu
from textsvm.runtime.compiled import scipy
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import Progress

BLOCK_BYTES = 1 << 28  #: Bytes of products per block that a user's kernel finishes.
#: Seconds per value by digits and per number of a vector, by whether all numbers are whole and at most 127.
DIGITS = {True: (1.78e-12, 1.53e-15), False: (3.2e-12, 1.13e-14)}
WIDE = {True: 3.0e14, False: 1.7e13}  #: Multiply-adds per second of dense features, for the same two kinds.
LISTS = 3.6e10  #: Additions per second of lists.
PASS = 12_800  #: Columns per pass over the lists.
PAIR = 1.4e-11  #: Seconds per pair of vectors.
LAUNCHES = 5.0e-4  #: Seconds for the launches.
DENSE = 8 + 3  #: Bytes per number of a dense vector, before and after conversion to digits.


@dataclass(frozen=True)
class Sparsity:
    """Statistics of a sparse matrix."""

    n: int  #: Vectors
    n_features: int
    full: int  #: Features that `columns` keeps dense
    listed: float  #: Sum of the squared document frequencies of the other features
    small: bool  #: Whether all numbers are whole and at most 127 in absolute value
    room: int  #: Bytes available for dense vectors

    @property
    def width(self) -> int:
        """Digits per vector, padded."""
        return -(-self.n_features // SLAB) * SLAB

    @property
    def seconds(self) -> dict[str, float]:
        """Predicted seconds for the whole kernel matrix by each applicable method."""
        dense = self.full / WIDE[self.small] + PAIR
        lists = self.listed / 2 * -(-self.n // PASS) / LISTS
        seconds = {"columns": self.n**2 / 2 * dense + lists + LAUNCHES}
        if self.n_features <= MAX_FEATURES and 0 < DENSE * self.n * self.width <= self.room:
            value, number = DIGITS[self.small]
            seconds["digits"] = self.n**2 * (value + number * self.width)
        return seconds


def choose(sparsity: Sparsity) -> tuple[str, str]:
    """Method with the smallest predicted time, `columns` in a tie, and its description for the user."""
    seconds = sparsity.seconds
    name = min(seconds, key=lambda way: seconds[way])
    texts = {
        "columns": f"sparse products with {sparsity.full:,} features dense and the others as lists",
        "digits": "sparse vectors made dense",
    }
    others = "".join(f"; by {way} {seconds[way]:.2g} s" for way in seconds if way != name)
    return name, f"{texts[name]} (predicted {seconds[name]:.2g} s{others})"


def sparse_columns(values: Array, finish: Finish) -> DigitColumns | SparseColumns:
    """Prepare the vectors of a CSR matrix (n, d), sorted and without duplicates, for kernel values."""
    x = upload(values)
    sparsity = sparsity_of(x, finish)
    name, description = choose(sparsity)
    if name == "digits":
        digits = digits_of(on_card(values), finish)
        if digits is not None:
            return DigitColumns(values, digits, finish, description)
        _, description = choose(replace(sparsity, room=0))
    return SparseColumns(x, finish, description)


class SparseColumns:
    """Sparse vectors (`x` in float64), for kernel values of rows with them."""

    def __init__(self, x: CudaSparse, finish: Finish, description: str = "") -> None:
        self.finish, self.n, self.description = finish, len(x), description
        self._x, self._factors = x, factors_of(x, finish)
        self._made: dict[bool, CudaColumns] = {}

    @cached_property
    def diagonal(self) -> Array:
        """Value of each vector with itself, float32, shape (n,)."""
        squares = self._factors.scale
        return self.finish.value(squares[None].copy(), squares[None], squares)[0].astype(np.float32)

    def half(self, label: str, progress: Progress | None = None) -> Array:
        """Values of all pairs, shape (n, n), one half computed."""
        products = self._columns(self._x.whole).half(label, progress)
        matrix = self._values(products, self._factors.scale)
        mirror(matrix, self.diagonal.get())
        return matrix

    def rows(self, which: Array, label: str) -> Array:
        """Values of the rows of `which`, an int64 array on the GPU, with all."""
        return self._values(self._columns(self._x.whole).rows(which, label), self._factors.scale[which])

    def cross(self, values: Array, label: str, progress: Progress | None = None) -> Array:
        """Values of other vectors, an array or CSR matrix (m, d), with all."""
        x = upload(gpu.to_host(values))
        factors = factors_of(x, self.finish)
        products = self._columns(self._x.whole and x.whole).cross(x, factors, label, progress)
        return self._values(products, factors.scale)

    def _columns(self, whole: bool) -> Any:
        """Columns for products; with `whole`, for whole numbers only."""
        if whole not in self._made:
            self._made[whole] = CudaColumns(replace(self._x, whole=whole), self._factors, self.finish)
        return self._made[whole]

    def _values(self, products: Array, squares: Array) -> Array:
        """Kernel values from products, which are final if finish.cuh has the function."""
        size = max(1, BLOCK_BYTES // (8 * max(1, self.n)))
        for first in range(0, 0 if self.finish.known else len(products), size):
            block = products[first : first + size]
            rows = squares[first : first + size, None]
            block[:] = self.finish.value(block.astype(np.float64), rows, self._factors.scale)
        return products


def factors_of(x: CudaSparse, finish: Finish) -> Factors:
    """Factors of vectors: |x|^2 of each."""
    squares = gpu.cupy().zeros(len(x))
    warps("squares", len(x), x.indptr, x.values, squares, defines=(*FIXED, *finish_defines(finish.name)))
    return Factors(squares, squares)


def upload(values: Array) -> CudaSparse:
    """Rows of a CSR matrix on the current GPU, in float64."""
    cp = gpu.cupy()
    matrix = scipy.sparse.csr_matrix(values)
    entries, (n, d) = int(matrix.indptr[-1]), matrix.shape
    gpu.require_memory(48 * entries + 16 * d, f"{n:,} sparse vectors")
    indptr = cp.asarray(matrix.indptr.astype(np.int64))
    features = cp.asarray(matrix.indices[:entries].astype(np.int32))
    numbers = cp.asarray(matrix.data[:entries].astype(np.float64))
    df, highest = cp.zeros(d, np.int32), cp.zeros(d, np.int32)
    whole = bool((numbers == cp.rint(numbers)).all()) and bool((abs(numbers) < 1 << 31).all())
    if entries:
        df = cp.bincount(features, minlength=d).astype(np.int32)
    if entries and whole:
        cp.maximum.at(highest, features, abs(numbers).astype(np.int32))
    return CudaSparse(indptr, rows_of(indptr, entries), features, numbers, df, highest, whole)


def sparsity_of(x: CudaSparse, finish: Finish) -> Sparsity:
    """Statistics for the choice of the method."""
    df, n = x.df.astype(np.float64), len(x)
    full = df > max(1, (NARROW_SHARE if x.whole else VECTOR_SHARE) * n)
    small = x.whole and bool((x.highest < 128).all())
    squared_df = float((df[~full] ** 2).sum())
    room = gpu.free_memory() // 3 if finish.known else 0
    return Sparsity(n, len(x.df), int(full.sum()), squared_df, small, room)


BLOCK_BYTES = 1 << 28  #: Bytes of kernel values per block of a prediction.


class CudaVectorRows:
    """Kernel values of a fitted `VectorKernel` with fixed vectors on a GPU (`KernelRows`)."""

    def __init__(self, kernel: Any, documents: Vectors, device: Device) -> None:
        self.kernel, self.documents, self.device, self.n = kernel, documents, device, len(documents)
        self._name = f"the {kernel.name} kernel"

    @cached_property
    def columns(self) -> Any:
        """The vectors in the form used for products."""
        function = self.kernel.function
        finish = Finish(function.name, function.numbers, function.value)
        columns_of = sparse_columns if self.documents.sparse else dense_columns
        return columns_of(self.documents.values, finish)

    @property
    def description(self) -> str:
        """How products are computed, shown to the user."""
        with gpu.use(self.device):
            return str(self.columns.description)

    def diag(self) -> Array:
        with gpu.use(self.device):
            return self.columns.diagonal.copy()

    def rows(self, indices: Ints) -> Array:
        with gpu.use(self.device):
            return self.columns.rows(gpu.cupy().asarray(indices, np.int64), self._name)

    def gram(self, progress: Progress | None = None) -> Array:
        with gpu.use(self.device):
            return self.columns.half(self._name, progress)

    def cross(self, others: Vectors, progress: Progress | None = None) -> Array:
        with gpu.use(self.device):
            if not len(others):
                return gpu.cupy().empty((0, self.n), np.float32)
            return self.columns.cross(others.values, self._name, progress)

    def decision(self, others: Vectors, coef: Floats, progress: Progress | None = None) -> Floats:
        # Sparse vectors may be converted to dense ones.
        size = max(1, BLOCK_BYTES // max(1, 4 * self.n, 8 * others.n_features))
        return decision_by_rows(self, others, np.ascontiguousarray(coef, np.float64), progress, size=size)
