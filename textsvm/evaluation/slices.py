"""Metrics of slices: the documents of each source, language, year, ..."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from textsvm.arrays import Bools, Json
from textsvm.errors import InputError
from textsvm.evaluation.results import Results, draws, exact_intervals, percentile_interval
from textsvm.runtime.plain_json import to_json

#: Metrics of a slice; the first decides the order.
METRICS = {
    "binary": ("accuracy", "precision", "recall", "f1"),
    "multiclass": ("accuracy", "macro_f1"),
    "multilabel": ("micro_f1", "subset_accuracy"),
    "regression": ("mae", "rmse"),
}
ERRORS = ("mae", "rmse")  #: Metrics for which less is better


@dataclass(frozen=True)
class Slice:
    """The documents with a value of a column."""

    value: str
    n: int  #: Number of judged documents
    metrics: dict[str, float]  #: See `METRICS`; NaN if a metric is not defined
    #: 95 %: Clopper and Pearson's for shares and F1, valid for few documents; else percentile bootstrap.
    intervals: dict[str, tuple[float, float]]
    #: {"worse", "better", ""}: Whether the interval of the first metric excludes the figure of all documents.
    apart: str


@dataclass(frozen=True)
class Slices:
    """The slices of a column."""

    column: str
    metric: str  #: Metric that decides the order
    overall: float  #: Its value for all documents
    #: The worst first, by the better end of the interval: a few bad documents come after many nearly as bad.
    slices: list[Slice]

    def as_dict(self) -> Json:
        """JSON values; NaN is None."""
        return to_json({**vars(self), "slices": [asdict(part) for part in self.slices]})


def make_slices(results: Results, column: str, values: Sequence[str], resamples: int = 1000) -> Slices:
    """Metrics of the documents with each value of a column; `values` has a value for each given document."""
    if len(values) <= int(results.index.max()):
        raise InputError(f"{column} has {len(values):,} values for more documents; give a value each")
    metric = METRICS[results.task][0]
    overall = results.metrics[metric]
    labels = np.array([str(values[i]) for i in results.index.tolist()], object)
    parts = {value: _part(results, labels == value) for value in sorted(set(labels))}
    slices = [_slice(part, value, overall, resamples) for value, part in parts.items()]
    slices.sort(key=lambda row: -row.intervals[metric][0] if metric in ERRORS else row.intervals[metric][1])
    return Slices(column, metric, overall, slices)


def _part(results: Results, rows: Bools) -> Results:
    """Results of some documents, without areas under curves, which would take most of the time."""
    decision = results.decision[rows]
    if results.task in ("binary", "multiclass"):
        decision = np.full(decision.shape, np.nan)
    truth, predicted = results.truth[rows], results.predicted[rows]
    n = int(rows.sum())
    return replace(results, n=n, truth=truth, predicted=predicted, decision=decision, probability=None)


def _slice(part: Results, value: str, overall: float, resamples: int) -> Slice:
    names = METRICS[part.task]
    exact = part.weighted(np.ones((1, part.n)))
    metrics = {name: float(exact[name][0]) for name in names} | dict.fromkeys(_undefined(part), np.nan)
    samples = [part.weighted(weight) for weight in draws(part.n, resamples, 0)]
    intervals = {name: percentile_interval(np.concatenate([row[name] for row in samples])) for name in names}
    if part.task != "regression":
        exact_bounds = exact_intervals(part)
        intervals |= {name: exact_bounds[name] for name in names if name in exact_bounds}
    low, high = intervals[names[0]]
    below, above = ("better", "worse") if names[0] in ERRORS else ("worse", "better")
    apart = ""
    if high < overall:
        apart = below
    elif low > overall:
        apart = above
    return Slice(value, part.n, metrics, intervals, apart)


def _undefined(part: Results) -> list[str]:
    """Metrics that are not defined for these documents."""
    if part.task != "binary":
        return []
    true, predicted = (bool((labels == part.labels[1]).any()) for labels in (part.truth, part.predicted))
    undefined = {"precision": not predicted, "recall": not true, "f1": not (predicted or true)}
    return [name for name, holds in undefined.items() if holds]
