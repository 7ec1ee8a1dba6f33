"""Features of the p-spectrum kernel: learnt weights of p-mers, prediction, and attribution to symbols.

Weights
-------
idf: ln((1 + n) / (1 + df)) + 1, and ln(1 + n) + 1 for a p-mer without a training document.

odds: the root mean square, over the classes c, of the log-odds ratio of the p-mer u,
ln(P(c | u) / (1 - P(c | u))) - ln(P(c) / (1 - P(c))). P(c) is the share of class c in all (document, distinct
p-mer) pairs, and the weight of c in the mean; P(c | u) is the share of c among the documents with u, plus
PSEUDO documents with shares P(c). For two classes this is the log-count ratio of Wang and Manning 2012
(NB-SVM) except for the prior; a common weight for all classes keeps a single kernel, with a single Gram
matrix for all machines. A p-mer without a training document has the root mean square of the weights that it
would have in a single document, of class c with probability P(c). Such p-mers count in k(s, s) alone: a new
text has a norm like that of a training text, some of whose p-mers no other text has. With weight 0, a few
known p-mers would decide a text that is otherwise unlike all training texts.

Attribution
-----------
A decision value is phi(x) . w (see kernel.py), so every p-mer u of x contributes phi_u(x) w_u / |x|; with
weight "intersection", sum_h [c_u(x) >= h] w_(u, h) / |x|. The contribution is spread evenly over the
occurrences of u in x, and within each occurrence over its p symbols.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import repeat

import numpy as np

from textsvm.arrays import Arrays, Floats, Ints, Ints32, SignedInts, Words
from textsvm.errors import InputError
from textsvm.kernels.attribution import AttributionMethod, Contributions
from textsvm.kernels.base import SymbolKernel, check_choice, is_whole
from textsvm.kernels.contract import FeatureTable, FeatureTerm
from textsvm.kernels.options import WEIGHTS
from textsvm.kernels.shared.counting import (
    MAX_SYMBOLS,
    Vocabulary,
    count,
    count_each,
    plan,
    pmer_codes,
    weigh,
    windows,
)
from textsvm.kernels.shared.feature_rows import FeaturePredictor
from textsvm.kernels.shared.normalisation import Normalisation, feature_term, match_featureless
from textsvm.kernels.spectrum.weight_vectors import WeightVectors
from textsvm.linalg import sparse
from textsvm.linalg.rows import FeatureRows, SharedFeatures
from textsvm.runtime.compiled import njit, use_numpy
from textsvm.runtime.memory import shrink
from textsvm.runtime.parallel import n_threads, run
from textsvm.text.documents import Documents

PSEUDO = 4.0  #: Documents with the average class shares that are added to the documents of every p-mer.
ROUNDING = 1e-12  #: Log-odds ratios up to this are rounding errors of 0, which normalisation would amplify.
#: A p-mer is rare if the number of classes is more than this multiple of its document frequency.
CLASSES_PER_RARE_DF = 64
DAMAGE = (KeyError, ValueError, TypeError, IndexError, OverflowError)  #: Errors that damaged arrays cause.


@dataclass(repr=False, eq=False)
class PmerKernel(SymbolKernel):
    """Parameters and learnt weights of `textsvm.Spectrum`."""

    p: int | tuple[int, int] = 4
    weight: str = "count"
    idf: bool = False
    normalised: bool = True
    odds: bool = False
    shared: bool = False

    @property
    def _learns(self) -> bool:
        return is_weighted(self)

    @property
    def _min_length(self) -> int:
        return self.lengths[0]

    @property
    def lengths(self) -> tuple[int, int]:
        """Lengths of the shortest and of the longest p-mers."""
        p = self.p if isinstance(self.p, (tuple, list)) else (self.p, self.p)
        return int(p[0]), int(p[1])

    def check(self) -> None:
        super().check()
        p = self.p if isinstance(self.p, (tuple, list)) else (self.p, self.p)
        if len(p) != 2 or not all(map(is_whole, p)) or not 1 <= p[0] <= p[1]:
            raise InputError(f"p={self.p!r} must be a whole number from 1, or a range (p1, p2)")
        check_choice(self, "weight", WEIGHTS)

    def state(self) -> Arrays:
        check_fitted(self)
        return self.weights_.state() if is_weighted(self) else {}

    def restore(self, state: Arrays) -> None:
        if not is_weighted(self):
            return
        self.check()
        try:
            self.weights_ = PmerWeights.from_state(state, self)
        except DAMAGE as error:
            raise InputError(f"the saved weights are damaged ({error}); train the model again") from None


def is_weighted(kernel: PmerKernel) -> bool:
    """Whether a spectrum kernel has learnt weights."""
    return bool(kernel.idf or kernel.odds or kernel.shared)


def check_fitted(kernel: PmerKernel) -> None:
    """Raise InputError if a spectrum kernel has no weights yet and needs them."""
    if is_weighted(kernel) and not hasattr(kernel, "weights_"):
        raise InputError("weights are learnt from training documents: call fit before anything else")


@dataclass(frozen=True)
class PmerWeights:
    """Document frequencies and class odds of the p-mers of the training documents."""

    vocabulary: Vocabulary
    df: Ints  #: shape (number of p-mers,)
    n: int  #: Number of training documents
    idf: bool = True  #: Whether to weight by idf
    odds: Floats | None = None  #: shape (number of p-mers + 1,): The last is of unknown p-mers
    shared: bool = False  #: Whether p-mers of fewer than two training documents weigh nothing

    @cached_property
    def table(self) -> Floats:
        """Weight of every p-mer; the last entry is the weight of unknown p-mers."""
        return self._weights(np.append(self.df, 0), self.odds)

    def of(self, pmers: Ints) -> Floats:
        """Weights of p-mers by their numbers, -1 for unknown p-mers."""
        df = np.where(pmers >= 0, self.df[pmers], 0) if len(self.df) else np.zeros(len(pmers), np.int64)
        return self._weights(df, None if self.odds is None else self.odds[pmers])

    def _weights(self, df: Ints, odds: Floats | None) -> Floats:
        weights = self._idf[df] if self.idf else np.ones(len(df))
        weights = weights * (df > 1) if self.shared else weights
        return weights if odds is None else weights * odds

    @cached_property
    def _idf(self) -> Floats:
        """Inverse document frequency of a p-mer in 0, 1, ..., n documents."""
        return np.log((1 + self.n) / np.arange(1, self.n + 2)) + 1

    def weights(self, vocabulary: Vocabulary) -> Floats:
        """Weight of every p-mer of another vocabulary."""
        return self.table[self.vocabulary.find(vocabulary)]  # -1 (unknown) reads the last entry

    def weights_each(self, vocabulary: Vocabulary) -> Iterator[Floats]:
        """Yield `weights` per length; `vocabulary` may get its keys during iteration."""
        first = self.vocabulary.first
        for length, ids in enumerate(self.vocabulary.find_each(vocabulary)):
            base = first[length] if length < len(first) else 0
            yield self.of(np.where(ids >= 0, ids + base, -1))

    def state(self) -> Arrays:
        """Arrays for `from_state`."""
        state = {f"keys_{q}": keys for q, keys in self.vocabulary.keys.items()}
        learnt = {} if self.odds is None else {"odds": self.odds}
        return state | learnt | {"df": self.df, "sizes": np.array([self.n, self.vocabulary.n_symbols])}

    @classmethod
    def from_state(cls, state: Arrays, kernel: PmerKernel) -> PmerWeights:
        """Restore from checked arrays of `state`; KeyError or ValueError if they are damaged."""
        n, n_symbols = (int(x) for x in np.asarray(state["sizes"]).reshape(2))
        if n < 0 or not 0 <= n_symbols <= MAX_SYMBOLS:
            raise ValueError("sizes are out of range")
        df = np.asarray(state["df"])
        vocabulary = read_vocabulary(state, *kernel.lengths, n_symbols)
        if df.shape != (vocabulary.first[-1],) or df.dtype.kind != "i":
            raise ValueError("df does not match the keys")
        if len(df) and not 0 <= df.min() <= df.max() <= n:
            raise ValueError("df is out of range")
        learnt = np.asarray(state["odds"]) if kernel.odds else None
        if learnt is not None and learnt.shape == df.shape:
            learnt = np.append(learnt, 0)  # a model saved when unknown p-mers had no odds
        if learnt is not None and (learnt.shape != (len(df) + 1,) or learnt.dtype != np.float64):
            raise ValueError("odds do not match the keys")
        if learnt is not None and not (np.isfinite(learnt) & (learnt >= 0)).all():
            raise ValueError("odds are out of range")
        return cls(
            vocabulary, df.astype(np.int64, copy=False), n, bool(kernel.idf), learnt, bool(kernel.shared)
        )


def log_odds(counts: sparse.Counts, rows: Ints, classes: Ints, df: Ints) -> Floats:
    """Class odds of each p-mer in `rows` and of unknown p-mers, given classes and document frequencies."""
    odds, order = np.zeros(len(df) + 1), rows[np.argsort(classes, kind="stable")]
    starts = np.concatenate([[0], np.cumsum(np.bincount(classes))])
    lengths = np.bincount(classes, np.diff(counts.indptr)[rows], len(starts) - 1)
    shares = lengths / max(int(df.sum()), 1)
    frequencies = np.flatnonzero(np.bincount(df, minlength=1))
    arrays = (counts.indptr, counts.features, order, starts, shares, df, frequencies, odds)
    size = max(sparse.SERIAL_SIZE, -(-len(df) // n_threads()))

    def add(first: int) -> None:
        # Numba takes a third of a second to compile np.zeros and np.empty.
        n, n_dfs = min(size, len(df) - first), frequencies[-1] + 1
        frequent = first + np.flatnonzero(CLASSES_PER_RARE_DF * df[first : first + n] >= len(shares))
        sums = np.zeros(n_dfs), np.zeros(n_dfs)
        _add_log_odds(
            *arrays, np.zeros(n, np.int32), np.empty(n, np.int64), frequent, *sums, first, first + n
        )

    if len(shares) <= CLASSES_PER_RARE_DF and use_numpy(10 * len(df) * len(shares)):
        times = int(df.max(initial=0)) + 1
        for c in np.flatnonzero((shares > 0) & (shares < 1)):
            of_class = order[starts[c] : starts[c + 1]]
            own = sparse.count_features_of(counts.indptr, counts.features, of_class, len(df))
            pairs, number = np.unique(own * times + df, return_inverse=True)
            terms = [_term(*divmod(pair, times), float(shares[c])) for pair in pairs.tolist()]
            odds[:-1] += np.array(terms)[number]
    else:
        run(add, range(0, len(df), size))
    odds[:-1][df == 0] = odds[-1] = unknown_square(shares[(shares > 0) & (shares < 1)])
    return np.sqrt(odds)


def unknown_square(shares: Floats) -> float:
    """Mean square of the odds of a p-mer in one document, given the shares of the classes in (0, 1)."""
    prior = np.log(shares / (1 - shares))
    inside = np.log((1 + PSEUDO * shares) / (PSEUDO * (1 - shares))) - prior
    outside = np.log(PSEUDO * shares / (1 + PSEUDO * (1 - shares))) - prior
    return float(np.sum(shares * (shares * inside**2 + (1 - shares) * outside**2)))


@njit(nogil=True, cache=True)
def _add_log_odds(
    indptr, features, order, starts, shares, df, frequencies, odds,
    own, touched, frequent, absent, absent_sums, first, last,
):  # fmt: skip
    """Add the squared log-odds of all classes, in turn, to a range of p-mers.

    Most classes lack a rare p-mer. Their terms depend on its df alone, and are summed once for each df.
    """
    n_classes = len(shares)
    for c in range(n_classes):
        share, n_touched = shares[c], 0
        if not 0 < share < 1:
            continue
        for at in range(starts[c], starts[c + 1]):
            for k in range(indptr[order[at]], indptr[order[at] + 1]):
                if first <= features[k] < last:
                    if own[features[k] - first] == 0:
                        touched[n_touched] = features[k]
                        n_touched += 1
                    own[features[k] - first] += 1
        for times in frequencies:
            absent[times] = _squared_log_odds(np.int32(0), times, share)
            absent_sums[times] += absent[times]
        for u in frequent:
            if own[u - first] == 0:
                odds[u] += absent[df[u]]
        for u in touched[:n_touched]:
            term = _squared_log_odds(own[u - first], df[u], share)
            odds[u] += term if CLASSES_PER_RARE_DF * df[u] >= n_classes else term - absent[df[u]]
            own[u - first] = 0
    for u in range(first, last):
        if CLASSES_PER_RARE_DF * df[u] < n_classes:
            odds[u] += absent_sums[df[u]]


@njit(nogil=True, cache=True)
def _squared_log_odds(own, df, share):
    """Term of a class in the squared odds of a p-mer; 0 without documents."""
    if df == 0:
        return 0.0
    inside = own + PSEUDO * share
    outside = df - own + PSEUDO * (1 - share)
    ratio = math.log(inside / outside) - math.log(share / (1 - share))
    return share * ratio * ratio if abs(ratio) > ROUNDING else 0.0


_term = _squared_log_odds.in_python()


def read_vocabulary(state: Arrays, p1: int, p2: int, n_symbols: int) -> Vocabulary:
    """Vocabulary from the arrays "keys_q"; ValueError if they are not sorted or out of range."""
    keys: dict[int, Words] = {}
    sizes, last = {1: n_symbols}, max(p1 - 1, 1)
    for q, a, b in plan(p1, p2):
        array = state.get(f"keys_{q}")
        if array is None or not len(array):
            break  # longer lengths are missing too
        if array.dtype != np.uint64 or array.ndim != 1:
            raise ValueError(f"keys_{q} must be a uint64 vector")
        if not np.all(array[1:] > array[:-1]) or int(array[-1]) >= sizes[a] * sizes[b]:
            raise ValueError(f"keys_{q} is out of order or out of range")
        keys[q], sizes[q], last = array, len(array), max(last, q)
    return Vocabulary(p1, last, n_symbols, keys)


#: (features, documents), int64 arrays of equal length -> weight of each feature for each document.
FeatureWeight = Callable[[Ints, Ints], Floats]
SUBSTRINGS = AttributionMethod(
    "substrings", "exact: each feature's contribution, spread over its occurrences and their symbols"
)


@dataclass(frozen=True)
class FeatureSpace:
    """Features of the p-mers of the column documents."""

    kernel: PmerKernel
    vocabulary: Vocabulary  #: p-mers of the column documents
    starts: Ints  #: shape (number of p-mers + 1,): First feature of each p-mer
    #: int32 or int64 array, shape (number of features + 1,): New number of each feature, -1 to drop it; the
    #: last entry is -1.
    row: SignedInts | None = None

    def find(self, other: FeatureSpace) -> SignedInts:
        """Number here of each feature of another space, or -1."""
        return self._features(other.starts, self.vocabulary.find(other.vocabulary))

    def _features(self, starts: Ints, pmers: Ints) -> SignedInts:
        """`find`, given the first features of the other p-mers and their numbers here."""
        unary = self.kernel.weight == "intersection"
        features = sparse.match_unary(self.starts, starts, pmers) if unary else pmers
        return features if self.row is None else self.row[features]

    def project(self, others: Documents, columns: Normalisation) -> tuple[sparse.Sparse, Normalisation]:
        """X of other documents over these features; their normalisation counts all of their features."""
        x, features, normalisation = self._read(others, columns)
        return x.select(features, int(self.starts[-1])), normalisation

    def products(
        self, others: Documents, columns: Normalisation, weights: Floats
    ) -> tuple[Floats, Normalisation]:
        """X of other documents times feature weights, and their normalisation, on the host."""
        large = len(others.codes) > sparse.SERIAL_SIZE
        vocabulary = Vocabulary.empty(others, *self.kernel.lengths) if large else None
        if vocabulary is None or vocabulary.by_numpy:
            x, features, normalisation = self._read(others, columns, vocabulary)
            return x.dot(weights, features), normalisation
        squares, out = np.zeros(len(others)), np.zeros((len(others), weights.shape[1]))
        row = np.empty(0, np.int32) if self.row is None else self.row
        unary, base = self.kernel.weight == "intersection", self.vocabulary.first
        learnt = self.kernel.weights_.weights_each(vocabulary) if is_weighted(self.kernel) else repeat(None)
        numbers = self.vocabulary.find_each(vocabulary)
        for (q, size, counts), ids, factors in zip(
            count_each(others, vocabulary, 0), numbers, learnt, strict=False
        ):
            pmers = np.where(ids >= 0, ids + base[min(q, self.vocabulary.p2) - self.vocabulary.p1], -1)
            factors = np.ones(size) if factors is None else factors
            factors = np.sqrt(factors) if unary else factors
            table = weigh(self.kernel.weight, np.arange(1, 1 + counts.counts.max(initial=1), dtype=np.int32))
            entries = counts.indptr, counts.features, counts.counts, table.astype(np.float64), factors
            arrays = *entries, unary, pmers, self.starts, row, weights, squares, out
            sparse.run_on_ranges(counts.indptr, partial(_add_products, *arrays))
        return out, Normalisation(others, squares, self.kernel.normalised, columns)

    def _read(
        self, others: Documents, columns: Normalisation, empty: Vocabulary | None = None
    ) -> tuple[sparse.Sparse, SignedInts, Normalisation]:
        """X of other documents, the number here of each of its features or -1, and their normalisation."""
        vocabulary, counts = count(others, *self.kernel.lengths, empty)
        starts = feature_starts(self.kernel, counts, int(vocabulary.first[-1]))
        pmers = self.vocabulary.find(vocabulary)
        learnt_weights = None
        if is_weighted(self.kernel):
            learnt: PmerWeights = self.kernel.weights_
            # -1, an unknown p-mer, reads the last entry.
            same = learnt.vocabulary is self.vocabulary
            learnt_weights = learnt.table[pmers] if same else learnt.weights(vocabulary)
        x = matrix_of(self.kernel, counts, learnt_weights, starts)
        normalisation = Normalisation(others, x.squares(), self.kernel.normalised, columns)
        return x, self._features(starts, pmers), normalisation

    def attribute(self, documents: Documents, weight_of: FeatureWeight) -> Contributions:
        """Contributions of symbols to decision values, given the feature weights of each document."""
        space, counts, x = represent(self.kernel, documents)
        own = Normalisation(documents, x.squares(), self.kernel.normalised)
        owner = np.repeat(np.arange(len(documents)), np.diff(x.indptr))
        features = self.find(space)[x.features]
        terms = np.zeros(len(features))
        in_space = features >= 0
        weights = weight_of(features[in_space], owner[in_space])
        terms[in_space] = x.values[in_space].astype(float) * weights * own.scale[owner[in_space]]
        if self.kernel.weight == "intersection":  # sum over the digits of each unary code
            ends = np.concatenate([[0], np.cumsum(counts.counts, dtype=np.int64)])
            terms = np.diff(np.concatenate([[0.0], np.cumsum(terms)])[ends])
        return spread_contributions(documents, space.vocabulary, counts, terms)


def represent(kernel: PmerKernel, documents: Documents) -> tuple[FeatureSpace, sparse.Counts, sparse.Sparse]:
    """Features of the p-mers of documents, their counts, and X."""
    vocabulary, counts = count(documents, *kernel.lengths)
    starts = feature_starts(kernel, counts, int(vocabulary.first[-1]))
    weights = kernel.weights_.weights(vocabulary) if is_weighted(kernel) else None
    return FeatureSpace(kernel, vocabulary, starts), counts, matrix_of(kernel, counts, weights, starts)


def feature_starts(kernel: PmerKernel, counts: sparse.Counts, size: int) -> Ints:
    """First feature of each of `size` p-mers: a feature each, or the digits of its largest count in unary."""
    if kernel.weight == "intersection":
        return sparse.unary_starts(counts.features, counts.counts, size)
    return np.arange(size + 1)


def matrix_of(
    kernel: PmerKernel, counts: sparse.Counts, weights: Floats | None, starts: Ints
) -> sparse.Sparse:
    """X of counted documents, given learnt weights and the first feature of each p-mer."""
    x = entries_of(kernel, counts, weights, len(starts) - 1)
    return x.unary(counts.counts, starts) if kernel.weight == "intersection" else x


def entries_of(kernel: PmerKernel, counts: sparse.Counts, weights: Floats | None, size: int) -> sparse.Sparse:
    """`matrix_of` over `size` p-mers, without the unary code of weight "intersection"."""
    unary = kernel.weight == "intersection"
    x = sparse.Sparse(counts.indptr, counts.features, np.empty(len(counts.counts), np.float32), size)
    table = weigh(kernel.weight, np.arange(1, 1 + int(counts.counts.max(initial=1)), dtype=np.int32))
    if weights is not None and unary:
        weights = np.sqrt(weights)
    for first in range(0, len(x.values), sparse.SLAB):
        entries = slice(first, first + sparse.SLAB)
        values = table[counts.counts[entries] - 1].astype(np.float64)
        x.values[entries] = values if weights is None else values * weights[counts.features[entries]]
    return x


def spread_contributions(
    documents: Documents, vocabulary: Vocabulary, counts: sparse.Counts, terms: Floats
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


def _table(
    codes: Ints32, pmers: slice, vectors: WeightVectors, factors: Floats | None, unknown: float
) -> FeatureTable:
    """Features of the p-mers of a length, without those that count as unknown and have no weight."""
    starts = vectors.starts[pmers.start : pmers.stop + 1]
    row = vectors.row[starts[0] : starts[-1]]
    owner = np.repeat(np.arange(len(codes)), np.diff(starts))
    number = np.arange(len(row)) - (starts[:-1] - starts[0])[owner] + 1
    rows = np.zeros(len(codes), np.int64)  # up to the last occurrence with a weight
    rows[owner[row >= 0]] = number[row >= 0]  # ascending: the last is the largest
    has_row = rows > 0
    if factors is not None:
        has_row |= factors[pmers] != unknown
    rows = np.where(has_row, np.maximum(rows, 1), 0)
    row = row[number <= rows[owner]]
    if len(row) and row[0] >= 0 and (np.diff(row) == 1).all():  # nearly always
        weights = np.asarray(vectors.weights[row[0] : row[0] + len(row)], np.float64)
    else:
        weights, used = np.zeros((len(row), vectors.weights.shape[1])), row >= 0
        weights[used] = vectors.weights[row[used]]
    p = codes.shape[1]
    return FeatureTable(
        np.arange(p)[None], p, np.ones(1), 1, codes[has_row],
        None if factors is None else factors[pmers][has_row], rows[has_row], weights,
    )  # fmt: skip


class SpectrumPredictor(FeaturePredictor):
    """Prediction with attribution."""

    def feature_terms(self, examples: Documents) -> list[FeatureTerm]:
        """All that prediction needs, for export; `examples` have the alphabet of training."""
        kernel, space, weights = self.space.kernel, self.space, self.dense_weights()
        if space.row is None:
            vectors = WeightVectors.of(space.vocabulary, space.starts, weights)
        else:
            vectors = WeightVectors(space.vocabulary, space.starts, space.row, weights)
        unary, factors, unknown = kernel.weight == "intersection", None, 1.0
        if is_weighted(kernel):
            vectors = vectors.over(kernel.weights_.vocabulary)
            factors = np.sqrt(kernel.weights_.table) if unary else kernel.weights_.table
            factors, unknown = factors[:-1], float(factors[-1])
        first = vectors.vocabulary.first
        tables = [
            _table(codes, slice(begin, begin + len(codes)), vectors, factors, unknown)
            for begin, codes in zip(first.tolist(), pmer_codes(vectors.vocabulary), strict=False)
        ]
        machines = kernel, self.columns, self.coef, examples
        return [feature_term(*machines, count=kernel.weight, tables=tables, unknown=unknown)]

    def contributions(self, documents: Documents, mixes: Floats) -> Contributions:
        """Contributions of symbols to sums of machines, weighted by `mixes` (n, n_machines), on the CPU."""

        def weight_of(features: Ints, owner: Ints) -> Floats:
            return np.einsum("ij,ij->i", self.weights[features], mixes[owner])

        return self.space.attribute(documents, weight_of)


class CountedDocuments:
    """Feature rows of documents for all spectrum kernels with the view and range of lengths of `kernel`."""

    disposable = False  #: Whether the next feature rows are the last, and reuse the memory

    def __init__(self, kernel: PmerKernel, documents: Documents) -> None:
        self.documents = documents
        self.vocabulary, self.counts = count(documents, *kernel.lengths)
        self._shared: dict[str, SharedFeatures] = {}

    @cached_property
    def df(self) -> Ints:
        """Number of documents with each p-mer."""
        return sparse.count_features(self.counts.features, int(self.vocabulary.first[-1]))

    def weights(self, kernel: PmerKernel, train: Ints) -> PmerWeights:
        """Weights that a kernel learns from the documents `train`."""
        counts, classes = self.counts, self.documents.classes
        df = sparse.count_features_of(counts.indptr, counts.features, train, int(self.vocabulary.first[-1]))
        odds = log_odds(counts, train, classes[train], df) if kernel.odds and classes is not None else None
        return PmerWeights(self.vocabulary, df, len(train), bool(kernel.idf), odds, bool(kernel.shared))

    def rows(self, kernel: PmerKernel, train: Ints) -> FeatureRows:
        """Feature rows of all documents, with weights learnt from the documents `train`."""
        weights, alone = None, np.ones(len(self.documents))
        if is_weighted(kernel):
            table = kernel.weights_.table
            # The p-mers that no other document has have equal weights within a document.
            alone = np.where(self._single >= 0, table[self._single], 0.0)
        shared = self.shared(kernel)
        if is_weighted(kernel):
            weights = table[shared.number]
        rows = shared.weighed(weights, alone, kernel.normalised, self.disposable)
        if not kernel.normalised:
            return rows
        return match_featureless(self.documents, rows, shared.alone * alone == 0)

    def shared(self, kernel: PmerKernel) -> SharedFeatures:
        """Features before learnt weights, cached per `weight` of a kernel."""
        if kernel.weight not in self._shared:
            starts, df = feature_starts(kernel, self.counts, len(self.df)), self.df
            if kernel.weight == "intersection":
                df = np.zeros(starts[-1], np.int64)
                for x in self._slabs(kernel, starts):
                    df += x.frequencies()
                    del x  # before the next slab
            self._shared[kernel.weight] = SharedFeatures.of(self._slabs(kernel, starts, True), df)
        return self._shared[kernel.weight]

    def _slabs(self, kernel: PmerKernel, starts: Ints, final: bool = False) -> Iterator[sparse.Sparse]:
        """Unweighted X, a slab of rows at a time, the last rows first.

        If they are `final` and the counts `disposable`, these are freed meanwhile.
        """
        indptr, arrays = self.counts.indptr, [self.counts.features, self.counts.counts]
        final = final and self.disposable
        if final:
            del self.counts
        for first, last in reversed(sparse.slabs_of(indptr)):
            own, entries = indptr[first : last + 1] - indptr[first], slice(indptr[first], indptr[last])
            yield matrix_of(kernel, sparse.Counts(own, *(array[entries] for array in arrays)), None, starts)
            if final:
                shrink(arrays, [indptr[first]] * 2)

    @cached_property
    def _single(self) -> Ints:
        """A p-mer that only this document has, for each document; -1 if there is none."""
        pmers = np.full(len(self.documents), -1, np.int64)
        arrays = (self.counts.indptr, self.counts.features, self.df, pmers)
        sparse.run_on_ranges(self.counts.indptr, lambda i, j: _find_single(i, j, *arrays))
        return pmers


@njit(nogil=True, cache=True)
def _add_products(
    indptr, features, counts, table, factors, unary, pmers, starts, row, weights, squares, out, first, last
):
    """Add the squares of entries, and their products with weights, to some rows, in the order of entries."""
    for i in range(first, last):
        for k in range(indptr[i], indptr[i + 1]):
            u = np.uint64(features[k])
            value = np.float64(np.float32(table[counts[k] - 1] * factors[u]))
            at = end = 0
            if pmers[u] >= 0:
                at, end = starts[pmers[u]], starts[pmers[u] + 1]
            for _ in range(counts[k] if unary else 1):
                squares[i] += value * value
                place = at if not len(row) or at >= end else row[at]
                if at < end and place >= 0:
                    own = np.uint64(place)
                    for c in range(weights.shape[1]):
                        out[i, c] += value * weights[own, c]
                at += 1


@njit(nogil=True, cache=True)
def _find_single(first, last, indptr, features, df, pmers):
    for i in range(first, last):
        for k in range(indptr[i + 1] - 1, indptr[i] - 1, -1):
            if df[features[k]] == 1:
                pmers[i] = features[k]
                break
