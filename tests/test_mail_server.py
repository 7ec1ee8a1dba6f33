"""The resident filter: spamd's protocol, many clients, bad ones, and its end."""

import asyncio
import os
import random
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import mail_servers
import pytest
from mail_servers import HAM, SPAM, UNSURE, VERSION, Decision, ToyFilter, free_port, toy
from refusals import refuses

from textsvm.apps.mail import server as server_module
from textsvm.apps.mail import spamd
from textsvm.apps.mail.client import LEARN, Trouble, ask
from textsvm.apps.mail.server import listen, listen_tcp
from textsvm.errors import InputError

pytestmark = pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="needs Unix sockets")
spamc = pytest.mark.skipif(shutil.which("spamc") is None, reason="needs spamc (Debian: spamc)")


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    path = tmp_path_factory.mktemp("mail") / "socket"
    port = free_port()
    with toy(path, f"tcp={port}") as process:
        yield path, port, process


@pytest.fixture
def server(served):
    return str(served[0])


def say(server, data, finish=True):
    """Send bytes, and the whole answer."""
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(10)
        line.connect(server)
        found = b""
        with suppress(BrokenPipeError, ConnectionResetError):  # it has answered before it had read all
            line.sendall(data)
            if finish:
                line.shutdown(socket.SHUT_WR)
        with suppress(ConnectionResetError):
            while part := line.recv(65536):
                found += part
        return found


def request(head, data):
    return f"{head}\r\nContent-length: {len(data)}\r\n\r\n".encode() + data


# The protocol


@pytest.mark.parametrize(
    ("data", "answer"),
    [
        (SPAM, "Spam: True ; 7.4 / 5.0\r\nDecision: Spam 0.998918"),
        (HAM, "Spam: False ; -5.0 / 5.0\r\nDecision: Ham 0.010000"),
        (UNSURE, "Spam: False ; 0.0 / 5.0\r\nDecision: Unsure 0.500000"),
    ],
)
def test_check(server, data, answer):
    found = say(server, request("CHECK SPAMC/1.5\r\nUser: someone\r\nUnknown: x", data))
    assert found.decode() == f"SPAMD/1.1 0 EX_OK\r\n{answer}\r\n\r\n"


def test_process_and_headers(server):
    marked = SPAM.replace(
        b"\n\n", b"\nX-Textsvm: Spam, score=0.998918, version=" + VERSION + b"\nX-Spam-Flag: YES\n\n"
    )
    head, _, body = say(server, request("PROCESS SPAMC/1.5", SPAM)).partition(b"\r\n\r\n")
    assert body == marked
    assert head.decode() == f"SPAMD/1.1 0 EX_OK\r\nContent-length: {len(body)}\r\nSpam: True ; 7.4 / 5.0"
    head, _, body = say(server, request("HEADERS SPAMC/1.5", SPAM)).partition(b"\r\n\r\n")
    assert body == marked[: marked.index(b"\n\n") + 2]
    assert f"Content-length: {len(body)}\r\n".encode() in head
    assert f"Replaced: {SPAM.index(b'Cheap')}".encode() in head


@pytest.mark.parametrize(
    "data", [b"", b"\n", b"no header", b"A: b", b"A: b\r\n\r\n", b"A: b\n\nx", b"\0\xff\n\n"]
)
def test_header_and_the_rest_are_the_whole(server, data):
    whole = say(server, request("PROCESS SPAMC/1.5", data)).partition(b"\r\n\r\n")[2]
    fields, header = ask(server, "HEADERS SPAMC/1.5\r\n", data)
    assert header + data[int(fields["Replaced"]) :] == whole


def test_report_and_symbols(server):
    head, _, body = say(server, request("REPORT SPAMC/1.5", SPAM)).partition(b"\r\n\r\n")
    # Exim reads these lines by position.
    assert head.decode().split("\r\n")[1:] == [f"Content-length: {len(body)}", "Spam: True ; 7.4 / 5.0"]
    assert "pills" in body.decode()
    assert "\x1b" not in body.decode()
    assert say(server, request("REPORT_IFSPAM SPAMC/1.5", HAM)).endswith(b"Spam: No ; -5.0 / 5.0\r\n\r\n")
    assert b"Spam: Yes" in say(server, request("REPORT_IFSPAM SPAMC/1.5", SPAM))
    assert say(server, request("SYMBOLS SPAMC/1.5", UNSURE)).endswith(b"\r\n\r\nTEXTSVM_UNSURE")


