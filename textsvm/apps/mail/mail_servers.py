"""Interfaces for mail servers: an SMTP or LMTP content filter (aiosmtpd) and a milter.

The content filter receives mail by SMTP or LMTP and sends it on with the decision in its header. A message is
accepted when the next server has accepted it. Every earlier error is a temporary failure, after which the
sender tries again, unless the message is too large. LMTP has an answer for each recipient.

The milter marks messages in Postfix and Sendmail before they are queued. Without a decision a message is
accepted unchanged. It is composed from its fields with the line ends of local delivery.
"""

from __future__ import annotations

import asyncio
import os
import smtplib
import socket
import struct
from collections import Counter
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from textsvm.apps.mail.raw_message import OWN_FIELD, marked, textsvm_fields
from textsvm.apps.mail.server import CLIENT_TIMEOUT, LARGE, STOP_TIMEOUT, clear_socket, listen_tcp
from textsvm.apps.mail.spamd import LARGEST, Refused, ascii_line
from textsvm.errors import InputError, os_errors

if TYPE_CHECKING:
    from aiosmtpd.smtp import SMTP as SmtpServer
    from aiosmtpd.smtp import Envelope, Session

    from textsvm.apps.mail.server import Close, Server

_ACTIONS = 0x11  # of the milter: it adds and changes fields
_NO_ANSWER_TO_FIELDS, _NO_ANSWER_TO_BODY = 0x80, 0x80000
#: Steps of SMTP that the milter does not need (connection to recipients, DATA, end of the header), and these.
_STEPS = 0x34F | _NO_ANSWER_TO_FIELDS | _NO_ANSWER_TO_BODY
_MAX_PACKET = 1 << 21  #: Bytes; parts of the body have at most 1 MB
NEXT_TIMEOUT = 60.0  #: Seconds that the next server may take for an answer
_LATER = "451 4.3.0 {}"


async def content_filter(port: int, next: str, lmtp: bool, server: Server) -> Close:
    """Listen at 127.0.0.1:port as a content filter before `next`; return the function that stops it.

    That waits until the senders of messages that the next server has, or is asked to take, have its answer.
    """
    try:
        from aiosmtpd.lmtp import LMTP
        from aiosmtpd.smtp import SMTP
    except ImportError:
        raise InputError("a content filter needs aiosmtpd: pip install aiosmtpd") from None

    class SmtpProtocol(LMTP if lmtp else SMTP):  # type: ignore[misc]
        line_length_limit = 1 << 20  # longer than the standard's: other filters let such lines pass

        async def smtp_DATA(self, arg: str) -> None:
            """Receive and hand on a message; large messages wait for their turn, also with a small SIZE."""
            sizes = [word[5:] for word in self.envelope.mail_options if word[:5].upper() == "SIZE="]
            reader, receive, n_bytes, has_turn = self._reader, self._reader.readuntil, 0, False

            async def readuntil(separator: bytes) -> bytes:
                nonlocal n_bytes, has_turn
                line: bytes = await receive(separator)
                n_bytes += len(line)
                if n_bytes > LARGE and not has_turn:
                    has_turn = await server.whole_large_message.acquire()
                return line

            reader.readuntil = readuntil
            try:
                if any(size.isdecimal() and int(size) > LARGE for size in sizes):  # before any of it is held
                    has_turn = await server.whole_large_message.acquire()
                await super().smtp_DATA(arg)
            finally:
                reader.readuntil = receive
                if has_turn:
                    server.whole_large_message.release()

    loop, handler = asyncio.get_running_loop(), _SmtpHandler(next, lmtp, server)
    options = {"data_size_limit": LARGEST, "enable_SMTPUTF8": True, "hostname": "localhost", "loop": loop}
    listening = await loop.create_server(partial(SmtpProtocol, handler, **options), sock=listen_tcp(port))

    async def close() -> None:
        listening.close()
        handler.ends = True
        while handler.n_open:
            await asyncio.sleep(0.02)

    return close


