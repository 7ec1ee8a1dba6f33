"""Pairs of strings within an edit distance, on the CPU: bounds, then the distances of the remaining pairs.

    exp(-gamma d) >= v    <=>    d <= -log(v) / gamma = rate        with `relative`: d <= rate max(|s|, |t|)

so every pair has a distance limit. Columns are sorted by length and grouped by 32. A row skips the groups
that are too short or too long, the lower bounds below exclude most of the other pairs, and the distances of
the remaining pairs are computed separately, each up to its limit.

**Lower bounds.** An edit changes the length by at most 1, the counts of two symbols by at most 1, and the
counts of pairs of adjacent symbols by at most 4 in total, so

    d(s, t) >= | |s| - |t| |
    2 d(s, t) >= | |s| - |t| | + sum_c |n_c(s) - n_c(t)|
    4 d(s, t) >= sum_c |m_c(s) - m_c(t)|

where n_c counts the symbols of class c (the bag distance of Bartolini, Ciaccia and Patella 2002) and m_c the
pairs of class c (the q-grams of Ukkonen 1992); merging symbols to classes only lowers the bounds. Frequent
symbols have classes of their own, rare symbols share: 32 byte counters for each of 32 columns side by side, a
few vector instructions per class. A count m_c sets m_c pseudo-random bits in a bit set of ten bits per
symbol, so the sum is at least the number of differing bits; pairs are compared only if symbols do not
exclude.

    counts    uint8, (groups, CLASSES, LANES)   of columns sorted by length; counters saturate at 255
    bits      uint64, (n, words)

**Limited distances.** Cells within the limit have |i - j| <= limit (Ukkonen 1985), so a column of the table
needs few words (kernel.py has the recurrence):

    a pattern of up to 64 symbols      a single word
    a limit of up to 31                a word that slides along the diagonal (Hyyrö 2003)
    else                               the words with such cells; values elsewhere may be too large

The masks of a pattern are set once for all texts that it is compared with:

    masks    uint64, (slots, words + 2)    slot 0: no symbol; two extra words, so that windows stay inside
    slots    int32, (alphabet,)            0 for symbols that are not in the pattern
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.arrays import AnyArray, Floats, Floats32, Ints, Ints32, Words
from textsvm.kernels.edit.cpu import LANES, compare_word
from textsvm.kernels.near import Bound, Pairs
from textsvm.runtime.compiled import njit, popcount
from textsvm.runtime.parallel import run
from textsvm.text.documents import Documents

#: Classes of symbols.
CLASSES = 32
#: Largest count of a class.
FULL = 255
#: Classes of pairs of symbols, 2^12.
PAIRS = 4096
#: Bits per symbol of a text of mean length.
BITS = 10
#: Largest number of words of bits.
WORDS = 64
#: Text symbols between checks whether any cell is within the limit.
LOOK = 32
#: Rows per piece of work.
ROWS = 64
#: Relative margin of value bounds against rounding; exact values are compared afterwards.
SLACK = 1e-6
#: Fields of the GPU's list of pairs: six addresses and two numbers (cuda.py).
NEAR_FIELDS = (
    "row_rates", "column_rates", "row_counts", "column_counts", "found", "n_found", "capacity", "most",
)  # fmt: skip
ONE, ALL, ZERO = np.uint64(1), np.uint64(2**64 - 1), np.uint64(0)
_FIRST, _SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)


def classes_of(sets: Sequence[Documents]) -> NDArray[np.uint8]:
    """Class of every symbol: frequent symbols have classes of their own, the others share."""
    frequencies = np.zeros(max(1, *(len(documents.alphabet) for documents in sets)), np.int64)
    for documents in sets:
        frequencies += np.bincount(documents.codes, minlength=len(frequencies))
    order = np.argsort(-frequencies, kind="stable")
    classes = np.empty(len(frequencies), np.uint8)
    alone = CLASSES if len(order) <= CLASSES else CLASSES // 2 + CLASSES // 4
    classes[order[:alone]] = np.arange(min(alone, len(order)))
    rest = order[alone:]
    classes[rest] = alone + np.arange(len(rest)) % max(1, CLASSES - alone)
    return classes


def counts_of(documents: Documents, codes: AnyArray, classes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Number of symbols of each class in each document, at most 255, shape (n, CLASSES)."""
    out = np.zeros((len(documents), CLASSES), np.uint8)
    _count(codes, np.array(documents.offsets), classes, out)
    return out


