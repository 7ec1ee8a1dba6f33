"""The filter between mail servers: content filters by SMTP and LMTP, and as a milter."""

import asyncio
import fcntl
import os
import re
import shutil
import smtplib
import socket
import struct
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from types import SimpleNamespace

import pytest
from mail_servers import HAM, PYTHONPATH, ROOT, SPAM, UNSURE, VERSION, free_port, toy, until

from textsvm.apps.mail import mail_servers
from textsvm.apps.mail.client import FORGET, LEARN, Trouble, ask

pytestmark = pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="needs Unix sockets")


class Next:
    """The next mail server, which keeps what it is given."""

    def __init__(self):
        self.kept = []

    async def handle_RCPT(self, server, session, envelope, address, options):
        if address.startswith("nobody"):
            return "550 5.1.1 no such user"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        if b"full" in envelope.content:
            return "452 4.3.1 the disk is full"
        self.kept.append((envelope.mail_from, envelope.rcpt_tos, envelope.content))
        self.options = envelope.mail_options
        return "250 2.0.0 kept"


@pytest.fixture(params=["smtp", "lmtp"])
def between(request, tmp_path):
    """A connection to the filter, and what the next server has."""
    pytest.importorskip("aiosmtpd")
    lmtp, kept, port = request.param == "lmtp", Next(), free_port()
    connect = smtplib.LMTP if lmtp else smtplib.SMTP
    with (
        listening(lmtp, kept) as next,
        toy(tmp_path / "socket", f"{request.param}={port},127.0.0.1:{next.sockets[0].getsockname()[1]}"),
        connect("127.0.0.1", port, timeout=20) as line,
    ):
        yield line, kept, next.close


@contextmanager
def listening(lmtp, handler):
    """A mail server in a thread."""
    from aiosmtpd.lmtp import LMTP
    from aiosmtpd.smtp import SMTP

    loop = asyncio.new_event_loop()

    class Protocol(LMTP if lmtp else SMTP):
        line_length_limit = 1 << 20

    def make():
        return Protocol(handler, enable_SMTPUTF8=True, hostname="localhost", loop=loop)

    server = loop.run_until_complete(loop.create_server(make, "127.0.0.1", 0))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        server.close()
        loop.close()


def crlf(data):
    return data.replace(b"\n", b"\r\n")


def test_mail_goes_on_with_the_decision(between):
    line, next, _ = between
    odd = b"Subject: odd\n\n.dot\n" + b"x" * 5000 + b"\n\xff\x00 Grus\xc3\xb6\n"
    for data in (SPAM, HAM, odd):
        assert line.sendmail("a@example.org", ["b@example.org"], crlf(data)) == {}
    decided = b"X-Textsvm: Spam, score=0.998918, version=" + VERSION + b"\nX-Spam-Flag: YES\n\n"
    assert next.kept[0] == ("a@example.org", ["b@example.org"], crlf(SPAM.replace(b"\n\n", b"\n" + decided)))
    assert b"X-Textsvm: Ham" in next.kept[1][2]
    assert next.kept[2][2].endswith(crlf(odd.partition(b"\n\n")[2]))
    assert line.sendmail("", ["b@example.org"], crlf(UNSURE)) == {}
    assert next.kept[3][0] in ("", "<>", None)


def data_answers(line, recipients, data, options=()):
    """The answers to DATA: one for each recipient by LMTP."""
    line.ehlo_or_helo_if_needed()
    line.mail("a@example.org", options)
    for each in recipients:
        line.rcpt(each)
    assert line.docmd("DATA")[0] == 354
    line.send(data + b"\r\n.\r\n")
    count = len(recipients) if isinstance(line, smtplib.LMTP) else 1
    return [line.getreply()[0] for _ in range(count)]


def test_what_the_next_server_refuses_is_refused(between):
    line, next, _ = between
    lmtp = isinstance(line, smtplib.LMTP)
    assert data_answers(line, ["b@example.org"], b"Subject: full\r\n\r\n") == [452]
    assert data_answers(line, ["nobody@example.org"], crlf(HAM)) == [550]
    found = data_answers(line, ["b@example.org", "nobody@example.org"], crlf(HAM))
    assert found == ([250, 550] if lmtp else [250])
    assert len(next.kept) == 1


