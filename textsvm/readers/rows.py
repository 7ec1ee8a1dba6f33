"""CSV, TSV, JSON Lines, Parquet -> rows with named columns. What the columns mean is decided in tables.py.

TSV is split on TAB only: a quote is a character like any other (a quote opened in an essay would
otherwise swallow the rows up to the next one). CSV follows RFC 4180; its delimiter is `,`, `;`, TAB or
`|`, whichever splits the first rows into the most fields.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from textsvm.errors import InputError
from textsvm.readers.charsets import decode
from textsvm.readers.decoded import Problems, lines_of
from textsvm.readers.opened import HEAD, LONGEST, File, require_modest

_DELIMITERS = ",;\t|"
#: Rows of Parquet that are read at once.
_ROWS = 1 << 12


@dataclass(frozen=True)
class Table:
    """Columns and rows of a file.

    Attributes
    ----------
    names : list of str
        Column names; "1", "2", ... where there is no header.
    headed : bool
    rows : iterable of (int, mapping)
        The line in the file (the record, for Parquet), and the fields by name.
    """

    names: list[str]
    headed: bool
    rows: Iterable[tuple[int, Mapping[str, Any]]]


def read_csv(file: File, usual: Collection[str], header: bool, problems: Problems) -> Table:
    """`header`: the first row is one. Else it is one if a cell is among the `usual` names."""
    rows = _csv_rows(file, _delimiter(file), problems)
    return _table(file, rows, usual, header, problems)


def read_tsv(file: File, usual: Collection[str], header: bool, problems: Problems) -> Table:
    """As `read_csv`."""
    lines = (line.removesuffix("\n") for line in lines_of(file, problems))
    rows = ((n, line.removesuffix("\r").split("\t")) for n, line in enumerate(lines, 1) if line.strip("\r"))
    return _table(file, rows, usual, header, problems)


def read_jsonl(file: File, usual: Collection[str], header: bool, problems: Problems) -> Table:
    """One JSON object a line; a line that is none is left out and named."""
    rows = _objects(file, problems)
    first = list(islice(rows, file.known_rows))
    if not first:
        _require_content(file)
        raise InputError(f"{file.name} holds no JSON object; JSON Lines has one on every line")
    return Table(list(dict.fromkeys(name for _, row in first for name in row)), True, chain(first, rows))


def _objects(file: File, problems: Problems) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(lines_of(file, problems), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if isinstance(row, dict):
            yield number, row
        else:
            problems.append((f"{file.name}, line {number}", "left out: it is not a JSON object"))


def read_parquet(file: File, usual: Collection[str], header: bool, problems: Problems) -> Table:
    """With PyArrow, which is not a dependency."""
    try:
        import pyarrow  # type: ignore[import-not-found, unused-ignore]
        from pyarrow import parquet
    except ImportError as error:
        raise InputError(f"{file.name} is Parquet, which needs PyArrow: pip install pyarrow") from error
    try:
        table = _modest_table(file, pyarrow, parquet)
        names = table.column_names
    except InputError:
        raise
    except (pyarrow.ArrowException, OSError, ValueError, TypeError, OverflowError, MemoryError) as error:
        raise InputError(f"{file.name} cannot be read as Parquet: {error}") from error
    columns = [_values(file, name, table.column(i)) for i, name in enumerate(names)]
    rows = (dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))
    return Table(names, True, enumerate(rows, 1))


def _modest_table(file: File, pyarrow: Any, parquet: Any) -> Any:
    """The table of a Parquet file, of which a page of a hundred bytes may be of millions of long values."""
    stored = parquet.ParquetFile(io.BytesIO(file.data))
    groups = [stored.metadata.row_group(i) for i in range(stored.metadata.num_row_groups)]
    require_modest(file.name, sum(max(0, group.total_byte_size) for group in groups), file.size)
    schema = stored.schema_arrow
    if len(set(schema.names)) < len(schema.names):
        raise InputError(f"{file.name} cannot be read as Parquet: two columns have one name")
    # A value that many rows have stays one until it is known how much all of them are.
    kinds = pyarrow.types
    texts = [each.name for each in schema if kinds.is_string(each.type) or kinds.is_binary(each.type)]
    stored = parquet.ParquetFile(io.BytesIO(file.data), read_dictionary=texts)
    batches, unpacked = [], 0
    for batch in stored.iter_batches(_ROWS):
        unpacked += sum(map(_bytes_of, batch.columns))
        require_modest(file.name, unpacked, file.size)
        batches.append(batch)
    return pyarrow.Table.from_batches(batches, stored.schema_arrow)


def _bytes_of(column: Any) -> int:
    """Bytes of the values of a column."""
    from pyarrow import compute

    if not hasattr(column, "dictionary"):
        return int(column.nbytes)
    lengths = compute.take(compute.binary_length(column.dictionary), column.indices)
    return 4 * len(column) + int(compute.sum(lengths).as_py() or 0)


def _values(file: File, name: str, column: Any) -> list[Any]:
    """The values of a column of Parquet."""
    try:
        values: list[Any] = column.to_pylist()
        return values
    except (ValueError, OverflowError, TypeError, LookupError, ImportError):
        return [_value(f"{file.name}, row {row}: {name!r}", each) for row, each in enumerate(column, 1)]


def _value(where: str, scalar: Any) -> Any:
    try:
        return scalar.as_py()
    except UnicodeDecodeError as error:
        raise InputError(f"{where} is called text and is not UTF-8; write it as text in UTF-8") from error
    except (ValueError, OverflowError, TypeError, LookupError, ImportError) as error:
        raise InputError(f"{where} is no value that can be read: {error}") from error


READERS = {"csv": read_csv, "tsv": read_tsv, "jsonl": read_jsonl, "parquet": read_parquet}


def _require_content(file: File) -> None:
    """Raise InputError if a file is blank, as far as its first bytes say."""
    if not decode(file.head)[0].strip():
        raise InputError(f"{file.name} is empty")


def _table(
    file: File,
    rows: Iterator[tuple[int, list[str]]],
    usual: Collection[str],
    header: bool,
    problems: Problems,
) -> Table:
    _require_content(file)
    start = next(rows)
    first = [cell.strip() for cell in start[1]]
    headed = header or any(cell.lower() in usual for cell in first)
    names = first if headed else [str(i + 1) for i in range(len(first))]
    taken = set[str]()
    for i, name in enumerate(names):  # a column without a name, or with one that is taken, goes by its number
        if not name or name in taken:
            names[i] = str(i + 1)
        taken.add(names[i])
    return Table(names, headed, _named(file, names, rows if headed else chain([start], rows), problems))


def _named(
    file: File, names: Sequence[str], rows: Iterable[tuple[int, list[str]]], problems: Problems
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for number, row in rows:
        if len(row) != len(names):
            problems.append((f"{file.name}, row {number}", f"it has {len(row)} fields and not {len(names)}"))
        yield number, dict(zip(names, row, strict=False))


class _Lines:
    """Lines, and whether a reader has asked for more than there are."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines, self.ended = lines, False

    def __iter__(self) -> Iterator[str]:
        yield from self._lines
        self.ended = True


