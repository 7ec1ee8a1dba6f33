"""Folds, and cross-validation on one Gram against scikit-learn with LIBSVM, fold by fold."""

import numpy as np
import pytest
from problems import gaussian
from refusals import refuses
from sklearn import metrics, svm
from sklearn.base import clone
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneGroupOut,
    RepeatedStratifiedKFold,
    StratifiedGroupKFold,
    StratifiedKFold,
    cross_val_predict,
)

from textsvm import Compute, MultilabelSVC
from textsvm.errors import InputError
from textsvm.estimators.svm import SVC, SVR, OneClassSVM
from textsvm.evaluation.metrics import scores
from textsvm.kernels import Spectrum
from textsvm.selection.cross_validation import cross_validate
from textsvm.sources.texts import TextSource
from textsvm.training.folds import make_folds
from textsvm.training.targets import Target

pytestmark = pytest.mark.filterwarnings("ignore::textsvm.training.leakage.LeakageWarning")
N = 90
SPLITS = StratifiedKFold(4, shuffle=True, random_state=3)


def classes_of(n, k, seed=0):
    """A Gram, and k classes named by strings that it tells apart more often than not."""
    rng = np.random.default_rng(seed)
    matrix, _ = gaussian(n, seed)
    place = matrix[:, :2] @ [1.0, -1.0] + 0.05 * rng.normal(size=n)
    codes = np.searchsorted(np.quantile(place, np.arange(1, k) / k), place)
    return matrix, np.array([f"class {c}" for c in codes])


def numbers(n, seed=0):
    rng = np.random.default_rng(seed)
    matrix, _ = gaussian(n, seed)
    return matrix, 10 * matrix[:, :3] @ [1.0, -2.0, 0.5] + rng.normal(size=n)


def texts(n, seed=0):
    """Two languages of two words each, and a word of its own in each text."""
    rng = np.random.default_rng(seed)
    words = np.array([["banana", "bandana"], ["kitten", "sitting"]])
    y = rng.integers(0, 2, n)
    mixed = np.where(rng.random((n, 12)) < 0.75, y[:, None], 1 - y[:, None])
    picked = words[mixed, rng.integers(0, 2, (n, 12))]
    own = rng.choice(list("0123456789"), (n, 15))
    return [" ".join([*line, "".join(word)]) for line, word in zip(picked, own, strict=True)], np.where(
        y == 1, "feline", "fruit"
    )


def given(**options):
    return SVC(kernel="precomputed", device="cpu", tol=1e-6, **options)


@pytest.mark.parametrize("k", [2, 3])
def test_predictions_are_those_of_scikit_learn(k):
    matrix, y = classes_of(N, k)
    result = cross_validate(given(C=3, multiclass="ovo"), matrix, y, cv=SPLITS)
    expected = cross_val_predict(svm.SVC(kernel="precomputed", C=3, tol=1e-6), matrix, y, cv=SPLITS)
    np.testing.assert_array_equal(result.predictions, expected)
    assert (result.tested == 1).all()
    by_fold = [metrics.accuracy_score(y[test], expected[test]) for _, test in SPLITS.split(matrix, y)]
    assert [row["accuracy"] for row in result.table] == pytest.approx(by_fold)
    assert result.mean["accuracy"] == pytest.approx(np.mean(by_fold))
    assert result.sd["accuracy"] == pytest.approx(np.std(by_fold, ddof=1))
    assert result.pooled["accuracy"] == pytest.approx(metrics.accuracy_score(y, expected))
    counts = [[*row.values()] for row in result.confusion.values()]
    assert counts == metrics.confusion_matrix(y, expected).tolist() != np.transpose(counts).tolist()
    if k == 2:
        values = cross_val_predict(
            svm.SVC(kernel="precomputed", C=3, tol=1e-6), matrix, y, cv=SPLITS, method="decision_function"
        )
        np.testing.assert_allclose(result.decision, values, atol=1e-4)


