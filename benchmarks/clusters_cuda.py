"""Kernel values of sparse vectors in clusters (`textsvm.bench.clusters`) on a GPU: kernels_cu/clusters.cu.

A block of threads has one cluster, two of its vectors each, and some sources (vectors to be compared with
it), which are dense in a tile [feature][source]. For each active feature it reads SIZE numbers of the cluster
and those of its sources, both side by side, and does SIZE multiply-adds for each source.

Whole numbers whose products stay below 2^24 are float32, hence exact; all others float64. Each product is one
sum in the order of the cluster's features: two runs give the same bits.

Memory, in bytes: 4 n^2 the matrix; 4 or 8 SIZE for each active feature of each cluster; TILE_BYTES the
sources, or what TILE of them need.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from textsvm import device as gpu
from textsvm.bench.clusters import SIZE, Clusters
from textsvm.features.finish_cuda import NAMES, Finish, finish_defines, finish_fields
from textsvm.features.products_cuda import Factors
from textsvm.features.sparse_cuda import CudaSparse
from textsvm.parallel import Progress

Array = Any  # a CuPy array
SOURCE = "clusters.cu"
THREADS, WARP = 128, 32
TILE, TILE_BYTES = 32, 1 << 28
EXACT = 1 << 24  # whole numbers up to here are exact in float32
NUMBERS = {np.float32: "float", np.float64: "double"}
#: What may be launched: (source, defines).
DEFINE_SETS = [
    (SOURCE, (("NUMBER", number), *finish_defines(name))) for number in NUMBERS.values() for name in NAMES
]
#: What clusters.cu has in Clustered.
CLUSTERED = np.dtype(
    [(name, np.uint64) for name in ("order", "starts", "features", "dense", "sources", "squares")]
    + [(name, np.uint64) for name in ("source_squares", "out")]
    + [(name, np.int64) for name in ("ld", "first")]
    + [(name, np.int32) for name in ("n", "m", "half", "degree")]
    + [(name, np.float64) for name in ("gamma", "coef0")],
    align=True,
)


class CudaClusters:
    """X in clusters, for kernel values of any vectors with its rows; the verbs of `CudaColumns`.

    Parameters
    ----------
    x : CudaSparse
        Values in float64.
    factors : Factors
        `scale` is |x|^2 of its rows.
    clusters : Clusters
        Of its rows.
    finish : Finish
    """

    def __init__(self, x: CudaSparse, factors: Factors, clusters: Clusters, finish: Finish) -> None:
        cp = gpu.cupy()
        self.x, self.n, self.factors, self.finish = x, len(x), factors, finish
        self.n_clusters = len(clusters)
        arrays = (clusters.order, clusters.starts, clusters.features, clusters.places)
        self.order, self.starts, self.features, self.places = map(cp.asarray, arrays)
        self._dense: dict[Any, Array] = {}

    def half(self, what: str, progress: Progress | None = None) -> Array:
        """k(x[i], x[j]) for j > i, shape (n, n); what else is in the matrix is arbitrary."""
        out = self._empty(self.n, what)
        self._fill(out, self.x, self.factors, self.order, progress, half=True)
        return out

    def rows(self, which: Array, what: str) -> Array:
        """k(x[i], x[j]) for the rows i of `which`, an int64 array on the card, and all j."""
        out = self._empty(len(which), what)
        self._fill(out, self.x, self.factors, which)
        return out

    def cross(self, x: CudaSparse, factors: Factors, what: str, progress: Progress | None = None) -> Array:
        """k(row i of another matrix over the same features, x[j]) for all i and j."""
        out = self._empty(len(x), what)
        self._fill(out, x, factors, gpu.cupy().arange(len(x)), progress)
        return out

    def _empty(self, m: int, what: str) -> Array:
        needed = 4 * m * self.n + 8 * len(self.x.df) * self._tile(m, 8) + 8 * SIZE * len(self.features)
        what = f"the {m:,} x {self.n:,} matrix of {what}"
        gpu.require_memory(needed, what, "lower --memory, or run with --device cpu")
        return gpu.cupy().empty((m, self.n), np.float32)

    def _tile(self, m: int, itemsize: int) -> int:
        """Sources of a tile: as many as fit TILE_BYTES."""
        fit = TILE_BYTES // (itemsize * max(len(self.x.df), 1)) // TILE
        return TILE * min(max(fit, 1), -(-max(m, 1) // TILE))

    def _fill(
        self,
        out: Array,
        x: CudaSparse,
        factors: Factors,
        which: Array,
        progress: Progress | None = None,
        half: bool = False,
    ) -> None:
        """Kernel values of the rows `which` of `x` into `out`."""
        exact = x.whole and self.x.whole and max(factors.largest, self.factors.largest) < EXACT
        number = np.dtype(np.float32 if exact else np.float64)
        size, cp = self._tile(len(which), number.itemsize), gpu.cupy()
        sources = cp.empty((len(self.x.df), size), number)
        for first in range(0, len(which) if self.n else 0, size):
            some = which[first : first + size]
            sources.fill(0)
            entries = (x.indptr, x.features, x.values)
            spread = self._function("spread", number)
            spread(
                (-(-len(some) * WARP // THREADS),), (THREADS,),
                (np.int64(len(some)), some, *entries, np.int64(size), sources),
            )  # fmt: skip
            squares = factors.scale[some]
            part = out if half else out[first : first + size]
            argument = gpu.structure(
                CLUSTERED, order=self.order, starts=self.starts, features=self.features,
                dense=self._numbers(number), sources=sources, squares=self.factors.scale,
                source_squares=squares, out=part, ld=size, first=first, n=self.n, m=len(some), half=half,
                **finish_fields(self.finish),
            )  # fmt: skip
            blocks = (self.n_clusters, -(-len(some) * number.itemsize // 128))
            self._function("values", number)(blocks, (THREADS,), (argument,))
            _report(progress, first + len(some), len(which))

    def _numbers(self, number: np.dtype[Any]) -> Array:
        """The clusters' vectors, dense over their active features: (active features, SIZE)."""
        if number not in self._dense:
            cp = gpu.cupy()
            needed = number.itemsize * SIZE * len(self.features)
            gpu.require_memory(needed, f"clusters of {self.n:,} sparse vectors")
            dense = cp.zeros((len(self.features), SIZE), number)
            position = cp.empty(self.n, np.int64)
            position[self.order] = cp.arange(self.n)
            arrays = (self.x.documents, self.places, self.x.values, position, dense)
            gpu.each(self._function("gather", number), len(self.places), *arrays)
            self._dense[number] = dense
        return self._dense[number]

    def _function(self, name: str, number: np.dtype[Any]) -> Any:
        return gpu.function(
            SOURCE, name, (("NUMBER", NUMBERS[number.type]), *finish_defines(self.finish.name))
        )


def _report(progress: Progress | None, done: int, total: int) -> None:
    if progress is not None:
        gpu.cupy().cuda.get_current_stream().synchronize()
        progress(done, total)
