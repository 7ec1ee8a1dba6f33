"""Kernels of distances between l-mers, mismatch and gkm: CPU twin against textbooks, and against LS-GKM."""

from itertools import product

import numpy as np
import oracles
import pytest
from contracts import KernelContract, check, dna
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refuses
from sklearn.base import clone

from textsvm import SVC
from textsvm.errors import InputError
from textsvm.kernels import GappedKmers, Gkm, Mismatch
from textsvm.kernels.mers.kernel import gkm_weights, mismatch_weights
from textsvm.runtime.device import select
from textsvm.text.documents import encode

CPU = select("cpu")


def judged(kernel):
    """The textbook's value of a kernel, normalised where it is."""
    canonical = kernel.canonical
    if isinstance(kernel, Mismatch):

        def value(s, t):
            return oracles.mismatch(s, t, kernel.k, kernel.m, "acgt", canonical)
    else:

        def value(s, t):
            return oracles.gkm(s, t, kernel.l, kernel.k, kernel.d, kernel.filter, canonical)

    return (lambda s, t: oracles.normalised(value, s, t)) if kernel.normalised else value


def variants():
    kernels = [
        Mismatch(1, 0, alphabet=2000),
        Mismatch(3, 0, alphabet=2000),
        Gkm(4, 2, 2, "none"),
        Gkm(3, 3, 0, "none"),
    ]
    return [(kernel, judged(kernel)) for kernel in kernels]


class TestMers(KernelContract):
    cases = variants()


OF_DNA = [
    Mismatch(3, 1),
    Mismatch(4, 2, canonical=True),
    Gkm(4, 2, 2),
    Gkm(4, 2, 4, "full", canonical=True),
    Gkm(4, 3, 3, canonical=True, normalised=False),
]


@pytest.mark.slow
@pytest.mark.parametrize("kernel", OF_DNA, ids=str)
def test_values_of_dna_agree_with_the_oracle(kernel):
    texts, new = (
        [*dna(6, length=80), "ac", "acgta"],
        [*dna(3, 1), "", "ac", "nn" if kernel.canonical else "xx"],
    )
    check(kernel, judged(kernel), texts, new, atol=1e-9)


@pytest.mark.slow
@settings(max_examples=30)
@given(data=st.data())
def test_any_texts_agree_with_the_oracle(data):
    kernel = data.draw(st.sampled_from([*OF_DNA, Gkm(2, 1, 2, "none"), Gkm(5, 2, 3, "none", canonical=True)]))
    letters = "acgt" if kernel.alphabet == 4 and kernel.definition.counts_letters else "acgtn"
    texts = data.draw(st.lists(st.text(st.sampled_from(letters), max_size=20), min_size=1, max_size=6))
    others = data.draw(st.lists(st.text(st.sampled_from(letters), max_size=20), max_size=3))
    check(kernel, judged(kernel), texts, others, atol=1e-9)


def test_values_worked_out_by_hand():
    # aab and abb are within 1 of both; abb and bba differ at two places: aba and bbb are. Of itself: 4.
    rows = Mismatch(3, 1, alphabet=2, normalised=False).rows(encode(["aab", "abb", "bba"]), CPU)
    np.testing.assert_array_equal(rows.gram(), [[4, 2, 0], [2, 4, 2], [0, 2, 4]])
    # acgt and acct share a.., .c.. of 4 choices of one position; the reverse complement of acgt is itself.
    rows = Gkm(4, 1, 4, "none", normalised=False).rows(encode(["acgt", "acct"]), CPU)
    np.testing.assert_array_equal(rows.gram(), [[4, 3], [3, 4]])


@pytest.mark.parametrize(("k", "m", "b"), [(3, 1, 4), (4, 2, 3), (3, 2, 2), (5, 1, 2)])
def test_weights_of_mismatches_are_counts_of_neighbours(k, m, b):
    letters = "acgt"[:b]
    strings = ["".join(z) for z in product(letters, repeat=k)]
    near = {u: set(oracles.mismatch_features(u, k, m, letters)) for u in strings}
    for d, weight in enumerate(mismatch_weights(k, m, b)):
        assert len(near["a" * k] & near["c" * d + "a" * (k - d)]) == weight
    assert all(len(near["a" * k] & near["c" * d + "a" * (k - d)]) == 0 for d in range(2 * m + 1, k + 1))


@pytest.mark.parametrize("filtered", ["none", "full", "truncated"])
@pytest.mark.parametrize(("l", "k", "b"), [(4, 2, 3), (4, 3, 2), (3, 3, 3), (3, 1, 4), (4, 2, 4)])
def test_weights_of_gkm_are_those_of_the_pseudo_inverse(l, k, b, filtered):  # noqa: E741
    np.testing.assert_allclose(
        gkm_weights(l, k, l, b, filtered), oracles.gkm_filter(l, k, filtered, b), atol=1e-12
    )


