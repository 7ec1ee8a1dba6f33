"""Probabilities of the default classifier against scikit-learn's, on many small sets.

A set is a pair of files as in `benchmarks.panel`; at most `--train` and `--test` documents of its parts are
drawn at random, without classes of a single training document. Times are of the processor, from texts in
memory to probabilities, on a single thread. Log loss is in nats; the expected calibration error has 15 bins
of equal width of the largest probability (Guo et al. 2017).
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from benchmarks.corpora import TrainTest
from benchmarks.harness import BenchmarkReport, benchmark, data_folder, markdown_lines, option
from benchmarks.panel import names_of, read_set, warm_up
from textsvm.estimators.svm import SVC
from textsvm.evaluation.baselines import characters_baseline
from textsvm.model.settings import CalibrationSettings, ClassifierSettings
from textsvm.training.classifier import FOLDS, with_chosen
from textsvm.training.fold_grams import Task, fit_with_folds
from textsvm.training.folds import Splitting
from textsvm.training.thresholds import out_of_fold_values
from textsvm.training.train import read_training_data, with_scale
from textsvm.training.trainers import train

Array = NDArray[Any]
FOLDERS = ("panel", "panel2")
BINS = 15
FIRST = "SVC, a scale from three folds"


def scaled(texts: list[str], y: Array) -> Any:
    """The default with the probabilities of `textsvm train`: a scale that fits values of three folds."""
    settings = ClassifierSettings(n_jobs=1)
    model = train(settings, texts, y)
    fixed = with_chosen(settings, model, settings.tol)
    examples, target, _ = read_training_data(fixed, texts, y, None)
    folds = Splitting(FOLDS).quietly(target)
    values = fit_with_folds(fixed, examples, Task(target, None, folds), {}, None)[1]
    return with_scale(model, out_of_fold_values(values, folds, target), y)


def calibrated(texts: list[str], y: Array) -> Any:
    """The default with a sigmoid for each class, from five folds."""
    return train(CalibrationSettings(ClassifierSettings(n_jobs=1)), texts, y)


def _pipeline(machine: Any) -> Callable[[list[str], Array], Any]:
    """TF-IDF of characters 1-5 and a classifier of scikit-learn."""
    return lambda texts, y: make_pipeline(characters_baseline()[0], machine).fit(texts, y)


CLASSIFIERS: dict[str, Callable[[list[str], Array], Any]] = {
    FIRST: scaled,
    "CalibratedSVC, sigmoid, five folds": calibrated,
    "LinearSVC + CalibratedClassifierCV": _pipeline(CalibratedClassifierCV(LinearSVC(random_state=0))),
    "LogisticRegression, C = 1": _pipeline(LogisticRegression(max_iter=200)),
    "LogisticRegression, C = 10": _pipeline(LogisticRegression(C=10, max_iter=200)),
}


def drawn(task: TrainTest, n_train: int, n_test: int) -> TrainTest:
    """Random parts of a set, with the classes of two training documents or more."""
    parts = []
    for texts, labels, most in ((task.train, task.y_train, n_train), (task.test, task.y_test, n_test)):
        rows = np.random.default_rng(0).permutation(len(labels))[:most]
        parts.append(([texts[i] for i in rows], labels[rows]))
    counts = Counter(parts[0][1].tolist())
    for k, (texts, labels) in enumerate(parts):
        rows = np.flatnonzero([counts[label] > 1 for label in labels.tolist()])
        parts[k] = ([texts[i] for i in rows], labels[rows])
    (train, y_train), (test, y_test) = parts
    return TrainTest(task.name, train, y_train, test, y_test)


def calibration_error(probability: Array, right: Array) -> float:
    """The mean over documents of |accuracy - confidence| of their bin."""
    confidence = probability.max(axis=1)
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    return float(np.abs(np.bincount(bins, right) - np.bincount(bins, confidence)).sum() / len(right))


def row_of(task: TrainTest, name: str) -> dict[str, Any]:
    """Row of a classifier on a set."""
    with warnings.catch_warnings():  # from rare classes in folds, and from the bound on iterations
        warnings.simplefilter("ignore")
        clock = time.process_time()
        model = CLASSIFIERS[name](task.train, task.y_train)
        probability = model.predict_proba(task.test)
        seconds = time.process_time() - clock
    classes = np.unique(task.y_train)
    assert np.allclose(probability.sum(axis=1), 1)
    right = classes[probability.argmax(axis=1)] == task.y_test
    return {
        "set": task.name,
        "classifier": name,
        "n": len(task.train),
        "classes": len(classes),
        "log_loss": float(log_loss(task.y_test, probability, labels=classes)),
        "error": calibration_error(probability, right),
        "accuracy": float(right.mean()),
        "seconds": seconds,
    }


class ProbabilityReport(BenchmarkReport):
    """A row per set and classifier in the JSON file, tables in the Markdown file."""

    def write(self) -> None:
        """Write both files."""
        rows = list(self.rows.values())
        self.write_files([self.note, "", *tables(rows)], {"rows": rows})


def tables(rows: Iterable[dict[str, Any]]) -> list[str]:
    """Lines of the report: means and differences over the sets with all rows, and log loss by set."""
    sets: dict[str, dict[str, dict[str, Any]]] = {}
    for row in rows:
        sets.setdefault(row["set"], {})[row["classifier"]] = row
    sets = {name: of for name, of in sets.items() if len(of) == len(CLASSIFIERS)}
    if not sets:
        return []
    lines = [f"Means of {len(sets)} sets, and differences from the first line with standard errors:", ""]
    keys = ("log_loss", "error", "accuracy")
    figures = {
        name: np.array([[of[name][key] for key in keys] for of in sets.values()]) * [1, 100, 100]
        for name in CLASSIFIERS
    }
    titles = ["log loss", "calibration error %", "accuracy %"]
    head = [
        "classifier",
        *titles,
        *(f"difference in {title}" for title in titles),
        "worse log loss on",
        "seconds",
    ]
    table = []
    for name, values in figures.items():
        gap = values - figures[FIRST]
        spread = gap.std(axis=0) / np.sqrt(max(len(gap) - 1, 1))
        shown = [f"{mean:+.3f} ± {error:.3f}" for mean, error in zip(gap.mean(axis=0), spread, strict=True)]
        shown = [*shown, f"{(gap[:, 0] > 0).sum()} of {len(gap)}"] if name != FIRST else [""] * 4
        seconds = float(np.mean([of[name]["seconds"] for of in sets.values()]))
        table.append([name, *values.mean(axis=0).tolist(), *shown, f"{seconds:.1f}"])
    lines += markdown_lines(head, table, ".3f")
    lines += ["", "Log loss / calibration error %:", ""]
    by_set = [
        [name, of[FIRST]["n"], of[FIRST]["classes"]]
        + [f"{of[key]['log_loss']:.3f} / {100 * of[key]['error']:.1f}" for key in CLASSIFIERS]
        for name, of in sets.items()
    ]
    return [*lines, *markdown_lines(["set", "texts", "classes", *CLASSIFIERS], by_set, ".3f")]


@benchmark(
    "probabilities",
    "Log loss and calibration of the default's probabilities beside scikit-learn's",
    "reports/probabilities",
    option("--sets", help="names of sets, separated by commas (default: all)"),
    option("--train", type=int, default=2000, help="most training documents"),
    option("--test", type=int, default=1000, help="most test documents"),
    device="cpu",
    report=ProbabilityReport,
)
def run(options: argparse.Namespace, report: BenchmarkReport) -> None:
    """Train and test every classifier on every set."""
    folders = [data_folder() / folder for folder in FOLDERS]
    names = {name: folder for folder in folders for name in names_of(folder, None)}
    for name in names if options.sets is None else options.sets.split(","):
        task = drawn(read_set(names[name], name), options.train, options.test)
        warm_up(task, lambda: SVC(n_jobs=1))
        for classifier in CLASSIFIERS:
            report.row(f"{name}, {classifier}", row_of, task, classifier)
