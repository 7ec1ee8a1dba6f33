"""Duals on several cards: the Gram in shards of columns, everything else on the first card.

The kernels that choose and solve working sets do not change, and neither do the sums: the change of a
variable's response is computed by the card that has its column, in the same order as on a single card.
Results are bit for bit those of a card that holds the whole matrix. The additional kernels of a round
(kernels_cu/shards.cu), which read and write the first card's memory:

    gather     each card reads the set and writes the columns it has into the tile: for two cards 2 MB of 4 go
               over the bus
    fetch      each card copies the changes, 12 bytes per variable of the set
    update     the kernel of a single card, applied to the variables whose columns are here
    exchange   each card writes the responses of its variables to the first card, 8 bytes per variable

Events order the work of the cards: the stream of the first card waits for all, and all wait for the first.

Arrays of a card, besides its shard; P slots of problems of up to m variables in `planes` planes (1, or the
number of classes), as in `textsvm.solvers.smo_cuda` and `crammer_singer_cuda`:

    lists                int32 (3, P, m)   row of the Gram of each variable; the card's own variables, whose
                                           columns are here; the positions of these columns in the shard
    F                    float64 (P, [planes,] m)   responses of the card's own variables
    state                int64 (P, words)           their number; done and moved are used
    moved, moved_slots   copies of the first card's
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from textsvm.arrays import AnyArray, Ints
from textsvm.gram.base import Gram, Window
from textsvm.gram.cards import Shard, enable_peers
from textsvm.runtime import device as devices
from textsvm.solvers import cuda_queue
from textsvm.solvers.solution import Stopping

SOURCE = "shards.cu"
DEFINE_SETS: list[tuple[str, devices.Defines]] = [(SOURCE, (("SET", 1024),))]
#: Maximum number of blocks of a card that gather: per slot, and for all slots together.
GATHERERS, ALL_GATHERERS = 256, 2048
#: Argument of every kernel: Part of shards.cu.
PART = devices.layout(
    "uint64 values index own F state moved moved_slots members tile",
    "uint64 all_F all_state all_moved all_moved_slots",
    "int64 first width stride",
    "int32 words size paused planes moved_planes",
)


class ShardedSlots(cuda_queue.Slots):
    """Slots over a sharded Gram: a mix-in that comes before the class for problems of a type."""

    STRUCTURE: ClassVar[np.dtype[Any]]  #: Fields of the kernels' arrays
    RESPONSES: ClassVar[str]  #: Name of the responses among them
    tile: Any

    def __init__(self, gram: Gram, shape: tuple[int, ...], wanted: int, stopping: Stopping) -> None:
        super().__init__(gram, shape, wanted, stopping)
        enable_peers([shard.device for shard in gram.shards])
        self.ready = _event()
        self.parts = [CardPart(self, shard) for shard in gram.shards]

    def window_of(self, gram: Gram) -> Window:
        """Row numbers for the kernels of the first card; only `gather` and `update` read values."""
        every = devices.cupy().arange(gram.n, dtype=np.int32)
        return Window(gram.shards[0].values, every, np.zeros(gram.n, np.int64))

    def write_states(self, slots: list[int], states: AnyArray) -> None:
        """Set the states of these slots, and the lists of own variables of every card."""
        super().write_states(slots, states)
        rows = [self.rows[slot] for slot in slots]
        self.on_each(lambda part: part.start(slots, rows))

    def gather(self) -> None:
        self.on_each(lambda part: part.gather())

    def update(self, first: int, problems: int) -> None:
        self.on_each(lambda part: part.update(first, problems, self.blocks(part.most, problems)))

    def on_each(self, work: Callable[[CardPart], None]) -> None:
        """Have all cards do this, after the work queued on the first card so far and before its next."""
        cuda = devices.cupy().cuda
        self.ready.record()
        for part in self.parts:
            with cuda.Device(part.device.index):
                cuda.get_current_stream().wait_event(self.ready)
                work(part)
                part.done.record()
        for part in self.parts:
            cuda.get_current_stream().wait_event(part.done)


class CardPart:
    """A card's part of the problems in all slots; `slots` are on the first card."""

    def __init__(self, slots: ShardedSlots, shard: Shard) -> None:
        cp, shape, stride = devices.cupy(), slots.values.shape[1:], slots.stride
        self.device, self.first, self.last = shard.device, shard.first, shard.last
        self.count, self.changes = slots.count, slots.moved.size // slots.moved_slots.size
        self.size_word = _word(slots, "size")
        self.sizes = np.zeros(self.count, np.int64)  #: Number of own variables in each slot.
        with devices.use(shard.device):
            needed = 12 * self.count * stride + 8 * slots.values[0].size + 12 * slots.moved.size
            devices.require_memory(needed, f"the solver's part on {shard.device.description}")
            self.lists = cp.zeros((3, self.count, stride), np.int32)
            self.F, self.state = cp.zeros(shape), cp.zeros(slots.state.shape, np.int64)
            self.moved = cp.zeros(slots.moved.shape)
            self.moved_slots = cp.zeros(slots.moved_slots.shape, np.int32)
            self.kernels = {name: devices.function(SOURCE, name, DEFINE_SETS[0][1]) for name in _KERNELS}
            source, defines = slots.ROUNDS
            self.kernels["update"] = devices.function(source, "update", defines)
            self.done = _event()
        self.part = devices.structure(
            PART, self, slots, values=shard.values, index=self.lists[0], own=self.lists[1],
            all_F=slots.values[0], all_state=slots.state, all_moved=slots.moved,
            all_moved_slots=slots.moved_slots, width=shard.last - shard.first, words=slots.state.shape[1],
            size=self.size_word, paused=_word(slots, "paused"), planes=int(np.prod(shape[1:-1])),
            moved_planes=self.changes,
        )  # fmt: skip
        #: Argument of `update`, for which the own variables are the whole problem.
        self.arrays = slots.arrays.copy()
        named = self.arrays.view(slots.STRUCTURE)
        for name, value in {
            "rows": shard.values, "index": self.lists[2], slots.RESPONSES: self.F, "state": self.state,
            "moved": self.moved, "moved_slots": self.moved_slots,
        }.items():  # fmt: skip
            named[name] = value.data.ptr
        named["n"] = shard.last - shard.first

    @property
    def most(self) -> int:
        """Largest number of own variables in a slot."""
        return int(self.sizes.max())

    def start(self, slots: list[int], rows: list[Ints]) -> None:
        """Set up problems that start in these slots; `rows` are the rows of the Gram of their variables."""
        cp = devices.cupy()
        lists = np.zeros((3, len(slots), max(len(of_slot) for of_slot in rows)), np.int32)
        for k, of_slot in enumerate(rows):
            own = np.flatnonzero((self.first <= of_slot) & (of_slot < self.last))
            lists[0, k, : len(of_slot)] = of_slot
            lists[1, k, : len(own)], lists[2, k, : len(own)] = own, of_slot[own] - self.first
            self.sizes[slots[k]] = len(own)
        where = cp.asarray(slots)
        self.lists[:, where, : lists.shape[2]] = cp.asarray(lists)
        self.state[:, self.size_word][where] = cp.asarray(self.sizes[slots])
        self.exchange(0, self.count, 0)  # of running slots too, where it changes nothing

    def gather(self) -> None:
        """Copy own columns into the tiles."""
        blocks = max(1, min(GATHERERS, ALL_GATHERERS // self.count))
        self.kernels["gather"]((blocks, self.count), (256,), (self.part,))

    def update(self, first: int, problems: int, blocks: int) -> None:
        """Update the responses of own variables."""
        if not self.most:
            return
        number = np.int32(first)
        self.kernels["fetch"]((problems, min(64, 4 * self.changes)), (256,), (self.part, number))
        self.kernels["update"]((blocks,), (512,), (self.arrays, number, np.int32(problems)))
        self.exchange(first, problems, 1)

    def exchange(self, first: int, problems: int, out: int) -> None:
        """Copy responses from the first card or, with `out`, to it."""
        if self.most:
            grid = -(-self.most // 256), problems
            self.kernels["exchange"](grid, (256,), (self.part, np.int32(first), np.int32(out)))


_KERNELS = ("gather", "fetch", "exchange")


def _event() -> Any:
    """An event of the current card, used only for ordering."""
    return devices.cupy().cuda.Event(disable_timing=True)


def _word(slots: ShardedSlots, name: str) -> int:
    """Index of a field of the state; that of `done` if the state does not have it."""
    names = slots.STATE.names or ()
    return names.index(name if name in names else "done")
