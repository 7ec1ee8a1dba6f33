"""Probabilities: against scikit-learn's calibration of LIBSVM, and of our own decision values."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from refusals import refuses
from scipy.optimize import minimize_scalar
from scipy.special import expit, log_softmax, softmax
from sklearn import svm
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from test_selection import N, classes_of, texts

from textsvm.errors import InputError
from textsvm.estimators.calibrated import CalibratedSVC
from textsvm.estimators.svm import SVC, SVR
from textsvm.kernels import Spectrum
from textsvm.model.file import load, save
from textsvm.model.rules import CalibratedRule, ClassRule, checked_maps
from textsvm.selection.cross_validation import cross_validate
from textsvm.selection.tuning import tune
from textsvm.sources.texts import TextSource
from textsvm.training import calibration
from textsvm.training.grams import check
from textsvm.training.train import with_scale

SPLITS = StratifiedKFold(4, shuffle=True, random_state=3)
METHODS = ["sigmoid", "isotonic"]


def given(**options):
    return SVC(kernel="precomputed", device="cpu", tol=1e-7, **options)


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("method", METHODS)
def test_probabilities_are_those_of_scikit_learn(method, k):
    matrix, y = classes_of(N, k)
    model = CalibratedSVC(given(C=3, multiclass="ovo"), method=method, cv=SPLITS).fit(matrix, y)
    judge = CalibratedClassifierCV(
        svm.SVC(kernel="precomputed", C=3, tol=1e-7), method=method, cv=SPLITS, ensemble=False
    ).fit(matrix.astype(float), y)
    found, expected = model.predict_proba(matrix), judge.predict_proba(matrix.astype(float))
    assert found.shape == (N, k)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    # An isotonic map is steep between its points.
    np.testing.assert_allclose(found, expected, atol=1e-3 if method == "sigmoid" else 2e-2)
    np.testing.assert_array_equal(model.predict(matrix), model.classes_[found.argmax(axis=1)])
    assert set(np.unique(found.argmax(axis=1))) == set(range(k))


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("case", ["overlapping", "separable", "equal", "opposite", "weighted"])
def test_a_sigmoid_has_the_largest_likelihood(case, size):
    random = np.random.default_rng(0)
    member = np.arange(60) % 3 == 0
    values = random.normal(size=60) + {"separable": 20, "opposite": -1}.get(case, 1) * member
    values, weight = (0 * values + 1 if case == "equal" else values), np.ones(60)
    if case == "weighted":
        weight = random.uniform(1e-3, 30, 60)
    a, b = calibration.fit_sigmoid(size * values, member, weight)
    inside, outside = weight[member].sum(), weight[~member].sum()
    targets = np.where(member, (inside + 1) / (inside + 2), 1 / (outside + 2))
    residuals = weight * (targets - expit(-(a * size * values + b)))
    np.testing.assert_allclose([residuals.sum(), residuals @ values], 0, atol=1e-7 * weight.sum())


def test_the_gram_is_computed_once_and_the_classifier_is_that_of_a_fit_to_all(monkeypatch):
    documents, y = texts(60, seed=1)
    calls = []
    rows = Spectrum.rows
    monkeypatch.setattr(Spectrum, "rows", lambda *a: calls.append(len(a[1])) or rows(*a))
    estimator = SVC(Spectrum(p=2), C=2, tol=1e-7, device="cpu")
    stages = []
    model = CalibratedSVC(estimator, cv=3).fit(documents, y, progress=lambda stage, *_: stages.append(stage))
    assert calls == [60]
    assert {"encode", "gram", "solve"} <= set(stages)
    assert not hasattr(estimator, "classes_")
    fitted = clone(estimator).fit(documents, y)
    new, truth = texts(30, seed=2)
    np.testing.assert_allclose(model.decision_function(new), fitted.decision_function(new), atol=1e-4)
    assert np.mean(model.predict(new) == truth) > 0.8
    for name in (
        "support_",
        "support_documents_",
        "n_iter_",
        "gram_description_",
        "device_",
        "kernel_",
        "n_support_",
    ):
        assert getattr(model, name) is not None
    assert model.seconds_.keys() == {"check", "encode", "plan", "gram", "solve", "calibrate", "assemble"}


def test_decision_values_are_those_before_calibration():
    """So their sign may name another class than `predict`, which takes the most probable."""
    X, _ = texts(N, seed=3)
    y = np.arange(N) % 5 == 0
    model = CalibratedSVC(SVC(Spectrum(2), C=0.1)).fit(X, y)
    values, probabilities = model.decision_function(X), model.predict_proba(X)
    np.testing.assert_array_equal(values, model.estimator_.decision_function(X))
    assert (model.predict(X) == model.classes_[probabilities.argmax(1)]).all()


def test_idf_weights_of_calibration_are_learnt_from_each_training_part(monkeypatch):
    documents, y = texts(60, seed=1)
    estimator = SVC(Spectrum((1, 3), weight="log", idf=True), C=2, tol=1e-8, device="cpu")
    seen = []
    fit_maps = calibration.fit_maps
    monkeypatch.setattr(calibration, "fit_maps", lambda *a: seen.append(a[1]) or fit_maps(*a))
    model = CalibratedSVC(estimator, cv=SPLITS).fit(documents, y)
    for train, test in SPLITS.split(documents, y):
        alone = clone(estimator).fit([documents[i] for i in train], y[train])
        expected = alone.decision_function([documents[i] for i in test])
        np.testing.assert_allclose(seen[0][test], expected, atol=1e-5)
    fitted = clone(estimator).fit(documents, y)
    new, _ = texts(30, seed=2)
    np.testing.assert_allclose(model.decision_function(new), fitted.decision_function(new), atol=1e-5)
    assert model.kernel_.weights_.n == 60


@pytest.mark.slow
@pytest.mark.parametrize("multiclass", ["ovo", "ovr", "crammer-singer"])
@pytest.mark.parametrize("method", METHODS)
def test_a_document_given_twice_is_one_of_weight_two(method, multiclass):
    k = 3
    matrix, y = classes_of(N, k)
    twice = np.concatenate([np.arange(N), np.arange(0, N, 4)])
    weight = np.bincount(twice).astype(float)
    fold_of = np.random.default_rng(1).integers(0, 3, N)
    short = [(np.flatnonzero(fold_of != f), np.flatnonzero(fold_of == f)) for f in range(3)]
    long = [(np.flatnonzero(fold_of[twice] != f), np.flatnonzero(fold_of[twice] == f)) for f in range(3)]
    one = CalibratedSVC(given(C=2, multiclass=multiclass), method, cv=short)
    one.fit(matrix, y, sample_weight=weight)
    two = CalibratedSVC(given(C=2, multiclass=multiclass), method, cv=long)
    two.fit(matrix[np.ix_(twice, twice)], y[twice])
    for a, b in zip(one.solutions_, two.solutions_, strict=True):
        assert a.objective == pytest.approx(b.objective, rel=1e-6)
    values = np.random.default_rng(0).normal(size=(50, k))
    np.testing.assert_allclose(
        one.model_.rule.probabilities(values), two.model_.rule.probabilities(values), atol=1e-3
    )
    np.testing.assert_allclose(
        one.predict_proba(matrix),
        two.predict_proba(matrix[:, twice]),
        atol=2e-3 if method == "sigmoid" else 0.1,
    )


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("method", METHODS)
def test_the_state_as_arrays_and_back(method, k):
    matrix, y = classes_of(N, k)
    model = CalibratedSVC(given(), method).fit(matrix, y)
    state = dict(model.calibration_)
    assert all(array.ndim == 1 and array.dtype in (np.float64, np.int64) for array in state.values())
    rule = replace(model.model_.rule, maps=checked_maps(state, k))
    np.testing.assert_array_equal(
        rule.probabilities(model.decision_function(matrix)), model.predict_proba(matrix)
    )
    pickled = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(pickled.predict_proba(matrix), model.predict_proba(matrix))


BAD_STATES = [
    ({}, "unknown method"),
    ({"a": np.ones(3)}, "unknown method"),
    ({"a": np.ones(3), "b": np.ones(2)}, "does not fit its classes"),
    ({"a": np.ones(1), "b": np.ones(1)}, "does not fit its classes"),
    ({"a": np.array([1, np.nan, 1]), "b": np.ones(3)}, "'a' is not a row of finite"),
    ({"a": np.ones(3, np.float32), "b": np.ones(3)}, "'a' is not a row"),
    ({"x": np.ones(3), "y": np.ones(3), "starts": np.array([0, 1, 2])}, "does not fit its classes"),
    ({"x": np.ones(3), "y": np.ones(3), "starts": np.array([0, 1, 2, 9])}, "does not fit its classes"),
    ({"x": np.ones(3), "y": np.ones(3), "starts": np.array([0, 0, 2, 3])}, "a map without points"),
    ({"x": np.ones(3), "y": np.array([0, 1, 1.5]), "starts": np.arange(4)}, "leaves 0..1"),
    ({"x": np.arange(4.0)[::-1], "y": np.ones(4), "starts": np.array([0, 2, 3, 4])}, "falls"),
    ({"x": np.arange(4.0), "y": np.array([1, 0.5, 1, 1]), "starts": np.array([0, 2, 3, 4])}, "falls"),
]


@pytest.mark.parametrize(("state", "sentence"), BAD_STATES)
def test_arrays_that_are_no_calibration(state, sentence):
    with pytest.raises(ValueError, match=sentence):
        checked_maps(state, 3)


def test_reject_between_two_thresholds():
    matrix, y = classes_of(N, 2)
    model = CalibratedSVC(given(), reject=(0.3, 0.8)).fit(matrix, y)
    p, labels = model.predict_proba(matrix)[:, 1], model.predict(matrix)
    for low, high, expected in [(-1, 0.3, "class 0"), (0.8, 2, "class 1")]:
        at = (p >= low) & (p <= high)
        assert at.any()
        assert set(labels[at]) == {expected}
    between = (p > 0.3) & (p < 0.8)
    assert between.any()
    assert set(labels[between]) == {"unsure"}
    # Both thresholds on one side of a half decide on their own.
    decided = replace(model.model_.rule, reject=(0.1, 0.2))
    assert decided.decide(np.array([[0.75, 0.25], [0.85, 0.15], [0.95, 0.05]])).tolist() == [
        "class 1", "unsure", "class 0",
    ]  # fmt: skip


def test_probabilities_at_the_bounds_of_reject_are_decided():
    classes, eighths = np.array(["no", "yes"]), np.arange(9) / 8
    p = np.stack([1 - eighths, eighths], axis=1)

    def decide(reject):
        return ClassRule(classes, reject=reject).decide(p).tolist()

    two = decide((0.25, 0.75))
    assert two == ["no"] * 3 + ["unsure"] * 3 + ["yes"] * 3
    assert decide(0.75) == two
    assert decide((0.5, 0.5)) == ["no"] * 4 + ["yes"] * 5
    assert decide((0.0, 1.0)) == ["no"] + ["unsure"] * 7 + ["yes"]


def test_reject_below_one_threshold():
    matrix, y = classes_of(N, 3)
    model = CalibratedSVC(given(), reject=0.7).fit(matrix, y)
    p, labels = model.predict_proba(matrix), model.predict(matrix)
    unsure = p.max(axis=1) < 0.7
    assert 0 < unsure.sum() < N
    np.testing.assert_array_equal(labels == "unsure", unsure)
    np.testing.assert_array_equal(labels[~unsure], model.classes_[p.argmax(axis=1)][~unsure])


def test_probabilities_that_are_all_zero_are_uniform():
    steps = {"x": np.array([0.0, 1] * 3), "y": np.array([0.0, 1] * 3), "starts": np.array([0, 2, 4, 6])}
    rule = CalibratedRule(np.arange(3), method="isotonic", maps=steps, conformity=None)
    values = np.array([[-1, -1, -1], [0.5, 0.5, -1], [9, 1, 1]])
    np.testing.assert_allclose(rule.probabilities(values), [[1 / 3] * 3, [1 / 2, 1 / 2, 0], [1 / 3] * 3])


BAD = [
    ({"estimator": SVR()}, "is not an SVC"),
    ({"method": "temperature"}, "method='temperature' is not one of sigmoid, isotonic"),
    ({"reject": (0.8, 0.3)}, "reject=.* is neither a probability nor two"),
    ({"reject": 1.5}, "reject=1.5 is neither"),
    ({"reject": (0.1, 0.2, 0.3)}, "reject=.* is neither"),
    ({"reject": "often"}, "reject='often' is neither"),
    ({"reject": True}, "reject=True is neither"),
    ({"cv": StratifiedKFold(50)}, "cannot split 40 documents"),
    ({"cv": [(np.arange(10, 40), np.array([0]))]}, "no document of class .* is in the test part"),
    ({"estimator": SVC(C=-1)}, "C=-1"),
]


@pytest.mark.parametrize(("options", "sentence"), BAD)
def test_what_cannot_be_is_refused_before_any_work(monkeypatch, options, sentence):
    monkeypatch.setattr(TextSource, "encode", lambda *_: pytest.fail("there was work"))
    documents, y = texts(40)
    refuses(sentence, CalibratedSVC(**options).fit, documents, y)


def test_classes_and_thresholds_that_do_not_go_together():
    matrix, y = classes_of(N, 3)
    with pytest.raises(InputError, match="two thresholds are for two classes and there are 3"):
        CalibratedSVC(given(), reject=(0.2, 0.8)).fit(matrix, y)
    y[y == "class 0"] = "unsure"
    refuses("a class is named 'unsure'", CalibratedSVC(given(), reject=0.8).fit, matrix, y)
    with pytest.raises(InputError, match="class once has 1 document and there are 5 folds"):
        CalibratedSVC(given()).fit(matrix, np.where(np.arange(N) == 0, "once", "often"))


def test_scikit_learn_conventions():
    model = CalibratedSVC(SVC(Spectrum(p=2), C=5), reject=(0.2, 0.8))
    assert clone(model).get_params()["estimator__kernel__p"] == 2
    assert model.set_params(estimator__C=7).estimator.C == 7
    tags = model.__sklearn_tags__()
    assert tags.input_tags.string
    assert not tags.input_tags.two_d_array
    assert not hasattr(model, "support_")


def test_features_are_those_of_the_classifier():
    model = CalibratedSVC(SVC(Spectrum(2)), cv=2)
    with pytest.raises(NotFittedError):
        model.top_features()
    model.fit(["aab", "abb", "bcc", "bca"] * 3, [0, 0, 1, 1] * 3)
    classifier = SVC(Spectrum(2)).fit(["aab", "abb", "bcc", "bca"] * 3, [0, 0, 1, 1] * 3)
    assert model.top_features(3) == classifier.top_features(3)
    np.testing.assert_array_equal(model.coef_, classifier.coef_)
    assert len(model.get_feature_names_out()) == model.coef_.shape[1]


@pytest.mark.parametrize(
    ("options", "sentence"), [({"C": -1}, "C=-1"), ({"scoring": "f1_macro"}, "no effect on probabilities")]
)
def test_settings_of_the_classifier_are_checked_before_any_work(options, sentence):
    refuses(sentence, check, CalibratedSVC(SVC(Spectrum(2), **options)).settings)


def test_the_accuracy_of_a_calibration_is_weighted():
    matrix, y = classes_of(N, 2)
    weight = np.where(y == y[0], 1e-6, 1.0)
    model = CalibratedSVC(given(C=3, class_weight={y[0]: 1e4}), cv=SPLITS).fit(matrix, y, weight)
    plain = CalibratedSVC(given(C=3), cv=SPLITS).fit(matrix, y)
    assert model.held_out_accuracy_ != plain.held_out_accuracy_
    assert model.held_out_accuracy_ > 0.99


def likeliest_scale(values, codes, weight):
    """SciPy's scale of the softmax, with Platt's targets (n + 1) / (n + 2) for a class of n texts."""
    n, k = len(codes), values.shape[1]
    own = ((counts := np.bincount(codes))[codes] + 1) / (counts[codes] + 2)
    targets = np.repeat((1 - own)[:, None] / (k - 1), k, axis=1)
    targets[np.arange(n), codes] = own
    loss = lambda t: -(weight[:, None] * targets * log_softmax(t * values, axis=1)).sum()  # noqa: E731
    return minimize_scalar(loss, bounds=(0, 100), method="bounded", options={"xatol": 1e-9}).x


@pytest.mark.parametrize("k", [2, 3])
def test_a_scale_of_out_of_fold_values_has_the_largest_likelihood(k):
    matrix, y = classes_of(N, k)
    weight = np.random.default_rng(0).uniform(0.3, 3, N)
    model = given(C=3).fit(matrix, y).model_
    decision = cross_val_predict(given(C=3), matrix, y, cv=SPLITS, method="decision_function")
    columns = decision if k > 2 else np.stack([np.zeros(N), decision], axis=1)
    codes = np.searchsorted(model.classes, y)
    untested = np.arange(N) % 7 == 0
    expected = likeliest_scale(columns[~untested], codes[~untested], weight[~untested])
    decision[untested] = np.nan
    scaled = with_scale(model, decision, y, weight)
    assert scaled.rule.scale == pytest.approx(expected, rel=1e-4)
    p, values = scaled.predict_proba(matrix), model.decision_function(matrix)
    values = values if k > 2 else np.stack([np.zeros(N), values], axis=1)
    np.testing.assert_allclose(p, softmax(expected * values, axis=1), atol=1e-4)
    np.testing.assert_array_equal(scaled.predict(matrix), model.predict(matrix))
    np.testing.assert_array_equal(model.classes[p.argmax(axis=1)], model.predict(matrix))
    assert with_scale(scaled, -decision, y) is scaled
    calibrated = CalibratedSVC(given(), cv=SPLITS).fit(matrix, y).model_
    assert with_scale(calibrated, decision, y) is calibrated


def test_values_of_one_class_give_no_probabilities():
    matrix, y = classes_of(N, 2)
    model = given().fit(matrix, y).model_
    decision = np.where(y == model.classes[0], model.decision_function(matrix), np.nan)
    assert with_scale(model, decision, y) is model
    assert with_scale(model, np.zeros((N, 3)), y) is model
    refuses("a model of SVC has no probabilities; train a CalibratedSVC", model.predict_proba, matrix)


@pytest.mark.filterwarnings("ignore::textsvm.training.leakage.LeakageWarning")
@pytest.mark.parametrize("k", [2, 3])
def test_probabilities_without_a_second_training(k, tmp_path):
    """Of the folds that fit the offsets for macro-F1, of trials, and of a search."""
    documents = [f"{['red apple', 'blue car', 'tall tree'][i % k]} {i % 5} {i % 11}" for i in range(66)]
    y = np.arange(66) % k
    y[::10] = 0
    models = [
        SVC(Spectrum(2), scoring="f1_macro"),
        SVC(time_budget=5.0),
        SVC(time_budget=5.0, scoring="f1_macro"),
    ]
    for model in models:
        model.fit(documents, y)
        p = model.predict_proba(documents)
        assert p.shape == (66, k)
        np.testing.assert_array_equal(model.classes_[p.argmax(axis=1)], model.predict(documents))
        save(model, tmp_path / "m")
        np.testing.assert_allclose(load(tmp_path / "m").predict_proba(documents), p, atol=1e-6)
        np.testing.assert_allclose(clone_of(model).predict_proba(documents), p)
    best = tune(SVC(), documents, y, {"kernel": [Spectrum(1), Spectrum(2)], "C": [1.0]}, cv=3).best_estimator
    decision = cross_validate(SVC(best.kernel), documents, y, cv=3).decision
    assert best.model_.rule.scale == pytest.approx(with_scale(best.model_, decision, y).rule.scale)
    assert not hasattr(SVC(time_budget=0.0).fit(documents * 20, np.tile(y, 20)), "predict_proba")


def clone_of(model):
    return pickle.loads(pickle.dumps(model))


def test_rejection_by_a_scale():
    matrix, y = classes_of(N, 3)
    model = given().fit(matrix, y).model_
    model = with_scale(model, model.decision_function(matrix) / 2, y)
    p = model.predict_proba(matrix)
    unsure = replace(model, rule=replace(model.rule, reject=0.8)).predict(matrix)
    np.testing.assert_array_equal(unsure == "unsure", p.max(axis=1) < 0.8)
    assert 0 < (unsure == "unsure").sum() < N
