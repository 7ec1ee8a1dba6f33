"""Kernels on columns of a table: texts and numbers together, wherever a model goes."""

import pickle
import re

import numpy as np
import pytest
from loading import change, load, reloaded
from refusals import refuses
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.metrics.pairwise import linear_kernel, rbf_kernel
from sklearn.model_selection import GridSearchCV

from textsvm import (
    SVC,
    SVR,
    CalibratedSVC,
    Compute,
    EditDistance,
    GapWeighted,
    Gaussian,
    InputError,
    Linear,
    MultilabelSVC,
    On,
    OneClassSVM,
    Product,
    Spectrum,
    Sum,
    cross_validate,
    save,
    tune,
)
from textsvm.evaluation.explanation import explain
from textsvm.evaluation.judge import data_warnings
from textsvm.gram.build import grams
from textsvm.kernels.combined.on import Standard
from textsvm.kernels.combined.table import Numbers
from textsvm.kernels.resolve import as_kernel
from textsvm.kernels.spelling import parse, spell
from textsvm.runtime.device import select
from textsvm.training.leakage import held_out_leak
from textsvm.training.train import prepare

CPU = select("cpu")
N = 24
SUBJECTS = ["Cheap pills", "Lunch?", "win a prize now", "agenda for monday", "WATCHES, cheap", "the report"]
BODIES = [
    "buy them now, now",
    "see you at noon",
    "click and win it",
    "the meeting is at ten",
    "buy, buy!",
    "read",
]
RANDOM = np.random.default_rng(0)
TABLE = {
    "subject": [f"{SUBJECTS[i % 6]} {i % 5}" for i in range(N)],
    "body": [f"{BODIES[(i + i // 7) % 6]} {i}" for i in range(N)],
    "hour": RANDOM.integers(0, 24, N).tolist(),
    "size": (1000 * RANDOM.random(N)).tolist(),
    "known": [bool(i % 3) for i in range(N)],
    "vector": RANDOM.normal(size=(N, 3)).tolist(),
    "ignored": [None] * N,
}
LABELS = ["spam" if i % 2 == 0 else "ham" for i in range(N)]
SUBJECT, BODY = On("subject", Spectrum((1, 3), "log", idf=True)), On("body", Spectrum(2))
TEXTS = Sum([SUBJECT, BODY, On("subject", Spectrum(1, tokens="words", keep_case=True))], [2, 1, 1])
BOTH = Sum([SUBJECT, BODY, On(["hour", "size", "known"], Gaussian()), On("vector", Linear())], [3, 3, 2, 1])
pytestmark = pytest.mark.filterwarnings("ignore:.*near-duplicate")


def rows(indices, table=TABLE):
    return {name: [column[i] for i in indices] for name, column in table.items()}


def svc(kernel=BOTH, **params):
    return SVC(kernel, device="cpu", **params)


def gram_of(kernel, table=TABLE):
    return prepare(svc(kernel).settings, table).gram.rows(np.arange(len(table["body"])))


def standardised(*names):
    numbers = np.array([TABLE[name] for name in names], float).T
    return (numbers - numbers.mean(axis=0)) / numbers.std(axis=0)


def test_values_are_the_sum_of_what_each_part_says():
    texts = [
        prepare(svc(part.kernel).settings, TABLE[part.column]).gram.rows(np.arange(N))
        for part in (SUBJECT, BODY)
    ]
    numbers = rbf_kernel(standardised("hour", "size", "known"), gamma=1 / 3)
    vectors = linear_kernel(np.array(TABLE["vector"]))
    expected = (3 * texts[0] + 3 * texts[1] + 2 * numbers + vectors) / 9
    np.testing.assert_allclose(gram_of(BOTH), expected, rtol=1e-5, atol=1e-6)
    both = gram_of(Product([SUBJECT, On(("hour", "size", "known"), Gaussian())]))
    np.testing.assert_allclose(both, texts[0] * numbers, rtol=1e-5, atol=1e-6)


def test_a_sum_on_a_column_is_a_sum_on_it_of_each_part():
    inner = Sum([Spectrum(2), Product([Spectrum(1, tokens="words"), EditDistance()])], [3, 1])
    spread = as_kernel(Sum([On("body", inner), On("hour", Sum([Gaussian(), Linear()]))]))
    columns = [leaf.structure.view.column for leaf in spread.structure.leaves]
    assert columns == ["body"] * 3 + [("hour",)] * 2
    assert [leaf.structure.as_dict()["name"] for leaf in spread.structure.leaves] == ["on"] * 5
    np.testing.assert_array_equal(gram_of(On("body", inner)), gram_of(as_kernel(On("body", inner))))
    expected = prepare(svc(inner).settings, TABLE["body"]).gram.rows(np.arange(N))
    np.testing.assert_array_equal(gram_of(On("body", inner)), expected)


