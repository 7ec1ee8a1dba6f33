"""What an option of a command reaches: folds, scales, files of models, messages and later commands."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from books import novels
from command import fails, report, run
from loading import load
from test_laws_cli import FAST, MESSAGES, table

from textsvm import SVC, Corpus, OnlineSVC, Spectrum, cross_validate, save
from textsvm.cli.model_files import training_facts
from textsvm.cli.results import on_texts
from textsvm.evaluation import class_map
from textsvm.evaluation.drift import Drift
from textsvm.model.rules import ClassRule, margins
from textsvm.selection.cross_validation import learning_curve
from textsvm.training.train import with_scale

READ = ("--text", "text", "--label", "label", *FAST)
#: Commands that draw folds, or hold documents out, with options for few documents.
WITH_FOLDS = {
    "train": ("--holdout", "0.3", "-o", "m.textsvm"),
    "cv": ("--folds", "3"),
    "tune": ("--folds", "3"),
    "compare": ("--cv", "2"),
    "doubts": (),
}


@pytest.mark.parametrize("command", WITH_FOLDS)
def test_copies_that_folds_keep_together_are_counted(command, tmp_path):
    path = table(tmp_path / "t.csv", [*MESSAGES[:40], *MESSAGES[:2]])
    said = run(command, path, *READ, *WITH_FOLDS[command], cwd=tmp_path).stderr.decode()
    assert "note: 2 copies (texts equal to another" in said


def test_weights_reach_the_scale_of_probabilities(tmp_path):
    """Of a training by its quick folds, and of an update by its folds; and the errors of a learning curve."""
    rng = np.random.default_rng(0)
    rows = [{**row, "w": 1 + 20 * (rng.random() < 0.2)} for row in MESSAGES[:120]]
    texts, labels, w = ([row[name] for row in rows] for name in ("text", "label", "w"))
    old, new = table(tmp_path / "old.csv", rows[:80]), table(tmp_path / "new.csv", rows[80:])
    machine, scales, model = SVC(Spectrum(3), device="cpu"), [], tmp_path / "m.textsvm"
    run("train", old, *READ, "--weights", "w", "-o", model)
    for n, folds in ((80, 3), (120, 5)):
        if n == 120:
            assert run("update", model, new).returncode == 0
        weighted = texts[:n], labels[:n], np.array(w[:n])
        fitted = machine.fit(*weighted).model_
        for own in (weighted[2], None):
            result = cross_validate(machine, *weighted[:2], cv=folds, sample_weight=own)
            scales.append(with_scale(fitted, result.decision, labels[:n], own).rule.scale)
        assert load(model).model_.rule.scale == pytest.approx(scales[-2], rel=1e-3)
        assert scales[-1] != pytest.approx(scales[-2], rel=1e-2)
    curve = report("cv", old, *READ, "--weights", "w", "--folds", "3", "--learning-curve")["learning_curve"]
    arguments = texts[:80], labels[:80]
    result = cross_validate(machine, *arguments, cv=3, sample_weight=w[:80])
    expected, other = (
        learning_curve(machine, *arguments, result, sample_weight=own).error for own in (w[:80], None)
    )
    assert curve["error"] == pytest.approx(expected)
    assert curve["error"] != pytest.approx(other)


def test_facts_of_a_training_are_those_of_all_machines():
    texts, labels = [f"{word} {i}" for i in range(9) for word in ("apple", "car", "moon")], [*"abc"] * 9
    model = SVC(Spectrum(2), device="cpu").fit(texts, labels).model_
    solutions = model.record.solutions
    facts = training_facts(model, Corpus([*map(str, range(27))], texts, labels, [None] * 27))
    gaps = [solution.duality_gap for solution in solutions]
    assert (facts["duality_gap"], facts["machines"]) == (max(gaps), 3)
    assert facts["objective"] == sum(solution.objective for solution in solutions)
    assert min(gaps) < max(gaps)


def test_a_training_on_the_texts_of_a_labelling_says_that_they_are_difficult(tmp_path):
    path = table(tmp_path / "t.csv", MESSAGES[:60])
    for n in (0, 1):
        (tmp_path / "t.csv.journal").write_text("") if n else None
        held_out = report("train", path, *READ, "-o", tmp_path / "m", "--force")["estimate"]["held_out"]
        assert held_out.count("chosen by `textsvm label`, difficult ones first") == n


def test_models_of_one_file_name_are_told_apart(tmp_path):
    path, models = table(tmp_path / "t.csv", MESSAGES[:60]), []
    for name, C in (("a", "0.001"), ("b", "1"), ("c", "10")):
        (tmp_path / name).mkdir()
        models.append(tmp_path / name / "m.textsvm")
        run("train", path, *READ, "-C", C, "-o", models[-1])
    beside = [part for model in models[1:] for part in ("--beside", model)]
    found = report("evaluate", models[0], path, "--text", "text", "--label", "label", *beside)["beside"]
    assert [row["name"] for row in found["models"]] == [*map(str, models)]


def test_the_decisions_on_labels_are_not_replaced_by_the_model(tmp_path):
    (tmp_path / "c.json").write_text("[]")
    arguments = ["--corrections", "c.json", "-o", "./c.json", "--force"]
    message = fails("train", table(tmp_path / "t.csv", MESSAGES[:9]), *READ, *arguments, cwd=tmp_path, code=2)
    assert "would replace the corpus, c.json" in message


@pytest.mark.parametrize("command", ["train", "tune", "update"])
def test_a_model_cuts_texts_as_its_training_did(command, tmp_path):
    texts, labels, _ = novels(authors=2, books=4, chapters=2)
    rows = [{"text": text, "label": label} for text, label in zip(texts, labels, strict=True)]
    path, model = table(tmp_path / "t.csv", rows), tmp_path / "m.textsvm"
    trained = (
        ["tune", path, *READ, "-C", "1", "--folds", "2"] if command == "tune" else ["train", path, *READ]
    )
    found = report(*trained, "--chunk", "150", "-o", model)
    if command == "tune":
        tuned = load(model).model_.info["tuning"]
        assert (tuned["best_score"], tuned["n"]) == (found["best_score"], found["n"])
    if command == "update":
        rows = [{"text": text[::-1], "label": label} for text, label in zip(texts, labels, strict=True)]
        path = table(tmp_path / "n.csv", rows)
        assert run("update", model, path).returncode == 0
    assert load(model).model_.pieces.length == 150
    known = run("predict", model, path, "--text", "text").stderr.decode()
    assert "100.0% of these documents were in the training of the model" in known


def test_texts_without_a_test_are_no_result_of_pieces():
    """The pieces of the first text are the only ones of their class, which no fold tests."""
    texts = [f"{word} {i}" for i, word in enumerate(["lone", "lone", *["apple", "car"] * 6])]
    labels, numbers = ["lone", "lone", *["food", "ride"] * 6], [0, 0, *range(1, 13)]
    with pytest.warns(UserWarning, match="lone"):
        result = cross_validate(SVC(Spectrum(2), device="cpu"), texts, labels, cv=3, groups=numbers)
    of_pieces = type("Pieces", (), {"piece_of": numbers})()
    found = on_texts(result, of_pieces, ClassRule(np.unique(labels), "ovr"))
    assert found.tested.tolist() == [0, *[1] * 12]


@pytest.mark.parametrize("option", ["--sheet t", "--encoding cp1251", "--skip-invalid", "--headers"])
def test_what_a_training_is_told_of_its_files_holds_for_later_commands(option, tmp_path):
    name = {"--sheet t": "{}.xlsx", "--headers": "{}"}.get(option, "{}.csv").format
    for age, rows in (("old", MESSAGES[:40]), ("new", MESSAGES[40:60])):
        for i, row in enumerate(rows) if option == "--headers" else ():
            (tmp_path / age / row["label"]).mkdir(parents=True, exist_ok=True)
            mail = f"From: a@b.example\nX-Kind: {row['label'] * 9}\nSubject: {age}\n\nSee you {i}.\n"
            (tmp_path / age / row["label"] / f"{i}.eml").write_text(mail)
        frame = pd.DataFrame([*rows, {"label": "ham"}] if option == "--skip-invalid" else rows) + " привет"
        with pd.ExcelWriter(tmp_path / f"{age}.xlsx") as book:
            pd.DataFrame([1]).to_excel(book, sheet_name="notes")
            frame.to_excel(book, sheet_name="t", index=False)
        frame.to_csv(
            tmp_path / f"{age}.csv", index=False, encoding=option.partition("--encoding ")[2] or None
        )
    report(
        "train", name("old"), *READ[4 * (option == "--headers") :], *option.split(), "-o", "m", cwd=tmp_path
    )
    assert report("update", "m", name("new"), cwd=tmp_path)["new_documents"] == 20
    assert load(tmp_path / "m").model_.info["n_train"] == 60
    if option == "--headers":
        assert report("evaluate", "m", "new", cwd=tmp_path)["accuracy"] == 1


@pytest.mark.parametrize("changed", ["text", "label", "number"])
def test_an_update_refuses_a_corpus_that_has_changed(changed, tmp_path):
    rows = [{"text": row["text"], "label": row["label"], "number": i % 7} for i, row in enumerate(MESSAGES)]
    path, new = table(tmp_path / "t.csv", rows[:40]), table(tmp_path / "n.csv", rows[40:60])
    target = ["--regress", "number", *FAST, "--text", "text"] if changed == "number" else READ
    assert run("train", path, *target, "-o", tmp_path / "m").returncode == 0
    rows[7][changed] = {
        "text": "other",
        "label": "spam" if rows[7]["label"] == "ham" else "ham",
        "number": 9,
    }[changed]
    table(path, rows[:40])
    assert "has changed since the training" in fails("update", tmp_path / "m", new)


def test_of_many_explained_texts_the_sums_of_their_substrings_are_shown(tmp_path):
    """The largest first, for and against."""
    path, model = table(tmp_path / "t.csv", MESSAGES[:60]), tmp_path / "m"
    run("train", path, *READ, "--positive", "spam", "-o", model)
    new = table(tmp_path / "n.csv", [{"text": row["text"]} for row in MESSAGES[60:80]])
    rows = [json.loads(row) for row in run("explain", model, new, "--json").stdout.splitlines()]
    sums, documents = {}, {}
    for part in (part for row in rows for part in row["merged"]):
        sums[part["text"]] = sums.get(part["text"], 0) + part["contribution"]
        documents[part["text"]] = documents.get(part["text"], 0) + 1
    order = sorted(sums, key=lambda text: -abs(sums[text]))[:12]
    shown = [" ".join(row.split()) for row in run("explain", model, new).stdout.decode().splitlines()]
    ends = [f"{documents[text]} {sums[text]:+.4f}" for text in order]
    assert any(sums[text] < 0 for text in order)
    found = [row for row in shown if re.search(r" \d+ [+-]\d+\.\d{4}$", row)][: len(ends)]
    assert [" ".join(row.split()[-2:]) for row in found] == ends


def test_a_separator_of_labels_holds_for_a_file_of_labels(tmp_path):
    (tmp_path / "x.txt").write_text("".join(f"{row['text']}\n" for row in MESSAGES[:12]))
    pairs = ["a; b", "b; c", "a; c", "a; d", "b; d", "c; d"]
    (tmp_path / "y.txt").write_text("".join(f"{pair}: {x}\n" for pair in pairs for x in "xy"))
    command = ["train", "x.txt", "--format", "plain", "--labels", "y.txt", "--multilabel", *FAST, "-o", "m"]
    for separator, expected in ((";", 3 + 6), (":", len([*pairs, "x", "y"]))):
        done = run(*command, "--force", "--label-separator", separator, cwd=tmp_path)
        assert len(load(tmp_path / "m").classes_) == expected
        assert b"are lists of" not in done.stderr  # which --label-separator would read


def test_a_map_draws_the_classes_by_their_shares(tmp_path, monkeypatch):
    rows = [{**row, "label": "ab"[i % 20 == 0]} for i, row in enumerate(MESSAGES[:200])]
    monkeypatch.setattr(class_map.sample, "__defaults__", (20,))
    found = report("map", table(tmp_path / "t.csv", rows), *READ, "-o", tmp_path / "m.html")
    assert (found["rows"], found["map"]["label"].count(1)) == (20, 1)


def test_margins_of_an_online_model_are_compared_with_those_of_texts_left_out(tmp_path):
    model = OnlineSVC().fit([row["text"] for row in MESSAGES[:60]], [row["label"] for row in MESSAGES[:60]])
    expected = np.median(margins(model.left_out()[0]))
    assert Drift(model.model_, None).expected["margin"] == expected > 0
    save(model, tmp_path / "m")
    new = table(tmp_path / "n.csv", [{"text": row["text"]} for row in MESSAGES[60:90]])
    values = model.decision_function([row["text"] for row in MESSAGES[60:90]])
    said = run("predict", tmp_path / "m", new, "--drift").stderr.decode()
    assert f"{np.median(np.abs(values)) / expected:.2f} of that in training" in said


def test_an_encoder_is_added_to_the_kernels_of_a_search_on_columns(tmp_path):
    pytest.importorskip("tokenizers")
    from encoders import static_folder, topics

    texts, labels = topics(24)
    rows = [
        {"text": text, "title": text[::-1], "n": i, "label": label}
        for i, (text, label) in enumerate(zip(texts, labels, strict=True))
    ]
    command = ["tune", table(tmp_path / "t.csv", rows), "--text", "text,title", "--numbers", "n"]
    command += ["--label", "label", *FAST, "-C", "1", "--folds", "2"]
    command += ["--encoder", static_folder(tmp_path / "tiny"), "-o", tmp_path / "m.textsvm"]
    assert "encoder:" in report(*command)["best_kernel_spelled"]
    message = fails("train", table(tmp_path / "u.csv", rows), *READ, "--encoder", "tiny,bits=4", code=2)
    assert "bits=4 of the encoder kernel must be 8 or None" in message


def test_texts_that_are_names_of_missing_values_are_counted_over_all_files(tmp_path):
    model = tmp_path / "m"
    run("train", table(tmp_path / "t.csv", MESSAGES[:40]), *READ, "-o", model)
    files = [table(tmp_path / f"{i}.csv", [{"text": "n/a"}, {"text": f"win cash {i}"}]) for i in range(3)]
    said = run("predict", model, *files, "--text", "text").stderr.decode()
    assert "3 texts are 'n/a', read as words" in said
