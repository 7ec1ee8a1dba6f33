"""Exported models decide as `predict` in every form: all kernels, tasks and options, on hostile texts."""

from __future__ import annotations

import datetime
import warnings
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from exported import (
    FORMS,
    CModel,
    OnnxModel,
    close,
    decides_as_python,
    ignorable_texts,
    needs_gcc,
    needs_node,
    panel_rows,
    random_text,
)
from hypothesis import given, settings
from hypothesis import strategies as st

import textsvm
from textsvm import SVC, BoundedGap, CalibratedSVC, GappedKmers, MultilabelSVC, On, Spectrum, Sum
from textsvm.apps.export.binary import pack, pack_table, packed_tables, symbol_hashes, write
from textsvm.apps.export.plain import plain_model

pytestmark = pytest.mark.filterwarnings("ignore:the solver stopped")
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
    Spectrum((1, 3), "log", shared=True),
]  # fmt: skip
VIEWS = Sum([Spectrum((1, 3), keep_case=True), Spectrum((1, 3)), Spectrum(1, tokens="words")])
IGNORABLE = ignorable_texts(1000)
#: Names of classes that formats could change, cut or take for another.
NAMES = [
    "\ufeffspam", "spam", "\ufeff", "a\0b", "a", "</script><b>", '"\'\\', "\u00e9", "e\u0301", "x" * 5000,
    "\u2028\n\t", "\U0001f600", "\u202eevil", "&amp;", "0", "null", " padded ", "\u200b",
]  # fmt: skip
NAMED = [f"text {'abcdefghijklmnopqrst'[i % len(NAMES)] * 4}" for i in range(2 * len(NAMES))]
NO_STRINGS = ["abc", "xyzxyzxyz", "ab", ""]

COLUMNS = ["title", "body", "the notes"]
LABELS = ["abc"[i % 3] for i in range(48)]
RNG = np.random.default_rng(0)
TABLE = {
    name: ["win cash now", "", "Lunch at noon?", *(random_text(RNG) for _ in range(45))] for name in COLUMNS
}
TABLE["body"] = TABLE["body"][::-1]
ROWS = {
    name: [*texts[:10], *(random_text(RNG) for _ in range(10)), "", "x" * 3000]
    for name, texts in TABLE.items()
}


def training(texts: list[str]) -> tuple[list[str], list[Any]]:
    examples = [*texts, *HOSTILE[:60]]
    return examples * 2, ["abc"[i % 3] for i in range(len(examples))] * 2


EXAMPLES = training(PLAIN)[0]


def of_classes(n: int, model: Any = None, labels: Any = None) -> Any:
    """A model of n classes, the first labels or multiples of ten."""
    labels = labels or [10 * number for number in range(n)]
    model = model or SVC(Spectrum((1, 3)))
    return model.fit(EXAMPLES, [labels[i % n] for i in range(len(EXAMPLES))])


def calibrated(method: str, n: int, reject: float | None) -> Any:
    bounds = (0.4, 0.6) if reject and n == 2 else reject
    svc = SVC(Spectrum((1, 3), "log"), class_weight="balanced")
    return of_classes(n, CalibratedSVC(svc, method=method, reject=bounds, cv=3), "abc")


def without_strings(kernel: Any) -> Any:
    """A model whose support vectors have no string of the kernel; a training text without weight has."""
    texts = ["abc", "abd", "xyz", "xyw"] * 3 + ["abcabdabc"]
    return SVC(kernel).fit(texts, [*[0, 0, 1, 1] * 3, 0], sample_weight=[1.0] * 12 + [0.0])


def of_columns(*kernels: Any, model: Any = SVC, y: Any = None, **options: Any) -> Any:
    kernel = Sum([On(name, kernel) for name, kernel in zip(COLUMNS, kernels, strict=False)])
    return model(kernel, **options).fit(TABLE, LABELS if y is None else y)


