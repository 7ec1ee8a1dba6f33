"""Crammer and Singer's multiclass machine (2001), in the form of the GTSVM paper: no bias."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from textsvm.gram.base import Gram
from textsvm.parallel import Progress


@dataclass(frozen=True)
class Solution:
    """A solved problem, with an honest account of how well.

    Attributes
    ----------
    coef : float64 array, shape (n_classes, m)
        Value of class k at x: sum_i coef[k, i] K(index_i, x). Columns sum to 0.
    objective : float
        The dual objective, which the solver minimises.
    duality_gap : float
        Relative: 2 (P - D) / (P + D).
    violation : float
    iterations : int
    converged : bool
    status : str
    support : int64 array
        Examples with a coefficient that is not 0.
    """

    coef: NDArray[np.float64]
    objective: float
    duality_gap: float
    violation: float
    iterations: int
    converged: bool
    status: str
    support: NDArray[np.int64]


def solve(
    gram: Gram,
    target: NDArray[np.integer],
    n_classes: int,
    C: float,
    sample_weight: ArrayLike | None = None,
    index: NDArray[np.int64] | None = None,
    tol: float = 1e-3,
    max_iter: int = -1,
    duality_gap: float | None = None,
    initial: NDArray[np.float64] | None = None,
    progress: Progress | None = None,
) -> Solution:
    """Being written."""
    raise NotImplementedError
