"""Kernels of vectors on the CPU: values, what is read, what scikit-learn does with the same data."""

import math
import pickle
import shutil
import warnings

import numpy as np
import oracles
import pandas as pd
import pytest
from contracts import VECTORS, VectorContract
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from loading import change, load, reloaded
from refusals import refuses
from scipy.sparse import coo_array, csr_array, csr_matrix, dok_array, issparse
from sklearn import svm
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

import textsvm
from textsvm import (
    SVC,
    SVR,
    CalibratedSVC,
    Compute,
    Gaussian,
    InputError,
    Linear,
    MultilabelSVC,
    OneClassSVM,
    Polynomial,
    Product,
    Sigmoid,
    Spectrum,
    Sum,
    cross_validate,
    tune,
)
from textsvm.evaluation.explanation import explain
from textsvm.kernels.vectors.kernels import TILE_COLUMNS
from textsvm.linalg.vectors import Vectors
from textsvm.model.file import read_content
from textsvm.runtime import device as devices
from textsvm.runtime.device import select
from textsvm.training.leakage import LeakageWarning, held_out_leak

CPU = select("cpu")


def of_gaussian(kernel):
    return lambda x, y: oracles.gaussian(x, y, kernel.function.gamma)


def of_polynomial(kernel):
    return lambda x, y: oracles.polynomial(x, y, kernel.function.gamma, kernel.coef0, kernel.degree)


def of_sigmoid(kernel):
    return lambda x, y: oracles.sigmoid(x, y, kernel.function.gamma, kernel.coef0)


CASES = [
    (Gaussian(), of_gaussian),
    (Gaussian(3.0), of_gaussian),
    (Linear(), lambda kernel: oracles.linear),
    (Polynomial(), of_polynomial),
    (Polynomial(degree=4, gamma=0.5, coef0=-1.0), of_polynomial),
    (Sigmoid(gamma="auto", coef0=0.3), of_sigmoid),
]


class TestOnTheCPU(VectorContract):
    cases = CASES

    @pytest.fixture
    def device(self):
        return CPU


def test_worked_values():
    X = Vectors(np.array([[1.0, 2.0], [3.0, 0.0]]))
    expected = {
        Linear(): 3,
        Polynomial(degree=2, gamma=2.0, coef0=1.0): 49,
        Gaussian(0.25): math.exp(-2),
        Sigmoid(gamma=0.5, coef0=-1.0): math.tanh(0.5),
    }
    for kernel, value in expected.items():
        assert kernel.fit(X).rows(X, CPU).gram()[0, 1] == pytest.approx(value, rel=1e-7)


numbers = st.floats(-1e3, 1e3, width=32)


@settings(max_examples=60, deadline=None)
@given(arrays(np.float64, st.tuples(st.integers(1, 9), st.just(3)), elements=numbers), st.floats(1e-6, 10))
def test_any_vectors(X, gamma):
    """To 1e-6 relative, or 1e-12 of what exponents lose: the order of sums in float64."""
    for form in (X, X.astype(np.float32), csr_array(X)):
        vectors = Vectors(form)
        for kernel, oracle in [(Gaussian(gamma), of_gaussian), (Linear(), lambda kernel: oracles.linear)]:
            found = kernel.fit(vectors).rows(vectors, CPU).gram().astype(np.float64)
            expected = np.array([[oracle(kernel)(x, y) for y in X] for x in X])
            lost = 1e-14 * (1 + gamma) * (1 + np.square(X).sum()) * (1 + np.abs(expected))
            assert (np.abs(found - expected) <= 1e-6 * np.abs(expected) + lost + 1e-38).all()


def test_vectors_far_from_nothing():
    """Seconds since 1970, minutes apart: products of them have lost what is between them."""
    X = 1.7e9 + np.round(np.random.default_rng(0).uniform(0, 600, size=(100, 3)), 3)
    kernel = Gaussian(1e-5)
    expected = np.exp(-1e-5 * np.square(X[:, None] - X).sum(axis=2))
    rows = kernel.rows(Vectors(X), CPU)
    np.testing.assert_allclose(rows.gram(), expected, rtol=1e-6)
    np.testing.assert_allclose(rows.cross(Vectors(X[:5])), expected[:5], rtol=1e-6)