def test_old_versions_of_the_protocol(server):
    assert say(server, b"SYMBOLS SPAMC/1.0\r\n" + SPAM).endswith(b"/ 5.0\r\n\r\nTEXTSVM_SPAM\r\n")
    assert b"Content-length" not in say(server, b"REPORT SPAMC/1.2\r\n\r\n" + SPAM)
    assert re.match(rb"SPAMD/1.1 0 EX_OK\r\nContent-length: \d+\r\n\r\nFrom", say(
        server, b"PROCESS SPAMC/1.2\r\n\r\n" + HAM
    ))  # fmt: skip
    assert say(server, b"PROCESS SPAMC/1.0\r\n" + HAM).startswith(
        b"SPAMD/1.0 0 EX_OK\r\nFrom: a@example.org\n"
    )
    assert say(server, b"PING SPAMC/1.2\r\n", finish=False) == b"SPAMD/1.5 0 PONG\r\n"
    assert say(server, b"PING SPAMC/1.5\r\n\r\n", finish=False) == b"SPAMD/1.5 0 PONG\r\n"
    assert say(server, b"SKIP SPAMC/1.2\r\n") == b""


def test_tell(server):
    data = b"Subject: told\n\nno word of it\n"

    def tell(fields):
        return say(server, request(f"TELL SPAMC/1.5\r\n{fields}", data)).decode()

    learnt = "SPAMD/1.1 0 EX_OK\r\nDidSet: local\r\nContent-length: 0\r\n\r\n"
    assert tell("Message-class: spam\r\nSet: local, remote") == learnt
    assert "DidSet" not in tell("Message-class: spam\r\nSet: local")
    assert b"Spam: True" in say(server, request("CHECK SPAMC/1.5", data))
    assert tell("Message-class: ham\r\nSet: local") == learnt
    assert "DidRemove: local" in tell("Remove: local")
    assert "DidRemove" not in tell("Remove: local")
    for wrong in (
        "Set: local",
        "Message-class: two eggs\r\nSet: local",
        "Message-class: ham\r\nSet: local\r\nRemove: local",
    ):
        assert tell(wrong).startswith("SPAMD/1.0 76 EX_PROTOCOL")


def test_length_and_compression_are_checked(server):
    mismatch = b"SPAMD/1.0 76 EX_PROTOCOL: (Content-Length mismatch: Expected 10 bytes, got %d bytes)\r\n"
    assert say(server, b"CHECK SPAMC/1.5\r\nContent-length: 10\r\n\r\n" + SPAM) == mismatch % 11
    assert say(server, b"CHECK SPAMC/1.5\r\nContent-length: 10\r\n\r\n" + SPAM[:9]) == mismatch % 9
    assert b"76 EX_PROTOCOL: (compressed" in say(server, request("CHECK SPAMC/1.5\r\nCompress: zlib", SPAM))


def test_points_are_in_units_of_spamassassin():
    def points(kind, score):
        return spamd.points(Decision(kind, score, 0.0))

    assert points("spam", 0.99) == 5.0
    assert points("unsure", 0.9899999999) == 4.9
    assert points("unsure", 0.97) == 3.7  # 3.78, rounded down
    assert points("unsure", 0.5) == 0.0
    assert points("ham", 0.01) == -5.0
    assert -30 < points("ham", 0.0) < -20 < 20 < points("spam", 1.0) < 30


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"CHECK\r\n",
        b"CHECK SPAMC/2.0\r\n\r\n",
        b"CHECK SPAMC/1.\xb2\r\n\r\n",
        b"CHECK SPAMC/1.5\r\nno colon\r\n\r\n",
        b"CHECK SPAMC/1.5\r\nContent-length: -1\r\n\r\n",
        b"CHECK SPAMC/1.5\r\nContent-length: 10\r\n",
        b"CHECK SPAMC/1.5\r\nContent-length: 1000\r\n\r\nonly this",
        b"CHECK SPAMC/1.5\r\n" + b"A: b\r\n" * 300 + b"\r\n",
        b"CHECK SPAMC/1.5\r\n" + (b"A: " + b"b" * 10_000 + b"\r\n") * 30 + b"\r\n",
        b"x" * 600_000,
    ],
)
def test_what_is_no_request_is_refused(server, data):
    assert say(server, data).startswith(b"SPAMD/1.0 76 EX_PROTOCOL: ")


