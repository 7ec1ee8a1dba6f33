"""Options that several commands for mail take."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from textsvm.mail.filter import Filter


class Kind(Enum):
    """What a message can be."""

    spam = "spam"
    ham = "ham"


Store = Annotated[
    Path | None,
    typer.Option(
        envvar="TEXTSVM_MAIL",
        metavar="DIR",
        help="Folder of the lessons.",
        show_default="~/.local/share/textsvm",
    ),
]
Messages = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="FILES",
        help="Messages: files, mboxes, Maildirs, folders; - is one message on stdin.",
        show_default="-",
    ),
]
As = Annotated[Kind, typer.Option("--as", help="What the messages are.", show_default=False)]


def open_filter(store: Path | None, **options: Any) -> Filter:
    """The filter of the store that is meant."""
    from textsvm.mail.filter import Filter
    from textsvm.mail.lessons import store_folder

    return Filter(store_folder(store), **options)


def read_messages(files: list[str] | None) -> Iterator[tuple[str, bytes]]:
    """Names and bytes of the messages that were given."""
    import sys

    for file in files or ["-"]:
        if file == "-":
            yield "-", sys.stdin.buffer.read()
        else:
            from textsvm.mail.mailboxes import raw_messages

            yield from raw_messages(file)


def size_of(files: list[str] | None) -> int:
    """Bytes of the messages that were given, without those on stdin."""
    from textsvm.mail.mailboxes import size_of

    return sum(size_of(file) for file in files or [] if file != "-")


def messages(n: int) -> str:
    """So many messages, in words."""
    return f"{n:,} message" + "s" * (n != 1)
