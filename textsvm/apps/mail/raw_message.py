"""Raw messages as bytes: position of the header, digest, and decision fields written into the header.

`RawMessage` locates the header once; reading, hashing and passing a message on share the result. Nothing
here parses or changes other bytes of the message.

A header ends at the first empty line. Lines end in LF or CR LF; the "From " line of an mbox is not part of a
message. Fields beyond the first `MAX_HEADER` bytes count as body (Postfix stops at 100 KB).
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import TYPE_CHECKING

from textsvm.errors import InputError
from textsvm.readers.mail_header import MAX_HEADER, OUTLOOK, header_start, is_continued, is_outlook
from textsvm.version import __version__

if TYPE_CHECKING:  # importing it takes NumPy
    from textsvm.apps.mail.decision import Decision

NO_HEADER = "is no message: it has no header, such as From: and Subject:"
_CHUNK = 1 << 20  #: Bytes of the body that are hashed at a time
_LINE_ENDS = (b"\r\n", b"\n")
_EMPTY = re.compile(rb"\n\r?\n")
# Bounded repetitions: a line of 100 MB is scanned once.
_FIELD = re.compile(rb"[!-9;-~]{1,200}:")
_NO_FIELD = re.compile(rb"\n(?![!-9;-~]{1,200}:|[ \t])")
_BARE_CR = re.compile(rb"\r(?!\n)")
_NEXT_FIELD = re.compile(rb"\n(?![ \t])")
# The literal "\n" first: the search then runs at the speed of memchr.
#: Fields that this program writes, which replace forged and earlier ones.
OWN_FIELD = re.compile(rb"\n(?i:x-textsvm(?:-[a-z0-9-]{1,40})?|x-spam-flag)[ \t]*:")
#: The Message-ID, or the end of the header.
_MESSAGE_ID = re.compile(rb"\n(?:\r?\n|(?i:message-id)[ \t]*:\s*([!-~]{1,100}))")
#: Fields that delivery, filters on the way and mail programs add or rewrite.
DELIVERY = frozenset(
    b"received x-received return-path delivered-to x-delivered-to x-delivered x-original-to envelope-to "
    b"x-envelope-to x-envelope-from x-rcpt-to delivery-date x-delivery-date x-forwarded-to x-forwarded-for "
    b"resent-from resent-to resent-date resent-message-id resent-sender received-spf "
    b"authentication-results dkim-signature dkim-filter domainkey-signature domainkey-status x-bogosity "
    b"x-textsvm x-crm114-status x-scanned-by x-quarantine-id x-sieve x-loop status x-status x-keywords "
    b"x-uid x-uidl x-imap x-imapbase x-label x-folder x-account-key lines content-length xref bytes".split()
)
#: Prefixes of the names of such fields.
DELIVERY_PREFIXES = (
    b"x-textsvm-", b"x-spam-", b"x-originating-", b"arc-", b"x-arc-", b"x-dkim-", b"x-virus-", b"x-amavis-",
    b"x-mozilla-", b"x-evolution-", b"x-gm-", b"x-gmail-", b"x-google-", b"x-getmail-", b"x-fetchmail-",
    b"x-ms-exchange-", b"x-microsoft-antispam", b"x-forefront-", b"x-rspamd-", b"x-dspam-", b"x-dovecot-",
    b"x-proofpoint-",
)  # fmt: skip


class RawMessage:
    """A raw message and the position of its header."""

    def __init__(self, data: bytes) -> None:
        if is_outlook("", data):
            raise InputError(f"the message {OUTLOOK}")
        self.data = data
        #: Offset of the first field, after the "From " line of an mbox; and whether there is a header.
        self.start, self.has_header = header_start(data)
        #: Offset of the empty line that ends the header, or the end of the data.
        self.end = self._header_end() if self.has_header else self.start
        #: End of the run of well-formed fields from `start`; every mail reader still sees a header here.
        self.fields_end = self._run_end() if self.has_header else self.start
        # Not `cached_property`: up to Python 3.11 it has one lock for all messages.
        self._sent_fields: list[tuple[bytes, bytes]] | None = None
        self._digest = ""

    @classmethod
    def of(cls, data: bytes | RawMessage) -> RawMessage:
        """The message itself, or of bytes."""
        return data if isinstance(data, RawMessage) else cls(data)

    @property
    def is_empty(self) -> bool:
        """Whether the message has no header field and no text."""
        pieces = range(self.start, len(self.data), _CHUNK)  # a large message is not copied
        return not self.has_header and not any(self.data[i : i + _CHUNK].strip() for i in pieces)

    def _header_end(self) -> int:
        limit = min(len(self.data), self.start + MAX_HEADER)
        if empty := _EMPTY.search(self.data, self.start, limit):
            return empty.start() + 1
        if limit == len(self.data):
            return limit
        return max((stop for _, stop in self.fields(limit) if stop < limit), default=self.start)

    def _run_end(self) -> int:
        """End of the well-formed fields; a field that some readers break ends them (a bare CR in it, or a
        continuation that is not indented)."""
        if not _FIELD.match(self.data, self.start):
            return self.start
        other = _NO_FIELD.search(self.data, self.start, self.end)
        bare = _BARE_CR.search(self.data, self.start, self.end)
        stop = other.start() + 1 if other and other.end() < self.end else self.end
        if bare and bare.start() < stop:
            stop = bare.start() + 1
        elif stop == self.end or not is_continued(
            self.data[max(0, stop - 9) : stop], self.data[stop : stop + 60]
        ):
            return stop
        return max(first for first, _ in self.fields(stop) if first < stop)

    def fields(self, end: int | None = None) -> Iterator[tuple[int, int]]:
        """Start and end of each field up to `end` (default: of the header), continuation lines included."""
        start = self.start
        if end is None:
            end = self.end
        while start < end:
            stop = self.field_end(start, end)
            yield start, stop
            start = stop

    def field_end(self, start: int, end: int) -> int:
        """End of the field that begins at `start`, after its continuation lines."""
        following = _NEXT_FIELD.search(self.data, start, end)
        return following.end() if following else end

    @property
    def body_start(self) -> int:
        """Offset of the body, after the empty line."""
        for empty in _LINE_ENDS:
            if self.data.startswith(empty, self.end):
                return self.end + len(empty)
        return self.end

    @property
    def sent_fields(self) -> list[tuple[bytes, bytes]]:
        """Names and unfolded values of the fields that delivery did not add."""
        if self._sent_fields is not None:
            return self._sent_fields
        sent = self._sent_fields = []
        for start, stop in self.fields():
            name, _, value = self.data[start:stop].partition(b":")
            name = name.strip().replace(b"\r\n", b"\n")  # a line without a colon, and its continuations
            lower = name.lower()
            if lower not in DELIVERY and not lower.startswith(DELIVERY_PREFIXES):
                sent.append((name, b" ".join(value.split())))
        return sent

    @property
    def digest(self) -> str:
        """SHA-256 in hexadecimal of the message without the changes of delivery and mail programs.

        Ignored: fields in `DELIVERY` and `DELIVERY_PREFIXES`, the "From " line of an mbox, case of field
        names, folding and other runs of blanks in fields, CR LF or LF, empty lines at the end, and the
        quoting of "From " as ">From " or ">>From ".
        """
        if self._digest:
            return self._digest
        sha = hashlib.sha256()
        for name, value in self.sent_fields:
            sha.update(name.lower() + b":" + value + b"\n")
        end, first = _text_end(self.data), b""
        if not self.has_header and self.end < end and not self.data.startswith(_LINE_ENDS, self.end):
            first = b"\n"  # `marked` adds an empty line
        for chunk in _chunks(self.data, self.end, end):
            chunk = (first + chunk).replace(b"\r\n", b"\n")
            sha.update(chunk.replace(b"\n>From ", b"\nFrom ").replace(b"\n>>From ", b"\nFrom "))
            first = b""
        self._digest = sha.hexdigest()
        return self._digest


def message_id(data: bytes) -> str:
    """The Message-ID for a log: printable ASCII characters, at most 100."""
    match = _MESSAGE_ID.search(b"\n" + data[: 1 << 16])
    return ((match and match[1]) or b"message without Message-ID").decode()


def _text_end(data: bytes) -> int:
    """Offset of the empty lines at the end."""
    end = len(data)
    while end:  # in pieces, so that a large message is not copied
        start = max(0, end - 65536)
        if size := len(data[start:end].rstrip(b"\r\n")):
            return start + size
        end = start
    return 0


def _chunks(data: bytes, start: int, end: int) -> Iterator[bytes]:
    """The body in pieces that begin with the end of a line: no ">From " and no CR LF is split."""
    while start < end:
        stop = min(end, start + _CHUNK)
        line = data.rfind(b"\n", start + 2, stop) if stop < end else -1
        if line >= 0:
            stop = line
        if stop < end and data[stop - 1] == 0x0D:
            stop -= 1
        yield data[start:stop]
        start = stop


def marked(data: bytes | RawMessage, decision: Decision) -> bytes:
    """The message with the decision in its header; `marked_pieces` in a single piece."""
    return b"".join(marked_pieces(RawMessage.of(data), decision))


def marked_pieces(message: RawMessage, decision: Decision) -> list[bytes | memoryview]:
    """Pieces of the message with the decision in its header: uncopied views of the message, and new lines.

    X-Textsvm, X-Spam-Flag and the field of the category go to the end of the well-formed part of the header.
    Earlier fields of these names, in any case, are forged or stale and are removed. All other bytes stay.
    A message without a header gets a header and an empty line.
    """
    place = message.fields_end
    forged = _forged_fields(message)
    for start, stop in reversed(forged):  # behind the last field that stays
        if stop == place:
            place = start
    changes = [(start, stop, b"") for start, stop in forged]
    changes.append((place, place, _block(message, place, textsvm_fields(decision))))
    view = memoryview(message.data)
    pieces: list[bytes | memoryview] = []
    position = 0
    for start, stop, added in sorted(changes):
        pieces += [view[position:start], added]
        position = stop
    pieces.append(view[position:])
    return [piece for piece in pieces if len(piece)]


def textsvm_fields(decision: Decision) -> list[str]:
    """X-Textsvm, X-Spam-Flag for spam, which rules for other filters use, and the field of the category."""
    lines = [f"X-Textsvm: {decision.kind.capitalize()}, score={decision.score:.6f}, version={__version__}"]
    if decision.kind == "spam":
        lines.append("X-Spam-Flag: YES")
    if decision.category:
        name = f"X-Textsvm-{decision.category.title()}"
        lines.append(f"{name}: Yes, score={decision.category_score:.6f}, version={__version__}")
    return lines


def _forged_fields(message: RawMessage) -> list[tuple[int, int]]:
    """Start and end of each field that has a name of `textsvm_fields`."""
    data, start, end = message.data, message.start, message.end
    starts = [match.start() + 1 for match in OWN_FIELD.finditer(data, start, end)]
    if OWN_FIELD.match(b"\n" + data[start : min(end, start + 256)]):
        starts.insert(0, start)
    return [(field, message.field_end(field, end)) for field in starts]


def _line_end(message: RawMessage, place: int) -> bytes:
    """The line end before `place`, or of the first line."""
    data = message.data
    if not (before := data[max(0, place - 2) : place]):
        line = data.find(b"\n", place)
        before = data[max(0, line - 1) : line + 1]
    return b"\r\n" if before == b"\r\n" else b"\n"


def _block(message: RawMessage, place: int, lines: list[str]) -> bytes:
    """The new fields, with the line ends needed to begin a line there and to end a header."""
    data, fields_end = message.data, message.fields_end
    end = _line_end(message, place)
    block = b"".join(line.encode() + end for line in lines)
    begins_line = place == 0 or data.endswith(b"\n", 0, place)
    if not begins_line and not (message.has_header and place == message.start):
        block = end + block
    if (not message.has_header and not data.startswith(_LINE_ENDS, fields_end)) or fields_end == len(data):
        block += end
    return block


def raw_messages(path: str | os.PathLike[str], skipped: list[str]) -> Iterator[tuple[str, bytes]]:
    """The messages at a path, each with its name; `skipped` gets sentences about files without a message.

    The path is a message, an mbox, a Maildir (`new` and `cur` are read), or a folder of messages and mboxes;
    "-" is a message on stdin. InputError if a path that is no folder has no message.
    """
    n, before, is_folder = 0, len(skipped), os.path.isdir(path)
    for file in _mail_files(Path(path), skipped):
        try:
            for name, data in _pieces(file):
                if problem := problem_of(name, data):
                    skipped.append(f"{name} {problem}")
                else:
                    n += 1
                    yield name, data
        except OSError as error:
            skipped.append(_unreadable(error))
    if not n and len(skipped) == before:
        layout = "its new and cur are empty" if os.path.isdir(Path(path, "cur")) else "it has no mail files"
        skipped.append(f"{path} holds no message: {layout} (names with a leading dot are not read)")
    if not n and not is_folder:
        raise InputError(skipped.pop())


def problem_of(name: str, data: bytes) -> str:
    """Why a file is not a message; empty if it is, or if it holds nothing."""
    from textsvm.readers.mail import has_header

    if data.startswith((b"\x1f\x8b", b"PK\x03\x04")):
        return "is an archive or compressed, not a message: unpack it first"
    if is_outlook(name, data):
        return OUTLOOK
    return "" if not data.strip() or has_header(name, data) else NO_HEADER


def _pieces(file: Path) -> Iterator[tuple[str, bytes]]:
    """The messages of a file, and their names."""
    from textsvm.readers.mail import split_messages  # not above: it takes NumPy

    if str(file) == "-":
        yield "-", sys.stdin.buffer.read()
        return
    with file.open("rb") as stream:
        if not os.fstat(stream.fileno()).st_size:  # empty, or a pipe
            yield str(file), stream.read()
            return
        with mmap(stream.fileno(), 0, access=ACCESS_READ) as data:
            yield from split_messages(str(file), data)


def _unreadable(error: OSError) -> str:
    advice = "; run the command as its owner or as root" if isinstance(error, PermissionError) else ""
    return f"cannot read {error.filename}: {error.strerror}{advice}"


def size_of(path: str | os.PathLike[str]) -> int:
    """Bytes of the files at a path; files that cannot be read do not count."""
    size = 0
    for file in _mail_files(Path(path), []):
        with suppress(OSError):
            size += file.stat().st_size
    return size


def _mail_files(path: Path, skipped: list[str]) -> Iterator[Path]:
    """Files that may be messages, sorted in each folder; `skipped` gets sentences on unreadable folders."""
    boxes = [path / name for name in ("new", "cur") if os.path.isdir(path / "cur")]
    for folder in filter(os.path.isdir, boxes or [path]):
        for parent, folders, names in os.walk(folder, onerror=lambda e: skipped.append(_unreadable(e))):
            folders[:] = sorted(name for name in folders if not boxes and not name.startswith("."))
            files = (Path(parent, name) for name in sorted(names) if not name.startswith("."))
            yield from (file for file in files if not os.path.exists(file) or os.path.isfile(file))
    if not os.path.isdir(path):
        yield path
