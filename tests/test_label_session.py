"""Several people label: texts of each, agreement, disagreements, changed labels, hostile names."""

import csv
import json
import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Thread, current_thread
from time import monotonic, sleep
from unicodedata import normalize

import hostile_pages
import numpy as np
import pytest
from command import fails, run, works
from hypothesis import example, given, settings
from hypothesis import strategies as st
from refusals import refuses
from test_label_page import ONE, TEXTS, InOrder, corpus_of
from test_label_page import label as commands

from textsvm import InputError
from textsvm.apps.label import files
from textsvm.apps.label.files import DECISION, Journal, JournalEntry, text_digest
from textsvm.apps.label.learner import Learner, Proposal
from textsvm.apps.label.machine import Machine
from textsvm.apps.label.session import NAME, Conflict, Session
from textsvm.cli.console import Console
from textsvm.evaluation.results import clopper_pearson

COPIES = ["win cash now", "Win cash  now", "lunch at noon"]
PLAIN = [f"{word} {i}" for i, word in enumerate(sorted("abcdefghij"))]


def started(folder, texts=PLAIN, shared=None):
    corpus = corpus_of(texts)
    return Session(corpus, Journal(folder / "labels.jsonl", ONE), InOrder(corpus), shared)


def learning(folder, suggestions=None, texts=PLAIN):
    """A session with the real learner, and suggested labels."""
    corpus, journal = corpus_of(texts), Journal(folder / "labels.jsonl", ONE)
    return Session(corpus, journal, Learner(texts, ["spam", "ham"]), None, suggestions or {})


def again(session):
    session.journal.close()
    return started(session.journal.path.parent, session.corpus.texts, session._shared)


def say(session, name, label, index=None):
    """Answer the next text, or a text; its index."""
    text = session.next(name)["text"] if index is None else session.show(index, by=name)["text"]
    session.answer(text["index"], text["seen"], label, name)
    return text["index"]


def rows_of(session):
    return {row["id"]: row for row in map(json.loads, session.journal.path.read_text("utf-8").splitlines())}


def test_each_person_gets_other_texts(tmp_path):
    session = started(tmp_path, shared=0)
    assert session.next("anna")["text"]["index"] == 0
    assert session.next("ben")["text"]["index"] == 1
    assert session.next("anna")["text"]["index"] == 0  # the same until it is answered
    assert sorted([say(session, name, "spam") for name in ("anna", "ben") * 5]) == [*range(10)]
    assert session.next("anna")["text"] is None
    state = session.overview("anna")
    assert state["people"]["names"] == [("anna", 5), ("ben", 5)]
    assert len(state["history"]) == 5
    assert {entry.by for entry in session.journal.answers.values()} == {"anna", "ben"}


def test_the_last_text_is_shown_to_both(tmp_path):
    session = started(tmp_path, PLAIN[:2], shared=0)
    say(session, "anna", "spam", 0)
    assert session.next("anna")["text"]["index"] == 1
    assert session.next("ben")["text"]["index"] == 1
    session.answer(1, 0, "spam", "anna")
    session.answer(1, 0, "spam", "ben")  # no conflict: another person
    with pytest.raises(Conflict, match="another window"):
        session.answer(1, 0, "ham", "ben")


@pytest.mark.parametrize("share", [None, 0.0, 0.5, 1.0])
def test_a_share_of_texts_is_shown_to_both(tmp_path, share):
    session = started(tmp_path, [f"word{i} {i}" for i in range(60)], share)
    for turn in range(60):
        text = session.next(name := ("anna", "ben")[turn % 2])["text"]
        if text is None:
            break
        if text["reason"] == "second":
            assert (text["label"], text["answered"], text["guessed"]) == (None, False, False)
        session.answer(text["index"], text["seen"], "spam", name)
    n = len(session.journal.answers)
    assert session.agreement()["n"] == pytest.approx((0.1 if share is None else share) * n, abs=1)
    assert n + session.agreement()["n"] == sum(map(len, session.journal.own.values()))


def test_a_single_person_gets_no_text_twice(tmp_path):
    session = started(tmp_path, shared=1)
    assert [say(session, "anna", "spam") for _ in range(10)] == [*range(10)]
    assert session.next("anna")["text"] is None


def disagreeing(folder, shared=0):
    session = started(folder, shared=shared)
    for index, (anna, ben) in enumerate([("spam", "ham"), ("spam", "spam"), ("ham", None)]):
        say(session, "anna", anna, index)
        session._desks["ben"].chosen[index] = "second"
        say(session, "ben", ben, index)
    return session


