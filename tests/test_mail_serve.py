"""`textsvm mail serve` with the filter itself."""

import json
import os
import signal
import socket
import subprocess
import sys

import pytest
from command import fails
from command import run as run_command
from mail_servers import HAM, PYTHONPATH, SPAM, UNSURE, free_port, process, until
from test_mail_client import CLIENT

from textsvm.apps.mail.client import ask, run

pytestmark = [
    pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="needs Unix sockets"),
    pytest.mark.slow,
]


def serve(store, *options):
    return process("-m", "textsvm", "mail", "serve", "--store", store, *options, socket=store / "socket")


def kind(server, data):
    return ask(str(server), "CHECK SPAMC/1.5\r\n", data)[0]["Decision"].split(" ")[0]


def test_it_learns_and_remembers(tmp_path, monkeypatch):
    store = tmp_path / "store"
    server = store / "socket"
    (tmp_path / "spam").write_bytes(SPAM)
    (tmp_path / "ham").write_bytes(HAM)
    monkeypatch.setenv("TEXTSVM_MAIL", str(store))
    with serve(store) as started:
        assert kind(server, SPAM) == "Unsure"
        for each in ("spam", "ham"):
            assert run(["learn", "--as", each, str(tmp_path / each)]) == 0
        asked = ask(str(server), "TELL SPAMC/1.5\r\nMessage-class: spam\r\nSet: local\r\n", SPAM)[0]
        assert "DidSet" not in asked  # known already
        before = ask(str(server), "REPORT SPAMC/1.5\r\n", SPAM)[1]
        assert before.startswith(b"textsvm: ")
        assert (store / "socket").stat().st_mode & 0o777 == 0o600
        fails("mail", "serve", "--store", store, code=3)
        started.send_signal(signal.SIGTERM)
        assert started.wait(20) == 0
        first, second, *lines = started.stderr.read().decode().splitlines()
        assert "every message is unsure until spam and ham are learnt" in first
        assert second == f"answering at {server}"
        assert [line.split(": ")[0] for line in lines] == ["message without Message-ID"] * len(lines)
        assert [line.split(": ")[1].split(",")[0] for line in lines if "learnt" in line] == [
            "learnt as spam", "learnt as ham", "learnt as spam (no change)"
        ]  # fmt: skip
    assert not server.exists()
    with serve(store):
        assert ask(str(server), "REPORT SPAMC/1.5\r\n", SPAM)[1] == before
        assert run(["unlearn", str(tmp_path / "spam")]) == 0
        assert kind(server, SPAM) == "Unsure"


def test_what_another_process_learns_is_heeded(tmp_path):
    store = tmp_path / "store"
    from textsvm.apps.mail.filter import Filter

    with serve(store):
        assert kind(store / "socket", HAM) == "Unsure"
        with Filter(store) as other:
            other.learn(SPAM, "spam")
            other.learn(HAM, "ham")
            said = other.classify(HAM).kind
        assert kind(store / "socket", HAM).lower() == said


def test_decisions_go_on_while_a_lesson_is_learnt(tmp_path):
    """A lesson that takes long, as the first one of a large store does, keeps nobody waiting."""
    begun, end = tmp_path / "begun", tmp_path / "end"
    program = f"""
import time
from pathlib import Path
from textsvm.apps.mail.filter import Filter
from textsvm.apps.mail.server import listen, serve

class Slow(Filter):
    def _add_all(self, lessons):
        Path({str(begun)!r}).touch()
        while not Path({str(end)!r}).exists():
            time.sleep(0.01)
        return super()._add_all(lessons)

store = Path({str(tmp_path / "store")!r})
with Filter(store, create=True) as mail:
    mail.learn({SPAM!r}, "spam")
    mail.learn({HAM!r}, "ham")
serve(Slow(store), [listen(store / "socket")], print)
"""
    server = tmp_path / "store" / "socket"
    with process("-c", program, socket=server):
        command = [*CLIENT, "learn", "--as", "ham", "--socket", str(server)]
        lesson = subprocess.Popen(command, stdin=subprocess.PIPE, env={"PYTHONPATH": PYTHONPATH})
        lesson.stdin.write(b"Subject: more\n\nof it\n")
        lesson.stdin.close()
        until(begun.exists, 60)
        for _ in range(5):
            assert kind(server, HAM)
        assert lesson.poll() is None
        end.touch()
        assert lesson.wait(60) == 0


