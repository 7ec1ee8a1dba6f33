"""The multiclass dual on the CPU: rounds of a working set in one thread and of all gradients on all cores.

The problem, the step of one example and the rounds are those of `textsvm.solvers.crammer_singer`; the loops
are `textsvm.solvers.crammer_singer_loop`. Columns of the gradients are spread in strips over all cores, or
stay in the thread of the chain when chains run side by side (`textsvm.solvers.chains`): the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from textsvm import parallel
from textsvm.errors import InputError
from textsvm.gram.base import Gram
from textsvm.parallel import Progress
from textsvm.solvers import crammer_singer_loop as loop
from textsvm.solvers.dual import MulticlassDual
from textsvm.solvers.solution import (
    NO_STEP_LEFT,
    NOT_FINITE,
    Solution,
    Stopping,
    assess_multiclass,
    log_progress,
    objective_and_gap,
    rounding,
)
from textsvm.solvers.warm_start import start_multiclass
from textsvm.solvers.workingset import RELAXATION, RENEWALS, ROUNDING, SHARE

#: Examples of a working set; not a power of two, or the classes of an example would compete for cache lines.
SET = 1000
#: Steps of a round at most (some 50 ms).
BUDGET = 50_000
#: Rounds in a row that lower -D by no more than rounding, after which no more is expected.
STALLS = 8
#: Multiplications and additions from which all cores are worth waking.
_THREADED = 1 << 24


def solve_chain(
    gram: Gram,
    chain: Sequence[MulticlassDual],
    coef: NDArray[np.float64],
    stopping: Stopping,
    progress: Progress,
) -> list[Solution]:
    """Solve a chain of problems over a Gram in host memory, starting from `coef`, a copy of the caller's."""
    solutions: list[Solution] = []
    for j, dual in enumerate(chain):
        if j:
            coef = start_multiclass(dual, solutions[-1].coef)
        of_problem = parallel.part(progress, j, 1, len(chain))
        assert of_problem is not None
        solutions.append(Run(gram, dual, coef, stopping, of_problem).solve())
    return solutions


