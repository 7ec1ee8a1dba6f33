"""Reading document by document: corpora that are larger than memory, and documents as they come.

`incoming_documents` yields batches: a thread reads ahead while a batch is processed, and the next batch holds
all documents that have arrived by then, from a single document to thousands.
"""

from __future__ import annotations

import io
import select
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import IO, Any

from textsvm.errors import InputError
from textsvm.readers.charsets import NOT_UTF_8, byte_order_mark, decode, wrong_charset
from textsvm.readers.corpus import Corpus, Document, ReadOptions, build_corpus, printable_id, reading_line
from textsvm.readers.delimited import TITLES, header_format
from textsvm.readers.files import (
    ARROW,
    HEAD,
    OFFICE,
    OPENERS,
    UNSUPPORTED,
    ZIP,
    FileOnDisk,
    InputFiles,
    Problems,
    combine_files,
    read_files,
    read_stream,
    walk,
    without_backups,
)
from textsvm.readers.plausible import SAMPLE
from textsvm.readers.read import VECTOR_FORMATS, as_paths, detect_format, iterate_documents, parse
from textsvm.readers.tables import table_format
from textsvm.readers.vectors import read_vector_files
from textsvm.runtime.parallel import Progress

#: Bytes on disk from which the command line keeps the texts of a corpus in a temporary file.
LARGE = 32 << 20
_ROW_FORMATS = ("csv", "tsv", "jsonl", "lines", "plain", "paragraphs")
#: Formats that are not read into memory as a whole.
STREAMED = (*_ROW_FORMATS, "folders", "file", "tables", "fasta", "libsvm", "npy")
#: Advice where a file of several lines is read as one document.
ONE_DOCUMENT = "--format lines reads one per line, --format file confirms it"
MAX_DOCUMENTS = 8192  #: Maximum number of documents that are read ahead
MAX_SYMBOLS = 1 << 26  #: Maximum symbols of the documents that are read ahead
WAIT = 0.005  #: Seconds between looks at a full queue
#: Item of the queue: a document, a problem, vectors, a message, or an exception of the reading thread.
_Item = Document | tuple[str, str] | Corpus | str | BaseException
_MAGIC = (*OPENERS, *UNSUPPORTED, *ZIP, OFFICE, *ARROW, b"PAR1")


# Corpora


@dataclass
class CorpusStream:
    """The documents of a corpus, read again for each iteration.

    Documents without a label are included, and ids may occur twice.
    """

    format: str
    _files: InputFiles
    _options: ReadOptions
    _part: str | None
    _progress: Progress | None

    def __post_init__(self) -> None:
        self._file_problems = tuple(self._files.problems)
        #: Damaged and omitted documents so far, as in `Corpus`.
        self.problems: Problems = [*self._file_problems]

    @property
    def source(self) -> str:
        """Path of the input."""
        return self._files.source

    def __iter__(self) -> Iterator[Document]:
        if self.format in VECTOR_FORMATS:
            raise InputError(f"{self.source} holds vectors, not documents; read it with read_corpus")
        documents = iterate_documents(self._begin(), self.format, self._options, self._progress)
        return (row for row in documents if self._part is None or row.part == self._part)

    def stored(self) -> Corpus:
        """The corpus as `read_corpus` returns it, with its texts in a temporary file."""
        corpus = parse(self._begin(), self._options, self._progress, self.format, stored=True)
        return corpus.select(self._part)

    def _begin(self) -> InputFiles:
        """The files, whose problems are those of this stream."""
        del self.problems[len(self._file_problems) :]
        self._files.problems = self.problems
        return self._files


