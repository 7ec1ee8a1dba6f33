"""CPU products of documents over the features of several masks at once.

For each mask the windows are sorted by id (counting sort), so each feature has a list of documents. Row i of
the Gram then passes over all masks of a group while it stays in the cache:

    sums_j += x_iu x_ju    for every feature u of i, and the documents j after i on the list of u
    total_ij += sums_j     rounded to float32 once per mask, as in `products.Half`

With weight "count" a list names a document as often as it has the feature, so no values are read: integers
add up exactly in float32 while a product is below 2^24. Other products, of two float32 values, are summed in
float64, exactly below 2^7 in any order. Cost: sum_u df_u^2 / 2 additions into a cached row, where df_u is the
length of the list of u, and n^2 / 2 to move the sums of a mask.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.kernels.mers.windows import Mask, MaskedWindows, Windows
from textsvm.linalg.products import DENSE_SHARE
from textsvm.runtime.compiled import njit
from textsvm.runtime.parallel import Progress, n_threads, run

Array = NDArray[Any]
#: Number of possible keys of a mask up to which keys are never ranked.
TABLE = 1 << 16
#: Bytes of the lists of a group of masks; upper bound for a group of one mask per core.
GROUP_BYTES, MOST_BYTES = 1 << 26, 1 << 30
#: Bytes of the lists of one mask, for each window.
WINDOW_BYTES = 20
#: Multiply-adds of a tile product in the time of one addition from a list.
TILE_RATE = 20.0
#: Rows per piece of work, and positions whose keys are computed together.
ROWS, POSITIONS = 32, 4096


@dataclass(frozen=True)
class MaskLists:
    """Document lists of the features of some masks; arrays have one row per mask.

    ids, places : int32, (masks, windows), feature of each window, and the position after its document on the
        list; 0 if the document was named before
    starts : int32, (masks, features + 1), feature u has ``documents[starts[u]:starts[u + 1]]``, ascending
    documents, values : unsigned and float32, (masks, windows); width 0 if all values are 1
    squares : float64, (masks, n), |x|^2
    """

    ids: NDArray[np.int32]
    places: NDArray[np.int32]
    starts: NDArray[np.int32]
    documents: NDArray[np.unsignedinteger]
    values: NDArray[np.float32]
    squares: NDArray[np.float64]

    @classmethod
    def of(
        cls, windows: Windows, masks: Sequence[Mask], values: NDArray[np.float32], repeat: bool
    ) -> MaskLists:
        """Lists of documents, with the feature values of 0, 1, 2, ... occurrences.

        With `repeat`, lists name a document once per occurrence instead of storing values.
        """
        ids: list[Any] = [None] * len(masks)
        run(lambda at: ids.__setitem__(at, ids_of(windows, masks[at])), range(len(masks)))
        size, n = max(size for _, size in ids), len(windows.indptr) - 1
        shape, kind = (len(masks), len(windows.starts)), np.uint16 if n <= 1 << 16 else np.uint32
        width = 0 if repeat or bool(np.all(values[1:] == 1)) else shape[1]
        lists = cls(
            np.empty(shape, np.int32),
            np.empty(shape, np.int32),
            np.zeros((len(masks), size + 1), np.int32),
            np.empty(shape, kind),
            np.empty((len(masks), width), np.float32),
            np.zeros((len(masks), n)),
        )

        def fill(at: int) -> None:
            lists.ids[at] = ids[at][0]
            of_mask: list[Any] = [windows.indptr, values, repeat, *(array[at] for array in lists.arrays)]
            _sort(*of_mask)

        run(fill, range(len(masks)))
        return lists

    @property
    def arrays(self) -> tuple[Array, ...]:
        return self.ids, self.places, self.starts, self.documents, self.values, self.squares

    def add_to(
        self, total: NDArray[np.float32], indptr: NDArray[np.int64], progress: Progress | None = None
    ) -> None:
        """total[i, j] += <x[i], x[j]> for j > i, mask by mask; `indptr` of the windows."""
        n = len(total)
        whole = self.values.shape[1] == 0 and int(np.diff(indptr).max(initial=0)) < 1 << 12
        kind = np.float32 if whole else np.float64

        def add(piece: tuple[int, int]) -> None:
            given: list[Any] = [*piece, indptr, *self.arrays[:-1], np.zeros(n, kind), total]
            _add(*given)

        pieces = [(first, min(first + ROWS, n)) for first in range(0, n, ROWS)]
        run(add, pieces, [float(n - first) for first, _ in pieces], progress)


def groups(windows: Windows, masks: Sequence[Mask]) -> Iterator[tuple[Mask, ...]]:
    """Consecutive masks that are processed together, all with the same `times`."""
    each = WINDOW_BYTES * len(windows.starts) + 1
    size = max(1, GROUP_BYTES // each, min(n_threads(), MOST_BYTES // each))
    first = 0
    while first < len(masks):
        last = min(first + size, len(masks))
        while masks[last - 1].times != masks[first].times:
            last -= 1
        yield tuple(masks[first:last])
        first = last


def lists_pay(windows: Windows, mask: Mask) -> bool:
    """Whether lists are faster than tile products of the columns that many documents hold."""
    ids, size = ids_of(windows, mask)
    df = np.bincount(ids, minlength=size).astype(float)
    n = len(windows.indptr) - 1
    full = df[df > DENSE_SHARE * n]
    return float(full @ full) <= n * n * len(full) / TILE_RATE


def ids_of(windows: Windows, mask: Mask) -> tuple[NDArray[np.int32], int]:
    """Id of each window, ordered like the content under the mask, and a bound of the ids."""
    bound = max(windows.n_symbols, 1) ** len(mask.kept)
    if bound > max(TABLE, len(windows.starts)) or bound > np.iinfo(np.int32).max:
        vocabulary, ids = MaskedWindows.learn(windows, mask)
        return ids, vocabulary.size
    ids = np.empty(len(windows.starts), np.int32)
    _keys(windows.codes, windows.starts, np.array(mask.kept), windows.n_symbols, ids)
    return ids, bound


@njit(nogil=True, cache=True)
def _keys(codes, starts, kept, n_symbols, ids):
    keys = np.empty(POSITIONS, np.int32)
    end = len(codes) - kept[-1]
    w = 0
    while w < len(starts):
        # Keys of all positions of a block, without branches; positions without a window are skipped below.
        first = starts[w]
        size = min(POSITIONS, end - first)
        keys[:size] = 0
        for place in kept:
            for at in range(size):
                keys[at] = keys[at] * n_symbols + codes[first + place + at]
        while w < len(starts) and first <= starts[w] < first + size:
            ids[w] = keys[starts[w] - first]
            w += 1


@njit(nogil=True, cache=True)
def _sort(indptr, weight, repeat, ids, places, starts, documents, values, squares):
    last = np.full(len(starts), -1, np.int32)
    for i in range(len(indptr) - 1):
        for w in range(indptr[i], indptr[i + 1]):
            if repeat or last[ids[w]] != i:
                starts[ids[w] + 1] += 1
                last[ids[w]] = i
    for u in range(1, len(starts)):
        starts[u] += starts[u - 1]
    cursor, counts = starts[:-1].copy(), np.zeros(len(starts), np.int32)
    last[:] = -1
    for i in range(len(indptr) - 1):
        for w in range(indptr[i], indptr[i + 1]):
            u = ids[w]
            new = last[u] != i
            counts[u] = 1 if new else counts[u] + 1
            last[u] = i
            if new or repeat:
                documents[cursor[u]] = i
                cursor[u] += 1
            places[w] = cursor[u] if new or repeat else 0
            if len(values):
                values[cursor[u] - 1] = weight[counts[u]]
            now, before = np.float64(weight[counts[u]]), np.float64(weight[counts[u] - 1])
            squares[i] += now * now - before * before


@njit(nogil=True, cache=True)
def _add(first, last, indptr, ids, places, starts, documents, values, sums, total):
    plain, unit = values.shape[1] == 0, sums.dtype.type(1)
    for mask in range(len(starts)):  # its lists stay in the cache for all rows
        own, at_place, begins, listed = ids[mask], places[mask], starts[mask], documents[mask]
        listed_values = values[mask]
        for i in range(first, last):
            row = total[i]
            for w in range(indptr[i], indptr[i + 1]):
                place, end = at_place[w], begins[own[w] + 1]
                if plain and place:
                    for at in range(place, end):
                        sums[listed[at]] += unit
                elif place:
                    value = np.float64(listed_values[place - 1])
                    for at in range(place, end):
                        sums[listed[at]] += value * listed_values[at]
            for j in range(i, len(sums)):
                row[j] += np.float32(sums[j])
                sums[j] = 0
