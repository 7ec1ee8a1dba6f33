"""Grids on shared Grams: against scikit-learn's GridSearchCV with LIBSVM, and against loops written out."""

import json
import re
import time
import warnings
from itertools import chain, repeat

import numpy as np
import pandas as pd
import pytest
from refusals import refuses
from sklearn import svm
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold
from test_selection import SPLITS, N, classes_of, given, numbers, texts

from textsvm.estimators.calibrated import CalibratedSVC
from textsvm.estimators.svm import SVC, SVR
from textsvm.kernels import EditDistance, GapWeighted, Spectrum
from textsvm.model.settings import Compute
from textsvm.selection.cross_validation import cross_validate
from textsvm.selection.grid import grid_points
from textsvm.selection.search import GridSearch
from textsvm.selection.tuning import tune
from textsvm.sources import texts as texts_source
from textsvm.training.folds import make_folds
from textsvm.training.problems import as_target
from textsvm.training.train import read_training_data
from textsvm.version import __version__

CS = [0.01, 0.3, 3, 30]


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("metric", ["accuracy", "macro_f1"])
def test_scores_are_those_of_grid_search(k, metric):
    matrix, y = classes_of(N, k)
    result = tune(given(multiclass="ovo"), matrix, y, {"C": CS[::-1]}, cv=SPLITS, metric=metric)
    judged = GridSearchCV(
        svm.SVC(kernel="precomputed", tol=1e-6, break_ties=True), {"C": CS[::-1]}, cv=SPLITS,
        scoring={"accuracy": "accuracy", "macro_f1": "f1_macro"}[metric],
    ).fit(matrix.astype(float), y)  # fmt: skip
    for i, row in enumerate(result.table):
        assert row["params"] == judged.cv_results_["params"][i]
        expected = [judged.cv_results_[f"split{fold}_test_score"][i] for fold in range(4)]
        assert row["folds"] == pytest.approx(expected)
        assert row["mean"] == pytest.approx(np.mean(expected))
        assert row["sd"] == pytest.approx(np.std(expected, ddof=1))
    assert result.best_score == pytest.approx(judged.best_score_)
    np.testing.assert_array_equal(result.best_estimator.predict(matrix), judged.predict(matrix))


def test_regression_over_c_and_epsilon():
    matrix, y = numbers(N)
    splits = KFold(4, shuffle=True, random_state=1)
    grid = {"C": [0.1, 1, 10], "epsilon": [0.1, 1.0]}
    model = SVR(kernel="precomputed", tol=1e-6, device="cpu")
    result = tune(model, matrix, y, grid, cv=splits, metric="mae")
    judged = GridSearchCV(
        svm.SVR(kernel="precomputed", tol=1e-6), grid, cv=splits, scoring="neg_mean_absolute_error"
    ).fit(matrix.astype(float), y)
    found = [row["mean"] for row in result.table]
    np.testing.assert_allclose(found, -judged.cv_results_["mean_test_score"], rtol=1e-4)
    assert result.best_params_ == judged.best_params_
    assert result.best_score == min(found)
    assert tune(model, matrix, y, grid, cv=splits).metric == "r2"


@pytest.mark.parametrize("epsilons", [[1e3, 0.1], [0.1, 1e3]])
@pytest.mark.parametrize("metric", ["pearson", "mae"])
def test_a_setting_whose_metric_is_undefined_never_wins(epsilons, metric):
    matrix, y = numbers(N)
    model = SVR(kernel="precomputed", device="cpu")
    result = tune(model, matrix, y, {"epsilon": epsilons}, cv=KFold(4), metric=metric)
    constant = result.table[epsilons.index(1e3)]  # predicts one number for all: no correlation
    assert np.isnan(constant["mean"]) == (metric == "pearson")
    assert result.best_params_ == {"epsilon": 0.1}
    assert result.best_score == result.table[epsilons.index(0.1)]["mean"]


pytestmark = pytest.mark.filterwarnings("ignore::textsvm.training.leakage.LeakageWarning")
KERNELS = [Spectrum(p=2), Spectrum(p=(2, 3)), GapWeighted(p=2), GapWeighted(p=3), EditDistance(gamma=0.1)]


