"""Many problems side by side on a GPU, in slots: a queue on the host, and arrays and launches for all slots.

The kernels of a round serve many independent problems at once. Each problem has a slot of the arrays, and its
own block in the kernels that choose and solve its working set. The host checks all slots every few rounds,
takes out solved problems and fills their slots again, while the other slots continue. If rows are computed on
demand there is a single slot.

Every round adds rounding errors to the responses. If these may matter at the tolerance, or a problem stops
short of it, the problem is restarted from its coefficients, and optimality is judged by new responses.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, ClassVar

import numpy as np

from textsvm.arrays import AnyArray, Floats, Ints
from textsvm.errors import InputError
from textsvm.gram.base import Gram, Window
from textsvm.runtime import device as devices
from textsvm.runtime.parallel import Progress
from textsvm.solvers import solution

ROUNDS = 4  #: Rounds launched between checks by the host.
SLOTS = 1  #: Slots for each multiprocessor.


class Done(IntEnum):
    """Why a problem in a slot is done; the numbers of kernels_cu/workingset.cuh."""

    RUNNING = 0
    CONVERGED = 1
    AT_BOUND = 2
    STALLED = 3
    NOT_FINITE = 4


def most_slots() -> int:
    """Number of problems that keep the current card busy."""
    return SLOTS * devices.multiprocessors()


def largest_value(gram: Gram) -> float:
    """Estimate of the largest |kernel value|, from the diagonal, which may be 0, and two rows."""
    cp, corners = devices.cupy(), np.unique([0, gram.n - 1])
    largest = float(cp.maximum(cp.abs(gram.diag()).max(), cp.abs(gram.rows(corners)).max()))
    return largest if np.isfinite(largest) else 0.0


@dataclass(frozen=True)
class Start:
    """A problem to be put into a slot."""

    slot: int
    dual: Any
    coef: Floats  #: shape (m,) or (n_classes, m)
    responses: Floats | None  #: If they are known
    bound: int  #: Maximum number of iterations
    tol: float  #: First violation to reach
    again: bool = False  #: Whether the slot already worked on this problem


class Slots(ABC):
    """The device side: arrays for several problems of the same kind, and the launches that serve them all.

    There are at most `wanted` slots. `shape` is the shape of the coefficients of the largest problem: (m,) or
    (n_classes, m).
    """

    #: State of a slot, as in the .cu: fields of 8 bytes, among them done, round, iterations, count and moved.
    STATE: ClassVar[np.dtype[Any]]
    SET: ClassVar[int]  #: Examples or variables of a working set
    #: Number of arrays of the shape of the coefficients, beginning with the responses and the coefficients.
    PLANES: ClassVar[int]
    ROUNDS: ClassVar[tuple[str, devices.Defines]]  #: The .cu of the rounds, and its defines
    #: As in `textsvm.solvers.solution`.
    assess: ClassVar[Callable[..., solution.Solution]]
    warm_start: ClassVar[Callable[..., tuple[Floats, Floats | None]]]
    #: Device arrays of the kernels: changes, shape (count, SET) or (count, SET, classes), and row slots.
    moved: Any
    moved_slots: Any

    def __init__(self, gram: Gram, shape: tuple[int, ...], wanted: int, stopping: solution.Stopping) -> None:
        cp = devices.cupy()
        self.gram, self.window, self.stride = gram, self.window_of(gram), shape[-1]
        self.stopping, self.tolerances = stopping, self.checkpoints(stopping)
        self.resident = self.window.complete
        slot_bytes = self.bytes_each(shape)
        sizes = " x ".join(f"{size:,}" for size in shape)
        devices.require_memory(slot_bytes, f"the solver of {sizes} variables")
        most = min(wanted, most_slots()) if self.resident and wanted > 1 else 1
        self.count = max(1, min(most, devices.free_memory() // 2 // slot_bytes)) if most > 1 else 1
        self.values = cp.zeros((self.PLANES, self.count, *shape))
        self.members = cp.zeros((self.count, self.SET), np.int32)
        self.state = cp.zeros((self.count, self.STATE.itemsize // 8), np.int64)
        self.field("done")[:] = Done.CONVERGED
        self.largest = largest_value(gram)
        #: Rows of the Gram of each slot's variables, on the host.
        self.rows: list[Ints] = [np.zeros(0, np.int64)] * self.count
        self.arrays: AnyArray
        self.kernels: dict[str, Any]

    @abstractmethod
    def bytes_each(self, shape: tuple[int, ...]) -> int:
        """Bytes of device memory per slot."""

    @abstractmethod
    def put(self, starts: list[Start]) -> None:
        """Start problems in their slots."""

    @abstractmethod
    def round(self) -> None:
        """Launch one round of all slots; waits for the device only where rows have to be computed."""

    @abstractmethod
    def blocks(self, size: int, problems: int) -> int:
        """Number of blocks of `update`, for this number of problems of up to `size` variables or examples."""

    @abstractmethod
    def violations(self, state: AnyArray) -> Floats:
        """The violation of each of these states."""

    @abstractmethod
    def checkpoints(self, stopping: solution.Stopping) -> list[float]:
        """Violations at which the host checks the duality gap; the last is `tol`."""

    def window_of(self, gram: Gram) -> Window:
        """The rows that kernels read in place."""
        return gram.window()

    def add_rows(self, slot: int, coef: Floats) -> None:
        """Responses += K coef, for a start that is not zero."""
        cp = devices.cupy()
        moved = np.flatnonzero(coef.any(axis=tuple(range(coef.ndim - 1))))
        limit = min(self.SET, self.window.capacity)
        for start in range(0, len(moved), limit):
            block = moved[start : start + limit]
            rows = self.rows[slot][block]
            self.window.refill(np.unique(rows))
            changes = coef[..., block].T
            where = (slot, *(slice(length) for length in changes.shape))  # classes are padded on the device
            self.moved[where] = cp.asarray(changes)
            self.moved_slots[slot, : len(block)] = self.window.slots[cp.asarray(rows)]
            self.field("moved")[slot] = len(block)
            self.update(slot, 1)

    def update(self, first: int, problems: int) -> None:
        """Update the responses of these slots from the changes that their states count."""
        self.launch("update", (self.blocks(self.stride, problems),), 512, np.int32(first), np.int32(problems))

    def run(self) -> None:
        """Launch the rounds before the next check."""
        for _ in range(ROUNDS if self.resident else 1):
            self.round()

    def field(self, name: str) -> Any:
        """View of a field of the state of all slots, in device memory."""
        kind, offset = self.STATE.fields[name][:2]  # type: ignore[index]
        return self.state.view(kind)[:, offset // 8]

    def write_states(self, slots: list[int], states: AnyArray) -> None:
        """Set the states of these slots."""
        where = devices.cupy().asarray(slots)
        self.state[where] = devices.cupy().asarray(states.view(np.int64).reshape(len(slots), -1))

    def go_on(self, slot: int, tol: float) -> None:
        """Continue a problem, to a smaller tolerance."""
        self.field("tol")[slot] = tol
        self.field("done")[slot] = Done.RUNNING

    def check(self) -> tuple[Ints, Ints, Floats]:
        """For each slot the `Done` code, the iterations and the violation (NaN before the first round)."""
        state = self.state.get().view(self.STATE)[:, 0]
        violations = np.where(state["round"] > 0, self.violations(state), np.nan)
        return state["done"], state["iterations"], violations

    def take(self, slots: list[int]) -> tuple[list[Floats], list[Floats]]:
        """Copy the coefficients and responses of these slots to the host."""
        if not slots:
            return [], []
        both = self.values[:2, devices.cupy().asarray(slots)].get()
        sizes = [len(self.rows[slot]) for slot in slots]
        F, coef = ([np.ascontiguousarray(v[..., :m]) for v, m in zip(p, sizes, strict=True)] for p in both)
        return coef, F

    def launch(self, name: str, blocks: tuple[int, ...], threads: int, *others: Any, shared: int = 0) -> None:
        self.kernels[name](blocks, (threads,), (self.arrays, *others), shared_mem=shared)

    def load_rows(self) -> bool:
        """Load the rows of the only slot's working set; return False if the slot is done."""
        state = self.state.get().view(self.STATE)[0, 0]
        if state["done"]:
            return False
        members = self.members[0, : int(state["count"])].get()
        self.window.refill(np.unique(self.rows[0][members]))
        return True


