"""The compiled loops of `textsvm.solvers.online_rows`: lists in a pool, a table of keys, counts and sums."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

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
        last = start[i] + length[i] - 1
        k = start[i]
        while pool[k] != value:
            k += 1
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
        for k in range(length[i]):
            target[end + k] = pool[start[i] + k]
        start[i] = end
        room[i] = length[i] + length[i] // 4 + 1
        end += room[i]
    return end


@njit(nogil=True, cache=True)
def products(columns: Any, pool: Any, start: Any, length: Any, scale: Any, at: Any, out: Any) -> None:
    """out[k] = (columns that rows `at` and k share) scale[at] scale[k], for every k."""
    out[:] = 0
    for c in columns:
        for k in range(start[c], start[c] + length[c]):
            out[pool[k]] += np.float32(1)
    for k in range(len(out)):
        out[k] *= scale[at] * scale[k]


@njit(nogil=True, cache=True)
def sums(weights: Any, rows: Any, pool: Any, start: Any, length: Any, scale: Any, out: Any) -> None:
    """out[k] = scale[rows[k]] times the sum of the weights of that row's columns."""
    for k in range(len(rows)):
        i, total = rows[k], 0.0
        for e in range(start[i], start[i] + length[i]):
            total += weights[pool[e]]
        out[k] = scale[i] * total


@njit(nogil=True, cache=True)
def spread(weights: Any, rows: Any, change: Any, pool: Any, start: Any, length: Any, scale: Any) -> None:
    """weights += sum over k of change[k] times row rows[k]."""
    for k in range(len(rows)):
        i = rows[k]
        step = change[k] * scale[i]
        for e in range(start[i], start[i] + length[i]):
            weights[pool[e]] += step
