"""The gap-weighted subsequence kernel, CPU twin."""

from typing import ClassVar

import numpy as np
import oracles
import pytest
from contracts import KernelContract, random_texts, to_numpy
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit
from refusals import refuses

from textsvm.errors import InputError
from textsvm.kernels.gap.kernel import GapWeighted
from textsvm.runtime.device import select
from textsvm.text.documents import encode

OPTIONS = [
    {"p": 5, "decay": 0.5},
    {"p": 1, "decay": 0.3},
    {"p": 2, "decay": 1.0},
    {"p": 10, "decay": 0.01},
    {"p": 3, "decay": 0.9, "weights": (1.0, 0.0, 0.5)},
]


def case(p, decay, weights=None):
    def oracle(s, t):
        return oracles.normalised(lambda a, b: oracles.gap(a, b, p, decay, weights), s, t)

    return GapWeighted(p, decay, weights), oracle


#: Every decay at one order, and the other orders at the ends.
ORDERS = [(5, decay) for decay in (0.01, 0.1, 0.5, 0.9, 0.97, 1.0)]
ORDERS += [(p, decay) for p in (1, 2, 10) for decay in (0.01, 1.0)]


class GapContract(KernelContract):
    cases: ClassVar = [case(**options) for options in OPTIONS]
    atol = 1e-9

    @pytest.mark.parametrize(("p", "decay"), ORDERS)
    def test_decays_and_orders(self, p, decay, device):
        texts = random_texts([300, 1, 40, 200, 9, 10, 11, 299, 64, 65], "abcdef", p)
        texts = [t for t in texts if len(t) >= p]
        values = gram(GapWeighted(p, decay), texts, device)
        np.testing.assert_allclose(values, reference_gram(encode(texts), p, decay), rtol=1e-5, atol=1e-12)


class TestContract(GapContract):
    pass


@njit(cache=True)
def reference(s, t, p, decay):
    """The oracle's recurrence a row at a time, in float64, divided by decay^2p: k_p of two code arrays."""
    prefix = np.zeros((p, len(t) + 1))
    prefix[0] = 1.0
    total = 0.0
    for a in s:
        for j in range(len(t)):
            if t[j] == a:
                total += prefix[p - 1, j]
        for q in range(p - 1, 0, -1):
            inner = 0.0
            for j in range(len(t)):
                inner = decay * inner + (prefix[q - 1, j] if t[j] == a else 0.0)
                # Column j + 1 of the row above; level q - 1 has not been overwritten yet.
                prefix[q, j + 1] = decay * prefix[q, j + 1] + inner
    return total


def reference_gram(documents, p, decay):
    parts = [documents.codes[a:b] for a, b in zip(documents.offsets, documents.offsets[1:], strict=False)]
    n = len(parts)
    values = np.eye(n)
    own = [reference(part, part, p, decay) for part in parts]
    for i in range(n):
        for j in range(i):
            values[i, j] = values[j, i] = reference(parts[i], parts[j], p, decay) / np.sqrt(own[i] * own[j])
    return values


def gram(kernel, texts, device):
    documents = encode(texts)
    return to_numpy(kernel.fit(documents).rows(documents, device).gram())


def test_a_length_that_no_document_has_takes_neither_time_nor_memory(device):
    documents = encode(["banana", "bandana", ""])
    for kernel in (GapWeighted(900), GapWeighted(900, weights=[0] * 899 + [1], normalised=False)):
        rows = kernel.rows(documents, select("cpu"))
        np.testing.assert_array_equal(rows.gram(), np.eye(3) * kernel.normalised)
        expected = [[kernel.normalised, 0, 0], [0, 0, 0]]
        np.testing.assert_array_equal(rows.cross(encode(["banana", "nab"], documents.alphabet)), expected)


def test_the_fast_reference_is_the_oracle():
    for p, decay in [(1, 0.5), (2, 1.0), (5, 0.5), (10, 0.9)]:
        s, t = random_texts([40, 33], "abc", p)
        documents = encode([s, t])
        value = reference(documents.codes[:40], documents.codes[40:], p, decay) * decay ** (2 * p)
        assert value == pytest.approx(oracles.gap(s, t, p, decay), rel=1e-12)


@settings(max_examples=60)
@given(
    texts=st.lists(
        st.text(alphabet="ab", max_size=40) | st.text(alphabet="aXé🙂語", max_size=90),
        min_size=1,
        max_size=20,
    ),
    options=st.sampled_from(OPTIONS),
)
def test_any_texts(texts, options):
    kernel, oracle = case(**options)
    values = gram(kernel, texts, select("cpu"))
    expected = [[oracle(s, t) for t in texts[:3]] for s in texts]
    np.testing.assert_allclose(values[:, :3], expected, rtol=1e-5, atol=1e-9)


