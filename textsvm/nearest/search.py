"""Search similar texts exactly, in bounded memory, with half of the pairs of a single set.

The kernel searches a block of rows and a block of columns at a time (`Kernel.nearest`); for a single set only
column blocks from the row block on. For the k nearest, the k-th value so far is the bound, and a pair of a
single set is offered to both of its texts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from textsvm.arrays import Floats32, Ints
from textsvm.errors import InputError
from textsvm.gram.measure import allowed_bytes
from textsvm.kernels.base import Kernel
from textsvm.kernels.near import Bound, Near, Pairs
from textsvm.linalg.vectors import Vectors
from textsvm.model.settings import Settings
from textsvm.runtime.compiled import njit, scipy
from textsvm.runtime.device import select
from textsvm.runtime.files import replacing
from textsvm.runtime.parallel import Progress, StageProgress, of_stage

#: Default number of neighbours per text.
K = 10
#: Bytes of a pair of a tile.
PAIR_BYTES = 64
#: Most rows, and columns, of a tile.
SIDES = {"cpu": 2048, "cuda": 16_384}


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
                f"within={self.within} is a distance and the {kernel.name} kernel has none; give at_least, "
                "or choose the edit kernel"
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
        kernel = source.kernel_for(columns)
        kernel.fit(kernel.structure.read(columns), device)
        rows = columns
        if others is not None:
            n_features = columns.n_features if isinstance(columns, Vectors) else None
            rows = source.encode(source.validate(texts, n_features), columns, progress)
        read = kernel.structure.read
        near = kernel.nearest.prepare(read(columns), None if others is None else read(rows), device)
        memory, most = allowed_bytes(settings.compute_options.memory, device), SIDES[device.kind]
        side = max(1, min(most, int((memory / PAIR_BYTES) ** 0.5), max(len(rows), len(columns))))
        report = of_stage(progress, "neighbours")
        tiles = _Tiles(near, others is None, _blocks(len(rows), side), _blocks(len(columns), side), report)
        yield from tiles.above(criteria) if criteria.k is None else tiles.nearest(criteria, criteria.k)


def _blocks(n: int, side: int) -> list[slice]:
    return [slice(start, min(start + side, n)) for start in range(0, n, side)]


def _length(block: slice) -> int:
    return int(block.stop - block.start)


def _level(block: slice, value: np.float32) -> Floats32:
    return np.full(_length(block), value, np.float32)


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
        for block, columns in self._each():
            parts = []
            for other in columns:
                least = _level(block, criteria.least), _level(other, criteria.least)
                parts.append(self.near.pairs(block, other, Bound(*least, criteria.within)))
            pairs = joined(parts)
            yield pairs.take(np.lexsort((pairs.columns, -pairs.values, pairs.rows)))

    def nearest(self, criteria: Criteria, k: int) -> Iterator[Pairs]:
        """The k nearest of each row, by blocks of rows."""
        best = NearestSoFar(self.rows[-1].stop if self.rows else 0, k, criteria.least)
        never, distances = np.float32(np.inf), False
        for block, columns in self._each():
            for other in columns:
                of_columns = best.bound[other] if self.single_set else _level(other, never)
                pairs = self.near.pairs(block, other, Bound(best.bound[block], of_columns, criteria.within))
                best.offer(pairs.rows, pairs.columns, pairs)
                if self.single_set:
                    best.offer(pairs.columns, pairs.rows, pairs)
                distances = distances or pairs.distances is not None
            # In a single set, this block has been a column block of all earlier row blocks.
            yield best.pairs(block, distances)

    def _each(self) -> Iterator[tuple[slice, Iterator[slice]]]:
        """Row blocks, and their column blocks; progress counts pairs of texts."""
        of_rows = [self.columns[k:] if self.single_set else self.columns for k in range(len(self.rows))]
        blocks = zip(self.rows, of_rows, strict=True)
        sizes = [_length(row) * sum(map(_length, columns)) for row, columns in blocks]
        total, done = float(sum(sizes)), 0.0

        def reported(block: slice, columns: list[slice]) -> Iterator[slice]:
            nonlocal done
            for other in columns:
                yield other
                done += _length(block) * _length(other)
                if self.progress is not None:
                    self.progress(done, total)

        for block, columns in zip(self.rows, of_rows, strict=True):
            yield block, reported(block, columns)


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
