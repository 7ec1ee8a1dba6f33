"""Files -> lines of text: those in memory as a whole, those on disk a line at a time."""

from __future__ import annotations

import io
from collections.abc import Iterator
from functools import partial

from textsvm.errors import InputError
from textsvm.readers.charsets import byte_order_mark, decode
from textsvm.readers.opened import LONGEST, File, FileOnDisk

Problems = list[tuple[str, str]]


def lines_of(file: File | FileOnDisk, problems: Problems, newline: str = "\n") -> Iterator[str]:
    r"""The lines of a file with their ends.

    Parameters
    ----------
    file : File or FileOnDisk
    problems : list of (str, str)
        Gets which bytes are no text.
    newline : {"\n", ""}
        What ends a line: with "", a lone carriage return too.
    """
    if not isinstance(file, File):
        return _streamed(file, problems, newline)
    text, problem = decode(file.data)
    if problem:
        problems.append((file.name, problem))
    return io.StringIO(text, newline=newline)


def _streamed(file: FileOnDisk, problems: Problems, newline: str) -> Iterator[str]:
    mark, charset = byte_order_mark(file.head)
    with file.open() as stream:
        stream.read(len(mark))
        if charset != "utf-8":
            yield from io.TextIOWrapper(stream, charset, "replace", newline)
            return
        noted = False
        for number, raw in enumerate(iter(partial(stream.readline, LONGEST), b""), 1):
            if len(raw) == LONGEST and not raw.endswith(b"\n"):
                raise InputError(f"{file.name}, line {number} has more than {LONGEST:,} bytes; break it")
            try:
                line = raw.decode()
            except UnicodeDecodeError:
                line, noted = _not_utf8(raw, f"{file.name}, line {number}", problems, noted), True
            if newline or "\r" not in line[:-2]:
                yield line
            else:
                yield from io.StringIO(line, newline="")


def _not_utf8(raw: bytes, where: str, problems: Problems, noted: bool) -> str:
    """A line that is not UTF-8, read as Windows-1252; the first of a file is named."""
    if not noted:
        problems.append((where, "bytes that are not UTF-8 were read as Windows-1252"))
    return decode(raw)[0]