def test_texts_over_kernels_is_a_cross_validation_of_each_and_a_fit_of_the_best():
    documents, y = texts(40, seed=1)
    splits = list(SPLITS.split(documents, y))
    model = SVC(tol=1e-6, device="cpu")
    with warnings.catch_warnings(action="ignore"):
        result = tune(model, documents, y, {"kernel": KERNELS, "C": [0.1, 1]}, cv=splits)
        assert [row["params"]["C"] for row in result.table] == [0.1] * 5 + [1] * 5
        for row in result.table:
            one = SVC(**row["params"], tol=1e-6, device="cpu")
            expected = cross_validate(one, documents, y, cv=splits)
            assert row["folds"] == pytest.approx([fold["accuracy"] for fold in expected.table])
            assert row["metrics"]["macro_f1"] == pytest.approx(expected.mean["macro_f1"])
    fitted = SVC(**result.best_params_, tol=1e-6, device="cpu").fit(documents, y)
    new, _ = texts(20, seed=2)
    np.testing.assert_allclose(
        result.best_estimator.decision_function(new), fitted.decision_function(new), atol=1e-4
    )
    assert not hasattr(model, "classes_")
    assert model.kernel == "auto"


def test_parameters_of_the_kernel_and_forms_of_the_text():
    documents, y = texts(40, seed=1)
    model, kernel = SVC("gap", device="cpu"), GapWeighted()
    grid = [
        {"kernel": [kernel], "kernel__p": [2, 3], "C": [1]},
        {"kernel__decay": [0.3], "max_length": [12, None]},
    ]
    result = tune(model, documents, y, grid, cv=3)
    assert len(result.table) == 4
    for row in result.table:
        p, decay = row["params"].get("kernel__p", GapWeighted().p), row["params"].get("kernel__decay", 0.5)
        one = SVC(GapWeighted(p=p, decay=decay), max_length=row["params"].get("max_length"), device="cpu")
        assert row["mean"] == pytest.approx(cross_validate(one, documents, y, cv=3).mean["accuracy"])
    assert kernel.p == GapWeighted().p


def test_every_gram_is_computed_once_and_every_text_encoded_once(monkeypatch):
    documents, y = texts(40, seed=1)
    columns, encoded = [], []
    rows, encode = EditDistance.rows, texts_source.encode_texts
    monkeypatch.setattr(EditDistance, "rows", lambda *a: columns.append(len(a[1])) or rows(*a))
    monkeypatch.setattr(texts_source, "encode_texts", lambda *a: encoded.append(len(a[0])) or encode(*a))
    grid = {"kernel": [EditDistance(0.1), EditDistance(0.1, relative=True)], "C": [0.1, 1, 10]}
    tune(SVC(device="cpu"), documents, y, grid, cv=3, nested=3)
    assert columns == [40, 40]
    assert encoded == [40]


def test_a_callable_kernel_object_is_one_kernel():
    class Overlap:
        def __init__(self):
            self.calls = 0

        def __call__(self, a, b):
            return np.array([[float(len(set(s) & set(t))) for t in b] for s in a])

    documents, y = texts(40, seed=1)
    result = tune(SVC(Overlap(), device="cpu"), documents, y, {"C": [0.1, 1]}, cv=3)
    assert len({row["seconds"] for row in result.table}) == 1


def test_equal_scores_take_the_smaller_c_and_the_wider_tube():
    matrix = np.kron(np.eye(2), np.ones((20, 20))).astype(np.float32)
    y = np.repeat(["a", "b"], 20)
    result = tune(given(), matrix, y, {"C": [100, 1, 10]}, cv=4)
    assert [row["mean"] for row in result.table] == [1, 1, 1]
    assert result.best_params_ == {"C": 1}
    numbers = np.repeat([1.0, 2.0], 20)
    model = SVR(kernel="precomputed", device="cpu")
    result = tune(model, matrix, numbers, {"C": [100], "epsilon": [0, 0.01, 0.005]}, cv=4, metric="qwk")
    assert result.best_params_["epsilon"] == 0.01


@pytest.mark.parametrize("grouped", [False, True])
def test_nested_is_tuning_inside_each_training_part(grouped):
    matrix, y = classes_of(N, 2)
    groups = np.arange(N) // 2 if grouped else None
    grid = {"C": CS, "class_weight": [None, "balanced"]}
    result = tune(given(), matrix, y, grid, cv=3, nested=4, groups=groups, random_state=7)
    outer = make_folds(4, as_target(given().settings, y, N), groups, random_state=7)
    assert len(result.nested.table) == 4
    for k, (train, test) in enumerate(outer):
        inside = tune(
            given(), matrix[np.ix_(train, train)], y[train], grid, cv=3, random_state=7,
            groups=None if groups is None else groups[train],
        )  # fmt: skip
        assert result.nested.params[k] == inside.best_params_
        expected = inside.best_estimator.predict(matrix[np.ix_(test, train)])
        assert result.nested.table[k]["accuracy"] == pytest.approx(np.mean(expected == y[test]))
    mean = np.mean([row["accuracy"] for row in result.nested.table])
    assert result.nested.mean["accuracy"] == pytest.approx(mean)
    alone = tune(given(), matrix, y, grid, cv=3, groups=groups, random_state=7)
    assert alone.nested is None
    assert [row["mean"] for row in alone.table] == [row["mean"] for row in result.table]
    assert alone.best_params_ == result.best_params_


