"""Messages and lessons in files: single messages, mboxes, Maildirs, folders; lessons as JSON Lines.

JSON Lines serve to move lessons to another computer, to back them up and to inspect them. A line is a lesson,
an object with

    digest   hexadecimal
    kind     "spam", "ham" or a category; a message may be in a line of either sort
    learnt   seconds since 1970
    subject, sender
    message  the raw message, a character for each of its bytes (ISO 8859-1)
    keys, values  of a lesson without its message: the features, and runs of equal values with their lengths
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable, Iterator
from mmap import ACCESS_READ, mmap
from pathlib import Path

import numpy as np

from textsvm.apps.mail.client import is_category
from textsvm.apps.mail.features import features
from textsvm.apps.mail.lessons import KINDS, Lesson, value_runs
from textsvm.apps.mail.message import read_message
from textsvm.arrays import Json
from textsvm.errors import InputError
from textsvm.readers.mail import split_messages
from textsvm.readers.mail_header import OUTLOOK, is_outlook

_DIGEST = re.compile(r"[0-9a-f]{16,128}")


def raw_messages(path: str | os.PathLike[str]) -> Iterator[tuple[str, bytes]]:
    """The messages at a path, each with its name.

    The path is a message, an mbox, a Maildir (`new` and `cur` are read), or a folder of messages and mboxes.
    """
    try:
        for file in _mail_files(Path(path)):
            with file.open("rb") as stream:
                if not os.fstat(stream.fileno()).st_size:  # empty, or a pipe
                    yield str(file), stream.read()
                    continue
                with mmap(stream.fileno(), 0, access=ACCESS_READ) as data:
                    if is_outlook(str(file), data):
                        raise InputError(f"{file} {OUTLOOK}")
                    yield from split_messages(str(file), data)
    except OSError as error:
        raise InputError(f"cannot read {error.filename or path}: {error.strerror}") from error


def size_of(path: str | os.PathLike[str]) -> int:
    """Bytes of the files at a path, 0 if unknown."""
    try:
        return sum(file.stat().st_size for file in _mail_files(Path(path)))
    except OSError:
        return 0


def _mail_files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
    elif (path / "cur").is_dir():
        for folder in (path / "new", path / "cur"):
            if folder.is_dir():
                yield from _visible_files(folder)
    else:
        for parent, folders, _ in os.walk(path):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            yield from _visible_files(Path(parent))


def _visible_files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.is_file() and not file.name.startswith("."))


def lesson_line(lesson: Lesson) -> str:
    """A lesson as a line of JSON."""
    values = lesson._asdict()
    row = {name: values[name] for name in ("digest", "kind", "learnt", "subject", "sender")}
    if lesson.message is not None:
        row["message"] = lesson.message.decode("latin-1")
    else:
        row["keys"] = lesson.keys.tolist()
        runs, lengths = value_runs(lesson.values)
        row["values"] = list(zip(runs.tolist(), lengths.tolist(), strict=True))
    return json.dumps(row) + "\n"


def parse_lessons(lines: Iterable[str | bytes], name: str) -> Iterator[Lesson]:
    """The lessons of lines; InputError names the file and the line of an invalid lesson."""
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield _lesson(json.loads(line))
            except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
                reason = f"is no lesson of `textsvm mail export` ({error}); earlier lines were imported"
                raise InputError(f"{name}, line {number} {reason}") from error


def _lesson(row: Json) -> Lesson:
    digest, kind = row["digest"], row["kind"]
    learnt = float(row["learnt"])
    if not (kind in KINDS or is_category(kind)) or not _DIGEST.fullmatch(digest) or not math.isfinite(learnt):
        raise ValueError("digest, kind or time is invalid")
    names = str(row.get("subject", "")), str(row.get("sender", ""))
    if "message" in row:
        message = row["message"].encode("latin-1")
        return Lesson(digest, kind, *features(read_message(message).text), *names, message, learnt)
    if min(row["keys"], default=0) < 0:  # NumPy before 2 converts them to large numbers
        raise ValueError("a feature is negative")
    keys = np.array(row["keys"], np.uint64).reshape(-1)
    lengths = [int(length) for _, length in row["values"]]
    if min(lengths, default=0) < 0 or sum(lengths) != len(keys):
        raise ValueError("values of other features")
    values = np.repeat(np.array([value for value, _ in row["values"]], np.float32), lengths)
    if (
        (keys[1:] <= keys[:-1]).any()
        or values.shape != keys.shape
        or not (np.isfinite(values) & (values > 0)).all()
    ):
        raise ValueError("features do not ascend, or their values are not positive")
    return Lesson(digest, kind, keys, values, *names, None, learnt)
