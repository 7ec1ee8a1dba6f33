"""The edit distance of two strings, given up once it is above a limit; edit.py has the recurrence.

Cells whose values can be within the limit have |i - j| <= limit (Ukkonen 1985), so a column needs few words:

    a pattern of up to 64 symbols      all of it is one word
    a limit of up to 31                one word slides along the diagonal (Hyyrö 2003)
    else                               the words that have such cells; above and below values are only larger

Masks are those of the pattern, made once for all texts that it is compared with:

    masks    uint64, (slots, words + 2)    slot 0: none; two words more, so that a window never ends outside
    slots    int32, (alphabet,)            0 for symbols that the pattern has not
"""

from __future__ import annotations

from typing import Any

import numpy as np

from textsvm.compiled import njit
from textsvm.kernels.edit_strips import popcount

ONE, ALL, TOP, ZERO = np.uint64(1), np.uint64(2**64 - 1), np.uint64(1 << 63), np.uint64(0)
#: Text symbols between two looks at whether any cell is still within the limit.
LOOK = 32


@njit(nogil=True, cache=True)
def add_masks(pattern: Any, masks: Any, slots: Any) -> None:
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
def remove_masks(pattern: Any, masks: Any, slots: Any) -> None:
    """Set them to 0 again."""
    for k in range(len(pattern)):
        masks[slots[pattern[k]], k >> 6] = ZERO
    for k in range(len(pattern)):
        slots[pattern[k]] = 0


@njit(nogil=True, cache=True)
def bounded_distance(masks: Any, slots: Any, length: Any, text: Any, limit: Any, state: Any) -> Any:
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
def _one_word(masks: Any, slots: Any, length: int, text: Any, limit: int) -> Any:
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
def _window(masks: Any, slot: int, start: int) -> Any:
    """64 bits of a mask from pattern symbol `start` on."""
    if start < 0:
        return masks[slot, 0] << np.uint64(-start)
    word, shift = start >> 6, np.uint64(start & 63)
    low = masks[slot, word] >> shift
    return low | ((masks[slot, word + 1] << ONE) << (np.uint64(63) - shift))


@njit(inline="always")
def _one_diagonal(masks: Any, slots: Any, length: Any, text: Any, limit: Any) -> Any:
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
def _banded(masks: Any, slots: Any, length: Any, text: Any, limit: Any, state: Any) -> Any:
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
def _hopeless(
    vps: Any, vns: Any, first: int, end: int, words: int, length: int, distance: int, limit: int
) -> bool:
    """Whether all cells of a column are above the limit: inside of a word none is far below its ends."""
    for w in range(end - 1, first - 1, -1):
        height = length - 64 * w if w == words - 1 else 64
        valid = ALL if height == 64 else (ONE << np.uint64(height)) - ONE
        above = distance - popcount(vps[w] & valid) + popcount(vns[w] & valid)
        if (above + distance - height) // 2 <= limit:
            return False
        distance = above
    return True
