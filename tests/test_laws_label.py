"""What holds for the estimates of `textsvm label`: near-copies, texts outside the pool, costs of labels."""

import json
import os
import random
import stat
from collections import Counter

import numpy as np
import pytest
from refusals import refuses
from scipy import stats
from scipy.optimize import curve_fit
from test_label_page import ONE, InOrder, corpus_of, labels_in

from textsvm.apps.label import commands
from textsvm.apps.label import machine as label_machine
from textsvm.apps.label import session as label_session
from textsvm.apps.label.files import FORMATS, Journal, LabelledText
from textsvm.apps.label.learner import Candidates, Learner, _left_out, labels_per_point, rank, retrieval
from textsvm.apps.label.machine import Machine
from textsvm.apps.label.session import Session
from textsvm.cli.console import Console


def test_values_of_near_copies_are_those_of_a_machine_without_all_of_them():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(24, 5)) + 1
    target = np.where(rng.random((24, 2)) < 0.35, 1.0, -1.0)
    rows, gram = np.arange(3, 24), x @ x.T
    machine = Machine.train(gram[np.ix_(rows, rows)], target[rows], True)
    copies = [np.array([0, 4, 9]), np.array([5, 6])]
    values = _left_out(gram[:, rows].astype(np.float32), machine, rows, copies)
    for group in copies:
        rest = np.setdiff1d(rows, group)
        other = Machine.train(gram[np.ix_(rest, rest)], target[rest], True)
        assert np.abs(other.bias).max() > 0.01
        expected = gram[np.ix_(group, rest)] @ other.coef + other.bias
        assert values[group] == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("share", [0.1, 0.6])
def test_texts_outside_the_pool_are_like_those_of_the_pool(share):
    """The pool is a random sample: k times as many texts outside have k times as many relevant texts."""
    rng = np.random.default_rng(1)
    relevant = rng.random(50) < share
    values, unlabelled = rng.normal(size=50) + 2 * relevant, rng.normal(size=150) + 1
    inside = retrieval(relevant, values, unlabelled, 0).total
    for k in (1, 2, 7):
        assert retrieval(relevant, values, unlabelled, 200 * k).total == pytest.approx((k + 1) * inside)


def test_the_cost_of_a_point_is_that_of_scipys_power_law():
    sizes = np.array([10.0, 20, 40, 80, 160])
    accuracy = 1 - np.array([0.52, 0.31, 0.25, 0.16, 0.13])
    (b, c), _ = curve_fit(
        lambda x, b, c: b - c * x, np.log(sizes), np.log(1 - accuracy), sigma=1 / np.sqrt(sizes)
    )
    needed = np.exp((b - np.log(np.exp(b - c * np.log(160)) - 0.01)) / c) - 160
    curve = list(zip(sizes.astype(int).tolist(), accuracy.tolist(), strict=True))
    assert labels_per_point(curve) == pytest.approx(needed, rel=1e-6)
    assert labels_per_point(curve[:2]) is None
    assert labels_per_point([(n, 0.5) for n in (10, 20, 40)]) is None


def test_the_name_of_a_new_journal_survives_a_power_loss(tmp_path, monkeypatch):
    folders, fsync = [], os.fsync

    def synced(handle):
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            folders.append(os.fstat(handle).st_ino)
        fsync(handle)

    monkeypatch.setattr(os, "fsync", synced)
    Journal(tmp_path / "labels.jsonl", False).close()
    assert tmp_path.stat().st_ino in folders


# The session with its real learner

WORDS = ["win", "cash", "prize", "lunch", "noon", "dinner", "train", "paper"]
POOL = [" ".join(WORDS[(i * k + j) % 8] for j, k in enumerate((1, 3, 5))) + f" {i // 2}" for i in range(30)]


def opened(folder, suggestions=None):
    corpus = corpus_of(POOL)
    learner = Learner(POOL, ["spam", "ham"], random_share=0.3)
    return Session(corpus, Journal(folder / "labels.jsonl", ONE), learner, 0, suggestions or {})


