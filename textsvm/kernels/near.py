"""Pairs of examples that are alike: what `Kernel.near` gives, and the way that every kernel has.

    K(s, t) / sqrt(K(s, s) K(t, t))  >=  a bound, of the row or of the column

A block of rows is compared with a block of columns at a time. Any kernel makes all values of the block and
keeps those that are large enough; one that knows bounds on its values, such as the edit distance, makes few.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from textsvm.runtime.device import Device, array_module, to_host, use
from textsvm.text.documents import Documents


@dataclass(frozen=True)
class Bound:
    """From which value on a pair is wanted.

    Attributes
    ----------
    rows, columns : float32 arrays, shapes (m,) and (n,)
        A pair is wanted if its value is at least one of its two.
    within : int, optional
        And its distance at most this.
    """

    rows: NDArray[np.float32]
    columns: NDArray[np.float32]
    within: int | None = None


@dataclass(frozen=True)
class Pairs:
    """Pairs that are wanted, in no order.

    Attributes
    ----------
    rows, columns : int64 arrays, shape (m,)
        Numbers among all rows and all columns; of one set, rows < columns.
    values : float32 array, shape (m,)
        Normalised kernel values.
    distances : int32 array, shape (m,), optional
        Of a kernel that has distances.
    """

    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    values: NDArray[np.float32]
    distances: NDArray[np.int32] | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, some: Any) -> Pairs:
        """Some of them."""
        distances = None if self.distances is None else self.distances[some]
        return Pairs(self.rows[some], self.columns[some], self.values[some], distances)


class Near(Protocol):
    """Two sets of examples, or one, prepared to be asked for pairs."""

    def pairs(self, rows: slice, columns: slice, bound: Bound) -> Pairs:
        """Those wanted of a block of rows and a block of columns; of one set, equal blocks give each once."""


class HasRows(Protocol):
    """What is asked of a kernel here."""

    def rows(self, documents: Documents, device: Device) -> Any:
        """See `Kernel`."""


class NearByValues:
    """All values of a block, of which those that are wanted are kept (`Near`).

    Parameters
    ----------
    kernel : Kernel
        Fitted.
    documents : Documents
        The columns, or the one set.
    others : Documents, optional
        The rows.
    device : Device
    """

    def __init__(
        self, kernel: HasRows, documents: Documents, others: Documents | None, device: Device
    ) -> None:
        self.kernel, self.documents, self.device = kernel, documents, device
        self.others = documents if others is None else others
        self.own = others is None
        self._made: dict[tuple[bool, int], Any] = {}

    def pairs(self, rows: slice, columns: slice, bound: Bound) -> Pairs:
        """See `Near`."""
        xp = array_module(self.device)
        with use(self.device):
            prepared = self._columns(columns)
            same = self.own and rows == columns
            values = prepared.rows_.gram() if same else prepared.rows_.cross(_block(self.others, rows))
            values = values * self._scale(rows)[:, None]
            values *= prepared.scale
            wanted = values >= xp.minimum(xp.asarray(bound.rows)[:, None], xp.asarray(bound.columns))
            at, column = xp.triu(wanted, 1).nonzero() if same else wanted.nonzero()
            found = to_host(values[at, column])
            return Pairs(
                to_host(at).astype(np.int64) + rows.start,
                to_host(column).astype(np.int64) + columns.start,
                found,
            )

    def _columns(self, block: slice) -> _Prepared:
        if (True, block.start) not in self._made:
            self._made[True, block.start] = self._prepared(self.documents, block)
        prepared: _Prepared = self._made[True, block.start]
        return prepared

    def _scale(self, block: slice) -> Any:
        """Of the rows of a block; of one set they are columns of another."""
        if self.own:
            return self._columns(block).scale
        if (False, block.start) not in self._made:
            self._made[False, block.start] = self._prepared(self.others, block).scale
        return self._made[False, block.start]

    def _prepared(self, documents: Documents, block: slice) -> _Prepared:
        rows = self.kernel.rows(_block(documents, block), self.device)
        return _Prepared(rows, scale_of(rows.diag(), self.device))


@dataclass(frozen=True)
class _Prepared:
    """Columns of a block, and what their values are multiplied by."""

    rows_: Any
    scale: Any


def scale_of(diag: Any, device: Device) -> Any:
    """1 / sqrt(K(s, s)), 0 where that is not above 0, float32, where `diag` lives."""
    xp = array_module(device)
    return xp.where(diag > 0, 1 / xp.sqrt(xp.where(diag > 0, diag, 1)), 0).astype(xp.float32)


def _block(documents: Documents, block: slice) -> Documents:
    return documents.take(np.arange(block.start, block.stop))
