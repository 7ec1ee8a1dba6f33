"""`CountedDocuments` on a GPU: p-mers are counted once, batch by batch, and become feature rows.

Memory in bytes: 24 per symbol while p-mers get their ids; 12 per entry (a p-mer of a document) while they are
weighted; 8 per entry of a shared p-mer for the rows, twice while batches are joined.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from textsvm.arrays import Array, Ints
from textsvm.kernels.shared.counting import Vocabulary
from textsvm.kernels.shared.counting_cuda import CudaCounts, CudaPmers, download
from textsvm.kernels.shared.feature_rows_cuda import (
    commonest_first,
    match_featureless,
    normalised_rows,
    shared_rows,
)
from textsvm.kernels.spectrum.features import (
    PSEUDO,
    ROUNDING,
    PmerKernel,
    PmerWeights,
    is_weighted,
    unknown_square,
)
from textsvm.linalg.rows import FeatureRows
from textsvm.linalg.rows_cuda import CudaRows, joined, repeated
from textsvm.linalg.sparse_cuda import starts_of
from textsvm.runtime import device as gpu
from textsvm.text.documents import DeviceDocuments, Documents

#: Substrings per batch.
BATCH = 1 << 28


@dataclass(frozen=True)
class _Batch:
    """Counts of the documents first..last."""

    first: int
    last: int
    indptr: Array
    pmers: Array
    counts: Array


class CudaCountedDocuments:
    """`CountedDocuments` on the current card; kernels learn from all documents only."""

    def __init__(self, kernel: PmerKernel, documents: Documents) -> None:
        cp = gpu.cupy()
        self.documents = documents
        pmers = CudaPmers(DeviceDocuments(documents), *kernel.lengths)
        self.n_pmers = pmers.n_pmers
        self.df, self.highest = cp.zeros(self.n_pmers, np.int64), cp.ones(self.n_pmers, np.int32)
        self.batches = [self._count(pmers, *batch) for batch in _batches(documents, len(pmers.ids))]
        pmers.forget_positions()
        self.pmers = pmers

    def _count(self, pmers: CudaPmers, first: int, last: int) -> _Batch:
        begin, end = (int(self.documents.offsets[i]) for i in (first, last))
        counts = CudaCounts(pmers.windows.part(first, last, begin, end), unary=False)
        self.df += counts.df
        gpu.cupy().maximum(self.highest, counts.highest, out=self.highest)
        return _Batch(first, last, counts.indptr, counts.pmers, counts.counts)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """Vocabulary with keys on the host."""
        return download(self.pmers.vocabulary)

    def weights(self, kernel: PmerKernel, train: Ints) -> PmerWeights:
        """Weights that a kernel learns from all documents; `train` must select all."""
        odds = self._odds(self.documents.classes).get() if kernel.odds else None
        return PmerWeights(self.vocabulary, self.df.get(), len(train), bool(kernel.idf), odds)

    def _odds(self, classes: Array) -> Array:
        """`features.log_odds` of all documents."""
        cp = gpu.cupy()
        squares, total, shares = cp.zeros(self.n_pmers + 1), float(max(int(self.df.sum()), 1)), []
        for c in range(int(classes.max()) + 1):
            class_df, in_class = cp.zeros(self.n_pmers, np.int64), cp.asarray(classes == c)
            for batch in self.batches:
                entries = repeated(in_class[batch.first : batch.last], batch.indptr)
                class_df += cp.bincount(batch.pmers[entries], minlength=self.n_pmers)
            share = float(class_df.sum()) / total
            if 0 < share < 1:
                ratio = cp.log((class_df + PSEUDO * share) / (self.df - class_df + PSEUDO * (1 - share)))
                ratio -= np.log(share / (1 - share))
                squares[:-1] += cp.where((self.df > 0) & (abs(ratio) > ROUNDING), share * ratio**2, 0)
                shares.append(share)
        squares[-1] = unknown_square(np.array(shares))  # every p-mer is in a document
        return cp.sqrt(squares)

    def rows(self, kernel: PmerKernel, train: Ints) -> FeatureRows:
        """Feature rows of all documents, with weights learnt from all of them."""
        cp = gpu.cupy()
        unary = kernel.weight == "intersection"
        starts = starts_of(self.highest) if unary else None
        table = None
        if is_weighted(kernel):  # the last entry is the weight of unknown p-mers
            table = cp.asarray(kernel.weights_.table[:-1])
        df = self._unary_df(starts) if unary else self.df
        target, n_features = commonest_first(df)
        ridge, parts = cp.empty(len(self.documents)), []
        for batch in self.batches:
            indptr, features, values = self._entries(kernel.weight, batch, starts, table)
            rows, alone = shared_rows(CudaRows(indptr, features, values, len(df)), target, n_features)
            rows, ridge[batch.first : batch.last] = (
                normalised_rows(rows, alone) if kernel.normalised else (rows, alone)
            )
            parts.append(rows)
        result = FeatureRows(joined(parts), ridge)  # type: ignore[arg-type]
        if not kernel.normalised:
            return result
        n_pmers = np.concatenate([np.diff(batch.indptr.get()) for batch in self.batches])
        return match_featureless(self.documents, result, n_pmers == 0)

    def _entries(self, weight: str, batch: _Batch, starts: Array, table: Array) -> tuple[Array, Array, Array]:
        """Feature rows of a batch: indptr, features, values."""
        cp = gpu.cupy()
        indptr, pmers, counts = batch.indptr, batch.pmers, batch.counts
        learnt = None if table is None else table[pmers]
        if starts is not None:
            ends = starts_of(counts)
            owner = repeated(cp.arange(len(pmers)), ends)
            features = (starts[pmers[owner]] + cp.arange(len(owner)) - ends[owner]).astype(np.int32)
            values = cp.ones(len(owner), np.float32) if learnt is None else cp.sqrt(learnt)[owner]
            return ends[indptr], features, values.astype(np.float32, copy=False)
        values = 1 + cp.log(counts.astype(np.float64)) if weight == "log" else counts
        values = cp.ones(len(pmers), np.float32) if weight == "presence" else values
        values = values if learnt is None else learnt * values
        return indptr, pmers, values.astype(np.float32)

    def _unary_df(self, starts: Array) -> Array:
        cp = gpu.cupy()
        df = cp.zeros(int(starts[-1]), np.int64)
        for batch in self.batches:
            _, features, _ = self._entries("intersection", batch, starts, None)
            df += cp.bincount(features, minlength=len(df))
        return df


def _batches(documents: Documents, n_lengths: int) -> list[tuple[int, int]]:
    """Ranges of documents with about BATCH substrings each."""
    size = max(1, BATCH // max(1, n_lengths))
    cuts = np.flatnonzero(np.diff(documents.offsets[:-1] // size)) + 1
    begins = [0, *cuts.tolist()]
    return list(zip(begins, [*begins[1:], len(documents)], strict=True))
