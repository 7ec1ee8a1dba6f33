"""From the values of machines to scores, predictions and probabilities."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.errors import InputError
from textsvm.solvers.class_scores import class_scores

#: The prediction for a rejected document.
UNSURE = "unsure"


def quiet_overflow() -> np.errstate:
    """Suppress NumPy's overflow warnings: `require_numbers` reports values that are too large."""
    return np.errstate(over="ignore", invalid="ignore")


def require_numbers(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Values of machines, shape (n, n_machines), as they are; InputError if one is infinite or no number."""
    for i in np.flatnonzero(~np.isfinite(values).all(axis=1))[:1]:
        raise InputError(
            f"document {i + 1:,} of those given has no finite decision value: its numbers, or those of the "
            "model, are too large for this kernel; scale them, or train it again"
        )
    return values


def scores_of_classes(values: NDArray[np.float64], n_classes: int, strategy: str) -> NDArray[np.float64]:
    """Values of a classifier's machines, shape (n, n_machines) -> its decision function."""
    if n_classes == 2 and values.shape[1] == 2:
        return values[:, 1] - values[:, 0]  # Crammer-Singer; the margin is on the difference
    return class_scores(values, n_classes, strategy)


def winners(scores: NDArray[np.float64], classes: NDArray[Any]) -> NDArray[Any]:
    """The class of each document, shape (n,), by the decision function."""
    return classes[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]


def probabilities_of(maps: Mapping[str, NDArray[Any]], decision: NDArray[np.float64]) -> NDArray[np.float64]:
    """Decision values, shape (n,) or (n, n_classes) -> probabilities, shape (n, n_classes).

    Parameters
    ----------
    maps : dict of arrays
        See `textsvm.CalibratedSVC.calibration_state`.
    decision : float64 array
    """
    columns = decision[:, None] if decision.ndim == 1 else decision
    p = np.stack([_mapped(maps, k, column) for k, column in enumerate(columns.T)], axis=1)
    if p.shape[1] == 1:
        return np.concatenate([1 - p, p], axis=1)
    total = p.sum(axis=1, keepdims=True)
    return np.divide(p, total, out=np.full_like(p, 1 / p.shape[1]), where=total > 0)


def checked_maps(state: Mapping[str, NDArray[Any]], n_classes: int) -> dict[str, NDArray[Any]]:
    """Check the arrays of `textsvm.CalibratedSVC.calibration_state`; ValueError if they are damaged."""
    n_maps = 1 if n_classes == 2 else n_classes
    taken = {name: np.asarray(values) for name, values in state.items()}
    if set(taken) not in ({"a", "b"}, {"x", "y", "starts"}):
        raise ValueError("its calibration is of no known method")
    for name, values in taken.items():
        kind = np.int64 if name == "starts" else np.float64
        if values.ndim != 1 or values.dtype != kind or not np.isfinite(values).all():
            raise ValueError(f"its calibration {name!r} is not one row of finite numbers")
    if "a" in taken:
        if not len(taken["a"]) == len(taken["b"]) == n_maps:
            raise ValueError("its calibration does not fit its classes")
    else:
        x, y, starts = taken["x"], taken["y"], taken["starts"]
        if len(starts) != n_maps + 1 or starts[0] != 0 or starts[-1] != len(x) or len(x) != len(y):
            raise ValueError("its calibration does not fit its classes")
        if (starts[1:] <= starts[:-1]).any() or not rising([0, *np.sort(y), 1]):
            raise ValueError("its calibration has a map without points, or one that leaves 0..1")
        for first, last in pairwise(starts):
            if not rising(x[first:last]) or not rising(y[first:last]):
                raise ValueError("its calibration has a map that falls")
    return taken


def check_reject(reject: Any, classes: NDArray[Any] | None = None) -> None:
    """Raise InputError if `reject` is invalid, or does not fit the classes."""
    if reject is None:
        return
    bounds = np.atleast_1d(np.asarray(reject, object))
    numbers = [isinstance(b, int | float | np.number) and not isinstance(b, bool) for b in bounds]
    if not all(numbers) or bounds.ndim > 1 or len(bounds) > 2 or not rising([0, *bounds, 1]):
        raise InputError(f"reject={reject!r} is neither a probability nor two, (low, high), from 0 to 1")
    if classes is None:
        return
    if len(bounds) == 2 and len(classes) > 2:
        raise InputError(f"two thresholds are for two classes and there are {len(classes)}; give one")
    if UNSURE in classes.tolist():
        raise InputError(f"a class is named {UNSURE!r}, which is what rejected documents get; rename it")


def rising(values: Any) -> bool:
    """Whether no value is less than the one before."""
    return bool(np.all(np.diff(np.asarray(values, float)) >= 0))


def decide(probabilities: NDArray[np.float64], classes: NDArray[Any], reject: Any) -> NDArray[Any]:
    """The most probable class of each document, shape (n,); "unsure" if it is rejected."""
    best = probabilities.argmax(axis=1)
    if reject is None:
        return classes[best]
    bounds = np.atleast_1d(np.asarray(reject, float))
    if len(bounds) == 2:
        best = (probabilities[:, 1] >= bounds[1]).astype(int)
        unsure = (probabilities[:, 1] > bounds[0]) & (probabilities[:, 1] < bounds[1])
    else:
        unsure = probabilities.max(axis=1) < bounds[0]
    labels = classes[best].astype(object)
    labels[unsure] = UNSURE
    return labels


def _mapped(maps: Mapping[str, NDArray[Any]], k: int, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Map number k of these decision values, shape (n,)."""
    if "a" in maps:
        with np.errstate(over="ignore"):
            mapped: NDArray[np.float64] = 1 / (1 + np.exp(maps["a"][k] * values + maps["b"][k]))
        return mapped
    part = slice(maps["starts"][k], maps["starts"][k + 1])
    return np.interp(values, maps["x"][part], maps["y"][part])
