"""The dual on the CPU: one run over the active variables, and many chains of problems on all cores.

The algorithm is that of `textsvm.solvers.smo`; its inner loop is `textsvm.solvers.smo_loop`.

A chain runs in one thread, each problem from the solution of the one before. Chains share the buffer of a
dense Gram and nothing else. Where rows are computed on demand and make room for others, one chain runs after
another. A problem on some of the rows (a fold, two classes) reads their columns from a tile as a shortened
active set does, and takes as long as one on a Gram of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from textsvm.errors import InputError
from textsvm.gram.base import Gram
from textsvm.parallel import Progress, n_threads
from textsvm.solvers import smo_loop as loop
from textsvm.solvers.dual import Dual
from textsvm.solvers.solution import Solution, Stopping, assess, bounds, log_progress
from textsvm.solvers.warm_start import warm_start

Vector = NDArray[np.float64]
#: Rows of all variables in a tile, where they are in it, whose they are, and which place is next.
Kept = tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.int64], int]

#: Steps of long runs, in units of the pair's own best one; 0 to 2 decrease the objective.
RELAXATION = 1.6
#: Bytes that a tile may take; all threads' together no more than the Gram's buffer, and one no more than 1/8.
TILE_BYTES = 64 << 20
#: Rows computed at a time where they come on demand: kernels are much faster on many.
AHEAD = 64
#: Iterations between looks at shrinking, progress and stalling.
_STRETCH = 1000
#: The active set is shortened only to this fraction or less: each time costs its rows' copies anew.
_WORTHWHILE = 0.9


def solve_many(
    gram: Gram, chains: Sequence[Sequence[Dual]], starts: Sequence[Vector], stopping: Stopping,
    shrinking: bool, progress: Progress | None,
) -> list[list[Solution]]:  # fmt: skip
    """Solve chains of problems; see `textsvm.solvers.smo.solve_many`. `starts`: coefficients, one a chain."""
    diag = np.ascontiguousarray(gram.diag(), np.float32)
    tally = _Tally(chains, progress)
    results: list[list[Solution]] = [[] for _ in chains]

    threads = min(n_threads(), len(chains)) if gram.concurrent else 1
    room = min(TILE_BYTES, 4 * gram.window().capacity * gram.n // max(8, threads))

    def work(c: int) -> None:
        progress = tally.part(c)
        results[c] = _solve_chain(gram, diag, chains[c], starts[c], stopping, shrinking, room, progress)
        progress(1.0, 1.0)

    if threads == 1:
        for c in range(len(chains)):
            work(c)
        return results
    tally.threaded = True
    with ThreadPoolExecutor(threads) as pool:
        pending = {pool.submit(work, int(c)) for c in np.argsort(-tally.costs, kind="stable")}
        try:
            while pending:
                done, pending = wait(pending, timeout=0.1, return_when=FIRST_COMPLETED)
                for future in done:
                    future.result()
                tally.report()
        except BaseException:
            tally.stopped.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return results


class _Tally:
    """How far all chains are together, and the word to stop."""

    def __init__(self, chains: Sequence[Sequence[Dual]], progress: Progress | None) -> None:
        self.costs = np.array([len(chain) * float(len(chain[0])) ** 2 for chain in chains])
        self.done = np.zeros(len(chains))
        self.progress, self.threaded, self.stopped = progress, False, threading.Event()

    def part(self, c: int) -> Progress:
        """The progress callback of chain c."""

        def progress(done: float, total: float) -> None:
            if self.stopped.is_set():
                raise InterruptedError("another chain has failed, or the caller has been interrupted")
            self.done[c] = max(self.done[c], self.costs[c] * min(1.0, done / total))
            if not self.threaded:
                self.report()

        return progress

    def report(self) -> None:
        if self.progress is not None:
            self.progress(float(self.done.sum()), float(self.costs.sum()))


def _solve_chain(
    gram: Gram, diag: NDArray[np.float32], chain: Sequence[Dual], coef: Vector, stopping: Stopping,
    shrinking: bool, room: int, progress: Progress,
) -> list[Solution]:  # fmt: skip
    solutions: list[Solution] = []
    responses: Vector | None = None
    kept: Kept | None = None
    for j, dual in enumerate(chain):
        if j:
            coef, responses = warm_start(dual, chain[j - 1], solutions[-1])

        def link(done: float, total: float, before: int = j) -> None:
            progress(before + done / total, len(chain))

        run = Run(gram, dual, diag, coef, responses, stopping, shrinking, room, link, kept)
        solutions.append(run.solve())
        kept = run.kept
    return solutions


class Run:
    """One solve: all m variables, and the active ones in compact arrays.

    Parameters
    ----------
    gram : Gram, n rows
    dual : Dual, m variables
    diag : float32 array, shape (n,)
        Of the Gram.
    coef : float64 array, shape (m,)
        sign * alpha to start from, feasible.
    responses : float64 array, shape (m,), or None
        Those of `coef`, if they are known.
    stopping : Stopping
    shrinking : bool
    room : int
        Bytes of a tile.
    progress : callable
    kept : Kept, optional
        Of a run over the same variables.
    """

    def __init__(
        self, gram: Gram, dual: Dual, diag: NDArray[np.float32], coef: Vector, responses: Vector | None,
        stopping: Stopping, shrinking: bool, room: int, progress: Progress, kept: Kept | None = None,
    ) -> None:  # fmt: skip
        self.gram, self.window = gram, gram.window()
        self.dual, self.stopping, self.progress = dual, stopping, progress
        self.room = room
        self.tol = stopping.tol  # or a larger one before it
        self.shrinking = shrinking and len(dual) > 2
        self.index = np.ascontiguousarray(dual.index, np.int64)
        self.direct = len(dual) == gram.n and bool((self.index == np.arange(gram.n)).all())
        self.coef = coef.copy()
        self.low, self.high = bounds(dual)
        self.diag = diag[self.index]
        if not np.isfinite(self.diag).all():
            raise InputError("the kernel matrix holds a value that is not a finite number")
        self.F = dual.sign * dual.linear + 0.0 if responses is None else responses.copy()
        #: (variables set aside, coefficients of all at that time)
        self.aside: list[tuple[NDArray[np.int64], Vector]] = []
        self.iterations = 0
        self.state = np.array([-1, -1, int(self.window.used.max(initial=0)), 0], np.int64)
        self.extrema = np.zeros(3)
        self.tile = np.empty((0, 0), np.float32)
        self.kept = kept
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
            if self.stopping.satisfied(solution):
                solution = replace(solution, converged=True, status="converged")
                break
            if not solution.converged:
                break
        if solution.converged:
            self.progress(1.0, 1.0)
        return solution

    def optimise(self, bound: int) -> str:
        """Iterate until the violation is at most `tol`, or something else ends it: what."""
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
        more = min(self.window.capacity // 2, AHEAD) - len(wanted)
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
        """A tile for k active variables; that of all variables is kept, if all their rows fit."""
        if self.kept is not None and self.tile is self.kept[0]:
            self.kept = (*self.kept[:3], int(self.state[loop.NEXT]))
        if self.kept is not None and k == len(self.dual):
            self.tile, self.tile_slot, self.tile_owner, self.state[loop.NEXT] = self.kept
            return
        height = max(2, min(k, self.room // (4 * k))) if k else 0
        self.tile = np.empty((height, k), np.float32)
        self.tile_slot, self.tile_owner = np.full(k, -1, np.int64), np.full(height, -1, np.int64)
        self.state[loop.NEXT] = 0
        if height == len(self.dual):
            self.kept = (self.tile, self.tile_slot, self.tile_owner, 0)

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

    def add_rows(self, variables: NDArray[np.int64], before: Vector) -> None:
        """F += K (coef - before) at these variables, some rows at a time."""
        change = np.bincount(self.index, self.coef - before, self.gram.n)
        changed = np.flatnonzero(change)
        F, columns = self.F[variables], self.index[variables]
        block = min(AHEAD, self.window.capacity)
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
