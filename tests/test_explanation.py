"""Attributions against enumerating every substring and subsequence, and against the decision value."""

import json
import math
import re
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from command import run
from encoders import FOOD, static_folder, topics
from hypothesis import given
from hypothesis import strategies as st
from refusals import refuses

from textsvm import (
    SVC,
    SVR,
    CalibratedSVC,
    EditDistance,
    Encoder,
    GapWeighted,
    MultilabelSVC,
    On,
    OneClassSVM,
    Spectrum,
    Sum,
    load,
    report,
    save,
)
from textsvm.evaluation.explanation import explain
from textsvm.kernels.attribution import pieces
from textsvm.kernels.gap.recurrence import symbol_contributions
from textsvm.reporting.sections import explanation_section
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
NEW_WORDS = "a cat at the bar then"
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
    rule = replace(calibrated.model_.rule, maps={"a": np.array([-1.0]), "b": np.array([9.0])})
    found = explain(replace(calibrated.model_, rule=rule), NEW)
    assert {each.prediction for each in found} == {calibrated.classes_[0]}  # the likeliest class
    assert max(each.value for each in found) > 0


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


def test_nothing_to_explain():
    model = SVC(Spectrum(3), device="cpu").fit(TEXTS, LABELS)
    assert explain(model, []) == []
    refuses("put it in a list", explain, model, "text")
    refuses("no texts", explain, SVC("precomputed", device="cpu").fit(np.eye(10), LABELS), ["a"])


@given(st.text("ab \n", max_size=300), st.integers(1, 70))
def test_pieces_cover_a_text_once(text, most):
    cuts = pieces(text, most)
    assert "".join(text[a:b] for a, b in cuts) == text
    assert all(a < b for a, b in cuts)
    assert len(cuts) <= 2 * most + 1


@pytest.mark.parametrize("kernel", [Spectrum((2, 5)), Sum([Spectrum((2, 5)), Spectrum((2, 4), "log")])])
def test_overlapping_substrings_are_merged_and_their_contributions_summed(kernel):
    [found] = explain(SVC(kernel).fit(TEXTS, ["spam"] * 5 + ["ham"] * 5), ["pills!"], substrings=1000)
    exact = {each.text: each.contribution for each in found.substrings}
    whole = max(found.merged, key=lambda each: len(each.text))
    assert whole.text == "pills"
    assert whole.count == 1
    assert {"pi", "ills", "pills"} <= set(whole.merged)
    assert whole.contribution == pytest.approx(sum(exact[part] for part in whole.merged))
    total = sum(each.contribution for each in found.merged)
    assert total == pytest.approx(found.value - found.bias, abs=1e-6)
    assert f"{whole.text!r} {whole.contribution:+.3f}" in str(found)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    pytest.importorskip("tokenizers")
    return str(static_folder(tmp_path_factory.mktemp("encoder") / "tiny"))


def tokens_of(encoder, text):
    """Words of lower-case letters and marks, split greedily into the tokens of the vocabulary."""
    for word in text.split():
        start = 0
        while start < len(word):
            prefix = "##" if start else ""
            end = next(e for e in range(len(word), start, -1) if prefix + word[start:e] in encoder.vocabulary)
            yield (
                text.index(word) + start,
                text.index(word) + end,
                encoder.vocabulary[prefix + word[start:end]],
            )
            start = end


