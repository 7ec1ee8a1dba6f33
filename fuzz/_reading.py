"""A reader under attack: whatever the bytes, a corpus or one printable sentence, in time and in memory."""

from __future__ import annotations

import io
import random
import signal
import tempfile
import threading
import warnings
from collections.abc import Callable, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from textsvm.errors import InputError
from textsvm.readers import sample
from textsvm.readers.corpus import ReadOptions
from textsvm.readers.read import VECTOR_FORMATS, detect_format, iterate_documents, read_corpus, read_documents
from textsvm.readers.stream import incoming_documents, open_stream, stream_corpus

from ._mutations import mutated
from ._whole import Whole

#: Processor seconds of one case; bytes that it may take in main memory.
MOST_SECONDS, MOST_BYTES = 10, 1 << 30


_JOINERS = dict.fromkeys((0x200C, 0x200D))


class Hang(BaseException):
    """A case took too long."""


class Target:
    """Cases of one format.

    Parameters
    ----------
    name : str
        Of the file that is read, or of a folder if it ends in a slash.
    seeds : callable
        Gives the bytes to begin with.
    format : str or None
        That half of the reads name.
    tokens : sequence of bytes
        That have a meaning in the format.
    options : sequence of dict
        Of `read_corpus`, of which a case takes one.
    make : callable, optional
        ``make(random, seeds)`` is the content of a case; mutated seeds by default.
    whole : callable, optional
        ``whole(random)``: a file of some program, and what is to be read of it (`_whole.py`); a case in four.
    """

    def __init__(
        self,
        name: str,
        seeds: Callable[[], Sequence[bytes]],
        format: str | None = None,
        tokens: Sequence[bytes] = (),
        options: Sequence[dict[str, Any]] = ({},),
        make: Callable[[random.Random, Sequence[bytes]], Any] | None = None,
        whole: Callable[[random.Random], Whole] | None = None,
    ) -> None:
        self.name, self._seeds, self.format, self.options = name, seeds, format, options
        self._whole = whole
        self._make = make or (lambda random, seeds: mutated(random, seeds, tokens))

    @cached_property
    def seeds(self) -> Sequence[bytes]:
        return [each[:20_000] for each in self._seeds()] or [b""]

    def run(self, seed: int) -> None:
        """One case; AssertionError with the case if the promise is broken."""
        made = random.Random(seed)
        if self._whole and made.random() < 0.25:
            self._read_back(made, seed)
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # names that are twice in an archive
            content = self._make(made, self.seeds)
        options = dict(made.choice(self.options))
        if self.format and made.random() < 0.5:
            options["format"] = self.format
        way = made.choice(WAYS)
        with tempfile.TemporaryDirectory() as folder:
            path = written(Path(folder), self.name, content)
            judge(lambda: way(path, options), f"seed {seed}, {way.__name__}, {options}, {content!r:.2000}")

    def of_bytes(self, data: bytes) -> None:
        """A case of these bytes: three say how it is read, the others are the file."""
        how, content = data[:3].ljust(3, b"\0"), data[3:]
        options, way = dict(self.options[how[0] % len(self.options)]), WAYS[how[1] % len(WAYS)]
        if self.format and how[2] % 2:
            options["format"] = self.format
        with tempfile.TemporaryDirectory() as folder:
            path = written(Path(folder), self.name, content)
            judge(lambda: way(path, options), f"{way.__name__}, {options}, {content!r:.2000}")

    def _read_back(self, made: random.Random, seed: int) -> None:
        """What a program writes is read as it is, in memory and bit by bit."""
        assert self._whole is not None
        content, ids, texts, labels = self._whole(made)
        format = self.format if made.random() < 0.5 or self.format in ("folders", "lines") else None
        with tempfile.TemporaryDirectory() as folder:
            path = written(Path(folder), self.name, content)
            for read in (read_corpus, lambda *given: stream_corpus(*given).stored()):
                found = read(path, format)
                case = f"seed {seed}, written and read, {format}, {content!r:.2000}"
                pairs = [
                    (_examples(found), texts),
                    (found.labels or [], labels),
                    (found.ids, ids or found.ids),
                ]
                for got, expected in pairs:
                    assert got == expected, f"{got!r:.1000} and not {expected!r:.1000}; {case}"


def _examples(found: Any) -> list[Any]:
    """Texts, or rows of numbers."""
    if found.vectors is None:
        return list(found.texts)
    vectors = found.vectors
    return list((vectors.toarray() if hasattr(vectors, "toarray") else vectors).tolist())


