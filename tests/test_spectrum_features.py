"""Weights of p-mers by what they tell about the class: against the textbook, saved, and learnt from folds."""

from collections import Counter

import numpy as np
import oracles
import pytest
from contracts import to_numpy
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refuses
from sklearn.base import clone
from test_spectrum import CPU, news, oracle

from textsvm import SVC, SVR, CalibratedSVC, OneClassSVM, Spectrum, Sum, cross_validate, tune
from textsvm.evaluation.explanation import explain
from textsvm.kernels.options import WEIGHTS
from textsvm.kernels.shared.counting import pmer_codes
from textsvm.kernels.spectrum.features import CLASSES_PER_RARE_DF, PSEUDO, unknown_square
from textsvm.text.documents import encode, encode_as

TRAIN = ["banana", "bandana", "the cat sat on the mat", "nab", "", "aaaa", "a cat", "a mat", "nab"]
CLASSES = {2: [0, 1, 1, 0, 0, 1, 0, 1, 1], 3: [0, 1, 2, 0, 0, 1, 2, 1, 2]}
NEW = ["bonana", "", "cat and mat", "日本", "banana", "the the"]


def learn(texts, classes, p1, p2, idf):
    """The oracle's weights, as `oracles.spectrum` takes them."""
    odds, other = oracles.learn_odds(texts, classes, p1, p2, PSEUDO)
    if not idf:
        return odds, other
    rare, rest = oracles.learn_idf(texts, p1, p2)
    return {u: rare[u] * odds[u] for u in odds}, rest * other


def check(documents, classes, texts, kernel, new=()):
    """Gram and values of new documents against the oracle; `texts` are their symbols."""
    p1, p2 = kernel.lengths
    value = oracle(p1, p2, kernel.weight, learn(texts, classes, p1, p2, kernel.idf))
    rows = kernel.fit(documents.with_classes(np.array(classes))).rows(documents, CPU)
    expected = np.array([[value(s, t) for t in texts] for s in texts])
    np.testing.assert_allclose(rows.gram(), expected, rtol=2e-6, atol=1e-7)
    for others, theirs in new:
        expected = np.array([[value(s, t) for t in texts] for s in theirs]).reshape(len(theirs), len(texts))
        np.testing.assert_allclose(rows.cross(others), expected, rtol=2e-6, atol=1e-7)


@pytest.mark.parametrize("idf", [False, True])
@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("p", [1, 3, (1, 3)])
def test_shared_leaves_out_substrings_of_a_single_text(p, weight, idf):
    texts = [*TRAIN, "xyz", "xyq"]
    kernel, documents = Spectrum(p, weight, idf, shared=True), encode(texts)
    p1, p2 = kernel.lengths
    counts = Counter(u for s in texts for q in range(p1, p2 + 1) for u in oracles.pmers(s, q))
    rare = oracles.learn_idf(texts, p1, p2)[0] if idf else dict.fromkeys(counts, 1.0)
    value = oracle(p1, p2, weight, ({u: rare[u] * (n > 1) for u, n in counts.items()}, 0.0))
    rows = kernel.fit(documents).rows(documents, CPU)
    expected = np.array([[value(s, t) for t in texts] for s in texts])
    np.testing.assert_allclose(rows.gram(), expected, rtol=2e-6, atol=1e-7)
    new = encode(NEW, documents.alphabet)
    expected = np.array([[value(s, t) for t in texts] for s in NEW])
    np.testing.assert_allclose(rows.cross(new), expected, rtol=2e-6, atol=1e-7)


