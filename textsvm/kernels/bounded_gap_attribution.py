"""Which symbols a value of the gap-weighted kernel of bounded span comes from, exactly.

A value is phi(x) . w. An occurrence of u with gap g is decay^g w_u of it, spread evenly over its p symbols.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.compiled import njit
from textsvm.documents import Documents
from textsvm.features.subsequences import Patterns, Subsequences, ids_of

Array = NDArray[Any]


def symbol_contributions(
    document: Documents, patterns: Patterns, decay: float, own: Subsequences, weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Contributions of the symbols of one document to phi(x) . w, not normalised.

    Parameters
    ----------
    document : Documents, one of them
    patterns : Patterns
    decay : float
    own : Subsequences
        Of the document.
    weights : float64 array, shape (own.size,)
    """
    shares = np.zeros(len(document.codes))
    powers = float(decay) ** np.arange(patterns.n_gaps) / patterns.p
    _share(patterns.offsets, powers, ids_of(document, patterns, own), weights, shares)
    return shares


@njit(nogil=True, cache=True)
def _share(patterns: Array, powers: Array, ids: Array, weights: Array, shares: Array) -> None:
    at, p = 0, patterns.shape[1]
    for m in range(len(patterns)):
        power = powers[patterns[m, p - 1] + 1 - p]
        for i in range(len(shares) - patterns[m, p - 1]):
            for k in range(p):
                shares[i + patterns[m, k]] += power * weights[ids[at]]
            at += 1
