"""Metrics against their definitions, and bootstrap intervals against drawing documents one by one."""

import json
import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest
from sklearn import metrics as sk
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import average_precision_score
from sklearn.model_selection import KFold, StratifiedKFold, train_test_split

from textsvm import SVC, InputError, Spectrum, cross_validate, tune
from textsvm.evaluation.length_baseline import LengthBaseline
from textsvm.evaluation.metrics import (
    average_precisions,
    break_even,
    number_metrics,
    precision_recall_curve,
    roc_area,
    roc_curve,
    scores,
)
from textsvm.evaluation.results import draws, evaluate, evaluate_labels
from textsvm.training.folds import make_folds, shuffle_split
from textsvm.training.targets import Target

SPAM = np.array(["ham", "spam"])


def kappa(truth, predicted, low, high):
    """Quadratic weighted kappa as it is written: observed and expected tables and weights."""
    k = high - low + 1
    observed, weight = np.zeros((k, k)), np.zeros((k, k))
    for t, p in zip(truth, predicted, strict=True):
        observed[t - low, p - low] += 1
    for i in range(k):
        for j in range(k):
            weight[i, j] = (i - j) ** 2 / (k - 1) ** 2
    expected = np.outer(observed.sum(1), observed.sum(0)) / observed.sum()
    return 1 - (weight * observed).sum() / (weight * expected).sum()


def test_two_classes_by_hand():
    truth = ["spam"] * 4 + ["ham"] * 6
    predicted = ["spam", "spam", "spam", "ham"] + ["spam"] + ["ham"] * 5
    decision = np.array([4.0, 3, 2, -1, 1, -2, -3, -4, -5, -6])
    found = scores(truth, predicted, decision, SPAM)
    assert found["accuracy"] == 0.8
    assert found["precision"] == found["recall"] == found["f1"] == found["f1[spam]"] == 0.75
    assert found["f1[ham]"] == pytest.approx(10 / 12)
    assert found["macro_f1"] == pytest.approx((0.75 + 10 / 12) / 2)
    assert found["mcc"] == pytest.approx((3 * 5 - 1 * 1) / math.sqrt(4 * 4 * 6 * 6))
    assert found["roc_auc"] == pytest.approx(1 - 1 / 24)  # one of 24 pairs is the wrong way round
    assert "qwk" not in found


def test_a_class_that_does_not_occur_does_not_count():
    classes = np.array(["a", "b", "c"])
    found = scores(["a", "b", "a"], ["a", "b", "b"], np.eye(3), classes)
    assert found["macro_f1"] == pytest.approx(2 / 3)
    assert found["f1[c]"] == 0
    assert "qwk" not in found
    alone = scores(["spam"], ["spam"], np.ones(1), SPAM)
    assert math.isnan(alone["roc_auc"])
    assert alone["macro_f1"] == 1


@given(st.lists(st.tuples(st.integers(2, 6), st.integers(2, 6)), min_size=2, max_size=30))
def test_kappa_of_classes_is_kappa_by_its_definition(pairs):
    truth, predicted = np.array(pairs).T
    classes = np.arange(2, 7)
    found = scores(truth, predicted, None, classes)["qwk"]
    if len({*truth, *predicted}) == 1:
        assert math.isnan(found)
    else:
        assert found == pytest.approx(kappa(truth, predicted, 2, 6), abs=1e-12)
    assert scores(truth.astype(str), predicted.astype(str), None, classes.astype(str))[
        "qwk"
    ] == pytest.approx(found, nan_ok=True)


def test_distance_of_grades_is_their_difference():
    classes = np.array([1, 2, 10])
    near = scores([1, 2, 10, 10], [2, 2, 10, 10], None, classes)["qwk"]
    far = scores([1, 2, 10, 10], [1, 2, 10, 2], None, classes)["qwk"]
    assert near > 0.98
    assert far < 0.6
    assert far == pytest.approx(kappa([1, 2, 10, 10], [1, 2, 10, 2], 1, 10))


