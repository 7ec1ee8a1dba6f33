"""The estimator: scikit-learn's conventions, its inputs and its errors."""

import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from refusals import raising, refuses
from sklearn import svm
from sklearn.base import clone

import textsvm
from textsvm import SVC, Compute, EditDistance, GapWeighted, InputError, Spectrum
from textsvm.model.settings import STRATEGIES
from textsvm.text.documents import encode, normalise
from textsvm.training.train import prepare

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


@pytest.fixture(scope="module")
def three(task):
    """A third language, which shares words with the other two."""
    texts, y = task
    rng = np.random.default_rng(1)
    words = ["maple", "birch", "mango", "sunday", "and", "the", "of", "to"]
    third = [" ".join(rng.choice(words, rng.integers(3, 9))) for _ in range(30)]
    order = rng.permutation(110)
    return [[*texts, *third][i] for i in order], np.array([*y, *["tree"] * 30])[order]


def gram_of(texts, kernel=None):
    """The kernel matrix that a fit computes."""
    model = SVC(Spectrum(p=2) if kernel is None else kernel)
    return prepare(model.settings, texts).gram.rows(np.arange(len(texts)))


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_agrees_with_libsvm_on_the_same_gram(task, kernel):
    texts, y = task
    model = SVC(kernel, C=3.0, tol=1e-6).fit(texts[:60], y[:60])
    documents = encode([normalise(t) for t in texts[:60]])
    rows = clone(kernel).fit(documents).rows(documents, model.device_)
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
    assert set(model.seconds_) == {"check", "encode", "plan", "gram", "solve", "assemble"}


def test_batches_do_not_change_decisions(task, monkeypatch):
    texts, y = task
    model = SVC(GapWeighted(p=2)).fit(texts, y)
    expected = model.decision_function(texts)
    monkeypatch.setattr("textsvm.kernels.contract.BLOCK_BYTES", 4 * 3 * len(model.support_))
    np.testing.assert_allclose(model.decision_function(texts), expected, rtol=1e-12)


def test_cached_rows_give_the_same_model(task):
    texts, y = task
    dense = SVC(Spectrum(p=2), C=10).fit(texts, y)
    cached = SVC(Spectrum(p=2), C=10, compute=Compute(memory=4 * len(texts) * 8, solver="gram")).fit(texts, y)
    assert dense.gram_description_ != cached.gram_description_
    np.testing.assert_allclose(cached.decision_function(texts), dense.decision_function(texts), atol=1e-6)


def test_one_vs_one_agrees_with_libsvm(three):
    texts, y = three
    K = gram_of(texts)
    model = SVC("precomputed", C=3.0, tol=1e-6, multiclass="ovo").fit(K, y)
    judge = svm.SVC(kernel="precomputed", C=3.0, tol=1e-6).fit(K, y)
    np.testing.assert_allclose(model.decision_function(K), judge.decision_function(K), atol=1e-4)
    assert model.predict(K).tolist() == judge.predict(K).tolist()
    assert model.n_support_.tolist() == judge.n_support_.tolist()
    assert model.dual_coef_.shape == (3, len(model.support_))
    assert len(model.solutions_) == 3
    assert model.n_iter_ == sum(solution.iterations for solution in model.solutions_)


