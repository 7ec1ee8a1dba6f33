"""Texts, vectors and tables as a user passes them -> examples that kernels read.

A table is a pandas or Polars DataFrame, an Arrow table, a dict of columns or a list of dicts. A column of
texts may come in any of these forms, too, or as a list or NumPy array. Errors name the first bad row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, time, timedelta
from functools import cached_property
from typing import Any, cast

import numpy as np

from textsvm.arrays import AnyArray, Array, Ints
from textsvm.errors import InputError, first_few
from textsvm.kernels.combined.table import EncodedTexts, Numbers, Table
from textsvm.linalg.vectors import NUMBERS, Vectors, is_sparse
from textsvm.runtime import device as devices
from textsvm.runtime.compiled import scipy, use_numba
from textsvm.runtime.parallel import Progress, part
from textsvm.text.documents import Documents, MultiView, View, encode, encode_as, without_case
from textsvm.text.encoding import Reading
from textsvm.text.normal_form import normal_form
from textsvm.text.stored import StoredTexts

#: Remedy for an array in which columns have lost their names.
NAMED_COLUMNS = (
    "give a data frame, whose columns have names (of a ColumnTransformer with set_output(transform='pandas'))"
)


@dataclass(frozen=True)
class TextForm:
    """Normal form of texts; see `textsvm.SVC`."""

    normalise: str = "unicode"
    punctuation: bool = True
    max_length: int | None = None


def as_texts(X: Any) -> list[str]:
    """Read texts from a list, tuple, NumPy string or object array, or a pandas, Polars or Arrow column.

    A table of a single column and an array of shape (n, 1) are accepted, too: scikit-learn's ensembles pass
    texts so. The texts of an iterator are kept in a temporary file.
    """
    if isinstance(X, str | bytes):
        raise InputError("expected a list of texts, got a single string; put it in a list: [text]")
    X = _only_column(X)
    if is_table(X):
        raise InputError(
            "expected one column of texts, got a table; select a column, or give a kernel "
            "On(column, kernel) for each column"
        )
    if isinstance(X, StoredTexts | Iterator):
        return cast("list[str]", X if isinstance(X, StoredTexts) else StoredTexts.of(_checked(X)))
    if len(getattr(X, "shape", (0,))) > 1:
        remedy = "take a kernel of vectors, such as Gaussian(), for rows of numbers"
        if isinstance(X, np.ndarray) and X.dtype.kind in "OTU":
            remedy = NAMED_COLUMNS
        raise InputError(
            f"expected one column of texts, got an array of shape {tuple(X.shape)}; select a column, or "
            + remedy
        )
    try:
        texts = listed(X)
    except TypeError as error:
        raise InputError(f"expected a list of texts, got {type(X).__name__}") from error
    if not isinstance(texts, list):
        raise InputError(f"expected a list of texts, got {type(X).__name__} of one value; put it in a list")
    return list(_checked(texts)) if set(map(type, texts)) - {str} else texts


def is_table(X: object) -> bool:
    """Whether examples are a table: a data frame, a dict of columns, or a list of dicts."""
    of_rows = isinstance(X, list | tuple) and len(X) > 0 and isinstance(X[0], Mapping)
    of_columns = isinstance(X, Mapping) and not type(X).__module__.startswith("scipy.")  # dok_array is a dict
    return of_columns or isinstance(X, InputTable) or hasattr(X, "columns") or of_rows


def table_of_texts(X: object) -> InputTable | None:
    """A table with a column of texts; None for other examples, and for a single column (`as_texts`)."""
    table = InputTable.of(X) if is_table(X) else None
    if table is None or not table.text_names:
        return None
    return table if isinstance(X, Mapping | list | tuple | InputTable) or len(table.names) > 1 else None


def _only_column(X: Any) -> Any:
    """The only column of a table or of an array of strings; anything else unchanged."""
    if hasattr(X, "columns") and len(names := InputTable.of(X).names) == 1:
        return X[names[0]]
    of_strings = isinstance(X, np.ndarray) and X.dtype.kind in "OTU"
    return X[:, 0] if of_strings and X.ndim == 2 and X.shape[1] == 1 else X


def listed(column: Any) -> Any:
    """The values of a column as Python objects, in a list; TypeError if this is impossible."""
    for convert in ("to_pylist", "to_list", "tolist"):  # Arrow; pandas and Polars; NumPy
        if hasattr(column, convert):
            return getattr(column, convert)()
    return np.asarray(column).tolist() if hasattr(column, "__array__") else list(column)


def _checked(texts: Iterable[Any]) -> Iterator[str]:
    """Texts of an iterator; InputError at a value that is not a string."""
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise _no_text(i, text)
        yield text


def _no_text(i: int, value: object) -> InputError:
    if is_missing(value):
        return InputError(
            f"document {i} is missing, not a string; drop such rows, or fill them with fillna('')"
        )
    if isinstance(value, list | tuple | np.ndarray):
        instead = "join tokens by ' '.join(tokens); take a kernel of vectors, such as Gaussian(), for numbers"
    elif isinstance(value, bytes):
        instead = "decode it with .decode()"
    else:
        instead = "remove it or convert it with str()"
    return InputError(f"document {i} is of type {type(value).__name__}, not a string; {instead}")


def is_missing(value: object) -> bool:
    """Whether a value is None, NaN, or pandas' NA or NaT."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or bool(np.any(value != value))


