"""Run an ASGI application on a socket with uvicorn, with bounds on the time and memory that clients take.

uvicorn bounds neither the time in which a client sends its request or reads the answer, nor the bytes of
headers, trailers, chunk framing and unread answers, nor the time of the event loop that a connection takes.
The protocol class `_Connection` adds these limits. Other ASGI servers in Python lack them too: they parse all
bytes that they have read at once. Here bytes are parsed in pieces (`_PIECE`) that begin at most a single
request, and connections take turns at the parser (`_Turns`). All bytes of a request outside of its body
(header, trailers, chunk sizes, blank lines) are counted and bounded (`_Connection.parse`).

A connection is idle, sending or answering (it waits for the application). Once a second, connections that
have been in their state for too long are closed. At the maximum number of connections, a new connection
replaces that which has waited longest for its client: idle and slow clients keep nobody out.

uvicorn has no public way to add these limits: `_Connection` and `_GracefulServer` use its private parts, and
no other module does. tests/test_private_parts.py names the parts.
"""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import signal
import socket
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from heapq import heappop, heappush
from http import HTTPStatus
from itertools import count
from time import perf_counter
from types import FrameType
from typing import TYPE_CHECKING, Any

from textsvm.apps.serve import error_body
from textsvm.errors import InputError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send
try:
    import httptools
    import starlette  # noqa: F401 (the application needs it)
    import uvicorn
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
except ImportError:  # `listen` reports it
    uvicorn, HttpToolsProtocol = None, object  # type: ignore[assignment, misc]
try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

#: Seconds to send the last bytes of an answer.
_LAST_BYTES = 5.0
#: Connections that wait to be accepted.
_BACKLOG = 2048
#: Bytes that the operating system holds of a connection in each direction.
_SOCKET_BUFFER = 1 << 15
#: Open files that are not connections.
_OTHER_FILES = 64
#: Maximum bytes of a piece; a turn of a connection parses one piece, or two of a short request.
_PIECE = 1 << 12
#: Seconds of parsing after which the event loop does other work.
_TURN = 0.001
#: Estimated seconds of the event loop that a request takes beside its parsing.
_REQUEST = 0.0002
#: Parsing stops above these bytes of a body, or of an answer, that the other side has not read.
_BUFFER = 1 << 14


@dataclass(frozen=True)
class ClientLimits:
    """Limits of connections, in seconds, bytes or number."""

    sending: float = 10.0
    answering: float = 60.0
    idle: float = 60.0
    stopping: float = 10.0  #: For requests in progress when the server stops
    header: int = 1 << 15  #: Also of trailers and chunk sizes, which may have 1/8 of the body in addition
    fields: int = 128  #: Of a header
    connections: int = 2000
    unread: int = 1 << 25  #: Of all answers that clients have not read


class _Turns:
    """Turns of connections at the parser.

    The first bytes of requests go in the order of arrival, so a client with an ordinary request waits at most
    for a request of every other connection. One turn in four is for the rest of longer requests, by fair
    queueing of the seconds that each connection has used.
    """

    def __init__(self) -> None:
        self.oldest_first: dict[_Connection, None] = {}  #: Connections that wait for their clients
        self.unread: dict[_Connection, None] = {}  #: Connections with unread answers, oldest first
        self._short = deque[_Connection]()
        self._long: list[tuple[float, int, _Connection]] = []
        self._numbers, self._time, self._scheduled = count(), 0.0, False
        self._both = count()  #: Turns while both queues wait

    def add(self, connection: _Connection) -> None:
        """Queue a connection that has bytes to parse."""
        if not self._scheduled:
            self._scheduled = True
            connection.loop.call_soon(self._serve, connection.loop)
        connection.queued = True
        if connection.length < _PIECE:
            self._short.append(connection)
        else:
            heappush(self._long, (max(self._time, connection.used), next(self._numbers), connection))

    def _next(self) -> _Connection:
        if self._short and (not self._long or next(self._both) % 4):
            return self._short.popleft()
        self._time, _, connection = heappop(self._long)
        return connection

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        seconds = 0.0
        try:
            while (self._short or self._long) and seconds < _TURN:
                connection = self._next()
                clock, requests = perf_counter(), connection.requests
                connection.parse()
                cost = perf_counter() - clock + (connection.requests - requests) * _REQUEST
                seconds, connection.used = seconds + cost, max(self._time, connection.used) + cost
                connection.queued = False
                connection.go_on()
        finally:
            self._scheduled = bool(self._short or self._long)
            if self._scheduled:
                loop.call_soon(self._serve, loop)

    def bound_unread(self, connection: _Connection, most: int) -> None:
        """Add a connection with an unread answer; close the oldest while all have more than `most` bytes."""
        self.unread[connection] = None
        while len(self.unread) > 1 and sum(c.transport.get_write_buffer_size() for c in self.unread) > most:
            oldest = next(iter(self.unread))
            del self.unread[oldest]
            oldest.transport.abort()


