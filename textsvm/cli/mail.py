"""textsvm mail: a mail filter that learns.

The commands around a store of training messages. `mail_lessons` has the commands that change or export it;
here are `classify` and `serve`, and the exit code of errors, 3, because 1 and 2 mean ham and unsure.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from textsvm.cli import mail_lessons as lessons
from textsvm.cli import options
from textsvm.cli.console import USAGE_ERROR, Console, WrongUsage, json_line, print_error, usage_message
from textsvm.cli.mail_lessons import Messages, Store, open_filter, read_messages
from textsvm.cli.options import Command, Group, option, option_field
from textsvm.errors import InputError, printable
from textsvm.mail import client, quick
from textsvm.mail.raw_message import RawMessage, marked_pieces

if TYPE_CHECKING:
    from socket import socket as Socket

    from textsvm.mail.decision import Decision
    from textsvm.mail.filter import Filter
    from textsvm.mail.server import Interface

#: Exit code of errors, as Bogofilter's.
FAILED = 3
_EXTRA = "needs the extra `mail`"
#: Options with which the message goes to stdout.
_PASSTHROUGH = re.compile(r"-[A-Za-z]*p[A-Za-z]*|--passthrough")


class MailGroup(Group):
    """Command group whose errors, wrong usage included, have exit code 3."""

    def make_context(self, info_name: Any, args: list[str], parent: Any = None, **extra: Any) -> Any:
        given = list(args)
        with failures_exit_with_3(given):
            context = super().make_context(info_name, args, parent, **extra)
        context.meta[__name__] = given
        return context

    def invoke(self, ctx: Any) -> Any:
        with failures_exit_with_3(ctx.meta[__name__]):
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result


@contextmanager
def failures_exit_with_3(arguments: list[str]) -> Iterator[None]:
    """Turn an error of the block into a sentence on stderr and exit code 3.

    After wrong usage with --passthrough the message is copied to stdout, so that no mail is lost.
    """
    try:
        yield
    except (typer.Exit, typer.Abort, KeyboardInterrupt):
        raise
    except (USAGE_ERROR, WrongUsage) as error:
        if isinstance(error, WrongUsage):
            print_error(str(error))
        elif message := usage_message(error):
            print_error(f"{message} (see textsvm mail --help)")
        if any(map(_PASSTHROUGH.fullmatch, arguments)) and not sys.stdin.isatty():
            sys.stdout.buffer.write(sys.stdin.buffer.read())
            sys.stdout.flush()
        raise typer.Exit(FAILED) from error
    except Exception as error:  # the calling program knows only four exit codes
        print_error(_sentence(error))
        _drop_stdout()
        raise typer.Exit(FAILED) from error


def _sentence(error: Exception) -> str:
    if isinstance(error, InputError):
        return str(error)
    if isinstance(error, BrokenPipeError):
        return "standard output was closed by its reader"
    if isinstance(error, MemoryError):
        return "out of main memory"
    if isinstance(error, OSError):
        return f"{error.filename or 'input/output'}: {error.strerror or error}"
    return f"{type(error).__name__}: {error} (please report this)"


def _drop_stdout() -> None:
    """Discard unwritten output, so that Python does not fail at exit."""
    with suppress(OSError, ValueError):
        try:
            sys.stdout.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


_LETTERS = {"spam": "S", "ham": "H", "unsure": "U"}


@dataclass(frozen=True)
class Passing:
    """Output of the message itself."""

    passthrough: bool = option_field(
        "Write the message to stdout with the decision in its header.", "--passthrough", "-p", default=False
    )
    bogofilter: bool = option_field("-p: use Bogofilter's header, X-Bogosity.", "--bogofilter", default=False)
    embed: bool = option_field(
        "Exit with 0 for any decision, and 3 after errors.", "--embed", "-e", default=False
    )
    daemon: bool = option_field(
        "Start the store's server in the background if none runs.", "--daemon", default=False
    )


@dataclass(frozen=True)
class Form:
    """Form of the printed decision."""

    terse: bool = option_field("Print a letter (S, H, U) and the score.", "--terse", "-t", default=False)
    fixed: int = option_field(
        "As -t, in a fixed form for scripts; -TT: only 16 digits.",
        "-T",
        count=True,
        show_default=False,
        default=0,
    )
    verbose: bool = option_field(
        "Print the contributions of parts of the message; positive: spam.", "--verbose", "-v", default=False
    )
    json: bool = option_field("Print one JSON object per message.", "--json", default=False)


@options.with_groups
def classify(passing: Passing, form: Form, files: Messages = None, store: Store = None) -> None:
    """Classify messages. Exit codes: 0 spam, 1 ham, 2 unsure, 3 error; for several messages, of the last."""
    if passing.daemon:
        quick.start_server(client.socket_path(str(store or "")))
    if passing.passthrough:
        if form != Form():
            raise WrongUsage("-p does not go with -t, -T, -v and --json")
        decision = _pass_through(files, store, passing.bogofilter)
    else:
        decision = _print_decisions(files, store, form)
    from textsvm.mail.decision import CODES

    raise typer.Exit(0 if passing.embed else CODES[decision.kind])


def _pass_through(files: list[str] | None, store: Path | None, bogofilter: bool) -> Decision:
    """Write the message with the decision in its header, or unchanged after an error."""
    names = files or ["-"]
    if len(names) > 1:
        raise WrongUsage("-p takes a single message")
    data = sys.stdin.buffer.read() if names == ["-"] else Path(names[0]).read_bytes()
    written: list[bytes | memoryview] = [data]
    try:
        with open_filter(store) as opened:
            message = RawMessage(data)
            decision = opened.classify(message)
        written = marked_pieces(message, decision, bogofilter=bogofilter)
        return decision
    finally:
        sys.stdout.buffer.writelines(written)
        sys.stdout.buffer.flush()


def _print_decisions(files: list[str] | None, store: Path | None, form: Form) -> Decision:
    """Print the decision for each message; returns the last."""
    decision, names = None, files or ["-"]
    with open_filter(store) as opened:
        for name, data in read_messages(names):
            message = RawMessage(data)
            decision = opened.classify(message)
            shown = name if len(names) > 1 or name != names[0] else ""
            for line in _lines(opened, message, decision, shown, form):
                sys.stdout.write(line)
    if decision is None:
        raise WrongUsage("there is no message to classify")
    return decision


def _lines(opened: Filter, message: RawMessage, decision: Decision, name: str, form: Form) -> Iterator[str]:
    """Printed lines of a message."""
    reasons = opened.reasons(message) if form.verbose else []
    if form.json:
        fields = {"id": name or "-", "kind": decision.kind, "score": decision.score, "value": decision.value}
        yield json_line(fields | ({"reasons": dict(reasons)} if form.verbose else {}))
        return
    yield f"{printable(name)} {_short(decision, form)}\n".lstrip(" ")
    for part, weight in reasons:
        yield f"  {weight:+.4f} {printable(repr(part))}\n"


def _short(decision: Decision, form: Form) -> str:
    """Decision and score; with -t and -T in Bogofilter's terse forms."""
    if form.fixed > 1:
        return f"{decision.score:.16f}"
    if form.fixed:
        return f"{_LETTERS[decision.kind]} {decision.score:g}"
    return f"{_LETTERS[decision.kind] if form.terse else decision.kind} {decision.score:.6f}"


