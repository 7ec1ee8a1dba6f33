"""A kernel matrix that was computed elsewhere: what it must satisfy, and its rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from textsvm.errors import InputError
from textsvm.kernels.base import Kernel
from textsvm.kernels.contract import BLOCK_BYTES, Predictor, Structure
from textsvm.runtime import device as devices
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import Progress, StageProgress
from textsvm.sources.base import Kept, Source
from textsvm.text.documents import View

#: |K_ij - K_ji| may be RELATIVE |K_ij| plus ABSOLUTE times the largest value of all: as float32 arithmetic
#: in another order leaves them.
RELATIVE, ABSOLUTE = 1e-4, 1e-6
#: Rows, and columns, that are looked at together.
BLOCK = 1024


class MatrixSource(Source):
    """A kernel matrix, of the training examples or of others with them."""

    def check(self) -> None:
        """See `Source`: there is no parameter."""

    def tag(self, input_tags: Any) -> None:
        """See `Source`."""
        input_tags.string, input_tags.two_d_array, input_tags.pairwise = False, True, True

    def read(self, X: Any, machine: Any, fitting: bool = True) -> Any:
        """See `Source`; others are kernel values with all training examples, float32, shape (m, n)."""
        if devices.is_on_gpu(X):
            return X if fitting else check_block(X, machine.n_features_in_)
        values = machine.check_rows(X, vectors=False)
        if not fitting:
            values = check_block(values, values.shape[1])
        machine.check_columns(X, values.shape[1], fitting)
        return values

    def prepare(self, given: Any, known: Any = None, progress: StageProgress | None = None) -> GivenMatrix:
        """See `Source`."""
        return GivenMatrix(given)

    def kernel_for(self, examples: GivenMatrix) -> Kernel:
        """See `Source`."""
        return GivenKernel()

    def memory(self, wished: int | str | None, n: int, device: Device) -> int | str | None:
        """See `Source`: on the host the matrix is in memory already."""
        return 4 * n * n if device.kind == "cpu" else wished

    def require_tunable(self, names: Iterable[str]) -> None:
        """See `Source`."""
        if any("kernel" in name for name in names):
            raise InputError("a grid over kernels needs texts; this model takes a kernel matrix")

    def keep(self, kernel: Kernel, examples: GivenMatrix, support: NDArray[np.int64]) -> Kept:
        """See `Source`."""
        return Kept(support, n_features=len(examples))

    def require_weights(self) -> None:
        """See `Source`: never."""
        raise InputError(
            "a model of a precomputed kernel matrix has neither features nor texts; save it as it is"
        )

    def without_texts(self, kept: Kept, coef: NDArray[np.float64]) -> Kept:
        """See `Source`."""
        self.require_weights()
        return kept

    def others(self, given: Any, kept: Kept) -> Any:
        """See `Source`."""
        return given

    def predictor(self, kept: Kept, coef: NDArray[np.float64], device: Device) -> Predictor:
        """See `Source`."""
        return GivenPredictor(kept.support, coef, device)

    def state(self, kept: Kept) -> tuple[str, dict[str, NDArray[Any]]]:
        """See `Source`."""
        return GivenKernel.name, {}

    def restore(
        self, n_features: int | None, support: NDArray[np.int64], arrays: dict[str, NDArray[Any]]
    ) -> Kept:
        """See `Source`."""
        if n_features is None:
            raise ValueError("it does not say how many training documents there were")
        if len(support) and support.max() >= n_features:
            raise InputError("its support indices are out of bounds")
        return Kept(support, n_features=n_features)


class GivenMatrix:
    """The examples of a given kernel matrix (`textsvm.sources.base.Examples`).

    Parameters
    ----------
    values : array, shape (n, n), NumPy or CuPy
        As yet unchecked.
    """

    def __init__(self, values: Any) -> None:
        self.values = values

    def __len__(self) -> int:
        return int(self.values.shape[0])

    @property
    def lengths(self) -> NDArray[np.int64]:
        """All alike: nothing is computed of them."""
        return np.ones(len(self), np.int64)

    def take(self, indices: NDArray[np.int64]) -> GivenMatrix:
        """The matrix of some of the examples."""
        return GivenMatrix(self.values[indices][:, indices])


class GivenStructure(Structure):
    """Structure of a kernel matrix: examples have a single view, the matrix."""

    def read(self, documents: Any) -> Any:
        return documents


class GivenKernel(Kernel):
    """The kernel of a given matrix of kernel values."""

    name: ClassVar[str] = "precomputed"

    @property
    def structure(self) -> GivenStructure:
        return GivenStructure(self, View())

    def rows(self, documents: Any, device: Device) -> Any:
        return GivenRows(documents.values, device)


class GivenPredictor:
    """Weighs the kernel values of other examples with the training examples (`Predictor`).

    Parameters
    ----------
    support : int64 array, shape (n_sv,)
        Which of the training examples count.
    coef : float64 array, shape (n_machines, n_sv)
    device : Device
    """

    def __init__(self, support: NDArray[np.int64], coef: NDArray[np.float64], device: Device) -> None:
        self.support, self.device = support, device
        self._xp = devices.array_module(device)
        self._coef = self._xp.asarray(coef)

    def values(self, documents: Any, progress: Progress | None = None) -> NDArray[np.float64]:
        """See `Predictor`; kernel values, shape (m, n) -> (m, n_machines)."""
        result = np.empty((len(documents), len(self._coef)))
        size = max(1, BLOCK_BYTES // (8 * len(self.support)))
        for start in range(0, len(documents), size):
            block = documents[start : start + size][:, self.support]
            block = self._xp.asarray(block if self.device.kind == "cuda" else devices.to_host(block))
            result[start : start + size] = devices.to_host(block.astype(np.float64) @ self._coef.T)
        return result


class GivenRows:
    """`textsvm.kernels.base.MatrixRows` of a given matrix.

    Parameters
    ----------
    matrix : array, shape (n, n), NumPy or CuPy
    device : Device
        Where rows are wanted.

    Raises
    ------
    InputError
        If the matrix is not a square, symmetric matrix of finite numbers.
    """

    def __init__(self, matrix: Any, device: Device) -> None:
        self._matrix = check_gram(matrix)
        self.n = len(self._matrix)
        self.device = device

    def diag(self) -> Any:
        """See `MatrixRows`."""
        return self._move(self._matrix.diagonal().copy())

    def rows(self, indices: NDArray[np.int64]) -> Any:
        """See `MatrixRows`."""
        return self._move(self._matrix[indices])

    def gram(self, progress: Progress | None = None) -> Any:
        """See `MatrixRows`; not a copy where the matrix is wanted where it is."""
        return self._move(self._matrix)

    def _move(self, values: Any) -> Any:
        if self.device.kind != "cuda":
            return devices.to_host(values)
        if not devices.is_on_gpu(values):
            devices.require_memory(values.nbytes, "the given kernel matrix", "lower --memory")
        return devices.cupy().asarray(values)


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
