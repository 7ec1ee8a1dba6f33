"""Reading a corpus document by document, for more than memory holds.

Documents as they come: rows of standard input and of large files, in batches that grow with haste.

A thread reads ahead while a batch is worked on, and the next batch is all that has come by then: a document
of slow input is one by itself, fast input comes in thousands.
"""

from __future__ import annotations

import io
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Condition, Thread
from typing import IO, Any

from textsvm.errors import InputError
from textsvm.readers.charsets import byte_order_mark
from textsvm.readers.corpus import SEQUENCES, Corpus, Document, printable_id
from textsvm.readers.corpus import build_corpus as gather
from textsvm.readers.files import (
    HEAD,
    MAX_BYTES,
    OPENERS,
    OTHER,
    ZIP,
    FileOnDisk,
    read_files,
    read_stream,
    walk,
)
from textsvm.readers.files import InputFiles as Files
from textsvm.readers.files import combine_files as together
from textsvm.readers.read import VECTORS, Options, as_wish, documents_of, format_of, no_document, paths_of
from textsvm.readers.tables import ColumnNames as Columns
from textsvm.readers.tables import table_format as format_of_table
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


#: Bounds of what is read ahead.
MOST_DOCUMENTS, MOST_SYMBOLS = 8192, 1 << 26
_ROWS = ("csv", "tsv", "jsonl", "lines")
_MAGIC = (*OPENERS, *OTHER, *ZIP, b"PAR1")


class StreamFile:
    """A stream of rows as a file that is read once; `head` is what has come of it.

    Parameters
    ----------
    name : str
    first : bytes
        What has been read: the first line, or a part of it.
    stream : binary stream
        What follows.
    """

    size, position, known_rows, read_again = 1, 0, 1, False

    def __init__(self, name: str, first: bytes, stream: IO[bytes]) -> None:
        self.name, self._first, self._stream = name, first, stream
        peek = getattr(stream, "peek", None)  # what a full pipe holds besides tells a delimiter more surely
        more = peek(1) if peek and self._whole_line and _has_come(stream) else b""
        self.head = (first + more[: more.rfind(b"\n") + 1])[:HEAD]

    @property
    def _whole_line(self) -> bool:
        return self._first.endswith(b"\n")

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """All of it, line by line as it comes."""
        yield io.BufferedReader(_Rejoined(self._first, self._stream), HEAD)


class _Rejoined(io.RawIOBase):
    """The beginning of a stream that has been read, and the rest."""

    def __init__(self, first: bytes, stream: Any) -> None:
        self._first, self._stream = first, stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._first[: len(buffer)] or self._stream.read1(len(buffer))
        self._first = self._first[len(buffer) :]
        buffer[: len(data)] = data
        return len(data)


def _has_come(stream: IO[bytes]) -> bool:
    """Whether more of a stream can be had without waiting."""
    try:
        import select

        return bool(select.select([stream.fileno()], [], [], 0)[0])
    except (OSError, ValueError, ImportError):
        return False


def open_stream(
    stream: IO[bytes], name: str, format: str | None, options: Options, max_bytes: int = MAX_BYTES
) -> Files:
    """A stream such as standard input: rows where they are named or seen to be, else all of it in memory."""
    first = stream.readline(HEAD)
    rows = format in _ROWS or (format is None and _begins_with_rows(first, options))
    if not rows or first.startswith(_MAGIC) or byte_order_mark(first)[1] != "utf-8":
        return read_stream(io.BufferedReader(_Rejoined(first, stream), HEAD), name, max_bytes=max_bytes)
    return Files(name, [StreamFile(name, first, stream)] if first else [], True)


def _begins_with_rows(first: bytes, options: Options) -> bool:
    return options.columns.of_a_table or format_of_table("", first.decode("utf-8", "replace")) == "jsonl"


def standard_input() -> IO[bytes]:
    """Its bytes, through a buffer of our own: a thread that waits at exit holds no lock of Python's."""
    with suppress(AttributeError, OSError, ValueError):
        return open(sys.stdin.fileno(), "rb", HEAD, closefd=False)
    return sys.stdin.buffer


def incoming_documents(
    paths: Iterable[str],
    format: str | None = None,
    *,
    text: str | Sequence[str] | None = None,
    id: str | None = None,
    numbers: str | Sequence[str] | None = None,
    headers: bool = False,
    failed: Callable[[InputError], None],
) -> Iterator[Corpus]:
    """Documents to classify, in batches as they come; whatever labels they have are ignored.

    Parameters
    ----------
    paths, format, text, id, numbers, headers
        As of `read_documents`; ids too are the same, but that one which occurs twice is not numbered.
    failed : callable
        Called with the InputError of each of several paths that cannot be read; the others are.

    Yields
    ------
    Corpus

    Raises
    ------
    InputError
        If the only path cannot be read.
    """
    options = Options(Columns(as_wish(text), None, id, numbers=as_wish(numbers)), "modapte", headers)
    yield from _Incoming(list(paths), format, options, failed)


