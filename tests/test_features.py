"""Documents as sparse rows of p-mers, on the CPU: ids, counts and the widths of their numbers."""

from collections import Counter

import numpy as np
import oracles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_spectrum import CPU, news

from textsvm.documents import encode
from textsvm.errors import InputError
from textsvm.features import sparse, vocabulary
from textsvm.features.pmers import count
from textsvm.features.vocabulary import plan
from textsvm.kernels.spectrum import WEIGHTS, Spectrum


@settings(max_examples=60)
@given(
    texts=st.lists(st.text(st.sampled_from("abcdefgh"), max_size=60), max_size=5),
    p=st.integers(1, 90),
    more=st.integers(0, 3),
)
def test_every_pmer_is_counted_and_found_again(texts, p, more):
    documents = encode(texts)
    found, counts = count(documents, p, p + more)
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


def test_the_plan_reaches_every_length_asked_for():
    for p1 in range(1, 80):
        for p2 in range(p1, p1 + 4):
            known = {1}
            for q, a, b in plan(p1, p2):
                assert {a, b} <= known
                assert max(a, b) < q <= a + b
                known.add(q)
            assert set(range(p1, p2 + 1)) <= known


@pytest.mark.parametrize("weight", WEIGHTS)
def test_features_beyond_32_bits_are_numbered_in_64(weight, monkeypatch):
    documents = encode(news(60))
    new = encode(news(20, 1), documents.alphabet)
    coef = np.random.default_rng(0).normal(size=(60, 2))

    def values():
        rows = Spectrum((1, 3), weight).rows(documents, CPU)
        return rows.x.features.dtype, rows.rows(np.arange(9)), rows.cross(new), rows.decision(new, coef)

    narrow = values()
    monkeypatch.setattr(sparse, "MAX_INT32", 50)
    wide = values()
    assert (narrow[0], wide[0]) == (np.int32, np.int64)
    for a, b in zip(narrow[1:], wide[1:], strict=True):
        np.testing.assert_array_equal(a, b)


def test_more_symbols_than_ids_are_refused(monkeypatch):
    monkeypatch.setattr(vocabulary, "MAX_SYMBOLS", 10)
    with pytest.raises(InputError, match="11 symbols"):
        Spectrum(2).rows(encode(["banana", "nanny"]), CPU).gram()