@settings(max_examples=15)
@given(decay=st.floats(0.01, 1.0), length=st.integers(4, 150), seed=st.integers(0, 99))
def test_any_decay(decay, length, seed):
    texts = random_texts([length, 150, 70], "abcd", seed)
    values = gram(GapWeighted(4, decay), texts, select("cpu"))
    np.testing.assert_allclose(values, reference_gram(encode(texts), 4, decay), rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("length", [15, 16, 17, 63, 64, 65, 127, 128, 129, 192])
def test_lengths_at_the_edges_of_lanes_and_strips(length, device):
    texts = random_texts([length] * 3 + [length - 1, length + 1, 5, 150], "abcde", length)
    documents = encode(texts)
    values = gram(GapWeighted(3, 0.8), texts, device)
    np.testing.assert_allclose(values, reference_gram(documents, 3, 0.8), rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("p", "decay"), [(5, 0.5), (10, 0.01), (10, 0.9), (5, 1.0), (10, 1.0)])
def test_one_repeated_character(p, decay, device):
    """k_p(a^n, a^m) is a product of two numbers, one of each string: all normalised values are 1."""
    texts = ["a" * n for n in (10, 11, 64, 100, 1000, 3001)]
    np.testing.assert_allclose(gram(GapWeighted(p, decay), texts, device), 1, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("p", "decay", "longest"), [(5, 0.5, 6_000), (3, 0.99, 6_000), (2, 1.0, 6_000)])
def test_long_documents(p, decay, longest, device):
    texts = [*random_texts([longest, 2_000, 700, 100], "etaoin shrdlu", p), "a" * 5000, ""]
    texts[1] = texts[0][1_000:3_000] + texts[1]
    values = gram(GapWeighted(p, decay), texts, device)
    expected = np.eye(6)
    expected[:4, :4] = reference_gram(encode(texts[:4]), p, decay)
    np.testing.assert_allclose(values[:4, :4], expected[:4, :4], rtol=1e-5)
    np.testing.assert_array_equal(values[5], expected[5])


def test_nothing_in_common_is_exactly_zero(device):
    texts = ["abcdefghij" * 5, "klmnopqrst" * 5, "abcdklmn", "zzzzzzzz", "abcde"]
    values = gram(GapWeighted(5, 0.9), texts, device)
    assert values[0, 1] == values[0, 3] == values[4, 1] == values[2, 4] == 0
    assert values[0, 4] > 0


def test_weights_that_pick_one_length_are_that_length(device):
    texts = random_texts([50, 60, 70], "etaoin shrdlu", 7)
    alone = gram(GapWeighted(3, 0.7), texts, device)
    for weights in [(0, 0, 2.0), (0, 0, 1e-9, 0), (0, 0, 5, 0, 0, 0)]:
        kernel = GapWeighted(len(weights), 0.7, weights)
        np.testing.assert_allclose(gram(kernel, texts, device), alone, rtol=1e-6)
        assert kernel.structure.min_length == 3
    assert GapWeighted(3, 0.7, (0, 1, 2)).structure.min_length == 2


@pytest.mark.slow
@pytest.mark.parametrize("weights", [(1, 1, 1, 1), (0, 1e-9, 0, 1), (1e-12, 0, 0, 1.0), (5, 0, 0, 1e-12)])
def test_blends_of_unlike_size(weights, device):
    texts = ["", "a", "ab", "abc", "abcd", "dcba", "abcdabcdabcd", *random_texts([80, 90], "abcd", 3)]
    kernel, oracle = case(4, 0.6, weights)
    expected = [[oracle(s, t) for t in texts] for s in texts]
    np.testing.assert_allclose(gram(kernel, texts, device), expected, rtol=1e-5, atol=1e-12)


@pytest.mark.slow
def test_values_out_of_range(device):
    refuses("document 1 is too long", gram, GapWeighted(100, 1.0), ["a", "a" * 2000], device)
    with pytest.raises(InputError, match="range of float32"):
        gram(GapWeighted(10, 0.001, normalised=False), ["abcdefghijklmnopqrst"], device)


def test_reuters(data, device):
    """Real texts of mixed lengths against the reference."""
    import html
    import re
    import tarfile

    from textsvm.text.documents import normalise

    with tarfile.open(data / "reuters21578" / "reuters21578.tar.gz") as archive:
        member = next(m for m in archive if m.name.endswith("reut2-003.sgm"))
        sgml = archive.extractfile(member).read().decode("latin-1")
    bodies = re.findall("<BODY>(.*?)</BODY>", sgml, re.DOTALL)[:15]
    texts = [normalise(html.unescape(body), "paper") for body in bodies]
    values = gram(GapWeighted(5, 0.5), texts, device)
    np.testing.assert_allclose(values, reference_gram(encode(texts), 5, 0.5), rtol=1e-5)
