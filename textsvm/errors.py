"""Errors and warnings for users, and text that is safe to print on a terminal or a page. Light to import."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

#: Maximum number of characters of a message.
MAX_MESSAGE = 300
_ELLIPSIS = " … "
_JOINERS = "\u200c\u200d"  #: Zero-width joiners, which some scripts need between letters.
# Control characters except line feed and tab, lone surrogates, Unicode line separators, and characters that
# reorder the text around them (embeddings, overrides, isolates; direction marks stay, scripts need them).
_UNSHOWABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


class InputError(ValueError):
    """User input (a path, a corpus, a parameter, a model file) that cannot be used.

    The message is one printable line of at most 300 characters, whatever file names, columns or labels it
    quotes.

    Examples
    --------
    >>> from textsvm import InputError, Spectrum
    >>> try:
    ...     Spectrum(0)(["banana"])
    ... except InputError as error:
    ...     print(error)
    p=0 must be a whole number from 1, or a range (p1, p2)
    """

    def __init__(self, message: object = "") -> None:
        super().__init__(one_line(str(message)))


@contextmanager
def os_errors(message: str) -> Iterator[None]:
    """Raise an OSError of the block as an InputError with this message and the reason."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{message}: {error.strerror or error}") from error


class MissingColumn(InputError):
    """A column that no row of the input has."""


class DamagedModel(InputError):
    """A model whose file was changed after it was loaded, or is damaged where a prediction reads it."""


class TooMuchWork(InputError):
    """Work that is predicted to take more main memory or time than there is."""


class GpuMemoryError(InputError):
    """GPU memory that does not suffice."""


class RareClassWarning(UserWarning):
    """Some classes have fewer documents than there are folds."""


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn at the line of the user's code that called this package."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals["__name__"].startswith("textsvm."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def printable(text: str) -> str:
    """Replace characters that UTF-8 or HTML cannot hold, or that control a terminal, by U+FFFD.

    Lines that end with CR LF end with LF instead.
    """
    return _UNSHOWABLE.sub("\ufffd", text.replace("\r\n", "\n").removesuffix("\r"))


def plural(count: int, noun: str) -> str:
    """A number with its noun: "1 text", "2,000 texts", "3 classes"."""
    if count == 1:
        return f"1 {noun}"
    return f"{count:,} {noun}{'es' if noun.endswith('s') else 's'}"


def first_few(values: Sequence[object], most: int = 5) -> str:
    """The first values, separated by commas; ", ..." stands for the others."""
    return ", ".join(map(str, values[:most])) + (", ..." if len(values) > most else "")


def check_labels(labels: Iterable[object], place: str = "") -> None:
    """InputError for an infinite label, and for a lone surrogate in a label, which no UTF-8 file can hold."""
    for label in labels:
        if isinstance(label, float) and abs(label) == float("inf"):
            raise InputError(f"{place}the label is {label}, which is not a finite number; write a text")
        if isinstance(label, str) and label.encode("utf-8", "replace").decode() != label:
            raise InputError(
                f"{place}the label {label!r} has a lone surrogate, which is no character; correct it"
            )


def one_line(message: object, most: int = MAX_MESSAGE) -> str:
    """Format a message, or that of an exception, as one printable line of at most `most` symbols.

    A message begins with the problem and ends with the remedy; the long parts, in between, are left out.
    """
    text = message if isinstance(message, str) else str(message) or type(message).__name__
    line = " ".join(text.split())
    if not line.isprintable():
        line = "".join(c if c.isprintable() or c in _JOINERS else "\ufffd" for c in line)
    if len(line) > most:
        line = re.sub(r"'([^']{40})[^']{20,}'", r"'\1…'", line)  # a long cell, before the middle
    if len(line) <= most:
        return line
    head = (most - len(_ELLIPSIS)) * 3 // 5
    return line[:head] + _ELLIPSIS + line[len(line) - (most - len(_ELLIPSIS) - head) :]


def json_escaped(text: str) -> str:
    r"""Write unprintable characters of JSON text as \u escapes, which read back as the same values."""
    return _UNSHOWABLE.sub(lambda match: match[0] if match[0] == "\n" else f"\\u{ord(match[0]):04x}", text)