def test_smtp_takes_one_recipient_for_each_message(between):
    """It has one answer: after a refusal, those who have it would get it again, or the sender a bounce."""
    line, next, _ = between
    if isinstance(line, smtplib.LMTP):
        assert data_answers(line, ["b@example.org", "c@example.org"], crlf(HAM)) == [250, 250]
        assert [kept[1] for kept in next.kept] == [["b@example.org"], ["c@example.org"]]
        return
    refused = line.sendmail("a@example.org", ["b@example.org", "c@example.org"], crlf(HAM))
    assert [*refused] == ["c@example.org"]
    assert refused["c@example.org"][0] == 452
    assert [kept[1] for kept in next.kept] == [["b@example.org"]]
    assert line.sendmail("a@example.org", [*refused], crlf(HAM)) == {}
    assert [kept[1] for kept in next.kept] == [["b@example.org"], ["c@example.org"]]


def test_a_small_message_sets_no_limit_for_the_next(between):
    """Postfix sends several messages by one connection, each with its size."""
    line, next, _ = between
    for _ in range(2):
        assert line.sendmail("a@example.org", ["b@example.org"], crlf(HAM), ["SIZE=1000"]) == {}
        assert "SIZE=1000" not in next.options  # the message has further fields
        assert line.mail("a@example.org", ["SIZE=10000000"])[0] == 250
        line.rset()
    assert len(next.kept) == 2


@pytest.mark.parametrize("size", ["SIZE=1000", "SIZE=0", "SIZE=900000"])
def test_a_message_that_is_larger_than_its_size_is_handed_on(size, between):
    """RFC 1870, 6.3, permits it, and Postfix takes it; 552 would return it to its sender for good."""
    line, next, _ = between
    large = crlf(HAM) + b"0123456789\r\n" * 450_000
    assert line.sendmail("a@example.org", ["b@example.org"], large, [size]) == {}
    assert len(next.kept[0][2]) > len(large)


def test_a_milter_client_that_stops_within_a_large_message_ends_its_turn(monkeypatch, tmp_path):
    monkeypatch.setattr(mail_servers, "CLIENT_TIMEOUT", 0.3)
    part = b"B" + b"x" * 1_000_000

    async def stop_within():
        server = SimpleNamespace(whole_large_message=asyncio.Lock())
        close = await mail_servers.milter(str(tmp_path / "milter"), server)
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "milter"))
        for _ in range(3):
            writer.write(len(part).to_bytes(4, "big") + part)
            await writer.drain()
        async with asyncio.timeout(20):
            while not server.whole_large_message.locked():
                await asyncio.sleep(0.01)
            await server.whole_large_message.acquire()
            await reader.read()  # the connection is closed
        writer.close()
        await close()

    asyncio.run(stop_within())


@pytest.mark.parametrize("name", ["a..b", "x" * 70])
def test_hosts_that_no_name_server_knows(name):
    """Python raises UnicodeError for them."""
    mail_servers.check_addresses(f"{name}:10026", 10025, None, None, ["10025"])
    mail_servers.check_addresses(f"{name}:10025", 10025, None, None, ["10025"])


def test_nothing_is_taken_that_cannot_be_handed_on(between):
    line, next, close = between
    close()
    assert data_answers(line, ["b@example.org", "c@example.org"], crlf(HAM))[0] == 451
    line.rset()
    assert data_answers(line, ["b@example.org"], b"Subject: x\r\n\r\nBREAK") == [451]
    assert next.kept == []


