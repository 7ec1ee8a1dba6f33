"""Contents of mail: decoded headers (encoded words of RFC 2047, raw bytes), and HTML as the displayed text.

HTML is read in time linear in the length of any input, however broken.
"""

from __future__ import annotations

import base64
import binascii
import email.errors
import html
import quopri
import re
from email._policybase import Compat32  # `email.policy` takes 10 ms more to import
from email.message import Message
from itertools import zip_longest
from typing import Any

from textsvm.readers.charsets import decode_declared

_ENCODED_WORD = re.compile(r"=\?([^?*\s]{1,60})(?:\*[^?\s]*)?\?([bq])\?([^?]*)\?=", re.IGNORECASE)
#: Exceptions of the standard parser for hostile input.
PARSER_ERRORS = (
    *(ValueError, LookupError, TypeError, AttributeError, RecursionError, AssertionError),
    email.errors.MessageError,
)
#: Characters of a MIME header that are parsed; the time of the standard library grows with their square.
MAX_MIME_HEADER = 4096
#: Depth of messages in messages; the time of the standard library grows with depth times lines.
MAX_DEPTH = 60
_HIDDEN = re.compile(r"<(script|style|xml)\b[^<>]*>", re.IGNORECASE)
_CLOSE = {name: re.compile(f"</{name}[^<>]*>", re.IGNORECASE) for name in ("script", "style", "xml")}
_BLOCK = re.compile(
    r"</?(?:address|article|blockquote|body|br|center|dd|div|dl|dt|fieldset|footer|form|h[1-6]|head|header|hr|"
    r"html|li|ol|option|p|pre|section|select|table|tbody|td|tfoot|th|thead|title|tr|ul)\b[^<>]*>",
    re.IGNORECASE,
)
_TAG = re.compile(r"<[a-zA-Z/!?][^<>]*>")
_BLANK = re.compile(r"[ \t\r\f\v\xa0]+")
# No character; html.unescape does not accept numbers of 5,000 digits.
_LONG_REFERENCE = re.compile("&#[0-9]{4000,}")
_LINES = re.compile(r" ?\n[ \n]*")


class RawHeaderPolicy(Compat32):
    """Policy of the standard parser that leaves headers undecoded."""

    def header_fetch_parse(self, name: str, value: str) -> str:
        return value[:MAX_MIME_HEADER] if name[:8].lower() == "content-" else value


class MimePart(Message):
    """A message or a part that is no deeper than `MAX_DEPTH`."""

    depth = 0

    def attach(self, payload: Any) -> None:
        payload.depth = self.depth + 1
        if payload.depth > MAX_DEPTH:
            raise email.errors.MessageParseError("parts in parts in parts")
        super().attach(payload)


def decoded_header(raw: str, damage: dict[str, None]) -> str:
    """Decode the encoded words (RFC 2047) and raw 8-bit bytes (as surrogates) of a header.

    The keys of `damage` get the kinds of damage.
    """
    text = decode_declared(raw.encode("utf-8", "surrogateescape"), None)[0]
    pieces: list[tuple[str | None, bytes | str]] = []
    position = 0
    for match in _ENCODED_WORD.finditer(text):
        between = text[position : match.start()]
        if between.strip() or not pieces:
            pieces.append((None, between))
        charset, payload = match[1].lower(), _encoded_word(match[2].lower(), match[3])
        previous = pieces[-1] if pieces else (None, "")
        if previous[0] == charset and isinstance(previous[1], bytes):
            pieces[-1] = (charset, previous[1] + payload)  # a character may be divided between two words
        else:
            pieces.append((charset, payload))
        position = match.end()
    pieces.append((None, text[position:]))
    decoded = []
    for declared, piece in pieces:
        if isinstance(piece, bytes):
            piece, problem = decode_declared(piece, declared)
            if problem:
                damage[problem] = None
        decoded.append(piece)
    return " ".join("".join(decoded).split())


def _encoded_word(encoding: str, text: str) -> bytes:
    raw = text.encode("utf-8", "surrogateescape")
    if encoding == "q":
        return quopri.decodestring(raw, header=True)
    try:
        return base64.b64decode(raw + b"=" * (-len(raw) % 4))
    except (binascii.Error, ValueError):
        return raw


def is_html(text: str) -> bool:
    """Whether a text without a declared type is an HTML page."""
    return text[:512].lstrip().lower().startswith(("<html", "<!doctype html", "<body", "<head"))


def html_text(source: str) -> str:
    """The text of an HTML page, a line a block.

    Comments, scripts and styles are removed. Inline tags are removed without a blank, so that tags and
    comments do not split a word; tags that begin a block become a line break.
    """
    text = _TAG.sub("", _BLOCK.sub("\n", without_hidden(without_comments(source))))
    if "&#" in text:
        text = _LONG_REFERENCE.sub("&#9999999999", text)
    return _LINES.sub("\n", _BLANK.sub(" ", html.unescape(text))).strip()


def without_comments(source: str) -> str:
    """A page without comments; an open comment ends where the next begins, or at the end."""
    first, *others = source.split("<!--")
    return first + "".join(piece.partition("-->")[2] for piece in others)


def without_hidden(source: str) -> str:
    """A page without scripts and styles; an open element ends at the next, or at the end."""
    pieces, position = [], 0
    starts = [*_HIDDEN.finditer(source)]
    for match, following in zip_longest(starts, starts[1:]):
        pieces.append(source[position : match.start()])
        limit = following.start() if following else len(source)
        close = _CLOSE[match[1].lower()].search(source, match.end(), limit)
        position = close.end() if close else limit
    return "".join(pieces) + source[position:]
