"""Crammer and Singer's machine on a GPU: a block per working set, gradients updated by the whole chip.

The problem, the step of an example and the rounds are described in `textsvm.solvers.crammer_singer`. A round
is six kernels of kernels_cu/crammer_singer.cu and crammer_singer_set.cu; none of them waits for the host:

    choose     the violation of all, -D, P - D and the stopping rules; then the working set
    gather     the set's tile of kernel values, which stays in the L2 cache, its coefficients and gradients
    solve_set  a block sweeps over the set: warps compute the steps of examples, each lane a class; the
               others update the gradients meanwhile, four examples per thread
    put        the changes, row by row, with sums that are 0 in float64
    update     G += K change, by the whole chip: blocks of 32 examples x 32 classes, by tensor cores
    measure    the violation of each example, and its terms of -D and P - D

Inside a round the gradients of an example, minus their middle, are float32: in registers up to 32 classes,
else in shared memory where it holds k x 1,024 of them. They choose steps, and the nearer to the optimum, the
smaller they and their rounding are. Coefficients are float64, and `update` computes the gradients of the set
too from their changes alone: no error of float32 outlives a round. The cost of a step is latency.

Problems with the same number of classes run side by side (`textsvm.solvers.cuda_queue`), a chain per slot.

Arrays, on the device; P slots, m examples, k classes, SET = 1,024, k' = k rounded up to a multiple of 8:

    G, coef           float64 (2, P, k, m)
    upper, middle     float64 (P, m)               bounds; middle of the top and of gradients that can grow
    objective, gap    float64 (P, m)               parts of -D and P - D
    index, target     int32 (P, m)
    keys              uint32 (P, m)                violations, float32, as integers
    entered, marks    int32, uint8 (P, m)          of `choose`
    members, places   int32 (P, SET)               the set; place of each example in `moved`
    tile              float32 (P, SET, SET)
    set_g             float32 (P, k + 1, SET + 4)
    set_grows         uint32 (P, k / 32, SET + 4)  bit r: class r can grow
    set_a             float64 (P, SET, k)
    moved             float64 (P, SET, k')         changes
    moved_slots       int32 (P, SET)               slots of their rows in the buffer
    state             int64 (P, 16)                STATE: CuPy has no arrays of structures
"""

from __future__ import annotations

from typing import Any

import numpy as np

from textsvm.arrays import AnyArray, Floats
from textsvm.errors import InputError
from textsvm.gram.base import Gram
from textsvm.runtime import device as devices
from textsvm.solvers import cuda_queue, shards_cuda
from textsvm.solvers.dual import MulticlassDual
from textsvm.solvers.solution import (
    RELAXATION,
    SHARE,
    Solution,
    Stopping,
    assess_multiclass,
    start_multiclass,
)

SET = 1024
#: Sources of the rounds, and of the block that solves a working set.
ROUNDS_SOURCE, SET_SOURCE = "crammer_singer.cu", "crammer_singer_set.cu"
#: Variants of crammer_singer_set.cu: classes per lane, and whether gradients are on chip: of one class per
#: lane in registers, of more in shared memory.
VARIANTS = [(1, 1), (4, 1), (4, 0), (16, 0)]
DEFINE_SETS: list[tuple[str, devices.Defines]] = [
    *((SET_SOURCE, (("SET", SET), ("PER_LANE", lanes), ("ON_CHIP", chip))) for lanes, chip in VARIANTS),
    (ROUNDS_SOURCE, (("SET", SET),)),
    (ROUNDS_SOURCE, (("SET", SET), ("SHARDED", 1))),
]
STEPS = 40_000  #: Maximum number of steps of a round (some 40 ms).
_STATIC = 24 << 10  #: Static shared memory of `solve_set`.
#: State of a slot: State of crammer_singer.cuh, every field 8 bytes.
STATE = devices.layout(
    "int64 done round iterations count moved stalls size limit bound",
    "float64 violation objective gap least_violation least tol gap_bound",
)
#: Argument of every kernel: Arrays of crammer_singer.cuh.
ARRAYS = devices.layout(
    "uint64 rows resident index target upper G coef keys middle objective gap entered marks members places",
    "uint64 tile set_g set_grows set_a moved moved_slots state",
    "int64 n stride",
    "float64 share",
    "float32 relaxation",
    "int32 k k_padded most",
)


