"""Mail as the text from which the filter decides, readable for people.

The text of a mail has these parts, a line for each item:

1. the header fields without the fields of delivery, as they were sent, and an empty line: recipients, dates
   and mailing programs are evidence;
2. the displayed fields (`FIELDS`), decoded; the message-id is reduced to its form (0 for a digit, a for a
   letter), which shows the program that wrote it, and the content-type to its value without the boundary;
3. the tricks of the sender in brackets: of HTML pages, misleading letters, wrong charsets; and
   attachments by name, type and size;
4. the decoded text parts, HTML as it is displayed and before plain text.

Time and memory are bounded for every message. Before parsing, the pieces between possible boundaries are cut
to `MAX_PIECE` bytes each, and to less when the total approaches `MAX_BYTES`; this keeps the tree of parts.
Fields of more than `MAX_FIELD` characters are cut while they are parsed, because the standard library takes
quadratic time on some.

Misleading letters (`plain_letters`): invisible characters, and marks on letters that never have them, are
removed; look-alikes in a word of several scripts and styled letters become the letters that they look like.
A trick names each kind and the order of its number.

Of alternatives only the best is read, as mail programs display it; a trick says that another has other words.
HTML is read as it is displayed (`textsvm.readers.pages.page_text`). Of long messages, parts and texts the end
is read as well as the beginning, and a trick names them.
"""

from __future__ import annotations

import binascii
import re
import unicodedata
from collections.abc import Iterator, Sequence
from email.utils import getaddresses
from typing import NamedTuple

from textsvm.apps.mail.raw_message import RawMessage
from textsvm.readers import mime, pages
from textsvm.readers.charsets import decode_declared
from textsvm.readers.mail_header import repaired

#: Decoded header fields of the text, in their order.
FIELDS = ("subject", "from", "reply-to", "message-id", "x-mailer", "user-agent", "content-type")
MAX_BYTES = 1 << 19  #: Bytes of a message that are parsed, about
MAX_PIECE = 1 << 17  #: Bytes of a piece between possible boundaries
MIN_PIECE = 2048  #: Bytes that even a late piece gets
MAX_PIECES = 400  #: Number of pieces
MAX_FIELD = 2000  #: Characters of a header field
MAX_FIELDS = 1000  #: Number of header fields
MAX_SENT = 3000  #: Characters of the header fields in the text
MAX_TEXT = 1 << 16  #: Characters of the decoded text parts in the text
LAST_TEXT = 2000  #: Of these, characters of the end
MAX_PARTS = 100  #: Number of parts that are read
LAST_PARTS = 20  #: Of these, the last parts
MAX_TRICKS = 60  #: Number of tricks, and of attachments, that are named
_BOUNDARY = re.compile(rb"\n--[^\r\n]")
_BLANKS = re.compile(r"\s{200,}")
_UUENCODED = re.compile(
    r"^begin [0-7]{3,4} ([^\r\n]{1,100})\r?\n((?:[ -`]{1,90}\r?\n)+)(?:end\b)?", re.MULTILINE
)
_PARAMETER = re.compile(r";?\s*boundary\s*=\s*(?:\"[^\"]*\"|[^\s;]+)", re.IGNORECASE)
_FORM = {code: "a" for code in range(128) if chr(code).isalpha()} | dict.fromkeys(range(48, 58), "0")
_SIZES = (
    (1 << 16, "64 KB or more"), (1 << 14, "16-64 KB"), (1 << 12, "4-16 KB"), (1 << 10, "1-4 KB"),
    (0, "under 1 KB"),
)  # fmt: skip
#: Characters that are invisible beside a Latin letter; elsewhere they are part of Persian, Hindi, emoji.
_JOINERS = "\x01-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u200c\u200d\u2800\ufe00-\ufe0f\ufffc"
_MARKS = "\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20f0\ufe20-\ufe2f"
_MARK = re.compile(f"[{_MARKS}]")
#: Marks of a letter after the first; sorting a run of marks takes time with its square.
_MORE_MARKS = re.compile(f"(?<=[{_MARKS}]{{16}})[{_MARKS}]+")
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2060-\u2065\u206a-\u206f\u3164"
    "\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
    f"|(?<=[A-Za-z])[{_JOINERS}{_MARKS}]+|(?<![{_JOINERS}])[{_JOINERS}]+(?=[A-Za-z])"
)
_TURNED = re.compile("[\u202d\u202e\u2066-\u2068]")
_STYLED = re.compile("[\u24b6-\u24e9\uff21-\uff3a\uff41-\uff5a\U0001d400-\U0001d7ff\U0001f130-\U0001f189]")
_WORD = re.compile(r"[^\W\d_]{2,}")
_LATIN = re.compile("[A-Za-z]")
#: Letters of other scripts and the Latin ones that they look like.
_PAIRS = (
    "аa вb еe ѐe ёe гr іi їi јj кk мm нh оo рp сc тt уy хx ѕs һh ԁd ԛq ԝw ьb пn "
    "АA ВB ЕE ЁE ЅS ІI ЇI ЈJ КK МM НH ОO РP СC ТT УY ХX ԌG ԚQ ԜW "
    "αa βb γy εe ηn ιi κk νv οo ρp τt υu χx ωw ϲc ϳj άa έe ίi όo ύu "
    "ΑA ΒB ΕE ΖZ ΗH ΙI ΚK ΜM ΝN ΟO ΡP ΤT ΥY ΧX ϹC "
    "ոn սu օo հh ցg զq ՏS ՕO ԼL ᎪA ᏴB ᏟC ᎠD ᎬE ᎷM ᏢP ᎢT ᏔW"
)
_FOLD = str.maketrans({pair[0]: pair[1] for pair in _PAIRS.split()})
_ALIKE = re.compile("[" + "".join(map(chr, _FOLD)) + "]")
_STEPS = ((16, "16 or more"), (4, "4 or more"), (0, "few"))