def several(texts: list[str]) -> list[Any]:
    return [[{"a"}, {"b", "a"}, {"c"}][i % 3] for i in range(len(texts))]


#: Models of every kernel, task and option, by the texts that they are tried on.
MODELS: dict[str, Any] = {
    "default": lambda: SVC().fit(*training(PLAIN)),
    **{repr(kernel): lambda kernel=kernel: SVC(kernel).fit(*training(PLAIN)) for kernel in KERNELS},
    **{
        f"{form} {punctuation}": lambda form=form, punctuation=punctuation: SVC(
            VIEWS, normalise=form, punctuation=punctuation, max_length=40
        ).fit(*training(PLAIN))
        for form in ("unicode", "paper", "none")
        for punctuation in (True, False)
    },
    **{
        f"{multiclass} {n}": lambda multiclass=multiclass, n=n: of_classes(
            n, SVC(Spectrum((1, 3)), multiclass=multiclass)
        )
        for multiclass in ("ovr", "ovo", "crammer-singer")
        for n in (2, 4, 15)
    },
    **{
        f"{method} {n} {reject}": lambda method=method, n=n, reject=reject: calibrated(method, n, reject)
        for method in ("sigmoid", "isotonic")
        for n in (2, 3)
        for reject in (None, 0.5)
    },
    "dates": lambda: of_classes(2, None, [datetime.date(2020, 1, 31), datetime.date(2021, 1, 1)]),
    "bools": lambda: of_classes(2, None, [False, True]),
    "floats": lambda: of_classes(2, None, [2.0, 3.0]),
    "signs": lambda: of_classes(2, None, [-1, 1]),
    "several labels": lambda: MultilabelSVC(Spectrum((1, 3))).fit(EXAMPLES, several(EXAMPLES)),
    "numbers": lambda: textsvm.SVR(Spectrum((1, 3))).fit(EXAMPLES, np.arange(len(EXAMPLES)) / 3),
    "one class": lambda: textsvm.OneClassSVM(Spectrum((1, 3)), nu=0.2).fit(EXAMPLES),
}
IGNORING = {"ignorable code points": lambda: SVC(VIEWS).fit(IGNORABLE[:300], ["a", "b", "c"] * 100)}
NAMING = {
    "names": lambda: SVC(Spectrum((1, 3))).fit(NAMED, NAMES * 2),
    "names of labels": lambda: MultilabelSVC(Spectrum((1, 3))).fit(NAMED, [{name} for name in NAMES * 2]),
}
EMPTY = {
    f"without strings {number}": lambda kernel=kernel: without_strings(kernel)
    for number, kernel in enumerate((GappedKmers(6, 1), BoundedGap(4), Sum([Spectrum(2), GappedKmers(6, 1)])))
}
TABLES = {
    "default of columns": lambda: SVC().fit(TABLE, LABELS),
    "two kernels of a column": lambda: SVC(
        Sum([On("body", Spectrum(3)), On("title", Spectrum(1)), On("body", Spectrum(2, keep_case=True))])
    ).fit(TABLE, LABELS),
    "words of columns": lambda: of_columns(Spectrum(1, tokens="words"), Spectrum(2, tokens="words")),
    "gaps of columns": lambda: of_columns(BoundedGap(p=3), Spectrum((1, 3), "intersection")),
    "weights of columns": lambda: SVC(3 * On("title", Spectrum(2)) + On("body", Spectrum(2))).fit(
        TABLE, LABELS
    ),
    "columns as they are": lambda: of_columns(Spectrum(2), Spectrum(2), normalise="none"),
    "a single column": lambda: SVC(On("body", Spectrum(2))).fit(TABLE, LABELS),
    "calibrated columns": lambda: CalibratedSVC(SVC(On("title", Spectrum(2)) + On("body", Spectrum(3)))).fit(
        TABLE, LABELS
    ),
    "several labels of columns": lambda: of_columns(
        Spectrum(2), Spectrum(3), model=MultilabelSVC, y=several(TABLE["body"])
    ),
    "numbers of columns": lambda: of_columns(
        Spectrum(2), Spectrum(3), model=textsvm.SVR, y=np.arange(48.0)
    ),
    "one class of columns": lambda: textsvm.OneClassSVM(
        On("title", Spectrum(2)) + On("body", Spectrum(3))
    ).fit(TABLE),
}  # fmt: skip
ALL = MODELS | IGNORING | NAMING | EMPTY | TABLES


