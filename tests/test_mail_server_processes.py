"""The processes that read messages for the server."""

import os
import shutil
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from mail_servers import HAM, ROOT, SPAM, UNSURE, process, until
from mails import mail
from refusals import refuses

from textsvm.apps.mail import server as server_module
from textsvm.apps.mail.client import ask
from textsvm.apps.mail.filter import Filter
from textsvm.apps.mail.message import read_message
from textsvm.apps.mail.raw_message import RawMessage
from textsvm.apps.mail.server import MessageReader
from textsvm.apps.mail.spamd import CHECKS

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs fork and /proc")
HTML = b"Content-Type: text/html; charset=iso-8859-2\n\n<p>\xe1</p>" * 9


def children(number):
    """Ids of the children of a process."""
    tasks = Path(f"/proc/{number}/task").iterdir()
    return [int(each) for task in tasks for each in (task / "children").read_text().split()]


@pytest.fixture
def reader():
    """A reader, and the id of the process that forks the others."""
    before = set(children(os.getpid()))
    warnings = []
    opened = MessageReader(warnings.append)
    opened.warnings = warnings
    (parent,) = set(children(os.getpid())) - before
    yield opened, parent
    opened._control.close()
    with suppress(ChildProcessError):
        os.waitpid(parent, 0)


def test_messages_are_as_this_process_reads_them(reader):
    part = b"\n--b\nContent-Type: text/html\n\n<p>offer</p>" + b"<b>x" * 20 + b"x " * 4000
    multipart = b"Subject: parts\nContent-Type: multipart/mixed; boundary=b\n"
    large = [
        HTML + b"\n--x\n" * 300_000,
        multipart + part * 150,
        multipart + b"\n" + part * 300 + b"\n--b--\n" + b"x" * (2 << 20),
        b"Received: x\n" * 20_000 + multipart + part * 200,
        b"A: b\n--b: c\n" * 15_000 + multipart + part * 200,
        b"From x\nno header" + b"x" * (2 << 20),
        b"\n--b\n" + part * 200,
        bytes(3 << 20),
    ]
    small = [SPAM, HAM, UNSURE, b"", b"\n", b"no header", b"A: b\r\n\r\nx", b"\0\xff\n\n", HTML]
    assert reader[0].read(RawMessage(SPAM)) == read_message(SPAM)
    for data in small + large:
        assert reader[0].read(data) == read_message(data)
    until(lambda: not children(reader[1]))  # the process of a large message ends


def test_threads_have_processes_of_their_priority(reader):
    with ThreadPoolExecutor(1, "large") as large, ThreadPoolExecutor(1, "small") as small:
        for pool in (large, small):
            assert pool.submit(reader[0].read, SPAM).result() == read_message(SPAM)
        nice = os.nice(0)
        priorities = sorted(os.getpriority(os.PRIO_PROCESS, each) - nice for each in children(reader[1]))
        assert priorities == [0, min(10, 19 - nice)]  # 19 is the lowest priority
    until(lambda: not children(reader[1]))  # they end with the threads


def test_a_process_that_ends_is_replaced(reader):
    assert reader[0].read(SPAM)
    for number in (signal.SIGTERM, signal.SIGINT):  # sent to all processes of a server that ends
        os.kill(children(reader[1])[0], number)
    assert reader[0].read(SPAM)
    os.kill(children(reader[1])[0], signal.SIGKILL)
    refuses("try again", reader[0].read, SPAM)
    assert reader[0].read(HAM) == read_message(HAM)


def test_without_a_parent_of_processes_the_thread_reads_and_warns_once(reader):
    os.kill(reader[1], signal.SIGKILL)
    os.waitpid(reader[1], 0)
    for data in (SPAM, HAM):
        assert reader[0].read(data) == read_message(data)
    (warning,) = reader[0].warnings
    assert warning.startswith("the server itself reads messages")


def test_a_message_that_takes_too_long_ends_its_process(set_values):
    def forever(data):
        while b"forever" in data:
            pass
        return read_message(data)

    set_values(server_module, CPU_LIMIT=0.1, read_message=forever)
    reader = MessageReader(print)
    clock = time.monotonic()
    refuses("was not processed", reader.read, b"forever")
    assert time.monotonic() - clock < 5
    assert reader.read(SPAM) == read_message(SPAM)
    reader._control.close()


def test_other_threads_run_meanwhile(reader):
    """A message of 200 ms holds the lock of the interpreter for a small part of this time."""
    data = b"Subject: x\nContent-Type: text/html\n\n" + b"<b>x" * 60_000
    with ThreadPoolExecutor(1, "large") as pool:
        pool.submit(reader[0].read, SPAM).result()
        clock = time.thread_time()
        used = pool.submit(lambda: (reader[0].read(data), time.thread_time())[1]).result()
    assert used - clock < 0.05


UPGRADE = """
import os, sys
sys.argv = ["textsvm", "mail", "serve", "--store", sys.argv[1]]
from textsvm.cli import main
main()
"""


@pytest.mark.slow
def test_a_server_whose_package_is_removed_goes_on(tmp_path):
    """An upgrade replaces the files of a running server."""
    copy, store = tmp_path / "copy", tmp_path / "store"
    shutil.copytree(ROOT / "textsvm", copy / "textsvm")
    env = {"PYTHONPATH": str(copy), "PYTHONSAFEPATH": "1"}
    with process("-c", UPGRADE, store, socket=store / "socket", env=env) as server:
        shutil.rmtree(copy)
        path = str(store / "socket")
        for number in range(4):
            for kind in ("spam", "ham"):
                lesson = f"TELL SPAMC/1.5\r\nMessage-class: {kind}\r\nSet: local\r\n"
                assert "DidSet" in ask(path, lesson, mail(kind, number), 60)[0]
        for verb in CHECKS:
            assert "Spam" in ask(path, f"{verb} SPAMC/1.5\r\n", mail("spam", 9), 60)[0]
        charsets = b"Content-Type: text/html; charset=%s\n\n<p>caf\xe9 =?%s?B?w6k=?=</p>"
        for charset in (b"koi8-r", b"utf-7", b"gb18030", b"iso-2022-jp", b"nonsense"):
            assert ask(path, "CHECK SPAMC/1.5\r\n", charsets % (charset, charset), 60)[0]
        assert "DidRemove" in ask(path, "TELL SPAMC/1.5\r\nRemove: local\r\n", mail("spam", 0), 60)[0]
        time.sleep(0.2)
        server.terminate()
        assert server.wait(30) == 0
        assert b"Traceback" not in server.stderr.read()
    with Filter(store) as opened:
        assert opened.lessons.counts() == {"spam": 3, "ham": 4}