def test_a_kernel_of_texts_is_itself_on_a_column():
    kernel = as_kernel(On("body", GapWeighted(3)))
    assert type(kernel) is GapWeighted
    assert repr(kernel) == repr(clone(kernel)) == "On(column='body', kernel=GapWeighted(p=3))"
    assert spell(kernel) == "body=gap:3"
    assert kernel.cost.in_shards
    assert not as_kernel(On("body", Sum([GapWeighted(3), GapWeighted(2)]))).cost.in_shards


def test_the_kernel_that_was_given_stays_as_it_is():
    given = On("body", Sum([Spectrum(2), Spectrum(3)]))
    model = svc(given).fit(TABLE, LABELS)
    assert model.kernel is given
    assert not hasattr(given, "standard_")
    assert type(model.kernel_) is Sum


def kind(library, make):
    return lambda table: make(pytest.importorskip(library), table)


def nullable_frame(pandas, table):
    types = {"subject": "category", "hour": "Int64", "known": "boolean", "size": "Float64"}
    return pandas.DataFrame(table).astype(types).set_index(np.arange(N)[::-1])


def list_of_rows(table):
    return [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]


TABLES = {
    "pandas": kind("pandas", lambda pandas, table: pandas.DataFrame(table)),
    "polars": kind("polars", lambda polars, table: polars.DataFrame(table)),
    "arrow": kind("pyarrow", lambda pyarrow, table: pyarrow.table(table)),
    "rows": list_of_rows,
    "dict": dict,
}
OTHERS = {
    "nullable": kind("pandas", nullable_frame),
    "arrays": lambda table: table | {name: np.array(table[name]) for name in ("vector", "hour")},
    "compressed": lambda table: table | {"vector": csr_array(np.array(table["vector"]))},
}


def pandas_frame():
    return TABLES["pandas"](TABLE)


@pytest.mark.parametrize("kind", TABLES | OTHERS)
def test_every_kind_of_table_is_read(kind):
    model = svc().fit(TABLE, LABELS)
    expected = model.decision_function(TABLE)
    table = (TABLES | OTHERS)[kind](TABLE)
    np.testing.assert_allclose(svc().fit(table, LABELS).decision_function(table), expected, atol=1e-5)
    np.testing.assert_allclose(model.decision_function(table), expected, atol=1e-5)


def test_columns_stand_in_any_order_and_others_are_ignored():
    frame = pandas_frame()
    model = svc().fit(frame, LABELS)
    expected = model.decision_function(frame)
    np.testing.assert_array_equal(model.decision_function(frame[frame.columns[::-1]]), expected)
    without = frame.drop(columns="ignored").assign(more=frame.hour)
    np.testing.assert_array_equal(model.decision_function(without), expected)


def test_a_constant_column_says_nothing():
    table = TABLE | {"same": [0.1] * N}
    with_it = gram_of(On(["hour", "same"], Gaussian(0.5)), table)
    np.testing.assert_array_equal(with_it, gram_of(On("hour", Gaussian(0.5)), table))


def test_a_column_that_is_constant_up_to_rounding_is_not_scaled():
    constant = np.full(N, 0.1)
    assert 0 < constant.std() < 1e-15
    standard = Standard.of(Numbers(np.stack([constant, TABLE["hour"]], axis=1), (1, 1)))
    assert standard.scale[0] == 1
    assert standard.scale[1] == pytest.approx(np.std(TABLE["hour"]))
    kernel = On(["hour", "same"], Gaussian(0.5))(
        TABLE | {"same": [0.1 + 1e-6] * N}, TABLE | {"same": constant}
    )
    np.testing.assert_allclose(kernel, On("hour", Gaussian(0.5))(TABLE, TABLE), atol=1e-5)


def test_numbers_have_no_unit_and_vectors_keep_theirs():
    table = TABLE | {"hour": [60 * hour - 7 for hour in TABLE["hour"]]}
    kernel = On("hour", Gaussian())
    np.testing.assert_allclose(gram_of(kernel, table), gram_of(kernel), rtol=1e-5)
    doubled = TABLE | {"vector": (2 * np.array(TABLE["vector"])).tolist()}
    np.testing.assert_allclose(
        gram_of(On("vector", Linear()), doubled), 4 * gram_of(On("vector", Linear())), rtol=1e-5
    )


def test_compressed_rows_stay_as_they_are():
    one = csr_array(np.array(TABLE["hour"], float)[:, None])
    found = gram_of(On("hour", Linear()), TABLE | {"hour": one})
    np.testing.assert_allclose(found, (one @ one.T).toarray(), rtol=1e-6)


FAR = TABLE | {"hour": [*range(N - 3), 1000, 2000, 3000]}  # the last part is far from the others
PARTS = [(np.arange(N - 6), np.arange(N - 6, N))]


