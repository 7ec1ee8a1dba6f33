"""Documents -> p-mers (contiguous substrings of length p): exact integer ids and sparse counts.

Ids are ranks, never hashes. The id of a symbol is its code. A window of length q is a window of
length a at its start and one of length b at its end, max(a, b) < q <= a + b (they may overlap), so

    key = id_a(start) * size_b + id_b(end)                  (both below 2^31: a key fits 64 bits)

and its id is the rank of its key among the distinct keys of the documents. Lengths double, 1, 2, 4,
..., until the shortest length asked for, and grow by one symbol from there; so 64 symbols take seven
steps and no packed word limits p or the alphabet. The distinct keys of every length are the whole
vocabulary: they map the p-mers of other documents to these ids exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from textsvm.documents import Documents
from textsvm.parallel import n_threads, run

Array = NDArray[Any]

#: Pieces of work a thread gets: enough to even out unequal documents.
PIECES = 4


def plan(p1: int, p2: int) -> list[tuple[int, int, int]]:
    """The steps (q, a, b), in order, that lead to every length p1..p2."""
    lengths, steps = [1], []
    while lengths[-1] < p2:
        q = 2 * lengths[-1]
        q = q if q < p1 else max(p1, lengths[-1] + 1)
        a = lengths[-1]
        b = next(length for length in lengths if length >= q - a)
        steps.append((q, a, b))
        lengths.append(q)
    return steps


@dataclass(frozen=True)
class Vocabulary:
    """The distinct p-mers of some documents, for every length p1..p2.

    Attributes
    ----------
    p1, p2 : int
    n_symbols : int
        Size of the alphabet.
    keys : dict of int -> uint64 array
        Sorted distinct keys of each length of `plan`; the id of a window is the rank of its key.
    """

    p1: int
    p2: int
    n_symbols: int
    keys: dict[int, NDArray[np.uint64]]

    def size(self, length: int) -> int:
        """Number of distinct p-mers of one length."""
        return self.n_symbols if length == 1 else len(self.keys[length])

    @property
    def first(self) -> NDArray[np.int64]:
        """Where the p-mers of each length p1..p2 start when all are numbered through, and their sum."""
        return np.cumsum([0] + [self.size(q) for q in range(self.p1, self.p2 + 1)])

    def find(self, other: Vocabulary) -> NDArray[np.int64]:
        """Where each p-mer of `other` (numbered through) is here; -1 if it is not.

        The alphabet of one must be a prefix of the other's, or the same.
        """
        parts = [
            np.where(ids >= 0, ids + base, -1)
            for ids, base in zip(self.find_each(other), self.first, strict=False)
        ]
        return np.concatenate(parts)

    def find_each(self, other: Vocabulary) -> Iterator[NDArray[np.int64]]:
        """The same for one length after the other, numbered within it; `other` may get its keys meanwhile."""
        symbols = np.arange(other.n_symbols, dtype=np.int64)
        ids = {1: np.where(symbols < self.n_symbols, symbols, -1)}
        if self.p1 == 1:
            yield ids[1]
        for q, a, b in plan(self.p1, self.p2):
            left, right = np.divmod(other.keys[q], np.uint64(max(other.size(b), 1)))
            left, right = ids[a][left.astype(np.int64)], ids[b][right.astype(np.int64)]
            sought = (left * self.size(b) + right).astype(np.uint64)
            rank = np.searchsorted(self.keys[q], sought)
            inside = np.minimum(rank, max(len(self.keys[q]) - 1, 0))
            known = (left >= 0) & (right >= 0) & (rank < len(self.keys[q]))
            known[known] = self.keys[q][inside[known]] == sought[known]
            ids[q] = np.where(known, rank, -1)
            if q >= self.p1:
                yield ids[q]


@dataclass(frozen=True)
class Counts:
    """How often each document holds each p-mer: the rows of a sparse matrix.

    Attributes
    ----------
    indptr : int64 array, shape (n + 1,)
    features : int32 array, shape (number of entries,)
        Ids, numbered through all lengths (`Vocabulary.first`), in order of first occurrence.
    counts : int32 array, shape (number of entries,)
    """

    indptr: NDArray[np.int64]
    features: NDArray[np.int32]
    counts: NDArray[np.int32]


def count(documents: Documents, p1: int, p2: int) -> tuple[Vocabulary, Counts]:
    """The p-mers of every length p1..p2 in `documents`, and their numbers of occurrences."""
    keys: dict[int, NDArray[np.uint64]] = {}
    parts, base = [], 0
    for q, ids, size in _windows(documents, p1, p2, keys):
        parts.append(_count_length(documents.offsets, q, ids, size, base))
        base += size
    vocabulary = Vocabulary(p1, p2, len(documents.alphabet), keys)
    return vocabulary, _merge(documents.offsets, parts)


def count_each(
    documents: Documents, p1: int, p2: int, keys: dict[int, NDArray[np.uint64]]
) -> Iterator[tuple[int, int, Counts]]:
    """Yield (length, number of p-mers, their counts, numbered from 0) for p1..p2; fill `keys`."""
    for q, ids, size in _windows(documents, p1, p2, keys):
        yield q, size, _merge(documents.offsets, [_count_length(documents.offsets, q, ids, size, 0)])


def _windows(
    documents: Documents, p1: int, p2: int, keys: dict[int, NDArray[np.uint64]]
) -> Iterator[tuple[int, NDArray[np.int32], int]]:
    """Yield (length, id of the window at every position, number of ids); fill `keys`."""
    offsets = documents.offsets
    steps = plan(p1, p2)
    ids = {1: documents.codes.astype(np.int32)}
    sizes = {1: len(documents.alphabet)}
    if p1 == 1:
        yield 1, ids[1], sizes[1]
    for step, (q, a, b) in enumerate(steps):
        keys[q], ids[q] = _pair(offsets, q, ids[a], ids[b], b, sizes[a], sizes[b])
        sizes[q] = len(keys[q])
        if q >= p1:
            yield q, ids[q], sizes[q]
        needed = {q} | {length for later in steps[step + 1 :] for length in later[1:]}
        ids = {length: array for length, array in ids.items() if length in needed}


def _pair(
    offsets: NDArray[np.int64],
    q: int,
    left: NDArray[np.int32],
    right: NDArray[np.int32],
    b: int,
    size_a: int,
    size_b: int,
) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
    """Distinct keys of the windows of length q, and the id of the window at every position."""
    ids = np.empty(len(left), np.int32)
    pieces = _split(offsets)
    if size_a * size_b <= max(1 << 22, 2 * len(left)):
        seen = np.zeros(size_a * size_b, np.uint8)
        run(lambda d: _mark(offsets, d[0], d[1], q, left, right, b, size_b, seen), pieces)
        keys = np.flatnonzero(seen).astype(np.uint64)
        ranks = np.cumsum(seen, dtype=np.int32) - 1
        run(lambda d: _look_up(offsets, d[0], d[1], q, left, right, b, size_b, ranks, ids), pieces)
        return keys, ids
    numbers = np.maximum(np.diff(offsets) - q + 1, 0)
    starts = np.concatenate([[0], np.cumsum(numbers)])
    windows = np.empty(starts[-1], np.uint64)
    run(lambda d: _keys(offsets, d[0], d[1], q, left, right, b, size_b, starts, windows), pieces)
    distinct, ranks = _rank(windows, size_a * size_b)
    run(lambda d: _scatter(offsets, d[0], d[1], starts, ranks, ids), pieces)
    return distinct, ids


def _rank(keys: NDArray[np.uint64], bound: int) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
    """Sorted distinct keys and the rank of each key. Keys are below `bound`."""
    bits = max(len(keys) - 1, 1).bit_length()
    if bound << bits <= 1 << 64:  # sorting (key, position) in one word is several times faster
        packed = keys << np.uint64(bits)
        packed |= np.arange(len(keys), dtype=np.uint64)
        packed.sort()
        order = (packed & np.uint64((1 << bits) - 1)).astype(np.int64)
        ordered = packed >> np.uint64(bits)
    else:
        order = np.argsort(keys, kind="stable")
        ordered = keys[order]
    new = np.ones(len(keys), bool)
    new[1:] = ordered[1:] != ordered[:-1]
    ranks = np.empty(len(keys), np.int32)
    ranks[order] = np.cumsum(new, dtype=np.int32) - 1
    return ordered[new], ranks


@dataclass(frozen=True)
class _Part:
    """The counts of one length: document d has `numbers[d]` entries, from its first symbol's place on."""

    numbers: NDArray[np.int64]
    features: NDArray[np.int32]
    counts: NDArray[np.int32]


