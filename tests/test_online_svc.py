"""`OnlineSVC`: what scikit-learn asks of a classifier, and that it is `SVC` on the texts that are left."""

import pickle

import numpy as np
import pandas as pd
import pytest
from loading import load
from refusals import refuses
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.utils import estimator_checks, get_tags
from test_sklearn import NO_DATA

from textsvm import SVC, OnlineSVC, Spectrum, save
from textsvm.model.file import describe
from textsvm.model.online import digest_of
from textsvm.solvers import online as machines


@pytest.mark.parametrize("name", NO_DATA)
@pytest.mark.filterwarnings("ignore")
def test_checks_that_need_no_data(name):
    getattr(estimator_checks, name)("OnlineSVC", OnlineSVC())


def corpus(n=80, seed=0):
    rng = np.random.default_rng(seed)
    words = [["banana", "mango", "and", "the", "of"], ["monday", "sunday", "and", "the", "of"]]
    codes = np.concatenate([[0, 1], rng.integers(0, 2, n - 2)])
    wrong = rng.random(n) < 0.1
    texts = [" ".join(rng.choice(words[code ^ bad], 6)) for code, bad in zip(codes, wrong, strict=True)]
    return texts, np.array(["fruit", "day"])[codes]


def reference(texts, y):
    """Characters are bytes here, so the presence of p-mers is one kernel for both."""
    kernel = Spectrum(p=4, weight="presence", keep_case=True)
    return SVC(kernel, C=10.0, tol=1e-6, normalise="none").fit(texts, y)


def objective(model, texts, y):
    """1/2 b'Kb - sum of alphas of the learnt texts, in their order: what `SVC` minimises, too."""
    (machine,) = model.machines_
    alphas = np.array([alpha for _, alpha in sorted(machine.alphas.items())])
    coef = alphas * np.where(y == model.classes_[1], 1, -1)
    return 0.5 * coef @ (model.decision_function(texts) - machine.bias) - alphas.sum()


def test_any_order_of_learning_and_unlearning_is_svc_of_what_is_left():
    texts, y = corpus()
    model = OnlineSVC(C=10.0, tol=1e-6).partial_fit(texts[:3], y[:3], classes=["fruit", "day"])
    for first in range(3, 80, 7):
        model.partial_fit(texts[first : first + 7], y[first : first + 7])
    model.unlearn(texts[10:40]).unlearn(texts[70:])
    left = [*range(10), *range(40, 70)]
    texts, y = [texts[i] for i in left], y[left]
    expected = reference(texts, y)
    assert len(model.machines_[0]) == 40
    assert objective(model, texts, y) == pytest.approx(expected.solutions_[0].objective, rel=1e-5)


def test_equal_texts_count_each_and_go_one_by_one():
    model = OnlineSVC(C=1.0).fit(["banana", "banana", "monday"], [1, 1, 0])
    assert len(model.machines_[0]) == 3
    model.unlearn(["banana"])
    assert len(model.machines_[0]) == 2
    refuses("document 1 was not learnt", model.unlearn, ["banana", "banana"])
    assert len(model.machines_[0]) == 2
    model.unlearn(["banana", "monday"])
    assert model.decision_function(["banana"]).tolist() == [0.0]


def test_of_equal_texts_the_copy_that_was_learnt_last_is_forgotten():
    model = OnlineSVC().fit(["banana", "monday", "banana"], [1, 0, 0]).unlearn(["banana"])
    expected = OnlineSVC().fit(["banana", "monday"], [1, 0])
    np.testing.assert_allclose(model.decision_function(["banana"]), expected.decision_function(["banana"]))


def test_bytes_beyond_the_limit_are_not_read():
    """The limit counts bytes of UTF-8, not characters."""
    texts = ["\u00e9\u00e9\u00e9\u00e9banana", "\u00e8\u00e8\u00e8\u00e8monday"]
    model = OnlineSVC(max_bytes=8).fit(texts, [1, 0])
    first, other = model.decision_function(["\u00e9\u00e9\u00e9\u00e9monday", "\u00e9\u00e9\u00e9\u00e9"])
    assert first == other == model.decision_function(texts)[0]


def test_a_budget():
    texts, y = corpus()
    model = OnlineSVC(max_texts=30).fit(texts, y)
    assert len(model.machines_[0]) == 30 == sum(map(len, model.learner_.known.copies.values()))
    gone = [text for text in texts if digest_of(text) not in model.learner_.known.copies]
    refuses("forgotten beyond max_texts", model.unlearn, gone[:1])


