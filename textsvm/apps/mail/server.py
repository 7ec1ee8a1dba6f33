"""The resident filter: a process that keeps the weights in memory and answers mail programs over a socket.

An asyncio thread serves all clients, however slow they are; it parses only the lines of the protocol, and
receives large messages in turns, a part at a time. Other threads decide, separate threads for small, medium
and large messages, and serve processes in turns; other processes read the messages (`MessageReader`). Another
thread learns and is the only writer of the store. A lesson is answered when it is on disk. The next decision
uses it; while further lessons wait, the model that decides is updated every `REFRESH` seconds.

No client can stall the others: time per connection, bytes of all messages together, waiting large messages
and the number of connections are bounded. Beyond the bounds a request is refused, and the oldest connection
without a complete request is closed for a new connection.
"""

from __future__ import annotations

import asyncio
import encodings
import errno
import json
import os
import pkgutil
import re
import select
import signal
import socket
import stat
import struct
import sys
import threading
import time
from bisect import insort
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from importlib import import_module
from io import BufferedRWPair, BytesIO
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TypeVar

from textsvm.apps.mail import spamd
from textsvm.apps.mail.client import create_file
from textsvm.apps.mail.filter import Filter
from textsvm.apps.mail.lessons import create_folder
from textsvm.apps.mail.message import Message, read_message, shortened
from textsvm.apps.mail.raw_message import RawMessage, message_id
from textsvm.errors import InputError, one_line, os_errors
from textsvm.runtime.files import try_lock
from textsvm.runtime.memory import return_freed_arrays, trim

if TYPE_CHECKING:
    from textsvm.apps.mail.decision import Decision

_T = TypeVar("_T")
Close = Callable[[], Awaitable[None]]
Interface = Callable[["Server"], Awaitable[Close]]
CLIENT_TIMEOUT = 60.0  #: Seconds for a client to send its request, and to read its answer
STOP_TIMEOUT = 20.0  #: Seconds for requests in progress when the server ends
FIRST_LINE_TIMEOUT = 0.2  #: Seconds for new clients to begin their request when the server ends
#: Maximum number of clients: 700 of the usual 1,024 file descriptors; the rest are for the store.
MAX_CLIENTS = 700
SMALL = 1 << 15  #: Bytes up to which a message is small
LARGE = 1 << 20  #: Bytes up to which a message is medium
#: Bytes of all messages together above which messages that are not small are refused.
MAX_HELD = spamd.LARGEST
MAX_WAITING = 8  #: Number of large messages that may wait
BACKLOG = 1024  #: Number of connections that may wait; Linux refuses further clients
ACCEPTED = 16  #: Number of connections that are accepted in a step of the event loop
REFUSAL_DELAY = 1.0  #: Seconds before a refusal while more than `BUSY_CLIENTS` clients are connected
BUSY_CLIENTS = 20
MAX_LINE = 1 << 14  #: Bytes of the longest line of a request
MAX_LINES = 1 << 16  #: Bytes of all lines of a request
_PART = 1 << 16  #: Bytes that are received or sent in a step
FREE_PARTS = 8  #: Number of short parts after which a client is read only every `PAUSE` seconds
SHORT = 1024  #: Bytes below which a part is short
PAUSE = 0.1
MESSAGE_COST = 1000  #: Cost of a message of no bytes, in bytes
CPU_LIMIT = 30.0  #: Seconds of processor time for a message; the usual limits of reading bound it to a few
REFRESH = 0.5  #: Seconds between updates of the model that decides, while lessons wait
#: Increments of `nice`, by the name of the threads; small messages have none.
PRIORITIES = {"medium": 5, "large": 10, "learn": 5}
_ADDRESS = re.compile(r"[^\s<>:]+@[^\s<>:]+")
_RUNNING = "a server listens at {} already; stop it first, or give another path"
_TOO_MANY = "too many large messages at once; try again"
_connection_numbers = count(-1, -1)  # in place of the ids of unknown processes


