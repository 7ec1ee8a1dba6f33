"""Duals on a GPU: working sets solved by one block each, all responses updated by the whole chip.

The problem is that of `textsvm.solvers.smo`, in its label-free form, with the same responses F = Kb + q in
float64. A round is four kernels of kernels_cu/smo.cu, and no step of it waits for the host:

    choose     m(b), M(b) and the stopping rule; then the working set: who entered in the last round (half
               of the set at most), the worst violators that can grow, the worst that can shrink
    gather     the float32 tile of the set's rows and columns, 4 MB that stay in the L2 cache
    solve_set  one block optimises pairs of the set as the CPU twin does (Fan, Chen, Lin 2005), responses in
               float32 on chip, until the set's violation is 0.3 of what that of all variables was.
               Pairs after the first 1,024 of a round over-relax, as in the CPU twin.
    update     F += sum over the changed variables of (change of b) K, by the whole chip

A set of 1,024 holds the free variables of an ill-conditioned problem together, which a smaller one tears
apart: measured on Table 3 of Shi et al. 2011, sets of 1,024 take 11 to 40 rounds and no more pairs than plain
SMO, sets of 256 take hundreds of rounds. Inside a round, responses less their middle are float32: they
choose pairs and steps, and the nearer to the optimum, the smaller they and their rounding are. What has
moved is float64, and `update` works out F of the set too, from the moves alone: no error outlives a round.

Side by side. A round's kernels serve many independent problems at once, each in a slot of the arrays with
its own block of `choose` and `solve_set`. The host looks at all of them every few rounds, takes out what is
solved and fills the slot again, while the other slots go on. A set that takes many pairs is paused after
BURST of them and gone on with in the next round, or all slots would wait for the slowest. Chains are cut
into stretches, as many as there are slots: a problem that starts cold in a free slot is solved sooner than
one that waits for another's solution. Where rows are computed on demand there is one slot.

Arrays, on the device; P slots of problems of up to m variables, SET = 1,024:
    F, coef, low, high   float64 (4, P, m)
    index                int32 (P, m)    row of the Gram of each variable
    entered              int32 (P, m)    round in which a variable of the set entered it, -1 for others
    marks, keys          uint8, uint32 (P, m)   of `choose`
    members              int32 (P, SET)  the set, in order of its variables
    tile                 float32 (P, SET, SET)
    moved, moved_slots   float64, int32 (P, SET)  changes of b, and where those rows are in the Gram's buffer
    state, figures       int64 (P, 10), float64 (P, 4)   see smo.cu
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm import device as devices
from textsvm.errors import InputError
from textsvm.gram.base import Gram
from textsvm.parallel import Progress
from textsvm.solvers.dual import Dual
from textsvm.solvers.solution import Solution, Stopping, assess, bounds, log_progress
from textsvm.solvers.warm_start import warm_start

Vector = NDArray[np.float64]

THREADS, PER_THREAD = 256, 4
SET = THREADS * PER_THREAD
SOURCE = "smo.cu"
#: What smo.cu is compiled with, for the compile test.
DEFINE_SETS: list[tuple[str, devices.Defines]] = [
    (SOURCE, (("THREADS", THREADS), ("PER_THREAD", PER_THREAD)))
]
#: Violation of the set, as a fraction of that of all variables, at which a round ends.
SHARE = 0.3
#: Steps of pairs after the first SET of a set, in units of the pair's own best one.
RELAXATION = 1.6
#: Rounds launched before the host looks, and pairs of a set at most (some 40 ms).
ROUNDS, PAIRS = 4, 50_000
#: Pairs of a set in one launch when several problems share it.
BURST = 2_000
#: Slots for each multiprocessor, and blocks that gather tiles, all slots together.
SLOTS, GATHERERS = 1, 16_384
#: Numbers in a slot's state and figures, and where they are (see smo.cu).
STATES, FIGURES = 10, 4
_DONE, _ROUND, _ITERATIONS, _COUNT, _MOVED, _SIZE, _LIMIT, _BOUND = 0, 1, 2, 3, 4, 7, 8, 9
_TOL = 3
_CONVERGED, _STALLED, _NOT_FINITE = 1, 3, 4
#: cudaDevAttrMultiProcessorCount
_MULTIPROCESSORS = 16
_NOT_FINITE_SENTENCE = "the kernel matrix holds a value that is not a finite number"


def solve_many(
    gram: Gram,
    chains: Sequence[Sequence[Dual]],
    starts: Sequence[Vector],
    stopping: Stopping,
    progress: Progress | None,
) -> list[list[Solution]]:
    """Solve chains of problems over a Gram in device memory; see `textsvm.solvers.smo.solve_many`.

    Parameters
    ----------
    starts : sequence of float64 arrays
        sign * alpha that each chain starts from.

    Raises
    ------
    InputError
        If the device has too little memory, or the Gram holds a value that is not a finite number.
    """
    with devices.use(gram.device):
        return _Queue(gram, chains, starts, stopping, progress).solve()


@dataclass
class _Job:
    """What a slot works on: problems first..last-1 of a chain, at present number `link`."""

    chain: int
    link: int
    last: int
    #: Which of the tolerances that the stopping rule looks at.
    step: int = 0
    #: Violation at the start and the smallest one since.
    worst: float = 0.0
    best: float = np.inf


@dataclass(frozen=True)
class _Start:
    """A problem on its way into a slot."""

    slot: int
    dual: Dual
    coef: Vector
    responses: Vector | None
    bound: int
    tol: float


class _Queue:
    """The host's side: which problem is in which slot, and what comes next."""

    def __init__(
        self,
        gram: Gram,
        chains: Sequence[Sequence[Dual]],
        starts: Sequence[Vector],
        stopping: Stopping,
        progress: Progress | None,
    ) -> None:
        self.chains, self.starts, self.stopping, self.progress = chains, starts, stopping, progress
        self.tolerances = stopping.tolerances()
        self.results: list[list[Solution | None]] = [[None] * len(chain) for chain in chains]
        self.links, self.solved, self.reached = sum(len(chain) for chain in chains), 0, 0.0
        self.slots = _Slots(gram, max(len(chain[0]) for chain in chains), self.links)
        self.waiting = self.stretches()
        self.jobs: list[_Job | None] = [None] * self.slots.count
        self.starting: list[_Start] = []

    def stretches(self) -> Iterator[_Job]:
        """The chains cut into stretches for all slots, the largest problems first."""
        length = -(-self.links // self.slots.count)
        for c in sorted(range(len(self.chains)), key=lambda c: -len(self.chains[c][0])):
            links = len(self.chains[c])
            # Zeros, where a stretch within a chain starts, have to be feasible.
            step = length if all(dual.total == 0 for dual in self.chains[c]) else links
            for first in range(0, links, step):
                yield _Job(c, first, min(first + step, links))

    def solve(self) -> list[list[Solution]]:
        for slot in range(self.slots.count):
            self.fill(slot)
        ahead = False
        while any(self.jobs):
            self.slots.put(self.starting)
            self.starting = []
            if not ahead:
                self.slots.run()
            done, iterations, violations = self.slots.look()
            if (done == _NOT_FINITE).any():
                raise InputError(_NOT_FINITE_SENTENCE)
            finished = [slot for slot, job in enumerate(self.jobs) if job and done[slot]]
            taken = self.slots.take(finished)
            # The other slots work while the host looks at what is finished.
            ahead = len(finished) < sum(job is not None for job in self.jobs)
            if ahead:
                self.slots.run()
            for slot, coef, responses in zip(finished, *taken, strict=True):
                self.finish(slot, coef, responses, int(iterations[slot]), int(done[slot]))
                violations[slot] = np.nan  # of the problem before
            self.report(violations)
        return self.results  # type: ignore[return-value]

    def fill(self, slot: int) -> None:
        """Put the next stretch into a slot."""
        job = self.jobs[slot] = next(self.waiting, None)
        if job is None:
            return
        dual = self.chains[job.chain][job.link]
        coef = self.starts[job.chain] if job.link == 0 else np.zeros(len(dual))
        self.start(slot, dual, coef, None)

    def finish(self, slot: int, coef: Vector, responses: Vector, iterations: int, why: int) -> None:
        """Go on with a problem that has reached a tolerance, or with the next one of its stretch."""
        job = self.jobs[slot]
        assert job is not None
        chain = self.chains[job.chain]
        dual, tol = chain[job.link], self.tolerances[job.step]
        stalled = "stalled: no step is left in float64"
        status = stalled if why == _STALLED else f"stopped at {self.stopping.bound(len(dual)):,} iterations"
        solution = assess(dual, coef, responses, iterations, status, tol)
        if self.stopping.satisfied(solution):
            solution = replace(solution, converged=True, status="converged")
        elif solution.converged and job.step + 1 < len(self.tolerances):
            job.step += 1
            self.slots.go_on(slot, self.tolerances[job.step])
            return
        self.results[job.chain][job.link] = solution
        self.solved += 1
        job.link += 1
        job.step, job.best = 0, np.inf
        if job.link == job.last:
            self.fill(slot)
            return
        self.start(slot, chain[job.link], *warm_start(chain[job.link], dual, solution))

    def start(self, slot: int, dual: Dual, coef: Vector, responses: Vector | None) -> None:
        bound, tol = self.stopping.bound(len(dual)), self.tolerances[0]
        self.starting.append(_Start(slot, dual, coef, responses, bound, tol))

    def report(self, violations: Vector) -> None:
        if self.progress is None:
            return
        reached = float(self.solved)
        for job, violation in zip(self.jobs, violations.tolist(), strict=True):
            if job is None:
                continue
            if not np.isnan(violation):
                job.worst = violation if job.best == np.inf else job.worst
                job.best = min(job.best, violation)
            if job.best < np.inf:
                done, total = log_progress(job.worst, job.best, self.stopping.tol)
                reached += done / total
        self.reached = min(max(self.reached, reached), float(self.links))
        self.progress(self.reached, float(self.links))


def most_slots() -> int:
    """Problems that keep the current card busy."""
    runtime = devices.cupy().cuda.runtime
    return SLOTS * int(runtime.deviceGetAttribute(_MULTIPROCESSORS, runtime.getDevice()))


class _Slots:
    """The device's side: arrays for several problems, and the launches that serve them all.

    Parameters
    ----------
    gram : Gram
    stride : int
        Variables of the largest problem.
    wanted : int
        Slots that could be used.
    """

    def __init__(self, gram: Gram, stride: int, wanted: int) -> None:
        cp = devices.cupy()
        self.gram, self.window, self.stride = gram, gram.window(), stride
        self.resident = self.window.complete
        each = 45 * stride + 4 * SET * (SET + 4) + 8 * (STATES + FIGURES)
        devices.require_memory(each, f"the solver of {stride:,} variables")
        most = min(wanted, most_slots()) if self.resident and wanted > 1 else 1
        self.count = count = max(1, min(most, devices.free_memory() // 2 // each)) if most > 1 else 1
        module = devices.load(SOURCE, DEFINE_SETS[0][1])
        self.kernels = {
            name: module.get_function(name) for name in ("choose", "gather", "solve_set", "update")
        }
        self.diag = cp.ascontiguousarray(gram.diag(), np.float32)
        self.finite = np.isfinite(self.diag.get())
        self.values = cp.zeros((4, count, stride))
        self.F, self.coef, self.low, self.high = self.values
        self.index = cp.zeros((count, stride), np.int32)
        self.entered = cp.empty((count, stride), np.int32)
        self.marks, self.keys = cp.zeros((count, stride), np.uint8), cp.empty((count, stride), np.uint32)
        self.members = cp.zeros((count, SET), np.int32)
        self.tile = cp.empty((count, SET, SET), np.float32)
        self.moved, self.moved_slots = cp.zeros((count, SET)), cp.zeros((count, SET), np.int32)
        self.state, self.figures = cp.zeros((count, STATES), np.int64), cp.zeros((count, FIGURES))
        self.state[:, _DONE] = _CONVERGED
        #: Rows of the Gram of each slot's variables, on the host.
        self.rows: list[NDArray[np.int64]] = [np.zeros(0, np.int64)] * count
        self.burst = PAIRS if count == 1 else BURST

    def put(self, starts: list[_Start]) -> None:
        """Start problems, all in one copy to the device."""
        if not starts:
            return
        cp = devices.cupy()
        m = max(len(start.dual) for start in starts)
        values, index = np.zeros((4, len(starts), m)), np.zeros((len(starts), m), np.int32)
        state, figures = np.zeros((len(starts), STATES), np.int64), np.zeros((len(starts), FIGURES))
        for k, start in enumerate(starts):
            dual, size = start.dual, len(start.dual)
            q = dual.sign * dual.linear if start.responses is None else start.responses
            for row, part in zip(values[:, k], (q, start.coef, *bounds(dual)), strict=True):
                row[:size] = part
            index[k, :size] = dual.index
            self.rows[start.slot] = dual.index
            state[k, [_SIZE, _LIMIT, _BOUND]] = size, min(SET, size, self.window.capacity), start.bound
            figures[k, _TOL] = start.tol
            if not self.finite[dual.index].all():
                raise InputError(_NOT_FINITE_SENTENCE)
        slots = cp.asarray([start.slot for start in starts])
        self.values[:, slots, :m] = cp.asarray(values)
        self.index[slots, :m] = cp.asarray(index)
        self.entered[slots] = -1
        self.state[slots], self.figures[slots] = cp.asarray(state), cp.asarray(figures)
        for start in starts:
            if start.responses is None:
                self.add_rows(start.slot, start.coef)

    def go_on(self, slot: int, tol: float) -> None:
        """Take a problem up again, to a smaller tolerance."""
        self.figures[slot, _TOL] = tol
        self.state[slot, _DONE] = 0

    def look(self) -> tuple[NDArray[np.int64], NDArray[np.int64], Vector]:
        """Why each slot is done (0: it is not), its iterations and its violation (NaN before a round)."""
        state, figures = self.state.get(), self.figures.get()
        violations = np.where(state[:, _ROUND] > 0, figures[:, 0] - figures[:, 1], np.nan)
        return state[:, _DONE], state[:, _ITERATIONS], violations

    def take(self, slots: list[int]) -> tuple[list[Vector], list[Vector]]:
        """Coefficients and responses of these slots."""
        if not slots:
            return [], []
        both = self.values[:2, devices.cupy().asarray(slots)].get()
        F, coef = ([v[: len(self.rows[s])].copy() for s, v in zip(slots, part, strict=True)] for part in both)
        return coef, F

    def run(self) -> None:
        for _ in range(ROUNDS if self.resident else 1):
            self.round()

    def round(self) -> None:
        """One round of all slots; launches only, unless rows have to be computed."""
        stride, count, gram = np.int64(self.stride), self.count, self.gram
        self.launch(
            "choose", (count,), 1024, stride, self.F, self.coef, self.low, self.high, self.entered,
            self.marks, self.keys, self.members, self.state, self.figures,
        )  # fmt: skip
        if not self.resident and not self.load_rows():
            return
        self.launch(
            "gather", (min(SET, max(1, GATHERERS // count)), count), 256, stride, self.window.values,
            np.int64(gram.n), self.window.slots, self.index, self.members, self.state, self.tile,
        )  # fmt: skip
        self.launch(
            "solve_set", (count,), THREADS, stride, np.float64(SHARE), np.float32(RELAXATION),
            np.int32(self.burst), np.int32(PAIRS), self.window.slots, self.index, self.members,
            self.diag, self.low, self.high, self.F, self.tile, self.coef, self.moved,
            self.moved_slots, self.state, self.figures,
        )  # fmt: skip
        self.update(slice(None))

    def update(self, slots: slice) -> None:
        F = self.F[slots]
        self.launch(
            "update", (-(-self.stride // 32) * len(F),), 512, np.int64(self.stride), np.int32(len(F)),
            self.window.values, np.int64(self.gram.n), self.index[slots], self.moved[slots],
            self.moved_slots[slots], self.state[slots], F,
        )  # fmt: skip

    def launch(self, name: str, blocks: tuple[int, ...], threads: int, *arguments: Any) -> None:
        self.kernels[name](blocks, (threads,), arguments)

    def load_rows(self) -> bool:
        """Make the working set's rows resident (of the only slot); False when the work is done."""
        state = self.state[0].get()
        if state[_DONE]:
            return False
        members = self.members[0, : int(state[_COUNT])].get()
        self.window.refill(np.unique(self.rows[0][members]))
        return True

    def add_rows(self, slot: int, coef: Vector) -> None:
        """F += K coef, for a start that is not zero."""
        cp = devices.cupy()
        moved = np.flatnonzero(coef)
        limit = min(SET, self.window.capacity)
        for start in range(0, len(moved), limit):
            some = moved[start : start + limit]
            rows = self.rows[slot][some]
            self.window.refill(np.unique(rows))
            self.moved[slot, : len(some)] = cp.asarray(coef[some])
            self.moved_slots[slot, : len(some)] = self.window.slots[cp.asarray(rows)]
            self.state[slot, _MOVED] = len(some)
            self.update(slice(slot, slot + 1))
        if len(moved):
            self.state[slot, _MOVED] = 0
