"""cv and tune: folds and grids on files."""

import json

import pytest
from command import report, run, works

from textsvm.readers import sample
from textsvm.readers.read import read_corpus

ESSAYS = [sample("essays"), "--regress", "score", "--groups", "writer"]


def rows_of(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


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
    result = run("cv", path, "--json", "--predictions", tmp_path / "p.jsonl")
    found, folds = json.loads(result.stdout), {x["id"]: x["folds"] for x in rows_of(tmp_path / "p.jsonl")}
    assert all(folds[x["test"]] == [x["fold"]] != folds[x["train"]] for x in found["near_duplicates"])
    count = len({each["test"] for each in found["near_duplicates"]})
    assert count > 36
    assert f"warning: {count} documents are tested by machines" in result.stderr.decode()
    assert b"--group-duplicates" in result.stderr
    assert all(each["value"] >= 0.98 for each in found["near_duplicates"])
    grouped = run("cv", path, "--json", "--group-duplicates")
    assert b"near-duplicate" not in grouped.stderr
    assert json.loads(grouped.stdout)["near_duplicates"] == []


@pytest.mark.parametrize("verb", ["cv", "tune"])
def test_a_class_of_four_documents_is_a_note(verb, write):
    rows = "".join(f"{'ab'[i % 2] * 6} {i},{'xy'[i % 2]}\n" for i in range(20))
    rows += "ccc ccc,z\nccc cc,z\nccc ddd,z\nccc dd,z\n"
    done = works(verb, write("x.csv", "text,label\n" + rows), "--kernel", "spectrum:2", "--json")
    notes = [line for line in done.stderr.decode().splitlines() if "('z')" in line]
    assert notes == ["note: not all of the 5 folds test classes of fewer documents ('z')"]
    assert b"least populated" not in done.stderr
