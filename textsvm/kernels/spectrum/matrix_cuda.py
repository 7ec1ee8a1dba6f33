"""Documents as rows of one matrix over learnt columns: `kernels.spectrum_matrix`, made on a GPU."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from textsvm.kernels.spectrum.cuda import matrix_of as weighed
from textsvm.kernels.spectrum.features import FeatureMap
from textsvm.kernels.spectrum.learnt_weights import FeatureWeights, is_weighted
from textsvm.kernels.spectrum.matrix import Columns, require_columns
from textsvm.kernels.spectrum.pmers_cuda import CudaCounts, CudaPmers, match_unary, upload
from textsvm.kernels.spectrum.vocabulary import Vocabulary
from textsvm.linalg.sparse import feature_type
from textsvm.linalg.sparse_cuda import starts_of
from textsvm.runtime import device as gpu
from textsvm.runtime.parallel import Progress
from textsvm.text.documents import DeviceDocuments, Documents

Array = Any  # a CuPy array


def learn(
    kernel: FeatureMap, documents: Documents, least: float, rows: bool, progress: Progress | None = None
) -> tuple[Columns, csr_matrix | None]:
    """See `kernels.spectrum_matrix`; on the current card."""
    cp = gpu.cupy()
    pmers, counts = _counted(kernel, documents)
    unary, n = counts.starts is not None, len(documents)
    df = (counts.df[counts.starts[:-1]] if unary else counts.df).get().astype(np.int64)
    keys = {q: of_length.get() for q, of_length in pmers.vocabulary.keys.items()}
    vocabulary = Vocabulary(pmers.p1, pmers.p2, pmers.sizes[1], keys)
    learnt = FeatureWeights(vocabulary, df, n, is_weighted(kernel))
    columns = Columns.of(learnt, np.where(df >= least, counts.highest.get() if unary else 1, 0))
    require_columns(columns, least, n)
    if not rows:
        return columns, None
    return columns, _matrix(kernel, columns, counts, cp.arange(pmers.n_pmers))


def matrix_of(
    kernel: FeatureMap, columns: Columns, documents: Documents, progress: Progress | None = None
) -> csr_matrix:
    """See `kernels.spectrum_matrix`; on the current card."""
    pmers, counts = _counted(kernel, documents)
    found = gpu.cupy().asarray(upload(columns.learnt.vocabulary).find(pmers.vocabulary))
    return _matrix(kernel, columns, counts, found)


def _counted(kernel: FeatureMap, documents: Documents) -> tuple[CudaPmers, CudaCounts]:
    pmers = CudaPmers(DeviceDocuments(documents), *kernel.lengths)
    return pmers, CudaCounts(pmers, kernel.weight == "intersection")


def _matrix(kernel: FeatureMap, columns: Columns, counts: CudaCounts, found: Array) -> csr_matrix:
    """Rows over the columns, given where each p-mer that was counted is among those of the columns."""
    cp = gpu.cupy()
    own = cp.arange(len(found) + 1) if counts.starts is None else counts.starts
    weights = cp.asarray(columns.learnt.table)[found] if is_weighted(kernel) else None
    x = weighed(kernel.weight, counts, weights).select(match_unary(cp.asarray(columns.starts), own, found))
    kept = x.features >= 0
    entries = {"documents": x.documents[kept], "features": x.features[kept], "values": x.values[kept]}
    x = replace(x, indptr=starts_of(kept)[x.indptr], **entries)
    values = x.values
    if kernel.normalised:
        values = (values / cp.sqrt(cp.asarray(x.squares))[x.documents]).astype(np.float32)
    kind = feature_type(max(len(values), len(columns)))
    arrays = values.get(), x.features.get().astype(kind), x.indptr.get().astype(kind)
    whole = csr_matrix(arrays, shape=(len(x), len(columns)))
    whole.has_sorted_indices = whole.has_canonical_format = True
    return whole
