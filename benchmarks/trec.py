"""The program for TREC's spam filter evaluation toolkit (Lynam and Cormack, 2005 to 2007).

    python -m benchmarks.trec scripts [--serve] FOLDER     write the four commands into a folder
    initialize [--serve]                   start with an empty filter; with a server that learns
    classify FILE                          print "class=spam score=0.73105858 tfile=-"
    train JUDGE FILE [CLASS [TFILE]]       learn the message as the judge says, spam or ham
    finalize                               end the server

The lessons are in the folder `textsvm-trec` of the working directory. The class of unsure mail is ham,
because it would be delivered. The score is the decision value, above 0 for spam, which has more digits than a
probability near 1. There is no auxiliary file, and further arguments, which the toolkit adds, are ignored.
Without the server each `train` reads all lessons; `classify` reads the weights alone.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from textsvm.apps.mail.client import Trouble, ask
from textsvm.errors import InputError, one_line

ROOT = Path(__file__).resolve().parent.parent
STORE = Path("textsvm-trec")
#: Relative, because the path of a socket may have at most 107 bytes.
SOCKET, PROCESS = STORE / "socket", STORE / "pid"
COMMANDS = ("initialize", "classify", "train", "finalize")
USAGE = "one of: scripts [--serve] FOLDER, initialize [--serve], classify FILE, train JUDGE FILE, finalize"
ERROR = 3
#: Seconds to wait for a server that starts or ends.
PATIENCE = 30.0


def run(arguments: list[str]) -> int:
    """Run a command, print its output, and return its exit code: 0, or 3 after an error."""
    try:
        sys.stdout.write(_output(arguments))
        sys.stdout.flush()
        return 0
    except (InputError, OSError) as error:
        print(f"benchmarks.trec: {one_line(str(error))}", file=sys.stderr)
        return ERROR


def _output(arguments: list[str]) -> str:
    """Execute a command; return its output for the toolkit."""
    serve = "--serve" in arguments
    match [word for word in arguments if word != "--serve"]:
        case ["scripts", folder]:
            scripts(Path(folder), serve)
        case ["initialize", *_]:
            initialize(serve)
        case ["classify", file, *_]:
            return classify(Path(file).read_bytes())
        case ["train", judge, file, *_]:
            train(judge.lower(), Path(file).read_bytes())
        case ["finalize", *_]:
            finalize()
        case _:
            raise InputError(USAGE)
    return ""


def scripts(folder: Path, serve: bool = False) -> None:
    """Write the commands as scripts into a folder; with `serve`, `initialize` starts a server."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in COMMANDS:
        options = ["--serve"] * (serve and name == COMMANDS[0])
        command = shlex.join([sys.executable, "-m", "benchmarks.trec", name, *options])
        path = f"export PYTHONPATH={shlex.quote(str(ROOT))}${{PYTHONPATH:+:$PYTHONPATH}}"
        file = folder / name
        file.write_text(f'#!/bin/sh\n{path}\nexec {command} "$@"\n', encoding="utf-8", newline="\n")
        file.chmod(0o755)


def initialize(serve: bool = False) -> None:
    """Create an empty filter; an earlier filter is removed, even if it was not finalized."""
    from textsvm.apps.mail.filter import Filter  # not above: with a server, `train` need not load NumPy

    finalize()
    shutil.rmtree(STORE, ignore_errors=True)
    Filter(STORE, create=True).close()
    if serve:
        _start()


def classify(data: bytes) -> str:
    """The class and score of a message in the toolkit's form."""
    from textsvm.apps.mail.filter import Filter

    with Filter(STORE) as mail:
        decision = mail.classify(data)
    kind = "spam" if decision.kind == "spam" else "ham"
    return f"class={kind} score={decision.value:.8f} tfile=-\n"


def train(kind: str, data: bytes) -> None:
    """Learn a message as spam or ham."""
    if kind not in ("spam", "ham"):
        raise InputError(f"the judgement must be spam or ham, got {kind!r}")
    if _server() is not None:
        try:
            ask(str(SOCKET), f"TELL SPAMC/1.5\r\nMessage-class: {kind}\r\nSet: local\r\n", data, PATIENCE)
        except Trouble as error:
            raise InputError(str(error)) from error
        return
    from textsvm.apps.mail.filter import Filter

    with Filter(STORE) as mail:
        mail.learn(data, kind)


def finalize() -> None:
    """End the server if it runs."""
    pid = _server()
    if pid is not None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        _wait(lambda: not SOCKET.exists())
        PROCESS.unlink(missing_ok=True)


def _start() -> None:
    store, path = str(STORE), str(SOCKET)
    command = [sys.executable, "-m", "textsvm", "mail", "serve", "--store", store, "--socket", path]
    with (STORE / "server.log").open("wb") as log:
        server = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    PROCESS.write_text(f"{server.pid}\n", encoding="utf-8", newline="\n")
    if not _wait(lambda: SOCKET.exists() or server.poll() is not None) or server.poll() is not None:
        raise InputError(f"the server did not start: see {STORE / 'server.log'}")


def _server() -> int | None:
    """Process id of the server; None if it does not run."""
    try:
        return int(PROCESS.read_text(encoding="utf-8")) if SOCKET.exists() else None
    except (OSError, ValueError):
        return None


def _wait(condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
