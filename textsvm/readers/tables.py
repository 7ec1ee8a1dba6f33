"""Reader of tables: CSV, TSV, JSON Lines, JSON, Parquet and spreadsheets, with one document per row.

Columns are given by name, or by number from 1. Columns that are not given are detected by their usual names
(`text`, `label`, `id`, `split`, ...), except targets, weights and groups. Several text columns are joined by
line breaks if given as a comma-separated string (`title,body`), and kept separate if given as a list.

CSV, TSV and spreadsheets have a header if a column is given by name, or if a cell of the first line is a
usual column name. Otherwise the first column is the label and the others are the text. The first label must
then occur again, since the first line may be a header of unknown names.

TSV is split on TAB only, and quotes are ordinary characters: an unclosed quote in a text would otherwise
swallow all rows up to the next quote. CSV follows RFC 4180; its delimiter is the symbol of `,`, `;`, TAB and
`|` that splits the first rows into the most fields. Messages name the line on which a row of CSV, TSV or JSON
Lines begins. The default id of a document is the number of its row, which is smaller after line breaks in
quotes.
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import date, time
from difflib import get_close_matches
from itertools import chain, islice
from math import isfinite
from pathlib import PurePosixPath
from typing import Any

from textsvm.arrays import Json
from textsvm.errors import InputError
from textsvm.readers.charsets import decode, encoding_of, is_binary, is_blank
from textsvm.readers.corpus import Document, Label, ReadOptions, Row, refused_rows
from textsvm.readers.files import (
    HEAD,
    MAX_LINE,
    OFFICE,
    ZIP,
    File,
    Problems,
    check_expansion,
    iterate_lines,
    with_progress,
)
from textsvm.readers.plain_text import PROGRESS_STEP, part_of
from textsvm.runtime.parallel import Progress

_DELIMITERS = ",;\t|"
#: Rows of Parquet that are read at a time.
_BATCH = 1 << 12
_USUAL = {
    "text": ("text", "body", "content", "message", "document", "review", "essay", "sentence", "comment",
             "tweet"),
    "label": ("label", "class", "category", "target", "topic", "sentiment", "labels"),
    "id": ("id", "doc_id", "document_id", "essay_id", "newid", "uid"),
    "part": ("part", "split"),
}  # fmt: skip
_ROLES = (*_USUAL, "target", "weight", "group", "numbers")
_ALL_USUAL = frozenset(name for names in _USUAL.values() for name in names)
_RENAME = "rename one, or name it by its number"
#: Rows in which the first label of a table without a header must occur again.
_LOOKED_AT = 1000
_SUFFIXES = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".json": "json",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
}
#: Endings of the names of tables.
SUFFIXES = (*_SUFFIXES, ".xlsx", ".xlsb", ".xls", ".ods")
#: Parts of ZIP archives that are spreadsheets.
_SPREADSHEET = (b"xl/workbook.", b"opendocument.spreadsheet")


def file_format(file: File, options: ReadOptions) -> str | None:
    """The format of a table by its content or name; None if the file is no table."""
    head, zipped = file.head, file.head.startswith(ZIP)
    if head.startswith(OFFICE) or (zipped and any(part in file.data for part in _SPREADSHEET)):
        return "excel"
    if head.startswith(b"PAR1") or is_binary(head):
        return "parquet" if head.startswith(b"PAR1") else None
    text = decode(head)[0]
    return table_format(file.name, text) or header_format(text, options)


def table_format(name: str, head: str) -> str | None:
    """The table format of a file: JSON by its content, others by the name; None if it is no table."""
    first = head.lstrip().split("\n", 1)[0]
    if first.startswith("{"):
        try:
            if isinstance(json.loads(first), dict):
                return "jsonl"
        except (ValueError, RecursionError):
            pass
    return _SUFFIXES.get(PurePosixPath(name).suffix.lower())


def header_format(head: str, options: ReadOptions) -> str | None:
    """The format of a table if its first line has the named or recorded text columns, else None."""
    text = options.columns.get("text")
    columns = text.split(",") if isinstance(text, str) else text or ()
    if not columns or any(name.strip().isdecimal() for name in columns):
        return None
    line, _, rest = head.lstrip().partition("\n")
    row = rest.lstrip("\r\n").partition("\n")[0]
    for delimiter in _DELIMITERS:  # recorded columns may be words of a text; a table has rows below
        cells = {cell.strip().strip('"') for cell in line.split(delimiter)}
        full = options.text is not None or '"' in row or row.count(delimiter) >= line.count(delimiter)
        if full and len(cells) > 1 and cells.issuperset(map(str.strip, columns)):
            return "tsv" if delimiter == "\t" else "csv"
    return None


def read_tables(
    files: Sequence[File], problems: Problems, options: ReadOptions, progress: Progress | None = None
) -> Iterator[Document]:
    """The rows of tables; without a format in the options, it is detected for each file.

    A file named after a part (`train.csv`) is that part, unless a column says otherwise. `problems` gets rows
    that are damaged or left out. Missing columns and invalid files raise InputError, and so do rows with too
    few or too many fields, unless `skip_invalid` leaves them out.
    """
    for file, report in with_progress(files, progress):
        format = options.format or file_format(file, options) or "csv"
        encoding = None if format in ("excel", "parquet") else encoding_of(file.head)
        table = _READERS[format](file, options, problems)
        roles, part = _roles(table, options, f"{file.name}{table.sheet}"), part_of(file.name)
        header = table.headed if table.first else None
        labelled = options.labelled and not options.target
        read = {role: tuple(names) for role, names in roles.items() if role != "label" or labelled}
        read["columns"] = tuple(table.names)
        options.decide(**read, separator=table.separator, header=header, encoding=encoding)
        paths = {name for columns in roles.values() for name in columns} - set(table.names)
        ragged, without_text, total = list[int](), list[int](), 0
        strict = not roles["numbers"] and (
            options.keep_invalid or options.require_text or options.skip_invalid
        )
        for number, line, row in table.rows:
            total += 1
            row_name = f"{table.unit} {line}"
            place = f"{file.name}, {row_name}"
            identifier = f"{file.name}:{number}" if len(files) > 1 else str(number)
            if not table.first and isinstance(row, Mapping):
                row = {**row, **{path: _at(row, path) for path in paths}} if paths else row
                _check_values(row, roles, place)
            if problem := _problem(row, roles["text"], strict):
                if options.keep_invalid and not options.skip_invalid:
                    name = row.get(roles["id"][0]) if roles["id"] and isinstance(row, Mapping) else None
                    cells = row if options.keep_rows and isinstance(row, Mapping) else None
                    yield Document(
                        _string(name) or identifier, "", problem=f"{row_name}: {problem}", row=cells
                    )
                elif isinstance(row, InvalidRow) and row.ragged and not options.skip_invalid:
                    ragged.append(line)
                elif options.require_text and not options.skip_invalid and not _is_blank(row):
                    without_text.append(line)
                    reason = problem
                else:
                    problems.append((place, f"left out: {problem}"))
            elif isinstance(row, Mapping):
                document = _document(row, roles, place, identifier, part)
                if options.apart:
                    columns: dict[str, str | float] = {}
                    for name in roles["text"]:
                        columns[name] = _string(row.get(name)) or ""
                    for name in roles["numbers"]:
                        columns[name] = parse_number(row.get(name), f"{place}: {name!r}", needed=True) or 0.0
                    document = document._replace(columns=columns)
                if options.keep_rows:
                    document = document._replace(row=row)
                separator = options.label_separator
                yield document if separator is None else split_labels(document, separator)
            if number % PROGRESS_STEP == 0:
                report()
        if ragged:
            reason = "a text with the delimiter in it needs quotes"
            raise refused_rows(file.name, table.unit, ragged, total, "too few or too many fields", reason)
        if without_text:
            raise refused_rows(file.name, table.unit, without_text, total, "no text", reason)


def _is_blank(row: Row | InvalidRow) -> bool:
    """Whether all cells of a row are empty, as below the data of a spreadsheet."""
    return isinstance(row, Mapping) and not any((_string(value) or "").strip() for value in row.values())


def _at(row: Any, path: str) -> Any:
    """The value at a path of keys in nested objects, such as text.body; None if there is none."""
    for key in path.split("."):
        row = row.get(key) if isinstance(row, Mapping) else None
    return row


def _check_values(row: Row, roles: Mapping[str, list[str]], place: str) -> None:
    """Raise InputError if a text or a label is an object, or a list of other values than labels."""
    for role in ("text", "label"):
        for name in roles[role]:
            value = row.get(name)
            items = value if isinstance(value, list) and role == "label" else [value]
            if any(isinstance(item, dict | list) for item in items):
                key = f": --{role} {name}.{next(iter(value), '')}" if isinstance(value, dict) else ""
                raise InputError(
                    f"{place}: {name!r} is a list or an object, no {role}; name a value in it{key}"
                )


@dataclass(frozen=True)
class InvalidRow:
    """A row that cannot be split into fields."""

    reason: str
    ragged: bool = False  #: Whether it has too few or too many fields


#: Number of a row, the line on which it begins (spreadsheets, Parquet and JSON: the number), and its cells.
CellRow = tuple[int, int, list[str]]
#: The same with its fields by name.
NamedRow = tuple[int, int, Row | InvalidRow]


def _problem(row: Row | InvalidRow, texts: Sequence[str], empty: bool) -> str | None:
    """The reason why a row is not a document, or None; with `empty`, an empty text is a reason."""
    if isinstance(row, InvalidRow):
        return row.reason
    values = [_string(row.get(name)) for name in texts]
    if texts and all(value is None for value in values):
        return f"it has no {texts[0]!r}"
    blank = all(is_blank(value or "") for value in values)
    return f"its {texts[0]!r} is empty" if texts and empty and blank else None


def _document(
    row: Row, roles: dict[str, list[str]], place: str, identifier: str, part: str | None
) -> Document:
    def first(role: str) -> Any:
        return row.get(roles[role][0]) if roles[role] else None

    def value(role: str, needed: bool) -> float | None:
        return parse_number(first(role), f"{place}: the {role}", needed) if roles[role] else None

    weight = parse_weight(value("weight", needed=True), place)
    texts = [row.get(name) for name in roles["text"]]
    part = _string(first("part")) if roles["part"] else part
    group = (_string(first("group")) or "").strip() or None
    if roles["group"] and group is None:
        raise InputError(f"{place} has no {roles['group'][0]}, and every document needs a group")
    return Document(
        _string(first("id")) or identifier,
        "\n".join(_string(text) or "" for text in texts if text is not None),
        _label(first("label")),
        part or None,
        value("target", needed=False),
        weight,
        group,
    )


def split_labels(document: Document, separator: str) -> Document:
    """The document with a tuple of labels, empty for an empty cell."""
    label = document.label or ""
    pieces = label.split(separator) if isinstance(label, str) else label
    return document._replace(label=tuple(dict.fromkeys(piece.strip() for piece in pieces if piece.strip())))


def parse_number(value: Any, name: str, needed: bool) -> float | None:
    """A finite number; None for an empty cell unless a number is `needed`."""
    if not needed and (value is None or (isinstance(value, str) and not value.strip())):
        return None
    try:
        number = float("nan" if isinstance(value, bool) or value is None else value)
    except (TypeError, ValueError, OverflowError):
        number = float("nan")
    if not isfinite(number):
        comma = "; write a decimal point, not a comma" if isinstance(value, str) and "," in value else ""
        raise InputError(f"{name} is {value!r}, which is not a finite number{comma}")
    return number


def is_number(text: str) -> bool:
    """Whether a cell or a label is a finite number."""
    try:
        return isfinite(float(text))
    except ValueError:
        return False


def parse_weight(weight: float | None, place: str) -> float | None:
    """The weight of a document; raise InputError if it is negative."""
    if weight is not None and weight < 0:
        raise InputError(f"{place}: the weight is {weight:g}, and none may be below 0")
    return weight


def _string(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if value != value:  # NaN is a missing value
        return None
    if isinstance(value, bytes):  # of Parquet: older writers do not declare texts
        return decode(value)[0]
    if isinstance(value, (bool, list, dict)):
        try:
            return json.dumps(value, ensure_ascii=False, default=_string)
        except RecursionError as error:
            raise InputError("a value of a table has too many lists inside lists") from error
    return str(value)


def _label(value: object) -> Label | None:
    if isinstance(value, (list, tuple)):
        return tuple(_string(item) or "" for item in value)
    label = (_string(value) or "").strip()
    return label or None


# Columns


@dataclass(frozen=True)
class TableRows:
    """Columns and rows of a file."""

    names: list[str]  #: Column names; "1", "2", ... without a header.
    headed: bool
    rows: Iterable[NamedRow]
    unit: str  #: "line" or "row": the place of a row in messages
    first: Sequence[str] = ()  #: Cells of the first row of CSV, TSV and spreadsheets
    repeated: Collection[str] = ()  #: Names of several columns
    lookahead: Sequence[CellRow] = ()  #: The next rows of a table without a header
    sheet: str = ""  #: Description of the sheet for messages, if the file has several
    separator: str | None = None  #: Of CSV and TSV

    def columns_of_data(self) -> list[int]:
        """Columns whose first cell occurs again or is a number as all below; none if one contradicts."""
        rows, columns = [row for _, _, row in self.lookahead if len(row) == len(self.first)], list[int]()
        for i, (cell, below) in enumerate(zip(self.first, zip(*rows, strict=True), strict=False)):
            numbers, number = sum(map(is_number, below)), is_number(cell)
            if numbers == (0 if number else len(below)):
                return []
            columns += [i] if number or cell in map(str.strip, below) else []
        return columns


def _roles(table: TableRows, options: ReadOptions, file: str) -> dict[str, list[str]]:
    """The columns of each role: text, label, id, part, ..."""
    names, columns = table.names, options.columns
    of_data = table.columns_of_data()
    if not table.headed and options.header is None and not (of_data if columns else 0 in of_data):
        raise InputError(
            f"{file}: is its first line a header? It has {', '.join(map(repr, table.first[:20]))}; add "
            "--header or --no-header (header=), and name the columns of texts and labels with --text and "
            f"--label, by number without a header{_separator_remedy(table)}"
        )
    lowered = {name.strip().lower(): name for name in reversed(names)} if table.headed else {}
    usual = {role: [lowered[name] for name in _USUAL.get(role, ()) if name in lowered] for role in _ROLES}
    roles, unread = {role: found[:1] for role, found in usual.items()}, list[str]()
    spellings = Counter(name.strip().lower() for name in table.first or names)
    for role in {"text", "label"} - columns.keys() - set(() if options.labelled else ("label",)):
        if roles[role] and spellings[roles[role][0].strip().lower()] > 1:
            raise InputError(f"{file} has several columns {roles[role][0]!r}; {_RENAME}")
        unread += usual[role][1:]
    options.decide(unread=tuple(sorted(unread)))
    if not table.headed and columns.keys().isdisjoint({"label", "text", "target"}) and len(names) > 1:
        roles["label"] = names[:1]
    for role, column in columns.items():
        if role in options.named or role in ("text", "numbers") or (role == "label" and options.labelled):
            roles[role] = _named_columns(role, column, table, file, role not in options.named)
        elif role == "id" and column in names:
            roles[role] = [str(column)]
    if columns.keys().isdisjoint({"text", "numbers"}) and (not table.headed or len(names) == 1):
        role_columns = {name for role, role_names in roles.items() if role != "text" for name in role_names}
        roles["text"] = [name for name in names if name not in role_columns]
    pairs = [("text", "numbers"), *([("text", "label")] if options.labelled else [])]
    for first_role, other in pairs:
        if both := set(roles[first_role]) & set(roles[other]):
            raise InputError(f"{file}: the column {min(both)!r} is named twice: --{first_role} and --{other}")
    if not roles["text"] and not roles["numbers"]:
        available = ", ".join(names[:20])
        raise InputError(f"{file}: which column is the text? Name it (--text, text=): {available}")
    return roles


def _separator_remedy(table: TableRows) -> str:
    """Advice for a table with a single column whose name holds a separator."""
    separator = next((mark for mark in _DELIMITERS if len(table.first) == 1 and mark in table.first[0]), None)
    return f"; its separator seems to be {separator!r}: read it with --format csv" if separator else ""


def _named_columns(
    role: str, column: str | Sequence[str], table: TableRows, file: str, recorded: bool
) -> list[str]:
    """The columns of a role by their names in the table; InputError if one is missing or ambiguous."""
    names = table.names
    if isinstance(column, str):
        if column in names and column not in table.repeated:
            return [column]
        column = tuple(column.split(",")) if role in ("text", "numbers") else (column,)
    columns = []
    for name in map(str.strip, column):
        if name in table.repeated:
            raise InputError(f"{file} has several columns {name!r}; {_RENAME}")
        if name in names:
            columns.append(name)
        elif name.isdecimal() and 1 <= int(name) <= len(names):
            columns.append(names[int(name) - 1])
        elif not table.first and name.partition(".")[0] in names:  # a path in nested objects
            columns.append(name)
        else:
            close = get_close_matches(name, names[:1000], 1, 0.5)  # it is slow
            remedy = f", which the model was trained on; name another with --{role}" if recorded else ""
            remedy += _separator_remedy(table) or (f"; did you mean {close[0]!r}" if close else "")
            if not close and table.first and _ALL_USUAL.isdisjoint(map(str.lower, names)):
                remedy += "; name columns by number if the first line is not a header"
            available = ", ".join(names[:20])
            raise InputError(
                f"{file} has no column {name!r} for the {role}{remedy}; its {len(names)} columns are: "
                f"{available}"
            )
    return columns


# Formats. Without options, the first row is a header if a cell is a usual or a recorded name.


def _read_csv(file: File, options: ReadOptions, problems: Problems) -> TableRows:
    delimiter = _delimiter(file)
    return replace(_table(file, _csv_rows(file, delimiter, problems), options), separator=delimiter)


def _read_tsv(file: File, options: ReadOptions, problems: Problems) -> TableRows:
    lines = (line.removesuffix("\n").removesuffix("\r") for line in iterate_lines(file, problems))
    rows = ((n, n, line.split("\t")) for n, line in enumerate(lines, 1) if line.strip("\r"))
    return replace(_table(file, rows, options), separator="\t")


def _table(file: File, rows: Iterator[CellRow], options: ReadOptions, unit: str = "line") -> TableRows:
    _require_content(file)
    start = next(rows)
    first = [cell.strip() for cell in start[2]]
    headed = options.need_header
    if headed is None:
        recorded = options.names_in(options.recorded)
        headed = any(cell.lower() in _ALL_USUAL or cell in recorded for cell in first)
    names = list(first) if headed else [str(i + 1) for i in range(len(first))]
    repeated = {name for name, count in Counter(names).items() if name and count > 1}
    unique = set[str]()
    for i, name in enumerate(names):  # a column with an empty or repeated name is called by its number
        if not name or name in unique:
            names[i] = str(i + 1)
        unique.add(names[i])
    lookahead: list[CellRow] = []
    if not headed:
        lookahead = list(islice(rows, _LOOKED_AT if file.lookahead_rows is None else file.lookahead_rows))
    rest = chain([] if headed else [start], lookahead, rows)

    def named_rows() -> Iterator[NamedRow]:
        for number, line, row in rest:
            if len(row) == len(names):
                yield number, line, dict(zip(names, row, strict=True))
            else:
                yield number, line, InvalidRow(f"it has {len(row)} fields and not {len(names)}", ragged=True)

    return TableRows(names, headed, named_rows(), unit, first, repeated, lookahead)


def _require_content(file: File) -> None:
    """Raise InputError if the first bytes of a file are blank."""
    if not decode(file.head)[0].strip():
        raise InputError(f"{file.name} is empty")


def _read_jsonl(file: File, options: ReadOptions, problems: Problems) -> TableRows:
    """JSON Lines: one object per line; columns are the keys of the first `lookahead_rows` objects."""
    rows = _objects(file, problems)
    objects: list[Row] = []
    lookahead = []
    for row in rows:
        lookahead.append(row)
        if not isinstance(row[2], InvalidRow):
            objects.append(row[2])
            if len(objects) == file.lookahead_rows:
                break
    if not objects:
        _require_content(file)
        raise InputError(f"{file.name} holds no JSON object; JSON Lines has one on every line")
    names = list(dict.fromkeys(name for row in objects for name in row))
    return TableRows(names, True, chain(lookahead, rows), "line")


def _objects(file: File, problems: Problems) -> Iterator[NamedRow]:
    for number, line in enumerate(iterate_lines(file, problems), 1):
        if line.strip():
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                row = None
            yield number, number, _as_object(row)


def _as_object(row: object) -> Json | InvalidRow:
    return row if isinstance(row, dict) else InvalidRow("it is not a JSON object")


def _read_json(file: File, options: ReadOptions, problems: Problems) -> TableRows:
    """JSON: an array of objects."""
    try:
        rows = json.loads("".join(iterate_lines(file, problems)))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file.name} cannot be read as JSON: {error}") from error
    if not isinstance(rows, list):
        raise InputError(f"{file.name} must hold an array of objects, one object per document")
    names = list(dict.fromkeys(name for row in rows if isinstance(row, dict) for name in row))
    return TableRows(names, True, ((n, n, _as_object(row)) for n, row in enumerate(rows, 1)), "row")


def _read_excel(file: File, options: ReadOptions, problems: Problems) -> TableRows:
    """The first sheet of a spreadsheet that is not empty, with python-calamine, which is not a dependency."""
    try:
        from python_calamine import CalamineError, CalamineWorkbook
    except ImportError as error:
        raise InputError(
            f"{file.name} is a spreadsheet, which needs python-calamine (pip install python-calamine); or "
            "save it as CSV"
        ) from error
    try:
        book = CalamineWorkbook.from_filelike(io.BytesIO(file.data))
        sheets = {name: book.get_sheet_by_name(name).to_python() for name in book.sheet_names}
    except (CalamineError, ValueError, OSError) as error:
        raise InputError(f"{file.name} cannot be read as a spreadsheet: {error}") from error
    filled = [name for name, rows in sheets.items() if rows]
    if not filled:
        raise InputError(f"{file.name} is a spreadsheet without any cells")
    if len(filled) > 1:
        problems.append((file.name, f"only the sheet {filled[0]!r} of {len(filled)} is read"))
    rows = ([_cell(value) for value in row] for row in sheets[filled[0]])
    table = _table(file, ((n, n, row) for n, row in enumerate(rows, 1) if any(row)), options, "row")
    others = ", ".join(map(repr, filled[1:11]))
    sheet = f" (sheet {filled[0]!r}; the others, {others}, are not read: save one as CSV)" if others else ""
    return replace(table, sheet=sheet)


def _cell(value: object) -> str:
    """Text of a cell; spreadsheets store integers as floats."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return value.isoformat() if isinstance(value, date | time) else str(value)


