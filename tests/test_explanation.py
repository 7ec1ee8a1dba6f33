"""Attributions against enumerating every substring and subsequence, and against the decision value."""

import json
import math
from collections import Counter, defaultdict
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from textsvm import SVC, SVR, CalibratedSVC, EditDistance, GapWeighted, InputError, OneClassSVM, Spectrum
from textsvm.evaluation.explanation import explain
from textsvm.kernels.attribution import pieces
from textsvm.kernels.gap.recurrence import symbol_contributions
from textsvm.text.documents import encode

TEXTS = [
    "cheap pills for sale, buy now",
    "buy cheap watches now now",
    "win a prize, click now",
    "free prize for you",
    "sale sale sale of pills",
    "the meeting is at noon",
    "please read the agenda",
    "see you at the meeting",
    "the report is in the mail",
    "lunch at noon, at the usual place",
]
LABELS = ["spam"] * 5 + ["ham"] * 5
NEW = ["buy the cheap report now now", "meeting about the prize, see the agenda", "zzz"]
SPECTRA = [
    Spectrum(3),
    Spectrum((1, 3)),
    Spectrum(2, weight="presence"),
    Spectrum((2, 4), weight="intersection"),
    Spectrum((2, 3), weight="intersection", idf=True),
    Spectrum(3, weight="log", idf=True),
    Spectrum(2, idf=True, normalised=False),
]
OTHERS = [GapWeighted(3), GapWeighted(3, decay=0.8, weights=[1, 0, 2.0]), EditDistance(gamma=0.1)]


def substring_contributions(model, text):
    """sum_i a_i phi_u(t_i) phi_u(x), normalised, for every substring u of x, by counting."""
    kernel = model.kernel_
    low, high = kernel.lengths

    def counts(s):
        return Counter(s[i : i + q] for q in range(low, high + 1) for i in range(len(s) - q + 1))

    training = [counts(model.support_documents_.text(i)) for i in range(len(model.support_))]
    df = Counter(u for s in TEXTS for u in counts(s))

    def idf(u):
        return math.log((1 + len(TEXTS)) / (1 + df[u])) + 1 if kernel.idf else 1.0

    def product(u, c, d):
        if kernel.weight == "intersection":
            return idf(u) * min(c, d)
        f = {"count": float, "presence": lambda n: float(n > 0), "log": lambda n: 1 + math.log(n) if n else 0}
        return idf(u) ** 2 * f[kernel.weight](c) * f[kernel.weight](d)

    def value(a, b):
        return sum(product(u, a[u], b[u]) for u in a if u in b)

    x = counts(text)
    found = defaultdict(float)
    for a, t in zip(model.dual_coef_[0], training, strict=True):
        scale = math.sqrt(value(x, x) * value(t, t)) if kernel.normalised else 1.0
        for u in x:
            if u in t:
                found[u] += a * product(u, x[u], t[u]) / scale
    return x, found


@pytest.mark.parametrize("kernel", SPECTRA, ids=str)
def test_substrings_have_the_contributions_of_their_definition(kernel):
    model = SVC(kernel, C=5, device="cpu").fit(TEXTS, LABELS)
    for text, found in zip(NEW, explain(model, NEW, substrings=1000), strict=True):
        counts, expected = substring_contributions(model, text)
        assert {each.text: each.count for each in found.substrings} == counts
        for each in found.substrings:
            assert each.contribution == pytest.approx(expected[each.text], abs=1e-6)
        symbols = np.zeros(len(text))
        for u, c in counts.items():
            for i in range(len(text)):
                if text.startswith(u, i):
                    symbols[i : i + len(u)] += expected[u] / c / len(u)
        np.testing.assert_allclose(found.symbols, symbols, atol=1e-6)
        sizes = [abs(each.contribution) for each in found.substrings]
        assert sizes == sorted(sizes, reverse=True)


def subsequences(s, t, p, decay):
    """What of k_p(s, t) each symbol of s gets: every pair of occurrences, evenly to its p symbols."""
    share = np.zeros(len(s))
    for places in combinations(range(len(s)), p):
        for others in combinations(range(len(t)), p):
            if all(s[i] == t[j] for i, j in zip(places, others, strict=True)):
                spans = places[-1] - places[0] + 1 + others[-1] - others[0] + 1
                share[list(places)] += decay**spans / p
    return share