FORMS = [
    lambda texts: np.array(texts, dtype="<U60"),
    lambda texts: np.array(texts, dtype=object),
    lambda texts: pd.Series(texts, index=range(9, 9 + len(texts))),
    iter,
]


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_texts(form):
    texts, y = corpus()
    expected, found = OnlineSVC().fit(texts, y), OnlineSVC().fit(form(texts), y)
    np.testing.assert_array_equal(found.decision_function(form(texts)), expected.decision_function(texts))
    assert not hasattr(found, "n_features_in_")


REFUSED = [
    ("a text", "single string"),
    ([*["a text"] * 23, None], "document 23 is missing"),
    (np.arange(24) * 1j, "document 0 is of type complex"),
    (np.array([["a", "text"]] * 24), "one column of texts"),
    (csr_matrix(np.eye(24)), "one column"),
]


@pytest.mark.parametrize(("X", "message"), REFUSED)
def test_texts_that_are_refused(X, message):
    y, model = ["a", "b"] * 12, OnlineSVC().fit(["banana", "monday"], ["a", "b"])
    for call in (lambda: OnlineSVC().fit(X, y), lambda: model.partial_fit(X, y), lambda: model.predict(X)):
        refuses(message, call)
    refuses(message, model.unlearn, X)
    assert len(model.machines_[0]) == 2


def test_labels_and_parameters_that_are_refused():
    texts = ["banana", "monday", "mango"]
    refuses("two classes", OnlineSVC().fit, texts, [1, 1, 1])
    refuses("no documents", OnlineSVC().fit, [], [])
    model = OnlineSVC().partial_fit(texts[:1], [1], classes=[0, 1])
    assert model.predict(["anything"]).tolist() == [1]
    refuses("label of document 1 is 2, and the classes are 0, 1", model.partial_fit, texts[1:], [0, 2])
    wrong = [{"C": 0}, {"C": np.inf}, {"tol": "a"}, {"p": 8}, {"p": 2.5}, {"max_texts": 0}, {"max_bytes": -1}]
    for parameters in wrong:
        refuses(next(iter(parameters)), OnlineSVC(**parameters).fit, texts, [0, 1, 1])


def test_what_takes_too_long_says_so(set_values):
    texts, y = corpus()
    set_values(machines, MAX_PAIRS=2, STRETCH=1)
    with pytest.warns(ConvergenceWarning, match="the next call continues"):
        OnlineSVC().fit(texts, y)


def test_scikit_learns_tools_around_it():
    texts, y = corpus()
    assert cross_val_score(OnlineSVC(C=0.3), texts, y, cv=3).mean() > 0.8
    search = GridSearchCV(OnlineSVC(), {"C": [0.1, 10.0], "p": [2, 4]}, cv=2).fit(texts, y)
    assert search.best_estimator_.p == search.best_params_["p"]
    many = OneVsRestClassifier(OnlineSVC()).fit(["banana", "monday", "maple"] * 2, ["a", "b", "c"] * 2)
    assert many.predict(["maples", "mondays"]).tolist() == ["c", "b"]
    many.partial_fit(["birches"], ["c"])
    assert many.predict(["birch"]).tolist() == ["c"]


def test_tags_clones_and_pickles():
    assert get_tags(OnlineSVC()).input_tags.string
    assert get_tags(OnlineSVC()).classifier_tags.multi_class
    texts, y = corpus()
    model = OnlineSVC(p=3).fit(texts, y)
    assert not hasattr(clone(model), "classes_")
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.decision_function(texts), model.decision_function(texts))
    np.testing.assert_allclose(
        again.unlearn(texts[:9]).decision_function(texts), model.unlearn(texts[:9]).decision_function(texts),
        atol=3e-3,
    )  # fmt: skip
    for unfitted in (OnlineSVC(), pickle.loads(pickle.dumps(OnlineSVC()))):
        with pytest.raises(NotFittedError):
            unfitted.predict(texts)
        with pytest.raises(NotFittedError):
            unfitted.unlearn(texts)


def three_classes(n=90, seed=0):
    rng = np.random.default_rng(seed)
    words = [
        ["banana", "mango", "and", "the"],
        ["monday", "sunday", "and", "the"],
        ["oak", "maple", "and", "the"],
    ]
    codes = np.concatenate([[0, 1, 2], rng.integers(0, 3, n - 3)])
    return [" ".join(rng.choice(words[code], 4)) for code in codes], np.array(["fruit", "day", "tree"])[codes]


