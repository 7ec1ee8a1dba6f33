"""scikit-learn's own checks, and its tools around our estimators.

`check_estimator` skips estimators of strings. So it is run where it does not:

- on ``kernel="precomputed"``, which takes two-dimensional arrays;
- on the string kernels, through subclasses that spell a text from every row of numbers: everything but the
  reading of X is then ours, on string data;
- checks that need no data, on the estimators themselves.

The checks of how X itself is read cannot be fed strings; `test_the_intent_of_checks_of_x` follows each of
them on string data, by name.
"""

import functools
import inspect
import os
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from refusals import refuses
from scipy.sparse import csr_matrix
from sklearn import config_context
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    OutlierMixin,
    RegressorMixin,
    clone,
    is_classifier,
    is_outlier_detector,
    is_regressor,
)
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import StackingClassifier, VotingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.metrics import ConfusionMatrixDisplay, PrecisionRecallDisplay, RocCurveDisplay
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    GroupKFold,
    TunedThresholdClassifierCV,
    cross_val_predict,
    cross_val_score,
    cross_validate,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks, get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, has_fit_parameter, validate_data

import textsvm
from textsvm import SVC, SVR, Compute, GapWeighted, InputError, MultilabelSVC, OneClassSVM, Spectrum
from textsvm.model.settings import (
    STRATEGIES,
    ClassifierSettings,
    MultilabelSettings,
    NoveltySettings,
    RegressionSettings,
)
from textsvm.sources.texts import TextSource
from textsvm.training.train import prepare

ESTIMATORS = [SVC, SVR, OneClassSVM]


class SpeltSource(TextSource):
    """Spells a text from each row of numbers: the more two numbers are alike, the more their texts share."""

    def validate(self, X, n_features=None):
        return spelt(X)


def spelt(X):
    levels = np.clip(np.round(8 * np.asarray(X, float)), -48, 48).astype(int) + 56
    return ["".join(_bar(j, level) for j, level in enumerate(row)) for row in levels]


class SpeltSettings:
    def source_of(self, kernel):
        return SpeltSource(kernel, self.text_form)


class SpeltClassifierSettings(SpeltSettings, ClassifierSettings):
    pass


class SpeltRegressionSettings(SpeltSettings, RegressionSettings):
    pass


class SpeltNoveltySettings(SpeltSettings, NoveltySettings):
    pass


class SpeltMultilabelSettings(SpeltSettings, MultilabelSettings):
    pass


class OfNumbers:
    """An estimator that says that it takes rows of numbers."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.string = False
        tags.input_tags.two_d_array = True
        return tags


class Spelt(OfNumbers):
    """Checks rows of numbers as scikit-learn's estimators do, and spells them."""

    def _fit(self, X, *arguments):
        validate_data(self, X, reset=True)
        return super()._fit(X, *arguments)

    def _set_model(self, model, X):
        super()._set_model(model, X)
        validate_data(self, X, reset=True)
        return self

    def _model_for(self, X):
        self.require_fitted()
        validate_data(self, X, reset=False)
        return super()._model_for(X)


@functools.cache
def _bar(feature, level):
    # Ideographs, which normalisation leaves alone.
    return "".join(chr(0x4E00 + 128 * feature + k) for k in range(level))


class SpeltSVC(Spelt, SVC):
    _settings = SpeltClassifierSettings


class SpeltSVR(Spelt, SVR):
    _settings = SpeltRegressionSettings


class SpeltOneClassSVM(Spelt, OneClassSVM):
    _settings = SpeltNoveltySettings


class SpeltCalibratedSVC(Spelt, textsvm.CalibratedSVC):
    def _classifier(self):
        return self.estimator or SpeltSVC(Spectrum(p=3), tol=1e-10)


class SpeltMultilabelSVC(Spelt, MultilabelSVC):
    """Takes single labels, too, as an indicator matrix."""

    _settings = SpeltMultilabelSettings

    def fit(self, X, y, sample_weight=None):
        X, y = validate_data(self, X, y, reset=True, multi_output=True)
        check_classification_targets(y)
        self.labels_ = np.unique(y) if y.ndim == 1 else None
        if self.labels_ is not None and len(self.labels_) < 2:
            raise InputError("labels of one class")
        return super().fit(X, self._indicator(y), sample_weight)

    def score(self, X, y, sample_weight=None):
        return super().score(X, self._indicator(np.asarray(y)), sample_weight)

    def _indicator(self, y):
        return y if self.labels_ is None else (y[:, None] == self.labels_).astype(int)


