"""Statistics beside SciPy and scikit-learn on random inputs: ties, single classes, large numbers."""

import re
import time
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refuses
from scipy import stats
from sklearn import metrics
from sklearn.dummy import DummyClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from textsvm import SVC, CalibratedSVC, Corpus, OneClassSVM, Spectrum, evaluate
from textsvm.evaluation import drift
from textsvm.evaluation.baselines import baselines_of, compare, machine
from textsvm.evaluation.comparison import MOST_SHOWN, side_by_side
from textsvm.evaluation.drift import decide_sample, record
from textsvm.evaluation.estimate import Verdict, estimate_quality, of_several_texts, verdict_on
from textsvm.evaluation.judge import confidence, data_warnings, judge, rows_of, with_top
from textsvm.evaluation.metrics import average_precisions, break_even, roc_area, scores
from textsvm.evaluation.results import clopper_pearson, evaluate_labels, percentile_interval
from textsvm.evaluation.slices import MOST, make_slices
from textsvm.model.settings import ClassifierSettings
from textsvm.reporting.sections import slices_note
from textsvm.training.train import train as train_model


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


def of_task(task, wrong, seed=0):
    """Results of a task in which the documents `wrong` have wrong predictions."""
    n, rng = len(wrong), np.random.default_rng(seed)
    if task == "multilabel":
        truth = rng.random((n, 3)) < 0.5
        said = truth ^ (wrong[:, None] & (np.arange(3) == 0))
        return evaluate_labels(truth, said, said - 0.5, np.array(["a", "b", "c"]), np.full(3, 0.5))
    if task == "regression":
        truth = rng.normal(size=n)
        said = truth + np.where(wrong, 3.0, 0.1) * rng.choice([-1, 1], n)
        return evaluate(truth, said, said, None)
    names = np.array(list("ab" if task == "binary" else "abc"))
    codes = np.arange(n) % len(names)
    said = np.where(wrong, (codes + 1) % len(names), codes)
    return evaluate(names[codes], names[said], said - 0.5 if task == "binary" else np.eye(3)[said], names)


TASKS = ("binary", "multiclass", "multilabel", "regression")


@pytest.mark.parametrize("task", TASKS)
def test_intervals_grow_with_their_level_and_resamples_with_another_seed_are_others(task):
    results = of_task(task, np.random.default_rng(1).random(60) < 0.3)
    of = {level: results.with_intervals(200, level).intervals for level in (0.5, 0.95)}
    other = results.with_intervals(200, seed=1).intervals
    for name, (low, high) in of[0.95].items():
        if not np.isnan(low):
            assert low <= of[0.5][name][0] <= of[0.5][name][1] <= high, name
            assert of[0.5][name][1] - of[0.5][name][0] < high - low, name
    assert other != of[0.95]


@pytest.mark.parametrize("task", TASKS)
def test_slices_of_mistakes_are_worse_and_come_first(task):
    wrong = np.arange(90) < 30
    found = make_slices(of_task(task, wrong), "part", ["bad" if x else "good" for x in wrong], 50).slices
    assert [(part.value, part.apart) for part in found] == [("bad", "worse"), ("good", "better")]