def test_lessons_wait_for_a_server(tmp_path, monkeypatch, capfd):
    """Also those of a client with another umask; the oldest first; a file that is no message stays."""
    store = tmp_path / "store"
    spool = store / "spool"
    monkeypatch.setenv("TEXTSVM_MAIL", str(store))
    for name, data in (("spam", SPAM), ("ham", HAM), ("more", UNSURE)):
        (tmp_path / name).write_bytes(data)
    assert run(["learn", "--as", "spam", str(tmp_path / "spam")]) == 3  # there was no server ever
    assert "no server at" in capfd.readouterr().err
    assert not store.exists()
    with serve(store):
        assert spool.stat().st_mode & 0o777 == 0o700
        assert run(["learn", "--as", "spam", str(tmp_path / "more")]) == 0
    mask = os.umask(0o077)
    try:
        for words in (["--as", "ham", "spam"], ["--as", "spam", "spam"], ["--as", "ham", "ham"]):
            assert run(["learn", *words[:2], str(tmp_path / words[2])]) == 0
            assert f"the message waits in {spool}" in capfd.readouterr().err
        assert run(["unlearn", str(tmp_path / "more")]) == 0
    finally:
        os.umask(mask)
    assert [path.stat().st_mode & 0o777 for path in spool.iterdir()] == [0o640] * 4
    (spool / "1.2.spam").write_bytes(b"")
    (spool / "2.2.ham").symlink_to(tmp_path / "ham")
    os.mkfifo(spool / "3.2.ham")
    with serve(store) as started:
        assert kind(store / "socket", SPAM) == "Spam"
        assert kind(store / "socket", HAM) == "Ham"
        assert sorted(path.name for path in spool.iterdir()) == ["1.2.spam", "2.2.ham", "3.2.ham"]
        started.send_signal(signal.SIGTERM)
        said = started.stderr.read().decode()
        assert said.count(" is not learnt: ") == 3
        assert f"learnt from {spool}: 4\n" in said
        assert f"answering at {store / 'socket'}\n" in said
    assert json.loads(run_command("mail", "status", "--store", store, "--json").stdout)["ham"] == 1


