"""`textsvm label`: answers on disk, files of other programs, access to the page."""

import asyncio
import csv
import json
import os
import random
import re
import subprocess
import sys
import threading
import time
from functools import partial
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from unicodedata import category
from unittest.mock import Mock

import hostile_pages
import pytest
from command import run, works
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import raising, refuses

from textsvm import InputError
from textsvm.apps.label import files
from textsvm.apps.label.files import (
    FORMATS,
    Journal,
    JournalEntry,
    LabelledText,
    names_of,
    read_labelled,
    text_digest,
)
from textsvm.apps.label.learner import Guess, Learner, Progress, Proposal
from textsvm.apps.label.session import SHOWN, Conflict, Session
from textsvm.cli.console import Console
from textsvm.readers.corpus import Corpus
from textsvm.reporting.tables import restored
from textsvm.runtime.http import HttpRequest

label = import_module("textsvm.apps.label.commands")
ROOT = Path(__file__).resolve().parent.parent
MESSAGES = ROOT / "corpora/samples/messages.csv"
ONE = False


def corpus_of(texts, labels=None):
    names = [f"t{i}" for i in range(len(texts))]
    return Corpus(names, list(texts), labels, [None] * len(texts), source="texts.csv")


class InOrder:
    """A learner that shows the texts in their order, and takes texts with the same first word for copies."""

    relevant = None

    def __init__(self, corpus):
        self.labels, self.multilabel, self.corpus = ["spam", "ham"], False, corpus
        self.labelled, self.restored = {}, []

    def add_label(self, label):
        self.labels += [] if label in self.labels else [label]

    def remove_label(self, label):
        self.labels.remove(label)

    def answer(self, index, label, at_random=False):
        new = index not in self.done
        self.labelled[index] = label
        if label is None or not new:
            return []
        word, texts = self.corpus.texts[index].split()[0], self.corpus.texts
        copies = [i for i, text in enumerate(texts) if text.split()[0] == word and i not in self.done]
        self.labelled.update(dict.fromkeys(copies, label))
        return copies

    @property
    def done(self):
        return self.labelled.keys()

    def retract(self, index):
        del self.labelled[index]

    def restore(self, answers, copies=()):
        self.restored = list(answers)
        for _, label, _ in self.restored:
            self.add_label(label) if label else None
        self.labelled.update({index: label for index, label, _ in self.restored})

    def next(self, skipped=()):
        rest = (i for i in range(len(self.corpus)) if i not in self.done and i not in skipped)
        index = next(rest, None)
        return None if index is None else Proposal(index, "strategy")

    def guess(self, index):
        return Guess([("ham", 0.75), ("spam", 0.25)], [(0, 3, 1.0), (4, 5, -0.5)])

    def progress(self):
        return Progress(len(self.done), 0, float("nan"), (0.0, 1.0), [], None)

    def refresh(self):
        pass


TEXTS = ["win cash now", "lunch at noon", "win a prize", "see you soon", "dinner at eight"]


@pytest.fixture
def session(tmp_path):
    corpus = corpus_of(TEXTS, ["spam", "ham", "spam", "ham", "ham"])
    journal = Journal(tmp_path / "labels.jsonl", ONE)
    yield Session(corpus, journal, InOrder(corpus))
    journal.close()


def labels_in(path):
    return {row["id"]: row["label"] for row in map(json.loads, path.read_text("utf-8").splitlines())}


# Answers on disk


def test_empty_files_are_left_out(tmp_path):
    for name, text in (("a", "one"), ("b", ""), ("c", " \n"), ("d", "two")):
        (tmp_path / f"{name}.txt").write_text(text)
    corpus, _ = label._read(Console(True), [tmp_path], label.TextReading(), label.LabellingOptions())
    assert [text.strip() for text in corpus.texts] == ["one", "two"]
    assert corpus.ids == ["a.txt", "d.txt"]


def test_wrong_options_leave_no_file(tmp_path):
    (texts := tmp_path / "texts").mkdir()
    for i in range(3):
        (texts / f"{i}.txt").write_text(f"text {i}")
    place, inside, missing = tmp_path / "l.jsonl", texts / "l.jsonl", tmp_path / "missing.csv"
    for options, message in (
        (("-o", place, "--labels", "a,b", "--relevant", "c"), "--relevant c is not one of --labels a,b"),
        (("-o", place, "--labels", "a,b", "--strategy", "x"), "--strategy x is not one of mixture"),
        (("-o", place, "--label", "a,b"), "--labels has the labels"),
        (("-o", place, "--import", missing), "missing.csv"),
        (("-o", inside, "--labels", "a,b"), "is in the folder of texts"),
    ):
        result = run("label", texts, *options)
        assert result.returncode in (1, 2)
        assert message in result.stderr.decode()
    assert [path.name for path in tmp_path.iterdir()] == ["texts"]
    assert len([*texts.iterdir()]) == 3


def test_every_answer_is_on_disk_before_the_next_text(session, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(os.fstat(handle).st_size))
    text = session.next()["text"]
    answer = session.answer(text["index"], text["seen"], "spam")
    assert synced == [session.journal.journal_path.stat().st_size]
    assert (answer["copies"], answer["text"]["id"]) == (1, "t1")
    assert labels_in(session.journal.path) == {"t0": "spam", "t2": "spam"}


