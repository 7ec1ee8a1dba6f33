"""GPU twins of positional kernels; kernels_cu/positions.cuh has the data layouts."""

from __future__ import annotations

from typing import Any

import numpy as np

from textsvm.arrays import Array, Floats, Ints, runs_of
from textsvm.errors import InputError
from textsvm.kernels.contract import decision_by_rows
from textsvm.kernels.shared.normalisation import Normalisation, normalisation_of
from textsvm.runtime import device as gpu
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import Progress
from textsvm.text.documents import DeviceDocuments, Documents

WARP = 32
THREADS = 256
#: Bits per code that kernels are compiled for; maximum number of rows of a launch.
PLANES = (3, 5, 8, 16, 24)
MOST_ROWS = 65_535
#: CPU core seconds per launch, about 0.1 s of a GPU, if progress is reported.
LAUNCH = 100.0
SOURCES = ("diagonals.cu", "locality.cu")

#: struct Task of kernels_cu/positions.cuh.
TASK = np.dtype(
    [(name, np.uint64) for name in ("rows", "columns", "row_firsts", "group_firsts")]
    + [(name, np.uint64) for name in ("row_lengths", "column_lengths", "row_index", "column_index")]
    + [(name, np.uint64) for name in ("row_scale", "column_scale", "table", "out")]
    + [("unit", np.float64), ("width", np.int64)]
    + [(name, np.int32) for name in ("first_row", "n_columns", "symmetric", "shifts", "first", "length")]
    + [(name, np.int32) for name in ("side", "outer")],
    align=True,
)

#: Kernels launched: (source, defines).
DEFINE_SETS: list[tuple[str, gpu.Defines]] = [("planes.cu", ())] + [
    (source, (("PLANES", planes),)) for source in SOURCES for planes in PLANES
]


