"""Kernel values of dense vectors on a GPU, from products of digits: vector_tiles.cu and vectors.cu.

The vectors are put on a grid (`textsvm.features.digits`), one byte a digit. Tensor cores multiply 8-bit whole
numbers twice as fast as 16-bit real ones, and exactly: values are the same bits in `half`, `rows` and
`cross`, in any tile. What becomes of a product is done where it is made, so each value is written once, and
the other half of a square beside it.

    rows        up to 8: digits are read once, bytes bound it; more: tiles of 128 x 128 (EIGHT: 64 x 128)
    bytes       3 n d the digits (n d for ONE), 4 m n the values
    operations  6 (EIGHT 8, ONE 1) multiply-adds of 8 bits for each value and feature

Vectors that no grid is near enough for, and kernels that finish.cuh has not, are multiplied in float64.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, issparse

from textsvm import device as gpu
from textsvm.features.digits import EIGHT, MOST_FEATURES, ONE, SIX, SLAB
from textsvm.features.digits_cuda import (
    FACTOR,
    SOURCE,
    Bounds,
    Digits,
    defines,
    encode,
    grids,
)
from textsvm.features.finish_cuda import NAMES, Finish, finish_fields
from textsvm.features.float64_cuda import Float64Columns
from textsvm.features.sparse_cuda import rows_of
from textsvm.parallel import Progress

Array = Any  # a CuPy array
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
            _report(progress, blocks.stop, total)
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
        _report(progress, len(others), len(others))
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


def _report(progress: Progress | None, done: int, total: int) -> None:
    if progress is not None:
        gpu.cupy().cuda.get_current_stream().synchronize()
        progress(done, total)
