"""A content filter between mail servers: SMTP or LMTP in, the same protocol on to the next one (aiosmtpd).

A message is accepted when the next server has accepted it, with the decision in its header; until then it
is the sender's, and whatever fails is a temporary failure: the sender keeps the message and tries again. By
LMTP each recipient has an answer of its own.
"""

from __future__ import annotations

import asyncio
import smtplib
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from textsvm.errors import InputError
from textsvm.mail.passing import marked
from textsvm.mail.spamd import LARGEST, Refused

if TYPE_CHECKING:
    from textsvm.mail.filter import Decision

#: Seconds that the next server may take for an answer.
PATIENCE = 60.0
_LATER = "451 4.3.0 {}; try again"


async def content_filter(
    port: int, next: str, lmtp: bool, classify: Callable[[bytes], Awaitable[Decision]]
) -> Callable[[], None]:
    """Listen at 127.0.0.1:port, and return what ends that.

    Parameters
    ----------
    port : int
    next : str
        HOST:PORT of the next server, or the path of its Unix socket (LMTP).
    lmtp : bool
        Whether the protocol is LMTP.
    classify : coroutine function

    Raises
    ------
    InputError
        If aiosmtpd is not installed, or the port cannot be had.
    """
    try:
        from aiosmtpd.lmtp import LMTP
        from aiosmtpd.smtp import SMTP
    except ImportError:
        raise InputError('a content filter needs aiosmtpd: pip install "textsvm[mail]"') from None

    class Protocol(LMTP if lmtp else SMTP):  # type: ignore[misc]
        line_length_limit = 1 << 20  # longer than the standard's: other filters let such lines pass

    handler = _Handler(next, lmtp, classify)
    loop = asyncio.get_running_loop()
    make = partial(
        Protocol, handler, data_size_limit=LARGEST, enable_SMTPUTF8=True, hostname="localhost", loop=loop
    )
    try:
        face = await loop.create_server(make, "127.0.0.1", port)
    except OSError as error:
        raise InputError(f"cannot listen at 127.0.0.1:{port}: {error.strerror or error}") from error
    return face.close


class _Handler:
    """What aiosmtpd calls."""

    def __init__(self, next: str, lmtp: bool, classify: Callable[[bytes], Awaitable[Decision]]) -> None:
        self._next, self._lmtp, self._classify = next, lmtp, classify

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        """Decide on a message and hand it on; the answers to its sender."""
        count = len(envelope.rcpt_tos) if self._lmtp else 1
        try:
            data = marked(envelope.content, await self._classify(envelope.content))
        except Refused as error:
            return "\r\n".join([_LATER.format(_line(error))] * count)
        answers = await asyncio.get_running_loop().run_in_executor(None, self._hand_on, envelope, data)
        return "\r\n".join(answers)

    def _hand_on(self, envelope: Any, data: bytes) -> list[str]:
        """The next server's answers: one a recipient by LMTP, else one."""
        groups = [[each] for each in envelope.rcpt_tos] if self._lmtp else [envelope.rcpt_tos]
        return [self._send(envelope, group, data) for group in groups]

    def _send(self, envelope: Any, recipients: list[str], data: bytes) -> str:
        options = [each for each in envelope.mail_options if not each.upper().startswith("SIZE=")]
        try:
            with self._connected() as line:
                refused = line.sendmail(envelope.mail_from or "", recipients, data, options)
        except smtplib.SMTPRecipientsRefused as error:
            refused = error.recipients
        except smtplib.SMTPResponseException as error:
            return _relayed(error.smtp_code, error.smtp_error)
        except (OSError, smtplib.SMTPException) as error:
            return _LATER.format(_line(error))
        # Some were refused: a temporary failure for all, and nobody's mail is lost; some may have it twice.
        return _relayed(*next(iter(refused.values()))) if refused else "250 2.0.0 handed on"

    def _connected(self) -> smtplib.SMTP:
        host, _, port = self._next.rpartition(":")
        if "/" in self._next:
            return smtplib.LMTP(self._next, timeout=PATIENCE)
        return (smtplib.LMTP if self._lmtp else smtplib.SMTP)(host, int(port), timeout=PATIENCE)


def _relayed(code: int, text: bytes | str) -> str:
    said = text.decode("ascii", "replace") if isinstance(text, bytes) else text
    return f"{code} {_line(said)}"


def _line(what: object) -> str:
    return " ".join(str(what).split()).encode("ascii", "replace").decode()[:400]
