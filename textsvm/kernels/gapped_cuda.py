"""Gapped k-mers on a GPU: X of each mask as in `kernels.gapped`, from `gapped_cuda` to `products_cuda`."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm import device as gpu
from textsvm.documents import Documents
from textsvm.features import gapped_dense_cuda as dense
from textsvm.features.gapped import Mask, windows_of
from textsvm.features.gapped_cuda import CudaMaskedWindows, CudaWindows, MaskTokens
from textsvm.features.gapped_tables import Tables, Texts
from textsvm.features.pmers_cuda import CudaCounts
from textsvm.features.products_cuda import CudaColumns, Factors, mirror
from textsvm.features.sparse_cuda import CudaSparse
from textsvm.kernels.gapped_features import GappedRows, OneMask, Parameters, finish, report, values_of
from textsvm.kernels.normalisation import Normalisation
from textsvm.kernels.spectrum_cuda import matrix_of
from textsvm.parallel import Progress, part

Array = Any  # a CuPy array
WHAT = "the kernel of gapped k-mers"


@dataclass(frozen=True)
class CudaMask:
    """`OneMask` on the device.

    Attributes
    ----------
    mask : Mask
    vocabulary : CudaMaskedWindows
    windows : CudaWindows
    ids : int32 array, shape (number of windows,)
        The feature of every window.
    x : CudaSparse
    """

    mask: Mask
    vocabulary: CudaMaskedWindows
    windows: CudaWindows
    ids: Array
    x: CudaSparse

    @property
    def columns(self) -> CudaColumns:
        """X by columns, made anew: dense columns of all masks would be many."""
        return CudaColumns(self.x, Factors(np.ones(len(self.x)), self.x.squares))

    @property
    def squares(self) -> NDArray[np.float64]:
        """See `OneMask`."""
        return self.mask.times * self.x.squares

    def over(self, vocabulary: CudaMaskedWindows) -> CudaSparse:
        """See `OneMask`."""
        target = gpu.cupy().full(self.vocabulary.size, -1, np.int64)
        target[self.ids] = vocabulary.find(self.windows)
        return self.x.select(target)

    def products(self, x: CudaSparse) -> Array:
        """See `OneMask`."""
        times = np.full(len(x), float(self.mask.times))
        return self.columns.cross(x, Factors(times, x.squares), WHAT)

    def rows(self, indices: NDArray[np.int64]) -> Array:
        """See `OneMask`."""
        found = self.columns.rows(gpu.cupy().asarray(indices), WHAT)
        found *= self.mask.times
        return found


class CudaGapped(GappedRows):
    """Kernel values against fixed documents, on a GPU (`KernelRows`)."""

    @staticmethod
    def windows_of(kernel: Parameters, documents: Documents) -> CudaWindows:
        return CudaWindows(windows_of(documents, kernel.g, kernel.canonical))

    @staticmethod
    def represent(kernel: Parameters, windows: Any, mask: Mask) -> OneMask:
        vocabulary, ids = CudaMaskedWindows.learn(windows, mask)
        counts = CudaCounts(MaskTokens(windows, ids, vocabulary.size), False)
        return CudaMask(mask, vocabulary, windows, ids, matrix_of(kernel.weight, counts, None))

    @staticmethod
    def can_look_up(texts: Texts, keys: int) -> bool:
        return dense.can_look_up(texts, keys)

    @staticmethod
    def look_up(
        texts: Texts, tables: Tables, values: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return dense.look_up(texts, tables, values)

    def gram(self, progress: Progress | None = None) -> Array:
        with gpu.use(self.device):
            gpu.require_memory(
                8 * self.n**2, f"the {self.n:,} x {self.n:,} matrix of {WHAT}", "lower --memory"
            )
            total = gpu.cupy().zeros((self.n, self.n), np.float32)
            texts = Texts.of(self.documents, self.kernel.g, self.kernel.canonical)
            if texts is not None and dense.fits(texts, self.kernel.masks):
                normalisation = self._multiply(texts, total, progress)
            else:
                normalisation = self._add_up(total, progress)
            finish(total, normalisation, normalisation)
            mirror(total, normalisation.diagonal())
            return total

    def _multiply(self, texts: Texts, total: Array, progress: Progress | None) -> Normalisation:
        """Products of dense rows added up in the upper half of a matrix; k(s, s)."""
        squares, done, every = np.zeros(self.n), 0, self.kernel.masks
        rows = dense.DenseMasks(texts, values_of(self.kernel.weight, texts.windows).astype(np.float64))
        for times, equal in groupby(every, key=lambda mask: mask.times):
            for some in rows.groups(list(equal)):
                squares += times * rows.add_to(total, some)
                done += len(some)
                report(progress, done, len(every))
            total *= times
        return self._normalisation(squares)

    def _add_up(self, total: Array, progress: Progress | None) -> Normalisation:
        """Sums of products into the upper half of a matrix; k(s, s)."""
        squares, passes = np.zeros(self.n), len(self.kernel.masks)
        for times, equal in groupby(enumerate(self.made()), key=lambda numbered: numbered[1].mask.times):
            for number, one in equal:
                squares += one.squares
                total += one.columns.half(WHAT, part(progress, number, 1, passes))
            total *= times
        return self._normalisation(squares)
