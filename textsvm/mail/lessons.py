"""Training messages of a filter ("lessons") in SQLite. A write returns after its commit is durable.

A lesson is a message that the user called spam or ham, stored under its digest (`RawMessage.digest`) with
its features, its dual coefficient, the decision before it was learnt, and the message itself unless the
store was created without texts.

The journal is SQLite's WAL with synchronous=FULL: readers never wait for a writer; a second writer waits.
Tables:

    lessons   the small columns, in the order of learning
    bodies    with the same id: the features as arrays, the compressed message
    meta      name of the store, whether it holds texts, versions, the calibration

`generation` grows with every commit of lessons, so that other processes notice it.

Features are packed: the first key and the gaps between keys, as 4 bytes each if they fit; equal values, as in
`textsvm.mail.features`, as a single number.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
import uuid
import zlib
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from textsvm.errors import InputError

KINDS = ("spam", "ham")
#: Bytes that are kept of a message.
MAX_KEPT = 1 << 20
FILE = "lessons.sqlite"
#: SQLite's application id ("tsvm"), and the version of the tables.
APPLICATION, FORMAT = 0x7473766D, 1
#: Seconds that a second writer waits.
PATIENCE = 10.0
_TABLES = """
create table meta (name text primary key, value text not null) without rowid;
create table lessons (
    id integer primary key autoincrement,
    digest text not null unique,
    kind text not null check (kind in ('spam', 'ham')),
    learnt real not null,
    subject text not null,
    sender text not null,
    value real,
    score real,
    alpha real not null
);
create table bodies (
    id integer primary key references lessons (id) on delete cascade,
    keys blob not null,
    weights blob not null,
    message blob
);
"""
_COLUMNS = "digest, kind, keys, weights, subject, sender, learnt, value, score, alpha"
#: Parts of SQLite's error messages, and messages for people.
_ERRORS = {
    "file is not a database": "is not a mail store of textsvm: name another folder",
    "malformed": "is damaged: restore a copy of it, or move it away and learn again",
    "is locked": f"has been written by another process for {PATIENCE:g} seconds: try again",
    "disk is full": "cannot be written: the disk is full; earlier lessons are kept",
    "readonly": "cannot be written: the file or its folder is read-only",
    "unable to open": "cannot be opened: its folder must exist and be writable",
    "disk I/O": "cannot be read or written: the disk reports an error",
    "no such": "is damaged: a part of the mail store is missing; restore a copy of it",
}


@dataclass(frozen=True)
class Lesson:
    """A message that was called spam or ham."""

    digest: str  #: Hexadecimal
    kind: str  #: {"spam", "ham"}
    keys: NDArray[np.uint64] = field(repr=False)  #: shape (f,): Features, ascending
    values: NDArray[np.float32] = field(repr=False)  #: shape (f,)
    #: For display; empty in a store without texts.
    subject: str = ""
    sender: str = ""
    #: bytes: At most the first megabyte; None in a store without texts, or if it was not requested.
    message: bytes | None = field(default=None, repr=False)
    learnt: float = field(default_factory=time.time)  #: Seconds since 1970
    #: Decision value and P(spam) before it was learnt; None while the filter knew a single kind.
    value: float | None = None
    score: float | None = None
    alpha: float = 0.0  #: Dual coefficient


class LessonSummary(NamedTuple):
    """A lesson without features and message; its score is P(spam) before it was learnt."""

    kind: str
    subject: str
    sender: str
    learnt: float
    score: float | None


def store_folder(folder: Path | None = None) -> Path:
    """The folder of this user's lessons: `folder`, else TEXTSVM_MAIL, else in the user's data folder."""
    if folder is not None or os.environ.get("TEXTSVM_MAIL"):
        return folder or Path(os.environ["TEXTSVM_MAIL"])
    data = os.environ.get("XDG_DATA_HOME", "")
    return (Path(data) if os.path.isabs(data) else Path.home() / ".local" / "share") / "textsvm"


class Lessons:
    """The open store of a folder. Methods that write are called inside `writing`.

    All methods raise InputError if there is no store, if the file belongs to another program or a newer
    textsvm, is damaged or cannot be written, or if another process writes for longer than `PATIENCE`.

    Parameters
    ----------
    folder : path
    create : bool
        Create a missing store; only its owner may read it (0700, files 0600).
    texts : bool
        Whether a new store holds messages.
    """

    def __init__(self, folder: str | os.PathLike[str], *, create: bool = False, texts: bool = True) -> None:
        self.path = Path(folder, FILE)
        if create:
            _create_file(self.path)
        elif not _exists(self.path):
            raise InputError(f"there is no mail store in {folder}; create it with textsvm mail learn")
        with self._messages():
            self.sql = sqlite3.connect(
                self.path, timeout=PATIENCE, isolation_level=None, check_same_thread=False
            )
        try:
            with self._messages():
                self._open(create, texts)
        except BaseException:
            self.sql.close()
            raise

    def close(self) -> None:
        """Close the file."""
        with self._messages():
            self.sql.close()

    def _open(self, create: bool, texts: bool) -> None:
        self.sql.execute("pragma synchronous = full")
        self.sql.execute("pragma foreign_keys = on")
        if create and self._is_empty():
            self.sql.execute("pragma journal_mode = wal")
            with self.writing():
                if self._is_empty():  # no other process was quicker
                    for statement in _TABLES.split(";")[:-1]:
                        self.sql.execute(statement)
                    self.set_meta("store", uuid.uuid4().hex)
                    self.set_meta("texts", texts)
                    self.set_meta("generation", 0)
                    self.sql.execute(f"pragma user_version = {FORMAT}")
                    self.sql.execute(f"pragma application_id = {APPLICATION}")
        version = self.pragma("user_version")
        if self.pragma("application_id") != APPLICATION:
            state = "is empty" if self._is_empty() else "is not a mail store of textsvm"
            raise InputError(f"{self.path} {state}: learn into it, or name another folder")
        if version > FORMAT:
            raise InputError(f"{self.path} has format {version} of a newer textsvm: upgrade textsvm")

    def _is_empty(self) -> bool:
        return self.pragma("application_id") == 0 and not self._row("select count(*) from sqlite_master")[0]

    def pragma(self, name: str) -> Any:
        """The value of an SQLite pragma."""
        return self._row(f"pragma {name}")[0]

    def _row(self, query: str, *values: Any) -> Any:
        """The first row of a query; None if there is none."""
        with self._messages():
            return self.sql.execute(query, values).fetchone()

    @contextmanager
    def _messages(self) -> Iterator[None]:
        """Raise SQLite's errors as InputError with a message for people."""
        try:
            yield
        except sqlite3.Error as error:
            message = next((text for part, text in _ERRORS.items() if part in str(error)), f"fails: {error}")
            raise InputError(f"{self.path} {message}") from error

    def writing(self) -> AbstractContextManager[None]:
        """A write transaction: after the block all its changes are on disk, or none."""
        return self._transaction("begin immediate")

    def reading(self) -> AbstractContextManager[None]:
        """A read transaction: the block sees the store as it was at its beginning."""
        return self._transaction("begin")

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[None]:
        with self._messages():
            self.sql.execute(begin)
            try:
                yield
                self.sql.execute("commit")
            except BaseException:
                with suppress(sqlite3.Error):  # SQLite may have rolled back itself
                    self.sql.execute("rollback")
                raise

    # Metadata

    def meta(self, name: str, default: Any = None) -> Any:
        """A value of the table `meta`, which holds JSON."""
        row = self._row("select value from meta where name = ?", name)
        try:
            return default if row is None else json.loads(row[0])
        except ValueError as error:
            raise InputError(f"{self.path} is damaged: {name} cannot be read") from error

    def set_meta(self, name: str, value: Any) -> None:
        """Write a value of the table `meta`."""
        self.sql.execute("insert or replace into meta values (?, ?)", (name, json.dumps(value)))

    @property
    def holds_texts(self) -> bool:
        """Whether messages are kept, not their features alone."""
        return bool(self.meta("texts"))

    @property
    def generation(self) -> int:
        """A number that grows with every change of lessons."""
        return int(self.meta("generation"))

    def check(self) -> None:
        """Read the whole file; raise InputError if it is damaged."""
        with self._messages():
            answer = self.sql.execute("pragma quick_check(1)").fetchone()[0]
        if answer != "ok":
            answer = " ".join(answer.split())
            raise InputError(f"{self.path} is damaged ({answer}): restore a copy of it, or learn again")

    # Reading

    def kind(self, digest: str) -> str | None:
        """The kind of a lesson; None if there is no such lesson."""
        row = self._row("select kind from lessons where digest = ?", digest)
        return None if row is None else row[0]

    def counts(self) -> dict[str, int]:
        """Number of lessons of each kind."""
        with self._messages():
            counts = dict(self.sql.execute("select kind, count(*) from lessons group by kind"))
        return {kind: counts.get(kind, 0) for kind in KINDS}

    def iterate(self, *, supports: bool = False, messages: bool = False) -> Iterator[Lesson]:
        """Lessons in the order of learning; `supports`: only support vectors; `messages`: with messages."""
        columns = _COLUMNS + (", message" if messages else "")
        where = "where alpha != 0" if supports else ""
        with self._messages(), closing(self.sql.cursor()) as rows:
            rows.execute(f"select {columns} from lessons join bodies using (id) {where} order by id")
            for row in rows:
                yield self._lesson(row)

    def get(self, digest: str) -> Lesson:
        """A lesson with its message; KeyError if there is none."""
        query = f"select {_COLUMNS}, message from lessons join bodies using (id) where digest = ?"
        row = self._row(query, digest)
        if row is None:
            raise KeyError(digest)
        return self._lesson(row)

    def history(self) -> list[LessonSummary]:
        """Summaries of all lessons, the newest first."""
        query = "select kind, subject, sender, learnt, score from lessons order by id desc"
        with self._messages():
            return [LessonSummary(*row) for row in self.sql.execute(query)]

    def _lesson(self, row: tuple[Any, ...]) -> Lesson:
        digest, kind, keys, values, *more = row
        message = more.pop() if len(more) == 7 else None
        try:
            arrays = unpacked(keys, values)
            message = None if message is None else zlib.decompress(message)
        except (ValueError, zlib.error) as error:
            raise InputError(f"{self.path} is damaged: lesson {digest} cannot be read") from error
        subject, sender, *numbers = more
        return Lesson(digest, kind, *arrays, subject, sender, message, *numbers)

    # Writing

    def put(self, lesson: Lesson) -> None:
        """Write a lesson; it replaces a lesson of the same digest."""
        texts = self.holds_texts
        # SQLite's text is UTF-8 and does not accept half a surrogate pair, which a damaged header may hold.
        shown = (lesson.subject, lesson.sender) if texts else ("", "")
        names = [name.encode("utf-8", "replace").decode() for name in shown]
        message = lesson.message[:MAX_KEPT] if texts and lesson.message is not None else None
        self.drop(lesson.digest)
        row = self.sql.execute(
            "insert into lessons (digest, kind, learnt, subject, sender, value, score, alpha) "
            "values (?, ?, ?, ?, ?, ?, ?, ?)",
            (lesson.digest, lesson.kind, lesson.learnt, *names, lesson.value, lesson.score, lesson.alpha),
        )
        self.sql.execute(
            "insert into bodies values (?, ?, ?, ?)",
            (row.lastrowid, *packed(lesson), None if message is None else zlib.compress(message)),
        )

    def drop(self, digest: str) -> bool:
        """Remove a lesson; return whether it existed."""
        return self.sql.execute("delete from lessons where digest = ?", (digest,)).rowcount > 0

    def set_features(self, lesson: Lesson) -> None:
        """Replace features and decision value of a lesson."""
        self.sql.execute(
            "update bodies set keys = ?, weights = ? where id = (select id from lessons where digest = ?)",
            (*packed(lesson), lesson.digest),
        )
        self.sql.execute("update lessons set value = ? where digest = ?", (lesson.value, lesson.digest))

    def set_alphas(self, alphas: Mapping[str, float]) -> None:
        """Write dual coefficients by digest."""
        self.sql.executemany(
            "update lessons set alpha = ? where digest = ?", [(alpha, name) for name, alpha in alphas.items()]
        )


