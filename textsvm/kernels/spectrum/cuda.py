"""p-spectrum kernel on a GPU: X as in `kernels.spectrum`, from `features.pmers_cuda` to `products_cuda`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.kernels.normalisation import Normalisation
from textsvm.kernels.spectrum.features import FeatureMap, FeatureSpace, SpectrumPredictor
from textsvm.kernels.spectrum.learnt_weights import FeatureWeights, check_fitted, is_weighted
from textsvm.kernels.spectrum.pmers_cuda import CudaCounts, CudaPmers, match_unary, upload
from textsvm.kernels.spectrum.vocabulary import Vocabulary, longest_of
from textsvm.linalg.products_cuda import CudaColumns, Factors, mirror
from textsvm.linalg.sparse_cuda import CudaSparse
from textsvm.runtime import device as gpu
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import Progress
from textsvm.runtime.parallel import part as within
from textsvm.text.documents import DeviceDocuments, Documents

Array = Any  # a CuPy array
WHAT = "the spectrum kernel"


class CudaWeights:
    """`features.weights.FeatureWeights`, on the current card."""

    def __init__(self, learnt: FeatureWeights) -> None:
        self.vocabulary, self.table = upload(learnt.vocabulary), gpu.cupy().asarray(learnt.table)

    def weights(self, vocabulary: Vocabulary) -> Array:
        """The weight of every p-mer of `vocabulary`."""
        return self.table[gpu.cupy().asarray(self.vocabulary.find(vocabulary))]


@dataclass(frozen=True)
class KnownPmers:
    """p-mers that were counted elsewhere, on the current card."""

    vocabulary: Vocabulary


@dataclass(frozen=True)
class CudaFeatureSpace:
    """`FeatureSpace` on the device; `starts` is None where each p-mer is one feature."""

    kernel: FeatureMap
    learnt: CudaWeights | None
    pmers: CudaPmers | KnownPmers
    starts: Array | None
    row: Array | None = None

    @classmethod
    def of(cls, space: FeatureSpace) -> CudaFeatureSpace:
        """The same features as on the host, and what the kernel learnt, on the current card."""
        kernel, cp = space.kernel, gpu.cupy()
        learnt = CudaWeights(kernel.weights_) if is_weighted(kernel) else None
        shared = learnt is not None and space.vocabulary is kernel.weights_.vocabulary
        known = learnt.vocabulary if learnt is not None and shared else upload(space.vocabulary)
        starts = cp.asarray(space.starts) if kernel.weight == "intersection" else None
        row = None if space.row is None else cp.asarray(space.row)
        return cls(kernel, learnt, KnownPmers(known), starts, row)

    def find(self, other: CudaFeatureSpace) -> Array:
        """Where each feature of other documents is here, -1 if it is not."""
        found = gpu.cupy().asarray(self.pmers.vocabulary.find(other.pmers.vocabulary))
        if self.starts is not None:
            found = match_unary(self.starts, other.starts, found)
        return found if self.row is None else self.row[found]

    def project(self, others: Documents, columns: Normalisation) -> tuple[CudaSparse, Normalisation]:
        """X of other documents over these features, and their k(s, s) over all of their own."""
        space, x = represent(self.kernel, self.learnt, DeviceDocuments(others))
        normalisation = Normalisation(others, x.squares, self.kernel.normalised, columns)
        return x.select(self.find(space)), normalisation

    def products(
        self, others: Documents, columns: Normalisation, weights: Array
    ) -> tuple[NDArray[np.float64], Normalisation]:
        """See `FeatureSpace`."""
        x, own = self.project(others, columns)
        return x.dot(weights).get(), own


def represent(
    kernel: FeatureMap, learnt: CudaWeights | None, text: DeviceDocuments
) -> tuple[CudaFeatureSpace, CudaSparse]:
    """Documents over the features of their own p-mers: the features, and X."""
    pmers = CudaPmers(text, *kernel.lengths)
    counts = CudaCounts(pmers, kernel.weight == "intersection")
    weights = None if learnt is None else learnt.weights(pmers.vocabulary)
    pmers.forget_positions()
    return CudaFeatureSpace(kernel, learnt, pmers, counts.starts), matrix_of(kernel.weight, counts, weights)


def matrix_of(weight: str, counts: CudaCounts, weights: Array | None) -> CudaSparse:
    """X of the documents that were counted, given what a count weighs and learnt weights."""
    cp = gpu.cupy()
    values = counts.counts if weight == "count" else cp.ones(len(counts.features), np.float32)
    if weight == "log":
        values = 1 + cp.log(counts.counts.astype(np.float64))
    if weights is not None:
        w = weights[counts.pmers]
        values = cp.sqrt(w) if weight == "intersection" else w * values
    values = values.astype(np.float32, copy=False)
    highest = counts.highest if weight == "count" else cp.ones(len(counts.df), np.int32)
    whole = weights is None and weight != "log"
    return CudaSparse(counts.indptr, counts.documents, counts.features, values, counts.df, highest, whole)


class CudaSpectrum:
    """Kernel values against fixed documents, on a GPU (`KernelRows`)."""

    def __init__(self, kernel: FeatureMap, documents: Documents, device: Device) -> None:
        check_fitted(kernel)
        self.kernel, self.documents, self.device = kernel, documents, device
        self.n = len(documents)
        with gpu.use(device):
            self.prepare(DeviceDocuments(documents))

    def prepare(self, text: DeviceDocuments) -> None:
        """From the documents on the device to X."""
        learnt = CudaWeights(self.kernel.weights_) if is_weighted(self.kernel) else None
        self.space, self.x = represent(self.kernel, learnt, text)
        self.normalisation = Normalisation(self.documents, self.x.squares, self.kernel.normalised)
        self.__dict__.pop("columns", None)

    @cached_property
    def columns(self) -> CudaColumns:
        """X by columns; prediction does without."""
        with gpu.use(self.device):
            return CudaColumns(self.x, _factors(self.normalisation))

    def diag(self) -> Array:
        with gpu.use(self.device):
            return gpu.cupy().asarray(self.normalisation.diagonal())

    def rows(self, indices: NDArray[np.int64]) -> Array:
        cp = gpu.cupy()
        indices = np.asarray(indices, np.int64)
        with gpu.use(self.device):
            which = cp.asarray(indices)
            out = self.columns.rows(which, WHAT)
            _finish_rows(out, self.normalisation.take(indices), self.normalisation)
            if self.kernel.normalised:
                out[cp.arange(len(which)), which] = 1
            return out

    def gram(self, progress: Progress | None = None) -> Array:
        with gpu.use(self.device):
            out = self.columns.half(WHAT, progress)
            _finish_rows(out, self.normalisation, self.normalisation)
            mirror(out, self.normalisation.diagonal())
            return out

    def cross(self, others: Documents, progress: Progress | None = None) -> Array:
        with gpu.use(self.device):
            if not len(others):
                return gpu.cupy().empty((0, self.n), np.float32)
            x, own = self.space.project(others, self.normalisation)
            out = self.columns.cross(x, _factors(own), WHAT, progress)
            _finish_rows(out, own, self.normalisation)
            return out

    def decision(
        self, others: Documents, coef: NDArray[np.float64], progress: Progress | None = None
    ) -> NDArray[np.float64]:
        return SpectrumPredictor.of_support(self, coef.T).values(others, progress)


def cuda_grams(
    kernels: Sequence[FeatureMap], documents: Documents, device: Device, progress: Progress | None = None
) -> Iterator[tuple[int, Array]]:
    """The Grams of kernels that differ in p2 and `normalised` only, in ascending order of p2, numbered.

    Each adds the Gram, not normalised, of the lengths that the one before did not have to a running sum.
    """
    p1, p2 = kernels[0].lengths[0], longest_of(documents.lengths, *kernels[-1].lengths)
    begin, self_values = p1, np.zeros(len(documents))
    total: Array = None
    for position, kernel in enumerate(kernels):
        last = min(kernel.lengths[1], p2)
        if total is None or last >= begin:
            lengths = (begin, max(begin, last))
            fresh: Any = kernel
            more = fresh.copy().set_params(p=lengths, normalised=False).fit(documents)
            rows = CudaSpectrum(more, documents, device)
            size = max(1, last + 1 - begin)  # 1 where no document has a length, and there is nothing to sum
            part = rows.gram(within(progress, begin - p1, size, max(1, p2 + 1 - p1)))
            self_values += rows.normalisation.self_values
            with gpu.use(device):
                total = part if total is None else gpu.cupy().add(total, part, out=total)
            del rows, part
            begin = last + 1
        with gpu.use(device):
            matrix = _scaled(kernel, documents, total, self_values)
        yield position, matrix
        del matrix


def _scaled(
    kernel: FeatureMap, documents: Documents, total: Array, self_values: NDArray[np.float64]
) -> Array:
    """Kernel values from the sums, a new array on the current device."""
    cp = gpu.cupy()
    n = len(documents)
    gpu.require_memory(4 * n * n, f"the {n:,} x {n:,} matrix of {WHAT}", "lower --memory")
    if not kernel.normalised:
        return total.copy()
    normalisation = Normalisation(documents, self_values, kernel.normalised)
    out, scale = cp.empty((n, n), np.float32), cp.asarray(normalisation.scale)
    batch = max(1, (1 << 24) // max(n, 1))
    for first in range(0, n, batch):
        rows = slice(first, first + batch)
        out[rows] = total[rows] * (scale[rows, None] * scale)
    normalisation.finish_gram(out)
    return out


def _factors(normalisation: Normalisation) -> Factors:
    return Factors(normalisation.scale, normalisation.self_values)


def _finish_rows(out: Array, own: Normalisation, columns: Normalisation) -> None:
    """`Normalisation.finish_rows`, which uploads what few documents need."""
    if len(own.featureless):
        own.finish_rows(out, columns)
