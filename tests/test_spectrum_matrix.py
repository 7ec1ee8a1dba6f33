"""SpectrumFeatures: scikit-learn's values, the kernel's products, and scikit-learn's manners."""

import math
import pickle
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refuses
from scipy.sparse import csr_matrix
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from textsvm import Spectrum, SpectrumFeatures
from textsvm.errors import InputError
from textsvm.estimators import features
from textsvm.kernels.options import WEIGHTS
from textsvm.kernels.spectrum import feature_matrix
from textsvm.readers import sample
from textsvm.readers.read import read_corpus
from textsvm.runtime import memory as host_memory
from textsvm.runtime.device import select
from textsvm.text.documents import encode, normalise

CPU = select("cpu")
TEXTS = ["banana", "bandana", "the cat sat on the mat", "nab", "", "aaaa", "naïve 日本 banana"]
NEW = ["bonana", "", "cat and mat", "日本語", "zzz", "banana banana"]


@pytest.fixture(scope="module")
def mail():
    texts = [normalise(text) for text in read_corpus(sample("mail")).texts]
    return texts[::8], texts[1::8]


def assert_same_values(ours, theirs, train, test):
    """Every entry, of training texts and others, the columns matched by their names."""
    matrices = [(ours.fit_transform(train), theirs.fit_transform(train))]
    matrices += [(ours.transform(texts), theirs.transform(texts)) for texts in (train, test)]
    names = ours.get_feature_names_out()
    assert len(set(names)) == len(names) == ours.transform(["x"]).shape[1]
    place = {name: i for i, name in enumerate(names)}
    order = [place[name] for name in theirs.get_feature_names_out()]
    for mine, other in matrices:
        assert type(mine) is type(other) is csr_matrix
        assert mine.dtype == np.float32
        assert mine.shape == other.shape
        assert mine.nnz == other.nnz
        assert abs(mine[:, order] - other).max() < 1e-6 * max(1, other.max())
        assert csr_matrix((mine.data, mine.indices, mine.indptr), mine.shape).has_canonical_format


@pytest.mark.slow
@pytest.mark.parametrize(
    ("weight", "same"), [("count", {}), ("presence", {"binary": True}), ("log", {"sublinear_tf": True})]
)
@pytest.mark.parametrize("idf", [False, True])
@pytest.mark.parametrize("min_df", [1, 3, 0.1])
def test_characters_have_the_values_of_scikit_learn(mail, weight, same, idf, min_df):
    ours = SpectrumFeatures((1, 5), weight, idf, min_df=min_df, normalise="none", device="cpu")
    theirs = TfidfVectorizer(
        analyzer="char", ngram_range=(1, 5), lowercase=False, use_idf=idf, min_df=min_df, **same
    )
    assert_same_values(ours, theirs, *mail)


@pytest.mark.parametrize(("p", "range"), [(1, (1, 1)), ((1, 2), (1, 2)), ((2, 4), (2, 4))])
def test_words_have_the_values_of_scikit_learn(mail, p, range):
    ours = SpectrumFeatures(p, "log", True, tokens="words", min_df=2, device="cpu")
    theirs = TfidfVectorizer(
        lowercase=False, token_pattern=r"\w+|[^\w\s]", ngram_range=range, sublinear_tf=True, min_df=2
    )
    assert_same_values(ours, theirs, *mail)


def test_rows_that_are_not_normalised_and_single_lengths(mail):
    ours = SpectrumFeatures(7, "count", True, normalised=False, device="cpu")
    theirs = TfidfVectorizer(analyzer="char", ngram_range=(7, 7), lowercase=False, norm=None)
    assert_same_values(ours, theirs, *mail)


@pytest.mark.slow
@settings(max_examples=40)
@given(
    st.lists(st.text("abc ", max_size=12), min_size=1, max_size=8),
    st.sampled_from(WEIGHTS),
    st.sampled_from([1, 2, (1, 3), (2, 4)]),
    st.booleans(),
)
def test_products_of_rows_are_kernel_values(texts, weight, p, idf):
    texts = [*texts, "abca"]
    kernel = Spectrum(p, weight, idf, normalised=False)
    documents = encode(texts)
    expected = kernel.fit(documents).rows(documents, CPU).gram()
    x = SpectrumFeatures(p, weight, idf, normalised=False, normalise="none", device="cpu").fit_transform(
        texts
    )
    gram = (x.astype(float) @ x.astype(float).T).toarray()
    if weight == "intersection" and not idf:
        np.testing.assert_array_equal(gram, expected)
    np.testing.assert_allclose(gram, expected, rtol=1e-6)


