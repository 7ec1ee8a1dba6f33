"""The estimator: scikit-learn's conventions, its inputs and its errors."""

import pickle
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn import svm
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from textsvm import SVC, EditDistance, GapWeighted, InputError, Spectrum
from textsvm.documents import encode, normalise

KERNELS = [
    Spectrum(p=2),
    Spectrum(p=(1, 3), weight="log", idf=True),
    EditDistance(gamma=0.1),
    GapWeighted(p=2),
]


@pytest.fixture(scope="module")
def task():
    """Two made-up languages with shared words: separable, but not by one symbol."""
    rng = np.random.default_rng(0)
    shared = ["and", "the", "of", "to"]
    words = [["banana", "mango", "papaya", *shared], ["monday", "tuesday", "sunday", *shared]]
    y = rng.integers(0, 2, 80)
    texts = [" ".join(rng.choice(words[label], rng.integers(3, 9))) for label in y]
    return texts, np.where(y == 1, "day", "fruit")


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_agrees_with_libsvm_on_the_same_gram(task, kernel):
    texts, y = task
    model = SVC(kernel, C=3.0, tol=1e-6).fit(texts[:60], y[:60])
    documents = encode([normalise(t) for t in texts[:60]])
    rows = clone(kernel).fit(documents).against(documents, model.device_)
    judge = svm.SVC(kernel="precomputed", C=3.0, tol=1e-6).fit(rows.gram(), y[:60])
    cross = rows.cross(encode([normalise(t) for t in texts[60:]], documents.alphabet))
    np.testing.assert_allclose(
        model.decision_function(texts[60:]), judge.decision_function(cross), rtol=1e-3, atol=1e-4
    )
    assert model.score(texts[60:], y[60:]) == judge.score(cross, y[60:])


def test_fitted_attributes(task):
    texts, y = task
    model = SVC(Spectrum(p=2), C=3.0).fit(texts, y)
    assert model.classes_.tolist() == ["day", "fruit"]
    assert model.dual_coef_.shape == (1, len(model.support_))
    assert model.n_support_.sum() == len(model.support_) == len(model.support_documents_)
    assert model.dual_coef_.sum() == pytest.approx(0, abs=1e-9)
    assert set(model.predict(texts)) == {"day", "fruit"}
    assert set(model.seconds_) == {"encode", "gram", "solve"}


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_survives_pickling_and_cloning(task, kernel):
    texts, y = task
    model = SVC(kernel, C=3.0).fit(texts[:40], y[:40])
    expected = model.decision_function(texts[40:])
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.decision_function(texts[40:]), expected)
    fresh = clone(model)
    assert fresh.get_params().keys() == model.get_params().keys()
    assert not hasattr(fresh, "classes_")


def test_grid_search_over_kernel_parameters(task):
    texts, y = task
    search = GridSearchCV(SVC(Spectrum()), {"kernel__p": [1, 2, 3], "C": [1, 10]}, cv=3, n_jobs=2)
    search.fit(np.array(texts, dtype=object), y)
    assert search.best_score_ > 0.9
    assert search.best_estimator_.kernel_.p == search.best_params_["kernel__p"]


def test_pipeline_and_cross_validation(task):
    texts, y = task
    upper = FunctionTransformer(lambda X: [t.upper() for t in X])
    assert cross_val_score(make_pipeline(upper, SVC(Spectrum(p=2))), texts, y, cv=3).mean() > 0.9


@pytest.mark.parametrize("form", [list, tuple, np.array, lambda X: np.array(X, dtype=object), pd.Series])
def test_columns_of_many_kinds(task, form):
    texts, y = task
    model = SVC(Spectrum(p=2)).fit(form(texts), pd.Series(y))
    np.testing.assert_array_equal(
        model.predict(form(texts[:5])), SVC(Spectrum(p=2)).fit(texts, y).predict(texts[:5])
    )


def test_batches_do_not_change_decisions(task, monkeypatch):
    texts, y = task
    model = SVC(GapWeighted(p=2)).fit(texts, y)
    expected = model.decision_function(texts)
    monkeypatch.setattr("textsvm.kernels.base.BLOCK_BYTES", 4 * 3 * len(model.support_))
    np.testing.assert_allclose(model.decision_function(texts), expected, rtol=1e-12)