def check_addresses(
    next: str, smtp: int | None, lmtp: int | None, milter: str | None, own: list[str]
) -> None:
    """Raise InputError unless `milter` is a port or path, and --next behind the filter and not at `own`."""
    place = "/" if milter is None else milter or ":"
    is_path = "/" in place or ":" not in place
    if not (0 < _host_and_port(f":{place}")[1] < 65536 if place.isdecimal() else is_path):
        raise InputError(f"--milter must be a port from 1 to 65535 or the path of a socket, got {milter!r}")
    if bool(next) != bool(smtp or lmtp):
        raise InputError(
            "--next is the server behind --smtp or --lmtp: give both, such as --smtp 10025 --next HOST:PORT"
        )
    host, port = _host_and_port(next)
    is_own = "/" in next and os.path.realpath(next) in map(os.path.realpath, own)
    if next and "/" not in next:
        if not (host and 0 < port < 65536):
            raise InputError(f"--next must be HOST:PORT or the path of a socket, got {next}")
        if smtp and lmtp:
            raise InputError(f"{next} cannot speak both SMTP and LMTP: run a server for each")
        with suppress(OSError, UnicodeError):
            is_own = str(port) in own and socket.gethostbyname(host) in ("127.0.0.1", "0.0.0.0")
    if is_own:
        raise InputError(f"--next {next} is this server itself, so that mail would never leave it")


def _host_and_port(address: str) -> tuple[str, int]:
    """The parts of HOST:PORT; a path is a host, for `smtplib.LMTP`."""
    if "/" in address:
        return address, 0
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port) if port.isdecimal() and len(port) < 9 else 0


