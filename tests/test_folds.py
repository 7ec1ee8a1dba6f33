"""Classes with fewer documents than folds: what is done with them, and what is said."""

import warnings

import numpy as np
import pytest
from sklearn.metrics import f1_score
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

from textsvm.errors import InputError, RareClassWarning
from textsvm.estimators.calibrated import CalibratedSVC
from textsvm.estimators.svm import SVC
from textsvm.selection.cross_validation import cross_validate
from textsvm.selection.tuning import tune
from textsvm.training.folds import make_folds
from textsvm.training.targets import Target

pytestmark = pytest.mark.filterwarnings("ignore::textsvm.training.leakage.LeakageWarning")


def target(codes):
    return Target(np.asarray(codes), np.array(list("abcdefghij"[: max(codes) + 1])))


def told(call, *arguments, **options):
    """What a call gives, and the one warning of rare classes that it gave."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = call(*arguments, **options)
    rare = [str(one.message) for one in caught if issubclass(one.category, RareClassWarning)]
    assert len(rare) == 1, [str(one.message) for one in caught]
    assert not any("least populated" in str(one.message) for one in caught)
    return found, rare[0]


def rare_texts(n=24):
    """Two large classes, one of three documents, and two of one."""
    rng = np.random.default_rng(0)
    words = {
        "fruit": "banana bandana",
        "feline": "kitten sitting",
        "sea": "herring",
        "x": "quartz",
        "y": "jazz",
    }
    labels = ["fruit", "feline"] * (n // 2) + ["sea"] * 3 + ["x", "y"]
    return [f"{words[label]} {rng.integers(1000)} {words[label]}" for label in labels], np.array(labels)


def test_a_class_of_few_documents_is_tested_in_some_folds_and_trained_on_in_all():
    codes = [0] * 30 + [1] * 30 + [2] * 3
    folds, message = told(make_folds, 5, target(codes), repeats=3)
    assert message == "not all of the 5 folds test classes of fewer documents ('c')"
    assert len(folds) == 15
    for train, test in folds:
        assert (np.bincount(np.take(codes, train)) > 0).all()
        assert sorted([*train, *test]) == list(range(63))
    assert sorted(np.concatenate([test for _, test in folds[:5]])) == list(range(63))


def test_classes_of_one_document_are_never_tested():
    folds, message = told(make_folds, 5, target([0] * 10 + [1] * 10 + [2, 3]))
    never = "are trained on in every fold and never tested"
    assert message == f"classes of a single document ('c', 'd') {never}"
    assert all({20, 21} <= set(train.tolist()) for train, _ in folds)
    assert sorted(np.concatenate([test for _, test in folds])) == list(range(20))
    _, message = told(make_folds, 2, target([0, 0, 1, 1, *range(2, 9)]))
    assert "('c', 'd', 'e', 'f', 'g' and 2 more)" in message
    _, message = told(make_folds, 2, target([0, 0, 1, 1, 2]))
    assert message == f"classes of a single document ('c') {never}"


def test_folds_become_fewer_only_where_no_class_has_enough():
    folds, message = told(make_folds, 30, target([0] * 12 + [1] * 8))
    assert len(folds) == 12
    assert message.startswith("12 folds are made and not 30")
    folds, message = told(make_folds, 5, Target(np.arange(3.0), None))
    assert len(folds) == 3
    assert message == "3 folds are made and not 5: too few documents for more"
    folds, _ = told(make_folds, 5, target([0, 1] * 10), np.arange(20) // 5)
    assert len(folds) == 4


def test_folds_that_need_no_warning_are_what_they_were():
    codes = np.array([0] * 30 + [1] * 12)
    with warnings.catch_warnings(action="error"):
        folds = make_folds(5, target(codes), random_state=3)
    splits = StratifiedKFold(5, shuffle=True, random_state=3).split(codes, codes)
    for (train, test), (expected_train, expected_test) in zip(folds, splits, strict=True):
        np.testing.assert_array_equal(train, expected_train)
        np.testing.assert_array_equal(test, expected_test)


@pytest.mark.parametrize("seed", range(20))
def test_groups_of_a_rare_class_stay_whole_and_leave_it_to_train_on(seed):
    rng = np.random.default_rng(seed)
    groups = rng.integers(0, 12, 80)
    codes = rng.integers(0, 2, 80)
    codes[np.isin(groups, [3])] = 2  # in one group only
    codes[np.flatnonzero(np.isin(groups, [4, 5]))[::2]] = 3  # in two groups
    folds, message = told(make_folds, 5, target(codes), groups, random_state=seed)
    assert "in the groups of classes that have too few groups ('c'" in message
    for train, test in folds:
        assert not set(groups[train]) & set(groups[test])
        assert (np.bincount(codes[train], minlength=4) > 0).all()
        assert set(np.flatnonzero(groups == 3)) <= set(train.tolist())
        assert len(test)


def test_a_class_whose_groups_come_to_one_test_part_keeps_one_to_train_on():
    codes = np.array([1, 2, 1, 1, 0, 2, 0, 1, 2, 2, 2, 2, 2])
    groups = np.array([0, 2, 3, 1, 1, 0, 3, 3, 2, 2, 2, 2, 2])
    splits = list(StratifiedGroupKFold(3, shuffle=True, random_state=0).split(codes, codes, groups))
    assert any(len(np.unique(codes[train])) < 3 for train, _ in splits)  # scikit-learn loses a class
    folds, message = told(make_folds, 3, target(codes), groups)
    assert "in the groups of classes that have too few groups" in message
    assert len(folds) >= 2
    for train, test in folds:
        assert (np.bincount(codes[train], minlength=3) > 0).all()
        assert not set(groups[train]) & set(groups[test])
    # Class 1 is in groups 0 and 1, of two documents each, and 3, of three. The smallest stays in training.
    never_tested = np.setdiff1d(np.arange(len(codes)), np.concatenate([test for _, test in folds]))
    assert groups[never_tested].tolist() == [0, 0]


def test_cross_validation_leaves_classes_that_were_never_tested_undefined():
    documents, y = rare_texts()
    found, message = told(cross_validate, SVC(device="cpu"), documents, y)
    assert "test classes of fewer documents ('sea')" in message
    assert "classes of a single document ('x', 'y')" in message
    assert found.tested.tolist() == [1] * 27 + [0, 0]
    assert found.predictions[-2:].tolist() == [None, None]
    assert np.isnan(found.decision[-2:]).all()
    for name in ("f1[x]", "f1[y]"):
        assert np.isnan(found.mean[name])
        assert np.isnan(found.pooled[name])
    assert np.isnan([row["f1[sea]"] for row in found.table]).sum() == 2
    tested = found.tested > 0
    expected = f1_score(y[tested], found.predictions[tested].astype(str), average="macro")
    assert found.pooled["macro_f1"] == pytest.approx(expected)
    assert found.as_dict()["mean"]["f1[x]"] is None


@pytest.mark.slow
def test_tuning_goes_on_with_rare_classes_and_says_so_once():
    documents, y = rare_texts()
    found, _ = told(tune, SVC(device="cpu"), documents, y, {"C": [1, 10]}, nested=2, cv=5)
    assert found.best_score > 0.9
    assert found.best_estimator.classes_.tolist() == ["feline", "fruit", "sea", "x", "y"]
    found, _ = told(tune, SVC(device="cpu"), documents, y, {"C": [1]}, group_duplicates=0.999)
    assert found.best_score > 0.9


@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
def test_a_class_that_was_never_tested_has_the_map_of_the_others(method):
    documents, y = rare_texts()
    model, _ = told(CalibratedSVC(SVC(device="cpu"), method).fit, documents, y)
    p = model.predict_proba(documents)
    assert p.shape == (29, 5)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert (model.predict(documents)[:24] == y[:24]).all()
    values = model.decision_function(documents)[:27]
    spread = [
        model.model_.rule.probabilities(np.where(np.arange(5) == k, 3.0, -3.0)[None])[0, k] for k in (3, 4)
    ]
    assert spread[0] == pytest.approx(spread[1])
    assert np.isfinite(values).all()
    assert min(spread) > 0.5


@pytest.mark.filterwarnings("ignore:The least populated class")
def test_given_splits_are_as_strict_as_they_were():
    documents, y = rare_texts()
    with pytest.raises(InputError, match="is missing from the training part of fold"):
        cross_validate(SVC(device="cpu"), documents, y, cv=StratifiedKFold(3))
    with pytest.raises(InputError, match="class x is missing from the training part of fold 0"):
        cross_validate(SVC(device="cpu"), documents, y, cv=[(np.arange(27), np.array([27]))])