class Server:
    """A filter with the protocol of spamd; `log` is called with a line for each message and error."""

    def __init__(self, filter: Filter, log: Callable[[str], None]) -> None:
        self.filter, self.log = filter, log
        self._small, self._medium = _Threads(2, "small"), _Threads(1, "medium")
        self._large, self._learning = _Threads(1, "large", MAX_WAITING), _Threads(1, "learn")
        self._clients: dict[_Client, None] = {}  # in the order of their connection
        self._next_part = asyncio.Lock()  # held for a step, before the next part of a large message
        self.whole_large_message = asyncio.Lock()  #: Of a mail server, from its receipt to its answer
        self._held = self._lessons = 0  # bytes of all messages; lessons that wait
        self._refreshed = 0.0  # time of the last refresh

    async def run(self, sockets: Sequence[socket.socket], interfaces: Sequence[Interface]) -> None:
        """Serve these listening sockets until SIGTERM or SIGINT; then finish the requests in progress."""
        end, loop = asyncio.Event(), asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, end.set)
        closers = [await interface(self) for interface in interfaces]
        for listener in sockets:
            listener.setblocking(False)
            listener.listen(BACKLOG)
            loop.add_reader(listener, self._accept, listener)
        self.log(f"answering at {', '.join(map(address, sockets))}")
        notify("READY=1")
        await end.wait()
        notify("STOPPING=1")
        await asyncio.gather(*(close() for close in closers))
        for listener in sockets:
            loop.remove_reader(listener)
            listener.close()
        await self._finish()

    async def classify(self, data: bytes, queue_id: str = "") -> Decision:
        """The decision on a message of a mail server; raise `Refused` if there is none."""
        return await self._run(next(_connection_numbers), len(data), partial(self._decide, data, queue_id))

    def _decide(self, data: bytes, name: str = "") -> Decision:
        start = time.monotonic()
        decision = self.filter.classify(data)
        words = f"{decision.kind} {decision.score:.6f} {decision.category}".rstrip()
        self.log_message(data, f"{words}, {1000 * (time.monotonic() - start):.0f} ms", name)
        return decision

    def log_message(self, data: bytes, sentence: object, name: str = "") -> None:
        """Log a line about a message: its queue id or Message-ID, and no address."""
        self.log(f"{name or message_id(data)}: {_ADDRESS.sub('(address)', one_line(str(sentence), 300))}")

    async def _finish(self) -> None:
        """Finish the requests that have begun; disconnect the other clients."""
        await self._wait(FIRST_LINE_TIMEOUT)
        for client in [client for client in self._clients if not client.begun]:
            self._disconnect(client)
        await self._wait(STOP_TIMEOUT)
        for pool in (self._small, self._medium, self._large, self._learning):
            pool.executor.shutdown(wait=True, cancel_futures=True)
        await self._wait(FIRST_LINE_TIMEOUT)  # for a lesson that took longer

    async def _wait(self, seconds: float) -> None:
        """Wait until all clients are served, for a limited time."""
        if tasks := [client.task for client in self._clients]:
            await asyncio.wait(tasks, timeout=seconds)

    def _accept(self, listener: socket.socket) -> None:
        """Accept waiting connections; the oldest without a complete request make room for them."""
        loop = asyncio.get_running_loop()
        for _ in range(ACCEPTED):
            try:
                client = _Client(listener.accept()[0])
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    loop.remove_reader(listener)
                    loop.call_later(1.0, loop.add_reader, listener, self._accept, listener)
                return
            client.timer = loop.call_later(CLIENT_TIMEOUT, self._disconnect, client)
            client.task = loop.create_task(self._serve(client))
            client.task.add_done_callback(partial(self._forget, client))
            self._clients[client] = None
            if len(self._clients) > MAX_CLIENTS:
                self._disconnect(next(oldest for oldest in self._clients if oldest.reading))

    def _disconnect(self, client: _Client) -> None:
        client.reading = False
        client.task.cancel()

    def _forget(self, client: _Client, task: asyncio.Task[None]) -> None:
        self._release(client)
        self._clients.pop(client, None)
        client.timer.cancel()
        client.connection.close()

    async def _serve(self, client: _Client) -> None:
        loop = asyncio.get_running_loop()
        try:
            try:
                request, data = await self._read(client)
                client.reading = False
                client.timer.cancel()
                answer = await self._answer(client, request, data)
                del data
            except spamd.Refused as error:
                self.log_message(client.message.getvalue(), f"refused: {error}")
                answer = [spamd.refusal(error)]
                error.__traceback__ = None  # its frames hold the message
                self._release(client)
                if len(self._clients) > BUSY_CLIENTS:
                    await asyncio.sleep(REFUSAL_DELAY)
            client.message = BytesIO()
            client.timer.cancel()
            client.timer = loop.call_later(CLIENT_TIMEOUT, self._disconnect, client)
            for part in answer:
                await loop.sock_sendall(client.connection, part)
        except (OSError, EOFError, asyncio.CancelledError) as error:
            error.__traceback__ = None  # its frames hold the answer

    def _release(self, client: _Client) -> None:
        self._held -= client.size
        client.size, client.message = 0, BytesIO()

    async def _read(self, client: _Client) -> tuple[spamd.Request, bytes]:
        if not (line := await client.read_line()):
            raise EOFError
        client.begun = True
        request = spamd.read_request(line)
        if request.version >= (1.1 if request.has_message else 1.5):  # fields and an empty line follow
            request = spamd.read_fields(request, await client.read_fields())
        if not request.has_message:
            return request, b""
        most = spamd.LARGEST + 1 if request.length is None else request.length
        while (size := client.message.tell()) < most:
            if size >= SMALL:
                async with self._next_part:
                    await asyncio.sleep(0)  # the other clients have their turn
            part = await client.receive(min(_PART, most + 1 - size))  # a further byte: it is longer
            if not part:
                break
            if size + len(part) > spamd.LARGEST:
                raise spamd.Refused(spamd.EX_DATAERR, f"(a message of more than {spamd.LARGEST} bytes)")
            if size + len(part) > SMALL and self._held + len(part) > MAX_HELD:
                raise spamd.Refused(spamd.EX_TEMPFAIL, _TOO_MANY)
            client.size += len(part)
            self._held += len(part)
            client.message.write(part)
        if request.length not in (None, size):
            reason = f"(Content-Length mismatch: Expected {request.length} bytes, got {size} bytes)"
            raise spamd.Refused(spamd.EX_PROTOCOL, reason)
        return request, client.message.getvalue()  # no copy: it is the buffer itself

    async def _answer(
        self, client: _Client, request: spamd.Request, data: bytes
    ) -> Sequence[bytes | memoryview]:
        if request.verb == "PING":
            return [spamd.PONG]
        if request.verb == "SKIP":
            return []
        if request.verb == "TELL":
            self._lessons += 1
            try:
                work = partial(self._learn, request, data)
                return [await self._run(client.process, len(data), work, self._learning)]
            finally:
                self._lessons -= 1

        def check() -> Sequence[bytes | memoryview]:
            return client.send(spamd.check(request, data, self._decide(data), self.filter))

        return await self._run(client.process, len(data), check)

    def _learn(self, request: spamd.Request, data: bytes) -> bytes:
        """Learn or forget a message; update the model that decides if no lesson waits or it is old."""
        try:
            start, answer = time.monotonic(), spamd.tell(request, data, self.filter)
            what = f"learnt as {request.kind}" if request.set else "forgotten"
            state = "" if b"\r\nDid" in answer else " (no change)"
            self.log_message(data, f"{what}{state}, {1000 * (time.monotonic() - start):.0f} ms")
            return answer
        finally:
            if self._lessons <= 1 or time.monotonic() - self._refreshed >= REFRESH:
                try:
                    self.filter.refresh()
                except Exception as error:  # the lesson is on disk, so its answer stays
                    self.log(f"decisions do not count the last lessons yet: {type(error).__name__}: {error}")
                self._refreshed = time.monotonic()

    async def _run(self, process: int, size: int, work: Callable[[], _T], pool: _Threads | None = None) -> _T:
        """Result of work on a message of this size; every error becomes `Refused`, which callers log."""
        try:
            return await (pool or self._pool(size)).run(process, size, work)
        except spamd.Refused:
            raise
        except (InputError, MemoryError) as error:
            message = str(error) or "out of main memory: a message was not processed"
            raise spamd.Refused(spamd.EX_TEMPFAIL, message) from error
        except Exception as error:
            raise spamd.Refused(spamd.EX_SOFTWARE, repr(error)) from error

    def _pool(self, size: int) -> _Threads:
        """The threads that decide on messages of a size."""
        if size <= SMALL:
            return self._small
        return self._medium if size <= LARGE else self._large


