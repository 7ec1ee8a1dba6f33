"""Tables: CSV, TSV, JSON Lines, Parquet -> documents, one a row.

ColumnNames are given by name or by number from 1; several columns of text (`title,body`) are joined by
line breaks, those that are asked for one by one stay apart, beside columns of numbers. Not given, they are
found by the usual names (`text`, `label`, `id`, `split`, ...); columns of numbers to be predicted, of weights
and of groups are read_tables only if they are named. A CSV or TSV has
a header line if a column was named, or if one of its cells is such a usual name; without header and
columns, the first column is the label and the others are the text.

CSV, TSV, JSON Lines, Parquet -> rows with named columns. What the columns mean is decided in tables.py.

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
from difflib import get_close_matches
from itertools import chain, islice
from math import isfinite
from pathlib import PurePosixPath
from typing import Any

from textsvm.errors import InputError
from textsvm.readers.charsets import decode
from textsvm.readers.corpus import Document, Label
from textsvm.readers.files import HEAD, LONGEST, File, Problems
from textsvm.readers.files import check_expansion as require_modest
from textsvm.readers.files import iterate_lines as lines_of
from textsvm.readers.plain_text import part_of
from textsvm.runtime.parallel import Progress

_DELIMITERS = ",;\t|"
#: Rows of Parquet that are read at once.
_ROWS = 1 << 12


@dataclass(frozen=True)
class TableRows:
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


def read_csv(file: File, usual: Collection[str], header: bool, problems: Problems) -> TableRows:
    """`header`: the first row is one. Else it is one if a cell is among the `usual` names."""
    rows = _csv_rows(file, _delimiter(file), problems)
    return _table(file, rows, usual, header, problems)


def read_tsv(file: File, usual: Collection[str], header: bool, problems: Problems) -> TableRows:
    """As `read_csv`."""
    lines = (line.removesuffix("\n") for line in lines_of(file, problems))
    rows = ((n, line.removesuffix("\r").split("\t")) for n, line in enumerate(lines, 1) if line.strip("\r"))
    return _table(file, rows, usual, header, problems)


def read_jsonl(file: File, usual: Collection[str], header: bool, problems: Problems) -> TableRows:
    """One JSON object a line; a line that is none is left out and named."""
    rows = _objects(file, problems)
    first = list(islice(rows, file.known_rows))
    if not first:
        _require_content(file)
        raise InputError(f"{file.name} holds no JSON object; JSON Lines has one on every line")
    return TableRows(list(dict.fromkeys(name for _, row in first for name in row)), True, chain(first, rows))


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


def read_parquet(file: File, usual: Collection[str], header: bool, problems: Problems) -> TableRows:
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
    return TableRows(names, True, enumerate(rows, 1))


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
) -> TableRows:
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
    return TableRows(names, headed, _named(file, names, rows if headed else chain([start], rows), problems))


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


_USUAL = {
    "text": (
        "text",
        "body",
        "content",
        "message",
        "document",
        "review",
        "essay",
        "sentence",
        "comment",
        "tweet",
    ),
    "label": ("label", "class", "category", "target", "topic", "sentiment", "labels"),
    "id": ("id", "doc_id", "document_id", "essay_id", "newid", "uid"),
    "part": ("part", "split"),
}
#: Rows between reports of progress.
STEP = 1024
#: What stands in a cell without a label; pandas and others write the last two.
_MISSING = ("", "NaN", "nan")
_ALL_USUAL = frozenset(name for names in _USUAL.values() for name in names)
_SUFFIXES = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
}


@dataclass(frozen=True)
class ColumnNames:
    """The columns that the user named: names or numbers from 1; for the text several, with commas.

    Where `text` is a tuple, or `numbers` are asked for (with commas), columns stay apart.
    """

    text: str | tuple[str, ...] | None = None
    label: str | None = None
    id: str | None = None
    target: str | None = None
    weight: str | None = None
    group: str | None = None
    numbers: str | tuple[str, ...] | None = None

    @property
    def apart(self) -> bool:
        """Whether columns of texts and numbers stay apart."""
        return isinstance(self.text, tuple) or self.numbers is not None

    @property
    def named(self) -> bool:
        """Whether one of them is a name."""
        given = [",".join(wish) if isinstance(wish, tuple) else wish for wish in vars(self).values()]
        wishes = ",".join(wish for wish in given if wish)
        return any(not wish.strip().isdecimal() for wish in wishes.split(",") if wish)

    @property
    def of_a_table(self) -> bool:
        """Whether one of them says that what has no other form is a table."""
        return any(wish is not None for wish in (self.text, self.numbers, self.id))

    @property
    def only_of_tables(self) -> str | None:
        """One of those wishes that other formats cannot fulfil."""
        text = ", ".join(self.text) if isinstance(self.text, tuple) else None
        numbers = ", ".join(self.numbers) if isinstance(self.numbers, tuple) else self.numbers
        return self.target or self.weight or self.group or numbers or text


ANY_COLUMNS = ColumnNames()


def table_format(name: str, head: str) -> str | None:
    """The table format of a file: JSON Lines by its content, others by the name; None if it is no table."""
    first = head.lstrip().split("\n", 1)[0]
    if first.startswith("{"):
        try:
            if isinstance(json.loads(first), dict):
                return "jsonl"
        except (ValueError, RecursionError):
            pass
    return _SUFFIXES.get(PurePosixPath(name).suffix.lower())


def read_tables(
    files: Sequence[File],
    problems: Problems,
    format: str | None = None,
    columns: ColumnNames = ANY_COLUMNS,
    *,
    label_separator: str | None = None,
    progress: Progress | None = None,
) -> Iterator[Document]:
    """The rows of tables.

    Parameters
    ----------
    files : sequence of File
        A file named after a part (`train.csv`) is that part, unless a column says otherwise.
    problems : list of (str, str)
        Gets what is damaged or left out: file and row, problem.
    format : {"csv", "tsv", "jsonl", "parquet"}, optional
        By each file's name or content if not given.
    columns : ColumnNames
    label_separator : str, optional
        A document may have several labels: what stands between those of a cell.
    progress : callable, optional
        Called with (bytes read_tables, bytes in all).

    Raises
    ------
    InputError
        If a column is not there, the text column cannot be told, or a file is no such table.
    """
    total, done = sum(file.size for file in files), 0
    for file in files:
        chosen = format or table_format(file.name, decode(file.head)[0]) or "csv"
        table = READERS[chosen](file, _ALL_USUAL, columns.named, problems)
        roles = _roles(table, columns, file.name)
        for number, row in table.rows:
            if roles["text"] and all(row.get(name) is None for name in roles["text"]):
                problems.append((f"{file.name}, row {number}", f"left out: it has no {roles['text'][0]!r}"))
            else:
                document = _document(row, roles, number, file.name, len(files) > 1)
                if columns.apart:
                    document = document._replace(columns=_apart(row, roles, f"{file.name}, row {number}"))
                yield document if label_separator is None else split_labels(document, label_separator)
            if progress is not None and number % STEP == 0:
                progress(done + file.position, total)
        done += file.size
        if progress is not None:
            progress(done, total)


def _document(
    row: Mapping[str, Any], roles: dict[str, list[str]], number: int, file: str, several: bool
) -> Document:
    def first(role: str) -> Any:
        return row.get(roles[role][0]) if roles[role] else None

    def value(role: str, needed: bool) -> float | None:
        return parse_number(first(role), f"{file}, row {number}: the {role}", needed) if roles[role] else None

    weight = value("weight", needed=True)
    if weight is not None and weight < 0:
        raise InputError(f"{file}, row {number}: the weight is {weight:g}, and none may be below 0")
    texts = [row.get(name) for name in roles["text"]]
    part = _string(first("part")) if roles["part"] else part_of(file)
    group = (_string(first("group")) or "").strip() or None
    if roles["group"] and group is None:
        raise InputError(f"{file}, row {number} has no {roles['group'][0]}, and every row needs a group")
    return Document(
        _string(first("id")) or (f"{file}:{number}" if several else str(number)),
        "\n".join(_string(text) or "" for text in texts if text is not None),
        _label(first("label")),
        part or None,
        value("target", needed=False),
        weight,
        group,
    )


def _apart(row: Mapping[str, Any], roles: dict[str, list[str]], where: str) -> dict[str, str | float]:
    """The columns of texts and numbers of a row."""
    texts: dict[str, str | float] = {name: _string(row.get(name)) or "" for name in roles["text"]}
    numbers = {
        name: parse_number(row.get(name), f"{where}: {name!r}", needed=True) or 0.0
        for name in roles["numbers"]
    }
    return texts | numbers


def split_labels(document: Document, separator: str) -> Document:
    """With a tuple of labels; the empty one where the cell is empty."""
    label = document.label or ""
    pieces = label.split(separator) if isinstance(label, str) else label
    return document._replace(label=tuple(dict.fromkeys(each.strip() for each in pieces if each.strip())))


def parse_number(value: Any, what: str, needed: bool) -> float | None:
    """A finite number; None for an empty cell that need not hold one."""
    if not needed and (value is None or (isinstance(value, str) and not value.strip())):
        return None
    try:
        number = float("nan" if isinstance(value, bool) or value is None else value)
    except (TypeError, ValueError, OverflowError):
        number = float("nan")
    if not isfinite(number):
        raise InputError(f"{what} is {value!r}, which is not a finite number")
    return number


def _string(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bytes):  # of Parquet, whose older writers do not say that they are text
        return decode(value)[0]
    if isinstance(value, (bool, list, dict)):
        try:
            return json.dumps(value, ensure_ascii=False, default=_string)
        except RecursionError as error:
            raise InputError("a value of a table holds lists in lists in lists, too many of them") from error
    return str(value)


def _label(value: Any) -> Label | None:
    if isinstance(value, (list, tuple)):
        return tuple(_string(each) or "" for each in value)
    label = (_string(value) or "").strip()
    return None if label in _MISSING else label


def _roles(table: TableRows, columns: ColumnNames, file: str) -> dict[str, list[str]]:
    """Which columns are the text, the label, the id and the part."""
    names = table.names
    wishes = {role: wish for role, wish in vars(columns).items() if wish is not None}
    roles = {role: _usual(role, names) if table.headed else [] for role in (*_USUAL, *vars(columns))}
    if not table.headed and wishes.keys().isdisjoint({"label", "text", "target"}) and len(names) > 1:
        roles["label"] = names[:1]
    for role, wish in wishes.items():
        roles[role] = _wished(role, wish, names, file)
    if columns.text is None and columns.numbers is None and (not table.headed or len(names) == 1):
        taken = {name for role, found in roles.items() if role != "text" for name in found}
        roles["text"] = [name for name in names if name not in taken]
    if twice := set(roles["text"]) & set(roles["numbers"]):
        raise InputError(
            f"{file}: the column {min(twice)!r} is either text or a number, and was named as both"
        )
    if not roles["text"] and not roles["numbers"]:
        there = ", ".join(names[:20])
        raise InputError(
            f"{file}: which column is the text? Name it (--text, text=); the columns are: {there}"
        )
    return roles


def _usual(role: str, names: Sequence[str]) -> list[str]:
    lowered = {name.strip().lower(): name for name in reversed(names)}
    return [lowered[usual] for usual in _USUAL.get(role, ()) if usual in lowered][:1]


def _wished(role: str, wish: str | tuple[str, ...], names: Sequence[str], file: str) -> list[str]:
    if wish in names:
        return [str(wish)]
    found = []
    wishes = (wish.split(",") if role in ("text", "numbers") else [wish]) if isinstance(wish, str) else wish
    for each in map(str.strip, wishes):
        if each in names:
            found.append(each)
        elif each.isdecimal() and 1 <= int(each) <= len(names):
            found.append(names[int(each) - 1])
        else:
            close = get_close_matches(each, names[:1000], 3, 0.5)  # it is slow
            there = ", ".join([*close, *(name for name in names if name not in close)][:20])
            raise InputError(
                f"{file} has no column {each!r} for the {role}; its {len(names)} columns are: {there}"
            )
    return found
