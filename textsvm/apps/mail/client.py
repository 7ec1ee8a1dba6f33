"""The program textsvm-mail-client: send a message to the resident filter; mail is never lost or changed.

It must start fast, so it imports almost nothing: `_socket` is the C module under `socket` and loads in a
tenth of the time, without `selectors` and `enum`; options are parsed by hand. The protocol is that of spamd
(`spamd.py`). This file also runs alone, where textsvm is not installed.
"""

from __future__ import annotations

import _socket
import os
import sys
import time

USAGE = """\
Usage: textsvm-mail-client [-p] [-e] [-t] [FILE]          classify: exit 0 spam, 1 ham, 2 unsure, 3 error
       textsvm-mail-client learn --as spam|ham|NAME [FILE]  exit 0, or 3: error; NAME: a category
       textsvm-mail-client unlearn [FILE]                 exit 0, or 3: error

Asks the server that `textsvm mail serve` runs about a message: a file, or standard input.

  -p            pass the message on to standard output, with the decision in its header;
                where there is no decision, as it came, with exit 3
  -e            exit 0 whatever the decision is, and 3 where there is none
  -t            print the decision on a line: S, H or U, P(spam), and the category if there is one
  --socket PATH   the server's socket (default: TEXTSVM_MAIL_SOCKET, or "socket" in the store's folder)
  --store FOLDER  the store's folder (default: TEXTSVM_MAIL, or ~/.local/share/textsvm)
  --timeout SECONDS  to wait for the server (default: 10, for lessons 60)
"""
CODES = {"spam": 0, "ham": 1, "unsure": 2}  #: Exit codes of the filter's programs: of decisions
ERROR = 3  #: Of errors
#: Requests that learn a message as a class, and that forget it.
LEARN = "TELL SPAMC/1.5\r\nMessage-class: {}\r\nSet: local\r\n"
FORGET = "TELL SPAMC/1.5\r\nRemove: local\r\n"
NO_CATEGORY = (
    "a message is learnt as spam, as ham, or as a category, whose name has up to 40 lower-case letters, "
    "digits and inner hyphens and is not unsure; got {!r}"
)
TIMEOUT = 10.0  #: Seconds to wait for a decision
LEARN_TIMEOUT = 60.0  #: Seconds to wait for a lesson
SPOOL = "spool"  #: Folder beside the socket, of lessons that no server answered
_FLAGS = ("-p", "-e", "-t", "-pe", "-ep", "-pt", "-pet")
_VALUED = ("--socket", "--store", "--timeout", "--as")


class Trouble(Exception):
    """Error message: why there is no answer."""


class NoAnswer(Trouble):
    """There is no server, or it does not answer."""


def main() -> None:
    """Entry point of the console script."""
    try:
        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        code = ERROR
    sys.stdout = None  # unused: all output goes through os.write
    os._exit(code)  # an ordinary exit would take time to tear down modules


def run(arguments: list[str]) -> int:
    """Run the command line; return its exit code."""
    if "-h" in arguments or "--help" in arguments:
        write(1, USAGE.encode())
        return 0
    try:
        verb, flags, values, files = _parse(arguments)
        if files and files[0] != "-":
            with open(files[0], "rb") as stream:
                data = stream.read()
        else:
            data = sys.stdin.buffer.read()
    except Exception as error:
        print_error(error)
        pass_on(arguments)
        return ERROR
    try:
        return _run(verb, flags, values, data)
    except Exception as error:  # of any kind: Python's own exit code would mean ham
        print_error(error)
    if "-p" in flags:
        try:
            write(1, data)
        except OSError as error:
            print_error(error)
    return ERROR


def is_category(name: str) -> bool:
    """Whether a category can have this name, which becomes a part of a header field's name."""
    if name in CODES or len(name) > 40 or "-" in name[:1] + name[-1:]:
        return False
    letters = name.replace("-", "")
    return letters.isalnum() and letters.isascii() and letters == letters.lower()


def store_folder(store: str = "") -> str:
    """Folder of a store: `store`, else TEXTSVM_MAIL, else in the data folder of this user."""
    if store := store or os.environ.get("TEXTSVM_MAIL", ""):
        return store
    data = os.environ.get("XDG_DATA_HOME", "")
    return os.path.join(data if os.path.isabs(data) else os.path.expanduser("~/.local/share"), "textsvm")


def socket_path(store: str = "") -> str:
    """Path of the socket of a store's server."""
    path = "" if store else os.environ.get("TEXTSVM_MAIL_SOCKET", "")
    return path or os.path.join(store_folder(store), "socket")


