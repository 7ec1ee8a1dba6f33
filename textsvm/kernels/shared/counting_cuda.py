"""Count p-mers on a GPU (launches of kernels_cu/pmers.cu): exact integer ids and sparse counts.

The id of a window is looked up in a table of all size_a * size_b possible keys, or, if these are too many, is
the rank of its key among the sorted distinct keys. A radix sort of (document, p-mer) gives the counts.
Documents, ids, features and digits of unary codes are int32, which is checked; positions are int64.

Documents are counted in passes over panels of consecutive documents (`plan_panels`), first to learn the
p-mers of each length, then to count them. Panels change no id and no count. Bytes:

    all symbols         1, 2 or 4 for the code
    symbol of a panel   4 for the document and 4 for the id of each length, computed again in each pass; while
                        keys are sorted, 41
    occurrence          of a substring in a panel: a key of 4 or 8, as many to sort it, 1 for the first of a
                        run, 8 to number the runs; afterwards 20 for an entry (start, document, p-mer, count)
    entry               1 to 4 for the count and 4 for the p-mer while it waits for its weight, then 8, for
                        feature and value, in the rows (`textsvm.linalg.rows_cuda`)
    p-mer               8 for the key, 12 for the document frequency and the largest count; a table has 4 for
                        each possible key
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from textsvm.arrays import Array, Ints
from textsvm.kernels.shared.counting import Vocabulary, check_symbols, last_uses, longest_of, plan, windows_of
from textsvm.linalg.rows_cuda import numbers_of
from textsvm.linalg.sparse_cuda import CudaSparse, check_features, documents_of, starts_of
from textsvm.runtime import device as gpu
from textsvm.text.documents import DeviceDocuments

SOURCE = "pmers.cu"
TABLE = 1 << 24  #: Number of possible keys up to which ranks are always tabulated.
NO_KEY = np.uint64((1 << 64) - 1)  #: Key of a window that leaves its document.
PANEL_BYTES = 48  #: Upper bound of the bytes per occurrence while a panel is counted or weighted.
MAX_PANEL = 1 << 26  #: Maximum number of occurrences per panel.
#: Maximum share of the free memory for a panel.
PANEL_SHARE = 0.25
KEY_DEFINES = {np.uint32: (("KEY", "uint32"),), np.uint64: (("KEY", "uint64"),)}
DEFINE_SETS = [(SOURCE, defines) for defines in KEY_DEFINES.values()]  #: Kernels launched: (source, defines).


@dataclass(frozen=True)
class WindowIds:
    """Ids of the windows of each length at every position of some documents, on a GPU."""

    lengths: Ints  #: Symbols of each document, on the host
    offsets: Array  #: First symbol of each document
    document: Array  #: Document of each symbol
    ids: list[tuple[int, Array]]  #: Each length, with the ids
    sizes: dict[int, int]  #: Number of p-mers of each length

    @property
    def n_pmers(self) -> int:
        return sum(self.sizes[q] for q, _ in self.ids)


def plan_panels(lengths: Ints, n_lengths: int, free: int) -> list[tuple[int, int]]:
    """Ranges of documents to count together, given their lengths and the bytes of free memory."""
    occurrences = max(1, min(MAX_PANEL, int(PANEL_SHARE * free) // PANEL_BYTES))
    starts = np.cumsum(lengths) - lengths
    cuts = np.flatnonzero(np.diff(starts // max(1, occurrences // max(1, n_lengths)))) + 1
    return list(pairwise([0, *cuts.tolist(), len(lengths)]))


class CudaPmers:
    """Distinct p-mers of every length p1..p2, and their ids in panels of documents, on a GPU."""

    def __init__(self, text: DeviceDocuments, p1: int, p2: int) -> None:
        check_symbols(text.size)
        self.text, self.p1, self.p2 = text, p1, longest_of(text.lengths, p1, p2)
        self.steps = list(plan(self.p1, self.p2))
        #: Sorted keys (uint64), or the number of keys up to each possible key.
        self.tables: dict[int, Array] = {}
        self.sizes = {1: text.n_symbols}
        self.lengths = [q for q in (1, *(q for q, _, _ in self.steps)) if q >= p1]
        self.offsets = np.concatenate([[0], np.cumsum(text.lengths)])
        self.panels = plan_panels(text.lengths, len(self.lengths), gpu.free_memory())
        #: Number of steps, and the ids after these, of a single panel.
        self._begun: tuple[int, dict[int, Array]] | None = None
        for step, (q, a, b) in enumerate(self.steps):
            self.tables[q], self.sizes[q] = self._learn(step, q, self.sizes[a] * self.sizes[b])
        self.n_pmers = sum(self.sizes[q] for q in self.lengths)
        check_features(self.n_pmers)

    def windows(self, first: int, last: int) -> WindowIds:
        """Ids of the windows in the documents first..last."""
        panel = _DocumentPanel(self.text, self.offsets, first, last)
        ids = self._ids(panel, len(self.steps), self.lengths)
        of_lengths = [(q, ids[q]) for q in self.lengths]
        return WindowIds(self.text.lengths[first:last], panel.offsets, panel.document, of_lengths, self.sizes)

    def _ids(self, panel: _DocumentPanel, steps: int, wanted: Collection[int]) -> dict[int, Array]:
        """Ids of the windows of the `wanted` lengths, after the first steps."""
        begun, ids = self._begun or (0, {1: panel.codes.astype(np.int32)})
        one = len(self.panels) == 1  # whose ids are not computed again
        last = last_uses(self.steps if one else self.steps[:steps])
        wanted = self.lengths if one else wanted
        for step, (q, a, b) in enumerate(self.steps[begun:steps], begun):
            table, ranks = self.tables[q], gpu.cupy().empty(panel.size, np.int32)
            arguments = panel.arguments(q, b, ids[a], ids[b], self.sizes[b])
            if table.dtype == np.uint64:
                _each("search", panel.size, *arguments, np.int64(len(table)), table, ranks)
            else:
                _each("look_up", panel.size, *arguments, table, ranks)
            ids[q] = ranks
            ids = {length: of_length for length, of_length in ids.items()
                   if length in wanted or last.get(length, -1) > step}  # fmt: skip
        self._begun = (steps, ids) if one else None
        return ids

    def _learn(self, step: int, q: int, bound: int) -> tuple[Array, int]:
        """Table of the distinct p-mers of a length, and their number, given the number of possible keys."""
        cp, (_, a, b) = gpu.cupy(), self.steps[step]
        tabulated = bound <= max(TABLE, min(4 * self.text.size, gpu.free_memory() // 64))
        seen, distinct = cp.zeros(max(bound, 1) if tabulated else 0, np.int32), cp.empty(0, np.uint64)
        for first, last in self.panels:
            panel = _DocumentPanel(self.text, self.offsets, first, last)
            ids = self._ids(panel, step, (a, b))
            arguments = panel.arguments(q, b, ids[a], ids[b], self.sizes[b])
            if tabulated:
                _each("mark", panel.size, *arguments, seen)
                continue
            keys = cp.empty(panel.size, np.uint64)
            _each("window_keys", panel.size, *arguments, keys)
            distinct = cp.unique(cp.concatenate([distinct, keys]))
        if tabulated:
            ranks = cp.cumsum(seen, dtype=np.int32)
            return ranks, int(ranks[-1])
        distinct = distinct[distinct != NO_KEY]
        return distinct, len(distinct)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """Vocabulary with keys on the card."""
        cp = gpu.cupy()
        keys = {}
        for q, table in self.tables.items():
            if table.dtype != np.uint64:
                new = table.copy()
                new[1:] -= table[:-1]
                table = cp.flatnonzero(new).astype(np.uint64)
            keys[q] = table
        return Vocabulary(self.p1, self.p2, self.sizes[1], keys)


class _DocumentPanel:
    """The documents first..last of a text, and the document of each symbol."""

    def __init__(self, text: DeviceDocuments, offsets: Ints, first: int, last: int) -> None:
        begin, end = int(offsets[first]), int(offsets[last])
        self.size, self.codes = end - begin, text.codes[begin:end]
        self.offsets = text.offsets[first : last + 1] - begin
        self.document = documents_of(self.offsets, last - first, self.size)

    def arguments(self, q: int, b: int, left: Array, right: Array, size_b: int) -> tuple[object, ...]:
        """Arguments of kernels of windows of length q, given the ids of both parts."""
        return self.offsets, self.document, np.int32(q), np.int32(b), left, right, np.int64(size_b)


@dataclass(frozen=True)
class CudaCounts:
    """Counts of p-mers, an entry per document and p-mer; after `unary`, an entry per digit of the unary code.

    documents, pmers, counts : int32, (entries,); `counts` is None after `unary`
    features : int32, (entries,), `pmers`, or after `unary` the numbers of the digits
    df : int32, (features,), number of documents with each feature
    highest : int32, (p-mers,), largest count of each p-mer
    indptr : int64, (n + 1,), first entry of each document
    starts : int64, (p-mers + 1,), first digit of each p-mer; None before `unary`
    """

    indptr: Array
    documents: Array
    pmers: Array
    counts: Array
    features: Array
    df: Array
    highest: Array
    starts: Array = None

    @classmethod
    def of(cls, windows: WindowIds) -> CudaCounts:
        """Count the windows of some documents."""
        cp, n = gpu.cupy(), len(windows.lengths)
        keys, n_pmers = _occurrence_keys(windows), np.int64(windows.n_pmers)
        kind = keys.dtype.type
        first = cp.empty(len(keys), bool)
        _each("first_of_run", len(keys), keys, first, key=kind)
        begins = cp.flatnonzero(first)
        documents, pmers, counts = (cp.empty(len(begins), np.int32) for _ in range(3))
        df, highest = cp.zeros(windows.n_pmers, np.int32), cp.ones(windows.n_pmers, np.int32)
        outputs = (documents, pmers, counts, df, highest)
        _each("entries", len(begins), np.int64(len(keys)), keys, begins, n_pmers, *outputs, key=kind)
        return cls(row_starts(n, documents), documents, pmers, counts, pmers, df, highest)

    @classmethod
    def of_panels(cls, pmers: CudaPmers, unary: bool) -> CudaCounts:
        """Count the p-mers of all documents, panel by panel."""
        cp, parts = gpu.cupy(), []
        df, highest = cp.zeros(pmers.n_pmers, np.int32), cp.ones(pmers.n_pmers, np.int32)
        for first, last in pmers.panels:
            part = cls.of(pmers.windows(first, last))
            if len(pmers.panels) == 1:
                return part.unary() if unary else part
            df += part.df
            cp.maximum(highest, part.highest, out=highest)
            parts.append((part.documents + np.int32(first), part.pmers, part.counts))
            del part  # before the next is counted
        documents, joined, counts = (cp.concatenate(arrays) for arrays in zip(*parts, strict=True))
        del parts
        indptr = row_starts(len(pmers.text.lengths), documents)
        whole = cls(indptr, documents, joined, counts, joined, df, highest)
        return whole.unary() if unary else whole

    def unary(self, starts: Array = None) -> CudaCounts:
        """An entry per occurrence, instead of counts; with first digits that allow for other documents."""
        starts = starts_of(self.highest) if starts is None else starts
        n_features = int(starts[-1])
        check_features(n_features)
        ends, owner, features = unary_digits(starts, self.pmers, self.counts)
        df = numbers_of(features, n_features).astype(np.int32)
        return replace(
            self, indptr=ends[self.indptr], documents=self.documents[owner], pmers=self.pmers[owner],
            counts=None, features=features, df=df, starts=starts,
        )  # fmt: skip


def row_starts(n: int, documents: Array) -> Array:
    """First entry of each of n documents, given the document of each entry."""
    indptr = gpu.cupy().zeros(n + 1, np.int64)
    _each("row_starts", len(documents), np.int32(n), documents, indptr)
    return indptr


def unary_digits(starts: Array, pmers: Array, counts: Array) -> tuple[Array, Array, Array]:
    """Digits of the unary code of entries: first digit of each entry, entry and feature of each digit."""
    cp, ends = gpu.cupy(), starts_of(counts)
    size = int(ends[-1])
    gpu.require_memory(48 * size, "the substrings of the documents")
    owner = documents_of(ends, len(counts), size)
    return ends, owner, (starts[pmers[owner]] + cp.arange(size) - ends[owner]).astype(np.int32)


def _occurrence_keys(windows: WindowIds) -> Array:
    """document * n_pmers + p-mer of every occurrence, sorted."""
    cp, n_pmers, size = gpu.cupy(), windows.n_pmers, len(windows.document)
    key = np.uint32 if (len(windows.lengths) + 1) * n_pmers < 1 << 32 else np.uint64
    occurrences = size * len(windows.ids)
    gpu.require_memory(4 * key().itemsize * occurrences, "the substrings of the documents")
    keys = cp.empty(occurrences, key)
    base = 0
    for k, (q, ids) in enumerate(windows.ids):
        where = (windows.offsets, windows.document, np.int32(q), ids, np.int64(base), np.int64(n_pmers))
        _each("token_keys", size, *where, keys[k * size : (k + 1) * size], key=key)
        base += windows.sizes[q]
    if occurrences:
        keys.sort()
    return keys[: sum(int(windows_of(windows.lengths, q, q).sum()) for q, _ in windows.ids)]


def match_unary(columns: Array, rows: Array, pmers: Array) -> Array:
    """`linalg.sparse.match_unary` on a GPU."""
    cp = gpu.cupy()
    digits = cp.arange(int(rows[-1]))
    if not len(digits):
        return digits
    owner = cp.searchsorted(rows[1:], digits, side="right")
    columns_of_digits = pmers[owner]
    target = columns[columns_of_digits] + digits - rows[owner]
    return cp.where((columns_of_digits >= 0) & (target < columns[columns_of_digits + 1]), target, -1)


def upload(vocabulary: Vocabulary) -> Vocabulary:
    """Copy a vocabulary to the current card."""
    keys = {q: gpu.cupy().asarray(of_length) for q, of_length in vocabulary.keys.items()}
    return Vocabulary(vocabulary.p1, vocabulary.p2, vocabulary.n_symbols, keys)


def download(vocabulary: Vocabulary) -> Vocabulary:
    """Copy a vocabulary to the host."""
    keys = {q: of_length.get() for q, of_length in vocabulary.keys.items()}
    return Vocabulary(vocabulary.p1, vocabulary.p2, vocabulary.n_symbols, keys)


def _each(name: str, n: int, *args: object, key: Any = np.uint32) -> None:
    gpu.each(gpu.function(SOURCE, name, KEY_DEFINES[key]), n, *args)


def matrix_of(weight: str, counts: CudaCounts, weights: Array | None) -> CudaSparse:
    """X of counted documents, given the weight of counts and the learnt weights of p-mers."""
    cp = gpu.cupy()
    values = counts.counts if weight == "count" else cp.ones(len(counts.features), np.float32)
    if weight == "log":
        values = 1 + cp.log(counts.counts.astype(np.float64))
    if weights is not None:
        w = weights[counts.pmers]
        values = cp.sqrt(w) if weight == "intersection" else w * values
    values = values.astype(np.float32, copy=False)
    highest = counts.highest if weight == "count" else cp.ones(len(counts.df), np.int32)
    whole = weights is None and weight != "log"
    return CudaSparse(counts.indptr, counts.documents, counts.features, values, counts.df, highest, whole)


def ranked(keys: Array, bound: int) -> tuple[Array, Array, Array | None]:
    """`stages.ranked` on the current card."""
    cp = gpu.cupy()
    gpu.require_memory(40 * len(keys), f"ranking {len(keys):,} keys")
    if not len(keys):
        return cp.empty(0, np.uint64), cp.empty(0, np.int32), None
    if bound > max(TABLE, 4 * len(keys)):
        distinct, inverse = cp.unique(keys, return_inverse=True)
        return distinct.astype(np.uint64), inverse.astype(np.int32), None
    seen = cp.zeros(bound, bool)
    seen[keys] = True
    ranks = cp.where(seen, cp.cumsum(seen, dtype=np.int32) - 1, -1).astype(np.int32)
    return cp.flatnonzero(seen).astype(np.uint64), ranks[keys], ranks
