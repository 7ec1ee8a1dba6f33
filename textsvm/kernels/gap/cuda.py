"""GPU twin of the gap-weighted kernel; recurrence.py has the mathematics.

The recurrence without decays of rows
-------------------------------------
With k the number of a row within a *period*, write S_q(i, j) = decay^k P_q(i, j) / (unit decay^(q+1)). P_q
sums C_q, with decays, over columns, and C_q a column's matches over the rows. A cell then costs a level two
operations, the second only on a match:

    P_q(i, j) = decay P_q(i, j-1) + C_q(i, j)
    C_q(i, j) = C_q(i-1, j) + M(i, j) (P_{q-1}(i-1, j-1) + unit decay^(q+1) b_{q-1} decay^-k)

After each period all C are multiplied by decay^period, which keeps the numbers in range. `unit` centres the
factors decay^(q+1) in this range.

On the GPU
----------
A lane holds COLUMNS neighbouring columns of a document, the target, with C in registers. The lanes of a
document are neighbours, each a row behind its left neighbour, and pass on P by shuffles. All have the same k,
so values from the left, a step older, are multiplied by decay^-1. 32 lanes, of a document or several, form
a strip; a document may continue in the next strip, to which P passes through memory. A warp takes the strips
of a *pack* through a run of sources, whose symbols stream past without gaps: when a source ends, C is cleared
and the next begins. A table per strip has a mask of each lane's columns for every symbol.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from textsvm.arrays import AnyArray, Array, Floats, Ints
from textsvm.errors import InputError
from textsvm.kernels.gap.recurrence import SMALLEST, Recurrence, SelfValues, shared_pass
from textsvm.kernels.shared.feature_rows import ComparedRows
from textsvm.kernels.shared.normalisation import Normalisation
from textsvm.runtime import device as gpu
from textsvm.runtime.compiled import njit
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import Progress
from textsvm.text.documents import DeviceDocuments, Documents, batches

SOURCE = "gap.cu"
WARP = 32
STRIPS = (1, 8, 16)  #: Strips per pack from which it may end with up to 2, 8 and any number of idle lanes.
MASKED = 256  #: Largest alphabet with masks; symbols of larger alphabets are compared directly.
WIDE: gpu.Defines = (("CODE", "uint32"),)  #: 32-bit codes, for more than 65,536 symbols.
SHARDS: gpu.Defines = (("SHARDS", 1),)  #: For matrices in shards.
#: For sums over rows that are two floats each instead of float64.
TWO_FLOATS: gpu.Defines = (("TWO_FLOATS", 1),)

THREADS = 128
MATRIX, MIRRORED, WEIGHTED, DIAGONAL, FORWARD, TURNED = range(6)
RUN = (1024, 16_384)  #: Minimum and maximum symbols per task.
STEPS = 4e9  #: Warp steps per launch between calls of `progress`.
PERIOD = 64  #: Most rows of a period.
BATCH = 1 << 25  #: Symbols of documents that are predicted together.
#: By GPU and defines of a module: a lock, and the event after the last launches that use its constants.
_constants: dict[tuple[int, gpu.Defines], tuple[Lock, list[Any]]] = {}

LANE = gpu.layout("int32 target length", "int64 code", "int32 delay flags")
TASK = gpu.layout("int32 first_strip strips first_source sources", "int64 begin", "int32 rows part")
OUTPUT = gpu.layout(
    "int32 mode classes",
    "int64 width",
    "uint64 source_index target_index source_scale target_scale source_place target_place",
    "float64 smallest",
    "uint64 matrix coef sums",
    "int64 targets kernels",
    "uint64 mix matrices scales shards firsts",
)


@dataclass(frozen=True)
class GapVariant:
    """Preprocessor definitions of gap.cu."""

    levels: int
    columns: int
    double: bool
    blend: bool
    masks: bool
    shared: int = 0
    more: gpu.Defines = ()  #: `WIDE`, `SHARDS`, `TWO_FLOATS`, as far as they apply

    @property
    def defines(self) -> gpu.Defines:
        return (
            ("LEVELS", self.levels),
            ("COLUMNS", self.columns),
            ("REAL", "double" if self.double else "float"),
            ("BLEND", int(self.blend)),
            ("MASKS", int(self.masks)),
            ("BLOCKS", self.blocks),
            ("SEVERAL_BLOCKS", 3 if self.blocks > 2 and self.registers <= 110 else 2),
            ("TOGETHER", self.together),
            *((("SHARED", self.shared),) if self.shared else ()),
            *self.more,
        )

    @property
    def registers_of_column(self) -> int:
        """C of each level, and the symbol if compared."""
        return max(1, self.levels * (1 + self.double) + (not self.masks))

    @property
    def registers(self) -> int:
        """Registers for columns and lengths."""
        return self.columns * self.registers_of_column + 5 * self.shared

    @property
    def blocks(self) -> int:
        """Blocks per multiprocessor, by registers."""
        if self.double or self.registers > 125:
            return 2
        return 3 if self.registers > 50 else 5

    @property
    def together(self) -> int:
        """Rows of an unrolled loop: about 800 instructions are best; above 1,000 they leave the cache."""
        if self.double or self.levels > 7:
            return 1
        return 4 if self.levels * self.columns <= 100 else 2

    @property
    def weights(self) -> np.dtype[Any]:
        real = np.float64 if self.double else np.float32
        return np.dtype(
            [
                ("rows", real, (PERIOD, 2)),
                ("edges", real, PERIOD),
                ("levels", real, self.levels + 1),
                *((name, real) for name in ("decay", "inverse", "wrap")),
                ("out", np.float64, self.shared + 1),
            ],
            align=True,
        )


def columns_of(variant: GapVariant, lengths: Ints) -> int:
    """Columns per lane for targets of these lengths: as registers allow, or half as many if that wastes less.

    At most 50, and without idle columns or lanes for 100 symbols.
    """
    room = 180 if variant.blend or variant.shared else 210 - variant.levels
    if variant.double:
        room = 160
    most = max(1, (room - 3 * variant.shared) // variant.registers_of_column)
    most = 50 if most >= 50 else -(-100 // -(-100 // min(25, most)))
    # A row takes a lane the time of its columns and, measured, of 3 more.
    return min(most, -(-most // 2), key=lambda columns: int((-(-lengths // columns)).sum()) * (columns + 3))


def period_and_unit(recurrence: Recurrence, double: bool, n: int, m: int) -> tuple[int, int] | None:
    """The period and log2 of the unit, whole; None if the numbers do not fit."""
    levels = recurrence.p - 1
    bits = -math.log2(recurrence.decay)
    period = max(1, min(PERIOD, int(52 / max(bits, 1e-9))))
    high = recurrence.log2_bound(n, m) + (period - 1) * bits
    low = levels * bits
    limit = 1000 if double else 120
    unit = math.floor(min(limit - high, low))
    return (period, unit) if unit >= low - limit / 2 else None


def variant_of(
    levels: int, double: bool, blend: bool, masks: bool, shared: int = 0, lengths: ArrayLike = 100
) -> GapVariant:
    """Definitions for a kernel, an alphabet and lengths of targets, and for `shared` smaller p besides."""
    variant = GapVariant(levels, 0, double, blend, masks, shared)
    return replace(variant, columns=columns_of(variant, np.atleast_1d(lengths)))


#: Levels, blend, masks and smaller p of kernels to compile.
_COMPILED = [
    (4, False, True, 0), (4, True, True, 0), (4, False, False, 0), (0, False, True, 0), (1, False, True, 0),
    (2, False, False, 0), (9, True, False, 0), (4, False, True, 2), (4, False, True, 4),
]  # fmt: skip
#: Kernels launched: (source, defines), for a choice of p.
DEFINE_SETS = (
    [
        (SOURCE, variant_of(levels, double, blend, masks, shared).defines)
        for levels, blend, masks, shared in _COMPILED
        for double in (False, True)
    ]
    + [
        (SOURCE, variant_of(levels, double, False, masks).defines + more)
        for levels, double, masks in [(4, False, True), (1, False, False), (4, True, False)]
        for more in (WIDE, SHARDS)
    ]
    + [
        (SOURCE, variant_of(4, False, blend, True, shared).defines + TWO_FLOATS)
        for blend, shared in [(False, 0), (True, 0), (False, 4)]
    ]
)
#: The default p with half as many columns (`columns_of`), as for most corpora of unequal lengths.
DEFINE_SETS += [
    (SOURCE, replace(variant, columns=-(-variant.columns // 2)).defines)
    for double in (False, True)
    for variant in (variant_of(4, double, False, True), variant_of(4, double, False, False))
]


@njit(cache=True)
def _first_lanes(lanes, firsts, packs, strips):
    """First lane of targets from their numbers of lanes; (first strip, strips, last target) of packs."""
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
    """Targets in lanes with a given number of columns.

    lanes : LANE array, (strips * 32,), on the device
    packs : int64, (packs, 3): first strip, strips, last target
    masks : uint32, (strips, symbols, words, 32), on the device, for small alphabets; 28 columns per word
    """

    def __init__(self, texts: GapTexts, symbols: int, columns: int, masks: bool) -> None:
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
        lanes["flags"][index] = (within > 0) | (within == counts[target] - 1) << 1
        self.lanes = cp.asarray(lanes.view(np.uint8))
        self.masks = cp.zeros(1, np.uint32)
        if masks and self.strips:
            words = -(-columns // 28)
            self.masks = cp.zeros(self.strips * symbols * words * WARP, np.uint32)
            sizes = (np.int32(len(lanes)), texts.codes, np.int32(symbols), np.int32(words))
            blocks = -(-len(lanes) // 256)
            texts.function("gap_masks")((blocks,), (256,), (self.lanes, *sizes, self.masks))


class GapTexts:
    """Documents with a feature, on the device by length; a *position* counts in this order.

    order : int64, (m,), document at each position
    lengths, starts : int64, (m,), symbols, and the first of them in `codes`, by position
    words : int64, (m + 1,), start of each in `stream`
    places : int64, (m,), ascending: place of each position in the order of all documents of a matrix
    """

    def __init__(self, documents: Documents, min_length: int, symbols: int) -> None:
        cp = gpu.cupy()
        order = np.argsort(documents.lengths, kind="stable")
        self.order = order[np.searchsorted(documents.lengths[order], max(1, min_length)) :]
        self.places = np.arange(len(self.order))
        self.lengths, self.starts = documents.lengths[self.order], documents.offsets[:-1][self.order]
        self.words = np.concatenate([[0], np.cumsum(self.lengths)]).astype(np.int64)
        self.longest = int(self.lengths.max(initial=0))
        self.symbols = symbols
        self.wide = len(documents.alphabet) > 1 << 16
        self.codes = DeviceDocuments(documents, np.uint32 if self.wide else np.uint16).codes
        self.index = cp.asarray(self.order.astype(np.int32))
        self._layouts: dict[int, Layout] = {}

    def __len__(self) -> int:
        return len(self.order)

    def function(self, name: str) -> Any:
        """Kernel that prepares codes of this width."""
        return gpu.load(SOURCE, DEFINE_SETS[0][1] + (WIDE if self.wide else ())).get_function(name)

    @cached_property
    def device_words(self) -> Array:
        return gpu.cupy().asarray(self.words)

    @cached_property
    def device_places(self) -> Array:
        return gpu.cupy().asarray(self.places.astype(np.int32))

    @cached_property
    def stream(self) -> Array:
        """uint32, (symbols,): the symbols; others before and after, as lanes go past both ends."""
        cp = gpu.cupy()
        words = cp.full(int(self.words[-1]) + 4 * WARP, self.symbols - 1, np.uint32)[2 * WARP : -2 * WARP]
        if len(self):
            places = (cp.asarray(self.starts), self.device_words, np.int32(self.symbols - 1))
            self.function("gap_stream")((len(self),), (128,), (self.codes, *places, words))
        return words

    def forget_layouts(self) -> None:
        """Free the memory of the layouts."""
        self._layouts.clear()

    @cached_property
    def masks(self) -> bool:
        """Whether a table of masks is used: a small alphabet and enough memory."""
        table = 4 * self.symbols * 2 * int(self.words[-1]) // 8
        return self.symbols - 1 <= MASKED and table < gpu.free_memory() // 4

    def layout(self, columns: int) -> Layout:
        """Layout of the documents as targets, cached."""
        if columns not in self._layouts:
            self._layouts[columns] = Layout(self, self.symbols, columns, self.masks)
        return self._layouts[columns]


class Sweep:
    """The recurrence for every source with every target; `mode` selects the output."""

    def __init__(
        self, recurrence: Recurrence, sources: GapTexts, targets: GapTexts, mode: int, shared: int = 0
    ) -> None:
        self.recurrence, self.sources, self.targets, self.mode = recurrence, sources, targets, mode
        # Rows of a matrix take the precision and the columns of the whole matrix, and so have its bits.
        n = m = max(sources.longest, targets.longest)
        lengths = max((sources, targets), key=len).lengths
        levels, blended = recurrence.p - 1, recurrence.blended
        for double in (False, True):
            variant = variant_of(levels, double, blended, targets.masks, shared, lengths)
            more = TWO_FLOATS if not double and not gpu.fast_float64() else ()
            self.variant = replace(variant, more=(WIDE if targets.wide else ()) + more)
            fits = period_and_unit(recurrence, double, n, m)
            if fits is not None and (double or not (mode == DIAGONAL or recurrence.needs_double(n, m))):
                break
        if fits is None:
            raise InputError(
                f"decay={recurrence.decay} with p={recurrence.p} passes the range of float64 on a GPU; "
                "take a larger decay or a smaller p, or run with --device cpu"
            )
        self.period, self.unit = fits
        self.layout = targets.layout(self.variant.columns)
        self.warps = gpu.multiprocessors() * self.variant.blocks * THREADS // WARP
        self.tasks, self.parts = self._make_tasks()

    def _make_tasks(self) -> tuple[AnyArray, int]:
        """Packs by runs of sources, longest packs first, and the number of runs."""
        packs, words = self.layout.packs, self.sources.words
        size = int(words[-1]) * max(1, len(packs)) // (12 * self.warps)
        size = min(max(size, RUN[0]), RUN[1])
        if self.mode == WEIGHTED:
            size = max(size, -(-int(words[-1]) // 64))
        first = np.flatnonzero(np.diff(words[:-1] // size, prepend=-1))
        last = np.append(first[1:], len(self.sources))[: len(first)]
        if self.mode == DIAGONAL:
            begin = np.concatenate([[0], packs[:-1, 2] + 1])[: len(packs)]
            pack, source, stop = np.arange(len(packs)), begin, packs[:, 2] + 1
            part = np.zeros(len(packs), np.int64)
        else:
            pack, part = (x.ravel() for x in np.mgrid[len(packs) - 1 : -1 : -1, 0 : len(first)])
            source, stop = first[part], last[part]
            if self.mode in (MIRRORED, FORWARD, TURNED):
                ends = np.searchsorted(self.sources.places, self.targets.places[packs[:, 2]], side="right")
                before_end = source < ends[pack]
                pack, part, source = pack[before_end], part[before_end], source[before_end]
                stop = np.minimum(stop[before_end], ends[pack])
        tasks = np.empty(len(pack), TASK)
        tasks["first_strip"], tasks["strips"] = packs[pack, 0], packs[pack, 1]
        tasks["first_source"], tasks["sources"] = source, stop - source
        tasks["begin"], tasks["rows"] = words[source], words[stop] - words[source]
        tasks["part"] = part
        return tasks, len(first)

    def weights(self) -> AnyArray:
        """Struct `weights` of gap.cu."""
        variant, decay = self.variant, self.recurrence.decay
        levels = np.arange(variant.levels + 1)
        logs = self.unit + (levels + 2) * math.log2(decay)
        of_levels = self.recurrence.level_weights
        begins = np.where(of_levels > 0, of_levels * np.exp2(logs), 0)
        only = 1 if variant.blend else begins[0]
        k = np.arange(self.period)
        weights = np.zeros((), variant.weights)
        weights["levels"] = begins
        weights["rows"][: self.period] = np.stack([decay**k, only * decay**-k], axis=1)
        weights["edges"][: self.period] = decay ** (1 - k)
        weights["decay"], weights["inverse"], weights["wrap"] = decay, 1 / decay, decay**self.period
        weights["out"] = 2.0 ** -logs[variant.levels - variant.shared :]
        return weights

    def launch(self, output: dict[str, object], progress: Progress | None = None) -> None:
        """Run all tasks; `output` has the fields of gap.cu's Output except the mode."""
        cp, module = gpu.cupy(), gpu.load(SOURCE, self.variant.defines)
        unused = dict.fromkeys(OUTPUT.names or ())
        fixed = {"mode": self.mode, "targets": len(self.targets)}
        with _constants_of(self.variant.defines):
            _set_constant(module, "output", gpu.structure(OUTPUT, **{**unused, **fixed, **output}))
            _set_constant(module, "weights", self.weights())
            several = self.tasks["strips"] > 1
            done, total = 0.0, float(_cost(self.tasks).sum())
            for name, tasks in (("gap_several", self.tasks[several]), ("gap", self.tasks[~several])):
                warps, extra = self._edges(tasks) if name == "gap_several" else (self.warps, ())
                for part in _slices(tasks, progress is not None):
                    blocks = -(-min(warps, len(part)) * WARP // THREADS)
                    arguments = (
                        cp.asarray(part.view(np.uint8)), np.int32(len(part)), cp.zeros(1, np.int32),
                        self.sources.stream, self.sources.device_words, self.layout.lanes, self.layout.masks,
                        self.targets.codes, np.int32(self.targets.symbols), np.int32(self.period), *extra,
                    )  # fmt: skip
                    module.get_function(name)((blocks,), (THREADS,), arguments)
                    done += float(_cost(part).sum())
                    gpu.report(progress, done, total)

    def _edges(self, tasks: AnyArray) -> tuple[int, tuple[object, ...]]:
        """Warps to launch, and the memory passed from strip to strip: 2 (rows + sources) per warp."""
        cp = gpu.cupy()
        rows, sources = (int(tasks[name].max(initial=0)) for name in ("rows", "sources"))
        rows += 2 * WARP
        edge_bytes = -(-max(1, self.variant.levels) * (8 if self.variant.double else 4) // 16) * 16
        sums = sources * (self.variant.shared + 1)
        a_warp, in_block = 2 * (rows * edge_bytes + sums * 8), THREADS // WARP
        # gap.cu counts edges in 32 bits.
        most = (1 << 32) // (2 * rows) - in_block
        warps = min(self.warps, len(tasks), gpu.free_memory() // 2 // a_warp, most)
        warps = -(-max(1, warps) // in_block) * in_block
        gpu.require_memory(warps * a_warp, "comparing documents this long", "shorten them (--max-length)")
        edges, carries = cp.empty(2 * warps * rows * edge_bytes, np.uint8), cp.empty(2 * warps * sums + 1)
        return warps, (edges, np.int32(rows), carries, np.int64(sums))


def _cost(tasks: AnyArray) -> Floats:
    """Steps of a warp."""
    return tasks["rows"].astype(np.float64) * tasks["strips"]


def _slices(tasks: AnyArray, several: bool) -> list[AnyArray]:
    """Tasks per launch: all, or STEPS at a time."""
    turns = np.cumsum(_cost(tasks)) // (STEPS if several else np.inf)
    return [part for part in np.split(tasks, np.flatnonzero(np.diff(turns)) + 1) if len(part)]


@contextmanager
def _constants_of(defines: gpu.Defines) -> Iterator[None]:
    """Hold the constants of a module while they are set and used: each GPU has a single copy of them."""
    cuda = gpu.cupy().cuda
    lock, last = _constants.setdefault((cuda.runtime.getDevice(), defines), (Lock(), []))
    with lock:
        here = cuda.get_current_stream()
        for event in last:
            here.wait_event(event)
        yield
        last[:] = [here.record()]


def _set_constant(module: Any, name: str, value: AnyArray) -> None:
    """Write a __constant__ of the module in stream order."""
    cp = gpu.cupy()
    where = cp.ndarray((value.dtype.itemsize,), np.uint8, module.get_global(name))
    where.set(np.frombuffer(value.tobytes(), np.uint8))


ScaledTexts = tuple[GapTexts, Array]  #: Documents, and the scale of each position.


class CudaGap(ComparedRows):
    """Kernel values of `GapWeighted` with fixed documents on a GPU (`KernelRows`)."""

    def __init__(self, kernel: Any, documents: Documents, device: Device) -> None:
        super().__init__(kernel, documents, device)
        with gpu.use(device):
            self._symbols = len(documents.alphabet) + 1
            self._texts = GapTexts(documents, kernel.structure.min_length, self._symbols)
            self.normalisation: SelfValues = self._self_values(documents, self._texts, None)
            self._scale = self._position_scale(self._texts, self.normalisation)
            self._place_of = np.full(self.n, -1)
            self._place_of[self._texts.order] = np.arange(len(self._texts))

    def compare_own(self, indices: Ints, own: Normalisation) -> Array:
        by_number = np.argsort(indices, kind="stable")  # equally long texts: in the order of the columns
        cp, matrix, min_length = gpu.cupy(), self._zeros(len(indices)), self.kernel.structure.min_length
        texts = GapTexts(self.documents.take(indices[by_number]), min_length, self._symbols)
        at = by_number[texts.order]
        texts.index, texts.places = cp.asarray(at.astype(np.int32)), self._place_of[indices[at]]
        rows = texts, cp.asarray(own.scale[at])
        # The source of a pair is the text that comes first in the order of the matrix.
        self._fill(matrix, rows, self._columns, FORWARD)
        self._fill(matrix, self._columns, rows, TURNED)
        return matrix

    @property
    def _columns(self) -> ScaledTexts:
        return self._texts, self._scale

    def gram(self, progress: Progress | None = None) -> Array:
        with gpu.use(self.device):
            matrix = self._zeros(self.n)
            self._fill(matrix, self._columns, self._columns, MIRRORED, progress)
            self.normalisation.finish_gram(matrix)
            return matrix

    def compare_others(self, others: Documents, progress: Progress | None) -> tuple[Array, Normalisation]:
        texts = GapTexts(others, self.kernel.structure.min_length, self._symbols)
        own = self._self_values(others, texts, self.normalisation)
        matrix = self._zeros(len(others))
        self._fill(matrix, (texts, self._position_scale(texts, own)), self._columns, MATRIX, progress)
        return matrix, own

    def gram_in_shards(
        self, shards: Sequence[Any], number: int, progress: Progress | None = None
    ) -> Callable[[], None]:
        """Write this GPU's part of the values of `gram` into all shards, which are 0 before.

        Each GPU takes some of the tasks of a single GPU, so the bits are the same. Call the returned function
        when all parts are done: it sets the values in shard `number` that the recurrence does not give.
        """
        cp, shard = gpu.cupy(), shards[number]
        work = Sweep(self.kernel.recurrence, self._texts, self._texts, MIRRORED)
        work.variant = replace(work.variant, more=work.variant.more + SHARDS)
        mine = np.argsort(-_cost(work.tasks), kind="stable")[number :: len(shards)]  # parts of similar work
        work.tasks = work.tasks[np.sort(mine)]
        addresses = np.array([part.values.data.ptr for part in shards], np.uint64)
        firsts = np.array([0, *(part.last for part in shards)])
        output = {"shards": cp.asarray(addresses), "firsts": cp.asarray(firsts)}
        work.launch(self._places(self._columns, self._columns) | output, progress)
        return lambda: self.normalisation.finish_gram(shard.values, shard.first)

    def decision(self, others: Documents, coef: Floats, progress: Progress | None = None) -> Floats:
        """k(others, documents) @ coef without a matrix: the others are targets, and sum over the sources."""
        coef = np.ascontiguousarray(coef, np.float64)
        values = np.zeros((len(others), coef.shape[1]))
        with gpu.use(self.device):
            for first, last in batches(others, BATCH):
                batch = others if last - first == len(others) else others.take(np.arange(first, last))
                values[first:last] = self._decide(batch, coef, progress)
        return values

    def _decide(self, others: Documents, coef: Floats, progress: Progress | None) -> Floats:
        cp = gpu.cupy()
        texts = GapTexts(others, self.kernel.structure.min_length, self._symbols)
        own = self._self_values(others, texts, self.normalisation)
        work = Sweep(self.kernel.recurrence, self._texts, texts, WEIGHTED)
        classes = coef.shape[1]
        gpu.require_memory(8 * work.parts * len(texts) * classes, "the decision values")
        sums = cp.zeros((work.parts, len(texts), classes))
        scaled = cp.asarray(coef[self._texts.order]) * self._scale[:, None]
        work.launch({"classes": classes, "coef": scaled, "sums": sums}, progress)
        values = np.zeros((len(others), classes))
        values[texts.order] = (sums.sum(axis=0) * self._position_scale(texts, own)[:, None]).get()
        own.finish_values(values, coef.T, self.normalisation)
        return values

    def _zeros(self, rows: int) -> Array:
        gpu.require_memory(4 * rows * self.n, f"the {rows:,} x {self.n:,} matrix", "lower --memory")
        return gpu.cupy().zeros((rows, self.n), np.float32)

    def _fill(
        self, matrix: Array, sources: ScaledTexts, targets: ScaledTexts, mode: int,
        progress: Progress | None = None,
    ) -> None:  # fmt: skip
        output = {"width": self.n, "matrix": matrix} | self._places(sources, targets)
        Sweep(self.kernel.recurrence, sources[0], targets[0], mode).launch(output, progress)

    def _places(self, sources: ScaledTexts, targets: ScaledTexts) -> dict[str, object]:
        """Fields of gap.cu's Output: numbers, scales and places of the documents at each position."""
        output: dict[str, object] = {"smallest": SMALLEST if self.kernel.normalised else 0.0}
        for side, (texts, scale) in (("source", sources), ("target", targets)):
            output |= {f"{side}_index": texts.index, f"{side}_scale": scale}
            output[f"{side}_place"] = texts.device_places
        return output

    def _self_values(self, documents: Documents, texts: GapTexts, columns: SelfValues | None) -> SelfValues:
        if len(documents.alphabet) + 1 != self._symbols:
            # Unknown symbols match themselves here.
            texts = GapTexts(documents, self.kernel.structure.min_length, len(documents.alphabet) + 1)
        diagonal = gpu.cupy().zeros(len(texts))
        Sweep(self.kernel.recurrence, texts, texts, DIAGONAL).launch({"sums": diagonal})
        texts.forget_layouts()
        values = np.zeros(len(documents))
        values[texts.order] = diagonal.get()
        return SelfValues(self.kernel, documents, values, columns)

    def _position_scale(self, texts: GapTexts, own: SelfValues) -> Array:
        """Scale of the sums of each position, float64 on the device."""
        return gpu.cupy().asarray(own.scale[texts.order])


def cuda_grams(
    kernels: Sequence[Any], documents: Documents, device: Device, progress: Progress | None = None
) -> list[Array]:
    """Gram of each kernel, all with the same decay, from a shared pass on the device."""
    cp = gpu.cupy()
    n, (swept, mix) = len(documents), shared_pass([kernel.recurrence for kernel in kernels])
    shared = mix.shape[1] - 1
    with gpu.use(device):
        shortest = min(kernel.structure.min_length for kernel in kernels)
        texts = GapTexts(documents, shortest, len(documents.alphabet) + 1)
        diagonals = cp.zeros((shared + 1, len(texts)))
        Sweep(swept, texts, texts, DIAGONAL, shared).launch({"sums": diagonals})
        texts.forget_layouts()
        selves = []
        for kernel, weights in zip(kernels, mix, strict=True):
            values = np.zeros(n)
            values[texts.order] = weights @ diagonals.get()
            selves.append(SelfValues(kernel, documents, values))
        purpose = f"{len(kernels)} {n:,} x {n:,} matrices"
        gpu.require_memory(4 * len(kernels) * n * n, purpose, "lower --memory")
        matrices = [cp.zeros((n, n), np.float32) for _ in kernels]
        addresses = np.array([matrix.data.ptr for matrix in matrices], np.uint64)
        scales = np.stack([own.scale[texts.order] for own in selves])
        output = {
            "width": n, "source_index": texts.index, "target_index": texts.index, "kernels": len(kernels),
            "mix": cp.asarray(mix), "matrices": cp.asarray(addresses), "scales": cp.asarray(scales),
        }  # fmt: skip
        Sweep(swept, texts, texts, MIRRORED, shared).launch(output, progress)
        for matrix, own in zip(matrices, selves, strict=True):
            own.finish_gram(matrix)
        return matrices
