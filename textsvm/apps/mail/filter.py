"""The mail filter of a user: decisions and learning on a store of lessons.

Decisions need only the `DecisionModel`: a process that decides on a mail loads no lesson, no Numba and no
scikit-learn. Learning needs the machine with all lessons, which is loaded for the first lesson and kept. The
machine has no free bias, so that decision values stay comparable over time. A lesson, the changed alphas and
the calibration are written in a single transaction, which is on disk when the method returns. The generation
of the store shows lessons of other processes; they are loaded before the next lesson.

A line of JSON Lines is a lesson, an object with

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
import threading
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from textsvm.apps.mail import decision as decisions
from textsvm.apps.mail.categories import Categories
from textsvm.apps.mail.client import NO_CATEGORY, is_category
from textsvm.apps.mail.features import WeightVector, features, word_contributions
from textsvm.apps.mail.lessons import KINDS, MAX_KEPT, Lesson, LessonRow, Lessons, value_runs
from textsvm.apps.mail.message import read_message
from textsvm.apps.mail.raw_message import NO_HEADER, RawMessage, problem_of
from textsvm.errors import InputError
from textsvm.readers.pages import require_page_parser

if TYPE_CHECKING:
    from textsvm.apps.mail.features import Keys, Values
    from textsvm.arrays import Json
    from textsvm.solvers.online import OnlineMachine

#: Time limit of re-optimisation per lesson, in seconds; the remainder continues with the next lesson.
SETTLING = 1.0
RECENT = 100  #: Number of recent lessons in `Status`
_DIGEST = re.compile(r"[0-9a-f]{16,128}")


def prior_decisions(lessons: list[LessonRow]) -> dict[str, int]:
    """Numbers of decisions on lessons before they were learnt: all, wrong, unsure, and ham judged spam."""
    kinds = [(lesson.kind, decisions.kind_of(lesson.score)) for lesson in lessons if lesson.score is not None]
    unsure = sum(kind == "unsure" for _, kind in kinds)
    wrong = sum(kind != true for true, kind in kinds) - unsure
    counts = {"n": len(kinds), "wrong": wrong, "unsure": unsure}
    return counts | {"false_positives": kinds.count(("ham", "spam"))}


class Status(NamedTuple):
    """Content of a filter, and its decisions on lessons before it learnt them."""

    spam: int  #: Number of lessons
    ham: int  #: Number of lessons
    texts: bool  #: Whether the store holds messages
    max_lessons: int | None
    recent: dict[str, int]  #: `prior_decisions` of the last `RECENT` lessons
    last: list[LessonRow]  #: The last `RECENT` lessons, the newest first
    categories: dict[str, dict[str, int]]  #: Numbers by name


class Filter(AbstractContextManager["Filter"]):
    """A mail filter on the lessons of a folder.

    Threads may share a filter. While a thread learns, the others decide with the model of the last `refresh`,
    or wait if there was none. All methods raise the InputErrors of `Lessons`, and InputError if the store has
    features of another version.

    The parameters are those of `Lessons`.
    """

    def __init__(
        self, folder: str | os.PathLike[str] | None = None, *, create: bool = False, texts: bool = True
    ) -> None:
        require_page_parser()
        self.lessons = Lessons(folder, create=create, texts=texts)
        self.categories = Categories(self.lessons)
        self.read = read_message  # the server's reads messages in another process
        self._lock = threading.RLock()
        self._machine: OnlineMachine | None = None
        self._state = (-1, 0)  # state of the store when the machine was loaded or written
        self._settled = True  # whether the machine is at its optimum
        self._kinds: dict[str, str] = {}  # kinds of the machine's lessons
        self._alphas: dict[str, float] = {}  # dual coefficients on disk
        self._calibration = decisions.PlattSigmoid()
        self._model: decisions.DecisionModel | None = None  # decides during a change, or without a machine
        self._changing = False

    def close(self) -> None:
        """Write the weights for the next process, and close the store."""
        with self._lock:
            try:
                if self._machine is not None:
                    self._read_model()
                self.categories.refresh()
            finally:
                self._machine = self._model = None
                if store := self.categories.store():
                    store.close()
                self.lessons.close()

    def __exit__(self, *exception: object) -> None:
        self.close()

    # Decisions

    def classify(self, data: bytes | RawMessage) -> decisions.Decision:
        """The decision on a raw message; a learnt message keeps its kind."""
        message = self.read(data)
        keys, values = features(message.text)
        if model := self._previous_model:
            kind, decision = self._kinds.get(message.digest), model.decide(keys, values)
        else:
            with self._lock:
                kind = self.lessons.kind(message.digest)
                if self._machine is None or self._state != self.lessons.state:
                    decision = self._read_model().decide(keys, values)
                else:
                    decision = self._decide(self._machine, keys, values)
        return self.categories.decide(decision.for_lesson(kind), message.digest, keys, values)

    @property
    def _previous_model(self) -> decisions.DecisionModel | None:
        """The model that decides during a long change; lessons in progress do not count yet."""
        model = self._model
        return model if self._changing else None

    def _decide(self, machine: OnlineMachine, keys: Keys, values: Values) -> decisions.Decision:
        return self._calibration.decide(machine.decision(keys, values), len(set(self._kinds.values())) == 2)

    def reasons(self, data: bytes | RawMessage, most: int = 10) -> list[tuple[str, float]]:
        """The words of a message with the largest contributions to the decision value."""
        return word_contributions(self.read(data).text, self.model().weights)[:most]

    def model(self) -> decisions.DecisionModel:
        """The decision model of the store; during a long change that of the last `refresh`."""
        if model := self._previous_model:
            return model
        with self._lock:
            return self._read_model()

    def refresh(self) -> None:
        """Update the model that decides while lessons are learnt."""
        with self._change():
            self._read_model()
        self.categories.refresh()

    @contextmanager
    def _change(self) -> Iterator[None]:
        """A long change, during which decisions use the previous model."""
        with self._lock:
            outer, self._changing = self._changing, True
            try:
                yield
            finally:
                self._changing = outer

    def _read_model(self) -> decisions.DecisionModel:
        if self._model is None or self._model.state != self.lessons.state:
            with self.lessons.reading():
                weights = None
                if self._machine is not None and self._state == self.lessons.state:
                    weights = WeightVector(*self._machine.weights())
                self._model = decisions.read_model(self.lessons, weights)
        return self._model

    # Learning

    def learn(self, data: bytes | RawMessage, kind: str) -> bool:
        """Learn the kind or category of a message; return whether that is new. It is then on disk."""
        return self.learn_all([data], kind) == 1

    def learn_all(self, messages: Iterable[bytes | RawMessage], kind: str) -> int:
        """Learn messages of a kind, a few in a transaction; return the number of new lessons.

        Messages without a header are skipped; InputError if all are.
        """
        if kind not in KINDS and not is_category(kind):
            raise InputError(NO_CATEGORY.format(kind))
        problems = set[str]()

        def lessons() -> Iterator[Lesson]:
            for raw in map(RawMessage.of, messages):
                problem = NO_HEADER if raw.is_empty else problem_of("", raw.data)
                problems.add(problem)
                if not problem:
                    message = self.read(raw)
                    keys, values = features(message.text)
                    names = message.subject, message.sender
                    yield Lesson(message.digest, kind, keys, values, *names, raw.data[:MAX_KEPT])

        changed = self.add_lessons(lessons())
        if problems and "" not in problems:
            raise InputError(f"nothing was learnt: this {problems.pop()}")
        return changed

    def add_lessons(self, lessons: Iterable[Lesson]) -> int:
        """Learn lessons with features; return the number that are new or change their kind."""
        remaining = iter(lessons)
        changed = batches = 0
        with self._change():
            decisions.check_features(self.lessons)
            # Batches grow with the store: each lesson then changes the solution less.
            while batch := list(islice(remaining, max(1, min(256, max(len(self._kinds), changed) // 16)))):
                changed += self.categories.add([lesson for lesson in batch if lesson.kind not in KINDS])
                changed += self._add_batch([lesson for lesson in batch if lesson.kind in KINDS])
                batches += 1
            if batches > 1 and not self._settled and self._machine is not None:
                self._machine.settle()  # before the transaction: other processes may write
                with self._writing():
                    pass
        return changed

    def set_limit(self, most: int | None) -> None:
        """Set the maximum number of lessons; the most redundant are dropped with the next lesson."""
        with self._lock, self.lessons.writing():
            self.lessons.set_meta("most", most)

    def counts(self) -> dict[str, int]:
        """Number of lessons of spam, of ham, and of each category."""
        with self._lock:
            store = self.categories.store()
            return self.lessons.counts() | (store.counts() if store else {})

    def unlearn(self, data: bytes | RawMessage) -> bool:
        """Forget the lessons of a message, also of a category; return whether there were any."""
        digest = self.read(data).digest
        with self._change():
            had_category = self.categories.forget(digest) > 0
            if self.lessons.kind(digest) is None:
                return had_category
            with self._writing() as machine:
                if dropped := self.lessons.drop(digest):
                    machine.remove(digest)
                    del self._kinds[digest]
            return dropped or had_category

    def retrain(self) -> int:
        """Train again on all lessons, with new features of the messages; return the number of lessons.

        Other processes may write until the training is finished; it is repeated if they do.
        """
        with self._change():
            try:
                while not self._retrain_once():
                    pass
            except BaseException:
                self._machine = None
                raise
        self.categories.train()
        return len(self._kinds)

    def _retrain_once(self) -> bool:
        """Train on all lessons; write the result and return True unless the store has changed meanwhile."""
        with self.lessons.reading():
            self.lessons.check_rows()
            state = self.lessons.state
            if (
                not self.lessons.holds_texts
                and self.lessons.meta("features", decisions.FEATURES) != decisions.FEATURES
            ):
                raise InputError(
                    f"{self.lessons.path} has features of another version, and it does not hold the messages "
                    "to compute them again: learn the messages into a new store"
                )
            lessons = [_recompute_features(lesson) for lesson in self.lessons.iterate(messages=True)]
        machine = self._add_all(lessons)
        machine.settle()
        with self.lessons.writing():
            if self.lessons.state != state:
                return False
            for lesson in lessons:
                self.lessons.set_features(lesson)
            self._write(machine)
            self._settled = True
        return True

    def _add_batch(self, batch: list[Lesson]) -> int:
        if all(self.lessons.kind(lesson.digest) == lesson.kind for lesson in batch):
            return 0
        changed = 0
        with self._writing() as machine:
            for lesson in batch:
                if self._kinds.get(lesson.digest) != lesson.kind:
                    # Training message, with the decision made before it was learnt.
                    before: Lesson | decisions.Decision | None = None
                    if lesson.digest in self._kinds:
                        before = self.lessons.get(lesson.digest)
                    elif len(set(self._kinds.values())) == 2:
                        before = self._decide(machine, lesson.keys, lesson.values)
                    new = lesson._replace(value=None, score=None, alpha=0.0)
                    if before is not None:
                        new = new._replace(value=before.value, score=before.score)
                    self.lessons.put(new)
                    self._alphas.pop(lesson.digest, None)  # `put` writes 0
                    machine.add(lesson.digest, lesson.keys, lesson.values, lesson.kind == "spam", 0.0)
                    self._kinds[lesson.digest] = lesson.kind
                    changed += 1
        return changed

    @contextmanager
    def _writing(self) -> Iterator[OnlineMachine]:
        """The machine with all lessons; after the block its changes are optimised and on disk."""
        decisions.new_machine()  # imports Numba before taking the write lock (1 s)
        try:
            with self.lessons.writing():
                decisions.check_features(self.lessons)
                machine = self._machine
                if machine is None or self._state != self.lessons.state:
                    self.lessons.check_rows()
                    machine = self._add_all(self.lessons.iterate())
                    machine.settle(SETTLING)
                    self._calibration = decisions.read_calibration(self.lessons)
                    self._state = self.lessons.state
                yield machine
                machine.budget = self.lessons.meta("most")
                self._settled = machine.settle(SETTLING)
                for digest in map(str, machine.forgotten):  # dropped because of the maximum
                    self.lessons.drop(digest)
                    del self._kinds[digest]
                machine.forgotten.clear()
                self._write(machine)
        except BaseException:
            self._machine = None
            raise

    def _add_all(self, lessons: Iterable[Lesson]) -> OnlineMachine:
        """A new machine with these lessons and their alphas, not yet at its optimum."""
        machine = decisions.new_machine()
        self._kinds, self._alphas = {}, {}
        for lesson in lessons:
            machine.add(lesson.digest, lesson.keys, lesson.values, lesson.kind == "spam", lesson.alpha)
            self._kinds[lesson.digest] = lesson.kind
            self._alphas[lesson.digest] = lesson.alpha
        self._machine = machine
        return machine

    def _write(self, machine: OnlineMachine) -> None:
        """Write changed alphas, the calibration and the generation."""
        alphas = cast(dict[str, float], machine.alphas)
        self.lessons.set_alphas({name: a for name, a in alphas.items() if self._alphas.get(name, 0.0) != a})
        self._alphas = alphas
        self._calibration = decisions.calibrate(machine)
        self.lessons.set_meta("calibration", [self._calibration.slope, self._calibration.offset])
        self.lessons.set_meta("features", decisions.FEATURES)
        self.lessons.set_meta("generation", self.lessons.generation + 1)
        self._state = self.lessons.state

    def status(self) -> Status:
        """Number of lessons, and decisions on the last lessons before they were learnt."""
        lessons = self.lessons
        with self._lock, lessons.reading():
            lessons.check_rows()
            counts, last = lessons.counts(), lessons.history()[:RECENT]
            texts, most = lessons.holds_texts, lessons.meta("most")
            recent, categories = prior_decisions(last), self.categories.status()
            return Status(counts["spam"], counts["ham"], texts, most, recent, last, categories)


def _recompute_features(lesson: Lesson) -> Lesson:
    """The lesson without its message, but with new features of it."""
    if lesson.message is None:
        return lesson
    keys, values = features(read_message(lesson.message).text)
    return lesson._replace(keys=keys, values=values, message=None)


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