def test_a_text_is_shown_before_its_guess(session, monkeypatch):
    begun, end = threading.Event(), threading.Event()

    def slow(learner, index):
        begun.set()
        assert end.wait(10)
        return Guess([("ham", 0.75), ("spam", 0.25)], [(0, 3, 1.0), (4, 5, -0.5)])

    monkeypatch.setattr(InOrder, "guess", slow)
    guesses, text = [], session.next()["text"]
    assert (text["guessed"], text["pieces"]) == (True, [("win cash now", 0)])
    thread = threading.Thread(target=lambda: guesses.append(session.guess(0)))
    thread.start()
    assert begun.wait(10)
    assert session.answer(0, 0, "spam")["text"]["index"] == 1  # although the guess is awaited
    end.set()
    thread.join()
    assert guesses[0]["guess"] == {"ham": 0.75, "spam": 0.25}
    assert [piece for piece, _ in guesses[0]["pieces"]] == ["win", " ", "c", "ash now"]
    assert not session.show(1, "random")["text"]["guessed"]


def test_each_separated_copy_is_answered_by_itself(tmp_path):
    corpus = corpus_of(["win cash", "win a prize", "win it", "noon"])
    session = Session(corpus, Journal(tmp_path / "labels.jsonl", ONE), InOrder(corpus))
    assert session.answer(0, 0, "spam")["copies"] == 2
    session.separate(0)
    assert session.answer(1, 2, "ham")["copies"] == 0
    assert labels_in(session.journal.path) == {"t0": "spam", "t1": "ham"}
    again, _ = reopened(session)
    assert again.next()["text"]["id"] == "t2"
    again.answer(2, 2, "ham")
    assert labels_in(session.journal.path) == {"t0": "spam", "t1": "ham", "t2": "ham"}
    again.journal.close()


def test_stale_answers_are_conflicts(session):
    before = session.journal.events
    session.answer(0, 0, "spam")
    with pytest.raises(Conflict, match="another window"):
        session.answer(0, 0, "ham")
    with pytest.raises(Conflict, match="another window"):
        session.answer(2, 0, "ham")  # a copy, answered with its original
    with pytest.raises(Conflict, match="newer answer"):
        session.undo(before)
    assert labels_in(session.journal.path) == {"t0": "spam", "t2": "spam"}


def test_skipped_texts_come_last(session):
    shown = [session.next()["text"]["index"]]
    shown += [session.skip(index)["text"]["index"] for index in range(4)]
    assert shown == [0, 1, 2, 3, 4]
    assert session.skip(4)["text"]["index"] == 0
    session.answer(0, 0, "spam")
    assert session.undo(session.journal.events)["text"]["index"] == 0  # not a text that was skipped before


def test_a_label_without_texts_can_be_removed(session):
    session.add_label("spma")
    session.answer(0, 0, "spma")
    refuses(r"'spma' has labelled texts \(2\); give them another", session.remove_label, "spma")
    session.answer(0, 1, "spam")
    session.separate(0)
    assert session.remove_label("spma")["state"]["labels"] == ["spam", "ham"]
    refuses("'spma' is not a label that can be removed", session.remove_label, "spma")
    again, learner = reopened(session)
    assert again.journal.labels == learner.labels == ["spam", "ham"]
    # keys keep their labels, and a removed label stays removed
    assert again.journal.with_labels(["new", "spma", "ham"]) == ["spam", "ham", "new"]
    again.undo(again.journal.events)  # the earlier label comes back
    assert labels_in(session.journal.path) == {"t0": "spma"}
    again.journal.close()
    assert "spma" in Journal(session.journal.path, ONE).labels


def reopened(session):
    session.journal.close()
    learner = InOrder(session.corpus)
    return Session(session.corpus, Journal(session.journal.path, ONE), learner), learner


def test_a_new_start_goes_on(session):
    session.add_label("phishing ")
    session.answer(0, 0, "spam")
    session.answer(1, 0, "ham")
    session.answer(3, 0, None)
    session.answer(1, 1, "phishing")
    again, learner = reopened(session)
    assert learner.labels == ["spam", "ham", "phishing"]
    assert learner.restored == [  # in the order of the first answers
        (0, "spam", False), (2, "spam", False), (1, "phishing", False), (1, "phishing", False),
        (3, None, False),
    ]  # fmt: skip
    assert again.next()["text"]["index"] == 4
    assert labels_in(session.journal.path) == {"t0": "spam", "t2": "spam", "t1": "phishing"}
    again.journal.close()


def test_a_correction_after_a_new_start_takes_copies_along(tmp_path):
    texts = [f"word{i} other{i % 7} thing{i % 5}" for i in range(30)] + ["WORD0 other0 thing0"]

    def started():
        journal = Journal(tmp_path / "labels.jsonl", ONE)
        return Session(corpus_of(texts), journal, Learner(texts, ["a", "b"])), journal

    first, journal = started()
    first.answer(0, 0, "a")
    first.answer(3, 0, "b")
    journal.close()
    again, journal = started()
    for labels in ("b", "a"):
        again.answer(0, 1, "b") if labels == "b" else again.undo(journal.events)
        assert [journal.answers[name].label for name in ("t0", "t30")] == [labels, labels]
    journal.close()


