"""Lines in Bogofilter's formats: header_format, terse_format and log_header_format of bogofilter.cf.

The directives are those of Bogofilter 1.2.5 (bogofilter.cf.example). As there, the width of a number has no
effect, a number has at most 19 characters, and %d of spam changes the score in the rest of the line.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from textsvm.errors import InputError
from textsvm.mail.raw_message import VERSION, RawMessage

KINDS = ("spam", "ham", "unsure")
_DIRECTIVE = re.compile(r"%[-\d]*(?:\.(\d{0,9}))?(.?)", re.DOTALL)
_NUMBER = re.compile(r"[^%]*%[-+ 0]*\d{0,2}(\.\d{0,2})?[efgEFG][^%]*")
_ADDRESS = re.compile(rb"\[((?:\d{1,3}\.){3}\d{1,3})\]")
_QUEUE_ID = re.compile(rb"[ \t]id[ \t\r\n]+<?([A-Za-z0-9.-]{1,29})(?![A-Za-z0-9.-])")
_MESSAGE_ID = re.compile(rb"(?i:message-id):[ \t\r\n]*([\t -~\x80-\xff]{1,90})")


@dataclass(frozen=True)
class LineValues:
    """Values of the directives."""

    kind: str
    score: float
    message: RawMessage
    n_words: Callable[[], int]
    n_messages: int = 1  #: Messages of this run, up to this message
    registered: str = ""  #: "s" or "n" if the message is learnt


@dataclass(frozen=True)
class LineFormats:
    """Settings of bogofilter.cf that determine a line."""

    header: str = "%h: %c, tests=bogofilter, spamicity=%p, version=%v"
    terse: str = "%1.1c %f"
    log: str = "%h: %c, spamicity=%p, version=%v"
    tags: tuple[str, ...] = ("Spam", "Ham", "Unsure")  #: Names of `KINDS`
    scores: tuple[str, ...] = ("%0.6f", "%0.6f", "%0.6f")  #: Formats of %p and %d for each of `KINDS`
    name: str = "X-Bogosity"  #: Name of the header field
    spam_cutoff: float = 0.99
    syslog_tag: str = ""

    def line(self, format: str, values: LineValues) -> str:
        """A line in this format."""
        index, score = KINDS.index(values.kind), values.score
        texts: dict[str, Callable[[], str]] = {
            "A": lambda: received_address(values.message),
            "c": lambda: self.tags[index],
            "D": lambda: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "h": lambda: self.name,
            "I": lambda: _first_match(values.message, b"message-id:", _MESSAGE_ID),
            "l": lambda: self.syslog_tag,
            "m": lambda: str(values.n_messages),
            "Q": lambda: _first_match(values.message, b"", _QUEUE_ID),
            "r": lambda: values.registered,
            "u": _user_name,
            "v": lambda: VERSION,
            "w": lambda: str(values.n_words()),
        }

        def value(match: re.Match[str]) -> str:
            nonlocal score
            precision, letter = match[1], match[2]
            if letter == "d" and values.kind == "spam":
                score = 1 - score
            if letter in "dp":
                return (self.scores[index] % score)[:19]
            if letter in "efgo":
                digits = min(60, int(precision or 0)) if precision is not None else 6 if letter in "fg" else 2
                number = self.spam_cutoff if letter == "o" else score
                return f"{number:.{digits}{letter.replace('o', 'e')}}"[:19]
            text = "%" if letter == "%" else texts[letter]()
            return text if precision is None else text[: int(precision or 0)]

        return _DIRECTIVE.sub(value, format)


def check_format(key: str, format: str) -> str:
    """The format; InputError if a directive is unknown."""
    for match in _DIRECTIVE.finditer(format):
        if not match[2] or match[2] not in "%AcdDefghIlmopQruvw":
            raise InputError(f"{key} has an unknown directive {match[0]!r}; see bogofilter.cf.example")
    return format


def check_score_format(key: str, format: str) -> str:
    """The format of a number for printf; InputError if it is invalid."""
    if not _NUMBER.fullmatch(format):
        raise InputError(f"{key} must be formats such as %0.6f, got {format!r}")
    return format


def received_address(message: RawMessage) -> str:
    """The first IPv4 address in brackets in a Received field, except 127.0.0.1."""
    for start, stop in message.fields():
        if message.data[start : start + 9].lower() == b"received:":
            for match in _ADDRESS.finditer(message.data, start, stop):
                if match[1] != b"127.0.0.1":
                    return match[1].decode()
    return "UNKNOWN"


def _first_match(message: RawMessage, name: bytes, pattern: re.Pattern[bytes]) -> str:
    """The first group of the first match in a field of this name, or of any if it is empty."""
    for start, stop in message.fields():
        if message.data[start : start + len(name)].lower() == name:
            match = pattern.search(message.data, start, stop)
            if match:
                return match[1].decode("utf-8", "surrogateescape").rstrip()
    return "UNKNOWN"


def _user_name() -> str:
    with suppress(OSError):
        return os.getlogin()
    import pwd  # not on Windows

    with suppress(KeyError):
        return pwd.getpwuid(os.getuid()).pw_name
    return f"#{os.getuid()}"
