"""GPU twin of kernels on vectors, dense and sparse."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from textsvm.arrays import Array, Floats, Ints
from textsvm.kernels.contract import decision_by_rows
from textsvm.linalg.sparse_cuda import Finish
from textsvm.linalg.sparse_vectors_cuda import sparse_columns
from textsvm.linalg.vectors import Vectors
from textsvm.linalg.vectors_cuda import dense_columns
from textsvm.runtime import device as gpu
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import Progress

BLOCK_BYTES = 1 << 28  #: Bytes of kernel values per block of a prediction.


class CudaVectorRows:
    """Kernel values of a fitted `VectorKernel` with fixed vectors on a GPU (`KernelRows`)."""

    def __init__(self, kernel: Any, documents: Vectors, device: Device) -> None:
        self.kernel, self.documents, self.device, self.n = kernel, documents, device, len(documents)
        self._name = f"the {kernel.name} kernel"

    @cached_property
    def columns(self) -> Any:
        """The vectors in the form used for products."""
        function = self.kernel.function
        finish = Finish(function.name, function.numbers, function.value)
        columns_of = sparse_columns if self.documents.sparse else dense_columns
        return columns_of(self.documents.values, finish)

    @property
    def description(self) -> str:
        """How products are computed, shown to the user."""
        with gpu.use(self.device):
            return str(self.columns.description)

    def diag(self) -> Array:
        with gpu.use(self.device):
            return self.columns.diagonal.copy()

    def rows(self, indices: Ints) -> Array:
        with gpu.use(self.device):
            return self.columns.rows(gpu.cupy().asarray(indices, np.int64), self._name)

    def gram(self, progress: Progress | None = None) -> Array:
        with gpu.use(self.device):
            return self.columns.half(self._name, progress)

    def cross(self, others: Vectors, progress: Progress | None = None) -> Array:
        with gpu.use(self.device):
            if not len(others):
                return gpu.cupy().empty((0, self.n), np.float32)
            return self.columns.cross(others.values, self._name, progress)

    def decision(self, others: Vectors, coef: Floats, progress: Progress | None = None) -> Floats:
        # Sparse vectors may be converted to dense ones.
        size = max(1, BLOCK_BYTES // max(1, 4 * self.n, 8 * others.n_features))
        return decision_by_rows(self, others, np.ascontiguousarray(coef, np.float64), progress, size=size)
