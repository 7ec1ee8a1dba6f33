"""The commands that TREC's spam filter evaluation toolkit (Lynam and Cormack, 2005 to 2007) calls.

    python -m textsvm.mail.trec scripts [--serve] FOLDER     write the four commands into a folder
    initialize [--serve]                   begin anew; with a server that learns
    classify FILE                          print "class=spam score=0.73105858 tfile=-"
    train JUDGE FILE [CLASS [TFILE]]       learn the message as JUDGE says: spam or ham
    finalize                               end the server

The lessons are in `textsvm-trec`, a folder that is made in the working directory. The class is spam where
the filter is sure of it, else ham: what it is unsure of would be delivered. The score is the decision value,
above 0 on the side of spam; it has more digits than a probability near 1. There is no auxiliary file. More
arguments (the toolkit adds a user, and what it was called with) are passed over.

A lesson without the server takes reading all lessons before; classifying takes the weights alone.
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
    """What the process does, and its exit code: 0, or 3 and a sentence on stderr."""
    try:
        _do(arguments)
        sys.stdout.flush()
        return 0
    except (InputError, OSError) as error:
        print(f"textsvm.mail.trec: {one_line(str(error))}", file=sys.stderr)
        return ERROR


def _do(arguments: list[str]) -> None:
    serve = "--serve" in arguments
    match [word for word in arguments if word != "--serve"]:
        case ["scripts", folder]:
            scripts(Path(folder), serve)
        case ["initialize", *_]:
            initialize(serve)
        case ["classify", file, *_]:
            print(classify(_read(file)))
        case ["train", judge, file, *_]:
            train(judge, _read(file))
        case ["finalize", *_]:
            finalize()
        case _:
            raise InputError(USAGE)


def scripts(folder: Path, serve: bool = False) -> None:
    """Write the commands as scripts, which is how the toolkit finds them.

    Parameters
    ----------
    folder : Path
        Made if it is not there; what it has of these names is replaced.
    serve : bool
        Let `initialize` start a server.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in COMMANDS:
        words = [
            sys.executable,
            "-m",
            "textsvm.mail.trec",
            name,
            *["--serve"] * (serve and name == COMMANDS[0]),
        ]
        file = folder / name
        file.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n', encoding="utf-8", newline="\n")
        file.chmod(0o755)


def initialize(serve: bool = False) -> None:
    """An empty filter, whatever ran before, even if it was not finalized."""
    from textsvm.mail.filter import Filter

    finalize()
    shutil.rmtree(STORE, ignore_errors=True)
    Filter(STORE, create=True).close()
    if serve:
        _start()


def classify(data: bytes) -> str:
    """The line that the toolkit reads."""
    from textsvm.mail.filter import Filter

    mail = Filter(STORE)
    try:
        decision = mail.classify(data)
    finally:
        mail.close()
    kind = "spam" if decision.kind == "spam" else "ham"
    return f"class={kind} score={decision.value:.8f} tfile=-"


def train(judge: str, data: bytes) -> None:
    """Learn a message as what it was judged to be."""
    kind = judge.lower()
    if kind not in ("spam", "ham"):
        raise InputError(f"the judgement is spam or ham, not {judge!r}")
    if _server() is not None:
        from textsvm.mail.client import Trouble, ask

        try:
            ask(_socket(), f"TELL SPAMC/1.5\r\nMessage-class: {kind}\r\nSet: local\r\n", data, PATIENCE)
        except Trouble as error:
            raise InputError(str(error)) from error
        return
    from textsvm.mail.filter import Filter

    mail = Filter(STORE)
    try:
        mail.learn(data, kind)
    finally:
        mail.close()


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
        raise InputError(f"the server does not start: see {STORE / 'server.log'}")


def _server() -> int | None:
    """The process that answers at the socket, if any."""
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


def _read(file: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror}") from error


if __name__ == "__main__":
    main()
