"""Results: how well predictions fit known labels or numbers, with intervals.

Intervals of shares of documents are Clopper and Pearson's (1934), valid for few documents and for shares of
0 and 1. So are those of the F1 of a class, 2 g / (1 + g) for the share g of hits among hits and errors.
Others are from the percentile bootstrap (Efron 1979): a resample draws n of the n documents with replacement,
and is a row of counts, so all metrics follow from weighted sums (`textsvm.evaluation.metrics`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from textsvm.arrays import AnyArray, Bools, Floats, Ints, Json
from textsvm.errors import InputError, first_few
from textsvm.evaluation.metrics import (
    MOST_GRADES,
    average_precisions,
    break_even,
    class_metrics,
    class_table,
    grades_of,
    label_metrics,
    number_metrics,
    one_against_rest,
    scores,
)
from textsvm.model.labels import indicator_of, label_sets, read_labels
from textsvm.runtime.compiled import scipy
from textsvm.runtime.parameters import with_short_repr
from textsvm.runtime.plain_json import to_json

BLOCK = 1 << 22  #: Counts of resamples in memory at a time
#: Most decision values for intervals of areas under curves, which rank them in every resample.
MOST_RANKED = 2_000_000


def _metric(name: str) -> Any:
    """Attribute of a metric; None if it is undefined."""
    return property(lambda self: to_json(self.metrics[name]))


@with_short_repr
@dataclass(frozen=True)
class Results:
    """How well a model did on documents whose labels or numbers are known."""

    task: str  #: {"binary", "multiclass", "multilabel", "regression"}
    n: int
    #: Classes in the order of rows (truth) and columns (prediction) of `confusion`; the negative before the
    #: positive. Empty for regression.
    labels: list[Any]
    #: `textsvm.evaluation.metrics` describes them; `log_loss` and for two classes `brier` need probabilities.
    #: Common metrics are attributes as well: ``results.accuracy``.
    metrics: dict[str, float] = field(default_factory=dict, kw_only=True)
    #: Empty for several labels per document.
    confusion: list[list[int]] = field(default_factory=list, kw_only=True)
    #: "label", "precision", "recall", "f1", "average_precision", "support" (true documents) and "predicted";
    #: for several labels per document also "break_even" and "threshold".
    per_class: list[Json] = field(default_factory=list, kw_only=True)
    #: shape (n,): Indices of the judged documents among the given documents; `warnings` explains the others.
    index: Ints = field(repr=False)
    #: array, shape (n,); for several labels per document indicator matrices of shape (n, n_classes), NaN in
    #: `truth` and False in `predicted` if a label is unknown.
    truth: AnyArray = field(repr=False)
    predicted: AnyArray = field(repr=False)
    #: shape (n,) or (n, n_classes): In the order of `labels`; the predicted numbers for regression.
    decision: Floats = field(repr=False)
    probability: Floats | None = field(default=None, repr=False)  #: float64 array of the same shape
    grades: tuple[int, int] | None = None  #: As given
    #: Bounds of the metrics, from `with_intervals`.
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)  #: Reasons to doubt the figures
    seconds: dict[str, float] = field(default_factory=dict)  #: Wall time of each stage
    #: Of a calibrated classifier, for some coverages "promised" by prediction sets: the "coverage" of these
    #: documents, the "mean_size" of their sets, and the share of sets with a "single" class.
    sets: list[dict[str, float]] = field(default_factory=list)
    #: Of a calibrated classifier: the share of documents "unlike" every class, where at most the share
    #: "allowed" of documents of the classes should be.
    rejected: dict[str, float] = field(default_factory=dict)
    #: Regression: metrics of a prediction from text lengths alone (`LengthBaseline`); empty if unknown.
    length_alone: dict[str, float] = field(default_factory=dict)

    accuracy = _metric("accuracy")
    precision = _metric("precision")
    recall = _metric("recall")
    f1 = _metric("f1")
    macro_f1 = _metric("macro_f1")
    roc_auc = _metric("roc_auc")
    average_precision = _metric("average_precision")

    @property
    def span(self) -> tuple[int, int] | None:
        """Range of grades of the quadratic weighted kappa; None if it is not defined."""
        if "qwk" not in self.metrics:
            return None
        return grades_of(self.truth if self.task == "regression" else np.asarray(self.labels), self.grades)

    @property
    def wrong(self) -> Bools:
        """Which predictions are wrong, or with several labels not entirely right, shape (n,)."""
        several = self.task == "multilabel"
        wrong: Bools = np.asarray(self.predicted != (self.truth == 1 if several else self.truth))
        return np.asarray(wrong.any(axis=1)) if several else wrong

    @property
    def levels(self) -> list[Json]:
        """Figures of each level of labels such as "A > B"; empty unless all labels have that form."""
        paths, rows = [str(label).split(">") for label in self.labels], list[Json]()
        hierarchy = paths and all(len(path) > 1 and all(map(str.strip, path)) for path in paths)
        for level in range(1, 1 + max(map(len, paths)) if hierarchy else 1):
            names = [" > ".join(map(str.strip, path[:level])) for path in paths]
            classes, codes = np.unique(names, return_inverse=True)
            if self.task == "multilabel":
                below = codes[:, None] == np.arange(len(classes))
                yes, predicted = (self.truth == 1) @ below, self.predicted @ below
                truth = np.where(np.isnan(self.truth) @ below & ~yes, np.nan, yes)
            else:
                truth, predicted = (classes[codes[self.codes(x)]] for x in (self.truth, self.predicted))
            figures = scores(truth, predicted, None, classes, areas=False)
            shown: Json = {x: figures[x] for x in ("accuracy", "micro_f1", "macro_f1") if x in figures}
            rows.append({"level": level, "classes": len(classes)} | shown)
        return rows

    def codes(self, values: AnyArray) -> Ints:
        """Indices of single labels in `labels`."""
        places = {label: a for a, label in enumerate(self.labels)}
        return np.array([places[label] for label in values.tolist()])

    @property
    def areas_left_out(self) -> bool:
        """Whether intervals of areas under curves would take too long."""
        return self.task != "regression" and self.decision.size > MOST_RANKED

    def labels_of(self, i: int) -> tuple[Any, Any]:
        """Truth and prediction of document i for display; several labels are joined by commas."""
        if self.task != "multilabel":
            return self.truth[i], self.predicted[i]
        sets = label_sets(np.stack([self.truth[i], self.predicted[i]]), np.array(self.labels))
        true, predicted = (", ".join(map(str, labels)) or "nothing" for labels in sets)
        return true, predicted

    def weighted(self, weight: Floats, areas: bool = True) -> dict[str, Floats]:
        """Every metric for rows of document weights, shape (resamples, n); without `areas`, these are NaN."""
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.task == "regression":
                return number_metrics(weight, self.truth, self.predicted, self.grades)
            if self.task == "multilabel":
                return label_metrics(weight, self.truth, self.predicted, self.decision, self.labels, areas)
            true, guess = self.codes(self.truth), self.codes(self.predicted)
            decision = self.decision if areas else None
            return class_metrics(weight, true, guess, decision, self.labels, self.grades, self.probability)

    def with_intervals(self, resamples: int = 1000, level: float = 0.95, seed: int = 0) -> Results:
        """Copy with intervals of all metrics; NaN if a metric is undefined, or the same in all resamples."""
        parts = [self.weighted(weight, not self.areas_left_out) for weight in draws(self.n, resamples, seed)]
        intervals = {
            name: percentile_interval(np.concatenate([part[name] for part in parts]), level)
            for name in self.metrics
        }
        if self.task != "regression":
            alike = {name for name, (low, high) in intervals.items() if low == high}
            intervals |= dict.fromkeys(alike, (np.nan, np.nan)) | exact_intervals(self, level)
        return replace(self, intervals=intervals)

    def as_dict(self) -> Json:
        """JSON values, without the values of single documents."""
        names = ("per_class", "confusion", "intervals", "sets", "rejected", "warnings", "seconds")
        values = {"task": self.task, "n": self.n, "labels": self.labels, **self.metrics}
        values |= {name: vars(self)[name] for name in names}
        more = {"length_alone": self.length_alone, "levels": self.levels}
        return to_json(values | {name: value for name, value in more.items() if value})


def draws(n: int, resamples: int, seed: int) -> Iterator[Floats]:
    """Yield counts of n documents in blocks of resamples, shape (block, n)."""
    random = np.random.default_rng(seed)
    size = max(1, BLOCK // n)
    for start in range(0, resamples, size):
        rows = min(size, resamples - start)
        samples = random.integers(0, n, (rows, n)) + n * np.arange(rows)[:, None]
        yield np.bincount(samples.ravel(), minlength=rows * n).reshape(rows, n).astype(np.float64)


def exact_intervals(results: Results, level: float = 0.95) -> dict[str, tuple[float, float]]:
    """Clopper and Pearson's intervals of metrics that are shares of documents, and of the F1 of classes."""
    truth, predicted, several = results.truth, results.predicted, results.task == "multilabel"
    wrong = results.wrong[~np.isnan(truth).all(axis=1)] if several else results.wrong
    shares = {"subset_accuracy" if several else "accuracy": (int((~wrong).sum()), len(wrong))}
    f1 = {}
    for a, label in enumerate(results.labels):
        true, guess = (values[:, a] == 1 if several else values == label for values in (truth, predicted))
        hits = int((true & guess).sum())
        f1[f"f1[{label}]"] = (hits, int((true | guess).sum()) if true.any() else 0)
        if results.task == "binary" and a == 1:
            f1["f1"] = f1[f"f1[{label}]"]
            shares |= {"precision": (hits, int(guess.sum())), "recall": (hits, int(true.sum()))}
    intervals = {name: clopper_pearson(*counts, level) for name, counts in shares.items()}
    for name, counts in f1.items():
        low, high = clopper_pearson(*counts, level)
        intervals[name] = 2 * low / (1 + low), 2 * high / (1 + high)
    return intervals


