"""What holds for every command and every option."""

import csv
import io
from pathlib import Path

import numpy as np
import pytest
from command import run
from loading import load

from textsvm import SVC, MultilabelSVC, Spectrum, cross_validate, save
from textsvm.readers import sample
from textsvm.training.train import with_scale

MESSAGES = list(csv.DictReader(io.StringIO(Path(sample("messages")).read_text(encoding="utf-8"))))


def table(path, rows):
    with open(path, "w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def test_an_updated_model_has_the_probabilities_of_all_texts(tmp_path):
    rows = MESSAGES[:120]
    old, new = table(tmp_path / "old.csv", rows[:80]), table(tmp_path / "new.csv", rows[80:])
    model = tmp_path / "m.textsvm"
    run("train", old, "--kernel", "spectrum:3", "-o", model)
    before = load(model).model_.rule.scale
    run("update", model, new)
    updated = load(model).model_
    texts, labels = [row["text"] for row in rows], [row["label"] for row in rows]
    result = cross_validate(SVC(Spectrum(3), device="cpu"), texts, labels)
    fitted = SVC(Spectrum(3), device="cpu").fit(texts, labels).model_
    expected = with_scale(fitted, result.decision, labels).rule.scale
    assert updated.rule.scale == pytest.approx(expected, rel=1e-3)
    assert before != pytest.approx(expected, rel=1e-3)


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