class Run:
    """One solve.

    Parameters
    ----------
    gram : Gram, n rows
    dual : MulticlassDual, m examples
    coef : float64 array, shape (n_classes, m)
        To start from, feasible; it is changed.
    stopping : Stopping
    progress : callable
    """

    def __init__(
        self,
        gram: Gram,
        dual: MulticlassDual,
        coef: NDArray[np.float64],
        stopping: Stopping,
        progress: Progress,
    ) -> None:
        self.gram, self.window = gram, gram.window()
        self.dual, self.coef, self.stopping, self.progress = dual, coef, stopping, progress
        m = len(dual)
        self.direct = bool((dual.index == np.arange(m)).all())
        self.limit = min(SET, m, self.window.capacity)
        self.top, self.low = np.empty(m), np.empty(m)
        self.members = np.zeros(0, np.int64)
        self.newcomers = np.zeros(0, np.int64)
        #: The largest kernel value that has been seen.
        self.largest = 0.0
        self.renew()

    def renew(self) -> None:
        """Make the gradients, and the violations, from the coefficients alone."""
        self.G, self.steps = self.dual.gradient_at_zero(), 0
        moved = np.flatnonzero(self.coef.any(0))
        for start in range(0, max(1, len(moved)), self.limit):
            some = moved[start : start + self.limit]
            self.update(some, np.ascontiguousarray(self.coef[:, some]))

    def solve(self) -> Solution:
        tol, bound = self.stopping.tol, self.stopping.bound(len(self.dual))
        iterations, total, stalls, renewals = 0, 0.0, 0, 0
        first = best = float((self.top - self.low).max(initial=0.0))
        while True:
            violation = self.top - self.low
            worst = float(violation.max(initial=0.0))
            best = min(best, worst)
            self.progress(*log_progress(first, best, tol))
            status = ""
            if worst <= tol or self.gap_is_small():
                status = "converged"
            elif iterations >= bound:
                status = f"stopped at {bound:,} iterations"
            elif stalls >= STALLS:
                status = NO_STEP_LEFT
            doubted = bool(status) and self.rounding() > ROUNDING * tol
            if doubted and renewals < RENEWALS and iterations < bound:
                self.renew()
                renewals, stalls = renewals + 1, 0
            elif status:
                return self.assessed(status, iterations, doubted)
            else:
                steps, decrease = self.round(violation, worst, min(BUDGET, bound - iterations))
                iterations, total = iterations + steps, total + decrease
                self.steps += steps
                stalls = stalls + 1 if decrease <= 1e-15 * total else 0

    def rounding(self) -> float:
        """About how far the gradients may be from those of the coefficients."""
        values = np.abs(self.coef)
        return rounding(float(values.sum(1).max()), float(values.max()), self.largest, self.steps)

    def assessed(self, status: str, iterations: int, doubted: bool) -> Solution:
        """The solution; its gradients anew where they may be off, or the run has stopped short."""
        if self.steps and (doubted or status != "converged"):
            self.renew()
        why = NO_STEP_LEFT if status == "converged" else status
        return assess_multiclass(self.dual, self.coef, self.G, iterations, why, self.stopping)

    def gap_is_small(self) -> bool:
        if self.stopping.duality_gap is None:
            return False
        return self.stopping.satisfied(objective_and_gap(self.dual, self.coef, self.G)[1])

    def round(self, violation: NDArray[np.float64], worst: float, budget: int) -> tuple[int, float]:
        """Choose a working set, optimise it, bring all gradients up to date."""
        dual, tol = self.dual, self.stopping.tol
        self.choose(violation)
        rows = dual.index[self.members]
        slots = self.resident(rows)
        tile = np.empty((len(rows), len(rows)), np.float32)
        read = partial(loop.gather, self.window.values, slots, rows, tile)
        _spread(read, len(rows), 2 * len(rows) * self.gram.n)
        for values in (tile[0], tile.diagonal()):
            self.largest = max(self.largest, float(np.abs(values).max()))
        # take, not [:, members]: that would put the classes of an example side by side.
        before, G = np.take(self.coef, self.members, 1), np.take(self.G, self.members, 1)
        coef = before.copy()
        whole = len(self.members) == len(dual)
        enough = 0.99 * tol if whole else max(0.99 * tol, SHARE * worst)
        w = len(rows)
        steps, decrease = loop.optimise(
            tile, G, coef, dual.target[self.members], dual.upper[self.members], enough, RELAXATION,
            budget, np.empty(w), np.empty(w),
        )  # fmt: skip
        self.coef[:, self.members] = coef
        self.update(self.members, coef - before)
        return int(steps), float(decrease)

    def choose(self, violation: NDArray[np.float64]) -> None:
        """Who entered in the last round stays; the worst violators come in."""
        staying = self.newcomers
        half = self.limit // 2 if self.limit > 3 else 0
        staying = staying[:: -(-len(staying) // half)] if half and len(staying) else staying[:0]
        wish = violation.copy()
        wish[staying] = -np.inf
        room = min(self.limit, len(wish)) - len(staying)
        worst = np.sort(np.argpartition(-wish, room - 1)[:room])
        worst = worst[wish[worst] > 0]
        self.newcomers = np.setdiff1d(worst, self.members)
        self.members = np.union1d(staying, worst)

    def resident(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Slots of these rows in the Gram's buffer, once they are there."""
        slots = self.window.slots[rows]
        if (slots < 0).any():
            self.window.refill(np.unique(rows))
            slots = self.window.slots[rows]
        return slots.astype(np.int64)

    def update(self, examples: NDArray[np.int64], change: NDArray[np.float64]) -> None:
        """G += K change and, on the way, the gradients that make up the violations."""
        dual = self.dual
        moved = np.flatnonzero(change.any(0))
        slots = self.resident(dual.index[examples[moved]])
        first, row, value = _sparse(change[:, moved])
        fine = []

        def strip(start: int, stop: int) -> None:
            loop.update(
                self.window.values, slots, dual.index, self.direct, first, row, value, self.G, start, stop
            )
            fine.append(
                loop.measure(self.G, self.coef, dual.target, dual.upper, self.top, self.low, start, stop)
            )

        m = len(dual)
        _spread(strip, m, (len(value) + dual.n_classes) * m)
        if not all(fine):
            raise InputError(NOT_FINITE)


def _spread(function: Callable[[int, int], object], n: int, work: int) -> None:
    """Call function(start, stop) for parts of 0..n, on all cores if there is enough to do."""
    threads = parallel.n_threads() if work > _THREADED else 1
    width = n if threads == 1 else -(-n // (4 * threads) // 64) * 64
    pieces = [(start, min(start + width, n)) for start in range(0, n, width)]
    if len(pieces) == 1:
        function(0, n)
    else:
        parallel.run(lambda piece: function(*piece), pieces)


def _sparse(
    change: NDArray[np.float64],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """The changes that are not 0, as `loop.update` takes them."""
    k, w = change.shape
    firsts, rows, values = [np.zeros(1, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0)]
    for start in range(0, w, loop.CHUNK):
        part = change[:, start : start + loop.CHUNK]
        at = np.nonzero(part)
        firsts.append(firsts[-1][-1] + np.cumsum(np.bincount(at[0], minlength=k)))
        rows.append(at[1] + start)
        values.append(part[at])
    return np.concatenate(firsts), np.concatenate(rows), np.concatenate(values)
