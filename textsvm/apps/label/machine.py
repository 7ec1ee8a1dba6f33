"""The machine behind labelling: a least-squares SVM that is trained anew after every answer.

With labels y in {-1, +1} and K' = K + 1, the kernel matrix of the labelled texts with a constant feature for
the bias, the coefficients are

    a = H^-1 y,     H = K' + I / C                                    (Suykens and Vandewalle 1999)

for all classes at once, each against the rest. In a search, I / C is 1 for relevant and 10 for other texts:
the few relevant ones weigh more in the ranking. The value of text i by a machine that was trained without a
group G of texts, i among them, has a closed form: the coefficients a - (H^-1)_.G (H^-1)_GG^-1 a_G, which are
0 in G. The out-of-sample values that probabilities, doubts and estimates of accuracy need cost no training.

Rows are in the order of the texts, so that the machine depends on the set of labels alone: after an undo it
is the same to the bit.

Of many texts only a random part, the pool, is encoded as sparse feature rows at the start and ranked by the
strategies: its size bounds memory and the time of a ranking. Any other text is encoded when it gets a label.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, TypeAlias
from unicodedata import category

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, hstack, vstack
from scipy.special import expit, softmax

from textsvm import InputError, SpectrumFeatures
from textsvm.arrays import Floats, Floats32, Ints
from textsvm.choice.candidates import has_words
from textsvm.kernels.encoder import as_encoder
from textsvm.linalg.sparse import Sparse
from textsvm.model.rules import fit_scale
from textsvm.text.documents import normalise

Indices: TypeAlias = Sequence[int] | Ints
#: Inverse of the ridge, for normalised kernels.
C = 2.0
#: Ridges of relevant and of other texts in a search.
SEARCH_RIDGES = (1.0, 10.0)
#: Maximum number of texts of the pool.
TEXTS = 50_000
#: Maximum number of characters of all texts of the pool.
CHARACTERS = 20_000_000
#: Number of characters of a text that are read.
LENGTH = 4000
#: Number of texts from which substrings of a single text are left out.
MANY = 50


@dataclass(frozen=True)
class Machine:
    """A trained machine of n texts and k labels."""

    coef: Floats  #: shape (n, k)
    inverse: Floats  #: shape (n, n): H^-1
    target: Floats  #: shape (n, k): -1 or +1
    left_out: Floats  #: shape (n, k): value of each text by a machine that was trained without it
    scale: float  #: Factor of decision values in probabilities
    multilabel: bool = False

    @classmethod
    def train(
        cls, gram: NDArray[np.floating], target: Floats, multilabel: bool = False,
        relevant: int | None = None,
    ) -> Machine:  # fmt: skip
        """Train on the kernel matrix of n texts, shape (n, n), and their labels, shape (n, k).

        `relevant` is the column of the label whose texts are searched for.
        """
        ridge = 1 / C if relevant is None else np.where(target[:, relevant] > 0, *SEARCH_RIDGES)
        # NumPy's inverse lets other threads run meanwhile, unlike SciPy's LAPACK functions.
        regularised = gram.astype(np.float64) + 1 + ridge * np.eye(len(gram))
        inverse = np.asarray(np.linalg.inv(regularised), np.float64)
        coef = inverse @ target
        left_out = target - coef / inverse.diagonal()[:, None]
        return cls(coef, inverse, target, left_out, _scale(left_out, target, multilabel), multilabel)

    @property
    def bias(self) -> Floats:
        """Bias of each label, shape (k,)."""
        return self.coef.sum(axis=0)

    def without(self, group: Indices) -> Floats:
        """Coefficients of a machine that was trained without a group of texts, 0 there, shape (n, k)."""
        index = np.asarray(group)
        part = np.linalg.solve(self.inverse[np.ix_(index, index)], self.coef[index])
        coef = self.coef - self.inverse[:, index] @ part
        coef[index] = 0
        return coef

    def probabilities(self, values: Floats) -> Floats:
        """Probability of each label from decision values, shape (m, k)."""
        scaled = self.scale * values
        return np.asarray(expit(2 * scaled) if self.multilabel else softmax(scaled, axis=1))


def _scale(left_out: Floats, target: Floats, multilabel: bool) -> float:
    """Scale of decision values that makes left-out values the likeliest; 1 if all texts are of one class."""
    values, codes = left_out, target.argmax(axis=1)
    if multilabel:  # each decision for or against a label is a choice between two classes
        flat, codes = left_out.ravel(), (target.ravel() > 0).astype(np.int64)
        values = np.stack([-flat, flat], axis=1)
    return fit_scale(values, codes, values.shape[1]) if len(np.unique(codes)) > 1 else 1.0


class Pool:
    """Feature rows of texts, with kernel values as their products.

    `order` is a random order of the texts, shape (n,); the pool is a beginning of it.
    """

    def __init__(self, texts: Sequence[str], order: Ints, encoder: Any = None) -> None:
        self.texts = texts
        lengths = np.cumsum([min(len(texts[int(i)]), LENGTH) for i in order[:TEXTS]])
        self.members = order[: max(1, int(np.searchsorted(lengths, CHARACTERS, "right")))]
        beginnings = [texts[int(i)][:LENGTH] for i in self.members]
        self._features = _fitted(beginnings, encoder)
        self.rows = self.encode(beginnings)
        self._place = {int(i): row for row, i in enumerate(self.members)}
        #: Rows of texts outside the pool that were needed so far.
        self._outside: dict[int, csr_matrix] = {}
        self._sparse = Sparse(
            self.rows.indptr.astype(np.int64), self.rows.indices, self.rows.data, self.rows.shape[1]
        )

    def rows_of(self, indices: Indices) -> csr_matrix:
        """Rows of texts in or outside the pool."""
        numbers = [int(i) for i in indices]
        if all(i in self._place for i in numbers):
            return self.rows[[self._place[i] for i in numbers]] if numbers else self.rows[:0]
        new = [i for i in numbers if i not in self._place and i not in self._outside]
        if new:
            rows = self.encode([self.texts[i] for i in new])
            self._outside.update((i, rows[row]) for row, i in enumerate(new))
        return vstack(
            [self.rows[self._place[i]] if i in self._place else self._outside[i] for i in numbers], "csr"
        )

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
        return self._sparse.select(number, len(weights.columns)).dot(weights.values)

    def similarity(self, indices: Indices, others: Indices) -> NDArray[np.float32]:
        """Kernel values, shape (len(indices), len(others))."""
        return np.asarray((self.rows_of(indices) @ self.rows_of(others).T).toarray(), np.float32)


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


class MeaningFeatures:
    """Centred and scaled vectors of an encoder as feature rows."""

    def __init__(self, encoder: Any, texts: Sequence[str]) -> None:
        self._encode = as_encoder(encoder).encoder
        vectors = self._vectors(texts)
        self._mean = vectors.mean(axis=0)
        self._length = max(float(np.sqrt(np.square(vectors - self._mean).sum(axis=1).mean())), 1e-12)

    def transform(self, texts: Sequence[str]) -> csr_matrix:
        """Rows of texts."""
        return csr_matrix((self._vectors(texts) - self._mean) / self._length)

    def _vectors(self, texts: Sequence[str]) -> Floats32:
        vectors: Floats32 = self._encode([normalise(text, keep_case=True) for text in texts])
        return vectors


def _fitted(texts: Sequence[str], encoder: Any) -> list[SpectrumFeatures | MeaningFeatures]:
    """Characters, words if the texts have words, and an encoder; none without a text that has features."""
    least = 2 if len(texts) >= MANY else 1
    forms = [SpectrumFeatures((1, 5), "log", idf=True, min_df=least, device="cpu")]
    if has_words(texts):
        forms.append(SpectrumFeatures((1, 2), "log", idf=True, tokens="words", min_df=least, device="cpu"))
    fitted: list[SpectrumFeatures | MeaningFeatures] = []
    for features in forms:
        try:
            fitted.append(features.fit(list(texts)))
        except InputError:  # texts without features, or of which no two share a feature
            continue
    return fitted if encoder is None else [*fitted, MeaningFeatures(encoder, texts)]


def digest(text: str) -> bytes:
    """Equal for texts that differ in case and white space only; a digit or an emoji may decide a label."""
    return blake2b(normalise(text).encode("utf-8", "surrogatepass"), digest_size=8).digest()


def marks(text: str) -> str:
    """Digits, punctuation and symbols of a text."""
    return "".join(symbol for symbol in text if category(symbol)[0] in "NPS")
