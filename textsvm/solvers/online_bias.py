"""The bias at an optimum of the C-SVM's dual, from its gradient F = Kb - y."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def thresholds(F: Array, coef: Array, low: Array, high: Array) -> tuple[float, float]:
    """max over UP of -F and min over DOWN of -F."""
    first = np.max(np.where(coef < high, -F, -np.inf), initial=-np.inf)
    last = np.min(np.where(coef > low, -F, np.inf), initial=np.inf)
    return float(first), float(last)


def free_bias_of(F: Array, coef: Array, low: Array, high: Array) -> float:
    """The bias, as `textsvm.solvers.solution.assess` takes it."""
    free = (coef > low) & (coef < high) & (coef != 0)
    if free.any():
        return float(np.mean(-F[free]))
    first, last = thresholds(F, coef, low, high)
    if np.isfinite(first) and np.isfinite(last):
        return (first + last) / 2
    return first if np.isfinite(first) else last if np.isfinite(last) else 0.0
