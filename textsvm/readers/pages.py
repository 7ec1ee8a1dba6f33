"""HTML pages of mail as the text that programs display, and the tricks that hide text from a reader.

selectolax parses pages and tinycss2 styles. The bounds of time and memory hold for any input.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from itertools import chain, islice, takewhile
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple, TypeVar
from urllib.parse import urlsplit

from textsvm.errors import InputError
from textsvm.readers.mime import PARSER_ERRORS

T = TypeVar("T")

if TYPE_CHECKING:
    from typing import TypeAlias

    from tinycss2.ast import Node

    #: A keyword; a number; a length as a multiple of the font's size, and pixels; a colour.
    Value: TypeAlias = str | tuple[float, ...]
    Declaration: TypeAlias = tuple[bool, str, Value]  #: Importance, property, value
    #: Last compound of a selector, those around it with their combinators, weight, declarations.
    Rule: TypeAlias = tuple[set[str], list[tuple[str, set[str]]], int, list[Declaration]]

MAX_TAGS = 8000  #: Numbers of "<" and ">" that are parsed, because some pages take a parser quadratic time
MAX_NODES = 20_000  #: Nodes of a page that are read
MAX_RULES = 50_000  #: Rules of its style sheets that are compared with elements
MAX_PAGE = 1 << 18  #: Characters of a page
MAX_END = 1 << 14  #: Characters of its end, which is read by itself from `MAX_WHOLE` on
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
_FILE = re.compile(r"\.(?:pdf|docx?|xlsx?|pptx?|txt|csv|zip|png|jpe?g|gif|html?|xml|ics|eml|exe|js)$", re.I)
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
_WITH_BACKGROUND = frozenset(["body", "table", "thead", "tbody", "tfoot", "tr", "td", "th"])
#: Attributes, elements that have them, and properties.
_COLOUR_ATTRIBUTES = (
    ("color", frozenset(["font"]), "color"),
    ("text", frozenset(["body"]), "color"),
    ("bgcolor", _WITH_BACKGROUND | {"marquee"}, "background"),
)
#: Keywords of `display`, `visibility`, `overflow`, `position` and `content-visibility`; others are invalid.
_KEYWORDS = _INLINE | _LINE_DISPLAYS | frozenset([
    "none", "inline-block", "inline-flex", "inline-grid", "inline-table", "table-cell", "table-column",
    "table-column-group", "visible", "hidden", "collapse", "clip", "scroll", "auto", "static", "relative",
    "absolute", "fixed", "sticky",
])  # fmt: skip
_WITH_KEYWORDS = frozenset(["display", "visibility", "overflow", "position", "content-visibility"])
_UNDISPLAYED = frozenset(["none", "table-column", "table-column-group"])
#: Keywords of every property, and the values that `initial` stands for where it differs from no value.
_WIDE = frozenset(["initial", "inherit", "unset", "revert", "revert-layer"])
_INITIAL: dict[str, Value] = {
    "display": "inline", "visibility": "visible", "font-size": (0, 16), "color": (0, 0, 0),
}  # fmt: skip
_BOXES = frozenset(["height", "max-height", "width", "max-width", "line-height"])
#: Properties that make a box larger than its height or its width.
_ROOM = {
    "height": ("min-height", "padding-top", "padding-bottom"),
    "width": ("min-width", "padding-right", "padding-left"),
}
_ROOMS = frozenset(chain.from_iterable(_ROOM.values()))
_SIZES = _BOXES | _ROOMS | {"font-size", "zoom"}
_MARGINS = frozenset(["margin-left", "margin-top", "text-indent"])
_OFFSETS = frozenset(["left", "top", "right"])
_SYNONYMS = {
    "background-color": "background", "overflow-x": "overflow", "overflow-y": "overflow",
    "scale": "transform", "translate": "transform", "-webkit-transform": "transform",
    "-webkit-clip-path": "clip-path", "-webkit-filter": "filter",
}  # fmt: skip
#: Properties of top, right, bottom and left that one declaration sets.
_SIDES = {
    "margin": ("margin-top", "", "", "margin-left"),
    "inset": ("top", "right", "", "left"),
    "padding": ("padding-top", "padding-right", "padding-bottom", "padding-left"),
}
_COLOURS = frozenset(["color", "background", "background-image", "-webkit-text-fill-color"])
_SHAPES = frozenset(["clip", "clip-path", "filter", "transform"])
_PROPERTIES = _WITH_KEYWORDS | _SIZES | _MARGINS | _OFFSETS | _SYNONYMS.keys() | _SIDES.keys() | _COLOURS
_PROPERTIES |= _SHAPES | {"opacity", "font"}
_UNITS = {"px": 1, "pt": 4 / 3, "pc": 16, "in": 96, "cm": 37.8, "mm": 3.78, "rem": 16, "vw": 8, "vh": 6}
_FONT_UNITS = {"em": 1.0, "ex": 0.5, "ch": 0.5}
_PER_CENT = 8  #: Pixels that a per cent of a box's width or height stands for
_OUTSIDE = -400  #: Pixels from the left or upper edge at which text is outside of the window
_TINY = 2  #: Least readable size in pixels
_CLEAR = (-1.0, -1.0, -1.0)
_COMPOUND = re.compile(r"(\*|[a-z][\w-]*)?((?:[.#][^\s.#:>+~\[*]+)*)", re.IGNORECASE)
_COMBINATOR = re.compile(r"\s*(>|\s)\s*")  #: Combinators: a descendant or a child of an element
#: Pseudo-classes and elements of CSS; a rule with another has no effect, and those with one are not applied.
_PSEUDO = re.compile(
    r"::?(?:hover|link|visited|active|focus[\w-]*|first-[\w-]+|last-[\w-]+|only-[\w-]+|nth-[\w-]+|before|after|"
    r"not|is|where|has|root|empty|target|checked|disabled|enabled|lang|placeholder|selection|-[\w-]+)\b"
)
_MEDIA = {"", "all", "screen", "only all", "only screen"}


class _Style(NamedTuple):
    """Style that children inherit: the font's size in pixels, colours as shares, () if unknown."""

    hidden: bool = False
    visible: bool = True
    size: float = 16
    colour: tuple[float, ...] = (0, 0, 0)
    background: tuple[float, ...] = (1, 1, 1)
    fill: tuple[float, ...] | None = None  #: `-webkit-text-fill-color`, which replaces the colour
    folded: bool = False  #: In a closed `details`, outside of its summary

    @property
    def hides(self) -> bool:
        """Whether nobody can read the text."""
        colour = self.colour if self.fill is None else self.fill
        differences = [abs(a - b) for a, b in zip(colour, self.background, strict=False)]
        alike = colour == _CLEAR or (differences and max(differences) <= 16 / 255)
        return self.hidden or self.folded or not self.visible or self.size < _TINY or bool(alike)

    def child(self, values: dict[str, Value], inline: bool) -> _Style:
        """The style of a child with these values; `inline` if it has no width and height."""
        words = {name: value for name, value in values.items() if isinstance(value, str)}
        numbers = {name: value for name, value in values.items() if not isinstance(value, str)}
        display, visibility = words.get("display"), words.get("visibility")
        factor, size = numbers.get("font-size", (1, 0))
        size += factor * self.size
        size *= sum(numbers.get("zoom", (1, 0)))
        position = words.get("position")
        absolute, relative = position in ("absolute", "fixed"), position == "relative"
        inline = not absolute and (display in _INLINE if display else inline)
        clips = not inline and words.get("overflow") in ("hidden", "clip")
        hidden = self.hidden or display in _UNDISPLAYED or numbers.get("opacity", (1,))[0] < 0.05
        hidden |= numbers.get("filter", (1,))[0] < 0.05 or "clip-path" in numbers
        hidden |= words.get("content-visibility") == "hidden" or (absolute and "clip" in numbers)
        names = _BOXES | _ROOMS | _MARGINS | (_OFFSETS if absolute or relative else frozenset())
        lengths = {name: numbers[name][0] * size + numbers[name][1] for name in names & numbers.keys()}
        if relative:  # `left` goes before `right`, and `top` in per cent is of an unknown height
            left, right = (lengths.pop(name, math.inf) for name in ("left", "right"))
            lengths["left"] = -right if left == math.inf else left
            lengths.pop("top" if len(numbers.get("top", ())) > 2 else "", None)
        hidden |= any(
            -math.inf < pixels < _OUTSIDE for name, pixels in lengths.items() if name not in _BOXES | _ROOMS
        )
        if clips:
            for name in _BOXES & lengths.keys():
                room = _ROOM["width" if name.endswith("width") else "height"]
                hidden |= lengths[name] < _TINY and all(lengths.get(side, 0) < _TINY for side in room)
            hidden |= lengths.get("text-indent", 0) > -_OUTSIDE
        if not inline and "transform" in numbers:
            scale, offset = numbers["transform"]
            hidden |= scale < 0.05 or offset < _OUTSIDE
        visible = visibility == "visible" if visibility else self.visible
        back = numbers.get("background", _CLEAR)
        back = numbers.get("background-image", self.background if back == _CLEAR else back)
        colour, fill = numbers.get("color", self.colour), numbers.get("-webkit-text-fill-color", self.fill)
        return _Style(hidden, visible, size, colour, back, fill, self.folded)


