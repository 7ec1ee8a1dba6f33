"""Training messages of a filter ("lessons") in SQLite. A write returns after its commit is durable.

A lesson is a message that the user called spam or ham, stored under its digest (`RawMessage.digest`) with
its features, its dual coefficient, the decision before it was learnt, and the message itself unless the
store was created without texts. A second file of the same form has lessons of categories (`categories.py`).

The journal is SQLite's WAL with synchronous=FULL: readers never wait for a writer. Tables:

    lessons   the small columns, in the order of learning, and `seals`
    bodies    with the same id: the features as arrays, the compressed message
    meta      name of the store, whether it holds texts, versions, the calibration, `counts`, `rows`, `seal`

Damage is detected by digests, the first 16 bytes of SHA-256. `seals` of a lesson are four digests: [0]
features; [1] message; [2] digest, kind, learnt, subject, sender and [0:2]; [3] id, value, score, alpha and
[0:3]. The checksum `rows` is the sum of [3] of all lessons modulo 2**128, so a lesson changes it in constant
time; `seal` is the digest of all other values in `meta`. Every row is checked when it is read, `meta` as
well, and the checksum when the machine or the weights are computed from the lessons.

Features are packed: the first key and the gaps between keys, as 4 bytes each if they fit; equal values as a
single number; several runs of equal values, as in `features.py`, as the letter r, the values of the runs, and
their lengths.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
import zlib
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from textsvm.apps.mail.client import create_file, give_to_owner, store_folder
from textsvm.errors import InputError, os_errors

if TYPE_CHECKING:
    from textsvm.apps.mail.features import Keys, Values
    from textsvm.arrays import Ints, Json

KINDS = ("spam", "ham")
MAX_KEPT = 1 << 20  #: Bytes that are kept of a message
FILE = "lessons.sqlite"
CATEGORIES_FILE = "categories.sqlite"  #: Lessons whose kinds are categories
APPLICATION = 0x7473766D  #: SQLite's application id ("tsvm")
FORMAT = 2  #: Version of the tables
C = 10.0  #: Upper bound of dual coefficients
LOCK_TIMEOUT = 10.0  #: Seconds that a second writer waits
_TABLES = """
create table meta (name text primary key, value text not null) without rowid;
create table lessons (
    id integer primary key autoincrement,
    digest text not null unique,
    kind text not null,
    learnt real not null,
    subject text not null,
    sender text not null,
    value real,
    score real,
    alpha real not null,
    seals blob not null
);
create table bodies (
    id integer primary key references lessons (id) on delete cascade,
    keys blob not null,
    weights blob not null,
    message blob
);
"""
_REPAIR = (
    "save its intact lessons with `textsvm mail export FILE`, move it away, and learn them with "
    "`textsvm mail import FILE`"
)
#: Advice after a failure of `export`.
_NO_REPAIR = "nothing of it can be read; restore a backup, or learn again from mail folders into a new store"
#: Parts of SQLite's error messages, and messages for people.
_ERRORS = {
    "file is not a database": "is not a mail store of textsvm: name another folder",
    "malformed": f"is damaged: {_REPAIR}",
    "decode": f"is damaged (a text is not UTF-8): {_REPAIR}",
    "is locked": f"has been written by another process for {LOCK_TIMEOUT:g} seconds: try again",
    "disk is full": "cannot be written: the disk is full; earlier lessons are kept",
    "readonly": "cannot be written: the file or its folder is read-only",
    "unable to open": "cannot be opened: its folder must exist and be writable",
    "may not read": "cannot be opened: this user may not read it; `chown` it to the owner of its folder",
    "disk I/O": "cannot be read or written: the disk reports an error",
    "no such": f"is damaged (a table or column is missing): {_REPAIR}",
}


class Lesson(NamedTuple):
    """A message that was called spam or ham, or of a category."""

    digest: str  #: Hexadecimal
    kind: str  #: {"spam", "ham"}, or a category
    keys: Keys  #: shape (f,): Features, ascending
    values: Values  #: shape (f,)
    subject: str = ""  #: For display, as the sender; empty in a store without texts
    sender: str = ""
    #: bytes: At most the first megabyte; None in a store without texts, or if it was not requested.
    message: bytes | None = None
    learnt: float | None = None  #: Seconds since 1970; None for a new lesson
    #: Decision value and P(spam) before it was learnt; None while the filter knew a single kind.
    value: float | None = None
    score: float | None = None
    alpha: float = 0.0  #: Dual coefficient


class LessonRow(NamedTuple):
    """A row of the table `lessons`."""

    id: int
    digest: str
    kind: str
    learnt: float
    subject: str
    sender: str
    value: float | None
    score: float | None
    alpha: float
    digests: bytes  #: Column `seals`

    def with_digests(self, content: bytes | None = None) -> LessonRow:
        """The row with its digests; `content` are those of new features and message."""
        digests = content or self.digests[:32]
        digests += _digest(self[1:6], digests)
        return self._replace(digests=digests + _digest((self.id, *self[6:9]), digests))

    @property
    def checksum_term(self) -> int:
        """The term of the row in the sum over all rows."""
        return int.from_bytes(self.digests[48:], "big")

    @property
    def intact(self) -> bool:
        """Whether the row is as it was written."""
        return isinstance(self.digests, bytes) and self.with_digests().digests == self.digests


#: sqlite3 raises UnicodeDecodeError if its own message quotes a damaged name.
_SQL_ERRORS = (sqlite3.Error, UnicodeDecodeError)
_MODULUS = 1 << 128
_UNREADABLE = (InputError, TypeError, ValueError, zlib.error)  #: Raised while decoding a damaged row
_ROW = ", ".join([*LessonRow._fields[:-1], "seals"])
_ROWS = f"select {_ROW} from lessons"
_LESSONS = f"select {_ROW}, keys, weights, message from lessons left join bodies using (id)"


class Lessons:
    """The open store of a folder. Methods that write are called inside `writing`.

    All methods raise InputError if there is no store, if the file belongs to another program or a newer
    textsvm, is damaged or cannot be written, or if another process writes for longer than `LOCK_TIMEOUT`.

    `create` creates a missing store, which only its owner may read (0700, files 0600), with messages unless
    `texts` is false. `damaged` opens a damaged store for `intact`, without writing to it. With `categories`
    the kinds of the lessons are categories.
    """

    def __init__(
        self, folder: str | os.PathLike[str] | None = None, *, create: bool = False, texts: bool = True,
        damaged: bool = False, categories: bool = False,
    ) -> None:  # fmt: skip
        self.path = Path(store_folder(os.fspath(folder or ""))) / (CATEGORIES_FILE if categories else FILE)
        #: Kinds that are counted even if there is no lesson of them.
        self._no_counts = {} if categories else dict.fromkeys(KINDS, 0)
        self._advice = _NO_REPAIR if damaged else _REPAIR
        #: Values of the table `meta` during a transaction of `reading` or `writing`.
        self._meta: Json | None = None
        if create:
            _create_file(self.path)
        elif not file_exists(self.path):
            raise InputError(f"there is no mail store in {self.path.parent}; textsvm mail learn creates it")
        uri = self.path.absolute().as_uri()
        if not os.access(self.path.parent, os.W_OK):  # SQLite cannot create the WAL's files
            uri += "?mode=ro" if file_exists(Path(f"{self.path}-wal")) else "?immutable=1"
        with self._translate_errors():
            self.sql = sqlite3.connect(
                uri, timeout=LOCK_TIMEOUT, isolation_level=None, check_same_thread=False, uri=True
            )
        try:
            with self._translate_errors():
                self._open(create, texts, damaged)
        except BaseException:
            self.sql.close()
            raise

    def close(self) -> None:
        """Close the file."""
        with self._translate_errors():
            self.sql.close()

    def _open(self, create: bool, texts: bool, damaged: bool) -> None:
        self.sql.execute("pragma synchronous = full")
        self.sql.execute("pragma foreign_keys = on")
        if create and self._is_empty():
            self._use_wal()
            with self._transaction("begin immediate", read_meta=False):
                if self._is_empty():  # no other process was quicker
                    for statement in _TABLES.split(";")[:-1]:
                        self.sql.execute(statement)
                    self._meta = {"generation": 0, "rows": 0, "counts": {}, "texts": texts}
                    self.set_meta("store", os.urandom(16).hex())
                    self.sql.execute(f"pragma user_version = {FORMAT}")
                    self.sql.execute(f"pragma application_id = {APPLICATION}")
        if self.pragma("application_id") != APPLICATION:
            state = "is empty" if self._is_empty() else "is not a mail store of textsvm"
            raise InputError(f"{self.path} {state}: learn into it, or name another folder")
        version = self.pragma("user_version")
        if version > FORMAT:
            raise InputError(f"{self.path} has format {version} of a newer textsvm: upgrade textsvm")
        if version < FORMAT and not damaged:
            raise self.damage("its version")

    def _use_wal(self) -> None:
        """Set the journal; SQLite's own timeout does not apply to it if two processes create a store."""
        end = time.monotonic() + LOCK_TIMEOUT
        while True:
            try:
                self.sql.execute("pragma journal_mode = wal")
                return
            except sqlite3.OperationalError as error:
                if "is locked" not in str(error) or time.monotonic() > end:
                    raise
                time.sleep(0.01)

    def _is_empty(self) -> bool:
        return self.pragma("application_id") == 0 and not self._row("select count(*) from sqlite_master")[0]

    def pragma(self, name: str) -> Any:
        """The value of an SQLite pragma."""
        return self._row(f"pragma {name}")[0]

    def _row(self, query: str, *values: object) -> Any:
        """The first row of a query; None if there is none."""
        with self._translate_errors():
            return self.sql.execute(query, values).fetchone()

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Raise SQLite's errors as InputError with a message for people."""
        try:
            yield
        except _SQL_ERRORS as error:
            import shutil  # not above: it takes 4 ms

            cause = str(error)
            if "disk I/O" in cause and shutil.disk_usage(self.path.parent).free < 1 << 20:  # for the WAL
                cause = "disk is full"
            elif "unable to open" in cause and not os.access(self.path, os.R_OK):
                cause = "may not read"
            message = next((text for part, text in _ERRORS.items() if part in cause), f"fails: {error}")
            raise InputError(f"{self.path} {message.replace(_REPAIR, self._advice)}") from error

    def damage(self, detail: str) -> InputError:
        """The error for a damaged part of the store."""
        return InputError(f"{self.path} is damaged ({detail}): {self._advice}")

    def writing(self) -> AbstractContextManager[None]:
        """A write transaction: after the block all its changes are on disk, or none."""
        return self._transaction("begin immediate")

    def reading(self) -> AbstractContextManager[None]:
        """A read transaction: the block sees the store as it was at its beginning."""
        return self._transaction("begin")

    @contextmanager
    def _transaction(self, begin: str, *, read_meta: bool = True) -> Iterator[None]:
        with self._translate_errors():
            self.sql.execute(begin)
            try:
                self._meta = self._read_meta() if read_meta else {}
                yield
                if self._meta and "immediate" in begin:
                    texts = {name: json.dumps(value) for name, value in self._meta.items()}
                    texts["seal"] = _meta_digest(texts)
                    self.sql.executemany("insert or replace into meta values (?, ?)", texts.items())
                self.sql.execute("commit")
            except BaseException:
                with suppress(*_SQL_ERRORS):  # SQLite may have rolled back itself
                    self.sql.execute("rollback")
                raise
            finally:
                self._meta = None

    # Metadata

    def _read_meta(self) -> Json:
        with self._translate_errors():
            texts = dict(self.sql.execute("select name, value from meta"))
        if texts.pop("seal", None) != _meta_digest(texts):
            raise self.damage("its table meta")
        return {name: json.loads(text) for name, text in texts.items()}

    def meta(self, name: str, default: object = None) -> Any:
        """A value of the table `meta`, which holds JSON."""
        return (self._meta or self._read_meta()).get(name, default)

    def set_meta(self, name: str, value: object) -> None:
        """Write a value of the table `meta`."""
        assert self._meta is not None
        self._meta[name] = value

    @property
    def holds_texts(self) -> bool:
        """Whether the store holds messages, and not their features alone."""
        return bool(self.meta("texts"))

    @property
    def generation(self) -> int:
        """A number that grows with every change of lessons."""
        return int(self.meta("generation"))

    @property
    def state(self) -> tuple[int, int]:
        """Generation and sum of digests: they differ after every change, in every copy of the store."""
        meta = self._meta or self._read_meta()
        return int(meta["generation"]), meta["rows"]

    def check_file(self) -> None:
        """Read the whole file; raise InputError if it is damaged."""
        if (answer := self.pragma("quick_check(1)")) != "ok":
            raise self.damage(" ".join(answer.split()))
        self.check_rows()
        for _ in self.iterate(messages=True):
            pass

    def check_rows(self) -> None:
        """Check each row's digest, their sum and the index."""
        with nullcontext() if self._meta is not None else self.reading(), self._translate_errors():
            names: list[tuple[str, int]] = []
            checksum = 0
            for columns in self.sql.execute(_ROWS):
                row = self._checked(LessonRow(*columns))
                checksum += row.checksum_term
                names.append((row.digest, row.id))
            index = "select digest, id from lessons indexed by sqlite_autoindex_lessons_1 order by digest"
            if checksum % _MODULUS != self.state[1] or self.sql.execute(index).fetchall() != sorted(names):
                raise self.damage("lessons are missing or exchanged")

    def _checked(self, row: LessonRow) -> LessonRow:
        if not row.intact:
            raise self.damage(f"lesson {row.id}")
        return row

    # Reading

    def _find(self, digest: str) -> LessonRow | None:
        row = self._row(f"{_ROWS} where digest = ?", digest)
        return None if row is None else self._checked(LessonRow(*row))

    def kind(self, digest: str) -> str | None:
        """The kind of a lesson; None if there is no such lesson."""
        row = self._find(digest)
        return None if row is None else row.kind

    def counts(self) -> dict[str, int]:
        """Number of lessons of each kind."""
        return self._no_counts | self.meta("counts")

    def iterate(
        self, *, supports: bool = False, messages: bool = False, newest_first: bool = False
    ) -> Generator[Lesson, None, None]:
        """Lessons in the order of learning; `supports`: only support vectors; `messages`: with messages."""
        query = _LESSONS if messages else _LESSONS.replace(", message", "")
        where = "where alpha != 0" if supports else ""
        with self._translate_errors(), closing(self.sql.cursor()) as rows:
            rows.execute(f"{query} {where} order by id {'desc' if newest_first else ''}")
            for row in rows:
                yield self._lesson(row)

    def get(self, digest: str) -> Lesson:
        """A lesson with its message; KeyError if there is none."""
        if (row := self._row(f"{_LESSONS} where digest = ?", digest)) is None:
            raise KeyError(digest)
        return self._lesson(row)

    def intact(self) -> Iterator[Lesson | None]:
        """The intact lessons of a damaged store, with messages; then None for each other lesson.

        A lesson is recovered if its kind and either its message or its features are undamaged; alpha is
        recomputed.
        """
        with self._translate_errors():
            self.sql.execute("begin")
        try:
            # Ids of all readable lessons: each table is scanned in both directions up to a damaged page.
            ids: set[int] = set()
            for rows in ("lessons order by id", "lessons order by digest", "bodies order by id"):
                for direction in ("asc", "desc"):
                    with suppress(*_SQL_ERRORS):
                        keys = self.sql.execute(f"select id from {rows} {direction}")
                        ids.update(key for (key,) in keys if isinstance(key, int))  # NULL in a damaged index
            n, expected = 0, len(ids)
            for key in sorted(ids):
                lesson = None
                with suppress(*_UNREADABLE):
                    lesson = self._intact_lesson(key)
                if lesson is not None:
                    n += 1
                    yield lesson
            with suppress(InputError):
                expected = sum(self.counts().values())
            yield from [None] * max(0, expected - n)
        finally:
            with suppress(*_SQL_ERRORS):
                self.sql.execute("rollback")

    def _intact_lesson(self, key: int) -> Lesson:
        row = LessonRow(*self._row(f"{_ROWS} where id = ?", key))
        if row.with_digests().digests[:48] != row.digests[:48]:
            raise ValueError("class or subject")
        lesson = Lesson(row.digest, row.kind, *unpacked(b"", b""), row.subject, row.sender, None, row.learnt)
        with suppress(*_UNREADABLE):
            (message,) = self._row("select message from bodies where id = ?", key)
            if message is not None and _content(b"", b"", message)[16:] == row.digests[16:32]:
                return lesson._replace(message=zlib.decompress(message))
        body = self._row("select keys, weights from bodies where id = ?", key)
        if _digest((), *body) != row.digests[:16]:
            raise ValueError("features")
        keys, values = unpacked(*body)
        return lesson._replace(keys=keys, values=values)

    def history(self) -> list[LessonRow]:
        """Rows of all lessons, the newest first."""
        with self._translate_errors():
            return [LessonRow(*row) for row in self.sql.execute(f"{_ROWS} order by id desc")]

    def _lesson(self, columns: tuple[Any, ...]) -> Lesson:
        row = self._checked(LessonRow(*columns[:10]))
        keys, values, *messages = columns[10:]
        digests = _content(keys, values, *messages) if messages else _digest((), keys, values)
        if not row.digests.startswith(digests):
            raise self.damage(f"lesson {row.id}")
        message = zlib.decompress(messages[0]) if messages and messages[0] is not None else None
        return Lesson(
            row.digest, row.kind, *unpacked(keys, values), row.subject, row.sender, message, row.learnt,
            row.value, row.score, row.alpha,
        )  # fmt: skip

    # Writing

    def put(self, lesson: Lesson) -> None:
        """Write a lesson; it replaces a lesson of the same digest."""
        texts = self.holds_texts
        # SQLite's text is UTF-8 and does not accept half a surrogate pair, which a damaged header may hold.
        shown = (lesson.subject, lesson.sender) if texts else ("", "")
        names = [name.encode("utf-8", "replace").decode() for name in shown]
        message = lesson.message[:MAX_KEPT] if texts and lesson.message is not None else None
        self.drop(lesson.digest)
        query = f"insert into lessons ({_ROW}) values (null, {', '.join('?' * 9)})"
        learnt = time.time() if lesson.learnt is None else lesson.learnt
        values = (lesson.digest, lesson.kind, learnt, *names, lesson.value, lesson.score, lesson.alpha, b"")
        key = self.sql.execute(query, values).lastrowid
        body = (*packed(lesson), None if message is None else zlib.compress(message))
        self.sql.execute("insert into bodies values (?, ?, ?, ?)", (key, *body))
        self._update(None, LessonRow(*self._row(f"{_ROWS} where id = ?", key)).with_digests(_content(*body)))

    def drop(self, digest: str) -> bool:
        """Remove a lesson; return whether it existed."""
        if (row := self._find(digest)) is None:
            return False
        self.sql.execute("delete from lessons where id = ?", (row.id,))
        self._count(row, -1)
        return True

    def set_features(self, lesson: Lesson) -> None:
        """Replace features and decision value of a lesson."""
        row = self._existing(lesson.digest)
        body = packed(lesson)
        self.sql.execute("update bodies set keys = ?, weights = ? where id = ?", (*body, row.id))
        content = _digest((), *body) + row.digests[16:32]
        value = None if lesson.value is None else lesson.value + 0.0  # SQLite stores no -0.0
        self._update(row, row._replace(value=value).with_digests(content))

    def set_alphas(self, alphas: Mapping[str, float]) -> None:
        """Write dual coefficients by digest."""
        for digest, alpha in alphas.items():
            row = self._existing(digest)
            self._update(row, row._replace(alpha=alpha).with_digests())

    def _existing(self, digest: str) -> LessonRow:
        if (row := self._find(digest)) is None:
            raise self.damage(f"lesson {digest[:16]} is missing")
        return row

    def _update(self, old: LessonRow | None, new: LessonRow) -> None:
        """Write value, dual coefficient and digests of a row; a new row is counted."""
        query = "update lessons set value = ?, alpha = ?, seals = ? where id = ?"
        self.sql.execute(query, (new.value, new.alpha, new.digests, new.id))
        if old is not None:
            self._count(old, -1)
        self._count(new, 1)

    def _count(self, row: LessonRow, sign: int) -> None:
        """Add a row to the sum of digests and the number of lessons, or subtract it."""
        counts = self.counts()
        counts[row.kind] = counts.get(row.kind, 0) + sign
        self.set_meta("counts", {kind: n for kind, n in counts.items() if n})
        self.set_meta("rows", (self.meta("rows") + sign * row.checksum_term) % _MODULUS)


