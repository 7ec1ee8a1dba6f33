"""A learning problem -> the one dual form that the solver knows.

    minimise   1/2 a'Qa + p'a,   Q_ij = sign_i sign_j K(index_i, index_j)
    subject to sign'a = total,   0 <= a_i <= upper_i

for m variables over the n rows of a Gram. C-SVC has m = n, p = -1 and total = 0. Regression doubles
the variables (index = i mod n, p = epsilon -/+ y), one-class has total = nu n: other data, same solver.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from textsvm.errors import InputError


@dataclass(frozen=True)
class Dual:
    """One dual problem.

    Attributes
    ----------
    sign : float64 array, shape (m,)
        +1 or -1.
    linear : float64 array, shape (m,)
        p, the linear term.
    upper : float64 array, shape (m,)
        Upper bounds of the variables; a variable whose bound is 0 stays 0.
    index : int64 array, shape (m,)
        Row of the Gram that each variable stands for.
    total : float
        Value of the equality constraint sign'a.
    """

    sign: NDArray[np.float64]
    linear: NDArray[np.float64]
    upper: NDArray[np.float64]
    index: NDArray[np.int64]
    total: float = 0.0

    def __len__(self) -> int:
        return len(self.sign)


def svc(
    y: NDArray[np.floating] | NDArray[np.integer],
    C: float,
    sample_weight: NDArray[np.floating] | None = None,
) -> Dual:
    """The dual of the soft-margin classifier with an unregularised bias (Cortes and Vapnik 1995).

    Parameters
    ----------
    y : array of +1 and -1, shape (n,)
        Both values occur.
    C : float
        Penalty of margin violations, > 0.
    sample_weight : array, shape (n,), optional
        Factors of C, >= 0; class weights come in here too.

    Raises
    ------
    InputError
        If `y` holds other values or only one of them, or C or a weight is out of range.
    """
    signs: NDArray[np.float64] = np.asarray(y, np.float64)
    if signs.ndim != 1 or not np.isin(signs, (-1.0, 1.0)).all():
        raise InputError("the solver takes a vector of labels +1 and -1")
    if not ((signs > 0).any() and (signs < 0).any()):
        raise InputError(f"all {len(signs)} labels are the same; a classifier needs two classes")
    if not 0 < C < np.inf:
        raise InputError(f"C={C!r} must be a finite number above 0")
    weight = np.ones(len(signs)) if sample_weight is None else np.asarray(sample_weight, np.float64)
    if weight.shape != signs.shape:
        raise InputError(f"there are {len(signs)} labels and sample weights of shape {weight.shape}")
    if not (np.isfinite(weight) & (weight >= 0)).all():
        raise InputError("sample weights must be finite numbers of at least 0")
    return Dual(signs, np.full(len(signs), -1.0), C * weight, np.arange(len(signs)))