def _values(content: str | list[Node], quirks: bool) -> list[Declaration]:
    """The declarations of a style attribute, or of the block of a rule, that can hide text."""
    return [
        (node.important, name, value)
        for node in import_module("tinycss2").parse_blocks_contents(content)
        if node.type == "declaration" and node.lower_name in _PROPERTIES
        for name, value in _of_declaration(node.lower_name, _without_space(node.value), quirks).items()
        if value is not None and name
    ]


def _without_space(tokens: Sequence[Node]) -> list[Node]:
    return [token for token in tokens if token.type not in ("whitespace", "comment")]


def _of_declaration(declared: str, tokens: list[Node], quirks: bool) -> dict[str, Value | None]:
    """The properties that a declaration sets, with their values; None if invalid, "" if without effect."""
    name, value = _SYNONYMS.get(declared, declared), None
    word = tokens[0].lower_value if len(tokens) == 1 and tokens[0].type == "ident" else None
    if name in _SIDES:
        autos = [token.type == "ident" and token.lower_value == "auto" for token in tokens]
        lengths = [
            (0, math.inf) if auto else _length(x, quirks) for auto, x in zip(autos, tokens, strict=True)
        ]
        if word in _WIDE or (tokens and len(lengths) <= 4 and None not in lengths):
            return dict(zip(_SIDES[name], [""] * 4 if word in _WIDE else _four(lengths), strict=True))
        return {}
    if word in _WIDE:
        name = "font-size" if name == "font" else name
        value = _INITIAL.get(name, "") if word == "initial" or (word == "unset" and name == "display") else ""
    elif name == "color" and word == "currentcolor":
        value = ""
    elif name in _COLOURS:
        value = _colour(tokens) if len(tokens) == 1 or name.startswith("background") else None
        value = None if name == "background-image" and value else value
    elif name in _SHAPES:
        value = _SHAPE_READERS[name](declared, tokens)
    elif name == "font":
        name = "font-size"
        sizes = (_value(name, token, False) for token in tokens if token.type != "ident")
        value = next((size for size in sizes if size), None)
    elif name == "overflow" and len(tokens) == 2:
        values = [_value(name, token, quirks) for token in tokens]
        value = None if None in values else next((v for v in values if v in ("hidden", "clip")), values[0])
    elif len(tokens) == 1:
        value = _value(name, tokens[0], quirks)
    return {name: value}


