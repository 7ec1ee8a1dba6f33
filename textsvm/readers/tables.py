"""Reader of tables: CSV, TSV, JSON Lines, JSON, Parquet and spreadsheets, with one document per row.

Columns without a name in the options are detected by their usual names, except targets, weights and groups.
The rows of CSV, TSV and spreadsheets are read by `textsvm.readers.delimited`; docs/tables.md has
the guesses. The default id of a document is the number of its row.
"""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import partial, reduce
from itertools import chain, islice, pairwise
from pathlib import PurePosixPath
from typing import Any

import textsvm.readers.annotations as exports
from textsvm.errors import InputError, MissingColumn, check_labels, first_few
from textsvm.readers import delimited
from textsvm.readers.charsets import decode, encoding_of, is_binary, is_blank
from textsvm.readers.corpus import (
    DECIMAL,
    EMPTY,
    FOOTNOTE,
    HEADER_AGAIN,
    HEADER_LINE,
    NO_DOCUMENTS,
    SWAPPED,
    TOTALS,
    USUAL,
    Answers,
    Document,
    InvalidRows,
    Label,
    LabelledCells,
    Problems,
    ReadOptions,
    Row,
    grouping,
    is_number,
    parse_number,
    parse_weight,
    split_label,
)
from textsvm.readers.delimited import (
    ROWS_FOR_NAMES,
    TITLES,
    USUAL_NAMES,
    CellRow,
    Cells,
    InvalidRow,
    SourceRow,
    TableForm,
    header_format,
    n_header_lines,
)
from textsvm.readers.files import ARROW, OFFICE, ZIP, File, check_expansion, iterate_lines, with_progress
from textsvm.readers.plain_text import PROGRESS_STEP, part_of
from textsvm.readers.plausible import SUBTOTAL, check_cents, check_texts, decimal_mark, is_total
from textsvm.runtime.files import TABLE_SUFFIXES
from textsvm.runtime.parallel import Progress

#: Name of an attribute of ARFF, and a cell of a row with its comma.
_ATTRIBUTE = re.compile(
    r"""\s*@attribute\s+('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^\s{]+)(?:\s+|(?=\{))(\S)""", re.IGNORECASE
)
_ARFF_CELL = r"""\s*+((?:'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+")\s*+|[^,'"]*+),"""
#: Name of a column of Orange with its role (class, meta, ignored, weight) and type, as in mS#Text.
_ORANGE = re.compile("([cmiw]?)([CDST]?)#(.+)")
_ORANGE_TYPES = {"S": "text", "C": "numbers"}
#: Tag of a line of RIS or EndNote, and its value; tags of titles and abstracts.
_TAG = re.compile(r"(?:([A-Z][A-Z0-9])  -|(%\S))(?: (.*))?$")
_TEXT_TAGS = ("TI", "T1", "%T", "AB", "N2", "%X")
_BATCH = 1 << 12  #: Rows of Parquet that are read at a time
#: Cells of columns of labels: yes, no and unknown.
_MARKS = {"1": 1, "1.0": 1, "true": 1, "0": 0, "0.0": 0, "false": 0, "": None}
_ROLES = (*USUAL, "target", "weight", "group", "numbers")
_RENAME = "rename one, or name it by its number"
_LETTER = re.compile(r"[^\W\d_]")
SAMPLE = 200_000  #: Cells of columns that are not read in which groups are looked for
_NUMBER_NAMES = (*USUAL["id"], "nr", "no", "index")  #: Names of a column of numbers that rows begin with
_LOOKAHEAD = 1000  #: Rows in which the first label of a table without a header must occur again
_SUFFIXES = {**TABLE_SUFFIXES, ".arff": "arff", ".arrow": "arrow", ".feather": "arrow"}
SUFFIXES = (*_SUFFIXES, ".xlsx", ".xlsb", ".xls", ".ods")  #: Endings of the names of tables
_SPREADSHEET = (b"xl/workbook.", b"opendocument.spreadsheet")  #: Members of ZIP archives
#: Names of streams in files of Excel up to 2003.
_WORKBOOK = ("Workbook".encode("utf-16-le"), "Book".encode("utf-16-le"))


def file_format(file: File, options: ReadOptions) -> str | None:
    """The format of a table by its content or name; None if the file is no table."""
    head = file.head
    for magic, parts in ((ZIP, _SPREADSHEET), (OFFICE, _WORKBOOK)):
        if head.startswith(magic) and any(part in file.data for part in parts):
            return "excel"
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.startswith(ARROW):
        return "arrow"
    if is_binary(head):
        return None
    text = decode(head)[0]
    format = table_format(file.name, text, options)
    if format == "tsv" and "\t" not in text.partition("\n")[0]:
        return header_format(text, options) or format
    return format or header_format(text, options)


def table_format(name: str, head: str, options: ReadOptions) -> str | None:
    """The table format of a file: JSON and ARFF by the content, others by the name; None for no table."""
    if delimited.SEPARATOR_LINE.match(head):
        return "csv"
    if re.match(r"\s*\[\s*\{", head):
        return "json"
    if re.match(r"(?:\s*%.*\n)*\s*@relation\s", head, re.IGNORECASE):
        return "arff"
    if re.match(r"\s*(?:TY  - |%0 )", head):
        return "references"
    first = head.lstrip().split("\n", 1)[0]
    if first.startswith("{"):
        try:
            if isinstance(row := json.loads(first), dict):
                # A single object may be a data frame of pandas.
                lone = first.strip() == head.strip() and not exports.task_of(row, options)
                texts = {name.lower() for name, value in row.items() if isinstance(value, str)}
                frame = lone and texts.isdisjoint(USUAL["text"])
                return "json" if frame and _records(row, options) is not None else "jsonl"
        except (ValueError, RecursionError):
            if len(first) == len(head) and re.match(r'\{\s*"[^"]*":\s*[\[{]', first):  # a long line
                return "json"
    return _SUFFIXES.get(PurePosixPath(name).suffix.lower())


