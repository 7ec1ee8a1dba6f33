"""A labelling session: the texts, the answers on disk, and the learner that chooses the next text.

A session is used by several threads, each with a request of a page. Each text has a number of answers so
far (`seen`); an answer to a text that has been answered in another window meanwhile raises `Conflict`.

Several people, each with a name (`by`), label different texts, and a share of the texts is shown to two of
them, without the other answer. The learner learns the label that counts (`Journal.decided`).
"""

from __future__ import annotations

import time
import traceback
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from itertools import accumulate, islice
from operator import attrgetter, itemgetter
from pathlib import Path
from threading import Event, RLock, Thread
from unicodedata import normalize

import numpy as np

from textsvm import Corpus
from textsvm.apps.label import files
from textsvm.apps.label.learner import Learner, Proposal
from textsvm.arrays import Json
from textsvm.errors import InputError, one_line, printable
from textsvm.evaluation.results import clopper_pearson
from textsvm.readers.annotations import krippendorff_alpha
from textsvm.reporting.formatting import cut, runs
from textsvm.runtime.memory import trim

SHOWN = 3000  #: Characters shown of a text
WHOLE = 2_000_000  #: Maximum number of characters shown on request
SNIPPET = 90  #: Characters shown of a text in a list
BEFORE = 30  #: Characters of a snippet before the word that is searched for
LISTED = 30  #: Entries of the list of answers and of search results at a time
SECONDS = 0.3  #: Maximum seconds of a search
LABEL = 100  #: Maximum number of characters of a label
LABELS = 500  #: Maximum number of labels
NAME = 60  #: Maximum number of characters of the name of a person
SHARED = 0.1  #: Share of the texts that two people label


class Conflict(files.PageError):
    """An answer to something that has changed in another window."""


@dataclass
class Desk:
    """The page of a person."""

    shown: int = -1  #: Text; -1: none
    skipped: set[int] = field(default_factory=set)
    skips: list[int] = field(default_factory=list)  #: Since the last answer, for `undo`
    chosen: dict[int, str] = field(default_factory=dict)  #: Why a text was shown first


