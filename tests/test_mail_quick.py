"""`textsvm mail classify` and textsvm-bogofilter with a server: the answers are those without it."""

import os
import socket
import subprocess
import sys
import time

import pytest
from mail_servers import HAM, PYTHONPATH, SPAM, UNSURE, Decision, answers, process, toy, until
from mails import mail, taught_store

from textsvm.apps.mail import quick, spamd
from textsvm.apps.mail.filter import Filter
from textsvm.apps.mail.raw_message import VERSION

pytestmark = pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="needs Unix sockets")
BOGOFILTER = "import sys; sys.argv[0] = 'x'; from textsvm.apps.mail.{} import main; main()"
CLASSIFY = "import sys; sys.argv[:1] = ['x', 'mail', 'classify']; from textsvm.{} import main; main()"


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """The store of a server with a toy filter, which no other program could open."""
    folder = tmp_path_factory.mktemp("served")
    with toy(folder / "socket"):
        yield folder


def call(program, *arguments, data, **env):
    found = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        input=data,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": PYTHONPATH, "HOME": "/nowhere", **env},
        timeout=60,
    )
    return found.returncode, found.stdout, found.stderr.decode()


def bogofilter(store, *options, data, module="quick"):
    return call(BOGOFILTER.format(module), "-C", "-d", store, *options, data=data)


def classify(store, *options, data, module="__main__"):
    return call(CLASSIFY.format(module), "--store", store, *options, data=data)


def test_bogofilters_options(served):
    line = f"X-Bogosity: Spam, tests=bogofilter, spamicity=0.998918, version={VERSION}\n".encode()
    assert bogofilter(served, data=SPAM) == (0, b"", "")
    assert bogofilter(served, "-t", data=HAM) == (1, b"H 0.010000\n", "")
    assert bogofilter(served, "-vT", data=UNSURE) == (2, b"U 0.5\n", "")
    assert bogofilter(served, "-TT", data=HAM) == (1, b"0.0100000000000000\n", "")
    assert bogofilter(served, "-ve", data=SPAM) == (0, line, "")
    marked = SPAM.replace(b"\n\n", b"\n" + line + b"\n", 1)
    assert bogofilter(served, "-p", "-e", data=SPAM) == (0, marked, "")


def test_classify(served):
    assert classify(served, data=HAM) == (1, b"ham 0.010000\n", "")
    assert classify(served, "--terse", data=SPAM) == (0, b"S 0.998918\n", "")
    assert classify(served, "-TT", "-", data=UNSURE) == (2, b"0.5000000000000000\n", "")
    for options, name in (("-pe", b"X-Textsvm: Spam"), ("--passthrough", b"X-Textsvm: Spam")):
        code, out, _ = classify(served, options, data=SPAM)
        assert code == 0
        assert name in out
    assert b"X-Bogosity: Spam" in classify(served, "-p", "--bogofilter", data=SPAM)[1]


def test_lessons(served):
    data = b"Subject: x\n\na lesson for the server\n"
    assert bogofilter(served, "-s", data=data) == (0, b"", "")
    assert bogofilter(served, data=data)[0] == 0
    assert bogofilter(served, "-Sn", "-p", data=data) == (0, data, "")
    assert bogofilter(served, data=data)[0] == 1
    pills = b"Subject: x\n\npills again\n"
    assert bogofilter(served, "-u", data=pills)[0] == 0
    assert bogofilter(served, "-T", data=pills)[1] == b"S 0.999\n"  # it was learnt


@pytest.mark.parametrize(
    "words",
    [
        "-vv",
        "-vu",
        "-pv",
        "-sn",
        "-us",
        "-S",
        "-M",
        "-o.9,.1",
        "--spam-cutoff=.9",
        "-I file",
        "-x",
        "file",
        "-d",
        "-l",
    ],
)
def test_other_command_lines_are_left_to_the_full_program(words, monkeypatch):
    monkeypatch.setattr(quick, "_with_server", lambda *arguments: 0)
    assert quick.bogofilter(["-C", "-p"]) == 0
    assert quick.bogofilter(["-C", *words.split()]) is None


@pytest.mark.parametrize("words", ["--json", "-v", "-pt", "a file", "--store", "--help", "--bogus"])
def test_other_ways_to_classify(words, monkeypatch):
    monkeypatch.setattr(quick, "_with_server", lambda *arguments: 0)
    assert quick.classify(["--store=x", "-pe"]) == 0
    assert quick.classify(words.split()) is None