def test_a_tie_has_no_label_until_it_is_decided(tmp_path):
    session = disagreeing(tmp_path)
    rows = rows_of(session)
    assert {name: row["label"] for name, row in rows.items()} == {"t0": None, "t1": "spam", "t2": "ham"}
    assert rows["t0"]["answers"] == {"anna": "spam", "ben": "ham"}
    assert session.learner.labelled == {0: None, 1: "spam", 2: "ham"}
    (open_,) = session.review("anna")["disagreements"]
    assert (open_["index"], open_["answers"]) == (0, [("anna", "spam"), ("ben", "ham")])
    assert session.overview("ben")["people"]["open"] == 1
    text = session.show(0, "decision", by="anna")["text"]
    assert (text["answers"], text["label"], text["guessed"]) == (
        [("anna", "spam"), ("ben", "ham")],
        None,
        False,
    )
    shown = session.decide(0, text["seen"], "ham", "anna")
    assert shown["text"]["reason"] != DECISION  # no other disagreement
    with pytest.raises(Conflict, match="decided in another window"):
        session.decide(0, text["seen"], "spam", "ben")
    refuses("two people", session.decide, 5, 0, "spam", "ben")
    for work in (session, again(session)):
        row = rows_of(work)["t0"]
        assert (row["label"], row["majority"], row["answers"]) == (
            "ham",
            None,
            {"anna": "spam", "ben": "ham"},
        )
        assert work.learner.labelled[0] == "ham"
        assert work.overview("ben")["people"]["open"] == 0
        assert work.review("ben")["disagreements"][0]["label"] == "ham"
        assert work.journal.own["anna"]["t0"][1].label == "spam"  # their own answers stay


def test_a_decision_that_is_unsure_is_a_decision(tmp_path):
    session = disagreeing(tmp_path)
    say(session, "anna", "ham", 5)
    say(session, "ben", "spam", 5)
    shown = session.decide(0, 0, None, "anna")
    assert (shown["text"]["index"], shown["text"]["reason"]) == (5, DECISION)
    assert session.decide(5, 0, "spam", "anna")["text"]["reason"] != DECISION
    assert {name: row["label"] for name, row in rows_of(session).items()}["t0"] is None
    session.journal.close()
    texts = files.read_labelled(session.journal.path)
    assert {text.id: (text.label, text.decided) for text in texts}["t0"] == (None, True)
    (tmp_path / "export.jsonl").write_text(files.FORMATS[".jsonl"](texts), "utf-8")
    (tmp_path / "other").mkdir()
    for path in (session.journal.path, tmp_path / "export.jsonl"):
        other = started(tmp_path / "other")
        other.add_labelled(files.read_labelled(path))
        assert other.overview("cy")["people"]["open"] == 0
        assert rows_of(other)["t0"]["decided"]
        other.journal.close()
        for name in ("labels.jsonl", "labels.jsonl.journal"):
            (tmp_path / "other" / name).unlink()


@pytest.mark.parametrize(
    "names", [("Anna", "anna", " ANNA "), ("Zoe\u0301", "Zo\u00e9"), ("\u00c9a", "e\u0301A")]
)
def test_a_name_in_other_spelling_is_the_same_person(tmp_path, names):
    session = started(tmp_path, shared=0)
    for index, name in enumerate(names):
        say(session, name, "spam", index)
    first = normalize("NFC", names[0])
    for work in (session, again(session)):
        assert work.next(names[-1])["state"]["by"] == first
        assert work.overview()["people"]["names"] == [(first, len(names))]
    work.undo(work.journal.events, names[-1])
    assert work.overview()["people"]["names"] == [(first, len(names) - 1)]


def test_names_of_an_earlier_journal_that_differ_in_case_stay_apart(tmp_path):
    session = started(tmp_path, shared=0)
    entries = [
        session._noted(0, label, "second", name) for label, name in (("spam", "Anna"), ("ham", "anna"))
    ]
    session.journal.add(entries, session._text_of)
    session = again(session)
    shown = [session.next(name)["state"]["by"] for name in ("Anna", "anna", "ANNA")]
    assert shown == ["Anna", "anna", "Anna"]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from("abc"),
            st.integers(0, 5),
            st.sampled_from(["spam", "ham", None, "undo", "decide"]),
        ),
        max_size=30,
    ),
    st.booleans(),
)
def test_agreement_does_not_depend_on_when_it_is_asked(tmp_path_factory, steps, random):
    session = started(tmp_path_factory.mktemp("steps"), shared=0.5)
    for name, index, label in steps:
        session._desks[name].chosen[index] = "random" if random else "second"
        with suppress(InputError):
            if label == "undo":
                session.undo(session.journal.events, name)
            elif label == "decide":
                session.decide(index, session.journal.revisions[f"t{index}", ""], "ham", name)
            else:
                say(session, name, label, index)
        session.agreement()
    asked, review = session.agreement(), session.review("a")
    fresh = again(session)
    anew = fresh.agreement()
    assert sorted(asked.pop("names")) == sorted(anew.pop("names"))
    np.testing.assert_equal(asked, anew)
    assert {x["index"] for x in review["disagreements"]} == {
        x["index"] for x in fresh.review("a")["disagreements"]
    }
    fresh.journal.close()


def test_agreement_of_two_and_of_three(tmp_path):
    session = disagreeing(tmp_path)
    agreement = session.agreement()
    assert (agreement["n"], agreement["equal"]) == (2, 1)
    assert agreement["alpha"] == pytest.approx(0)
    say(session, "cleo", "ham", 0)
    assert rows_of(session)["t0"]["label"] == "ham"  # most people
    assert rows_of(session)["t0"]["majority"] == "ham"