def test_a_power_that_no_loop_would_end():
    X = Vectors(np.array([[1.0, 0.0], [0.0, 2.0]]))
    found = Polynomial(10**9, gamma=1.0).rows(X, CPU)
    np.testing.assert_array_equal(found.gram(), [[1, 0], [0, np.inf]])
    for degree in range(1, 12):
        value = Polynomial(degree, gamma=1.5).rows(X, CPU).gram()[1, 1]
        assert value == pytest.approx(6.0**degree, rel=1e-6)


def test_values_to_one_part_in_a_million():
    """Large exponents too, which float32 alone would round by 5e-6 of the value."""
    X = np.random.default_rng(1).normal(size=(200, 50))
    squares = np.square(X[:, None] - X).sum(axis=2)
    kernel = Gaussian(70 / squares.max())
    found = kernel.rows(Vectors(X), CPU).gram().astype(np.float64)
    np.testing.assert_allclose(found, np.exp(-kernel.gamma * squares), rtol=1e-6)


@pytest.mark.parametrize("n", [TILE_COLUMNS - 1, TILE_COLUMNS, 2 * TILE_COLUMNS + 1])
def test_more_than_a_tile(n):
    rng = np.random.default_rng(n)
    X = np.where(rng.random((n, 30)) < np.linspace(0.01, 0.6, 30), rng.normal(size=(n, 30)), 0)
    for form in (X, csr_array(X)):
        rows = Linear().rows(Vectors(form), CPU)
        np.testing.assert_allclose(rows.gram(), X @ X.T, rtol=1e-6, atol=1e-5)
        np.testing.assert_allclose(rows.rows(np.arange(n)[::-3]), X[::-3] @ X.T, rtol=1e-6, atol=1e-5)


def test_whole_numbers_that_are_too_large_are_not_multiplied_in_float32():
    X = np.full((3, 2), 4097.0)
    np.testing.assert_array_equal(Linear().rows(Vectors(X), CPU).gram(), np.float32(2 * 4097.0**2))


@pytest.mark.parametrize("form", VECTORS)
def test_gamma_is_that_of_scikit_learn(form):
    X = VECTORS[form]
    y = np.arange(X.shape[0]) % 2
    for gamma in ("scale", "auto"):
        theirs = svm.SVC(gamma=gamma).fit(X, y)._gamma
        assert Gaussian(gamma).fit(Vectors(X)).function.gamma == pytest.approx(theirs, rel=1e-5)
    assert Gaussian().fit(Vectors(np.ones((3, 2)))).function.gamma == 1.0


def problem(n=150, k=2, seed=0):
    X, y = make_classification(n, 10, n_informative=6, n_classes=k, random_state=seed)
    return X, y


FORMS = {
    "float64": lambda X: X,
    "float32": lambda X: X.astype(np.float32),
    "sparse": lambda X: csr_matrix(np.where(np.abs(X) > 0.5, X, 0)),
    "sparse float32": lambda X: csr_array(np.where(np.abs(X) > 0.5, X, 0).astype(np.float32)),
}
PAIRS = [
    (Gaussian(), {"kernel": "rbf"}),
    (Gaussian(0.3), {"kernel": "rbf", "gamma": 0.3}),
    (Linear(), {"kernel": "linear"}),
    (Polynomial(), {"kernel": "poly"}),
    (Polynomial(2, "auto", 1.0), {"kernel": "poly", "degree": 2, "gamma": "auto", "coef0": 1.0}),
]


def objective(theirs, K, q):
    """1/2 b'Kb - |q . b| of a machine of LIBSVM's."""
    b = np.zeros(len(K))
    coef = theirs.dual_coef_
    b[theirs.support_] = coef.toarray()[0] if issparse(coef) else coef[0]
    return b @ K @ b / 2 - np.abs(b * q).sum()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("kernel", "options"), PAIRS, ids=str)