def test_cached_rows_give_the_same_model(task):
    texts, y = task
    dense = SVC(Spectrum(p=2), C=10).fit(texts, y)
    cached = SVC(Spectrum(p=2), C=10, memory=4 * len(texts) * 8).fit(texts, y)
    assert dense.gram_ != cached.gram_
    np.testing.assert_allclose(cached.decision_function(texts), dense.decision_function(texts), atol=1e-6)


def test_numeric_labels_and_no_documents_to_predict(task):
    texts, y = task
    model = SVC(Spectrum(p=2)).fit(texts, (y == "day").astype(int))
    assert model.classes_.tolist() == [0, 1]
    assert model.predict([]).shape == (0,)


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ("one text", ["a"], "single string"),
        ([["nested"]], ["a"], "document 0"),
        (["ok", None], ["a", "b"], "document 1 is missing"),
        (["ok", float("nan")], ["a", "b"], "document 1 is missing"),
        (["ok", 3], ["a", "b"], "document 1 is of type int"),
        (np.array([["a", "b"]]), ["a"], "shape"),
        (["ok", "fine"], ["a"], "2 texts and 1 labels"),
        (["ok", "fine"], ["a", "a"], "two classes"),
        (["ok", "fine"], ["a", None], "label of document 1"),
        (["ok", "fine", "well"], ["a", "b", "c"], "3 classes"),
        ([], [], "no documents"),
        (["ok", "no"], ["a", "b"], "shorter than p = 4"),
    ],
)
def test_unusable_input_is_named(X, y, message):
    with pytest.raises(InputError, match=message):
        SVC(Spectrum(p=4)).fit(X, y)


@pytest.mark.parametrize(
    "parameters",
    [
        {"C": float("nan")},
        {"C": -1},
        {"C": 0},
        {"C": "big"},
        {"tol": 0},
        {"duality_gap": -0.1},
        {"kernel": "rbf"},
        {"kernel": 3},
        {"kernel": Spectrum(p=0)},
        {"kernel": Spectrum(p=(3, 2))},
        {"kernel": Spectrum(weight="heavy")},
        {"kernel": EditDistance(gamma=0)},
        {"kernel": EditDistance(gamma=float("inf"))},
        {"kernel": GapWeighted(decay=0)},
        {"kernel": GapWeighted(decay=1.5)},
        {"kernel": GapWeighted(p=2.5)},
        {"normalise": "ascii"},
        {"max_length": 0},
        {"max_iter": 0},
        {"memory": "much"},
        {"memory": -3},
        {"device": "tpu"},
        {"n_jobs": 0},
    ],
    ids=str,
)
def test_parameters_out_of_range_are_named(parameters, task):
    with pytest.raises(InputError):
        SVC(**parameters).fit(*task)


def test_an_unfinished_fit_warns(task):
    from sklearn.exceptions import ConvergenceWarning

    with pytest.warns(ConvergenceWarning, match="before it converged"):
        model = SVC(Spectrum(p=2), C=100, tol=1e-8, max_iter=3).fit(*task)
    assert not model.solution_.converged


def test_a_duality_gap_may_end_a_fit(task):
    close = SVC(Spectrum(p=2), C=10).fit(*task)
    loose = SVC(Spectrum(p=2), C=10, duality_gap=0.1).fit(*task)
    assert loose.solution_.converged
    assert close.solution_.duality_gap < loose.solution_.duality_gap <= 0.1
    assert loose.n_iter_ < close.n_iter_
    assert loose.solution_.objective == pytest.approx(close.solution_.objective, rel=0.1)


def test_progress_names_the_stages_and_may_stop(task):
    seen = []
    SVC(Spectrum(p=2)).fit(*task, progress=lambda stage, done, total: seen.append(stage))
    assert {"encode", "gram"} <= set(seen)

    def stop(stage, done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        SVC(Spectrum(p=2)).fit(*task, progress=stop)


def test_importing_is_light():
    import subprocess

    code = "import sys, textsvm; print({'numba', 'sklearn', 'cupy', 'scipy', 'numpy'} & {*sys.modules})"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        == "set()\n"
    )
