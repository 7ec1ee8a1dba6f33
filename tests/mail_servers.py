"""Servers of mail for tests, in processes of their own; as a program, one with a filter of a few lines."""

import os
import signal
import socket as socketlib
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import textsvm
from textsvm.apps.mail.decision import Decision

ROOT = Path(__file__).resolve().parent.parent
PYTHONPATH = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
VERSION = textsvm.__version__.encode()
HAM = b"From: a@example.org\nSubject: minutes\n\nSee you at the meeting.\n"
SPAM = b"From: b@example.com\nSubject: offer\n\nCheap pills here.\n"
NEWSLETTER = HAM.replace(b"meeting.", b"meeting. unsubscribe")
UNSURE = b"From: c@example.net\nSubject: hm\n\nWho knows.\n"


class ToyFilter:
    """Spam is about pills and ham about meetings; it keeps its lessons in a list."""

    def __init__(self):
        self.lessons = {}

    def classify(self, data):
        data = getattr(data, "data", data)  # of a RawMessage
        if b"BREAK" in data:
            raise ZeroDivisionError("by design")
        if b"SLEEP" in data:
            time.sleep(0.5)
        if self._digest(data) in self.lessons:
            known = {"spam": Decision("spam", 0.999, 3.0), "ham": Decision("ham", 0.001, -3.0)}
            return known[self.lessons[self._digest(data)]]
        if b"pills" in data:
            return Decision("spam", 0.998918, 2.0)
        if b"unsubscribe" in data:
            return Decision("ham", 0.01, -2.0, "newsletter", 0.98)
        return Decision("ham", 0.01, -2.0) if b"meeting" in data else Decision("unsure", 0.5, 0.0)

    def reasons(self, data, most=10):
        return [("pills", 1.5), ("\x1bmeet", -0.5)]

    def learn(self, data, kind):
        if b"SLEEP" in data:
            time.sleep(0.5)
        if data.startswith(b"WAIT "):
            begun, end = map(Path, data.decode().split()[1:3])
            begun.touch()
            until(end.exists)
        changed = self.lessons.get(self._digest(data)) != kind
        self.lessons[self._digest(data)] = kind
        return changed

    def unlearn(self, data):
        return self.lessons.pop(self._digest(data), None) is not None

    @staticmethod
    def _digest(data):
        """The body, if there is one: delivery changes the header."""
        return data[:10_000].replace(b"\r", b"").partition(b"\n\n")[2].strip() or data

    def refresh(self):
        pass

    close = refresh


@contextmanager
def process(*command, socket, env=None):
    """A server until the end of the block; ready when it begins."""
    started = subprocess.Popen(
        [sys.executable, *map(str, command)],
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": PYTHONPATH, **(env or {})},
    )
    try:
        until(lambda: started.poll() is not None or answers(socket))
        assert started.poll() is None, started.stderr.read().decode()
        yield started
    finally:
        if started.poll() is None:
            started.send_signal(signal.SIGTERM)
        try:
            started.wait(20)
        finally:
            started.kill()
            started.stderr.close()


def toy(socket, *faces, **more):
    """A server with a toy filter."""
    return process(__file__, socket, *faces, socket=socket, **more)


def free_port():
    """A port of this machine that nobody listens at."""
    with socketlib.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


def answers(socket):
    """Whether a server listens there."""
    from textsvm.apps.mail.client import Trouble, ask

    try:
        ask(str(socket), "CHECK SPAMC/1.5\r\n", HAM, 5)
    except Trouble:
        return False
    return True


def until(condition, seconds=20):
    """Wait for a condition."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


if __name__ == "__main__":
    from functools import partial

    from textsvm.apps.mail.mail_servers import content_filter, milter
    from textsvm.apps.mail.server import listen, listen_tcp, log, passed_sockets, serve

    sockets, faces = passed_sockets() or [listen(Path(sys.argv[1]))], []
    for word in sys.argv[2:]:
        what, _, where = word.partition("=")
        if what == "tcp":
            sockets.append(listen_tcp(int(where)))
        elif what == "milter":
            faces.append(partial(milter, where))
        else:
            port, _, next = where.partition(",")
            faces.append(partial(content_filter, int(port), next, what == "lmtp"))
    serve(ToyFilter(), sockets, log, faces)