class Message(NamedTuple):
    """A mail as the filter sees it."""

    digest: str  #: `RawMessage.digest`
    text: str  #: Input of the features
    subject: str  #: Decoded for display, as the sender; empty if missing
    sender: str


def read_message(data: bytes | RawMessage) -> Message:
    """Read a raw message in bounded time and memory; any bytes are accepted."""
    raw = RawMessage.of(data)
    data = repaired(raw.data)
    clean = raw if data is raw.data else RawMessage(data)
    try:
        cut = _cut(clean.data, 0)
        parsed = mime.parse_part(cut, cut)
        lines, subject, sender = _lines(parsed), _field(parsed, "subject"), _field(parsed, "from")
    except mime.PARSER_ERRORS:
        # The standard parser gave up on a hostile message: its bytes are still evidence.
        lines = ["[not to be parsed]", decode_declared(raw.data[:MAX_PIECE], None)[0][:MAX_TEXT]]
        subject = sender = ""
    sent = (name[:MAX_FIELD] + b": " + value[:MAX_FIELD] for name, value in clean.sent_fields[:MAX_FIELDS])
    text = b"\n".join(sent).decode("utf-8", "replace")[:MAX_SENT] + "\n\n" + "\n".join(filter(None, lines))
    # UTF-7 may declare lone surrogates, which no file or database accepts.
    names = (part.encode("utf-8", "replace").decode() for part in (text, subject, sender))
    return Message(raw.digest, *names)


def _lines(parsed: mime.MimePart) -> list[str]:
    """Lines of the text of a parsed message below the empty line."""
    texts: list[str] = []
    tricks: dict[str, None] = dict.fromkeys(_header_tricks(parsed))
    attachments: list[str] = []
    parts = [*_leaves(parsed)]
    if len(parts) > MAX_PARTS:
        parts[MAX_PARTS - LAST_PARTS : -LAST_PARTS] = []
        tricks[pages.TOO_MUCH] = None
    others: list[str] = []
    # HTML comes first, so that no plain text displaces it.
    for part, displayed in sorted(parts, key=lambda item: _is_not_html(item[0])):
        try:
            if _holds_text(part) and (part is parsed or not _is_attached(part)):
                text, part_tricks = _text(part)
                (texts if displayed else others).append(text)
                tricks |= dict.fromkeys(part_tricks)
            else:
                size = _class_of(len(part.content()), _SIZES)
                name = mime.decoded_header(part.get_filename() or "without a name", {})[:100]
                attachments.append(f"[attachment {name} {part.get_content_type()[:80]} {size}]")
        except mime.PARSER_ERRORS:
            tricks["part that cannot be read"] = None
    fields = []
    for name in FIELDS:
        value = _field(parsed, name)
        if name == "message-id":  # without random parts and host names
            value = value.partition("@")[0].translate(_FORM)
        elif name == "content-type":
            value = _PARAMETER.sub("", value)
        if value:
            value, letter_tricks = plain_letters(f"{name}: {value}")
            fields.append(value)
            tricks |= dict.fromkeys(letter_tricks)
    body = _BLANKS.sub("\n", "\n".join(filter(None, texts)))
    if len(body) > MAX_TEXT:
        body = body[-LAST_TEXT:] + "\n" + body[: MAX_TEXT - LAST_TEXT]
        tricks[pages.TOO_MUCH] = None
    body, letter_tricks = plain_letters(body)
    tricks |= dict.fromkeys(letter_tricks)
    if _differ("\n".join(others), body):
        tricks["alternative that says something else"] = None
    return [*fields, *[f"[{trick}]" for trick in [*tricks][:MAX_TRICKS]], *attachments[:MAX_TRICKS], body]


