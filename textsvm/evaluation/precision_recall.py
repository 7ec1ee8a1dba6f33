"""Average precision, the area under the precision-recall curve: of classes, and in bootstrap resamples.

    AP = sum over values v, from the largest, of (recall(v) - recall(above v)) precision(v)

as scikit-learn has it: without interpolation, documents of equal values together. In a resample every
document counts as often as it was drawn. A class that no document has, has none: NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import metrics

from textsvm.runtime.compiled import njit

Array = NDArray[Any]


def average_precisions(truth: NDArray[np.bool_], decision: NDArray[np.float64]) -> NDArray[np.float64]:
    """Average precision of each class against the rest, shape (n_classes,).

    Parameters
    ----------
    truth : bool array, shape (n, n_classes)
    decision : float64 array, shape (n, n_classes)
        NaN, of a machine that was left out, ranks below all others.
    """
    values = _ranked(decision)
    found = np.full(truth.shape[1], np.nan)
    for a in np.flatnonzero(truth.any(axis=0)).tolist():
        found[a] = metrics.average_precision_score(truth[:, a], values[:, a])
    return found


def mean_of_defined(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean over the last axis without what is NaN; NaN where nothing else is."""
    there = ~np.isnan(values)
    count = there.sum(axis=-1)
    total = np.where(there, values, 0.0).sum(axis=-1)
    mean: NDArray[np.float64] = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    return mean


def of_each(true: NDArray[np.int64], decision: NDArray[np.float64]) -> tuple[Array, Array]:
    """Codes of classes and decision values -> truth and values of every class against the rest.

    Parameters
    ----------
    true : int64 array, shape (n,)
    decision : float64 array, shape (n,) or (n, n_classes)
        Of two classes positive for the second one.
    """
    values = np.column_stack([-decision, decision]) if decision.ndim == 1 else decision
    return true[:, None] == np.arange(values.shape[1]), values


def resampled(
    weight: NDArray[np.float64], truth: NDArray[np.bool_], decision: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The same in bootstrap resamples, see `textsvm.evaluation.bootstrap`.

    Parameters
    ----------
    weight : float64 array, shape (resamples, n)
        How often each document was drawn.
    truth, decision : arrays, shape (n, n_classes)

    Returns
    -------
    float64 array, shape (resamples, n_classes)
    """
    values = _ranked(decision)
    found = np.empty((len(weight), truth.shape[1]))
    for a in range(truth.shape[1]):
        order = np.argsort(-values[:, a], kind="stable")
        ranked = values[order, a]
        last = np.append(ranked[1:] != ranked[:-1], True)
        _resampled(weight, order, truth[order, a], last, found[:, a])
    return found


@njit(nogil=True, cache=True)
def _resampled(weight: Array, order: Array, truth: Array, last: Array, found: Array) -> None:
    # From the largest value on; `last` ends a run of equal ones.
    for r in range(len(weight)):
        above, hits, fresh, area = 0.0, 0.0, 0.0, 0.0
        for i in range(len(order)):
            w = weight[r, order[i]]
            above += w
            if truth[i]:
                fresh += w
            if last[i] and fresh > 0:
                hits += fresh
                area += fresh * hits / above
                fresh = 0.0
        found[r] = area / hits if hits > 0 else np.nan


def _ranked(decision: NDArray[np.float64]) -> NDArray[np.float64]:
    values: NDArray[np.float64] = np.nan_to_num(decision, nan=-np.finfo(np.float64).max)
    return values
