"""A labelling session: the texts, the answers on disk, and the learner that chooses the next text.

A session is used by several threads, one for each request of a page. Each text has a number of answers so
far (`seen`); an answer to a text that has been answered in another window meanwhile raises `Conflict`.
"""

from __future__ import annotations

import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import accumulate, islice
from pathlib import Path
from threading import Event, RLock, Thread
from typing import Any

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
from textsvm.apps.label.learner import Learner, Proposal
from textsvm.apps.label.stopping import cohen_kappa
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

    def __init__(self, corpus: Corpus, multilabel: bool, seed: int = 0) -> None:
        first = [each.labels for each in labelled_of(corpus)]
        if not multilabel and any(len(labels) != 1 for labels in first):
            raise InputError(f"texts of {corpus.source} have several labels, which needs --multilabel")
        counts = Counter(label for labels in first for label in labels)
        self.labels, self.multilabel = [label for label, _ in counts.most_common()], multilabel
        self._order = np.random.default_rng(seed).permutation(len(corpus)).tolist()
        self._done: set[int] = set()

    def answer(self, index: int, label: Any, at_random: bool = False) -> list[int]:
        """Note that a text is answered."""
        self._done.add(index)
        return []

    def add_label(self, label: str) -> None:
        """Add a label."""
        if label not in self.labels:
            self.labels.append(label)

    def remove_label(self, label: str) -> None:
        """Remove a label that no answer has."""
        self.labels.remove(label)

    def retract(self, index: int) -> None:
        """Undo an answer."""
        self._done.discard(index)

    def restore(self, answers: Iterable[tuple[int, Any, bool]], copies: Any = ()) -> None:
        """Note earlier answers."""
        self._done.update(index for index, _, _ in answers)

    def next(self, besides: Any = ()) -> Proposal | None:
        """The next text without an answer."""
        rest = (index for index in self._order if index not in self._done and index not in besides)
        index = next(rest, None)
        return None if index is None else Proposal(index, RANDOM)

    def refresh(self) -> None:
        """Nothing is learnt."""

    def guess(self, index: int) -> None:
        """Nothing is guessed."""