def _four(values: list[T]) -> list[T]:
    """One to four values of a shorthand as those of top, right, bottom and left."""
    return [values[int(number)] for number in ("0000", "0101", "0121", "0123")[len(values) - 1]]


def _value(name: str, token: Node, quirks: bool) -> Value | None:
    """A keyword, a number, or a length as a multiple of the font's size and pixels; None if invalid."""
    if name in _WITH_KEYWORDS:
        return token.lower_value if token.type == "ident" and token.lower_value in _KEYWORDS else None
    if token.type == "ident" and name == "font-size":
        fixed = token.lower_value.endswith(("small", "medium", "large"))
        return (0, 16) if fixed else (1, 0) if token.lower_value in ("smaller", "larger") else None
    if token.type == "ident":
        return None if name == "opacity" else "" if name == "zoom" else (0, math.inf)
    if name in ("opacity", "zoom"):
        share = _share(token)
        return None if share is None else (share or 1, 0) if name == "zoom" else (share, 0)
    if name in ("font-size", "line-height") and token.type == "percentage":
        return (token.value / 100, 0) if token.value >= 0 else None
    if name == "line-height" and token.type == "number":
        return token.value, 0
    length = _length(token, quirks)
    if token.type != "function" and length and min(length) < 0 and name in _SIZES:
        return None
    return length


