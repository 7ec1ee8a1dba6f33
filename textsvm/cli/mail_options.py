"""Options that several mail commands share."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from textsvm.cli.options import option

if TYPE_CHECKING:
    from textsvm.mail.filter import Filter


class MessageKind(Enum):
    """Classes of messages."""

    spam = "spam"
    ham = "ham"


Store = Annotated[
    Path | None,
    option(
        "Folder of the mail store.",
        envvar="TEXTSVM_MAIL", metavar="DIR", show_default="~/.local/share/textsvm",
    ),
]  # fmt: skip
Messages = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="FILES",
        help="Messages: files, mboxes, Maildirs, folders; - is a message on stdin.",
        show_default="-",
    ),
]
As = Annotated[MessageKind, option("Class of the messages.", "--as", show_default=False)]


def open_filter(store: Path | None, **options: Any) -> Filter:
    """Open the filter of a store, by default that of the user."""
    from textsvm.mail.filter import Filter
    from textsvm.mail.lessons import store_folder

    return Filter(store_folder(store), **options)


def read_messages(files: list[str] | None) -> Iterator[tuple[str, bytes]]:
    """Names and bytes of the given messages."""
    for file in files or ["-"]:
        if file == "-":
            yield "-", sys.stdin.buffer.read()
        else:
            from textsvm.mail.mailboxes import raw_messages

            yield from raw_messages(file)


def size_of(files: list[str] | None) -> int:
    """Total size of the given files in bytes, stdin not counted."""
    from textsvm.mail.mailboxes import size_of

    return sum(size_of(file) for file in files or [] if file != "-")


def messages(n: int) -> str:
    """Number of messages in words."""
    return f"{n:,} message" + "s" * (n != 1)
