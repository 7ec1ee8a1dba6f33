"""Pairs of texts that are alike, tile by tile: exact, in bounded memory, half of the pairs of one set.

Rows and columns are taken in blocks, and a kernel says of a block of rows and a block of columns which pairs
are wanted (`Kernel.nearest`). Of one set only blocks of columns from that of the rows on are looked at. All
pairs above a bound come out block of rows by block of rows; where the k nearest are asked for, the k-th value
so far is the bound, and a pair of one set is offered to both of its texts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.gram.plan import allowed_bytes
from textsvm.kernels.near import Bound, Near, Pairs
from textsvm.machines.base import KernelMachine
from textsvm.nearest.best import Best
from textsvm.nearest.wanted import Wanted
from textsvm.runtime.device import select
from textsvm.runtime.parallel import Progress, StageProgress, of_stage

#: Bytes of a pair while its tile is looked at.
PAIR_BYTES = 64
#: Rows, and columns, of a tile.
SIDES = {"cpu": 2048, "cuda": 16_384}


def search(
    model: KernelMachine, texts: Any, others: Any, wanted: Wanted, progress: StageProgress | None = None
) -> Iterator[Pairs]:
    """Pairs that are wanted, in the order of their rows, the nearest first, a block of rows at a time.

    Parameters
    ----------
    model : KernelMachine
        Its kernel, its form of texts, its device and its memory; checked.
    texts : texts, vectors or a table
        The rows, and the columns too if there are no others.
    others : the same, optional
        The columns, which the kernel learns from.
    wanted : Wanted
    progress : callable, optional

    Raises
    ------
    InputError
        If something is out of range, or no text has any feature.
    """
    wanted.check(model.make_kernel())
    device = select(model.device)
    with model.at_work(device):
        columns = model.encode(model.read(texts if others is None else others), None, progress)
        kernel = model.source.kernel_for(columns)
        kernel.fit(kernel.structure.read(columns), device)
        rows = columns
        if others is not None:
            rows = model.encode(model.read(texts, fitting=False), columns, progress)
        read = kernel.structure.read
        near = kernel.nearest.prepare(read(columns), None if others is None else read(rows), device)
        side = _side(allowed_bytes(model.compute.memory, device), SIDES[device.kind], len(rows), len(columns))
        tiles = Tiles(near, others is None, _blocks(len(rows), side), _blocks(len(columns), side))
        yield from tiles.search(wanted, of_stage(progress, "neighbours"))


def _side(memory: int, most: int, n_rows: int, n_columns: int) -> int:
    return max(1, min(most, int((memory / PAIR_BYTES) ** 0.5), max(n_rows, n_columns)))


def _blocks(n: int, side: int) -> list[slice]:
    return [slice(start, min(start + side, n)) for start in range(0, n, side)]


@dataclass(frozen=True)
class Tiles:
    """Blocks of rows and of columns; of one set, both are the same.

    Attributes
    ----------
    near : Near
    one_set : bool
    rows, columns : list of slice
    """

    near: Near
    one_set: bool
    rows: list[slice]
    columns: list[slice]

    def search(self, wanted: Wanted, progress: Progress | None) -> Iterator[Pairs]:
        """See the module's `search`."""
        if wanted.k is None:
            return self._above(wanted, progress)
        return self._best(wanted, wanted.k, progress)

    def _above(self, wanted: Wanted, progress: Progress | None) -> Iterator[Pairs]:
        done = 0.0
        for number, block in enumerate(self.rows):
            bound = _level(block, wanted.least)
            found = []
            for other in self._columns(number):
                limits = Bound(bound, _level(other, wanted.least), wanted.within)
                found.append(self.near.pairs(block, other, limits))
                done = self._tell(progress, done, block, other)
            yield _sorted(joined(found))

    def _best(self, wanted: Wanted, k: int, progress: Progress | None) -> Iterator[Pairs]:
        best = Best(self.rows[-1].stop if self.rows else 0, k, wanted.least)
        never, done, distances = np.float32(np.inf), 0.0, False
        for number, block in enumerate(self.rows):
            for other in self._columns(number):
                of_columns = best.bound[other] if self.one_set else _level(other, never)
                found = self.near.pairs(block, other, Bound(best.bound[block], of_columns, wanted.within))
                best.offer(found.rows, found.columns, found)
                if self.one_set:
                    best.offer(found.columns, found.rows, found)
                distances = distances or found.distances is not None
                done = self._tell(progress, done, block, other)
            # Of one set, what is done with its row of tiles has been a column of all tiles before.
            yield best.pairs(block, distances)

    def _columns(self, number: int) -> list[slice]:
        return self.columns[number:] if self.one_set else self.columns

    def _tell(self, progress: Progress | None, done: float, block: slice, other: slice) -> float:
        done += _pairs(block, other)
        if progress is not None:
            progress(done, self._total)
        return done

    @cached_property
    def _total(self) -> float:
        return sum(
            _pairs(row, each) for number, row in enumerate(self.rows) for each in self._columns(number)
        )


def _pairs(block: slice, other: slice) -> float:
    return float(block.stop - block.start) * (other.stop - other.start)


def _level(block: slice, value: np.float32) -> NDArray[np.float32]:
    return np.full(block.stop - block.start, value, np.float32)


def joined(parts: list[Pairs]) -> Pairs:
    """Pairs of several tiles, one after the other."""
    distances = [one.distances for one in parts if one.distances is not None]
    return Pairs(
        np.concatenate([np.empty(0, np.int64), *(one.rows for one in parts)]),
        np.concatenate([np.empty(0, np.int64), *(one.columns for one in parts)]),
        np.concatenate([np.empty(0, np.float32), *(one.values for one in parts)]),
        np.concatenate(distances) if distances else None,
    )


def _sorted(pairs: Pairs) -> Pairs:
    return pairs.take(np.lexsort((pairs.columns, -pairs.values, pairs.rows)))