def test_agreement_is_of_drawn_texts_and_first_labels(tmp_path):
    session = disagreeing(tmp_path)
    before = session.agreement()
    for name in ("anna", "ben"):
        say(session, name, "spam", 5)  # picked by both
    say(session, "ben", "spam", 0)  # after a review
    agreement = session.agreement()
    assert (agreement["n"], agreement["equal"]) == (before["n"], before["equal"])
    assert agreement["open"] == before["open"] - 1
    assert again(session).agreement()["equal"] == before["equal"]


def test_no_request_waits_for_a_training(tmp_path, monkeypatch):
    texts, threads = [f"{'cash' if i % 2 else 'noon'} {i}x" for i in range(20)], set()
    corpus, refresh = corpus_of(texts), Learner.refresh

    def noted(learner):
        threads.add(current_thread())
        refresh(learner)

    session = Session(corpus, Journal(tmp_path / "labels.jsonl", ONE), Learner(texts, ["spam", "ham"]))
    monkeypatch.setattr(Learner, "refresh", noted)
    for index in (0, 1, 3):
        for name, label in (("anna", "ham"), ("ben", "spam")):
            say(session, name, label, index)
    session.decide(1, 0, "ham", "anna")
    session.decide(3, 0, "spam", "anna")
    session.undo(session.journal.events, "ben")
    assert current_thread() not in threads
    end = monotonic() + 60
    while session.learner._learnt < session.learner._changes and monotonic() < end:
        sleep(0.01)
    assert session.learner._training.index.tolist() == [1, 3]
    session.close()


@pytest.mark.parametrize("between", ["ham", None])
def test_near_copies_follow_a_change(tmp_path, between):
    session = learning(tmp_path, texts=COPIES)
    for label in ("spam", between, "ham"):
        say(session, "anna", label, 0)
        labels = {name: entry.label for name, entry in session.journal.answers.items()}
        assert labels == {"t0": label, "t1": label}
    assert session.learner._answers == {0: ("ham",), 1: ("ham",)}
    session.undo(session.journal.events, "anna")
    assert {entry.label for entry in session.journal.answers.values()} == {between}
    session.close()


def test_a_copy_with_an_answer_of_its_own_keeps_its_tie(tmp_path):
    session = learning(tmp_path, texts=COPIES)
    say(session, "anna", "spam", 0)  # and its copy t1
    say(session, "ben", "spam", 1)
    say(session, "anna", "ham", 0)
    assert session.journal.answers["t1"].label is None
    assert session.learner._answers == {0: ("ham",), 1: None}
    session.close()


def test_labels_of_a_tie_cannot_be_removed(tmp_path):
    session = disagreeing(tmp_path)
    say(session, "anna", "ham", 1)
    say(session, "ben", "ham", 1)
    assert "spam" not in {entry.label for entry in session.journal.answers.values()}
    refuses(r"'spam' has labelled texts \(1\)", session.remove_label, "spam", "anna")


def test_undo_of_a_decision(tmp_path):
    session = started(tmp_path, TEXTS, shared=0)
    say(session, "anna", "spam", 0)  # and its copy t2
    say(session, "ben", "ham", 0)
    session.skip(1, "anna")
    session.decide(0, 0, "ham", "anna")
    with pytest.raises(Conflict, match="newer answer"):
        session.undo(session.journal.events - 1, "anna")
    undone = session.undo(session.journal.events, "anna")
    assert (undone["text"]["index"], undone["text"]["reason"]) == (0, DECISION)
    assert undone["text"]["answers"] == [("anna", "spam"), ("ben", "ham")]
    assert not session.journal.own[""]
    assert session.learner.labelled == {0: None, 2: None}
    session.decide(0, undone["text"]["seen"], "spam", "cleo")
    assert session.overview("cleo")["undo"]  # without an answer of her own
    session.undo(session.journal.events, "anna")  # her own answer, not the decision of cleo
    assert session.journal.own[""].keys() == {"t0", "t2"}
    assert not session.journal.own["anna"]
    session.undo(session.journal.events, "cleo")
    assert {name: row["label"] for name, row in rows_of(again(session)).items()} == {"t0": "ham", "t2": "ham"}


def test_near_copies_follow_both_people_and_the_decision(tmp_path):
    session = started(tmp_path, TEXTS, shared=0)
    say(session, "anna", "spam", 0)  # and its copy t2
    session._desks["ben"].chosen[0] = "second"
    assert session.answer(0, session.show(0, by="ben")["text"]["seen"], "ham", "ben")["copies"] == 1
    assert [rows_of(session)[name]["label"] for name in ("t0", "t2")] == [None, None]
    assert session.agreement()["n"] == 1  # a copy is no answer of its own
    assert len(session.review("anna")["disagreements"]) == 1
    assert session.decide(0, 0, "ham", "anna")["copies"] == 1
    assert [rows_of(session)[name]["label"] for name in ("t0", "t2")] == ["ham", "ham"]
    assert session.learner.labelled == {0: "ham", 2: "ham"}


