"""Categories of mail beside spam and ham, such as newsletters, orders or phishing, each with a name.

Categories are independent of spam and ham: a message may be learnt as ham and as a newsletter. The lessons of
categories are in a file of their own, in the format of `lessons.py`. Each category has a machine like that of
the filter, trained against the rest: the lessons of other categories, those of `NONE`, and the `REST` newest
lessons of spam and ham. The machines are trained again after changes (0.4 s each for 1,000 lessons). Their
weights are in files `weights-NAME` in the format of `features.py`, in units of log odds (`fit_sigmoid`); the
key `OFFSET` has the offset. A message has the most probable category, or none if the probability is below
`PROBABLE`. With 20 lessons of each of five mailing lists 86 % of the other messages of the lists were
recognised, with 50 lessons 97 %; .7 and .9 % of all other mail was assigned to a list.
"""

from __future__ import annotations

import math
from contextlib import closing, suppress
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from textsvm.apps.mail import decision as decisions
from textsvm.apps.mail.features import WeightVector, read_weights
from textsvm.apps.mail.lessons import CATEGORIES_FILE, Lesson, Lessons, file_exists
from textsvm.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from textsvm.apps.mail.features import Keys, Values

NONE = "none"  #: Name for mail of no category
MAX_CATEGORIES = 20  #: Maximum number of categories, without `NONE`
REST = 1000  #: Number of lessons of spam and ham that each category is trained against
PROBABLE = 0.9  #: Minimum probability of a recognised category
OFFSET = 0  #: A key that no feature has


