"""Prediction sets and rejection: promises are kept for new texts, and go with the model."""

import json

import numpy as np
import pytest
from command import works
from refusals import refuses
from test_doubts import corpus

from textsvm import SVC, CalibratedSVC, Spectrum, save
from textsvm.evaluation.judge import judge
from textsvm.model.conformal import Conformity, largest
from textsvm.reporting.report import make_report


def drawn(n, seed=0, classes=4):
    """Decision values and probabilities of noisy texts, and their classes, the last one rare."""
    rng = np.random.default_rng(seed)
    codes = rng.choice(classes, n, p=[0.5, 0.3, 0.15, 0.05])
    decision = 1.5 * np.eye(classes)[codes] + rng.normal(size=(n, classes))
    p = np.exp(2 * decision)
    return decision, p / p.sum(axis=1, keepdims=True), codes


@pytest.mark.parametrize("coverage", [0.8, 0.95])
def test_sets_hold_the_true_class_as_promised(coverage):
    decision, p, codes = drawn(4000)
    conformity = Conformity.of(p, decision, codes)
    _, p, codes = drawn(20_000, 1)
    sets, by_class = (conformity.sets(p, coverage, per_class) for per_class in (False, True))
    held = sets[np.arange(len(codes)), codes]
    assert abs(held.mean() - coverage) < 0.02 or (held.mean() > coverage and sets.sum(axis=1).max() == 1)
    assert sets.any(axis=1).all()
    for k, n in enumerate(np.diff(conformity.starts)):  # four standard deviations of what n texts say
        spread = 4 * np.sqrt(coverage * (1 - coverage) / n)
        assert by_class[codes == k, k].mean() > coverage - spread
    assert (conformity.sets(p, 0.99) >= sets).all()


def test_a_class_of_few_texts_is_in_every_set_that_promises_it():
    decision, p, codes = drawn(300)
    codes[codes == 3] = 0
    codes[:5] = 3
    assert Conformity.of(p, decision, codes).sets(p, 0.95, per_class=True)[:, 3].all()


def test_as_many_known_texts_are_rejected_as_may_be():
    decision, p, codes = drawn(4000)
    conformity = Conformity.of(p, decision, codes)
    assert (~conformity.known(decision, 0.05)).mean() <= 0.05
    assert 0.03 < (~conformity.known(drawn(20_000, 1)[0], 0.05)).mean() < 0.07
    assert not conformity.known(np.full((1, 4), -9.0), 0.001)[0]
    assert largest(np.array([-2.0, 1.0])).tolist() == [2, 1]


def test_equal_values_of_training_texts_count():
    """A class is in a set if (1 + #{i : s_i <= p}) / (n + 1) > 1 - coverage, here for s_i = p."""
    decision, p = np.zeros((9, 2)), np.full((9, 2), 0.5)
    conformity = Conformity.of(p, decision, np.arange(9) % 2)
    new = np.array([[0.5, 0.5], [0.51, 0.49]])
    for per_class in (False, True):
        assert conformity.sets(new, 0.7, per_class).tolist() == [[True, True], [True, False]]
    assert conformity.known(np.array([[0.0, -1.0], [-0.01, -1.0]]), 0.1).tolist() == [True, False]


@pytest.mark.parametrize("share", [0, 1, -0.1, True, "0.9", None, float("nan")])
def test_shares_are_between_0_and_1(share):
    decision, p, codes = drawn(20)
    conformity = Conformity.of(p, decision, codes)
    refuses("above 0 and below 1", conformity.sets, p, share)
    refuses("above 0 and below 1", conformity.known, decision, share)


def test_a_model_rejects_the_share_that_is_asked_for(fitted):
    texts, _ = corpus(60, seed=5)
    known = [fitted.predict_known(texts, rejected) for rejected in (0.05, 0.6)]
    conformity = fitted.model_.rule.conformity
    assert np.array_equal(known[1], conformity.known(fitted.decision_function(texts), 0.6))
    assert known[1].sum() < known[0].sum()


