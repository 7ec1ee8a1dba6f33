"""Kernels of distances between l-mers, mismatch and gkm: CPU twin against textbooks, and against LS-GKM."""

from itertools import product

import numpy as np
import oracles
import pytest
from contracts import KernelContract
from hypothesis import given, settings
from hypothesis import strategies as st
from loading import load
from sklearn.base import clone
from test_gapped import dna

from textsvm import SVC, save
from textsvm.cli.console import WrongUsage
from textsvm.cli.machines import options_of
from textsvm.errors import InputError
from textsvm.kernels import KERNELS, GappedKmers, Gkm, Mismatch, spelling
from textsvm.kernels.mers import cpu as mer_distances
from textsvm.kernels.mers import rows as mer_scores
from textsvm.kernels.mers.kernel import gkm_weights, mismatch_weights
from textsvm.runtime.device import select
from textsvm.text.documents import encode, encode_as

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


def expected(kernel, rows, columns):
    value = judged(kernel)
    return np.array([[value(s, t) for t in columns] for s in rows]).reshape(len(rows), len(columns))


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
        [*dna(3, 1), "", "ac", "xx" if not kernel.canonical else "nn"],
    )
    documents = encode(texts)
    rows = kernel.fit(documents).rows(documents, CPU)
    np.testing.assert_allclose(rows.gram(), expected(kernel, texts, texts), rtol=1e-6, atol=1e-9)
    others = encode(new, documents.alphabet)
    np.testing.assert_allclose(rows.cross(others), expected(kernel, new, texts), rtol=1e-6, atol=1e-9)


@pytest.mark.slow
@settings(max_examples=30)
@given(data=st.data())
def test_any_texts_agree_with_the_oracle(data):
    kernel = data.draw(st.sampled_from([*OF_DNA, Gkm(2, 1, 2, "none"), Gkm(5, 2, 3, "none", canonical=True)]))
    letters = "acgt" if kernel.alphabet == 4 and kernel.definition.counts_letters else "acgtn"
    texts = data.draw(st.lists(st.text(st.sampled_from(letters), max_size=20), min_size=1, max_size=6))
    others = data.draw(st.lists(st.text(st.sampled_from(letters), max_size=20), max_size=3))
    documents = encode(texts)
    rows = kernel.fit(documents).rows(documents, CPU)
    np.testing.assert_allclose(rows.gram(), expected(kernel, texts, texts), rtol=1e-6, atol=1e-9)
    cross = rows.cross(encode(others, documents.alphabet))
    np.testing.assert_allclose(cross, expected(kernel, others, texts), rtol=1e-6, atol=1e-9)


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


@pytest.mark.slow
@pytest.mark.parametrize("kernel", OF_DNA, ids=str)
def test_rows_cross_decision_and_predictors_agree_with_the_gram(kernel, monkeypatch):
    documents = encode([*dna(60), "", "ac", "ac"])
    rows, n = kernel.rows(documents, CPU), len(documents)
    gram = rows.gram()
    monkeypatch.setattr(mer_distances, "WORDS", 8)
    monkeypatch.setattr(mer_distances, "COUNTS", 900)
    np.testing.assert_array_equal(kernel.rows(documents, CPU).gram(), gram)
    rows = kernel.rows(documents, CPU)
    for some in (np.array([5]), np.arange(0, n, 7), np.arange(n)):
        np.testing.assert_array_equal(rows.rows(some), gram[some])
    np.testing.assert_array_equal(rows.cross(documents), gram)
    coef = np.random.default_rng(0).normal(size=(n, 3))
    letters = "acgtn" if kernel.canonical else "acgtx"
    new = encode([*dna(40, 1, letters=letters), *dna(40, 2), "", "ac", "gt"], documents.alphabet)
    decided = rows.cross(new) @ coef
    for room in (mer_scores.TABLE_BYTES, 0):
        monkeypatch.setattr(mer_scores, "TABLE_BYTES", room)
        predictor = kernel.predictor(documents, coef.T, CPU)
        np.testing.assert_allclose(predictor.values(new), decided, rtol=1e-5, atol=1e-5)
        assert ("table" in vars(predictor)) == (room > 0)
        np.testing.assert_allclose(rows.decision(new, coef), decided, rtol=1e-5, atol=1e-5)


def test_a_predictor_decides_in_batches_as_at_once(monkeypatch):
    documents = encode(dna(60))
    coef = np.random.default_rng(0).normal(size=(2, 60))
    predictor = Gkm(4, 2, 2).predictor(documents, coef, CPU)
    new, seen = encode([*dna(40, 1), "", "x" * 9], documents.alphabet), []
    whole = predictor.values(new)
    monkeypatch.setattr(mer_scores, "BATCH", 300)
    batches = predictor.values(new, lambda done, total: seen.append((done, total)))
    np.testing.assert_allclose(batches, whole, rtol=1e-12, atol=1e-12)
    assert len(seen) > 3
    assert seen[-1] == (42, 42)
    assert predictor.values(encode([], documents.alphabet)).shape == (0, 2)


