"""The nearest others of every example, read off a Gram a block of rows at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.gram.base import Gram
from textsvm.runtime.device import array_module, device_of, to_host
from textsvm.runtime.parallel import Progress

#: Kernel values that are looked at together.
BLOCK = 4 << 20


@dataclass(frozen=True)
class Nearest:
    """The nearest others of n examples, the nearest first.

    Attributes
    ----------
    index : int64 array, shape (n, k)
    value : float64 array, shape (n, k)
        Normalised kernel values K(s, t) / sqrt(K(s, s) K(t, t)); 0 where one of the two is 0.
    """

    index: NDArray[np.int64]
    value: NDArray[np.float64]

    def votes(self, codes: NDArray[np.int64], n_classes: int, most: int, power: float) -> NDArray[np.float64]:
        """Shares of the classes among the nearest `most`, by values to a power, shape (n, n_classes)."""
        weight, near = np.maximum(self.value[:, :most], 0.0) ** power, codes[self.index[:, :most]]
        found = np.stack([(weight * (near == k)).sum(axis=1) for k in range(n_classes)], axis=1)
        total = weight.sum(axis=1, keepdims=True)
        return np.divide(found, total, out=np.full_like(found, 1 / n_classes), where=total > 0)


def nearest(gram: Gram, k: int, progress: Progress | None = None) -> Nearest:
    """The k nearest others of every example, fewer where there are no more.

    Parameters
    ----------
    gram : Gram, n rows
    k : int
    progress : callable, optional
    """
    k = min(k, gram.n - 1)
    index, value = np.empty((gram.n, k), np.int64), np.empty((gram.n, k))
    scale, size = inverse_roots(gram.diag()), max(1, BLOCK // max(1, gram.n))
    xp = array_module(gram.device)
    for start in range(0, gram.n, size):
        block = slice(start, min(start + size, gram.n))
        values = gram.rows(np.arange(block.start, block.stop))
        values *= scale[block, None]
        values *= scale
        at = xp.arange(block.stop - block.start)
        values[at, at + start] = -np.inf
        index[block], value[block] = largest(values, k)
        if progress is not None:
            progress(block.stop, gram.n)
    return Nearest(index, value)


def largest(values: Any, k: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The k largest of each row and where they are, the largest first, on the host."""
    xp = array_module(device_of(values))
    if k == 0:
        return np.empty((len(values), 0), np.int64), np.empty((len(values), 0))
    some = xp.argpartition(-values, k - 1, axis=1)[:, :k]
    index, found = to_host(some), to_host(xp.take_along_axis(values, some, axis=1)).astype(np.float64)
    # Equal values in the order of the examples, wherever they were found.
    order = np.lexsort((index, -found), axis=1)
    return np.take_along_axis(index, order, 1).astype(np.int64), np.take_along_axis(found, order, 1)


def inverse_roots(diag: Any) -> Any:
    """1 / sqrt(K(s, s)), 0 where that is 0, float32, where `diag` lives."""
    xp = array_module(device_of(diag))
    return xp.where(diag > 0, 1 / xp.sqrt(xp.where(diag > 0, diag, 1)), 0).astype(xp.float32)
