"""cv and tune: folds and grids on files."""

import json

import numpy as np
import pytest
from command import fails, report, run

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


@pytest.mark.parametrize(
    ("verb", "arguments", "words"),
    [
        ("cv", ["--folds", "1"], "--folds must be at least 2, got 1"),
        ("cv", ["--repeats", "0"], "--repeats must be at least 1, got 0"),
        ("cv", ["-C", "1,10"], "textsvm tune"),
        ("cv", ["--predictions", "no/such/x"], "no/such"),
        ("tune", ["-C", "1,-10"], "textsvm: -C -10"),
        ("tune", ["--p", "3,x"], "--p x"),
        ("tune", ["--kernel", "gap,fancy"], "--kernel fancy"),
        ("tune", ["--kernel", "gap,edit", "--weight", "log"], "not an option of the gap or edit kernel"),
        ("tune", ["--weight", "count,heavy"], "--weight heavy"),
        ("tune", ["--minutes", "0"], "--minutes must be positive, got 0"),
        ("tune", ["--nested", "1"], "--nested must be at least 2, got 1"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else value,
)
def test_wrong_usage(verb, arguments, words, tmp_path):
    assert words in fails(verb, sample("mail"), *arguments, code=2, cwd=tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("content", "options", "words"),
    [
        ("text,label\n" + "aaaaa,x\n" * 6 + "bbbbb,y\n", [], "class y has 1 document and there are 5 folds"),
        ("text,label,g\n" + "aaaaa,x,1\nbbbbb,y,2\n" * 6, ["--groups", "g"], "in one group only"),
        ("text,label,g\n" + "aaaaa,x,1\nbbbbb,y,\n" * 6, ["--groups", "g"], "has no g"),
        ("text,y\n" + "aaaaa,3\n" * 9, ["--regress", "y"], "all 9 targets are 3"),
        ("text,label,w\n" + "aaaaa,x,0\nbbbbb,y,0\n" * 6, ["--weights", "w"], "zero for all"),
        ("text,label,w\n" + "aaaaa,x,1\nbbbbb,y,inf\n" * 6, ["--weights", "w"], "the weight is 'inf'"),
    ],
    ids=["one member", "few groups", "no group", "constant", "no weight", "infinite weight"],
)
@pytest.mark.parametrize("verb", ["cv", "tune"])
def test_what_cannot_be_validated_is_told_before_the_work(verb, content, options, words, tmp_path):
    (tmp_path / "x.csv").write_text(content)
    assert words in fails(verb, tmp_path / "x.csv", "-q", *options)


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