def test_regression_by_hand():
    truth, predicted = np.array([1.0, 2, 3, 4]), np.array([1.4, 2, 2.4, 5.2])
    found = scores(truth, predicted, None, None)
    assert found["mae"] == pytest.approx(2.2 / 4)
    assert found["rmse"] == pytest.approx(math.sqrt((0.16 + 0.36 + 1.44) / 4))
    assert found["r2"] == pytest.approx(1 - 1.96 / 5)
    assert found["pearson"] == pytest.approx(np.corrcoef(truth, predicted)[0, 1])
    # 5.2 is clipped to the truth's range, or to 5 in a given one.
    assert found["qwk"] == pytest.approx(kappa([1, 2, 3, 4], [1, 2, 2, 4], 1, 4))
    given_range = scores(truth, predicted, None, None, (0, 10))["qwk"]
    assert given_range == pytest.approx(kappa([1, 2, 3, 4], [1, 2, 2, 5], 0, 10))
    constant = scores(truth, np.full(4, 2.5), None, None)
    assert math.isnan(constant["pearson"])
    assert constant["r2"] == 0
    assert constant["qwk"] == pytest.approx(0)
    assert "qwk" not in scores(truth + 0.5, predicted, None, None)
    assert math.isnan(scores(np.ones(3), np.ones(3), None, None, (0, 1))["qwk"])


@pytest.mark.slow
@pytest.mark.parametrize("k", [2, 3, 5])
@settings(max_examples=30)
@given(n=st.integers(1, 60), seed=st.integers(0, 10**6))
def test_metrics_of_classes_are_scikit_learns(k, n, seed):
    random = np.random.default_rng(seed)
    classes = np.array(list("abcde"))[:k]
    truth = random.choice(classes, n)
    predicted = np.where(random.random(n) < 0.6, truth, random.choice(classes, n))
    decision = random.normal(size=n if k == 2 else (n, k)).round(1)
    p = random.dirichlet(np.ones(k), n)
    results = evaluate(truth, predicted, decision, classes, probability=p)
    values, options = results.metrics, {"zero_division": 0.0}
    assert values["accuracy"] == sk.accuracy_score(truth, predicted)
    assert values["macro_f1"] == pytest.approx(sk.f1_score(truth, predicted, average="macro", **options))
    if len({*truth, *predicted}) > 1:
        assert values["mcc"] == pytest.approx(sk.matthews_corrcoef(truth, predicted), abs=1e-15)
    assert values["log_loss"] == pytest.approx(sk.log_loss(truth, p, labels=classes), rel=1e-12)
    assert results.confusion == sk.confusion_matrix(truth, predicted, labels=classes).tolist()
    rows = zip(*sk.precision_recall_fscore_support(truth, predicted, labels=classes, **options), strict=True)
    for row, expected in zip(results.per_class, rows, strict=True):
        assert tuple(row[name] for name in ("precision", "recall", "f1", "support")) == tuple(expected)
    occurring = [a for a in range(k) if (truth == classes[a]).any()]
    if k > 2 and len(occurring) > 1:
        areas = [sk.roc_auc_score(truth == classes[a], decision[:, a]) for a in occurring]
        assert values["roc_auc"] == pytest.approx(np.mean(areas), abs=1e-15)
    elif len(occurring) == 2:
        positive = truth == "b"
        assert values["roc_auc"] == pytest.approx(sk.roc_auc_score(positive, decision), abs=1e-15)
        assert roc_area(positive, decision) == values["roc_auc"]
        assert values["brier"] == pytest.approx(sk.brier_score_loss(positive, p[:, 1]))
        for curve, expected in zip(
            roc_curve(positive, decision), sk.roc_curve(positive, decision)[:2], strict=True
        ):
            np.testing.assert_array_equal(curve, expected)
        expected = sk.precision_recall_curve(positive, decision)[:2]
        for curve, theirs in zip(precision_recall_curve(positive, decision), expected, strict=True):
            np.testing.assert_array_equal(curve, theirs[::-1][: len(curve)])