def test_a_message_larger_than_any_is_refused_at_once(server):
    size = spamd.LARGEST + 1
    found = say(server, f"CHECK SPAMC/1.5\r\nContent-length: {size}\r\n\r\n".encode(), finish=False)
    assert found.startswith(b"SPAMD/1.0 65 EX_DATAERR")


def test_a_filter_that_fails_is_an_answer(served, server):
    assert say(server, request("CHECK SPAMC/1.5", b"BREAK")).startswith(
        b"SPAMD/1.0 70 EX_SOFTWARE: ZeroDivision"
    )
    assert mail_servers.answers(server)


# spamc


@spamc
@pytest.mark.parametrize(
    ("options", "data", "code", "said"),
    [
        (["-c"], SPAM, 1, b"7.4/5.0\n"),
        (["-c"], HAM, 0, b"-5.0/5.0\n"),
        (["-R"], HAM, 0, b"-5.0/5.0\ntextsvm: ham"),
        (["-r"], SPAM, 0, b"textsvm: spam"),
        (["-r"], HAM, 0, b""),
        (["-y"], SPAM, 0, b"TEXTSVM_SPAM"),
        (["-E"], SPAM, 1, b"From: b@example.com\nSubject: offer\nX-Textsvm: Spam"),
        ([], UNSURE, 0, b"From: c@example.net\nSubject: hm\nX-Textsvm: Unsure"),
        (["--headers"], SPAM, 0, SPAM.partition(b"\n\n")[0] + b"\nX-Textsvm: Spam"),
        (["-K"], b"", 0, b"SPAMD/1.5 0\n"),
        (["-L", "spam"], b"Subject: by spamc\n\nx\n", 0, b"Message successfully un/learned\n"),
        (["-L", "spam"], b"Subject: by spamc\n\nx\n", 0, b"Message was already un/learned\n"),
        (["-L", "forget"], b"Subject: by spamc\n\nx\n", 0, b"Message successfully un/learned\n"),
    ],
)
def test_spamc(served, options, data, code, said):
    where = ["-d", "127.0.0.1", "-p", str(served[1])] if options == ["-c"] else ["-U", str(served[0])]
    found = subprocess.run(["spamc", *where, *options], input=data, capture_output=True, timeout=20)
    assert (found.returncode, found.stdout[: len(said)]) == (code, said)
    if options == ["--headers"]:
        assert found.stdout.endswith(b"\n\nCheap pills here.\n")


# Many clients, and bad ones


def test_two_hundred_clients_at_once(server):
    together = threading.Barrier(200)

    def one(number):
        together.wait()
        data = (SPAM, HAM, UNSURE)[number % 3]
        return ask(server, "CHECK SPAMC/1.5\r\n", data)[0]["Decision"].split(" ")[0]

    with ThreadPoolExecutor(200) as pool:
        assert list(pool.map(one, range(200))) == [("Spam", "Ham", "Unsure")[i % 3] for i in range(200)]


def test_who_sends_nothing_holds_up_nobody(server):
    silent = [socket.socket(socket.AF_UNIX) for _ in range(300)]
    try:
        for line in silent:
            line.connect(server)
        for line in silent[::3]:
            line.sendall(b"CHECK SPAMC/1.5\r\nContent-length: 1000000\r\n\r\nhalf")
        start = time.monotonic()
        assert mail_servers.answers(server)
        assert time.monotonic() - start < 5
    finally:
        for line in silent:
            line.close()
    mail_servers.until(lambda: mail_servers.answers(server))


def test_learning_holds_up_no_decision(server, tmp_path):
    begun, end = tmp_path / "begun", tmp_path / "end"
    with ThreadPoolExecutor(2) as pool:
        lessons = [
            pool.submit(ask, server, LEARN.format("ham"), f"WAIT {begun} {end} {i}".encode(), 60.0)
            for i in range(2)
        ]
        try:
            mail_servers.until(begun.exists)
            for _ in range(5):
                ask(server, "CHECK SPAMC/1.5\r\n", HAM)
            assert not lessons[0].done()
            assert not lessons[1].done()
        finally:
            end.touch()
        assert all("DidSet" in lesson.result()[0] for lesson in lessons)


