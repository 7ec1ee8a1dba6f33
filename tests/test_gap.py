"""The gap-weighted subsequence kernel, CPU twin."""

from typing import ClassVar

import numpy as np
import oracles
import pytest
from contracts import KernelContract, to_numpy
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit
from sklearn.base import clone

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


class GapContract(KernelContract):
    cases: ClassVar = [case(**options) for options in OPTIONS]
    atol = 1e-9


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


def random_texts(seed, lengths, symbols="etaoin shrdlu"):
    rng = np.random.default_rng(seed)
    return ["".join(rng.choice(list(symbols), n)) for n in lengths]


def gram(kernel, texts, device):
    documents = encode(texts)
    return to_numpy(kernel.fit(documents).rows(documents, device).gram())


@pytest.mark.parametrize(
    "wrong",
    [{"decay": True}, {"p": True}, {"p": 200_000}, {"p": 2.0}, {"normalised": "no"}, {"decay": "0.5"}],
)
def test_parameters_out_of_range_are_refused(wrong):
    with pytest.raises(InputError, match=f"{next(iter(wrong))}="):
        GapWeighted(**wrong).check()


def test_a_length_that_no_document_has_takes_neither_time_nor_memory(device):
    documents = encode(["banana", "bandana", ""])
    for kernel in (GapWeighted(900), GapWeighted(900, weights=[0] * 899 + [1], normalised=False)):
        rows = kernel.rows(documents, select("cpu"))
        np.testing.assert_array_equal(rows.gram(), np.eye(3) * kernel.normalised)
        expected = [[kernel.normalised, 0, 0], [0, 0, 0]]
        np.testing.assert_array_equal(rows.cross(encode(["banana", "nab"], documents.alphabet)), expected)


def test_values_of_the_definition(device):
    decay = 0.5
    raw = gram(GapWeighted(2, decay, normalised=False), ["cat", "car", "bat"], device)
    assert raw[0, 1] == pytest.approx(decay**4)
    assert raw[0, 0] == pytest.approx(2 * decay**4 + decay**6)
    assert gram(GapWeighted(2, decay), ["cat", "car"], device)[0, 1] == pytest.approx(1 / (2 + decay**2))


