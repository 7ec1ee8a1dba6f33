"""HTTP/1.1 for `textsvm serve` and `textsvm label`, with bounds on the time and memory that clients take.

An application is a coroutine function from an `HttpRequest` to an `HttpAnswer`. A connection has at most one
request at a time: the next is parsed when the answer is with the operating system. httptools parses bytes in
pieces (`_PIECE`), and connections take turns at the parser (`_Turns`). All bytes of a request outside of its
body (header, trailers, chunk sizes, blank lines) are counted and bounded (`_Connection.parse`).

All bytes that connections hold are counted together (`_Turns.hold`): unparsed bytes, header, body, unread
answer. Above the limit the largest request or answer that waits for its client gives way. A lost connection
frees its bytes at once, and its request is canceled.

A connection is idle, sending or answering (it waits for the application). Once a second, connections that
have been in their state for too long are closed. At the maximum number of connections, a new connection
replaces that which has waited longest for its client: idle and slow clients keep nobody out.
"""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import re
import signal
import socket
import traceback
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from heapq import heappop, heappush
from http import HTTPStatus
from itertools import count
from time import perf_counter
from typing import NamedTuple, TypeAlias, cast
from urllib.parse import unquote

from textsvm.errors import InputError
from textsvm.runtime import memory
from textsvm.runtime.plain_json import error_body

try:
    import httptools
except ImportError:  # `listen` reports it
    httptools = None  # type: ignore[assignment]
try:
    from uvloop import new_event_loop
except ImportError:  # Windows
    from asyncio import new_event_loop  # type: ignore[assignment]
try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

_LAST_BYTES = 5.0  #: Seconds to send the last bytes of an answer
#: New connections after which freed memory is returned to the system, in a second with few of them.
_MANY = 200
_BACKLOG = 2048  #: Connections that wait to be accepted
_SOCKET_BUFFER = 1 << 15  #: Bytes that the operating system holds of a connection in each direction
_OTHER_FILES = 64  #: Open files that are not connections
#: Maximum bytes of a piece, except of long bodies; a turn parses a piece, or two of a short request.
_PIECE = 1 << 12
#: Parts of the target of a request that are not its path; the first may have a host.
_NO_PATH = re.compile(r"^\w+://([^/?]*)|\?.*", re.DOTALL)
_TURN = 0.001  #: Seconds of parsing after which the event loop does other work
_REQUEST = 0.0002  #: Estimated seconds of the event loop that a request takes beside its parsing


@dataclass(frozen=True)
class ClientLimits:
    """Limits of connections, in seconds, bytes or number."""

    sending: float = 10.0  #: Also to read some of an answer
    answering: float = 60.0
    idle: float = 60.0
    stopping: float = 10.0  #: For requests in progress when the server stops
    header: int = 1 << 15  #: Trailers and chunk sizes may have 4 KB, and 1/8 of the body
    fields: int = 128  #: Of a header
    body: int = 1 << 20
    connections: int = 2000
    held: int = 1 << 25  #: Of all connections: unparsed bytes, headers, bodies, unread answers


class HttpAnswer(NamedTuple):
    """An answer; the connection adds the length of the body, and to status 503 Retry-After."""

    status: int
    body: bytes
    kind: str = "application/json"
    headers: Mapping[str, str] = {}


class BodyRefused(Exception):
    """A body is too large, or there is no room for it; the argument is the answer."""


@dataclass(frozen=True)
class HttpRequest:
    """A request whose body may still arrive."""

    method: str
    path: str  #: Decoded, without the query
    headers: dict[str, str]  #: Names in small letters; values of a repeated name are joined by commas
    read: Callable[[], Awaitable[bytes | bytearray]]  #: The body; raises BodyRefused


Application: TypeAlias = Callable[[HttpRequest], Awaitable[HttpAnswer]]


def name_of(host: str) -> str:
    """Name of `NAME` or `NAME:PORT` in small letters, without a last dot; an IPv6 address has brackets."""
    return re.sub(r"(?<=.)\.?(?::[0-9]*)?\Z", "", host.lower())


