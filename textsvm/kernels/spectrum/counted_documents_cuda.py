"""`CountedDocuments` on a GPU: p-mers are counted in panels of documents and become feature rows.

The first pass learns the p-mers, the second counts them and sums up document frequencies. A third weights the
counts and writes the entries of shared p-mers to their final place, whose size the document frequencies tell.
The counts of as many panels as fit wait for it; the others are counted again. Bytes are in
`textsvm.kernels.shared.counting_cuda`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property

import numpy as np

from textsvm.arrays import Array, Ints
from textsvm.kernels.shared.counting import Vocabulary
from textsvm.kernels.shared.counting_cuda import CudaCounts, CudaPmers, download, unary_digits
from textsvm.kernels.shared.feature_rows_cuda import CountedPanels, match_featureless
from textsvm.kernels.spectrum.features import (
    PSEUDO,
    ROUNDING,
    PmerKernel,
    PmerWeights,
    is_weighted,
    unknown_square,
)
from textsvm.linalg.rows import FeatureRows
from textsvm.linalg.rows_cuda import CudaRows, numbers_of, repeated
from textsvm.linalg.sparse_cuda import starts_of
from textsvm.runtime import device as gpu
from textsvm.text.documents import DeviceDocuments, Documents

#: Maximum share of the free memory for counts that wait for their weights.
KEPT_SHARE = 0.5


class CudaCountedDocuments(CountedPanels):
    """`CountedDocuments` on the current card; kernels learn from all documents only."""

    def __init__(self, kernel: PmerKernel, documents: Documents) -> None:
        super().__init__(documents)
        cp = gpu.cupy()
        self.pmers = CudaPmers(DeviceDocuments(documents), *kernel.lengths)
        self.n_pmers = self.pmers.n_pmers
        self.df, self.highest = cp.zeros(self.n_pmers, np.int64), cp.ones(self.n_pmers, np.int32)
        self.n_panels, kept_bytes = len(self.pmers.panels), 0
        for first, last in self.pmers.panels:
            counts = CudaCounts.of(self.pmers.windows(first, last))
            self.df += counts.df
            cp.maximum(self.highest, counts.highest, out=self.highest)
            small = counts.counts.astype(np.min_scalar_type(int(self.highest.max()) if self.n_pmers else 1))
            waiting = replace(counts, documents=None, counts=small, df=None, highest=None)
            nbytes = counts.pmers.nbytes + small.nbytes
            if kept_bytes + nbytes <= KEPT_SHARE * self.free:
                self.kept[first], kept_bytes = waiting, kept_bytes + nbytes
            del counts, small, waiting  # before the next is counted

    def _panels(self) -> Iterator[tuple[int, int, CudaCounts]]:
        """First and last document of each panel, and its counts."""
        for first, last in self.pmers.panels:
            yield first, last, self.kept.get(first) or CudaCounts.of(self.pmers.windows(first, last))

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """Vocabulary with keys on the host."""
        return download(self.pmers.vocabulary)

    def weights(self, kernel: PmerKernel, train: Ints) -> PmerWeights:
        """Weights that a kernel learns from all documents; `train` must select all."""
        odds = self._odds(self.documents.classes).get() if kernel.odds else None
        df, shared = self.df.get(), bool(kernel.shared)
        return PmerWeights(self.vocabulary, df, len(train), bool(kernel.idf), odds, shared)

    def _odds(self, classes: Array) -> Array:
        """`features.log_odds` of all documents."""
        cp, n_classes = gpu.cupy(), int(classes.max()) + 1
        squares, total, shares = cp.zeros(self.n_pmers + 1), float(max(int(self.df.sum()), 1)), []
        step = max(1, gpu.free_memory() // (32 * max(self.n_pmers, 1)))  # classes for which there is room
        for of_classes in (range(n_classes)[c : c + step] for c in range(0, n_classes, step)):
            class_dfs = cp.zeros((len(of_classes), self.n_pmers), np.int64)
            for first, last, counts in self._panels():
                for c, class_df in zip(of_classes, class_dfs, strict=True):
                    entries = repeated(cp.asarray(classes[first:last] == c), counts.indptr)
                    class_df += numbers_of(counts.pmers[entries], self.n_pmers)
            for class_df in class_dfs:
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
        starts = starts_of(self.highest) if kernel.weight == "intersection" else None
        table = None
        if is_weighted(kernel):  # the last entry is the weight of unknown p-mers
            table = gpu.cupy().asarray(kernel.weights_.table[:-1])
        df = self.df if starts is None else self._unary_df(starts)

        def rows_of(panel: tuple[int, int, CudaCounts]) -> tuple[int, int, CudaRows]:
            return *panel[:2], CudaRows(*_entries(kernel.weight, panel[2], starts, table), len(df))

        rows = self.placed(map(rows_of, self._panels()), df, kernel.normalised)
        featureless = self.documents.lengths < kernel.lengths[0]
        return match_featureless(self.documents, rows, featureless) if kernel.normalised else rows

    def _unary_df(self, starts: Array) -> Array:
        cp = gpu.cupy()
        df = cp.zeros(int(starts[-1]), np.int64)
        for _, _, counts in self._panels():
            df += numbers_of(unary_digits(starts, counts.pmers, counts.counts)[2], len(df))
        return df


def _entries(weight: str, of: CudaCounts, starts: Array, table: Array) -> tuple[Array, Array, Array]:
    """Feature rows of counts: indptr, features, values."""
    cp, indptr, pmers, counts = gpu.cupy(), of.indptr, of.pmers, of.counts
    learnt = None if table is None else table[pmers]
    if starts is not None:
        ends, owner, features = unary_digits(starts, pmers, counts)
        values = cp.ones(len(owner), np.float32) if learnt is None else cp.sqrt(learnt)[owner]
        return ends[indptr], features, values.astype(np.float32, copy=False)
    values = 1 + cp.log(counts.astype(np.float64)) if weight == "log" else counts
    values = cp.ones(len(pmers), np.float32) if weight == "presence" else values
    values = values if learnt is None else learnt * values
    return indptr, pmers, values.astype(np.float32)
