"""Labelling with the machine: choices, answers, estimates and stopping."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from threading import Event, Thread, current_thread
from time import sleep

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from textsvm import Spectrum, SpectrumFeatures
from textsvm.apps.label import machine as rows
from textsvm.apps.label.learner import (
    PAUSE,
    STRATEGIES,
    Candidates,
    Learner,
    _left_out,
    labels_per_point,
    retrieval,
)
from textsvm.apps.label.machine import ColumnWeights, Machine, Pool
from textsvm.errors import InputError
from textsvm.runtime.parallel import one_blas_thread

WORDS = {
    "fruit": ["apple", "cherry", "plum", "pear", "grape", "melon"],
    "car": ["wheel", "engine", "road", "brake", "seat", "horn"],
}


def corpus(n: int = 120, seed: int = 0) -> tuple[list[str], list[str]]:
    """Texts of four words of their label."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(sorted(WORDS), n).tolist()
    return [" ".join(rng.choice(WORDS[label], 4)) + f" {i}x" for i, label in enumerate(labels)], labels


def label_texts(learner: Learner, labels: list[str], n: int) -> list[tuple[int, str]]:
    """Answer n texts; return index and reason of each."""
    shown = []
    for _ in range(n):
        choice = learner.next()
        if choice is None:
            break
        shown.append((choice.index, choice.reason))
        learner.answer(choice.index, labels[choice.index], choice.reason == "random")
        learner.refresh()
    return shown


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_choices_depend_on_the_seed_alone(strategy):
    texts, labels = corpus(40)
    runs = [label_texts(Learner(texts, strategy=strategy, seed=seed), labels, 14) for seed in (0, 0, 1)]
    assert runs[0] == runs[1] != runs[2]


def test_every_text_is_asked_for_until_none_is_left():
    texts, labels = corpus(30)
    learner = Learner(texts)
    shown = [index for index, reason in label_texts(learner, labels, 60) if reason != "doubt"]
    assert learner.next() is None
    assert len(shown) == len(set(shown))


@pytest.mark.parametrize("change", ["retracted", "replaced", "unsure"])
def test_a_changed_answer_leaves_the_machine_as_without_it(change):
    texts, labels = corpus()
    one, other = (Learner(texts) for _ in range(2))
    for i in range(30):
        one.answer(i, "car" if change == "replaced" and labels[i] == "fruit" and i < 9 else labels[i])
        if i != 7 or change != "retracted":  # who is unsure takes nothing back
            other.answer(i, labels[i])
    one.refresh()
    if change == "retracted":
        one.retract(7)
    elif change == "unsure":
        one.answer(7, None)
    else:
        for i in range(9):
            one.answer(i, labels[i])
    one.refresh()
    other.refresh()
    assert [one.guess(i) for i in range(40, 60)] == [other.guess(i) for i in range(40, 60)]
    assert one.progress() == other.progress()


@pytest.mark.parametrize(("relevant", "weighted"), [(None, False), (None, True), (0, True)])
def test_left_out_values_are_those_of_machines_without_the_texts(relevant, weighted):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20, 5))
    gram, target = x @ x.T, np.where(rng.random((20, 3)) < 0.3, 1.0, -1.0)
    factor = rng.random(20) if weighted else np.ones(20)
    machine = Machine.train(gram, target, True, relevant, factor, prior=0.7)
    for group in ([3], [0, 7, 11]):
        rest = np.setdiff1d(np.arange(20), group)
        other = Machine.train(gram[np.ix_(rest, rest)], target[rest], True, relevant, factor[rest], prior=0.7)
        coef, bias = machine.without(group)
        np.testing.assert_allclose(coef[rest], other.coef, atol=1e-9)
        np.testing.assert_allclose(bias, other.bias, atol=1e-9)
        assert not coef[group].any()
    coef, bias = machine.without([3])
    np.testing.assert_allclose(machine.left_out[3], gram[3] @ coef + bias, atol=1e-9)


