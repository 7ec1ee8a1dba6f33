"""Rows of kernels of vectors on the CPU: products by BLAS, or of sparse rows, then the kernel's function."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.device import Device
from textsvm.features.vectors import Vectors
from textsvm.kernels.rows import HostRows
from textsvm.parallel import Progress


class HostVectorRows(HostRows):
    """Kernel values with fixed vectors (`KernelRows`)."""

    def __init__(self, kernel: Any, documents: Vectors, device: Device) -> None:
        self.kernel, self.documents, self.device, self.n = kernel, documents, device, len(documents)
        raise NotImplementedError

    def diag(self) -> NDArray[np.float32]:
        """See `MatrixRows`."""
        raise NotImplementedError

    def rows(self, indices: NDArray[np.int64]) -> NDArray[np.float32]:
        """See `MatrixRows`."""
        raise NotImplementedError

    def gram(self, progress: Progress | None = None) -> NDArray[np.float32]:
        """See `MatrixRows`."""
        raise NotImplementedError

    def cross(self, others: Any, progress: Progress | None = None) -> NDArray[np.float32]:
        """See `KernelRows`."""
        raise NotImplementedError
