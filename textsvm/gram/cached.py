"""Rows of the kernel matrix computed on demand and kept, under a byte budget, while they are in use."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.errors import InputError
from textsvm.kernels.base import MatrixRows

#: Bytes of each variable that are not rows: its slot, and the owner and last use of a slot.
_BOOK = 16
#: Most bytes of rows computed at a time: they exist twice until they are in their slots.
_STAGING = 64 << 20


def needed_bytes(n: int, rows: int) -> int:
    """Bytes that a cache of `rows` rows of n values takes: rows, staging and book-keeping."""
    return 4 * n * (rows + _staged(n, rows)) + _BOOK * n


def _staged(n: int, rows: int) -> int:
    return max(2, min(rows // 8, _STAGING // (4 * max(1, n))))


class CachedGram:
    """Rows on demand, those used longest ago making room (LRU).

    Parameters
    ----------
    kernel_rows : MatrixRows
    memory : int
        Bytes that may be allocated here, all told. An eighth at most is staging for rows on their way
        into the cache.

    Raises
    ------
    InputError
        If not even two rows fit.
    """

    def __init__(self, kernel_rows: MatrixRows, memory: int) -> None:
        self.n = n = kernel_rows.n
        self._kernel_rows = kernel_rows
        least = min(2, n)
        if needed_bytes(n, least) > memory:
            raise InputError(
                f"the solver needs {needed_bytes(n, least):,} bytes for two rows of {n:,} kernel values "
                f"and {memory:,} are allowed; allow more memory or train on fewer documents"
            )
        low, high = least, n
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if needed_bytes(n, middle) <= memory else (low, middle - 1)
        self.capacity = low
        self.staging = _staged(n, low)
        self._diag: Any = kernel_rows.diag()
        # The array module of the rows: a kernel that gives CuPy arrays has imported CuPy.
        self._xp = np if isinstance(self._diag, np.ndarray) else sys.modules["cupy"]
        self.buffer: Any = self._xp.empty((self.capacity, n), np.float32)
        self.slots: Any = self._xp.full(n, -1, np.int32)
        self._slots = self.slots if self._xp is np else np.full(n, -1, np.int32)
        self._owner = np.full(self.capacity, -1, np.int64)
        self.used: NDArray[np.int64] = np.zeros(self.capacity, np.int64)
        #: Rows computed so far.
        self.computed = 0

    def diag(self) -> Any:
        """K[i, i] for all i, shape (n,), float32."""
        return self._diag.copy()

    def load(self, indices: NDArray[np.int64]) -> None:
        """Make these rows resident, in place of those used longest ago.

        Parameters
        ----------
        indices : int64 array
            At most `capacity` rows; those that are resident already stay.
        """
        wanted = np.unique(np.asarray(indices, np.int64))
        if len(wanted) > self.capacity:
            raise ValueError(f"{len(wanted)} rows do not fit in a cache of {self.capacity}")
        resident = self._slots[wanted] >= 0
        now = int(self.used.max(initial=0)) + 1
        self.used[self._slots[wanted[resident]]] = now
        missing = wanted[~resident]
        # Those in use have the latest stamp, and there are at least as many other slots as rows missing.
        victims = np.argpartition(self.used, len(missing) - 1)[: len(missing)] if len(missing) else missing
        for start in range(0, len(missing), self.staging):
            part = slice(start, start + self.staging)
            self._fill(missing[part], victims[part])
        self.used[victims] = now

    def _fill(self, rows: NDArray[np.int64], slots: NDArray[np.int64]) -> None:
        values = self._kernel_rows.rows(rows)
        self.computed += len(rows)
        evicted = self._owner[slots]
        evicted = evicted[evicted >= 0]
        self._owner[slots] = -1
        self._slots[evicted] = -1
        self.buffer[slots] = values
        self._owner[slots] = rows
        self._slots[rows] = slots
        if self._xp is not np:
            self.slots[evicted] = -1
            self.slots[rows] = self._xp.asarray(slots, np.int32)

    def rows(self, indices: NDArray[np.int64]) -> Any:
        """A copy of the rows at `indices`, shape (len(indices), n)."""
        indices = np.asarray(indices, np.int64)
        values = self._xp.empty((len(indices), self.n), np.float32)
        for start in range(0, len(indices), self.capacity):
            part = indices[start : start + self.capacity]
            self.load(part)
            values[start : start + len(part)] = self.buffer[self._slots[part]]
        return values
