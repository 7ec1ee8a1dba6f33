"""A labelling session: the texts, the answers on disk, and the learner that chooses the next text.

A session is used by several threads, one for each request of a page. Each text has a number of answers so
far (`seen`); an answer to a text that has been answered in another window meanwhile raises `Conflict`.
"""

from __future__ import annotations

import time
import traceback
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import accumulate, islice
from pathlib import Path
from threading import Event, RLock, Thread

import numpy as np

from textsvm import Corpus
from textsvm.apps.label.files import (
    COPY,
    IMPORT,
    RANDOM,
    USER,
    Journal,
    JournalEntry,
    LabelledText,
    Labels,
    labelled_of,
    text_digest,
)
from textsvm.apps.label.learner import Answer, Learner, Proposal
from textsvm.apps.label.stopping import cohen_kappa
from textsvm.arrays import Json
from textsvm.errors import InputError, one_line, printable
from textsvm.reporting.formatting import cut, runs

#: Characters shown of a text.
SHOWN = 3000
#: Maximum number of characters shown on request.
WHOLE = 2_000_000
#: Characters shown of a text in a list.
SNIPPET = 90
#: Characters of a snippet before the word that is searched for.
BEFORE = 30
#: Entries of the list of answers and of search results at a time.
LISTED = 30
#: Maximum seconds of a search.
SECONDS = 0.3
#: Maximum number of characters of a label.
LABEL = 100
#: Maximum number of labels.
LABELS = 500


class Conflict(InputError):
    """An answer to something that has changed in another window."""


class SecondOpinion:
    """Labelled texts in random order, without guesses, for a second person."""

    relevant = None

    def __init__(self, corpus: Corpus, multilabel: bool, seed: int = 0) -> None:
        first = [text.labels for text in labelled_of(corpus)]
        if not multilabel and any(len(labels) != 1 for labels in first):
            raise InputError(f"texts of {corpus.source} have several labels, which needs --multilabel")
        counts = Counter(label for labels in first for label in labels)
        self.labels, self.multilabel = [label for label, _ in counts.most_common()], multilabel
        self._order = np.random.default_rng(seed).permutation(len(corpus)).tolist()
        self._done: set[int] = set()

    def add_label(self, label: str) -> None:
        """Add a label."""
        if label not in self.labels:
            self.labels.append(label)

    def remove_label(self, label: str) -> None:
        """Remove a label that no answer has."""
        self.labels.remove(label)

    def answer(self, index: int, label: Answer, at_random: bool = False) -> list[int]:
        """Note that a text is answered; no near-copy gets its label."""
        self._done.add(index)
        return []

    def retract(self, index: int) -> None:
        """Undo an answer."""
        self._done.discard(index)

    def restore(self, answers: Iterable[tuple[int, Answer, bool]], copies: Mapping[int, int] = {}) -> None:
        """Note earlier answers."""
        self._done.update(index for index, _, _ in answers)

    def next(self, skipped: Collection[int] = ()) -> Proposal | None:
        """The next text without an answer."""
        rest = (index for index in self._order if index not in self._done and index not in skipped)
        index = next(rest, None)
        return None if index is None else Proposal(index, RANDOM)

    def refresh(self) -> None:
        """Nothing is learnt."""

    def guess(self, index: int) -> None:
        """Nothing is guessed."""


