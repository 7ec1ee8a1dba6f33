"""Documents as sparse rows of p-mers, on the CPU: ids, counts and the widths of their numbers."""

from collections import Counter
from itertools import pairwise
from unittest.mock import patch

import numpy as np
import oracles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import random_sparse
from refusals import refuses
from test_spectrum import CPU, news

from textsvm.kernels.options import WEIGHTS
from textsvm.kernels.shared import counting
from textsvm.kernels.shared import counting as vocabulary
from textsvm.kernels.shared.counting import count
from textsvm.kernels.spectrum.features import CountedDocuments
from textsvm.kernels.spectrum.kernel import Spectrum
from textsvm.linalg import sparse
from textsvm.linalg.rows import SharedFeatures
from textsvm.linalg.sparse import Sparse
from textsvm.runtime.parallel import limit
from textsvm.text.documents import encode


@settings(max_examples=60)
@given(
    texts=st.lists(st.text(st.sampled_from("abcdefgh"), max_size=60), max_size=5),
    p=st.integers(1, 90),
    more=st.integers(0, 3),
)
def test_every_pmer_is_counted_and_found_again(texts, p, more):
    found, counts = count(encode(texts), p, p + more)
    expected = [Counter() for _ in texts]
    for row, text in zip(expected, texts, strict=True):
        for q in range(p, p + more + 1):
            row.update(oracles.pmers(text, q))
    assert found.first[-1] == len(set().union(*expected))
    for i, row in enumerate(expected):
        here = slice(counts.indptr[i], counts.indptr[i + 1])
        assert sorted(counts.counts[here]) == sorted(row.values())
        assert len(set(counts.features[here])) == len(row)
    np.testing.assert_array_equal(found.find(found), np.arange(found.first[-1]))


@pytest.mark.slow
@pytest.mark.parametrize("weight", WEIGHTS)
def test_features_beyond_32_bits_are_numbered_in_64(weight, monkeypatch):
    documents = encode(news(60))
    new = encode(news(20, 1), documents.alphabet)
    coef = np.random.default_rng(0).normal(size=(60, 2))

    def values():
        rows = Spectrum((1, 3), weight).rows(documents, CPU)
        return rows.x.features.dtype, rows.rows(np.arange(9)), rows.cross(new), rows.decision(new, coef)

    narrow = values()
    for module in (sparse, counting):
        monkeypatch.setattr(module, "MAX_INT32", 50)
    wide = values()
    assert (narrow[0], wide[0]) == (np.int32, np.int64)
    for a, b in zip(narrow[1:], wide[1:], strict=True):
        np.testing.assert_array_equal(a, b)


def test_more_symbols_than_ids_are_refused(monkeypatch):
    monkeypatch.setattr(vocabulary, "MAX_SYMBOLS", 10)
    refuses("11 symbols", Spectrum(2).rows(encode(["banana", "nanny"]), CPU).gram)


def plain_counts(documents, p1, p2):
    """Ids by rank among all keys, counts in order of first occurrence: as slowly and plainly as it reads."""
    texts = [documents.codes[a:b].tolist() for a, b in pairwise(documents.offsets)]
    rows, base = [{} for _ in texts], 0
    for q in range(p1, min(p2, max(map(len, texts), default=0)) + 1):
        windows = [[tuple(text[i : i + q]) for i in range(len(text) - q + 1)] for text in texts]
        # Ranks of (id of the first q - 1 symbols, last symbol) are in the order of the windows.
        known = sorted({window for each in windows for window in each})
        number = {window: base + k for k, window in enumerate(known)}
        if q == 1:
            number = {(code,): base + code for code in range(len(documents.alphabet))}
        for row, each in zip(rows, windows, strict=True):
            for window in each:
                row[number[window]] = row.get(number[window], 0) + 1
        base += len(number)
    return rows, base


