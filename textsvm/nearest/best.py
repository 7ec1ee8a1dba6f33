"""The k nearest of each text, of pairs that come in any order."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.kernels.near import Pairs
from textsvm.runtime.compiled import njit


class Best:
    """The k largest values of each text so far; of equal ones, those of the first texts.

    Parameters
    ----------
    n, k : int
    least : float32
        A value below this is none.
    """

    def __init__(self, n: int, k: int, least: np.float32) -> None:
        self.values = np.full((n, k), -np.inf, np.float32)
        self.index = np.full((n, k), -1, np.int64)
        self.distances = np.full((n, k), -1, np.int32)
        self._least = least

    @property
    def bound(self) -> NDArray[np.float32]:
        """What a value must reach to count, shape (n,)."""
        return np.maximum(self.values[:, -1], self._least)

    def offer(self, rows: NDArray[np.int64], columns: NDArray[np.int64], pairs: Pairs) -> None:
        """Take what is better of pairs, `columns` being neighbours of `rows`."""
        distances = np.full(len(pairs), -1, np.int32) if pairs.distances is None else pairs.distances
        _insert(self.values, self.index, self.distances, rows, columns, pairs.values, distances)

    def pairs(self, block: slice, distances: bool) -> Pairs:
        """Those of some texts, the nearest first."""
        at, place = np.nonzero(self.index[block] >= 0)
        at += block.start
        found = self.distances[at, place] if distances else None
        return Pairs(at, self.index[at, place], self.values[at, place], found)


@njit(nogil=True, cache=True)
def _insert(
    values: Any, index: Any, distances: Any, rows: Any, columns: Any, new: Any, new_distances: Any
) -> None:
    k = values.shape[1]
    for m in range(len(rows)):
        i, value, j = rows[m], new[m], columns[m]
        place = k
        while place > 0 and (
            index[i, place - 1] < 0
            or value > values[i, place - 1]
            or (value == values[i, place - 1] and j < index[i, place - 1])
        ):
            place -= 1
        if place < k:
            for p in range(k - 1, place, -1):
                values[i, p], index[i, p] = values[i, p - 1], index[i, p - 1]
                distances[i, p] = distances[i, p - 1]
            values[i, place], index[i, place], distances[i, place] = value, j, new_distances[m]