def test_two_classes_as_scikit_learn_has_them(kernel, options, form):
    X, y = problem()
    X = FORMS[form](X)
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y))
    for C, class_weight, sample_weight in [(1.0, None, None), (10.0, {0: 2.0, 1: 0.5}, weight)]:
        ours = SVC(clone(kernel), C, tol=1e-6, class_weight=class_weight).fit(X, y, sample_weight)
        theirs = svm.SVC(C=C, tol=1e-6, class_weight=class_weight, **options).fit(X, y, sample_weight)
        K = ours.kernel_.rows(Vectors(X), CPU).gram().astype(np.float64)
        assert ours.solutions_[0].objective == pytest.approx(objective(theirs, K, np.ones(len(y))), rel=1e-5)
        mine, other = ours.decision_function(X), theirs.decision_function(X)
        np.testing.assert_allclose(mine, other, atol=2e-3 * np.abs(other).max())
        sure = np.abs(other) > 1e-3
        np.testing.assert_array_equal(ours.predict(X)[sure], theirs.predict(X)[sure])


def test_a_sigmoid_is_no_worse():
    """It is indefinite, so there are several optima."""
    X, y = problem()
    for gamma in (0.001, 0.01, "scale"):
        ours = SVC(Sigmoid(gamma), tol=1e-6).fit(X, y)
        theirs = svm.SVC(kernel="sigmoid", gamma=gamma, tol=1e-6).fit(X, y)
        K = ours.kernel_.rows(Vectors(X), CPU).gram().astype(np.float64)
        other = objective(theirs, K, np.ones(len(y)))
        assert ours.solutions_[0].objective <= other + 1e-5 * abs(other)
        if gamma == 0.001:  # all but linear
            np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))


@pytest.mark.parametrize("kernel", [Gaussian(), Polynomial(coef0=1.0)], ids=str)
def test_several_classes_as_scikit_learn_has_them(kernel):
    X, y = problem(k=4, n=200)
    name = {"gaussian": "rbf", "polynomial": "poly"}[kernel.name]
    theirs = svm.SVC(kernel=name, coef0=getattr(kernel, "coef0", 0), tol=1e-6, decision_function_shape="ovo")
    theirs.fit(X, y)
    ours = SVC(kernel, multiclass="ovo", tol=1e-6).fit(X, y)
    assert (ours.predict(X) == theirs.predict(X)).mean() >= 0.98
    np.testing.assert_array_equal(ours.n_support_.sum(), pytest.approx(theirs.n_support_.sum(), abs=3))
    np.testing.assert_allclose(ours.intercept_, -theirs.intercept_, atol=2e-3)
    rest = SVC(kernel, tol=1e-6).fit(X, y)
    for k in range(4):
        one = svm.SVC(kernel=name, coef0=getattr(kernel, "coef0", 0), tol=1e-6).fit(X, y == k)
        np.testing.assert_allclose(rest.decision_function(X)[:, k], one.decision_function(X), atol=2e-3)


@pytest.mark.parametrize("form", FORMS)
def test_regression_and_one_class_as_scikit_learn_has_them(form):
    X, _ = problem()
    y = X[:, 0] - X[:, 1] ** 2
    X = FORMS[form](X)
    for kernel, name in [(Gaussian(), "rbf"), (Linear(), "linear")]:
        ours, theirs = SVR(kernel, tol=1e-6).fit(X, y), svm.SVR(kernel=name, tol=1e-6).fit(X, y)
        np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=2e-3)
    ours, theirs = OneClassSVM(Gaussian(), nu=0.2).fit(X), svm.OneClassSVM(nu=0.2).fit(X)
    mine, other = ours.decision_function(X), theirs.decision_function(X)
    assert np.corrcoef(mine, other)[0, 1] > 0.9999
    sure = np.abs(other) > 0.01
    np.testing.assert_array_equal(mine[sure] > 0, other[sure] > 0)


#: As of scikit-learn's own machines: "scale" is of the vectors, not of their weights; and the support vectors
#: of one class on its boundary have the value 0, whose sign is rounding.
NOT_EQUIVALENT = {
    f"check_sample_weight_equivalence_on_{form}_data": "gamma knows no weights; signs of zero are rounding"
    for form in ("dense", "sparse")
}


