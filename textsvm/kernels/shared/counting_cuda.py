"""Count p-mers on a GPU (launches of kernels_cu/pmers.cu): exact integer ids and sparse counts.

The id of a window is looked up in a table of all size_a * size_b possible keys, or, if these are too many, is
the rank of its key after sorting. A radix sort of (document, p-mer) gives the counts. Documents, ids,
features and digits of unary codes are int32, which is checked; positions are int64.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from textsvm.arrays import Array, Ints
from textsvm.kernels.shared.counting import Vocabulary, check_symbols, last_uses, longest_of, plan
from textsvm.linalg.sparse_cuda import CudaSparse, check_features, documents_of, starts_of
from textsvm.runtime import device as gpu
from textsvm.text.documents import DeviceDocuments

SOURCE = "pmers.cu"
#: Number of possible keys up to which ranks are always tabulated.
TABLE = 1 << 24
KEY_DEFINES = {np.uint32: (("KEY", "uint32"),), np.uint64: (("KEY", "uint64"),)}
#: Kernels launched: (source, defines).
DEFINE_SETS = [(SOURCE, defines) for defines in KEY_DEFINES.values()]


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

    def part(self, first: int, last: int, begin: int, end: int) -> WindowIds:
        """The documents first..last, which have the symbols begin..end."""
        symbols, document = slice(begin, end), self.document[begin:end] - np.int32(first)
        ids = [(q, of_length[symbols]) for q, of_length in self.ids]
        return WindowIds(
            self.lengths[first:last], self.offsets[first : last + 1] - begin, document, ids, self.sizes
        )


class CudaPmers:
    """Ids of the windows of every length p1..p2 at every position: `counting.windows` on a GPU."""

    def __init__(self, text: DeviceDocuments, p1: int, p2: int) -> None:
        check_symbols(text.size)
        gpu.require_memory(24 * text.size, f"counting the substrings of {text.size:,} symbols")
        self.text, self.p1, self.p2 = text, p1, longest_of(text.lengths, p1, p2)
        self.document = documents_of(text.offsets, text.n, text.size)
        ids = {1: text.codes.astype(np.int32)}
        self.sizes = {1: text.n_symbols}
        # Sorted keys (uint64), or the number of keys up to each possible key.
        self.tables: dict[int, Array] = {}
        self.ids = [(1, ids[1])] if p1 == 1 else []
        steps = list(plan(self.p1, self.p2))
        last = last_uses(steps)
        for step, (q, a, b) in enumerate(steps):
            ids[q] = self._pair(q, a, b, ids[a], ids[b])
            if q >= p1:
                self.ids.append((q, ids[q]))
            ids = {length: array for length, array in ids.items() if last.get(length, -1) > step}
        self.n_pmers = sum(self.sizes[q] for q, _ in self.ids)
        check_features(self.n_pmers)

    def _pair(self, q: int, a: int, b: int, left: Array, right: Array) -> Array:
        cp = gpu.cupy()
        size, bound = self.text.size, self.sizes[a] * self.sizes[b]
        windows = (self.text.offsets, self.document, np.int32(q), np.int32(b))
        arguments = (*windows, left, right, np.int64(self.sizes[b]))
        if bound > max(1 << 24, 4 * size):
            return self._sort(q, bound, arguments)
        seen = cp.zeros(max(bound, 1), np.int32)
        _each("mark", size, *arguments, seen)
        ranks = cp.cumsum(seen, dtype=np.int32)
        ids = cp.empty(size, np.int32)
        _each("look_up", size, *arguments, ranks, ids)
        self.tables[q], self.sizes[q] = ranks, int(ranks[-1])
        return ids

    def _sort(self, q: int, bound: int, arguments: tuple[object, ...]) -> Array:
        cp = gpu.cupy()
        size, windows = self.text.size, _n_windows(self.text.lengths, q)
        shift = max(size - 1, 1).bit_length()
        shift = shift if (bound + 1) << shift <= 1 << 64 else 0
        keys = cp.empty(size, np.uint64)
        _each("window_keys", size, *arguments, np.int32(shift), keys)
        if shift:  # sorting (key, position) in one word is several times faster
            keys.sort()
            keys = keys[:windows]
            order = (keys & np.uint64((1 << shift) - 1)).astype(np.int64)
            keys >>= np.uint64(shift)
        else:
            order = cp.argsort(keys)[:windows]
            keys = keys[order]
        new = cp.ones(len(keys), bool)
        new[1:] = keys[1:] != keys[:-1]
        ids = cp.zeros(size, np.int32)
        ids[order] = cp.cumsum(new, dtype=np.int32) - 1
        self.tables[q] = keys[new]
        self.sizes[q] = len(self.tables[q])
        return ids

    @property
    def windows(self) -> WindowIds:
        """The ids of all documents."""
        return WindowIds(self.text.lengths, self.text.offsets, self.document, self.ids, self.sizes)

    def forget_positions(self) -> None:
        """Free everything except the vocabulary."""
        del self.text, self.document, self.ids

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


class CudaCounts:
    """Counts of p-mers, an entry per document and p-mer; with `unary`, an entry per digit of the unary code.

    documents, pmers, counts : int32, (entries,); `counts` is None with `unary`
    features : int32, (entries,), `pmers`, or with `unary` the numbers of the digits
    df : int32, (features,), number of documents with each feature
    highest : int32, (p-mers,), largest count of each p-mer
    indptr : int64, (n + 1,), first entry of each document
    starts : int64, (p-mers + 1,), first digit of each p-mer; None without `unary`
    """

    def __init__(self, windows: WindowIds, unary: bool) -> None:
        cp = gpu.cupy()
        self.n = len(windows.lengths)
        keys, n_pmers = _occurrence_keys(windows), np.int64(windows.n_pmers)
        kind = keys.dtype.type
        first = cp.empty(len(keys), bool)
        _each("first_of_run", len(keys), keys, first, key=kind)
        begins = cp.flatnonzero(first)
        self.documents, self.pmers, self.counts = (cp.empty(len(begins), np.int32) for _ in range(3))
        self.features = self.pmers
        self.starts: Array = None
        self.df = cp.zeros(windows.n_pmers, np.int32)
        self.highest = cp.ones(windows.n_pmers, np.int32)
        outputs = (self.documents, self.pmers, self.counts, self.df, self.highest)
        _each("entries", len(begins), np.int64(len(keys)), keys, begins, n_pmers, *outputs, key=kind)
        if unary:
            self._unary(keys, cp.cumsum(first, dtype=np.int64), begins, n_pmers)
        self.indptr = cp.zeros(self.n + 1, np.int64)
        _each("row_starts", len(self.documents), np.int32(self.n), self.documents, self.indptr)

    def _unary(self, keys: Array, run: Array, begins: Array, n_pmers: np.int64) -> None:
        """Replace counts by an entry per occurrence."""
        cp = gpu.cupy()
        self.starts = starts_of(self.highest)
        n_features = int(self.starts[-1])
        check_features(n_features)
        self.documents, self.features, self.pmers = (cp.empty(len(keys), np.int32) for _ in range(3))
        self.counts, self.df = None, cp.zeros(n_features, np.int32)
        outputs = (self.documents, self.pmers, self.features, self.df)
        _each("unary", len(keys), keys, begins, run, n_pmers, self.starts, *outputs, key=keys.dtype.type)


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
    return keys[: sum(_n_windows(windows.lengths, q) for q, _ in windows.ids)]


def _n_windows(lengths: Ints, q: int) -> int:
    """Number of windows of q symbols in documents of these lengths."""
    return int(np.maximum(lengths - q + 1, 0).sum())


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