class SpeltOnlineSVC(OfNumbers, textsvm.OnlineSVC):
    """Sets its columns after each fit: that of texts forgets them."""

    def fit(self, X, y):
        super().fit(spelt(validate_data(self, X, reset=True)), y)
        validate_data(self, X, reset=True)
        return self

    def partial_fit(self, X, y, classes=None):
        is_first = not self.__sklearn_is_fitted__()
        super().partial_fit(spelt(validate_data(self, X, reset=is_first)), y, classes)
        validate_data(self, X, reset=is_first)
        return self

    def decision_function(self, X):
        self.require_fitted()
        return super().decision_function(spelt(validate_data(self, X, reset=False)))


class SpeltFeatures(OfNumbers, textsvm.SpectrumFeatures):
    def _learn(self, X, rows, progress):
        matrix = super()._learn(spelt(validate_data(self, X, reset=True)), rows, progress)
        validate_data(self, X, reset=True)
        return matrix

    def transform(self, X, *, progress=None):
        check_is_fitted(self)
        return super().transform(spelt(validate_data(self, X, reset=False)), progress=progress)


CHECKED = [
    *(estimator("precomputed") for estimator in ESTIMATORS),
    SVC("precomputed", multiclass="crammer-singer"),
    *(SpeltSVC(Spectrum(p=3), tol=1e-10, multiclass=multiclass) for multiclass in STRATEGIES),
    SpeltSVR(Spectrum(p=3), C=10.0, tol=1e-10),
    SpeltOneClassSVM(Spectrum(p=3), tol=1e-10),
    SpeltCalibratedSVC(cv=2),
    SpeltMultilabelSVC(Spectrum(p=3), tol=1e-10, thresholds="zero"),
    SpeltOnlineSVC(tol=1e-6),
    SpeltOnlineSVC(p=3, tol=1e-8),
    SpeltFeatures(2),
]

NOT_SQUARE = "feeds 300 x 2 features where a kernel matrix is wanted; scikit-learn's OneClassSVM fails it too"
NO_BIAS = (
    "its kernel matrix is nearly the identity: without a bias no class is preferred far from all examples"
)
LIKELIEST = "predicts the likeliest class, which may be another than the one of the largest decision value"
SETS = "predicts sets of labels"
#: (estimator, check) -> why it fails
EXPECTED = {
    ("SpeltCalibratedSVC(cv=2)", "check_classifiers_train"): LIKELIEST,
    **{
        ("SpeltMultilabelSVC(kernel=Spectrum(p=3), thresholds='zero', tol=1e-10)", f"check_{check}"): SETS
        for check in (
            "classifiers_classes",
            "classifiers_one_label_sample_weights",
            "classifiers_train",
            "classifier_not_supporting_multiclass",
        )
    },
    ("OneClassSVM(kernel='precomputed')", "check_outliers_fit_predict"): NOT_SQUARE,
    ("OneClassSVM(kernel='precomputed')", "check_outliers_train"): NOT_SQUARE,
    ("SVC(kernel='precomputed', multiclass='crammer-singer')", "check_class_weight_classifiers"): NO_BIAS,
}


def name_of(check):
    return getattr(check, "func", check).__name__


def all_checks():
    for number, estimator in enumerate(CHECKED):
        for _, check in estimator_checks.estimator_checks_generator(estimator):
            name = name_of(check)
            if name == "check_array_api_input":
                continue  # test_array_api_input
            options = ",".join(map(str, getattr(check, "keywords", {}).values()))
            reason = EXPECTED.get((repr(estimator), name))
            marks = [pytest.mark.xfail(strict=True, reason=reason)] if reason else []
            id = f"{number}-{type(estimator).__name__}-{name}{options and f'({options})'}"
            yield pytest.param(estimator, check, marks=marks, id=id)