@given(n=st.integers(2, 40), seed=st.integers(0, 10**6))
def test_metrics_of_numbers_are_scikit_learns(n, seed):
    random = np.random.default_rng(seed)
    truth = random.integers(0, 4, n).astype(float)
    predicted = truth + random.normal(size=n)
    values = scores(truth, predicted, None, None, (0, 3))
    assert values["mae"] == pytest.approx(sk.mean_absolute_error(truth, predicted))
    assert values["rmse"] == pytest.approx(sk.root_mean_squared_error(truth, predicted))
    if np.ptp(truth):
        assert values["r2"] == pytest.approx(sk.r2_score(truth, predicted))
    grades = np.clip(np.rint(predicted), 0, 3)
    if len({*truth, *grades}) > 1:
        expected = sk.cohen_kappa_score(truth, grades, labels=range(4), weights="quadratic")
        assert values["qwk"] == pytest.approx(expected, abs=1e-12)


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
    for labels in (None, codes.tolist()):
        expected = train_test_split(range(n), test_size=k / 10, random_state=seed, stratify=labels)
        assert shuffle_split(n, k / 10, seed, labels) == tuple(map(sorted, expected))


def test_the_length_baseline_is_scikit_learns_isotonic_regression():
    random = np.random.default_rng(0)
    texts = ["x" * int(length) for length in random.integers(1, 40, 200)]
    for sign in (1, -1):
        numbers = [sign * len(text) + random.normal(scale=9) for text in texts]
        fitted = IsotonicRegression(increasing=sign > 0).fit([len(text) for text in texts], numbers)
        baseline = LengthBaseline.fit(texts, numbers)
        assert baseline.lengths == fitted.X_thresholds_.tolist()
        assert baseline.numbers == pytest.approx(fitted.y_thresholds_.tolist())


def some_results(task, n, seed, probability=False):
    random = np.random.default_rng(seed)
    if task == "regression":
        truth = random.integers(0, 6, n).astype(float)
        return evaluate(truth, truth + random.normal(size=n), truth, None, grades=(0, 5))
    classes = SPAM if task == "binary" else np.arange(4)
    truth = random.choice(classes, n)
    predicted = np.where(random.random(n) < 0.7, truth, random.choice(classes, n))
    shape = n if task == "binary" else (n, 4)
    decision = random.normal(size=shape).round(1)  # with ties
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


def test_intervals_are_those_of_the_binomial_and_repeat():
    results = some_results("binary", 4000, 0)
    first = results.with_intervals()
    low, high = first.intervals["accuracy"]
    error = 1.96 * math.sqrt(results.accuracy * (1 - results.accuracy) / 4000)
    assert low == pytest.approx(results.accuracy - error, abs=0.002)
    assert high == pytest.approx(results.accuracy + error, abs=0.002)
    assert first.intervals == results.with_intervals().intervals
    assert first.intervals != results.with_intervals(seed=1).intervals
    narrow = results.with_intervals(level=0.5).intervals["accuracy"]
    assert low < narrow[0] < narrow[1] < high


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


def test_the_positive_class_may_sort_first():
    truth, predicted = ["ham", "ham", "spam"], ["ham", "spam", "spam"]
    decision = np.array([-2.0, 1, 3])
    results = evaluate(truth, predicted, decision, SPAM, positive="ham")
    assert results.labels == ["spam", "ham"]
    assert results.confusion == [[1, 0], [1, 1]]
    assert results.recall == 0.5
    assert results.precision == 1
    assert results.decision.tolist() == [2, -1, -3]
    assert results.roc_auc == 1
    assert evaluate(truth, predicted, decision, SPAM).recall == 1


def test_probabilities_are_judged():
    p = np.array([[0.9, 0.1], [0.4, 0.6], [0.2, 0.8]])
    results = evaluate(["ham", "ham", "spam"], ["ham", "spam", "spam"], np.zeros(3), SPAM, probability=p)
    assert results.metrics["brier"] == pytest.approx((0.01 + 0.36 + 0.04) / 3)
    assert results.metrics["log_loss"] == pytest.approx(-np.log([0.9, 0.4, 0.8]).mean())
    turned = evaluate(
        ["ham", "ham", "spam"], ["ham", "spam", "spam"], np.zeros(3), SPAM, probability=p, positive="ham"
    )
    assert turned.probability.tolist() == [0.9, 0.4, 0.2]
    assert turned.metrics["brier"] == pytest.approx(results.metrics["brier"])


