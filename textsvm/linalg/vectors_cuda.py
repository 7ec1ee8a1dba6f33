"""Kernel values of dense vectors on a GPU, from products of digits: vector_tiles.cu and vectors.cu.

The vectors are put on a grid (`linalg.digits_cuda`), one byte a digit. Tensor cores multiply 8-bit whole
numbers twice as fast as 16-bit real ones, and exactly: values are the same bits in `half`, `rows` and
`cross`, in any tile. What becomes of a product is done where it is made, so each value is written once, and
the other half of a square beside it.

    rows        up to 8: digits are read once, bytes bound it; more: tiles of 128 x 128 (EIGHT: 64 x 128)
    bytes       3 n d the digits (n d for ONE), 4 m n the values
    operations  6 (EIGHT 8, ONE 1) multiply-adds of 8 bits for each value and feature

Vectors that no grid is near enough for, and kernels that finish.cuh has not, are multiplied in float64.

Kernel values of dense vectors on a GPU, from products in float64.

Where vectors are far from the middle of all, |x|^2 + |y|^2 - 2 <x, y> loses what gamma |x - y|^2 is made of:
rows of which gamma |x|^2 is above FAR are made of differences instead, one after the other.

Dense vectors as digits on a GPU (`textsvm.linalg.vectors_cuda`): launches of kernels_cu/vectors.cu.

Real vectors as vectors of whole numbers: how large their unit may be, and how far values are then off.

    x = centre + unit * N,    N = 65536 a + 256 b + c,    a, b, c from -128 to 127

so that a product of two vectors is products of digits, which are exact in 32 bits, whatever their order. One
digit is enough for vectors of small whole numbers (0 and 1, or pixels, in any power of 2); three are 24 bits
of the largest number. Distances are those of points on one grid, exact but for the lowest products: none is
lost where |x|^2 + |y|^2 - 2 <x, y> cancels: what a point moves when it is put on the grid is all.

Of three digits, six products of two digits are summed up (SIX: a a', a b' + b a', and a c' + b b' + c a' in
units of 2^24, rounded once for each 32 features), or eight (EIGHT: these in units of 2^16, and b c' + c b'
rounded likewise). The rest is below that.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, issparse

from textsvm.linalg.products_cuda import mirror
from textsvm.linalg.sparse_cuda import NAMES, Finish, finish_defines, finish_fields, rows_of
from textsvm.runtime import device as gpu
from textsvm.runtime.parallel import Progress

#: Ways to multiply: how many sums are kept of each product.
ONE, SIX, EIGHT = 1, 2, 3
#: Largest N of three digits; one less than 127 in each, for a centre on the grid.
MOST = 127 * 65536 + 127 * 256 + 127 - 1
#: Features of which sums of digits stay below 2^31.
MOST_FEATURES = 32_000
#: Features whose lower products are rounded together.
SLAB = 32
#: How far a value exp(-gamma |x - y|^2) may be off.
TOLERANCE = 8e-7
_DEVIATIONS = 6.0  # of a normal variable: what one of 10^9 values exceeds
_DIGIT = 256 / math.sqrt(12)  # the deviation of a digit that is anything
_STEEPEST = math.sqrt(2 / math.e)  # the largest slope of exp(-t^2)


def power_of_two(least: float) -> float:
    """The smallest power of 2 that is not less; 1 for 0."""
    if least <= 0:
        return 1.0
    mantissa, exponent = math.frexp(least)
    return math.ldexp(1.0, exponent - (mantissa == 0.5))


def gaussian_error(way: int, gamma: float, unit: float, n_features: int, *, rounded: bool) -> float:
    """How far exp(-gamma |x - y|^2) may be off for vectors of three digits in this unit.

    Low digits are taken to be anything: six standard deviations.

    Parameters
    ----------
    way : {SIX, EIGHT}
    gamma, unit : float
    n_features : int
    rounded : bool
        Whether numbers were rounded to the unit.
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


Array = Any  # a CuPy array
SOURCE = "vectors.cu"
#: What the unit of a product is, in units of the numbers: of each of the two vectors.
FACTOR = {ONE: 1.0, SIX: 4096.0, EIGHT: 256.0}


