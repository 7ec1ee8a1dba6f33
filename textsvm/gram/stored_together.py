"""Grams of several kernels made in a store together, what they have in common computed once.

Their panels have the bits that each kernel's own have: a panel that is damaged later is made again alone.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.gram.store import Kept, Store, Wanted, panel_rows
from textsvm.gram.stored import StoredRows
from textsvm.kernels.contract import SharedColumns
from textsvm.runtime.parallel import Progress


def complete_together(
    folder: str | os.PathLike[str], wanted: Sequence[Wanted], memory: int, progress: Progress | None = None
) -> None:
    """Make what a store lacks of Grams of kernels that share a pass, where their panels are of one size.

    Parameters
    ----------
    folder : path
        Of the store.
    wanted : sequence of Wanted
        On the same examples, of kernels of one `Sharing`.
    memory : int
        Bytes that rows may take, of all of them.
    progress : callable, optional

    Raises
    ------
    InputError
        See `Store`, `Store.find` and `Store.writing`.
    """
    rows = min(panel_rows(each, memory // len(wanted)) for each in wanted)
    store = Store(folder)
    alike: dict[int, list[tuple[Kept, Wanted]]] = {}
    for each in wanted:
        kept = store.find(each, memory, rows)
        if kept.panels.missing():
            alike.setdefault(kept.panels.size, []).append((kept, each))
    for found in alike.values():
        if len(found) > 1:
            _make(store, [kept for kept, _ in found], [each for _, each in found], progress)


def _make(store: Store, kept: list[Kept], wanted: list[Wanted], progress: Progress | None) -> None:
    """Make the panels that are missing, of each Gram in turn; nothing where no pass has all."""
    shared = _Pass(wanted)
    if not shared.possible(wanted[0].kernel.structure.read(wanted[0].examples.take(np.arange(1)))):
        return
    with store.writing(kept):
        missing = [each.panels.missing() for each in kept]  # another process may have made some since
        longest = max(range(len(kept)), key=lambda position: len(missing[position]))
        steps = []
        for position, one in enumerate(zip(kept, wanted, strict=True)):
            rows = StoredRows(*one)
            rows.prepare = partial(_Face, shared, position)
            steps.append(rows.steps(missing[position], progress if position == longest else None))
        for number in sorted(set().union(*missing)):
            for numbers, making in zip(missing, steps, strict=True):
                if number in numbers:
                    next(making, None)
        for making in steps:  # what was written last, and what was found to be damaged
            for _ in making:
                pass


class _Pass:
    """Rows of all kernels; what was computed last is kept until all have taken theirs."""

    def __init__(self, wanted: Sequence[Wanted]) -> None:
        self.kernels = [each.kernel for each in wanted]
        self.sharing: Any = wanted[0].kernel.cost.sharing
        self.device = wanted[0].device
        self._columns: tuple[int, SharedColumns] | None = None
        self._rows: tuple[bytes, list[Any]] | None = None

    def possible(self, documents: Any) -> bool:
        """Whether there are rows of all kernels in one pass."""
        return self.sharing.columns(self.kernels, documents, self.device) is not None

    def columns(self, start: int, documents: Any) -> SharedColumns:
        """The texts from `start` on as columns, prepared once."""
        if self._columns is None or self._columns[0] != start:
            self._columns = self._rows = None  # their memory, before there are others
            self._columns = start, self.sharing.columns(self.kernels, documents, self.device)
        return self._columns[1]

    def rows(self, columns: SharedColumns, indices: NDArray[np.int64]) -> list[Any]:
        """Of each kernel, computed once for all that ask for the same, one after the other."""
        if self._rows is None or self._rows[0] != indices.tobytes():
            self._rows = None
            self._rows = indices.tobytes(), columns.rows(indices)
        return self._rows[1]


class _Face:
    """The rows of one of the kernels, with the texts from `start` on as columns."""

    def __init__(self, shared: _Pass, position: int, start: int, documents: Any) -> None:
        self._shared, self._position = shared, position
        self._columns = shared.columns(start, documents)

    def diag(self) -> Any:
        return self._columns.diags()[self._position]

    def rows(self, indices: NDArray[np.int64]) -> Any:
        return self._shared.rows(self._columns, indices)[self._position]