class _SmtpHandler:
    """Handler of aiosmtpd."""

    def __init__(self, next: str, lmtp: bool, server: Server) -> None:
        self._next, self._lmtp, self._server = next, lmtp, server
        self.n_open = 0  #: Messages without an answer; aiosmtpd writes it in the step in which it is returned
        self.ends = False  #: Whether further messages are refused

    async def handle_RCPT(
        self, server: SmtpServer, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        """Take a recipient: by SMTP one for each message, which has a single answer."""
        if envelope.rcpt_tos and not self._lmtp:
            return "452 4.5.3 one recipient for each message"
        envelope.rcpt_tos.append(address)
        return "250 2.1.5 OK"

    async def handle_DATA(self, server: SmtpServer, session: Session, envelope: Envelope) -> str:
        """Decide on a message and hand it on; return the answers for its sender."""
        assert isinstance(envelope.content, bytes)
        self.n_open += 1
        try:
            if self.ends:
                raise Refused(0, "the server ends")
            data = marked(envelope.content, await self._server.classify(envelope.content))
            answers = [await asyncio.to_thread(self._send, envelope, to, data) for to in envelope.rcpt_tos]
        except Refused as error:
            answers = [_LATER.format(ascii_line(error))] * len(envelope.rcpt_tos)
        finally:
            self.n_open -= 1
        for answer in dict.fromkeys(answers):
            if not answer.startswith("250"):
                self._server.log_message(envelope.content, f"sent back: {answer}")
        return "\r\n".join(answers)

    def _send(self, envelope: Envelope, recipient: str, data: bytes) -> str:
        """Send the message to the next server; the answer for its sender."""
        options = [option for option in envelope.mail_options if not option.upper().startswith("SIZE=")]
        protocol = smtplib.LMTP if "/" in self._next or self._lmtp else smtplib.SMTP
        text: bytes | str
        try:
            with protocol(*_host_and_port(self._next), timeout=NEXT_TIMEOUT) as connection:
                connection.sendmail(envelope.mail_from or "", [recipient], data, options)
                return "250 2.0.0 handed on"
        except smtplib.SMTPRecipientsRefused as error:
            [(code, text)] = error.recipients.values()
        except smtplib.SMTPResponseException as error:
            code, text = error.smtp_code, error.smtp_error
            code = code if code >= 400 else 451  # an answer at a wrong place is no acceptance
        except (OSError, UnicodeError, smtplib.SMTPException) as error:
            reason = error.strerror if isinstance(error, OSError) else ""
            return _LATER.format(ascii_line(f"{self._next}: {reason or error}"))
        if isinstance(text, bytes):
            text = text.decode("ascii", "replace")
        return f"{code} {ascii_line(f'{text} ({self._next})')}"


async def milter(address: str, server: Server) -> Close:
    """Listen as a milter; return the function that stops it when messages in progress have their answer.

    The address is a port of 127.0.0.1, or the path of a new Unix socket for the group of its folder.
    """
    connections: dict[asyncio.Task[None], _MilterConnection] = {}
    loop = asyncio.get_running_loop()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connection = connections[task] = _MilterConnection(server)
        try:
            # Otherwise the mail server has gone, or does not speak the protocol.
            with suppress(OSError, EOFError, ValueError, struct.error, asyncio.CancelledError):
                while True:
                    async with asyncio.timeout(CLIENT_TIMEOUT if connection.has_turn else None):
                        size = int.from_bytes(await reader.readexactly(4), "big")
                        packet = await reader.readexactly(min(size, _MAX_PACKET))
                    if packet[:1] == b"Q" or size > _MAX_PACKET:
                        break
                    for data in await connection.answers(packet[:1], packet[1:]):
                        writer.write(len(data).to_bytes(4, "big") + data)
                    await writer.drain()
        finally:
            del connections[task]
            connection.begin()
            writer.close()

    if address.isdecimal():
        listening = await asyncio.start_server(answer, sock=listen_tcp(int(address)))
    else:
        with os_errors(f"cannot listen at {address}"):
            clear_socket(Path(address))
            listening = await asyncio.start_unix_server(answer, address)
            os.chmod(address, 0o660)

    async def close() -> None:
        if not address.isdecimal():  # before the close, after which another server may listen there
            with suppress(OSError):
                os.unlink(address)
        listening.close()
        end = loop.time() + STOP_TIMEOUT
        while connections:
            for task, connection in connections.items():
                if not connection.begun or loop.time() > end:
                    task.cancel()
            await asyncio.sleep(0.02)

    return close


class _MilterConnection:
    """The messages of a connection of a mail server, in the protocol of Sendmail's libmilter.

    The mail server is asked for fields and body alone, and to wait for no answer before the end.
    """

    def __init__(self, server: Server) -> None:
        self._server, self._unanswered = server, b"DAK"
        self.has_turn = False  #: That of large messages
        self.begin()

    def begin(self) -> None:
        """Forget the last message."""
        if self.has_turn:
            self._server.whole_large_message.release()
        self.has_turn = False
        self.begun = False  #: Whether a message has no answer yet
        self._queue_id, self._fields, self._body = "", list[tuple[bytes, bytes]](), bytearray()

    async def answers(self, command: bytes, data: bytes) -> list[bytes]:
        """The packets that answer a packet, without their lengths."""
        if command == b"O":
            version, actions, steps = struct.unpack("!III", data[:12])
            self._unanswered += b"L" if steps & _NO_ANSWER_TO_FIELDS else b""
            self._unanswered += b"B" if steps & _NO_ANSWER_TO_BODY else b""
            return [b"O" + struct.pack("!III", min(version, 6), actions & _ACTIONS, steps & _STEPS)]
        answers = [] if command in self._unanswered else [b"c"]
        if command in (b"A", b"K"):
            self.begin()
        elif command == b"D" and b"\0i\0" in b"\0" + data[1:]:
            queue_id = (b"\0" + data[1:]).partition(b"\0i\0")[2].partition(b"\0")[0]
            self._queue_id = queue_id.decode("latin-1")
        elif command == b"L":
            name, value = data.split(b"\0")[:2]
            self._fields.append((name, value))
        elif command in (b"B", b"E") and len(self._body) <= LARGEST:
            if len(self._body) > LARGE and not self.has_turn:
                await self._server.whole_large_message.acquire()
                self.has_turn = True
            self._body += data
        self.begun = self.begun or command in (b"L", b"B", b"E")
        if command == b"E":
            answers = [*await self._changes(), b"a"]
            self.begin()
        return answers

    async def _changes(self) -> list[bytes]:
        """The changes of the header: the decision in place of earlier ones, the last first."""
        if len(self._body) > LARGEST:
            self._server.log_message(b"", "passes, for it has more than 64 MB", self._queue_id)
            return []
        header = b"".join(name + b": " + value + b"\n" for name, value in self._fields)
        try:
            data = await asyncio.to_thread((header + b"\n" + self._body).replace, b"\r\n", b"\n")
            decision = await self._server.classify(data, self._queue_id)
        except Refused as error:
            self._server.log_message(header, f"passes without a decision: {error}", self._queue_id)
            return []
        count, deletions = Counter[bytes](), list[bytes]()
        for name in (name for name, _ in self._fields if OWN_FIELD.match(b"\n" + name + b":")):
            count[name.lower()] += 1
            deletions.insert(0, b"m" + count[name.lower()].to_bytes(4, "big") + name + b"\0\0")
        added = (line.encode().partition(b": ") for line in textsvm_fields(decision))
        return [*deletions, *(b"h" + name + b"\0" + value + b"\0" for name, _, value in added)]
