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
from textsvm.cli.model_files import AnySettings
from textsvm.cli.options import LearningOptions, ReadingOptions
from textsvm.cli.output import Output
from textsvm.errors import InputError, printable, warn_user
from textsvm.evaluation import drift
from textsvm.evaluation.length_baseline import LengthBaseline
from textsvm.evaluation.results import Results
from textsvm.kernels import Kernel
from textsvm.model.rules import NumberRule, Rule
from textsvm.model.settings import (
    CalibrationSettings,
    ClassifierSettings,
    MultilabelSettings,
    NotConvergedWarning,
    NoveltySettings,
    Settings,
)
from textsvm.model.trained import TrainedModel
from textsvm.readers.corpus import Corpus
from textsvm.runtime import device as devices
from textsvm.sources.copies import n_copies, n_separated
from textsvm.training.fold_grams import Task, grams_of, predicted_seconds, train_and_test
from textsvm.training.folds import Splitting
from textsvm.training.problems import fold_predictions
from textsvm.training.targets import with_classes
from textsvm.training.train import read_training_data, train, with_scale

if TYPE_CHECKING:
    from textsvm.cli.task_options import ModelFile, TaskOptions

#: Limits of the automatic cross-validation (documents, predicted seconds), and its folds.
MOST, SECONDS, FOLDS = 2000, 2.0, 3
#: Accuracy that needs no improvement.
GOOD = 0.95
#: Minimum number of documents of a sample whose accuracy is worth a sentence.
ENOUGH = 100


def settings_of(options: ModelOptions, task: TaskOptions, learning: LearningOptions) -> AnySettings:
    """Checked settings that the options describe."""
    solver = None if task.solver is None else task.solver.value
    if task.one_class is not None:
        return estimators.one_class(options, task.nu, solver)
    settings = estimators.single(options, learning, solver)
    if task.calibrate is None or not isinstance(settings, ClassifierSettings):
        return settings
    return CalibrationSettings(settings, method=task.calibrate.value, random_state=task.seed)


def read(
    console: Console, settings: AnySettings, corpus: list[Path], reading: ReadingOptions,
    learning: LearningOptions, options: ModelOptions, file: ModelFile,
) -> tuple[AnySettings, Corpus]:  # fmt: skip
    """Read the documents, and set the kernel that fits them; check that the model can be saved."""
    classifier = model_files.classifier_of(settings)
    if file.without_texts:
        classifier.source.require_weights()
    documents = corpora.read(console, corpus, reading, learning, kernel=classifier.kernel)
    classifier = model_files.settle(console, classifier, options.kernel.named, documents)
    if isinstance(settings, CalibrationSettings):
        assert isinstance(classifier, ClassifierSettings)
        settings = replace(settings, classifier=classifier)
    else:
        settings = classifier
    if file.without_texts:
        classifier.source.require_weights()
    if options.text.max_length is None and classifier.new_kernel().cost.quadratic:
        corpora.say_long_documents(console, documents)
    return settings, documents


@dataclass(frozen=True)
class TestPredictions:
    """Predictions on training documents by machines that were not trained on them."""

    indices: Ints  #: Of the documents
    decision: Floats
    predicted: AnyArray
    where: str  #: How the documents were held out
    part: bool = False  #: Whether the machines had less than half of the documents
    total: int = 0  #: Number of documents of which folds test all but those of classes of a single text


@dataclass(frozen=True)
class Outcome:
    """A model, and the measurements on its training."""

    settings: AnySettings
    model: TrainedModel
    training: Corpus
    test: Corpus | None
    results: Results | None  #: On the held-out documents
    predictions: TestPredictions | None
    drift: Json
    baseline: LengthBaseline | None


