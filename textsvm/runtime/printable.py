"""Text of unknown origin -> text that a terminal or a page only shows. Light to import."""

from __future__ import annotations

import re

#: Symbols of a message, at most.
MOST = 300
_CUT = " … "
#: What scripts need between letters.
_JOINERS = "\u200c\u200d"
# Control characters but for line feed and tab, lone surrogates, the line ends of Unicode, and what reorders
# the text around it (embeddings, overrides and isolates; marks of a direction stay, as scripts need them).
_UNSHOWABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


def printable(text: str) -> str:
    """Text with U+FFFD in place of what UTF-8 or HTML cannot hold and of what drives a terminal."""
    return _UNSHOWABLE.sub("\ufffd", text)


def one_line(text: str, most: int = MOST) -> str:
    """A message on one line, printable; of one longer than `most` symbols the middle is left out.

    It begins with what was wrong and where, and ends with what to do: what is long stands between.
    """
    line = " ".join(text.split())
    if not line.isprintable():
        line = "".join(c if c.isprintable() or c in _JOINERS else "\ufffd" for c in line)
    if len(line) <= most:
        return line
    head = (most - len(_CUT)) * 3 // 5
    return line[:head] + _CUT + line[len(line) - (most - len(_CUT) - head) :]


def json_escaped(text: str) -> str:
    r"""JSON with what no terminal should get written as \u escapes: it reads back as the same values."""
    return _UNSHOWABLE.sub(lambda found: found[0] if found[0] == "\n" else f"\\u{ord(found[0]):04x}", text)