@pytest.mark.parametrize("multiclass", ["ovr", "crammer-singer"])
def test_every_strategy_is_that_of_a_fit_on_each_fold(multiclass):
    matrix, y = classes_of(N, 3)
    model = given(C=2, multiclass=multiclass, class_weight="balanced")
    result = cross_validate(model, matrix, y, cv=SPLITS)
    assert result.decision.shape == (N, 3)
    for train, test in SPLITS.split(matrix, y):
        fitted = given(C=2, multiclass=multiclass, class_weight="balanced").fit(
            matrix[np.ix_(train, train)], y[train]
        )
        expected = fitted.decision_function(matrix[np.ix_(test, train)])
        np.testing.assert_allclose(result.decision[test], expected, atol=2e-4)


def test_texts_and_weights_are_a_fit_on_each_fold_and_the_gram_is_computed_once(monkeypatch):
    documents, y = texts(40)
    calls = []
    rows = Spectrum.rows
    monkeypatch.setattr(Spectrum, "rows", lambda *a: calls.append(len(a[1])) or rows(*a))
    weight = np.random.default_rng(0).uniform(0.2, 3, 40)
    model = SVC(Spectrum(p=2), C=2, tol=1e-6, device="cpu")
    splits = list(SPLITS.split(documents, y))
    result = cross_validate(model, documents, y, cv=splits, sample_weight=weight, group_duplicates=None)
    assert calls == [40]
    assert not hasattr(model, "classes_")
    assert result.seconds.keys() == {"check", "encode", "gram", "duplicates", "solve", "score"}
    for train, test in splits:
        fitted = SVC(Spectrum(p=2), C=2, tol=1e-6, device="cpu").fit(
            [documents[i] for i in train], y[train], sample_weight=weight[train]
        )
        expected = fitted.decision_function([documents[i] for i in test])
        np.testing.assert_allclose(result.decision[test], expected, atol=1e-4)


def test_repeats_are_averaged():
    matrix, y = classes_of(N, 2)
    repeated = cross_validate(given(), matrix, y, cv=3, repeats=2, random_state=5)
    singles = [cross_validate(given(), matrix, y, cv=3, random_state=seed) for seed in (5, 6)]
    assert len(repeated.table) == 6
    assert (repeated.tested == 2).all()
    np.testing.assert_allclose(repeated.decision, (singles[0].decision + singles[1].decision) / 2, atol=1e-6)
    splitter = RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0)
    assert len(cross_validate(given(), matrix, y, cv=splitter).table) == 6


def test_documents_that_are_never_tested():
    matrix, y = classes_of(N, 2)
    result = cross_validate(given(), matrix, y, cv=[(np.arange(30, N), np.arange(20))])
    assert (result.tested == (np.arange(N) < 20)).all()
    assert np.isnan(result.decision[20:]).all()
    assert list(result.predictions[20:]) == [None] * (N - 20)
    assert set(result.predictions[:20]) <= set(y)
    assert np.isnan(result.sd["accuracy"])


def test_chosen_metrics():
    matrix, y = classes_of(N, 2)
    result = cross_validate(given(), matrix, y, metrics=["accuracy"])
    assert [list(row) for row in result.table] == [["accuracy"]] * 5
    with pytest.raises(InputError, match="metric 'acuracy' is not one of accuracy"):
        cross_validate(given(), matrix, y, metrics=["acuracy"])


def test_progress_names_the_stages():
    documents, y = texts(40)
    seen = {}
    model = SVC("spectrum", device="cpu")
    cross_validate(model, documents, y, cv=2, progress=lambda stage, *_: seen.setdefault(stage))
    assert list(seen) == ["encode", "gram", "duplicates", "solve"]
    seen.clear()
    model.set_params(kernel="auto", time_budget=0.0)
    cross_validate(model, documents, y, cv=2, progress=lambda stage, *_: seen.setdefault(stage))
    assert list(seen) == ["encode", "gram", "duplicates", "choose", "solve"]


def target(codes, names="abc"):
    codes = np.asarray(codes)
    return Target(codes, np.array(list(names[: codes.max() + 1])))