def eventually(condition):
    for _ in range(500):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("did not happen within 5 seconds")


def test_labelling_goes_on_if_learning_fails(session, monkeypatch):
    error = InputError("probabilities need texts of two classes")
    monkeypatch.setattr(InOrder, "refresh", raising(error))
    session.answer(0, 0, "spam")
    eventually(lambda: session.overview()["problem"] == str(error))
    monkeypatch.setattr(InOrder, "refresh", lambda self: None)
    session.answer(1, 0, "ham")
    eventually(lambda: session.overview()["problem"] is None)


def test_a_new_start_is_not_refused_if_learning_fails(session, set_values, capsys):
    failing = raising(ZeroDivisionError("division by zero"))
    session.answer(0, 0, "spam")
    set_values(InOrder, restore=failing, next=failing)
    again, _ = reopened(session)
    shown = again.next()
    assert (shown["text"]["index"], shown["state"]["problem"]) == (1, "division by zero")
    assert again.skip(1)["text"]["index"] == 3
    assert "ZeroDivisionError" in capsys.readouterr().err
    again.journal.close()


@pytest.mark.parametrize("size", [1, 20, 60])
def test_a_cut_line_is_removed(session, size):
    session.answer(1, 0, "ham")
    before = [path.read_bytes() for path in (session.journal.journal_path, session.journal.path)]
    session.answer(3, 0, "ham")
    session.journal.close()
    cut = session.journal.journal_path.read_bytes()[: len(before[0]) + size]
    session.journal.journal_path.write_bytes(cut)
    refuses("has an answer to 't3'", Journal, session.journal.path, ONE)
    assert session.journal.journal_path.read_bytes() == cut
    session.journal.path.write_bytes(before[1])  # the crash came before the file of labels was written
    again, _ = reopened(session)
    assert again.journal.repaired
    assert session.journal.journal_path.read_bytes() == before[0]
    assert labels_in(session.journal.path) == {"t1": "ham"}
    again.journal.close()


def test_damage_in_the_middle_is_an_error(session):
    session.answer(1, 0, "ham")
    session.journal.close()
    lines = session.journal.journal_path.read_text("utf-8").splitlines()
    for bad in ("{", "[]", "3", '{"id": "t1"}', "\x00" * 20, lines[-1], lines[0], "[" * 100_000):
        session.journal.journal_path.write_text("\n".join([*lines, bad, lines[-1]]) + "\n", "utf-8")
        refuses(r"line 4 of .* is damaged", Journal, session.journal.path, ONE)


def state_of(path):
    """All that a journal tells a session; None if it is refused with file and line."""
    try:
        journal = Journal(path, ONE)
    except InputError as error:
        message = r"line \d+ of \S+/labels\.jsonl\.journal|labels\.jsonl has an answer to"
        return None if re.search(message, str(error)) else str(error)
    journal.close()
    names = "answers history revisions separated labels events _removed _n_lines"
    return {name: vars(journal)[name] for name in names.split()}


def test_what_a_full_disk_left_is_removed_before_the_next_answer(session, monkeypatch):
    full = raising(OSError(28, "No space left on device"))

    class Full:
        """A file that cannot be synchronised, nor cut."""

        def __init__(self, file):
            self.write, self.fileno = file.write, file.fileno
            calls = iter((file.truncate, full))
            self.truncate = lambda size: next(calls)(size)

    file = session.journal._file
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        patch.setattr(session.journal, "_file", Full(file))
        refuses("No space left", session.answer, 1, 0, "ham")
    session.answer(0, 0, "spam")
    session.journal.close()
    answers = state_of(session.journal.path)["answers"]
    assert {name: entry.label for name, entry in answers.items()} == {"t0": "spam", "t2": "spam"}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the shim needs Linux")
def test_faults_at_every_call_that_writes_lose_no_acknowledged_answer():
    command = [sys.executable, ROOT / "tests" / "label_kills.py"]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert done.returncode == 0, done.stderr
    assert "no acknowledged answer lost" in done.stdout


@pytest.fixture
def written(session):
    """Path of labels, content of the journal after all kinds of events, and its state."""
    session.answer(1, 0, "ham")
    session.answer(0, 0, "spam")
    session.add_label("müll")
    session.answer(0, 1, "müll")
    session.answer(3, 0, None)
    session.undo(session.journal.events)
    session.journal.close()
    return session.journal.path, session.journal.journal_path.read_bytes(), state_of(session.journal.path)


def test_every_flipped_bit_of_a_journal_is_noticed_or_without_effect(written):
    path, content, state = written
    journal = path.with_name(path.name + ".journal")
    kept = 0
    for bit in {*range(0, 8 * len(content), 9), *range(8 * len(content) - 200, 8 * len(content))}:
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        journal.write_bytes(flipped)
        found = state_of(path)
        assert found in (None, state), bit
        assert journal.read_bytes() == (bytes(flipped) if found is None else content), bit
        kept += found is not None
    assert kept <= 8  # the last line's end, which is written again