def ask(path: str, request: str, data: bytes, seconds: float = TIMEOUT) -> tuple[dict[str, str], bytes]:
    """Fields and body of the answer of the server at a socket to a request with a message.

    The request is a first line and fields, each ended by CR LF; the length of the message is added.
    """
    if not hasattr(_socket, "AF_UNIX"):  # Windows
        raise Trouble("there are no Unix sockets on this system; use `textsvm mail classify`")
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    end = time.monotonic() + seconds
    try:
        _connect(connection, path, end)
        connection.sendall(f"{request}Content-length: {len(data)}\r\n\r\n".encode())
        try:
            connection.sendall(data)
            connection.shutdown(_socket.SHUT_WR)
        except OSError as error:  # the server may have refused the rest, with a reason
            if isinstance(error, TimeoutError):
                raise
        return parse_answer(_receive(connection, end))
    except TimeoutError:
        raise NoAnswer(f"the server at {path} has not answered in {seconds:g} seconds") from None
    except PermissionError as error:
        raise Trouble(f"{path}: {error.strerror}: join the group that owns it (adduser)") from None
    except OSError as error:
        raise NoAnswer(f"no server at {path} ({error.strerror or error}): run `textsvm mail serve`") from None
    finally:
        connection.close()


def _connect(connection: _socket.socket, path: str, end: float) -> None:
    while True:
        try:
            connection.settimeout(max(end - time.monotonic(), 1e-3))
            return connection.connect(path)
        except BlockingIOError:  # more clients at once than the socket's queue holds
            if time.monotonic() > end:
                raise TimeoutError from None
            time.sleep(0.01)


def _receive(connection: _socket.socket, end: float) -> bytes:
    parts: list[bytes] = []
    while True:
        connection.settimeout(max(end - time.monotonic(), 1e-3))
        try:
            part = connection.recv(1 << 18)
        except ConnectionResetError:  # the server answered before it had read everything
            part = b""
        if not part:
            return b"".join(parts)
        parts.append(part)


def parse_answer(answer: bytes) -> tuple[dict[str, str], bytes]:
    """Fields and body of an answer; raise `Trouble` if it is an error or incomplete."""
    head, empty, body = answer.partition(b"\r\n\r\n")
    status, *lines = head.decode("utf-8", "replace").split("\r\n")
    words = status.split(" ", 2)
    if len(words) < 3 or not words[0].startswith("SPAMD/"):
        raise NoAnswer("the server closed the connection without an answer")
    if words[1] != "0":
        raise Trouble(f"the server says: {words[2].strip()}")
    fields = dict(line.split(": ", 1) for line in lines if ": " in line)
    if not empty or str(len(body)) != fields.get("Content-length", "0"):
        raise NoAnswer("the server closed the connection in the middle of its answer")
    return fields, body


def decision(answer: tuple[dict[str, str], bytes], data: bytes) -> tuple[str, str, list[bytes | memoryview]]:
    """Kind and score of an answer to CHECK or HEADERS; for HEADERS also the message with its new header."""
    fields, header = answer
    try:
        kind, score = fields["Decision"].lower().split(" ")
        marked: list[bytes | memoryview] = [header, memoryview(data)[int(fields.get("Replaced", 0)) :]]
    except (KeyError, ValueError):
        kind = ""
    if kind not in CODES:
        raise Trouble("the answer is not from a server of textsvm")
    return kind, score, marked


def _parse(arguments: list[str]) -> tuple[str, set[str], dict[str, str], list[str]]:
    """Verb, flags, options with values, and files."""
    flags: set[str] = set()
    values: dict[str, str] = {}
    words: list[str] = []
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if name in _VALUED:
            if not equals and not rest:
                raise Trouble(f"{name} needs a value; see --help")
            values[name] = value if equals else rest.pop(0)
        elif word in _FLAGS:
            flags.update(f"-{letter}" for letter in word[1:])
        elif word.startswith("-") and word != "-":
            raise Trouble(f"there is no option {word}; see --help")
        else:
            words.append(word)
    verb = words.pop(0) if words and words[0] in ("classify", "learn", "unlearn") else "classify"
    if len(words) > 1:
        raise Trouble(f"one message at a time, not {len(words)}; `textsvm mail` takes many")
    if (verb == "learn") != ("--as" in values):
        raise Trouble("learn takes --as spam, ham or a category, and nothing else does; see --help")
    if (kind := values.get("--as", "ham")) not in ("spam", "ham") and not is_category(kind):
        raise Trouble(NO_CATEGORY.format(kind))
    if {"--socket", "--store"} <= values.keys():
        raise Trouble("--socket and --store both name the server: give one of them")
    if flags and verb != "classify":
        raise Trouble(f"{verb} takes no {' '.join(sorted(flags))}; see --help")
    try:
        valid = 0 < float(values.get("--timeout", 1)) < 1e6
    except ValueError:
        valid = False
    if not valid:
        raise Trouble(f"--timeout must be a positive number of seconds, got {values['--timeout']}")
    return verb, flags, values, words


