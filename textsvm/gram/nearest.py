"""Search the rows of a Gram, a block at a time, for nearest neighbours and for similar pairs.

Similarity is the normalised kernel value K(s, t) / sqrt(K(s, s) K(t, t)), 0 where K(s, s) or K(t, t) is 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from textsvm.arrays import Array, Floats, Ints
from textsvm.gram.base import FeatureProducts, Gram
from textsvm.kernels.base import Kernel
from textsvm.linalg.rows import Pairs, similar_rows
from textsvm.runtime.device import Device, array_module, device_of, to_host
from textsvm.runtime.parallel import Progress, report
from textsvm.text.documents import Documents

BLOCK = 4 << 20  #: Kernel values in memory at a time.


@dataclass(frozen=True)
class NeighbourTable:
    """The k nearest others of n examples, nearest first, and their similarity: arrays of shape (n, k)."""

    index: Ints
    value: Floats

    def without(self, copies: Ints) -> NeighbourTable:
        """The same neighbours, with value 0 for those of the example's own group of copies."""
        return replace(self, value=np.where(copies[self.index] == copies[:, None], 0.0, self.value))

    def votes(self, codes: Ints, n_classes: int, most: int, power: float) -> Floats:
        """Class shares among the nearest `most`, weighted by value ** power, shape (n, n_classes)."""
        weight, near = np.maximum(self.value[:, :most], 0.0) ** power, codes[self.index[:, :most]]
        votes = np.stack([(weight * (near == k)).sum(axis=1) for k in range(n_classes)], axis=1)
        total = weight.sum(axis=1, keepdims=True)
        return np.divide(votes, total, out=np.full_like(votes, 1 / n_classes), where=total > 0)


def nearest(gram: Gram, k: int, progress: Progress | None = None) -> NeighbourTable:
    """The k nearest others of every example; fewer if there are fewer examples."""
    k = min(k, gram.n - 1)
    index, value = np.empty((gram.n, k), np.int64), np.empty((gram.n, k))
    xp = array_module(gram.device)
    for block, values in _normalised(gram, progress):
        at = xp.arange(block.stop - block.start)
        values[at, at + block.start] = -np.inf
        index[block], value[block] = largest(values, k)
    return NeighbourTable(index, value)


def similar_pairs(gram: Gram | FeatureProducts, least: float, progress: Progress | None) -> Iterator[Pairs]:
    """Pairs i < j of at least this similarity, and their similarity, in blocks of rows, on the host."""
    if isinstance(gram, FeatureProducts):
        assert gram.features is not None
        yield from similar_rows(gram.features, least, list(_blocks(gram.n, gram.n, None)), progress)
        return
    for block, values in _normalised(gram, progress):
        at, column = (values >= least).nonzero()
        later = column > at + block.start
        at, column = at[later], column[later]
        yield to_host(at + block.start), to_host(column), to_host(values[at, column]).astype(np.float64)


def most_similar(
    kernel: Kernel, documents: Documents, others: Documents, device: Device, progress: Progress | None = None
) -> tuple[Ints, Floats]:
    """The most similar document of each of the others, and the similarity, for a fitted kernel."""
    rows = kernel.rows(documents, device)
    scale = scale_of(rows.diag(), device)
    scale_of_others = scale_of(kernel.rows(others, device).diag(), device)
    index, best = np.zeros(len(others), np.int64), np.zeros(len(others))
    for block in _blocks(len(others), rows.n, progress):
        values = rows.cross(others.take(np.arange(block.start, block.stop)))
        values *= scale_of_others[block, None]
        values *= scale
        index[block], best[block] = to_host(values.argmax(axis=1)), to_host(values.max(axis=1))
    return index, best


def scale_of(diag: Array, device: Device) -> Array:
    """1 / sqrt(K(s, s)), or 0 if K(s, s) <= 0, float32, on the device of `diag`."""
    xp = array_module(device)
    return xp.where(diag > 0, 1 / xp.sqrt(xp.where(diag > 0, diag, 1)), 0).astype(xp.float32)


def largest(values: Array, k: int) -> tuple[Ints, Floats]:
    """Columns and values of the k largest of each row, largest first, on the host.

    Equal values come in the order of the columns.
    """
    xp = array_module(device_of(values))
    if k == 0:
        return np.empty((len(values), 0), np.int64), np.empty((len(values), 0))
    least = -xp.partition(-values, k - 1, axis=1)[:, k - 1 : k]
    selected = values >= least
    tied = xp.flatnonzero(selected.sum(axis=1) > k)
    if len(tied):  # of the values equal to the k-th, the first fill the places that larger ones leave
        equal = values[tied] == least[tied]
        places = k - (values[tied] > least[tied]).sum(axis=1, keepdims=True)
        selected[tied] &= ~equal | (xp.cumsum(equal, axis=1) <= places)
    columns = selected.nonzero()[1].reshape(len(values), k)
    index = to_host(columns).astype(np.int64)
    top = to_host(xp.take_along_axis(values, columns, axis=1)).astype(np.float64)
    order = np.lexsort((index, -top), axis=1)
    return np.take_along_axis(index, order, 1), np.take_along_axis(top, order, 1)


def _normalised(gram: Gram, progress: Progress | None) -> Iterator[tuple[slice, Array]]:
    """Blocks of normalised rows, where the Gram lives."""
    scale = scale_of(gram.diag(), gram.device)
    for block in _blocks(gram.n, gram.n, progress):
        values = gram.rows(np.arange(block.start, block.stop))
        values *= scale[block, None]
        values *= scale
        yield block, values


def _blocks(n: int, width: int, progress: Progress | None) -> Iterator[slice]:
    size = max(1, BLOCK // max(1, width))
    for start in range(0, n, size):
        stop = min(start + size, n)
        yield slice(start, stop)
        report(progress, stop, n)