@pytest.mark.parametrize("protocol", ["smtp", "lmtp"])
def test_the_end_waits_for_the_answer_to_a_message_that_went_on(protocol, tmp_path):
    """The sender would send it again; a message that comes during the end goes nowhere."""
    pytest.importorskip("aiosmtpd")
    taken, go, lmtp, port = threading.Event(), threading.Event(), protocol == "lmtp", free_port()
    connect = smtplib.LMTP if lmtp else smtplib.SMTP

    class Slow(Next):
        async def handle_DATA(self, server, session, envelope):
            taken.set()
            await asyncio.to_thread(go.wait, 20)
            return await super().handle_DATA(server, session, envelope)

    kept = Slow()
    with (
        listening(lmtp, kept) as next,
        toy(tmp_path / "socket", f"{protocol}={port},127.0.0.1:{next.sockets[0].getsockname()[1]}") as server,
        connect("127.0.0.1", port, timeout=20) as first, connect("127.0.0.1", port, timeout=20) as second,
        ThreadPoolExecutor() as pool,
    ):  # fmt: skip
        second.ehlo_or_helo_if_needed()
        answer = pool.submit(data_answers, first, ["b@example.org"], crlf(HAM))
        assert taken.wait(20)
        server.terminate()
        until(lambda: refuses(port))
        assert data_answers(second, ["c@example.org"], crlf(SPAM)) == [451]
        go.set()
        assert answer.result(20) == [250]
        assert server.wait(20) == 0
    assert [recipients for _, recipients, _ in kept.kept] == [["b@example.org"]]


@pytest.mark.parametrize("protocol", ["smtp", "lmtp"])
def test_large_messages_take_turns(protocol, tmp_path):
    """Small ones wait for none of them; a large message does, whatever SIZE its sender has said."""
    pytest.importorskip("aiosmtpd")
    taken, go, lmtp, port = threading.Event(), threading.Event(), protocol == "lmtp", free_port()
    connect = smtplib.LMTP if lmtp else smtplib.SMTP
    large = crlf(HAM) + b"0123456789\r\n" * 100_000

    class Slow(Next):
        n_large = 0

        async def handle_DATA(self, server, session, envelope):
            if len(envelope.content) > 1_000_000:
                self.n_large += 1
                taken.set()
                await asyncio.to_thread(go.wait, 20)
            return await super().handle_DATA(server, session, envelope)

    def send(data):
        with connect("127.0.0.1", port, timeout=20) as line:
            return line.sendmail("a@example.org", ["b@example.org"], data)

    def answers(data, size=""):
        with connect("127.0.0.1", port, timeout=20) as line:
            return data_answers(line, ["b@example.org"], data, [f"SIZE={size}"] * bool(size))

    kept = Slow()
    with (
        listening(lmtp, kept) as next,
        toy(tmp_path / "socket", f"{protocol}={port},127.0.0.1:{next.sockets[0].getsockname()[1]}"),
        ThreadPoolExecutor() as pool,
    ):
        first = pool.submit(send, large)
        assert taken.wait(20)
        waiting = [pool.submit(send, large), *(pool.submit(answers, large, size) for size in ("", "1000"))]
        assert answers(crlf(SPAM)) == [250]
        assert [send(crlf(UNSURE)) for _ in range(20)] == [{}] * 20
        assert len(kept.kept) == 21
        assert kept.n_large == 1
        go.set()
        assert [message.result(20) for message in (first, *waiting)] == [{}, {}, [250], [250]]
        assert len(kept.kept) == 25


@pytest.mark.slow
def test_many_large_messages_at_once_have_their_decision(tmp_path):
    """They take turns: before, those beyond eight passed the milter without one."""
    path = str(tmp_path / "milter")

    def message(number):
        mta = Mta(path)
        mta.connect()
        if number == 0:  # its server goes in the middle
            for _ in range(30):
                mta.send(b"B", b"0123456789\r\n" * 5000)
            mta.line.close()
            return 2
        try:
            body = b"SLEEP pills\r\n" + b"0123456789\r\n" * 100_000
            return len(mta.message([(b"Subject", b"offer")], body)[0])
        finally:
            mta.line.close()

    with toy(tmp_path / "socket", f"milter={path}"), ThreadPoolExecutor(12) as pool:
        until(lambda: not connection_refused(path))
        assert [*pool.map(message, range(12))] == [2] * 12


def refuses(port):
    try:
        socket.create_connection(("127.0.0.1", port), 5).close()
    except ConnectionRefusedError:
        return True
    return False


# Milter: the mail server's side of Sendmail's protocol, as far as it takes.

_QUIT = b"Q"


