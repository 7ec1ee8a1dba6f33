"""Which pairs can be within a distance of each other, from their lengths and from counts of their symbols.

One edit changes the length by at most 1, the counts of two symbols by at most 1, and which pairs of
neighbouring symbols there are, and how often, in at most four ways, two going and two coming; so

    d(s, t) >= | |s| - |t| |
    2 d(s, t) >= | |s| - |t| | + sum_c |n_c(s) - n_c(t)|
    4 d(s, t) >= sum_c |m_c(s) - m_c(t)|

where n_c counts the symbols of class c (the bag distance of Bartolini, Ciaccia and Patella 2002) and m_c the
pairs of class c (the q-grams of Ukkonen 1992); classes only lower the bounds. Frequent symbols have classes
of their own and rare ones share: 32 counters of a byte, 32 columns side by side, a few vector instructions
for each class. A count m_c is as many bits, somewhere among ten for each symbol of a text, so that the sum is
at least the number of bits that differ; it is looked at where the symbols rule nothing out.

    counts    uint8, (groups, CLASSES, LANES)   of columns in the order of length; full counters stay at 255
    bits      uint64, (n, words)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.compiled import njit
from textsvm.documents import Documents
from textsvm.kernels.edit_strips import LANES, popcount

CLASSES = 32
FULL = 255
#: Bits for each symbol of a text of mean length, and words at most.
BITS, WORDS = 10, 64
#: Classes of pairs, 2^12.
PAIRS = 4096
_FIRST, _SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)


def classes_of(sets: Sequence[Documents]) -> NDArray[np.uint8]:
    """The class of every symbol: the most frequent have one of their own, the others share the rest."""
    frequencies = np.zeros(max(1, *(len(one.alphabet) for one in sets)), np.int64)
    for one in sets:
        frequencies += np.bincount(one.codes, minlength=len(frequencies))
    order = np.argsort(-frequencies, kind="stable")
    found = np.empty(len(frequencies), np.uint8)
    alone = CLASSES if len(order) <= CLASSES else CLASSES // 2 + CLASSES // 4
    found[order[:alone]] = np.arange(min(alone, len(order)))
    rest = order[alone:]
    found[rest] = alone + np.arange(len(rest)) % max(1, CLASSES - alone)
    return found


def counts_of(documents: Documents, codes: NDArray[Any], classes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """How many symbols of each class each document has, at most 255, shape (n, CLASSES)."""
    out = np.zeros((len(documents), CLASSES), np.uint8)
    _count(codes, np.array(documents.offsets), classes, out)
    return out


def bits_of(documents: Documents, codes: NDArray[Any], mean: float) -> NDArray[np.uint64]:
    """Which classes of pairs each document has, shape (n, words), for texts of this mean length."""
    words = 1 << int(np.ceil(np.log2(max(1.0, BITS * mean / 64))))
    out = np.zeros((len(documents), min(WORDS, words)), np.uint64)
    _set_bits(codes, np.array(documents.offsets), out)
    return out


def side_by_side(counts: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Counts of documents as those of columns; those of missing lanes are 0."""
    groups = -(-len(counts) // LANES)
    padded = np.zeros((groups * LANES, CLASSES), np.uint8)
    padded[: len(counts)] = counts
    return np.ascontiguousarray(padded.reshape(groups, LANES, CLASSES).transpose(0, 2, 1))


@njit(nogil=True, cache=True)
def _count(codes: Any, offsets: Any, classes: Any, out: Any) -> None:
    for i in range(len(out)):
        for k in range(offsets[i], offsets[i + 1]):
            c = classes[codes[k]]
            if out[i, c] < FULL:
                out[i, c] += np.uint8(1)


@njit(nogil=True, cache=True)
def _set_bits(codes: Any, offsets: Any, out: Any) -> None:
    mask = np.uint64(64 * out.shape[1] - 1)
    times = np.zeros(PAIRS, np.uint64)
    for i in range(len(out)):
        for k in range(offsets[i], offsets[i + 1] - 1):
            c = _class(codes[k], codes[k + 1])
            bit = ((c * _FIRST + times[c] * _SECOND) >> np.uint64(32)) & mask
            times[c] += np.uint64(1)
            out[i, bit >> np.uint64(6)] |= np.uint64(1) << (bit & np.uint64(63))
        for k in range(offsets[i], offsets[i + 1] - 1):
            times[_class(codes[k], codes[k + 1])] = 0


@njit(inline="always")
def _class(a: Any, b: Any) -> Any:
    return (np.uint64(a) * _FIRST + np.uint64(b) * _SECOND) >> np.uint64(64 - 12)


@njit(inline="always")
def pairs_apart(a: Any, b: Any) -> Any:
    """How many bits differ."""
    found = 0
    for w in range(len(a)):
        found += popcount(a[w] ^ b[w])
    return found


@njit(inline="always")
def _apart(a: Any, b: Any) -> Any:
    return np.uint16(max(a, b) - min(a, b))


@njit(nogil=True, cache=True)
def differences(row: Any, columns: Any, out: Any) -> None:
    """sum_c |n_c(row) - n_c(column)| of a group of columns: out uint16, shape (LANES,)."""
    out[:] = 0
    for c in range(0, CLASSES, 8):
        for i in range(LANES):
            # Eight at a time: the sums stay in a register that long.
            out[i] += (
                _apart(row[c], columns[c, i])
                + _apart(row[c + 1], columns[c + 1, i])
                + _apart(row[c + 2], columns[c + 2, i])
                + _apart(row[c + 3], columns[c + 3, i])
                + _apart(row[c + 4], columns[c + 4, i])
                + _apart(row[c + 5], columns[c + 5, i])
                + _apart(row[c + 6], columns[c + 6, i])
                + _apart(row[c + 7], columns[c + 7, i])
            )