@given(st.text("abc", min_size=1, max_size=8), st.lists(st.text("abc", max_size=7), min_size=1, max_size=3))
@pytest.mark.parametrize("weights", [None, (1.0, 0.0, 0.5)])
def test_subsequences_are_spread_over_their_symbols(weights, text, others):
    kernel = GapWeighted(3, decay=0.6, weights=weights)
    documents = encode([text, *others])
    blend = (0, 0, 1) if weights is None else weights
    expected, terms = np.zeros(len(text)), np.zeros(len(others))
    for i, other in enumerate(others):
        shares = [w * subsequences(text, other, q, 0.6) for q, w in enumerate(blend, 1)]
        terms[i] = (i + 1) * (-1) ** i * sum(share.sum() for share in shares)
        expected += (i + 1) * (-1) ** i * sum(shares)
    support = documents.take(range(1, len(documents)))
    found = symbol_contributions(kernel.recurrence, support, documents.codes[: len(text)], terms)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kernel", [*SPECTRA, *OTHERS[:2]], ids=str)
def test_symbols_and_bias_sum_to_the_decision_value(kernel):
    model = SVC(kernel, C=5, device="cpu", max_length=30).fit(TEXTS, LABELS)
    texts = [
        *NEW,
        TEXTS[0],
        "",
        "x",
        "Buy  NOW\n and SEE the agenda: pills, pills, pills and watches for sale",
    ]
    found = explain(model, texts)
    for each, value in zip(found, model.decision_function(texts), strict=True):
        assert each.exact
        assert each.value == pytest.approx(value, rel=1e-6, abs=1e-12)
        assert each.symbols.sum() + each.bias == pytest.approx(value, rel=1e-6, abs=1e-9)
    assert [each.prediction for each in found] == model.predict(texts).tolist()
    assert found[-1].text == "buy now and see the agenda: pills, pills"[:30]


def test_occlusion_leaves_words_out():
    model = SVC(OTHERS[2], C=5, device="cpu").fit(TEXTS, LABELS)
    [found] = explain(model, ["buy the pills"])
    without = model.decision_function(["buy the pills", "the pills", "buy pills", "buy the "])
    assert not found.exact
    change = without[0] - without[1:3]
    np.testing.assert_allclose(found.symbols[:8], np.repeat(change / 4, 4), atol=1e-7)
    assert found.value == pytest.approx(without[0])


def test_a_kernel_of_the_users_is_occluded_too():
    def same_words(first, second):
        return np.array([[len({*a.split()} & {*b.split()}) for b in second] for a in first], float)

    model = SVC(same_words, C=1, device="cpu").fit(TEXTS, LABELS)
    [found] = explain(model, ["zzz now"])
    assert not found.symbols[:4].any()
    assert found.symbols[4:].all()
    assert found.value == pytest.approx(model.decision_function(["zzz now"])[0])


@pytest.mark.parametrize("strategy", ["ovo", "ovr", "crammer-singer"])
@pytest.mark.parametrize("kernel", [Spectrum(3), GapWeighted(2)], ids=str)
def test_of_many_classes_the_predicted_one_is_explained(kernel, strategy):
    labels = ["ad", "ad", "win", "win", "ad", "work", "work", "work", "work", "food"]
    model = SVC(kernel, C=5, multiclass=strategy, device="cpu").fit(TEXTS, labels)
    values = model.model_.machine_values(NEW)
    pairs = list(combinations(model.classes_.tolist(), 2))
    for i, found in enumerate(explain(model, NEW)):
        assert found.prediction == found.towards == model.predict(NEW)[i]
        a = model.classes_.tolist().index(found.prediction)
        if strategy == "ovo":
            expected = sum(
                values[i, k] * (pair[1] == found.towards) - values[i, k] * (pair[0] == found.towards)
                for k, pair in enumerate(pairs)
            )
        else:
            expected = values[i, a]
            if strategy == "crammer-singer":
                expected -= np.delete(values[i], a).mean()
        assert found.value == pytest.approx(expected, rel=1e-6, abs=1e-9)
        assert found.symbols.sum() + found.bias == pytest.approx(found.value, rel=1e-6, abs=1e-6)