def _leaves(part: mime.MimePart, displayed: bool = True) -> Iterator[tuple[mime.MimePart, bool]]:
    """The parts without parts, and whether they are displayed: of alternatives the last page, or text."""
    if not (parts := part.parts()):
        yield part, displayed
    best: mime.MimePart | None = None
    if part.get_content_type() == "multipart/alternative":
        shown = [(p, [leaf for leaf in p.walk() if not _is_attached(leaf)]) for p in parts]
        pages = [p for p, leaves in shown if not all(map(_is_not_html, leaves))]
        best = next(reversed(pages or [p for p, leaves in shown if any(map(_holds_text, leaves))]), None)
    for p in parts:
        yield from _leaves(p, displayed and best in (None, p))


def _holds_text(part: mime.MimePart) -> bool:
    """Also of a message that is declared multipart and has no parts."""
    return not part.is_multipart() and part.get_content_maintype() in ("text", "multipart")


def _is_attached(part: mime.MimePart) -> bool:
    return part.get_content_disposition() == "attachment"


def _is_not_html(part: mime.MimePart) -> bool:
    return part.get_content_type() != "text/html"


def _differ(alternative: str, displayed: str) -> bool:
    """Whether less than half of the words of an alternative are displayed."""
    words = {*_WORD.findall(alternative[:MAX_TEXT].lower())}
    return len(words) > 4 and 2 * len(words & {*_WORD.findall(displayed.lower())}) < len(words)


def _class_of(number: int, classes: Sequence[tuple[int, str]]) -> str:
    """The first class whose least number is at most this number."""
    return next(words for least, words in classes if number >= least)


