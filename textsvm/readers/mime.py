"""Contents of mail: decoded headers (encoded words of RFC 2047, raw bytes), and HTML as the displayed text.

`html_text` is for corpora: it needs the standard library alone, and time linear in the length of any input.
`page_text` is for filters: it needs selectolax and tinycss2, and its bounds hold for any input.
"""

from __future__ import annotations

import binascii
import email.errors
import html
import math
import quopri
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from email._policybase import Compat32  # `email.policy` takes 10 ms more to import
from email.message import Message
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from itertools import dropwhile, islice, takewhile, zip_longest
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple, cast
from urllib.parse import urlsplit

from textsvm.errors import InputError
from textsvm.readers.charsets import decode_declared
from textsvm.readers.mail_header import BASE64, repaired, repaired_header

if TYPE_CHECKING:
    from typing import TypeAlias

    from tinycss2.ast import Node

    #: A keyword; a number; a length as a multiple of the font's size, and pixels; a colour.
    Value: TypeAlias = str | tuple[float, ...]
    #: Importance, property, value.
    Declaration: TypeAlias = tuple[bool, str, Value]

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
#: Depth of messages in messages; the time of the standard library grows with depth times lines.
MAX_DEPTH = 60
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
# No character; html.unescape does not accept numbers of 5,000 digits.
_LONG_REFERENCE = re.compile("&#[0-9]{4000,}")
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
    text = _TAG.sub("", _BLOCK.sub("\n", without_hidden(without_comments(source))))
    if "&#" in text:
        text = _LONG_REFERENCE.sub("&#9999999999", text)
    return _LINES.sub("\n", _BLANK.sub(" ", html.unescape(text))).strip()


def without_comments(source: str) -> str:
    """A page without comments; a comment without an end ends before the next, or at the end."""
    first, *others = source.split("<!--")
    return first + "".join(piece.partition("-->")[2] for piece in others)


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


# HTML as mail programs display it

#: Numbers of "<" and ">" that are parsed, because some pages take a parser quadratic time.
MAX_TAGS = 8000
#: Nodes of a page that are read; rules of its style sheets that are compared with elements.
MAX_NODES = 20_000
MAX_RULES = 50_000
#: Characters of a page; of its end, which is read by itself from `MAX_WHOLE` on.
MAX_PAGE = 1 << 18
MAX_END = 1 << 14
MAX_WHOLE = 96 << 10
TOO_MUCH = "too much to read"
_MAX_HOSTS = 12
_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")
_LONG_TAG = re.compile(r"<[a-zA-Z][^<>]{4000,}")
#: Tags of elements that the HTML standard opens again in each block until they are closed.
_FORMAT = re.compile(r"<(/?)(?:b|big|code|em|font|i|s|small|strike|strong|tt|u)\b[^<>]*>?", re.IGNORECASE)
_SPLIT = re.compile(r"[A-Za-z]<!--[^<>]{0,200}-->[A-Za-z]")
_LETTER = re.compile(r"&#(?:6[5-9]|[7-9]\d|1[01]\d|12[0-2]|x[4-7][0-9a-f])(?![0-9a-f])", re.IGNORECASE)
_SHOWN_HOST = re.compile(r"\s*(?:https?://)?((?:[a-z0-9-]{1,63}\.){1,8}[a-z]{2,10})\s*(?:[/:?]|$)", re.I)
_SMALL = re.compile(r"(?:^|[;\s])(?:width|height)\s*:\s*[01](?:px)?\s*(?:;|$)", re.IGNORECASE)
_SPACES = re.compile(r"[ \t\n\r\f\xa0]+")
#: Elements without displayed text. Mail programs run no scripts, and so display `noscript`.
_UNSEEN = frozenset([
    "head", "script", "style", "template", "title", "noframes", "noembed", "iframe", "audio", "video",
    "canvas", "datalist", "rp",
])  # fmt: skip
_BLOCKS = frozenset([
    "address", "article", "aside", "blockquote", "body", "br", "caption", "center", "dd", "details",
    "dialog", "dir", "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "h1",
    "h2", "h3", "h4", "h5", "h6", "header", "hgroup", "hr", "html", "legend", "li", "listing", "main",
    "menu", "nav", "ol", "optgroup", "option", "p", "plaintext", "pre", "search", "section", "summary",
    "table", "tbody", "tfoot", "thead", "tr", "ul", "xmp",
])  # fmt: skip
_LINE_DISPLAYS = frozenset([
    "block", "list-item", "flow-root", "flex", "grid", "table", "table-row", "table-caption",
])  # fmt: skip
_INLINE = frozenset(["inline", "contents", "inherit", "initial", "unset", "ruby"])
#: Keywords of `display`, `visibility`, `overflow` and `position`; others are invalid, and ignored.
_KEYWORDS = _INLINE | _LINE_DISPLAYS | frozenset([
    "none", "inline-block", "inline-flex", "inline-grid", "inline-table", "table-cell", "visible",
    "hidden", "collapse", "clip", "scroll", "auto", "static", "relative", "absolute", "fixed", "sticky",
])  # fmt: skip
_WITH_KEYWORDS = frozenset(["display", "visibility", "overflow", "position"])
_BOXES = frozenset(["height", "max-height", "width", "max-width"])
_SIZES = _BOXES | {"font-size"}
_MARGINS = frozenset(["margin-left", "margin-top", "text-indent"])
_OFFSETS = frozenset(["left", "top", "right"])
_SYNONYMS = {"background-color": "background", "overflow-x": "overflow", "overflow-y": "overflow"}
_PROPERTIES = _WITH_KEYWORDS | _BOXES | _MARGINS | _OFFSETS | _SYNONYMS.keys()
_PROPERTIES |= {"opacity", "font-size", "font", "color", "background"}
_UNITS = {"px": 1, "pt": 4 / 3, "pc": 16, "in": 96, "cm": 37.8, "mm": 3.78, "rem": 16, "vw": 8, "vh": 6}
_FONT_UNITS = {"em": 1.0, "ex": 0.5, "ch": 0.5}
#: Pixels before the left or upper edge at which text is outside of the window, and the least readable size.
_OUTSIDE = -400
_TINY = 2
_CLEAR = (-1.0, -1.0, -1.0)
_COMPOUND = re.compile(r"(\*|[a-z][\w-]*)?((?:[.#][^\s.#:>+~\[*]+)*)", re.IGNORECASE)
_MEDIA = {"", "all", "screen", "only all", "only screen"}