class Session:
    """Labelling of the texts of a corpus.

    Parameters
    ----------
    corpus : Corpus
        Its labels are the first opinion if `learner` is a `SecondOpinion`.
    journal : Journal
    learner : Learner or SecondOpinion

    Raises
    ------
    InputError
        If an answered text of the journal is not in the corpus, or has changed.
    """

    def __init__(self, corpus: Corpus, journal: Journal, learner: Learner | SecondOpinion) -> None:
        self.corpus, self.journal, self.learner = corpus, journal, learner
        self._lock, self._due = RLock(), Event()
        self._skipped: set[int] = set()
        self._skips: list[int] = []  # since the last answer, for `undo`
        self._chosen: dict[int, str] = {}
        self._problem: str | None = None
        self._number_of = {each: i for i, each in enumerate(corpus.ids) if each in journal.answers}
        self._check_corpus()
        for label in journal.labels:
            learner.add_label(label)
        journal.set_labels(learner.labels)
        journal.write_labels(self._text_of)
        self._restore(journal.answers[each] for each in journal.given)
        Thread(target=self._keep_learning, daemon=True).start()

    def _check_corpus(self) -> None:
        answers, path = self.journal.answers, self.journal.path
        missing = [each for each in answers if each not in self._number_of]
        changed = [
            each for each in self._number_of if text_digest(self._text_of(each)) != answers[each].digest
        ]
        for different, trouble in ((missing, "are not in"), (changed, "have changed in")):
            if different:
                some = f"{len(different):,} of {len(answers):,} labelled texts, first {different[0]!r}"
                raise InputError(
                    f"{some}, {trouble} {self.corpus.source}; give the corpus that {path} was begun with, or "
                    f"take another -o and --import {path}, which finds texts by their content"
                )

    def _text_of(self, identifier: str) -> str:
        return self.corpus.texts[self._number_of[identifier]]

    def _restore(self, answers: Iterable[JournalEntry]) -> None:
        """Tell the learner of earlier answers; a text that was answered again is no doubt any more."""
        given, copies = [], {}
        for each in answers:
            if each.copy_of in self._number_of:
                copies[self._number_of[each.id]] = self._number_of[each.copy_of]
            answer = self._number_of[each.id], each.label, each.chosen == RANDOM
            given += [answer] * (2 if len(self.journal.given.get(each.id, ())) > 1 else 1)
        self._learn(partial(self.learner.restore, given, copies))

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

    def overview(self) -> dict[str, Any]:
        """Labels, progress and the latest answers."""
        with self._lock:
            return {
                "title": printable(Path(self.corpus.source).name), "n": len(self.corpus),
                "labels": self.learner.labels, "multilabel": self.learner.multilabel,
                "progress": self._progress(), "history": self._listed(0), "events": self.journal.events,
                "undo": bool(self._skips or self.journal.answers),
                "problem": self._problem,
                "second": isinstance(self.learner, SecondOpinion),
                "relevant": getattr(self.learner, "relevant", None),
            }  # fmt: skip

    def next(self) -> dict[str, Any]:
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
        rest = (i for i, each in enumerate(self.corpus.ids) if each not in self.journal.answers)
        index = next((i for i in rest if i not in self._skipped), None)
        return None if index is None else Proposal(index, "strategy")

    def show(self, index: int, reason: str = "", whole: bool = False) -> dict[str, Any]:
        """A text that the user has picked, or with `whole` all of a long text shown for `reason`."""
        with self._lock:
            self._chosen.setdefault(self._checked(index), USER)
            return {"text": self._view(index, reason, whole), "state": self.overview()}

    def _checked(self, index: int) -> int:
        if not 0 <= index < len(self.corpus):
            raise InputError(f"there is no text {index}")
        return index

    def _view(self, index: int, reason: str, whole: bool = False) -> dict[str, Any]:
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

    def guess(self, index: int, whole: bool = False) -> dict[str, Any]:
        """The machine's guess, and the pieces of the shown text; no other request waits for it."""
        shown = self.corpus.texts[self._checked(index)][: WHOLE if whole else SHOWN]
        guess, symbols = self.learner.guess(index), np.zeros(len(shown))
        for start, end, value in guess.spans if guess else []:
            symbols[start:end] = value
        pieces = [(printable(piece), step) for piece, step in runs(shown, symbols)]
        return {"guess": dict(guess.scores) if guess else None, "pieces": pieces}

    def answer(self, index: int, seen: int, label: Labels) -> dict[str, Any]:
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
        copies = [each for each in labelled if self.corpus.ids[each] not in self.journal.separated]
        answers = [replace(self._noted(index, label, chosen), part=before.part if before else None)]
        answers += [self._noted(each, label, COPY, identifier) for each in copies]
        try:
            self.journal.add(answers, self._text_of)
        except (OSError, InputError):
            self._follow([index, *labelled])
            raise
        self._follow([each for each in labelled if each not in copies])
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

    def skip(self, index: int) -> dict[str, Any]:
        """Show another text; this text comes again after all others."""
        with self._lock:
            self._skipped.add(self._checked(index))
            self._skips.append(index)
            return self.next()

    def undo(self, events: int) -> dict[str, Any]:
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
            at, answer = self.journal.given[str(original)][-1]
            index = self._number_of[answer.id]
            self._chosen[index] = answer.chosen
            self._withdraw([answer.id, *self._copies_of(answer.id, at)])
            return {**self.show(index, answer.chosen), "skipped": False}

    def separate(self, index: int) -> dict[str, Any]:
        """Withdraw the answers of the near-copies of an answered text."""
        with self._lock:
            copies = self._copies_of(self.corpus.ids[self._checked(index)])
            self._withdraw([each for each in copies for _ in self.journal.given[each]])
            return {"separated": len(copies), "state": self.overview()}

    def _copies_of(self, identifier: str, after: int = 0) -> list[str]:
        """Near-copies that have the label of a text, by answers after a place in the journal."""
        latest = (given[-1] for given in self.journal.given.values())
        return [each.id for at, each in latest if each.copy_of == identifier and at > after]

    def _withdraw(self, ids: list[str]) -> None:
        self._skips.clear()
        self.journal.withdraw(ids, self._text_of)
        self._follow(self._number_of[each] for each in dict.fromkeys(ids))
        self._due.set()

    def add_label(self, label: str) -> dict[str, Any]:
        """Add a label."""
        label = " ".join(printable(label).split())
        if not 0 < len(label) <= LABEL or len(self.learner.labels) >= LABELS:
            raise InputError(f"a label has 1 to {LABEL} characters, and there are at most {LABELS} labels")
        with self._lock:
            self.learner.add_label(label)
            self.journal.set_labels(self.learner.labels)
            return {"state": self.overview()}

    def remove_label(self, label: str) -> dict[str, Any]:
        """Remove a label that no text has."""
        with self._lock:
            if label not in self.learner.labels or label == getattr(self.learner, "relevant", None):
                raise InputError(f"{label!r} is not a label that can be removed")
            n = sum(label in _names(each.label) for each in self.journal.answers.values())
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
        wanted = {text_digest(each.text): each for each in texts}
        answers = []
        for index, text in enumerate(self.corpus.texts):
            each = wanted.get(text_digest(text))
            if each is not None and self.corpus.ids[index] not in self.journal.answers:
                part = each.part if each.part in ("test", COPY) else None
                answers.append(replace(self._noted(index, self._imported(each), IMPORT), part=part))
        with self._lock:
            self._restore(answers)
            self.journal.set_labels(self.learner.labels)
            self.journal.add(answers, self._text_of)
        return len(answers)

    def _imported(self, each: LabelledText) -> Labels:
        several, n = self.learner.multilabel, len(each.labels)
        if n != 1 and not several:
            raise InputError(f"the text {each.id!r} has {n} labels; several need --multilabel")
        return each.labels if several else each.labels[0]

    # Overviews

    def history(self, skip: int) -> dict[str, Any]:
        """Some of the answers, the latest first, after leaving out `skip`."""
        with self._lock:
            return {"history": self._listed(max(0, skip))}

    def _listed(self, skip: int) -> list[dict[str, Any]]:
        latest = islice(reversed(self.journal.answers.values()), skip, skip + LISTED)
        return [self._entry(self._number_of[each.id]) | {"copy": each.copy_of is not None} for each in latest]

    def _entry(self, index: int, start: int = 0) -> dict[str, Any]:
        """A line of a list: the beginning of a text, or the words from `start` on, and its label."""
        answer = self.journal.answers.get(self.corpus.ids[index])
        text = self.corpus.texts[index][start : start + SNIPPET]
        if start:
            text = "… " + text[text.find(" ", 0, BEFORE) + 1 :]
        return {
            "index": index, "text": " ".join(printable(text).split()), "answered": answer is not None,
            "label": answer.label if answer else None,
        }  # fmt: skip

    def search(self, words: str, start: int = 0) -> dict[str, Any]:
        """Texts with all words, from the text `start` on; `next` is where the next search begins, or None."""
        wanted, end, entries = words.casefold().split(), time.monotonic() + SECONDS, list[dict[str, Any]]()
        for index in range(max(0, start), len(self.corpus) if wanted else 0):
            if len(entries) == LISTED or time.monotonic() > end:
                return {"entries": entries, "next": index}
            text = self.corpus.texts[index].casefold()
            if self.corpus.ids[index] == words or all(word in text for word in wanted):
                at = _unfolded(self.corpus.texts[index], text.find(wanted[0]))
                with self._lock:
                    entries.append(self._entry(index, max(0, at - BEFORE)))
        return {"entries": entries, "next": None}

    def _progress(self) -> dict[str, Any]:
        if isinstance(self.learner, SecondOpinion):
            return {"n_labelled": len(self.journal.answers), "agreement": self.agreement()}
        return asdict(self.learner.progress())

    def agreement(self) -> dict[str, Any]:
        """Agreement with the labels of the corpus: numbers of texts, Cohen's kappa, and pairs of labels."""
        assert self.corpus.labels is not None
        labels = [each for each in self.journal.answers.values() if each.label is not None]
        second = [_name(each.label) for each in labels]
        first = [_name(self.corpus.labels[self._number_of[each.id]]) for each in labels]
        pairs = Counter(zip(first, second, strict=True)).most_common(LISTED)
        equal = sum(a == b for a, b in zip(first, second, strict=True))
        return {"n": len(labels), "equal": equal, "kappa": cohen_kappa(first, second), "pairs": pairs}

    def close(self) -> list[str]:
        """Close the journal; sentences about the work."""
        with self._lock:
            self.journal.close()
            labels = sum(bool(each.label) for each in self.journal.answers.values())
            lines = [f"{labels:,} labelled texts are in {self.journal.path}"]
            if isinstance(self.learner, SecondOpinion):
                return lines + _of_agreement(self.agreement())
            given = {name for each in self.journal.answers.values() for name in _names(each.label)}
            if len(given) < 2:
                return [*lines, "a classifier needs texts of two labels; the same command goes on"]
            option = " --multilabel" if self.learner.multilabel else ""
            return [*lines, f"train on them: textsvm train {self.journal.path}{option} -o model.textsvm"]


def _unfolded(text: str, at: int) -> int:
    """Place in a text of a place in the text with folded case, where some letters become several."""
    ends = accumulate(len(each.casefold()) for each in text)
    return next((place for place, end in enumerate(ends) if end > at), 0)


def _of_agreement(agreement: dict[str, Any]) -> list[str]:
    n, equal, kappa = (agreement[name] for name in ("n", "equal", "kappa"))
    if not n:
        return ["no text has a second label yet"]
    pairs = [pair for pair in agreement["pairs"] if pair[0][0] != pair[0][1]]
    different = [f"{first} -> {second}: {count:,}" for (first, second), count in pairs]
    return [f"agreement: {equal:,} of {n:,} labels, Cohen's kappa {kappa:.3f}", *different]


def _names(label: Labels) -> list[str]:
    return [label] if isinstance(label, str) else label or []


def _name(label: Any) -> str:
    """Label, or several labels in alphabetical order."""
    return label if isinstance(label, str) else ", ".join(sorted(label))
