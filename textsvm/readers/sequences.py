"""Reader of FASTA: a document a record, with the sequence as text and a word of the header as id.

A record is a header that begins with >, and lines of letters up to the next; lines that begin with ; are
comments. Letters are kept as written; white space and comments are left out.

docs/sequences.md has the three forms in which a header gives the label, and the columns of a header.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePosixPath

from textsvm.errors import InputError, MissingColumn
from textsvm.readers.charsets import decode
from textsvm.readers.corpus import Document, ReadOptions, parse_number, parse_weight, split_label
from textsvm.readers.files import File, FileOnDisk, Problems, iterate_lines, with_progress
from textsvm.readers.plain_text import PART, PROGRESS_STEP, part_of
from textsvm.runtime.parallel import Progress

_SUFFIXES = (".fa", ".fasta", ".fna", ".faa", ".ffn", ".frn")
_LETTERS = re.compile(r"[A-Za-z*.\-]+")
_NAME = re.compile(r"(?<![^\s=])([^\s=]+)=")
_FIELDS = re.compile(r"([^|\s]+)\|([^|]+)\|(training|testing)")
_SIGNS = frozenset(("-1", "0", "1", "+1"))


# Records


def records(file: File | FileOnDisk, problems: Problems) -> Iterator[tuple[int, str, str]]:
    """The first line, header and letters of each record of a file; InputError if it is no FASTA."""
    start, header, letters = 0, "", list[str]()
    for number, line in enumerate(iterate_lines(file, problems, None), 1):
        if line.startswith(">"):
            if start:
                yield start, header, "".join(letters)
            start, header, letters = number, line[1:].removesuffix("\n"), []
        elif line.startswith(";"):
            continue
        elif start:
            letters.append(line.removesuffix("\n"))
        elif text := line.strip():
            raise InputError(f"{file.name}, line {number}: {text[:20]!r} stands before the first > of FASTA")
    if start:
        yield start, header, "".join(letters)


# Documents


def sequence_format(name: str, head: str) -> str | None:
    """ "fasta" if the content or the name of a file shows it, else None; InputError for FASTQ."""
    lines = [line.rstrip() for line in head.split("\n") if line.strip() and not line.startswith(";")]
    lines = (lines[:-1] if len(lines) > 2 else lines)[:100]  # the last line may be cut off
    if len(lines) > 1 and re.match(r">\S", lines[0]):
        others = [line for line in lines if not line.startswith(">")]
        if others and all(map(_LETTERS.fullmatch, others)):
            return "fasta"
    if len(lines) > 2 and lines[0].startswith("@") and lines[2].startswith("+"):
        raise InputError(f"{name} is FASTQ, which is not read; convert it to FASTA (seqtk seq -A)")
    return "fasta" if PurePosixPath(name).suffix.lower() in _SUFFIXES else None


def read_sequences(
    files: Sequence[File | FileOnDisk], problems: Problems, options: ReadOptions, progress: Progress | None
) -> Iterator[Document]:
    """The records of FASTA files, with columns from the headers.

    A file named after a part (`train.fa`) is that part, unless a header says otherwise. `problems` gets
    records that are odd or left out. Damaged files and invalid numbers raise InputError.
    """
    for file, report in with_progress(files, progress):
        parsed = _header_parser(file, options, len(files) > 1)
        for count, (line, header, letters) in enumerate(records(file, problems), 1):
            if count % PROGRESS_STEP == 0:
                report()
            if len(letters) < 2 or not (letters.isascii() and letters.isalpha()):
                place = f"{file.name}, record {count} (line {line})"
                letters = "".join(letters.split())
                if odd := _LETTERS.sub("", letters):
                    raise InputError(
                        f"{place} has {odd[0]!r}, which is no letter of a sequence; texts with labels "
                        "are read from lines of label TAB text"
                    )
                if not letters:
                    problems.append((place, f"left out: {header!r} has no sequence"))
                    continue
                if len(letters) == 1:
                    problems.append((place, f"of one letter: {header!r} is {letters!r}"))
            document = parsed(header, letters, count)
            if options.label_separator is not None and document.label is not None:
                document = document._replace(label=split_label(document.label, options.label_separator))
            yield document


def _header_parser(
    file: File | FileOnDisk, options: ReadOptions, several: bool
) -> Callable[[str, str, int], Document]:
    """Makes the document of a header, letters and number of a record, by the first bytes of the file."""
    headers = [line[1:].strip() for line in decode(file.head)[0].split("\n") if line.startswith(">")]
    few = 2 * len(set(headers)) <= len(headers) or _SIGNS.issuperset(headers)
    are_labels = bool(headers) and all(headers) and few and options.label_column is None
    of_file, prefix = (_class_of(file.name), f"{file.name}:") if several else (None, "")
    with_columns, part_of_file = options.named or options.label_column, part_of(file.name)

    def document(header: str, letters: str, count: int) -> Document:
        fields: dict[str, str] = {}
        label, part, words = of_file, part_of_file, header.split(None, 1)
        identifier = f"{prefix}{count}" if are_labels or not words else words[0]
        if are_labels:
            label = header.strip()
        elif "=" in header:
            fields = _fields(header)
            label, part = fields.get("label", label), fields.get("split", part)
        elif "|" in header and (match := _FIELDS.fullmatch(header.strip())):
            identifier, label, part = match[1], match[2], match[3].removesuffix("ing")
        own = Document(identifier, letters, label, part)
        place = f"{file.name}, record {count}"
        return _with_columns(own, options, place, header.split(), fields) if with_columns else own

    return document


def _with_columns(
    document: Document, options: ReadOptions, place: str, words: list[str], fields: dict[str, str]
) -> Document:

    def field(name: str | None) -> str | None:
        if name is not None and name not in fields and name.isdecimal():
            return words[int(name) - 1] if 1 <= int(name) <= len(words) else None
        return None if name is None else fields.get(name, "").strip() or None

    group = field(options.group)
    if options.group is not None and group is None:
        raise MissingColumn(f"{place} has no {options.group!r} in its header, and every record needs a group")
    weight = None if options.weight is None else parse_weight(field(options.weight), place)
    target = parse_number(field(options.target), f"{place}: {options.target!r}", False)
    name = options.label_column
    label = document.label if name is None else field(name)
    return document._replace(label=label, target=target, weight=weight, group=group)


def _fields(header: str) -> dict[str, str]:
    """Values of `name=`, each up to the next name that follows white space."""
    names = list(_NAME.finditer(header))
    names = names[:1] + [match for match in names[1:] if header[match.start() - 1].isspace()]
    ends = [*(match.start() for match in names[1:]), len(header)]
    return {match[1]: header[match.end() : end].rstrip() for match, end in zip(names, ends, strict=False)}


def _class_of(name: str) -> str | None:
    """The class from the name of a file without its ending and part, or else from a folder of it."""
    path = PurePosixPath(name)
    pieces = (PART.sub("", piece).strip(" ._-") for piece in (path.stem, *reversed(path.parent.parts)))
    return next(filter(None, pieces), None)