def test_few_labels_of_unequal_numbers_do_not_decide_for_the_most_frequent():
    """Texts with most of their features in common: 6 labels of one class, 2 of the other."""
    codes, right = np.array([0] * 6 + [1] * 2 + [0, 1] * 20), []
    target = np.where(codes[:8, None] == [0, 1], 1.0, -1.0)
    for seed in range(6):
        noise = np.random.default_rng(seed).normal(size=(48, 4))
        x = np.column_stack([np.full(48, 6.0), np.where(codes, 1.0, -1.0), noise])
        gram = x @ x.T / (np.linalg.norm(x, axis=1)[:, None] * np.linalg.norm(x, axis=1))
        machine = Machine.train(gram[:8, :8], target)
        values = gram[8:, :8] @ machine.coef + machine.bias
        right.append(np.mean(values.argmax(axis=1) == codes[8:]))
    assert np.mean(right) > 0.8  # 0.55 with the prior of the labels


@given(
    arrays(np.float64, st.tuples(st.integers(2, 12), st.integers(1, 3)), elements=st.floats(-2, 2)),
    st.integers(1, 15),
    st.integers(0, 4),
)
def test_typical_texts_raise_the_similarity_to_the_nearest_most(x, n, n_labelled):
    """Greedy facility location, by its definition."""
    n_labelled = min(n_labelled, len(x) - 1)
    labelled, index = np.arange(n_labelled), np.arange(n_labelled, len(x))
    values = x[index] - x[index].mean(axis=0)
    similarity = np.maximum(values @ (x - x[index].mean(axis=0)).T, 0)
    rest = (index, labelled, None, None, lambda a, b: x[a] @ x[b].T, np.random.default_rng(0))
    chosen = Candidates(*rest).cover(np.ones(len(index)), n).tolist()
    assert len(set(chosen)) == len(chosen) == min(n, len(index))
    nearest = np.append(similarity[:, labelled], np.zeros((len(index), 1)), axis=1).max(axis=1)
    for position in chosen:
        totals = np.maximum(similarity[:, index], nearest[:, None]).sum(axis=0)
        free = [i for i in range(len(index)) if i not in chosen[: chosen.index(position)]]
        assert totals[position] >= totals[free].max() - 1e-6
        nearest = np.maximum(nearest, similarity[:, index[position]])


def test_the_estimate_of_accuracy_has_no_bias():
    """Labels without any relation to the texts: accuracy of a half, although the machine knows each label."""
    estimates = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        texts = [" ".join(rng.choice(WORDS["fruit"] + WORDS["car"], 6)) for _ in range(60)]
        labels = rng.permutation(["a", "b"] * 30).tolist()
        learner = Learner(texts, random_share=0.5, seed=seed)
        for _ in range(50):
            proposal = learner.next()
            learner.answer(proposal.index, labels[0], proposal.reason == "random")
            labels = labels[1:] + labels[:1]
        learner.refresh()
        estimates.append(learner.progress().accuracy)
    assert np.mean(estimates) == pytest.approx(0.5, abs=0.15)


def test_a_doubtful_label_comes_back_once():
    texts, labels = corpus(70)
    wrong = "fruit" if labels[5] == "car" else "car"
    learner = Learner(texts, strategy="random")
    learner.answer(5, wrong)
    shown = label_texts(learner, [*labels[:5], wrong, *labels[6:]], 60)
    assert [each for each in shown if each[1] == "doubt"].count((5, "doubt")) == 1
    assert learner.progress().n_labelled <= 70


def test_an_older_training_does_not_replace_a_later_one(monkeypatch):
    texts, labels = corpus()
    learner = Learner(texts)
    label_texts(learner, labels, 10)
    train, later = learner._train, []

    def slow(answers):
        if not later:  # another thread answers and learns during this training
            later.append(learner.next().index)
            learner.answer(later[0], labels[later[0]])
            learner.refresh()
        return train(answers)

    monkeypatch.setattr(learner, "_train", slow)
    index = learner.next().index
    learner.answer(index, labels[index])
    learner.refresh()
    assert {index, *later} <= set(learner._training.index.tolist())