def _read_parquet(file: File, options: ReadOptions, problems: Problems) -> TableRows:
    """Parquet, with PyArrow, which is not a dependency."""
    try:
        import pyarrow  # type: ignore[import-not-found, unused-ignore]
        from pyarrow import parquet
    except ImportError as error:
        raise InputError(f"{file.name} is Parquet, which needs PyArrow: pip install pyarrow") from error
    try:
        table = _parquet_table(file, pyarrow, parquet)
        names = table.column_names
    except InputError:
        raise
    except (pyarrow.ArrowException, OSError, ValueError, TypeError, OverflowError, MemoryError) as error:
        raise InputError(f"{file.name} cannot be read as Parquet: {error}") from error
    columns = [_parquet_values(file, name, table.column(i)) for i, name in enumerate(names)]
    values = enumerate(zip(*columns, strict=True), 1)
    return TableRows(names, True, ((n, n, dict(zip(names, row, strict=True))) for n, row in values), "row")


def _parquet_table(file: File, pyarrow: Any, parquet: Any) -> Any:
    """The table of a Parquet file; a page of a hundred bytes may hold millions of long values."""
    stored = parquet.ParquetFile(io.BytesIO(file.data))
    groups = [stored.metadata.row_group(i) for i in range(stored.metadata.num_row_groups)]
    check_expansion(file.name, sum(max(0, group.total_byte_size) for group in groups), file.size)
    schema = stored.schema_arrow
    if len(set(schema.names)) < len(schema.names):
        raise InputError(f"{file.name} cannot be read as Parquet: two columns have one name")
    # Repeated values are stored once until the size of all values is known.
    kinds = pyarrow.types
    texts = [column.name for column in schema if kinds.is_string(column.type) or kinds.is_binary(column.type)]
    stored = parquet.ParquetFile(io.BytesIO(file.data), read_dictionary=texts)
    batches, unpacked = [], 0
    for batch in stored.iter_batches(_BATCH):
        unpacked += sum(map(_parquet_bytes, batch.columns))
        check_expansion(file.name, unpacked, file.size)
        batches.append(batch)
    return pyarrow.Table.from_batches(batches, stored.schema_arrow)


