"""GPU twin of the gap-weighted kernel of bounded span.

`count` is `subsequences.count` on the GPU (kernels_cu/subsequences.cu): batches of documents are counted in
turn, then the keys of all entries are ranked together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from textsvm.arrays import Array, Floats, Ints
from textsvm.kernels.gap.subsequences import (
    ROOM,
    Patterns,
    SubsequenceRows,
    Subsequences,
    check_entries,
    normalisation_of,
    stages_before,
)
from textsvm.kernels.shared.counting_cuda import ranked, row_starts
from textsvm.kernels.shared.feature_rows import FeatureKernelRows
from textsvm.kernels.shared.feature_rows_cuda import CountedPanels, CudaFeatureRows, match_featureless
from textsvm.kernels.shared.normalisation import require_float32
from textsvm.kernels.shared.stages import Stage
from textsvm.linalg.rows import FeatureRows
from textsvm.linalg.rows_cuda import CudaRows, combine_panels, numbers_of
from textsvm.linalg.sparse_cuda import CudaSparse, check_features, documents_of
from textsvm.runtime import device as gpu
from textsvm.runtime.device import Device
from textsvm.text.documents import DeviceDocuments, Documents

SOURCE = "subsequences.cu"
DEFINE_SETS: list[tuple[str, gpu.Defines]] = [(SOURCE, ())]  #: Kernels launched: (source, defines).
BATCH = 1 << 26  #: Words per batch of documents.
WORD_BYTES = 256  #: Free bytes per word of a batch.


class _PatternBatch:
    """Some documents on the GPU, with a word for each pattern at each position."""

    def __init__(self, documents: Documents, patterns: Patterns) -> None:
        cp = gpu.cupy()
        self.patterns, self.text = patterns, DeviceDocuments(documents)
        self.n_words = self.text.size * len(patterns.spans)
        gpu.require_memory(32 * self.n_words, f"counting subsequences of {self.text.size:,} symbols")
        self.occurrences = int(patterns.occurrences(documents.lengths).sum())
        self.codes = self.text.codes.astype(np.int32)
        self.offsets = cp.asarray(patterns.offsets.astype(np.int32))
        self.document = documents_of(self.text.offsets, self.text.n, self.text.size)

    def keys(self, stages: list[Stage], places: Array) -> Array:
        """Key of every word for the stage after these; -1 if the pattern does not occur there."""
        keys = gpu.cupy().zeros(self.n_words, np.int64)
        for stage in stages:
            self._extend(stage.positions, keys)
            keys = stage.find(keys).astype(np.int64)
        self._extend(places, keys)
        return keys

    def _extend(self, places: Array, keys: Array) -> None:
        text, p = self.text, np.int32(self.patterns.p)
        begin, end = np.int32(places[0]), np.int32(places[-1] + 1)
        where = (np.int64(text.size), self.codes, text.offsets, self.document, self.offsets, p, begin, end)
        _each("extend", self.n_words, *where, np.int64(text.n_symbols), keys)

    def entries(self, words: Array, bound: int, powers: Array) -> tuple[Array, Array, Array]:
        """Document, key and value of each subsequence of each document, from the keys of the last stage."""
        cp = gpu.cupy()
        p, n_gaps = np.int32(self.patterns.p), np.int64(self.patterns.n_gaps)
        sizes = (np.int64(bound), n_gaps)
        _each("pack", self.n_words, np.int64(self.text.size), self.document, self.offsets, p, *sizes, words)
        words.sort()
        words = words[: self.occurrences]
        first = cp.empty(len(words), bool)
        _each("begins_entry", len(words), n_gaps, words, first)
        begins = cp.flatnonzero(first)
        documents, keys, values = (cp.empty(len(begins), kind) for kind in (np.int32, np.int64, np.float32))
        run_arrays = (np.int64(len(words)), words, begins, n_gaps, np.int64(bound), powers)
        _each("combine", len(begins), *run_arrays, documents, keys, values)
        return documents, keys, values


def _learn(documents: Documents, patterns: Patterns) -> tuple[list[Stage], Array, int]:
    cp = gpu.cupy()

    def learn(stages: list[Stage], places: Array) -> Stage:
        parts_keys = [cp.unique(batch.keys(stages, places)) for _, batch in _batches(documents, patterns)]
        keys = cp.unique(cp.concatenate([cp.empty(0, np.int64), *parts_keys]))
        return Stage(places, keys[keys >= 0].astype(np.uint64), None)

    return stages_before(len(documents.alphabet), patterns, learn)


def _entries(
    documents: Documents, patterns: Patterns, decay: float, stages: list[Stage], places: Array, bound: int
) -> Iterator[tuple[int, int, tuple[Array, Array, Array]]]:
    """First and last document of each batch, and the document in it, key and value of its subsequences."""
    powers = gpu.cupy().asarray(float(decay) ** np.arange(patterns.n_gaps))
    for first, batch in _batches(documents, patterns, max(1, ROOM // (bound * patterns.n_gaps))):
        yield first, first + batch.text.n, batch.entries(batch.keys(stages, places), bound, powers)


def count(documents: Documents, patterns: Patterns, decay: float) -> tuple[Subsequences, CudaSparse]:
    """`subsequences.count` on the current GPU."""
    cp, (stages, places, bound) = gpu.cupy(), _learn(documents, patterns)
    parts = [(cp.empty(0, np.int32), cp.empty(0, np.int64), cp.empty(0, np.float32))]
    for first, _, (owner, keys, values) in _entries(documents, patterns, decay, stages, places, bound):
        owner += np.int32(first)
        parts.append((owner, keys, values))
    owner, keys, values = (cp.concatenate(arrays) for arrays in zip(*parts, strict=True))
    check_entries(len(keys))
    distinct, features, table = ranked(keys, bound)
    stages.append(Stage(places, distinct, table))
    x = _rows(len(documents), owner, features, values, len(distinct))
    return Subsequences(len(documents.alphabet), tuple(stages)), x


def _rows(n: int, owner: Array, features: Array, values: Array, size: int) -> CudaSparse:
    cp, indptr = gpu.cupy(), row_starts(n, owner)
    df = cp.bincount(features, minlength=size).astype(np.int32) if size else cp.zeros(0, np.int32)
    return CudaSparse(indptr, owner, features, values, df, cp.ones(size, np.int32), False)


def _batches(
    documents: Documents, patterns: Patterns, most: int | None = None
) -> Iterator[tuple[int, _PatternBatch]]:
    """Batches of at most `most` documents, each with the number of its first document."""
    words = min(BATCH, gpu.free_memory() // WORD_BYTES)
    most, size = most or len(documents), max(1, words // len(patterns.spans))
    first = 0
    while first < len(documents):
        goal = documents.offsets[first] + size
        last = int(np.searchsorted(documents.offsets, goal, "right")) - 1
        last = min(max(last, first + 1), first + most)
        yield first, _PatternBatch(documents.take(np.arange(first, last)), patterns)
        first = last


def _each(name: str, n: int, *args: object) -> None:
    gpu.each(gpu.function(SOURCE, name), n, *args)


class CudaBoundedGap(CudaFeatureRows, SubsequenceRows):
    """Kernel values with fixed documents on a GPU."""

    label = "the gap-weighted kernel of bounded span"

    def represent(self, documents: Documents) -> tuple[Subsequences, CudaSparse, Floats]:
        features, x = count(documents, self.kernel.patterns, self.kernel.decay)
        return features, x, x.squares

    def select(self, x: CudaSparse, target: Array) -> CudaSparse:
        return x.select(target)


class CudaSupport(CudaBoundedGap):
    """Support vectors on a GPU, counted panel by panel in each pass: their weights are all that is kept."""

    def __init__(self, kernel: Any, documents: Documents, device: Device) -> None:
        FeatureKernelRows.__init__(self, kernel, documents, device)
        with gpu.use(device):
            self.x = CudaCountedSubsequences(kernel, documents)
            self.features, squares = self.x.features, self.x.squares.get()
        self.normalisation = normalisation_of(kernel, documents, squares)


class CudaCountedSubsequences(CountedPanels):
    """Documents as feature rows on the current GPU, for solvers without a Gram, or as support vectors."""

    def __init__(self, kernel: Any, documents: Documents) -> None:
        super().__init__(documents)
        cp, (stages, places, bound) = gpu.cupy(), _learn(documents, kernel.patterns)
        self._counted = partial(_entries, documents, kernel.patterns, kernel.decay, stages, places, bound)
        self._keys, self.df = cp.empty(0, np.uint64), cp.empty(0, np.int64)
        self.squares = cp.empty(len(documents))  #: Squared norm of every row
        for first, last, (owner, keys, values) in self._counted():
            self.squares[first:last] = CudaRows(row_starts(last - first, owner), keys, values, 0).squares()
            distinct, features, _ = ranked(keys, bound)
            before, df = self._keys, self.df
            self._keys = cp.unique(cp.concatenate([before, distinct]))
            self.df = cp.zeros(len(self._keys), np.int64)
            self.df[cp.searchsorted(self._keys, before)] = df
            self.df[cp.searchsorted(self._keys, distinct)] += numbers_of(features, len(distinct))
            self.n_panels += 1
            del owner, keys, values, features  # before the next are counted
        check_features(len(self.df))
        self.features = Subsequences(len(documents.alphabet), (*stages, Stage(places, self._keys, None)))

    def _panels(self) -> Iterator[tuple[int, int, CudaRows]]:
        """First and last document of each batch, and its rows."""
        for first, last, (owner, keys, values) in self._counted():
            features = gpu.cupy().searchsorted(self._keys, keys.astype(np.uint64)).astype(np.int32)
            yield first, last, CudaRows(row_starts(last - first, owner), features, values, len(self.df))

    def transposed_dot(self, dense: Array) -> Array:
        """X.T @ dense, shape (n, k) -> (n_features, k)."""
        return combine_panels(self._panels, len(self.df), self.squares, dense)

    def rows(self, kernel: Any, train: Ints) -> FeatureRows:
        """All documents as feature rows."""
        rows = self.placed(self._panels(), self.df, kernel.normalised)
        featured = self.documents.lengths >= kernel.p
        if kernel.normalised:
            return match_featureless(self.documents, rows, ~featured)
        unit, values = float(kernel.decay) ** int(kernel.p), rows.x.values
        values *= np.float32(unit)
        ridge: Array = rows.ridge * unit**2
        require_float32((rows.x.squares() + ridge).get()[featured], kernel.name)
        return replace(rows, ridge=ridge)
