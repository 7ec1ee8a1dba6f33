"""Interfaces for mail servers: an SMTP or LMTP content filter (aiosmtpd) and a milter (kilter.service).

The content filter receives mail by SMTP or LMTP and sends it to the next server by the same protocol, with
the decision in its header. A message is accepted when the next server has accepted it; every earlier error is
a temporary failure, after which the sender tries again. LMTP has an answer for each recipient.

The milter marks messages in Postfix and Sendmail before they are queued. Without a decision a message is
accepted unchanged; the setting of the mail server applies while the milter is down (Postfix:
milter_default_action). The message is composed from its fields with the line ends of local delivery.
"""

from __future__ import annotations

import asyncio
import os
import smtplib
import socket
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textsvm.apps.mail.raw_message import OWN_FIELD, marked, textsvm_fields
from textsvm.apps.mail.server import STOP_TIMEOUT, clear_socket, listen_tcp
from textsvm.apps.mail.spamd import LARGEST, Refused, ascii_line
from textsvm.errors import InputError, os_errors

if TYPE_CHECKING:
    from aiosmtpd.smtp import SMTP as SmtpServer
    from aiosmtpd.smtp import Envelope
    from aiosmtpd.smtp import Session as SmtpSession
    from kilter.protocol import Accept
    from kilter.protocol.messages import Header
    from kilter.service import Session

    from textsvm.apps.mail.decision import Decision
    from textsvm.apps.mail.server import Classify, Close

NEXT_TIMEOUT = 60.0  #: Seconds that the next server may take for an answer
_LATER = "451 4.3.0 {}; try again"


async def content_filter(port: int, next: str, lmtp: bool, classify: Classify) -> Close:
    """Listen at 127.0.0.1:port as a content filter for SMTP or LMTP; return the function that stops it.

    That waits until the senders of messages that the next server has, or is asked to take, have its answer.

    `next` is HOST:PORT of the next server, or the path of its Unix socket (LMTP).
    """
    try:
        from aiosmtpd.lmtp import LMTP
        from aiosmtpd.smtp import SMTP
    except ImportError:
        raise InputError("a content filter needs aiosmtpd: pip install aiosmtpd") from None

    class SmtpProtocol(LMTP if lmtp else SMTP):  # type: ignore[misc]
        line_length_limit = 1 << 20  # longer than the standard's: other filters let such lines pass

    loop, handler = asyncio.get_running_loop(), _SmtpHandler(next, lmtp, classify)
    options = {"data_size_limit": LARGEST, "enable_SMTPUTF8": True, "hostname": "localhost", "loop": loop}
    server = await loop.create_server(partial(SmtpProtocol, handler, **options), sock=listen_tcp(port))

    async def close() -> None:
        server.close()
        handler.ends = True
        while handler.n_open:
            await asyncio.sleep(0.02)

    return close


def check_next(next: str, smtp: int | None, lmtp: int | None, own: list[str]) -> None:
    """Raise InputError unless --next is the server behind a content filter, and not at `own` addresses."""
    if "0" in own:
        raise InputError("--milter PORT must be 1 to 65535, got 0")
    if bool(next) != bool(smtp or lmtp):
        raise InputError(
            "--next is the server behind --smtp or --lmtp: give both, such as --smtp 10025 --next HOST:PORT"
        )
    host, port = _host_and_port(next)
    is_own = False
    if "/" in next:
        is_own = os.path.realpath(next) in map(os.path.realpath, own)
    elif next:
        if not (host and 0 < port < 65536):
            raise InputError(f"--next must be HOST:PORT or the path of a socket, got {next}")
        if smtp and lmtp:
            raise InputError(f"{next} cannot speak both SMTP and LMTP: run a server for each")
        with suppress(OSError):
            is_own = str(port) in own and socket.gethostbyname(host) in ("127.0.0.1", "0.0.0.0")
    if is_own:
        raise InputError(f"--next {next} is this server itself, so that mail would never leave it")


def _host_and_port(address: str) -> tuple[str, int]:
    """The parts of HOST:PORT; a path is a host, for `smtplib.LMTP`."""
    if "/" in address:
        return address, 0
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port) if port.isdecimal() else 0


