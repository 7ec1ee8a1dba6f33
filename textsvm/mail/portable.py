"""Lessons as JSON Lines: to take them to another machine, to keep a copy, to look at them.

A line is a lesson, an object with

    digest   hexadecimal, what the lesson is known by
    kind     "spam" or "ham"
    learnt   seconds since 1970
    subject, sender
    message  the message as it came, one character for each of its bytes (ISO 8859-1)
    keys, value   of a lesson without its message: the features, and the one value that all of them have
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from textsvm.errors import InputError
from textsvm.mail.features import features
from textsvm.mail.lessons import KINDS, Lesson
from textsvm.mail.message import read_message

_DIGEST = re.compile(r"[0-9a-f]{16,128}")


def line_of(lesson: Lesson) -> str:
    """A lesson as a line."""
    row: dict[str, Any] = {
        "digest": lesson.digest,
        "kind": lesson.kind,
        "learnt": lesson.learnt,
        "subject": lesson.subject,
        "sender": lesson.sender,
    }
    if lesson.message is not None:
        row["message"] = lesson.message.decode("latin-1")
    else:
        row["keys"] = lesson.keys.tolist()
        row["value"] = float(lesson.values[0]) if len(lesson.values) else 0.0
    return json.dumps(row) + "\n"


def lessons_of(lines: Iterable[str | bytes], name: str) -> Iterator[Lesson]:
    """The lessons of lines.

    Parameters
    ----------
    lines : iterable of str or bytes
    name : str
        Of their file, for messages.

    Raises
    ------
    InputError
        If a line is no lesson; it says which.
    """
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield _lesson(json.loads(line))
            except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
                raise InputError(
                    f"{name}, line {number} is no lesson of `textsvm mail export` ({error}); those before it "
                    "were imported"
                ) from error


def _lesson(row: Any) -> Lesson:
    digest, kind, learnt = row["digest"], row["kind"], float(row["learnt"])
    if kind not in KINDS or not _DIGEST.fullmatch(digest) or not math.isfinite(learnt):
        raise ValueError("a digest, a kind or a time is none")
    names = str(row.get("subject", "")), str(row.get("sender", ""))
    if "message" in row:
        message = row["message"].encode("latin-1")
        return Lesson(digest, kind, *features(read_message(message).text), *names, message, learnt)
    if min(row["keys"], default=0) < 0:  # NumPy before 2 makes large numbers of these
        raise ValueError("a feature is negative")
    keys = np.array(row["keys"], np.uint64).reshape(-1)
    value = float(row["value"])
    if (keys[1:] <= keys[:-1]).any() or not math.isfinite(value) or (value <= 0 and len(keys)):
        raise ValueError("features do not ascend")
    return Lesson(digest, kind, keys, np.full(len(keys), value, np.float32), *names, None, learnt)