def test_folds_learn_mean_and_scale_from_their_training_part_alone():
    kernel = Sum([BODY, On(["hour", "size"], Gaussian(0.5))])
    [(train, test)] = PARTS
    found = cross_validate(svc(kernel), FAR, LABELS, cv=PARTS).decision[test]
    fitted = svc(kernel).fit(rows(train, FAR), [LABELS[i] for i in train])
    expected = fitted.decision_function(rows(test, FAR))
    np.testing.assert_allclose(found, expected, atol=1e-4)
    K = gram_of(kernel, FAR)  # of all rows: other values
    leaked = SVC("precomputed").fit(K[: len(train), : len(train)], LABELS[: len(train)])
    assert np.abs(leaked.decision_function(K[test, : len(train)]) - expected).max() > 0.01


def test_calibration_from_features_is_that_from_grams():
    """Features of folds are standardised by their training part, too."""
    kernel = Sum([BODY, On(["hour", "size"], Linear())])
    folds = [*PARTS, (np.arange(6, N), np.arange(6))]
    models = [
        CalibratedSVC(svc(kernel, tol=1e-6, compute=Compute(solver=solver)), cv=folds, method="sigmoid")
        for solver in ("features", "gram")
    ]
    found, expected = (model.fit(FAR, LABELS).predict_proba(FAR) for model in models)
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_a_fold_takes_as_many_grams_as_before_for_texts_that_learn_nothing():
    found = tune(svc(), TABLE, LABELS, {"kernel__0__kernel__p": [2, (1, 3)], "C": [1, 10]}, cv=3)
    assert len(found.table) == 4
    best = found.best_estimator
    by_hand = svc(C=found.best_params_["C"])
    by_hand.set_params(kernel__0__kernel__p=found.best_params_["kernel__0__kernel__p"])
    expected = by_hand.fit(TABLE, LABELS).decision_function(TABLE)
    np.testing.assert_allclose(best.decision_function(TABLE), expected, atol=1e-3)


def test_a_grid_over_other_columns_shares_what_kernels_have_in_common():
    ranges = [On("body", Spectrum((1, p))) for p in (1, 2, 3)]
    kernels = list(map(as_kernel, ranges))
    shared = [gram.description for _, gram in grams(kernels, svc(BOTH).settings.source.encode(TABLE), CPU)]
    assert all(description.endswith("from the sum over lengths") for description in shared)
    kernels = [*ranges, On("subject", Spectrum((1, 2))), BOTH]
    found = tune(svc(kernels[0]), TABLE, LABELS, {"kernel": kernels}, cv=3)
    alone = [cross_validate(svc(kernel), TABLE, LABELS, cv=3).mean["accuracy"] for kernel in kernels]
    np.testing.assert_allclose([row["mean"] for row in found.table], alone)
    with pytest.raises(InputError, match="a grid cannot go over"):
        tune(svc(kernels[0]), TABLE, LABELS, {"kernel": [kernels[0], Spectrum(2)]})


def test_scikit_learn_splits_data_frames():
    frame = pandas_frame().set_index(np.arange(N)[::-1])
    search = GridSearchCV(svc(), {"kernel__2__kernel__gamma": [0.1, 1.0]}, cv=3).fit(frame, LABELS)
    alone = cross_validate(svc(search.best_estimator_.kernel), frame, LABELS, cv=search.cv).mean
    assert 0 <= alone["accuracy"] <= 1
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    np.testing.assert_array_equal(again.decision_function(frame), search.decision_function(frame))
    assert repr(clone(again)) == repr(clone(search.best_estimator_))


MACHINES = [
    (svc(), LABELS),
    (svc(multiclass="ovo"), [f"{i % 3}" for i in range(N)]),
    (svc(TEXTS, compute=Compute(solver="features")), LABELS),
    (svc(On(["hour", "size"], Gaussian())), LABELS),
    (svc(On("body", EditDistance())), LABELS),
    (CalibratedSVC(svc(), cv=2, method="sigmoid"), LABELS),
    (MultilabelSVC(BOTH, cv=2), [("a",) if i % 2 else ("a", "b") if i % 3 else ("b",) for i in range(N)]),
    (SVR(BOTH, C=10), TABLE["size"]),
    (OneClassSVM(BOTH), None),
]


@pytest.mark.slow
@pytest.mark.parametrize(("model", "y"), MACHINES, ids=lambda one: type(one).__name__)
def test_a_model_is_the_same_wherever_it_goes(model, y, tmp_path):
    frame, new = pandas_frame(), rows([3, 1, 2], TABLE)
    model = clone(model).fit(frame, *([] if y is None else [y]))
    save(model, tmp_path / "m.textsvm")
    say = getattr(model, "decision_function", model.predict)
    again = load(tmp_path / "m.textsvm")
    np.testing.assert_array_equal(getattr(again, say.__name__)(new), say(new))
    copied = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(getattr(copied, say.__name__)(new), say(new))
    for found, other in zip(explain(model, new), explain(again, new), strict=True):
        assert found.text == other.text
        np.testing.assert_array_equal(found.symbols, other.symbols)


