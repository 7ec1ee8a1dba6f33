"""What textsvm-bogofilter reads: a message, an mbox, or files and folders that are named."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from textsvm.errors import InputError
from textsvm.mail.bogofilter_options import Given

# Bogofilter relies on the empty line before, and so does this.
_FROM = re.compile(rb"(?:\A|(?<=\n\n)|(?<=\n\r\n))From ")


def messages(options: Given) -> Iterator[tuple[str, bytes]]:
    """The raw messages that are meant, each with the name of its file; "" for standard input and -I.

    Raises
    ------
    InputError
        If something is not there or cannot be read.
    """
    mbox = "M" in options.flags
    if "b" in options.flags:
        names = [line.rstrip(b"\r\n") for line in sys.stdin.buffer]
        yield from _objects([name.decode("utf-8", "surrogateescape") for name in names if name], mbox)
    elif "B" in options.flags:
        yield from _objects(options.objects, mbox)
    else:
        file = options.values.get("I")
        yield from _split("", sys.stdin.buffer.read() if file is None else _bytes(Path(file)), mbox)


def _objects(names: list[str], mbox: bool) -> Iterator[tuple[str, bytes]]:
    for name in names:
        path = Path(name)
        for file in _files(path) if path.is_dir() else [path]:
            yield from _split(str(file), _bytes(file), mbox)


def _files(folder: Path) -> list[Path]:
    """The messages of a Maildir, or of an MH folder: files whose names are numbers."""
    inner = [folder / part for part in ("new", "cur") if (folder / part).is_dir()]
    if inner:
        return [file for part in inner for file in sorted(part.iterdir()) if not file.name.startswith(".")]
    return sorted(
        (file for file in folder.iterdir() if file.name.isdecimal()), key=lambda file: int(file.name)
    )


def _split(name: str, data: bytes, mbox: bool) -> Iterator[tuple[str, bytes]]:
    starts = [match.start() for match in _FROM.finditer(data)] if mbox else []
    for start, end in zip([0, *starts], [*starts, len(data)], strict=True):
        if end > start or not starts:
            yield name, data[start:end]


def _bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror}") from error