def test_numbers_regions_and_probabilities():
    numbers = SVR(Spectrum(2), C=10, device="cpu").fit(TEXTS, np.arange(10.0))
    [found] = explain(numbers, NEW[:1])
    assert found.towards is None
    assert found.prediction == pytest.approx(numbers.predict(NEW[:1])[0])
    assert found.symbols.sum() + found.bias == pytest.approx(found.prediction)
    region = OneClassSVM(Spectrum(2), nu=0.5, device="cpu").fit(TEXTS)
    found = explain(region, [*NEW, TEXTS[5]])
    assert [each.prediction for each in found] == [
        "inside" if inside > 0 else "outside" for inside in region.predict([*NEW, TEXTS[5]])
    ]
    calibrated = CalibratedSVC(SVC(Spectrum(2), device="cpu"), cv=2).fit(TEXTS, LABELS)
    found = explain(calibrated, NEW)
    assert [each.prediction for each in found] == calibrated.predict(NEW).tolist()
    assert found[0].value == pytest.approx(calibrated.decision_function(NEW)[0])


def test_either_class_may_be_the_positive_one():
    model = SVC(Spectrum(3), C=5, device="cpu").fit(TEXTS, LABELS)
    [spam], [ham] = (explain(model, NEW[:1], positive=label) for label in ("spam", "ham"))
    assert (spam.towards, spam.against) == (ham.against, ham.towards) == ("spam", "ham")
    assert spam.value == -ham.value
    np.testing.assert_array_equal(spam.symbols, -ham.symbols)
    assert spam.similar[0].contribution == -ham.similar[0].contribution


@pytest.mark.parametrize("kernel", [Spectrum(3), OTHERS[0], OTHERS[2]], ids=str)
def test_similar_training_documents(kernel):
    model = SVC(kernel, C=5, device="cpu").fit(TEXTS, LABELS)
    [found] = explain(model, [TEXTS[2]], similar=100)
    shares = [abs(each.contribution) for each in found.similar]
    assert shares == sorted(shares, reverse=True)
    assert sum(each.contribution for each in found.similar) + found.bias == pytest.approx(
        found.value, rel=1e-5
    )
    for each in found.similar:
        assert each.text == TEXTS[each.index]
        assert (each.contribution > 0) == (LABELS[each.index] == "spam")
    assert len(explain(model, [TEXTS[2]], similar=2)[0].similar) == 2
    itself = [each.kernel for each in found.similar if each.index == 2]
    assert itself == [] or itself[0] == pytest.approx(1)


def test_explanations_are_json():
    model = SVC(Spectrum(3), C=5, device="cpu").fit(TEXTS, LABELS)
    [found] = explain(model, [NEW[0]])
    again = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert again["symbols"] == found.symbols.tolist()
    assert again["exact"] is True
    assert again["similar"][0].keys() == {"index", "kernel", "contribution", "text", "id"}


def test_nothing_to_explain():
    model = SVC(Spectrum(3), device="cpu").fit(TEXTS, LABELS)
    assert explain(model, []) == []
    with pytest.raises(InputError, match="put it in a list"):
        explain(model, "text")
    given = SVC("precomputed", device="cpu").fit(np.eye(10), LABELS)
    with pytest.raises(InputError, match="no texts"):
        explain(given, ["a"])


@given(st.text("ab \n", max_size=300), st.integers(1, 70))
def test_pieces_cover_a_text_once(text, most):
    cuts = pieces(text, most)
    assert "".join(text[a:b] for a, b in cuts) == text
    assert all(a < b for a, b in cuts)
    assert len(cuts) <= 2 * most + 1


def test_overlapping_substrings_are_merged_and_their_contributions_summed():
    model = SVC(Spectrum((2, 5))).fit(TEXTS, ["spam"] * 5 + ["ham"] * 5)
    [found] = explain(model, ["pills!"], substrings=1000)
    exact = {each.text: each.contribution for each in found.substrings}
    whole = max(found.merged, key=lambda each: len(each.text))
    assert whole.text == "pills"
    assert whole.count == 1
    assert {"pi", "ills", "pills"} <= set(whole.merged)
    assert whole.contribution == pytest.approx(sum(exact[part] for part in whole.merged))
    total = sum(each.contribution for each in found.merged)
    assert total == pytest.approx(found.value - found.bias, abs=1e-6)
    assert f"{whole.text!r} {whole.contribution:+.3f}" in str(found)