def _count_length(offsets: NDArray[np.int64], q: int, ids: NDArray[np.int32], size: int, base: int) -> _Part:
    part = _Part(np.zeros(len(offsets) - 1, np.int64), np.empty_like(ids), np.empty_like(ids))

    def count_piece(d: tuple[int, int]) -> None:
        slots = np.zeros(size, np.int64)
        _count_documents(offsets, d[0], d[1], q, ids, slots, base, part.features, part.counts, part.numbers)

    run(count_piece, _split(offsets))
    return part


def _merge(offsets: NDArray[np.int64], parts: list[_Part]) -> Counts:
    """The counts of all lengths, without gaps."""
    numbers = np.sum([part.numbers for part in parts], axis=0)
    indptr = np.concatenate([[0], np.cumsum(numbers)])
    merged = Counts(indptr, np.empty(indptr[-1], np.int32), np.empty(indptr[-1], np.int32))
    begin = indptr[:-1].copy()
    for part in parts:
        arrays = (offsets, part.numbers, part.features, part.counts, begin, merged.features, merged.counts)
        run(partial(_move_piece, arrays), _split(offsets))
        begin += part.numbers
    return merged


def _move_piece(arrays: tuple[Array, ...], d: tuple[int, int]) -> None:
    _move(d[0], d[1], *arrays)