def log(line: str) -> None:
    """Write a line to stderr, or drop it if the reader of a pipe is late: no mail waits for it."""
    with suppress(OSError):
        if select.select([], [2], [], 0)[1]:
            os.write(2, f"{one_line(line)}\n".encode("utf-8", "backslashreplace"))


class _Threads:
    """Threads with self-clocked fair queueing of processes; no process gets all of several threads.

    Work waits in the order of its turn, the larger of the turns of the work that started last and of
    unfinished work of its process, plus its cost, the size of the message.
    """

    def __init__(self, threads: int, name: str, most_waiting: int | None = None) -> None:
        self.executor = ThreadPoolExecutor(threads, name)
        self._most_waiting, self._free, self._most = most_waiting, threads, max(1, threads - 1)
        self._waiting: list[tuple[int, int, int, asyncio.Future[None]]] = []  # turn, number, process
        self._number = self._turn = 0
        self._turns: dict[int, int] = {}  # of the last work of each process, until its end
        self._active = Counter[int]()  # threads by process

    async def run(self, process: int, size: int, work: Callable[[], _T]) -> _T:
        """Result of the work on a message of this size."""
        if self._most_waiting is not None and len(self._waiting) >= self._most_waiting:
            raise spamd.Refused(spamd.EX_TEMPFAIL, _TOO_MANY)
        loop = asyncio.get_running_loop()
        turn = max(self._turn, self._turns.get(process, 0)) + size + MESSAGE_COST
        self._turns[process] = turn
        self._number += 1
        start = loop.create_future()
        insort(self._waiting, (turn, self._number, process, start))
        self._start()
        try:
            await start
            return await loop.run_in_executor(self.executor, work)
        finally:
            if not start.cancelled():  # otherwise the client went away while it waited
                self._free += 1
                self._active -= Counter([process])  # keeps no zeros
            if self._turns.get(process) == turn:
                del self._turns[process]
            self._start()

    def _start(self) -> None:
        """Start the first waiting work if a thread is free for its process."""
        self._waiting = [entry for entry in self._waiting if not entry[3].cancelled()]
        if not self._free:
            return
        for entry in self._waiting:
            turn, _, process, start = entry
            if self._active[process] < self._most:
                self._waiting.remove(entry)
                self._turn = turn
                self._free -= 1
                self._active[process] += 1
                start.set_result(None)
                return


