"""Weights of p-mers by how many training documents hold them: ln((1 + n) / (1 + df)) + 1."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.documents import Documents
from textsvm.features.pmers import count
from textsvm.features.vocabulary import MAX_SYMBOLS, Vocabulary, plan


@dataclass(frozen=True)
class Idf:
    """Document frequencies of the training documents' p-mers.

    Attributes
    ----------
    vocabulary : Vocabulary
    df : int64 array, shape (number of p-mers,)
    n : int
        Number of training documents.
    """

    vocabulary: Vocabulary
    df: NDArray[np.int64]
    n: int

    @classmethod
    def learn(cls, documents: Documents, p1: int, p2: int) -> Idf:
        """From training documents."""
        vocabulary, counts = count(documents, p1, p2)
        return cls(vocabulary, np.bincount(counts.features, minlength=vocabulary.first[-1]), len(documents))

    @cached_property
    def table(self) -> NDArray[np.float64]:
        """The weight of every p-mer, and behind them that of one that no training document holds."""
        return np.log((1 + self.n) / (1 + np.append(self.df, 0))) + 1

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
        return state | {"df": self.df, "sizes": np.array([self.n, self.vocabulary.n_symbols])}

    @classmethod
    def from_state(cls, state: dict[str, NDArray[Any]], p1: int, p2: int) -> Idf:
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
        vocabulary = _read_vocabulary(state, p1, p2, n_symbols)
        if df.shape != (vocabulary.first[-1],) or df.dtype.kind != "i":
            raise ValueError("df does not match the keys")
        if len(df) and not 0 <= df.min() <= df.max() <= n:
            raise ValueError("df is out of range")
        return cls(vocabulary, df.astype(np.int64), n)


def _read_vocabulary(state: dict[str, NDArray[Any]], p1: int, p2: int, n_symbols: int) -> Vocabulary:
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
