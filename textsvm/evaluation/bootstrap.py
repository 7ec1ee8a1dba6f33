"""Percentile bootstrap: how far metrics would move if as many documents were drawn anew (Efron 1979).

A resample draws n of the n documents with replacement. It is a row of counts, W (resamples, n), and every
metric follows from weighted sums over documents, for all resamples at once:

    confusion      sum of W over the documents of each cell
    roc_auc        sum over scores s of pos(s) (neg(below s) + neg(s) / 2), divided by pos neg
    average_precision  see `textsvm.evaluation.precision_recall`
    qwk            1 - E[(t - p)^2] / (E[t^2] + E[p^2] - 2 E[t] E[p]), t and p grades
    others         moments of t and p, means of losses
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from textsvm.evaluation import multilabel, precision_recall
from textsvm.evaluation.metrics import as_grade, as_grades

Array = NDArray[np.float64]
#: Counts that exist at a time.
BLOCK = 1 << 22


class Judged(Protocol):
    """What is resampled of `textsvm.evaluation.results.Results`, described there."""

    @property
    def task(self) -> str: ...
    @property
    def n(self) -> int: ...
    @property
    def labels(self) -> list[Any]: ...
    @property
    def metrics(self) -> dict[str, float]: ...
    @property
    def truth(self) -> NDArray[Any]: ...
    @property
    def predicted(self) -> NDArray[Any]: ...
    @property
    def decision(self) -> Array: ...
    @property
    def probability(self) -> Array | None: ...
    @property
    def span(self) -> tuple[int, int] | None: ...


def intervals(
    results: Judged, resamples: int = 1000, level: float = 0.95, seed: int = 0
) -> dict[str, tuple[float, float]]:
    """Bounds of every metric of the results.

    Parameters
    ----------
    results : Results
    resamples : int
    level : float
        Share of the resamples between the bounds.
    seed : int

    Returns
    -------
    dict of str -> (float, float)
        NaN where a metric is defined in no resample.
    """
    parts = [metrics_in(results, weight) for weight in draws(results.n, resamples, seed)]
    tail = 100 * (1 - level) / 2
    found = {}
    for name in results.metrics:
        values = np.concatenate([part[name] for part in parts])
        values = values[~np.isnan(values)]
        low, high = np.percentile(values, [tail, 100 - tail]) if len(values) else (np.nan, np.nan)
        found[name] = (float(low), float(high))
    return found


def draws(n: int, resamples: int, seed: int) -> Iterator[Array]:
    """Yield counts of n documents in blocks of resamples, shape (block, n)."""
    random = np.random.default_rng(seed)
    size = max(1, BLOCK // n)
    for start in range(0, resamples, size):
        rows = min(size, resamples - start)
        drawn = random.integers(0, n, (rows, n)) + n * np.arange(rows)[:, None]
        yield np.bincount(drawn.ravel(), minlength=rows * n).reshape(rows, n).astype(np.float64)


def metrics_in(results: Judged, weight: Array) -> dict[str, Array]:
    """Every metric of the results in each resample, shape (resamples,)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        if results.task == "regression":
            return _regression(results, weight)
        if results.task == "multilabel":
            found = (results.truth, results.predicted, results.decision, results.labels)
            return multilabel.resampled(weight, *found)
        return _classes(results, weight)


def _regression(results: Judged, weight: Array) -> dict[str, Array]:
    t, p = results.truth, results.predicted
    mean = _means(weight, [np.abs(t - p), (t - p) ** 2])
    # Centred, so that variances do not cancel.
    t, p = t - t.mean(), p - p.mean()
    at, ap, att, app, atp = _means(weight, [t, p, t * t, p * p, t * p])
    t_variance, p_variance = _positive(att - at**2, t), _positive(app - ap**2, p)
    found = {
        "mae": mean[0],
        "rmse": np.sqrt(mean[1]),
        "r2": 1 - mean[1] / t_variance,
        "pearson": (atp - at * ap) / np.sqrt(t_variance * p_variance),
    }
    if results.span is not None:
        grades = (as_grade(x, results.span) for x in (results.truth, results.predicted))
        found["qwk"] = _kappa(weight, *(x.astype(float) for x in grades))
    return found


