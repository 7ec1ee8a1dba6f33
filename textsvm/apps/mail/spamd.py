"""The protocol of SpamAssassin's spamd, for spamc, Exim and other clients.

A request is a line ``VERB SPAMC/1.5``, fields, an empty line and the message; an answer is ``SPAMD/1.1 0
EX_OK``, fields, an empty line and the body (SpamAssassin's spamd/PROTOCOL).

Scores are in SpamAssassin's units, in which evidence adds up, 0 is neutral and the threshold of spam is 5:
``5 logit P(spam) / logit 0.99``.

Three fields are extensions, which clients ignore: CHECK and HEADERS answer ``Decision: Unsure 0.500000``,
because ``Spam:`` does not express three kinds, and ``Category: newsletter 0.984210`` for mail of a category,
and HEADERS answers ``Replaced: 512``, the number of bytes of the message that the answer replaces. REPORT and
SYMBOLS have no extensions: Exim reads their fields by position.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from textsvm.apps.mail.client import is_category
from textsvm.apps.mail.decision import Decision
from textsvm.apps.mail.raw_message import RawMessage, marked_pieces
from textsvm.errors import one_line

if TYPE_CHECKING:
    from textsvm.apps.mail.filter import Filter

PONG = b"SPAMD/1.5 0 PONG\r\n"
#: Exit codes of sysexits.h.
EX_DATAERR, EX_SOFTWARE, EX_TEMPFAIL, EX_PROTOCOL = 65, 70, 75, 76
_NAMES = {65: "EX_DATAERR", 70: "EX_SOFTWARE", 75: "EX_TEMPFAIL", 76: "EX_PROTOCOL"}
CHECKS = ("CHECK", "SYMBOLS", "REPORT", "REPORT_IFSPAM", "PROCESS", "HEADERS")
LARGEST = 64 << 20  #: Maximum size of a message, in bytes
THRESHOLD = 5.0
_REQUEST = re.compile(r"\s*(\S+)\s+SPAMC/(1\.[0-9]+)\s*")
_SCALE = THRESHOLD / math.log(0.99 / 0.01)
_MAX_FIELDS = 64


class Refused(Exception):
    """A request that is refused, with an exit code of sysexits.h and a reason."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class Request(NamedTuple):
    """A request without its message."""

    verb: str
    version: float  #: Protocol version, 1.0 to 1.5
    #: Bytes of the message that follows; None if the message goes up to the end of the stream.
    length: int | None = None
    kind: str = ""  #: TELL: "spam", "ham", a category, or "" without a class
    set: bool = False  #: TELL: whether to learn the message
    remove: bool = False  #: TELL: whether to forget the message

    @property
    def has_message(self) -> bool:
        """Whether a message follows."""
        return self.verb not in ("PING", "SKIP")


def read_request(line: bytes) -> Request:
    """Parse the first line of a request; raise `Refused` if it is malformed."""
    if (request := _REQUEST.fullmatch(line.decode("latin-1"))) is None:
        raise Refused(EX_PROTOCOL, "(the first line is not VERB SPAMC/1.x)")
    if request[1] not in (*CHECKS, "PING", "SKIP", "TELL"):
        raise Refused(EX_PROTOCOL, "(unknown verb)")
    return Request(request[1], float(request[2]))


def read_fields(request: Request, lines: Iterable[bytes]) -> Request:
    """The request with its fields; unknown fields are ignored, malformed fields raise `Refused`."""
    fields = {}
    for number, line in enumerate(lines):
        name, colon, value = line.decode("latin-1").partition(":")
        if not colon or number == _MAX_FIELDS:
            raise Refused(EX_PROTOCOL, "(a header not in 'Name: value' format, or too many)")
        fields[name.strip().lower()] = value.strip()
    length, kind = fields.get("content-length"), fields.get("message-class", "").lower()
    if length is not None and not (length.isdecimal() and len(length) < 16):
        raise Refused(EX_PROTOCOL, "(Content-length is not a number)")
    if length and int(length) > LARGEST:
        raise Refused(EX_DATAERR, f"(a message of more than {LARGEST} bytes)")
    sets = "local" in fields.get("set", "").lower()
    removes = "local" in fields.get("remove", "").lower()
    if not (kind in ("", "spam", "ham") or is_category(kind)) or (sets and removes) or (sets and not kind):
        raise Refused(EX_PROTOCOL, "(TELL wants a Message-class, or a category, with Set, or Remove: local)")
    if fields.get("compress"):
        raise Refused(EX_PROTOCOL, "(compressed messages are not read: call spamc without -z)")
    return Request(request.verb, request.version, int(length) if length else None, kind, sets, removes)


