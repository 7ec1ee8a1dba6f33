"""Kernel values of dense vectors on a GPU, from products of 8-bit digits or of float64.

Real vectors are put on a grid of whole numbers N (`Grid`):

    x = centre + unit * N,    N = 65536 a + 256 b + c,    a, b, c from -128 to 127

A product of two vectors is then a sum of products of digits, exact in 32 bits in any order, which tensor
cores compute twice as fast as products of 16-bit floats. A single digit suffices for small whole numbers (0
and 1, or pixels, in any power of 2); three digits are 24 bits of the largest number. Distances |x|^2 + |y|^2
- 2 <x, y> do not cancel: the only error is the rounding to the grid, except in the lowest products. With
three digits, six products of digits are summed (SIX: a a', a b' + b a', and a c' + b b' + c a' in units of
2^24, rounded once per 32 features) or eight (EIGHT: in units of 2^16, with b c' + c b' rounded likewise).

Values have the same bits in `half`, `rows` and `cross`, in any tile. They are finished in registers and
written once, with the mirror image of a square.

    rows        up to 8: digits are read once, bandwidth-bound; more: tiles of 128 (or 64) x 128
    bytes       3 n d for the digits (n d for ONE), 4 m n for the values
    operations  6 (EIGHT 8, ONE 1) 8-bit multiply-adds per value and feature

Vectors that no grid approximates well enough, and kernels that finish.cuh does not have, are multiplied in
float64. There, for vectors far from the mean, |x|^2 + |y|^2 - 2 <x, y> loses the digits of gamma |x - y|^2:
rows with gamma |x|^2 above FAR are computed from differences, row by row.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import numpy as np

from textsvm.arrays import Array
from textsvm.linalg.products_cuda import empty_matrix, mirror
from textsvm.linalg.sparse_cuda import FINISHES, Finish, finish_defines, finish_fields, rows_of
from textsvm.runtime import device as gpu
from textsvm.runtime.compiled import scipy
from textsvm.runtime.parallel import Progress

#: Methods of multiplication, by the number of products of digits.
ONE, SIX, EIGHT = 1, 2, 3
#: Largest N of three digits: 127 in each, less 1 for a centre on the grid.
MAX_NUMBER = 127 * 65536 + 127 * 256 + 127 - 1
MAX_FEATURES = 32_000  #: Number of features up to which sums of digits stay below 2^31.
SLAB = 32  #: Features whose low products are rounded together.
#: Tolerated absolute error of exp(-gamma |x - y|^2).
TOLERANCE = 8e-7
_DEVIATIONS = 6.0  # of a normal variable: exceeded once in 10^9
_DIGIT = 256 / math.sqrt(12)  # standard deviation of a uniformly distributed digit
_STEEPEST = math.sqrt(2 / math.e)  # the largest slope of exp(-t^2)

SOURCE, TILES = "vectors.cu", "vector_tiles.cu"
#: Unit of a product in units of the numbers, for each of the two vectors.
FACTOR = {ONE: 1.0, SIX: 4096.0, EIGHT: 256.0}
TILE_BYTES = 1 << 28  # of products at a time
#: Sums of this size have errors of about 1e-8; other rows with a noticeable value are equally far away.
FAR = 1e7
#: struct Work of vectors.cuh.
WORK = gpu.layout(
    "uint64 rows columns which row_squares squares row_units units out",
    "float64 gamma coef0",
    "int32 degree m n slabs group first half",
)
DESCRIPTIONS = {ONE: "digits: one product", SIX: "digits: six products", EIGHT: "digits: eight products"}
FEW = 8  # rows of vectors.cu's `few`
SHARED = 96 << 10  # bytes that it may keep of them
GROUP = 1024  # rows of tiles that follow each other
WIDE = 128  # columns of a tile
PARTS = 16  # of a Gram, between which progress is reported


def power_of_two(least: float) -> float:
    """Smallest power of 2 that is at least `least`; 1 for 0."""
    if least <= 0:
        return 1.0
    mantissa, exponent = math.frexp(least)
    return math.ldexp(1.0, exponent - (mantissa == 0.5))


def gaussian_error(way: int, gamma: float, unit: float, n_features: int, *, rounded: bool) -> float:
    """Bound of the error of exp(-gamma |x - y|^2) for vectors of three digits in this unit.

    It is six standard deviations for uniformly distributed low digits; `way` is SIX or EIGHT.
    """
    slabs = -(-n_features // SLAB)
    if way == SIX:
        variance = slabs * 2.0**48 / 12 + n_features * 2 * (256 * _DIGIT**2) ** 2
    else:
        variance = slabs * 2.0**32 / 12 + n_features * _DIGIT**4
    error = 2 * gamma * unit * unit * _DEVIATIONS * math.sqrt(variance)
    if rounded:  # each number moves by unit / sqrt(12), in both vectors
        error += _DEVIATIONS * _STEEPEST * math.sqrt(gamma / 6) * unit + gamma * unit * unit * n_features / 6
    return error


def tile_shape(way: int, room: int) -> tuple[int, int, int]:
    """Rows of a tile, stages of digits (fetched ahead), and their bytes, given `room` bytes of shared memory.

    64 KiB hold 64 rows and, of three digits, a single stage; 99 KiB two stages of 128 rows.
    """
    high, (stages, places) = 64 if way == EIGHT else 128, (4, 1) if way == ONE else (3, 3)
    if _finished_bytes(high) > room:
        high = 64
    stage = (high + WIDE) * places * 2 * SLAB
    stages = min(stages, room // stage)
    return high, stages, max(stages * stage, _finished_bytes(high))


def _finished_bytes(high: int) -> int:
    """Shared memory of a finished tile, which is written row by row and, if mirrored, column by column."""
    return 4 * max(high * (WIDE + 4), WIDE * (high + 4))


def defines(way: int, finish: str) -> gpu.Defines:
    """Preprocessor definitions of vectors.cu."""
    return ("SUMS", way), *finish_defines(finish)


def tile_defines(way: int, finish: str, room: int) -> gpu.Defines:
    """Preprocessor definitions of vector_tiles.cu for a GPU with `room` bytes of shared memory per block."""
    high, stages, _ = tile_shape(way, room)
    return *defines(way, finish), ("HIGH", high), ("STAGES", stages)


#: Kernels launched: (source, defines).
DEFINE_SETS = [
    *((SOURCE, defines(way, finish)) for way in FACTOR for finish in FINISHES),
    *((TILES, tile_defines(way, finish, 227 << 10)) for way in FACTOR for finish in FINISHES),
    *((TILES, tile_defines(way, "gaussian", room << 10)) for way in FACTOR for room in (99, 64)),
]


@dataclass(frozen=True)
class Grid:
    """Grid for vectors."""

    way: int  #: ONE, SIX or EIGHT
    centre: Array  #: float64, (d,)
    unit: float | None  #: None if each vector has its own
    exact: bool  #: Whether rounding is not allowed


def grids(finish: Finish, *several: Array) -> Iterator[Grid]:
    """Grids for arrays of vectors, (n, d), fastest first; the last, if any, fits all vectors."""
    cp = gpu.cupy()
    low = reduce(cp.minimum, [values.min(axis=0).astype(np.float64) for values in several])
    high = reduce(cp.maximum, [values.max(axis=0).astype(np.float64) for values in several])
    if finish.gamma is None:
        most = float(cp.maximum(abs(low), abs(high)).max())
        origin = cp.zeros(len(low))
        yield Grid(ONE, origin, power_of_two(most / 127), True)
        yield Grid(EIGHT, origin, power_of_two(most / MAX_NUMBER), True)
        yield Grid(EIGHT, origin, None, False)
        return
    middle, width = (low + high) / 2, float((high - low).max())
    unit = power_of_two(width / 255)
    yield Grid(ONE, unit * cp.ceil(middle / unit), unit, True)
    unit = power_of_two(width / (2 * MAX_NUMBER))
    centre = unit * cp.rint(middle / unit)
    yield from _three_digits(finish.gamma, centre, unit, exact=True)
    yield from _three_digits(finish.gamma, middle, width / (2 * MAX_NUMBER) or 1.0, exact=False)


def _three_digits(gamma: float, centre: Array, unit: float, *, exact: bool) -> Iterator[Grid]:
    """Grid of the fastest method that is accurate enough."""
    for way in (SIX, EIGHT):
        if gaussian_error(way, gamma, unit, len(centre), rounded=not exact) <= TOLERANCE:
            yield Grid(way, centre, unit, exact)
            return


@dataclass(frozen=True)
class Digits:
    """Vectors on a grid."""

    grid: Grid
    digits: Array  #: int8, (n, 1 or 3, 32 * slabs), highest first
    units: Array  #: float64, (n,): Scale of products, for both vectors
    squares: Array  #: float64, (n,): Product of each vector with itself
    fits: bool  #: Whether the grid represents the vectors accurately enough

    @property
    def slabs(self) -> int:
        """Number of groups of SLAB features."""
        return int(self.digits.shape[2]) // SLAB

    def __len__(self) -> int:
        return int(self.digits.shape[0])


def encode(values: Array, grid: Grid, finish: Finish) -> Digits:
    """Put vectors, float32 or float64 (n, d) on the GPU, on a grid."""
    cp = gpu.cupy()
    n, d = values.shape
    width, places = -(-d // SLAB) * SLAB, 1 if grid.way == ONE else 3
    gpu.require_memory(n * width * places, f"{n:,} vectors of {d:,} numbers")
    digits, flags = cp.empty((n, places, width), np.int8), cp.zeros(2, np.int32)
    if grid.unit is None:  # a unit for each vector
        most = cp.maximum(values.max(axis=1), -values.min(axis=1)).astype(np.float64)
        units = cp.where(most > 0, most / MAX_NUMBER, 1.0)
    else:
        units = cp.full(n, grid.unit)
    name = "encode_double" if values.dtype == np.float64 else "encode_float"
    sizes = (np.int32(d), np.int32(width))
    gpu.each(_function(name, grid.way), n * width, *sizes, values, grid.centre, units, digits, flags)
    rounded, outside = flags.get().tolist()
    squares = cp.empty(n)
    gpu.each(_function("self_products", grid.way), 32 * n, np.int32(width // SLAB), digits, squares)
    factor = FACTOR[grid.way] * (1 if finish.gamma is None else np.sqrt(finish.gamma / np.log(2)))
    return Digits(grid, digits, units * factor, squares, not (outside or (rounded and grid.exact)))


def _function(name: str, way: int) -> Any:
    return gpu.function(SOURCE, name, defines(way, FINISHES[0]))


def on_card(values: Array) -> Array:
    """Rows on the current GPU as a dense array, float32 or float64."""
    cp, (n, d) = gpu.cupy(), values.shape
    dtype = np.dtype(np.float32 if values.dtype == np.float32 else np.float64)
    gpu.require_memory(n * d * dtype.itemsize, f"{n:,} vectors of {d:,} numbers")
    if not scipy.sparse.issparse(values):
        return cp.ascontiguousarray(cp.asarray(values, dtype))
    matrix, entries = scipy.sparse.csr_matrix(values), int(values.nnz)
    rows, columns = rows_of(cp.asarray(matrix.indptr), entries), cp.asarray(matrix.indices)
    dense = cp.zeros((n, d), dtype)
    dense[rows, columns[:entries]] = cp.asarray(matrix.data[:entries], dtype)
    return dense


def dense_columns(values: Array, finish: Finish) -> DigitColumns | Float64Columns:
    """Prepare vectors (n, d), NumPy, SciPy or CuPy, for kernel values, in the fastest accurate form."""
    array = on_card(values)
    digits = digits_of(array, finish)
    return Float64Columns(array, finish) if digits is None else DigitColumns(values, digits, finish)


def digits_of(values: Array, finish: Finish) -> Digits | None:
    """Vectors, (n, d) on the GPU, on the first grid that fits, or None."""
    if not finish.known or not 0 < values.shape[1] <= MAX_FEATURES or not len(values):
        return None
    for grid in grids(finish, values):
        digits = encode(values, grid, finish)
        if digits.fits:
            return digits
    return None


class DigitColumns:
    """Vectors in digits, for kernel values of rows with them; `values` are the vectors themselves."""

    def __init__(self, values: Array, digits: Digits, finish: Finish, why: str = "") -> None:
        self.values, self.digits, self.finish, self.n = values, digits, finish, len(digits)
        self.description = f"{why}, {DESCRIPTIONS[digits.grid.way]}" if why else DESCRIPTIONS[digits.grid.way]

    @cached_property
    def diagonal(self) -> Array:
        """Value of each vector with itself, float32, shape (n,)."""
        cp = gpu.cupy()
        if self.finish.gamma is not None:
            return cp.ones(self.n, np.float32)
        squares = self.digits.squares * self.digits.units**2
        return self.finish.value(squares[None].copy(), squares[None], squares)[0].astype(np.float32)

    def half(self, label: str, progress: Progress | None = None) -> Array:
        """Values of all pairs, shape (n, n), one half computed; `label` names the matrix."""
        out = empty_matrix(self.n, self.n, label)
        total = sum(_groups(self.digits, self.n, self.n, half=True))
        size = total if progress is None else max(1, -(-total // PARTS))
        for first in range(0, total, size):
            blocks = range(first, min(first + size, total))
            self._tiles(out, self.digits, None, self.digits, blocks, half=True)
            gpu.report(progress, blocks.stop, total)
        return out

    def rows(self, which: Array, label: str) -> Array:
        """Values of the rows of `which`, an int64 array on the GPU, with all."""
        out = empty_matrix(len(which), self.n, label)
        self._fill(out, self.digits, which, self.digits)
        return out

    def cross(self, values: Array, label: str, progress: Progress | None = None) -> Array:
        """Values of other vectors, an array or CSR matrix (m, d), with all."""
        others = on_card(values)
        digits, columns = self._on_one_grid(others)
        if digits is None or columns is None:
            return Float64Columns(on_card(self.values), self.finish).cross(others, label, progress)
        out = empty_matrix(len(others), self.n, label)
        self._fill(out, digits, None, columns)
        gpu.report(progress, len(others), len(others))
        return out

    def _on_one_grid(self, others: Array) -> tuple[Digits | None, Digits | None]:
        """Other vectors, and these, on a common grid: the current one if it fits."""
        rows = encode(others, self.digits.grid, self.finish)
        if rows.fits:
            return rows, self.digits
        mine = on_card(self.values)
        for grid in grids(self.finish, mine, others):
            rows = encode(others, grid, self.finish)
            columns = encode(mine, grid, self.finish) if rows.fits else rows
            if columns.fits:
                return rows, columns
        return None, None

    def _fill(self, out: Array, rows: Digits, which: Array | None, columns: Digits) -> None:
        shared = len(out) * rows.digits.shape[1] * rows.digits.shape[2]
        if not out.size:
            return
        room = min(SHARED, gpu.shared_memory())
        if len(out) > FEW or shared > room:
            blocks = range(sum(_groups(columns, len(out), self.n, half=False)))
            self._tiles(out, rows, which, columns, blocks, half=False)
            return
        lanes = min(32, 1 << (columns.slabs - 1).bit_length())
        name = "one" if len(out) == 1 else "few"
        kernel = gpu.function(SOURCE, name, defines(columns.grid.way, self.finish.name))
        kernel.max_dynamic_shared_size_bytes = room
        size = min(-(-self.n * lanes // 256), 8 * gpu.multiprocessors())  # blocks that keep the GPU busy
        work = self._work(out, rows, which, columns)
        kernel((size,), (256,), (work, np.int32(lanes)), shared_mem=shared)

    def _tiles(
        self, out: Array, rows: Digits, which: Array | None, columns: Digits, blocks: range, *, half: bool
    ) -> None:
        way, room = columns.grid.way, gpu.shared_memory()
        kernel = gpu.function(TILES, "tiles", tile_defines(way, self.finish.name, room))
        shared = tile_shape(way, room)[2]
        kernel.max_dynamic_shared_size_bytes = shared
        group = _group(columns, len(out))
        work = self._work(out, rows, which, columns, group=group, first=blocks.start, half=half)
        kernel((len(blocks),), (256,), (work,), shared_mem=shared)

    def _work(self, out: Array, rows: Digits, which: Array | None, columns: Digits, **tiles: int) -> Any:
        return gpu.structure(
            WORK, rows=rows.digits, columns=columns.digits, which=which, row_squares=rows.squares,
            squares=columns.squares, row_units=rows.units, units=columns.units, out=out,
            m=len(out), n=self.n, slabs=columns.slabs, **finish_fields(self.finish),
            **{"group": 0, "first": 0, "half": 0, **tiles},
        )  # fmt: skip


def _high(way: int) -> int:
    return tile_shape(way, gpu.shared_memory())[0]


def _group(columns: Digits, m: int) -> int:
    high = _high(columns.grid.way)
    return min(GROUP // high, -(-m // high))


def _groups(columns: Digits, m: int, n: int, *, half: bool) -> list[int]:
    """Blocks of each group of tiles, as `find_tile` counts them."""
    high, wide, group = _high(columns.grid.way), -(-n // WIDE), _group(columns, m)
    starts = range(0, -(-m // high), group)
    return [group * (wide - (start * high // WIDE if half else 0)) for start in starts]


class Float64Columns:
    """Vectors, (n, d) on the GPU, multiplied in float64, for kernel values of rows with them."""

    description = "float64 products"

    def __init__(self, values: Array, finish: Finish) -> None:
        gpu.require_memory(8 * values.size, f"{len(values):,} vectors in float64")
        # A distance is the same from any origin, and its parts are small from the middle.
        centre = values.mean(axis=0, dtype=np.float64) if finish.gamma is not None and len(values) else 0
        self.finish, self.n, self.centre = finish, len(values), centre
        self.values = values.astype(np.float64) - centre
        self.squares = _squares(self.values)

    @cached_property
    def diagonal(self) -> Array:
        """Value of each vector with itself, float32, shape (n,)."""
        squares = self.squares
        return self.finish.value(squares[None].copy(), squares[None], squares)[0].astype(np.float32)

    def half(self, label: str, progress: Progress | None = None) -> Array:
        """Values of all pairs, shape (n, n), one half computed."""
        out = self._empty(self.n, label)
        for first, last in self._tiles(self.n):
            rows = slice(first, last)
            out[rows, first:] = self._block(self.values[rows], self.squares[rows], first)
            gpu.report(progress, last * (2 * self.n - last), self.n * self.n)
        mirror(out, self.diagonal.get())
        return out

    def rows(self, which: Array, label: str) -> Array:
        """Values of the rows of `which`, an int64 array on the GPU, with all."""
        out = self._empty(len(which), label)
        for first, last in self._tiles(len(which)):
            indices = which[first:last]
            out[first:last] = self._block(self.values[indices], self.squares[indices])
        out[gpu.cupy().arange(len(which)), which] = self.diagonal[which]
        return out

    def cross(self, values: Array, label: str, progress: Progress | None = None) -> Array:
        """Values of other vectors, (m, d), with all."""
        others = gpu.cupy().asarray(values, np.float64) - self.centre
        out = self._empty(len(others), label)
        for first, last in self._tiles(len(others)):
            block = others[first:last]
            out[first:last] = self._block(block, _squares(block))
            gpu.report(progress, last, len(others))
        return out

    def _block(self, rows: Array, squares: Array, first: int = 0) -> Array:
        columns = self.values[first:]
        values = self.finish.value(rows @ columns.T, squares[:, None], self.squares[first:])
        if self.finish.gamma is None:
            return values
        for i in gpu.cupy().flatnonzero(self.finish.gamma * squares > FAR).get().tolist():
            values[i] = gpu.cupy().exp(-self.finish.gamma * _squares(columns - rows[i]))
        return values

    def _tiles(self, m: int) -> list[tuple[int, int]]:
        size = max(1, TILE_BYTES // (8 * max(1, self.n)))
        return [(first, min(first + size, m)) for first in range(0, m, size)]

    def _empty(self, m: int, values: str) -> Array:
        return empty_matrix(m, self.n, values, 3 * min(TILE_BYTES, 8 * m * self.n))


def _squares(values: Array) -> Array:
    return gpu.cupy().einsum("ij,ij->i", values, values)
