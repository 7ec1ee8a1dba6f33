"""A kernel matrix that was computed elsewhere: checked, and as rows that a Gram can be made from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_array, validate_data

from textsvm import device as devices
from textsvm.device import Device
from textsvm.errors import InputError
from textsvm.gram.dense import check_block, check_gram
from textsvm.parallel import Progress

if TYPE_CHECKING:
    from textsvm.estimators.base import KernelMachine

#: Bytes of the float64 form of kernel values that predictions are worked out from at a time.
_BLOCK_BYTES = 32 << 20


def read_training(estimator: KernelMachine, X: Any) -> Any:
    """What is to be the kernel matrix of all training documents: an array, its values as yet unchecked."""
    if devices.is_on_gpu(X):
        return X
    with _one_sentence():
        return validate_data(estimator, X, ensure_all_finite=False)


def read_new(estimator: KernelMachine, X: Any) -> Any:
    """Kernel values of new documents with all training documents, checked: float32, shape (m, n).

    Raises
    ------
    InputError
        If it is not a matrix of finite numbers with one column a training document.
    """
    if devices.is_on_gpu(X):
        return check_block(X, estimator.n_features_in_)
    with _one_sentence():
        table = check_array(X, ensure_all_finite=False)
        values = check_block(table, table.shape[1])
        validate_data(estimator, X, reset=False, skip_check_array=True)
    return values


@contextmanager
def _one_sentence() -> Iterator[None]:
    """What scikit-learn says of a table, as an InputError."""
    try:
        yield
    except ValueError as error:
        raise InputError(" ".join(str(error).split())) from error


def weigh(values: Any, support: NDArray[np.int64], coef: NDArray[np.float64]) -> NDArray[np.float64]:
    """Values of machines from kernel values: (m, n) with coef (n_machines, n_sv) -> (m, n_machines)."""
    result = np.empty((len(values), len(coef)))
    size = max(1, _BLOCK_BYTES // (8 * len(support)))
    for start in range(0, len(values), size):
        block = values[start : start + size][:, support]
        block = block.get() if devices.is_on_gpu(block) else block
        result[start : start + size] = block.astype(np.float64) @ coef.T
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
            return values.get() if devices.is_on_gpu(values) else values
        if not devices.is_on_gpu(values):
            devices.require_memory(values.nbytes, "the given kernel matrix", "lower --memory")
        return devices.cupy().asarray(values)