class _Style(NamedTuple):
    """Style that children inherit: the font's size in pixels, colours as shares, () if unknown."""

    hidden: bool = False
    visible: bool = True
    size: float = 16
    colour: tuple[float, ...] = (0, 0, 0)
    background: tuple[float, ...] = (1, 1, 1)

    @property
    def hides(self) -> bool:
        """Whether nobody can read the text."""
        differences = [abs(a - b) for a, b in zip(self.colour, self.background, strict=False)]
        alike = self.colour == _CLEAR or (differences and max(differences) <= 16 / 255)
        return self.hidden or not self.visible or self.size < _TINY or bool(alike)

    def child(self, values: dict[str, Value], inline: bool) -> _Style:
        """The style of a child with these values; `inline` if it has no width and height."""
        words = {name: value for name, value in values.items() if isinstance(value, str)}
        numbers = {name: value for name, value in values.items() if not isinstance(value, str)}
        display, visibility = words.get("display"), words.get("visibility", "inherit")
        factor, size = numbers.get("font-size", (1, 0))
        size += factor * self.size
        absolute = words.get("position") in ("absolute", "fixed")
        outside = _MARGINS | _OFFSETS if absolute else _MARGINS
        inline = not absolute and (display in _INLINE if display else inline)
        clipped = not inline and words.get("overflow") in ("hidden", "clip")
        hidden = self.hidden or display == "none" or numbers.get("opacity", (1,))[0] < 0.05
        for name in numbers.keys() & (outside | _BOXES):
            pixels = numbers[name][0] * size + numbers[name][1]
            hidden |= pixels < _OUTSIDE if name in outside else clipped and pixels < _TINY
        visible = self.visible if visibility == "inherit" else visibility in ("visible", "initial")
        back = numbers.get("background", _CLEAR)
        back = self.background if back == _CLEAR else back
        return _Style(hidden, visible, size, numbers.get("color", self.colour), back)