def test_weights_count_in_training():
    matrix, y = classes_of(N, 2)
    weight = np.random.default_rng(0).uniform(0.1, 4, N)
    result = tune(given(), matrix, y, {"C": [1, 4]}, cv=SPLITS, sample_weight=weight)
    for row in result.table:
        expected = cross_validate(given(**row["params"]), matrix, y, cv=SPLITS, sample_weight=weight)
        assert row["mean"] == pytest.approx(expected.mean["accuracy"])
    fitted = given(**result.best_params_).fit(matrix, y, sample_weight=weight)
    np.testing.assert_allclose(
        result.best_estimator.decision_function(matrix), fitted.decision_function(matrix), atol=1e-4
    )


def test_copies_are_kept_together():
    documents, y = texts(40, seed=1)
    documents, y = documents + [f"{text.upper()} !" for text in documents], np.concatenate([y, y])
    grid = {"kernel__p": [3, 4]}
    for options in ({}, {"group_duplicates": 0.98}):
        result = tune(SVC(device="cpu"), documents, y, grid, cv=3, nested=3, **options)
        assert result.copies == result.as_dict()["copies"] == len(documents) // 2
        for train, test in result.folds:
            assert not set(train % 40) & set(test % 40)
    alone = tune(SVC(device="cpu"), documents[:40], y[:40], grid, cv=3)
    assert alone.copies == 0
    for (_, test), (_, of_alone) in zip(
        tune(SVC(), documents, y, grid, cv=3).folds, alone.folds, strict=True
    ):
        assert sorted(test) == sorted([*of_alone, *(of_alone + 40)])


def test_the_default_is_a_candidate():
    """It is chosen unless another setting is better by a standard error, and named as a parameter of SVC."""
    documents, y = texts(60, seed=3)
    grid = [{"kernel": [Spectrum(1)], "C": [1e-4]}, {"kernel": ["auto"]}]
    result = tune(SVC(device="cpu"), documents, y, grid, cv=3, nested=3)
    assert result.best_params_ == {"kernel": "auto"}
    assert len(result.table) == 2
    folds = [{"accuracy": value} for value in result.table[1]["folds"]]
    assert folds == cross_validate(SVC(device="cpu"), documents, y, cv=3, metrics=["accuracy"]).table
    fitted = SVC(**result.best_params_, device="cpu").fit(documents, y)
    np.testing.assert_array_equal(
        result.best_estimator.decision_function(documents), fitted.decision_function(documents)
    )
    refuses("name other kernels", tune, SVC(), documents, y, {"kernel": ["auto"], "C": [1, 10]}, cv=3)


@pytest.mark.parametrize(
    ("other", "wins"), [([0.9, 0.9, 0.9], True), ([0.8, 0.8, 0.8], False), ([1.0, 0.8, 0.7], False)]
)
def test_the_default_wins_within_a_standard_error(other, wins):
    documents, y = texts(30, seed=3)
    _, target, weight = read_training_data(SVC().settings, documents, y, None)
    points = grid_points(SVC().settings, [{"kernel": ["auto", Spectrum(2)]}])
    search = GridSearch(points, target, weight, None)
    search.tried = {0: [{"accuracy": 0.8}] * 3, 1: [{"accuracy": value} for value in other]}
    assert search.choose(range(3)) == int(wins)


def test_the_tuned_kernel_is_a_parameter():
    documents, y = texts(40, seed=2)
    result = tune(SVC(device="cpu"), documents, y, {"C": [0.1, 10]}, cv=3)
    fitted = SVC(**result.best_params_, device="cpu").fit(documents, y)
    np.testing.assert_allclose(
        result.best_estimator.decision_function(documents), fitted.decision_function(documents), atol=1e-3
    )
    assert fitted.kernel_.structure.key == result.best_model.kernel.structure.key
    of_kernel = tune(SVC(device="cpu"), documents, y, {"kernel__p": [2, 3]}, cv=3)
    again = SVC(device="cpu").set_params(**of_kernel.best_params_)
    assert again.kernel.p == of_kernel.best_model.kernel.p


