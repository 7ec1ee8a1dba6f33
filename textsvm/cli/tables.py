"""Tables that commands write: the suffix of a file decides the format, and standard output is JSON Lines."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from textsvm.arrays import Json
from textsvm.cli.console import WrongUsage, json_line
from textsvm.cli.output import STDOUT, TABLES, Kind, Output
from textsvm.errors import InputError

#: Libraries that write a format, which are no dependencies.
_WRITERS = {"xlsx": "openpyxl", "parquet": "pyarrow"}
#: Delimiter and quotes.
DIALECTS = {"csv": (",", csv.QUOTE_MINIMAL), "tsv": ("\t", csv.QUOTE_NONE)}
#: Header of a file that may be replaced.
_HEADER = (
    rb'[^\n]*labels?"?[,;\t|]"?(predicted_)?confidence|id[,\t](truth|neighbour|label[,\t]suggested)[,\t]'
)
#: Most symbols of a cell of Excel.
_MOST_SYMBOLS = 32_767


def table_kind(option: str, path: Path, kind: Kind, requested: str | None = None) -> Kind:
    """The kind of an output in the format of its suffix; `requested` is for other names and stdout."""
    known = None if path == STDOUT else TABLES.get(path.suffix.lower())
    if known and requested not in (None, known):
        raise WrongUsage(f"{option} {path} and --output-format {requested} do not go together; leave one out")
    if path != STDOUT and not (known or requested):
        suffixes = ", ".join(TABLES)
        raise WrongUsage(f"{option} {path}: the suffix decides the format, and must be one of {suffixes}")
    format = known or requested or "jsonl"
    if format in _WRITERS:  # nothing at the beginning tells who wrote it
        if find_spec(library := _WRITERS[format]) is None:
            raise InputError(f"{option} {path} needs {library} (pip install {library}); or name a .csv file")
        return replace(kind, name=f"certain to be {kind.name}", beginning=rb"(?!)", format=format)
    beginning = _HEADER if format in DIALECTS else rb"(\[\s*)?" + kind.beginning
    return replace(kind, name=f"{kind.name} as {format.upper()}", beginning=beginning, format=format)


def write_rows(output: Output, columns: Sequence[str], rows: Iterable[Json]) -> None:
    """Write rows in the format of the output."""
    with output.printing():
        print_rows(output.kind.format, columns, rows)


def print_rows(format: str, columns: Sequence[str], rows: Iterable[Json]) -> None:
    """Write rows in a format to stdout; JSON Lines, CSV and TSV line by line."""
    sys.stdout.flush()
    if format in _WRITERS:
        (_write_workbook if format == "xlsx" else _write_parquet)(columns, list(rows))
        return
    for line in _lines(format, columns, rows):
        sys.stdout.buffer.write(line.encode("utf-8", "backslashreplace"))


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
    """A line without its end. In TSV, without quotes, a TAB or a line break within a cell becomes a space."""
    texts = [_cell(cell) for cell in cells]
    if quoting == csv.QUOTE_NONE:
        return delimiter.join(" ".join(text.replace("\t", "\n").splitlines()) for text in texts)
    line, settings = io.StringIO(), {"quoting": quoting, "lineterminator": ""}
    csv.writer(line, delimiter=delimiter, **settings).writerow(texts)  # type: ignore[arg-type]
    return line.getvalue()


def _cell(value: object) -> str:
    """Text of a cell; the labels of a list are separated by semicolons."""
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ";".join(value)
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False)
    return "" if value is None else str(value)


def _write_parquet(columns: Sequence[str], rows: list[Json]) -> None:
    import pyarrow  # type: ignore[import-not-found, unused-ignore]
    from pyarrow import parquet

    try:
        table = pyarrow.table({name: [row.get(name) for row in rows] for name in columns})
    except (pyarrow.ArrowException, TypeError, OverflowError) as error:
        raise InputError(f"Parquet has no column with values of several types: {error}") from error
    parquet.write_table(table, sys.stdout.buffer)


def _write_workbook(columns: Sequence[str], rows: list[Json]) -> None:
    from openpyxl import Workbook

    book = Workbook()
    for number, row in enumerate([dict(zip(columns, columns, strict=True)), *rows], 1):
        for column, name in enumerate(columns, 1):
            fill(book.active, number, column, row.get(name))
    book.save(sys.stdout.buffer)


def fill(sheet: Any, row: int, column: int, value: object) -> None:
    """Set a cell of a sheet of Excel; texts are never formulas."""
    from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE

    number = value is None or isinstance(value, bool | int | float)
    text = "" if number else ILLEGAL_CHARACTERS_RE.sub("\ufffd", _cell(value))
    if row > 1 << 20 or column > 1 << 14 or len(text) > _MOST_SYMBOLS:
        raise InputError(
            f"row {row} does not fit into Excel: 1,048,576 rows, 16,384 columns and {_MOST_SYMBOLS:,} symbols"
            " in a cell are the most; name a .csv file"
        )
    cell = sheet.cell(row, column, value if number else text)
    if not number:
        cell.data_type = "s"
