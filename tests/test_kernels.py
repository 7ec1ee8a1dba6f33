"""Laws of every kernel of texts: parameters, options, tokens, models that are saved and explained."""

import pickle
from math import exp

import numpy as np
import pytest
from contracts import dna
from loading import load
from refusals import refuses
from sklearn.base import clone
from test_columns import gram_of

import textsvm
from textsvm import (
    SVC,
    BoundedGap,
    CalibratedSVC,
    EditDistance,
    GappedKmers,
    GapWeighted,
    Gkm,
    Mismatch,
    Product,
    Spectrum,
    Sum,
)
from textsvm.cli.console import WrongUsage
from textsvm.cli.machines import options_of
from textsvm.evaluation.explanation import explain
from textsvm.kernels import KERNELS
from textsvm.kernels.mers import cpu as mer_distances
from textsvm.kernels.mers import gapped_rows
from textsvm.kernels.mers import rows as mers
from textsvm.kernels.options import GAPPED_WEIGHTS, WEIGHTS
from textsvm.kernels.shared import feature_rows
from textsvm.kernels.spelling import parse, spell
from textsvm.runtime.device import select
from textsvm.text.documents import encode, encode_as

CPU = select("cpu")
OWN = {
    "spectrum": [
        {"p": (1, 3), "weight": "log", "idf": True},
        {"p": 2, "weight": "intersection", "tokens": "words", "keep_case": True},
    ],
    "edit": [{"gamma": 0.1}, {"gamma": 0.5, "tokens": "whitespace"}],
    "gap": [{"p": 2}, {"p": 2, "tokens": "words"}],
    "gapped": [{"g": 3, "m": 2}],
    "mismatch": [{"k": 3, "alphabet": 40}],
    "gkm": [{"l": 4, "k": 2, "d": 2, "filter": "none", "tokens": "words"}],
    "bounded-gap": [{"p": 2}, {"p": 2, "decay": 0.5, "span": 3, "tokens": "words", "keep_case": True}],
}
#: Every registered kernel of texts, with the parameters above or the defaults.
SIMPLE = [KERNELS[name](**params) for name in KERNELS.simple() for params in OWN.get(name, [{}])]
SIMPLE = [kernel for kernel in SIMPLE if kernel.structure.examples == "texts"]
OF_DNA = [GappedKmers(5, 2, True, "count"), Gkm(4, 2, 2, canonical=True), Mismatch(4, 2)]
WORDS, CASED = Spectrum((1, 2), tokens="words"), Spectrum(2, keep_case=True)
SUMS = [
    Sum([Spectrum(2), WORDS, CASED, BoundedGap(2), EditDistance()]),
    Sum(
        [CASED, WORDS, BoundedGap(2), BoundedGap(2, tokens="words"), GapWeighted(2)], weights=[1, 1, 1, 3, 1]
    ),
    Product([CASED, Sum([WORDS, GapWeighted(2)])]),
]
TEXTS = [
    "Cheap pills for sale, buy now",
    "buy cheap Watches now now",
    "Win a prize, click now",
    "free Prize for you",
    "Sale sale sale of pills",
    "the Meeting is at noon",
    "please read the Agenda",
    "see you at the meeting",
    "The report is in the mail",
    "lunch at noon, at the usual place",
]
LABELS = ["spam"] * 5 + ["ham"] * 5
NEW = ["Buy the cheap report now now", "meeting about the prize, see the agenda", "Ünseen 日本", "zzz", ""]


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [*SIMPLE, *OF_DNA, *SUMS], ids=str)
def test_a_model_is_the_same_wherever_it_goes(kernel, tmp_path):
    """Calibrated, saved, loaded and pickled; and what characters contribute sums to the value."""
    texts, new = (dna(10, length=90), [*dna(4, 1), ""]) if kernel in OF_DNA else (TEXTS, NEW)
    model = CalibratedSVC(SVC(kernel, device="cpu"), cv=2, method="sigmoid").fit(texts, LABELS)
    textsvm.save(model, tmp_path / "m.textsvm")
    expected, explained = model.predict_proba(new), explain(model, new)
    exact = not isinstance(kernel, EditDistance | Product) and EditDistance not in map(
        type, kernel.structure.leaves
    )
    for one in explained:
        assert one.exact == exact
        assert len(one.symbols) == len(one.text)
        if exact:
            assert one.symbols.sum() + one.bias == pytest.approx(one.value, abs=1e-6)
    for again in (load(tmp_path / "m.textsvm"), pickle.loads(pickle.dumps(model))):
        assert spell(again.model_.kernel) == spell(model.model_.kernel)
        np.testing.assert_array_equal(again.decision_function(new), model.decision_function(new))
        np.testing.assert_array_equal(again.predict_proba(new), expected)
        for mine, theirs in zip(explain(again, new), explained, strict=True):
            np.testing.assert_allclose(mine.symbols, theirs.symbols, atol=1e-12)
            assert mine.text == theirs.text
            assert mine.value == pytest.approx(theirs.value, abs=1e-12)
            assert [one.index for one in mine.similar] == [one.index for one in theirs.similar]


