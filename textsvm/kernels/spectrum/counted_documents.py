"""Documents with p-mers counted once, for spectrum kernels with different weights or training folds."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from textsvm.arrays import Ints
from textsvm.kernels.shared.counting import count
from textsvm.kernels.shared.normalisation import match_featureless
from textsvm.kernels.spectrum.features import (
    PmerKernel,
    PmerWeights,
    feature_starts,
    is_weighted,
    log_odds,
    matrix_of,
    weigh,
)
from textsvm.linalg.rows import FeatureRows, SharedFeatures
from textsvm.linalg.sparse import Sparse, count_features, count_features_of, run_on_ranges
from textsvm.runtime.compiled import njit
from textsvm.text.documents import Documents


class CountedDocuments:
    """Feature rows of documents for all spectrum kernels with the view and range of lengths of `kernel`."""

    def __init__(self, kernel: PmerKernel, documents: Documents) -> None:
        self.documents = documents
        self.vocabulary, self.counts = count(documents, *kernel.lengths)
        self._shared: dict[str, SharedFeatures] = {}

    @cached_property
    def df(self) -> Ints:
        """Number of documents with each p-mer."""
        return count_features(self.counts.features, int(self.vocabulary.first[-1]))

    def weights(self, kernel: PmerKernel, train: Ints) -> PmerWeights:
        """Weights that a kernel learns from the documents `train`."""
        counts, classes = self.counts, self.documents.classes
        df = count_features_of(counts.indptr, counts.features, train, int(self.vocabulary.first[-1]))
        odds = log_odds(counts, train, classes[train], df) if kernel.odds and classes is not None else None
        return PmerWeights(self.vocabulary, df, len(train), bool(kernel.idf), odds)

    def rows(self, kernel: PmerKernel, train: Ints) -> FeatureRows:
        """Feature rows of all documents, with weights learnt from the documents `train`."""
        shared = self.shared(kernel)
        weights, alone = None, np.ones(len(self.documents))
        if is_weighted(kernel):
            table = self.weights(kernel, train).table
            # The p-mers that no other document has have equal weights within a document.
            weights, alone = table[shared.number], np.where(self._single >= 0, table[self._single], 0.0)
        rows = shared.weighed(weights, alone, kernel.normalised)
        if not kernel.normalised:
            return rows
        return match_featureless(self.documents, rows, shared.alone * alone == 0)

    def shared(self, kernel: PmerKernel) -> SharedFeatures:
        """Features before learnt weights, cached per `weight` of a kernel."""
        weight = kernel.weight
        if weight not in self._shared and weight == "intersection":
            starts = feature_starts(kernel, self.counts, int(self.vocabulary.first[-1]))

            def slabs() -> Iterator[Sparse]:
                return (matrix_of(kernel, slab, None, starts) for slab in self.counts.slabs())

            df = np.zeros(starts[-1], np.int64)
            for x in slabs():
                df += x.frequencies()
                del x  # before the next slab
            self._shared[weight] = SharedFeatures.of_slabs(slabs, df)
        elif weight not in self._shared:
            largest = int(self.counts.counts.max(initial=0))
            table = np.append(0, weigh(weight, np.arange(1, largest + 1, dtype=np.int32)))
            self._shared[weight] = SharedFeatures.of_counts(self.counts, table.astype(np.float32), self.df)
        return self._shared[weight]

    @cached_property
    def _single(self) -> Ints:
        """A p-mer that only this document has, for each document; -1 if there is none."""
        pmers = np.full(len(self.documents), -1, np.int64)
        arrays = (self.counts.indptr, self.counts.features, self.df, pmers)
        run_on_ranges(self.counts.indptr, lambda i, j: _find_single(i, j, *arrays))
        return pmers


@njit(nogil=True, cache=True)
def _find_single(first, last, indptr, features, df, pmers):
    for i in range(first, last):
        for k in range(indptr[i + 1] - 1, indptr[i] - 1, -1):
            if df[features[k]] == 1:
                pmers[i] = features[k]
                break
