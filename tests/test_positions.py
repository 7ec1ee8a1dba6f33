"""Kernels that know positions on the CPU: weighted degree with shifts, oligo, locality-improved."""

from math import exp

import numpy as np
import pytest
from contracts import TEXTS, KernelContract
from hypothesis import example, given, settings
from hypothesis import strategies as st
from oracles import locality_improved, normalised, oligo, weighted_degree

from textsvm import SVC
from textsvm.cli.console import WrongUsage
from textsvm.cli.kernels import options_of
from textsvm.errors import InputError
from textsvm.evaluation.explanation import explain
from textsvm.kernels import KERNELS, LocalityImproved, Oligo, WeightedDegree, spelling
from textsvm.runtime.device import select
from textsvm.runtime.simd import LANES
from textsvm.text.documents import encode, encode_as

CPU = select("cpu")


def case(kernel):
    """A kernel with its oracle."""
    if isinstance(kernel, WeightedDegree):

        def raw(s, t):
            return weighted_degree(s, t, kernel.degree, kernel.shift)
    elif isinstance(kernel, Oligo):

        def raw(s, t):
            return oligo(s, t, kernel.k, kernel.sigma, reach=12)  # as the kernel documents
    else:

        def raw(s, t):
            return locality_improved(s, t, kernel.window // 2, kernel.inner_degree, kernel.outer_degree)

    return kernel, (lambda s, t: normalised(raw, s, t)) if kernel.normalised else raw


CASES = [
    case(kernel)
    for kernel in (
        WeightedDegree(),
        WeightedDegree(3, 2),
        WeightedDegree(5, 70, normalised=False),
        Oligo(),
        Oligo(1, 0.3),
        Oligo(2, 20.0, normalised=False),
        LocalityImproved(),
        LocalityImproved(5, 2, 3),
        LocalityImproved(1, 1, 1, normalised=False),
    )
]


class TestPositionContract(KernelContract):
    cases = CASES


def agree(kernel, texts, others=()):
    documents, (_, oracle) = encode(texts), case(kernel)
    rows = kernel.rows(documents, CPU)
    expected = np.array([[oracle(s, t) for t in texts] for s in texts]).reshape(2 * [len(texts)])
    np.testing.assert_allclose(rows.gram(), expected, rtol=1e-6, atol=1e-30)
    expected = np.array([[oracle(s, t) for t in texts] for s in others]).reshape(len(others), len(texts))
    cross = rows.cross(encode(others, documents.alphabet))
    np.testing.assert_allclose(cross, expected, rtol=1e-6, atol=1e-30)


def test_worked_values():
    """By hand: "abab" and "abba" have a, b, ab in common at their places, and at distance 1 a, b and ba."""
    rows = {s: WeightedDegree(2, s, normalised=False).rows(encode(["abab", "abba"]), CPU) for s in (0, 1)}
    assert rows[0].gram()[0, 1] == pytest.approx((2 * 2 + 1) / 3)
    assert rows[1].gram()[0, 1] == pytest.approx((2 * 2 + 1) / 3 + (2 * (2 + 1) + (1 + 0)) / 3 / 4)
    rows = Oligo(2, 1.0, normalised=False).rows(encode(["abab", "abba"]), CPU)
    assert rows.gram()[0, 1] == pytest.approx(1 + exp(-1) + exp(-1 / 4))
    rows = LocalityImproved(3, 1, 2, normalised=False).rows(encode(["abab", "abba"]), CPU)
    assert rows.gram()[0, 1] == pytest.approx(((3 + 3 + 1) / 4) ** 2)


TEXT = st.text("ab", max_size=40) | st.text("abcd", max_size=75)


@given(
    st.lists(TEXT, max_size=4),
    st.lists(TEXT, max_size=2),
    st.tuples(st.integers(1, 32), st.integers(0, 1)) | st.tuples(st.integers(1, 5), st.integers(0, 70)),
)
@settings(max_examples=20, deadline=None)
@example(["a" * 64, "a" * 65, "a" * 130, "", "b"], ["a" * 63], (32, 0))
@example(["ab" * 32, "ba" * 33, "", "b"], ["a" * 63], (4, 70))
def test_weighted_degree_is_that_of_the_oracle(texts, others, degree_and_shift):
    agree(WeightedDegree(*degree_and_shift), texts, others)


@given(st.lists(TEXT, max_size=4), st.lists(TEXT, max_size=2), st.integers(1, 5), st.floats(0.05, 30))
@settings(max_examples=20, deadline=None)
@example(["a" * 64, "a" * 129, "", "b"], ["a" * 65], 5, 11.0)
@example(["b", "aaaaab"], [], 1, 0.375)
def test_oligo_is_that_of_the_oracle(texts, others, k, sigma):
    agree(Oligo(k, sigma), texts, others)


def test_pairs_that_oligo_leaves_out_are_below_the_rounding_error_of_a_match():
    first, last = "a" + "b" * 25, "c" * 25 + "a"  # a pair at 12.5 sigma
    assert 0 < oligo(first, last, 1, 2.0) < exp(-36) < 2.4e-16
    assert oligo(first, last, 1, 2.0, reach=12) == 0 == Oligo(1, 2.0)([first], [last])


@given(
    st.lists(TEXT, max_size=5),
    st.lists(TEXT, max_size=3),
    st.integers(0, 15),
    st.integers(1, 6),
    st.integers(1, 3),
)
@settings(max_examples=20, deadline=None)
@example(["a" * 64, "a" * 31, "a" * 30, "", "b"], ["a" * 33], 15, 10, 2)
def test_locality_improved_is_that_of_the_oracle(texts, others, side, inner, outer):
    agree(LocalityImproved(2 * side + 1, inner, outer), texts, others)


@pytest.mark.parametrize("kernel", [WeightedDegree(3, 4), Oligo(2, 3.0), LocalityImproved(5)])
def test_more_documents_than_lanes_in_any_order_and_large_alphabets(kernel):
    rng = np.random.default_rng(1)
    for symbols in (4, 300, 70_000):
        pieces = [rng.integers(0, symbols, n) % 9000 for n in rng.integers(0, 30, 3 * LANES + 5)]
        texts = ["".join(chr(0x4E00 + code) for code in piece) for piece in pieces]
        documents, (_, oracle) = encode(texts), case(kernel)
        rows = kernel.rows(documents, CPU)
        gram, some = rows.gram(), rng.integers(0, len(texts), 40)
        np.testing.assert_array_equal(rows.rows(some), gram[some])
        for i, j in rng.integers(0, len(texts), (60, 2)):
            assert gram[i, j] == pytest.approx(oracle(texts[i], texts[j]), rel=1e-6)


@pytest.mark.parametrize(
    "kernel", [*(kernel for kernel, _ in CASES), LocalityImproved(31, 10, 2, False)], ids=str
)
def test_a_value_has_the_same_bits_wherever_it_is_computed(kernel):
    rng = np.random.default_rng(4)
    documents = encode(["".join(rng.choice(list("ab"), n)) for n in [*range(70), *range(90, 3 * LANES + 90)]])
    rows = kernel.rows(documents, CPU)
    gram = rows.gram()
    np.testing.assert_array_equal(rows.cross(documents), gram)
    np.testing.assert_array_equal(rows.diag(), np.diag(gram))
    part = np.array([len(documents) - 1, 3, 50])
    np.testing.assert_array_equal(kernel.rows(documents.take(part), CPU).cross(documents), gram[:, part])


@pytest.mark.parametrize("kernel", [WeightedDegree(2, 3), Oligo(2, 1.0), LocalityImproved(3)])
def test_words_are_symbols(kernel):
    texts = ["the cat sat on the mat", "on the mat the cat sat", "a dog", ""]
    known, (_, oracle) = encode_as(texts, "words"), case(kernel)
    expected = [[oracle(tuple(s.split()), tuple(t.split())) for t in texts] for s in texts]
    np.testing.assert_allclose(kernel.rows(known, CPU).gram(), expected, rtol=1e-6)


def test_no_shift_compares_the_same_positions_only_and_a_large_sigma_forgets_them():
    texts = ["acgtacgt", "cgtacgta"]
    assert WeightedDegree(4, 0).rows(encode(texts), CPU).gram()[0, 1] == 0
    raw = Oligo(3, 1e6, normalised=False).rows(encode(texts), CPU).gram()
    both = [sum(s[i : i + 3] == t[j : j + 3] for i in range(6) for j in range(6)) for s, t in [texts]]
    assert raw[0, 1] == pytest.approx(both[0])


def test_what_is_left_out_of_the_oligo_kernel_is_below_the_rounding_of_what_is_not():
    kernel = Oligo(1, 2.0, normalised=False)
    reach = len(kernel.definition(10**6).weights)
    assert exp(-(reach**2) / (4 * 2.0**2)) < 2.0**-52
    assert kernel.rows(encode(["a" + "b" * 30, "c" * 30 + "a"]), CPU).gram()[0, 1] == 0


def test_weighted_degree_is_that_of_strkernels():
    strkernels = pytest.importorskip("strkernels")
    rng = np.random.default_rng(3)
    texts = ["".join(rng.choice(list("acgt"), n)) for n in rng.integers(1, 120, 30)]
    for degree in (1, 3, 8):
        other = strkernels.WeightedDegreeStringKernel(normalizer=None, degree=degree)
        expected = np.asarray(other(texts, texts)) * 2 / (degree * (degree + 1))
        gram = WeightedDegree(degree, normalised=False).rows(encode(texts), CPU).gram()
        np.testing.assert_allclose(gram, expected, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [kernel for kernel, _ in CASES], ids=str)
def test_contributions_are_exact(kernel):
    texts, labels = TEXTS["words"] + ["acgtacgtacgt", "acgaacgtaagt"], ["x", "y"] * 5
    for one in explain(SVC(kernel, device="cpu").fit(texts, labels), [*texts, "bananas", "Ω", ""]):
        assert one.exact
        assert one.symbols.sum() + one.bias == pytest.approx(one.value, abs=1e-6)


def test_a_symbol_that_nothing_has_at_its_place_contributes_nothing():
    model = SVC(WeightedDegree(3), device="cpu").fit(["aaaa", "bbbb", "aaab", "bbba"], [0, 1, 0, 1])
    (found,) = explain(model, ["aacaz"])
    assert found.symbols[2] == found.symbols[4] == 0
    assert found.symbols[:2].all()


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (WeightedDegree(0), "degree=0 of the weighted-degree kernel must be a whole number from 1 to 32"),
        (WeightedDegree(33), "degree=33"),
        (WeightedDegree(True), "degree=True"),
        (WeightedDegree(2.5), "degree=2.5"),
        (WeightedDegree(3, -1), "shift=-1 .* from 0"),
        (WeightedDegree(3, 1, "no"), "normalised='no'"),
        (Oligo(0), "k=0 of the oligo kernel must be a whole number from 1 to 32"),
        (Oligo(3, 0), "sigma=0 of the oligo kernel must be a finite number above 0"),
        (Oligo(3, float("nan")), "sigma=nan"),
        (Oligo(3, "wide"), "sigma='wide'"),
        (Oligo(3, 1e308), r"sigma=1e\+308 of the oligo kernel must be from 1e-300 to 1e300"),
        (Oligo(3, 5e-324), "from 1e-300"),
        (LocalityImproved(4), "window=4 of the locality kernel must be odd"),
        (LocalityImproved(33), "window=33 .* from 1 to 31"),
        (LocalityImproved(5, 11), "inner_degree=11"),
        (LocalityImproved(5, 1, 0), "outer_degree=0"),
        (Oligo(tokens="letters"), "tokens='letters'"),
    ],
)
def test_what_is_out_of_range_is_said(kernel, message):
    with pytest.raises(InputError, match=message):
        kernel.fit(encode(["a"]))


