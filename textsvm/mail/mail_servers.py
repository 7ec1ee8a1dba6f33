"""A content filter between mail servers: SMTP or LMTP in, the same protocol on to the next one (aiosmtpd).

A message is accepted when the next server has accepted it, with the decision in its header; until then it
is the sender's, and whatever fails is a temporary failure: the sender keeps the message and tries again. By
LMTP each recipient has an answer of its own.

A milter for Postfix and Sendmail: the decision in the header of each message, before it is queued
(kilter.service).

Where there is no decision the message is accepted as it is; what happens while the milter is down is the mail
server's to say (Postfix: milter_default_action). The header of a message comes in fields, without its ends of
lines: the message is put together as local delivery would write it.
"""

from __future__ import annotations

import asyncio
import os
import smtplib
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from textsvm.errors import InputError
from textsvm.mail.raw_message import marked, our_fields
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


_OURS = ("x-textsvm", "x-spam-flag")


async def milter(address: str, classify: Callable[[bytes], Awaitable[Decision]]) -> Callable[[], None]:
    """Listen as a milter, and return what ends that.

    Parameters
    ----------
    address : str
        A port of 127.0.0.1, or the path of a Unix socket that is made (mode 0660: the mail server is in the
        group that owns its folder).
    classify : coroutine function

    Raises
    ------
    InputError
        If kilter.service is not installed, or the address cannot be had.
    """
    try:
        import anyio
        from kilter.service import Runner
    except ImportError:
        raise InputError(
            'a milter needs kilter.service (Python 3.11 or later): pip install "textsvm[mail]"'
        ) from None

    try:
        if address.isdecimal():
            listener: Any = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=int(address))
        else:
            listener = await anyio.create_unix_listener(address, mode=0o660)
    except (OSError, OverflowError) as error:
        raise InputError(f"cannot listen at {address}: {error}") from error
    task = asyncio.create_task(listener.serve(Runner(_marking(classify))))

    def close() -> None:
        task.cancel()
        if not address.isdecimal():
            with suppress(OSError):
                os.unlink(address)

    return close


def _marking(classify: Callable[[bytes], Awaitable[Decision]]) -> Any:
    """The filter that kilter runs for each message."""
    from kilter.protocol import Accept
    from kilter.protocol.messages import Header
    from kilter.service import END
    from kilter.service.options import AFTER, examine_body, examine_headers, examine_sender

    # Two things are asked for so that kilter.service knows where it is: the sender, without which it takes no
    # second message of a connection, and the end of the header, without which it loses a part of the body.
    @examine_sender()
    @examine_headers(can_respond=AFTER, can_add=True, can_modify=True)
    @examine_body()
    async def mark(session: Any) -> Any:
        header = await _header(session)
        data = await _message(header, session)
        if len(data) > LARGEST:
            return Accept()
        try:
            decision = await classify(data)
        except Refused:
            return Accept()
        for field in header:
            if field.name.lower() in _OURS:
                await session.headers.delete(field)
        for line in our_fields(decision):
            name, _, value = line.partition(": ")
            await session.headers.insert(Header(name, value.encode()), END)
        return Accept()

    return mark


async def _header(session: Any) -> list[Any]:
    async with session.headers as fields:
        return [field async for field in fields]


async def _message(header: list[Any], session: Any) -> bytes:
    parts = [field.name.encode() + b": " + bytes(field.value) + b"\n" for field in header]
    size = 0
    async with session.body as body:
        parts.append(b"\n")
        async for chunk in body:
            size += len(chunk)
            if size <= LARGEST:
                parts.append(bytes(chunk))
    return b"".join(parts).replace(b"\r\n", b"\n") if size <= LARGEST else bytes(LARGEST + 1)