@pytest.mark.parametrize("seed", range(4))
def test_a_new_start_has_the_estimates_and_the_next_text_of_before(seed, tmp_path):
    """After any answers, corrections, skips, undos and separated copies."""
    draw, session = random.Random(seed), opened(tmp_path)
    for _ in range(30):
        shown = session.next()["text"]
        if shown is None:
            break
        step, label = draw.random(), draw.choice(["spam", "ham", "ham", None])
        if step < 0.15:
            session.skip(shown["index"])
        elif step < 0.7:
            session.answer(shown["index"], shown["seen"], label)
        elif step < 0.8 and session.overview()["undo"]:
            session.undo(session.journal.events)
        elif step < 0.9 and session.journal.answers:
            index = session._number_of[draw.choice([*session.journal.answers])]
            session.answer(index, session.show(index)["text"]["seen"], label)
        elif session.journal.answers:
            session.separate(session._number_of[draw.choice([*session.journal.answers])])
    session.learner.refresh()
    before = session.overview()
    shares = session.learner._sampled(np.arange(len(POOL)))
    session.journal.close()
    again = opened(tmp_path)
    again.learner.refresh()
    after = again.overview()
    for name in ("labels", "history", "counts", "n", "by"):
        assert after[name] == before[name]
    for name in ("n_labelled", "n_random", "accuracy", "interval", "labels_per_point"):
        assert after["progress"][name] == before["progress"][name]
    assert again.learner._sampled(np.arange(len(POOL))).tolist() == shares.tolist()
    assert again.learner.next() == session.learner.next()
    again.journal.close()


def test_pages_of_lists_cover_all_answers_and_all_texts_with_the_words(tmp_path, monkeypatch):
    monkeypatch.setattr(label_session, "LISTED", 7)
    session = opened(tmp_path)
    for index in range(len(POOL)):
        seen = session.show(index, by="anna")["text"]["seen"]
        session.answer(index, seen, ["spam", "ham"][index % 2], "anna")
    everything = [session.corpus.ids.index(name) for name in reversed(session.journal.own["anna"])]
    listed = []
    for skip in range(0, len(POOL) + 7, 7):
        listed += [entry["index"] for entry in session.history(skip, "anna")["history"]]
    assert listed == everything
    assert len(everything) == len(POOL)
    for words in ("win", "lunch noon", "1", "nothing"):
        found, start = [], 0
        for _ in range(len(POOL)):
            if start is not None:
                page = session.search(words, start, "anna")
                found, start = found + page["entries"], page["next"]
        expected = [i for i, text in enumerate(POOL) if all(word in text for word in words.split())]
        assert [entry["index"] for entry in found] == expected
        for entry in found:
            assert entry["answered"]
            assert entry["label"] == ["spam", "ham"][entry["index"] % 2]
    assert dict(session.overview("anna")["counts"]) == {"spam": 15, "ham": 15}
    session.journal.close()


def test_suggestions_weigh_by_the_lower_end_of_their_share_beyond_chance(tmp_path):
    rng = np.random.default_rng(0)
    truth = ["spam" if i % 3 else "ham" for i in range(30)]
    given = [label if rng.random() < 0.85 else "spam" for label in truth]
    session = opened(tmp_path, {f"t{i}": [label] for i, label in enumerate(given)})
    for index in range(24):
        session._desks[None].chosen[index] = "random" if index % 4 else "strategy"
        if f"t{index}" not in session.journal.answers:
            session.answer(index, 0, truth[index])
    judged = session.judge_suggestions()
    entries = {session._number_of[x.id]: x for x in session.journal.answers.values() if x.chosen == "random"}
    pairs = [(given[i], entry.label) for i, entry in entries.items()]
    n, right = len(pairs), sum(a == b for a, b in pairs)
    assert 8 < right < n
    low, high = stats.binomtest(right, n).proportion_ci(0.95, "exact")
    chance = sum(
        np.mean([a == x for a, _ in pairs]) * np.mean([b == x for _, b in pairs]) for x in ("spam", "ham")
    )
    assert (judged["n"], judged["right"]) == (n, right)
    assert judged["interval"] == pytest.approx((low, high))
    assert judged["weight"] == pytest.approx(max(0, (low - chance) / (1 - chance)))
    session.journal.close()


