"""Products of sparse features on a GPU (`feature_rows`)."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

import numpy as np

from textsvm.arrays import Array, Bools, Ints
from textsvm.kernels.shared.feature_rows import FeatureKernelRows
from textsvm.kernels.shared.normalisation import Normalisation, featureless_groups
from textsvm.linalg.products_cuda import CudaColumns, Factors, mirror
from textsvm.linalg.rows import FeatureRows
from textsvm.linalg.rows_cuda import CudaRows, repeated, side_by_side
from textsvm.linalg.sparse_cuda import CudaSparse
from textsvm.runtime import device as gpu
from textsvm.runtime.parallel import Progress
from textsvm.text.documents import Documents


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

    def compare_own(self, indices: Ints, own: Normalisation) -> Array:
        return self.columns.rows(gpu.cupy().asarray(indices), self.label)

    def gram(self, progress: Progress | None = None) -> Array:
        with gpu.use(self.device):
            values = self.columns.half(self.label, progress)
            self.normalisation.finish_rows(values, self.normalisation)
            mirror(values, self.normalisation.diagonal())
            return values


def match_featureless(documents: Documents, rows: FeatureRows, featureless: Bools) -> FeatureRows:
    """Add the features of `featureless_groups` to normalised rows on the current card."""
    cp = gpu.cupy()
    if not featureless.any():
        return rows
    indptr, features, ridge, size = featureless_groups(documents, featureless)
    values = cp.ones(len(features), np.float32)
    x = CudaRows(cp.asarray(indptr), cp.asarray(features.astype(np.int32)), values, size)
    more = FeatureRows(x, cp.asarray(ridge))  # type: ignore[arg-type]
    return side_by_side([rows, more], [1.0, 1.0])


def commonest_first(df: Array) -> tuple[Array, int]:
    """Number of each shared feature, by decreasing document frequency, -1 for others; and their total."""
    cp = gpu.cupy()
    shared = cp.flatnonzero(df > 1)
    keys = (np.uint64((1 << 31) - 1) - df[shared].astype(np.uint64) << np.uint64(32)) | shared.astype(
        np.uint64
    )
    keys.sort()
    target = cp.full(len(df), -1, np.int32)
    target[(keys & np.uint64((1 << 32) - 1)).astype(np.int64)] = cp.arange(len(shared), dtype=np.int32)
    return target, len(shared)


def shared_rows(rows: CudaRows, target: Array, n_features: int) -> tuple[CudaRows, Array]:
    """Rows of the shared features, and the squared norm of the other features of each document."""
    cp = gpu.cupy()
    features = target[rows.features]
    is_shared = features >= 0
    before = cp.zeros(len(is_shared) + 1, np.int64)
    cp.cumsum(is_shared, dtype=np.int64, out=before[1:])
    shared = CudaRows(before[rows.indptr], features[is_shared], rows.values[is_shared], n_features)
    private = CudaRows(rows.indptr - shared.indptr, features[~is_shared], rows.values[~is_shared], 0)
    return shared, private.squares()


def normalised_rows(rows: CudaRows, alone: Array) -> tuple[CudaRows, Array]:
    """Rows divided by their norms, and their ridges, given the squared norm of the dropped features."""
    cp = gpu.cupy()
    whole = rows.squares() + alone
    scale = cp.where(whole > 0, 1 / cp.sqrt(cp.maximum(whole, 1e-300)), 1.0)
    values = rows.values * repeated(scale, rows.indptr)
    ridge = cp.where(whole > 0, alone * scale**2, 1.0)
    return CudaRows(rows.indptr, rows.features, values.astype(np.float32), rows.n_features), ridge
