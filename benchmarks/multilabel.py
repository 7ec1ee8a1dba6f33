"""The 90 categories of ModApte, against one-vs-rest LinearSVC on TF-IDF.

7,770 training and 3,019 test documents of Reuters-21578 that have one of the 90 topics with a document in
each part. Both sides get the same texts, choose the threshold of each label in the same way
(`textsvm.training.train`) on the same five folds of the training part, and learn idf weights or the
vocabulary from the training part of each fold anew. Ours is run at C = 1, and at the C with the best micro-F1
in cross-validation on the training part; the test part is looked at once, with what was chosen.

Break-even points (precision = recall) of the ten largest categories and their mean over all, weighted by
documents, stand beside published ones. Those are of the whole ModApte split (9,603 + 3,299 documents, some
without a topic), and of words for Joachims: near, not the same task. Joachims (2002), as printed by Manning,
Raghavan and Schuetze (2008, table 15.2); Lodhi et al. (2002): F1 of the approximated subsequence kernel of
length 5.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC

from benchmarks.corpora import REUTERS, LabelsTask, labels_task
from benchmarks.harness import BenchmarkReport, benchmark, data_folder, option
from textsvm.estimators.multilabel import MultilabelSVC
from textsvm.evaluation.metrics import break_even, scores
from textsvm.kernels import Spectrum, Sum
from textsvm.kernels.base import Kernel
from textsvm.kernels.spelling import spell
from textsvm.readers import sample
from textsvm.readers.read import read_corpus
from textsvm.selection.tuning import tune
from textsvm.training.folds import make_folds
from textsvm.training.leakage import LeakageWarning
from textsvm.training.targets import Target
from textsvm.training.thresholds import choose_thresholds

KERNELS: dict[str, Kernel] = {f"{a}-{b}": Spectrum((a, b), "log", idf=True) for a, b in ((1, 5), (2, 7))}
KERNELS["1-5+words"] = Sum([KERNELS["1-5"], Spectrum((1, 2), "log", idf=True, tokens="words")])
COSTS = [1.0, 2.0, 4.0, 8.0]
FOLDS = 5
BASELINE = "TF-IDF characters 1-5 + one-vs-rest LinearSVC(C=1)"
LARGEST = ("earn", "acq", "money-fx", "grain", "crude", "trade", "interest", "ship", "wheat", "corn")
#: Break-even points of the ten largest categories, and the weighted mean over all where it is printed, in %.
PUBLISHED: dict[str, tuple[float, ...]] = {
    "published: Joachims 2002, linear SVM, C = 0.5": (
        *(98.0, 95.5, 78.8, 91.9, 89.4, 79.2, 75.6, 87.4, 86.6, 87.5), 86.7,
    ),
    "published: Joachims 2002, linear SVM, C = 1": (
        *(98.2, 95.6, 78.5, 93.1, 89.4, 79.2, 74.8, 86.5, 86.8, 87.8), 87.5,
    ),
    "published: Joachims 2002, RBF SVM": (
        *(98.1, 94.7, 74.3, 93.4, 88.7, 76.6, 69.1, 85.8, 82.4, 84.6), 86.4,
    ),
    "published: Lodhi et al. 2002, SSK approximated": (97, 88, 74, 80, 84, 73, 69, 53, 82, 68),
}  # fmt: skip


def figures(
    task: LabelsTask, decision: NDArray[np.float64], thresholds: NDArray[np.float64]
) -> dict[str, Any]:
    """Metrics and break-even points of the test part, in per cent."""
    found = scores(task.y_test, decision > thresholds, decision, task.classes)
    at_zero = scores(task.y_test, decision > 0, None, task.classes)
    points = np.array([break_even(t, d) for t, d in zip(task.y_test.T, decision.T, strict=True)])
    support = task.y_test.sum(axis=0)
    names = {
        "micro-F1": found["micro_f1"],
        "macro-F1": found["macro_f1"],
        "micro-F1, thresholds 0": at_zero["micro_f1"],
        "macro-F1, thresholds 0": at_zero["macro_f1"],
        "all labels right": found["subset_accuracy"],
        "precision at 1": found["precision_at_1"],
        "break-even, weighted mean": np.average(points[support > 0], weights=support[support > 0]),
    }
    place = {name: a for a, name in enumerate(task.classes.tolist())}
    names |= {name: points[place[name]] for name in LARGEST if name in place}
    return {name: f"{100 * value:.2f}" for name, value in names.items()}


def ours(task: LabelsTask, kernel: Kernel, device: str, costs: Sequence[float]) -> dict[str, Any]:
    """Our row; C by cross-validation if there are several."""
    clock = time.perf_counter()
    model: Any = MultilabelSVC(kernel, C=costs[0], cv=FOLDS, device=device)
    chosen = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LeakageWarning)  # newswire repeats itself
        if len(costs) > 1:
            found = tune(model, task.train, task.y_train, {"C": list(costs)}, cv=FOLDS)
            model, chosen = found.best_estimator, {"micro-F1 in folds": f"{100 * found.best_score:.2f}"}
        else:
            model.fit(task.train, task.y_train)
    trained = time.perf_counter()
    decision = model.decision_function(task.test)
    by = ", by cross-validation" if len(costs) > 1 else ""
    return {
        "classifier": f"MultilabelSVC, {spell(kernel)}, C={model.C:g}{by}",
        **figures(task, decision, model.thresholds_),
        **chosen,
        "train, s": trained - clock,
        "predict, s": time.perf_counter() - trained,
    }


def baseline(task: LabelsTask) -> dict[str, Any]:
    """The baseline's row, its thresholds chosen as ours."""
    clock = time.perf_counter()
    target = Target(task.y_train, task.classes)
    out_of_fold = np.full(task.y_train.shape, np.nan)
    for train, test in make_folds(FOLDS, target):
        texts = [task.train[i] for i in test]
        out_of_fold[test], _ = _linear([task.train[i] for i in train], task.y_train[train], texts)
    # A label that no document of a training part has is left out there, as in ours.
    thresholds = choose_thresholds(out_of_fold, task.y_train)
    decision, predicting = _linear(task.train, task.y_train, task.test)
    return {
        "classifier": BASELINE,
        **figures(task, decision, thresholds),
        "train, s": time.perf_counter() - clock - predicting,
        "predict, s": predicting,
    }