@pytest.mark.parametrize("numbers", [False, True])
@pytest.mark.parametrize("features", [False, True])
def test_ordered_classes_have_machines_of_higher_against_lower(three, numbers, features):
    """A value is half the sum of LIBSVM's values of the machines below it, less those above it."""
    texts, y = three
    order = ["tree", "day", "fruit"]
    level = np.array([order.index(name) for name in y])
    labels, multiclass = (level * 10 - 5, "ordered") if numbers else (y, "ordered:tree < day<fruit")
    K = gram_of(texts)
    X, kernel = (texts, Spectrum(p=2)) if features else (K, "precomputed")
    model = SVC(kernel, C=3.0, tol=1e-6, multiclass=multiclass).fit(X, labels)
    judges = [svm.SVC(kernel="precomputed", C=3.0, tol=1e-6).fit(K, level > k) for k in (0, 1)]
    f, g = (judge.decision_function(K) for judge in judges)
    values = {"tree": (-f - g) / 2, "day": (f - g) / 2, "fruit": (f + g) / 2}
    expected = np.stack([values[name] for name in (order if numbers else sorted(order))], axis=1)
    np.testing.assert_allclose(model.decision_function(X), expected, atol=1e-4)
    falls = f > g
    assert falls.mean() > 0.6
    predicted = model.predict(X)
    at = (predicted + 5) // 10 if numbers else np.array([order.index(name) for name in predicted])
    np.testing.assert_array_equal(at[falls], (f > 0).astype(int)[falls] + (g > 0)[falls])
    assert len(model.solutions_) == 2


def test_ordered_labels_are_ordered_by_their_numbers(three):
    texts, y = three
    level = np.unique(y, return_inverse=True)[1]
    expected = SVC(Spectrum(p=2), multiclass="ordered").fit(texts, level).decision_function(texts)
    names = np.array(["-1", "9.5", "10"])[level]  # sorted as text: -1, 10, 9.5
    model = SVC(Spectrum(p=2), multiclass="ordered").fit(texts, names)
    assert model.classes_.tolist() == ["-1", "10", "9.5"]
    np.testing.assert_allclose(model.decision_function(texts), expected[:, [0, 2, 1]], atol=1e-12)


@pytest.mark.parametrize(
    ("multiclass", "message"),
    [
        ("ordered", "ordered classes are numbers, and 'day' is none: name all of them, the lowest first"),
        ("ordered:day<tree", "must name each class once, the lowest first, and names 'fruit' 0 times"),
        ("ordered:day<tree<fruit<day", "and names 'day' 2 times"),
        ("ordered:", '"ordered:" names no class'),
        ("orderly", "'orderly' is not one of ovo, ovr, crammer-singer, ordered"),
        ("ovr:day<tree<fruit", "is not one of"),
    ],
)
def test_an_order_that_is_not_known_is_refused(three, multiclass, message):
    refuses(message, SVC(Spectrum(p=2), multiclass=multiclass).fit, *three)


@pytest.mark.parametrize(
    ("labels", "message"), [(["1", "1.0"], "1 and 1.0 are the same number"), (["1", "nan"], "'nan' is none")]
)
def test_ordered_labels_are_different_numbers(labels, message):
    refuses(message, SVC(Spectrum(p=2), multiclass="ordered").fit, SHORT, [labels[bit] for bit in BITS])


@pytest.mark.parametrize("multiclass", STRATEGIES)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_largest_decision_value_is_predicted(three, multiclass, n_classes):
    texts, y = three
    keep = np.isin(y, ["day", "fruit", "tree"][:n_classes])
    texts, y = [t for t, k in zip(texts, keep, strict=True) if k], y[keep]
    model = SVC(Spectrum(p=2), C=10.0, multiclass=multiclass).fit(texts, y)
    values = model.decision_function(texts)
    assert values.shape == ((len(texts),) if n_classes == 2 else (len(texts), 3))
    best = (values > 0).astype(int) if n_classes == 2 else values.argmax(axis=1)
    assert model.predict(texts).tolist() == model.classes_[best].tolist()
    assert model.score(texts, y) > 0.95
    assert set(model.classes_) == set(y)


def test_crammer_singer_has_no_bias_and_coefficients_that_sum_to_zero(three):
    model = SVC(Spectrum(p=2), C=3.0, multiclass="crammer-singer").fit(*three)
    assert not model.intercept_.any()
    np.testing.assert_allclose(model.dual_coef_.sum(axis=0), 0, atol=1e-9)
    assert len(model.solutions_) == 1


def objective(model):
    return sum(solution.objective for solution in model.solutions_)