def test_a_large_bad_slice_is_listed_before_many_of_which_little_is_known():
    wrong = np.append(np.arange(2 * MOST + 200) % 2 == 0, np.arange(100) < 45)
    values = [str(i // 2) for i in range(2 * MOST + 200)] + ["large"] * 100
    found = make_slices(of_task("binary", wrong), "part", values, 5)
    assert (found.n_values, len(found.slices), found.slices[0].value) == (MOST + 101, MOST, "large")
    assert "591 more values are left out" in slices_note(found, 10)
    refuses("give a value each", make_slices, of_task("binary", wrong), "part", values[:-1], 5)


def test_a_model_is_better_than_a_constant_answer_beyond_chance():
    """By two standard errors of texts that are no copies, or with half of the errors."""
    verdict = Verdict(0.7, 0.6, "'a'", 80, "here", False, "accuracy")
    assert not verdict.better
    assert replace(verdict, n=1000).better
    assert not replace(verdict, n=1000, distinct=0.08).better
    assert replace(verdict, value=0.8).better
    assert [replace(verdict, metric="mae", value=x).better for x in (0.59, 0.6)] == [True, False]


@pytest.mark.parametrize("positive", ["a", "z"])
def test_a_one_class_machine_has_the_areas_of_its_class_whatever_its_name(positive):
    model = OneClassSVM(Spectrum(1), device="cpu").fit(["aab", "abb", "aba", "bab"])
    results = judge(model, ["abab", "abba", "xyzxyz", "zzyx"], [positive] * 2 + ["other"] * 2, positive)
    assert (results.roc_auc, results.labels[1]) == (1.0, positive)


def test_the_best_labels_are_those_of_largest_probability():
    decision, probability = np.array([[2.0, 1.0, 0.0]]), np.array([[0.1, 0.2, 0.7]])
    best = {
        side is None: [row["label"] for row in next(with_top([{}], list("abc"), decision, side, 2))["top"]]
        for side in (None, probability)
    }
    assert best == {True: ["a", "b"], False: ["c", "b"]}
    two = [next(rows_of(list("ab"), np.array(["a"]), np.array([-1.5]), None, x))["decision"] for x in "ab"]
    assert two == [1.5, -1.5]
    model = CalibratedSVC(SVC(Spectrum(1)), cv=2, reject=0.9).fit(
        ["aa", "ab", "ba", "bb"] * 3, list("xyxy") * 3
    )
    said, sure = np.array(["unsure", "b", "c"], object), probability.repeat(3, axis=0)
    assert confidence(model.model_, np.array(list("abc")), said, decision, sure).tolist() == [0.7, 0.2, 0.7]


def test_new_symbols_of_any_view_are_told():
    model = SVC(Spectrum(2) + Spectrum(2, keep_case=True), device="cpu").fit(["abab", "bbaa"], ["x", "y"])
    assert data_warnings(model.model_, ["aaba"]) == []
    assert "100 % of the symbols" in data_warnings(model.model_, ["AABA"])[0]


def test_numbers_of_training_are_those_of_new_groups(monkeypatch):
    """Each group has symbols of its own; a sample has a part of its texts."""
    monkeypatch.setattr(drift, "SAMPLE", 10)
    texts, groups = [chr(97 + k % 10) * 9 for k in range(40)], np.arange(40) % 10
    model = SVC(Spectrum(2), device="cpu").fit(texts, [k % 2 for k in range(40)]).model_
    found = [record(model, 40, lambda rows: [texts[i] for i in rows], None, own) for own in (groups, None)]
    assert found[0]["symbols"] == 1 > found[1]["symbols"]


def test_a_sample_tests_no_copies_of_what_it_learns():
    rng = np.random.default_rng(0)
    texts, labels = ["".join(rng.choice(list("abcdef"), 9)) for _ in range(40)] * 2, ["x", "y"] * 40
    settings = ClassifierSettings(Spectrum(2), device="cpu")
    model = train_model(settings, texts, labels)
    train, test, *_ = decide_sample(settings, model, lambda rows: [texts[i] for i in rows], labels)
    assert not {texts[i] for i in train} & {texts[i] for i in test}


def test_an_estimate_on_a_sample_tells_how_many_classes_it_has_learnt():
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(list("abcdef"), 9)) for _ in range(72)]
    labels = ["x", "y"] * 30 + [f"single {i}" for i in range(12)]
    corpus = Corpus([str(i) for i in range(72)], texts, labels, [None] * 72)
    settings = ClassifierSettings(Spectrum(2), device="cpu")
    found, _ = estimate_quality(settings, train_model(settings, texts, labels), corpus, False)
    learnt, classes = map(int, re.search(r"on (\d+) of 72, with (\d+) of 14 classes$", found.where).groups())
    assert learnt - 60 < classes < 14
    assert {labels[i] for i in found.indices} == {"x", "y"}
    assert not found.part  # the machine has more than half of the texts