def test_the_oldest_silent_connection_makes_room(tmp_path):
    with toy(tmp_path / "socket") as process:
        lines = []
        try:
            for _ in range(720):  # more than the server holds
                lines.append(socket.socket(socket.AF_UNIX))
                lines[-1].connect(str(tmp_path / "socket"))
            assert mail_servers.answers(tmp_path / "socket")
            assert lines[0].recv(1) == b""
        finally:
            for line in lines:
                line.close()
        assert process.poll() is None


def handles(process):
    return len(os.listdir(f"/proc/{process.pid}/fd"))


def memory(process, what="VmRSS"):
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(what)).split()[1]) * 1024


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs /proc")
def test_garbage_and_broken_connections_leave_nothing_behind(served):
    path, _, process = served
    chance = random.Random(5)
    starts = [b"", b"CHECK SPAMC/1.5\r\n", b"PROCESS SPAMC/1.5\r\nContent-length: 90000\r\n\r\n", b"TELL "]

    def throw(count):
        for _ in range(count):
            with socket.socket(socket.AF_UNIX) as line:
                line.connect(str(path))
                with suppress(OSError):  # it may have enough of it
                    line.sendall(
                        chance.choice(starts) + chance.randbytes(chance.choice([0, 10, 5000, 80_000]))
                    )
        assert mail_servers.answers(path)

    throw(100)
    mail_servers.until(lambda: handles(process) < 30)
    before = memory(process)
    throw(400)
    mail_servers.until(lambda: handles(process) < 30)
    assert memory(process) < before + (16 << 20)


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs /proc")
def test_a_large_message_is_held_once_and_given_back(tmp_path):
    path = tmp_path / "socket"
    data = b"Subject: large\n\n" + bytes(60 << 20)
    with toy(path) as process:
        base = memory(process)
        assert ask(str(path), "HEADERS SPAMC/1.5\r\n", data, 30)[0]["Decision"].startswith("Unsure")
        assert ask(str(path), "PROCESS SPAMC/1.5\r\n", data, 30)[1].endswith(data[20:])
        assert memory(process, "VmHWM") < base + (80 << 20)
        assert memory(process) < base + (30 << 20)
        held = [socket.socket(socket.AF_UNIX) for _ in range(2)]
        try:  # more than is held at once: who comes last is put off, small ones are not
            for line in held:
                line.connect(str(path))
                line.sendall(
                    f"CHECK SPAMC/1.5\r\nContent-length: {len(data)}\r\n\r\n".encode() + data[: 30 << 20]
                )
            with pytest.raises(Trouble, match="too many large messages"):
                ask(str(path), "CHECK SPAMC/1.5\r\n", data, 30)
            assert mail_servers.answers(path)
        finally:
            for line in held:
                line.close()
        assert memory(process, "VmHWM") < base + (80 << 20)


