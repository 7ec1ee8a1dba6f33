"""Models in ONNX decide as `predict`, judged by onnxruntime."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from functools import lru_cache

import numpy as np
import pytest
from command import ROOT, works
from exported import OnnxModel, close
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refuses
from test_export import TABLE, fitted
from test_export_readers import REJECTED, even_model

import textsvm
from textsvm import SVC, On, Spectrum
from textsvm.apps.export.plain import plain_model

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
from textsvm.apps.export import onnx as exporter  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:the solver stopped")


@lru_cache
def default_session() -> OnnxModel:
    return OnnxModel(fitted("default"))


@pytest.mark.parametrize(
    "texts", [[""], ["", ""], ["a"], ["İ", "\u0323"], ["a\0b"], ["x" * 20000], ["ab " * 5000]], ids=range(7)
)
def test_batches(texts):
    assert agrees(texts)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(max_size=60), min_size=1, max_size=4))
def test_any_texts(texts):
    assert agrees(texts)


#: Characters that compose with each other in several steps, or block each other.
COMPOSING = (
    "aeAoα\u0301\u0300\u0308\u0323\u0345\u0327\u1100\u1161\u11a8\uac00\u0cc6\u0cc2\u0cd5\u09c7\u09be"
    "\u05e9\u05c1İϓK ﬁ"
)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text(COMPOSING, max_size=12), min_size=1, max_size=8))
def test_composing_characters(texts):
    assert agrees(texts)


def agrees(texts: list[str]) -> bool:
    expected = fitted("default").decision_function(texts)
    return close(default_session()(texts)["decision"], np.reshape(expected, (len(texts), -1)))


@pytest.mark.parametrize("bounds", REJECTED, ids=str)
def test_probabilities_at_a_bound_of_rejection(bounds):
    result = OnnxModel(even_model(bounds))(["cash"])
    assert result["probabilities"].tolist() == [[0.5, 0.5]]
    assert result["label"].tolist() == [["a", "b", "unsure"][REJECTED[bounds]]]


def test_operators():
    """Only the tokeniser is outside the standard."""
    nodes = list(onnx.load_from_string(exporter.onnx_of(plain_model(fitted("default")))).graph.node)
    for node in nodes:
        nodes += [each for attribute in node.attribute for each in attribute.g.node]
    assert {node.op_type for node in nodes if node.domain == "com.microsoft"} == {"Tokenizer"}
    assert {node.op_type for node in nodes if node.domain == "ai.onnx.ml"} == {"LabelEncoder"}
    assert {node.domain for node in nodes} == {"", "ai.onnx.ml", "com.microsoft"}


def test_errors(tmp_path, monkeypatch):
    for limit in (100_000, 10):
        monkeypatch.setattr(exporter, "MOST_BYTES", limit)
        refuses("2 GiB", textsvm.export, fitted("default"), tmp_path / "model.onnx")
    monkeypatch.setitem(sys.modules, "onnx", None)
    monkeypatch.delitem(sys.modules, "textsvm.apps.export.onnx")
    refuses("needs the package onnx", textsvm.export, fitted("default"), tmp_path / "model.onnx")
    assert not (tmp_path / "model.onnx").exists()


def test_command(tmp_path):
    textsvm.save(fitted("default"), tmp_path / "model")
    works("export", str(tmp_path / "model"), "-o", str(tmp_path / "model.onnx"))
    onnx.checker.check_model(str(tmp_path / "model.onnx"))


def test_no_sum_loses_addends_on_several_threads():
    # ScatterND of onnxruntime 1.32 adds to the same place on several threads without a lock.
    graph = onnx.load_from_string(exporter.onnx_of(plain_model(fitted("default")))).graph
    assert not [node for node in graph.node if node.op_type == "ScatterND"]


def test_names_of_inputs_differ_from_outputs():
    table = {"label": TABLE["title"], "v1": TABLE["body"]}
    model = SVC(On("label", Spectrum(2)) + On("v1", Spectrum(2))).fit(
        table, ["abc"[i % 3] for i in range(48)]
    )
    assert [value.name for value in OnnxModel(model).session.get_inputs()] == ["text_label", "text_v1"]


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """A folder with onnxruntime-node and onnxruntime-web."""
    folder = tmp_path_factory.mktemp("packages")
    if shutil.which("npm") is None:
        pytest.skip("needs npm")
    command = [
        "npm",
        "install",
        "--ignore-scripts",
        "--prefix",
        str(folder),
        "onnxruntime-node",
        "onnxruntime-web",
    ]
    if subprocess.run(command, capture_output=True, timeout=300).returncode:
        pytest.skip("npm cannot install onnxruntime-node")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("package", ["onnxruntime-node", "onnxruntime-web"])
def test_the_lines_of_the_page_in_node(package, packages):
    page = (ROOT / "docs/tasks/export.md").read_text(encoding="utf-8")
    lines = re.search(r"<!-- recipe: onnx.mjs -->\n```js\n(.*?)```", page, re.DOTALL)[1]
    model = fitted("default")
    (packages / "questions.onnx").write_bytes(exporter.onnx_of(plain_model(model)))
    program = lines.replace("onnxruntime-node", package)
    program += "console.log(JSON.stringify([label.data, [...decision.data]]));\n"
    (packages / "page.mjs").write_text(program, encoding="utf-8")
    shown = subprocess.run(
        ["node", "page.mjs"], cwd=packages, capture_output=True, check=True, timeout=120
    ).stdout
    labels, decision = json.loads(shown)
    texts = ["When was the telephone invented?", "Where is Lima?"]
    assert labels == list(map(str, model.predict(texts)))
    expected = model.decision_function(texts)
    np.testing.assert_allclose(np.reshape(decision, expected.shape), expected, rtol=0, atol=1e-9)
