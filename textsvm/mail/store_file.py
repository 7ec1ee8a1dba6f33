"""The SQLite file under the lessons: made, opened, its transactions, and what SQLite reports in sentences.

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
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

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
