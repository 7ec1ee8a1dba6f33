"""The benchmark of encoders beside strings: its machines are those of the package."""

import json
import lzma

import numpy as np
import pytest

from benchmarks import meaning as bench
from benchmarks.__main__ import main
from tests.encoders import static_folder, topics
from textsvm import SVC


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Folder of corpora with one set of two topics."""
    for panel, name in (("panel", "toy"), ("panel2", "few")):
        (tmp_path / panel).mkdir()
        for part, n, seed in (("train", 90, 1), ("test", 40, 2)):
            lines = "".join(f"{label}\t{text}\n" for text, label in zip(*topics(n, seed), strict=True))
            (tmp_path / panel / f"{name}-{part}.tsv.xz").write_bytes(lzma.compress(lines.encode()))
    static_folder(tmp_path / "encoders" / "minilm-static-256")
    monkeypatch.setenv("TEXTSVM_DATA", str(tmp_path))
    return tmp_path


def test_machines_of_the_benchmark_predict_as_the_package(data, tmp_path):
    part = bench.part_of(data / "panel", "toy", "20c", 0)
    texts, codes, tests, *_ = part
    assert np.bincount(codes).tolist() == [20, 20]
    vectors = np.random.default_rng(0).normal(size=(len(texts) + len(tests), 5))
    table = dict(zip([*texts, *tests], vectors, strict=False))
    encoders = {"random": (np.array([table[t] for t in texts]), np.array([table[t] for t in tests]))}
    found = dict(bench.machines(part, encoders, True))
    assert np.array_equal(found["strings"], SVC().fit(texts, codes).predict(tests))
    ours = SVC(encoder=lambda wanted: [table[t] for t in wanted]).fit(texts, codes)
    assert np.array_equal(found["strings + random"], ours.predict(tests))
    assert {bench.CHARACTERS, "random + logistic regression", "strings + 0.5 random"} <= set(found)


def test_report_of_the_benchmark(data, tmp_path):
    others = tmp_path / "others.jsonl"
    row = {"set": "toy", "size": "8c", "method": "tuned", "accuracy": 0.5, "macro_f1": 0.4}
    others.write_text(json.dumps(row) + "\n")
    parts = [bench.samples(data / panel, name) for panel, name in (("panel", "toy"), ("panel2", "few"))]
    arrays = {}
    for name, (texts, _, tests, _) in zip(("toy", "few"), parts, strict=True):
        for side, which in (("a", texts), ("b", tests)):
            arrays[f"{name}|{side}|q"] = np.array([[len(t), t.count("a")] for t in which], np.int8)
            arrays[f"{name}|{side}|s"] = np.ones(len(which), np.float32)
    np.savez(tmp_path / "v.npz", **arrays)
    arguments = ["meaning", "--sizes", "8c,300", "--seeds", "2", "--others", str(others)]
    main([*arguments, "--vectors", str(tmp_path), "-o", str(tmp_path / "report")])
    rows = json.loads((tmp_path / "report.json").read_text())["rows"]
    assert [(row["set"], row["size"], row["seed"], row["texts"]) for row in rows] == [
        ("toy", "8c", 0, 16), ("toy", "8c", 1, 16), ("few", "8c", 0, 16), ("few", "8c", 1, 16)
    ]  # fmt: skip
    assert min(rows[0]["accuracy"].values()) > 60
    assert rows[0]["macro_f1"]["static + logistic regression"] == 100
    assert "MiniLM + logistic regression" in rows[0]["accuracy"]
    assert "MiniLM + logistic regression" not in rows[1]["accuracy"]
    report = (tmp_path / "report.md").read_text()
    assert "| few |" in report
    assert "| tuned |" in report
    assert "Accuracy by set, 300" not in report