def test_a_sequence_is_its_reverse_complement():
    texts = [t for t in dna(25) if len(t) > 6][:18]
    turned = [t[::-1].translate(str.maketrans("acgt", "tgca")) for t in texts]
    for kernel in (Mismatch(5, 1, canonical=True), Gkm(6, 4, 2, canonical=True)):
        gram = kernel.rows(encode(texts + turned), CPU).gram()
        np.testing.assert_array_equal(gram[:18, 18:], gram[:18, :18])
        alone = clone(kernel).set_params(canonical=False).rows(encode(texts + turned), CPU).gram()
        assert np.abs(alone[:18, 18:] - alone[:18, :18]).max() > 0.1


@pytest.mark.parametrize("canonical", [False, True])
def test_all_gapped_kmers_are_those_of_the_gapped_kernel(canonical):
    documents = encode(dna(60))
    gram = Gkm(6, 4, 2, "none", canonical=canonical).rows(documents, CPU).gram()
    judge = GappedKmers(6, 2, canonical, "count").rows(documents, CPU).gram()
    np.testing.assert_allclose(gram, judge, rtol=1e-6, atol=1e-9)


def test_an_n_counts_for_nothing_on_both_strands():
    kernel = Gkm(4, 2, 2, canonical=True)
    gram = kernel.rows(
        encode(["acgtacg", "acgtacgn", "nacgtacgnnnnnn", "nnnnnn", "nnnnnn", "nnnnn", "acguacg"]), CPU
    ).gram()
    same = [0, 1, 2, 6]
    np.testing.assert_allclose(gram[np.ix_(same, same)], 1, rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(gram[3:6, 3:6], [[1, 1, 0], [1, 1, 0], [0, 0, 1]])
    assert (gram[3:6][:, same] == 0).all()


def test_contributions_are_exact_and_named():
    texts, support = ["acgtacgatt", "ttgacaacgt", "aaccaacaa", "aa"], ["acgtaaacgt", "gattaca", "ttgac"]
    coef = np.array([[1.0, -2.0, 0.5], [0.3, 0.2, -1.0], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0]])
    columns = encode(support)
    documents = encode(texts, columns.alphabet)
    for kernel in OF_DNA:
        rows = kernel.rows(columns, CPU)
        values = rows.cross(documents).astype(np.float64)
        found = kernel.attribution.contributions(rows, documents, coef, values, None)
        sums = (coef * values).sum(axis=1)
        for d, text in enumerate(texts):
            assert found.symbols[d].sum() == pytest.approx(sums[d], rel=1e-5, abs=1e-6)
            assert len(found.symbols[d]) == len(text)
            named = found.features[d]
            assert sum(value for *_, value in named) == pytest.approx(sums[d], rel=1e-5, abs=1e-6)
            assert sum(count for _, count, _ in named) == max(0, len(text) - kernel.definition.length + 1)
            assert len({name for name, *_ in named}) == len(named)


def test_other_letters_are_refused():
    refuses("no letter of DNA or RNA", Mismatch(3, 1, canonical=True).rows, encode(["acxgt"]), CPU)
    refuses("have 5 different symbols", Gkm(3, 2, 1).fit, encode(["acgtn"]))
    with pytest.raises(InputError, match="the texts have 5 different symbols"):
        SVC(Mismatch(2, 1, tokens="words"), device="cpu").fit(["the cat sat", "a dog"], ["a", "b"])
    Gkm(3, 2, 1).fit(encode(["acgt"], encode(["acgtn"]).alphabet))


#: What `gkmmatrix` of LS-GKM 0.1.2 prints of these, both strands, six digits: -t, -l, -k, -d, lower half.
SEQUENCES = [
    "AAGACAAATACGTAACATTCACGTCAGCACGTA",
    "CAATCACATATCATACACGTCAGCACGACACT",
    "CTGACCTGTATGTTATGTATTTGACTTCA",
    "TAACATACACGTCAGCACGAAACTTGTTGGC",
]
OF_LSGKM = [
    (Gkm(6, 4, 2, "none"), [0.518311, 0.429295, 0.383665, 0.55358, 0.612909, 0.373394]),
    (Gkm(6, 4, 2, "full"), [0.362603, 0.225625, 0.18863, 0.369712, 0.526148, 0.247628]),
    (Gkm(6, 4, 2), [0.479463, 0.380905, 0.334214, 0.510577, 0.58958, 0.340994]),
    (Gkm(11, 7, 3), [0.162147, 0.0979203, 0.0701072, 0.204554, 0.415096, 0.0687343]),
]


@pytest.mark.parametrize(("kernel", "printed"), OF_LSGKM, ids=str)
def test_values_are_those_that_lsgkm_prints(kernel, printed):
    documents = encode([sequence.lower() for sequence in SEQUENCES])
    gram = clone(kernel).set_params(canonical=True).rows(documents, CPU).gram()
    np.testing.assert_allclose(gram[np.tril_indices(4, -1)], printed, rtol=0, atol=6e-7)  # as rounded


@pytest.mark.parametrize("kernel", [Gkm(5, 3, 2), Mismatch(4, 1)], ids=str)
def test_tiles_are_parts_of_the_gram(kernel):
    documents = encode(dna(80))
    assert kernel.cost.tileable(documents)
    rows, some = kernel.rows(documents, CPU), np.arange(20, 50)
    tile = kernel.rows(documents.take(some), CPU).cross(documents.take(np.arange(10)))
    np.testing.assert_array_equal(tile, rows.gram()[:10, some])