@cache
def fitted(name: Any) -> Any:
    """A model by its name, or of a kernel; for all files of tests."""
    if isinstance(name, str):
        return ALL[name]()
    return fitted(repr(name)) if repr(name) in ALL else SVC(name).fit(*training(PLAIN))


def texts_for(name: str) -> Any:
    """Texts that a model is tried on."""
    for group, texts in ((IGNORING, IGNORABLE), (NAMING, NAMED), (EMPTY, NO_STRINGS), (TABLES, ROWS)):
        if name in group:
            return texts
    return HOSTILE + PLAIN


#: What the forms do in code of their own, and so is tried in each by a plain run of the tests.
EVERYWHERE = [
    "default", *map(repr, (KERNELS[3], KERNELS[4], KERNELS[5], KERNELS[8])), "paper True", "none True",
    "ovo 2", "ovo 4", "sigmoid 3 0.5", "isotonic 2 0.5", "several labels", "numbers", "one class", *IGNORING,
    *NAMING, "without strings 0", "default of columns", "gaps of columns", "calibrated columns",
]  # fmt: skip
IN_C = [*EVERYWHERE, *map(repr, KERNELS), "unicode True", "ovr 15", "crammer-singer 4", "dates", "bools",
        *EMPTY, *TABLES]  # fmt: skip


def cases() -> list[Any]:
    return [
        pytest.param(
            name, form, marks=[needs] * bool(needs) + [pytest.mark.slow] * (name not in quick),
            id=f"{name}-{form}",
        )
        for name in ALL
        for form, (_, needs) in FORMS.items()
        for quick in [IN_C if form == "c" else EVERYWHERE]
    ]  # fmt: skip