class _Client:
    """A connection, the state of its request, its bytes that were not read yet, and its message so far."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self.connection, self.process = connection, next(_connection_numbers)
        if hasattr(socket, "SO_PEERCRED") and connection.family == socket.AF_UNIX:
            credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 4)
            self.process = struct.unpack("i", credentials)[0]
        self.task: asyncio.Task[None]
        self.timer: asyncio.TimerHandle
        self.begun, self.reading = False, True
        self.size = self.short_parts = 0  # `size`: bytes of its message that the server counts
        self.buffer, self.message = bytearray(), BytesIO()

    def send(self, answer: Sequence[bytes | memoryview]) -> Sequence[bytes | memoryview]:
        """Send a short answer at once, without the thread of the clients; return the rest."""
        if sum(map(len, answer)) > _PART:
            return answer
        data = b"".join(answer)
        with suppress(OSError):
            if not (data := data[self.connection.send(data) :]):
                self.connection.shutdown(socket.SHUT_WR)
        return [data]

    async def receive(self, most: int) -> bytes:
        """The next bytes, at most this number; none at the end."""
        return self._take(most) if self.buffer else await self._receive(most)

    async def _receive(self, most: int) -> bytes:
        if self.short_parts > FREE_PARTS:
            await asyncio.sleep(PAUSE)
        part = await asyncio.get_running_loop().sock_recv(self.connection, most)
        self.short_parts += len(part) < SHORT
        return part

    def _take(self, size: int) -> bytes:
        part = bytes(self.buffer[:size])
        del self.buffer[:size]
        return part

    async def read_line(self) -> bytes:
        """The next line with its end; at the end of the stream the rest."""
        while (size := self.buffer.find(b"\n") + 1) == 0 and len(self.buffer) <= MAX_LINE:
            if not (part := await self._receive(MAX_LINE)):
                return self._take(MAX_LINE)
            self.buffer += part
        if not 0 < size <= MAX_LINE:
            raise spamd.Refused(spamd.EX_PROTOCOL, "(a line without end)")
        return self._take(size)

    async def read_fields(self) -> list[bytes]:
        """Fields up to the empty line."""
        lines: list[bytes] = []
        size = 0
        while (line := await self.read_line()) and len(lines) <= 256 and size <= MAX_LINES:
            size += len(line)
            if not line.rstrip(b"\r\n"):
                return lines
            lines.append(line.rstrip(b"\r\n"))
        raise spamd.Refused(spamd.EX_PROTOCOL, "(no end of the headers)")


#: A message that needs every part of the reader: multipart, HTML, encoded words, another charset than UTF-8.
PRELOADED = b"""\
Subject: =?iso-8859-2?Q?re=E8?=
Content-Type: multipart/mixed; boundary=b

