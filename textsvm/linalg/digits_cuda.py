"""Dense vectors as digits on a GPU (`textsvm.linalg.digits_cuda`): launches of kernels_cu/vectors.cu.

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
from typing import Any

import numpy as np

from textsvm.linalg.sparse_cuda import NAMES, Finish, finish_defines
from textsvm.runtime import device as gpu

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
DEFINE_SETS = [(SOURCE, defines(way, finish)) for way in FACTOR for finish in NAMES]


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