class Session:
    """Labelling of the texts of a corpus, whose labels are the first opinion of a `SecondOpinion`."""

    def __init__(self, corpus: Corpus, journal: Journal, learner: Learner | SecondOpinion) -> None:
        self.corpus, self.journal, self.learner = corpus, journal, learner
        self._lock, self._due = RLock(), Event()
        self._skipped: set[int] = set()
        self._skips: list[int] = []  # since the last answer, for `undo`
        self._chosen: dict[int, str] = {}
        self._problem: str | None = None
        self._number_of = {name: i for i, name in enumerate(corpus.ids) if name in journal.answers}
        self._check_corpus()
        for label in journal.labels:
            learner.add_label(label)
        journal.set_labels(learner.labels)
        journal.write_labels(self._text_of)
        self._restore(journal.answers[name] for name in journal.history)
        Thread(target=self._keep_learning, daemon=True).start()

    def _check_corpus(self) -> None:
        """InputError if an answered text of the journal is not in the corpus, or has changed."""
        answers, path = self.journal.answers, self.journal.path
        missing = [name for name in answers if name not in self._number_of]
        changed = [
            name for name in self._number_of if text_digest(self._text_of(name)) != answers[name].digest
        ]
        for names, trouble in ((missing, "are not in"), (changed, "have changed in")):
            if names:
                raise InputError(
                    f"{len(names):,} of {len(answers):,} labelled texts, first {names[0]!r}, {trouble} "
                    f"{self.corpus.source}; give the corpus that {path} was begun with, or take another -o "
                    f"and --import {path}, which finds texts by their content"
                )

    def _text_of(self, identifier: str) -> str:
        return self.corpus.texts[self._number_of[identifier]]

    def _restore(self, answers: Iterable[JournalEntry]) -> None:
        """Give the learner earlier answers. Answering a text again removes it from the doubtful texts."""
        restored: list[tuple[int, Labels, bool]] = []
        copies = {}
        for entry in answers:
            if entry.copy_of in self._number_of:
                copies[self._number_of[entry.id]] = self._number_of[entry.copy_of]
            answer = self._number_of[entry.id], entry.label, entry.chosen == RANDOM
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
            step()
            self._problem = None
        except Exception as error:
            self._note_problem(error)

    def _note_problem(self, error: Exception) -> None:
        if not isinstance(error, InputError):
            traceback.print_exception(error)
        self._problem = one_line(str(error) or type(error).__name__)

    # Answers

    def overview(self) -> Json:
        """Labels, progress and the latest answers."""
        with self._lock:
            return {
                "title": printable(Path(self.corpus.source).name), "n": len(self.corpus),
                "labels": self.learner.labels, "multilabel": self.learner.multilabel,
                "progress": self._progress(), "history": self._listed(0), "events": self.journal.events,
                "undo": bool(self._skips or self.journal.answers),
                "problem": self._problem,
                "second": isinstance(self.learner, SecondOpinion),
                "relevant": self.learner.relevant,
            }  # fmt: skip

    def next(self) -> Json:
        """The next text, and the overview."""
        with self._lock:
            proposal = self._proposal()
            if proposal is None and self._skipped:
                self._skipped.clear()
                proposal = self._proposal()
            if proposal is None:
                return {"text": None, "state": self.overview()}
            self._chosen[proposal.index] = proposal.reason
            return {"text": self._view(proposal.index, proposal.reason), "state": self.overview()}

    def _proposal(self) -> Proposal | None:
        """The text that the learner chooses, or the first without an answer if the learner fails."""
        try:
            return self.learner.next(self._skipped)
        except Exception as error:
            self._note_problem(error)
        rest = (i for i, name in enumerate(self.corpus.ids) if name not in self.journal.answers)
        index = next((i for i in rest if i not in self._skipped), None)
        return None if index is None else Proposal(index, "strategy")

    def show(self, index: int, reason: str = "", whole: bool = False) -> Json:
        """A text that the user has picked, or with `whole` all of a long text shown for `reason`."""
        with self._lock:
            self._chosen.setdefault(self._checked(index), USER)
            return {"text": self._view(index, reason, whole), "state": self.overview()}

    def _checked(self, index: int) -> int:
        if not 0 <= index < len(self.corpus):
            raise InputError(f"there is no text {index}")
        return index

    def _view(self, index: int, reason: str, whole: bool = False) -> Json:
        """A text for the page, which then asks for the guess unless the text must be labelled without it."""
        text, identifier = self.corpus.texts[index], self.corpus.ids[index]
        shown = text[: WHOLE if whole else SHOWN]
        answer = None if reason == "doubt" else self.journal.answers.get(identifier)
        secret = isinstance(self.learner, SecondOpinion) or reason in (RANDOM, "doubt")
        return {
            "index": index, "id": cut(printable(identifier), LABEL), "reason": reason,
            "seen": self.journal.revisions[identifier], "pieces": [(printable(shown), 0)], "whole": whole,
            "hidden": len(text) - len(shown), "guess": None, "guessed": not secret,
            "answered": answer is not None, "label": answer.label if answer else None,
        }  # fmt: skip

    def guess(self, index: int, whole: bool = False) -> Json:
        """The machine's guess, and the pieces of the shown text; no other request waits for it."""
        shown = self.corpus.texts[self._checked(index)][: WHOLE if whole else SHOWN]
        guess, symbols = self.learner.guess(index), np.zeros(len(shown))
        for start, end, value in guess.spans if guess else []:
            symbols[start:end] = value
        pieces = [(printable(piece), step) for piece, step in runs(shown, symbols)]
        return {"guess": dict(guess.scores) if guess else None, "pieces": pieces}

    def answer(self, index: int, seen: int, label: Labels) -> Json:
        """Record an answer (None: unsure) and show the next text."""
        with self._lock:
            identifier = self.corpus.ids[self._checked(index)]
            if seen != self.journal.revisions[identifier]:
                raise Conflict("this text has been answered in another window meanwhile")
            copies = self._answered(index, identifier, self._valid(label))
            self._skips.clear()
            self._due.set()
            return {**self.next(), "copies": copies, "answered": index}

    def _valid(self, label: Labels) -> Labels:
        unknown = set(_names(label)).difference(self.learner.labels)
        if unknown or (label is not None and isinstance(label, list) != self.learner.multilabel):
            raise InputError(f"{label!r} is not an answer; the labels are {', '.join(self.learner.labels)}")
        return label

    def _answered(self, index: int, identifier: str, label: Labels) -> int:
        """Put an answer and those of its near-copies on disk; number of the copies."""
        before = self.journal.answers.get(identifier)
        if before is not None and (label is None or before.label is None):
            self.learner.retract(index)  # None would keep the label
        chosen = before.chosen if before else self._chosen.get(index, USER)
        labelled = self.learner.answer(index, label, chosen == RANDOM)
        copies = [copy for copy in labelled if self.corpus.ids[copy] not in self.journal.separated]
        answers = [replace(self._noted(index, label, chosen), part=before.part if before else None)]
        answers += [self._noted(copy, label, COPY, identifier) for copy in copies]
        try:
            self.journal.add(answers, self._text_of)
        except (OSError, InputError):
            self._follow([index, *labelled])
            raise
        self._follow([copy for copy in labelled if copy not in copies])
        return len(copies)

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

    def _noted(self, index: int, label: Labels, chosen: str, copy_of: str | None = None) -> JournalEntry:
        identifier = self.corpus.ids[index]
        self._number_of[identifier] = index
        return JournalEntry(identifier, text_digest(self.corpus.texts[index]), label, chosen, copy_of)

    def skip(self, index: int) -> Json:
        """Show another text; this text comes again after all others."""
        with self._lock:
            self._skipped.add(self._checked(index))
            self._skips.append(index)
            return self.next()

    def undo(self, events: int) -> Json:
        """Show the text that was skipped after the latest answer, or withdraw this answer and its copies."""
        with self._lock:
            if events != self.journal.events:
                raise Conflict("there is a newer answer from another window")
            if self._skips:
                self._skipped.discard(index := self._skips.pop())
                return {**self.show(index, self._chosen.get(index, "")), "skipped": True}
            if not (latest := next(reversed(self.journal.answers.values()), None)):
                raise InputError("there is nothing to undo")
            original = latest.copy_of if latest.copy_of in self.journal.answers else latest.id
            place, answer = self.journal.history[str(original)][-1]
            index = self._number_of[answer.id]
            self._chosen[index] = answer.chosen
            self._withdraw([answer.id, *self._copies_of(answer.id, place)])
            return {**self.show(index, answer.chosen), "skipped": False}

    def separate(self, index: int) -> Json:
        """Withdraw the answers of the near-copies of an answered text."""
        with self._lock:
            copies = self._copies_of(self.corpus.ids[self._checked(index)])
            self._withdraw([copy for copy in copies for _ in self.journal.history[copy]])
            return {"separated": len(copies), "state": self.overview()}

    def _copies_of(self, identifier: str, after: int = 0) -> list[str]:
        """Near-copies that have the label of a text, by answers after a place in the journal."""
        latest = (entries[-1] for entries in self.journal.history.values())
        return [entry.id for place, entry in latest if entry.copy_of == identifier and place > after]

    def _withdraw(self, ids: list[str]) -> None:
        self._skips.clear()
        self.journal.withdraw(ids, self._text_of)
        self._follow(self._number_of[name] for name in dict.fromkeys(ids))
        self._due.set()

    def add_label(self, label: str) -> Json:
        """Add a label."""
        label = " ".join(printable(label).split())
        if not 0 < len(label) <= LABEL or len(self.learner.labels) >= LABELS:
            raise InputError(f"a label has 1 to {LABEL} characters, and there are at most {LABELS} labels")
        with self._lock:
            self.learner.add_label(label)
            self.journal.set_labels(self.learner.labels)
            return {"state": self.overview()}

    def remove_label(self, label: str) -> Json:
        """Remove a label that no text has."""
        with self._lock:
            if label not in self.learner.labels or label == self.learner.relevant:
                raise InputError(f"{label!r} is not a label that can be removed")
            n = sum(label in _names(entry.label) for entry in self.journal.answers.values())
            if n:
                raise InputError(
                    f"the label {label!r} has labelled texts ({n:,}); give them another label first"
                )
            self.learner.remove_label(label)
            self.journal.set_labels(self.learner.labels)
            return {"state": self.overview()}

    def add_labelled(self, texts: Sequence[LabelledText]) -> int:
        """Record labels of the texts of a file; number of texts of the corpus that got a label.

        Texts are recognised by their content. Texts with an answer keep it.
        """
        labelled = {text_digest(text.text): text for text in texts}
        several, answers = self.learner.multilabel, []
        for index, content in enumerate(self.corpus.texts):
            text = labelled.get(text_digest(content))
            if text is None or self.corpus.ids[index] in self.journal.answers:
                continue
            if len(text.labels) != 1 and not several:
                raise InputError(
                    f"the text {text.id!r} has {len(text.labels)} labels; several need --multilabel"
                )
            label = text.labels if several else text.labels[0]
            part = text.part if text.part in ("test", COPY) else None
            answers.append(replace(self._noted(index, label, IMPORT), part=part))
        with self._lock:
            self._restore(answers)
            self.journal.set_labels(self.learner.labels)
            self.journal.add(answers, self._text_of)
        return len(answers)

    # Overviews

    def history(self, skip: int) -> Json:
        """Some of the answers, the latest first, after leaving out `skip`."""
        with self._lock:
            return {"history": self._listed(min(max(0, skip), len(self.journal.answers)))}

    def _listed(self, skip: int) -> list[Json]:
        latest = islice(reversed(self.journal.answers.values()), skip, skip + LISTED)
        return [
            self._entry(self._number_of[entry.id]) | {"copy": entry.copy_of is not None} for entry in latest
        ]

    def _entry(self, index: int, start: int = 0) -> Json:
        """A line of a list: the beginning of a text, or the words from `start` on, and its label."""
        answer = self.journal.answers.get(self.corpus.ids[index])
        text = self.corpus.texts[index][start : start + SNIPPET]
        if start:
            text = "… " + text[text.find(" ", 0, BEFORE) + 1 :]
        return {
            "index": index, "text": " ".join(printable(text).split()), "answered": answer is not None,
            "label": answer.label if answer else None,
        }  # fmt: skip

    def search(self, words: str, start: int = 0) -> Json:
        """Texts with all words, from the text `start` on; `next` is where the next search begins, or None."""
        parts, end, entries = words.casefold().split(), time.monotonic() + SECONDS, list[Json]()
        for index in range(max(0, start), len(self.corpus) if parts else 0):
            if len(entries) == LISTED or time.monotonic() > end:
                return {"entries": entries, "next": index}
            text = self.corpus.texts[index].casefold()
            if self.corpus.ids[index] == words or all(part in text for part in parts):
                # Place in the text itself: case folding turns some letters into several.
                ends = accumulate(len(letter.casefold()) for letter in self.corpus.texts[index])
                place = bisect_right([*ends], text.find(parts[0]))
                with self._lock:
                    entries.append(self._entry(index, max(0, place - BEFORE)))
        return {"entries": entries, "next": None}

    def _progress(self) -> Json:
        if isinstance(self.learner, SecondOpinion):
            return {"n_labelled": len(self.journal.answers), "agreement": self.agreement()}
        return asdict(self.learner.progress())

    def agreement(self) -> Json:
        """Agreement with the labels of the corpus: numbers of texts, Cohen's kappa, and pairs of labels."""
        assert self.corpus.labels is not None
        entries = [entry for entry in self.journal.answers.values() if entry.label is not None]
        second = [_name(entry.label) for entry in entries]
        first = [_name(self.corpus.labels[self._number_of[entry.id]]) for entry in entries]
        pairs = Counter(zip(first, second, strict=True)).most_common(LISTED)
        equal = sum(a == b for a, b in zip(first, second, strict=True))
        return {"n": len(entries), "equal": equal, "kappa": cohen_kappa(first, second), "pairs": pairs}

    def close(self) -> list[str]:
        """Close the journal; sentences about the work."""
        with self._lock:
            self.journal.close()
            labels = [
                _names(entry.label) for entry in self.journal.answers.values() if entry.label is not None
            ]
            lines = [f"{len(labels):,} labelled texts are in {self.journal.path}"]
            if isinstance(self.learner, SecondOpinion):
                agreement = self.agreement()
                if not agreement["n"]:
                    return [*lines, "no text has a second label yet"]
                lines.append(
                    f"agreement: {agreement['equal']:,} of {agreement['n']:,} labels, "
                    f"Cohen's kappa {agreement['kappa']:.3f}"
                )
                pairs = [(pair, count) for pair, count in agreement["pairs"] if pair[0] != pair[1]]
                return lines + [f"{first} -> {second}: {count:,}" for (first, second), count in pairs]
            if len({name for names in labels for name in names}) < 2:
                return [*lines, "a classifier needs texts of two labels; the same command goes on"]
            option = " --multilabel" if self.learner.multilabel else ""
            return [*lines, f"train on them: textsvm train {self.journal.path}{option} -o model.textsvm"]


def _names(label: Labels) -> list[str]:
    return [label] if isinstance(label, str) else label or []


def _name(label: Answer) -> str:
    """Label, or several labels in alphabetical order."""
    return label if isinstance(label, str) else ", ".join(sorted(label or ()))
