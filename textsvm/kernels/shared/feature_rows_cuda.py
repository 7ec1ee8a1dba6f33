"""Products of sparse features on a GPU (`feature_rows`)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import ClassVar

import numpy as np

from textsvm.arrays import Array, Bools, Ints
from textsvm.kernels.shared.counting_cuda import CudaCounts
from textsvm.kernels.shared.feature_rows import FeatureKernelRows
from textsvm.kernels.shared.normalisation import Normalisation, featureless_groups
from textsvm.linalg.products_cuda import CudaColumns, Factors, mirror
from textsvm.linalg.rows import FeatureRows
from textsvm.linalg.rows_cuda import ENTRY_BYTES, CudaRows, place, repeated, side_by_side
from textsvm.linalg.sparse_cuda import CudaSparse, starts_of
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
    rarity = np.uint64((1 << 31) - 1) - df[shared].astype(np.uint64)
    keys = (rarity << np.uint64(32)) | shared.astype(np.uint64)
    keys.sort()
    target = cp.full(len(df), -1, np.int32)
    target[(keys & np.uint64((1 << 32) - 1)).astype(np.int64)] = cp.arange(len(shared), dtype=np.int32)
    return target, len(shared)


def shared_rows(rows: CudaRows, target: Array, n_features: int) -> tuple[CudaRows, Array]:
    """Rows of the shared features, and the squared norm of the other features of each document."""
    features = target[rows.features]
    is_shared = features >= 0
    before = starts_of(is_shared)
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


class CountedPanels:
    """Documents on the current card, counted panel by panel, and again when rows are made."""

    def __init__(self, documents: Documents) -> None:
        self.documents, self.free, self.n_panels = documents, gpu.free_memory(), 0
        self.kept: dict[int, CudaCounts] = {}  #: Counts of panels, by first document

    def placed(self, panels: Iterable[tuple[int, int, CudaRows]], df: Array, normalised: bool) -> FeatureRows:
        """Feature rows of the first to last documents of all panels, given the frequency of each feature."""
        cp, (target, n_shared) = gpu.cupy(), commonest_first(df)
        features, values, note = self._room(int(df[df > 1].sum()))
        ridge, indptr = cp.empty(len(self.documents)), [cp.zeros(1, np.int64)]
        for first, last, counted in panels:
            rows, alone = shared_rows(counted, target, n_shared)
            if normalised:
                rows, alone = normalised_rows(rows, alone)
            ridge[first:last] = alone
            to = rows.indptr + indptr[-1][-1]
            place(rows, 0, 1.0, None, to, features, values)
            indptr.append(to[1:])
            del counted, rows  # before the next is counted
        x = CudaRows(cp.concatenate(indptr), features, values, n_shared)
        return FeatureRows(x, ridge, note=note)  # type: ignore[arg-type]

    def _room(self, entries: int) -> tuple[Array, Array, str]:
        """Arrays for the features and values of the rows, and where they are, for people."""
        needed, reserve = ENTRY_BYTES * entries, self.free // 2
        if needed + reserve > gpu.free_memory():
            self.kept.clear()
        features = gpu.empty(entries, np.int32, needed // 2 + reserve)
        values = gpu.empty(entries, np.float32, reserve)
        notes = []
        if self.n_panels > 1:
            notes.append(f"counted in {self.n_panels} panels")
        if any(map(gpu.in_main_memory, (features, values))):
            notes.append("kept in main memory")
        return features, values, ", ".join(notes)