def refusal(error: Refused) -> bytes:
    """The answer to a refused request, a single line."""
    return f"SPAMD/1.0 {error.code} {_NAMES[error.code]}: {ascii_line(error)}\r\n".encode()


def ascii_line(message: object) -> str:
    """A message as a line of at most 400 ASCII characters."""
    return one_line(str(message), 400).encode("ascii", "replace").decode()


def tell(request: Request, data: bytes, mail: Filter) -> bytes:
    """Learn or forget a message; the lesson is on disk when this returns."""
    result = ""
    if request.set and mail.learn(data, request.kind):
        result = "DidSet: local\r\n"
    if request.remove and mail.unlearn(data):
        result = "DidRemove: local\r\n"
    return f"SPAMD/1.1 0 EX_OK\r\n{result}Content-length: 0\r\n\r\n".encode()


def check(request: Request, data: bytes, decision: Decision, mail: Filter) -> list[bytes | memoryview]:
    """The answer to a verb of `CHECKS`, in pieces: a large message is not copied."""
    is_spam = decision.kind == "spam"
    answer = ("Yes" if is_spam else "No") if request.verb == "REPORT_IFSPAM" else str(is_spam)
    spam = f"Spam: {answer} ; {points(decision):.1f} / {THRESHOLD:.1f}"
    if request.verb == "CHECK":
        return [_head(spam, *_decision_fields(decision))]
    if request.verb in ("PROCESS", "HEADERS"):
        message = RawMessage(data)
        pieces = marked_pieces(message, decision)
        fields = [spam]
        if request.verb == "HEADERS":
            pieces[-1] = pieces[-1][: len(pieces[-1]) - (len(data) - message.body_start)]
            fields += [*_decision_fields(decision), f"Replaced: {message.body_start}"]
        if request.version < 1.2:
            return [b"SPAMD/1.0 0 EX_OK\r\n", *pieces]
        if request.version < 1.3:
            fields = []
        return [_head(f"Content-length: {sum(map(len, pieces))}", *fields), *pieces]
    text = ""
    if request.verb == "SYMBOLS":
        text = f"TEXTSVM_{decision.kind.upper()}"
        if decision.category:
            text += f",TEXTSVM_{decision.category.upper()}"
        if request.version < 1.3:
            text += "\r\n"
    elif request.verb == "REPORT" or is_spam:
        text = explain(decision, mail.reasons(data))
    body = text.encode("utf-8", "backslashreplace")
    fields = [f"Content-length: {len(body)}"] if request.version >= 1.3 else []
    return [_head(*fields, spam), body]


def explain(decision: Decision, reasons: list[tuple[str, float]]) -> str:
    """A readable text of a decision and its reasons."""
    value = f"{decision.value:+.4f}"
    lines = [f"textsvm: {decision.kind}, P(spam) {decision.score:.6f}, decision function {value}"]
    if decision.category:
        lines.append(f"category: {decision.category}, P {decision.category_score:.6f}")
    if reasons:
        lines += ["", "Strings that weigh most, above 0 for spam:", ""]
    for word, weight in reasons:
        shown = "".join(letter if letter.isprintable() else "·" for letter in word)
        lines.append(f"{weight:+8.4f}  {shown}")
    return "\n".join(lines) + "\n"


def points(decision: Decision) -> float:
    """The score in SpamAssassin's units, rounded down; only spam reaches the threshold."""
    p = min(max(decision.score, 1e-9), 1 - 1e-9)
    score = math.floor(10 * _SCALE * math.log(p / (1 - p))) / 10
    return max(score, THRESHOLD) if decision.kind == "spam" else min(score, THRESHOLD - 0.1)


def _head(*fields: str) -> bytes:
    return "\r\n".join(["SPAMD/1.1 0 EX_OK", *fields, "", ""]).encode()


def _decision_fields(decision: Decision) -> list[str]:
    fields = [f"Decision: {decision.kind.capitalize()} {decision.score:.6f}"]
    if decision.category:
        fields.append(f"Category: {decision.category} {decision.category_score:.6f}")
    return fields
