"""A message passed on byte for byte, with the decision in its header.

The fields go to the end of the header, as Bogofilter's do; to the end of its well-formed part, where a line
that is no field comes in between. Fields of the same names that were there before (in any case, folded or
not) are forged or stale, and go. Nothing else is touched: not the ends of lines, not a missing one at the
end, not a "From " line. A message without a header gets one, and an empty line after it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import textsvm
from textsvm.mail.fields import Header, field_end, header

if TYPE_CHECKING:  # it takes NumPy, and a client that starts for each mail takes this file
    from textsvm.mail.decision import Decision

#: The Bogofilter whose format is written.
BOGOFILTER = "1.2.5"
# A literal first: the search then runs at the speed of memchr.
_OURS = re.compile(rb"\n(?i:x-textsvm|x-spam-flag)[ \t]*:")
_BOGOSITY = re.compile(rb"\n(?i:x-bogosity)[ \t]*:")


def marked(data: bytes, decision: Decision, *, bogofilter: bool = False) -> bytes:
    """The message with the decision in its header.

    Parameters
    ----------
    data : bytes
        A raw message, of any kind and size.
    decision : Decision
    bogofilter : bool
        Write Bogofilter's X-Bogosity in place of X-Textsvm and X-Spam-Flag.
    """
    return b"".join(pieces(data, decision, bogofilter=bogofilter))


def pieces(data: bytes, decision: Decision, *, bogofilter: bool = False) -> list[bytes | memoryview]:
    """What `marked` joins: views of the message, uncopied, and the new fields, in their order.

    ``stream.writelines(pieces(data, decision))`` passes a large message on without a second copy of it.
    """
    found, view = header(data), memoryview(data)
    lines = bogosity_fields(decision) if bogofilter else our_fields(decision)
    forged = list(_forged(data, found, _BOGOSITY if bogofilter else _OURS))
    place = _place(found, forged)
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


def _place(found: Header, forged: list[tuple[int, int, bytes]]) -> int:
    """Where the new fields go: behind the last field that stays."""
    place = found.fields
    for start, stop, _ in reversed(forged):
        if stop == place:
            place = start
    return place


def _block(data: bytes, found: Header, place: int, lines: list[str]) -> bytes:
    """The new fields, with what is needed to begin a line there and to end a header."""
    before, after = data[max(0, place - 2) : place], data[found.fields : found.fields + 2]
    line = data.find(b"\n", place)
    end = b"\r\n" if (before or data[max(0, line - 1) : line + 1]) == b"\r\n" else b"\n"
    block = b"".join(line.encode() + end for line in lines)
    if before and not before.endswith(b"\n"):
        block = end + block
    headless = not found.there and after[:1] != b"\n" and after != b"\r\n"
    return block + end * (headless or found.fields == len(data))
