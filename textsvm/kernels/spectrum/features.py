"""Feature map of the p-spectrum kernel, prediction in feature space, and exact attribution to symbols.

In feature space (see kernel.py) sum_i a_i k(t_i, x) is phi(x) . w with w = sum_i a_i phi(t_i) / |t_i|. So
every p-mer u of x contributes phi_u(x) w_u / |x|; with weight "intersection", sum_h [c_u(x) >= h] w_(u, h) /
|x|. The contribution is spread evenly over the occurrences of u in x, and within each occurrence over its p
symbols.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.kernels.attribution import Attribution, Contributions
from textsvm.kernels.normalisation import Normalisation
from textsvm.kernels.spectrum.counting import count, windows
from textsvm.kernels.spectrum.pmer_weights import PmerWeights, is_weighted
from textsvm.kernels.spectrum.vocabulary import Vocabulary, longest_of
from textsvm.kernels.spectrum.weight_vectors import dot
from textsvm.linalg.sparse import Counts, Sparse, match_unary, share, unary_starts
from textsvm.runtime import device as devices
from textsvm.runtime.compiled import few, njit
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import Progress
from textsvm.text.documents import Documents

Array = NDArray[Any]
#: Substrings of documents that are predicted together.
BATCH = 1 << 26
#: (features, documents), int64 arrays of equal length -> weight of each feature for each document.
FeatureWeight = Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.float64]]
SUBSTRINGS = Attribution(
    "substrings",
    "exact: each substring's contribution, spread over its occurrences and their symbols",
    exact=True,
)


@dataclass(frozen=True)
class FeatureSpace:
    """Features of the p-mers of the column documents."""

    kernel: Any
    vocabulary: Vocabulary  #: p-mers of the column documents
    starts: NDArray[np.int64]  #: shape (number of p-mers + 1,): First feature of each p-mer
    #: int32 or int64 array, shape (number of features + 1,): New number of each feature, -1 to drop it; the
    #: last entry is -1.
    row: NDArray[np.signedinteger] | None = None

    def find(self, other: FeatureSpace) -> NDArray[np.signedinteger]:
        """Number here of each feature of another space, or -1."""
        return self._features(other.starts, self.vocabulary.find(other.vocabulary))

    def _features(self, starts: NDArray[np.int64], pmers: NDArray[np.int64]) -> NDArray[np.signedinteger]:
        """`find`, given the first features of the other p-mers and their numbers here."""
        features = match_unary(self.starts, starts, pmers) if self.kernel.weight == "intersection" else pmers
        return features if self.row is None else self.row[features]

    def project(self, others: Documents, columns: Normalisation) -> tuple[Sparse, Normalisation]:
        """X of other documents over these features; their normalisation counts all of their features."""
        space, _, x = represent(self.kernel, others)
        normalisation = Normalisation(others, x.squares(), self.kernel.normalised, columns)
        return x.select(self.find(space), int(self.starts[-1])), normalisation

    def products(
        self, others: Documents, columns: Normalisation, weights: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], Normalisation]:
        """X of other documents times feature weights, and their normalisation, on the host."""
        vocabulary, counts = count(others, *self.kernel.lengths)
        starts = feature_starts(self.kernel, counts, int(vocabulary.first[-1]))
        pmers = self.vocabulary.find(vocabulary)
        x = matrix_of(self.kernel, counts, self._pmer_weights(vocabulary, pmers), starts)
        normalisation = Normalisation(others, x.squares(), self.kernel.normalised, columns)
        return dot(x, self._features(starts, pmers), weights), normalisation

    def _pmer_weights(self, vocabulary: Vocabulary, pmers: NDArray[np.int64]) -> NDArray[np.float64] | None:
        """Learnt weights of the p-mers of a vocabulary, given their numbers here."""
        if not is_weighted(self.kernel):
            return None
        learnt: PmerWeights = self.kernel.weights_
        same = learnt.vocabulary is self.vocabulary
        return learnt.table[pmers] if same else learnt.weights(vocabulary)  # -1 reads the last entry

    def attribute(self, documents: Documents, weight_of: FeatureWeight) -> Contributions:
        """Contributions of symbols to decision values, given the feature weights of each document."""
        space, counts, x = represent(self.kernel, documents)
        own = Normalisation(documents, x.squares(), self.kernel.normalised)
        owner = np.repeat(np.arange(len(documents)), np.diff(x.indptr))
        features = self.find(space)[x.features]
        terms = np.zeros(len(features))
        known = features >= 0
        weights = weight_of(features[known], owner[known])
        terms[known] = x.values[known].astype(float) * weights * own.scale[owner[known]]
        if self.kernel.weight == "intersection":  # sum over the digits of each unary code
            ends = np.concatenate([[0], np.cumsum(counts.counts, dtype=np.int64)])
            terms = np.diff(np.concatenate([[0.0], np.cumsum(terms)])[ends])
        return spread_contributions(documents, space.vocabulary, counts, terms)


def represent(kernel: Any, documents: Documents) -> tuple[FeatureSpace, Counts, Sparse]:
    """Features of the p-mers of documents, their counts, and X."""
    vocabulary, counts = count(documents, *kernel.lengths)
    starts = feature_starts(kernel, counts, int(vocabulary.first[-1]))
    weights = kernel.weights_.weights(vocabulary) if is_weighted(kernel) else None
    return FeatureSpace(kernel, vocabulary, starts), counts, matrix_of(kernel, counts, weights, starts)


def feature_starts(kernel: Any, counts: Counts, size: int) -> NDArray[np.int64]:
    """First feature of each of `size` p-mers: a feature each, or the digits of its largest count in unary."""
    if kernel.weight == "intersection":
        return unary_starts(counts.features, counts.counts, size)
    return np.arange(size + 1)


def matrix_of(
    kernel: Any, counts: Counts, weights: NDArray[np.float64] | None, starts: NDArray[np.int64]
) -> Sparse:
    """X of counted documents, given learnt weights and the first feature of each p-mer."""
    unary = kernel.weight == "intersection"
    values = np.empty(len(counts.counts), np.float32)
    table = weigh(kernel.weight, np.arange(1, 1 + int(counts.counts.max(initial=1)), dtype=np.int32))
    weights = np.empty(0) if weights is None else np.sqrt(weights) if unary else weights
    arrays = (counts.indptr, counts.features, counts.counts, table.astype(np.float64), weights, values)
    if few(len(values)):
        exact = table[counts.counts - 1].astype(np.float64)
        values[:] = weights[counts.features] * exact if len(weights) else exact
    else:
        share(counts.indptr, lambda first, last: _weigh_entries(*arrays, first, last))
    x = Sparse(counts.indptr, counts.features, values, len(starts) - 1)
    return x.unary(counts.counts, starts) if unary else x


@njit(nogil=True, cache=True)
def _weigh_entries(indptr, features, counts, table, weights, values, first, last):
    """Value of each count (`table` starts at count 1) times the weight of its p-mer, if there are weights."""
    for k in range(indptr[first], indptr[last]):
        value = table[counts[k] - 1]
        values[k] = np.float32(weights[features[k]] * value if len(weights) else value)


def weigh(weight: str, counts: NDArray[np.int32]) -> NDArray[np.floating]:
    """Values of numbers of occurrences c: c ("count"), 1 + ln c ("log") or 1."""
    if weight == "count":
        return counts.astype(np.float64)
    return 1 + np.log(counts) if weight == "log" else np.ones(len(counts), np.float32)


def spread_contributions(
    documents: Documents, vocabulary: Vocabulary, counts: Counts, terms: NDArray[np.float64]
) -> Contributions:
    """Contributions of symbols, given the contribution of every entry of `counts`."""
    by_length = list(windows(documents, Vocabulary.empty(documents, vocabulary.p1, vocabulary.p2)))
    first = vocabulary.first
    result = Contributions([], [])
    per_occurrence = np.zeros(first[-1])
    for d in range(len(documents)):
        begin, end = documents.offsets[d : d + 2]
        entries = slice(counts.indptr[d], counts.indptr[d + 1])
        per_occurrence[counts.features[entries]] = terms[entries] / counts.counts[entries]
        symbols, texts = documents.symbols(d), {}
        per_symbol = np.zeros(end - begin)
        for base, (q, ids, _) in zip(first, by_length, strict=False):
            pmers = base + ids[begin : max(begin, end - q + 1)].astype(np.int64)
            if not len(pmers):
                continue
            per_symbol += np.convolve(per_occurrence[pmers], np.full(q, 1 / q))
            for position, u in zip(*np.unique(pmers, return_index=True)[::-1], strict=True):
                texts[int(u)] = documents.join(symbols[position : position + q])
        result.symbols.append(documents.spread(d, per_symbol))
        rows = zip(counts.features[entries], counts.counts[entries], terms[entries], strict=True)
        result.features.append([(texts[int(u)], int(c), float(value)) for u, c, value in rows])
    return result


class SpectrumPredictor:
    """Prediction in feature space, on either device; no kernel value is computed.

    Parameters
    ----------
    device : Device
    space : FeatureSpace or CudaFeatureSpace
        Features with weights.
    weights : float64 array on that device, shape (number of features, n_machines)
    featureless : (Normalisation, float64 array of shape (n_machines, n)), optional
        Support vectors and their coefficients, for documents without any feature: they have the kernel value
        1 with equal support vectors. Without them the value of such a document is 0.
    """

    def __init__(
        self,
        device: Device,
        space: Any,
        weights: Any,
        featureless: tuple[Normalisation, NDArray[np.float64]] | None = None,
    ) -> None:
        self.device, self.space, self.weights = device, space, weights
        self.columns, self.coef = featureless or (
            Normalisation(Documents.none(), np.zeros(0), True),
            np.zeros((weights.shape[1], 0)),
        )

    @classmethod
    def of_support(cls, rows: Any, coef: NDArray[np.float64]) -> SpectrumPredictor:
        """From the rows of support vectors and coef (n_machines, n_sv): w = sum_j a_j phi(t_j) / |t_j|."""
        columns = rows.normalisation
        with devices.use(rows.device):
            weights = rows.x.transposed_dot(columns.scale[:, None] * coef.T)
            return cls(rows.device, rows.space, weights, (columns, coef))

    def values(self, documents: Documents, progress: Progress | None = None) -> NDArray[np.float64]:
        values = np.empty((len(documents), self.weights.shape[1]))
        for first, last in self._batches(documents):
            alone = last - first == len(documents)
            some = documents if alone else documents.take(np.arange(first, last))
            values[first:last] = self._values(some)
            if progress is not None:
                progress(last, len(documents))
        return values

    def _batches(self, documents: Documents) -> list[tuple[int, int]]:
        """Ranges of documents with about BATCH substrings each."""
        p1, p2 = self.space.kernel.lengths
        size = max(1, BATCH // max(1, longest_of(documents.lengths, p1, p2) + 1 - p1))
        cuts = np.flatnonzero(np.diff(documents.offsets[:-1] // size)) + 1
        begins = [0, *cuts.tolist()] if len(documents) else []
        return list(zip(begins, [*begins[1:], len(documents)], strict=True)) if begins else []

    def _values(self, documents: Documents) -> NDArray[np.float64]:
        with devices.use(self.device):
            values, own = self.space.products(documents, self.columns, self.weights)
        values *= own.scale[:, None]
        own.finish_values(values, self.coef, self.columns)
        return values

    def contributions(self, documents: Documents, mixes: NDArray[np.float64]) -> Contributions:
        """Contributions of symbols to sums of machines, weighted by `mixes` (n, n_machines), on the CPU."""

        def weight_of(features: NDArray[np.int64], owner: NDArray[np.int64]) -> NDArray[np.float64]:
            weights: NDArray[np.float64] = np.einsum("ij,ij->i", self.weights[features], mixes[owner])
            return weights

        return self.space.attribute(documents, weight_of)
