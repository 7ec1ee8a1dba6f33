"""Exported models decide as `predict`: C on hostile texts, all feature kernels, tasks and options."""

from __future__ import annotations

import datetime
import warnings
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any

import numpy as np
import pytest
from exported import CModel, close, ignorable_texts, needs_gcc, panel_rows, random_text
from hypothesis import given, settings
from hypothesis import strategies as st

import textsvm
from textsvm import BoundedGap, GappedKmers, Spectrum, Sum
from textsvm.apps.export.binary import pack, pack_table, packed_tables, symbol_hashes, write
from textsvm.apps.export.plain import plain_model

pytestmark = pytest.mark.filterwarnings("ignore:the solver stopped")
SLOW = pytest.mark.slow
HOSTILE = [*(random_text(np.random.default_rng(i)) for i in range(200)), "", " ", "a", "\u0301", "x" * 3000]
PLAIN = [
    "win cash now",
    "Lunch at noon?",
    "cash, cash, CASH!",
    "see you at lunch",
    "",
    "at at at at",
    "Straße",
]


def training(texts: list[str]) -> tuple[list[str], list[Any]]:
    examples = [*texts, *HOSTILE[:60]]
    return examples * 2, ["abc"[i % 3] for i in range(len(examples))] * 2


@cache
def fitted(kernel: Any) -> Any:
    """A classifier of `PLAIN` with a kernel, for all files of tests."""
    return textsvm.SVC(kernel).fit(*training(PLAIN))


def check(model: Any, texts: list[str]) -> CModel:
    """Compare decision values and predictions of C with those of Python."""
    exported = CModel(pack(plain_model(model)))
    assert exported.error == 0
    decide = getattr(model, "decision_function", model.predict)
    expected = decide(texts)
    actual = np.array([exported.decide(text) for text in texts])
    wrong = [text for text, a, e in zip(texts, actual, expected, strict=True) if not close(a, e)]
    assert not wrong, ascii(wrong[0])
    if hasattr(model, "classes_") and not hasattr(model, "thresholds_"):
        names = [exported.class_name(k) if k >= 0 else "unsure" for k in map(exported.predict, actual)]
        assert names == [str(label) for label in model.predict(texts)]
    return exported


KERNELS = [
    Spectrum((1, 5), "log", idf=True, odds=True, keep_case=True),
    Spectrum((2, 3), "count"),
    Spectrum(3, "presence", normalised=False),
    Spectrum((1, 4), "intersection"),
    Spectrum((1, 2), "intersection", idf=True),
    Spectrum((1, 2), "log", idf=True, tokens="words"),
    Spectrum((1, 3), "count", idf=True, tokens="whitespace", keep_case=True),
    Spectrum((6, 9), "log", idf=True),
    GappedKmers(4, 2),
    GappedKmers(6, 1, weight="presence", normalised=False),
    BoundedGap(3, 0.5, 6),
    BoundedGap(2, 0.3, normalised=False, tokens="words"),
    Sum(
        [Spectrum((1, 3), "log", odds=True), Spectrum((1, 2), tokens="words"), Spectrum(2, "intersection")],
        (3, 1, 2),
    ),
    BoundedGap(1),
]  # fmt: skip


@needs_gcc
@pytest.mark.parametrize("kernel", [*KERNELS[:2], KERNELS[3], KERNELS[7]], ids=repr)
def test_strings_with_unknown_parts_are_not_looked_up(kernel):
    plain = plain_model(fitted(kernel))
    [tables], [term] = packed_tables(plain), plain.terms
    assert [table.closed for table in tables] == [False] + [True] * (len(tables) - 1)
    files = [write(plain, [[replace(table, closed=closed and table.closed) for table in tables]])
             for closed in (True, False)]  # fmt: skip
    assert files[0] != files[1]
    models = [CModel(content) for content in files]
    for text in [*HOSTILE, *PLAIN, "unknown qzqz qzqz and known: the cat", "ÄÄÄ ääÄ unbekannt"]:
        assert close(*(model.decide(text) for model in models)), ascii(text)
    fewer = replace(tables[0], tags=tables[0].tags[1:])
    assert not pack_table(tables[1].table, symbol_hashes(term.alphabet), [fewer]).closed


