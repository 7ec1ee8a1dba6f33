"""Count p-mers (contiguous substrings of length p) on the CPU: exact integer ids and sparse counts.

Ids are the ranks that `vocabulary` defines. Documents of fewer than 2^31 symbols have fewer than 2^31 windows
of a length, so ids within a length and counts are int32. Features, numbered through all lengths, are int64 if
int32 is too small; positions are always int64. Small inputs are counted by NumPy, with the same bits as by
the compiled functions.
"""

from __future__ import annotations

from collections.abc import Iterator
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

Array = NDArray[Any]
#: Possible keys per window up to which keys are marked in a bit table instead of sorted.
TABLE = 64
#: Keys up to which sorting on a single thread is faster.
SORTED = 1 << 20


def count(documents: Documents, p1: int, p2: int) -> tuple[Vocabulary, Counts]:
    """Count the p-mers of every length p1..p2; InputError if the documents have 2^31 symbols or more."""
    vocabulary = Vocabulary.empty(documents, p1, p2)
    parts, base = [], 0
    for q, ids, size in windows(documents, vocabulary):
        parts.append(_count_length(documents.offsets, q, ids, size, base))
        base += size
    return vocabulary, _merge(documents.offsets, parts)


def count_each(documents: Documents, vocabulary: Vocabulary) -> Iterator[tuple[int, int, Counts]]:
    """Yield (length, number of p-mers, counts with features from 0) and fill an empty vocabulary."""
    for q, ids, size in windows(documents, vocabulary):
        yield q, size, _count_length(documents.offsets, q, ids, size, 0)


def count_ids(offsets: NDArray[np.int64], ids: NDArray[np.int32], size: int) -> Counts:
    """Count ids from 0 to size - 1, given the offsets of each document's ids."""
    return _count_length(offsets, 1, ids, size, 0)


def windows(documents: Documents, vocabulary: Vocabulary) -> Iterator[tuple[int, NDArray[np.int32], int]]:
    """Yield (length, id of the window at every position, number of ids) and fill an empty vocabulary.

    Ids are arbitrary at positions where a document has no complete window.
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
        starts, ids = _window_starts(offsets, q), np.zeros(len(left), np.int32)
        keys = left[starts].astype(np.uint64) * np.uint64(size_b) + right[starts + q - b].astype(np.uint64)
        distinct, ids[starts] = np.unique(keys, return_inverse=True)
        return distinct, ids
    ids = empty(len(left), np.int32)
    if size_a * size_b <= TABLE * len(left):
        seen = _mark_keys(offsets, q, left, right, b, size_a, size_b)
        before, keys = _list_marked(seen)
        share(offsets, lambda i, j: _look_up(offsets, i, j, q, left, right, b, size_b, seen, before, ids))
        return keys, ids
    numbers = np.maximum(np.diff(offsets) - q + 1, 0)
    starts = np.concatenate([[0], np.cumsum(numbers)])
    keys = empty(starts[-1], np.uint64)
    share(offsets, lambda i, j: _keys(offsets, i, j, q, left, right, b, size_b, starts, keys))
    distinct, ranks = rank(keys, size_a * size_b)
    share(offsets, lambda i, j: _scatter(offsets, i, j, starts, ranks, ids))
    return distinct, ids


def _window_starts(offsets: NDArray[np.int64], q: int) -> NDArray[np.int64]:
    """Positions of the complete windows of length q."""
    positions = np.arange(offsets[-1])
    left = np.repeat(offsets[1:], np.diff(offsets)) - positions
    return positions[left >= q]


def _mark_keys(
    offsets: NDArray[np.int64],
    q: int,
    left: NDArray[np.int32],
    right: NDArray[np.int32],
    b: int,
    size_a: int,
    size_b: int,
) -> NDArray[np.uint64]:
    """Bit table of the keys that occur: the union of a table per thread, as far as memory allows."""
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


def _list_marked(seen: NDArray[np.uint64]) -> tuple[NDArray[np.int32], NDArray[np.uint64]]:
    """Number of keys before each word of a bit table, and all keys."""
    before = np.zeros(len(seen) + 1, np.int32)
    cuts = np.linspace(0, len(seen), 4 * n_threads() + 1 if len(seen) > ALONE else 2).astype(np.int64)
    pieces = list(pairwise(cuts.tolist()))
    spread(lambda d: _count_bits(d[0], d[1], seen, before), pieces)
    np.cumsum(before, out=before)
    keys = np.empty(before[-1], np.uint64)
    spread(lambda d: _list_keys(d[0], d[1], seen, before, keys), pieces)
    return before, keys


def rank(keys: NDArray[np.uint64], bound: int) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
    """Sorted distinct keys and the rank of each key; keys are below `bound`."""
    bits = max(len(keys) - 1, 1).bit_length()
    if bound << bits <= 1 << 64:  # sorting (key, position) in one word is several times faster
        packed, ranks = copied(keys, np.uint64), empty(len(keys), np.int32)
        _pack(packed, np.uint64(bits))
        packed = _sort(packed)
        n = _rank_packed(packed, np.uint64(bits), ranks)
        return packed[:n].copy(), ranks
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    new = np.ones(len(keys), bool)
    new[1:] = ordered[1:] != ordered[:-1]
    ranks = np.empty(len(keys), np.int32)
    ranks[order] = np.cumsum(new, dtype=np.int32) - 1
    return ordered[new], ranks


def _sort(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Sort distinct words in place: a sample splits them into ranges that threads sort."""
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


