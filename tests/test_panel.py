"""The baselines, and the benchmark of many small sets against them."""

import json
import lzma
import re

import numpy as np
import pytest
from command import fails, run
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.svm import LinearSVC

from benchmarks.harness import run_benchmark
from textsvm.choice import candidates
from textsvm.errors import InputError
from textsvm.evaluation import baselines
from textsvm.readers import sample
from textsvm.readers.read import read_corpus


def reviews():
    corpus = read_corpus(sample("dialects"), text="text", label="dialect")
    return corpus.texts[:150], corpus.labels[:150], corpus.texts[150:], corpus.labels[150:]


@pytest.fixture
def sets(tmp_path):
    """Two sets: the dialects, and every other one of them."""
    texts, labels, test, truth = reviews()
    folder = tmp_path / "sets"
    folder.mkdir()
    for name, step in (("all", 1), ("half", 2)):
        for part, rows in (
            ("train", zip(labels, texts, strict=True)),
            ("test", zip(truth, test, strict=True)),
        ):
            lines = [f"{label}\t{text}\n" for label, text in list(rows)[::step]]
            (folder / f"{name}-{part}.tsv.xz").write_bytes(lzma.compress("".join(lines).encode()))
    return folder


def test_the_first_baseline_is_what_the_snippet_says():
    texts, labels, test, _ = reviews()
    found = baselines.answer(baselines.characters_baseline(), texts, labels, test)
    vectors = TfidfVectorizer(analyzer="char", ngram_range=(1, 5), sublinear_tf=True, min_df=2)
    model = LinearSVC(C=1, random_state=0).fit(vectors.fit_transform(texts), labels)
    np.testing.assert_array_equal(found.predicted, model.predict(vectors.transform(test)))
    assert found.chosen == ""
    assert min(found.fit, found.predict) > 0


def test_the_second_baseline_has_words_too_and_chooses_c():
    texts, labels, test, truth = reviews()
    model = baselines.words_baseline()
    found = baselines.answer(model, texts, labels, test)
    assert found.chosen in {"C=0.1", "C=0.3", "C=1", "C=3"}
    names = model[0].get_feature_names_out()
    assert {name.partition("__")[0] for name in names} == {"characters", "words"}
    assert "words__." in names
    assert np.mean(found.predicted == np.array(truth)) > 0.7


def test_what_a_baseline_cannot_learn_is_a_sentence():
    with pytest.raises(InputError, match=r"TF-IDF \+ LinearSVC cannot be trained on 2 documents: .*no terms"):
        baselines.answer(baselines.characters_baseline(), ["a", "b"], [0, 1], ["a"])


@pytest.mark.slow
def test_a_panel_is_measured_and_its_baselines_are_not_measured_twice(sets, tmp_path, monkeypatch):
    monkeypatch.setenv("TEXTSVM_COMMIT", "abc")
    options = ["--panel", str(sets), "--device", "cpu"]
    run_benchmark("panel", [*options, "-o", str(tmp_path / "one")])
    found = json.loads((tmp_path / "one.json").read_text())
    assert [row["key"] for row in found["rows"]] == [
        f"{name}, {classifier}"
        for name in ("all", "half")
        for classifier in (*baselines.BASELINES, "auto", "fast")
    ]
    texts, labels, test, truth = reviews()
    expected = np.mean(
        baselines.answer(baselines.characters_baseline(), texts, labels, test).predicted == np.array(truth)
    )
    assert found["rows"][0]["accuracy"] == expected
    first, second = found["summary"][:2]
    assert first["machine"] == second["machine"] == "auto"
    assert (first["sets"], first["against"], second["against"]) == (2, *baselines.BASELINES)
    points = [100 * (found["rows"][k + 2]["accuracy"] - found["rows"][k]["accuracy"]) for k in (0, 4)]
    assert first["mean"] == pytest.approx(np.mean(points))
    assert first["won"] + first["lost"] == np.count_nonzero(points)
    written = (tmp_path / "one.md").read_text()
    assert f"| half | {100 * found['rows'][4]['accuracy']:.2f} / " in written
    assert "| set | characters + words | auto |" in written
    default = candidates.auto_candidate(texts[::2], n_classes=len(set(labels[::2])))
    chosen = default.description(1.0).rpartition(":")[0]
    assert re.search(rf"\| half \| C=[\d.]+ \| {re.escape(chosen)} \|", written)
    assert all(line.count("|") <= 11 for line in written.splitlines())

    skip = ["--skip-baselines", str(tmp_path / "one.json"), "--sets", "half"]
    run_benchmark("panel", [*options, *skip, "-o", str(tmp_path / "two")])
    again = json.loads((tmp_path / "two.json").read_text())["rows"]
    assert again[:2] == found["rows"][4:6]
    assert [row["accuracy"] for row in again[2:]] == [row["accuracy"] for row in found["rows"][6:]]


def test_what_a_panel_cannot_be_made_of(sets, tmp_path):
    output = ["-o", tmp_path / "r", "--device", "cpu"]
    assert "no files NAME-train.tsv.xz" in fails("panel", "--panel", tmp_path, *output, program="benchmarks")
    given = ["panel", "--panel", sets, *output]
    checkout = {"program": "benchmarks"}
    assert "no set 'none'" in fails(*given, "--sets", "all,none", **checkout)
    (tmp_path / "x.json").write_text("{}")
    assert "is not a report of" in fails(*given, "--skip-baselines", tmp_path / "x.json", **checkout)
    (tmp_path / "x.json").write_text(json.dumps({"cpu": "another", "threads": 1, "rows": []}))
    assert "is of another computer" in fails(*given, "--skip-baselines", tmp_path / "x.json", **checkout)
    (sets / "bad-train.tsv.xz").write_bytes(lzma.compress(b"a\tb\nno label\n"))
    assert "line 2 of" in fails(*given, "--sets", "bad", **checkout)
    (sets / "bad-train.tsv.xz").write_bytes(b"no archive")
    assert "cannot be read" in fails(*given, "--sets", "bad", **checkout)
    assert not (tmp_path / "r.json").exists()
    assert b"--skip-baselines" in run("panel", "--help", **checkout).stdout
