"""Near-duplicates found from a Gram, against all pairs written out."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refuses
from test_selection import texts

from textsvm.estimators.svm import SVC
from textsvm.gram import nearest as search
from textsvm.gram.base import CachedGram, DenseGram, FeatureProducts, needed_bytes
from textsvm.kernels import GappedKmers, Linear, Spectrum
from textsvm.runtime.device import select
from textsvm.selection.cross_validation import cross_validate
from textsvm.sources.copies import merge_groups
from textsvm.text.documents import encode
from textsvm.training.leakage import (
    Leak,
    LeakageWarning,
    find_leaks,
    held_out_leak,
    leakage_message,
    near_duplicates,
)

DOCUMENTS = ["the cat sat on the mat", "a dog ran in the park", "the cat sat on the mat", "", "xyz", "",
             "a dog ran in the parks", "a dog ran in two parks", "something else again"]  # fmt: skip


def spectrum(documents):
    encoded = encode(documents)
    return Spectrum(p=2).fit(encoded).rows(encoded, select("cpu"))


def random_matrix(n, seed):
    """Any positive diagonal, a few large values, a document without any feature."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(n, 3)) * rng.uniform(0.1, 9, size=(n, 1))
    points[rng.integers(0, n, n // 3)] = points[rng.integers(0, n, n // 3)] * 1.5
    points[n // 2] = 0
    return (points @ points.T).astype(np.float32)


def written_out(matrix, bound):
    """All pairs, and groups by repeated joining."""
    n = len(matrix)
    pairs = []
    for i in range(n):
        for j in range(i):
            both = float(matrix[i, i]) * float(matrix[j, j])
            if both > 0 and matrix[i, j] / np.sqrt(both) >= bound:
                pairs.append((i, j))
    groups = list(range(n))
    for i, j in pairs:
        low, high = sorted((groups[i], groups[j]))
        groups = [low if g == high else g for g in groups]
    return pairs, groups


def same_partition(a, b):
    return len(set(zip(a, b, strict=True))) == len(set(a)) == len(set(b))


@pytest.mark.parametrize("bound", [0.9, 0.97, 0.999])
@pytest.mark.parametrize("block", [60, 60 * 7, 60 * 1000])
def test_groups_are_those_of_all_pairs_written_out(monkeypatch, bound, block):
    monkeypatch.setattr(search, "BLOCK", block)
    matrix = random_matrix(60, 2)
    groups = near_duplicates(DenseGram(matrix), bound)
    pairs, expected = written_out(matrix, bound)
    assert pairs
    assert same_partition(groups.tolist(), expected)


def test_texts_of_which_some_are_equal_or_have_no_features():
    rows = spectrum(DOCUMENTS)
    groups = near_duplicates(DenseGram(rows.gram()), 1.0)
    assert groups[0] == groups[2]
    assert groups[3] == groups[5]
    assert len(set(groups.tolist())) == 7
    looser = near_duplicates(DenseGram(rows.gram()), 0.75)
    # 1 and 7 are alike through 6.
    assert looser[1] == looser[6] == looser[7]
    on_demand = CachedGram(rows, needed_bytes(9, 3))
    np.testing.assert_array_equal(near_duplicates(on_demand, 0.75), looser)
    assert on_demand.computed == 9


@pytest.mark.parametrize("bound", [0.9, 0.97])
def test_leaks_are_those_of_all_pairs_written_out(monkeypatch, bound):
    monkeypatch.setattr(search, "BLOCK", 60 * 11)
    matrix = random_matrix(60, 5)
    rng = np.random.default_rng(0)
    folds = []
    for _ in range(4):
        order = rng.permutation(60)
        folds.append((order[:30], order[30:50]))  # ten are on neither side
    pairs, _ = written_out(matrix, bound)
    near = {(i, j) for pair in pairs for i, j in (pair, pair[::-1])}
    scale = np.sqrt(np.maximum(np.diag(matrix), 1e-30).astype(float))
    found = 0
    for (train, test), leak in zip(folds, find_leaks(DenseGram(matrix), folds, bound), strict=True):
        expected = {i: [j for j in train if (i, j) in near] for i in test}
        expected = {i: copies for i, copies in expected.items() if copies}
        assert leak.test.tolist() == sorted(expected)
        assert leak.share == len(expected) / 20
        for i, j, value in zip(leak.test, leak.train, leak.value, strict=True):
            assert j in expected[i]
            values = matrix[i, expected[i]] / scale[i] / scale[expected[i]]
            assert value == pytest.approx(values.max(), rel=1e-5)
            assert matrix[i, j] / scale[i] / scale[j] == pytest.approx(value, rel=1e-5)
        found += len(expected)
    assert found > 10


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=30))
def test_merged_groups_are_the_finest_that_keep_both_together(given_pairs):
    a, b = (np.array(side) for side in zip(*given_pairs, strict=True))
    merged = merge_groups(a, b)
    joined = list(range(len(a)))
    for i in range(len(a)):
        for j in range(i):
            if a[i] == a[j] or b[i] == b[j]:
                low, high = sorted((joined[i], joined[j]))
                joined = [low if g == high else g for g in joined]
    assert same_partition(merged.tolist(), joined)


@pytest.mark.parametrize("bound", [0, 1.01, -0.5, float("nan"), True, "high"])
def test_a_bound_that_cannot_be(bound):
    refuses("bound of near-duplicates", near_duplicates, DenseGram(np.eye(3, dtype=np.float32)), bound)


#: Kernels that learn from texts or have features of several kinds.
WITH_FEATURES = [
    Spectrum((1, 3), "log", idf=True),
    Spectrum(2, normalised=False),
    Spectrum((1, 2), "intersection") + 3 * Spectrum(1, "log", idf=True, odds=True, tokens="words"),
    Spectrum(3, shared=True, odds=True) + GappedKmers(3, 1),
]


def pairs_of(gram, bound):
    pairs = [
        zip(*(side.tolist() for side in block), strict=True)
        for block in search.similar_pairs(gram, bound, None)
    ]
    return {(i, j): value for block in pairs for i, j, value in block}


@pytest.mark.parametrize("kernel", WITH_FEATURES, ids=str)
@settings(deadline=None, max_examples=40)
@given(
    st.lists(
        st.tuples(st.text("abcd ", max_size=12), st.integers(1, 4), st.integers(0, 12)),
        min_size=2,
        max_size=12,
    ),
    st.sampled_from([0.3, 0.7, 0.9, 0.98, 1.0]),
    st.integers(1, 200),
)
def test_pairs_from_features_are_those_of_the_matrix(kernel, drawn, bound, block):
    """Copies of texts, and copies with a letter in another place."""
    documents = []
    for text, times, at in drawn:
        documents += [text] * times + [text[:at] + "e" + text[at:]]
    encoded = encode(documents).with_classes(np.arange(len(documents)) % 2)
    kernel, cpu = kernel.structure.resolved(), select("cpu")
    features = FeatureProducts(kernel.features.rows(encoded, cpu), cpu, "")
    expected = DenseGram(kernel.rows(encoded, cpu).gram())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "BLOCK", block)
        pairs = pairs_of(features, bound - 1e-5)
        surely, perhaps = (pairs_of(expected, bound - 1e-5 + change) for change in (1e-6, -1e-6))
    assert surely.keys() <= pairs.keys() <= perhaps.keys()
    assert all(value == pytest.approx(perhaps[pair], abs=1e-6) for pair, value in pairs.items())


