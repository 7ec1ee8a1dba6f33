"""Documents whose p-mers are counted once, for spectrum kernels that weigh them differently."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.kernels.normalisation import Normalisation
from textsvm.kernels.spectrum.features import feature_starts, matrix_of, weigh
from textsvm.kernels.spectrum.learnt_weights import FeatureWeights, is_weighted
from textsvm.kernels.spectrum.pmers import count
from textsvm.linalg.rows import FeatureRows, SharedFeatures, side_by_side
from textsvm.linalg.sparse import Sparse, count_features, share
from textsvm.runtime.compiled import njit
from textsvm.text.documents import Documents

Array = NDArray[Any]


class CountedDocuments:
    """Documents as rows of features, by what spectrum kernels of one view and range learn from some of them.

    Parameters
    ----------
    kernel : Spectrum
        Says which p-mers.
    documents : Documents
    """

    def __init__(self, kernel: Any, documents: Documents) -> None:
        self.documents = documents
        self.vocabulary, self.counts = count(documents, *kernel.lengths)
        self._shared: dict[str, SharedFeatures] = {}

    @cached_property
    def df(self) -> NDArray[np.int64]:
        """How many documents hold each p-mer."""
        return count_features(self.counts.features, int(self.vocabulary.first[-1]))

    def weights(self, kernel: Any, train: NDArray[np.int64]) -> FeatureWeights:
        """What a kernel learns from some of the documents."""
        classes = self.documents.classes if kernel.odds else None
        return FeatureWeights.of_counts(self.vocabulary, self.counts, train, bool(kernel.idf), classes)

    def rows(self, kernel: Any, train: NDArray[np.int64]) -> FeatureRows:
        """All documents as rows of features, weighed by what a kernel learns from some."""
        shared = self.shared(kernel)
        weights, alone = None, np.ones(len(self.documents))
        if is_weighted(kernel):
            table = self.weights(kernel, train).table
            weights, alone = table[shared.number], self._alone(table)
        rows = shared.weighed(weights, alone, kernel.normalised)
        if not kernel.normalised:
            return rows
        return equal_ones(self.documents, rows, shared.alone * alone == 0)

    def shared(self, kernel: Any) -> SharedFeatures:
        """The features, before they are weighed, of all kernels of this weight."""
        if kernel.weight not in self._shared:
            self._shared[kernel.weight] = self._found_shared(kernel)
        return self._shared[kernel.weight]

    def _found_shared(self, kernel: Any) -> SharedFeatures:
        if kernel.weight == "intersection":
            starts = feature_starts(kernel, self.counts, int(self.vocabulary.first[-1]))
            x = matrix_of(kernel, self.counts, None, starts)
            return SharedFeatures.of(x, x.frequencies())
        most = int(self.counts.counts.max(initial=0))
        table = np.append(0, weigh(kernel.weight, np.arange(1, most + 1, dtype=np.int32)))
        return SharedFeatures.of_counts(self.counts, table.astype(np.float32), self.df)

    @cached_property
    def _single(self) -> NDArray[np.int64]:
        """A p-mer that each document has alone, -1 if it has none."""
        found = np.full(len(self.documents), -1, np.int64)
        arrays = (self.counts.indptr, self.counts.features, self.df, found)
        share(self.counts.indptr, lambda i, j: _find_single(i, j, *arrays))
        return found

    def _alone(self, table: NDArray[np.float64]) -> NDArray[np.float64]:
        """The weight of the p-mers that each document has alone: one for all of them."""
        return np.where(self._single >= 0, table[self._single], 0.0)


def equal_ones(documents: Documents, rows: FeatureRows, none_alone: NDArray[np.bool_]) -> FeatureRows:
    """Equal documents without features are 1 with each other: one feature for each such text.

    Parameters
    ----------
    documents : Documents, n of them
    rows : FeatureRows
        Theirs, normalised.
    none_alone : bool array, shape (n,)
        Whether a document has no feature that it has alone.
    """
    featureless = (rows.ridge == 1) & none_alone
    groups = Normalisation(documents, 1.0 - featureless, True).groups
    sizes = np.bincount(groups)
    sizes[0] = 0
    together = sizes[groups] > 1
    if not together.any():
        return rows
    indptr = np.concatenate([[0], np.cumsum(together)])
    x = Sparse(indptr, groups[together], np.ones(indptr[-1], np.float32), len(sizes))
    return side_by_side([rows, FeatureRows(x, np.where(together, -1.0, 0.0))], [1.0, 1.0])


@njit(nogil=True, cache=True)
def _find_single(first: int, last: int, indptr: Array, features: Array, df: Array, found: Array) -> None:
    for i in range(first, last):
        for k in range(indptr[i + 1] - 1, indptr[i] - 1, -1):
            if df[features[k]] == 1:
                found[i] = features[k]
                break