@pytest.mark.parametrize("weight", WEIGHTS)
def test_normalised_rows_give_the_normalised_gram(weight, mail):
    train, _ = mail
    kernel, documents = Spectrum((1, 4), weight, True), encode(train)
    x = SpectrumFeatures((1, 4), weight, True, normalise="none", device="cpu").fit_transform(train)
    gram, x = kernel.fit(documents).rows(documents, CPU).gram(), x.astype(float)
    np.testing.assert_allclose((x @ x.T).toarray(), gram, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("tokens", ["characters", "words"])
def test_new_texts_keep_what_training_knew(weight, tokens):
    """Also where unary codes are longer than any of training."""
    train, new = ["a b b", "b c", "c c a"], ["b b b d", "d", "c a"]
    model = SpectrumFeatures(1, weight, normalised=False, tokens=tokens, device="cpu").fit(train)
    found = model.transform(new).toarray()
    names = model.get_feature_names_out()
    at = {name: found[:, i].tolist() for i, name in enumerate(names)}
    assert not any("d" in name for name in names)
    if weight == "intersection":
        assert at["b>=1"] == at["b>=2"] == [1, 0, 0]
        assert "b>=3" not in at
    else:
        most = {"count": 3, "presence": 1, "log": np.float32(1 + np.log(3))}[weight]
        assert at["b"] == [most, 0, 0]


def test_columns_are_in_the_order_of_length_and_symbols():
    names = SpectrumFeatures((1, 3), device="cpu").fit(TEXTS).get_feature_names_out()
    assert names.tolist() == sorted(names, key=lambda name: (len(name), name))
    unary = SpectrumFeatures(2, "intersection", device="cpu").fit(["aaaa", "ab"])
    assert unary.get_feature_names_out().tolist() == ["aa>=1", "aa>=2", "aa>=3", "ab>=1"]


def test_names_hold_what_a_text_can_hold():
    texts = ["a\0\0b", "\ud800x", "x\0"]
    names = SpectrumFeatures((1, 2), normalise="none", device="cpu").fit(texts).get_feature_names_out()
    assert {"\0", "\0\0", "a\0", "x\0", "\ud800x"} <= set(names)
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("p", [3, (2, 3)])
def test_batches_change_nothing(p, monkeypatch):
    model = SpectrumFeatures(p, "log", True, device="cpu").fit(TEXTS)
    whole = model.transform(TEXTS + NEW)
    monkeypatch.setattr(features, "BATCH", 7)
    parts = model.transform(TEXTS + NEW)
    assert (parts != whole).nnz == 0
    assert parts.shape == whole.shape == (len(TEXTS + NEW), len(model.columns_))
    assert model.transform([]).shape == (0, len(model.columns_))


def test_indices_are_wide_where_they_must_be(set_values):
    """SciPy wants column indices as wide as row starts."""
    set_values(feature_matrix, index_type=lambda n: np.int64, COUNTED=1)  # several parts
    model = SpectrumFeatures((1, 2), device="cpu")
    for x in (model.fit_transform(TEXTS), model.transform(TEXTS)):
        assert x.indices.dtype == x.indptr.dtype == np.int64
        np.testing.assert_array_equal((x @ x.T).diagonal() > 0.99, [bool(text) for text in TEXTS])


def test_it_is_a_transformer():
    y = np.array([0, 0, 1, 0, 1, 0, 1])
    model = SpectrumFeatures((1, 2), "log", True, device="cpu")
    again = pickle.loads(pickle.dumps(model.fit(TEXTS)))
    known = dict(vars(model))
    assert (again.transform(NEW) != model.transform(NEW)).nnz == 0
    assert vars(model) == known
    fresh = clone(model)
    assert fresh.get_params() == model.get_params()
    with pytest.raises(NotFittedError):
        fresh.transform(NEW)
    union = FeatureUnion([("letters", fresh), ("words", SpectrumFeatures(1, tokens="words", device="cpu"))])
    x = union.fit_transform(TEXTS)
    names = union.get_feature_names_out()
    assert x.shape[1] == len(names)
    assert {"letters__ba", "words__cat"} <= set(names)
    pipeline = make_pipeline(clone(model), LinearSVC())
    search = GridSearchCV(pipeline, {"spectrumfeatures__p": [1, (1, 2)]}, cv=2).fit(TEXTS, y)
    assert search.predict(NEW).shape == (len(NEW),)


def test_pandas_output_is_sparse():
    """The rows have the index of the texts, so that tools of tables put them beside other columns."""
    table = pd.DataFrame({"text": ["banana", "bandana"], "x": [1.0, 2.0]}, index=[7, 3])
    features = SpectrumFeatures(p=2).set_output(transform="pandas")
    expected = SpectrumFeatures(p=2).fit(table.text)
    for shown in (features.fit_transform(table.text), features.transform(table[["text"]])):
        assert (shown.sparse.to_coo() != expected.transform(table.text)).nnz == 0
        assert [*shown.columns] == [*expected.get_feature_names_out()]
        assert [*shown.index] == [7, 3]
    assert (features.fit_transform([*table.text]).index == [0, 1]).all()
    columns = make_column_transformer((SpectrumFeatures(p=2), "text"), (StandardScaler(), ["x"]))
    beside = columns.set_output(transform="pandas").fit_transform(table)
    assert [*beside.index] == [7, 3]
    assert beside["spectrumfeatures__an"].tolist() == features.transform(table.text)["an"].tolist()
    with config_context(transform_output="pandas"):
        assert isinstance(SpectrumFeatures(p=2).fit_transform(table.text), pd.DataFrame)
    with pytest.raises(ValueError, match="sparse"):
        SpectrumFeatures(p=2).set_output(transform="polars").fit_transform(table.text)


def test_a_column_of_a_table():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"text": TEXTS, "length": [len(text) for text in TEXTS]})
    both = ColumnTransformer(
        [("text", SpectrumFeatures(2, device="cpu"), "text"), ("rest", "passthrough", ["length"])]
    )
    assert both.fit_transform(frame).shape == (len(TEXTS), len(both.get_feature_names_out()))
    assert "text__ba" in both.get_feature_names_out()


