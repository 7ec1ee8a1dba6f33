"""HTML -> the text that a reader of it would see. Linear in the length of any input, however broken."""

from __future__ import annotations

import html
import re
from itertools import zip_longest

_HIDDEN = re.compile(r"<(script|style|xml)\b[^<>]*>", re.IGNORECASE)
_CLOSE = {name: re.compile(f"</{name}[^<>]*>", re.IGNORECASE) for name in ("script", "style", "xml")}
_BLOCK = re.compile(
    r"</?(?:address|article|blockquote|body|br|center|dd|div|dl|dt|fieldset|footer|form|h[1-6]|head|header|hr|"
    r"html|li|ol|option|p|pre|section|select|table|tbody|td|tfoot|th|thead|title|tr|ul)\b[^<>]*>",
    re.IGNORECASE,
)
_TAG = re.compile(r"<[a-zA-Z/!?][^<>]*>")
_BLANK = re.compile(r"[ \t\r\f\v\xa0]+")
_ENDLESS = re.compile("&#[0-9]{4000,}")  # no character; html.unescape takes no number of 5,000 digits
_LINES = re.compile(r" ?\n[ \n]*")


def is_html(text: str) -> bool:
    """Whether a text that claims nothing is an HTML page."""
    return text[:512].lstrip().lower().startswith(("<html", "<!doctype html", "<body", "<head"))


def html_text(source: str) -> str:
    """The text of an HTML page, one line a block.

    Comments, scripts and styles go; tags inside a line go without a trace, so that a word with a
    tag or a comment in the middle is whole; tags that begin a block become a line break.
    """
    text = _TAG.sub("", _BLOCK.sub("\n", without_hidden(without_comments(source))))
    return _LINES.sub("\n", _BLANK.sub(" ", html.unescape(_endless(text)))).strip()


def _endless(text: str) -> str:
    """Character references of more digits than Python reads cut to what is still no character."""
    return _ENDLESS.sub("&#9999999999", text) if "&#" in text else text


def without_comments(source: str) -> str:
    """A page without its comments; one that is never closed ends where the next one begins, or at the end."""
    first, *others = source.split("<!--")
    return first + "".join(piece.partition("-->")[2] for piece in others)


def without_hidden(source: str) -> str:
    """Without scripts and styles; one that is never closed ends at the next one, or at the end."""
    kept, position = [], 0
    starts = [*_HIDDEN.finditer(source)]
    for match, following in zip_longest(starts, starts[1:]):
        kept.append(source[position : match.start()])
        limit = following.start() if following else len(source)
        close = _CLOSE[match[1].lower()].search(source, match.end(), limit)
        position = close.end() if close else limit
    return "".join(kept) + source[position:]
