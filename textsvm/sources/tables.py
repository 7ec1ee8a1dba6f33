"""The columns of a table that a user hands over, each read as texts or as numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, time, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from textsvm.errors import InputError
from textsvm.features.table import Numbers
from textsvm.sources.texts import as_texts, is_missing, listed

#: What is no number though NumPy can make one of it.
TIMES = (date, time, timedelta, np.datetime64, np.timedelta64)
#: Numbers that are taken.
LARGEST = 1e100
#: Names of columns that a message lists.
LISTED = 12


class Columns:
    """A table, whose columns are read when they are asked for, and then kept.

    Parameters
    ----------
    table : pandas or Polars DataFrame, Arrow table, dict of columns, or list of dicts

    Raises
    ------
    InputError
        If it is none of them.
    """

    def __init__(self, table: Any) -> None:
        self._table = table
        if isinstance(table, Mapping):
            self.names = list(table)
            self._n = _length(self.names[0], table[self.names[0]]) if self.names else 0
        elif isinstance(table, list | tuple) and all(isinstance(row, Mapping) for row in table):
            self.names, self._n = list(dict.fromkeys(name for row in table for name in row)), len(table)
        elif hasattr(table, "__len__") and hasattr(table, "columns"):
            self.names, self._n = list(getattr(table, "column_names", table.columns)), len(table)
        else:
            raise InputError(
                "kernels on columns read a table: a pandas or Polars DataFrame, an Arrow table, a dict of "
                f"columns or a list of dicts; this is {type(table).__name__}"
            )
        self._texts: dict[str, list[str]] = {}
        self._numbers: dict[str, Any] = {}

    @classmethod
    def of(cls, table: Any) -> Columns:
        """Those of a table, or themselves."""
        return table if isinstance(table, Columns) else cls(table)

    def __len__(self) -> int:
        return self._n

    def texts(self, name: str) -> list[str]:
        """A column of texts.

        Raises
        ------
        InputError
            If there is no such column, or one of its cells is no text.
        """
        if name not in self._texts:
            try:
                self._texts[name] = as_texts(self._column(name))
            except InputError as error:
                raise InputError(f"column {name!r}: {error}") from error
        return self._texts[name]

    def numbers(self, names: Sequence[str]) -> Numbers:
        """Columns of numbers, side by side.

        Raises
        ------
        InputError
            If there is no such column, or one of its cells is no finite number and no vector of the column's
            length.
        """
        for name in names:
            if name not in self._numbers:
                self._numbers[name] = as_numbers(name, self._column(name))
        parts = [self._numbers[name] for name in names]
        widths = tuple(int(part.shape[1]) for part in parts)
        if len(parts) == 1:
            return Numbers(parts[0], widths)
        for name, values in zip(names, parts, strict=True):
            if issparse(values):
                raise InputError(
                    f"column {name!r} holds compressed rows, which are compared alone; give it an On of its "
                    "own"
                )
        return Numbers(np.hstack(parts), widths)

    def _column(self, name: str) -> Any:
        if not self._n and isinstance(self._table, list | tuple):
            return []
        if name not in self.names:
            some = ", ".join(map(str, self.names[:LISTED])) + ", ..." * (len(self.names) > LISTED)
            raise InputError(f"the table has no column {name!r}; it has {some or 'none'}")
        if self.names.count(name) > 1:
            raise InputError(f"the table has {self.names.count(name)} columns {name!r}; rename one")
        if isinstance(self._table, list | tuple):
            return [row.get(name) for row in self._table]
        column = self._table[name]
        if _length(name, column) != self._n:
            raise InputError(f"column {name!r} has {_length(name, column):,} rows and the table {self._n:,}")
        return column


def as_numbers(name: str, column: Any) -> Any:
    """A column of numbers or of vectors as rows, float64 or float32, shape (n, width); compressed ones stay.

    Raises
    ------
    InputError
        If one of its cells is no finite number, or no vector of the column's length.
    """
    if issparse(column):
        rows: Any = csr_array(column)
        if not rows.has_canonical_format:
            rows = rows.copy()
            rows.sum_duplicates()
        rows = rows if rows.dtype in (np.float32, np.float64) else rows.astype(np.float64)
        if not _usable(rows.data).all():
            at = int(_usable(rows.data).argmin())
            raise _not_finite(name, int(np.searchsorted(rows.indptr, at, side="right")) - 1, rows.data[at])
        return rows
    values = _dense(name, column)
    if values.dtype != np.float32 or values.ndim == 1:
        values = values.astype(np.float64)
    if values.ndim > 2 or 0 in values.shape[1:]:
        raise InputError(
            f"the cells of column {name!r} have the shape {values.shape[1:]}; give numbers or vectors"
        )
    values = values[:, None] if values.ndim == 1 else values
    if not _usable(values).all():
        row, at = np.argwhere(~_usable(values))[0].tolist()
        raise _not_finite(name, row, values[row, at])
    return values


def _dense(name: str, column: Any) -> NDArray[Any]:
    """Real numbers, of one or two dimensions."""
    try:
        values = np.asarray(column)
    except (TypeError, ValueError):
        values = np.empty(0, object)
    if values.dtype.kind in "biuf":
        return values
    cells = listed(column)
    if not set(map(type, cells)) & {str, bytes}:
        try:
            values = np.asarray(cells, np.float64)
        except (TypeError, ValueError):
            pass
        else:
            if not any(isinstance(cell, TIMES) for cell in cells):
                return values
    raise _no_numbers(name, cells)


def _no_numbers(name: str, cells: Sequence[Any]) -> InputError:
    """What is wrong with the first cell that is no number, or no vector like the first one."""
    width = None
    for row, cell in enumerate(cells):
        of_cell = len(cell) if isinstance(cell, list | tuple | np.ndarray) else 0
        width = of_cell if width is None else width
        trouble = _trouble(cell)
        if not trouble and of_cell != width:
            kinds = [f"a vector of {size} numbers" if size else "a number" for size in (of_cell, width)]
            trouble = f"is {kinds[0]} where row 0 is {kinds[1]}"
        if trouble:
            return InputError(f"row {row} of column {name!r} {trouble}")
    return InputError(f"column {name!r} does not hold numbers; convert it")


def _trouble(cell: Any) -> str:
    """Why a cell is neither a number nor a vector of numbers."""
    if isinstance(cell, str | bytes):
        return f"is {cell[:40]!r}, a text where a number is expected; convert it, or take a kernel of texts"
    if is_missing(cell):
        return "is missing; fill it or remove the row"
    if isinstance(cell, TIMES):
        return (
            "is a date or a time, which can be compared in many ways; make numbers of the column, such as "
            "the hour, the weekday or the days since a start"
        )
    try:
        np.asarray(cell, np.float64)
    except (TypeError, ValueError):
        return f"is of type {type(cell).__name__}, where a number or a vector of numbers is expected"
    return ""


def _usable(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Which values are finite, and can be squared."""
    return np.abs(values) <= LARGEST


def _not_finite(name: str, row: int, value: float) -> InputError:
    instead = "fill it" if np.isnan(value) else f"give a number of at most {LARGEST:g},"
    found = "missing" if np.isnan(value) else f"{value:g}"
    return InputError(f"row {row} of column {name!r} is {found}; {instead} or remove the row")


def _length(name: str, column: Any) -> int:
    try:
        return int(column.shape[0]) if hasattr(column, "shape") else len(column)
    except (TypeError, IndexError) as error:
        raise InputError(f"column {name!r} is {type(column).__name__}, not a column of values") from error