def is_of_own_page(request: HttpRequest) -> bool:
    """Whether `Origin` is missing, or has the scheme, host and port that the request was sent to.

    A proxy that speaks TLS sets X-Forwarded-Proto; the first value is that of the outermost. A browser lets
    no page of another site set this field without the permission of the server.
    """
    origin, host = request.headers.get("origin"), request.headers.get("host")
    scheme = request.headers.get("x-forwarded-proto", "http").partition(",")[0].strip()
    own = f"{scheme}://{host}".lower().removesuffix(":")
    short = own.removesuffix(":80" if own.startswith("http:") else ":443")
    return origin is None or bool(host and origin.lower() in (own, short))


@dataclass(frozen=True)
class Hosts:
    """Accepted values of Host, against DNS rebinding: a foreign name with the address of this computer."""

    address: str = ""  #: Numeric address that the server listens at; any address with ""
    names: frozenset[str] = frozenset()  #: In small letters

    def refusal(self, request: HttpRequest) -> HttpAnswer | None:
        """Answer to a request for another server, or from a page of another site."""
        name = name_of(request.headers.get("host", ""))
        if name and name not in self.names and not self._has_address(name):
            return HttpAnswer(421, error_body(f"this server is not {name}; --host {name} adds the name"))
        if is_of_own_page(request):
            return None
        return HttpAnswer(403, error_body("pages of other sites may not send requests"))

    def _has_address(self, name: str) -> bool:
        try:
            address = ipaddress.ip_address(name.strip("[]"))
        except ValueError:
            return name == "localhost" and self.address in ("", "127.0.0.1", "::1")
        return not self.address or address == ipaddress.ip_address(self.address)


class _Turns:
    """Turns of connections at the parser, and the bytes that they hold.

    By fair queueing of the seconds that connections have used: a client with few requests goes before clients
    with many. One turn in four is for the rest of longer requests.
    """

    def __init__(self, most_held: int = 1 << 25) -> None:
        self.connections: set[_Connection] = set()
        self.oldest_first: dict[_Connection, None] = {}  #: Connections that wait for their clients
        self.held, self._most_held = 0, most_held
        self.n_new = 0  #: Connections whose memory was not returned
        #: For the first bytes and for the rest of requests: heaps of connections, and the seconds of the last
        queue = list[tuple[float, int, _Connection]]
        self._queues = queue(), queue()
        self._times, self._numbers, self._scheduled = [0.0, 0.0], count(), False
        self._both = count()  #: Turns while both queues wait

    def add(self, connection: _Connection) -> None:
        if not self._scheduled:
            self._scheduled = True
            connection.loop.call_soon(self._serve, connection.loop)
        connection.queued = True
        rest = connection.length >= _PIECE
        connection.used = max(self._times[rest], connection.used)
        heappush(self._queues[rest], (connection.used, next(self._numbers), connection))

    def _next(self) -> _Connection:
        first, rest = self._queues
        queue = not first or (bool(rest) and next(self._both) % 4 == 0)
        self._times[queue], _, connection = heappop(self._queues[queue])
        return connection

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        seconds = 0.0
        try:
            while any(self._queues) and seconds < _TURN:
                connection = self._next()
                clock, requests = perf_counter(), connection.requests
                connection.parse()
                cost = perf_counter() - clock + (connection.requests - requests) * _REQUEST
                seconds, connection.used = seconds + cost, connection.used + cost
                connection.queued = False
                connection.go_on()
        finally:
            self._scheduled = any(self._queues)
            if self._scheduled:
                loop.call_soon(self._serve, loop)

    def hold(self, connection: _Connection, n_bytes: int) -> None:
        """Set the number of bytes that a connection holds; the largest that wait for clients give way."""
        self.held += n_bytes - connection.held
        connection.held = n_bytes
        while self.held > self._most_held:
            largest = max(self.oldest_first, key=lambda waiting: waiting.held, default=None)
            if largest is None or not largest.held:
                return
            self.held, largest.held = self.held - largest.held, 0
            largest.give_way()

    async def watch(self) -> None:
        """Check all connections once a second, and return the memory of many that have gone."""
        before = 0
        while True:
            await asyncio.sleep(1)
            new, before = self.n_new - before, self.n_new
            if self.n_new > _MANY + 10 * new + 2 * len(self.connections):
                self.n_new = before = len(self.connections)  # which are still to go
                gc.collect()
                memory.trim()
            for connection in list(self.connections):
                connection.check()

    async def end(self, seconds: float) -> None:
        """End all connections: idle ones at once, others after their answers, within these seconds."""
        until = perf_counter() + seconds
        for connection in list(self.connections):
            connection.end()
        while self.connections and perf_counter() < until:
            await asyncio.sleep(0.01)
        for connection in list(self.connections):
            connection.refuse(503, "the server has stopped")
        while self.connections and perf_counter() < until + 1:
            await asyncio.sleep(0.01)


