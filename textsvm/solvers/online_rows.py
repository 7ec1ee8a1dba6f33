"""Rows of features that come and go, and their products with each other.

A row is a set of columns and one number, the value that all of its columns have. So the product of two
rows is the number of columns they share times both values, exact in float32 until it is rounded; its bits do
not depend on what came before. Rows are kept twice, as lists of columns and as lists of rows by column
(postings), each entry 4 bytes. With postings one row's products with all n take the entries of its columns
alone (13 % of all there are, on the mails of SpamAssassin); the sums that a vector of weights takes over
columns read the lists of columns.

Lists live in a pool each. A list that is full moves to the end of the pool and leaves a hole; a full pool is
packed into a new one. A removed row's place is used again. Columns that no row has any more are swept
out once they are more than the others. All of that is amortised: constant time an entry.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from textsvm.solvers import online_loop as loop

#: Columns without rows that are not worth a sweep.
FEW = 4096


def grown(array: NDArray, length: int) -> NDArray:
    """The array with room for `length` entries at least, new ones 0."""
    if length <= len(array):
        return array
    larger = np.zeros(max(length, len(array) + len(array) // 2, 64), array.dtype)
    larger[: len(array)] = array
    return larger


class Lists:
    """Lists of int32 in one pool.

    Attributes
    ----------
    begun : int
        Lists that `append` has put values into and `discard` has not emptied.
    """

    def __init__(self) -> None:
        self.pool = np.zeros(64, np.int32)
        self.start, self.length, self.room = (
            np.zeros(0, np.int64),
            np.zeros(0, np.int32),
            np.zeros(0, np.int32),
        )
        self.end, self.begun = 0, 0

    def reserve(self, n: int) -> None:
        """Have `n` lists at least, new ones empty."""
        self.start, self.length = grown(self.start, n), grown(self.length, n)
        self.room = grown(self.room, n)

    def __getitem__(self, i: int) -> NDArray[np.int32]:
        return self.pool[self.start[i] : self.start[i] + self.length[i]]

    def set(self, i: int, values: NDArray[np.int32]) -> None:
        """Make list `i`, which is empty, hold these values."""
        self._make_room(len(values))
        self.pool[self.end : self.end + len(values)] = values
        self.start[i], self.length[i], self.room[i] = self.end, len(values), len(values)
        self.end += len(values)

    def clear(self, i: int) -> None:
        """Empty a list."""
        self.length[i] = self.room[i] = 0

    def append(self, lists: NDArray[np.int32], value: int) -> None:
        """Append a value to each of these lists."""
        self._make_room(loop.wanted(lists, self.length, self.room))
        self.end, begun = loop.append(lists, value, self.pool, self.start, self.length, self.room, self.end)
        self.begun += begun

    def discard(self, lists: NDArray[np.int32], value: int) -> None:
        """Take a value that each of these lists holds out of them."""
        self.begun -= loop.discard(lists, value, self.pool, self.start, self.length)

    def keep(self, lists: NDArray[np.int64]) -> None:
        """Keep these lists alone, in this order."""
        self.start, self.length = self.start[lists], self.length[lists]
        self.room = self.room[lists]

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return sum(each.nbytes for each in (self.pool, self.start, self.length, self.room))

    def _make_room(self, places: int) -> None:
        if self.end + places > len(self.pool):
            # No list is full after that, so that to append takes no more room than this.
            live = int(self.length.sum())
            pool = np.empty(2 * live + len(self.length) + 2 * places + 64, np.int32)
            self.end = loop.pack(self.pool, self.start, self.length, self.room, pool)
            self.pool = pool


class Columns:
    """Keys -> columns, in a table of open addressing."""

    def __init__(self) -> None:
        self.keys = np.zeros(0, np.uint64)
        self.n = 0
        self._make_table(256)

    def find(self, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """The column of each key, below 0 of one that has none."""
        found = np.empty(len(keys), np.int64)
        loop.find(keys, self._table, self._columns, self._shift, found)
        return found

    def number(self, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """The column of each of these distinct keys; new ones get the next."""
        found = self.find(keys)
        new = np.flatnonzero(found < 0)
        if 2 * (self.n + len(new)) > len(self._table):
            self._make_table(4 * (self.n + len(new)))
        found[new] = np.arange(self.n, self.n + len(new))
        self.keys = grown(self.keys, self.n + len(new))
        self.keys[found[new]] = keys[new]
        self.n += len(new)
        loop.insert(keys[new], found[new], self._table, self._columns, self._shift)
        return found

    def keep(self, columns: NDArray[np.int64]) -> None:
        """Keep these columns alone, numbered anew in this order."""
        self.keys, self.n = self.keys[columns], len(columns)
        self._make_table(4 * self.n)

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.keys.nbytes + self._table.nbytes + self._columns.nbytes

    def _make_table(self, least: int) -> None:
        bits = max(least - 1, 255).bit_length()
        self._table, self._shift = np.zeros(1 << bits, np.uint64), np.uint64(64 - bits)
        self._columns = np.full(1 << bits, -1, np.int32)
        numbers = np.arange(self.n)
        loop.insert(self.keys[: self.n], numbers, self._table, self._columns, self._shift)


class SparseRows:
    """Rows at places 0 .. n - 1, some of them empty and free, and a vector of weights over their columns.

    Attributes
    ----------
    n : int
        Places in use or free.
    scale : float32 array, shape (n or more,)
        The value that all columns of a row have; 0 at a free place.
    weights : float64 array, shape (number of columns or more,)
    """

    def __init__(self) -> None:
        self.columns = Columns()
        self.rows, self.postings = Lists(), Lists()
        self.scale = np.zeros(0, np.float32)
        self.weights = np.zeros(0)
        self.n, self.free = 0, []  # type: ignore[var-annotated]

    def add(self, keys: NDArray[np.uint64], scale: float) -> int:
        """Add a row of distinct keys. Returns its place."""
        columns = self.columns.number(keys).astype(np.int32)
        self.postings.reserve(self.columns.n)
        self.weights = grown(self.weights, self.columns.n)
        place = self.free.pop() if self.free else self.n
        self.n = max(self.n, place + 1)
        self.rows.reserve(self.n)
        self.scale = grown(self.scale, self.n)
        self.rows.set(place, columns)
        self.scale[place] = scale
        self.postings.append(columns, place)
        return place

    def remove(self, place: int) -> None:
        """Remove a row; its place is free."""
        columns = self.rows[place]
        self.postings.discard(columns, place)
        self.weights[columns[self.postings.length[columns] == 0]] = 0  # no rounding errors stay
        self.rows.clear(place)
        self.scale[place] = 0
        self.free.append(place)
        if self.columns.n - self.postings.begun > max(FEW, self.postings.begun):
            self._sweep(np.flatnonzero(self.postings.length[: self.columns.n]))

    def products(self, place: int, out: NDArray[np.float32]) -> None:
        """out[k] = <row at `place`, row k>, for k < n."""
        lists = self.postings
        columns = self.rows[place]
        counts = out.view(np.uint32)
        loop.products(columns, lists.pool, lists.start, lists.length, self.scale, place, counts, out)

    def sums(self, places: NDArray[np.int64]) -> NDArray[np.float64]:
        """<weights, row> of each of these rows."""
        lists, out = self.rows, np.empty(len(places))
        loop.sums(self.weights, places, lists.pool, lists.start, lists.length, self.scale, out)
        return out

    def spread(self, places: NDArray[np.int64], change: NDArray[np.float64]) -> None:
        """weights += sum over k of change[k] times the row at places[k]."""
        lists = self.rows
        loop.spread(self.weights, places, change, lists.pool, lists.start, lists.length, self.scale)

    def value(self, keys: NDArray[np.uint64], values: NDArray[np.float32]) -> float:
        """<weights, a vector>; keys without a column have no weight."""
        found = self.columns.find(keys)
        known = found >= 0
        return float(self.weights[found[known]] @ values[known].astype(np.float64))

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        own = self.scale.nbytes + self.weights.nbytes
        return self.columns.nbytes + self.rows.nbytes + self.postings.nbytes + own

    def _sweep(self, used: NDArray[np.int64]) -> None:
        """Forget the columns that no row has."""
        number = np.zeros(self.columns.n, np.int32)
        number[used] = np.arange(len(used))
        for place in np.flatnonzero(self.rows.length).tolist():
            self.rows[place][:] = number[self.rows[place]]
        self.columns.keep(used)
        self.postings.keep(used)
        self.weights = self.weights[used]
