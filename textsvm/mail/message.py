"""Mail as the text from which the filter decides, readable for people.

The text of a mail has these parts, a line for each item:

1. the header fields without the fields of delivery, as they were sent, and an empty line: recipients, dates
   and mailing programs are evidence;
2. the displayed fields (`FIELDS`), decoded; the message-id is reduced to its form (0 for a digit, a for a
   letter), which shows the program that wrote it, and the content-type to its value without the boundary;
3. the tricks of the sender in brackets: of HTML pages (`page.py`), misleading letters, wrong charsets; and
   attachments by name, type and size;
4. the decoded text parts, HTML as it is displayed and before plain text.

So a bounded beginning of the text below the empty line holds the fields and the tricks.

Time and memory are bounded for every message. Before parsing, the pieces between possible boundaries are cut
to `MAX_PIECE` bytes each, and to less when the total approaches `MAX_BYTES`; this keeps the tree of parts.
Fields of more than `MAX_FIELD` characters are cut while they are parsed, because the standard library takes
quadratic time on some.

Misleading letters (`plain_letters`): invisible characters are removed; look-alikes in a word of several
scripts and styled letters become the letters that they look like. A trick names each kind and the order of
its number.
"""

from __future__ import annotations

import email
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from email.message import Message as ParsedMessage
from email.utils import getaddresses

from textsvm.mail.page import page_text
from textsvm.mail.raw_message import RawMessage
from textsvm.readers.charsets import decode_declared
from textsvm.readers.mime import PARSER_ERRORS, RawHeaderPolicy, decoded_header, is_html

#: Decoded header fields of the text, in their order.
FIELDS = ("subject", "from", "reply-to", "message-id", "x-mailer", "user-agent", "content-type")
MAX_BYTES, MAX_PIECE, MIN_PIECE, MAX_PIECES, MAX_FIELD = 1 << 19, 1 << 17, 2048, 400, 2000
MAX_FIELDS, MAX_SENT, MAX_TEXT, MAX_PARTS, MAX_TRICKS = 1000, 3000, 1 << 16, 100, 60
_BOUNDARY = re.compile(rb"\n--[^\r\n]")
_PARAMETER = re.compile(r";?\s*boundary\s*=\s*(?:\"[^\"]*\"|[^\s;]+)", re.IGNORECASE)
_FORM = {code: "a" for code in range(128) if chr(code).isalpha()} | dict.fromkeys(range(48, 58), "0")
_SIZES = (
    (1 << 16, "64 KB or more"),
    (1 << 14, "16-64 KB"),
    (1 << 12, "4-16 KB"),
    (1 << 10, "1-4 KB"),
    (0, "under 1 KB"),
)
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b\u200e\u200f\u2060-\u2064\u206a-\u206f\u3164\ufeff\uffa0]"
    "|(?<=[A-Za-z])[\u200c\u200d]+(?=[A-Za-z])"  # elsewhere they are part of Persian, Hindi, emoji
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


@dataclass(frozen=True)
class Message:
    """A mail as the filter sees it."""

    digest: str  #: `RawMessage.digest`
    text: str  #: Input of the features
    #: Decoded fields for display; empty if missing.
    subject: str
    sender: str


def read_message(data: bytes | RawMessage) -> Message:
    """Read a raw message in bounded time and memory; any bytes are accepted."""
    raw = RawMessage.of(data)
    try:
        parsed = parse(raw)
        lines, subject, sender = evidence(parsed), _field(parsed, "subject"), _field(parsed, "from")
    except PARSER_ERRORS:
        # The standard parser gave up on a hostile message: its bytes are still evidence.
        text = decode_declared(raw.data[:MAX_PIECE], None)[0][:MAX_TEXT]
        lines, subject, sender = [("trick", "[not to be parsed]"), ("text", text)], "", ""
    sent = (name[:MAX_FIELD] + b": " + value[:MAX_FIELD] for name, value in raw.sent_fields[:MAX_FIELDS])
    fields = b"\n".join(sent).decode("utf-8", "replace")[:MAX_SENT]
    text = fields + "\n\n" + "\n".join(line for _, line in lines if line)
    # UTF-7 may declare lone surrogates, which no file or database accepts.
    valid = (each.encode("utf-8", "replace").decode() for each in (text, subject, sender))
    return Message(raw.digest, *valid)


def evidence(parsed: ParsedMessage, names: Sequence[str] = FIELDS) -> list[tuple[str, str]]:
    """Lines of the text of a parsed message below the empty line, with their kind.

    `names` are header fields, in lower case; the kinds are "field", "trick", "attachment" and "text".
    """
    texts: list[str] = []
    tricks: dict[str, None] = dict.fromkeys(_header_tricks(parsed))
    attachments: list[str] = []
    parts = [part for part in parsed.walk() if not part.is_multipart()][:MAX_PARTS]
    # HTML comes first, so that no plain text displaces it.
    for part in sorted(parts, key=lambda part: part.get_content_type() != "text/html"):
        try:
            # A message that is declared multipart and has no parts may still hold text.
            holds_text = part.get_content_maintype() in ("text", "multipart")
            if holds_text and part.get_content_disposition() != "attachment":
                text, part_tricks = _text(part)
                texts.append(text)
                tricks |= dict.fromkeys(part_tricks)
            else:
                attachments.append(_attachment(part))
        except PARSER_ERRORS:
            tricks["part that cannot be read"] = None
    values = ((name, _field_value(name, _field(parsed, name))) for name in names)
    fields = [("field", _plain(f"{name}: {value}", tricks)) for name, value in values if value]
    body = _plain("\n".join(text for text in texts if text)[:MAX_TEXT], tricks)
    trick_lines = [("trick", f"[{trick}]") for trick in [*tricks][:MAX_TRICKS]]
    attachment_lines = [("attachment", f"[{attachment}]") for attachment in attachments[:MAX_TRICKS]]
    return [*fields, *trick_lines, *attachment_lines, ("text", body)]