--b
Content-Type: text/html; charset=iso-8859-2
Content-Transfer-Encoding: quoted-printable

<p style=3D"display:none">a</p><a href=3D"http://example.org/">example.com</a> %d
--b
Content-Type: text/plain; charset=utf-8
Content-Transfer-Encoding: base64

YmFuYW5h
--b--
"""


class MessageReader:
    """Reads messages in processes, so that hostile mail does not hold the lock of this interpreter.

    The constructor forks their parent, before there are threads and sockets; a later upgrade of the package
    on disk changes nothing. Each thread that reads has its own process, which ends with the thread or the
    server, after a message of more than `SMALL` bytes, or after `CPU_LIMIT`. A request is the length of a
    message and the message, an answer is `Message` as JSON. If no process can be started, `log` is called
    once, and the server itself reads the messages.
    """

    def __init__(self, log: Callable[[str], None]) -> None:
        self._log, self._logged = log, False
        for module in pkgutil.iter_modules(encodings.__path__, "encodings."):
            with suppress(ImportError):  # codecs of another operating system
                import_module(module.name)
        read_message(PRELOADED)
        self._control, control = socket.socketpair()
        self._local = threading.local()  # `stream` is the connection of a thread to its process
        if os.fork() == 0:
            try:
                self._control.close()
                _fork_processes(control)
            finally:
                os._exit(0)
        control.close()

    def read(self, data: bytes | RawMessage) -> Message:
        """`read_message` in the process of this thread; InputError if it ends."""
        raw = RawMessage.of(data)
        try:
            stream = vars(self._local).get("stream") or self._connect()
        except OSError as error:  # the parent of the processes has ended
            if not self._logged:
                self._logged = True
                self._log(f"the server itself reads messages, without a limit of time: restart it ({error})")
            return read_message(raw)
        try:
            data = raw.data if len(raw.data) <= LARGE else shortened(raw)  # less memory
            stream.write(len(data).to_bytes(8, "big"))
            stream.write(data)
            stream.flush()
            message = Message(*json.loads(stream.read(int.from_bytes(stream.read(8), "big"))))
            if len(data) > SMALL:  # the process ends, and gives its memory back
                self._local.stream = None
            return message if data is raw.data else message._replace(digest=raw.digest)
        except (OSError, ValueError) as error:
            self._local.stream = None
            raise InputError("a message was not processed: its reader ended; try again") from error

    def _connect(self) -> BufferedRWPair:
        """A connection to a new process."""
        priority = PRIORITIES.get(threading.current_thread().name.partition("_")[0], 0)
        ours, theirs = socket.socketpair()
        with ours, theirs:
            socket.send_fds(self._control, [bytes([priority])], [theirs.fileno()])
            self._local.stream = stream = ours.makefile("rwb")
        return stream


def _fork_processes(control: socket.socket) -> None:
    """Fork a process for each connection that the server sends, until the server ends."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_IGN)  # the server ends them, and nobody waits for them
    while True:
        priority, handles, _, _ = socket.recv_fds(control, 1, 1)
        if not handles:
            return
        with socket.socket(fileno=handles[0]) as connection:
            if os.fork() == 0:
                control.close()
                os.nice(priority[0])
                _answer(connection)
                return


def _answer(connection: socket.socket) -> None:
    """Read messages until the connection ends."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)  # ends the process
    while size := connection.recv(8, socket.MSG_WAITALL):
        data = connection.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL)
        signal.setitimer(signal.ITIMER_PROF, CPU_LIMIT)
        answer = json.dumps(read_message(data)).encode()
        signal.setitimer(signal.ITIMER_PROF, 0)
        connection.sendall(len(answer).to_bytes(8, "big") + answer)


def listen(path: Path) -> socket.socket:
    """A listening Unix socket for this user alone; the socket of a dead server is replaced.

    A running server holds a lock on the file PATH.lock.
    """
    if len(os.fsencode(path)) > 107:
        raise InputError(f"{path} is too long for a socket (107 bytes); give a shorter --socket")
    with os_errors(f"cannot listen at {path}"):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        create_file(f"{path}.lock")
        lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CLOEXEC)
        if not try_lock(lock):
            raise InputError(_RUNNING.format(path))
        clear_socket(path)
        listener, mask = socket.socket(socket.AF_UNIX), os.umask(0o177)
        try:
            listener.bind(os.fspath(path))
        finally:
            os.umask(mask)
        if os.geteuid() == 0:  # clients and later servers may be those of the folder's owner
            owner = path.parent.stat()
            os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)
        listener.listen(BACKLOG)
        return listener


def clear_socket(path: Path) -> None:
    """Remove the socket of a server that has died; raise InputError if it lives."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise InputError(f"{path} is not a socket; move it away, or give another path")
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(os.fspath(path))
        except (ConnectionRefusedError, FileNotFoundError):
            path.unlink(missing_ok=True)
            return
        except OSError:
            pass
    raise InputError(_RUNNING.format(path))


