"""Pairs of strings within an edit distance, on the CPU: bounds first, then the distances of what is left.

    exp(-gamma d) >= v    <=>    d <= -log(v) / gamma = rate        with `relative`: d <= rate max(|s|, |t|)

so every pair has a largest distance. Columns stand in the order of length, 32 side by side; a row skips the
groups that are too short or too long, the bag distance (edit_bounds.py) rules out most of the others, and the
few pairs that remain are computed one by one, no further than their largest distance (edit_cutoff.py).

Which pairs can be within a distance of each other, from their lengths and from counts of their symbols.

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

The edit distance of two strings, given up once it is above a limit; edit.py has the recurrence.

Cells whose values can be within the limit have |i - j| <= limit (Ukkonen 1985), so a column needs few words:

    a pattern of up to 64 symbols      all of it is one word
    a limit of up to 31                one word slides along the diagonal (Hyyrö 2003)
    else                               the words that have such cells; above and below values are only larger

Masks are those of the pattern, made once for all texts that it is compared with:

    masks    uint64, (slots, words + 2)    slot 0: none; two words more, so that a window never ends outside
    slots    int32, (alphabet,)            0 for symbols that the pattern has not
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from textsvm.kernels.edit.cpu import LANES, popcount
from textsvm.kernels.near import Bound, Pairs
from textsvm.runtime.compiled import njit
from textsvm.runtime.parallel import run
from textsvm.text.documents import Documents

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
    """How many bits differ."""
    found = 0
    for w in range(len(a)):
        found += popcount(a[w] ^ b[w])
    return found


@njit(inline="always")
def _apart(a, b):
    return np.uint16(max(a, b) - min(a, b))


@njit(nogil=True, cache=True)
def differences(row, columns, out):
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


ONE, ALL, TOP, ZERO = np.uint64(1), np.uint64(2**64 - 1), np.uint64(1 << 63), np.uint64(0)
#: Text symbols between two looks at whether any cell is still within the limit.
LOOK = 32


@njit(nogil=True, cache=True)
def add_masks(pattern, masks, slots):
    """Set the masks of a pattern; masks and slots are all 0 before."""
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
    """Set them to 0 again."""
    for k in range(len(pattern)):
        masks[slots[pattern[k]], k >> 6] = ZERO
    for k in range(len(pattern)):
        slots[pattern[k]] = 0


@njit(nogil=True, cache=True)
def bounded_distance(masks, slots, length, text, limit, state):
    """The distance of a pattern of this length to a text, or some number above the limit."""
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
        x = masks[slots[text[j]], 0]
        d0 = (((x & vp) + vp) ^ vp) | x | vn
        hp = vn | ~(d0 | vp)
        hn = vp & d0
        distance += np.int64((hp >> last) & ONE) - np.int64((hn >> last) & ONE)
        if distance - (n - 1 - j) > limit:
            return limit + 1
        hp = (hp << ONE) | ONE
        hn = hn << ONE
        vp = hn | ~(d0 | hp)
        vn = hp & d0
    return distance


@njit(inline="always")
def _window(masks, slot, start):
    """64 bits of a mask from pattern symbol `start` on."""
    if start < 0:
        return masks[slot, 0] << np.uint64(-start)
    word, shift = start >> 6, np.uint64(start & 63)
    low = masks[slot, word] >> shift
    return low | ((masks[slot, word + 1] << ONE) << (np.uint64(63) - shift))


@njit(inline="always")
def _one_diagonal(masks, slots, length, text, limit):
    """Bit 63 of the word is row j + limit of column j until that is the last one, which moves up then."""
    n = len(text)
    vp, vn = ALL << np.uint64(63 - limit), ZERO
    distance, start = limit, limit + 1 - 64
    # Along the last row it can fall by 1 a column, along the diagonal not at all.
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
    end, distance = 0, length * 0  # words in use, and the value in the last row of them
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
            vp, vn, eq = vps[w], vns[w], masks[slot, w]
            x = eq | hn_in
            d0 = (((x & vp) + vp) ^ vp) | x | vn
            hp = vn | ~(d0 | vp)
            hn = vp & d0
            down = (hn << ONE) | hn_in
            across = (hp << ONE) | hp_in
            hp_in, hn_in = hp >> np.uint64(63), hn >> np.uint64(63)
            vps[w] = down | ~(eq | vn | across)
            vns[w] = across & (eq | vn)
        distance += np.int64((hp >> last) & ONE) - np.int64((hn >> last) & ONE)
        if j % LOOK == LOOK - 1 and _hopeless(vps, vns, first, end, words, length, distance, limit):
            return limit + 1
    return distance


@njit(nogil=True, cache=True)
def _hopeless(vps, vns, first, end, words, length, distance, limit):
    """Whether all cells of a column are above the limit: inside of a word none is far below its ends."""
    for w in range(end - 1, first - 1, -1):
        height = length - 64 * w if w == words - 1 else 64
        valid = ALL if height == 64 else (ONE << np.uint64(height)) - ONE
        above = distance - popcount(vps[w] & valid) + popcount(vns[w] & valid)
        if (above + distance - height) // 2 <= limit:
            return False
        distance = above
    return True


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
def _most(rate, longer, relative, most):
    """The largest distance of a pair."""
    scaled = rate * max(longer, 1) if relative else rate
    return min(most, longer if scaled >= longer else int(np.floor(scaled)))


@njit(nogil=True, cache=True)
def _near_rows(
    row_codes,
    row_offsets,
    row_counts,
    row_bits,
    picks,
    row_rates,
    codes,
    offsets,
    bits,
    order,
    counts,
    column_rates,
    relative,
    most,
    place,
    alphabet,
    found,
    distances,
):
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
