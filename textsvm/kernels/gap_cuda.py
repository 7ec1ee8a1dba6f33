"""Launches of the CUDA twin of the gap-weighted kernel; the mathematics is at the top of gap.py.

The recurrence without decays
-----------------------------
Write S_q(i, j) = decay^(k + c) P_q / (unit decay^2q) and R_q likewise, k a row's number within a *period* and
c a column's within a *block*. Then a cell of the table costs one addition where symbols match, and one more:

    r_q += M (P_{q-1} of the row and the column before + begin_{q-1} decay^-(k + c)),    P_q += r_q

After each period all P are multiplied by decay^period, at the end of a block r by decay^block: the numbers
stay in range. `unit` puts the levels' factors decay^2q into the middle of it.

On the card
-----------
A lane holds COLUMNS neighbouring columns of one document, the target, P in registers. The lanes of a document
are neighbours, one row behind the other, and hand on r by shuffles. 32 lanes, of as many documents as they
hold, are a strip; a document may go on in the next one, to which r goes through memory. A warp takes the
strips of a *pack* through a run of sources, whose symbols stream past without a gap: a source ends, P is
cleared, the next begins. A table per strip has one mask of a lane's columns for each symbol.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from textsvm import device as gpu
from textsvm.device import Device
from textsvm.documents import Documents
from textsvm.errors import InputError
from textsvm.kernels.gap import GapWeighted, SelfValues
from textsvm.parallel import Progress

SOURCE = "gap.cu"
WARP = 32
THREADS = 128
MATRIX, MIRRORED, WEIGHTED, DIAGONAL = range(4)
#: Registers of a thread besides those of its columns.
SPARE = 12
#: Strips of a pack: where the last one may be cut with up to 2, 8 and any number of lanes idle.
STRIPS = (1, 8, 16)
#: Words of the stream that a task goes through.
RUN = (1024, 16_384)
#: Alphabets up to this size have masks, others are compared symbol by symbol.
MASKED = 256
#: Steps of a warp in one launch between two calls of `progress`.
LAUNCH = 1e9

TASK = np.dtype(
    [(name, np.int32) for name in ("first_strip", "strips", "first_source", "sources")]
    + [("begin", np.int64), ("rows", np.int32), ("part", np.int32)]
)
LANE = np.dtype(
    [("target", np.int32), ("length", np.int32), ("code", np.int64), ("delay", np.int32), ("flags", np.int32)]
)
OUTPUT = np.dtype(
    [("mode", np.int32), ("classes", np.int32), ("width", np.int64)]
    + [
        (name, np.uint64)
        for name in ("source_index", "target_index", "source_scale", "target_scale", "matrix", "coef", "sums")
    ]
    + [("targets", np.int64)]
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
        )

    @property
    def blocks(self) -> int:
        """Blocks that a multiprocessor has registers for."""
        registers = self.columns * _registers_of_column(self.levels, self.double, self.masks)
        registers += 2 * self.levels * (2 if self.double else 1) + SPARE
        return 2 if registers > 170 else 3 if registers > 118 else 4

    @property
    def weights(self) -> np.dtype[Any]:
        real = np.float64 if self.double else np.float32
        return np.dtype(
            [
                ("rows", real, (WARP, 2)),
                ("column_out", real, self.columns),
                ("column_in", real, self.columns),
                ("begins", real, self.levels + 1),
                *((name, real) for name in ("step", "edge", "block", "wrap")),
                ("out", np.float64),
            ],
            align=True,
        )


def _registers_of_column(levels: int, double: bool, masks: bool) -> int:
    """P of each level, two weights, and the symbol if it is compared."""
    return (levels + 2) * (2 if double else 1) + (0 if masks else 1)


def columns_of(levels: int, double: bool, masks: bool) -> int:
    """Columns of a lane, at most 25: what its registers hold, but none that would be idle at 100 symbols."""
    room = 245 - SPARE - 2 * levels * (2 if double else 1)
    most = max(1, min(25, room // _registers_of_column(levels, double, masks)))
    return -(-100 // -(-100 // most))


def block_of(columns: int, decay: float) -> int:
    """Columns that share a base: decay^-block stays within 2^25."""
    most = 25 / max(-math.log2(decay), 1e-9)
    return next((width for width in (columns, 12, 6, 3) if width <= min(most, columns)), 1)


def scale_of(kernel: GapWeighted, double: bool, block: int, n: int, m: int) -> tuple[int, float] | None:
    """The period, and log2 of the unit; None if the numbers do not fit."""
    begins, _ = kernel.begins()
    levels = len(begins) - 1
    bits = -math.log2(kernel.decay)
    period = max(1, min(WARP, int(20 / max(bits, 1e-9))))
    high = kernel.log2_bound(n, m) + (period + block - 2) * bits
    low = 2 * levels * bits
    limit = 1000 if double else 120
    unit = min(limit - high, low)
    return (period, unit) if unit >= low - limit / 2 else None


def variant_of(levels: int, decay: float, double: bool, blend: bool, masks: bool) -> Variant:
    """The defines for a kernel and an alphabet."""
    columns = columns_of(levels, double, masks)
    return Variant(levels, columns, block_of(columns, decay), double, blend, masks)


#: (source, defines) of every kind that is launched; for other p the numbers differ.
DEFINE_SETS = [
    (SOURCE, variant_of(levels, decay, double, blend, masks).defines)
    for levels, decay, blend, masks in [
        (4, 0.5, False, True),
        (4, 0.01, False, True),
        (4, 0.5, True, True),
        (4, 0.5, False, False),
        (0, 0.5, False, True),
        (1, 0.5, False, True),
        (2, 0.5, False, False),
        (9, 0.5, True, False),
    ]
    for double in (False, True)
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


class _Layout:
    """Targets in lanes of some number of columns.

    lanes : LANE array, (strips * 32,), on the device
    packs : int64, (packs, 3): first strip, strips, last target
    masks : uint32, (strips, symbols, 32), on the device, if the alphabet is small
    """

    def __init__(self, texts: _Texts, symbols: int, columns: int) -> None:
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
        if symbols - 1 <= MASKED and self.strips:
            gpu.require_memory(self.strips * symbols * WARP * 4, "the symbol masks of the documents")
            self.masks = cp.zeros(self.strips * symbols * WARP, np.uint32)
            gpu.load(SOURCE, DEFINE_SETS[0][1]).get_function("gap_masks")(
                (-(-len(lanes) // 256),),
                (256,),
                (self.lanes, np.int32(len(lanes)), texts.codes, np.int32(symbols), self.masks),
            )


class _Texts:
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
        gpu.require_memory(8 * len(documents.codes), "the documents")
        self.codes = cp.asarray(documents.codes.astype(np.uint16))
        self.index = cp.asarray(self.order.astype(np.int32))
        self._layouts: dict[int, _Layout] = {}

    def __len__(self) -> int:
        return len(self.order)

    @cached_property
    def stream(self) -> Any:
        """uint32, (symbols,): the symbols, and where documents end."""
        cp = gpu.cupy()
        words = cp.empty(max(1, int(self.words[-1])), np.uint32)
        if len(self):
            gpu.load(SOURCE, DEFINE_SETS[0][1]).get_function("gap_stream")(
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

    def layout(self, columns: int) -> _Layout:
        """The documents as targets; kept."""
        if columns not in self._layouts:
            self._layouts[columns] = _Layout(self, self.symbols, columns)
        return self._layouts[columns]


class _Run:
    """Every source with every target, or what `mode` says of them."""

    def __init__(self, kernel: GapWeighted, sources: _Texts, targets: _Texts, mode: int) -> None:
        self.kernel, self.sources, self.targets, self.mode = kernel, sources, targets, mode
        n, m = sources.longest, targets.longest
        begins, _ = kernel.begins()
        levels = len(begins) - 1
        blend, masks = bool(begins[1:].any()), targets.symbols - 1 <= MASKED
        for double in (False, True):
            self.variant = variant_of(levels, kernel.decay, double, blend, masks)
            scale = scale_of(kernel, double, self.variant.block, n, m)
            if scale is not None and (double or not (mode == DIAGONAL or kernel.needs_double(n, m))):
                break
        if scale is None:
            raise InputError(
                f"decay={kernel.decay} with p={kernel.p} passes the range of float64 on a GPU; "
                "take a larger decay or a smaller p, or run with --device cpu"
            )
        self.period, self.unit = scale
        self.layout = targets.layout(self.variant.columns)
        cp = gpu.cupy()
        properties = cp.cuda.runtime.getDeviceProperties(cp.cuda.runtime.getDevice())
        self.warps = properties["multiProcessorCount"] * self.variant.blocks * THREADS // WARP
        self.tasks, self.parts = self._make_tasks()

    def _make_tasks(self) -> tuple[NDArray[Any], int]:
        """Packs by runs of sources, the longest packs first; how many runs there are."""
        packs, words = self.layout.packs, self.sources.words
        size = int(words[-1]) * max(1, len(packs)) // (12 * self.warps)
        size = min(max(size, RUN[0]), RUN[1])
        if self.mode == WEIGHTED:
            size = max(size, -(-int(words[-1]) // 64))
        first = np.flatnonzero(np.diff(words[:-1] // size, prepend=-1))
        last = np.append(first[1:], len(self.sources))[: len(first)]
        if self.mode == DIAGONAL:
            begin = np.concatenate([[0], packs[:-1, 2] + 1])[: len(packs)]
            tasks = np.empty(len(packs), TASK)
            pack, source, stop = np.arange(len(packs)), begin, packs[:, 2] + 1
            part = np.zeros(len(packs), np.int64)
        else:
            pack, part = (x.ravel() for x in np.mgrid[len(packs) - 1 : -1 : -1, 0 : len(first)])
            if self.mode == MIRRORED:
                wanted = first[part] <= packs[pack, 2]
                pack, part = pack[wanted], part[wanted]
            source, stop = first[part], last[part]
            if self.mode == MIRRORED:
                stop = np.minimum(stop, packs[pack, 2] + 1)
        tasks = np.empty(len(pack), TASK)
        tasks["first_strip"], tasks["strips"] = packs[pack, 0], packs[pack, 1]
        tasks["first_source"], tasks["sources"] = source, stop - source
        tasks["begin"], tasks["rows"] = words[source], words[stop] - words[source]
        tasks["part"] = part
        return tasks, len(first)

    def weights(self) -> NDArray[Any]:
        """What gap.cu has in `weights`."""
        variant, decay = self.variant, self.kernel.decay
        levels = variant.levels
        begins, _ = self.kernel.begins()
        width = (variant.columns - 1) % variant.block + 1
        weights = np.zeros((), variant.weights)
        k = np.arange(self.period)
        weights["rows"][: self.period] = np.stack([decay**k, decay**-k], axis=1)
        c = np.arange(variant.columns) % variant.block
        weights["column_out"], weights["column_in"] = decay**c, decay**-c
        logs = self.unit + 2 * np.arange(1, levels + 2) * math.log2(decay)
        weights["begins"] = np.where(begins > 0, begins * np.exp2(logs), 0)
        weights["step"], weights["edge"] = decay ** (width - 1), decay**width
        weights["block"], weights["wrap"] = decay**variant.block, decay**self.period
        weights["out"] = 2.0 ** -(self.unit + 2 * (levels + 1) * math.log2(decay))
        return weights

    def launch(self, output: dict[str, Any], progress: Progress | None = None) -> None:
        """Run all tasks; `output` has what gap.cu's Output needs besides the mode: arrays and numbers."""
        module = gpu.load(SOURCE, self.variant.defines)
        fields = np.zeros((), OUTPUT)
        fields["mode"], fields["targets"] = self.mode, len(self.targets)
        for name, value in output.items():
            fields[name] = value.data.ptr if hasattr(value, "data") else value
        _set_constant(module, "output", fields)
        columns = _set_constant(module, "weights", self.weights())
        several = self.tasks["strips"] > 1
        done, total = 0.0, float(_cost(self.tasks).sum())
        for name, tasks in (("gap_several", self.tasks[several]), ("gap", self.tasks[~several])):
            warps, extra = self._edges(tasks) if name == "gap_several" else (self.warps, ())
            for part in _slices(tasks, progress is not None):
                blocks = -(-min(warps, len(part)) * WARP // THREADS)
                arguments = (
                    gpu.cupy().asarray(part.view(np.uint8)), np.int32(len(part)), gpu.cupy().zeros(1, np.int32),
                    self.sources.stream, self.layout.lanes, self.layout.masks, self.targets.codes,
                    np.int32(self.targets.symbols), np.int32(self.period), columns, *extra,
                )  # fmt: skip
                module.get_function(name)((blocks,), (THREADS,), arguments)
                done += float(_cost(part).sum())
                if progress is not None:
                    gpu.cupy().cuda.get_current_stream().synchronize()
                    progress(done, total)

    def _edges(self, tasks: NDArray[Any]) -> tuple[int, tuple[Any, ...]]:
        """Warps to launch, and the memory for what goes from strip to strip: 2 (rows + sources) a warp."""
        cp = gpu.cupy()
        rows, sources = (int(tasks[name].max(initial=0)) for name in ("rows", "sources"))
        rows += 2 * WARP
        edge_bytes = -(-max(1, self.variant.levels) * (8 if self.variant.double else 4) // 16) * 16
        a_warp, in_block = 2 * (rows * edge_bytes + sources * 8), THREADS // WARP
        # gap.cu counts edges in 32 bits.
        warps = min(
            self.warps, len(tasks), gpu.free_memory() // 2 // a_warp, (1 << 32) // (2 * rows) - in_block
        )
        warps = -(-max(1, warps) // in_block) * in_block
        gpu.require_memory(warps * a_warp, "comparing documents this long", "shorten them (--max-length)")
        edges, carries = cp.empty(2 * warps * rows * edge_bytes, np.uint8), cp.empty(2 * warps * sources + 1)
        return warps, (edges, np.int32(rows), carries, np.int64(sources))


def _cost(tasks: NDArray[Any]) -> NDArray[np.float64]:
    """Steps of a warp."""
    return tasks["rows"].astype(np.float64) * tasks["strips"]


def _slices(tasks: NDArray[Any], several: bool) -> list[NDArray[Any]]:
    """Tasks of one launch each: all, or LAUNCH steps at a time."""
    turns = np.cumsum(_cost(tasks)) // (LAUNCH if several else np.inf)
    return [part for part in np.split(tasks, np.flatnonzero(np.diff(turns)) + 1) if len(part)]


def _set_constant(module: Any, name: str, value: NDArray[Any]) -> Any:
    """Write a __constant__ of the module, in the order of the stream; where it is."""
    cp = gpu.cupy()
    where = cp.ndarray((value.dtype.itemsize,), np.uint8, module.get_global(name))
    where.set(np.frombuffer(value.tobytes(), np.uint8))
    return where


class CudaGap:
    """Rows on a GPU (`KernelRows`)."""

    def __init__(self, kernel: GapWeighted, documents: Documents, device: Device) -> None:
        self.kernel, self.documents, self.device, self.n = kernel, documents, device, len(documents)
        self._known: dict[bytes, int] = {}
        with gpu.use(device):
            self._symbols = len(documents.alphabet) + 1
            self._texts = _Texts(documents, kernel.min_length, self._symbols)
            self._self = self._self_values(documents, self._texts, self._known)
            self._scale = self._position_scale(self._texts, self._self)

    def diag(self) -> Any:
        with gpu.use(self.device):
            return gpu.cupy().asarray(self._self.diagonal())

    def rows(self, indices: NDArray[np.int64]) -> Any:
        indices = np.asarray(indices, np.int64)
        with gpu.use(self.device):
            return self._matrix(self.documents.take(indices), self._self.take(indices))

    def gram(self, progress: Progress | None = None) -> Any:
        cp = gpu.cupy()
        with gpu.use(self.device):
            matrix = self._zeros(self.n)
            self._fill(matrix, self._texts, self._scale, MIRRORED, progress)
            self._set_featureless(matrix, self._self)
            matrix[cp.arange(self.n), cp.arange(self.n)] = cp.asarray(self._self.diagonal())
            return matrix

    def cross(self, others: Documents, progress: Progress | None = None) -> Any:
        with gpu.use(self.device):
            return self._matrix(others, None, progress)

    def decision(
        self, others: Documents, coef: NDArray[np.float64], progress: Progress | None = None
    ) -> NDArray[np.float64]:
        """k(others, documents) @ coef in one pass: coef (n, k) -> (len(others), k), on the host.

        The others are the targets here, and each sums over the sources: no matrix of kernel values exists.
        """
        cp = gpu.cupy()
        coef = np.ascontiguousarray(coef, np.float64)
        with gpu.use(self.device):
            texts = _Texts(others, self.kernel.min_length, self._symbols)
            own = self._self_values(others, texts, dict(self._known))
            work = _Run(self.kernel, self._texts, texts, WEIGHTED)
            classes = coef.shape[1]
            gpu.require_memory(8 * work.parts * len(texts) * classes, "the decision values")
            sums = cp.zeros((work.parts, len(texts), classes))
            scaled = cp.asarray(coef[self._texts.order]) * self._scale[:, None]
            work.launch({"classes": classes, "coef": scaled, "sums": sums}, progress)
            found = sums.sum(axis=0) * self._position_scale(texts, own)[:, None]
            values = np.zeros((len(others), classes))
            values[texts.order] = found.get()
            if self.kernel.normalised:
                for i in np.flatnonzero(own.groups):
                    values[i] = coef[self._self.groups == own.groups[i]].sum(axis=0)
            return values

    def _zeros(self, rows: int) -> Any:
        gpu.require_memory(4 * rows * self.n, f"the {rows:,} x {self.n:,} matrix", "lower --memory")
        return gpu.cupy().zeros((rows, self.n), np.float32)

    def _matrix(self, others: Documents, own: SelfValues | None, progress: Progress | None = None) -> Any:
        """k(others, documents), given k(others, others) of each or not."""
        texts = _Texts(others, self.kernel.min_length, self._symbols)
        if own is None:
            own = self._self_values(others, texts, dict(self._known))
        matrix = self._zeros(len(others))
        self._fill(matrix, texts, self._position_scale(texts, own), MATRIX, progress)
        self._set_featureless(matrix, own)
        return matrix

    def _fill(self, matrix: Any, sources: _Texts, scale: Any, mode: int, progress: Progress | None) -> None:
        _Run(self.kernel, sources, self._texts, mode).launch(
            {
                "width": self.n,
                "source_index": sources.index,
                "target_index": self._texts.index,
                "source_scale": scale,
                "target_scale": self._scale,
                "matrix": matrix,
            },
            progress,
        )

    def _set_featureless(self, matrix: Any, own: SelfValues) -> None:
        """Documents without any feature are 1 with their equals."""
        if self.kernel.normalised and own.groups.any():
            columns = gpu.cupy().asarray(self._self.groups)
            for i in np.flatnonzero(own.groups):
                matrix[int(i)] = columns == int(own.groups[i])

    def _self_values(self, documents: Documents, texts: _Texts, known: dict[bytes, int]) -> SelfValues:
        if len(documents.alphabet) + 1 != self._symbols:
            # Symbols that nothing else has match themselves here.
            texts = _Texts(documents, self.kernel.min_length, len(documents.alphabet) + 1)
        diagonal = gpu.cupy().zeros(len(texts))
        _Run(self.kernel, texts, texts, DIAGONAL).launch({"sums": diagonal})
        texts.forget_layouts()
        values = np.zeros(len(documents))
        values[texts.order] = diagonal.get()
        return SelfValues.of(self.kernel, documents, values, known)

    def _position_scale(self, texts: _Texts, own: SelfValues) -> Any:
        """What the sums of each position are multiplied by, float64 on the device."""
        return gpu.cupy().asarray(own.scale()[texts.order])
