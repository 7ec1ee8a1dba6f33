"""Rows of kernels of vectors on the CPU: tiles of products in float64, and what the kernel makes of each.

A tile of products is small enough to stay in a core's cache until it has become kernel values; the tiles of
a symmetric matrix are made once for both of its halves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from textsvm import device as devices
from textsvm.device import Device
from textsvm.features.vectors import Vectors
from textsvm.kernels.rows import HostRows
from textsvm.parallel import Progress, run

#: Rows and columns of a tile.
TILE_ROWS, TILE_COLUMNS = 128, 1024


class HostVectorRows(HostRows):
    """Kernel values with fixed vectors (`KernelRows`).

    Parameters
    ----------
    kernel : VectorKernel
        Fitted.
    documents : Vectors
    device : Device
    """

    def __init__(self, kernel: Any, documents: Vectors, device: Device) -> None:
        self.kernel, self.documents, self.device, self.n = kernel, documents, device, len(documents)
        self._values = devices.to_host(documents.values)
        self._squares = squares(self._values)

    def diag(self) -> NDArray[np.float32]:
        """See `MatrixRows`."""
        row = self._squares[None]
        return self.kernel.value(row.copy(), row, self._squares)[0].astype(np.float32)

    def rows(self, indices: NDArray[np.int64]) -> NDArray[np.float32]:
        """See `MatrixRows`."""
        return self._with(self._values[indices], None)

    def cross(self, others: Any, progress: Progress | None = None) -> NDArray[np.float32]:
        """See `KernelRows`."""
        return self._with(devices.to_host(others.values), progress)

    def gram(self, progress: Progress | None = None) -> NDArray[np.float32]:
        """See `MatrixRows`."""
        n, found = self.n, np.empty((self.n, self.n), np.float32)
        pieces = [
            (rows, columns)
            for rows in _slices(n, TILE_ROWS)
            for columns in _slices(n, TILE_COLUMNS)
            if columns.stop > rows.start
        ]

        def fill(piece: tuple[slice, slice]) -> None:
            rows, columns = piece
            tile = self._tile(self._values[rows], self._squares[rows], columns)
            found[rows, columns] = tile
            found[columns, rows] = found[rows, columns].T

        _on_all_cores(fill, pieces, progress)
        np.fill_diagonal(found, self.diag())
        return found

    def _with(self, values: Any, progress: Progress | None) -> NDArray[np.float32]:
        found, norms = np.empty((values.shape[0], self.n), np.float32), squares(values)
        pieces = [(a, b) for a in _slices(len(found), TILE_ROWS) for b in _slices(self.n, TILE_COLUMNS)]

        def fill(piece: tuple[slice, slice]) -> None:
            rows, columns = piece
            found[rows, columns] = self._tile(values[rows], norms[rows], columns)

        _on_all_cores(fill, pieces, progress)
        return found

    def _tile(self, values: Any, norms: NDArray[np.float64], columns: slice) -> NDArray[np.float64]:
        """Kernel values of some vectors with some of the columns."""
        products = as_double(values) @ as_double(self._values[columns]).T
        return self.kernel.value(_dense(products), norms[:, None], self._squares[columns])


def squares(values: Any) -> NDArray[np.float64]:
    """|x|^2 of every row, in float64."""
    if hasattr(values, "multiply"):
        return np.asarray(values.astype(np.float64).power(2).sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", values, values, dtype=np.float64)


def as_double(values: Any) -> Any:
    """The same numbers in float64, not copied if they are."""
    return values.astype(np.float64, copy=False)


def _dense(products: Any) -> NDArray[np.float64]:
    return products.toarray() if hasattr(products, "toarray") else products


def _slices(n: int, size: int) -> list[slice]:
    return [slice(first, min(first + size, n)) for first in range(0, n, size)]


def _on_all_cores(
    fill: Callable[[Any], object], pieces: list[tuple[slice, slice]], progress: Progress | None
) -> None:
    work = [(a.stop - a.start) * (b.stop - b.start) for a, b in pieces]
    with threadpool_limits(1, user_api="blas"):
        run(fill, pieces, work, progress)
