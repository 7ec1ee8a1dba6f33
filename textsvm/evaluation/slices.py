"""How well a model does on parts of the documents: those of each source, language, year, ..."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

from textsvm.errors import InputError
from textsvm.evaluation.results import Results, draws, percentile_interval
from textsvm.runtime.plain_json import to_json

#: Metrics of a part, the one that it is judged by first.
METRICS = {
    "binary": ("accuracy", "precision", "recall", "f1"),
    "multiclass": ("accuracy", "macro_f1"),
    "multilabel": ("micro_f1", "subset_accuracy"),
    "regression": ("mae", "rmse"),
}
#: Those of which less is better.
ERRORS = ("mae", "rmse")


@dataclass(frozen=True)
class Slice:
    """The documents of one value of a column.

    Attributes
    ----------
    value : str
    n : int
        Documents of it that were judged.
    metrics : dict of str -> float
        See `METRICS`; NaN where a metric is not defined.
    intervals : dict of str -> (float, float)
        95 %: of shares Clopper and Pearson's, which holds for few documents too, else percentile bootstrap.
    apart : {"worse", "better", ""}
        Whether the interval of the first metric leaves out the figure of all documents.
    """

    value: str
    n: int
    metrics: dict[str, float]
    intervals: dict[str, tuple[float, float]]
    apart: str


@dataclass(frozen=True)
class Slices:
    """All values of one column.

    Attributes
    ----------
    column : str
    metric : str
        The one that decides the order.
    overall : float
        Its value for all documents.
    slices : list of Slice
        The worst first: by the end of the interval that is better, so that a few bad documents come after
        many that are nearly as bad.
    """

    column: str
    metric: str
    overall: float
    slices: list[Slice]

    def as_dict(self) -> dict[str, Any]:
        """JSON values; NaN is None."""
        return to_json({**vars(self), "slices": [asdict(each) for each in self.slices]})


def make_slices(
    results: Results, column: str, values: Sequence[str], resamples: int = 1000, seed: int = 0
) -> Slices:
    """Judge the documents of each value apart.

    Parameters
    ----------
    results : Results
    column : str
        What the values are called.
    values : sequence of str
        Of all documents that were given, judged or not.
    resamples, seed : int
        Of the bootstrap.

    Raises
    ------
    InputError
        If there are fewer values than documents.
    """
    if len(values) <= int(results.index.max()):
        raise InputError(f"there are {len(values):,} values of {column} and more documents; give one each")
    names = METRICS[results.task]
    overall = results.metrics[names[0]]
    own = np.array([str(values[i]) for i in results.index.tolist()], object)
    found = [
        _slice(_part(results, own == value), value, overall, resamples, seed) for value in sorted(set(own))
    ]
    found.sort(key=lambda each: _best_case(each, names[0]))
    return Slices(column, names[0], overall, found)


def _part(results: Results, chosen: NDArray[np.bool_]) -> Results:
    """Some of the documents, with the metrics that are asked for here."""
    decision = results.decision[chosen]
    if results.task in ("binary", "multiclass"):
        decision = np.full(
            decision.shape, np.nan
        )  # no areas under curves: they would take longer than all else
    return replace(
        results,
        n=int(chosen.sum()),
        truth=results.truth[chosen],
        predicted=results.predicted[chosen],
        decision=decision,
        probability=None,
        metrics=dict.fromkeys(METRICS[results.task], np.nan),
    )


def _slice(part: Results, value: str, overall: float, resamples: int, seed: int) -> Slice:
    names = METRICS[part.task]
    exact = part.weighted(np.ones((1, part.n)))
    metrics = {name: float(exact[name][0]) for name in names} | dict.fromkeys(_undefined(part), np.nan)
    drawn = [part.weighted(weight) for weight in draws(part.n, resamples, seed)]
    intervals = {name: percentile_interval(np.concatenate([each[name] for each in drawn])) for name in names}
    intervals |= {name: _exact(metrics[name], n) for name, n in _shares_of(part).items()}
    low, high = intervals[names[0]]
    below, above = high < overall, low > overall
    worse = above if names[0] in ERRORS else below
    return Slice(value, part.n, metrics, intervals, "worse" if worse else "better" if below or above else "")


def _undefined(part: Results) -> list[str]:
    """Metrics that these documents say nothing of."""
    if part.task != "binary":
        return []
    true, said = (bool((each == part.labels[1]).any()) for each in (part.truth, part.predicted))
    undefined = {"precision": not said, "recall": not true, "f1": not (said or true)}
    return [name for name, holds in undefined.items() if holds]


def _shares_of(part: Results) -> dict[str, int]:
    """Metrics that are shares, and of how many documents."""
    if part.task == "multilabel":
        return {"subset_accuracy": part.n}
    if part.task == "regression":
        return {}
    if part.task == "multiclass":
        return {"accuracy": part.n}
    true, said = (int((each == part.labels[1]).sum()) for each in (part.truth, part.predicted))
    return {"accuracy": part.n, "precision": said, "recall": true}


def _exact(share: float, n: int) -> tuple[float, float]:
    if n == 0:
        return np.nan, np.nan
    bounds = binomtest(round(share * n), n).proportion_ci(0.95, "exact")
    return float(bounds.low), float(bounds.high)


def _best_case(found: Slice, metric: str) -> float:
    """Small where a slice is bad for sure."""
    low, high = found.intervals[metric]
    return -low if metric in ERRORS else high
