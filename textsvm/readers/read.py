"""Detection of the format of an input, and reading with the reader of that format.

The content of the files decides; names decide only between CSV and TSV, and for damaged FASTA. An input of
unknown format is refused with the advice to name the format.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from textsvm.errors import InputError, MissingColumn, first_few
from textsvm.readers.charsets import decode, is_binary, is_blank
from textsvm.readers.corpus import Corpus, Document, ReadOptions, build_corpus, concatenate_corpora
from textsvm.readers.files import (
    MAX_BYTES,
    NUMPY,
    OPENERS,
    ZIP,
    File,
    InputFiles,
    combine_files,
    is_tar,
    read_files,
    read_stream,
    transcoded,
)
from textsvm.readers.mail import is_mail, is_surely_mail, read_mail
from textsvm.readers.mail_header import is_outlook
from textsvm.readers.plain_text import is_conll, is_lines, read_conll, read_folders, read_lines
from textsvm.readers.plausible import checked
from textsvm.readers.reuters import is_reuters, read_reuters
from textsvm.readers.sequences import read_sequences, sequence_format
from textsvm.readers.tables import SUFFIXES, file_format, read_tables
from textsvm.readers.vectors import read_vector_files, vector_format
from textsvm.runtime.parallel import Progress
from textsvm.runtime.parallel import part as part_of

VECTOR_FORMATS = ("libsvm", "npy", "npz")
TABLES = ("csv", "tsv", "jsonl", "json", "parquet", "arrow", "excel", "arff", "references")
_OF_TEXTS = ("folders", "file", "lines", "plain", "paragraphs", "conll", "fasta")
#: Formats whose labels may be in the names of the files.
_NAMED_FILES = ("folders", "file", "lines", "plain", "paragraphs")
FORMATS = ("reuters", "mail", *TABLES, *_OF_TEXTS, *VECTOR_FORMATS)
#: Readers of the formats that are not tables.
_READERS = {
    **{"reuters": read_reuters, "mail": read_mail, "folders": read_folders, "file": read_folders},
    **dict.fromkeys(("lines", "plain", "paragraphs"), read_lines),
    **{"conll": read_conll, "fasta": read_sequences},
}
#: Formats whose readers handle files of other formats themselves.
_MIXED = ("reuters", "mail", "folders", "file")
#: Beginnings of the names of files that describe the others.
_ABOUT = ("readme", "license", "licence", "copying", "classes.txt", "labels.txt")
_READING_SHARE = 0.3  #: Share of the progress for reading; the rest is parsing


def read_corpus(
    path: str | Path | Sequence[str | Path],
    format: str | None = None,
    *,
    part: str | None = None,
    progress: Progress | None = None,
    max_bytes: int = MAX_BYTES,
    **options: Any,
) -> Corpus:
    """Read a corpus: a file, a folder or an archive (.tar, .zip, compressed by gzip, bzip2, xz or Zstandard).

    It may hold texts, or vectors: LIBSVM's format, .npy, .npz.

    Parameters
    ----------
    path : str or Path, or a sequence of them
        Several paths are read like the files of a common folder; "-" is standard input.
    format : str, optional
        A name of ``textsvm train --format``, such as "csv", "file" (a file is a text), "lines" (a line is a
        text, without `label TAB` or `__label__`), "plain" (a whole line) or "paragraphs" (lines up to an
        empty line); by default it is detected.
    part : str, optional
        Only this part, "train" or "test".
    progress : callable, optional
        Called with (share done, 1).
    max_bytes : int
        Bound on the unpacked bytes of each path.
    **options
        Columns of tables and other options:

        text, label, id : str
            Tables: columns, by name or by number from 1; several with commas. A list of columns of text
            keeps them apart (`columns`), and joins `texts`. Several columns of labels hold 0 and 1. Files:
            `label="name:^([^_]+)_"` takes labels from the names of files, by a regular expression.
        target, weight, group : str
            Tables: columns of the numbers to be predicted (they replace the labels), of the weights of
            documents, and of the names of groups. FASTA: like `label`, a name in the headers,
            `name=value`, or the number of a word.
        numbers : str or sequence of str
            Tables: columns of numbers, with commas, kept beside those of text (`Corpus.columns`).
        label_separator : str
            Tables, FASTA: separator of labels in a cell or header, such as ";". JSON lists need none.
        skip_invalid : bool
            Tables, lines: leave out rows without a text or with another number of fields, else an error.
        level : int
            Folders: level of the folders that are the classes, 1 for the outermost. `group="folder"` makes a
            group of the files of each folder in a class, such as the chapters of a book.
        header : bool
            Tables: whether the first row is a header; by default it is detected, or refused.
        split : {"modapte", "lewis"}
            The split of Reuters-21578 that defines the parts.
        headers : bool
            Mail: all header lines count as text, not the subject alone.
        sheet, encoding : str
            Sheet of a spreadsheet, by name or number from 1; charset of texts and tables, such as "cp1251".
        annotators : str
            Exports of annotation tools: "majority", "all" (a document for each answer), or an annotator.

    Raises
    ------
    InputError
        If the input is missing, unreadable, damaged, of unknown format or empty, or a number is invalid.

    Examples
    --------
    >>> from textsvm import read_corpus
    >>> with open("mails.csv", "w") as table:
    ...     n = table.write("kind,text\\nspam,win cash now\\nham,lunch at noon\\n")
    >>> corpus = read_corpus("mails.csv", text="text", label="kind")
    >>> corpus.texts, corpus.labels
    (['win cash now', 'lunch at noon'], ['spam', 'ham'])
    """
    paths, inputs = as_paths(path), []
    for number, file in enumerate(paths):
        share = part_of(progress, _READING_SHARE * number / len(paths), _READING_SHARE / len(paths), 1)
        if str(file) == "-" and not file.exists():
            inputs.append(read_stream(sys.stdin.buffer, "standard input", max_bytes=max_bytes))
        else:
            inputs.append(read_files(file, max_bytes=max_bytes, progress=share))
    share = part_of(progress, _READING_SHARE, 1 - _READING_SHARE, 1)
    return parse(combine_files(inputs, paths), ReadOptions(format, **options), share).select(part)


def read_documents(
    paths: str | Path | Iterable[str | Path], format: str | None = None, *, progress: Progress | None = None,
    max_bytes: int = MAX_BYTES, **options: Any,
) -> Corpus:  # fmt: skip
    """Read documents to classify; labels are ignored.

    Paths and parameters as for `read_corpus`, and in addition "-" for standard input, and a plain text, which
    is a single document. The id of a single document is its path; if several paths hold several documents
    each, the path comes before the id.
    """
    names = _names(paths)
    settings, corpora = ReadOptions(format, labelled=False, **options), []
    for number, path in enumerate(names):
        share = part_of(progress, number, 1, len(names))
        if str(path) == "-":
            inputs = read_stream(sys.stdin.buffer, "standard input", max_bytes=max_bytes)
        else:
            inputs = read_files(path, max_bytes=max_bytes, progress=part_of(share, 0, _READING_SHARE, 1))
        corpus = parse(inputs, settings, part_of(share, _READING_SHARE, 1 - _READING_SHARE, 1))
        if inputs.single and len(corpus) == 1 and corpus.ids[0] == inputs.files[0].name:
            corpus.ids = [str(path)]
        elif len(names) > 1:
            corpus.ids = [f"{path}:{identifier}" for identifier in corpus.ids]
        corpora.append(corpus)
    formats = ", ".join(dict.fromkeys(corpus.format for corpus in corpora))
    return settings.interpreted(concatenate_corpora(corpora, ", ".join(map(str, names)), formats))


def _names(path: object) -> list[str | Path]:
    """Path or paths as a list; InputError for data in memory."""
    several = isinstance(path, Sequence | Iterator) and not isinstance(path, str)
    names: list[str | Path] = list(path) if several else [path]  # type: ignore[call-overload,list-item]
    for name in names:
        if not isinstance(name, str | os.PathLike):
            raise InputError(
                f"expected a path, got {type(name).__name__}; fit takes texts and labels in memory, as in "
                "SVC().fit(table['text'], table['label'])"
            )
    return names


def as_paths(path: str | Path | Sequence[str | Path]) -> list[Path]:
    """Paths as a list; InputError for data in memory, and for a path that is named twice."""
    paths = [Path(name) for name in _names(path)]
    for path, count in Counter(path.resolve() for path in paths).items():
        if count > 1:
            raise InputError(f"{path} is named {count} times, and its documents would count as often")
    return paths


def parse(
    inputs: InputFiles, options: ReadOptions, progress: Progress | None, format: str | None = None,
    stored: bool = False,
) -> Corpus:  # fmt: skip
    """The corpus in files, whose format is detected; with `stored`, its texts are in a temporary file."""
    format = format or detect_format(inputs, options)
    if format in VECTOR_FORMATS:
        corpus = read_vector_files(inputs, format, options)
        return options.interpreted(corpus if options.labelled else replace(corpus, labels=None))
    documents = iterate_documents(inputs, format, options, progress)
    corpus = build_corpus(
        documents, inputs.source, format, inputs.problems, labelled=options.labelled, stored=stored
    )
    if options.target and corpus.targets is None:
        raise InputError(f"no document of {inputs.source} has a number in column {options.target!r}")
    return checked(options.interpreted(corpus), options)


def _no_document_error(inputs: InputFiles, format: str | None) -> InputError:
    """The error for an input without documents, with the first problem."""
    reasons = "".join(f": {name} {problem}" for name, problem in inputs.problems[:1])
    return InputError(
        f"{inputs.source} holds no document that can be read as {format or 'a corpus'}{reasons}"
    )


def detect_format(inputs: InputFiles, options: ReadOptions) -> str:
    """The format of the options, or else of the content of files."""
    if options.format is not None and options.format not in FORMATS:
        raise InputError(f"format={options.format!r} is not one of {', '.join(FORMATS)}")
    if not any(file.size for file in inputs.files):
        if inputs.problems:
            raise _no_document_error(inputs, options.format)
        name = next((x for x in options.named.values() if isinstance(x, str) and " " in x), "")
        note = f" ({name!r} is read as the name of a column, not as a text)" if name else ""
        raise InputError(f"{inputs.source} is empty: there is no document in it{note}")
    if options.encoding:
        if options.format in (None, "mail") and all(is_mail(file.head) for file in inputs.files[:10]):
            raise InputError(f"{inputs.source} is mail, which names its charsets; leave out --encoding")
        inputs.files = [transcoded(file, options.encoding) for file in inputs.files]
    format = options.format or _detect(inputs, options)
    if options.sheet and format not in ("excel", "tables"):
        raise InputError(f"{inputs.source} is read as {format}, which has no sheets; leave out --sheet")
    if options.label and options.name_pattern and format not in _NAMED_FILES:
        raise InputError(
            f"label={options.label!r} is for files of texts, and {inputs.source} is read as {format}; name a "
            "column"
        )
    column = next((x if isinstance(x, str) else ", ".join(x) for x in options.named.values()), None)
    if column and format not in (*TABLES, "tables") and not _has_column(format, column, options):
        raise MissingColumn(
            f"{inputs.source} is read as {format}, which has no column {column!r}; columns come from a table "
            "(.csv, .tsv, .json, .jsonl, .parquet, .xlsx, or name it with --format)"
        )
    return format


def _has_column(format: str, column: str, options: ReadOptions) -> bool:
    """Whether a format other than a table has the column that was named."""
    if format in VECTOR_FORMATS:
        return column == options.target
    if format == "fasta":
        return not (options.text or options.numbers)
    return format == "folders" and column == options.group == "folder"


def iterate_documents(
    inputs: InputFiles, format: str, options: ReadOptions, progress: Progress | None = None
) -> Iterator[Document]:
    """The documents of files of a format; InputError if there is none."""
    files, document = inputs.files, None
    if format not in _MIXED:
        binary = [] if format == "tables" else [file for file in files if _is_of_no_use(file, options)]
        for file in binary:
            if inputs.single or file.name in inputs.named or len(binary) == len(files):
                raise InputError(f"{file.name} is binary data and cannot be read as {format}")
            inputs.problems.append((file.name, "left out: it is binary"))
        names = {file.name for file in binary}
        files = _content([file for file in files if file.name not in names])
    if format == "tables":
        files = _tables(files, inputs, options)
    options = replace(options, format=None if format == "tables" else format)
    documents = _READERS.get(format, read_tables)(files, inputs.problems, options, progress)
    if options.keep_invalid:
        documents = _without_blank(documents, inputs.problems, options)
    for document in documents:
        yield document
    if document is None:
        raise _no_document_error(inputs, format)


def _without_blank(
    documents: Iterator[Document], problems: list[tuple[str, str]], options: ReadOptions
) -> Iterator[Document]:
    """The documents; a blank text is a problem of its document, or leaves it out with `skip_invalid`."""
    for document in documents:
        if document.problem is not None or document.columns is not None or not is_blank(document.text):
            yield document
        elif options.skip_invalid:
            problems.append((document.id, "left out: its text is empty"))
        else:
            yield Document(document.id, "", problem="its text is empty", row=document.row)


def _tables(files: Sequence[File], inputs: InputFiles, options: ReadOptions) -> list[File]:
    """The tables among files; a problem reports the other files, unless they should be tables."""
    is_table = {file.name: file_format(file, options) is not None for file in files}
    others = [file.name for file in files if file.size and not is_table[file.name]]
    for name in others:
        if name in inputs.named or name.lower().endswith(SUFFIXES):
            raise InputError(f"{name} is no table and cannot be read together with tables")
    if others:
        inputs.problems.append((first_few(others), "left out, because the other files are tables"))
    return [file for file in files if is_table[file.name]]


def _is_of_no_use(file: File, options: ReadOptions) -> bool:
    return is_binary(file.head) and file_format(file, options) is None


def _detect(inputs: InputFiles, options: ReadOptions) -> str:
    """The format by the content; "tables" or an error if tables would be read as single documents."""
    files = [file for file in inputs.files if file.size]
    format = _content_format(inputs, files, options)
    if inputs.single or format not in ("mail", "folders", "lines"):
        return format
    content = _content(files) or files
    named = [file for file in content if file.name.lower().endswith(SUFFIXES)]
    sample = [*named, *(_sample(content) if options.columns else ())]
    formatted = (f for f in sample if file_format(f, options) and (options.columns or not is_mail(f.head)))
    tables = {file.name: is_binary(file.head) for file in formatted}
    text = next((f.name for f in content if f.name not in tables and not is_binary(f.head)), None)
    if tables and (options.columns or text is None):
        return "tables"
    folders = {parent for file in files for parent in PurePosixPath(file.name).parent.parents}
    beside = [
        name for name, binary in tables.items() if not binary and PurePosixPath(name).parent not in folders
    ]
    if beside and format != "lines":
        raise InputError(
            f"{inputs.source} holds tables ({min(beside)}) and texts ({text}), and a table is not a single "
            f"document; name the tables, or read each file as a document with --format {format}"
        )
    return format


def _sample(files: Sequence[File]) -> Sequence[File]:
    """About 200 files, from all of them."""
    return files[:: max(1, len(files) // 200)]


def _content_format(inputs: InputFiles, files: Sequence[File], options: ReadOptions) -> str:
    """The format by the content: the first that recognises a sample of the files."""
    if any(is_reuters(file.head) for file in files):
        return "reuters"
    content = _content(files) or files
    sample = _sample(content)
    if _is_mail(sample):
        return "mail"
    if all(file.head.startswith(NUMPY) for file in files):
        return vector_format(inputs, files) or ""
    kinds = {file_format(file, options) for file in sample}
    if kinds == {None} and all(is_binary(file.head) for file in sample):
        for file in sample:
            if file.head.startswith((*ZIP, *OPENERS)) or is_tar(file.head[:512]):
                place = f"{file.name} in {inputs.source}"
                raise InputError(f"{place} is an archive in an archive, which is not read; unpack it first")
        raise InputError(f"{inputs.source} is binary data, not text, mail, a table or an archive of them")
    texts = [file for file in sample if not _is_of_no_use(file, options)]
    heads = [decode(file.head)[0] for file in texts]
    sequence_kinds = [sequence_format(file.name, head) for file, head in zip(texts, heads, strict=True)]
    if 2 * sequence_kinds.count("fasta") > len(texts):
        return "fasta"
    if all(map(is_conll, heads)) and kinds <= {None, "tsv"}:
        return "conll"
    if None not in kinds:
        return kinds.pop() or "" if len(kinds) == 1 else "tables"
    if kind := vector_format(inputs, content):
        return kind
    if options.has_table_columns and not options.labelled and inputs.single:  # a stream has no name with .csv
        return "tsv" if "\t" in heads[0].partition("\n")[0] else "csv"
    return _text_format(inputs, heads, options)


def _is_mail(sample: Sequence[File]) -> bool:
    """Whether most files are mail; InputError if they may be other texts that begin like mail."""
    mails = [file for file in sample if is_mail(file.head) or is_outlook(file.name, file.head)]
    if 2 * len(mails) <= len(sample):
        return False
    letters = [file.name for file in mails if not is_surely_mail(file.head)]
    if 2 * len(letters) > len(mails):
        raise InputError(
            f"{letters[0]} begins like a mail, and may be another text, whose first lines would be lost; add "
            "--format mail or --format file"
        )
    return True


def _text_format(inputs: InputFiles, heads: Sequence[str], options: ReadOptions) -> str:
    if all(map(is_lines, heads)) and not options.name_pattern:
        return "lines"
    if not inputs.single or options.name_pattern:
        return "folders"
    if not options.labelled:
        return "file"
    raise InputError(
        f"{inputs.source} is a text without labels; a corpus is lines of label TAB text, a table "
        "(.csv, .tsv, .jsonl), a folder for each class, or texts and labels in two files, line by line: "
        "--format plain --labels FILE"
    )


def _content(files: Sequence[File]) -> list[File]:
    return [file for file in files if not PurePosixPath(file.name).name.lower().startswith(_ABOUT)]