def read_tables(
    files: Sequence[File], problems: Problems, options: ReadOptions, progress: Progress | None
) -> Iterator[Document]:
    """The rows of tables; without a format in the options, it is detected for each file.

    A file named after a part (`train.csv`) is that part, unless a column says otherwise. `problems` gets rows
    that are damaged or left out. Missing columns and invalid files raise InputError, and so do rows with too
    few or too many fields, unless `skip_invalid` leaves them out.
    """
    n_rows = 0
    for file, report in with_progress(files, progress):
        format = options.format or file_format(file, options) or "csv"
        encoding = None if format in ("excel", "parquet", "arrow") else encoding_of(file.head)
        notes: list[str] = []
        table = _with_answers(_READERS[format](file, options, problems), options, notes, file.name)
        roles = _roles(table, options, f"{file.name}{table.sheet}")
        header, labelled = table.headed if table.first else None, options.labelled and not options.target
        columns = {role: tuple(names) for role, names in roles.items() if role != "label" or labelled}
        columns["columns"] = tuple(table.names)
        roles["label"] = roles["label"] if options.labelled else []
        options.decide(**columns, separator=table.separator, header=header, encoding=encoding)
        table, decimal = _with_decimal(table, roles, options, file.name)
        rows = _DocumentRows(file.name, table, roles, options, problems, len(files) > 1, decimal)
        read = {*chain(*roles.values())} if options.group is None and options.labelled else {*table.names}
        spare, sample = [name for name in table.names if name not in read], list[LabelledCells]()
        total, first = 0, list[Row]()
        for total, (number, line, row) in enumerate(table.rows, 1):
            first += [row] if total <= _LOOKAHEAD and isinstance(row, Mapping) else []
            if (document := rows.document(number, line, row)) is not None:
                if 0 < len(spare) < SAMPLE - len(sample) * len(spare) and isinstance(row, Mapping):
                    sample.append((document.label, [str(row.get(name) or "")[:100] for name in spare]))
                yield document
            if number % PROGRESS_STEP == 0:
                report()
        problems += [(file.name, note) for note in notes]
        n_rows += total
        options.decisions["rows"] = [n_rows]
        options.decide(grouping=grouping(sample, spare))
        rows.invalid.check(total)
        if table.separator == ",":
            cells = {name: [row[name] for row in first] for name in table.names}
            labels = roles["label"] + roles["target"] if not table.headed else ()
            check_cents(cells, labels, options, file.name)
        check_texts({name: [row.get(name) for row in first] for name in roles["text"]}, options)
    exports.check_annotators(options)


def _with_decimal(
    table: TableRows, roles: Mapping[str, list[str]], options: ReadOptions, file: str
) -> tuple[TableRows, str]:
    """The table, and the decimal mark of its columns of numbers: of the options, or by the first rows."""
    columns, mark = [*roles["target"], *roles["weight"], *roles["numbers"]], options.decimal
    mark = delimited.NAMED.get(mark or "", mark) or str(options.recorded.get(DECIMAL, "")) or None
    if mark not in (None, ",", "."):
        raise InputError(f"decimal={mark!r} is no decimal mark; it is comma or point")
    if columns and mark is None:
        rows = iter(table.rows)
        ahead = list(islice(rows, _LOOKAHEAD))
        table = replace(table, rows=chain(ahead, rows))
        cells = {name: [row.get(name) for *_, row in ahead if isinstance(row, Mapping)] for name in columns}
        mark = decimal_mark(cells, table.separator, file)
    options.decide(decimal=mark)
    return table, mark or "."


def _with_answers(table: TableRows, options: ReadOptions, notes: list[str], file: str) -> TableRows:
    """The table with a column of labels if its first row is that of an export of an annotation tool."""
    rows, ahead, task = iter(table.rows), list[NamedRow](), None
    for row in rows:
        ahead.append(row)
        if isinstance(row[2], Mapping):
            task = exports.task_of(row[2], options)
            break
    table = replace(table, rows=chain(ahead, rows))
    if task is None or (table.first and not options.labelled):
        if options.annotators != exports.MAJORITY and options.labelled:
            raise MissingColumn(f"--annotators {options.annotators}: {file} names no annotators of labels")
        return table
    group = [exports.ANNOTATOR] if options.group == exports.ANNOTATOR else []
    names = dict.fromkeys([*task.row, options.label_column or "label", *group, *table.names])
    return replace(
        table, names=list(names), headed=True, rows=exports.with_labels(table.rows, options, notes)
    )


NamedRow = tuple[int, int, Row | InvalidRow]  #: The same with its fields by name


