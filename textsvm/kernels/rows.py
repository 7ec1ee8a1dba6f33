"""Rows of kernel values: what a Gram is made of, and what is compared with support vectors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from textsvm.documents import Documents
from textsvm.parallel import Progress

if TYPE_CHECKING:
    from textsvm.device import Device
#: Kernel values that prediction holds at a time.
BLOCK_BYTES = 32 << 20


#: Rows asked for at a time where kernels do not say; more would push out rows in use (reports/tiers.md).
AHEAD = 8


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


class HostRows(ABC):
    """What the CPU twins share: decision values from blocks of `cross`.

    Attributes
    ----------
    ahead : int
        Rows that a solver had best ask for at a time, the likely next ones among them. Few of these are
        used before they make room again: 1 (none but those needed) where each takes as long as one alone.
    """

    n: int
    ahead: int = AHEAD

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
