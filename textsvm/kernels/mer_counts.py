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
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.compiled import njit
from textsvm.kernels.mer_words import BITS
from textsvm.simd import (
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
