"""Headers of mail: as they were sent, and decoded (encoded words of RFC 2047, raw bytes)."""

from __future__ import annotations

import base64
import binascii
import email.errors
import quopri
import re
from email.message import Message
from email.policy import Compat32
from typing import Any

from textsvm.readers.charsets import decode_declared

_WORD = re.compile(r"=\?([^?*\s]{1,60})(?:\*[^?\s]*)?\?([bq])\?([^?]*)\?=", re.IGNORECASE)
#: What the standard parser lets through on hostile input.
PARSER_ERRORS = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    RecursionError,
    AssertionError,
    email.errors.MessageError,
)


#: Symbols of a header of MIME that are looked at, and messages in messages: the standard library's time grows
#: with the square of the one, and with the product of the other and the lines.
LONGEST, DEEPEST = 4096, 60


class AsSent(Compat32):
    """A policy for the standard library's parser: headers come as they were sent, undecoded."""

    def header_fetch_parse(self, name: str, value: str) -> str:
        return value[:LONGEST] if name[:8].lower() == "content-" else value


class Part(Message):
    """A message or a part of one that is no deeper than any honest one."""

    depth = 0

    def attach(self, payload: Any) -> None:
        payload.depth = self.depth + 1
        if payload.depth > DEEPEST:
            raise email.errors.MessageParseError("parts in parts in parts")
        super().attach(payload)


def decoded_header(raw: str, damage: dict[str, None]) -> str:
    """The text of a header as it was sent: encoded words (RFC 2047) and raw 8-bit bytes decoded.

    Parameters
    ----------
    raw : str
        With surrogates where bytes are no ASCII, as the standard library's parser gives it.
    damage : dict
        Gets what had to be guessed around, as its keys.
    """
    text = decode_declared(raw.encode("utf-8", "surrogateescape"), None)[0]
    pieces: list[tuple[str | None, bytes | str]] = []
    position = 0
    for match in _WORD.finditer(text):
        between = text[position : match.start()]
        if between.strip() or not pieces:
            pieces.append((None, between))
        charset, payload = match[1].lower(), _encoded_word(match[2].lower(), match[3])
        previous = pieces[-1] if pieces else (None, "")
        if previous[0] == charset and isinstance(previous[1], bytes):
            pieces[-1] = (charset, previous[1] + payload)  # one character may be spread over two words
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