class Mta:
    """A mail server that asks a milter about one message after another."""

    def __init__(self, path):
        self.line = socket.socket(socket.AF_UNIX)
        self.line.settimeout(20)
        self.line.connect(path)
        self.send(b"O", struct.pack("!III", 6, 0x1FF, 0x1FFFFF))
        self.protocol = struct.unpack("!III", self.receive()[1][:12])[2]

    def send(self, command, data=b""):
        self.line.sendall(struct.pack("!I", len(data) + 1) + command + data)

    def receive(self):
        packet = self._exactly(struct.unpack("!I", self._exactly(4))[0])
        return packet[:1], packet[1:]

    def _exactly(self, size):
        found = b""
        while len(found) < size:
            part = self.line.recv(size - len(found))
            assert part, "the milter has gone"
            found += part
        return found

    def ask(self, command, data, no_step, no_reply):
        """One step of SMTP, where the milter wants it; its answer where it gives one."""
        if not self.protocol & no_step:
            self.send(command, data)
            if not self.protocol & no_reply:
                assert self.receive()[0] in (b"c", b"s")

    def connect(self):
        self.ask(b"C", b"host\x004\x00\x19127.0.0.1\x00", 0x1, 0x1000)

    def message(self, fields, body, queue_id=None):
        """What the milter wants to be changed, and its last word."""
        self.ask(b"H", b"host\0", 0x2, 0x2000)
        self.ask(b"M", b"<a@example.org>\0", 0x4, 0x4000)
        self.ask(b"R", b"<b@example.org>\0", 0x8, 0x8000)
        self.ask(b"T", b"", 0x200, 0x10000)
        for name, value in fields:
            self.ask(b"L", name + b"\0" + value + b"\0", 0x20, 0x80)
        self.ask(b"N", b"", 0x40, 0x40000)
        for start in range(0, len(body), 65535):
            self.ask(b"B", body[start : start + 65535], 0x10, 0x80000)
        if queue_id:
            self.send(b"D", b"Ej\0host\0i\0" + queue_id + b"\0v\0i\0")
        self.send(b"E")
        changes = []
        while (found := self.receive())[0] in (b"h", b"i", b"m"):
            changes.append(found)
        self.send(b"A")  # Postfix says so after each message
        return changes, found[0]


def test_a_line_is_logged_for_each_message(tmp_path):
    """Its queue id or Message-ID, decision and time, an answer of the next server; no address, no subject."""
    pytest.importorskip("aiosmtpd")

    class Refusing(Next):
        async def handle_RCPT(self, server, session, envelope, address, options):
            return f"550 5.1.1 <{address}>: no such user"

    port, path = free_port(), str(tmp_path / "milter")
    odd = b"From: a@example.org\nMESSAGE-ID:\n <\x1b[31m\n\n"
    with (
        listening(False, Refusing()) as next,
        toy(tmp_path / "socket", f"milter={path}",
            f"smtp={port},127.0.0.1:{(back := next.sockets[0].getsockname()[1])}") as server,
    ):  # fmt: skip
        until(lambda: not connection_refused(path))
        mta = Mta(path)
        mta.connect()
        mta.message([(b"Subject", b"offer")], b"Cheap pills\r\n", b"4F1A")
        mta.message([(b"Subject", b"offer"), (b"Message-Id", b"<1@x>")], b"unsubscribe meeting\r\n")
        mta.message([], b"BREAK", b"4F1B")
        mta.line.close()
        with smtplib.SMTP("127.0.0.1", port, timeout=20) as line:
            data_answers(line, ["b@example.org"], b"Message-ID: <2@x> y\r\n\r\nBREAK")
            data_answers(line, ["b@example.org"], b"Message-ID: <2@x> y\r\n\r\n")
            next.close()
            data_answers(line, ["b@example.org"], odd)
        socket_path = str(tmp_path / "socket")
        ask(socket_path, "CHECK SPAMC/1.5\r\n", b"Subject: a\n\nMessage-ID: <not@mine>\n")
        ask(socket_path, LEARN.format("spam"), b"Message-ID: <" + b"3" * 200 + b">\n\n")
        ask(socket_path, FORGET, b"Message-ID: <3>\n\n")
        with suppress(Trouble):
            ask(socket_path, "EGGS SPAMC/1.5\r\n", b"")
        server.terminate()
        _, _, *lines = server.stderr.read().decode().splitlines()
    times = re.compile(r", \d+ ms$")
    assert sum(times.search(line) is not None for line in lines) == 7
    no_id = "message without Message-ID: "
    division = "ZeroDivisionError('by design')"
    assert [times.sub("", line) for line in lines] == [
        "4F1A: spam 0.998918",
        "<1@x>: ham 0.010000 newsletter",
        f"4F1B: passes without a decision: {division}",
        f"<2@x>: sent back: 451 4.3.0 {division}",
        "<2@x>: unsure 0.500000",
        f"<2@x>: sent back: 550 5.1.1 <(address)>: no such user (127.0.0.1:{back})",
        "<: unsure 0.500000",
        f"<: sent back: 451 4.3.0 127.0.0.1:{back}: Connection refused",
        f"{no_id}unsure 0.500000",
        f"<{'3' * 99}: learnt as spam",
        "<3>: forgotten (no change)",
        f"{no_id}refused: (unknown verb)",
    ]


