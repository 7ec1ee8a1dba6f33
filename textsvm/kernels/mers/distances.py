"""How many pairs of l-mers differ at d positions, on the CPU: 64 l-mers a word, LANES words a vector.

The l-mers of a column document are 64 a word, one a bit, as many words as it takes. For a group of LANES
words, whatever the documents, masks[x, p] has the bit of every l-mer that has another symbol than x at
position p. With an l-mer u of a row document, the words masks[u_p, p], p = 0 .. l - 1, are what is to be
counted for every bit: carry-save adders take four of them at a time,

    (ones, a, b) -> ones, carry;    (ones, c, d) -> ones, carry;    (twos, carry, carry) -> twos, carry

and the carries go through the planes 4, 8, ... of the counter, as many as the greatest distance that counts
needs, into a last one that stays set: too far. Some 45 instructions compare u with the LANES * 64 others. Of
each distance d the bits that say d are counted, and what is summed over all u of a row document is whole.

Symbols are numbered anew for every group (`slots`), so that no alphabet is too large; slot 0 is a symbol
that no l-mer of the group has. Weights of l-mers, up to 255, are bit planes on the side of the columns.

How the l-mers of column documents lie in words, for both twins: 64 a word, no word of two documents.

Kernels of distances between l-mers on the CPU: pieces of rows and columns for mer_counts.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.kernels.mers.mers import Mers
from textsvm.kernels.mers.rows import MerRows
from textsvm.kernels.mers.scores import HostTable
from textsvm.runtime.compiled import njit
from textsvm.runtime.parallel import Progress, run
from textsvm.runtime.simd import (
    LANES,
    add_ones,
    aligned,
    bits_and,
    bits_or,
    bits_xor,
    fill,
    get,
    load,
    multiply_add_whole,
    put,
    stack,
    store,
)

#: l-mers of a word.
BITS = 64


def words_of(indptr: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The words of documents, (document, first l-mer, number of l-mers), and where those of each begin."""
    numbers = np.diff(indptr)
    each = -(-numbers // BITS)
    begins = np.concatenate([[0], np.cumsum(each)])
    document = np.repeat(np.arange(len(each)), each)
    place = BITS * (np.arange(len(document)) - begins[document])
    return (
        np.stack(
            [document, indptr[document] + place, np.minimum(numbers[document] - place, BITS)], axis=1
        ).astype(np.int64),
        begins,
    )


Array = NDArray[Any]
ALL, NONE, ONE, TWO = np.uint64(2**64 - 1), np.uint64(0), np.uint64(1), np.uint64(2)
#: Bit planes of weights.
WEIGHT_PLANES = 8


def upper_planes(most: int) -> tuple[int, ...]:
    """One for each plane 4, 8, ... that distances up to `most` need, and the last."""
    return (0,) * (max(most.bit_length() - 2, 0) + 1)


def scratch(n_symbols: int, length: int, weighted: bool) -> tuple[Array, Array, Array]:
    """Room for the slots, masks and planes of a group."""
    most = min(n_symbols, LANES * (BITS + length))
    slots = np.zeros(max(n_symbols, 1), np.int64)
    return slots, aligned((most + 1) * (-(-length // 4) * 4) * LANES, np.uint64), _planes(weighted)


def _planes(weighted: bool) -> Array:
    return aligned((WEIGHT_PLANES if weighted else 1) * LANES, np.uint64)


@njit(nogil=True, cache=True)
def _build(
    codes: Array, starts: Array, weights: Array, words: Array, length: int, slots: Array, masks: Array,
    planes: Array,
) -> int:  # fmt: skip
    """Masks and planes of the words (document, first l-mer, number of l-mers) of a group."""
    padded, used = (length + 3) // 4 * 4, 1
    planes[:] = 0
    masks[: padded * LANES] = 0
    masks[: length * LANES] = ALL
    for lane in range(len(words)):
        for bit in range(words[lane, 2]):
            mer = words[lane, 1] + bit
            one = ONE << np.uint64(bit)
            for k in range(len(planes) // LANES):
                if (weights[mer] >> (len(planes) // LANES - 1 - k)) & 1:
                    planes[k * LANES + lane] |= one
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
                masks[(slot * padded + p) * LANES + lane] &= ~one
    return used


@njit(nogil=True, cache=True)
def _forget(codes: Array, starts: Array, words: Array, length: int, slots: Array) -> None:
    for lane in range(len(words)):
        for mer in range(words[lane, 1], words[lane, 1] + words[lane, 2]):
            for p in range(length):
                slots[codes[starts[mer] + p]] = 0


@njit(inline="always")
def _add(ones: Any, a: Any, b: Any) -> Any:
    """A full adder: sum and carry."""
    either = bits_xor(ones, a)
    return bits_xor(either, b), bits_or(bits_and(ones, a), bits_and(either, b))


@njit(nogil=True, cache=True)
def _compare(
    codes: Array, starts: Array, weights: Array, begin: int, end: int, slots: Array, masks: Array,
    planes: Array, length: int, most: int, upper: Any, out: Array,
) -> None:  # fmt: skip
    """Sums over the l-mers begin .. end of a row document, for each distance and lane."""
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
            put(higher, k, zero)
        for p in range(0, padded, 4):
            ones, a = _add(ones, load(masks, at[p]), load(masks, at[p + 1]))
            ones, b = _add(ones, load(masks, at[p + 2]), load(masks, at[p + 3]))
            twos, carry = _add(twos, a, b)
            for k in range(last):
                plane = get(higher, k)
                put(higher, k, bits_xor(plane, carry))
                carry = bits_and(plane, carry)
            put(higher, last, bits_or(get(higher, last), carry))
        near = bits_xor(get(higher, last), fill(ALL))
        for d in range(most + 1):
            same = bits_and(near, bits_xor(ones, fill(NONE if d & 1 else ALL)))
            same = bits_and(same, bits_xor(twos, fill(NONE if d & 2 else ALL)))
            for k in range(last):
                same = bits_and(same, bits_xor(get(higher, k), fill(NONE if (d >> (k + 2)) & 1 else ALL)))
            if len(planes) == LANES:
                number = add_ones(bits_and(same, load(planes, 0)), load(out, d * LANES))
            else:
                number = zero
                for k in range(0, len(planes), LANES):
                    number = multiply_add_whole(
                        number, fill(TWO), add_ones(bits_and(same, load(planes, k)), zero)
                    )
                number = multiply_add_whole(number, fill(np.uint64(weights[mer])), load(out, d * LANES))
            store(out, d * LANES, number)


@njit(nogil=True, cache=True)
def add_counts(
    row_codes: Array, row_starts: Array, row_weights: Array, row_indptr: Array, picks: Array,
    codes: Array, starts: Array, weights: Array, words: Array, length: int,
    slots: Array, masks: Array, planes: Array, found: Array,
    most: int, upper: Any, counts: Array,
) -> None:  # fmt: skip
    """counts[i, j, d] += pairs of l-mers of row document picks[i] and column document j at distance d.

    words: the words of the column documents, (document, first l-mer, number of l-mers) of each.
    """
    for group in range(0, len(words), LANES):
        some = words[group : group + LANES]
        _build(codes, starts, weights, some, length, slots, masks, planes)
        for i in range(len(picks)):
            begin, end = row_indptr[picks[i]], row_indptr[picks[i] + 1]
            if begin < end:
                _compare(
                    row_codes, row_starts, row_weights, begin, end, slots, masks, planes, length,
                    most, upper, found,
                )  # fmt: skip
                for d in range(most + 1):
                    for lane in range(len(some)):
                        counts[i, some[lane, 0], d] += np.int64(found[d * LANES + lane])
        _forget(codes, starts, some, length, slots)


@njit(nogil=True, cache=True)
def add_own_counts(
    row_codes: Array, row_starts: Array, row_weights: Array, row_indptr: Array, first: int, last: int,
    codes: Array, starts: Array, weights: Array, words: Array, word_indptr: Array, length: int,
    slots: Array, masks: Array, planes: Array, found: Array,
    most: int, upper: Any, counts: Array,
) -> None:  # fmt: skip
    """counts[i, 0, d] += pairs of l-mers of row document i and of column document i."""
    pick = np.empty(1, np.int64)
    for i in range(first, last):
        pick[0] = i
        own = words[word_indptr[i] : word_indptr[i + 1]].copy()
        own[:, 0] = 0
        add_counts(
            row_codes, row_starts, row_weights, row_indptr, pick, codes, starts, weights, own, length,
            slots, masks, planes, found, most, upper, counts[i : i + 1],
        )  # fmt: skip


@njit(nogil=True, cache=True)
def weigh_counts(counts: Array, weights: Array, row_scale: Array, scale: Array, out: Array) -> None:
    """Sums of counts (m, n, distances) times the weights of distances and both scales."""
    for i in range(counts.shape[0]):
        for j in range(counts.shape[1]):
            total = 0.0
            for d in range(len(weights)):
                total += weights[d] * counts[i, j, d]
            out[i, j] = total * (row_scale[i] * scale[j])


#: Words of a batch of columns, and counts of a piece.
WORDS, COUNTS = 256, 1 << 19


class HostMers(MerRows):
    """The CPU twin: see `KernelRows`."""

    def prepare(self) -> None:
        self.words, self.begins = words_of(self.columns.indptr)
        whole = np.searchsorted(self.begins, np.arange(0, len(self.words) + WORDS, WORDS))
        self.batches = np.unique(np.clip([0, *whole, self.n], 0, self.n))

    def self_values(self, rows: Mers, columns: Mers) -> NDArray[np.float64]:
        n, weights = len(rows.numbers), self.weights
        counts, (words, begins) = np.zeros((n, 1, len(weights)), np.int64), words_of(columns.indptr)
        size = max(1, n // 256)

        def piece(first: int) -> None:
            last = min(first + size, n)
            room = self._room(columns.n_symbols)
            add_own_counts(
                rows.codes, rows.starts, rows.weights, rows.indptr, first, last,
                columns.codes, columns.starts, columns.weights, words, begins, self.kernel.definition.length,
                *room, counts,
            )  # fmt: skip

        run(piece, range(0, n, size))
        values, ones = np.empty((n, 1)), np.ones(n)
        weigh_counts(counts, weights, ones, ones[:1], values)
        return values[:, 0]

    def products(
        self, rows: Mers, scale: NDArray[np.float64], progress: Progress | None = None
    ) -> NDArray[np.float32]:
        out = np.empty((len(rows.numbers), self.n), np.float32)
        self._fill(rows, scale, out, False, progress)
        return out

    def half(self, progress: Progress | None = None) -> NDArray[np.float32]:
        out = np.empty((self.n, self.n), np.float32)
        self._fill(self.own, self.normalisation.scale, out, True, progress)
        return out

    def table(self, of_mers: NDArray[np.float64]) -> HostTable:
        return HostTable(self.columns, self.weights, of_mers)

    def _room(self, n_symbols: int) -> tuple[Any, Any, Any, Any, int, tuple[int, ...]]:
        """Scratch for one piece, distances that count, and what the compiled loop is specialised by."""
        most, found = len(self.weights) - 1, aligned(len(self.weights) * LANES, np.uint64)
        definition = self.kernel.definition
        slots, masks, planes = scratch(n_symbols, definition.length, definition.centred is not None)
        return slots, masks, planes, found, most, upper_planes(most)

    def _fill(
        self, rows: Mers, scale: NDArray[np.float64], out: Any, symmetric: bool, progress: Progress | None
    ) -> None:
        """All values, or of a symmetric matrix those up to the end of each batch, and their mirror images."""
        columns, weights, column_scale = self.columns, self.weights, self.normalisation.scale
        n_symbols = max(rows.n_symbols, columns.n_symbols)

        def piece(bounds: tuple[int, int, int, int]) -> None:
            first, last, row, stop = bounds
            picks = np.arange(row, stop)
            words = self.words[self.begins[first] : self.begins[last]].copy()
            words[:, 0] -= first
            room = self._room(n_symbols)
            counts = np.zeros((len(picks), last - first, len(weights)), np.int64)
            add_counts(
                rows.codes, rows.starts, rows.weights, rows.indptr, picks,
                columns.codes, columns.starts, columns.weights, words, self.kernel.definition.length,
                *room, counts,
            )  # fmt: skip
            weigh_counts(
                counts, weights, scale[row:stop], column_scale[first:last], out[row:stop, first:last]
            )
            if symmetric and stop <= first:
                out[first:last, row:stop] = out[row:stop, first:last].T

        pieces, work = self._pieces(rows, symmetric)
        run(piece, pieces, work, progress)

    def _pieces(self, rows: Mers, symmetric: bool) -> tuple[list[tuple[int, int, int, int]], list[float]]:
        """(first and last column, first and last row) of every piece, and pairs of l-mers."""
        pieces: list[tuple[int, int, int, int]] = []
        work: list[float] = []
        m = len(rows.numbers)
        if not m:
            return pieces, work
        for first, last in zip(self.batches[:-1].tolist(), self.batches[1:].tolist(), strict=True):
            size = max(1, COUNTS // ((last - first) * len(self.weights)))
            cuts = [*range(0, first, size), *range(first, last, size)] if symmetric else [*range(0, m, size)]
            for row, stop in zip(cuts, [*cuts[1:], last if symmetric else m], strict=True):
                pieces.append((first, last, row, stop))
                mers = float(rows.indptr[stop] - rows.indptr[row])
                work.append(mers * float(self.columns.indptr[last] - self.columns.indptr[first]) + 1)
        order = np.argsort([-each for each in work], kind="stable")
        return [pieces[i] for i in order], [work[i] for i in order]