def defines(way: int, finish: str) -> gpu.Defines:
    """What a kernel of vectors.cu or vector_tiles.cu is specialised by."""
    return ("SUMS", way), *finish_defines(finish)


#: What may be launched: (source, defines).
DIGIT_DEFINES = [(SOURCE, defines(way, finish)) for way in FACTOR for finish in NAMES]


@dataclass(frozen=True)
class Bounds:
    """The smallest and the largest number of each column, float64, shape (d,)."""

    low: Array
    high: Array

    @classmethod
    def of(cls, values: Array) -> Bounds:
        """Of vectors, (n, d)."""
        return cls(values.min(axis=0).astype(np.float64), values.max(axis=0).astype(np.float64))

    def with_others(self, others: Bounds) -> Bounds:
        """Those of both."""
        cp = gpu.cupy()
        return Bounds(cp.minimum(self.low, others.low), cp.maximum(self.high, others.high))


@dataclass(frozen=True)
class Grid:
    """What vectors are put on.

    Attributes
    ----------
    way : {ONE, SIX, EIGHT}
    centre : float64 array, shape (d,)
    unit : float or None
        None: each vector has its own.
    exact : bool
        Whether nothing may be rounded.
    """

    way: int
    centre: Array
    unit: float | None
    exact: bool


def grids(finish: Finish, bounds: Bounds) -> Iterator[Grid]:
    """Grids for vectors within bounds, the quickest first; the last one takes all, if there is one."""
    cp = gpu.cupy()
    if finish.gamma is None:
        most = float(cp.maximum(abs(bounds.low), abs(bounds.high)).max())
        origin = cp.zeros(len(bounds.low))
        yield Grid(ONE, origin, power_of_two(most / 127), True)
        yield Grid(EIGHT, origin, power_of_two(most / MOST), True)
        yield Grid(EIGHT, origin, None, False)
        return
    middle, width = (bounds.low + bounds.high) / 2, float((bounds.high - bounds.low).max())
    unit = power_of_two(width / 255)
    yield Grid(ONE, unit * cp.ceil(middle / unit), unit, True)
    unit = power_of_two(width / (2 * MOST))
    centre = unit * cp.rint(middle / unit)
    yield from _three_digits(finish.gamma, centre, unit, exact=True)
    yield from _three_digits(finish.gamma, middle, width / (2 * MOST) or 1.0, exact=False)


def _three_digits(gamma: float, centre: Array, unit: float, *, exact: bool) -> Iterator[Grid]:
    """The quickest way that is near enough."""
    for way in (SIX, EIGHT):
        if gaussian_error(way, gamma, unit, len(centre), rounded=not exact) <= TOLERANCE:
            yield Grid(way, centre, unit, exact)
            return


@dataclass(frozen=True)
class Digits:
    """Vectors on a grid.

    Attributes
    ----------
    grid : Grid
    digits : int8 array, (n, 1 or 3, 32 * slabs)
        The highest first.
    units, squares : float64 arrays, shape (n,)
        What products are multiplied by, of both vectors; and products of each vector with itself.
    fits : bool
        Whether these are the vectors, as near as the grid allows.
    """

    grid: Grid
    digits: Array
    units: Array
    squares: Array
    fits: bool

    @property
    def slabs(self) -> int:
        """Of SLAB features."""
        return int(self.digits.shape[2]) // SLAB

    def __len__(self) -> int:
        return int(self.digits.shape[0])


