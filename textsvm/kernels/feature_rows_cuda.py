"""Products of sparse features on a GPU (`feature_rows`)."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from textsvm.kernels.feature_rows import FeatureKernelRows
from textsvm.kernels.normalisation import Normalisation
from textsvm.linalg.products_cuda import CudaColumns, Factors, mirror
from textsvm.linalg.sparse_cuda import CudaSparse
from textsvm.runtime import device as gpu
from textsvm.runtime.parallel import Progress

Array = Any  # a CuPy array


class CudaFeatureRows(FeatureKernelRows):
    """Kernel values with fixed documents on a GPU; `label` names the matrix in messages."""

    label: ClassVar[str]

    @cached_property
    def columns(self) -> CudaColumns:
        """X by columns; prediction does not need it."""
        return CudaColumns(self.x, Factors(self.normalisation.scale, self.x.squares))

    def compare(self, x: CudaSparse, own: Normalisation, progress: Progress | None = None) -> Array:
        if not len(x):
            return gpu.cupy().empty((0, self.n), np.float32)
        return self.columns.cross(x, Factors(own.scale, x.squares), self.label, progress)

    def compare_own(self, indices: NDArray[np.int64], own: Normalisation) -> Array:
        return self.columns.rows(gpu.cupy().asarray(indices), self.label)

    def gram(self, progress: Progress | None = None) -> Array:
        with gpu.use(self.device):
            values = self.columns.half(self.label, progress)
            self.normalisation.finish_rows(values, self.normalisation)
            mirror(values, self.normalisation.diagonal())
            return values
