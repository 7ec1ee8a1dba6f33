"""Contents of mail: parts, decoded headers (encoded words of RFC 2047, raw bytes), and the text of HTML.

`html_text` is for corpora: it needs the standard library alone, and time linear in the length of any input.
Filters read pages as they are displayed (`textsvm.readers.pages`).
"""

from __future__ import annotations

import binascii
import email.errors
import html
import quopri
import re
from collections.abc import Iterator
from email._policybase import Compat32  # `email.policy` takes 10 ms more to import
from email.message import Message
from itertools import dropwhile, takewhile, zip_longest
from typing import cast

from textsvm.readers.charsets import decode_declared
from textsvm.readers.mail_header import BASE64, repaired, repaired_header

# Mail programs also read words with question marks in them, or without an end.
_ENCODED_WORD = re.compile(
    r"=\?([^?*\s]{1,60})(?:\*[^?\s]*)?\?([bq])\?((?:[^?=]|\?(?!=)|=(?!\?[^=]))*)(?:\?=|\Z)", re.IGNORECASE
)
#: Exceptions of the standard parser for hostile input.
PARSER_ERRORS = (
    *(ValueError, LookupError, TypeError, AttributeError, RecursionError, AssertionError),
    email.errors.MessageError,
)
#: Characters of a MIME header that are parsed; the time of the standard library grows with their square.
MAX_MIME_HEADER = 4096
MAX_DEPTH = 60  #: Of messages in messages; the time of the standard library grows with depth times lines
_EMPTY_LINE = re.compile(rb"(?:\A|(?<=\n))\r?\n")
_FIELD_END = re.compile(rb"\r?\n(?![ \t])")
_LAST_LINE_END = re.compile(rb"(?:\r\n|\r|\n)\Z")
_BOUNDARY_LINE = re.compile(rb"^--([^\r\n]{1,200}?)[ \t]*\r?\n(?=content-[a-z-]{1,40}[ \t]*:)", re.I | re.M)
_PADDED_BREAK = re.compile(rb"=[ \t]+(?=\r?\n)")
_AFTER_PADDING = re.compile(rb"(?<==)\s*(?=[A-Za-z0-9+/])")
_WIDE = re.compile("utf-?(?:16|32)|ucs")
_CONTROL = re.compile(rb"[\0-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_HIDDEN = re.compile(r"<(script|style|xml)\b[^<>]*>", re.IGNORECASE)
_CLOSE = {name: re.compile(f"</{name}[^<>]*>", re.IGNORECASE) for name in ("script", "style", "xml")}
_BLOCK = re.compile(
    r"</?(?:address|article|blockquote|body|br|center|dd|div|dl|dt|fieldset|footer|form|h[1-6]|head|header|hr|"
    r"html|li|ol|option|p|pre|section|select|table|tbody|td|tfoot|th|thead|title|tr|ul)\b[^<>]*>",
    re.IGNORECASE,
)
_TAG = re.compile(r"<[a-zA-Z/!?][^<>]*>")
_BLANK = re.compile(r"[ \t\r\f\v\xa0]+")
_LONG_REFERENCE = re.compile("&#[0-9]{4000,}")  # no character; html.unescape refuses 5,000 digits
_LINES = re.compile(r" ?\n[ \n]*")


class RawHeaderPolicy(Compat32):
    """Policy of the standard library's messages that leaves headers undecoded."""

    def header_fetch_parse(self, name: str, value: str) -> str:
        return value[:MAX_MIME_HEADER] if name[:8].lower() == "content-" else value


_POLICY = RawHeaderPolicy()


class MimePart(Message):
    """A message or a part, its body as it was sent, and descriptions of its damage."""

    def __init__(self, data: bytes = b"", kind: str = "text/plain") -> None:
        super().__init__(_POLICY)
        self.set_default_type(kind)
        self.damage: list[str] = []
        empty = _EMPTY_LINE.search(data)
        head, self.body = (data[: empty.start()], data[empty.end() :]) if empty else (data, b"")
        for field in filter(None, _FIELD_END.split(head)):
            name, _, value = field.decode("ascii", "surrogateescape").partition(":")
            self.set_raw(name, value.strip())

    def parts(self) -> list[MimePart]:
        """The parts of a multipart message."""
        return cast("list[MimePart]", self.get_payload()) if self.is_multipart() else []

    def content(self) -> bytes:
        """The body without its transfer encoding; text that is falsely called base64 stays as it is."""
        code, raw = str(self.get("content-transfer-encoding", "")).lower(), self.body
        if "uu" in code:
            self.set_payload(raw.decode("ascii", "surrogateescape"))
            return cast("bytes", self.get_payload(decode=True))
        if code == "quoted-printable":
            return quopri.decodestring(_PADDED_BREAK.sub(b"=", raw))
        return self._base64_content(raw) if code == "base64" else raw

    def _base64_content(self, raw: bytes) -> bytes:
        first, *others = _AFTER_PADDING.split(raw)
        decoded = b"".join(map(lenient_base64, (first, *takewhile(BASE64.fullmatch, others))))
        letters = raw.translate(None, b"\r\n")
        if len(letters) % 4 or not BASE64.fullmatch(letters):
            self.damage.append("base64 with other characters in it, or of a wrong length")
            charset = self.get_content_charset() or ""
            is_text = self.get_content_maintype() == "text" and not _WIDE.match(charset)
            if is_text and 25 * len(raw.split()) > len(raw) and _CONTROL.search(decoded):  # it has words
                return raw
        return decoded


def lenient_base64(data: bytes) -> bytes:
    """Decode base64 up to its padding; other characters are ignored, and padding may be missing."""
    try:
        return binascii.a2b_base64(data + b"==")
    except binascii.Error:  # a group with a single letter
        return binascii.a2b_base64(data + b"A==")[:-1]


def parse_message(data: bytes, depth: int = 0) -> MimePart:
    """The tree of parts of a message; its header and those of its parts are repaired."""
    return parse_part(repaired(data), data, depth)


def parse_part(data: bytes, source: bytes, depth: int = 0, default: str = "text/plain") -> MimePart:
    """The tree of parts of `data`, which begin with a well-formed header; `source` had the header as sent."""
    if depth > MAX_DEPTH:
        raise email.errors.MessageParseError("parts in parts in parts")
    part = MimePart(data, default)
    if not source.endswith(data):
        part.damage.append("a header that is not well-formed")
    kind = part.get_content_type()
    if kind.startswith("multipart/"):
        default = "message/rfc822" if kind == "multipart/digest" else "text/plain"
        for piece in _split_parts(part):
            part.attach(parse_part(repaired_header(piece), piece, depth + 1, default))
    elif kind == "message/delivery-status":
        part.set_payload([])  # blocks of fields, without a text
    elif kind.startswith("message/"):
        part.attach(parse_message(part.content(), depth + 1))
    return part


def _split_parts(part: MimePart) -> Iterator[bytes]:
    """The parts of a multipart body. A missing boundary is replaced by the first line that looks like it."""
    body, boundary = part.body, part.get_boundary()
    marks = _marks(body, boundary.encode("utf-8", "surrogateescape")) if boundary else []
    if not marks:
        part.damage.append(
            f"a multipart message {'whose boundary never comes' if boundary else 'without a boundary'}"
        )
        guess = _BOUNDARY_LINE.search(body)
        marks = _marks(body, guess[1]) if guess else []
    for mark, following in zip_longest(marks, marks[1:]):
        if mark[1]:
            return
        stop = following.start() if following else len(body)
        if stop > mark.end():
            yield _LAST_LINE_END.sub(b"", body[mark.end() : stop]) if following else body[mark.end() :]
    part.damage.append(
        "the last boundary is missing: cut off" if marks else "a multipart message without parts"
    )


def _marks(body: bytes, boundary: bytes) -> list[re.Match[bytes]]:
    """Matches of boundary lines from the first opening line; group 1 of a closing line is "--"."""
    line = re.escape(b"--" + boundary)
    marks = re.finditer(line + rb"(?<![^\r\n]" + line + rb")(--)?[ \t]*(?:\r\n|\r|\n|\Z)", body)
    return [*dropwhile(lambda mark: mark[1], marks)]


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
        charset, encoded = match[1].lower(), match[3].encode("utf-8", "surrogateescape")
        quoted = match[2].lower() == "q"
        payload = quopri.decodestring(encoded, header=True) if quoted else lenient_base64(encoded)
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


def is_html(text: str) -> bool:
    """Whether a text without a declared type is an HTML page."""
    return text[:512].lstrip().lower().startswith(("<html", "<!doctype html", "<body", "<head"))


def html_text(source: str) -> str:
    """The text of an HTML page, with a line for each block.

    Comments, scripts and styles are removed. Inline tags are removed without a blank, so that tags and
    comments do not split a word; tags that begin a block become a line break.
    """
    # A comment without an end ends before the next, or at the end.
    first, *others = source.split("<!--")
    page = first + "".join(piece.partition("-->")[2] for piece in others)
    text = _TAG.sub("", _BLOCK.sub("\n", without_hidden(page)))
    if "&#" in text:
        text = _LONG_REFERENCE.sub("&#9999999999", text)
    return _LINES.sub("\n", _BLANK.sub(" ", html.unescape(text))).strip()


def without_hidden(source: str) -> str:
    """A page without scripts and styles; an element without an end ends before the next, or at the end."""
    pieces, position = [], 0
    starts = [*_HIDDEN.finditer(source)]
    for match, following in zip_longest(starts, starts[1:]):
        pieces.append(source[position : match.start()])
        limit = following.start() if following else len(source)
        close = _CLOSE[match[1].lower()].search(source, match.end(), limit)
        position = close.end() if close else limit
    return "".join(pieces) + source[position:]
