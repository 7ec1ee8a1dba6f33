"""p-spectrum kernel on a GPU; kernel.py has the definition of X."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from textsvm.arrays import Array, Floats
from textsvm.kernels.shared.counting import Vocabulary, longest_of
from textsvm.kernels.shared.counting_cuda import CudaCounts, CudaPmers, match_unary, matrix_of, upload
from textsvm.kernels.shared.feature_rows_cuda import CudaFeatureRows
from textsvm.kernels.shared.normalisation import Normalisation
from textsvm.kernels.spectrum.features import (
    FeatureSpace,
    PmerKernel,
    PmerWeights,
    SpectrumPredictor,
    check_fitted,
    is_weighted,
)
from textsvm.linalg.rows_cuda import CudaRows, combine_panels
from textsvm.linalg.sparse_cuda import CudaSparse, starts_of
from textsvm.runtime import device as gpu
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import Progress
from textsvm.runtime.parallel import part as within
from textsvm.text.documents import DeviceDocuments, Documents

#: Name of the matrix in messages.
MATRIX = "the spectrum kernel"


class CudaWeights:
    """`PmerWeights` on the current card."""

    def __init__(self, learnt: PmerWeights) -> None:
        self.vocabulary, self.table = upload(learnt.vocabulary), gpu.cupy().asarray(learnt.table)

    def weights(self, vocabulary: Vocabulary) -> Array:
        """Weight of every p-mer of another vocabulary."""
        return self.table[gpu.cupy().asarray(self.vocabulary.find(vocabulary))]


@dataclass(frozen=True)
class KnownPmers:
    """Stand-in for `CudaPmers` with a vocabulary on the current card."""

    vocabulary: Vocabulary


@dataclass(frozen=True)
class CudaFeatureSpace:
    """`FeatureSpace` on a GPU; `starts` is None if features are p-mers."""

    kernel: PmerKernel
    learnt: CudaWeights | None
    pmers: CudaPmers | KnownPmers  # builds its vocabulary on first use
    starts: Array | None
    row: Array | None = None

    @classmethod
    def of(cls, space: FeatureSpace) -> CudaFeatureSpace:
        """Copy the features of a host space, and the learnt weights of its kernel, to the current card."""
        kernel, cp = space.kernel, gpu.cupy()
        learnt = CudaWeights(kernel.weights_) if is_weighted(kernel) else None
        shared = learnt is not None and space.vocabulary is kernel.weights_.vocabulary
        vocabulary = learnt.vocabulary if learnt is not None and shared else upload(space.vocabulary)
        starts = cp.asarray(space.starts) if kernel.weight == "intersection" else None
        row = None if space.row is None else cp.asarray(space.row)
        return cls(kernel, learnt, KnownPmers(vocabulary), starts, row)

    def find(self, other: CudaFeatureSpace) -> Array:
        """Number here of each feature of another space, or -1."""
        features = gpu.cupy().asarray(self.pmers.vocabulary.find(other.pmers.vocabulary))
        if self.starts is not None:
            features = match_unary(self.starts, other.starts, features)
        return features if self.row is None else self.row[features]

    def project(self, others: Documents, columns: Normalisation) -> tuple[CudaSparse, Normalisation]:
        """X of other documents over these features; their normalisation counts all of their features."""
        space, x = represent(self.kernel, self.learnt, DeviceDocuments(others))
        normalisation = Normalisation(others, x.squares, self.kernel.normalised, columns)
        return x.select(self.find(space)), normalisation

    def products(
        self, others: Documents, columns: Normalisation, weights: Array
    ) -> tuple[Floats, Normalisation]:
        """X of other documents times feature weights, and their normalisation, on the host."""
        x, own = self.project(others, columns)
        return x.dot(weights).get(), own


def represent(
    kernel: PmerKernel, learnt: CudaWeights | None, text: DeviceDocuments
) -> tuple[CudaFeatureSpace, CudaSparse]:
    """Features of the p-mers of documents, and X."""
    pmers = CudaPmers(text, *kernel.lengths)
    counts = CudaCounts.of_panels(pmers, kernel.weight == "intersection")
    weights = None if learnt is None else learnt.weights(pmers.vocabulary)
    del pmers.text  # only the vocabulary is read from now on
    return CudaFeatureSpace(kernel, learnt, pmers, counts.starts), matrix_of(kernel.weight, counts, weights)


def cuda_predictor(kernel: PmerKernel, support: Documents, coef: Floats, device: Device) -> SpectrumPredictor:
    """Predictor of machines with these support vectors, which are counted panel by panel."""
    check_fitted(kernel)
    with gpu.use(device):
        cp, learnt = gpu.cupy(), CudaWeights(kernel.weights_) if is_weighted(kernel) else None
        pmers = CudaPmers(DeviceDocuments(support), *kernel.lengths)
        weights = None if learnt is None else learnt.weights(pmers.vocabulary)
        unary = kernel.weight == "intersection"

        def counted() -> Iterator[CudaCounts]:
            return (CudaCounts.of(pmers.windows(*panel)) for panel in pmers.panels)

        squares, highest = [np.zeros(0)], cp.ones(pmers.n_pmers, np.int32)
        for counts in counted():
            cp.maximum(highest, counts.highest, out=highest)
            squares.append(matrix_of(kernel.weight, counts.unary() if unary else counts, weights).squares)
            del counts  # before the next is counted
        starts = starts_of(highest) if unary else None
        normalisation = Normalisation(support, np.concatenate(squares), kernel.normalised)

        def panels() -> Iterator[tuple[int, int, CudaRows]]:
            for panel, counts in zip(pmers.panels, counted(), strict=True):
                x = matrix_of(kernel.weight, counts.unary(starts) if unary else counts, weights)
                yield *panel, CudaRows(x.indptr, x.features, x.values.astype(np.float32), len(x.df))
                del counts, x

        size = pmers.n_pmers if starts is None else int(starts[-1])
        dense, norms = normalisation.scale[:, None] * coef.T, cp.asarray(np.concatenate(squares))
        vectors = combine_panels(panels, size, norms, dense)
        space = CudaFeatureSpace(kernel, learnt, KnownPmers(pmers.vocabulary), starts)
        return SpectrumPredictor(device, space, vectors, (normalisation, coef))


class CudaSpectrum(CudaFeatureRows):
    """Kernel values with fixed documents on a GPU."""

    label = MATRIX

    def __init__(self, kernel: PmerKernel, documents: Documents, device: Device) -> None:
        check_fitted(kernel)
        super().__init__(kernel, documents, device)
        with gpu.use(device):
            self.prepare(DeviceDocuments(documents))

    def prepare(self, text: DeviceDocuments) -> None:
        """Compute X from documents on the device."""
        learnt = CudaWeights(self.kernel.weights_) if is_weighted(self.kernel) else None
        self.space, self.x = represent(self.kernel, learnt, text)
        self.normalisation = Normalisation(self.documents, self.x.squares, self.kernel.normalised)
        self.__dict__.pop("columns", None)

    def project(self, others: Documents) -> tuple[CudaSparse, Normalisation]:
        return self.space.project(others, self.normalisation)


def cuda_grams(
    kernels: Sequence[PmerKernel], documents: Documents, device: Device, progress: Progress | None = None
) -> Iterator[tuple[int, Array]]:
    """Yield (number, Gram matrix) of kernels that differ only in p2 and `normalised`, by ascending p2.

    Unnormalised Gram matrices of the lengths are added to a running sum.
    """
    p1, p2 = kernels[0].lengths[0], longest_of(documents.lengths, *kernels[-1].lengths)
    begin, self_values = p1, np.zeros(len(documents))
    total: Array = None
    for position, kernel in enumerate(kernels):
        last = min(kernel.lengths[1], p2)
        if total is None or last >= begin:
            lengths = (begin, max(begin, last))
            more = kernel.__sklearn_clone__().set_params(p=lengths, normalised=False).fit(documents)
            rows = CudaSpectrum(more, documents, device)
            size = max(1, last + 1 - begin)  # 1 if no document has a length
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


def _scaled(kernel: PmerKernel, documents: Documents, total: Array, self_values: Floats) -> Array:
    """Kernel values of the sums, in a new array on the current card."""
    cp = gpu.cupy()
    n = len(documents)
    gpu.require_memory(4 * n * n, f"the {n:,} x {n:,} matrix of {MATRIX}", "lower --memory")
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
