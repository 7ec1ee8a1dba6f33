"""Gap-weighted kernel of bounded span on a GPU: X from `subsequences_cuda`, products from `products_cuda`."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm import device as gpu
from textsvm.documents import Documents
from textsvm.features.products_cuda import CudaColumns, Factors, mirror
from textsvm.features.rows import FeatureRows
from textsvm.features.rows_cuda import CudaRows
from textsvm.features.sparse_cuda import CudaSparse
from textsvm.features.subsequences import Subsequences
from textsvm.features.subsequences_cuda import count
from textsvm.kernels.bounded_gap_features import BoundedGapRows, Parameters, check_range
from textsvm.kernels.spectrum_counted_cuda import commonest_first, equal_ones, normalised_rows, shared_rows
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


class CudaCountedSubsequences:
    """Documents as rows of features on the current card, for machines without a Gram.

    Parameters
    ----------
    kernel : BoundedGap
    documents : Documents
    """

    def __init__(self, kernel: Parameters, documents: Documents) -> None:
        self.documents = documents
        _, x = count(documents, kernel.patterns, kernel.decay)
        rows = CudaRows(x.indptr, x.features, x.values, len(x.df))
        self.shared, self.alone = shared_rows(rows, *commonest_first(x.df))

    def rows(self, kernel: Parameters, train: NDArray[np.int64]) -> FeatureRows:
        """All documents as rows of features."""
        featured = self.documents.lengths >= kernel.p
        if kernel.normalised:
            rows = FeatureRows(*normalised_rows(self.shared, self.alone))  # type: ignore[arg-type]
            return equal_ones(self.documents, rows, ~featured)
        unit, x = float(kernel.decay) ** int(kernel.p), self.shared
        scaled = CudaRows(x.indptr, x.features, x.values * np.float32(unit), x.n_features)
        ridge = self.alone * unit**2
        check_range((scaled.squares() + ridge).get(), featured)
        return FeatureRows(scaled, ridge)  # type: ignore[arg-type]
