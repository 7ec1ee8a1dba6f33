"""The machine behind labelling: a least-squares SVM that is trained anew after every answer.

With labels y in {-1, +1}, their mean m and the kernel matrix K of the labelled texts, the coefficients are

    a = H^-1 (y - m),     H = K + I / C                               (Suykens and Vandewalle 1999)

for all classes at once, each against the rest, and the value of a text is f(x) = sum_i a_i k(x, x_i) + p m.
With p = 1 and few labels nearly every text would get the most frequent of them. The strength p of the prior,
between 0 and 1, and the weight of an encoder in K minimise a smooth loss of the left-out margins. In a search
1 / C is 1 for relevant and 10 for other texts, so that the few relevant ones weigh more in the ranking, and K
has a constant feature in place of m. A suggested label of weight w has 1 / (C w) in place of 1 / C, and m is
a weighted mean.

The value of a text by a machine that was trained without a group G of texts has a closed form. Let
a = H^-1 (y - m) with m the mean of the labels outside G. Without G the coefficients are
a - (H^-1)_.G ((H^-1)_GG)^-1 a_G, which is 0 in G. The out-of-sample values that p, probabilities, doubts and
estimates of accuracy need cost no training.

Rows are in the order of the texts, so that the machine depends on the set of labels alone: after an undo it
is the same to the bit.

Of many texts only a random part, the pool, is encoded as sparse feature rows at the start and ranked by the
strategies: its size bounds memory and the time of a ranking. Any other text is encoded when it gets a label.
Vectors of an encoder are computed for some of its texts at the start and for more in each training; only
texts with vectors are ranked.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from time import monotonic
from typing import Any, TypeAlias
from unicodedata import category

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, hstack, vstack
from scipy.special import expit, softmax

from textsvm import InputError, Spectrum
from textsvm.arrays import Floats, Floats32, Ints
from textsvm.choice.candidates import has_words
from textsvm.kernels.encoder import as_encoder
from textsvm.kernels.inputs import TextForm
from textsvm.kernels.spectrum.feature_matrix import learn_columns, stacked, transform
from textsvm.linalg.sparse import Sparse
from textsvm.model.rules import fit_scale
from textsvm.runtime.memory import trim
from textsvm.runtime.parallel import Lock
from textsvm.sources.texts import TextSource
from textsvm.text.documents import Documents, normalise

Indices: TypeAlias = Sequence[int] | Ints
C = 2.0  #: Inverse of the ridge, for normalised kernels
SEARCH_RIDGES = (1.0, 10.0)  #: Ridges of relevant and of other texts in a search
TEXTS = 20_000  #: Maximum number of texts of the pool
CHARACTERS = 20_000_000  #: Maximum number of characters of all texts of the pool
LENGTH = 4000  #: Number of characters of a text that are read
MANY_TEXTS = 50  #: Number of texts from which substrings of a single text are left out
BATCH = 256  #: Texts that are encoded at a time, and those with vectors at the start
GROUP = 8  #: Batches whose rows are joined first
PRIORS = (0.0, 0.1, 0.2, 0.4, 0.7, 1.0)  #: Strengths of the prior that are compared
WEIGHTS = (0.0, 0.15, 0.3, 0.5)  #: Weights of an encoder that are compared
FIRST_WEIGHT = 0.5  #: Weight of an encoder before two labels have texts
WEIGHED = 500  #: Maximum number of texts on which weights are compared
EQUAL = 1e-5  #: Spread of vectors, relative to their mean, up to which they are equal but for rounding
SECONDS = 1.0  #: Seconds of a training in which further vectors are computed


@dataclass(frozen=True)
class Machine:
    """A trained machine of n texts and k labels."""

    coef: Floats  #: shape (n, k)
    inverse: Floats  #: shape (n, n): H^-1
    target: Floats  #: shape (n, k): -1 or +1
    text_weight: Floats  #: shape (n, 1): Weight of each text in the mean, 0 in a search
    left_out: Floats  #: shape (n, k): value of each text by a machine that was trained without it
    mean: Floats  #: shape (k,): Mean of the labels, 0 in a search
    prior: float  #: Strength of the prior
    loss: float  #: Mean smooth loss of the left-out margins
    multilabel: bool = False
    weight: float = 0.0  #: Of an encoder in the kernel
    constant: float = 0.0  #: Constant feature of the kernel: 1 in a search, in place of the mean

    @classmethod
    def weighted(
        cls, grams: NDArray[np.float32], target: Floats, multilabel: bool = False, relevant: int | None = None
    ) -> Machine:
        """Train on kernel matrices of strings, and of an encoder with the best weight, (1 or 2, n, n)."""
        weights = WEIGHTS if len(grams) > 1 else WEIGHTS[:1]
        step = -(-len(target) // WEIGHED)
        few, labels = grams[:, ::step, ::step], target[::step]
        losses = [cls.train(mixed(few, weight), labels, multilabel, relevant).loss for weight in weights]
        weight = weights[int(np.argmin(losses))]
        return replace(cls.train(mixed(grams, weight), target, multilabel, relevant), weight=weight)

    @classmethod
    def train(
        cls, gram: NDArray[np.floating], target: Floats, multilabel: bool = False,
        relevant: int | None = None, factor: Floats | float = 1, prior: float | None = None,
    ) -> Machine:  # fmt: skip
        """Train on the kernel matrix of n texts, shape (n, n), and their labels, shape (n, k).

        `relevant` is the column of the label whose texts are searched for, `factor` multiplies C; without a
        `prior` the best is chosen.
        """
        ridge = 1 / C if relevant is None else np.where(target[:, relevant] > 0, *SEARCH_RIDGES)
        # NumPy's inverse lets other threads run meanwhile, unlike SciPy's LAPACK functions.
        constant = float(relevant is not None)
        regularised = gram.astype(np.float64) + constant + ridge / factor * np.eye(len(gram))
        inverse = np.asarray(np.linalg.inv(regularised), np.float64)
        text_weight = (1 - constant) * np.broadcast_to(factor, len(target))[:, None]
        total = max(float(text_weight.sum()), 1.0)
        mean = (text_weight * target).sum(axis=0) / total
        coef = inverse @ (target - mean)
        # Mean of the labels without each text.
        others = (total * mean - text_weight * target) / np.maximum(total - text_weight, 1.0)
        alone = (coef + inverse.sum(axis=1)[:, None] * (mean - others)) / inverse.diagonal()[:, None]
        left_out = target - others - alone
        priors = PRIORS if prior is None else (prior,)
        losses = [_loss(left_out + strength * others, target, multilabel) for strength in priors]
        prior = priors[int(np.argmin(losses))]
        left_out += prior * others
        results = (coef, inverse, target, text_weight, left_out, mean, prior, min(losses), multilabel)
        return cls(*results, constant=constant)

    @cached_property
    def scale(self) -> float:
        """Factor of decision values that makes left-out values the likeliest; 1 if these tell nothing."""
        values, codes = self.left_out, self.target.argmax(axis=1)
        if self.multilabel:  # each decision for or against a label is a choice between two classes
            flat, codes = values.ravel(), (self.target.ravel() > 0).astype(np.int64)
            values = np.stack([-flat, flat], axis=1)
        if np.abs(values).max() < 1e-9 or len(np.unique(codes)) < 2:
            return 1.0
        return fit_scale(values, codes, values.shape[1])

    @property
    def bias(self) -> Floats:
        """Bias of each label, shape (k,)."""
        return np.asarray(self.prior * self.mean + self.constant * self.coef.sum(axis=0))

    def without(self, group: Indices) -> tuple[Floats, Floats]:
        """Coefficients, 0 in a group of texts, and bias of a machine that was trained without the group."""
        index = np.asarray(group)
        target, weight = (np.delete(array, index, axis=0) for array in (self.target, self.text_weight))
        others = (weight * target).sum(axis=0) / max(weight.sum(), 1)
        coef = self.coef + self.inverse.sum(axis=1)[:, None] * (self.mean - others)
        coef -= self.inverse[:, index] @ np.linalg.solve(self.inverse[np.ix_(index, index)], coef[index])
        coef[index] = 0
        return coef, self.prior * others + self.constant * coef.sum(axis=0)

    def probabilities(self, values: Floats) -> Floats:
        """Probability of each label from decision values, shape (m, k)."""
        scaled = self.scale * values
        return np.asarray(expit(2 * scaled) if self.multilabel else softmax(scaled, axis=1))


def mixed(grams: NDArray[np.float32], weight: float) -> NDArray[np.float32]:
    """Kernel values of strings, and those of an encoder if there is a second matrix, with its weight."""
    return np.asarray(grams[0] if len(grams) < 2 else (1 - weight) * grams[0] + weight * grams[1], np.float32)


def _loss(values: Floats, target: Floats, multilabel: bool) -> float:
    """Mean smooth loss of the margins, in units of their mean size."""
    margins = values * target
    if not multilabel:
        own = target.argmax(axis=1)[:, None] == np.arange(target.shape[1])
        margins = values[own] - np.where(own, -np.inf, values).max(axis=1)
    return float(expit(-margins / max(float(np.abs(margins).mean()), 1e-12)).mean())


class Pool:
    """Feature rows of texts, with kernel values as their products, and vectors of the first of them.

    `order` is a random order of the texts, shape (n,); the pool is a beginning of it.
    """

    def __init__(self, texts: Sequence[str], order: Ints, encoder: object = None) -> None:
        self.texts = texts
        lengths = np.cumsum([min(len(texts[int(i)]), LENGTH) for i in order[:TEXTS]])
        self.members = order[: max(1, int(np.searchsorted(lengths, CHARACTERS, "right")))]
        self.encoder = None if encoder is None else MeaningVectors(encoder, self._texts_of(0, BATCH))
        self.vectors = np.empty((0, 0), np.float32) if self.encoder is None else self.encoder.first
        self._lock = Lock()
        self._features = _fitted(self._texts_of(0, len(self.members)))
        trim()
        places, step = range(len(self.members)), GROUP * BATCH
        groups = [  # of large arrays, which are returned to the system when they are freed
            stacked([self.encode(self._texts_of(k, BATCH)) for k in places[i : i + step : BATCH]])
            for i in places[::step]
        ]
        self.rows = stacked(groups)
        trim()
        self._place = {int(i): row for row, i in enumerate(self.members)}
        #: Rows of texts outside the pool that were needed so far.
        self._outside: dict[int, csr_matrix] = {}
        entries = self.rows.indptr.astype(np.int64), self.rows.indices, self.rows.data
        self._sparse = Sparse(*entries, self.rows.shape[1])

    @property
    def ranked(self) -> Ints:
        """Texts that strategies choose from: the pool, or those of it that have vectors."""
        return self.members if self.encoder is None else self.members[: len(self.vectors)]

    def _texts_of(self, first: int, n: int) -> list[str]:
        return [self.texts[int(i)][:LENGTH] for i in self.members[first : first + n]]

    def grow(self) -> None:
        """Compute vectors of more texts of the pool, for about `SECONDS`."""
        start = monotonic()
        with self._lock:  # of two threads each would replace the vectors of the other
            while self.encoder is not None and monotonic() < start + SECONDS:
                if not (texts := self._texts_of(len(self.vectors), BATCH)):
                    return
                self.vectors = np.concatenate([self.vectors, self.encoder(texts)])

    def rows_of(self, indices: Indices) -> csr_matrix:
        """Rows of texts in or outside the pool."""
        numbers = [int(i) for i in indices]
        if all(i in self._place for i in numbers):
            return self.rows[[self._place[i] for i in numbers]] if numbers else self.rows[:0]
        new = [i for i in numbers if i not in self._place and i not in self._outside]
        if new:
            rows = self.encode([self.texts[i] for i in new])
            self._outside.update((i, rows[row]) for row, i in enumerate(new))
        both = [self.rows[self._place[i]] if i in self._place else self._outside[i] for i in numbers]
        return vstack(both, "csr")

    def vectors_of(self, indices: Indices) -> Floats32:
        """Vectors of any texts, shape (len(indices), d)."""
        assert self.encoder is not None
        vectors = self.vectors  # another thread may replace them
        n = len(vectors)
        place = np.array([self._place.get(int(i), n) for i in indices], np.int64)
        rows, new = vectors.take(place, axis=0, mode="clip"), np.flatnonzero(place >= n)
        if len(new):
            rows[new] = self.encoder([self.texts[int(indices[int(k)])] for k in new])
        return rows

    def encode(self, texts: Sequence[str]) -> csr_matrix:
        """Rows of any texts."""
        if not self._features:
            return csr_matrix((len(texts), 1), dtype=np.float32)
        beginnings = [text[:LENGTH] for text in texts]
        parts = [features.transform(beginnings) for features in self._features]
        return csr_matrix(hstack(parts, "csr") * np.float32(len(parts) ** -0.5))

    def products(self, weights: ColumnWeights) -> Floats:
        """Products of the texts of the pool, shape (n_members, k)."""
        number = np.full(self.rows.shape[1], -1, np.int32)
        number[weights.columns] = np.arange(len(weights.columns))
        step, indptr = GROUP * BATCH, self._sparse.indptr  # in parts: selected entries take memory
        starts = (indptr[i : i + step + 1] for i in range(0, len(self.members), step))
        parts = (replace(self._sparse, indptr=part).select(number, len(weights.columns)) for part in starts)
        return np.concatenate([part.dot(weights.values) for part in parts])

    def similarity(self, indices: Indices, others: Indices, machine: Machine | None = None) -> Floats32:
        """Kernel values of a machine, or before the first machine, shape (len(indices), len(others))."""
        return mixed(self.grams(indices, others), FIRST_WEIGHT if machine is None else machine.weight)

    def grams(self, indices: Indices, others: Indices) -> Floats32:
        """Kernel values of strings and of an encoder, shape (1 or 2, len(indices), len(others))."""
        grams = [(self.rows_of(indices) @ self.rows_of(others).T).toarray()]
        if self.encoder is not None:
            grams.append(self.vectors_of(indices) @ self.vectors_of(others).T)
        return np.asarray(grams, np.float32)


class Scorer:
    """Decision values of texts by a machine of the texts `index`."""

    def __init__(self, pool: Pool, index: Indices, machine: Machine) -> None:
        self._pool, self._bias = pool, machine.bias
        self._encoder = pool.encoder if machine.weight else None
        self._strings = ColumnWeights.of(pool.rows_of(index), (1 - machine.weight) * machine.coef)
        if self._encoder is not None:
            self._meaning = machine.weight * (pool.vectors_of(index).T @ machine.coef)

    def of_pool(self, n: int) -> Floats:
        """Values of the first n texts of the pool, shape (n, k)."""
        values = self._pool.products(self._strings)[:n] + self._bias
        return values if self._encoder is None else values + self._pool.vectors[:n] @ self._meaning

    def of_texts(self, texts: Sequence[str]) -> Floats:
        """Values of any texts, shape (n, k)."""
        values = self._strings.of_rows(self._pool.encode(texts)) + self._bias
        return values if self._encoder is None else values + self._encoder(texts) @ self._meaning


@dataclass(frozen=True)
class ColumnWeights:
    """Weights of the columns that a support row uses: support.T @ coef."""

    columns: NDArray[np.integer]  #: shape (n,): Sorted
    values: Floats  #: shape (n, k)

    @classmethod
    def of(cls, support: csr_matrix, coef: Floats) -> ColumnWeights:
        """Weights with which the product of a row x is sum_j k(x, support_j) coef_j."""
        used, columns = np.unique(support.indices, return_inverse=True)
        parts = (support.data.astype(np.float64), columns, support.indptr)
        return cls(used, np.asarray(csr_matrix(parts, (len(coef), len(used))).T @ coef))

    def of_rows(self, rows: csr_matrix) -> Floats:
        """Products of a few rows, shape (m, k)."""
        columns, places = np.unique(rows.indices, return_inverse=True)
        shared, values = np.isin(columns, self.columns), np.zeros((len(columns), self.values.shape[1]))
        values[shared] = self.values[np.searchsorted(self.columns, columns[shared])]
        selected = csr_matrix((rows.data, places, rows.indptr), (rows.shape[0], len(columns)))
        return np.asarray(selected @ values)


class MeaningVectors:
    """Centred and scaled vectors of an encoder, 0 of a text without tokens; `first`: of some texts."""

    def __init__(self, encoder: Any, texts: Sequence[str]) -> None:
        self._encode = as_encoder(encoder).encoder
        self._mean, self._length = np.zeros(1, np.float32), 1.0
        vectors = self(texts)
        self._mean = vectors.mean(axis=0)
        length = float(np.sqrt(np.square(vectors - self._mean).sum(axis=1).mean()))
        self._length = length if length > EQUAL * np.abs(self._mean).max() else 1.0
        self.first = self(texts)

    def __call__(self, texts: Sequence[str]) -> Floats32:
        vectors: Floats32 = self._encode([normalise(text[:LENGTH], keep_case=True) for text in texts])
        return (vectors - vectors.any(axis=1, keepdims=True) * self._mean) / self._length


def _fitted(texts: Sequence[str]) -> list[TextFeatures]:
    """Characters, and words if the texts have words; none without a text that has features."""
    least = 2 if len(texts) >= MANY_TEXTS else 1
    kernels = [Spectrum((1, 5), "log", idf=True)]
    if has_words(texts):
        kernels.append(Spectrum((1, 2), "log", idf=True, tokens="words"))
    fitted = list[TextFeatures]()
    for kernel in kernels:
        with suppress(InputError):  # texts without features, or of which no two share a feature
            fitted.append(TextFeatures(kernel, texts, least))
    return fitted


class TextFeatures:
    """`textsvm.SpectrumFeatures` without scikit-learn, which loads 100 MB with pandas and PyArrow."""

    def __init__(self, kernel: Spectrum, texts: Sequence[str], least: int) -> None:
        self._kernel, self._source = kernel, TextSource(kernel, TextForm())
        documents = self._source.encode(texts)
        self._source.kernel_for(documents)  # refuses texts without features
        self._columns, _ = learn_columns(kernel, documents, least, rows=False)
        self._alphabet = Documents.none(documents.alphabet)

    def transform(self, texts: Sequence[str]) -> csr_matrix:
        """Rows of any texts."""
        return transform(self._kernel, self._columns, self._source.encode(texts, self._alphabet))


def digest(text: str) -> bytes:
    """Equal for texts that differ in case and white space only; a digit or an emoji may decide a label."""
    return blake2b(normalise(text).encode("utf-8", "surrogatepass"), digest_size=8).digest()


def marks(text: str) -> str:
    """Digits, punctuation and symbols of a text."""
    return "".join(symbol for symbol in text if category(symbol)[0] in "NPS")