@needs_gcc
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_kernels(kernel):
    check(fitted(kernel), HOSTILE + PLAIN)


@needs_gcc
@pytest.mark.parametrize("form", ["unicode", "paper", "none"])
@pytest.mark.parametrize("punctuation", [True, pytest.param(False, marks=SLOW)])
def test_normal_forms(form, punctuation):
    kernel = Sum([Spectrum((1, 3), keep_case=True), Spectrum((1, 3)), Spectrum(1, tokens="words")])
    options = {"normalise": form, "punctuation": punctuation, "max_length": 40}
    check(textsvm.SVC(kernel, **options).fit(*training(PLAIN)), HOSTILE + PLAIN)


@needs_gcc
def test_ignorable_code_points():
    texts = ignorable_texts(2000)
    kernel = Sum([Spectrum((1, 3), keep_case=True), Spectrum((1, 3)), Spectrum(1, tokens="words")])
    model = textsvm.SVC(kernel).fit(texts[:300], ["abc"[i % 3] for i in range(300)])
    words = pack(plain_model(model))[8:12]
    assert words == bytes([4, 0, 0, 0])
    check(model, texts)


@needs_gcc
@pytest.mark.parametrize("multiclass", ["ovr", "ovo", "crammer-singer"])
@pytest.mark.parametrize("n_classes", [pytest.param(2, marks=SLOW), 4, 15])
def test_classes(multiclass, n_classes):
    texts, _ = training(PLAIN)
    labels = [10 * (i % n_classes) for i in range(len(texts))]
    check(textsvm.SVC(Spectrum((1, 3)), multiclass=multiclass).fit(texts, labels), HOSTILE)


def without_strings(kernel: Any) -> Any:
    """A model whose support vectors have no string of the kernel; a training text without weight has."""
    texts = ["abc", "abd", "xyz", "xyw"] * 3 + ["abcabdabc"]
    return textsvm.SVC(kernel).fit(texts, [*[0, 0, 1, 1] * 3, 0], sample_weight=[1.0] * 12 + [0.0])


@needs_gcc
@pytest.mark.parametrize(
    "kernel", [GappedKmers(6, 1), BoundedGap(4), Sum([Spectrum(2), GappedKmers(6, 1)])], ids=repr
)
def test_tables_without_strings(kernel):
    check(without_strings(kernel), ["abc", "xyzxyzxyz", "ab", ""])


@needs_gcc
@pytest.mark.parametrize(
    "labels",
    [(False, True), (datetime.date(2020, 1, 31), datetime.date(2021, 1, 1)), (2.0, 3.0), (-1, 1)],
    ids=repr,
)
def test_names_of_labels_are_those_that_python_prints(labels):
    texts, _ = training(PLAIN)
    check(textsvm.SVC(Spectrum(2)).fit(texts, [labels[i % 2] for i in range(len(texts))]), PLAIN)


@needs_gcc
def test_labels_of_bytes_are_decoded():
    model = textsvm.SVC(Spectrum(2)).fit(["abc", "abd", "xyz", "xyw"], [b"\xc3\xa4", b"\xc3\xa4", b"b", b"b"])
    exported = CModel(pack(plain_model(model)))
    assert [exported.class_name(k) for k in (0, 1)] == ["b", "ä"]


@needs_gcc
def test_default_with_and_without_texts(tmp_path):
    model = default_model()
    check(model, HOSTILE + PLAIN)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        textsvm.save(model, tmp_path / "model", texts=False)
    check(textsvm.load(tmp_path / "model"), HOSTILE + PLAIN)


@lru_cache
def default_model() -> Any:
    texts, labels = training(PLAIN)
    return textsvm.SVC().fit(texts, labels)