#: Types that NumPy converts to numbers, but that are not accepted as such.
TIMES = (date, time, timedelta, np.datetime64, np.timedelta64)
LARGEST = 1e100  #: Greatest absolute value of a number.
LISTED = 12  #: Number of columns that a message lists.
TYPES = (np.float64, np.float32)  #: Number types of vectors; others are converted to the first.
_TEXTS = tuple("OUST")  #: Kinds of NumPy types that texts may have.
_BLOCK = 1 << 20  #: Numbers of vectors that are checked together.


class InputTable:
    """A user's table; a column is read when it is first needed, and then kept.

    Raises InputError if the table is of none of the types listed at the top of this file.
    """

    def __init__(self, table: Any) -> None:
        if type(table).__name__ == "Corpus":
            raise InputError("X is a Corpus; give corpus.texts, or corpus.columns, and corpus.labels as y")
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
                + f"; {NAMED_COLUMNS}"
                * isinstance(table, np.ndarray)
            )
        self._texts: dict[str, list[str]] = {}
        self._numbers: dict[str, Any] = {}

    @classmethod
    def of(cls, table: object) -> InputTable:
        """The table as `InputTable`."""
        return table if isinstance(table, InputTable) else cls(table)

    def __len__(self) -> int:
        return self._n

    @cached_property
    def text_names(self) -> tuple[str, ...]:
        """Names of the columns whose first cell is a text."""
        return tuple(name for name in self.names if self._n and isinstance(listed(self.column(name))[0], str))

    def take(self, rows: Ints) -> InputTable:
        return InputTable({name: _rows_of(self.column(name), rows) for name in self.names})

    def texts(self, name: str) -> list[str]:
        """A column of texts; InputError if it does not exist or a cell is not a text."""
        if name not in self._texts:
            try:
                self._texts[name] = as_texts(self.column(name))
            except InputError as error:
                raise InputError(f"column {name!r}: {error}") from error
        return self._texts[name]

    def joined(self, names: Sequence[str] = ()) -> list[str]:
        """The texts of columns, by default of all that hold texts, joined by line breaks."""
        texts = [self.texts(name) for name in names or self.text_names]
        return texts[0] if len(texts) == 1 else ["\n".join(row) for row in zip(*texts, strict=True)]

    def numbers(self, names: Sequence[str]) -> Numbers:
        """Columns of numbers, side by side."""
        for name in names:
            if name not in self._numbers:
                self._numbers[name] = as_numbers(name, self.column(name))
        parts = [self._numbers[name] for name in names]
        widths = tuple(int(part.shape[1]) for part in parts)
        if len(parts) == 1:
            return Numbers(parts[0], widths)
        for name, values in zip(names, parts, strict=True):
            if is_sparse(values):
                raise InputError(
                    f"column {name!r} holds compressed rows, which are compared alone; give it an On of its "
                    "own"
                )
        return Numbers(np.hstack(parts), widths)

    def column(self, name: str) -> Any:
        """A column as it is; InputError unless the table has one of this name."""
        if not self._n and isinstance(self._table, list | tuple):
            return []
        if name not in self.names:
            listing = first_few(self.names, LISTED) or "none"
            cure = "; name its columns: X.columns = X.columns.astype(str)" * (name in map(str, self.names))
            raise InputError(f"the table has no column {name!r}; it has {listing}{cure}")
        if self.names.count(name) > 1:
            raise InputError(f"the table has {self.names.count(name)} columns {name!r}; rename one")
        if isinstance(self._table, list | tuple):
            return [row.get(name) for row in self._table]
        column = self._table[name]
        if _length(name, column) != self._n:
            raise InputError(f"column {name!r} has {_length(name, column):,} rows and the table {self._n:,}")
        return column


