"""The one-class machine: LIBSVM on the same Gram, its signs, weights."""

import numpy as np
import pytest
from refusals import refuses
from sklearn import svm

from textsvm import EditDistance, OneClassSVM, Spectrum
from textsvm.training.train import prepare


@pytest.fixture(scope="module")
def texts():
    rng = np.random.default_rng(0)
    words = ["banana", "mango", "papaya", "and", "the", "of"]
    return [" ".join(rng.choice(words, rng.integers(4, 9))) for _ in range(60)]


def weights():
    return np.random.default_rng(1).uniform(0.2, 3.0, 60)


@pytest.mark.parametrize("kernel", [Spectrum(p=2), EditDistance(gamma=0.1)], ids=str)
@pytest.mark.parametrize("nu", [0.05, 0.5, 0.9])
@pytest.mark.parametrize("weight", [None, weights()], ids=["equal", "weighted"])
def test_agrees_with_libsvm_on_the_same_gram(texts, kernel, nu, weight):
    model = OneClassSVM(kernel, nu=nu, tol=1e-6).fit(texts, sample_weight=weight)
    K = prepare(model.settings, texts).gram.rows(np.arange(60))
    judge = svm.OneClassSVM(kernel="precomputed", nu=nu, tol=1e-6).fit(K, sample_weight=weight)
    scale = nu * 60
    np.testing.assert_allclose(model.score_samples(texts), judge.score_samples(K), atol=1e-4 * scale)
    np.testing.assert_allclose(model.decision_function(texts), judge.decision_function(K), atol=1e-4 * scale)
    assert model.offset_ == pytest.approx(judge.offset_[0], abs=1e-4 * scale)
    total = 60 if weight is None else weight.sum()
    assert model.dual_coef_.sum() == pytest.approx(nu * total)
    given = OneClassSVM("precomputed", nu=nu, tol=1e-6).fit(K, sample_weight=weight)
    np.testing.assert_allclose(given.score_samples(K), model.score_samples(texts), atol=1e-4 * scale)


def test_with_nu_one_every_text_is_a_support_vector_at_its_bound(texts):
    model = OneClassSVM(Spectrum(p=2), nu=1.0).fit(texts, sample_weight=weights())
    np.testing.assert_allclose(model.dual_coef_[0], weights())


def test_strangers_are_outliers(texts):
    model = OneClassSVM(Spectrum(p=2), nu=0.1).fit(texts, ["ignored"])
    assert model.predict(["xylophone quartz", "1234 5678", "zzz"]).tolist() == [-1, -1, -1]
    assert (model.predict(texts) == -1).mean() <= 0.2
    values = model.decision_function(texts)
    assert model.predict(texts).tolist() == np.where(values >= 0, 1, -1).tolist()
    np.testing.assert_allclose(model.score_samples(texts), values + model.offset_)
    assert model.fit_predict(texts).tolist() == model.predict(texts).tolist()
    assert len(model.support_) >= 0.1 * len(texts)


@pytest.mark.parametrize("nu", [0, 1.01, -1, float("nan"), "half"])
def test_nu_out_of_range_is_named(texts, nu):
    refuses("nu=", OneClassSVM(nu=nu).fit, texts)


def test_unusable_input_is_named(texts):
    refuses("zero for all documents", OneClassSVM().fit, texts, sample_weight=np.zeros(60))
    refuses("no documents", OneClassSVM().fit, [])


def test_texts_on_the_boundary_are_inside():
    model = OneClassSVM("precomputed", nu=0.5, device="cpu").fit(np.eye(4))
    assert model.decision_function(np.eye(4)).tolist() == [0.0] * 4
    assert model.predict(np.eye(4)).tolist() == [1] * 4
