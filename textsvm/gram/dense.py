"""The whole kernel matrix in memory, one float32 copy; and what a matrix that is given must satisfy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm import device as devices
from textsvm.errors import InputError
from textsvm.gram.base import Window

#: |K_ij - K_ji| may be RELATIVE |K_ij| plus ABSOLUTE times the largest value of all: as float32 arithmetic
#: in another order leaves them.
RELATIVE, ABSOLUTE = 1e-4, 1e-6
#: Rows, and columns, that are looked at together.
BLOCK = 1024


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


def check_gram(matrix: Any, name: str = "the kernel matrix") -> Any:
    """A kernel matrix that was given, as float32, if it is one: square, symmetric, of finite numbers.

    Parameters
    ----------
    matrix : array-like, shape (n, n), NumPy or CuPy
    name : str
        How errors call it: where it came from.

    Returns
    -------
    float32 array, shape (n, n)
        The matrix itself, not a copy, if it is a contiguous float32 array. It is looked at in blocks.

    Raises
    ------
    InputError
        If it is not; which entries are wrong.
    """
    matrix, largest = _finite(matrix, name)
    n = len(matrix)
    if matrix.shape[1] != n:
        raise InputError(
            f"{name} has {n:,} rows and {matrix.shape[1]:,} columns; training needs the square one, the "
            "training documents against themselves"
        )
    for first in range(0, n, BLOCK):
        for column in range(first, n, BLOCK):
            upper = matrix[first : first + BLOCK, column : column + BLOCK]
            lower = matrix[column : column + BLOCK, first : first + BLOCK].T
            bound = RELATIVE * abs(upper) + ABSOLUTE * largest
            unequal = abs(upper - lower) > bound
            if unequal.any():
                i, j = divmod(int(unequal.argmax()), unequal.shape[1])
                one, other = float(upper[i, j]), float(lower[i, j])
                raise InputError(
                    f"{name} is not symmetric: {one:g} in row {first + i}, column {column + j} "
                    f"and {other:g} the other way round (from 0)"
                )
    return matrix


def check_block(matrix: Any, n: int, name: str = "the kernel matrix") -> Any:
    """Kernel values of other documents against `n` training documents, as float32, if they are that.

    Parameters
    ----------
    matrix : array-like, shape (m, n), NumPy or CuPy
    n : int
        Training documents.
    name : str
        How errors call it.

    Returns
    -------
    float32 array, shape (m, n)
        Not a copy, if it was that already.

    Raises
    ------
    InputError
        If the shape is another one, or a value is not a finite number.
    """
    matrix, _ = _finite(matrix, name)
    if matrix.shape[1] != n:
        raise InputError(
            f"{name} has {matrix.shape[1]:,} columns and there were {n:,} training documents; give the "
            "kernel values of each document with all of them, in their order"
        )
    return matrix


def _finite(matrix: Any, name: str) -> tuple[Any, float]:
    """The matrix as a contiguous float32 array of two dimensions, and the largest absolute value."""
    xp = devices.array_module(devices.device_of(matrix))
    try:
        values = xp.asarray(matrix)
        kind = values.dtype.kind
        if kind == "O":  # a table of Python numbers
            values, kind = values.astype(np.float64), "f"
    except (TypeError, ValueError):
        kind = "O"
    if kind not in "fiub":
        raise InputError(f"{name} is not an array of real numbers; give a dense array of float32 or float64")
    if values.ndim != 2:
        raise InputError(f"{name} has the shape {values.shape}; rows and columns are needed")
    if not values.size:
        raise InputError(f"{name} is empty, shape {values.shape}")
    with np.errstate(over="ignore"):
        values = xp.ascontiguousarray(values, dtype=np.float32)
    largest = 0.0
    for first in range(0, len(values), BLOCK):
        block = values[first : first + BLOCK]
        most = float(xp.maximum(block.max(), -block.min()))
        if not np.isfinite(most):
            i, j = divmod(int((~xp.isfinite(block)).argmax()), block.shape[1])
            raise InputError(
                f"{name} has {float(block[i, j])} in row {first + i}, column {j} (counted from 0); kernel "
                "values are finite numbers as float32, not NaN or inf"
            )
        largest = max(largest, most)
    return values, largest
