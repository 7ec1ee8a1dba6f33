"""Reading a corpus document by document, for more than memory holds."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from textsvm.errors import InputError
from textsvm.readers.archives import Files, read_files, together, walk
from textsvm.readers.corpus import Corpus, Document, gather
from textsvm.readers.opened import FileOnDisk
from textsvm.readers.read import VECTORS, Options, as_wish, documents_of, format_of, no_document, paths_of
from textsvm.readers.tables import Columns
from textsvm.runtime.parallel import Progress

#: Bytes on disk from which on the command line keeps the texts of a corpus in a temporary file.
LARGE = 32 << 20
#: Formats whose readers do not hold what they have read.
BIT_BY_BIT = ("csv", "tsv", "jsonl", "lines", "folders", "tables", "fasta", "fastq", "libsvm", "npy")


@dataclass
class CorpusStream:
    """The documents of a corpus, read anew whenever they are iterated over.

    Documents come as they are: without a label where they have none, with ids that may occur twice.

    Attributes
    ----------
    source, format : str
        Where it is read from, and as what.
    problems : list of (str, str)
        What was damaged or left out so far, as in `Corpus`.
    """

    source: str
    format: str
    _files: Files
    _options: Options
    _part: str | None
    _progress: Progress | None
    problems: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        #: What was left out when the files were looked for.
        self._found = tuple(self._files.problems)
        self.problems = [*self._found]

    def __iter__(self) -> Iterator[Document]:
        return (each for each in self._documents() if self._part is None or each.part == self._part)

    def stored(self) -> Corpus:
        """The corpus, its texts in a temporary file that is gone with it; as `read_corpus` gives it else."""
        if self.format in VECTORS:
            from textsvm.readers import vectors

            return vectors.read(self._files, self.format, self._options.columns.target).select(self._part)
        documents = self._documents()
        return gather(documents, self.source, self.format, self.problems, stored=True).select(self._part)

    def _documents(self) -> Iterator[Document]:
        if self.format in VECTORS:
            raise InputError(f"{self.source} holds vectors, which are no documents; read_corpus reads them")
        del self.problems[len(self._found) :]
        self._files.problems, number = self.problems, 0
        for document in documents_of(self._files, self.format, self._options, self._progress):
            number += 1
            yield document
        if not number:
            raise no_document(self.source, self.format, self.problems)


def stream_corpus(
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
) -> CorpusStream:
    """Read a corpus document by document: of a table only a row is in memory, of a folder only a file.

    Tables, lines and sequences (.csv, .tsv, .jsonl, label TAB text, FASTA, FASTQ; compressed by gzip, bzip2
    or xz) and folders are read bit by bit. Archives (.tar, .zip), mail, Reuters and Parquet are read into
    memory first. Columns of JSON Lines are those of the first 1,000 rows.

    Parameters
    ----------
    path, format, part, split, text, label, id, target, weight, group, numbers, headers, label_separator
        See `read_corpus`.
    progress : callable, optional
        Called with (bytes read, bytes in all), or (files read, files in all).

    Returns
    -------
    CorpusStream
        An iterable of documents, which have an id, a text, a label, ...

    Raises
    ------
    InputError
        If the input is missing, unreadable or of no known format; while it is iterated over, if it is
        damaged, or holds no document.

    Examples
    --------
    >>> from textsvm import stream_corpus
    >>> with open("mails.csv", "w") as table:
    ...     n = table.write("kind,text\\nspam,win cash now\\nham,lunch at noon\\n")
    >>> for document in stream_corpus("mails.csv", text="text", label="kind"):
    ...     print(document.label, "|", document.text)
    spam | win cash now
    ham | lunch at noon
    """
    columns = Columns(as_wish(text), label, id, target, weight, group, as_wish(numbers))
    options = Options(columns, split, headers, label_separator)
    paths = paths_of(path)
    every = [files_on_disk(each) or read_files(each) for each in paths]
    found = together(every, paths)
    format = format_of(found, format, options)
    if format not in BIT_BY_BIT:
        found = together([read_files(each) for each in paths], paths)
    return CorpusStream(found.source, format, found, options, part, progress)


def is_large(path: str | Path | Sequence[str | Path]) -> bool:
    """Whether a corpus is better not held in memory."""
    paths = [path] if isinstance(path, str | Path) else path
    try:
        return sum(map(_size, map(Path, paths))) >= LARGE
    except OSError:
        return False


def _size(path: Path) -> int:
    """Bytes on disk."""
    if path.is_dir():
        return sum(each.stat().st_size for each, _ in walk(path))
    return path.stat().st_size if path.is_file() else 0


def files_on_disk(path: Path) -> Files | None:
    """The files under a path, none of them read yet; None if one is an archive or there is no such path."""
    try:
        mode = path.stat().st_mode
        if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
            return None
        paths = list(walk(path)) if stat.S_ISDIR(mode) else [(path, path.name)]
        files = [FileOnDisk(name, each) for each, name in paths]
    except OSError:
        return None
    if any(file.is_archive for file in files):
        return None
    return Files(str(path), list[Any](files), stat.S_ISREG(mode))
