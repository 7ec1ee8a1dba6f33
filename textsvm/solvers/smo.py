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
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from textsvm.errors import InputError
from textsvm.gram.base import Gram
from textsvm.parallel import Progress
from textsvm.solvers import smo_loop as loop
from textsvm.solvers.dual import Dual
from textsvm.solvers.solution import Solution, assess, bounds

#: Steps of long runs, in units of the pair's own best one; 0 to 2 decrease the objective.
RELAXATION = 1.6
#: Bytes that compact rows of the active set may take (never more than an eighth of the Gram's buffer).
TILE_BYTES = 64 << 20
#: Rows computed at a time where they come on demand: kernels are much faster on many.
AHEAD = 64
#: Iterations between looks at shrinking, progress and stalling.
_STRETCH = 1000
#: The active set is shortened only to this fraction or less: each time costs its rows' copies anew.
_WORTHWHILE = 0.9


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
        Set variables aside that look settled.
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
    coef = _start(gram, dual, tol, initial)
    bound = max_iter if max_iter >= 0 else max(10_000_000, 100 * len(dual))
    if duality_gap is not None:
        return _until_gap(gram, dual, tol, bound, shrinking, initial, progress, duality_gap)
    if not isinstance(gram.buffer, np.ndarray):
        from textsvm.solvers import smo_cuda

        return smo_cuda.solve(gram, dual, coef, tol, bound, progress)
    return _Run(gram, dual, coef, tol, shrinking, progress).solve(bound)


def solve_many(
    gram: Gram,
    chains: Sequence[Sequence[Dual]],
    tol: float = 1e-3,
    max_iter: int = -1,
    initial: Sequence[NDArray[np.float64] | None] | None = None,
    progress: Progress | None = None,
    duality_gap: float | None = None,
) -> list[list[Solution]]:
    """Solve chains of dual problems over one Gram, side by side.

    Parameters
    ----------
    gram : Gram, n rows
    chains : sequence of sequences of Dual
        The problems of a chain have the same variables (sign, index) and differ in `upper` or `linear`; each
        starts from the solution of the one before.
    tol, max_iter, duality_gap
        See `solve`; `max_iter` bounds each problem.
    initial : sequence of float64 arrays or None, one a chain, optional
        Where the first problem of each chain starts.
    progress : callable, optional

    Returns
    -------
    list of lists of Solution, in the shape of `chains`
    """
    starts = [None] * len(chains) if initial is None else initial
    return [
        [solve(gram, dual, tol, max_iter, initial=start, duality_gap=duality_gap) for dual in chain]
        for chain, start in zip(chains, starts, strict=True)
    ]


def _until_gap(
    gram: Gram, dual: Dual, tol: float, bound: int, shrinking: bool,
    initial: NDArray[np.float64] | None, progress: Progress | None, duality_gap: float,
) -> Solution:  # fmt: skip
    """Solve to tolerances of 1, 0.1, ... and at last `tol`, until the gap is small enough."""
    iterations = 0
    for looser in [*(10.0**-k for k in range(16) if 10.0**-k > tol), tol]:
        solution = solve(gram, dual, looser, bound - iterations, shrinking, initial, progress)
        iterations += solution.iterations
        solution = replace(solution, iterations=iterations)
        if solution.duality_gap <= duality_gap:
            return replace(solution, converged=True, status="converged")
        if not solution.converged:
            break
        initial = solution.alpha
    return solution


def _start(gram: Gram, dual: Dual, tol: float, initial: NDArray[np.float64] | None) -> NDArray[np.float64]:
    """Check what was given; the coefficients to start from."""
    if not tol > 0:
        raise InputError(f"tol={tol!r} must be a number above 0")
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


def log_progress(first: float, now: float, tol: float) -> tuple[float, float]:
    """Work done and work in all, from the violation at the start, now, and to be reached."""
    total = max(math.log(max(first, tol) / tol), 1e-9)
    return min(max(total - math.log(max(now, tol) / tol), 0.0), total), total


