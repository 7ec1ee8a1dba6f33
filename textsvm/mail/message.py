"""What a decision about a mail is taken from, as one text that a person can read.

First the header fields that were there before delivery, as they were sent, a line each, and an empty line:
who else got a mail, when it was written, by which program. In the mail of one person all of that is
evidence. Then the fields that people read (`FIELDS`), a line each, decoded, the message-id as its form alone
(0 for a digit, a for a letter: which program made it) and the content-type without its boundary; then what
the sender did, a line each in brackets: what an HTML page does (`page.py`), letters that are there to be
misread (`letters.py`), charsets that are not what they claim, attachments by name, type and size; then
the text parts, decoded, HTML as it is seen and before plain text. Whoever reads a bounded beginning of what
stands below the empty line has the fields and the tricks in it.

Work is bounded, whatever the message: before it is parsed, what lies between lines that may be boundaries
is cut to `MOST_PIECE` bytes each, and to less when that comes to `MOST_BYTES`, which keeps the tree of
parts. Fields longer than `MOST_FIELD` characters are cut as they are parsed (the standard library takes
quadratic time on some).

Characters that are there to be misread: invisible ones, look-alikes of other scripts, styled alphabets.

What is seen is kept: invisible characters go, look-alikes in a word of several scripts and styled letters
become the letters that they look like. What was found is named, with how often it was there in steps.
"""

from __future__ import annotations

import email
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from email.message import Message as Parsed
from email.utils import getaddresses
from itertools import islice

from textsvm.mail.page import page
from textsvm.mail.raw_message import message_digest as digest
from textsvm.mail.raw_message import scan_header as header
from textsvm.mail.raw_message import sent_fields as sent
from textsvm.readers.charsets import decode_declared
from textsvm.readers.mime import PARSER_ERRORS, decoded_header, is_html
from textsvm.readers.mime import RawHeaderPolicy as AsSent

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


def plain_letters(text: str) -> tuple[str, list[str]]:
    """The text as a reader would read it, and what was done to make a program read it otherwise.

    Parameters
    ----------
    text : str

    Returns
    -------
    text : str
    tricks : list of str
        In words: "zero-width characters 4 or more".
    """
    if text.isascii():
        return text, []
    tricks = []
    text, invisible = _INVISIBLE.subn("", text)
    tricks += _counted("zero-width characters", invisible)
    text, turned = _TURNED.subn("", text)
    tricks += _counted("writing direction turned", turned)
    text, styled = _STYLED.subn(lambda match: unicodedata.normalize("NFKC", match[0]), text)
    tricks += _counted("styled letters", styled)
    mixed: list[str] = []
    text = _WORD.sub(lambda match: _folded(match[0], mixed), text)
    return text, tricks + _counted("letters of several scripts in one word", len(mixed))


def _folded(word: str, mixed: list[str]) -> str:
    if word.isascii() or not (_LATIN.search(word) and _ALIKE.search(word)):
        return word
    mixed.append(word)
    return word.translate(_FOLD)


def _counted(what: str, times: int) -> list[str]:
    return [f"{what} {next(words for least, words in _STEPS if times >= least)}"] * (times > 0)


#: Header fields that are text, in their order.
FIELDS = ("subject", "from", "reply-to", "message-id", "x-mailer", "user-agent", "content-type")
MOST_BYTES, MOST_PIECE, LEAST_PIECE, MOST_PIECES, MOST_FIELD = 1 << 19, 1 << 17, 2048, 400, 2000
MOST_FIELDS, MOST_SENT, MOST_TEXT, MOST_PARTS, MOST_TRICKS = 1000, 3000, 1 << 16, 100, 60
_BOUNDARY = re.compile(rb"\n--[^\r\n]")
_PARAMETER = re.compile(r";?\s*boundary\s*=\s*(?:\"[^\"]*\"|[^\s;]+)", re.IGNORECASE)
_LETTERS = {code: "a" for code in range(128) if chr(code).isalpha()} | dict.fromkeys(range(48, 58), "0")
_SIZES = (
    (1 << 16, "64 KB or more"),
    (1 << 14, "16-64 KB"),
    (1 << 12, "4-16 KB"),
    (1 << 10, "1-4 KB"),
    (0, "under 1 KB"),
)


@dataclass(frozen=True)
class Message:
    """A mail as the filter sees it.

    Attributes
    ----------
    digest : str
        The key of what is learnt from it: hexadecimal, of what delivery does not change.
    text : str
        Header fields as they were sent, an empty line, fields that people read, tricks and text parts.
    subject, sender : str
        Decoded, one line each, to be shown; empty where there is none.
    """

    digest: str
    text: str
    subject: str
    sender: str


def read_message(data: bytes) -> Message:
    """Read one raw message. Any bytes give one, in bounded time and memory.

    Parameters
    ----------
    data : bytes
    """
    try:
        parsed = parse(data)
        found, subject, sender = evidence(parsed), _field(parsed, "subject"), _field(parsed, "from")
    except PARSER_ERRORS:
        # The standard parser gave up on something hostile: the bytes themselves are still evidence.
        text = decode_declared(data[:MOST_PIECE], None)[0][:MOST_TEXT]
        found, subject, sender = [("trick", "[not to be parsed]"), ("text", text)], "", ""
    text = _fields(data) + "\n\n" + "\n".join(line for _, line in found if line)
    return Message(digest(data), *map(_storable, (text, subject, sender)))


def _fields(data: bytes) -> str:
    """All fields that delivery did not add, as they were sent, a line each."""
    lines = (
        name[:MOST_FIELD] + b": " + value[:MOST_FIELD] for name, value in islice(sent(data), MOST_FIELDS)
    )
    return b"\n".join(lines).decode("utf-8", "replace")[:MOST_SENT]


