"""Rows of the kernel matrix, the only thing a dual solver sees; and the plainest Gram, the whole matrix."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from textsvm.errors import InputError
from textsvm.runtime import device as devices
from textsvm.runtime.device import Device


class Window:
    """Rows of a Gram that are in memory, which a solver reads in place and refills.

    A solver reads ``values[slots[i]]`` for every row that is resident (``slots[i] >= 0``) and calls `refill`
    for the others; it never assumes that the whole matrix exists.

    Attributes
    ----------
    values : float32 array, shape (capacity, n), where the Gram lives
    slots : int32 array, shape (n,), likewise
        Slot of each row in `values`, -1 while it is not resident.
    used : int64 array, shape (capacity,), on the host
        When each slot was last read, in a count that only grows. The solver writes it, `refill` reads it.
    """

    def __init__(
        self,
        values: Any,
        slots: Any,
        used: NDArray[np.int64],
        refill: Callable[[NDArray[np.int64]], None] | None = None,
    ) -> None:
        self.values, self.slots, self.used, self._refill = values, slots, used, refill

    @property
    def capacity(self) -> int:
        """How many rows can be resident."""
        return len(self.values)

    @property
    def complete(self) -> bool:
        """Whether every row is resident and stays so."""
        return self._refill is None

    def refill(self, indices: NDArray[np.int64]) -> None:
        """Make these rows (at most the capacity) resident, in place of those used longest ago."""
        if self._refill is not None:
            self._refill(indices)


class Gram(Protocol):
    """Source of the rows of an n x n kernel matrix: all that a dual solver sees.

    Implementations inherit from it.

    Attributes
    ----------
    n : int
    device : Device
        Where the rows live: NumPy arrays on the CPU, CuPy arrays on a card.
    concurrent : bool
        Whether several threads may read rows at once, each through a window of its own.
    description : str
        Where the rows come from, for people.
    shards : sequence of `textsvm.gram.shards.Shard`
        Blocks of columns on several cards; empty where the rows live on one device.
    features : FeatureRows, optional
        Rows of features whose products are the kernel values.
    ahead : int
        Number of rows that are best computed at a time.
    """

    n: int
    device: Device
    concurrent: bool
    description: str
    shards: Sequence[Any] = ()
    features: Any = None
    ahead: int = 64

    def diag(self) -> Any:
        """K[i, i] for all i, shape (n,), float32."""

    def rows(self, indices: NDArray[np.int64]) -> Any:
        """A copy of the rows at `indices`, shape (len(indices), n), float32."""

    def window(self) -> Window:
        """The resident rows; of a concurrent Gram a window of the caller's own."""

    def copies(self) -> Sequence[Gram]:
        """A copy of the whole matrix on each card, for independent problems; empty where there are none."""
        return []

    def release(self) -> None:
        """Give the memory of the rows back; they cannot be read any more."""


class DenseGram(Gram):
    """A symmetric matrix given as an array (`Gram`); every row is resident.

    Parameters
    ----------
    matrix : float32 array, shape (n, n), NumPy or CuPy
        Kept as it is, not copied, when it is float32 and contiguous.
    description : str
        Where it comes from, for people.

    Raises
    ------
    InputError
        If the matrix is not square.
    """

    concurrent = True

    def __init__(self, matrix: Any, description: str = "") -> None:
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
            raise InputError(f"a kernel matrix is square, this one has the shape {matrix.shape}")
        self.device = devices.device_of(matrix)
        self.description = description
        self.n: int = matrix.shape[0]
        self._xp = devices.array_module(self.device)
        #: The whole of it.
        self.matrix: Any = self._xp.ascontiguousarray(matrix, dtype=np.float32)

    def diag(self) -> Any:
        """See `Gram`."""
        return self.matrix.diagonal().copy()

    def rows(self, indices: NDArray[np.int64]) -> Any:
        """See `Gram`."""
        return self.matrix[indices]

    def window(self) -> Window:
        """See `Gram`."""
        return Window(self.matrix, self._xp.arange(self.n, dtype=np.int32), np.zeros(self.n, np.int64))

    def release(self) -> None:
        """See `Gram`."""
        self.matrix = None
