"""Comparison of models on the same documents: figures, differences from the first model, disagreements.

Two classifiers differ in the documents that a single of them predicts correctly. If neither is better, such a
document favours either with probability 1/2 (McNemar 1947; here the exact binomial test). Documents of a
group (pieces of a book) err together: the difference of correct documents in a group has either sign with
probability 1/2, which is McNemar's test if each document is a group. The standard error of a mean is that of
a ratio of sums over groups (Cochran 1977, section 11.8), with quantiles of Student's t. The interval of the
accuracy is Wilson's, with the effective number of independent documents: that with the same standard error.
Regression models are compared by mean absolute error, with a percentile bootstrap interval.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from textsvm.arrays import AnyArray, Bools, Floats, Json
from textsvm.errors import InputError, first_few
from textsvm.evaluation.metrics import scores
from textsvm.evaluation.results import Results, percentile_interval, wilson
from textsvm.readers.corpus import Corpus
from textsvm.readers.statistics import label_counts
from textsvm.runtime.compiled import scipy
from textsvm.runtime.parameters import notebook_table
from textsvm.runtime.plain_json import to_json

MOST_SHOWN = 12  #: Maximum number of disagreements shown
SHOWN_SYMBOLS = 240  #: Symbols shown of the text of a disagreement


@dataclass(frozen=True)
class PairedDifference:
    """Difference of two classifiers on the same documents."""

    n: int
    difference: float  #: Accuracy of the first less that of the second
    interval: tuple[float, float]  #: Of the difference, 95 %
    only_first: int  #: Documents that only the first predicts correctly
    only_second: int
    p_value: float  #: Of the exact two-sided test that neither is better


def compare_correct(correct: Bools, other: Bools, groups: ArrayLike | None = None) -> PairedDifference:
    """Compare whether two classifiers are correct on the same documents, shape (n,), by document or group."""
    n, only_first, only_second = len(correct), int((correct & ~other).sum()), int((other & ~correct).sum())
    difference = (only_first - only_second) / n
    sums, error, quantile = _over_groups(correct.astype(np.float64) - other, groups)
    interval = max(difference - quantile * error, -1.0), min(difference + quantile * error, 1.0)
    return PairedDifference(n, difference, interval, only_first, only_second, _sign_test(sums))


def _over_groups(values: Floats, groups: ArrayLike | None) -> tuple[Floats, float, float]:
    """Sums of values over groups, the standard error of the mean for new groups, and its 97.5 % quantile."""
    number = np.arange(len(values)) if groups is None else np.unique(groups, return_inverse=True)[1]
    sums, squares = np.bincount(number, values), np.bincount(number, values - values.mean()) ** 2
    freedom = max(len(sums) - 1, 1)
    error = float(np.sqrt(len(sums) / freedom * squares.sum())) / len(values) if len(sums) > 1 else np.inf
    return sums.astype(np.float64), error, float(scipy.stats.t.ppf(0.975, freedom))


def _sign_test(sums: Floats) -> float:
    """Probability that sums with random signs have a total at least as far from 0."""
    sizes = np.abs(sums[sums != 0]).astype(int)
    if len(sizes) and (sizes == sizes[0]).all():
        return float(scipy.stats.binomtest(int((sums > 0).sum()), len(sizes)).pvalue)
    # The sum of the sizes with a positive sign, from its characteristic function: a factor for each size.
    n = int(sizes.sum()) + 1
    factors = np.ones(n // 2 + 1, np.complex128)
    for size, count in zip(*np.unique(sizes, return_counts=True), strict=True):
        angles = 2 * np.pi * (np.arange(len(factors)) * size % n) / n
        factors *= ((1 + np.exp(-1j * angles)) / 2) ** count
    chances = np.fft.irfft(factors, n)
    is_far = np.abs(2 * np.arange(n) - n + 1) >= abs(sums.sum())
    return float(np.clip(chances[is_far].sum(), 0.0, 1.0))


@dataclass(frozen=True)
class ClassifierScore:
    """A classifier in a comparison of classifiers."""

    name: str
    n: int  #: Number of test documents
    n_groups: int | None  #: Number of their groups, over which intervals and tests are computed
    accuracy: float
    macro_f1: float
    interval: tuple[float, float]  #: Of the accuracy (Wilson, 95 %)
    fit: float  #: Seconds of wall time
    predict: float  #: Seconds of wall time
    chosen: str  #: Parameters that it chose by itself
    is_textsvm: bool  #: Whether it is a string-kernel machine
    #: Difference from the first classifier of the comparison; None for the first.
    paired: PairedDifference | None = None

    @property
    def seconds(self) -> float:
        return self.fit + self.predict

    def as_dict(self) -> Json:
        """JSON values."""
        return to_json(asdict(self))


def score_classifier(
    truth: AnyArray, predicted: AnyArray, first: AnyArray | None, groups: ArrayLike | None, **fields: Any
) -> ClassifierScore:
    """Figures of a classifier; `first` are the first classifier's predictions, `fields` other attributes."""
    correct, n, n_groups = truth == predicted, len(truth), None
    share = float(correct.mean())
    low, high = wilson(share, n)
    if groups is not None:
        sums, error, quantile = _over_groups(correct * 1.0, groups)
        n_groups = len(sums)
        independent = min(max(share * (1 - share) / error**2, 1.0), n) if error else n_groups
        low, high = wilson(share, independent, quantile)
    return ClassifierScore(
        n=n, n_groups=n_groups, accuracy=share,
        macro_f1=scores(truth, predicted, None, np.unique(np.append(truth, predicted)))["macro_f1"],
        interval=(float(low), float(high)),
        paired=None if first is None else compare_correct(correct, truth == first, groups), **fields,
    )  # fmt: skip