class _Connection(HttpToolsProtocol):
    """An HTTP connection with limits."""

    def __init__(self, limits: ClientLimits, turns: _Turns, **settings: Any) -> None:
        super().__init__(**settings)
        self.limits, self.turns = limits, turns
        self.queued, self.used, self.requests = False, 0.0, 0  # for `turns`
        self._received, self._parsed = b"", 0  # bytes, and how many of them are parsed
        self._piece = self._body = 0  # bytes of the current piece, and of the body of the current request
        self._framing = 0  # bytes of the current request that are not body
        self._part = "none"  # part of the current request: none, header or body
        self._ending = False  # whether the connection ends with the answers to complete requests
        self.running: tuple[Any, asyncio.Task[None]] | None = None  # cycle and task of the application
        self._enter("idle")

    def _enter(self, state: str) -> None:
        self.state, self.since = state, self.loop.time()
        self.turns.oldest_first.pop(self, None)
        if state != "answering":
            self.turns.oldest_first[self] = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=_BUFFER)
        self.flow.pause_reading = lambda: None  # type: ignore[method-assign] # `is_ready` decides
        self.flow.resume_reading = self.go_on  # type: ignore[method-assign]
        if len(self.connections) > self.limits.connections:
            oldest = next(iter(self.turns.oldest_first))
            del self.turns.oldest_first[oldest]
            oldest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.turns.oldest_first.pop(self, None)
        self.turns.unread.pop(self, None)
        super().connection_lost(exc)
        if self.running is not None:  # if requests follow it, `self.cycle` is another
            cycle, task = self.running
            cycle.disconnected = True
            task.cancel()

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        self._received, self._parsed = self._received[self._parsed :] + data, 0
        if len(self._received) > _PIECE:
            self.transport.pause_reading()
        self.go_on()

    def is_ready(self) -> bool:
        """Whether there are bytes to parse, and neither the client nor the application must read first."""
        if len(self._received) == self._parsed or self._ending or self.transport.is_closing():
            return False
        if self.pipeline or self.flow.write_paused:
            return False
        cycle = self.cycle
        return cycle is None or cycle.response_complete or (cycle.more_body and len(cycle.body) < _BUFFER)

    @property
    def length(self) -> int:
        """Bytes of the current request that are parsed, with blank lines before it."""
        return self._framing + self._body

    def go_on(self) -> None:
        """Queue the connection for the parser, if it is ready."""
        if not self.queued and self.is_ready():
            self.turns.add(self)

    def parse(self) -> None:
        """Parse the next piece; of a short request both the header and the body."""
        self._parse_piece()
        if self._part == "body" and self.length < _PIECE:
            self._parse_piece()

    def _parse_piece(self) -> None:
        """Parse the next piece, which reaches at most to the end of a header."""
        if not self.is_ready():
            return
        if self.state == "idle":
            self._enter("sending")
        piece = self._received[self._parsed : self._parsed + _PIECE]
        blank = len(piece) - len(piece.lstrip(b"\r\n")) if self._part == "none" else 0
        end = piece.find(b"\r\n\r\n", blank)
        piece = piece if end < 0 else piece[: end + 4]
        self._parsed, self._piece = self._parsed + len(piece), len(piece)
        if self._parsed == len(self._received):
            self._received, self._parsed = b"", 0
            self.transport.resume_reading()
        self._framing += len(piece)
        try:
            self._feed(piece)
        except httptools.HttpParserError:
            self._refuse(400, "this is not a request of HTTP/1.1")
        if self._framing > self.limits.header + self._body // 8:
            self._refuse_framing()

    def _feed(self, piece: bytes) -> None:
        try:
            self.parser.feed_data(piece)
        except httptools.HttpParserUpgrade as upgrade:
            self._feed_without_upgrade(piece[upgrade.args[0] :])

    def _feed_without_upgrade(self, rest: bytes) -> None:
        """Parse a request again without its field Upgrade, which a server may ignore (RFC 9110, 7.8).

        httptools ends a request with Upgrade after its header, and would parse its body as the next request.
        """
        if self.parser.get_method() == b"CONNECT":
            self._refuse(405, "there is no CONNECT: this is not a proxy")
            return
        version = self.parser.get_http_version().encode()
        lines = [b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, version)]
        lines += [b"%b: %b" % field for field in self.headers if field[0] != b"upgrade"]
        self.parser = httptools.HttpRequestParser(self)
        self._feed(b"\r\n".join([*lines, b"", rest]))  # `rest` may have requests with Upgrade

    def on_message_begin(self) -> None:
        self._part, self._framing, self._body = "header", self._piece, 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._part == "header":  # trailers are ignored
            super().on_header(name, value)
            if len(self.headers) > self.limits.fields:
                self._refuse_framing()
                raise InputError("too many fields")  # ends the parsing of the piece

    def on_headers_complete(self) -> None:
        if self._framing > self.limits.header:
            self._refuse_framing()
        if self.parser.should_upgrade() or self.transport.is_closing():
            return
        super().on_headers_complete()
        self._part, self.requests = "body", self.requests + 1
        self.scope["extensions"] = {"textsvm": (self, self.cycle)}  # type: ignore[dict-item]

    def on_body(self, body: bytes) -> None:
        if self._part == "body":
            self._framing -= len(body)
            self._body += len(body)
            super().on_body(body)

    def on_message_complete(self) -> None:
        if self._part != "body":  # it will be parsed again, or is refused
            return
        super().on_message_complete()
        self._part, self._framing, self._body = "none", 0, 0
        # A refused body is read to its end: a client that still sends would not see the answer.
        self._enter("idle" if self.cycle.response_complete else "answering")

    def on_response_complete(self) -> None:
        self._enter("idle" if self._part == "none" else "sending")
        super().on_response_complete()
        if self._ending and not self.pipeline:
            self.transport.close()

    def pause_writing(self) -> None:
        super().pause_writing()
        self.turns.bound_unread(self, self.limits.unread)

    def resume_writing(self) -> None:
        super().resume_writing()
        self.turns.unread.pop(self, None)
        self.go_on()

    def _refuse_framing(self) -> None:
        if self._part == "header":
            limits = f"{self.limits.header:,} bytes or {self.limits.fields} fields"
            self._refuse(431, f"the header has more than {limits}")
        elif self._part == "none":
            self._refuse(400, "this is not a request of HTTP/1.1")
        else:
            self._refuse(400, "chunks are too short, or trailers too long")

    def _refuse(self, status: int, message: str, complete: bool = False) -> None:
        """Answer the request that arrives (with `complete`: has arrived), and close the connection.

        A request is answered once. If earlier requests have no answer yet, the connection ends after theirs.
        """
        cycle, arrives = self.cycle, self._part == "body"
        waits = cycle is not None and not cycle.response_complete
        if self.transport.is_closing():
            return
        if waits and not complete and (self.pipeline or not arrives):
            if arrives:
                self.pipeline.popleft()
            self._ending = True
            return
        if waits:
            cycle.disconnected = True
            cycle.message_event.set()
        if self.pipeline:
            self.transport.abort()
        elif cycle.response_started if waits else arrives:
            self.transport.close()
        else:
            self._answer(status, message)

    def _answer(self, status: int, message: str) -> None:
        body = error_body(message)
        head = (
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()

    def shutdown(self) -> None:
        super().shutdown()
        self.loop.call_later(self.limits.stopping, self._stop)  # 0.1 s later uvicorn answers 500

    def _stop(self) -> None:
        self._refuse(503, "the server has stopped", complete=True)

    def check(self) -> None:
        """Close the connection if it has been in its state for too long."""
        seconds = self.loop.time() - self.since
        if self.transport.is_closing():
            if self.state != "closing":
                self._enter("closing")
            elif seconds > _LAST_BYTES:
                self.transport.abort()
        elif self.state == "sending" and seconds > self.limits.sending:
            self._refuse(408, f"the request took more than {self.limits.sending:g} seconds to arrive")
        elif self.state == "answering" and seconds > self.limits.answering:
            self.transport.abort()
        elif self.state == "idle" and seconds > self.limits.idle:
            self.transport.close()


async def _run_app(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Run the application in a task that is canceled if the connection is lost; print unexpected errors."""
    connection, cycle = scope.pop("extensions")["textsvm"]
    if connection.transport.is_closing():
        cycle.disconnected = True
        return
    connection.running = cycle, asyncio.current_task()
    try:
        await app(scope, receive, send)
    except Exception as error:
        traceback.print_exception(error)
        raise
    finally:
        connection.running = None


class _GracefulServer(uvicorn.Server if uvicorn else object):  # type: ignore[misc]
    """Server that runs in a context of the application; SIGTERM and SIGINT end it without an error."""

    context: AbstractAsyncContextManager[object]
    on_hangup: Callable[[], None]

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        # Entering the context may take long: SIGHUP must not end it, SIGTERM and SIGINT must.
        with _handling(lambda *_: self.on_hangup(), "SIGHUP"):
            async with self.context:
                gc.collect()
                gc.freeze()  # a collection of all objects of the libraries takes 0.1 s
                with _handling(self.handle_exit, "SIGINT", "SIGTERM"):
                    await self._serve(sockets)

    async def check(self) -> None:
        """Check all connections."""
        for connection in list(self.server_state.connections):
            connection.check()


@contextmanager
def _handling(handler: Callable[[int, FrameType | None], None], *names: str) -> Iterator[None]:
    """Handle signals in a block; Windows has no SIGHUP."""
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; InputError if the address is not available or a package is missing."""
    if uvicorn is None:
        raise InputError(
            "an HTTP server needs the extra textsvm[serve]: pip install starlette uvicorn httptools uvloop"
        )
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.create_server(address[:2], family=family, backlog=_BACKLOG)
        for name in (socket.SO_RCVBUF, socket.SO_SNDBUF):  # connections inherit them
            listening.setsockopt(socket.SOL_SOCKET, name, _SOCKET_BUFFER)
        return listening
    except (OSError, OverflowError, UnicodeError) as error:
        reason = str(getattr(error, "strerror", None) or error).partition(" (while attempting")[0]
        raise InputError(f"cannot listen at {host}:{port}: {reason}; name another address or port") from error


def is_loopback(listening: socket.socket) -> bool:
    """Whether only programs of this computer can connect."""
    return ipaddress.ip_address(listening.getsockname()[0].partition("%")[0]).is_loopback


def run(
    app: ASGIApp,
    listening: socket.socket,
    context: AbstractAsyncContextManager[object],
    on_hangup: Callable[[], None] = lambda: None,
    limits: ClientLimits = ClientLimits(),
) -> None:
    """Serve an ASGI application until SIGTERM or SIGINT, then answer the requests in progress.

    `context` is entered before the first connection is accepted and left after the last. `on_hangup` is
    called at SIGHUP, also while the context is entered. This function must run in the main thread.
    """
    if resource is not None:  # each connection is an open file
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        soft = max(soft, min(hard, limits.connections + _OTHER_FILES))
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        limits = replace(limits, connections=max(1, min(limits.connections, soft - _OTHER_FILES)))
    connection: Any = partial(_Connection, limits, _Turns())
    config = uvicorn.Config(
        partial(_run_app, app), interface="asgi3", proxy_headers=False, http=connection, ws="none",
        lifespan="off", log_config=None,
        log_level="critical", access_log=False, server_header=False, date_header=False,
        timeout_keep_alive=int(limits.idle) + 1, timeout_notify=1, backlog=_BACKLOG,
        timeout_graceful_shutdown=int(limits.stopping),
    )  # fmt: skip
    server = _GracefulServer(config)
    server.context, server.on_hangup, config.callback_notify = context, on_hangup, server.check
    server.run([listening])
