"""Stretches of symbols, such as words: where they stand in documents, and which of them are equal. Exact:
equal hashes are compared symbol by symbol."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.runtime.compiled import few, njit
from textsvm.runtime.parallel import run
from textsvm.text.tokens import ALONE, WITHIN

Array = NDArray[Any]

#: Distinct spans that there is room for at first.
FEW = 1 << 10
#: Symbols of documents that are one piece of work.
PIECE = 1 << 20


@dataclass(frozen=True)
class Stretches:
    """Stretches of the codes of some documents.

    Attributes
    ----------
    starts, stops : int64 arrays, shape (number of distinct ones,)
        Where each distinct one stands first: ``codes[starts[k]:stops[k]]``.
    numbers : uint32 array, shape (number of stretches,)
        Which of the distinct ones each is.
    lengths : int64 array, shape (n,)
        Number of stretches of each document.
    """

    starts: NDArray[np.int64]
    stops: NDArray[np.int64]
    numbers: NDArray[np.uint32]
    lengths: NDArray[np.int64]


def find_words(codes: Array, offsets: NDArray[np.int64], kinds: NDArray[np.uint8]) -> list[Stretches]:
    """The words of documents, on all cores: of some documents after the other, each numbered anew.

    Parameters
    ----------
    codes : unsigned integer array, shape (total number of symbols,)
    offsets : int64 array, shape (n + 1,)
    kinds : uint8 array, shape (number of symbols of the alphabet,)
        As `textsvm.text.tokens.kinds` makes them.
    """
    bounds = _pieces(offsets)
    pieces: list[Any] = [None] * (len(bounds) - 1)

    def find(k: int) -> None:
        starts, stops, lengths = _find(codes, offsets[bounds[k] : bounds[k + 1] + 1], kinds)
        numbers, firsts = distinct(codes, starts, stops)
        pieces[k] = Stretches(starts[firsts], stops[firsts], numbers, lengths)

    run(find, range(len(pieces)))
    return pieces


def translate(numbers: Sequence[NDArray[np.uint32]], code_of: Sequence[Array], dtype: Any) -> Array:
    """Arrays of numbers, one behind the other, with the code of each number: its own for each array."""
    ends = np.cumsum([len(one) for one in numbers])
    if few(int(ends[-1])):
        found = [own.astype(dtype)[one] for one, own in zip(numbers, code_of, strict=True)]
        return np.concatenate([np.empty(0, dtype), *found])
    codes = np.empty(ends[-1], dtype)

    def write(k: int) -> None:
        _translate(numbers[k], code_of[k].astype(dtype), codes[ends[k] - len(numbers[k]) : ends[k]])

    run(write, range(len(numbers)))
    return codes


def distinct(
    codes: Array, starts: NDArray[np.int64], stops: NDArray[np.int64]
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Number spans in order of first occurrence: the number of each, and the first of each number."""
    if few(len(starts) + len(codes)):
        number: dict[bytes, int] = {}
        bounds = zip(starts.tolist(), stops.tolist(), strict=True)
        known = [number.setdefault(codes[a:b].tobytes(), len(number)) for a, b in bounds]
        return np.array(known, np.uint32), np.unique(np.array(known, np.int64), return_index=True)[1]
    ids, size = np.empty(len(starts), np.uint32), FEW
    firsts, keys, done, found = np.empty(0, np.int64), np.empty(0, np.uint64), 0, 0
    while done < len(ids):
        firsts, keys = np.resize(firsts, size), np.resize(keys, size)
        slots = _spread(keys[:found], 2 * size)
        done, found = _fill(codes, starts, stops, done, ids, firsts, keys, slots, found)
        size *= 4
    return ids, firsts[:found]


def _pieces(offsets: NDArray[np.int64]) -> list[int]:
    """Documents that pieces of work begin with, and their number."""
    steps = np.arange(0, max(1, offsets[-1]), PIECE)
    return [*np.unique(np.searchsorted(offsets[:-1], steps)).tolist(), len(offsets) - 1]