def test_several_labels_per_text():
    texts, labels = corpus(60)
    texts = [f"{text} {texts[i - 1]}" for i, text in enumerate(texts)]
    given = [sorted({label, labels[i - 1]} - {"car"} if i % 2 else {label}) for i, label in enumerate(labels)]
    learner = Learner(texts, ["fruit", "car"], multilabel=True)
    shown = label_texts(learner, given, 40)
    learner.answer(shown[0][0], [])
    learner.refresh()
    assert len(shown) == 40
    assert {label for label, _ in learner.guess(0).scores} == {"fruit", "car"}
    assert 0 <= learner.progress().accuracy <= 1


def test_a_label_may_be_new_at_any_time():
    texts, labels = corpus(40)
    learner = Learner(texts, ["fruit"])
    label_texts(learner, labels, 20)
    learner.add_label("none")
    learner.add_label("none")
    assert learner.labels == ["fruit", "car", "none"]
    learner.answer(learner.next().index, "other")
    learner.refresh()
    assert {label for label, _ in learner.guess(0).scores} == {"fruit", "car", "other"}


@pytest.mark.parametrize("texts", [[""], ["", " ", ""], ["a"] * 30, ["x", "yy", "", "zzz"], ["...", "!!"]])
def test_odd_texts(texts):
    learner = Learner(texts)
    for _ in range(40):
        choice = learner.next()
        if choice is None:
            break
        learner.answer(choice.index, "ab"[choice.index % 2])
        learner.refresh()
        learner.guess(0)
        learner.progress()
    assert learner.next() is None
    assert learner.progress().n_labelled == len(texts)


def test_a_single_label_and_skipped_texts_train_nothing():
    texts, _ = corpus(30)
    learner = Learner(texts)
    label_texts(learner, ["same"] * 30, 20)
    assert learner.guess(0) is None
    assert learner.progress().accuracy is None
    skipping = Learner(texts)
    label_texts(skipping, [None] * 30, 40)
    assert skipping.next() is None
    assert skipping.progress().n_labelled == 0


def test_texts_outside_the_pool_can_be_labelled(monkeypatch):
    monkeypatch.setattr(rows, "TEXTS", 30)
    texts, labels = corpus(60)
    learner = Learner(texts)
    label_texts(learner, labels, 100)
    assert learner.next() is None
    assert learner.progress().n_labelled == 60
    assert learner.guess(0).scores[0][0] == labels[0]


def test_texts_shown_elsewhere_are_left_out():
    texts, _ = corpus(30)
    learner = Learner(texts)
    first = learner.next().index
    assert learner.next().index == first
    assert learner.next([first]).index != first


