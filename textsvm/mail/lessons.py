"""The lessons of a filter on disk, and nothing that was answered is lost with the power.

A lesson is a message that somebody called spam or ham, under the digest of what delivery does not change in
it. With it are kept: its features, its alpha at the machine's optimum, what the filter said of it before it
was learnt (for seeing a filter grow worse), and the message itself unless the store was made without texts.
The file, its tables and its faults: `textsvm.mail.lessons`.

Features are packed: the keys as the first one and the gaps between them, of 4 bytes each where they fit; the
values as one number where they are all the same, as those of `textsvm.mail.features` are.

The SQLite file under the lessons: made, opened, its transactions, and what SQLite reports in sentences.

The journal is SQLite's WAL with synchronous=FULL: a commit returns when it is on disk, readers never wait for
a writer, and a second writer waits its turn. Tables:

    lessons   a row a lesson, small, in the order of learning
    bodies    of the same id: the features as arrays, the message compressed
    meta      what the store is: its name, whether it holds texts, versions, the calibration

`generation` grows with every commit of lessons, and so tells a process that another one has learnt.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
import uuid
import zlib
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from textsvm.errors import InputError

FILE = "lessons.sqlite"
#: SQLite's mark of whose file it is ("tsvm"), and the version of the tables.
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
#: What SQLite says, and what it means to a person.
_TROUBLES = {
    "file is not a database": "is not a mail store of textsvm: name another folder",
    "malformed": "is damaged: put a copy of it back, or move it away and learn anew",
    "is locked": f"has been written by another process for {PATIENCE:g} seconds: try again",
    "disk is full": "cannot be written: the disk is full; what was learnt before is kept",
    "readonly": "cannot be written: the file or its folder is read-only",
    "unable to open": "cannot be opened: its folder must be there, and writable",
    "disk I/O": "cannot be read or written: the disk reports an error",
    "no such": "is damaged: a part of the mail store is missing; put a copy of it back",
}


class StoreFile:
    """The file of one folder, open.

    Parameters
    ----------
    folder : path
    create : bool
        Make the store if there is none: the folder for its owner alone (0700), files too (0600).
    texts : bool
        Whether a store that is made holds messages; one that is there stays as it was made.

    Attributes
    ----------
    path : Path

    Raises
    ------
    InputError
        Here and by all methods: if there is no store, the file is another program's, of a newer textsvm or
        damaged, cannot be written, the disk is full, or another process writes for longer than `PATIENCE`.
    """

    def __init__(self, folder: str | os.PathLike[str], *, create: bool = False, texts: bool = True) -> None:
        self.path = Path(folder, FILE)
        if create:
            _make_file(self.path)
        elif not _is_there(self.path):
            raise InputError(
                f"there is no mail store in {folder}: textsvm mail learn --as spam FILE (or ham) makes one"
            )
        with self.sentences():
            self.sql = sqlite3.connect(
                self.path, timeout=PATIENCE, isolation_level=None, check_same_thread=False
            )
        try:
            with self.sentences():
                self._check(create, texts)
        except BaseException:
            self.sql.close()
            raise

    def close(self) -> None:
        """Close the file."""
        with self.sentences():
            self.sql.close()

    def _check(self, create: bool, texts: bool) -> None:
        self.sql.execute("pragma synchronous = full")
        self.sql.execute("pragma foreign_keys = on")
        if create and self._is_empty():
            self.sql.execute("pragma journal_mode = wal")
            with self.writing():
                if self._is_empty():  # nobody was quicker
                    self._make_tables(texts)
        version = self.pragma("user_version")
        if self.pragma("application_id") != APPLICATION:
            what = "holds nothing yet" if self._is_empty() else "is not a mail store of textsvm"
            raise InputError(f"{self.path} {what}: learn into it, or name another folder")
        if version > FORMAT:
            raise InputError(
                f"{self.path} was written by a newer textsvm (format {version}, this one reads {FORMAT}): "
                "upgrade textsvm"
            )

    def _is_empty(self) -> bool:
        return self.pragma("application_id") == 0 and not self.one("select count(*) from sqlite_master")[0]

    def _make_tables(self, texts: bool) -> None:
        for statement in _TABLES.split(";")[:-1]:
            self.sql.execute(statement)
        self.keep("store", uuid.uuid4().hex)
        self.keep("texts", texts)
        self.keep("generation", 0)
        self.sql.execute(f"pragma user_version = {FORMAT}")
        self.sql.execute(f"pragma application_id = {APPLICATION}")

    def pragma(self, name: str) -> int:
        """A number that SQLite tells of the file."""
        return self.one(f"pragma {name}")[0]

    def one(self, query: str, *values: Any) -> Any:
        """The first row of what a query finds; None if there is none."""
        with self.sentences():
            return self.sql.execute(query, values).fetchone()

    @contextmanager
    def sentences(self) -> Iterator[None]:
        """What SQLite reports, for people."""
        try:
            yield
        except sqlite3.Error as error:
            said = str(error)
            found = next((meaning for part, meaning in _TROUBLES.items() if part in said), f"fails: {said}")
            raise InputError(f"{self.path} {found}") from error

    @contextmanager
    def writing(self) -> Iterator[None]:
        """A transaction that writes: all that happens in the block is on disk after it, or nothing of it."""
        with self.sentences(), self._transaction("begin immediate"):
            yield

    @contextmanager
    def reading(self) -> Iterator[None]:
        """A transaction that reads: the block sees the store as it was at its beginning."""
        with self.sentences(), self._transaction("begin"):
            yield

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[None]:
        self.sql.execute(begin)
        try:
            yield
            self.sql.execute("commit")
        except BaseException:
            with suppress(sqlite3.Error):  # SQLite may have done so itself
                self.sql.execute("rollback")
            raise

    # What the store is

    def meta(self, name: str, default: Any = None) -> Any:
        """A value of the table `meta`, as JSON has it."""
        row = self.one("select value from meta where name = ?", name)
        try:
            return default if row is None else json.loads(row[0])
        except ValueError as error:
            raise InputError(f"{self.path} is damaged: {name} cannot be read") from error

    def keep(self, name: str, value: Any) -> None:
        """Write a value of the table `meta`."""
        self.sql.execute("insert or replace into meta values (?, ?)", (name, json.dumps(value)))

    @property
    def holds_texts(self) -> bool:
        """Whether messages are kept, not their features alone."""
        return bool(self.meta("texts"))

    @property
    def generation(self) -> int:
        """Grows with every change of lessons."""
        return int(self.meta("generation"))

    def check(self) -> None:
        """Read the whole file; raise InputError if it is damaged."""
        with self.sentences():
            said = self.sql.execute("pragma quick_check(1)").fetchone()[0]
        if said != "ok":
            said = " ".join(said.split())
            raise InputError(f"{self.path} is damaged ({said}): put a copy of it back, or learn anew")


def _is_there(path: Path) -> bool:
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise InputError(f"cannot open the mail store {path}: {error.strerror}") from error
    return True


def _make_file(path: Path) -> None:
    """An empty file that its owner alone may read, in such a folder; what is there stays."""
    if _is_there(path):
        return
    try:
        _make_folder(path.parent)
        handle = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    except OSError as error:
        raise InputError(f"cannot make the mail store {path}: {error.strerror}") from error
    os.close(handle)
    with suppress(OSError):  # the name, too, is to outlive the power
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _make_folder(folder: Path) -> None:
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)


KINDS = ("spam", "ham")
#: Bytes that are kept of a message.
MOST_KEPT = 1 << 20

_COLUMNS = "digest, kind, keys, weights, subject, sender, learnt, value, score, alpha"


@dataclass(frozen=True)
class Lesson:
    """A message that was called spam or ham.

    Attributes
    ----------
    digest : str
        Hexadecimal; what the lesson is known by.
    kind : {"spam", "ham"}
    keys : uint64 array, shape (f,)
        Features, ascending.
    values : float32 array, shape (f,)
    subject, sender : str
        For people; empty in a store without texts.
    message : bytes, optional
        As it came, at most its first megabyte; None in a store without texts, or where it was not asked for.
    learnt : float
        Seconds since 1970.
    value, score : float, optional
        Decision value and P(spam) before it was learnt; None while the filter knew one kind only.
    alpha : float
        Its dual coefficient.
    """

    digest: str
    kind: str
    keys: NDArray[np.uint64] = field(repr=False)
    values: NDArray[np.float32] = field(repr=False)
    subject: str = ""
    sender: str = ""
    message: bytes | None = field(default=None, repr=False)
    learnt: float = field(default_factory=time.time)
    value: float | None = None
    score: float | None = None
    alpha: float = 0.0


class Past(NamedTuple):
    """A lesson in few words; its score is P(spam) before it was learnt."""

    kind: str
    subject: str
    sender: str
    learnt: float
    score: float | None


def store_folder(given: Path | None = None) -> Path:
    """Where the lessons of this user are: as given, or TEXTSVM_MAIL, or the folder for data of programs."""
    if given is not None:
        return given
    if os.environ.get("TEXTSVM_MAIL"):
        return Path(os.environ["TEXTSVM_MAIL"])
    data = os.environ.get("XDG_DATA_HOME", "")
    return (Path(data) if os.path.isabs(data) else Path.home() / ".local" / "share") / "textsvm"


class Lessons(StoreFile):
    """The lessons of one folder, open; see `StoreFile`."""

    def __enter__(self) -> Lessons:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def kinds(self) -> dict[str, str]:
        """Digest -> kind of all lessons, in the order of learning."""
        with self.sentences():
            return dict(self.sql.execute("select digest, kind from lessons order by id"))

    def kind(self, digest: str) -> str | None:
        """What a message was called; None if it is no lesson."""
        row = self.one("select kind from lessons where digest = ?", digest)
        return None if row is None else row[0]

    def counts(self) -> dict[str, int]:
        """How many lessons there are of each kind."""
        with self.sentences():
            found = dict(self.sql.execute("select kind, count(*) from lessons group by kind"))
        return {kind: found.get(kind, 0) for kind in KINDS}

    def alphas(self) -> dict[str, float]:
        """Digest -> dual coefficient of all lessons."""
        with self.sentences():
            return dict(self.sql.execute("select digest, alpha from lessons order by id"))

    def read(self, *, supports: bool = False, messages: bool = False) -> Iterator[Lesson]:
        """Lessons in the order of learning.

        Parameters
        ----------
        supports : bool
            Those alone whose alpha is not 0.
        messages : bool
            With their messages.
        """
        columns = _COLUMNS + (", message" if messages else "")
        where = "where alpha != 0" if supports else ""
        with self.sentences(), closing(self.sql.cursor()) as rows:
            rows.execute(f"select {columns} from lessons join bodies using (id) {where} order by id")
            for row in rows:
                yield self._lesson(row)

    def get(self, digest: str) -> Lesson:
        """One lesson, with its message; KeyError if there is none."""
        query = f"select {_COLUMNS}, message from lessons join bodies using (id) where digest = ?"
        row = self.one(query, digest)
        if row is None:
            raise KeyError(digest)
        return self._lesson(row)

    def history(self) -> list[Past]:
        """All lessons in few words, the newest first."""
        query = "select kind, subject, sender, learnt, score from lessons order by id desc"
        with self.sentences():
            return [Past(*row) for row in self.sql.execute(query)]

    def values(self) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Decision values before learning, where there are any, and whether each was spam; in order."""
        query = "select value, kind = 'spam' from lessons where value is not null order by id"
        with self.sentences():
            rows = np.array(self.sql.execute(query).fetchall(), np.float64).reshape(-1, 2)
        return rows[:, 0], rows[:, 1] > 0

    def _lesson(self, row: tuple[Any, ...]) -> Lesson:
        digest, kind, keys, values, *more = row
        message = more.pop() if len(more) == 7 else None
        try:
            found = unpacked(keys, values)
            message = None if message is None else zlib.decompress(message)
        except (ValueError, zlib.error) as error:
            raise InputError(f"{self.path} is damaged: lesson {digest} cannot be read") from error
        subject, sender, *figures = more
        return Lesson(digest, kind, *found, subject, sender, message, *figures)

    def put(self, lesson: Lesson) -> None:
        """Write a lesson, inside `writing`; one of the same digest is replaced."""
        texts = self.holds_texts
        names = (lesson.subject, lesson.sender) if texts else ("", "")
        message = lesson.message[:MOST_KEPT] if texts and lesson.message is not None else None
        self.drop(lesson.digest)
        row = self.sql.execute(
            "insert into lessons (digest, kind, learnt, subject, sender, value, score, alpha) "
            "values (?, ?, ?, ?, ?, ?, ?, ?)",
            (lesson.digest, lesson.kind, lesson.learnt, *map(_writable, names), lesson.value, lesson.score,
             lesson.alpha),
        )  # fmt: skip
        self.sql.execute(
            "insert into bodies values (?, ?, ?, ?)",
            (row.lastrowid, *packed(lesson), None if message is None else zlib.compress(message)),
        )

    def drop(self, digest: str) -> bool:
        """Forget a lesson, inside `writing`; whether there was one."""
        return self.sql.execute("delete from lessons where digest = ?", (digest,)).rowcount > 0

    def set_features(self, lesson: Lesson) -> None:
        """Write features of a lesson anew, inside `writing`, and its value; all else stays."""
        row = (*packed(lesson), lesson.digest)
        self.sql.execute(
            "update bodies set keys = ?, weights = ? where id = (select id from lessons where digest = ?)",
            row,
        )
        self.sql.execute("update lessons set value = ? where digest = ?", (lesson.value, lesson.digest))

    def set_alphas(self, alphas: Mapping[str, float]) -> None:
        """Write dual coefficients, inside `writing`."""
        self.sql.executemany(
            "update lessons set alpha = ? where digest = ?", [(alpha, name) for name, alpha in alphas.items()]
        )


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
    """What was packed; ValueError if nothing can have been packed so."""
    value = np.frombuffer(values, "<f4")
    if not keys and not values:
        return np.zeros(0, np.uint64), value
    if len(keys) < 9 or keys[0] not in (4, 8):
        raise ValueError("no keys")
    gaps = np.frombuffer(keys[9:], f"<u{keys[0]}").astype(np.uint64)
    found = np.cumsum(np.concatenate([np.frombuffer(keys[1:9], "<u8"), gaps]), dtype=np.uint64)
    if len(value) not in (1, len(found)):
        raise ValueError("values of other keys")
    return found, np.broadcast_to(value, len(found))


def _writable(text: str) -> str:
    """SQLite's text is UTF-8: half a surrogate pair, as a damaged header may hold, cannot be written."""
    return text.encode("utf-8", "replace").decode()