@pytest.mark.parametrize(
    ("parameters", "texts", "message"),
    [
        ({}, [], "no documents"),
        ({"p": 9}, ["short", "texts"], "shorter than p = 9"),
        ({"p": 1, "tokens": "words"}, ["", " "], "no document has any token"),
        ({"min_df": 0}, TEXTS, "min_df=0"),
        ({"min_df": -1}, TEXTS, "min_df=-1"),
        ({"min_df": 1.5}, TEXTS, "min_df=1.5"),
        ({"min_df": True}, TEXTS, "min_df=True"),
        ({"min_df": 8}, TEXTS, "8 or more of the 7 documents"),
        ({"min_df": 0.99}, TEXTS, "lower min_df"),
        ({"n_jobs": 0}, TEXTS, "n_jobs=0"),
        ({"weight": "tf"}, TEXTS, "weight='tf'"),
        ({"max_length": 0}, TEXTS, "max_length=0"),
        ({}, "a text", "a single string"),
        ({}, ["a", None], "document 1 is missing"),
    ],
)
def test_a_sentence_about_what_cannot_be(parameters, texts, message):
    refuses(message, SpectrumFeatures(device="cpu", **parameters).fit, texts)


def test_memory_is_asked_for_before_it_is_taken(mail, monkeypatch, set_values):
    train, _ = mail
    model = SpectrumFeatures((1, 5), device="cpu").fit(train)
    entries = SpectrumFeatures((1, 5), device="cpu").fit_transform(train).nnz
    documents = encode(train)
    assert abs(feature_matrix.predicted_entries(documents, (1, 5)) - entries) < 0.1 * entries
    monkeypatch.setattr(feature_matrix, "SAMPLE", 20)
    assert abs(feature_matrix.predicted_entries(documents, (1, 5)) - entries) < 0.3 * entries
    set_values(feature_matrix, count_each=None, predicted_entries=lambda *_: entries)  # nothing is counted
    left = 28 * len(documents.codes) + 8 * entries - 1
    monkeypatch.setattr(host_memory, "_available_memory", lambda: left)
    with pytest.raises(InputError, match=r"need about .* MiB of main memory .*min_df.*max_length"):
        SpectrumFeatures((1, 5), device="cpu").fit_transform(train)
    monkeypatch.undo()
    monkeypatch.setattr(features, "BATCH", 1 << 14)
    monkeypatch.setattr(host_memory, "_available_memory", lambda: 3 * entries)
    with pytest.raises(InputError, match="take fewer lengths"):  # told by the first batch
        model.transform(train * 2)