def test_a_skipped_text_is_not_proposed_for_any_reason():
    """Neither at random, nor by the strategy, nor as a doubt, unless all are skipped."""
    texts = [f"{'win cash' if i % 2 else 'lunch noon'} {chr(97 + i)}{i}" for i in range(26)]
    labels = ["spam" if i % 2 else "ham" for i in range(26)]
    learner, reasons = Learner(texts, strategy="margin", random_share=0.3), set()
    learner.answer(5, "ham")  # which is wrong
    while proposal := learner.next():
        other = learner.next({proposal.index})
        assert other is None or other.index != proposal.index
        reasons.add(proposal.reason)
        learner.answer(proposal.index, labels[proposal.index], proposal.reason == "random")
        learner.refresh()
    assert reasons == {"random", "strategy", "doubt"}


def test_the_answer_that_counts_is_that_of_most_people_or_the_decision(tmp_path):
    """Of named people alone if there are any, over random answers and decisions."""
    rng, session = np.random.default_rng(1), opened(tmp_path)
    people, labels = [None, "anna", "ben", "cleo"], ["spam", "ham", None]
    own, decided = {}, {}
    for _ in range(150):
        index, by = int(rng.integers(10)) * 3, people[rng.integers(4)]
        label, name = labels[rng.integers(3)], f"t{index}"
        if rng.random() < 0.06 and len(session.journal.answers_of_people(name)) > 1:
            session.decide(index, session.journal.revisions[name, ""], label, by)
            decided[name] = label
        else:
            session.answer(index, session.journal.revisions[name, by], label, by)
            own[name, by] = label
        named = [label for (text, by), label in own.items() if text == name and by]
        votes = Counter(x for x in (named or [own[name, None]]) if x is not None)
        best = [x for x, n in votes.items() if n == max(votes.values())]
        expected = decided.get(name, best[0] if len(best) == 1 else None)
        assert session.journal.answers[name].label == expected
    assert 0 < len(decided) < 8
    session.journal.close()


@pytest.mark.parametrize("people", [[None], ["anna", "ben"]])
@pytest.mark.parametrize("seed", range(4))
def test_each_undo_takes_back_what_a_person_did_last_and_nothing_else(people, seed, tmp_path):
    """Answers with their copies, corrections, unsure answers and skips; separated copies stay separated."""
    draw, corpus = random.Random(seed), corpus_of(["win cash", "noon", "win a prize", "win it", "see", "tea"])
    session = Session(corpus, Journal(tmp_path / "labels.jsonl", ONE), InOrder(corpus), 0)
    done = {by: [] for by in people}  # the text, the answers before (None: it was skipped), events

    def answers(by, session=session):
        return {name: (entry.label, entry.copy_of) for name, (_, entry) in session.journal.own[by].items()}

    def undo(by, session=session):
        index, before, events = done[by].pop()
        others = {other: answers(other, session) for other in people if other != by}
        undone = session.undo(draw.choice([events, session.journal.events]), by)
        assert (undone["text"]["index"], undone["skipped"]) == (index, before is None)
        assert before is None or answers(by, session) == before
        assert {other: answers(other, session) for other in others} == others
        assert undone["text"]["label"] == answers(by, session).get(f"t{index}", (None,))[0]
        if by is before is None:
            assert session.next()["text"]["index"] <= index

    for _ in range(60):
        by, index, step = draw.choice(people), draw.randrange(6), draw.random()
        before, answered = answers(by), f"t{index}" in answers(by)
        if step < 0.2 and not answered:
            session.skip(index, by)
            done[by].append((index, None, session.journal.events))
        elif step < 0.35 and answered:
            session.separate(index, by)
            gone = {name for name, (_, copy_of) in before.items() if copy_of == f"t{index}"}
            assert answers(by) == {name: before[name] for name in before if name not in gone}
            acts = [act for act in done[by] if act[1] is not None]
            done[by] = [(i, {n: old[n] for n in old if n not in gone}, events) for i, old, events in acts]
        elif step < 0.6 and done[by]:
            undo(by)
        elif step >= 0.6:
            seen = session.show(index, by=by)["text"]["seen"]
            session.answer(index, seen, draw.choice(["spam", "ham", None]), by)
            acts = [act for act in done[by] if act[1] is not None]  # skips before an answer are final
            done[by] = [*acts, (index, before, session.journal.events)]
        assert session.overview(by)["undo"] == bool(done[by])
        if by is None:
            labels = {name: label for name, (label, _) in answers(by).items()}
            assert session.learner.labelled == {int(name[1:]): label for name, label in labels.items()}
            assert labels_in(session.journal.path) == {n: label for n, label in labels.items() if label}
    session.journal.close()
    again = Session(corpus, Journal(session.journal.path, ONE), InOrder(corpus), 0)
    assert [answers(by, again) for by in people] == [answers(by) for by in people]
    assert again.journal.revisions == session.journal.revisions
    assert [*again.journal.answers] == [*session.journal.answers]
    for by in people:
        done[by] = [act for act in done[by] if act[1] is not None]  # skips end with the session
        while done[by]:
            undo(by, again)
        refuses("nothing to undo", again.undo, again.journal.events, by)
    again.journal.close()