class Categories:
    """The categories of a store. Threads may share them; the filter's lock is held for `add` and `forget`."""

    def __init__(self, lessons: Lessons) -> None:
        self._lessons = lessons
        self._path = lessons.path.with_name(CATEGORIES_FILE)
        self._opened: Lessons | None = None
        # State of the store, and its models.
        self._models: tuple[tuple[int, int], dict[str, WeightVector]] = (-1, 0), {}
        self._changed = False  # whether this process has changed lessons since the last training

    def store(self, *, create: bool = False) -> Lessons | None:
        """The lessons; None if there were never any."""
        if self._opened is None and (create or file_exists(self._path)):
            texts = create and self._lessons.holds_texts
            self._opened = Lessons(self._path.parent, create=create, texts=texts, categories=True)
            decisions.check_features(self._opened)
        return self._opened

    def status(self) -> dict[str, dict[str, int]]:
        """Numbers of lessons of each category: all, judged before they were learnt, and recognised."""
        if (store := self.store()) is None:
            return {}
        store.check_rows()
        counted = ("lessons", "judged", "recognised")
        table = {name: dict.fromkeys(counted, 0) for name in sorted(store.counts())}
        for row in store.history():
            table[row.kind]["lessons"] += 1
            if row.score is not None:
                table[row.kind]["judged"] += 1
                table[row.kind]["recognised"] += (row.score >= PROBABLE) != (row.kind == NONE)
        return table

    def decide(
        self, decision: decisions.Decision, digest: str, keys: Keys, values: Values
    ) -> decisions.Decision:
        """The decision with the category of a message; a learnt message keeps its category."""
        if (store := self.store()) is None:
            return decision
        learnt = store.kind(digest)
        scores = _probabilities(self._current(store), keys, values)
        name = learnt or max(scores, key=scores.__getitem__, default=NONE)
        score = scores.get(name, PROBABLE)
        if name == NONE or (score < PROBABLE and not learnt):
            return decision
        return decision._replace(category=name, category_score=max(score, PROBABLE))

    def _current(self, store: Lessons, *, train: bool = True) -> dict[str, WeightVector]:
        """The models of the store, or earlier ones if these are not written yet.

        Without earlier models, they are trained here if `train` is true.
        """
        state = store.state
        if state != self._models[0]:
            stored = {name: read_weights(self._file(name), state[1]) for name in _names(store)}
            models = {name: weights for name, weights in stored.items() if weights is not None}
            if len(models) == len(stored):
                self._models = state, models
            elif train and not self._models[1]:
                self.train()
        return self._models[1]

    def _file(self, name: str) -> Path:
        return self._path.with_name(f"weights-{name}")

    def add(self, lessons: list[Lesson]) -> int:
        """Learn lessons; return the number that are new or change their category."""
        if not lessons:
            return 0
        store = self.store(create=True)
        assert store is not None
        models = self._current(store, train=False)
        n_changed = 0
        with store.writing():
            for lesson in lessons:
                if store.kind(lesson.digest) != lesson.kind:
                    scores = _probabilities(models, lesson.keys, lesson.values)
                    highest = max(scores.values(), default=None)
                    score = highest if lesson.kind == NONE else scores.get(lesson.kind)
                    store.put(lesson._replace(score=score, value=score, alpha=0.0))
                    n_changed += 1
            if len(_names(store)) > MAX_CATEGORIES:
                advice = "remove another with `textsvm mail unlearn --category NAME`"
                raise InputError(f"there can be at most {MAX_CATEGORIES} categories: {advice}")
            self._write_state(store, n_changed)
        return n_changed

    def _write_state(self, store: Lessons, n_changed: int) -> None:
        if n_changed:
            store.set_meta("features", decisions.FEATURES)
            store.set_meta("generation", store.generation + 1)
            self._changed = True

    def forget(self, digest: str = "", category: str = "") -> int:
        """Forget a message, or all of a category; return the number of lessons that existed."""
        if (store := self.store()) is None:
            return 0
        with store.writing():
            rows = store.history() if category else []
            names = [row.digest for row in rows if row.kind == category] or [digest]
            n_dropped = sum(store.drop(name) for name in names)
            self._write_state(store, n_dropped)
        return n_dropped

    def refresh(self) -> None:
        """Train if this process has changed lessons."""
        if self._changed:
            self._changed = False
            self.train()

    def train(self) -> None:
        """Train the machines of all categories, and write their weights."""
        if self.store() is None:
            return
        folder = self._path.parent  # with connections of its own: other threads may decide and learn
        with closing(Lessons(folder, categories=True)) as store, store.reading():
            store.check_rows()
            lessons = list(store.iterate())
            state, names = store.state, _names(store)
        learnt = {lesson.digest for lesson in lessons}
        with closing(Lessons(folder)) as box, box.reading(), closing(box.iterate(newest_first=True)) as rest:
            lessons += islice((lesson for lesson in rest if lesson.digest not in learnt), REST)
        models = {name: _weights(name, lessons) for name in names}
        for file in folder.glob("weights-*"):
            with suppress(OSError):
                file.unlink()
        for name, weights in models.items():
            weights.write(self._file(name), state[1])
        self._models = state, models


def _names(store: Lessons) -> list[str]:
    """Names of the categories, without `NONE`."""
    return sorted({*store.counts()} - {NONE})


def _probabilities(models: dict[str, WeightVector], keys: Keys, values: Values) -> dict[str, float]:
    keys, values = np.append(np.uint64(OFFSET), keys), np.append(np.float32(1), values)
    log_odds = {name: math.fsum((model.of(keys) * values).tolist()) for name, model in models.items()}
    return {name: decisions.PlattSigmoid(1.0).probability(value) for name, value in log_odds.items()}


def _weights(name: str, lessons: list[Lesson]) -> WeightVector:
    """Weights of a category against the rest, in units of log odds."""
    machine = decisions.new_machine()
    for lesson in lessons:
        machine.add(lesson.digest, lesson.keys, lesson.values, lesson.kind == name)
    machine.settle()
    rest = any(lesson.kind != name for lesson in lessons)
    sigmoid = decisions.fit_sigmoid(*machine.left_out()) if rest else decisions.PlattSigmoid(0.0, -100.0)
    keys, weights = machine.weights()
    scaled = np.append(sigmoid.offset, sigmoid.slope * weights).astype(np.float32)
    return WeightVector(np.append(np.uint64(OFFSET), keys), scaled)
