"""Rows of features that are added and removed, and their products with each other.

A row is a set of columns and a number for each block of keys, the value of all its columns in that block. So
the product of two rows is a sum over the blocks: the number of columns they share times both values; its bits
do not depend on earlier operations. Rows are stored twice, as lists of columns and as lists of rows by column
(postings), each entry 4 bytes. Products of a row with all rows read only the postings of its columns (13 % of
all entries, on the mails of SpamAssassin); sums of weights over columns read the lists of columns.

Each kind of list is in a pool. A full list moves to the end of the pool and leaves a hole; a full pool is
packed into a new pool. The place of a removed row is reused. Columns without rows are removed when they
outnumber the others. The amortised cost is constant per entry.

Positions in the long loops are unsigned, which saves the test for negative numbers: three times as fast.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from textsvm.arrays import Floats, Floats32, Ints, Ints32, Words
from textsvm.errors import InputError
from textsvm.runtime.compiled import njit

_FACTOR = np.uint64(0x9E3779B97F4A7C15)  #: Fibonacci hashing: 2^64 divided by the golden ratio.
FEW = 4096  #: Up to this number columns without rows are kept.


def grown(array: NDArray, length: int) -> NDArray:
    """The array, or a larger copy with room for `length` entries; new entries are 0."""
    if length <= len(array):
        return array
    larger = np.zeros((max(length, len(array) + len(array) // 2, 64), *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return larger


class ListPool:
    """Lists of int32 in one pool; `begun` counts lists filled by `append` and not emptied by `discard`."""

    def __init__(self) -> None:
        self.pool = np.zeros(64, np.int32)
        self.start = np.zeros(0, np.int64)
        self.length, self.room = np.zeros(0, np.int32), np.zeros(0, np.int32)
        self.end, self.begun = 0, 0

    def reserve(self, n: int) -> None:
        """Have at least `n` lists; new lists are empty."""
        self.start, self.length = grown(self.start, n), grown(self.length, n)
        self.room = grown(self.room, n)

    def __getitem__(self, i: int) -> Ints32:
        return self.pool[self.start[i] : self.start[i] + self.length[i]]

    def set(self, i: int, values: Ints32) -> None:
        """Put values into list `i`, which is empty."""
        self._make_room(len(values))
        self.pool[self.end : self.end + len(values)] = values
        self.start[i], self.length[i], self.room[i] = self.end, len(values), len(values)
        self.end += len(values)

    def clear(self, i: int) -> None:
        self.length[i] = self.room[i] = 0

    def append(self, lists: Ints32, value: int) -> None:
        self._make_room(wanted(lists, self.length, self.room))
        self.end, begun = append(lists, value, self.pool, self.start, self.length, self.room, self.end)
        self.begun += begun

    def discard(self, lists: Ints32, value: int) -> None:
        """Remove a value from each of these lists, which hold it."""
        self.begun -= discard(lists, value, self.pool, self.start, self.length)

    def keep(self, lists: Ints) -> None:
        """Keep only these lists, in this order."""
        self.start, self.length = self.start[lists], self.length[lists]
        self.room = self.room[lists]

    def _make_room(self, places: int) -> None:
        if self.end + places > len(self.pool):
            # No list is full after packing, so that appending needs no more room than this.
            pool = np.empty(2 * int(self.length.sum()) + len(self.length) + 2 * places + 64, np.int32)
            self.end = pack(self.pool, self.start, self.length, self.room, pool)
            self.pool = pool


class ColumnTable:
    """Hash table of keys and their columns, with open addressing."""

    def __init__(self) -> None:
        self.keys = np.zeros(0, np.uint64)
        self.n = 0
        self._make_table(256)

    def find(self, keys: Words) -> Ints:
        """The column of each key; negative for a key without a column."""
        numbers = np.empty(len(keys), np.int64)
        find(keys, self._table, self._columns, self._shift, numbers)
        return numbers

    def number(self, keys: Words) -> Ints:
        """The column of each of these distinct keys; new keys get the next columns."""
        numbers = self.find(keys)
        new = np.flatnonzero(numbers < 0)
        if 2 * (self.n + len(new)) > len(self._table):
            self._make_table(4 * (self.n + len(new)))
        numbers[new] = np.arange(self.n, self.n + len(new))
        self.keys = grown(self.keys, self.n + len(new))
        self.keys[numbers[new]] = keys[new]
        self.n += len(new)
        insert(keys[new], numbers[new], self._table, self._columns, self._shift)
        return numbers

    def keep(self, columns: Ints) -> None:
        """Keep only these columns, renumbered in this order."""
        self.keys, self.n = self.keys[columns], len(columns)
        self._make_table(4 * self.n)

    def _make_table(self, least: int) -> None:
        bits = max(least - 1, 255).bit_length()
        self._table, self._shift = np.zeros(1 << bits, np.uint64), np.uint64(64 - bits)
        self._columns = np.full(1 << bits, -1, np.int32)
        insert(self.keys[: self.n], np.arange(self.n), self._table, self._columns, self._shift)


class SparseRows:
    """Rows at places 0 .. n - 1, some of them free, and a vector of weights over their columns.

    The block of a key, from 0 to `blocks` - 1, is (key >> 32) & 3; a single block holds all keys.
    """

    def __init__(self, blocks: int = 1) -> None:
        self.columns, self.blocks = ColumnTable(), blocks
        self.rows, self.postings = ListPool(), ListPool()
        #: shape (n or more, blocks): The value of all columns of a row in a block; 0 at a free place.
        self.scale = np.zeros((0, blocks), np.float32)
        #: shape (n or more, blocks): End of each block in the list of columns of a row.
        self.ends = np.zeros((0, blocks), np.int64)
        self.weights = np.zeros(0)  #: shape (number of columns or more,)
        self.n, self.free = 0, list[int]()

    def block_ends(self, keys: Words) -> Ints:
        """The end of each block in distinct keys, which ascend if there are several blocks."""
        if self.blocks == 1:
            return np.array([len(keys)])
        numbers = (keys >> np.uint64(32)).astype(np.int64) & 3
        if len(keys) and (numbers.max() >= self.blocks or (np.diff(numbers) < 0).any()):
            raise InputError("the features of an example must ascend, in the blocks of the machine")
        return np.cumsum(np.bincount(numbers, minlength=self.blocks))

    def add(self, keys: Words, values: Floats32) -> int:
        """Add a row of distinct keys, with equal values in each block; return its place."""
        ends = self.block_ends(keys)
        columns = self.columns.number(keys).astype(np.int32)
        self.postings.reserve(self.columns.n)
        self.weights = grown(self.weights, self.columns.n)
        place = self.free.pop() if self.free else self.n
        self.n = max(self.n, place + 1)
        self.rows.reserve(self.n)
        self.scale, self.ends = grown(self.scale, self.n), grown(self.ends, self.n)
        self.rows.set(place, columns)
        self.ends[place] = ends
        used = np.diff(ends, prepend=0) > 0
        self.scale[place, used] = values[ends[used] - 1]
        self.postings.append(columns, place)
        return place

    def remove(self, place: int) -> None:
        """Remove a row; its place becomes free."""
        columns = self.rows[place]
        self.postings.discard(columns, place)
        self.weights[columns[self.postings.length[columns] == 0]] = 0  # leaves no rounding errors
        self.rows.clear(place)
        self.scale[place] = self.ends[place] = 0
        self.free.append(place)
        if self.columns.n - self.postings.begun > max(FEW, self.postings.begun):
            self._sweep(np.flatnonzero(self.postings.length[: self.columns.n]))

    def products(self, place: int, out: Floats32) -> None:
        """out[k] = <row at `place`, row k>, for k < n."""
        lists = self.postings
        columns, counts = self.rows[place], np.empty(len(out), np.uint32)
        products(
            columns, self.ends[place], lists.pool, lists.start, lists.length, self.scale, place, counts, out
        )

    def sums(self, places: Ints) -> Floats:
        """<weights, row> of each of these rows."""
        lists, out = self.rows, np.empty(len(places))
        sums(self.weights, places, lists.pool, lists.start, self.ends, self.scale, out)
        return out

    def spread(self, places: Ints, change: Floats) -> None:
        """weights += sum over k of change[k] times the row at places[k]."""
        lists = self.rows
        spread(self.weights, places, change, lists.pool, lists.start, self.ends, self.scale)

    def value(self, keys: Words, values: Floats32) -> float:
        """<weights, a vector>; keys without a column have no weight."""
        columns = self.columns.find(keys)
        in_table = columns >= 0
        return float(self.weights[columns[in_table]] @ values[in_table].astype(np.float64))

    def _sweep(self, used: Ints) -> None:
        """Keep only the columns `used`."""
        number = np.zeros(self.columns.n, np.int32)
        number[used] = np.arange(len(used))
        for place in np.flatnonzero(self.rows.length).tolist():
            self.rows[place][:] = number[self.rows[place]]
        self.columns.keep(used)
        self.postings.keep(used)
        self.weights = self.weights[used]


@njit(nogil=True, cache=True)
def find(keys, table, columns, shift, numbers):
    """numbers[k] = the column of keys[k], or ~(the slot of the table where it would be)."""
    mask = np.int64(len(table) - 1)
    for k in range(len(keys)):
        slot = np.int64((keys[k] * _FACTOR) >> shift)
        while columns[slot] >= 0 and table[slot] != keys[k]:
            slot = (slot + 1) & mask
        numbers[k] = columns[slot] if columns[slot] >= 0 else ~slot


@njit(nogil=True, cache=True)
def insert(keys, numbers, table, columns, shift):
    """Insert keys into the table, which has room for them and does not contain them."""
    mask = np.int64(len(table) - 1)
    for k in range(len(keys)):
        slot = np.int64((keys[k] * _FACTOR) >> shift)
        while columns[slot] >= 0:
            slot = (slot + 1) & mask
        table[slot], columns[slot] = keys[k], numbers[k]


@njit(nogil=True, cache=True)
def wanted(lists, length, room):
    """Places of the pool needed to append a value to each of these lists."""
    total = 0
    for i in lists:
        if length[i] == room[i]:
            total += room[i] + room[i] // 2 + 2
    return total


@njit(nogil=True, cache=True)
def append(lists, value, pool, start, length, room, end):
    """Append `value` to each of these lists; a full list moves to the end of the pool, to get more room.

    Returns the new end of the pool and the number of lists that were empty.
    """
    begun = 0
    for i in lists:
        if length[i] == room[i]:
            for k in range(length[i]):
                pool[end + k] = pool[start[i] + k]
            start[i] = end
            room[i] += room[i] // 2 + 2
            end += room[i]
        begun += length[i] == 0
        pool[start[i] + length[i]] = value
        length[i] += 1
    return end, begun


@njit(nogil=True, cache=True)
def discard(lists, value, pool, start, length):
    """Remove `value` from each of these lists, which hold it; their last value takes its place.

    Returns the number of lists that become empty.
    """
    ended = 0
    for i in lists:
        last = np.uint64(start[i] + length[i] - 1)
        k = np.uint64(start[i])
        while pool[k] != value:
            k += np.uint64(1)
        pool[k] = pool[last]
        length[i] -= 1
        ended += length[i] == 0
    return ended


@njit(nogil=True, cache=True)
def pack(pool, start, length, room, target):
    """Copy all lists to `target`, each with a quarter more room, at least 1 place; return the end."""
    end = 0
    for i in range(len(start)):
        source, to = np.uint64(start[i]), np.uint64(end)
        for k in range(np.uint64(length[i])):
            target[to + k] = pool[source + k]
        start[i] = end
        room[i] = length[i] + length[i] // 4 + 1
        end += room[i]
    return end


@njit(nogil=True, cache=True)
def products(columns, ends, pool, start, length, scale, at, counts, out):
    """out[k] = sum over blocks b of (columns that rows `at` and k share) scale[at, b] scale[k, b].

    `counts` is room for a number for each k.
    """
    out[:] = 0
    begin = 0
    for b in range(len(ends)):
        if begin == ends[b]:
            continue
        counts[:] = 0
        for c in columns[begin : ends[b]]:
            first = np.uint64(start[c])
            for k in range(first, first + np.uint64(length[c])):
                counts[np.uint32(pool[k])] += np.uint32(1)
        for k in range(np.uint64(len(out))):
            out[k] += np.float32(counts[k]) * (scale[at, b] * scale[k, b])
        begin = ends[b]


@njit(nogil=True, cache=True)
def sums(weights, rows, pool, start, ends, scale, out):
    """out[k] = sum over blocks b of scale[rows[k], b] times the sum of the weights of that row's columns."""
    for k in range(len(rows)):
        i = rows[k]
        out[k] = 0.0
        begin = np.uint64(start[i])
        for b in range(ends.shape[1]):
            total, end = 0.0, np.uint64(start[i] + ends[i, b])
            for e in range(begin, end):
                total += weights[np.uint32(pool[e])]
            out[k] += scale[i, b] * total
            begin = end


@njit(nogil=True, cache=True)
def spread(weights, rows, change, pool, start, ends, scale):
    """weights += sum over k of change[k] times row rows[k]."""
    for k in range(len(rows)):
        i = rows[k]
        begin = np.uint64(start[i])
        for b in range(ends.shape[1]):
            step, end = change[k] * scale[i, b], np.uint64(start[i] + ends[i, b])
            for e in range(begin, end):
                weights[np.uint32(pool[e])] += step
            begin = end
