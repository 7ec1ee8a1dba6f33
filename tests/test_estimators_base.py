"""Estimators hold a trained model: changes of an estimator after `fit` do not reach the model."""

import inspect

import numpy as np
import pytest
from refusals import refuses
from sklearn.base import clone

import textsvm
from textsvm import SVC, SVR, CalibratedSVC, MultilabelSVC, OneClassSVM, Spectrum, as_estimator
from textsvm.training.train import train

TEXTS = ["win cash now", "cheap cash prize", "win a prize", "lunch at noon", "see you at noon", "the agenda"]
LABELS = ["spam"] * 3 + ["ham"] * 3


def test_settings_of_a_model_are_those_of_its_training():
    kernel, weights = Spectrum(2), {"spam": 2.0, "ham": 1.0}
    svc = SVC(kernel, class_weight=weights, device="cpu").fit(TEXTS, LABELS)
    before = svc.model_.decision_function(TEXTS)
    svc.set_params(kernel__p=3)
    weights["spam"] = 7.0
    settings = svc.model_.record.settings
    assert (settings.kernel.p, settings.class_weight) == (2, {"spam": 2.0, "ham": 1.0})
    assert svc.settings.kernel.p == 3
    np.testing.assert_array_equal(train(settings, TEXTS, LABELS).decision_function(TEXTS), before)


def test_settings_of_a_calibrated_model_are_those_of_its_training():
    kernel, weights, reject = Spectrum(2), {"spam": 2.0}, [0.4, 0.6]
    svc = CalibratedSVC(SVC(kernel, class_weight=weights, device="cpu"), cv=2, reject=reject)
    model = svc.fit(TEXTS, LABELS).model_
    before = model.predict(TEXTS)
    svc.set_params(estimator__kernel__p=3)
    weights["spam"], reject[:] = 7.0, [0.0, 1.0]
    settings = model.record.settings
    assert (settings.kernel.p, settings.class_weight, model.rule.reject) == (2, {"spam": 2.0}, [0.4, 0.6])
    np.testing.assert_array_equal(model.predict(TEXTS), before)


def test_an_estimator_of_a_model_has_parameters_of_its_own():
    model = SVC(Spectrum(2), class_weight={"spam": 2.0}, device="cpu").fit(TEXTS, LABELS).model_
    estimator = as_estimator(model)
    estimator.set_params(kernel__p=4)
    estimator.class_weight["spam"] = 9.0
    assert (model.record.settings.kernel.p, model.record.settings.class_weight) == (2, {"spam": 2.0})


@pytest.mark.parametrize("name", ["dual_coef_", "intercept_", "support_", "n_support_", "classes_"])
def test_fitted_arrays_are_read_only(name):
    svc = SVC(Spectrum(2), device="cpu").fit(TEXTS, LABELS)
    with pytest.raises(ValueError, match="read-only"):
        getattr(svc, name)[..., 0] = 0


@pytest.mark.parametrize("n_jobs", [0, "x", 1.5])
def test_the_number_of_threads_is_checked_after_training_too(n_jobs):
    svc = SVC(Spectrum(2), device="cpu").fit(TEXTS, LABELS).set_params(n_jobs=n_jobs)
    refuses("n_jobs", svc.predict, TEXTS)
    calibrated = CalibratedSVC(SVC(Spectrum(2), device="cpu"), cv=2).fit(TEXTS, LABELS)
    calibrated.set_params(estimator__n_jobs=n_jobs)
    refuses("n_jobs", calibrated.predict, TEXTS)


def test_models_without_classes_have_no_similarity_to_classes():
    regression = SVR(Spectrum(2), device="cpu").fit(TEXTS, range(6)).model_
    labels = MultilabelSVC(Spectrum(2), cv=2, device="cpu").fit(TEXTS, [[label] for label in LABELS]).model_
    for model in (regression, labels):
        refuses("no similarity", model.score_samples, TEXTS)
    novelty = OneClassSVM(Spectrum(2), device="cpu").fit(TEXTS)
    np.testing.assert_array_equal(novelty.model_.score_samples(TEXTS), novelty.score_samples(TEXTS))


PARAMETRISED = [kind for name in textsvm.__all__ if hasattr(kind := getattr(textsvm, name), "set_params")]


@pytest.mark.parametrize("kind", PARAMETRISED, ids=lambda kind: kind.__name__)
def test_a_subclass_with_a_mix_in_has_the_signature_of_its_constructor(kind):
    """`__signature__`, because Python 3.11.2 takes the signature of an inherited `__new__` before."""
    mixed = type("Mixed", (type("Mixin", (), {}), kind), {})
    own = inspect.signature(kind.__init__)
    constructor = own.replace(parameters=list(own.parameters.values())[1:])
    assert mixed.__signature__ == inspect.signature(mixed) == constructor


def test_the_signature_of_a_kernel_object_is_that_of_its_call():
    assert list(inspect.signature(Spectrum(2)).parameters) == ["texts", "others"]


class WithLanguage(SVC):
    """A parameter of its own, and few of the others."""

    def __init__(self, language="en", C=1.0, kernel="auto"):
        super().__init__(kernel, C)
        self.language = language


class PassingOn:
    """A mix-in that takes a parameter and passes the others on."""

    def __init__(self, *values, shout=False, **parameters):
        super().__init__(*values, **parameters)
        self.shout = shout


def test_a_subclass_with_parameters_of_its_own_is_trained():
    expected = SVC(Spectrum(2), 3.0).fit(TEXTS, LABELS).decision_function(TEXTS)
    model = clone(WithLanguage("de", 3.0, Spectrum(2))).fit(TEXTS, LABELS)
    assert (model.language, model.get_params(deep=False).keys()) == ("de", {"language", "C", "kernel"})
    np.testing.assert_array_equal(model.decision_function(TEXTS), expected)
    passing = type("Passing", (PassingOn, SVC), {})(Spectrum(2), C=3.0, shout=True)
    np.testing.assert_array_equal(SVC.decision_function(SVC.fit(passing, TEXTS, LABELS), TEXTS), expected)
    with pytest.raises(TypeError, match=r"WithLanguage has no parameter 'gamma'"):
        WithLanguage(gamma=1)
