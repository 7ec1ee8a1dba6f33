"""The dual on a GPU: working sets solved by one block, all responses updated by the whole chip.

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

Arrays, on the device, m variables, SET = 1,024:
    F, coef, low, high   float64 (m,)
    diag                 float32 (m,)
    index                int32 (m,)      row of the Gram of each variable
    entered              int32 (m,)      round in which a variable of the set entered it, -1 for others
    marks, keys          uint8, uint32 (m,)   of `choose`
    members              int32 (SET,)    the set, in order of its variables
    tile                 float32 (SET, SET)
    moved, moved_slots   float64, int32 (SET,)  changes of b, and where those rows are in the Gram's buffer
    state, figures       int64, float64 (8,)    see smo.cu

Independent problems fit side by side as further blocks of `choose` and `solve_set`: nothing is shared.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm import device as devices
from textsvm.device import Device
from textsvm.errors import InputError
from textsvm.gram.base import Gram
from textsvm.parallel import Progress
from textsvm.solvers.dual import Dual
from textsvm.solvers.solution import Solution, assess, bounds

THREADS, PER_THREAD = 256, 4
SET = THREADS * PER_THREAD
SOURCE = "smo.cu"
#: What smo.cu is compiled with, for the compile test.
DEFINE_SETS: list[tuple[str, devices.Defines]] = [
    (SOURCE, (("THREADS", THREADS), ("PER_THREAD", PER_THREAD)))
]
#: Violation of the set, as a fraction of that of all variables, at which a round ends.
SHARE = 0.3
#: Steps of pairs after the first SET of a round, in units of the pair's own best one.
RELAXATION = 1.6
#: Rounds launched before the host looks, and pairs a round at most (some 40 ms).
ROUNDS, PAIRS = 4, 50_000
_DONE, _ITERATIONS, _COUNT, _MOVED = 0, 2, 3, 4
_STATUS = {3: "stalled: no step is left in float64", 4: "not finite"}


def solve(
    gram: Gram, dual: Dual, coef: NDArray[np.float64], tol: float, bound: int, progress: Progress | None
) -> Solution:
    """Solve a dual over a Gram in device memory; see `textsvm.solvers.smo.solve`.

    Parameters
    ----------
    coef : float64 array, shape (m,)
        sign * alpha to start from.
    bound : int
        Most pairs to optimise.

    Raises
    ------
    InputError
        If the device has too little memory, or the Gram holds a value that is not a finite number.
    """
    card = Device("cuda", gram.buffer.device.id, f"cuda:{gram.buffer.device.id}")
    with devices.use(card):
        return _Run(gram, dual, coef, tol, bound, progress).solve()


class _Run:
    """One solve: its arrays on the device, and the launches."""

    def __init__(
        self,
        gram: Gram,
        dual: Dual,
        coef: NDArray[np.float64],
        tol: float,
        bound: int,
        progress: Progress | None,
    ) -> None:
        cp = devices.cupy()
        m = len(dual)
        devices.require_memory(64 * m + 4 * SET * (SET + 8), f"the solver of {m:,} variables")
        self.gram, self.dual, self.tol, self.bound, self.progress = gram, dual, tol, bound, progress
        self.resident = bool((gram.slots >= 0).all())
        self.limit = min(SET, m, gram.buffer.shape[0])
        module = devices.load(SOURCE, DEFINE_SETS[0][1])
        self.kernels = {
            name: module.get_function(name) for name in ("choose", "gather", "solve_set", "update")
        }
        low, high = bounds(dual)
        self.index = cp.asarray(dual.index, np.int32)
        self.low, self.high = cp.asarray(low), cp.asarray(high)
        self.diag = cp.ascontiguousarray(gram.diag()[self.index], np.float32)
        self.F, self.coef = cp.asarray(dual.sign * dual.linear + 0.0), cp.asarray(coef)
        self.entered = cp.full(m, -1, np.int32)
        self.marks, self.keys = cp.zeros(m, np.uint8), cp.zeros(m, np.uint32)
        self.members = cp.zeros(SET, np.int32)
        self.tile = cp.empty((SET, SET), np.float32)
        self.moved, self.moved_slots = cp.zeros(SET), cp.zeros(SET, np.int32)
        self.state, self.figures = cp.zeros(8, np.int64), cp.zeros(8)
        if not bool(cp.isfinite(self.diag).all()):
            raise InputError("the kernel matrix holds a value that is not a finite number")
        self.add_rows(coef)

    def solve(self) -> Solution:
        from textsvm.solvers.smo import log_progress

        worst = best = None
        while True:
            for _ in range(ROUNDS if self.resident else 1):
                self.round()
            state, (first, last) = self.state.get(), self.figures[:2].get().tolist()
            best = first - last if best is None else min(best, first - last)
            worst = best if worst is None else worst
            if self.progress is not None:
                self.progress(*log_progress(worst, best, self.tol))
            if state[_DONE]:
                break
        status = _STATUS.get(int(state[_DONE]), f"stopped at {self.bound:,} iterations")
        if status == "not finite":
            raise InputError("the kernel matrix holds a value that is not a finite number")
        return assess(self.dual, self.coef.get(), self.F.get(), int(state[_ITERATIONS]), status, self.tol)

    def round(self) -> None:
        """One round; launches only, unless rows have to be computed."""
        m, n = len(self.dual), self.gram.n
        self.launch(
            "choose", 1, 1024, np.int32(m), np.int32(self.limit), np.float64(self.tol), np.int64(self.bound),
            self.F, self.coef, self.low, self.high, self.entered, self.marks, self.keys, self.members,
            self.state, self.figures,
        )  # fmt: skip
        if not self.resident and not self.load_rows():
            return
        self.launch(
            "gather", self.limit, 256, self.gram.buffer, np.int64(n), self.gram.slots, self.index,
            self.members, self.state, self.tile,
        )  # fmt: skip
        self.launch(
            "solve_set", 1, THREADS, np.float64(self.tol), np.float64(SHARE), np.float32(RELAXATION),
            np.int32(PAIRS),
            np.int64(self.bound), np.int32(self.limit == m), self.gram.slots, self.index, self.members,
            self.diag, self.low, self.high, self.F, self.tile, self.coef, self.moved, self.moved_slots,
            self.state, self.figures,
        )  # fmt: skip
        self.update()

    def update(self) -> None:
        m = len(self.dual)
        self.launch(
            "update", -(-m // 32), 512, np.int32(m), self.gram.buffer, np.int64(self.gram.n), self.index,
            self.moved, self.moved_slots, self.state, self.F,
        )  # fmt: skip

    def launch(self, name: str, blocks: int, threads: int, *arguments: Any) -> None:
        self.kernels[name]((blocks,), (threads,), arguments)

    def load_rows(self) -> bool:
        """Make the working set's rows resident; False when the work is done."""
        state = self.state.get()
        if state[_DONE]:
            return False
        members = self.members[: int(state[_COUNT])].get()
        self.gram.load(np.unique(self.dual.index[members]))
        return True

    def add_rows(self, coef: NDArray[np.float64]) -> None:
        """F += K coef, for a start that is not zero."""
        moved = np.flatnonzero(coef)
        for start in range(0, len(moved), self.limit):
            some = moved[start : start + self.limit]
            rows = self.dual.index[some]
            self.gram.load(np.unique(rows))
            self.moved[: len(some)] = self.coef[some]
            self.moved_slots[: len(some)] = self.gram.slots[rows]
            self.state[_MOVED] = len(some)
            self.update()