@pytest.mark.slow
@parametrize_with_checks(
    [
        SVC(Gaussian(0.1), tol=1e-10),
        SVC(Gaussian(0.1), tol=1e-10, multiclass="ovo"),
        SVC(Sum([Gaussian(0.1), Gaussian(1.0)]), tol=1e-10),
        SVC(Gaussian()),
        SVR(Gaussian(0.1), tol=1e-10),
        OneClassSVM(Gaussian(0.1), tol=1e-10),
    ],
    expected_failed_checks=lambda estimator: (
        NOT_EQUIVALENT
        if isinstance(estimator, OneClassSVM) or estimator.get_params().get("kernel__gamma") == "scale"
        else {}
    ),
)
@pytest.mark.filterwarnings("ignore")
def test_check_estimator(estimator, check):
    if getattr(check, "func", check).__name__ == "check_array_api_input":
        pytest.skip("tests/test_sklearn.py has it")
    check(estimator)


def test_tags():
    tags = SVC(Gaussian()).__sklearn_tags__().input_tags
    assert (tags.two_d_array, tags.sparse, tags.string, tags.pairwise) == (True, True, False, False)
    assert not SVC(Spectrum(2)).__sklearn_tags__().input_tags.two_d_array


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_a_model_is_the_same_wherever_it_goes(form, tmp_path):
    X, y = problem()
    X = FORMS[form](X)
    path = tmp_path / "m.textsvm"
    kernels = [
        Gaussian(),
        Sigmoid(),
        Sum([Gaussian(), Linear()], weights=[1, 3]),
        Product([Gaussian(), Linear()]),
    ]
    for kernel in kernels:
        for model in (SVC(kernel), CalibratedSVC(SVC(kernel), cv=2), SVR(kernel), OneClassSVM(kernel)):
            model.fit(X, y)
            textsvm.save(model, path)
            for again in (load(path), pickle.loads(pickle.dumps(model))):
                np.testing.assert_array_equal(again.predict(X), model.predict(X))
                assert getattr(again, "estimator_", again).n_features_in_ == 10
    refuses(r"3 features.*expecting 10", load(path).predict, X[:, :3])


@pytest.mark.parametrize("form", ["float64", "sparse"])
def test_a_file_with_vectors_that_are_not_there(form, tmp_path):
    X, y = problem()
    path, good = tmp_path / "m.textsvm", tmp_path / "good.textsvm"
    textsvm.save(SVC(Gaussian()).fit(FORMS[form](X), y), good)
    whole = {
        "kernel.gamma": [lambda a: -a, lambda a: a * np.nan, lambda a: np.r_[a, a]],
        "vectors.values": [
            lambda a: a[:, 1:],
            lambda a: a * np.nan,
            lambda a: a[1:],
            lambda a: a.astype(int),
        ],
        "vectors.data": [lambda a: a[1:], lambda a: a * np.inf],
        "vectors.indices": [lambda a: a + 10, lambda a: a - 10, lambda a: a[::-1], lambda a: a[1:]],
        "vectors.indptr": [lambda a: a[1:], lambda a: a[::-1], lambda a: a + 1, lambda a: a * 0],
    }
    for name in whole.keys() & read_content(good).arrays.keys():
        for harm in whole[name]:
            shutil.copy(good, path)
            change(path, lambda _, arrays, name=name, harm=harm: arrays.update({name: harm(arrays[name])}))
            with pytest.raises(InputError):
                load(path)


def test_a_linear_model_without_vectors(tmp_path):
    X, y = problem(k=3)
    path = tmp_path / "m.textsvm"
    for kernel in (Linear(), Sum([Linear(), Linear()])):
        model = SVC(kernel).fit(X, y)
        again = reloaded(model, path, texts=False)
        np.testing.assert_allclose(again.decision_function(X), model.decision_function(X), rtol=1e-6)
        assert again.n_features_in_ == 10
        assert len(again.support_) == 0
    with pytest.raises(InputError, match="cannot do without its support vectors"):
        textsvm.save(SVC(Gaussian()).fit(X, y), path, texts=False)


