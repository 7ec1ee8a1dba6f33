"""textsvm update: models trained again on old and new documents, and the report of the changes."""

import csv
import hashlib
import io
import json
import os
import socket
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from command import fails, report, run, works
from loading import load

from textsvm import (
    SVC,
    SVR,
    CalibratedSVC,
    MultilabelSVC,
    OneClassSVM,
    OnlineSVC,
    Spectrum,
    read_corpus,
    save,
)
from textsvm.cli.model_files import corpus_digest
from textsvm.evaluation import comparison
from textsvm.readers import sample
from textsvm.readers.corpus import Corpus, Document, build_corpus

TEXTS = ["a banana", "the bandana", "banana bread", "on monday", "a sunday", "monday, tuesday"] * 2
LABELS = ["fruit", "cloth", "fruit", "cloth", "cloth", "cloth"] * 2


def table(path):
    """The rows of a table, as dictionaries."""
    return list(csv.DictReader(io.StringIO(Path(path).read_text(encoding="utf-8"), newline="")))


def write(path, rows):
    """A table of such rows."""
    with open(path, "w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, rows[0])
        writer.writeheader()
        writer.writerows(rows)


@pytest.fixture
def halves(tmp_path):
    """The reviews in two files."""
    rows = table(sample("reviews"))
    write(tmp_path / "old.csv", rows[:40])
    write(tmp_path / "new.csv", rows[40:])
    return tmp_path


def train(folder, corpus):
    """Train a model on named columns."""
    options = ["--text", "text", "--label", "label", "--kernel", "spectrum:1-3", "-o", "m"]
    assert run("train", corpus, *options, cwd=folder).returncode == 0


UPDATED = [["--without-texts"], ["--calibrate", "sigmoid"], ["--positive", "positive"]]


@pytest.mark.parametrize("options", UPDATED)
def test_an_updated_model_is_trained_on_old_and_new_documents(halves, options):
    columns = ["--text", "text", "--label", "label"]
    run("train", "old.csv", *columns, "--kernel", "fast", "-C", "3", *options, "-o", "m", cwd=halves)
    changes = report("update", "m", "new.csv", "-o", "n", cwd=halves)
    assert changes["labels_added"] == []
    assert changes["new_documents"] == 20
    old, new = load(halves / "m"), load(halves / "n")
    assert (new.C_, new.loss_) == (old.C_, old.loss_)
    assert new.kernel_.structure.as_dict() == old.kernel_.structure.as_dict()
    assert (new.weight_vectors_ is None) == (old.weight_vectors_ is None)
    assert new.model_.info["n_train"] == 60
    expected = [old.predict([text])[0] for text in read_corpus(halves / "new.csv").texts]
    right = np.mean([a == b for a, b in zip(expected, read_corpus(halves / "new.csv").labels, strict=True)])
    assert changes["accuracy_before"] in (right, pytest.approx(right)) or "--positive" in options
    assert all(row["before"] != row["after"] for row in changes["changed"])
    content = (halves / "new.csv").read_text(encoding="utf-8")
    label = "positive" if "--positive" in options else "mixed"
    (halves / "more.csv").write_text(f"text,label\na splendid kettle,{label}\nso so,{label}\n")
    again = report("update", "n", "more.csv", cwd=halves)  # replaces the model
    assert load(halves / "n").model_.info["n_train"] == 62
    assert again["labels_added"] == ["mixed"] * (label == "mixed")
    (halves / "new.csv").write_text(content.replace("the", "a"), encoding="utf-8")
    assert "has changed since" in fails("update", "n", "more.csv", cwd=halves)
    (halves / "old.csv").rename(halves / "gone.csv")
    assert "name it with --corpus" in fails("update", "m", "new.csv", cwd=halves)
    changes = report("update", "m", "new.csv", "--corpus", "gone.csv", "-o", "o", cwd=halves)
    assert changes["new_documents"] == 20


def test_corrections_survive_an_update(halves):
    ids = read_corpus(halves / "old.csv").ids
    decisions = [(ids[0], "change"), (ids[1], "unsure"), (ids[2], "keep")]
    labels = read_corpus(halves / "old.csv").labels
    other = next(label for label in labels if label != labels[0])
    lines = (json.dumps({"id": i, "decision": decision, "label": other}) for i, decision in decisions)
    (halves / "c.jsonl").write_text("\n".join(lines))
    columns = ["--text", "text", "--label", "label", "--kernel", "fast"]
    run("train", "old.csv", *columns, "--corrections", "c.jsonl", "-o", "m", cwd=halves)
    (halves / "c.jsonl").unlink()
    expected = [other, *labels[2:], *read_corpus(halves / "new.csv").labels]
    reads = "old.csv: corrections of the training: labels changed 1, documents left out 1"
    for name in ("n", "o"):  # the second update reads the old, changed corpus
        corpus = ["--corpus", "moved.csv"] * (name == "o")
        result = run("update", "m", "new.csv", *corpus, "-o", name, cwd=halves)
        assert reads in result.stderr.decode()
        new = load(halves / name)
        assert {each["class"]: each["documents"] for each in new.model_.info["classes"]} == Counter(expected)
        write(halves / "moved.csv", table(halves / "old.csv")[::-1])
        reads = "moved.csv: corrections of the training: labels changed 1, documents left out 1"
    (halves / "more.csv").write_text(f"text,label\na splendid kettle,{other}\nso so,{other}\n")
    assert (
        "labels changed 1, documents left out 1" in run("update", "n", "more.csv", cwd=halves).stderr.decode()
    )
    assert load(halves / "n").model_.info["n_train"] == 61
    (halves / "old.csv").write_text(f"text,label\na splendid kettle,{other}\nso so,{other}\n")
    result = run("update", "m", "new.csv", "--corpus", "old.csv", "-o", "o", cwd=halves)
    assert "labels changed 0, documents left out 0, not in the corpus 2" in result.stderr.decode()


def test_the_digest_of_a_corpus_is_that_of_older_models():
    """It is kept in model files: of the first column of texts, all columns, labels and numbers."""
    corpus = build_corpus([Document(str(i), f"text {i}", "ab"[i]) for i in range(2)], "c", "", [])
    for columns in (None, {"title": ["one", "two"], "body": ["three", "é"]}):
        of = replace(corpus, columns=columns)
        parts = [*columns["title"], *columns["title"], *columns["body"]] if columns else corpus.texts
        hashed = hashlib.blake2b("".join(f"{x}\0" for x in [*parts, "a", "b"]).encode(), digest_size=16)
        assert corpus_digest(of) == hashed.hexdigest()


def test_a_model_saved_in_python_is_updated_from_named_columns(halves):
    for name in ("old.csv", "new.csv"):
        rows = table(halves / name)
        write(halves / name, [{"remark": row["text"], "mood": row["label"]} for row in rows])
    columns = ["--text", "remark", "--label", "mood"]
    old = read_corpus(halves / "old.csv", text="remark", label="mood")
    save(SVC("fast").fit(old.texts, old.labels), halves / "m")
    assert "--label" in fails("update", "m", "new.csv", "--text", "remark", "--corpus", "old.csv", cwd=halves)
    run("update", "m", "new.csv", *columns, "--corpus", "old.csv", "-o", "n", cwd=halves)
    assert load(halves / "n").model_.info["n_train"] == 60
    (halves / "more.csv").write_text(f"a,b\na splendid kettle,{old.labels[0]}\nso so,{old.labels[0]}\n")
    works("update", "n", "more.csv", "--text", "a", "--label", "b", cwd=halves)
    assert load(halves / "n").model_.info["n_train"] == 62
    # The next update reads more.csv by its own columns.
    (halves / "last.csv").write_text(f"remark,mood\nfine kettle,{old.labels[0]}\nso what,{old.labels[0]}\n")
    assert run("update", "n", "last.csv", cwd=halves).returncode == 0
    assert load(halves / "n").model_.info["n_train"] == 64


NUMBERS = [float(label == "fruit") + i / 10 for i, label in enumerate(LABELS)]
PYTHON_MODELS = {
    "several": (lambda: MultilabelSVC(Spectrum(2)).fit(TEXTS, [[label] for label in LABELS]), []),
    "matrix": (lambda: MultilabelSVC(Spectrum(2)).fit(TEXTS, np.eye(2, dtype=int)[[0, 1] * 6]), []),
    "numbers": (lambda: SVR(Spectrum(2)).fit(TEXTS, NUMBERS), ["--label", "score"]),
    "calibrated": (lambda: CalibratedSVC(SVC(Spectrum(2)), cv=3).fit(TEXTS, LABELS), []),
    "ints": (lambda: SVC(Spectrum(2)).fit(TEXTS, [label == "fruit" for label in LABELS]), []),
}


@pytest.mark.parametrize("name", PYTHON_MODELS)
def test_every_kind_of_model_saved_in_python_is_updated(name, tmp_path):
    make, columns = PYTHON_MODELS[name]
    save(make(), tmp_path / "m")
    rows = zip(TEXTS, LABELS, NUMBERS, strict=True)
    lines = [json.dumps({"text": t, "label": a, "score": b}) + "\n" for t, a, b in rows]
    (tmp_path / "old.jsonl").write_text("".join(lines), "utf-8")
    (tmp_path / "new.jsonl").write_text("".join(lines[:4]).replace("an", "an un"), "utf-8")
    changes = report("update", "m", "new.jsonl", "--corpus", "old.jsonl", *columns, "-o", "n", cwd=tmp_path)
    assert changes["new_documents"] == 4
    assert load(tmp_path / "n").model_.info["n_train"] == 16
    again = run("update", "n", "new.jsonl", *columns, "-o", "n", cwd=tmp_path)  # records what it learnt
    assert b"are in the training corpus already" in again.stderr


def test_models_saved_in_python_that_cannot_be_updated(tmp_path):
    save(SVR(Spectrum(2)).fit(TEXTS, NUMBERS), tmp_path / "numbers")
    save(OneClassSVM(Spectrum(2)).fit(TEXTS), tmp_path / "one")
    (tmp_path / "new.csv").write_text("text,label\na cat,fruit\n", "utf-8")
    again = ["new.csv", "--corpus", "new.csv"]
    assert "name the column of its numbers with --label" in fails("update", "numbers", *again, cwd=tmp_path)
    assert "train it again with `textsvm train --one-class" in fails("update", "one", *again, cwd=tmp_path)


def test_a_recorded_corpus_is_a_file_or_a_folder(halves, monkeypatch):
    train(halves, "old.csv")
    old = halves / "old.csv"
    monkeypatch.chdir(halves)  # a socket's name must be short
    with socket.socket(socket.AF_UNIX) as listening:
        for make in (
            os.mkfifo,
            lambda path: path.symlink_to("/dev/zero"),
            lambda _: listening.bind("old.csv"),
        ):
            old.unlink()
            make(old)
            message = fails("update", "m", "new.csv", cwd=halves)
            assert "is neither a file nor a folder; name it with --corpus" in message
    model = load(halves / "m").model_
    model.info["update"]["corpora"][0]["paths"] = [3]
    save(model, halves / "m", model.info)
    assert "records no corpus that can be read again" in fails("update", "m", "new.csv", cwd=halves)


def test_an_online_model_goes_on_learning(halves):
    old, new = (read_corpus(halves / name) for name in ("old.csv", "new.csv"))
    save(OnlineSVC().fit(old.texts, old.labels), halves / "m")
    changes = report("update", "m", "new.csv", "-o", "n", cwd=halves)
    expected = OnlineSVC().fit(old.texts + new.texts, old.labels + new.labels)
    continued = load(halves / "n")
    np.testing.assert_allclose(
        continued.decision_function(new.texts), expected.decision_function(new.texts), atol=5e-3
    )
    assert 0.5 < changes["accuracy_after"] <= 1
    rows = run("predict", "n", "new.csv", "--proba", "--drift", cwd=halves).stdout.decode().splitlines()
    assert [json.loads(row)["label"] for row in rows] == continued.predict(new.texts).tolist()
    assert "only predict, update and model" in fails("evaluate", "n", "new.csv", cwd=halves)


OTHERS = {
    "regress": ["--regress", "stars", "--kernel", "spectrum:2"],
    "several": ["--multilabel", "--label", "labels", "--kernel", "spectrum:2"],
    "one class": ["--one-class", "positive", "--label", "label", "--kernel", "spectrum:3"],
}


@pytest.mark.parametrize("task", OTHERS)
def test_other_models_are_updated(task, halves):
    for name in ("old.csv", "new.csv"):
        rows = [{"text": row["text"], "label": row["label"]} for row in table(halves / name)]
        for i, row in enumerate(rows):
            row["stars"] = str(len(row["text"]) / 9)
            row["labels"] = row["label"] + (";x" if i % 3 == 0 else "")
        write(halves / name, rows)
    run("train", "old.csv", "--text", "text", *OTHERS[task], "-o", "m", cwd=halves)
    changes = report("update", "m", "new.csv", "-o", "n", cwd=halves)
    assert changes["new_documents"] == 20
    assert changes["labels_added"] == []
    old, new = load(halves / "m"), load(halves / "n")
    column = {"regress": "stars", "several": "labels", "one class": "label"}[task]
    texts, labels = zip(*((row["text"], row[column]) for row in table(halves / "new.csv")), strict=True)
    if task == "regress":
        error = np.abs(old.predict(texts) - np.array(labels, float)).mean()
        assert changes["mean_error_before"] == pytest.approx(error)
        assert changes["mean_error_after"] < 20
        assert new.model_.info["n_train"] == 60
    elif task == "several":
        right = [set(a) == set(b.split(";")) for a, b in zip(old.predict(texts), labels, strict=True)]
        assert changes["accuracy_before"] == np.mean(right)
        assert 0 <= changes["accuracy_after"] <= 1
    else:
        right = (old.predict(texts) > 0) == (np.array(labels) == "positive")
        assert changes["accuracy_before"] == right.mean()
        assert 0 <= changes["accuracy_after"] <= 1
        assert all({row["before"], row["after"]} == {"positive", "rest"} for row in changes["changed"])
    assert "documents of new.csv are in the training corpus already" in fails(
        "update", "n", "new.csv", cwd=halves
    )


def test_a_wrong_label_is_not_learnt_as_true(tmp_path):
    save(OnlineSVC().fit(TEXTS, [label == "fruit" for label in LABELS]), tmp_path / "m")
    (tmp_path / "new.csv").write_text("label,text\nTrue,a banana\nmaybe,a sunday\n")
    assert "not of the type of the classes: 'maybe'" in fails("update", tmp_path / "m", tmp_path / "new.csv")
    (tmp_path / "new.csv").write_text("label,text\nTrue,a banana\nFalse,a sunday\n")
    assert report("update", tmp_path / "m", tmp_path / "new.csv")["labels_added"] == []


def test_a_number_has_changed_if_it_moved_by_more_than_epsilon(halves):
    corpus = Corpus(list("1234"), list("abcd"), None, [None] * 4, targets=[1.0, 2.0, 3.0, 4.0])
    before, after = np.array([1.0, 2.0, 3.0, 4.0]), [1.5, 2.6, 2.3, None]
    changes = comparison.changes(corpus, set(), before, after, epsilon=0.5)
    assert [row["id"] for row in changes["changed"]] == ["2", "3"]
    assert changes["mean_error_before"] == 0
    assert changes["mean_error_after"] == pytest.approx(0.6)
    # The epsilon is that of the regression.
    for name in ("old.csv", "new.csv"):
        texts = [row["text"] for row in table(halves / name)]
        write(halves / name, [{"text": text, "stars": len(text) / 9} for text in texts])
    for epsilon in ("0.01", "2"):
        options = ["--text", "text", "--regress", "stars", "--kernel", "spectrum:2", "--epsilon", epsilon]
        assert run("train", "old.csv", *options, "-o", "m", cwd=halves).returncode == 0
        changed = report("update", "m", "new.csv", "-o", "n", cwd=halves)["changed"]
        moved = [abs(row["after"] - row["before"]) for row in changed]
        assert all(distance > float(epsilon) for distance in moved)
        assert (min(moved, default=9) < 2) == (epsilon == "0.01")


def test_documents_of_the_training_corpus_are_refused(halves):
    train(halves, "old.csv")
    assert "the model comes before the documents" in fails("update", "old.csv", "m", cwd=halves)
    message = fails("update", "m", "old.csv", "-o", "n", cwd=halves)
    assert "40 of 40 documents of old.csv are in the training corpus already" in message
    rows = table(halves / "old.csv")
    rows += [{**rows[0], "text": "a fine day"}, {**rows[1], "text": "a poor day"}]
    write(halves / "grown.csv", [{**row, "id": i} if "id" in row else row for i, row in enumerate(rows)])
    message = fails("update", "m", "grown.csv", "-o", "n", cwd=halves)
    assert "40 of 42 documents of grown.csv are in the training corpus already" in message
    assert not (halves / "n").exists()
    (halves / "m").rename(halves / "m.json")  # its suffix is that of another type of file
    assert run("update", "m.json", "new.csv", cwd=halves).returncode == 0


def test_a_model_records_the_columns_that_it_detected(halves):
    for name in ("old.csv", "new.csv"):
        rows = table(halves / name)
        write(halves / name, [{"label": row["label"], "text": row["text"]} for row in rows])
    assert run("train", "old.csv", "--kernel", "spectrum:1-3", "-o", "m", cwd=halves).returncode == 0
    assert run("update", "m", "new.csv", "-o", "n", cwd=halves).returncode == 0
    for name in ("m", "n"):
        reading = report("model", halves / name)["info"]["reading"]
        assert (reading["text"], reading["label"]) == (None, None)
        assert reading["detected"] == {"text": "text", "label": "label"}
    train(halves, "old.csv")
    assert "detected" not in report("model", halves / "m")["info"]["reading"]


def test_texts_and_labels_in_two_files(tmp_path):
    """The file of labels is recorded beside the corpus, and named for the new documents."""
    for name, texts, labels in (("old", TEXTS, LABELS), ("new", ["a cherry", "sunday"], ["fruit", "cloth"])):
        (tmp_path / f"{name}.txt").write_text("".join(f"{text}\n" for text in texts), "utf-8")
        (tmp_path / f"{name}.labels").write_text("".join(f"{label}\n" for label in labels), "utf-8")
    plain = ["--format", "plain", "--labels", "old.labels", "--kernel", "spectrum:1-3", "-o", "m"]
    assert run("train", "old.txt", *plain, cwd=tmp_path).returncode == 0
    result = run("update", "m", "new.txt", cwd=tmp_path)
    assert result.returncode == 1
    assert "has no labels" in " ".join(result.stderr.decode().split())
    summary = report("update", "m", "new.txt", "--labels", "new.labels", cwd=tmp_path)
    assert summary["new_documents"] == 2
    again = SVC(Spectrum((1, 3))).fit([*TEXTS, "a cherry", "sunday"], [*LABELS, "fruit", "cloth"])
    asked = ["cherry bread", "on a sunday", "banana"]
    values = load(tmp_path / "m").decision_function(asked)
    assert np.allclose(values, again.decision_function(asked), atol=1e-4)
    (tmp_path / "more.txt").write_text("a plum\nthe coat\n", "utf-8")
    (tmp_path / "new.labels").write_text("cloth\ncloth\n", "utf-8")
    result = run("update", "m", "more.txt", "--labels", "new.labels", cwd=tmp_path)
    assert result.returncode == 1
    assert "has changed since the training" in " ".join(result.stderr.decode().split())