def _values(content: str | list[Node], quirks: bool) -> list[Declaration]:
    """The declarations that may hide of a style attribute, or of the block of a rule."""
    declarations: list[Declaration] = []
    value: Value | None
    for node in import_module("tinycss2").parse_blocks_contents(content):
        if node.type != "declaration" or node.lower_name not in _PROPERTIES:
            continue
        tokens = [token for token in node.value if token.type not in ("whitespace", "comment")]
        name = _SYNONYMS.get(node.lower_name, node.lower_name)
        if name in ("color", "background"):
            value = _colour(tokens) if len(tokens) == 1 or name == "background" else None
        elif name == "font":
            name = "font-size"
            sizes = (_value(name, token, False) for token in tokens if token.type != "ident")
            value = next((size for size in sizes if size), None)
        else:
            value = _value(name, tokens[0], quirks) if len(tokens) == 1 else None
        if value is not None:
            declarations.append((node.important, name, value))
    return declarations


def _value(name: str, token: Node, quirks: bool) -> Value | None:
    """A keyword, a number, or a length as a multiple of the font's size and pixels; None if invalid."""
    if name in _WITH_KEYWORDS:
        return token.lower_value if token.type == "ident" and token.lower_value in _KEYWORDS else None
    if token.type == "ident" and name == "font-size":
        fixed = token.lower_value.endswith(("small", "medium", "large", "initial"))
        return (0, 16) if fixed else (1, 0) if token.lower_value in ("inherit", "smaller", "larger") else None
    if token.type == "ident":
        return 0, math.inf
    if token.type not in ("percentage", "number", "dimension") or (token.value < 0 and name in _SIZES):
        return None
    if token.type == "percentage":
        return token.value / 100, 0
    if token.type == "number" and (quirks or not token.value or name == "opacity"):
        return (token.value, 0) if name == "opacity" else (0, token.value)
    unit = token.lower_unit if token.type == "dimension" else ""
    if unit in _FONT_UNITS:
        return _FONT_UNITS[unit] * token.value, 0
    return (0, _UNITS[unit] * token.value) if unit in _UNITS else None


def _colour(tokens: Sequence[Node | str]) -> tuple[float, ...] | None:
    """Red, green and blue; () of a picture, None if invalid."""
    for token in tokens:
        colour = import_module("tinycss2.color3").parse_color(token)
        if colour and colour != "currentColor":
            return tuple(colour[:3]) if colour[3] >= 0.05 else _CLEAR
        if not isinstance(token, str) and token.type in ("url", "function"):
            return ()
    return None


@lru_cache(1024)
def _inline_values(style: str, quirks: bool) -> list[Declaration]:
    with suppress(*PARSER_ERRORS):
        return _values(style, quirks)
    return []


def _is_of_screens(media: str) -> bool:
    return any(" ".join(query.lower().split()) in _MEDIA for query in media.split(","))


class _Sheets:
    """The rules of a page's style sheets whose selector is one compound of a tag, classes and an id."""

    def __init__(self, page: Node, quirks: bool) -> None:
        self._quirks = quirks  # classes and ids are in any case, and numbers are pixels
        self._rules: dict[str, list[tuple[set[str], int, list[Declaration]]]] = {}
        self._order = 0
        self.left = MAX_RULES
        for node in page.css("style"):
            if _is_of_screens(node.attributes.get("media") or ""):
                with suppress(*PARSER_ERRORS):  # of tinycss2, such as a number of 5,000 digits
                    self._add(import_module("tinycss2").parse_stylesheet(node.text(), True, True), True)

    def _add(self, rules: list[Node], outer: bool) -> None:
        tinycss2 = import_module("tinycss2")
        for rule in rules:
            if rule.type == "qualified-rule" and (declarations := _values(rule.content, self._quirks)):
                self._add_rule(tinycss2.serialize(rule.prelude).split(","), declarations)
            elif outer and rule.type == "at-rule" and rule.lower_at_keyword == "media" and rule.content:
                inner = tinycss2.parse_rule_list(rule.content, True, True)
                self._add(inner if _is_of_screens(tinycss2.serialize(rule.prelude)) else [], False)

    def _add_rule(self, selectors: list[str], declarations: list[Declaration]) -> None:
        for selector in selectors:
            match = _COMPOUND.fullmatch(selector.strip())
            if match and match[0]:
                tag = (match[1] or "*").lower()
                names = match[2].replace("#", ".#").split(".")[1:]
                parts = {name if name[0] == "#" else f".{name}" for name in map(self._folded, names)}
                self._order += 1
                weight = 100 * match[2].count("#") + 10 * len(names) + (tag != "*")
                rules = self._rules.setdefault(min(parts, default=tag), [])
                rules.append((parts | {tag}, weight * 1_000_000 + self._order, declarations))

    def _folded(self, name: str) -> str:
        return name.lower() if self._quirks else name

    def values(self, tag: str, attributes: dict[str, str], hints: dict[str, Value]) -> dict[str, Value]:
        """The values of an element's properties by the cascade; `hints` are values of attributes."""
        cascade: list[tuple[bool, int, str, Value]] = [(False, -1, *hint) for hint in hints.items()]
        if self._rules:
            names = self._folded(attributes.get("class", "")).split()
            parts = {tag, "*", "#" + self._folded(attributes.get("id", "")), *(f".{name}" for name in names)}
            for part in parts & self._rules.keys():
                for rule_parts, weight, declarations in self._rules[part]:
                    self.left -= 1
                    if self.left > 0 and rule_parts <= parts:
                        cascade += [(item[0], weight, *item[1:]) for item in declarations]
        if style := attributes.get("style"):
            cascade += [(item[0], 1 << 60, *item[1:]) for item in _inline_values(style, self._quirks)]
        cascade.sort(key=itemgetter(0, 1))
        return {name: value for _, _, name, value in cascade}


