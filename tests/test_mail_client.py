"""textsvm-mail-client: its answers, and that no mail is lost or changed whatever happens to the server."""

import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import pytest
from mail_servers import HAM, ROOT, SPAM, UNSURE, ToyFilter, toy

from textsvm.apps.mail import client
from textsvm.apps.mail.client import Trouble, ask, socket_path, store_folder
from textsvm.apps.mail.raw_message import marked

pytestmark = pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="needs Unix sockets")
MESSAGES = [
    SPAM,
    HAM.replace(b"\n", b"\r\n"),
    b"",
    b"\n",
    b"no header at all, no end of line",
    b"From someone Mon Jan  1 00:00:00 2026\nSubject: in an mbox\n\nx",
    b"Subject: \xff\x00\n\n\x00\x01\xfe\r\r\n\n",
    b"X-Textsvm: Ham, score=0\nX-Spam-Flag:\n NO\nSubject: forged\n\nbody\n",
    b"Subject: no body",
    b"Subject: large\n\n" + bytes(range(256)) * 3000,
]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    path = tmp_path_factory.mktemp("mail") / "socket"
    with toy(path):
        yield str(path)


CLIENT = [sys.executable, "-m", "textsvm.apps.mail.client"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def run(*arguments, server=None, data=SPAM):
    """The client as a process; code, stdout and stderr."""
    command = [*CLIENT, *(["--socket", server] if server else []), *arguments]
    found = subprocess.run(command, input=data, capture_output=True, timeout=60, env=ENVIRONMENT)
    return found.returncode, found.stdout, found.stderr.decode()


@contextmanager
def listening(path, answer):
    """A server that sends these bytes to who connects, and hangs up; with None it sends nothing and stays."""
    with socket.socket(socket.AF_UNIX) as face:
        face.bind(str(path))
        face.listen()
        open_lines = []

        def serve():
            while True:
                try:
                    line, _ = face.accept()
                except OSError:
                    return
                open_lines.append(line)
                if answer is not None:
                    line.recv(1 << 20)
                    line.sendall(answer)
                    line.close()

        threading.Thread(target=serve, daemon=True).start()
        try:
            yield str(path)
        finally:
            face.shutdown(socket.SHUT_RDWR)
            for line in open_lines:
                line.close()


@pytest.mark.parametrize(
    ("data", "code", "terse"), [(SPAM, 0, "S 0.998918"), (HAM, 1, "H 0.010000"), (UNSURE, 2, "U 0.500000")]
)
def test_exit_codes(server, data, code, terse):
    assert run(server=server, data=data) == (code, b"", "")
    assert run("classify", "-t", server=server, data=data) == (code, terse.encode() + b"\n", "")
    assert run("-p", "-e", "-t", server=server, data=data)[::2] == (0, terse + "\n")


@pytest.mark.parametrize("data", MESSAGES, ids=range(len(MESSAGES)))
def test_a_message_passes_with_the_decision_and_no_other_change(server, data, tmp_path):
    assert run("-e", server=server, data=data)[:2] == (0, b"")
    code, out, _ = run("-p", "-e", server=server, data=data)
    assert (code, out) == (0, marked(data, ToyFilter().classify(data)))
    code, out, err = run("-p", "-e", server=str(tmp_path / "none"), data=data)
    assert (code, out) == (3, data)
    assert "no server at" in err
    assert len(err.splitlines()) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (None, "has not answered in 0.2 seconds"),
        (b"", "without an answer"),
        (b"SPAMD/1.1 0 EX_OK\r\nContent-le", "in the middle of its answer"),
        (
            b"SPAMD/1.1 0 EX_OK\r\nContent-length: 9\r\nDecision: Spam 1\r\nReplaced: 0\r\n\r\nX: y",
            "in the middle",
        ),
        (b"SPAMD/1.1 0 EX_OK\r\nContent-length: 2\r\n\r\n\n\n", "is not from a server of textsvm"),
        (b"SPAMD/1.1 0 EX_OK\r\nContent-length: x\r\n\r\n\n\n", "in the middle"),
        (b"SPAMD/1.0 75 EX_TEMPFAIL: the disk is full\r\n", "the server says: EX_TEMPFAIL: the disk is full"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "without an answer"),
        (b"\xff" * 100_000, "without an answer"),
    ],
    ids=lambda each: repr(each)[:30],  # a name of 300 kB is more than an environment holds
)
def test_a_message_passes_unchanged_whatever_the_server_does(tmp_path, answer, why):
    with listening(tmp_path / "socket", answer) as server:
        for data in (SPAM, MESSAGES[-1]):
            code, out, err = run("-p", "-e", "--timeout", "0.2", server=server, data=data)
            assert (code, out) == (3, data)
            assert why in err or (data != SPAM and "no server" in err)
        learnt = run("learn", "--as=spam", "--timeout=0.2", server=server)[0]
        assert learnt == (0 if why == "is not from a server of textsvm" else 3)


def test_a_full_queue_of_clients_is_waited_for(tmp_path):
    """Linux turns away at once who comes to a Unix socket whose queue is full, as 200 clients at once may."""
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX) as face:
        face.bind(path)
        face.listen(0)
        first = socket.socket(socket.AF_UNIX)
        first.connect(path)
        started = subprocess.Popen([*CLIENT, "--socket", path], stdin=subprocess.PIPE, env=ENVIRONMENT)
        started.stdin.close()
        time.sleep(0.3)
        assert started.poll() is None
        face.accept()[0].close()
        line = face.accept()[0]
        while line.recv(4096):
            pass
        line.sendall(b"SPAMD/1.1 0 EX_OK\r\nDecision: Ham 0.000000\r\n\r\n")
        line.close()
        first.close()
        assert started.wait(20) == 1