class _Incoming:
    """See `incoming_documents`."""

    def __init__(
        self, paths: list[str], format: str | None, options: Options, failed: Callable[[InputError], None]
    ) -> None:
        self._paths, self._format, self._options, self._failed = paths, format, options, failed

    def __iter__(self) -> Iterator[Corpus]:
        ahead = _Ahead()
        Thread(target=ahead.run, args=(self._found(),), daemon=True).start()
        for item in ahead.batches():
            if isinstance(item, InputError):
                if len(self._paths) == 1:
                    raise item
                self._failed(item)
            else:
                yield item

    def _found(self) -> Iterator[Any]:
        """Documents, each with what was wrong until then; vectors as a corpus; errors."""
        for path in self._paths:
            try:
                yield from self._of_path(path)
            except (InputError, OSError) as error:
                yield error if isinstance(error, InputError) else InputError(f"{path}: {error.strerror}")

    def _of_path(self, path: str) -> Iterator[Any]:
        found = self._open(path)
        format = format_of(found, self._format, self._options, labelled=False)
        if format not in BIT_BY_BIT and any(isinstance(file, FileOnDisk) for file in found.files):
            found = read_files(path)
        if format in VECTORS:
            from textsvm.readers import vectors

            corpus = replace(vectors.read(found, format), labels=None)
            yield replace(corpus, ids=[f"{path}:{each}" for each in corpus.ids]) if self._several else corpus
            return
        none = True
        documents = documents_of(found, format, self._options, None, labelled=False)
        if format in SEQUENCES:  # whose letters are checked, so their format goes with them
            named = [each._replace(id=self._name(path, each, found)) for each in documents]
            if named:
                yield gather(named, found.source, format, found.problems, labelled=False)
                return
        for document in documents:
            yield from _taken(found.problems)
            yield document._replace(id=printable_id(self._name(path, document, found)))
            none = False
        if none:
            raise no_document(found.source, format, found.problems)
        yield from _taken(found.problems)

    @property
    def _several(self) -> bool:
        return len(self._paths) > 1

    def _open(self, path: str) -> Files:
        if path == "-":
            return open_stream(standard_input(), "standard input", self._format, self._options)
        with suppress(OSError):
            if stat.S_ISFIFO(Path(path).stat().st_mode):
                return open_stream(open(path, "rb"), path, self._format, self._options)
        return (files_on_disk(Path(path)) if is_large(path) else None) or read_files(path)

    def _name(self, path: str, document: Document, found: Files) -> str:
        if found.single and document.id == found.files[0].name:
            return path
        return f"{path}:{document.id}" if self._several else document.id


def _taken(problems: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """The problems so far, each once."""
    yield from problems
    problems.clear()


class _Ahead:
    """What a thread has read ahead, up to a bound, as batches of documents."""

    def __init__(self) -> None:
        self._items: list[Any] = []
        self._symbols, self._ended = 0, False
        self._changed = Condition()

    def run(self, items: Iterable[Any]) -> None:
        """Read all of them; what is raised is an item too."""
        try:
            for item in items:
                self._put(item)
        except BaseException as error:
            self._put(error)
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _put(self, item: Any) -> None:
        with self._changed:
            self._changed.wait_for(lambda: len(self._items) < MOST_DOCUMENTS and self._symbols < MOST_SYMBOLS)
            self._items.append(item)
            self._symbols += len(item.text) if isinstance(item, Document) else 0
            self._changed.notify_all()

    def _take(self) -> list[Any]:
        """All that is there, at least one; none at the end."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._items) or self._ended)
            items, self._items, self._symbols = self._items, [], 0
            self._changed.notify_all()
        return items

    def batches(self) -> Iterator[Corpus | InputError]:
        """Corpora of the documents, their problems with them."""
        while items := self._take():
            documents: list[Document] = []
            problems: list[tuple[str, str]] = []
            for item in items:
                if isinstance(item, Document):
                    documents.append(item)
                elif isinstance(item, tuple):
                    problems.append(item)
                else:
                    yield from _corpora(documents, problems)
                    documents, problems = [], []
                    if isinstance(item, BaseException) and not isinstance(item, InputError):
                        raise item
                    yield item
            yield from _corpora(documents, problems)


def _corpora(documents: list[Document], problems: list[tuple[str, str]]) -> Iterator[Corpus]:
    """One corpus, none of nothing; columns that differ from file to file are not of one."""
    if not documents and not problems:
        return
    kinds = [tuple(document.columns or ()) for document in documents]
    cuts = [i for i in range(1, len(kinds)) if kinds[i] != kinds[i - 1]]
    for start, end in zip([0, *cuts], [*cuts, len(kinds)], strict=True):
        part = documents[start:end]
        corpus = gather(part, "the documents", "", [], labelled=False)
        ids = [document.id for document in part]
        yield replace(corpus, ids=ids, problems=problems if start == 0 else [])
