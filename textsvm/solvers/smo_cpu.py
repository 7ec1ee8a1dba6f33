"""The dual on the CPU: one chain of problems, in one thread, each from the solution of the one before.

The algorithm is that of `textsvm.solvers.smo`; its inner loop is `textsvm.solvers.smo_loop`.

Chains that run side by side (`textsvm.solvers.chains`) share the buffer of a dense Gram and nothing else. A
problem on some of the rows (a fold, two classes) reads their columns from a tile as a shortened active set
does, and takes as long as one on a Gram of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from textsvm.errors import InputError
from textsvm.gram.base import Gram
from textsvm.runtime.parallel import Progress, part
from textsvm.solvers import smo_loop as loop
from textsvm.solvers.dual import Dual
from textsvm.solvers.solution import (
    NO_STEP_LEFT,
    NOT_FINITE,
    Solution,
    Stopping,
    assess,
    bounds,
    log_progress,
    rounding,
)
from textsvm.solvers.warm_start import carried_over, warm_start
from textsvm.solvers.workingset import RELAXATION, RENEWALS, ROUNDING

Vector = NDArray[np.float64]

#: Bytes that a tile may take; all threads' together no more than the Gram's buffer, and one no more than 1/8.
TILE_BYTES = 64 << 20
#: Rows that are added at a time.
BLOCK = 64
#: Iterations between looks at shrinking, progress and stalling.
_STRETCH = 1000
#: The active set is shortened only to this fraction or less: each time costs its rows' copies anew.
_WORTHWHILE = 0.9


@dataclass(frozen=True)
class Common:
    """What the runs of all chains over a Gram have in common.

    Attributes
    ----------
    gram : Gram, n rows
    diag : float32 array, shape (n,)
        Of the Gram.
    stopping : Stopping
    tile_bytes : int
        Bytes that a tile may take.
    """

    gram: Gram
    diag: NDArray[np.float32]
    stopping: Stopping
    tile_bytes: int


@dataclass
class Tile:
    """Rows of variables, only the columns of the active ones, side by side.

    Attributes
    ----------
    values : float32 array, shape (t, k)
    slot : int64 array, shape (k,)
        Where the row of each variable is in `values`, -1 if it is not.
    owner : int64 array, shape (t,)
        Whose row is in each slot, -1 for nobody's.
    next : int
        The slot that is filled next.
    """

    values: NDArray[np.float32]
    slot: NDArray[np.int64]
    owner: NDArray[np.int64]
    next: int = 0

    @classmethod
    def empty(cls, height: int, width: int) -> Tile:
        """A tile of `height` slots for `width` variables."""
        values = np.empty((height, width), np.float32)
        return cls(values, np.full(width, -1, np.int64), np.full(height, -1, np.int64))


def solve_chain(common: Common, chain: Sequence[Dual], coef: Vector, progress: Progress) -> list[Solution]:
    """Solve a chain of problems over a Gram in host memory, starting from `coef`."""
    solutions: list[Solution] = []
    responses: Vector | None = None
    run: Run | None = None
    for j, dual in enumerate(chain):
        if j:
            coef, responses = warm_start(dual, chain[j - 1], solutions[-1])
        of_problem = part(progress, j, 1, len(chain))
        assert of_problem is not None
        run = Run(common, dual, coef, responses, of_problem, run)
        solutions.append(run.solve())
    return solutions


class Run:
    """One solve: all m variables, and the active ones in compact arrays.

    Parameters
    ----------
    common : Common
    dual : Dual, m variables
    coef : float64 array, shape (m,)
        sign * alpha to start from, feasible.
    responses : float64 array, shape (m,), or None
        Those of `coef`, if they are known.
    progress : callable
    former : Run, optional
        Over the same variables: its tile with rows of all of them is used again, and `responses` were
        worked out from its own.
    """

    def __init__(
        self, common: Common, dual: Dual, coef: Vector, responses: Vector | None, progress: Progress,
        former: Run | None = None,
    ) -> None:  # fmt: skip
        self.gram, self.stopping, self.tile_bytes = common.gram, common.stopping, common.tile_bytes
        self.window = self.gram.window()
        self.dual, self.progress = dual, progress
        self.tol = self.stopping.tol  # or a larger one before it
        self.shrinking = self.stopping.shrinking and len(dual) > 2
        self.index = np.ascontiguousarray(dual.index, np.int64)
        self.direct = len(dual) == self.gram.n and bool((self.index == np.arange(self.gram.n)).all())
        self.coef = coef.copy()
        self.low, self.high = bounds(dual)
        self.diag = common.diag[self.index]
        self.F = dual.sign * dual.linear + 0.0 if responses is None else responses.copy()
        #: (variables set aside, coefficients of all at that time)
        self.aside: list[tuple[NDArray[np.int64], Vector]] = []
        self.iterations = 0
        #: Steps added up in the responses, and how far these were off before.
        self.steps, self.inherited = 0, 0.0
        if former is not None and responses is not None:
            self.inherited = carried_over(former.rounding(), former.dual, former.coef, coef)
        #: The largest sum of coefficients, coefficient and kernel value that have been seen.
        self.size, self.most, self.largest = 0.0, 0.0, float(np.abs(self.diag).max(initial=0.0))
        self.state = np.array([-1, -1, int(self.window.used.max(initial=0)), 0], np.int64)
        self.extrema = np.zeros(3)
        self.tile = Tile.empty(0, 0)
        self.whole_tile: Tile | None = None if former is None else former.whole_tile
        if responses is None:
            self.add_rows(np.arange(len(dual)), np.zeros(len(dual)))
        self.activate(np.arange(len(dual)))
        self.worst = self.best = self.violation
        #: Iterations and objective decrease at the last look at stalling.
        self.mark = (0, 0.0)

    def solve(self) -> Solution:
        for tol in self.stopping.tolerances():
            self.tol = tol
            status = self.optimise(self.stopping.bound(len(self.dual)))
            solution = assess(self.dual, self.coef, self.F, self.iterations, status, tol)
            if self.stopping.satisfied(solution.duality_gap):
                solution = replace(solution, converged=True, status="converged")
                break
            if not solution.converged:
                break
        if solution.converged:
            self.progress(1.0, 1.0)
        return solution

    def optimise(self, bound: int) -> str:
        """Iterate until the violation is at most `tol`, or something else ends it: what."""
        status, reopened, renewals = "", False, 0
        while not status:
            why = self.stretch(min(_STRETCH, bound - self.iterations))
            if not np.isfinite(self.active_F).all():
                raise InputError(NOT_FINITE)
            self.report()
            self.measure()
            if why in (loop.OPTIMAL, loop.STALLED):
                if self.aside:
                    self.reopen()
                elif renewals < RENEWALS and self.rounding() > ROUNDING * self.tol:
                    renewals += 1
                    self.renew()
                    if self.violation <= self.tol:
                        status = "converged"
                else:
                    status = "converged" if why == loop.OPTIMAL else NO_STEP_LEFT
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
        # A run that stops short has mostly taken many steps, and says how far it has come.
        if self.rounding() > (ROUNDING * self.tol if status == "converged" else 0.0):
            self.renew()
            if status == "converged" and self.violation > self.tol:
                status = NO_STEP_LEFT
        return status

    @property
    def violation(self) -> float:
        return float(self.extrema[loop.FIRST] - self.extrema[loop.LAST])

    def stretch(self, budget: int) -> int:
        """Iterate; fetch rows that are missing on the way."""
        left = budget
        relaxation = 1.0 if self.iterations < 2 * len(self.dual) else RELAXATION
        while True:
            why, done = loop.iterate(
                left, self.tol, relaxation, self.window.values, self.window.slots, self.window.used,
                self.tile.values, self.tile.slot, self.tile.owner, self.rows, self.active_F, self.active_coef,
                self.active_low, self.active_high, self.up, self.down, self.active_diag, self.gains,
                self.state, self.extrema,
            )  # fmt: skip
            left -= done
            self.iterations += done
            self.steps += done
            if why != loop.MISSING:
                return int(why)
            self.fetch()
            self.report()

    def fetch(self) -> None:
        """Load the missing rows of the pair, and those of the worst violators: next, most likely."""
        pair = self.state[[loop.AT_I, loop.AT_J]]
        wanted = self.rows[pair[pair >= 0]]
        more = min(self.window.capacity // 2, getattr(self.gram, "ahead", BLOCK)) - len(wanted)
        if more > 0:
            first, last = self.extrema[loop.FIRST], self.extrema[loop.LAST]
            violation = np.maximum(self.up - self.active_F - last, self.down + self.active_F + first)
            violation[self.window.slots[self.rows] >= 0] = 0
            worst = np.argpartition(-violation, min(more, len(violation)) - 1)[:more]
            wanted = np.concatenate([wanted, self.rows[worst[violation[worst] > 0]]])
        self.load(wanted)

    def load(self, rows: NDArray[np.int64]) -> None:
        self.window.refill(rows)
        self.state[loop.CLOCK] = int(self.window.used.max())

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
        self.set_tile(0 if whole and self.direct else len(active))
        loop.find_first(self.active_F, self.up, self.down, self.gains, self.state, self.extrema)

    def set_tile(self, k: int) -> None:
        """A tile for k active variables; that of all variables stays, if all their rows fit."""
        self.tile.next = int(self.state[loop.NEXT])
        if self.whole_tile is not None and k == len(self.dual):
            self.tile = self.whole_tile
        else:
            self.tile = Tile.empty(max(2, min(k, self.tile_bytes // (4 * k))) if k else 0, k)
            if len(self.tile.values) == len(self.dual):
                self.whole_tile = self.tile
        self.state[loop.NEXT] = self.tile.next

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

    def measure(self) -> None:
        """Take note of how large coefficients and kernel values are; of a row, for the diagonal may be 0."""
        if not len(self.active_coef):
            return
        moved = np.abs(self.active_coef)
        self.size, self.most = max(self.size, float(moved.sum())), max(self.most, float(moved.max()))
        i = self.state[loop.AT_I]
        slot = self.window.slots[self.rows[i]] if i >= 0 else -1
        if slot >= 0:
            self.largest = max(self.largest, float(np.abs(self.window.values[slot][self.rows]).max()))

    def rounding(self) -> float:
        """About how far the responses may be from those of the coefficients."""
        size = max(self.size, float(np.abs(self.coef).sum()))
        return self.inherited + rounding(size, self.most, self.largest, self.steps)

    def renew(self) -> None:
        """Make the responses anew, from the coefficients alone."""
        self.write_back()
        self.F = self.dual.sign * self.dual.linear + 0.0
        self.steps, self.inherited = 0, 0.0
        self.add_rows(np.arange(len(self.dual)), np.zeros(len(self.dual)))
        self.activate(np.arange(len(self.dual)))

    def add_rows(self, variables: NDArray[np.int64], before: Vector) -> None:
        """F += K (coef - before) at these variables, some rows at a time."""
        change = np.bincount(self.index, self.coef - before, self.gram.n)
        changed = np.flatnonzero(change)
        F, columns = self.F[variables], self.index[variables]
        block = min(BLOCK, self.window.capacity)
        for start in range(0, len(changed), block):
            some = changed[start : start + block]
            self.load(some)
            loop.add_rows(F, columns, change[some], self.window.slots[some], self.window.values)
        self.F[variables] = F

    def stalled(self) -> bool:
        """The objective has not moved, in float64, for many iterations."""
        since, before = self.mark
        if self.iterations - since < max(20_000, 10 * len(self.dual)):
            return False
        decrease = float(self.extrema[loop.DECREASE])
        self.mark = (self.iterations, decrease)
        return decrease - before <= 1e-15 * abs(decrease)

    def report(self) -> None:
        self.best = min(self.best, self.violation)
        self.progress(*log_progress(self.worst, self.best, self.stopping.tol))
