"""Models in ONNX decide as `predict`, judged by onnxruntime."""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from command import run
from exported import close, ignorable_texts, panel_rows
from hypothesis import given, settings
from hypothesis import strategies as st
from test_export import HOSTILE, KERNELS, PLAIN, default_model, fitted, training, without_strings
from test_export_readers import REJECTED, even_model

import textsvm
from textsvm import BoundedGap, GappedKmers, InputError, Spectrum, Sum
from textsvm.apps.export.plain import PlainModel, plain_model

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
from textsvm.apps.export import onnx as exporter  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:the solver stopped")


class OnnxModel:
    """A model in onnxruntime, on one thread."""

    def __init__(self, model: Any) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = 1, 3
        content = exporter.onnx_of(model if isinstance(model, PlainModel) else plain_model(model))
        self.session = onnxruntime.InferenceSession(content, options)
        self.names = [each.name for each in self.session.get_outputs()]

    def __call__(self, texts: list[str]) -> dict[str, Any]:
        results = self.session.run(None, {"texts": np.array(texts, object)})
        return dict(zip(self.names, results, strict=True))


def check(model: Any, texts: list[str]) -> dict[str, Any]:
    """Compare decision values and labels with those of Python."""
    results = OnnxModel(model)(texts)
    decide = getattr(model, "decision_function", model.predict)
    expected = np.reshape(decide(texts), (len(texts), -1))
    wrong = [text for text, a, e in zip(texts, results["decision"], expected, strict=True) if not close(a, e)]
    assert not wrong, ascii(wrong[0])
    if "label" in results:
        assert results["label"].tolist() == model.predict(texts).tolist()
    return results


@pytest.mark.parametrize("kernel", [KERNELS[3], KERNELS[8]], ids=repr)
def test_kernels(kernel):
    check(fitted(kernel), HOSTILE + PLAIN)


@pytest.mark.parametrize("kernel", [GappedKmers(6, 1), Sum([Spectrum(2), BoundedGap(4)])], ids=repr)
def test_tables_without_strings(kernel):
    check(without_strings(kernel), ["abc", "xyzxyzxyz", "ab", ""])


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [*KERNELS[:3], *KERNELS[4:8], *KERNELS[9:]], ids=repr)
def test_more_kernels(kernel):
    check(fitted(kernel), HOSTILE + PLAIN)


@pytest.mark.parametrize("form", [pytest.param("unicode", marks=pytest.mark.slow), "paper", "none"])
@pytest.mark.parametrize("punctuation", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_normal_forms(form, punctuation):
    kernel = Sum([Spectrum((1, 3), keep_case=True), Spectrum((1, 3)), Spectrum(1, tokens="words")])
    options = {"normalise": form, "punctuation": punctuation, "max_length": 40}
    check(textsvm.SVC(kernel, **options).fit(*training(PLAIN)), HOSTILE + PLAIN)


def test_ignorable_code_points():
    texts = ignorable_texts(1000)
    kernel = Sum([Spectrum((1, 3), keep_case=True), Spectrum((1, 3)), Spectrum(1, tokens="words")])
    model = textsvm.SVC(kernel).fit(texts[:300], ["abc"[i % 3] for i in range(300)])
    check(model, texts)


def test_names_of_classes_are_kept():
    names = ["\ufeffspam", "spam", "a\0b", "a", "\u00e9", "e\u0301", "x" * 5000, "\u2028\n\t", "\"'\\"]
    texts = [f"text {'abcdefghijklm'[i % len(names)] * 4}" for i in range(2 * len(names))]
    results = check(textsvm.SVC(Spectrum((1, 3))).fit(texts, names * 2), texts)
    assert sorted({*results["label"].tolist()}) == sorted(names)


@lru_cache
def default_session() -> OnnxModel:
    return OnnxModel(default_model())


def test_default():
    check(default_model(), HOSTILE + PLAIN)


@pytest.mark.parametrize(
    "texts", [[""], ["", ""], ["a"], ["İ", "\u0323"], ["a\0b"], ["x" * 20000], ["ab " * 5000]], ids=range(7)
)
def test_batches(texts):
    assert close(default_session()(texts)["decision"], scores(default_model(), texts))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(max_size=60), min_size=1, max_size=4))
def test_any_texts(texts):
    assert close(default_session()(texts)["decision"], scores(default_model(), texts))