@pytest.mark.parametrize("kernel", [*SIMPLE, *OF_DNA], ids=str)
def test_parameters_are_cloned_and_spelled(kernel):
    for same in (clone(kernel), parse(spell(kernel)), clone(parse(spell(kernel)))):
        assert type(same) is type(kernel)
        assert same.get_params() == kernel.get_params()


@pytest.mark.parametrize("tokens", ["words", "blosum62"])
@pytest.mark.parametrize("name", OWN)
def test_tokens_are_symbols(name, tokens):
    """Values are those of texts with a character in the place of each token."""
    texts, new = ["to be or not to be", "not to be", "be it so", ""], ["it be to not", "so be what it be"]
    if tokens == "blosum62":
        texts, new = ["mkvlaagivg", "mkilssgvig", "ppyfwhnhqd", ""], ["mrvmttglvg", "xmkb*"]
    params = {name: value for name, value in OWN[name][0].items() if name != "tokens"}
    kernel = KERNELS[name](**params, tokens=tokens)
    documents = encode_as(texts, tokens)
    others = encode_as(new, tokens, documents)
    place = {symbol: chr(0x4E00 + i) for i, symbol in enumerate(others.alphabet)}
    plain, theirs = (
        ["".join(place.get(s, s) for s in one.symbols(i)) for i in range(len(one))]
        for one in (documents, others)
    )
    rows = kernel.fit(documents).rows(documents, CPU)
    characters = clone(kernel).set_params(tokens="characters")
    known = encode(plain)
    expected = characters.fit(known).rows(known, CPU)
    np.testing.assert_allclose(rows.gram(), expected.gram(), rtol=1e-6)
    values = expected.cross(encode(theirs, known.alphabet))
    assert values.any()
    np.testing.assert_allclose(rows.cross(others), values, rtol=1e-6)


#: Numbers that decide between ways of the same work, by kernel: every way gives the same values.
BATCH = (feature_rows, "BATCH", 300)
WAYS = {
    Spectrum: [BATCH],
    BoundedGap: [BATCH],
    GappedKmers: [
        (gapped_rows, "KEEP_BYTES", 0),
        (gapped_rows, "MOST_KEYS", 0),
        (gapped_rows, "BATCH", 300),
        (gapped_rows, "WEIGHT_BYTES", 0),
    ],
    Gkm: [
        (mer_distances, "WORDS", 8),
        (mer_distances, "COUNTS", 900),
        (mers, "BATCH", 300),
        (mers, "TABLE_BYTES", 0),
    ],
}
WAYS[Mismatch] = WAYS[Gkm]
MANY = [
    *(Spectrum((2, 4), weight, idf, not idf) for weight in WEIGHTS for idf in (False, True)),
    *(GappedKmers(5, 2, canonical, weight) for canonical in (False, True) for weight in GAPPED_WEIGHTS),
    *(Mismatch(3, 1), Mismatch(4, 2, canonical=True), Gkm(4, 2, 2), Gkm(4, 2, 4, "full", canonical=True)),
    *(BoundedGap(3, 0.5, normalised=normalised) for normalised in (False, True)),
]


