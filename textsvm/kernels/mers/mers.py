"""Documents -> their l-mers, with weights by position, of one strand or of both.

The l-mers of both strands have d(u, v) = d(u', v') for reverse complements u', v', so the pairs of both
strands of two sequences are twice those of the one strand of the first and both of the second: an l-mer is
compared with both strands, and its own other strand is left out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.kernels.mers.gapped_kmers import LETTERS, strands
from textsvm.kernels.spectrum.pmers import share
from textsvm.kernels.spectrum.vocabulary import check_symbols
from textsvm.runtime.compiled import njit
from textsvm.text.documents import Documents

Array = NDArray[Any]


@dataclass(frozen=True)
class Mers:
    """The l-mers of some documents that count.

    Attributes
    ----------
    codes : int32 array
        Of the texts, and of what else they are read as.
    starts : int64 array, shape (number of l-mers,)
        Where in `codes` each begins.
    weights : uint8 array, shape (number of l-mers,)
        How often each counts, from 1.
    indptr : int64 array, shape (n + 1,)
        Document i has the l-mers ``indptr[i]`` to ``indptr[i + 1]``.
    n_symbols : int
        Codes are below.
    length : int
        l.
    """

    codes: NDArray[np.int32]
    starts: NDArray[np.int64]
    weights: NDArray[np.uint8]
    indptr: NDArray[np.int64]
    n_symbols: int
    length: int

    @property
    def numbers(self) -> NDArray[np.int64]:
        """l-mers of each document, shape (n,)."""
        return np.diff(self.indptr)

    def take(self, indices: NDArray[np.int64]) -> Mers:
        """The l-mers of some documents."""
        numbers = self.numbers[indices]
        indptr = np.concatenate([[0], np.cumsum(numbers)])
        places = np.arange(indptr[-1]) + np.repeat(self.indptr[:-1][indices] - indptr[:-1], numbers)
        return replace(self, starts=self.starts[places], weights=self.weights[places], indptr=indptr)

    def alike(self) -> Mers:
        """Every l-mer with the weight 1."""
        return replace(self, weights=np.ones_like(self.weights))

    def singly(self) -> Mers:
        """Each l-mer as a document of its own, of weight 1."""
        return replace(self.alike(), indptr=np.arange(len(self.starts) + 1))

    def keys(self, symbols: int) -> NDArray[np.int64]:
        """The number of each l-mer among all over so many symbols."""
        keys = np.zeros(len(self.starts), np.int64)
        for place in range(self.length):
            keys = keys * symbols + self.codes[self.starts + place]
        return keys

    def unknown(self, symbols: int) -> NDArray[np.bool_]:
        """Which documents have an l-mer with a symbol that is not among so many, shape (n,)."""
        if self.n_symbols <= symbols:
            return np.zeros(len(self.numbers), bool)
        new = np.concatenate([[0], np.cumsum(self.codes >= symbols)])
        of_mers = np.concatenate([[0], np.cumsum(new[self.starts + self.length] > new[self.starts])])
        found: NDArray[np.bool_] = np.diff(of_mers[self.indptr]) > 0
        return found


@dataclass(frozen=True)
class Centred:
    """Weights that fall from the middle of a sequence: min(M, floor(M exp(-ln 2 D / H) + 1)).

    D is the distance of an l-mer from the middle one.

    Attributes
    ----------
    peak : int
        M, up to 255.
    half_life : float
        H.
    """

    peak: int
    half_life: float

    def weights(self, most: int) -> NDArray[np.uint8]:
        """Of l-mers at a distance of 0 .. `most`."""
        away = np.arange(most + 1)
        found = np.floor(self.peak * np.exp(-log(2) * away / self.half_life) + 1)
        return np.minimum(found, self.peak).astype(np.uint8)


def mers_of(
    documents: Documents, length: int, both_strands: bool, centred: Centred | None = None
) -> tuple[Mers, Mers]:
    """The l-mers of documents as rows, and as columns: with both strands these have the other one too.

    With both strands an l-mer that has an n is left out.

    Raises
    ------
    InputError
        With both strands, if there are other symbols than acgtun.
    """
    check_symbols(len(documents.codes), 2 if both_strands else 1)
    codes = _both_strands(documents) if both_strands else documents.codes.astype(np.int32)
    unknown, n_symbols = (len(LETTERS) - 1,) * 2 if both_strands else (-1, len(documents.alphabet))
    offsets, n = np.array(documents.offsets), len(documents)
    longest = int(documents.lengths.max(initial=0))
    of_distance = np.ones(longest + 1, np.uint8) if centred is None else centred.weights(longest)
    numbers = np.zeros(n, np.int64)
    share(offsets, lambda i, j: _count(codes, offsets, i, j, length, unknown, numbers))
    indptr = np.concatenate([[0], np.cumsum(numbers)])
    each = 2 if both_strands else 1
    starts, weights = np.empty(each * indptr[-1], np.int64), np.empty(each * indptr[-1], np.uint8)
    own_starts, own_weights = np.empty(indptr[-1], np.int64), np.empty(indptr[-1], np.uint8)
    sizes = (length, unknown, of_distance, indptr, own_starts, own_weights)
    share(offsets, lambda i, j: _fill(codes, offsets, i, j, *sizes, starts, weights))
    rows = Mers(codes, own_starts, own_weights, indptr, n_symbols, length)
    return rows, Mers(codes, starts, weights, each * indptr, n_symbols, length) if both_strands else rows


def _both_strands(documents: Documents) -> NDArray[np.int32]:
    """`strands`, by all cores."""
    present = np.zeros(len(documents.alphabet), bool)
    present[documents.codes] = True
    letters = np.flatnonzero(present).astype(documents.codes.dtype)
    bounds = np.array([0, len(letters)], np.int64)
    table = np.zeros(len(present), np.int32)
    table[letters] = strands(Documents(letters, bounds, documents.alphabet))[: len(letters)]
    codes, own = np.empty(2 * len(documents.codes), np.int32), np.array(documents.codes)
    at = documents.offsets
    share(at, lambda i, j: _pair(own, table, int(at[i]), int(at[j]), codes))
    return codes


@njit(nogil=True, cache=True)
def _pair(codes: Array, table: Array, first: int, last: int, both: Array) -> None:
    for at in range(first, last):
        letter = table[codes[at]]
        both[at] = letter
        both[len(both) - 1 - at] = 3 - letter if letter < 4 else letter


@njit(nogil=True, cache=True)
def _count(
    codes: Array, offsets: Array, first: int, last: int, length: int, unknown: int, numbers: Array
) -> None:
    for i in range(first, last):
        known = 0
        for at in range(offsets[i], offsets[i + 1]):
            known = 0 if codes[at] == unknown else known + 1
            numbers[i] += known >= length


@njit(nogil=True, cache=True)
def _fill(
    codes: Array, offsets: Array, first: int, last: int, length: int, unknown: int, of_distance: Array,
    indptr: Array, starts: Array, weights: Array, both_starts: Array, both_weights: Array,
) -> None:  # fmt: skip
    # The other strand of all texts lies behind them, from its last symbol to its first.
    both = len(both_starts) > len(starts)
    for i in range(first, last):
        known, mer, number = 0, indptr[i], indptr[i + 1] - indptr[i]
        middle = offsets[i] + (offsets[i + 1] - offsets[i] - length + 1) // 2
        for at in range(offsets[i], offsets[i + 1]):
            known = 0 if codes[at] == unknown else known + 1
            if known >= length:
                start = at - length + 1
                starts[mer] = start
                weights[mer] = of_distance[abs(middle - start)]
                if both:
                    there = mer + indptr[i]
                    both_starts[there] = start
                    both_starts[there + number] = len(codes) - at - 1
                    both_weights[there] = both_weights[there + number] = weights[mer]
                mer += 1
