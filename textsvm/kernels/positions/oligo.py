"""Oligo kernel: common k-mers, weighted by the distance of their positions.

Meinicke, Tech, Morgenstern, Merkl 2004, BMC Bioinformatics 5:

    k(x, y) = sum over k-mers u, positions p of u in x and q of u in y, of exp(-(p - q)^2 / (4 sigma^2))

(the constant factor sqrt(pi) sigma, which normalisation removes, is omitted). Positions count from the start
of a text. With sigma near 0 only k-mers at the same position match; with a large sigma positions do not
matter, as in the spectrum kernel.

All pairs with p - q = s lie on a diagonal and have the same weight: the kernel is a sum over diagonals
(diagonals.py) for k = d only, with delta_s = exp(-s^2 / (4 sigma^2)). Pairs more than 12 sigma apart are left
out: their terms are below exp(-36) = 2.3e-16, the rounding error of a match at the same position.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from textsvm.kernels.base import check_positive, check_whole
from textsvm.kernels.positions.diagonals import MOST, DiagonalKernel, Diagonals

#: Distances beyond this many sigma are left out.
REACH = 12


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
