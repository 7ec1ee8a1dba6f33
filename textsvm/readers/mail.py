"""Reader of mail: raw messages (RFC 5322, MIME), mbox, Maildir and SpamAssassin's archives.

The text of a message is its subject and, from the next line, its text parts in their order, with transfer
encodings and charsets decoded and HTML reduced to the displayed text. Other parts are ignored. With
`headers`, all header lines come first, as they were sent. Every message gives a document, however damaged;
damage is reported.

Labels come from folders: "ham" or "spam" if a folder or archive is named so (`easy_ham_2`,
`20030228_spam.tar.bz2`), else the folder of the message, or the name of its mbox.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice, zip_longest
from mmap import mmap
from pathlib import PurePosixPath

from textsvm.readers.charsets import decode, decode_declared
from textsvm.readers.corpus import Document, ReadOptions
from textsvm.readers.files import HEAD, OFFICE, File, Problems, with_progress
from textsvm.readers.mail_header import KNOWN, OUTLOOK, emlx_message, header_start, is_outlook, unwrapped
from textsvm.readers.mime import PARSER_ERRORS, MimePart, decoded_header, html_text, is_html, parse_message
from textsvm.readers.plain_text import class_folders, class_level, part_of
from textsvm.readers.tables import table_format
from textsvm.runtime.parallel import Progress

_FROM_LINE = re.compile(
    rb"(?:\A(?:\xef\xbb\xbf|\s){0,9}|(?<=\n\n)|(?<=\n\r\n))From ([^\n]{1,300})\n"
    rb"(?=([!-9;-~]+[ \t]*:|>From )?)"
)
#: An address, or a header that no other text has; and a line of a header.
_SURELY = re.compile(
    rb"@|^(?:received|return-path|message-id|mime-version|delivered-to|content-type|x-[!-9;-~]+)[ \t]*:",
    re.IGNORECASE | re.MULTILINE,
)
_LINE = re.compile(rb"[!-9;-~]+[ \t]*:|[ \t]")
_FIELDS = re.compile(rb"(?:(?:[!-9;-~]+[ \t]*:|[ \t]+[^\s])[^\r\n]*\r?\n?)*")
_TRANSPORT = re.compile(rb"^(?:received|return-path|message-id|mime-version|delivered-to):", re.I | re.M)
_INDENTED = re.compile(rb"^[ \t]+[^\s]", re.MULTILINE)
_ASCTIME = re.compile(rb"\w{3} \w{3} [ \d]\d \d\d:\d\d")
_FROM_DATE = re.compile(rb"\d\d:\d\d.*\d{4}")
_QUOTED_FROM = re.compile(rb"^>(>*From )", re.MULTILINE)
_INTERNAL = b"FOLDER INTERNAL DATA"
_NOT_MAIL = re.compile(r"(?:cmds|readme.*|index.*|license.*|\.ds_store|dovecot.*)", re.IGNORECASE)
_CLASS = re.compile(r"(?<![a-z])(ham|spam)(?![a-z])", re.IGNORECASE)
_NO_HEADERS = "it has no headers"


def is_mail(data: bytes) -> bool:
    """Whether bytes begin like a message or an mbox: header lines, some with a well-known name."""
    head = unwrapped(data[:8192])
    start, has_header = header_start(head)
    run = _FIELDS.match(head, start)
    if run and run[0] and not _INDENTED.search(head, 0, start):
        return KNOWN.search(run[0]) is not None
    return has_header and _TRANSPORT.search(head, start) is not None  # a text may begin with To, From, Date


def is_surely_mail(data: bytes) -> bool:
    """Whether bytes that `is_mail` accepts are no other text, such as a letter that begins with "Date:"."""
    head = re.split(rb"\r?\n\r?\n", data[:8192].lstrip(b"\r\n>"), maxsplit=1)[0]
    lines = head.splitlines()
    subject = any(line[:7].lower() == b"subject" for line in lines) and all(map(_LINE.match, lines))
    return head.startswith((b"From ", OFFICE)) or subject or _SURELY.search(head) is not None


def has_header(name: str, data: bytes) -> bool:
    """Whether a file is a message, however damaged: it has lines of a header, and is no table."""
    head = data[:HEAD]
    return (
        head.startswith(b"From ")
        or is_mail(head)
        or is_outlook(name, data)
        or (bool(KNOWN.search(head)) and not table_format(name, decode(head)[0], ReadOptions()))
    )


def is_mbox(data: bytes | mmap) -> bool:
    """Whether bytes hold several messages of an mbox."""
    return _FROM_LINE.match(data) is not None and len(list(islice(_separators(data), 2))) == 2


def split_messages(name: str, data: bytes | mmap) -> Iterator[tuple[str, bytes]]:
    """The raw messages of a file with their names; the messages of an mbox are numbered."""
    if not is_mbox(data):
        yield name, emlx_message(data)[:]
        return
    starts = list(_separators(data))
    for number, (start, end) in enumerate(zip_longest(starts, starts[1:]), 1):
        message = data[start:end]
        if _INTERNAL not in message[:2048]:
            yield f"{name}:{number}", _QUOTED_FROM.sub(rb"\1", message)


def _separators(data: bytes | mmap) -> Iterator[int]:
    """Offsets of the messages of an mbox: From lines with a date, after an empty line, before a header.

    A header that does not follow at once is malformed; the date must then have the form of asctime.
    """
    for match in _FROM_LINE.finditer(data):
        near = match[2] or (_ASCTIME.search(match[1]) and KNOWN.search(data, match.end(), match.end() + 400))
        if near and _FROM_DATE.search(match[1]):
            yield match.start()


def read_mail(
    files: Sequence[File], problems: Problems, options: ReadOptions, progress: Progress | None
) -> Iterator[Document]:
    """The messages of files, each a raw message or an mbox; `problems` gets damaged messages."""
    paths = {file.name: _folders(file) for file in files}
    classes = {name: _class_of(path) for name, path in paths.items() if options.level is None}
    others = [path for name, path in paths.items() if not classes.get(name)]
    level = class_level(others, options) if len(files) > 1 else 0
    maildirs = {PurePosixPath(file.name).parent.parent for file in files if _folder(file) in ("cur", "new")}
    for file, _ in with_progress(files, progress):
        path = PurePosixPath(file.name)
        if not is_mail(file.data) and _NOT_MAIL.fullmatch(path.name):
            continue
        if _folder(file) == "tmp" and path.parent.parent in maildirs:  # not delivered yet
            continue
        if is_outlook(file.name, file.data):
            problems.append((file.name, OUTLOOK))
            continue
        folder = paths[file.name][level - 1 : level] if level else ()
        label, part = classes.get(file.name) or next(iter(folder), None), part_of(str(path.parent))
        for identifier, data in split_messages(file.name, file.data):
            text, damage = message_text(data, headers=options.headers)
            problems += [(identifier, problem) for problem in damage]
            yield Document(identifier, text, label, part)


def message_text(data: bytes, *, headers: bool = False) -> tuple[str, list[str]]:
    """Subject (or all headers) and text parts of a raw message, and a description of each kind of damage."""
    damage: dict[str, None] = {}
    if not is_mail(data):
        damage[_NO_HEADERS] = None
    try:
        message = parse_message(data)
        parts = [*_text_parts(message)]
    except PARSER_ERRORS as error:
        # The standard parser gave up on a hostile message: its bytes are still evidence.
        return decode_declared(data, None)[0], [f"it cannot be parsed as a message ({type(error).__name__})"]
    if headers:
        pieces = [f"{name}: {decoded_header(str(value), damage)}" for name, value in message.raw_items()]
    else:
        pieces = [decoded_header(str(message.get("Subject", "")), damage)]
    for payload, kind, charset in parts:
        text, problem = decode_declared(payload, charset)
        damage |= {problem: None} if problem else {}
        pieces.append(html_text(text) if kind == "text/html" or is_html(text) else text.strip("\r\n"))
    damage |= dict.fromkeys(problem for part in message.walk() for problem in part.damage)
    if _NO_HEADERS in damage:
        damage.pop("a header that is not well-formed", None)
    return "\n".join(piece for piece in pieces if piece), list(damage)


def _folder(file: File) -> str:
    return PurePosixPath(file.name).parent.name


def _folders(file: File) -> tuple[str, ...]:
    """Names of the folders of a file, and of the file if it is an mbox."""
    path = PurePosixPath(file.name)
    is_box = is_mbox(file.data) or path.suffix.lower() in (".mbox", ".mbx")
    names = class_folders(path if is_box else path.parent)
    return tuple(name.lstrip(".") for name in names if name not in ("cur", "new"))


def _class_of(path: Sequence[str]) -> str | None:
    """Ham or spam by the innermost such name, else None."""
    for name in reversed(path):
        words = {word.lower() for word in _CLASS.findall(name)}
        if len(words) == 1:
            return words.pop()
    return None


def _text_parts(message: MimePart) -> Iterator[tuple[bytes, str, str | None]]:
    """Payload, content type and declared charset of each text part."""
    for part in message.walk():
        kind = part.get_content_type()
        # A message that is declared multipart and has no parts may still hold text.
        if part.is_multipart() or not kind.startswith(("text/", "multipart/")):
            continue
        if payload := part.content():
            yield payload, kind, part.get_content_charset()