@pytest.mark.slow
@pytest.mark.parametrize("kernel", MANY, ids=str)
def test_rows_values_and_decisions_of_many_texts_agree_with_the_gram(kernel, monkeypatch):
    documents = encode([*dna(200), "", "ac", "ac"])
    new = encode([*dna(40, 1, letters="acgtn"), "", "ac", "gt"], documents.alphabet)
    rows, n = kernel.fit(documents).rows(documents, CPU), len(documents)
    gram, coef = rows.gram(), np.random.default_rng(0).normal(size=(n, 3))
    size = np.abs(gram).max()
    bounds = {"rtol": 1e-4, "atol": 1e-4 * size}
    np.testing.assert_array_equal(gram, gram.T)
    np.testing.assert_allclose(np.diag(gram), rows.diag(), rtol=1e-6)
    features = kernel.features
    if features is not None and features.countable:
        np.testing.assert_allclose(gram_of(features.rows(documents, CPU)), gram, rtol=1e-5, atol=1e-6 * size)
    decided, steps = rows.cross(new).astype(np.float64) @ coef, []
    for module, name, value in [(feature_rows, "BATCH", feature_rows.BATCH), *WAYS[type(kernel)]]:
        monkeypatch.setattr(module, name, value)
        rows, seen = kernel.rows(documents, CPU), []
        for some in (np.array([5]), np.arange(0, n, 7), np.arange(n)):
            np.testing.assert_allclose(rows.rows(some), gram[some], rtol=1e-6, atol=1e-8 * size)
        np.testing.assert_allclose(rows.cross(documents), gram, rtol=1e-6, atol=1e-8 * size)
        np.testing.assert_allclose(rows.decision(documents, coef), gram @ coef, **bounds)
        np.testing.assert_allclose(rows.decision(new, coef), decided, **bounds)
        predictor = kernel.predictor(documents, coef.T, CPU)
        values = predictor.values(new, lambda *step, seen=seen: seen.append(step))
        np.testing.assert_allclose(values, decided, **bounds)
        assert seen[-1] == (len(new), len(new))
        steps.append(len(seen))
    assert max(steps) > 3


@pytest.mark.parametrize("name", [*OWN])
def test_every_kernel_says_what_it_costs(name):
    kernel = KERNELS[name](**OWN[name][0])
    lengths = np.array([10, 2000, 0])
    cost = kernel.cost.of_rows(lengths, np.array([300, 40]))
    assert cost.shape == kernel.attribution.seconds(lengths, lengths).shape == (3,)
    assert cost[1] >= cost[0] >= cost[2] >= 0
    assert kernel.cost.quadratic == (name in ("edit", "gap", "mismatch", "gkm"))


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        (
            "gapped",
            {"g": "5,6", "m": "2", "canonical": True},
            [GappedKmers(g, 2, canonical=True) for g in (5, 6)],
        ),
        ("gapped", {"m": "x"}, "m x is no whole number"),
        ("gapped", {"g": "3", "m": "3"}, "m=3"),
        ("gkm", {"k": "6,7", "canonical": True}, [Gkm(k=k, canonical=True) for k in (6, 7)]),
        ("mismatch", {"m": "x"}, "m x is no whole number"),
        ("mismatch", {"k": "3", "m": "3"}, "m=3"),
        ("bounded-gap", {"p": "3,4", "decay": "0.2"}, [BoundedGap(p, 0.2) for p in (3, 4)]),
        ("bounded-gap", {"p": "3-4"}, "p 3-4 is no whole number"),
        ("bounded-gap", {"p": "4", "decay": "3"}, "decay=3"),
    ],
)
def test_options_are_a_grid_of_parameters(name, options, expected):
    chosen = options_of(KERNELS)(kernel=[name], **options)
    if isinstance(expected, str):
        with pytest.raises(WrongUsage, match=expected):
            chosen.grid()
    else:
        assert [kernel.get_params() for kernel in chosen.grid()] == [
            kernel.get_params() for kernel in expected
        ]