def written(folder: Path, name: str, content: Any) -> Path:
    """The file of some bytes, or the folder of some files."""
    if isinstance(content, bytes):
        (folder / name).write_bytes(content)
        return folder / name
    for inner, data in content.items():
        place = folder / "corpus" / inner
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
        except (OSError, ValueError):  # no name of a file, or one of a folder
            continue
    (folder / "corpus").mkdir(exist_ok=True)
    return folder / "corpus"


def judge(read: Callable[[], Any], case: str) -> None:
    """Raise AssertionError if something else than a result or one printable sentence comes of it."""
    _reset_peak()
    before = _memory("VmRSS")
    try:
        with _limited(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            read()
    except InputError as error:
        message = str(error)
        if not (message and len(message) <= 300 and message.translate(_JOINERS).isprintable()):
            raise AssertionError(f"no printable line: {message!r}; {case}") from error
    except Hang as error:
        raise AssertionError(f"more than {MOST_SECONDS} s; {case}") from error
    except AssertionError:
        raise
    except Exception as error:
        raise AssertionError(f"{type(error).__name__}: {error}; {case}") from error
    taken = _memory("VmHWM") - before
    assert taken < MOST_BYTES, f"{taken:,} bytes; {case}"


@contextmanager
def _limited() -> Any:
    """Hang after so many seconds of processor time, or six times as many on the clock, if there are signals.

    Other programs on the same cores count for the clock alone.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    def late(*_: object) -> None:
        raise Hang

    clocks = {signal.ITIMER_PROF: signal.SIGPROF, signal.ITIMER_REAL: signal.SIGALRM}
    old = {number: signal.signal(number, late) for number in clocks.values()}
    for clock, factor in zip(clocks, (1, 6), strict=True):
        signal.setitimer(clock, factor * MOST_SECONDS)
    try:
        yield
    finally:
        for clock in clocks:
            signal.setitimer(clock, 0)
        for number, handler in old.items():
            signal.signal(number, handler)


def _reset_peak() -> None:
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii", newline="\n")


def _memory(name: str) -> int:
    """Bytes of main memory, 0 where the system does not tell."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith(name)), 0)


def check(corpus: Any) -> None:
    """The columns of a corpus fit each other."""
    n = len(corpus)
    assert n, "a corpus of nothing"
    assert len(set(corpus.ids)) == n, "ids that occur twice"
    for values in (corpus.labels, corpus.part, corpus.targets, corpus.weights, corpus.groups):
        assert values is None or len(values) == n, "columns of other lengths"
    assert len(corpus.texts) in (0, n), "texts of another length"
    assert len(corpus.texts) or corpus.vectors is not None or corpus.columns, "neither texts nor vectors"
    assert corpus.vectors is None or corpus.vectors.shape[0] == n, "vectors of another length"
    assert all(isinstance(text, str) for text in corpus.texts), "a text that is none"
    "".join(corpus.ids).encode()


def as_corpus(path: Path, options: dict[str, Any]) -> None:
    check(read_corpus(path, **options))


def as_stream(path: Path, options: dict[str, Any]) -> None:
    check(stream_corpus(path, **options).stored())


def as_documents(path: Path, options: dict[str, Any]) -> None:
    check(read_documents([path], **_of_documents(options)))


def as_they_come(path: Path, options: dict[str, Any]) -> None:
    for corpus in incoming_documents([str(path)], **_of_documents(options), failed=_raise):
        assert len(corpus) or corpus.problems, "a batch of nothing"


def as_standard_input(path: Path, options: dict[str, Any]) -> None:
    if path.is_dir():
        return as_they_come(path, options)
    settings = ReadOptions(labelled=False, **_of_documents(options))
    inputs = open_stream(io.BufferedReader(io.BytesIO(path.read_bytes())), "standard input", settings)
    format = detect_format(inputs, settings)
    if format not in VECTOR_FORMATS:
        list(iterate_documents(inputs, format, settings))


def _raise(error: InputError) -> None:
    raise error


def _of_documents(options: dict[str, Any]) -> dict[str, Any]:
    return {name: options[name] for name in ("format", "text", "id", "numbers", "headers") if name in options}


WAYS = (as_corpus, as_corpus, as_stream, as_documents, as_they_come, as_standard_input)


def samples(*names: str) -> Callable[[], list[bytes]]:
    """The beginnings of sample corpora."""
    return lambda: [sample(name).read_bytes()[:20_000] for name in names]
