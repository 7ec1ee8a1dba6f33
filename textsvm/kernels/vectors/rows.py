"""Products of vectors with fixed ones, on the CPU, in tiles: float64, to about 1e-15 |x| |y|.

Dense vectors are multiplied by BLAS. Of sparse ones the columns that many vectors hold are kept dense; the
others are lists (an inverted index), and x adds x_u y_u to every y on the list of each of its columns u. A
tile goes on in the lists where the tile to its left ended.

Whole numbers, one-hot columns among them, are multiplied in float32 where every product is below 2^24: that
is exact, and twice as fast.

Rows of kernels of vectors on the CPU: tiles of products, and what the kernel makes of each.

A tile of products is small enough to stay in a core's cache until it has become kernel values; the tiles of
a symmetric matrix are made once for both of its halves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from textsvm.errors import InputError
from textsvm.kernels.contract import HostRows
from textsvm.linalg.sparse import Sparse
from textsvm.linalg.vectors import Vectors
from textsvm.runtime import device as devices
from textsvm.runtime.compiled import njit
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import Progress, n_threads, one_blas_thread, run

Array = NDArray[Any]
#: A column is kept dense when this share of the vectors holds it: what an entry of a list costs more than
#: a multiplication in a tile. At most these bytes are kept so.
DENSE_SHARE, DENSE_BYTES = 0.15, 1 << 28
#: Columns of which there is an array; of more only those that a vector holds are named.
WIDE = 1 << 22
#: Bytes of a float64 copy of dense vectors; more are converted tile by tile.
DOUBLE_BYTES = 256 << 20
#: Products of whole numbers below it are exact in float32.
EXACT = float(1 << 24)


@dataclass(frozen=True)
class Rows:
    """Vectors, divided as the columns of `Products` are.

    Attributes
    ----------
    dense : float32 or float64 array, shape (m, k)
    squares : float64 array, shape (m,)
        |x|^2.
    exact : bool
        Whether products of the dense parts are exact in float32.
    lists : Sparse, optional
        The other columns; None if there is none.
    """

    dense: Array
    squares: Array
    exact: bool
    lists: Sparse | None = None

    def __len__(self) -> int:
        return len(self.dense)

    def take(self, some: slice | NDArray[np.int64]) -> Rows:
        """Some of them."""
        at = np.arange(len(self))[some] if isinstance(some, slice) else some
        lists = None if self.lists is None else self.lists.take(at)
        return Rows(self.dense[some], self.squares[some], self.exact, lists)


class Products:
    """Products of any vectors with n fixed ones.

    Parameters
    ----------
    values : array or CSR matrix, shape (n, d), on the host
    shifted : bool
        Whether all vectors may be shifted alike. Dense ones then are, to the middle of the fixed ones: far
        from 0 products lose what is between vectors.

    Attributes
    ----------
    rows : Rows
        The fixed vectors.
    """

    def __init__(self, values: Any, shifted: bool = False) -> None:
        self._middle: Any = None
        if shifted and not issparse(values) and 8 * values.size <= DOUBLE_BYTES:
            self._middle = np.rint(values.mean(axis=0, dtype=np.float64))  # whole numbers stay whole
        self._full: Array | None = None
        if issparse(values):
            self._full, self._listed = _divided(values)
        self.rows = self.divide(values)
        if self.rows.lists is not None:
            lists = self.rows.lists
            shape = len(self), lists.n_features
            by_columns = csr_array((lists.values, lists.features, lists.indptr), shape).tocsc()
            self._lists = (by_columns.indptr.astype(np.int64), by_columns.indices, by_columns.data)

    def __len__(self) -> int:
        return len(self.rows)

    def divide(self, values: Any) -> Rows:
        """Vectors, of whichever form."""
        if self._full is None:
            dense = values.toarray() if issparse(values) else values
            dense = dense if self._middle is None else dense - self._middle
            return _rows(dense, squares(dense))
        sparse = values if issparse(values) else csr_array(values)
        dense = _chosen(sparse, self._full).toarray()
        lists = _lists(_chosen(sparse, self._listed)) if len(self._listed) else None
        return _rows(dense, squares(sparse), lists)

    def start(self, rows: Rows, first: int) -> Array | None:
        """For each entry of the lists of rows where in its column the vector `first`, or a later one, is."""
        if rows.lists is None:
            return None
        starts, documents, _ = self._lists
        found = np.empty(len(rows.lists.features), np.int64)
        _seek(rows.lists.features, starts, documents, first, found)
        return found

    def tile(self, rows: Rows, columns: slice, at: Array | None, out: Array) -> None:
        """Products of rows with consecutive vectors.

        Parameters
        ----------
        rows : Rows
        columns : slice
        at : int64 array
            From `start`, or from the tile to the left; moved on to the tile to the right.
        out : float64 array, shape (len(rows), number of columns)
        """
        one, other = rows.dense, self.rows.dense[columns]
        if rows.exact and self.rows.exact:
            out[...] = one @ other.T
        else:
            np.matmul(one.astype(np.float64, copy=False), other.astype(np.float64, copy=False).T, out=out)
        if at is not None and rows.lists is not None:
            entries = (rows.lists.indptr, rows.lists.features, rows.lists.values)
            _add(*entries, *self._lists, at, columns.start, columns.stop, out)


def squares(values: Any) -> NDArray[np.float64]:
    """|x|^2 of every row of a matrix."""
    if not issparse(values):
        return np.einsum("ij,ij->i", values, values, dtype=np.float64)
    data = np.square(values.data, dtype=np.float64)
    # As if all columns were one: the number of columns may be anything.
    return csr_array((data, np.zeros_like(values.indices), values.indptr), (values.shape[0], 1)) @ np.ones(1)


def _divided(values: Any) -> tuple[Array, Array]:
    """Columns of a CSR matrix to be kept dense, and the others that any vector holds."""
    n, d = values.shape
    if d > WIDE:
        columns, held = np.unique(values.indices, return_counts=True)
    else:
        held = np.bincount(values.indices, minlength=d)
    full = np.flatnonzero(held > DENSE_SHARE * n)
    full = np.sort(full[np.argsort(-held[full], kind="stable")[: DENSE_BYTES // (8 * max(n, 1))]])
    held[full] = 0
    listed = np.flatnonzero(held)
    return (full, listed) if d <= WIDE else (columns[full], columns[listed])


def _chosen(values: Any, columns: Array) -> Any:
    """Some columns of a CSR matrix, ascending; of a wide one without an array of all columns."""
    if values.shape[1] <= WIDE:
        return values[:, columns]
    place = np.searchsorted(columns, values.indices)
    known = np.append(columns, -1)[place] == values.indices
    indptr = np.append(0, np.cumsum(known))[values.indptr]
    return csr_array((values.data[known], place[known], indptr), (values.shape[0], len(columns)))


def _lists(values: Any) -> Sparse:
    """A CSR matrix as it is read here."""
    return Sparse(values.indptr.astype(np.int64), values.indices, values.data, values.shape[1])


def _rows(dense: Array, norms: Array, lists: Sparse | None = None) -> Rows:
    exact = bool(np.all(dense == np.rint(dense))) and bool(np.all(squares(dense) < EXACT))
    if exact:
        dense = dense.astype(np.float32, copy=False)
    elif 8 * dense.size <= DOUBLE_BYTES:
        dense = dense.astype(np.float64, copy=False)
    return Rows(np.ascontiguousarray(dense), norms, exact, lists)


@njit(nogil=True, cache=True)
def _seek(features: Array, starts: Array, documents: Array, first: int, at: Array) -> None:
    for k in range(len(features)):
        low, high = starts[features[k]], starts[features[k] + 1]
        while low < high:
            middle = (low + high) // 2
            if documents[middle] < first:
                low = middle + 1
            else:
                high = middle
        at[k] = low


@njit(nogil=True, cache=True)
def _add(
    indptr: Array,
    features: Array,
    values: Array,
    starts: Array,
    documents: Array,
    x: Array,
    at: Array,
    first: int,
    last: int,
    out: Array,
) -> None:
    for i in range(len(indptr) - 1):
        for k in range(indptr[i], indptr[i + 1]):
            value, end, here = np.float64(values[k]), starts[features[k] + 1], at[k]
            while here < end and documents[here] < last:
                out[i, documents[here] - first] += value * x[here]
                here += 1
            at[k] = here


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
        self._function = kernel.function
        with np.errstate(over="ignore", invalid="ignore"):  # squares say which vectors are too large
            self._columns = Products(devices.to_host(documents.values), self._function.shifts)
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
            return self._function.value(row.copy(), row, row[0])[0].astype(np.float32)

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
            self._function.put(tile, rows.squares[:, None], self._squares[place], out)
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
