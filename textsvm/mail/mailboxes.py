"""Where messages lie: a file each, an mbox, a Maildir, a folder of files (MH and others)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from mmap import ACCESS_READ, mmap
from pathlib import Path

from textsvm.errors import InputError
from textsvm.readers.mail import messages


def raw_messages(path: str | os.PathLike[str]) -> Iterator[tuple[str, bytes]]:
    """The messages at a path, each with its name.

    Parameters
    ----------
    path : path
        A file with a message, an mbox, a Maildir (its `new` and `cur`), or a folder whose files are messages
        or mboxes.

    Raises
    ------
    InputError
        If something cannot be read.
    """
    try:
        for file in _files(Path(path)):
            yield from _messages_of(file)
    except OSError as error:
        raise InputError(f"cannot read {error.filename or path}: {error.strerror}") from error


def size_of(path: str | os.PathLike[str]) -> int:
    """Bytes of the files at a path, 0 where that cannot be told."""
    try:
        return sum(file.stat().st_size for file in _files(Path(path)))
    except OSError:
        return 0


def _messages_of(file: Path) -> Iterator[tuple[str, bytes]]:
    with file.open("rb") as stream:
        if not os.fstat(stream.fileno()).st_size:  # nothing, or a pipe
            yield str(file), stream.read()
            return
        with mmap(stream.fileno(), 0, access=ACCESS_READ) as data:
            yield from messages(str(file), data)


def _files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
    elif (path / "cur").is_dir():
        for folder in (path / "new", path / "cur"):
            if folder.is_dir():
                yield from _visible(folder)
    else:
        for inner, inside, _ in os.walk(path):
            inside[:] = sorted(name for name in inside if not name.startswith("."))
            yield from _visible(Path(inner))


def _visible(folder: Path) -> list[Path]:
    return sorted(one for one in folder.iterdir() if one.is_file() and not one.name.startswith("."))