def test_an_answer_to_a_copy_itself_stays(tmp_path):
    session = started(tmp_path, TEXTS, shared=0)
    say(session, "anna", "spam", 0)  # and its copy t2
    say(session, "ben", "ham", 2)
    say(session, "ben", "spam", 0)
    entry = session.journal.own["ben"]["t2"][1]
    assert (entry.label, entry.copy_of) == ("ham", None)
    say(session, "cleo", "ham", 0)  # and its copy
    session.decide(0, 0, "ham", "cleo")
    assert session.journal.own[""].keys() == {"t0"}  # ben has answered t2 itself
    assert session.journal.answers_of_people("t2")["cleo"].copy_of == "t0"


def test_a_copy_that_somebody_answered_itself_can_be_decided(tmp_path):
    session = started(tmp_path, TEXTS, shared=0)
    say(session, "anna", "spam", 0)  # and its copy t2
    say(session, "ben", "ham", 2)
    assert rows_of(session)["t2"]["label"] is None
    (open_,) = session.review("anna")["disagreements"]
    assert (open_["index"], open_["answers"]) == (2, [("anna", "spam"), ("ben", "ham")])
    assert session.agreement()["open"] == 1
    assert session.agreement()["n"] == 0  # a copy is no answer of its own
    session.decide(2, 0, "ham", "anna")
    assert session.agreement()["open"] == 0
    say(session, "ben", "ham", 0)
    assert [entry["index"] for entry in session.review("anna")["disagreements"]] == [0, 2]


def test_a_test_text_stays_one_after_a_second_answer(tmp_path):
    session = started(tmp_path)
    session._desks["anna"].chosen[0] = "random"
    say(session, "anna", "spam", 0)
    session._desks["ben"].chosen[0] = "second"
    say(session, "ben", "spam", 0)
    say(session, "anna", "ham", 0)
    assert rows_of(session)["t0"]["part"] == "test"
    assert (rows_of(again(session))["t0"]["part"]) == "test"


def test_a_journal_without_names_is_read_and_a_name_replaces_none(tmp_path):
    journal = Journal(tmp_path / "labels.jsonl", ONE)
    journal.set_labels(["spam", "ham"])
    for i in range(3):
        journal.add(
            [JournalEntry(f"t{i}", text_digest(PLAIN[i]), "spam", "user")], lambda name: PLAIN[int(name[1:])]
        )
    journal.close()
    session = started(tmp_path, shared=1)
    assert session.overview()["people"] is None
    assert "answers" not in rows_of(session)["t0"]
    assert session.next("anna")["text"]["index"] == 3
    say(session, "anna", "ham", 0)
    assert rows_of(session)["t0"]["label"] == "ham"
    assert session.review("anna")["disagreements"] == []


def test_hostile_names(tmp_path):
    session = started(tmp_path, shared=0.5)
    refuses(f"1 to {NAME} characters", session.next, "x" * 10_000)
    names = ["__proto__", "<script>alert(1)</script>", "a\u202eb", "a\nb\x1b[0m", "'; --", "\ud800"]
    for index, name in enumerate(names):
        say(session, name, "spam", index)
    for work in (session, again(session)):
        shown = [name for name, _ in work.overview()["people"]["names"]]
        assert len(shown) == len(names)
        assert shown[:2] == names[:2]
        assert not any(set(name) & {"\n", "\x1b", "\u202e", "\ud800"} for name in shown)
    assert session.next(" \n")["state"]["by"] is None
    assert len(hostile_pages.ALL) > 3


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from("aaaucd"), st.integers(0, 4), st.sampled_from(["spam", "ham", None]),
                  st.sampled_from(["anna", "ben", "cleo"])),
        max_size=30,
    )
)  # fmt: skip
@example([("a", 0, "spam", "anna"), ("a", 0, "spam", "ben"), ("c", 0, "spam", "anna"),
          ("d", 0, "spam", "anna"), ("a", 2, "ham", "ben")])  # fmt: skip
def test_files_follow_any_sequence_of_actions_of_several_people(tmp_path_factory, steps):
    session = started(tmp_path_factory.mktemp("labels"), TEXTS)
    for action, index, label, name in steps:
        identifier = f"t{index}"
        if action == "a":
            session.answer(index, session.journal.revisions[identifier, name], label, name)
        elif action == "u" and session._latest(name)[0]:
            session.undo(session.journal.events, name)
        elif action == "c":
            session.separate(index, name)
        elif action == "d" and len(session.journal.answers_of_people(identifier)) > 1:
            session.decide(index, session.journal.revisions[identifier, ""], label, name)
    answers, own = dict(session.journal.answers), {k: dict(v) for k, v in session.journal.own.items() if v}
    labels = {name: each.label for name, each in answers.items()}
    rows = {name: row["label"] for name, row in rows_of(session).items() if row["label"] is not None}
    assert rows == {name: label for name, label in labels.items() if label is not None}
    assert {f"t{index}": label for index, label in session.learner.labelled.items()} == labels
    for name, items in own.items():
        assert all(entry.voice == name for _, entry in items.values())
    listed = {f"t{entry['index']}" for entry in session.review("anna")["disagreements"]}
    for name in answers.keys() - own.get("", {}).keys():
        by_people = session.journal.answers_of_people(name).values()
        if len({entry.label for entry in by_people} - {None}) > 1:
            assert listed & {name, *(entry.copy_of for entry in by_people)}
    work = again(session)
    assert {name: each.label for name, each in work.journal.answers.items()} == labels
    assert {k: dict(v) for k, v in work.journal.own.items() if v} == own
    work.journal.close()