def require_page_parser() -> None:
    """Raise InputError if `page_text` cannot work."""
    if not all(map(find_spec, ("selectolax", "tinycss2"))):
        raise InputError("the mail filter needs the extra textsvm[mail]: pip install selectolax tinycss2")


def page_text(source: str) -> tuple[str, list[str]]:
    """The displayed text of an HTML page, a line a block, and its tricks in words ("link to host a.com").

    Text is hidden by styles, attributes, or a colour like that of its background. Any input is accepted,
    however broken; each trick is named once. The end of a long page is read by itself, and stands before it.
    """
    reader = _PageReader()
    if _SPLIT.search(source):
        reader.tricks["words split by comments"] = None
    if len([*islice(_LETTER.finditer(source), 8)]) == 8:
        reader.tricks["letters written as numbers"] = None
    beginning = _cheap(source)
    if not reader.read(beginning) or len(beginning) < len(source) or len(source) > MAX_WHOLE:
        reader.tricks[TOO_MUCH] = None
        pieces, reader.displayed = reader.displayed, []
        end = source[-MAX_END:]
        reader.read(_cheap(end[max(end.find("<"), 0) :]))
        reader.displayed += ["\n", *pieces]
    text = re.sub(r" ?\t[ \t]*", "\t", re.sub(" +", " ", "".join(reader.displayed)))
    return re.sub(r"[ \t]?\n[ \t\n]*", "\n", text).strip(), [*reader.tricks]


def _cut_tag(beginning: str) -> str:
    """The beginning of a tag, with the end of the attribute in which it was cut."""
    open_quote = re.search("[\"']", _QUOTED.sub("", beginning))
    return beginning + (open_quote[0] if open_quote else "")


def _cheap(source: str) -> str:
    """The beginning of a page that a parser reads in little time."""
    stop = MAX_PAGE
    for bracket in "<>":
        for match in islice(re.finditer(bracket, source), MAX_TAGS, MAX_TAGS + 1):
            stop = min(stop, match.start())
    source = _LONG_TAG.sub(
        lambda tag: tag[0] if len(tag[0].split(None, 300)) < 300 else _cut_tag(tag[0][:4000]), source[:stop]
    )
    tags = source.count("<")
    if tags > 500:
        level = highest = 0
        for match in _FORMAT.finditer(source):
            level = max(0, level + (-1 if match[1] else 1))
            highest = max(highest, level)
        if min(highest, 3 * len({match[0] for match in _FORMAT.finditer(source)})) * tags > 300_000:
            return _FORMAT.sub("", source)
    return source


