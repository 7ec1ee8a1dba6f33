"""A precomputed kernel matrix: checks, and its rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np

from textsvm.arrays import Array, Arrays, Floats, Ints
from textsvm.errors import InputError
from textsvm.kernels.base import Kernel, Structure
from textsvm.kernels.contract import BLOCK_BYTES, Predictor
from textsvm.kernels.inputs import as_rows
from textsvm.runtime import device as devices
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import Progress, StageProgress
from textsvm.sources.base import Source, Support
from textsvm.text.documents import View

#: |K_ij - K_ji| may be RELATIVE |K_ij| + ABSOLUTE max |K|: rounding of float32 sums in different orders.
RELATIVE, ABSOLUTE = 1e-4, 1e-6
BLOCK = 1024  #: Rows and columns of a block that is checked at once.


class MatrixSource(Source):
    """A precomputed kernel matrix: of the training examples, or of test examples with them."""

    def tag(self, input_tags: Any) -> None:
        input_tags.string, input_tags.two_d_array, input_tags.pairwise = False, True, True

    def validate(self, X: Any, n_features: int | None = None) -> Array:
        """Check a kernel matrix; test examples need values with all training examples, shape (m, n)."""
        values = X if devices.is_on_gpu(X) else as_rows(X)
        return values if n_features is None else check_block(values, n_features)

    def encode(
        self, examples: Any, alphabets: Any = None, progress: StageProgress | None = None
    ) -> GivenMatrix:
        return GivenMatrix(examples)

    def kernel_for(self, examples: GivenMatrix) -> Kernel:
        return GivenKernel()

    def memory(self, requested: int | str | None, n: int, device: Device) -> int | str | None:
        """Memory limit; on the host the matrix is in memory already."""
        return 4 * n * n if device.kind == "cpu" else requested

    def require_tunable(self, names: Iterable[str]) -> None:
        if any("kernel" in name for name in names):
            raise InputError("a grid over kernels needs texts; this model takes a kernel matrix")

    def support(self, kernel: Kernel, examples: GivenMatrix, indices: Ints) -> Support:
        return Support(indices, n_features=len(examples))

    def require_weights(self) -> None:
        raise InputError(
            "a model of a precomputed kernel matrix has neither features nor texts; save it as it is"
        )

    def without_texts(self, support: Support, coef: Floats) -> Support:
        self.require_weights()
        return support

    def predictor(self, support: Support, coef: Floats, device: Device) -> Predictor:
        return GivenPredictor(support.indices, coef, device)

    def state(self, support: Support, machines: int = 1) -> tuple[str, Arrays]:
        return GivenKernel.name, {}

    def restore(self, n_features: int | None, indices: Ints, arrays: Arrays) -> Support:
        if n_features is None:
            raise ValueError("it does not say how many training documents there were")
        if len(indices) and indices.max() >= n_features:
            raise InputError("its support indices are out of bounds")
        return Support(indices, n_features=n_features)


class GivenMatrix:
    """The examples of a given kernel matrix, a NumPy or CuPy array of shape (n, n), not checked yet."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def __len__(self) -> int:
        return int(self.values.shape[0])

    @property
    def lengths(self) -> Ints:
        """Equal lengths, as kernel values cost no computation."""
        return np.ones(len(self), np.int64)

    def of(self, view: View) -> GivenMatrix:
        """The matrix is its single view."""
        return self

    def take(self, indices: Ints) -> GivenMatrix:
        return GivenMatrix(self.values[indices][:, indices])


class GivenKernel(Kernel):
    """The kernel of a given kernel matrix."""

    name: ClassVar[str] = "precomputed"

    @property
    def structure(self) -> Structure:
        return Structure(self, View())

    def rows(self, documents: Any, device: Device) -> Any:
        return GivenRows(documents.values, device)


