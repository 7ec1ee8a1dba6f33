"""The feature map of the p-spectrum kernel, and prediction in the space of its features; see spectrum.py.

Which symbols a value of the p-spectrum kernel comes from, exactly.

In the space of the features (spectrum.py) sum_i a_i k(t_i, x) is phi(x) . w, with w = sum_i a_i phi(t_i)
/ |t_i|; so every p-mer u of x has its contribution, phi_u(x) w_u / |x| (that of an intersection kernel sum_h
[c_u(x) >= h] w_(u, h) / |x|). It is spread evenly over the occurrences of u in x, and each occurrence over
its p symbols.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from textsvm.kernels.attribution import Attribution, Contributions
from textsvm.kernels.normalisation import Normalisation
from textsvm.kernels.spectrum.learnt_weights import FeatureWeights, is_weighted
from textsvm.kernels.spectrum.pmers import count, share, windows
from textsvm.kernels.spectrum.vocabulary import Vocabulary, longest_of
from textsvm.kernels.spectrum.weight_vectors import dot
from textsvm.linalg.sparse import Counts, Sparse, match_unary, unary_starts
from textsvm.runtime import device as devices
from textsvm.runtime.compiled import few, njit
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import Progress
from textsvm.text.documents import Documents

SUBSTRINGS = Attribution(
    "substrings",
    "exact: each substring's contribution, spread over its occurrences and their symbols",
    exact=True,
)


def spread(
    documents: Documents, vocabulary: Vocabulary, counts: Counts, terms: NDArray[np.float64]
) -> Contributions:
    """Contributions of symbols, from those of p-mers.

    Parameters
    ----------
    documents : Documents
    vocabulary : Vocabulary
        Of the documents' p-mers.
    counts : Counts
        Of the p-mers of the documents.
    terms : float64 array, shape (number of counts,)
        The contribution of each p-mer of each document, in the order of `counts`.
    """
    by_length = list(windows(documents, Vocabulary.empty(documents, vocabulary.p1, vocabulary.p2)))
    first = vocabulary.first
    result = Contributions([], [])
    each = np.zeros(first[-1])
    for d in range(len(documents)):
        begin, end = documents.offsets[d : d + 2]
        entries = slice(counts.indptr[d], counts.indptr[d + 1])
        each[counts.features[entries]] = terms[entries] / counts.counts[entries]
        symbols, seen = documents.symbols(d), {}
        share = np.zeros(end - begin)
        for base, (q, ids, _) in zip(first, by_length, strict=False):
            of_window = base + ids[begin : max(begin, end - q + 1)].astype(np.int64)
            if not len(of_window):
                continue
            share += np.convolve(each[of_window], np.full(q, 1 / q))
            for place, u in zip(*np.unique(of_window, return_index=True)[::-1], strict=True):
                seen[int(u)] = documents.join(symbols[place : place + q])
        result.symbols.append(documents.spread(d, share))
        found = zip(counts.features[entries], counts.counts[entries], terms[entries], strict=True)
        result.features.append([(seen[int(u)], int(c), float(value)) for u, c, value in found])
    return result


Array = NDArray[Any]
#: Substrings of documents that are predicted together.
BATCH = 1 << 26
#: (features, documents), int64 arrays of equal length -> the weights of these features for these documents.
Weigh = Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.float64]]


class FeatureMap(Protocol):
    """The parameters of `textsvm.kernels.spectrum.kernel.Spectrum`, and what it has learnt."""

    weight: str
    idf: bool
    odds: bool
    normalised: bool
    weights_: FeatureWeights

    @property
    def lengths(self) -> tuple[int, int]:
        """Shortest and longest substring that counts."""


class Represented(Protocol):
    """Documents as rows of features, on either device."""

    device: Device
    kernel: Any

    @property
    def space(self) -> Any:
        """The features of the documents."""

    @property
    def x(self) -> Any:
        """X of the documents."""

    @property
    def normalisation(self) -> Normalisation:
        """k(s, s) of the documents."""


@dataclass(frozen=True)
class FeatureSpace:
    """The features that the p-mers of some documents, the columns, have.

    Attributes
    ----------
    kernel : FeatureMap
    vocabulary : Vocabulary
        The p-mers of the columns.
    starts : int64 array, shape (number of p-mers + 1,)
        Where the features of each p-mer start.
    row : int32 or int64 array, shape (number of features + 1,), optional
        The number that each feature has instead; -1 for none, and behind them -1.
    """

    kernel: FeatureMap
    vocabulary: Vocabulary
    starts: NDArray[np.int64]
    row: NDArray[np.signedinteger] | None = None

    def find(self, other: FeatureSpace) -> NDArray[np.signedinteger]:
        """Where each feature of other documents is here, -1 if it is not."""
        return self._features(other.starts, self.vocabulary.find(other.vocabulary))

    def _features(self, starts: NDArray[np.int64], found: NDArray[np.int64]) -> NDArray[np.signedinteger]:
        """The same, given where features of their p-mers start, and where each of these is here."""
        if self.kernel.weight == "intersection":
            found = match_unary(self.starts, starts, found)
        return found if self.row is None else self.row[found]

    def project(self, others: Documents, columns: Normalisation) -> tuple[Sparse, Normalisation]:
        """X of other documents over these features, and their k(s, s) over all of their own."""
        space, _, x = represent(self.kernel, others)
        normalisation = Normalisation(others, x.squares(), self.kernel.normalised, columns)
        return x.select(self.find(space), int(self.starts[-1])), normalisation

    def products(
        self, others: Documents, columns: Normalisation, weights: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], Normalisation]:
        """X of other documents times weights of these features, and their k(s, s); on the host."""
        vocabulary, counts = count(others, *self.kernel.lengths)
        starts = feature_starts(self.kernel, counts, int(vocabulary.first[-1]))
        found = self.vocabulary.find(vocabulary)
        x = matrix_of(self.kernel, counts, self._learnt(vocabulary, found), starts)
        normalisation = Normalisation(others, x.squares(), self.kernel.normalised, columns)
        return dot(x, self._features(starts, found), weights), normalisation

    def _learnt(self, vocabulary: Vocabulary, found: NDArray[np.int64]) -> NDArray[np.float64] | None:
        """Learnt weights of p-mers, given where these are here."""
        if not is_weighted(self.kernel):
            return None
        learnt = self.kernel.weights_
        same = learnt.vocabulary is self.vocabulary
        return learnt.table[found] if same else learnt.weights(vocabulary)  # -1 reads the last

    def attribute(self, documents: Documents, weigh: Weigh) -> Contributions:
        """What values come from, by symbols, given the weights of features (here) of documents."""
        space, counts, x = represent(self.kernel, documents)
        own = Normalisation(documents, x.squares(), self.kernel.normalised)
        owner = np.repeat(np.arange(len(documents)), np.diff(x.indptr))
        at = self.find(space)[x.features]
        terms = np.zeros(len(at))
        known = at >= 0
        weighed = weigh(at[known], owner[known])
        terms[known] = x.values[known].astype(float) * weighed * own.scale[owner[known]]
        if self.kernel.weight == "intersection":  # the unary code of a count back to one number
            ends = np.concatenate([[0], np.cumsum(counts.counts, dtype=np.int64)])
            terms = np.diff(np.concatenate([[0.0], np.cumsum(terms)])[ends])
        return spread(documents, space.vocabulary, counts, terms)


def represent(kernel: FeatureMap, documents: Documents) -> tuple[FeatureSpace, Counts, Sparse]:
    """Documents over the features of their own p-mers: the features, what was counted, and X."""
    vocabulary, counts = count(documents, *kernel.lengths)
    starts = feature_starts(kernel, counts, int(vocabulary.first[-1]))
    weights = kernel.weights_.weights(vocabulary) if is_weighted(kernel) else None
    return FeatureSpace(kernel, vocabulary, starts), counts, matrix_of(kernel, counts, weights, starts)


def feature_starts(kernel: FeatureMap, counts: Counts, size: int) -> NDArray[np.int64]:
    """Where the features of each of `size` p-mers start: one each, or the unary code of its largest count."""
    if kernel.weight == "intersection":
        return unary_starts(counts.features, counts.counts, size)
    return np.arange(size + 1)


def matrix_of(
    kernel: FeatureMap, counts: Counts, weights: NDArray[np.float64] | None, starts: NDArray[np.int64]
) -> Sparse:
    """X of the documents that were counted, given learnt weights; features of p-mers start at `starts`."""
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
def _weigh_entries(
    indptr: Array, features: Array, counts: Array, table: Array, weights: Array, values: Array, first: int,
    last: int,
) -> None:  # fmt: skip
    """What numbers of occurrences weigh, by a table from 1 on, times weights of p-mers if there are any."""
    for k in range(indptr[first], indptr[last]):
        value = table[counts[k] - 1]
        values[k] = np.float32(weights[features[k]] * value if len(weights) else value)


def weigh(weight: str, counts: NDArray[np.int32]) -> NDArray[np.floating]:
    """What becomes of numbers of occurrences: themselves ("count"), 1 + ln ("log") or 1."""
    if weight == "count":
        return counts.astype(np.float64)
    return 1 + np.log(counts) if weight == "log" else np.ones(len(counts), np.float32)


class SpectrumPredictor:
    """Prediction in feature space, on either device: see `Predictor`.

    A prediction counts the p-mers of the documents and multiplies, whatever the number of support vectors. No
    kernel value is computed.

    Parameters
    ----------
    device : Device
    space : FeatureSpace or CudaFeatureSpace
        The features that have weights.
    weights : float64 array of that device, shape (number of features, n_machines)
    lone : (Normalisation, float64 array of shape (n_machines, n)), optional
        Documents, with their coefficients, whose equals without any feature have a value nevertheless; no
        weight says it. Without them the value of a document without any feature is 0.
    """

    def __init__(
        self,
        device: Device,
        space: Any,
        weights: Any,
        lone: tuple[Normalisation, NDArray[np.float64]] | None = None,
    ) -> None:
        self.device, self.space, self.weights = device, space, weights
        self.columns, self.coef = lone or (
            Normalisation(Documents.none(), np.zeros(0), True),
            np.zeros((weights.shape[1], 0)),
        )

    @classmethod
    def of_support(cls, rows: Represented, coef: NDArray[np.float64]) -> SpectrumPredictor:
        """From support vectors: the weight vectors are sum_j a_j phi(t_j) / |t_j|.

        Parameters
        ----------
        rows : HostSpectrum or CudaSpectrum (`Represented`)
            Of the support vectors.
        coef : float64 array, shape (n_machines, n_sv)
        """
        columns = rows.normalisation
        with devices.use(rows.device):
            weights = rows.x.transposed_dot(columns.scale[:, None] * coef.T)
            return cls(rows.device, rows.space, weights, (columns, coef))

    def values(self, documents: Documents, progress: Progress | None = None) -> NDArray[np.float64]:
        """See `Predictor`."""
        values = np.empty((len(documents), self.weights.shape[1]))
        for first, last in self._batches(documents):
            alone = last - first == len(documents)
            some = documents if alone else documents.take(np.arange(first, last))
            values[first:last] = self._values(some)
            if progress is not None:
                progress(last, len(documents))
        return values

    def _batches(self, documents: Documents) -> list[tuple[int, int]]:
        """Ranges of documents of at most BATCH substrings, or of one document."""
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
        """What sums of machines say of documents comes from which symbols, on the CPU.

        Parameters
        ----------
        documents : Documents, n of them
        mixes : float64 array, shape (n, n_machines)
            Which machines are summed for each.
        """

        def weigh(at: NDArray[np.int64], owner: NDArray[np.int64]) -> NDArray[np.float64]:
            found: NDArray[np.float64] = np.einsum("ij,ij->i", self.weights[at], mixes[owner])
            return found

        return self.space.attribute(documents, weigh)
