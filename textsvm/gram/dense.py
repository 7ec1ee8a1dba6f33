"""The whole kernel matrix in memory, one float32 copy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm import device as devices
from textsvm.errors import InputError
from textsvm.gram.base import Window


class DenseGram:
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
