"""Exported models of edit distance and gap-weighted subsequences decide as `predict`."""

from __future__ import annotations

import json
import subprocess
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from exported import CModel, close, needs_gcc, needs_node, panel_rows
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import edit_distance
from test_export import HOSTILE, PLAIN, PROTEINS, check, training
from test_export_files import in_node, sanitised

import textsvm
from textsvm import BoundedGap, EditDistance, GapWeighted, InputError, Product, Spectrum, Sum
from textsvm.apps.export.binary import pack, with_checksum
from textsvm.apps.export.plain import plain_model
from textsvm.kernels.gap.recurrence import Recurrence

pytestmark = pytest.mark.filterwarnings("ignore:the solver stopped")
SLOW = pytest.mark.slow
#: Texts of several words of 64 symbols, unknown symbols, and a text without features.
TEXTS = [*HOSTILE, *PLAIN, "ab" * 31, "ab" * 32, "abc" * 43, "жыж цёц", "at" * 200]
MIXED = Sum(
    [Spectrum((1, 3), "log"), EditDistance(tokens="words"), GapWeighted(3), BoundedGap(2)], (3, 1, 2, 1)
)
KERNELS = [
    EditDistance(0.05),
    EditDistance(2.0, relative=True, keep_case=True),
    pytest.param(EditDistance(1e300, tokens="whitespace"), marks=SLOW),
    GapWeighted(4),
    GapWeighted(1, 0.3),
    GapWeighted(4, 0.9, weights=(1, 2, 0, 3)),
    pytest.param(GapWeighted(3, 0.5, normalised=False), marks=SLOW),
    pytest.param(GapWeighted(2, 1.0, tokens="words"), marks=SLOW),
    MIXED,
]  # fmt: skip


@pytest.fixture
def in_double(monkeypatch):
    """`predict` computes gap-weighted values of short texts in float32; C and JavaScript in float64."""
    monkeypatch.setattr(Recurrence, "needs_double", lambda *_: True)


@needs_gcc
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_kernels(kernel, in_double):
    check(textsvm.SVC(kernel).fit(*training(PLAIN)), TEXTS)


@needs_gcc
def test_float32_of_predict():
    model = textsvm.SVC(GapWeighted(5, 0.7)).fit(*training(PLAIN))
    exported, expected = exported_of(model), model.decision_function(TEXTS)
    actual = np.array([exported.decide(text) for text in TEXTS])
    assert np.abs(actual - expected).max() < 8e-6 * np.abs(model.dual_coef_).sum()
    assert [exported.class_name(exported.predict(row)) for row in actual] == list(model.predict(TEXTS))


def exported_of(model: Any, max_symbols: int = 1 << 16) -> CModel:
    exported = CModel(pack(plain_model(model)), max_symbols)
    assert exported.error == 0
    return exported


@needs_gcc
def test_tasks(in_double):
    texts, _ = training(PLAIN)
    few = TEXTS[::3]
    svc = textsvm.SVC(EditDistance())
    model = textsvm.CalibratedSVC(svc, cv=3).fit(texts, ["abc"[i % 3] for i in range(len(texts))])
    exported = check(model, few)
    actual = [exported.probabilities(exported.decide(text)) for text in few]
    assert np.abs(actual - model.predict_proba(few)).max() < 1e-9
    check(textsvm.SVC(GapWeighted(3), multiclass="ovo").fit(texts, np.arange(len(texts)) % 4), few)
    check(textsvm.SVR(GapWeighted(2)).fit(texts, np.arange(len(texts)) / 3), few)
    check(textsvm.OneClassSVM(EditDistance(), nu=0.2).fit(texts), few)


@needs_gcc
def test_proteins(in_double):
    kernel = Sum([EditDistance(tokens="blosum62"), GapWeighted(2, tokens="blosum62")])
    exported = check(textsvm.SVC(kernel).fit(*training(PROTEINS)), PROTEINS)
    assert exported.try_decide(b"AC?")[0] == 5


@lru_cache
def mixed_model() -> Any:
    return textsvm.SVC(MIXED).fit(*training(PLAIN))


@lru_cache
def mixed_export() -> CModel:
    return exported_of(mixed_model())


@needs_gcc
@settings(max_examples=80, deadline=None)
@given(st.text(st.sampled_from("ab cAéΣ한🙂"), max_size=150) | st.text(max_size=80))
def test_any_text(text):
    expected = mixed_model().decision_function([text])[0]
    assert np.abs(mixed_export().decide(text) - expected).max() < 1e-5


