"""Quality of a new model on documents held out of training, beside that of a constant answer.

A model that chose its kernel by cross-validation has an accuracy already. Other models are judged by a quick
cross-validation if that takes few seconds, else a classifier by a model of part of the documents.

A regression is compared with a monotone (isotonic) function of the text length alone (`LengthBaseline`):
scores of essays follow their length closely, and a model that is no better has learnt nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

import numpy as np

from textsvm.arrays import AnyArray, Floats, Ints, Json
from textsvm.errors import InputError, TooMuchWork, printable
from textsvm.evaluation import drift
from textsvm.evaluation.metrics import scores
from textsvm.model.labels import indicator_of
from textsvm.model.rules import NumberRule, Rule
from textsvm.model.settings import CalibrationSettings, ClassifierSettings, NoveltySettings, Settings
from textsvm.model.trained import TrainedModel
from textsvm.readers.corpus import Answers, Corpus
from textsvm.runtime.compiled import scipy
from textsvm.sources.copies import copy_groups, merge_groups, n_copies, n_separated, text_digests
from textsvm.text.pieces import mean_of_pieces
from textsvm.training.fold_grams import FoldTask, decide_folds
from textsvm.training.folds import Splitting, as_groups
from textsvm.training.problems import fold_predictions
from textsvm.training.train import read_training_data

#: Limits of the automatic cross-validation (documents, predicted seconds), and its folds.
MOST, SECONDS, FOLDS = 2000, 0.5, 3
OF_PIECES = 40  #: Factor of the seconds for pieces
ENOUGH = 100  #: Minimum number of documents of a sample whose accuracy is worth a sentence


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
    grouped: bool = False  #: Whether the documents are of groups that the model was not trained on

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
        tested = f"{self.n:,} of {self.total:,} " if self.total > self.n else ""
        groups = "of new groups, " if self.grouped else ""
        where = f"on {tested}documents {groups}held out of training ({self.where})"
        if self.metric == "mae":
            return f"mean error {self.value:.3g} {where}; always {self.answer}: {self.constant:.3g}"
        name = "right" if self.metric == "accuracy" else "micro F1"
        share, constant = (f"{100 * share:.1f} %" for share in (self.value, self.constant))
        return f"{share} {name} {where}; always {self.answer}: {constant}"


def truth_of(corpus: Corpus) -> list[Any]:
    """Numbers or labels of the documents, of a corpus that has them."""
    return list(corpus.targets if corpus.targets is not None else corpus.labels or [])


def estimate_quality(
    settings: Settings | CalibrationSettings, model: TrainedModel, training: Corpus, with_folds: bool
) -> tuple[TestPredictions | None, str]:
    """Predictions of a quick cross-validation, or on a sample; of pieces, on their texts.

    With the reason if memory or time do not suffice for a cross-validation.
    """
    step = -(-len(training) // MOST) if training.piece_of else 1
    training = training.subset(range(0, len(training), step)) if step > 1 else training
    predictions, reason = _estimated(settings, model, training, with_folds)
    if predictions is None or training.piece_of is None:
        return predictions, reason
    numbers, truth = np.array(training.piece_of)[predictions.indices], truth_of(training)
    order, (_, first, texts) = np.argsort(numbers, kind="stable"), np.unique(numbers, True, True)
    decision = mean_of_pieces(predictions.decision[order], texts[order])
    metrics = _metrics([truth[i] for i in predictions.indices.tolist()], predictions.predicted, model.rule)
    (name, value), n = next(iter(metrics.items())), len(numbers)
    total, rows = len(training.first_pieces) if predictions.total else 0, step * predictions.indices[first]
    where = f"{len(first):,} texts, {predictions.where}; {name.replace('_', ' ')} on {n:,} of their pieces"
    return replace(
        predictions, indices=rows, decision=decision, total=total, part=not total,
        predicted=model.rule.predictions(decision), where=f"{where} {value:.3f}",
    ), reason  # fmt: skip


def _estimated(
    settings: Settings | CalibrationSettings, model: TrainedModel, training: Corpus, with_folds: bool
) -> tuple[TestPredictions | None, str]:
    """Predictions of a quick cross-validation, or on a sample of the documents, as `estimate_quality`.

    None if the accuracy is known already or cannot be estimated. A kernel chosen by cross-validation has an
    accuracy, and without folds only the sample is needed.
    """
    if isinstance(settings, CalibrationSettings | NoveltySettings):
        return None, ""
    predictions, reason = None, ""
    if with_folds and model.record.held_out_accuracy is None:
        try:
            predictions = _cross_validated(settings, model, training)
        except TooMuchWork as error:
            reason = str(error).partition(";")[0]
    if predictions is not None or not isinstance(settings, ClassifierSettings):
        return predictions, reason
    truth = truth_of(training)
    sample = drift.decide_sample(
        settings, model, lambda rows: training.subset(rows.tolist()).examples, truth, groups_of(training)
    )
    if sample is None:
        return None, reason
    trained, indices, decision, predicted = sample
    where = f"{len(indices):,} documents, of a model trained on {len(trained):,} of {len(training):,}"
    n, total = len({truth[i] for i in trained.tolist()}), len(set(truth))
    if n < total:
        where += f", with {n:,} of {total:,} classes"
    part = 2 * len(trained) < len(training)
    return TestPredictions(indices, decision, predicted, where, part), reason


def verdict_of(model: TrainedModel, training: Corpus, predictions: TestPredictions | None) -> Verdict | None:
    """From the choice of the kernel or `estimate_quality`; None without both."""
    truth, record = truth_of(training), model.record
    accuracy, n_trials = record.held_out_accuracy, record.n_trials  # of a choice or a calibration
    grouped = training.groups is not None
    if accuracy:
        copies = copies_of(training)
        best = f", best of {n_trials} kernels and values of C" if n_trials > 1 else ""
        best += ", of pieces" * (training.piece_of is not None)
        judged = of_several_texts(truth, merge_groups(groups_of(training), copies))
        verdict = verdict_on(
            {"accuracy": accuracy}, truth, judged, f"cross-validation{best}{_kept_together(n_copies(copies))}"
        )
        return replace(verdict, total=len(truth), distinct=share_distinct(training), grouped=grouped)
    if predictions is None or (predictions.part and len(predictions.indices) < ENOUGH):
        return None
    judged = [truth[i] for i in predictions.indices.tolist()]
    metrics = _metrics(judged, predictions.predicted, model.rule)
    truth = truth_of(training.first_pieces)
    verdict = verdict_on(metrics, truth, judged, predictions.where, predictions.part)
    return replace(verdict, total=predictions.total, distinct=share_distinct(training), grouped=grouped)


def copies_of(corpus: Corpus) -> Ints | None:
    """Group of each document, equal for copies; None without copies."""
    return copy_groups(text_digests(corpus.examples))


def groups_of(corpus: Corpus) -> Ints | None:
    """Group of each document as a number; None without groups."""
    return None if corpus.groups is None else as_groups(corpus.groups, len(corpus))


def share_distinct(corpus: Corpus) -> float:
    """Share of the documents that are no copies; with groups, of groups among the documents."""
    corpus = corpus.first_pieces
    return 1 - n_copies(merge_groups(groups_of(corpus), copies_of(corpus))) / len(corpus)


def of_several_texts(truth: Sequence[object], copies: Ints | None) -> list[Any]:
    """The labels of classes with several different texts: folds test no others."""
    texts = range(len(truth)) if copies is None else copies.tolist()
    n_texts = Counter(label for label, _ in set(zip(truth, texts, strict=True)))
    return [label for label in truth if n_texts[label] > 1]


def _kept_together(n: int) -> str:
    """Part of `Verdict.where` about n copies."""
    return f", {n:,} {'copies' if n > 1 else 'copy'} kept together with the originals" if n else ""


def _metrics(truth: list[Any], predicted: AnyArray, rule: Rule) -> dict[str, float]:
    if isinstance(rule, NumberRule):
        return {"mae": float(np.abs(np.asarray(truth) - predicted).mean())}
    if predicted.ndim == 2:
        places = {label: a for a, label in enumerate(rule.classes.tolist())}
        labels = indicator_of(truth, places, len(places))
        return {"micro_f1": scores(labels, predicted, None, rule.classes, areas=False)["micro_f1"]}
    return {"accuracy": float((np.asarray(truth) == predicted).mean())}


def _cross_validated(settings: Settings, model: TrainedModel, training: Corpus) -> TestPredictions | None:
    """Predictions of a few folds; None if the documents are too few, TooMuchWork if they take long."""
    record, kernel, more = model.record, model.kernel, OF_PIECES if training.piece_of else 1
    assert kernel is not None
    # Quick folds have no offsets for macro-F1.
    if isinstance(settings, ClassifierSettings) and settings.scoring != "accuracy":
        return None
    if len(training) > MOST:
        raise TooMuchWork(f"cross-validation of more than {MOST:,} documents takes long")
    settings = replace(settings, kernel=kernel.__sklearn_clone__(), encoder=None)
    if isinstance(settings, ClassifierSettings) and record.C is not None:
        settings = replace(settings, C=record.C, loss=record.loss)
    try:
        examples, target, weight = read_training_data(
            settings, training.examples, truth_of(training), training.weights, groups=training.groups
        )
        folds = Splitting(FOLDS).quietly(target)
        if n_separated(target.copies, folds):
            return None
        documents = model.support.all_documents(len(training))
        values = decide_folds(settings, examples, FoldTask(target, weight, folds), SECONDS * more, documents)
    except TooMuchWork:
        raise
    except InputError:
        return None
    predicted = fold_predictions(settings, values, folds, target)
    indices = np.concatenate([test for _, test in folds])
    where = f"{len(folds)}-fold cross-validation" + _kept_together(n_copies(target.copies))
    decision = np.concatenate(values)
    return TestPredictions(indices, decision, np.concatenate(predicted), where, total=len(training))


def verdict_on(
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
    said = sum(len(always & {*x, *x.no}) if isinstance(x, Answers) else best for x in judged_sets)
    constant = 2 * hits / (said + sum(map(len, judged_sets)))
    answer = ", ".join(repr(printable(str(label))) for label, _ in ranked[:best])
    return Verdict(metrics[metric], constant, answer, n, where, part, metric)


def symbol_counts(examples: object) -> Floats | None:
    """Number of symbols of each example, summed over all columns of texts; None without texts."""
    columns = examples.values() if isinstance(examples, dict) else [examples]
    texts = [column for column in columns if isinstance(column, Sequence)]
    if not texts:
        return None
    return np.sum([[len(text) for text in column] for column in texts], axis=0, dtype=np.float64)


@dataclass(frozen=True)
class LengthBaseline:
    """Piecewise linear function from text length to the predicted number, constant beyond its ends."""

    lengths: list[float]
    numbers: list[float]

    @classmethod
    def fit(cls, examples: object, numbers: Sequence[float]) -> LengthBaseline | None:
        """Fit to training documents; None without texts."""
        if (lengths := symbol_counts(examples)) is None:
            return None
        values = np.asarray(numbers, np.float64)
        rising = bool((lengths - lengths.mean()) @ (values - values.mean()) >= 0)
        lengths, place, counts = np.unique(lengths, return_inverse=True, return_counts=True)
        means = np.bincount(place, values) / counts
        fitted = scipy.optimize.isotonic_regression(means, weights=counts, increasing=rising).x
        inner = np.zeros(len(lengths), bool)  # inside a run of equal values
        inner[1:-1] = (fitted[1:-1] == fitted[:-2]) & (fitted[1:-1] == fitted[2:])
        return cls(lengths[~inner].tolist(), fitted[~inner].tolist())

    @classmethod
    def of(cls, info: object) -> LengthBaseline | None:
        """The baseline in a model file's information; None if it is missing or damaged."""
        state = info.get("length_baseline") if isinstance(info, dict) else None
        if not isinstance(state, dict) or state.keys() != {"lengths", "numbers"}:
            return None
        try:
            lengths, numbers = (np.asarray(state[name], np.float64) for name in ("lengths", "numbers"))
        except (TypeError, ValueError):
            return None
        fits = lengths.ndim == numbers.ndim == 1 and 0 < len(lengths) == len(numbers)
        return cls(lengths.tolist(), numbers.tolist()) if fits else None

    def judge(self, examples: object, truth: Sequence[float]) -> dict[str, float]:
        """Its metrics on documents; empty without texts."""
        if (lengths := symbol_counts(examples)) is None:
            return {}
        predicted = np.interp(lengths, self.lengths, self.numbers)
        return scores(np.asarray(truth, np.float64), predicted, None, None)