@needs_gcc
@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
@pytest.mark.parametrize("reject", [pytest.param(None, marks=SLOW), 0.5])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_calibrated(method, reject, n_classes):
    texts, _ = training(PLAIN)
    labels = ["abc"[i % n_classes] for i in range(len(texts))]
    bounds = np.array([0.4, 0.6]) if reject and n_classes == 2 else reject
    svc = textsvm.SVC(Spectrum((1, 3), "log"), class_weight="balanced")
    model = textsvm.CalibratedSVC(svc, method=method, reject=bounds, cv=3).fit(texts, labels)
    exported = check(model, HOSTILE)
    p = model.predict_proba(HOSTILE)
    actual = np.array([exported.probabilities(exported.decide(text)) for text in HOSTILE])
    assert np.abs(actual - p).max() < 1e-9
    for per_class in (False, True):
        sets = [exported.set_of(row, 0.8, per_class) for row in p]
        assert sets == model.predict_set(HOSTILE, 0.8, per_class).tolist()


@needs_gcc
def test_other_tasks():
    texts, _ = training(PLAIN)
    check(textsvm.SVR(Spectrum((1, 3))).fit(texts, np.arange(len(texts)) / 3), HOSTILE)
    model = textsvm.OneClassSVM(Spectrum((1, 3)), nu=0.2).fit(texts)
    exported = check(model, HOSTILE)
    inside = [2 * exported.predict(exported.decide(text)) - 1 for text in HOSTILE]
    assert inside == model.predict(HOSTILE).tolist()
    labels = [[{"a"}, {"b", "a"}, {"c"}][i % 3] for i in range(len(texts))]
    model = textsvm.MultilabelSVC(Spectrum((1, 3))).fit(texts, labels)
    exported = check(model, HOSTILE)
    has = [exported.labels(exported.decide(text)) for text in HOSTILE]
    predicted = [tuple(c for c, yes in zip(model.classes_, row, strict=True) if yes) for row in has]
    assert predicted == model.predict(HOSTILE)


@needs_gcc
@settings(max_examples=80, deadline=None)
@given(st.text(max_size=80))
def test_any_text(text):
    model, exported = default_model(), default_export()
    assert close(exported.decide(text), model.decision_function([text])[0])


@needs_gcc
@settings(max_examples=120, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [b"a", b"\xc3", b"\xa9", b"\xe2\x82", b"\xf0\x9f", b"\xed\xa0\x80", b"\xff", b"\x80", b" "]
        )
    )
)
def test_any_bytes(parts):
    content = b"".join(parts)
    text = content.decode("utf-8", "replace")
    assert default_export().decide(content).tolist() == default_export().decide(text).tolist()


@lru_cache
def default_export() -> CModel:
    return CModel(pack(plain_model(default_model())))


@needs_gcc
def test_too_long_and_damaged():
    content = pack(plain_model(default_model()))
    exported = CModel(content, max_symbols=100)
    assert exported.try_decide(b"a" * 100)[0] == 0
    assert exported.try_decide(b"a" * 101)[0] == 3
    assert exported.try_decide("\ufdfa".encode() * 10)[0] == 3
    assert CModel(b"").error == CModel(content[:300]).error == CModel(content[:-8]).error == 1
    assert CModel(b"X" + content[1:]).error == 1


@needs_gcc
@pytest.mark.slow
@pytest.mark.parametrize("name", ["chnsenti", "dsl15", "lingspam"])
def test_panel(name):
    labels, texts = panel_rows(name, "train", 2000)
    model = textsvm.SVC().fit(texts, labels)
    exported = CModel(pack(plain_model(model)), 1 << 20)
    _, texts = panel_rows(name, "test", 2000)
    actual = np.array([exported.decide(text) for text in texts])
    assert close(actual, model.decision_function(texts).reshape(actual.shape))
    assert [exported.class_name(exported.predict(row)) for row in actual] == list(model.predict(texts))