def test_a_table_is_shown_line_by_line_and_numbers_have_their_share():
    model = svc().fit(TABLE, LABELS)
    [found] = explain(model, rows([0]))
    lines = found.text.split("\n")
    assert lines[0] == "subject: cheap pills 0"
    assert lines[2].startswith(f"hour, size, known: {TABLE['hour'][0]}, ")
    assert found.exact
    assert found.symbols.sum() + found.bias == pytest.approx(found.value, abs=1e-5)
    ends = np.cumsum([len(line) + 1 for line in lines])
    shares = [
        found.symbols[end - len(line) - 1 : end - 1].sum() for line, end in zip(lines, ends, strict=True)
    ]
    kept = model.model_.support
    for number, (weight, term) in enumerate(model.kernel_.structure.terms):
        documents = model.settings.source.encode(rows([0]), kept.documents)
        of_term = term.rows(term.structure.read(kept.documents), CPU).cross(term.structure.read(documents))
        expected = weight * float(of_term[0] @ model.dual_coef_[0])
        assert shares[number] == pytest.approx(expected, abs=1e-5)
    named = [each.text.partition(": ")[0] for each in explain(model, rows([0]), substrings=500)[0].substrings]
    assert set(named) == {"subject", "body", "hour, size, known", "vector"}
    assert named.count("vector") == named.count("hour, size, known") == 1


def test_what_is_left_out_of_a_product_is_a_piece_of_its_line():
    model = svc(Product([On("body", Spectrum(2)), On("hour", Gaussian())])).fit(TABLE, LABELS)
    [found] = explain(model, rows([0]))
    begin = found.text.index("body: ") + 6
    assert found.method.name == "occlusion"
    assert found.symbols[begin : begin + len("buy")].any()
    assert not found.symbols[found.text.index("hour: ") :].any()


def test_columns_that_are_called_alike_have_a_line_each():
    table = TABLE | {"hour, size": TABLE["body"]}
    kernel = Sum([On("hour, size", Spectrum(2)), On(["hour", "size"], Gaussian())])
    [found] = explain(svc(kernel).fit(table, LABELS), rows([0], table))
    assert found.text.count("hour, size: ") == 2
    assert found.symbols.sum() + found.bias == pytest.approx(found.value, abs=1e-5)


def test_with_case_and_without_one_line_shows_both():
    [found] = explain(svc(TEXTS).fit(TABLE, LABELS), rows([0]))
    assert found.text == "subject: Cheap pills 0\nbody: buy them now, now 0"
    assert found.symbols.sum() + found.bias == pytest.approx(found.value, abs=1e-5)


def test_spectrum_kernels_alone_are_trained_on_features_and_kept_without_texts(tmp_path):
    by_gram = svc(TEXTS, compute=Compute(solver="gram"), tol=1e-6).fit(TABLE, LABELS)
    model = svc(TEXTS, compute=Compute(solver="features"), tol=1e-6).fit(TABLE, LABELS)
    expected = by_gram.decision_function(TABLE)
    np.testing.assert_allclose(model.decision_function(TABLE), expected, atol=1e-3)
    again = reloaded(model, tmp_path / "m.textsvm", texts=False)
    np.testing.assert_allclose(again.decision_function(TABLE), model.decision_function(TABLE), atol=1e-5)
    assert explain(again, rows([0]))[0].text == explain(model, rows([0]))[0].text
    assert np.isfinite(cross_validate(svc(TEXTS), TABLE, LABELS, cv=3).decision).all()
    refuses("has no list of features", svc(compute=Compute(solver="features")).fit, TABLE, LABELS)
    with pytest.raises(InputError, match="cannot do without its support vectors"):
        save(svc().fit(TABLE, LABELS), tmp_path / "n.textsvm", texts=False)


WEIGHED = Sum([*TEXTS.kernels, On(["hour", "size"], Linear()), On("vector", Linear())])


@pytest.mark.parametrize("kernel", [WEIGHED, On(["hour", "size"], Linear())], ids=["beside texts", "alone"])
def test_numbers_of_linear_kernels_are_features_and_weights(kernel, tmp_path):
    by_gram = svc(kernel, compute=Compute(solver="gram"), tol=1e-6).fit(TABLE, LABELS)
    model = svc(kernel, compute=Compute(solver="features"), tol=1e-6).fit(TABLE, LABELS)
    expected = by_gram.decision_function(TABLE)
    assert model.gram_description_.startswith("none, ")
    np.testing.assert_allclose(model.decision_function(TABLE), expected, atol=2e-3)
    for each in (by_gram, model):
        again = reloaded(each, tmp_path / "m.textsvm", texts=False)
        np.testing.assert_allclose(again.decision_function(TABLE), each.decision_function(TABLE), atol=1e-5)
        [of_weights], [of_support] = explain(again, rows([0])), explain(each, rows([0]))
        np.testing.assert_allclose(of_weights.symbols, of_support.symbols, atol=1e-5)
    change(tmp_path / "m.textsvm", lambda header, arrays: arrays.update(
        {name: array[:1] for name, array in arrays.items() if name.endswith("standard.mean")}
    ))  # fmt: skip
    refuses("mean and scale of its numbers", load, tmp_path / "m.textsvm")


