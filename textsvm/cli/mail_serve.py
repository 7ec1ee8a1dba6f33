"""textsvm mail serve: the filter as a resident process that mail programs ask."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from textsvm.cli.console import Console, WrongUsage
from textsvm.cli.mail_options import Store, open_filter
from textsvm.errors import InputError

if TYPE_CHECKING:
    from socket import socket as Socket

    from textsvm.mail.server import Interface

_Port = Annotated[
    int | None,
    typer.Option("--tcp", metavar="PORT", min=1, max=65535, help="Answer spamc at 127.0.0.1:PORT too."),
]
_Milter = Annotated[
    str | None,
    typer.Option(
        metavar="PATH|PORT",
        help="Be a milter at a Unix socket or at 127.0.0.1:PORT too; needs the extra `mail`.",
    ),
]
_EXTRA = "needs the extra `mail`"
_Smtp = Annotated[
    int | None,
    typer.Option(metavar="PORT", help=f"Be an SMTP content filter at 127.0.0.1:PORT too; {_EXTRA}."),
]
_Lmtp = Annotated[
    int | None,
    typer.Option(metavar="PORT", help=f"Be an LMTP content filter at 127.0.0.1:PORT too; {_EXTRA}."),
]
_Next = Annotated[
    str | None,
    typer.Option("--next", metavar="HOST:PORT|PATH", help="Where a content filter hands mail on to."),
]


def serve(
    store: Store = None,
    socket: Annotated[
        Path | None,
        typer.Option(
            envvar="TEXTSVM_MAIL_SOCKET",
            metavar="PATH",
            help="Where to answer spamc and textsvm-mail-client.",
            show_default='"socket" in the store\'s folder',
        ),
    ] = None,
    tcp: _Port = None,
    milter: _Milter = None,
    smtp: _Smtp = None,
    lmtp: _Lmtp = None,
    next: _Next = None,
) -> None:
    """Keep the filter in memory and answer mail programs, until SIGTERM.

    textsvm mail serve &

    spamc -U ~/.local/share/textsvm/socket < message.eml

    With systemd's socket activation it answers at the sockets that it is given.
    """
    if os.name == "nt":
        raise InputError("`textsvm mail serve` needs Unix sockets; on Windows use `textsvm mail classify`")
    if (smtp or lmtp) and not next:
        raise WrongUsage("a content filter hands mail on: give --next HOST:PORT")
    if next and not ("/" in next or next.rpartition(":")[2].isdecimal()):
        raise WrongUsage(f"--next {next} is neither HOST:PORT nor the path of a socket")
    from textsvm.mail import server

    console = Console()
    mail = open_filter(store, create=True)
    path = socket or mail.lessons.path.with_name("socket")
    sockets, own = _sockets(path, tcp)
    console.say(f"answering at {', '.join(map(_name, sockets))}")
    try:
        server.serve(
            mail, sockets, console.say, _interfaces(milter, {"smtp": smtp, "lmtp": lmtp}, next or "")
        )
    finally:
        if own:
            path.unlink(missing_ok=True)


def _interfaces(milter: str | None, ports: dict[str, int | None], next: str) -> list[Interface]:
    """The other protocols of the options."""
    from functools import partial

    from textsvm.mail import mail_servers

    interfaces: list[Interface] = [partial(mail_servers.milter, milter)] if milter else []
    for protocol, port in ports.items():
        if port:
            interfaces.append(partial(mail_servers.content_filter, port, next, protocol == "lmtp"))
    return interfaces


def _sockets(path: Path, tcp: int | None) -> tuple[list[Socket], bool]:
    """Listening sockets, and whether the one at `path` is this process's own."""
    from textsvm.mail import server

    passed = server.passed_sockets()
    found = passed or [server.listen(path)]
    return [*found, *([server.listen_tcp(tcp)] if tcp else [])], not passed


def _name(socket: Socket) -> str:
    address = socket.getsockname()
    return str(address) if isinstance(address, str) else ":".join(map(str, address[:2]))
