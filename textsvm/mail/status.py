"""What a filter knows, and how it called its lessons before it learnt them."""

from __future__ import annotations

from dataclasses import dataclass

from textsvm.mail.decision import kind_of
from textsvm.mail.lessons import Lessons, Past

#: Lessons that are the recent ones.
RECENT = 100


@dataclass(frozen=True)
class Foreseen:
    """How lessons were called before they were learnt: so many judged, of them wrong, of them unsure."""

    judged: int
    wrong: int
    unsure: int


@dataclass(frozen=True)
class Status:
    """What a filter knows, and how well it did.

    Attributes
    ----------
    spam, ham : int
        Lessons of each kind.
    texts : bool
        Whether the store holds messages.
    most : int, optional
        How many lessons are kept.
    recent, before : Foreseen
        Of the last `RECENT` lessons, and of those before: a filter that grows worse is seen here.
    last : list of Past
        The last lessons, the newest first.
    """

    spam: int
    ham: int
    texts: bool
    most: int | None
    recent: Foreseen
    before: Foreseen
    last: list[Past]


def status_of(lessons: Lessons) -> Status:
    """The status of a filter with these lessons."""
    with lessons.reading():
        counts, history = lessons.counts(), lessons.history()
        texts, most = lessons.holds_texts, lessons.meta("most")
    recent, before = history[:RECENT], history[RECENT:]
    return Status(**counts, texts=texts, most=most, recent=_foreseen(recent), before=_foreseen(before),
                  last=recent)  # fmt: skip


def _foreseen(lessons: list[Past]) -> Foreseen:
    said = [(each.kind, kind_of(each.score)) for each in lessons if each.score is not None]
    unsure = sum(kind == "unsure" for _, kind in said)
    return Foreseen(len(said), sum(kind != true for true, kind in said) - unsure, unsure)