def test_copies_are_looked_for_in_texts():
    same_numbers = {"body": [f"{i} unlike {7 * i}" for i in range(N)], "hour": [i % 2 for i in range(N)]}
    kernel = Sum([On("body", Spectrum(3)), On("hour", Linear())])
    folds = [(np.arange(N // 2), np.arange(N // 2, N))]
    assert not len(cross_validate(svc(kernel), same_numbers, LABELS, cv=folds).leaks[0].test)
    assert cross_validate(svc(On("hour", Linear())), same_numbers, LABELS, cv=folds).leaks == []
    copied = same_numbers | {"body": same_numbers["body"][:12] * 2, "hour": range(N)}
    assert len(cross_validate(svc(kernel), copied, LABELS, cv=folds).leaks[0].test) == 12
    product = Product([On("body", Spectrum(3)), On("hour", Gaussian())])
    assert len(cross_validate(svc(product), copied, LABELS, cv=folds).leaks[0].test) == 12
    model = svc(kernel).fit(rows(range(12), copied), LABELS[:12])
    assert held_out_leak(model, rows(range(12), copied), rows(range(12, N), copied)).share == 1
    model = svc(On("hour", Linear())).fit(rows(range(12), copied), LABELS[:12])
    assert held_out_leak(model, rows(range(12), copied), rows(range(12, N), copied)).share == 0
    alike = Spectrum().structure.alike
    assert kernel.structure.alike == product.structure.alike == alike < Linear().structure.alike
    with pytest.raises(InputError, match="near-duplicates are looked for in texts"):
        cross_validate(svc(On("hour", Linear())), same_numbers, LABELS, group_duplicates=0.9)


def test_a_model_is_told_of_rows_that_it_knows():
    model = svc(C=100).fit(TABLE, LABELS)
    known = [int(i) for i in model.support_]
    assert "100.0% of these documents were in the training" in data_warnings(model.model_, rows(known))[0]
    strange = TABLE | {"body": ["日本語の文章です" for _ in range(N)]}
    assert "do not occur" in " ".join(data_warnings(model.model_, strange))
    assert data_warnings(svc(On("hour", Gaussian())).fit(TABLE, LABELS).model_, TABLE) == []


def cell(name, value, row=3):
    return TABLE | {name: [value if i == row else one for i, one in enumerate(TABLE[name])]}


def dated(kind):
    return TABLE | {"hour": np.array(["2020-01-01"] * N, kind)}


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (TABLE["body"], "kernels on columns read a table: .* this is list"),
        (np.zeros((N, 2)), "kernels on columns read a table: .* this is ndarray"),
        (None, "this is NoneType"),
        ({"body": "abc", "hour": 3}, "the table has no column 'subject'; it has body, hour"),
        ({"subject": TABLE["subject"], "body": TABLE["body"]}, "no column 'hour'; it has subject, body"),
        (TABLE | {"hour": 5}, "column 'hour' is int, not a column of values"),
        (TABLE | {"hour": TABLE["hour"][1:]}, "column 'hour' has 23 rows and the table 24"),
        (cell("subject", None), "column 'subject': document 3 is missing, .*fillna\\(''\\)"),
        (cell("subject", b"x"), "document 3 is of type bytes, not a string; decode it with .decode"),
        (cell("subject", 7), "column 'subject': document 3 is of type int, not a string"),
        (cell("hour", None), "row 3 of column 'hour' is missing; fill it or remove the row"),
        (cell("hour", float("nan")), "row 3 of column 'hour' is missing; fill it or remove the row"),
        (cell("size", float("inf")), "row 3 of column 'size' is inf; give a number of at most 1e.100"),
        (cell("size", -1e200), "row 3 of column 'size' is -1e.200; give a number of at most 1e.100"),
        (cell("hour", "noon"), "row 3 of column 'hour' is 'noon', a text where a number is expected"),
        (cell("hour", 1j), "row 3 of column 'hour' is of type complex, where a number"),
        (cell("hour", [1, 2]), "row 3 of column 'hour' is a vector of 2 numbers where row 0 is a number"),
        (cell("vector", [1.0, 2.0]), "row 3 of column 'vector' is a vector of 2 numbers where row 0 is a"),
        (cell("vector", None), "row 3 of column 'vector' is missing"),
        (cell("vector", [1.0, float("nan"), 1.0]), "row 3 of column 'vector' is missing"),
        (cell("vector", [1.0, "x", 1.0]), "row 3 of column 'vector' is of type list"),
        (TABLE | {"vector": np.zeros((N, 2, 2))}, r"the cells of column 'vector' have the shape \(2, 2\)"),
        (TABLE | {"vector": [[]] * N}, r"the cells of column 'vector' have the shape \(0,\)"),
        (TABLE | {"vector": csr_array(np.full((N, 2), np.inf))}, "row 0 of column 'vector' is inf;"),
        (TABLE | {"hour": csr_array(np.ones((N, 2)))}, "column 'hour' holds compressed rows"),
        (dated("datetime64[s]"), "row 0 of column 'hour' is a date or a time, .* such as the hour"),
        (TABLE | {"hour": ["1"] * N}, "row 0 of column 'hour' is '1', a text"),
    ],
)  # fmt: skip
def test_bad_tables_get_one_sentence(table, message):
    for use in (svc().fit, lambda X, y: cross_validate(svc(), X, y)):
        refuses(message, use, table, LABELS)


@pytest.mark.parametrize("kind", TABLES)
def test_without_on_one_column_is_wanted(kind):
    with pytest.raises(InputError, match=r"select a column, or give a kernel On\(column, kernel\)"):
        svc(Spectrum(2)).fit(TABLES[kind](TABLE), LABELS)


def test_bad_data_frames_get_one_sentence():
    pandas = pytest.importorskip("pandas")
    frame = pandas_frame()
    twice = pandas.concat([frame, frame[["hour"]]], axis=1)
    when = frame.assign(hour=pandas.date_range("2020-01-01", periods=N))
    missing = frame.assign(hour=pandas.array([None, *TABLE["hour"][1:]], "Int64"))
    nat = when.assign(hour=when.hour.where(when.index > 1))
    for bad, message in {
        "the table has 2 columns 'hour'; rename one": twice,
        "row 0 of column 'hour' is a date or a time": when,
        "row 0 of column 'hour' is missing": missing,
    }.items():
        refuses(bad, svc().fit, message, LABELS)
    refuses("row 0 of column 'hour' is missing", svc().fit, nat, LABELS)
    arrow = pytest.importorskip("pyarrow").table(TABLE | {"hour": [None, *TABLE["hour"][1:]]})
    refuses("row 0 of column 'hour' is missing", svc().fit, arrow, LABELS)
    polars = pytest.importorskip("polars")
    refuses("row 0 of column 'hour' is missing", svc().fit, polars.from_arrow(arrow), LABELS)
    refuses("this is LazyFrame", svc().fit, TABLES["polars"](TABLE).lazy(), LABELS)


def test_at_prediction_columns_are_those_of_training():
    model = svc().fit(TABLE, LABELS)
    with pytest.raises(InputError, match="no column 'size'; it has subject, body, hour, known"):
        model.predict({name: column for name, column in TABLE.items() if name != "size"})
    with pytest.raises(InputError, match=r"column 'vector' has 2 numbers in a row, .* trained on 3"):
        model.predict(TABLE | {"vector": [[1.0, 2.0]] * N})
    refuses("row 3 of column 'hour' is 'noon'", model.predict, cell("hour", "noon"))
    assert len(model.predict({name: [] for name in TABLE})) == len(model.predict([])) == 0
    refuses("there are no documents to train on", svc().fit, [], [])


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (On(), "kernel=None of On must be a kernel"),
        (On("body", "spectrum"), "kernel='spectrum' of On must be a kernel"),
        (On("body", On("body", Spectrum(2))), "of On must be a kernel of texts or vectors"),
        (On("body", Sum([On("body", Spectrum(2))])), "of On must be a kernel of texts or vectors"),
        (On("", Spectrum(2)), "column='' of On must be the name of a column"),
        (On([], Gaussian()), r"column=\[\] of On must be the name"),
        (On(3, Gaussian()), "column=3 of On must be the name"),
        (On(["hour", 3], Gaussian()), "of On must be the name"),
        (On(["hour", "hour"], Gaussian()), "On has 2 columns; they must be distinct"),
        (On("body", Spectrum(0)), "p=0 must be a whole number from 1"),
        (On("body", Spectrum(99)), "every document is shorter than p = 99"),
        (Sum([SUBJECT, On("body", Spectrum(99))]), "shorter than p = 99 of its part body=spectrum:99"),
        (On("body", Sum([Spectrum(2), Gaussian()])), "row 0 of column 'body' is 'buy them now, now 0'"),
        (Sum([BODY, Spectrum(2)]), "part 0 of a sum of kernels reads columns, and part 1 texts"),
        (Sum(3), "kernels=3 of a sum of kernels must be a list"),
    ],
)  # fmt: skip
def test_bad_kernels_get_one_sentence(kernel, message):
    refuses(message, svc(kernel).fit, TABLE, LABELS)