class _PageReader:
    """Collects the displayed text of pages, and tricks."""

    def __init__(self) -> None:
        self.displayed: list[str] = []
        self.tricks: dict[str, None] = {}
        self._hosts: set[str] = set()
        self._link: tuple[str, int] | None = None  # host, and number of displayed pieces before it
        self._lines = 0  # open elements whose line breaks are displayed

    def read(self, source: str) -> bool:
        """Read a page, or its beginning; return whether it is complete."""
        page = import_module("selectolax.lexbor").LexborHTMLParser(source.encode("utf-8", "replace"))
        quirks = "<!doctype" not in source[:2000].lower()
        sheets = _Sheets(page, quirks)
        if page.css_first("script") is not None:
            self.tricks["script"] = None
        stack: list[tuple[Node, _Style]] = [(page.root, _Style())]
        for _ in range(MAX_NODES):
            if not stack:
                break
            node, style = stack.pop()
            if isinstance(node, tuple):
                self._close(*node)
                continue
            if node.next is not None:
                stack.append((node.next, style))
            if node.is_text_node:
                self._text(node.text_content or "", style)
            elif node.is_element_node:
                attributes = {name: value or "" for name, value in node.attributes.items()}
                self._find_tricks(node.tag, attributes)
                if node.tag not in _UNSEEN:
                    values = sheets.values(node.tag, attributes, _hints(node.tag, attributes, quirks))
                    display = values.get("display")
                    block = display in _LINE_DISPLAYS if display else node.tag in _BLOCKS
                    block &= not style.hidden
                    self.displayed.append("\n" if block else "")
                    self._lines += node.tag == "pre"
                    stack.append(((node.tag, block), style))
                    if node.child is not None:
                        stack.append((node.child, style.child(values, not block) if values else style))
        self._end_link()
        return not stack and sheets.left > 0

    def _close(self, tag: str, block: bool) -> None:
        self.displayed.append("\n" if block else "\t" if tag in ("td", "th") else "")
        self._lines -= tag == "pre"
        if tag == "a":
            self._end_link()

    def _text(self, text: str, style: _Style) -> None:
        if not style.hides:
            self.displayed.append(text.replace("\xa0", " ") if self._lines else _SPACES.sub(" ", text))
        elif not text.isspace():
            self.tricks["hidden text"] = None

    def _find_tricks(self, tag: str, attributes: dict[str, str]) -> None:
        if tag == "a":
            self._end_link()
            self._link = self._host(attributes.get("href", ""), "link to host"), len(self.displayed)
        elif tag == "img":
            host = self._host(attributes.get("src", ""), "picture from host")
            sizes = attributes.get("width"), attributes.get("height")
            if host and ("0" in sizes or "1" in sizes or _SMALL.search(attributes.get("style", ""))):
                self.tricks["tracking pixel"] = None
        elif tag in ("form", "iframe", "object"):
            self._host(attributes.get("action", ""), "form to host")
            self.tricks[tag] = None

    def _host(self, address: str, trick: str) -> str:
        """The host of an address; it is noted as a trick."""
        try:
            parts = urlsplit(re.sub(r"\s", "", address[:2000]))
            host = parts.hostname or ""
        except ValueError:
            self.tricks["link that is no address"] = None
            return ""
        if not host or parts.scheme not in ("http", "https", "ftp", ""):
            return ""
        if len(self._hosts) < _MAX_HOSTS:
            self._hosts.add(host)
            self.tricks[f"{trick} {host[:100]}"] = None
        if host.replace(".", "").isdigit():
            self.tricks["link to a number"] = None
        if "@" in parts.netloc:
            self.tricks["link with a name before its host"] = None
        return host

    def _end_link(self) -> None:
        if self._link is not None and self._link[0]:
            shown = _SHOWN_HOST.match("".join(self.displayed[self._link[1] :]))
            if shown and _domain(shown[1]) != _domain(self._link[0]):
                self.tricks["link text names another host"] = None
        self._link = None


def _domain(host: str) -> list[str]:
    return host.lower().rstrip(".").split(".")[-2:]


def _hints(tag: str, attributes: dict[str, str], quirks: bool) -> dict[str, Value]:
    """Values of properties that attributes give, or the style sheet of the program."""
    hints: dict[str, Value] = {}
    if quirks and tag == "table":
        hints = {"font-size": (0, 16), "color": (0, 0, 0)}
    if tag == "a" and "href" in attributes:
        hints["color"] = (0, 0, 0.9)
    if "hidden" in attributes or (tag == "dialog" and "open" not in attributes):
        hints["display"] = "none"
    for name, of in (("color", "color"), ("text", "color"), ("bgcolor", "background")):
        text = attributes.get(name, "").strip()
        if text and (colour := _colour([text]) or _colour([f"#{text}"])):
            hints[of] = colour
    if "background" in attributes:
        hints["background"] = ()
    return hints
