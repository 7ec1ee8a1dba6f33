"""The filter of one user: messages in, decisions out, and what it learns is on disk before it says so.

A decision needs what is in `Known` alone: a process that decides on one mail loads no lesson, and neither
Numba nor scikit-learn. Learning needs the machine with all lessons: it is loaded when the first lesson comes,
and kept. It has no free bias, so that values of all times are on one scale. A lesson, the alphas that it
moves and the calibration are one transaction. What another process learns meanwhile is seen by the store's
generation, and taken over before the next lesson.

What a filter knows, and how it called its lessons before it learnt them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from textsvm.errors import InputError
from textsvm.mail.decision import CODES as CODES
from textsvm.mail.decision import FEATURES, Decision, calibration_of, check_features, decision, kind_of
from textsvm.mail.decision import DecisionModel as Known
from textsvm.mail.decision import PlattSigmoid as Sigmoid
from textsvm.mail.decision import fit_sigmoid as fit
from textsvm.mail.decision import read_model as read_known
from textsvm.mail.features import WeightVector as Weights
from textsvm.mail.features import features
from textsvm.mail.features import word_contributions as words_of
from textsvm.mail.lessons import KINDS, MOST_KEPT, Lesson, Lessons, Past
from textsvm.mail.message import read_message

if TYPE_CHECKING:
    from textsvm.solvers.online import OnlineMachine


#: Lessons that are the recent ones.
RECENT = 100


@dataclass(frozen=True)
class PriorDecisions:
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
    recent, before : PriorDecisions
        Of the last `RECENT` lessons, and of those before: a filter that grows worse is seen here.
    last : list of Past
        The last lessons, the newest first.
    """

    spam: int
    ham: int
    texts: bool
    most: int | None
    recent: PriorDecisions
    before: PriorDecisions
    last: list[Past]


def filter_status(lessons: Lessons) -> Status:
    """The status of a filter with these lessons."""
    with lessons.reading():
        counts, history = lessons.counts(), lessons.history()
        texts, most = lessons.holds_texts, lessons.meta("most")
    recent, before = history[:RECENT], history[RECENT:]
    return Status(**counts, texts=texts, most=most, recent=_foreseen(recent), before=_foreseen(before),
                  last=recent)  # fmt: skip


def _foreseen(lessons: list[Past]) -> PriorDecisions:
    said = [(each.kind, kind_of(each.score)) for each in lessons if each.score is not None]
    unsure = sum(kind == "unsure" for _, kind in said)
    return PriorDecisions(len(said), sum(kind != true for true, kind in said) - unsure, unsure)


#: Seconds that a lesson's way to the optimum may take; what is left of it is gone with the next lesson.
SETTLING = 1.0