@dataclass
class Job:
    """Work of a slot: the problems of a chain from the present problem `at` to `last` - 1."""

    chain: int
    at: int
    last: int
    step: int = 0  #: Index of the present tolerance in `Stopping.tolerances`
    worst: float = 0.0  #: Violation at the start
    best: float = np.inf  #: Smallest violation since
    inherited: float = 0.0  #: Error of the responses that this problem was started with
    before: int = 0  #: Iterations before the last restart
    renewals: int = 0  #: Number of restarts
    stopped: str = ""  #: Status if the run has ended for good


def stretches(chains: Sequence[Sequence[Any]], slots: int, cuts: bool) -> Iterator[tuple[int, int, int]]:
    """Cut chains into stretches for all slots, if allowed, the largest problems first.

    Yields (chain, first, last) for problems first..last-1 of a chain.
    """
    length = -(-sum(len(chain) for chain in chains) // slots)
    for c in sorted(range(len(chains)), key=lambda c: -len(chains[c][0])):
        chain = chains[c]
        # Zeros, where a stretch within a chain starts, have to be feasible.
        step = length if cuts and all(dual.total == 0 for dual in chain) else len(chain)
        for first in range(0, len(chain), step):
            yield c, first, min(first + step, len(chain))


class Queue:
    """The host side: assigns problems to slots until all are solved.

    Chains start from the coefficients `starts`. With `cuts` a problem within a chain may have a cold start in
    a free slot.
    """

    def __init__(
        self, slots: Slots, chains: Sequence[Sequence[Any]], starts: Sequence[Floats],
        progress: Progress | None, cuts: bool,
    ) -> None:  # fmt: skip
        self.slots, self.chains, self.starts, self.progress = slots, chains, starts, progress
        self.stopping, self.tolerances = slots.stopping, slots.tolerances
        self.results: list[list[solution.Solution | None]] = [[None] * len(chain) for chain in chains]
        self.problems, self.solved, self.reached = sum(len(chain) for chain in chains), 0, 0.0
        cut = stretches(chains, slots.count, cuts)
        self.waiting = (Job(c, first, last) for c, first, last in cut)
        self.jobs: list[Job | None] = [None] * slots.count
        self.starting: list[Start] = []

    def solve(self) -> list[list[solution.Solution]]:
        for slot in range(self.slots.count):
            self.fill(slot)
        ahead = False
        while any(self.jobs):
            self.slots.put(self.starting)
            self.starting = []
            if not ahead:
                self.slots.run()
            done, iterations, violations = self.slots.check()
            if (done == Done.NOT_FINITE).any():
                raise InputError(solution.NOT_FINITE)
            finished = [slot for slot, job in enumerate(self.jobs) if job and done[slot]]
            taken = self.slots.take(finished)
            # The other slots work while the host assesses the finished problems.
            ahead = len(finished) < sum(job is not None for job in self.jobs)
            if ahead:
                self.slots.run()
            for slot, coef, responses in zip(finished, *taken, strict=True):
                self.finish(slot, coef, responses, int(iterations[slot]), int(done[slot]))
                violations[slot] = np.nan  # of the previous problem
            self.report(violations)
        return self.results  # type: ignore[return-value]

    def fill(self, slot: int) -> None:
        """Assign the next stretch to a slot."""
        job = self.jobs[slot] = next(self.waiting, None)
        if job is None:
            return
        dual = self.chains[job.chain][job.at]
        coef = self.starts[job.chain] if job.at == 0 else np.zeros(len(dual))
        self.start(slot, dual, coef, None)

    def start(self, slot: int, dual: Any, coef: Floats, responses: Floats | None) -> None:
        """Have a problem start before the next round."""
        bound, tol = self.stopping.max_iterations(len(dual)), self.tolerances[0]
        self.starting.append(Start(slot, dual, coef, responses, bound, tol))

    def start_again(self, slot: int, coef: Floats, iterations: int, reason: int) -> bool:
        """Restart a problem from its coefficients if its responses may be inaccurate; whether it does."""
        job = self.jobs[slot]
        assert job is not None
        tol, error = self.tolerances[job.step], self.rounding(job, coef, iterations)
        doubted = error > solution.ROUNDING * tol
        if not error or (reason == Done.CONVERGED and not doubted):
            return False
        dual = self.chains[job.chain][job.at]
        if reason == Done.AT_BOUND or not doubted or job.renewals == solution.RENEWALS:
            job.stopped = self.status(dual, reason)
        job.inherited, job.before, job.renewals = 0.0, job.before + iterations, job.renewals + 1
        # With no iterations left it is only assessed.
        left = 0 if job.stopped else self.stopping.max_iterations(len(dual)) - job.before
        self.starting.append(Start(slot, dual, coef, None, left, tol, again=True))
        return True

    def rounding(self, job: Job, coef: Floats, iterations: int) -> float:
        """Estimated error of the responses of a problem."""
        values = np.abs(coef)
        size, most = float(values.sum(-1).max()), float(values.max())
        return job.inherited + solution.rounding(size, most, self.slots.largest, iterations)

    def status(self, dual: Any, reason: int) -> str:
        """Status of a problem that has not converged."""
        bound = f"stopped at {self.stopping.max_iterations(len(dual)):,} iterations"
        return bound if reason == Done.AT_BOUND else solution.NO_STEP_LEFT

    def finish(self, slot: int, coef: Floats, responses: Floats, iterations: int, reason: int) -> None:
        """Continue a problem that has reached a tolerance, or go on to the next problem of its stretch."""
        if self.start_again(slot, coef, iterations, reason):
            return
        job = self.jobs[slot]
        assert job is not None
        chain = self.chains[job.chain]
        dual, tol = chain[job.at], self.tolerances[job.step]
        status = job.stopped or self.status(dual, reason)
        passed = job.before + iterations
        result = self.slots.assess(dual, coef, responses, passed, status, self.stopping, tol)
        enough = not result.converged or self.stopping.satisfied(result.duality_gap)
        if not enough and job.step + 1 < len(self.tolerances):
            job.step += 1
            self.slots.go_on(slot, self.tolerances[job.step])
            return
        self.results[job.chain][job.at] = result
        self.solved += 1
        if job.at + 1 == job.last:
            self.fill(slot)
            return
        start, start_responses = self.slots.warm_start(chain[job.at + 1], dual, result)
        error = self.rounding(job, coef, iterations)
        carried = 0.0 if start_responses is None else solution.carried_over(error, dual, coef, start)
        job = self.jobs[slot] = Job(job.chain, job.at + 1, job.last, inherited=carried)
        self.start(slot, chain[job.at], start, start_responses)

    def report(self, violations: Floats) -> None:
        """Report the progress of all problems together."""
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
                done, total = solution.log_progress(job.worst, job.best, self.stopping.tol)
                reached += done / total
        self.reached = min(max(self.reached, reached), float(self.problems))
        self.progress(self.reached, float(self.problems))