@dataclass(frozen=True)
class Difference:
    """A metric of a model less that of the first model."""

    metric: str  #: {"accuracy", "subset_accuracy", "mae"}
    value: float
    interval: tuple[float, float]  #: 95 %
    p_value: float  #: Of the test that neither is better; NaN for regression


@dataclass(frozen=True)
class Disagreement:
    """A document with different predictions."""

    id: str
    text: str  #: Its beginning, as given
    truth: Any
    predicted: list[object]  #: Of each model
    correct: list[bool]  #: Of each model; regression: whether no other model is nearer to the truth


@dataclass(frozen=True)
class SideBySide:
    """Results of several models on the same documents."""

    names: list[str]
    results: list[Results] = field(repr=False)  #: With intervals, the first model first
    differences: list[Difference | None]  #: None for the first model
    n_same: int  #: Documents with equal predictions
    all_wrong: int  #: Documents without a correct prediction; 0 for regression
    n_only_correct: list[int]  #: Of each model: documents that no other predicts correctly, or as nearly
    disagreements: list[Disagreement]

    def _repr_html_(self) -> str:
        models = self.as_dict()["models"]
        rows = [[model[name] for name in ("name", *self.results[0].metrics)] for model in models]
        return notebook_table(f"{self.results[0].n:,} documents", [("", *self.results[0].metrics), *rows])

    def as_dict(self) -> Json:
        """JSON values."""
        columns = zip(self.names, self.results, self.differences, self.n_only_correct, strict=True)
        models = [
            {
                "name": name,
                **results.metrics,
                "intervals": results.intervals,
                "difference": difference and vars(difference),
                "only_right": only,
            }
            for name, results, difference, only in columns
        ]
        disagreements = [vars(disagreement) for disagreement in self.disagreements]
        counts = {"alike": self.n_same, "all_wrong": self.all_wrong}
        return to_json({"models": models, **counts, "disagreements": disagreements})