def _rows_of(column: Any, rows: Ints) -> Any:
    if isinstance(column, np.ndarray) or is_sparse(column):
        return column[rows]
    cells = listed(column)
    return [cells[row] for row in rows.tolist()]


def as_numbers(name: str, column: object) -> Any:
    """A column of numbers or of vectors as rows, float64 or float32, shape (n, width); sparse rows stay."""
    if is_sparse(column):
        values = _canonical(scipy.sparse.csr_array(column))
        values = values if values.dtype in TYPES else values.astype(np.float64)
    else:
        values = _dense(name, column)
        if values.dtype != np.float32 or values.ndim == 1:
            values = values.astype(np.float64)
        if values.ndim > 2 or 0 in values.shape[1:]:
            raise InputError(
                f"the cells of column {name!r} have the shape {values.shape[1:]}; give numbers or vectors"
            )
        values = values[:, None] if values.ndim == 1 else values
    stored = values.data if is_sparse(values) else values.reshape(-1)
    usable = np.abs(stored) <= LARGEST  # finite, and can be squared
    if not usable.all():
        at = int(usable.argmin())
        raise _not_finite(name, _place(values, at)[0], stored[at])
    return values


def _dense(name: str, column: object) -> AnyArray:
    """A column as an array of real numbers; InputError at a text, a date or another value."""
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


def _no_numbers(name: str, cells: Sequence[object]) -> InputError:
    """The error for the first cell that is neither a number nor a vector of the length of row 0."""
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


def _trouble(cell: object) -> str:
    """The reason why a cell is neither a number nor a vector of numbers, or ""."""
    if isinstance(cell, str | bytes):
        remedy = "convert it, leave the column out, or take a kernel of texts, as On(column, kernel)"
        return f"is {cell[:40]!r}, a text where a number is expected; {remedy}"
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


def _not_finite(name: str, row: int, value: float) -> InputError:
    instead = "fill it" if np.isnan(value) else f"give a number of at most {LARGEST:g},"
    content = "missing" if np.isnan(value) else f"{value:g}"
    return InputError(f"row {row} of column {name!r} is {content}; {instead} or remove the row")


def _length(name: str, column: Any) -> int:
    try:
        return int(column.shape[0]) if hasattr(column, "shape") else len(column)
    except (TypeError, IndexError) as error:
        raise InputError(f"column {name!r} is {type(column).__name__}, not a column of values") from error


def read_view(table: InputTable, view: View) -> Any:
    """The numbers or texts of a view."""
    return table.numbers(view.columns) if view.of_numbers else table.joined(view.columns)


def _numbers_of(table: InputTable, view: View, base: Any) -> Numbers:
    """Numbers of a view; each column must have the width of the known examples."""
    numbers: Numbers = read_view(table, view)
    before = numbers if base is None else base.of(view)
    if not len(numbers):  # the length of vectors is unknown
        return before.take(np.empty(0, np.int64))
    for name, width, known_width in zip(view.columns, numbers.widths, before.widths, strict=True):
        if width != known_width:
            raise InputError(
                f"column {name!r} has {width} numbers in a row, and the model was trained on {known_width}"
            )
    return numbers


