"""What holds for every command and every option."""

import csv
import io
import json
import re
from pathlib import Path

import numpy as np
import pytest
import typer
from command import report, run
from loading import load

from textsvm import MultilabelSVC, Spectrum, evaluate, save
from textsvm.cli import app_of
from textsvm.cli.console import USAGE_ERROR, WrongUsage
from textsvm.readers import sample

MESSAGES = list(csv.DictReader(io.StringIO(Path(sample("messages")).read_text(encoding="utf-8"))))

FAST = ("--kernel", "spectrum:3")


def table(path, rows):
    with open(path, "w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def test_confidence_of_labels_is_the_distance_to_the_nearest_threshold(tmp_path):
    rng = np.random.default_rng(0)
    words = ["apple", "bread", "cheese"]
    truth = rng.random((60, 3)) < [0.6, 0.3, 0.15]
    truth[~truth.any(axis=1), 0] = True
    texts = [" ".join(words[a] for a in range(3) if row[a]) + f" {rng.integers(99)} eaten" for row in truth]
    machine = MultilabelSVC(Spectrum(3), device="cpu").fit(
        texts, [[w for w, own in zip(words, row, strict=True) if own] for row in truth]
    )
    thresholds = machine.model_.rule.thresholds
    assert np.abs(thresholds).max() > 0.05
    save(machine, tmp_path / "m.textsvm")
    path = table(tmp_path / "t.csv", [{"text": text} for text in texts])
    shown = run(
        "predict", tmp_path / "m.textsvm", path, "--text", "text", "--output-format", "csv"
    ).stdout.decode()
    confidence = [float(row["confidence"]) for row in csv.DictReader(io.StringIO(shown))]
    expected = np.abs(machine.decision_function(texts) - thresholds).min(axis=1)
    assert confidence == pytest.approx(expected, abs=1e-5)


def test_what_evaluate_prints_is_what_json_and_python_have(tmp_path):
    path, model = table(tmp_path / "t.csv", MESSAGES[:120]), tmp_path / "m.textsvm"
    run("train", table(tmp_path / "old.csv", MESSAGES[120:200]), *FAST, "-o", model)
    figures = report("evaluate", model, path, "--text", "text", "--label", "label")
    fitted, truth = load(model), [row["label"] for row in MESSAGES[:120]]
    texts = [row["text"] for row in MESSAGES[:120]]
    results = evaluate(truth, fitted.predict(texts), fitted.decision_function(texts), fitted.classes_)
    shown = run("evaluate", model, path, "--text", "text", "--label", "label").stdout.decode()
    assert 0 < figures["accuracy"] < 1
    for name in ("accuracy", "precision", "recall", "f1", "macro_f1", "roc_auc"):
        assert figures[name] == pytest.approx(results.metrics[name], rel=1e-12)
        assert re.search(rf"\b{100 * figures[name]:.2f} %|\b{figures[name]:.4f}\b", shown), (name, shown)


@pytest.mark.parametrize("kind", ["texts", "labels that say nothing", "vectors", "numbers"])
def test_training_says_what_comes_next(kind, tmp_path):
    """A sentence with a command, however good the model is."""
    rng = np.random.default_rng(0)
    rows = [{**row, "n": len(row["text"]), "noise": "ab"[int(rng.integers(2))]} for row in MESSAGES[:80]]
    corpus, options = table(tmp_path / "t.csv", rows), [*FAST, "--text", "text", "--label", "label"]
    if kind == "vectors":
        labels = np.array(["a", "b"] * 40)
        np.save(tmp_path / "v.npy", rng.normal(size=(80, 3)) + 9 * (labels == "a")[:, None])
        (tmp_path / "y.txt").write_text("\n".join(labels))
        corpus, options = tmp_path / "v.npy", ["--labels", tmp_path / "y.txt", "--kernel", "linear"]
    elif kind == "numbers":
        options = [*FAST, "--text", "text", "--regress", "n"]
    elif kind != "texts":
        options[-1] = "noise"
    done = run("train", corpus, *options, "-o", tmp_path / "m.textsvm")
    assert done.returncode == 0, done.stderr.decode()
    assert re.search(r"next: .*`textsvm [a-z]+", " ".join(done.stdout.decode().split())), done.stdout


@pytest.mark.parametrize("positive", ["ham", "spam"])
def test_unsure_are_probabilities_of_the_positive_class_between_the_limits(positive, tmp_path):
    corpus, model = table(tmp_path / "t.csv", MESSAGES[:80]), tmp_path / "m.textsvm"
    options = ["--text", "text", "--label", "label", "--positive", positive, "--calibrate", "sigmoid"]
    assert run("train", corpus, *options, *FAST, "-o", model).returncode == 0
    new = table(tmp_path / "n.csv", [{"text": row["text"]} for row in MESSAGES[80:160]])
    for low, high in ((0.05, 0.6), (0.4, 0.97)):
        shown = run("predict", model, new, "--text", "text", "--unsure", f"{low},{high}", "--proba").stdout
        rows = [json.loads(line) for line in shown.decode().splitlines()]
        expected = [low <= row["probabilities"][positive] <= high for row in rows]
        assert [row["label"] == "unsure" for row in rows] == expected
        assert 0 < sum(expected) < len(rows)


@pytest.mark.parametrize(
    ("side", "values"), [("largest", "0.000001,0.00001,1"), ("smallest", "0.0001,1,100")]
)
def test_the_note_on_c_says_at_which_end_it_lies(side, values, tmp_path):
    rng = np.random.default_rng(0)
    rows = [{**row, "noise": "ab"[rng.random() < 0.3]} for row in MESSAGES[:80]]
    corpus, label = table(tmp_path / "t.csv", rows), {"largest": "label", "smallest": "noise"}[side]
    command = ["tune", corpus, "--text", "text", "--label", label, *FAST, "-C", values, "--folds", "3"]
    said, best = run(*command).stderr.decode(), report(*command)["best_params"]["C"]
    assert best == {"largest": max, "smallest": min}[side](map(float, values.split(",")))
    assert f"the best C, {best:g}, is the {side} value tried" in said


def test_texts_of_a_group_say_nothing_about_the_labels_of_each_other(tmp_path):
    """Wrong labels that the texts of a thread share are doubtful only if the threads are named."""
    rows = [{**row, "thread": f"t{i}"} for i, row in enumerate(MESSAGES[:60])]
    for i in range(0, 12, 2):  # a thread of near-equal texts with a wrong label
        label = {"ham": "spam", "spam": "ham"}[rows[i]["label"]]
        rows[i]["label"] = label
        rows += [
            {"text": f"{rows[i]['text']} {word}", "label": label, "thread": f"t{i}"} for word in ("re", "fw")
        ]
    path = table(tmp_path / "t.csv", rows)
    listed = []
    for options in ([], ["--groups", "thread"]):
        command = ["doubts", path, "--text", "text", "--label", "label", *FAST, "--at-least", "0.5", *options]
        found = [json.loads(line) for line in run(*command).stdout.decode().splitlines()]
        wrong = {str(i + 1) for i in [*range(0, 12, 2), *range(60, len(rows))]}
        listed.append(sum(row["id"] in wrong for row in found if "label" in row["kinds"]))
    assert listed[1] > listed[0]


#: A value that each option takes: numbers, and members of enumerations.
VALUES = (
    "1",
    "2",
    "0.5",
    "200",
    "auto",
    "unicode",
    "balanced",
    "accuracy",
    "sigmoid",
    "jsonl",
    "title",
    "json",
    "ham",
)


def test_an_option_that_takes_a_value_is_refused_twice():
    commands, n = [typer.main.get_command(app_of())], 0
    while commands:
        command = commands.pop()
        if hasattr(command, "commands"):
            commands += command.commands.values()
            continue
        options = [own for own in command.params if own.param_type_name == "option"]
        needed = [own for own in command.params if own.required]

        def accepts(*words, command=command):
            try:
                return command.make_context(command.name, [*words])
            except USAGE_ERROR:
                return None

        for option in options:
            if option.is_flag or option.multiple:
                continue
            others = [[own.opts[0], "ham"][own not in options :] for own in needed if own is not option]
            words = [word for own in others for word in own]
            n += 1
            name = option.opts[-1]
            value = next((own for own in VALUES if accepts(*words, name, own)), None)
            assert value is not None, (command.name, name)
            for twice in ([name, value, name, value], [f"{option.opts[0]}={value}", name, value]):
                with pytest.raises(WrongUsage, match=f"^{option.opts[0]} stands twice, and the command"):
                    command.make_context(command.name, [*words, *twice])
    assert n > 150
