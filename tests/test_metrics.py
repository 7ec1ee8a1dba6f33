"""Metrics against their definitions, and bootstrap intervals against drawing documents one by one."""

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refuses
from scipy.stats import binomtest
from sklearn import metrics as sk
from sklearn.metrics import average_precision_score
from sklearn.model_selection import KFold, StratifiedKFold, train_test_split

from textsvm import SVC, InputError, Spectrum, cross_validate, tune
from textsvm.evaluation import metrics
from textsvm.evaluation.results import draws, evaluate, evaluate_labels
from textsvm.training.folds import make_folds, shuffle_split
from textsvm.training.targets import Target

SPAM = np.array(["ham", "spam"])


def kappa(truth, predicted, low, high):
    """Quadratic weighted kappa of the grades from low to high; NaN where all are one grade."""
    if len({*truth, *predicted}) == 1:
        return math.nan
    return sk.cohen_kappa_score(truth, predicted, labels=range(low, high + 1), weights="quadratic")


def average_precision(truth, values):
    """Of a class; NaN for one that does not occur."""
    return average_precision_score(truth, values) if truth.any() else math.nan


@pytest.mark.parametrize("k", [2, 3, 5])
@settings(max_examples=10)
@given(n=st.integers(1, 60), seed=st.integers(0, 10**6))
def test_metrics_of_classes_are_scikit_learns(k, n, seed):
    random = np.random.default_rng(seed)
    classes = np.array(list("abcde"))[:k]
    truth = random.choice(classes, n)
    predicted = np.where(random.random(n) < 0.6, truth, random.choice(classes, n))
    decision = random.normal(size=n if k == 2 else (n, k)).round(1)  # with ties
    p = random.dirichlet(np.ones(k), n)
    p[::7] = np.eye(k)[0]  # certain, and often wrong
    results = evaluate(truth, predicted, decision, classes, probability=p)
    values, options = results.metrics, {"zero_division": 0.0}
    each = np.stack([-decision, decision], axis=1) if k == 2 else decision
    precisions = [average_precision(truth == c, each[:, a]) for a, c in enumerate(classes)]
    occurring = [a for a in range(k) if (truth == classes[a]).any()]
    expected = {
        "accuracy": sk.accuracy_score(truth, predicted),
        "macro_f1": sk.f1_score(truth, predicted, average="macro", **options),
        "log_loss": sk.log_loss(truth, p, labels=classes),
        "average_precision": precisions[1] if k == 2 else np.nanmean(precisions),
    }
    if len({*truth, *predicted}) > 1:
        expected["mcc"] = sk.matthews_corrcoef(truth, predicted)
    if len(occurring) > 1:
        areas = [sk.roc_auc_score(truth == classes[a], each[:, a]) for a in occurring]
        expected["roc_auc"] = np.mean(areas)
    if k == 2 and len(occurring) == 2:
        expected["brier"] = sk.brier_score_loss(truth == "b", p[:, 1])
    if len(occurring) == 1:
        expected |= {"roc_auc": math.nan, "average_precision": math.nan}
    for name, value in expected.items():
        assert values[name] == pytest.approx(value, rel=1e-12, abs=1e-15, nan_ok=True), name
    assert "qwk" not in values
    assert results.confusion == sk.confusion_matrix(truth, predicted, labels=classes).tolist()
    rows = zip(*sk.precision_recall_fscore_support(truth, predicted, labels=classes, **options), strict=True)
    for row, expected_row, area in zip(results.per_class, rows, precisions, strict=True):
        figures = (
            [*expected_row[:3]] if expected_row[3] else [math.nan] * 3
        )  # without a document of the class
        np.testing.assert_equal([row[name] for name in ("precision", "recall", "f1")], figures)
        assert row["support"] == expected_row[3]
        np.testing.assert_equal(values[f"f1[{row['label']}]"], row["f1"])
        assert k == 2 or row["average_precision"] == pytest.approx(area, nan_ok=True)
    for name in ("precision", "recall", "f1") if k == 2 else ():
        np.testing.assert_equal(values[name], results.per_class[1][name])
    positive = truth == "b"
    if k == 2 and len(occurring) == 2:
        assert metrics.roc_area(positive, decision) == values["roc_auc"]
        for curve, theirs in zip(
            metrics.roc_curve(positive, decision), sk.roc_curve(positive, decision)[:2], strict=True
        ):
            np.testing.assert_array_equal(curve, theirs)
        theirs = sk.precision_recall_curve(positive, decision)[:2]
        for curve, of_theirs in zip(metrics.precision_recall_curve(positive, decision), theirs, strict=True):
            np.testing.assert_array_equal(curve, of_theirs[::-1][: len(curve)])
        # The other class as the positive one, with the signs turned.
        turned = evaluate(truth, predicted, decision, classes, positive="a", probability=p)
        assert turned.average_precision == pytest.approx(precisions[0])
        assert turned.recall == results.per_class[0]["recall"]
        assert (turned.metrics["brier"], turned.roc_auc) == pytest.approx(
            (values["brier"], values["roc_auc"])
        )
        assert turned.probability.tolist() == p[:, 0].tolist()


