"""SMO on a GPU: a block solves each working set, the whole chip updates all responses.

The problem is that of `textsvm.solvers.smo`, in its label-free form, with the same responses F = Kb + q in
float64. A round is four kernels of kernels_cu/smo.cu, and none of them waits for the host:

    choose     m(b), M(b) and the stopping rule; then the working set: variables that entered in the last
               round (half of the set at most), the worst violators that can grow, the worst that can shrink
    gather     the float32 tile of the set's rows and columns, 4 MB that stay in the L2 cache
    solve_set  a block optimises pairs of the set as the CPU twin does (Fan, Chen, Lin 2005), responses in
               float32 on chip, until the set's violation is 0.3 of that of all variables before the round.
               Pairs after the first 1,024 of a round over-relax, as in the CPU twin.
    update     F += sum over the changed variables of (change of b) K, by the whole chip

A set of 1,024 holds the free variables of an ill-conditioned problem together; smaller sets separate them.
Measured on Table 3 of Shi et al. 2010, sets of 1,024 take 11 to 40 rounds and no more pairs than plain SMO,
sets of 256 take hundreds of rounds. Inside a round, responses minus their middle are float32: they choose
pairs and steps, and the nearer to the optimum, the smaller they and their rounding are. The changes of b are
float64, and `update` computes F of the set too from these changes alone: no error of float32 outlives a
round. `textsvm.solvers.cuda_queue` controls the rounding errors that add up in float64.

Side by side (`textsvm.solvers.cuda_queue`). A set that takes many pairs is paused after BURST of them and
continued in the next round, or all slots would wait for the slowest. Chains are cut into as many stretches
as there are slots: a cold start in a free slot is faster than waiting for another solution.

Arrays, on the device; P slots of problems of up to m variables, SET = 1,024:

    F, coef, low, high   float64 (4, P, m)
    index                int32 (P, m)            row of the Gram of each variable
    entered              int32 (P, m)            round in which a variable entered the set; -1 outside of it
    marks, keys          uint8, uint32 (P, m)    of `choose`
    members              int32 (P, SET)          the set, in order of its variables
    tile                 float32 (P, SET, SET)
    moved, moved_slots   float64, int32 (P, SET) changes of b, and slots of their rows in the Gram's buffer
    state                int64 (P, 14)           STATE: CuPy has no arrays of structures
"""

from __future__ import annotations

import numpy as np

from textsvm.arrays import AnyArray, Floats
from textsvm.gram.base import Gram
from textsvm.runtime import device as devices
from textsvm.solvers import cuda_queue, shards_cuda
from textsvm.solvers.solution import RELAXATION, SHARE, Stopping, assess, bounds, warm_start

THREADS, PER_THREAD = 256, 4
SET = THREADS * PER_THREAD
SOURCE = "smo.cu"
#: Defines that smo.cu is compiled with, for the compile test.
DEFINE_SETS: list[tuple[str, devices.Defines]] = [
    (SOURCE, (("THREADS", THREADS), ("PER_THREAD", PER_THREAD)))
]
PAIRS = 50_000  #: Maximum number of pairs of a set in a round (some 40 ms).
BURST = 2_000  #: Maximum number of pairs of a set in a launch that several problems share.
GATHERERS = 16_384  #: Blocks that gather tiles, for all slots together.
#: State of a slot: State of smo.cu, every field 8 bytes.
STATE = devices.layout(
    "int64 done round iterations count moved stalls paused size limit bound",
    "float64 first last decrease tol",
)
#: Argument of every kernel: Arrays of smo.cu.
ARRAYS = devices.layout(
    "uint64 rows resident diag low high index F coef entered marks keys members tile moved moved_slots state",
    "int64 n stride",
    "float64 share",
    "float32 relaxation",
    "int32 burst most",
)


