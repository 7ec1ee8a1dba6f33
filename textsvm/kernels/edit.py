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
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

from textsvm import device as gpu
from textsvm.device import Device
from textsvm.documents import Documents
from textsvm.errors import InputError
from textsvm.kernels.base import HostRows, Kernel, KernelRows
from textsvm.parallel import Progress, run

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

    def against(self, documents: Documents, device: Device) -> KernelRows:
        """Prepare `documents` as the columns of rows to come."""
        self.check()
        if device.kind == "cuda":
            return CudaEditRows(self, documents, device)
        return EditRows(self, documents)

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


class EditRows(HostRows):
    """Kernel values and distances against fixed documents, on the CPU (`KernelRows`)."""

    def __init__(self, kernel: EditDistance, documents: Documents) -> None:
        self.kernel = kernel
        self.documents = documents
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
        end = min(end_row, (g + 1) * LANES) if symmetric else end_row
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


@dataclass(frozen=True)
class Variant:
    """How a row document is laid out in words (see kernels_cu/edit.cu)."""

    words: int
    fields: int
    strips: bool

    def defines(self, wide: bool) -> tuple[tuple[str, int | str], ...]:
        return (
            ("WORDS", self.words),
            ("FIELDS", self.fields),
            ("STRIPS", int(self.strips)),
            ("WIDE", int(wide)),
        )


SHORT = [Variant(words, 4, False) for words in (4, 7, 10, 13, 16)]  # up to 8 * words - 1 symbols
MIDDLE = [Variant(words, 1, False) for words in (5, 6, 7, 8, 10, 12, 14, 16)]  # up to 32 * words symbols
LONG = [Variant(words, 1, True) for words in (10, 12, 14, 16)]  # strips of 32 * words symbols
THREADS = 256
LAUNCH = 2e13  # table cells a launch: between two looks at the clock

#: What may be launched: (source, defines).
DEFINE_SETS = [
    ("edit.cu", (("PACK", 1),)),
    *(("edit.cu", v.defines(wide)) for wide in (False, True) for v in SHORT + MIDDLE + LONG),
]