@pytest.mark.parametrize("classes", [True, False])
def test_groups_stay_together(classes):
    groups = np.array([f"author {i // 4}" for i in range(60)])
    given_target = target(np.arange(60) % 2) if classes else Target(np.arange(60.0), None)
    for folds in (
        make_folds(3, given_target, groups, repeats=2),
        make_folds(LeaveOneGroupOut(), given_target, groups),
        make_folds(StratifiedGroupKFold(3) if classes else GroupKFold(3), given_target, groups),
    ):
        assert len(folds) in (3, 6, 15)
        for train, test in folds:
            assert not set(groups[train]) & set(groups[test])


def test_masks_are_folds_too():
    mask = np.arange(6) < 3
    [(train, test)] = make_folds([(mask, ~mask)], target([0, 1, 0, 1, 0, 1]))
    assert (train.tolist(), test.tolist()) == ([0, 1, 2], [3, 4, 5])


class GroupedBadly:
    def split(self, X, y, groups):
        yield np.arange(0, 20, 3), np.arange(1, 20, 3)


CODES = [0] * 10 + [1] * 10
BAD_FOLDS = [
    (5, [0] * 9 + [1], None, "class b has 1 document and there are 5 folds: only class a could be tested"),
    (5, [0, 1, 2], None, "class a has 1 document and there are 5 folds: no class could be tested"),
    (1, CODES, None, "cv=1 folds are too few"),
    (5, CODES, [7] * 20, "all documents are in one group"),
    (2, CODES, CODES, "class a has documents in one group only and there are 2 folds: no class could be"),
    (2, CODES, [1, 2], "groups of shape"),
    (2, CODES, [None] * 20, "the group of document 0 is missing"),
    (True, CODES, None, "cv=True is not a number of folds"),
    ("five", CODES, None, "cv='five' is not"),
    ([], CODES, None, "there are no folds"),
    ([([0, 10], [1], [2])], CODES, None, "fold 0 is not a pair"),
    ([([0, 10], [])], CODES, None, "fold 0 has a part that is not a list of at least one"),
    ([([0, 10], [20])], CODES, None, r"fold 0 has an index outside 0\.\.19"),
    ([([0, 10], [-1])], CODES, None, "fold 0 has an index outside"),
    ([([0.5, 10], [1])], CODES, None, "fold 0 has a part that is not a list"),
    ([([0, 10, 1], [1])], CODES, None, "fold 0 tests on 1 document that it is trained on"),
    ([([0, 1], [2])], CODES, None, "class b is missing from the training part of fold 0"),
    (StratifiedKFold(30), CODES, None, "StratifiedKFold.* cannot split 20 documents"),
    (LeaveOneGroupOut(), CODES, None, "LeaveOneGroupOut.* cannot split"),
    (GroupedBadly(), CODES, [0, 1] * 10, "fold 0 has documents of 2 groups on both sides"),
]


def test_grades_of_a_fold_are_those_of_all_numbers():
    texts, numbers = [f"{'abcde'[k % 5] * 9} {k}" for k in range(40)], np.tile(np.arange(1.0, 6), 8)
    numbers[24::5] = 4  # of texts like those of 5
    model = SVR(Spectrum(1), C=100, device="cpu")
    found = cross_validate(model, texts, numbers, cv=[(np.arange(20), np.arange(20, 40))])
    own = [scores(numbers[20:], found.decision[20:], None, None, grades)["qwk"] for grades in ((1, 5), None)]
    assert found.table[0]["qwk"] == pytest.approx(own[0]) != own[1]


@pytest.mark.parametrize(("cv", "codes", "groups", "sentence"), BAD_FOLDS)
def test_folds_that_cannot_be_are_refused_in_a_sentence(cv, codes, groups, sentence):
    refuses(sentence, make_folds, cv, target(codes), groups)


def test_repeats_that_cannot_be():
    refuses("repeats=0 must be a whole number", make_folds, 2, target(CODES), repeats=0)
    refuses("repeats needs a number of folds", make_folds, KFold(2), target(CODES), repeats=2)