def test_labels_that_do_not_fit():
    with pytest.raises(InputError, match="no labelled documents"):
        evaluate([], [], np.zeros(0), SPAM)
    with pytest.raises(InputError, match="knows the labels ham, spam, and the documents have good"):
        evaluate(["good"], ["ham"], np.zeros(1), SPAM)
    results = evaluate(["ham", "new", "spam"], ["ham", "ham", "ham"], np.zeros(3), SPAM)
    assert results.n == 2
    assert results.index.tolist() == [0, 2]
    assert "1 of 3 documents have labels that the model does not know (new" in results.warnings[0]
    digits = evaluate(["1", "2"], np.array([1, 1]), np.zeros(2), np.array([1, 2]))
    assert digits.accuracy == 0.5
    with pytest.raises(InputError, match="grades"):
        evaluate([1.0], np.ones(1), np.ones(1), None, grades=(3, 3))


@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
def test_results_are_json(task):
    results = some_results(task, 30, 1).with_intervals(50)
    again = json.loads(json.dumps(results.as_dict(), allow_nan=False))
    assert again["n"] == 30
    assert again["intervals"].keys() == results.metrics.keys()
    if task != "regression":
        assert sum(row["support"] for row in again["per_class"]) == 30


def test_average_precision_is_scikit_learns_of_the_positive_class():
    random = np.random.default_rng(3)
    truth = np.array(["no", "yes"])[(random.random(200) < 0.2).astype(int)]
    decision = np.round(random.normal(size=200) + (truth == "yes"), 1)  # with ties
    predicted = np.where(decision > 0, "yes", "no")
    classes = np.array(["no", "yes"])
    for positive, sign in (("yes", 1), ("no", -1)):
        found = evaluate(truth, predicted, decision, classes, positive=positive)
        expected = average_precision_score(truth == positive, sign * decision)
        assert found.average_precision == pytest.approx(expected)
        by_class = {each["label"]: each["average_precision"] for each in found.per_class}
        assert by_class[positive] == pytest.approx(expected)
    alone = evaluate(["yes"] * 3, predicted[:3], decision[:3], classes)
    assert alone.average_precision is None


def test_average_precision_of_several_classes_and_labels():
    random = np.random.default_rng(4)
    classes = np.array(["a", "b", "c", "d"])
    truth = classes[random.integers(0, 3, 90)]  # nobody is a d
    decision = random.normal(size=(90, 4)) + (truth[:, None] == classes)
    found = evaluate(truth, classes[decision.argmax(1)], decision, classes)
    each = [average_precision_score(truth == c, decision[:, a]) for a, c in enumerate("abc")]
    assert found.average_precision == pytest.approx(np.mean(each))
    assert [row["average_precision"] for row in found.per_class[:3]] == pytest.approx(each)
    assert math.isnan(found.per_class[3]["average_precision"])
    labels = truth[:, None] == classes
    labels[::7, 1] = True
    found = evaluate_labels(labels, decision > 0.5, decision, classes, np.full(4, 0.5))
    expected = average_precision_score(labels[:, :3], decision[:, :3], average="macro")
    assert found.metrics["average_precision"] == pytest.approx(expected)
    decision[:, 0] = np.nan  # a machine that was left out ranks nothing
    found = evaluate_labels(labels, decision > 0.5, decision, classes, np.full(4, 0.5))
    assert found.per_class[0]["average_precision"] == pytest.approx(labels[:, 0].mean())


def test_average_precision_of_resamples_is_that_of_the_documents_drawn():
    random = np.random.default_rng(5)
    truth = random.random((60, 2)) < [0.3, 0.6]
    decision = np.round(random.normal(size=(60, 2)) + truth, 1)
    [weight] = draws(60, 8, seed=1)
    found = average_precisions(truth, decision, weight)
    for counts, areas in zip(weight.astype(int), found, strict=True):
        drawn = np.repeat(np.arange(60), counts)
        for a, area in enumerate(areas.tolist()):
            assert area == pytest.approx(average_precision_score(truth[drawn, a], decision[drawn, a]))