def clopper_pearson(hits: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """Interval of a share of `hits` among `n`; NaN if n is 0."""

    if n == 0:
        return np.nan, np.nan
    tail = (1 - level) / 2
    low = float(scipy.special.betaincinv(hits, n - hits + 1, tail)) if hits else 0.0
    return low, float(scipy.special.betaincinv(hits + 1, n - hits, 1 - tail)) if hits < n else 1.0


def wilson(share: ArrayLike, n: ArrayLike, z: float = 1.959964) -> tuple[Floats, Floats]:
    """95 % intervals of shares of n (Wilson 1927); `z` is the quantile of the standard error."""
    share, n = np.asarray(share), np.asarray(n)
    middle = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = np.sqrt(share * (1 - share) / n + z**2 / (4 * n * n)) * z / (1 + z**2 / n)
    return np.maximum(middle - half, 0), np.minimum(middle + half, 1)


def percentile_interval(values: Floats, level: float = 0.95) -> tuple[float, float]:
    """Bounds of the middle share of resampled values, without NaN."""
    values, tail = values[~np.isnan(values)], 100 * (1 - level) / 2
    low, high = np.percentile(values, [tail, 100 - tail]) if len(values) else (np.nan, np.nan)
    return float(low), float(high)


def evaluate(
    truth: Sequence[object], predicted: ArrayLike, decision: ArrayLike, classes: ArrayLike | None, *,
    positive: object = None, probability: Floats | None = None, grades: tuple[int, int] | None = None,
) -> Results:  # fmt: skip
    """Metrics of predictions by any model: of a single label per document, or of numbers.

    Parameters
    ----------
    truth : sequence of labels or numbers, length n
        Documents whose label is not in `classes` are left out, with a warning in the results.
    predicted : array-like, shape (n,)
    decision : float64 array, shape (n,) or (n, n_classes)
        Result of `decision_function`; the predicted numbers for regression.
    classes : array, shape (n_classes,), sorted; None for regression
    positive : label, optional
        Positive class of two; default ``classes[1]``.
    probability : float64 array, shape (n, n_classes), optional
    grades : (int, int), optional
        Range of the quadratic weighted kappa.

    Returns
    -------
    Results
        Metrics are attributes; ``with_intervals()`` adds confidence intervals.

    Raises
    ------
    InputError
        If there are no documents, or none has a label of `classes`.

    Examples
    --------
    >>> from textsvm import evaluate
    >>> results = evaluate(["ham", "spam", "ham"], ["ham", "spam", "spam"], [-1.5, 0.9, 0.2], ["ham", "spam"])
    >>> results.recall, results.precision, results.roc_auc
    (1.0, 0.5, 1.0)
    >>> [round(bound, 3) for bound in results.with_intervals().intervals["recall"]]
    [0.025, 1.0]
    """
    if grades is not None and not 0 < grades[1] - grades[0] < MOST_GRADES:
        raise InputError(f"grades must be 2 to {MOST_GRADES} whole numbers, got {grades[0]} to {grades[1]}")
    if len(truth) == 0:
        raise InputError("there are no labelled documents to evaluate on")
    predicted, decision = np.asarray(predicted), np.asarray(decision)
    if classes is None:
        numbers, n = np.asarray(truth, np.float64), len(truth)
        rows = np.arange(n)
        return _with_metrics(Results("regression", n, [], rows, numbers, predicted, predicted, grades=grades))
    order = classes = np.asarray(classes)
    index, values, warnings = _judged_labels(truth, classes)
    predicted, decision = predicted[index], decision[index]
    if len(classes) == 2 and positive is not None and positive not in classes[1:].tolist():
        order, decision = classes[::-1], -decision
    if probability is not None:
        probability = probability[index]
        if len(classes) == 2:
            probability = probability[:, classes.tolist().index(order[1])]
    task, labels = "binary" if len(classes) == 2 else "multiclass", order.tolist()
    results = Results(
        task, len(values), labels, index, values, predicted, decision, probability, grades, warnings=warnings
    )
    k, true = len(order), results.codes(values)
    confusion = np.bincount(true * k + results.codes(predicted), minlength=k * k).reshape(k, k)
    finite = np.all(np.isfinite(decision))
    areas = average_precisions(*one_against_rest(true, decision)) if finite else np.full(k, np.nan)
    table = class_table((np.diag(confusion), confusion.sum(axis=1), confusion.sum(axis=0)), areas, labels)
    return _with_metrics(replace(results, confusion=confusion.tolist(), per_class=table))


def evaluate_labels(
    truth: Sequence[Sequence[object]] | AnyArray, predicted: Bools, decision: Floats, classes: AnyArray,
    thresholds: Floats,
) -> Results:  # fmt: skip
    """Judge predictions of several labels per document, arrays of shape (n, n_classes).

    `truth` is an indicator matrix of this shape, or n tuples of labels; labels that are not in `classes` are
    left out of all figures, with a warning in the results.
    """
    if len(truth) == 0:
        raise InputError("there are no labelled documents to evaluate on")
    indicator, warnings = _label_indicator(truth, classes)
    true, predicted = indicator == 1, predicted & ~np.isnan(indicator)
    counts = tuple(values.sum(axis=0) for values in (true & predicted, true, predicted))
    columns = zip(indicator.T, decision.T, thresholds.tolist(), strict=True)
    more = [{"break_even": break_even(*column), "threshold": bound} for *column, bound in columns]
    labels, index = classes.tolist(), np.arange(len(indicator))
    rows = class_table(counts, average_precisions(indicator, decision), labels, more)
    results = Results("multilabel", len(index), labels, index, indicator, predicted, decision)
    return _with_metrics(replace(results, per_class=rows, warnings=warnings))


def _with_metrics(results: Results) -> Results:
    values = results.weighted(np.ones((1, results.n)))
    return replace(results, metrics={name: float(value[0]) for name, value in values.items()})


def _label_indicator(
    truth: Sequence[Sequence[object]] | AnyArray, classes: AnyArray
) -> tuple[AnyArray, list[str]]:
    """Indicator of the classes of each document, and a warning about labels that are not known."""
    if isinstance(truth, np.ndarray) and truth.ndim == 2:
        return read_labels(truth)[1], []
    places = _places(classes)
    indicator = indicator_of([*truth], places, len(classes))
    others = {str(label) for labels in truth for label in labels if label not in places}
    if not others:
        return indicator, []
    names = first_few(sorted(others))
    if not (indicator == 1).any():
        raise InputError(
            f"the model knows the labels {first_few(classes.tolist())}, and the documents have {names}"
        )
    return indicator, [
        f"{len(others)} of the documents' labels are not known to the model ({names}) and are left out of "
        "all figures"
    ]


def _judged_labels(truth: Sequence[object], classes: AnyArray) -> tuple[Ints, AnyArray, list[str]]:
    """Indices of documents with a known label, their labels, and a warning about the others."""
    places = _places(classes)
    codes = np.array([places.get(label, -1) for label in truth])
    index = np.flatnonzero(codes >= 0)
    names = sorted({str(truth[i]) for i in np.flatnonzero(codes < 0).tolist()})
    spellings, others = ({str(label).strip().casefold() for label in labels} for labels in (classes, names))
    sample = first_few(names) + (", some different only in case or spaces" if spellings & others else "")
    if not len(index):
        raise InputError(
            f"the model knows the labels {first_few(classes.tolist())}, and the documents have {sample}"
        )
    warnings = []
    if omitted := len(truth) - len(index):
        warnings.append(
            f"{omitted:,} of {len(truth):,} documents have labels that the model does not know ({sample}; it "
            f"knows {first_few(classes.tolist())}) and are left out of all figures"
        )
    return index, classes[codes[index]], warnings


def _places(classes: AnyArray) -> dict[object, int]:
    """Index of each class by its label and by its text: files spell numbers."""
    labels = classes.tolist()
    return {str(label): a for a, label in enumerate(labels)} | {label: a for a, label in enumerate(labels)}
