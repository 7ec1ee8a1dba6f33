"""Edit-distance kernel: ``k(s, t) = exp(-gamma d(s, t))``, d the Levenshtein distance with unit costs.

With ``relative``, d is divided by ``max(|s|, |t|)`` (and is 0 for two empty strings). k(s, s) = 1: there is
nothing to normalise. The kernel is not positive semi-definite in general; the solver stands that.

The distance, bit-parallel (Myers 1999, J. ACM 46(3); Hyyrö 2003)
-----------------------------------------------------------------
D(i, j) is the distance of the first i symbols of the *pattern* and the first j of the *text*. Neighbours in
that table differ by -1, 0 or +1, so 64 of them in a column fit into two words, one bit a pattern symbol:
``vp`` (D(i, j) - D(i-1, j) = +1) and ``vn`` (= -1). With ``eq`` the mask of the pattern symbols equal to text
symbol j, and ``hp``, ``hn`` the same for the differences along a row, one column costs

    d0 = (((eq & vp) + vp) ^ vp) | eq | vn        D(i, j) = D(i-1, j-1)
    hp = vn | ~(d0 | vp),    hn = vp & d0
    hp = hp << 1 | hp_in,    hn = hn << 1 | hn_in
    vp = hn | ~(d0 | hp),    vn = hp & d0

A word gets hp, hn of the row above it (and eq | hn_in in place of eq in the first line); the topmost gets
hp = 1, for D(0, j) = j. After the last column D(m, n) = n + popcount(vp) - popcount(vn) over the pattern.

CPU twin. 32 column documents of like length are patterns side by side, one a lane, and every row document
is the text of all of them at once: their masks of one text symbol are neighbours in memory, and LLVM turns
the loop over lanes into vector instructions. A strip is 2 words = 128 pattern symbols of each lane; hp and
hn leave it as one bit a text symbol and enter the strip below (``queues``), so that no length is special.

    masks     uint64, (slots, 2 * 32)    word * 32 + lane; a slot for each symbol of the strip, slot 0: none
    queues    uint64, (blocks, 2 * 32)   hp and hn of 64 text symbols, the next one is the lowest bit

CUDA twin. The other way round: a row document is the pattern, its masks are in shared memory, and each
thread has a column document as its text. With pattern symbol i at bit i / W of word i % W the shifts become
register names, and because hn is where the addition carries, hn << 1 needs no instruction of its own;
kernels_cu/edit.cu tells how. About 6.5 integer instructions for 32 cells. Rows are sorted by length and taken
by the variant (words W, patterns a word, strips or not) that wastes least.

A symmetric matrix computes one pair of two, in the order of length, and copies.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

from textsvm.device import Device
from textsvm.documents import Documents
from textsvm.errors import InputError
from textsvm.kernels.base import HostRows, Kernel, KernelRows
from textsvm.kernels.edit_cuda import DEFINE_SETS, CudaEdit
from textsvm.parallel import Progress, run

__all__ = ["DEFINE_SETS", "EditDistance", "HostEdit"]

LANES = 32
STRIP = 128  # pattern symbols a strip, two words
CHUNK = 1 << 16  # text symbols that go through a strip together: their queues stay in the L2 cache
PIECE = 1e10  # table cells between two looks at the clock

# Offsets of the rows of `state`, `queues` and `masks`, known when compiled: one aliasing check, not twenty.
L1, L2, L3 = LANES, 2 * LANES, 3 * LANES
ONE, ALL, HIGH, LAST = np.uint64(1), np.uint64(2**64 - 1), np.uint64(1 << 63), np.uint64(63)


class EditDistance(Kernel):
    """exp(-gamma d(s, t)), d the edit distance (insertions, deletions, substitutions cost 1).

    Parameters
    ----------
    gamma : float
        Per edit; or, with `relative`, for strings that have nothing in common.
    relative : bool
        Divide the distance by the length of the longer string.
    """

    name: ClassVar[str] = "edit"

    def __init__(self, gamma: float = 0.05, relative: bool = False) -> None:
        self.gamma = gamma
        self.relative = relative

    def check(self) -> None:
        if not (isinstance(self.gamma, int | float | np.number) and 0 < self.gamma < math.inf):
            raise InputError(f"gamma={self.gamma!r} of the edit-distance kernel must be a number above 0")

    def rows(self, documents: Documents, device: Device) -> KernelRows:
        """Prepare `documents` as the columns of rows to come."""
        self.check()
        if device.kind == "cuda":
            return CudaEdit(self, documents, device)
        return HostEdit(self, documents, device)

    def values(
        self,
        distances: NDArray[np.int32],
        row_lengths: NDArray[np.int64],
        column_lengths: NDArray[np.int64],
    ) -> NDArray[np.float32]:
        """Kernel values of distances: a grid over gamma shares one distance matrix.

        Parameters
        ----------
        distances : int32 array, shape (m, n)
        row_lengths, column_lengths : int64 arrays, shapes (m,) and (n,)
            Symbols of the documents; looked at only if `relative`.
        """
        out = np.empty(distances.shape, np.float32)
        self._fill(distances, row_lengths, column_lengths, out)
        return out

    def _fill(self, distances: Any, row_lengths: Any, column_lengths: Any, out: Any) -> None:
        if self.relative:
            longer = np.maximum(np.maximum(row_lengths[:, None], column_lengths), 1)
            out[...] = np.exp(-self.gamma * (distances / longer))
        elif distances.size:
            of_distance = np.exp(-self.gamma * np.arange(int(distances.max()) + 1)).astype(np.float32)
            out[...] = of_distance[distances]


class HostEdit(HostRows):
    """Kernel values and distances against fixed documents, on the CPU (`KernelRows`)."""

    def __init__(self, kernel: EditDistance, documents: Documents, device: Device) -> None:
        self.kernel, self.documents, self.device = kernel, documents, device
        self.n = len(documents)
        self.lengths = documents.lengths
        self.order = np.argsort(self.lengths, kind="stable")
        self.place = np.empty_like(self.order)
        self.place[self.order] = np.arange(self.n)
        self.codes, self.offsets = documents.codes.astype(np.uint16), np.array(documents.offsets)

    def diag(self) -> NDArray[np.float32]:
        return np.ones(self.n, np.float32)

    def rows(self, indices: NDArray[np.int64]) -> NDArray[np.float32]:
        return self._values(self.documents, np.asarray(indices, np.int64), None)

    def cross(self, others: Documents, progress: Progress | None = None) -> NDArray[np.float32]:
        return self._values(others, np.arange(len(others)), progress)

    def gram(self, progress: Progress | None = None) -> NDArray[np.float32]:
        out = np.empty((self.n, self.n), np.float32)
        self._half(out.view(np.int32), progress)
        self._finish(out.view(np.int32), self.lengths, out)
        return out

    def distances(self, others: Documents, progress: Progress | None = None) -> NDArray[np.int32]:
        """d(others, documents), int32, shape (len(others), n)."""
        out = np.empty((len(others), self.n), np.int32)
        self._block(others, np.arange(len(others)), out, progress)
        self._finish(out, None, out)
        return out

    def distances_gram(self, progress: Progress | None = None) -> NDArray[np.int32]:
        """d(documents, documents), int32, shape (n, n), one half of it computed."""
        out = np.empty((self.n, self.n), np.int32)
        self._half(out, progress)
        self._finish(out, None, out)
        return out

    def gram_of(self, kernel: EditDistance, distances: NDArray[np.int32]) -> NDArray[np.float32]:
        """The matrix of another gamma from `distances_gram`."""
        out = np.empty((self.n, self.n), np.float32)
        batch = max(1, (1 << 18) // max(self.n, 1))

        def fill(first: int) -> None:
            rows = slice(first, first + batch)
            kernel._fill(distances[rows], self.lengths[rows], self.lengths, out[rows])

        run(fill, range(0, self.n, batch))
        return out

    def _values(
        self, others: Documents, picks: NDArray[np.int64], progress: Progress | None
    ) -> NDArray[np.float32]:
        out = np.empty((len(picks), self.n), np.float32)
        self._block(others, picks, out.view(np.int32), progress)
        self._finish(out.view(np.int32), others.lengths[picks], out)
        return out

    def _half(self, out: NDArray[np.int32], progress: Progress | None) -> None:
        """All distances of the symmetric matrix, columns in the order of length."""
        self._block(self.documents, self.order, out, progress, symmetric=True)
        mirror_tile = 8 * LANES
        tiles = [slice(i, i + mirror_tile) for i in range(0, self.n, mirror_tile)]

        def mirror(i: int) -> None:
            for j in range(i):
                out[self.order[tiles[i]], tiles[j]] = out[self.order[tiles[j]], tiles[i]].T
            upper = np.triu(out[self.order[tiles[i]], tiles[i]], 1)
            out[self.order[tiles[i]], tiles[i]] = upper + upper.T

        run(mirror, range(len(tiles)))

    def _block(
        self,
        others: Documents,
        picks: NDArray[np.int64],
        out: NDArray[np.int32],
        progress: Progress | None,
        symmetric: bool = False,
    ) -> None:
        """Distances of others[picks] to the columns in the order of length, or of the half that is needed.

        Symmetric: the picks are `order` itself, and their rows go where the documents are.
        """
        destinations = self.order if symmetric else np.arange(len(picks))
        # Copies, since Numba would compile again for arrays that are read-only.
        codes, offsets = others.codes.astype(np.uint16), np.array(others.offsets)
        alphabet = max(len(others.alphabet), len(self.documents.alphabet))
        pieces, work = self._pieces(others.lengths[picks], symmetric)

        def piece(bounds: tuple[int, int, int, int]) -> None:
            _distances(
                self.codes, self.offsets, self.order, codes, offsets, picks, destinations,
                *bounds, symmetric, alphabet, out,
            )  # fmt: skip

        run(piece, pieces, work, progress)

    def _pieces(
        self, row_lengths: NDArray[np.int64], symmetric: bool
    ) -> tuple[list[tuple[int, int, int, int]], list[float]]:
        """Cut (groups of columns) x (rows) into pieces of bounded work: (group, end, row, end) and cells."""
        m, groups = len(row_lengths), -(-self.n // LANES)
        symbols = np.concatenate([[0], np.cumsum(row_lengths + 8)])
        span = max(1, groups // 64) if not symmetric else 1
        pieces, work = [], []
        for end in range(groups, 0, -span):
            first = max(0, end - span)
            height = (
                (end - first) * LANES * (int(self.lengths[self.order[min(end * LANES, self.n) - 1]]) + STRIP)
            )
            row, last = 0, min(end * LANES, m) if symmetric else m
            while row < last:
                stop = int(np.searchsorted(symbols, symbols[row] + PIECE / height, side="right")) - 1
                stop = min(last, max(row + 1, stop))
                pieces.append((first, end, row, stop))
                work.append(float(height * (symbols[stop] - symbols[row])))
                row = stop
        return pieces, work

    def _finish(self, distances: NDArray[np.int32], row_lengths: Any, out: Any) -> None:
        """Columns from the order of length to that of the documents; with `row_lengths`, kernel values."""
        batch = max(1, (1 << 18) // max(self.n, 1))

        def finish(first: int) -> None:
            rows = slice(first, first + batch)
            ordered = distances[rows][:, self.place]
            if row_lengths is None:
                out[rows] = ordered
            else:
                self.kernel._fill(ordered, row_lengths[rows], self.lengths, out[rows])

        run(finish, range(0, len(distances), batch))


@njit(inline="always")
def _word(eq: Any, vp: Any, vn: Any, hp_in: Any, hn_in: Any) -> Any:
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
def _symbol(
    masks: Any, lane: Any, vp0: Any, vn0: Any, vp1: Any, vn1: Any, hp_queue: Any, hn_queue: Any
) -> Any:
    """One text symbol against both words of a strip."""
    vp0, vn0, hp, hn = _word(masks[lane], vp0, vn0, hp_queue & ONE, hn_queue & ONE)
    vp1, vn1, hp, hn = _word(masks[lane + L1], vp1, vn1, hp >> LAST, hn >> LAST)
    return vp0, vn0, vp1, vn1, (hp_queue >> ONE) | (hp & HIGH), (hn_queue >> ONE) | (hn & HIGH)


@njit(nogil=True, cache=True)
def _four_symbols(a: Any, b: Any, c: Any, d: Any, state: Any, queue: Any) -> None:
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
def _one_symbol(a: Any, state: Any, queue: Any) -> None:
    for i in range(LANES):
        vp0, vn0, vp1, vn1, hp, hn = _symbol(
            a, i, state[i], state[i + L1], state[i + L2], state[i + L3], queue[i], queue[i + L1]
        )
        state[i], state[i + L1], state[i + L2], state[i + L3] = vp0, vn0, vp1, vn1
        queue[i], queue[i + L1] = hp, hn


@njit(nogil=True, cache=True)
def _through_strip(masks: Any, slots: Any, text: Any, queues: Any, state: Any) -> None:
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
def _popcount(x: Any) -> Any:
    # LLVM knows this idiom and uses the instruction where there is one.
    x = x - ((x >> np.uint64(1)) & np.uint64(0x5555555555555555))
    x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
    x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int32((x * np.uint64(0x0101010101010101)) >> np.uint64(56))


@njit(nogil=True, cache=True)
def _add_differences(state: Any, lengths: Any, strip: int, out: Any) -> None:
    """Add this strip's part of D(m, n) - D(0, n) of every lane."""
    for i in range(len(out)):
        for word in range(2):
            symbols = lengths[i] - strip * STRIP - 64 * word
            if symbols > 0:
                mask = ALL if symbols >= 64 else (ONE << np.uint64(symbols)) - ONE
                out[i] += _popcount(state[2 * word * L1 + i] & mask)
                out[i] -= _popcount(state[(2 * word + 1) * L1 + i] & mask)


@njit(nogil=True, cache=True)
def _build_masks(codes: Any, offsets: Any, group: Any, strip: int, masks: Any, slots: Any) -> None:
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
def _forget_slots(codes: Any, offsets: Any, group: Any, strip: int, slots: Any) -> None:
    for lane in range(len(group)):
        first = offsets[group[lane]] + strip * STRIP
        for k in range(first, min(first + STRIP, offsets[group[lane] + 1])):
            slots[codes[k]] = 0


@njit(nogil=True, cache=True)
def _distances(
    codes: Any, offsets: Any, order: Any, row_codes: Any, row_offsets: Any, picks: Any, destinations: Any,
    first_group: int, end_group: int, first_row: int, end_row: int, symmetric: bool, alphabet: int, out: Any,
) -> None:  # fmt: skip
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
