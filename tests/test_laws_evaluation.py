"""Statistics beside SciPy and scikit-learn on random inputs: ties, single classes, large numbers."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics

from textsvm import evaluate
from textsvm.evaluation.estimate import verdict_on
from textsvm.evaluation.metrics import average_precisions, break_even, precision_recall_f1, roc_area, scores
from textsvm.evaluation.results import clopper_pearson, percentile_interval


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.999])
def test_intervals_of_shares_are_scipys(level):
    for n in (1, 2, 3, 7, 20, 133, 5000):
        for hits in {0, 1, n // 3, n // 2, n - 1, n}:
            expected = stats.binomtest(hits, n).proportion_ci(level, "exact")
            assert clopper_pearson(hits, n, level) == pytest.approx(tuple(expected), abs=1e-9)
    assert np.isnan(clopper_pearson(0, 0, level)).all()


@pytest.mark.parametrize("share", [0.02, 0.3, 0.9])
def test_each_end_of_an_interval_of_shares_covers(share):
    """The share is beyond either end in at most half of the 5 % of the samples."""
    n = 40
    probability = stats.binom.pmf(np.arange(n + 1), n, share)
    ends = np.array([clopper_pearson(hits, n) for hits in range(n + 1)])
    below, above = (probability @ (ends[:, 0] > share)), (probability @ (ends[:, 1] < share))
    assert below <= 0.025 + 1e-12
    assert above <= 0.025 + 1e-12
    assert below + above > 0.001


def test_percentiles_of_resamples_are_the_middle_share():
    values = np.append(np.random.default_rng(0).permutation(np.arange(1001.0)), [np.nan] * 9)
    assert percentile_interval(values) == pytest.approx((25, 975))
    assert percentile_interval(values, 0.5) == pytest.approx((250, 750))
    assert np.isnan(percentile_interval(np.full(3, np.nan))).all()


def test_resampled_intervals_cover():
    """Of the mean error: 95 % of the intervals contain the true value, and few miss it on one side."""
    rng, true, missed = np.random.default_rng(0), np.sqrt(2 / np.pi), [0, 0]
    for seed in range(150):
        truth = rng.normal(size=60)
        predicted = truth + rng.normal(size=60)
        results = evaluate(truth, predicted, predicted, None).with_intervals(200, seed=seed)
        low, high = results.intervals["mae"]
        missed[0] += low > true
        missed[1] += high < true
    assert 2 <= sum(missed) <= 20
    assert max(missed) <= 14


@settings(max_examples=60)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(2, 60),
    st.sampled_from([0.0, 1e3, 1e8, -1e8]),
    st.sampled_from([1.0, 30.0]),
    st.booleans(),
)
def test_numbers_have_the_statistics_of_scikit_learn_and_scipy_wherever_they_lie(
    seed, n, place, spread, ties
):
    rng = np.random.default_rng(seed)
    truth, predicted = rng.normal(size=(2, n)) * spread
    predicted = predicted + truth
    if ties:
        truth, predicted = np.round(truth / spread) * spread, np.round(predicted / spread) * spread
    truth, predicted = truth + place, predicted + place
    mine = scores(truth, predicted, None, None)
    assert mine["mae"] == pytest.approx(metrics.mean_absolute_error(truth, predicted), rel=1e-9)
    assert mine["rmse"] == pytest.approx(metrics.root_mean_squared_error(truth, predicted), rel=1e-9)
    if np.ptp(truth) > 0:
        assert mine["r2"] == pytest.approx(metrics.r2_score(truth, predicted), rel=1e-6, abs=1e-6)
    if np.ptp(truth) > 0 and np.ptp(predicted) > 0:
        assert mine["pearson"] == pytest.approx(stats.pearsonr(truth, predicted)[0], rel=1e-6, abs=1e-6)


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(2, 5), st.booleans())
def test_classes_have_the_statistics_of_scikit_learn_also_a_single_one(seed, n, k, one_class):
    rng = np.random.default_rng(seed)
    names = np.array(["a", "b", "c", "d", "e"][:k])
    truth = np.full(n, names[0]) if one_class else names[rng.integers(0, k, n)]
    predicted = np.where(rng.random(n) < 0.5, truth, names[rng.integers(0, k, n)])
    mine = scores(truth, predicted, None, names)
    assert mine["accuracy"] == pytest.approx(metrics.accuracy_score(truth, predicted))
    seen = sorted({*truth, *predicted})
    f1 = metrics.f1_score(truth, predicted, labels=seen, average="macro", zero_division=0)
    assert mine["macro_f1"] == pytest.approx(f1)
    if not np.isnan(mine["mcc"]):
        assert mine["mcc"] == pytest.approx(metrics.matthews_corrcoef(truth, predicted), abs=1e-12)
    for name in names:
        own = metrics.f1_score(truth == name, predicted == name, zero_division=0)
        own = own if name in truth else np.nan  # nothing could be found
        assert mine[f"f1[{name}]"] == pytest.approx(own, nan_ok=True)
    if k == 2:
        expected = metrics.precision_recall_fscore_support(truth == "b", predicted == "b", zero_division=0)
        assert [mine[name] for name in ("precision", "recall", "f1")] == pytest.approx(
            [part[-1] if "b" in truth else np.nan for part in expected[:3]], nan_ok=True
        )


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(2, 40), st.booleans(), st.sampled_from([0.0, 1e8]))
def test_areas_under_curves_are_scikit_learns_also_with_ties(seed, n, ties, place):
    rng = np.random.default_rng(seed)
    truth = rng.random(n) < 0.4
    truth[:2] = [True, False]
    score = (rng.integers(0, 4, n).astype(float) if ties else rng.normal(size=n)) + place
    mine = scores(truth.astype(int), score > place, score, np.array([0, 1]))
    assert roc_area(truth, score) == pytest.approx(metrics.roc_auc_score(truth, score))
    assert mine["roc_auc"] == pytest.approx(metrics.roc_auc_score(truth, score))
    precision = metrics.average_precision_score(truth, score)
    assert mine["average_precision"] == pytest.approx(precision)
    assert average_precisions(truth[:, None], score[:, None]).ravel() == pytest.approx([precision])
    if not ties:
        highest = np.argsort(-score)[: truth.sum()]
        assert break_even(truth, score) == pytest.approx(truth[highest].mean())


def test_precision_recall_and_f1_have_their_definitions():
    hits, support, predicted = (
        np.array([[3.0, 0.0, 0.0]]),
        np.array([[4.0, 2.0, 0.0]]),
        np.array([[6.0, 0.0, 0.0]]),
    )
    precision, recall, f1 = precision_recall_f1(hits, support, predicted)
    assert precision.tolist() == [[0.5, 0, 0]]
    assert recall.tolist() == [[0.75, 0, 0]]
    assert f1.tolist() == [[0.6, 0, 0]]


def test_figures_of_the_positive_class_are_those_of_its_row():
    """Also where no document, or no prediction, is of this class."""
    rng = np.random.default_rng(0)
    for share, guessed in [(0.5, 0.5), (0, 0.5), (0.5, 0), (0, 0), (1, 1), (1, 0), (0.1, 0.9)]:
        truth, predicted = rng.random(30) < share, rng.random(30) < guessed
        results = evaluate(truth, predicted, predicted - 0.5, [False, True], positive=True)
        row = next(row for row in results.per_class if row["label"])
        for name in ("precision", "recall", "f1"):
            assert results.metrics[name] == pytest.approx(row[name], nan_ok=True)
        assert results.metrics["f1"] == pytest.approx(results.metrics["f1[True]"], nan_ok=True)


@pytest.mark.parametrize("several", [False, True])
def test_a_constant_answer_is_the_best_of_all(several):
    """Of one label, or of any number of the commonest labels by micro-F1, whatever is judged."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        if several:
            sets = [tuple(np.flatnonzero(rng.random(4) < [0.7, 0.5, 0.3, 0.1])) or (0,) for _ in range(30)]
            truth = [tuple("abcd"[k] for k in own) for own in sets]
        else:
            truth = [str(label) for label in rng.choice(list("abc"), 30, p=[0.5, 0.3, 0.2])]
        name = "micro_f1" if several else "accuracy"
        verdict = verdict_on({name: 0.9}, truth, truth, "here")
        counts = Counter(label for own in truth for label in own).most_common()
        if not several:
            assert verdict.constant == pytest.approx(counts[0][1] / 30)
            assert counts[0][0] in verdict.answer
            continue
        total, best = sum(n for _, n in counts), []
        for k in range(1, len(counts) + 1):
            hits = sum(n for _, n in counts[:k])
            best.append(2 * hits / (30 * k + total))
        assert verdict.constant == pytest.approx(max(best))
