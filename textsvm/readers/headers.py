"""Headers of mail: as they were sent, and decoded (encoded words of RFC 2047, raw bytes)."""

from __future__ import annotations

import base64
import binascii
import email.errors
import quopri
import re
from email.policy import Compat32

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


class AsSent(Compat32):
    """A policy for the standard library's parser: headers come as they were sent, undecoded."""

    def header_fetch_parse(self, name: str, value: str) -> str:
        return value


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
