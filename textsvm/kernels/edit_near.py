"""Pairs of strings within an edit distance, on the CPU: bounds first, then the distances of what is left.

    exp(-gamma d) >= v    <=>    d <= -log(v) / gamma = rate        with `relative`: d <= rate max(|s|, |t|)

so every pair has a largest distance. Columns stand in the order of length, 32 side by side; a row skips the
groups that are too short or too long, the bag distance (edit_bounds.py) rules out most of the others, and the
few pairs that remain are computed one by one, no further than their largest distance (edit_cutoff.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from textsvm.compiled import njit
from textsvm.documents import Documents
from textsvm.kernels.edit_bounds import (
    bits_of,
    classes_of,
    counts_of,
    differences,
    pairs_apart,
    side_by_side,
)
from textsvm.kernels.edit_cutoff import add_masks, bounded_distance, remove_masks
from textsvm.kernels.edit_strips import LANES
from textsvm.kernels.near import Bound, Pairs
from textsvm.parallel import run

#: What a list of pairs is made from and goes to on a GPU: six addresses and two numbers (edit_cuda.py).
NEAR_FIELDS = (
    "row_rates", "column_rates", "row_counts", "column_counts", "found", "n_found", "capacity", "most",
)  # fmt: skip
#: Rows that a thread takes at a time.
ROWS = 64
#: Values that a little less is asked for, so that rounding loses none; what comes is asked again.
SLACK = 1e-6


class EditKernel(Protocol):
    """What is read of the kernel, `textsvm.EditDistance`."""

    gamma: float
    relative: bool


def rates(least: NDArray[np.float32], gamma: float) -> NDArray[np.float64]:
    """Largest distances of values that are at least these, or, relative, what they are for length 1."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found = -np.log(np.maximum(least.astype(np.float64), 0) * (1 - SLACK)) / gamma
    return np.where(least > 0, found, np.inf)


@dataclass(frozen=True)
class _Strings:
    """Strings as the bounds and the distances read them."""

    codes: NDArray[Any]
    offsets: NDArray[np.int64]
    counts: NDArray[np.uint8]
    bits: NDArray[np.uint64]

    @property
    def lengths(self) -> NDArray[np.int64]:
        return np.diff(self.offsets)


@dataclass(frozen=True)
class _Columns:
    """A block of columns in the order of length, in groups."""

    strings: _Strings
    block: slice

    @cached_property
    def order(self) -> NDArray[np.int64]:
        """Which of all columns."""
        lengths = self.strings.lengths[self.block]
        return self.block.start + np.argsort(lengths, kind="stable")

    @cached_property
    def counts(self) -> NDArray[np.uint8]:
        return side_by_side(self.strings.counts[self.order])


class HostEditNear:
    """Pairs of one set of strings, or of two (`Near`)."""

    def __init__(self, kernel: EditKernel, documents: Documents, others: Documents | None) -> None:
        self.kernel, self.own = kernel, others is None
        sets = [documents] if others is None else [documents, others]
        self.alphabet, classes = max(1, *(len(one.alphabet) for one in sets)), classes_of(sets)
        mean = sum(len(one.codes) for one in sets) / max(1, sum(map(len, sets)))
        made = [self._strings(one, sets, classes, mean) for one in sets]
        self.documents, self.others = made[0], made[-1]
        self._columns: dict[int, _Columns] = {}

    def _strings(
        self, documents: Documents, sets: list[Documents], classes: NDArray[np.uint8], mean: float
    ) -> _Strings:
        codes, offsets = documents.codes_for(*sets), np.array(documents.offsets)
        return _Strings(codes, offsets, counts_of(documents, codes, classes), bits_of(documents, codes, mean))

    def pairs(self, rows: slice, columns: slice, bound: Bound) -> Pairs:
        """See `Near`."""
        same = self.own and rows == columns
        if columns.start not in self._columns:
            self._columns[columns.start] = _Columns(self.documents, columns)
        prepared = self._columns[columns.start]
        picks = prepared.order if same else np.arange(rows.start, rows.stop)
        row, column, distances = self._within(picks, rows.start, prepared, bound, same)
        values = values_of(self.kernel, distances, self.others.lengths[row], self.documents.lengths[column])
        enough = values >= np.minimum(bound.rows[row - rows.start], bound.columns[column - columns.start])
        if same:
            row, column = np.minimum(row, column), np.maximum(row, column)
        return Pairs(row, column, values, distances).take(enough)

    def _within(
        self, picks: NDArray[np.int64], first: int, columns: _Columns, bound: Bound, same: bool
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]:
        """Rows, columns and distances of the pairs whose distance is not too large."""
        gamma, groups = self.kernel.gamma, len(columns.counts)
        row_rates = rates(bound.rows, gamma)[picks - first]
        column_rates = np.zeros(groups * LANES)
        column_rates[: len(columns.order)] = rates(bound.columns, gamma)[columns.order - columns.block.start]
        found = np.zeros((len(picks), groups), np.uint32)
        distances = np.empty((len(picks), groups * LANES), np.int32)
        most = np.iinfo(np.int32).max if bound.within is None else bound.within
        rows, strings = self.others, columns.strings

        def some(start: int) -> None:
            part = slice(start, min(start + ROWS, len(picks)))
            _near_rows(
                rows.codes, rows.offsets, rows.counts, rows.bits, picks[part], row_rates[part],
                strings.codes, strings.offsets, strings.bits, columns.order, columns.counts, column_rates,
                bool(self.kernel.relative), most, start if same else -1, self.alphabet,
                found[part], distances[part],
            )  # fmt: skip

        run(some, range(0, len(picks), ROWS))
        row, group = np.nonzero(found)
        lanes = (found[row, group, None] >> np.arange(LANES, dtype=np.uint32)) & 1
        which, lane = np.nonzero(lanes)
        row, place = row[which], group[which] * LANES + lane
        return picks[row], columns.order[place], distances[row, place]