class _Connection(asyncio.BufferedProtocol):
    """An HTTP connection with limits."""

    def __init__(self, app: Application, limits: ClientLimits, turns: _Turns) -> None:
        self.app, self.limits, self.turns = app, limits, turns
        self._chunks = list[bytes]()
        self.on_body = self._chunks.append  # called for every chunk
        self.loop, self.parser = asyncio.get_running_loop(), httptools.HttpRequestParser(self)
        self.queued, self.used, self.requests, self.held = False, 0.0, 0, 0  # for `turns`
        self._buffer = bytearray()  # that bytes are received into
        self._received, self._parsed = b"", 0  # bytes, and how many of them are parsed
        self._unread, self._ending = 0, False  # bytes of the last answer; whether it ends the connection
        self._task: asyncio.Task[None] | None = None  # of the application
        self._begin()

    def _begin(self) -> None:
        self._part = "none"  # part of the request: none, header, body or complete
        self._framing = self._length = 0  # bytes outside and of the body
        self._most_framing = self.limits.header
        self._rest: int | None = None  # bytes of the body that have not arrived, if it has a length
        self._piece = _PIECE  # most bytes that are parsed at a time
        self._tail = b""  # last bytes before the current piece
        self._url, self._fields, self._body = b"", list[tuple[bytes, bytes]](), bytearray()
        self._answered = self._expects = False  # whether the client waits to be asked for the body
        self._arrived: asyncio.Future[HttpAnswer | None] = self.loop.create_future()
        self._enter("idle")

    def _enter(self, state: str) -> None:
        self.state, self.since = state, self.loop.time()
        self.turns.oldest_first.pop(self, None)
        if state != "answering":
            self.turns.oldest_first[self] = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=0)  # `pause_writing` tells of every unread answer
        self.turns.connections.add(self)
        self.turns.n_new += 1
        if len(self.turns.connections) > self.limits.connections:
            oldest = next(iter(self.turns.oldest_first))
            del self.turns.oldest_first[oldest]
            oldest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.turns.connections.discard(self)
        self.turns.oldest_first.pop(self, None)
        if self._task is not None:
            self._task.cancel()
        self._received, self._fields, self._body = b"", [], bytearray()
        del self._task, self.parser  # they refer to the connection
        self.turns.hold(self, 0)

    def get_buffer(self, sizehint: int) -> bytearray:
        self._buffer = bytearray(self._piece)
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._received = self._received[self._parsed :] + self._buffer[:nbytes]
        self._parsed, self._buffer = 0, bytearray()
        if len(self._received) >= _PIECE:
            self.transport.pause_reading()
        self._count()
        self.go_on()

    def _count(self) -> None:
        """Count the bytes that are held; a lost connection, which may wait for its turn, holds none."""
        if self in self.turns.connections:
            size = len(self._received) + min(self._framing, self.limits.header) + len(self._body)
            self.turns.hold(self, size + self.transport.get_write_buffer_size())

    def is_ready(self) -> bool:
        """Whether there are bytes to parse, and neither the client nor the application must read first."""
        waits = len(self._received) == self._parsed or self._part == "complete" or self._unread
        return not (waits or self.transport.is_closing())

    @property
    def length(self) -> int:
        """Bytes of the current request that are parsed, with blank lines before it."""
        return self._framing + self._length

    def go_on(self) -> None:
        if not self.queued and self.is_ready():
            self.turns.add(self)

    def parse(self) -> None:
        """Parse the next piece; of a short request both the header and the body."""
        self._parse_piece()
        if self._part == "body" and self.length < _PIECE:
            self._parse_piece()
        self._count()

    def _parse_piece(self) -> None:
        """Parse the next piece, which reaches at most to the end of a header, of a body or of chunks."""
        if not self.is_ready():
            return
        if self.state == "idle":
            self._enter("sending")
            client = self.transport.get_extra_info("socket")
            if not self.requests and client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                self.transport.abort()  # it has gone
                return
        piece = self._received[self._parsed : self._parsed + self._piece]
        blank = len(piece) - len(piece.lstrip(b"\r\n")) if self._part == "none" else 0
        piece = piece[blank:]
        if self._rest is not None:
            piece = piece[: self._rest]
        elif (end := (self._tail + piece).find(b"\r\n\r\n")) >= 0:
            piece = piece[: end + 4 - len(self._tail)]
        self._tail = (self._tail + piece)[-3:]
        self._parsed += blank + len(piece)
        self._framing += blank + len(piece)
        if self._parsed == len(self._received):
            self._received, self._parsed = b"", 0
            self.transport.resume_reading()
        try:
            self._feed(piece)
        except httptools.HttpParserError:
            if self._part == "complete":  # bytes of another request
                self._ending = True
            else:
                self.refuse(400, "this is not a request of HTTP/1.1")
        self._take_body()
        if self._framing > self._most_framing + self._length // 8:
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
            self.refuse(405, "there is no CONNECT: this is not a proxy")
            return
        version = self.parser.get_http_version().encode()
        lines = [b"%b %b HTTP/%b" % (self.parser.get_method(), self._url, version)]
        lines += [b"%b: %b" % field for field in self._fields if field[0] != b"upgrade"]
        self.parser = httptools.HttpRequestParser(self)
        self._feed(b"\r\n".join([*lines, b"", rest]))  # `rest` may have requests with Upgrade

    def on_message_begin(self) -> None:
        if self._part == "complete":
            raise InputError("another request")  # after a line break without carriage return
        self._part, self._url, self._fields = "header", b"", []

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._part == "header":  # trailers are ignored
            self._fields.append((name.lower(), value))
            if len(self._fields) > self.limits.fields:
                self._refuse_framing()
                raise InputError("too many fields")  # ends the parsing of the piece

    def on_headers_complete(self) -> None:
        if self._framing > self.limits.header:
            self._refuse_framing()
        if self.parser.should_upgrade() or self.transport.is_closing():
            return
        self._part, self.requests = "body", self.requests + 1
        self._most_framing = self._framing + _PIECE
        self._keeps_alive = self.parser.should_keep_alive() and self.parser.get_http_version() == "1.1"
        headers = dict[str, str]()
        for field in self._fields:
            name, value = (part.decode("latin-1") for part in field)
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        host = headers.get("host", "")
        if "," in host or not (host or self.parser.get_http_version() == "1.0"):
            self.refuse(400, "a request of HTTP/1.1 needs the field Host, once and not empty")
            return
        target, self._fields = self._url.decode("utf-8", "replace"), []
        if (match := _NO_PATH.match(target)) and match[1] is not None:  # replaces Host (RFC 9112, 3.2.2)
            headers["host"] = match[1]
        if "host" in headers and not name_of(headers["host"]):
            self.refuse(400, "the host of the request has no name")
            return
        if headers.get("transfer-encoding", "chunked").lower() != "chunked":
            self.refuse(501, "Transfer-Encoding may be chunked alone; bodies are not decompressed")
            return
        self._expects = headers.get("expect", "").lower() == "100-continue"
        self._rest = int(headers.get("content-length", 0)) or None
        self._piece = 4 * _PIECE if (self._rest or 0) > 4 * _PIECE else _PIECE
        method = self.parser.get_method().decode()
        path = unquote(_NO_PATH.sub("", target))
        self._task = self.loop.create_task(self._run(HttpRequest(method, path, headers, self._read)))

    def _take_body(self) -> None:
        """Take the bytes of the body in a piece, which may have a thousand chunks."""
        body = b"".join(self._chunks)
        self._chunks.clear()
        self._framing -= len(body)
        self._length += len(body)
        self._rest = None if self._rest is None else (self._rest - len(body)) or None
        if self._length + (self._rest or 0) > self.limits.body:
            self._refuse_body(413, f"the body has more than {self.limits.body:,} bytes; send more requests")
        if not (self._answered or self._arrived.done()):
            self._body += body

    def on_message_complete(self) -> None:
        if self._part != "body":  # it will be parsed again, or is refused
            return
        self._take_body()
        self._part = "complete"
        if not self._arrived.done():
            self._arrived.set_result(None)
        if self._answered:
            self._finish()
        else:
            self._enter("answering")

    async def _read(self) -> bytearray:
        """Body of the request; raises BodyRefused."""
        if self._expects and not self._arrived.done():
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if refusal := await self._arrived:
            raise BodyRefused(refusal)
        return self._body

    def _refuse_body(self, status: int, message: str) -> None:
        """Drop the body; a client that still sends would not see the answer, so the rest is parsed."""
        self._body = bytearray()
        if not self._arrived.done():
            self._arrived.set_result(HttpAnswer(status, error_body(message)))

    async def _run(self, request: HttpRequest) -> None:
        """Answer a request; print unexpected errors."""
        try:
            answer = await self.app(request)
        except BodyRefused as refusal:
            answer = refusal.args[0]
        except Exception as error:
            traceback.print_exception(error)
            answer = HttpAnswer(500, error_body("the request failed; stderr of the server has the error"))
        self._task, self._answered, self._body = None, True, bytearray()
        if self.transport.is_closing():
            return
        self._write(answer, self._ending or not self._keeps_alive, request.method != "HEAD")
        if self._part == "complete":
            self._finish()
        elif self._ending:
            self.transport.close()
        self._count()

    def _write(self, answer: HttpAnswer, closes: bool, has_body: bool = True) -> None:
        fields = {"content-type": answer.kind, "content-length": len(answer.body), **answer.headers}
        fields |= {"connection": "close"} if closes else {}
        fields |= {"retry-after": 1} if answer.status == 503 else {}
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        head = f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}\r\n{lines}\r\n".encode("latin-1")
        self.transport.write(head + answer.body if has_body else head)

    def _finish(self) -> None:
        """Go on after a request that is complete and answered."""
        if self._ending or not self._keeps_alive:
            self.transport.close()
        else:
            self._begin()
            self.go_on()

    def pause_writing(self) -> None:
        self._unread = self.transport.get_write_buffer_size()

    def resume_writing(self) -> None:
        self._unread = 0
        self._count()
        self.go_on()

    def _refuse_framing(self) -> None:
        if self._part == "header":
            limits = f"{self.limits.header:,} bytes or {self.limits.fields} fields"
            self.refuse(431, f"the header has more than {limits}")
        elif self._part == "none":
            self.refuse(400, "this is not a request of HTTP/1.1")
        else:
            self.refuse(400, "chunks are too short, or trailers too long")

    def refuse(self, status: int, message: str) -> None:
        """Answer the request, unless it has an answer, and close the connection."""
        if self.transport.is_closing():
            return
        if self._task is not None:
            self._task.cancel()
        if not self._answered:
            self._write(HttpAnswer(status, error_body(message)), closes=True)
        self.transport.close()

    def give_way(self) -> None:
        """Drop an unfinished body, or end the connection."""
        if self._part == "body" and not self._answered:
            self._ending = True
            self._refuse_body(503, "the server is busy; try again")
        else:
            self.transport.abort()

    def end(self) -> None:
        """Close the connection after the answer to its request."""
        self._ending = True
        if self.state == "idle" and not self._received:
            self.transport.close()

    def check(self) -> None:
        """Close the connection if it has been in its state for too long."""
        size, now = self.transport.get_write_buffer_size(), self.loop.time()
        if size < self._unread:  # the client reads
            self._unread, self.since = size, now
        seconds = now - self.since
        longest = self.limits.idle if self.state == "idle" else self.limits.answering
        if self.transport.is_closing():
            if self.state != "closing":
                self._enter("closing")
            elif seconds > _LAST_BYTES:
                self.transport.abort()
        elif self.state == "sending" and seconds > self.limits.sending:
            self.refuse(408, f"the request took more than {self.limits.sending:g} seconds to arrive")
        elif seconds > (self.limits.sending if self._unread else longest):
            self.transport.abort()
        self._count()


