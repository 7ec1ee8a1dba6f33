"""Run an ASGI application on a socket with uvicorn; time, size and number of connections are bounded.

uvicorn bounds neither the time in which a client sends its request or reads the answer, nor the size of
headers. Here a connection is idle, sending or answering (it waits for the application). Once a second,
connections that have been in their state for too long are closed. At the maximum number of connections, a new
connection replaces the connection that has waited longest for its client: idle and slow clients keep nobody
out.
"""

from __future__ import annotations

import ipaddress
import json
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from textsvm.errors import InputError

try:
    import starlette  # noqa: F401 (the application needs it)
    import uvicorn
    from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
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
#: Open files that are not connections.
_OTHER_FILES = 64


@dataclass(frozen=True)
class ClientLimits:
    """Limits of connections, in seconds, bytes or number."""

    sending: float = 10.0
    answering: float = 60.0
    idle: float = 60.0
    stopping: float = 10.0  #: For requests in progress when the server stops
    header: int = 1 << 15
    connections: int = 2000


class _Connection(HttpToolsProtocol):
    """An HTTP connection with limits; `waiting` has the connections that wait for clients, oldest first."""

    def __init__(self, limits: ClientLimits, waiting: dict[_Connection, None], **settings: Any) -> None:
        super().__init__(**settings)
        self.limits, self.waiting = limits, waiting
        self._header = 0  # bytes of an incomplete header, without those of its first read
        self._fields = 0  # bytes of the URL and the complete fields
        self._enter("idle")

    def _enter(self, state: str) -> None:
        self.state, self.since = state, self.loop.time()
        self.waiting.pop(self, None)
        if state != "answering":
            self.waiting[self] = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if len(self.connections) > self.limits.connections:
            oldest = next(iter(self.waiting))
            del self.waiting[oldest]
            oldest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.waiting.pop(self, None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.state == "idle":
            self._enter("sending")
        incomplete = self._header
        super().data_received(data)
        if incomplete and self._header and not self.transport.is_closing():
            self._header += len(data)
            if self._header > self.limits.header:
                self._refuse(431, self._large_header())

    def on_message_begin(self) -> None:
        self._header, self._fields = 1, 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._fields += len(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._header:  # fields behind the body are ignored
            self._fields += len(name) + len(value) + len(": \r\n")
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._header = 0
        if self._fields > self.limits.header:
            raise ValueError(self._large_header())  # uvicorn calls `send_400_response`
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        # A refused body is read to its end: a client that still sends would not see the answer.
        self._enter("idle" if self.cycle.response_complete else "answering")

    def on_response_complete(self) -> None:
        self._enter("idle")
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        if self._fields > self.limits.header:
            self._refuse(431, self._large_header())
        else:
            self._refuse(400, "this is not a request of HTTP/1.1")

    def _large_header(self) -> str:
        return f"the header has more than {self.limits.header:,} bytes"

    def _refuse(self, status: int, message: str) -> None:
        body = json.dumps({"error": message}).encode()
        head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
        self.transport.write(STATUS_LINE[status] + head % len(body) + body)
        self.transport.close()

    def shutdown(self) -> None:
        super().shutdown()
        self.loop.call_later(self.limits.stopping, self._stop)  # 0.1 s later uvicorn answers 500

    def _stop(self) -> None:
        if not self.transport.is_closing():
            self._refuse(503, "the server has stopped")

    def check(self) -> None:
        """Close the connection if it is in its state for too long."""
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


class _GracefulServer(uvicorn.Server if uvicorn else object):  # type: ignore[misc]
    """Server within a context of the application; SIGTERM and SIGINT end it without an error."""

    context: AbstractAsyncContextManager[Any]
    on_hangup: Callable[[], None]

    async def serve(self, sockets: Any = None) -> None:
        # Entering the context may take long: SIGHUP must not end it, SIGTERM and SIGINT must.
        with _handling(lambda *_: self.on_hangup(), "SIGHUP"):
            async with self.context:
                with _handling(self.handle_exit, "SIGINT", "SIGTERM"):
                    await self._serve(sockets)

    async def check(self) -> None:
        """Check all connections."""
        for connection in list(self.server_state.connections):
            connection.check()


@contextmanager
def _handling(handler: Callable[[int, Any], None], *names: str) -> Iterator[None]:
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
            "a server of HTTP needs the extra textsvm[serve]: pip install starlette uvicorn httptools uvloop"
        )
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=_BACKLOG)
    except (OSError, OverflowError, UnicodeError) as error:
        reason = str(getattr(error, "strerror", None) or error).partition(" (while attempting")[0]
        raise InputError(
            f"cannot listen at {host}:{port}: {reason}; give another address or --port"
        ) from error


def is_loopback(listening: socket.socket) -> bool:
    """Whether only programs of this computer can connect."""
    return ipaddress.ip_address(listening.getsockname()[0].partition("%")[0]).is_loopback


def run(
    app: Any,
    listening: socket.socket,
    context: AbstractAsyncContextManager[Any],
    on_hangup: Callable[[], None] = lambda: None,
    limits: ClientLimits = ClientLimits(),
) -> None:
    """Serve an ASGI application until SIGTERM or SIGINT, then answer the requests in progress.

    `context` is entered before the first connection is accepted and left after the last. `on_hangup` is
    called at SIGHUP, also while the context is entered. This function must run in the main thread.
    """
    if resource is not None:  # a connection takes a file
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        soft = max(soft, min(hard, limits.connections + _OTHER_FILES))
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        limits = replace(limits, connections=max(1, min(limits.connections, soft - _OTHER_FILES)))
    connection: Any = partial(_Connection, limits, {})
    config = uvicorn.Config(
        app, http=connection, ws="none", lifespan="off", log_config=None,
        log_level="critical", access_log=False, server_header=False, date_header=False,
        timeout_keep_alive=int(limits.idle) + 1, timeout_notify=1, backlog=_BACKLOG,
        timeout_graceful_shutdown=int(limits.stopping),
    )  # fmt: skip
    server = _GracefulServer(config)
    server.context, server.on_hangup, config.callback_notify = context, on_hangup, server.check
    server.run([listening])
