"""Launches of the CUDA twin of the gap-weighted kernel; gap_recurrence.py has the mathematics.

The recurrence without decays
-----------------------------
Write S_q(i, j) = decay^(k + c) P_q / (unit decay^2q) and R_q likewise, k a row's number within a *period* and
c a column's within a *block*. Then a cell of the table costs one addition where symbols match, and one more:

    r_q += M (P_{q-1} of the row and the column before + b_{q-1} decay^-(k + c)),    P_q += r_q

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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm import device as gpu
from textsvm.device import Device
from textsvm.documents import Documents
from textsvm.errors import InputError
from textsvm.kernels.gap_lanes import SOURCE, WARP, Texts, period_and_unit, variant_of
from textsvm.kernels.gap_recurrence import GapKernel, Recurrence, SelfValues, shared_pass
from textsvm.parallel import Progress

THREADS = 128
MATRIX, MIRRORED, WEIGHTED, DIAGONAL = range(4)
#: Words of the stream that a task goes through.
RUN = (1024, 16_384)
#: Steps of a warp in one launch between two calls of `progress`.
STEPS = 4e9
#: Symbols of documents that are predicted together.
BATCH = 1 << 25
#: Of each module, by card and defines: a lock, and the event after the launches that used its constants last.
_constants: dict[tuple[int, gpu.Defines], tuple[Lock, list[Any]]] = {}

TASK = np.dtype(
    [(name, np.int32) for name in ("first_strip", "strips", "first_source", "sources")]
    + [("begin", np.int64), ("rows", np.int32), ("part", np.int32)],
    align=True,
)
OUTPUT = np.dtype(
    [("mode", np.int32), ("classes", np.int32), ("width", np.int64)]
    + [
        (name, np.uint64)
        for name in ("source_index", "target_index", "source_scale", "target_scale", "matrix", "coef", "sums")
    ]
    + [("targets", np.int64), ("kernels", np.int64)]
    + [(name, np.uint64) for name in ("mix", "matrices", "scales", "shards", "firsts")],
    align=True,
)


class Sweep:
    """The recurrence for every source with every target, or what `mode` says of them."""

    def __init__(
        self, recurrence: Recurrence, sources: Texts, targets: Texts, mode: int, shared: int = 0
    ) -> None:
        self.recurrence, self.sources, self.targets, self.mode = recurrence, sources, targets, mode
        n, m = sources.longest, targets.longest
        levels, decay, blended = recurrence.p - 1, recurrence.decay, recurrence.blended
        for double in (False, True):
            variant = variant_of(levels, decay, double, blended, targets.masks, shared)
            self.variant = replace(variant, wide=targets.wide)
            fits = period_and_unit(recurrence, double, self.variant.block, n, m)
            if fits is not None and (double or not (mode == DIAGONAL or recurrence.needs_double(n, m))):
                break
        if fits is None:
            raise InputError(
                f"decay={decay} with p={recurrence.p} passes the range of float64 on a GPU; "
                "take a larger decay or a smaller p, or run with --device cpu"
            )
        self.period, self.unit = fits
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

    def keep_part(self, number: int, count: int) -> None:
        """Leave all but one of `count` parts of the tasks, of about the same work, to other cards."""
        mine = np.argsort(-_cost(self.tasks), kind="stable")[number::count]
        self.tasks = self.tasks[np.sort(mine)]

    def weights(self) -> NDArray[Any]:
        """What gap.cu has in `weights`."""
        variant, decay = self.variant, self.recurrence.decay
        levels, of_levels = variant.levels, self.recurrence.level_weights
        width = (variant.columns - 1) % variant.block + 1
        weights = np.zeros((), variant.weights)
        k = np.arange(self.period)
        weights["rows"][: self.period] = np.stack([decay**k, decay**-k], axis=1)
        c = np.arange(variant.block)
        weights["column_out"], weights["column_in"] = decay**c, decay**-c
        logs = self.unit + 2 * np.arange(1, levels + 2) * math.log2(decay)
        weights["levels"] = np.where(of_levels > 0, of_levels * np.exp2(logs), 0)
        weights["step"], weights["edge"] = decay ** (width - 1), decay**width
        weights["block"], weights["wrap"] = decay**variant.block, decay**self.period
        lengths = levels + 1 - np.arange(variant.shared, -1, -1)
        weights["out"] = 2.0 ** -(self.unit + 2 * lengths * math.log2(decay))
        return weights

    def launch(self, output: dict[str, Any], progress: Progress | None = None) -> None:
        """Run all tasks; `output` has what gap.cu's Output needs besides the mode: arrays and numbers."""
        cp, module = gpu.cupy(), gpu.load(SOURCE, self.variant.defines)
        unused = dict.fromkeys(OUTPUT.names or ())
        fixed = {"mode": self.mode, "targets": len(self.targets)}
        with _constants_of(self.variant.defines):
            _set_constant(module, "output", gpu.structure(OUTPUT, **{**unused, **fixed, **output}))
            columns = _set_constant(module, "weights", self.weights())
            several = self.tasks["strips"] > 1
            done, total = 0.0, float(_cost(self.tasks).sum())
            for name, tasks in (("gap_several", self.tasks[several]), ("gap", self.tasks[~several])):
                warps, extra = self._edges(tasks) if name == "gap_several" else (self.warps, ())
                for part in _slices(tasks, progress is not None):
                    blocks = -(-min(warps, len(part)) * WARP // THREADS)
                    arguments = (
                        cp.asarray(part.view(np.uint8)), np.int32(len(part)), cp.zeros(1, np.int32),
                        self.sources.stream, self.layout.lanes, self.layout.masks, self.targets.codes,
                        np.int32(self.targets.symbols), np.int32(self.period), columns, *extra,
                    )  # fmt: skip
                    module.get_function(name)((blocks,), (THREADS,), arguments)
                    done += float(_cost(part).sum())
                    if progress is not None:
                        cp.cuda.get_current_stream().synchronize()
                        progress(done, total)

    def _edges(self, tasks: NDArray[Any]) -> tuple[int, tuple[Any, ...]]:
        """Warps to launch, and the memory for what goes from strip to strip: 2 (rows + sources) a warp."""
        cp = gpu.cupy()
        rows, sources = (int(tasks[name].max(initial=0)) for name in ("rows", "sources"))
        rows += 2 * WARP
        edge_bytes = -(-max(1, self.variant.levels) * (8 if self.variant.double else 4) // 16) * 16
        sums = sources * (self.variant.shared + 1)
        a_warp, in_block = 2 * (rows * edge_bytes + sums * 8), THREADS // WARP
        # gap.cu counts edges in 32 bits.
        warps = min(
            self.warps, len(tasks), gpu.free_memory() // 2 // a_warp, (1 << 32) // (2 * rows) - in_block
        )
        warps = -(-max(1, warps) // in_block) * in_block
        gpu.require_memory(warps * a_warp, "comparing documents this long", "shorten them (--max-length)")
        edges, carries = cp.empty(2 * warps * rows * edge_bytes, np.uint8), cp.empty(2 * warps * sums + 1)
        return warps, (edges, np.int32(rows), carries, np.int64(sums))


def _cost(tasks: NDArray[Any]) -> NDArray[np.float64]:
    """Steps of a warp."""
    return tasks["rows"].astype(np.float64) * tasks["strips"]


def _slices(tasks: NDArray[Any], several: bool) -> list[NDArray[Any]]:
    """Tasks of one launch each: all, or STEPS at a time."""
    turns = np.cumsum(_cost(tasks)) // (STEPS if several else np.inf)
    return [part for part in np.split(tasks, np.flatnonzero(np.diff(turns)) + 1) if len(part)]


@contextmanager
def _constants_of(defines: gpu.Defines) -> Iterator[None]:
    """Set constants of a module, then launch: there is one of each on a card, for all threads and streams."""
    cuda = gpu.cupy().cuda
    lock, last = _constants.setdefault((cuda.runtime.getDevice(), defines), (Lock(), []))
    with lock:
        here = cuda.get_current_stream()
        for event in last:
            here.wait_event(event)
        yield
        last[:] = [here.record()]


def _set_constant(module: Any, name: str, value: NDArray[Any]) -> Any:
    """Write a __constant__ of the module, in the order of the stream; where it is."""
    cp = gpu.cupy()
    where = cp.ndarray((value.dtype.itemsize,), np.uint8, module.get_global(name))
    where.set(np.frombuffer(value.tobytes(), np.uint8))
    return where


class CudaGap:
    """Rows on a GPU (`KernelRows`)."""

    def __init__(self, kernel: GapKernel, documents: Documents, device: Device) -> None:
        self.kernel, self.documents, self.device, self.n = kernel, documents, device, len(documents)
        with gpu.use(device):
            self._symbols = len(documents.alphabet) + 1
            self._texts = Texts(documents, kernel.min_length, self._symbols)
            self._self = self._self_values(documents, self._texts, None)
            self._scale = self._position_scale(self._texts, self._self)

    def diag(self) -> Any:
        with gpu.use(self.device):
            return gpu.cupy().asarray(self._self.diagonal())

    def rows(self, indices: NDArray[np.int64]) -> Any:
        indices = np.asarray(indices, np.int64)
        with gpu.use(self.device):
            return self._matrix(self.documents.take(indices), self._self.take(indices))

    def gram(self, progress: Progress | None = None) -> Any:
        with gpu.use(self.device):
            matrix = self._zeros(self.n)
            self._fill(matrix, self._texts, self._scale, MIRRORED, progress)
            self._self.finish_gram(matrix)
            return matrix

    def cross(self, others: Documents, progress: Progress | None = None) -> Any:
        with gpu.use(self.device):
            return self._matrix(others, None, progress)

    def gram_in_shards(
        self, shards: Sequence[Any], number: int, progress: Progress | None = None
    ) -> Callable[[], None]:
        """One part of as many as there are shards of the values of `gram`, put into all shards, zeros before.

        They have its bits: a card takes some of the tasks that it would take alone. What is returned is
        called when all parts are done: it sets what does not come from the recurrence, in shard `number`.
        """
        cp, shard = gpu.cupy(), shards[number]
        work = Sweep(self.kernel.recurrence, self._texts, self._texts, MIRRORED)
        work.variant = replace(work.variant, shards=True)
        work.keep_part(number, len(shards))
        index, scale = self._texts.index, self._scale
        work.launch(
            {
                "source_index": index,
                "target_index": index,
                "source_scale": scale,
                "target_scale": scale,
                "shards": cp.asarray(np.array([one.values.data.ptr for one in shards], np.uint64)),
                "firsts": cp.asarray(np.array([0, *(one.last for one in shards)])),
            },
            progress,
        )
        return lambda: self._self.finish_gram(shard.values, shard.first)

    def decision(
        self, others: Documents, coef: NDArray[np.float64], progress: Progress | None = None
    ) -> NDArray[np.float64]:
        """k(others, documents) @ coef in one pass: coef (n, k) -> (len(others), k), on the host.

        The others are the targets here, and each sums over the sources: no matrix of kernel values exists.
        """
        coef = np.ascontiguousarray(coef, np.float64)
        values = np.zeros((len(others), coef.shape[1]))
        turns = others.offsets[:-1] // BATCH
        with gpu.use(self.device):
            for turn in np.unique(turns):
                batch = np.flatnonzero(turns == turn)
                single = len(batch) == len(others)
                values[batch] = self._decide(others if single else others.take(batch), coef, progress)
        return values

    def _decide(
        self, others: Documents, coef: NDArray[np.float64], progress: Progress | None
    ) -> NDArray[np.float64]:
        cp = gpu.cupy()
        texts = Texts(others, self.kernel.min_length, self._symbols)
        own = self._self_values(others, texts, self._self)
        work = Sweep(self.kernel.recurrence, self._texts, texts, WEIGHTED)
        classes = coef.shape[1]
        gpu.require_memory(8 * work.parts * len(texts) * classes, "the decision values")
        sums = cp.zeros((work.parts, len(texts), classes))
        scaled = cp.asarray(coef[self._texts.order]) * self._scale[:, None]
        work.launch({"classes": classes, "coef": scaled, "sums": sums}, progress)
        values = np.zeros((len(others), classes))
        values[texts.order] = (sums.sum(axis=0) * self._position_scale(texts, own)[:, None]).get()
        own.finish_values(values, coef.T, self._self)
        return values

    def _zeros(self, rows: int) -> Any:
        gpu.require_memory(4 * rows * self.n, f"the {rows:,} x {self.n:,} matrix", "lower --memory")
        return gpu.cupy().zeros((rows, self.n), np.float32)

    def _matrix(self, others: Documents, own: SelfValues | None, progress: Progress | None = None) -> Any:
        """k(others, documents), given k(others, others) of each or not."""
        texts = Texts(others, self.kernel.min_length, self._symbols)
        if own is None:
            own = self._self_values(others, texts, self._self)
        matrix = self._zeros(len(others))
        self._fill(matrix, texts, self._position_scale(texts, own), MATRIX, progress)
        own.finish_rows(matrix, self._self)
        return matrix

    def _fill(self, matrix: Any, sources: Texts, scale: Any, mode: int, progress: Progress | None) -> None:
        Sweep(self.kernel.recurrence, sources, self._texts, mode).launch(
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

    def _self_values(self, documents: Documents, texts: Texts, columns: SelfValues | None) -> SelfValues:
        if len(documents.alphabet) + 1 != self._symbols:
            # Symbols that nothing else has match themselves here.
            texts = Texts(documents, self.kernel.min_length, len(documents.alphabet) + 1)
        diagonal = gpu.cupy().zeros(len(texts))
        Sweep(self.kernel.recurrence, texts, texts, DIAGONAL).launch({"sums": diagonal})
        texts.forget_layouts()
        values = np.zeros(len(documents))
        values[texts.order] = diagonal.get()
        return SelfValues(self.kernel, documents, values, columns)

    def _position_scale(self, texts: Texts, own: SelfValues) -> Any:
        """What the sums of each position are multiplied by, float64 on the device."""
        return gpu.cupy().asarray(own.scale[texts.order])


def cuda_grams(
    kernels: Sequence[GapKernel], documents: Documents, device: Device, progress: Progress | None = None
) -> list[Any]:
    """The Gram of each of these kernels, of one decay, from one shared pass, on the device."""
    cp = gpu.cupy()
    n, (swept, mix) = len(documents), shared_pass([kernel.recurrence for kernel in kernels])
    shared = mix.shape[1] - 1
    with gpu.use(device):
        texts = Texts(documents, min(kernel.min_length for kernel in kernels), len(documents.alphabet) + 1)
        diagonals = cp.zeros((shared + 1, len(texts)))
        Sweep(swept, texts, texts, DIAGONAL, shared).launch({"sums": diagonals})
        texts.forget_layouts()
        selves = []
        for kernel, weights in zip(kernels, mix, strict=True):
            values = np.zeros(n)
            values[texts.order] = weights @ diagonals.get()
            selves.append(SelfValues(kernel, documents, values))
        gpu.require_memory(
            4 * len(kernels) * n * n, f"{len(kernels)} {n:,} x {n:,} matrices", "lower --memory"
        )
        matrices = [cp.zeros((n, n), np.float32) for _ in kernels]
        output = {
            "width": n,
            "source_index": texts.index,
            "target_index": texts.index,
            "kernels": len(kernels),
            "mix": cp.asarray(mix),
            "matrices": cp.asarray(np.array([matrix.data.ptr for matrix in matrices], np.uint64)),
            "scales": cp.asarray(np.stack([own.scale[texts.order] for own in selves])),
        }
        Sweep(swept, texts, texts, MIRRORED, shared).launch(output, progress)
        for matrix, own in zip(matrices, selves, strict=True):
            own.finish_gram(matrix)
        return matrices
