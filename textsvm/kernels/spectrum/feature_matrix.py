"""Feature matrices for `SpectrumFeatures`, on the CPU: columns are p-mers of the training documents.

A p-mer of at least `least` training documents has a column, or with weight "intersection" a column for each
digit of the unary code of its largest count (see kernel.py): 1, 2, ... occurrences. Columns are ordered by
the length of their p-mers, then by symbols. p-mers without a column are dropped before a row is normalised.

Columns are learnt length by length, so memory holds the counts of a single length. Rows are written document
by document: the p-mers at every position are looked up, step by step of `plan`, in tables of the p-mers with
columns, and a single sort of the positions puts the p-mers of all lengths in order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from textsvm.arrays import Bools, Floats, Floats32, Ints, SignedInts, Words
from textsvm.errors import InputError
from textsvm.kernels.shared.counting import PIECE, Vocabulary, count_each, plan, windows_of
from textsvm.kernels.spectrum.features import PmerKernel, PmerWeights, is_weighted
from textsvm.linalg.sparse import count_features, index_type, run_on_ranges, unary_starts
from textsvm.runtime.compiled import njit, popcount, scipy
from textsvm.runtime.device import Device, free_memory
from textsvm.runtime.parallel import Progress, run
from textsvm.text.documents import Documents

#: Bytes per entry: column and value.
ENTRY_BYTES = 8
#: Bytes per symbol while a length is counted: ids of three lengths, features and counts, twice.
SYMBOL_BYTES = 28
#: Bytes per entry while feature rows are built: counts twice, or counts and values.
COUNTED_BYTES = 2 * ENTRY_BYTES
#: Number of documents from which the number of entries is extrapolated, and most of their symbols.
SAMPLE, SAMPLE_SYMBOLS = 256, 1 << 20
#: Bits of a digit of the radix sort of a row's entries.
DIGIT_BITS = 8
#: Bits of the position in a text, below the number by which positions are sorted.
POSITION_BITS = 31
#: Counts whose logarithms are computed in advance.
LOGS = 256
#: Codes of weights for compiled loops.
_WEIGHT_CODES = {"count": 0, "presence": 1, "log": 2, "intersection": 3}
_HOST = Device("cpu", 0, "cpu")


class ColumnTables(NamedTuple):
    """Arrays that find the column of the p-mer of each length at a position, step by step of `plan`.

    A node is 2 * rank + 1 of a p-mer, or 2 * rank of another string; rank is the number of p-mers of its
    length before it in the order of symbols. Only p-mers with columns count, or all if shorter than p1.
    """

    symbols: NDArray[np.uint32]  #: Node of every symbol, the last of any other
    weights: Floats  #: Weight of each p-mer with columns
    #: shape (number of steps, 7): q - b, levels of both parts (symbols, then steps), number of p-mers of
    #: length b, `shift`, and begin and size of the directory of the step.
    steps: Words
    #: Directory of each step: for every 2^shift possible keys the number of p-mers before. If shift is 6,
    #: each follows the bits of the keys that are p-mers; otherwise all keys come behind.
    words: Words
    bases: Ints  #: Number of p-mers with columns before those of each level
    #: First column of each p-mer, and number of columns; empty if no p-mer has several.
    starts: Ints
    lowest: int  #: Level of length p1
    passes: int  #: Number of digits of the number of p-mers


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

    def __reduce__(self) -> tuple[object, ...]:
        return FeatureColumns, (self.learnt, self.starts)  # without the tables

    @cached_property
    def tables(self) -> ColumnTables:
        """Tables to find the columns."""
        learnt, vocabulary, p1 = self.learnt, self.learnt.vocabulary, self.learnt.vocabulary.p1
        first = vocabulary.first
        has_column: Bools = np.diff(self.starts) > 0
        levels: dict[int, int] = {}
        ranks: dict[int, Ints] = {}
        steps, words, sizes, begin = [], [np.empty(0, np.uint64)], list[int](), 0

        def select(q: int) -> Bools:
            k, size = q - p1, vocabulary.size(q)
            selected = has_column[first[k] : first[k + 1]] if k >= 0 else np.ones(size, bool)
            levels[q], ranks[q] = len(levels), np.cumsum(selected, dtype=np.int64) - selected
            sizes.append(int(selected.sum()))
            return selected

        present = select(1)
        symbols = np.append(2 * ranks[1] + present, 2 * sizes[0]).astype(np.uint32)
        for q, a, b in plan(p1, vocabulary.p2):
            keys, width = vocabulary.keys[q][select(q)], np.uint64(max(vocabulary.size(b), 1))
            left, size_b, bound = keys // width, sizes[levels[b]], sizes[levels[a]] * sizes[levels[b]]
            keys = ranks[a][left.view(np.int64)] * size_b + ranks[b][(keys - left * width).view(np.int64)]
            shift = max(6, (bound // max(len(keys), PIECE)).bit_length() - 1)
            before = np.bincount((keys >> shift) + 1, minlength=(bound >> shift) + 2).cumsum()
            steps.append((q - b, levels[a], levels[b], size_b, shift, begin, len(before)))
            if shift == 6:
                bits = np.zeros(len(before), np.uint64)
                np.bitwise_or.at(bits, keys >> 6, np.uint64(1) << (keys & 63).view(np.uint64))
                words.append(np.stack([bits, before.view(np.uint64)], axis=1).ravel())
            else:
                words.append(np.concatenate([before, keys]).view(np.uint64))
            begin += len(words[-1])
        lowest = levels[p1]
        bases = np.cumsum([0] * (lowest + 1) + sizes[lowest:-1])
        starts = self.starts[np.append(has_column, True)] if len(self) > sum(sizes[lowest:]) else first[:0]
        weights = PmerWeights(vocabulary, learnt.df[has_column], learnt.n, learnt.idf).table[:-1]
        passes = -(-len(weights).bit_length() // DIGIT_BITS)
        whole = np.array(steps, np.uint64).reshape(-1, 7), np.concatenate(words)
        return ColumnTables(symbols, weights, *whole, bases, starts, lowest, passes)


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
    n, offsets, code = len(documents), documents.offsets, _WEIGHT_CODES[kernel.weight]
    tables, n_levels = columns.tables, len(columns.tables.steps) + 1
    tables = tables._replace(weights=np.sqrt(tables.weights)) if code == 3 else tables
    factors = np.arange(LOGS, dtype=np.float64) ** (code == 0)
    if code == 2:  # math.log has the bits of the logarithm in compiled functions
        factors[1:] += [math.log(c) for c in range(1, LOGS)]
    ends = np.concatenate([[0], np.cumsum(windows_of(documents.lengths, *kernel.lengths))])
    indptr = np.zeros(n + 1, np.int64)
    parts: dict[int, tuple[SignedInts, Floats32]] = {}

    def write_rows(first: int, last: int) -> None:
        most, longest = int(ends[last] - ends[first]), int(documents.lengths[first:last].max(initial=0))
        require_memory(ENTRY_BYTES * most + (4 * n_levels + 16) * longest, n)
        entries = np.empty(most, index_type(len(columns))), np.empty(most, np.float32)
        nodes = np.zeros((n_levels, longest + columns.learnt.vocabulary.p2), np.uint32)
        scratch = nodes, *np.empty((2, longest + 1), np.uint64), np.empty(1 << DIGIT_BITS, np.uint64)
        codes = tables.symbols.take(documents.codes[offsets[first] : offsets[last]], mode="clip")
        terms = tables, factors, code, kernel.normalised
        size = _write_rows(codes, offsets, *terms, *scratch, indptr, *entries, first, last)
        parts[first] = entries[0][:size], entries[1][:size]

    run_on_ranges(offsets, write_rows)
    if progress is not None:
        progress(1, 1)
    np.cumsum(indptr, out=indptr)
    whole = _empty(indptr, len(columns))

    def move(first: int) -> None:
        indices, data = parts.pop(first)
        begin = indptr[first]
        whole.indices[begin : begin + len(data)], whole.data[begin : begin + len(data)] = indices, data

    run(move, sorted(parts))
    return whole


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
    n = min(SAMPLE, len(documents), 1 + len(documents) * SAMPLE_SYMBOLS // max(len(documents.codes), 1))
    sample = documents.take(np.linspace(0, len(documents) - 1, n).astype(np.int64))
    vocabulary = Vocabulary.empty(sample, *lengths)
    entries = sum(len(counts.features) for _, _, counts in count_each(sample, vocabulary))
    return round(entries * _windows(documents, lengths) / max(1, _windows(sample, lengths)))


def counted_bytes(documents: Documents, lengths: tuple[int, int]) -> int:
    """Approximate bytes needed to count all lengths."""
    return SYMBOL_BYTES * len(documents.codes) + COUNTED_BYTES * predicted_entries(documents, lengths)


def _windows(documents: Documents, lengths: tuple[int, int]) -> int:
    return int(windows_of(documents.lengths, *lengths).sum())


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
def _find_nodes(step, words, left, right, n, nodes, keys, is_column):
    """Find the nodes of a step at n positions, given those of their parts; add them to the keys."""
    ahead, size_b, shift, begin, skipped = step[0], step[3], step[4], step[5], step[6]
    one = np.uint64(1)
    for k in range(np.uint64(n)):
        start, end = np.uint64(left[k]), np.uint64(right[k + ahead])
        present = start & one
        key = (start >> one) * size_b + (end >> one) * present
        present &= end
        if shift == np.uint64(6):
            at, bit = begin + (key >> shift) * np.uint64(2), key & np.uint64(63)
            rank = words[at + one] + np.uint64(popcount(words[at] & ((one << bit) - one)))
            present &= words[at] >> bit
        else:
            at = begin + (key >> shift)
            rank, high, last, at = words[at], words[at + one], words[at + one], begin + skipped
            while rank < high:
                middle = (rank + high) >> one
                if words[at + middle] < key:
                    rank = middle + one
                else:
                    high = middle
            present &= np.uint64(rank < last and words[at + rank] == key)
        nodes[k] = rank << one | present
        if is_column:
            keys[k] += (rank + present) << np.uint64(POSITION_BITS)


@njit(nogil=True, cache=True)
def _write_rows(
    codes, offsets, tables, factors, code, normalised, nodes, keys, other, ends, indptr, columns, values,
    first, last,
):  # fmt: skip
    """Write the entries of some documents, and the number of each; return their total.

    Positions are sorted once, by the number of p-mers of all lengths up to and including the strings there.
    It ascends with the strings, and differs if the p-mers of any length do.
    """
    one, half, low_half = np.uint64(1), np.uint64(32), np.uint64((1 << 32) - 1)
    low_bits = np.uint64((1 << POSITION_BITS) - 1)
    steps, bases, starts, lowest = tables.steps, tables.bases, tables.starts, tables.lowest
    to, unary = np.uint64(0), len(starts) > 0
    for i in range(first, last):
        begin, n, squares, row = offsets[i] - offsets[first], offsets[i + 1] - offsets[i], 0.0, to
        nodes[0, :n] = codes[begin : begin + n]
        nodes[:, n : n + nodes.shape[1] - len(keys) + 1] = 0
        for k in range(n):
            keys[k] = k
            if lowest == 0:
                keys[k] |= (np.uint64(nodes[0, k]) + one) >> one << np.uint64(POSITION_BITS)
        for step in range(len(steps)):
            a, b = steps[step, 1], steps[step, 2]
            parts = nodes[a], nodes[b]
            _find_nodes(steps[step], tables.words, *parts, n, nodes[step + 1], keys, step + 1 >= lowest)
        m = np.uint64(0)
        for k in range(n):
            keys[m] = keys[k]
            m += np.uint64(nodes[lowest, k]) & one
        for digit in range(tables.passes):
            _sort_by_digit(keys, m, POSITION_BITS + DIGIT_BITS * digit, ends, other)
            keys, other = other, keys
        for level in range(lowest, len(bases)):
            size = count = last_node = deeper = np.uint64(0)
            for k in range(m):
                node = np.uint64(nodes[level, keys[k] & low_bits])
                present = node & one
                node = node if present else last_node
                new = np.uint64(node != last_node)
                size, count, last_node = size + new, count * (one - new) + present, node
                other[size] = node >> one << half | count
                keys[deeper] = keys[k]
                deeper += present
            m, total = deeper, 0.0
            for entry in other[1 : size + one]:
                u, c = np.uint64(bases[level]) + (entry >> half), entry & low_half
                if c < LOGS:
                    factor = factors[c]
                elif code == 2:
                    factor = 1 + np.log(c)
                else:
                    factor = np.float64(c) if code == 0 else 1.0
                value = tables.weights[u] * factor
                digits = min(c, np.uint64(starts[u + one] - starts[u])) if unary else one
                for digit in range(digits):
                    columns[to], values[to] = (np.uint64(starts[u]) if unary else u) + digit, value
                    to += one
                total += digits * value * value
            squares += total
        if normalised and squares > 0:
            scale = 1 / np.sqrt(squares)
            for k in range(row, to):
                values[k] = values[k] * scale
        indptr[i + 1] = to - row
    return to
