"""The whole kernel matrix in memory, one float32 copy."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.errors import InputError
from textsvm.kernels.base import KernelRows
from textsvm.parallel import Progress


class DenseGram:
    """A symmetric matrix given as an array; every row is resident.

    Parameters
    ----------
    matrix : float32 array, shape (n, n), NumPy or CuPy
        Kept as it is, not copied, when it is float32 and contiguous.

    Raises
    ------
    InputError
        If the matrix is not square.
    """

    def __init__(self, matrix: Any) -> None:
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
            raise InputError(f"a kernel matrix is square, this one has the shape {matrix.shape}")
        # The array module of the matrix: whoever holds a CuPy array has imported CuPy.
        xp = np if isinstance(matrix, np.ndarray) else sys.modules["cupy"]
        self.n: int = matrix.shape[0]
        self.buffer: Any = xp.ascontiguousarray(matrix, dtype=np.float32)
        self.slots: Any = xp.arange(self.n, dtype=np.int32)
        self.used: Any = xp.zeros(self.n, dtype=np.int64)

    @classmethod
    def compute(cls, kernel_rows: KernelRows, progress: Progress | None = None) -> DenseGram:
        """Compute the whole matrix, one half and its mirror image."""
        return cls(kernel_rows.gram(progress))

    def diag(self) -> Any:
        """K[i, i] for all i, shape (n,), float32."""
        return self.buffer.diagonal().copy()

    def load(self, indices: NDArray[np.int64]) -> None:
        """Nothing to do."""

    def rows(self, indices: NDArray[np.int64]) -> Any:
        """A copy of the rows at `indices`, shape (len(indices), n)."""
        return self.buffer[indices]