def encode_texts(
    texts: list[str], views: Sequence[View], base: Documents | MultiView | None = None,
    form: TextForm = TextForm(), progress: Progress | None = None,
) -> dict[View, Any]:  # fmt: skip
    """Normalise and encode texts in views without columns; the alphabets of `base` are extended."""
    if base is None:  # symbols and entries of the default kernel on short texts
        use_numba(480 * sum(map(len, texts)))
    # With case first: ASCII texts without case follow from these.
    cases = sorted({view.keep_case for view in views}, reverse=True)
    n = len(texts)
    steps = len(cases) + any(view.encoder is not None for view in views)
    characters: dict[bool, Documents] = {}
    for number, case in enumerate(cases):
        plain = View(keep_case=case)
        alphabet = None if base is None or plain not in views else base.of(plain).alphabet
        if characters and form.normalise != "none" and all(map(str.isascii, texts)):
            characters[case] = without_case(characters[True], alphabet)
            if progress is not None:
                progress((number + 1) * n, steps * n)
            continue
        reading = Reading(normal_form(form.normalise, form.punctuation, case), form.max_length)
        step = part(progress, number * n, n, steps * n)
        characters[case] = encode(texts, alphabet, reading, step)
    encoded: dict[View, Any] = {}
    for view in views:
        earlier, own = None if base is None else base.of(view), characters[view.keep_case]
        if view.encoder is None:
            encoded[view] = encode_as(own, view.tokens, earlier)
        else:
            step = part(progress, (steps - 1) * n, n, steps * n)
            encoded[view] = EncodedTexts.of_texts(own, view.encoder, step)
    return encoded


def encode_table(
    table: InputTable, views: Sequence[View], base: Any = None, form: TextForm = TextForm(),
    progress: Progress | None = None,
) -> dict[View, Any]:  # fmt: skip
    """Encode columns of a table: texts as in `encode_texts`, other columns as numbers."""
    examples = {view: _numbers_of(table, view, base) for view in views if view.of_numbers}
    columns = dict.fromkeys(view.columns for view in views if not view.of_numbers)
    for number, names in enumerate(columns):
        of_column = [view for view in views if view.columns == names and not view.of_numbers]
        plain = {view: replace(view, column=None) for view in of_column}
        before = None if base is None else MultiView({plain[view]: base.of(view) for view in of_column})
        step = part(progress, number, 1, len(columns))
        encoded = encode_texts(table.joined(names), tuple(plain.values()), before, form, step)
        examples |= {view: encoded[plain[view]] for view in of_column}
    return {view: examples[view] for view in views}


def encode_inputs(X: object, views: Sequence[View], base: Any = None) -> Any:
    """Encode texts, vectors or a table, as `textsvm.SVC.fit` takes them, in the default normal form.

    `views` are the views of the kernel, and `base` the examples for comparison.
    """
    if any(view.column is not None for view in views):
        table = encode_table(InputTable.of(X), views, base)
        return Table(table) if len(table) > 1 else table[views[0]]
    if views == (NUMBERS,):
        vectors = as_vectors(X)
        if base is not None and vectors.n_features != base.n_features:
            raise InputError(f"vectors have {vectors.n_features} numbers, and the others {base.n_features}")
        return vectors
    texts = encode_texts(as_texts(X), views, base)
    return MultiView(texts) if len(texts) > 1 else texts[views[0]]


def as_vectors(X: Any) -> Vectors:
    """Read vectors from an array, a sparse matrix, a data frame or a list of rows."""
    if devices.is_on_gpu(X):
        return Vectors(_check_on_gpu(X))
    require_numbers(X)
    values = as_rows(X, vectors=True)
    if is_sparse(values):
        values = _canonical(values)
    _check_finite(values, getattr(X, "columns", None))
    return Vectors(values)


