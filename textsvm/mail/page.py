"""HTML pages of mail: the displayed text, and tricks such as hidden text, links, tracking pixels and forms.

Text is hidden by a style, an attribute or a colour like that of its background; styles in a `<style>` are not
applied. The standard library's parser reads the page once, without building a tree.
"""

from __future__ import annotations

import re
from collections import Counter
from html.parser import HTMLParser
from urllib.parse import urlsplit

from textsvm.readers.mime import html_text, without_comments, without_hidden

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
    visible = without_hidden(without_comments(source)).replace("<!--", " ")
    parser.feed(visible[:MAX_PAGE])
    # Without close(): `html_text` reads the rest after a broken tag like the other readers.
    return html_text("".join(parser.displayed) + parser.rawdata), [*parser.tricks]


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
        back, front = _STYLE_BACK.search(style), _STYLE_COLOUR.search(style)
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