def test_a_configuration_file_is_left_to_the_full_program(tmp_path, monkeypatch):
    monkeypatch.setattr(quick, "_CONFIGURATIONS", (str(tmp_path / "a"), str(tmp_path / "b")))
    assert not quick._is_configured()
    (tmp_path / "a").write_text("# spam_cutoff = 0.9\n\n")
    assert not quick._is_configured()
    (tmp_path / "b").write_text("spam_cutoff = 0.9\n")
    assert quick._is_configured()


def test_nothing_heavy_is_imported(served):
    program = "import sys; bare = set(sys.modules); from textsvm.apps.mail import quick; "
    program += "quick.bogofilter(sys.argv[1:]); print(*sorted(set(sys.modules) - bare))"
    names = set(call(program, "-C", "-d", served, data=SPAM)[1].decode().split())
    assert {name for name in names if name.startswith("textsvm")} == {
        "textsvm", "textsvm.version", "textsvm.apps", "textsvm.apps.mail", "textsvm.apps.mail.client",
        "textsvm.apps.mail.quick",
    }  # fmt: skip
    assert len(names) < 10


def test_no_standard_input_is_an_error_and_not_ham(served):
    program = [sys.executable, "-c", BOGOFILTER.format("quick"), "-C", "-d", str(served)]
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" <&-', "sh", *program],
        capture_output=True, env={**os.environ, "PYTHONPATH": PYTHONPATH},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (3, b"")
    assert done.stderr.startswith(b"textsvm-bogofilter: ")
    assert done.stderr.count(b"\n") == 1


