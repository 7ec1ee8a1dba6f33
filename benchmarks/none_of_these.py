"""Detecting texts of classes that were left out of training, by their decision values.

Machines learn two thirds of the classes of a set, drawn with a seed; texts of the others are to score lower.
The area under the ROC curve (per cent) of `CalibratedSVC.score_samples`, the largest decision value, stands
beside that of the largest probability of TF-IDF + logistic regression in several usual settings, of which the
table has the one that is best on average over the seeds of the set, chosen in its favour. Then, of the test
texts of the classes that were learnt: how many are rejected where 5 % may be, how many of the others are, and
how often sets of 95 % hold the true class, with their mean size. At most 1,500 texts are learnt, and 1,000
are scored.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline

from benchmarks.harness import BenchmarkReport, benchmark, data_folder, option
from benchmarks.panel import read_set
from textsvm.estimators.calibrated import CalibratedSVC
from textsvm.estimators.svm import SVC
from textsvm.readers import sample
from textsvm.readers.read import read_corpus

SETS = ("trec6", "webkb", "banking77")
MOST, MOST_TESTED = 1500, 1000
#: Analyzer, lengths and C of the baseline.
SETTINGS = (("char_wb", (2, 5), 1.0), ("word", (1, 2), 1.0), ("word", (1, 2), 10.0))


@dataclass(frozen=True)
class Drawn:
    """A set of which some classes are left out: texts to learn, and to score."""

    train: list[str]
    y_train: NDArray[Any]
    test: list[str]
    y_test: NDArray[Any]
    known: NDArray[np.bool_]


def draw(name: str, folder: Path | None, seed: int) -> Drawn:
    """Two thirds of the classes, at least two; without a folder those of the sample of newswire stories."""
    train, y_train, test, y_test = _parts(name, folder)
    rng = np.random.default_rng(seed)
    classes = rng.permutation(np.unique(y_train))
    kept = classes[: max(2, round(2 * len(classes) / 3))]
    mine = rng.permutation(np.flatnonzero(np.isin(y_train, kept)))[:MOST]
    scored = rng.permutation(len(test))[:MOST_TESTED]
    return Drawn(
        [train[i] for i in mine], y_train[mine], [test[i] for i in scored], y_test[scored],
        np.isin(y_test[scored], kept),
    )  # fmt: skip


def _parts(name: str, folder: Path | None) -> tuple[list[str], NDArray[Any], list[str], NDArray[Any]]:
    if folder is not None:
        task = read_set(folder / "panel", name)
        return task.train, np.array(task.y_train), task.test, np.array(task.y_test)
    corpus = read_corpus(sample("dialects"), text="text", label="dialect")
    train, test = corpus.select(part="train"), corpus.select(part="test")
    return list(train.texts), np.array(train.labels), list(test.texts), np.array(test.labels)


def baseline(drawn: Drawn, setting: tuple[str, tuple[int, int], float]) -> NDArray[np.float64]:
    """Its largest probability."""
    analyzer, lengths, C = setting
    features = TfidfVectorizer(analyzer=analyzer, ngram_range=lengths, sublinear_tf=True, min_df=2)
    model = make_pipeline(features, LogisticRegression(C=C)).fit(drawn.train, drawn.y_train)
    return model.predict_proba(drawn.test).max(axis=1)


def measure(name: str, folder: Path | None, seeds: int, device: str) -> dict[str, Any]:
    """The row of a set: means over seeds."""
    ours, theirs = [], []
    for seed in range(seeds):
        drawn = draw(name, folder, seed)
        ours.append(of_ours(drawn, device))
        theirs.append([_auc(drawn, baseline(drawn, setting)) for setting in SETTINGS])
    mean = np.mean(theirs, axis=0)
    analyzer, lengths, C = SETTINGS[int(mean.argmax())]
    figures = {key: float(np.mean([each[key] for each in ours])) for key in ours[0]}
    return {
        "set": name,
        "classes learnt": len(np.unique(drawn.y_train)),
        **figures,
        "AUROC, baseline": float(mean.max()),
        "baseline": f"{analyzer} {lengths[0]}-{lengths[1]}, C = {C:g}",
    }


def of_ours(drawn: Drawn, device: str) -> dict[str, float]:
    """Our figures of one draw."""
    model = CalibratedSVC(SVC(device=device)).fit(drawn.train, drawn.y_train)
    score = model.score_samples(drawn.test)
    held = [text for text, known in zip(drawn.test, drawn.known, strict=True) if known]
    codes = np.searchsorted(model.classes_, drawn.y_test[drawn.known])
    sets, known = model.predict_set(held, 0.95), model.predict_known(drawn.test, 0.05)
    return {
        "AUROC, textsvm": _auc(drawn, score),
        "rejected, known %": 100 * float((~known[drawn.known]).mean()),
        "rejected, others %": 100 * float((~known[~drawn.known]).mean()),
        "coverage of 95 % sets": 100 * float(sets[np.arange(len(codes)), codes].mean()),
        "classes in a set": float(sets.sum(axis=1).mean()),
    }


def _auc(drawn: Drawn, score: NDArray[np.float64]) -> float:
    return 100 * float(roc_auc_score(drawn.known, score))


@benchmark(
    "none_of_these",
    "Texts of classes left out of training",
    "reports/none_of_these",
    option("--sets", default=",".join(SETS), recorded=False, help="names of sets, separated by commas"),
    option("--seeds", type=int, default=3, help="random draws of the classes left out"),
    device="auto",
    quick="use the bundled sample of dialects",
    note=__doc__ or "",
)
def main(options: argparse.Namespace, report: BenchmarkReport) -> None:
    """Score texts of known and unknown classes on each set."""
    for name in ["dialects"] if options.quick else options.sets.split(","):
        folder = None if options.quick else data_folder()
        report.row(name, measure, name, folder, options.seeds, options.device)