def _parquet_bytes(column: Any) -> int:
    """Bytes of the values of a column."""
    from pyarrow import DictionaryArray, compute

    if not isinstance(column, DictionaryArray):
        return int(column.nbytes)
    lengths = compute.take(compute.binary_length(column.dictionary), column.indices)
    return 4 * len(column) + int(compute.sum(lengths).as_py() or 0)


def _parquet_values(file: File, name: str, column: Any) -> list[Any]:
    unreadable = (ValueError, OverflowError, TypeError, LookupError, ImportError)
    values: list[Any] = []
    with suppress(*unreadable):
        values = column.to_pylist()
        return values
    for row, scalar in enumerate(column, 1):
        place = f"{file.name}, row {row}: {name!r}"
        try:
            values.append(scalar.as_py())
        except UnicodeDecodeError as error:
            raise InputError(f"{place} is called text and is not UTF-8; write it as text in UTF-8") from error
        except unreadable as error:
            raise InputError(f"{place} has a value that cannot be read: {error}") from error
    return values


_READERS: dict[str, Callable[[File, ReadOptions, Problems], TableRows]] = {
    "csv": _read_csv,
    "tsv": _read_tsv,
    "jsonl": _read_jsonl,
    "json": _read_json,
    "excel": _read_excel,
    "parquet": _read_parquet,
}


