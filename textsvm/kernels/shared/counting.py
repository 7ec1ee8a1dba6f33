"""Vocabularies of p-mers (contiguous substrings of length p), and their counts in documents, on a CPU.

Ids are ranks, never hashes. The id of a symbol is its code. A window of length q consists of a window of
length a at its start and a window of length b at its end, max(a, b) < q <= a + b (they may overlap), so

    key = id_a(start) * size_b + id_b(end)                  (both below 2^31: a key fits 64 bits)

and its id is the rank of its key among the distinct keys of the documents. Lengths double (1, 2, 4, ...) up
to the shortest requested length and then grow by a symbol, so 64 symbols take seven steps, and neither p nor
the alphabet is limited by the size of a word. Lengths that no document has are omitted. The sorted distinct
keys of every length are the whole vocabulary: they map the p-mers of other documents to these ids exactly.

Many symbols are counted in panels of documents, each over a vocabulary of its own: temporary arrays have
the size of a panel. The vocabularies are then joined length by length. As ids are ranks, the results are
equal to the bit.

Documents of fewer than 2^31 symbols have fewer than 2^31 windows of a length, so ids within a length and
counts are int32. Features, numbered through all lengths, are int64 if int32 is too small; positions are
always int64. Small inputs are counted by NumPy, with the same bits as by the compiled functions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.arrays import AnyArray, Array, Ints, Ints32, SignedInts, Words, distinct_of, runs_of
from textsvm.errors import InputError
from textsvm.linalg.sparse import MAX_INT32, SERIAL_SIZE, Counts, copy_rows, run_on_ranges
from textsvm.runtime.compiled import njit, popcount, use_numpy
from textsvm.runtime.device import array_module, device_of
from textsvm.runtime.memory import copied, empty, free, joined, trim
from textsvm.runtime.parallel import n_threads, run
from textsvm.text.documents import Documents

PASSES = 4  #: Passes of NumPy over the symbols for each length.
MAX_SYMBOLS = (1 << 31) - 1  #: Largest total number of symbols.
PIECE = 1 << 14  #: Smallest number of p-mers per piece of work.
TABLE = 64  #: Possible keys per window up to which keys are marked in a bit table instead of sorted.
SORTED = 1 << 20  #: Keys up to which sorting on a single thread is faster.
#: Symbols of a panel of documents, a quarter if memory is scarce; temporary arrays take 28 bytes a symbol.
PANEL = 1 << 22
#: Mean length of documents from which the counts of all lengths take less memory than the ids of a length.
LONG = 1 << 16


def plan(p1: int, p2: int) -> Iterator[tuple[int, int, int]]:
    """Yield the steps (q, a, b) that build every length p1..p2, in order; nothing if p1 > p2."""
    lengths = [1]
    while p1 <= p2 and lengths[-1] < p2:
        a = lengths[-1]
        q = 2 * a if 2 * a < p1 else max(p1, a + 1)
        yield q, a, next(length for length in lengths if length >= q - a)
        lengths.append(q)


def last_uses(steps: list[tuple[int, int, int]]) -> dict[int, int]:
    """Number of the last step that reads the ids of each length."""
    return {length: step for step, (_, a, b) in enumerate(steps) for length in (a, b)}


def longest_of(lengths: Ints, p1: int, p2: int) -> int:
    """Longest of the lengths p1..p2 that any document reaches, else p1 - 1; at least 1."""
    return max(p1 - 1, 1, min(p2, int(lengths.max(initial=0))))


def check_symbols(size: int, times: int = 1) -> None:
    """Raise InputError if `size` symbols, each counted `times`, exceed the range of ids."""
    if size * times > MAX_SYMBOLS:
        raise InputError(
            f"the documents have {size:,} symbols and at most {MAX_SYMBOLS // times:,} can be counted; "
            "give fewer documents, or shorten them (--max-length)"
        )


def windows_of(lengths: Ints, p1: int, p2: int) -> Ints:
    """Number of windows of p1..p2 symbols in documents of these lengths, shape (n,)."""
    numbers = np.zeros(len(lengths), np.int64)
    for q in range(p1, min(p2, int(lengths.max(initial=0))) + 1):
        numbers += np.maximum(lengths - q + 1, 0)
    return numbers


@dataclass(frozen=True)
class Vocabulary:
    """Distinct p-mers of documents, for every length p1..p2."""

    #: The shortest length, and the longest that any document reaches (p1 - 1 if none does).
    p1: int
    p2: int
    n_symbols: int  #: Size of the alphabet
    #: dict of int -> uint64 array: Sorted distinct keys of each length of `plan`; the id of a window is the
    #: rank of its key. All are NumPy arrays or all are CuPy arrays; results have the same array type.
    keys: dict[int, Array]
    by_numpy: bool = False  #: Whether NumPy counts the documents, which are small, and finds their p-mers

    @classmethod
    def empty(cls, documents: Documents, p1: int, p2: int) -> Vocabulary:
        """Vocabulary of documents before counting, without keys."""
        longest = longest_of(documents.lengths, p1, p2)
        by_numpy = use_numpy(PASSES * len(documents.codes) * longest)
        return cls(p1, longest, len(documents.alphabet), {}, by_numpy)

    def size(self, length: int) -> int:
        """Number of distinct p-mers of a length."""
        return self.n_symbols if length == 1 else len(self.keys[length])

    @property
    def first(self) -> Ints:
        """Feature number of the first p-mer of each length p1..p2, and the total number of p-mers."""
        return np.cumsum([0] + [self.size(q) for q in range(self.p1, self.p2 + 1)])

    def find(self, other: Vocabulary) -> Array:
        """Number here of every p-mer of `other`, or -1; either alphabet must be a prefix of the other."""
        xp, first = _arrays(other), self.first
        parts = [xp.empty(0, np.int64)]
        for q, ids in zip(range(self.p1, other.p2 + 1), self.find_each(other), strict=True):
            parts.append(xp.where(ids >= 0, ids + first[q - self.p1], -1) if q <= self.p2 else ids)
        return xp.concatenate(parts)

    def find_each(self, other: Vocabulary) -> Iterator[Array]:
        """Yield `find` per length, numbered within the length; `other` may get its keys during iteration."""
        xp = _arrays(other)
        symbols = xp.arange(other.n_symbols, dtype=np.int64)
        ids = {1: xp.where(symbols < self.n_symbols, symbols, -1)}
        if self.p1 == 1:
            yield ids[1]
        for q, a, b in plan(self.p1, other.p2):
            ids[q] = self._find_pairs(xp, other, q, ids[a], ids[b], b)
            if q >= self.p1:
                yield ids[q]

    def _find_pairs(self, xp: Any, other: Vocabulary, q: int, left: Array, right: Array, b: int) -> Array:
        """`find_each` of length q, given the results of its two parts."""
        other_keys = other.keys[q]
        own = self.keys.get(q, other_keys[:0])
        if not len(own):
            return xp.full(len(other_keys), -1, np.int64)
        width = np.uint64(max(other.size(b), 1))
        if xp is np and not other.by_numpy:
            ranks, size_b = np.empty(len(other_keys), np.int64), np.uint64(self.size(b))
            step = max(PIECE, len(other_keys) // (4 * n_threads()) + 1)

            def find(first: int) -> None:
                keys = other_keys[first : first + step]
                _find_keys(own, size_b, keys, width, left, right, ranks[first:])

            run(find, range(0, len(other_keys), step))
            return ranks
        left = left[(other_keys // width).astype(np.int64)]
        right = right[(other_keys % width).astype(np.int64)]
        key = (left * self.size(b) + right).astype(np.uint64)
        rank = xp.searchsorted(own, key)
        present = (left >= 0) & (right >= 0) & (rank < len(own))
        present &= own[xp.minimum(rank, len(own) - 1)] == key
        return xp.where(present, rank, -1)


@njit(nogil=True, cache=True)
def _find_keys(own, size_b, other_keys, width, left, right, ranks):
    # Both key arrays ascend: each search continues at the last result, in doubling steps.
    at, last = 0, np.uint64(0)
    for k in range(len(other_keys)):
        begins, ends = left[other_keys[k] // width], right[other_keys[k] % width]
        ranks[k] = -1
        if begins < 0 or ends < 0:
            continue
        key = np.uint64(begins) * size_b + np.uint64(ends)
        at = at if key >= last else 0
        last, step = key, 1
        while at + step < len(own) and own[at + step] < key:
            at, step = at + step, 2 * step
        high = min(at + step, len(own))
        while at < high:
            middle = (at + high) // 2
            if own[middle] < key:
                at = middle + 1
            else:
                high = middle
        if at < len(own) and own[at] == key:
            ranks[k] = at


def _arrays(vocabulary: Vocabulary) -> Any:
    return array_module(device_of(next(iter(vocabulary.keys.values()), None)))


def pmer_codes(vocabulary: Vocabulary) -> Iterator[Ints32]:
    """Yield the codes of the p-mers of each length in the order of ids, shape (number, length)."""
    codes = {1: np.arange(vocabulary.n_symbols, dtype=np.int32)[:, None]}
    if vocabulary.p1 == 1:
        yield codes[1]
    for q, a, b in plan(vocabulary.p1, vocabulary.p2):
        left, right = np.divmod(vocabulary.keys[q], np.uint64(max(vocabulary.size(b), 1)))
        # The window of length a, and the symbols of the window of length b behind it.
        codes[q] = np.hstack([codes[a][left.astype(np.int64)], codes[b][right.astype(np.int64), a + b - q :]])
        if q >= vocabulary.p1:
            yield codes[q]


def pmer_texts(codes: Ints32, alphabet: AnyArray) -> NDArray[np.object_]:
    """Text of every row of codes, shape (n, length); tokens are separated by spaces."""
    if alphabet.dtype == object:
        names = alphabet[codes[:, 0]]
        for column in codes.T[1:]:
            names = names + " " + alphabet[column]
        return names
    points = np.ascontiguousarray(alphabet[codes], np.uint32)
    names = points.view(f"U{points.shape[1]}")[:, 0].astype(object)
    for i in np.flatnonzero(points[:, -1] == 0):  # NumPy strips trailing zeros as padding
        names[i] = "".join(map(chr, points[i]))
    return names


def pmer_names(vocabulary: Vocabulary, pmers: Ints, alphabet: AnyArray) -> NDArray[np.object_]:
    """Texts of some p-mers, given by ascending numbers."""
    names = [np.empty(0, object)]
    for codes, first in zip(pmer_codes(vocabulary), vocabulary.first[:-1].tolist(), strict=True):
        begin, end = np.searchsorted(pmers, [first, first + len(codes)])
        names.append(pmer_texts(codes[pmers[begin:end] - first], alphabet))
    return np.concatenate(names)


def count(
    documents: Documents, p1: int, p2: int, vocabulary: Vocabulary | None = None
) -> tuple[Vocabulary, Counts]:
    """Count the p-mers of every length p1..p2; InputError if the documents have 2^31 symbols or more.

    The `vocabulary` is filled; by default it is `Vocabulary.empty` of the documents.
    """
    vocabulary = vocabulary or Vocabulary.empty(documents, p1, p2)
    parts, base = list[Counts](), 0
    for _, size, part in count_each(documents, vocabulary, 0):
        dtype = np.int32 if base + size <= MAX_INT32 else np.int64
        features: SignedInts = part.features.astype(dtype, copy=False)
        features += features.dtype.type(base)
        parts.append(Counts(part.indptr, features, part.counts))
        base += size
        del part, features
    return vocabulary, _merge(documents.offsets, parts, vocabulary.by_numpy)


def count_each(
    documents: Documents, vocabulary: Vocabulary, long: int = LONG
) -> Iterator[tuple[int, int, Counts]]:
    """Yield (length, number of p-mers, counts with features from 0) and fill an empty vocabulary.

    Documents of a mean length of `long` are counted in panels.
    """
    check_symbols(len(documents.codes))
    if len(documents.codes) <= max(PANEL, long * len(documents.offsets)):
        for q, ids, size in windows(documents, vocabulary):
            yield q, size, count_ids(documents.offsets, q, ids, vocabulary.by_numpy)
        return
    trim()
    cuts = runs_of(documents.offsets[:-1] // panel_size())
    owns, counts = [replace(vocabulary, keys={}) for _ in cuts], []
    for own, (first, last) in zip(owns, cuts, strict=True):
        offsets = documents.offsets[first : last + 1]
        panel = Documents(documents.codes[offsets[0] : offsets[-1]], offsets - offsets[0], documents.alphabet)
        counts.append([count_ids(panel.offsets, q, ids, own.by_numpy) for q, ids, _ in windows(panel, own)])
    for q, numbers in _number_together(vocabulary, owns):
        yield q, vocabulary.size(q), _joined([parts.pop(0) for parts in counts], numbers)


def panel_size() -> int:
    """Number of symbols of a panel."""
    return min(PANEL, max(PANEL // 4 + 1, free() >> 7))


def _number_together(vocabulary: Vocabulary, owns: list[Vocabulary]) -> Iterator[tuple[int, list[AnyArray]]]:
    """Yield (length, number in `vocabulary` of each p-mer of each panel), fill it, and empty the others.

    Ids are ranks, so keys of the ids of all documents in place of those of a panel are in order, too.
    """
    steps = list(plan(vocabulary.p1, vocabulary.p2))
    sizes = [{q: own.size(q) for q in (1, *own.keys)} for own in owns]
    ids, last = [{1: np.arange(vocabulary.n_symbols, dtype=np.uint32)} for _ in owns], last_uses(steps)
    if vocabulary.p1 == 1:
        yield 1, [of_panel[1] for of_panel in ids]
    for step, (q, a, b) in enumerate(steps):
        keys, size_b = list[Words](), np.uint64(vocabulary.size(b))
        for own, size, of_panel in zip(owns, sizes, ids, strict=True):
            left, right = np.divmod(own.keys.pop(q), np.uint64(max(size[b], 1)))
            keys.append(of_panel[a][left] * size_b + of_panel[b][right])
        vocabulary.keys[q] = distinct_of(np.concatenate(keys))
        for of_panel in ids:
            of_panel[q] = np.searchsorted(vocabulary.keys[q], keys.pop(0)).astype(np.uint32)
        if q >= vocabulary.p1:
            yield q, [of_panel[q] for of_panel in ids]
        needed = {length for length, use in last.items() if use > step}
        ids = [{length: of_panel[length] for length in needed & of_panel.keys()} for of_panel in ids]


def _joined(parts: list[Counts], numbers: list[AnyArray]) -> Counts:
    """Join the counts of a length of all panels, given the number of each p-mer; `parts` is emptied."""
    indptr, end = np.concatenate([[0], *(np.diff(part.indptr) for part in parts)]).cumsum(), 0
    whole = Counts(indptr, empty(indptr[-1], np.int32), empty(indptr[-1], np.int32))
    for ids in numbers:
        part = parts.pop(0)
        end += len(part.counts)
        own = slice(end - len(part.counts), end)
        whole.features[own], whole.counts[own] = ids[part.features], part.counts
    return whole


def windows(documents: Documents, vocabulary: Vocabulary) -> Iterator[tuple[int, Ints32, int]]:
    """Yield (length, id of the window at every position, number of ids) and fill an empty vocabulary.

    Ids are arbitrary at positions where a document has no complete window.
    """
    offsets, p1, p2 = documents.offsets, vocabulary.p1, vocabulary.p2
    steps = list(plan(p1, p2))
    ids = {1: copied(documents.codes, np.int32)}
    if p1 == 1:
        yield 1, ids[1], vocabulary.size(1)
    last = last_uses(steps)
    for step, (q, a, b) in enumerate(steps):
        sizes = vocabulary.size(a), vocabulary.size(b)
        vocabulary.keys[q], ids[q] = _pair(offsets, q, ids[a], ids[b], b, sizes, vocabulary.by_numpy)
        if q >= p1:
            yield q, ids[q], vocabulary.size(q)
        ids = {length: array for length, array in ids.items() if last.get(length, -1) > step}


def _pair(
    offsets: AnyArray, q: int, left: AnyArray, right: AnyArray, b: int, sizes: tuple[int, int], by_numpy: bool
) -> tuple[Words, Ints32]:
    """Distinct keys of the windows of length q, and the id of the window at every position.

    `left` and `right` are the ids of both parts, `sizes` their numbers of ids, b is the length of the right.
    """
    size_a, size_b = sizes
    if by_numpy:
        starts, ids = _window_starts(offsets, q), np.zeros(len(left), np.int32)
        keys = left[starts].astype(np.uint64) * np.uint64(size_b) + right[starts + q - b].astype(np.uint64)
        distinct, ids[starts] = np.unique(keys, return_inverse=True)
        return distinct, ids
    ids = empty(len(left), np.int32)
    if size_a * size_b <= TABLE * len(left) and len(left) <= SERIAL_SIZE:
        seen = np.zeros(size_a * size_b // 64 + 1, np.uint64)
        before = np.zeros(len(seen) + 1, np.int32)
        keys = np.empty(min(size_a * size_b, len(left)), np.uint64)
        _pair_alone(offsets, 0, len(offsets) - 1, q, left, right, b, size_b, seen, before, keys, ids)
        return keys[: before[-1]].copy(), ids
    if size_a * size_b <= TABLE * len(left):
        seen = _mark_keys(offsets, q, left, right, b, sizes)
        before = np.zeros(len(seen) + 1, np.int32)  # numbers of keys before each word
        parts = 4 * n_threads() if len(seen) > SERIAL_SIZE else 1
        pieces = list(pairwise(len(seen) * k // parts for k in range(parts + 1)))
        run(lambda d: _count_bits(d[0], d[1], seen, before), pieces)
        np.cumsum(before, out=before)
        keys = np.empty(before[-1], np.uint64)
        run(lambda d: _list_keys(d[0], d[1], seen, before, keys), pieces)
        table = seen, before, ids
        run_on_ranges(offsets, lambda i, j: _look_up(offsets, i, j, q, left, right, b, size_b, *table))
        return keys, ids
    numbers = np.maximum(np.diff(offsets) - q + 1, 0)
    starts = np.concatenate([[0], np.cumsum(numbers)])
    keys = empty(starts[-1], np.uint64)
    run_on_ranges(offsets, lambda i, j: _keys(offsets, i, j, q, left, right, b, size_b, starts, keys))
    distinct, ranks = rank(keys, size_a * size_b)
    run_on_ranges(offsets, partial(copy_rows, starts, numbers, ranks, offsets, ids))
    return distinct, ids


def _window_starts(offsets: Ints, q: int) -> Ints:
    """Positions of the complete windows of length q."""
    positions = np.arange(offsets[-1])
    left = np.repeat(offsets[1:], np.diff(offsets)) - positions
    return positions[left >= q]


def _mark_keys(
    offsets: AnyArray, q: int, left: AnyArray, right: AnyArray, b: int, sizes: tuple[int, int]
) -> Words:
    """Bit table of the keys that occur: the union of a table per thread, as far as memory allows."""
    size_b = sizes[1]
    words = sizes[0] * size_b // 64 + 1
    threads = n_threads() if len(left) > SERIAL_SIZE else 1
    tables = np.zeros((min(threads, max(1, len(left) // words)), words), np.uint64)
    windows_of_table = (q, left, right, b, size_b)
    cuts = np.searchsorted(offsets, np.linspace(0, offsets[-1], len(tables) + 1))
    cuts[-1] = len(offsets) - 1
    run(lambda k: _mark(offsets, cuts[k], cuts[k + 1], *windows_of_table, tables[k]), range(len(tables)))
    for other in tables[1:]:
        tables[0] |= other
    return np.asarray(tables[0])


def rank(keys: Words, bound: int) -> tuple[Words, Ints32]:
    """Sorted distinct keys and the rank of each key; keys are below `bound`."""
    bits = max(len(keys) - 1, 1).bit_length()
    if bound << bits <= 1 << 64:  # sorting (key, position) in one word is several times faster
        packed, ranks = copied(keys, np.uint64), empty(len(keys), np.int32)
        _pack(packed, np.uint64(bits))
        packed = _sort(packed)
        return packed[: _rank_packed(packed, np.uint64(bits), ranks)].copy(), ranks
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    new = np.ones(len(keys), bool)
    new[1:] = ordered[1:] != ordered[:-1]
    ranks = np.empty(len(keys), np.int32)
    ranks[order] = np.cumsum(new, dtype=np.int32) - 1
    return ordered[new], ranks


def _sort(words: Words) -> Words:
    """Sort distinct words in place: a sample splits them into ranges that threads sort."""
    threads = n_threads()
    if threads == 1 or len(words) <= SORTED:
        words.sort()
        return words
    sample = np.sort(words[:: max(1, len(words) // (64 * threads))])
    cuts = sample[np.arange(1, threads) * len(sample) // threads]
    parts: list[Array] = [None] * threads

    def sort_part(k: int) -> None:
        low, high = cuts[k - 1] if k else np.uint64(0), cuts[k] if k < threads - 1 else None
        inside = words >= low if high is None else (words >= low) & (words < high)
        parts[k] = words[inside]
        parts[k].sort()

    run(sort_part, range(threads))
    return np.concatenate(parts, out=words)


def count_ids(offsets: Ints, q: int, ids: Ints32, by_numpy: bool = False) -> Counts:
    """Count the windows of length q, given an id at every position."""
    if by_numpy:
        return _count_few(offsets, q, ids)
    indptr = np.zeros(len(offsets), np.int64)
    longest = int(np.diff(offsets).max(initial=1))
    pieces: dict[int, tuple[AnyArray, AnyArray]] = {}

    def count_piece(first: int, last: int) -> None:
        symbols = int(offsets[last] - offsets[first])
        features, counts = empty(symbols, np.int32), empty(symbols, np.int32)
        table = np.zeros((2 << longest.bit_length(), 2), np.int32)
        n = _count_documents(offsets, first, last, q, ids, table, features, counts, indptr)
        pieces[first] = copied(features[:n], np.int32), copied(counts[:n], np.int32)

    run_on_ranges(offsets, count_piece)
    np.add.accumulate(indptr, out=indptr)
    parts = [pieces[first] for first in sorted(pieces)]
    if len(parts) == 1:
        return Counts(indptr, *parts[0])
    return Counts(indptr, *(joined([part[k] for part in parts]) for k in (0, 1)))


def _count_few(offsets: Ints, q: int, ids: Ints32) -> Counts:
    """`count_ids` by NumPy: an entry is at the first position of its id in its document."""
    starts = _window_starts(offsets, q)
    # Sorting (id, position) in one word is several times faster than numbering the words that are equal.
    words = np.sort(ids[starts].astype(np.int64) << 32 | starts)
    at = words & MAX_SYMBOLS
    owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))[at]
    begins = np.flatnonzero(np.diff((words >> 32) * len(offsets) + owner, prepend=-1))
    entries = np.sort(at[begins] << 32 | np.diff(begins, append=len(words)))
    firsts = entries >> 32
    return Counts(np.searchsorted(firsts, offsets), ids[firsts], entries.astype(np.int32))


def _merge(offsets: Ints, parts: list[Counts], by_numpy: bool) -> Counts:
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
        if by_numpy:
            to = np.arange(len(part.features)) + np.repeat(begin - part.indptr[:-1], numbers)
            merged.features[to], merged.counts[to] = part.features, part.counts
        else:
            for array, out in ((part.features, merged.features), (part.counts, merged.counts)):
                run_on_ranges(offsets, partial(copy_rows, part.indptr, numbers, array, begin, out))
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
        before[word + 1] = popcount(seen[word])


@njit(nogil=True, cache=True)
def _list_keys(first, last, seen, before, keys):
    for word in range(first, last):
        rest, to = seen[word], before[word]
        while rest:
            lowest = rest & (~rest + np.uint64(1))
            keys[to] = np.uint64(word) * np.uint64(64) + np.uint64(popcount(lowest - np.uint64(1)))
            rest ^= lowest
            to += 1


@njit(nogil=True, cache=True)
def _look_up(offsets, first, last, q, left, right, b, size_b, seen, before, ids):
    for d in range(first, last):
        for i in range(offsets[d], offsets[d + 1] - q + 1):
            key = np.uint64(left[i]) * np.uint64(size_b) + np.uint64(right[i + q - b])
            word = key >> np.uint64(6)
            below = (np.uint64(1) << (key & np.uint64(63))) - np.uint64(1)
            ids[i] = before[word] + popcount(seen[word] & below)


@njit(nogil=True, cache=True)
def _keys(offsets, first, last, q, left, right, b, size_b, starts, keys):
    for d in range(first, last):
        to = starts[d]
        for i in range(offsets[d], offsets[d + 1] - q + 1):
            keys[to] = np.int64(left[i]) * size_b + right[i + q - b]
            to += 1


@njit(nogil=True, cache=True)
def _pair_alone(offsets, first, last, q, left, right, b, size_b, seen, before, keys, ids):
    """`_pair` by a bit table, on this thread: for few symbols the calls take longer than the work.

    Arrays are given, and `first` is 0, because Numba compiles allocations and literals anew.
    """
    _mark(offsets, first, last, q, left, right, b, size_b, seen)
    _count_bits(first, len(seen), seen, before)
    for word in range(len(seen)):
        before[word + 1] += before[word]
    _list_keys(first, len(seen), seen, before, keys)
    _look_up(offsets, first, last, q, left, right, b, size_b, seen, before, ids)


@njit(nogil=True, cache=True)
def _count_documents(offsets, first, last, q, ids, table, features, counts, distinct):
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
            at = ((np.int64(u) * 2654435769) & 0xFFFFFFFF) >> shift
            while table[at, 0] > 0 and table[at, 1] != u:
                at = (at + 1) & mask
            if table[at, 0] > 0:
                counts[begin + table[at, 0] - 1] += 1
            else:
                features[to] = u
                counts[to] = 1
                to += 1
                table[at, 0], table[at, 1] = to - begin, u
        table[: mask + 1] = 0
        distinct[d + 1] = to - begin
    return to


def weigh(weight: str, counts: Ints32) -> NDArray[np.floating]:
    """Values of numbers of occurrences c: c ("count"), 1 + ln c ("log") or 1."""
    if weight == "count":
        return counts.astype(np.float64)
    return 1 + np.log(counts) if weight == "log" else np.ones(len(counts), np.float32)