@pytest.mark.parametrize("texts", [True, False])
def test_tokens_have_the_contributions_of_their_vectors(folder, tmp_path, texts):
    model = SVC(Encoder(folder)).fit(*topics(40))
    save(model, tmp_path / "model", texts=texts)
    loaded = load(tmp_path / "model")
    text = "soup for my unseen car"
    [explanation] = explain(loaded, [text])
    encoder = loaded.kernel.encoder
    places = list(tokens_of(encoder, text))
    mean = np.mean([encoder.embeddings[token] for *_, token in places], axis=0)
    assert explanation.value == pytest.approx(model.decision_function([text])[0], abs=1e-5)
    assert explanation.symbols.sum() + explanation.bias == pytest.approx(explanation.value, abs=1e-5)
    vectors = encoder(topics(40)[0]).astype(float)
    centre = vectors.mean(axis=0)
    weights = (
        model.dual_coef_[0]
        @ (vectors[model.support_] - centre)
        / np.square(vectors - centre).sum(axis=1).mean()
    )
    assert (mean - centre) @ weights == pytest.approx(explanation.value - explanation.bias, abs=1e-4)
    for first, end, token in places:
        expected = (encoder.embeddings[token] - centre) @ weights / len(places)
        assert explanation.symbols[first:end] == pytest.approx(expected / (end - first), abs=1e-4)
    assert {part.text: part.count for part in explanation.substrings} == {
        f"token:{word}": 1 for word in text.split()
    }
    [twice] = explain(loaded, ["soup and soup"])
    assert {part.text: part.count for part in twice.substrings}["token:soup"] == 2
    assert sum(part.contribution for part in twice.substrings) == pytest.approx(twice.value - twice.bias)


@pytest.mark.parametrize("texts", [True, False])
def test_parts_of_spelling_and_meaning(folder, tmp_path, texts):
    train, labels = topics(40)
    model = SVC(0.5 * Spectrum(2) + 0.2 * Spectrum(1) + 0.3 * Encoder(folder)).fit(train, labels)
    save(model, tmp_path / "model", texts=texts)
    [explanation] = explain(load(tmp_path / "model"), ["soup in my car"], similar=3)
    spelling, meaning = explanation.parts
    coef, support = model.dual_coef_[0], [train[i] for i in model.support_]
    assert (spelling.name, meaning.name) == ("spelling", "meaning (tiny)")
    assert spelling.contribution + meaning.contribution == pytest.approx(
        explanation.value - explanation.bias, abs=1e-5
    )
    by_strings = sum(
        weight * Spectrum(p)(["soup in my car"], support)[0] for weight, p in ((0.5, 2), (0.2, 1))
    )
    assert spelling.contribution == pytest.approx(float(coef @ by_strings), abs=1e-5)
    assert f"spelling {spelling.contribution:+.4f} (" in explanation.shares
    assert f", bias {explanation.bias:+.4f}; per cent of" in explanation.shares
    assert len(spelling.similar) == (3 if texts else 0)
    if texts:
        best = model.support_[np.argsort(-by_strings, kind="stable")[:3]]
        assert [text.index for text in spelling.similar] == best.tolist()
        assert spelling.similar[0].kernel == pytest.approx(by_strings.max() / 0.7, abs=1e-6)
        assert all(set(text.text.split()) & {*FOOD} or "car" in text.text for text in meaning.similar)
    assert json.loads(json.dumps(explanation.as_dict()))["parts"][1]["name"] == "meaning (tiny)"


def test_other_encoders_are_occluded_and_single_parts_have_no_shares(folder):
    texts, labels = topics(40)
    model = SVC(Spectrum(2) + Encoder(lambda texts: [[text.count(word) for word in FOOD] for text in texts]))
    [explanation] = explain(model.fit(texts, labels), ["soup in my car"])
    assert (explanation.exact, [part.name for part in explanation.parts]) == (
        False,
        ["spelling", "meaning (<lambda>)"],
    )
    [alone] = explain(SVC(Encoder(folder)).fit(texts, labels), ["soup"])
    assert not alone.parts
    assert "parts" not in alone.as_dict()


def page_of(model, tmp_path):
    saved = report(model, ["soup", "car and bus"], ["road", "food"])
    return saved.save(tmp_path / "report.html").read_text("utf-8")


def test_reports_name_the_part_of_meaning(folder, tmp_path):
    model = SVC(0.7 * Spectrum(2) + 0.3 * Encoder(folder)).fit(*topics(60))
    assert page_of(model, tmp_path).count("meaning (tiny)") == 2  # of each mistake


