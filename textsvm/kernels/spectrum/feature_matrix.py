"""Feature matrices for `SpectrumFeatures`, on the CPU: columns are p-mers of the training documents.

A p-mer of at least `least` training documents has a column, or with weight "intersection" a column for each
digit of the unary code of its largest count (see kernel.py): 1, 2, ... occurrences. Columns are ordered by
the length of their p-mers, then by symbols. p-mers without a column are dropped before a row is normalised.

Lengths are processed in turn: entries are filtered, weighted and sorted immediately, so memory
holds the matrix and the counts of a single length.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from textsvm.arrays import Floats32, Ints, Ints32
from textsvm.errors import InputError
from textsvm.kernels.shared.counting import Vocabulary, count_each, windows_of
from textsvm.kernels.spectrum.features import PmerKernel, PmerWeights, is_weighted
from textsvm.linalg.sparse import Counts, index_type, run_on_ranges
from textsvm.runtime.compiled import njit, scipy
from textsvm.runtime.device import Device, free_memory
from textsvm.runtime.parallel import Progress
from textsvm.text.documents import Documents

#: Bytes per entry: column and value.
ENTRY_BYTES = 8
#: Bytes per symbol while a length is counted: ids of three lengths, features and counts, twice.
SYMBOL_BYTES = 28
#: Bytes per entry while feature rows are built: counts twice, or counts and values.
COUNTED_BYTES = 2 * ENTRY_BYTES
#: Number of documents from which the number of entries is extrapolated.
SAMPLE = 256
#: Bits of a digit of the radix sort of a row's entries.
DIGIT_BITS = 8
#: Number of entries below which a sort by comparisons is faster.
FEW_KEYS = 64
#: Counts whose logarithms are computed in advance.
LOGS = 256
#: Codes of weights for compiled loops.
_WEIGHT_CODES = {"count": 0, "presence": 1, "log": 2, "intersection": 3}
_HOST = Device("cpu", 0, "cpu")


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
    builder, dfs, widths = _MatrixBuilder(kernel, n), [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for q, size, counts in count_each(documents, vocabulary):
        df, largest = np.zeros(size, np.int64), np.ones(size, np.int64)
        _tally(counts.features, counts.counts, df, largest)
        dfs.append(df)
        widths.append(np.where(df >= least, largest if unary else 1, 0))
        if rows:
            learnt = PmerWeights(vocabulary, df, n, is_weighted(kernel))
            builder.add(counts, np.arange(size), FeatureColumns.of(learnt, widths[-1]))
        _report(progress, q, vocabulary)
        del counts  # before the next length is counted
    columns = FeatureColumns.of(
        PmerWeights(vocabulary, np.concatenate(dfs), n, is_weighted(kernel)), np.concatenate(widths)
    )
    require_columns(columns, least, n)
    return columns, builder.matrix(len(columns)) if rows else None


def transform(
    kernel: PmerKernel, columns: FeatureColumns, documents: Documents, progress: Progress | None = None
) -> scipy.sparse.csr_matrix:
    """Matrix of other documents over learnt columns; their alphabet extends the alphabet of training."""
    learnt, builder = columns.learnt, _MatrixBuilder(kernel, len(documents))
    vocabulary = Vocabulary.empty(documents, *kernel.lengths)
    known_of_length, first = learnt.vocabulary.find_each(vocabulary), learnt.vocabulary.first
    for q, _, counts in count_each(documents, vocabulary):
        pmers, k = next(known_of_length), q - vocabulary.p1
        if q <= learnt.vocabulary.p2:
            a, b = first[k], first[k + 1]
            weights = PmerWeights(learnt.vocabulary, learnt.df[a:b], learnt.n, learnt.idf)
            builder.add(counts, pmers, FeatureColumns(weights, columns.starts[a : b + 1] - columns.starts[a]))
        _report(progress, q, vocabulary)
        del counts  # before the next length is counted
    return builder.matrix(len(columns))


def require_columns(columns: FeatureColumns, least: float, n: int) -> None:
    """Raise InputError if there are no columns."""
    if not len(columns):
        raise InputError(
            f"no substring is in {least:g} or more of the {n:,} documents, as min_df asks; lower min_df "
            "(--min-df), or give more documents"
        )


def stacked(parts: list[scipy.sparse.csr_matrix]) -> scipy.sparse.csr_matrix:
    """Concatenate matrices by rows; `parts` is emptied meanwhile to free memory."""
    if len(parts) == 1:
        return parts.pop()
    entries, n_columns = sum(part.nnz for part in parts), parts[0].shape[1]
    whole, _ = _empty(np.concatenate([[0], *(np.diff(part.indptr) for part in parts)]).cumsum(), n_columns)
    last = entries
    while parts:
        part = parts.pop()
        first = last - part.nnz
        whole.indices[first:last], whole.data[first:last] = part.indices, part.data
        last = first
    return whole


class _MatrixBuilder:
    """Matrix under construction, to which columns are added length by length."""

    def __init__(self, kernel: PmerKernel, n: int) -> None:
        self.kernel, self.squares = kernel, np.zeros(n)
        self.parts: list[tuple[Ints, Ints32, Floats32]] = []
        self.bases = [0]

    def add(self, counts: Counts, pmers: Ints, columns: FeatureColumns) -> None:
        """Add the counts of a length; `pmers` is the number of each p-mer in `columns`, or -1."""
        starts, unary = columns.starts, self.kernel.weight == "intersection"
        indptr, rows = np.zeros_like(counts.indptr), counts.indptr
        # A p-mer without a column counts as unknown: the loops over entries then read a single table.
        pmers = np.where(starts[pmers + 1] > starts[pmers], pmers, -1).astype(index_type(len(starts)))
        entries = (rows, counts.features, counts.counts)
        run_on_ranges(rows, partial(_count_columns, *entries, pmers, starts, unary, indptr))
        np.cumsum(indptr, out=indptr)
        require_memory(ENTRY_BYTES * int(indptr[-1]), len(indptr) - 1)
        arrays = np.empty(indptr[-1], np.int32), np.empty(indptr[-1], np.float32)
        table = columns.learnt.table[:-1]
        weights = np.sqrt(table) if unary else table
        code = _WEIGHT_CODES[self.kernel.weight]
        run_on_ranges(
            rows, partial(_fill, *entries, pmers, starts, weights, code, indptr, *arrays, self.squares)
        )
        self.parts.append((indptr, *arrays))
        self.bases.append(self.bases[-1] + len(columns))

    def matrix(self, n_columns: int) -> scipy.sparse.csr_matrix:
        """Matrix of all lengths with rows normalised if the kernel is; the parts are freed."""
        indptr = np.zeros(len(self.squares) + 1, np.int64)
        for of_length, _, _ in self.parts:
            indptr += of_length
        whole, kind = _empty(indptr, n_columns)
        scale = np.ones(len(self.squares))
        if self.kernel.normalised:
            np.divide(1, np.sqrt(self.squares), out=scale, where=self.squares > 0)
        begin = indptr[:-1].copy()
        self.parts.reverse()
        for base in self.bases[:-1]:
            part = self.parts.pop()
            run_on_ranges(
                part[0], partial(_place, *part, kind(base), scale, begin, whole.indices, whole.data)
            )
        return whole


def _empty(indptr: Ints, n_columns: int) -> tuple[scipy.sparse.csr_matrix, type[np.signedinteger]]:
    """Matrix with uninitialised sorted entries, and the index dtype that SciPy needs for all index arrays."""

    entries = int(indptr[-1])

    kind = index_type(max(entries, n_columns))
    whole = scipy.sparse.csr_matrix((len(indptr) - 1, n_columns), dtype=np.float32)
    whole.indptr, whole.indices = indptr.astype(kind), np.empty(entries, kind)
    whole.data = np.empty(entries, np.float32)
    whole.has_sorted_indices = whole.has_canonical_format = True
    return whole, kind


def _report(progress: Progress | None, length: int, vocabulary: Vocabulary) -> None:
    if progress is not None:
        progress(length + 1 - vocabulary.p1, vocabulary.p2 + 1 - vocabulary.p1)


def _require_room(documents: Documents, lengths: tuple[int, int], rows: bool) -> None:
    """Raise InputError before counting if memory is insufficient; a row has at most an entry per window."""
    counting, windows = SYMBOL_BYTES * len(documents.codes), 0
    if rows:
        windows = _windows(documents, lengths)
        if counting + ENTRY_BYTES * windows > free_memory(_HOST):
            windows = predicted_entries(documents, lengths)
    require_memory(counting + ENTRY_BYTES * windows, len(documents))


def require_memory(needed: int, n: int) -> None:
    """Raise InputError if the features of n documents need more bytes than are free."""
    free = free_memory(_HOST)
    if needed > free:
        raise InputError(
            f"the features of {n:,} documents need about {needed / 2**30:.2f} GiB of memory and "
            f"{free / 2**30:.2f} GiB is free; take fewer lengths (p), leave rare substrings out (min_df, "
            "--min-df), shorten the documents (max_length, --max-length) or give fewer"
        )


def predicted_entries(documents: Documents, lengths: tuple[int, int]) -> int:
    """Estimated number of entries, extrapolated from some documents."""
    sample = documents.take(np.linspace(0, len(documents) - 1, min(SAMPLE, len(documents))).astype(np.int64))
    vocabulary = Vocabulary.empty(sample, *lengths)
    entries = sum(len(counts.features) for _, _, counts in count_each(sample, vocabulary))
    return round(entries * _windows(documents, lengths) / max(1, _windows(sample, lengths)))


def counted_bytes(documents: Documents, lengths: tuple[int, int]) -> int:
    """Approximate bytes needed to count all lengths."""
    return SYMBOL_BYTES * len(documents.codes) + COUNTED_BYTES * predicted_entries(documents, lengths)


def _windows(documents: Documents, lengths: tuple[int, int]) -> int:
    return int(windows_of(documents.lengths, *lengths).sum())


@njit(nogil=True, cache=True)
def _tally(features, counts, df, largest):
    """Add document frequencies, and raise the largest counts."""
    for k in range(len(features)):
        u = features[k]
        df[u] += 1
        if counts[k] > largest[u]:
            largest[u] = counts[k]


@njit(nogil=True, cache=True)
def _count_columns(rows, features, counts, pmers, starts, unary, indptr, first, last):
    for i in range(first, last):
        total = 0
        for k in range(rows[i], rows[i + 1]):
            u = pmers[features[k]]
            if u >= 0:
                total += min(starts[u + 1] - starts[u], counts[k]) if unary else 1
        indptr[i + 1] = total


@njit(nogil=True, cache=True)
def _sort_by_digit(keys, n, shift, ends, out):
    """A pass of a radix sort of the first n keys: stable, by the bits from `shift` on."""
    ends[:] = 0
    shift, mask = np.uint64(shift), np.uint64((1 << DIGIT_BITS) - 1)  # unsigned: indices have no sign to test
    for k in range(n):
        ends[(keys[k] >> shift) & mask] += 1
    begin = np.uint64(0)
    for digit in range(len(ends)):
        begin, ends[digit] = begin + ends[digit], begin
    for k in range(n):
        digit = (keys[k] >> shift) & mask
        out[ends[digit]] = keys[k]
        ends[digit] += np.uint64(1)


@njit(nogil=True, cache=True)
def _fill(rows, features, counts, pmers, starts, weights, code, indptr, columns, values, norms, first, last):
    longest, passes = 0, 0
    for i in range(first, last):
        longest = max(longest, rows[i + 1] - rows[i])
    while len(weights) >> DIGIT_BITS * passes:
        passes += 1
    packed, other = np.empty(longest, np.uint64), np.empty(longest, np.uint64)
    ends = np.empty(1 << DIGIT_BITS, np.uint64)
    logs = np.log(np.arange(1, LOGS))  # of 1, 2, ...: of most counts
    for i in range(first, last):
        n = 0
        for k in range(rows[i], rows[i + 1]):
            u = pmers[features[k]]
            if u >= 0:
                packed[n] = np.uint64(u) << np.uint64(32) | np.uint64(counts[k])
                n += 1
        if n < FEW_KEYS:
            packed[:n].sort()
        else:
            for digit in range(passes):
                _sort_by_digit(packed, n, 32 + DIGIT_BITS * digit, ends, other)
                packed, other = other, packed
        to, total = indptr[i], 0.0
        for k in range(n):
            u, c = np.int64(packed[k] >> np.uint64(32)), np.int64(packed[k] & np.uint64(0xFFFFFFFF))
            digits, value = 1, weights[u]
            if code == 0:
                value *= c
            elif code == 2 and c > 1:
                value *= 1 + (logs[c - 1] if c < LOGS else np.log(c))
            elif code == 3:
                digits = min(c, starts[u + 1] - starts[u])
            for digit in range(digits):
                columns[to], values[to] = starts[u] + digit, value
                to += 1
            total += digits * value * value
        norms[i] += total


@njit(nogil=True, cache=True)
def _place(indptr, columns, values, base, scale, begin, to_columns, to_values, first, last):
    for i in range(first, last):
        to = begin[i]
        for k in range(indptr[i], indptr[i + 1]):
            to_columns[to] = columns[k] + base
            to_values[to] = values[k] * scale[i]
            to += 1
        begin[i] = to
