"""Rows of kernels of vectors on the CPU: tiles of products, and what the kernel makes of each.

A tile of products is small enough to stay in a core's cache until it has become kernel values; the tiles of
a symmetric matrix are made once for both of its halves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm import device as devices
from textsvm.device import Device
from textsvm.errors import InputError
from textsvm.features.vector_products import Products, Rows
from textsvm.features.vectors import Vectors
from textsvm.kernels.rows import HostRows
from textsvm.parallel import Progress, n_threads, one_blas_thread, run

Array = NDArray[Any]
#: Rows and columns of a tile, no power of two, for its columns are read too; and values of one of few rows.
TILE_ROWS, TILE_COLUMNS = 256, 528
TILE = TILE_ROWS * TILE_COLUMNS
#: Values that are done before a thread would have begun.
ALONE = 1 << 18


class HostVectorRows(HostRows):
    """Kernel values with fixed vectors (`KernelRows`).

    Parameters
    ----------
    kernel : VectorKernel
        Fitted.
    documents : Vectors
    device : Device
    """

    ahead = 1

    def __init__(self, kernel: Any, documents: Vectors, device: Device) -> None:
        self.kernel, self.documents, self.device, self.n = kernel, documents, device, len(documents)
        with np.errstate(over="ignore", invalid="ignore"):  # squares say which vectors are too large
            self._columns = Products(devices.to_host(documents.values), kernel.shifts)
        self._squares = self._columns.rows.squares
        for row in np.flatnonzero(~np.isfinite(self._squares))[:1]:
            raise InputError(
                f"the numbers of vector {row} are too large to be multiplied; scale the columns, as "
                "StandardScaler does"
            )

    def diag(self) -> NDArray[np.float32]:
        """See `MatrixRows`."""
        row = self._squares[None]
        with np.errstate(over="ignore"):
            return self.kernel.value(row.copy(), row, row[0])[0].astype(np.float32)

    def rows(self, indices: NDArray[np.int64]) -> NDArray[np.float32]:
        """See `MatrixRows`."""
        return self._with(self._columns.rows.take(indices), None)

    def cross(self, others: Any, progress: Progress | None = None) -> NDArray[np.float32]:
        """See `KernelRows`."""
        values = devices.to_host(others.values)
        return self._with(self._columns.divide(values), progress)

    def gram(self, progress: Progress | None = None) -> NDArray[np.float32]:
        """See `MatrixRows`."""
        n, found = self.n, np.empty((self.n, self.n), np.float32)
        every = self._columns.rows

        def fill(piece: tuple[slice, slice]) -> None:
            rows, columns = piece
            for tile, place in self._tiles(every.take(rows), columns):
                found[rows, place] = tile
                found[place, rows] = tile.T

        _on_all_cores(fill, [(rows, slice(rows.start, n)) for rows in _slices(n, TILE_ROWS)], progress)
        np.fill_diagonal(found, self.diag())
        return found

    def _with(self, rows: Rows, progress: Progress | None) -> NDArray[np.float32]:
        found = np.empty((len(rows), self.n), np.float32)
        width = max(TILE_COLUMNS, TILE // max(1, len(rows)))

        def fill(piece: tuple[slice, slice]) -> None:
            some, columns = piece
            for tile, place in self._tiles(rows.take(some), columns, width):
                found[some, place] = tile

        few = len(rows) < 2 * TILE_ROWS * n_threads()
        size = max(width, -(-self.n // n_threads())) if few else self.n
        pieces = [(a, b) for a in _slices(len(rows), TILE_ROWS) for b in _slices(self.n, size)]
        _on_all_cores(fill, pieces, progress)
        return found

    def _tiles(self, rows: Rows, columns: slice, width: int = TILE_COLUMNS) -> Iterator[tuple[Array, slice]]:
        """Kernel values of some vectors with consecutive columns, tile by tile."""
        at = self._columns.start(rows, columns.start)
        size = len(rows) * min(width, columns.stop - columns.start)
        products, values = np.empty(size), np.empty(size, np.float32)
        for place in _slices(columns.stop, width, columns.start):
            shape = len(rows), place.stop - place.start
            # Contiguous, as compiled loops are quickest.
            tile, out = (each[: shape[0] * shape[1]].reshape(shape) for each in (products, values))
            self._columns.tile(rows, place, at, tile)
            self.kernel.put(tile, rows.squares[:, None], self._squares[place], out)
            yield out, place


def _slices(stop: int, size: int, start: int = 0) -> list[slice]:
    return [slice(first, min(first + size, stop)) for first in range(start, stop, size)]


def _on_all_cores(
    fill: Callable[[Any], object], pieces: list[tuple[slice, slice]], progress: Progress | None
) -> None:
    """Fill pieces of a matrix, each thread with a BLAS of its own."""
    work = [(a.stop - a.start) * (b.stop - b.start) for a, b in pieces]
    with one_blas_thread():
        if progress is None and sum(work) <= ALONE:
            for piece in pieces:
                fill(piece)
        else:
            run(fill, pieces, work, progress)
