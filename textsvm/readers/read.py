"""Which format an input has, and reading it with the reader of that format.

A format is told from what the files hold; names decide only between CSV and TSV, and what is
damaged FASTA. What cannot be told is refused with a sentence that says how to name it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from textsvm.errors import InputError
from textsvm.readers import mail, reuters, sequences, tables
from textsvm.readers import plain_text as folders
from textsvm.readers import plain_text as lines
from textsvm.readers.charsets import decode, is_binary
from textsvm.readers.corpus import SEQUENCES, Corpus, Document
from textsvm.readers.corpus import build_corpus as gather
from textsvm.readers.corpus import concatenate_corpora as concatenated
from textsvm.readers.files import MAX_BYTES, File, read_files, read_stream
from textsvm.readers.files import InputFiles as Files
from textsvm.readers.files import combine_files as together
from textsvm.readers.tables import ColumnNames as Columns
from textsvm.runtime.parallel import Progress

#: Formats of vectors.
VECTORS = ("libsvm", "npy", "npz")
FORMATS = (
    *("reuters", "mail", "csv", "tsv", "jsonl", "parquet", "folders", "lines"),
    *SEQUENCES,
    *VECTORS,
)
_ABOUT = ("readme", "license", "licence", "copying", "classes.txt", "labels.txt")
_READING_SHARE = 0.3  # of the time that a corpus takes; the rest is parsing


@dataclass(frozen=True)
class Options:
    """How documents are read, whatever the format."""

    columns: Columns
    split: str
    headers: bool
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
        "npy" or "npz"; by default what the content shows.
    part : str, optional
        Only this part, "train" or "test".
    split : {"modapte", "lewis"}
        Which split of Reuters-21578 the parts are.
    text, label, id : str, optional
        Tables: columns, by name or by number from 1; several columns of text with commas. A list of
        columns of text keeps them apart (`Corpus.columns`).
    target, weight, group : str, optional
        Tables: columns of numbers to be predicted (they take the place of the labels), of numbers that
        tell how much a document counts, of names of what belongs together. FASTA and FASTQ: as `label`,
        a name in the headers, `name=value`, or the number of a word of them.
    numbers : str, optional
        Tables: columns of numbers, with commas, that are kept beside those of text (`Corpus.columns`).
    headers : bool
        Mail: all header lines count as text, not the subject alone.
    label_separator : str, optional
        Tables, FASTA: a document may have several labels, and this stands between those of a cell or header,
        such as ";". A label of JSON that is a list is several in any case.
    progress : callable, optional
        Called with (share done, 1).
    max_bytes : int
        Bound on the unpacked bytes of each path.

    Raises
    ------
    InputError
        If the input is missing, unreadable, damaged as a whole, of no known format, or empty; if a number
        that was asked for is none.

    Examples
    --------
    >>> from textsvm import read_corpus
    >>> with open("mails.csv", "w") as table:
    ...     n = table.write("kind,text\\nspam,win cash now\\nham,lunch at noon\\n")
    >>> corpus = read_corpus("mails.csv", text="text", label="kind")
    >>> corpus.texts, corpus.labels
    (['win cash now', 'lunch at noon'], ['spam', 'ham'])
    """
    columns = Columns(as_wish(text), label, id, target, weight, group, as_wish(numbers))
    options = Options(columns, split, headers, label_separator)
    paths, every = paths_of(path), []
    for number, each in enumerate(paths):
        shares = (_READING_SHARE * k / len(paths) for k in (number, number + 1))
        every.append(read_files(each, max_bytes=max_bytes, progress=_share(progress, *shares)))
    found = together(every, paths)
    corpus = _parse(found, format, options, _share(progress, _READING_SHARE, 1), labelled=True)
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
    """Read documents to classify; whatever labels they have are ignored.

    As `read_corpus`, and besides: several paths, "-" for standard input, and a plain text, which is
    one document. Ids of a single document are its path; where several paths hold several documents
    each, the path comes before the id.
    """
    each = [paths] if isinstance(paths, (str, Path)) else list(paths)
    options = Options(Columns(as_wish(text), None, id, numbers=as_wish(numbers)), "modapte", headers)
    corpora = []
    for number, path in enumerate(each):
        here = _share(progress, number / len(each), (number + 1) / len(each))
        if str(path) == "-":
            found = read_stream(sys.stdin.buffer, "standard input", max_bytes=max_bytes)
        else:
            found = read_files(path, max_bytes=max_bytes, progress=_share(here, 0, _READING_SHARE))
        corpus = _parse(found, format, options, _share(here, _READING_SHARE, 1), labelled=False)
        if found.single and len(corpus) == 1 and corpus.ids[0] == found.files[0].name:
            corpus.ids = [str(path)]
        elif len(each) > 1:
            corpus.ids = [f"{path}:{identifier}" for identifier in corpus.ids]
        corpora.append(corpus)
    formats = ", ".join(dict.fromkeys(one.format for one in corpora))
    return concatenated(corpora, ", ".join(map(str, each)), formats)


def paths_of(given: str | Path | Sequence[str | Path]) -> list[Path]:
    """One path or several as a list; InputError for standard input."""
    paths = [Path(given)] if isinstance(given, str | Path) else [Path(each) for each in given]
    for path in paths:
        if str(path) == "-" and not path.exists():
            raise InputError("a corpus is not read from standard input; write it to a file and name that")
    return paths


def as_wish(text: str | Sequence[str] | None) -> str | tuple[str, ...] | None:
    """Columns of text as `Columns` has them."""
    return text if text is None or isinstance(text, str) else tuple(text)