def test_more_than_two_classes_are_the_machines_of_one_vs_rest():
    (texts, y), others = three_classes(), three_classes(seed=1)[0]
    model = OnlineSVC(C=10.0, tol=1e-6).partial_fit(texts[:40], y[:40]).partial_fit(texts[40:], y[40:])
    expected = reference(texts, y)
    assert model.classes_.tolist() == ["day", "fruit", "tree"]
    np.testing.assert_allclose(model.decision_function(others), expected.decision_function(others), atol=1e-3)
    assert model.predict(others).tolist() == expected.predict(others).tolist()
    kept = reference(texts[30:], y[30:]).decision_function(others)
    np.testing.assert_allclose(model.unlearn(texts[:30]).decision_function(others), kept, atol=1e-3)


@pytest.mark.parametrize("later", ["tree", "fruit", "day"])
def test_a_class_that_comes_later(later):
    """Wherever it stands among the sorted classes."""
    texts, y = three_classes()
    old = y != later
    old_texts = [text for text, is_old in zip(texts, old, strict=True) if is_old]
    model = OnlineSVC(C=10.0, tol=1e-6).fit(old_texts, y[old])
    refuses(later, model.partial_fit, ["oak"], [later])
    model.add_classes([later])
    model.partial_fit([text for text, is_old in zip(texts, old, strict=True) if not is_old], y[~old])
    expected = OnlineSVC(C=10.0, tol=1e-6).fit(texts, y)
    np.testing.assert_allclose(model.decision_function(texts), expected.decision_function(texts), atol=1e-3)
    np.testing.assert_array_equal(np.bincount(model.left_out()[1]), np.bincount(expected.left_out()[1]))


@pytest.mark.parametrize("make", [corpus, three_classes])
def test_probabilities_agree_with_predictions(make):
    texts, y = make()
    model, others = OnlineSVC().fit(texts, y), make(seed=1)[0]
    p = model.predict_proba(others)
    assert p.shape == (len(others), len(model.classes_))
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert model.classes_[p.argmax(axis=1)].tolist() == model.predict(others).tolist()
    right = np.mean(p[np.arange(len(others)), np.searchsorted(model.classes_, make(seed=1)[1])])
    assert 0.6 < right < 0.99
    refuses("two classes", OnlineSVC().partial_fit(["a text"], [1], classes=[0, 1]).predict_proba, ["a text"])


def test_probabilities_follow_what_was_learnt_since():
    texts, y = corpus()
    model = OnlineSVC(tol=1e-6).fit(texts[:20], y[:20])
    model.predict_proba(texts)
    model.partial_fit(texts[20:], y[20:])
    expected = OnlineSVC(tol=1e-6).fit(texts[:20], y[:20]).partial_fit(texts[20:], y[20:])
    np.testing.assert_allclose(model.predict_proba(texts), expected.predict_proba(texts), atol=1e-6)


def test_the_description_of_a_saved_model_counts_support_vectors(tmp_path):
    """Texts with a coefficient above 0; the other texts are in the file for further learning."""
    texts, y = corpus()
    model = OnlineSVC(C=10.0).fit(texts, y)
    save(model, tmp_path / "m.textsvm")
    alphas = model.machines_[0].alphas
    used = [label for number, label in enumerate(y.tolist()) if alphas[number] > 0]
    assert len(used) < len(texts)
    expected = [used.count(label) for label in model.classes_.tolist()]
    assert describe(tmp_path / "m.textsvm")["n_support"] == expected


@pytest.mark.parametrize("make", [corpus, three_classes])
@pytest.mark.parametrize("max_texts", [None, 30])
def test_a_saved_model_goes_on_learning(tmp_path, make, max_texts):
    (texts, y), path = make(), tmp_path / "m.textsvm"
    model = OnlineSVC(C=10.0, tol=1e-6, max_texts=max_texts).fit(texts[:50], y[:50])
    save(model, path, {"a": 1})
    assert isinstance(load(path), OnlineSVC)
    for again in (load(path), load(path)):
        assert again.model_.info == {"a": 1}
        np.testing.assert_allclose(again.predict_proba(texts), model.predict_proba(texts), atol=1e-4)
    again.partial_fit(texts[50:], y[50:])
    if max_texts is None:
        again.unlearn(texts[:9]).partial_fit(texts[:9], y[:9])
        scratch = OnlineSVC(C=10.0, tol=1e-6).fit(texts, y)
        np.testing.assert_allclose(
            again.decision_function(texts), scratch.decision_function(texts), atol=1e-3
        )
    facts = describe(path)
    assert facts["texts"]
    assert sum(facts["n_support"]) > 0
    refuses("without them", save, model, path, texts=False)
