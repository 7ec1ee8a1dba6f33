"""p-spectrum kernel on a GPU: kernel.py has the definition of X, feature_matrix.py that of feature matrices.

`CudaCountedDocuments` counts p-mers in panels of documents. The first pass learns the p-mers, the second
counts them and sums up document frequencies. A third weights the counts and writes the entries of shared
p-mers to their final place, whose size the document frequencies tell. The counts of as many panels as fit
wait for it; the others are counted again. Bytes are in `textsvm.kernels.shared.counting_cuda`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from textsvm.arrays import Array, Floats, Ints
from textsvm.kernels.shared.counting import Vocabulary, longest_of
from textsvm.kernels.shared.counting_cuda import (
    CudaCounts,
    CudaPmers,
    download,
    match_unary,
    matrix_of,
    unary_digits,
    upload,
)
from textsvm.kernels.shared.feature_rows_cuda import CountedPanels, CudaFeatureRows, match_featureless
from textsvm.kernels.shared.normalisation import Normalisation
from textsvm.kernels.spectrum.feature_matrix import FeatureColumns, require_columns
from textsvm.kernels.spectrum.features import (
    PSEUDO,
    ROUNDING,
    FeatureSpace,
    PmerKernel,
    PmerWeights,
    SpectrumPredictor,
    check_fitted,
    is_weighted,
    unknown_square,
)
from textsvm.linalg.rows import FeatureRows
from textsvm.linalg.rows_cuda import CudaRows, combine_panels, numbers_of, repeated
from textsvm.linalg.sparse import index_type
from textsvm.linalg.sparse_cuda import CudaSparse, starts_of
from textsvm.runtime import device as gpu
from textsvm.runtime.compiled import scipy
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import Progress
from textsvm.runtime.parallel import part as within
from textsvm.text.documents import DeviceDocuments, Documents

MATRIX = "the spectrum kernel"  #: Name of the matrix in messages.
KEPT_SHARE = 0.5  #: Maximum share of the free memory for counts that wait for their weights.


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


class CudaCountedDocuments(CountedPanels):
    """`CountedDocuments` on the current card; kernels learn from all documents only."""

    def __init__(self, kernel: PmerKernel, documents: Documents) -> None:
        super().__init__(documents)
        cp = gpu.cupy()
        self.pmers = CudaPmers(DeviceDocuments(documents), *kernel.lengths)
        self.n_pmers = self.pmers.n_pmers
        self.df, self.highest = cp.zeros(self.n_pmers, np.int64), cp.ones(self.n_pmers, np.int32)
        self.n_panels, kept_bytes = len(self.pmers.panels), 0
        for first, last in self.pmers.panels:
            counts = CudaCounts.of(self.pmers.windows(first, last))
            self.df += counts.df
            cp.maximum(self.highest, counts.highest, out=self.highest)
            small = counts.counts.astype(np.min_scalar_type(int(self.highest.max()) if self.n_pmers else 1))
            waiting = replace(counts, documents=None, counts=small, df=None, highest=None)
            nbytes = counts.pmers.nbytes + small.nbytes
            if kept_bytes + nbytes <= KEPT_SHARE * self.free:
                self.kept[first], kept_bytes = waiting, kept_bytes + nbytes
            del counts, small, waiting  # before the next is counted

    def _panels(self) -> Iterator[tuple[int, int, CudaCounts]]:
        """First and last document of each panel, and its counts."""
        for first, last in self.pmers.panels:
            yield first, last, self.kept.get(first) or CudaCounts.of(self.pmers.windows(first, last))

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """Vocabulary with keys on the host."""
        return download(self.pmers.vocabulary)

    def weights(self, kernel: PmerKernel, train: Ints) -> PmerWeights:
        """Weights that a kernel learns from all documents; `train` must select all."""
        odds = self._odds(self.documents.classes).get() if kernel.odds else None
        df, shared = self.df.get(), bool(kernel.shared)
        return PmerWeights(self.vocabulary, df, len(train), bool(kernel.idf), odds, shared)

    def _odds(self, classes: Array) -> Array:
        """`features.log_odds` of all documents."""
        cp, n_classes = gpu.cupy(), int(classes.max()) + 1
        squares, total, shares = cp.zeros(self.n_pmers + 1), float(max(int(self.df.sum()), 1)), []
        step = max(1, gpu.free_memory() // (32 * max(self.n_pmers, 1)))  # classes for which there is room
        for of_classes in (range(n_classes)[c : c + step] for c in range(0, n_classes, step)):
            class_dfs = cp.zeros((len(of_classes), self.n_pmers), np.int64)
            for first, last, counts in self._panels():
                for c, class_df in zip(of_classes, class_dfs, strict=True):
                    entries = repeated(cp.asarray(classes[first:last] == c), counts.indptr)
                    class_df += numbers_of(counts.pmers[entries], self.n_pmers)
            for class_df in class_dfs:
                share = float(class_df.sum()) / total
                if 0 < share < 1:
                    ratio = cp.log((class_df + PSEUDO * share) / (self.df - class_df + PSEUDO * (1 - share)))
                    ratio -= np.log(share / (1 - share))
                    squares[:-1] += cp.where((self.df > 0) & (abs(ratio) > ROUNDING), share * ratio**2, 0)
                    shares.append(share)
        squares[-1] = unknown_square(np.array(shares))  # every p-mer is in a document
        return cp.sqrt(squares)

    def rows(self, kernel: PmerKernel, train: Ints) -> FeatureRows:
        """Feature rows of all documents, with weights learnt from all of them."""
        starts = starts_of(self.highest) if kernel.weight == "intersection" else None
        table = None
        if is_weighted(kernel):  # the last entry is the weight of unknown p-mers
            table = gpu.cupy().asarray(kernel.weights_.table[:-1])
        df = self.df if starts is None else self._unary_df(starts)

        def rows_of(panel: tuple[int, int, CudaCounts]) -> tuple[int, int, CudaRows]:
            return *panel[:2], CudaRows(*_entries(kernel.weight, panel[2], starts, table), len(df))

        rows = self.placed(map(rows_of, self._panels()), df, kernel.normalised)
        featureless = self.documents.lengths < kernel.lengths[0]
        return match_featureless(self.documents, rows, featureless) if kernel.normalised else rows

    def _unary_df(self, starts: Array) -> Array:
        cp = gpu.cupy()
        df = cp.zeros(int(starts[-1]), np.int64)
        for _, _, counts in self._panels():
            df += numbers_of(unary_digits(starts, counts.pmers, counts.counts)[2], len(df))
        return df


def _entries(weight: str, of: CudaCounts, starts: Array, table: Array) -> tuple[Array, Array, Array]:
    """Feature rows of counts: indptr, features, values."""
    cp, indptr, pmers, counts = gpu.cupy(), of.indptr, of.pmers, of.counts
    learnt = None if table is None else table[pmers]
    if starts is not None:
        ends, owner, features = unary_digits(starts, pmers, counts)
        values = cp.ones(len(owner), np.float32) if learnt is None else cp.sqrt(learnt)[owner]
        return ends[indptr], features, values.astype(np.float32, copy=False)
    values = 1 + cp.log(counts.astype(np.float64)) if weight == "log" else counts
    values = cp.ones(len(pmers), np.float32) if weight == "presence" else values
    values = values if learnt is None else learnt * values
    return indptr, pmers, values.astype(np.float32)


def learn_columns(
    kernel: PmerKernel, documents: Documents, least: float, rows: bool, progress: Progress | None = None
) -> tuple[FeatureColumns, scipy.sparse.csr_matrix | None]:
    """Columns of training documents, and their matrix if `rows`, on the current card."""
    cp = gpu.cupy()
    pmers, counts = _counted(kernel, documents)
    unary, n = counts.starts is not None, len(documents)
    df = (counts.df[counts.starts[:-1]] if unary else counts.df).get().astype(np.int64)
    learnt = PmerWeights(download(pmers.vocabulary), df, n, is_weighted(kernel))
    columns = FeatureColumns.of(learnt, np.where(df >= least, counts.highest.get() if unary else 1, 0))
    require_columns(columns, least, n)
    if not rows:
        return columns, None
    return columns, _matrix(kernel, columns, counts, cp.arange(pmers.n_pmers))


def transform(
    kernel: PmerKernel, columns: FeatureColumns, documents: Documents, progress: Progress | None = None
) -> scipy.sparse.csr_matrix:
    """Matrix of other documents over learnt columns, on the current card."""
    pmers, counts = _counted(kernel, documents)
    numbers = gpu.cupy().asarray(upload(columns.learnt.vocabulary).find(pmers.vocabulary))
    return _matrix(kernel, columns, counts, numbers)


def _counted(kernel: PmerKernel, documents: Documents) -> tuple[CudaPmers, CudaCounts]:
    pmers = CudaPmers(DeviceDocuments(documents), *kernel.lengths)
    return pmers, CudaCounts.of_panels(pmers, kernel.weight == "intersection")


def _matrix(
    kernel: PmerKernel, columns: FeatureColumns, counts: CudaCounts, numbers: Array
) -> scipy.sparse.csr_matrix:
    """Rows over the columns; `numbers` is the number of each counted p-mer in their vocabulary, or -1."""
    cp = gpu.cupy()
    own = cp.arange(len(numbers) + 1) if counts.starts is None else counts.starts
    weights = cp.asarray(columns.learnt.table)[numbers] if is_weighted(kernel) else None
    x = matrix_of(kernel.weight, counts, weights).select(
        match_unary(cp.asarray(columns.starts), own, numbers)
    )
    has_column = x.features >= 0
    entries = {
        "documents": x.documents[has_column],
        "features": x.features[has_column],
        "values": x.values[has_column],
    }
    x = replace(x, indptr=starts_of(has_column)[x.indptr], **entries)
    values = x.values
    if kernel.normalised:
        values = (values / cp.sqrt(cp.asarray(x.squares))[x.documents]).astype(np.float32)
    kind = index_type(max(len(values), len(columns)))
    arrays = values.get(), x.features.get().astype(kind), x.indptr.get().astype(kind)
    whole = scipy.sparse.csr_matrix(arrays, shape=(len(x), len(columns)))
    whole.has_sorted_indices = whole.has_canonical_format = True
    return whole
