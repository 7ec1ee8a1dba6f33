"""CPU twin of kernels on distances between l-mers: count pairs by distance, 64 l-mers per word.

The l-mers of a column document are stored 64 to a word, a bit each; no word spans two documents. For a
group of LANES words, masks[x, p] marks the l-mers whose symbol at position p is not x. For an l-mer u of a
row document the words masks[u_p, p], p = 0 .. l - 1, are added bitwise by carry-save adders, four at a time:

    (ones, a, b) -> ones, carry;    (ones, c, d) -> ones, carry;    (twos, carry, carry) -> twos, carry

Carries go through the planes 4, 8, ... of the counter, as many as the largest distance that counts needs, and
then into an overflow plane that stays set. Some 45 instructions compare u with LANES * 64 l-mers. For every
distance d the bits with this count are summed over all u of a row document, in integers.

Symbols are renumbered in every group (`slots`), so that any alphabet fits; slot 0 is a symbol that no l-mer
of the group has. `valid` has the bits that are l-mers.
"""

from __future__ import annotations

import numpy as np

from textsvm.arrays import AnyArray, Floats, Floats32, Ints
from textsvm.kernels.mers.rows import MerRows, ScoreTable
from textsvm.kernels.mers.windows import Mers
from textsvm.runtime.compiled import njit
from textsvm.runtime.parallel import Progress, run
from textsvm.runtime.simd import LANES, aligned, count_bits, fill, load, stack, store

BITS = 64  #: l-mers per word.