# Suggested labels


def answer_at_random(session, index, label):
    session._desks[None].chosen[index] = "random"
    session.answer(index, 0, label)


def test_suggestions_count_as_far_as_they_proved_right(tmp_path):
    texts = [f"{'cash' if i % 2 else 'noon'} {i}x" for i in range(60)]
    suggestions = {f"t{i}": ["spam" if i % 2 else "ham"] for i in range(50)}
    session = learning(tmp_path, suggestions, texts)
    assert session.judge_suggestions() == {"n": 0, "right": 0, "interval": (0.0, 1.0), "weight": 0.0}
    for index in range(5):
        answer_at_random(session, index, suggestions[f"t{index}"][0])
        assert session.judge_suggestions()["weight"] == 0  # the interval still has the agreement by chance
    session.answer(40, 0, "spam")  # not at random: the suggestion may have been seen
    for index in range(5, 16):
        answer_at_random(session, index, suggestions[f"t{index}"][0])
    found = session.overview()["suggestions"]
    assert (found["n"], found["right"]) == (16, 16)
    assert found["weight"] == pytest.approx((clopper_pearson(16, 16)[0] - 0.5) / 0.5)
    answer_at_random(session, 16, "spam")  # the suggestion was ham
    assert 0 < session.judge_suggestions()["weight"] < found["weight"]
    session.close()


def test_wrong_and_constant_suggestions_have_no_weight(tmp_path):
    session = learning(tmp_path, {f"t{i}": ["spam"] for i in range(10)})
    for index in range(10):
        answer_at_random(session, index, "spam")
    assert session.judge_suggestions()["weight"] == 0  # a single label is right by chance
    session.close()


def test_a_suggestion_is_shown_unless_the_text_is_for_the_test(tmp_path):
    session = learning(tmp_path, {"t0": ["spam"], "t1": []})
    shown = [
        session.show(index, reason)["text"]["suggestion"]
        for index, reason in ((0, ""), (0, "random"), (1, ""))
    ]
    assert shown == [["spam"], None, None]
    session.close()


def test_a_text_of_the_test_is_never_shown_with_its_suggestion(tmp_path):
    session = learning(tmp_path, {f"t{i}": ["spam"] for i in range(10)})
    session._desks["anna"].chosen.update({0: "random", 1: "random", 2: "second"})
    session._desks["ben"].chosen[3] = "random"
    say(session, "anna", "ham", 0)  # then a click on it in the list
    session.skip(1, "anna")  # then a search
    say(session, "anna", "ham", 2)
    say(session, "ben", "ham", 3)  # then anna finds it
    for index in range(5):
        text = session.show(index, by="anna")["text"]
        assert (text["guessed"], text["suggestion"]) == ((False, None) if index < 4 else (True, ["spam"]))
    session.close()
    session = learning(tmp_path, {"t0": ["spam"]})
    assert session.show(0, by="anna")["text"]["suggestion"] is None
    session.close()


@pytest.mark.parametrize("weight", [0.0, 0.5, 1.0])
def test_the_machine_learns_suggestions_by_their_weight(weight):
    texts = [f"{('apple pear', 'wheel road')[i % 2]} {i}x" for i in range(40)] + ["plum", "horn"]
    learner, plain = Learner(texts, ["fruit", "car"]), Learner(texts, ["fruit", "car"])
    learner.suggestions = {i: ["fruit", "car"][i % 2 : i % 2 + 1] for i in range(40)} | {40: ["other"]}
    learner.suggestion_weight = weight
    for each in (learner, plain):
        each.answer(40, "fruit")
        each.answer(41, "car")
        each.refresh()
    guesses = [[dict(each.guess(i).scores) for i in range(38)] for each in (learner, plain)]
    least = [min(guess[("fruit", "car")[i % 2]] for i, guess in enumerate(side)) for side in guesses]
    assert guesses[0] == guesses[1] if weight == 0 else least[0] > least[1] + 0.03
    assert learner.progress() == plain.progress()  # estimates are of a machine without suggestions


def test_weights_are_copies_of_texts():
    x = np.random.default_rng(0).normal(size=(6, 3))
    target = np.where(x[:, :1] > 0, 1.0, -1.0) * [1, -1]
    twice = np.append(np.arange(6), 5)
    one = Machine.train(x @ x.T, target, factor=np.array([1, 1, 1, 1, 1, 2.0]))
    other = Machine.train((x @ x.T)[np.ix_(twice, twice)], target[twice])
    np.testing.assert_allclose(x.T @ one.coef, x[twice].T @ other.coef, atol=1e-9)