def test_a_column_without_words_is_named():
    table = TABLE | {"body": ["  "] * N}
    with pytest.raises(InputError, match="no document has any token in column 'body'"):
        svc(Sum([SUBJECT, On("body", Spectrum(1, tokens="words"))])).fit(table, LABELS)


def put(name, value):
    return lambda header, arrays: arrays.update({name: np.asarray(value)})


def kernels_of(header):
    return header["kernel"]["kernels"]


@pytest.mark.parametrize(
    "edit",
    [
        put("kernel.1.standard.mean", np.zeros(5)),
        put("kernel.1.standard.scale", np.zeros(2)),
        put("kernel.1.standard.scale", np.full(2, np.nan)),
        put("kernel.1.standard.mean", np.zeros((2, 1))),
        put("view_1.widths", np.array([1, 2])),
        put("view_1.widths", np.array([0, 2])),
        put("view_1.widths", np.array([2])),
        put("view_1.values", np.zeros((2, 2))),
        put("view_1.values", np.full((9, 2), np.inf)),
        lambda header, arrays: arrays.pop("view_1.widths"),
        lambda header, arrays: arrays.pop("kernel.1.standard.mean"),
        lambda header, arrays: kernels_of(header)[0].update(column=3),
        lambda header, arrays: kernels_of(header)[0].update(column=["body", 3]),
        lambda header, arrays: kernels_of(header)[1].update(column=["hour"]),
        lambda header, arrays: kernels_of(header)[1].update(kernel=3),
        lambda header, arrays: kernels_of(header)[1].update(
            kernel={"name": "on", "column": "a", "kernel": {}}
        ),
    ],
)
def test_damaged_models_are_refused(edit, tmp_path):
    path = tmp_path / "m.textsvm"
    save(svc(Sum([BODY, On(["hour", "size"], Gaussian())])).fit(TABLE, LABELS), path)
    change(path, edit)
    refuses(r"m\.textsvm is", load, path)