def _cut(data: bytes, start: int) -> bytes:
    """A message of bounded size with the same tree of parts, as far as it goes: pieces lose their ends.

    Its lines end in LF, so that transport, which makes CR LF of all, changes no decision.
    """
    if len(data) <= 2 * MAX_PIECE:
        data, start = data[start:].replace(b"\r\n", b"\n"), 0
        if len(data) <= MAX_PIECE:
            return data
    pieces: list[bytes] = []
    size = 0
    while start < len(data) and len(pieces) < MAX_PIECES:
        stop = len(data)
        first = start + 1 + data.startswith(b"\r\n", start)
        for window in range(first, len(data), MAX_BYTES):  # in steps, so that other threads run
            if boundary := _BOUNDARY.search(data, window, window + MAX_BYTES + 3):
                stop = boundary.start() - data.startswith(b"\r\n", boundary.start() - 1)
                break
        room = max(MIN_PIECE, min(MAX_PIECE, (MAX_BYTES - size) // 2))  # also for the last piece
        pieces.append(_shortened_piece(data, start, stop, room))
        size += len(pieces[-1])
        start = stop
    end = data[max(start, len(data) - 2 * pages.MAX_END) :].replace(b"\r\n", b"\n")[-pages.MAX_END :]
    if boundary := _BOUNDARY.search(end):
        pieces.append(end[boundary.start() :])
    return b"".join(pieces)


def _shortened_piece(data: bytes, start: int, stop: int, room: int) -> bytes:
    """The beginning of a piece and whole lines of its end, which may be encoded."""
    first = min(start + 2 * room, stop)  # CR LF may be half of it
    piece = (data[start:first] + data[max(first, stop - 2 * room) : stop]).replace(b"\r\n", b"\n")
    end = len(piece) - min(pages.MAX_END, room // 8)
    if end <= room:
        return piece
    beginning = piece.rfind(b"\n", room - 1000, room) + 1 or room
    return piece[:beginning] + piece[piece.find(b"\n", end) + 1 or end :]


def shortened(raw: RawMessage) -> bytes:
    """The message without bytes of the body that `read_message` does not read; only the digest differs.

    The message itself if it has so many boundaries that it would be cut at others.
    """
    data = raw.data[: raw.end] + _cut(raw.data, raw.end)
    return data if _cut(data, 0) == _cut(raw.data, 0) else raw.data


def _text(part: mime.MimePart) -> tuple[str, list[str]]:
    """The text of a part as it is displayed, and its tricks."""
    if not (payload := part.content()):
        return "", []
    charset = part.get_content_charset()
    text, problem = decode_declared(payload, charset)
    tricks = []
    if problem and problem.startswith("unknown"):
        tricks.append("charset that nobody knows")
    elif problem:
        tricks.append("charset that is not the text's")
    elif charset is None and not payload.isascii():
        tricks.append("charset that is not declared")
    if part.get_content_type() == "text/html" or ("content-type" not in part and mime.is_html(text)):
        text, page_tricks = pages.page_text(text)
        return text, tricks + page_tricks
    if len(part.body) >= MAX_PIECE:
        tricks.append(pages.TOO_MUCH)

    def decoded(match: re.Match[str]) -> str:
        data = b"".join(map(_uu_line, match[2].splitlines()))
        tricks.append(f"attachment {match[1]} uuencoded {_class_of(len(data), _SIZES)}")
        displayed = match[1].lower().endswith((".txt", ".htm", ".html"))
        source = decode_declared(data, None)[0] if displayed else ""
        return pages.page_text(source)[0] if "htm" in match[1].lower()[-4:] else source

    return _UUENCODED.sub(decoded, text.strip("\r\n")), tricks


def _uu_line(line: str) -> bytes:
    try:
        return binascii.a2b_uu(line)
    except binascii.Error:
        return b""


def _header_tricks(parsed: mime.MimePart) -> Iterator[str]:
    """Tricks of the header: bytes that are not ASCII, contradicting addresses."""
    if any(not str(parsed.get(name, "")).isascii() for name in ("subject", "from")):
        yield "header that is not encoded"
    sender, reply = _addresses(parsed, "from"), _addresses(parsed, "reply-to")
    if sender and reply and not sender & reply:
        yield "reply to another address"
    if sender and sender & _addresses(parsed, "to"):
        yield "sender is the receiver"
    name = _field(parsed, "from").rpartition("<")[0].lower()
    if "@" in name and not any(address in name for address in sender):
        yield "name of the sender shows another address"


def _addresses(parsed: mime.MimePart, name: str) -> set[str]:
    try:
        return {address.lower() for _, address in getaddresses([_field(parsed, name)]) if "@" in address}
    except mime.PARSER_ERRORS:
        return set()


def _field(parsed: mime.MimePart, name: str) -> str:
    """The first field of a name, decoded, on a single line."""
    return mime.decoded_header(str(parsed.get(name, ""))[:MAX_FIELD], {})


def plain_letters(text: str) -> tuple[str, list[str]]:
    """The text as people read it, and the tricks with letters in words: "zero-width characters 4 or more"."""
    if text.isascii() and not _INVISIBLE.search(text):
        return text, []
    if _MARK.search(text):
        text = unicodedata.normalize("NFC", _MORE_MARKS.sub("", text))
    text, invisible = _INVISIBLE.subn("", text)
    text, turned = _TURNED.subn("", text)
    text, styled = _STYLED.subn(lambda match: unicodedata.normalize("NFKC", match[0]), text)
    mixed = 0

    def folded(match: re.Match[str]) -> str:
        nonlocal mixed
        word = match[0]
        if word.isascii() or not (_LATIN.search(word) and _ALIKE.search(word)):
            return word
        mixed += 1
        return word.translate(_FOLD)

    text = _WORD.sub(folded, text)
    counts = {
        "zero-width characters": invisible,
        "writing direction turned": turned,
        "styled letters": styled,
        "letters of several scripts in one word": mixed,
    }
    return text, [f"{trick} {_class_of(count, _STEPS)}" for trick, count in counts.items() if count]