class Session:
    """Labelling of the texts of a corpus.

    `shared` is the share of texts for two people (None: `SHARED`, and names are not asked for);
    `suggestions` are labels by id.
    """

    def __init__(
        self, corpus: Corpus, journal: files.Journal, learner: Learner, shared: float | None = None,
        suggestions: Mapping[str, list[str]] = {},
    ) -> None:  # fmt: skip
        self.corpus, self.journal, self.learner = corpus, journal, learner
        self._lock, self._due = RLock(), Event()
        self._shared, self._desks = shared, defaultdict[str | None, Desk](Desk)
        self._suggestions = {name: labels for name, labels in suggestions.items() if labels}
        self._problem: str | None = None
        #: By id: labels of the people, different labels, and first labels that measure agreement
        self._by_text, self._unequal, self._units = dict[str, Json](), dict[str, Json](), dict[str, Json]()
        self._counts = Counter[str]()  #: Labels of each person
        self._figures: tuple[int, Json] = -1, {}  #: Number of people, and their agreement
        self._number_of = {name: i for i, name in enumerate(corpus.ids) if name in journal.history}
        self._check_corpus()
        named = ((i, self._suggestions.get(name)) for i, name in enumerate(corpus.ids))
        learner.suggestions = {i: labels for i, labels in named if labels}
        for label in journal.labels:
            learner.add_label(label)
        journal.set_labels(learner.labels)
        journal.write_labels(self._text_of)
        self._restore(journal.answers[name] for name in journal.history if name in journal.answers)
        self._learn(learner.refresh)
        trim()
        Thread(target=self._keep_learning, daemon=True).start()

    def _check_corpus(self) -> None:
        """InputError if an answered text of the journal is not in the corpus, or has changed."""
        answers = {name: entries[-1][1] for name, entries in self.journal.history.items()}
        path = self.journal.path
        missing = [name for name in answers if name not in self._number_of]
        changed = [x for x in self._number_of if files.text_digest(self._text_of(x)) != answers[x].digest]
        for names, trouble in ((missing, "are not in"), (changed, "have changed in")):
            if names:
                raise InputError(
                    f"{len(names):,} of {len(answers):,} labelled texts, first {names[0]!r}, {trouble} "
                    f"{self.corpus.source}; give the corpus that {path} was begun with, or take another -o "
                    f"and --import {path}, which finds texts by their content"
                )

    def _text_of(self, identifier: str) -> str:
        return self.corpus.texts[self._number_of[identifier]]

    def _restore(self, answers: Iterable[files.JournalEntry]) -> None:
        """Give the learner earlier answers. Answering a text again removes it from the doubtful texts."""
        restored: list[tuple[int, files.Labels, bool]] = []
        copies = {}
        for entry in answers:
            if entry.copy_of in self._number_of:
                copies[self._number_of[entry.id]] = self._number_of[entry.copy_of]
            answer = self._number_of[entry.id], entry.label, entry.chosen == files.RANDOM
            restored += [answer] * (2 if len(self.journal.history.get(entry.id, ())) > 1 else 1)
        self._learn(partial(self.learner.restore, restored, copies))

    def _keep_learning(self) -> None:
        while True:
            self._due.wait()
            self._due.clear()
            self._learn(self.learner.refresh)

    def _learn(self, step: Callable[[], None]) -> None:
        """Run a step of the learner; the page shows its failure, and labelling goes on without it."""
        try:
            if self._suggestions:
                self.learner.suggestion_weight = self.judge_suggestions()["weight"]
            step()
            self._problem = None
        except Exception as error:
            self._note_problem(error)

    def _note_problem(self, error: Exception) -> None:
        if not isinstance(error, InputError):
            traceback.print_exception(error)
        self._problem = one_line(str(error) or type(error).__name__)

    # Answers

    def overview(self, by: str | None = None) -> Json:
        """Labels, progress and the latest answers."""
        with self._lock:
            names = self.journal.people
            labels = (name for entry in self.journal.answers.values() for name in files.names_of(entry.label))
            return {
                "title": printable(Path(self.corpus.source).name), "n": len(self.corpus),
                "labels": self.learner.labels, "multilabel": self.learner.multilabel,
                "progress": asdict(self.learner.progress()),
                "history": self._listed(0, by), "events": self.journal.events,
                "undo": bool(self._desks[by].skips or self._latest(by)[0]),
                "by": by, "ask": self._shared is not None or bool(names),
                "people": self.agreement() if names else None,
                "suggestions": self.judge_suggestions() if self._suggestions else None,
                "problem": self._problem, "counts": list(Counter(labels).items()),
                "relevant": self.learner.relevant,
            }  # fmt: skip

    def next(self, by: str | None = None) -> Json:
        """The next text, and the overview."""
        with self._lock:
            by, desk = self._person(by)
            proposal = self._second(by) or self._proposal(by)
            if proposal is None and desk.skipped:
                desk.skipped.clear()
                proposal = self._second(by) or self._proposal(by)
            desk.shown, view = -1, None
            if proposal is not None:
                desk.shown = proposal.index
                desk.chosen.setdefault(proposal.index, proposal.reason)
                view = self._view(proposal.index, proposal.reason, by)
            return {"text": view, "state": self.overview(by)}

    def _person(self, by: str | None) -> tuple[str | None, Desk]:
        """Name and page of a person; names that differ in case are one, as it was first spelled."""
        name = " ".join(normalize("NFC", printable(by or "")).split()) or None
        if name is not None and len(name) > NAME:
            raise files.PageError("a name has 1 to {0} characters", NAME)
        if name is not None and name not in self.journal.people:
            name = next((other for other in self.journal.people if other.casefold() == name.casefold()), name)
        return name, self._desks[name]

    def _elsewhere(self, by: str | None) -> set[int]:
        """Texts that the pages of other people show."""
        return {desk.shown for name, desk in self._desks.items() if name not in (None, by)} - {-1}

    def _proposal(self, by: str | None) -> Proposal | None:
        """The text that the learner chooses, or the first without an answer if the learner fails."""
        skipped, elsewhere = self._desks[by].skipped, self._elsewhere(by)
        for left_out in (skipped | elsewhere, skipped):  # at the end two people may see the same text
            try:
                proposal = self.learner.next(left_out)
            except Exception as error:
                self._note_problem(error)
                rest = (i for i, name in enumerate(self.corpus.ids) if name not in self.journal.answers)
                index = next((i for i in rest if i not in left_out), None)
                proposal = None if index is None else Proposal(index, "strategy")
            if proposal is not None or not elsewhere:
                return proposal
        return None

    def _second(self, by: str | None) -> Proposal | None:
        """A text of another person, if too few texts have answers of two."""
        if by is None or not self.journal.people:
            return None
        self._read_changed()
        texts, share = self._by_text, SHARED if self._shared is None else self._shared
        if sum(len(labels) > 1 for labels in texts.values()) >= share * len(texts):
            return None
        left_out, own = self._desks[by].skipped | self._elsewhere(by), self.journal.own[by]
        free = (
            next(iter(labels.values())) for name, labels in texts.items()
            if len(labels) == 1 and name not in own and self._number_of[name] not in left_out
        )  # fmt: skip
        # The digest of a text is a random number that stays.
        entry = min(free, key=attrgetter("digest"), default=None)
        return None if entry is None else Proposal(self._number_of[entry.id], files.SECOND)

    def show(self, index: int, reason: str = "", whole: bool = False, by: str | None = None) -> Json:
        """A text that the user has picked, or with `whole` all of a long text shown for `reason`."""
        with self._lock:
            by, desk = self._person(by)
            desk.chosen.setdefault(self._checked(index), files.USER)
            desk.shown = index
            return {"text": self._view(index, reason, by, whole), "state": self.overview(by)}

    def _checked(self, index: int) -> int:
        if not 0 <= index < len(self.corpus):
            raise InputError(f"there is no text {index}")
        return index

    def _view(self, index: int, reason: str, by: str | None, whole: bool = False) -> Json:
        """A text for the page, which then asks for the guess unless the text must be labelled without it."""
        text, identifier = self.corpus.texts[index], self.corpus.ids[index]
        shown = text[: WHOLE if whole else SHOWN]
        of_people = self.journal.answers_of_people(identifier)
        if reason != files.DECISION or len(of_people) < 2:  # another person may withdraw an answer meanwhile
            of_people = {}
        answer = None if reason == files.DOUBT else self._own(identifier, "" if of_people else by)
        secret = self._is_secret(index, reason, by)
        return {
            "index": index, "id": cut(printable(identifier), LABEL), "reason": reason,
            "seen": self.journal.revisions[identifier, "" if of_people else by],
            "pieces": [(printable(shown), 0)], "whole": whole,
            "hidden": len(text) - len(shown), "guess": None, "guessed": not secret,
            "answered": answer is not None, "label": answer.label if answer else None,
            "suggestion": None if secret else self._suggestions.get(identifier),
            "answers": [(name, entry.label) for name, entry in of_people.items()],
        }  # fmt: skip

    def _is_secret(self, index: int, reason: str, by: str | None) -> bool:
        """Whether a text is answered without the guess: for `reason`, or because of an earlier answer."""
        identifier, reasons = self.corpus.ids[index], {reason, self._desks[by].chosen.get(index)}
        entries = self._own(identifier, by), self.journal.answers.get(identifier)
        reasons |= {entry.chosen for entry in entries if entry is not None}
        return not reasons.isdisjoint((files.RANDOM, files.DOUBT, files.SECOND, files.DECISION))

    def _own(self, identifier: str, by: str | None) -> files.JournalEntry | None:
        """The answer of a person to a text."""
        return self.journal.own[by].get(identifier, (0, None))[1]

    def guess(self, index: int, whole: bool = False, by: str | None = None) -> Json:
        """The machine's guess, and pieces of the shown text; no other request waits for it."""
        shown = self.corpus.texts[self._checked(index)][: WHOLE if whole else SHOWN]
        guess, symbols = self.learner.guess(index), np.zeros(len(shown))
        for start, end, value in guess.spans if guess else []:
            symbols[start:end] = value
        pieces = [(printable(piece), step) for piece, step in runs(shown, symbols)]
        return {"guess": dict(guess.scores) if guess else None, "pieces": pieces}

    def answer(self, index: int, seen: int, label: files.Labels, by: str | None = None) -> Json:
        """Record an answer (None: unsure) and show the next text."""
        with self._lock:
            identifier, (by, desk) = self.corpus.ids[self._checked(index)], self._person(by)
            if seen != self.journal.revisions[identifier, by]:
                raise Conflict("this text has been answered in another window meanwhile")
            copies = self._answered(index, identifier, self._valid(label), by)
            desk.skips.clear()
            self._due.set()
            return {**self.next(by), "copies": copies, "answered": index}

    def decide(self, index: int, seen: int, label: files.Labels, by: str | None = None) -> Json:
        """Record the label that counts of a text with different answers, and show the next such text."""
        with self._lock:
            identifier, (by, desk) = self.corpus.ids[self._checked(index)], self._person(by)
            if len(self.journal.answers_of_people(identifier)) < 2:
                raise files.PageError("only a text with the answers of two people needs a decision")
            if seen != self.journal.revisions[identifier, ""]:
                raise Conflict("this text has been decided in another window meanwhile")
            copies = self._record(index, self._valid(label), files.DECISION, by)
            desk.skips.clear()
            rest = [entry["index"] for entry in self.review(by)["disagreements"] if not entry["answered"]]
            shown = self.show(rest[0], files.DECISION, by=by) if rest else self.next(by)
            return {**shown, "copies": copies, "answered": index}

    def _valid(self, label: files.Labels) -> files.Labels:
        unknown = set(files.names_of(label)).difference(self.learner.labels)
        if unknown or (label is not None and isinstance(label, list) != self.learner.multilabel):
            labels = ", ".join(self.learner.labels)
            raise files.PageError("{0} is not an answer; the labels are {1}", repr(label), labels)
        return label

    def _answered(self, index: int, identifier: str, label: files.Labels, by: str | None) -> int:
        """Put an answer and those of its near-copies on disk; number of the copies."""
        before, own = self.journal.answers.get(identifier), self._own(identifier, by)
        chosen = self._desks[by].chosen.get(index, files.USER)
        of_others = self.journal.answers_of_people(identifier).keys() - {by}
        if before is not None and (own is None or of_others or identifier in self.journal.own[""]):
            return self._record(index, label, own.chosen if own else chosen, by)
        if before is not None and (label is None or before.label is None):
            self.learner.retract(index)  # None would keep the label
        chosen = before.chosen if before else chosen
        labelled = self.learner.answer(index, label, chosen == files.RANDOM)
        # Answered near-copies follow where the learner does not connect them with the text, as after unsure.
        copies = [self._number_of[name] for name in self._copies_of(identifier, by)]
        new = (i for i in labelled if self.corpus.ids[i] not in self.journal.separated)
        copies = list(dict.fromkeys([*copies, *new]))
        answers = [replace(self._noted(index, label, chosen, by), part=before.part if before else None)]
        answers += [self._noted(copy, label, files.COPY, by, identifier) for copy in copies]
        try:
            self.journal.add(answers, self._text_of)
        except (OSError, InputError):
            self._follow([index, *labelled])
            raise
        decided = {copy: self.journal.answers.get(self.corpus.ids[copy]) for copy in [*labelled, *copies]}
        self._follow([i for i, e in decided.items() if i not in labelled or e is None or e.label != label])
        return len(copies)

    def _record(self, index: int, label: files.Labels, chosen: str, by: str | None) -> int:
        """Record an answer beside those of others, and for near-copies that got their label; their number."""
        identifier, owns = self.corpus.ids[index], self.journal.own.values()
        copies = {name for own in owns for name, (_, entry) in own.items() if entry.copy_of == identifier}
        for own in owns if chosen == files.DECISION else [self.journal.own[by]]:
            # Answers that were given to a copy itself stay.
            copies -= {name for name in copies & own.keys() if own[name][1].copy_of != identifier}
        places = [self._number_of[name] for name in sorted(copies)]
        kind = files.DECISION if chosen == files.DECISION else files.COPY
        answers = [self._noted(copy, label, kind, by, identifier) for copy in places]
        self.journal.add([self._noted(index, label, chosen, by), *answers], self._text_of)
        self._follow([index, *places])
        return len(places)

    def _follow(self, indices: Iterable[int]) -> None:
        """Change the answers that the learner has for some texts to those of the journal."""
        answers = []
        for index in indices:
            answer = self.journal.answers.get(self.corpus.ids[index])
            if answer is None or answer.label is None:
                self.learner.retract(index)
            answers += [] if answer is None else [answer]
        if answers:
            self._restore(answers)
            self.journal.set_labels(self.learner.labels)  # an earlier answer may have a removed label
        self._due.set()  # a training would keep the other requests waiting

    def _noted(
        self, index: int, label: files.Labels, chosen: str, by: str | None, copy_of: str | None = None
    ) -> files.JournalEntry:
        identifier, now = self.corpus.ids[index], f"{datetime.now(UTC):%Y-%m-%dT%H:%M}Z"
        self._number_of[identifier] = index
        digest = files.text_digest(self.corpus.texts[index])
        return files.JournalEntry(identifier, digest, label, chosen, copy_of, by=by, at=now)

    def skip(self, index: int, by: str | None = None) -> Json:
        """Show another text; this text comes again after all others."""
        with self._lock:
            by, desk = self._person(by)
            desk.skipped.add(self._checked(index))
            desk.skips.append(index)
            return self.next(by)

    def undo(self, events: int, by: str | None = None) -> Json:
        """Show the text that was skipped after the latest answer, or withdraw this answer and its copies."""
        with self._lock:
            by, desk = self._person(by)
            place, latest = self._latest(by)
            if not place <= events <= self.journal.events:
                raise Conflict("there is a newer answer from another window")
            if desk.skips:
                desk.skipped.discard(index := desk.skips.pop())
                return {**self.show(index, desk.chosen.get(index, ""), by=by), "skipped": True}
            if latest is None:
                raise files.PageError("there is nothing to undo")
            own = self.journal.own[latest.voice]
            place, answer = own[str(latest.copy_of if latest.copy_of in own else latest.id)]
            index = self._number_of[answer.id]
            if answer.chosen != files.DECISION:
                desk.chosen[index] = answer.chosen
            self._withdraw([answer.id, *self._copies_of(answer.id, answer.voice, place)], answer.voice)
            return {**self.show(index, answer.chosen, by=by), "skipped": False}

    def _latest(self, by: str | None) -> tuple[int, files.JournalEntry | None]:
        """The latest answer or decision of a person, and its place in the journal."""
        own, decisions = (reversed(self.journal.own[voice].values()) for voice in (by, ""))
        latest = next(own, (0, None)), next((item for item in decisions if item[1].by == by), (0, None))
        return max(latest, key=itemgetter(0))

    def separate(self, index: int, by: str | None = None) -> Json:
        """Withdraw the answers of the near-copies of an answered text."""
        with self._lock:
            by, desk = self._person(by)
            copies = self._copies_of(self.corpus.ids[self._checked(index)], by)
            desk.skips.clear()
            answers = [(copy, entry) for copy in copies for _, entry in self.journal.history[copy]]
            self._withdraw([copy for copy, entry in answers if entry.voice == by], by)
            return {"separated": len(copies), "state": self.overview(by)}

    def _copies_of(self, identifier: str, by: str | None, after: int = 0) -> list[str]:
        """Near-copies that have the label of a text, by answers after a place in the journal."""
        own = self.journal.own[by]
        return [name for name, (place, e) in own.items() if e.copy_of == identifier and place > after]

    def _withdraw(self, ids: list[str], by: str | None) -> None:
        self.journal.withdraw(ids, self._text_of, by)
        self._follow(self._number_of[name] for name in dict.fromkeys(ids))

    def add_label(self, label: str, by: str | None = None) -> Json:
        """Add a label."""
        label = " ".join(printable(label).split())
        if not 0 < len(label) <= LABEL or len(self.learner.labels) >= LABELS:
            message = "a label has 1 to {0} characters, and there are at most {1} labels"
            raise files.PageError(message, LABEL, LABELS)
        with self._lock:
            self.learner.add_label(label)
            self.journal.set_labels(self.learner.labels)
            return {"state": self.overview(self._person(by)[0])}

    def remove_label(self, label: str, by: str | None = None) -> Json:
        """Remove a label that no text has."""
        with self._lock:
            if label not in self.learner.labels or label == self.learner.relevant:
                raise files.PageError("{0} is not a label that can be removed", repr(label))
            items = (item for own in self.journal.own.values() for item in own.items())
            if texts := {name for name, (_, entry) in items if label in files.names_of(entry.label)}:
                message = "the label {0} has labelled texts ({1}); give them another label first"
                raise files.PageError(message, repr(label), len(texts))
            self.learner.remove_label(label)
            self.journal.set_labels(self.learner.labels)
            return {"state": self.overview(self._person(by)[0])}

    def add_labelled(self, texts: Sequence[files.LabelledText]) -> int:
        """Record labels of the texts of a file; number of texts of the corpus that got a label.

        Texts are recognised by their content, and equal texts by their ids. Texts with an answer keep it.
        """
        labelled = {files.text_digest(text.text): text for text in texts}
        same = {(text.id, files.text_digest(text.text)): text for text in texts}
        several, answers = self.learner.multilabel, []
        for index, content in enumerate(self.corpus.texts):
            digest = files.text_digest(content)
            text = same.get((self.corpus.ids[index], digest), labelled.get(digest))
            if text is None or self.corpus.ids[index] in self.journal.answers:
                continue
            part = text.part if text.part in ("test", files.COPY) else None
            people = set()
            for name, label in text.answers.items() or [("", text.label)]:
                by, names = self._person(name)[0], files.names_of(label)
                if (key := by and by.casefold()) in people:
                    raise InputError(f"text {text.id!r} has two answers of {by!r}, spelled in two ways")
                people.add(key)
                if len(names) != 1 and not several:
                    raise InputError(f"text {text.id!r} has {len(names)} labels; several need --multilabel")
                answer = self._noted(index, names if several else names[0], files.IMPORT, by)
                answers.append(replace(answer, part=part))
            if text.decided or text.decision is not None:
                label = text.label
                if label is not None:
                    label = files.names_of(label) if several else files.names_of(label)[0]
                answers.append(self._noted(index, label, files.DECISION, None))
        with self._lock:
            for label in dict.fromkeys(name for entry in answers for name in files.names_of(entry.label)):
                self.learner.add_label(label)
            self.journal.set_labels(self.learner.labels)
            self.journal.add(answers, self._text_of)
            ids = dict.fromkeys(entry.id for entry in answers)
            self._restore(self.journal.answers[name] for name in ids)
        self._learn(self.learner.refresh)
        return len(ids)

    def export(self, suffix: str, by: str | None = None) -> Json:
        """Content of a file of the labelled texts, as of `--export`."""
        if suffix not in files.FORMATS:
            raise InputError(f"the suffixes are {', '.join(files.FORMATS)}")
        with self._lock:
            self.journal.write_late()
            return {"content": files.FORMATS[suffix](files.read_labelled(self.journal.path))}

    # Overviews

    def history(self, skip: int, by: str | None = None) -> Json:
        """Some of the answers of a person, the latest first, after leaving out `skip`."""
        with self._lock:
            by, _ = self._person(by)
            return {"history": self._listed(min(max(0, skip), len(self.journal.answers)), by)}

    def _listed(self, skip: int, by: str | None) -> list[Json]:
        latest = islice(reversed(self.journal.own[by].values()), skip, skip + LISTED)
        return [self._entry(self._number_of[e.id], by) | {"copy": e.copy_of is not None} for _, e in latest]

    def _entry(self, index: int, by: str | None, start: int = 0) -> Json:
        """A line of a list: the beginning of a text, or the words from `start` on, and its label."""
        answer = self._own(self.corpus.ids[index], by)
        text = self.corpus.texts[index][start : start + SNIPPET]
        if start:
            text = "… " + text[text.find(" ", 0, BEFORE) + 1 :]
        return {
            "index": index, "text": " ".join(printable(text).split()), "answered": answer is not None,
            "label": answer.label if answer else None,
        }  # fmt: skip

    def search(self, words: str, start: int = 0, by: str | None = None) -> Json:
        """Texts with all words, from the text `start` on; `next` is where the next search begins, or None."""
        with self._lock:
            by, _ = self._person(by)
        parts, entries = words.casefold().split(), list[Json]()
        end = time.monotonic() + SECONDS
        for index in range(max(0, start), len(self.corpus) if parts else 0):
            if len(entries) == LISTED or time.monotonic() > end:
                return {"entries": entries, "next": index}
            text = self.corpus.texts[index].casefold()
            if self.corpus.ids[index] == words or all(part in text for part in parts):
                # Place in the text itself: case folding turns some letters into several.
                ends = accumulate(len(letter.casefold()) for letter in self.corpus.texts[index])
                place = bisect_right([*ends], text.find(parts[0]))
                with self._lock:
                    entries.append(self._entry(index, by, max(0, place - BEFORE)))
        return {"entries": entries, "next": None}

    def judge_suggestions(self) -> Json:
        """Share of right suggestions of random texts, labelled without them, and the weight of the others.

        The weight is 0 up to the agreement by chance, 1 if all are right, by the lower end of the interval.
        """
        with self._lock:
            pairs = [
                (tuple(sorted(self._suggestions[name])), tuple(sorted(files.names_of(entry.label))))
                for name, entry in self.journal.answers.items()
                if entry.chosen == files.RANDOM and entry.label is not None and name in self._suggestions
            ]
        n, right = len(pairs), sum(first == second for first, second in pairs)
        low, high = clopper_pearson(right, n) if n else (0.0, 1.0)
        counts = [Counter(column) for column in zip(*pairs, strict=True)]
        chance = sum(counts[0][key] * counts[1][key] for key in counts[0]) / n**2 if n else 1.0
        learnt = chance < 1 and self.learner.relevant is None  # a search does not learn them
        weight = max(0.0, (low - chance) / (1 - chance)) if learnt else 0.0
        return {"n": n, "right": right, "interval": (low, high), "weight": weight}

    # Several people

    def _labels(self, name: str, copies: bool) -> dict[str, files.JournalEntry]:
        """Labels of a text by the names of the people, with or without those that near-copies got."""
        answers = self.journal.answers_of_people(name).items()
        return {k: e for k, e in answers if e.label is not None and (copies or e.copy_of is None)}

    def _read_changed(self) -> None:
        """Update what follows from the answers to each text: all texts at each answer would take long."""
        for name in self.journal.changed:
            rows = self._labels(name, copies=True), self._labels(name, copies=False)
            self._counts.subtract([*self._by_text.get(name, ())])
            self._counts.update([*rows[1]])
            differing = rows[0] if len({files.unordered(e.label) for e in rows[0].values()}) > 1 else {}
            if (unit := self._unit(name, rows[1])) != self._units.get(name, {}):
                self._figures = -1, {}
            for table, row in (self._by_text, rows[1]), (self._unequal, differing), (self._units, unit):
                table.update({name: row}) if row else table.pop(name, None)
        self.journal.changed.clear()

    def _unit(self, name: str, labels: dict[str, files.JournalEntry]) -> dict[str, object]:
        """First labels of a text by the names of the people, if they measure agreement, else none."""
        chosen = {entry.chosen for entry in labels.values()}
        drawn = files.SECOND in chosen or chosen in ({files.RANDOM}, {files.IMPORT})
        if len(labels) < 2 or files.DOUBT in chosen or not drawn:
            return {}
        answers = (entry for _, entry in reversed(self.journal.history.get(name, ())))
        first = {e.voice: e for e in answers if e.copy_of is None and e.label is not None}
        return {k: files.unordered(first.get(k, e).label) for k, e in labels.items()}

    def _differing(self) -> dict[str, dict[str, files.JournalEntry]]:
        """Texts with different labels, without near-copies whose original stands for them."""
        self._read_changed()
        open_ = self._unequal.keys() - self.journal.own[""].keys()
        return {
            name: x for name, x in self._unequal.items()
            if any(e.copy_of not in (open_ if name in open_ else self._unequal) for e in x.values())
        }  # fmt: skip

    def agreement(self) -> Json:
        """Number of answers of each person, agreement of first labels of drawn texts, open disagreements."""
        n_open = len(self._differing().keys() - self.journal.own[""].keys())
        counts = +self._counts
        if self._figures[0] != len(counts):
            pairs = [[*unit.values()] for unit in self._units.values()]
            self._figures = len(counts), {
                "n": len(pairs), "equal": sum(len({*pair}) == 1 for pair in pairs),
                "alpha": krippendorff_alpha(pairs),
            }  # fmt: skip
        return {"names": list(counts.items()), **self._figures[1], "open": n_open}

    def review(self, by: str | None = None) -> Json:
        """Texts with different labels of several people, open ones first."""
        with self._lock:
            texts = [
                self._entry(self._number_of[name], "")
                | {"answers": [(k, e.label) for k, e in labels.items()]}
                for name, labels in self._differing().items()
            ]
            texts.sort(key=itemgetter("answered"))
            return {"disagreements": texts[:LISTED]}

    def close(self) -> list[str]:
        """Close the journal; sentences about the work."""
        with self._lock:
            self.journal.close()
            labels = [files.names_of(e.label) for e in self.journal.answers.values() if e.label is not None]
            lines = [f"{len(labels):,} labelled texts are in {self.journal.path}"]
            if (figures := self.agreement())["n"]:
                lines.append(
                    f"agreement: {figures['equal']:,} of {figures['n']:,} labels, Krippendorff's alpha "
                    f"{figures['alpha']:.3f}; to decide: {figures['open']:,}"
                )
            if search := self.learner.progress().retrieval:
                of = "" if search.total is None else f" of about {search.total:,.0f}"
                end = "at least 95 % are probably found" if search.enough else "the search is not complete"
                n_found = sum(self.learner.relevant in names for names in labels)
                lines.append(f"texts of {self.learner.relevant!r} found: {n_found:,}{of}; {end}")
            if len({name for names in labels for name in names}) < 2:
                return [*lines, "a classifier needs texts of two labels; the same command goes on"]
            option = " --multilabel" if self.learner.multilabel else ""
            return [*lines, f"train on them: textsvm train {self.journal.path}{option} -o model.textsvm"]
