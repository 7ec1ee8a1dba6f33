"""Detection of the format of an input, and reading with the reader of that format.

The content of the files decides; names decide only between CSV and TSV, and for damaged FASTA. An input of
unknown format is refused with the advice to name the format.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from textsvm.errors import InputError
from textsvm.readers.charsets import decode, is_binary
from textsvm.readers.corpus import SEQUENCES, Corpus, Document, build_corpus, concatenate_corpora
from textsvm.readers.files import (
    MAX_BYTES,
    NUMPY,
    File,
    InputFiles,
    combine_files,
    read_files,
    read_stream,
)
from textsvm.readers.mail import is_mail, read_mail
from textsvm.readers.plain_text import is_lines, read_folders, read_lines
from textsvm.readers.reuters import is_reuters, read_reuters
from textsvm.readers.sequences import read_sequences, sequence_format
from textsvm.readers.tables import ColumnNames, read_tables, table_format
from textsvm.readers.vectors import read_vector_files, vector_format
from textsvm.runtime.parallel import Progress

#: Formats of vectors.
VECTORS = ("libsvm", "npy", "npz")
FORMATS = (
    *("reuters", "mail", "csv", "tsv", "jsonl", "parquet", "folders", "lines"),
    *SEQUENCES,
    *VECTORS,
)
#: Beginnings of the names of files that describe the others.
_ABOUT = ("readme", "license", "licence", "copying", "classes.txt", "labels.txt")
#: Share of the progress for reading; the rest is parsing.
_READING_SHARE = 0.3


@dataclass(frozen=True)
class ReadOptions:
    """Options of reading documents of any format."""

    columns: ColumnNames
    split: str = "modapte"
    headers: bool = False
    label_separator: str | None = None


def read_corpus(
    path: str | Path | Sequence[str | Path],
    format: str | None = None,
    *,
    part: str | None = None,
    split: str = "modapte",
    text: str | Sequence[str] | None = None,
    label: str | None = None,
    id: str | None = None,
    target: str | None = None,
    weight: str | None = None,
    group: str | None = None,
    numbers: str | Sequence[str] | None = None,
    headers: bool = False,
    label_separator: str | None = None,
    progress: Progress | None = None,
    max_bytes: int = MAX_BYTES,
) -> Corpus:
    """Read a corpus: a file, a folder or an archive (.tar, .zip, compressed by gzip, bzip2 or xz).

    It may hold texts, or vectors: LIBSVM's format, .npy, .npz.

    Parameters
    ----------
    path : str or Path, or a sequence of them
        Several are read as if they lay in one folder.
    format : str, optional
        "reuters", "mail", "csv", "tsv", "jsonl", "parquet", "folders", "lines", "fasta", "fastq", "libsvm",
        "npy" or "npz"; by default it is detected from the content.
    part : str, optional
        Only this part, "train" or "test".
    split : {"modapte", "lewis"}
        The split of Reuters-21578 that defines the parts.
    text, label, id : str, optional
        Tables: columns, by name or by number from 1; several columns of text with commas. A list of
        columns of text keeps them apart (`Corpus.columns`).
    target, weight, group : str, optional
        Tables: columns of numbers to be predicted (they take the place of the labels), of the weights of
        documents, of the names of groups. FASTA and FASTQ: as `label`, a name in the headers, `name=value`,
        or the number of a word of them.
    numbers : str, optional
        Tables: columns of numbers, with commas, that are kept beside the columns of text (`Corpus.columns`).
    headers : bool
        Mail: all header lines count as text, not the subject alone.
    label_separator : str, optional
        Tables, FASTA: separator of several labels in a cell or header, such as ";". A label of JSON that is a
        list is several labels in any case.
    progress : callable, optional
        Called with (share done, 1).
    max_bytes : int
        Bound on the unpacked bytes of each path.

    Raises
    ------
    InputError
        If the input is missing, unreadable, damaged as a whole, of unknown format, or empty, or if a number
        is invalid.

    Examples
    --------
    >>> from textsvm import read_corpus
    >>> with open("mails.csv", "w") as table:
    ...     n = table.write("kind,text\\nspam,win cash now\\nham,lunch at noon\\n")
    >>> corpus = read_corpus("mails.csv", text="text", label="kind")
    >>> corpus.texts, corpus.labels
    (['win cash now', 'lunch at noon'], ['spam', 'ham'])
    """
    columns = ColumnNames(as_columns(text), label, id, target, weight, group, as_columns(numbers))
    options = ReadOptions(columns, split, headers, label_separator)
    paths, inputs = as_paths(path), []
    for number, each in enumerate(paths):
        shares = (_READING_SHARE * k / len(paths) for k in (number, number + 1))
        inputs.append(read_files(each, max_bytes=max_bytes, progress=_share(progress, *shares)))
    combined = combine_files(inputs, paths)
    corpus = _parse(combined, format, options, _share(progress, _READING_SHARE, 1), labelled=True)
    return corpus.select(part)


def read_documents(
    paths: str | Path | Iterable[str | Path],
    format: str | None = None,
    *,
    text: str | Sequence[str] | None = None,
    id: str | None = None,
    numbers: str | Sequence[str] | None = None,
    headers: bool = False,
    progress: Progress | None = None,
    max_bytes: int = MAX_BYTES,
) -> Corpus:
    """Read documents to classify; labels are ignored.

    As `read_corpus`, and in addition: "-" for standard input, and a plain text, which is a single document.
    The id of a single document is its path; if several paths hold several documents each, the path comes
    before the id.
    """
    each = [paths] if isinstance(paths, (str, Path)) else list(paths)
    options = ReadOptions(
        ColumnNames(as_columns(text), None, id, numbers=as_columns(numbers)), headers=headers
    )
    corpora = []
    for number, path in enumerate(each):
        share = _share(progress, number / len(each), (number + 1) / len(each))
        if str(path) == "-":
            inputs = read_stream(sys.stdin.buffer, "standard input", max_bytes=max_bytes)
        else:
            inputs = read_files(path, max_bytes=max_bytes, progress=_share(share, 0, _READING_SHARE))
        corpus = _parse(inputs, format, options, _share(share, _READING_SHARE, 1), labelled=False)
        if inputs.single and len(corpus) == 1 and corpus.ids[0] == inputs.files[0].name:
            corpus.ids = [str(path)]
        elif len(each) > 1:
            corpus.ids = [f"{path}:{identifier}" for identifier in corpus.ids]
        corpora.append(corpus)
    formats = ", ".join(dict.fromkeys(corpus.format for corpus in corpora))
    return concatenate_corpora(corpora, ", ".join(map(str, each)), formats)


def as_paths(path: str | Path | Sequence[str | Path]) -> list[Path]:
    """One path or several as a list; InputError for standard input."""
    paths = [Path(path)] if isinstance(path, str | Path) else [Path(each) for each in path]
    for each in paths:
        if str(each) == "-" and not each.exists():
            raise InputError("a corpus cannot be read from standard input; write it to a file and name that")
    return paths


def as_columns(columns: str | Sequence[str] | None) -> str | tuple[str, ...] | None:
    """Columns as in `ColumnNames`."""
    return columns if columns is None or isinstance(columns, str) else tuple(columns)


def _parse(
    inputs: InputFiles, format: str | None, options: ReadOptions, progress: Progress | None, labelled: bool
) -> Corpus:
    format = detect_format(inputs, format, options, labelled)
    if format in VECTORS:
        corpus = read_vector_files(inputs, format, options.columns.target)
        return corpus if labelled else replace(corpus, labels=None)
    documents = list(iterate_documents(inputs, format, options, progress, labelled=labelled))
    if not documents:
        raise no_document_error(inputs.source, format, inputs.problems)
    if options.columns.target and all(document.target is None for document in documents):
        raise InputError(f"no document of {inputs.source} has a number in column {options.columns.target!r}")
    return build_corpus(documents, inputs.source, format, inputs.problems, labelled=labelled)


def no_document_error(source: str, format: str, problems: Sequence[tuple[str, str]]) -> InputError:
    """The error for an input without documents, with the first problem."""
    reasons = "".join(f": {name} {problem}" for name, problem in problems[:1])
    return InputError(f"{source} holds no document that can be read as {format}{reasons}")


def detect_format(inputs: InputFiles, format: str | None, options: ReadOptions, labelled: bool = True) -> str:
    """The named format of files, or the format that their content shows."""
    if format is not None and format not in FORMATS:
        raise InputError(f"format={format!r} is not one of {', '.join(FORMATS)}")
    if not any(file.size for file in inputs.files):
        raise InputError(f"{inputs.source} is empty: there is no document in it")
    columns = options.columns
    format = format or _detect(inputs, labelled, columns.of_a_table and not labelled)
    column = columns.only_of_tables
    if column == columns.target and format in VECTORS:
        return format
    if format in SEQUENCES and not (options.columns.text or options.columns.numbers):
        return format
    if column and format not in ("csv", "tsv", "jsonl", "parquet", "tables"):
        raise InputError(
            f"{inputs.source} is read as {format}, which has no column {column!r}; columns come from a table "
            "(.csv, .tsv, .jsonl, .parquet, or name it with --format)"
        )
    return format


def iterate_documents(
    inputs: InputFiles,
    format: str,
    options: ReadOptions,
    progress: Progress | None,
    *,
    labelled: bool = True,
) -> Iterator[Document]:
    """The documents of files of a format; unless `labelled`, a line without a label is a text."""
    files, problems = inputs.files, inputs.problems
    if format == "reuters":
        return read_reuters(files, problems, split=options.split, progress=progress)
    if format == "mail":
        return read_mail(files, problems, headers=options.headers, progress=progress)
    if format not in ("folders", "text"):
        for file in files:
            if is_binary(file.head) and format != "parquet" and not _is_parquet(file):
                raise InputError(
                    f"{file.name} in {inputs.source} is binary data and cannot be read as {format}"
                )
    if format in ("folders", "text"):
        return read_folders(files, problems, progress=progress)
    content, separator = _content(files), options.label_separator
    if format == "lines":
        return read_lines(content, problems, labelled=labelled, progress=progress)
    if format in SEQUENCES:
        return read_sequences(
            content, problems, options.columns, label_separator=separator, progress=progress
        )
    table = None if format == "tables" else format
    return read_tables(
        content, problems, table, options.columns, label_separator=separator, progress=progress
    )


def _is_parquet(file: File) -> bool:
    return file.head.startswith(b"PAR1")


def _detect(inputs: InputFiles, labelled: bool, as_table: bool) -> str:
    files = [file for file in inputs.files if file.size]
    if any(is_reuters(file.head) for file in files):
        return "reuters"
    content = _content(files) or files
    sample = content[:: max(1, len(content) // 200)]
    if sum(is_mail(file.head) for file in sample) > 0.5 * len(sample):
        return "mail"
    if all(file.head.startswith(NUMPY) for file in files):
        return vector_format(inputs, files) or ""
    if all(is_binary(file.head) and not _is_parquet(file) for file in sample):
        raise InputError(f"{inputs.source} is binary data, not text, mail, a table or an archive of them")
    heads = [(file.name, decode(file.head)[0]) for file in sample]
    records = [sequence_format(name, head) for name, head in heads]
    if sum(kind is not None for kind in records) > 0.5 * len(records):
        return "fastq" if records.count("fastq") > records.count("fasta") else "fasta"
    tables = {
        "parquet" if _is_parquet(file) else table_format(name, head)
        for file, (name, head) in zip(sample, heads, strict=True)
    }
    if None not in tables:
        return tables.pop() or "" if len(tables) == 1 else "tables"
    if kind := vector_format(inputs, content):
        return kind
    if as_table and inputs.single:  # columns were named, and a stream has no name that ends in .csv
        return "tsv" if "\t" in heads[0][1].partition("\n")[0] else "csv"
    if all(is_lines(head) for _, head in heads):
        return "lines"
    if not inputs.single:
        return "folders"
    if not labelled:
        return "text"
    raise InputError(
        f"{inputs.source} is a text without labels; a corpus is lines of label TAB text, a table "
        "(.csv, .tsv, .jsonl), or a folder for each class"
    )


def _content(files: Sequence[File]) -> list[File]:
    """The files without files that describe the others."""
    return [file for file in files if not PurePosixPath(file.name).name.lower().startswith(_ABOUT)]


def _share(progress: Progress | None, start: float, end: float) -> Progress | None:
    """Progress of a stage as a share of the whole."""
    if progress is None:
        return None
    report: Any = progress
    return lambda done, total: report(start + (end - start) * done / max(total, 1), 1.0)
