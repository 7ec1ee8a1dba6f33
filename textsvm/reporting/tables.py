"""Rows of results as JSON Lines, JSON, CSV, TSV, Excel and Parquet. Light to import."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from numbers import Number
from typing import TYPE_CHECKING, Any, BinaryIO

from textsvm.errors import InputError, json_escaped

if TYPE_CHECKING:
    from textsvm.arrays import Json  # imports NumPy, which help does not need

WRITERS = {"xlsx": "openpyxl", "parquet": "pyarrow"}  #: Libraries that write a format, no dependencies
DIALECTS = {"csv": (",", csv.QUOTE_MINIMAL), "tsv": ("\t", csv.QUOTE_NONE)}  #: Delimiter and quotes
_NOT_IN_EXCEL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")  #: Characters that no cell of Excel may have
_MOST_SYMBOLS = 32_767  #: Most symbols of a cell of Excel
#: Texts that a spreadsheet would run as a formula, with or without apostrophes before them.
_FORMULA = re.compile(r"'*[\s\x00-\x1f\ufeff]*[=+@\-＝＋＠－].", re.DOTALL)
_NUMBER = re.compile(r"\s*[+-]?[\d.,]*\d[.,]?([eE][+-]?\d+)?%?\s*", re.ASCII)
_BREAKS = re.compile(r"\r\n?|[\t\n\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")  #: No part of a cell of TSV


def json_line(value: Json | str) -> str:
    """JSON value as a line of a UTF-8 file."""
    return json_escaped(json.dumps(value, ensure_ascii=False)) + "\n"


def write_table(
    stream: BinaryIO, format: str, columns: Sequence[str], rows: Iterable[Json],
    written: Callable[[], object] | None = None,
) -> None:  # fmt: skip
    """Write rows in a format; `written` is called after each line of JSON Lines, CSV and TSV."""
    if format == "xlsx":
        _write_workbook(stream, columns, list(rows))
    elif format == "parquet":
        _write_parquet(stream, columns, list(rows))
    else:
        for line in _lines(format, columns, rows):
            stream.write(line.encode("utf-8", "backslashreplace"))
            if written is not None:
                written()


def _lines(format: str, columns: Sequence[str], rows: Iterable[Json]) -> Iterator[str]:
    if format == "jsonl":
        yield from map(json_line, rows)
    elif format == "json":
        yield "[\n" + ",\n".join(json_line(row).rstrip("\n") for row in rows) + "\n]\n"
    else:
        yield line_of(columns, *DIALECTS[format]) + "\n"
        for row in rows:
            yield line_of([row.get(name) for name in columns], *DIALECTS[format]) + "\n"


def line_of(cells: Sequence[object], delimiter: str, quoting: int) -> str:
    """A line without its end; texts that a spreadsheet would run as a formula get an apostrophe.

    In CSV, texts with a line break, also a lone carriage return, are quoted. In TSV, without quotes, a TAB or
    a line break within a cell becomes a space.
    """
    texts = [_cell(cell) if isinstance(cell, Number) else _guarded(_cell(cell)) for cell in cells]
    if quoting == csv.QUOTE_NONE:
        return delimiter.join(_BREAKS.sub(" ", text) for text in texts)
    every, special = quoting == csv.QUOTE_ALL or texts == [""], {delimiter, *'"\r\n'}
    return delimiter.join(text if not every and special.isdisjoint(text) else quoted(text) for text in texts)


def quoted(text: str) -> str:
    """A text as a quoted field of CSV."""
    return '"' + text.replace('"', '""') + '"'


def _guarded(text: str) -> str:
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def restored(text: str) -> str:
    """The text of a cell that `line_of` has written."""
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text


def _cell(value: object) -> str:
    """Text of a cell; the labels of a list are separated by semicolons."""
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ";".join(value)
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False)
    return "" if value is None else str(value)


def _write_parquet(stream: BinaryIO, columns: Sequence[str], rows: list[Json]) -> None:
    from pyarrow import ArrowException, parquet, table  # type: ignore[import-not-found, unused-ignore]

    try:
        arrow = table({name: [row.get(name) for row in rows] for name in columns})
    except (ArrowException, TypeError, OverflowError) as error:
        raise InputError(f"Parquet has no column with values of several types: {error}") from error
    parquet.write_table(arrow, stream)


def _write_workbook(stream: BinaryIO, columns: Sequence[str], rows: list[Json]) -> None:
    from openpyxl import Workbook

    book = Workbook()
    for number, row in enumerate([dict(zip(columns, columns, strict=True)), *rows], 1):
        for column, name in enumerate(columns, 1):
            fill(book.active, number, column, row.get(name))
    book.save(stream)


def fill(sheet: Any, row: int, column: int, value: object) -> None:
    """Set a cell of a sheet of Excel; texts are never formulas."""
    number = value is None or isinstance(value, bool | int | float)
    text = "" if number else _NOT_IN_EXCEL.sub("\ufffd", _cell(value))
    if row > 1 << 20 or column > 1 << 14 or len(text) > _MOST_SYMBOLS:
        raise InputError(
            f"row {row} does not fit into Excel: 1,048,576 rows, 16,384 columns and {_MOST_SYMBOLS:,} symbols"
            " in a cell are the most; name a .csv file"
        )
    cell = sheet.cell(row, column, value if number else text)
    if not number:
        cell.data_type = "s"
