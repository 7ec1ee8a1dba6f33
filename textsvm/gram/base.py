"""Rows of the kernel matrix: the only thing a solver sees."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray


class Gram(Protocol):
    """Where the rows of an n x n kernel matrix come from.

    A solver reads ``buffer[slots[i]]`` for every row that is resident (``slots[i] >= 0``) and asks
    `load` for the others; it never assumes that the whole matrix exists. Arrays live where the rows
    live: NumPy arrays on the CPU, CuPy arrays on a GPU.

    Attributes
    ----------
    n : int
    buffer : float32 array, shape (capacity, n)
        Resident rows.
    slots : int32 array, shape (n,)
        Slot of each row in `buffer`, -1 while it is not resident.
    used : int64 array, shape (capacity,)
        When each slot was last read, in a count that only grows. The solver writes it, `load` reads it.
    """

    n: int
    buffer: Any
    slots: NDArray[np.int32]
    used: NDArray[np.int64]

    def diag(self) -> Any:
        """K[i, i] for all i, shape (n,), float32."""

    def load(self, indices: NDArray[np.int64]) -> None:
        """Make these rows (at most the capacity) resident, in place of those used longest ago."""

    def rows(self, indices: NDArray[np.int64]) -> Any:
        """A copy of the rows at `indices`, shape (len(indices), n)."""