def test_the_fast_reference_is_the_oracle():
    for p, decay in [(1, 0.5), (2, 1.0), (5, 0.5), (10, 0.9)]:
        s, t = random_texts(p, [40, 33], "abc")
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
    texts = random_texts(seed, [length, 150, 70], "abcd")
    values = gram(GapWeighted(4, decay), texts, select("cpu"))
    np.testing.assert_allclose(values, reference_gram(encode(texts), 4, decay), rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("length", [15, 16, 17, 63, 64, 65, 127, 128, 129, 192])
def test_lengths_at_the_edges_of_lanes_and_strips(length, device):
    texts = random_texts(length, [length] * 3 + [length - 1, length + 1, 5, 150], "abcde")
    documents = encode(texts)
    values = gram(GapWeighted(3, 0.8), texts, device)
    np.testing.assert_allclose(values, reference_gram(documents, 3, 0.8), rtol=1e-5)


#: Every decay at one order, and the other orders at the ends.
ORDERS = [(5, decay) for decay in (0.01, 0.1, 0.5, 0.9, 0.97, 1.0)]
ORDERS += [(p, decay) for p in (1, 2, 10) for decay in (0.01, 1.0)]


@pytest.mark.parametrize(("p", "decay"), ORDERS)
def test_decays_and_orders(p, decay, device):
    texts = random_texts(p, [300, 1, 40, 200, 9, 10, 11, 299, 64, 65], "abcdef")
    texts = [t for t in texts if len(t) >= p]
    values = gram(GapWeighted(p, decay), texts, device)
    np.testing.assert_allclose(values, reference_gram(encode(texts), p, decay), rtol=1e-5, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(("p", "decay"), [(5, 0.5), (10, 0.01), (10, 0.9), (5, 1.0), (10, 1.0)])
def test_one_repeated_character(p, decay, device):
    """k_p(a^n, a^m) is a product of two numbers, one of each string: all normalised values are 1."""
    texts = ["a" * n for n in (10, 11, 64, 100, 1000, 3001)]
    np.testing.assert_allclose(gram(GapWeighted(p, decay), texts, device), 1, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("p", "decay", "longest"), [(5, 0.5, 6_000), (3, 0.99, 6_000), (2, 1.0, 6_000)])
def test_long_documents(p, decay, longest, device):
    texts = [*random_texts(p, [longest, 2_000, 700, 100]), "a" * 5000, ""]
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
    texts = random_texts(7, [50, 60, 70])
    alone = gram(GapWeighted(3, 0.7), texts, device)
    for weights in [(0, 0, 2.0), (0, 0, 1e-9, 0), (0, 0, 5, 0, 0, 0)]:
        kernel = GapWeighted(len(weights), 0.7, weights)
        np.testing.assert_allclose(gram(kernel, texts, device), alone, rtol=1e-6)
        assert kernel.structure.min_length == 3


@pytest.mark.slow
@pytest.mark.parametrize("weights", [(1, 1, 1, 1), (0, 1e-9, 0, 1), (1e-12, 0, 0, 1.0), (5, 0, 0, 1e-12)])
def test_blends_of_unlike_size(weights, device):
    texts = ["", "a", "ab", "abc", "abcd", "dcba", "abcdabcdabcd", *random_texts(3, [80, 90], "abcd")]
    kernel, oracle = case(4, 0.6, weights)
    expected = [[oracle(s, t) for t in texts] for s in texts]
    np.testing.assert_allclose(gram(kernel, texts, device), expected, rtol=1e-5, atol=1e-12)


def test_order_and_company_do_not_matter(device):
    texts = random_texts(11, list(range(0, 120, 3)), "abc")
    whole = gram(GapWeighted(4, 0.5), texts, device)
    np.testing.assert_allclose(gram(GapWeighted(4, 0.5), texts[::-1], device), whole[::-1, ::-1], rtol=1e-6)
    few = [3, 30, 17]
    part = gram(GapWeighted(4, 0.5), [texts[i] for i in few], device)
    np.testing.assert_allclose(part, whole[np.ix_(few, few)], rtol=1e-6)


def test_gram_is_positive_semidefinite(device):
    values = gram(GapWeighted(3, 0.7), random_texts(13, [60] * 40, "abcd"), device)
    assert np.linalg.eigvalsh(values.astype(np.float64)).min() > -1e-5


def test_decision_is_the_weighted_sum(device):
    train, new = random_texts(1, [80] * 50), random_texts(2, [10, 0, 200, 80, 81])
    documents = encode(train)
    rows = GapWeighted(4, 0.5).rows(documents, device)
    others = encode(new, documents.alphabet)
    coef = np.random.default_rng(0).normal(size=(50, 3))
    expected = to_numpy(rows.cross(others)).astype(np.float64) @ coef
    np.testing.assert_allclose(to_numpy(rows.decision(others, coef)), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"p": 0}, "p=0"),
        ({"p": 2.5}, "p=2.5"),
        ({"p": True}, "p=True"),
        ({"decay": 0}, "decay=0"),
        ({"decay": 1.01}, "decay=1.01"),
        ({"decay": float("nan")}, "decay=nan"),
        ({"decay": "0.5"}, "decay='0.5'"),
        ({"p": 3, "weights": (1, 1)}, "must be 3 numbers"),
        ({"p": 1, "weights": "x"}, "must be 1 numbers"),
        ({"p": 2, "weights": (0, 0)}, "not all 0"),
        ({"p": 2, "weights": (1, -1)}, "not negative"),
        ({"p": 2, "weights": (1, float("inf"))}, "finite"),
    ],
)
def test_parameters_out_of_range(options, said):
    with pytest.raises(InputError, match=said):
        GapWeighted(**options).fit(encode(["abc"]))


@pytest.mark.slow
def test_values_out_of_range(device):
    with pytest.raises(InputError, match="document 1 is too long"):
        gram(GapWeighted(100, 1.0), ["a", "a" * 2000], device)
    with pytest.raises(InputError, match="range of float32"):
        gram(GapWeighted(10, 0.001, normalised=False), ["abcdefghijklmnopqrst"], device)


def test_parameters_are_scikit_learn_parameters():
    kernel = clone(GapWeighted(3, 0.2, (1, 2, 3), normalised=False))
    own = {"p": 3, "decay": 0.2, "weights": (1, 2, 3), "normalised": False}
    assert kernel.get_params() == own | {"tokens": "characters", "keep_case": False}


def test_agrees_with_strkernels(device):
    """Its subsequence kernel is the blend of all lengths up to `maxlen`, with weights 1."""
    strkernels = pytest.importorskip("strkernels")
    texts = random_texts(5, [30, 45, 60, 45], "abcde ")
    array = np.array(texts)
    theirs = strkernels.SubsequenceStringKernel(maxlen=3, ssk_lambda=0.5)(array, array)
    np.testing.assert_allclose(gram(GapWeighted(3, 0.5, (1, 1, 1)), texts, device), theirs, rtol=1e-5)


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