def test_nobody_need_read_the_log(tmp_path):
    """A pipe that is full holds up no mail."""
    with toy(tmp_path / "socket") as server:
        fcntl.fcntl(server.stderr, fcntl.F_SETPIPE_SZ, 4096)
        for _ in range(100):
            ask(str(tmp_path / "socket"), "CHECK SPAMC/1.5\r\n", b"Message-ID: <" + b"y" * 90 + b">\n\n", 5)


@pytest.fixture
def mta(tmp_path):
    path = str(tmp_path / "milter")
    with toy(tmp_path / "socket", f"milter={path}"):
        until(lambda: not connection_refused(path))
        found = Mta(path)
        found.connect()
        yield found
        found.send(_QUIT)
        found.line.close()


def connection_refused(path):
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(path) != 0


def added(name, value):
    return b"h", name + b"\0" + value + b"\0"


def test_a_milter_adds_the_decision_and_removes_forged_ones(mta):
    decided = added(b"X-Textsvm", b"Spam, score=0.998918, version=" + VERSION)
    changes, last = mta.message([(b"Subject", b"offer")], b"Cheap pills\r\n" * 20_000)
    assert (changes, last) == ([decided, added(b"X-Spam-Flag", b"YES")], b"a")
    fields = [(b"X-Textsvm", b"Ham"), (b"Subject", b"m"), (b"x-textsvm", b"Spam"), (b"X-SPAM-FLAG", b"NO")]
    changes, last = mta.message(fields, b"the meeting\r\n")
    assert last == b"a"
    assert [kind for kind, _ in changes] == [b"m", b"m", b"m", b"h"]
    # The last first: the others keep their numbers.
    numbers = [(data[3], data[4:]) for _, data in changes[:3]]
    assert numbers == [(1, b"X-SPAM-FLAG\0\0"), (2, b"x-textsvm\0\0"), (1, b"X-Textsvm\0\0")]
    assert changes[3] == added(b"X-Textsvm", b"Ham, score=0.010000, version=" + VERSION)


def test_a_milter_lets_mail_pass_that_it_cannot_decide_on(mta):
    assert mta.message([(b"Subject", b"x")], b"BREAK") == ([], b"a")
    assert mta.message([(b"Subject", b"\xff\xfe")], b"\0meeting")[0][0][0] == b"h"


@pytest.mark.parametrize(
    "junk", [b"GET / HTTP/1.0\r\n\r\n", b"\0\0\0\1\xff", b"\0\0\0\2E\0", b"\0\0\0\rO" + b"\0" * 12]
)
def test_a_milter_outlives_who_does_not_speak_its_protocol(mta, junk):
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(mta.line.getpeername())
        line.sendall(junk)
        line.settimeout(0.5)
        with suppress(OSError):
            line.recv(100)
    second = Mta(mta.line.getpeername())
    for each in (mta, second):
        if each is second:
            each.connect()
        assert each.message([(b"Subject", b"offer")], b"Cheap pills\r\n")[1] == b"a"
    second.line.close()


