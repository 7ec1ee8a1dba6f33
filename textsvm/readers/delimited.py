"""Rows of CSV, TSV and spreadsheets: format and layout of a file, detected from its beginning, and its cells.

In TSV quotes are ordinary characters, unless the first rows show that they enclose cells: an unclosed quote
in a text would otherwise swallow all rows up to the next quote. CSV follows RFC 4180; its delimiter is the
symbol of `,`, `;`, TAB and `|` that splits most of the first rows into as many fields, and into the most.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, time
from importlib import import_module
from importlib.util import find_spec
from itertools import chain, islice, pairwise
from typing import Any, NamedTuple
from zipfile import ZipFile

from textsvm.errors import InputError, first_few
from textsvm.readers.charsets import decode
from textsvm.readers.corpus import MISSING, USUAL, NumberCell, ReadOptions, is_value
from textsvm.readers.files import HEAD, MAX_LINE, File, Problems, iterate_lines

DELIMITERS = ",;\t|"
#: Names of separators, quotes and decimal marks in options.
NAMED = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "pipe": "|", "point": ".", "none": ""}
#: First line of Excel that names the separator.
SEPARATOR_LINE = re.compile(r'\s*"?sep=(.)"?\1*[ \t]*(?:\r\n?|\n)', re.IGNORECASE)
#: Comments and empty lines above a header.
_COMMENTS = re.compile(r'(?:#.*\n|"#[^"\n]*"[,;\t|]*\r?\n|[^\S\n]*\n)+')
#: A line whose cells are all in quotes, as in the header of R's write.table.
_QUOTED = re.compile(r'"[^"\n]*"(?:([\t ,;|])"[^"\n]*")(?:\1"[^"\n]*")*\r?\n')
#: Characters that Spark, MySQL and PostgreSQL write after a backslash.
_ESCAPED = re.compile(r'\\(["\\\r\n])')
TITLES = 20  #: First rows that may be titles above the header
_LONGEST_NAME = 40  #: Symbols of a column below titles
_FEW_ROWS = 9  #: Rows whose cells in quotes may be chance
#: Cells of Excel's XML with errors, formulas without a value, and hidden rows.
_ODD_CELL = re.compile(rb'<c [^>]*t="e"|</f>(<v ?/>|<v></v>)?</c>|<row [^>]*hidden="(1|true)"')
#: Types and roles of columns in the further lines of Orange's header.
_TYPES = {"s", "string", "d", "discrete", "c", "continuous", "t", "time"}
_ROLES = {"", "class", "m", "meta", "i", "ignore", "w", "weight"}
ROWS_FOR_NAMES = 10  #: Rows that show whether each row begins with its name, as R writes them
USUAL_NAMES = frozenset(name for names in USUAL.values() for name in names)


class Cells(list[str]):
    """Cells of a row; `raw` is its text in CSV and TSV, with its line end and empty lines before it."""

    raw = ""


@dataclass(frozen=True)
class TableForm:
    """Form of a table of CSV, TSV or a spreadsheet, for output that keeps it."""

    file: File
    names: Sequence[str]
    header_line: int  #: 0 without a header
    header: str  #: Text of the header of CSV and TSV
    format: str = "excel"  #: "csv", "tsv" or "excel"
    delimiter: str = ""  #: Of CSV and TSV
    sheet: str = ""
    left: int = 0  #: First column of the sheet, from 0

    @property
    def dialect(self) -> tuple[str, str, int]:
        """Equal for tables whose rows can be written below each other as they are."""
        return self.header, self.delimiter, len(self.names)


class SourceRow(dict[str, Any]):
    """Cells of a row by name, the form of its table, the number of its line, and its text (`Cells.raw`)."""

    def __init__(self, cells: Cells, form: TableForm, line: int) -> None:
        super().__init__(zip(form.names, cells, strict=False))
        self.form, self.line, self.raw, self.fields = form, line, cells.raw, cells


@dataclass(frozen=True)
class InvalidRow:
    """A row that cannot be split into fields."""

    reason: str
    ragged: bool = False  #: Whether it has too few or too many fields
    row: SourceRow | None = None


#: Number of a row, the line on which it begins (spreadsheets, Parquet and JSON: the number), and its cells.
CellRow = tuple[int, int, Cells]


def n_header_lines(rows: Sequence[Cells], names: Sequence[str]) -> int:
    """Number of the first rows that are further lines of the header, as types or the questions of a survey.

    They have Qualtrics' ids, types and roles of Orange, or words in all of several columns of numbers or
    dates; not the header again.
    """
    if len(rows) > 2 and _TYPES.issuperset(rows[0]) and _ROLES.issuperset(rows[1]):
        return 2
    for n, row in enumerate(rows[:2], 1):
        if any(cell.startswith('{"ImportId"') for cell in row):
            return n
    if len(rows) < ROWS_FOR_NAMES or 2 * len({*names} & {*rows[0]}) > len(names):
        return 0
    above = [cell for cell, *below in zip(*rows, strict=False) if all(map(is_value, below))]
    words = all(re.search(r"[^\W\d_]", x) and not is_value(x) and x.lower() not in MISSING for x in above)
    return int(len({*above}) > 1 and words)


def header_format(head: str, options: ReadOptions) -> str | None:
    """The format of a table if its header has the text columns, else None.

    Text columns are those of the options or of a model, also below titles. Without them, the first line must
    have a usual name of a text column and of a label column.
    """
    text = options.columns.get("text")
    named = text.split(",") if isinstance(text, str) else text or ()
    columns = {name.strip().casefold() for name in named}
    if any(name.isdecimal() for name in columns):
        return None
    above = _COMMENTS.match(head)
    lines = head[above.end() if above else 0 :].split("\n", TITLES)
    lines = [*filter(str.strip, lines if columns else lines[:2]), ""]
    for number, (line, row) in enumerate(pairwise(lines)):
        quoted = _QUOTED.match(f"{line}\n")
        for delimiter in quoted[1] if quoted else DELIMITERS:  # columns may be words of a text
            around = '"\r' if number else '" \r\ufeff'
            cells = {cell.strip(around).casefold() for cell in line.split(delimiter)}
            full = row.count(delimiter) >= line.count(delimiter) and max(map(len, cells)) <= _LONGEST_NAME
            full |= number == 0 and (options.text is not None or '"' in row)
            usual = all(cells & {*USUAL[role]} for role in ("text", "label"))
            if full and len(cells) > 1 and (cells >= columns if columns else usual and row):
                return "tsv" if delimiter == "\t" else "csv"
    return None


class CsvLayout(NamedTuple):
    """Layout of a CSV or TSV file, detected from its beginning."""

    delimiter: str
    skipped: int  #: Lines above the header
    escaped: bool  #: Whether quotes in a cell are written \\"
    quote: str = '"'  #: Symbol that encloses cells; "" for none


def detect_layout(file: File, options: ReadOptions, tsv: bool) -> CsvLayout:
    """The layout of a file, by the options, or by its beginning."""
    quote, delimiter = (NAMED.get(name or "", name) for name in (options.quote, options.separator))
    if len(quote or "") > 1 or len(delimiter or ";") != 1:
        raise InputError(f"separator={delimiter!r}, quote={quote!r}: a separator and a quote are one symbol")
    data = file.head
    head, cut = decode(data)[0], len(data) == HEAD
    head = (head[: head.rfind("\n") + 1] if cut else "") or head
    if line := SEPARATOR_LINE.match(head):
        delimiter, skipped, rest, encloses = delimiter or line[1], 1, head[line.end() :], True
    else:
        above = match[0] if (match := _COMMENTS.match(head)) and "#" in match[0] else ""
        rest = head[len(above) :]
        quoted = _QUOTED.match(rest)
        delimiter = delimiter or (quoted[1] if quoted else "\t" if tsv else _delimiter(rest))
        first, skipped = next(_head_rows(rest, delimiter), []), above.count("\n")
        named = {name.lower() for name in options.columns.values() if isinstance(name, str)}
        if {cell.strip().lower() for cell in first}.isdisjoint(USUAL_NAMES | named):
            rows = _head_rows(above, delimiter)  # a line of as many cells is the header, or a row
            skipped = next((i for i, row in enumerate(rows) if len(row) == len(first)), skipped)
        encloses = not tsv or quoted is not None or _has_quotes(rest, delimiter, cut)
    quote = quote if quote is not None else '"' if encloses else ""
    escaped = quote == '"' and '\\"' in rest  # with fewer damaged rows if \" is read as a quote
    escaped = escaped and _damage(rest, delimiter, cut) > _damage(_unescaped(rest), delimiter, cut)
    return CsvLayout(delimiter, skipped, escaped, quote)


def _delimiter(head: str) -> str:
    """The delimiter that splits most of the first rows into as many fields, then into the most.

    Of equal ones, a blank follows it the least, as in texts.
    """

    def fields(delimiter: str) -> tuple[float, int, int]:
        with suppress(csv.Error):
            widths = Counter(len(row) for row in islice(_head_rows(head, delimiter), 20) if row)
            width = max(widths, key=lambda width: (width > 1, widths[width], width), default=1)
            share = widths[width] / widths.total() if width > 1 else 0
            return share, width, -head.count(f"{delimiter} ") if share else 0
        return 0, 0, 0

    return max(DELIMITERS, key=fields)


def _has_quotes(head: str, delimiter: str, cut: bool) -> bool:
    """Whether quotes enclose cells: rows become equal in width, or a whole column is in quotes."""
    lines = [line.split(delimiter) for line in re.split("[\r\n]+", head) if line]
    quoted = [[cell.startswith('"') for cell in line] for line in lines]
    plain = _odd(Counter(map(len, lines)))
    if not any(map(any, quoted)) or (damage := _damage(head, delimiter, cut)) > plain:
        return False
    doubled = any('""' in cell[1:-1] for line in lines for cell in line if cell.startswith('"'))
    columns = zip(*quoted[1:], strict=False) if len(lines) > _FEW_ROWS else ()
    return doubled or damage < plain or any(map(all, columns))


def _head_rows(head: str, delimiter: str, strict: bool = False) -> Iterator[list[str]]:
    return _limited(csv.reader(io.StringIO(head, newline=""), delimiter=delimiter, strict=strict))


def _damage(head: str, delimiter: str, cut: bool) -> float:
    """Number of rows with more or fewer fields than most; infinite if quotes are invalid."""
    widths = Counter[int]()
    try:
        for row in _head_rows(head, delimiter, strict=True):
            widths[len(row)] += 1
    except csv.Error as error:
        if not cut or "end of data" not in str(error):
            return float("inf")
    return _odd(widths)


def _odd(widths: Counter[int]) -> int:
    """Number of rows that have more or fewer fields than most."""
    del widths[0]
    return widths.total() - max(widths.values(), default=0)


def _unescaped(line: str) -> str:
    return _ESCAPED.sub(lambda match: '""' if match[1] == '"' else match[1], line)


def plain_rows(file: File, layout: CsvLayout, problems: Problems) -> Iterator[CellRow]:
    """Rows without quotes that are not empty."""
    raw = ""
    for number, line in enumerate(iterate_lines(file, problems), 1):
        raw += line
        if number > layout.skipped and line.strip("\r\n"):
            cells = Cells(line.removesuffix("\n").removesuffix("\r").split(layout.delimiter))
            cells.raw, raw = raw, ""
            yield number, number, cells


def _reader(lines: Iterable[str], layout: CsvLayout, strict: bool) -> Iterator[list[str]]:
    return _limited(csv.reader(lines, delimiter=layout.delimiter, quotechar=layout.quote, strict=strict))


def csv_rows(file: File, layout: CsvLayout, problems: Problems) -> Iterator[CellRow]:
    """Rows of CSV that are not empty.

    Rows are read strictly. A line with an invalid quote is read leniently, and the first is reported in
    `problems`. Raises InputError if a quote is never closed, or a row of several lines has an invalid quote.
    """
    texts = iterate_lines(file, problems, "")
    lines, number, damaged = _Lines(texts, _unescaped if layout.escaped else str), 0, False
    deque(islice(lines, layout.skipped), 0)
    while not lines.ended:
        start = lines.count + 1  # the line on which the row begins
        try:
            for row in _reader(lines, layout, True):
                number += 1
                if row:
                    yield number, start, lines.cells(row)
                start = lines.count + 1
        except csv.Error as error:
            fields: list[str] = []
            if not lines.ended and lines.count == start:
                with suppress(csv.Error):  # of a line that is too long
                    last = _unescaped(lines.last) if '\\"' in lines.last else lines.last
                    fields = next(_reader(chain([last], lines), layout, False), [])
            if lines.ended or lines.count > start or not fields:
                end = "is never closed" if lines.ended else f"runs up to line {lines.count} ({error})"
                raise InputError(
                    f'{file.name}, line {start}: a quote (") was opened and {end}, so the rows cannot be '
                    "separated; correct the quotes, or add --table quote=none if they are ordinary"
                ) from error
            if not damaged:
                place, damaged = f"{file.name}, line {start}", True
                problems.append((place, "a quote inside a quoted field is not doubled"))
            number += 1
            yield number, start, lines.cells(fields)


class _Lines:
    """Lines with their count, and whether a reader has asked for more lines than there are."""

    def __init__(self, lines: Iterable[str], convert: Callable[[str], str]) -> None:
        self._lines, self.count, self.last, self.ended = iter(lines), 0, "", False
        self._convert = convert
        self._read: list[str] = []  #: Lines since the last row

    def __iter__(self) -> Iterator[str]:
        for line in self._lines:
            self.last, self.count = line, self.count + 1
            self._read.append(line)
            yield self._convert(line)
        self.ended = True

    def cells(self, fields: list[str]) -> Cells:
        """The fields of the row whose lines were read last."""
        row = Cells(fields)
        row.raw = self._read[0] if len(self._read) == 1 else "".join(self._read)
        self._read.clear()
        return row


def _limited(rows: Iterator[list[str]]) -> Iterator[list[str]]:
    """Rows, with `MAX_LINE` as the largest field of module csv, a global setting, while one is read."""
    while True:
        before = csv.field_size_limit(MAX_LINE)
        try:
            row = next(rows, None)
        finally:
            csv.field_size_limit(before)
        if row is None:
            return
        yield row


# Spreadsheets


class Sheet(NamedTuple):
    """Cells of a sheet; rows have the numbers that a spreadsheet program shows."""

    name: str
    left: int  #: First column, from 0
    rows: Iterator[CellRow]


def read_sheets(file: File, options: ReadOptions, problems: Problems) -> tuple[list[Sheet], str]:
    """The sheets of a spreadsheet that are read, by default the first visible, and names of others."""
    try:
        from python_calamine import CalamineError, CalamineWorkbook, SheetVisibleEnum
    except ImportError as error:
        raise InputError(
            f"{file.name} is a spreadsheet, which needs python-calamine (pip install python-calamine); or "
            "save it as CSV"
        ) from error
    try:
        book = CalamineWorkbook.from_filelike(io.BytesIO(file.data))
        sheets = {name: book.get_sheet_by_name(name) for name in book.sheet_names}
        hidden = {sheet.name for sheet in book.sheets_metadata if sheet.visible != SheetVisibleEnum.Visible}
    except (CalamineError, ValueError, OSError) as error:
        raise InputError(f"{file.name} cannot be read as a spreadsheet: {error}") from error
    filled = [name for name, sheet in sheets.items() if sheet.height]
    if not filled:
        raise InputError(f"{file.name} is a spreadsheet without any cells")
    visible = [name for name in filled if name not in hidden] or filled
    wanted = options.sheet or visible[0]
    number = int(wanted) if wanted.isdecimal() and wanted not in sheets else 0
    names = [list(sheets)[number - 1] if 1 <= number <= len(sheets) else wanted]
    names = visible if wanted == "all" not in sheets else names
    if names[0] not in filled:
        there = ", ".join(sheets)
        raise InputError(f"{file.name} has no cells in a sheet {wanted!r}; its sheets are: {there}")
    others = ", ".join(f"{name!r}{' (hidden)' * (name in hidden)}" for name in filled if name not in names)
    if others and options.sheet is None:
        problems.append((file.name, f"the sheet {wanted!r} is read; --sheet reads another: {others}"))
    return [_sheet(file, name, sheets[name], problems) for name in names], others


def _sheet(file: File, name: str, sheet: Any, problems: Problems) -> Sheet:
    """A sheet whose cells become objects of Python row by row, or all at once if some are merged."""
    (top, left), filled = sheet.start, 0
    cells: Iterable[list[Any]] = islice(_values(file, sheet), top, None)
    if sheet.merged_cell_ranges:
        cells = whole = [*cells]
        for (row, column), (last, _) in sheet.merged_cell_ranges:
            for below in whole[row - top + 1 : last - top + 1]:
                below[column - left] = whole[row - top][column - left]
                filled += 1
    merged = [f"merged cells are filled with their value: {filled:,}"] * (filled > 0)
    problems += [(file.name, note) for note in (*merged, *_odd_cells(file, name))]
    rows = ((n, Cells(map(_cell, row))) for n, row in enumerate(cells, top + 1))
    return Sheet(name, left, ((n, n, row) for n, row in rows if any(row)))


def _values(file: File, sheet: Any) -> Iterator[list[Any]]:
    """Cells of all rows from the first, in the columns of the sheet; InputError for a number of no date."""
    try:
        yield from sheet.iter_rows()
    except (import_module("python_calamine").CalamineError, ArithmeticError, ValueError, OSError) as error:
        raise InputError(f"{file.name} cannot be read as a spreadsheet: {error}") from error


def _odd_cells(file: File, name: str) -> Iterator[str]:
    """Notes on cells with errors, formulas without a value and hidden rows of Excel's XML."""
    if b"xl/workbook.xml" not in file.data or find_spec("openpyxl") is None:
        return
    with ZipFile(io.BytesIO(file.data)) as archive:
        parts = (archive.read(part) for part in archive.namelist() if part.startswith("xl/worksheets/"))
        if not any(_ODD_CELL.search(part) for part in parts):
            return
    load, odd = import_module("openpyxl").load_workbook, dict[str, list[str]]()
    sheet, values = (load(io.BytesIO(file.data), data_only=values)[name] for values in (False, True))
    for cell in chain.from_iterable(sheet.iter_rows()):
        if cell.data_type == "e":
            odd.setdefault(f"error cell {cell.value}, read as empty", []).append(cell.coordinate)
        elif cell.data_type == "f" and values[cell.coordinate].value is None:
            odd.setdefault("formula without a value, read as empty", []).append(cell.coordinate)
    hidden = [str(row) for row, form in values.row_dimensions.items() if form.hidden]
    odd |= {"rows that are hidden, as by a filter, and are read": hidden} if hidden else {}
    for kind, places in odd.items():
        yield f"{kind}: {len(places):,} ({first_few(places)})"


def _cell(value: object) -> str:
    """Text of a cell; spreadsheets store integers as floats."""
    if isinstance(value, float | int) and not isinstance(value, bool):
        return NumberCell(int(value) if float(value).is_integer() else value)
    return value.isoformat() if isinstance(value, date | time) else str(value)
