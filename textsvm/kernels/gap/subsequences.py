"""Exact ids and weights of subsequences of p symbols and bounded span, on the CPU.

An occurrence pattern is p offsets 0 = o_1 < ... < o_p < span; an occurrence is a pattern at a position where
the document has all its symbols, and its gap is o_p + 1 - p. All patterns share the ids of the strings they
select. The value of u in a document is

    sum over gaps g of n_g(u) decay^g,      n_g(u): number of occurrences with this gap,

without the common factor decay^p. It is summed in float64 in the order of g, so it depends neither on other
documents nor on the division of work, and is rounded to float32 once.

Ids are exact, in stages (shared/stages.py); only long strings over large alphabets need two. Documents are
processed in pieces: the words (document, key, gap) of their occurrences are sorted, and each run becomes an
entry. Memory holds the entries and a piece per core, whatever the number of patterns.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import combinations
from typing import Any

import numpy as np

from textsvm.arrays import AnyArray, Array, Floats, Floats32, Ints, distinct_of
from textsvm.errors import InputError
from textsvm.kernels.shared.feature_rows import FeatureKernelRows
from textsvm.kernels.shared.normalisation import Normalisation, require_float32
from textsvm.kernels.shared.stages import Stage, StagedIds, ranked
from textsvm.linalg.sparse import MAX_INT32, Sparse
from textsvm.runtime import device as devices
from textsvm.runtime.compiled import njit
from textsvm.runtime.device import Device
from textsvm.runtime.memory import copied, joined
from textsvm.runtime.parallel import n_threads, run
from textsvm.text.documents import Documents

PIECE = 1 << 20  #: Approximate number of occurrences per piece of work.
ROOM = 1 << 62  #: Upper bound of (document, key, gap) as a number.
TABLE = 1 << 20  #: Number of keys up to which ranks are always tabulated.


@dataclass(frozen=True)
class Patterns:
    """Occurrence patterns of p symbols with a span of at most `span`, by increasing span."""

    p: int
    span: int
    offsets: Ints  #: shape (number of patterns, p)
    spans: Ints  #: shape (number of patterns,)

    @property
    def n_gaps(self) -> int:
        """Number of different gaps, including 0."""
        return int(self.spans[-1]) - self.p + 1

    def occurrences(self, lengths: Ints) -> Ints:
        """Number of occurrences in documents of these lengths."""
        numbers = np.zeros(len(lengths), np.int64)
        for span, times in zip(*np.unique(self.spans, return_counts=True), strict=True):
            numbers += times * np.maximum(lengths - span + 1, 0)
        return numbers


@lru_cache(maxsize=16)
def patterns_of(p: int, span: int) -> Patterns:
    """Patterns of p symbols with a span of at most `span`."""
    rest = sorted(combinations(range(1, span), p - 1), key=lambda places: (places[-1:], places))
    offsets = np.array([(0, *places) for places in rest], np.int64)
    return Patterns(p, span, offsets, offsets[:, -1] + 1)


class Subsequences(StagedIds):
    """Distinct subsequences of some documents; ids number the features, positions are in the string."""

    def find(self, other: Subsequences) -> Array:
        """Id here of each subsequence of `other`, over an extension of the alphabet; -1 if unknown."""
        strings = other.strings()
        xp = devices.array_module(devices.device_of(strings[0]))
        ids = xp.zeros(other.size, np.int64)
        for stage in self.stages:
            keys = ids
            for place in stage.positions.tolist():
                code = strings[place]
                valid = (keys >= 0) & (code < self.n_symbols)
                keys = xp.where(valid, keys * self.n_symbols + code, -1)
            ids = stage.find(keys)
        return ids


class SubsequenceRows(FeatureKernelRows):
    """Kernel values of `BoundedGap` with fixed documents; the CPU and CUDA twins count subsequences."""

    def __init__(self, kernel: Any, documents: Documents, device: Device) -> None:
        super().__init__(kernel, documents, device)
        with devices.use(device):
            self.features, self.x, squares = self.represent(documents)
        self.normalisation = normalisation_of(kernel, documents, squares)

    @property
    def space(self) -> SubsequenceRows:
        """The rows are their own feature space (`FeaturePredictor`)."""
        return self

    @abstractmethod
    def represent(self, documents: Documents) -> tuple[Subsequences, Array, Floats]:
        """Features of documents, X over them on the device, and the squared norms of its rows."""

    @abstractmethod
    def select(self, x: Array, target: Array) -> Array:
        """X with its features renumbered to `target`, numbers of `features`; -1 drops a feature."""

    def project(self, others: Documents, columns: Normalisation | None = None) -> tuple[Array, Normalisation]:
        own, x, squares = self.represent(others)
        normalisation = normalisation_of(self.kernel, others, squares, columns or self.normalisation)
        return self.select(x, self.features.find(own)), normalisation

    def products(
        self, others: Documents, columns: Normalisation, weights: Array
    ) -> tuple[Floats, Normalisation]:
        """X of other documents times feature weights, and their normalisation, on the host."""
        x, own = self.project(others, columns)
        return devices.to_host(x.dot(weights)), own


def normalisation_of(
    kernel: Any, documents: Documents, squares: Floats, columns: Normalisation | None = None
) -> Normalisation:
    """Scales of products of documents: without normalisation, X lacks a factor decay^p."""
    if kernel.normalised:
        return Normalisation(documents, squares, True, columns)
    unit = float(kernel.decay) ** int(kernel.p)
    own = Normalisation(documents, squares * unit**2, False, columns)
    own.scale = np.full(len(documents), unit)
    require_float32(own.self_values[documents.lengths >= kernel.p], kernel.name)
    return own


def places_of_stage(first: int, size: int, n_symbols: int, patterns: Patterns) -> tuple[AnyArray, int]:
    """Places from `first` on that form a key with an id below `size`, and a bound of the keys."""
    number, bound = 0, max(size, 1)
    while first + number < patterns.p and bound * max(n_symbols, 1) * patterns.n_gaps <= ROOM:
        number, bound = number + 1, bound * max(n_symbols, 1)
    if not number:
        raise InputError(
            f"the documents have too many subsequences of p={patterns.p} of {n_symbols:,} symbols with "
            f"span={patterns.span}; give a smaller span, or fewer documents"
        )
    return np.arange(first, first + number), bound


def stages_before(
    n_symbols: int, patterns: Patterns, stage_of: Callable[[list[Stage], AnyArray], Stage]
) -> tuple[list[Stage], AnyArray, int]:
    """Stages before the last, and the places and the bound of the keys of the last.

    ``stage_of(stages, places)`` learns the stage of these places after others.
    """
    stages: list[Stage] = []
    places, bound = places_of_stage(0, 1, n_symbols, patterns)
    while places[-1] + 1 < patterns.p:
        stages.append(stage_of(stages, places))
        size = len(stages[-1].keys)
        places, bound = places_of_stage(int(places[-1]) + 1, size, n_symbols, patterns)
    return stages, places, bound


def check_entries(n_entries: int) -> None:
    """Raise InputError if documents have too many subsequences to be ranked."""
    if n_entries > MAX_INT32:
        raise InputError(
            f"the documents have {n_entries:,} subsequences and at most {MAX_INT32:,} can be ranked; "
            "give fewer documents, shorten them (--max-length), or take a smaller span"
        )


def count(documents: Documents, patterns: Patterns, decay: float) -> tuple[Subsequences, Sparse]:
    """Subsequences of documents, and their values as rows with ascending features."""
    n_symbols, learn = len(documents.alphabet), partial(_prefixes, documents, patterns)
    stages, places, bound = stages_before(n_symbols, patterns, learn)
    indptr, keys, values = _entries(documents, patterns, decay, stages, places, bound)
    distinct, features, table = ranked(keys, bound, max(TABLE, 2 * len(keys)))
    stages.append(Stage(places, distinct, table))
    return Subsequences(n_symbols, tuple(stages)), Sparse(indptr, features, values, len(distinct))


def ids_of(documents: Documents, patterns: Patterns, own: Subsequences) -> Ints:
    """Id of every occurrence in documents whose subsequences are these, ordered as in `_extend`."""
    *before, last = own.stages
    keys = _keys_of(documents, patterns, (0, len(documents)), before, last.positions)
    return last.find(keys).astype(np.int64)


def _prefixes(documents: Documents, patterns: Patterns, stages: list[Stage], places: AnyArray) -> Stage:
    key_sets: list[AnyArray] = [np.empty(0, np.int64)]
    run(
        lambda piece: key_sets.append(distinct_of(_keys_of(documents, patterns, piece, stages, places))),
        _pieces(documents, patterns, len(documents)),
    )
    return Stage(places, distinct_of(np.concatenate(key_sets)).astype(np.uint64), None)


def _keys_of(
    documents: Documents, patterns: Patterns, piece: tuple[int, int], stages: list[Stage], places: AnyArray
) -> Ints:
    """Key of every occurrence in a piece, for the stage after these."""
    first, last = piece
    keys = np.zeros(int(patterns.occurrences(documents.lengths[first:last]).sum()), np.int64)
    text = (documents.codes, documents.offsets, first, last, patterns.offsets, len(documents.alphabet))
    for stage in stages:
        _extend(*text, stage.positions, keys)
        keys = stage.find(keys).astype(np.int64)
    _extend(*text, places, keys)
    return keys


def _entries(
    documents: Documents, patterns: Patterns, decay: float, stages: list[Stage], places: AnyArray, bound: int
) -> tuple[Ints, Ints, Floats32]:
    """Offsets of the documents, and keys below `bound`, ascending, and values of their subsequences."""
    numbers = np.zeros(len(documents), np.int64)
    powers = float(decay) ** np.arange(patterns.n_gaps)
    pieces = _pieces(documents, patterns, max(1, ROOM // (bound * patterns.n_gaps)))
    entries: dict[int, tuple[AnyArray, AnyArray]] = {}

    def count_piece(piece: tuple[int, int]) -> None:
        first, last = piece
        words = _keys_of(documents, patterns, piece, stages, places)
        _pack(documents.offsets, first, last, patterns.spans, patterns.p, bound, words)
        words.sort()
        keys, values = np.empty(len(words), np.int64), np.empty(len(words), np.float32)
        n = _combine(words, powers, bound, numbers[first:last], keys, values)
        entries[first] = copied(keys[:n], np.int64), copied(values[:n], np.float32)

    run(count_piece, pieces)
    indptr = np.concatenate([[0], np.cumsum(numbers)])
    check_entries(int(indptr[-1]))
    ordered = [entries.pop(first) for first, _ in pieces]
    keys = joined([np.empty(0, np.int64), *(keys for keys, _ in ordered)])
    return indptr, keys, joined([np.empty(0, np.float32), *(values for _, values in ordered)])


def _pieces(documents: Documents, patterns: Patterns, most: int) -> list[tuple[int, int]]:
    """Ranges of at most `most` documents and about PIECE occurrences, enough for all cores."""
    ends = np.cumsum(patterns.occurrences(documents.lengths))
    size = min(PIECE, int(ends[-1]) // (4 * n_threads()) + 1) if len(ends) else 1
    pieces, first = [], 0
    while first < len(documents):
        goal = (ends[first - 1] if first else 0) + size
        last = min(max(first + 1, int(np.searchsorted(ends, goal, "right"))), first + most)
        pieces.append((first, last))
        first = last
    return pieces


@njit(nogil=True, cache=True)
def _extend(codes, offsets, first, last, patterns, n_symbols, places, keys):
    # Keys are ordered by document, pattern and position everywhere.
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