def encode(values: Array, grid: Grid, finish: Finish) -> Digits:
    """Put vectors, float32 or float64 (n, d) on the card, on a grid."""
    cp = gpu.cupy()
    n, d = values.shape
    width, places = -(-d // SLAB) * SLAB, 1 if grid.way == ONE else 3
    gpu.require_memory(n * width * places, f"{n:,} vectors of {d:,} numbers")
    digits, flags = cp.empty((n, places, width), np.int8), cp.zeros(2, np.int32)
    units = cp.full(n, grid.unit) if grid.unit is not None else _units_of(values)
    name = "encode_double" if values.dtype == np.float64 else "encode_float"
    sizes = (np.int32(d), np.int32(width))
    gpu.each(_function(name, grid.way), n * width, *sizes, values, grid.centre, units, digits, flags)
    rounded, outside = flags.get().tolist()
    squares = cp.empty(n)
    gpu.each(_function("self_products", grid.way), 32 * n, np.int32(width // SLAB), digits, squares)
    factor = FACTOR[grid.way] * (1 if finish.gamma is None else np.sqrt(finish.gamma / np.log(2)))
    return Digits(grid, digits, units * factor, squares, not (outside or (rounded and grid.exact)))


def _units_of(values: Array) -> Array:
    """A unit for each vector."""
    cp = gpu.cupy()
    most = cp.maximum(values.max(axis=1), -values.min(axis=1)).astype(np.float64)
    return cp.where(most > 0, most / MOST, 1.0)


def _function(name: str, way: int) -> Any:
    return gpu.function(SOURCE, name, defines(way, NAMES[0]))


TILE_BYTES = 1 << 28  # of products at a time
#: Sums of that size are off by some 1e-8. What has a value to speak of with such a row is as far away.
FAR = 1e7


class Float64Columns:
    """Vectors in float64, for values of any rows with them.

    Parameters
    ----------
    values : CuPy array, shape (n, d)
        Float32 or float64.
    finish : Finish

    Attributes
    ----------
    description : str
        How products are made, for people.
    """

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
        """The value of each vector with itself, float32, shape (n,)."""
        squares = self.squares
        return self.finish.value(squares[None].copy(), squares[None], squares)[0].astype(np.float32)

    def half(self, what: str, progress: Progress | None = None) -> Array:
        """The values of all with all, shape (n, n), one half of them computed."""
        out = self._empty(self.n, what)
        for first, last in self._tiles(self.n):
            rows = slice(first, last)
            out[rows, first:] = self._block(self.values[rows], self.squares[rows], first)
            gpu.report(progress, last * (2 * self.n - last), self.n * self.n)
        mirror(out, self.diagonal.get())
        return out

    def rows(self, which: Array, what: str) -> Array:
        """The values of the rows of `which`, an int64 array on the card, with all."""
        out = self._empty(len(which), what)
        for first, last in self._tiles(len(which)):
            some = which[first:last]
            out[first:last] = self._block(self.values[some], self.squares[some])
        out[gpu.cupy().arange(len(which)), which] = self.diagonal[which]
        return out

    def cross(self, values: Any, what: str, progress: Progress | None = None) -> Array:
        """The values of other vectors, (m, d), with all."""
        others = gpu.cupy().asarray(values, np.float64) - self.centre
        out = self._empty(len(others), what)
        for first, last in self._tiles(len(others)):
            some = others[first:last]
            out[first:last] = self._block(some, _squares(some))
            gpu.report(progress, last, len(others))
        return out

    def _block(self, rows: Array, squares: Array, first: int = 0) -> Array:
        columns = self.values[first:]
        found = self.finish.value(rows @ columns.T, squares[:, None], self.squares[first:])
        if self.finish.gamma is None:
            return found
        for i in gpu.cupy().flatnonzero(self.finish.gamma * squares > FAR).get().tolist():
            found[i] = gpu.cupy().exp(-self.finish.gamma * _squares(columns - rows[i]))
        return found

    def _tiles(self, m: int) -> list[tuple[int, int]]:
        size = max(1, TILE_BYTES // (8 * max(1, self.n)))
        return [(first, min(first + size, m)) for first in range(0, m, size)]

    def _empty(self, m: int, what: str) -> Array:
        needed = 4 * m * self.n + 3 * min(TILE_BYTES, 8 * m * self.n)
        what = f"the {m:,} x {self.n:,} matrix of {what}"
        gpu.require_memory(needed, what, "lower --memory, or run with --device cpu")
        return gpu.cupy().empty((m, self.n), np.float32)


def _squares(values: Array) -> Array:
    return gpu.cupy().einsum("ij,ij->i", values, values)


TILES = "vector_tiles.cu"
#: What may be launched: (source, defines).
DEFINE_SETS = [(TILES, defines(way, finish)) for way in FACTOR for finish in NAMES]
#: What vectors.cuh has in Work.
WORK = np.dtype(
    [(name, np.uint64) for name in ("rows", "columns", "which", "row_squares", "squares")]
    + [(name, np.uint64) for name in ("row_units", "units", "out")]
    + [("gamma", np.float64), ("coef0", np.float64)]
    + [(name, np.int32) for name in ("degree", "m", "n", "slabs", "group", "first", "half")],
    align=True,
)
SAID = {ONE: "digits: one product", SIX: "digits: six products", EIGHT: "digits: eight products"}
FEW = 8  # rows of vectors.cu's `few`
SHARED = 96 << 10  # bytes that it may keep of them
GROUP = 1024  # rows of tiles that follow each other
WIDE = 128  # columns of a tile
PARTS = 16  # of a Gram, between which progress is reported


def on_card(values: Any) -> Array:
    """Dense rows on the current card, float32 or float64; sparse ones lose their form."""
    cp, (n, d) = gpu.cupy(), values.shape
    dtype = np.dtype(np.float32 if values.dtype == np.float32 else np.float64)
    gpu.require_memory(n * d * dtype.itemsize, f"{n:,} vectors of {d:,} numbers")
    if not issparse(values):
        return cp.ascontiguousarray(cp.asarray(values, dtype))
    matrix, entries = csr_matrix(values), int(values.nnz)
    rows, columns = rows_of(cp.asarray(matrix.indptr), entries), cp.asarray(matrix.indices)
    dense = cp.zeros((n, d), dtype)
    dense[rows, columns[:entries]] = cp.asarray(matrix.data[:entries], dtype)
    return dense


def dense_columns(values: Any, finish: Finish) -> DigitColumns | Float64Columns:
    """Vectors as the columns of values to come, in the quickest form that is near enough.

    Parameters
    ----------
    values : array or CSR matrix, shape (n, d)
        NumPy, SciPy or CuPy; finite.
    finish : Finish
    """
    array = on_card(values)
    found = digits_of(array, finish)
    return Float64Columns(array, finish) if found is None else DigitColumns(values, found, finish)


def digits_of(values: Array, finish: Finish) -> Digits | None:
    """Vectors, (n, d) on the card, on the first grid that fits, if there is one."""
    if not finish.known or not 0 < values.shape[1] <= MOST_FEATURES or not len(values):
        return None
    for grid in grids(finish, Bounds.of(values)):
        found = encode(values, grid, finish)
        if found.fits:
            return found
    return None


class DigitColumns:
    """Vectors on a grid, for values of any rows with them.

    Parameters
    ----------
    values : array or CSR matrix, shape (n, d)
        The vectors themselves, for a grid that others need.
    digits : Digits
    finish : Finish
    why : str
        Why they are in digits, for people.

    Attributes
    ----------
    description : str
        How products are made, for people.
    """

    def __init__(self, values: Any, digits: Digits, finish: Finish, why: str = "") -> None:
        self.values, self.digits, self.finish, self.n = values, digits, finish, len(digits)
        self.description = f"{why}, {SAID[digits.grid.way]}" if why else SAID[digits.grid.way]

    @cached_property
    def diagonal(self) -> Array:
        """The value of each vector with itself, float32, shape (n,)."""
        cp = gpu.cupy()
        if self.finish.gamma is not None:
            return cp.ones(self.n, np.float32)
        squares = self.digits.squares * self.digits.units**2
        return self.finish.value(squares[None].copy(), squares[None], squares)[0].astype(np.float32)

    def half(self, what: str, progress: Progress | None = None) -> Array:
        """The values of all with all, shape (n, n), one half of them computed.

        Parameters
        ----------
        what : str
            Asks for the memory, for people.
        progress : callable, optional
        """
        out = _empty(self.n, self.n, what)
        total = sum(_groups(self.digits, self.n, self.n, half=True))
        size = total if progress is None else max(1, -(-total // PARTS))
        for first in range(0, total, size):
            blocks = range(first, min(first + size, total))
            self._tiles(out, self.digits, None, self.digits, blocks, half=True)
            gpu.report(progress, blocks.stop, total)
        return out

    def rows(self, which: Array, what: str) -> Array:
        """The values of the rows of `which`, an int64 array on the card, with all."""
        out = _empty(len(which), self.n, what)
        self._fill(out, self.digits, which, self.digits)
        return out

    def cross(self, values: Any, what: str, progress: Progress | None = None) -> Array:
        """The values of other vectors, an array or CSR matrix (m, d), with all."""
        others = on_card(values)
        digits, columns = self._on_one_grid(others)
        if digits is None or columns is None:
            return Float64Columns(on_card(self.values), self.finish).cross(others, what, progress)
        out = _empty(len(others), self.n, what)
        self._fill(out, digits, None, columns)
        gpu.report(progress, len(others), len(others))
        return out

    def _on_one_grid(self, others: Array) -> tuple[Digits | None, Digits | None]:
        """Other vectors, and these, on the same grid: on the one that these have, if it fits."""
        found = encode(others, self.digits.grid, self.finish)
        if found.fits:
            return found, self.digits
        mine = on_card(self.values)
        both = Bounds.of(mine).with_others(Bounds.of(others))
        for grid in grids(self.finish, both):
            found = encode(others, grid, self.finish)
            columns = encode(mine, grid, self.finish) if found.fits else found
            if columns.fits:
                return found, columns
        return None, None

    def _fill(self, out: Array, rows: Digits, which: Array | None, columns: Digits) -> None:
        shared = len(out) * rows.digits.shape[1] * rows.digits.shape[2]
        if not out.size:
            return
        if len(out) > FEW or shared > SHARED:
            blocks = range(sum(_groups(columns, len(out), self.n, half=False)))
            self._tiles(out, rows, which, columns, blocks, half=False)
            return
        lanes = min(32, 1 << (columns.slabs - 1).bit_length())
        name = "one" if len(out) == 1 else "few"
        kernel = gpu.function(SOURCE, name, defines(columns.grid.way, self.finish.name))
        kernel.max_dynamic_shared_size_bytes = SHARED
        size = min(-(-self.n * lanes // 256), _waves())
        work = self._work(out, rows, which, columns)
        kernel((size,), (256,), (work, np.int32(lanes)), shared_mem=shared)

    def _tiles(
        self, out: Array, rows: Digits, which: Array | None, columns: Digits, blocks: range, *, half: bool
    ) -> None:
        way = columns.grid.way
        kernel = gpu.function(TILES, "tiles", defines(way, self.finish.name))
        shared = _tile_bytes(way)
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
    """Rows of a tile."""
    return 64 if way == EIGHT else 128


def _tile_bytes(way: int) -> int:
    """Shared memory of a block: digits that are fetched ahead, or the finished tile."""
    stages, places = (4, 1) if way == ONE else (3, 3)
    high = _high(way)
    return max(stages * (high + WIDE) * places * 2 * SLAB, 4 * max(high * (WIDE + 4), WIDE * (high + 4)))


def _group(columns: Digits, m: int) -> int:
    """Tiles of rows that follow each other."""
    high = _high(columns.grid.way)
    return min(GROUP // high, -(-m // high))


def _groups(columns: Digits, m: int, n: int, *, half: bool) -> list[int]:
    """Blocks of each group of tiles, as `find_tile` counts them."""
    high, wide, group = _high(columns.grid.way), -(-n // WIDE), _group(columns, m)
    starts = range(0, -(-m // high), group)
    return [group * (wide - (start * high // WIDE if half else 0)) for start in starts]


def _empty(m: int, n: int, what: str) -> Array:
    what = f"the {m:,} x {n:,} matrix of {what}"
    gpu.require_memory(4 * m * n, what, "lower --memory, or run with --device cpu")
    return gpu.cupy().empty((m, n), np.float32)


def _waves() -> int:
    """Blocks that keep the card busy, whatever they do."""
    return 8 * int(gpu.cupy().cuda.Device().attributes["MultiProcessorCount"])
