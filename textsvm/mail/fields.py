"""Where the header of a raw message is, byte by byte: what is passed on and what is hashed is never parsed.

A header ends at the first empty line. Lines end in LF, or in CR LF; the "From " line of an mbox before the
first field belongs to no message. Of a header of more than `MOST_HEADER` bytes the fields beyond count as
body: no mail server carries one (Postfix stops at 100 KB), and whatever a sender makes, the work is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

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
        Where the run of well-formed fields from `start` ends: here every reader of mail still sees a header.
    end : int
        Of the empty line that ends the header, or of the data.
    there : bool
        Whether the message begins with a field at all, if only one with blanks before its colon.
    """

    start: int
    fields: int
    end: int
    there: bool


def header(data: bytes) -> Header:
    """Where the header of a message is; one that does not begin with a field has none.

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
