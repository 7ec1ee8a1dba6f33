"""The multiclass dual on a GPU: working sets solved by one block, all gradients updated by the whole chip.

The problem, the step of one example and the rounds are those of `textsvm.solvers.crammer_singer`. A round is
six kernels of kernels_cu/crammer_singer.cu, and no step of it waits for the host:

    choose     the violation of all, -D, P - D and the stopping rules; then the working set
    gather     the set's tile of kernel values, which stays in the L2 cache, its coefficients and gradients
    solve_set  one block sweeps over the set: one warp works out the step of an example, its classes one a
               lane; all warps then update the gradients, four examples a thread
    put        what has changed, row by row, with sums that are 0 in float64
    update     G += K change, by the whole chip: blocks of 32 examples x 8 classes
    measure    the violation of each example, and its part of -D and P - D

Inside a round the gradients of an example, less their middle, are float32, in shared memory where it holds
k x 1,024 of them: they choose steps, and the nearer to the optimum, the smaller they and their rounding are.
Coefficients are float64, and `update` works out the gradients of the set too, from their changes alone: no
error outlives a round. A step takes about 1 us, however many classes change: what costs is its latency.

Arrays, on the device; m examples, k classes, SET = 1,024, k' = k rounded up to a multiple of 8:
    G, coef              float64 (k, m)
    upper, middle        float64 (m,)       bounds; middle of the gradients of those that can grow and the top
    objective, gap       float64 (m,)       parts of -D and P - D
    index, target        int32 (m,)
    keys                 uint32 (m,)        violations, float32, as integers
    entered, marks       int32, uint8 (m,)  of `choose`
    members, places      int32 (SET,)       the set; which of `moved` is an example's
    tile                 float32 (SET, SET)
    set_g, set_grows     float32 (k + 1, SET + 4), uint32 (k / 32, SET + 4)   bit r: class r can grow
    set_a                float64 (SET, k)
    moved, moved_slots   float64 (SET, k'), int32 (SET,)  changes, and where those rows are in the buffer
    state, figures       int64, float64 (8,)   see crammer_singer.cu
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm import device as devices
from textsvm.errors import InputError
from textsvm.gram.base import Gram
from textsvm.parallel import Progress
from textsvm.solvers.crammer_singer import NOT_FINITE, RELAXATION, SHARE
from textsvm.solvers.crammer_singer_problem import Problem, Solution
from textsvm.solvers.solution import log_progress

SOURCE = "crammer_singer.cu"
SET = 1024
#: Classes a lane, gradients in shared memory or not: what crammer_singer.cu is compiled with.
VARIANTS = [(1, 1), (1, 0), (4, 1), (4, 0), (16, 0)]
DEFINE_SETS: list[tuple[str, devices.Defines]] = [
    (SOURCE, (("SET", SET), ("PER_LANE", lanes), ("ON_CHIP", chip))) for lanes, chip in VARIANTS
]
#: Rounds launched before the host looks, and steps of a round at most (some 40 ms).
ROUNDS, STEPS = 4, 40_000
#: Shared memory of `solve_set` besides the gradients.
_STATIC = 24 << 10
_DONE, _ITERATIONS, _COUNT, _MOVED = 0, 2, 3, 4
_AT_BOUND, _STALLED, _NOT_FINITE = 2, 3, 4


def solve(gram: Gram, problem: Problem, coef: NDArray[np.float64], progress: Progress | None) -> Solution:
    """Solve a problem over a Gram in device memory, starting from `coef`.

    Raises
    ------
    InputError
        If the device has too little memory, there are more than 512 classes, or the Gram holds a value that
        is not a finite number.
    """
    with devices.use(gram.device):
        return _Run(gram, problem, coef, progress).solve()


class _Run:
    """One solve: its arrays on the device, and the launches."""

    def __init__(
        self, gram: Gram, problem: Problem, coef: NDArray[np.float64], progress: Progress | None
    ) -> None:
        cp = devices.cupy()
        m, k = len(problem), problem.n_classes
        self.gram, self.window = gram, gram.window()
        self.problem, self.progress = problem, progress
        self.resident = self.window.complete
        self.limit = min(SET, m, self.window.capacity)
        self.padded = -(-k // 8) * 8
        devices.require_memory(
            m * (16 * k + 64) + SET * (4 * SET + 24 * self.padded + 64),
            f"the solver of {m:,} examples of {k} classes",
        )
        self.on_chip = 4 * (k + 1 + -(-k // 32)) * (SET + 4)
        self.kernels = self.load(k)
        self.index = cp.asarray(problem.index, np.int32)
        self.target = cp.asarray(problem.target, np.int32)
        self.upper = cp.asarray(problem.upper)
        self.G, self.coef = cp.asarray(problem.start()), cp.asarray(coef)
        self.middle, self.objective, self.gap = cp.zeros((3, m))
        self.keys, self.marks = cp.zeros(m, np.uint32), cp.zeros(m, np.uint8)
        self.entered = cp.full(m, -1, np.int32)
        self.members, self.places = cp.zeros((2, SET), np.int32)
        self.tile = cp.empty((SET, SET), np.float32)
        self.set_g = cp.zeros((k + 1, SET + 4), np.float32)
        self.set_grows = cp.zeros((-(-k // 32), SET + 4), np.uint32)
        self.set_a = cp.zeros((SET, k))
        self.moved, self.moved_slots = cp.zeros((SET, self.padded)), cp.zeros(SET, np.int32)
        self.state, self.figures = cp.zeros(8, np.int64), cp.zeros(8)
        self.add_rows(coef)

    def load(self, k: int) -> dict[str, Any]:
        """The kernels for k classes."""
        cp = devices.cupy()
        room = cp.cuda.Device().attributes["MaxSharedMemoryPerBlockOptin"] - _STATIC
        fits = [lanes for lanes, _ in VARIANTS if 32 * lanes >= k]
        if not fits:
            raise InputError(
                f"there are {k} classes, and Crammer-Singer takes at most {32 * VARIANTS[-1][0]} on a GPU; "
                "run it with --device cpu, or take one-vs-rest"
            )
        if self.on_chip > room or (fits[0], 1) not in VARIANTS:
            self.on_chip = 0
        module = devices.load(*DEFINE_SETS[VARIANTS.index((fits[0], int(self.on_chip > 0)))])
        names = ("choose", "gather", "solve_set", "put", "update", "measure")
        kernels = {name: module.get_function(name) for name in names}
        if self.on_chip:
            kernels["solve_set"].max_dynamic_shared_size_bytes = self.on_chip
        return kernels

    def solve(self) -> Solution:
        problem = self.problem
        first = best = None
        while True:
            for _ in range(ROUNDS if self.resident else 1):
                self.round()
            state, violation = self.state.get(), float(self.figures[0])
            best = violation if best is None else min(best, violation)
            first = best if first is None else first
            if state[_DONE] == _NOT_FINITE:
                raise InputError(NOT_FINITE)
            if self.progress is not None:
                self.progress(*log_progress(first, best, problem.tol))
            if state[_DONE]:
                break
        status = {
            _AT_BOUND: f"stopped at {problem.bound:,} iterations",
            _STALLED: "stalled: no step is left in float64",
        }.get(int(state[_DONE]), "converged")
        return problem.assess(self.coef.get(), self.G.get(), int(state[_ITERATIONS]), status)

    def round(self) -> None:
        """One round; launches only, unless rows have to be computed."""
        problem, gram = self.problem, self.gram
        m, k, n = np.int32(len(problem)), np.int32(problem.n_classes), np.int64(gram.n)
        tol = np.float64(problem.tol)
        self.launch(
            "choose", 1, 1024, m, np.int32(self.limit), tol, np.float64(problem.duality_gap),
            np.int64(problem.bound), self.keys, self.objective, self.gap, self.entered, self.marks,
            self.members, self.state, self.figures,
        )  # fmt: skip
        if not self.resident and not self.load_rows():
            return
        self.launch(
            "gather", SET, 256, m, k, self.window.values, n, self.window.slots, self.index,
            self.members, self.G, self.coef, self.upper, self.target, self.middle, self.state, self.tile,
            self.set_g, self.set_grows, self.set_a,
        )  # fmt: skip
        self.launch(
            "solve_set", 1, SET // 4, k, tol, np.float64(SHARE), np.float32(RELAXATION), np.int32(STEPS),
            np.int64(problem.bound), np.int32(self.limit == m), self.members, self.upper, self.target,
            self.tile, self.set_g, self.set_grows, self.set_a, self.places, self.state, self.figures,
            shared=self.on_chip,
        )  # fmt: skip
        self.launch(
            "put", SET, 32, m, k, np.int32(self.padded), self.window.slots, self.index,
            self.members, self.places, self.upper, self.target, self.set_a, self.state, self.coef, self.moved,
            self.moved_slots,
        )  # fmt: skip
        self.update()
        self.measure()

    def update(self) -> None:
        m, k = len(self.problem), self.problem.n_classes
        self.launch(
            "update", -(-m // 32) * self.padded // 8, 512, np.int32(m), np.int32(k), np.int32(self.padded),
            self.window.values, np.int64(self.gram.n), self.index, self.moved, self.moved_slots, self.state,
            self.G,
        )  # fmt: skip

    def measure(self) -> None:
        m = len(self.problem)
        self.launch(
            "measure", -(-m // 64), 64, np.int32(m), np.int32(self.problem.n_classes), self.G, self.coef,
            self.upper, self.target, self.keys, self.middle, self.objective, self.gap, self.state,
        )  # fmt: skip

    def launch(self, name: str, blocks: int, threads: int, *arguments: Any, shared: int = 0) -> None:
        self.kernels[name]((blocks,), (threads,), arguments, shared_mem=shared)

    def load_rows(self) -> bool:
        """Make the working set's rows resident; False when the work is done."""
        state = self.state.get()
        if state[_DONE]:
            return False
        members = self.members[: int(state[_COUNT])].get()
        self.window.refill(np.unique(self.problem.index[members]))
        return True

    def add_rows(self, coef: NDArray[np.float64]) -> None:
        """G += K coef, for a start that is not zero, and the first look at the violations."""
        moved = np.flatnonzero(coef.any(0))
        for start in range(0, len(moved), self.limit):
            some = moved[start : start + self.limit]
            rows = self.problem.index[some]
            self.window.refill(np.unique(rows))
            self.moved[: len(some), : len(coef)] = devices.cupy().asarray(coef[:, some].T)
            self.moved_slots[: len(some)] = self.window.slots[rows]
            self.state[_MOVED] = len(some)
            self.update()
        self.measure()
