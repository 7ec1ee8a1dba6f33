"""Documents -> their l-mers, with weights by position, of one strand or of both.

The l-mers of both strands have d(u, v) = d(u', v') for reverse complements u', v', so the pairs of both
strands of two sequences are twice those of the one strand of the first and both of the second: an l-mer is
compared with both strands, and its own other strand is left out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log

import numpy as np
from numpy.typing import NDArray

from textsvm.documents import Documents
from textsvm.features.gapped import LETTERS, Windows, windows_of


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

    def only(self, kept: NDArray[np.bool_]) -> Mers:
        """Some of the l-mers."""
        indptr = np.concatenate([[0], np.cumsum(kept)])[self.indptr]
        return replace(self, starts=self.starts[kept], weights=self.weights[kept], indptr=indptr)

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

    def weights(self, places: NDArray[np.int64], numbers: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Of the l-mers at `places` of sequences of so many l-mers."""
        away = np.abs(numbers // 2 - places)
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
    windows = windows_of(documents, length, both_strands)
    numbers = np.diff(windows.indptr)
    places = np.arange(len(windows.starts)) - np.repeat(windows.indptr[:-1], numbers)
    each = numbers // 2 if both_strands else numbers
    of_window = np.repeat(each, numbers)
    reverse = places >= of_window
    places = np.where(reverse, 2 * of_window - 1 - places, places)
    weights = np.ones(len(places), np.uint8) if centred is None else centred.weights(places, of_window)
    columns = Mers(windows.codes, windows.starts, weights, windows.indptr, windows.n_symbols, length)
    if not both_strands:
        return columns, columns
    known = _known(windows, length)
    columns, reverse = replace(columns.only(known), n_symbols=len(LETTERS) - 1), reverse[known]
    return columns.only(~reverse), columns


def _known(windows: Windows, length: int) -> NDArray[np.bool_]:
    """Which windows have no n."""
    unknown = np.concatenate([[0], np.cumsum(windows.codes == len(LETTERS) - 1)])
    return unknown[windows.starts + length] == unknown[windows.starts]