def _count_length(offsets: NDArray[np.int64], q: int, ids: NDArray[np.int32], size: int, base: int) -> Counts:
    """Count the windows of length q; features are `base` + id."""
    if few(len(ids)):
        return _count_few(offsets, q, ids, size, base)
    indptr = np.zeros(len(offsets), np.int64)
    longest = int(np.diff(offsets).max(initial=1))
    pieces: dict[int, tuple[Array, Array]] = {}

    def count_piece(first: int, last: int) -> None:
        symbols = int(offsets[last] - offsets[first])
        features, counts = empty(symbols, feature_type(base + size)), empty(symbols, np.int32)
        table = np.zeros((2 << longest.bit_length(), 2), np.int32)
        n = _count_documents(offsets, first, last, q, ids, table, base, features, counts, indptr)
        pieces[first] = copied(features[:n], features.dtype), copied(counts[:n], np.int32)

    share(offsets, count_piece)
    np.cumsum(indptr, out=indptr)
    parts = [pieces[first] for first in sorted(pieces)]
    return Counts(indptr, *(joined([part[k] for part in parts]) for k in (0, 1)))


def _count_few(offsets: NDArray[np.int64], q: int, ids: NDArray[np.int32], size: int, base: int) -> Counts:
    """`_count_length` by NumPy."""
    starts = _window_starts(offsets, q)
    owner = np.searchsorted(offsets, starts, side="right") - 1
    _, firsts, counts = np.unique(owner * (size + 1) + ids[starts], return_index=True, return_counts=True)
    order = np.argsort(firsts)
    entries = starts[firsts[order]]
    indptr = np.searchsorted(owner[firsts[order]], np.arange(len(offsets)))
    features = (base + ids[entries].astype(np.int64)).astype(feature_type(base + size))
    return Counts(indptr.astype(np.int64), features, counts[order].astype(np.int32))


def _merge(offsets: NDArray[np.int64], parts: list[Counts]) -> Counts:
    """Join the counts of all lengths; `parts` is emptied to free memory."""
    if len(parts) == 1:
        return parts[0]
    indptr = np.sum([np.zeros(len(offsets), np.int64), *(part.indptr for part in parts)], axis=0)
    dtype = parts[-1].features.dtype if parts else np.int32
    merged = Counts(indptr, empty(indptr[-1], dtype), empty(indptr[-1], np.int32))
    begin = indptr[:-1].copy()
    while parts:
        part = parts.pop(0)
        numbers = np.diff(part.indptr)
        if few(len(part.features)):
            to = np.arange(len(part.features)) + np.repeat(begin - part.indptr[:-1], numbers)
            merged.features[to], merged.counts[to] = part.features, part.counts
        else:
            arrays = (part.indptr, part.features, part.counts, begin, merged.features, merged.counts)
            share(offsets, partial(_move, *arrays))
        begin += numbers
    return merged


