"""Rows of the kernel matrix for dual solvers, and features for solvers that need no rows.

DenseGram         the whole matrix in memory
CachedGram        rows computed or read on demand, within a byte budget
FeatureProducts   sparse features, without rows
HeldGram          rows of a matrix in main memory, in a cache on a card (`textsvm.gram.stored`)
ShardedGram       the matrix on several cards (`textsvm.gram.cards`)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from textsvm.arrays import Array, Ints
from textsvm.errors import InputError
from textsvm.kernels.contract import MatrixRows, rows_ahead
from textsvm.linalg.rows import FeatureRows
from textsvm.runtime import device as devices
from textsvm.runtime.device import Device
from textsvm.runtime.memory import parse_bytes

_SLOT_BYTES = 16  #: Bytes per document that are set aside for slot numbers and times of use.
#: Maximum bytes of the array that receives computed rows before they are copied to their slots.
_STAGING = 64 << 20


@dataclass(eq=False)
class Window:
    """Rows of a Gram that are in memory.

    A solver reads row i as ``values[slots[i]]`` if it is resident (``slots[i] >= 0``), and calls `refill`
    for other rows.
    """

    values: Array  #: float32, shape (capacity, n), on the device of the Gram
    slots: Array  #: int32, shape (n,), on the same device: Slot of each row in `values`, or -1
    #: shape (capacity,), on the host: Time at which the solver last read each slot, from a counter.
    used: Ints
    load: Callable[[Ints], None] | None = None  #: Makes rows resident; None if all rows are

    @property
    def capacity(self) -> int:
        """Number of rows that can be resident."""
        return len(self.values)

    @property
    def complete(self) -> bool:
        """Whether every row is resident and stays so."""
        return self.load is None

    def refill(self, indices: Ints) -> None:
        """Make these rows (at most the capacity) resident, in place of the least recently used."""
        if self.load is not None:
            self.load(indices)


class Gram(ABC):
    """Rows of an n x n kernel matrix."""

    n: int
    device: Device  #: Of the rows: NumPy arrays on the CPU, CuPy arrays on a card
    description: str  #: Origin of the rows, for people
    #: Whether several threads may read rows at once, each through a window of its own.
    concurrent: bool = False
    matrix: Array = None  #: shape (n, n): The whole matrix, if it is a single array
    shards: Sequence[Any] = ()  #: Columns of the matrix on several cards (`Shard`)
    #: Best number of rows to request at a time: 64 of a stored matrix, `rows_ahead` if they are computed.
    ahead: int = 64

    @abstractmethod
    def diag(self) -> Array:
        """K[i, i] for all i, shape (n,), float32."""

    @abstractmethod
    def rows(self, indices: Ints) -> Array:
        """A copy of the rows at `indices`, shape (len(indices), n), float32."""

    @abstractmethod
    def window(self) -> Window:
        """The resident rows; of a concurrent Gram a new window for the caller."""

    def copies(self) -> Sequence[Gram]:
        """The whole matrix on each of several cards, for independent problems; empty without room for it."""
        return []

    @abstractmethod
    def release(self) -> None:
        """Free the memory of the rows, which cannot be read any more."""


class DenseGram(Gram):
    """A symmetric matrix in a single array; every row is resident.

    The array, NumPy or CuPy, is not copied if it is float32 and contiguous.
    """

    concurrent = True

    def __init__(self, matrix: Array, description: str = "") -> None:
        self.device, self.description = devices.device_of(matrix), description
        self.n = matrix.shape[0]
        self._xp = devices.array_module(self.device)
        self.matrix = self._xp.ascontiguousarray(matrix, dtype=np.float32)

    def diag(self) -> Array:
        return self.matrix.diagonal().copy()

    def rows(self, indices: Ints) -> Array:
        return self.matrix[indices]

    def window(self) -> Window:
        return Window(self.matrix, self._xp.arange(self.n, dtype=np.int32), np.zeros(self.n, np.int64))

    def release(self) -> None:
        self.matrix = None


def allowed_bytes(memory: int | str | None, device: Device) -> int:
    """Bytes that rows may take on a device: `memory`, or half of the free memory there."""
    wanted = parse_bytes(memory)
    return max(1, devices.free_memory(device) // 2) if wanted is None else wanted


def needed_bytes(n: int, rows: int) -> int:
    """Bytes that a cache of `rows` rows of n values takes: rows, staging and book-keeping."""
    return 4 * n * (rows + staged_rows(n, rows)) + _SLOT_BYTES * n


def staged_rows(n: int, rows: int) -> int:
    """Rows that a cache of `rows` rows computes at a time at most."""
    return max(2, min(rows // 8, _STAGING // (4 * max(1, n))))


def max_rows(n: int, memory: int) -> int:
    """Capacity of the largest cache within the memory; InputError if two rows do not fit."""
    least = min(2, n)
    if needed_bytes(n, least) > memory:
        raise InputError(
            f"the solver needs {needed_bytes(n, least):,} bytes for two rows of {n:,} kernel values "
            f"and {memory:,} are allowed; raise memory (--memory) or give fewer documents"
        )
    return least - 1 + bisect_right(range(least, n + 1), memory, key=partial(needed_bytes, n))


class CachedGram(Gram):
    """Rows computed on demand, in a cache of at most `memory` bytes that evicts the least recently used.

    New rows are computed in an additional array of up to an eighth of the cached rows, at least 2. Raises
    InputError if two rows do not fit.
    """

    def __init__(self, kernel_rows: MatrixRows, memory: int, description: str = "") -> None:
        self.n = n = kernel_rows.n
        self.device, self.description = kernel_rows.device, description
        self._kernel_rows = kernel_rows
        self.capacity = max_rows(n, memory)
        self.staging = staged_rows(n, self.capacity)
        self._diag: Array = kernel_rows.diag()
        self._xp = devices.array_module(self.device)
        slots = self._xp.full(n, -1, np.int32)
        self._slots = devices.to_host(slots)
        self._owner = np.full(self.capacity, -1, np.int64)
        values = self._xp.empty((self.capacity, n), np.float32)
        self._window = Window(values, slots, np.zeros(self.capacity, np.int64), self._load)
        self.ahead = rows_ahead(kernel_rows)
        self.computed = 0  #: Rows computed so far.

    def diag(self) -> Array:
        return self._diag.copy()

    def window(self) -> Window:
        return self._window

    def rows(self, indices: Ints) -> Array:
        indices = np.asarray(indices, np.int64)
        values = self._xp.empty((len(indices), self.n), np.float32)
        for start in range(0, len(indices), self.capacity):
            part = indices[start : start + self.capacity]
            self._load(part)
            values[start : start + len(part)] = self._window.values[self._slots[part]]
        return values

    def release(self) -> None:
        self._window.values = self._kernel_rows = None  # type: ignore[assignment]

    def _load(self, indices: Ints) -> None:
        wanted, used = np.unique(np.asarray(indices, np.int64)), self._window.used
        if len(wanted) > self.capacity:
            raise ValueError(f"{len(wanted)} rows do not fit in a cache of {self.capacity}")
        resident = self._slots[wanted] >= 0
        now = int(used.max(initial=0)) + 1
        used[self._slots[wanted[resident]]] = now
        missing = wanted[~resident]
        # The least recently used slots (reports/tiers.md compares other rules): rows in use have the latest
        # stamp, and there are at least as many other slots as missing rows.
        count = len(missing)
        victims = np.argpartition(used, count - 1)[:count] if count else missing
        for start in range(0, len(missing), self.staging):
            piece = slice(start, start + self.staging)
            self._fill(missing[piece], victims[piece])
        used[victims] = now

    def _fill(self, rows: Ints, slots: Ints) -> None:
        evicted = self._owner[slots]
        self._owner[slots] = -1
        self._slots[evicted[evicted >= 0]] = -1
        try:
            self._copy(rows, slots)
            self._owner[slots] = rows
            self._slots[rows] = slots
        finally:  # without the rows, the evicted ones are in no slot
            if self._window.slots is not self._slots:
                self._window.slots.set(self._slots)  # faster than to change some of them
        self.computed += len(rows)

    def _copy(self, rows: Ints, slots: Ints) -> None:
        self._window.values[slots] = self._kernel_rows.rows(rows)


class FeatureProducts:
    """Sparse features for solvers that need no kernel matrix; has no rows, so it is not a `Gram`.

    `reason` says, for people, why there is no kernel matrix.
    """

    def __init__(self, features: FeatureRows, device: Device, reason: str) -> None:
        self.n, self.device = len(features.x), device
        self.features: FeatureRows | None = features
        values = features.x.values.size
        reason = f"{reason}; {features.note}" if features.note else reason
        self.description = f"none, trained from {values:,} feature values of {self.n:,} texts ({reason})"

    def release(self) -> None:
        self.features = None