# The learner, its guesses and its orders

FRUIT, CARS = ["apple", "pear", "plum", "melon"], ["wheel", "road", "brake", "horn"]


def topics(n, seed=0):
    """Texts on fruit and on cars in turns, and their labels."""
    rng = np.random.default_rng(seed)
    texts = [" ".join(rng.choice((FRUIT, CARS)[i % 2], 4)) + f" {chr(97 + i % 26)}{i}" for i in range(n)]
    return texts, ["fruit" if i % 2 == 0 else "car" for i in range(n)]


def letters(texts):
    """Vectors with the numbers of some letters, of no more than the text itself."""
    return np.array([[text.count(letter) for letter in "aeghlmnprw"] for text in texts], np.float32)


@pytest.mark.parametrize("relevant", [None, "fruit"])
def test_a_search_learns_no_suggestions(relevant):
    """Its stopping rule compares values of one machine."""
    texts, labels = topics(40)
    guesses = []
    for weight in (0.0, 1.0):
        learner = Learner(texts, ["fruit", "car"], relevant=relevant)
        learner.suggestions = {i: [labels[i]] for i in range(20, 40)}
        learner.suggestion_weight = weight
        for i in range(6):
            learner.answer(i, labels[i])
        learner.refresh()
        guesses.append([learner.guess(i).scores for i in range(20, 40)])
    assert (guesses[0] == guesses[1]) == (relevant is not None)


def test_near_copies_get_the_label_of_a_text_for_whatever_reason_it_is_shown():
    """Those with other white space at once, those with another word when the text is proposed."""
    texts, labels = topics(30)
    rng = np.random.default_rng(0)
    texts = [f"{text} {' '.join(map(''.join, rng.choice([*'aeioubdfgk'], (40, 6))))}" for text in texts]
    texts += [f"{text} too" for text in texts]
    for share in (0.0, 1.0):
        learner, reasons = Learner(texts, ["fruit", "car"], random_share=share), set()
        for i in range(4):
            learner.answer(i, labels[i])
        learner.refresh()
        proposal = learner.next()
        reasons.add(proposal.reason)
        copies = learner.answer(proposal.index, labels[proposal.index % 30], proposal.reason == "random")
        assert (proposal.index + 30) % 60 in copies
        assert reasons == {"random" if share else "strategy"}


@pytest.mark.parametrize("first", [8, 60])
def test_kernel_values_are_those_of_the_vectors_of_each_text(first, monkeypatch):
    """Also of texts that have no vector yet."""
    monkeypatch.setattr(label_machine, "BATCH", first)
    texts = topics(60)[0]
    pool = label_machine.Pool(texts, np.random.default_rng(0).permutation(60), letters)
    rows = [59, 3, 17, 0, 44, 3]
    assert np.allclose(pool.vectors_of(rows), pool.encoder([texts[i] for i in rows]), atol=1e-6)
    strings, meaning = pool.grams(rows, [5, 50])
    assert np.allclose(
        meaning, pool.encoder([texts[i] for i in rows]) @ pool.encoder([texts[5], texts[50]]).T
    )
    assert np.allclose(strings, (pool.rows_of(rows) @ pool.rows_of([5, 50]).T).toarray())