# The default kernel on a table

FRAME = {
    "title": [f"{word} {i}" for i in range(12) for word in ("win cash", "lunch")],
    "body": [text for _ in range(12) for text in ("claim your prize now", "see you at noon")],
    "hour": np.arange(24.0) % 7,
}
CLASSES = ["spam", "ham"] * 12


def frames(columns):
    table = {name: list(FRAME[name]) for name in columns}
    return [make(table) for make in TABLES.values()]


@pytest.mark.parametrize("columns", [("title", "body"), ("title", "body", "hour"), ("title", "hour")])
def test_the_default_kernel_on_a_table(columns):
    """Of every kind of table the same, with a weight for each column beside the only text."""
    expected = SVC().fit({name: FRAME[name] for name in columns}, CLASSES)
    for name in columns if "body" in columns else ["hour"]:
        assert re.search(rf"\b{name} with weight \d", expected.chosen_)
    for frame in frames(columns):
        model = SVC().fit(frame, CLASSES)
        assert model.chosen_ == expected.chosen_
        np.testing.assert_array_equal(
            model.decision_function(frame),
            expected.decision_function({name: FRAME[name] for name in columns}),
        )


def noisy_table(n, seed):
    """Two columns of texts that tell one of three classes together, and columns that tell nothing."""
    rng = np.random.default_rng(seed)
    classes, noise = rng.integers(3, size=n), [f"n{i:03}" for i in range(300)]
    words = np.array([[f"{kind}{i:02}" for i in range(60)] for kind in "tb"])
    shares = np.exp(0.5 * np.random.default_rng(5).normal(size=(3, 2, 60)))

    def texts(kind, size):
        p = shares[:, kind] / shares[:, kind].sum(axis=1, keepdims=True)
        return [" ".join(rng.choice(words[kind], size, p=p[c])) for c in classes]

    table = {"title": texts(0, 4), "body": texts(1, 8)}
    without = {
        "row": np.arange(1, n + 1), "amount": 1e9 * np.exp(3 * rng.normal(size=n)),
        "note": [" ".join(rng.choice(noise, 12)) for _ in range(n)],
    }  # fmt: skip
    return table, table | without, classes


def test_columns_of_noise_cost_nothing():
    """Row numbers, amounts times 1e9 and random words have no weight; words are not joined with the texts."""
    (table, noisy, classes), (new, noisy_new, truth) = noisy_table(300, 0), noisy_table(600, 1)
    model = SVC().fit(noisy, classes)
    assert model.kernel_.structure.leaves[0].structure.view.columns == ("title", "body")
    assert {name for leaf in model.kernel_.structure.leaves for name in leaf.structure.view.columns} == set(
        table
    )
    for name in ("row", "amount", "note"):
        assert f"{name} with weight 0" in model.chosen_
    own, noise = SVC().fit(table, classes).predict(new) == truth, model.predict(noisy_new) == truth
    assert noise.mean() > own.mean() - 0.002


def test_numbers_that_help_have_a_weight_whatever_their_unit():
    table, _, classes = noisy_table(300, 0)
    new, _, truth = noisy_table(600, 1)
    alone = (SVC().fit(table, classes).predict(new) == truth).mean()
    for unit in (1.0, 1e-9, 1e12):
        rng = np.random.default_rng(2)
        numbers = [unit * np.exp(labels + 0.5 * rng.normal(size=len(labels))) for labels in (classes, truth)]
        numbers[0][0] *= 1e9  # an outlier
        model = SVC().fit(table | {"price": numbers[0]}, classes)
        assert (model.predict(new | {"price": numbers[1]}) == truth).mean() > alone + 0.03
        refuses("the table has no column 'price'", model.predict, new)


