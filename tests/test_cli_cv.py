"""cv and tune: folds and grids on files."""

import json

import numpy as np
import pytest
from command import report, run

from textsvm.readers import sample
from textsvm.readers.read import read_corpus

ESSAYS = [sample("essays"), "--regress", "score", "--groups", "writer"]


def rows_of(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_cv(tmp_path):
    path = tmp_path / "out.jsonl"
    found = report("cv", sample("mail"), "--folds", "4", "--kernel", "spectrum:3", "--predictions", path)
    assert found["n"] == 400
    assert [(fold["n_train"], fold["n_test"]) for fold in found["folds"]] == [(300, 100)] * 4
    accuracies = [fold["metrics"]["accuracy"] for fold in found["folds"]]
    assert found["mean"]["accuracy"] == pytest.approx(np.mean(accuracies))
    assert found["sd"]["accuracy"] == pytest.approx(np.std(accuracies, ddof=1))
    rows = rows_of(path)
    assert [row["id"] for row in rows] == read_corpus(sample("mail")).ids
    right = [row["truth"] == row["predicted"] for row in rows]
    assert np.mean(right) == pytest.approx(found["pooled"]["accuracy"])
    for number, accuracy in enumerate(accuracies, 1):
        assert np.mean(
            [good for good, row in zip(right, rows, strict=True) if row["folds"] == [number]]
        ) == pytest.approx(accuracy)
    shown = run("cv", sample("mail"), "--folds", "4", "--kernel", "spectrum:3").stdout.decode()
    assert f"{100 * found['mean']['accuracy']:.2f} %" in shown


def test_groups_stay_together(tmp_path):
    path = tmp_path / "out.jsonl"
    found = report("cv", *ESSAYS, "--kernel", "spectrum:1-4", "-C", "1", "--predictions", path)
    assert found["mean"]["qwk"] > 0.7
    writers = read_corpus(sample("essays"), target="score", group="writer").groups
    folds = {}
    for writer, row in zip(writers, rows_of(path), strict=True):
        folds.setdefault(writer, set()).add(tuple(row["folds"]))
        assert row["decision"] == row["predicted"]
    assert all(len(of_writer) == 1 for of_writer in folds.values())
    weighted = report("cv", *ESSAYS, "--kernel", "spectrum:1-4", "-C", "1", "--weights", "raters")
    assert weighted["mean"]["mae"] != found["mean"]["mae"]


def test_near_duplicates_are_told_or_kept_together(tmp_path):
    path = tmp_path / "x.csv"
    rows = [
        (f"the {word} of number {i} is {i * i} " * 9 + f"{i:0500b}", word)
        for i in range(12) for word in ("banana", "monday")
    ]  # fmt: skip
    rows = [f"{text}{end},{word}\n" for end in ("", " or so") for text, word in rows]
    path.write_text("text,label\n" + "".join(rows))
    result = run("cv", path, "--json")
    found = json.loads(result.stdout)
    count = len({each["test"] for each in found["near_duplicates"]})
    assert count > 36
    assert f"warning: {count} documents are tested by machines" in result.stderr.decode()
    assert b"--group-duplicates" in result.stderr
    assert all(each["value"] >= 0.98 for each in found["near_duplicates"])
    grouped = run("cv", path, "--json", "--group-duplicates")
    assert b"near-duplicate" not in grouped.stderr
    assert json.loads(grouped.stdout)["near_duplicates"] == []


@pytest.mark.parametrize("verb", ["cv", "tune"])
def test_a_class_of_four_documents_is_a_note(verb, tmp_path):
    rows = "".join(f"{'ab'[i % 2] * 6} {i},{'xy'[i % 2]}\n" for i in range(20))
    rows += "ccc ccc,z\nccc cc,z\nccc ddd,z\nccc dd,z\n"
    (tmp_path / "x.csv").write_text("text,label\n" + rows)
    done = run(verb, tmp_path / "x.csv", "--kernel", "spectrum:2", "--json")
    assert done.returncode == 0
    notes = [line for line in done.stderr.decode().splitlines() if "('z')" in line]
    assert notes == ["note: not all of the 5 folds test classes of fewer documents ('z')"]
    assert b"least populated" not in done.stderr


@pytest.mark.slow
def test_cv_and_tune_of_real_corpora(data, tmp_path):
    found = report("cv", data / "r8", "--part", "train", "--kernel", "spectrum:3-5", "--folds", "5")
    assert found["n"] == 5485
    assert found["mean"]["accuracy"] > 0.95
    reuters = data / "reuters21578" / "reuters21578.tar.gz"
    options = ["--part", "train", "--positive", "earn", "--negative", "acq", "--p", "3,4", "-C", "1,10"]
    tuned = report("tune", reuters, *options, "-o", tmp_path / "m")
    assert tuned["n"] == 4495
    figures = report("evaluate", tmp_path / "m", reuters, "--part", "test")
    assert figures["n"] == 1800
    assert figures["accuracy"] > 0.98