class _Planes:
    """Documents as bit planes on the GPU, by length: as rows (only symbols below `known`) or columns."""

    def __init__(self, documents: Documents, planes: int, n_symbols: int, columns: bool) -> None:
        cp = gpu.cupy()
        self.order = np.argsort(documents.lengths, kind="stable").astype(np.int32)
        self.lengths = documents.lengths[self.order]
        words = (self.lengths + 31) // 32
        if columns:  # groups of 32 documents, padded to the longest
            words = np.append(words, np.zeros(-len(words) % WARP, np.int64)).reshape(-1, WARP)
            firsts = np.concatenate([[0], np.cumsum(words.max(axis=1, initial=0))]) * planes * WARP
            size, ones, within = int(firsts[-1]), np.uint32(2**32 - 1), np.arange(len(self.order))
            self.firsts, starts = firsts, firsts[within // WARP] + within % WARP
        else:  # a word of zeros before and after each document
            firsts = np.concatenate([[0], np.cumsum(words + 2)]) * planes
            size, ones, starts = int(firsts[-1]), np.uint32(0), firsts[:-1] + planes
            self.firsts = firsts
        gpu.require_memory(4 * size, "the planes of the documents")
        self.words = cp.full(max(1, size), ones, np.uint32)
        self.firsts, self.index, self.device_lengths = map(
            cp.asarray, (self.firsts.astype(np.int64), self.order, self.lengths.astype(np.int32))
        )
        if len(self.order):
            uploaded = DeviceDocuments(documents, np.uint32)
            gpu.function("planes.cu", "pack_planes")(
                (-(-len(self.order) * WARP // THREADS),),
                (THREADS,),
                (
                    np.int32(len(self.order)), uploaded.codes, uploaded.offsets, self.index,
                    cp.asarray(starts.astype(np.int64)), np.uint32(n_symbols), np.int32(planes),
                    np.int32(WARP if columns else 1), ones, self.words,
                ),
            )  # fmt: skip

    def __len__(self) -> int:
        return len(self.order)


class CudaPositions:
    """Kernel values of a `PositionKernel` with fixed documents on a GPU (`KernelRows`)."""

    def __init__(self, kernel: Any, documents: Documents, device: Device) -> None:
        self.kernel, self.documents, self.device, self.n = kernel, documents, device, len(documents)
        self._symbols = len(documents.alphabet)
        fitting = [planes for planes in PLANES if (1 << planes) - 1 > self._symbols]
        if not fitting:
            raise InputError(
                f"the documents have {self._symbols:,} distinct symbols and a GPU tells "
                f"{(1 << PLANES[-1]) - 2:,} apart; run with --device cpu"
            )
        self._planes = fitting[0]
        self.normalisation = normalisation_of(kernel, documents)
        with gpu.use(device):
            self._columns = _Planes(documents, self._planes, self._symbols, columns=True)

    def diag(self) -> Array:
        with gpu.use(self.device):
            return gpu.cupy().asarray(self.normalisation.diagonal())

    def rows(self, indices: Ints) -> Array:
        indices = np.asarray(indices, np.int64)
        with gpu.use(self.device):
            return self._matrix(self.documents.take(indices), self.normalisation.take(indices))

    def gram(self, progress: Progress | None = None) -> Array:
        with gpu.use(self.device):
            out = self._empty(self.n)
            self._fill(out, self.documents, self.normalisation, progress, symmetric=True)
            self.normalisation.finish_gram(out)
            return out

    def cross(self, others: Documents, progress: Progress | None = None) -> Array:
        own = normalisation_of(self.kernel, others, self.normalisation)
        with gpu.use(self.device):
            return self._matrix(others, own, progress)

    def decision(self, others: Documents, coef: Floats, progress: Progress | None = None) -> Floats:
        return decision_by_rows(self, others, np.ascontiguousarray(coef, np.float64), progress)

    def _empty(self, rows: int) -> Array:
        gpu.require_memory(4 * rows * self.n, f"the {rows:,} x {self.n:,} matrix", "lower --memory")
        return gpu.cupy().empty((rows, self.n), np.float32)

    def _matrix(self, others: Documents, own: Normalisation, progress: Progress | None = None) -> Array:
        out = self._empty(len(others))
        self._fill(out, others, own, progress)
        own.finish_rows(out, self.normalisation)
        return out

    def _fill(
        self,
        out: Array,
        others: Documents,
        own: Normalisation,
        progress: Progress | None,
        symmetric: bool = False,
    ) -> None:
        """Write k(others, documents), or half of it and its mirror image."""
        cp = gpu.cupy()
        columns = self._columns
        rows = _Planes(others, self._planes, self._symbols, columns=False)
        longest = int(max(rows.lengths.max(initial=0), columns.lengths.max(initial=0)))
        definition = self.kernel.definition(longest)
        arrays = {
            "rows": rows.words, "columns": columns.words, "row_firsts": rows.firsts,
            "group_firsts": columns.firsts, "row_lengths": rows.device_lengths,
            "column_lengths": columns.device_lengths, "row_index": rows.index, "column_index": columns.index,
            "row_scale": cp.asarray(own.scale[rows.order]),
            "column_scale": cp.asarray(self.normalisation.scale[columns.order]),
            "table": cp.asarray(definition.table), "out": out,
        }  # fmt: skip
        numbers = {"width": self.n, "n_columns": self.n, "symmetric": symmetric, "unit": 1.0}
        numbers |= {"shifts": 0, "first": 0, "length": 0, "side": 0, "outer": 1, **definition.numbers}
        launch = gpu.function(definition.source, "position_pairs", (("PLANES", self._planes),))
        blocks = -(-len(columns) // THREADS)
        for first, end in self._launches(rows, progress) if blocks else []:
            task = gpu.structure(TASK, **arrays, **numbers, first_row=first)
            launch((blocks, end - first), (THREADS,), (task,))
            gpu.report(progress, end, len(rows))

    def _launches(self, rows: _Planes, progress: Progress | None) -> list[tuple[int, int]]:
        """Ranges of rows, a range per launch."""
        turns = np.arange(len(rows)) // MOST_ROWS
        if progress is not None:
            seconds = np.cumsum(self.kernel.cost.of_rows(rows.lengths, self._columns.lengths))
            turns += (seconds / LAUNCH).astype(np.int64)
        return runs_of(turns)
