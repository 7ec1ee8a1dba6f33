"""Rows of CSV and TSV: the format and layout of a file, detected from its beginning, and its cells.

TSV is split on TAB only, and quotes are ordinary characters: an unclosed quote in a text would otherwise
swallow all rows up to the next quote. CSV follows RFC 4180; its delimiter is the symbol of `,`, `;`, TAB and
`|` that splits the first rows into the most fields.
"""

from __future__ import annotations

import csv
import io
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain, islice
from typing import NamedTuple

from textsvm.errors import InputError
from textsvm.readers.charsets import decode
from textsvm.readers.corpus import USUAL, ReadOptions
from textsvm.readers.files import HEAD, MAX_LINE, File, Problems, iterate_lines

DELIMITERS = ",;\t|"
#: First line of Excel that names the separator.
SEPARATOR_LINE = re.compile(r'\s*"?sep=(.)"?\1*[ \t]*(?:\r\n?|\n)', re.IGNORECASE)
#: Comments and empty lines above a header.
_COMMENTS = re.compile(r'(?:#.*\n|"#[^"\n]*"[,;\t|]*\r?\n|[^\S\n]*\n)+')
#: A line whose cells are all in quotes, as in the header of R's write.table.
_QUOTED = re.compile(r'"[^"\n]*"(?:([\t ,;|])"[^"\n]*")(?:\1"[^"\n]*")*\r?\n')
#: Characters that Spark, MySQL and PostgreSQL write after a backslash.
_ESCAPED = re.compile(r'\\(["\\\r\n])')
USUAL_NAMES = frozenset(name for names in USUAL.values() for name in names)


class Cells(list[str]):
    """Cells of a row; `raw` is its text in CSV and TSV, with its line end and empty lines before it."""

    raw = ""


#: Number of a row, the line on which it begins (spreadsheets, Parquet and JSON: the number), and its cells.
CellRow = tuple[int, int, Cells]


def header_format(head: str, options: ReadOptions) -> str | None:
    """The format of a table if its first line has the text columns, else None.

    Text columns are those of the options or of a model. Without them, the line must have a usual name of a
    text column and of a label column.
    """
    text = options.columns.get("text")
    columns = {name.strip() for name in (text.split(",") if isinstance(text, str) else text or ())}
    if any(name.isdecimal() for name in columns):
        return None
    above = _COMMENTS.match(head)
    line, _, rest = head[above.end() if above else 0 :].partition("\n")
    row = rest.lstrip("\r\n").partition("\n")[0]
    quoted = _QUOTED.match(f"{line}\n")
    for delimiter in quoted[1] if quoted else DELIMITERS:  # columns may be words of a text; a table has rows
        cells = {cell.strip().strip('"') for cell in line.split(delimiter)}
        full = options.text is not None or '"' in row or row.count(delimiter) >= line.count(delimiter)
        usual = all({*map(str.lower, cells)} & {*USUAL[role]} for role in ("text", "label"))
        if full and len(cells) > 1 and (cells >= columns if columns else usual and row):
            return "tsv" if delimiter == "\t" else "csv"
    return None


class CsvLayout(NamedTuple):
    """Layout of a CSV or TSV file, detected from its beginning."""

    delimiter: str
    skipped: int  #: Lines above the header
    quoted: bool  #: Whether the cells of the first line are in quotes
    escaped: bool  #: Whether quotes in a cell are written \\"


def detect_layout(file: File, options: ReadOptions, delimiters: str) -> CsvLayout:
    """The layout of a file; `delimiters` are those that it may have."""
    data = file.head
    head, cut = decode(data)[0], len(data) == HEAD
    head = (head[: head.rfind("\n") + 1] if cut else "") or head
    if separator := SEPARATOR_LINE.match(head):
        return CsvLayout(separator[1], 1, False, _is_escaped(head[separator.end() :], separator[1], cut))
    above = match[0] if (match := _COMMENTS.match(head)) and "#" in match[0] else ""
    rest = head[len(above) :]
    quoted = _QUOTED.match(rest)
    delimiter = quoted[1] if quoted else _delimiter(rest, delimiters)
    first, skipped = next(_head_rows(rest, delimiter), []), above.count("\n")
    named = {name.lower() for name in options.columns.values() if isinstance(name, str)}
    if {cell.strip().lower() for cell in first}.isdisjoint(USUAL_NAMES | named):
        rows = _head_rows(above, delimiter)  # a line of as many cells is the header, or a row
        skipped = next((i for i, row in enumerate(rows) if len(row) == len(first)), skipped)
    return CsvLayout(delimiter, skipped, quoted is not None, _is_escaped(rest, delimiter, cut))


