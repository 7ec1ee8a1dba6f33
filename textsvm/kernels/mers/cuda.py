"""GPU twin of kernels on distances between l-mers: launches of kernels_cu/mers.cu."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from textsvm.arrays import Array, Floats
from textsvm.kernels.mers.cpu import words_of
from textsvm.kernels.mers.rows import MerRows, ScoreTable
from textsvm.kernels.mers.windows import Mers
from textsvm.runtime import device as gpu
from textsvm.runtime.parallel import Progress

SOURCE, WARP, THREADS = "mers.cu", 32, 256
MOST = (3, 4, 7, 15)  #: Largest distances that kernels are compiled for.
SYMBOLS = (4, 32)  #: Alphabet sizes that kernels are compiled for; larger alphabets are compared by symbol.
TILE = 256  #: Rows per block.
LAUNCH = 1e12  #: Pairs of l-mers per launch.
SHARED = 48 << 10  #: Bytes of shared memory per block.

#: struct Task of kernels_cu/mers.cu.
TASK = gpu.layout(
    "uint64 row_codes row_starts row_indptr codes starts indptr",
    "uint64 words masks planes of_distance row_scale scale out own",
    "int64 n",
    "int32 n_symbols n_rows first tile chunk symmetric",
)


def defines_of(length: int, most: int, symbols: int) -> gpu.Defines:
    """Preprocessor definitions of a kernel; `symbols` is 0 for any alphabet."""
    return (("LENGTH", length), ("MOST", most), ("SYMBOLS", symbols))


#: Kernels launched: (source, defines), for a choice of lengths.
DEFINE_SETS = [
    *((SOURCE, defines_of(10, most, 4)) for most in MOST),
    *((SOURCE, defines_of(length, 3, 4)) for length in (1, 5, 11)),
    (SOURCE, defines_of(6, 4, 32)),
    (SOURCE, defines_of(30, 15, 32)),
    (SOURCE, defines_of(3, 3, 0)),
    (SOURCE, defines_of(12, 15, 0)),
]


class CudaRowMers:
    """l-mers of row documents on the current GPU."""

    def __init__(self, mers: Mers) -> None:
        cp = gpu.cupy()
        self.n, self.numbers, self.n_symbols = len(mers.numbers), mers.numbers, mers.n_symbols
        gpu.require_memory(12 * len(mers.starts), f"{len(mers.starts):,} l-mers")
        self.codes, self.starts = cp.asarray(mers.codes), cp.asarray(mers.starts)
        self.indptr = cp.asarray(mers.indptr)


class CudaColumnMers(CudaRowMers):
    """l-mers of column documents with their words and masks, for distances up to `most`."""

    def __init__(self, mers: Mers, most: int) -> None:
        super().__init__(mers)
        cp = gpu.cupy()
        symbols = next((size for size in SYMBOLS if mers.n_symbols <= size), 0)
        self.most = next(distance for distance in MOST if most <= distance)
        self.defines = defines_of(mers.length, self.most, symbols)
        words, begins = words_of(mers.indptr)
        self.begins = cp.asarray(begins)
        of_word = mers.length * (symbols + 1)
        self.chunk = max(1, min(int(np.diff(begins).max(initial=1)), SHARED // (8 * (of_word + 1))))
        self.shared = 8 * self.chunk * (of_word + 1) if symbols else 0
        self.masks = self.planes = None
        if symbols:
            gpu.require_memory(8 * len(words) * of_word, f"the masks of {len(mers.starts):,} l-mers")
            self.masks = cp.empty(len(words) * of_word, cp.uint64)
            self.planes = cp.empty(len(words), cp.uint64)
            places = (cp.asarray(words[:, 1].copy()), cp.asarray(words[:, 2].astype(np.int32)))
            gpu.each(
                gpu.function(SOURCE, "mer_masks", self.defines), len(words) * of_word, *places, self.codes,
                self.starts, self.masks, self.planes,
            )  # fmt: skip


class CudaMers(MerRows):
    """Kernel values with fixed documents on a GPU (`KernelRows`)."""

    def prepare(self) -> None:
        self.of_columns = self._columns(self.columns)
        weights = np.zeros(self.of_columns.most + 1)
        weights[: len(self.weights)] = self.weights
        self.of_distance = gpu.cupy().asarray(weights)

    def _columns(self, mers: Mers) -> CudaColumnMers:
        return CudaColumnMers(mers, len(self.weights) - 1)

    def self_values(self, rows: Mers, columns: Mers) -> Floats:
        own = self.of_columns if columns is self.columns else self._columns(columns)
        on_gpu, out = CudaRowMers(rows), gpu.cupy().zeros(len(rows.numbers))
        if on_gpu.n:
            self._launch(on_gpu, own, (on_gpu.n, 1), WARP, own=out)
        return gpu.to_host(out)

    def table(self, of_mers: Floats) -> CudaScoreTable:
        return CudaScoreTable(self.columns, self.weights, of_mers, self.of_columns.defines)

    def products(
        self, rows: Mers, scale: Floats, progress: Progress | None = None, symmetric: bool = False
    ) -> Array:
        cp, n, m, numbers = gpu.cupy(), self.n, len(rows.numbers), self.columns.numbers
        gpu.require_memory(4 * m * n, f"the {m:,} x {n:,} kernel values", "lower --memory")
        out, on_gpu = cp.empty((m, n), cp.float32), CudaRowMers(rows)
        if not out.size:
            return out
        fields = {
            "row_scale": cp.asarray(scale),
            "scale": cp.asarray(self.normalisation.scale),
            "out": out,
            "symmetric": symmetric,  # the launch mirrors values
        }
        pairs = np.cumsum(numbers * float(rows.numbers.sum()))
        cuts = np.searchsorted(pairs, np.arange(LAUNCH, pairs[-1], LAUNCH)) + 1
        tiles, edges = -(-m // TILE), np.unique(np.clip([0, *cuts, n], 0, n)).tolist()
        for first, last in pairwise(edges):
            self._launch(on_gpu, self.of_columns, (last - first, tiles), THREADS, first=first, **fields)
            gpu.report(progress, last, n)
        return out

    def _launch(
        self,
        rows: CudaRowMers,
        columns: CudaColumnMers,
        grid: tuple[int, int],
        threads: int,
        **fields: object,
    ) -> None:
        values = dict.fromkeys(("row_scale", "scale", "out", "own")) | {"first": 0, "symmetric": 0} | fields
        task = gpu.structure(
            TASK, columns, row_codes=rows.codes, row_starts=rows.starts, row_indptr=rows.indptr,
            words=columns.begins, of_distance=self.of_distance, n_rows=rows.n, tile=TILE, **values,
        )  # fmt: skip
        kernel = gpu.function(SOURCE, "mer_values", columns.defines)
        kernel(grid, (threads,), (task,), shared_mem=columns.shared)


class CudaScoreTable(ScoreTable):
    """`ScoreTable` on a GPU."""

    def __init__(self, columns: Mers, weights: Floats, of_mers: Floats, defines: gpu.Defines) -> None:
        self.xp, self.defines, size = gpu.cupy(), defines, max(columns.n_symbols, 1) ** columns.length
        gpu.require_memory(16 * size * (len(weights) + len(of_mers)), f"a table of {size:,} l-mers")
        super().__init__(columns, weights, of_mers)

    def _spread(self, own: Floats, weights: Floats) -> Array:
        cp = self.xp
        sums = cp.zeros((len(weights), len(own)))
        sums[0] = cp.asarray(own)
        for place in range(self.length):
            by_place = sums.reshape(len(weights), -1, self.symbols, self.symbols**place)
            for d in range(len(weights) - 1, 0, -1):
                near = by_place[d - 1]
                by_place[d] += near.sum(axis=1, keepdims=True) - near
        return (cp.asarray(weights)[:, None] * sums).sum(axis=0)

    def sums(self, rows: Mers) -> Floats:
        own, machines = CudaRowMers(rows), self.scores.shape[1]
        out = gpu.cupy().zeros((own.n, machines))
        if own.n:
            grid = (-(-own.n * WARP // THREADS),)
            mers = (own.codes, own.starts, own.indptr)
            sizes = (np.int32(self.symbols), np.int32(machines))
            kernel = gpu.function(SOURCE, "mer_scores", self.defines)
            kernel(grid, (THREADS,), (np.int64(own.n), *mers, *sizes, self.scores, out))
        return gpu.to_host(out)
