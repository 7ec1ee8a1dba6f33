"""The protocol of SpamAssassin's spamd, so that spamc, Exim and others ask this filter as they ask that one.

A request is a line ``VERB SPAMC/1.5``, fields, an empty line and the message; an answer is ``SPAMD/1.1 0
EX_OK``, fields, an empty line and what was asked for (SpamAssassin's spamd/PROTOCOL). Version 1.0 has no
fields, and a PING before 1.5 neither.

Scores are in SpamAssassin's units: evidence adds up, nothing is 0 and the threshold of spam is 5. That is
``5 logit P(spam) / logit 0.99``: 5 where P(spam) is 0.99, 0 where it is one half, below 0 for ham.

Two fields are this filter's own: CHECK and HEADERS say ``Decision: Unsure 0.500000``, for spam or not is
too little for three kinds, and HEADERS says with ``Replaced: 512`` for how many bytes of the message its
answer stands. Clients ignore fields that they do not know. REPORT and SYMBOLS have none: Exim reads their
fields by position.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textsvm.mail.raw_message import marked_pieces as pieces
from textsvm.mail.raw_message import scan_header as header

if TYPE_CHECKING:
    from textsvm.mail.filter import Decision, Filter

PONG = b"SPAMD/1.5 0 PONG\r\n"
EX_OK, EX_DATAERR, EX_SOFTWARE, EX_TEMPFAIL, EX_PROTOCOL = 0, 65, 70, 75, 76
NAMES = {0: "EX_OK", 65: "EX_DATAERR", 70: "EX_SOFTWARE", 75: "EX_TEMPFAIL", 76: "EX_PROTOCOL"}
CHECKS = ("CHECK", "SYMBOLS", "REPORT", "REPORT_IFSPAM", "PROCESS", "HEADERS")
#: Bytes of the largest message that is taken.
LARGEST = 128 << 20
THRESHOLD = 5.0
_SCALE = THRESHOLD / math.log(0.99 / 0.01)
_MOST_FIELDS = 64


class Refused(Exception):
    """A request that cannot be answered: exit code of sysexits.h, and why."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(why)
        self.code = code


@dataclass(frozen=True)
class Request:
    """What is asked, without the message.

    Attributes
    ----------
    verb : str
    version : float
        Of the protocol, 1.0 to 1.5.
    length : int or None
        Bytes of the message that follow; None where the client does not say: up to the end.
    compressed : bool
        Whether these bytes are zlib's.
    kind : str
        TELL: "spam" or "ham", or "" where none is named.
    set, remove : bool
        TELL: to learn the message, or to forget it.
    """

    verb: str
    version: float
    length: int | None = None
    compressed: bool = False
    kind: str = ""
    set: bool = False
    remove: bool = False

    @property
    def has_message(self) -> bool:
        """Whether a message follows."""
        return self.verb not in ("PING", "SKIP")


def read_request(line: bytes) -> Request:
    """The first line of a request.

    Raises
    ------
    Refused
        If it is none.
    """
    words = line.decode("latin-1").split()
    protocol, _, version = words[1].partition("/") if len(words) == 2 else ("", "", "")
    if protocol != "SPAMC" or version[:2] != "1." or not version[2:].isdecimal():
        raise Refused(EX_PROTOCOL, "(the first line is not VERB SPAMC/1.x)")
    if words[0] not in (*CHECKS, "PING", "SKIP", "TELL"):
        raise Refused(EX_PROTOCOL, "(unknown verb)")
    return Request(words[0], float(version))


def has_fields(request: Request) -> bool:
    """Whether fields and an empty line follow the first line."""
    return request.version >= (1.1 if request.has_message else 1.5)


def read_fields(request: Request, lines: Iterable[bytes]) -> Request:
    """The request with its fields, of which unknown ones are passed over.

    Raises
    ------
    Refused
        If a field cannot be.
    """
    found = {}
    for number, line in enumerate(lines):
        name, colon, value = line.decode("latin-1").partition(":")
        if not colon or number == _MOST_FIELDS:
            raise Refused(EX_PROTOCOL, "(a header not in 'Name: value' format, or too many)")
        found[name.strip().lower()] = value.strip()
    length, kind = found.get("content-length"), found.get("message-class", "").lower()
    if length is not None and not (length.isdecimal() and len(length) < 16):
        raise Refused(EX_PROTOCOL, "(Content-length is no number)")
    if length and int(length) > LARGEST:
        raise Refused(EX_DATAERR, f"(a message of more than {LARGEST} bytes)")
    sets, removes = ("local" in found.get(name, "").lower() for name in ("set", "remove"))
    if kind not in ("", "spam", "ham") or (sets and removes) or (sets and not kind):
        raise Refused(EX_PROTOCOL, "(TELL wants Message-class spam or ham with Set: local, or Remove: local)")
    compressed = found.get("compress", "").lower() == "zlib"
    return Request(
        request.verb, request.version, int(length) if length else None, compressed, kind, sets, removes
    )