@pytest.mark.slow
@pytest.mark.parametrize(("estimator", "check"), list(all_checks()))
@pytest.mark.filterwarnings("ignore")
def test_check_estimator(estimator, check):
    check(clone(estimator))


def test_nothing_is_skipped():
    for estimator in CHECKED:
        names = {name_of(check) for _, check in estimator_checks.estimator_checks_generator(estimator)}
        assert len(names) > 40
        assert {"check_fit_idempotent", "check_methods_subset_invariance", "check_dict_unchanged"} <= names
        if not get_tags(estimator).input_tags.pairwise and has_fit_parameter(estimator, "sample_weight"):
            assert "check_sample_weight_equivalence_on_dense_data" in names


def test_every_estimator_is_checked():
    assert {kind for kind in faces() if any(isinstance(estimator, kind) for estimator in CHECKED)} == {
        *faces()
    }


@pytest.mark.slow
def test_array_api_input():
    """It wants its switch set before SciPy is imported."""
    checks = [name_of(check) for _, check in estimator_checks.estimator_checks_generator(CHECKED[0])]
    if "check_array_api_input" not in checks:
        pytest.skip("this scikit-learn has no such check")
    code = (
        "import test_sklearn as t\n"
        "for estimator in t.CHECKED:\n"
        "    for _, check in t.estimator_checks.estimator_checks_generator(estimator):\n"
        "        if t.name_of(check) == 'check_array_api_input':\n"
        "            check(t.clone(estimator))\n"
        "            print('done', end=' ')"
    )
    environment = {**os.environ, "SCIPY_ARRAY_API": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        cwd=os.path.dirname(__file__),
        env=environment,
        capture_output=True,
        text=True,
    )
    assert run.stdout.split() == ["done"] * len(CHECKED), run.stderr


NO_DATA = [
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_estimator_tags_renamed",
    "check_get_params_invariance",
    "check_mixin_order",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_set_params",
    "check_valid_tag_types",
]


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("name", NO_DATA)
@pytest.mark.filterwarnings("ignore")
def test_checks_that_need_no_data(estimator, name):
    getattr(estimator_checks, name)(estimator.__name__, estimator(kernel=GapWeighted(p=2)))


TEXTS = ["a banana", "the bandana", "banana bread", "on monday", "a sunday", "monday, tuesday"] * 4
TARGET = {SVC: ["fruit", "cloth", "fruit", "day", "day", "day"] * 4, SVR: np.arange(24.0), OneClassSVM: None}


def read_only(texts):
    array = np.array(texts)
    array.flags.writeable = False
    return array


class NotAnArray:
    def __init__(self, texts):
        self.texts = texts

    def __array__(self, dtype=None, copy=None):
        return np.array(self.texts)


#: check -> texts in a form that it asks for
FORMS = {
    "check_estimators_dtypes": lambda texts: np.array(texts, dtype="<U40"),
    "check_dtype_object": lambda texts: np.array(texts, dtype=object),
    "check_readonly_memmap_input": read_only,
    "check_f_contiguous_array_estimator": lambda texts: np.array(texts[::-1])[::-1],
    "check_classifier_data_not_an_array": NotAnArray,
    "check_fit2d_1feature": lambda texts: np.array(texts)[:, None],
    "check_classifier_data_not_an_array (series)": lambda texts: pd.Series(texts, index=range(9, 33)),
}