class _Lines:
    """Lines with their count, and whether a reader has asked for more lines than there are."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines, self.count, self.last, self.ended = iter(lines), 0, "", False

    def __iter__(self) -> Iterator[str]:
        for line in self._lines:
            self.last, self.count = line, self.count + 1
            yield line
        self.ended = True


def _csv_rows(file: File, delimiter: str, problems: Problems) -> Iterator[CellRow]:
    """Rows of CSV that are not empty.

    Rows are read strictly. A line with an invalid quote is read leniently, and the first is reported in
    `problems`. Raises InputError if a quote is never closed, or a row of several lines has an invalid quote.
    """
    lines, number, damaged = _Lines(iterate_lines(file, problems, "")), 0, False
    with _csv_field_limit(MAX_LINE):
        while not lines.ended:
            start = lines.count + 1  # the line on which the row begins
            try:
                for row in csv.reader(lines, delimiter=delimiter, strict=True):
                    number += 1
                    if row:
                        yield number, start, row
                    start = lines.count + 1
            except csv.Error as error:
                fields: list[str] = []
                if not lines.ended and lines.count == start:
                    with suppress(csv.Error):  # of a line that is too long
                        fields = next(csv.reader(chain([lines.last], lines), delimiter=delimiter))
                if lines.ended or lines.count > start or not fields:
                    end = "is never closed" if lines.ended else f"runs up to line {lines.count} ({error})"
                    raise InputError(
                        f'{file.name}, line {start}: a quote (") was opened and {end}, so the rows cannot be '
                        "separated; correct the quotes, or read it as tsv if quotes are ordinary characters"
                    ) from error
                if not damaged:
                    place, damaged = f"{file.name}, line {start}", True
                    problems.append((place, "a quote inside a quoted field is not doubled"))
                number += 1
                yield number, start, fields


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

    with _csv_field_limit(MAX_LINE):
        return max(_DELIMITERS, key=fields)


@contextmanager
def _csv_field_limit(size: int) -> Iterator[None]:
    """Set the largest field of module csv, a global setting, during a block."""
    before = csv.field_size_limit(size)
    try:
        yield
    finally:
        csv.field_size_limit(before)
