"""Mail as the text from which the filter decides, readable for people.

The text of a mail has these parts, a line for each item:

1. the header fields without the fields of delivery, as they were sent, and an empty line: recipients, dates
   and mailing programs are evidence;
2. the displayed fields (`FIELDS`), decoded; the message-id is reduced to its form (0 for a digit, a for a
   letter), which shows the program that wrote it, and the content-type to its value without the boundary;
3. the tricks of the sender in brackets: of HTML pages (`page_text`), misleading letters, wrong charsets; and
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

HTML pages (`page_text`): text is hidden by a style, an attribute or a colour like that of its background;
styles in a `<style>` are not applied. The standard library's parser reads the page once, without a tree.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from email.utils import getaddresses
from html.parser import HTMLParser
from typing import NamedTuple
from urllib.parse import urlsplit

from textsvm.apps.mail.raw_message import RawMessage
from textsvm.readers import mime
from textsvm.readers.charsets import decode_declared
from textsvm.readers.mail_header import repaired

#: Decoded header fields of the text, in their order.
FIELDS = ("subject", "from", "reply-to", "message-id", "x-mailer", "user-agent", "content-type")
#: Bytes of a message that are parsed, about.
MAX_BYTES = 1 << 19
#: Bytes of a piece between possible boundaries, and the bytes that even a late piece gets.
MAX_PIECE = 1 << 17
MIN_PIECE = 2048
#: Number of pieces.
MAX_PIECES = 400
#: Characters of a header field, and number of header fields.
MAX_FIELD = 2000
MAX_FIELDS = 1000
#: Characters of the header fields, and of the decoded text parts, in the text.
MAX_SENT = 3000
MAX_TEXT = 1 << 16
#: Number of parts that are read, and of tricks and attachments that are named.
MAX_PARTS = 100
MAX_TRICKS = 60
_BOUNDARY = re.compile(rb"\n--[^\r\n]")
_PARAMETER = re.compile(r";?\s*boundary\s*=\s*(?:\"[^\"]*\"|[^\s;]+)", re.IGNORECASE)
_FORM = {code: "a" for code in range(128) if chr(code).isalpha()} | dict.fromkeys(range(48, 58), "0")
_SIZES = (
    (1 << 16, "64 KB or more"), (1 << 14, "16-64 KB"), (1 << 12, "4-16 KB"), (1 << 10, "1-4 KB"),
    (0, "under 1 KB"),
)  # fmt: skip
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


class Message(NamedTuple):
    """A mail as the filter sees it."""

    digest: str  #: `RawMessage.digest`
    text: str  #: Input of the features
    #: Decoded fields for display; empty if missing.
    subject: str
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
    fields = b"\n".join(sent).decode("utf-8", "replace")[:MAX_SENT]
    text = fields + "\n\n" + "\n".join(filter(None, lines))
    # UTF-7 may declare lone surrogates, which no file or database accepts.
    names = (part.encode("utf-8", "replace").decode() for part in (text, subject, sender))
    return Message(raw.digest, *names)


def _lines(parsed: mime.MimePart) -> list[str]:
    """Lines of the text of a parsed message below the empty line."""
    texts: list[str] = []
    tricks: dict[str, None] = dict.fromkeys(_header_tricks(parsed))
    attachments: list[str] = []
    parts = [part for part in parsed.walk() if not part.is_multipart()][:MAX_PARTS]
    # HTML comes first, so that no plain text displaces it.
    for part in sorted(parts, key=_is_not_html):
        try:
            # A message that is declared multipart and has no parts may still hold text.
            holds_text = part.get_content_maintype() in ("text", "multipart")
            if holds_text and part.get_content_disposition() != "attachment":
                text, part_tricks = _text(part)
                texts.append(text)
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
    body, letter_tricks = plain_letters("\n".join(filter(None, texts))[:MAX_TEXT])
    tricks |= dict.fromkeys(letter_tricks)
    trick_lines = [f"[{trick}]" for trick in [*tricks][:MAX_TRICKS]]
    return [*fields, *trick_lines, *attachments[:MAX_TRICKS], body]


def _is_not_html(part: mime.MimePart) -> bool:
    return part.get_content_type() != "text/html"


def _class_of(number: int, classes: Sequence[tuple[int, str]]) -> str:
    """The first class whose least number is at most this number."""
    return next(words for least, words in classes if number >= least)


def _cut(data: bytes, start: int) -> bytes:
    """A message of bounded size with the same tree of parts, as far as it goes: pieces lose their ends."""
    if len(data) <= MAX_PIECE:
        return data[start:]
    pieces: list[bytes] = []
    size = 0
    while start < len(data) and len(pieces) < MAX_PIECES:
        stop = len(data)
        for window in range(start + 1, len(data), MAX_BYTES):  # in steps, so that other threads run
            if boundary := _BOUNDARY.search(data, window, window + MAX_BYTES + 3):
                stop = boundary.start()
                break
        room = max(MIN_PIECE, min(MAX_PIECE, (MAX_BYTES - size) // 2))  # also for the last piece
        pieces.append(data[start : min(stop, start + room)])
        size += len(pieces[-1])
        start = stop
    return b"".join(pieces)


def shortened(raw: RawMessage) -> bytes:
    """The message without bytes of the body that `read_message` does not read; only the digest differs."""
    return raw.data[: raw.end] + _cut(raw.data, raw.end)


def _text(part: mime.MimePart) -> tuple[str, list[str]]:
    """The text of a part as it is displayed, and its tricks."""
    payload = part.content()
    if not payload:
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
    if part.get_content_type() != "text/html" and not mime.is_html(text):
        return text.strip("\r\n"), tricks
    text, page_tricks = page_text(text)
    return text, tricks + page_tricks


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
    if text.isascii():
        return text, []
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


# HTML pages

_VOID = frozenset(
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track",
     "wbr"]
)  # fmt: skip
#: Tags that end an open tag of the same name.
_IMPLIED = frozenset(["p", "td", "th", "tr", "li", "dd", "dt", "option"])
_HIDES = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*hidden|mso-hide\s*:\s*all|opacity\s*:\s*0?\.?0*\s*(?:;|$)|"
    r"font-size\s*:\s*[01](?:\.\d+)?\s*(?:px|pt|em|%|;|$)|max-height\s*:\s*0",
    re.IGNORECASE,
)
_STYLE_COLOUR = re.compile(r"(?:^|[;\s])color\s*:\s*([#\w]+)", re.IGNORECASE)
_STYLE_BACK = re.compile(r"background(?:-color)?\s*:\s*([#\w]+)", re.IGNORECASE)
_STYLE_SMALL = re.compile(r"(?:^|[;\s])(?:width|height)\s*:\s*[01](?:px)?\s*(?:;|$)", re.IGNORECASE)
_NAMED = {"white": "ffffff", "black": "000000", "red": "ff0000", "blue": "0000ff", "yellow": "ffff00"}
_SPLIT = re.compile(r"[A-Za-z]<!--[^<>]{0,200}-->[A-Za-z]")
_SHOWN_HOST = re.compile(
    r"\s*(?:https?://)?((?:[a-z0-9-]{1,63}\.){1,8}[a-z]{2,10})\s*(?:[/:?]|$)", re.IGNORECASE
)
_SCRIPT = re.compile("<script", re.IGNORECASE)
_MAX_HOSTS = 12
#: Characters of a page that are read, without its comments, styles and scripts.
MAX_PAGE = 1 << 16


def page_text(source: str) -> tuple[str, list[str]]:
    """The displayed text of an HTML page, a line a block, and its tricks in words ("link to host a.com").

    Any input is accepted, however broken; each trick is named once.
    """
    parser = _PageParser()
    if _SPLIT.search(source):
        parser.tricks["words split by comments"] = None
    if _SCRIPT.search(source):
        parser.tricks["script"] = None
    # Unclosed comments would take the parser quadratic time.
    visible = mime.without_hidden(mime.without_comments(source)).replace("<!--", " ")
    parser.feed(visible[:MAX_PAGE])
    # Without close(): `html_text` reads the rest after a broken tag like the other readers.
    return mime.html_text("".join(parser.displayed) + parser.rawdata), [*parser.tricks]


class _PageParser(HTMLParser):
    """Collects the source of the displayed text, and tricks."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.displayed: list[str] = []
        self.tricks: dict[str, None] = {}
        self.hosts: set[str] = set()
        self.link: tuple[str, list[str]] | None = None
        self.open: list[tuple[str, str | None, bool]] = [("", "ffffff", False)]  # tag, background, hidden
        self.count: Counter[str] = Counter()
        self.number_letters = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: (value or "")[:2000] for name, value in attrs}
        if tag in _IMPLIED and self.open[-1][0] == tag:
            self._close_tag(tag)
        self._find_tricks(tag, attributes)
        if tag not in _VOID:
            background, hidden = self._style(attributes)
            self.open.append((tag, background, hidden))
            self.count[tag] += 1
        if not self.open[-1][2]:
            self.displayed.append(self.get_starttag_text() or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open[-1][2]:
            self.displayed.append(f"</{tag}>")
        if tag == "a":
            self._end_link()
        if self.count[tag]:
            self._close_tag(tag)

    def handle_data(self, data: str) -> None:
        if self.open[-1][2]:
            if data.strip():
                self.tricks["hidden text"] = None
            return
        self.displayed.append(data)
        if self.link is not None:
            self.link[1].append(data)

    def handle_entityref(self, name: str) -> None:
        self._reference(f"&{name};")

    def handle_charref(self, name: str) -> None:
        self._reference(f"&#{name};")
        digits = name[1:] if name[:1] in "xX" else name
        if len(digits) <= 3 and 64 < int(digits, 16 if digits != name else 10) < 123:
            self.number_letters += 1
            if self.number_letters == 8:
                self.tricks["letters written as numbers"] = None

    def _reference(self, text: str) -> None:
        if not self.open[-1][2]:
            self.displayed.append(text)

    def _close_tag(self, tag: str) -> None:
        while True:
            left = self.open.pop()[0]
            self.count[left] -= 1
            if left == tag:
                return

    def _style(self, attributes: dict[str, str]) -> tuple[str | None, bool]:
        """Background of an element, None if unknown, and whether its text is hidden."""
        background, hidden = self.open[-1][1:]
        if not attributes:
            return background, hidden
        style = attributes.get("style", "")
        back = _STYLE_BACK.search(style)
        front = _STYLE_COLOUR.search(style)
        if "background" in attributes or "url(" in style:
            background = None
        elif "bgcolor" in attributes or back:
            background = _colour(back[1] if back else attributes["bgcolor"])
        colour = _colour(front[1] if front else attributes.get("color", attributes.get("text", "")))
        same = colour is not None and background is not None and _alike(colour, background)
        return background, hidden or same or "hidden" in attributes or _HIDES.search(style) is not None

    def _find_tricks(self, tag: str, attributes: dict[str, str]) -> None:
        if tag == "a":
            self._end_link()
            self.link = (self._host(attributes.get("href", ""), "link to host"), [])
        elif tag == "img":
            host = self._host(attributes.get("src", ""), "picture from host")
            small = attributes.get("width", "") in ("0", "1") or attributes.get("height", "") in ("0", "1")
            if host and (small or _STYLE_SMALL.search(attributes.get("style", ""))):
                self.tricks["tracking pixel"] = None
        elif tag in ("form", "iframe", "object"):
            self._host(attributes.get("action", ""), "form to host")
            self.tricks[tag] = None

    def _host(self, address: str, trick: str) -> str:
        """The host of an address; it is noted as a trick."""
        try:
            parts = urlsplit(re.sub(r"\s", "", address))
            host = parts.hostname or ""
        except ValueError:
            self.tricks["link that is no address"] = None
            return ""
        if not host or parts.scheme not in ("http", "https", "ftp", ""):
            return ""
        if len(self.hosts) < _MAX_HOSTS:
            self.hosts.add(host)
            self.tricks[f"{trick} {host[:100]}"] = None
        if host.replace(".", "").isdigit():
            self.tricks["link to a number"] = None
        if "@" in parts.netloc:
            self.tricks["link with a name before its host"] = None
        return host

    def _end_link(self) -> None:
        if self.link is not None and self.link[0]:
            shown = _SHOWN_HOST.match("".join(self.link[1]))
            if shown and _domain(shown[1]) != _domain(self.link[0]):
                self.tricks["link text names another host"] = None
        self.link = None


def _domain(host: str) -> list[str]:
    return host.lower().rstrip(".").split(".")[-2:]


def _colour(text: str) -> str | None:
    """A colour as six hexadecimal digits; None if unknown."""
    text = text.strip().lower()
    text = _NAMED.get(text, text.lstrip("#"))
    if len(text) == 3:
        text = "".join(digit * 2 for digit in text)
    return text if re.fullmatch("[0-9a-f]{6}", text) else None


def _alike(first: str, second: str) -> bool:
    """Whether two colours cannot be told apart by eye."""
    pairs = (abs(int(first[i : i + 2], 16) - int(second[i : i + 2], 16)) for i in (0, 2, 4))
    return max(pairs) <= 16
