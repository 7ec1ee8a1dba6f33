"""Regression: LIBSVM on the same Gram, weights, bad targets."""

import numpy as np
import pytest
from refusals import raising, refuses
from sklearn import svm

from textsvm import SVR, EditDistance, GapWeighted, Spectrum
from textsvm.training.train import prepare

KERNELS = [Spectrum(p=2), EditDistance(gamma=0.1), GapWeighted(p=2)]


@pytest.fixture(scope="module")
def task():
    """Texts whose number of rare words, with noise, is to be predicted."""
    rng = np.random.default_rng(0)
    common, rare = ["and", "the", "of", "to"], ["zephyr", "quixotic", "vex"]
    counts = rng.integers(0, 6, 70)
    texts = [
        " ".join(rng.permutation([*rng.choice(rare, count), *rng.choice(common, 6 - count // 2)]))
        for count in counts
    ]
    return texts, counts + 0.1 * rng.normal(size=70)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("epsilon", [0.0, 0.25])
def test_agrees_with_libsvm_on_the_same_gram(task, kernel, epsilon):
    texts, y = task
    model = SVR(kernel, C=4.0, epsilon=epsilon, tol=1e-6).fit(texts, y)
    K = prepare(model.settings, texts).gram.rows(np.arange(70))
    judge = svm.SVR(kernel="precomputed", C=4.0, epsilon=epsilon, tol=1e-6).fit(K, y)
    assert model.predict(texts).dtype == np.float64
    np.testing.assert_allclose(model.predict(texts), judge.predict(K), atol=1e-3)
    given = SVR("precomputed", C=4.0, epsilon=epsilon, tol=1e-6).fit(K, y)
    np.testing.assert_allclose(given.predict(K), model.predict(texts), atol=1e-4)


def test_fitted_attributes(task):
    texts, y = task
    model = SVR(Spectrum(p=2), C=4.0).fit(texts, y)
    assert model.score(texts, y) > 0.9
    assert model.dual_coef_.shape == (1, len(model.support_))
    assert model.dual_coef_.sum() == pytest.approx(0, abs=1e-9)
    assert np.abs(model.dual_coef_).max() <= 4.0
    assert model.n_support_.tolist() == [len(model.support_)]
    assert not hasattr(model, "decision_function")
    assert not hasattr(model, "classes_")
    assert set(model.seconds_) == {"check", "encode", "plan", "gram", "solve", "assemble"}


def test_a_wide_tube_needs_no_support_vectors(task):
    texts, y = task
    model = SVR(Spectrum(p=2), epsilon=100.0).fit(texts, y)
    assert len(model.support_) == 0
    np.testing.assert_array_equal(model.predict(texts), np.full(70, model.intercept_[0]))


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([2.0, 2.0, 2.0], "all 3 targets are 2"),
        ([1.0, np.nan, 2.0], "target of document 1 is missing"),
        ([1.0, np.inf, 2.0], "target of document 1 is inf"),
        ([1.0, None, 2.0], "target of document 1 is missing"),
        (["a", "b", "c"], "not numbers"),
        ([1.0, 2.0], "3 documents and 2 targets"),
        (None, "requires y"),
        ([[1.0, 2.0]] * 3, "one target a document"),
    ],
)
def test_unusable_targets_are_named_before_the_work(y, message):
    begun = raising(AssertionError("the work has begun"))
    refuses(message, SVR(Spectrum(p=1)).fit, ["x", "y", "z"], y, progress=begun)


@pytest.mark.parametrize("parameters", [{"epsilon": -0.1}, {"epsilon": float("nan")}, {"C": 0}], ids=str)
def test_parameters_out_of_range_are_named(parameters, task):
    refuses(next(iter(parameters)), SVR(**parameters).fit, *task)