def values_of(
    kernel: EditKernel,
    distances: NDArray[np.int32],
    row_lengths: NDArray[np.int64],
    column_lengths: NDArray[np.int64],
) -> NDArray[np.float32]:
    """Kernel values of pairs, all of shape (m,): what `textsvm.EditDistance.values` makes of a matrix."""
    longer = np.maximum(np.maximum(row_lengths, column_lengths), 1) if kernel.relative else 1
    found: NDArray[np.float32] = np.exp(-kernel.gamma * (distances / longer)).astype(np.float32)
    return found


@njit(inline="always")
def _most(rate: float, longer: int, relative: bool, most: int) -> int:
    """The largest distance of a pair."""
    scaled = rate * max(longer, 1) if relative else rate
    return min(most, longer if scaled >= longer else int(np.floor(scaled)))


@njit(nogil=True, cache=True)
def _near_rows(
    row_codes: Any, row_offsets: Any, row_counts: Any, row_bits: Any, picks: Any, row_rates: Any,
    codes: Any, offsets: Any, bits: Any, order: Any, counts: Any, column_rates: Any,
    relative: bool, most: int, place: int, alphabet: int, found: Any, distances: Any,
) -> None:  # fmt: skip
    """Set the bits in `found` of pairs within their largest distances, and the distances of these.

    place: where the first row is among the columns, if they are the same strings; else -1.
    """
    longest = 0
    for i in range(len(picks)):
        longest = max(longest, row_offsets[picks[i] + 1] - row_offsets[picks[i]])
    slots = np.zeros(alphabet, np.int32)
    masks = np.zeros((min(alphabet, longest) + 1, longest // 64 + 3), np.uint64)
    state = np.empty((2, longest // 64 + 1), np.uint64)
    apart = np.empty(LANES, np.uint16)
    groups = len(counts)
    lengths = np.empty(groups * LANES, np.int32)
    lengths[:] = 0
    steepest = np.zeros(groups)
    for c in range(len(order)):
        lengths[c] = offsets[order[c] + 1] - offsets[order[c]]
        steepest[c // LANES] = max(steepest[c // LANES], column_rates[c])
    for i in range(len(picks)):
        text = row_codes[row_offsets[picks[i]] : row_offsets[picks[i] + 1]]
        length = len(text)
        built = False
        for g in range((place + i) // LANES if place >= 0 else 0, groups):
            low = lengths[g * LANES]
            high = lengths[min(g * LANES + LANES, len(order)) - 1]
            limit = _most(max(row_rates[i], steepest[g]), max(length, high), relative, most)
            if length - high > limit or low - length > limit:
                continue
            differences(row_counts[picks[i]], counts[g], apart)
            least = apart[0]
            for lane in range(1, LANES):
                least = min(least, apart[lane])
            if least > 2 * limit:
                continue
            lanes = np.uint32(0)
            for lane in range(LANES):
                c = g * LANES + lane
                if c >= len(order) or (place >= 0 and c <= place + i):
                    continue
                longer = max(length, lengths[c])
                limit = _most(max(row_rates[i], column_rates[c]), longer, relative, most)
                if apart[lane] + abs(length - lengths[c]) > 2 * limit:
                    continue
                if pairs_apart(row_bits[picks[i]], bits[order[c]]) > 4 * limit:
                    continue
                if not built:
                    add_masks(text, masks, slots)
                    built = True
                other = codes[offsets[order[c]] : offsets[order[c] + 1]]
                distance = bounded_distance(masks, slots, length, other, limit, state)
                if distance <= limit:
                    distances[i, c] = distance
                    lanes |= np.uint32(1) << np.uint32(lane)
            found[i, g] = lanes
        if built:
            remove_masks(text, masks, slots)
