"""Texts in tables, and our estimators in scikit-learn's tools."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from refusals import refuses
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import BaggingClassifier, StackingClassifier
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from textsvm import (
    SVC,
    CalibratedSVC,
    InputError,
    Linear,
    MultilabelSVC,
    On,
    OneClassSVM,
    OnlineSVC,
    Spectrum,
    SpectrumFeatures,
    cross_validate,
    doubts,
    explain,
    read_corpus,
    report,
    tune,
)

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
@pytest.mark.filterwarnings("ignore::textsvm.training.leakage.LeakageWarning")
def test_a_column_of_texts_is_texts(form, model):
    column, others = COLUMNS[form](TEXTS), COLUMNS[form](OTHERS)
    for estimator in (SVC(Spectrum(2)), OnlineSVC(p=2)):
        fitted = clone(estimator).fit(column, LABELS)
        expected = clone(estimator).fit(TEXTS, LABELS)
        np.testing.assert_array_equal(fitted.decision_function(others), expected.decision_function(OTHERS))
        assert hasattr(fitted, "n_features_in_") == hasattr(column, "columns")
    features = SpectrumFeatures(p=2).fit(column)
    assert (features.transform(others) != SpectrumFeatures(p=2).fit(TEXTS).transform(OTHERS)).nnz == 0
    assert CalibratedSVC(SVC(Spectrum(2)), cv=2).fit(column, LABELS).score(column, LABELS) == 1
    assert cross_validate(SVC(Spectrum(2)), column, LABELS, cv=2).pooled["accuracy"] == 1


def test_tables_of_more_columns_and_columns_of_numbers_are_no_texts():
    with pytest.raises(InputError, match="select a column, or give a kernel On"):
        SVC(Spectrum(2)).fit(pd.DataFrame({"a": TEXTS, "b": TEXTS}), LABELS)
    refuses(r"array of shape \(24, 2\)", SVC(Spectrum(2)).fit, np.array([TEXTS, TEXTS]).T, LABELS)
    refuses(r"array of shape \(24, 1\); .* kernel of vectors", SVC(Spectrum(2)).fit, np.ones((24, 1)), LABELS)
    refuses("document 23 is missing", SVC(Spectrum(2)).fit, pd.DataFrame({"a": [*TEXTS[1:], None]}), LABELS)


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


FRAMES = {name: make for name, make in COLUMNS.items() if name in ("pandas", "polars", "arrow")}


@pytest.mark.parametrize("form", FRAMES)
@pytest.mark.filterwarnings("ignore::textsvm.training.leakage.LeakageWarning")
def test_another_column_than_that_of_the_training_is_refused(form):
    column = FRAMES[form](TEXTS)
    other = {"pandas": pd.DataFrame, "polars": pl and pl.DataFrame, "arrow": pa.table}[form](
        {"title": OTHERS}
    )
    online = OnlineSVC(p=2).partial_fit(column, LABELS)
    estimators = [CalibratedSVC(SVC(Spectrum(2))), SVC(Spectrum(2)), OnlineSVC(p=2)]
    for estimator in [online, *(x.fit(column, LABELS) for x in estimators)]:
        assert (estimator.feature_names_in_.tolist(), estimator.n_features_in_) == (["text"], 1)
        for call in (estimator.predict, estimator.decision_function):
            refuses("the table has no column 'text'; it has title", call, other)
            call(OTHERS), call(np.array(OTHERS))
    refuses("no column 'text'", online.partial_fit, other, TRUTH)
    refuses("no column 'text'", SpectrumFeatures(p=2).fit(column).transform, other)


def test_tables_have_the_names_of_all_columns():
    table = {"text": TEXTS, "more": TEXTS, "n": [1, 2] * 12, "unused": TEXTS}
    kernel = On("text", Spectrum(2)) + On("n", Linear())
    for X in (table, pd.DataFrame(table), pd.DataFrame(table).to_dict("records")):
        model = SVC(kernel).fit(X, LABELS)
        assert (model.feature_names_in_.tolist(), model.n_features_in_) == (list(table), 4)
        model.predict({"n": [1], "text": ["a"]})  # other columns may be missing, in any order
        refuses("no column 'n'", model.predict, {"text": ["a"]})
    assert not hasattr(model.fit({"text": TEXTS, 1: TEXTS, "n": [1, 2] * 12}, LABELS), "feature_names_in_")
    numbered = pd.DataFrame({0: TEXTS, 1: TEXTS})
    for estimator in (SVC("fast"), SVC(On(0, Spectrum(2)))):
        refuses(r"X\.columns = X\.columns\.astype\(str\)", estimator.fit, numbered, LABELS)


@pytest.mark.parametrize("text", ["text", ["text"], "text,more", ["text", "more"]])
def test_a_corpus_is_no_table(text, tmp_path):
    (tmp_path / "t.csv").write_text("text,more,label\nwin,cash,a\nlunch,noon,b\n")
    corpus = read_corpus(tmp_path / "t.csv", text=text, label="label")
    online, features = OnlineSVC(), SpectrumFeatures()
    fits = [SVC(x).fit for x in ("fast", Spectrum(2), Linear(), On("text", Spectrum(2)))]
    for fit in (*fits, online.partial_fit, features.fit, OneClassSVM().fit):
        refuses(r"X is a Corpus; give corpus\.texts, or corpus\.columns", fit, corpus, corpus.labels)
    SVC("fast").fit(corpus.examples, corpus.labels)


def test_frames_of_labels_and_numbers_as_labels():
    labels = pd.DataFrame({"fruit": [1, 1, 1, 0, 0, 0] * 4, "bread": [0, 0, 1, 0, 0, 0] * 4})
    several = MultilabelSVC(Spectrum(2)).fit(TEXTS, labels)
    assert (
        report(several, TEXTS, labels).results.metrics
        == report(several, TEXTS, labels.values).results.metrics
    )
    numbers = np.array([0, 0, 0, 1, 1, 1] * 4)
    unsure = CalibratedSVC(SVC(Spectrum(2)), cv=2, reject=(0.001, 0.999)).fit(TEXTS, numbers)
    right = [a == b for a, b in zip(unsure.predict(TEXTS), numbers, strict=True)]
    assert unsure.score(TEXTS, numbers) == np.mean(right) < 1
    assert unsure.score(TEXTS[:2], pd.Series(numbers[:2]), [1, 3]) == np.average(right[:2], weights=[1, 3])
    plain, other = CalibratedSVC(SVC(Spectrum(2)), cv=2).fit(TEXTS, numbers), numbers ^ (np.arange(24) < 6)
    right, weight = plain.predict(TEXTS) == other, np.arange(24)
    assert plain.score(TEXTS, other, weight) == np.average(right, weights=weight) != right.mean()
    model = SVC(Spectrum(2)).fit(TEXTS, LABELS)
    for frame in (pd.DataFrame({"label": LABELS}), np.array(LABELS)[:, None]):
        assert report(model, TEXTS, frame).results.n == len(TEXTS)
    for frame in (pd.DataFrame(index=range(24)), pd.DataFrame({"a": LABELS, "b": LABELS})):
        refuses(r"there are 24 examples and (0|48) labels", report, model, TEXTS, frame)


@pytest.mark.parametrize("reject", [None, (0.1, 0.9)])
@pytest.mark.filterwarnings("ignore::textsvm.training.leakage.LeakageWarning")
def test_scores_check_labels_and_weights_as_scikit_learn_does(reject):
    numbers = (np.array(LABELS) == LABELS[0]).astype(int)
    model = CalibratedSVC(SVC(Spectrum(2)), reject=reject).fit(TEXTS, numbers)
    assert model.score(TEXTS, numbers.astype(float)) == np.mean(model.predict(TEXTS) == numbers)
    for y, weights in (
        (numbers[:1], None), (numbers[:20], None), (numbers, np.ones(20)), (numbers.astype(str), None),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"inconsistent numbers of samples|Mix of label input types"):
            model.score(TEXTS, y, weights)
    with pytest.raises((ValueError, ZeroDivisionError)):
        model.score(TEXTS, numbers, np.zeros(24))


@pytest.mark.parametrize("estimator", [OnlineSVC(p=2), SpectrumFeatures(p=2), SVC(Spectrum(2))])
def test_columns_of_another_training_are_forgotten(estimator):
    frame, names = pd.DataFrame({"text": TEXTS}), {"n_features_in_", "feature_names_in_"}
    assert names <= set(vars(estimator.fit(frame, LABELS)))
    if isinstance(estimator, OnlineSVC):
        assert names <= set(vars(estimator.partial_fit(OTHERS, TRUTH)))
        refuses("no column 'text'", estimator.predict, pd.DataFrame({"title": OTHERS}))
    assert not names & set(vars(estimator.fit(TEXTS, LABELS)))


def test_helpers_name_the_model_of_a_search_and_of_a_pipeline():
    search = GridSearchCV(SVC(Spectrum(2)), {"C": [1]}, cv=2).fit(TEXTS, LABELS)
    refuses("GridSearchCV; give its best_estimator_", report, search, TEXTS, LABELS)
    pipeline = make_pipeline(FunctionTransformer(), SVC(Spectrum(2))).fit(TEXTS, LABELS)
    refuses("Pipeline; give its last step", explain, pipeline, TEXTS)
    with pytest.raises(InputError, match=r"Pipeline is neither SVC .*; take scikit-learn's GridSearchCV"):
        cross_validate(pipeline, TEXTS, LABELS)
    with pytest.raises(InputError, match=r"CalibratedSVC is neither SVC .*; tune its estimator"):
        tune(CalibratedSVC(), TEXTS, LABELS, {"C": [1]})
    with pytest.raises(InputError, match=r"metric \['accuracy', 'mcc'\] is not one of accuracy"):
        tune(SVC(Spectrum(2)), TEXTS, LABELS, {"C": [1]}, metric=["accuracy", "mcc"])
    with pytest.raises(InputError, match=r"metric \['mcc'\] is not one of accuracy"):
        cross_validate(SVC(Spectrum(2)), TEXTS, LABELS, metrics=["accuracy", ["mcc"]])
    result = cross_validate(SVC(Spectrum(2)), TEXTS, LABELS, cv=2, metrics=["f1_macro", "macro_f1"])
    assert list(result.mean) == ["macro_f1"]
    assert tune(SVC(Spectrum(2)), TEXTS, LABELS, {"C": [1]}, cv=2, metric="f1_macro").metric == "macro_f1"
    refuses(r"' '\.join\(tokens\)", SVC(Spectrum(2)).fit, [text.split() for text in TEXTS], LABELS)


def test_doubts_of_a_table_compare_its_columns():
    table = pd.DataFrame({"a": TEXTS, "b": TEXTS[::-1], "n": range(24)})
    assert len(doubts(None, table, LABELS, cv=2).score) == 24