def test_an_error_comes_before_the_line_that_it_answers(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for option in (["--smtp", port, "--next", "127.0.0.1:1"], ["--milter", port], ["--tcp", port]):
            result = run_command("mail", "serve", "--store", tmp_path / option[0], *option)
            assert result.returncode == 3
            assert b"cannot listen at" in result.stderr
            assert b"answering at" not in result.stderr


def test_wrong_usage(tmp_path):
    store = tmp_path / "store"
    taken = {"--smtp": free_port(), "--tcp": free_port(), "--milter": free_port()}
    for options, expected in (
        ("--smtp 10025", "--next is the server behind --smtp or --lmtp"),
        ("--next 127.0.0.1:10026", "--next is the server behind --smtp or --lmtp"),
        ("--milter 10024 --next 127.0.0.1:10026", "--next is the server behind --smtp or --lmtp"),
        ("--smtp 0 --next 127.0.0.1:10026", "--smtp"),
        ("--lmtp 70000 --next 127.0.0.1:10026", "--lmtp"),
        *((f"{option} {port}", option) for option in ("--tcp", "--smtp", "--lmtp")
          for port in ("0", "00", "65536", "x", "localhost:25", "-1", "1.5")),
        *((f"--milter {place}", "--milter must be a port from 1 to 65535 or the path of a socket")
          for place in ("0", "00", "65536", "9" * 5000, "localhost:8891", "inet:8891@host", "[::1]:8891")),
        ("--smtp 10025 --lmtp 10024 --next 127.0.0.1:10026", "cannot speak both SMTP and LMTP"),
        *((f"--smtp 10025 --next {next}", f"--next must be HOST:PORT or the path of a socket, got {next}")
          for next in ("nowhere", ":10026", "localhost:0", "localhost:70000", "localhost:smtp", "::")),
        *((f"--smtp 10025 --next {next}:10025", f"{next}:10025 is this server itself")
          for next in ("127.0.0.1", "localhost", "0.0.0.0")),
        *((" ".join(f"{name} {port}" for name, port in taken.items()) + f" --next 127.0.0.1:{port}",
           "is this server itself") for port in taken.values()),
        (f"--smtp 10025 --next {store}/./socket", "socket is this server itself"),
        (f"--smtp 10025 --milter {store}/milter --next {store}/milter", "milter is this server itself"),
    ):  # fmt: skip
        assert expected in fails("mail", "serve", "--store", store, *options.split(), code=3), options
    for option in ("--tcp", "--milter", "--smtp", "--lmtp"):
        assert option in fails("mail", "serve", "--store", store, option, "", code=3)
    assert not store.exists()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert "cannot listen at" in fails("mail", "serve", "--store", store, "--tcp", port, code=3)


@pytest.mark.parametrize(
    ("store", "given", "place"), [("store", "mail.sock", "mail.sock"), ("", "", "store/socket")]
)
def test_a_relative_socket_is_that_of_the_server(store, given, place, tmp_path, monkeypatch):
    """A name that is empty, as of a variable that is not set, is that of the environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TEXTSVM_MAIL", "store")
    options = ("mail", "serve", "--store", store, "--socket", given)
    with process("-m", "textsvm", *options, socket=tmp_path / place) as server:
        assert kind(tmp_path / place, HAM) == "Unsure"
        assert (tmp_path / "store" / "lessons.sqlite").is_file()
        assert {path.name for path in tmp_path.iterdir()} <= {"store", "spool", "mail.sock", "mail.sock.lock"}
        server.terminate()
        assert b"nothing answers" not in server.communicate(timeout=20)[1]


def test_sockets_of_systemd(tmp_path):
    """A --socket beside them is said to be unused; lessons wait beside the Unix socket."""
    store, unix, own = tmp_path / "store", tmp_path / "box" / "socket", tmp_path / "own"
    unix.parent.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.fspath(unix))
        listener.listen()
        program = (
            "import os, sys; os.environ['LISTEN_PID'] = str(os.getpid());"
            "[os.dup2(int(handle), 3 + i) for i, handle in enumerate(sys.argv[1:3])];"
            "os.execv(sys.executable, [sys.executable, '-m', 'textsvm', *sys.argv[3:]])"
        )
        handles = [os.dup(line.fileno()) + 10 for line in (tcp, listener)]
        for line, handle in zip((tcp, listener), handles, strict=True):
            os.dup2(line.fileno(), handle)
        started = subprocess.Popen(
            [sys.executable, "-c", program, *map(str, handles), "mail", "serve", "--store", str(store),
             "--socket", str(own)],
            stderr=subprocess.PIPE, pass_fds=handles, cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": PYTHONPATH, "LISTEN_FDS": "2"},
        )  # fmt: skip
        try:
            until(lambda: kind(unix, HAM) == "Unsure", 60)
        finally:
            started.terminate()
            said = started.communicate(timeout=20)[1].decode()
        for handle in handles:
            os.close(handle)
    assert f"warning: nothing answers at --socket {own}: systemd passed other sockets" in said
    assert (unix.with_name("spool").is_dir(), (tmp_path / "spool").exists(), own.exists()) == (
        True,
        False,
        False,
    )


def test_ten_kills_lose_no_lesson():
    """`python tests/mail_kills.py 100` does more of them."""
    import mail_kills

    command, environment = [sys.executable, mail_kills.__file__, "5"], {"PYTHONPATH": PYTHONPATH}
    found = subprocess.run(command, capture_output=True, env=environment, timeout=120)
    assert found.returncode == 0, found.stderr.decode()
    last = found.stdout.splitlines()[-1]  # below the log of the servers
    assert last.startswith(b"10 kills, ")
    assert last.endswith(b", none lost, none twice")
