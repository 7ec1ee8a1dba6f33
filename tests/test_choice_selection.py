"""`SVC()` in model selection: a kernel chosen on training texts alone, the same whatever trains it."""

import numpy as np
import pytest
from loading import reloaded
from refusals import refuses
from sklearn.base import clone

from textsvm import SVC, SVR, CalibratedSVC, cross_validate, tune
from textsvm.kernels.spectrum.kernel import fixed_default
from textsvm.kernels.spelling import spell
from textsvm.readers import sample
from textsvm.readers.read import read_corpus

# The questions have near-copies.
pytestmark = pytest.mark.filterwarnings("ignore::textsvm.training.leakage.LeakageWarning")


@pytest.fixture(scope="module")
def questions():
    corpus = read_corpus(sample("questions"))
    return corpus.texts, np.array(corpus.labels)


def test_the_choice_does_not_depend_on_the_order(questions):
    """Five orders of the documents: the same kernel, C, and accuracy of every trial."""
    texts, labels = np.array(questions[0], object), questions[1]
    chosen = set()
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(len(texts))
        model = SVC(device="cpu", time_budget=0.0).fit(list(texts[order]), labels[order])
        chosen.add((model.chosen_, model.model_.record.held_out_accuracy))
    assert len(chosen) == 1, chosen


@pytest.mark.parametrize("kernel", ["auto", "fast"])
def test_each_fold_is_a_fit_of_its_own(questions, kernel):
    texts, labels = questions
    weight = np.linspace(0.5, 2, len(texts))
    model = SVC(kernel, C=0.5)
    found = cross_validate(model, texts, labels, cv=3, sample_weight=weight)
    chosen = []
    for train, test in found.folds:
        fitted = clone(model).fit([texts[i] for i in train], labels[train], sample_weight=weight[train])
        expected = fitted.decision_function([texts[i] for i in test])
        np.testing.assert_allclose(found.decision[test], expected, atol=1e-9)
        chosen += [fitted.chosen_]
    assert found.chosen == found.as_dict()["chosen"] == chosen
    assert not hasattr(model, "kernel_")
    assert found.seconds["choose"] >= 0


@pytest.mark.slow
def test_copies_across_folds_are_found_whatever_is_chosen(questions):
    texts, labels = questions
    doubled, names = texts + texts[:3], np.concatenate([labels, labels[:3]])
    model = SVC().fit(texts[:30], labels[:30])
    together = cross_validate(model, doubled, names, cv=3, group_duplicates=0.98)
    for _, test in together.folds:
        for i in range(3):
            assert (i in test) == (len(texts) + i in test)
    assert together.leaks == []


def test_a_grid_without_kernels_is_one_of_the_fixed_kernel(questions):
    found = tune(SVC(), *questions, {"C": [1, 10]}, cv=3)
    assert found.best_params_["C"] == found.best_estimator.C_
    assert spell(found.best_estimator.kernel) == spell(fixed_default())
    found = tune(SVC(), *questions, {"kernel__p": [(1, 3), (1, 4)]}, cv=3)
    assert {row["params"]["kernel__p"] for row in found.table} == {(1, 3), (1, 4)}
    assert spell(found.best_params_["kernel"]) == spell(found.best_estimator.kernel)


def test_a_calibrated_classifier_chooses_once_on_all_texts(questions, tmp_path):
    texts, labels = questions
    plain, model = SVC().fit(texts, labels), CalibratedSVC(SVC()).fit(texts, labels)
    assert (model.chosen_, model.C_) == (plain.chosen_, plain.C_)
    assert model.kernel_.structure.key == plain.kernel_.structure.key
    np.testing.assert_allclose(
        model.decision_function(texts), plain.decision_function(texts), atol=2 * plain.settings.solver_tol
    )
    assert CalibratedSVC(SVC("fast")).fit(texts, labels).chosen_ == SVC("fast").fit(texts, labels).chosen_
    again = reloaded(model, tmp_path / "m")
    np.testing.assert_allclose(again.predict_proba(texts), model.predict_proba(texts), atol=1e-9)
    assert again.chosen_ == model.chosen_


def test_texts_without_a_symbol_are_nothing_to_learn_from():
    refuses("every document is empty", SVC().fit, ["", ""], [0, 1])


@pytest.mark.parametrize("kernel", ["auto", "fast"])
def test_only_a_classifier_chooses(kernel):
    texts, y = ["banana", "monday", "ananas", "sunday"], [0.0, 1.0, 0.5, 1.5]
    model, expected = SVR(kernel).fit(texts, y), SVR(fixed_default()).fit(texts, y)
    np.testing.assert_array_equal(model.predict(texts), expected.predict(texts))