def test_truncated_duplicated_swapped_and_lost_lines_are_noticed(written):
    path, content, state = written
    journal = path.with_name(path.name + ".journal")
    lines = content.splitlines(keepends=True)
    changed = max(i for i, line in enumerate(lines) if b'"t0"' in line and "müll".encode() in line)
    labelled = len(b"".join(lines[: changed + 1]))  # the rest is an unsure answer and its withdrawal
    for size in range(len(content)):
        journal.write_bytes(content[:size])
        found = state_of(path)
        assert (found is None) == (size < labelled - 1), size
        assert found is None or found["answers"].items() >= state["answers"].items(), size
    journal.write_bytes(content[:-1])
    assert state_of(path) == state
    for i in range(len(lines)):
        for other in ([*lines[:i], *lines[i + 1 :]], [*lines[: i + 1], *lines[i:]]):
            journal.write_bytes(b"".join(other))
            assert state_of(path) is None or (i == len(lines) - 1 and len(other) < len(lines))
        for k in range(i):
            swapped = lines[:]
            swapped[i], swapped[k] = swapped[k], swapped[i]
            journal.write_bytes(b"".join(swapped))
            assert state_of(path) is None
    journal.write_bytes(b"")
    assert state_of(path) is None


def test_a_second_process_is_refused(session):
    refuses("another `textsvm label`", Journal, session.journal.path, ONE)


def test_another_corpus_is_recognised(session):
    session.answer(1, 0, "ham")
    session.journal.close()
    for texts, trouble in (
        (TEXTS[:1], "are not in"),
        ([TEXTS[0], "lunch at one", *TEXTS[2:]], "have changed in"),
    ):
        corpus = corpus_of(texts)
        journal = Journal(session.journal.path, ONE)
        refuses(f"1 of 1 labelled texts, first 't1', {trouble}", Session, corpus, journal, InOrder(corpus))
        journal.close()
    more = corpus_of([*TEXTS, "another"])
    journal = Journal(session.journal.path, ONE)
    assert Session(more, journal, InOrder(more)).next()["text"]["index"] == 0
    journal.close()


def test_other_options_and_a_missing_journal(session):
    session.answer(1, 0, "ham")
    session.journal.close()
    refuses("begun without --multilabel", Journal, session.journal.path, True)
    session.journal.journal_path.unlink()
    refuses(r"without its journal, labels.jsonl.journal", Journal, session.journal.path, ONE)


def test_a_full_disk_keeps_both_files_whole(session, monkeypatch):
    session.answer(1, 0, "ham")
    before = session.journal.journal_path.read_bytes()

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", Mock(side_effect=OSError(28, "No space left on device")))
        for action in (
            partial(session.answer, 0, 0, "spam"),
            partial(session.answer, 1, 1, "spam"),
            partial(session.undo, session.journal.events),
        ):
            refuses("No space left", action)
    assert session.journal.journal_path.read_bytes() == before
    assert session.learner.labelled == {1: "ham"}
    session.answer(0, 0, "spam")
    assert labels_in(session.journal.path) == {"t1": "ham", "t0": "spam", "t2": "spam"}
    session.undo(session.journal.events)
    assert session.learner.labelled == {1: "ham"}


def test_a_file_of_labels_that_cannot_be_written_is_written_later(session, monkeypatch):
    full = raising(OSError(28, "No space left on device"))
    session.answer(1, 0, "ham")
    with monkeypatch.context() as patch:
        patch.setattr("textsvm.apps.label.files.replacing", full)
        session.answer(0, 0, "spam")
        session.separate(0)
        assert labels_in(session.journal.path) == {"t1": "ham", "t0": "spam", "t2": "spam"}
        for action in (partial(session.export, ".csv"), session.journal.close):
            with pytest.raises(OSError, match="No space"):
                action()
    assert [row["id"] for row in csv.DictReader(session.export(".csv")["content"].splitlines())] == [
        "t1", "t0"
    ]  # fmt: skip
    session.journal.close()
    assert labels_in(session.journal.path) == {"t1": "ham", "t0": "spam"}


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from("auucs"), st.integers(0, 4), st.sampled_from(["spam", "ham", None])),
        max_size=30,
    )
)
def test_files_follow_any_sequence_of_actions(tmp_path_factory, steps):
    corpus, path = corpus_of(TEXTS), tmp_path_factory.mktemp("labels") / "labels.jsonl"
    session = Session(corpus, Journal(path, ONE), InOrder(corpus))
    for action, index, label in steps:
        if action == "a":
            session.answer(index, session.journal.revisions[f"t{index}", None], label)
        elif action == "u" and session.journal.answers:
            session.undo(session.journal.events)
        elif action == "c":
            session.separate(index)
        elif action == "s":
            session.skip(index)
    expected = {name: each.label for name, each in session.journal.answers.items()}
    assert labels_in(path) == {name: label for name, label in expected.items() if label}
    again, _ = reopened(session)
    assert {name: each.label for name, each in again.journal.answers.items()} == expected
    assert list(again.journal.answers) == list(expected)
    assert {f"t{index}": label for index, label in session.learner.labelled.items()} == expected
    assert again.journal.revisions == session.journal.revisions
    again.journal.close()


