"""What people write around a model: kernels in formulas and calls, texts in tables, reports, pictures."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import BaggingClassifier, StackingClassifier
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from textsvm import (
    SVC,
    SVR,
    CalibratedSVC,
    EditDistance,
    GapWeighted,
    Gaussian,
    InputError,
    On,
    OnlineSVC,
    Product,
    Spectrum,
    SpectrumFeatures,
    Sum,
    cross_validate,
    report,
)
from textsvm.kernels.spelling import parse, spell

pytestmark = pytest.mark.slow

try:
    import polars as pl
except ImportError:
    pl = None

TEXTS = ["a banana", "the bandana", "banana bread", "on monday", "a sunday", "monday, tuesday"] * 4
LABELS = ["fruit", "fruit", "fruit", "day", "day", "day"] * 4
OTHERS, TRUTH = ["bandanas", "tuesdays", "wednesday", "ana"], ["fruit", "day", "day", "fruit"]

COLUMNS = {
    "pandas": lambda texts: pd.DataFrame({"text": texts}, index=range(7, 7 + len(texts))),
    **({"polars": lambda texts: pl.DataFrame({"text": texts})} if pl else {}),
    "arrow": lambda texts: pa.table({"text": texts}),
    "strings": lambda texts: np.array(texts)[:, None],
    "objects": lambda texts: np.array(texts, object).reshape(-1, 1),
}


@pytest.fixture(scope="module")
def model():
    return SVC(Spectrum(2)).fit(TEXTS, LABELS)


@pytest.mark.parametrize("form", COLUMNS)
@pytest.mark.filterwarnings("ignore::textsvm.selection.leakage.LeakageWarning")
def test_a_column_of_texts_is_texts(form, model):
    column, others = COLUMNS[form](TEXTS), COLUMNS[form](OTHERS)
    for estimator in (SVC(Spectrum(2)), OnlineSVC(p=2)):
        fitted = clone(estimator).fit(column, LABELS)
        expected = clone(estimator).fit(TEXTS, LABELS)
        np.testing.assert_array_equal(fitted.decision_function(others), expected.decision_function(OTHERS))
        assert not hasattr(fitted, "n_features_in_")
    features = SpectrumFeatures(p=2).fit(column)
    assert (features.transform(others) != SpectrumFeatures(p=2).fit(TEXTS).transform(OTHERS)).nnz == 0
    assert CalibratedSVC(SVC(Spectrum(2)), cv=2).fit(column, LABELS).score(column, LABELS) == 1
    found = cross_validate(SVC(Spectrum(2)), column, LABELS, cv=2)
    assert found.pooled["accuracy"] == 1


def test_tables_of_more_columns_and_columns_of_numbers_are_no_texts():
    with pytest.raises(InputError, match="select a column, or give a kernel On"):
        SVC(Spectrum(2)).fit(pd.DataFrame({"a": TEXTS, "b": TEXTS}), LABELS)
    with pytest.raises(InputError, match=r"array of shape \(24, 2\)"):
        SVC(Spectrum(2)).fit(np.array([TEXTS, TEXTS]).T, LABELS)
    with pytest.raises(InputError, match=r"array of shape \(24, 1\); .* kernel of vectors"):
        SVC(Spectrum(2)).fit(np.ones((24, 1)), LABELS)
    with pytest.raises(InputError, match="document 23 is missing"):
        SVC(Spectrum(2)).fit(pd.DataFrame({"a": [*TEXTS[1:], None]}), LABELS)


@pytest.mark.parametrize("form", ["pandas", "objects"])
def test_bagging(form):
    bag = BaggingClassifier(SVC(Spectrum(2)), n_estimators=3, random_state=0)
    bag.fit(COLUMNS[form](TEXTS), LABELS)
    assert bag.predict(COLUMNS[form](OTHERS)).tolist() == TRUTH


FORMS = {
    "list": list,
    "array": np.array,
    "series": pd.Series,
    **({"polars series": pl.Series} if pl else {}),
    **COLUMNS,
}
AROUND = {
    "grid": lambda svc: GridSearchCV(svc, {"C": [1, 10], "kernel__p": [2, 3]}, cv=2),
    "pipeline": lambda svc: make_pipeline(FunctionTransformer(), svc),
    "stacking": lambda svc: StackingClassifier([("a", svc), ("b", SVC(Spectrum(3)))], cv=2),
    "one vs rest": OneVsRestClassifier,
    "calibrated": lambda svc: CalibratedClassifierCV(svc, cv=2),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("around", AROUND)
def test_scikit_learn_around_texts_in_any_form(around, form):
    model = AROUND[around](SVC(Spectrum(2))).fit(FORMS[form](TEXTS), LABELS)
    assert model.predict(FORMS[form](OTHERS)).tolist() == TRUTH


@pytest.mark.parametrize("form", FORMS)
def test_cross_val_predict_of_texts_in_any_form(form):
    assert cross_val_predict(SVC(Spectrum(2)), FORMS[form](TEXTS), LABELS, cv=2).tolist() == LABELS


A, B, C = Spectrum(2), GapWeighted(2), EditDistance()


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (A + B, Sum([A, B])),
        (A + B + C, Sum([A, B, C])),
        (A + (B + C), Sum([A, B, C])),
        (sum([A, B, C]), Sum([A, B, C])),
        (2 * A, Sum([A], [2.0])),
        (A * 2 + B, Sum([A, B], [2.0, 1.0])),
        (np.float64(2) * (A + B) + C, Sum([A, B, C], [2.0, 2.0, 1.0])),
        (A + Sum([B, C], [0.3, 0.7]), Sum([A, B, C], [1.0, 0.3, 0.7])),
        (A * B, Product([A, B])),
        (A * B * C, Product([A, B, C])),
        (A * (B + C), Product([A, Sum([B, C])])),
        (2 * A * B + C, Sum([Product([A, B]), C], [2.0, 1.0])),
        (A * (0.5 * B), Sum([Product([A, B])], [0.5])),
    ],
)
def test_formulas(made, expected):
    assert repr(made) == repr(expected)
    assert repr(clone(made)) == repr(expected)
    assert made.get_params(deep=False).keys() == expected.get_params(deep=False).keys()
    assert made(["banana"], ["bandana"]) == expected(["banana"], ["bandana"])


def test_formulas_are_spelled_and_have_the_values_of_their_parts():
    for kernel in (A + B, A * B, A + B * C, 2 * A):
        assert parse(spell(kernel))(OTHERS, TEXTS[:3]) == pytest.approx(kernel(OTHERS, TEXTS[:3]), abs=1e-6)
    expected = (2 * A(OTHERS) + B(OTHERS) * C(OTHERS)) / 3
    np.testing.assert_allclose((2 * A + B * C)(OTHERS), expected, atol=1e-6)
    assert clone(SVC(A + B)).set_params(kernel__0__p=5).kernel.kernels[0].p == 5
    assert A.p == 2


@pytest.mark.parametrize("factor", [0, -1, np.inf, np.nan])
def test_factors_that_no_kernel_can_have(factor):
    with pytest.raises(InputError, match="finite number above 0"):
        factor * A


@pytest.mark.parametrize("what", [lambda: A + 1, lambda: A * "x", lambda: True * A, lambda: A + "spectrum"])
def test_what_is_no_formula(what):
    with pytest.raises(TypeError):
        what()


def test_kernels_are_called():
    assert A(["banana"], ["Bandana"]) == pytest.approx(7 / np.sqrt(72))
    assert Spectrum(4)(["a"], ["b"]).tolist() == [[0]]
    assert Spectrum(4)(["a", "b"]).tolist() == [[1, 0], [0, 1]]
    values = A(OTHERS, TEXTS)
    assert values.shape == (4, 24)
    assert values.dtype == np.float32
    np.testing.assert_allclose(A(TEXTS), A(TEXTS, TEXTS), atol=1e-6)
    assert A(np.array(OTHERS)[:, None], pd.Series(TEXTS)).tolist() == values.tolist()
    assert A([], TEXTS).shape == (0, 24)
    np.testing.assert_allclose(Gaussian(gamma=1.0)([[0.0], [1.0]], [[0.0]]), [[1], [np.exp(-1)]], rtol=1e-6)
    assert (On("a", A) + On("n", Gaussian()))({"a": OTHERS, "n": [1, 2, 3, 4]}).shape == (4, 4)


@pytest.mark.gpu
@pytest.mark.parametrize("kernel", [A, B, C, A + B, Spectrum(2, idf=True)], ids=repr)
def test_kernels_called_on_a_card_have_the_values_of_a_cpu(kernel):
    values = kernel(TEXTS)
    assert isinstance(values, np.ndarray)
    rows = SVC(kernel, device="cpu").prepare(TEXTS).gram.rows(np.arange(len(TEXTS)))
    np.testing.assert_allclose(values, rows, atol=1e-6)
    np.testing.assert_allclose(kernel(TEXTS, TEXTS), rows, atol=1e-6)


def test_a_called_kernel_learns_from_the_columns_and_forgets():
    """As the one that a machine learns from its training texts."""
    kernel = Spectrum(2, idf=True)
    values = kernel(OTHERS, TEXTS)
    fitted = SVC(kernel, tol=1e-9).fit(TEXTS, LABELS)
    decision = values[:, fitted.support_] @ fitted.dual_coef_[0] + fitted.intercept_
    np.testing.assert_allclose(decision, fitted.decision_function(OTHERS), atol=1e-5)
    assert not hasattr(kernel, "weights_")


@pytest.mark.parametrize(("given", "what"), [("banana", "single string"), ([3], "of type int")])
def test_a_called_kernel_refuses_what_is_no_list_of_texts(given, what):
    with pytest.raises(InputError, match=what):
        A(TEXTS, given)


def test_a_called_kernel_says_which_parameter_is_out_of_range():
    with pytest.raises(InputError, match="p=0"):
        Spectrum(0)(TEXTS)


def test_reports(model, tmp_path):
    truth = pd.Series(["fruit", "day", "fruit", "fruit"], index=[9, 8, 7, 6])
    saved = report(model, np.array(OTHERS), truth)
    assert saved.results.metrics["accuracy"] == 0.75
    assert [mistake.id for mistake in saved.mistakes] == ["2"]
    assert repr(saved).startswith("SavedReport(4 examples, accuracy=0.75")
    page = saved.save(tmp_path / "report.html").read_text("utf-8")
    assert "<title>Evaluation" in page
    frame = saved._repr_html_()
    assert frame.startswith("<iframe srcdoc=")
    assert "<script" not in frame
    assert "accuracy" in saved.save(tmp_path / "report.json").read_text("utf-8")
    with pytest.raises(InputError, match=r"\.html, \.md or \.json"):
        saved.save(tmp_path / "report.txt")


def test_reports_of_other_machines(model):
    numbers = np.arange(24.0)
    assert report(SVR(Spectrum(2)).fit(TEXTS, numbers), TEXTS, numbers).results.task == "regression"
    calibrated = CalibratedSVC(model, cv=2).fit(TEXTS, LABELS)
    assert report(calibrated, OTHERS, TRUTH, ids="abcd", positive="fruit").results.labels[1] == "fruit"
    table = pd.DataFrame({"text": TEXTS, "size": numbers}, index=numbers + 3)
    beside = SVC(On("text", Spectrum(2)) + On("size", Gaussian())).fit(table, LABELS)
    assert report(beside, table, LABELS, mistakes=0).results.n == 24


def test_reports_that_cannot_be(model):
    with pytest.raises(InputError, match="4 examples and 24 labels"):
        report(model, OTHERS, LABELS)
    with pytest.raises(InputError, match="4 examples and 1 ids"):
        report(model, OTHERS, TRUTH, ids=["a"])
    with pytest.raises(InputError, match="kernel matrix"):
        report(SVC("precomputed").fit(np.eye(24), LABELS), np.eye(24), LABELS)


def test_pictures_show_kernel_and_device(model):
    assert f"kernel: Spectrum(p=2); device: {model.device_.description}" in model._repr_html_()
    assert "kernel: auto; device: auto" in SVC()._repr_html_()
    assert "kernel: Spectrum(p=2); device: cpu" in CalibratedSVC(SVC(A, device="cpu"))._repr_html_()
    pipeline = make_pipeline(FunctionTransformer(), SVC(A + B, device="cpu"))
    assert "kernel: Sum(kernels=[Spectrum(p=2), GapWeighted(p=2)]); device: cpu" in pipeline._repr_html_()
