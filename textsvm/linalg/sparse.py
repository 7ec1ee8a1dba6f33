"""Sparse matrices of values >= 0 with a row per document, on the CPU.

Positions are int64. Features are int32 if there are fewer than 2^31, else int64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise

import numpy as np

from textsvm.arrays import AnyArray, Floats, Floats32, Ints, Ints32, SignedInts, UnsignedInts, runs_of
from textsvm.runtime.compiled import njit, use_numpy
from textsvm.runtime.memory import empty
from textsvm.runtime.parallel import n_threads, run

MAX_INT32 = (1 << 31) - 1  #: Largest int32.
PASSES = 4  #: Passes of NumPy over the entries of a matrix.
PIECES = 4  #: Pieces of work per thread: enough to balance unequal documents.
SERIAL_SIZE = 1 << 16  #: Maximum number of symbols or entries for which one thread is faster than several.
GRID_BITS = 26  #: log2 of the largest norm of a row on its grid, see `Sparse.on_grid`.
MIN_PIECE_SIZE = 1 << 14  #: Minimum number of symbols or entries of a piece of work.
#: Columns of a dense matrix that are multiplied together, of all rows in turn: they stay in the cache.
TILE = 256
#: Number of entries of a slab, for work that would take several times the memory of all entries.
SLAB = 1 << 18


def index_type(size: int) -> type[np.signedinteger]:
    """Dtype of numbers of features, and of positions, below `size`."""
    return np.int32 if size <= MAX_INT32 else np.int64


def unsigned(numbers: SignedInts) -> UnsignedInts:
    """The same numbers >= 0, in the same memory, as indices for compiled loops.

    Numba tests signed indices for being negative, which makes a product with a vector three times as slow.
    """
    return numbers.view(f"u{numbers.itemsize}")


def run_on_ranges(offsets: Ints, function: Callable[[int, int], object]) -> None:
    """Call function(first, last) on ranges of documents of similar sizes, on all cores if that is faster.

    `offsets`, shape (n + 1,), are of the symbols or entries of each document. Results must not depend on the
    ranges.
    """
    if offsets[-1] - offsets[0] <= SERIAL_SIZE:
        function(0, len(offsets) - 1)
        return
    pieces = min(PIECES * n_threads(), int(offsets[-1] - offsets[0]) // MIN_PIECE_SIZE)
    goals = offsets[0] + (offsets[-1] - offsets[0]) * np.arange(1, pieces) // pieces
    cuts = np.unique(np.concatenate([[0], np.searchsorted(offsets, goals), [len(offsets) - 1]]))
    run(lambda d: function(*d), list(pairwise(cuts.tolist())))


def slabs_of(indptr: Ints) -> list[tuple[int, int]]:
    """Ranges of rows of about `SLAB` entries."""
    return runs_of(indptr[:-1] // SLAB)


@dataclass(frozen=True)
class Counts:
    """Number of occurrences of each feature in each document, as rows of a sparse matrix."""

    indptr: Ints  #: shape (n + 1,)
    #: int32 or int64 array, shape (number of entries,): In order of first occurrence.
    features: SignedInts
    counts: Ints32  #: shape (number of entries,)


@dataclass(frozen=True)
class Sparse:
    """Sparse matrix X: row i has `values[indptr[i]:indptr[i + 1]]` at these `features`."""

    indptr: Ints  #: shape (n + 1,)
    features: SignedInts  #: int32 or int64 array, shape (number of entries,)
    values: Floats32  #: shape (number of entries,)
    n_features: int

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @cached_property
    def by_numpy(self) -> bool:
        """Whether NumPy works on these entries, with the bits of the compiled functions; decided once."""
        return use_numpy(PASSES * len(self.values))

    def select(self, target: SignedInts, n_features: int) -> Sparse:
        """Renumber features to `target` (of `n_features`); -1 drops a feature."""
        indptr, target = np.zeros_like(self.indptr), target.astype(index_type(n_features), copy=False)
        if self.by_numpy:
            features = target[self.features]
            keep = features >= 0
            starts = np.concatenate([[0], np.cumsum(keep)])
            return Sparse(starts[self.indptr], features[keep], self.values[keep], n_features)
        run_on_ranges(self.indptr, lambda i, j: _count_kept(i, j, self.indptr, self.features, target, indptr))
        np.cumsum(indptr, out=indptr)
        selection = _empty(indptr, n_features)
        own, new = (self.indptr, self.features, self.values), (selection.features, selection.values)
        run_on_ranges(self.indptr, lambda i, j: _keep(i, j, *own, target, indptr, *new))
        return selection

    def take(self, indices: Ints) -> Sparse:
        begins, lengths = self.indptr[indices], np.diff(self.indptr)[indices]
        indptr, arrays = np.concatenate([[0], np.cumsum(lengths)]), (self.features, self.values)
        features, values = (empty(indptr[-1], array.dtype) for array in arrays)
        for array, out in zip(arrays, (features, values), strict=True):
            run_on_ranges(indptr, partial(copy_rows, begins, lengths, array, indptr, out))
        return Sparse(indptr, features, values, self.n_features)

    def unary(self, counts: Ints32, starts: Ints) -> Sparse:
        """Repeat every entry `counts` times, at the features from `starts[feature]` on."""
        ends = np.zeros(len(counts) + 1, np.int64)
        np.cumsum(counts, out=ends[1:])
        code = _empty(ends[self.indptr], int(starts[-1]))
        if self.by_numpy:
            owner = np.repeat(np.arange(len(counts)), counts)
            code.features[:] = starts[self.features[owner]] + np.arange(len(owner)) - ends[owner]
            code.values[:] = self.values[owner]
            return code
        _unary(self.features, self.values, counts, starts, code.features, code.values)
        return code

    def squares(self, ends: Ints | None = None, times: Ints32 | None = None) -> Floats:
        """Squared norm of each row, shape (n,); with `ends`, added block by block.

        With `times`, shape (entries,), of the matrix that `unary` makes of these counts.
        """
        squares = np.zeros(len(self))
        for block in self._squares_of_blocks(self._ends(ends), times).T:
            squares += block
        return squares

    def _ends(self, ends: Ints | None) -> Ints:
        """Ends of the blocks of features: a single block by default."""
        return np.array([self.n_features]) if ends is None else ends

    def _blocks(self, ends: Ints) -> Ints:
        """Number of the block of each entry, over the blocks of all rows."""
        row = np.repeat(np.arange(len(self)) * len(ends), np.diff(self.indptr))
        return row + np.searchsorted(ends, self.features, side="right")

    def _squares_of_blocks(self, ends: Ints, times: Ints32 | None = None) -> Floats:
        """Squared norm of each row in each block of features, shape (n, number of blocks)."""
        squares = np.zeros((len(self), len(ends)))
        if self.by_numpy:
            exact = np.square(self.values.astype(np.float64)) * (1 if times is None else times)
            squares.ravel()[:] = np.bincount(self._blocks(ends), exact, squares.size)
        else:
            arrays = (self.indptr, self.features, self.values, times, ends, squares)
            run_on_ranges(self.indptr, lambda i, j: _squares(i, j, *arrays))
        return squares

    def on_grid(self, ends: Ints | None = None, times: Ints32 | None = None) -> Sparse:
        """The matrix with values rounded such that products of rows are exact in float64, in any order.

        The values of a row become multiples of a power of two, its norm at most 2^GRID_BITS of them, so a
        product is a whole number below 2^53. Whole numbers are on a grid already. Features may be in several
        blocks, up to `ends`, that are multiplied apart and have a grid each; the entries of a row are then in
        the order of the blocks. `times` are as in `squares`.
        """
        if are_whole(self.values):
            return self
        values, ends = empty(len(self.values), np.float32), self._ends(ends)
        squares = self._squares_of_blocks(ends, times)
        units = np.ldexp(1.0, np.frexp(np.sqrt(squares))[1] - GRID_BITS)
        if self.by_numpy:
            unit = units.ravel()[self._blocks(ends)]
            values[:] = np.rint(self.values / unit) * unit
        else:
            arrays = (self.indptr, self.features, self.values, ends, units, values)
            run_on_ranges(self.indptr, lambda i, j: _round_to_grid(i, j, *arrays))
        return replace(self, values=values)

    def frequencies(self) -> Ints:
        """Number of rows that have each feature, shape (n_features,)."""
        if self.by_numpy:
            return np.bincount(self.features, minlength=self.n_features)
        return count_features(self.features, self.n_features)

    def dot(self, dense: Floats, target: SignedInts | None = None) -> Floats:
        """X @ dense; feature u is row u of `dense`, or `target[u]` if given, or dropped if that is -1."""
        dense = np.ascontiguousarray(dense, np.float64)
        out = np.zeros((len(self), dense.shape[1]))
        if target is not None and use_numpy(len(self.values) * dense.shape[1]):
            has_row = target[self.features] >= 0
            owner = np.repeat(np.arange(len(self)), np.diff(self.indptr))[has_row]
            terms = self.values[has_row, None].astype(np.float64) * dense[target[self.features[has_row]]]
            for c, column in enumerate(terms.T):
                out[:, c] = np.bincount(owner, column, len(self))
            return out
        target = np.empty(0, np.int32) if target is None else target
        rows = unsigned(target.astype(index_type(len(dense)), copy=False))
        arrays = (unsigned(self.indptr), unsigned(self.features), self.values, rows, dense, out)
        run_on_ranges(self.indptr, lambda i, j: _dot(i, j, *arrays))
        return out

    def transposed_dot(self, dense: Floats) -> Floats:
        """X.T @ dense: (n, k) -> (n_features, k); each sum is in row order."""
        dense = np.asarray(dense, np.float64)
        if use_numpy(len(self.values) * dense.shape[1]):
            owner = np.repeat(np.arange(len(self)), np.diff(self.indptr))
            terms = self.values.astype(np.float64)[:, None] * dense[owner]
            columns = (np.bincount(self.features, column, self.n_features) for column in terms.T)
            sums = [column.astype(np.float64, copy=False) for column in columns]  # of nothing: int64
            return np.stack(sums, axis=1)
        out = np.zeros((self.n_features, dense.shape[1]))
        arrays = (unsigned(self.indptr), unsigned(self.features), self.values, dense, out)
        if dense.shape[1] == 1 or len(self.values) <= SERIAL_SIZE:
            _transposed_dot(0, dense.shape[1], *arrays)
        else:  # divided by columns, so that sums do not depend on the number of threads
            cuts = np.unique(np.arange(n_threads() + 1) * dense.shape[1] // n_threads())
            run(lambda d: _transposed_dot(d[0], d[1], *arrays), list(pairwise(cuts.tolist())))
        return out


def count_features(features: AnyArray, size: int) -> Ints:
    """How often each of `size` features occurs."""
    # All entries as one row.
    return count_features_of(np.array([0, len(features)]), features, np.zeros(1, np.int64), size)


def count_features_of(indptr: AnyArray, features: AnyArray, rows: Ints, size: int) -> Ints:
    """Number of these rows that have each of `size` features."""
    if use_numpy(len(features)):
        times = np.bincount(rows, minlength=len(indptr) - 1).astype(np.float64)
        return np.bincount(features, np.repeat(times, np.diff(indptr)), size).astype(np.int64)
    ends = np.concatenate([[0], np.cumsum(indptr[rows + 1] - indptr[rows])])
    threads = min(n_threads(), int(ends[-1]) // max(size, SERIAL_SIZE) + 1)
    counts = np.zeros((threads, size), np.int32 if ends[-1] <= MAX_INT32 else np.int64)

    def count_piece(k: int) -> None:
        first, last = ends[-1] * k // threads, ends[-1] * (k + 1) // threads
        at = int(np.searchsorted(ends, first, side="right")) - 1
        _count(indptr, features, rows, ends, at, first, last, counts[k])

    run(count_piece, range(threads))
    return np.asarray(counts.sum(axis=0, dtype=np.int64))


def unary_starts(features: AnyArray, counts: Ints32, size: int) -> Ints:
    """First column of the unary code of each of `size` features, and their total.

    The code of a feature has as many columns as its largest count.
    """
    largest = np.ones(size, np.int32)
    np.maximum.at(largest, features, counts)
    return np.concatenate([[0], np.cumsum(largest)])


def unary_frequencies(features: SignedInts, counts: Ints32, starts: Ints) -> Ints:
    """Number of rows that have each column of the unary codes from `starts` on."""
    last = np.bincount(starts[features] + counts - 1, minlength=starts[-1])
    np.cumsum(last[::-1], out=last[::-1])  # by entries of this feature and of those behind it
    last -= np.repeat(np.append(last, 0)[starts[1:]], np.diff(starts))
    return last


def match_unary(columns: Ints, rows: Ints, numbers: Ints) -> Ints:
    """Column of each digit of the unary codes of other documents; -1 if there is none.

    `columns` are the first columns of the codes of known features, from `unary_starts`. `rows` are the same
    for the features of the other documents, and `numbers`, shape (len(rows) - 1,), is the number of each of
    these among the known features, or -1.
    """
    column_numbers = np.repeat(numbers, np.diff(rows))
    height = np.arange(rows[-1]) - np.repeat(rows[:-1], np.diff(rows))
    target = columns[column_numbers] + height
    target[(column_numbers < 0) | (target >= columns[column_numbers + 1])] = -1
    return target


def _empty(indptr: Ints, n_features: int) -> Sparse:
    n = int(indptr[-1])
    return Sparse(indptr, empty(n, index_type(n_features)), empty(n, np.float32), n_features)


@njit(nogil=True, cache=True)
def _count(indptr, features, rows, ends, at, first, last, counts):
    """Count the features of the entries first..last of some rows; the first is of row `at`."""
    while at < len(rows) and ends[at] < last:
        begin = indptr[rows[at]] - ends[at]
        for k in range(begin + max(first, ends[at]), begin + min(last, ends[at + 1])):
            counts[features[k]] += 1
        at += 1


@njit(nogil=True, cache=True)
def _squares(first, last, indptr, features, values, times, ends, squares):
    for i in range(first, last):
        k = indptr[i]
        for block, end in enumerate(ends):
            total = 0.0
            while k < indptr[i + 1] and features[k] < end:
                for _ in range(1 if times is None else times[k]):  # rounded as in the unary code
                    total += np.float64(values[k]) * np.float64(values[k])
                k += 1
            squares[i, block] = total


def are_whole(values: Floats32) -> bool:
    """Whether all values are whole numbers."""
    slabs = (values[first : first + SERIAL_SIZE] for first in range(0, len(values), SERIAL_SIZE))
    return all(bool(np.all(slab == np.rint(slab))) for slab in slabs)


@njit(nogil=True, cache=True)
def grid_unit(square):
    """Unit of the grid of a row with this squared norm, see `Sparse.on_grid`."""
    _, exponent = math.frexp(math.sqrt(square))
    return math.ldexp(1.0, exponent - GRID_BITS)


@njit(nogil=True, cache=True)
def _round_to_grid(first, last, indptr, features, values, ends, units, rounded):
    for i in range(first, last):
        block = 0
        for k in range(indptr[i], indptr[i + 1]):
            while features[k] >= ends[block]:
                block += 1
            rounded[k] = np.rint(values[k] / units[i, block]) * units[i, block]


@njit(nogil=True, cache=True)
def _dot(first, last, indptr, features, values, target, dense, out):
    """`Sparse.dot`; -1 is the largest number, and an empty `target` leaves features their numbers."""
    width, n_rows, to_target = dense.shape[1], np.uint64(len(dense)), len(target) > 0
    for begin in range(0, width, TILE):
        a, b = np.uint64(begin), np.uint64(min(begin + TILE, width))
        for i in range(first, last):
            total = 0.0
            for k in range(indptr[i], indptr[i + 1]):
                v, u = np.float64(values[k]), target[features[k]] if to_target else features[k]
                if width == 1 and u < n_rows:
                    total += v * dense[u, 0]
                elif not to_target or u < n_rows:
                    for c in range(a, b):
                        out[i, c] += v * dense[u, c]
            out[i, 0] += total


@njit(nogil=True, cache=True)
def _transposed_dot(first, last, indptr, features, values, dense, out):
    for i in range(len(indptr) - 1):
        zero = True
        for c in range(first, last):
            zero &= dense[i, c] == 0
        if zero:
            continue
        for k in range(indptr[i], indptr[i + 1]):
            v, u = np.float64(values[k]), features[k]
            for c in range(first, last):
                out[u, c] += v * dense[i, c]


@njit(nogil=True, cache=True)
def copy_rows(begins, lengths, array, to, out, first, last):
    """Copy row i, the `lengths[i]` numbers of `array` from `begins[i]` on, to `out` from `to[i]` on."""
    for i in range(first, last):
        source, target = np.uint64(begins[i]), np.uint64(to[i])  # unsigned: indices have no sign to test
        for k in range(np.uint64(lengths[i])):
            out[target + k] = array[source + k]


@njit(nogil=True, cache=True)
def _count_kept(first, last, indptr, features, target, numbers):
    """numbers[i + 1] = number of entries of row i whose feature has a target."""
    for i in range(first, last):
        count = 0
        for k in range(indptr[i], indptr[i + 1]):
            if target[features[k]] >= 0:
                count += 1
        numbers[i + 1] = count


@njit(nogil=True, cache=True)
def _keep(first, last, indptr, features, values, target, begin, kept_features, kept_values):
    for i in range(first, last):
        to = begin[i]
        for k in range(indptr[i], indptr[i + 1]):
            feature = target[features[k]]
            if feature >= 0:
                kept_features[to] = feature
                kept_values[to] = values[k]
                to += 1


@njit(nogil=True, cache=True)
def _unary(features, values, counts, starts, code_features, code_values):
    to = 0
    for k in range(len(features)):
        for height in range(counts[k]):
            code_features[to] = starts[features[k]] + height
            code_values[to] = values[k]
            to += 1