class _DocumentRows:
    def __init__(
        self, file: str, table: TableRows, roles: dict[str, list[str]], options: ReadOptions,
        problems: Problems, several_files: bool, decimal: str = ".",
    ) -> None:  # fmt: skip
        self._file, self._table, self._roles, self._options = file, table, roles, options
        self._problems, self._part, self._decimal = problems, part_of(file), decimal
        self._prefix = f"{file}:" if several_files else ""  # of ids
        self._names = {*map(_folded, table.names)}
        self._name_size = 2 * max(map(len, table.names), default=0)  # also with more white space
        #: Columns that are paths of keys in nested objects, such as text.body.
        self._paths = {name for names in roles.values() for name in names} - set(table.names)
        self._labels: dict[object, Label | None] = {}  #: Labels of the cells so far
        self._has_lists = False  # of labels
        self._unread = {options.label_column} & {*table.names} - {*roles["text"]} if options.classes else ()
        self._classes = {name.casefold() for name in options.classes}
        self.invalid = InvalidRows(file, table.unit, options, problems)

    def document(self, number: int, line: int, row: Row | InvalidRow) -> Document | None:
        """The document of a row; None for an invalid row, unless the options keep it."""
        identifier, place = f"{self._prefix}{number}", f"{self._file}, {self._table.unit} {line}"
        roles, decimal = self._roles, self._decimal
        if isinstance(row, InvalidRow):
            return self._of_invalid(row, row.reason, line, identifier)
        if not self._table.first:
            if self._paths:
                row = {**row, **{path: reduce(_value_of, path.split("."), row) for path in self._paths}}
            _check_values(row, roles, place)
        texts = [x if type(x) is str else _string(x) for x in map(row.get, roles["text"])]
        if problem := self._problem(row, texts, place):
            return self._of_invalid(row, problem, line, identifier)
        try:
            columns = self._columns(row, texts) if self._options.apart else None
        except InputError as error:
            return self._of_invalid(row, str(error), line, identifier)
        group = (_string(self._first(row, "group")) or "").strip() if roles["group"] else ""
        if roles["group"] and not group:
            raise InputError(f"{place} has no {roles['group'][0]}, and every document needs a group")
        return Document(
            (_string(self._first(row, "id")) if roles["id"] else "") or identifier,
            "\n".join([x for x in texts if x is not None]),
            self._label(row, place) if roles["label"] else None,
            (_string(self._first(row, "part")) if roles["part"] else self._part) or None,
            parse_number(self._first(row, "target"), f"{place}: the target", False, decimal),
            parse_weight(self._first(row, "weight"), place, decimal) if roles["weight"] else None,
            group or None, columns, row=row if self._options.keep_rows else None,
        )  # fmt: skip

    def _problem(self, row: Row, texts: Sequence[str | None], place: str) -> str | None:
        """The reason why a row is not a document, or None."""
        first = next(filter(None, texts), "")
        short = [x for x in texts if x and len(x) <= self._name_size]
        headed = bool(short and self._table.first and not self._names.isdisjoint(map(_folded, short)))
        # Most rows are documents by their text alone: no name, and with letters.
        doubtful = headed or not first or first.isspace()
        if not (doubtful or self._options.labelled):
            doubtful = not _LETTER.search(first) or is_total(first, alone=True)
        if doubtful and (reason := self._no_document(row, headed and self._table.headed, place)):
            return reason
        if self._unread and self._is_swapped(row, texts):
            return SWAPPED
        names = self._roles["text"]
        if is_blank(first) and all(is_blank(text or "") for text in texts):
            if self._table.first and not any(map(str.strip, row.values())):
                return EMPTY
            if names and all(text is None for text in texts):
                return f"it has no {names[0]!r}"
            if names and self._options.needs_text:
                return f"its {' and '.join(map(repr, names))} {'is' if len(names) == 1 else 'are'} empty"
        empty = (x for x in self._roles["numbers"] if is_blank(_string(row.get(x)) or ""))
        return next((f"its number {name!r} is empty" for name in empty), None)

    def _no_document(self, row: Row, headed: bool, place: str) -> str | None:
        """The header again, a note or totals; beside labels only totals without a text and a label."""
        cells = {name: cell for name, x in row.items() if (cell := (_string(x) or "").strip())}
        if headed:
            if all(_folded(cell) == _folded(name) for name, cell in cells.items()):
                return HEADER_AGAIN
            n_names = sum(_folded(cell) in self._names for cell in cells.values())
            if n_names > 1 and (n_names == len(cells) or (n_names > 2 and 3 * n_names >= 2 * len(cells))):
                raise InputError(
                    f"{place}: a second header with other columns ({first_few([*cells.values()])}); save the "
                    "tables above and below it in two files"
                )
        roles = self._roles
        beside = [x for name, x in cells.items() if name not in roles["label"]]
        needs_text = self._options.needs_text and not roles["numbers"]
        total = any(map(is_total, beside)) or any(map(SUBTOTAL.fullmatch, cells.values()))
        read = ("text", "label", "target", "numbers", "group")
        is_read = any(not cells.keys().isdisjoint(roles.get(role, ())) for role in read)
        if len(cells) == 1 < len(row) - 1 and not (is_read or total or {*cells} & {*roles["id"]}):
            return FOOTNOTE if " " in min(beside) else None
        if total and cells.keys().isdisjoint(roles["text"]) and (needs_text or not is_read):
            return TOTALS
        if self._options.labelled:
            return None
        others = [cell for cell in cells.values() if not is_total(cell, alone=True)]
        if len(others) == len(cells):
            return None
        numbers = not any(any(map(str.isalpha, cell)) for cell in others)
        return TOTALS if numbers and len(row) > len({*cells} & {*self._roles["id"]}) + 1 else None

    def _is_swapped(self, row: Row, texts: Sequence[str | None]) -> bool:
        """Whether the text of a row is a class of the model, and its label a longer text or a number."""
        label = next((_string(row.get(name or "")) or "" for name in self._unread), "").strip()
        cells = [(text or "").strip() for text in texts]
        number = is_number(label) and not any(map(is_number, self._classes))
        is_class = any(x.casefold() in self._classes and (number or len(x) < len(label)) for x in cells)
        return is_class and label.casefold() not in {"", *self._classes}

    def _of_invalid(self, row: Row | InvalidRow, problem: str, line: int, identifier: str) -> Document | None:
        """A document with the problem if the options keep invalid rows, else None."""
        cells = row.row if isinstance(row, InvalidRow) else row
        ragged = isinstance(row, InvalidRow) and row.ragged
        named = [*self._roles["text"], *self._roles["label"], *self._roles["target"]]
        blank = isinstance(row, Mapping) and not any((_string(row.get(x)) or "").strip() for x in named)
        blank |= problem in NO_DOCUMENTS
        self.invalid.add(line, problem, ragged=ragged, blank=blank)
        if not self._options.reports_invalid:
            return None
        name = self._first(row, "id") if isinstance(row, Mapping) else None
        return Document(
            _string(name) or identifier, "", problem=f"{self._table.unit} {line}: {problem}",
            row=(cells or dict.fromkeys(self._table.names)) if self._options.keep_rows else None,
        )  # fmt: skip

    def _first(self, row: Row, role: str) -> Any:
        """The cell of the first column of a role; None if there is no column."""
        columns = self._roles[role]
        return row.get(columns[0]) if columns else None

    def _columns(self, row: Row, texts: Sequence[str | None]) -> dict[str, str | float]:
        names = self._roles["text"]
        columns: dict[str, str | float] = {name: x or "" for name, x in zip(names, texts, strict=True)}
        for name in self._roles["numbers"]:
            columns[name] = parse_number(row.get(name), f"its number {name!r}", True, self._decimal) or 0.0
        return columns

    def _label(self, row: Row, place: str) -> Label | None:
        """The label of a row, as a tuple if the cell is a list, or the options name a separator."""
        names = self._roles["label"]
        cell = row.get(names[0]) if len(names) == 1 else None
        if type(cell) is str and cell in self._labels:
            return self._labels[cell]
        separator = self._options.label_separator
        labels = _marked_labels(row, names, place) if len(names) > 1 else exports.choices_in(cell)
        check_labels(labels if isinstance(labels, list | tuple) else [labels], f"{place}: ")
        label = _label(labels)
        listed = exports.labels_in(label.strip(), separator is not None) if isinstance(label, str) else None
        if listed is not None:
            if not self._has_lists:
                self._problems.append((place, f"cells such as {str(label)[:60]} are read as lists of labels"))
            self._has_lists = True
            label = listed
        label = label if separator is None else split_label(label, separator)
        if type(cell) is str:
            self._labels[cell] = label
        return label