def test_lessons(server):
    data = b"Subject: a lesson\n\nx\n"
    assert run("learn", "--as", "spam", server=server, data=data) == (0, b"", "")
    assert run("learn", "--as", "spam", server=server, data=data) == (0, b"", "")
    assert run(server=server, data=data)[0] == 0
    assert run("--as=ham", "learn", server=server, data=data)[0] == 0
    assert run(server=server, data=data)[0] == 1
    assert run("unlearn", server=server, data=data) == (0, b"", "")
    assert run("unlearn", server=server, data=data) == (0, b"", "")
    assert run(server=server, data=data)[0] == 2


def test_a_file(server, tmp_path):
    (tmp_path / "message").write_bytes(HAM)
    assert run("-p", str(tmp_path / "message"), server=server)[:2] == (
        1,
        marked(HAM, ToyFilter().classify(HAM)),
    )
    code, _, err = run("-p", str(tmp_path / "none"), server=server)
    assert (code, err) == (3, f"textsvm-mail-client: {tmp_path}/none: No such file or directory\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--bogus"], "there is no option --bogus"),
        (["-x"], "there is no option -x"),
        (["--socket"], "--socket needs a value"),
        (["--socket", "a", "--store=b"], "--socket and --store both name the server"),
        (["--timeout", "soon"], "seconds, got soon"),
        (["--timeout=nan"], "seconds, got nan"),
        (["learn"], "learn takes --as spam, ham or a category"),
        (["learn", "--as", "Eggs"], "up to 40 lower-case letters"),
        (["learn", "--as", "two words"], "up to 40 lower-case letters"),
        (["--as", "spam"], "learn takes --as"),
        (["learn", "--as", "ham", "-t"], "learn takes no -t"),
        (["one", "two"], "one message at a time"),
    ],
)
def test_wrong_usage_is_a_sentence_and_keeps_the_mail(arguments, why):
    for given, data in ((arguments, b""), (["-pe", *arguments], SPAM)):
        code, out, err = run(*given)
        assert (code, out) == (3, data)
        assert err.startswith("textsvm-mail-client: ")
        assert len(err.splitlines()) == 1
    assert why in run(*arguments)[2]


def test_a_socket_that_this_user_may_not_use(server):
    """The advice is not to start another server, and a lesson does not wait for a server that runs."""
    os.chmod(server, 0)
    read, write = os.pipe()
    if os.fork() == 0:
        if os.geteuid() == 0:
            os.setuid(65534)
        try:
            ask(server, "CHECK SPAMC/1.5\r\n", SPAM)
        except Trouble as trouble:
            os.write(write, f"{type(trouble).__name__} {trouble}".encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as said:
        assert said.read() == f"Trouble {server}: Permission denied: join the group that owns it (adduser)"
    os.wait()
    os.chmod(server, 0o600)


def test_nobody_reads_the_output(server):
    reading, writing = os.pipe()
    os.close(reading)
    command = [*CLIENT, "--socket", server, "-p"]
    found = subprocess.run(command, input=SPAM, stdout=writing, stderr=subprocess.PIPE, env=ENVIRONMENT)
    os.close(writing)
    assert found.returncode == 3
    assert b"Traceback" not in found.stderr


def test_help():
    code, out, err = run("--help")
    assert (code, err) == (0, "")
    assert out.startswith(b"Usage: textsvm-mail-client")


def test_where_the_store_and_its_server_are(monkeypatch):
    for name in ("TEXTSVM_MAIL", "TEXTSVM_MAIL_SOCKET", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/anna")
    for name, value, folder in (
        ("HOME", "/home/anna", "/home/anna/.local/share/textsvm"),
        ("XDG_DATA_HOME", "relative", "/home/anna/.local/share/textsvm"),
        ("XDG_DATA_HOME", "/data", "/data/textsvm"),
        ("TEXTSVM_MAIL", "/lessons", "/lessons"),
    ):
        monkeypatch.setenv(name, value)
        assert (store_folder(), socket_path()) == (folder, f"{folder}/socket")
    monkeypatch.setenv("TEXTSVM_MAIL_SOCKET", "/run/s")
    assert (socket_path(), socket_path("/other")) == ("/run/s", "/other/socket")
    assert store_folder("/given") == "/given"


def test_it_imports_next_to_nothing(server):
    """The time of a mail is the time of imports: `typing` and `socket` alone would double it."""
    look = f"import os, sys; sys.path.insert(0, {str(ROOT)!r}); bare = set(sys.modules); "
    look += "from textsvm.apps.mail import client; client.run(sys.argv[1:]); "
    look += "print(*sorted(set(sys.modules) - bare), file=sys.stderr)"
    command = [sys.executable, "-I", "-S", "-c", look, "--socket", server]
    found = subprocess.run(command, input=SPAM, capture_output=True, check=True)
    names = set(found.stderr.decode().split())
    own = {"textsvm", "textsvm.version", "textsvm.apps", "textsvm.apps.mail", "textsvm.apps.mail.client"}
    assert own <= names <= own | {"_socket", "__future__", "time"}


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_completion_of_bash():
    """The line of the page has all options of the client."""
    page = (ROOT / "docs" / "mail.md").read_text("utf-8")
    line = re.search(r'```sh title="completion"\n(.*\n)```', page)[1]
    words = set(re.search('-W "(.*)"', line)[1].split())
    assert words == {
        "classify",
        "learn",
        "unlearn",
        "spam",
        "ham",
        "--help",
        *client._VALUED,
        "-p",
        "-e",
        "-t",
    }
    script = line + "complete -p textsvm-mail-client; compgen -W '" + " ".join(words) + "' -- --s"
    said = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert {*said[-2:]} == {"--socket", "--store"}