@settings(max_examples=60)
@given(
    texts=st.lists(st.text(st.sampled_from("abcdefgh"), max_size=60), min_size=1, max_size=6),
    p=st.integers(1, 2),
    more=st.integers(0, 4),
    table=st.sampled_from([0, 1, 64]),
)
def test_counts_are_those_of_a_plain_loop_by_table_and_by_sorting(texts, p, more, table):
    documents = encode(texts)
    with patch.object(counting, "TABLE", table), patch.object(counting, "SORTED", 0), limit(3):
        _, counts = count(documents, p, p + more)
    rows, _ = plain_counts(documents, p, p + more)
    for i, row in enumerate(rows):
        here = slice(counts.indptr[i], counts.indptr[i + 1])
        assert list(row) == counts.features[here].tolist()
        assert list(row.values()) == counts.counts[here].tolist()


def test_features_are_the_same_bits_for_any_number_of_threads():
    texts = news(1600)
    kernels = [Spectrum((1, 5), "log", idf=True), Spectrum((3, 6), "presence", idf=True, odds=True),
               Spectrum((1, 4), "intersection")]  # fmt: skip
    documents = encode(texts).with_classes(np.arange(len(texts)) % 3)
    assert len(documents.codes) > 2 * sparse.SERIAL_SIZE
    for kernel in kernels:
        found = []
        for jobs in (1, 2, 5):
            with limit(jobs):
                counted, train = CountedDocuments(kernel, documents), np.arange(0, len(texts), 2)
                kernel.features.fit_counted(counted, train)
                found.append((counted.counts, counted.rows(kernel, train)))
        for counts, rows in found[1:]:
            for mine, first in zip(vars(counts).values(), vars(found[0][0]).values(), strict=True):
                np.testing.assert_array_equal(mine, first)
            np.testing.assert_array_equal(rows.x.indptr, found[0][1].x.indptr)
            np.testing.assert_array_equal(rows.x.features, found[0][1].x.features)
            np.testing.assert_array_equal(rows.x.values, found[0][1].x.values)
            np.testing.assert_array_equal(rows.ridge, found[0][1].ridge)


@settings(max_examples=30)
@given(seed=st.integers(0, 1000), k=st.integers(1, 3), alone=st.sampled_from([0, 1 << 14]))
def test_products_and_rows_are_the_bits_of_scipy(seed, k, alone):
    rng = np.random.default_rng(seed)
    given_ = random_sparse((40, 25), 0.2, rng, np.float32)
    x = Sparse(given_.indptr.astype(np.int64), given_.indices.astype(np.int32), given_.data, 25)
    right, left = rng.normal(size=(25, k)), rng.normal(size=(40, k)) * (rng.random((40, 1)) < 0.5)
    some = rng.permutation(40)[:17]
    with patch.object(sparse, "SERIAL_SIZE", alone), limit(3):
        np.testing.assert_array_equal(x.dot(right), given_ @ right)
        np.testing.assert_array_equal(x.transposed_dot(left), given_.T @ left)
        np.testing.assert_array_equal(x.frequencies(), np.bincount(x.features, minlength=25))
        taken = x.take(some)
    np.testing.assert_array_equal(taken.features, given_[some].indices)
    np.testing.assert_array_equal(taken.values, given_[some].data)


@settings(max_examples=30)
@given(seed=st.integers(0, 1000))
def test_shared_features_come_commonest_first(seed):
    rng = np.random.default_rng(seed)
    given_ = random_sparse((30, 20), 0.1, rng)
    x = Sparse(given_.indptr.astype(np.int64), given_.indices.astype(np.int32),
               rng.integers(1, 5, given_.nnz).astype(np.float32), 20)  # fmt: skip
    df = np.bincount(x.features, minlength=20)
    whole = SharedFeatures.of([x], df)
    number = np.flatnonzero(df > 1)
    np.testing.assert_array_equal(whole.number, number[np.argsort(-df[number], kind="stable")])
    halves = (x.take(np.arange(first, first + 15)) for first in (15, 0))
    for mine, theirs in zip(vars(SharedFeatures.of(halves, df)).values(), vars(whole).values(), strict=True):
        np.testing.assert_array_equal(mine, theirs)