class DualSlots(cuda_queue.Slots):
    """Slots for problems of type `Dual`."""

    STATE, SET, PLANES, ROUNDS = STATE, SET, 4, DEFINE_SETS[0]
    warm_start, assess = staticmethod(warm_start), staticmethod(assess)

    def __init__(self, gram: Gram, shape: tuple[int, ...], wanted: int, stopping: Stopping) -> None:
        super().__init__(gram, shape, wanted, stopping)
        cp, count, stride = devices.cupy(), self.count, self.stride
        module = devices.load(*self.ROUNDS)
        names = ("choose", "gather", "solve_set", "update")
        self.kernels = {name: module.get_function(name) for name in names}
        self.diag = cp.ascontiguousarray(gram.diag(), np.float32)
        self.F, self.coef, self.low, self.high = self.values
        self.index = cp.zeros((count, stride), np.int32)
        self.entered = cp.empty((count, stride), np.int32)
        self.marks, self.keys = cp.zeros((count, stride), np.uint8), cp.empty((count, stride), np.uint32)
        self.tile = cp.empty((count, SET, SET), np.float32)
        self.moved, self.moved_slots = cp.zeros((count, SET)), cp.zeros((count, SET), np.int32)
        self.arrays = devices.structure(
            ARRAYS, self, rows=self.window.values, resident=self.window.slots, n=gram.n, share=SHARE,
            relaxation=RELAXATION, burst=PAIRS if count == 1 else BURST, most=PAIRS,
        )  # fmt: skip

    def bytes_each(self, shape: tuple[int, ...]) -> int:
        return 45 * shape[-1] + 4 * SET * (SET + 4) + STATE.itemsize

    def checkpoints(self, stopping: Stopping) -> list[float]:
        return stopping.tolerances()

    def violations(self, state: AnyArray) -> Floats:
        return state["first"] - state["last"]

    def put(self, starts: list[cuda_queue.Start]) -> None:
        """Start problems, with one copy to the device for all."""
        if not starts:
            return
        cp = devices.cupy()
        m = max(len(start.dual) for start in starts)
        values, index = np.zeros((4, len(starts), m)), np.zeros((len(starts), m), np.int32)
        state = np.zeros(len(starts), STATE)
        for k, start in enumerate(starts):
            dual, size = start.dual, len(start.dual)
            q = dual.sign * dual.linear if start.responses is None else start.responses
            for row, part in zip(values[:, k], (q, start.coef, *bounds(dual)), strict=True):
                row[:size] = part
            index[k, :size] = dual.index
            self.rows[start.slot] = dual.index
            state["size"][k], state["limit"][k] = size, min(SET, size, self.window.capacity)
            state["bound"][k], state["tol"][k] = start.bound, start.tol
            if start.again:  # the stall test compares with the total decrease of the objective
                state["decrease"][k] = float(self.field("decrease")[start.slot])
        numbers = [start.slot for start in starts]
        slots = cp.asarray(numbers)
        self.values[:, slots, :m] = cp.asarray(values)
        self.index[slots, :m] = cp.asarray(index)
        self.entered[slots] = -1
        self.write_states(numbers, state)
        for start in starts:
            if start.responses is None:
                self.add_rows(start.slot, start.coef)

    def round(self) -> None:
        self.launch("choose", (self.count,), 1024)
        if not self.resident and not self.load_rows():
            return
        self.gather()
        self.launch("solve_set", (self.count,), THREADS)
        self.update(0, self.count)

    def gather(self) -> None:
        self.launch("gather", (min(SET, max(1, GATHERERS // self.count)), self.count), 256)

    def blocks(self, size: int, problems: int) -> int:
        return -(-size // 32) * problems

    def add_rows(self, slot: int, coef: Floats) -> None:
        super().add_rows(slot, coef)
        if coef.any():
            self.field("moved")[slot] = 0


class ShardedDualSlots(shards_cuda.ShardedSlots, DualSlots):
    """Slots for problems of type `Dual`, over several cards."""

    STRUCTURE, RESPONSES = ARRAYS, "F"