def test_a_milter_answers_about_the_message_in_progress_before_it_ends(tmp_path):
    """The others wait for nothing, and no further message begins."""
    path = str(tmp_path / "milter")
    with toy(tmp_path / "socket", f"milter={path}") as server, ThreadPoolExecutor() as pool:
        until(lambda: not connection_refused(path))
        busy, idle = Mta(path), Mta(path)
        for mta in (busy, idle):
            mta.connect()
        idle.message([(b"Subject", b"offer")], b"Cheap pills\r\n")
        answer = pool.submit(busy.message, [(b"Subject", b"offer")], b"SLEEP pills\r\n")
        time.sleep(0.25)
        server.terminate()
        until(lambda: connection_refused(path))
        with pytest.raises((AssertionError, OSError)):
            idle.message([(b"Subject", b"offer")], b"Cheap pills\r\n")
        assert [kind for kind, _ in answer.result(20)[0]] == [b"h", b"h"]
        assert answer.result()[1] == b"a"
        assert server.wait(20) == 0
        for mta in (busy, idle):
            mta.line.close()
    assert connection_refused(path)


def test_a_milter_that_ends_leaves_the_socket_of_the_next(tmp_path):
    """At a restart the next server may listen while the last answers about the message in progress."""
    path = str(tmp_path / "milter")
    with toy(tmp_path / "socket", f"milter={path}") as last, ThreadPoolExecutor() as pool:
        until(lambda: not connection_refused(path))
        busy = Mta(path)
        busy.connect()
        busy.send(b"L", b"Subject\0offer\0")
        time.sleep(0.2)
        last.terminate()
        until(lambda: not os.path.exists(path))
        with toy(tmp_path / "next", f"milter={path}"):
            until(lambda: not connection_refused(path))
            answer = pool.submit(busy.message, [(b"Subject", b"offer")], b"Cheap pills\r\n")
            assert [kind for kind, _ in answer.result(20)[0]] == [b"h", b"h"]
            assert last.wait(20) == 0
            mta = Mta(path)
            mta.connect()
            assert mta.message([(b"Subject", b"offer")], b"Cheap pills\r\n")[1] == b"a"
            mta.line.close()
        busy.line.close()


def test_a_milter_takes_the_socket_of_a_dead_server_and_of_no_other(mta, tmp_path, write):
    path, run = mta.line.getpeername(), [sys.executable, str(ROOT / "tests/mail_servers.py")]
    environment = {**os.environ, "PYTHONPATH": PYTHONPATH}

    def refusal(address):
        command = [*run, str(tmp_path / "second"), f"milter={address}"]
        result = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=30)
        assert result.returncode == 1
        return result.stderr.splitlines()[-1]

    for address in (path, str(tmp_path / "socket")):
        assert refusal(address).endswith(
            f"a server listens at {address} already; stop it first, or give another path"
        )
        assert not connection_refused(address)
    assert "is not a socket" in refusal(write("file", "precious"))
    assert mta.message([(b"Subject", b"offer")], b"Cheap pills\r\n")[1] == b"a"
    dead = str(tmp_path / "dead")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(dead)
    with toy(tmp_path / "third", f"milter={dead}"):
        until(lambda: not connection_refused(dead))


@pytest.mark.skipif(shutil.which("miltertest") is None, reason="needs miltertest (Debian: miltertest)")
def test_miltertest(tmp_path):
    """The test client of the OpenDKIM project, which is written on Sendmail's protocol independently."""
    path = str(tmp_path / "milter")
    script = tmp_path / "script.lua"
    script.write_text(
        f"""
conn = mt.connect("unix:{path}")
if conn == nil then error("no connection") end
if mt.conninfo(conn, "localhost", "127.0.0.1") ~= nil then error("connect") end
if mt.mailfrom(conn, "a@example.org") ~= nil then error("mail") end
if mt.header(conn, "Subject", "offer") ~= nil then error("header") end
if mt.eoh(conn) ~= nil then error("end of header") end
if mt.bodystring(conn, "Cheap pills\\r\\n") ~= nil then error("body") end
if mt.eom(conn) ~= nil then error("end of message") end
if not mt.eom_check(conn, MT_HDRADD, "X-Textsvm") then error("nothing was added") end
if mt.getreply(conn) ~= SMFIR_ACCEPT then error("not accepted") end
mt.disconnect(conn)
"""
    )
    with toy(tmp_path / "socket", f"milter={path}"):
        until(lambda: not connection_refused(path))
        found = subprocess.run(["miltertest", "-vvv", "-s", str(script)], capture_output=True, timeout=30)
    assert found.returncode == 0, (found.stdout + found.stderr).decode()
