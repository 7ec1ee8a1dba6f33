"""Documents as rows of one matrix whose columns are learnt from training documents, on the CPU.

A p-mer that `least` training documents or more hold has a column, or with weight "intersection" one for each
digit of the unary code of its largest count (see spectrum.py): 1, 2, ... occurrences. Columns are numbered by
the length of their p-mers, then in the order of their symbols. A document's p-mers that have no column are
dropped before its row is normalised.

Lengths are counted one after the other, and their entries are filtered, weighed and sorted at once, so that
memory is for the matrix and the counts of one length.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from textsvm.errors import InputError
from textsvm.kernels.spectrum.features import FeatureMap
from textsvm.kernels.spectrum.learnt_weights import FeatureWeights, is_weighted
from textsvm.kernels.spectrum.pmers import count_each, share
from textsvm.kernels.spectrum.vocabulary import Vocabulary, windows_of
from textsvm.linalg.sparse import Counts, feature_type
from textsvm.runtime.compiled import njit
from textsvm.runtime.device import Device, free_memory
from textsvm.runtime.parallel import Progress
from textsvm.text.documents import Documents

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

Array = NDArray[Any]
#: What an entry is made of: column and value.
ENTRY_BYTES = 8
#: What counting one length takes for each symbol: ids of three lengths, features and counts, twice.
SYMBOL_BYTES = 28
#: What an entry takes while rows of features are made: counts twice, or counts and the values made of them.
COUNTED_BYTES = 2 * ENTRY_BYTES
#: Documents that tell how many entries the others have.
SAMPLE = 256
#: What becomes of a count, for compiled loops.
_FORMS = {"count": 0, "presence": 1, "log": 2, "intersection": 3}
_HOST = Device("cpu", 0, "cpu")


@dataclass(frozen=True)
class Columns:
    """The columns of a matrix of features.

    Attributes
    ----------
    learnt : FeatureWeights
        The p-mers of the training documents, and how many of these hold each.
    starts : int64 array, shape (number of p-mers + 1,)
        Where the columns of each p-mer start: none, one, or as many as its largest count.
    """

    learnt: FeatureWeights
    starts: NDArray[np.int64]

    @classmethod
    def of(cls, learnt: FeatureWeights, widths: NDArray[np.integer]) -> Columns:
        """Given how many columns each p-mer has."""
        return cls(learnt, np.concatenate([[0], np.cumsum(widths, dtype=np.int64)]))

    def __len__(self) -> int:
        return int(self.starts[-1])


def learn(
    kernel: FeatureMap, documents: Documents, least: float, rows: bool, progress: Progress | None = None
) -> tuple[Columns, csr_matrix | None]:
    """The columns of training documents, and the matrix of these documents if `rows` are wanted.

    Parameters
    ----------
    kernel : FeatureMap
        It need not be fitted: idf is learnt here.
    documents : Documents, n of them
    least : float
        How many documents must hold a p-mer that has columns.
    rows : bool
    progress : callable, optional

    Raises
    ------
    InputError
        If no p-mer is left, or the matrix does not fit into memory.
    """
    _require_room(documents, kernel.lengths, rows and least <= 1)
    n, unary = len(documents), kernel.weight == "intersection"
    vocabulary = Vocabulary.empty(documents, *kernel.lengths)
    table, dfs, widths = _Table(kernel, n), [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for q, size, counts in count_each(documents, vocabulary):
        df, largest = np.zeros(size, np.int64), np.ones(size, np.int64)
        _tally(counts.features, counts.counts, df, largest)
        dfs.append(df)
        widths.append(np.where(df >= least, largest if unary else 1, 0))
        if rows:
            learnt = FeatureWeights(vocabulary, df, n, is_weighted(kernel))
            table.add(counts, np.arange(size), Columns.of(learnt, widths[-1]))
        _report(progress, q, vocabulary)
        del counts  # before the next length is counted
    columns = Columns.of(
        FeatureWeights(vocabulary, np.concatenate(dfs), n, is_weighted(kernel)), np.concatenate(widths)
    )
    require_columns(columns, least, n)
    return columns, table.matrix(len(columns)) if rows else None


def matrix_of(
    kernel: FeatureMap, columns: Columns, documents: Documents, progress: Progress | None = None
) -> csr_matrix:
    """The matrix of other documents; their alphabet extends that of the training documents."""
    learnt, table = columns.learnt, _Table(kernel, len(documents))
    vocabulary = Vocabulary.empty(documents, *kernel.lengths)
    found, first = learnt.vocabulary.find_each(vocabulary), learnt.vocabulary.first
    for q, _, counts in count_each(documents, vocabulary):
        here, at = next(found), q - vocabulary.p1
        if q <= learnt.vocabulary.p2:
            a, b = first[at], first[at + 1]
            weights = FeatureWeights(learnt.vocabulary, learnt.df[a:b], learnt.n, learnt.idf)
            table.add(counts, here, Columns(weights, columns.starts[a : b + 1] - columns.starts[a]))
        _report(progress, q, vocabulary)
        del counts  # before the next length is counted
    return table.matrix(len(columns))


def require_columns(columns: Columns, least: float, n: int) -> None:
    """Raise InputError if there is no column."""
    if not len(columns):
        raise InputError(
            f"no substring is in {least:g} or more of the {n:,} documents, as min_df asks; lower min_df "
            "(--min-df), or give more documents"
        )


def stacked(parts: list[csr_matrix]) -> csr_matrix:
    """Matrices one below the other; `parts` is emptied meanwhile, so that no row is held twice."""
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


class _Table:
    """A matrix that gets its columns length by length."""

    def __init__(self, kernel: FeatureMap, n: int) -> None:
        self.kernel, self.squares = kernel, np.zeros(n)
        self.parts: list[tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]] = []
        self.bases = [0]

    def add(self, counts: Counts, found: NDArray[np.int64], columns: Columns) -> None:
        """The counts of one length; `found` is where each p-mer is in `columns`, of that length, or -1."""
        starts, unary = columns.starts, self.kernel.weight == "intersection"
        indptr, rows = np.zeros_like(counts.indptr), counts.indptr
        entries = (rows, counts.features, counts.counts)
        share(rows, partial(_count_columns, *entries, found, starts, unary, indptr))
        np.cumsum(indptr, out=indptr)
        require_memory(ENTRY_BYTES * int(indptr[-1]), len(indptr) - 1)
        made = np.empty(indptr[-1], np.int32), np.empty(indptr[-1], np.float32)
        table = columns.learnt.table[:-1]
        weights = np.sqrt(table) if unary else table
        form = _FORMS[self.kernel.weight]
        share(rows, partial(_fill, *entries, found, starts, weights, form, indptr, *made, self.squares))
        self.parts.append((indptr, *made))
        self.bases.append(self.bases[-1] + len(columns))

    def matrix(self, n_columns: int) -> csr_matrix:
        """All lengths side by side, rows normalised if the kernel is; the parts are gone then."""
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
            share(part[0], partial(_place, *part, kind(base), scale, begin, whole.indices, whole.data))
        return whole


def _empty(indptr: NDArray[np.int64], n_columns: int) -> tuple[csr_matrix, type[np.signedinteger]]:
    """A matrix whose entries are still to be written, sorted; SciPy wants all its indices of one type."""
    entries = int(indptr[-1])
    from scipy.sparse import csr_matrix

    kind = feature_type(max(entries, n_columns))
    whole = csr_matrix((len(indptr) - 1, n_columns), dtype=np.float32)
    whole.indptr, whole.indices = indptr.astype(kind), np.empty(entries, kind)
    whole.data = np.empty(entries, np.float32)
    whole.has_sorted_indices = whole.has_canonical_format = True
    return whole, kind


def _report(progress: Progress | None, length: int, vocabulary: Vocabulary) -> None:
    if progress is not None:
        progress(length + 1 - vocabulary.p1, vocabulary.p2 + 1 - vocabulary.p1)


def _require_room(documents: Documents, lengths: tuple[int, int], rows: bool) -> None:
    """Before anything is counted: every row has at most an entry for each of its windows."""
    counting, windows = SYMBOL_BYTES * len(documents.codes), 0
    if rows:
        windows = _windows(documents, lengths)
        if counting + ENTRY_BYTES * windows > free_memory(_HOST):
            windows = predicted_entries(documents, lengths)
    require_memory(counting + ENTRY_BYTES * windows, len(documents))


def require_memory(needed: int, n: int) -> None:
    """Raise InputError before bytes for the features of n documents are asked for that are not there."""
    free = free_memory(_HOST)
    if needed > free:
        raise InputError(
            f"the features of {n:,} documents need about {needed / 2**30:.2f} GiB of memory and "
            f"{free / 2**30:.2f} GiB is free; take fewer lengths (p), leave rare substrings out (min_df, "
            "--min-df), shorten the documents (max_length, --max-length) or give fewer"
        )


def predicted_entries(documents: Documents, lengths: tuple[int, int]) -> int:
    """How many entries the rows have, told by some of them."""
    some = documents.take(np.linspace(0, len(documents) - 1, min(SAMPLE, len(documents))).astype(np.int64))
    entries = sum(len(counts.features) for _, _, counts in count_each(some, Vocabulary.empty(some, *lengths)))
    return round(entries * _windows(documents, lengths) / max(1, _windows(some, lengths)))


def counted_bytes(documents: Documents, lengths: tuple[int, int]) -> int:
    """What counting all lengths takes, roughly."""
    return SYMBOL_BYTES * len(documents.codes) + COUNTED_BYTES * predicted_entries(documents, lengths)


def _windows(documents: Documents, lengths: tuple[int, int]) -> int:
    return int(windows_of(documents.lengths, *lengths).sum())


@njit(nogil=True, cache=True)
def _tally(features: Array, counts: Array, df: Array, largest: Array) -> None:
    """How many documents hold each p-mer, and the largest count."""
    for k in range(len(features)):
        u = features[k]
        df[u] += 1
        if counts[k] > largest[u]:
            largest[u] = counts[k]


@njit(nogil=True, cache=True)
def _count_columns(
    rows: Array,
    features: Array,
    counts: Array,
    found: Array,
    starts: Array,
    unary: bool,
    indptr: Array,
    first: int,
    last: int,
) -> None:
    for i in range(first, last):
        total = 0
        for k in range(rows[i], rows[i + 1]):
            u = found[features[k]]
            if u >= 0:
                width = starts[u + 1] - starts[u]
                total += min(width, counts[k]) if unary else width
        indptr[i + 1] = total


@njit(nogil=True, cache=True)
def _fill(
    rows: Array,
    features: Array,
    counts: Array,
    found: Array,
    starts: Array,
    weights: Array,
    form: int,
    indptr: Array,
    columns: Array,
    values: Array,
    squares: Array,
    first: int,
    last: int,
) -> None:
    longest = 0
    for i in range(first, last):
        longest = max(longest, rows[i + 1] - rows[i])
    packed = np.empty(longest, np.int64)
    for i in range(first, last):
        n = 0
        for k in range(rows[i], rows[i + 1]):
            u = found[features[k]]
            if u >= 0 and starts[u + 1] > starts[u]:
                packed[n] = np.int64(u) << 32 | np.int64(counts[k])
                n += 1
        packed[:n].sort()
        to, total = indptr[i], 0.0
        for k in range(n):
            u, c = packed[k] >> 32, packed[k] & 0xFFFFFFFF
            digits, value = 1, weights[u]
            if form == 0:
                value *= c
            elif form == 2 and c > 1:
                value *= 1 + np.log(c)
            elif form == 3:
                digits = min(c, starts[u + 1] - starts[u])
            for digit in range(digits):
                columns[to], values[to] = starts[u] + digit, value
                to += 1
            total += digits * value * value
        squares[i] += total


@njit(nogil=True, cache=True)
def _place(
    indptr: Array,
    columns: Array,
    values: Array,
    base: Any,
    scale: Array,
    begin: Array,
    to_columns: Array,
    to_values: Array,
    first: int,
    last: int,
) -> None:
    for i in range(first, last):
        to = begin[i]
        for k in range(indptr[i], indptr[i + 1]):
            to_columns[to] = columns[k] + base
            to_values[to] = values[k] * scale[i]
            to += 1
        begin[i] = to