def search(x: np.ndarray, relevant: np.ndarray, seed: int, copies: int = 1) -> tuple[float, float]:
    """Recall and share of texts read when the stopping rule holds; each text has near-copies after it."""
    rng, n = np.random.default_rng(seed), len(relevant)
    gram = x @ x.T / np.outer(*2 * [np.linalg.norm(x, axis=1)])
    labelled, free = np.empty(0, np.int64), np.arange(n)
    while len(free):
        values, m = rng.random(len(free)), len(labelled)
        if 0 < relevant[labelled].sum() < m:
            target, block = np.where(relevant[labelled], 1.0, -1.0)[:, None], gram[np.ix_(labelled, labelled)]
            machine = Machine.train(block, np.hstack([target, -target]), relevant=0)
            groups = [np.arange(i, i + copies) for i in range(0, m, copies)]
            left_out = _left_out(block, machine, np.arange(m), groups)[:, 0]
            values = gram[np.ix_(free, labelled)] @ machine.coef[:, 0] + machine.bias[0]
            if retrieval(relevant[labelled[::copies]], left_out[::copies], values, 0).enough:
                break
        size = max(1, m // 12)
        draws = rng.permutation(free)[: rng.binomial(size, 0.1)]
        originals = np.unique(np.append(draws, free[np.argsort(-values)[: size - len(draws)]]) // copies)
        chosen = (rng.permutation(originals)[:, None] * copies + np.arange(copies)).ravel()
        labelled, free = np.append(labelled, chosen), np.setdiff1d(free, chosen)
    return relevant[labelled].sum() / max(1, relevant.sum()), len(labelled) / n


def searches(n: int, clusters: list[int], shift: float, n_seeds: int, copies: int = 1) -> np.ndarray:
    """`search` of clusters of relevant texts, which differ from the others in a coordinate of their own."""
    results = []
    for seed in range(n_seeds):
        x = np.random.default_rng([seed, 5]).normal(size=(n, 20))
        group = np.repeat(np.arange(len(clusters)), clusters)
        x[np.arange(len(group)), group] += shift
        relevant = np.arange(n) < len(group)
        with one_blas_thread():  # as in a training
            results.append(search(np.repeat(x, copies, axis=0), np.repeat(relevant, copies), seed, copies))
    return np.array(results)


@pytest.mark.parametrize(
    ("n", "clusters", "shift", "seeds", "copies", "least", "often", "read"),
    [
        (200, [40], 2.5, 6, 1, 0.9, 0.8, (0, 0.75)),
        (300, [15, 15], 5, 4, 1, 0.9, 0, (0, 0.7)),  # a second kind of relevant texts
        (80, [10], 2, 5, 3, 0.75, 0.7, (0, 1)),  # near-copies
        (200, [5], 3, 3, 1, 1, 1, (0.5, 1)),  # five relevant texts need most texts to be read
        (200, [30], 0, 2, 1, 0.95, 1, (0, 1)),  # a useless machine
        (200, [90], 0, 2, 1, 0.95, 1, (0, 1)),
    ],
)
def test_the_stopping_rule_finds_95_percent(n, clusters, shift, seeds, copies, least, often, read):
    """The least recall, how often it is 95 %, and the share of texts that are read."""
    recall, share = searches(n, clusters, shift, seeds, copies).T
    assert recall.min() >= least
    assert np.mean(recall >= 0.95) >= often
    assert share.mean() <= read[1]
    assert share.min() >= read[0]


def test_a_search_without_relevant_texts_reads_all():
    assert (searches(200, [], 0, 1)[:, 1] == 1).all()
    nothing = np.zeros(50, bool)
    assert not retrieval(nothing, np.zeros(50), np.zeros(20), 0).enough
    assert retrieval(nothing, np.zeros(50), np.zeros(0), 0).enough


def test_equal_values_are_judged_as_random_draws():
    """20 relevant texts, 80 others, and u without a label: two more are among these with (u / (80 + u))^2."""
    relevant = np.arange(100) < 20
    for n_free, outside, enough in ((23, 0, True), (24, 0, False), (0, 23, True), (0, 24, False)):
        state = retrieval(relevant, np.zeros(100), np.zeros(n_free), outside)
        assert state.enough is enough
        assert state.total == pytest.approx(20 + 0.2 * (n_free + outside), rel=0.1)


def test_search_reports_recall():
    texts, labels = corpus(50)
    learner = Learner(texts, relevant="fruit")
    label_texts(learner, labels, 50)
    state = learner.progress().retrieval
    assert state.enough
    assert state.n_found == labels.count("fruit")


def test_labels_per_point():
    curve = [(n, 1 - 2 * n**-0.5) for n in (50, 100, 200, 400)]
    assert labels_per_point(curve) == pytest.approx((2 / (2 * 400**-0.5 - 0.01)) ** 2 - 400, rel=1e-6)
    assert labels_per_point([(50, 0.5), (100, 0.5), (200, 0.5)]) is None
    assert labels_per_point(curve[:2]) is None


def test_a_guess_names_the_label_and_the_letters():
    texts, labels = corpus()
    learner = Learner(texts)
    assert learner.guess(0) is None
    for i in range(40):
        learner.answer(i, labels[i])
    learner.refresh()
    guess = learner.guess(50)
    assert guess.scores[0][0] == labels[50]
    assert sum(value for _, value in guess.scores) == pytest.approx(1)
    assert "".join(texts[50][a:b] for a, b, _ in guess.spans) == texts[50]


def test_texts_that_come_next_are_guessed_ahead(monkeypatch):
    texts, labels = corpus()
    learner = Learner(texts, random_share=0)
    label_texts(learner, labels, 10)
    with monkeypatch.context() as patch:
        patch.setattr(Learner, "_guess", None)
        guess = learner.guess(learner.next().index)
    learner.refresh()
    assert guess == learner._guess(learner._training, learner.next().index)


def test_weights_give_the_sums_of_kernel_values():
    texts, _ = corpus()
    pool = Pool(texts, np.random.default_rng(0).permutation(len(texts)))
    support, coef = pool.rows_of(range(20)), np.random.default_rng(0).normal(size=(20, 3))
    weights, others = ColumnWeights.of(support, coef), [*texts[90:], "unknown", ""]
    values = pool.encode(others) @ support.T @ coef
    np.testing.assert_allclose(weights.of_rows(pool.encode(others)), values, atol=1e-6)
    np.testing.assert_allclose(pool.products(weights), pool.rows @ support.T @ coef, atol=1e-6)
    nothing = ColumnWeights.of(pool.encode(["", ""]), np.ones((2, 1)))
    assert not nothing.of_rows(pool.encode(texts)).any()


def test_unusable_arguments_are_refused():
    for arguments in ({"strategy": "none"}, {"random_share": 2}, {"labels": [" "]}):
        with pytest.raises(InputError):
            Learner(["a text"], **arguments)
    with pytest.raises(InputError):
        Learner([])
    learner = Learner(["a text", "another"])
    for index, label in ((2, "a"), (0, ["a"]), (0, "")):
        with pytest.raises(InputError):
            learner.answer(index, label)
    with pytest.raises(InputError):
        learner.retract(0)


def test_many_labels_of_one_class_at_first_stop_nothing():
    texts, _ = corpus(60)
    learner = Learner(texts, random_share=1)
    for n in range(24):
        learner.answer(learner.next().index, "other" if n < 14 else "ab"[n % 2], True)
        learner.refresh()
    assert learner.progress().curve
    multi = Learner(texts, multilabel=True)
    multi.restore([(i, ["a"], True) for i in range(20)])
    multi.refresh()
    assert multi.progress().accuracy == 1


def test_random_draws_come_from_all_texts(monkeypatch):
    """The strategy takes texts of the pool; draws from there would miss what is elsewhere."""
    monkeypatch.setattr(rows, "TEXTS", 50)
    texts, labels = corpus(400)
    drawn = []
    for seed in range(3):
        learner = Learner(texts, strategy="random", seed=seed, random_share=0.9)
        pool = set(learner._pool.members.tolist())
        for index, reason in label_texts(learner, labels, 25):
            drawn += [index in pool] if reason == "random" else []
    assert np.mean(drawn) == pytest.approx(0.1, abs=0.12)


@pytest.mark.slow
def test_the_search_keeps_its_promise_beyond_the_pool(monkeypatch):
    """A ranking of a pool that hardly errs says nothing about the texts outside."""
    monkeypatch.setattr(rows, "TEXTS", 100)
    texts, labels = corpus(240)
    learner = Learner(texts, relevant="fruit")
    while (choice := learner.next()) is not None and not learner.progress().retrieval.enough:
        learner.answer(choice.index, labels[choice.index], choice.reason == "random")
        if learner.progress().n_labelled % 8 == 0:
            learner.refresh()
        found = sum(learner.relevant in given for given in learner._answers.values())
    assert found >= 0.95 * labels.count("fruit")


def test_random_answers_are_those_that_were_proposed_so():
    """Skipped texts, texts that the user picks, and texts that the strategy takes in their turn."""
    texts, labels = corpus(60)
    learner = Learner(texts, random_share=1)
    skipped = [learner.next().index]
    for _ in range(10):
        proposal = learner.next(skipped)
        assert proposal.reason == "random"
        learner.answer(proposal.index, labels[proposal.index], True)
    learner.refresh()
    assert learner.progress().n_random == 10
    picked = Learner(texts, relevant="fruit")
    for index in picked._order[:5].tolist():
        picked.answer(index, "fruit")
    assert not picked._random
    shares = [len({i for i, reason in label_texts(Learner(texts, seed=s), labels, 40) if reason == "random"})
              for s in range(2)]  # fmt: skip
    assert 1 <= sum(shares) <= 20


def test_near_copies_get_the_label_and_its_correction_and_lose_it_alone():
    texts, labels = corpus(40)
    texts += [texts[0].upper(), f"  {texts[0]}", texts[1].replace(" ", "\t")]
    learner = Learner(texts)
    assert learner.answer(0, labels[0]) == [40, 41]
    learner.retract(41)
    assert learner.answer(41, "c") == []
    assert learner.answer(42, labels[1]) == [1]
    assert learner.progress().n_labelled == 5
    assert learner.answer(0, "b") == [40]
    assert learner.answer(0, "b") == []
    assert [learner._answers[i] for i in (0, 40, 41)] == [("b",), ("b",), ("c",)]
    again = Learner(texts)
    again.restore([(0, "a", True), (40, "a", False)], {40: 0})
    assert again.answer(0, "b") == [40]


def test_test_texts_are_never_in_doubt():
    """Labels that are asked again only where the machine disagrees would make its accuracy look better."""
    texts, labels = corpus(70)
    wrong = ["fruit" if label == "car" else "car" for label in labels]
    learner = Learner(texts, random_share=1)
    for n in range(60):
        choice = learner.next()
        assert choice.reason == "random"
        learner.answer(choice.index, (wrong if n == 5 else labels)[choice.index], True)
        learner.refresh()


def test_near_copies_do_not_flatter_the_estimates():
    """Labels without any relation to the texts, each text twice with a letter more: accuracy of a half."""
    rng = np.random.default_rng(0)
    every = WORDS["fruit"] + WORDS["car"]
    texts, answers = [], []
    for i in range(40):
        words = " ".join(rng.choice(every, 60))
        texts += [words, f"{words[:-1]}s"]
        answers += [(2 * i, "ab"[i % 2], True), (2 * i + 1, "ab"[i % 2], True)]
    learner = Learner(texts)
    learner.restore(answers)
    learner.refresh()
    assert learner._pool.similarity([0], [1])[0, 0] >= 0.95
    progress = learner.progress()
    assert progress.accuracy < 0.8
    assert progress.curve[-1] == (80, progress.accuracy)


@pytest.mark.parametrize("multilabel", [False, True])
def test_before_a_relevant_text_the_search_does_not_look_for_others(multilabel):
    """Texts like those that are known to be irrelevant come last, not first."""
    texts, labels = corpus(60)
    texts = [f"{text} {text}" for text in texts]
    learner = Learner(texts, ["a", "b"], relevant="fruit", random_share=0, multilabel=multilabel)
    for n, i in enumerate([i for i, label in enumerate(labels) if label == "car"][:-8]):
        learner.answer(i, ["ab"[n % 2]] if multilabel else "ab"[n % 2])
    learner.refresh()
    assert labels[learner.next().index] == "fruit"


@pytest.mark.parametrize(
    "pair", [("1/10", "10/10"), ("thanks :)", "thanks :("), ("so good 😀", "so good 😡"), ("a1", "a2")]
)
def test_digits_punctuation_and_emoji_tell_texts_apart(pair):
    long = " ".join(WORDS["car"] * 8)
    for texts in (list(pair), [f"{long} {each}" for each in pair]):
        learner = Learner([*texts, *corpus(30)[0]])
        learner.refresh()
        learner._training = replace(learner._training, near=learner._alike([0]))
        assert learner.answer(0, "good") == []


def suggesting(weight: float) -> Learner:
    """Answers of 3 and of 9 texts of a label, and the more frequent label as suggestion for all texts."""
    texts, labels = corpus()
    learner = Learner(texts, sorted(WORDS))
    learner.suggestions, learner.suggestion_weight = {i: ["car"] for i in range(120)}, weight
    answers = [[i for i, name in enumerate(labels) if name == label] for label in WORDS]
    learner.restore([(i, labels[i], False) for i in [*answers[0][:3], *answers[1][:9]]])
    return learner


def test_suggestions_of_nearly_no_weight_change_nearly_nothing():
    learner, plain = suggesting(1e-9), suggesting(0)
    for each in (learner, plain):
        each.refresh()
    machine, other = learner._training.machine, plain._training.machine
    assert machine.prior == other.prior
    np.testing.assert_allclose(machine.left_out, other.left_out, atol=1e-6)
    np.testing.assert_allclose(machine.scale, other.scale, rtol=1e-6)
    for i in range(40, 60):
        assert dict(learner.guess(i).scores) == pytest.approx(dict(plain.guess(i).scores), abs=1e-6)


def test_an_answer_that_is_taken_back_during_a_training_is_learnt_once(monkeypatch):
    learner = suggesting(0.5)
    near_copies, index = learner._near_copies, next(iter(learner._answers))

    def retract(*arguments):
        learner.retract(index)
        return near_copies(*arguments)

    learner.answer(learner.next().index, "fruit")
    monkeypatch.setattr(learner, "_near_copies", retract)
    learner.refresh()
    assert len(learner._training.machine.coef) == 120
    monkeypatch.undo()
    monkeypatch.setattr("textsvm.apps.label.learner.SUGGESTED", 20)
    learner.answer(learner.next().index, "fruit")
    learner.refresh()
    assert len(learner._training.machine.coef) == len(learner._training.index) + 20


def letters(texts: list[str]) -> np.ndarray:
    """Vectors with the numbers of some letters."""
    return np.array([[text.count(letter) for letter in "aeghlmnprw"] for text in texts], np.float32)


def test_vectors_may_become_more_during_a_training(monkeypatch, set_values):
    set_values(rows, BATCH=16, SECONDS=0)
    texts, labels = corpus(60)
    learner, of_pool = Learner(texts, encoder=letters), rows.Scorer.of_pool

    def grow(scorer, n):
        monkeypatch.setattr(rows, "SECONDS", 60)
        learner._pool.grow()
        return of_pool(scorer, n)

    monkeypatch.setattr(rows.Scorer, "of_pool", grow)
    for i in range(8):
        learner.answer(i, labels[i])
    learner.refresh()
    assert len(learner._pool.vectors) == 60
    assert learner.next() is not None


def test_two_threads_lose_no_vectors(set_values):
    set_values(rows, BATCH=8, SECONDS=0.2)
    started, main = Event(), current_thread()

    def encode(texts):
        if current_thread() is not main:
            started.set()
            sleep(0.5)  # longer than the main thread takes
        return letters(texts)

    pool = Pool(corpus(60)[0], np.arange(60), letters)
    pool.encoder = encode
    other = Thread(target=pool.grow)
    other.start()
    started.wait()
    pool.grow()
    n = len(pool.vectors)
    other.join()
    assert len(pool.vectors) >= n > 8


def test_two_answers_tell_nothing_about_the_scale():
    """A machine of a single text gives 0, or 2e-16 by rounding."""
    for similarity in np.linspace(0, 0.9, 50):
        gram = np.array([[1, similarity], [similarity, 1]])
        assert Machine.train(gram, np.array([[1.0, -1.0], [-1.0, 1.0]])).scale == 1


@pytest.mark.parametrize("slope", [-1, -4, -20])
def test_a_reverse_ranking_counts_as_none(slope):
    """The share of relevant texts among the answers, 20 of 100, is then that of the 100 others, too."""
    relevant = np.arange(100) < 20
    values = slope * (relevant + 0.3 * np.random.default_rng(0).normal(size=100))
    for shift in (-3, 0, 3):
        assert retrieval(relevant, values + shift, np.zeros(100), 0).total == pytest.approx(40, rel=0.05)


@pytest.mark.parametrize("label", ["car", None])
def test_answers_of_two_people_to_a_doubt_are_followed_by_a_pause(label):
    """The second answer replaces the first, or the text has no label any more."""
    texts, labels = corpus()
    learner = Learner(texts, random_share=0)
    wrong = ["fruit" if name == "car" else "car" for name in labels]
    learner.restore([(i, (labels if i % 9 else wrong)[i], False) for i in range(60)])
    learner.refresh()
    while (proposal := learner.next()).reason != "doubt":
        learner.answer(proposal.index, labels[proposal.index])
    if label is None:
        learner.retract(proposal.index)
    learner.restore([(proposal.index, label, False)] * 2)
    learner.refresh()
    assert learner._training.doubts
    for _ in range(PAUSE):
        proposal = learner.next()
        assert proposal.reason != "doubt"
        learner.answer(proposal.index, labels[proposal.index])
    assert learner.next().reason == "doubt"


def test_the_curve_of_a_search_ends_at_the_estimate_of_accuracy():
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS["fruit"] + WORDS["car"], 6)) for _ in range(60)]
    learner = Learner(texts, relevant="a")
    learner.restore([(i, "ab"[int(i % 4 > 0)], True) for i in range(50)])
    learner.refresh()
    progress = learner.progress()
    assert progress.curve[-1] == (50, progress.accuracy)


