"""Train a model for a command, and judge it: the work of `textsvm train`.

The last line of `train` has the quality on documents held out of training, that of a constant answer, and the
next step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from textsvm.arrays import AnyArray, Floats, Ints, Json
from textsvm.cli import corpora, estimators, model_files, splits
from textsvm.cli.console import Console
from textsvm.cli.machines import ModelOptions
from textsvm.cli.model_files import Abilities, Model, held_out_accuracy
from textsvm.cli.options import LearningOptions, ReadingOptions
from textsvm.cli.output import Output
from textsvm.errors import InputError, printable
from textsvm.evaluation import drift
from textsvm.evaluation.length_baseline import LengthBaseline
from textsvm.evaluation.results import Results
from textsvm.machines.base import KernelMachine
from textsvm.machines.classifier import Classifier
from textsvm.machines.novelty import NoveltyDetector
from textsvm.machines.regressor import Regressor
from textsvm.machines.targets import with_classes
from textsvm.model.file import require_weights
from textsvm.model.libsvm import require_libsvms, save_libsvm_model
from textsvm.readers.corpus import Corpus
from textsvm.runtime import device as devices
from textsvm.selection.adaptation import AdaptiveClassifier
from textsvm.selection.calibration import CalibratedClassifier
from textsvm.selection.fold_grams import Task, grams_of, predicted_seconds, train_and_test
from textsvm.selection.folds import Splitting
from textsvm.selection.scoring import read_training_data

if TYPE_CHECKING:
    from textsvm.cli.train import ModelFile, TaskOptions

#: Limits of the automatic cross-validation (documents, predicted seconds), and its folds.
MOST, SECONDS, FOLDS = 2000, 2.0, 3
#: Accuracy that needs no improvement.
GOOD = 0.95
#: Minimum number of documents of a sample whose accuracy is worth a sentence.
ENOUGH = 100


def estimator_of(options: ModelOptions, task: TaskOptions, learning: LearningOptions) -> Model:
    """Checked estimator that the options describe."""
    solver = None if task.solver is None else task.solver.value
    if task.one_class is not None:
        return estimators.one_class(options, task.nu, solver)
    machine: Model = estimators.single(options, learning, solver)
    if task.calibrate is None:
        return machine
    return CalibratedClassifier(machine, method=task.calibrate.value, random_state=task.seed)


def read(
    console: Console, model: Model, corpus: list[Path], reading: ReadingOptions, learning: LearningOptions,
    options: ModelOptions, file: ModelFile,
) -> Corpus:  # fmt: skip
    """Read the documents, set the kernel that fits them, and check that the model can be saved."""
    machine = model_files.unfitted_machine(model)
    if file.without_texts:
        require_weights(model)
    documents = corpora.read(console, corpus, reading, learning, kernel=machine.kernel)
    model_files.settle(console, model, options.kernel.named, documents)
    if file.without_texts:
        require_weights(model)
    if file.libsvm:
        require_libsvms(machine.kernel)
    if options.text.max_length is None and machine.new_kernel().cost.quadratic:
        corpora.say_long_documents(console, documents)
    return documents


@dataclass(frozen=True)
class TestPredictions:
    """Predictions on training documents by machines that were not trained on them."""

    indices: Ints  #: Of the documents
    decision: Floats
    predicted: AnyArray
    where: str  #: How the documents were held out
    part: bool = False  #: Whether the machines had less than half of the documents


@dataclass(frozen=True)
class Outcome:
    """A fitted model, and what was measured with it."""

    model: Model
    training: Corpus
    test: Corpus | None
    results: Results | None  #: On the held-out documents
    predictions: TestPredictions | None
    drift: Json
    baseline: LengthBaseline | None


def fit(
    console: Console, model: Model, training: Corpus, test: Corpus | None, positive: str | None
) -> Outcome:
    """Fit a model, and measure it on held-out documents or by a quick cross-validation."""
    baseline = None
    if training.targets is not None:
        baseline = LengthBaseline.fit(training.examples, training.targets)
    truth = corpora.truth(training)
    model.fit(training.examples, truth, sample_weight=training.weights, progress=console.stage)
    predictions = estimate_quality(model, training, with_folds=test is None)
    facts = drift.record(
        model, len(training), lambda index: training.subset(index.tolist()).examples,
        predictions.decision if predictions is not None and isinstance(model, Classifier) else None,
    )  # fmt: skip
    judged = None
    if test is not None:
        from textsvm.cli import results  # loads the reports

        judged = results.judge(model, test, positive, console.stage, baseline=baseline)
    return Outcome(model, training, test, judged, predictions, facts, baseline)


def summarise(console: Console, outcome: Outcome, of_labelling: bool) -> tuple[Json, Verdict | None]:
    """Facts of the training, and the verdict; `of_labelling`: `textsvm label` chose the texts."""
    model, training, test = outcome.model, outcome.training, outcome.test
    summary = model_files.training_facts(model, training) | {"holdout": None}
    if outcome.results is not None and test is not None:
        near = splits.held_out_near_duplicates(console, model, training, test)
        summary["holdout"] = outcome.results.as_dict() | {"near_duplicates": near}
    verdict = _verdict_of(outcome)
    if verdict is not None and of_labelling:
        where = f"{verdict.where} of texts chosen by `textsvm label`, difficult ones first"
        verdict = replace(verdict, where=where)
    summary["estimate"] = None if verdict is None or test is not None else verdict.as_dict()
    return summary, verdict


def save(
    console: Console, output: Output, file: ModelFile, outcome: Outcome, reading: ReadingOptions,
    learning: LearningOptions, about: Json,
) -> int:  # fmt: skip
    """Save a model in the format of the options; returns the size in bytes."""
    with console.warnings():
        if not file.libsvm:
            texts = not file.without_texts
            return model_files.save_model(
                output, outcome.model, outcome.training, reading, learning, about, texts
            )
        with output.place() as path:
            save_libsvm_model(outcome.model, path)
            return path.stat().st_size


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

    def as_dict(self) -> Json:
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


def estimate_quality(model: Model, training: Corpus, with_folds: bool) -> TestPredictions | None:
    """Predictions of a quick cross-validation, or on a sample of the documents.

    None if the accuracy is known already or cannot be estimated. A kernel chosen by cross-validation has an
    accuracy, and without folds only the sample is needed.
    """
    if not isinstance(model, KernelMachine) or isinstance(model, NoveltyDetector):  # calibrated or one class
        return None
    predictions = None
    if with_folds and held_out_accuracy(model)[0] is None:
        predictions = _cross_validated(model, training)
    if predictions is None and isinstance(model, Classifier):
        truth = corpora.truth(training)
        sample = drift.decide_sample(model, lambda index: training.subset(index.tolist()).examples, truth)
        if sample is not None:
            trained, indices, decision = sample
            where = f"{len(indices):,} documents, of a model trained on {len(trained):,} of {len(training):,}"
            predicted = model.predictions(decision, model.classes_)
            part = 2 * len(trained) < len(training)
            return TestPredictions(indices, decision, predicted, where, part)
    return predictions


def _verdict_of(outcome: Outcome) -> Verdict | None:
    """From --holdout, the choice of the kernel, or `estimate_quality`; None without them."""
    truth, test, predictions = corpora.truth(outcome.training), outcome.test, outcome.predictions
    if outcome.results is not None and test is not None:
        where = f"{outcome.results.n:,} documents"
        return _verdict(outcome.results.metrics, truth, corpora.truth(test), where)
    accuracy, n_trials = held_out_accuracy(outcome.model)  # a calibrated model has another accuracy
    if accuracy:
        where = "cross-validation" + f", best of {n_trials} kernels and values of C" * (n_trials > 1)
        return _verdict({"accuracy": accuracy}, truth, truth, where)
    if predictions is None or (predictions.part and len(predictions.indices) < ENOUGH):
        return None
    judged = [truth[i] for i in predictions.indices.tolist()]
    metrics = _metrics(judged, predictions.predicted, outcome.model)
    return _verdict(metrics, truth, judged, predictions.where, predictions.part)


def last_line(model: Model, verdict: Verdict | None) -> str:
    """The line: the quality of the model, and the next step."""
    if verdict is None:
        if isinstance(model, NoveltyDetector):
            return "next: `textsvm evaluate` on labelled documents tells how good the model is"
        return "next: `textsvm cv` with the same options tells how good the model is on new documents"
    return f"{verdict.sentence}; next: {_next_step(model, verdict)}"


def _metrics(truth: list[Any], predicted: AnyArray, model: KernelMachine) -> dict[str, float]:
    if isinstance(model, Regressor):
        return {"mae": float(np.abs(np.asarray(truth) - predicted).mean())}
    if predicted.ndim == 2:
        right = np.array([[label in labels for label in model.classes_.tolist()] for labels in truth])
        return {"micro_f1": float(2 * (right & predicted).sum() / max(1, right.sum() + predicted.sum()))}
    return {"accuracy": float((np.asarray(truth) == predicted).mean())}


def _cross_validated(fitted: Model, training: Corpus) -> TestPredictions | None:
    """Predictions of a few folds; None if they take long, or the documents are too few for folds."""
    # Quick folds have no offsets for macro-F1.
    if len(training) > MOST or (isinstance(fitted, AdaptiveClassifier) and fitted.scoring != "accuracy"):
        return None
    machine = fitted.copy().set_params(kernel=fitted.kernel_.__sklearn_clone__())
    if isinstance(machine, Classifier):
        machine.C, machine.loss = fitted.C_, fitted.loss_
    try:
        examples, target, weight = read_training_data(
            machine, training.examples, corpora.truth(training), training.weights
        )
        machine.validate(training.examples)  # stores the names of the columns of a table
        folds = Splitting(FOLDS, training.groups, 1, 0, None).quietly(target)
        with machine.at_work(devices.select(machine.device)):
            task = Task(target, weight, folds)
            grams = grams_of(machine, with_classes(machine.encode(examples), target), task)
            try:
                if predicted_seconds([machine], grams, task) > SECONDS:
                    return None
                values = train_and_test([machine], grams, task, {}).values[0]
            finally:
                grams.release()
    except InputError:
        return None
    predicted = machine.fold_predictions(values, folds, target)
    indices = np.concatenate([test for _, test in folds])
    where = f"{len(folds)}-fold cross-validation"
    return TestPredictions(indices, np.concatenate(values), np.concatenate(predicted), where)


def _verdict(
    metrics: dict[str, float], truth: Sequence[Any], judged: Sequence[Any], where: str, part: bool = False
) -> Verdict:
    """Verdict with the answer that is best for the targets of training, whatever the document."""
    metric = next(name for name in ("mae", "micro_f1", "accuracy") if name in metrics)
    n = len(judged)
    if metric == "mae":
        median = float(np.median(truth))
        constant = float(np.abs(np.asarray(judged) - median).mean())
        return Verdict(metrics[metric], constant, f"the median {median:g}", n, where, part, metric)
    sets, judged_sets = (
        [labels if isinstance(labels, tuple) else (labels,) for labels in part] for part in (truth, judged)
    )
    label, _ = Counter(label for labels in sets for label in labels).most_common(1)[0]
    hits = sum(label in labels for labels in judged_sets)
    constant = 2 * hits / (n + sum(map(len, judged_sets)))
    return Verdict(metrics[metric], constant, repr(printable(str(label))), n, where, part, metric)


def _next_step(model: Model, verdict: Verdict) -> str:
    if verdict.part:
        return "`textsvm cv` with the same options tells how good the model of all documents is"
    if not verdict.better:
        return "this is no better, so check the columns and labels (`textsvm corpus`), or add documents"
    kernel = model_files.unfitted_machine(model).kernel
    if kernel == "fast" and not Abilities.of(model).multilabel:  # several labels have no choice
        return "without --kernel fast a kernel is chosen for these documents"
    if kernel != "auto":
        return "`textsvm tune` tries other kernels and values of C"
    if verdict.value >= GOOD:
        return "`textsvm explain MODEL --top 30` shows what the model looks at"
    return "`textsvm doubts` lists wrong labels, `textsvm cv --learning-curve` tells if more documents help"
