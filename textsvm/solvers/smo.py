"""Sequential minimal optimisation (Platt 1998), second-order working sets (Fan, Chen, Lin 2005), on the CPU.

With coefficients b_i = sign_i a_i the dual of `textsvm.solvers.dual` loses its labels:

    minimise  1/2 b'Kb + q'b,   sum b = total,   low_i <= b_i <= high_i,     q_i = sign_i p_i

(m variables; K in float32, everything else in float64). The solver keeps the responses F = Kb + q, which
are the gradient. b_i can grow (UP) while b_i < high_i and shrink (DOWN) while b_i > low_i, and b is
stationary when

    m(b) = max over UP of -F  <=  min over DOWN of -F = M(b).

An iteration takes the i that attains m, the j in DOWN with the largest (F_j - F_i)^2 / eta,
eta = K_ii + K_jj - 2 K_ij (TAU where that is not positive), and moves b_i up and b_j down by
t = (F_j - F_i) / eta or to the nearest bound. Then F += t (K_i - K_j): a single pass over two rows, which
also finds the next i. The stopping rule is LIBSVM's, m - M <= tol.

Over-relaxation (as Mangasarian and Musicant 1999 for sweeps over single variables). A run of more than 2 m
iterations is ill-conditioned: its pairs undo each other's steps. Later steps are 1.6 t, within the bounds.
Measured on the edit kernel with gamma = 0.005, that halves the iterations or cuts them to a third; early in a
run, or on a well-conditioned Gram, it would add some.

Shrinking. A variable at a bound whose -F lies beyond that of every possible partner (UP only, -F < M; DOWN
only, -F > m) is set aside if that shortens the active set enough. The columns of the active set are then read
from a tile: compact copies of the rows in use. When all variables become active again, the responses of the
others are updated from the rows whose coefficients have changed since.

Rounding. Steps add up in F, in float64, to an error of about eps sum |b| max |K| sqrt(steps), or eps max |b|
max |K| steps if rounding of b is the same in each step. If that is more than 0.01 tol, or if a run stops
short of tol, F is computed anew from b, and optimality is judged by the new F; the run continues if it is not
reached. A warm start multiplies F, and the error of F too.

Chains that run side by side (`textsvm.solvers.solve`) share only the buffer of a dense Gram. A problem on
some of the rows (a fold, two classes) reads their columns from a tile, and takes as long as a problem on a
Gram of its own.

The inner loop is `textsvm.solvers.smo_loop`; the GPU twin, with larger working sets, is
`textsvm.solvers.smo_cuda`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from textsvm.arrays import Floats, Floats32, Ints
from textsvm.errors import InputError
from textsvm.gram.base import Gram
from textsvm.runtime.parallel import Progress
from textsvm.solvers import smo_loop as loop
from textsvm.solvers import solution
from textsvm.solvers.dual import Dual

#: Maximum bytes of a tile. A tile takes at most 1/8 of the Gram's buffer, all tiles at most the whole buffer.
TILE_BYTES = 64 << 20
BLOCK = 64  #: Rows that are added at a time.
_STRETCH = 1000  #: Iterations between checks of shrinking, progress and stalling.
#: The active set is shortened only to this fraction or less: each time its rows are copied again.
_WORTHWHILE = 0.9


@dataclass(frozen=True)
class Common:
    """Data shared by the runs of all chains over a Gram; `diag` is its diagonal, on the host."""

    gram: Gram
    diag: Floats32
    stopping: solution.Stopping
    tile_bytes: int


@dataclass
class Tile:
    """Rows of the k active variables, restricted to the columns of these variables, in t slots."""

    values: Floats32  #: shape (t, k)
    slot: Ints  #: shape (k,): Slot of each variable's row, or -1
    owner: Ints  #: shape (t,): Variable of each slot, or -1
    next: int = 0  #: Slot that is filled next

    @classmethod
    def empty(cls, height: int, width: int) -> Tile:
        """A tile of `height` slots for `width` variables."""
        values = np.empty((height, width), np.float32)
        return cls(values, np.full(width, -1, np.int64), np.full(height, -1, np.int64))


class Run:
    """A run of the solver: all m variables, and the active variables in compact arrays.

    Starts from the feasible `coef`, sign * alpha, with its `responses` if they are known. `former` is the
    previous run over the same variables, if any: `responses` were derived from its responses, and its tile is
    reused if it holds all rows.
    """

    def __init__(
        self, common: Common, dual: Dual, coef: Floats, responses: Floats | None, progress: Progress,
        former: Run | None = None,
    ) -> None:  # fmt: skip
        self.gram, self.stopping, self.tile_bytes = common.gram, common.stopping, common.tile_bytes
        self.window = self.gram.window()
        self.dual, self.progress = dual, progress
        self.m = len(dual)
        self.tol = self.stopping.tol  # preceded by larger tolerances
        self.index = np.ascontiguousarray(dual.index, np.int64)
        self.direct = self.m == self.gram.n and bool((self.index == np.arange(self.gram.n)).all())
        self.coef = coef.copy()
        self.low, self.high = solution.bounds(dual)
        self.diag = common.diag[self.index]
        self.F = dual.sign * dual.linear + 0.0 if responses is None else responses.copy()
        #: (variables set aside, coefficients of all at that time)
        self.aside: list[tuple[Ints, Floats]] = []
        self.iterations = 0
        #: Steps added up in the responses, and the error of the responses before them.
        self.steps, self.inherited = 0, 0.0
        if former is not None and responses is not None:
            self.inherited = solution.carried_over(former.rounding(), former.dual, former.coef, coef)
        #: The largest sum of coefficients, coefficient and kernel value that have been seen.
        self.size, self.most, self.largest = 0.0, 0.0, float(np.abs(self.diag).max(initial=0.0))
        self.state = np.array([-1, -1, int(self.window.used.max(initial=0)), 0], np.int64)
        self.extrema = np.zeros(3)
        self.tile = Tile.empty(0, 0)
        self.whole_tile: Tile | None = None if former is None else former.whole_tile
        if responses is None:
            self.add_rows(np.arange(self.m), np.zeros(self.m))
        self.activate(np.arange(self.m))
        self.worst = self.best = self.violation
        self.mark = (0, 0.0)  #: Iterations and objective decrease at the last check of stalling.

    def solve(self) -> solution.Solution:
        for tol in self.stopping.tolerances():
            self.tol = tol
            status = self.optimise(self.stopping.max_iterations(self.m))
            run = self.iterations, status, self.stopping, tol
            result = solution.assess(self.dual, self.coef, self.F, *run)
            if not result.converged or self.stopping.satisfied(result.duality_gap):
                break
        if result.converged:
            self.progress(1.0, 1.0)
        return result

    def optimise(self, bound: int) -> str:
        """Iterate until the violation is at most `tol` or the run has to stop; return its status."""
        status, reopened, renewals = "", False, 0
        while not status:
            reason = self.stretch(min(_STRETCH, bound - self.iterations))
            if not np.isfinite(self.active_F).all():
                raise InputError(solution.NOT_FINITE)
            self.report()
            self.measure()
            if reason in (loop.OPTIMAL, loop.STALLED):
                if self.aside:
                    self.reopen()
                elif renewals < solution.RENEWALS and self.rounding() > solution.ROUNDING * self.tol:
                    renewals += 1
                    self.renew()
                    if self.violation <= self.tol:
                        status = "converged"
                else:
                    status = "converged" if reason == loop.OPTIMAL else solution.NO_STEP_LEFT
            elif self.iterations >= bound:
                status = f"stopped at {bound:,} iterations"
            elif self.stalled():
                status = "stalled: the objective no longer decreases"
            elif self.m > 2:
                if not reopened and self.violation <= 10 * self.tol:
                    reopened = True
                    self.reopen()
                self.shrink()
        self.reopen()
        # A run that stops short has usually taken many steps; its figures are computed from fresh responses.
        if self.rounding() > (solution.ROUNDING * self.tol if status == "converged" else 0.0):
            self.renew()
            if status == "converged" and self.violation > self.tol:
                status = solution.NO_STEP_LEFT
        return status

    @property
    def violation(self) -> float:
        return float(self.extrema[loop.FIRST] - self.extrema[loop.LAST])

    def stretch(self, budget: int) -> int:
        """Iterate up to `budget` times, fetching missing rows on the way; return why the loop stopped."""
        left = budget
        relaxation = 1.0 if self.iterations < 2 * self.m else solution.RELAXATION
        while True:
            reason, done = loop.iterate(
                left, self.active_F, self.tol, relaxation, self.window.values, self.window.slots,
                self.window.used, self.tile.values, self.tile.slot, self.tile.owner, self.rows,
                self.active_coef, self.active_low, self.active_high, self.up, self.down, self.active_diag,
                self.gains, self.state, self.extrema,
            )  # fmt: skip
            left -= done
            self.iterations += done
            self.steps += done
            if reason != loop.MISSING:
                return int(reason)
            self.fetch()
            self.report()

    def fetch(self) -> None:
        """Load the missing rows of the pair, and rows of the worst violators, which are likely to be next."""
        pair = self.state[[loop.AT_I, loop.AT_J]]
        wanted = self.rows[pair[pair >= 0]]
        more = min(self.window.capacity // 2, self.gram.ahead) - len(wanted)
        if more > 0:
            first, last = self.extrema[loop.FIRST], self.extrema[loop.LAST]
            violation = np.maximum(self.up - self.active_F - last, self.down + self.active_F + first)
            violation[self.window.slots[self.rows] >= 0] = 0
            worst = np.argpartition(-violation, min(more, len(violation)) - 1)[:more]
            wanted = np.concatenate([wanted, self.rows[worst[violation[worst] > 0]]])
        self.load(wanted)

    def load(self, rows: Ints) -> None:
        self.window.refill(rows)
        self.state[loop.CLOCK] = int(self.window.used.max())

    def activate(self, active: Ints) -> None:
        """Set up compact arrays of the active variables, and find the first i."""
        self.active = active
        whole = len(active) == self.m
        self.rows = self.index[active]
        self.active_F, self.active_coef = self.F[active], self.coef[active]
        self.active_low, self.active_high = self.low[active], self.high[active]
        self.active_diag = self.diag[active]
        self.up = np.where(self.active_coef < self.active_high, 0.0, -np.inf)
        self.down = np.where(self.active_coef > self.active_low, 0.0, -np.inf)
        self.gains = np.zeros(len(active), np.float32)
        self.tile.next = int(self.state[loop.NEXT])
        k = 0 if whole and self.direct else len(active)
        if self.whole_tile is not None and k == self.m:
            self.tile = self.whole_tile
        else:
            self.tile = Tile.empty(max(2, min(k, self.tile_bytes // (4 * k))) if k else 0, k)
            if len(self.tile.values) == self.m:  # kept if all rows fit
                self.whole_tile = self.tile
        self.state[loop.NEXT] = self.tile.next
        loop.find_first(self.active_F, self.up, self.down, self.gains, self.state, self.extrema)

    def write_back(self) -> None:
        self.F[self.active] = self.active_F
        self.coef[self.active] = self.active_coef

    def shrink(self) -> None:
        """Set variables aside that no partner can move, if there are many of them."""
        first, last = self.extrema[loop.FIRST], self.extrema[loop.LAST]
        up, down = self.up == 0, self.down == 0
        settled = (~down & (-self.active_F < last)) | (~up & (-self.active_F > first)) | ~(up | down)
        if len(settled) - settled.sum() > _WORTHWHILE * len(settled):
            return
        self.write_back()
        self.aside.append((self.active[settled], self.coef.copy()))
        self.activate(self.active[~settled])

    def reopen(self) -> None:
        """Update the responses of the variables set aside, and make all variables active."""
        self.write_back()
        aside, self.aside = self.aside, []
        for variables, before in aside:
            self.add_rows(variables, before)
        if aside:
            self.activate(np.arange(self.m))

    def measure(self) -> None:
        """Record the magnitude of coefficients and kernel values (of a row: the diagonal may be 0)."""
        if not len(self.active_coef):
            return
        magnitudes = np.abs(self.active_coef)
        self.size = max(self.size, float(magnitudes.sum()))
        self.most = max(self.most, float(magnitudes.max()))
        i = self.state[loop.AT_I]
        slot = self.window.slots[self.rows[i]] if i >= 0 else -1
        if slot >= 0:
            self.largest = max(self.largest, float(np.abs(self.window.values[slot][self.rows]).max()))

    def rounding(self) -> float:
        """Estimated error of the responses."""
        size = max(self.size, float(np.abs(self.coef).sum()))
        return self.inherited + solution.rounding(size, self.most, self.largest, self.steps)

    def renew(self) -> None:
        """Compute the responses anew, from the coefficients alone."""
        self.write_back()
        self.F = self.dual.sign * self.dual.linear + 0.0
        self.steps, self.inherited = 0, 0.0
        self.add_rows(np.arange(self.m), np.zeros(self.m))
        self.activate(np.arange(self.m))

    def add_rows(self, variables: Ints, before: Floats) -> None:
        """F += K (coef - before) at these variables, a block of rows at a time."""
        change = np.bincount(self.index, self.coef - before, self.gram.n)
        changed = np.flatnonzero(change)
        F, columns = self.F[variables], self.index[variables]
        block = min(BLOCK, self.window.capacity)
        for start in range(0, len(changed), block):
            rows = changed[start : start + block]
            self.load(rows)
            loop.add_rows(F, columns, change[rows], self.window.slots[rows], self.window.values)
        self.F[variables] = F

    def stalled(self) -> bool:
        """Whether the objective has not changed, in float64, for many iterations."""
        since, before = self.mark
        if self.iterations - since < max(20_000, 10 * self.m):
            return False
        decrease = float(self.extrema[loop.DECREASE])
        self.mark = (self.iterations, decrease)
        return decrease - before <= 1e-15 * abs(decrease)

    def report(self) -> None:
        self.best = min(self.best, self.violation)
        self.progress(*solution.log_progress(self.worst, self.best, self.stopping.tol))