def test_average_precisions_of_several_labels_are_scikit_learns():
    random = np.random.default_rng(4)
    truth = random.random((90, 4)) < [0.2, 0.4, 0.6, 0]  # nobody has the last one
    decision = random.normal(size=(90, 4)) + truth
    classes, predicted = np.array(list("abcd")), decision > 0.5
    found = evaluate_labels(truth, predicted, decision, classes, np.full(4, 0.5)).average_precision
    assert found == pytest.approx(average_precision_score(truth[:, :3], decision[:, :3], average="macro"))
    decision[:, 0] = np.nan  # a machine that was left out ranks nothing
    found = evaluate_labels(truth, decision > 0.5, decision, classes, np.full(4, 0.5))
    assert found.per_class[0]["average_precision"] == pytest.approx(truth[:, 0].mean())


@given(st.lists(st.tuples(st.integers(2, 6), st.integers(2, 6)), min_size=2, max_size=30))
def test_kappa_of_classes_is_scikit_learns(pairs):
    truth, predicted = np.array(pairs).T
    for classes in (np.arange(2, 7), np.arange(2, 7).astype(str), np.array([2, 3, 4, 5, 12])):
        labels = [values.astype(classes.dtype) for values in (truth, predicted)]
        if classes[-1] == 12:
            truth, predicted = labels = [np.where(values == 6, 12, values) for values in (truth, predicted)]
        found = metrics.scores(*labels, None, classes)["qwk"]
        assert found == pytest.approx(kappa(truth, predicted, 2, 12), abs=1e-12, nan_ok=True)


@given(n=st.integers(2, 40), seed=st.integers(0, 10**6))
def test_kappa_of_numbers_is_scikit_learns(n, seed):
    random = np.random.default_rng(seed)
    truth = random.integers(0, 4, n).astype(float)
    predicted = truth + random.integers(-4, 5, n) / 2  # halves are rounded to even grades
    values, without = (
        metrics.scores(truth, predicted, None, None, (0, 5)),
        metrics.scores(truth, predicted, None, None),
    )
    # Clipped to the range that is given, or to that of the truth.
    for found, low, high in ((values, 0, 5), (without, int(truth.min()), int(truth.max()))):
        grades = np.clip(np.rint(predicted), low, high)
        assert found["qwk"] == pytest.approx(kappa(truth, grades, low, high), abs=1e-12, nan_ok=True)
    assert "qwk" not in metrics.scores(truth + 0.5, predicted, None, None)


@given(n=st.integers(12, 80), k=st.integers(2, 6), seed=st.integers(0, 10**6))
def test_folds_and_held_out_parts_are_scikit_learns(n, k, seed):
    codes = np.random.default_rng(seed).permutation(np.arange(n) % 5 % 2)
    for target, splitter in (
        (Target(codes, np.array(["a", "b"])), StratifiedKFold),
        (Target(codes.astype(float), None), KFold),
    ):
        expected = splitter(min(k, np.bincount(codes).max()), shuffle=True, random_state=seed).split(
            codes, codes
        )
        for ours, theirs in zip(make_folds(k, target, random_state=seed), expected, strict=True):
            assert [part.tolist() for part in ours] == [part.tolist() for part in theirs]
    for labels in (None, codes.tolist(), np.array([0, 0, 0, 1, 1, 2])[np.arange(n) % 6].tolist()):
        expected = train_test_split(range(n), test_size=k / 10, random_state=seed, stratify=labels)
        assert shuffle_split(n, k / 10, seed, labels) == tuple(map(sorted, expected))


def some_results(task, n, seed, probability=False):
    random = np.random.default_rng(seed)
    if task == "regression":
        truth = random.integers(0, 6, n).astype(float)
        return evaluate(truth, truth + random.normal(size=n), truth, None, grades=(0, 5))
    classes = SPAM if task == "binary" else np.arange(4)
    truth = random.choice(classes, n)
    predicted = np.where(random.random(n) < 0.7, truth, random.choice(classes, n))
    decision = random.normal(size=n if task == "binary" else (n, 4)).round(1)  # with ties
    p = random.dirichlet(np.ones(len(classes)), n) if probability else None
    return evaluate(truth, predicted, decision, classes, probability=p)


@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
@settings(max_examples=30)
@given(n=st.integers(2, 40), seed=st.integers(0, 10**6))
def test_resamples_have_the_metrics_of_their_documents(task, n, seed):
    results = some_results(task, n, seed, probability=task != "regression")
    [weight] = draws(n, 5, seed)
    assert (weight.sum(1) == n).all()
    found = results.weighted(weight)
    assert found.keys() == results.metrics.keys()
    classes = None if task == "regression" else np.sort(results.labels)
    for row, counts in enumerate(weight.astype(int)):
        drawn = np.repeat(np.arange(n), counts)
        p = results.probability
        if task == "binary":
            p = np.stack([1 - p, p], axis=1)
        again = evaluate(
            results.truth[drawn], results.predicted[drawn], results.decision[drawn], classes,
            grades=results.span, probability=None if p is None else p[drawn],
        )  # fmt: skip
        for name, value in again.metrics.items():
            assert found[name][row] == pytest.approx(value, abs=1e-9, nan_ok=True), name