@pytest.fixture
def ended():
    """Number of a process that has ended. Listed before `spawned`: Python 3.13 uses posix_spawn itself."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


@pytest.fixture
def spawned(monkeypatch):
    """Commands that `start_server` would run."""
    commands = []
    monkeypatch.setattr(os, "posix_spawn", lambda path, command, *_, **__: commands.append(command) or 1)
    return commands


def test_no_second_server_is_started(tmp_path, spawned):
    path = tmp_path / "socket"
    (tmp_path / "lessons.sqlite").touch()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        quick.start_server(str(path))
        assert spawned == []
        assert not (tmp_path / "socket.start").exists()
    for _ in range(2):  # the second call comes within 20 seconds
        quick.start_server(str(path))
    assert len(spawned) == 1


def test_a_killed_server_is_started_again(tmp_path, ended, spawned):
    (tmp_path / "lessons.sqlite").touch()
    mark = tmp_path / "socket.start"
    for pid, age, expected in (
        (os.getpid(), 10, 0), ("", 10, 0), (ended, 1, 0), (ended, 10, 1), (os.getpid(), 30, 1),
    ):  # fmt: skip
        spawned.clear()
        mark.write_text(f"{pid}")
        os.utime(mark, (time.time() - age,) * 2)
        quick.start_server(str(tmp_path / "socket"))
        assert len(spawned) == expected, (pid, age)


def test_a_server_that_cannot_be_started_is_no_error(tmp_path, spawned):
    (tmp_path / "lessons.sqlite").touch()
    (tmp_path / "socket.start").mkdir()
    os.utime(tmp_path / "socket.start", (0, 0))
    assert quick.bogofilter(["-C", "-p", "--daemon", "-d", str(tmp_path)]) is None
    assert spawned == []


def test_nothing_is_written_before_the_lesson(tmp_path, monkeypatch):
    """With -p -u; the full program then passes the message on, once."""

    def fail(*arguments):
        raise quick.client.Trouble("the disk is full")

    (tmp_path / "socket").touch()
    monkeypatch.setattr(quick.client, "ask", fail)
    monkeypatch.setattr(quick, "_decide", lambda *arguments: ("spam", [b"marked"]))
    monkeypatch.setattr(quick, "_put_back", lambda data: None)
    monkeypatch.setattr(quick.client, "write", lambda *arguments: 1 / 0)
    monkeypatch.setattr(os, "read", lambda *arguments: b"")
    assert quick.bogofilter(["-C", "-pu", "-d", str(tmp_path)]) is None


def test_bogofilters_header_does_not_change_the_kind():
    """`mail classify --bogofilter` asks for the header alone; textsvm-bogofilter has kinds by its cutoffs."""

    class Single:
        def classify(self, message):
            return Decision("unsure", 0.01, -2.0)

    for name, kind in (("bogofilter", b"Ham"), ("x-bogosity", b"Unsure"), ("textsvm", b"Unsure")):
        answer = b"".join(spamd.check(spamd.Request("HEADERS", 1.5, filter=name), HAM, Single()))
        assert b"Decision: " + kind in answer
        assert (b"\nX-Bogosity: " + kind in answer.partition(b"\r\n\r\n")[2]) == (name != "textsvm")


def test_classify_with_bogofilters_header_asks_for_it(monkeypatch):
    monkeypatch.setattr(quick, "_with_server", lambda *arguments: arguments[2])
    assert quick.classify(["-p", "--bogofilter"]) == "x-bogosity"
    assert quick.bogofilter(["-C", "-p"]) == "bogofilter"


@pytest.fixture(scope="module")
def taught(tmp_path_factory):
    return taught_store(tmp_path_factory.mktemp("taught") / "store", 20)


def test_without_a_server_numpy_is_not_imported(taught, tmp_path):
    (tmp_path / "numpy.py").write_text("raise RuntimeError('the import of NumPy')")
    env = {"PYTHONPATH": f"{tmp_path}{os.pathsep}{PYTHONPATH}"}
    data, program = mail("spam", 90), BOGOFILTER.format("quick")
    with Filter(taught) as opened:
        score = opened.classify(data).score
    for option, line in (("-t", f"S {score:.6f}\n"), ("-TT", f"{score:.16f}\n")):
        assert call(program, "-C", "-d", taught, option, data=data, **env) == (0, line.encode(), "")
    assert call(CLASSIFY.format("__main__"), "--store", taught, "-p", data=data, **env)[0] == 0


@pytest.mark.slow
def test_a_server_that_fails_leaves_the_message_to_the_full_program(taught):
    data = mail("spam", 77)
    expected = bogofilter(taught, "-p", data=data)
    assert b"X-Bogosity" in expected[1]
    path = str(taught / "socket")
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(path)  # nobody listens
        try:
            assert bogofilter(taught, "-p", data=data) == expected
            assert classify(taught, "-T", data=data)[0] == expected[0]
        finally:
            os.unlink(path)


@pytest.mark.slow
def test_the_answers_are_those_without_a_server(taught):
    spam, crlf = mail("spam", 70), b"Subject: x\r\n\r\nnothing\r\n"
    calls = [(bogofilter, spam, "-p"), (bogofilter, spam, "-T"), (bogofilter, crlf, "-vt")]
    calls += [(bogofilter, b"", "-pe"), (classify, spam, "-p"), (classify, crlf, "-e")]

    def outputs():
        return [program(taught, option, data=data) for program, data, option in calls]

    alone = outputs()
    with process("-m", "textsvm", "mail", "serve", "--store", taught, socket=taught / "socket"):
        assert outputs() == alone


@pytest.mark.slow
def test_daemon(taught):
    """The first message is decided directly, and starts the server of the next."""
    path, data = taught / "socket", mail("ham", 72)
    assert not path.exists()
    expected = bogofilter(taught, "-v", data=data)
    assert bogofilter(taught, "-v", "--daemon", data=data) == expected
    try:
        until(lambda: path.exists() and answers(path), 60)
        assert bogofilter(taught, "-v", "--daemon", data=data) == expected
    finally:
        os.kill(int((taught / "socket.start").read_text()), 15)
    until(lambda: not path.exists())


UPGRADE = """
import os, sys
sys.argv = ["textsvm", "mail", "serve", "--store", sys.argv[1]]
from textsvm.cli import main
main()
"""


@pytest.mark.slow
def test_a_server_whose_package_is_removed_goes_on(tmp_path):
    """An upgrade replaces the files of a running server."""
    import shutil

    from mail_servers import ROOT

    copy, store = tmp_path / "copy", tmp_path / "store"
    shutil.copytree(ROOT / "textsvm", copy / "textsvm")
    env = {"PYTHONPATH": str(copy), "PYTHONSAFEPATH": "1"}
    with process("-c", UPGRADE, store, socket=store / "socket", env=env) as server:
        shutil.rmtree(copy)
        ask = quick.client.ask
        path = str(store / "socket")
        for number in range(4):
            for kind in ("spam", "ham"):
                lesson = f"TELL SPAMC/1.5\r\nMessage-class: {kind}\r\nSet: local\r\n"
                assert "DidSet" in ask(path, lesson, mail(kind, number), 60)[0]
        for verb in ("CHECK", "SYMBOLS", "REPORT", "REPORT_IFSPAM", "PROCESS", "HEADERS"):
            assert "Spam" in ask(path, f"{verb} SPAMC/1.5\r\nFilter: bogofilter\r\n", mail("spam", 9), 60)[0]
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