@pytest.mark.parametrize("form", ["float64", "sparse"])
@pytest.mark.parametrize("kernel", [Linear(), Sum([Linear(), Linear()], weights=[1, 3])], ids=str)
def test_linear_machines_from_features(kernel, form):
    X, y = problem(n=300, k=3)
    X = FORMS[form](X)
    for options in ({}, {"multiclass": "ovo"}):
        ours = SVC(kernel, compute=Compute(solver="features"), tol=1e-4, **options).fit(X, y)
        theirs = SVC(kernel, compute=Compute(solver="gram"), tol=1e-4, **options).fit(X, y)
        assert ours.gram_description_.startswith("none")
        for one, other in zip(ours.solutions_, theirs.solutions_, strict=True):
            assert one.converged
            assert one.objective == pytest.approx(other.objective, rel=1e-5)
    ours = SVR(kernel, compute=Compute(solver="features"), tol=1e-4).fit(X, y.astype(float))
    theirs = SVR(kernel, compute=Compute(solver="gram"), tol=1e-4).fit(X, y.astype(float))
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-2)
    refuses("no list of features", SVC(Gaussian(), compute=Compute(solver="features")).fit, X, y)


def test_rows_of_vectors_take_a_quarter_of_free_memory_on_a_cpu(monkeypatch):
    monkeypatch.setattr(devices, "free_memory", lambda device: 400_000)
    X, y = np.random.default_rng(0).normal(size=(200, 3)), np.arange(200) % 2
    assert SVC(Gaussian()).fit(X, y).gram_description_.startswith("rows on demand, cached within 97.7 KiB")
    assert (
        SVC(Gaussian(), compute=Compute(memory=200_000))
        .fit(X, y)
        .gram_description_.startswith("whole kernel matrix")
    )


def test_many_vectors_of_a_linear_kernel_need_no_gram():
    X, y = problem(n=8000)
    assert (
        SVC(Linear(), compute=Compute(memory="2MB"))
        .fit(X, y)
        .gram_description_.startswith("none, trained from 80,000 feature values")
    )


def test_rows_on_demand_give_the_same_machine():
    X, y = problem(n=400)
    for form in FORMS.values():
        whole = SVC(Gaussian(), tol=1e-6).fit(form(X), y)
        some = SVC(Gaussian(), tol=1e-6, compute=Compute(memory="200KB")).fit(form(X), y)
        assert "rows on demand" in some.gram_description_
        np.testing.assert_allclose(
            some.decision_function(form(X)), whole.decision_function(form(X)), atol=1e-4
        )


@pytest.mark.parametrize("form", ["float64", "sparse"])
def test_selection(form):
    X, y = problem(n=120)
    X = FORMS[form](X)
    model, grid = SVC(Gaussian()), {"kernel__gamma": ["scale", 0.01, 0.3], "C": [1, 10]}
    folds = [(np.arange(0, 80), np.arange(80, 120)), (np.arange(40, 120), np.arange(40))]
    found = cross_validate(model, X, y, cv=folds)
    for train, test in folds:  # gamma is learnt from the training part
        alone = clone(model).fit(X[train], y[train])
        np.testing.assert_allclose(found.decision[test], alone.decision_function(X[test]), atol=2e-3)
    ours = tune(model, X, y, grid, cv=folds, metric="accuracy")
    assert ours.best_score == pytest.approx(GridSearchCV(model, grid, cv=folds).fit(X, y).best_score_)
    named = tune(SVC("gaussian"), X, y, {"kernel": [Linear(), Gaussian(0.1), "polynomial"]}, cv=folds)
    assert len(named.table) == 3
    assert CalibratedSVC(model, cv=2).fit(X, y).predict_proba(X).shape == (120, 2)
    labels = [[a] if a else ["x", "y"] for a in y.tolist()]
    labels = [[str(label) for label in each] for each in labels]
    assert len(MultilabelSVC(Gaussian(), cv=2).fit(X, labels).predict(X)) == 120
    refuses("how texts are read", tune, model, X, y, {"max_length": [3]}, cv=folds)
    refuses("cannot go over", tune, model, X, y, {"kernel": [Gaussian(), Spectrum(2)]}, cv=folds)