def test_intervals_of_perfect_predictions_have_a_width():
    truth = np.repeat(["ham", "spam"], 100)
    decision = np.repeat([-1.0, 1.0], 100)
    found = evaluate(truth, truth, decision, SPAM).with_intervals(50).intervals
    assert found["accuracy"] == pytest.approx(tuple(binomtest(200, 200).proportion_ci(0.95, "exact")))
    assert found["recall"] == pytest.approx(tuple(binomtest(100, 100).proportion_ci(0.95, "exact")))
    assert found["f1"] == found["f1[spam]"]
    assert 0.96 < found["f1"][0] < found["f1"][1] == 1
    assert np.isnan(found["mcc"]).all()  # all resamples agree, so the bootstrap has no interval
    none = evaluate(truth, truth[::-1], decision, SPAM).with_intervals(50).intervals
    assert none["accuracy"][0] == none["f1"][0] == 0 < none["f1"][1] < 0.05


def test_labels_that_do_not_fit():
    refuses("no labelled documents", evaluate, [], [], np.zeros(0), SPAM)
    with pytest.raises(InputError, match="knows the labels ham, spam, and the documents have good"):
        evaluate(["good"], ["ham"], np.zeros(1), SPAM)
    results = evaluate(["ham", "new", "spam"], ["ham", "ham", "ham"], np.zeros(3), SPAM)
    assert results.n == 2
    assert results.index.tolist() == [0, 2]
    assert "1 of 3 documents have labels that the model does not know (new" in results.warnings[0]
    assert evaluate(["1", "2"], np.array([1, 1]), np.zeros(2), np.array([1, 2])).accuracy == 0.5
    for grades in ((3, 3), (0, 1000)):
        refuses("grades", evaluate, [1.0], np.ones(1), np.ones(1), None, grades=grades)


def test_cross_validation_and_tuning_judge_the_positive_class():
    texts = ["abab", "abba", "baba", "bbab", "aabb", "abaa"] * 4
    labels = ["few", "many", "many", "many", "few", "many"] * 4
    model = SVC(Spectrum(2), device="cpu")
    found = cross_validate(model, texts, labels, cv=2, positive="few")
    rare = np.array(labels) == "few"
    expected = average_precision_score(rare, -found.decision)
    assert found.pooled["average_precision"] == pytest.approx(expected)
    assert found.pooled["f1"] == found.pooled["f1[few]"]
    second = cross_validate(model, texts, labels, cv=2).pooled["average_precision"]
    assert second == pytest.approx(average_precision_score(~rare, found.decision))
    result = tune(model, texts, labels, {"C": [1]}, cv=2, metric="average_precision", positive="few")
    assert result.best_score == pytest.approx(found.mean["average_precision"])
    refuses("leave it out", cross_validate, model, texts, labels, cv=2, positive="rest")


def test_at_the_break_even_point_equal_values_share_the_last_places():
    """Two documents have the label: the first place is right, and a third of the second."""
    truth, values = np.array([True, True, False, False]), np.array([3.0, 2, 2, 2])
    assert metrics.break_even(truth, values) == pytest.approx(2 / 3)
    assert metrics.break_even(~truth, -values) == pytest.approx(2 / 3)
    assert metrics.break_even(np.array([True, False]), np.array([np.nan, 0.0])) == 0
    assert math.isnan(metrics.break_even(np.zeros(4, bool), values))


def test_resamples_of_equal_numbers_have_no_correlation():
    """Their variance is 0 up to rounding."""
    rng = np.random.default_rng(0)
    truth, predicted = (np.tile(rng.normal(size=5), 4) for _ in range(2))
    drawn = np.stack([(np.arange(20) % 5 == row % 5) * rng.integers(1, 6, 20) for row in range(200)])
    with np.errstate(divide="ignore", invalid="ignore"):
        found = metrics.number_metrics(drawn.astype(float), truth, predicted)
    assert np.isnan(found["pearson"]).all()
    assert np.isnan(found["r2"]).all()


@pytest.mark.parametrize(("last", "are_grades"), [(999, True), (1000, False)])
def test_a_wide_range_of_numbers_is_not_of_grades(last, are_grades):
    assert ("qwk" in metrics.scores([0, last, 5], [0, last, 7], None, None)) == are_grades


def test_intervals_of_many_classes_take_little_memory(monkeypatch):
    """A confusion matrix for each of 200 resamples would take 200 x 400 x 400 x 8 bytes = 256 MB."""
    random, classes = np.random.default_rng(0), np.arange(400) * 10_000
    truth = np.repeat(classes, 2)
    predicted, decision = random.permutation(truth), random.normal(size=(800, 400))
    results = evaluate(truth, predicted, decision, classes)
    monkeypatch.setattr("textsvm.evaluation.results.MOST_RANKED", decision.size - 1)
    assert results.areas_left_out
    tracemalloc.start()
    intervals = results.with_intervals(200).intervals
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 << 20
    assert np.isnan(intervals["average_precision"]).all()
    assert np.isfinite(intervals["macro_f1"]).all()
