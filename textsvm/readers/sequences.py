"""FASTA and FASTQ: one document a record; its text is the sequence, its id the first word of the header.

The label is what the header says, in one of three forms, else the name of the file where there are several:

    >peak17 label=bound split=train     `name=value` anywhere in the header; `split` is the part
    >1                                  headers of -1, 0 and 1, or few that repeat, are labels (FastSK's form)
    >P1234|kinase|training              three fields, the last of them training or testing (iLearn's form)
    pos.fa, neg.fa; pos/train.fa        one file a class: its name without the ending and without a part

A column that is asked for (`--label`, `--regress`, `--weights`, `--groups`) is a name in the header, or a
number: the so-many-th word of the header, the id being the first. Letters are kept as they are written; white
space, lines that begin with `;` and the qualities of FASTQ are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from textsvm.errors import InputError
from textsvm.readers.charsets import decode
from textsvm.readers.corpus import Document
from textsvm.readers.decoded import Problems
from textsvm.readers.folders import PART, part_of
from textsvm.readers.opened import File, FileOnDisk
from textsvm.readers.records import batches_of, is_fastq
from textsvm.readers.tables import ANY_COLUMNS, Columns, number_of, parted
from textsvm.runtime.parallel import Progress

_SUFFIXES = dict.fromkeys((".fa", ".fasta", ".fna", ".faa", ".ffn", ".frn"), "fasta") | dict.fromkeys(
    (".fq", ".fastq"), "fastq"
)
_LETTERS = re.compile(r"[A-Za-z*.\-]+")
_NAME = re.compile(r"(?<![^\s=])([^\s=]+)=")
_FIELDS = re.compile(r"([^|\s]+)\|([^|]+)\|(training|testing)")
_NONE: dict[str, str] = {}
_SIGNS = frozenset(("-1", "0", "1", "+1"))


def format_of(name: str, head: str) -> str | None:
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


def read(
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
        Called with (bytes read, bytes in all).

    Raises
    ------
    InputError
        If a file is no FASTA or FASTQ, or is cut off; if a number that was asked for is none.
    """
    total, done = sum(file.size for file in files), 0
    for file in files:
        headers, count = Headers.of(file, columns, len(files) > 1), 0
        for batch in batches_of(file, problems):
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
            f"{where} has {odd[0]!r}, which is no letter of a sequence; texts with labels are read from "
            "lines of label TAB text"
        )
    return letters


@dataclass(frozen=True)
class Headers:
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
    def of(cls, file: File | FileOnDisk, columns: Columns, several: bool) -> Headers:
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