def file_exists(path: Path) -> bool:
    """Whether a store exists; InputError if that cannot be seen."""
    with os_errors(f"cannot open the mail store {path}"), suppress(FileNotFoundError, NotADirectoryError):
        path.stat()
        return True
    return False


def create_folder(path: Path, mode: int) -> None:
    """Create a folder for the owner of its folder, unless it exists."""
    with suppress(FileExistsError):
        path.mkdir(mode)
        if os.name == "posix":
            give_to_owner(os.open(path, os.O_DIRECTORY | os.O_NOFOLLOW), os.path.dirname(path))


def _create_file(path: Path) -> None:
    """Create an empty file and its folder for their owner alone, unless the file exists."""
    if file_exists(path):
        return
    with os_errors(f"cannot create the mail store {path}"):
        for folder in [folder for folder in path.parents if not folder.is_dir()][::-1]:
            create_folder(folder, 0o700 if folder == path.parent else 0o777)
        create_file(os.fspath(path))
    from textsvm.runtime.files import sync_folder  # not above: `tempfile` takes 10 ms

    sync_folder(path.parent)


def _digest(fields: Iterable[object], *blobs: object) -> bytes:
    """A digest of the columns of a row."""
    texts = [*map(str, fields), *(str(blob) for blob in blobs if type(blob) is not bytes)]
    parts = [blob for blob in blobs if type(blob) is bytes]
    head = f"{[*map(len, texts), *map(len, parts)]}{''.join(texts)}".encode("utf-8", "surrogatepass")
    return sha256(b"".join((head, *parts))).digest()[:16]


