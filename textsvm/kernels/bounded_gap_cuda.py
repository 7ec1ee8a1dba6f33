"""Gap-weighted kernel of bounded span on a GPU: X from `subsequences_cuda`, products from `products_cuda`."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm import device as gpu
from textsvm.documents import Documents
from textsvm.features.products_cuda import CudaColumns, Factors, mirror
from textsvm.features.sparse_cuda import CudaSparse
from textsvm.features.subsequences import Subsequences
from textsvm.features.subsequences_cuda import count
from textsvm.kernels.bounded_gap_features import BoundedGapRows, Parameters
from textsvm.parallel import Progress

Array = Any  # a CuPy array
WHAT = "the gap-weighted kernel of bounded span"


class CudaBoundedGap(BoundedGapRows):
    """Kernel values against fixed documents, on a GPU (`KernelRows`)."""

    @staticmethod
    def represent(kernel: Parameters, documents: Documents) -> tuple[Subsequences, CudaSparse]:
        return count(documents, kernel.patterns, kernel.decay)

    @staticmethod
    def squares(x: CudaSparse) -> NDArray[np.float64]:
        return x.squares

    @staticmethod
    def over(x: CudaSparse, target: Array, n_features: int) -> CudaSparse:
        return x.select(target)

    @cached_property
    def columns(self) -> CudaColumns:
        """X by columns."""
        return CudaColumns(self.x, Factors(self.normalisation.scale, self.x.squares))

    def products(self, x: CudaSparse, scale: NDArray[np.float64], progress: Progress | None = None) -> Array:
        if not len(x):
            return gpu.cupy().empty((0, self.n), np.float32)
        return self.columns.cross(x, Factors(scale, x.squares), WHAT, progress)

    def own_products(self, indices: NDArray[np.int64], scale: NDArray[np.float64]) -> Array:
        return self.columns.rows(gpu.cupy().asarray(indices), WHAT)

    def gram(self, progress: Progress | None = None) -> Array:
        with gpu.use(self.device):
            out = self.columns.half(WHAT, progress)
            self.normalisation.finish_rows(out, self.normalisation)
            mirror(out, self.normalisation.diagonal())
            return out