class _SmtpHandler:
    """Handler of aiosmtpd."""

    def __init__(self, next: str, lmtp: bool, classify: Classify) -> None:
        self._next, self._lmtp, self._classify = next, lmtp, classify
        self.n_open = 0  #: Messages without an answer; aiosmtpd writes it in the step in which it is returned
        self.ends = False  #: Whether further messages are refused

    async def handle_DATA(self, server: SmtpServer, session: SmtpSession, envelope: Envelope) -> str:
        """Decide on a message and hand it on; return the answers for its sender."""
        assert isinstance(envelope.content, bytes)
        # LMTP has an answer for each recipient, SMTP a single answer.
        groups = [[name] for name in envelope.rcpt_tos] if self._lmtp else [envelope.rcpt_tos]
        self.n_open += 1
        try:
            if self.ends:
                raise Refused(0, "the server ends")
            data = marked(envelope.content, await self._classify(envelope.content))
            answers = [await asyncio.to_thread(self._send, envelope, group, data) for group in groups]
        except Refused as error:
            answers = [_LATER.format(ascii_line(error))] * len(groups)
        finally:
            self.n_open -= 1
        return "\r\n".join(answers)

    def _send(self, envelope: Envelope, recipients: list[str], data: bytes) -> str:
        """Send the message to the next server; the answer for its sender."""
        options = [option for option in envelope.mail_options if not option.upper().startswith("SIZE=")]
        protocol = smtplib.LMTP if "/" in self._next or self._lmtp else smtplib.SMTP
        refused: dict[str, tuple[int, bytes | str]]
        try:
            with protocol(*_host_and_port(self._next), timeout=NEXT_TIMEOUT) as connection:
                refused = {**connection.sendmail(envelope.mail_from or "", recipients, data, options)}
        except smtplib.SMTPRecipientsRefused as error:
            refused = {**error.recipients}
        except smtplib.SMTPResponseException as error:
            refused = {"": (error.smtp_code, error.smtp_error)}
        except (OSError, smtplib.SMTPException) as error:
            return _LATER.format(ascii_line(error))
        if not refused:
            return "250 2.0.0 handed on"
        # A temporary failure for all recipients if some were refused: no mail is lost, some may come twice.
        code, text = next(iter(refused.values()))
        if isinstance(text, bytes):
            text = text.decode("ascii", "replace")
        return f"{code} {ascii_line(text)}"


async def milter(address: str, classify: Classify) -> Close:
    """Listen as a milter; return the function that stops it when messages in progress have their answer.

    The address is a port of 127.0.0.1, or the path of a new Unix socket (mode 0660: the mail server is in the
    group that owns its folder).
    """
    try:
        from kilter.service import Runner
    except ImportError:
        raise InputError("a milter needs kilter.service: pip install kilter.service") from None

    connections: dict[asyncio.Task[None], _MilterConnection] = {}
    loop = asyncio.get_running_loop()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task, connection = asyncio.current_task(), _MilterConnection(reader, writer)
        assert task is not None
        connections[task] = connection
        try:
            with suppress(Exception):  # the mail server has gone, or does not speak the protocol
                await Runner(_milter_filter(classify, connection))(connection)  # type: ignore[arg-type]
        except asyncio.CancelledError:
            pass
        finally:
            del connections[task]
            writer.close()

    if address.isdecimal():
        server = await asyncio.start_server(answer, sock=listen_tcp(int(address)))
    else:
        with os_errors(f"cannot listen at {address}"):
            clear_socket(Path(address))
            server = await asyncio.start_unix_server(answer, address)
            os.chmod(address, 0o660)

    async def close() -> None:
        if not address.isdecimal():  # before the close, after which another server may listen there
            with suppress(OSError):
                os.unlink(address)
        server.close()
        end = loop.time() + STOP_TIMEOUT
        while connections:
            for task, connection in connections.items():
                if not connection.begun or loop.time() > end:
                    task.cancel()
            await asyncio.sleep(0.02)

    return close


class _MilterConnection:
    """The connection of a mail server, as kilter uses a stream."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.begun = False  #: Whether a message has no answer yet
        self.decided = False  #: Whether its answer is known, which is sent before the next `receive`

    async def receive(self, most: int) -> bytes:
        from anyio import EndOfStream

        if self.decided:
            self.begun = self.decided = False
        if not (data := await self._reader.read(most)):
            raise EndOfStream
        return data

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def aclose(self) -> None:
        self._writer.close()


def _milter_filter(classify: Classify, connection: _MilterConnection) -> Any:
    """The function that kilter runs for each message of a connection."""
    from kilter.protocol import Accept
    from kilter.protocol.messages import Header
    from kilter.service import END
    from kilter.service.options import AFTER, examine_body, examine_headers, examine_sender

    # kilter.service needs two events that are not used here: without the sender it accepts no second message
    # of a connection, and without the end of the header it loses a part of the body.
    @examine_sender()
    @examine_headers(can_respond=AFTER, can_add=True, can_modify=True)
    @examine_body()
    async def mark(session: Session) -> Accept:
        header = []
        try:
            async with session.headers as fields:
                async for field in fields:
                    connection.begun = True
                    header.append(field)
            data = await _message(header, session)
            if data is not None:
                await change(header, await classify(data), session)
        except Refused:
            pass
        finally:
            connection.decided = True
        return Accept()

    async def change(header: list[Header], decision: Decision, session: Session) -> None:
        for field in header:
            if OWN_FIELD.match(f"\n{field.name}:".encode("utf-8", "replace")):
                await session.headers.delete(field)
        for line in textsvm_fields(decision):
            name, _, value = line.partition(": ")
            await session.headers.insert(Header(name, value.encode()), END)

    return mark


async def _message(header: list[Header], session: Session) -> bytes | None:
    """The message with the line ends of local delivery; None if it is too large."""
    parts, size = [field.name.encode() + b": " + bytes(field.value) + b"\n" for field in header], 0
    parts.append(b"\n")
    async with session.body as body:
        async for chunk in body:
            size += len(chunk)
            if size <= LARGEST:
                parts.append(bytes(chunk))
    if size > LARGEST:
        return None
    return await asyncio.to_thread(lambda: b"".join(parts).replace(b"\r\n", b"\n"))
