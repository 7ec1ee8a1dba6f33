"""Search for pairs of similar examples.

    K(s, t) / sqrt(K(s, s) K(t, t))  >=  a bound, of the row or of the column

A block of rows is compared with a block of columns at a time. By default all values of the block are computed
and large ones kept; kernels with bounds on their values, such as the edit distance, compute few.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from textsvm.arrays import Array, Floats32, Ints, Ints32
from textsvm.kernels.contract import KernelRows
from textsvm.runtime.device import Device, array_module, to_host, use
from textsvm.text.documents import Documents


@dataclass(frozen=True)
class Bound:
    """Least value of the pairs to search for."""

    #: shapes (m,) and (n,): Bounds; the value of a pair must reach that of its row or of its column.
    rows: Floats32
    columns: Floats32
    within: int | None = None  #: Greatest distance


@dataclass(frozen=True)
class Pairs:
    """Similar pairs, unordered."""

    #: shape (m,): Indices among all rows and all columns; within a single set, rows < columns.
    rows: Ints
    columns: Ints
    values: Floats32  #: shape (m,): Normalised kernel values
    distances: Ints32 | None = None  #: shape (m,): Distances, of kernels that have them

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, positions: Array) -> Pairs:
        """The pairs at some positions."""
        distances = None if self.distances is None else self.distances[positions]
        return Pairs(self.rows[positions], self.columns[positions], self.values[positions], distances)


class Near(Protocol):
    """One or two sets of examples, prepared for search."""

    def pairs(self, rows: slice, columns: slice, bound: Bound) -> Pairs:
        """Similar pairs of a block of rows and a block of columns; within a set each pair once."""


class Nearest:
    """Search for similar pairs by a kernel."""

    #: Normalised kernel value from which two examples count as near-duplicates. 3,000 documents of R8 have 23
    #: exact copies; kernels of texts report 29 to 101 pairs at 0.98, nearly all identical. At 0.95 a kernel
    #: that counts single characters reports 22,030 pairs of different documents.
    alike: float = 0.98
    has_distances: ClassVar[bool] = False  #: Whether pairs have distances, whole numbers, that can be bounded

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel

    def prepare(self, documents: Documents, others: Documents | None, device: Device) -> Near:
        """Prepare to search pairs of `others` (rows) and `documents` (columns), or among `documents`."""
        return NearByValues(self.kernel, documents, others, device)


class NearByValues:
    """Search by computing all values of a block with a fitted kernel (`Near`).

    `documents` are the columns, `others` the rows; without `others` the pairs are among `documents`.
    """

    def __init__(self, kernel: Any, documents: Documents, others: Documents | None, device: Device) -> None:
        self.kernel, self.documents, self.device = kernel, documents, device
        self.others = documents if others is None else others
        self.own = others is None
        self._columns: dict[int, tuple[KernelRows, Array]] = {}  # rows of kernel values and their scale
        self._row_scales: dict[int, Array] = {}

    def pairs(self, rows: slice, columns: slice, bound: Bound) -> Pairs:
        xp = array_module(self.device)
        with use(self.device):
            kernel_rows, scale = self._prepare_columns(columns)
            same = self.own and rows == columns
            values = kernel_rows.gram() if same else kernel_rows.cross(_block(self.others, rows))
            values = values * self._scale(rows)[:, None]
            values *= scale
            near = values >= xp.minimum(xp.asarray(bound.rows)[:, None], xp.asarray(bound.columns))
            at, column = xp.triu(near, 1).nonzero() if same else near.nonzero()
            return Pairs(
                to_host(at).astype(np.int64) + rows.start,
                to_host(column).astype(np.int64) + columns.start,
                to_host(values[at, column]),
            )

    def _prepare_columns(self, block: slice) -> tuple[KernelRows, Array]:
        if block.start not in self._columns:
            self._columns[block.start] = self._prepare(self.documents, block)
        return self._columns[block.start]

    def _scale(self, block: slice) -> Array:
        """Scale of the rows of a block."""
        if self.own:
            return self._prepare_columns(block)[1]
        if block.start not in self._row_scales:
            self._row_scales[block.start] = self._prepare(self.others, block)[1]
        return self._row_scales[block.start]

    def _prepare(self, documents: Documents, block: slice) -> tuple[KernelRows, Array]:
        rows = self.kernel.rows(_block(documents, block), self.device)
        return rows, scale_of(rows.diag(), self.device)


def scale_of(diag: Array, device: Device) -> Array:
    """1 / sqrt(K(s, s)), or 0 if K(s, s) <= 0, float32, on the device of `diag`."""
    xp = array_module(device)
    return xp.where(diag > 0, 1 / xp.sqrt(xp.where(diag > 0, diag, 1)), 0).astype(xp.float32)


def _block(documents: Documents, block: slice) -> Documents:
    return documents.take(np.arange(block.start, block.stop))
