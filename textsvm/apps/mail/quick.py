"""Fast path of `textsvm mail classify` and textsvm-bogofilter, without importing the program or NumPy.

The server decides, or without a server this process. After an unusual option or a failure the functions
return None, and the full program runs. Like `client.py`, this module imports almost nothing.
"""

from __future__ import annotations

import os
import sys
import time

from textsvm.apps.mail import client

TYPE_CHECKING = False  # the module `typing` would take a third of the time
if TYPE_CHECKING:
    from collections.abc import Callable

_CONFIGURATIONS = ("/etc/bogofilter.cf", "~/.bogofilter.cf")
_LONG = {"--passthrough": "-p", "--embed": "-e", "--terse": "-t"}
DAEMON = "--daemon"
#: Seconds in which a server that `--daemon` started is not started again while its process runs.
_STARTING = 20.0
#: The same if its process has ended.
_ENDED = 5.0


def main() -> None:
    """Entry point of the console script textsvm-bogofilter."""
    run(bogofilter, sys.argv[1:])
    sys.argv = [word for word in sys.argv if word != DAEMON]
    from textsvm.apps.mail.bogofilter import main

    main()


def run(program: Callable[[list[str]], int | None], arguments: list[str]) -> None:
    """End the process with the exit code of `bogofilter` or `classify`, unless it is None."""
    try:
        code = program(arguments)
    except Exception as error:  # Python's own exit code would mean ham
        client.print_error(error, "textsvm-bogofilter" if program is bogofilter else "textsvm")
        code = client.ERROR
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # NumPy would start threads, which take 60 ms
    if code is not None:
        os._exit(code)  # an ordinary exit would take time to tear down modules


def bogofilter(arguments: list[str]) -> int | None:
    """Exit code of textsvm-bogofilter; None if the full program has to run."""
    parsed = _parse(arguments, "petTuvsnSNC", "-d")
    if parsed is None:
        return None
    flags, store = parsed
    register = "".join(letter for letter in "SNsn" if letter in flags)
    wrong = register not in ("", "s", "n", "Sn", "Ns") or ("u" in flags and register)
    counting = flags.count("v") > 1 or ("v" in flags and ("u" in flags or "p" in flags or register))
    if wrong or counting or ("C" not in flags and _is_configured()):
        return None
    kind = {"": "", "s": "spam", "n": "ham"}[register[-1:]]
    return _with_server(store or os.environ.get("BOGOFILTER_DIR", ""), flags, "bogofilter", kind)


def classify(arguments: list[str]) -> int | None:
    """Exit code of `textsvm mail classify`; None if the full program has to run."""
    header = "x-bogosity" if "--bogofilter" in arguments else "textsvm"
    words = [_LONG.get(word, word) for word in arguments if word not in ("-", "--bogofilter")]
    parsed = _parse(words, "petT", "--store")
    if parsed is None or ("p" in parsed[0] and {"t", "T"} & {*parsed[0]}):
        return None
    flags, store = parsed
    return _with_server(store, flags if {"p", "t", "T"} & {*flags} else flags + "k", header)


def _parse(arguments: list[str], letters: str, folder: str) -> tuple[str, str] | None:
    """Letters of the options, "d" for --daemon, and the folder of the lessons; None for anything else."""
    flags, store, rest = "", "", list(arguments)
    joined = folder + "=" if folder.startswith("--") else folder
    while rest:
        word = rest.pop(0)
        if word == DAEMON:
            flags += "d"
        elif word == folder and rest:
            store = rest.pop(0)
        elif word.startswith(joined) and len(word) > len(joined):
            store = word[len(joined) :]
        elif word[:1] == "-" and len(word) > 1 and not word[1:].strip(letters):
            flags += word[1:]
        else:
            return None
    return flags, store


def _is_configured() -> bool:
    """Whether a configuration file of Bogofilter has a setting."""
    for name in _CONFIGURATIONS:
        try:
            with open(os.path.expanduser(name), "rb") as stream:
                if any(line.strip()[:1] not in (b"", b"#") for line in stream):
                    return True
        except FileNotFoundError:
            pass
        except OSError:
            return True
    return False