def test_leaks_from_features_are_those_of_the_matrix(monkeypatch):
    """Of the default, on given folds, which may part copies."""
    documents, y, _ = copies()
    order = np.random.default_rng(1).permutation(60)
    folds = [(np.setdiff1d(order, test), np.sort(test)) for test in np.split(order, 3)]
    results = []
    for many in (61, 0):
        monkeypatch.setattr("textsvm.training.fold_grams.MANY", many)
        with pytest.warns(LeakageWarning):
            results.append(cross_validate(SVC(device="cpu"), documents, y, cv=folds))
    monkeypatch.setattr(search, "_normalised", lambda *a: pytest.fail("a matrix is needed no more"))
    with pytest.warns(LeakageWarning):
        cross_validate(SVC(device="cpu"), documents, y, cv=folds)
    for matrix, features in zip(*(result.leaks for result in results), strict=True):
        assert len(matrix.test) > 3
        np.testing.assert_array_equal(features.test, matrix.test)
        np.testing.assert_array_equal(features.train, matrix.train)
        np.testing.assert_allclose(features.value, matrix.value, atol=1e-6)


def copies():
    """Sixty texts of which twenty are nearly others, and authors of four texts each."""
    documents, y = texts(40)
    documents = [f"{text} {text[::-1]} " * 3 for text in documents]
    return (
        documents + [text + "z" for text in documents[:20]],
        np.concatenate([y, y[:20]]),
        np.arange(60) // 4,
    )


