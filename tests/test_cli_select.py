"""cv, tune and gram: folds, grids and kernel matrices on files."""

import json
import math

import numpy as np
import pytest
from command import fails, report, run

import textsvm
from textsvm import EditDistance, GapWeighted, Spectrum
from textsvm.readers import sample
from textsvm.readers.read import read_corpus
from textsvm.runtime.device import select
from textsvm.text.documents import encode, normalise

ESSAYS = [sample("essays"), "--regress", "score", "--groups", "writer"]


def rows_of(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def dense(kernel, texts):
    """The kernel matrix of normalised texts, by the library."""
    documents = encode(texts)
    return kernel.fit(documents).rows(documents, select("cpu")).gram()


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
        f"the {word} of number {i} is {i * i},{word}\n" for i in range(12) for word in ("banana", "monday")
    ]
    path.write_text("text,label\n" + "".join(rows * 2))
    result = run("cv", path, "--json")
    found = json.loads(result.stdout)
    count = len(found["near_duplicates"])  # but for copies that happen to be in one fold
    assert count > 36
    assert f"warning: {count} documents are tested by machines" in result.stderr.decode()
    assert b"--group-duplicates" in result.stderr
    assert all(each["value"] == pytest.approx(1) for each in found["near_duplicates"])
    grouped = run("cv", path, "--json", "--group-duplicates")
    assert b"near-duplicate" not in grouped.stderr
    assert json.loads(grouped.stdout)["near_duplicates"] == []


def test_tune_finds_writes_and_draws(tmp_path):
    pytest.importorskip("matplotlib")
    model, picture = tmp_path / "best", tmp_path / "map.svg"
    options = [
        "--kernel",
        "gap,spectrum",
        "--p",
        "2,3",
        "--decay",
        "0.3,0.6",
        "-C",
        "1,10",
        "--max-length",
        "80",
    ]
    wanted = ["--metric", "macro_f1", "--nested", "3", "--folds", "3", "-o", model, "--heatmap", picture]
    found = report("tune", sample("mail"), *options, *wanted)
    assert found["metric"] == "macro_f1"
    assert len(found["table"]) == 2 * 2 * 2 + 2 * 2
    best = max(row["mean"] for row in found["table"])
    assert found["best_score"] == pytest.approx(best)
    chosen = found["best_params"]
    assert chosen["kernel"]["name"] in ("gap", "spectrum")
    assert len(found["nested"]["params"]) == 3
    assert found["nested"]["mean"]["macro_f1"] > 0.6
    fitted = textsvm.load(model)
    assert chosen["C"] == fitted.C
    assert fitted.kernel_.get_params() == {k: v for k, v in chosen["kernel"].items() if k != "name"}
    assert report("evaluate", model, sample("mail"))["accuracy"] > 0.85
    assert b"<svg" in picture.read_bytes()
    # A row of the table is what cv says.
    row = next(row for row in found["table"] if row["params"]["kernel"]["name"] == "spectrum")
    options = [
        "--kernel",
        f"spectrum:{row['params']['kernel']['p']}",
        "-C",
        row["params"]["C"],
        "--max-length",
        "80",
        "--folds",
        "3",
    ]
    assert report("cv", sample("mail"), *options)["mean"]["macro_f1"] == pytest.approx(row["mean"], abs=1e-9)


def test_tune_shows_a_table_and_a_heat_map():
    result = run("tune", sample("questions"), "--p", "2,3,2-4", "--weight", "count,presence", "-C", "0.001,1")
    assert result.returncode == 0, result.stderr.decode()
    shown = result.stdout.decode()
    assert b"note: 12 settings on 5 folds of 60 documents" in result.stderr
    assert "12 settings by mean accuracy over 5 folds of 60 documents" in shown
    heat = shown[shown.index("mean accuracy\n") :]
    for word in ("C 0.001", "C 1", "spectrum:2", "spectrum:2-4,presence", "%*", "the best setting"):
        assert word in heat
    assert "not written" in heat


def test_tune_tries_multiclass_strategies(tmp_path):
    options = [
        "--kernel",
        "spectrum:3",
        "-C",
        "0.1,1",
        "--multiclass",
        "ovo,ovr,crammer-singer",
        "-o",
        tmp_path / "m",
    ]
    found = report("tune", sample("questions"), *options)
    assert {row["params"]["multiclass"] for row in found["table"]} == {"ovo", "ovr", "crammer-singer"}
    assert len(found["table"]) == 6
    assert textsvm.load(tmp_path / "m").multiclass == found["best_params"]["multiclass"]


def test_tune_has_a_grid_of_its_own():
    found = report("tune", sample("questions"))
    settings = {(row["params"]["kernel"]["p"], row["params"]["C"]) for row in found["table"]}
    assert settings == {(p, C) for p in (3, 4, 5) for C in (1, 10, 100)}


def test_tune_numbers(tmp_path):
    options = [
        "--kernel",
        "spectrum:1-3",
        "-C",
        "1,10",
        "--epsilon",
        "0.1,0.5",
        "--metric",
        "mae",
        "-o",
        tmp_path / "m",
    ]
    found = report("tune", *ESSAYS, *options)
    assert found["best_score"] == min(row["mean"] for row in found["table"])
    assert {row["params"]["epsilon"] for row in found["table"]} == {0.1, 0.5}
    assert textsvm.load(tmp_path / "m").epsilon == found["best_params"]["epsilon"]
    assert report("evaluate", tmp_path / "m", sample("essays"))["mae"] < found["best_score"]


