"""Models of several columns of texts, exported: all formats decide as Python, with a text for each column."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from exported import SOURCES, CModel, close, javascript_module, needs_gcc, needs_node, random_text
from test_export_files import NODE

import textsvm
from textsvm import (
    SVC,
    BoundedGap,
    CalibratedSVC,
    Gaussian,
    InputError,
    MultilabelSVC,
    On,
    Product,
    Spectrum,
    Sum,
)  # fmt: skip
from textsvm.apps.export.binary import pack, with_checksum
from textsvm.apps.export.plain import plain_model
from textsvm.apps.export.small import reduced_model

pytestmark = pytest.mark.filterwarnings("ignore:the solver stopped")
RNG = np.random.default_rng(0)
NAMES = ["title", "body", "the notes"]
TABLE: dict[str, list[str]] = {
    name: ["win cash now", "", "Lunch at noon?", *(random_text(RNG) for _ in range(45))] for name in NAMES
}
TABLE["body"] = TABLE["body"][::-1]
LABELS = ["abc"[i % 3] for i in range(48)]


def on_all(*kernels: Any) -> Sum:
    return Sum([On(name, kernel) for name, kernel in zip(NAMES, kernels, strict=False)])


MODELS = {
    "default": lambda: SVC().fit(TABLE, LABELS),
    "two kernels of a column": lambda: SVC(
        Sum([On("body", Spectrum(3)), On("title", Spectrum(1)), On("body", Spectrum(2, keep_case=True))])
    ).fit(TABLE, LABELS),
    "words": lambda: SVC(on_all(Spectrum(1, tokens="words"), Spectrum(2, tokens="words"))).fit(TABLE, LABELS),
    "gaps": lambda: SVC(on_all(BoundedGap(p=3), Spectrum((1, 3), "intersection"))).fit(TABLE, LABELS),
    "weights": lambda: SVC(Sum([On("title", Spectrum(2)), On("body", Spectrum(2))], [3.0, 1.0])).fit(
        TABLE, LABELS
    ),
    "normalise none": lambda: SVC(on_all(Spectrum(2), Spectrum(2)), normalise="none").fit(TABLE, LABELS),
    "a single column": lambda: SVC(On("body", Spectrum(2))).fit(TABLE, LABELS),
    "calibrated": lambda: CalibratedSVC(SVC(on_all(Spectrum(2), Spectrum(3)))).fit(TABLE, LABELS),
    "several labels": lambda: MultilabelSVC(on_all(Spectrum(2), Spectrum(3))).fit(
        TABLE, [tuple({label, "abc"[i % 2]}) for i, label in enumerate(LABELS)]
    ),
    "numbers": lambda: textsvm.SVR(on_all(Spectrum(2), Spectrum(3))).fit(TABLE, np.arange(48.0)),
    "one class": lambda: textsvm.OneClassSVM(on_all(Spectrum(2), Spectrum(3))).fit(TABLE),
}


def read_back(model: Any, tmp_path: Path) -> tuple[list[str], list[dict[str, str]], np.ndarray, bytes]:
    """Columns, rows, decision values in Python, and the model file, from a saved model."""
    textsvm.save(model, tmp_path / "m")
    saved = textsvm.load(tmp_path / "m")
    plain = plain_model(saved)
    new = {
        name: [*TABLE[name][:10], *(random_text(RNG) for _ in range(10)), "", "x" * 3000] for name in NAMES
    }
    rows = [{name: new[name][i] for name in plain.columns} for i in range(22)]
    return (
        plain.columns,
        rows,
        model.decision_function(new) if hasattr(model, "decision_function") else model.predict(new),
        pack(plain),
    )


@needs_gcc
@pytest.mark.parametrize("name", MODELS)
def test_columns_in_c(name, tmp_path):
    columns, rows, expected, content = read_back(MODELS[name](), tmp_path)
    exported = CModel(content)
    assert exported.error == 0
    for row, values in zip(rows, expected, strict=True):
        assert close(exported.decide_columns([row[column] for column in columns]), values), ascii(row)
    if len(columns) > 1:
        assert exported.try_decide(b"text")[0] == 5


@needs_node
@pytest.mark.parametrize("name", MODELS)
def test_columns_in_javascript(name, tmp_path):
    """Contributions, with those of all columns one after the other, sum to the decision values."""
    columns, rows, expected, content = read_back(MODELS[name](), tmp_path)
    (tmp_path / "model.bin").write_bytes(content)
    script = f"""
        import {{ readFileSync }} from "node:fs";
        import {{ Model }} from {json.dumps(javascript_module())};
        const m = new Model(readFileSync({json.dumps(str(tmp_path / "model.bin"))}));
        const results = {json.dumps(rows)}.map((row) => {{
          const decision = m.decide(row), sums = [], lengths = [];
          decision.forEach((_, k) => {{
            const {{ contributions, bias }} = m.explain(row, k);
            sums.push(contributions.reduce((sum, value) => sum + value, bias));
            lengths.push(contributions.length);
          }});
          return {{ decision: [...decision], sums, lengths }};
        }});
        const errors = [{{}}, {{ body: 1 }}, null, 5].map((text) => {{
          try {{ m.decide(text); return ""; }} catch (error) {{ return error.name + error.message; }}
        }});
        console.log(JSON.stringify([m.columns, results, errors]));
    """
    done = subprocess.run([NODE, "--input-type=module"], input=script.encode(), capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    found, results, errors = json.loads(done.stdout)
    assert found == columns
    assert close([result["decision"] for result in results], np.reshape(expected, (len(rows), -1)))
    for row, result, values in zip(rows, results, np.reshape(expected, (len(rows), -1)), strict=True):
        assert set(result["lengths"]) <= {sum(len(text.encode("utf-16-le")) // 2 for text in row.values())}
        new = all(text not in TABLE[column] or len(text) > 5 for column, text in row.items())
        if result["sums"] and new:  # values of short texts of training are no contributions
            assert close(result["sums"], values)
    assert all(error == f"TextsvmErrorgive an object with the texts {', '.join(columns)}" for error in errors)


@pytest.mark.parametrize("name", MODELS)
def test_columns_in_onnx(name, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    extensions = pytest.importorskip("onnx")
    assert extensions
    columns, rows, expected, _ = read_back(MODELS[name](), tmp_path)
    textsvm.export(textsvm.load(tmp_path / "m"), tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"))
    assert [value.name for value in session.get_inputs()] == columns
    texts = {column: np.array([row[column] for row in rows], object) for column in columns}
    [decision] = session.run(["decision"], texts)
    assert close(decision, np.reshape(expected, (len(rows), -1)))


def test_names_of_inputs_differ_from_outputs(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    table = {"label": TABLE["title"], "v1": TABLE["body"]}
    textsvm.export(
        SVC(Sum([On(name, Spectrum(2)) for name in table])).fit(table, LABELS), tmp_path / "m.onnx"
    )
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"))
    assert [value.name for value in session.get_inputs()] == ["text_label", "text_v1"]


@needs_gcc
def test_a_smaller_model_of_columns(tmp_path):
    model = MODELS["default"]()
    whole = pack(plain_model(model))
    reduction = reduced_model(
        model, plain_model(model), len(whole) // 2, {name: TABLE[name] for name in NAMES}
    )
    exported, rows = CModel(reduction.content), zip(*TABLE.values(), strict=True)
    values = np.array([exported.decide_columns(list(row)) for row in rows])
    assert np.abs(values - model.decision_function(TABLE)).max() == pytest.approx(
        reduction.difference[1], rel=1e-3
    )


@needs_gcc
@pytest.mark.parametrize(("word", "value"), [(38, 100), (38, 1), (38, 2**32 - 1)])
def test_damaged_columns_in_c(word, value):
    words = np.frombuffer(pack(plain_model(MODELS["words"]())), np.uint32).copy()
    assert words[38] == 2
    words[word] = value
    assert CModel(with_checksum(words.tobytes())).error == 1


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (
            On("title", Spectrum(2)) + On(["hour", "size"], Gaussian()),
            "with the numbers of columns hour, size cannot",
        ),
        (Product([On("title", Spectrum(2)), On("body", Spectrum(2))]), "no list of features, cannot"),
    ],
)
def test_other_kernels_on_columns_are_refused(kernel, words, tmp_path):
    table: dict[str, Any] = {**TABLE, "hour": list(range(48)), "size": list(range(48))}
    model = SVC(kernel).fit(table, LABELS)
    with pytest.raises(InputError, match=words):
        textsvm.export(model, tmp_path / "m.html")


def test_the_version_of_files_of_columns():
    """Version 4; older readers refuse it instead of reading a single text."""
    for normalise in ("unicode", "none", "paper"):
        model = SVC(on_all(Spectrum(2), Spectrum(2)), normalise=normalise).fit(TABLE, LABELS)
        assert np.frombuffer(pack(plain_model(model)), np.uint32)[2] == 4
    assert (SOURCES / "textsvm.c").exists()
