"""The compiled loops of `textsvm.solvers.online_rows`: lists in a pool, a table of keys, counts and sums.

Positions in the long loops are unsigned, and so need no look at negative ones: three times as fast.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from textsvm.compiled import njit

#: Fibonacci hashing: 2^64 divided by the golden ratio.
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


@njit(nogil=True, cache=True)
def find(keys: Any, table: Any, columns: Any, shift: Any, found: Any) -> Any:
    """found[k] = the column of keys[k], or ~(the slot of the table where it would be)."""
    mask = np.int64(len(table) - 1)
    for k in range(len(keys)):
        slot = np.int64((keys[k] * _FACTOR) >> shift)
        while columns[slot] >= 0 and table[slot] != keys[k]:
            slot = (slot + 1) & mask
        found[k] = columns[slot] if columns[slot] >= 0 else ~slot


@njit(nogil=True, cache=True)
def insert(keys: Any, numbers: Any, table: Any, columns: Any, shift: Any) -> None:
    """Put keys that are not there yet into the table, which has room for them."""
    mask = np.int64(len(table) - 1)
    for k in range(len(keys)):
        slot = np.int64((keys[k] * _FACTOR) >> shift)
        while columns[slot] >= 0:
            slot = (slot + 1) & mask
        table[slot], columns[slot] = keys[k], numbers[k]


@njit(nogil=True, cache=True)
def wanted(lists: Any, length: Any, room: Any) -> Any:
    """Places of the pool that it takes to append one value to each of these lists."""
    total = 0
    for i in lists:
        if length[i] == room[i]:
            total += room[i] + room[i] // 2 + 2
    return total


@njit(nogil=True, cache=True)
def append(lists: Any, value: Any, pool: Any, start: Any, length: Any, room: Any, end: Any) -> Any:
    """Append `value` to each of these lists; a full one moves to the end of the pool, with half as much room
    again.

    Returns
    -------
    end : int
        The new end of the pool.
    begun : int
        Lists that were empty.
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
def discard(lists: Any, value: Any, pool: Any, start: Any, length: Any) -> Any:
    """Take `value` out of each of these lists, which hold it; their last value takes its place.

    Returns
    -------
    ended : int
        Lists that are empty now.
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
def pack(pool: Any, start: Any, length: Any, room: Any, target: Any) -> Any:
    """Copy all lists to the beginning of `target`, each with a quarter more room, one place at least.

    Returns
    -------
    end : int
        Of what is used.
    """
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
def products(
    columns: Any, pool: Any, start: Any, length: Any, scale: Any, at: Any, counts: Any, out: Any
) -> None:
    """out[k] = (columns that rows `at` and k share) scale[at] scale[k], for every k.

    `counts` is the memory of `out` as uint32.
    """
    counts[:] = 0
    for c in columns:
        first = np.uint64(start[c])
        for k in range(first, first + np.uint64(length[c])):
            counts[np.uint32(pool[k])] += np.uint32(1)
    for k in range(np.uint64(len(out))):
        out[k] = np.float32(counts[k]) * (scale[at] * scale[k])


@njit(nogil=True, cache=True)
def sums(weights: Any, rows: Any, pool: Any, start: Any, length: Any, scale: Any, out: Any) -> None:
    """out[k] = scale[rows[k]] times the sum of the weights of that row's columns."""
    for k in range(len(rows)):
        i, total = rows[k], 0.0
        first = np.uint64(start[i])
        for e in range(first, first + np.uint64(length[i])):
            total += weights[np.uint32(pool[e])]
        out[k] = scale[i] * total


@njit(nogil=True, cache=True)
def spread(weights: Any, rows: Any, change: Any, pool: Any, start: Any, length: Any, scale: Any) -> None:
    """weights += sum over k of change[k] times row rows[k]."""
    for k in range(len(rows)):
        i = rows[k]
        step = change[k] * scale[i]
        first = np.uint64(start[i])
        for e in range(first, first + np.uint64(length[i])):
            weights[np.uint32(pool[e])] += step