def _linear(train: list[str], y: NDArray[np.bool_], test: list[str]) -> tuple[NDArray[np.float64], float]:
    """Decision values of one-vs-rest machines, NaN where a label cannot be learnt, and their seconds."""
    vectors = TfidfVectorizer(analyzer="char", ngram_range=(1, 5), sublinear_tf=True, min_df=2)
    learnt = np.flatnonzero(y.any(axis=0) & ~y.all(axis=0))
    machines = OneVsRestClassifier(LinearSVC(C=1), n_jobs=-1)
    machines.fit(vectors.fit_transform(train), y[:, learnt].astype(int))
    clock = time.perf_counter()
    decision = np.full((len(test), y.shape[1]), np.nan)
    decision[:, learnt] = machines.decision_function(vectors.transform(test))
    return decision, time.perf_counter() - clock


def published(name: str) -> dict[str, Any]:
    """The row of published break-even points."""
    named = zip((*LARGEST, "break-even, weighted mean"), PUBLISHED[name], strict=False)
    return {"classifier": name, **{column: f"{value:.2f}" for column, value in named}}


@benchmark(
    "multilabel",
    "Categories of ModApte",
    "reports/multilabel",
    option("--kernel", choices=KERNELS, default="1-5", help="lengths (and pairs of words); log, idf"),
    device="auto",
    quick="use the bundled stories",
)
def main(options: argparse.Namespace, report: BenchmarkReport) -> None:
    """Train both sides, and quote published figures."""
    path = sample("newswire") if options.quick else data_folder() / REUTERS
    task, kernel = labels_task(read_corpus(path)), KERNELS[options.kernel]
    report.title = (
        f"{len(task.classes)} categories of ModApte, {len(task.train):,} + {len(task.test):,} documents, %"
    )
    few = task.every(max(1, len(task.train) // 400))
    ours(few, kernel, options.device, COSTS[:1])  # compiles
    report.row("ours", ours, task, kernel, options.device, COSTS[:1])
    report.row("ours, C chosen", ours, task, kernel, options.device, COSTS)
    report.row("baseline", baseline, task)
    for name in PUBLISHED:
        report.row(name, published, name)