class _Run:
    """One solve on the CPU: all m variables, and the active ones in compact arrays."""

    def __init__(
        self, gram: Gram, dual: Dual, coef: NDArray[np.float64], tol: float,
        shrinking: bool, progress: Progress | None,
    ) -> None:  # fmt: skip
        self.gram, self.dual, self.tol, self.progress = gram, dual, tol, progress
        self.shrinking = shrinking and len(dual) > 2
        self.index = np.ascontiguousarray(dual.index, np.int64)
        self.direct = len(dual) == gram.n and bool((self.index == np.arange(gram.n)).all())
        self.coef = coef.copy()
        self.low, self.high = bounds(dual)
        self.diag = np.ascontiguousarray(gram.diag()[self.index], np.float32)
        if not np.isfinite(self.diag).all():
            raise InputError("the kernel matrix holds a value that is not a finite number")
        self.F = dual.sign * dual.linear + 0.0
        #: (variables set aside, coefficients of all at that time)
        self.aside: list[tuple[NDArray[np.int64], NDArray[np.float64]]] = []
        self.iterations = 0
        self.state = np.array([-1, -1, int(gram.used.max(initial=0)), 0], np.int64)
        self.extrema = np.zeros(3)
        self.add_rows(np.arange(len(dual)), np.zeros(len(dual)))
        self.activate(np.arange(len(dual)))
        self.worst = self.best = self.violation
        #: Iterations and objective decrease at the last look at stalling.
        self.mark = (0, 0.0)

    def solve(self, bound: int) -> Solution:
        status, reopened = "", False
        while not status:
            why = self.stretch(min(_STRETCH, bound - self.iterations))
            if not np.isfinite(self.active_F).all():
                raise InputError("the kernel matrix holds a value that is not a finite number")
            self.report()
            if why in (loop.OPTIMAL, loop.STALLED):
                if self.aside:
                    self.reopen()
                else:
                    status = "converged" if why == loop.OPTIMAL else "stalled: no step is left in float64"
            elif self.iterations >= bound:
                status = f"stopped at {bound:,} iterations"
            elif self.stalled():
                status = "stalled: the objective no longer decreases"
            elif self.shrinking:
                if not reopened and self.violation <= 10 * self.tol:
                    reopened = True
                    self.reopen()
                self.shrink()
        self.reopen()
        solution = assess(self.dual, self.coef, self.F, self.iterations, status, self.tol)
        if self.progress is not None and solution.converged:
            self.progress(*log_progress(self.worst, self.tol, self.tol))
        return solution

    @property
    def violation(self) -> float:
        return float(self.extrema[loop.FIRST] - self.extrema[loop.LAST])

    def stretch(self, budget: int) -> int:
        """Iterate; fetch rows that are missing on the way."""
        left = budget
        relaxation = 1.0 if self.iterations < 2 * len(self.dual) else RELAXATION
        while True:
            why, done = loop.iterate(
                left, self.tol, relaxation, self.gram.buffer, self.gram.slots, self.gram.used,
                self.tile, self.tile_slot, self.tile_owner, self.rows, self.active_F, self.active_coef,
                self.active_low, self.active_high, self.up, self.down, self.active_diag, self.gains,
                self.state, self.extrema,
            )  # fmt: skip
            left -= done
            self.iterations += done
            if why != loop.MISSING:
                return int(why)
            self.fetch()
            self.report()

    def fetch(self) -> None:
        """Load the missing rows of the pair, and those of the worst violators: next, most likely."""
        pair = self.state[[loop.AT_I, loop.AT_J]]
        wanted = self.rows[pair[pair >= 0]]
        more = min(self.gram.buffer.shape[0] // 2, AHEAD) - len(wanted)
        if more > 0:
            first, last = self.extrema[loop.FIRST], self.extrema[loop.LAST]
            violation = np.maximum(self.up - self.active_F - last, self.down + self.active_F + first)
            violation[self.gram.slots[self.rows] >= 0] = 0
            worst = np.argpartition(-violation, min(more, len(violation)) - 1)[:more]
            wanted = np.concatenate([wanted, self.rows[worst[violation[worst] > 0]]])
        self.gram.load(wanted)
        self.state[loop.CLOCK] = int(self.gram.used.max())

    def activate(self, active: NDArray[np.int64]) -> None:
        """Make compact arrays of the active variables, and find the first i."""
        self.active = active
        whole = len(active) == len(self.dual)
        self.rows = self.index[active]
        self.active_F, self.active_coef = self.F[active], self.coef[active]
        self.active_low, self.active_high = self.low[active], self.high[active]
        self.active_diag = self.diag[active]
        self.up = np.where(self.active_coef < self.active_high, 0.0, -np.inf)
        self.down = np.where(self.active_coef > self.active_low, 0.0, -np.inf)
        self.gains = np.zeros(len(active), np.float32)
        room = min(TILE_BYTES, self.gram.buffer.nbytes // 8) // (4 * len(active))
        height = 0 if whole and self.direct else max(2, min(len(active), room))
        self.tile = np.empty((height, len(active)), np.float32)
        self.tile_slot = np.full(len(active), -1, np.int64)
        self.tile_owner = np.full(height, -1, np.int64)
        self.state[loop.NEXT] = 0
        loop.find_first(self.active_F, self.up, self.down, self.gains, self.state, self.extrema)

    def write_back(self) -> None:
        self.F[self.active] = self.active_F
        self.coef[self.active] = self.active_coef

    def shrink(self) -> None:
        """Set variables aside that no partner can move, if they are many."""
        first, last = self.extrema[loop.FIRST], self.extrema[loop.LAST]
        up, down = self.up == 0, self.down == 0
        settled = (~down & (-self.active_F < last)) | (~up & (-self.active_F > first)) | ~(up | down)
        if len(settled) - settled.sum() > _WORTHWHILE * len(settled):
            return
        self.write_back()
        self.aside.append((self.active[settled], self.coef.copy()))
        self.activate(self.active[~settled])

    def reopen(self) -> None:
        """Make the responses of all variables right, and all of them active."""
        self.write_back()
        aside, self.aside = self.aside, []
        for variables, before in aside:
            self.add_rows(variables, before)
        if aside:
            self.activate(np.arange(len(self.dual)))

    def add_rows(self, variables: NDArray[np.int64], before: NDArray[np.float64]) -> None:
        """F += K (coef - before) at these variables, a block of rows at a time."""
        change = np.bincount(self.index, self.coef - before, self.gram.n)
        changed = np.flatnonzero(change)
        columns = self.index[variables]
        for start in range(0, len(changed), 16):
            some = changed[start : start + 16]
            self.F[variables] += change[some] @ self.gram.rows(some)[:, columns]

    def stalled(self) -> bool:
        """The objective has not moved, in float64, for many iterations."""
        since, before = self.mark
        if self.iterations - since < max(20_000, 10 * len(self.dual)):
            return False
        decrease = float(self.extrema[loop.DECREASE])
        self.mark = (self.iterations, decrease)
        return decrease - before <= 1e-15 * abs(decrease)

    def report(self) -> None:
        if self.progress is not None:
            self.best = min(self.best, self.violation)
            self.progress(*log_progress(self.worst, self.best, self.tol))