def test_spelled():
    for text, kernel in {
        "weighted-degree": WeightedDegree(),
        "weighted-degree:5,shift=2": WeightedDegree(5, 2),
        "oligo:4,sigma=1.5": Oligo(4, 1.5),
        "locality:7,inner_degree=2,outer_degree=3": LocalityImproved(7, 2, 3),
        "oligo:2,tokens=words,keep_case": Oligo(2, tokens="words", keep_case=True),
    }.items():
        assert str(spelling.parse(text)) == str(kernel)
        assert str(spelling.parse(spelling.spell(kernel))) == str(kernel)


def test_a_grid_of_options():
    options = options_of(KERNELS)
    found = options(kernel=["weighted-degree"], degree="3,5", shift="1", tokens="blosum62").grid()
    assert list(map(str, found)) == [str(WeightedDegree(d, 1, tokens="blosum62")) for d in (3, 5)]
    found = options(kernel=["oligo", "locality"], sigma="0.5", window="5").grid()
    assert list(map(str, found)) == [str(Oligo(3, 0.5)), str(LocalityImproved(5))]
    for wrong in ({"kernel": ["oligo"], "k": "x"}, {"kernel": ["locality"], "window": "4"}):
        with pytest.raises(WrongUsage, match=r"k x is no whole number|window=4"):
            options(**wrong).grid()


def test_work_is_predicted_by_what_texts_have_in_common():
    short, long = np.full(10, 100), np.full(10, 10_000)
    for kernel in (WeightedDegree(8, 3), Oligo(), LocalityImproved()):
        alone, mixed, large = (kernel.cost.of_rows(rows, columns).sum() for rows, columns in
                               ((short, short), (short, long), (long, long)))  # fmt: skip
        assert alone == pytest.approx(mixed)
        assert 20 * alone < large
        assert kernel.cost.tileable(encode(["a"]))