def test_suggest_reads_a_column(tmp_path, capsys):
    (tmp_path / "t.csv").write_text("text,rule\nwin cash,spam\nlunch,\n,ham\nnoon, ham \n")
    options = commands.LabellingOptions(output=tmp_path / "l.jsonl", comma_labels="spam,ham", suggest="rule")
    session = commands._session(Console(True), [tmp_path / "t.csv"], options, commands.ExchangeOptions(),
                             commands.TextReading(skip_invalid=True))  # fmt: skip
    texts = {
        text: session._suggestions.get(name)
        for name, text in zip(session.corpus.ids, session.corpus.texts, strict=True)
    }
    assert texts == {"win cash": ["spam"], "lunch": None, "noon": ["ham"]}
    session.close()
    capsys.readouterr()
    options = replace(options, comma_labels="spam,good", output=tmp_path / "other.jsonl")
    commands._session(Console(False), [tmp_path / "t.csv"], options, commands.ExchangeOptions(),
                      commands.TextReading(skip_invalid=True)).close()  # fmt: skip
    assert "1 suggestions are none of the labels: ham" in capsys.readouterr().err
    wrong = "label", "t.csv", "-o", "m.jsonl", "--labels", "spam,ham", "--skip-invalid"
    assert "has no column rules with labels" in fails(*wrong, "--suggest", "rules", cwd=tmp_path, code=2)


# Files of other programs with the names of people


NAMED = st.dictionaries(
    st.sampled_from(["anna", "ben", "Ćira ü", "d@e.org"]), st.sampled_from(["spam", "ham", "x y"]), max_size=3
)


@pytest.mark.parametrize("suffix", [".jsonl", ".json"])
def test_round_trip_with_names(suffix, write):
    @settings(max_examples=30, deadline=None)
    @given(st.lists(NAMED, min_size=1, max_size=5), st.sampled_from([None, "ham"]))
    def check(rows, decision):
        texts = [
            files.LabelledText(f"id {i}", f"text {i}", files.majority(answers.values()), "train", answers)
            if answers
            else files.LabelledText(f"id {i}", f"text {i}", "spam", "test")
            for i, answers in enumerate(rows)
        ]
        if decision and rows[0]:
            texts[0] = replace(texts[0], label=decision)
        back = files.read_labelled(write(f"file{suffix}", files.FORMATS[suffix](texts)))
        assert sorted(back, key=lambda text: text.id) == texts

    check()


@pytest.mark.parametrize(("other", "refused"), [("anna", True), ("ben", False)])
def test_two_spellings_of_a_name_in_one_text_are_refused(tmp_path, other, refused):
    (tmp_path / "texts.txt").write_text("".join(f"{text}\n" for text in PLAIN), "utf-8")
    text = files.LabelledText("t0", PLAIN[0], "spam", answers={"Anna": "spam", other: "ham"})
    session = started(tmp_path)
    if refused:
        refuses("'t0' has two answers of 'anna', spelled in two ways", session.add_labelled, [text])
    else:
        assert session.add_labelled([text]) == 1
    session.close()


def test_answers_of_several_people_are_imported_and_exported(tmp_path):
    (tmp_path / "texts.txt").write_text("".join(f"{text}\n" for text in PLAIN), "utf-8")
    tasks = [
        {"data": {"text": PLAIN[i]}, "annotations": [
            {"completed_by": {"email": name}, "result": [{"from_name": "l", "value": {"choices": [label]}}]}
            for name, label in (("anna", anna), ("ben", ben))
        ]}
        for i, (anna, ben) in enumerate([("spam", "ham"), ("spam", "spam"), ("ham", "spam")])
    ]  # fmt: skip
    truth = {"ground_truth": True, "result": [{"from_name": "l", "value": {"choices": ["ham"]}}]}
    tasks[2]["annotations"].append(truth)
    (tmp_path / "tasks.json").write_text(json.dumps(tasks), "utf-8")
    session = started(tmp_path)
    assert session.add_labelled(files.read_labelled(tmp_path / "tasks.json")) == 3
    assert [rows_of(session)[name]["label"] for name in ("t0", "t1", "t2")] == [None, "spam", "ham"]
    assert (session.agreement()["n"], session.agreement()["open"]) == (3, 1)
    assert session.next("ben")["text"]["index"] == 3
    for labels, expected in (("label", {"t1": "spam", "t2": "ham"}), ("majority", {"t1": "spam"})):
        works("label", "labels.jsonl", "--export", f"{labels}.csv", "--label", labels, cwd=tmp_path)
        content = (tmp_path / f"{labels}.csv").read_text("utf-8")
        assert {row["id"]: row["label"] for row in csv.DictReader(content.splitlines())} == expected
    assert session.export(".csv")["content"] == (tmp_path / "label.csv").read_text("utf-8")
    back = json.loads(session.export(".json")["content"])
    people = [[each.get("completed_by", {}).get("email") for each in task["annotations"]] for task in back]
    assert sorted(map(len, people)) == [2, 2, 3]
    assert [task["id"] for task in back] == [1, 2, 3]  # which Label Studio's converter needs
    refuses("the suffixes are", session.export, ".xml")
    session.journal.close()
    for options, n in (((), 2), (("--annotators", "ben"), 3), (("--annotators", "all"), 6)):
        shown = run("cv", "labels.jsonl", *options, cwd=tmp_path)
        assert f"read labels.jsonl: {n} rows" in shown.stderr.decode(), shown.stderr