@pytest.mark.parametrize(("minutes", "tried"), [(1, 3), (0.5, 1)])
def test_minutes_have_60_seconds(minutes, tried, monkeypatch):
    """Here the clock says that 45 s are over at every time after the start."""
    documents, y = texts(40, seed=1)
    times = chain([0.0], repeat(45.0))
    monkeypatch.setattr(time, "perf_counter", lambda: next(times))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = tune(SVC(device="cpu"), documents, y, {"kernel": KERNELS[2:]}, cv=2, minutes=minutes)
    assert (len(found.table), len(found.untried)) == (tried, 3 - tried)
    assert any("minutes are over after 1 of 3 kernels" in str(x.message) for x in said) == (tried == 1)
    assert found.best_estimator.predict(documents[:1])[0] in y
    times = chain([0.0], repeat(45.0))
    with warnings.catch_warnings():  # nothing is left out after the last kernel
        warnings.filterwarnings("error", ".*minutes are over")
        tune(SVC(device="cpu"), documents, y, {"kernel": KERNELS[2:3]}, cv=2, minutes=minutes)


@pytest.mark.parametrize("metric", ["r2", "mae"])
def test_a_notebook_shows_the_best_setting_first(metric):
    documents, y = texts(40, seed=1)
    grid = {"kernel": [Spectrum(1), Spectrum(3)], "C": [0.01, 1]}
    shown = tune(SVR(device="cpu"), documents, (y == y[0]) * 1.0, grid, cv=3, metric=metric)._repr_html_()
    means = [float(mean) for mean in re.findall(r"<tr><td>([-.\de]+)</td>", shown)]
    assert means == sorted(means, reverse=metric == "r2")
    assert len({*means}) == 4


BAD_GRIDS = [
    ({}, {"C": []}, "the grid cannot be used"),
    ({}, {"C": 5}, "the grid cannot be used"),
    ({}, {"C": [1, -1]}, "C=-1 must be"),
    ({}, {"D": [1]}, "'D' cannot be tuned; kernel, C, multiclass"),
    ({}, {"epsilon": [1]}, "'epsilon' cannot be tuned"),
    ({}, {"device": ["cpu"]}, "'device' cannot be tuned"),
    ({}, {"kernel__gamma": [1]}, "the grid cannot be used: Invalid parameter 'gamma'"),
    ({}, {"kernel__p": [0]}, "p=0"),
    ({}, {"kernel__p": [500]}, "shorter than p = 500"),
    ({"metric": "acuracy"}, {"C": [1]}, "metric 'acuracy' is not one of accuracy"),
    ({"nested": 1}, {"C": [1]}, "cv=1 folds are too few"),
    ({"nested": 2, "cv": StratifiedKFold(15)}, {"C": [1]}, "inside an outer fold of nested tuning, Strat"),
    ({"nested": 2, "cv": [(range(30), range(30, 40))]}, {"C": [1]}, "nested tuning splits training parts"),
    ({"minutes": 0}, {"C": [1]}, "minutes=0 must be a number above 0"),
    ({}, {"kernel": ["precomputed", "spectrum"]}, "texts and kernel matrices"),
]


@pytest.mark.parametrize(("options", "grid", "sentence"), BAD_GRIDS)
def test_what_cannot_be_searched_is_refused_before_any_gram(monkeypatch, options, grid, sentence):
    monkeypatch.setattr(Spectrum, "rows", lambda *_: pytest.fail("there was work"))
    documents, y = texts(40)
    refuses(sentence, tune, SVC(device="cpu"), documents, y, grid, **options)


def test_names_of_columns_are_kept_by_what_is_fitted():
    matrix, y = classes_of(N, 2)
    table = pd.DataFrame(matrix, columns=[f"document {i}" for i in range(N)])
    best = tune(given(), table, y, {"C": [1]}, cv=2).best_estimator
    for model in (best, CalibratedSVC(given(), cv=2).fit(table, y)):
        with warnings.catch_warnings(action="error"):
            model.predict(table)
        refuses("feature names", model.predict, table.iloc[:, ::-1])


def test_a_grid_over_kernels_needs_texts():
    matrix, y = classes_of(N, 2)
    refuses("needs texts", tune, given(), matrix, y, {"kernel": [Spectrum(p=2)]})


def grid_of_kernels():
    return {"kernel": [Spectrum(2), Spectrum(3), Spectrum((1, 3), idf=True)], "C": [0.1, 10]}