def _parse(
    found: Files, format: str | None, options: Options, progress: Progress | None, labelled: bool
) -> Corpus:
    format = format_of(found, format, options, labelled)
    if format in VECTORS:
        from textsvm.readers import vectors

        corpus = vectors.read(found, format, options.columns.target)
        return corpus if labelled else replace(corpus, labels=None)
    documents = list(documents_of(found, format, options, progress, labelled=labelled))
    if not documents:
        raise no_document(found.source, format, found.problems)
    if options.columns.target and all(document.target is None for document in documents):
        raise InputError(f"no document of {found.source} has a number in column {options.columns.target!r}")
    return gather(documents, found.source, format, found.problems, labelled=labelled)


def no_document(source: str, format: str, problems: Sequence[tuple[str, str]]) -> InputError:
    """What is wrong with a corpus in which nothing was found."""
    reasons = "".join(f": {name} {problem}" for name, problem in problems[:1])
    return InputError(f"{source} holds no document that can be read as {format}{reasons}")


def format_of(found: Files, format: str | None, options: Options, labelled: bool = True) -> str:
    """The format of files: the one that is named, or what they hold.

    Raises
    ------
    InputError
        If there is no such format, it does not go with the options, nothing is there, or it cannot be told.
    """
    if format is not None and format not in FORMATS:
        raise InputError(f"format={format!r} is not one of {', '.join(FORMATS)}")
    if not any(file.size for file in found.files):
        raise InputError(f"{found.source} is empty: there is no document in it")
    format = format or _detect(found, labelled, options.columns.of_a_table and not labelled)
    wish = options.columns.only_of_tables
    if wish == options.columns.target and format in VECTORS:
        return format
    if format in SEQUENCES and not (options.columns.text or options.columns.numbers):
        return format
    if wish and format not in ("csv", "tsv", "jsonl", "parquet", "tables"):
        raise InputError(
            f"{found.source} is read as {format}, which has no column {wish!r}; columns come from a table "
            "(.csv, .tsv, .jsonl, .parquet, or name it with --format)"
        )
    return format


def documents_of(
    found: Files, format: str, options: Options, progress: Progress | None, *, labelled: bool = True
) -> Iterator[Document]:
    """The documents of files of a format; where labels are not asked for, a line without one is a text."""
    files, problems = found.files, found.problems
    if format == "reuters":
        return reuters.read(files, problems, split=options.split, progress=progress)
    if format == "mail":
        return mail.read(files, problems, headers=options.headers, progress=progress)
    if format not in ("folders", "text"):
        for file in files:
            if is_binary(file.head) and format != "parquet" and not file.head.startswith(b"PAR1"):
                raise InputError(
                    f"{file.name} in {found.source} is binary data and cannot be read as {format}"
                )
    if format == "lines":
        return lines.read_lines(_content(files), problems, labelled=labelled, progress=progress)
    if format in ("folders", "text"):
        return folders.read_folders(files, problems, progress=progress)
    if format in SEQUENCES:
        return sequences.read_sequences(
            _content(files), problems, options.columns,
            label_separator=options.label_separator, progress=progress,
        )  # fmt: skip
    mixed = format == "tables"
    return tables.read_tables(
        _content(files), problems, None if mixed else format, options.columns,
        label_separator=options.label_separator, progress=progress,
    )  # fmt: skip


def _detect(found: Files, labelled: bool, as_table: bool) -> str:
    from textsvm.readers import vectors

    files = [file for file in found.files if file.size]
    if any(reuters.is_reuters(file.head) for file in files):
        return "reuters"
    content = _content(files) or files
    step = max(1, len(content) // 200)  # every so many of a large corpus show what it is
    sample = content[::step]
    if sum(mail.is_mail(file.head) for file in sample) > 0.5 * len(sample):
        return "mail"
    if all(file.head.startswith(vectors.NUMPY) for file in files):
        return vectors.format_of(found, files) or ""
    if all(is_binary(file.head) and not file.head.startswith(b"PAR1") for file in sample):
        raise InputError(f"{found.source} is binary data, not text, mail, a table or an archive of them")
    heads = [(file.name, decode(file.head)[0]) for file in sample]
    records = [sequences.sequence_format(name, head) for name, head in heads]
    if sum(kind is not None for kind in records) > 0.5 * len(records):
        return "fastq" if records.count("fastq") > records.count("fasta") else "fasta"
    kinds = {
        "parquet" if file.head.startswith(b"PAR1") else tables.table_format(name, head)
        for file, (name, head) in zip(sample, heads, strict=True)
    }
    if None not in kinds:
        return kinds.pop() or "" if len(kinds) == 1 else "tables"
    if kind := vectors.format_of(found, content):
        return kind
    if as_table and found.single:  # columns were named, and a stream has no name that ends in .csv
        return "tsv" if "\t" in heads[0][1].partition("\n")[0] else "csv"
    if all(lines.is_lines(head) for _, head in heads):
        return "lines"
    if not found.single:
        return "folders"
    if not labelled:
        return "text"
    raise InputError(
        f"{found.source} is a text without labels; a corpus is lines of label TAB text, a table "
        "(.csv, .tsv, .jsonl), or a folder for each class"
    )


def _content(files: Sequence[File]) -> list[File]:
    """Without the files that only tell about the others."""
    return [file for file in files if not PurePosixPath(file.name).name.lower().startswith(_ABOUT)]


def _share(progress: Progress | None, start: float, end: float) -> Progress | None:
    """Progress of one stage as a share of the whole."""
    if progress is None:
        return None
    report: Any = progress
    return lambda done, total: report(start + (end - start) * done / max(total, 1), 1.0)