#: check -> (what is given as X, what the error says)
REFUSED = {
    "check_dtype_object": (
        np.array([*TEXTS[1:], {"foo": "bar"}], dtype=object),
        "document 23 is of type dict",
    ),
    "check_estimators_nan_inf": ([*TEXTS[1:], None], "document 23 is missing"),
    "check_estimators_nan_inf (NaN)": ([*TEXTS[1:], float("nan")], "document 23 is missing"),
    "check_complex_data": (np.arange(24) * 1j, "document 0 is of type complex"),
    "check_estimators_empty_data_messages": ([], "no documents"),
    "check_fit1d": ("a text", "single string"),
    "check_estimator_sparse_array": (csr_matrix(np.eye(24)), "one column"),
}


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("check", FORMS)
def test_the_intent_of_checks_of_x(estimator, check):
    expected = estimator(Spectrum(p=2)).fit(TEXTS, TARGET[estimator])
    model = estimator(Spectrum(p=2)).fit(FORMS[check](TEXTS), TARGET[estimator])
    np.testing.assert_array_equal(model.predict(FORMS[check](TEXTS)), expected.predict(TEXTS))
    assert not hasattr(model, "n_features_in_")  # check_n_features_in: texts have none


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("check", REFUSED)
def test_the_intent_of_checks_of_x_that_is_refused(estimator, check):
    X, message = REFUSED[check]
    refuses(message, estimator(Spectrum(p=2)).fit, X, TARGET[estimator])
    if check != "check_estimators_empty_data_messages":
        with pytest.raises(InputError, match=message):  # check_fit2d_predict1d
            estimator(Spectrum(p=2)).fit(TEXTS, TARGET[estimator]).predict(X)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_tags(estimator):
    tags = get_tags(estimator())
    assert tags.input_tags.string
    assert not tags.input_tags.two_d_array
    assert not tags.input_tags.pairwise
    tags = get_tags(estimator("precomputed"))
    assert tags.input_tags.pairwise
    assert tags.input_tags.two_d_array
    assert not tags.input_tags.string
    assert get_tags(SVC()).classifier_tags.multi_class


@pytest.fixture(scope="module")
def task():
    """Three made-up languages with shared words."""
    rng = np.random.default_rng(0)
    shared = ["and", "the", "of", "to"]
    words = [["banana", "mango", *shared], ["monday", "sunday", *shared], ["maple", "birch", *shared]]
    codes = rng.integers(0, 3, 90)
    texts = [" ".join(rng.choice(words[code], rng.integers(3, 8))) for code in codes]
    return texts, np.array(["fruit", "day", "tree"])[codes]


def test_grid_search_over_the_kernel_and_the_machine(task):
    grid = {"kernel__p": [1, 3], "C": np.array([1, 10]), "class_weight": [None, "balanced"]}
    search = GridSearchCV(SVC(Spectrum()), grid, cv=3).fit(*task)
    assert search.best_score_ > 0.9
    assert search.best_estimator_.kernel_.p == search.best_params_["kernel__p"]
    grid = {"kernel": [Spectrum(p=2), GapWeighted(p=2)], "multiclass": ["ovo", "ovr"]}
    assert GridSearchCV(SVC(), grid, cv=3).fit(*task).best_score_ > 0.9


def test_a_given_kernel_matrix_is_split_in_rows_and_columns(task):
    texts, y = task
    K = prepare(SVC(Spectrum(p=2)).settings, texts).gram.rows(np.arange(90))
    given = cross_val_predict(SVC("precomputed"), K, y, cv=3, method="decision_function")
    expected = cross_val_predict(SVC(Spectrum(p=2)), texts, y, cv=3, method="decision_function")
    np.testing.assert_allclose(given, expected, atol=1e-5)


def test_sample_weights_are_routed(task):
    texts, y = task
    weight = np.random.default_rng(1).uniform(0.1, 3, 90)
    params = {"sample_weight": weight}
    with config_context(enable_metadata_routing=True):
        model = SVC(Spectrum(p=2)).set_fit_request(sample_weight=True).set_score_request(sample_weight=False)
        assert "progress" not in model.get_metadata_routing().fit.requests
        routed = cross_validate(
            model, texts, y, params=params, cv=2, return_estimator=True, return_indices=True
        )
    train = routed["indices"]["train"][0]
    expected = SVC(Spectrum(p=2)).fit([texts[i] for i in train], y[train], weight[train])
    np.testing.assert_array_equal(routed["estimator"][0].dual_coef_, expected.dual_coef_)


def test_one_vs_rest_classifier_is_our_one_vs_rest(task):
    texts, y = task
    theirs = OneVsRestClassifier(SVC(Spectrum(p=2), tol=1e-6)).fit(texts, y)
    ours = SVC(Spectrum(p=2), tol=1e-6, multiclass="ovr").fit(texts, y)
    np.testing.assert_allclose(theirs.decision_function(texts), ours.decision_function(texts), atol=1e-4)
    assert theirs.predict(texts).tolist() == ours.predict(texts).tolist()


