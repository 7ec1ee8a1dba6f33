"""The records of FASTA and FASTQ files: a megabyte is read, decoded and split at a time.

FASTA: a header that begins with >, and lines of letters up to the next one; lines that begin with ; are comments.
FASTQ: four lines a record, @ header, letters, +, as many qualities as letters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from textsvm.errors import InputError
from textsvm.readers.charsets import byte_order_mark, decode
from textsvm.readers.decoded import Problems, lines_of
from textsvm.readers.opened import File, FileOnDisk

#: Bytes that are read at once; lines, where characters have other than one byte each.
BLOCK, LINES = 1 << 20, 1 << 14
_COMMENT = re.compile(r"^;.*", re.MULTILINE)


class Record(NamedTuple):
    """A record: its header without the first character, its letters, and the line that it begins in."""

    header: str
    letters: str
    line: int


def is_fastq(head: bytes) -> bool:
    """Whether a file begins as FASTQ does."""
    return decode(head[:256])[0].lstrip().startswith("@")


def records_of(file: File | FileOnDisk, problems: Problems) -> Iterator[Record]:
    """The records of a file, with whatever stands in their lines but for the line ends.

    Raises
    ------
    InputError
        If text stands before the first header of FASTA, or four lines are no record of FASTQ.
    """
    blocks = _blocks(file, problems)
    return _fastq(blocks, file.name) if is_fastq(file.head) else _fasta(blocks, file.name)


def _fasta(blocks: Iterator[str], name: str) -> Iterator[Record]:
    line, pending = 1, list[str]()  # the last record of a block may go on in the next one
    for block in blocks:
        if block.startswith(";") or "\n;" in block:
            block = _COMMENT.sub("", block)
        first, *records = f"\n{block}".split("\n>")
        if pending:
            pending.append(first[1:] if first else pending.pop()[:-1])
        elif text := first.strip():
            line += first[: first.index(text)].count("\n") - 1
            raise InputError(f"{name}, line {line}: {text[:20]!r} stands before the first >, so it is no FASTA")
        else:
            line += first.count("\n") - (not records)
        for record in records:
            if pending:
                text = "".join(pending)
                yield _record(text, line)
                line += text.count("\n") + 1
            pending = [record]
    if pending:
        yield _record("".join(pending), line)


def _record(text: str, line: int) -> Record:
    header, _, letters = text.partition("\n")
    return Record(header, letters.replace("\n", ""), line)


def _fastq(blocks: Iterator[str], name: str) -> Iterator[Record]:
    count, lines = 0, [""]  # the last line goes on in the next block
    for block in blocks:
        first, *others = block.split("\n")
        lines = [*lines[:-1], lines[-1] + first, *others]
        whole = (len(lines) - 1) // 4 * 4
        for fields in zip(*(lines[i:whole:4] for i in range(4)), strict=True):
            yield _of_four(fields, name, count)
            count += 1
        lines = lines[whole:]
    if any(lines):
        yield _of_four((*lines, "", "", "", "")[:4], name, count)


def _of_four(fields: tuple[str, ...], name: str, count: int) -> Record:
    header, letters, plus, qualities = fields
    where = f"{name}, record {count + 1} (line {4 * count + 1})"
    if not header.startswith("@") or not plus.startswith("+"):
        found, wanted = (plus, "its third line does not begin with +") if header.startswith("@") else (
            header, "it does not begin with @"
        )
        raise InputError(f"{where}: {wanted} but is {found[:20]!r}; FASTQ is read with four lines a record")
    if len(letters) != len(qualities):
        raise InputError(
            f"{where} has {len(letters):,} letters and {len(qualities):,} qualities; the file is damaged or cut off"
        )
    return Record(header[1:], letters, 4 * count + 1)


def _blocks(file: File | FileOnDisk, problems: Problems) -> Iterator[str]:
    """The text of a file in pieces that end where lines do; its line ends are line feeds."""
    mark, charset = byte_order_mark(file.head)
    if charset != "utf-8":
        lines = lines_of(file, problems, "")
        while piece := "".join(islice(lines, LINES)):
            yield piece.replace("\r\n", "\n").replace("\r", "\n")
        return
    noted = False
    with file.open() as stream:
        stream.read(len(mark))
        while data := stream.read(BLOCK):
            data += stream.readline()
            if b"\r" in data:
                data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
            text, problem = (data.decode("ascii"), None) if data.isascii() else decode(data)
            if problem and not noted:
                problems.append((file.name, problem.partition(": ")[2]))
                noted = True
            yield text
