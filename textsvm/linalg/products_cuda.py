"""Products of the rows of sparse matrices on a GPU: launches of kernels_cu/products.cu.

A feature held by df of n rows costs df^2 / 2 additions in a list, or n^2 / 2 multiply-adds in a matrix
product; tensor cores do thousands of these in the time of an addition. Columns of X are of three kinds:

    narrow  held by more than NARROW_SHARE of the rows, whole values from -127 to 127: int8, summed in int32
    wide    other columns held by more than WIDE_SHARE (vectors: VECTOR_SHARE): float64
    rest    lists of rows; a block sums the products of a row in shared memory, as integers

Whole values >= 0 stay integers throughout: exact, then rounded once. Other features are put on a grid
(`Sparse.on_grid`), and are then whole numbers, too, whose products are below 2^53: a pair has the same bits
in a whole matrix and in some of its rows. Products of lists of vectors are rounded to 50 bits fixed point, so
their sums do not depend on the order and results are reproducible. On GPUs with few float64 units, wide
columns of features are float32, and the bits of a pair depend on the number of rows. `finish` of products.cu
turns a product and a number for each of the two rows into the result: factors for features, a kernel of
|x|^2 for vectors (finish.cuh).

Bytes: 4 n^2 the matrix; n * (narrow + 8 wide columns); TILE_BYTES a tile of products.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from textsvm.arrays import Array, Floats32
from textsvm.linalg.sparse_cuda import (
    EXACT,
    FINISHES,
    FIXED,
    GRID,
    SOURCE,
    CudaSparse,
    Finish,
    finish_defines,
    finish_fields,
    starts_of,
)
from textsvm.runtime import device as gpu
from textsvm.runtime.device import Defines
from textsvm.runtime.parallel import Progress

NARROW_SHARE = 0.02
WIDE_SHARE, VECTOR_SHARE = 0.07, 0.03  # measured from 0.01 to 0.15 on an H200: reports/gpu/features.md
FLOAT32_SHARE = 0.15  # in place of WIDE_SHARE on GPUs with few float64 units
TILE_BYTES = 1 << 29  # of a tile of products
PAD = 64  # the sides of int8 matrices are multiples of it
SHARED = 100 << 10  # bytes of sums per block: two blocks per multiprocessor
INT8, INT32 = 3, 10  # cudaDataType
#: Additional kernels launched here: products of vectors.
DEFINE_SETS = [(SOURCE, (*FIXED, *finish_defines(name))) for name in FINISHES]
#: struct Products of products.cu.
PRODUCTS = gpu.layout(
    "uint64 which indptr features values place lists list_documents list_values tile wide",
    "int64 ld skip",
    "uint64 row_scale scale out",
    "int32 n width half",
    "float32 unit",
    "int32 degree",
    "float64 gamma coef0",
)


class Factors:
    """A number per row, on the GPU, for `finish`: `scale`, or |x|^2 of vectors.

    `largest` is the maximum of `squares`, |x|^2 of every row, and bounds the products.
    """

    def __init__(self, scale: Array, squares: Array) -> None:
        self.scale = gpu.cupy().asarray(scale)
        self.largest = float(squares.max()) if len(squares) else 0.0


@dataclass(frozen=True)
class _ProductTile:
    """Rows that are multiplied with all columns: `which` of `x`, also in dense form.

    narrow : int8, (height, number of narrow columns), modulo 128
    wide : float64 or float32, (height, number of wide columns)
    digits : further digits of the narrow columns, base 128
    """

    x: CudaSparse
    which: Array
    narrow: Array
    wide: Array
    digits: list[Array]


class CudaColumns:
    """X by columns (narrow, wide and rest), for products of rows with the rows of X.

    `factors` are of the rows of X; `kernel` is the finish of vectors, whose values are float64.
    """

    def __init__(self, x: CudaSparse, factors: Factors, kernel: Finish | None = None) -> None:
        cp = gpu.cupy()
        self.grid = kernel is None and not x.whole
        x, factors = self._on_grid(x, factors)
        self.x, self.n, self.factors, self.kernel = x, len(x), factors, kernel
        self.height = _padded(max(self.n, 1))
        self.wide_type = np.float64 if kernel or gpu.fast_float64() else np.float32
        sums = self._split(x)
        self.place = cp.empty(len(x.df), np.int32)
        lengths = cp.empty(len(x.df), np.int64)
        self._each("place_features", len(x.df), x.df, sums, self.place, lengths)
        self.lists = starts_of(lengths)
        cursor = self.lists[:-1].copy()
        self.list_documents = cp.empty(len(x.features), np.int32)
        self.list_values = cp.empty(len(x.features), x.values.dtype)
        entries = (x.documents, x.features, x.values, self.place)
        self._each("fill_lists", len(x.features), *entries, cursor, self.list_documents, self.list_values)
        self.narrow, self.wide = self._dense(x, 0, self.n, self.height, 0)

    def half(self, label: str, progress: Progress | None = None) -> Array:
        """finish(<x[i], x[j]>) for j > i, shape (n, n), others arbitrary; `label` names the matrix."""
        out, indices = self._empty(self.n, label), gpu.cupy().arange(self.n)
        for first, last in self._tiles(self.n):
            end = first + _padded(last - first)
            tile = _ProductTile(self.x, indices[first:last], self.narrow[first:end], self.wide[first:end], [])
            self._fill(out[first:last], tile, self.factors, first)
            gpu.report(progress, last * (2 * self.n - last), self.n * self.n)
        return out

    def rows(self, which: Array, label: str) -> Array:
        """finish(<x[i], x[j]>) for the rows i of `which`, an int64 array on the GPU, and all j."""
        out = self._empty(len(which), label)
        for first, last in self._tiles(len(which)):
            block = which[first:last]
            padded = gpu.cupy().zeros(_padded(len(block)), np.int64)
            padded[: len(block)] = block
            tile = _ProductTile(self.x, block, self.narrow[padded], self.wide[padded], [])
            self._fill(out[first:last], tile, self.factors)
        return out

    def cross(self, x: CudaSparse, factors: Factors, label: str, progress: Progress | None = None) -> Array:
        """finish(<row i of another matrix over the same features, x[j]>) for all i and j."""
        x, factors = self._on_grid(x, factors)
        out, indices = self._empty(len(x), label), gpu.cupy().arange(len(x))
        largest = self._largest(x)
        for first, last in self._tiles(len(x)):
            height = _padded(last - first)
            narrow, wide = self._dense(x, first, last, height, 0)
            more = range(1, -(-largest.bit_length() // 7))
            digits = [self._dense(x, first, last, height, digit)[0] for digit in more]
            tile = _ProductTile(x, indices[first:last], narrow, wide, digits)
            self._fill(out[first:last], tile, factors)
            gpu.report(progress, last, len(x))
        return out

    def _on_grid(self, x: CudaSparse, factors: Factors) -> tuple[CudaSparse, Factors]:
        if not self.grid:
            return x, factors
        on_grid, units = x.on_grid()
        # Times powers of two: the rounding of results does not change.
        return on_grid, Factors(factors.scale * gpu.cupy().asarray(units), x.squares)

    def _empty(self, m: int, values: str) -> Array:
        return empty_matrix(m, self.n, values, 12 * self._tile(m) * self.height)

    def _tile(self, m: int) -> int:
        """Rows per tile, limited by TILE_BYTES."""
        fit = TILE_BYTES // (12 * self.height) // PAD * PAD
        return min(max(fit, PAD), _padded(max(m, 1)))

    def _tiles(self, m: int) -> Iterator[tuple[int, int]]:
        size = self._tile(m)
        return ((first, min(first + size, m)) for first in range(0, m, size))

    def _split(self, x: CudaSparse) -> Array:
        """Running numbers of narrow (low 32 bits) and wide features; fewer if memory is short."""
        cp = gpu.cupy()
        share = WIDE_SHARE if self.wide_type == np.float64 else FLOAT32_SHARE
        if self.kernel or x.whole:
            share = NARROW_SHARE if x.whole else VECTOR_SHARE
        kinds = cp.empty(len(x.df), np.int64)
        while True:
            least = np.float32(max(share * self.n, 1))
            self._each("classify", len(x.df), x.df, x.highest, least, np.int32(x.whole), kinds)
            sums = cp.cumsum(kinds) if len(kinds) else kinds
            total = int(sums[-1]) if len(kinds) else 0
            self.n_narrow, self.n_wide = total & 0xFFFFFFFF, total >> 32
            self.ld = _padded(self.n_narrow)
            needed = self.height * (self.ld + 8 * self.n_wide)
            if needed <= gpu.SMALL or needed <= gpu.free_memory() // 3 or share >= 1:
                return sums
            share *= 1.5

    def _dense(self, x: CudaSparse, first: int, last: int, height: int, digit: int) -> tuple[Array, Array]:
        """Narrow and wide columns of the rows first..last of `x`, padded to `height` rows."""
        cp = gpu.cupy()
        narrow = cp.zeros((height, self.ld), np.int8)
        wide = cp.zeros((height, self.n_wide), self.wide_type)
        begin, end = 0, len(x.features)
        if last - first < len(x):
            begin, end = x.indptr[[first, last]].get().tolist()
        entries = (x.documents[begin:end], x.features[begin:end], x.values[begin:end], self.place)
        if self.n_narrow:
            sizes = (np.int32(first), np.int32(digit), np.int64(self.ld))
            self._each("narrow_columns", end - begin, *entries, *sizes, narrow)
        if self.n_wide:
            name = "wide_columns_double" if self.wide_type == np.float64 else "wide_columns_float"
            self._each(name, end - begin, *entries, np.int32(first), np.int64(self.n_wide), wide)
        return narrow, wide

    def _largest(self, x: CudaSparse) -> int:
        if not len(x.features) or not len(self.place):
            return 0
        narrow = (x.features >= 0) & (self.place[x.features] >= 0)
        return int(gpu.cupy().where(narrow, abs(x.values), 0).max())

    def _fill(self, out: Array, tile: _ProductTile, factors: Factors, first: int | None = None) -> None:
        """Products of a tile's rows into `out`; with `first`, only beyond the diagonal."""
        if not len(out) or not self.n:
            return
        skip = first or 0
        bound = (factors.largest * self.factors.largest) ** 0.5  # Cauchy-Schwarz: no product is larger
        integer, defines, unit = self._sums(bound)
        width = min(_shared() // integer().itemsize, self.n)
        # Keep references until the launch: addresses do not keep arrays alive.
        narrow, wide = self._narrow_product(tile.narrow, skip), self._wide_product(tile, skip)
        x, blocks = tile.x, (len(out), -(-self.n // width))
        argument = gpu.structure(
            PRODUCTS, self, x, which=tile.which, tile=narrow, wide=wide, ld=self.height - skip, skip=skip,
            row_scale=factors.scale, scale=self.factors.scale, out=out,
            width=width, half=first is not None, unit=unit, **finish_fields(self.kernel),
        )  # fmt: skip
        kernel = gpu.function(SOURCE, "rows", defines)
        kernel.max_dynamic_shared_size_bytes = _shared()
        kernel(blocks, (512,), (argument,), shared_mem=width * integer().itemsize)

    def _sums(self, bound: float) -> tuple[Any, Defines, float]:
        """Type of sums of list products up to `bound`, definitions of the kernel, inverse of the unit."""
        if self.kernel is not None:
            bits = 50 - int(np.ceil(np.log2(bound))) if bound else 0
            return np.uint64, self._defines, 2.0 ** min(max(bits, -126), 126)
        if self.grid:
            return np.uint64, GRID, 1.0
        integer = np.uint32 if bound < 1 << 32 else np.uint64
        return integer, EXACT[integer], 1.0

    @property
    def _defines(self) -> Defines:
        """Definitions of kernels that do not add up products."""
        if self.kernel is not None:
            return (*FIXED, *finish_defines(self.kernel.name))
        return GRID if self.grid else EXACT[np.uint32]

    def _each(self, name: str, n: int, *args: object) -> None:
        gpu.each(gpu.function(SOURCE, name, self._defines), n, *args)

    def _narrow_product(self, rows: Array, skip: int) -> Array | None:
        """rows @ narrow[skip:].T in int32, shape (len(rows), height - skip)."""
        cp = gpu.cupy()
        if not self.n_narrow:
            return None
        columns = self.narrow[skip:]
        tile = cp.empty((len(rows), len(columns)), np.int32)
        one, zero = np.ones(1, np.int32), np.zeros(1, np.int32)
        blas = cp.cuda.cublas
        blas.gemmEx(
            cp.cuda.device.get_cublas_handle(), blas.CUBLAS_OP_T, blas.CUBLAS_OP_N,
            len(columns), len(rows), self.ld, one.ctypes.data,
            columns.data.ptr, INT8, self.ld,
            rows.data.ptr, INT8, self.ld, zero.ctypes.data,
            tile.data.ptr, INT32, len(columns),
            blas.CUBLAS_COMPUTE_32I, blas.CUBLAS_GEMM_DEFAULT,
        )  # fmt: skip
        return tile

    def _wide_product(self, rows: _ProductTile, skip: int) -> Array | None:
        """Products of wide columns, and of further digits of narrow columns, in float64."""
        total = None
        if self.n_wide:
            total = (rows.wide @ self.wide[skip:].T).astype(np.float64, copy=False)
        for power, digit in enumerate(rows.digits, 1):
            tile = self._narrow_product(digit, skip)
            part = tile.astype(np.float64) * 128.0**power if tile is not None else 0
            total = part if total is None else total + part
        return total


def empty_matrix(m: int, n: int, values: str, beside: int = 0) -> Array:
    """Uninitialised float32 matrix (m, n) of `values`, if there is memory for it and `beside` more bytes."""
    purpose = f"the {m:,} x {n:,} matrix of {values}"
    gpu.require_memory(4 * m * n + beside, purpose, "lower --memory, or run with --device cpu")
    return gpu.cupy().empty((m, n), np.float32)


def mirror(matrix: Array, diagonal: Floats32) -> None:
    """Copy the upper half of a square matrix to the lower half, and set its diagonal."""
    blocks = -(-len(matrix) // 64)
    if blocks:
        on_card = gpu.cupy().asarray(diagonal)
        kernel = gpu.function(SOURCE, "mirror", EXACT[np.uint32])
        kernel((blocks, blocks), (64, 8), (np.int32(len(matrix)), on_card, matrix))


def _shared() -> int:
    """Shared memory per block for sums, in bytes."""
    return min(SHARED, gpu.shared_memory())


def _padded(n: int) -> int:
    return -(-n // PAD) * PAD
