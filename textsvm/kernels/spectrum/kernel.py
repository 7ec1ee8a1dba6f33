"""p-spectrum kernel: the contiguous substrings that two documents share.

    k(s, t) = sum_u phi_u(s) phi_u(t),    phi_u(s) = w_u f(c_u(s)),

u runs over the strings of p symbols (p1..p2 in a blended kernel), c_u(s) is the number of occurrences of u in
s, f(c) is c, 1 (presence) or 1 + ln c (log), and w_u is 1 or, with idf, ln((1 + n) / (1 + df_u)) + 1 learnt
from n training documents (ln(1 + n) + 1 for p-mers that none of them contains). The intersection kernel
sum_u w_u min(c_u(s), c_u(t)) has the same form over more features: the minimum of two counts is the product
of their unary codes [c >= 1], [c >= 2], ..., so

    phi_(u, h)(s) = sqrt(w_u) [c_u(s) >= h].

Every variant is therefore a product of a sparse matrix X (documents x features, values >= 0) with itself, and
a decision value sum_j a_j k(s, t_j) / |t_j| is phi(s) . w, w = sum_j a_j phi(t_j) / |t_j|: a product with a
vector, however many support vectors there are.

Half of the Gram takes sum_u df_u^2 / 2 products, most of them for few p-mers. The columns of X with many
documents are stored dense and multiplied in tiles (BLAS); the others form an inverted index: row i adds
x_iu x_ju to an accumulator of n values for every j > i in the list of u.

Exactness: counts, presence and intersection without idf are sums of integers, exact below 2^53 (float64
accumulators; tile products in float32 only where all sums are below 2^24), and rounded to float32 once for
each length. With log or idf X is rounded to a grid on which the sums are exact, too (`Sparse.on_grid`).

The Gram is the sum of the Grams of the lengths, computed in turn: memory holds the p-mers of a single length,
and the Grams of all ranges p1..p2 are intermediate results (`host_grams`).

p-mers are counted in `textsvm.kernels.shared.counting`, products of X are in `textsvm.linalg.products`.

Leslie, Eskin, Noble 2002 (spectrum kernel); Ionescu, Popescu, Cahill 2014 (presence, intersection).

Machines can be kept as a weight for each feature, without support vectors (`SpectrumWeights`). The learnt
idf and odds weights of all training documents determine k(s, s) of any document, so they are kept in full,
with the weights in the same vocabulary. A kernel that learns nothing keeps the p-mers of the support
vectors. Weights cannot express that a document without features equals an identical document
(shared/normalisation.py). Support vectors without features are left out, and the value of a document without
features is 0.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from textsvm.arrays import Array, Arrays, Bools, Floats, Floats32, Ints, Ints32, UnsignedInts, runs_of
from textsvm.errors import DamagedModel, InputError
from textsvm.kernels.attribution import Attributor, Contributions
from textsvm.kernels.base import Ability
from textsvm.kernels.contract import CountedCost, Features, FeatureWeights, Sharing
from textsvm.kernels.shared.counting import Vocabulary, count, count_each, pmer_names, weigh, windows_of
from textsvm.kernels.shared.feature_rows import FeatureKernelRows, FeaturePredictor, HostFeatureRows
from textsvm.kernels.shared.normalisation import Normalisation, finished_gram, inverse_roots
from textsvm.kernels.spectrum.feature_matrix import counted_bytes
from textsvm.kernels.spectrum.features import (
    DAMAGE,
    SUBSTRINGS,
    CountedDocuments,
    FeatureSpace,
    PmerKernel,
    PmerWeights,
    SpectrumPredictor,
    check_fitted,
    entries_of,
    feature_starts,
    is_weighted,
    read_vocabulary,
    represent,
    spread_contributions,
)
from textsvm.kernels.spectrum.weight_vectors import WeightVectors, pack, sizes_of, small, unpack
from textsvm.linalg.factored import FactoredWeights, as_dense, keep_sparse, scipy_sparse, should_factor
from textsvm.linalg.products import Half
from textsvm.linalg.sparse import Counts, Sparse, count_features, run_on_ranges
from textsvm.runtime import device as devices
from textsvm.runtime.compiled import njit, scipy, use_numpy
from textsvm.runtime.device import Device
from textsvm.runtime.memory import trim
from textsvm.runtime.parallel import Progress, part
from textsvm.text.documents import Documents, MultiView

#: Mean count from which a Gram of weight "intersection" has no unary code, whose size is the sum of counts.
REPEATED = 2
INDEX = ("starts", "owners", "counts", "numbers", "squares")  #: Arrays of an index.
#: Kernel values in memory, and entries of an index that NumPy reads at a time.
BLOCK, PIECE = 1 << 20, 1 << 18
DAMAGED = "the index of its training texts is damaged; train the model again"


def _on_card() -> ModuleType:
    """The CUDA implementation, imported when it is used first."""
    from textsvm.kernels.spectrum import cuda

    return cuda


@dataclass(frozen=True)
class SpectrumWeights:
    """`Weights` of a spectrum kernel."""

    kernel: PmerKernel  #: Fitted
    vectors: WeightVectors
    left_out: int = 0  #: Support vectors without any feature

    @classmethod
    def of_rows(cls, rows: Any, coef: Floats) -> SpectrumWeights:
        """From support vectors on the host; coef has shape (n_machines, n_sv)."""
        kernel, columns = rows.kernel, rows.normalisation
        if should_factor(rows.x, coef):
            weights: Array = FactoredWeights.of(rows.x, columns.scale, coef).to_sparse()
        else:
            weights = rows.x.transposed_dot(columns.scale[:, None] * as_dense(coef).T)
        vectors = WeightVectors.of(rows.space.vocabulary, rows.space.starts, weights)
        if is_weighted(kernel):
            vectors = vectors.over(kernel.weights_.vocabulary)
        return cls(kernel, vectors, len(columns.featureless))

    @property
    def n_machines(self) -> int:
        return self.vectors.weights.shape[1]

    def predictor(self, device: Device, featureless: Any = None) -> SpectrumPredictor:
        vectors = self.vectors
        space: Any = FeatureSpace(self.kernel, vectors.vocabulary, vectors.starts, vectors.row)
        weights: Array = vectors.weights.astype(np.float64)
        if scipy_sparse(weights):
            device, one = devices.select("cpu"), scipy.sparse.eye_array(weights.shape[1], format="csr")
            weights = FactoredWeights(weights, np.ones(weights.shape[1]), one)
        if device.kind == "cpu":
            return SpectrumPredictor(device, space, weights, featureless)
        with devices.use(device):
            array = devices.array_module(device).asarray(weights)
            return SpectrumPredictor(device, _on_card().CudaFeatureSpace.of(space), array)

    def named(self, examples: Documents | MultiView) -> list[FeatureWeights]:
        kernel, vectors = self.kernel, self.vectors
        alphabet = kernel.structure.read(examples).alphabet

        def names(numbers: Ints) -> NDArray[np.object_]:
            features = np.flatnonzero(vectors.row[:-1] >= 0)[numbers]
            pmers = np.searchsorted(vectors.starts, features, "right") - 1
            names = pmer_names(vectors.vocabulary, pmers, alphabet)
            if kernel.weight != "intersection":
                return names
            counts = (features - vectors.starts[pmers] + 1).astype(str).astype(object)
            return np.where(counts == "1", names, names + ">=" + counts)

        kind = "substrings" if kernel.tokens == "characters" else "words"
        kind = f"counted {kind}" if kernel.weight == "intersection" else kind
        return [FeatureWeights(kind, names, vectors.weights.astype(np.float64, copy=False))]

    def state(self, tolerance: float) -> Arrays:
        kernel, vocabulary = self.kernel, self.vectors.vocabulary
        state = self.vectors.state(tolerance if kernel.normalised else 0.0, kernel.weight == "intersection")
        state |= pack(vocabulary) | {"sizes": np.array([0, vocabulary.n_symbols])}
        if not is_weighted(kernel):
            return state
        learnt = kernel.weights_
        df = learnt.df.astype(np.min_scalar_type(-1 - learnt.n))  # signed
        odds = {} if learnt.odds is None else {"odds": learnt.odds}
        return state | odds | {"df": df, "sizes": np.array([learnt.n, vocabulary.n_symbols])}

    @classmethod
    def from_state(cls, kernel: PmerKernel, state: Arrays, alphabet: Documents) -> SpectrumWeights:
        """Restore the weights, and the learnt weights of the kernel, from checked arrays of `state`."""
        p1, p2 = kernel.lengths
        try:
            _, n_symbols = sizes_of(state, "sizes", 2)
            if n_symbols != len(alphabet.alphabet):
                raise ValueError("sizes do not match the alphabet")
            keys = unpack(state, p1, p2, n_symbols)
            vocabulary = read_vocabulary(keys, p1, p2, n_symbols)
            if is_weighted(kernel):
                learnt = {name: state[name] for name in ("sizes", "df", "odds") if name in state}
                kernel.weights_ = PmerWeights.from_state(keys | learnt, kernel)
                vocabulary = kernel.weights_.vocabulary
            vectors = WeightVectors.from_state(state, vocabulary, kernel.weight == "intersection")
        except DAMAGE as error:
            raise InputError(f"its weights are damaged ({error}); train the model again") from None
        return cls(kernel, vectors)


@dataclass(frozen=True)
class PmerIndex:
    """Inverted index of support vectors: those that have each p-mer, and how often, exactly.

    Prediction reads the lists of the p-mers of its texts. The arrays can be mapped from a file: a process
    touches the pages that it reads, and processes share them.
    """

    kernel: PmerKernel  #: Fitted
    vocabulary: Vocabulary  #: That of the learnt weights, if there are any
    starts: UnsignedInts  #: shape (number of p-mers + 1,): First entry of the list of each p-mer
    owners: UnsignedInts  #: shape (number of entries,): Support vector of each entry, ascending in a list
    counts: UnsignedInts  #: shape (number of entries,): Occurrences in it, as indices of `numbers`
    numbers: Ints32  #: Distinct numbers of occurrences
    squares: Floats  #: shape (n_sv,): k(s, s) of the support vectors

    @classmethod
    def of(cls, kernel: PmerKernel, documents: Documents) -> PmerIndex | None:
        """Index of documents; None if one of them has no feature."""
        learnt = kernel.weights_ if is_weighted(kernel) else None
        own = Vocabulary.empty(documents, *kernel.lengths)
        ids = learnt.vocabulary.find_each(own) if learnt else None
        squares, lists, distinct = np.zeros(len(documents)), list[Array](), set[int]()
        for q, size, counts in count_each(documents, own):
            factors = None
            if learnt and ids:
                size, features = learnt.vocabulary.size(q), next(ids)[counts.features]
                if (features < 0).any():
                    raise InputError("the kernel did not learn from the support vectors; train it again")
                counts = replace(counts, features=features.astype(np.int32))
                factors = learnt.of(np.arange(size) + learnt.vocabulary.first[q - own.p1])
            x = entries_of(kernel, counts, factors, size)
            squares += x.squares(times=counts.counts if kernel.weight == "intersection" else None)
            distinct.update(np.flatnonzero(np.bincount(counts.counts)).tolist())
            rows = small(counts.counts), counts.features, counts.indptr
            del counts, x
            columns = scipy.sparse.csr_array(rows, shape=(len(documents), size)).tocsc()
            lists.append((small(np.diff(columns.indptr)), small(columns.indices), columns.data))
            del rows, columns  # before the next length is counted
            trim()
        if not np.all(squares > 0):
            return None
        vocabulary = learnt.vocabulary if learnt else own
        numbers = np.array(sorted(distinct), np.int32)
        code = np.zeros(numbers[-1] + 1, np.min_scalar_type(len(numbers)))
        code[numbers] = np.arange(len(numbers))
        of_lengths = zip(*((lengths, owners, code[own]) for lengths, owners, own in lists), strict=True)
        lengths, owners, occurrences = map(np.concatenate, of_lengths)
        starts = np.full(int(vocabulary.first[-1]) + 1, len(owners), np.min_scalar_type(len(owners)))
        starts[0] = 0
        np.cumsum(lengths, dtype=starts.dtype, out=starts[1 : len(lengths) + 1])
        return cls(kernel, vocabulary, starts, owners, occurrences, numbers, squares)

    def state(self) -> Arrays:
        """Arrays for `restore`."""
        keys = {} if is_weighted(self.kernel) else self.vocabulary.keys
        return {name: vars(self)[name] for name in INDEX} | {f"keys_{q}": own for q, own in keys.items()}

    @classmethod
    def restore(cls, kernel: PmerKernel, state: Arrays, documents: Documents) -> PmerIndex:
        """Restore from arrays of `state` for a fitted kernel; lists are checked when they are read."""
        try:
            vocabulary = read_vocabulary(state, *kernel.lengths, len(documents.alphabet))
            if is_weighted(kernel):
                vocabulary = kernel.weights_.vocabulary
            starts, owners, counts, numbers, squares = [state[name] for name in INDEX]
            unsigned = [array.dtype in (np.uint8, np.uint16, np.uint32) for array in (starts, owners, counts)]
            shapes = [(vocabulary.first[-1] + 1,), *2 * [(int(starts[-1]),)], (len(documents),)]
            if [array.shape for array in (starts, owners, counts, squares)] != shapes or not all(unsigned):
                raise ValueError("lists do not match the p-mers and the support vectors")
            positive = (numbers > 0).all() and (squares > 0).all()
            if numbers.dtype != np.int32 or numbers.ndim != 1 or squares.dtype != np.float64 or not positive:
                raise ValueError("numbers or squares are not positive")
        except DAMAGE as error:
            raise InputError(f"its index is damaged ({error}); train the model again") from None
        return cls(kernel, vocabulary, starts, owners, counts, numbers, squares)

    def weights(self, coef: Floats) -> SpectrumWeights | None:
        """Weights of features for coef (n_machines, n_sv); None if they are sparse. Without unary codes."""
        if scipy_sparse(coef) or keep_sparse((len(self.starts), len(coef)), len(self.owners)):
            return None
        dense, size, amounts = self.scale[:, None] * coef.T, len(self.starts) - 1, self._amounts[0]
        factors = self.kernel.weights_.of(np.arange(size)) if is_weighted(self.kernel) else np.ones(size)
        arrays, out = (self.starts.astype(np.int64), self.owners, self.counts), np.zeros((size, len(coef)))
        beyond = [(self.owners, len(dense)), (self.counts, len(amounts)), (-np.diff(arrays[0]), 1)]
        if any(own.max(initial=0) >= n for own, n in beyond):
            raise DamagedModel(DAMAGED)
        run_on_ranges(arrays[0], lambda i, j: _add_weights(i, j, *arrays, amounts, factors, dense, out))
        return SpectrumWeights(self.kernel, WeightVectors.of(self.vocabulary, np.arange(size + 1), out))

    @cached_property
    def scale(self) -> Floats:
        """As of `Normalisation`."""
        return inverse_roots(self.squares) if self.kernel.normalised else np.ones(len(self.squares))

    def predictor(self, coef: Array, device: Device) -> FeaturePredictor:
        """Prediction with coef, shape (n_machines, n_sv)."""
        return FeaturePredictor(device, self, self.scale[:, None] * coef.T)

    def cross(self, others: Documents, progress: Progress | None = None) -> Floats32:
        _, own, _, (indptr, *entries) = self._read(others)
        return (own.scale[:, None] * self._values(indptr, *entries) * self.scale).astype(np.float32)

    def decision(self, others: Documents, coef: Floats, progress: Progress | None = None) -> Floats:
        return self.predictor(coef.T, devices.select("cpu")).values(others, progress)

    def attribute(self, documents: Documents, coef: Floats) -> Contributions:
        """Contributions of symbols to the values of documents with coef, shape (n, n_sv)."""
        (vocabulary, counts), own, listed, (indptr, *entries) = self._read(documents)
        terms, places, coefs = np.zeros(len(listed)), np.flatnonzero(listed), self.scale * coef
        for d in range(len(documents)):
            for piece, entry, owners, products in self._products(indptr[d], indptr[d + 1], *entries):
                sums = np.bincount(entry, products * coefs[d, owners], piece.stop - piece.start)
                terms[places[piece]] = own.scale[d] * sums
        return spread_contributions(documents, vocabulary, counts, terms)

    def products(
        self, others: Documents, columns: Normalisation, weights: Floats
    ) -> tuple[Floats, Normalisation]:
        """Kernel values without normalisation times weights (n_sv, n_machines), see `FeaturePredictor`."""
        _, own, _, (indptr, *entries) = self._read(others, columns)
        sums, size = np.empty((len(others), weights.shape[1])), max(1, BLOCK // len(weights))
        for first in range(0, len(others), size):
            rows = indptr[first : first + size + 1]
            of_rows = (array[rows[0] : rows[-1]] for array in entries)
            sums[first : first + size] = [row @ weights for row in self._values(rows - rows[0], *of_rows)]
        return sums, own

    def _read(
        self, others: Documents, columns: Normalisation | None = None
    ) -> tuple[tuple[Vocabulary, Counts], Normalisation, Bools, tuple[Array, ...]]:
        """Counts of documents, their normalisation, whether each count has a list, and those that have."""
        vocabulary, counts = count(others, *self.kernel.lengths)
        pmers, factors = self.vocabulary.find(vocabulary), np.ones(int(vocabulary.first[-1]))
        if is_weighted(self.kernel):
            factors = self.kernel.weights_.of(pmers)
        x, unary = entries_of(self.kernel, counts, factors, len(pmers)), self.kernel.weight == "intersection"
        squares = x.squares(times=counts.counts if unary else None)
        own = Normalisation(others, squares, self.kernel.normalised, columns)
        listed = pmers[x.features] >= 0
        indptr = np.concatenate([[0], np.cumsum(listed)])[x.indptr]
        features = x.features[listed]
        begins, ends = (self.starts[pmers[features] + k].astype(np.int64) for k in (0, 1))
        if ((begins > ends) | (ends - begins > len(self.squares)) | (ends > len(self.owners))).any():
            raise DamagedModel(DAMAGED)
        entries = indptr, begins, ends, x.values[listed], counts.counts[listed], factors[features]
        return (vocabulary, counts), own, listed, entries

    def _values(self, indptr: Ints, begins: Ints, ends: Ints, *own: Array) -> Floats:
        """Products of rows of X with the support vectors, given the lists of their p-mers."""
        values = np.zeros((len(indptr) - 1, len(self.squares)))
        if use_numpy(int((ends - begins).sum())):
            for d, row in enumerate(values):
                for _, _, owners, terms in self._products(indptr[d], indptr[d + 1], begins, ends, *own):
                    # In the order of `_add_lists`, so that sums have its bits.
                    row[:] = np.bincount(np.append(np.arange(len(row)), owners), np.append(row, terms))
            return values
        offsets, damaged = np.concatenate([[0], np.cumsum(ends - begins)])[indptr], np.zeros(1, bool)
        arrays = indptr, begins, ends, *own, self.owners, self.counts, *self._amounts, values, damaged
        run_on_ranges(offsets, lambda i, j: _add_lists(i, j, *arrays))
        if damaged[0]:
            raise DamagedModel(DAMAGED)
        return values

    @property
    def _amounts(self) -> tuple[Floats, bool]:
        """Values of `numbers` before weighting, and whether products are minima of them."""
        unary = self.kernel.weight == "intersection"
        return weigh("count" if unary else self.kernel.weight, self.numbers).astype(np.float64), unary

    def _products(
        self, first: int, last: int, *of_pmers: Array
    ) -> Iterator[tuple[slice, Ints, UnsignedInts, Floats]]:
        """Pieces of a row of X: p-mer, support vector and product of all entries of the lists."""
        amounts, unary = self._amounts
        for a, b in runs_of(np.cumsum(of_pmers[1][first:last] - of_pmers[0][first:last]) // PIECE):
            piece = slice(first + a, first + b)
            begins, ends, x, own_counts, factors = [array[piece] for array in of_pmers]
            lengths = ends - begins
            at = np.repeat(begins - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum())
            numbers, owners, entry = self.counts[at], self.owners[at], np.repeat(np.arange(b - a), lengths)
            if (numbers >= len(amounts)).any() or (owners >= len(self.squares)).any():
                raise DamagedModel(DAMAGED)
            amount, value = amounts[numbers], x.astype(np.float64)[entry]
            if unary:
                yield piece, entry, owners, value * value * np.minimum(amount, own_counts[entry])
            else:
                yield piece, entry, owners, value * (factors[entry] * amount).astype(np.float32)


@njit(nogil=True, cache=True)
def _add_lists(
    first, last, indptr, begins, ends, x, own_counts, factors, owners, counts, amounts, unary, values, damaged
):  # fmt: skip
    """Add the products of some rows of X with the support vectors in the lists of their p-mers."""
    for i in range(first, last):
        for k in range(indptr[i], indptr[i + 1]):
            value = np.float64(x[k])
            for at in range(begins[k], ends[k]):
                if counts[at] >= len(amounts) or owners[at] >= values.shape[1]:
                    damaged[0] = True
                    return
                amount = amounts[counts[at]]
                if unary:
                    values[i, owners[at]] += value * value * min(amount, np.float64(own_counts[k]))
                else:
                    values[i, owners[at]] += value * np.float32(factors[k] * amount)


@njit(nogil=True, cache=True)
def _add_weights(first, last, starts, owners, counts, amounts, factors, dense, out):
    """Add the rows `dense` of the support vectors in the list of each p-mer, times its value in them."""
    for u in range(first, last):
        for k in range(starts[u], starts[u + 1]):
            value = np.float64(np.float32(amounts[counts[k]] * factors[u]))
            for c in range(dense.shape[1]):
                out[u, c] += value * dense[owners[k], c]


@dataclass(frozen=True)
class SharedLengths(Sharing):
    """k_{p1..p2} is the running sum, not normalised, of the Grams of the lengths."""

    p1: int
    weight: str
    idf: bool

    def passes(self, kernels: Sequence[PmerKernel], room: int) -> list[list[int]]:
        return [sorted(range(len(kernels)), key=lambda i: kernels[i].lengths[1])]

    def description(self, kernels: Sequence[PmerKernel]) -> str:
        return "from the sum over lengths"

    def grams(
        self, kernels: Sequence[PmerKernel], documents: Documents, device: Device, progress: Progress | None
    ) -> Iterator[tuple[int, Array]]:
        if device.kind == "cuda":
            return _on_card().cuda_grams(kernels, documents, device, progress)
        return host_grams(kernels, documents, device, progress)


class SpectrumCost(CountedCost):
    """Cost of a spectrum kernel."""

    @property
    def sharing(self) -> SharedLengths | None:
        kernel = self.kernel
        if kernel.odds or kernel.shared:
            return None  # the weight of a p-mer depends on all lengths
        return SharedLengths(kernel.lengths[0], kernel.weight, bool(kernel.idf))


class SpectrumFeatureMap(Features):
    """p-mers as features."""

    has_weights = True
    has_index = True
    in_passes = True

    @property
    def key(self) -> Hashable | None:
        kernel = self.kernel
        if kernel.weight == "intersection" and is_weighted(kernel):
            return None
        return kernel.structure.view, kernel.lengths

    def occurrences(self, lengths: Ints) -> Ints:
        return windows_of(lengths, *self.kernel.lengths)

    def count(self, documents: Documents, device: Device | None = None) -> Any:
        self.kernel.check()
        if device is None or device.kind == "cpu":
            return CountedDocuments(self.kernel, documents)
        from textsvm.kernels.spectrum.cuda import CudaCountedDocuments

        return CudaCountedDocuments(self.kernel, documents)

    def fit_counted(self, counted: Any, train: Ints) -> None:
        if self.kernel.odds and counted.documents.classes is None:
            raise InputError(
                "odds are learnt from classes: give such a kernel to a classifier of one label a text"
            )
        if is_weighted(self.kernel):
            self.kernel.weights_ = counted.weights(self.kernel, train)

    def release(self, counted: object) -> None:
        if isinstance(counted, CountedDocuments):
            counted.disposable = True

    def bytes(self, documents: Documents, gram: bool = False) -> int:
        return counted_bytes(documents, self.kernel.lengths, gram)

    def weights(self, support: Documents, coef: Floats, *index: Any) -> SpectrumWeights:
        if index and self.kernel.weight != "intersection" and (weights := index[0].weights(coef)):
            return weights
        return SpectrumWeights.of_rows(HostSpectrum(self.kernel, support, devices.select("cpu")), coef)

    def restore_weights(self, state: Arrays, alphabets: Documents | MultiView) -> SpectrumWeights:
        self.kernel.check()
        return SpectrumWeights.from_state(self.kernel, state, self.kernel.structure.read(alphabets))

    def index(self, support: Documents, state: Arrays | None = None) -> PmerIndex | None:
        return PmerIndex.restore(self.kernel, state, support) if state else PmerIndex.of(self.kernel, support)


class SpectrumAttributor(Attributor):
    """Exact attribution by the contributions of p-mers."""

    method = SUBSTRINGS

    def contributions(
        self, rows: Any, documents: Documents, coef: Floats, values: Floats, progress: Progress | None
    ) -> Contributions:
        return rows.attribute(documents, coef)

    def seconds(self, lengths: Ints, support_lengths: Ints) -> Floats:
        return SpectrumCost(self.kernel).of_rows(lengths + support_lengths.sum(), np.zeros(1, np.int64))


@dataclass(repr=False, eq=False)
class Spectrum(PmerKernel):
    """p-spectrum kernel; for DNA on both strands use `GappedKmers(p, 0, canonical=True)`.

    Parameters
    ----------
    p : int or (int, int)
        Symbols of a substring; for a range the kernels of its lengths are summed (blended), then normalised.
    weight : {"count", "presence", "intersection", "log"}
        Function of the number of occurrences c: c, 1, min(c, c'), or 1 + ln c.
    idf : bool
        Weight every p-mer by ln((1 + n) / (1 + df)) + 1, learnt by `fit`.
    normalised : bool
        Divide by sqrt(k(s, s) k(t, t)).
    tokens : {"characters", "words", "runs", "whitespace", "blosum62"} or callable
        Definition of a symbol; a function takes a normalised text and returns its tokens.
    keep_case : bool
        Distinguish upper and lower case.
    odds : bool
        Weight every p-mer by its log-odds for the classes (`spectrum.features`), learnt by `fit`.
    shared : bool
        Leave out p-mers of a single training text.

    Examples
    --------
    >>> from textsvm import Spectrum
    >>> print(Spectrum(2)(["banana"], ["bandana", "cherry"]).round(4))
    [[0.825 0.   ]]
    """

    name: ClassVar[str] = "spectrum"
    cost = Ability(SpectrumCost)
    features = Ability(SpectrumFeatureMap)
    attribution = Ability(SpectrumAttributor)

    def fit(self, documents: Documents, device: Device | None = None) -> Spectrum:
        self.check()
        if self.odds or (is_weighted(self) and device is not None and device.kind == "cuda"):
            counted = self.features.count(documents, device)
            self.features.fit_counted(counted, np.arange(len(documents)))
        elif is_weighted(self):
            vocabulary, dfs = Vocabulary.empty(documents, *self.lengths), [np.empty(0, np.int64)]
            for _, size, counts in count_each(documents, vocabulary):
                dfs.append(count_features(counts.features, size))
                del counts  # before the next length is counted
            learnt = len(documents), bool(self.idf), None, bool(self.shared)
            self.weights_ = PmerWeights(vocabulary, np.concatenate(dfs), *learnt)
        return self

    def rows(self, documents: Documents, device: Device) -> FeatureKernelRows:
        if device.kind == "cuda":
            return _on_card().CudaSpectrum(self, documents, device)
        return HostSpectrum(self, documents, device)

    def predictor(self, support: Documents, coef: Array, device: Device) -> SpectrumPredictor:
        if device.kind == "cuda" and not scipy_sparse(coef):
            return _on_card().cuda_predictor(self, support, coef, device)
        rows = self.rows(support, devices.select("cpu") if scipy_sparse(coef) else device)
        if device.kind != "cpu" or not is_weighted(self) or should_factor(rows.x, coef):
            return SpectrumPredictor.of_support(rows, coef)
        weights = SpectrumWeights.of_rows(rows, coef)  # p-mers are then looked up once, for both weights
        return weights.predictor(device, (rows.normalisation, coef))


def fixed_default() -> Spectrum:
    """The spectrum kernel of the best average accuracy: the default without cross-validation."""
    return Spectrum((1, 5), "log", idf=True)


class HostSpectrum(HostFeatureRows):
    """Kernel values with fixed documents on a CPU; features are counted at the first use."""

    def __init__(self, kernel: Spectrum, documents: Documents, device: Device) -> None:
        check_fitted(kernel)
        super().__init__(kernel, documents, device)

    @cached_property
    def _represented(self) -> tuple[FeatureSpace, Sparse]:
        space, _, x = represent(self.kernel, self.documents)
        return space, x

    @property
    def space(self) -> FeatureSpace:
        """Features of the columns."""
        return self._represented[0]

    @property
    def x(self) -> Sparse:
        """X of the columns; `gram` does not need it."""
        return self._represented[1]

    @cached_property
    def normalisation(self) -> Normalisation:  # type: ignore[override]
        """k(s, s) of the columns, as in `host_grams`."""
        return Normalisation(self.documents, self.x.squares(self.ends), self.kernel.normalised)

    @property
    def ends(self) -> Ints:  # type: ignore[override]
        """The features of a length are a block."""
        first = self.space.vocabulary.first
        return self.space.starts[first[1:] if len(first) > 1 else first]

    def attribute(self, documents: Documents, coef: Floats) -> Contributions:
        """As `PmerIndex.attribute`."""
        weights = self.x.transposed_dot(self.normalisation.scale[:, None] * coef.T)
        return self.space.attribute(documents, lambda at, owner: weights[at, owner])

    def project(self, others: Documents) -> tuple[Sparse, Normalisation]:
        return self.space.project(others, self.normalisation)

    def gram(self, progress: Progress | None = None) -> Floats32:
        return next(host_grams([self.kernel], self.documents, self.device, progress))[1]


def host_grams(
    kernels: Sequence[PmerKernel], documents: Documents, device: Device, progress: Progress | None = None
) -> Iterator[tuple[int, Floats32]]:
    """Numbered Grams of kernels that differ in p2 and `normalised` only, in ascending order of p2.

    Each addition to the running sum over lengths rounds to float32: at most 2^-24 of the value.
    """
    n, kernel = len(documents), kernels[-1]
    waiting = [(member.lengths[1], position, member) for position, member in enumerate(kernels)]
    total, self_values = np.zeros((n, n), np.float32), np.zeros(n)
    vocabulary = Vocabulary.empty(documents, *kernel.lengths)
    first, lengths = vocabulary.p1, vocabulary.p2 + 1 - vocabulary.p1
    weights = kernel.weights_.weights_each(vocabulary) if is_weighted(kernel) else None
    for q, size, counts in count_each(documents, vocabulary):
        x = entries_of(kernel, counts, next(weights) if weights is not None else None, size)
        times = counts.counts if kernel.weight == "intersection" else None
        most = 0 if times is None else int(times.sum())  # entries of the unary code
        if times is not None and (most < REPEATED * len(times) or (x.by_numpy and use_numpy(most))):
            x, times = x.unary(times, feature_starts(kernel, counts, size)), None
        self_values += x.squares(times=times)
        del counts
        half = Half(x.on_grid(times=times), times)
        del x, times
        half.add_to(total, part(progress, q - first, 1, lengths))
        del half  # before the counts of the next length
        while waiting and waiting[0][0] <= q:
            _, position, member = waiting.pop(0)
            normalisation = Normalisation(documents, self_values, member.normalised)
            yield position, finished_gram(normalisation, total, in_place=not waiting)
    for _, position, member in waiting:  # no document is that long
        normalisation = Normalisation(documents, self_values, member.normalised)
        yield position, finished_gram(normalisation, total, in_place=False)