def bits_of(documents: Documents, codes: AnyArray, mean: float) -> Words:
    """Bit set of the pairs of symbols of each document, shape (n, words), sized for the mean length."""
    words = 1 << int(np.ceil(np.log2(max(1.0, BITS * mean / 64))))
    out = np.zeros((len(documents), min(WORDS, words)), np.uint64)
    _set_bits(codes, np.array(documents.offsets), out)
    return out


def side_by_side(counts: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Arrange counts in groups of 32 lanes; missing lanes are 0."""
    groups = -(-len(counts) // LANES)
    padded = np.zeros((groups * LANES, CLASSES), np.uint8)
    padded[: len(counts)] = counts
    return np.ascontiguousarray(padded.reshape(groups, LANES, CLASSES).transpose(0, 2, 1))


@njit(nogil=True, cache=True)
def _count(codes, offsets, classes, out):
    for i in range(len(out)):
        for k in range(offsets[i], offsets[i + 1]):
            c = classes[codes[k]]
            if out[i, c] < FULL:
                out[i, c] += np.uint8(1)


@njit(nogil=True, cache=True)
def _set_bits(codes, offsets, out):
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
def _class(a, b):
    return (np.uint64(a) * _FIRST + np.uint64(b) * _SECOND) >> np.uint64(64 - 12)


@njit(inline="always")
def pairs_apart(a, b):
    """Number of differing bits."""
    bits = 0
    for w in range(len(a)):
        bits += popcount(a[w] ^ b[w])
    return bits


@njit(inline="always")
def _apart(a, b):
    return np.uint16(max(a, b) - min(a, b))


@njit(nogil=True, cache=True)
def differences(row, columns, out):
    """Set out (uint16, (LANES,)) to sum_c |n_c(row) - n_c(column)| of a group of columns."""
    out[:] = 0
    for c in range(0, CLASSES, 8):
        for i in range(LANES):
            # Eight at a time: the sums stay in a register.
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


@njit(nogil=True, cache=True)
def add_masks(pattern, masks, slots):
    """Set the masks of a pattern; masks and slots are 0 before."""
    used = 0
    for k in range(len(pattern)):
        slot = slots[pattern[k]]
        if slot == 0:
            used += 1
            slot = used
            slots[pattern[k]] = slot
        masks[slot, k >> 6] |= ONE << np.uint64(k & 63)


@njit(nogil=True, cache=True)
def remove_masks(pattern, masks, slots):
    """Reset the masks and slots of a pattern to 0."""
    for k in range(len(pattern)):
        masks[slots[pattern[k]], k >> 6] = ZERO
    for k in range(len(pattern)):
        slots[pattern[k]] = 0


@njit(nogil=True, cache=True)
def bounded_distance(masks, slots, length, text, limit, state):
    """Distance of a pattern of this length to a text, or any number above the limit."""
    n = len(text)
    if abs(length - n) > limit:
        return limit + 1
    if length == 0 or n == 0:
        return max(length, n)
    if length <= 64:
        return _one_word(masks, slots, length, text, limit)
    if limit <= 31:
        return _one_diagonal(masks, slots, length, text, limit)
    return _banded(masks, slots, length, text, limit, state)


@njit(inline="always")
def _one_word(masks, slots, length, text, limit):
    vp, vn, distance, n = ALL, ZERO, np.int64(length), len(text)
    last = np.uint64(length - 1)
    for j in range(n):
        vp, vn, hp, hn = compare_word(masks[slots[text[j]], 0], vp, vn, ONE, ZERO)
        distance += np.int64((hp >> last) & ONE) - np.int64((hn >> last) & ONE)
        if distance - (n - 1 - j) > limit:
            return limit + 1
    return distance


@njit(inline="always")
def _window(masks, slot, start):
    """64 bits of a mask, from pattern symbol `start`."""
    if start < 0:
        return masks[slot, 0] << np.uint64(-start)
    word, shift = start >> 6, np.uint64(start & 63)
    low = masks[slot, word] >> shift
    return low | ((masks[slot, word + 1] << ONE) << (np.uint64(63) - shift))


@njit(inline="always")
def _one_diagonal(masks, slots, length, text, limit):
    """Bit 63 of the word is row j + limit of column j, up to the last row, which then moves up."""
    n = len(text)
    vp, vn = ALL << np.uint64(63 - limit), ZERO
    distance, start = limit, limit + 1 - 64
    # Values fall by at most 1 per column along the last row, and never along the diagonal.
    hopeless = limit + n - (length - limit)
    for j in range(n):
        x = _window(masks, slots[text[j]], start + j)
        d0 = (((x & vp) + vp) ^ vp) | x | vn
        hp = vn | ~(d0 | vp)
        hn = vp & d0
        below = j + limit - (length - 1)
        if below <= 0:
            distance += 1 - np.int64(d0 >> np.uint64(63))
        else:
            row = np.uint64(63 - below)
            distance += np.int64((hp >> row) & ONE) - np.int64((hn >> row) & ONE)
        if distance > hopeless:
            return limit + 1
        d0 >>= ONE
        vp = hn | ~(d0 | hp)
        vn = d0 & hp
    return distance


@njit(inline="always")
def _banded(masks, slots, length, text, limit, state):
    n, words = len(text), (length + 63) // 64
    vps, vns = state[0], state[1]
    end, distance = 0, length * 0  # words in use, and the value in their last row
    for j in range(n):
        first = max(0, j - limit) >> 6
        while end < words and 64 * end <= j + limit:
            vps[end], vns[end] = ALL, ZERO
            distance = distance + 64 if end else 64 + j
            end += 1
            if end == words:
                distance -= 64 * words - length
        slot = slots[text[j]]
        hp_in, hn_in, hp, hn = ONE, ZERO, ZERO, ZERO
        last = np.uint64(63)
        for w in range(first, end):
            if w == words - 1:
                last = np.uint64((length - 1) & 63)
            vps[w], vns[w], hp, hn = compare_word(masks[slot, w], vps[w], vns[w], hp_in, hn_in)
            hp_in, hn_in = hp >> np.uint64(63), hn >> np.uint64(63)
        distance += np.int64((hp >> last) & ONE) - np.int64((hn >> last) & ONE)
        if j % LOOK == LOOK - 1 and _hopeless(vps, vns, first, end, words, length, distance, limit):
            return limit + 1
    return distance


@njit(nogil=True, cache=True)
def _hopeless(vps, vns, first, end, words, length, distance, limit):
    """Whether all cells of a column exceed the limit; the ends of a word bound the values inside."""
    for w in range(end - 1, first - 1, -1):
        height = length - 64 * w if w == words - 1 else 64
        valid = ALL if height == 64 else (ONE << np.uint64(height)) - ONE
        above = distance - popcount(vps[w] & valid) + popcount(vns[w] & valid)
        if (above + distance - height) // 2 <= limit:
            return False
        distance = above
    return True


def rates(least: Floats32, gamma: float) -> Floats:
    """Distance limits of pairs with values >= `least`; with `relative`, per symbol of the longer string."""
    with np.errstate(divide="ignore", invalid="ignore"):
        limits = -np.log(np.maximum(least.astype(np.float64), 0) * (1 - SLACK)) / gamma
    return np.where(least > 0, limits, np.inf)


@dataclass(frozen=True)
class _Strings:
    """Strings, and the arrays for bounds of their distances."""

    codes: AnyArray
    offsets: Ints
    counts: NDArray[np.uint8]
    bits: Words

    @property
    def lengths(self) -> Ints:
        return np.diff(self.offsets)


class HostEditNear:
    """Pairs within a set of strings, or between two sets (`Near`)."""

    def __init__(self, kernel: Any, documents: Documents, others: Documents | None) -> None:
        self.kernel, self.own = kernel, others is None
        sets = [documents] if others is None else [documents, others]
        self.alphabet, classes = max(1, *(len(texts.alphabet) for texts in sets)), classes_of(sets)
        mean = sum(len(texts.codes) for texts in sets) / max(1, sum(map(len, sets)))
        strings = []
        for texts in sets:
            codes, offsets = texts.codes_for(*sets), np.array(texts.offsets)
            bits = bits_of(texts, codes, mean)
            strings.append(_Strings(codes, offsets, counts_of(texts, codes, classes), bits))
        self.documents, self.others = strings[0], strings[-1]
        self._columns: dict[int, tuple[Ints, NDArray[np.uint8]]] = {}

    def pairs(self, rows: slice, columns: slice, bound: Bound) -> Pairs:
        same = self.own and rows == columns
        if columns.start not in self._columns:
            by_length = columns.start + np.argsort(self.documents.lengths[columns], kind="stable")
            self._columns[columns.start] = by_length, side_by_side(self.documents.counts[by_length])
        order, _ = self._columns[columns.start]
        picks = order if same else np.arange(rows.start, rows.stop)
        row, column, distances = self._within(picks, rows.start, columns.start, bound, same)
        values = values_of(self.kernel, distances, self.others.lengths[row], self.documents.lengths[column])
        enough = values >= np.minimum(bound.rows[row - rows.start], bound.columns[column - columns.start])
        if same:
            row, column = np.minimum(row, column), np.maximum(row, column)
        return Pairs(row, column, values, distances).take(enough)

    def _within(
        self, picks: Ints, first_row: int, first_column: int, bound: Bound, same: bool
    ) -> tuple[Ints, Ints, Ints32]:
        """Rows, columns and distances of the pairs within their limits."""
        order, counts = self._columns[first_column]
        gamma, groups = self.kernel.gamma, len(counts)
        row_rates = rates(bound.rows, gamma)[picks - first_row]
        column_rates = np.zeros(groups * LANES)
        column_rates[: len(order)] = rates(bound.columns, gamma)[order - first_column]
        lanes_within = np.zeros((len(picks), groups), np.uint32)
        distances = np.empty((len(picks), groups * LANES), np.int32)
        most = np.iinfo(np.int32).max if bound.within is None else bound.within
        rows, strings = self.others, self.documents

        def compare(start: int) -> None:
            part = slice(start, min(start + ROWS, len(picks)))
            _near_rows(
                rows.codes, rows.offsets, rows.counts, rows.bits, picks[part], row_rates[part],
                strings.codes, strings.offsets, strings.bits, order, counts, column_rates,
                bool(self.kernel.relative), most, start if same else -1, self.alphabet,
                lanes_within[part], distances[part],
            )  # fmt: skip

        run(compare, range(0, len(picks), ROWS))
        row, group = np.nonzero(lanes_within)
        lanes = (lanes_within[row, group, None] >> np.arange(LANES, dtype=np.uint32)) & 1
        hit, lane = np.nonzero(lanes)
        row, position = row[hit], group[hit] * LANES + lane
        return picks[row], order[position], distances[row, position]


def values_of(kernel: Any, distances: Ints32, row_lengths: Ints, column_lengths: Ints) -> Floats32:
    """Kernel values of pairs, given their distances and lengths, all of shape (m,)."""
    longer = np.maximum(np.maximum(row_lengths, column_lengths), 1) if kernel.relative else 1
    return np.exp(-kernel.gamma * (distances / longer)).astype(np.float32)


@njit(inline="always")
def _most(rate, longer, relative, most):
    """Distance limit of a pair."""
    scaled = rate * max(longer, 1) if relative else rate
    return min(most, longer if scaled >= longer else int(np.floor(scaled)))


@njit(nogil=True, cache=True)
def _near_rows(
    row_codes, row_offsets, row_counts, row_bits, picks, row_rates, codes, offsets, bits, order, counts,
    column_rates, relative, most, first, alphabet, lanes_within, distances,
):  # fmt: skip
    """Set the bits of pairs within their limits in `lanes_within`, and their distances.

    first: position of the first row among the columns if both are the same strings, else -1.
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
        has_masks = False
        for g in range((first + i) // LANES if first >= 0 else 0, groups):
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
                if c >= len(order) or (first >= 0 and c <= first + i):
                    continue
                longer = max(length, lengths[c])
                limit = _most(max(row_rates[i], column_rates[c]), longer, relative, most)
                if apart[lane] + abs(length - lengths[c]) > 2 * limit:
                    continue
                if pairs_apart(row_bits[picks[i]], bits[order[c]]) > 4 * limit:
                    continue
                if not has_masks:
                    add_masks(text, masks, slots)
                    has_masks = True
                other = codes[offsets[order[c]] : offsets[order[c] + 1]]
                distance = bounded_distance(masks, slots, length, other, limit, state)
                if distance <= limit:
                    distances[i, c] = distance
                    lanes |= np.uint32(1) << np.uint32(lane)
            lanes_within[i, g] = lanes
        if has_masks:
            remove_masks(text, masks, slots)