def test_reports_tell_the_errors_with_and_without_the_encoder(folder, tmp_path):
    model = SVC(encoder=folder).fit(*topics(60))
    chosen = model.model_.record.chosen
    assert "encoder with weight 0" in chosen
    assert re.search(r"\(errors \d", chosen)
    assert chosen in page_of(model, tmp_path)
    assert "choice of the kernel" not in page_of(SVC().fit(*topics(60)), tmp_path)


def test_the_heaviest_tokens(folder):
    model = SVC(Encoder(folder)).fit(*topics(60))
    tops = {top.label: [feature.text for feature in top.features] for top in model.top_features(5)}
    assert len({*tops["food"]} & {*FOOD}) >= 4


def test_listed_tokens_are_those_of_the_texts_of_the_model(folder, tmp_path):
    """Most of the heaviest tokens of a large vocabulary were in no training text."""
    texts, labels = ["bread and soup", "apple rice", "car wheel", "train bus"] * 5, ["a", "a", "b", "b"] * 5
    for kernel in (Encoder(folder), Spectrum(2) + Encoder(folder)):
        model = SVC(kernel, device="cpu").fit(texts, labels)
        lists = [top for top in model.top_features(50) if top.kind == "tokens"]
        tokens = {feature.text for top in lists for feature in top.features}
        assert {"bread", "car"} <= tokens <= {*" ".join(texts).split()}
    save(SVC(Encoder(folder), device="cpu").fit(texts, labels), tmp_path / "m", texts=False)
    others = {feature.text for top in load(tmp_path / "m").top_features(50) for feature in top.features}
    assert not others <= {*" ".join(texts).split()}
    shown = run("explain", tmp_path / "m", "--top", 3).stdout
    assert b"tokens of the texts in the model, or of the encoder if it has none" in shown


WORDS = Spectrum((1, 2), tokens="words")


@pytest.mark.parametrize("kernel", [WORDS, Spectrum(1, tokens=str.split), On("body", WORDS)], ids=str)
def test_words_are_not_merged_by_their_letters(kernel):
    """The table said "then, merged: then, the", with the sum of both."""
    texts = ["meet at the bar then", "a cat at home", "cash now at the bank", "the end of a day then"] * 2
    table = {"body": texts} if isinstance(kernel, On) else texts
    model = SVC(kernel, device="cpu").fit(table, ["a", "b", "c", "d"] * 2)
    [found] = explain(model, {"body": [NEW_WORDS]} if table is not texts else [NEW_WORDS])
    exact = {x.text.removeprefix("body: "): x.contribution for x in found.substrings}
    assert found.kind == "words"
    assert {x.text: x.contribution for x in found.merged} == exact
    assert not any(x.merged for x in found.merged)
    assert "<summary>words that count most" in explanation_section("x", found)
    assert "; of a, one of several classes (its sign decides nothing)<" in explanation_section("x", found)


def test_a_label_has_a_value_above_0():
    model = MultilabelSVC(Spectrum(2), device="cpu").fit(TEXTS, [(label,) for label in LABELS])
    assert f"; above 0 for {LABELS[0]}" in explain(model, TEXTS[:1])[0].verdict


def test_residues_are_substrings_that_are_merged():
    texts = ["mkvlaapggd" * 2, "aapggdrrst", "chkwwyfchk", "rrchkwyf"]
    model = SVC(Spectrum((2, 4), tokens="blosum62"), device="cpu").fit(texts, ["b", "b", "a", "a"])
    [found] = explain(model, ["mkvaapggd"])
    assert found.kind == "substrings"
    assert max(len(x.merged) for x in found.merged) > 2


