"""Edit distances on the CPU, 32 documents side by side; edit.py has the recurrence and its names.

32 column documents of like length are patterns side by side, one a lane, and every row document
is the text of all of them at once: their masks of one text symbol are neighbours in memory, and LLVM turns
the loop over lanes into vector instructions. A strip is 2 words = 128 pattern symbols of each lane; hp and
hn leave it as one bit a text symbol and enter the strip below (``queues``), so that no length is special.

    masks     uint64, (slots, 2 * 32)    word * 32 + lane; a slot for each symbol of the strip, slot 0: none
    queues    uint64, (blocks, 2 * 32)   hp and hn of 64 text symbols, the next one is the lowest bit

Edit distances on a GPU compare codes of 16 bits: documents over larger alphabets are renumbered for it.

Of a column document, only symbols that a row document has can match. So row documents are taken a run at a
time, of at most 65,535 distinct symbols; these are numbered from 0, and every other symbol of the columns
becomes the one behind them, which no row document has. The distances stay what they are.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from textsvm.errors import InputError
from textsvm.runtime.compiled import njit
from textsvm.text.documents import Documents

LANES = 32
STRIP = 128  # pattern symbols a strip, two words
CHUNK = 1 << 16  # text symbols that go through a strip together: their queues stay in the L2 cache

# Offsets of the rows of `state`, `queues` and `masks`, known when compiled: one aliasing check, not twenty.
L1, L2, L3 = LANES, 2 * LANES, 3 * LANES
ONE, ALL, HIGH, LAST = np.uint64(1), np.uint64(2**64 - 1), np.uint64(1 << 63), np.uint64(63)


@njit(inline="always")
def _word(eq, vp, vn, hp_in, hn_in):
    """One text symbol against 64 pattern symbols: the new vp, vn and this row's hp, hn, not shifted."""
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
    """One text symbol against both words of a strip."""
    vp0, vn0, hp, hn = _word(masks[lane], vp0, vn0, hp_queue & ONE, hn_queue & ONE)
    vp1, vn1, hp, hn = _word(masks[lane + L1], vp1, vn1, hp >> LAST, hn >> LAST)
    return vp0, vn0, vp1, vn1, (hp_queue >> ONE) | (hp & HIGH), (hn_queue >> ONE) | (hn & HIGH)


@njit(nogil=True, cache=True)
def _four_symbols(a, b, c, d, state, queue):
    """Four text symbols with their masks a, b, c, d, all lanes; `state` is vp0, vn0, vp1, vn1."""
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
    """A whole text through one strip."""
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


@njit(inline="always")
def popcount(x):
    # LLVM knows this idiom and uses the instruction where there is one.
    x = x - ((x >> np.uint64(1)) & np.uint64(0x5555555555555555))
    x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
    x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int32((x * np.uint64(0x0101010101010101)) >> np.uint64(56))


@njit(nogil=True, cache=True)
def _add_differences(state, lengths, strip, out):
    """Add this strip's part of D(m, n) - D(0, n) of every lane."""
    for i in range(len(out)):
        for word in range(2):
            symbols = lengths[i] - strip * STRIP - 64 * word
            if symbols > 0:
                mask = ALL if symbols >= 64 else (ONE << np.uint64(symbols)) - ONE
                out[i] += popcount(state[2 * word * L1 + i] & mask)
                out[i] -= popcount(state[(2 * word + 1) * L1 + i] & mask)


@njit(nogil=True, cache=True)
def _build_masks(codes, offsets, group, strip, masks, slots):
    """The masks of one strip of the documents of a group, and the slots of their symbols."""
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
    codes,
    offsets,
    order,
    row_codes,
    row_offsets,
    picks,
    destinations,
    first_group,
    end_group,
    first_row,
    end_row,
    symmetric,
    alphabet,
    out,
):
    """Distances of row documents `picks` to the columns order[32 * first_group : 32 * end_group].

    out[destinations[i], c] is that of row document picks[i] and column document order[c].
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
        # The longest document of a group has nothing to its right: a lone giant is not compared with itself.
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


#: Distinct symbols of row documents that are compared together.
MOST = (1 << 16) - 1


def fits(*documents: Documents) -> bool:
    """Whether 16 bits hold the codes as they are."""
    return all(len(each.alphabet) <= MOST + 1 for each in documents)


def narrow_runs(
    others: Documents, picks: NDArray[np.int64], columns: Documents, most: int = MOST
) -> Iterator[tuple[slice, Documents, Documents]]:
    """Runs of `picks`, their documents and all columns, renumbered together to 16 bits.

    Raises
    ------
    InputError
        If one row document has more than `most` distinct symbols.
    """
    first = 0
    for last in _ends(others, picks, most):
        yield slice(first, last), *_renumbered(others.take(picks[first:last]), columns)
        first = last


def _ends(others: Documents, picks: NDArray[np.int64], most: int) -> Iterator[int]:
    """Where runs end."""
    run_of, run, distinct = np.full(len(others.alphabet), -1, np.int64), 0, 0
    for place, d in enumerate(picks):
        symbols = np.unique(others.codes[others.offsets[d] : others.offsets[d + 1]])
        if len(symbols) > most:
            raise InputError(
                f"a document has {len(symbols):,} distinct symbols and edit distances on a GPU tell {most:,} "
                "apart; shorten the documents (--max-length), or run with --device cpu"
            )
        new = int((run_of[symbols] != run).sum())
        if distinct + new > most:
            yield place
            run, distinct, new = run + 1, 0, len(symbols)
        run_of[symbols] = run
        distinct += new
    if len(picks):
        yield len(picks)


def _renumbered(rows: Documents, columns: Documents) -> tuple[Documents, Documents]:
    used = np.unique(rows.codes)
    code_of = np.full(max(len(rows.alphabet), len(columns.alphabet)), len(used), np.uint16)
    code_of[used] = np.arange(len(used))
    numbers = np.arange(len(used) + 1, dtype=np.uint32)
    of_rows = Documents(code_of[rows.codes], rows.offsets, numbers[:-1])
    return of_rows, Documents(code_of[columns.codes], columns.offsets, numbers)