def _value_of(row: object, key: str) -> Any:
    return row.get(key) if isinstance(row, Mapping) else None


def _check_values(row: Row, roles: Mapping[str, list[str]], place: str) -> None:
    """Raise InputError if a text or a label is an object, or a list of other values than labels."""
    for role in ("text", "label"):
        for name in roles[role]:
            value = exports.choices_in(row.get(name)) if role == "label" else row.get(name)
            items = value if isinstance(value, list) and role == "label" else [value]
            if any(isinstance(item, dict | list) for item in items):
                key = f": --{role} {name}.{next(iter(value), '')}" if isinstance(value, dict) else ""
                raise InputError(
                    f"{place}: {name!r} is a list or an object, no {role}; name a value in it{key}"
                )


def _marked_labels(row: Row, names: Sequence[str], place: str) -> Label:
    """The labels whose columns hold 1; columns without a cell are unknown. InputError for other cells."""
    cells = {name: (_string(row.get(name)) or "").strip().lower() for name in names}
    for name, mark in cells.items():
        if mark not in _MARKS:
            raise InputError(
                f"{place}: {name!r} is {_string(row.get(name))!r}; columns of labels hold 1 for "
                "yes, 0 for no, and nothing for unknown"
            )
    yes, no = (tuple(name for name in names if _MARKS[cells[name]] == value) for value in (1, 0))
    return yes if len(yes) + len(no) == len(names) else Answers(yes, no)


