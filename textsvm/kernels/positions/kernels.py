"""Kernels that are sums over diagonals (diagonals.py): weighted degree with shifts, and oligo.

**Weighted degree kernel with shifts** (Rätsch, Sonnenburg, Schölkopf 2005, Bioinformatics 21).

    k(x, y) = sum_(k = 1..d) beta_k sum_(s = 0..S) delta_s sum_i [x[i+s : i+s+k] = y[i : i+k]] + [x[i : i+k] = y[i+s : i+s+k]]

    beta_k = 2 (d - k + 1) / (d (d + 1)),    delta_s = 1 / (2 (s + 1))

over all positions i where both k-mers lie within their texts, which are aligned at their starts and may have
different lengths. S = 0 is the weighted degree kernel (Rätsch and Sonnenburg 2004), which counts k-mers at the
same position. A single pass over matches gives all lengths k.

**Oligo kernel** (Meinicke, Tech, Morgenstern, Merkl 2004, BMC Bioinformatics 5): common k-mers, weighted by
the distance of their positions.

    k(x, y) = sum over k-mers u, positions p of u in x and q of u in y, of exp(-(p - q)^2 / (4 sigma^2))

(the constant factor sqrt(pi) sigma, which normalisation removes, is omitted). Positions count from the start
of a text. With sigma near 0 only k-mers at the same position match; with a large sigma positions do not
matter, as in the spectrum kernel. All pairs with p - q = s lie on a diagonal and have the same weight, so
delta_s = exp(-s^2 / (4 sigma^2)) and only k = d counts. Pairs more than 12 sigma apart are left out: their
terms are below exp(-36) = 2.3e-16, the rounding error of a match at the same position.
"""  # noqa: E501 (a formula)

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from textsvm.kernels.base import check_positive, check_whole
from textsvm.kernels.positions.diagonals import MOST, DiagonalKernel, Diagonals

#: Greatest shift: the time of a Gram is proportional to it.
MOST_SHIFT = 100_000
#: Multiple of sigma beyond which distances are left out.
REACH = 12


@dataclass(repr=False, eq=False)
class WeightedDegree(DiagonalKernel):
    """Common substrings of up to `degree` symbols at the same position, or at most `shift` from it.

    Texts are aligned at their starts, and nothing is compared behind the end of the shorter text.

    Parameters
    ----------
    degree : int
        Length of the longest substrings that count, 1 to 32; a substring of k symbols weighs
        2 (degree - k + 1) / (degree (degree + 1)).
    shift : int
        Greatest distance of positions, from 0; at distance s a pair weighs 1 / (2 (s + 1)) each way.
    normalised : bool
        Divide by sqrt(k(s, s) k(t, t)).
    tokens : {"characters", "words", "whitespace", "blosum62"} or callable
        Definition of a symbol; a function takes a normalised text and returns its tokens.
    keep_case : bool
        Distinguish upper and lower case.

    Examples
    --------
    >>> from textsvm import WeightedDegree
    >>> print(WeightedDegree(degree=3)(["gattaca"], ["gatcaca", "tttttttt"]).round(4))
    [[0.7368 0.1956]]
    """

    name: ClassVar[str] = "weighted-degree"

    degree: int = 8
    shift: int = 0
    normalised: bool = True

    @property
    def _min_length(self) -> int:
        return 1

    def check(self) -> None:
        super().check()
        check_whole(self, "degree", 1, MOST)
        check_whole(self, "shift", 0, MOST_SHIFT)

    def definition(self, longest: int) -> Diagonals:
        shifts = np.arange(min(int(self.shift), max(longest - 1, 0)) + 1)
        weights = np.where(shifts == 0, 1.0, 0.5 / (shifts + 1))
        return Diagonals(1, int(self.degree), weights * 2 / (self.degree * (self.degree + 1)))


@dataclass(repr=False, eq=False)
class Oligo(DiagonalKernel):
    """Common substrings of k symbols, each pair weighted by the distance of its positions.

    Positions are counted from the start of each text; a pair d positions apart weighs
    exp(-d^2 / (4 sigma^2)).

    Parameters
    ----------
    k : int
        Length of the substrings, 1 to 32.
    sigma : float
        Scale of the distance of positions, in symbols, above 0.
    normalised : bool
        Divide by sqrt(k(s, s) k(t, t)).
    tokens : {"characters", "words", "whitespace", "blosum62"} or callable
        Definition of a symbol; a function takes a normalised text and returns its tokens.
    keep_case : bool
        Distinguish upper and lower case.

    Examples
    --------
    >>> from textsvm import Oligo
    >>> print(Oligo(k=2, sigma=1.0)(["gattaca"], ["gattaca", "ggattaca"]).round(4))
    [[1.    0.721]]
    """

    name: ClassVar[str] = "oligo"

    k: int = 3
    sigma: float = 2.0
    normalised: bool = True

    @property
    def _min_length(self) -> int:
        return int(self.k)

    def check(self) -> None:
        super().check()
        check_whole(self, "k", 1, MOST)
        check_positive(self, "sigma")

    def definition(self, longest: int) -> Diagonals:
        distances = np.arange(min(math.floor(REACH * self.sigma), max(longest - 1, 0)) + 1)
        weights = np.exp(-((distances / (2 * self.sigma)) ** 2))
        return Diagonals(int(self.k), int(self.k), weights)