def require_numbers(X: Any) -> None:
    """Raise InputError if X is visibly not rows of numbers, without a look at every value."""
    if _kind(X) == "c":
        raise InputError("Complex data not supported: X is of complex numbers; give their parts as columns")
    first = X[0] if isinstance(X, list | tuple | StoredTexts) and len(X) else None
    of_texts = _kind(X) in _TEXTS and len(X.shape) == 1 and len(X) > 0 and isinstance(next(iter(X)), str)
    if isinstance(X, str) or isinstance(first, str) or of_texts:
        raise InputError(
            "X is of texts, and the kernel compares vectors; take one of texts, such as Spectrum(4), or give "
            "numbers"
        )
    if not is_sparse(X) and isinstance(X, Iterator | dict):
        raise InputError(f"X is a {type(X).__name__}; give rows of numbers, such as an array or a data frame")
    if len(getattr(X, "shape", (0, 0))) == 1 or isinstance(first, int | float | np.number):
        raise InputError(
            "X is one row of numbers (Expected 2D array, got 1D array instead); Reshape your data: "
            "X.reshape(1, -1) is one vector, X.reshape(-1, 1) vectors of one number"
        )
    for name in InputTable(X).names if hasattr(X, "columns") else ():
        _dense(name, X[name])


def _kind(array: object) -> str:
    """Kind of the NumPy type of an array; "" without a NumPy type."""
    return str(getattr(getattr(array, "dtype", None), "kind", ""))


def as_rows(X: Any, vectors: bool = False) -> Array:
    """Rows of numbers as an array; sparse vectors as CSR. InputError for other data."""
    if vectors and is_sparse(X):
        values = X.tocsr()
    else:
        try:
            values = np.asarray(X)
            values = values.astype(np.float64) if values.dtype.kind not in "biuf" else values
        except (TypeError, ValueError) as error:
            raise InputError(f"X is not rows of numbers: {error}") from error
    if values.ndim != 2:
        raise InputError(
            f"Expected 2D array, got {values.ndim}D array instead. Reshape your data: X has the shape "
            f"{values.shape}, and rows of numbers are needed"
        )
    if 0 in values.shape:
        raise InputError(f"X has the shape {values.shape}; rows of numbers are needed")
    if vectors and values.dtype not in TYPES:
        values = values.astype(np.float64)
    return np.ascontiguousarray(values) if vectors and isinstance(values, np.ndarray) else values


def _check_finite(values: Any, names: Any = None) -> None:
    """Raise InputError with the row and column if a value of an array or CSR matrix is NaN or infinite."""
    stored = values.data if is_sparse(values) else values.reshape(-1)
    for first in range(0, len(stored), _BLOCK):
        finite = np.isfinite(stored[first : first + _BLOCK])
        if not finite.all():
            at = first + int(finite.argmin())
            row, column = _place(values, at)
            called = "" if names is None else f" ({names[column]})"
            value = "NaN" if np.isnan(stored[at]) else "infinity"
            raise InputError(
                f"X has {value} in row {row}, column {column}{called}, counted from 0; vectors are of finite "
                "numbers: fill or remove it"
            )


def _place(values: Any, at: int) -> tuple[int, int]:
    if not is_sparse(values):
        return divmod(at, values.shape[1])
    return int(np.searchsorted(values.indptr, at, side="right")) - 1, int(values.indices[at])


def _canonical(values: Any) -> Any:
    """CSR matrix with sorted, unique indices; a copy if the matrix of the user has others."""
    try:
        values.check_format(full_check=True)
    except ValueError as error:
        raise InputError(f"X is a sparse matrix that is damaged: {error}; make it anew") from error
    if not values.has_canonical_format:
        values = values.copy()
        values.sum_duplicates()
    return values


def _check_on_gpu(X: Array) -> Array:
    """Check a matrix on a GPU, without a copy to the host."""
    xp = devices.array_module(devices.device_of(X))
    if X.ndim != 2 or X.dtype.kind not in "fiub" or not X.size:
        raise InputError(f"X on a GPU has shape {X.shape} and type {X.dtype}; give rows of real numbers")
    values = xp.ascontiguousarray(X, dtype=X.dtype if X.dtype in TYPES else np.float64)
    if not bool(xp.isfinite(values).all()):
        _check_finite(devices.to_host(values))
    return values