def test_parts_for_an_honest_test(tmp_path):
    path, texts = tmp_path / "labels.jsonl", dict(zip("abcde", TEXTS, strict=True))
    journal = Journal(path, ONE)

    def answer(name, chosen, copy_of=None):
        return JournalEntry(name, text_digest(texts[name]), "spam", chosen, copy_of)

    journal.add([answer("a", "random"), answer("b", "copy", "a")], texts.get)
    journal.add([answer("c", "strategy"), answer("d", "copy", "c")], texts.get)
    parts = [json.loads(line)["part"] for line in path.read_text("utf-8").splitlines()]
    assert parts == ["test", "copy", "train", "train"]
    journal.add([answer("b", "copy")], texts.get)  # answered by itself
    journal.withdraw(["d"], texts.get)
    journal.add([answer("d", "random")], texts.get)
    rows = map(json.loads, path.read_text("utf-8").splitlines())
    assert {row["id"]: row["part"] for row in rows} == {"a": "test", "b": "copy", "c": "copy", "d": "test"}
    journal.close()


def test_near_copies_of_a_test_text_are_no_test(session, monkeypatch):
    monkeypatch.setattr(session.learner, "next", lambda skipped=(): Proposal(0, "random"))
    assert session.next()["text"]["reason"] == "random"
    session.answer(0, 0, "spam")
    chosen = {name: (entry.chosen, entry.is_test) for name, entry in session.journal.answers.items()}
    assert chosen == {"t0": ("random", True), "t2": ("copy", False)}
    rows = map(json.loads, session.journal.path.read_text("utf-8").splitlines())
    assert {row["id"]: row["part"] for row in rows} == {"t0": "test", "t2": "copy"}


def labelled_with_none(folder):
    """File of labels of 40 texts with two, one or no label."""
    words = {"spam": "win cash prize", "offer": "buy half price"}
    given = [sorted(words)[: i % 3] if i % 4 else [] for i in range(40)]
    texts = [
        " ".join([f"message {i}", *(words[label] for label in labels)]) for i, labels in enumerate(given)
    ]
    corpus, path = corpus_of(texts), folder / "labels.jsonl"
    journal = Journal(path, True)
    session = Session(corpus, journal, Learner(texts, sorted(words), multilabel=True))
    for index, labels in enumerate(given):
        session.answer(index, journal.revisions[corpus.ids[index], None], labels)
    assert session.close()[0].startswith("40 labelled texts")
    return path, dict(zip(corpus.ids, given, strict=True))


def test_texts_without_a_label_are_in_the_file_and_training_examples(tmp_path):
    path, given = labelled_with_none(tmp_path)
    assert labels_in(path) == given
    works("train", path, "--multilabel", "-o", tmp_path / "model.textsvm")
    rows = run("predict", tmp_path / "model.textsvm", path, "--text", "text").stdout.decode().splitlines()
    assert {row["id"]: sorted(row["labels"]) for row in map(json.loads, rows)} == given


def test_search_and_long_texts(session):
    assert [each["index"] for each in session.search("WIN", 0)["entries"]] == [0, 2]
    assert session.search("at noon", 0)["entries"][0]["text"] == "lunch at noon"
    assert session.search("t3", 0)["entries"][0]["index"] == 3
    ends = {
        "北京" * 40 + "上海": "上海",
        "İẞ" * 60 + " cash": "cash",
        "a " * 60 + "cash " + "b " * 60: "cash",
    }
    session.corpus = corpus_of(ends)
    for index, word in enumerate(ends.values()):
        snippet = {each["index"]: each["text"] for each in session.search(word)["entries"]}[index]
        assert snippet.startswith("… ")
        assert word in snippet
        assert len(snippet) <= 92
    assert session.search("", 0) == {"entries": [], "next": None}
    session.corpus = corpus_of(["win " + "x" * SHOWN] * 100)
    first = session.search("win", 0)
    assert (len(first["entries"]), first["next"]) == (30, 30)
    view = session.show(50)["text"]
    assert (view["hidden"], len("".join(piece for piece, _ in view["pieces"]))) == (4, SHOWN)
    assert session.show(50, "", True)["text"]["hidden"] == 0


# Files of other programs


def controls(text: str) -> int:
    """Control characters of a text; a file of many is binary."""
    return sum(category(symbol) == "Cc" and symbol not in "\t\n" for symbol in text)


NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8).filter(
    lambda name: name.strip() == name and ";" not in name and name not in ("NaN", "nan")
)
BODIES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(
    lambda text: text.strip() and not {"\r", "\x00"} & {*text} and controls(text) < 2
)


