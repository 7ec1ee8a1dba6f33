"""Which symbols a value of the gap-weighted kernel comes from, exactly.

k(s, t) is a sum over pairs of occurrences of a subsequence, and a pair of q symbols is spread evenly over its
q symbols in s. With F_r(i, j) the sum over the pairs of r symbols that end at (i, j), B_l(i, j) that over
those of l symbols that begin there (both without the factors decay^2 of a symbol, as in gap_recurrence.py),
and c_q the weight of length q, symbol i of s gets

    sum_j M(i, j) sum_(r, l >= 1) F_r(i, j) B_l(i, j) c_(r+l-1) / (r+l-1)

from one pass forwards and one backwards. The sum over i is k(s, t).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.kernels.attribution import Attribution
from textsvm.kernels.gap.recurrence import Recurrence
from textsvm.runtime.compiled import njit
from textsvm.runtime.parallel import Progress, run
from textsvm.text.documents import Documents

SUBSEQUENCES = Attribution(
    "subsequences",
    "exact: each common subsequence's contribution, spread evenly over its symbols",
    exact=True,
)


def symbol_contributions(
    recurrence: Recurrence,
    support: Documents,
    document: NDArray[np.unsignedinteger],
    terms: NDArray[np.float64],
    progress: Progress | None = None,
) -> NDArray[np.float64]:
    """Contributions of the symbols of one document.

    Parameters
    ----------
    recurrence : Recurrence
    support : Documents
        The support vectors.
    document : array of codes, shape (length,)
        Over an extension of their alphabet.
    terms : float64 array, shape (n_sv,)
        coef_i k(t_i, document); its sum is shared out.
    progress : callable, optional
    """
    weights = recurrence.level_weights[::-1] / np.arange(1, recurrence.p + 1)
    source = document.astype(np.int32)
    chosen = np.flatnonzero(terms)
    pieces = [chosen[i : i + 16] for i in range(0, len(chosen), 16)]
    sums = np.zeros((len(pieces), len(source)))

    def share(piece: int) -> None:
        mass = np.empty(len(source))
        for i in pieces[piece]:
            other = support.codes[support.offsets[i] : support.offsets[i + 1]].astype(np.int32)
            _share_of_symbols(source, other, weights, float(recurrence.decay), mass)
            total = mass.sum()
            if total > 0:
                sums[piece] += terms[i] / total * mass

    work = [float(support.lengths[piece].sum()) for piece in pieces]
    run(share, range(len(pieces)), work, progress)
    return sums.sum(0)


@njit(nogil=True, cache=True)
def _share_of_symbols(s: Any, t: Any, weights: Any, decay: float, mass: Any) -> None:
    """mass[i]: what of k(s, t) falls to symbol i of s. weights[q - 1] = c_q / q."""
    n, m, p = len(s), len(t), len(weights)
    cells = 0
    for i in range(n):
        for j in range(m):
            cells += s[i] == t[j]
    ahead = np.empty((cells, p))  # F of the cells with equal symbols, row by row
    state = np.zeros((m + 1, p))  # S_q of the row before, at the column before: index j + 1
    run_sums = np.empty(p)
    old = np.empty(p)
    at = 0
    for i in range(n):
        run_sums[:] = 0.0
        old[:] = state[0]
        for j in range(m):
            equal = s[i] == t[j]
            for q in range(p - 1, -1, -1):
                value = 0.0
                if equal:
                    value = 1.0 if q == 0 else old[q - 1]
                    ahead[at, q] = value
                run_sums[q] = decay * run_sums[q] + value
            for q in range(p):
                old[q] = state[j + 1, q]
                state[j + 1, q] = decay * old[q] + run_sums[q]
            at += equal
    state[:] = 0.0
    for i in range(n - 1, -1, -1):
        run_sums[:] = 0.0
        old[:] = state[m]
        mass[i] = 0.0
        for j in range(m - 1, -1, -1):
            equal = s[i] == t[j]
            at -= equal
            for q in range(p - 1, -1, -1):
                value = 0.0
                if equal:
                    value = 1.0 if q == 0 else old[q - 1]
                    for r in range(p - q):
                        mass[i] += ahead[at, r] * value * weights[r + q]
                run_sums[q] = decay * run_sums[q] + value
            for q in range(p):
                old[q] = state[j, q]
                state[j, q] = decay * old[q] + run_sums[q]