def side_by_side(models: dict[str, Results], texts: Sequence[str] | None, ids: Sequence[str]) -> SideBySide:
    """Compare results of models, by name, with the results of the first; texts and ids of all documents."""
    names, results = list(models), list(models.values())
    first = results[0]
    for name, other in models.items():
        if first.task != other.task or first.labels != other.labels:
            kinds = f"{names[0]} is {_kind(first)}, {name} {_kind(other)}"
            raise InputError(f"models side by side need the same labels or numbers, and {kinds}")
        if not np.array_equal(first.index, other.index):
            raise InputError(f"cannot compare {names[0]} and {name}: they were judged on different documents")
    results = [model if model.intervals else model.with_intervals() for model in results]
    correct = np.stack([~model.wrong for model in results])
    if first.task == "regression":  # whether no other model is nearer to the truth
        errors = np.stack([_errors(model) for model in results])
        correct = errors <= errors.min(axis=0)
    predictions = [[str(model.labels_of(i)[1]) for i in range(first.n)] for model in results]
    same = np.array([len(set(labels)) == 1 for labels in zip(*predictions, strict=True)])
    alone = correct & (correct.sum(axis=0) == 1)
    disagreements = []
    for i in _rows_to_show(results, correct, ~same):
        document = int(first.index[i])
        text = "" if texts is None else " ".join(texts[document][: 2 * SHOWN_SYMBOLS].split())
        text = text if len(text) <= SHOWN_SYMBOLS else text[:SHOWN_SYMBOLS] + " …"
        truth, predicted = first.labels_of(i)[0], [model.labels_of(i)[1] for model in results]
        disagreements.append(Disagreement(ids[document], text, truth, predicted, correct[:, i].tolist()))
    return SideBySide(
        names=names, results=results,
        differences=[None, *(_difference(other, first) for other in results[1:])], n_same=int(same.sum()),
        all_wrong=0 if first.task == "regression" else int((~correct.any(axis=0)).sum()),
        n_only_correct=alone.sum(axis=1).tolist(), disagreements=disagreements,
    )  # fmt: skip


def _kind(results: Results) -> str:
    return f"{results.task} ({first_few(results.labels)})" if results.labels else results.task


def _errors(results: Results) -> Floats:
    return np.abs(results.predicted - results.truth)


def _difference(results: Results, first: Results) -> Difference:
    if results.task == "regression":
        difference = _errors(results) - _errors(first)
        random, n = np.random.default_rng(0), len(difference)
        means = np.array([difference[random.integers(0, n, n)].mean() for _ in range(1000)])
        return Difference("mae", float(difference.mean()), percentile_interval(means), np.nan)
    paired = compare_correct(~results.wrong, ~first.wrong)
    metric = "subset_accuracy" if results.task == "multilabel" else "accuracy"
    return Difference(metric, paired.difference, paired.interval, paired.p_value)


def _rows_to_show(results: Sequence[Results], correct: Bools, differs: Bools) -> list[int]:
    """Documents to show: half where the first model is wrong and another correct, half the other way round.

    Regression: the largest ranges of errors.
    """
    if results[0].task == "regression":
        errors = np.stack([_errors(model) for model in results])
        spread = errors.max(axis=0) - errors.min(axis=0)
        return [i for i in np.argsort(-spread, kind="stable")[:MOST_SHOWN].tolist() if spread[i] > 0]
    worse = np.flatnonzero(differs & ~correct[0] & correct.any(axis=0)).tolist()
    better, half = np.flatnonzero(differs & correct[0]).tolist(), MOST_SHOWN // 2
    return worse[: MOST_SHOWN - min(half, len(better))] + better[: MOST_SHOWN - min(half, len(worse))]


def changes(
    fresh: Corpus, old: set[str], before: Iterable[Any], after: Iterable[Any], epsilon: float = 0.0
) -> Json:
    """The report: labels added, accuracies or mean errors, and changed predictions on the new documents.

    Predictions may be tuples of labels, or None. A number has changed if it has moved by more than `epsilon`.
    """
    of_numbers = fresh.targets is not None
    truth: list[Any] = list(fresh.targets or fresh.labels or [])
    columns = [
        [value if value is None else float(value) if of_numbers else _name(value) for value in column]
        for column in (truth, before, after)
    ]
    names = ("id", "label", "before", "after")
    rows = [dict(zip(names, row, strict=True)) for row in zip(fresh.ids, *columns, strict=True)]
    judged = [row for row in rows if row["after"] is not None]

    def quality(rows: list[Json], name: str) -> float | None:
        values = [abs(row["label"] - row[name]) if of_numbers else row["label"] == row[name] for row in rows]
        return sum(values) / len(values) if values else None

    measure = "mean_error" if of_numbers else "accuracy"
    moved = (row for row in judged if not of_numbers or abs(row["after"] - row["before"]) > epsilon)
    return {
        "new_documents": len(rows),
        "labels_added": sorted(label_counts(fresh).keys() - old),
        f"{measure}_before": quality(rows, "before"),
        f"{measure}_after": quality(judged, "after"),
        "changed": [row for row in moved if row["before"] != row["after"]],
    }


def _name(prediction: object) -> str:
    return ";".join(sorted(map(str, prediction))) if isinstance(prediction, tuple) else str(prediction)