def _run(verb: str, flags: set[str], values: dict[str, str], data: bytes) -> int:
    """Ask the server, and write its answer; returns the exit code."""
    path = values.get("--socket") or socket_path(values.get("--store", ""))
    if verb != "classify":
        request = LEARN.format(values["--as"]) if verb == "learn" else FORGET
        try:
            ask(path, request, data, float(values.get("--timeout", LEARN_TIMEOUT)))
        except NoAnswer as trouble:
            leave(os.path.join(os.path.dirname(path), SPOOL), values.get("--as", ""), data, trouble)
        return 0
    request = f"{'HEADERS' if '-p' in flags else 'CHECK'} SPAMC/1.5\r\n"
    answer = ask(path, request, data, float(values.get("--timeout", TIMEOUT)))
    kind, score, marked = decision(answer, data)
    if category := answer[0].get("Category", "").partition(" ")[0]:
        score += f" {category}"
    if "-p" in flags:
        write(1, *marked)
    if "-t" in flags:
        write(2 if "-p" in flags else 1, f"{kind[0].upper()} {score}\n".encode())
    return 0 if "-e" in flags else CODES[kind]


def leave(folder: str, kind: str, data: bytes, trouble: NoAnswer) -> None:
    """Leave a lesson (of no kind: to forget) in the spool, which the server reads at its start.

    The server creates the folder. The file is complete and on disk when it has its name.
    """
    name = f"{time.time_ns()}.{os.getpid()}.{kind}"
    path, temporary = os.path.join(folder, name), os.path.join(folder, f".{name}")
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.fchmod(handle, 0o640)  # the server of a group reads it, whatever the umask is
            write(handle, data)
            os.fsync(handle)
        finally:
            give_to_owner(handle, folder)
        os.rename(temporary, path)
    except OSError:
        raise trouble from None
    print_error(f"{trouble}; the message waits in {folder}, and the server learns it when it starts")


def create_file(path: str) -> None:
    """Create an empty file for the owner of its folder alone, unless it exists."""
    try:  # noqa: SIM105 (contextlib would take a tenth of the time)
        give_to_owner(os.open(path, os.O_CREAT | os.O_EXCL, 0o600), os.path.dirname(path))
    except FileExistsError:
        pass


def give_to_owner(handle: int, folder: str) -> None:
    """Close a new file; a file of root is given to the owner of its folder, as the server of the store."""
    try:
        if os.name == "posix" and os.geteuid() == 0:
            owner = os.stat(folder or ".")
            os.fchown(handle, owner.st_uid, owner.st_gid)
    finally:
        os.close(handle)


def pass_on(arguments: list[str]) -> None:
    """After wrong usage copy the message on stdin unchanged if the options contain -p: no mail is lost."""
    short = any(word[:1] == "-" and word[1:2] != "-" and "p" in word for word in arguments)
    try:
        if (short or "--passthrough" in arguments) and not sys.stdin.isatty():
            while part := sys.stdin.buffer.read(1 << 20):
                sys.stdout.buffer.write(part)
            sys.stdout.buffer.flush()
    except Exception:  # the usage error is reported already
        pass


def write(handle: int, *parts: bytes | memoryview) -> None:
    """Write all bytes to a file handle."""
    for part in parts:
        left = memoryview(part)
        while len(left):
            left = left[os.write(handle, left) :]


def print_error(error: BaseException | str, program: str = "textsvm-mail-client") -> None:
    """Write an error message to standard error."""
    if isinstance(error, OSError) and error.filename:
        message = f"{program}: {error.filename}: {error.strerror or error}\n"
    else:
        message = f"{program}: {error or 'out of memory'}\n"
    try:  # noqa: SIM105 (contextlib would take a tenth of the time)
        os.write(2, message.encode("utf-8", "backslashreplace"))
    except OSError:
        pass


if __name__ == "__main__":
    main()