def serve(
    store: Store = None,
    socket: Annotated[
        Path | None,
        option(
            "Unix socket for spamc and textsvm-mail-client.",
            envvar="TEXTSVM_MAIL_SOCKET", metavar="PATH", show_default='"socket" in the store\'s folder',
        ),
    ] = None,
    tcp: Annotated[
        int | None,
        option("Also answer spamc at 127.0.0.1:PORT.", "--tcp", metavar="PORT", min=1, max=65535),
    ] = None,
    milter: Annotated[
        str | None,
        option(f"Be a milter at a Unix socket or 127.0.0.1:PORT; {_EXTRA}.", metavar="PATH|PORT"),
    ] = None,
    smtp: Annotated[
        int | None, option(f"Be an SMTP content filter at 127.0.0.1:PORT; {_EXTRA}.", metavar="PORT")
    ] = None,
    lmtp: Annotated[
        int | None, option(f"Be an LMTP content filter at 127.0.0.1:PORT; {_EXTRA}.", metavar="PORT")
    ] = None,
    next: Annotated[
        str | None, option("Next hop of a content filter.", "--next", metavar="HOST:PORT|PATH")
    ] = None,
) -> None:  # fmt: skip
    """Keep the filter in memory and answer mail programs until SIGTERM.

    textsvm mail serve &

    spamc -U ~/.local/share/textsvm/socket < message.eml

    With systemd socket activation it answers at the passed sockets.
    """
    if os.name == "nt":
        raise InputError("`textsvm mail serve` needs Unix sockets; on Windows use `textsvm mail classify`")
    if (smtp or lmtp) and not next:
        raise WrongUsage("a content filter needs --next HOST:PORT")
    if next and not ("/" in next or next.rpartition(":")[2].isdecimal()):
        raise WrongUsage(f"--next must be HOST:PORT or the path of a socket, got {next}")
    from textsvm.mail import server

    console = Console()
    mail = open_filter(store, create=True)
    path = socket or mail.lessons.path.with_name("socket")
    sockets, own = _sockets(path, tcp)
    server.preload()
    console.say(f"answering at {', '.join(map(_name, sockets))}")
    try:
        server.serve(
            mail, sockets, console.say, _interfaces(milter, {"smtp": smtp, "lmtp": lmtp}, next or "")
        )
    finally:
        if own:
            path.unlink(missing_ok=True)


def _interfaces(milter: str | None, ports: dict[str, int | None], next: str) -> list[Interface]:
    """Servers of the other protocols."""
    from textsvm.mail import mail_servers

    interfaces: list[Interface] = [partial(mail_servers.milter, milter)] if milter else []
    for protocol, port in ports.items():
        if port:
            interfaces.append(partial(mail_servers.content_filter, port, next, protocol == "lmtp"))
    return interfaces


def _sockets(path: Path, tcp: int | None) -> tuple[list[Socket], bool]:
    """Listening sockets, and whether this process created the socket at `path`."""
    from textsvm.mail import server

    passed = server.passed_sockets()
    sockets = passed or [server.listen(path)]
    return [*sockets, *([server.listen_tcp(tcp)] if tcp else [])], not passed


def _name(socket: Socket) -> str:
    address = socket.getsockname()
    return str(address) if isinstance(address, str) else ":".join(map(str, address[:2]))


mail = typer.Typer(
    cls=MailGroup,
    help="A mail filter that learns. Exit codes: 0 done or spam, 1 ham, 2 unsure, 3 failed.",
    no_args_is_help=True,
)
for command in (
    classify, lessons.learn, lessons.unlearn, lessons.relearn, lessons.status, lessons.export,
    lessons.import_, lessons.retrain, lessons.report, serve,
):  # fmt: skip
    mail.command(command.__name__.strip("_"), cls=Command)(command)
