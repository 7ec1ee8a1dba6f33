"""The error a user can meet: one sentence that says what was wrong, where, and what to do.

Text of unknown origin -> text that a terminal or a page only shows. Light to import.
"""

from __future__ import annotations

import re


class InputError(ValueError):
    """Something the user gave (a path, a corpus, a parameter, a model file) cannot be used.

    Its message is one printable line of at most 300 symbols, whatever names of files, columns or labels it
    repeats.

    Examples
    --------
    >>> from textsvm import InputError, Spectrum
    >>> try:
    ...     Spectrum(0)(["banana"])
    ... except InputError as error:
    ...     print(error)
    p=0 is no length of a substring: give a whole number from 1 or a range (p1, p2)
    """

    def __init__(self, message: object = "") -> None:
        super().__init__(one_line(str(message)))


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
