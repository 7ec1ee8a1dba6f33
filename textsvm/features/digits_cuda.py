"""Dense vectors as digits on a GPU (`textsvm.features.digits`): launches of kernels_cu/vectors.cu."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from textsvm import device as gpu
from textsvm.features.digits import EIGHT, MOST, ONE, SIX, SLAB, TOLERANCE, gaussian_error, power_of_two
from textsvm.features.finish_cuda import NAMES, Finish, finish_defines

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