def words_of(indptr: Ints) -> tuple[Ints, Ints]:
    """Words of documents, (document, first l-mer, number of l-mers), and each document's first word."""
    numbers = np.diff(indptr)
    words_per_document = -(-numbers // BITS)
    begins = np.concatenate([[0], np.cumsum(words_per_document)])
    document = np.repeat(np.arange(len(words_per_document)), words_per_document)
    place = BITS * (np.arange(len(document)) - begins[document])
    words = [document, indptr[document] + place, np.minimum(numbers[document] - place, BITS)]
    return np.stack(words, axis=1).astype(np.int64), begins


ALL, NONE, ONE = np.uint64(2**64 - 1), np.uint64(0), np.uint64(1)


@njit(nogil=True, cache=True)
def _build(codes, starts, words, length, slots, masks, valid):
    """Fill masks and `valid` of a group of words (document, first l-mer, number of l-mers)."""
    padded, used = (length + 3) // 4 * 4, 1
    valid[:] = 0
    masks[: padded * LANES] = 0
    masks[: length * LANES] = ALL
    for lane in range(len(words)):
        for bit in range(words[lane, 2]):
            mer = words[lane, 1] + bit
            bit_mask = ONE << np.uint64(bit)
            valid[lane] |= bit_mask
            for p in range(length):
                code = codes[starts[mer] + p]
                slot = slots[code]
                if slot == 0:
                    slot = used
                    slots[code] = slot
                    first = slot * padded * LANES
                    masks[first : first + length * LANES] = ALL
                    masks[first + length * LANES : first + padded * LANES] = 0
                    used += 1
                masks[(slot * padded + p) * LANES + lane] &= ~bit_mask
    return used


@njit(nogil=True, cache=True)
def _forget(codes, starts, words, length, slots):
    for lane in range(len(words)):
        for mer in range(words[lane, 1], words[lane, 1] + words[lane, 2]):
            for p in range(length):
                slots[codes[starts[mer] + p]] = 0


@njit(inline="always")
def _add(ones, a, b):
    """Full adder: sum and carry."""
    either = ones ^ a
    return either ^ b, (ones & a) | (either & b)


@njit(nogil=True, cache=True)
def _compare(codes, starts, begin, end, slots, masks, valid, length, most, upper, out):
    """Counts of the l-mers begin .. end of a row document, for each distance and lane."""
    padded, zero, last = (length + 3) // 4 * 4, fill(NONE), len(upper) - 1
    higher = stack(upper, zero)
    at = np.empty(padded, np.int64)
    at[:] = np.arange(padded) * LANES
    out[:] = 0
    for mer in range(begin, end):
        first = starts[mer]
        for p in range(length):
            at[p] = (slots[codes[first + p]] * padded + p) * LANES
        ones, twos = zero, zero
        for k in range(len(upper)):
            higher[k] = zero
        for p in range(0, padded, 4):
            ones, a = _add(ones, load(masks, at[p]), load(masks, at[p + 1]))
            ones, b = _add(ones, load(masks, at[p + 2]), load(masks, at[p + 3]))
            twos, carry = _add(twos, a, b)
            for k in range(last):
                plane = higher[k]
                higher[k] = plane ^ carry
                carry = plane & carry
            higher[last] = higher[last] | carry
        near = higher[last] ^ fill(ALL)
        for d in range(most + 1):
            same = near & (ones ^ fill(NONE if d & 1 else ALL))
            same = same & (twos ^ fill(NONE if d & 2 else ALL))
            for k in range(last):
                same = same & (higher[k] ^ fill(NONE if (d >> (k + 2)) & 1 else ALL))
            store(out, d * LANES, count_bits(same & load(valid, 0)) + load(out, d * LANES))


@njit(nogil=True, cache=True)
def add_counts(
    row_codes, row_starts, row_indptr, picks, codes, starts, words, length, slots, masks, valid, sums, most,
    upper, counts,
):  # fmt: skip
    """counts[i, j, d] += pairs of l-mers of row document picks[i] and column document j at distance d."""
    for group in range(0, len(words), LANES):
        group_words = words[group : group + LANES]
        _build(codes, starts, group_words, length, slots, masks, valid)
        for i in range(len(picks)):
            begin, end = row_indptr[picks[i]], row_indptr[picks[i] + 1]
            if begin < end:
                _compare(row_codes, row_starts, begin, end, slots, masks, valid, length, most, upper, sums)
                for d in range(most + 1):
                    for lane in range(len(group_words)):
                        counts[i, group_words[lane, 0], d] += np.int64(sums[d * LANES + lane])
        _forget(codes, starts, group_words, length, slots)


@njit(nogil=True, cache=True)
def add_own_counts(
    row_codes, row_starts, row_indptr, first, last, codes, starts, words, word_indptr, length, slots, masks,
    valid, sums, most, upper, counts,
):  # fmt: skip
    """counts[i, 0, d] += pairs of l-mers of row document i and of column document i."""
    pick = np.empty(1, np.int64)
    for i in range(first, last):
        pick[0] = i
        own = words[word_indptr[i] : word_indptr[i + 1]].copy()
        own[:, 0] = 0
        add_counts(
            row_codes, row_starts, row_indptr, pick, codes, starts, own, length, slots, masks, valid, sums,
            most, upper, counts[i : i + 1],
        )  # fmt: skip


@njit(nogil=True, cache=True)
def weigh_counts(counts, weights, row_scale, scale, out):
    """Sums of counts (m, n, distances) times the weights of distances and both scales."""
    for i in range(counts.shape[0]):
        for j in range(counts.shape[1]):
            total = 0.0
            for d in range(len(weights)):
                total += weights[d] * counts[i, j, d]
            out[i, j] = total * (row_scale[i] * scale[j])


WORDS = 256  #: Words of a batch of columns.
COUNTS = 1 << 19  #: Counts of a piece of work.


class HostMers(MerRows):
    """Kernel values with fixed documents on a CPU (`KernelRows`)."""

    def prepare(self) -> None:
        self.words, self.begins = words_of(self.columns.indptr)
        whole = np.searchsorted(self.begins, np.arange(0, len(self.words) + WORDS, WORDS))
        self.batches = np.unique(np.clip([0, *whole, self.n], 0, self.n))

    def self_values(self, rows: Mers, columns: Mers) -> Floats:
        n, weights = len(rows.numbers), self.weights
        counts, (words, begins) = np.zeros((n, 1, len(weights)), np.int64), words_of(columns.indptr)
        size = max(1, n // 256)

        def piece(first: int) -> None:
            add_own_counts(
                rows.codes, rows.starts, rows.indptr, first, min(first + size, n),
                columns.codes, columns.starts, words, begins, self.kernel.definition.length,
                *self._scratch(columns.n_symbols), counts,
            )  # fmt: skip

        run(piece, range(0, n, size))
        values, ones = np.empty((n, 1)), np.ones(n)
        weigh_counts(counts, weights, ones, ones[:1], values)
        return values[:, 0]

    def table(self, of_mers: Floats) -> ScoreTable:
        return ScoreTable(self.columns, self.weights, of_mers)

    def _scratch(self, n_symbols: int) -> tuple[AnyArray, AnyArray, AnyArray, AnyArray, int, tuple[int, ...]]:
        """Slots, masks, valid bits and sums of a piece, the largest distance, and its upper planes.

        These are an item for each counter plane 4, 8, ... up to that distance, and for overflow.
        """
        length = self.kernel.definition.length
        symbols, most = min(n_symbols, LANES * (BITS + length)), len(self.weights) - 1
        slots = np.zeros(max(n_symbols, 1), np.int64)
        masks = aligned((symbols + 1) * (-(-length // 4) * 4) * LANES, np.uint64)
        valid = aligned(LANES, np.uint64)
        upper = (0,) * (max(most.bit_length() - 2, 0) + 1)
        return slots, masks, valid, aligned((most + 1) * LANES, np.uint64), most, upper

    def products(
        self, rows: Mers, scale: Floats, progress: Progress | None = None, symmetric: bool = False
    ) -> Floats32:
        columns, weights, column_scale = self.columns, self.weights, self.normalisation.scale
        n_symbols = max(rows.n_symbols, columns.n_symbols)
        out = np.empty((len(rows.numbers), self.n), np.float32)

        def piece(bounds: tuple[int, int, int, int]) -> None:
            first, last, row, stop = bounds
            picks = np.arange(row, stop)
            words = self.words[self.begins[first] : self.begins[last]].copy()
            words[:, 0] -= first
            counts = np.zeros((len(picks), last - first, len(weights)), np.int64)
            add_counts(
                rows.codes, rows.starts, rows.indptr, picks,
                columns.codes, columns.starts, words, self.kernel.definition.length,
                *self._scratch(n_symbols), counts,
            )  # fmt: skip
            values = out[row:stop, first:last]
            weigh_counts(counts, weights, scale[row:stop], column_scale[first:last], values)
            if symmetric and stop <= first:
                out[first:last, row:stop] = values.T

        pieces, work = self._pieces(rows, symmetric)
        run(piece, pieces, work, progress)
        return out

    def _pieces(self, rows: Mers, symmetric: bool) -> tuple[list[tuple[int, int, int, int]], list[float]]:
        """(First and last column, first and last row) of every piece, and pairs of l-mers.

        Of a symmetric matrix the rows up to the end of each batch.
        """
        pieces: list[tuple[int, int, int, int]] = []
        work: list[float] = []
        if not (m := len(rows.numbers)):
            return pieces, work
        for first, last in zip(self.batches[:-1].tolist(), self.batches[1:].tolist(), strict=True):
            size = max(1, COUNTS // ((last - first) * len(self.weights)))
            cuts = [*range(0, first, size), *range(first, last, size)] if symmetric else [*range(0, m, size)]
            for row, stop in zip(cuts, [*cuts[1:], last if symmetric else m], strict=True):
                pieces.append((first, last, row, stop))
                mers = float(rows.indptr[stop] - rows.indptr[row])
                work.append(mers * float(self.columns.indptr[last] - self.columns.indptr[first]) + 1)
        order = np.argsort([-pairs for pairs in work], kind="stable")
        return [pieces[i] for i in order], [work[i] for i in order]
