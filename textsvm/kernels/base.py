"""What every string kernel is: parameters, and rows of kernel values against fixed documents."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from textsvm.documents import Documents
from textsvm.parallel import Progress

if TYPE_CHECKING:
    from textsvm.device import Device
#: Kernel values that prediction holds at a time.
BLOCK_BYTES = 32 << 20


class MatrixRows(Protocol):
    """Rows of a symmetric n x n kernel matrix, which is what a Gram is made of.

    Arrays are float32 and live where the work is done: NumPy arrays for the CPU twins, CuPy arrays
    for the CUDA twins. None of the matrix exists until it is asked for.
    """

    n: int
    device: Device

    def diag(self) -> Any:
        """k(d, d) of each column document, shape (n,)."""

    def rows(self, indices: NDArray[np.int64]) -> Any:
        """k(documents[indices], documents), shape (len(indices), n)."""

    def gram(self, progress: Progress | None = None) -> Any:
        """The whole matrix, shape (n, n), one half of it computed."""


class KernelRows(MatrixRows, Protocol):
    """Kernel values with `n` fixed documents, the columns; other documents can be the rows.

    The twins, HostX and CudaX, have the same constructor: (kernel, documents, device).
    """

    documents: Documents

    def cross(self, others: Documents, progress: Progress | None = None) -> Any:
        """k(others, documents), shape (len(others), n).

        The alphabet of `others` must extend that of the column documents.
        """

    def decision(
        self, others: Documents, coef: NDArray[np.float64], progress: Progress | None = None
    ) -> NDArray[np.float64]:
        """k(others, documents) @ coef in bounded memory: coef (n, k) -> (len(others), k), on the host."""


class Predictor(Protocol):
    """Values of machines at any documents, sum_i coef[k, i] k(support_i, document), where `device` says.

    Whatever can be prepared once for all predictions has been.
    """

    device: Device

    def values(self, documents: Documents, progress: Progress | None = None) -> NDArray[np.float64]:
        """Values without bias, shape (len(documents), n_machines), on the host, in bounded memory.

        The alphabet of `documents` must extend that of the support vectors.
        """


class RowsPredictor:
    """The `Predictor` of kernels that have no weight vector: kernel values with the support vectors.

    Parameters
    ----------
    rows : KernelRows
        Of the support vectors.
    coef : float64 array, shape (n_machines, n_sv)
    """

    def __init__(self, rows: KernelRows, coef: NDArray[np.float64]) -> None:
        self.rows, self.coef, self.device = rows, coef, rows.device

    def values(self, documents: Documents, progress: Progress | None = None) -> NDArray[np.float64]:
        """See `Predictor`."""
        return self.rows.decision(documents, self.coef.T, progress)


class HostRows(ABC):
    """What the CPU twins share: decision values from blocks of `cross`."""

    n: int

    @abstractmethod
    def cross(self, others: Documents, progress: Progress | None = None) -> NDArray[np.float32]:
        """See `KernelRows`."""

    def decision(
        self, others: Documents, coef: NDArray[np.float64], progress: Progress | None = None
    ) -> NDArray[np.float64]:
        """k(others, documents) @ coef, a block of `others` at a time: coef (n, k) -> (len(others), k)."""
        values = np.empty((len(others), coef.shape[1]))
        size = max(1, BLOCK_BYTES // (4 * max(1, self.n)))
        for start in range(0, len(others), size):
            block = others.take(np.arange(start, min(start + size, len(others))))
            values[start : start + size] = self.cross(block) @ coef
            if progress is not None:
                progress(min(start + size, len(others)), len(others))
        return values


class Kernel(BaseEstimator, ABC):
    """The parameters of a kernel, and what it learns from training documents (most learn nothing)."""

    name: ClassVar[str]

    @property
    def min_length(self) -> int:
        """Symbols a document needs to have any feature."""
        return 0

    @property
    def learns(self) -> bool:
        """Whether `fit` learns something from the documents, on which kernel values depend."""
        return False

    def fit(self, documents: Documents) -> Kernel:
        """Check the parameters and learn what the kernel needs from training documents.

        Raises
        ------
        InputError
            If a parameter is out of range.
        """
        self.check()
        return self

    def check(self) -> None:
        """Raise InputError if a parameter is out of range."""

    @abstractmethod
    def rows(self, documents: Documents, device: Device) -> KernelRows:
        """Prepare `documents` as the columns of rows of kernel values."""

    def predictor(self, support: Documents, coef: NDArray[np.float64], device: Device) -> Predictor:
        """Prepare machines for prediction.

        Parameters
        ----------
        support : Documents, n_sv of them
        coef : float64 array, shape (n_machines, n_sv)
        device : Device
            Where they decide.
        """
        return RowsPredictor(self.rows(support, device), coef)

    def against(self, documents: Documents, device: Device) -> KernelRows:
        """Deprecated name of `rows`."""
        warnings.warn("Kernel.against is called rows now", DeprecationWarning, stacklevel=2)
        return self.rows(documents, device)

    def state(self) -> dict[str, NDArray[Any]]:
        """Arrays learnt by `fit`, to be saved with a model."""
        return {}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Take back what `state` gave."""


def featureless_groups(
    documents: Documents, self_values: NDArray[np.floating], known: dict[bytes, int]
) -> NDArray[np.int32]:
    """Number the documents without any feature (k(s, s) = 0) by their text, from 1; others get 0.

    A kernel is a function of two strings: such a string is 1 with an equal one and 0 with all others.
    Equal texts get equal numbers through `known`, which is extended.
    """
    groups = np.zeros(len(documents), np.int32)
    for i in np.flatnonzero(self_values == 0):
        codes = documents.codes[documents.offsets[i] : documents.offsets[i + 1]]
        groups[i] = known.setdefault(codes.astype(np.uint16).tobytes(), len(known) + 1)
    return groups


def normalise_values(
    values: NDArray[np.floating],
    row_self: NDArray[np.float64],
    column_self: NDArray[np.float64],
    row_groups: NDArray[np.int32],
    column_groups: NDArray[np.int32],
) -> None:
    """Divide by sqrt(k(s, s) k(t, t)), in place.

    Parameters
    ----------
    values : float array, shape (m, n)
    row_self, column_self : float64 arrays, shapes (m,) and (n,)
        k(s, s) of the documents of the rows and of the columns.
    row_groups, column_groups : int32 arrays, shapes (m,) and (n,)
        From `featureless_groups`.
    """
    with np.errstate(divide="ignore"):
        row_scale = np.where(row_self > 0, 1 / np.sqrt(row_self), 0.0)
        column_scale = np.where(column_self > 0, 1 / np.sqrt(column_self), 0.0)
    values *= row_scale[:, None].astype(values.dtype)
    values *= column_scale.astype(values.dtype)
    for i in np.flatnonzero(row_groups):
        values[i] = column_groups == row_groups[i]
