"""Sparse vectors in clusters of similar sparsity (Cotter, Srebro and Keshet 2011, section 5.3).

A cluster has up to SIZE vectors; its active features are those that any of them has. Kept dense over these,
all vectors of a cluster read the same numbers of a source vector, so that threads side by side read side by
side. What is kept, hence what is multiplied, is the sum of active features over all vectors.

Greedy, in one pass over the vectors in random order: of SLOTS clusters that are open, each vector joins the
one to which it adds fewest zeros,

    |S| |J_x - J_S| + |J_S - J_x|       J_x features of the vector, J_S active ones, |S| vectors so far

and a cluster that is full makes room for an empty one. Which of the open clusters hold a feature is a row of
SLOTS bytes, so that one addition of a SIMD register counts what a vector shares with all of them.

Kernel values on a GPU (kernels_cu/clusters.cu):

A block of threads has one cluster, two of its vectors each, and some sources (vectors to be compared with
it), which are dense in a tile [feature][source]. For each active feature it reads SIZE numbers of the cluster
and those of its sources, both side by side, and does SIZE multiply-adds for each source.

Whole numbers whose products stay below 2^24 are float32, hence exact; all others float64. Each product is one
sum in the order of the cluster's features: two runs give the same bits.

Memory, in bytes: 4 n^2 the matrix; 4 or 8 SIZE for each active feature of each cluster; TILE_BYTES the
sources, or what TILE of them need.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.linalg.products_cuda import Factors
from textsvm.linalg.sparse_cuda import FINISHES, CudaSparse, Finish, finish_defines, finish_fields
from textsvm.runtime import device as gpu
from textsvm.runtime.compiled import njit
from textsvm.runtime.parallel import Progress

Array = NDArray[Any]
#: Vectors of a cluster, and clusters that a vector can choose from.
SIZE, SLOTS = 256, 64


@dataclass(frozen=True)
class Clusters:
    """Who is in which cluster, and what is active there.

    Attributes
    ----------
    order : int64 array, shape (n,)
        The vectors, cluster by cluster: SIZE each, fewer in the last one.
    starts : int64 array, shape (number of clusters + 1,)
        Active features of a cluster are ``features[starts[c]:starts[c + 1]]``, ascending.
    features : int32 array
    places : int64 array, shape (number of entries,)
        Where in `features` the feature of each entry is, in its own cluster.
    """

    order: NDArray[np.int64]
    starts: NDArray[np.int64]
    features: NDArray[np.int32]
    places: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def active(self) -> float:
        """Active features of a cluster, on average."""
        return len(self.features) / max(len(self), 1)


def cluster(indptr: Array, features: Array, n_features: int, seed: int = 0) -> Clusters:
    """Cluster the rows of a CSR matrix by their sparsity.

    Parameters
    ----------
    indptr, features : int arrays
        Of the matrix; no feature occurs twice in a row.
    n_features : int
    seed : int
        Of the order in which rows are taken.
    """
    n = len(indptr) - 1
    shuffled = np.random.default_rng(seed).permutation(n)
    order = np.empty(n, np.int64)
    held = np.zeros((n_features, SLOTS), np.uint8)
    starts = np.zeros(-(-n // SIZE) + 1, np.int64)
    _assign(shuffled, indptr, features, held, order, starts[1:])
    np.cumsum(starts, out=starts)
    active, places = np.empty(starts[-1], np.int32), np.empty(len(features), np.int64)
    _activate(indptr, features, order, starts, np.full(n_features, -1, np.int64), active, places)
    return Clusters(order, starts, active, places)


@njit(nogil=True, cache=True)
def _assign(
    shuffled: Array, indptr: Array, features: Array, held: Array, order: Array, widths: Array
) -> None:
    """The vectors by cluster into `order`, and how many features are active in each into `widths`."""
    n_clusters = len(widths)
    own = np.full(SLOTS, -1, np.int64)  # the cluster that is open in each slot
    sizes, common = np.zeros(SLOTS, np.int64), np.zeros(SLOTS, np.int32)
    opened = min(SLOTS, n_clusters)
    own[:opened] = np.arange(opened)
    room = len(shuffled)  # the last cluster is the one that cannot be full
    for i in shuffled:
        begin, end = indptr[i], indptr[i + 1]
        common[:] = 0
        for k in range(begin, end):
            row = held[features[k]]
            for slot in range(SLOTS):
                common[slot] += row[slot]
        best, least = -1, 0
        for slot in range(SLOTS):
            c = own[slot]
            if c < 0:
                continue
            cost = sizes[slot] * (end - begin - common[slot]) + widths[c] - common[slot]
            if best < 0 or cost < least:
                best, least = slot, cost
        c = own[best]
        order[c * SIZE + sizes[best]] = i
        sizes[best] += 1
        for k in range(begin, end):
            if not held[features[k], best]:
                held[features[k], best] = 1
                widths[c] += 1
        if sizes[best] == min(SIZE, room - c * SIZE):
            for at in range(c * SIZE, c * SIZE + sizes[best]):
                for k in range(indptr[order[at]], indptr[order[at] + 1]):
                    held[features[k], best] = 0
            sizes[best] = 0
            own[best] = opened if opened < n_clusters else -1
            opened += 1


@njit(nogil=True, cache=True)
def _activate(
    indptr: Array, features: Array, order: Array, starts: Array, at: Array, active: Array, places: Array
) -> None:
    """The active features of each cluster, ascending, and the place of each entry among them."""
    for c in range(len(starts) - 1):
        filled, first, last = starts[c], c * SIZE, min((c + 1) * SIZE, len(order))
        for i in order[first:last]:
            for k in range(indptr[i], indptr[i + 1]):
                if at[features[k]] < starts[c]:
                    at[features[k]] = filled
                    active[filled] = features[k]
                    filled += 1
        active[starts[c] : filled].sort()
        for place in range(starts[c], filled):
            at[active[place]] = place
        for i in order[first:last]:
            for k in range(indptr[i], indptr[i + 1]):
                places[k] = at[features[k]]


SOURCE = "clusters.cu"
THREADS, WARP = 128, 32
TILE, TILE_BYTES = 32, 1 << 28
EXACT = 1 << 24  # whole numbers up to here are exact in float32
NUMBERS = {np.float32: "float", np.float64: "double"}
#: What may be launched: (source, defines).
DEFINE_SETS = [
    (SOURCE, (("NUMBER", number), *finish_defines(name))) for number in NUMBERS.values() for name in FINISHES
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
        self._dense: dict[Any, Any] = {}

    def half(self, what: str, progress: Progress | None = None) -> Any:
        """k(x[i], x[j]) for j > i, shape (n, n); what else is in the matrix is arbitrary."""
        out = self._empty(self.n, what)
        self._fill(out, self.x, self.factors, self.order, progress, half=True)
        return out

    def rows(self, which: Any, what: str) -> Any:
        """k(x[i], x[j]) for the rows i of `which`, an int64 array on the card, and all j."""
        out = self._empty(len(which), what)
        self._fill(out, self.x, self.factors, which)
        return out

    def cross(self, x: CudaSparse, factors: Factors, what: str, progress: Progress | None = None) -> Any:
        """k(row i of another matrix over the same features, x[j]) for all i and j."""
        out = self._empty(len(x), what)
        self._fill(out, x, factors, gpu.cupy().arange(len(x)), progress)
        return out

    def _empty(self, m: int, what: str) -> Any:
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
        out: Any,
        x: CudaSparse,
        factors: Factors,
        which: Any,
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

    def _numbers(self, number: np.dtype[Any]) -> Any:
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
