"""Weights of p-mers learnt from training documents: by how many hold them, and of which classes these are.

idf: ln((1 + n) / (1 + df)) + 1, and ln(1 + n) + 1 for a p-mer that no training document holds.

odds: how much a p-mer u tells about the class: the root mean square, over the classes c, of its log-odds
ratio ln(P(c | u) / (1 - P(c | u))) - ln(P(c) / (1 - P(c))). P(c) is the share of class c in all pairs
of a document and a p-mer that it holds, and its weight in the mean; P(c | u) is its share among the documents
with u, and PSEUDO documents more of the usual shares. A p-mer of no training document tells nothing: 0. With
two classes this is the log-count ratio of Wang and Manning 2012 (NB-SVM) but for the prior; one weight for
all classes keeps it one kernel, with one Gram for all machines.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.errors import InputError
from textsvm.kernels.spectrum.pmers import count
from textsvm.kernels.spectrum.vocabulary import MAX_SYMBOLS, Vocabulary, plan
from textsvm.linalg.sparse import ALONE, Counts, count_features_of, spread
from textsvm.runtime.compiled import njit
from textsvm.runtime.parallel import n_threads
from textsvm.text.documents import Documents

Array = NDArray[Any]
#: Documents that are added to those of every p-mer, of the classes' usual shares.
PSEUDO = 4.0
#: Log-odds ratios up to this are rounding of 0, which normalisation would blow up.
ROUNDING = 1e-12


def is_weighted(kernel: Any) -> bool:
    """Whether a spectrum kernel has learnt weights."""
    return bool(kernel.idf or kernel.odds)


def check_fitted(kernel: Any) -> None:
    """Raise InputError if a spectrum kernel has no weights yet and needs them."""
    if is_weighted(kernel) and not hasattr(kernel, "weights_"):
        raise InputError("weights are learnt from training documents: call fit before anything else")


@dataclass(frozen=True)
class FeatureWeights:
    """What is known of the training documents' p-mers.

    Attributes
    ----------
    vocabulary : Vocabulary
    df : int64 array, shape (number of p-mers,)
    n : int
        Number of training documents.
    idf : bool
        Whether rare p-mers weigh more.
    odds : float64 array, shape (number of p-mers,), optional
        What each tells about the class.
    """

    vocabulary: Vocabulary
    df: NDArray[np.int64]
    n: int
    idf: bool = True
    odds: NDArray[np.float64] | None = None

    @classmethod
    def learn(
        cls, documents: Documents, p1: int, p2: int, idf: bool = True, odds: bool = False
    ) -> FeatureWeights:
        """From training documents, which know their classes if `odds` are wanted."""
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
    ) -> FeatureWeights:
        """From some of the documents that were counted; odds if `classes`, of all of them, are given."""
        size = int(vocabulary.first[-1])
        df = count_features_of(counts.indptr, counts.features, rows, size)
        odds = None if classes is None else log_odds(counts, rows, classes[rows], df)
        return cls(vocabulary, df, len(rows), idf, odds)

    @cached_property
    def table(self) -> NDArray[np.float64]:
        """The weight of every p-mer, and behind them that of one that no training document holds."""
        df = np.append(self.df, 0)
        table = np.log((1 + self.n) / (1 + df)) + 1 if self.idf else np.ones(len(df))
        return table if self.odds is None else table * np.append(self.odds, 0)

    def weights(self, vocabulary: Vocabulary) -> NDArray[np.float64]:
        """The weight of every p-mer of `vocabulary`."""
        return self.table[self.vocabulary.find(vocabulary)]  # -1, not known, reads the last

    def weights_each(self, vocabulary: Vocabulary) -> Iterator[NDArray[np.float64]]:
        """The same for one length after the other; `vocabulary` may get its keys meanwhile."""
        first = self.vocabulary.first
        for length, known in enumerate(self.vocabulary.find_each(vocabulary)):
            base = first[length] if length < len(first) else 0
            yield self.table[np.where(known >= 0, known + base, -1)]

    def state(self) -> dict[str, NDArray[Any]]:
        """Arrays that `from_state` reads."""
        state = {f"keys_{q}": keys for q, keys in self.vocabulary.keys.items()}
        learnt = {} if self.odds is None else {"odds": self.odds}
        return state | learnt | {"df": self.df, "sizes": np.array([self.n, self.vocabulary.n_symbols])}

    @classmethod
    def from_state(
        cls, state: dict[str, NDArray[Any]], p1: int, p2: int, idf: bool = True, odds: bool = False
    ) -> FeatureWeights:
        """Read and check what `state` gave; lengths that no document had may be there, without keys.

        Raises
        ------
        KeyError, ValueError
            If it is damaged.
        """
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
    """What each p-mer tells about the classes of these rows, by their document frequencies; see above."""
    odds, total = np.zeros(len(df)), max(int(df.sum()), 1)
    for c in range(int(classes.max(initial=-1)) + 1):
        held = count_features_of(counts.indptr, counts.features, rows[classes == c], len(df))
        part = int(held.sum()) / total
        if 0 < part < 1:
            size = max(ALONE, len(df) // (4 * n_threads()) + 1)
            spread(partial(_add_log_odds, part, held, df, odds, size), range(0, len(df), size))
    return np.sqrt(odds)


@njit(nogil=True, cache=True)
def _add_log_odds(share: float, held: Array, df: Array, odds: Array, size: int, first: int) -> None:
    """Add what one class, of this share, says of some p-mers."""
    usual = np.log(share / (1 - share))
    for u in range(first, min(first + size, len(df))):
        if df[u] > 0:
            inside = held[u] + PSEUDO * share
            outside = df[u] - held[u] + PSEUDO * (1 - share)
            ratio = np.log(inside / outside) - usual
            if abs(ratio) > ROUNDING:
                odds[u] += share * ratio * ratio


def read_vocabulary(state: dict[str, NDArray[Any]], p1: int, p2: int, n_symbols: int) -> Vocabulary:
    """Keys of each length, "keys_q", checked; ValueError if they are out of order or out of range."""
    keys: dict[int, NDArray[np.uint64]] = {}
    sizes, last = {1: n_symbols}, max(p1 - 1, 1)
    for q, a, b in plan(p1, p2):
        here = state.get(f"keys_{q}")
        if here is None or not len(here):
            break  # and no longer one either
        keys[q] = _checked(np.asarray(here), q, sizes[a] * sizes[b])
        sizes[q], last = len(keys[q]), max(last, q)
    return Vocabulary(p1, last, n_symbols, keys)


def _checked(keys: NDArray[Any], q: int, bound: int) -> NDArray[np.uint64]:
    if keys.dtype != np.uint64 or keys.ndim != 1:
        raise ValueError(f"keys_{q} is no list of keys")
    if not np.all(keys[1:] > keys[:-1]) or int(keys[-1]) >= bound:
        raise ValueError(f"keys_{q} is out of order or out of range")
    return keys