@needs_gcc
@SLOW
def test_too_long_for_double():
    texts = ["ab" * 120, "ba" * 120, "aab" * 80, "abb" * 80]
    exported = exported_of(model := textsvm.SVC(GapWeighted(200, 1.0)).fit(texts, [0, 1, 0, 1]))
    assert exported.try_decide(b"ab" * 110)[0] == 0
    assert exported.try_decide(b"a" * 900)[0] == 3
    with pytest.raises(InputError, match="range of float64"):
        model.predict(["a" * 900])


@needs_node
def test_javascript(tmp_path, in_double):
    model = mixed_model()
    textsvm.export(model, tmp_path / "model", to="js")
    texts = [*TEXTS, "\ud800 lone"]
    results = in_node(tmp_path / "model", texts)
    for text, result, values in zip(texts, results, model.decision_function(texts), strict=True):
        assert close(result["decision"], values), ascii(text)
    assert [each["predicted"] for each in results] == model.predict(texts).tolist()


@needs_node
@pytest.mark.parametrize("kernel", KERNELS[:-1], ids=repr)
@SLOW
def test_more_javascript(kernel, tmp_path, in_double):
    model = textsvm.SVC(kernel).fit(*training(PLAIN))
    textsvm.export(model, tmp_path / "model", to="js")
    results = in_node(tmp_path / "model", TEXTS)
    assert close([each["decision"] for each in results], model.decision_function(TEXTS))


def test_json(tmp_path):
    model = textsvm.SVC(EditDistance(0.3, relative=True)).fit(*training(PLAIN))
    textsvm.export(model, tmp_path / "m.json")
    content = json.loads((tmp_path / "m.json").read_text())
    (term,) = content["terms"]
    for text in ("cash at noon", ""):
        values = np.array(content["biases"])
        for other, row in zip(term["support_vectors"], term["coefficients"], strict=True):
            d = edit_distance(text, "".join(other)) / max(len(text), len(other), 1)
            values += float(np.float32(np.exp(-term["rate"] * d))) * np.array(row)
        assert close(values, model.decision_function([text])[0])


@needs_gcc
@SLOW
@pytest.mark.parametrize("kernel", [EditDistance(), GapWeighted(3), MIXED], ids=repr)
def test_damaged_files_in_c(kernel, tmp_path):
    textsvm.export(textsvm.SVC(kernel).fit(*training(PLAIN)), tmp_path / "model", to="c")
    done = subprocess.run(
        [sanitised(tmp_path), str(tmp_path / "model" / "model.bin")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[:2000]


@needs_gcc
@pytest.mark.parametrize("version", [0, 1, 2, 6])
def test_other_versions_are_refused(version):
    content = bytearray(pack(plain_model(mixed_model())))
    assert content[8] == 4
    content[8] = version
    assert CModel(with_checksum(bytes(content))).error == 1


def test_errors(tmp_path, monkeypatch):
    texts, labels = training(PLAIN)
    product = textsvm.SVC(Product([EditDistance(), Spectrum(1)])).fit(texts, labels)
    with pytest.raises(InputError, match=r"edit.*spectrum:1, which has no list of features"):
        textsvm.export(product, tmp_path / "m.bin")
    monkeypatch.setattr("textsvm.apps.export.plain.MOST_SUPPORT", 20)
    with pytest.raises(InputError, match=r"edit.* compares texts with .* at most 20 .*bounded-gap"):
        textsvm.export(textsvm.SVC(EditDistance()).fit(texts, labels), tmp_path / "m.bin")
    assert not (tmp_path / "m.bin").exists()
    monkeypatch.undo()
    with pytest.raises(InputError, match="support vectors cannot be made smaller"):
        textsvm.export(mixed_model(), tmp_path / "m.bin", max_size="2MB")
    pytest.importorskip("onnx")
    with pytest.raises(InputError, match="cannot be expressed in ONNX"):
        textsvm.export(mixed_model(), tmp_path / "m.onnx")


@needs_gcc
@SLOW
@pytest.mark.parametrize("kernel", [EditDistance(), GapWeighted(4)], ids=repr)
def test_panel(kernel):
    labels, texts = panel_rows("cr", "train", 400)
    model = textsvm.SVC(kernel).fit(texts, labels)
    exported, (_, texts) = exported_of(model), panel_rows("cr", "test", 200)
    actual = np.array([exported.decide(text) for text in texts])
    assert np.abs(actual.ravel() - model.decision_function(texts)).max() < 1e-5
    assert [exported.class_name(exported.predict(row)) for row in actual] == list(model.predict(texts))