@settings(max_examples=5, deadline=None)
@given(st.lists(st.text("abc ", max_size=7), min_size=129, max_size=140))
def test_odds_of_many_classes_agree_with_the_textbook(texts):
    """With more classes than `CLASSES_PER_RARE_DF` most terms are summed for each df, not for each p-mer."""
    texts = ["xyz", "xyz", "ab", "ab", "ab", *texts]
    classes = np.array([0, 1, 0, 1, 2, *(i % (2 * CLASSES_PER_RARE_DF + 1) for i in range(len(texts) - 5))])
    documents = encode(texts)
    learnt = Spectrum((1, 4), odds=True).fit(documents.with_classes(classes)).weights_
    expected, other = oracles.learn_odds(texts, classes.tolist(), 1, 4, PSEUDO)
    symbols = [chr(point) for point in documents.alphabet]
    pmers = ["".join(symbols[code] for code in row) for rows in pmer_codes(learnt.vocabulary) for row in rows]
    assert (
        min(learnt.df) * CLASSES_PER_RARE_DF
        < 2 * CLASSES_PER_RARE_DF + 1
        <= max(learnt.df) * CLASSES_PER_RARE_DF
    )
    np.testing.assert_allclose(learnt.odds[:-1], [expected[u] for u in pmers], rtol=1e-9)
    np.testing.assert_allclose(learnt.odds[-1], other, rtol=1e-9)


@pytest.mark.slow
@settings(max_examples=40)
@given(
    examples=st.lists(
        st.tuples(st.text(st.sampled_from("abé"), max_size=12), st.integers(0, 2)), min_size=1, max_size=8
    ),
    new=st.lists(st.text(st.sampled_from("abéc"), max_size=12), max_size=3),
    first=st.integers(1, 4),
    more=st.integers(0, 3),
    weight=st.sampled_from(WEIGHTS),
    idf=st.booleans(),
)
def test_any_texts_of_any_classes_agree_with_the_textbook(examples, new, first, more, weight, idf):
    texts, classes = [text for text, _ in examples], [c for _, c in examples]
    documents = encode(texts)
    others = encode(new, documents.alphabet)
    kernel = Spectrum((first, first + more), weight, idf, odds=True)
    check(documents, classes, texts, kernel, [(others, new)])


@pytest.mark.parametrize("idf", [False, True])
def test_words_weigh_by_what_they_tell(idf):
    texts = ["buy now", "buy the car", "the car is here", "see the car now", "now", "now buy"]
    new = ["the car", "buy a car", "nothing"]
    documents = encode_as(texts, "words")
    others = encode_as(new, "words", documents)
    kernel = Spectrum((1, 2), "log", idf, tokens="words", odds=True)
    symbols, theirs = ([tuple(text.split()) for text in some] for some in (texts, new))
    check(documents, [1, 1, 0, 0, 0, 1], symbols, kernel, [(others, theirs)])


def test_what_no_training_document_holds_adds_to_the_norm_alone():
    model = SVC(Spectrum((1, 2), odds=True, normalised=False)).fit(TRAIN, CLASSES[2])
    np.testing.assert_array_equal(model.decision_function(["ΩΩΩ"]), model.intercept_)
    assert abs(model.decision_function(["banana"])[0] - model.intercept_[0]) > 1e-3
    model = SVC(Spectrum((1, 2), odds=True)).fit(TRAIN, CLASSES[2])
    texts = ["banana", "bananaΩ", "bananaΩΨ", "bananaΩΨΦ"]
    assert (np.diff(np.abs(model.decision_function(texts) - model.intercept_)) < -0.005).all()


@pytest.mark.parametrize("shares", [[0.5, 0.5], [0.9, 0.1], [0.2, 0.3, 0.5]])
def test_unknown_odds_are_the_mean_over_single_documents(shares):
    square = 0.0
    for c, share in enumerate(shares):
        counts = (np.arange(len(shares)) == c) + PSEUDO * np.array(shares)
        odds = np.log(counts / (1 + PSEUDO - counts)) - np.log(np.array(shares) / (1 - np.array(shares)))
        square += share * np.average(odds**2, weights=shares)
    assert unknown_square(np.array(shares)) == pytest.approx(square)
    assert unknown_square(np.empty(0)) == 0  # a single class


