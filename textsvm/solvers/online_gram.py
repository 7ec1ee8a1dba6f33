"""Rows of the kernel matrix of examples that come and go, kept for a solver of pairs to read in place."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.solvers.online_rows import SparseRows


class KeptRows:
    """Rows of K = XX' in float32, up to a number of bytes; the one read longest ago makes place for another.

    Parameters
    ----------
    X : SparseRows
    memory : int
        Bytes they may take; no page of them takes any before it is written to.

    Attributes
    ----------
    values : float32 array, shape (height, room)
        0 past column ``X.n``, and at a free place any finite number.
    slots : int64 array, shape (room,)
        Where the row of each example is in `values`, -1 if it is not.
    used : int64 array, shape (height,)
        When each was last read, in a count that only grows.
    """

    def __init__(self, X: SparseRows, memory: int) -> None:
        self._X, self.memory = X, memory
        self._store = np.empty(max(64, memory // 4), np.float32)
        self.values = self._store[:0].reshape(0, 0)
        self.slots, self.used = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self._owner = np.zeros(0, np.int64)

    def __getstate__(self) -> dict[str, Any]:
        return {"X": self._X, "memory": self.memory, "room": len(self.slots)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        KeptRows.__init__(self, state["X"], state["memory"])
        self.reserve(state["room"])

    def __len__(self) -> int:
        """How many rows are kept."""
        return int(np.count_nonzero(self._owner >= 0))

    @property
    def nbytes(self) -> int:
        """Bytes that rows take."""
        return len(self) * self.values.shape[1] * 4

    def row(self, place: int) -> NDArray[np.float32]:
        """The row of an example, shape (X.n,)."""
        slot = int(self.slots[place])
        if slot < 0:
            slot = int(np.argmin(self.used))
            if self._owner[slot] >= 0:
                self.slots[self._owner[slot]] = -1
            self._owner[slot], self.slots[place] = place, slot
            self._X.products(place, self.values[slot, : self._X.n])
            self.values[slot, self._X.n :] = 0
        self.used[slot] = self.used.max() + 1
        return self.values[slot, : self._X.n]

    def come(self, place: int) -> NDArray[np.float32]:
        """The row of a new example, which becomes a column of the others."""
        row = self.row(place)
        kept = np.flatnonzero(self._owner >= 0)
        self.values[kept, place] = row[self._owner[kept]]
        return row

    def go(self, place: int) -> None:
        """Drop the row of an example, if it is kept."""
        slot = int(self.slots[place])
        if slot >= 0:
            self._owner[slot], self.used[slot], self.slots[place] = -1, 0, -1

    def clear(self) -> None:
        """Drop all rows."""
        self._owner[:], self.used[:], self.slots[:] = -1, 0, -1

    def reserve(self, room: int) -> None:
        """Have room for so many examples: rows become wider, and as many stay as fit, those read last."""
        before, height = len(self.slots), max(2, min(room, self.memory // (4 * max(room, 1))))
        if len(self._store) < height * room:
            self._store = np.concatenate(
                [self._store, np.empty(height * room - len(self._store), np.float32)]
            )
        kept = np.flatnonzero(self._owner >= 0)
        kept = np.sort(kept[np.argsort(-self.used[kept], kind="stable")][:height])
        # In their own memory: first all to the front, then from the last on to where they belong.
        for slot, old in enumerate(kept):
            self._store[slot * before : (slot + 1) * before] = self.values[old]
        self.values = self._store[: height * room].reshape(height, room)
        for slot in range(len(kept))[::-1]:
            self.values[slot, :before] = self._store[slot * before : (slot + 1) * before]
            self.values[slot, before:] = 0
        used, owner = self.used[kept], self._owner[kept]
        self.used, self._owner = np.zeros(height, np.int64), np.full(height, -1, np.int64)
        self.used[: len(kept)], self._owner[: len(kept)] = used, owner
        self.slots = np.full(room, -1, np.int64)
        self.slots[owner] = np.arange(len(kept))
