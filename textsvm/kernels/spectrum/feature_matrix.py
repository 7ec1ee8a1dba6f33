"""Feature matrices for `SpectrumFeatures`, on the CPU: columns are p-mers of the training documents.

A p-mer of at least `least` training documents has a column, or with weight "intersection" a column for each
digit of the unary code of its largest count (see kernel.py): 1, 2, ... occurrences. Columns are ordered by
the length of their p-mers, then by symbols. p-mers without a column are dropped before a row is normalised.

Columns are learnt length by length, so memory holds the counts of a single length. Rows are counted some
documents at a time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from textsvm.arrays import Ints, runs_of
from textsvm.errors import InputError
from textsvm.kernels.shared.counting import LONG, Vocabulary, count, count_each, panel_size, windows_of
from textsvm.kernels.spectrum.features import PmerKernel, PmerWeights, is_weighted, matrix_of
from textsvm.linalg.sparse import count_features, index_type, match_unary, unary_starts
from textsvm.runtime.compiled import scipy
from textsvm.runtime.memory import free, require_free
from textsvm.runtime.parallel import Progress
from textsvm.text.documents import Documents

ENTRY_BYTES = 8  #: Bytes per entry: column and value.
#: Bytes per symbol while a length is counted: ids of three lengths, features and counts, twice.
SYMBOL_BYTES = 28
#: Bytes per entry of a training from features, and per entry of the longest p-mers from a Gram.
COUNTED_BYTES, GRAM_BYTES = 10, 72
ID_BYTES = 12  #: Bytes per symbol of the ids of three lengths, if documents are not counted in panels.
#: Number of documents from which the number of entries is extrapolated, and most of their symbols.
SAMPLE, SAMPLE_SYMBOLS = 256, 1 << 20
COUNTED = 1 << 20  #: Symbols of the documents whose rows are counted together.


@dataclass(frozen=True)
class FeatureColumns:
    """Columns of a feature matrix."""

    learnt: PmerWeights  #: p-mers of the training documents and their document frequencies
    #: shape (number of p-mers + 1,): First column of each p-mer; a p-mer has 0 or 1 columns, or as many as
    #: its largest count.
    starts: Ints

    @classmethod
    def of(cls, learnt: PmerWeights, widths: NDArray[np.integer]) -> FeatureColumns:
        """From the number of columns of each p-mer."""
        return cls(learnt, np.concatenate([[0], np.cumsum(widths, dtype=np.int64)]))

    def __len__(self) -> int:
        return int(self.starts[-1])


def learn_columns(
    kernel: PmerKernel, documents: Documents, least: float, rows: bool, progress: Progress | None = None
) -> tuple[FeatureColumns, scipy.sparse.csr_matrix | None]:
    """Columns of training documents, and their matrix if `rows`.

    The kernel need not be fitted: idf is learnt here. Raises InputError if no p-mer reaches the document
    frequency `least`, or the matrix does not fit into memory.
    """
    _require_room(documents, kernel.lengths, rows and least <= 1)
    n, unary = len(documents), kernel.weight == "intersection"
    vocabulary = Vocabulary.empty(documents, *kernel.lengths)
    dfs, widths = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for q, size, counts in count_each(documents, vocabulary):
        dfs.append(count_features(counts.features, size))
        largest = np.diff(unary_starts(counts.features, counts.counts, size)) if unary else 1
        widths.append(np.where(dfs[-1] >= least, largest, 0))
        if progress is not None:
            progress(q + 1 - vocabulary.p1, vocabulary.p2 + 1 - vocabulary.p1)
        del counts  # before the next length is counted
    columns = FeatureColumns.of(
        PmerWeights(vocabulary, np.concatenate(dfs), n, is_weighted(kernel)), np.concatenate(widths)
    )
    require_columns(columns, least, n)
    return columns, transform(kernel, columns, documents) if rows else None


def transform(
    kernel: PmerKernel, columns: FeatureColumns, documents: Documents, progress: Progress | None = None
) -> scipy.sparse.csr_matrix:
    """Matrix of other documents over learnt columns; their alphabet extends the alphabet of training."""
    parts = []
    for first, last in runs_of(documents.offsets[:-1] // COUNTED) or [(0, 0)]:
        parts.append(_rows(kernel, columns, documents.take(np.arange(first, last))))
        if progress is not None:
            progress(last, max(1, len(documents)))
    return stacked(parts)


def _rows(kernel: PmerKernel, columns: FeatureColumns, documents: Documents) -> scipy.sparse.csr_matrix:
    """`transform` of documents that are counted together."""
    windows = _windows(documents, kernel.lengths)
    require_memory(SYMBOL_BYTES * len(documents.codes) + COUNTED_BYTES * windows, len(documents))
    vocabulary, counts = count(documents, *kernel.lengths)
    n_pmers, numbers = int(vocabulary.first[-1]), columns.learnt.vocabulary.find(vocabulary)
    starts = np.arange(n_pmers + 1)
    if kernel.weight == "intersection":
        starts = unary_starts(counts.features, counts.counts, n_pmers)
    weights = columns.learnt.table[numbers] if is_weighted(kernel) else None
    x = matrix_of(kernel, counts, weights, starts)
    x = x.select(match_unary(columns.starts, starts, numbers), len(columns))
    values = x.values
    if kernel.normalised:
        squares = x.squares()
        scale = np.divide(1, np.sqrt(squares), out=np.zeros(len(x)), where=squares > 0)
        values = (values * np.repeat(scale, np.diff(x.indptr))).astype(np.float32)
    matrix = scipy.sparse.csr_matrix((values, x.features, x.indptr), shape=(len(x), len(columns)))
    matrix.sort_indices()
    return matrix


def require_columns(columns: FeatureColumns, least: float, n: int) -> None:
    """Raise InputError if there are no columns."""
    if not len(columns):
        raise InputError(
            f"no substring is in {least:g} or more of the {n:,} documents; lower min_df, or give "
            "more documents"
        )


def stacked(parts: list[scipy.sparse.csr_matrix]) -> scipy.sparse.csr_matrix:
    """Concatenate matrices by rows; `parts` is emptied meanwhile to free memory."""
    if len(parts) == 1:
        return parts.pop()
    entries, n_columns = sum(part.nnz for part in parts), parts[0].shape[1]
    whole = _empty(np.concatenate([[0], *(np.diff(part.indptr) for part in parts)]).cumsum(), n_columns)
    last = entries
    while parts:
        part = parts.pop()
        first = last - part.nnz
        whole.indices[first:last], whole.data[first:last] = part.indices, part.data
        last = first
    return whole


def _empty(indptr: Ints, n_columns: int) -> scipy.sparse.csr_matrix:
    """Matrix with uninitialised sorted entries."""
    entries = int(indptr[-1])
    kind = index_type(max(entries, n_columns))  # SciPy needs it for all index arrays
    whole = scipy.sparse.csr_matrix((len(indptr) - 1, n_columns), dtype=np.float32)
    whole.indptr, whole.indices = indptr.astype(kind), np.empty(entries, kind)
    whole.data = np.empty(entries, np.float32)
    whole.has_sorted_indices = whole.has_canonical_format = True
    return whole


def _require_room(documents: Documents, lengths: tuple[int, int], rows: bool) -> None:
    """Raise InputError before counting if memory is insufficient; a row has at most an entry per window."""
    counting, windows = SYMBOL_BYTES * len(documents.codes), 0
    if rows:
        windows = _windows(documents, lengths)
        if counting + ENTRY_BYTES * windows > free():
            windows = predicted_entries(documents, lengths)
    require_memory(counting + ENTRY_BYTES * windows, len(documents))


def require_memory(needed: int, n: int) -> None:
    """Raise InputError if the features of n documents need more bytes than are free."""
    require_free(
        needed, f"the features of {n:,} documents need", "leave rare substrings out (min_df, --min-df), "
    )


def predicted_entries(documents: Documents, lengths: tuple[int, int]) -> int:
    """Estimated number of entries, extrapolated from some documents."""
    n = min(SAMPLE, len(documents), 1 + len(documents) * SAMPLE_SYMBOLS // max(len(documents.codes), 1))
    sample = documents.take(np.linspace(0, len(documents) - 1, n).astype(np.int64))
    vocabulary = Vocabulary.empty(sample, *lengths)
    entries = sum(len(counts.features) for _, _, counts in count_each(sample, vocabulary))
    return round(entries * _windows(documents, lengths) / max(1, _windows(sample, lengths)))


def counted_bytes(documents: Documents, lengths: tuple[int, int], gram: bool = False) -> int:
    """Predicted bytes to train from a Gram, which is added up length by length, or from features."""
    symbols, last = len(documents.codes), lengths[1]
    panel = min(symbols, max(panel_size(), int(documents.lengths.max())))
    if not gram:
        return SYMBOL_BYTES * panel + COUNTED_BYTES * predicted_entries(documents, lengths)
    ids = 0 if symbols > LONG * len(documents) else ID_BYTES * symbols
    return max(SYMBOL_BYTES * panel, ids + GRAM_BYTES * predicted_entries(documents, (last, last)))


def _windows(documents: Documents, lengths: tuple[int, int]) -> int:
    return int(windows_of(documents.lengths, *lengths).sum())
