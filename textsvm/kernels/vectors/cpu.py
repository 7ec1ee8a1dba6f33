"""CPU twin of kernels on vectors: tiles of float64 products, turned into kernel values in the cache.

Dense vectors are multiplied by BLAS, with relative errors of about 1e-15 |x| |y|. Columns of sparse vectors
that many vectors hold are kept dense; the others are lists (an inverted index), and x adds x_u y_u to every y
on the list of each of its columns u. A tile continues in the lists where the tile to its left ended. Whole
numbers, including one-hot columns, are multiplied in float32 if every product is below 2^24, which is exact
and twice as fast. Tiles of a symmetric matrix are computed once and mirrored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from textsvm.arrays import AnyArray, Array, Floats, Floats32, Ints, first_true
from textsvm.errors import InputError
from textsvm.kernels.contract import HostRows
from textsvm.linalg.sparse import Sparse
from textsvm.linalg.vectors import Vectors
from textsvm.runtime import device as devices
from textsvm.runtime.compiled import njit, scipy
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import Progress, n_threads, one_blas_thread, run

DENSE_SHARE = 0.15  #: Columns of which more than this share of the vectors have a number are dense.
DENSE_BYTES = 1 << 28  #: Greatest bytes of dense columns.
WIDE = 1 << 22  #: Number of columns up to which arrays over all columns are used.
#: Bytes up to which dense vectors are copied to float64; larger ones are converted tile by tile.
DOUBLE_BYTES = 256 << 20
EXACT = float(1 << 24)  #: Products of whole numbers below are exact in float32.
#: Rows and columns of a tile (no power of two, as columns are read too), and values of a tile of few rows.
TILE_ROWS, TILE_COLUMNS = 256, 528
TILE = TILE_ROWS * TILE_COLUMNS
ALONE = 1 << 18  #: Number of values below which starting threads does not pay.


@dataclass(frozen=True)
class DividedVectors:
    """Vectors divided into dense columns and lists, by the columns of a `VectorProducts`."""

    dense: AnyArray  #: float32 or float64, shape (m, k)
    squares: AnyArray  #: float64, shape (m,): |x|^2
    exact: bool  #: Whether products of the dense parts are exact in float32
    lists: Sparse | None = None  #: The other columns, None if there are none

    def __len__(self) -> int:
        return len(self.dense)

    def take(self, indices: slice | Ints) -> DividedVectors:
        at = np.arange(len(self))[indices] if isinstance(indices, slice) else indices
        lists = None if self.lists is None else self.lists.take(at)
        return DividedVectors(self.dense[indices], self.squares[indices], self.exact, lists)


class VectorProducts:
    """Products of vectors with n fixed vectors, an array or CSR matrix of shape (n, d) on the host.

    `shifted` says that the kernel is invariant to a common shift. Dense vectors are then centred: far from 0
    products lose the differences between vectors.
    """

    def __init__(self, values: Array, shifted: bool = False) -> None:
        self._middle: Any = None
        if shifted and not scipy.sparse.issparse(values) and 8 * values.size <= DOUBLE_BYTES:
            self._middle = np.rint(values.mean(axis=0, dtype=np.float64))  # whole numbers stay whole
        self._full: AnyArray | None = None
        self._listed: Any = None
        if scipy.sparse.issparse(values):  # columns to keep dense, and the others with entries
            (n, d), columns = values.shape, None
            if d > WIDE:
                columns, df = np.unique(values.indices, return_counts=True)
            else:
                df = np.bincount(values.indices, minlength=d)
            full = np.flatnonzero(df > DENSE_SHARE * n)
            full = np.sort(full[np.argsort(-df[full], kind="stable")[: DENSE_BYTES // (8 * max(n, 1))]])
            df[full] = 0
            listed = np.flatnonzero(df)
            self._full, self._listed = (full, listed) if columns is None else (columns[full], columns[listed])
        self.rows = self.divide(values)
        if self.rows.lists is not None:
            lists = self.rows.lists
            shape = len(self), lists.n_features
            by_columns = scipy.sparse.csr_array((lists.values, lists.features, lists.indptr), shape).tocsc()
            self._lists = (by_columns.indptr.astype(np.int64), by_columns.indices, by_columns.data)

    def __len__(self) -> int:
        return len(self.rows)

    def divide(self, values: Array) -> DividedVectors:
        """Divide vectors, dense or sparse."""
        if self._full is None:
            dense = values.toarray() if scipy.sparse.issparse(values) else values
            dense = dense if self._middle is None else dense - self._middle
            return _divided_vectors(dense, squares(dense))
        sparse = values if scipy.sparse.issparse(values) else scipy.sparse.csr_array(values)
        dense = _chosen(sparse, self._full).toarray()
        lists = None
        if len(self._listed):
            rest = _chosen(sparse, self._listed)
            lists = Sparse(rest.indptr.astype(np.int64), rest.indices, rest.data, rest.shape[1])
        return _divided_vectors(dense, squares(sparse), lists)

    def start(self, rows: DividedVectors, first: int) -> AnyArray | None:
        """For each list entry of `rows`, the position of the first vector from `first` on in its column."""
        if rows.lists is None:
            return None
        starts, documents, _ = self._lists
        at = np.empty(len(rows.lists.features), np.int64)
        _seek(rows.lists.features, starts, documents, first, at)
        return at

    def tile(self, rows: DividedVectors, columns: slice, at: AnyArray | None, out: AnyArray) -> None:
        """Write the products of rows with consecutive vectors to `out`, float64.

        `at` comes from `start` or the tile to the left and is advanced to the tile to the right.
        """
        own, other = rows.dense, self.rows.dense[columns]
        if rows.exact and self.rows.exact:
            out[...] = own @ other.T
        else:
            np.matmul(own.astype(np.float64, copy=False), other.astype(np.float64, copy=False).T, out=out)
        if at is not None and rows.lists is not None:
            entries = (rows.lists.indptr, rows.lists.features, rows.lists.values)
            _add(*entries, *self._lists, at, columns.start, columns.stop, out)


def squares(values: Array) -> Floats:
    """Squared norm of every row of a matrix."""
    if not scipy.sparse.issparse(values):
        return np.einsum("ij,ij->i", values, values, dtype=np.float64)
    data = np.square(values.data, dtype=np.float64)
    # As if all entries were in one column: the number of columns may be huge.
    return scipy.sparse.csr_array(
        (data, np.zeros_like(values.indices), values.indptr), (values.shape[0], 1)
    ) @ np.ones(1)


def _chosen(values: Array, columns: AnyArray) -> Array:
    """Some columns of a CSR matrix, ascending; of a wide matrix without an array over all columns."""
    if values.shape[1] <= WIDE:
        return values[:, columns]
    place = np.searchsorted(columns, values.indices)
    selected = np.append(columns, -1)[place] == values.indices
    indptr = np.append(0, np.cumsum(selected))[values.indptr]
    shape = (values.shape[0], len(columns))
    return scipy.sparse.csr_array((values.data[selected], place[selected], indptr), shape)


def _divided_vectors(dense: AnyArray, norms: AnyArray, lists: Sparse | None = None) -> DividedVectors:
    exact = bool(np.all(dense == np.rint(dense))) and bool(np.all(squares(dense) < EXACT))
    if exact:
        dense = dense.astype(np.float32, copy=False)
    elif 8 * dense.size <= DOUBLE_BYTES:
        dense = dense.astype(np.float64, copy=False)
    return DividedVectors(np.ascontiguousarray(dense), norms, exact, lists)


@njit(nogil=True, cache=True)
def _seek(features, starts, documents, first, at):
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
def _add(indptr, features, values, starts, documents, x, at, first, last, out):
    for i in range(len(indptr) - 1):
        for k in range(indptr[i], indptr[i + 1]):
            value, end, here = np.float64(values[k]), starts[features[k] + 1], at[k]
            while here < end and documents[here] < last:
                out[i, documents[here] - first] += value * x[here]
                here += 1
            at[k] = here


class HostVectorRows(HostRows):
    """Kernel values of a fitted `VectorKernel` with fixed vectors (`KernelRows`)."""

    ahead = 1

    def __init__(self, kernel: Any, documents: Vectors, device: Device) -> None:
        self.kernel, self.documents, self.device, self.n = kernel, documents, device, len(documents)
        self._function = kernel.function
        with np.errstate(over="ignore", invalid="ignore"):  # infinite squares are reported below
            self._columns = VectorProducts(devices.to_host(documents.values), self._function.shifts)
        self._squares = self._columns.rows.squares
        if (row := first_true(~np.isfinite(self._squares))) is not None:
            raise InputError(
                f"the numbers of vector {row} are too large to be multiplied; scale the columns, as "
                "StandardScaler does"
            )

    def diag(self) -> Floats32:
        row = self._squares[None]
        with np.errstate(over="ignore"):
            return self._function.value(row.copy(), row, row[0])[0].astype(np.float32)

    def rows(self, indices: Ints) -> Floats32:
        return self._with(self._columns.rows.take(indices), None)

    def cross(self, others: Any, progress: Progress | None = None) -> Floats32:
        return self._with(self._columns.divide(devices.to_host(others.values)), progress)

    def gram(self, progress: Progress | None = None) -> Floats32:
        n, matrix = self.n, np.empty((self.n, self.n), np.float32)
        every = self._columns.rows

        def fill(piece: tuple[slice, slice]) -> None:
            rows, columns = piece
            for tile, place in self._tiles(every.take(rows), columns):
                matrix[rows, place] = tile
                matrix[place, rows] = tile.T

        _on_all_cores(fill, [(rows, slice(rows.start, n)) for rows in _slices(n, TILE_ROWS)], progress)
        np.fill_diagonal(matrix, self.diag())
        return matrix

    def _with(self, rows: DividedVectors, progress: Progress | None) -> Floats32:
        matrix = np.empty((len(rows), self.n), np.float32)
        width = max(TILE_COLUMNS, TILE // max(1, len(rows)))

        def fill(piece: tuple[slice, slice]) -> None:
            block, columns = piece
            for tile, place in self._tiles(rows.take(block), columns, width):
                matrix[block, place] = tile

        few = len(rows) < 2 * TILE_ROWS * n_threads()
        size = max(width, -(-self.n // n_threads())) if few else self.n
        pieces = [(a, b) for a in _slices(len(rows), TILE_ROWS) for b in _slices(self.n, size)]
        _on_all_cores(fill, pieces, progress)
        return matrix

    def _tiles(
        self, rows: DividedVectors, columns: slice, width: int = TILE_COLUMNS
    ) -> Iterator[tuple[AnyArray, slice]]:
        """Kernel values of some vectors with consecutive columns, tile by tile."""
        at = self._columns.start(rows, columns.start)
        size = len(rows) * min(width, columns.stop - columns.start)
        products, values = np.empty(size), np.empty(size, np.float32)
        for place in _slices(columns.stop, width, columns.start):
            shape = len(rows), place.stop - place.start
            # Contiguous, which is quickest for compiled loops.
            tile, out = (buffer[: shape[0] * shape[1]].reshape(shape) for buffer in (products, values))
            self._columns.tile(rows, place, at, tile)
            self._function.put(tile, rows.squares[:, None], self._squares[place], out)
            yield out, place


def _slices(stop: int, size: int, start: int = 0) -> list[slice]:
    return [slice(first, min(first + size, stop)) for first in range(start, stop, size)]


def _on_all_cores(
    fill: Callable[[Any], object], pieces: list[tuple[slice, slice]], progress: Progress | None
) -> None:
    """Fill pieces of a matrix on all cores, with one BLAS thread each."""
    work = [(a.stop - a.start) * (b.stop - b.start) for a, b in pieces]
    with one_blas_thread():
        if progress is None and sum(work) <= ALONE:
            for piece in pieces:
                fill(piece)
        else:
            run(fill, pieces, work, progress)
