"""Weighted degree kernel with shifts (Rätsch, Sonnenburg, Schölkopf 2005, Bioinformatics 21).

    k(x, y) = sum_(k = 1..d) beta_k sum_(s = 0..S) delta_s sum_i [x[i+s : i+s+k] = y[i : i+k]] + [x[i : i+k] = y[i+s : i+s+k]]

    beta_k = 2 (d - k + 1) / (d (d + 1)),    delta_s = 1 / (2 (s + 1))

over all positions i where both k-mers lie within their texts, which are aligned at their starts and may have
different lengths. S = 0 is the weighted degree kernel (Rätsch and Sonnenburg 2004), which counts k-mers at the
same position. The kernel is a sum over diagonals (diagonals.py): one pass over matches gives all lengths k.
"""  # noqa: E501 (a formula)

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from textsvm.kernels.base import check_whole
from textsvm.kernels.positions.diagonals import MOST, DiagonalKernel, Diagonals

#: Greatest shift: the time of a Gram is proportional to it.
MOST_SHIFT = 100_000


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