@njit(nogil=True, cache=True)
def _pack(keys, bits):
    """Append the position of each key to its word."""
    for k in range(len(keys)):
        keys[k] = keys[k] << bits | np.uint64(k)


@njit(nogil=True, cache=True)
def _rank_packed(packed, bits, ranks):
    """Write ranks by position, move the distinct keys to the front, and return their number."""
    n, mask = 0, (np.uint64(1) << bits) - np.uint64(1)
    for k in range(len(packed)):
        key, at = packed[k] >> bits, packed[k] & mask
        if n == 0 or packed[n - 1] != key:
            packed[n] = key
            n += 1
        ranks[at] = n - 1
    return n


@njit(nogil=True, cache=True)
def _mark(offsets, first, last, q, left, right, b, size_b, seen):
    for d in range(first, last):
        for i in range(offsets[d], offsets[d + 1] - q + 1):
            key = np.uint64(left[i]) * np.uint64(size_b) + np.uint64(right[i + q - b])
            seen[key >> np.uint64(6)] |= np.uint64(1) << (key & np.uint64(63))


@njit(nogil=True, cache=True)
def _count_bits(first, last, seen, before):
    for word in range(first, last):
        before[word + 1] = _popcount(seen[word])


@njit(nogil=True, cache=True)
def _list_keys(first, last, seen, before, keys):
    for word in range(first, last):
        rest, to = seen[word], before[word]
        while rest:
            lowest = rest & (~rest + np.uint64(1))
            keys[to] = np.uint64(word) * np.uint64(64) + np.uint64(_popcount(lowest - np.uint64(1)))
            rest ^= lowest
            to += 1


@njit(nogil=True, cache=True)
def _look_up(offsets, first, last, q, left, right, b, size_b, seen, before, ids):
    for d in range(first, last):
        for i in range(offsets[d], offsets[d + 1] - q + 1):
            key = np.uint64(left[i]) * np.uint64(size_b) + np.uint64(right[i + q - b])
            word = key >> np.uint64(6)
            below = (np.uint64(1) << (key & np.uint64(63))) - np.uint64(1)
            ids[i] = before[word] + _popcount(seen[word] & below)


@njit(nogil=True, cache=True)
def _popcount(x):
    x = x - ((x >> np.uint64(1)) & np.uint64(0x5555555555555555))
    x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
    x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int32((x * np.uint64(0x0101010101010101)) >> np.uint64(56))


@njit(nogil=True, cache=True)
def _keys(offsets, first, last, q, left, right, b, size_b, starts, keys):
    for d in range(first, last):
        to = starts[d]
        for i in range(offsets[d], offsets[d + 1] - q + 1):
            keys[to] = np.int64(left[i]) * size_b + right[i + q - b]
            to += 1


@njit(nogil=True, cache=True)
def _scatter(offsets, first, last, starts, ranks, ids):
    for d in range(first, last):
        for k in range(starts[d + 1] - starts[d]):
            ids[offsets[d] + k] = ranks[starts[d] + k]


@njit(nogil=True, cache=True)
def _count_documents(offsets, first, last, q, ids, table, base, features, counts, distinct):
    # Open-addressing hash table of (entry + 1, id) per document: small enough for the cache.
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
def _move(indptr, features, counts, begin, to_features, to_counts, first, last):
    for d in range(first, last):
        for k in range(indptr[d + 1] - indptr[d]):
            to_features[begin[d] + k] = features[indptr[d] + k]
            to_counts[begin[d] + k] = counts[indptr[d] + k]