def report_layout(layout: CsvLayout, file: File, problems: Problems) -> CsvLayout:
    """Report unusual parts of a layout in `problems`; return the layout."""
    if layout.skipped:
        problems.append((file.name, f"lines above the header that are left out: {layout.skipped:,}"))
    if layout.escaped:
        problems.append((file.name, 'quotes in quoted fields are written \\", as Spark and MySQL write them'))
    return layout


def _delimiter(head: str, delimiters: str) -> str:
    """The delimiter that splits each of the first rows into the most fields."""

    def fields(delimiter: str) -> int:
        with suppress(csv.Error):
            counts = [len(row) for row in islice(_head_rows(head, delimiter), 20)]
            return min(filter(None, counts), default=0)
        return 0

    with _csv_field_limit(MAX_LINE):
        return max(delimiters, key=fields)


def _head_rows(head: str, delimiter: str, strict: bool = False) -> Iterator[list[str]]:
    """Rows of the beginning of a file."""
    return csv.reader(io.StringIO(head, newline=""), delimiter=delimiter, strict=strict)


def _is_escaped(head: str, delimiter: str, cut: bool) -> bool:
    """Whether more rows have as many fields as the first if \\" is read as a quote."""

    def damage(text: str) -> float:
        widths: list[int] = []
        try:
            for row in _head_rows(text, delimiter, strict=True):
                widths.append(len(row))
        except csv.Error as error:
            if not cut or "end of data" not in str(error):
                return float("inf")
        return sum(width != widths[0] for width in widths if width)

    return '\\"' in head and damage(head) > damage(_unescaped(head))


def _unescaped(line: str) -> str:
    """A line with doubled quotes in place of quotes after a backslash."""
    return _ESCAPED.sub(lambda match: '""' if match[1] == '"' else match[1], line)


def tsv_rows(file: File, skipped: int, problems: Problems) -> Iterator[CellRow]:
    """Rows of TSV that are not empty, below the first `skipped` lines."""
    raw = ""
    for number, line in enumerate(iterate_lines(file, problems), 1):
        raw += line
        if number > skipped and line.strip("\r\n"):
            cells = Cells(line.removesuffix("\n").removesuffix("\r").split("\t"))
            cells.raw, raw = raw, ""
            yield number, number, cells


def csv_rows(file: File, layout: CsvLayout, problems: Problems) -> Iterator[CellRow]:
    """Rows of CSV that are not empty.

    Rows are read strictly. A line with an invalid quote is read leniently, and the first is reported in
    `problems`. Raises InputError if a quote is never closed, or a row of several lines has an invalid quote.
    """
    texts, delimiter = iterate_lines(file, problems, ""), layout.delimiter
    lines, number, damaged = _Lines(texts, _unescaped if layout.escaped else str), 0, False
    deque(islice(lines, layout.skipped), 0)
    with _csv_field_limit(MAX_LINE):
        while not lines.ended:
            start = lines.count + 1  # the line on which the row begins
            try:
                for row in csv.reader(lines, delimiter=delimiter, strict=True):
                    number += 1
                    if row:
                        yield number, start, lines.cells(row)
                    start = lines.count + 1
            except csv.Error as error:
                fields: list[str] = []
                if not lines.ended and lines.count == start:
                    with suppress(csv.Error):  # of a line that is too long
                        last = _unescaped(lines.last) if '\\"' in lines.last else lines.last
                        fields = next(csv.reader(chain([last], lines), delimiter=delimiter), [])
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


@contextmanager
def _csv_field_limit(size: int) -> Iterator[None]:
    """Set the largest field of module csv, a global setting, during a block."""
    before = csv.field_size_limit(size)
    try:
        yield
    finally:
        csv.field_size_limit(before)
