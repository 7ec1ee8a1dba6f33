"""Commands for TREC's spam filter evaluation toolkit (Lynam and Cormack, 2005 to 2007).

    python -m textsvm.mail.trec scripts [--serve] FOLDER     write the four commands into a folder
    initialize [--serve]                   start with an empty filter; with a server that learns
    classify FILE                          print "class=spam score=0.73105858 tfile=-"
    train JUDGE FILE [CLASS [TFILE]]       learn the message as JUDGE says: spam or ham
    finalize                               end the server

The lessons are in the folder `textsvm-trec` of the working directory. The class is spam where the filter is
sure, else ham, because unsure mail would be delivered. The score is the decision value, above 0 for spam,
which has more digits than a probability near 1. There is no auxiliary file, and further arguments (the
toolkit adds a user, and the arguments of its own call) are ignored. Without the server a lesson takes reading
all lessons; classifying reads the weights alone.
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

from textsvm.errors import InputError, one_line

STORE = Path("textsvm-trec")
COMMANDS = ("initialize", "classify", "train", "finalize")
USAGE = "one of: scripts [--serve] FOLDER, initialize [--serve], classify FILE, train JUDGE FILE, finalize"
ERROR = 3
#: Seconds to wait for a server that starts or ends.
PATIENCE = 30.0


def main() -> None:
    """Entry point of `python -m textsvm.mail.trec`."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run a command; return its exit code: 0, or 3 after an error message on stderr."""
    try:
        _execute(arguments)
        sys.stdout.flush()
        return 0
    except (InputError, OSError) as error:
        print(f"textsvm.mail.trec: {one_line(str(error))}", file=sys.stderr)
        return ERROR


def _execute(arguments: list[str]) -> None:
    serve = "--serve" in arguments
    match [word for word in arguments if word != "--serve"]:
        case ["scripts", folder]:
            scripts(Path(folder), serve)
        case ["initialize", *_]:
            initialize(serve)
        case ["classify", file, *_]:
            print(classify(_file_bytes(file)))
        case ["train", judge, file, *_]:
            train(judge, _file_bytes(file))
        case ["finalize", *_]:
            finalize()
        case _:
            raise InputError(USAGE)


def scripts(folder: Path, serve: bool = False) -> None:
    """Write the commands as scripts into a folder; with `serve`, `initialize` starts a server."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in COMMANDS:
        options = ["--serve"] * (serve and name == COMMANDS[0])
        words = [sys.executable, "-m", "textsvm.mail.trec", name, *options]
        file = folder / name
        file.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n', encoding="utf-8", newline="\n")
        file.chmod(0o755)


def initialize(serve: bool = False) -> None:
    """Create an empty filter; an earlier filter is removed, even if it was not finalized."""
    from textsvm.mail.filter import Filter

    finalize()
    shutil.rmtree(STORE, ignore_errors=True)
    Filter(STORE, create=True).close()
    if serve:
        _start()


def classify(data: bytes) -> str:
    """Classify a message; return the output for the toolkit."""
    from textsvm.mail.filter import Filter

    with Filter(STORE) as mail:
        decision = mail.classify(data)
    kind = "spam" if decision.kind == "spam" else "ham"
    return f"class={kind} score={decision.value:.8f} tfile=-"


def train(judge: str, data: bytes) -> None:
    """Learn a message as spam or ham."""
    kind = judge.lower()
    if kind not in ("spam", "ham"):
        raise InputError(f"the judgement must be spam or ham, got {judge!r}")
    if _server() is not None:
        from textsvm.mail.client import Trouble, ask

        try:
            ask(_socket(), f"TELL SPAMC/1.5\r\nMessage-class: {kind}\r\nSet: local\r\n", data, PATIENCE)
        except Trouble as error:
            raise InputError(str(error)) from error
        return
    from textsvm.mail.filter import Filter

    with Filter(STORE) as mail:
        mail.learn(data, kind)


def finalize() -> None:
    """End the server if there is one."""
    pid = _server()
    if pid is not None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        _wait(lambda: not Path(_socket()).exists())
        (STORE / "pid").unlink(missing_ok=True)


def _start() -> None:
    command = [sys.executable, "-m", "textsvm", "mail", "serve", "--store", str(STORE), "--socket", _socket()]
    with (STORE / "server.log").open("wb") as log:
        server = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    (STORE / "pid").write_text(f"{server.pid}\n", encoding="utf-8", newline="\n")
    if not _wait(lambda: Path(_socket()).exists() or server.poll() is not None) or server.poll() is not None:
        raise InputError(f"the server did not start: see {STORE / 'server.log'}")


def _server() -> int | None:
    """Process id of the server; None if there is none."""
    try:
        pid = int((STORE / "pid").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return pid if Path(_socket()).exists() else None


def _socket() -> str:
    # Relative: the path of a socket may have 107 bytes.
    return str(STORE / "socket")


def _wait(condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def _file_bytes(file: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror}") from error


if __name__ == "__main__":
    main()