@pytest.mark.parametrize("room", [mer_scores.TABLE_BYTES, 0])
def test_values_of_mers_add_up_to_the_value_of_a_text(room, monkeypatch):
    monkeypatch.setattr(mer_scores, "TABLE_BYTES", room)
    kernel = Gkm(4, 2, 2, canonical=True, normalised=False)
    documents, text = encode(dna(40)), "acgttgcanaccgt"
    coef = np.random.default_rng(0).normal(size=(2, 40))
    predictor = kernel.predictor(documents, coef, CPU)
    mers = [text[i : i + 4] for i in range(len(text) - 3)]
    scores = predictor.values(encode(mers, documents.alphabet))
    assert (scores[[i for i, mer in enumerate(mers) if "n" in mer]] == 0).all()
    values = predictor.values(encode([text], documents.alphabet))
    np.testing.assert_allclose(scores.sum(axis=0), values[0], rtol=1e-5)


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


def test_words_may_be_symbols():
    texts = ["the cat sat on the mat", "the dog sat on a mat", "a cat"]
    kernel = Gkm(3, 2, 1, "none", tokens="words")
    documents = encode_as(texts, "words")
    gram = kernel.fit(documents).rows(documents, CPU).gram()
    split = [tuple(t.split()) for t in texts]
    np.testing.assert_allclose(gram, expected(kernel, split, split), rtol=1e-6, atol=1e-9)
    model = SVC(kernel, device="cpu").fit(texts[:2] * 3, ["a", "b"] * 3)
    assert model.predict(texts[:2]).tolist() == ["a", "b"]
    with pytest.raises(InputError, match="the texts have 7 different symbols"):
        SVC(Mismatch(2, 1, tokens="words"), device="cpu").fit(texts[:2] * 3, ["a", "b"] * 3)


def test_it_is_saved_and_loaded(tmp_path):
    texts, labels, new = dna(60), ["a", "b"] * 30, dna(20, 1)
    for kernel in (Gkm(4, 2, 2, canonical=True), Mismatch(4, 2)):
        model = SVC(kernel, device="cpu").fit(texts, labels)
        save(model, tmp_path / kernel.name)
        again = load(tmp_path / kernel.name)
        assert again.kernel.get_params() == kernel.get_params()
        np.testing.assert_array_equal(again.decision_function(new), model.decision_function(new))


def test_it_is_spelled_on_a_line():
    assert spelling.parse("mismatch:5,m=1").get_params() == Mismatch(5, 1).get_params()
    kernel = spelling.parse("gkm:11,k=7,d=3,none,canonical")
    assert kernel.get_params() == Gkm(11, 7, 3, "none", True).get_params()
    for other in (kernel, Gkm(), Mismatch(), *OF_DNA[:-1], Gkm(2, 2, 0, "none", tokens="words")):
        if other.normalised:
            assert spelling.parse(spelling.spell(other)).get_params() == other.get_params()


def test_it_is_a_grid_of_options():
    options = options_of(KERNELS)
    found = options(kernel=["gkm"], k="6,7", canonical=True).grid()
    assert [kernel.get_params() for kernel in found] == [
        Gkm(k=k, canonical=True).get_params() for k in (6, 7)
    ]
    wrong = (({"m": "x"}, "m x is no whole number"), ({"k": "3", "m": "3"}, "m=3"))
    for given_, message in wrong:
        with pytest.raises(WrongUsage, match=message):
            options(kernel=["mismatch"], **given_).grid()


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (Mismatch(0), "k=0"),
        (Mismatch(2.5), "k=2.5"),
        (Mismatch(4, 4), "m=4"),
        (Mismatch(4, -1), "m=-1"),
        (Mismatch(20, 8), "m=8 mismatches are too many: give 7"),
        (Mismatch(alphabet=1), "alphabet=1"),
        (Mismatch(canonical="yes"), "canonical='yes'"),
        (Mismatch(canonical=True, tokens="words"), "tokens='words'"),
        (Mismatch(canonical=True, alphabet=20), "alphabet=20 must be 4"),
        (Gkm(0), "l=0"),
        (Gkm(65), "l=65"),
        (Gkm(5, 6), "k=6"),
        (Gkm(5, 0), "k=0"),
        (Gkm(5, 3, 6), "d=6"),
        (Gkm(40, 3, 16), "d=16 mismatches are too many: give 15"),
        (Gkm(filter="some"), "filter='some'"),
    ],
)
def test_impossible_parameters_are_refused(kernel, message):
    with pytest.raises(InputError, match=message):
        kernel.fit(encode(["banana"]))


def test_other_letters_are_refused():
    with pytest.raises(InputError, match="no letter of DNA or RNA"):
        Mismatch(3, 1, canonical=True).rows(encode(["acxgt"]), CPU)
    with pytest.raises(InputError, match="have 5 different symbols"):
        Gkm(3, 2, 1).fit(encode(["acgtn"]))
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
def test_cost_and_divisions(kernel):
    lengths = np.array([10, 2000, 0])
    cost = kernel.cost.of_rows(lengths, np.array([300, 40]))
    assert cost.shape == (3,)
    assert cost[1] > cost[0] > cost[2] == 0
    assert kernel.cost.quadratic
    documents = encode(dna(80))
    assert kernel.cost.tileable(documents)
    rows, some = kernel.rows(documents, CPU), np.arange(20, 50)
    tile = kernel.rows(documents.take(some), CPU).cross(documents.take(np.arange(10)))
    np.testing.assert_array_equal(tile, rows.gram()[:10, some])