class MulticlassSlots(cuda_queue.Slots):
    """Slots for problems of type `MulticlassDual`."""

    STATE, SET, PLANES, ROUNDS = STATE, SET, 2, DEFINE_SETS[-2]
    assess = staticmethod(assess_multiclass)

    def __init__(self, gram: Gram, shape: tuple[int, ...], wanted: int, stopping: Stopping) -> None:
        self.k = k = shape[0]
        self.padded = -(-k // 8) * 8
        stages = 3 if devices.shared_memory() > 80 << 10 else 2  # STAGES of SET_SOURCE: from sm_80 on
        rows = 4 * stages * SET if k <= 32 else (k + 1) * (SET + 4)  # of the tile, or gradients
        self.on_chip = 4 * (rows + -(-k // 32) * (SET + 4))
        self.kernels = self.load()
        super().__init__(gram, shape, wanted, stopping)
        cp, count, stride = devices.cupy(), self.count, self.stride
        self.G, self.coef = self.values
        self.upper, self.middle, self.objective, self.gap = cp.zeros((4, count, stride))
        self.index, self.target, self.entered = cp.zeros((3, count, stride), np.int32)
        self.keys, self.marks = cp.zeros((count, stride), np.uint32), cp.zeros((count, stride), np.uint8)
        self.places, self.moved_slots = cp.zeros((2, count, SET), np.int32)
        self.tile = cp.empty((count, SET, SET), np.float32)
        self.set_g = cp.zeros((count, k + 1, SET + 4), np.float32)
        self.set_grows = cp.zeros((count, -(-k // 32), SET + 4), np.uint32)
        self.set_a = cp.zeros((count, SET, k))
        self.moved = cp.zeros((count, SET, self.padded))
        self.arrays = devices.structure(
            ARRAYS, self, rows=self.window.values, resident=self.window.slots, n=gram.n, share=SHARE,
            relaxation=RELAXATION, k_padded=self.padded, most=STEPS,
        )  # fmt: skip

    def load(self) -> dict[str, Any]:
        """Load the kernels for k classes."""
        room = devices.shared_memory() - _STATIC
        fits = [lanes for lanes, _ in VARIANTS if 32 * lanes >= self.k]
        if not fits:
            raise InputError(
                f"Crammer-Singer on a GPU takes at most {32 * VARIANTS[-1][0]} classes, got {self.k}; run it "
                "with --device cpu, or use one-vs-rest"
            )
        if self.on_chip > room or (fits[0], 1) not in VARIANTS:
            self.on_chip = 0
        rounds = devices.load(*self.ROUNDS)
        solver = devices.load(*DEFINE_SETS[VARIANTS.index((fits[0], int(self.on_chip > 0)))])
        names = ("choose", "gather", "put", "update", "measure")
        kernels = {name: rounds.get_function(name) for name in names}
        kernels["solve_set"] = solver.get_function("solve_set")
        if self.on_chip:
            kernels["solve_set"].max_dynamic_shared_size_bytes = self.on_chip
        return kernels

    def bytes_each(self, shape: tuple[int, ...]) -> int:
        return shape[1] * (16 * self.k + 64) + SET * (4 * SET + 24 * self.padded + 64)

    def checkpoints(self, stopping: Stopping) -> list[float]:
        return [stopping.tol]  # `choose` checks the duality gap in every round

    def violations(self, state: AnyArray) -> Floats:
        return state["violation"]

    @staticmethod
    def warm_start(
        dual: MulticlassDual, former: MulticlassDual, solution: Solution
    ) -> tuple[Floats, Floats | None]:
        return start_multiclass(dual, solution.coef), None

    def put(self, starts: list[cuda_queue.Start]) -> None:
        if not starts:
            return
        cp = devices.cupy()
        state = np.zeros(len(starts), STATE)
        gap_bound = -1.0 if self.stopping.duality_gap is None else self.stopping.duality_gap
        for j, start in enumerate(starts):
            dual, slot, m = start.dual, start.slot, len(start.dual)
            self.rows[slot] = dual.index
            self.G[slot, :, :m] = cp.asarray(dual.gradient_at_zero())
            if start.coef.any():
                self.coef[slot, :, :m] = cp.asarray(start.coef)
            else:
                self.coef[slot].data.memset_async(0, self.coef[slot].nbytes)
            self.upper[slot, :m] = cp.asarray(dual.upper)
            self.index[slot, :m] = cp.asarray(dual.index, np.int32)
            self.target[slot, :m] = cp.asarray(dual.target, np.int32)
            self.entered[slot] = -1
            state["size"][j], state["limit"][j] = m, min(SET, m, self.window.capacity)
            state["bound"][j], state["tol"][j], state["gap_bound"][j] = start.bound, start.tol, gap_bound
        self.write_states([start.slot for start in starts], state)
        for start in starts:
            self.add_rows(start.slot, start.coef)
        self.measure()  # of running slots too, where it changes nothing

    def round(self) -> None:
        self.launch("choose", (self.count,), 1024)
        if not self.resident and not self.load_rows():
            return
        self.gather()
        threads = SET // 4 + (128 if self.k <= 32 else 32)
        self.launch("solve_set", (self.count,), threads, shared=self.on_chip)
        self.launch("put", (SET, self.count), 32)
        self.update(0, self.count)
        self.measure()

    def gather(self) -> None:
        """Copy the tiles of all slots, and the coefficients and gradients of their sets."""
        self.launch("gather", (SET, self.count), 256)

    def blocks(self, size: int, problems: int) -> int:
        return -(-size // 32) * -(-self.padded // 32) * problems

    def measure(self) -> None:
        """Compute violations and terms of the objective."""
        self.launch("measure", (-(-self.stride // 64), self.count), 64)


class ShardedMulticlassSlots(shards_cuda.ShardedSlots, MulticlassSlots):
    """Slots for problems of type `MulticlassDual`, over several cards."""

    ROUNDS, STRUCTURE, RESPONSES = DEFINE_SETS[-1], ARRAYS, "G"

    def gather(self) -> None:
        super().gather()
        MulticlassSlots.gather(self)