def _string(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if value != value:  # NaN is a missing value
        return None
    if isinstance(value, bytes):  # texts of Parquet by older writers, which do not declare them
        return decode(value)[0]
    if isinstance(value, (bool, list, dict)):
        try:
            return json.dumps(value, ensure_ascii=False, default=_string)
        except RecursionError as error:
            raise InputError("a value of a table has too many lists inside lists") from error
    return str(value + 0.0 if isinstance(value, float) else value)  # without the sign of -0.0


def _label(value: object) -> Label | None:
    if isinstance(value, Answers):
        return value
    if isinstance(value, (list, tuple)):
        return tuple(_string(item) or "" for item in value)
    label = _string(value) or ""
    return label if label.strip() else None


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
    lookahead: Sequence[CellRow] = ()  #: The next rows
    sheet: str = ""  #: Description of the sheet for messages, if the file has several
    separator: str | None = None  #: Of CSV and TSV
    typed: Mapping[str, list[str]] = field(default_factory=dict)  #: By role, of formats that tell it

    def columns_of_data(self) -> list[int]:
        """Columns that show that the first row is data: its cell occurs again, or is a number.

        Empty if a column contradicts: only its first cell is a number, or all cells but the first are; and if
        the first row has a single cell, as a title, and another more than two.
        """
        rows, columns = [row for _, _, row in self.lookahead if len(row) == len(self.first)], list[int]()
        if sum(map(bool, self.first)) == 1 and any(sum(map(bool, row)) > 2 for row in rows):
            return []
        for i, (cell, below) in enumerate(zip(self.first, zip(*rows, strict=True), strict=False)):
            numbers, number = sum(map(is_number, below)), is_number(cell)
            if numbers == (0 if number else len(below)):
                return []
            columns += [i] if number or (cell and cell in map(str.strip, below)) else []
        return columns


def _roles(table: TableRows, options: ReadOptions, file: str) -> dict[str, list[str]]:
    names, columns = table.names, options.columns
    _check_first_row(table, options, file)
    roles = _usual_roles(table, options, file)
    for role in ("text", "label"):
        if not roles[role] and len(table.typed.get(role, ())) == 1 and (role == "text" or options.labelled):
            roles[role] = [*table.typed[role]]
    if not table.headed and columns.keys().isdisjoint({"label", "text", "target"}) and len(names) > 1:
        roles["label"] = names[:1]
    for role, column in columns.items():
        if role in options.named or role in ("text", "numbers") or (role == "label" and options.labelled):
            roles[role] = _named_columns(role, column, table, file, role not in options.named)
        elif role == "id" and column in names:
            roles[role] = [str(column)]
    if columns.keys().isdisjoint({"text", "numbers"}) and (not table.headed or len(names) == 1):
        others = {name for role, role_names in roles.items() if role != "text" for name in role_names}
        roles["text"] = [name for name in names if name not in others]
    for other in ("numbers", "label") if options.labelled else ("numbers",):
        if both := set(roles["text"]) & set(roles[other]):
            raise InputError(f"{file}: the column {min(both)!r} is named twice: --text and --{other}")
    if not roles["text"] and not roles["numbers"]:
        numbers = ",".join(table.typed.get("numbers", ()))
        remedy = f"Numbers alone: --numbers {numbers} --kernel gaussian; or name" if numbers else "Name"
        raise InputError(
            f"{file}: which column is the text? {remedy} it with --text: {', '.join(names[:20])}"
        )
    return roles


def _check_first_row(table: TableRows, options: ReadOptions, file: str) -> None:
    """Raise InputError if nothing shows whether the first row is a header."""
    if table.headed or options.header is not None:
        return
    columns_of_data = table.columns_of_data()
    if not (columns_of_data if options.columns else 0 in columns_of_data):
        remedy = _header_below(table) or (
            "add --table header=yes or header=no, and name the columns of texts and labels with --text and "
            f"--label, by number without a header{_separator_remedy(table)}"
        )
        first = ", ".join(map(repr, table.first[:20]))
        raise InputError(f"{file}: is its first line a header? It has {first}; {remedy}")


def _header_below(table: TableRows) -> str:
    """Advice for a table whose first rows have fewer cells than one below them."""
    rows = ((sum(map(bool, row)), -line, row) for _, line, row in table.lookahead[:TITLES])
    filled, line, cells = max(rows, default=(0, 0, ()))
    if filled <= sum(map(bool, table.first)):
        return ""
    return f"row {-line} may be it ({first_few(cells)}): name its columns, or add --table header={-line}"


def _usual_roles(table: TableRows, options: ReadOptions, file: str) -> dict[str, list[str]]:
    """The first column with a usual name for each role; the other candidates are decisions."""
    lowered = {name.strip().lower(): name for name in reversed(table.names)} if table.headed else {}
    usual = {role: [lowered[name] for name in USUAL.get(role, ()) if name in lowered] for role in _ROLES}
    spellings, unread = Counter(name.strip().lower() for name in table.first or table.names), list[str]()
    for role in ("text", "label") if options.labelled else ("text",):
        if role in options.columns:
            continue
        if usual[role] and spellings[usual[role][0].strip().lower()] > 1:
            raise InputError(f"{file} has several columns {usual[role][0]!r}; {_RENAME}")
        unread += usual[role][1:]
    options.decide(unread=tuple(sorted(unread)))
    return {role: candidates[:1] for role, candidates in usual.items()}


def _folded(name: str) -> str:
    """A name without the differences of case and white space."""
    return " ".join(name.casefold().split())


def _separator_remedy(table: TableRows) -> str:
    """Advice for a table with a single column whose name holds a separator."""
    separator = next(
        (mark for mark in delimited.DELIMITERS if len(table.first) == 1 and mark in table.first[0]), None
    )
    return f"; its separator seems to be {separator!r}: --table separator={separator}" if separator else ""


def _named_columns(
    role: str, column: str | Sequence[str], table: TableRows, file: str, recorded: bool
) -> list[str]:
    """The columns of a role by their names in the table; InputError if a column is missing or ambiguous."""
    names = table.names
    columns, whole = [], [column] if isinstance(column, str) else column
    several = role in ("text", "numbers", "label")
    parts = (name.split(",") if several and name not in names else [name] for name in whole)
    for name in map(str.strip, chain.from_iterable(parts)):
        if name in table.repeated:
            raise InputError(f"{file} has several columns {name!r}; {_RENAME}")
        if name in names:
            columns.append(name)
        elif (spaced := " ".join(name.split())) in names and spaced not in table.repeated:
            columns.append(spaced)
        elif name.isdecimal() and 1 <= int(name) <= len(names):
            columns.append(names[int(name) - 1])
        elif not table.first and name.partition(".")[0] in names:  # a path in nested objects
            columns.append(name)
        else:
            close = [other for other in names if _folded(other) == _folded(name)]
            close = close or get_close_matches(name, names[:1000], 1, 0.5)  # it is slow for many names
            remedy = f", which the model was trained on; name another with --{role}" if recorded else ""
            remedy += _separator_remedy(table) or (f"; did you mean {close[0]!r}" if close else "")
            if not close and table.first and USUAL_NAMES.isdisjoint(map(str.lower, names)):
                below = _header_below(table)
                remedy += f"; {below or 'name columns by number if the first line is not a header'}"
            available = ", ".join(names[:20])
            raise InputError(
                f"{file} has no column {name!r} for the {role}{remedy}; its {len(names)} columns are: "
                f"{available}"
            )
    if len({*columns}) < len(columns):
        raise InputError(f"{file}: --{role} {','.join(columns)} names a column twice; name it once")
    return columns


# Formats. Without options, the first row is a header if a cell is a usual or a recorded name.


def _read_csv(file: File, options: ReadOptions, problems: Problems, tsv: bool = False) -> TableRows:
    layout, notes = delimited.detect_layout(file, options, tsv), list[str]()
    notes += [f"lines above the header that are left out: {layout.skipped:,}"] * (layout.skipped > 0)
    notes += ['quotes in quoted fields are written \\", as Spark and MySQL write them'] * layout.escaped
    if tsv and layout.quote and options.quote is None and not file.head.startswith(b'"'):
        notes.append("quotes enclose cells; --table quote=none reads them as text")
    problems += [(file.name, note) for note in notes]
    rows = (delimited.csv_rows if layout.quote else delimited.plain_rows)(file, layout, problems)
    format = "csv" if layout.quote else "tsv"
    return _table(file, rows, options, problems, format=format, delimiter=layout.delimiter)


def _table(
    file: File, rows: Iterator[CellRow], options: ReadOptions, problems: Problems, unit: str = "line",
    **form: Any,
) -> TableRows:  # fmt: skip
    """A table of rows of cells; `form` are attributes of its `TableForm`, empty for none."""
    _require_content(file)
    above, start, rows = _header_row(file, rows, options, problems)
    first = [" ".join(cell.split()) for cell in start[2]]
    first = [bare if (bare := cell.lstrip("# ")).lower() in USUAL_NAMES else cell for cell in first]
    peeked = list(islice(rows, min(ROWS_FOR_NAMES, file.lookahead_rows or ROWS_FOR_NAMES)))
    rows, lookahead, below = chain(peeked, rows), list[CellRow](), [cells for *_, cells in peeked]
    types = [_ORANGE.fullmatch(cell) for cell in first]
    if of_orange := any(match and (match[1] or match[2]) for match in types) and options.header is not False:
        first = [match[3] if match else cell for match, cell in zip(types, first, strict=True)]
    usual = USUAL_NAMES | options.names_in(options.recorded)
    has_names = bool(options.header_names) or any(x in usual or x.lower() in USUAL_NAMES for x in first)
    headed = of_orange or (has_names if options.header is None else options.header is not False)
    if headed:
        if _begin_with_names(first, below, form.get("delimiter")):
            first.insert(0, "row.names")
            problems.append((file.name, "the rows begin with their names, for which the header has no name"))
    else:
        lookahead = list(islice(rows, _LOOKAHEAD if file.lookahead_rows is None else file.lookahead_rows))
        rows = chain([start], lookahead, rows)
    names = _unique_names(first) if headed else [str(i + 1) for i in range(len(first))]
    repeated = {name for name, count in Counter(first).items() if headed and name and count > 1}
    text = "".join(row.raw for *_, row in [*above, start]) if headed else ""
    n_further = n_header_lines(below, names) if headed else 0
    source = TableForm(file, names, start[1] if headed else 0, text, **form)

    def named_rows() -> Iterator[NamedRow]:
        for k, (number, line, cells) in enumerate(rows):
            row = SourceRow(cells, source, line) if form and options.keep_rows else None
            if k < n_further:
                yield number, line, InvalidRow(HEADER_LINE, row=row)
            elif len(cells) == len(names):
                yield number, line, row or dict(zip(names, cells, strict=True))
            else:
                reason = f"it has {len(cells)} fields and not {len(names)}"
                total = len(cells) < len(names) and is_total(next(filter(str.strip, cells), ""))
                yield number, line, InvalidRow(TOTALS if total else reason, not total, row)

    typed: dict[str, list[str]] = {"label": [], "text": [], "numbers": []}
    for name, match in zip(names, types, strict=False) if of_orange else ():
        role = "label" if match and match[1] == "c" else match and _ORANGE_TYPES.get(match[2])
        if match and role and match[1] != "i":
            typed[role].append(name)
    separator = form.get("delimiter")
    ahead = lookahead or peeked
    table = TableRows(names, headed, named_rows(), unit, first, repeated, ahead, separator=separator)
    return replace(table, typed=typed)


def _begin_with_names(header: Sequence[str], rows: Sequence[Cells], delimiter: str | None) -> bool:
    """Whether each row begins with its name, for which the header has no cell, as R writes them.

    A row has a cell more than the header, too, if a text or a number such as 1,5 lacks quotes.
    """
    names = [row[0] for row in rows if len(row) == len(header) + 1]
    if len({*names}) < len(rows) or not (len(rows) > 1 or "1" in names):
        return False
    numbered = all(map(str.isdecimal, names))
    in_quotes = all(row.raw.lstrip().startswith('"') for row in rows)
    if (numbered and in_quotes) or delimiter is None:
        return True
    columns = [*zip(*rows, strict=True)][numbered and names == [*map(str, range(1, len(rows) + 1))] :]
    digits = [all(re.fullmatch(r"[-+]?\d+", cell) for cell in column) for column in columns]
    split = (delimiter == "," and any(map(all, pairwise(digits)))) or any(
        cell.startswith(" ") for row in rows for cell in row
    )
    return (numbered or in_quotes) and not split and header[0].lower() not in _NUMBER_NAMES


def _header_row(
    file: File, rows: Iterator[CellRow], options: ReadOptions, problems: Problems
) -> tuple[list[CellRow], CellRow, Iterator[CellRow]]:
    """Rows above the first row of a table, which is its header or data, that row, and the others.

    The header is the row of the options, or the first with all columns that are named, or, below rows that
    have few cells, the first with usual names of a text and a label.
    """
    peeked, place = list(islice(rows, min(TITLES, file.lookahead_rows or TITLES))), 0
    if not peeked:
        raise InputError(f"{file.name} has no rows: every line is a comment, or stands above the header")
    if type(options.header) is int:
        while peeked[-1][1] < options.header and (row := next(rows, None)):
            peeked.append(row)
        place = next((i for i, row in enumerate(peeked) if row[1] == options.header), -1)
        if place < 0:
            raise InputError(f"{file.name} has no header in row {options.header}: no row begins there")
    elif options.header is not False and (names := options.header_names):
        cells = [{*map(_folded, row)} for *_, row in peeked]
        named = [len(row & {*map(_folded, names)}) for row in cells]
        place = named.index(max(named))
    elif options.header is None:
        filled, usual = [sum(map(bool, row)) for *_, row in peeked], (USUAL["text"], USUAL["label"])
        cells = [{cell.strip().lower() for cell in row} for *_, row in peeked]
        place = next((i for i, row in enumerate(cells) if not any(map(row.isdisjoint, usual))), 0)
        place = place if all(2 * n <= filled[place] for n in filled[:place]) else 0
    if place:
        line = peeked[place][1]
        problems.append((file.name, f"row {line} is the header; rows above it are left out: {place}"))
    return peeked[:place], peeked[place], chain(peeked[place + 1 :], rows)


def _unique_names(header: Sequence[str]) -> list[str]:
    """The names of columns; a column with an empty or repeated name is called by its number."""
    names, unique = list(header), set[str]()
    for i, name in enumerate(names):
        if not name or name in unique:
            names[i] = str(i + 1)
        unique.add(names[i])
    return names


def _read_arff(file: File, options: ReadOptions, problems: Problems) -> TableRows:
    lines, names = enumerate(iterate_lines(file, problems), 1), list[str]()
    typed: dict[str, list[str]] = {"label": [], "text": [], "numbers": []}
    for n, line in lines:
        match = _ATTRIBUTE.match(line)
        if not match and line.strip().lower().startswith("@attribute"):
            raise InputError(f"{file.name}, line {n}: an attribute needs a name and a type")
        if match:
            names.append(exports.unquoted(match[1]))
            role = {"{": "label", "s": "text", "d": ""}.get(match[2].lower(), "numbers")
            typed.get(role, []).append(names[-1])
        if line.strip().lower() == "@data":
            break
    rows = ((n, n, _arff_row(file, n, line)) for n, line in lines if line.strip() and line.lstrip()[0] != "%")
    table = _table(file, chain([(0, 0, Cells(names))], rows), replace(options, header=True), problems)
    return replace(table, typed=typed)


def _arff_row(file: File, number: int, line: str) -> Cells:
    row = f"{line.strip()},"
    if row.startswith("{") or not re.fullmatch(f"(?:{_ARFF_CELL})+", row):
        raise InputError(
            f"{file.name}, line {number} is no row of ARFF with all attributes; sparse rows are not read: "
            "save it as CSV"
        )
    texts = map(str.strip, re.findall(_ARFF_CELL, row))
    return Cells("" if text == "?" else exports.unquoted(text) for text in texts)


def _require_content(file: File) -> None:
    if not decode(file.head)[0].strip():
        raise InputError(f"{file.name} is empty")


def _read_jsonl(file: File, options: ReadOptions, problems: Problems) -> TableRows:
    lines = enumerate(iterate_lines(file, problems), 1)
    rows = ((number, number, _parsed(line)) for number, line in lines if line.strip())
    return _of_json(file, rows, options, problems, "line")


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _read_json(file: File, options: ReadOptions, problems: Problems) -> TableRows:
    """JSON: an array of objects or arrays, or a data frame."""
    try:
        value = json.loads("".join(iterate_lines(file, problems)))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file.name} cannot be read as JSON: {error}") from error
    records = value if isinstance(value, list) else _records(value, options)
    if records is None:
        raise InputError(f"{file.name} must hold an array of objects, one object per document")
    return _of_json(file, ((n, n, row) for n, row in enumerate(records, 1)), options, problems, "row")


