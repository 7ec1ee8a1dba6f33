"""Exact ids of strings, in stages.

Ids are ranks, never hashes. A key consists of the id of the preceding symbols and of as many further symbols
as fit a word. The id of a string is the rank of its key among the distinct keys of the documents. Remaining
symbols extend that id in further stages, so neither the number of symbols nor the alphabet is limited. The
distinct keys of the stages find strings of other documents.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from textsvm.arrays import Array, Ints, Ints32, Words
from textsvm.kernels.shared.counting import rank
from textsvm.runtime.compiled import njit
from textsvm.runtime.device import array_module, device_of
from textsvm.runtime.memory import empty
from textsvm.runtime.parallel import run

PIECE = 1 << 18  #: Keys per piece of work.


@dataclass(frozen=True)
class Stage:
    """Kept positions that extend the ids of the previous stage to keys."""

    positions: Ints
    keys: Array  #: uint64, shape (number of ids,): The distinct keys, sorted; the id is the rank
    #: int32 or None: The id of every possible key, -1 if it does not occur; None if there are too many.
    ranks: Array

    def find(self, keys: Array) -> Array:
        """Id of every key, -1 for unknown keys and for -1; NumPy or CuPy."""
        xp = array_module(device_of(keys))
        if not len(self.keys):
            return xp.full(len(keys), -1, np.int64)
        valid_keys = xp.maximum(keys, 0)
        if self.ranks is not None:
            return xp.where(keys >= 0, self.ranks[valid_keys], -1)
        place = xp.minimum(xp.searchsorted(self.keys, valid_keys.astype(np.uint64)), len(self.keys) - 1)
        return xp.where((keys >= 0) & (self.keys[place].astype(np.int64) == keys), place, -1)


@dataclass(frozen=True)
class StagedIds:
    """Ids of strings over an alphabet; the arrays of the stages are all NumPy or all CuPy."""

    n_symbols: int
    stages: tuple[Stage, ...]

    @property
    def size(self) -> int:
        return len(self.stages[-1].keys)

    def strings(self) -> list[Array]:
        """Codes of the symbols of all strings: an int64 array for each symbol, shape (size,)."""
        stages, base = self.stages, max(self.n_symbols, 1)
        keys, symbols = stages[-1].keys.astype(np.int64), []
        for number in range(len(stages) - 1, -1, -1):
            for _ in stages[number].positions:
                symbols.append(keys % base)
                keys = keys // base
            keys = stages[number - 1].keys.astype(np.int64)[keys] if number else keys
        return symbols[::-1]


def ranked(keys: Ints, bound: int, most: int) -> tuple[Words, Ints32, Ints32 | None]:
    """Sorted distinct keys, the rank of each key, and the ranks of all possible keys if these are tabulated.

    Keys are below `bound`. Ranks are tabulated if there are at most `most` possible keys.
    """
    if bound > most:
        return (*rank(keys.view(np.uint64), bound), None)
    seen, ranks = np.zeros(bound, bool), empty(len(keys), np.int32)
    slices = [slice(first, first + PIECE) for first in range(0, len(keys), PIECE)]
    run(lambda piece: _mark(keys[piece], seen), slices)
    table = np.where(seen, np.cumsum(seen, dtype=np.int32) - np.int32(1), np.int32(-1))
    run(lambda piece: np.take(table, keys[piece], out=ranks[piece], mode="clip"), slices)
    return np.flatnonzero(seen).astype(np.uint64), ranks, table


@njit(nogil=True, cache=True)
def _mark(keys, seen):
    for key in keys:
        seen[key] = True