def test_copies_across_folds_are_seen():
    X, y = problem(n=100)
    X[:10] = X[50:60]
    y[:10] = y[50:60]
    folds = [(np.arange(0, 50), np.arange(50, 100))]
    with pytest.warns(LeakageWarning):
        assert cross_validate(SVC(Gaussian(0.1)), X, y, cv=folds).leaks[0].share == pytest.approx(0.2)
    with warnings.catch_warnings():  # neighbours are no copies
        warnings.simplefilter("error", LeakageWarning)
        assert not cross_validate(SVC(Gaussian(1e-4)), *problem(), cv=3).leaks[0].test.size
        tune(SVC(Gaussian()), *problem(), {"kernel__gamma": [1e-4, 0.1]}, cv=3)
    held = held_out_leak(SVC(Gaussian(0.1)).fit(X[:50], y[:50]), X[:50], X[50:])
    np.testing.assert_array_equal(held.test, np.arange(10))
    for train, test in cross_validate(SVC(Gaussian(0.1)), X, y, cv=4, group_duplicates=0.999).folds:
        assert all((i in train) == (i + 50 in train) for i in range(10)), test


def test_vectors_have_nothing_to_explain():
    X, y = problem()
    for model in (SVC(Gaussian()).fit(X, y), CalibratedSVC(SVC(Gaussian()), cv=2).fit(X, y)):
        refuses("nothing to explain", explain, model, X)


def _frame(**columns):
    X, _ = problem()
    return pd.DataFrame(X[:, :3], columns=list("abc")).assign(**columns)


def _harmed(at, value):
    X, _ = problem()
    X[at] = value
    return X


def _overflowed():
    X = csr_matrix(problem()[0])
    X.indices[5] = -2147483640
    return X