def _of_json(
    file: File, rows: Iterator[tuple[int, int, Any]], options: ReadOptions, problems: Problems, unit: str
) -> TableRows:
    """Rows that are objects or arrays; columns are the keys of the first `lookahead_rows` objects."""
    ahead, names, count = list[tuple[int, int, Any]](), dict[str, None](), 0
    for row in rows:
        ahead.append(row)
        arrays = isinstance(row[2], list) and not names
        if arrays and (unit == "row" or all(isinstance(cell, str) for cell in row[2])):
            values = ((n, line, x if isinstance(x, list) else ()) for n, line, x in chain(ahead, rows))
            cells = ((n, line, Cells(_string(value) or "" for value in row)) for n, line, row in values)
            return _table(file, cells, options, problems, unit)
        count += isinstance(row[2], dict)
        names |= dict.fromkeys(row[2] if isinstance(row[2], dict) else ())
        if count == file.lookahead_rows:
            break
    if not names:
        _require_content(file)
        raise InputError(f"{file.name} holds no JSON object; JSON Lines has one on every line")
    odd = InvalidRow("it is not a JSON object")
    named = ((n, line, row if isinstance(row, dict) else odd) for n, line, row in chain(ahead, rows))
    return TableRows([*names], True, named, unit)


def _records(value: Any, options: ReadOptions) -> list[Any] | None:
    """The rows of a data frame as pandas writes it (split, table, columns, index), or of the only array."""
    members = list(value.values()) if isinstance(value, dict) else []
    if members and isinstance(names := value.get("columns"), list) and isinstance(value.get("data"), list):
        return [dict(zip(names, row, strict=False)) for row in value["data"]]
    arrays = [rows for rows in members if isinstance(rows, list) and rows and isinstance(rows[0], dict)]
    if len(arrays) == 1:
        return arrays[0]
    if members and all(isinstance(column, list) for column in members):
        if len({*map(len, members)}) > 1:
            return None
        return [dict(zip(value, row, strict=True)) for row in zip(*members, strict=True)]
    if not members or not all(isinstance(column, dict) for column in members):
        return None
    index = dict.fromkeys(name for column in members for name in column)
    usual = USUAL_NAMES | {name for name in options.columns.values() if isinstance(name, str)}
    if not usual.isdisjoint(value) or (usual.isdisjoint(index) and len(value) <= len(index)):
        return [{name: column.get(row) for name, column in value.items()} for row in index]
    return members


