"""Tables: CSV, TSV, JSON Lines, Parquet -> documents, one a row.

Columns are given by name or by number from 1; several columns of text (`title,body`) are joined by
line breaks. Not given, they are found by the usual names (`text`, `label`, `id`, `split`, ...). A CSV
or TSV has a header line if a column was named, or if one of its cells is such a usual name; without
header and columns, the first column is the label and the others are the text.

TSV is split on TAB only: a quote is a character like any other (a quote opened in an essay would
otherwise swallow the rows up to the next one). CSV follows RFC 4180, its delimiter `,`, `;`, TAB or `|`.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import PurePosixPath
from typing import Any

from textsvm.errors import InputError
from textsvm.parallel import Progress
from textsvm.readers.archives import File
from textsvm.readers.charsets import decode
from textsvm.readers.corpus import Document, Label
from textsvm.readers.folders import part_of

FORMATS = ("csv", "tsv", "jsonl", "parquet")
_USUAL = {
    "text": ("text", "body", "content", "message", "document", "review", "essay", "sentence", "comment", "tweet"),
    "label": ("label", "class", "category", "target", "topic", "sentiment", "labels", "y"),
    "id": ("id", "doc_id", "document_id", "essay_id", "newid", "uid"),
    "part": ("part", "split"),
}
_DELIMITERS = (",", ";", "\t", "|")
_SUFFIXES = {".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}

Row = tuple[int, Mapping[str, Any]]


@dataclass(frozen=True)
class Columns:
    """Which columns the user named: names, numbers from 1, several of them with commas."""

    text: str | None = None
    label: str | None = None
    id: str | None = None


def format_of(name: str, head: str) -> str | None:
    """The table format of a file by its name, or JSON Lines by its content; None if it is no table."""
    first = head.lstrip().split("\n", 1)[0]
    if first.startswith("{"):
        try:
            if isinstance(json.loads(first), dict):
                return "jsonl"
        except ValueError:
            pass
    return _SUFFIXES.get(PurePosixPath(name).suffix.lower())


def read(
    files: Sequence[File],
    problems: list[tuple[str, str]],
    format: str | None = None,
    columns: Columns = Columns(),  # noqa: B008 - frozen
    *,
    progress: Progress | None = None,
) -> Iterator[Document]:
    """The rows of tables.

    Parameters
    ----------
    files : sequence of File
        A file named after a part (`train.csv`) is that part, unless a column says otherwise.
    problems : list of (str, str)
        Gets what is damaged or left out: file and row, sentence.
    format : {"csv", "tsv", "jsonl", "parquet"}, optional
        By each file's name or content if not given.
    columns : Columns
    progress : callable, optional
        Called with (bytes read, bytes in all).

    Raises
    ------
    InputError
        If a column is not there, the text column cannot be told, or a file is no such table.
    """
    total, done = sum(len(file.data) for file in files), 0
    for file in files:
        chosen = format or format_of(file.name, decode(file.data[:4096])[0]) or "csv"
        names, rows = _READERS[chosen](file, columns, problems)
        place = {role: _find(role, getattr(columns, role, None), names, file.name) for role in _USUAL}
        if not place["text"]:
            place["text"] = _text_columns(names, place["label"], file.name)
        for number, row in rows:
            document = _document(file, number, row, place, problems, prefix=len(files) > 1)
            if document is not None:
                yield document
        done += len(file.data)
        if progress is not None:
            progress(done, total)


def _document(
    file: File,
    number: int,
    row: Mapping[str, Any],
    place: dict[str, list[str]],
    problems: list[tuple[str, str]],
    prefix: bool,
) -> Document | None:
    texts = [row.get(name) for name in place["text"]]
    if all(text is None for text in texts):
        problems.append((f"{file.name}, row {number}", f"left out: it has no {place['text'][0]!r}"))
        return None
    identifier = _string(row.get(place["id"][0])) if place["id"] else None
    if identifier is None:
        identifier = f"{file.name}:{number}" if prefix else str(number)
    label = _label(row.get(place["label"][0])) if place["label"] else None
    part = _string(row.get(place["part"][0])) if place["part"] else part_of(file.name)
    return Document(identifier, "\n".join(_string(text) or "" for text in texts if text is not None), label, part)


def _string(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (bool, list, dict)) else str(value)


def _label(value: Any) -> Label | None:
    if isinstance(value, (list, tuple)):
        return tuple(_string(each) or "" for each in value)
    text = _string(value)
    return None if text is None or not text.strip() else text.strip()


def _find(role: str, wish: str | None, names: Sequence[str], file: str) -> list[str]:
    """The columns that play a role: those wished, else the first with a usual name, else none."""
    if wish is None:
        lowered = {name.strip().lower(): name for name in reversed(names)}
        return [lowered[usual] for usual in _USUAL[role] if usual in lowered][:1]
    if wish in names:
        return [wish]
    found = []
    for each in wish.split(",") if role == "text" else [wish]:
        each = each.strip()
        if each in names:
            found.append(each)
        elif each.isdecimal() and 1 <= int(each) <= len(names):
            found.append(names[int(each) - 1])
        else:
            close = get_close_matches(each, names, 3, 0.5)
            there = ", ".join([*close, *(name for name in names if name not in close)][:20])
            raise InputError(f"{file} has no column {each!r} for the {role}; its {len(names)} columns are: {there}")
    return found


def _text_columns(names: Sequence[str], label: list[str], file: str) -> list[str]:
    """Without a usual name: all columns but the label of a table without header, or the only one."""
    if names and names[0] == "1":
        return [name for name in names if name not in label] or list(names)
    if len(names) == 1:
        return list(names)
    there = ", ".join(map(str, names[:20]))
    raise InputError(f"{file}: which column is the text? Name it with text=; the columns are: {there}")


def _csv(file: File, columns: Columns, problems: list[tuple[str, str]]) -> tuple[list[str], Iterator[Row]]:
    text = _decoded(file, problems)
    delimiter = _delimiter(text)
    return _with_header(file, list(_csv_rows(file, text, delimiter, problems)), columns, problems)


def _csv_rows(
    file: File, text: str, delimiter: str, problems: list[tuple[str, str]]
) -> list[tuple[int, list[str]]]:
    limit = csv.field_size_limit(2**31 - 1)
    try:
        for strict in (True, False):
            reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=strict)
            try:
                return [(number, row) for number, row in enumerate(reader, 1) if row]
            except csv.Error as error:
                line = reader.line_num
                if "unexpected end" in str(error):
                    raise InputError(
                        f'{file.name}: a quote (") is opened and never closed, so the rows up to line {line} '
                        "cannot be told apart; if quotes are ordinary characters there, read it as tsv"
                    ) from error
                if not strict:
                    raise InputError(f"{file.name}, line {line}: {error}") from error
                problems.append((f"{file.name}, line {line}", "a quote inside a quoted field is not doubled"))
    finally:
        csv.field_size_limit(limit)
    raise AssertionError("unreachable")


def _delimiter(text: str) -> str:
    """The delimiter that gives the first rows the most fields that they all have."""
    head = text[:65536]
    if len(text) > len(head):
        head = head[: head.rfind("\n") + 1] or head

    def fields(delimiter: str) -> int:
        limit = csv.field_size_limit(2**31 - 1)
        try:
            rows = [row for _, row in zip(range(20), csv.reader(io.StringIO(head, newline=""), delimiter=delimiter))]  # noqa: B905
        except csv.Error:
            return 0
        finally:
            csv.field_size_limit(limit)
        counts = [len(row) for row in rows if row]
        return min(counts, default=0)

    return max(_DELIMITERS, key=fields)


def _tsv(file: File, columns: Columns, problems: list[tuple[str, str]]) -> tuple[list[str], Iterator[Row]]:
    lines = _decoded(file, problems).split("\n")
    rows = [(n, line.removesuffix("\r").split("\t")) for n, line in enumerate(lines, 1) if line.strip("\r")]
    return _with_header(file, rows, columns, problems)


def _with_header(
    file: File, rows: list[tuple[int, list[str]]], columns: Columns, problems: list[tuple[str, str]]
) -> tuple[list[str], Iterator[Row]]:
    if not rows:
        raise InputError(f"{file.name} is empty")
    first = [cell.strip() for cell in rows[0][1]]
    usual = {name for names in _USUAL.values() for name in names}
    wished = {each.strip() for wish in (columns.text, columns.label, columns.id) if wish for each in wish.split(",")}
    named = any(not each.isdecimal() for each in wished)
    if named or any(cell.lower() in usual for cell in first):
        names, rows = first, rows[1:]
        for number, name in enumerate(names):  # a second column of one name, or none, goes by its number
            if not name or name in names[:number]:
                names[number] = str(number + 1)
        return names, _rows(file, names, rows, problems)
    names = [str(number + 1) for number in range(len(first))]
    if columns.label is None and columns.text is None and len(names) > 1:
        return names, _rows(file, names, rows, problems, label_first=True)
    return names, _rows(file, names, rows, problems)