class Filter:
    """A mail filter on the lessons of a folder.

    Threads may share one. While one of them learns, the others decide by what was known when `refresh` was
    called last, or wait where it never was.

    Parameters
    ----------
    folder : path
    create : bool
        Make the store if there is none.
    texts : bool
        Whether a store that is made holds messages, or features alone.

    Raises
    ------
    InputError
        Here and by all methods: see `Lessons`; and if the store's features are another version's.
    """

    def __init__(self, folder: str | os.PathLike[str], *, create: bool = False, texts: bool = True) -> None:
        self.lessons = Lessons(folder, create=create, texts=texts)
        self._lock = threading.RLock()
        self._machine: OnlineMachine | None = None
        #: Of the machine: the generation it stands at, the kinds it knows, the alphas on disk.
        self._learnt, self._settled = -1, True
        self._kinds: dict[str, str] = {}
        self._alphas: dict[str, float] = {}
        self._calibration = Sigmoid()
        #: What decides while a lesson is on its way, and where no lesson has been learnt.
        self._known: Known | None = None
        self._changing = False

    def close(self) -> None:
        """Leave the weights for the next process, and close the store."""
        with self._lock:
            try:
                if self._machine is not None:
                    self._read_known()
            finally:
                self._machine = self._known = None
                self.lessons.close()

    def __enter__(self) -> Filter:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # Deciding

    def classify(self, data: bytes) -> Decision:
        """What a raw message is."""
        return self.decide(*features(read_message(data).text))

    def decide(self, keys: NDArray[np.uint64], values: NDArray[np.float32]) -> Decision:
        """What the message with these features is; a lesson that another thread brings may not count yet."""
        known = self._known
        if self._changing and known is not None:
            return known.decide(keys, values)
        with self._lock:
            if self._machine is None or self._learnt != self.lessons.generation:
                return self._read_known().decide(keys, values)
            return self._decide(self._machine, keys, values)

    def _decide(
        self, machine: OnlineMachine, keys: NDArray[np.uint64], values: NDArray[np.float32]
    ) -> Decision:
        both = len(set(self._kinds.values())) == 2
        return decision(machine.decision(keys, values), self._calibration, both)

    def reasons(self, data: bytes, most: int = 10) -> list[tuple[str, float]]:
        """The words of a message that weigh most, and what each adds to the decision value."""
        text = read_message(data).text
        weights = self.known().weights
        return words_of(text, weights)[:most]

    def known(self) -> Known:
        """What decides, as the store has it now."""
        with self._lock:
            return self._read_known()

    def refresh(self) -> None:
        """Have ready what decides while lessons are on their way: it knows all that were answered by now."""
        with self._change():
            self._read_known()

    @contextmanager
    def _change(self) -> Iterator[None]:
        """A block that takes long, in which decisions are taken from what was known before."""
        with self._lock:
            outer, self._changing = self._changing, True
            try:
                yield
            finally:
                self._changing = outer

    def _read_known(self) -> Known:
        if self._known is None or self._known.generation != self.lessons.generation:
            with self.lessons.reading():
                made = self._machine is not None and self._learnt == self.lessons.generation
                weights = Weights(*self._machine.weights()) if self._machine is not None and made else None
                self._known = read_known(self.lessons, weights)
        return self._known

    def _check_messages(self) -> None:
        """Whether all features are of this version, or can be made anew."""
        stale = self.lessons.meta("features", FEATURES) != FEATURES
        if stale and any(each.message is None for each in self.lessons.read(messages=True)):
            raise InputError(
                f"the features in {self.lessons.path} are another version's, and it does not hold the "
                "messages to make them anew: learn those into a new store"
            )

    # Learning

    def learn(self, data: bytes, kind: str) -> bool:
        """Learn that a message is spam or ham; whether that is new. It is on disk when this returns."""
        return self.learn_all([data], kind) == 1

    def learn_all(self, messages: Iterable[bytes], kind: str) -> int:
        """Learn many messages of one kind, a few to a transaction; how many of them were new."""
        return self.enter(self._lessons_of(messages, kind))

    def enter(self, lessons: Iterable[Lesson]) -> int:
        """Learn lessons whose features are known; how many of them were new or of another kind before."""
        changed, parts, waiting = 0, 0, iter(lessons)
        with self._change():
            while part := list(islice(waiting, self._part())):
                changed += self._enter(part)
                parts += 1
            if parts > 1 and not self._settled:
                with self._writing(None):
                    pass
        return changed

    def keep_at_most(self, most: int | None) -> None:
        """Keep so many lessons from now on, or all; the most redundant ones go with the next lesson."""
        with self._lock, self.lessons.writing():
            self.lessons.keep("most", most)

    def knows(self, data: bytes) -> str | None:
        """What a message was learnt as; None if it was not."""
        with self._lock:
            return self.lessons.kind(read_message(data).digest)

    def unlearn(self, data: bytes) -> bool:
        """Forget a lesson; whether there was one."""
        digest = read_message(data).digest
        with self._change():
            if self.lessons.kind(digest) is None:
                return False
            with self._writing() as machine:
                if gone := self.lessons.drop(digest):
                    machine.remove(digest)
                    del self._kinds[digest]
            return gone

    def retrain(self) -> int:
        """Train anew on all lessons and calibrate on decisions out of fold; how many lessons there are.

        Features are made anew from the messages, by this version of textsvm.

        Raises
        ------
        InputError
            If the store's features are another version's and it holds no messages.
        """
        with self._change():
            try:
                with self.lessons.writing():
                    self._check_messages()
                    lessons = [_read_anew(each) for each in self.lessons.read(messages=True)]
                    for each, value in zip(lessons, out_of_fold(lessons), strict=True):
                        self.lessons.set_features(replace(each, value=value))
                    self.lessons.keep("features", FEATURES)
                    self._machine = None
                    generation = self.lessons.generation
                    machine = self._loaded(generation)
                    machine.settle()
                    self._write(machine, generation + 1)
                self._learnt = generation + 1
            except BaseException:
                self._machine = None
                raise
            return len(lessons)

    @staticmethod
    def _lessons_of(messages: Iterable[bytes], kind: str) -> Iterator[Lesson]:
        if kind not in KINDS:
            raise InputError(f"a message is learnt as spam or as ham, not as {kind!r}")
        for data in messages:
            found = read_message(data)
            yield Lesson(
                found.digest, kind, *features(found.text), found.subject, found.sender, data[:MOST_KEPT]
            )

    def _part(self) -> int:
        """Lessons of one transaction: the more are known, the less each one changes."""
        return max(1, min(256, len(self._kinds) // 16))

    def _enter(self, part: list[Lesson]) -> int:
        if all(self.lessons.kind(each.digest) == each.kind for each in part):
            return 0
        changed = 0
        with self._writing() as machine:
            for each in part:
                if self._kinds.get(each.digest) != each.kind:
                    self.lessons.put(self._judged(each))
                    machine.add(each.digest, each.keys, each.values, each.kind == "spam", 0.0)
                    self._kinds[each.digest] = each.kind
                    changed += 1
        return changed

    def _judged(self, lesson: Lesson) -> Lesson:
        """The lesson with what the filter said before it was learnt, for the first time where it is moved."""
        if lesson.digest in self._kinds:
            old = self.lessons.get(lesson.digest)
            return replace(lesson, value=old.value, score=old.score, alpha=0.0)
        if len(set(self._kinds.values())) < 2:
            return replace(lesson, value=None, score=None, alpha=0.0)
        assert self._machine is not None
        before = self._decide(self._machine, lesson.keys, lesson.values)
        return replace(lesson, value=before.value, score=before.score, alpha=0.0)

    @contextmanager
    def _writing(self, seconds: float | None = SETTLING) -> Iterator[OnlineMachine]:
        """The machine with all lessons; what the block changes of them is settled, and on disk after it."""
        try:
            with self.lessons.writing():
                check_features(self.lessons)
                generation = self.lessons.generation
                machine = self._loaded(generation)
                yield machine
                machine.budget = self.lessons.meta("most")
                self._settled = machine.settle(seconds)
                self._forget(machine)
                self._write(machine, generation + 1)
            self._learnt = generation + 1
        except BaseException:
            self._machine = None
            raise

    def _loaded(self, generation: int) -> OnlineMachine:
        """The machine as the store has it."""
        if self._machine is None or self._learnt != generation:
            from textsvm.solvers.online import OnlineMachine

            self._machine, self._kinds, self._alphas = OnlineMachine(free_bias=False), {}, {}
            for each in self.lessons.read():
                self._machine.add(each.digest, each.keys, each.values, each.kind == "spam", each.alpha)
                self._kinds[each.digest], self._alphas[each.digest] = each.kind, each.alpha
            self._machine.settle(SETTLING)
            self._calibration = calibration_of(self.lessons)
            self._learnt = generation
        return self._machine

    def _forget(self, machine: OnlineMachine) -> None:
        """Drop the lessons that went because there were more than are to be kept."""
        for name in map(str, machine.forgotten):
            self.lessons.drop(name)
            del self._kinds[name]
        machine.forgotten.clear()

    def _write(self, machine: OnlineMachine, generation: int) -> None:
        """Bring the store up to date with the machine."""
        alphas = cast(dict[str, float], machine.alphas)
        self.lessons.set_alphas({name: a for name, a in alphas.items() if self._alphas.get(name, 0.0) != a})
        self._alphas = alphas
        self._calibration = fit(*machine.left_out())
        self.lessons.keep("calibration", [self._calibration.slope, self._calibration.offset])
        self.lessons.keep("features", FEATURES)
        self.lessons.keep("generation", generation)

    # Looking back

    def status(self) -> Status:
        """How many lessons there are, and how well the last ones were foreseen."""
        with self._lock:
            return filter_status(self.lessons)


def out_of_fold(lessons: list[Lesson], folds: int = 5) -> list[float | None]:
    """Decision values of lessons by machines that have not seen them; None where there are too few."""
    from textsvm.solvers.online import OnlineMachine

    values: list[float | None] = [None] * len(lessons)
    fold = np.random.default_rng(0).permutation(len(lessons)) % folds
    for k in range(folds):
        machine = OnlineMachine(free_bias=False)
        learnt = [each for each, part in zip(lessons, fold, strict=True) if part != k]
        if len({each.kind for each in learnt}) < 2:
            continue
        for each in learnt:
            machine.add(each.digest, each.keys, each.values, each.kind == "spam", each.alpha)
        machine.settle()
        for i in np.flatnonzero(fold == k):
            values[i] = machine.decision(lessons[i].keys, lessons[i].values)
    return values


def _read_anew(lesson: Lesson) -> Lesson:
    """A lesson with the features that this version takes from its message."""
    if lesson.message is None:
        return lesson
    keys, values = features(read_message(lesson.message).text)
    return replace(lesson, keys=keys, values=values, message=None)