def test_rows_do_not_depend_on_groups(set_values):
    texts = corpus(60)[0]
    whole = Pool(texts, np.arange(60))
    set_values(rows, BATCH=4, GROUP=3)
    pool = Pool(texts, np.arange(60))
    assert (pool.rows != whole.rows).nnz == 0
    weights = rows.ColumnWeights.of(whole.rows[[3, 50]], np.eye(2))
    np.testing.assert_array_equal(pool.products(weights), whole.products(weights))
    np.testing.assert_allclose(
        pool.products(weights), (whole.rows @ whole.rows[[3, 50]].T).toarray(), atol=1e-6
    )


def test_features_are_those_of_the_estimator():
    texts = corpus(60)[0]
    expected = SpectrumFeatures((1, 5), "log", idf=True, min_df=2, device="cpu").fit(texts[:50])
    own = rows.TextFeatures(Spectrum((1, 5), "log", idf=True), texts[:50], 2)
    more = [*texts[50:], "", "new \ud800 words"]
    assert (own.transform(more) != expected.transform(more)).nnz == 0


@pytest.mark.skipif(sys.platform != "linux", reason="malloc_trim is of glibc")
def test_freed_memory_is_returned():
    code = (
        "import numpy, textsvm.runtime.memory as memory\n"
        "def resident():\n"
        "    return int(open('/proc/self/statm').read().split()[1]) << 2\n"
        "blocks = [numpy.ones(10_000) for _ in range(1000)]\n"
        "keep, blocks = blocks[-1], None\n"
        "before = resident()\n"
        "memory.trim()\n"
        "print(before - resident())\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(run.stdout) > 50_000  # of 80 MB
