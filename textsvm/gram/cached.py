"""Rows of the kernel matrix computed on demand and kept, under a byte budget, while they are in use."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.errors import InputError
from textsvm.gram.base import Gram, Window
from textsvm.kernels.contract import AHEAD, MatrixRows
from textsvm.runtime import device as devices

#: Bytes of each variable that are not rows: its slot, and the owner and last use of a slot.
_BOOK = 16
#: Most bytes of rows computed at a time: they exist twice until they are in their slots.
_STAGING = 64 << 20


def needed_bytes(n: int, rows: int) -> int:
    """Bytes that a cache of `rows` rows of n values takes: rows, staging and book-keeping."""
    return 4 * n * (rows + _staged(n, rows)) + _BOOK * n


def _staged(n: int, rows: int) -> int:
    return max(2, min(rows // 8, _STAGING // (4 * max(1, n))))


def most_rows(n: int, memory: int) -> int:
    """The largest cache that the memory allows."""
    low, high = min(2, n), n
    if needed_bytes(n, low) > memory:
        raise InputError(
            f"the solver needs {needed_bytes(n, low):,} bytes for two rows of {n:,} kernel values "
            f"and {memory:,} are allowed; allow more memory or train on fewer documents"
        )
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if needed_bytes(n, middle) <= memory else (low, middle - 1)
    return low


class CachedGram(Gram):
    """Rows on demand, those used longest ago making room (LRU; `Gram`).

    Parameters
    ----------
    kernel_rows : MatrixRows
    memory : int
        Bytes that may be allocated here, all told. An eighth at most is staging for rows on their way
        into the cache.
    description : str
        Where the rows come from, for people.

    Raises
    ------
    InputError
        If not even two rows fit.
    """

    concurrent = False

    def __init__(self, kernel_rows: MatrixRows, memory: int, description: str = "") -> None:
        self.n = n = kernel_rows.n
        self.device, self.description = kernel_rows.device, description
        self._kernel_rows = kernel_rows
        self.capacity = most_rows(n, memory)
        self.staging = _staged(n, self.capacity)
        self._diag: Any = kernel_rows.diag()
        self._xp = devices.array_module(self.device)
        slots = self._xp.full(n, -1, np.int32)
        self._slots = devices.to_host(slots)
        self._owner = np.full(self.capacity, -1, np.int64)
        values = self._xp.empty((self.capacity, n), np.float32)
        self._window = Window(values, slots, np.zeros(self.capacity, np.int64), self._load)
        #: Rows that are best computed at a time.
        self.ahead: int = getattr(kernel_rows, "ahead", AHEAD)
        #: Rows computed so far.
        self.computed = 0

    def diag(self) -> Any:
        """See `Gram`."""
        return self._diag.copy()

    def window(self) -> Window:
        """See `Gram`: the only one."""
        return self._window

    def rows(self, indices: NDArray[np.int64]) -> Any:
        """See `Gram`."""
        indices = np.asarray(indices, np.int64)
        values = self._xp.empty((len(indices), self.n), np.float32)
        for start in range(0, len(indices), self.capacity):
            part = indices[start : start + self.capacity]
            self._load(part)
            values[start : start + len(part)] = self._window.values[self._slots[part]]
        return values

    def release(self) -> None:
        """See `Gram`."""
        self._window.values = self._kernel_rows = None  # type: ignore[assignment]

    def _load(self, indices: NDArray[np.int64]) -> None:
        wanted, used = np.unique(np.asarray(indices, np.int64)), self._window.used
        if len(wanted) > self.capacity:
            raise ValueError(f"{len(wanted)} rows do not fit in a cache of {self.capacity}")
        resident = self._slots[wanted] >= 0
        now = int(used.max(initial=0)) + 1
        used[self._slots[wanted[resident]]] = now
        missing = wanted[~resident]
        # Those in use have the latest stamp, and there are at least as many other slots as rows missing.
        victims = self._given_up(len(missing)) if len(missing) else missing
        for start in range(0, len(missing), self.staging):
            piece = slice(start, start + self.staging)
            self._fill(missing[piece], victims[piece])
        used[victims] = now

    def _given_up(self, count: int) -> NDArray[np.int64]:
        """Slots whose rows make room, those used longest ago; what was tried for it: reports/tiers.md."""
        return np.argpartition(self._window.used, count - 1)[:count]

    def _fill(self, rows: NDArray[np.int64], slots: NDArray[np.int64]) -> None:
        values = self._kernel_rows.rows(rows)
        self.computed += len(rows)
        evicted = self._owner[slots]
        evicted = evicted[evicted >= 0]
        self._owner[slots] = -1
        self._slots[evicted] = -1
        self._window.values[slots] = values
        self._owner[slots] = rows
        self._slots[rows] = slots
        if self._window.slots is not self._slots:
            self._window.slots[evicted] = -1
            self._window.slots[rows] = self._xp.asarray(slots, np.int32)