def test_a_name_that_is_missing_in_a_row_is_an_error(tmp_path):
    rows = [
        {"text": "a", "answers": {"anna": "x"}, "majority": "x", "label": "x"},
        {"text": "b", "label": "y"},
    ]
    (tmp_path / "mixed.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    refuses("annotator", files.read_labelled, tmp_path / "mixed.jsonl")


def test_files_without_names_have_none(write):
    path = write("file.jsonl", '{"id": "1", "label": "spam", "text": "win cash"}\n')
    assert files.read_labelled(path) == [files.LabelledText("1", "win cash", "spam")]
    assert "answers" not in files.FORMATS[".jsonl"](files.read_labelled(path))


def test_a_search_of_a_new_person_waits_for_the_lock(tmp_path):
    session = started(tmp_path)
    with session._lock:
        thread = Thread(target=session.search, args=("nothing",), kwargs={"by": "anna"})
        thread.start()
        thread.join(0.2)
        assert "anna" not in session._desks
    thread.join()


def test_a_text_that_was_seen_with_its_guess_is_not_of_the_random_sample(tmp_path, monkeypatch):
    session = started(tmp_path)
    assert session.show(0, by="anna")["text"]["guessed"]  # by a search
    monkeypatch.setattr(session.learner, "next", lambda skipped=(): Proposal(0, "random"))
    assert not session.next("anna")["text"]["guessed"]
    session.answer(0, 0, "spam", "anna")
    assert session.journal.answers["t0"].chosen == "user"


def test_the_end_of_a_search_says_what_was_found(tmp_path):
    corpus = corpus_of([f"{'win cash' if i < 3 else 'see you'} {i}" for i in range(12)])
    session = Session(
        corpus, Journal(tmp_path / "labels.jsonl", ONE), Learner(corpus.texts, ["ham"], relevant="spam")
    )
    refuses("'spam' is not a label that can be removed", session.remove_label, "spam")
    for i in range(12):
        say(session, "", "spam" if i < 3 else "ham", i)
        if i == 5:
            session.learner.refresh()
            search = session.learner.progress().retrieval
            assert (search.n_found, search.enough) == (3, False)
    session.learner.refresh()
    assert "texts of 'spam' found: 3 of about 3; at least 95 % are probably found" in session.close()


# Strings of the page

LABEL = Path(commands.__file__).parent


def test_every_string_of_the_page_is_translated():
    strings = json.loads((LABEL / "label.json").read_text("utf-8"))
    script, page = ((LABEL / f"label.{kind}").read_text("utf-8") for kind in ("js", "html"))
    calls = re.findall(r"""\bt\(([^"()]* \? )?"([^"]+)"(?: : "([^"]+)")?""", script)
    used = {key for call in calls for key in call[1:] if key}
    used |= {
        key.strip() for key in re.findall(r">([^<]+)<", re.sub(r"<(kbd|option[^>]*)>[^<]*", "<i>", page))
    }
    used |= {*re.findall(r'aria-label="([^"]+)"', page)}
    server = "".join((LABEL / f"{name}.py").read_text("utf-8") for name in ("session", "files"))
    raised = re.findall(r'raise (?:files\.)?(?:PageError|Conflict)\("([^"]+)"|\bmessage = "([^"]+)"', server)
    used |= {first or second for first, second in raised}
    assert used - {""} == strings.keys()
    for key, translations in strings.items():
        assert translations.keys() == {"de", "fr", "es", "zh"}, key
        for text in translations.values():
            assert sorted(re.findall(r"\{\d\}", text)) == sorted(re.findall(r"\{\d\}", key)), text
            assert text.strip() == text != ""


def test_the_page_speaks_to_screen_readers():
    page = (LABEL / "label.html").read_text("utf-8")
    for dialog in re.findall(r"<(?:dialog|section)[^>]*>", page):
        assert "aria-label=" in dialog
    for field in re.findall(r"<(?:input|select)[^>]*>", page):
        assert re.search(rf"<label>[^<]*{re.escape(field)}", page), field
    for live in ("text", "note", "problem", "review_note", "matches"):
        assert re.search(rf"<[^>]*id=\"{live}\"[^>]*(aria-live|role=\"status\")", page), live
    assert 'tabindex="' not in page  # the order of the focus is that of the page
    keys = re.findall(r'aria-keyshortcuts="(.)[^"]*"[^>]*>[^<]*<kbd>(.)', page)
    assert keys
    assert all(first.lower() == shown.lower() for first, shown in keys)


# Bad input


def test_a_text_that_changed_or_is_gone_under_two_people(tmp_path):
    session = disagreeing(tmp_path)
    session.decide(0, 0, "ham", "anna")
    say(session, "ben", "spam", 9)
    session.journal.close()
    before = session.journal.journal_path.read_bytes()
    for texts, trouble in (
        (["other", *PLAIN[1:]], "1 of 4 .*'t0', have changed in"),
        (PLAIN[:9], "1 of 4 .*'t9', are not in"),
    ):
        refuses(trouble, started, tmp_path, texts)
    assert session.journal.journal_path.read_bytes() == before


def test_answers_about_texts_that_are_not_there(tmp_path):
    session = started(tmp_path)
    for index in (-1, 10, 10**30):
        for action in (session.answer, session.decide):
            refuses(f"there is no text {index}", action, index, 0, "spam", "anna")


def test_a_shorter_list_of_labels_loses_none(tmp_path):
    session = disagreeing(tmp_path)
    session.journal.close()
    journal = Journal(session.journal.path, ONE)
    assert journal.with_labels(["ham"]) == journal.with_labels([]) == ["spam", "ham"]
    journal.close()


def test_a_second_server_and_an_encoder_that_vanished_change_nothing(tmp_path):
    (tmp_path / "t.txt").write_text("".join(f"{text}\n" for text in PLAIN), "utf-8")
    journal = Journal(tmp_path / "labels.jsonl", ONE)
    journal.set_labels(["spam", "ham"])
    journal.add([JournalEntry("1", text_digest(PLAIN[0]), "spam", "user", by="anna")], lambda name: PLAIN[0])
    before = journal.journal_path.read_bytes()
    start = ("label", "t.txt", "--format", "lines", "-o", "labels.jsonl")
    assert "another `textsvm label`" in fails(*start, cwd=tmp_path)
    journal.close()
    for encoder, message in (
        ("gone/", "encoder gone/ is not there"),
        ("gone,bits=4", "bits=4 of the encoder"),
    ):
        assert message in fails(*start, "--encoder", encoder, cwd=tmp_path, code=2)
    assert journal.journal_path.read_bytes() == before


def test_hostile_labels(tmp_path, monkeypatch):
    given = "<b>x</b>,a\u202eb,__proto__,c\x1b[0m, ,\ud800,a\nb"
    names = commands.LabellingOptions(comma_labels=given).names()
    assert names[0] == "<b>x</b>"
    assert names[2] == "__proto__"
    assert not set("".join(names)) & {"\u202e", "\x1b", "\ud800", "\n"}
    session = started(tmp_path)
    for name in names:
        session.add_label(name, "anna")
    for index, name in enumerate(names):
        session.answer(index, 0, name, "anna")
    refuses("1 to 100 characters", session.add_label, "x" * 10_000, "anna")
    monkeypatch.setattr("textsvm.apps.label.session.LABELS", len(session.learner.labels))
    refuses(f"at most {len(session.learner.labels)} labels", session.add_label, "one more", "anna")
    work = again(session)
    assert [row["label"] for row in rows_of(work).values()] == names
    assert [row["answers"] for row in rows_of(work).values()] == [{"anna": name} for name in names]
    assert [text.label for text in files.read_labelled(session.journal.path)] == names
    (tmp_path / "t.txt").write_text("one\ntwo\n")
    said = fails(
        "label", "t.txt", "--format", "lines", "-o", "m.jsonl", "--labels", "x" * 10_000, cwd=tmp_path, code=2
    )
    assert "at most 100 characters" in said
    assert len(said) < 400
    assert not (tmp_path / "m.jsonl.journal").exists()


def test_the_export_counts_what_it_has_and_spares_the_labels_of_other_work(tmp_path, capsys):
    session = disagreeing(tmp_path)
    session.journal.close()
    file = str(session.journal.path)
    n = sum(row["label"] is not None for row in rows_of(session).values())
    for name in ("a.csv", "a.jsonl"):
        said = run("label", file, "--export", str(tmp_path / name)).stderr.decode()
        assert f"note: {n} labelled texts are in" in said
        assert "1 more have no label that counts" in said
    assert len((tmp_path / "a.csv").read_text().splitlines()) == 1 + n
    other = tmp_path / "other.jsonl"
    Journal(other, ONE).close()
    said = fails("label", file, "--export", str(other), cwd=tmp_path, code=2)
    assert "has a journal of answers beside it" in said


def test_a_text_that_is_there_twice_keeps_its_labels_apart(tmp_path):
    session = started(tmp_path, ["win cash now", "see you soon", "win cash now"])
    for index, label, name in (
        (0, "spam", "anna"),
        (0, "spam", "ben"),
        (2, "ham", "anna"),
        (2, "spam", "ben"),
    ):
        say(session, name, label, index)
    session.journal.close()
    answers = {text.id: text.answers for text in files.read_labelled(session.journal.path)}
    assert answers == {"t0": {"anna": "spam", "ben": "spam"}, "t2": {"anna": "ham", "ben": "spam"}}
    for name in ("copy.jsonl", "copy.json"):
        content = files.FORMATS[Path(name).suffix](files.read_labelled(session.journal.path))
        (tmp_path / name).write_text(content, "utf-8")
        assert {text.id: text.answers for text in files.read_labelled(tmp_path / name)} == answers
    session = Session(session.corpus, Journal(tmp_path / "again.jsonl", ONE), session.learner)
    session.add_labelled(files.read_labelled(tmp_path / "labels.jsonl"))
    assert {name: row["answers"] for name, row in rows_of(session).items()} == answers
    session.close()


def test_a_file_of_labels_that_another_program_removes_or_cuts_is_written_anew(tmp_path):
    session = started(tmp_path)
    path = session.journal.path
    say(session, None, "spam", 0)
    path.unlink()
    say(session, None, "ham", 1)
    assert len(rows_of(session)) == 2
    path.write_bytes(path.read_bytes()[:-5])
    say(session, None, "ham", 2)
    assert len(rows_of(session)) == 3
    path.unlink()
    session.close()
    assert len(rows_of(session)) == 3