class GivenPredictor:
    """`Predictor` from kernel values with the training examples, given the support vectors' indices."""

    def __init__(self, support: Ints, coef: Floats, device: Device) -> None:
        self.support, self.device = support, device
        self._xp = devices.array_module(device)
        self._coef = self._xp.asarray(coef)

    def values(self, documents: Any, progress: Progress | None = None) -> Floats:
        """Values of the machines, shape (m, n_machines), from kernel values, shape (m, n)."""
        result = np.empty((len(documents), len(self._coef)))
        size = max(1, BLOCK_BYTES // (8 * len(self.support)))
        for start in range(0, len(documents), size):
            block = documents[start : start + size][:, self.support]
            block = self._xp.asarray(block if self.device.kind == "cuda" else devices.to_host(block))
            result[start : start + size] = devices.to_host(block.astype(np.float64) @ self._coef.T)
        return result


class GivenRows:
    """`MatrixRows` of a given matrix, on `device`; InputError if the matrix is invalid."""

    def __init__(self, matrix: object, device: Device) -> None:
        self._matrix = check_gram(matrix)
        self.n = len(self._matrix)
        self.device = device

    def diag(self) -> Any:
        return self._move(self._matrix.diagonal().copy())

    def rows(self, indices: Ints) -> Any:
        return self._move(self._matrix[indices])

    def gram(self, progress: Progress | None = None) -> Any:
        return self._move(self._matrix)

    def _move(self, values: Any) -> Any:
        if self.device.kind != "cuda":
            return devices.to_host(values)
        if not devices.is_on_gpu(values):
            devices.require_memory(values.nbytes, "the given kernel matrix", "lower --memory")
        return devices.cupy().asarray(values)


def check_gram(matrix: Any) -> Any:
    """Check in blocks that a kernel matrix is square, symmetric and finite; float32, not a copy if it was."""
    matrix, largest = _finite(matrix)
    n = len(matrix)
    if matrix.shape[1] != n:
        raise InputError(
            f"the kernel matrix has {n:,} rows and {matrix.shape[1]:,} columns; training needs the square "
            "matrix of the training documents against themselves"
        )
    for first in range(0, n, BLOCK):
        for column in range(first, n, BLOCK):
            upper = matrix[first : first + BLOCK, column : column + BLOCK]
            lower = matrix[column : column + BLOCK, first : first + BLOCK].T
            unequal = abs(upper - lower) > RELATIVE * abs(upper) + ABSOLUTE * largest
            if unequal.any():
                i, j = divmod(int(unequal.argmax()), unequal.shape[1])
                value, mirrored = float(upper[i, j]), float(lower[i, j])
                raise InputError(
                    f"the kernel matrix is not symmetric: {value:g} in row {first + i}, column {column + j} "
                    f"and {mirrored:g} the other way round (from 0)"
                )
    return matrix


def check_block(matrix: Any, n: int) -> Any:
    """Check kernel values of test documents with `n` training documents; float32, not a copy if it was."""
    matrix, _ = _finite(matrix)
    if matrix.shape[1] != n:
        raise InputError(
            f"the kernel matrix has {matrix.shape[1]:,} columns and there were {n:,} training documents; "
            "give the kernel values of each document with all of them, in their order"
        )
    return matrix


def _finite(matrix: Any) -> tuple[Any, float]:
    """The matrix as a contiguous float32 array of two dimensions, and the largest absolute value."""
    xp = devices.array_module(devices.device_of(matrix))
    if matrix.ndim != 2 or matrix.dtype.kind not in "fiub" or not matrix.size:  # on a GPU, see `as_rows`
        raise InputError(
            f"the kernel matrix has the shape {matrix.shape} and the type {matrix.dtype}; give a dense array "
            "of float32 or float64"
        )
    with np.errstate(over="ignore"):
        values = xp.ascontiguousarray(matrix, dtype=np.float32)
    largest = 0.0
    for first in range(0, len(values), BLOCK):
        block = values[first : first + BLOCK]
        most = float(xp.maximum(block.max(), -block.min()))
        if not np.isfinite(most):
            i, j = divmod(int((~xp.isfinite(block)).argmax()), block.shape[1])
            raise InputError(
                f"the kernel matrix has {float(block[i, j])} in row {first + i}, column {j} (from 0); "
                "kernel values are finite numbers as float32, not NaN or inf"
            )
        largest = max(largest, most)
    return values, largest