@pytest.mark.parametrize(
    ("verb", "arguments", "words"),
    [
        ("cv", ["--folds", "1"], "--folds must be at least 2, got 1"),
        ("cv", ["--repeats", "0"], "--repeats must be at least 1, got 0"),
        ("cv", ["-C", "1,10"], "textsvm tune"),
        ("cv", ["--predictions", "no/such/x"], "no/such"),
        ("tune", ["-C", "1,-10"], "C=-10"),
        ("tune", ["--p", "3,x"], "--p x"),
        ("tune", ["--kernel", "gap,fancy"], "--kernel fancy"),
        ("tune", ["--kernel", "gap,edit", "--weight", "log"], "not an option of the gap or edit kernel"),
        ("tune", ["--weight", "count,heavy"], "--weight heavy"),
        ("tune", ["--nested", "1"], "--nested must be at least 2, got 1"),
        ("tune", ["--minutes", "0"], "--minutes must be positive, got 0"),
        ("tune", ["--heatmap", "x.doc"], "must end in .png"),
        ("gram", ["-o", "K.csv"], "must end in .npy"),
        ("gram", ["-o", "K.npy", "--against-part", "train"], "--against"),
        ("gram", [], "-o"),
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
    rows = "".join(f"{'ab'[i % 2] * 6} {i},{'xy'[i % 2]}\n" for i in range(20)) + "ccc ccc,z\n" * 4
    (tmp_path / "x.csv").write_text("text,label\n" + rows)
    done = run(verb, tmp_path / "x.csv", "--kernel", "spectrum:2", "--json")
    assert done.returncode == 0
    notes = [line for line in done.stderr.decode().splitlines() if "class 'z'" in line]
    assert notes == ["note: class 'z' has 4 documents to test: not all of the 5 folds test it"]
    assert b"least populated" not in done.stderr


def test_a_grid_that_does_not_fit_the_time():
    message = fails("tune", sample("mail"), "-q", "--p", "3,4,5", "-C", "1,10,100", "--minutes", "0.0001")
    assert "9 settings on 5 folds" in message
    assert "allowed" in message


def test_an_unknown_metric():
    assert "metric 'beauty' is not one of accuracy" in fails(
        "tune", sample("mail"), "-q", "--metric", "beauty"
    )


def test_a_picture_without_matplotlib(tmp_path):
    (tmp_path / "matplotlib.py").write_text("raise ImportError")  # the current folder comes first in the path
    from command import run_fresh

    message = fails("tune", sample("mail"), "--heatmap", "x.png", run=run_fresh, cwd=tmp_path)
    assert "pip install matplotlib" in message


@pytest.mark.parametrize(
    ("options", "kernel"),
    [
        (["--kernel", "spectrum:2-4,log"], Spectrum(p=(2, 4), weight="log")),
        (["--kernel", "gap:2-3,decay=0.4"], GapWeighted(p=3, decay=0.4, weights=(0, 1, 1))),
        (["--kernel", "edit:gamma=0.1"], EditDistance(gamma=0.1)),
    ],
    ids=["spectrum", "gap", "edit"],
)
def test_gram(options, kernel, tmp_path):
    path = tmp_path / "K.npy"
    made = report("gram", sample("questions"), *options, "-o", path)
    assert (made["rows"], made["columns"]) == (60, 60)
    matrix = textsvm.read_gram(path)[0]
    np.testing.assert_allclose(
        matrix, dense(kernel, [normalise(text) for text in read_corpus(sample("questions")).texts]), atol=1e-6
    )


def test_gram_for_libsvm(tmp_path):
    path, other = tmp_path / "K.txt", tmp_path / "L.libsvm"
    assert report("gram", sample("questions"), "-o", path)["labels"] == ["what", "when", "where"]
    matrix, labels = textsvm.read_gram(path)
    corpus = read_corpus(sample("questions"))
    assert [("what", "when", "where")[int(label) - 1] for label in labels] == corpus.labels
    run("gram", sample("essays"), "--regress", "score", "-o", other)
    np.testing.assert_array_equal(
        textsvm.read_gram(other)[1], read_corpus(sample("essays"), target="score").targets
    )
    assert math.isclose(matrix[0, 0], 1, abs_tol=1e-6)


def test_gram_against_another_corpus(tmp_path):
    path = tmp_path / "K.npy"
    corpus = sample("newswire")
    common = ["--positive", "earn", "--negative", "acq", "--max-length", "100"]
    options = ["--part", "test", "--against", corpus, "--against-part", "train", "-o", path]
    made = report("gram", corpus, *common, *options)
    documents = read_corpus(corpus).reduce_labels("earn", "acq")
    parts = {
        part: [t[:100] for t in map(normalise, documents.select(part).texts)] for part in ("test", "train")
    }
    matrix = np.load(path)
    assert matrix.shape == (len(parts["test"]), len(parts["train"])) == (made["rows"], made["columns"])
    whole = dense(Spectrum(p=4), parts["test"] + parts["train"])
    np.testing.assert_allclose(matrix, whole[: len(matrix), len(matrix) :], atol=1e-6)


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
