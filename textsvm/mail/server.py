"""The resident filter: one process holds the weights, and mail programs ask it over a socket.

One thread (asyncio) talks to all clients, however slow they are. Decisions are taken by a few threads,
lessons by one: it is the only writer of the store, and a lesson is answered when it is on disk. What a
client may hold is bounded: its connection in time, all messages together in bytes.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
import stat
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from textsvm.errors import InputError
from textsvm.mail import spamd
from textsvm.mail.spamd import EX_DATAERR, EX_PROTOCOL, EX_SOFTWARE, EX_TEMPFAIL, LARGEST, Refused, Request

if TYPE_CHECKING:
    from textsvm.mail.filter import Decision, Filter

_T = TypeVar("_T")
Classify = Callable[[bytes], Awaitable["Decision"]]
Face = Callable[[Classify], Awaitable[Callable[[], None]]]
#: Seconds in which a client has sent its request, and taken its answer; and in which a server that was
#: asked to end answers what is under way.
PATIENCE, ENDING = 60.0, 20.0
#: Seconds in which a client that has just connected begins to ask, when the server ends.
GRACE = 0.2
#: Clients at once: a third of the file handles that Linux gives a process is left to the store.
MOST_CLIENTS = 700
#: Bytes of messages at once, beyond which large ones are put off; a message up to `SMALL` always has room.
MOST_HELD, SMALL = 160 << 20, 256 << 10
#: Connections that wait to be taken; more than that, and Linux turns clients away.
BACKLOG = 1024
_PART = 1 << 18


class Server:
    """A filter that answers the protocol of spamd.

    Parameters
    ----------
    filter : Filter
    log : callable
        Is given one line for each trouble.
    threads : int
        That take decisions.
    """

    def __init__(self, filter: Filter, log: Callable[[str], None], threads: int = 2) -> None:
        self.filter = filter
        self.log = log
        self._deciding = ThreadPoolExecutor(threads, "decide")
        self._learning = ThreadPoolExecutor(1, "learn")
        self._clients: dict[asyncio.Task[None], _Held] = {}
        self._held = self._lessons = 0

    async def run(
        self, sockets: Sequence[socket.socket], faces: Sequence[Face], ready: Callable[[], None]
    ) -> None:
        """Answer on these listening sockets until SIGTERM or SIGINT, and then what is under way."""
        end = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, end.set)
        closers = [await face(self.classify) for face in faces]
        for each in sockets:
            closers.append(
                (await asyncio.start_server(self._serve, sock=each, backlog=BACKLOG, limit=_PART)).close
            )
        ready()
        await end.wait()
        notify("STOPPING=1")
        for close in closers:
            close()
        await self._finish()

    async def classify(self, data: bytes) -> Decision:
        """The decision on a message; `Refused` where there is none."""
        return await self._in(self._deciding, lambda: self.filter.classify(data))

    async def _finish(self) -> None:
        """Answer those who have asked; who has sent nothing yet is let go."""
        if self._clients:
            await asyncio.wait(self._clients, timeout=GRACE)
        for task, held in self._clients.items():
            if not held.begun:
                task.cancel()
        if self._clients:
            await asyncio.wait(self._clients, timeout=ENDING)
        for pool in (self._deciding, self._learning):
            pool.shutdown(wait=True, cancel_futures=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        held = _Held()
        self._clients[task] = held
        try:
            try:
                if len(self._clients) > MOST_CLIENTS:
                    raise Refused(EX_TEMPFAIL, "too many clients at once; try again")
                with _Within(writer):
                    request, data = await self._read(reader, held)
                answer = await self._answer(request, data)
            except Refused as error:
                answer = [spamd.refusal(error)]
            del held.message
            with _Within(writer):
                for part in answer:
                    for start in range(0, len(part), _PART):  # a transport copies what it has to keep
                        writer.write(part[start : start + _PART])
                        await writer.drain()
                writer.write_eof()
        except (OSError, EOFError, asyncio.CancelledError):
            pass  # the client has gone, or has been let go
        finally:
            self._held -= held.size
            del self._clients[task]
            writer.close()

    async def _read(self, reader: asyncio.StreamReader, held: _Held) -> tuple[Request, bytes]:
        line = await _line(reader)
        if not line:
            raise EOFError
        held.begun = True
        request = spamd.read_request(line)
        if spamd.has_fields(request):
            request = spamd.read_fields(request, await _lines(reader))
        if not request.has_message:
            return request, b""
        await self._collect(reader, held, LARGEST if request.length is None else request.length)
        if request.length is not None and held.message.tell() != request.length:
            raise Refused(
                EX_PROTOCOL,
                f"(Content-length mismatch: expected {request.length} bytes, got {held.message.tell()})",
            )
        data = held.message.getvalue()  # no copy: it is the buffer itself
        return request, spamd.inflated(data) if request.compressed else data

    async def _collect(self, reader: asyncio.StreamReader, held: _Held, most: int) -> None:
        """Take in a message; a large one only while there is room."""
        while (size := held.message.tell()) < most:
            part = await reader.read(min(_PART, most - size))
            if not part:
                return
            if size + len(part) > SMALL and self._held + len(part) > MOST_HELD:
                raise Refused(EX_TEMPFAIL, "too many large messages at once; try again")
            held.message.write(part)
            held.size += len(part)
            self._held += len(part)
        if most == LARGEST and await reader.read(1):
            raise Refused(EX_DATAERR, f"(a message of more than {LARGEST} bytes)")

    async def _answer(self, request: Request, data: bytes) -> Sequence[bytes | memoryview]:
        if request.verb == "PING":
            return [spamd.PONG]
        if request.verb == "SKIP":
            return []
        if request.verb == "TELL":
            return [await self._tell(request, data)]
        return await self._in(self._deciding, lambda: spamd.check(request, data, self.filter))

    async def _tell(self, request: Request, data: bytes) -> bytes:
        """The answer to a lesson; after the last one that waits, decisions know of them all."""
        self._lessons += 1
        try:
            return await self._in(self._learning, lambda: spamd.tell(request, data, self.filter))
        finally:
            self._lessons -= 1
            if not self._lessons:
                self._learning.submit(self._refresh)

    def _refresh(self) -> None:
        try:
            self.filter.refresh()
        except (InputError, MemoryError, OSError) as error:
            self.log(f"decisions do not know the last lessons yet: {error}")

    async def _in(self, pool: ThreadPoolExecutor, work: Callable[[], _T]) -> _T:
        """What the work gives, done by a pool; whatever goes wrong is an answer, and a line of the log."""
        try:
            return await asyncio.get_running_loop().run_in_executor(pool, work)
        except InputError as error:
            self.log(str(error))
            raise Refused(EX_TEMPFAIL, str(error)) from error
        except MemoryError as error:
            self.log("out of main memory: a message was not looked at")
            raise Refused(EX_TEMPFAIL, "out of main memory") from error
        except Exception as error:
            self.log(f"a message was not looked at: {error!r}")
            raise Refused(EX_SOFTWARE, repr(error)) from error


class _Held:
    """What a client holds: whether it has begun to ask, and its message so far."""

    def __init__(self) -> None:
        self.begun = False
        self.size = 0
        self.message = BytesIO()


class _Within:
    """A block in which the server waits for a client: after `PATIENCE` seconds the connection ends."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._transport = writer.transport

    def __enter__(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(PATIENCE, self._transport.abort)

    def __exit__(self, *exception: object) -> None:
        self._timer.cancel()


async def _line(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readline()
    except ValueError:
        raise Refused(EX_PROTOCOL, "(a line without end)") from None


async def _lines(reader: asyncio.StreamReader) -> list[bytes]:
    """Fields up to the empty line."""
    found: list[bytes] = []
    while line := await _line(reader):
        line = line.rstrip(b"\r\n")
        if not line:
            return found
        if len(found) > 255:
            break
        found.append(line)
    raise Refused(EX_PROTOCOL, "(no end of the headers)")


def listen(path: Path) -> socket.socket:
    """A listening Unix socket that only this user may use; one that a dead server left is replaced.

    Whoever listens holds the lock of the file PATH.lock, as long as it lives.

    Raises
    ------
    InputError
        If a server listens there, or something is there that is no socket, or the path cannot be.
    """
    if len(os.fsencode(path)) > 107:
        raise InputError(f"{path} is too long for a socket (107 bytes); give a shorter --socket")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(f"{path}.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        _lock(lock, path)
        _clear(path)
        found = socket.socket(socket.AF_UNIX)
        mask = os.umask(0o177)
        try:
            found.bind(os.fspath(path))
        finally:
            os.umask(mask)
        found.listen(BACKLOG)
    except OSError as error:
        raise InputError(f"cannot listen at {path}: {error.strerror or error}") from error
    return found


def _lock(handle: int, path: Path) -> None:
    import fcntl  # not on Windows, where nothing listens at a path

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            raise
        raise _taken(path) from None


def _clear(path: Path) -> None:
    """Remove the socket of a server that has died."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise InputError(f"{path} is no socket; move it away, or give another --socket")
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(os.fspath(path))
        except (ConnectionRefusedError, FileNotFoundError):
            path.unlink(missing_ok=True)
            return
        except OSError:
            pass
    raise _taken(path)


def _taken(path: Path) -> InputError:
    return InputError(f"a server listens at {path} already; stop it first, or give another --socket")


def listen_tcp(port: int) -> socket.socket:
    """A listening socket of this machine alone (127.0.0.1).

    Raises
    ------
    InputError
        If it cannot be had.
    """
    try:
        return socket.create_server(("127.0.0.1", port), backlog=BACKLOG)
    except (OSError, OverflowError) as error:
        raise InputError(f"cannot listen at 127.0.0.1:{port}: {error}") from error


def passed_sockets() -> list[socket.socket]:
    """Listening sockets that systemd has opened for this process (LISTEN_FDS, sd_listen_fds(3))."""
    if os.environ.get("LISTEN_PID") != str(os.getpid()):
        return []
    count = int(os.environ.get("LISTEN_FDS", "0"))
    return [socket.socket(fileno=3 + i) for i in range(count)]


def notify(state: str) -> None:
    """Tell systemd how far this process is (sd_notify(3)); nothing without systemd."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line, suppress(OSError):
        line.sendto(state.encode(), "\0" + address[1:] if address.startswith("@") else address)


def serve(
    filter: Filter, sockets: Sequence[socket.socket], log: Callable[[str], None], faces: Sequence[Face] = ()
) -> None:
    """Answer on these sockets until SIGTERM or SIGINT; then close the filter.

    Parameters
    ----------
    filter : Filter
    sockets : list of listening sockets
    log : callable
        Is given one line for each trouble.
    faces : list of coroutine functions
        Other protocols: each is given `Server.classify`, begins to listen, and returns what ends that.
    """
    server = Server(filter, log)
    try:
        filter.refresh()
        asyncio.run(server.run(sockets, faces, lambda: notify("READY=1")))
    finally:
        filter.close()