def _read_excel(file: File, options: ReadOptions, problems: Problems) -> TableRows:
    """Sheets of a spreadsheet, which have the same columns."""
    sheets, others = delimited.read_sheets(file, options, problems)
    tables = [
        _table(file, sheet.rows, options, problems, "row", sheet=sheet.name, left=sheet.left)
        for sheet in sheets
    ]
    if any((table.names, table.headed) != (tables[0].names, tables[0].headed) for table in tables):
        raise InputError(
            f"{file.name}: the sheets differ in their columns; read them one by one with --sheet"
        )
    rows: Iterable[NamedRow] = chain.from_iterable(table.rows for table in tables)
    if len(tables) > 1:  # the rows of all sheets are numbered, for their ids
        rows = ((number, line, row) for number, (_, line, row) in enumerate(rows, 1))
    place = f" (sheet {sheets[0].name!r}; others, for --sheet: {others})" if others else ""
    return replace(tables[0], rows=rows, sheet=place)


def _read_references(file: File, options: ReadOptions, problems: Problems) -> TableRows:
    """References of RIS and EndNote: a column for each tag, and titles and abstracts as the text."""
    records, tag = list[dict[str, str]](), ""
    for line in map(str.strip, iterate_lines(file, problems)):
        match = _TAG.match(line)
        tag, value = (match[1] or match[2], (match[3] or "").strip()) if match else (tag, line)
        records += [{}] if match and (tag in ("TY", "%0") or not records) else []
        if value and records and tag != "ER":
            between = "; " if match else " "  # keywords have a line each, and long values several
            records[-1][tag] = between.join(filter(None, (records[-1].get(tag), value)))
    rows = [{"text": "\n".join(row[x] for x in _TEXT_TAGS if x in row), **row} for row in records]
    names = list(dict.fromkeys(chain.from_iterable(rows)))
    return TableRows(names, True, ((n, n, row) for n, row in enumerate(rows, 1)), "record")


