"""Documents -> p-mers (contiguous substrings of length p): exact integer ids and sparse counts, on the CPU.

Ids are those of `features.vocabulary`. Documents of less than 2^31 symbols have less than 2^31 windows of a
length: ids within a length, and counts, are int32. Numbered through all lengths they may be more, and are
int64 then; positions always are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from textsvm.documents import Documents
from textsvm.features.sparse import feature_type
from textsvm.features.vocabulary import Vocabulary, check_symbols, last_uses, plan
from textsvm.parallel import n_threads, run

Array = NDArray[Any]

#: Pieces of work a thread gets: enough to even out unequal documents.
PIECES = 4
#: Symbols that are counted before a thread would have begun.
ALONE = 1 << 14


@dataclass(frozen=True)
class Counts:
    """How often each document holds each p-mer: the rows of a sparse matrix.

    Attributes
    ----------
    indptr : int64 array, shape (n + 1,)
    features : int32 or int64 array, shape (number of entries,)
        Ids, numbered through all lengths (`Vocabulary.first`), in order of first occurrence.
    counts : int32 array, shape (number of entries,)
    """

    indptr: NDArray[np.int64]
    features: NDArray[np.signedinteger]
    counts: NDArray[np.int32]


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
    ids = {1: documents.codes.astype(np.int32)}
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
    ids = np.empty(len(left), np.int32)
    if size_a * size_b <= max(2 * len(left), min(1 << 22, 32 * len(left))):  # a table of all keys
        seen = np.zeros(size_a * size_b, np.uint8)
        share(offsets, lambda i, j: _mark(offsets, i, j, q, left, right, b, size_b, seen))
        keys = np.flatnonzero(seen).astype(np.uint64)
        ranks = np.cumsum(seen, dtype=np.int32) - 1
        share(offsets, lambda i, j: _look_up(offsets, i, j, q, left, right, b, size_b, ranks, ids))
        return keys, ids
    numbers = np.maximum(np.diff(offsets) - q + 1, 0)
    starts = np.concatenate([[0], np.cumsum(numbers)])
    found = np.empty(starts[-1], np.uint64)
    share(offsets, lambda i, j: _keys(offsets, i, j, q, left, right, b, size_b, starts, found))
    distinct, ranks = rank(found, size_a * size_b)
    share(offsets, lambda i, j: _scatter(offsets, i, j, starts, ranks, ids))
    return distinct, ids


def rank(keys: NDArray[np.uint64], bound: int) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
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
    features: NDArray[np.signedinteger]
    counts: NDArray[np.int32]


def _count_length(offsets: NDArray[np.int64], q: int, ids: NDArray[np.int32], size: int, base: int) -> _Part:
    features = np.empty(len(ids), feature_type(base + size))
    part = _Part(np.zeros(len(offsets) - 1, np.int64), features, np.empty_like(ids))

    def count_piece(first: int, last: int) -> None:
        slots = np.zeros(size, np.int64)
        _count_documents(offsets, first, last, q, ids, slots, base, features, part.counts, part.numbers)

    share(offsets, count_piece)
    return part


def _merge(offsets: NDArray[np.int64], parts: list[_Part]) -> Counts:
    """The counts of all lengths, without gaps."""
    numbers = np.zeros(len(offsets) - 1, np.int64)
    for part in parts:
        numbers += part.numbers
    indptr = np.concatenate([[0], np.cumsum(numbers)])
    dtype = parts[-1].features.dtype if parts else np.int32
    merged = Counts(indptr, np.empty(indptr[-1], dtype), np.empty(indptr[-1], np.int32))
    begin = indptr[:-1].copy()
    for part in parts:
        arrays = (offsets, part.numbers, part.features, part.counts, begin, merged.features, merged.counts)
        share(offsets, partial(_move, *arrays))
        begin += part.numbers
    return merged


def share(offsets: NDArray[np.int64], function: Callable[[int, int], object]) -> None:
    """Call function(first, last) for ranges of documents, on all cores if that is quicker."""
    if offsets[-1] - offsets[0] <= ALONE:
        function(0, len(offsets) - 1)
    else:
        run(lambda d: function(*d), _split(offsets))


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
    offsets: Array,
    numbers: Array,
    features: Array,
    counts: Array,
    begin: Array,
    to_features: Array,
    to_counts: Array,
    first: int,
    last: int,
) -> None:
    for d in range(first, last):
        for k in range(numbers[d]):
            to_features[begin[d] + k] = features[offsets[d] + k]
            to_counts[begin[d] + k] = counts[offsets[d] + k]
