"""Sequential minimal optimisation (Platt 1998) with second-order working sets (Fan, Chen, Lin 2005).

With coefficients b_i = sign_i a_i the dual of `textsvm.solvers.dual` loses its labels:

    minimise  1/2 b'Kb + q'b,   sum b = total,   low_i <= b_i <= high_i,     q_i = sign_i p_i

(m variables; K in float32, everything else in float64). The solver keeps the responses F = Kb + q, which
are the gradient. b_i can grow (UP) while b_i < high_i and shrink (DOWN) while b_i > low_i, and b is
stationary when

    m(b) = max over UP of -F  <=  min over DOWN of -F = M(b).

One iteration takes the i that attains m, the j in DOWN with the largest (F_j - F_i)^2 / eta,
eta = K_ii + K_jj - 2 K_ij (TAU where that is not positive), and moves b_i up and b_j down by
t = (F_j - F_i) / eta or to the nearest bound. Then F += t (K_i - K_j): two rows, one pass, which also
finds the next i. The stopping rule is LIBSVM's, m - M <= tol.

Over-relaxation (as Mangasarian and Musicant 1999 for sweeps over single variables). A run of more than 2 m
iterations is ill-conditioned: its pairs undo each other's steps. From there on a step is 1.6 t where the
bounds allow it. Measured on the edit kernel with gamma = 0.005, that halves or thirds the iterations; early
on, or on a well-conditioned Gram, it would add some.

Shrinking. A variable at a bound whose -F lies beyond what any partner offers (UP only, -F < M; DOWN only,
-F > m) is set aside when that shortens the active set enough. The columns of the active set are then read
from a tile: compact copies of the rows in use. What F lacks is made up for when the set is opened again,
from the rows of those variables alone whose coefficients have changed since.

On the CPU this is `textsvm.solvers.smo_cpu`, on a GPU, with larger working sets, `textsvm.solvers.smo_cuda`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from textsvm.errors import InputError
from textsvm.gram.base import Gram
from textsvm.parallel import Progress
from textsvm.solvers import smo_cpu
from textsvm.solvers.dual import Dual
from textsvm.solvers.solution import Solution, Stopping


def solve(
    gram: Gram,
    dual: Dual,
    tol: float = 1e-3,
    max_iter: int = -1,
    shrinking: bool = True,
    initial: NDArray[np.float64] | None = None,
    progress: Progress | None = None,
    duality_gap: float | None = None,
) -> Solution:
    """Solve a dual problem over a Gram, where the Gram lives.

    Parameters
    ----------
    gram : Gram, n rows
    dual : Dual, m variables
    tol : float
        Largest violation m(a) - M(a) to accept, > 0.
    max_iter : int
        Bound on the pairs optimised; -1 is max(10 million, 100 m).
    shrinking : bool
        Set variables aside that look settled (CPU).
    initial : float64 array, shape (m,), optional
        Variables to start from, feasible; zeros by default.
    progress : callable, optional
        Called every few hundredths of a second with (done, total), done growing from 0 to total on a
        logarithmic scale of the violation; may raise to stop.
    duality_gap : float, optional
        Stop as well once the relative duality gap is at most this (the rule of GTSVM; Cotter, Srebro and
        Keshet 2011), looked at each time the violation has fallen to a tenth.

    Returns
    -------
    Solution
        Also when the bound on iterations or the precision of float64 ended the work: see its `status`.

    Raises
    ------
    InputError
        If the dual does not fit the Gram, `initial` is infeasible or the Gram holds a value that is not
        a finite number.
    """
    stopping = Stopping(tol, max_iter, duality_gap)
    return _solve_chains(gram, [[dual]], [initial], stopping, shrinking, progress)[0][0]


def solve_many(
    gram: Gram,
    chains: Sequence[Sequence[Dual]],
    tol: float = 1e-3,
    max_iter: int = -1,
    initial: Sequence[NDArray[np.float64] | None] | None = None,
    progress: Progress | None = None,
    duality_gap: float | None = None,
) -> list[list[Solution]]:
    """Solve chains of dual problems over one Gram, side by side: on all cores, or in blocks of one GPU.

    Parameters
    ----------
    gram : Gram, n rows
    chains : sequence of sequences of Dual
        The problems of a chain have the same variables (sign, index) and differ in `upper` or `linear`; one
        starts from the solution of the one before (`textsvm.solvers.warm_start`), unless a GPU has room for
        all at once.
    tol, max_iter, duality_gap
        See `solve`; `max_iter` bounds each problem.
    initial : sequence of float64 arrays or None, one a chain, optional
        Where the first problem of each chain starts.
    progress : callable, optional
        Called with (done, total), the chains' shares of the work together; may raise to stop.

    Returns
    -------
    list of lists of Solution, in the shape of `chains`

    Raises
    ------
    InputError
        See `solve`.
    ValueError
        If the problems of a chain have different variables.
    """
    starts = [None] * len(chains) if initial is None else initial
    return _solve_chains(gram, chains, starts, Stopping(tol, max_iter, duality_gap), True, progress)


def _solve_chains(
    gram: Gram, chains: Sequence[Sequence[Dual]], initial: Sequence[NDArray[np.float64] | None],
    stopping: Stopping, shrinking: bool, progress: Progress | None,
) -> list[list[Solution]]:  # fmt: skip
    starts = [_start(gram, chain, stopping.tol, alpha) for chain, alpha in zip(chains, initial, strict=True)]
    if not chains:
        return []
    if gram.device.kind == "cpu":
        return smo_cpu.solve_many(gram, chains, starts, stopping, shrinking, progress)
    from textsvm.solvers import smo_cuda

    return smo_cuda.solve_many(gram, chains, starts, stopping, progress)


def _start(
    gram: Gram, chain: Sequence[Dual], tol: float, initial: NDArray[np.float64] | None
) -> NDArray[np.float64]:
    """Check what was given; the coefficients to start from."""
    if not tol > 0:
        raise InputError(f"tol={tol!r} must be a number above 0")
    dual = chain[0]
    for other in chain[1:]:
        if not (np.array_equal(dual.sign, other.sign) and np.array_equal(dual.index, other.index)):
            raise ValueError("the problems of a chain have different variables")
    if len(dual) == 0 or dual.index.min() < 0 or dual.index.max() >= gram.n:
        raise InputError(f"the {len(dual)} variables of the problem do not fit a Gram of {gram.n} rows")
    if initial is None:
        if dual.total != 0:
            raise InputError("a problem whose coefficients do not sum to 0 needs initial variables")
        return np.zeros(len(dual))
    alpha = np.asarray(initial, np.float64)
    if alpha.shape != dual.sign.shape or not ((alpha >= 0) & (alpha <= dual.upper)).all():
        raise InputError("the initial variables are not one a variable between 0 and its upper bound")
    if abs(dual.sign @ alpha - dual.total) > 1e-9 * max(1.0, float(alpha.sum())):
        raise InputError(f"the initial variables do not satisfy sign'a = {dual.total:g}")
    return dual.sign * alpha
