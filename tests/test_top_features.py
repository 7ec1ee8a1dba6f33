"""The features with the largest weights, against counts of substrings that are made here."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest
from command import run
from hypothesis import given
from hypothesis import strategies as st
from loading import reloaded
from refusals import refuses

from textsvm import (
    SVC,
    SVR,
    EditDistance,
    GappedKmers,
    Linear,
    Mismatch,
    MultilabelSVC,
    OneClassSVM,
    Spectrum,
    Sum,
    explain,
    save,
)
from textsvm.model import top_features as module
from textsvm.model.top_features import Occurrences, merge

TEXTS = [
    "win cash now",
    "cash prize win",
    "free cash",
    "lunch at noon",
    "see you at noon",
    "at lunch then",
] * 2
LABELS = ["spam", "spam", "spam", "ham", "ham", "ham"] * 2
THREE = ["a", "b", "c"] * 4


def counts(text, name, tokens):
    """Number of occurrences of a substring, or of words."""
    if tokens == "words":
        symbols, wanted = text.split(), name.split()
    else:
        symbols, wanted = list(text), list(name)
    return sum(symbols[i : i + len(wanted)] == wanted for i in range(len(symbols) - len(wanted) + 1))


@pytest.mark.parametrize("tokens", ["characters", "words"])
@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize("labels", [LABELS, THREE])
def test_coefficients_give_the_decision(tokens, normalised, labels):
    model = SVC(Spectrum((1, 2), normalised=normalised, tokens=tokens), device="cpu").fit(TEXTS, labels)
    names = model.get_feature_names_out()
    assert model.coef_.shape == (len(model.intercept_), len(names))
    X = np.array([[counts(text, name, tokens) for name in names] for text in TEXTS], float)
    if normalised:
        known = Spectrum((1, 2), normalised=False, tokens=tokens)
        X /= np.sqrt(np.diag(known(TEXTS)))[:, None]
    values = X @ model.coef_.T + model.intercept_
    np.testing.assert_allclose(values.squeeze(), model.decision_function(TEXTS), atol=1e-5)


def test_occurrences_of_the_intersection_kernel_are_features():
    model = SVC(Spectrum(1, "intersection", normalised=False), device="cpu").fit(TEXTS, LABELS)
    names, coef = model.get_feature_names_out(), model.coef_[0]
    assert {" ", " >=2"} <= set(names)
    X = np.array([[text.count(name[0]) >= int(name[3:] or 1) for name in names] for text in TEXTS], float)
    assert {side.kind for side in model.top_features()} == {"counted substrings"}
    np.testing.assert_allclose(X @ coef + model.intercept_, model.decision_function(TEXTS), atol=1e-5)


def test_each_class_has_the_features_that_speak_for_it():
    ham, spam = SVC(Spectrum(1, tokens="words"), device="cpu").fit(TEXTS, LABELS).top_features(3)
    assert (ham.label, spam.label, ham.kind) == ("ham", "spam", "words")
    assert spam.features[0].text == "cash"
    assert {each.text for each in ham.features} <= {"lunch", "at", "noon", "see", "you", "then"}
    assert all(each.weight > 0 for side in (ham, spam) for each in side.features)
    assert json.loads(json.dumps(ham.as_dict()))["label"] == "ham"


def test_a_sum_has_a_list_for_each_term():
    model = SVC(Sum([Spectrum(3), Spectrum(1, tokens="words")]), device="cpu").fit(TEXTS, LABELS)
    assert [each.kind for each in model.top_features(4)] == ["substrings", "words"] * 2
    names = model.get_feature_names_out()
    assert "words:1__cash" in names
    assert len(set(names)) == len(names) == model.coef_.shape[1]


def test_other_kernels_name_patterns_or_training_documents():
    patterns = SVC(GappedKmers(4, 1), device="cpu").fit(TEXTS, LABELS).top_features(3)
    assert {each.kind for each in patterns} == {"patterns"}
    assert all("." in feature.text for each in patterns for feature in each.features)
    documents = SVC(EditDistance(), device="cpu").fit(TEXTS, LABELS)
    for side in documents.top_features(3):
        assert side.kind == "training documents"
        assert {each.text for each in side.features} <= {
            text for text, label in zip(TEXTS, LABELS, strict=True) if label == side.label
        }
    assert not hasattr(documents, "coef_")
    with pytest.raises(AttributeError, match="has no list of features"):
        documents.get_feature_names_out()


def test_other_machines():
    lengths = [float(len(text)) for text in TEXTS]
    number = SVR(Spectrum(1), device="cpu").fit(TEXTS, lengths)
    assert {each.label for each in number.top_features(2)} == {"a higher number", "a lower number"}
    inside = OneClassSVM(Spectrum(1), device="cpu").fit(TEXTS)
    assert {each.label for each in inside.top_features(2)} == {"inside", "outside"}
    tags = MultilabelSVC(Spectrum(2), device="cpu").fit(
        TEXTS, [(label, *(["long"] if i % 2 else [])) for i, label in enumerate(LABELS)]
    )
    assert {each.label for each in tags.top_features(2)} == {"ham", "long", "spam"}
    vectors = SVC(Linear(), device="cpu").fit(np.eye(6)[[0, 1, 2, 3, 4, 5] * 2], LABELS)
    assert {each.kind for each in vectors.top_features(2)} == {"numbers"}
    assert vectors.coef_.shape == (1, 6)
    matrix = SVC("precomputed", device="cpu").fit(np.eye(12), LABELS)
    refuses("no features", matrix.top_features)
    assert not hasattr(matrix, "coef_")


def test_a_model_without_texts_has_the_same_weights(tmp_path):
    model = SVC("spectrum:1-3,log,idf", device="cpu").fit(TEXTS, LABELS)
    kept = reloaded(model, tmp_path / "m", texts=False)
    names, other = model.get_feature_names_out(), kept.get_feature_names_out()
    theirs = dict(zip(other.tolist(), kept.coef_[0], strict=True))
    for name, weight in zip(names.tolist(), model.coef_[0], strict=True):
        assert theirs.get(name, 0.0) == pytest.approx(weight, abs=1e-6)


PARTS = [("nvoic", 1.0), ("invoi", 0.9), ("voice", 0.8), ("oice ", 0.7), ("paid", 0.6), ("oic", 0.5)]
WHOLE = ("invoice ", 1.0, ("nvoic", "invoi", "voice", "oice ", "oic"))


@pytest.mark.parametrize(
    ("pairs", "text", "most", "expected"),
    [
        (PARTS, "an invoice is paid", 9, [WHOLE, ("paid", 0.6, ())]),
        (PARTS, "an invoice is paid", 1, [WHOLE]),
        (PARTS[:2], "no such word", 9, [("nvoic", 1.0, ()), ("invoi", 0.9, ())]),
        ([("voice", 1.0), ("voices", 0.1)], "voices", 9, [("voice", 1.0, ()), ("voices", 0.1, ())]),
        # A continuation that is usually elsewhere.
        ([("xab", 1.0), ("abc", 0.9)], "xabc abc abc abc abc", 9, [("xab", 1.0, ()), ("abc", 0.9, ())]),
    ],
)
def test_neighbouring_substrings_are_merged(pairs, text, most, expected):
    assert [(each.text, each.weight, each.merged) for each in merge(pairs, text.count, most)] == expected


@given(st.text("ab\U0001f600\ud800", max_size=30), st.text("ab\U0001f600\ud800", max_size=6))
def test_occurrences_are_those_of_python(text, string):
    assert Occurrences(text).count(string) == text.count(string)


def test_command_line(tmp_path, write):
    save(SVC(Spectrum(1, tokens="words"), device="cpu").fit(TEXTS, LABELS), tmp_path / "m.textsvm")
    told = run("explain", tmp_path / "m.textsvm", "--top", "2", "--json")
    sides = [json.loads(line) for line in told.stdout.splitlines()]
    assert [side["label"] for side in sides] == ["ham", "spam"]
    assert sides[1]["features"][0]["text"] == "cash"
    shown = run("explain", tmp_path / "m.textsvm", "--top", "2").stdout.decode()
    assert "spam: words" in shown
    assert "cash" in shown
    table = tmp_path / "features.tsv"
    assert run("explain", tmp_path / "m.textsvm", "--top", "2", "-o", table).stdout == b""
    head, *rows = [line.split("\t") for line in table.read_text("utf-8").splitlines()]
    assert head == ["class", "kind", "feature", "weight", "merged"]
    assert len(rows) == 4
    assert rows[2][:3] == ["spam", "words", "cash"]
    run("explain", tmp_path / "m.textsvm", "--top", "2", "--json", "-o", tmp_path / "features.jsonl")
    assert (tmp_path / "features.jsonl").read_bytes() == told.stdout
    many = write("many.csv", "text\n" + "win cash\nlunch at noon\n" * 5)
    summary = run("explain", tmp_path / "m.textsvm", many)
    assert summary.stdout.decode().startswith("10 documents")
    assert "5 more documents are not shown" in summary.stderr.decode()


def test_the_weight_of_a_class_of_crammer_singer_is_above_the_mean_of_the_others():
    kernel = Spectrum(1, tokens="words")
    model = SVC(kernel, multiclass="crammer-singer", tol=1e-6, device="cpu").fit(TEXTS, THREE)
    names = model.get_feature_names_out().tolist()
    for a, top in enumerate(model.top_features(100)):
        others = np.delete(model.coef_, a, axis=0).mean(axis=0)
        expected = dict(zip(names, (model.coef_[a] - others).tolist(), strict=True))
        assert top.features
        for feature in top.features:
            assert feature.weight == pytest.approx(expected[feature.text], abs=1e-9)


@pytest.mark.parametrize("kernel", [GappedKmers(3, 2), Mismatch(3, alphabet=30)], ids=repr)
@pytest.mark.parametrize("most", [2, 300])
def test_patterns_are_summed_over_the_documents_of_the_largest_coefficients(kernel, most, monkeypatch):
    """Those that speak against a class are not listed."""
    monkeypatch.setattr(module, "MAX_DOCUMENTS", most)
    model = SVC(kernel, device="cpu").fit(TEXTS[:6], LABELS[:6])
    largest = model.support_[np.argsort(-np.abs(model.dual_coef_[0]), kind="stable")[:most]]
    totals = Counter()
    for own in explain(model, [TEXTS[i] for i in largest], substrings=10_000):
        totals.update({part.text: part.contribution for part in own.substrings})
    for sign, top in zip((-1, 1), model.top_features(10_000), strict=True):
        expected = {text: sign * weight for text, weight in totals.items() if sign * weight > 0}
        assert (top.kind, {x.text: x.weight for x in top.features}) == ("patterns", pytest.approx(expected))