def test_what_cannot_be_cross_validated_is_refused_before_any_work(monkeypatch):
    documents, y = texts(20)
    monkeypatch.setattr(TextSource, "encode", lambda *_: pytest.fail("there was work"))
    model = SVC(device="cpu")
    refused = [
        (model, documents, y[:-1], {}, "20 documents and 19 labels"),
        (model, documents, ["same"] * 20, {}, "all 20 documents have the label same"),
        (model, documents, y, {"sample_weight": np.full(20, np.nan)}, "sample_weight of document 0 is nan"),
        (model, documents, y, {"sample_weight": np.full(20, 1e300)}, "from 0 to 1e[+]100"),
        (model, documents, y, {"sample_weight": (y == "fruit") * 1.0}, "class feline"),
        (model, documents, ["once", *["other"] * 19], {}, "class once has 1 document and there are 5 folds"),
        (
            model,
            documents,
            y,
            {"group_duplicates": 1.5},
            "bound of near-duplicates must be above 0 and at most 1, got 1.5",
        ),
        (model, documents, y, {"group_duplicates": 0.9, "cv": [([0], [1])]}, "given folds"),
        (given(), np.ones(20), y, {}, "Expected 2D array, got 1D array instead. Reshape your data"),
        (SVC(C=-1), documents, y, {}, "C=-1"),
        (model, [], [], {}, "there are no documents"),
        (OneClassSVM(), documents, y, {}, "OneClassSVM is neither SVC nor SVR"),
        (svm.SVC(), documents, y, {}, "SVC is neither .* take scikit-learn's GridSearchCV"),
    ]
    for one, X, labels, options, sentence in refused:
        refuses(sentence, cross_validate, one, X, labels, **options)


IDF = Spectrum((1, 3), weight="log", idf=True)


def test_folds_of_one_training_part_share_a_gram(monkeypatch):
    documents, y = texts(40)
    calls = []
    rows = Spectrum.rows
    monkeypatch.setattr(Spectrum, "rows", lambda *a: calls.append(len(a[1])) or rows(*a))
    parts = [np.arange(20), np.arange(20, 40)]
    folds = [(parts[0], parts[1][:9]), (parts[1], parts[0]), (parts[0][::-1], parts[1][9:])]
    cross_validate(SVC(IDF, device="cpu"), documents, y, cv=folds)
    assert calls == [40] * 3  # of all documents, for near-duplicates; of each part
    del calls[:]
    cross_validate(SVC(Spectrum(p=2), device="cpu"), documents, y, cv=folds)
    assert calls == [40]


@pytest.mark.parametrize("kernel", [IDF, Spectrum(p=2)])
def test_folds_are_trained_from_features_where_a_training_would_be(kernel):
    documents, y = texts(40)
    model, ways = SVC(kernel, tol=1e-8, device="cpu"), [Compute(solver=way) for way in ("gram", "features")]
    results = [cross_validate(clone(model).set_params(compute=way), documents, y, cv=4) for way in ways]
    gram, features = results
    assert "trained from" in features.gram
    assert "trained from" not in gram.gram
    np.testing.assert_allclose(features.decision, gram.decision, atol=1e-5)
    assert [leak.test.tolist() for leak in features.leaks] == [leak.test.tolist() for leak in gram.leaks]


def test_of_several_tests_a_label_needs_most():
    """Of two tests both."""
    documents, y = texts(60, seed=4)
    sets = [[label, "long"] if len(text) % 3 else [label] for text, label in zip(documents, y, strict=True)]
    model = MultilabelSVC(Spectrum(2), C=0.1, thresholds="zero", device="cpu")
    whole = cross_validate(model, documents, sets, cv=3, repeats=2)
    single = [cross_validate(model, documents, sets, cv=3, random_state=seed).predictions for seed in (0, 1)]
    assert np.array_equal(whole.predictions, single[0] & single[1])
    assert (single[0] != single[1]).any()
