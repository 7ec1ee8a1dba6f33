"""Sparse vectors in clusters of similar sparsity (Cotter, Srebro and Keshet 2011, section 5.3), on the CPU.

A cluster has up to SIZE vectors; its active features are those that any of them has. Kept dense over these,
all vectors of a cluster read the same numbers of a source vector, so that threads side by side read side by
side. What is kept, hence what is multiplied, is the sum of active features over all vectors.

Greedy, in one pass over the vectors in random order: of SLOTS clusters that are open, each vector joins the
one to which it adds fewest zeros,

    |S| |J_x - J_S| + |J_S - J_x|       J_x features of the vector, J_S active ones, |S| vectors so far

and a cluster that is full makes room for an empty one. Which of the open clusters hold a feature is a row of
SLOTS bytes, so that one addition of a SIMD register counts what a vector shares with all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.compiled import njit

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
