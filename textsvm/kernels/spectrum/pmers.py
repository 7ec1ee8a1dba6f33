"""Documents -> p-mers (contiguous substrings of length p): exact integer ids and sparse counts, on the CPU.

Ids are those of `features.vocabulary`. Documents of less than 2^31 symbols have less than 2^31 windows of a
length: ids within a length, and counts, are int32. Numbered through all lengths they may be more, and are
int64 then; positions always are.

p-mers of a few documents counted by NumPy, with the bits of `textsvm.kernels.spectrum.pmers`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.kernels.spectrum.vocabulary import Vocabulary, check_symbols, last_uses, plan
from textsvm.linalg.sparse import ALONE, Counts, feature_type, share, spread
from textsvm.runtime.compiled import few, njit
from textsvm.runtime.memory import copied, empty, joined
from textsvm.runtime.parallel import n_threads, run
from textsvm.text.documents import Documents


@dataclass(frozen=True)
class Part:
    """The counts of one length: document d has the entries from `indptr[d]` to `indptr[d + 1]`."""

    indptr: NDArray[np.int64]
    features: NDArray[np.signedinteger]
    counts: NDArray[np.int32]


def pair(
    offsets: NDArray[np.int64],
    q: int,
    left: NDArray[np.int32],
    right: NDArray[np.int32],
    b: int,
    size_b: int,
) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
    """Distinct keys of the windows of length q, and the id of the window at every position."""
    at, ids = _places(offsets, q), np.zeros(len(left), np.int32)
    keys = left[at].astype(np.uint64) * np.uint64(size_b) + right[at + q - b].astype(np.uint64)
    distinct, ids[at] = np.unique(keys, return_inverse=True)
    return distinct, ids


def _places(offsets: NDArray[np.int64], q: int) -> NDArray[np.int64]:
    """Where a window of length q begins."""
    at = np.arange(offsets[-1])
    left = np.repeat(offsets[1:], np.diff(offsets)) - at
    return at[left >= q]


def count_few(offsets: NDArray[np.int64], q: int, ids: NDArray[np.int32], size: int, base: int) -> Part:
    """How often documents have each of `size` ids."""
    at = _places(offsets, q)
    owner = np.searchsorted(offsets, at, side="right") - 1
    _, firsts, counts = np.unique(owner * (size + 1) + ids[at], return_index=True, return_counts=True)
    order = np.argsort(firsts)
    entries = at[firsts[order]]
    indptr = np.searchsorted(owner[firsts[order]], np.arange(len(offsets)))
    features = (base + ids[entries].astype(np.int64)).astype(feature_type(base + size))
    return Part(indptr.astype(np.int64), features, counts[order].astype(np.int32))


def place(
    part: Part, begin: NDArray[np.int64], features: NDArray[np.signedinteger], counts: NDArray[np.int32]
) -> None:
    """Put the entries of one length among those of all, where each document has its next ones."""
    to = np.arange(len(part.features)) + np.repeat(begin - part.indptr[:-1], np.diff(part.indptr))
    features[to], counts[to] = part.features, part.counts


Array = NDArray[Any]

#: Keys a window for which there is a table, a bit each.
TABLE = 64
#: Keys that are sorted before a thread would have begun.
SORTED = 1 << 20


def count(documents: Documents, p1: int, p2: int) -> tuple[Vocabulary, Counts]:
    """The p-mers of every length p1..p2 in `documents`, and their numbers of occurrences.

    Raises
    ------
    InputError
        If the documents have 2^31 symbols or more.
    """
    vocabulary = Vocabulary.empty(documents, p1, p2)
    parts, base = [], 0
    for q, ids, size in windows(documents, vocabulary):
        parts.append(_count_length(documents.offsets, q, ids, size, base))
        base += size
    return vocabulary, _merge(documents.offsets, parts)


def count_each(documents: Documents, vocabulary: Vocabulary) -> Iterator[tuple[int, int, Counts]]:
    """Yield (length, number of p-mers, their counts, numbered from 0); fill an empty vocabulary."""
    for q, ids, size in windows(documents, vocabulary):
        yield q, size, _merge(documents.offsets, [_count_length(documents.offsets, q, ids, size, 0)])


def windows(documents: Documents, vocabulary: Vocabulary) -> Iterator[tuple[int, NDArray[np.int32], int]]:
    """Yield (length, id of the window at every position, number of ids); fill an empty vocabulary.

    A position where a document has no whole window has no id: any number.
    """
    check_symbols(len(documents.codes))
    offsets, p1, p2 = documents.offsets, vocabulary.p1, vocabulary.p2
    steps = list(plan(p1, p2))
    ids = {1: copied(documents.codes, np.int32)}
    if p1 == 1:
        yield 1, ids[1], vocabulary.size(1)
    last = last_uses(steps)
    for step, (q, a, b) in enumerate(steps):
        sizes = vocabulary.size(a), vocabulary.size(b)
        vocabulary.keys[q], ids[q] = _pair(offsets, q, ids[a], ids[b], b, *sizes)
        if q >= p1:
            yield q, ids[q], vocabulary.size(q)
        ids = {length: array for length, array in ids.items() if last.get(length, -1) > step}


def count_ids(offsets: NDArray[np.int64], ids: NDArray[np.int32], size: int) -> Counts:
    """How often each document has each of `size` ids, given where the ids of each document start."""
    return _merge(offsets, [_count_length(offsets, 1, ids, size, 0)])


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
    if few(len(left)):
        return pair(offsets, q, left, right, b, size_b)
    ids = empty(len(left), np.int32)
    if size_a * size_b <= TABLE * len(left):
        seen = _marked(offsets, q, left, right, b, size_a, size_b)
        before, keys = _ranked(seen)
        share(offsets, lambda i, j: _look_up(offsets, i, j, q, left, right, b, size_b, seen, before, ids))
        return keys, ids
    numbers = np.maximum(np.diff(offsets) - q + 1, 0)
    starts = np.concatenate([[0], np.cumsum(numbers)])
    found = empty(starts[-1], np.uint64)
    share(offsets, lambda i, j: _keys(offsets, i, j, q, left, right, b, size_b, starts, found))
    distinct, ranks = rank(found, size_a * size_b)
    share(offsets, lambda i, j: _scatter(offsets, i, j, starts, ranks, ids))
    return distinct, ids


def rank(keys: NDArray[np.uint64], bound: int) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
    """Sorted distinct keys and the rank of each key. Keys are below `bound`."""
    bits = max(len(keys) - 1, 1).bit_length()
    if bound << bits <= 1 << 64:  # sorting (key, position) in one word is several times faster
        packed, ranks = copied(keys, np.uint64), empty(len(keys), np.int32)
        _pack(packed, np.uint64(bits))
        packed = _sorted(packed)
        n = _rank_packed(packed, np.uint64(bits), ranks)
        return packed[:n].copy(), ranks
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    new = np.ones(len(keys), bool)
    new[1:] = ordered[1:] != ordered[:-1]
    ranks = np.empty(len(keys), np.int32)
    ranks[order] = np.cumsum(new, dtype=np.int32) - 1
    return ordered[new], ranks


def _sorted(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Distinct words in order, in their array: dealt out to the cores by a sample, and sorted there."""
    threads = n_threads()
    if threads == 1 or len(words) <= SORTED:
        words.sort()
        return words
    sample = np.sort(words[:: max(1, len(words) // (64 * threads))])
    cuts = sample[np.arange(1, threads) * len(sample) // threads]
    parts: list[Any] = [None] * threads

    def sort_part(k: int) -> None:
        low, high = cuts[k - 1] if k else np.uint64(0), cuts[k] if k < threads - 1 else None
        inside = words >= low if high is None else (words >= low) & (words < high)
        parts[k] = words[inside]
        parts[k].sort()

    run(sort_part, range(threads))
    return np.concatenate(parts, out=words)


def _marked(
    offsets: NDArray[np.int64],
    q: int,
    left: NDArray[np.int32],
    right: NDArray[np.int32],
    b: int,
    size_a: int,
    size_b: int,
) -> NDArray[np.uint64]:
    """Which keys there are, a bit each: tables of threads, as far as there is room, and their union."""
    words = size_a * size_b // 64 + 1
    threads = n_threads() if len(left) > ALONE else 1
    tables = np.zeros((min(threads, max(1, len(left) // words)), words), np.uint64)
    cuts = np.searchsorted(offsets, np.linspace(0, offsets[-1], len(tables) + 1))
    cuts[-1] = len(offsets) - 1
    spread(
        lambda k: _mark(offsets, cuts[k], cuts[k + 1], q, left, right, b, size_b, tables[k]),
        range(len(tables)),
    )
    for other in tables[1:]:
        tables[0] |= other
    return np.asarray(tables[0])


def _ranked(seen: NDArray[np.uint64]) -> tuple[NDArray[np.int32], NDArray[np.uint64]]:
    """How many keys there are before each word of a table, and all of them."""
    before = np.zeros(len(seen) + 1, np.int32)
    pieces = np.linspace(0, len(seen), 4 * n_threads() + 1 if len(seen) > ALONE else 2).astype(np.int64)
    each = list(pairwise(pieces.tolist()))
    spread(lambda d: _count_bits(d[0], d[1], seen, before), each)
    np.cumsum(before, out=before)
    keys = np.empty(before[-1], np.uint64)
    spread(lambda d: _list_keys(d[0], d[1], seen, before, keys), each)
    return before, keys


def _count_length(offsets: NDArray[np.int64], q: int, ids: NDArray[np.int32], size: int, base: int) -> Part:
    if few(len(ids)):
        return count_few(offsets, q, ids, size, base)
    indptr = np.zeros(len(offsets), np.int64)
    room = int(np.diff(offsets).max(initial=1))
    pieces: dict[int, tuple[Array, Array]] = {}

    def count_piece(first: int, last: int) -> None:
        number = int(offsets[last] - offsets[first])
        features, counts = empty(number, feature_type(base + size)), empty(number, np.int32)
        table = np.zeros((2 << room.bit_length(), 2), np.int32)
        n = _count_documents(offsets, first, last, q, ids, table, base, features, counts, indptr)
        pieces[first] = copied(features[:n], features.dtype), copied(counts[:n], np.int32)

    share(offsets, count_piece)
    np.cumsum(indptr, out=indptr)
    parts = [pieces[first] for first in sorted(pieces)]
    return Part(indptr, *(joined([part[k] for part in parts]) for k in (0, 1)))


def _merge(offsets: NDArray[np.int64], parts: list[Part]) -> Counts:
    """The counts of all lengths; `parts` is empty then."""
    if len(parts) == 1:
        [part] = parts
        return Counts(part.indptr, part.features, part.counts)
    indptr = np.sum([np.zeros(len(offsets), np.int64), *(part.indptr for part in parts)], axis=0)
    dtype = parts[-1].features.dtype if parts else np.int32
    merged = Counts(indptr, empty(indptr[-1], dtype), empty(indptr[-1], np.int32))
    begin = indptr[:-1].copy()
    while parts:
        part = parts.pop(0)
        if few(len(part.features)):
            place(part, begin, merged.features, merged.counts)
            begin += np.diff(part.indptr)
            continue
        arrays = (part.indptr, part.features, part.counts, begin, merged.features, merged.counts)
        share(offsets, partial(_move, *arrays))
        begin += np.diff(part.indptr)
    return merged


@njit(nogil=True, cache=True)
def _pack(keys: Array, bits: Any) -> None:
    """Put the position of each key behind it in its word."""
    for k in range(len(keys)):
        keys[k] = keys[k] << bits | np.uint64(k)


@njit(nogil=True, cache=True)
def _rank_packed(packed: Array, bits: Any, ranks: Array) -> int:
    """Ranks by position of sorted keys, and how many distinct ones there are: they come to stand in front."""
    n, mask = 0, (np.uint64(1) << bits) - np.uint64(1)
    for k in range(len(packed)):
        key, at = packed[k] >> bits, packed[k] & mask
        if n == 0 or packed[n - 1] != key:
            packed[n] = key
            n += 1
        ranks[at] = n - 1
    return n


@njit(nogil=True, cache=True)
def _mark(
    offsets: Array, first: int, last: int, q: int, left: Array, right: Array, b: int, size_b: int, seen: Array
) -> None:
    for d in range(first, last):
        for i in range(offsets[d], offsets[d + 1] - q + 1):
            key = np.uint64(left[i]) * np.uint64(size_b) + np.uint64(right[i + q - b])
            seen[key >> np.uint64(6)] |= np.uint64(1) << (key & np.uint64(63))


@njit(nogil=True, cache=True)
def _count_bits(first: int, last: int, seen: Array, before: Array) -> None:
    for word in range(first, last):
        before[word + 1] = _popcount(seen[word])


@njit(nogil=True, cache=True)
def _list_keys(first: int, last: int, seen: Array, before: Array, keys: Array) -> None:
    for word in range(first, last):
        rest, to = seen[word], before[word]
        while rest:
            lowest = rest & (~rest + np.uint64(1))
            keys[to] = np.uint64(word) * np.uint64(64) + np.uint64(_popcount(lowest - np.uint64(1)))
            rest ^= lowest
            to += 1


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
    seen: Array,
    before: Array,
    ids: Array,
) -> None:
    for d in range(first, last):
        for i in range(offsets[d], offsets[d + 1] - q + 1):
            key = np.uint64(left[i]) * np.uint64(size_b) + np.uint64(right[i + q - b])
            word = key >> np.uint64(6)
            below = (np.uint64(1) << (key & np.uint64(63))) - np.uint64(1)
            ids[i] = before[word] + _popcount(seen[word] & below)


@njit(nogil=True, cache=True)
def _popcount(x: Any) -> Any:
    x = x - ((x >> np.uint64(1)) & np.uint64(0x5555555555555555))
    x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
    x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int32((x * np.uint64(0x0101010101010101)) >> np.uint64(56))


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
    table: Array,
    base: int,
    features: Array,
    counts: Array,
    distinct: Array,
) -> int:
    # An open hash table of (place + 1, id), where the place is that of the entry; small, and so near.
    to = 0
    for d in range(first, last):
        begin, number = to, offsets[d + 1] - offsets[d] - q + 1
        if number <= 0:
            continue
        bits = 1
        while (1 << bits) < 2 * number:
            bits += 1
        mask, shift = (1 << bits) - 1, 32 - bits
        for i in range(offsets[d], offsets[d] + number):
            u = ids[i]
            at = ((u * 2654435769) & 0xFFFFFFFF) >> shift
            while table[at, 0] > 0 and table[at, 1] != u:
                at = (at + 1) & mask
            if table[at, 0] > 0:
                counts[begin + table[at, 0] - 1] += 1
            else:
                features[to] = base + u
                counts[to] = 1
                to += 1
                table[at, 0], table[at, 1] = to - begin, u
        table[: mask + 1] = 0
        distinct[d + 1] = to - begin
    return to


@njit(nogil=True, cache=True)
def _move(
    indptr: Array,
    features: Array,
    counts: Array,
    begin: Array,
    to_features: Array,
    to_counts: Array,
    first: int,
    last: int,
) -> None:
    for d in range(first, last):
        for k in range(indptr[d + 1] - indptr[d]):
            to_features[begin[d] + k] = features[indptr[d] + k]
            to_counts[begin[d] + k] = counts[indptr[d] + k]