NAN, INFINITY = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        *(
            (Spectrum(p), "p=")
            for p in (0, -1, 1.5, "4", True, None, (0, 3), (3, 2), (1, 2, 3), (1,), (1.0, 2.0))
        ),
        (Spectrum(weight="tf"), "weight='tf'"),
        *((EditDistance(gamma), "gamma") for gamma in (True, 0, -1, NAN, INFINITY, "much", None)),
        (EditDistance(relative="no"), "relative='no'"),
        *((GapWeighted(p), "p=") for p in (0, 2.5, 2.0, True, 200_000)),
        *((GapWeighted(decay=decay), "decay=") for decay in (0, 1.01, NAN, "0.5", True)),
        (GapWeighted(normalised="no"), "normalised='no'"),
        (GapWeighted(3, weights=(1, 1)), "must be 3 numbers"),
        (GapWeighted(1, weights="x"), "must be 1 numbers"),
        (GapWeighted(2, weights=(0, 0)), "not all 0"),
        (GapWeighted(2, weights=(1, -1)), "not negative"),
        (GapWeighted(2, weights=(1, INFINITY)), "finite"),
        (GapWeighted(keep_case="yes"), "keep_case='yes' of the gap kernel"),
        *((GappedKmers(g, 0), "g=") for g in (0, 2.5, True)),
        *((GappedKmers(4, m), "m=") for m in (4, 9, -1, "1")),
        (GappedKmers(40, 20), "137,846,528,820 ways"),
        (GappedKmers(weight="intersection"), "weight='intersection'"),
        (GappedKmers(canonical="yes"), "canonical='yes'"),
        (GappedKmers(canonical=True, tokens="words"), "tokens='words'"),
        (GappedKmers(canonical=True, tokens="blosum62"), "tokens='blosum62' cannot go with it"),
        *((Mismatch(k), "k=") for k in (0, 2.5)),
        *((Mismatch(4, m), "m=") for m in (4, -1)),
        (Mismatch(20, 8), "m=8 mismatches are too many: give 7"),
        (Mismatch(alphabet=1), "alphabet=1"),
        (Mismatch(canonical="yes"), "canonical='yes'"),
        (Mismatch(canonical=True, tokens="words"), "tokens='words'"),
        (Mismatch(canonical=True, alphabet=20), "alphabet=20 must be 4"),
        *((Gkm(length), "l=") for length in (0, 65)),
        *((Gkm(5, k), "k=") for k in (6, 0)),
        (Gkm(5, 3, 6), "d=6"),
        (Gkm(40, 3, 16), "d=16 mismatches are too many: give 15"),
        (Gkm(filter="some"), "filter='some'"),
        *((BoundedGap(p), "p=") for p in (0, 2.5, (1, 2), True, 1001)),
        *((BoundedGap(3, decay), "decay=") for decay in (0, 1.5, NAN)),
        *((BoundedGap(3, 0.1, span), "span=") for span in (2, 4.5)),
        (BoundedGap(5, 0.1, 66), "more than 10,000 patterns"),
        (BoundedGap(1000, 0.1, 10**9), "more than 10,000 patterns"),
        (BoundedGap(normalised="yes"), "normalised='yes'"),
        (BoundedGap(tokens="letters"), "letters"),
    ],
    ids=str,
)
def test_parameters_out_of_range_are_refused(kernel, message):
    refuses(message, kernel.fit, encode(["banana"]))


def value(kernel, s, t):
    documents = encode([s, t])
    return kernel.fit(documents).rows(documents, CPU).gram()[0, 1]


def test_spectrum_of_banana_and_bandana():
    # ba an na an na / ba an nd da an na: 1 + 2 * 2 + 2 * 1 = 7; norms 1 + 4 + 4 = 9 and 1 + 4 + 1 + 1 + 1 = 8
    assert value(Spectrum(p=2, normalised=False), "banana", "bandana") == 7
    assert value(Spectrum(p=2), "banana", "bandana") == pytest.approx(7 / np.sqrt(72))
    assert value(Spectrum(p=2, weight="presence", normalised=False), "banana", "bandana") == 3
    assert value(Spectrum(p=2, weight="intersection", normalised=False), "banana", "bandana") == 4
    assert value(Spectrum(p=(1, 2), normalised=False), "banana", "bandana") == 1 + 9 + 4 + 7


def test_edit_distance_of_kitten_and_sitting():
    assert value(EditDistance(gamma=0.1), "kitten", "sitting") == pytest.approx(exp(-0.3))
    assert value(EditDistance(gamma=0.7, relative=True), "kitten", "sitting") == pytest.approx(exp(-0.3))
    assert value(EditDistance(gamma=1.0), "Ωμέγα", "ωμέγα") == pytest.approx(exp(-1))


@pytest.mark.parametrize("decay", [0.1, 0.5, 1.0])
def test_gap_weighted_of_cat_and_car(decay):
    assert value(GapWeighted(p=2, decay=decay), "cat", "car") == pytest.approx(1 / (2 + decay**2))
    assert value(GapWeighted(p=2, decay=decay, normalised=False), "cat", "car") == pytest.approx(decay**4)
    twice = 2 * decay**4 + decay**6
    assert value(GapWeighted(p=2, decay=decay, normalised=False), "cat", "cat") == pytest.approx(twice)