def test_class_weights_agree_with_libsvm(three):
    texts, y = three
    K = gram_of(texts)
    for class_weight in ("balanced", {"fruit": 2.0, "tree": 0.3}):
        options = {"kernel": "precomputed", "C": 0.5, "tol": 1e-6, "class_weight": class_weight}
        ours, judge = SVC(**options, multiclass="ovo").fit(K, y), svm.SVC(**options).fit(K, y)
        np.testing.assert_allclose(ours.decision_function(K), judge.decision_function(K), atol=1e-4)


def test_texts_after_a_matrix_have_no_columns(three):
    texts, y = three
    model = SVC("precomputed").fit(gram_of(texts), y)
    assert not hasattr(model.set_params(kernel=Spectrum(p=2)).fit(texts, y), "n_features_in_")


def test_a_function_is_a_kernel(three):
    texts, y = three

    def shared_words(a, b):
        bags = [[set(text.split()) for text in side] for side in (a, b)]
        return np.array([[len(s & t) / max(1, len(s | t)) for t in bags[1]] for s in bags[0]])

    model = SVC(shared_words, C=3.0).fit(texts, y)
    K = shared_words([normalise(t) for t in texts], [normalise(t) for t in texts])
    given = SVC("precomputed", C=3.0).fit(K, y)
    np.testing.assert_allclose(model.decision_function(texts), given.decision_function(K), atol=1e-4)
    assert clone(model).kernel is shared_words


BAD = [
    (np.ones((3, 4)), "3 rows and 4 columns"),
    (np.array([[1, 2, 0], [3, 1, 0], [0, 0, 1.0]]), "not symmetric"),
    (np.array([[1, np.nan, 0], [np.nan, 1, 0], [0, 0, 1.0]]), "NaN"),
    (np.array([[np.inf, 0, 0], [0, 1, 0], [0, 0, 1.0]]), "inf"),
    (np.full((3, 3), 1e300), "inf"),
    (np.ones(3), "Expected 2D array"),
    ([["a", "b", "c"]] * 3, "convert|numeric"),
]


@pytest.mark.parametrize(("matrix", "message"), BAD, ids=[message for _, message in BAD])
def test_unusable_kernel_matrices_are_named(matrix, message):
    refuses(message, SVC("precomputed").fit, matrix, ["a", "b", "a"])


def test_new_rows_of_a_kernel_matrix_must_fit():
    model = SVC("precomputed").fit(np.eye(3), ["a", "b", "a"])
    assert model.predict(np.eye(3)[:2]).shape == (2,)
    for rows, message in [(np.ones((2, 4)), "4 features"), (np.full((1, 3), np.nan), "NaN")]:
        refuses(message, model.predict, rows)


WEIGHTS = [
    ([1, 1, 1], "shape"),
    ([1, 1, 1, np.nan], "document 3 is nan"),
    ([1, -1, 1, 1], "document 1 is -1"),
    ([1, 1, np.inf, 1], "document 2 is inf"),
    (["a", 1, 1, 1], "not numbers"),
    ([0, 0, 0, 0], "zero for all documents"),
    ([1, 0, 1, 0], "class b from: sample_weight is zero"),
]


@pytest.mark.parametrize(("weight", "message"), WEIGHTS, ids=[message for _, message in WEIGHTS])
def test_unusable_weights_are_named_before_the_work(weight, message):
    begun = raising(AssertionError("the work has begun"))
    texts, labels = ["x", "y", "xx", "yy"], ["a", "b", "a", "b"]
    refuses(message, SVC(Spectrum(p=1)).fit, texts, labels, weight, progress=begun)


def test_labels_keep_their_type(task):
    texts, y = task
    for labels in ((y == "day").tolist(), np.where(y == "day", 7.0, 3.0), np.where(y == "day", "ü", "é")):
        model = SVC(Spectrum(p=2)).fit(texts, labels)
        assert model.predict(texts).dtype == np.asarray(labels).dtype
        assert set(model.predict(texts).tolist()) == set(np.asarray(labels).tolist())