@pytest.mark.parametrize("multiclass", STRATEGIES)
def test_names_of_classes_do_not_matter(task, multiclass):
    texts, y = task
    renamed = np.array([{"fruit": 2, "day": 7, "tree": 1}[name] for name in y])
    first = SVC(Spectrum(p=2), C=0.05, tol=1e-6, multiclass=multiclass).fit(texts, y)
    second = SVC(Spectrum(p=2), C=0.05, tol=1e-6, multiclass=multiclass).fit(texts, renamed)
    back = {2: "fruit", 7: "day", 1: "tree"}
    assert [back[code] for code in second.predict(texts)] == first.predict(texts).tolist()


def test_repr_and_nested_parameters():
    assert repr(SVC(GapWeighted(p=4), C=10)) == "SVC(C=10, kernel=GapWeighted(p=4))"
    model = SVC(GapWeighted(p=5)).set_params(kernel__p=3, C=2, class_weight={"a": 2.0})
    assert (model.kernel.p, model.C) == (3, 2)
    assert clone(model).get_params()["kernel__p"] == 3
    assert clone(model).kernel is not model.kernel


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_unfitted_estimators_say_so(estimator):
    for model in (estimator(), pickle.loads(pickle.dumps(estimator()))):
        with pytest.raises(NotFittedError):
            model.predict(TEXTS)


@pytest.mark.parametrize("kind", [SVC, SVR, OneClassSVM, MultilabelSVC])
def test_compute_is_a_parameter_like_others(kind):
    model = kind(Spectrum(2), compute=Compute(memory="1GiB"))
    assert model.get_params()["compute__memory"] == "1GiB"
    copy = clone(model).set_params(compute__tier="recompute", kernel__p=3)
    assert copy.compute == Compute(memory="1GiB", tier="recompute")
    assert model.compute == Compute(memory="1GiB")
    assert model.kernel == Spectrum(2) or model.kernel.p == 2
    assert kind().compute is None
    assert kind().set_params(compute__memory=1).compute == Compute(memory=1)
    with pytest.raises(ValueError, match=r"compute is Compute.* and has no parameter 'speed'"):
        model.set_params(compute__speed=1)
    refuses("compute must be", kind(Spectrum(2), compute="1GiB").settings.check)


def test_compute_goes_through_searches_and_pipelines():
    texts, y = ["banana", "monday", "ananas", "sunday"] * 3, [0, 1, 0, 1] * 3
    grid = {"compute": [Compute(solver="gram"), Compute(solver="features")], "compute__memory": ["1GiB"]}
    search = GridSearchCV(SVC(Spectrum(2)), grid, cv=2).fit(texts, y)
    assert search.best_estimator_.compute == Compute(
        memory="1GiB", solver=search.best_params_["compute"].solver
    )
    pipeline = make_pipeline(SVC(Spectrum(2))).set_params(svc__compute__memory="2GiB")
    assert pipeline[-1].compute.memory == "2GiB"


def test_parameters_of_a_kernel_that_is_not_named_yet():
    with pytest.raises(
        ValueError, match=r"kernel is 'auto' and has no parameter 'p'; set kernel=Spectrum\(\.\.\.\)"
    ):
        SVC().set_params(kernel__p=3)
    assert SVC().set_params(kernel=Spectrum(2), kernel__p=3).kernel.p == 3


@pytest.mark.parametrize("text", ["spectrum:1-5,log,idf", "words:1-2", "spectrum:3+gap:2", "edit:gamma=0.1"])
def test_kernels_as_the_command_line_takes_them(text):
    from textsvm.kernels.spelling import parse, spell

    texts, y = ["win the cash", "lunch at noon", "cash to win", "at noon then"], [1, 0, 1, 0]
    model, same = SVC(text).fit(texts, y), SVC(parse(text)).fit(texts, y)
    assert spell(model.kernel_) == spell(same.kernel_)
    assert np.array_equal(model.decision_function(texts), same.decision_function(texts))