def searched(X, y, **options):
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        return tune(SVC(device="cpu"), X, y, grid_of_kernels(), cv=3, **options)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"nested": 2}, {"group_duplicates": 0.98}], ids=str)
def test_a_search_that_was_stopped_goes_on_with_equal_results(tmp_path, options, monkeypatch):
    X, y = map(list, texts(24))
    whole, path = searched(X, y, **options), tmp_path / "table"
    searched(X, y, resume=path, **options)
    lines = path.read_text().splitlines(keepends=True)
    assert len(lines) == 7
    for kept in (1, 3, 5, 7):
        path.write_text("".join(lines[:kept]) + ('{"setting": "half a li' if kept < 7 else ""))
        runs = []
        run = GridSearch.run
        monkeypatch.setattr(
            GridSearch, "run", lambda *given, run=run, runs=runs: runs.append(given[1]) or run(*given)
        )
        again = searched(X, y, resume=path, **options)
        monkeypatch.undo()
        assert [row["folds"] for row in again.table] == [row["folds"] for row in whole.table]
        for name in ("best_params", "best_score", "nested", "leaks"):
            assert again.as_dict()[name] == whole.as_dict()[name]
        values = [one.best_estimator.decision_function(X) for one in (again, whole)]
        np.testing.assert_array_equal(*values)
        assert len(runs) <= 3 - (kept - 1) // 2 + 1  # besides those left, the best one once more
        rows = [line for line in path.read_text().splitlines()[1:] if line.endswith("}")]
        assert {json.loads(row)["setting"] for row in rows} == {
            json.loads(row)["setting"] for row in lines[1:]
        }


def test_results_of_another_version_are_computed_again(tmp_path):
    """A table without a version counts as one of another version too."""
    X, y = map(list, texts(24))
    path = tmp_path / "table"
    whole = searched(X, y, resume=path)
    written = path.read_text()
    head, *rows = map(json.loads, written.splitlines())
    assert head["textsvm"] == __version__
    for version in ({"textsvm": "0.1.0"}, {}):
        old = {"textsvm tune": 1, "of": head["of"], **version}
        wrong = [{**row, "folds": [{**fold, "accuracy": 0.0} for fold in row["folds"]]} for row in rows]
        path.write_text("".join(json.dumps(line) + "\n" for line in (old, *wrong)))
        with pytest.warns(UserWarning, match="has results of another version of textsvm than"):
            again = tune(SVC(device="cpu"), X, y, grid_of_kernels(), cv=3, resume=path)
        assert [row["folds"] for row in again.table] == [row["folds"] for row in whole.table]
        assert [json.loads(line)["folds"] for line in path.read_text().splitlines()[1:]] == [
            row["folds"] for row in rows
        ]
        assert path.read_text().startswith(written.splitlines()[0])


def test_a_search_goes_on_with_another_memory(tmp_path):
    X, y = map(list, texts(24))
    path = tmp_path / "table"
    for compute in (None, Compute(memory="1GiB", tier="host")):
        tune(SVC(Spectrum(2), device="cpu", compute=compute), X, y, {"C": [0.1, 10]}, cv=3, resume=path)
    assert len(path.read_text().splitlines()) == 3


def test_two_searches_with_one_table_do_not_mix(tmp_path, monkeypatch):
    X, y = map(list, texts(24))
    path, run = tmp_path / "table", GridSearch.run

    def beside(*given):
        if not path.exists():
            path.write_text('{"textsvm tune": 1, "of": "another"}\n')
        run(*given)

    monkeypatch.setattr(GridSearch, "run", beside)
    refuses("is the table of another search", searched, X, y, resume=path)
    assert path.read_text().count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize("change", ["texts", "labels", "weights", "folds", "metric", "another file"])
def test_the_table_of_another_search_is_refused(tmp_path, change):
    X, y = map(list, texts(24))
    path, options = tmp_path / "table", {}
    searched(X, y, resume=path)
    if change == "texts":
        X[0] += "!"
    elif change == "labels":
        y[0] = next(each for each in y if each != y[0])
    elif change == "another file":
        path.write_text("my own notes\n")
    else:
        weights = {"sample_weight": np.arange(24) % 3 + 1.0}
        options = {"weights": weights, "folds": {"random_state": 5}, "metric": {"metric": "macro_f1"}}[change]
    before = path.read_text()
    refuses("table of another search", searched, X, y, resume=path, **options)
    assert path.read_text() == before


def test_progress_of_the_whole_never_goes_back():
    """The bar of each stage began anew: 32 minutes became 34 seconds."""
    seen = []
    searched(*texts(24), progress=lambda *each: seen.append(each))
    shares = [done / total for stage, done, total in seen if stage == "tune"]
    assert shares == sorted(shares)
    assert len({total for stage, _, total in seen if stage == "tune"}) == 1
    assert shares[0] < 0.2
    assert shares[-1] == pytest.approx(1)