def fit(
    console: Console, settings: AnySettings, training: Corpus, test: Corpus | None, positive: str | None
) -> Outcome:
    """Train a model, and measure it on held-out documents or by a quick cross-validation."""
    baseline = None
    if training.targets is not None:
        baseline = LengthBaseline.fit(training.examples, training.targets)
    truth = corpora.truth(training)
    model = train(settings, training.examples, truth, training.weights, console.stage)
    if model.record.unfinished:
        warn_user(model.record.unfinished, NotConvergedWarning)
    predictions = estimate_quality(settings, model, training, with_folds=test is None)
    if predictions is not None and not predictions.part:
        tested = predictions.indices.tolist()
        weights = None if training.weights is None else [training.weights[i] for i in tested]
        model = with_scale(model, predictions.decision, [truth[i] for i in tested], weights)
    facts = drift.record(
        model, len(training), lambda index: training.subset(index.tolist()).examples,
        predictions.decision if predictions and isinstance(settings, ClassifierSettings) else None,
    )  # fmt: skip
    judged = None
    if test is not None:
        from textsvm.cli import results  # loads the reports

        judged = results.judge(model, test, positive, console.stage, baseline=baseline)
    return Outcome(settings, model, training, test, judged, predictions, facts, baseline)


def summarise(console: Console, outcome: Outcome, of_labelling: bool) -> tuple[Json, Verdict | None]:
    """Facts of the training, and the verdict; `of_labelling`: `textsvm label` chose the texts."""
    model, training, test = outcome.model, outcome.training, outcome.test
    summary = model_files.training_facts(model, training) | {"holdout": None}
    if outcome.results is not None and test is not None:
        near = splits.held_out_near_duplicates(console, model, training, test)
        summary["holdout"] = outcome.results.as_dict() | {"near_duplicates": near}
    verdict = _verdict_of(outcome)
    if verdict is not None:
        distinct = 1 - n_copies(splits.copies_of(training)) / len(training)
        verdict = replace(verdict, distinct=distinct)
    if verdict is not None and of_labelling:
        where = f"{verdict.where} of texts chosen by `textsvm label`, difficult ones first"
        verdict = replace(verdict, where=where)
    summary["estimate"] = None if verdict is None or test is not None else verdict.as_dict()
    return summary, verdict


def save(
    console: Console, output: Output, file: ModelFile, outcome: Outcome, reading: ReadingOptions,
    learning: LearningOptions, about: Json,
) -> int:  # fmt: skip
    """Save a model; returns the size in bytes."""
    texts = not file.without_texts
    with console.warnings():
        return model_files.save_model(
            output, outcome.model, outcome.training, reading, learning, about, texts
        )


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
    distinct: float = 1.0  #: Share of the documents that are no copies
    total: int = 0  #: As in `TestPredictions`

    @property
    def better(self) -> bool:
        """Whether the model errs half as often as the constant answer, or less by two standard errors."""
        if self.metric == "mae":
            return self.value < self.constant
        if 1 - self.value <= (1 - self.constant) / 2 and self.constant < 1:
            return True
        n = self.n * self.distinct
        return self.value > self.constant + 2 * sqrt(self.constant * (1 - self.constant) / n)

    def as_dict(self) -> Json:
        """The quality of the model, to save with it."""
        return {self.metric: self.value, "n": self.n, "held_out": self.where}

    @property
    def sentence(self) -> str:
        """Both figures."""
        tested = f"{self.n:,} of {self.total:,} " * (self.total > self.n)
        where = f"on {tested}documents held out of training ({self.where})"
        if self.metric == "mae":
            return f"mean error {self.value:.3g} {where}; always {self.answer}: {self.constant:.3g}"
        name = "right" if self.metric == "accuracy" else "micro F1"
        shares = (f"{100 * share:.1f} %" for share in (self.value, self.constant))
        return "{} {name} {where}; always {answer}: {}".format(
            *shares, name=name, where=where, answer=self.answer
        )


