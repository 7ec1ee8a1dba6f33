"""Labels or numbers, and what a model says of them -> one results object."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import metrics

from textsvm.errors import InputError
from textsvm.evaluation import multilabel
from textsvm.evaluation.bootstrap import intervals
from textsvm.evaluation.metrics import as_grades, check_grades, grades_of, scores
from textsvm.evaluation.precision_recall import average_precisions, of_each
from textsvm.machines.labels import label_sets
from textsvm.runtime.plain_json import to_json


@dataclass(frozen=True)
class Results:
    """How well a model did on documents whose labels or numbers are known.

    Attributes
    ----------
    task : {"binary", "multiclass", "multilabel", "regression"}
    n : int
    labels : list
        The classes, with two the negative one first; rows (truth) and columns (prediction) of `confusion`.
        Empty for regression.
    metrics : dict of str -> float
        See `scores`; `log_loss`, and with two classes `brier`, where there are probabilities. Those of two
        classes can be had as attributes too: ``results.accuracy``.
    confusion : list of list of int
        Empty where documents may have several labels.
    per_class : list of dict
        "label", "precision", "recall", "f1", "average_precision", "support" (true ones), "predicted"; where
        documents may have several labels "break_even" and "threshold" too, see
        `textsvm.evaluation.multilabel`.
    index : int64 array, shape (n,)
        Which of the given documents are judged; see `warnings` for the others.
    truth, predicted : array, shape (n,)
        Several labels a document: bool arrays of shape (n, n_classes).
    decision : float64 array, shape (n,) or (n, n_classes)
        In the order of `labels`; the predicted numbers for regression.
    probability : float64 array of the same shape, optional
    grades : (int, int), optional
        As given.
    intervals : dict of str -> (float, float)
        Bounds of the metrics, see `with_intervals`.
    warnings : list of str
        What makes the figures doubtful.
    seconds : dict
        Wall time of the stages that led here.
    sets : list of dict
        Of a calibrated classifier, for some coverages "promised" of its prediction sets: the "coverage" of
        these documents, the "mean_size" of their sets, and the share of sets of a "single" class.
    rejected : dict
        Its share of documents "unlike" every class, where at most "allowed" of the classes' may be.
    length_alone : dict
        Regression: metrics of what the lengths of the texts alone predict, see
        `textsvm.evaluation.length_baseline`; empty where that is not known.
    """

    task: str
    n: int
    labels: list[Any]
    metrics: dict[str, float]
    confusion: list[list[int]]
    per_class: list[dict[str, Any]]
    index: NDArray[np.int64] = field(repr=False)
    truth: NDArray[Any] = field(repr=False)
    predicted: NDArray[Any] = field(repr=False)
    decision: NDArray[np.float64] = field(repr=False)
    probability: NDArray[np.float64] | None = field(default=None, repr=False)
    grades: tuple[int, int] | None = None
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    sets: list[dict[str, float]] = field(default_factory=list)
    rejected: dict[str, float] = field(default_factory=dict)
    length_alone: dict[str, float] = field(default_factory=dict)

    @property
    def accuracy(self) -> float:
        return self.metrics["accuracy"]

    @property
    def precision(self) -> float:
        return self.metrics["precision"]

    @property
    def recall(self) -> float:
        return self.metrics["recall"]

    @property
    def f1(self) -> float:
        return self.metrics["f1"]

    @property
    def macro_f1(self) -> float:
        return self.metrics["macro_f1"]

    @property
    def roc_auc(self) -> float | None:
        return to_json(self.metrics["roc_auc"])

    @property
    def average_precision(self) -> float | None:
        return to_json(self.metrics["average_precision"])

    @property
    def span(self) -> tuple[int, int] | None:
        """The grades that the quadratic weighted kappa is of; None if it is not defined."""
        if "qwk" not in self.metrics:
            return None
        if self.task == "regression":
            return grades_of(self.truth, self.grades)
        values = as_grades(np.asarray(self.labels))
        assert values is not None
        return self.grades or (int(values.min()), int(values.max()))

    def labels_of(self, i: int) -> tuple[Any, Any]:
        """Truth and prediction of a document, as people write them."""
        if self.task != "multilabel":
            return self.truth[i], self.predicted[i]
        sets = label_sets(np.stack([self.truth[i], self.predicted[i]]), np.array(self.labels))
        true, said = (", ".join(map(str, each)) or "nothing" for each in sets)
        return true, said

    def with_intervals(self, resamples: int = 1000, level: float = 0.95, seed: int = 0) -> Results:
        """The same with percentile bootstrap intervals of all metrics, see `textsvm.evaluation.bootstrap`."""
        return replace(self, intervals=intervals(self, resamples, level, seed))

    def as_dict(self) -> dict[str, Any]:
        """JSON values; those of single documents are left out."""
        return to_json(
            {
                "task": self.task,
                "n": self.n,
                "labels": self.labels,
                **self.metrics,
                "per_class": self.per_class,
                "confusion": self.confusion,
                "intervals": self.intervals,
                "sets": self.sets,
                "rejected": self.rejected,
                "warnings": self.warnings,
                "seconds": self.seconds,
                **({"length_alone": self.length_alone} if self.length_alone else {}),
            }
        )


def evaluate(
    truth: Sequence[Any],
    predicted: ArrayLike,
    decision: NDArray[np.float64],
    classes: NDArray[Any] | None,
    *,
    positive: Any = None,
    probability: NDArray[np.float64] | None = None,
    grades: tuple[int, int] | None = None,
) -> Results:
    """Judge predictions.

    Parameters
    ----------
    truth : sequence of labels or numbers, length n
    predicted : array-like, shape (n,)
    decision : float64 array, shape (n,) or (n, n_classes)
        As `decision_function` gives it; the predicted numbers for regression.
    classes : array, shape (n_classes,), sorted; or None
        None means regression.
    positive : label, optional
        Of two classes the one to be found; ``classes[1]`` if not given.
    probability : float64 array, shape (n, n_classes), optional
    grades : (int, int), optional
        See `scores`.

    Raises
    ------
    InputError
        If there are no documents, or the model knows none of the labels.
    """
    check_grades(grades)
    if len(truth) == 0:
        raise InputError("there are no labelled documents to evaluate on")
    predicted = np.asarray(predicted)
    if classes is None:
        numbers = np.asarray(truth, np.float64)
        found = scores(numbers, predicted, None, None, grades)
        everyone = np.arange(len(numbers))
        return Results("regression", len(numbers), [], found, [], [], everyone, numbers, predicted, predicted,
                       grades=grades)  # fmt: skip
    known, values, warnings = _known(truth, classes)
    predicted, decision = predicted[known], decision[known]
    probability = None if probability is None else probability[known]
    found = scores(values, predicted, decision, classes, grades, positive=positive)
    if probability is not None:
        found["log_loss"] = _log_loss(np.searchsorted(classes, values), probability)
    order = classes
    if len(classes) == 2:
        if positive is not None and positive not in classes[1:].tolist():
            order, decision = classes[::-1], -decision
        if probability is not None:
            probability = probability[:, classes.tolist().index(order[1])]
            found["brier"] = float(np.mean((probability - (values == order[1])) ** 2))
    confusion = metrics.confusion_matrix(values, predicted, labels=order)
    return Results(
        task="binary" if len(classes) == 2 else "multiclass",
        n=len(values),
        labels=order.tolist(),
        metrics=found,
        confusion=confusion.tolist(),
        per_class=_per_class(confusion, order, _average_precisions(values, decision, order)),
        index=known,
        truth=values,
        predicted=predicted,
        decision=decision,
        probability=probability,
        grades=grades,
        warnings=warnings,
    )


def evaluate_labels(
    truth: Any,
    predicted: NDArray[np.bool_],
    decision: NDArray[np.float64],
    classes: NDArray[Any],
    thresholds: NDArray[np.float64],
) -> Results:
    """Judge predictions of several labels a document.

    Parameters
    ----------
    truth : sequence of n tuples of labels, or bool array, shape (n, n_classes)
        Labels that are none of the classes are left out of all figures, with a warning.
    predicted : bool array, shape (n, n_classes)
    decision : float64 array, shape (n, n_classes)
    classes : array, shape (n_classes,)
    thresholds : float64 array, shape (n_classes,)

    Raises
    ------
    InputError
        If there are no documents, or the model knows none of the labels.
    """
    if len(truth) == 0:
        raise InputError("there are no labelled documents to evaluate on")
    indicator, warnings = _known_labels(truth, classes)
    return Results(
        task="multilabel",
        n=len(indicator),
        labels=classes.tolist(),
        metrics=multilabel.scores(indicator, predicted, decision, classes),
        confusion=[],
        per_class=multilabel.per_class(indicator, predicted, decision, classes, thresholds),
        index=np.arange(len(indicator)),
        truth=indicator,
        predicted=predicted,
        decision=decision,
        warnings=warnings,
    )


def _known_labels(truth: Any, classes: NDArray[Any]) -> tuple[NDArray[np.bool_], list[str]]:
    """Which classes documents have, and a sentence about labels that are none."""
    if isinstance(truth, np.ndarray) and truth.ndim == 2:
        return truth.astype(bool), []
    # What is a number in a model may be its digits in a file.
    places: dict[Any, int] = {str(label): a for a, label in enumerate(classes.tolist())}
    places |= {label: a for a, label in enumerate(classes.tolist())}
    indicator = np.zeros((len(truth), len(classes)), bool)
    strange: set[str] = set()
    for row, labels in zip(indicator, truth, strict=True):
        row[[places[label] for label in labels if label in places]] = True
        strange.update(str(label) for label in labels if label not in places)
    if strange and not indicator.any():
        raise InputError(
            f"the model knows the labels {_shown(classes)}, and the documents have {_shown(sorted(strange))}"
        )
    if not strange:
        return indicator, []
    return indicator, [
        f"{len(strange)} of the documents' labels are not known to the model ({_shown(sorted(strange))}) and "
        "are left out of all figures"
    ]


def _known(truth: Sequence[Any], classes: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[Any], list[str]]:
    """The documents whose label the model knows, their labels, and a sentence about the others."""
    # What is a number in a model may be its digits in a file.
    same: dict[Any, int] = {str(label): a for a, label in enumerate(classes.tolist())}
    same |= {label: a for a, label in enumerate(classes.tolist())}
    codes = np.array([same.get(label, -1) for label in truth])
    known = np.flatnonzero(codes >= 0)
    strange = _shown(sorted({str(truth[i]) for i in np.flatnonzero(codes < 0).tolist()}))
    if not len(known):
        raise InputError(f"the model knows the labels {_shown(classes)}, and the documents have {strange}")
    warnings = []
    if left := len(truth) - len(known):
        warnings.append(
            f"{left:,} of {len(truth):,} documents have labels that the model does not know ({strange}; it "
            f"knows {_shown(classes)}) and are left out of all figures"
        )
    return known, classes[codes[known]], warnings


def _shown(labels: Sequence[Any] | NDArray[Any]) -> str:
    return ", ".join(map(str, labels[:5])) + (", ..." if len(labels) > 5 else "")


def _average_precisions(
    truth: NDArray[Any], decision: NDArray[np.float64], labels: NDArray[Any]
) -> NDArray[np.float64]:
    """Of each class, NaN where its values are not finite."""
    if not np.all(np.isfinite(decision)):
        return np.full(len(labels), np.nan)
    places = {label: a for a, label in enumerate(labels.tolist())}
    true = np.array([places[label] for label in truth.tolist()])
    return average_precisions(*of_each(true, decision))


def _per_class(
    confusion: NDArray[np.int64], labels: NDArray[Any], areas: NDArray[np.float64]
) -> list[dict[str, Any]]:
    hits, support, said = np.diag(confusion), confusion.sum(1), confusion.sum(0)
    return [
        {
            "label": label,
            "precision": float(hit / max(predicted, 1)),
            "recall": float(hit / max(true, 1)),
            "f1": float(2 * hit / max(predicted + true, 1)),
            "average_precision": float(area),
            "support": int(true),
            "predicted": int(predicted),
        }
        for label, hit, true, predicted, area in zip(labels.tolist(), hits, support, said, areas, strict=True)
    ]


def _log_loss(true: NDArray[np.int64], probability: NDArray[np.float64]) -> float:
    return float(metrics.log_loss(true, probability, labels=np.arange(probability.shape[1])))