def _texts(n=150):
    return ["a text", "another"] * (n // 2)


BAD = {
    "NaN": (_harmed((7, 3), np.nan), "NaN in row 7, column 3"),
    "infinity": (_harmed((7, 3), -np.inf), "infinity in row 7, column 3"),
    "NaN, sparse": (csr_matrix(_harmed((7, 3), np.nan)), "NaN in row 7, column 3"),
    "a missing value": (_frame(b=[None, *range(149)]), r"NaN in row 0, column 1 \(b\)"),
    "an index that overflowed": (_overflowed(), "damaged: .*0"),
    "a column of texts": (_frame(b="x"), "row 0 of column 'b' is 'x', a text where a number"),
    "a column of dates": (_frame(b=pd.Timestamp(0)), "row 0 of column 'b' is a date or a time"),
    "strings": (np.full((150, 2), "x"), "could not convert string"),
    "complex": (problem()[0] + 1j, "Complex data not supported"),
    "one row": (np.zeros(150), "Reshape your data"),
    "a list of numbers": ([1.0] * 150, "Reshape your data"),
    "three dimensions": (np.zeros((150, 2, 2)), "dim 3"),
    "texts": (_texts(), "X is of texts.*take one of texts, such as Spectrum"),
    "an array of texts": (np.array(_texts()), "X is of texts"),
    "a column of a frame": (pd.Series(_texts()), "X is of texts"),
    "an iterator": (iter([[1.0]] * 150), "X is a list_iterator"),
    "too large": (problem()[0] * 1e200, "vector 0 are too large"),
    "too large to be added": (np.full((150, 2), 1e308), "vector 0 are too large"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_vectors_are_said_in_a_sentence(name):
    X, why = BAD[name]
    with warnings.catch_warnings(action="error"):
        refuses(why, SVC(Gaussian()).fit, X, problem()[1])


@pytest.mark.parametrize("gamma", [0, -1.0, np.nan, np.inf, "large", True, None])
def test_bad_gamma(gamma):
    X, y = problem()
    for kernel in (Gaussian(gamma), Polynomial(gamma=gamma), Sigmoid(gamma=gamma)):
        refuses(r"gamma=.* must be a finite number above 0", SVC(kernel).fit, X, y)


def test_other_parameters_out_of_range():
    X, y = problem()
    for kernel, why in [
        (Polynomial(degree=0), "degree=0"),
        (Polynomial(degree=2.5), "degree=2.5"),
        (Polynomial(degree=1 << 40), "degree=1099511627776"),
        (Sigmoid(coef0=np.inf), "coef0=inf"),
        (Sum([Gaussian(), Spectrum(2)]), "part 0 of a sum of kernels reads vectors, and part 1 texts"),
        (Polynomial(gamma=1e30), "not a finite number"),
    ]:
        refuses(why, SVC(kernel).fit, X, y)


def test_numbers_for_a_kernel_of_texts():
    X, y = problem()
    for kernel in (Spectrum(2), "auto", "fast"):
        for form in (X, csr_matrix(X), X.tolist()):
            refuses("a kernel of vectors, such as Gaussian", SVC(kernel).fit, form, y)


def test_what_is_no_mistake():
    X, y = problem()
    model = SVC(Gaussian()).fit(X, y)
    expected = model.decision_function(X)
    whole = csr_array(X)
    wide = csr_array((whole.data, whole.indices.astype(np.int64), whole.indptr.astype(np.int64)), whole.shape)
    for same in (csr_matrix(X), wide, coo_array(X), X.tolist(), pd.DataFrame(X).to_numpy(), X.astype(object)):
        np.testing.assert_allclose(model.decision_function(same), expected, atol=1e-6)
    twice = coo_array(
        (np.r_[X.ravel() / 2, X.ravel() / 2], (np.tile(np.indices(X.shape).reshape(2, -1), 2))), X.shape
    )
    np.testing.assert_allclose(model.decision_function(twice), expected, atol=1e-6)
    X[4] = 0  # a vector of zeros is one
    assert SVC(Gaussian()).fit(csr_matrix(X), y).predict(np.zeros((1, 10))).shape == (1,)
    assert SVC(Gaussian()).fit(np.round(X).astype(np.int8), y).support_documents_.values.dtype == np.float64
    given = csr_array((np.ones(3), [0, 0, 1], [0, 2, 3]), shape=(2, 2))
    model = SVC(Linear()).fit(given, [0, 1])
    assert given.nnz == 3  # repeated entries are added in a copy
    expected = SVC(Linear()).fit(given.toarray(), [0, 1])
    np.testing.assert_allclose(model.decision_function(given), expected.decision_function(given.toarray()))


def test_a_decision_value_that_is_no_number_is_refused(tmp_path):
    X, y = problem(n=30)
    model = SVC(Polynomial(degree=9, gamma=1.0)).fit(X, y)
    textsvm.save(model, tmp_path / "m.textsvm")
    far = np.vstack([X[:1], np.full((1, 10), 1e60)])
    with warnings.catch_warnings(action="error"):
        for machine in (model, load(tmp_path / "m.textsvm")):
            assert np.isfinite(machine.decision_function(far[:1])).all()
            refuses("document 2 of those given has no finite decision value", machine.decision_function, far)


def test_the_place_of_a_value_of_a_sparse_matrix_that_is_not_finite():
    for row, column in ((0, 1), (1, 0), (1, 1), (3, 1)):
        matrix = csr_array(np.array([[1.0, 2.0], [3.0, 4.0], [0.0, 0.0], [0.0, 5.0]]))
        matrix[row, column] = np.nan
        refuses(f"NaN in row {row}, column {column}, counted from 0", SVC(Linear()).fit, matrix, [0, 1, 0, 1])


def test_kernel_values_leave_a_sparse_matrix_with_repeated_columns_as_it_is():
    rows = csr_matrix((np.array([1.0, 2.0, 3.0]), np.array([1, 1, 0]), np.array([0, 2, 3])), shape=(2, 2))
    assert Linear()(rows).tolist() == [[9, 0], [0, 9]]
    assert rows.data.tolist() == [1, 2, 3]
    refuses("NaN in row 1, column 0", Linear(), np.array([[1.0, 2.0], [np.nan, 0.0]]))


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"])
def test_sparse_vectors_of_every_format_are_vectors(form):
    """A dok_array is a dict, and was taken for a table after the training."""
    x = np.abs(np.random.default_rng(0).standard_normal((40, 5)))
    x[x < 0.5] = 0
    y = np.arange(40) % 2
    model = SVC("gaussian", device="cpu").fit(csr_array(x).asformat(form), y)
    expected = SVC("gaussian", device="cpu").fit(csr_array(x), y)
    assert (model.decision_function(dok_array(x)) == expected.decision_function(x)).all()