def test_progress_can_stop_it():
    seen = []
    model = SpectrumFeatures((1, 3), device="cpu").fit(TEXTS, progress=lambda *step: seen.append(step))
    assert seen[-1] == ("features", 3, 3)
    model.transform(TEXTS, progress=lambda *step: seen.append(step))
    assert seen[-1] == ("features", len(TEXTS), len(TEXTS))


@pytest.mark.gpu
@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("idf", [False, True])
@pytest.mark.parametrize(
    "parameters", [{"p": (1, 5)}, {"p": 3, "min_df": 3}, {"p": (1, 2), "tokens": "words"}]
)
def test_a_gpu_makes_the_same_matrix(weight, idf, parameters, mail):
    train, test = mail
    twins = [
        SpectrumFeatures(weight=weight, idf=idf, device=device, **parameters) for device in ("cpu", "cuda")
    ]
    cpu, gpu = ([model.fit_transform(train), model.transform(test)] for model in twins)
    np.testing.assert_array_equal(*(model.get_feature_names_out() for model in twins))
    for mine, other in zip(cpu, gpu, strict=True):
        assert mine.shape == other.shape
        np.testing.assert_array_equal(mine.indptr, other.indptr)
        np.testing.assert_array_equal(mine.indices, other.indices)
        np.testing.assert_allclose(mine.data, other.data, rtol=1e-6)


def expected_rows(train, texts, p1, p2, weight, idf, least):
    """Column names and, for each text, {column: value}, by counting substrings of Python strings."""
    counts = [
        [Counter(text[k : k + q] for k in range(len(text) - q + 1)) for q in range(p1, p2 + 1)]
        for text in train + texts
    ]
    df, largest = Counter(), Counter()
    for count in (count for counted in counts[: len(train)] for count in counted):
        df.update(count.keys())
        largest |= count
    names = sorted((name for name in df if df[name] >= least), key=lambda name: (len(name), name))
    unary = weight == "intersection"
    table = np.log((1 + len(train)) / (1 + np.array([df[name] for name in names]))) + 1
    table = (
        dict(zip(names, np.sqrt(table) if unary else table, strict=True))
        if idf
        else dict.fromkeys(names, 1.0)
    )
    factor = {"count": float, "log": lambda c: 1 + math.log(c)}.get(weight, lambda c: 1.0)
    columns = [(name, h) for name in names for h in range(1, 1 + (largest[name] if unary else 1))]
    rows = []
    for counted in counts[len(train) :]:
        row, squares = {}, 0.0
        for count in counted:
            total = 0.0
            for name in sorted(count.keys() & table.keys()):
                digits = min(count[name], largest[name]) if unary else 1
                value = float(table[name]) * factor(count[name])
                row |= {(name, h): value for h in range(1, digits + 1)}
                total += digits * value * value
            squares += total
        scale = 1 / math.sqrt(squares) if squares else 1.0
        rows.append({at: np.float32(float(np.float32(value)) * scale) for at, value in row.items()})
    return columns, rows


@pytest.mark.parametrize(
    ("p", "idf", "least"),
    [((1, 3), True, 1), ((2, 5), False, 2), ((4, 6), True, 2), ((7, 8), True, 1), ((1, 2), False, 4)],
)
@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize(("n_letters", "length"), [(2, 40), (5, 400), (700, 300)])
def test_rows_of_new_texts(p, idf, least, weight, n_letters, length):
    """Unknown symbols, strings cut by the end of a text, and large counts."""
    rng = np.random.default_rng(n_letters)
    letters = np.array([chr(0x4E00 + k) for k in range(n_letters)])
    frequent = rng.zipf(1.3, (2, 9, length)) % n_letters
    train, texts = (["".join(letters[row[: rng.integers(length)]]) for row in rows] for rows in frequent)
    texts += ["", letters[0] * 600, texts[0][:5] + "x" + train[0] + "yx", "zz", train[1], train[0][:3]]
    columns, rows = expected_rows(train, texts, *p, weight, idf, least)
    model = SpectrumFeatures(p, weight, idf, min_df=least, normalise="none", device="cpu").fit(train)
    matrix = model.transform(texts)
    assert matrix.shape == (len(texts), len(columns))
    place = {column: k for k, column in enumerate(columns)}
    for i, row in enumerate(rows):
        begin, end = matrix.indptr[i : i + 2]
        at = sorted(row, key=place.__getitem__)
        assert matrix.indices[begin:end].tolist() == [place[column] for column in at]
        assert matrix.data[begin:end] == pytest.approx([row[column] for column in at], rel=1e-6)