@contextmanager
def _handling(function: Callable[[], object], *names: str) -> Iterator[None]:
    """Call a function in the event loop at signals; Windows has no SIGHUP."""
    loop = asyncio.get_running_loop()

    def handler(*_: object) -> None:
        loop.call_soon_threadsafe(function)

    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; InputError if the address is not available or a package is missing."""
    if httptools is None:
        raise InputError("an HTTP server needs the extra textsvm[serve]: pip install httptools uvloop")
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.create_server(address[:2], family=family, backlog=_BACKLOG)
        for name in (socket.SO_RCVBUF, socket.SO_SNDBUF):  # connections inherit them
            listening.setsockopt(socket.SOL_SOCKET, name, _SOCKET_BUFFER)
        return listening
    except (OSError, OverflowError, UnicodeError) as error:
        reason = str(getattr(error, "strerror", None) or error).partition(" (while attempting")[0]
        raise InputError(f"cannot listen at {host}:{port}: {reason}; name another address or port") from error


def run(
    app: Application, listening: socket.socket, context: AbstractAsyncContextManager[object],
    on_hangup: Callable[[], None] = lambda: None, limits: ClientLimits = ClientLimits(),
) -> None:  # fmt: skip
    """Serve an application until SIGTERM or SIGINT, then answer the requests in progress.

    Connections are accepted before `context` is entered, which may take long, and until it is left.
    `on_hangup` is called at SIGHUP, also while the context is entered. Only the main thread may call this.
    """
    if resource is not None:  # each connection is an open file
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        soft = max(soft, min(hard, limits.connections + _OTHER_FILES))
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        limits = replace(limits, connections=max(1, min(limits.connections, soft - _OTHER_FILES)))
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(_serve(app, listening, context, on_hangup, limits))


async def _serve(
    app: Application, listening: socket.socket, context: AbstractAsyncContextManager[object],
    on_hangup: Callable[[], None], limits: ClientLimits,
) -> None:  # fmt: skip
    loop, turns = asyncio.get_running_loop(), _Turns(limits.held)
    connect = partial(_Connection, app, limits, turns)
    # uvloop accepts a connection of a socket in each iteration: clients that are gone would fill the backlog.
    sockets = [listening, *(listening.dup() for _ in range(7))]
    servers = [await loop.create_server(connect, sock=sock, backlog=_BACKLOG) for sock in sockets]

    async def stop() -> None:
        for server in servers:
            server.close()
        await turns.end(limits.stopping)

    async def work() -> None:
        async with context:
            gc.collect()
            gc.freeze()  # a collection of all objects of the libraries takes 0.1 s
            with suppress(asyncio.CancelledError):  # by SIGTERM or SIGINT
                await loop.create_future()
            await stop()

    watching, working = loop.create_task(turns.watch()), loop.create_task(work())

    with _handling(on_hangup, "SIGHUP"), _handling(working.cancel, "SIGINT", "SIGTERM"):
        try:
            await working
        except asyncio.CancelledError:  # stopped while the context was entered
            await stop()
    watching.cancel()