@pytest.mark.parametrize("n_labelled", [4, 5])
def test_orders_are_those_of_their_definitions(n_labelled):
    x = np.random.default_rng(0).normal(size=(30, 4))
    target = np.where(x[:n_labelled, :1] > 0, 1.0, -1.0) * [1, -1]
    machine = Machine.train(x[:n_labelled] @ x[:n_labelled].T, target)
    values = x[n_labelled:] @ x[:n_labelled].T @ machine.coef + machine.bias

    def candidates():
        similarity, labelled = lambda a, b: x[a] @ x[b].T, np.arange(n_labelled)
        random_draws = np.random.default_rng(3)
        return Candidates(np.arange(n_labelled, 30), labelled, values, machine, similarity, random_draws, 0)

    p = machine.probabilities(values)
    unclear = 1 - np.abs(p[:, 0] - p[:, 1])
    margin = np.argsort(-unclear, kind="stable").tolist()
    dense = candidates().cover(unclear, 10).tolist()
    assert dense != candidates().cover(np.ones(30 - n_labelled), 10).tolist()
    pair = (margin, dense) if n_labelled % 2 else (dense, margin)
    mixed = list(dict.fromkeys(i for both in zip(*pair, strict=False) for i in both))
    for name, expected in (("margin", margin), ("mixture", mixed)):
        assert rank(name, candidates(), 10).tolist() == expected[:10]
    assert rank("relevance", candidates(), 10).tolist() == np.argsort(-values[:, 0])[:10].tolist()


def test_probabilities_of_several_labels_are_the_likeliest_of_any_scale():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 4))
    target = np.sign(x @ rng.normal(size=(4, 3)) + rng.normal(size=(60, 3)))
    machine = Machine.train(x @ x.T, target, multilabel=True)

    def likelihood(factor):
        return np.log(np.abs(machine.probabilities(factor * machine.left_out) - (target < 0))).sum()

    assert likelihood(1) > max(likelihood(0.7), likelihood(1.4))


def test_the_guess_of_a_text_has_the_letters_that_are_shown(tmp_path, monkeypatch):
    monkeypatch.setattr(label_session, "SHOWN", 8)
    session = opened(tmp_path)
    for index in range(0, 12):
        session.answer(index, 0, "spam" if "win" in POOL[index] or "cash" in POOL[index] else "ham")
    session.learner.refresh()
    for index in (15, 20):
        for whole in (False, True):
            view = session.show(index, whole=whole)["text"]
            pieces = session.guess(index, whole)["pieces"]
            text = POOL[index] if whole else POOL[index][:8]
            assert "".join(piece for piece, _ in pieces) == view["pieces"][0][0] == text
            assert view["hidden"] == len(POOL[index]) - len(text)
    session.journal.close()


@pytest.mark.parametrize("several", [False, True])
def test_labels_of_other_programs_are_those_of_the_texts(several, tmp_path, capsys):
    """Imported from a table, also of texts that look like formulas, and suggested in a column."""
    texts = ["=1+1 is two", "lunch at noon", "+win cash"]
    labels = ["=spam", "ham", "=spam"]
    cells = [f"{label};{'long' if 'n' in text else '-short'}" * several or label
             for text, label in zip(texts, labels, strict=True)]  # fmt: skip
    (tmp_path / "t.jsonl").write_text(
        "".join(
            json.dumps({"id": f"t{i}", "text": text, "rule": cells[i]}) + "\n" for i, text in enumerate(texts)
        )
    )
    expected = [cell.split(";") if several else cell for cell in cells]
    labelled = [LabelledText(f"t{i}", text, expected[i], "train") for i, text in enumerate(texts)]
    for suffix in (".csv", ".jsonl"):
        path = tmp_path / f"exported{suffix}"
        path.write_text(FORMATS[suffix](labelled), "utf-8", newline="")
        options = commands.LabellingOptions(
            output=tmp_path / f"l{suffix}.jsonl", comma_labels="=spam,ham,long,-short", multilabel=several,
            suggest="rule",
        )  # fmt: skip
        session = commands._session(
            Console(True), [tmp_path / "t.jsonl"], options, commands.ExchangeOptions(import_=path),
            commands.TextReading(),
        )  # fmt: skip
        assert {name: entry.label for name, entry in session.journal.answers.items()} == {
            f"t{i}": label for i, label in enumerate(expected)
        }
        assert session._suggestions == {f"t{i}": cell.split(";") for i, cell in enumerate(cells)}
        session.close()


def test_a_removed_label_stays_removed_though_the_command_names_it(tmp_path):
    session = opened(tmp_path)
    session.add_label("other")
    session.remove_label("other")
    assert session.journal.with_labels(["spam", "other", "new"]) == ["spam", "ham", "new"]
    session.journal.close()
    journal = Journal(tmp_path / "labels.jsonl", ONE)
    assert journal.with_labels(["other", "new"]) == ["spam", "ham", "new"]
    journal.close()
