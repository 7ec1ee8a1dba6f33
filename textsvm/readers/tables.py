"""Tables: CSV, TSV, JSON Lines, Parquet -> documents, one a row.

Columns are given by name or by number from 1; several columns of text (`title,body`) are joined by
line breaks, those that are asked for one by one stay apart, beside columns of numbers. Not given, they are
found by the usual names (`text`, `label`, `id`, `split`, ...); columns of numbers to be predicted, of weights
and of groups are read only if they are named. A CSV or TSV has
a header line if a column was named, or if one of its cells is such a usual name; without header and
columns, the first column is the label and the others are the text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from math import isfinite
from pathlib import PurePosixPath
from typing import Any

from textsvm.errors import InputError
from textsvm.readers.charsets import decode
from textsvm.readers.corpus import Document, Label
from textsvm.readers.folders import part_of
from textsvm.readers.opened import File
from textsvm.readers.rows import READERS, Problems, Table
from textsvm.runtime.parallel import Progress

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
class Columns:
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


ANY_COLUMNS = Columns()


def format_of(name: str, head: str) -> str | None:
    """The table format of a file: JSON Lines by its content, others by the name; None if it is no table."""
    first = head.lstrip().split("\n", 1)[0]
    if first.startswith("{"):
        try:
            if isinstance(json.loads(first), dict):
                return "jsonl"
        except (ValueError, RecursionError):
            pass
    return _SUFFIXES.get(PurePosixPath(name).suffix.lower())


def read(
    files: Sequence[File],
    problems: Problems,
    format: str | None = None,
    columns: Columns = ANY_COLUMNS,
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
    columns : Columns
    label_separator : str, optional
        A document may have several labels: what stands between those of a cell.
    progress : callable, optional
        Called with (bytes read, bytes in all).

    Raises
    ------
    InputError
        If a column is not there, the text column cannot be told, or a file is no such table.
    """
    total, done = sum(file.size for file in files), 0
    for file in files:
        chosen = format or format_of(file.name, decode(file.head)[0]) or "csv"
        table = READERS[chosen](file, _ALL_USUAL, columns.named, problems)
        roles = _roles(table, columns, file.name)
        for number, row in table.rows:
            if roles["text"] and all(row.get(name) is None for name in roles["text"]):
                problems.append((f"{file.name}, row {number}", f"left out: it has no {roles['text'][0]!r}"))
            else:
                document = _document(row, roles, number, file.name, len(files) > 1)
                if columns.apart:
                    document = document._replace(columns=_apart(row, roles, f"{file.name}, row {number}"))
                yield document if label_separator is None else parted(document, label_separator)
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
        return number_of(first(role), f"{file}, row {number}: the {role}", needed) if roles[role] else None

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
        name: number_of(row.get(name), f"{where}: {name!r}", needed=True) or 0.0 for name in roles["numbers"]
    }
    return texts | numbers


def parted(document: Document, separator: str) -> Document:
    """With a tuple of labels; the empty one where the cell is empty."""
    label = document.label or ""
    pieces = label.split(separator) if isinstance(label, str) else label
    return document._replace(label=tuple(dict.fromkeys(each.strip() for each in pieces if each.strip())))


def number_of(value: Any, what: str, needed: bool) -> float | None:
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


def _roles(table: Table, columns: Columns, file: str) -> dict[str, list[str]]:
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