def _share(token: Node) -> float | None:
    """A number, or a percentage as a share; None if invalid, as with a unit."""
    if token.type in ("number", "percentage"):
        return float(token.value / (100 if token.type == "percentage" else 1))
    units = token.type != "function" or re.search(r"[\d.](?!e[-+]?\d)[a-z]", token.serialize(), re.IGNORECASE)
    result = None if units else _calculated(token)
    return result and result[0] + result[2] / (100 * _PER_CENT)


def _length(token: Node, quirks: bool) -> tuple[float, ...] | None:
    """A length as a multiple of the font's size and pixels, and 0 if it has percentages; None if invalid."""
    if token.type == "function":
        result = _calculated(token)
        return result[1:] + (0,) * ("%" in token.serialize()) if result and not result[0] else None
    if token.type == "percentage":
        return 0, _PER_CENT * token.value, 0
    if token.type == "number" and (quirks or not token.value):
        return 0, token.value
    unit = token.lower_unit if token.type == "dimension" else ""
    if unit in _FONT_UNITS:
        return _FONT_UNITS[unit] * token.value, 0
    return (0, _UNITS[unit] * token.value) if unit in _UNITS else None


def _calculated(token: Node, depth: int = 0) -> tuple[float, float, float] | None:
    """A number, a multiple of the font's size and pixels of a mathematical expression; None if invalid.

    `min`, `max` and `clamp` compare lengths as those of a font of 16 pixels.
    """
    if token.type == "number":
        return token.value, 0, 0
    if token.type not in ("function", "() block"):
        length = _length(token, False)
        return (0, length[0], length[1]) if length else None
    name = token.lower_name if token.type == "function" else "calc"
    if depth > 20 or name not in ("calc", "-webkit-calc", "min", "max", "clamp"):
        return None
    parts = _split(token.arguments if token.type == "function" else token.content, ",")
    results = [result for part in parts if (result := _summed(part, depth)) is not None]
    if len(results) < len(parts):
        return None
    ordered = sorted(results, key=lambda result: result[0] + 16 * result[1] + result[2])
    return ordered[{"min": 0, "clamp": len(ordered) // 2}.get(name, -1)]


def _split(tokens: Sequence[Node], *operators: str) -> list[list[Node]]:
    """Tokens between operators; a part after "-" or "/" begins with it."""
    parts: list[list[Node]] = [[]]
    for token in _without_space(tokens):
        if token.type == "literal" and token.value in operators:
            parts.append([token] if token.value in ("-", "/") else [])
        else:
            parts[-1].append(token)
    return parts


def _summed(tokens: Sequence[Node], depth: int) -> tuple[float, float, float] | None:
    """The sum of products of numbers and lengths."""
    total = [0.0, 0.0, 0.0]
    for part in _split(tokens, "+", "-"):
        product: Sequence[float] = (1, 0, 0)
        sign = 1.0
        if part and part[0].type == "literal" and part[0].value == "-":
            sign, part = -1.0, part[1:]
        for factor in _split(part, "*", "/"):
            divides = bool(factor) and factor[0].type == "literal"
            value = _calculated(factor[-1], depth + 1) if len(factor) == 1 + divides else None
            if value is None:
                return None
            if divides:
                if not value[0] or any(value[1:]):
                    return None
                value = 1 / value[0], 0, 0
            scale, vector = (value[0], product) if any(product[1:]) else (product[0], value)
            product = [scale * number for number in vector]
        total = [a + sign * b for a, b in zip(total, product, strict=True)]
    return total[0], total[1], total[2]


def _pixels(token: Node) -> float:
    """A length in pixels, for a font of 16; an infinite length if invalid."""
    length = _length(token, False)
    return 16 * length[0] + length[1] if length else math.inf


def _transform(declared: str, tokens: list[Node]) -> Value | None:
    """The factor by which a box is scaled, and by how many pixels it is moved."""
    factor, offset, calls = 1.0, 0.0, [(declared, tokens)]
    if declared not in ("scale", "translate"):
        calls = [(x.lower_name, _without_space(x.arguments)) for x in tokens if x.type == "function"]
    for name, arguments in calls:
        plane = [token for token in arguments if token.type not in ("literal", "ident")]
        if name in ("scale", "scale3d", "scalex", "scaley", "matrix", "matrix3d"):
            shares = [share for token in plane if (share := _share(token)) is not None]
            if len(shares) != {"matrix": 6, "matrix3d": 16}.get(name, len(plane)):
                return None
            if name[0] == "s":
                factor *= min(map(abs, shares[:2]), default=1)
                continue
            a, b, c, d, *moves = shares if len(shares) == 6 else itemgetter(0, 1, 4, 5, 12, 13)(shares)
            factor *= abs(a * d - b * c) / (max(math.hypot(a, b), math.hypot(c, d)) or 1)
            offset += min(moves)
        elif name in ("translate", "translate3d", "translatex", "translatey"):
            offset += min(map(_pixels, plane[:2]), default=0)
        elif name in ("rotatex", "rotatey") and plane and plane[0].type == "dimension":
            turns = {"deg": 1 / 360, "turn": 1, "grad": 1 / 400}.get(plane[0].lower_unit, 0.5 / math.pi)
            factor *= abs(math.cos(2 * math.pi * turns * plane[0].value))
    return factor, offset


def _clip_path(declared: str, tokens: list[Node]) -> Value | None:
    """A value if no text is left within the shape."""
    if len(tokens) != 1 or tokens[0].type != "function":
        return ""
    name, parts = tokens[0].lower_name, _split(tokens[0].arguments, ",")
    first = [_pixels(token) for token in takewhile(lambda token: token.type != "ident", parts[0])]
    if name == "inset" and 0 < len(first) <= 4:
        top, right, bottom, left = _four(first)
        return () if max(top + bottom, left + right) >= 99 * _PER_CENT else ""
    if name in ("circle", "ellipse") and first:
        return () if min(first) < _TINY else ""
    if name == "polygon":
        points = [[_pixels(token) for token in part if token.type != "ident"] for part in parts]
        sides = zip(*(point for point in points if point), strict=False)
        return () if any(max(side) - min(side) < _TINY for side in sides) else ""
    return ""


def _clip(declared: str, tokens: list[Node]) -> Value | None:
    """A value if no text is left within the rectangle."""
    if len(tokens) != 1 or tokens[0].type != "function":
        return ""
    sides = [_pixels(token) for token in _without_space(tokens[0].arguments) if token.type != "literal"]
    if len(sides) == 4 and (sides[2] - sides[0] < _TINY or sides[1] - sides[3] < _TINY):
        return ()
    return ""


def _filter(declared: str, tokens: list[Node]) -> Value | None:
    """The opacity that filters leave."""
    opacity = 1.0
    for token in tokens:
        if token.type == "function" and token.lower_name == "opacity" and token.arguments:
            [share] = _without_space(token.arguments)[:1] or [token]
            opacity *= 1 if (factor := _share(share)) is None else factor
    return (opacity,)


_SHAPE_READERS = {"clip": _clip, "clip-path": _clip_path, "filter": _filter, "transform": _transform}


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
    """The rules of a page's style sheets whose selectors are compounds of a tag, classes and an id.

    A compound may be within others (`div.a p`, `td > p`). Rules with other selectors are not applied.
    """

    def __init__(self, page: Node, quirks: bool) -> None:
        self._quirks = quirks  # classes and ids are in any case, and numbers are pixels
        #: By a part of the last compound.
        self._rules: dict[str, list[Rule]] = {}
        self._order = 0
        self.left = MAX_RULES
        for node in page.css("style"):
            kind = (node.attributes.get("type") or "text/css").strip().lower()
            if kind == "text/css" and _is_of_screens(node.attributes.get("media") or ""):
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
        pseudo = [re.sub(r"\[[^\]]*\]?", "", selector) for selector in selectors]
        if any(
            not name.strip() or ":" in _PSEUDO.sub("", name) or name.strip()[0].isdigit() for name in pseudo
        ):
            return  # an invalid selector makes its rule invalid
        for selector in selectors:
            self._order += 1
            pieces = _COMBINATOR.split(selector.strip())
            compounds = [parts for piece in pieces[::2] if (parts := self._parts(piece))]
            if 2 * len(compounds) > len(pieces):
                around = [*zip(pieces[-2::-2], compounds[-2::-1], strict=True)]
                first = min(compounds[-1] - {"*"}, default="*")
                rule = compounds[-1], around, self._weight(selector), declarations
                self._rules.setdefault(first, []).append(rule)

    def _parts(self, compound: str) -> set[str]:
        """A tag, classes and an id; empty for anything else."""
        match = _COMPOUND.fullmatch(compound)
        if not match or not match[0]:
            return set()
        return {(match[1] or "*").lower(), *map(self._folded, re.findall("[.#][^.#]+", match[2]))}

    def _parts_of(self, tag: str, attributes: dict[str, str | None]) -> set[str]:
        """All parts that a compound of the element may have."""
        names = self._folded(attributes.get("class") or "").split()
        return {tag, "*", "#" + self._folded(attributes.get("id") or ""), *(f".{name}" for name in names)}

    def _is_within(self, node: Node, around: list[tuple[str, set[str]]]) -> bool:
        """Whether an element is within others; `left` bounds the comparisons, also of hostile selectors."""
        if not around:
            return True
        combinator, compound = around[0]
        parent = node.parent
        while parent is not None and parent.is_element_node and self.left > 0:
            self.left -= 1
            if compound <= self._parts_of(parent.tag, parent.attributes) and self._is_within(
                parent, around[1:]
            ):
                return True
            parent = None if combinator == ">" else parent.parent
        return False

    def _weight(self, selector: str) -> int:
        """Specificity, and order of rules that have the same."""
        selector = re.sub(r"\[[^\]]*", "[", selector)
        names, tags = (len(re.findall(x, selector)) for x in (r"[.\[]", r"(?<![\w.#\[-])[a-zA-Z]"))
        return (selector.count("#") << 70) + (names << 50) + (tags << 30) + self._order

    def _folded(self, name: str) -> str:
        return name.lower() if self._quirks else name

    def values(self, node: Node, attributes: dict[str, str], hints: dict[str, Value]) -> dict[str, Value]:
        """The values of an element's properties by the cascade; `hints` are values of attributes."""
        cascade: list[tuple[bool, int, str, Value]] = [(False, -1, *hint) for hint in hints.items()]
        parts = self._parts_of(node.tag, {**attributes}) if self._rules else set()
        for part in parts & self._rules.keys():
            for compound, around, weight, declarations in self._rules[part]:
                self.left -= 1
                if self.left > 0 and compound <= parts and self._is_within(node, around):
                    cascade += [(item[0], weight, *item[1:]) for item in declarations]
        if style := attributes.get("style"):
            cascade += [(item[0], 1 << 99, *item[1:]) for item in _inline_values(style, self._quirks)]
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
                tag, block = node
                self.displayed.append("\n" if block else "\t" if tag in ("td", "th") else "")
                self._lines -= tag == "pre"
                if tag == "a":
                    self._end_link()
                continue
            if node.next is not None:
                stack.append((node.next, style))
            if node.is_text_node:
                self._text(node.text_content or "", style)
            elif node.is_element_node:
                attributes = {name: value or "" for name, value in node.attributes.items()}
                self._find_tricks(node.tag, attributes)
                if node.tag not in _UNSEEN:
                    values = sheets.values(node, attributes, _hints(node.tag, attributes, quirks))
                    display = values.get("display")
                    block = display in _LINE_DISPLAYS if display else node.tag in _BLOCKS
                    block &= not style.hidden
                    self.displayed.append("\n" if block else "")
                    self._lines += node.tag == "pre"
                    stack.append(((node.tag, block), style))
                    if node.child is not None:
                        inner = style.child(values, not block) if values else style
                        folds = node.tag == "details" and "open" not in attributes
                        if folds or (node.tag == "summary" and node.parent.tag == "details"):
                            inner = inner._replace(folded=folds)
                        stack.append((node.child, inner))
        self._end_link()
        return not stack and sheets.left > 0

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
            if shown and not _FILE.search(shown[1]):
                names = (x.lower().rstrip(".").removeprefix("www.") for x in (shown[1], self._link[0]))
                short, long = sorted((f".{name}" for name in names), key=len)
                if not long.endswith(short):  # of a single domain, a host is the end of the other's name
                    self.tricks["link text names another host"] = None
        self._link = None


def _hints(tag: str, attributes: dict[str, str], quirks: bool) -> dict[str, Value]:
    """Values of properties that attributes give, or the style sheet of the program."""
    hints: dict[str, Value] = {}
    if quirks and tag == "table":
        hints = {"font-size": (0, 16), "color": (0, 0, 0)}
    if tag == "a" and "href" in attributes:
        hints["color"] = (0, 0, 0.9)
    if {"hidden", "popover"} & attributes.keys() or (tag == "dialog" and "open" not in attributes):
        hints["display"] = "none"
    for name, tags, of in _COLOUR_ATTRIBUTES:
        text = attributes.get(name, "").strip() if tag in tags else ""
        if text and (colour := _colour([text]) or _colour([f"#{text}"])):
            hints[of] = colour
    if "background" in attributes and tag in _WITH_BACKGROUND:
        hints["background-image"] = ()
    return hints