@pytest.mark.parametrize("suffix", files.FORMATS)
@pytest.mark.parametrize("several", [False, True])
def test_round_trip(suffix, several, write):
    @settings(max_examples=30, deadline=None)
    @given(
        st.lists(
            st.tuples(BODIES, st.lists(NAMES, min_size=1, max_size=3, unique=True)), min_size=1, max_size=5
        )
    )
    def check(rows):
        texts = [
            LabelledText(f"id {i}", text, labels if several else labels[0], "test" if i else "train")
            for i, (text, labels) in enumerate(rows)
        ]
        path = write(f"file{suffix}", FORMATS[suffix](texts))
        options = {"label_separator": ";"} if several and suffix == ".csv" else {}
        back = read_labelled(path, **options)
        assert [(each.id, len(names_of(each.label)), each.part) for each in back] == [
            (each.id, len(names_of(each.label)), each.part) for each in texts
        ]
        for after, before in zip(back, texts, strict=True):
            cells = zip(
                (after.text, ";".join(names_of(after.label))),
                (before.text, ";".join(names_of(before.label))),
                strict=True,
            )
            # A table for spreadsheets has an apostrophe before a formula; `with_restored` finds such texts.
            assert all(cell == text or (suffix == ".csv" and restored(cell) == text) for cell, text in cells)

    check()


@pytest.mark.parametrize("labels", [["=", "0"], ["-", "'=a"], ["=a", "=b"], ["a", "'=b"]])
def test_round_trip_of_several_labels_that_are_a_formula_together(labels, write):
    """The apostrophe stands before a cell, which may be a formula although no label is."""
    path = write("file.csv", FORMATS[".csv"]([LabelledText("id 0", "win cash", labels)]))
    assert files.with_restored(read_labelled(path, label_separator=";"))[-1].label == labels


def test_label_studio_with_other_fields_and_several_controls(tmp_path):
    path = tmp_path / "file.json"

    def read(data, controls, **options):
        result = [{"from_name": name, "value": {"choices": [name + "!"]}} for name in controls]
        path.write_text(json.dumps([{"data": data, "annotations": [{"result": result}]}]), "utf-8")
        return [(each.id, each.text, each.label) for each in read_labelled(path, **options)]

    assert read({"id": "a1", "body": "hello"}, "x") == [("a1", "hello", "x!")]
    assert read({"id": "a1", "url": "http://a", "body": "hello"}, "x") == [("a1", "hello", "x!")]
    unusual = {"id": "a1", "url": "http://a", "words": "hello"}
    refuses(r"--text.* url, words", read, unusual, "x")
    assert read(unusual, "x", text="words") == [("a1", "hello", "x!")]
    refuses(r"labels of x and y; .* --label", read, {"text": "hello"}, "xy")
    assert read({"text": "hello"}, "xy", label="y") == [("1", "hello", "y!")]


@pytest.mark.parametrize("columns", [{}, {"text": ["body"]}, {"text": ["body"], "label": "label"}])
def test_import_of_a_table_with_several_labels(tmp_path, columns):
    corpus, path = tmp_path / "texts.csv", tmp_path / "in.csv"
    corpus.write_text("body\nwin cash\nlunch\n")
    rows = [LabelledText("9", "win cash", ["a", "b"]), LabelledText("8", "lunch", ["a"])]
    path.write_text(FORMATS[".csv"](rows))
    session = label._session(
        Console(True), [corpus], label.LabellingOptions(output=tmp_path / "l.jsonl", multilabel=True),
        label.ExchangeOptions(import_=path), label.TextReading(**columns),
    )  # fmt: skip
    session.close()
    assert list(labels_in(tmp_path / "l.jsonl").values()) == [["a", "b"], ["a"]]


def test_import(session):
    texts = [
        LabelledText("x", "lunch at noon", ["ham"]), LabelledText("y", "unknown", "ham"),
        LabelledText("z", "see you soon", "other", "test"), LabelledText("w", "win cash now", "ham"),
    ]  # fmt: skip
    session.answer(0, 0, "spam")
    assert session.add_labelled(texts) == 2
    assert labels_in(session.journal.path) == {"t0": "spam", "t2": "spam", "t1": "ham", "t3": "other"}
    rows = map(json.loads, session.journal.path.read_text("utf-8").splitlines())
    assert ("t3", "test", "import") in [(row["id"], row["part"], row["chosen"]) for row in rows]
    assert (3, "other", False) in session.learner.restored  # not drawn at random from these texts
    assert session.add_labelled([LabelledText("v", "dinner at eight", "ham", "copy")]) == 1
    session.answer(4, 1, "spam")
    rows = map(json.loads, session.journal.path.read_text("utf-8").splitlines())
    assert ("t4", "spam", "copy") in [(row["id"], row["label"], row["part"]) for row in rows]
    session.undo(session.journal.events)
    session.undo(session.journal.events)
    with pytest.raises(InputError, match="2 labels; several need --multilabel"):
        session.add_labelled([LabelledText("x", "dinner at eight", ["a", "b"])])


