"""Predictions beside the rows of an input table, whose other cells, form and encoding stay."""

from __future__ import annotations

import csv
import io
import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any, BinaryIO

from textsvm.arrays import Json
from textsvm.errors import InputError, first_few
from textsvm.readers.charsets import byte_order_mark, decode
from textsvm.readers.corpus import NumberCell
from textsvm.readers.delimited import SourceRow, TableForm
from textsvm.reporting.tables import DIALECTS, fill, line_of, quoted, write_table

_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,14})(?:\.\d+)?")  #: Label that a spreadsheet shows as it is written


@dataclass
class LabelledRows:
    """Rows of the input with columns for the predictions; the first row decides the columns and the form."""

    stream: BinaryIO
    say: Callable[[str], object]  #: Called with notes
    written: Callable[[], object]  #: Called before each line of CSV and TSV
    format: str
    added: Sequence[str]  #: Names of the values of the predictions
    labels: Sequence[str]  #: All labels that may occur
    whole: bool = True  #: Whether all rows of the input are written
    separator: str = ""  #: Of CSV that is made from a spreadsheet; by default a comma
    comma: bool = False  #: Whether numbers have a decimal comma, which those of CSV may have by themselves
    _inputs: Sequence[str] = ()  #: Columns of the input; none before the first row
    _names: Sequence[str] = ()  #: Added columns
    _form: TableForm | None = None  #: Form of the input, if it is CSV or TSV and the output keeps it
    _charset: str = "utf-8"
    _end: str = "\n"
    _pending: str = ""  #: Line end that the last line lacks
    _collected: list[tuple[Json, Mapping[str, Any]]] = field(default_factory=list)

    def write(self, row: Json, cells: Mapping[str, object] | None) -> None:
        """Write or collect the values of a document with its `cells` in the input, None if it is no row."""
        row, cells = dict(_flat(row)), {"id": row["id"]} if cells is None else cells
        if not self._inputs:
            self._begin(cells)
        if lost := cells.keys() - set(self._inputs):
            raise InputError(
                f"the columns of the output are those of the first table, and {row['id']} also has "
                f"{first_few(sorted(map(repr, lost)))}; predict the tables one by one"
            )
        values = [self._cell(row.get(name)) for name in self.added]
        if self.format not in DIALECTS:
            self._collected.append((dict(zip(self._names, values, strict=True)), cells))
        elif self._form and isinstance(cells, SourceRow) and cells.form.dialect == self._form.dialect:
            self._print(self._extended(cells.raw, cells.fields, values))
        else:
            inputs = [
                str(x).replace(".", ",") if self.comma and isinstance(x, NumberCell) else x
                for x in map(cells.get, self._inputs)
            ]
            self._print(self._line([*inputs, *values]) + self._end)

    def close(self) -> None:
        """Write the collected rows, or a table without rows."""
        if not self._inputs:
            self._begin({"id": None})
        forms = [cells.form for _, cells in self._collected if isinstance(cells, SourceRow)]
        same = self.whole and len(forms) == len(self._collected) and all(form is forms[0] for form in forms)
        if self.format == "xlsx" and forms and same and b"xl/workbook.xml" in forms[0].file.data:
            self._extend_workbook(forms[0])
        elif self.format not in DIALECTS:
            columns = [*self._inputs, *self._names]
            cell = partial(cell_for, self.format)
            rows = ({x: cell(y) for x, y in cells.items()} | values for values, cells in self._collected)
            write_table(self.stream, self.format, columns, rows)

    def _begin(self, cells: Mapping[str, object]) -> None:
        form, names = cells.form if isinstance(cells, SourceRow) else None, list[str]()
        self._inputs = list(form.names if form else cells)
        taken = {name.strip().casefold() for name in self._inputs}
        for name in self.added:
            free = (f"predicted_{name}" + f"_{n}" * (n > 1) for n in count(1))
            names.append(name if name not in taken else next(new for new in free if new not in taken))
        self._names = names
        if names != list(self.added):
            self.say(f"note: some names are in the table; the new columns are {', '.join(names)}")
        if form and self.format in DIALECTS and form.delimiter not in ("", ","):
            number = re.compile(rb'[;|\t]"?-?\d+,\d+"?[;|\t\r\n]')
            self.comma = number.search(form.file.head.replace(b"\0", b"")) is not None
        if form and form.format == self.format:
            self._keep_form(form)
        elif form and (form.format, self.format) == ("excel", "csv"):
            self.stream.write(BOM_UTF8)  # without it, Excel takes letters for those of another encoding
            if not self.separator:
                self.say(
                    "note: commas separate the cells of the CSV, and numbers have points; for others: "
                    "--table separator=semicolon --table decimal=comma"
                )
        if form and not form.header_line:
            self.say(f"note: the table has no header; {' and '.join(names)} are its last columns")
        elif self._form:
            self._print(self._extended(self._form.header, self._form.names, names))
        elif self.format in DIALECTS:
            self._print(self._line([*self._inputs, *names]) + self._end)

    def _keep_form(self, form: TableForm) -> None:
        """Keep the form of a table in the output; InputError if its encoding cannot write a label."""
        head = form.file.head  # without the last line, which may end within a letter
        mark, self._charset = byte_order_mark(head)
        if not mark and decode(head[: head.rfind(b"\n") + 1] or head)[1]:
            self._charset = "cp1252"
        self._charset = form.file.charset or self._charset
        lacking = (x for x in self.labels if x.encode(self._charset, "ignore").decode(self._charset) != x)
        if (label := next(lacking, None)) is not None:
            raise InputError(
                f"the label {label!r} cannot be written in {self._charset}, the encoding of "
                f"{form.file.name}; name a .jsonl or .xlsx file, or convert the table to UTF-8"
            )
        self._form, self._end = form, _end_of(form.header) or "\n"
        self.stream.write(mark)

    def _extended(self, raw: str, cells: Sequence[str], values: Sequence[object]) -> str:
        """The text of a row and `values`, quoted if all its cells are; a row with too many is unchanged."""
        if len(cells) > len(self._inputs):
            return raw
        end, text = _end_of(raw), raw.removesuffix(_end_of(raw))
        every = self.format == "csv" and text.lstrip("\r\n") == self._delimiter.join(map(quoted, cells))
        padding = [""] * (len(self._inputs) - len(cells))
        added = self._line(values, csv.QUOTE_ALL if every else None)
        return self._delimiter.join([text, *padding, added]) + end

    def _cell(self, value: object) -> object:
        """A value in the form of the table; in workbooks, labels that are all numbers are numbers."""
        if self.comma and self.format in DIALECTS and isinstance(value, float):
            return str(value).replace(".", ",")
        classes = self.labels[:-2]
        if self.format == "xlsx" and value in classes and all(map(_NUMBER.fullmatch, classes)):
            return float(str(value)) if "." in str(value) else int(str(value))
        return value

    @property
    def _delimiter(self) -> str:
        own = self.separator if self.format == "csv" else ""
        return self._form.delimiter if self._form else own or DIALECTS[self.format][0]

    def _line(self, cells: Sequence[object], quoting: int | None = None) -> str:
        return line_of(cells, self._delimiter, DIALECTS[self.format][1] if quoting is None else quoting)

    def _print(self, text: str) -> None:
        """Print text in the encoding of the table, or in UTF-8 if the encoding lacks a character."""
        text, self._pending = self._pending + text, "" if _end_of(text) else self._end
        try:
            data = text.encode(self._charset, "textsvm-windows-1252")
        except UnicodeEncodeError:
            data = text.encode("utf-8", "backslashreplace")
        self.written()
        self.stream.write(data)

    def _extend_workbook(self, form: TableForm) -> None:
        from openpyxl import load_workbook

        book = load_workbook(io.BytesIO(form.file.data), rich_text=True)
        sheet, column = book[form.sheet], form.left + len(form.names)
        lines = [(cells.line, row) for row, cells in self._collected if isinstance(cells, SourceRow)]
        for line, values in [(form.header_line, {name: name for name in self._names}), *lines]:
            for place, value in enumerate(values.values() if line else (), column + 1):
                fill(sheet, line, place, value)
                if line == form.header_line:
                    old, new = (sheet.cell(line, k) for k in (column, place))
                    new._style = copy(old._style)
        if any(cell.data_type == "f" for row in sheet.iter_rows() for cell in row):
            self.say("note: its formulas have no values until a spreadsheet program opens the file")
        if b"xl/charts/" in form.file.data or b"xl/media/" in form.file.data:
            self.say(f"note: charts and pictures of {form.file.name} are not in the output")
        book.save(self.stream)


def cell_for(format: str, cell: object) -> object:
    """A cell of an input for a table of a format; numbers of a spreadsheet are numbers in Excel."""
    return float(cell) if format == "xlsx" and isinstance(cell, NumberCell) else cell


def _end_of(raw: str) -> str:
    return raw[len(raw.rstrip("\r\n")) :]


def _flat(row: Json) -> Iterator[tuple[str, object]]:
    for name, value in row.items():
        if name == "top":
            for number, label in enumerate(value, 1):
                yield from ((f"{key}_{number}", item) for key, item in label.items())
        elif isinstance(value, dict):
            yield from ((f"{name}_{key}", item) for key, item in value.items())
        else:
            yield name, value