def _with_server(store: str, flags: str, header: str, kind: str = "") -> int | None:
    """Classify or learn the message on stdin with the server; None, and stdin as before, if it fails."""
    path = client.socket_path(store)
    serving = os.path.exists(path)
    if not serving and "d" in flags:
        start_server(path)
    if not serving and (kind or "u" in flags):
        return None
    parts = []
    while part := os.read(0, 1 << 18):
        parts.append(part)
    data = b"".join(parts)
    try:
        code = 0
        pieces: list[bytes | memoryview] = [data] if "p" in flags else []
        if not kind:
            decided, pieces = _decide(path if serving else "", store, flags, header, data)
            code = client.CODES[decided]
            kind = decided if "u" in flags and decided != "unsure" else ""
        if kind:  # before any output: a message is written once
            client.ask(path, client.LEARN.format(kind), data, client.LEARN_TIMEOUT)
    except Exception:
        _put_back(data)
        if "d" in flags:
            start_server(path)
        return None
    client.write(1, *pieces)
    return 0 if "e" in flags else code


def _decide(
    path: str, store: str, flags: str, header: str, data: bytes
) -> tuple[str, list[bytes | memoryview]]:
    """Kind and output of a decision by the server at `path`, or without a path by this process."""
    verb = "HEADERS" if "p" in flags else "CHECK"
    if path:
        answer = client.ask(path, f"{verb} SPAMC/1.5\r\nFilter: {header}\r\n", data)
    else:
        from textsvm.apps.mail import filter, spamd

        with filter.Filter(store or None) as mail:
            parts = spamd.check(spamd.Request(verb, 1.5, filter=header), data, mail)
        answer = client.parse_answer(b"".join(parts))
    kind, _, marked = client.decision(answer, data)
    score, line = float(answer[0]["Exact"]), answer[0]["Line"]
    if "p" in flags:
        return kind, marked
    if {"T", "t", "k"} & {*flags}:
        line = decision_line(kind, score, flags, answer[0].get("Category", "").partition(" ")[0])
    elif "v" not in flags:
        return kind, []
    return kind, [f"{line}\n".encode()]


def decision_line(kind: str, score: float, flags: str, category: str = "") -> str:
    """Printed form of a decision: with -TT the score, with -T and -t a letter and the score.

    The category follows, except with -T.
    """
    if flags.count("T") > 1:
        return f"{score:.16f}"
    if "T" in flags:
        return f"{kind[0].upper()} {score:g}"
    return f"{kind[0].upper() if 't' in flags else kind} {score:.6f} {category}".rstrip()


def _put_back(data: bytes) -> None:
    """Make the message readable on stdin again."""
    if hasattr(os, "memfd_create"):
        handle = os.memfd_create("message")
    else:
        from tempfile import mkstemp

        handle, name = mkstemp()
        os.unlink(name)
    client.write(handle, data)
    os.lseek(handle, 0, os.SEEK_SET)
    os.dup2(handle, 0)


def start_server(path: str) -> None:
    """Start the server of an existing store in the background, unless it runs or is starting.

    The file SOCKET.start holds its process id. Nothing starts if that file cannot be written.
    """
    folder, mark = os.path.dirname(path), f"{path}.start"
    try:
        if not os.path.exists(os.path.join(folder, "lessons.sqlite")) or client.listens(path):
            return
        age = time.time() - os.stat(mark).st_mtime if os.path.exists(mark) else _STARTING
        if age < _ENDED:
            return
        if age < _STARTING:
            try:
                with open(mark, "rb") as stream:
                    os.kill(int(stream.read()), 0)  # an error if the process is not of this user
                return
            except ProcessLookupError:
                pass
        handle = os.open(mark, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        command = [sys.executable, "-m", "textsvm", "mail", "serve", "--store", folder]
        files: list[tuple[object, ...]] = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDWR, 0)]
        files += [(os.POSIX_SPAWN_DUP2, 0, 1), (os.POSIX_SPAWN_DUP2, 0, 2)]
        pid = os.posix_spawn(sys.executable, command, os.environ, file_actions=files, setsid=True)
        client.write(handle, b"%d\n" % pid)
        os.close(handle)
    except (OSError, ValueError):
        pass