@pytest.fixture(scope="module")
def fitted():
    texts, labels = corpus(90)
    return CalibratedSVC(SVC(Spectrum(3))).fit(texts, labels)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("own", np.array([2.0, 1.0])),
        ("own", np.array([np.nan, 1.0])),
        ("starts", np.array([0, 3, 2])),
        ("starts", np.array([0, 2])),
        ("largest", np.array([1.0, 0.0])),
        ("largest", np.array([1, 2])),
    ],
)
def test_what_is_damaged_is_refused(name, values):
    good = {"own": np.array([0.1, 0.2]), "starts": np.array([0, 2, 2]), "largest": np.array([0.0, 1.0])}
    assert Conformity.restore(good, 2).state().keys() == good.keys()
    with pytest.raises(ValueError, match="its conformity"):
        Conformity.restore(good | {name: values}, 2)


def test_results_and_reports_say_what_was_promised_and_kept(fitted):
    texts, labels = corpus(60, 3)
    results = judge(fitted, texts, labels)
    assert [each["promised"] for each in results.sets] == [0.9, 0.95, 0.99]
    assert results.sets[0]["coverage"] >= 0.9
    values, p = np.linspace(0.1, 0.9, 19), np.array([[0.5, 0.35, 0.15], [0.9, 0.05, 0.05]])
    rows, _ = Conformity(values, np.array([0, 19, 19, 19]), values).summary(p, p, np.array([2, 0]))
    assert rows[0] == {"promised": 0.9, "coverage": 1.0, "mean_size": 2.0, "single": 0.5}
    assert results.rejected["allowed"] == 0.05
    assert results.rejected["unlike"] < 0.2
    assert results.as_dict()["sets"] == results.sets
    facts = dict(make_report(fitted.model_, results, texts, [str(i) for i in range(60)], mistakes=0).facts)
    assert "hold the true class" in facts["sets that promise 95%"]
    assert "unlike every class" in facts
    plain = judge(SVC(Spectrum(3)).fit(texts, labels), texts, labels)
    assert plain.sets == []
    assert plain.rejected == {}


def test_the_command_gives_sets_and_no_label_to_what_is_unlike(fitted, tmp_path):
    path = _saved(fitted, tmp_path)
    (tmp_path / "t.csv").write_text("text\nripe apple juice plum\nЖЩЫ ЪЭЮ\n", encoding="utf-8")
    promises = ["--coverage", "0.95", "--none", "0.05"]
    done = works("predict", path, tmp_path / "t.csv", "--text", "text", "-q", *promises)
    first, second = map(json.loads, done.stdout.decode().splitlines())
    assert first["label"] == "fruit"
    assert first["set"] == ["fruit"]
    assert second["label"] is None
    assert second["set"]


def _saved(model, folder):
    save(model, folder / "m.textsvm")
    return folder / "m.textsvm"


@pytest.mark.parametrize("coverage", [0.25, 0.5, 0.75])
def test_sets_are_those_of_their_definition_also_at_the_bound(coverage):
    """Shares of eighths, and of fourths in a class, equal 1 - coverage exactly."""
    rng = np.random.default_rng(0)
    codes, p = np.array([0, 0, 0, 1, 1, 1, 2]), rng.dirichlet([1, 1, 1], 7)
    own, new = p[np.arange(7), codes], np.concatenate([p, rng.dirichlet([1, 1, 1], 99)])  # with equal ones
    for per_class in (False, True):
        found = Conformity.of(p, p, codes).sets(new, coverage, per_class)
        for row, values in zip(found, new, strict=True):
            for k, value in enumerate(values):
                scores = own[codes == k] if per_class else own
                share = (1 + np.sum(scores <= value)) / (len(scores) + 1)
                assert row[k] == (share > 1 - coverage or k == values.argmax())
    most = p.max(axis=1)
    shares = (1 + (most <= new.max(axis=1)[:, None]).sum(axis=1)) / 8
    assert np.array_equal(Conformity.of(p, p, codes).known(new, coverage), shares > coverage)