def _csv_rows(file: File, delimiter: str, problems: Problems) -> Iterator[tuple[int, list[str]]]:
    given, noted = 0, problems
    for strict in (True, False) if file.read_again else (False,):
        with _fields_of_any_size():
            lines = _Lines(lines_of(file, noted, ""))
            reader = csv.reader(lines, delimiter=delimiter, strict=strict)
            try:
                for number, row in islice(enumerate(reader, 1), given, None):
                    if lines.ended:  # in a quoted field, which only a strict reader tells
                        raise csv.Error("unexpected end of data")
                    given = number
                    if row:
                        yield number, row
                return
            except csv.Error as error:
                place, reason = f"{file.name}, line {reader.line_num}", error
        if "unexpected end" in str(reason):
            raise InputError(
                f'{place}: a quote (") was opened and is never closed, so the rows cannot be told apart; '
                "if quotes are ordinary characters in this file, read it as tsv"
            )
        problems.append((place, "a quote inside a quoted field is not doubled"))
        noted = []  # what is no text has been named
    raise InputError(f"{place}: {reason}")


def _delimiter(file: File) -> str:
    head = decode(file.head)[0]
    if len(file.head) == HEAD:
        head = head[: head.rfind("\n") + 1] or head

    def fields(delimiter: str) -> int:
        counts = []
        try:
            for row in csv.reader(io.StringIO(head, newline=""), delimiter=delimiter):
                counts.append(len(row))
                if len(counts) == 20:
                    break
        except csv.Error:
            return 0
        return min(filter(None, counts), default=0)

    with _fields_of_any_size():
        return max(_DELIMITERS, key=fields)


@contextmanager
def _fields_of_any_size() -> Iterator[None]:
    limit = csv.field_size_limit(LONGEST)
    try:
        yield
    finally:
        csv.field_size_limit(limit)