def test_a_word_that_is_a_substring_too_is_listed_once_with_both_contributions():
    """The second of two features with one name and other counts had replaced the first."""
    texts = [f"{text} in then" for text in TEXTS]
    model = SVC(Sum([Spectrum((2, 3)), Spectrum(1, tokens="words")]), device="cpu").fit(texts, LABELS)
    [found] = explain(model, ["then the lunch, the other then"], substrings=1000)
    assert found.kind == "substrings"
    assert len({x.text for x in found.substrings}) == len(found.substrings)
    for listed in (found.substrings, found.merged):
        assert sum(x.contribution for x in listed) == pytest.approx(found.value - found.bias, abs=1e-6)


@pytest.mark.parametrize("tokens", ["runs", lambda text: text.replace("N", " N").split()])
def test_merging_loses_no_contribution_of_tokens_that_end_within_words(tokens):
    texts = ["किताब पढ़ना मुझे पसंद है aName", "ฉันชอบอ่าน หนังสือมาก myName", "שָׁלוֹם לְכֻלָּם oneName"]
    kernel = Sum([Spectrum((2, 3)), Spectrum((1, 2), tokens=tokens, keep_case=True)])
    model = SVC(kernel, device="cpu").fit(texts, ["a", "b", "c"])
    for found in explain(model, texts, substrings=10_000):
        total = sum(x.contribution for x in found.substrings)
        assert sum(x.contribution for x in found.merged) == pytest.approx(total, abs=1e-9)
        assert sorted(part for x in found.merged for part in x.merged or [x.text]) == sorted(
            x.text for x in found.substrings
        )


@pytest.mark.parametrize("tokens", ["words", str.split])
@pytest.mark.parametrize("on", [False, True])
def test_a_word_merges_with_whole_words_alone(on, tokens):
    """The word "a" was added to "cat", whose letters have it."""
    kernel = Sum([Spectrum((2, 4)), Spectrum((1, 2), tokens=tokens)])
    texts = ["a cat at home", "at the hat then", "cash now at a bank", "the end of a day then"] * 2
    new, texts = "a hat at the theatre then", {"body": texts} if on else texts
    model = SVC(On("body", kernel) if on else kernel, device="cpu").fit(texts, ["a", "b", "c", "d"] * 2)
    [found] = explain(model, {"body": [new]} if on else [new], substrings=1000)
    words = {"a", "hat", "at", "the", "then"}
    pairs = [(own.text, part) for own in found.merged for part in own.merged if part in words]
    assert [pair for pair in pairs if not re.search(rf"\b{pair[1]}\b", pair[0])] == []
    assert any(part != whole for whole, part in pairs)
    assert sum(x.contribution for x in found.merged) == pytest.approx(found.value - found.bias, abs=1e-6)


@pytest.mark.parametrize("columns", [["title", "body"], ["body"]])
def test_substrings_are_merged_in_each_column(columns):
    """Only those at the beginning of a column were merged, and every piece repeated its name."""
    rng = np.random.default_rng(0)
    words = {"pill": "buy cheap pills now", "mail": "meet at noon again"}
    labels = ["pill", "mail"] * 12
    rows = [" ".join(rng.permutation(words[label].split())) for label in labels]
    table = {"title": rows, "body": [f"dear all: {row[::-1]}" for row in rows]}
    kernel = Sum(
        [On(name, Spectrum((1, 4))) for name in columns] + [On("body", Spectrum((1, 4), tokens="words"))]
    )
    model = SVC(kernel, device="cpu").fit(table, labels)
    [found] = explain(model, {name: values[:1] for name, values in table.items()}, substrings=10_000)
    assert sum(piece.contribution for piece in found.merged) == pytest.approx(
        sum(piece.contribution for piece in found.substrings)
    )
    for name in columns:
        prefix, text = f"{name}: " if len(columns) > 1 else "", table[name][0]
        own = [x for x in found.merged if x.text.startswith(prefix) and x.text.removeprefix(prefix) in text]
        assert max(len(piece.merged) for piece in own) > 3
        assert all(piece in text for x in own for piece in x.merged)
        assert len(own) < sum(x.text.startswith(f"{name}: ") for x in found.substrings) / 2