def listen_tcp(port: int) -> socket.socket:
    """A listening socket at 127.0.0.1; raise InputError if the port is not available."""
    try:
        return socket.create_server(("127.0.0.1", port), backlog=BACKLOG)
    except (OSError, OverflowError) as error:
        raise InputError(f"cannot listen at 127.0.0.1:{port}: {error}") from error


def address(listener: socket.socket) -> str:
    """The path of a Unix socket, or HOST:PORT."""
    name = listener.getsockname()
    return name if isinstance(name, str) else f"{name[0]}:{name[1]}"


def passed_sockets() -> list[socket.socket]:
    """Listening sockets that systemd opened for this process (LISTEN_FDS, sd_listen_fds(3))."""
    if os.environ.get("LISTEN_PID") != str(os.getpid()):
        return []
    return [socket.socket(fileno=3 + i) for i in range(int(os.environ.get("LISTEN_FDS", "0")))]


def notify(state: str) -> None:
    """Report the state of this process to systemd, if there is systemd (sd_notify(3))."""
    if address := os.environ.get("NOTIFY_SOCKET", ""):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line, suppress(OSError):
            line.sendto(state.encode(), "\0" + address[1:] if address.startswith("@") else address)


def preload() -> None:
    """Import and load everything that a request may need, by answering requests on a temporary store.

    A process whose package is replaced on disk (an upgrade) then goes on with the old version until it ends;
    an import at a later time would fail, or mix both versions. Errors are left to the real requests.
    """
    with (
        suppress(InputError, OSError),
        TemporaryDirectory() as folder,
        Filter(Path(folder) / "store", create=True) as mail,
    ):
        for number, verb in enumerate(("spam", "ham", "spam", "ham")):
            data = PRELOADED.replace(b"%d", str(number).encode() * 9)
            spamd.tell(spamd.Request("TELL", 1.5, kind=verb, set=True), data, mail)
        mail.refresh()
        for verb in spamd.CHECKS:
            spamd.check(spamd.Request(verb, 1.5), data, mail.classify(data), mail)
        spamd.tell(spamd.Request("TELL", 1.5, remove=True), data, mail)


def learn_spool(mail: Filter, folder: Path, log: Callable[[str], None]) -> None:
    """Learn the messages that clients left while there was no server (`client.leave`), the oldest first.

    The folder is created for them. A message that is not learnt stays, and the log says why.
    """
    with suppress(OSError):
        create_folder(folder, 0o700)
    n = 0
    for path in sorted(folder.glob("[0-9]*.*.*")):
        kind = path.name.split(".", 2)[2]
        try:
            with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as stream:
                data = stream.read(spamd.LARGEST)
            if kind:
                mail.learn(data, kind)
            else:
                mail.unlearn(data)
            path.unlink()
            n += 1
        except Exception as error:  # mail of any kind must not keep the server from starting
            log(f"{path} is not learnt: {error or type(error).__name__}")
    if n:
        log(f"learnt from {folder}: {n:,}")


def serve(
    filter: Filter,
    sockets: Sequence[socket.socket],
    log: Callable[[str], None],
    interfaces: Sequence[Interface] = (),
) -> None:
    """Serve these listening sockets until SIGTERM or SIGINT; then close the filter.

    `interfaces` are other protocols (`mail_servers`): coroutine functions that take the `Server`, listen, and
    return the function that stops them.
    """
    server = Server(filter, log)
    sys.setswitchinterval(5e-5)  # the thread of the clients waits less for those that read messages
    return_freed_arrays(1 << 17, arenas=2)  # messages grow in place and are given back
    filter.refresh()
    trim()
    try:
        asyncio.run(server.run(sockets, interfaces))
    finally:
        filter.close()
