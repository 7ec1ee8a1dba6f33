"""Reader of Reuters-21578, Distribution 1.0: SGML files `reut2-*.sgm`.

The files are Latin-1, with `<REUTERS TOPICS= LEWISSPLIT= CGISPLIT= OLDID= NEWID=>` around each document,
control characters as entities (`&#3;`), and the text in three forms: NORM (TITLE, DATELINE, BODY),
BRIEF (TITLE, and a row of stars) and UNPROC (text directly in TEXT). The text of a document is its title and,
on the next line, its body; without a body, the rest of TEXT.

Splits as in section VIII of the collection's README: ModApte, with TOPICS="YES" (9,603 train, 3,299 test),
and Lewis (ModLewis), with TOPICS="YES" or "NO" (13,625 train, 6,188 test). Other documents are in no part.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import unescape
from itertools import zip_longest

from textsvm.errors import InputError
from textsvm.readers.corpus import Document, ReadOptions
from textsvm.readers.files import File, Problems, with_progress
from textsvm.runtime.parallel import Progress

SPLITS = {"modapte": ("YES",), "lewis": ("YES", "NO")}
_START = re.compile(r"<REUTERS\b")
_ATTRIBUTE = re.compile(r'\b(\w{1,40})\s*=\s*"([^"<>]*)"')
_ENTITY = re.compile(r"&(#\d{1,7}|lt|gt|amp|quot|apos);")
# Files of the distribution without documents.
_ABOUT = re.compile(r"readme.*|lewis\.dtd|all-.*|cat-descriptions.*|feldman-.*", re.IGNORECASE)
# Content of a brief document besides its title.
_NO_BODY = re.compile(r"[*\s]*(Blah blah blah\.\s*)?")
_CONTROL = {code: None for code in [*range(32), *range(127, 160)] if code not in b"\t\n\r"}


def is_reuters(data: bytes) -> bool:
    """Whether a file is an SGML file of the collection."""
    return data[:2048].lstrip().upper().startswith((b"<!DOCTYPE LEWIS", b"<REUTERS "))


def read_reuters(
    files: Sequence[File], problems: Problems, options: ReadOptions, progress: Progress | None
) -> Iterator[Document]:
    """The documents of SGML files; `problems` gets damaged documents.

    Other files of the distribution are ignored, foreign files reported.
    """
    if options.split not in SPLITS:
        raise InputError(f"split={options.split!r} is unknown; it is one of {', '.join(SPLITS)}")
    for file in files:
        if not is_reuters(file.data) and not _ABOUT.fullmatch(file.name.rpartition("/")[2]):
            problems.append((file.name, "left out: it does not begin as an SGML file of Reuters-21578"))
    files = [file for file in files if is_reuters(file.data)]
    for file, _ in with_progress(files, progress):
        text = file.data.decode("latin-1")
        starts = [match.start() for match in _START.finditer(text)]
        if not starts:
            problems.append((file.name, "left out: it holds no <REUTERS> document"))
        for number, (start, end) in enumerate(zip_longest(starts, starts[1:]), 1):
            yield _document(text[start:end], f"{file.name}:{number}", SPLITS[options.split], problems)


def _document(sgml: str, place: str, judged: tuple[str, ...], problems: Problems) -> Document:
    head, _, rest = sgml.partition(">")
    attributes = {name.upper(): value for name, value in _ATTRIBUTE.findall(head)}
    identifier = attributes.get("NEWID") or place
    if "</REUTERS>" not in rest:
        problems.append((identifier, "the document is cut off: </REUTERS> is missing"))
    items = (_element(rest, "TOPICS")[0] or "").split("<D>")[1:]
    topics = tuple(dict.fromkeys(_clean(item.partition("</D>")[0]) for item in items))
    part = None
    if attributes.get("TOPICS", "").upper() in judged:
        part = {"TRAIN": "train", "TEST": "test"}.get(attributes.get("LEWISSPLIT", "").upper())
    text, _ = _element(rest, "TEXT")
    if text is None:
        problems.append((identifier, "it has no <TEXT>"))
    return Document(identifier, _text(text or ""), topics, part)


def _text(sgml: str) -> str:
    title, others = _element(sgml, "TITLE")
    body, others = _element(others, "BODY")
    if body is None:
        for name in ("AUTHOR", "DATELINE"):
            _, others = _element(others, name)
        body = "" if _NO_BODY.fullmatch(_clean(others)) else others
    return "\n".join(piece for piece in (_clean(title or "").strip(), _clean(body).strip("\r\n")) if piece)


def _element(sgml: str, name: str) -> tuple[str | None, str]:
    """Content of the first element of a name (None if it is missing), and the text without the element."""
    start = sgml.find(f"<{name}")
    inner = sgml.find(">", start) + 1
    end = sgml.find(f"</{name}>", inner)
    if start < 0 or inner == 0:
        return None, sgml
    if end < 0:
        return sgml[inner:], sgml[:start]
    return sgml[inner:end], sgml[:start] + sgml[end + len(name) + 3 :]


def _clean(sgml: str) -> str:
    return _ENTITY.sub(_character, sgml).translate(_CONTROL)


def _character(match: re.Match[str]) -> str:
    code = match[1].removeprefix("#")  # unescape has other characters for 128 to 159
    return unescape(match[0]) if code.isalpha() else chr(int(code)) if int(code) <= 0x10FFFF else ""
