"""p-spectrum kernel: what two documents share of their contiguous substrings.

    k(s, t) = sum_u phi_u(s) phi_u(t),    phi_u(s) = w_u f(c_u(s)),

u runs over the strings of p symbols (p1..p2 in a blended kernel), c_u(s) counts the occurrences of u
in s, f(c) is c, 1 (presence) or 1 + ln c (log), and w_u is 1 or, with idf, ln((1 + n) / (1 + df_u)) + 1
learnt from n training documents (p-mers they do not hold: ln(1 + n) + 1). The intersection kernel
sum_u w_u min(c_u(s), c_u(t)) has the same form over more features: in the unary code of the counts
[c >= 1], [c >= 2], ... the product of two codes is the minimum, so

    phi_(u, h)(s) = sqrt(w_u) [c_u(s) >= h].

Hence every variant is a product of one sparse matrix X (documents x features, values >= 0) with
itself, and a decision value sum_j a_j k(s, t_j) / |t_j| is phi(s) . (sum_j a_j phi(t_j) / |t_j|): one
product with a vector, whatever the number of support vectors.

The half Gram takes sum_u df_u^2 / 2 products, and most of them belong to few p-mers. So the columns
of X that many documents hold are kept dense, as a tile product (BLAS); the others are an inverted
index: row i adds x_iu x_ju to an accumulator of n values for every j > i on the list of u.

What is exact: counts, presence and intersection without idf are sums of integers, right to the last
bit below 2^53 (float64 accumulators; tile products in float32 only where all sums are below 2^24),
and rounded to float32 once a length. With log or idf X is rounded to float32 and the sums are float64.

The whole Gram is the sum of those of the lengths, one after the other: memory is for the p-mers of one
length, and the Grams of all ranges p1..p2 come by the way (`host_grams`).

p-mers are counted in `textsvm.kernels.spectrum.pmers`, products of X are made in `textsvm.linalg.products`.

Leslie, Eskin, Noble 2002 (spectrum kernel); Ionescu, Popescu, Cahill 2014 (presence, intersection).

Machines of spectrum kernels kept as one weight a feature, without any support vector.

What a kernel learnt (idf, odds) is of all training documents: it weighs p-mers in k(s, s) of any document,
and so it is kept whole, and the weights are those of its p-mers: one vocabulary is for both. A kernel that
learns nothing has the p-mers of the support vectors.

A document without any feature is 1 with an equal one (normalisation.py), which no weight says; support
vectors that have no feature are left out, and the value of such a document is 0.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from textsvm.errors import InputError
from textsvm.kernels.attribution import Attribution, Contributions
from textsvm.kernels.base import Sharing, SymbolKernel
from textsvm.kernels.normalisation import Normalisation, finished_gram
from textsvm.kernels.options import SPECTRUM_OPTIONS, WEIGHTS, Option
from textsvm.kernels.spectrum.counted import CountedDocuments
from textsvm.kernels.spectrum.features import (
    SUBSTRINGS,
    FeatureMap,
    FeatureSpace,
    Represented,
    SpectrumPredictor,
    feature_starts,
    matrix_of,
    represent,
)
from textsvm.kernels.spectrum.learnt_weights import FeatureWeights, read_vocabulary
from textsvm.kernels.spectrum.matrix import counted_bytes
from textsvm.kernels.spectrum.pmers import count_each
from textsvm.kernels.spectrum.vocabulary import Vocabulary, windows_of
from textsvm.kernels.spectrum.weight_vectors import WeightVectors, pack, sizes_of, unpack
from textsvm.linalg.products import Half, InvertedIndex
from textsvm.linalg.sparse import Sparse
from textsvm.runtime import device as devices
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import Progress, part
from textsvm.text.documents import Documents, Views
from textsvm.text.tokens import Tokens

#: What a damaged state may raise.
_DAMAGE = (KeyError, ValueError, TypeError, IndexError, OverflowError)


@dataclass(frozen=True)
class SpectrumWeights:
    """The machines of one spectrum kernel; see `textsvm.kernels.base.Weights`.

    Attributes
    ----------
    kernel : FeatureMap
        Fitted.
    vectors : WeightVectors
    left_out : int
        Support vectors without any feature.
    """

    kernel: FeatureMap
    vectors: WeightVectors
    left_out: int = 0

    @classmethod
    def of_rows(cls, rows: Represented, coef: NDArray[np.float64]) -> SpectrumWeights:
        """From support vectors on the host; coef has shape (n_machines, n_sv)."""
        kernel, columns = rows.kernel, rows.normalisation
        dense = rows.x.transposed_dot(columns.scale[:, None] * coef.T)
        vectors = WeightVectors.of(rows.space.vocabulary, rows.space.starts, dense)
        if kernel.weighted:
            vectors = vectors.over(kernel.weights_.vocabulary)
        return cls(kernel, vectors, len(columns.featureless))

    @property
    def n_machines(self) -> int:
        """How many machines there are."""
        return self.vectors.weights.shape[1]

    def predictor(self, device: Device) -> SpectrumPredictor:
        """See `Weights`."""
        vectors = self.vectors
        space: Any = FeatureSpace(self.kernel, vectors.vocabulary, vectors.starts, vectors.row)
        weights = vectors.weights.astype(np.float64)
        if device.kind == "cpu":
            return SpectrumPredictor(device, space, weights)
        from textsvm.kernels.spectrum.cuda import CudaFeatureSpace

        with devices.use(device):
            array = devices.array_module(device).asarray(weights)
            return SpectrumPredictor(device, CudaFeatureSpace.of(space), array)

    def state(self, tolerance: float) -> dict[str, NDArray[Any]]:
        """See `Weights`."""
        kernel, vocabulary = self.kernel, self.vectors.vocabulary
        state = self.vectors.state(tolerance if kernel.normalised else 0.0, kernel.weight == "intersection")
        state |= pack(vocabulary) | {"sizes": np.array([0, vocabulary.n_symbols])}
        if not kernel.weighted:
            return state
        learnt = kernel.weights_
        df = learnt.df.astype(np.min_scalar_type(-1 - learnt.n))  # signed
        odds = {} if learnt.odds is None else {"odds": learnt.odds}
        return state | odds | {"df": df, "sizes": np.array([learnt.n, vocabulary.n_symbols])}

    @classmethod
    def from_state(
        cls, kernel: FeatureMap, state: dict[str, NDArray[Any]], alphabet: Documents
    ) -> SpectrumWeights:
        """Read and check what `state` gave, and give the kernel what it learnt.

        Raises
        ------
        InputError
            If it is damaged.
        """
        p1, p2 = kernel.lengths
        try:
            _, n_symbols = sizes_of(state, "sizes", 2)
            if n_symbols != len(alphabet.alphabet):
                raise ValueError("sizes do not match the alphabet")
            keys = unpack(state, p1, p2, n_symbols)
            vocabulary = read_vocabulary(keys, p1, p2, n_symbols)
            if kernel.weighted:
                learnt = {name: state[name] for name in ("sizes", "df", "odds") if name in state}
                kernel.weights_ = FeatureWeights.from_state(
                    keys | learnt, p1, p2, bool(kernel.idf), bool(kernel.odds)
                )
                vocabulary = kernel.weights_.vocabulary
            vectors = WeightVectors.from_state(state, vocabulary, kernel.weight == "intersection")
        except _DAMAGE as error:
            raise InputError(f"its weights are damaged ({error}); train the model again") from None
        return cls(kernel, vectors)


#: Symbols a second that are counted and compared, for each length.
RATE = 3e8


@dataclass(frozen=True)
class SharedLengths(Sharing):
    """k_{p1..p2} is the running sum, not normalised, of the Grams of the lengths."""

    p1: int
    weight: str
    idf: bool

    def passes(self, kernels: Sequence[Spectrum], room: int) -> list[list[int]]:
        return [sorted(range(len(kernels)), key=lambda i: kernels[i].lengths[1])]

    def description(self, kernels: Sequence[Spectrum]) -> str:
        return "from the sum over lengths"

    def grams(
        self,
        kernels: Sequence[Spectrum],
        documents: Documents,
        device: Device,
        progress: Progress | None = None,
    ) -> Iterator[tuple[int, Any]]:
        if device.kind == "cuda":
            from textsvm.kernels.spectrum.cuda import cuda_grams

            return cuda_grams(kernels, documents, device, progress)
        return host_grams(kernels, documents, device, progress)


class Spectrum(SymbolKernel):
    """p-spectrum kernel; a p-mer and its reverse complement are one in `GappedKmers(p, 0, canonical=True)`.

    Parameters
    ----------
    p : int or (int, int)
        Symbols of a substring; a range sums the kernels of its lengths (blended), then normalises.
    weight : {"count", "presence", "intersection", "log"}
        What becomes of the number of occurrences c: c, 1, min(c, c'), or 1 + ln c.
    idf : bool
        Weigh every p-mer by ln((1 + n) / (1 + df)) + 1, learnt by `fit`.
    normalised : bool
        Divide by sqrt(k(s, s) k(t, t)).
    tokens : {"characters", "words", "whitespace", "blosum62"} or callable
        What a symbol is: a function takes a normalised text and returns its tokens.
    keep_case : bool
        Tell upper and lower case apart.
    odds : bool
        Weigh every p-mer by what it tells about the class (`spectrum.learnt_weights`), learnt by `fit`.

    Examples
    --------
    >>> from textsvm import Spectrum
    >>> print(Spectrum(2)(["banana"], ["bandana", "cherry"]).round(4))
    [[0.825 0.   ]]
    """

    name: ClassVar[str] = "spectrum"
    options: ClassVar[tuple[Option, ...]] = SPECTRUM_OPTIONS
    attribution: ClassVar[Attribution] = SUBSTRINGS

    def __init__(
        self,
        p: int | tuple[int, int] = 4,
        weight: str = "count",
        idf: bool = False,
        normalised: bool = True,
        tokens: Tokens = "characters",
        keep_case: bool = False,
        odds: bool = False,
    ) -> None:
        self.p = p
        self.weight = weight
        self.idf = idf
        self.normalised = normalised
        self.tokens = tokens
        self.keep_case = keep_case
        self.odds = odds

    @property
    def lengths(self) -> tuple[int, int]:
        """Shortest and longest substring that counts."""
        p = self.p if isinstance(self.p, (tuple, list)) else (self.p, self.p)
        return int(p[0]), int(p[1])

    @property
    def min_length(self) -> int:
        return self.lengths[0]

    @property
    def learns(self) -> bool:
        return self.weighted

    @property
    def weighted(self) -> bool:
        """Whether it has learnt weights."""
        return bool(self.idf or self.odds)

    def check(self) -> None:
        super().check()
        p = self.p if isinstance(self.p, (tuple, list)) else (self.p, self.p)
        whole = all(isinstance(q, (int, np.integer)) and not isinstance(q, bool) for q in p)
        if len(p) != 2 or not whole or not 1 <= p[0] <= p[1]:
            raise InputError(
                f"p={self.p!r} is no length of a substring: give a whole number from 1 or a range (p1, p2)"
            )
        if self.weight not in WEIGHTS:
            raise InputError(f"weight={self.weight!r} is not one of {', '.join(WEIGHTS)}")

    def fit(self, documents: Documents) -> Spectrum:
        self.check()
        self._require_classes(documents)
        if self.weighted:
            self.weights_ = FeatureWeights.learn(documents, *self.lengths, self.idf, self.odds)
        return self

    @property
    def counting(self) -> Hashable | None:
        return None if self.weight == "intersection" and self.weighted else (self.view, self.lengths)

    def occurrences(self, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        return windows_of(lengths, *self.lengths)

    def fit_on(self, documents: Documents, device: Device) -> Spectrum:
        if device.kind == "cpu" or not self.weighted:
            return self.fit(documents)
        self.fit_counted(self.counted(documents, device), np.arange(len(documents)))
        return self

    def _require_classes(self, documents: Documents) -> None:
        if self.odds and documents.classes is None:
            raise InputError(
                "odds are learnt from classes: give such a kernel to a classifier of one label a text"
            )

    def counted(self, documents: Documents, device: Device | None = None) -> Any:
        self.check()
        if device is None or device.kind == "cpu":
            return CountedDocuments(self, documents)
        from textsvm.kernels.spectrum.counted_cuda import CudaCountedDocuments

        return CudaCountedDocuments(self, documents)

    def feature_bytes(self, documents: Documents) -> int:
        return counted_bytes(documents, self.lengths)

    def fit_counted(self, counted: Any, train: NDArray[np.int64]) -> None:
        self._require_classes(counted.documents)
        if self.weighted:
            self.weights_ = counted.weights(self, train)

    def rows(self, documents: Documents, device: Device) -> Any:
        self.check()
        if device.kind == "cuda":
            from textsvm.kernels.spectrum.cuda import CudaSpectrum

            return CudaSpectrum(self, documents, device)
        return HostSpectrum(self, documents, device)

    def predictor(self, support: Documents, coef: NDArray[np.float64], device: Device) -> SpectrumPredictor:
        return SpectrumPredictor.of_support(self.rows(support, device), coef)

    @property
    def has_weights(self) -> bool:
        return True

    def weight_vectors(self, support: Documents, coef: NDArray[np.float64]) -> SpectrumWeights:
        return SpectrumWeights.of_rows(HostSpectrum(self, support, devices.select("cpu")), coef)

    def restore_weight_vectors(
        self, state: dict[str, NDArray[Any]], alphabets: Documents | Views
    ) -> SpectrumWeights:
        self.check()
        return SpectrumWeights.from_state(self, state, self.read(alphabets))

    def state(self) -> dict[str, NDArray[Any]]:
        self.check_fitted()
        return self.weights_.state() if self.weighted else {}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        if not self.weighted:
            return
        self.check()
        try:
            self.weights_ = FeatureWeights.from_state(state, *self.lengths, self.idf, self.odds)
        except (KeyError, ValueError, TypeError, IndexError, OverflowError) as error:
            raise InputError(f"the saved weights are damaged ({error}); train the model again") from None

    def check_fitted(self) -> None:
        """Raise InputError if weights are asked for and not learnt."""
        if self.weighted and not hasattr(self, "weights_"):
            raise InputError("weights are learnt from training documents: call fit before anything else")

    @property
    def sharing(self) -> SharedLengths | None:
        if self.odds:
            return None  # what a p-mer tells is measured against all lengths
        return SharedLengths(self.lengths[0], self.weight, bool(self.idf))

    def cost(self, row_lengths: NDArray[np.int64], column_lengths: NDArray[np.int64]) -> NDArray[np.float64]:
        symbols = len(column_lengths) * row_lengths.astype(float) + column_lengths.sum()
        return (self.lengths[1] - self.lengths[0] + 1) * symbols / RATE

    def contributions(
        self,
        rows: Any,
        documents: Documents,
        coef: NDArray[np.float64],
        values: NDArray[np.float64],
        progress: Progress | None = None,
    ) -> Contributions:
        weighted = rows.x.transposed_dot(rows.normalisation.scale[:, None] * coef.T)
        return rows.space.attribute(documents, lambda at, owner: weighted[at, owner])

    def contributions_cost(
        self, lengths: NDArray[np.int64], support_lengths: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        return self.cost(lengths + support_lengths.sum(), np.zeros(1, np.int64))


def fixed_default() -> Spectrum:
    """The best spectrum kernel on average, where nothing is chosen by cross-validation."""
    return Spectrum((1, 5), "log", idf=True)


class HostSpectrum:
    """The CPU twin: see `KernelRows`.

    Parameters
    ----------
    kernel : Spectrum
        Fitted, if it learns weights.
    documents : Documents
        The columns.
    device : Device
    """

    def __init__(self, kernel: Spectrum, documents: Documents, device: Device) -> None:
        kernel.check_fitted()
        self.kernel, self.documents, self.device = kernel, documents, device
        self.n = len(documents)

    @cached_property
    def _represented(self) -> tuple[FeatureSpace, Sparse]:
        space, _, x = represent(self.kernel, self.documents)
        return space, x

    @property
    def space(self) -> FeatureSpace:
        """The features of the columns."""
        return self._represented[0]

    @property
    def x(self) -> Sparse:
        """X of the columns, made when first needed: `gram` does without."""
        return self._represented[1]

    @cached_property
    def columns(self) -> InvertedIndex:
        """X by columns."""
        return InvertedIndex(self.x)

    @cached_property
    def normalisation(self) -> Normalisation:
        """k(s, s) of the columns."""
        return Normalisation(self.documents, self.x.squares(), self.kernel.normalised)

    def diag(self) -> NDArray[np.float32]:
        return np.ones(self.n, np.float32) if self.kernel.normalised else self.normalisation.diagonal()

    def rows(self, indices: NDArray[np.int64]) -> NDArray[np.float32]:
        indices = np.asarray(indices, np.int64)
        out = self._values(self.x.take(indices), self.normalisation.take(indices))
        if self.kernel.normalised:
            out[np.arange(len(indices)), indices] = 1
        return out

    def gram(self, progress: Progress | None = None) -> NDArray[np.float32]:
        return next(host_grams([self.kernel], self.documents, self.device, progress))[1]

    def cross(self, others: Documents, progress: Progress | None = None) -> NDArray[np.float32]:
        return self._values(*self.space.project(others, self.normalisation), progress)

    def decision(
        self, others: Documents, coef: NDArray[np.float64], progress: Progress | None = None
    ) -> NDArray[np.float64]:
        return SpectrumPredictor.of_support(self, coef.T).values(others, progress)

    def _values(self, x: Sparse, own: Normalisation, progress: Progress | None = None) -> NDArray[np.float32]:
        """Values of the rows of `x` with all columns."""
        out = np.empty((len(x), self.n), np.float32)
        self.columns.products(x, own.scale, self.normalisation.scale, out, progress)
        own.finish_rows(out, self.normalisation)
        return out


def host_grams(
    kernels: Sequence[Spectrum], documents: Documents, device: Device, progress: Progress | None = None
) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """The Grams of kernels that differ in p2 and `normalised` only, in ascending order of p2, numbered.

    One length after the other is counted and its products are added to a running sum, so that memory is for
    one length. Each addition rounds to float32: at most 2^-24 of the value for every length.
    """
    n, kernel, waiting = len(documents), kernels[-1], list(enumerate(kernels))
    total, self_values = np.zeros((n, n), np.float32), np.zeros(n)
    vocabulary = Vocabulary.empty(documents, *kernel.lengths)
    first, lengths = vocabulary.p1, vocabulary.p2 + 1 - vocabulary.p1
    weights = kernel.weights_.weights_each(vocabulary) if kernel.weighted else None
    for q, size, counts in count_each(documents, vocabulary):
        starts = feature_starts(kernel, counts, size)
        x = matrix_of(kernel, counts, next(weights) if weights is not None else None, starts)
        self_values += x.squares()
        Half(x).add_to(total, part(progress, q - first, 1, lengths))
        while waiting and waiting[0][1].lengths[1] <= q:
            position, wanted = waiting.pop(0)
            normalisation = Normalisation(documents, self_values, wanted.normalised)
            yield position, finished_gram(normalisation, total, in_place=not waiting)
    for position, wanted in waiting:  # their lengths no document has
        normalisation = Normalisation(documents, self_values, wanted.normalised)
        yield position, finished_gram(normalisation, total, in_place=False)