@contextmanager
def reading_a_line():
    """The other end of a connection, its client, and the task that reads a line."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        client = server_module._Client(theirs)
        yield ours, client, asyncio.ensure_future(client.read_line())


def test_small_parts_are_read_at_intervals():
    async def receive():
        with reading_a_line() as (ours, client, reading):
            start = time.monotonic()
            for byte in b"x" * 150 + b"\n":
                ours.sendall(bytes([byte]))
                await asyncio.sleep(0.001)
            assert len(await reading) == 151
            return client.short_parts, time.monotonic() - start

    parts, seconds = asyncio.run(receive())
    assert parts <= server_module.FREE_PARTS + 2 + seconds / server_module.PAUSE


@pytest.mark.parametrize(
    ("threads", "work", "first"),
    [
        (1, [(1, 0)] * 6 + [(2, 0)] * 2, [1, 1, 2, 1, 2]),  # clients of a process wait for those of others
        (2, [(1, 0)] * 6 + [(2, 0)] * 2, [2, 2, 1]),  # a thread is free for others
        (1, [(number, 30_000) for number in range(10)] + [(10, 2000)] * 2, [0, 10, 10]),  # large for small
    ],
)
def test_processes_take_turns(threads, work, first):
    """Work is of (process, size); `first` are the processes whose work is done first."""

    async def order():
        pool, done, end = server_module._Threads(threads, "x"), [], threading.Event()

        async def run(process, size):
            await pool.run(process, size, int if threads == process == 2 else partial(end.wait, 30))
            done.append(process)

        tasks = []
        for process, size in work:
            tasks.append(asyncio.ensure_future(run(process, size)))
            await asyncio.sleep(0)
        if threads == 2:
            await asyncio.wait(tasks[-2:], timeout=20)
        end.set()  # everybody waits by now
        await asyncio.gather(*tasks)
        pool.executor.shutdown()
        return done

    assert asyncio.run(order())[: len(first)] == first


@pytest.mark.parametrize("when", ["waiting", "granted", "running"])
def test_work_that_is_given_up_keeps_no_thread(when):
    async def give_up():
        pool = server_module._Threads(1, "x")
        first = asyncio.ensure_future(pool.run(1, 0, partial(time.sleep, 0.05)))
        given_up = asyncio.ensure_future(pool.run(2, 0, partial(time.sleep, 0.05)))
        if when == "waiting":
            await asyncio.sleep(0)
            given_up.cancel()
        await first
        await asyncio.sleep(0.01 if when == "running" else 0)
        given_up.cancel()
        with suppress(asyncio.CancelledError):
            await given_up
        result = await asyncio.wait_for(pool.run(3, 0, lambda: "done"), 5)
        assert (pool._free, pool._waiting) == (1, [])
        pool.executor.shutdown()
        return result

    assert asyncio.run(give_up()) == "done"


# Beginning and end


@pytest.mark.slow
def test_sigterm_answers_what_is_under_way(tmp_path):
    path = tmp_path / "socket"
    with toy(path) as process, ThreadPoolExecutor(8) as pool:
        idle = socket.socket(socket.AF_UNIX)
        idle.connect(str(path))
        asked = [pool.submit(ask, str(path), "CHECK SPAMC/1.5\r\n", b"SLEEP pills %d" % i) for i in range(6)]
        time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        assert [each.result()[0]["Decision"] for each in asked] == ["Spam 0.998918"] * 6
        assert process.wait(10) == 0
        with idle:
            assert idle.recv(10) == b""
        _, *lines = process.stderr.read().decode().splitlines()  # no error beside the log
        assert sum(line.startswith("message without Message-ID: spam 0.998918, ") for line in lines) == 6


def test_the_socket_of_a_dead_server_is_replaced_and_a_living_one_refused(tmp_path):
    path = tmp_path / "socket"
    with toy(path) as process:
        refuses("already; stop it first", listen, path)
        assert mail_servers.answers(path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        process.kill()
        process.wait()
        assert path.exists()
        with toy(path):
            assert mail_servers.answers(path)


def test_where_no_socket_can_be(tmp_path):
    (tmp_path / "file").write_text("precious")
    refuses("is not a socket", listen, tmp_path / "file")
    assert (tmp_path / "file").read_text() == "precious"
    refuses("too long for a socket", listen, tmp_path / ("x" * 100))
    refuses("cannot listen at", listen, Path("/proc/nowhere/socket"))
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(InputError, match="cannot listen at"):
        listen_tcp(taken.getsockname()[1])
    with socket.socket(socket.AF_UNIX) as other:  # a living server without our lock
        other.bind(str(tmp_path / "socket"))
        other.listen()
        refuses("a server listens", listen, tmp_path / "socket")


#: What systemd does: the socket is handle 3, and the process is named.
AS_SYSTEMD = """
import os, sys
if sys.argv[1] != "3":
    os.dup2(int(sys.argv[1]), 3)