def inflated(data: bytes) -> bytes:
    """A message that came compressed."""
    unpacker = zlib.decompressobj()
    try:
        found = unpacker.decompress(data, LARGEST)
    except zlib.error:
        found = b""
    if not unpacker.eof:
        raise Refused(EX_DATAERR, "(what is said to be zlib is not, or is too much)")
    return found


def refusal(error: Refused) -> bytes:
    """The answer to what cannot be answered: one line."""
    why = " ".join(str(error).split()).encode("ascii", "replace").decode()
    return f"SPAMD/1.0 {error.code} {NAMES[error.code]}: {why}\r\n".encode()


def tell(request: Request, data: bytes, mail: Filter) -> bytes:
    """Learn or forget a message; the lesson is on disk when this returns."""
    did = ""
    if request.set and mail.learn(data, request.kind):
        did = "DidSet: local\r\n"
    if request.remove and mail.unlearn(data):
        did = "DidRemove: local\r\n"
    return f"SPAMD/1.1 0 EX_OK\r\n{did}Content-length: 0\r\n\r\n".encode()


def check(request: Request, data: bytes, mail: Filter) -> list[bytes | memoryview]:
    """The answer to a verb of `CHECKS`, in pieces: a large message is not copied."""
    decision = mail.classify(data)
    if request.verb == "CHECK":
        return [_head(_spam(request, decision), _decision(decision))]
    if request.verb in ("PROCESS", "HEADERS"):
        return _marked(request, data, decision)
    text = ""
    if request.verb == "SYMBOLS":
        text = f"TEXTSVM_{decision.kind.upper()}" + "\r\n" * (request.version < 1.3)
    elif request.verb == "REPORT" or decision.kind == "spam":
        text = report(decision, mail.reasons(data))
    body = text.encode("utf-8", "backslashreplace")
    length = f"Content-length: {len(body)}" if request.version >= 1.3 else ""
    return [_head(length, _spam(request, decision)), body]


def report(decision: Decision, reasons: Iterable[tuple[str, float]]) -> str:
    """A decision and its reasons for people."""
    lines = [
        f"textsvm: {decision.kind}, P(spam) {decision.score:.6f}, decision function {decision.value:+.4f}"
    ]
    lines += ["", "Strings that weigh most, above 0 for spam:", ""] if reasons else []
    lines += [f"{weight:+8.4f}  {_shown(string)}" for string, weight in reasons]
    return "\n".join(lines) + "\n"


def points(decision: Decision) -> float:
    """The score in SpamAssassin's units, rounded down: what is not spam does not reach the threshold."""
    likely = min(max(decision.score, 1e-9), 1 - 1e-9)
    found = math.floor(10 * _SCALE * math.log(likely / (1 - likely))) / 10
    return max(found, THRESHOLD) if decision.kind == "spam" else min(found, THRESHOLD - 0.1)


def _head(*fields: str) -> bytes:
    return "\r\n".join(["SPAMD/1.1 0 EX_OK", *filter(None, fields), "", ""]).encode()


def _spam(request: Request, decision: Decision) -> str:
    names = ("No", "Yes") if request.verb == "REPORT_IFSPAM" else ("False", "True")
    return f"Spam: {names[decision.kind == 'spam']} ; {points(decision):.1f} / {THRESHOLD:.1f}"


def _decision(decision: Decision) -> str:
    return f"Decision: {decision.kind.capitalize()} {decision.score:.6f}"


def _marked(request: Request, data: bytes, decision: Decision) -> list[bytes | memoryview]:
    parts, more = pieces(data, decision), []
    if request.verb == "HEADERS":
        start = _body(data)
        parts[-1] = parts[-1][: len(parts[-1]) - (len(data) - start)]
        more = [_decision(decision), f"Replaced: {start}"]
    if request.version < 1.2:
        return [b"SPAMD/1.0 0 EX_OK\r\n", *parts]
    length, spam = f"Content-length: {sum(map(len, parts))}", _spam(request, decision)
    return [_head(length, *([spam, *more] if request.version >= 1.3 else [])), *parts]


def _body(data: bytes) -> int:
    """Where the body of a message begins: behind the empty line."""
    end = header(data).end
    for empty in (b"\r\n", b"\n"):
        if data.startswith(empty, end):
            return end + len(empty)
    return end


def _shown(string: str) -> str:
    return "".join(c if c.isprintable() else "·" for c in string)