def test_export_and_training(tmp_path):
    with open(MESSAGES, encoding="utf-8") as table:
        rows = list(csv.DictReader(table))[:60]
    journal = Journal(tmp_path / "labels.jsonl", ONE)
    texts = {str(i): row["text"] for i, row in enumerate(rows)}
    for i, row in enumerate(rows):
        chosen = "random" if i % 5 == 0 else "strategy"
        journal.add([JournalEntry(str(i), text_digest(row["text"]), row["label"], chosen)], texts.get)
    journal.close()
    for command in (
        "train labels.jsonl --part train -o m.textsvm",
        "evaluate m.textsvm labels.jsonl --part test",
        "label labels.jsonl --export tasks.json",
        "label tasks.json --export labels.csv",
        "label labels.csv --export labels2.jsonl",
        "train labels2.jsonl -o m2.textsvm",
    ):
        works(*command.split(), cwd=tmp_path)
    back = [json.loads(line) for line in (tmp_path / "labels2.jsonl").read_text("utf-8").splitlines()]
    assert [(row["id"], row["text"], row["label"]) for row in back] == [
        (str(i), row["text"], row["label"]) for i, row in enumerate(rows)
    ]


def test_a_file_without_a_journal_is_replaced_on_request(tmp_path):
    (path := tmp_path / "labels.jsonl").write_text('{"a": 1}\n')
    refuses(r"without its journal.* replace it with --force", Journal, path, ONE)
    corpus = corpus_of(TEXTS)
    Session(corpus, journal := Journal(path, ONE, replace=True), InOrder(corpus))
    journal.close()
    assert path.read_text() == ""


def test_the_last_lines(session):
    assert session.close()[1] == "a classifier needs texts of two labels; the same command goes on"
    again, _ = reopened(session)
    again.answer(0, 0, "spam")
    again.answer(1, 0, "ham")
    assert again.close()[1].startswith("train on them: textsvm train ")


def test_training_says_that_the_texts_were_chosen(tmp_path):
    rows = [{"text": f"{word} {i}", "label": word} for i in range(12) for word in ("cash", "lunch")]
    (path := tmp_path / "labels.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    said = "of texts chosen by `textsvm label`"
    for journal in (False, True):
        if journal:
            (tmp_path / "labels.jsonl.journal").touch()
        done = run("train", path, "-o", tmp_path / "m.textsvm", "--force")
        assert (done.returncode, said in done.stdout.decode()) == (0, journal)
    shown = run("evaluate", tmp_path / "m.textsvm", path).stdout.decode()
    assert "95 % interval" in shown
    assert "85.75 to 100.00 %" in shown


# Who may use the page


def request(page, method="POST", path="next", body=b"{}", **headers):
    """Status, headers and body of a request to the application."""
    headers = {"host": "127.0.0.1:8000", "origin": "http://127.0.0.1:8000"} | headers
    headers = {name: value for name, value in headers.items() if value}
    path = path if path[:1] in ("/", "*") else f"/{page.token}/{path}"

    async def read():
        return body

    answer = asyncio.run(page(HttpRequest(method, path, headers, read)))
    return SimpleNamespace(status=answer.status, headers=answer.headers, body=answer.body)


@pytest.fixture
def page(session):
    from textsvm.apps.label.app import LabellingPage

    return LabellingPage(session)


def test_page_and_actions(page):
    shown = request(page, "GET", "")
    assert shown.status == 200
    assert "script-src 'sha256-" in shown.body.decode()
    assert "connect-src 'self'" in shown.body.decode()
    assert not re.search(r"(src|href)=", shown.body.decode().partition("<script>")[0])
    assert shown.headers["content-security-policy"].startswith("frame-ancestors 'none'")
    assert shown.headers["referrer-policy"] == "no-referrer"
    assert json.loads(request(page).body)["text"]["id"] == "t0"
    body = json.dumps({"index": 0, "seen": 0, "label": "spam"}).encode()
    assert json.loads(request(page, path="answer", body=body).body)["copies"] == 1
    again = request(page, path="answer", body=body)
    assert (again.status, "another window" in json.loads(again.body)["error"]) == (409, True)
    refused = request(page, path="add_label", body=json.dumps({"label": "x" * 200}).encode())
    message = "a label has 1 to {0} characters, and there are at most {1} labels"
    assert json.loads(refused.body) == {
        "error": message.format(100, 500), "message": message, "values": ["100", "500"],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/", {}),
        ("/next", {}),
        ("/" + "x" * 32 + "/next", {}),
        ("//next", {}),
        ("/é/next", {}),
        ("*", {}),
        ("*", {"origin": None}),
        ("next/", {"host": "evil.example"}),
        ("next", {"host": "evil.example"}),
        ("next", {"host": "evil.example:8000", "origin": "http://evil.example:8000"}),
        ("next", {"host": "127.0.0.1.evil.example:8000"}),
        ("next", {"host": "localhost:80@evil.example"}),
        ("next", {"host": None}),
        ("next", {"origin": "http://evil.example"}),
        ("next", {"origin": "null"}),
        ("next", {"origin": None}),
        ("next", {"origin": "http://127.0.0.1:9000"}),
        ("next", {"origin": "http://127.0.0.1"}),
        ("next", {"origin": "https://127.0.0.1:8000"}),
        ("next", {"origin": "http://localhost:8000"}),
        ("", {"origin": "http://127.0.0.1:9000"}),
    ],
)
def test_foreign_requests_are_refused(page, path, headers):
    for method in ("POST", "OPTIONS", "GET", "HEAD", "PUT") if path in ("*", "") else ("POST",):
        refused = request(page, method, path, **headers)
        assert refused.status == 403
        assert b"cash" not in refused.body