def test_ranks_are_smooth_functions_of_the_order():
    """The textbook: kernel values from mid-ranks among quantiles of the training rows."""
    values = np.random.default_rng(0).normal(size=500) ** 3
    quantiles = np.quantile(values, (np.arange(64) + 0.5) / 64, method="nearest")
    ranks = np.array([((quantiles < v).sum() + (quantiles <= v).sum()) / 128 for v in values])
    waves = np.stack([np.cos(np.pi * j * ranks) / j for j in range(1, 9)], axis=1)
    waves -= waves.mean(axis=0)
    expected = waves @ waves.T / np.square(waves).sum(axis=1).mean()
    kernel = On("x", Linear(), ranks=True)
    np.testing.assert_allclose(kernel({"x": values}), expected, atol=1e-5)
    for bad in ({"x": np.ones((4, 2))}, {"x": csr_array(np.eye(4))}):
        refuses("ranks are for columns of single numbers", SVC(kernel).fit, bad, [0, 1, 0, 1])


@pytest.mark.parametrize("ranks", [True, False])
def test_texts_of_several_columns_are_joined_by_line_breaks(ranks, tmp_path):
    kernel = Sum([On(["subject", "body"], Spectrum(3)), On("hour", Linear(), ranks)])
    joined = {"all": [f"{a}\n{b}" for a, b in zip(TABLE["subject"], TABLE["body"], strict=True)]}
    expected = svc(Sum([On("all", Spectrum(3)), On("hour", Linear(), ranks)])).fit(TABLE | joined, LABELS)
    model = svc(kernel).fit(TABLE, LABELS)
    np.testing.assert_array_equal(model.decision_function(TABLE), expected.decision_function(TABLE | joined))
    for texts in (True, False):
        save(model, tmp_path / "m", texts=texts)
        np.testing.assert_allclose(
            load(tmp_path / "m").decision_function(TABLE), model.decision_function(TABLE), atol=1e-5
        )
    assert spell(model.kernel_).startswith("subject,body=spectrum:3+hour=linear")
    assert parse("subject,body=spectrum:3").structure.resolved().structure.view.columns == ("subject", "body")


@pytest.mark.parametrize(
    ("model", "y"),
    [
        (CalibratedSVC(SVC()), CLASSES),
        (SVR(), FRAME["hour"]),
        (MultilabelSVC(), [(label,) for label in CLASSES]),
        (OneClassSVM(), None),
        (SVC("fast"), CLASSES),
    ],
    ids=lambda value: type(value).__name__,
)
def test_other_models_on_a_table(model, y):
    for frame in frames(("title", "body")):
        assert len(model.fit(frame, y).predict(frame)) == 24
        assert model.kernel_.structure.reads_tables


def test_a_table_of_one_column_is_a_list_of_texts():
    for frame in frames(("title",))[:3]:
        assert not SVC().fit(frame, CLASSES).kernel_.structure.reads_tables


def test_tables_that_have_no_default_kernel():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(FRAME)
    for table, words in (
        (frame[["hour"]].assign(size=1.0), "expected one column of texts, got a table"),
        (frame.assign(when=pandas.Timestamp("2020-01-01")), "row 0 of column 'when' is a date or a time"),
        (frame.assign(hour=[None, *[1.0] * 23]), "row 0 of column 'hour' is missing"),
        (frame.assign(body=["a"] * 23 + [None]), "column 'body': document 23 is missing"),
    ):
        refuses(words, SVC().fit, table, CLASSES)


def test_columns_behind_a_column_transformer():
    """Arrays have no names of columns: the hint says how to keep them."""
    from sklearn.compose import ColumnTransformer
    from sklearn.model_selection import cross_val_score
    from sklearn.pipeline import make_pipeline

    frame = pytest.importorskip("pandas").DataFrame(FRAME)
    transformer = ColumnTransformer([("texts", "passthrough", ["title", "body"])])
    hint = r"set_output\(transform='pandas'\)"
    for model in (SVC(), SVC(On("title", Spectrum(2)))):
        refuses(hint, make_pipeline(transformer, model).fit, frame, CLASSES)
    refuses("Gaussian", SVC().fit, np.ones((24, 2)), CLASSES)
    named = ColumnTransformer(transformer.transformers, verbose_feature_names_out=False)
    pipeline = make_pipeline(named.set_output(transform="pandas"), SVC())
    assert cross_val_score(pipeline, frame, CLASSES, cv=3).min() == 1.0
    single = ColumnTransformer([("texts", "passthrough", ["body"])])
    assert make_pipeline(single, SVC()).fit(frame, CLASSES).score(frame, CLASSES) == 1.0


@pytest.mark.parametrize("kernel", [Spectrum(3), Spectrum(2) + Spectrum(3)])
def test_ranks_of_texts_are_refused(kernel):
    with pytest.raises(InputError, match="is for numbers, and Spectrum"):
        SVC(On("text", kernel, ranks=True)).fit({"text": ["a b", "b c", "c d", "d e"]}, list("xyxy"))
