"""FASTA and FASTQ: one document a record; its text is the sequence, its id the first word of the header.

The label is what the header says, in one of three forms, else the name of the file where there are several:

    >peak17 label=bound split=train     `name=value` anywhere in the header; `split` is the part
    >1                                  headers of -1, 0 and 1, or few that repeat, are labels (FastSK's form)
    >P1234|kinase|training              three fields, the last of them training or testing (iLearn's form)
    pos.fa, neg.fa; pos/train.fa        one file a class: its name without the ending and without a part

A column that is asked for (`--label`, `--regress`, `--weights`, `--groups`) is a name in the header, or a
number: the so-many-th word of the header, the id being the first. Letters are kept as they are written; white
space, lines that begin with `;` and the qualities of FASTQ are left out.

The records of FASTA and FASTQ files: what fits a cache is read, decoded and split at a time.

FASTA: a header that begins with >, and lines of letters up to the next; lines that begin with ; are comments.
FASTQ: four lines a record, @ header, letters, +, as many qualities as letters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from pathlib import PurePosixPath
from typing import NamedTuple

from textsvm.errors import InputError
from textsvm.readers.charsets import byte_order_mark, decode
from textsvm.readers.corpus import Document
from textsvm.readers.files import File, FileOnDisk, Problems
from textsvm.readers.files import iterate_lines as lines_of
from textsvm.readers.plain_text import PART, part_of
from textsvm.readers.tables import ANY_COLUMNS
from textsvm.readers.tables import ColumnNames as Columns
from textsvm.readers.tables import parse_number as number_of
from textsvm.readers.tables import split_labels as parted
from textsvm.runtime.parallel import Progress

#: Bytes that are read at once; lines, where characters have other than one byte each.
BLOCK, LINES = 1 << 17, 1 << 11
_COMMENT = re.compile(r"^;.*", re.MULTILINE)


class RecordBatch(NamedTuple):
    """Some records: headers without the first character and letters, and the line each begins in."""

    records: list[tuple[str, str]]
    line_of: Callable[[int], int]


def is_fastq(head: bytes) -> bool:
    """Whether a file begins as FASTQ does."""
    return decode(head[:256])[0].lstrip().startswith("@")


def record_batches(file: File | FileOnDisk, problems: Problems) -> Iterator[RecordBatch]:
    """The records of a file, with whatever stands in their lines but for the line ends.

    Raises
    ------
    InputError
        If text stands before the first header of FASTA, or four lines are no record of FASTQ.
    """
    blocks = _blocks(file, problems)
    return _fastq(blocks, file.name) if is_fastq(file.head) else _fasta(blocks, file.name)


def _fasta(blocks: Iterator[str], name: str) -> Iterator[RecordBatch]:
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


def _batch(texts: list[str], line: int) -> RecordBatch:
    parts = [text.partition("\n") for text in texts]
    starts: list[int] = []  # of use where something is wrong

    def line_of(i: int) -> int:
        if not starts:
            starts.extend(accumulate((text.count("\n") + 1 for text in texts), initial=line))
        return starts[i]

    return RecordBatch([(header, letters.replace("\n", "")) for header, _, letters in parts], line_of)


def _fastq(blocks: Iterator[str], name: str) -> Iterator[RecordBatch]:
    before, lines = 0, [""]  # the last line goes on in the next block
    for block in blocks:
        first, *others = block.split("\n")
        lines = [*lines[:-1], lines[-1] + first, *others]
        whole = (len(lines) - 1) // 4 * 4
        yield _of_fours(lines[:whole], before, name)
        before, lines = before + whole, lines[whole:]
    if any(lines):
        yield _of_fours((*lines, "", "", "")[:4], before, name)


def _of_fours(lines: Sequence[str], before: int, name: str) -> RecordBatch:
    """The records of so many lines, `before` lines of the file being read."""
    fours = list(zip(*(lines[i::4] for i in range(4)), strict=True))
    for i, (header, letters, plus, qualities) in enumerate(fours):
        if header[:1] != "@" or plus[:1] != "+" or len(letters) != len(qualities):
            where = f"{name}, record {before // 4 + i + 1} (line {before + 4 * i + 1})"
            raise InputError(f"{where} {_wrong(header, letters, plus, qualities)}")
    return RecordBatch([(four[0][1:], four[1]) for four in fours], lambda i: before + 4 * i + 1)


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


_SUFFIXES = dict.fromkeys((".fa", ".fasta", ".fna", ".faa", ".ffn", ".frn"), "fasta") | dict.fromkeys(
    (".fq", ".fastq"), "fastq"
)
_LETTERS = re.compile(r"[A-Za-z*.\-]+")
_NAME = re.compile(r"(?<![^\s=])([^\s=]+)=")
_FIELDS = re.compile(r"([^|\s]+)\|([^|]+)\|(training|testing)")
_NONE: dict[str, str] = {}
_SIGNS = frozenset(("-1", "0", "1", "+1"))


def sequence_format(name: str, head: str) -> str | None:
    """ "fasta" or "fastq" if a file begins so, or is named so; else None."""
    lines = [line.rstrip() for line in head.split("\n") if line.strip() and not line.startswith(";")]
    lines = (lines[:-1] if len(lines) > 2 else lines)[:100]  # the last one may be cut off
    if len(lines) > 1 and re.match(r">\S", lines[0]):
        others = [line for line in lines if not line.startswith(">")]
        if others and all(map(_LETTERS.fullmatch, others)):
            return "fasta"
    if len(lines) > 2 and lines[0].startswith("@") and lines[2].startswith("+"):
        return "fastq"
    return _SUFFIXES.get(PurePosixPath(name).suffix.lower())


def read_sequences(
    files: Sequence[File | FileOnDisk],
    problems: Problems,
    columns: Columns,
    *,
    label_separator: str | None = None,
    progress: Progress | None = None,
) -> Iterator[Document]:
    """The records of files, FASTA and FASTQ.

    Parameters
    ----------
    files : sequence of File
        A file named after a part (`train.fa`) is that part, unless a header says otherwise.
    problems : list of (str, str)
        Gets what is left out, or odd: file, record and line, problem.
    columns : Columns
        What to take from the headers.
    label_separator : str, optional
        A record may have several labels: what stands between them.
    progress : callable, optional
        Called with (bytes read_sequences, bytes in all).

    Raises
    ------
    InputError
        If a file is no FASTA or FASTQ, or is cut off; if a number that was asked for is none.
    """
    total, done = sum(file.size for file in files), 0
    for file in files:
        headers, count = HeaderParser.of(file, columns, len(files) > 1), 0
        for batch in record_batches(file, problems):
            if progress is not None:
                progress(done + file.position, total)
            for i, (header, letters) in enumerate(batch.records):
                count += 1
                if len(letters) < 2 or not (letters.isascii() and letters.isalpha()):
                    where = f"{file.name}, record {count} (line {batch.line_of(i)})"
                    letters = _checked("".join(letters.split()), where)
                    if not letters:
                        problems.append((where, f"left out: {header!r} has no sequence"))
                        continue
                    if len(letters) == 1:
                        problems.append((where, f"of one letter: {header!r} is {letters!r}"))
                document = headers.document(header, letters, count)
                if label_separator is not None and document.label is not None:
                    document = parted(document, label_separator)
                yield document
        done += file.size
        if progress is not None:
            progress(done, total)


def _checked(letters: str, where: str) -> str:
    """Letters and what stands for gaps and stops; InputError at anything else."""
    if odd := _LETTERS.sub("", letters):
        raise InputError(
            f"{where} has {odd[0]!r}, which is no letter of a sequence; texts with labels are read_sequences from "
            "lines of label TAB text"
        )
    return letters


@dataclass(frozen=True)
class HeaderParser:
    """What the headers of a file say.

    Attributes
    ----------
    file : str
    columns : Columns
    are_labels : bool
        Whether a header is the label, so that the number of the record is its id.
    prefix : str
        What stands before that number.
    label, part : str or None
        What the name of the file says.
    """

    file: str
    columns: Columns
    are_labels: bool
    prefix: str
    label: str | None
    part: str | None

    @classmethod
    def of(cls, file: File | FileOnDisk, columns: Columns, several: bool) -> HeaderParser:
        """As the first bytes of a file show."""
        starts = ("@", 4) if is_fastq(file.head) else (">", 1)
        lines = decode(file.head)[0].split("\n")[:: starts[1]]
        found = [line[1:].strip() for line in lines if line.startswith(starts[0])]
        few = 2 * len(set(found)) <= len(found) or _SIGNS.issuperset(found)
        are_labels = bool(found) and all(found) and few and columns.label is None
        label, prefix = (_class_of(file.name), f"{file.name}:") if several else (None, "")
        columns = ANY_COLUMNS if columns == ANY_COLUMNS else columns
        return cls(file.name, columns, are_labels, prefix, label, part_of(file.name))

    def document(self, header: str, letters: str, count: int) -> Document:
        """The document of the record of that number."""
        label, part, fields, words = self.label, self.part, _NONE, header.split(None, 1)
        identifier = f"{self.prefix}{count}" if self.are_labels or not words else words[0]
        if self.are_labels:
            label = header.strip()
        elif "=" in header:
            fields = _fields(header)
            label, part = fields.get("label", label), fields.get("split", part)
        elif "|" in header and (match := _FIELDS.fullmatch(header.strip())):
            identifier, label, part = match[1], match[2], match[3].removesuffix("ing")
        document = Document(identifier, letters, label, part)
        return document if self.columns is ANY_COLUMNS else self._wished(document, header, fields, count)

    def _wished(self, document: Document, header: str, fields: dict[str, str], count: int) -> Document:
        """With what was asked for by name, or as a word of the header."""
        where, words = f"{self.file}, record {count}", header.split()

        def field(wish: str | None) -> str | None:
            if wish is not None and wish not in fields and wish.isdecimal():
                return words[int(wish) - 1] if 1 <= int(wish) <= len(words) else None
            return None if wish is None else fields.get(wish, "").strip() or None

        def value(wish: str | None, needed: bool) -> float | None:
            return None if wish is None else number_of(field(wish), f"{where}: {wish!r}", needed)

        columns, group = self.columns, field(self.columns.group)
        if columns.group is not None and group is None:
            raise InputError(
                f"{where} has no {columns.group!r} in its header, and every record needs a group"
            )
        weight = value(columns.weight, True)
        if weight is not None and weight < 0:
            raise InputError(f"{where}: the weight is {weight:g}, and none may be below 0")
        label = document.label if columns.label is None else field(columns.label)
        return document._replace(label=label, target=value(columns.target, False), weight=weight, group=group)


def _fields(header: str) -> dict[str, str]:
    """What stands after `name=`, up to the next one that follows white space."""
    found = list(_NAME.finditer(header))
    found = found[:1] + [match for match in found[1:] if header[match.start() - 1].isspace()]
    ends = [*(match.start() for match in found[1:]), len(header)]
    return {match[1]: header[match.end() : end].rstrip() for match, end in zip(found, ends, strict=False)}


def _class_of(name: str) -> str | None:
    """What the name of a file without its ending, or else a folder of it, says beside a part."""
    path = PurePosixPath(name)
    pieces = (PART.sub("", piece).strip(" ._-") for piece in (path.stem, *reversed(path.parent.parts)))
    return next(filter(None, pieces), None)
