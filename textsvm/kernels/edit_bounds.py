"""Which pairs can be within a distance of each other, from their lengths and from counts of their symbols.

One edit changes the length by at most 1, and the counts of symbols in two places by at most 1, so

    d(s, t) >= | |s| - |t| |    and    2 d(s, t) >= || |s| - |t| | + sum_c |n_c(s) - n_c(t)|

where n_c counts the symbols of class c (Bartolini, Ciaccia and Patella 2002: the bag distance; classes of
symbols only lower it). The frequent symbols have classes of their own and the rare ones share: 32 counters of a byte, 32
columns side by side, which is one vector instruction or two for each class.

    counts    uint8, (groups, CLASSES, LANES)   of the columns in the order of length; full counters stay at 255
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from textsvm.documents import Documents
from textsvm.kernels.edit_strips import LANES

CLASSES = 32
FULL = 255


def classes_of(frequencies: NDArray[np.int64]) -> NDArray[np.uint8]:
    """The class of every symbol: the most frequent have one of their own, the others go where least is."""
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
