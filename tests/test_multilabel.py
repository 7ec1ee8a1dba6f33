"""Several labels a document: against scikit-learn's one-vs-rest, thresholds out of fold, files, commands."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from command import fails, report, run, works
from hypothesis import given, settings
from hypothesis import strategies as st
from loading import load, reloaded
from problems import gaussian
from refusals import refuses
from scipy.sparse import csr_matrix, issparse
from sklearn import metrics, svm
from sklearn.base import clone
from sklearn.model_selection import KFold, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import MultiLabelBinarizer
from test_reporting import Page

import textsvm
from benchmarks import multilabel as bench
from benchmarks.corpora import LabelsTask
from textsvm import SVC, InputError, MultilabelSVC, Spectrum, Sum, cross_validate, tune
from textsvm.evaluation import metrics as figures
from textsvm.evaluation.explanation import explain
from textsvm.evaluation.judge import judge
from textsvm.evaluation.results import evaluate, evaluate_labels
from textsvm.readers.corpus import Answers
from textsvm.reporting.files import write
from textsvm.reporting.formatting import classes_table, metric_rows
from textsvm.reporting.report import make_report
from textsvm.training import problems
from textsvm.training.folds import make_folds
from textsvm.training.problems import as_target
from textsvm.training.thresholds import FBR, choose_thresholds

pytestmark = pytest.mark.filterwarnings("ignore::textsvm.training.leakage.LeakageWarning")
WORDS = {"fruit": "banana mango papaya", "pet": "kitten hamster parrot", "day": "monday sunday friday"}


def documents(n=60, seed=0, rare=0):
    """Texts with the words of their one or two labels; the last `rare` have a label of their own too."""
    rng = np.random.default_rng(seed)
    names = sorted(WORDS)
    y = [tuple(sorted(rng.choice(names, rng.integers(1, 3), replace=False).tolist())) for _ in range(n)]
    noise = rng.choice([word for words in WORDS.values() for word in words.split()], (n, 2))
    texts = [
        " ".join([*rng.choice(" ".join(WORDS[one] for one in labels).split(), 6), *more])
        for labels, more in zip(y, noise, strict=True)
    ]
    return texts, y[: n - rare] + [(*labels, "rare") for labels in y[n - rare :]]


def matrix_of(n=80, k=4, seed=0):
    """A Gram, and labels that it tells apart more often than not."""
    matrix, _ = gaussian(n, seed)
    rng = np.random.default_rng(seed)
    place = matrix @ rng.normal(size=(n, k)) / np.sqrt(n) + 0.05 * rng.normal(size=(n, k))
    indicator = (place > np.quantile(place, [0.5, 0.7, 0.8, 0.9][:k], axis=0).diagonal()).astype(int)
    indicator[~indicator.any(axis=1), 0] = 1
    return matrix, indicator


def on_matrix(**options):
    return MultilabelSVC("precomputed", device="cpu", tol=1e-7, **options)


def test_decisions_are_those_of_scikit_learns_one_vs_rest():
    matrix, indicator = matrix_of()
    ours = on_matrix(C=2).fit(matrix, indicator)
    judge = OneVsRestClassifier(svm.SVC(kernel="precomputed", C=2, tol=1e-7))
    judge.fit(matrix.astype(float), indicator)
    np.testing.assert_allclose(
        ours.decision_function(matrix), judge.decision_function(matrix.astype(float)), atol=1e-4
    )
    zero = on_matrix(C=2, thresholds="zero").fit(matrix, indicator)
    np.testing.assert_array_equal(zero.predict(matrix), judge.predict(matrix.astype(float)))
    assert zero.thresholds_.tolist() == [0.0] * 4
    assert (ours.thresholds_ != 0).all()
    assert ours.n_support_.tolist() == [len(one.support_) for one in judge.estimators_]


def test_predictions_are_values_above_thresholds():
    texts, y = documents()
    model = MultilabelSVC(Spectrum(2), device="cpu").fit(texts, y)
    above = model.decision_function(texts) > model.thresholds_
    expected = [tuple(model.classes_[row].tolist()) for row in above]
    assert model.predict(texts) == expected
    right, weight = [set(a) == set(b) for a, b in zip(y, expected, strict=True)], np.arange(len(y))
    assert model.score(texts, y) == np.mean(right)
    assert model.score(texts, y, weight) == pytest.approx(np.average(right, weights=weight)) != np.mean(right)


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(
    labels=st.lists(
        st.lists(st.sampled_from("abcd"), min_size=1, max_size=3, unique=True), min_size=12, max_size=25
    ).filter(lambda y: all(0 < sum(c in one for one in y) < len(y) for c in {c for one in y for c in one}))
)
def test_tuples_and_matrices_give_the_same_model(labels):
    texts = [" ".join(one) * 2 + f" x{i}" for i, one in enumerate(labels)]
    binarizer = MultiLabelBinarizer()
    indicator = binarizer.fit_transform(labels)
    forms = [[tuple(one) for one in labels], [set(one) for one in labels], indicator, csr_matrix(indicator)]
    models = [MultilabelSVC(Spectrum((1, 2)), device="cpu").fit(texts, y) for y in forms]
    assert models[0].classes_.tolist() == binarizer.classes_.tolist()
    assert models[2].classes_.tolist() == list(range(indicator.shape[1]))
    for other in models[1:]:
        np.testing.assert_array_equal(other.dual_coef_, models[0].dual_coef_)
        np.testing.assert_array_equal(other.thresholds_, models[0].thresholds_)
    found = [model.predict(texts) for model in models]
    assert found[0] == found[1]
    np.testing.assert_array_equal(binarizer.transform(found[0]), found[2])
    assert issparse(found[3])
    np.testing.assert_array_equal(found[3].toarray(), found[2])


KERNELS = [
    Spectrum((1, 3), "log"),
    Spectrum((1, 3), "log", idf=True),
    Sum([Spectrum((1, 3), "log", idf=True), Spectrum(1, "log", idf=True, tokens="words")]),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=["log", "idf", "sum"])
def test_thresholds_come_from_values_of_machines_that_never_saw_the_document(kernel):
    texts, y = documents(50)
    model = MultilabelSVC(kernel, device="cpu", tol=1e-7, cv=4).fit(texts, y)
    truth = MultiLabelBinarizer().fit_transform(y).astype(bool)
    values = np.empty(truth.shape)
    for train, test in KFold(4, shuffle=True, random_state=0).split(texts):
        part = MultilabelSVC(kernel, device="cpu", tol=1e-7, thresholds="zero")
        part.fit([texts[i] for i in train], [y[i] for i in train])
        values[test] = part.decision_function([texts[i] for i in test])
    np.testing.assert_allclose(model.thresholds_, choose_thresholds(values, truth), atol=1e-4)


@pytest.mark.parametrize(("place", "share"), [(4, 0.33), (5, 0.29), (8, 0.2)])
def test_a_label_with_a_low_f1_is_only_predicted_above_all_values(place, share):
    """Nine documents with a single one of the label, at a place from the largest value on."""
    values, truth = np.linspace(1.0, -1.0, 9), np.arange(9) == place
    assert max(2 / (number + 2) for number in range(place, 9)) == pytest.approx(share, abs=0.01)
    [threshold] = choose_thresholds(values[:, None], truth[:, None])
    assert int((values > threshold).sum()) == (place + 1 if share > 0.3 else 0)


def test_nested_tuning_takes_thresholds_from_inside_of_the_training_part(monkeypatch):
    matrix, indicator = matrix_of()
    sizes = []
    monkeypatch.setattr(
        problems, "choose_thresholds", lambda d, t: sizes.append(len(d)) or choose_thresholds(d, t)
    )
    found = tune(on_matrix(), matrix, indicator, {"C": [1.0]}, cv=4, nested=2)
    # Four folds of 80; for each of two outer folds four of 40, and the outer one; at last all.
    assert sizes == [60] * 4 + ([30] * 4 + [40]) * 2 + [80]
    assert found.metric == "micro_f1"
    direct = on_matrix(cv=4).fit(matrix, indicator)
    np.testing.assert_array_equal(found.best_estimator.thresholds_, direct.thresholds_)
    np.testing.assert_array_equal(
        found.best_estimator.decision_function(matrix), direct.decision_function(matrix)
    )
    assert found.nested.mean["micro_f1"] > 0.3


@pytest.mark.parametrize("seed", range(5))
def test_a_threshold_has_the_best_f1(seed):
    rng = np.random.default_rng(seed)
    values, truth = rng.integers(0, 6, 9) / 4, rng.random(9) < 0.6
    truth[0] = True
    [found] = choose_thresholds(values[:, None], truth[:, None])  # so few are one part
    every = [*(np.unique(values) - 0.1), values.max()]
    best = max(metrics.f1_score(truth, values > bound, zero_division=0.0) for bound in every)
    assert metrics.f1_score(truth, values > found) == pytest.approx(best)


def test_a_label_of_chance_is_hardly_ever_given_and_nan_is_passed_over():
    values, truth = np.random.default_rng(0).normal(size=(500, 2)), np.zeros((500, 2), bool)
    truth[[3, 50], 0] = True
    truth[values[:, 1] > 1, 1] = True
    values[3, 0] = -3
    values[truth[:, 1].nonzero()[0][:5], 1] = np.nan
    values[50, 0] = np.nan
    found = choose_thresholds(values, truth)
    assert np.isfinite(found).all()
    assert (values[:, 0] > found[0]).sum() <= 1
    assert found[1] == pytest.approx(1, abs=0.05)
    assert choose_thresholds(np.full((20, 1), np.nan), truth[:20, :1]).tolist() == [0.0]
    assert 0 < FBR < 1


def test_a_label_of_one_document_is_left_out_of_its_fold():
    texts, y = documents(60, rare=1)
    model = MultilabelSVC(Spectrum(2), device="cpu").fit(texts, y)
    assert np.isfinite(model.thresholds_).all()
    assert "rare" in model.classes_
    found = cross_validate(model, texts, y, cv=5)
    rare = found.decision[:, model.classes_.tolist().index("rare")]
    assert np.isnan(rare).sum() == 12
    assert np.isnan(rare[-1])
    assert found.pooled["f1[rare]"] == 0
    # It is undefined where no document has the label.
    there = [59 in test for _, test in found.folds]
    assert [not np.isnan(row["f1[rare]"]) for row in found.table] == there
    assert not all(there)
    assert found.pooled["micro_f1"] > 0.8
    assert found.pooled["precision_at_1"] > 0.8
    json.dumps(found.as_dict(), allow_nan=False)


def test_weights_count_and_a_label_without_weight_is_named():
    texts, y = documents(60, rare=2)
    weight = np.ones(60)
    weight[-2:] = 0
    with pytest.raises(InputError, match="learn the label rare from: sample_weight is zero"):
        MultilabelSVC(Spectrum(2), device="cpu").fit(texts, y, sample_weight=weight)
    plain = MultilabelSVC(Spectrum(2), device="cpu", tol=1e-7, thresholds="zero")
    twice = clone(plain).fit(texts + texts[:10], y + y[:10])
    weight[:10], weight[-2:] = 2, 1
    once = clone(plain).fit(texts, y, sample_weight=weight)
    np.testing.assert_allclose(once.decision_function(texts), twice.decision_function(texts), atol=1e-4)


BAD = [
    (np.array([[1, 0, 0], [1, 0, 1], [0, 0, 1]]), r"no document has the label 1; leave that column"),
    (np.zeros((3, 0)), r"no document has a label; give some of them one or more"),
    (np.zeros((3, 2)), r"no document has the label 0; leave that column"),
    (csr_matrix((3, 2)), r"no document has the label 0; leave that column"),
    ([(), (), ()], r"no document has a label; give some of them one or more"),
    ([("a",), ("a", "b"), ("a",)], r"every document has the label a, so there is nothing to tell it from"),
    (np.array([[1, 2], [0, 1], [1, 0]]), r"holds 0 and 1, and 2 is in row 0, column 1"),
    (np.array([[1, 0], [np.nan, 1], [1, 0]]), r"every document has the label 0, or it is unknown, so there"),
    (np.array([["a", "b"], ["a", "c"], ["b", "c"]]), r"of type <U1; labels by name"),
    (["a", "b", "c"], r"the labels of document 0 are 'a' and no tuple"),
    ([("a",), ("b", None), ("c",)], r"a label of document 1 is missing"),
    ([("a",), ("b", 1), ("c",)], r"labels of different types"),
    ([("a",), ("b",)], r"there are 3 documents and labels of 2"),
    ([[1, 0], [0, 1], [1, 1]], r"may be labels or the rows of an indicator matrix"),
    (None, r"the target y is None"),
    (5, r"a tuple, list or set per document, or an indicator matrix, got an object of type int"),
    (np.zeros((3, 2, 2)), r"object of type ndarray of shape \(3, 2, 2\)"),
    ([("a",), ({"x": 1},), ("b",)], r"labels of different types"),
]


@pytest.mark.parametrize(("y", "message"), BAD, ids=[message[:30] for _, message in BAD])
def test_bad_labels_are_one_sentence(y, message):
    refuses(message, MultilabelSVC(Spectrum(2), device="cpu", cv=2).fit, ["banana", "kitten", "monday"], y)


@pytest.mark.parametrize("options", [{"thresholds": "best"}, {"thresholds": 0}, {"C": 0}])
def test_bad_parameters_are_named(options):
    refuses(f"{next(iter(options))}=", MultilabelSVC(Spectrum(2), **options).fit, *documents(10))


@pytest.mark.parametrize("y", [[("a",), ("b", "c"), ("a",)], [{"a"}, {"b"}, {"c"}], [["a", "b"], ["c"], []]])
def test_an_svc_says_what_takes_several_labels(y):
    refuses(r"MultilabelSVC \(--multilabel\) takes several", SVC().fit, ["banana", "kitten", "monday"], y)
    refuses("MultilabelSVC takes several", SVC().fit, ["banana", "kitten", "monday"], np.eye(3))


def test_metrics_are_scikit_learns():
    rng = np.random.default_rng(0)
    truth, said, values = rng.random((40, 5)) < 0.3, rng.random((40, 5)) < 0.3, rng.normal(size=(40, 5))
    found = figures.scores(truth, said, values, np.arange(5))
    assert found["micro_f1"] == pytest.approx(metrics.f1_score(truth, said, average="micro"))
    assert found["macro_f1"] == pytest.approx(metrics.f1_score(truth, said, average="macro"))
    assert found["subset_accuracy"] == pytest.approx((truth == said).all(axis=1).mean())
    assert found["hamming_loss"] == pytest.approx((truth != said).mean())
    for k in (1, 3, 5):
        share = [truth[i, np.argsort(-values[i])[:k]].mean() for i in range(40)]
        assert found[f"precision_at_{k}"] == pytest.approx(np.mean(share))
    drawn = figures.label_metrics(np.ones((2, 40)), truth, said, values, range(5))
    assert drawn.keys() == found.keys()
    for name, value in found.items():
        np.testing.assert_allclose(drawn[name], value)
    weight = rng.multinomial(40, np.full(40, 1 / 40), 1).astype(float)
    again = np.repeat(np.arange(40), weight[0].astype(int))
    some = figures.scores(truth[again], said[again], values[again], np.arange(5))
    drawn = figures.label_metrics(weight, truth, said, values, range(5))
    for name, value in some.items():
        assert drawn[name][0] == pytest.approx(value), name


@pytest.mark.parametrize("form", ["tuples", "indicator", "sparse"])
def test_a_loaded_model_gives_labels_in_their_form(form, tmp_path):
    texts, y = documents()
    indicator = MultiLabelBinarizer().fit_transform(y)
    given = {"tuples": y, "indicator": indicator, "sparse": csr_matrix(indicator)}[form]
    model = MultilabelSVC(Spectrum((1, 3), "log", idf=True), C=3, device="cpu").fit(texts, given)
    again = reloaded(model, tmp_path / "m.textsvm")
    np.testing.assert_array_equal(again.thresholds_, model.thresholds_)
    assert type(again.predict(texts)) is type(model.predict(texts))
    assert (again.label_form_, again.thresholds) == (form, "cv")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("thresholds", np.zeros(2), "thresholds do not fit"),
        ("thresholds", np.array([0, np.nan, 0]), "thresholds has values that are not finite"),
        ("thresholds", np.zeros(3, np.float32), "thresholds has values that are not finite 64-bit"),
        ("thresholds", None, "thresholds"),
        ("label_form", "words", "known form"),
        ("classes", ["a", "b"], "thresholds do not fit its labels"),
    ],
)
def test_a_damaged_model_is_refused(name, value, message, tmp_path):
    from textsvm.model.file import packed, read_content

    texts, y = documents(30)
    path = tmp_path / "m.textsvm"
    textsvm.save(MultilabelSVC(Spectrum(2), device="cpu").fit(texts, y), path)
    header, arrays, *_ = read_content(path)
    into = header if name in header else arrays
    into[name] = value
    arrays = {key: array for key, array in arrays.items() if array is not None}
    path.write_bytes(b"".join(packed(header, arrays)))
    refuses(message, load, path)


def test_scikit_learns_tools_take_it():
    matrix, indicator = matrix_of()
    model = on_matrix()
    assert clone(model).get_params() == model.get_params()
    assert cross_val_score(model, matrix, indicator, scoring="f1_micro", cv=3).mean() > 0.3
    assert model.__sklearn_tags__().classifier_tags.multi_label


def test_explanations_add_up_to_the_largest_value():
    texts, y = documents()
    model = MultilabelSVC(Spectrum((1, 2)), device="cpu").fit(texts, y)
    values, said = model.decision_function(texts[:5]), model.predict(texts[:5])
    for each, value, labels in zip(explain(model, texts[:5]), values, said, strict=True):
        assert each.towards == model.classes_[value.argmax()]
        assert each.prediction == labels
        assert each.symbols.sum() + each.bias == pytest.approx(value.max(), abs=1e-5)


def test_labels_that_the_model_does_not_know_are_told():
    texts, y = documents()
    model = MultilabelSVC(Spectrum(2), device="cpu").fit(texts, y)
    results = judge(model, texts, [(*y[0], "new"), *y[1:]])
    assert "1 of the documents' labels" in results.warnings[0]
    assert results.metrics == judge(model, texts, y).metrics
    with pytest.raises(
        InputError, match="the model knows the labels day, fruit, pet, and the documents have"
    ):
        judge(model, texts[:2], [("new",), ("other",)])


def test_folds_are_shuffled_and_not_stratified():
    matrix, indicator = matrix_of()
    target = as_target(on_matrix().settings, indicator, 80)
    for (train, test), (a, b) in zip(
        make_folds(4, target, random_state=5),
        KFold(4, shuffle=True, random_state=5).split(matrix),
        strict=True,
    ):
        np.testing.assert_array_equal(train, a)
        np.testing.assert_array_equal(test, b)


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """The same documents as JSON Lines and as two CSVs."""
    folder = tmp_path_factory.mktemp("tables")
    texts, y = documents(60)
    with open(folder / "a.jsonl", "w") as stream:
        for text, labels in zip(texts, y, strict=True):
            stream.write(json.dumps({"text": text, "labels": labels}) + "\n")
    for name, separator in (("a.csv", "; "), ("b.csv", "|")):
        rows = (f'"{text}","{separator.join(labels)}"' for text, labels in zip(texts, y, strict=True))
        (folder / name).write_text("text,label\n" + "\n".join(rows) + "\n")
    return folder


@pytest.mark.parametrize("suffix", ["html", "md", "json"])
def test_reports_show_every_label(suffix, tables, tmp_path):
    texts, y = documents(60)
    model = MultilabelSVC(Spectrum(2), device="cpu", thresholds="zero").fit(texts[:20], y[:20])
    results = judge(model, texts, y)
    assert (results.predicted != results.truth).any()
    made = make_report(model.model_, results, texts, [f"id {i}" for i in range(60)], mistakes=2)
    path = tmp_path / f"r.{suffix}"
    write(made, path)
    page = path.read_text("utf-8")
    if suffix == "json":
        told = json.loads(page)
        assert {"micro_f1", "macro_f1", "hamming_loss"} <= told["intervals"].keys()
        assert {row["label"] for row in told["per_class"]} == set(WORDS)
        low, high = told["intervals"]["micro_f1"]
        assert low < told["micro_f1"] < high
        return
    assert all(name in page for name in (*WORDS, "micro F1", "macro F1", "threshold", "break-even point"))
    if suffix == "html":
        Page(page)  # every tag is closed
    worst = made.mistakes[0]
    assert re.search(f"is {worst.truth}, predicted {worst.predicted}", page.replace("\\", ""))


@pytest.mark.parametrize("name", ["b.jsonl", "c.csv"])
def test_documents_without_a_label_are_counted_in_a_note(name, tmp_path):
    texts = [f"{('banana', 'kitten', 'monday')[i % 3]} {i}" for i in range(30)]
    pairs = list(zip(texts, [[], ["a"], ["a", "b"]] * 10, strict=True))
    rows = [json.dumps({"text": text, "labels": of_text}) for text, of_text in pairs]
    (tmp_path / "b.jsonl").write_text("\n".join(rows))
    rows = [f"{text},{';'.join(of_text)}" for text, of_text in pairs]
    (tmp_path / "c.csv").write_text("\n".join(["text,label", *rows]))
    made = works("train", tmp_path / name, "--multilabel", "-o", tmp_path / "m")
    assert b"note: 10 of 30 documents have no label: the answer is no for each\n" in made.stderr
    assert load(tmp_path / "m").predict(["banana 0", "kitten 1", "monday 2"]) == [(), ("a",), ("a", "b")]


@pytest.mark.slow
def test_the_benchmark_chooses_on_the_training_part():
    texts, y = documents(60)
    indicator = MultiLabelBinarizer().fit_transform(y).astype(bool)
    names = np.array(sorted(WORDS))
    tasks = [
        LabelsTask(texts[:40], indicator[:40], texts[40:], truth, names)
        for truth in (indicator[40:], indicator[40:][::-1])
    ]
    rows = [bench.ours(task, Spectrum(2), "cpu", [1.0, 4.0]) for task in tasks]
    assert rows[0]["classifier"] == rows[1]["classifier"]
    assert rows[0]["micro-F1 in folds"] == rows[1]["micro-F1 in folds"]
    assert rows[0]["micro-F1"] != rows[1]["micro-F1"]
    assert float(bench.baseline(tasks[0])["micro-F1"]) > 50


def test_without_a_kernel_the_fixed_default_is_used(tables, tmp_path):
    texts, y = documents(40)
    model = MultilabelSVC(device="cpu", cv=2).fit(texts, y)
    assert model.kernel_.get_params() == Spectrum((1, 5), "log", idf=True).get_params()
    trained = works("train", tables / "a.jsonl", "--multilabel", "-o", tmp_path / "m.textsvm", "--json")
    assert json.loads(trained.stdout)["kernel_spelled"] == "spectrum:1-5,log,idf"


# Unknown labels


def partly(indicator, seed=0, share=0.4):
    """The indicator with a share of unknown labels."""
    return np.where(np.random.default_rng(seed).random(indicator.shape) < share, np.nan, indicator)


def answers_of(values, names):
    """The rows of a matrix with unknown labels as a reader gives them."""
    return [
        Answers([names[a] for a in np.flatnonzero(row == 1)], [names[a] for a in np.flatnonzero(row == 0)])
        for row in values
    ]


@pytest.mark.parametrize("kernel", ["precomputed", "features"])
def test_each_label_learns_from_documents_where_it_is_known(kernel):
    if kernel == "precomputed":
        matrix, indicator = matrix_of()
        examples, make = matrix, on_matrix
    else:
        texts, y = documents()
        indicator, examples = MultiLabelBinarizer().fit_transform(y), texts
        make = lambda **options: MultilabelSVC(Spectrum(3), device="cpu", tol=1e-7, **options)  # noqa: E731
        matrix = Spectrum(3)(texts, texts)
    values = partly(indicator)
    model = make(C=2, thresholds="zero").fit(examples, values)
    decision = model.decision_function(examples)
    for a, column in enumerate(values.T):
        asked = np.flatnonzero(~np.isnan(column))
        judge = svm.SVC(kernel="precomputed", C=2, tol=1e-7).fit(matrix[np.ix_(asked, asked)], column[asked])
        np.testing.assert_allclose(decision[:, a], judge.decision_function(matrix[:, asked]), atol=1e-4)
    np.testing.assert_array_equal(make(C=2, thresholds="zero").fit(examples, csr_matrix(values)).dual_coef_,
                                  model.dual_coef_)  # fmt: skip
    right = (model.predict(examples) == values) | np.isnan(values)
    assert (
        model.score(examples, values)
        == right.all(axis=1).mean()
        > np.all(right & ~np.isnan(values), 1).mean()
    )
    named = make(C=2, thresholds="zero").fit(examples, answers_of(values, "abcd"))
    np.testing.assert_array_equal(named.dual_coef_, model.dual_coef_)
    assert named.score(examples, answers_of(values, "abcd")) == model.score(examples, values)


def test_thresholds_see_only_values_of_documents_where_the_label_is_known():
    matrix, indicator = matrix_of(120)
    values, model = partly(indicator), on_matrix(cv=4)
    model.fit(matrix, values)
    folds = make_folds(4, as_target(model.settings, values, len(values)), random_state=0)
    decision = np.empty(values.shape)
    for train, test in folds:
        part = on_matrix(thresholds="zero").fit(matrix[np.ix_(train, train)], values[train])
        decision[test] = part.decision_function(matrix[np.ix_(test, train)])
    flipped = np.where(np.isnan(values), 1 - indicator, values)  # the opposite where the label is unknown
    np.testing.assert_allclose(model.thresholds_, choose_thresholds(decision, values), atol=1e-3)
    assert not np.allclose(model.thresholds_, choose_thresholds(decision, flipped), atol=1e-3)


def test_unknown_labels_count_in_no_metric():
    rng = np.random.default_rng(0)
    truth, said, values = rng.random((60, 4)) < 0.3, rng.random((60, 4)) < 0.3, rng.normal(size=(60, 4))
    truth[:, 3] = False  # no document has this label
    partial = partly(truth, seed=1, share=0.5)
    partial[:3] = np.nan  # nothing is known of these
    asked = ~np.isnan(partial)
    results = evaluate_labels(partial, said, values, np.arange(4), np.zeros(4)).with_intervals(50)
    found, table = results.metrics, results.per_class
    assert found["micro_f1"] == pytest.approx(metrics.f1_score(truth[asked], said[asked]))
    columns = [(truth[asked[:, a], a], said[asked[:, a], a], values[asked[:, a], a]) for a in range(4)]
    scores = [metrics.f1_score(*column[:2]) for column in columns[:3]]
    assert found["macro_f1"] == pytest.approx(np.mean(scores))
    assert found["hamming_loss"] == pytest.approx((truth != said)[asked].mean())
    right = ((truth == said) | ~asked).all(axis=1)[asked.any(axis=1)]
    assert found["subset_accuracy"] == pytest.approx(right.mean())
    assert results.intervals["subset_accuracy"][0] < right.mean() < results.intervals["subset_accuracy"][1]
    areas = [metrics.average_precision_score(yes, value) for yes, _, value in columns[:3]]
    np.testing.assert_allclose([row["average_precision"] for row in table[:3]], areas)
    assert [row["f1"] for row in table[:3]] == pytest.approx(scores)
    assert [row["support"] for row in table] == [int(yes.sum()) for yes, *_ in columns]
    assert [row["predicted"] for row in table] == [int(guess.sum()) for _, guess, _ in columns]
    assert np.isnan([table[3][name] for name in ("precision", "recall", "f1", "average_precision")]).all()
    assert np.isnan([found["f1[3]"], found["precision_at_1"]]).all()
    assert metric_rows(results)
    assert classes_table(results)[1][3][1:4] == ["-", "-", "-"]


def test_cross_validation_judges_on_known_labels():
    matrix, indicator = matrix_of(160)
    values = partly(indicator)
    found = cross_validate(on_matrix(C=2), matrix, values, cv=4)
    asked = ~np.isnan(values)
    expected = metrics.f1_score(values[asked], found.predictions[asked])
    assert found.pooled["micro_f1"] == pytest.approx(expected)
    tuned = tune(on_matrix(), matrix, values, {"C": [2]}, cv=4)
    assert tuned.best_score == pytest.approx(found.mean["micro_f1"])


def exports(folder, values, texts):
    """Files with the same unknown labels: columns, spaCy's cats, and Prodigy's answers; options of each."""
    names = ["fruit", "pet", "day"]
    cells = [["" if np.isnan(value) else str(int(value)) for value in row] for row in values]
    rows = [",".join([text, *row]) for text, row in zip(texts, cells, strict=True)]
    (folder / "columns.csv").write_text("\n".join([",".join(["text", *names]), *rows]))
    cats = [
        {name: float(value) for name, value in zip(names, row, strict=True) if not np.isnan(value)}
        for row in values
    ]
    lines = [json.dumps({"text": text, "cats": row}) for text, row in zip(texts, cats, strict=True)]
    (folder / "cats.jsonl").write_text("\n".join(lines))
    words = {1.0: "accept", 0.0: "reject"}
    lines = [
        json.dumps({"text": text, "label": name, "answer": words.get(value, "ignore")})
        for text, row in zip(texts, values, strict=True) for name, value in zip(names, row, strict=True)
    ]  # fmt: skip
    (folder / "prodigy.jsonl").write_text("\n".join(lines))
    return {"columns.csv": ["--label", ",".join(names)], "cats.jsonl": [], "prodigy.jsonl": []}


def test_commands_learn_from_known_labels_of_every_export(tmp_path):
    texts, y = documents(90)
    texts = [f"{text} number{i}" for i, text in enumerate(texts)]
    names = ["fruit", "pet", "day"]
    values = partly(np.array([[name in labels for name in names] for labels in y], float))
    values[[0, 1], 0] = 1, 0
    rows = ~np.isnan(values).all(axis=1)
    figures_of = []
    for name, options in exports(tmp_path, values, texts).items():
        options = [*options, "--multilabel"]
        told = json.loads(run("cv", tmp_path / name, *options, "--kernel", "spectrum:3", "--json").stdout)
        figures_of.append((told["n"], told["pooled"]))
        model = tmp_path / f"{name}.textsvm"
        run("train", tmp_path / name, *options, "--kernel", "spectrum:3", "-o", model)
        judged = json.loads(run("evaluate", model, tmp_path / name, "--json").stdout)
        assert judged["n"] == rows.sum()
        assert judged["micro_f1"] > 0.9
        assert {row["label"]: row["support"] for row in judged["per_class"]} == dict(
            zip(names, np.nansum(values, axis=0).tolist(), strict=True)
        )
    np.testing.assert_equal(figures_of[1:], figures_of[:-1])
    model = MultilabelSVC(Spectrum(3), device="cpu").fit(
        [x for x, r in zip(texts, rows, strict=True) if r], values[rows]
    )
    again = cross_validate(model, [x for x, r in zip(texts, rows, strict=True) if r], values[rows])
    assert again.pooled["micro_f1"] == pytest.approx(figures_of[0][1]["micro_f1"])


# Hierarchies of labels


def at_level(label, level):
    return tuple(label.split(" > ")[:level])


@pytest.mark.parametrize("several", [False, True])
def test_levels_of_a_hierarchy_are_judged_as_labels_of_their_own(several):
    rng = np.random.default_rng(0)
    names = np.array(["a > x", "a > y > 1", "a > y > 2", "b > x", "b > z"])
    if several:
        truth, said = (rng.random((60, 5)) < 0.3 for _ in range(2))
        known = partly(truth, seed=2)
        results = evaluate_labels(known, said, rng.normal(size=(60, 5)), names, np.zeros(5))
    else:
        truth, said = (rng.choice(names, 60) for _ in range(2))
        results = evaluate(truth, said, rng.normal(size=(60, 5)), names)
    assert [row["level"] for row in results.levels] == [1, 2, 3]
    for row in results.levels:
        if not several:
            ours = [[" > ".join(at_level(name, row["level"])) for name in side] for side in (truth, said)]
            assert row["classes"] == len(set(ours[0]))
            assert row["accuracy"] == pytest.approx(metrics.accuracy_score(*ours))
            assert row["macro_f1"] == pytest.approx(metrics.f1_score(*ours, average="macro"))
            continue
        pairs = []
        for group in sorted({at_level(name, row["level"]) for name in names}):
            below = [a for a, name in enumerate(names) if at_level(name, row["level"]) == group]
            for i in range(60):
                values = known[i, below]
                if 1 in values or not np.isnan(values).any():  # else it is unknown
                    pairs.append((group, 1 in values, (said[i, below] & ~np.isnan(values)).any()))
        _, yes, guess = zip(*pairs, strict=True)
        assert row["micro_f1"] == pytest.approx(metrics.f1_score(yes, guess))
    assert results.as_dict()["levels"] == results.levels
    names[0] = "a"
    flat = evaluate(truth, said, np.zeros((60, 5)), np.unique(truth)) if not several else results
    assert not replace(flat, labels=["a", "b > x"]).levels
    assert not replace(flat, labels=["a >", "b > x"]).levels


def test_commands_show_the_levels(tmp_path):
    words = {
        "Hardware > Printer": "toner paper",
        "Hardware > Screen": "picture cable",
        "Mail > Send": "outbox",
    }
    rng, rows = np.random.default_rng(0), ["text,label"]
    for i in range(60):
        label = sorted(words)[i % 3]
        rows.append(f"{' '.join(rng.choice([*words[label].split(), 'please', 'help', 'it'], 6))},{label}")
    (tmp_path / "t.csv").write_text("\n".join(rows))
    told = report("cv", tmp_path / "t.csv", "--kernel", "spectrum:3")
    assert [row["level"] for row in told["levels"]] == [1, 2]
    assert told["levels"][1]["accuracy"] == told["pooled"]["accuracy"] <= told["levels"][0]["accuracy"]
    assert b"levels of the labels" in run("cv", tmp_path / "t.csv", "--kernel", "spectrum:3").stdout
    run("train", tmp_path / "t.csv", "--kernel", "spectrum:3", "-o", tmp_path / "m")
    assert b"levels of the labels" in run("evaluate", tmp_path / "m", tmp_path / "t.csv").stdout
    (tmp_path / "t.csv").write_text("\n".join(rows).replace("Mail > Send", "Mail"))
    assert "levels" not in report("cv", tmp_path / "t.csv", "--kernel", "spectrum:3")


@pytest.mark.parametrize("separator", [";", ", ", "|"])
def test_texts_and_labels_in_two_files_are_read_line_by_line(separator, tmp_path):
    texts, y = documents(60)
    (tmp_path / "x.txt").write_text("\n".join(texts) + "\n")
    (tmp_path / "y.txt").write_text("\n".join(map(separator.join, y)) + "\n")
    rows = [f"{text}\t{';'.join(labels)}" for text, labels in zip(texts, y, strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(["text\tlabel", *rows]))
    options = ["--kernel", "spectrum:3", "--multilabel"]
    of_files = (tmp_path / "x.txt", "--labels", tmp_path / "y.txt", "--format", "plain")
    parallel = report("cv", *of_files, *options)
    assert parallel["pooled"] == report("cv", tmp_path / "t.csv", "--format", "tsv", *options)["pooled"]
    model = tmp_path / "m"
    assert b"60 documents of 3 classes" in run("train", *of_files, *options, "-o", model).stderr
    assert report("model", model)["info"]["label_separator"] == separator.strip()
    message = fails("train", tmp_path / "x.txt")
    assert "--format plain --labels FILE" in message
    (tmp_path / "y.txt").write_text("\n".join(map(separator.join, y[1:])))
    message = fails("train", tmp_path / "x.txt", "--labels", tmp_path / "y.txt", "--format", "plain")
    assert "59 labels" in message
    described = report("corpus", tmp_path / "t.csv", "--format", "tsv", "--multilabel")
    assert described["labels"].keys() == WORDS.keys()
    assert described["labels"]["day"] == sum("day" in labels for labels in y)