def _find(codes: Array, offsets: NDArray[np.int64], kinds: NDArray[np.uint8]) -> tuple[Array, Array, Array]:
    starts, stops = np.empty((2, offsets[-1] - offsets[0] + 1), np.int64)
    lengths = np.empty(len(offsets) - 1, np.int64)
    if few(len(starts)):
        return _find_few(kinds[codes[offsets[0] : offsets[-1]]], offsets, lengths)
    n = _find_words(codes, offsets, kinds, starts, stops, lengths)
    return starts[:n], stops[:n], lengths


def _find_few(
    kinds: NDArray[np.uint8], offsets: NDArray[np.int64], lengths: NDArray[np.int64]
) -> tuple[Array, Array, Array]:
    within, alone, first = kinds == WITHIN, kinds == ALONE, np.zeros(len(kinds) + 1, bool)
    first[offsets - offsets[0]] = True
    before = np.concatenate([[False], within[:-1]]) & ~first[:-1] if len(kinds) else within
    after = np.concatenate([within[1:], [False]]) & ~first[1:] if len(kinds) else within
    starts = np.flatnonzero(alone | (within & ~before)) + offsets[0]
    stops = np.flatnonzero(alone | (within & ~after)) + 1 + offsets[0]
    lengths[:] = np.diff(np.searchsorted(starts, offsets))
    return starts, stops, lengths


@njit(nogil=True, cache=True)
def _find_words(codes, offsets, kinds, starts, stops, lengths):
    begun = ended = 0
    for i in range(len(offsets) - 1):
        before, inside = ended, False
        for j in range(offsets[i], offsets[i + 1]):
            # Without branches, which a processor cannot foresee where words are as short as they are.
            within, alone = kinds[codes[j]] == WITHIN, kinds[codes[j]] == ALONE
            starts[begun] = j
            begun += alone or (within and not inside)
            stops[ended] = j
            ended += inside and not within
            stops[ended] = j + 1
            ended += alone
            inside = within
        stops[ended] = offsets[i + 1]
        ended += inside
        lengths[i] = ended - before
    return ended


@njit(nogil=True, cache=True)
def _spread(keys, size):
    """Slots with the numbers of these keys."""
    slots = np.zeros(size, np.uint32)
    for k in range(len(keys)):
        at = _slot(keys[k], size)
        while slots[at]:
            at = (at + 1) & (size - 1)
        slots[at] = k + 1
    return slots


@njit(nogil=True, cache=True)
def _slot(key, size):
    key *= np.uint64(0x9E3779B97F4A7C15)
    return np.int64((key ^ (key >> np.uint64(32))) & np.uint64(size - 1))


@njit(nogil=True, cache=True)
def _fill(codes, starts, stops, begin, ids, firsts, keys, slots, found):
    """Number spans until half the slots are taken: the first that has none yet, and how many numbers.

    The key of a short span is the span itself, behind a bit that says its length; that of a long one, a hash.
    """
    last, bits = len(slots) - 1, np.uint64(8 * codes.itemsize)
    for i in range(begin, len(starts)):
        start, size = starts[i], stops[i] - starts[i]
        short, key = size * codes.itemsize < 8, np.uint64(1)
        if short:
            for j in range(start, start + size):
                key = key << bits | np.uint64(codes[j])
        else:
            for j in range(start, start + size):
                key = (key ^ np.uint64(codes[j])) * np.uint64(0x9E3779B97F4A7C15)
                key ^= key >> np.uint64(29)
            key |= np.uint64(1 << 63)
        at = _slot(key, len(slots))
        while slots[at]:
            if keys[slots[at] - 1] == key:
                k = firsts[slots[at] - 1]
                if short or (stops[k] - starts[k] == size and _equal(codes, starts[k], start, size)):
                    break
            at = (at + 1) & last
        if not slots[at]:
            if found == len(firsts):
                return i, found
            firsts[found], keys[found] = i, key
            found += 1
            slots[at] = found
        ids[i] = slots[at] - 1
    return len(starts), found


@njit(nogil=True, cache=True)
def _translate(numbers, code_of, out):
    for j in range(len(numbers)):
        out[j] = code_of[numbers[j]]


@njit(nogil=True, cache=True)
def _equal(codes, first, second, size):
    j = 0
    while j < size and codes[first + j] == codes[second + j]:
        j += 1
    return j == size