@pytest.mark.parametrize("kind", [SVR, OneClassSVM])
def test_machines_without_a_choice_take_the_fast_kernel(kind):
    texts = ["win the cash", "lunch at noon", "cash to win", "at noon then"]
    y = [1.0, 2.0, 3.0, 5.0]
    assert np.array_equal(
        kind("auto").fit(texts, y).predict(texts), kind("fast").fit(texts, y).predict(texts)
    )


SHORT, BITS = ["aab", "abb", "bba", "bbb"] * 3, [0, 1, 0, 1] * 3


def test_estimators_without_probabilities_name_an_alternative():
    named = {
        textsvm.SVC: r"CalibratedSVC\(SVC\(\)\)", textsvm.SVR: "numbers, not classes",
        textsvm.MultilabelSVC: "OneVsRestClassifier", textsvm.OneClassSVM: "score_samples",
    }  # fmt: skip
    for kind, said in named.items():
        assert not hasattr(kind(), "predict_proba")
        with pytest.raises(AttributeError, match=f"{kind.__name__} has no probabilities; .*{said}"):
            kind().predict_proba(SHORT)
    model = OneVsRestClassifier(textsvm.CalibratedSVC(textsvm.SVC("fast"), cv=2))
    several = np.array([BITS, [1 - y for y in BITS[:6]] + [0] * 6]).T
    assert model.fit(SHORT, several).predict_proba(["ab", "b", "a"]).shape == (3, 2)


@pytest.mark.parametrize("scoring", ["roc_auc_ovr", "roc_auc_ovo", "neg_log_loss", "neg_brier_score"])
def test_scorers_of_probabilities(task, scoring):
    """scikit-learn says that SVC has none; the others have a score."""
    texts, y = task
    for model in (textsvm.CalibratedSVC(SVC(Spectrum(2)), cv=2), textsvm.OnlineSVC(p=2)):
        assert np.isfinite(cross_val_score(model, texts, y, scoring=scoring, cv=2)).all()
    with pytest.warns(UserWarning, match="has none of the following attributes: predict_proba"):
        cross_val_score(SVC(Spectrum(2)), texts, y, scoring=scoring, cv=2)
    with pytest.raises(AttributeError, match="predict_proba"):
        cross_val_score(SVC(Spectrum(2)), texts, y, scoring=scoring, cv=2, error_score="raise")


def test_scorers_of_two_classes_take_decision_values(task):
    texts, y = task
    for scoring in ("roc_auc", "average_precision"):
        assert cross_val_score(SVC(Spectrum(2)), texts, y == "tree", scoring=scoring, cv=2).min() > 0.9


def faces():
    """Every estimator that the package names."""
    named = (getattr(textsvm, name) for name in textsvm.__all__)
    return [kind for kind in named if isinstance(kind, type) and issubclass(kind, BaseEstimator)]


def folds_of(kind):
    return {"cv": 3} if "cv" in kind().get_params() else {}


CLASSIFIERS = [kind for kind in faces() if issubclass(kind, ClassifierMixin)]
OF_ONE_LABEL = [kind for kind in CLASSIFIERS if kind is not MultilabelSVC]


def test_kinds_of_estimators():
    assert {SVC, textsvm.CalibratedSVC, textsvm.OnlineSVC, MultilabelSVC} == set(CLASSIFIERS)
    for kind in faces():
        assert is_classifier(kind()) == issubclass(kind, ClassifierMixin)
        assert is_regressor(kind()) == issubclass(kind, RegressorMixin)
        assert is_outlier_detector(kind()) == issubclass(kind, OutlierMixin)


@pytest.mark.parametrize("kind", OF_ONE_LABEL)
def test_a_loaded_classifier_is_a_classifier(kind, task, tmp_path):
    textsvm.save(kind(**folds_of(kind)).fit(*task), tmp_path / "m.textsvm")
    assert is_classifier(textsvm.as_estimator(textsvm.load(tmp_path / "m.textsvm")))