#: Characters that compose with each other in several steps, or block each other.
COMPOSING = (
    "aeAoα\u0301\u0300\u0308\u0323\u0345\u0327\u1100\u1161\u11a8\uac00\u0cc6\u0cc2\u0cd5\u09c7\u09be"
    "\u05e9\u05c1İϓK ﬁ"
)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text(COMPOSING, max_size=12), min_size=1, max_size=8))
def test_composing_characters(texts):
    assert close(default_session()(texts)["decision"], scores(default_model(), texts))


def scores(model: Any, texts: list[str]) -> np.ndarray:
    return np.reshape(model.decision_function(texts), (len(texts), -1))


@pytest.mark.parametrize("multiclass", ["ovr", "ovo", "crammer-singer"])
@pytest.mark.parametrize("n_classes", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_classes(multiclass, n_classes):
    texts, _ = training(PLAIN)
    labels = [10 * (i % n_classes) for i in range(len(texts))]
    check(textsvm.SVC(Spectrum((1, 3)), multiclass=multiclass).fit(texts, labels), HOSTILE)


@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
@pytest.mark.parametrize("reject", [None, 0.5])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_calibrated(method, reject, n_classes):
    texts, _ = training(PLAIN)
    labels = ["abc"[i % n_classes] for i in range(len(texts))]
    bounds = (0.4, 0.6) if reject and n_classes == 2 else reject
    svc = textsvm.SVC(Spectrum((1, 3), "log"), class_weight="balanced")
    model = textsvm.CalibratedSVC(svc, method=method, reject=bounds, cv=3).fit(texts, labels)
    assert close(check(model, HOSTILE)["probabilities"], model.predict_proba(HOSTILE))


def test_other_tasks():
    texts, _ = training(PLAIN)
    check(textsvm.SVR(Spectrum((1, 3))).fit(texts, np.arange(len(texts)) / 3), HOSTILE)
    check(textsvm.OneClassSVM(Spectrum((1, 3)), nu=0.2).fit(texts), HOSTILE)
    labels = [[{"a"}, {"b", "a"}, {"c"}][i % 3] for i in range(len(texts))]
    model = textsvm.MultilabelSVC(Spectrum((1, 3))).fit(texts, labels)
    results = check(model, HOSTILE)
    assert [tuple(model.classes_[row]) for row in results["labels"]] == model.predict(HOSTILE)


@pytest.mark.parametrize("bounds", REJECTED, ids=str)
def test_probabilities_at_a_bound_of_rejection(bounds):
    result = OnnxModel(even_model(bounds))(["cash"])
    assert result["probabilities"].tolist() == [[0.5, 0.5]]
    assert result["label"].tolist() == [["a", "b", "unsure"][REJECTED[bounds]]]


def test_operators():
    """Only the tokeniser is outside the standard."""
    model = onnx.load_from_string(exporter.onnx_of(plain_model(default_model())))
    nodes = list(model.graph.node)
    for node in nodes:
        nodes += [each for attribute in node.attribute for each in attribute.g.node]
    assert {node.op_type for node in nodes if node.domain == "com.microsoft"} == {"Tokenizer"}
    assert {node.op_type for node in nodes if node.domain == "ai.onnx.ml"} == {"LabelEncoder"}
    assert {node.domain for node in nodes} == {"", "ai.onnx.ml", "com.microsoft"}


def test_errors(tmp_path, monkeypatch):
    for limit in (100_000, 10):
        monkeypatch.setattr(exporter, "MOST_BYTES", limit)
        with pytest.raises(InputError, match="2 GiB"):
            textsvm.export(default_model(), tmp_path / "model.onnx")
    monkeypatch.setitem(sys.modules, "onnx", None)
    monkeypatch.delitem(sys.modules, "textsvm.apps.export.onnx")
    with pytest.raises(InputError, match="needs the package onnx"):
        textsvm.export(default_model(), tmp_path / "model.onnx")
    assert not (tmp_path / "model.onnx").exists()


def test_command(tmp_path):
    textsvm.save(default_model(), tmp_path / "model")
    done = run("export", str(tmp_path / "model"), "-o", str(tmp_path / "model.onnx"))
    assert done.returncode == 0, done.stderr
    onnx.checker.check_model(str(tmp_path / "model.onnx"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["chnsenti", "dsl15", "langdet17"])
def test_panel(name):
    labels, texts = panel_rows(name, "train", 1000)
    model = textsvm.SVC().fit(texts, labels)
    _, texts = panel_rows(name, "test", 500)
    check(model, texts)


def test_no_sum_loses_addends_on_several_threads():
    # ScatterND of onnxruntime 1.32 adds to the same place on several threads without a lock.
    graph = onnx.load_from_string(exporter.onnx_of(plain_model(default_model()))).graph
    assert not [node for node in graph.node if node.op_type == "ScatterND"]