def _variants(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Index into SHORT + MIDDLE + LONG: the layout that wastes least for row documents of these lengths."""
    limits = [8 * v.words - 1 for v in SHORT] + [32 * v.words for v in MIDDLE]
    a_strip = -(-lengths // np.maximum(-(-lengths // 512), 1))
    long = len(limits) + np.searchsorted([32 * v.words for v in LONG], a_strip)
    return np.where(lengths > limits[-1], long, np.searchsorted(limits, lengths))


class _Texts:
    """Column documents on the device: in the order of length, 32 side by side, two symbols a word.

    patterns_alphabet: symbols from this one on are in no row document; None if they may be.
    """

    def __init__(self, documents: Documents, codes: Any, offsets: Any, patterns_alphabet: int | None) -> None:
        cp = gpu.cupy()
        self.n = -(-len(documents) // LANES) * LANES
        self.alphabet = max(1, len(documents.alphabet))
        if patterns_alphabet is not None:
            self.alphabet = min(self.alphabet, patterns_alphabet + 1)
        self.wide = self.alphabet > 256
        order = np.argsort(documents.lengths, kind="stable")
        lengths, columns = np.zeros(self.n, np.int32), np.full(self.n, -1, np.int32)
        lengths[: len(order)], columns[: len(order)] = documents.lengths[order], order
        self.longest, self.symbols = int(lengths.max(initial=0)), int(lengths.sum())
        group_words = np.zeros(self.n // LANES + 1, np.int64)
        np.cumsum((lengths.reshape(-1, LANES).max(1, initial=0) + 1) // 2 * LANES, out=group_words[1:])
        gpu.require_memory(4 * int(group_words[-1]), "the packed documents")
        self.words = cp.empty(max(1, int(group_words[-1])), cp.uint32)
        self.group_words, self.lengths, self.columns = map(cp.asarray, (group_words, lengths, columns))
        if self.n:
            gpu.load("edit.cu", DEFINE_SETS[0][1]).get_function("pack_texts")(
                (self.n // LANES,),
                (THREADS,),
                (
                    codes, offsets, cp.asarray(order), np.int32(len(order)), self.group_words,
                    np.int32(self.alphabet - 1), np.int32(1 if self.wide else 4), self.words,
                ),
            )  # fmt: skip


class CudaEditRows:
    """Kernel values and distances against fixed documents, on a GPU (`KernelRows`)."""

    def __init__(self, kernel: EditDistance, documents: Documents, device: Device) -> None:
        self.kernel, self.documents, self.device = kernel, documents, device
        self.n = len(documents)
        with gpu.use(device):
            self._codes, self._offsets = _upload(documents)
            self._texts = _Texts(documents, self._codes, self._offsets, None)

    def diag(self) -> Any:
        with gpu.use(self.device):
            return gpu.cupy().ones(self.n, np.float32)

    def rows(self, indices: NDArray[np.int64]) -> Any:
        return self._block(self.documents, np.asarray(indices, np.int64), np.float32)

    def gram(self, progress: Progress | None = None) -> Any:
        return self._block(self.documents, None, np.float32, progress)

    def cross(self, others: Documents, progress: Progress | None = None) -> Any:
        return self._block(others, np.arange(len(others)), np.float32, progress)

    def distances(self, others: Documents, progress: Progress | None = None) -> Any:
        """d(others, documents), int32, shape (len(others), n), on the device."""
        return self._block(others, np.arange(len(others)), np.int32, progress)

    def distances_gram(self, progress: Progress | None = None) -> Any:
        """d(documents, documents), int32, shape (n, n), on the device, one half of it computed."""
        return self._block(self.documents, None, np.int32, progress)

    def decision(
        self, others: Documents, coef: NDArray[np.float64], progress: Progress | None = None
    ) -> NDArray[np.float64]:
        """k(others, documents) @ coef in one pass: coef (n, k) -> (len(others), k), on the host.

        The documents are the patterns here and each thread sums over them for one of the others: no
        matrix of kernel values exists.
        """
        cp = gpu.cupy()
        coef = np.ascontiguousarray(coef, np.float64)
        with gpu.use(self.device):
            texts = _Texts(others, *_upload(others), len(self.documents.alphabet))
            sums, parts = cp.zeros((coef.shape[1], texts.n)), []
            job = _Job(self.kernel, self.documents, self._codes, self._offsets, texts, 1)
            job.run(np.arange(self.n), progress, lambda launch: parts.append(launch.sums(coef)))
            for part in parts:
                sums += part.sum(axis=0)
            values = np.empty((len(others), coef.shape[1]))
            values[texts.columns.get()[: len(others)]] = sums.get().T[: len(others)]
            return values

    def _block(
        self,
        others: Documents,
        picks: NDArray[np.int64] | None,
        dtype: Any,
        progress: Progress | None = None,
    ) -> Any:
        """Values or distances of others[picks]; without picks, the symmetric matrix."""
        symmetric = picks is None
        order = np.arange(self.n) if picks is None else picks
        with gpu.use(self.device):
            what = f"the {len(order):,} x {self.n:,} matrix of the edit-distance kernel"
            gpu.require_memory(4 * len(order) * self.n, what, "lower --memory, or run with --device cpu")
            out = gpu.cupy().empty((len(order), self.n), dtype)
            own = others is self.documents
            codes, offsets = (self._codes, self._offsets) if own else _upload(others)
            kind = 0 if dtype == np.int32 else 1
            job = _Job(self.kernel, others, codes, offsets, self._texts, kind, symmetric)
            job.run(order, progress, lambda launch: launch.fill(out))
            return out


class _Job:
    """Row documents against texts, cut into launches."""

    def __init__(
        self, kernel: EditDistance, documents: Documents, codes: Any, offsets: Any,
        texts: _Texts, kind: int, symmetric: bool = False,
    ) -> None:  # fmt: skip
        cp = gpu.cupy()
        self.codes, self.offsets, self.texts, self.symmetric = codes, offsets, texts, symmetric
        self.all_lengths = documents.lengths
        self.kind, self.gamma = 2 if kind and kernel.relative else kind, kernel.gamma
        longest = max(texts.longest, int(self.all_lengths.max(initial=0)))
        table = np.exp(-kernel.gamma * np.arange(longest + 1 if self.kind == 1 else 1))
        self.of_distance = cp.asarray(table.astype(np.float32))
        self.processors = cp.cuda.Device().attributes["MultiProcessorCount"]

    def run(
        self, picks: NDArray[np.int64], progress: Progress | None, act: Callable[[_Launch], None]
    ) -> None:
        """Call `act` for every launch, several at a time: one that ends leaves no processor idle."""
        cp = gpu.cupy()
        here = cp.cuda.get_current_stream()
        launches = list(self.launches(picks))
        total, done = sum(launch.work for launch in launches), 0.0
        side = [cp.cuda.Stream(non_blocking=True) for _ in launches[:STREAMS]]
        for first in range(0, len(launches), STREAMS):
            together = launches[first : first + STREAMS]
            for launch in together:
                launch.prepare()
            ready = here.record()
            for launch, stream in zip(together, side, strict=False):
                stream.wait_event(ready)
                with stream:
                    act(launch)
                here.wait_event(stream.record())
            done += sum(launch.work for launch in together)
            if progress is not None:
                here.synchronize()
                progress(done, total)

class _Launch:
    """One launch of `edit_rows`: documents of one variant, in descending order of length."""

    def __init__(
        self, job: _Job, variant: Variant, documents: NDArray[np.int64], rows: NDArray[np.int64],
        places: NDArray[np.int64],
    ) -> None:  # fmt: skip
        self.job, self.variant = job, variant
        self.packs = -(-len(rows) // variant.fields)
        self.documents, self.rows, self.places = (self._padded(x) for x in (documents, rows, places))
        self.text_blocks = -(-job.texts.n // THREADS)

    def _padded(self, indices: NDArray[np.int64]) -> NDArray[np.int32]:
        padded = np.full(self.packs * self.variant.fields, -1, np.int32)
        padded[: len(indices)] = indices
        return padded

    def fill(self, out: Any) -> None:
        """Write the rows of `out`."""
        self._launch(1, out, np.empty((0, 0)), None)

    def sums(self, coef: NDArray[np.float64]) -> Any:
        """Sum of coef[document, k] times the value of each text, shape (k, texts)."""
        chunks = min(self.packs, max(1, 16 * self.job.processors // self.text_blocks))
        span = -(-self.packs // chunks)
        sums = gpu.cupy().zeros((-(-self.packs // span), coef.shape[1], self.job.texts.n))
        self._launch(span, None, coef[self.documents], sums)
        return sums.sum(axis=0)

    def _launch(self, span: int, out: Any, coefficients: NDArray[np.float64], sums: Any) -> None:
        cp, job, texts = gpu.cupy(), self.job, self.job.texts
        module = gpu.load("edit.cu", self.variant.defines(texts.wide))
        blocks = min(-(-self.packs // span) * self.text_blocks, 8 * job.processors)
        scratch_words = 2 * THREADS * -(-texts.longest // 32) if self.variant.strips else 0
        scratch_words += (texts.alphabet + 1) // 2 if texts.wide else 0
        if scratch_words:
            blocks = max(1, min(blocks, gpu.free_memory() // 2 // (4 * scratch_words)))
            gpu.require_memory(4 * scratch_words * blocks, "scratch space of the edit-distance kernel")
        scratch = cp.empty(max(1, blocks * scratch_words), cp.uint32)
        arguments = (
            job.codes, job.offsets, *map(cp.asarray, (self.documents, self.rows, self.places)),
            np.int32(self.packs), np.int32(span),
            texts.words, texts.group_words, texts.lengths, texts.columns,
            np.int32(texts.n), np.int32(texts.alphabet),
            scratch, np.int64(scratch_words), cp.zeros(1, np.int32),
            np.int32(job.kind), job.of_distance, np.float32(job.gamma), np.int32(job.symmetric),
            np.int64(0) if out is None else out, np.int64(0 if out is None else out.shape[1]),
            cp.asarray(coefficients), np.int32(coefficients.shape[1]), np.int64(0) if sums is None else sums,
        )  # fmt: skip
        module.get_function("edit_rows")((blocks,), (THREADS,), arguments)


def _upload(documents: Documents) -> tuple[Any, Any]:
    cp = gpu.cupy()
    gpu.require_memory(2 * len(documents.codes) + 8 * len(documents.offsets), "the documents")
    return cp.asarray(documents.codes.astype(np.uint16)), cp.asarray(np.array(documents.offsets))