def test_columns_of_polars_and_arrow(task):
    texts, y = task
    expected = SVC(Spectrum(p=2)).fit(texts, y).predict(texts[:5]).tolist()
    polars, arrow = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    for form in (polars.Series, arrow.array, lambda X: arrow.chunked_array([X[:3], X[3:]])):
        model = SVC(Spectrum(p=2)).fit(form(texts), form(y.tolist()))
        assert model.predict(form(texts[:5])).tolist() == expected
    refuses("document 1 is missing", SVC().fit, arrow.array(["ok", None]), ["a", "b"])


def test_missing_values_of_pandas_are_named(task):
    refuses("document 1 is missing", SVC().fit, pd.Series(["ok", pd.NA], dtype="string"), ["a", "b"])
    with pytest.raises(InputError, match="label of document 1 is missing"):
        SVC().fit(["ok", "fine"], pd.Series(["ok", pd.NA], dtype="string"))


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ("one text", ["a"], "single string"),
        ([["nested"]], ["a"], "document 0"),
        (["ok", None], ["a", "b"], "document 1 is missing"),
        (["ok", float("nan")], ["a", "b"], "document 1 is missing"),
        (["ok", 3], ["a", "b"], "document 1 is of type int"),
        (np.array([["a", "b"]]), ["a"], "shape"),
        (["ok", "fine"], ["a"], "2 documents and 1 labels"),
        (["ok", "fine"], ["a", "a"], "two classes"),
        (["ok", "fine"], ["a", None], "label of document 1"),
        (["ok", "fine"], None, "requires y"),
        (["ok", "fine"], ["a", 1], "different types"),
        (["ok", "fine"], [0.5, 1], "continuous"),
        (["ok", "fine"], [[0, 1], [1, 0]], "one label a document"),
        (["ok"], ["a"], "one sample"),
        ([], [], "no documents"),
        (["ok", "no"], ["a", "b"], "shorter than p = 4"),
    ],
)
def test_unusable_input_is_named(X, y, message):
    refuses(message, SVC(Spectrum(p=4)).fit, X, y)


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
        {"multiclass": "ecoc"},
        {"class_weight": "heavy"},
        {"class_weight": {"day": 0}},
        {"class_weight": {"day": float("nan")}},
        {"class_weight": {"night": 1.0}},
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
        {"compute": Compute(memory="much")},
        {"compute": Compute(memory=-3)},
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
    assert not model.solutions_[0].converged


def test_the_machines_that_did_not_converge_are_named(three):
    from sklearn.exceptions import ConvergenceWarning

    with pytest.warns(ConvergenceWarning, match=r"\d of 3 machines .* \w+ against \w+ \(stopped at 3"):
        SVC(Spectrum(p=2), C=100, tol=1e-8, max_iter=3, multiclass="ovo").fit(*three)
    ordered = SVC(Spectrum(p=2), C=100, tol=1e-8, max_iter=3, multiclass="ordered:day<tree<fruit")
    with pytest.warns(ConvergenceWarning, match=r"of 2 machines .* level \d against those above"):
        ordered.fit(*three)
    with pytest.warns(ConvergenceWarning, match=r"machines .* against the rest"):
        SVC(Spectrum(p=2), C=100, tol=1e-8, max_iter=3, multiclass="ovr").fit(*three)


def test_a_duality_gap_may_end_a_fit(task):
    close = SVC(Spectrum(p=2), C=10).fit(*task)
    loose = SVC(Spectrum(p=2), C=10, duality_gap=0.1).fit(*task)
    assert loose.solutions_[0].converged
    assert close.solutions_[0].duality_gap < loose.solutions_[0].duality_gap <= 0.1
    assert loose.n_iter_ < close.n_iter_
    assert loose.solutions_[0].objective == pytest.approx(close.solutions_[0].objective, rel=0.1)


