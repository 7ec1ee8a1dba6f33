"""A message passed on byte for byte, with the decision in its scan_header.

The fields go to the end of the scan_header, as Bogofilter's do; to the end of its well-formed part, where a line
that is no field comes in between. Fields of the same names that were there before (in any case, folded or
not) are forged or stale, and go. Nothing else is touched: not the ends of lines, not a missing one at the
end, not a "From " line. A message without a scan_header gets one, and an empty line after it.

Where the scan_header of a raw message is, byte by byte: what is passed on and what is hashed is never parsed.

A scan_header ends at the first empty line. Lines end in LF, or in CR LF; the "From " line of an mbox before the
first field belongs to no message. Of a scan_header of more than `MOST_HEADER` bytes the fields beyond count as
body: no mail server carries one (Postfix stops at 100 KB), and whatever a sender makes, the work is bounded.

One name for a message, wherever it was delivered: the key of what was learnt from it.

SHA-256 over the fields and the body, less what delivery and mail programs change:

- fields that they add or rewrite (`DELIVERY`, `DELIVERY_PREFIXES`), and the "From " line of an mbox;
- case of field names, folding and other runs of blanks in fields;
- CR LF or LF at the ends of lines, empty lines at the end, ">From " (or ">>From ") where an mbox quoted it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import textsvm

if TYPE_CHECKING:  # it takes NumPy, and a client that starts for each mail takes this file
    from textsvm.mail.decision import Decision


MOST_HEADER = 1 << 20
_EMPTY = re.compile(rb"\n\r?\n")
_FROM_LINE = re.compile(rb">?From (?![ \t]*:)[^\n]{0,2000}\n?")
# Bounded: a line of 100 MB is gone through once.
_FIELD = re.compile(rb"[!-9;-~]{1,200}:")
_LOOSE_FIELD = re.compile(rb"[!-9;-~]{1,200}[ \t]{0,20}:")
_NO_FIELD = re.compile(rb"\n(?![!-9;-~]{1,200}:|[ \t])")
_BARE = re.compile(rb"\r(?!\n)")
_NEXT = re.compile(rb"\n(?![ \t])")


@dataclass(frozen=True)
class Header:
    """Offsets into a message.

    Attributes
    ----------
    start : int
        Of the first field, after an mbox's "From " line.
    fields : int
        Where the run of well-formed fields from `start` ends: here every reader of mail still sees a scan_header.
    end : int
        Of the empty line that ends the scan_header, or of the data.
    there : bool
        Whether the message begins with a field at all, if only one with blanks before its colon.
    """

    start: int
    fields: int
    end: int
    there: bool


def scan_header(data: bytes) -> Header:
    """Where the scan_header of a message is; one that does not begin with a field has none.

    Parameters
    ----------
    data : bytes
    """
    first = _FROM_LINE.match(data)
    start = first.end() if first else 0
    if not _LOOSE_FIELD.match(data, start):
        return Header(start, start, start, False)
    end = _end(data, start)
    return Header(start, _run(data, start, end), end, True)


def _run(data: bytes, start: int, end: int) -> int:
    """Where the fields end that every reader takes for such: some take a bare CR for the end of a line."""
    if not _FIELD.match(data, start):
        return start
    other, bare = _NO_FIELD.search(data, start, end), _BARE.search(data, start, end)
    stop = other.start() + 1 if other and other.end() < end else end
    if bare and bare.start() < stop:
        return max(first for first, _ in fields(data, start, stop) if first <= bare.start())
    return stop


def _end(data: bytes, start: int) -> int:
    limit = min(len(data), start + MOST_HEADER)
    empty = _EMPTY.search(data, start, limit)
    if empty:
        return empty.start() + 1
    if limit == len(data):
        return limit
    return max((stop for _, stop in fields(data, start, limit) if stop < limit), default=start)


def fields(data: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Start and end of each field between two offsets, with the lines that continue it."""
    while start < end:
        stop = field_end(data, start, end)
        yield start, stop
        start = stop


def field_end(data: bytes, start: int, end: int) -> int:
    """Where the field that begins at an offset ends: after its last line that continues it."""
    last = _NEXT.search(data, start, end)
    return last.end() if last else end


_CHUNK = 1 << 20

#: Fields that delivery, filters on the way and mail programs add or rewrite.
DELIVERY = frozenset(
    b"received x-received return-path delivered-to x-delivered-to x-delivered x-original-to envelope-to "
    b"x-envelope-to x-envelope-from x-rcpt-to delivery-date x-delivery-date x-forwarded-to x-forwarded-for "
    b"resent-from resent-to resent-date resent-message-id resent-sender received-spf "
    b"authentication-results dkim-signature dkim-filter domainkey-signature domainkey-status x-bogosity "
    b"x-textsvm x-crm114-status x-scanned-by x-quarantine-id x-sieve x-loop status x-status x-keywords "
    b"x-uid x-uidl x-imap x-imapbase x-label x-folder x-account-key lines content-length xref bytes".split()
)
#: What the names of such fields begin with.
DELIVERY_PREFIXES = (
    b"x-spam-", b"x-originating-", b"arc-", b"x-arc-", b"x-dkim-", b"x-virus-", b"x-amavis-", b"x-mozilla-",
    b"x-evolution-", b"x-gm-", b"x-gmail-", b"x-google-", b"x-getmail-", b"x-fetchmail-", b"x-ms-exchange-",
    b"x-microsoft-antispam", b"x-forefront-", b"x-rspamd-", b"x-dspam-", b"x-dovecot-", b"x-proofpoint-",
)  # fmt: skip