@pytest.mark.parametrize("number", [10**30, 2**63, 2**31, -1, -(10**30)])
def test_any_number_is_answered(page, number):
    for action, value in (
        ("history", {"skip": number}),
        ("search", {"words": "win", "start": number}),
        ("show", {"index": number, "reason": "", "whole": False}),
        ("guess", {"index": number, "whole": True}),
        ("answer", {"index": number, "seen": 0, "label": "spam"}),
        ("skip", {"index": number}),
        ("answer", {"index": 0, "seen": number, "label": "spam"}),
        ("undo", {"events": number}),
        ("separate", {"index": number}),
    ):
        assert request(page, path=action, body=json.dumps(value).encode()).status in (200, 400, 409)


def test_a_tunnel_with_another_port_is_accepted(page):
    assert request(page, **{"host": "localhost:9999", "origin": "http://localhost:9999"}).status == 200


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(28, "No space left", "a.jsonl"), "a.jsonl: No space left"),
        (OSError("odd"), "the disk: odd"),
        (ValueError("odd"), "this failed; the terminal of `textsvm label` has the error"),
    ],
)
def test_what_fails_while_a_label_is_kept_is_said(page, error, said, monkeypatch, capsys):
    monkeypatch.setattr("textsvm.apps.label.app._parsed", raising(error))
    answer = request(page)
    assert (answer.status, json.loads(answer.body)) == (500, {"error": said})
    assert ("ValueError: odd" in capsys.readouterr().err) == isinstance(error, ValueError)


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("answer", b"", 400),
        ("answer", b"[]", 400),
        ("answer", b"[" * 100_000, 400),
        ("answer", b'{"index": 0}', 400),
        ("answer", b'{"index": 0, "seen": 0, "label": "spam", "label": "ham"}', 400),
        ("answer", b'{"index": 99, "seen": 0, "label": "spam"}', 400),
        ("answer", b'{"index": -1, "seen": 0, "label": "spam"}', 400),
        ("answer", b'{"index": true, "seen": 0, "label": "spam"}', 400),
        ("answer", b'{"index": 0, "seen": 0, "label": "unknown"}', 400),
        ("answer", b'{"index": 0, "seen": 0, "label": ["spam"]}', 400),
        ("answer", b'{"index": 0, "seen": 0, "label": [{}]}', 400),
        ("answer", b"\xff", 400),
        ("add_label", b'{"label": " "}', 400),
        ("add_label", json.dumps({"label": "x" * 101}).encode(), 400),
        ("search", b'{"words": "x", "start": 1e99}', 400),
        ("close", b"{}", 404),
        ("_view", b"{}", 404),
        ("next/next", b"{}", 404),
    ],
)
def test_bad_requests(page, path, body, status):
    answer = request(page, path=path, body=body)
    assert answer.status == status
    assert json.loads(answer.body)["error"]
    assert labels_in(page.session.journal.path) == {}


def test_hostile_texts_and_labels_become_json(page):
    page.session.corpus = corpus_of(hostile_pages.ALL)
    for index in range(0, len(hostile_pages.ALL), 9):
        body = json.dumps({"index": index, "reason": "", "whole": False}).encode()
        view = json.loads(request(page, path="show", body=body).body)["text"]
        assert not re.search("[\x00-\x08\u202e\ud800]", "".join(piece for piece, _ in view["pieces"]))
    script = (ROOT / "textsvm/apps/label/label.js").read_text("utf-8")
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|srcdoc|DOMParser", script
    )


# A process that is killed


def answer_all(folder):
    """JournalEntry texts one after the other, and print each answer that is recorded."""
    corpus = corpus_of([f"{i} {'text ' * 30}" for i in range(20_000)])
    session = Session(corpus, Journal(Path(folder) / "labels.jsonl", ONE), InOrder(corpus))
    text = session.next()["text"]
    while text is not None:
        label = ("spam", "ham", None)[text["index"] % 3]
        done, text = text["id"], session.answer(text["index"], text["seen"], label)["text"]
        print(done, flush=True)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_kill_loses_no_answer(tmp_path, seed):
    code = "import sys, test_label_page as t; t.answer_all(sys.argv[1])"
    process = subprocess.Popen(
        [sys.executable, "-c", code, tmp_path], stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])},
    )  # fmt: skip
    done = [process.stdout.readline().strip()]
    threading.Timer(random.Random(seed).uniform(0, 0.4), process.kill).start()
    done += [line.strip() for line in process.stdout if line.endswith("\n")]
    process.wait()
    before = labels_in(tmp_path / "labels.jsonl")  # readable without a new start
    journal = Journal(tmp_path / "labels.jsonl", ONE)
    assert list(journal.answers)[: len(done)] == done
    assert len(journal.answers) <= len(done) + 1
    assert before.items() <= {name: answer.label for name, answer in journal.answers.items()}.items()
    assert sum(name in before for name in done) == sum(int(name[1:]) % 3 < 2 for name in done)
    journal.close()