def _storable(text: str) -> str:
    """Without the halves of characters that UTF-7 may declare: no file and no database takes them."""
    return text.encode("utf-8", "replace").decode()


def evidence(parsed: Parsed, names: Sequence[str] = FIELDS) -> list[tuple[str, str]]:
    """What a message has to say, in the order of its text.

    Parameters
    ----------
    parsed : email.message.Message
        As `parse` gives it.
    names : sequence of str
        Of the header fields, in lower case.

    Returns
    -------
    list of (kind, line)
        The kinds are "field", "trick", "attachment" and "text".
    """
    texts: list[str] = []
    tricks: dict[str, None] = dict.fromkeys(_header_tricks(parsed))
    attached: list[str] = []
    for part in _leaves(parsed):
        try:
            if _is_text(part):
                text, its_tricks = _text(part)
                texts.append(text)
                tricks |= dict.fromkeys(its_tricks)
            else:
                attached.append(_attachment(part))
        except PARSER_ERRORS:
            tricks["part that cannot be read"] = None
    shown = ((name, _shown(name, _field(parsed, name))) for name in names)
    fields = [("field", _letters(f"{name}: {value}", tricks)) for name, value in shown if value]
    body = _letters("\n".join(text for text in texts if text)[:MOST_TEXT], tricks)
    named = [("trick", f"[{trick}]") for trick in [*tricks][:MOST_TRICKS]]
    return [*fields, *named, *(("attachment", f"[{one}]") for one in attached[:MOST_TRICKS]), ("text", body)]


class _Bounded(AsSent):
    """Fields are cut while they are parsed."""

    def header_source_parse(self, sourcelines: list[str]) -> tuple[str, str]:
        name, value = super().header_source_parse(sourcelines)
        return name[:MOST_FIELD], value[:MOST_FIELD]


_BOUNDED = _Bounded()


def parse(data: bytes) -> Parsed:
    """A message of any size as the standard library sees its beginning, part by part.

    Parameters
    ----------
    data : bytes
    """
    found = header(data)
    no_header = b"\n" * (not found.there)  # else lines that begin with a blank would pass for one
    return email.message_from_bytes(no_header + _cut(data, found.start), policy=_BOUNDED)


def _cut(data: bytes, start: int) -> bytes:
    """A message of bounded size with the same tree of parts, as far as it goes: pieces lose their ends."""
    size = 0
    if len(data) <= MOST_PIECE:
        return data[start:]
    kept: list[bytes] = []
    while start < len(data) and len(kept) < MOST_PIECES:
        following = _BOUNDARY.search(data, start + 1)
        stop = following.start() if following else len(data)
        room = max(LEAST_PIECE, min(MOST_PIECE, (MOST_BYTES - size) // 2))  # the last one gets some, too
        kept.append(data[start : min(stop, start + room)])
        size += len(kept[-1])
        start = stop
    return b"".join(kept)


def _leaves(parsed: Parsed) -> list[Parsed]:
    """The parts that are no containers, the first of them; pages before texts.

    Of a page and a text that say the same, the page is shown: no long text may stand before it.
    """
    found = [part for part in parsed.walk() if not part.is_multipart()][:MOST_PARTS]
    return sorted(found, key=lambda part: part.get_content_type() != "text/html")


def _is_text(part: Parsed) -> bool:
    # A message that calls itself multipart and has no parts still says something.
    return (
        part.get_content_maintype() in ("text", "multipart")
        and part.get_content_disposition() != "attachment"
    )


def _text(part: Parsed) -> tuple[str, list[str]]:
    """The text of a part as it is seen, and what was done to it."""
    payload = part.get_payload(decode=True)
    if not isinstance(payload, bytes) or not payload:
        return "", []
    charset = part.get_content_charset()
    text, problem = decode_declared(payload, charset)
    tricks = [*_charset_tricks(payload, charset, problem)]
    if part.get_content_type() != "text/html" and not is_html(text):
        return text.strip("\r\n"), tricks
    text, others = page(text)
    return text, tricks + others


def _charset_tricks(payload: bytes, charset: str | None, problem: str | None) -> Iterator[str]:
    if problem:
        yield (
            "charset that nobody knows" if problem.startswith("unknown") else "charset that is not the text's"
        )
    elif charset is None and not payload.isascii():
        yield "charset that is not declared"


def _header_tricks(parsed: Parsed) -> Iterator[str]:
    """What the header does: raw bytes where only ASCII may be, addresses that do not go together."""
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


def _addresses(parsed: Parsed, name: str) -> set[str]:
    try:
        return {address.lower() for _, address in getaddresses([_field(parsed, name)]) if "@" in address}
    except PARSER_ERRORS:
        return set()


def _attachment(part: Parsed) -> str:
    payload = part.get_payload(decode=True)
    size = len(payload) if isinstance(payload, bytes) else 0
    name = decoded_header(part.get_filename() or "without a name", {})[:100]
    return f"attachment {name} {part.get_content_type()[:80]} {_size(size)}"


def _size(size: int) -> str:
    return next(words for least, words in _SIZES if size >= least)


def _field(parsed: Parsed, name: str) -> str:
    """The first field of a name, decoded, on one line."""
    return decoded_header(str(parsed.get(name, "")), {})


def _shown(name: str, value: str) -> str:
    """What a field says that is not chance, or a host on the way."""
    if name == "message-id":
        return value.partition("@")[0].translate(_LETTERS)
    return _PARAMETER.sub("", value) if name == "content-type" else value


def _letters(text: str, tricks: dict[str, None]) -> str:
    text, found = plain_letters(text)
    tricks |= dict.fromkeys(found)
    return text
