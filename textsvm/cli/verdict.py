"""The last line of `train`: quality on documents held out of training, a constant answer, the next step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.cli import corpora
from textsvm.errors import InputError, printable
from textsvm.evaluation.drift import decide_sample
from textsvm.evaluation.judge import fitted_machine
from textsvm.evaluation.results import Results
from textsvm.model.settings import ClassifierSettings, NoveltySettings, RegressionSettings
from textsvm.readers.corpus import Corpus
from textsvm.runtime import device as devices
from textsvm.training.fold_grams import Task, grams_of, predicted_seconds, train_and_test
from textsvm.training.folds import Splitting
from textsvm.training.targets import with_classes
from textsvm.training.train import read_training_data

#: Limits of the automatic cross-validation (documents, predicted seconds), and its folds.
MOST, SECONDS, FOLDS = 2000, 2.0, 3
#: Accuracy that needs no improvement.
GOOD = 0.95
#: Minimum number of documents of a sample whose accuracy is worth a sentence.
ENOUGH = 100


@dataclass(frozen=True)
class Verdict:
    """Quality of a model and of a constant answer on the same n documents: accuracy, micro F1 or MAE."""

    value: float
    constant: float
    answer: str
    n: int
    where: str  #: How the documents were held out
    part: bool  #: Whether the model that was tested had less than half of the documents
    metric: str  #: {"accuracy", "micro_f1", "mae"}

    @property
    def better(self) -> bool:
        """Whether the model is better than the constant answer by two standard errors of an accuracy."""
        if self.metric == "mae":
            return self.value < self.constant
        return self.value > self.constant + 2 * sqrt(self.constant * (1 - self.constant) / self.n)

    def as_dict(self) -> dict[str, Any]:
        """The quality of the model, to save with it."""
        return {self.metric: self.value, "n": self.n, "held_out": self.where}

    @property
    def sentence(self) -> str:
        """Both figures."""
        where = f"on documents held out of training ({self.where})"
        if self.metric == "mae":
            return f"mean error {self.value:.3g} {where}; always {self.answer}: {self.constant:.3g}"
        name = "right" if self.metric == "accuracy" else "micro F1"
        shares = (f"{100 * share:.1f} %" for share in (self.value, self.constant))
        return "{} {name} {where}; always {answer}: {}".format(
            *shares, name=name, where=where, answer=self.answer
        )


@dataclass(frozen=True)
class TestPredictions:
    """Predictions on training documents by machines that were not trained on them."""

    indices: NDArray[np.int64]  #: Of the documents
    decision: NDArray[np.float64]
    predicted: NDArray[Any]
    where: str  #: How the documents were held out
    part: bool = False  #: Whether the machines had less than half of the documents


def estimate_quality(model: Any, training: Corpus, with_folds: bool) -> TestPredictions | None:
    """Predictions of a quick cross-validation, or on a sample of the documents.

    None if the accuracy is known already or cannot be estimated.

    A kernel chosen by cross-validation has an accuracy, and without folds only the sample is needed.
    """
    machine = fitted_machine(model)
    if isinstance(machine, NoveltySettings) or hasattr(model, "margin_"):
        return None
    chosen = getattr(machine, "held_out_accuracy_", None) is not None
    result = _cross_validated(machine, training) if with_folds and not chosen else None
    labels = corpora.truth(training)
    if result is None and isinstance(machine, ClassifierSettings):
        sample = decide_sample(machine, lambda index: training.subset(index.tolist()).examples, labels)
        if sample is not None:
            trained, tested, decision = sample
            where = f"{len(tested):,} documents, of a model trained on {len(trained):,} of {len(training):,}"
            predicted = machine.predictions(decision, machine.classes_)
            part = 2 * len(trained) < len(training)
            return TestPredictions(tested, decision, predicted, where, part)
    return result


def verdict_of(
    model: Any, training: Corpus, held: Corpus | None, results: Results | None, tested: TestPredictions | None
) -> Verdict | None:
    """From the documents of --holdout, the choice of the kernel, or `estimate_quality`; None without them."""
    truth = corpora.truth(training)
    if results is not None and held is not None:
        return _verdict(results.metrics, truth, corpora.truth(held), f"{results.n:,} documents")
    if accuracy := getattr(fitted_machine(model), "held_out_accuracy_", None):
        n = getattr(model, "n_trials_", 0)  # a calibrated model has another accuracy
        where = "cross-validation" + f", best of {n} kernels and values of C" * (n > 1)
        return _verdict({"accuracy": accuracy}, truth, truth, where)
    if tested is None or (tested.part and len(tested.indices) < ENOUGH):
        return None
    judged = [truth[i] for i in tested.indices.tolist()]
    return _verdict(_metrics(judged, tested.predicted, model), truth, judged, tested.where, tested.part)


def last_line(model: Any, verdict: Verdict | None) -> str:
    """The line: the quality of the model, and the next step."""
    if verdict is None:
        if isinstance(model, NoveltySettings):
            return "next: `textsvm evaluate` on labelled documents tells how good the model is"
        return "next: `textsvm cv` with the same options tells how good the model is on new documents"
    return f"{verdict.sentence}; next: {_next_step(model, verdict)}"


def _metrics(truth: list[Any], predicted: NDArray[Any], model: Any) -> dict[str, float]:
    if isinstance(model, RegressionSettings):
        return {"mae": float(np.abs(np.asarray(truth) - predicted).mean())}
    if predicted.ndim == 2:
        right = np.array([[label in each for label in model.classes_.tolist()] for each in truth])
        return {"micro_f1": float(2 * (right & predicted).sum() / max(1, right.sum() + predicted.sum()))}
    return {"accuracy": float((np.asarray(truth) == predicted).mean())}


def _cross_validated(fitted: Any, training: Corpus) -> TestPredictions | None:
    """Predictions of a few folds; None if they take long, or the documents are too few for folds."""
    # Quick folds have no offsets for macro-F1.
    if len(training) > MOST or getattr(fitted, "scoring", "accuracy") != "accuracy":
        return None
    machine = fitted.copy().set_params(kernel=fitted.kernel_.__sklearn_clone__())
    if isinstance(machine, ClassifierSettings):
        machine.C, machine.loss = fitted.C_, fitted.loss_
    try:
        given, target, weight = read_training_data(
            machine, training.examples, corpora.truth(training), training.weights
        )
        machine.validate(training.examples)  # stores the names of the columns of a table
        folds = Splitting(FOLDS, training.groups, 1, 0, None).quietly(target)
        with machine.at_work(devices.select(machine.device)):
            task = Task(target, weight, folds)
            grams = grams_of(machine, with_classes(machine.encode(given), target), task)
            try:
                if predicted_seconds([machine], grams, task) > SECONDS:
                    return None
                values = train_and_test([machine], grams, task, {}).values[0]
            finally:
                grams.release()
    except InputError:
        return None
    predicted = machine.fold_predictions(values, folds, target)
    tested = np.concatenate([test for _, test in folds])
    where = f"{len(folds)}-fold cross-validation"
    return TestPredictions(tested, np.concatenate(values), np.concatenate(predicted), where)


def _verdict(
    metrics: dict[str, float], known: Sequence[Any], judged: Sequence[Any], where: str, part: bool = False
) -> Verdict:
    """Verdict with the answer that is best for the known targets, whatever the document."""
    metric = next(name for name in ("mae", "micro_f1", "accuracy") if name in metrics)
    n = len(judged)
    if metric == "mae":
        median = float(np.median(known))
        constant = float(np.abs(np.asarray(judged) - median).mean())
        return Verdict(metrics[metric], constant, f"the median {median:g}", n, where, part, metric)
    sets = [[each if isinstance(each, tuple) else (each,) for each in part] for part in (known, judged)]
    label, _ = Counter(label for each in sets[0] for label in each).most_common(1)[0]
    hits = sum(label in each for each in sets[1])
    constant = 2 * hits / (n + sum(map(len, sets[1])))
    return Verdict(metrics[metric], constant, repr(printable(str(label))), n, where, part, metric)


def _next_step(model: Any, verdict: Verdict) -> str:
    if verdict.part:
        return "`textsvm cv` with the same options tells how good the model of all documents is"
    if not verdict.better:
        return "this is no better, so check the columns and labels (`textsvm corpus`), or add documents"
    kernel = getattr(model, "estimator", model).kernel
    if kernel == "fast" and not hasattr(model, "label_form_"):  # several labels have no choice
        return "without --fast a kernel is chosen for these documents"
    if kernel != "auto":
        return "`textsvm tune` tries other kernels and values of C"
    if verdict.value >= GOOD:
        return "`textsvm explain MODEL --top 30` shows what the model looks at"
    return "`textsvm doubts` lists wrong labels, `textsvm cv --learning-curve` tells if more documents help"