def _split(offsets: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Ranges of documents of about equal numbers of symbols."""
    pieces = PIECES * n_threads()
    goals = offsets[0] + (offsets[-1] - offsets[0]) * np.arange(1, pieces) // pieces
    cuts = np.unique(np.concatenate([[0], np.searchsorted(offsets, goals), [len(offsets) - 1]]))
    return [(int(a), int(b)) for a, b in pairwise(cuts)]


@njit(nogil=True, cache=True)
def _mark(
    offsets: Array, first: int, last: int, q: int, left: Array, right: Array, b: int, size_b: int, seen: Array
) -> None:
    for d in range(first, last):
        for i in range(offsets[d], offsets[d + 1] - q + 1):
            seen[np.int64(left[i]) * size_b + right[i + q - b]] = 1


@njit(nogil=True, cache=True)
def _look_up(
    offsets: Array,
    first: int,
    last: int,
    q: int,
    left: Array,
    right: Array,
    b: int,
    size_b: int,
    ranks: Array,
    ids: Array,
) -> None:
    for d in range(first, last):
        for i in range(offsets[d], offsets[d + 1] - q + 1):
            ids[i] = ranks[np.int64(left[i]) * size_b + right[i + q - b]]


@njit(nogil=True, cache=True)
def _keys(
    offsets: Array,
    first: int,
    last: int,
    q: int,
    left: Array,
    right: Array,
    b: int,
    size_b: int,
    starts: Array,
    keys: Array,
) -> None:
    for d in range(first, last):
        to = starts[d]
        for i in range(offsets[d], offsets[d + 1] - q + 1):
            keys[to] = np.int64(left[i]) * size_b + right[i + q - b]
            to += 1


@njit(nogil=True, cache=True)
def _scatter(offsets: Array, first: int, last: int, starts: Array, ranks: Array, ids: Array) -> None:
    for d in range(first, last):
        for k in range(starts[d + 1] - starts[d]):
            ids[offsets[d] + k] = ranks[starts[d] + k]


@njit(nogil=True, cache=True)
def _count_documents(
    offsets: Array,
    first: int,
    last: int,
    q: int,
    ids: Array,
    slots: Array,
    base: int,
    features: Array,
    counts: Array,
    distinct: Array,
) -> None:
    # slots[u] - 1 is where u was written last; from before this document it means "not yet".
    for d in range(first, last):
        to = offsets[d]
        for i in range(offsets[d], offsets[d + 1] - q + 1):
            u = ids[i]
            if slots[u] > offsets[d]:
                counts[slots[u] - 1] += 1
            else:
                features[to] = base + u
                counts[to] = 1
                to += 1
                slots[u] = to
        distinct[d] = to - offsets[d]


@njit(nogil=True, cache=True)
def _move(
    first: int,
    last: int,
    offsets: Array,
    numbers: Array,
    features: Array,
    counts: Array,
    begin: Array,
    to_features: Array,
    to_counts: Array,
) -> None:
    for d in range(first, last):
        for k in range(numbers[d]):
            to_features[begin[d] + k] = features[offsets[d] + k]
            to_counts[begin[d] + k] = counts[offsets[d] + k]
