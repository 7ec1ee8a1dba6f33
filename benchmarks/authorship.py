"""Authorship: collections whose test texts are of other works, beside Delta, stylo's SVM and TF-IDF.

Delta (Burrows 2002) and Cosine Delta (Smith and Aldridge 2011) name the author of the nearest training text
by z-scores of relative frequencies of the most frequent words. stylo's `classify` does the same; its SVM is
linear with C = 1 on these z-scores. "Verification" is the area under ROC of the scores of `textsvm.verify`:
each test text with its author against each test text with every other author.
"""

from __future__ import annotations

import argparse
import lzma
import re
from collections import Counter
from typing import Any

import numpy as np
from sklearn.svm import SVC as LinearMachine

from benchmarks.harness import BenchmarkReport, benchmark, data_folder
from textsvm import SVC, verify
from textsvm.arrays import AnyArray, Floats
from textsvm.evaluation.baselines import CHARACTERS, WORDS, baselines_of
from textsvm.evaluation.metrics import roc_area

SETS = (
    "au-de-few", "au-de-novels", "au-en-few", "au-en-long", "au-en-novels", "au-es-novels", "au-pl-novels",
    "au-pt-novels",
)  # fmt: skip
#: Numbers of most frequent words.
MOST_FREQUENT = (200, 500, 1000, 2000)
#: Test texts that are verified.
VERIFIED = 100


def read(name: str, part: str) -> tuple[list[str], AnyArray]:
    """Texts and authors."""
    path = data_folder() / "panel3" / f"{name}-{part}.tsv.xz"
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        rows = [line.rstrip("\n").split("\t", 1) for line in lines]
    return [text for _, text in rows], np.array([label for label, _ in rows])


def z_scores(train: list[str], test: list[str], most: int) -> tuple[Floats, Floats]:
    """Z-scores of relative frequencies of the most frequent words of the training texts."""
    words = [[Counter(re.findall(r"[^\W\d_]+", text.lower())) for text in part] for part in (train, test)]
    total: Counter[str] = sum(words[0], Counter())
    names = [word for word, _ in total.most_common(most)]
    shares = [
        np.array([[count[name] / max(1, count.total()) for name in names] for count in part])
        for part in words
    ]
    mean, deviation = shares[0].mean(axis=0), shares[0].std(axis=0, ddof=1)
    first, second = ((part - mean) / np.where(deviation > 0, deviation, 1) for part in shares)
    return first, second


def nearest(train: Floats, test: Floats, authors: AnyArray, cosine: bool) -> AnyArray:
    """Author of the nearest training text, by Manhattan distance or by cosine."""
    if cosine:
        unit = [part / np.linalg.norm(part, axis=1, keepdims=True) for part in (train, test)]
        return authors[(unit[1] @ unit[0].T).argmax(axis=1)]
    return authors[[int(np.abs(train - row).sum(axis=1).argmin()) for row in test]]


def verification(train: list[str], y: AnyArray, test: list[str], truth: AnyArray) -> float:
    """Area under ROC of the scores of test texts."""
    drawn = np.random.default_rng(0).permutation(len(test))[:VERIFIED]
    results = [verify(train, y.tolist(), test[i]) for i in drawn]
    own = truth[drawn][:, None] == np.array(results[0].authors)
    return roc_area(own.ravel(), np.concatenate([result.scores for result in results]))


def row(name: str) -> dict[str, Any]:
    """Accuracies on a collection."""
    (train, y), (test, truth) = read(name, "train"), read(name, "test")
    found: dict[str, Any] = {"collection": name, "train / test": f"{len(train)} / {len(test)}"}
    found["authors"] = len(np.unique(y))

    def add(method: str, predicted: AnyArray) -> None:
        found[method] = round(100 * float(np.mean(predicted == truth)), 1)

    add("SVC()", SVC().fit(train, y).predict(test))
    baselines = baselines_of(train)
    for method in (CHARACTERS, WORDS):
        add(method, baselines[method]().fit(train, y).predict(test))
    for most in MOST_FREQUENT:
        parts = z_scores(train, test, most)
        add(f"Delta {most}", nearest(*parts, y, False))
        add(f"Cosine Delta {most}", nearest(*parts, y, True))
        add(f"SVM {most}", LinearMachine(kernel="linear", C=1).fit(parts[0], y).predict(parts[1]))
    found["verification"] = round(verification(train, y, test, truth), 3)
    return found


@benchmark("authorship", "Authorship, other works in the test", "reports/authorship")
def main(options: argparse.Namespace, report: BenchmarkReport) -> None:
    """A row for each collection, and their means."""
    rows = [report.row(name, row, name) for name in SETS]
    shares = [key for key, value in rows[0].items() if isinstance(value, float)]
    means = {key: round(float(np.mean([row[key] for row in rows])), 3) for key in shares}
    report.row("mean", lambda: {"collection": "mean", **means})
