"""Feature matrices over learnt columns on a GPU: `feature_matrix` with the same functions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from textsvm.arrays import Array
from textsvm.kernels.shared.counting_cuda import (
    CudaCounts,
    CudaPmers,
    download,
    match_unary,
    matrix_of,
    upload,
)
from textsvm.kernels.spectrum.feature_matrix import FeatureColumns, require_columns
from textsvm.kernels.spectrum.features import PmerKernel, PmerWeights, is_weighted
from textsvm.linalg.sparse import index_type
from textsvm.linalg.sparse_cuda import starts_of
from textsvm.runtime import device as gpu
from textsvm.runtime.compiled import scipy
from textsvm.runtime.parallel import Progress
from textsvm.text.documents import DeviceDocuments, Documents


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