def test_models_saved_without_odds_of_unknown_substrings_decide_as_before():
    kernel = fitted()
    state = kernel.state()
    before = clone(kernel)
    before.restore(state | {"odds": state["odds"][:-1]})
    np.testing.assert_array_equal(before.weights_.table[:-1], kernel.weights_.table[:-1])
    assert before.weights_.table[-1] == 0 < kernel.weights_.table[-1]


def test_what_all_classes_hold_alike_weighs_nothing():
    texts, classes = ["xa", "xb", "xc", "xd", "xe", "xf"], np.array([0, 1, 2, 0, 1, 2])
    documents = encode(texts).with_classes(classes)
    table = dict(zip("abcdefx", Spectrum(1, odds=True).fit(documents).weights_.odds[:-1], strict=True))
    assert table["x"] == 0
    assert min(table[c] for c in "abcdef") > 0.1


def fitted(idf=True):
    documents = encode(TRAIN).with_classes(np.array(CLASSES[2]))
    return Spectrum((1, 3), "log", idf, odds=True).fit(documents)


@pytest.mark.parametrize(
    "damage",
    [
        lambda odds: odds[:-2],
        lambda odds: odds.astype(np.float32),
        lambda odds: -odds - 1,
        lambda odds: np.full_like(odds, np.nan),
        lambda odds: np.full_like(odds, np.inf),
        lambda odds: odds[:, None],
        None,
    ],
    ids=["short", "float32", "negative", "nan", "infinite", "two dimensions", "missing"],
)
def test_damaged_odds_are_refused(damage):
    kernel = fitted()
    state = kernel.state()
    clone(kernel).restore(state)  # as it is, it is read
    odds = state.pop("odds")
    if damage is not None:
        state["odds"] = damage(odds)
    refuses("damaged", clone(kernel).restore, state)


@pytest.mark.parametrize("machine", [SVR, OneClassSVM])
@pytest.mark.parametrize("kernel", [Spectrum(2, odds=True), Sum([Spectrum(1), Spectrum(2, odds=True)])])
def test_machines_without_classes_have_no_odds(machine, kernel):
    given = (TRAIN,) if machine is OneClassSVM else (TRAIN, np.arange(9.0))
    refuses("odds are learnt from classes", machine(kernel).fit, *given)


def noise(n=24):
    """Texts that tell nothing about their classes."""
    rng = np.random.default_rng(0)
    return ["".join(rng.choice(list("abcdefgh"), 12)) for _ in range(n)], rng.permutation(np.arange(n) % 2)


ODDS = Spectrum((1, 3), "log", idf=True, odds=True)


@pytest.mark.parametrize("kernel", [ODDS, Sum([ODDS, Spectrum(2)])], ids=["alone", "in a sum"])
def test_cross_validation_learns_odds_from_training_parts_alone(kernel):
    texts, y = noise()
    found = cross_validate(SVC(kernel, tol=1e-6), texts, y, cv=3)
    for train, test in found.folds:
        model = SVC(kernel, tol=1e-6).fit([texts[i] for i in train], y[train])
        alone = model.decision_function([texts[i] for i in test])
        np.testing.assert_allclose(found.decision[test], alone, atol=1e-4)


@pytest.fixture
def learnt_from(monkeypatch):
    """Which classes odds were learnt from, one tuple a fit."""
    seen, fit = [], Spectrum.fit

    def recording(self, documents):
        if self.odds:
            seen.append(tuple(documents.classes))
        return fit(self, documents)

    monkeypatch.setattr(Spectrum, "fit", recording)
    return seen


@pytest.mark.parametrize("kernels", [[ODDS], [ODDS, Sum([ODDS, Spectrum(2)])]])
def test_tuning_and_calibration_learn_odds_from_training_parts_alone(kernels, learnt_from):
    texts, y = noise()
    folds = [
        (np.flatnonzero(np.arange(24) % 3 != k), np.flatnonzero(np.arange(24) % 3 == k)) for k in range(3)
    ]
    parts = {tuple(y[train]) for train, _ in folds}
    tune(SVC(ODDS), texts, y, {"kernel": kernels, "C": [1.0, 3.0]}, cv=folds)
    assert {len(one) for one in learnt_from} == {16, 24}
    assert {one for one in learnt_from if len(one) == 16} == parts
    del learnt_from[:]
    CalibratedSVC(SVC(ODDS), cv=folds).fit(texts, y).predict_proba(texts[:2])
    assert {one for one in learnt_from if len(one) == 16} == parts