def _meta_digest(texts: dict[str, str]) -> str:
    return _digest(chain.from_iterable(sorted(texts.items(), key=str))).hex()


def _content(keys: bytes, values: bytes, message: bytes | None) -> bytes:
    """The digests of features and message."""
    return _digest((), keys, values) + _digest([message is None], message or b"")


def packed(lesson: Lesson) -> tuple[bytes, bytes]:
    """Keys and values of a lesson as bytes."""
    keys = lesson.keys.astype("<u8")
    if not len(keys):
        return b"", b""
    gaps = np.diff(keys)
    width = 4 if gaps.max(initial=0) < 1 << 32 else 8
    runs, lengths = value_runs(lesson.values.astype("<f4"))
    values = runs.tobytes()
    if len(runs) > 1:
        values = b"r" + values + lengths.astype("<u4").tobytes()
    return bytes([width]) + keys[:1].tobytes() + gaps.astype(f"<u{width}").tobytes(), values


def value_runs(values: Values) -> tuple[Values, Ints]:
    """The values of runs of equal values, and the lengths of the runs."""
    starts = np.flatnonzero(np.diff(values, prepend=-1.0))
    return values[starts], np.diff(starts, append=len(values))


def unpacked(keys: bytes, values: bytes) -> tuple[Keys, Values]:
    """Inverse of `packed`."""
    if not keys:
        return np.zeros(0, np.uint64), np.zeros(0, np.float32)
    first, gaps = np.frombuffer(keys[1:9], "<u8"), np.frombuffer(keys[9:], f"<u{keys[0]}")
    all_keys = np.cumsum(np.concatenate([first, gaps.astype(np.uint64)]), dtype=np.uint64)
    if len(values) == 4:
        return all_keys, np.broadcast_to(np.frombuffer(values, "<f4"), len(all_keys))
    half = len(values) // 2 + 1
    lengths = np.frombuffer(values[half:], "<u4").astype(np.int64)
    return all_keys, np.frombuffer(values[1:half], "<f4").repeat(lengths)