def test_as_many_disagreements_are_shown_as_there_is_room_for():
    """Half of them of either kind, or more of one if there are few of the other."""
    for a in (0, 2, 6, 9, 20):
        for b in (0, 2, 6, 9, 20):
            wrong = np.arange(60) < a, (np.arange(60) >= 40) & (np.arange(60) < 40 + b)
            both = {
                name: of_task("binary", own).with_intervals(9) for name, own in zip("ab", wrong, strict=True)
            }
            found = side_by_side(both, ["y" * 5 * i for i in range(60)], [str(i) for i in range(60)])
            for row in found.disagreements:
                assert row.text == "y" * min(5 * int(row.id), 240) + " …" * (int(row.id) > 48)
            shown = Counter(tuple(row.correct) for row in found.disagreements)
            assert shown.total() == min(MOST_SHOWN, a + b)
            assert shown[False, True] >= min(a, MOST_SHOWN // 2)
            assert shown[True, False] >= min(b, MOST_SHOWN // 2)


def test_numbers_side_by_side_are_compared_by_their_errors():
    truth, rng = np.arange(30.0), np.random.default_rng(0)
    said = truth + rng.normal(size=(3, 30)) * (np.arange(30) < 8)  # of most documents the models say the same
    results = [evaluate(truth, own, own, None).with_intervals(20) for own in said]
    found = side_by_side(dict(zip("abc", results, strict=True)), None, [str(i) for i in range(30)])
    errors = np.abs(said - truth)
    nearest, spread = errors == errors.min(axis=0), np.ptp(errors, axis=0)
    assert found.n_only_correct == (nearest & (nearest.sum(axis=0) == 1)).sum(axis=1).tolist()
    assert (found.all_wrong, found.n_same) == (0, 22)
    order = np.argsort(-spread, kind="stable")[:8]
    assert [int(row.id) for row in found.disagreements] == order.tolist()
    assert [row.correct for row in found.disagreements] == nearest[:, order].T.tolist()
    for other, own in zip(found.differences[1:], errors[1:], strict=True):
        assert other.value == pytest.approx((own - errors[0]).mean())
        assert other.interval[0] < other.value < other.interval[1]


def test_classifiers_in_a_comparison_are_tuned_on_folds_that_keep_groups_together():
    texts = [f"{word} {i}" for i in range(24) for word in ("apple pie", "fast car")]
    groups, made = [f"g{i // 4}" for i in range(48)], []

    def make():
        vectors = TfidfVectorizer(analyzer="char").fit(texts)
        made.append(make_pipeline(vectors, GridSearchCV(LinearSVC(), {"C": [1, 2]}, cv=2)))
        return made[-1]

    train = np.arange(36)
    compare(texts, ["food", "ride"] * 24, [(train, np.arange(36, 48))], {"own": make}, groups=groups)
    for train_part, test in made[-1][-1].cv:
        assert not {groups[i] for i in train_part} & {groups[i] for i in test}


def test_columns_of_a_baseline_may_have_any_unit():
    rng = np.random.default_rng(0)
    columns, y = {"text": ["same"] * 60, "n": rng.normal(size=60)}, rng.integers(0, 2, 60)
    values = [
        make().fit(own, y).decision_function(own)
        for own in (columns, columns | {"n": 1e6 * columns["n"]})
        for make in baselines_of(columns).values()
    ]
    assert np.allclose(values[:2], values[2:], atol=1e-3)


def test_seconds_of_a_comparison_are_those_of_their_work_and_choices_are_counted():
    class Slow(DummyClassifier):
        def fit(self, X, y):
            time.sleep(0.1)
            return super().fit(X, y)

    parts, texts = [(np.arange(24), np.arange(24, 36)), (np.arange(12, 36), np.arange(12))], ["ab cd", "cd"]
    makers = {"slow": Slow, "own": lambda: machine("fast", "cpu")}
    *_, slow, own = compare(texts * 18, ["x", "y"] * 18, parts, makers)
    assert slow.predict < slow.fit >= 0.2
    assert own.chosen.endswith(" in 2 of 2 folds")
    assert ":" not in own.chosen.partition("C = ")[2]


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
    truth, predicted = np.random.default_rng(seed).normal(size=(2, n)) * spread
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


def test_classes_of_a_single_text_are_not_judged():
    """Copies are one text."""
    assert of_several_texts(list("aabbc"), np.array([0, 0, 1, 2, 3])) == ["b", "b"]
    assert of_several_texts(list("aabbc"), None) == list("aabb")


def test_of_numbers_the_median_of_training_is_the_constant_answer():
    verdict = verdict_on({"mae": 0.5}, [1.0, 2.0, 9.0], [4.0, 6.0], "here")
    assert (verdict.constant, verdict.answer) == (3.0, "the median 2")
