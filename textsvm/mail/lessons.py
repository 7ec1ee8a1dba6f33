"""The lessons of a filter on disk, and nothing that was answered is lost with the power.

A lesson is a message that somebody called spam or ham, under the digest of what delivery does not change in
it. With it are kept: its features, its alpha at the machine's optimum, what the filter said of it before it
was learnt (for seeing a filter grow worse), and the message itself unless the store was made without texts.
The file, its tables and its faults: `textsvm.mail.store_file`.

Features are packed: the keys as the first one and the gaps between them, of 4 bytes each where they fit; the
values as one number where they are all the same, as those of `textsvm.mail.features` are.
"""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from textsvm.errors import InputError
from textsvm.mail.store_file import StoreFile

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
