"""The edit-distance kernel on the CPU, against the oracle and RapidFuzz."""

import lzma

import numpy as np
import pytest
from contracts import TEXTS, KernelContract, random_texts
from hypothesis import example, given, settings
from hypothesis import strategies as st
from oracles import edit, edit_distance

from textsvm.kernels.edit.kernel import LANES, EditDistance
from textsvm.runtime.device import select
from textsvm.text.documents import encode

BORDERS = [0, 1, 31, 32, 33, 63, 64, 65, 127, 128, 129, 191, 192, 193, 255, 256, 257, 511, 512, 513]
WIDE = "".join(chr(0x4E00 + k) for k in range(3000))


def distances(texts, others=None):
    documents = encode(texts)
    rows = EditDistance().rows(documents, select("cpu"))
    if others is None:
        return rows.distances_gram()
    return rows.distances(encode(others, documents.alphabet))


def rapidfuzz_distances(others, texts):
    process = pytest.importorskip("rapidfuzz.process")
    from rapidfuzz.distance import Levenshtein

    return process.cdist(others, texts, scorer=Levenshtein.distance, workers=-1, dtype=np.int32)


class TestEditContract(KernelContract):
    cases = [  # noqa: RUF012
        (EditDistance(0.05), lambda s, t: edit(s, t, 0.05)),
        (EditDistance(0.005), lambda s, t: edit(s, t, 0.005)),
        (EditDistance(2.0, relative=True), lambda s, t: edit(s, t, 2.0, relative=True)),
    ]


@given(st.lists(st.text("ab", max_size=40) | st.text("abcdefghij ", max_size=140), max_size=8))
@settings(max_examples=60)
@example(["", "", "a"])
@example(["a" * 128, "a" * 129, "b" * 128])
def test_distances_are_those_of_the_oracle(texts):
    expected = [[edit_distance(s, t) for t in texts] for s in texts]
    np.testing.assert_array_equal(
        distances(texts), np.array(expected, np.int32).reshape(len(texts), len(texts))
    )


@pytest.mark.slow
@given(st.lists(st.text(max_size=300), min_size=1, max_size=40), st.lists(st.text(max_size=300), max_size=5))
@settings(max_examples=60)
def test_distances_are_those_of_rapidfuzz_on_any_unicode(texts, others):
    texts = [t.replace("\x00", "0") for t in texts]
    others = [t.replace("\x00", "0") for t in others]
    np.testing.assert_array_equal(distances(texts), rapidfuzz_distances(texts, texts))
    expected = rapidfuzz_distances(others, texts).reshape(len(others), len(texts))
    np.testing.assert_array_equal(distances(texts, others), expected)


@pytest.mark.parametrize("alphabet", ["a", "ab", "abcdefghijklmnopqrstuvwxyz ", WIDE])
def test_lengths_around_word_and_strip_borders(alphabet):
    texts = random_texts(BORDERS * 2, alphabet)
    np.testing.assert_array_equal(distances(texts), rapidfuzz_distances(texts, texts))
    # Near copies, where a carry travels through many words.
    near = [t[: len(t) // 2] + "#" + t[len(t) // 2 + 1 :] for t in texts]
    np.testing.assert_array_equal(distances(texts, near), rapidfuzz_distances(near, texts))


def test_more_documents_than_lanes_in_any_order():
    rng = np.random.default_rng(1)
    texts = random_texts(rng.integers(0, 200, 5 * LANES + 7), "abcde")
    expected = rapidfuzz_distances(texts, texts)
    np.testing.assert_array_equal(distances(texts), expected)
    documents = encode(texts)
    picks = rng.integers(0, len(texts), 70)
    values = EditDistance(0.1).rows(documents, select("cpu")).rows(picks)
    np.testing.assert_allclose(values, np.exp(-0.1 * expected[picks]), rtol=1e-6)


@pytest.mark.slow
def test_a_hundred_thousand_symbols():
    texts = random_texts([100_000, 0, 3], "abcdefghijklmnopqrstuvwxyz ")
    part = [texts[0][50_000:55_000] + texts[0][55_010:60_000]]
    np.testing.assert_array_equal(distances(texts, part), rapidfuzz_distances(part, texts))
    np.testing.assert_array_equal(distances(part, texts), rapidfuzz_distances(texts, part))


@pytest.mark.parametrize("relative", [False, True])
def test_one_distance_matrix_serves_a_grid_over_gamma(relative):
    documents = encode(TEXTS["mixed lengths"] + TEXTS["words"])
    for gamma in (0.003, 0.7):
        kernel = EditDistance(gamma, relative)
        rows = kernel.rows(documents, select("cpu"))
        values = kernel.values(rows.distances_gram(), documents.lengths, documents.lengths)
        np.testing.assert_array_equal(values, rows.gram())


def test_equal_to_rapidfuzz_on_real_newswire(data):
    with lzma.open(data / "r8" / "r8-test-all-terms.txt.xz", "rt", encoding="utf-8") as lines:
        texts = [line.split("\t")[1].strip() for line in lines][:300]
    np.testing.assert_array_equal(distances(texts), rapidfuzz_distances(texts, texts))
