"""The records of FASTA and FASTQ files: what fits a cache is read, decoded and split at a time.

FASTA: a header that begins with >, and lines of letters up to the next; lines that begin with ; are comments.
FASTQ: four lines a record, @ header, letters, +, as many qualities as letters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, islice
from typing import NamedTuple

from textsvm.errors import InputError
from textsvm.readers.charsets import byte_order_mark, decode
from textsvm.readers.decoded import Problems, lines_of
from textsvm.readers.opened import File, FileOnDisk

#: Bytes that are read at once; lines, where characters have other than one byte each.
BLOCK, LINES = 1 << 17, 1 << 11
_COMMENT = re.compile(r"^;.*", re.MULTILINE)


class Batch(NamedTuple):
    """Some records: headers without the first character and letters, and the line each begins in."""

    records: list[tuple[str, str]]
    line_of: Callable[[int], int]


def is_fastq(head: bytes) -> bool:
    """Whether a file begins as FASTQ does."""
    return decode(head[:256])[0].lstrip().startswith("@")


def batches_of(file: File | FileOnDisk, problems: Problems) -> Iterator[Batch]:
    """The records of a file, with whatever stands in their lines but for the line ends.

    Raises
    ------
    InputError
        If text stands before the first header of FASTA, or four lines are no record of FASTQ.
    """
    blocks = _blocks(file, problems)
    return _fastq(blocks, file.name) if is_fastq(file.head) else _fasta(blocks, file.name)


def _fasta(blocks: Iterator[str], name: str) -> Iterator[Batch]:
    line, pending = 1, list[str]()  # the last record of a block may go on in the next one
    for block in blocks:
        if block.startswith(";") or "\n;" in block:
            block = _COMMENT.sub("", block)
        first, *found = f"\n{block}".split("\n>")
        if pending:
            pending.append(first[1:] if first else pending.pop()[:-1])
        elif text := first.strip():
            line += first[: first.index(text)].count("\n") - 1
            raise InputError(
                f"{name}, line {line}: {text[:20]!r} stands before the first >, so it is no FASTA"
            )
        else:
            line += first.count("\n") - (not found)
        if found:
            whole = ["".join(pending), *found[:-1]] if pending else found[:-1]
            yield _batch(whole, line)
            line += sum(text.count("\n") for text in whole) + len(whole)
            pending = found[-1:]
    if pending:
        yield _batch(["".join(pending)], line)


def _batch(texts: list[str], line: int) -> Batch:
    parts = [text.partition("\n") for text in texts]
    starts: list[int] = []  # of use where something is wrong

    def line_of(i: int) -> int:
        if not starts:
            starts.extend(accumulate((text.count("\n") + 1 for text in texts), initial=line))
        return starts[i]

    return Batch([(header, letters.replace("\n", "")) for header, _, letters in parts], line_of)


def _fastq(blocks: Iterator[str], name: str) -> Iterator[Batch]:
    before, lines = 0, [""]  # the last line goes on in the next block
    for block in blocks:
        first, *others = block.split("\n")
        lines = [*lines[:-1], lines[-1] + first, *others]
        whole = (len(lines) - 1) // 4 * 4
        yield _of_fours(lines[:whole], before, name)
        before, lines = before + whole, lines[whole:]
    if any(lines):
        yield _of_fours((*lines, "", "", "")[:4], before, name)


def _of_fours(lines: Sequence[str], before: int, name: str) -> Batch:
    """The records of so many lines, `before` lines of the file being read."""
    fours = list(zip(*(lines[i::4] for i in range(4)), strict=True))
    for i, (header, letters, plus, qualities) in enumerate(fours):
        if header[:1] != "@" or plus[:1] != "+" or len(letters) != len(qualities):
            where = f"{name}, record {before // 4 + i + 1} (line {before + 4 * i + 1})"
            raise InputError(f"{where} {_wrong(header, letters, plus, qualities)}")
    return Batch([(four[0][1:], four[1]) for four in fours], lambda i: before + 4 * i + 1)


def _wrong(header: str, letters: str, plus: str, qualities: str) -> str:
    """What is wrong with four lines of FASTQ."""
    if header[:1] != "@":
        return f"begins with {header[:20]!r} and not with @; FASTQ is read with four lines a record"
    if plus[:1] != "+":
        return f"has {plus[:20]!r} for its third line, not +; FASTQ is read with four lines a record"
    return f"has {len(letters):,} letters and {len(qualities):,} qualities; the file is damaged or cut off"


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