def _classes(results: Judged, weight: Array) -> dict[str, Array]:
    place = {label: a for a, label in enumerate(results.labels)}
    true, said = (np.array([place[x] for x in y.tolist()]) for y in (results.truth, results.predicted))
    k = len(place)
    cells = _sums_by(weight, true * k + said, k * k).reshape(-1, k, k)
    hits, rows, columns = np.diagonal(cells, axis1=1, axis2=2), cells.sum(2), cells.sum(1)
    n = rows.sum(1)
    occurs = rows + columns > 0
    f1 = np.where(occurs, 2 * hits / np.where(occurs, rows + columns, 1), 0)
    spread = np.sqrt((n**2 - (rows**2).sum(1)) * (n**2 - (columns**2).sum(1)))
    found = {
        "accuracy": hits.sum(1) / n,
        "macro_f1": f1.sum(1) / occurs.sum(1),
        "mcc": np.where(spread > 0, (hits.sum(1) * n - (rows * columns).sum(1)) / spread, 0),
        "roc_auc": _area(weight, true, results.decision, rows),
        "average_precision": _average_precision(weight, true, results.decision, rows),
        **{f"f1[{label}]": f1[:, a] for label, a in place.items()},
    }
    if k == 2:
        found["precision"] = hits[:, 1] / np.maximum(columns[:, 1], 1)
        found["recall"] = hits[:, 1] / np.maximum(rows[:, 1], 1)
        found["f1"] = f1[:, 1]
    elif results.span is not None:
        values = as_grades(np.asarray(results.labels))
        assert values is not None
        found["qwk"] = _kappa(
            weight, *(as_grade(values[y], results.span).astype(float) for y in (true, said))
        )
    if results.probability is not None:
        found |= _losses(weight, true, results.probability)
    return found


def _losses(weight: Array, true: NDArray[np.int64], probability: Array) -> dict[str, Array]:
    if probability.ndim == 1:
        of_truth = np.where(true == 1, probability, 1 - probability)
        brier = {"brier": _means(weight, [(probability - true) ** 2])[0]}
    else:
        of_truth, brier = probability[np.arange(len(true)), true], {}
    loss = -np.log(np.maximum(of_truth, np.finfo(probability.dtype).eps))
    return {"log_loss": _means(weight, [loss])[0], **brier}


def _area(weight: Array, true: NDArray[np.int64], decision: Array, rows: Array) -> Array:
    """Area under the ROC curve; of more than two classes the mean over those that occur."""
    if not np.all(np.isfinite(decision)):
        return np.full(len(weight), np.nan)
    if decision.ndim == 1:
        return _area_of(weight, true == 1, decision)
    areas = [_area_of(weight, true == a, decision[:, a]) for a in range(decision.shape[1])]
    areas = [np.where(rows[:, a] > 0, area, np.nan) for a, area in enumerate(areas)]
    there = ~np.isnan(areas)
    return np.where(there, areas, 0).sum(0) / there.sum(0)


def _area_of(weight: Array, positive: NDArray[np.bool_], score: Array) -> Array:
    order = np.argsort(score, kind="stable")
    starts = np.flatnonzero(np.diff(score[order], prepend=-np.inf))
    weight = weight[:, order]
    good = np.add.reduceat(weight * positive[order], starts, axis=1)
    bad = np.add.reduceat(weight, starts, axis=1) - good
    below = np.cumsum(bad, axis=1) - bad
    return (good * (below + bad / 2)).sum(1) / (good.sum(1) * bad.sum(1))


def _average_precision(weight: Array, true: NDArray[np.int64], decision: Array, rows: Array) -> Array:
    """Of two classes that of the second; of more the mean over those that occur."""
    if not np.all(np.isfinite(decision)):
        return np.full(len(weight), np.nan)
    truth, values = precision_recall.of_each(true, decision)
    wanted = slice(1, 2) if decision.ndim == 1 else slice(None)
    areas = precision_recall.resampled(weight, truth[:, wanted], values[:, wanted])
    both = (rows > 0).sum(1) > 1
    return np.where(both, precision_recall.mean_of_defined(areas), np.nan)


def _kappa(weight: Array, t: Array, p: Array) -> Array:
    apart, at, ap, att, app = _means(weight, [(t - p) ** 2, t, p, t * t, p * p])
    by_chance = att + app - 2 * at * ap
    return np.where(by_chance > 1e-9, 1 - apart / by_chance, np.nan)


def _means(weight: Array, columns: list[Array]) -> Any:
    return (weight @ np.stack(columns, axis=1)).T / weight.sum(1)


def _positive(variance: Array, centred: Array) -> Array:
    """Variances of resamples of centred values, NaN where they are zero but for rounding."""
    return np.where(variance > 1e-12 * (centred**2).max(), variance, np.nan)


def _sums_by(weight: Array, group: NDArray[np.int64], groups: int) -> Array:
    """Sums of the weights of each group, shape (resamples, groups)."""
    order = np.argsort(group, kind="stable")
    present, starts = np.unique(group[order], return_index=True)
    sums = np.zeros((len(weight), groups))
    sums[:, present] = np.add.reduceat(weight[:, order], starts, axis=1)
    return sums
