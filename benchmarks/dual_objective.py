"""The dual objective of machines with a Gaussian kernel, in float64, from vectors and coefficients alone.

    D = sum over machines of  sum_i |coef_i| - 1/2 coef' K coef

With Crammer and Singer's machine the first sum is of the coefficients of an example's own class. Of feasible
coefficients those with the larger D are nearer the optimum.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from textsvm import device as devices
from textsvm.device import Device

#: Support vectors compared with all others at a time.
BLOCK = 1024


def gaussian_objective(
    vectors: Any, coef: NDArray[np.float64], gamma: float, own: Any, device: Device
) -> float:
    """D, larger for better machines.

    Parameters
    ----------
    vectors : array or CSR matrix, shape (n_sv, d)
        The support vectors.
    coef : float64 array, shape (n_machines, n_sv)
    gamma : float
    own : int64 array, shape (n_sv,), or None
        The machine of each support vector's class, if these are Crammer and Singer's.
    device : Device
        Where the kernel values are computed.
    """
    dense = vectors.toarray() if issparse(vectors) else vectors
    linear = np.abs(coef).sum() if own is None else coef[own, np.arange(len(own))].sum()
    with devices.use(device):
        xp = devices.array_module(device)
        return float(linear) - _quadratic(xp, xp.asarray(dense, np.float64), xp.asarray(coef), gamma) / 2


def _quadratic(xp: Any, vectors: Any, coef: Any, gamma: float) -> float:
    """The sum over machines of coef' K coef."""
    norms, found = (vectors * vectors).sum(1), 0.0
    for start in range(0, len(vectors), BLOCK):
        some = slice(start, start + BLOCK)
        squares = norms[some, None] + norms - 2 * vectors[some] @ vectors.T
        values = xp.exp(-gamma * xp.maximum(squares, 0))
        found += float((coef[:, some] * (coef @ values.T)).sum())
    return found


def require_feasible(coef: NDArray[np.float64], C: float, own: Any = None) -> None:
    """Raise AssertionError unless coefficients are within their bounds and on their planes."""
    slack = 1e-7 * C
    if own is None:
        assert np.abs(coef).max(initial=0) <= C + slack
        assert np.abs(coef.sum(1)).max(initial=0) <= slack * coef.shape[1]
        return
    limit = np.where(np.arange(len(coef))[:, None] == own, C, 0)
    assert (coef <= limit + slack).all()
    assert np.abs(coef.sum(0)).max(initial=0) <= slack * len(coef)


def libsvm_coef(model: Any) -> NDArray[np.float64]:
    """Coefficients of a fitted `sklearn.svm.SVC`, one row a machine, shape (n_machines, n_sv).

    LIBSVM keeps k - 1 rows: an example of class a has its coefficient of the machine of a and b in row b - 1
    if a < b, and in row b if not.
    """
    packed = model.dual_coef_.toarray() if issparse(model.dual_coef_) else model.dual_coef_
    k = len(model.classes_)
    if k == 2:
        return np.asarray(packed, np.float64)
    ends = np.cumsum(model.n_support_)
    parts = [slice(end - count, end) for end, count in zip(ends, model.n_support_, strict=True)]
    coef = np.zeros((k * (k - 1) // 2, packed.shape[1]))
    for machine, (a, b) in enumerate(combinations(range(k), 2)):
        coef[machine, parts[a]] = packed[b - 1, parts[a]]
        coef[machine, parts[b]] = packed[a, parts[b]]
    return coef
