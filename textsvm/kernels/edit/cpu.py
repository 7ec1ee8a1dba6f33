"""Edit distances on the CPU, 32 documents side by side; kernel.py has the recurrence and its names.

Patterns are 32 column documents of similar length, a lane each; every row document is the text of all lanes
at once. The masks of a text symbol are adjacent in memory, and LLVM vectorises the loop over lanes. A strip
is 2 words = 128 pattern symbols of each lane; hp and hn leave it as a bit per text symbol and enter the strip
below (``queues``), so no length needs a special case.

    masks     uint64, (slots, 2 * 32)    word * 32 + lane; a slot per symbol of the strip; slot 0: no symbol
    queues    uint64, (blocks, 2 * 32)   hp and hn of 64 text symbols, the next symbol in the lowest bit

The GPU compares 16-bit codes, so `narrow_runs` renumbers documents over larger alphabets. Symbols of a column
document match only if a row document has them. So row documents are processed in runs of at most 65,535
distinct symbols, which are numbered from 0; all other symbols of the columns get the next number, which no
row document has. Distances do not change.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np

from textsvm.arrays import Array, Ints
from textsvm.errors import InputError
from textsvm.runtime import device as devices
from textsvm.runtime.compiled import njit, popcount
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import Progress
from textsvm.text.documents import Documents

LANES = 32
STRIP = 128  # pattern symbols per strip: two words
CHUNK = 1 << 16  # text symbols that pass a strip together: their queues stay in the L2 cache
MAX_SYMBOLS = (1 << 16) - 1  #: Most distinct symbols of the row documents of a run.

# Compile-time row offsets in `state`, `queues` and `masks`: LLVM needs a single aliasing check.
L1, L2, L3 = LANES, 2 * LANES, 3 * LANES
ONE, ALL, HIGH, LAST = np.uint64(1), np.uint64(2**64 - 1), np.uint64(1 << 63), np.uint64(63)


@njit(inline="always")
def compare_word(eq, vp, vn, hp_in, hn_in):
    """Compare a text symbol with 64 pattern symbols: new vp, vn, and the unshifted hp, hn of this row."""
    x = eq | hn_in
    d0 = (((x & vp) + vp) ^ vp) | x
    hp = vn | ~(d0 | vp)
    hn = vp & d0
    hp_shifted = (hp << ONE) | hp_in
    hn_shifted = (hn << ONE) | hn_in
    d0 = eq | vn
    return hn_shifted | ~(d0 | hp_shifted), hp_shifted & d0, hp, hn


@njit(inline="always")
def _symbol(masks, lane, vp0, vn0, vp1, vn1, hp_queue, hn_queue):
    """Compare a text symbol with both words of a strip."""
    vp0, vn0, hp, hn = compare_word(masks[lane], vp0, vn0, hp_queue & ONE, hn_queue & ONE)
    vp1, vn1, hp, hn = compare_word(masks[lane + L1], vp1, vn1, hp >> LAST, hn >> LAST)
    return vp0, vn0, vp1, vn1, (hp_queue >> ONE) | (hp & HIGH), (hn_queue >> ONE) | (hn & HIGH)


@njit(nogil=True, cache=True)
def _four_symbols(a, b, c, d, state, queue):
    """Process four text symbols with masks a, b, c, d on all lanes; `state` is vp0, vn0, vp1, vn1."""
    for i in range(LANES):
        vp0, vn0, vp1, vn1 = state[i], state[i + L1], state[i + L2], state[i + L3]
        hp, hn = queue[i], queue[i + L1]
        vp0, vn0, vp1, vn1, hp, hn = _symbol(a, i, vp0, vn0, vp1, vn1, hp, hn)
        vp0, vn0, vp1, vn1, hp, hn = _symbol(b, i, vp0, vn0, vp1, vn1, hp, hn)
        vp0, vn0, vp1, vn1, hp, hn = _symbol(c, i, vp0, vn0, vp1, vn1, hp, hn)
        vp0, vn0, vp1, vn1, hp, hn = _symbol(d, i, vp0, vn0, vp1, vn1, hp, hn)
        state[i], state[i + L1], state[i + L2], state[i + L3] = vp0, vn0, vp1, vn1
        queue[i], queue[i + L1] = hp, hn


@njit(nogil=True, cache=True)
def _one_symbol(a, state, queue):
    for i in range(LANES):
        vp0, vn0, vp1, vn1, hp, hn = _symbol(
            a, i, state[i], state[i + L1], state[i + L2], state[i + L3], queue[i], queue[i + L1]
        )
        state[i], state[i + L1], state[i + L2], state[i + L3] = vp0, vn0, vp1, vn1
        queue[i], queue[i + L1] = hp, hn


@njit(nogil=True, cache=True)
def _through_strip(masks, slots, text, queues, state):
    state[:L1], state[L1:L2], state[L2:L3], state[L3:] = ALL, 0, ALL, 0
    for block in range(len(queues)):
        queue = queues[block]
        k, stop = 64 * block, min(64 * block + 64, len(text))
        while k + 4 <= stop:
            a, b, c, d = slots[text[k]], slots[text[k + 1]], slots[text[k + 2]], slots[text[k + 3]]
            _four_symbols(masks[a], masks[b], masks[c], masks[d], state, queue)
            k += 4
        while k < stop:
            _one_symbol(masks[slots[text[k]]], state, queue)
            k += 1
        if stop & 63:
            for i in range(L2):
                queue[i] >>= np.uint64(64 - (stop & 63))


@njit(nogil=True, cache=True)
def _add_differences(state, lengths, strip, out):
    """Add the part of D(m, n) - D(0, n) in this strip, for every lane."""
    for i in range(len(out)):
        for word in range(2):
            symbols = lengths[i] - strip * STRIP - 64 * word
            if symbols > 0:
                mask = ALL if symbols >= 64 else (ONE << np.uint64(symbols)) - ONE
                out[i] += popcount(state[2 * word * L1 + i] & mask)
                out[i] -= popcount(state[(2 * word + 1) * L1 + i] & mask)


@njit(nogil=True, cache=True)
def _build_masks(codes, offsets, group, strip, masks, slots):
    """Set the masks of a strip of a group of documents, and the slots of their symbols."""
    used = 1
    for lane in range(len(group)):
        first = offsets[group[lane]] + strip * STRIP
        for k in range(first, min(first + STRIP, offsets[group[lane] + 1])):
            slot = slots[codes[k]]
            if slot == 0:
                slot = used
                slots[codes[k]] = slot
                masks[slot] = 0
                used += 1
            bit = k - first
            masks[slot, (bit >> 6) * L1 + lane] |= ONE << np.uint64(bit & 63)


@njit(nogil=True, cache=True)
def _forget_slots(codes, offsets, group, strip, slots):
    for lane in range(len(group)):
        first = offsets[group[lane]] + strip * STRIP
        for k in range(first, min(first + STRIP, offsets[group[lane] + 1])):
            slots[codes[k]] = 0


@njit(nogil=True, cache=True)
def fill_distances(
    codes, offsets, order, row_codes, row_offsets, picks, destinations, first_group, end_group, first_row,
    end_row, symmetric, alphabet, out,
):  # fmt: skip
    """Fill out[destinations[i], c] with the distance of row document picks[i] to column document order[c].

    Rows are first_row..end_row; columns are the groups first_group..end_group of 32 documents.
    """
    n = len(order)
    slots = np.zeros(alphabet, np.int32)
    masks = np.zeros((min(alphabet, LANES * STRIP) + 1, L2), np.uint64)
    state = np.empty(4 * LANES, np.uint64)
    capacity = CHUNK // 64
    for i in range(first_row, end_row):
        capacity = max(capacity, (row_offsets[picks[i] + 1] - row_offsets[picks[i]] + 63) // 64)
    queues = np.empty((capacity, L2), np.uint64)
    for g in range(first_group, end_group):
        group = order[g * LANES : min((g + 1) * LANES, n)]
        lengths = offsets[group + 1] - offsets[group]
        # The last row of a group has no later column: a very long document is not compared with itself.
        end = min(end_row, g * LANES + len(group) - 1) if symmetric else end_row
        row = first_row
        while row < end:
            stop, blocks = row, 0
            while stop < end:
                more = (row_offsets[picks[stop] + 1] - row_offsets[picks[stop]] + 63) // 64
                if blocks + more > capacity:
                    break
                blocks += more
                stop += 1
            for i in range(row, stop):
                length = row_offsets[picks[i] + 1] - row_offsets[picks[i]]
                out[destinations[i], g * LANES : g * LANES + len(group)] = length
            queues[:blocks, :L1] = ALL
            queues[:blocks, L1:] = 0
            for strip in range((lengths[-1] + STRIP - 1) // STRIP):
                _build_masks(codes, offsets, group, strip, masks, slots)
                block = 0
                for i in range(row, stop):
                    text = row_codes[row_offsets[picks[i]] : row_offsets[picks[i] + 1]]
                    length = (len(text) + 63) // 64
                    _through_strip(masks, slots, text, queues[block : block + length], state)
                    differences = out[destinations[i], g * LANES : g * LANES + len(group)]
                    _add_differences(state, lengths, strip, differences)
                    block += length
                _forget_slots(codes, offsets, group, strip, slots)
            row = stop


class EditRows(ABC):
    """Kernel values and distances against fixed documents, on their device (`KernelRows`)."""

    def __init__(self, kernel: Any, documents: Documents, device: Device) -> None:
        self.kernel, self.documents, self.device, self.n = kernel, documents, device, len(documents)

    @abstractmethod
    def compare(
        self, others: Documents, picks: Ints | None, dtype: Any, progress: Progress | None = None
    ) -> Array:
        """Values (float32) or distances (int32) of others[picks]; the symmetric matrix if picks is None."""

    def diag(self) -> Array:
        with devices.use(self.device):
            return devices.array_module(self.device).ones(self.n, np.float32)

    def rows(self, indices: Ints) -> Array:
        return self.compare(self.documents, np.asarray(indices, np.int64), np.float32)

    def gram(self, progress: Progress | None = None) -> Array:
        return self.compare(self.documents, None, np.float32, progress)

    def cross(self, others: Documents, progress: Progress | None = None) -> Array:
        return self.compare(others, np.arange(len(others)), np.float32, progress)

    def distances(self, others: Documents) -> Array:
        """d(others, documents), shape (len(others), n)."""
        return self.compare(others, np.arange(len(others)), np.int32)

    def distances_gram(self, progress: Progress | None = None) -> Array:
        """d(documents, documents), shape (n, n), of which half is computed."""
        return self.compare(self.documents, None, np.int32, progress)


def fits(*documents: Documents) -> bool:
    """Whether 16 bits hold the codes without renumbering."""
    return all(len(corpus.alphabet) <= MAX_SYMBOLS + 1 for corpus in documents)


def narrow_runs(
    others: Documents, picks: Ints, columns: Documents, most: int = MAX_SYMBOLS
) -> Iterator[tuple[slice, Documents, Documents]]:
    """Yield runs of `picks`, their documents and all columns, both renumbered to 16 bits.

    Raises InputError if a row document has more than `most` distinct symbols.
    """
    first = 0
    for last in _run_ends(others, picks, most):
        rows = others.take(picks[first:last])
        used = np.unique(rows.codes)
        code_of = np.full(max(len(rows.alphabet), len(columns.alphabet)), len(used), np.uint16)
        code_of[used] = np.arange(len(used))
        numbers = np.arange(len(used) + 1, dtype=np.uint32)
        narrow_rows = Documents(code_of[rows.codes], rows.offsets, numbers[:-1])
        yield slice(first, last), narrow_rows, Documents(code_of[columns.codes], columns.offsets, numbers)
        first = last


def _run_ends(others: Documents, picks: Ints, most: int) -> Iterator[int]:
    """Yield the ends of runs of row documents with at most `most` distinct symbols."""
    run_of, run, distinct = np.full(len(others.alphabet), -1, np.int64), 0, 0
    for k, d in enumerate(picks):
        symbols = np.unique(others.codes[others.offsets[d] : others.offsets[d + 1]])
        if len(symbols) > most:
            raise InputError(
                f"a document has {len(symbols):,} distinct symbols, and edit distances on a GPU support "
                f"at most {most:,}; shorten the documents (--max-length), or run with --device cpu"
            )
        new = int((run_of[symbols] != run).sum())
        if distinct + new > most:
            yield k
            run, distinct, new = run + 1, 0, len(symbols)
        run_of[symbols] = run
        distinct += new
    if len(picks):
        yield len(picks)