@pytest.mark.parametrize("kind", OF_ONE_LABEL)
def test_folds_of_scikit_learn_are_stratified(kind, task):
    """By class, texts in their order: folds that are not stratified would have no text of some class."""
    order = np.argsort(task[1])
    texts, y = [task[0][i] for i in order], task[1][order]
    assert cross_val_score(kind(**folds_of(kind)), texts, y, cv=3).min() > 0.9
    assert np.isfinite(cross_val_score(kind(**folds_of(kind)), texts, y, cv=3, scoring="f1_macro")).all()
    if kind is not SVC:  # it has no probabilities
        assert cross_val_score(kind(**folds_of(kind)), texts, y, cv=3, scoring="roc_auc_ovr").min() > 0.9


@pytest.mark.parametrize("kind", OF_ONE_LABEL)
def test_ensembles_and_thresholds_take_classifiers(kind, task):
    texts, y = np.array(task[0], dtype=object), task[1]
    model = kind(**folds_of(kind))
    for together in (
        VotingClassifier([("a", model), ("b", textsvm.OnlineSVC())]),
        StackingClassifier([("a", model)], cv=3),
        CalibratedClassifierCV(model, cv=3),
    ):
        assert together.fit(texts, y).score(texts, y) > 0.9
    two = y != "tree"
    for tuned in (
        TunedThresholdClassifierCV(model, cv=3),
        FixedThresholdClassifier(model, response_method="auto"),
    ):
        assert tuned.fit(texts[two], y[two]).score(texts[two], y[two]) > 0.9


@pytest.mark.parametrize("kind", OF_ONE_LABEL)
@pytest.mark.parametrize("display", [RocCurveDisplay, PrecisionRecallDisplay, ConfusionMatrixDisplay])
def test_displays_take_classifiers(kind, display, task):
    texts, y = np.array(task[0], dtype=object), task[1]
    two = y != "tree"
    model = kind(**folds_of(kind)).fit(texts[two], y[two])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MPLBACKEND", "agg")
        display.from_estimator(model, texts[two], y[two])


@pytest.mark.parametrize("kind", faces())
def test_no_estimator_routes_progress(kind):
    with config_context(enable_metadata_routing=True):
        assert "progress" not in str(kind().get_metadata_routing())
        if "groups" in inspect.signature(kind.fit).parameters:
            asked = kind().set_fit_request(groups=True, sample_weight=True).get_metadata_routing()
            assert asked.fit.requests == {"groups": True, "sample_weight": True}


@pytest.mark.parametrize("kind", [textsvm.CalibratedSVC, SVC])
def test_groups_are_routed(kind, task):
    groups = np.arange(90) // 6
    with config_context(enable_metadata_routing=True):
        scores = cross_validate(
            kind(**folds_of(kind)).set_fit_request(groups=True),
            *task, cv=GroupKFold(3), params={"groups": groups}, error_score="raise",
        )["test_score"]  # fmt: skip
    assert scores.min() > 0.8


@pytest.mark.parametrize("kind", faces())
def test_skops_writes_fitted_estimators(kind, task):
    skops = pytest.importorskip("skops.io")
    texts, y = task
    target = {SVR: np.arange(90.0), MultilabelSVC: [(label,) for label in y]}.get(kind, y)
    model = kind(**folds_of(kind)).fit(texts, target)
    data = skops.dumps(model)
    again = skops.loads(data, trusted=skops.get_untrusted_types(data=data))
    if hasattr(model, "transform"):
        assert (again.transform(texts) != model.transform(texts)).nnz == 0
    else:
        assert list(again.predict(texts)) == list(model.predict(texts))


@pytest.mark.parametrize("kind", OF_ONE_LABEL)
def test_mlflow_saves_classifiers_by_its_default(kind, task, tmp_path):
    """With skops, to which the types are named."""
    mlflow, skops = pytest.importorskip("mlflow.sklearn"), pytest.importorskip("skops.io")
    texts, y = task
    model = kind(**folds_of(kind)).fit(texts, y)
    types = skops.get_untrusted_types(data=skops.dumps(model))
    mlflow.save_model(model, tmp_path / "model", skops_trusted_types=types)
    again = mlflow.load_model(str(tmp_path / "model"))
    assert type(again) is kind
    assert again.predict(texts).tolist() == model.predict(texts).tolist()