def test_average_precision_has_an_interval_and_leaves_are_wanted_only():
    truth = ["a", "b"] * 20
    decision = np.linspace(-1, 1, 40)
    found = evaluate(truth, np.where(decision > 0, "b", "a"), decision, np.array(["a", "b"])).with_intervals(
        50
    )
    low, high = found.intervals["average_precision"]
    assert low <= found.average_precision <= high
    assert math.isnan(scores(truth, truth, decision, np.array(["a", "b"]), areas=False)["average_precision"])


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
    with pytest.raises(InputError, match="leave it out"):
        cross_validate(model, texts, labels, cv=2, positive="rest")


def test_a_class_that_is_only_predicted_counts():
    truth, predicted, classes = [0, 0, 1], [0, 2, 1], np.arange(3)
    found = scores(truth, predicted, None, classes)["macro_f1"]
    assert found == pytest.approx(sk.f1_score(truth, predicted, average="macro")) == pytest.approx(5 / 9)


def test_predicted_halves_are_rounded_to_even_grades():
    truth, predicted = np.array([0.0, 1, 2, 3, 4, 2]), np.array([0.5, 1.5, 2.5, 3.5, 3.5, 0.5])
    expected = kappa(truth.astype(int), [0, 2, 2, 4, 4, 0], 0, 4)
    assert scores(truth, predicted, None, None)["qwk"] == pytest.approx(expected)


def test_at_the_break_even_point_equal_values_share_the_last_places():
    """Two documents have the label: the first place is right, and a third of the second."""
    truth, values = np.array([True, True, False, False]), np.array([3.0, 2, 2, 2])
    assert break_even(truth, values) == pytest.approx(2 / 3)
    assert break_even(~truth, -values) == pytest.approx(2 / 3)
    assert math.isnan(break_even(np.zeros(4, bool), values))


def test_resamples_of_equal_numbers_have_no_correlation():
    """Their variance is 0 up to rounding."""
    rng = np.random.default_rng(0)
    truth, predicted = (np.tile(rng.normal(size=5), 4) for _ in range(2))
    drawn = np.stack([(np.arange(20) % 5 == row % 5) * rng.integers(1, 6, 20) for row in range(200)])
    with np.errstate(divide="ignore", invalid="ignore"):
        found = number_metrics(drawn.astype(float), truth, predicted)
    assert np.isnan(found["pearson"]).all()
    assert np.isnan(found["r2"]).all()


def test_the_log_loss_of_a_certain_mistake_is_finite():
    p = np.array([[1.0, 0.0], [0.2, 0.8]])
    results = evaluate(["spam", "spam"], ["ham", "spam"], np.zeros(2), SPAM, probability=p)
    assert results.metrics["log_loss"] == pytest.approx(sk.log_loss(["spam", "spam"], p, labels=SPAM))


@pytest.mark.parametrize(("last", "are_grades"), [(999, True), (1000, False)])
def test_a_wide_range_of_numbers_is_not_of_grades(last, are_grades):
    assert ("qwk" in scores([0, last, 5], [0, last, 7], None, None)) == are_grades


def test_points_of_a_roc_curve_inside_straight_lines_are_left_out():
    """As by scikit-learn, which keeps the first point."""
    truth = np.array([True, True, True, False, False, True, False])
    for decision, n in ((-np.arange(7.0), 6), (np.array([4.0, 3, 2, 3, 2, 2, 1]), 5)):
        for ours, theirs in zip(roc_curve(truth, decision), sk.roc_curve(truth, decision)[:2], strict=True):
            assert len(ours) == n
            np.testing.assert_allclose(ours, theirs)


def test_equal_scores_count_half_in_the_area_under_the_curve():
    truth, score = np.array([True, False, True, False]), np.array([1.0, 1, 2, 0])
    assert roc_area(truth, score) == pytest.approx(sk.roc_auc_score(truth, score)) == pytest.approx(7 / 8)


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