@pytest.mark.parametrize(("name", "form"), cases())
def test_every_form_decides_as_python(name, form, tmp_path):
    texts = texts_for(name)
    answers = decides_as_python(form, fitted(name), texts, tmp_path)
    if form != "javascript" or name in ("ovo 4", "ovo 15"):  # sums of machines, not of votes
        return
    joined = plain_model(fitted(name)).about["joined"] if isinstance(texts, dict) else ()
    columns = [map("\n".join, zip(*map(texts.get, own), strict=True)) for own in joined] or [texts]
    rows = list(zip(*columns, strict=True))
    for row, lengths, sums, values in zip(
        rows, answers["lengths"], answers["explained"], answers["decision"], strict=True
    ):
        assert {*lengths} <= {sum(len(text.encode("utf-16-le")) // 2 for text in row)}
        # a text without strings, or a short text of training, has a value without contributions
        if all(len(text) > 5 and text.strip() for text in row):
            assert close(sums, values), ascii(row)


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
def test_labels_of_bytes_are_decoded():
    model = SVC(Spectrum(2)).fit(["abc", "abd", "xyz", "xyw"], [b"\xc3\xa4", b"\xc3\xa4", b"b", b"b"])
    exported = CModel(pack(plain_model(model)))
    assert [exported.class_name(k) for k in (0, 1)] == ["b", "ä"]


@needs_gcc
def test_saved_without_texts(tmp_path):
    with warnings.catch_warnings(action="ignore"):
        textsvm.save(fitted("default"), tmp_path / "model", texts=False)
    decides_as_python("c", textsvm.load(tmp_path / "model"), HOSTILE + PLAIN, tmp_path)


@cache
def default_export() -> CModel:
    return CModel(pack(plain_model(fitted("default"))))


@needs_gcc
@settings(max_examples=80, deadline=None)
@given(st.text(max_size=80))
def test_any_text(text):
    assert close(default_export().decide(text), fitted("default").decision_function([text])[0])


#: Blocks of scripts with combining marks and joiners, of some without, and of marks.
BLOCKS = [
    (0x300, 0x36F), (0x400, 0x4FF), (0x590, 0x5FF), (0x600, 0x6FF), (0x900, 0x9FF), (0xB80, 0xC7F),
    (0xD00, 0xD7F), (0xE00, 0xEFF), (0xF00, 0xFFF), (0x1000, 0x109F), (0x1100, 0x11FF), (0x1780, 0x18AF),
    (0x200B, 0x200D), (0x20D0, 0x20FF), (0x3040, 0x30FF), (0x4E00, 0x4E1F), (0x1F3FB, 0x1F469), (0x20, 0x7E),
]  # fmt: skip
SCRIPTS = st.text(
    st.one_of(st.just(" "), *(st.characters(min_codepoint=a, max_codepoint=b) for a, b in BLOCKS))
)
SEEDS = [
    "".join(chr(RNG.integers(a, b + 1)) for a, b in [BLOCKS[RNG.integers(len(BLOCKS))] for _ in range(30)])
    for _ in range(120)
]
SEEDS += ["हिन्दी भाषा तेलुगु", "ఇంకా కలదు తెలుగు", "שָׁלוֹם עולם", "вели\u0301кий", "می\u200cروم", "don't co-opt"]


@cache
def of_words(tokens: str) -> tuple[Any, CModel, Any]:
    model = SVC(Spectrum((1, 2), "log", idf=True, tokens=tokens)).fit(SEEDS, ["a", "b", "c"] * 42)
    return model, CModel(pack(plain_model(model))), OnnxModel(model)


@needs_gcc
@pytest.mark.parametrize("tokens", ["words", "runs"])
@settings(max_examples=100, deadline=None)
@given(text=SCRIPTS, seed=st.sampled_from(SEEDS))
def test_words_of_any_script(tokens, text, seed):
    model, in_c, in_onnx = of_words(tokens)
    for content in (text, seed + text, f"{text} {seed}"):
        [right] = model.decision_function([content])
        assert close(in_c.decide(content), right)
        assert close(in_onnx([content])["decision"][0], right)


@needs_node
@pytest.mark.parametrize("tokens", ["words", "runs"])
def test_words_of_any_script_in_javascript(tokens, tmp_path):
    decides_as_python("javascript", of_words(tokens)[0], [a + b for a, b in pairwise(SEEDS)], tmp_path)


PARTS = [b"a", b"\xc3", b"\xa9", b"\xe2\x82", b"\xf0\x9f", b"\xed\xa0\x80", b"\xff", b"\x80", b" "]


@needs_gcc
@settings(max_examples=120, deadline=None)
@given(st.lists(st.sampled_from(PARTS)))
def test_any_bytes(parts):
    content = b"".join(parts)
    text = content.decode("utf-8", "replace")
    assert default_export().decide(content).tolist() == default_export().decide(text).tolist()


@needs_gcc
def test_too_long_and_damaged():
    content = pack(plain_model(fitted("default")))
    exported = CModel(content, max_symbols=100)
    for symbol in (b"a", b" "):
        assert [exported.try_decide(symbol * n)[0] for n in (100, 101)] == [0, 3]
    assert exported.try_decide("\ufdfa".encode() * 10)[0] == 3
    for damaged in (b"", content[:300], content[:-8], b"X" + content[1:]):
        assert CModel(damaged).error == 1


@pytest.mark.slow
@pytest.mark.parametrize("form", ["c", "onnx"])
@pytest.mark.parametrize("name", ["chnsenti", "dsl15", "lingspam", "langdet17"])
def test_panel(name, form, tmp_path):
    labels, texts = panel_rows(name, "train", 1000)
    decides_as_python(form, SVC().fit(texts, labels), panel_rows(name, "test", 500)[1], tmp_path)