def _exists(path: Path) -> bool:
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise InputError(f"cannot open the mail store {path}: {error.strerror}") from error
    return True


def _create_file(path: Path) -> None:
    """Create an empty file that its owner alone may read, in such a folder, unless it exists."""
    if _exists(path):
        return
    try:
        if not path.parent.is_dir():
            path.parent.parent.mkdir(parents=True, exist_ok=True)
            path.parent.mkdir(mode=0o700, exist_ok=True)
        handle = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    except OSError as error:
        raise InputError(f"cannot create the mail store {path}: {error.strerror}") from error
    os.close(handle)
    with suppress(OSError):  # the entry in the folder must survive a power failure, too
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def packed(lesson: Lesson) -> tuple[bytes, bytes]:
    """Keys and values of a lesson as bytes."""
    keys, values = lesson.keys.astype("<u8"), lesson.values.astype("<f4")
    if not len(keys):
        return b"", b""
    gaps = np.diff(keys)
    width = 4 if gaps.max(initial=0) < 1 << 32 else 8
    same = bool((values == values[0]).all())
    return (
        bytes([width]) + keys[:1].tobytes() + gaps.astype(f"<u{width}").tobytes(),
        (values[:1] if same else values).tobytes(),
    )


def unpacked(keys: bytes, values: bytes) -> tuple[NDArray[np.uint64], NDArray[np.float32]]:
    """Inverse of `packed`; ValueError for other bytes."""
    value = np.frombuffer(values, "<f4")
    if not keys and not values:
        return np.zeros(0, np.uint64), value
    if len(keys) < 9 or keys[0] not in (4, 8):
        raise ValueError("no keys")
    gaps = np.frombuffer(keys[9:], f"<u{keys[0]}").astype(np.uint64)
    all_keys = np.cumsum(np.concatenate([np.frombuffer(keys[1:9], "<u8"), gaps]), dtype=np.uint64)
    if len(value) not in (1, len(all_keys)):
        raise ValueError("values of other keys")
    return all_keys, np.broadcast_to(value, len(all_keys))