def test_the_machines_are_prepared_for_prediction_once(task, monkeypatch):
    texts, y = task
    model = SVC(GapWeighted(p=2), device="cpu").fit(texts, y)
    calls = []
    rows = GapWeighted.rows
    monkeypatch.setattr(GapWeighted, "rows", lambda *a: calls.append(1) or rows(*a))
    expected = model.decision_function(texts[:9])
    predictor = model.model_.prepared()
    np.testing.assert_array_equal(model.decision_function(texts[:9]), expected)
    assert model.model_.prepared() is predictor
    assert calls == [1]
    assert predictor.device == model.device_
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.decision_function(texts[:9]), expected)
    assert calls == [1, 1]
    model.fit(texts[:30], y[:30])
    assert model.model_.prepared() is not predictor
    assert len(model.model_.prepared().values(encode(texts[:9], model.support_documents_.alphabet))) == 9


def test_another_device_prepares_the_machines_anew(task):
    texts, y = task
    model = SVC(GapWeighted(p=2), device="auto").fit(texts, y)
    model.predict(texts)
    predictor = model.model_.prepared()
    model.set_params(device="cpu").predict(texts)
    assert model.model_.prepared() is not predictor
    assert model.device_.kind == "cpu"
    model.set_params(device="cuda:77")
    for _ in range(2):  # not the one that was prepared before
        with pytest.raises(InputError):
            model.predict(texts)


@pytest.mark.parametrize("kernel", [*KERNELS, "precomputed"], ids=str)
def test_threads_may_share_a_model(task, kernel, monkeypatch):
    texts, y = task
    X = gram_of(texts) if kernel == "precomputed" else texts
    model = SVC(kernel, C=3.0, device="cpu").fit(X, y)
    expected = pickle.loads(pickle.dumps(model)).decision_function(X)
    made = []
    source = type(model.settings.source)
    prepare = source.predictor
    monkeypatch.setattr(source, "predictor", lambda *a: made.append(1) or prepare(*a))
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: model.decision_function(X), range(16)))
    for values in found:
        np.testing.assert_array_equal(values, expected)
    assert made == [1]


def test_probabilities_are_of_another_estimator(task):
    assert not hasattr(SVC(), "predict_proba")
    assert not hasattr(SVC(Spectrum(p=2)).fit(*task), "predict_proba")
    with pytest.raises(AttributeError, match=r"CalibratedSVC\(SVC\(\)\)"):
        SVC().predict_proba(["a text"])


SHORT, BITS = ["aab", "abb", "bba", "bbb"] * 3, [0, 1, 0, 1] * 3


@pytest.mark.parametrize("labels", [[("a", "c"), ("b",)] * 6, [("a", "c"), ("b", "d")] * 6])
@pytest.mark.parametrize("kernel", ["auto", "fast"])
def test_tuples_as_labels_are_one_sentence(labels, kernel):
    refuses("expected one label a document, got several", textsvm.SVC(kernel).fit, SHORT, labels)
    with pytest.raises(InputError, match="expected one label a document, got several"):
        textsvm.cross_validate(textsvm.SVC(kernel), SHORT, labels)


@pytest.mark.parametrize(("n", "strategy"), [(2, "ovr"), (3, "ovo"), (3, "ovr")])
def test_the_first_class_wins_a_tie(n, strategy):
    """Decision values of 0, of an example that is like none of the training examples."""
    model = SVC("precomputed", multiclass=strategy, device="cpu").fit(np.eye(n), list("abc"[:n]))
    decision = model.decision_function(np.zeros((1, n)))
    assert n > 2 or decision.tolist() == [0.0]
    assert model.predict(np.zeros((1, n))).tolist() == ["a"]


def test_the_gap_of_the_largest_C_is_infinite_and_not_a_warning():
    texts, labels = ["ab", "ab", "cd", "cd ab", "b"], [0, 1, 0, 1, 1]
    with warnings.catch_warnings(action="error", category=RuntimeWarning):
        warnings.simplefilter("ignore", UserWarning)
        model = SVC(Spectrum(1), C=1e100, max_iter=100).fit(texts, labels, sample_weight=[1e100] * 5)
        assert np.isfinite(model.decision_function(texts)).all()
