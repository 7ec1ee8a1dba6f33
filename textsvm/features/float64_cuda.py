"""Kernel values of dense vectors on a GPU, from products in float64.

Where vectors are far from the middle of all, |x|^2 + |y|^2 - 2 <x, y> loses what gamma |x - y|^2 is made of:
rows of which gamma |x|^2 is above FAR are made of differences instead, one after the other.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from textsvm import device as gpu
from textsvm.features.finish_cuda import Finish
from textsvm.features.products_cuda import mirror
from textsvm.parallel import Progress

Array = Any  # a CuPy array
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
            _report(progress, last * (2 * self.n - last), self.n * self.n)
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
            _report(progress, last, len(others))
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


def _report(progress: Progress | None, done: int, total: int) -> None:
    if progress is not None:
        gpu.cupy().cuda.get_current_stream().synchronize()
        progress(done, total)
