"""What the CUDA twin of the gap-weighted kernel is compiled for, and documents as it reads them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from textsvm import device as gpu
from textsvm.compiled import njit
from textsvm.documents import Documents
from textsvm.documents_cuda import DeviceDocuments
from textsvm.errors import InputError
from textsvm.kernels.gap_recurrence import Recurrence

SOURCE = "gap.cu"
WARP = 32
#: Strips of a pack: where the last one may be cut with up to 2, 8 and any number of lanes idle.
STRIPS = (1, 8, 16)
#: Alphabets up to this size have masks, others are compared symbol by symbol.
MASKED = 256
#: Symbols that a word of the stream has room for.
MOST_SYMBOLS = 1 << 25
#: Codes of 32 bits, of more than 65,536 symbols.
WIDE: gpu.Defines = (("CODE", "uint32"),)
#: What a matrix in shards adds to the defines.
SHARDS: gpu.Defines = (("SHARDS", 1),)

LANE = np.dtype(
    [
        ("target", np.int32),
        ("length", np.int32),
        ("code", np.int64),
        ("delay", np.int32),
        ("flags", np.int32),
    ],
    align=True,
)


@dataclass(frozen=True)
class Variant:
    """What gap.cu is specialised by."""

    levels: int
    columns: int
    block: int
    double: bool
    blend: bool
    masks: bool
    shared: int = 0
    wide: bool = False
    shards: bool = False

    @property
    def defines(self) -> gpu.Defines:
        return (
            ("LEVELS", self.levels),
            ("COLUMNS", self.columns),
            ("BLOCK", self.block),
            ("REAL", "double" if self.double else "float"),
            ("BLEND", int(self.blend)),
            ("MASKS", int(self.masks)),
            ("BLOCKS", self.blocks),
            # As measured.
            ("TOGETHER", 1 if self.double else {1: 1, 3: 1, 4: 4}.get(self.levels, 2)),
            *((("SHARED", self.shared),) if self.shared else ()),
            *(WIDE if self.wide else ()),
            *(SHARDS if self.shards else ()),
        )

    @property
    def blocks(self) -> int:
        """Blocks that a multiprocessor has registers for."""
        registers = (
            self.columns * _registers_of_column(self.levels, self.double, self.masks) + 5 * self.shared
        )
        return 2 if registers > 110 else 3

    @property
    def weights(self) -> np.dtype[Any]:
        real = np.float64 if self.double else np.float32
        return np.dtype(
            [
                ("rows", real, (WARP, 2)),
                ("column_out", real, self.block),
                ("column_in", real, self.block),
                ("levels", real, self.levels + 1),
                *((name, real) for name in ("step", "edge", "block", "wrap")),
                ("out", np.float64, self.shared + 1),
            ],
            align=True,
        )


def _registers_of_column(levels: int, double: bool, masks: bool) -> int:
    """P of each level, weights of doubles (those of floats are kept elsewhere), the symbol if compared."""
    return (2 * levels + 4 if double else levels) + (0 if masks else 1 if double else 3)


def columns_of(levels: int, double: bool, masks: bool) -> int:
    """Columns of a lane, at most 50: what its registers hold, but none that would be idle at 100 symbols."""
    room = 233 - 4 * levels if double else 180
    most = min(50, room // max(1, _registers_of_column(levels, double, masks)))
    if not double:
        # As measured: more of them cost warps, fewer cost steps.
        most = min(most, 50 if levels < 3 else 34 if levels == 3 else 25)
    return -(-100 // -(-100 // max(1, most)))


def block_of(columns: int, decay: float) -> int:
    """Columns that share a base, at most 25: decay^-block stays within 2^25."""
    most = 25 / max(-math.log2(decay), 1e-9)
    return next((width for width in (min(25, columns), 12, 6, 3) if width <= min(most, columns)), 1)


def period_and_unit(
    recurrence: Recurrence, double: bool, block: int, n: int, m: int
) -> tuple[int, float] | None:
    """The period, and log2 of the unit; None if the numbers do not fit."""
    levels = recurrence.p - 1
    bits = -math.log2(recurrence.decay)
    period = max(1, min(WARP, int(30 / max(bits, 1e-9))))
    high = recurrence.log2_bound(n, m) + (period + block - 2) * bits
    low = 2 * levels * bits
    limit = 1000 if double else 120
    unit = min(limit - high, low)
    return (period, unit) if unit >= low - limit / 2 else None


def variant_of(levels: int, decay: float, double: bool, blend: bool, masks: bool, shared: int = 0) -> Variant:
    """The defines for a kernel and an alphabet, and for that many smaller lengths besides."""
    columns = columns_of(levels, double, masks)
    return Variant(levels, columns, block_of(columns, decay), double, blend, masks, shared)


#: (source, defines) of every kind that is launched; for other p the numbers differ.
DEFINE_SETS = [
    (SOURCE, variant_of(levels, decay, double, blend, masks, shared).defines)
    for levels, decay, blend, masks, shared in [
        (4, 0.5, False, True, 0),
        (4, 0.01, False, True, 0),
        (4, 0.5, True, True, 0),
        (4, 0.5, False, False, 0),
        (0, 0.5, False, True, 0),
        (1, 0.5, False, True, 0),
        (2, 0.5, False, False, 0),
        (9, 0.5, True, False, 0),
        (4, 0.5, False, True, 2),
        (4, 0.5, False, True, 4),
    ]
    for double in (False, True)
] + [
    (SOURCE, variant_of(levels, 0.5, double, False, masks).defines + more)
    for levels, double, masks in [(4, False, True), (1, False, False), (4, True, False)]
    for more in (WIDE, SHARDS)
]


@njit(cache=True)
def _first_lanes(lanes: Any, firsts: Any, packs: Any, strips: Any) -> int:
    """First lane of each target, given how many it takes; (first strip, strips, last target) of each pack."""
    lane = start = count = 0
    for target in range(len(lanes)):
        room = -lane % 32
        full = (lane - start) // 32
        if lane > start and (
            room == 0
            or (lanes[target] > room and full >= strips[0] - 1 and room <= 2)
            or (lanes[target] > room and full >= strips[1] and room <= 8)
            or full >= strips[2]
        ):
            lane += room
            packs[count, 0], packs[count, 1], packs[count, 2] = start // 32, (lane - start) // 32, target - 1
            start = lane
            count += 1
        firsts[target] = lane
        lane += lanes[target]
    if lane > start:
        lane += -lane % 32
        packs[count, 0], packs[count, 1], packs[count, 2] = start // 32, (lane - start) // 32, len(lanes) - 1
        count += 1
    return count


class Layout:
    """Targets in lanes of some number of columns.

    lanes : LANE array, (strips * 32,), on the device
    packs : int64, (packs, 3): first strip, strips, last target
    masks : uint32, (strips, symbols, words, 32), on the device, of small alphabets; 28 columns a word
    """

    def __init__(self, texts: Texts, symbols: int, columns: int, masks: bool) -> None:
        cp = gpu.cupy()
        counts = -(-texts.lengths // columns)
        firsts, packs = np.empty(len(counts), np.int64), np.empty((len(counts), 3), np.int64)
        self.packs = packs[: _first_lanes(counts, firsts, packs, np.array(STRIPS))]
        self.strips = int(self.packs[-1, :2].sum()) if len(self.packs) else 0
        lanes = np.zeros(self.strips * WARP, LANE)
        lanes["target"] = -1
        target = np.repeat(np.arange(len(counts)), counts)
        within = np.arange(len(target)) - np.repeat(np.cumsum(counts) - counts, counts)
        index = firsts[target] + within
        lanes["target"][index] = target
        lanes["length"][index] = np.minimum(columns, texts.lengths[target] - within * columns)
        lanes["code"][index] = texts.starts[target] + within * columns
        lanes["delay"][index] = np.minimum(within, index % WARP)
        lanes["flags"][index] = (within > 0) + 2 * (within == counts[target] - 1)
        self.lanes = cp.asarray(lanes.view(np.uint8))
        self.masks = cp.zeros(1, np.uint32)
        if masks and self.strips:
            words = -(-columns // 28)
            self.masks = cp.zeros(self.strips * symbols * words * WARP, np.uint32)
            texts.function("gap_masks")(
                (-(-len(lanes) // 256),),
                (256,),
                (
                    self.lanes, np.int32(len(lanes)), texts.codes, np.int32(symbols), np.int32(words),
                    self.masks,
                ),
            )  # fmt: skip


class Texts:
    """Documents that have a feature, on the device in order of length (a *position* counts in this order).

    order : int64, (m,), document of each position
    lengths, starts : int64, (m,), of each position: symbols, first of them in `codes`
    words : int64, (m + 1,), where each begins in `stream`
    """

    def __init__(self, documents: Documents, min_length: int, symbols: int) -> None:
        cp = gpu.cupy()
        order = np.argsort(documents.lengths, kind="stable")
        self.order = order[np.searchsorted(documents.lengths[order], max(1, min_length)) :]
        self.lengths, self.starts = documents.lengths[self.order], documents.offsets[:-1][self.order]
        self.words = np.concatenate([[0], np.cumsum(self.lengths)]).astype(np.int64)
        self.longest = int(self.lengths.max(initial=0))
        self.symbols = symbols
        if symbols > MOST_SYMBOLS:
            raise InputError(
                f"the documents have {symbols - 1:,} distinct symbols and a GPU tells {MOST_SYMBOLS - 1:,} "
                "apart; run with --device cpu"
            )
        self.wide = len(documents.alphabet) > 1 << 16
        self.codes = DeviceDocuments(documents, np.uint32 if self.wide else np.uint16).codes
        self.index = cp.asarray(self.order.astype(np.int32))
        self._layouts: dict[int, Layout] = {}

    def __len__(self) -> int:
        return len(self.order)

    def function(self, name: str) -> Any:
        """What reads codes of this width before any sweep."""
        return gpu.load(SOURCE, DEFINE_SETS[0][1] + (WIDE if self.wide else ())).get_function(name)

    @cached_property
    def stream(self) -> Any:
        """uint32, (symbols,): the symbols, and where documents end."""
        cp = gpu.cupy()
        words = cp.empty(max(1, int(self.words[-1])), np.uint32)
        if len(self):
            self.function("gap_stream")(
                (len(self),),
                (128,),
                (
                    self.codes,
                    cp.asarray(self.starts),
                    cp.asarray(self.words),
                    np.int32(self.symbols - 1),
                    words,
                ),
            )
        return words

    def forget_layouts(self) -> None:
        """Give back the memory of layouts that are not needed again."""
        self._layouts.clear()

    @cached_property
    def masks(self) -> bool:
        """Whether symbols are few enough for a table of masks, and memory enough."""
        table = 4 * self.symbols * 2 * int(self.words[-1]) // 8
        return self.symbols - 1 <= MASKED and table < gpu.free_memory() // 4

    def layout(self, columns: int) -> Layout:
        """The documents as targets; kept."""
        if columns not in self._layouts:
            self._layouts[columns] = Layout(self, self.symbols, columns, self.masks)
        return self._layouts[columns]