def stream_corpus(
    path: str | Path | Sequence[str | Path], format: str | None = None, *, part: str | None = None,
    progress: Progress | None = None, **options: Any,
) -> CorpusStream:  # fmt: skip
    """Read a corpus document by document; only a row of a table or a file of a folder is in memory.

    Returns an iterable of documents, with the attributes id, text, label, ... InputError is raised for input
    that is missing or of unknown format; during iteration, if it is damaged or holds no document.

    Tables, lines and sequences (.csv, .tsv, .jsonl, label TAB text, FASTA; compressed by gzip, bzip2,
    xz or Zstandard) and folders are streamed. Archives (.tar, .zip), mail, Reuters and Parquet are read into
    memory first. Columns of JSON Lines are taken from the first 1,000 rows.

    Parameters
    ----------
    path, format, part, **options
        As in `read_corpus`.
    progress : callable, optional
        Called with (bytes read, bytes in all), or (files read, files in all).

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
    settings, paths = ReadOptions(format, **options), as_paths(path)
    inputs = combine_files([files_on_disk(file) or read_files(file) for file in paths], paths)
    format = detect_format(inputs, settings)
    if format not in STREAMED and settings.encoding is None:
        inputs = combine_files([read_files(file) for file in paths], paths)
    return CorpusStream(format, inputs, settings, part, progress)


def is_large(path: str | Path | Sequence[str | Path]) -> bool:
    """Whether a corpus should not be held in memory."""
    paths = [Path(path)] if isinstance(path, str | Path) else map(Path, path)
    try:
        files = [file for root in paths for file, _ in (walk(root) if root.is_dir() else [(root, "")])]
        return sum(file.stat().st_size for file in files if file.is_file()) >= LARGE
    except OSError:
        return False


def files_on_disk(path: Path) -> InputFiles | None:
    """The files under a path, unread; None for archives and missing paths."""
    try:
        mode = path.stat().st_mode
        if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
            return None
        inputs = InputFiles(str(path), [], stat.S_ISREG(mode))
        paths = [(path, path.name)] if inputs.single else without_backups(walk(path), inputs.problems)
        files = [FileOnDisk(name, file) for file, name in paths]
    except OSError:
        return None
    inputs.files = list[Any](files)
    return None if any(file.is_archive for file in files) else inputs


# Documents as they arrive


class StreamFile:
    """A stream of rows as a file that is read once; `first` are its lines up to the header."""

    size, position, charset = 1, 0, None

    def __init__(self, name: str, first: bytes, stream: IO[bytes]) -> None:
        self.name, self._first, self._stream = name, first, stream
        self.lookahead_rows = first.count(b"\n") or 1
        peek, more = getattr(stream, "peek", None), b""
        with suppress(OSError, ValueError):  # more lines, if a pipe holds them, show the delimiter better
            if peek and first.endswith(b"\n") and select.select([stream.fileno()], [], [], 0)[0]:
                more = peek(1)
        self.head = (first + more[: more.rfind(b"\n") + 1])[:HEAD]

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """A stream of all bytes."""
        yield io.BufferedReader(_RejoinedStream(self._first, self._stream), HEAD)


class _RejoinedStream(io.RawIOBase):
    """A stream with its beginning, which was read already."""

    def __init__(self, first: bytes, stream: Any) -> None:
        self._first, self._stream = first, stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._first[: len(buffer)] or self._stream.read1(len(buffer))
        self._first = self._first[len(buffer) :]
        buffer[: len(data)] = data
        return len(data)


def open_stream(stream: IO[bytes], name: str, options: ReadOptions) -> InputFiles:
    """A stream such as standard input: unread if it holds rows, else read into memory."""
    first = stream.readline(HEAD)
    rows = options.format in _ROW_FORMATS
    if options.format is None:
        line = first.decode("utf-8", "replace")
        of_table = table_format("", line, options) == "jsonl" or header_format(line, options) is not None
        rows = options.has_table_columns or of_table
    if not rows or options.encoding or first.startswith(_MAGIC) or byte_order_mark(first)[1] != "utf-8":
        return read_stream(io.BufferedReader(_RejoinedStream(first, stream), HEAD), name)
    last = first if options.format in (None, "csv", "tsv") and options.header is None else b""
    while last and first.count(b"\n") < TITLES and not last.lstrip().startswith(b"{"):
        text = decode(last)[0].casefold()
        if all(column.casefold() in text for column in options.header_names):
            break
        last = stream.readline(HEAD)  # above are titles
        first += last
    return InputFiles(name, [StreamFile(name, first, stream)] if first else [], True)


def standard_input() -> IO[bytes]:
    """The bytes of standard input in a separate buffer: a waiting thread must not hold a lock at exit."""
    with suppress(AttributeError, OSError, ValueError):
        return open(sys.stdin.fileno(), "rb", HEAD, closefd=False)
    return sys.stdin.buffer


def incoming_documents(
    paths: Iterable[str], format: str | None = None, *, failed: Callable[[InputError], None],
    say: Callable[[str], None] = lambda line: None, **options: Any,
) -> Iterator[Corpus]:  # fmt: skip
    """Documents to classify, in batches as they arrive; labels are ignored.

    Ids are those of `read_documents`, but repeated ids are not numbered. `failed` is called with the
    InputError of each unreadable path if there are several, and the others are read; `say` with the
    `Corpus.reading_line` of each path, after a stream of rows has begun or at its end.
    """
    names, settings = list(paths), ReadOptions(format, labelled=False, **options)
    ahead = _ReadAhead()
    Thread(target=ahead.run, args=(_items(names, settings),), daemon=True).start()
    for item in ahead.batches():
        if isinstance(item, str):
            say(item)
        elif isinstance(item, Corpus):
            yield item
        elif len(names) > 1:
            failed(item)
        else:
            raise item


def _items(paths: list[str], options: ReadOptions) -> Iterator[_Item]:
    """Documents, problems in between as tuples, vectors as a corpus, and errors."""
    for path in paths:
        try:
            yield from _items_of(path, replace(options, decisions={}, warnings=[]), len(paths) > 1)
        except (InputError, OSError) as error:
            yield error if isinstance(error, InputError) else InputError(f"{path}: {error.strerror}")


def _items_of(path: str, options: ReadOptions, several: bool) -> Iterator[_Item]:
    if Path(path).name.startswith("~$"):
        raise InputError(f"{path} is a lock file of a document that is open; name the document itself")
    inputs = _open(path, options)
    format = detect_format(inputs, options)
    if format not in STREAMED and any(isinstance(file, FileOnDisk) for file in inputs.files):
        inputs = read_files(path)
    prefix = f"{path}:" if several else ""
    if format in VECTOR_FORMATS:
        corpus = replace(read_vector_files(inputs, format, options), labels=None)
        yield reading_line(options.reading(path, format, len(corpus)))
        yield replace(corpus, ids=[f"{prefix}{name}" for name in corpus.ids])
        return
    documents = iterate_documents(inputs, format, options)
    if format == "fasta":  # their letters are checked, so the corpus keeps the format
        sequences = [document._replace(id=_id(path, document, inputs, prefix)) for document in documents]
        corpus = build_corpus(sequences, inputs.source, format, inputs.problems, labelled=False)
        yield reading_line(options.reading(path, format, len(corpus)))
        yield corpus
        return
    number, n_invalid, endless = 0, 0, any(isinstance(file, StreamFile) for file in inputs.files)
    sample, guessed = list[str](), options.encoding is not None  #: Texts; whether their charset is a guess
    for number, document in enumerate(documents, 1):
        n_invalid += document.problem is not None
        guessed |= any(NOT_UTF_8 in problem for _, problem in inputs.problems)
        sample += [document.text] * (guessed and len(sample) < SAMPLE)
        yield from inputs.problems
        inputs.problems.clear()
        name = printable_id(_id(path, document, inputs, prefix))
        if format == "file" != options.format and not several:
            lines = document.text.strip().count("\n") + 1
            if lines > 1:
                yield f"warning: {name}: it is read as one document of {lines:,} lines; {ONE_DOCUMENT}"
        yield document if name == document.id else document._replace(id=name)
        if number == 1 and endless:
            yield reading_line(options.reading(inputs.source, format))
    yield from inputs.problems
    options.warn(*wrong_charset(path, sample, options.encoding))
    yield from (f"warning: {sentence}" for sentence in options.warnings)
    if not endless:
        yield reading_line(options.reading(inputs.source, format, number - n_invalid))


def _open(path: str, options: ReadOptions) -> InputFiles:
    if path == "-":
        return open_stream(standard_input(), "standard input", options)
    with suppress(OSError):
        if stat.S_ISFIFO(Path(path).stat().st_mode):
            return open_stream(open(path, "rb"), path, options)
    return (files_on_disk(Path(path)) if is_large(path) else None) or read_files(path)


def _id(path: str, document: Document, inputs: InputFiles, prefix: str) -> str:
    """The path of a file that is a single document, else the id after a prefix."""
    if inputs.single and document.id == inputs.files[0].name:
        return path
    return f"{prefix}{document.id}"


class _ReadAhead:
    """Bounded queue of the items that a thread reads ahead, which become batches of documents."""

    def __init__(self) -> None:
        self._queue = SimpleQueue[_Item | None]()  # None at the end
        self._read, self._taken = 0, 0  # symbols of documents; each is written by a single thread

    def run(self, items: Iterable[_Item]) -> None:
        """Read all items; an exception becomes an item."""
        try:
            for item in items:
                while self._queue.qsize() >= MAX_DOCUMENTS or self._read - self._taken >= MAX_SYMBOLS:
                    time.sleep(WAIT)
                self._read += len(item.text) if isinstance(item, Document) else 0
                self._queue.put(item)
        except BaseException as error:
            self._queue.put(error)
        self._queue.put(None)

    def _get(self) -> list[_Item]:
        """All items in the queue, after the first has arrived; an empty list at the end."""
        items = [self._queue.get()]
        items += [self._queue.get() for _ in range(self._queue.qsize())]
        self._taken += sum(len(item.text) for item in items if isinstance(item, Document))
        if items[-1] is None:
            self._queue.put(None)
        return [item for item in items if item is not None]

    def batches(self) -> Iterator[Corpus | InputError | str]:
        """Corpora of the documents with their problems, messages and errors."""
        while items := self._get():
            documents: list[Document] = []
            problems: Problems = []
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


def _corpora(documents: list[Document], problems: Problems) -> Iterator[Corpus]:
    """Corpora of documents, a corpus for each run of equal columns; none without documents and problems."""
    if not documents and not problems:
        return
    runs: list[tuple[list[Document], list[tuple[int, Document]]]] = [([], [])]
    for document in documents:
        valid, invalid = runs[-1]
        if document.problem is not None:
            invalid.append((len(valid), document))
        elif valid and tuple(valid[-1].columns or ()) != tuple(document.columns or ()):
            runs.append(([document], []))
        else:
            valid.append(document)
    for valid, invalid in runs:
        corpus = build_corpus(valid, "the documents", "", [], labelled=False)
        yield replace(corpus, ids=[document.id for document in valid], problems=problems, invalid=invalid)
        problems = []
