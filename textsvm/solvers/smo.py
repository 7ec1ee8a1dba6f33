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

Rounding. Steps add up in F, in float64, to an error of about eps sum |b| max |K| sqrt(steps), or eps max |b|
max |K| steps where rounding of b is the same each time. Where that is more than 0.01 tol, and wherever a run
stops short of tol, F is made anew from b, and judged then; where it is not at the optimum after all the run
goes on. A warm start multiplies F, and what F is off by.

On the CPU this is `textsvm.solvers.smo_cpu`, on a GPU, with larger working sets, `textsvm.solvers.smo_cuda`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from textsvm.gram.base import Gram
from textsvm.runtime.parallel import Progress
from textsvm.solvers.chains import solve_chains
from textsvm.solvers.dual import Dual
from textsvm.solvers.solution import Solution, Stopping


def solve(
    gram: Gram,
    dual: Dual,
    tol: float = 1e-3,
    max_iter: int = -1,
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
    return solve_chains(gram, [[dual]], stopping, [initial], progress)[0][0]


def solve_many(
    gram: Gram,
    chains: Sequence[Sequence[Dual]],
    tol: float = 1e-3,
    max_iter: int = -1,
    initial: Sequence[NDArray[np.float64] | None] | None = None,
    progress: Progress | None = None,
    duality_gap: float | None = None,
) -> list[list[Solution]]:
    """Solve chains of dual problems over one Gram, side by side; see `textsvm.solvers.chains`.

    Parameters
    ----------
    gram : Gram, n rows
    chains : sequence of sequences of Dual
    tol, max_iter, duality_gap
        See `solve`; they count for each problem.
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
    return solve_chains(gram, chains, Stopping(tol, max_iter, duality_gap), initial, progress)
