"""Metrics of slices: the documents of each source, language, book, ..."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from textsvm.arrays import Ints, Json
from textsvm.errors import InputError
from textsvm.evaluation.results import Results, clopper_pearson, draws, exact_intervals, percentile_interval
from textsvm.runtime.plain_json import to_json

#: Metrics of a slice; the first decides the order.
METRICS = {
    "binary": ("accuracy", "precision", "recall", "f1"),
    "multiclass": ("accuracy", "macro_f1"),
    "multilabel": ("micro_f1", "subset_accuracy"),
    "regression": ("mae", "rmse"),
}
ERRORS = ("mae", "rmse")  #: Metrics for which less is better
MOST = 500  #: Most slices of documents with one label; of more values the worst


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
    #: Documents by true class, and wrong predictions by predicted class, the largest number first; empty for
    #: several labels per document and for numbers.
    classes: dict[str, int]
    mistakes: dict[str, int]


@dataclass(frozen=True)
class Slices:
    """The slices of a column."""

    column: str
    metric: str  #: Metric that decides the order
    overall: float  #: Its value for all documents
    #: The worst first, by the better end of the interval: a few bad documents come after many nearly as bad.
    slices: list[Slice]
    n_values: int  #: Number of values of the column

    def as_dict(self) -> Json:
        """JSON values; NaN is None."""
        return to_json({**vars(self), "slices": [asdict(part) for part in self.slices]})


def make_slices(results: Results, column: str, values: Sequence[str], resamples: int = 1000) -> Slices:
    """Metrics of the documents with each value of a column; `values` has a value for each given document.

    Accuracy is the only metric if all documents of a value have one class, as the pieces of a book.
    """
    if len(values) <= int(results.index.max()):
        raise InputError(f"{column} has {len(values):,} values for more documents; give a value each")
    names = METRICS[results.task]
    metric, overall = names[0], results.metrics[names[0]]
    distinct, codes = np.unique([str(values[i]) for i in results.index.tolist()], return_inverse=True)
    parts = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1])
    order, resamples = list(range(len(parts))), min(resamples, max(100, 1000 * MOST // len(parts)))
    if metric == "accuracy":
        right = results.truth == results.predicted
        order.sort(key=lambda i: clopper_pearson(int(right[parts[i]].sum()), len(parts[i]))[1])
        if len(np.unique([codes, results.codes(results.truth)], axis=1).T) == len(parts):
            names = names[:1]
        order = order[:MOST]
    if results.task in ("binary", "multiclass"):  # areas under curves would take most of the time
        results = replace(results, decision=np.full(results.decision.shape, np.nan), probability=None)
    slices = [_slice(results, parts[i], str(distinct[i]), names, overall, resamples) for i in order]
    slices.sort(key=lambda row: -row.intervals[metric][0] if metric in ERRORS else row.intervals[metric][1])
    return Slices(column, metric, overall, slices, len(parts))


def _slice(
    results: Results, rows: Ints, value: str, names: tuple[str, ...], overall: float, resamples: int
) -> Slice:
    own = {name: vars(results)[name][rows] for name in ("truth", "predicted", "decision")}
    part = replace(results, n=len(rows), **own)
    exact = part.weighted(np.ones((1, part.n)))
    metrics = {name: float(exact[name][0]) for name in names}
    if part.task == "binary":
        true, predicted = (bool((x == part.labels[1]).any()) for x in (part.truth, part.predicted))
        undefined = {"precision": not predicted, "recall": not true, "f1": not (predicted or true)}
        metrics |= {name: np.nan for name in names if undefined.get(name)}
    intervals = {} if part.task == "regression" else exact_intervals(part)
    if not intervals.keys() >= set(names):
        samples = [part.weighted(weight) for weight in draws(part.n, resamples, 0)]
        drawn = {name: percentile_interval(np.concatenate([row[name] for row in samples])) for name in names}
        intervals = drawn | intervals
    low, high = intervals[names[0]]
    below, above = ("better", "worse") if names[0] in ERRORS else ("worse", "better")
    apart = ""
    if high < overall:
        apart = below
    elif low > overall:
        apart = above
    truth, wrong = part.truth.tolist(), part.predicted[part.predicted != part.truth].tolist()
    counts = [dict(Counter(map(str, labels)).most_common()) for labels in (truth, wrong)]
    if names[0] != "accuracy":
        counts = [{}, {}]
    return Slice(value, part.n, metrics, {name: intervals[name] for name in names}, apart, *counts)