class _ShortFieldPolicy(RawHeaderPolicy):
    """Cuts fields while they are parsed."""

    def header_source_parse(self, sourcelines: list[str]) -> tuple[str, str]:
        name, value = super().header_source_parse(sourcelines)
        return name[:MAX_FIELD], value[:MAX_FIELD]


_POLICY = _ShortFieldPolicy()


def parse(raw: RawMessage) -> ParsedMessage:
    """Parse the bounded beginning of a message part by part, with the standard library."""
    no_header = b"\n" * (not raw.has_header)  # else lines that begin with a blank would be taken for a header
    return email.message_from_bytes(no_header + _cut(raw.data, raw.start), policy=_POLICY)


def _cut(data: bytes, start: int) -> bytes:
    """A message of bounded size with the same tree of parts, as far as it goes: pieces lose their ends."""
    size = 0
    if len(data) <= MAX_PIECE:
        return data[start:]
    kept: list[bytes] = []
    while start < len(data) and len(kept) < MAX_PIECES:
        following = _BOUNDARY.search(data, start + 1)
        stop = following.start() if following else len(data)
        room = max(MIN_PIECE, min(MAX_PIECE, (MAX_BYTES - size) // 2))  # the last piece gets some, too
        kept.append(data[start : min(stop, start + room)])
        size += len(kept[-1])
        start = stop
    return b"".join(kept)


def _text(part: ParsedMessage) -> tuple[str, list[str]]:
    """The text of a part as it is displayed, and its tricks."""
    payload = part.get_payload(decode=True)
    if not isinstance(payload, bytes) or not payload:
        return "", []
    charset = part.get_content_charset()
    text, problem = decode_declared(payload, charset)
    tricks = []
    if problem:
        unknown = problem.startswith("unknown")
        tricks.append("charset that nobody knows" if unknown else "charset that is not the text's")
    elif charset is None and not payload.isascii():
        tricks.append("charset that is not declared")
    if part.get_content_type() != "text/html" and not is_html(text):
        return text.strip("\r\n"), tricks
    text, page_tricks = page_text(text)
    return text, tricks + page_tricks


def _header_tricks(parsed: ParsedMessage) -> Iterator[str]:
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


def _addresses(parsed: ParsedMessage, name: str) -> set[str]:
    try:
        return {address.lower() for _, address in getaddresses([_field(parsed, name)]) if "@" in address}
    except PARSER_ERRORS:
        return set()


def _attachment(part: ParsedMessage) -> str:
    payload = part.get_payload(decode=True)
    size = len(payload) if isinstance(payload, bytes) else 0
    size_class = next(words for least, words in _SIZES if size >= least)
    name = decoded_header(part.get_filename() or "without a name", {})[:100]
    return f"attachment {name} {part.get_content_type()[:80]} {size_class}"


def _field(parsed: ParsedMessage, name: str) -> str:
    """The first field of a name, decoded, on a single line."""
    return decoded_header(str(parsed.get(name, "")), {})


def _field_value(name: str, value: str) -> str:
    """A decoded field without random parts and host names."""
    if name == "message-id":
        return value.partition("@")[0].translate(_FORM)
    return _PARAMETER.sub("", value) if name == "content-type" else value


def _plain(text: str, tricks: dict[str, None]) -> str:
    text, letter_tricks = plain_letters(text)
    tricks |= dict.fromkeys(letter_tricks)
    return text


def plain_letters(text: str) -> tuple[str, list[str]]:
    """The text as people read it, and the tricks with letters in words: "zero-width characters 4 or more"."""
    if text.isascii():
        return text, []
    text, invisible = _INVISIBLE.subn("", text)
    text, turned = _TURNED.subn("", text)
    text, styled = _STYLED.subn(lambda match: unicodedata.normalize("NFKC", match[0]), text)
    mixed: list[str] = []
    text = _WORD.sub(lambda match: _folded(match[0], mixed), text)
    counts = {
        "zero-width characters": invisible,
        "writing direction turned": turned,
        "styled letters": styled,
        "letters of several scripts in one word": len(mixed),
    }
    return text, [
        f"{trick} {next(words for least, words in _STEPS if count >= least)}"
        for trick, count in counts.items()
        if count
    ]


def _folded(word: str, mixed: list[str]) -> str:
    if word.isascii() or not (_LATIN.search(word) and _ALIKE.search(word)):
        return word
    mixed.append(word)
    return word.translate(_FOLD)
