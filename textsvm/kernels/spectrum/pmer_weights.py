"""Weights of p-mers, learnt from training documents: inverse document frequency and class odds.

idf: ln((1 + n) / (1 + df)) + 1, and ln(1 + n) + 1 for a p-mer without a training document.

odds: the root mean square, over the classes c, of the log-odds ratio of the p-mer u,
ln(P(c | u) / (1 - P(c | u))) - ln(P(c) / (1 - P(c))). P(c) is the share of class c in all (document, distinct
p-mer) pairs, and the weight of c in the mean; P(c | u) is the share of c among the documents with u, plus
PSEUDO documents with shares P(c). A p-mer without a training document has weight 0. For two classes this is
the log-count ratio of Wang and Manning 2012 (NB-SVM) except for the prior; a common weight for all classes
keeps a single kernel, with a single Gram matrix for all machines.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.errors import InputError
from textsvm.kernels.spectrum.counting import count
from textsvm.kernels.spectrum.vocabulary import MAX_SYMBOLS, Vocabulary, plan
from textsvm.linalg.sparse import ALONE, Counts, count_features_of, spread
from textsvm.runtime.compiled import njit
from textsvm.runtime.parallel import n_threads
from textsvm.text.documents import Documents

Array = NDArray[Any]
#: Documents with the average class shares that are added to the documents of every p-mer.
PSEUDO = 4.0
#: Log-odds ratios up to this are rounding errors of 0, which normalisation would amplify.
ROUNDING = 1e-12


def is_weighted(kernel: Any) -> bool:
    """Whether a spectrum kernel has learnt weights."""
    return bool(kernel.idf or kernel.odds)


def check_fitted(kernel: Any) -> None:
    """Raise InputError if a spectrum kernel has no weights yet and needs them."""
    if is_weighted(kernel) and not hasattr(kernel, "weights_"):
        raise InputError("weights are learnt from training documents: call fit before anything else")


@dataclass(frozen=True)
class PmerWeights:
    """Document frequencies and class odds of the p-mers of the training documents."""

    vocabulary: Vocabulary
    df: NDArray[np.int64]  #: shape (number of p-mers,)
    n: int  #: Number of training documents
    idf: bool = True  #: Whether to weight by idf
    odds: NDArray[np.float64] | None = None  #: shape (number of p-mers,)

    @classmethod
    def learn(
        cls, documents: Documents, p1: int, p2: int, idf: bool = True, odds: bool = False
    ) -> PmerWeights:
        """Learn from training documents; odds need their classes."""
        vocabulary, counts = count(documents, p1, p2)
        return cls.of_counts(
            vocabulary, counts, np.arange(len(documents)), idf, documents.classes if odds else None
        )

    @classmethod
    def of_counts(
        cls,
        vocabulary: Vocabulary,
        counts: Counts,
        rows: NDArray[np.int64],
        idf: bool,
        classes: NDArray[np.int64] | None,
    ) -> PmerWeights:
        """Learn from some rows of `counts`; odds if the classes of all rows are given."""
        size = int(vocabulary.first[-1])
        df = count_features_of(counts.indptr, counts.features, rows, size)
        odds = None if classes is None else log_odds(counts, rows, classes[rows], df)
        return cls(vocabulary, df, len(rows), idf, odds)

    @cached_property
    def table(self) -> NDArray[np.float64]:
        """Weight of every p-mer; the last entry is the weight of unknown p-mers."""
        df = np.append(self.df, 0)
        table = np.log((1 + self.n) / (1 + df)) + 1 if self.idf else np.ones(len(df))
        return table if self.odds is None else table * np.append(self.odds, 0)

    def weights(self, vocabulary: Vocabulary) -> NDArray[np.float64]:
        """Weight of every p-mer of another vocabulary."""
        return self.table[self.vocabulary.find(vocabulary)]  # -1 (unknown) reads the last entry

    def weights_each(self, vocabulary: Vocabulary) -> Iterator[NDArray[np.float64]]:
        """Yield `weights` per length; `vocabulary` may get its keys during iteration."""
        first = self.vocabulary.first
        for length, known in enumerate(self.vocabulary.find_each(vocabulary)):
            base = first[length] if length < len(first) else 0
            yield self.table[np.where(known >= 0, known + base, -1)]

    def state(self) -> dict[str, NDArray[Any]]:
        """Arrays for `from_state`."""
        state = {f"keys_{q}": keys for q, keys in self.vocabulary.keys.items()}
        learnt = {} if self.odds is None else {"odds": self.odds}
        return state | learnt | {"df": self.df, "sizes": np.array([self.n, self.vocabulary.n_symbols])}

    @classmethod
    def from_state(
        cls, state: dict[str, NDArray[Any]], p1: int, p2: int, idf: bool = True, odds: bool = False
    ) -> PmerWeights:
        """Restore from checked arrays of `state`; KeyError or ValueError if they are damaged."""
        n, n_symbols = (int(x) for x in np.asarray(state["sizes"]).reshape(2))
        if n < 0 or not 0 <= n_symbols <= MAX_SYMBOLS:
            raise ValueError("sizes are out of range")
        df = np.asarray(state["df"])
        vocabulary = read_vocabulary(state, p1, p2, n_symbols)
        if df.shape != (vocabulary.first[-1],) or df.dtype.kind != "i":
            raise ValueError("df does not match the keys")
        if len(df) and not 0 <= df.min() <= df.max() <= n:
            raise ValueError("df is out of range")
        learnt = np.asarray(state["odds"]) if odds else None
        if learnt is not None and (learnt.shape != df.shape or learnt.dtype != np.float64):
            raise ValueError("odds do not match the keys")
        if learnt is not None and not (np.isfinite(learnt) & (learnt >= 0)).all():
            raise ValueError("odds are out of range")
        return cls(vocabulary, df.astype(np.int64), n, idf, learnt)


def log_odds(
    counts: Counts, rows: NDArray[np.int64], classes: NDArray[np.int64], df: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Class odds of each p-mer in `rows`, given their classes and document frequencies."""
    odds, total = np.zeros(len(df)), max(int(df.sum()), 1)
    for c in range(int(classes.max(initial=-1)) + 1):
        held = count_features_of(counts.indptr, counts.features, rows[classes == c], len(df))
        part = int(held.sum()) / total
        if 0 < part < 1:
            size = max(ALONE, len(df) // (4 * n_threads()) + 1)
            spread(partial(_add_log_odds, part, held, df, odds, size), range(0, len(df), size))
    return np.sqrt(odds)


@njit(nogil=True, cache=True)
def _add_log_odds(share, held, df, odds, size, first):
    """Add the squared log-odds of a class to a range of p-mers."""
    prior = np.log(share / (1 - share))
    for u in range(first, min(first + size, len(df))):
        if df[u] > 0:
            inside = held[u] + PSEUDO * share
            outside = df[u] - held[u] + PSEUDO * (1 - share)
            ratio = np.log(inside / outside) - prior
            if abs(ratio) > ROUNDING:
                odds[u] += share * ratio * ratio


def read_vocabulary(state: dict[str, NDArray[Any]], p1: int, p2: int, n_symbols: int) -> Vocabulary:
    """Vocabulary from the arrays "keys_q"; ValueError if they are not sorted or out of range."""
    keys: dict[int, NDArray[np.uint64]] = {}
    sizes, last = {1: n_symbols}, max(p1 - 1, 1)
    for q, a, b in plan(p1, p2):
        array = state.get(f"keys_{q}")
        if array is None or not len(array):
            break  # longer lengths are missing too
        keys[q] = _check_keys(np.asarray(array), q, sizes[a] * sizes[b])
        sizes[q], last = len(keys[q]), max(last, q)
    return Vocabulary(p1, last, n_symbols, keys)


def _check_keys(keys: NDArray[Any], q: int, bound: int) -> NDArray[np.uint64]:
    if keys.dtype != np.uint64 or keys.ndim != 1:
        raise ValueError(f"keys_{q} must be a uint64 vector")
    if not np.all(keys[1:] > keys[:-1]) or int(keys[-1]) >= bound:
        raise ValueError(f"keys_{q} is out of order or out of range")
    return keys
