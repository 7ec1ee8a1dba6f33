"""Search similar texts exactly, in bounded memory, with half of the pairs of a single set.

The kernel searches a block of rows and a block of columns at a time (`Kernel.nearest`); for a single set only
column blocks from the row block on. For the k nearest, the k-th value so far is the bound, and a pair of a
single set is offered to both of its texts.

On a CPU, pairs of a single set with values of at least `PREFIX_FROM` by kernels with features are found
without most of the others (`SimilarRows`). Each row indexes a prefix of its features, the rarest first, such
that the norm of the suffix is below `PREFIX_SHARE` times the threshold, so that similar rows share an indexed
feature.
<x, y> is the sum up to a feature, and at most the product of the norms of both suffixes (Cauchy-Schwarz).
Bayardo, Ma and Srikant 2007 (All-Pairs); Anastasiu and Karypis 2014 (L2AP).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from textsvm.arrays import AnyArray, Floats32, Ints
from textsvm.errors import InputError, warn_user
from textsvm.gram.measure import allowed_bytes
from textsvm.kernels.base import Kernel
from textsvm.kernels.near import Bound, Near, Pairs
from textsvm.linalg.products import InvertedIndex
from textsvm.linalg.rows import FeatureRows
from textsvm.linalg.sparse import Sparse, run_on_ranges
from textsvm.linalg.vectors import Vectors
from textsvm.model.settings import Settings
from textsvm.runtime.compiled import njit, scipy
from textsvm.runtime.device import Device, select
from textsvm.runtime.files import replacing
from textsvm.runtime.parallel import Progress, StageProgress, of_stage
from textsvm.text.documents import Documents, MultiView

#: Default number of neighbours per text.
K = 10
#: Bytes of a pair of a tile.
PAIR_BYTES = 64
#: Most rows, and columns, of a tile; a user is warned of fewer than `LEAST_SIDE`.
SIDES, LEAST_SIDE = {"cpu": 2048, "cuda": 16_384}, 64
#: Least threshold for `SimilarRows`, and most rows of its tiles: the sums of the columns stay in a cache.
PREFIX_FROM, PREFIX_SIDE = 0.5, 65_536
#: Norm of suffixes in units of the threshold: less takes more memory, and leaves fewer pairs to be computed.
PREFIX_SHARE = 0.875
#: Bytes of an entry of a row in `SimilarRows`.
ENTRY_BYTES = 64
#: Bound of the rounding errors of norms.
ROUNDING = 1e-5
#: Smaller values of a unit row are not indexed, so that products do not underflow.
TINY = 1e-15


@dataclass(frozen=True)
class Criteria:
    """Conditions that neighbours must fulfil, all of them."""

    k: int | None = None  #: Number of neighbours per text
    at_least: float | None = None  #: Least normalised kernel value
    within: int | None = None  #: Largest distance

    def check(self, kernel: Kernel) -> None:
        """Raise InputError if they are out of range, or the kernel has no distances."""
        for name, least in (("k", 1), ("within", 0)):
            value = getattr(self, name)
            whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
            if value is not None and not (whole and value >= least):
                raise InputError(f"{name} must be a whole number of at least {least}, or None, got {value!r}")
        value = self.at_least
        number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
        if value is not None and not (number and 0 < value <= 1):
            raise InputError(f"at_least must be above 0 and at most 1, got {value!r}")
        if self.within is not None and not kernel.nearest.has_distances:
            raise InputError(
                f"within={self.within} is a distance and the {kernel.name} kernel has none; give at_least "
                "(--at-least), or choose the edit kernel"
            )

    @property
    def least(self) -> np.float32:
        """Least value; equal texts may differ from 1 by float32 rounding."""
        return np.float32(-np.inf if self.at_least is None else min(float(self.at_least), 1 - 1e-5))


class NearestSoFar:
    """The k largest values, at least `least`, of each of n texts so far; ties go to the first texts."""

    def __init__(self, n: int, k: int, least: np.float32) -> None:
        self.values = np.full((n, k), -np.inf, np.float32)
        self.index = np.full((n, k), -1, np.int64)
        self.distances = np.full((n, k), -1, np.int32)
        self._least = least

    @property
    def bound(self) -> Floats32:
        """Least value that would enter, shape (n,)."""
        return np.maximum(self.values[:, -1], self._least)

    def offer(self, rows: Ints, columns: Ints, pairs: Pairs) -> None:
        """Insert the better pairs, with `columns` as neighbours of `rows`."""
        distances = np.full(len(pairs), -1, np.int32) if pairs.distances is None else pairs.distances
        _insert(self.values, self.index, self.distances, rows, columns, pairs.values, distances)

    def pairs(self, block: slice, distances: bool) -> Pairs:
        """Neighbours of a block of texts, nearest first."""
        at, place = np.nonzero(self.index[block] >= 0)
        at += block.start
        distances_of = self.distances[at, place] if distances else None
        return Pairs(at, self.index[at, place], self.values[at, place], distances_of)


@njit(nogil=True, cache=True)
def _insert(values, index, distances, rows, columns, new, new_distances):
    k = values.shape[1]
    for m in range(len(rows)):
        i, value, j = rows[m], new[m], columns[m]
        place = k
        while place > 0 and (
            index[i, place - 1] < 0
            or value > values[i, place - 1]
            or (value == values[i, place - 1] and j < index[i, place - 1])
        ):
            place -= 1
        if place < k:
            for p in range(k - 1, place, -1):
                values[i, p], index[i, p] = values[i, p - 1], index[i, p - 1]
                distances[i, p] = distances[i, p - 1]
            values[i, place], index[i, place], distances[i, place] = value, j, new_distances[m]


def search(
    settings: Settings, texts: Any, others: Any, criteria: Criteria, progress: StageProgress | None = None
) -> Iterator[Pairs]:
    """Find similar pairs, in the order of their rows, nearest first, a block of rows at a time.

    `texts` are the rows, and the columns too if `others` is None; the kernel learns from the columns. Kernel,
    form of texts, device and memory are those of `settings`.
    """
    criteria.check(settings.new_kernel())
    device, source = select(settings.device), settings.source
    with settings.at_work(device):
        validated = source.validate(texts if others is None else others)
        columns = source.encode(validated, None, progress)
        if not len(columns):
            raise InputError("there are no texts to search")
        kernel = source.kernel_for(columns)
        rows, report = columns, of_stage(progress, "neighbours")
        memory, side = allowed_bytes(settings.compute_options.memory, device), SIDES[device.kind]
        near: Near | None = None
        if others is None and len(columns) > side and criteria.least >= PREFIX_FROM:
            near = SimilarRows.of(kernel, columns, float(criteria.least), device, memory)
            side = side if near is None else PREFIX_SIDE
        if near is None:
            kernel.fit(kernel.structure.read(columns), device)
            if others is not None:
                n_features = columns.n_features if isinstance(columns, Vectors) else None
                rows = source.encode(source.validate(texts, n_features), columns, progress)
            read = kernel.structure.read
            near = kernel.nearest.prepare(read(columns), None if others is None else read(rows), device)
        side, n_texts = min(side, max(len(rows), len(columns))), max(1, int((memory / PAIR_BYTES) ** 0.5))
        if n_texts < min(side, LEAST_SIDE):
            slow = f"memory allows tiles of only {n_texts} x {n_texts} texts, so the search is slow"
            warn_user(f"{slow}; raise memory (--memory)", UserWarning)
        side = min(side, n_texts)
        tiles = _Tiles(near, others is None, _blocks(len(rows), side), _blocks(len(columns), side), report)
        yield from tiles.above(criteria) if criteria.k is None else tiles.nearest(criteria, criteria.k)


class SimilarRows:
    """Search pairs of rows by lists of their rarest features (`Near`)."""

    @classmethod
    def of(
        cls, kernel: Kernel, documents: object, least: float, device: Device, memory: int
    ) -> SimilarRows | None:
        """Texts and the features of a kernel; None without features on this device, or memory for them."""
        usable = device.kind == "cpu" and kernel.features is not None and kernel.features.countable
        views = kernel.structure.views
        read = [documents.of(view) for view in views] if isinstance(documents, MultiView) else [documents]
        if not usable or not all(isinstance(own, Documents) for own in read):
            return None
        rows = kernel.features.rows(documents, device)
        return cls(rows, least) if ENTRY_BYTES * len(rows.x.values) <= memory else None

    def __init__(self, rows: FeatureRows, least: float) -> None:
        x, n, rank = rows.x, len(rows.x), np.empty(rows.x.n_features, np.int64)
        squares = x.squares() + rows.ridge
        scale = np.divide(1, np.sqrt(squares), out=np.zeros(n), where=squares > 0)
        rank[np.argsort(x.frequencies(), kind="stable")] = np.arange(len(rank))
        by_rank = InvertedIndex(x.select(rank, len(rank)))
        by_rank = InvertedIndex(Sparse(by_rank.indptr, by_rank.documents, by_rank.values, n))  # sorts rows
        self.n_features = len(rank)
        self.indptr, self.features, self.values = by_rank.indptr, by_rank.documents, by_rank.values
        norms = np.empty(len(self.values), np.float32)  # norm behind each entry of a row
        run_on_ranges(self.indptr, partial(_norms, self.indptr, self.values, rows.ridge, scale, norms))
        prefix = (np.hypot(norms, self.values) >= PREFIX_SHARE * least) & (self.values > TINY)
        starts = np.concatenate([[0], np.cumsum(prefix)])[self.indptr]
        prefixes = Sparse(starts, self.features[prefix], self.values[prefix], len(rank))
        lists = InvertedIndex(prefixes)
        list_norms = InvertedIndex(replace(prefixes, values=norms[prefix])).values
        suffix_norms = np.append(norms[prefix], 0)[starts[1:] - 1] * (np.diff(starts) > 0)
        entries = (starts, prefixes.features, prefixes.values, norms[prefix], suffix_norms, lists.after)
        self.lists = (scale, *entries, lists.indptr, lists.documents, lists.values, list_norms)

    def pairs(self, rows: slice, columns: slice, bound: Bound) -> Pairs:
        least, n = np.minimum(bound.rows.min(), bound.columns.min()) - ROUNDING, len(bound.columns)
        own, parts = (self.indptr, self.features, self.values, *self.lists), list[list[AnyArray]]()

        def find(first: int, last: int) -> None:
            row, places = np.zeros(self.n_features, np.float32), np.zeros(n, np.int32)
            work = np.zeros(n), np.full(n, -1.0), places, row
            out = np.empty(2 * n, np.int64), np.empty(2 * n, np.int64), np.empty(2 * n, np.float32)
            while first < last:
                first, size = _similar(first, last, columns.start, *own, least, *work, *out)
                parts.append([array[:size].copy() for array in out])

        ends = self.indptr[rows.start : rows.stop + 1]
        run_on_ranges(ends, lambda i, j: find(rows.start + i, rows.start + j))
        at, column, value = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        near = value >= np.minimum(bound.rows[at - rows.start], bound.columns[column - columns.start])
        return Pairs(at[near], column[near], value[near])


@njit(nogil=True, cache=True)
def _norms(indptr, values, ridge, scale, norms, first, last):
    """Scale rows, write the norm behind each entry, and the scales that float32 rows still need."""
    for i in range(first, last):
        total = 0.0
        for k in range(indptr[i + 1] - 1, indptr[i] - 1, -1):
            norms[k] = np.sqrt(total)
            values[k] = np.float32(values[k] * scale[i])
            total += np.float64(values[k]) * np.float64(values[k])
        if scale[i] > 0:
            scale[i] = 1 / np.sqrt(total + ridge[i] * scale[i] ** 2)


@njit(nogil=True, cache=True)
def _similar(
    first, last, base, indptr, features, values, scale, starts, prefix, prefix_values, prefix_norms,
    suffix_norms, after, list_starts, documents, list_values, list_norms, least, sums, bounds, places, row,
    out_rows, out_columns, out_values,
):  # fmt: skip
    """Pairs of rows and later rows, some from `base` on.

    Returns the next row, where the buffers are full, and the number of pairs.
    """
    size = 0
    for i in range(first, last):
        if size + len(sums) > len(out_rows):
            return i, size
        n_places = 0
        for k in range(starts[i], starts[i + 1]):
            v, r = prefix_values[k], prefix_norms[k]
            begin, end = after[k], list_starts[prefix[k] + 1]
            for at in range(begin + np.searchsorted(documents[begin:end], base), end):
                j, product = documents[at] - base, np.float64(v) * list_values[at]
                if j >= len(sums):
                    break
                if bounds[j] < 0:
                    if product + r * list_norms[at] < least:
                        continue
                    places[n_places] = j
                    n_places += 1
                    sums[j] = 0
                sums[j] += product
                # Features shared beyond the last common one of both prefixes are in a suffix.
                bounds[j] = sums[j] + max(suffix_norms[i] * list_norms[at], r * suffix_norms[base + j])
        for k in range(indptr[i], indptr[i + 1] if n_places else 0):
            row[features[k]] = values[k]
        for j in places[:n_places]:
            bound, bounds[j] = bounds[j], -1
            if bound >= least:
                total = 0.0
                for k in range(indptr[base + j], indptr[base + j + 1]):
                    total += np.float64(row[features[k]]) * np.float64(values[k])
                total *= scale[i] * scale[base + j]
                if total >= least:
                    out_rows[size], out_columns[size], out_values[size] = i, base + j, np.float32(total)
                    size += 1
        for k in range(indptr[i], indptr[i + 1] if n_places else 0):
            row[features[k]] = 0
    return last, size


def _blocks(n: int, side: int) -> list[slice]:
    return [slice(start, min(start + side, n)) for start in range(0, n, side)]


def _level(block: slice, value: np.float32) -> Floats32:
    return np.full(block.stop - block.start, value, np.float32)


@dataclass(frozen=True)
class _Tiles:
    """Blocks of rows and of columns, which are the same for a single set."""

    near: Near
    single_set: bool
    rows: list[slice]
    columns: list[slice]
    progress: Progress | None

    def above(self, criteria: Criteria) -> Iterator[Pairs]:
        """Pairs above the bound, by blocks of rows."""
        for k, block in enumerate(self.rows):
            parts = []
            for other in self._columns_of(k):
                least = _level(block, criteria.least), _level(other, criteria.least)
                parts.append(self.near.pairs(block, other, Bound(*least, criteria.within)))
            pairs = joined(parts)
            yield pairs.take(np.lexsort((pairs.columns, -pairs.values, pairs.rows)))

    def nearest(self, criteria: Criteria, k: int) -> Iterator[Pairs]:
        """The k nearest of each row, by blocks of rows."""
        best = NearestSoFar(self.rows[-1].stop if self.rows else 0, k, criteria.least)
        never, distances = np.float32(np.inf), False
        for number, block in enumerate(self.rows):
            for other in self._columns_of(number):
                of_columns = best.bound[other] if self.single_set else _level(other, never)
                pairs = self.near.pairs(block, other, Bound(best.bound[block], of_columns, criteria.within))
                best.offer(pairs.rows, pairs.columns, pairs)
                if self.single_set:
                    best.offer(pairs.columns, pairs.rows, pairs)
                distances = distances or pairs.distances is not None
            # In a single set, this block has been a column block of all earlier row blocks.
            yield best.pairs(block, distances)

    def _columns_of(self, k: int) -> Iterator[slice]:
        """Column blocks of the k-th row block, of a single set from this block on; reports progress."""
        numbers = [len(self.columns) - i * self.single_set for i in range(len(self.rows))]
        before, total = sum(numbers[:k]), sum(numbers)
        for done, other in enumerate(self.columns[-numbers[k] :], before + 1):
            yield other
            if self.progress is not None:
                self.progress(done, total)


def joined(parts: list[Pairs]) -> Pairs:
    """Pairs of several tiles."""
    distances = [part.distances for part in parts if part.distances is not None]
    return Pairs(
        np.concatenate([np.empty(0, np.int64), *(part.rows for part in parts)]),
        np.concatenate([np.empty(0, np.int64), *(part.columns for part in parts)]),
        np.concatenate([np.empty(0, np.float32), *(part.values for part in parts)]),
        np.concatenate(distances) if distances else None,
    )


def write_pairs(
    path: str | os.PathLike[str], pairs: Pairs, ids: Sequence[str], column_ids: Sequence[str]
) -> None:
    """Write pairs atomically, as a sparse matrix for `scipy.sparse.load_npz`; InputError if that fails.

    The file also has the arrays ids, column_ids, and distances, if known, in the order of the values.
    """
    order = np.lexsort((pairs.columns, pairs.rows))
    pairs = pairs.take(order)
    shape = (len(ids), len(column_ids))
    matrix = scipy.sparse.csr_array((pairs.values, (pairs.rows, pairs.columns)), shape=shape)
    arrays: dict[str, Any] = {"format": np.array(b"csr"), "shape": np.array(shape, np.int64)}
    arrays |= {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr}
    arrays |= {"ids": np.array(ids, str), "column_ids": np.array(column_ids, str)}
    if pairs.distances is not None:
        arrays["distances"] = pairs.distances
    with replacing(path) as temporary, open(temporary, "wb") as stream:
        np.savez_compressed(stream, **arrays)