os.set_inheritable(3, True)
os.environ["LISTEN_PID"] = str(os.getpid())
os.execv(sys.executable, [sys.executable, sys.argv[2]])
"""


def test_systemd_gives_the_socket_and_is_told(tmp_path):
    path, news = tmp_path / "given", tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told, socket.socket(socket.AF_UNIX) as given:
        told.bind(str(news))
        told.settimeout(20)
        given.bind(str(path))
        given.listen()
        waiting = ThreadPoolExecutor(1).submit(ask, str(path), "CHECK SPAMC/1.5\r\n", SPAM, 20)
        process = subprocess.Popen(
            [sys.executable, "-c", AS_SYSTEMD, str(given.fileno()), mail_servers.__file__],
            pass_fds=[given.fileno()],
            env={
                **os.environ,
                "PYTHONPATH": mail_servers.PYTHONPATH,
                "LISTEN_FDS": "1",
                "NOTIFY_SOCKET": str(news),
            },
        )
        try:
            assert told.recv(100) == b"READY=1"
            assert waiting.result()[0]["Decision"] == "Spam 0.998918"
            process.send_signal(signal.SIGTERM)
            assert told.recv(100) == b"STOPPING=1"
            assert process.wait(10) == 0
        finally:
            process.kill()
        assert path.exists()  # it is systemd's


def test_a_message_without_length_is_not_cut(monkeypatch):
    monkeypatch.setattr(spamd, "LARGEST", 4 * server_module._PART)

    async def receive(size):
        ours, theirs = socket.socketpair()
        with ours, theirs, ThreadPoolExecutor(1) as pool:
            client, tested = server_module._Client(theirs), server_module.Server(ToyFilter(), print)
            sent = pool.submit(ours.sendall, b"PROCESS SPAMC/1.2\r\n\r\n" + bytes(size))
            sent.add_done_callback(lambda _: ours.shutdown(socket.SHUT_WR))
            return len((await tested._read(client))[1])

    assert asyncio.run(receive(spamd.LARGEST)) == spamd.LARGEST
    with pytest.raises(spamd.Refused, match="a message of more than"):
        asyncio.run(receive(spamd.LARGEST + 1000))


def test_a_lesson_that_outlasts_the_server_is_answered(monkeypatch, tmp_path):
    monkeypatch.setattr(server_module, "STOP_TIMEOUT", 0.1)

    async def tell():
        tested = server_module.Server(ToyFilter(), print)
        with listen(tmp_path / "socket") as listener, socket.socket(socket.AF_UNIX) as client:
            listener.setblocking(False)
            client.connect(str(tmp_path / "socket"))
            tested._accept(listener)
            client.sendall(request("TELL SPAMC/1.5\r\nMessage-class: spam\r\nSet: local", b"SLEEP"))
            await asyncio.sleep(0.2)
            await tested._finish()
            assert not tested._clients
            return client.recv(1000)

    assert b"DidSet: local" in asyncio.run(tell())


class RefreshedFilter(ToyFilter):
    """A filter that notes its lessons and refreshes, and fails to refresh."""

    def __init__(self):
        super().__init__()
        self.events, self.now = [], 100.0

    def learn(self, data, kind):
        self.events.append("lesson")
        time.sleep(0.02)  # the others arrive
        self.now += 0.02
        return super().learn(data, kind)

    def refresh(self):
        self.events.append("refresh")
        raise ValueError("a surprise")


@pytest.mark.parametrize(("interval", "refreshes"), [(60.0, 1), (0.05, 3), (0.0, 8)])
def test_lessons_that_keep_arriving_are_taken_into_account(monkeypatch, interval, refreshes):
    monkeypatch.setattr(server_module, "REFRESH", interval)
    lines, noted = [], RefreshedFilter()
    tested = server_module.Server(noted, lines.append)
    tested._refreshed = noted.now
    monkeypatch.setattr(server_module, "time", SimpleNamespace(monotonic=lambda: noted.now))
    told = spamd.Request("TELL", 1.5, kind="spam", set=True)

    async def tell():
        with reading_a_line() as (_, client, reading):
            reading.cancel()
            return await asyncio.gather(*(tested._answer(client, told, b"mail %d" % i) for i in range(8)))

    assert all(b"DidSet" in answer for [answer] in asyncio.run(tell()))
    assert noted.events[-1] == "refresh"
    assert noted.events.count("refresh") == refreshes
    failed = [line for line in lines if "learnt as spam" not in line]
    assert failed == ["decisions do not count the last lessons yet: ValueError: a surprise"] * refreshes
    assert sum(line.startswith("message without Message-ID: learnt as spam, ") for line in lines) == 8


def test_the_buffer_of_a_slow_client_is_bounded():
    """Small parts of a line, then many bytes."""

    async def receive():
        with reading_a_line() as (ours, client, reading):
            for part in [b"x" * 10] * 12 + [b"y" * server_module.MAX_LINE]:
                ours.sendall(part)
                await asyncio.sleep(0.01)
            with suppress(BlockingIOError):
                ours.setblocking(False)
                ours.sendall(bytes(8 << 20))
            with pytest.raises(spamd.Refused, match="a line without end"):
                await reading
            return len(client.buffer)

    assert asyncio.run(receive()) <= 2 * server_module.MAX_LINE