@pytest.mark.parametrize(
    "kernel",
    [
        *(Spectrum((1, 3), weight, idf=True, odds=True) for weight in WEIGHTS),
        Sum([Spectrum(2, odds=True), Spectrum((1, 2), tokens="words", odds=True)]),
    ],
    ids=[*WEIGHTS, "sum"],
)
def test_attributions_add_up(kernel):
    model = SVC(kernel).fit(TRAIN, CLASSES[2])
    texts = [text for text in NEW if text]  # an empty text has no symbols that what it has could be given to
    for value, found in zip(model.decision_function(texts), explain(model, texts), strict=True):
        assert found.symbols.sum() + found.bias == pytest.approx(value, rel=1e-6, abs=1e-9)
    assert abs(found.symbols).sum() > 1e-3


@pytest.mark.gpu
@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("idf", [False, True])
@pytest.mark.parametrize("p", [2, (1, 5)])
def test_both_twins_agree(p, weight, idf, device):
    documents = encode(news(600)).with_classes(np.arange(600) % 3)
    kernel = Spectrum(p, weight, idf, odds=True).fit(documents)
    cpu, cuda = kernel.rows(documents, CPU), kernel.rows(documents, device)
    # Features are on a grid: values differ by 3e-8 at most.
    np.testing.assert_allclose(to_numpy(cuda.gram()), cpu.gram(), rtol=2e-6, atol=3e-8)
    some = np.array([7, 599, 0, 7])
    np.testing.assert_allclose(to_numpy(cuda.rows(some)), cpu.rows(some), rtol=2e-6, atol=3e-8)
    new = encode([*news(200, 1), "", "☃", "eee" * 900], documents.alphabet)
    np.testing.assert_allclose(to_numpy(cuda.cross(new)), cpu.cross(new), rtol=2e-6, atol=3e-8)
    coef = np.random.default_rng(0).normal(size=(2, 600))
    np.testing.assert_allclose(
        kernel.predictor(documents, coef, device).values(new),
        kernel.predictor(documents, coef, CPU).values(new),
        rtol=1e-10,
        atol=1e-10,
    )


@pytest.mark.parametrize("n_machines", [1, 3])
@pytest.mark.parametrize(
    "kernel",
    [
        Spectrum((1, 4), "log", idf=True),
        Spectrum((2, 3), "log", idf=True, odds=True),
        Spectrum((1, 3), "intersection"),
        Spectrum(3, "count", normalised=False),
        Spectrum((2, 6), "presence", shared=True),
    ],
    ids=str,
)
def test_many_texts_are_multiplied_as_they_are_counted_with_the_bits_of_few(kernel, n_machines, monkeypatch):
    support = encode(TRAIN).with_classes(np.array(CLASSES[2]))
    kernel = clone(kernel).fit(support)
    coef = np.random.default_rng(0).normal(size=(n_machines, len(TRAIN)))
    predictor = kernel.predictor(support, coef, CPU)
    others = encode([*NEW, "bandana banana " * 9, "cattle"], support.alphabet)
    few = predictor.values(others)
    monkeypatch.setattr("textsvm.linalg.sparse.SERIAL_SIZE", 0)
    monkeypatch.setattr("textsvm.kernels.shared.counting.use_numpy", lambda size: False)
    monkeypatch.setattr(
        "textsvm.kernels.spectrum.features.FeatureSpace._read", lambda *a: pytest.fail("as for few texts")
    )
    np.testing.assert_array_equal(predictor.values(others), few)