def estimate_quality(
    settings: AnySettings, model: TrainedModel, training: Corpus, with_folds: bool
) -> TestPredictions | None:
    """Predictions of a quick cross-validation, or on a sample of the documents.

    None if the accuracy is known already or cannot be estimated. A kernel chosen by cross-validation has an
    accuracy, and without folds only the sample is needed.
    """
    if isinstance(settings, CalibrationSettings | NoveltySettings):
        return None
    predictions = None
    if with_folds and model.record.held_out_accuracy is None:
        predictions = _cross_validated(settings, model, training)
    if predictions is None and isinstance(settings, ClassifierSettings):
        truth = corpora.truth(training)
        sample = drift.decide_sample(
            settings, model, lambda rows: training.subset(rows.tolist()).examples, truth
        )
        if sample is not None:
            trained, indices, decision, predicted = sample
            where = f"{len(indices):,} documents, of a model trained on {len(trained):,} of {len(training):,}"
            n, total = len({truth[i] for i in trained.tolist()}), len(set(truth))
            where += f", with {n:,} of {total:,} classes" * (n < total)
            part = 2 * len(trained) < len(training)
            return TestPredictions(indices, decision, predicted, where, part)
    return predictions


def _verdict_of(outcome: Outcome) -> Verdict | None:
    """From --holdout, the choice of the kernel, or `estimate_quality`; None without them."""
    truth, test, predictions = corpora.truth(outcome.training), outcome.test, outcome.predictions
    if outcome.results is not None and test is not None:
        where = f"{outcome.results.n:,} documents"
        return _verdict(outcome.results.metrics, truth, corpora.truth(test), where)
    record = outcome.model.record
    accuracy, n_trials = record.held_out_accuracy, record.n_trials  # of a choice or a calibration
    if accuracy:
        where = "cross-validation" + f", best of {n_trials} kernels and values of C" * (n_trials > 1)
        copies = splits.copies_of(outcome.training)
        judged = _of_several_texts(truth, copies)
        verdict = _verdict({"accuracy": accuracy}, truth, judged, where + _kept_together(n_copies(copies)))
        return replace(verdict, total=len(truth))
    if predictions is None or (predictions.part and len(predictions.indices) < ENOUGH):
        return None
    judged = [truth[i] for i in predictions.indices.tolist()]
    metrics = _metrics(judged, predictions.predicted, outcome.model.rule)
    verdict = _verdict(metrics, truth, judged, predictions.where, predictions.part)
    return replace(verdict, total=predictions.total)


def _of_several_texts(truth: Sequence[Any], copies: Ints | None) -> list[Any]:
    """The labels of classes with several different texts: folds test no others."""
    texts = range(len(truth)) if copies is None else copies.tolist()
    n_texts = Counter(label for label, _ in set(zip(truth, texts, strict=True)))
    return [label for label in truth if n_texts[label] > 1]


def _kept_together(n: int) -> str:
    """Part of `Verdict.where` about n copies."""
    return f", {n:,} {'copies' if n > 1 else 'copy'} kept together with the originals" if n else ""


def last_line(settings: AnySettings, training: Corpus, verdict: Verdict | None, doubtful: bool) -> str:
    """The line: the quality of the model, and the next step; `doubtful`: a warning names labels."""
    if doubtful:
        step = "next: check the labels that the warning names, for the figures depend on them"
        return step if verdict is None else f"{verdict.sentence}; {step}"
    if verdict is None:
        if isinstance(settings, NoveltySettings):
            return "next: `textsvm evaluate` on labelled documents tells how good the model is"
        several = _of_several_texts(corpora.truth(training), splits.copies_of(training))
        if isinstance(settings, ClassifierSettings) and not several:
            return "not tested, for no class has two different texts; next: add documents to the classes"
        return "next: `textsvm cv` with the same options tells how good the model is on new documents"
    return f"{verdict.sentence}; next: {_next_step(settings, verdict)}"


def _metrics(truth: list[Any], predicted: AnyArray, rule: Rule) -> dict[str, float]:
    if isinstance(rule, NumberRule):
        return {"mae": float(np.abs(np.asarray(truth) - predicted).mean())}
    if predicted.ndim == 2:
        right = np.array([[label in labels for label in rule.classes.tolist()] for labels in truth])
        return {"micro_f1": float(2 * (right & predicted).sum() / max(1, right.sum() + predicted.sum()))}
    return {"accuracy": float((np.asarray(truth) == predicted).mean())}


