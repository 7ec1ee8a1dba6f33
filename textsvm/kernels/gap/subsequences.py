"""Documents -> subsequences of p symbols of bounded span: exact ids, and their sums of weights, on the CPU.

An occurrence pattern is p offsets 0 = o_1 < ... < o_p < span; an occurrence is a pattern at a place where the
document has all of its symbols, and its gap is o_p + 1 - p. All patterns share the ids of the strings of p
symbols that they find. The value of u in a document is

    sum over gaps g of n_g(u) decay^g,      n_g(u): its occurrences with this gap, whole numbers,

which leaves out a factor decay^p that all have. It is summed up in float64 in the order of g, so that it
depends neither on other documents nor on how the work is cut, and is rounded to float32 once.

Ids are ranks, never hashes, in stages as in `features.gapped`: as many symbols as fit a word make a key
with the id of those before them, and the id is the rank of the key among the distinct ones. Two stages are
for long strings over large alphabets; else the key is the whole string. Documents are taken a piece at a
time: the (document, key, gap) of its occurrences, in one word each, are sorted and each run becomes an entry.
Memory is for the entries and a piece for each core, whatever the number of patterns.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.errors import InputError
from textsvm.kernels.mers.windows import Stage
from textsvm.kernels.spectrum.pmers import rank
from textsvm.linalg.sparse import MAX_INT32, Sparse
from textsvm.runtime.compiled import njit
from textsvm.runtime.device import array_module, device_of
from textsvm.runtime.memory import copied, empty, joined
from textsvm.runtime.parallel import n_threads, run
from textsvm.text.documents import Documents

Array = NDArray[Any]
#: Occurrences of a piece of work, about.
PIECE = 1 << 20
#: What (document, key, gap) stays below.
ROOM = 1 << 62
#: Keys of which a table is made, whatever the number of entries.
TABLE = 1 << 20


@dataclass(frozen=True)
class Patterns:
    """The occurrence patterns of p symbols with a span of at most `span`, the shortest spans first.

    Attributes
    ----------
    p, span : int
    offsets : int64 array, shape (number of patterns, p)
    spans : int64 array, shape (number of patterns,)
    """

    p: int
    span: int
    offsets: NDArray[np.int64]
    spans: NDArray[np.int64]

    @property
    def n_gaps(self) -> int:
        """Number of different gaps, 0 among them."""
        return int(self.spans[-1]) - self.p + 1

    def occurrences(self, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        """Number of occurrences in documents of these lengths."""
        numbers = np.zeros(len(lengths), np.int64)
        for span, times in zip(*np.unique(self.spans, return_counts=True), strict=True):
            numbers += times * np.maximum(lengths - span + 1, 0)
        return numbers


@lru_cache(maxsize=16)
def patterns_of(p: int, span: int) -> Patterns:
    """Those of p symbols."""
    rest = sorted(combinations(range(1, span), p - 1), key=lambda places: (places[-1:], places))
    offsets = np.array([(0, *places) for places in rest], np.int64)
    return Patterns(p, span, offsets, offsets[:, -1] + 1)


@dataclass(frozen=True)
class Subsequences:
    """The distinct subsequences of some documents; their ids are the numbers of the features.

    Attributes
    ----------
    n_symbols : int
        Size of the alphabet.
    stages : tuple of Stage
        `kept` are places in the string. All of NumPy or all of CuPy.
    """

    n_symbols: int
    stages: tuple[Stage, ...]

    @property
    def size(self) -> int:
        """Number of ids."""
        return len(self.stages[-1].keys)

    def strings(self) -> list[Any]:
        """The code of each symbol of all subsequences: p int64 arrays, shape (size,)."""
        keys, symbols = self.stages[-1].keys.astype(np.int64), []
        for number in range(len(self.stages) - 1, -1, -1):
            for _ in self.stages[number].kept:
                symbols.append(keys % max(self.n_symbols, 1))
                keys = keys // max(self.n_symbols, 1)
            keys = self.stages[number - 1].keys.astype(np.int64)[keys] if number else keys
        return symbols[::-1]

    def find(self, other: Subsequences) -> Any:
        """Where each subsequence of `other`, over an extension of the alphabet, is here; -1: nowhere."""
        strings = other.strings()
        xp = array_module(device_of(strings[0]))
        ids = xp.zeros(other.size, np.int64)
        for stage in self.stages:
            keys = ids
            for place in stage.kept.tolist():
                code = strings[place]
                known = (keys >= 0) & (code < self.n_symbols)
                keys = xp.where(known, keys * self.n_symbols + code, -1)
            ids = stage.find(keys)
        return ids


def places_of_stage(first: int, size: int, n_symbols: int, patterns: Patterns) -> tuple[Array, int]:
    """The symbols, from `first` on, that make a key with one of `size` ids, and a bound of the keys.

    Raises
    ------
    InputError
        If not even one fits.
    """
    number, bound = 0, max(size, 1)
    while first + number < patterns.p and bound * max(n_symbols, 1) * patterns.n_gaps <= ROOM:
        number, bound = number + 1, bound * max(n_symbols, 1)
    if not number:
        raise InputError(
            f"the documents have too many subsequences of p={patterns.p} of {n_symbols:,} symbols with "
            f"span={patterns.span}; give a smaller span, or fewer documents"
        )
    return np.arange(first, first + number), bound


def check_entries(n_entries: int) -> None:
    """Raise InputError if documents have more subsequences than can be ranked."""
    if n_entries > MAX_INT32:
        raise InputError(
            f"the documents have {n_entries:,} subsequences and at most {MAX_INT32:,} can be ranked; "
            "give fewer documents, shorten them (--max-length), or take a smaller span"
        )


def count(documents: Documents, patterns: Patterns, decay: float) -> tuple[Subsequences, Sparse]:
    """The subsequences of documents, and their values: rows with ascending features.

    Raises
    ------
    InputError
        If there are 2^31 entries or more.
    """
    stages: list[Stage] = []
    n_symbols, size = len(documents.alphabet), 1
    places, bound = places_of_stage(0, size, n_symbols, patterns)
    while places[-1] + 1 < patterns.p:
        stages.append(_prefixes(documents, patterns, stages, places))
        size = len(stages[-1].keys)
        places, bound = places_of_stage(int(places[-1]) + 1, size, n_symbols, patterns)
    entries = _Entries.of(documents, patterns, decay, _Keys(stages, places, bound))
    distinct, features, table = _ranks(entries.keys, bound)
    stages.append(Stage(places, distinct, table))
    x = Sparse(entries.indptr, features, entries.values, len(distinct))
    return Subsequences(n_symbols, tuple(stages)), x


def ids_of(documents: Documents, patterns: Patterns, own: Subsequences) -> NDArray[np.int64]:
    """The id of every occurrence in documents whose subsequences are these.

    Documents, in each the patterns, of each the places are in order.
    """
    *before, last = own.stages
    keys = _keys_of(documents, patterns, (0, len(documents)), before, last.kept)
    return last.find(keys).astype(np.int64)


@dataclass(frozen=True)
class _Keys:
    """What the keys of the last stage are made of.

    Attributes
    ----------
    stages : list of Stage
        Before it.
    places : int64 array
        Its symbols.
    bound : int
        Keys are below.
    """

    stages: list[Stage]
    places: NDArray[np.int64]
    bound: int


def _prefixes(documents: Documents, patterns: Patterns, stages: list[Stage], places: Array) -> Stage:
    """A stage before the last."""
    found: list[Array] = [np.empty(0, np.int64)]
    run(
        lambda piece: found.append(np.unique(_keys_of(documents, patterns, piece, stages, places))),
        _pieces(documents, patterns, len(documents)),
    )
    return Stage(places, np.unique(np.concatenate(found)).astype(np.uint64), None)


def _keys_of(
    documents: Documents, patterns: Patterns, piece: tuple[int, int], stages: list[Stage], places: Array
) -> NDArray[np.int64]:
    """The key of every occurrence in a piece, for the stage behind these."""
    first, last = piece
    keys = np.zeros(int(patterns.occurrences(documents.lengths[first:last]).sum()), np.int64)
    text = (documents.codes, documents.offsets, first, last, patterns.offsets, len(documents.alphabet))
    for stage in stages:
        _extend(*text, stage.kept, keys)
        keys = stage.find(keys).astype(np.int64)
    _extend(*text, places, keys)
    return keys


@dataclass(frozen=True)
class _Entries:
    """A document and a subsequence of it, by key, ascending.

    Attributes
    ----------
    indptr : int64 array, shape (n + 1,)
    keys : int64 array, shape (number of entries,)
    values : float32 array, shape (number of entries,)
    """

    indptr: NDArray[np.int64]
    keys: NDArray[np.int64]
    values: NDArray[np.float32]

    @classmethod
    def of(cls, documents: Documents, patterns: Patterns, decay: float, how: _Keys) -> _Entries:
        """Those of all documents."""
        numbers = np.zeros(len(documents), np.int64)
        powers = float(decay) ** np.arange(patterns.n_gaps)
        pieces = _pieces(documents, patterns, max(1, ROOM // (how.bound * patterns.n_gaps)))
        found: dict[int, tuple[Array, Array]] = {}

        def count_piece(piece: tuple[int, int]) -> None:
            first, last = piece
            words = _keys_of(documents, patterns, piece, how.stages, how.places)
            _pack(documents.offsets, first, last, patterns.spans, patterns.p, how.bound, words)
            words.sort()
            keys, values = np.empty(len(words), np.int64), np.empty(len(words), np.float32)
            n = _combine(words, powers, how.bound, numbers[first:last], keys, values)
            found[first] = copied(keys[:n], np.int64), copied(values[:n], np.float32)

        run(count_piece, pieces)
        indptr = np.concatenate([[0], np.cumsum(numbers)])
        check_entries(int(indptr[-1]))
        ordered = [found.pop(first) for first, _ in pieces]
        keys = joined([np.empty(0, np.int64), *(keys for keys, _ in ordered)])
        return cls(indptr, keys, joined([np.empty(0, np.float32), *(values for _, values in ordered)]))


def _pieces(documents: Documents, patterns: Patterns, most: int) -> list[tuple[int, int]]:
    """Ranges of at most `most` documents and of about PIECE occurrences, enough of them for all cores."""
    ends = np.cumsum(patterns.occurrences(documents.lengths))
    size = min(PIECE, int(ends[-1]) // (4 * n_threads()) + 1) if len(ends) else 1
    pieces, first = [], 0
    while first < len(documents):
        goal = (ends[first - 1] if first else 0) + size
        last = min(max(first + 1, int(np.searchsorted(ends, goal, "right"))), first + most)
        pieces.append((first, last))
        first = last
    return pieces


def _ranks(keys: NDArray[np.int64], bound: int) -> tuple[NDArray[np.uint64], NDArray[np.int32], Any]:
    """Sorted distinct keys, the rank of each key, and the ranks of all possible keys if these are few."""
    if bound > max(TABLE, 2 * len(keys)):
        return (*rank(keys.view(np.uint64), bound), None)
    seen, features = np.zeros(bound, bool), empty(len(keys), np.int32)
    slices = [slice(at, at + PIECE) for at in range(0, len(keys), PIECE)]
    run(lambda some: _mark(keys[some], seen), slices)
    table = np.where(seen, np.cumsum(seen, dtype=np.int32) - np.int32(1), np.int32(-1))
    run(lambda some: np.take(table, keys[some], out=features[some], mode="clip"), slices)
    return np.flatnonzero(seen).astype(np.uint64), features, table


@njit(nogil=True, cache=True)
def _mark(keys, seen):
    for key in keys:
        seen[key] = True


@njit(nogil=True, cache=True)
def _extend(codes, offsets, first, last, patterns, n_symbols, places, keys):
    # Documents, the patterns of each, the places of each: this order is that of keys everywhere.
    at, end = 0, patterns.shape[1] - 1
    for d in range(first, last):
        for m in range(len(patterns)):
            for i in range(offsets[d], offsets[d + 1] - patterns[m, end]):
                key = keys[at]
                for place in places:
                    key = key * n_symbols + np.int64(codes[i + patterns[m, place]])
                keys[at] = key
                at += 1


@njit(nogil=True, cache=True)
def _pack(offsets, first, last, spans, p, bound, words):
    at, n_gaps = 0, spans[-1] - p + 1
    for d in range(first, last):
        for span in spans:
            for _ in range(offsets[d], offsets[d + 1] - span + 1):
                words[at] = ((d - first) * bound + words[at]) * n_gaps + span - p
                at += 1


@njit(nogil=True, cache=True)
def _combine(words, powers, bound, numbers, keys, values):
    n_gaps, n, i = len(powers), 0, 0
    while i < len(words):
        entry, total = words[i] // n_gaps, 0.0
        while i < len(words) and words[i] // n_gaps == entry:
            begin = i
            while i < len(words) and words[i] == words[begin]:
                i += 1
            total += (i - begin) * powers[words[begin] - entry * n_gaps]
        document = entry // bound
        numbers[document] += 1
        keys[n] = entry - document * bound
        values[n] = np.float32(total)
        n += 1
    return n
