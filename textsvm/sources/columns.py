"""Rows of a table, compared by kernels on its columns (`kernels.combined.on`): texts and numbers together.

The columns of a table that a user hands over, each read as texts or as numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, time, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from textsvm.errors import InputError
from textsvm.kernels.combined.rows import under
from textsvm.kernels.combined.table import Numbers, Table
from textsvm.runtime.parallel import StageProgress
from textsvm.sources.base import Kept, Source
from textsvm.sources.texts import TextSource, as_texts, is_missing, listed
from textsvm.sources.vectors import pack, unpack
from textsvm.text.documents import View, Views

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


class ColumnSource(TextSource):
    """A table whose columns of texts become documents as texts do, and whose other columns are numbers.

    Examples are a `Table`, or what one kernel reads of it where there is one view alone. Columns that no
    kernel is on are ignored.
    """

    def read(self, X: Any, machine: Any, fitting: bool = True) -> Any:
        """See `Source`: `Columns`, those that the kernel reads having been looked at."""
        columns = Columns.of(X)
        for view in self.make_kernel().views:
            _read(columns, view)
        return columns

    def prepare(self, given: Any, known: Any = None, progress: StageProgress | None = None) -> Any:
        """See `Source`."""
        return self._table(Columns.of(given), self.make_kernel().views, known, progress)

    def prepare_for(
        self, sources: Sequence[Source], given: Any, progress: StageProgress | None = None
    ) -> Any:
        """See `Source`."""
        kernels = [source.make_kernel() for source in sources if isinstance(source, ColumnSource)]
        views = tuple(dict.fromkeys(view for kernel in kernels for view in kernel.views))
        return self._table(Columns.of(given), views, None, progress)

    def _table(
        self, given: Columns, views: Sequence[View], known: Any, progress: StageProgress | None
    ) -> Any:
        columns = dict.fromkeys(view.column for view in views)
        found: dict[View, Any] = {}
        for number, column in enumerate(columns):
            of_column = [view for view in views if view.column == column]
            if isinstance(column, tuple):
                found[of_column[0]] = _numbers(given, of_column[0], known)
            else:
                step = _of_column(progress, number, len(columns))
                found |= self._documents(given.texts(str(column)), of_column, known, step)
        return self._together({view: found[view] for view in views})

    def _documents(
        self, texts: list[str], views: Sequence[View], known: Any, progress: StageProgress | None
    ) -> dict[View, Any]:
        """The texts of one column in its views."""
        plain = {view: replace(view, column=None) for view in views}
        before = None if known is None else Views({plain[view]: known.of(view) for view in views})
        found = self._encoded(texts, tuple(plain.values()), before, progress)
        return {view: found.of(plain[view]) for view in views}

    def _together(self, views: dict[View, Any]) -> Any:
        return Table(views) if len(views) > 1 else next(iter(views.values()))

    def _pack(self, documents: Any) -> dict[str, NDArray[Any]]:
        if not isinstance(documents, Numbers):
            return super()._pack(documents)
        return pack(documents) | {"widths": np.array(documents.widths, np.int64)}

    def _unpack(self, arrays: dict[str, NDArray[Any]], prefix: str, view: View, n: int) -> Any:
        if not isinstance(view.column, tuple):
            return super()._unpack(arrays, prefix, view, n)
        arrays = under(prefix, arrays)
        widths = arrays["widths"]
        if widths.dtype != np.int64 or widths.shape != (len(view.column),) or (widths < 1).any():
            raise InputError("it does not say how many numbers each of its columns has")
        return Numbers(unpack(arrays, (n, int(widths.sum()))).values, tuple(widths.tolist()))

    def restore(
        self, n_features: int | None, support: NDArray[np.int64], arrays: dict[str, NDArray[Any]]
    ) -> Kept:
        """See `Source`."""
        kept = super().restore(n_features, support, arrays)
        kernel: Any = kept.kernel
        for leaf in kernel.leaves:
            if leaf.of_numbers and len(leaf.standard_.mean) != leaf.read(kept.documents).n_features:
                raise InputError("what it learnt of numbers does not fit its support vectors")
        return kept


def _read(columns: Columns, view: View) -> Any:
    return columns.numbers(view.column) if isinstance(view.column, tuple) else columns.texts(str(view.column))


def _numbers(given: Columns, view: View, known: Any) -> Numbers:
    """Numbers of a view, as many in each column as are known."""
    found: Numbers = _read(given, view)
    before = found if known is None else known.of(view)
    if not len(found):  # nothing says how long vectors would be
        return before.take(np.empty(0, np.int64))
    for name, width, known_width in zip(view.column or (), found.widths, before.widths, strict=True):
        if width != known_width:
            raise InputError(
                f"column {name!r} has {width} numbers in a row, and the model was trained on {known_width}"
            )
    return found


def _of_column(progress: StageProgress | None, number: int, total: int) -> StageProgress | None:
    if progress is None:
        return None

    def step(stage: str, done: float, whole: float) -> None:
        progress(stage, number + done / (whole or 1), total)

    return step