def _read_arrow(file: File, options: ReadOptions, problems: Problems) -> TableRows:
    """Parquet, Arrow's files and streams, and Feather, with PyArrow, which is not a dependency."""
    try:
        import pyarrow  # type: ignore[import-not-found, unused-ignore]
        from pyarrow import feather, ipc, parquet
    except ImportError as error:
        raise InputError(f"{file.name} is Parquet or Arrow and needs PyArrow: pip install pyarrow") from error
    try:
        if file.head.startswith(b"PAR1"):
            table = _parquet_table(file, pyarrow, parquet)
        else:
            if file.head.startswith(b"FEA1"):
                table = feather.read_table(io.BytesIO(file.data))
            else:
                table = _arrow_table(file, pyarrow, ipc)
            table.validate(full=True)  # offsets of damaged files may lie outside
        names = table.column_names
    except InputError:
        raise
    except (pyarrow.ArrowException, OSError, ValueError, TypeError, OverflowError, MemoryError) as error:
        raise InputError(f"{file.name} cannot be read as Parquet or Arrow: {error}") from error
    if len(set(names)) < len(names):
        raise InputError(f"{file.name} cannot be read as Parquet or Arrow: two columns have one name")
    columns = [_parquet_values(file, name, table.column(i)) for i, name in enumerate(names)]
    classes = _class_names(table.schema.metadata or {})
    for i, name in enumerate(names):
        if name in classes and name != options.target:
            columns[i] = [_class_of(file, name, value, classes[name]) for value in columns[i]]
    values = enumerate(zip(*columns, strict=True), 1)
    return TableRows(names, True, ((n, n, dict(zip(names, row, strict=True))) for n, row in values), "row")


def _class_names(metadata: Mapping[bytes, bytes]) -> dict[str, list[str]]:
    """Names of the classes of columns of numbers in the metadata of Hugging Face's datasets."""

    def names(feature: Any) -> Any:
        feature = feature[0] if isinstance(feature, list) and feature else feature
        return feature.get("names") or names(feature.get("feature")) if isinstance(feature, dict) else None

    try:
        features = json.loads(metadata.get(b"huggingface", b"{}")).get("info", {}).get("features", {})
        classes = {name: names(feature) for name, feature in features.items()}
        return {name: list(map(str, own)) for name, own in classes.items() if own}
    except (ValueError, TypeError, AttributeError, RecursionError):
        return {}


def _class_of(file: File, name: str, value: object, names: list[str]) -> Any:
    """The name of a class, or of a list of classes; a missing class is -1."""
    if isinstance(value, list):
        return [_class_of(file, name, item, names) for item in value]
    if value is None or value == -1:
        return None
    if not isinstance(value, int) or not 0 <= value < len(names):
        raise InputError(f"{file.name}: {name!r} is {value!r}, and its {len(names)} classes count from 0")
    return names[value]


def _arrow_table(file: File, pyarrow: Any, ipc: Any) -> Any:
    """The table of a file or stream of Arrow, in batches whose size is bounded."""
    data, batches, unpacked = io.BytesIO(file.data), [], 0
    is_file = file.head.startswith(b"ARROW1")
    stored = ipc.open_file(data) if is_file else ipc.open_stream(data)
    for batch in map(stored.get_batch, range(stored.num_record_batches)) if is_file else stored:
        unpacked += batch.nbytes
        check_expansion(file.name, unpacked, file.size)
        batches.append(batch)
    return pyarrow.Table.from_batches(batches, stored.schema)


def _parquet_table(file: File, pyarrow: Any, parquet: Any) -> Any:
    """The table of a Parquet file; a page of a hundred bytes may hold millions of long values."""
    stored = parquet.ParquetFile(io.BytesIO(file.data))
    groups = [stored.metadata.row_group(i) for i in range(stored.metadata.num_row_groups)]
    check_expansion(file.name, sum(max(0, group.total_byte_size) for group in groups), file.size)
    schema = stored.schema_arrow
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
    from pyarrow import DictionaryArray, compute

    if not isinstance(column, DictionaryArray):
        return int(column.nbytes)
    lengths = compute.take(compute.binary_length(column.dictionary), column.indices)
    return 4 * len(column) + int(compute.sum(lengths).as_py() or 0)


def _parquet_values(file: File, name: str, column: Any) -> list[Any]:
    try:
        return list(column.to_pylist())
    except UnicodeDecodeError as error:
        raise InputError(
            f"{file.name}: {name!r} is called text and is not UTF-8; write it as UTF-8"
        ) from error
    except (ValueError, OverflowError, TypeError, LookupError, ImportError) as error:
        raise InputError(f"{file.name}: {name!r} has a value that cannot be read: {error}") from error


_READERS: dict[str, Callable[[File, ReadOptions, Problems], TableRows]] = {
    "arff": _read_arff,
    "csv": _read_csv,
    "tsv": partial(_read_csv, tsv=True),
    "jsonl": _read_jsonl,
    "json": _read_json,
    "excel": _read_excel,
    "parquet": _read_arrow,
    "arrow": _read_arrow,
    "references": _read_references,
}