def test_copies_are_reported_before_the_work_and_can_be_kept_together(monkeypatch):
    documents, y, _ = copies()
    model = SVC(Spectrum(p=3), device="cpu")
    with pytest.warns(LeakageWarning, match="trained on a near-duplicate") as caught:
        result = cross_validate(model, documents, y, cv=4)
    assert len(caught) == 1
    leaked = np.unique(np.concatenate([leak.test for leak in result.leaks]))
    assert str(caught[0].message).startswith(f"{len(leaked)} documents are tested")
    assert 20 < len(leaked) <= 40
    for (train, test), leak in zip(result.folds, result.leaks, strict=True):
        assert set(leak.test) <= set(test)
        assert set(leak.train) <= set(train)
        assert (np.abs(leak.test - leak.train) == 40).all()
    monkeypatch.setattr("textsvm.training.fold_grams.solve", lambda *a, **k: pytest.fail("too late"))
    with warnings.catch_warnings(action="error", category=LeakageWarning), pytest.raises(LeakageWarning):
        cross_validate(model, documents, y, cv=4)


@pytest.mark.parametrize("grouped", [True, False])
def test_copies_kept_together_with_given_groups(grouped):
    documents, y, authors = copies()
    with warnings.catch_warnings(action="error", category=LeakageWarning):
        result = cross_validate(
            SVC(Spectrum(p=3), device="cpu"), documents, y, cv=3, groups=authors if grouped else None,
            group_duplicates=0.98,
        )  # fmt: skip
    assert result.leaks == []
    for train, test in result.folds:
        assert not {documents[i] for i in train} & {documents[i] for i in test}
        if grouped:
            assert not set(authors[train]) & set(authors[test])


@pytest.mark.parametrize("block", [1, 20, 1 << 20])
@pytest.mark.parametrize("normalised", [True, False])
@pytest.mark.parametrize("bound", [0.5, 0.98, 1.0])
def test_held_out_documents_are_compared_with_all_training_ones(monkeypatch, block, normalised, bound):
    monkeypatch.setattr(search, "BLOCK", block)
    training = ["the cat sat on the mat", "a dog ran in the park", "something else again", "xyz", "zz top"]
    held = ["a dog ran in the parks", "nothing at all", "", "xyz", "another cat sat on the mat", "ъъъ"]
    model = SVC(Spectrum(p=2, normalised=normalised)).fit(training, [0, 1, 0, 1, 0])
    encoded = encode(training + held)
    whole = Spectrum(p=2).fit(encoded).rows(encoded, select("cpu")).gram()[5:, :5]
    expected = [i for i in range(len(held)) if whole[i].max() >= min(bound, 1 - 1e-5)]
    leak = held_out_leak(model, training, held, bound)
    assert leak.test.tolist() == expected
    assert expected
    np.testing.assert_array_equal(leak.train, whole[expected].argmax(1))
    np.testing.assert_allclose(leak.value, whole[expected].max(1), rtol=1e-6)
    assert leak.share == len(expected) / len(held)


def test_vectors_are_near_duplicates_if_they_are_equal_and_the_largest_share_is_named():
    x = np.repeat(np.eye(3), 8, axis=0) + 0.05 * np.random.default_rng(0).normal(size=(24, 3))
    y, cosines = np.arange(24) % 2, x @ x.T / np.outer(*[np.linalg.norm(x, axis=1)] * 2)
    assert (cosines > 0.99).sum() > 24 + 20
    with warnings.catch_warnings(action="error", category=LeakageWarning):
        assert not any(
            len(leak.test) for leak in cross_validate(SVC(Linear(), device="cpu"), x, y, cv=3).leaks
        )
    leaks = [Leak(np.array([k]), np.array([9]), np.ones(1), share) for k, share in enumerate((0.1, 0.5))]
    assert "up to 50.0% of a test part" in leakage_message(leaks)