def message_digest(data: bytes) -> str:
    """SHA-256 in hexadecimal over what delivery does not change.

    Parameters
    ----------
    data : bytes
        A raw message.
    """
    found = scan_header(data)
    sha = hashlib.sha256()
    position = found.end
    for name, value in sent_fields(data):
        sha.update(name.lower() + b":" + value + b"\n")
    end = _text_end(data)
    if not found.there and position < end and not data.startswith((b"\n", b"\r\n"), position):
        sha.update(b"\n")  # the empty line that passing it on puts there
    for chunk in _chunks(data, position, end):
        for change in (b"\r\n", b"\n"), (b"\n>From ", b"\nFrom "), (b"\n>>From ", b"\nFrom "):
            chunk = chunk.replace(*change)
        sha.update(chunk)
    return sha.hexdigest()


def sent_fields(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The fields of a scan_header that were there before it was delivered: names, and values unfolded."""
    found = scan_header(data)
    for start, stop in fields(data, found.start, found.end):
        name, _, value = data[start:stop].partition(b":")
        name = name.strip()
        lower = name.lower()
        if lower not in DELIVERY and not lower.startswith(DELIVERY_PREFIXES):
            yield name, b" ".join(value.split())


def _text_end(data: bytes) -> int:
    """Where the empty lines at the end begin."""
    end = len(data)
    while end:
        start = max(0, end - 65536)
        kept = len(data[start:end].rstrip(b"\r\n"))
        if kept:
            return start + kept
        end = start
    return 0


def _chunks(data: bytes, start: int, end: int) -> Iterator[bytes]:
    """The body in pieces that begin with the end of a line, so that no ">From " and no CR LF is torn."""
    while start < end:
        stop = min(end, start + _CHUNK)
        line = data.rfind(b"\n", start + 2, stop) if stop < end else -1
        if line >= 0:
            stop = line
        if stop < end and data[stop - 1] == 0x0D:
            stop -= 1
        yield data[start:stop]
        start = stop


#: The Bogofilter whose format is written.
BOGOFILTER = "1.2.5"
# A literal first: the search then runs at the speed of memchr.
_OURS = re.compile(rb"\n(?i:x-textsvm|x-spam-flag)[ \t]*:")
_BOGOSITY = re.compile(rb"\n(?i:x-bogosity)[ \t]*:")


def marked(data: bytes, decision: Decision, *, bogofilter: bool = False) -> bytes:
    """The message with the decision in its scan_header.

    Parameters
    ----------
    data : bytes
        A raw message, of any kind and size.
    decision : Decision
    bogofilter : bool
        Write Bogofilter's X-Bogosity in place of X-Textsvm and X-Spam-Flag.
    """
    return b"".join(marked_pieces(data, decision, bogofilter=bogofilter))


def marked_pieces(data: bytes, decision: Decision, *, bogofilter: bool = False) -> list[bytes | memoryview]:
    """What `marked` joins: views of the message, uncopied, and the new fields, in their order.

    ``stream.writelines(marked_pieces(data, decision))`` passes a large message on without a second copy of it.
    """
    found, view = scan_header(data), memoryview(data)
    lines = bogosity_fields(decision) if bogofilter else our_fields(decision)
    forged = list(_forged(data, found, _BOGOSITY if bogofilter else _OURS))
    place = _insertion_point(found, forged)
    result: list[bytes | memoryview] = []
    position = 0
    for start, stop, added in sorted([*forged, (place, place, _block(data, found, place, lines))]):
        result += [view[position:start], added]
        position = stop
    return [piece for piece in [*result, view[position:]] if len(piece)]


def our_fields(decision: Decision) -> list[str]:
    """X-Textsvm, and X-Spam-Flag on spam: what other filters' users look for."""
    line = (
        f"X-Textsvm: {decision.kind.capitalize()}, score={decision.score:.6f}, version={textsvm.__version__}"
    )
    return [line] + ["X-Spam-Flag: YES"] * (decision.kind == "spam")


def bogosity_fields(decision: Decision) -> list[str]:
    """X-Bogosity as Bogofilter writes it."""
    kind = decision.kind.capitalize()
    return [f"X-Bogosity: {kind}, tests=bogofilter, spamicity={decision.score:.6f}, version={BOGOFILTER}"]


def _forged(data: bytes, found: Header, names: re.Pattern[bytes]) -> Iterator[tuple[int, int, bytes]]:
    """Fields of these names, to be replaced by nothing."""
    if names.match(b"\n" + data[found.start : min(found.end, found.start + 256)]):
        yield found.start, field_end(data, found.start, found.end), b""
    for match in names.finditer(data, found.start, found.end):
        yield match.start() + 1, field_end(data, match.start() + 1, found.end), b""


def _insertion_point(found: Header, forged: list[tuple[int, int, bytes]]) -> int:
    """Where the new fields go: behind the last field that stays."""
    place = found.fields
    for start, stop, _ in reversed(forged):
        if stop == place:
            place = start
    return place


def _block(data: bytes, found: Header, place: int, lines: list[str]) -> bytes:
    """The new fields, with what is needed to begin a line there and to end a scan_header."""
    before, after = data[max(0, place - 2) : place], data[found.fields : found.fields + 2]
    line = data.find(b"\n", place)
    end = b"\r\n" if (before or data[max(0, line - 1) : line + 1]) == b"\r\n" else b"\n"
    block = b"".join(line.encode() + end for line in lines)
    if before and not before.endswith(b"\n"):
        block = end + block
    headless = not found.there and after[:1] != b"\n" and after != b"\r\n"
    return block + end * (headless or found.fields == len(data))
