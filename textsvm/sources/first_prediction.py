"""Predicted cost of the first prediction of a process, on two cores, from the sizes of a model.

Constants are fitted to reports/first_prediction.md, for kernels that count substrings or words.
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

from textsvm.kernels.shared.counting import PASSES
from textsvm.runtime.compiled import NUMPY_SIZE

#: Seconds and bytes of Python and NumPy, and of Numba, which is imported for much work.
LIBRARIES, NUMBA = (0.25, 68 << 20), (0.35, 75 << 20)
#: Seconds to count an occurrence by NumPy and by compiled functions: in training texts, and in a new text.
COUNT, NEW = (1.2e-7, 8e-9), (5e-8, 3e-8)
#: Seconds to store an entry, likewise, and to hash and map a byte of a file with an index.
STORE, READ = (0.0, 5e-8), 1.6e-9
#: Bytes of an entry in an index, or as weights, and for each machine; of an occurrence in a new text; of a
#: byte of a file that is mapped.
INDEXED, WEIGHED, MACHINE, NEW_BYTES, MAPPED = 17, 20, 1, 8, 1.3


def entries_of(occurrences: int) -> float:
    """Predicted number of distinct substrings of a text."""
    return min(0.7 * occurrences, 140 * sqrt(occurrences))


class FirstPrediction(NamedTuple):
    """Cost of the first prediction of a new process, with the imports, for a text with `new` occurrences."""

    seconds: float
    bytes: int  #: Of main memory, with the pages of a mapped file

    @classmethod
    def mapped(cls, size: int, new: int) -> FirstPrediction:
        """From a file of `size` bytes with an index."""
        return cls._of(READ * size, MAPPED * size, 0, new)

    @classmethod
    def counted(cls, size: int, vectors: int, new: int, machines: int) -> FirstPrediction:
        """By counting so many support vectors of equal length, with an index in memory if `machines` is 0."""
        used = WEIGHED + MACHINE * machines if machines else INDEXED
        return cls._of(0.0, size + used * vectors * entries_of(new), vectors, new, 4 if machines else 2)

    @classmethod
    def _of(cls, seconds: float, used: float, vectors: int, new: int, times: int = 2) -> FirstPrediction:
        compiled = times * PASSES * (vectors + 1) * new > NUMPY_SIZE
        for libraries in (LIBRARIES, NUMBA)[: 1 + compiled]:
            seconds, used = seconds + libraries[0], used + libraries[1]
        seconds += vectors * (COUNT[compiled] * new + STORE[compiled] * entries_of(new))
        seconds += NEW[compiled] * new
        return cls(seconds, round(used + NEW_BYTES * new))