def _cross_validated(settings: Settings, model: TrainedModel, training: Corpus) -> TestPredictions | None:
    """Predictions of a few folds; None if they take long, or the documents are too few for folds."""
    record, kernel = model.record, model.kernel
    assert kernel is not None
    # Quick folds have no offsets for macro-F1.
    if len(training) > MOST or (isinstance(settings, ClassifierSettings) and settings.scoring != "accuracy"):
        return None
    settings = replace(settings, kernel=kernel.__sklearn_clone__())
    if isinstance(settings, ClassifierSettings) and record.C is not None:
        settings = replace(settings, C=record.C, loss=record.loss)
    try:
        examples, target, weight = read_training_data(
            settings, training.examples, corpora.truth(training), training.weights
        )
        folds = Splitting(FOLDS, training.groups, 1, 0, None).quietly(target)
        if n_separated(target.copies, folds):
            return None
        with settings.at_work(devices.select(settings.device)):
            task = Task(target, weight, folds)
            grams = grams_of(settings, with_classes(settings.source.encode(examples), target), task)
            try:
                if predicted_seconds([settings], grams, task) > SECONDS:
                    return None
                values = train_and_test([settings], grams, task, {}).values[0]
            finally:
                grams.release()
    except InputError:
        return None
    predicted = fold_predictions(settings, values, folds, target)
    indices = np.concatenate([test for _, test in folds])
    where = f"{len(folds)}-fold cross-validation" + _kept_together(n_copies(target.copies))
    decision = np.concatenate(values)
    return TestPredictions(indices, decision, np.concatenate(predicted), where, total=len(training))


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
    ranked = Counter(label for labels in sets for label in labels).most_common()
    total, best = sum(count for _, count in ranked), 1
    if metric == "micro_f1":  # several labels may be better than the commonest
        sums = np.cumsum([count for _, count in ranked])
        best = 1 + int((sums / (len(sets) * np.arange(1, len(ranked) + 1) + total)).argmax())
    always = {label for label, _ in ranked[:best]}
    hits = sum(len(always.intersection(labels)) for labels in judged_sets)
    constant = 2 * hits / (n * best + sum(map(len, judged_sets)))
    answer = ", ".join(repr(printable(str(label))) for label, _ in ranked[:best])
    return Verdict(metrics[metric], constant, answer, n, where, part, metric)


def _next_step(settings: AnySettings, verdict: Verdict) -> str:
    if verdict.part:
        return "`textsvm cv` with the same options tells how good the model of all documents is"
    kernel = model_files.classifier_of(settings).kernel
    if not verdict.better:
        if verdict.metric != "mae" and verdict.constant >= 0.9:  # accuracy says little
            return f"`textsvm cv` shows macro F1, for nearly all labels are {verdict.answer}; add others"
        ahead = verdict.value - verdict.constant
        if ahead < 0 if verdict.metric == "mae" else ahead > 0:
            return "this may be chance, so add documents, or check the columns and labels (`textsvm corpus`)"
        return "this is no better, so check the columns and labels (`textsvm corpus`), or add documents"
    if verdict.metric != "mae" and verdict.value >= GOOD:
        if isinstance(kernel, Kernel) and kernel.examples == "vectors":
            return "`textsvm predict MODEL FILE` classifies new documents"
        return "`textsvm explain MODEL --top 30` shows what the model looks at"
    if kernel == "fast" and not isinstance(settings, MultilabelSettings):  # several labels have no choice
        return "without --kernel fast a kernel is chosen for these documents"
    if kernel != "auto":
        return "`textsvm tune` tries other kernels and values of C"
    return "`textsvm doubts` lists wrong labels, `textsvm cv --learning-curve` tells if more documents help"
