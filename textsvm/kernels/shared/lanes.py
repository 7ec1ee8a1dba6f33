"""Documents side by side in the lanes of a vector, for recurrences over pairs of documents on a CPU."""

from __future__ import annotations

import numpy as np

from textsvm.arrays import Ints, UnsignedInts, runs_of
from textsvm.runtime.compiled import njit
from textsvm.runtime.simd import LANES
from textsvm.text.documents import Documents

#: Symbols of row documents, and of interleaved columns, per piece of work (about 0.2 s).
PIECE = 12_800


#: Selected documents: codes, offsets, indices.
Picked = tuple[UnsignedInts, Ints, Ints]


def in_lanes(documents: Documents) -> tuple[Ints, Ints]:
    """Documents by length, LANES per row (-1: none), and the largest length of each row."""
    order = np.argsort(documents.lengths, kind="stable")
    lanes = np.full((-(-len(order) // LANES), LANES), -1, np.int64)
    lanes.ravel()[: len(order)] = order
    last = np.minimum(np.arange(1, len(lanes) + 1) * LANES, len(order)) - 1
    return lanes, documents.lengths[order[last]]


def cut(sizes: Ints, budget: int) -> list[slice]:
    """Split consecutive sizes into runs of about `budget`; sizes count as at least 64, for their sums."""
    turns = np.cumsum(np.maximum(sizes, 64)) // budget
    return [slice(a, b) for a, b in runs_of(turns)]


@njit(nogil=True, cache=True)
def interleave(codes, offsets, lanes, ended, symbols):
    """symbols[i * LANES + lane] = symbol i of the lane's document, then `ended`; return the largest
    length.
    """
    longest = 0
    for document in lanes:
        if document >= 0:
            longest = max(longest, offsets[document + 1] - offsets[document])
    symbols[: longest * LANES] = ended
    for lane in range(LANES):
        if lanes[lane] >= 0:
            start = offsets[lanes[lane]]
            for i in range(offsets[lanes[lane] + 1] - start):
                symbols[i * LANES + lane] = codes[start + i]
    return longest
