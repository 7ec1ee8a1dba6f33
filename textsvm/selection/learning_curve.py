"""Would more texts help? The error of machines that learn from parts of them, and a power law through it.

Every training part of a cross-validation is thinned to nested shares, class by class, and all of them are
trained and tested on one Gram where the kernel allows it. The error as a function of n training texts is

    error(n) = a + b n^-c,    a, b >= 0,

which is linear in a and b for each c of a grid: the c of least squares of relative errors is taken (the law
is that of Cortes et al. 1994 for classifiers). Its uncertainty is that over folds, drawn anew with
replacement.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import nnls

from textsvm.errors import InputError
from textsvm.machines.base import KernelMachine
from textsvm.runtime.parallel import StageProgress
from textsvm.runtime.plain_json import to_json
from textsvm.selection.cross_validation import CrossValidation, cross_validate
from textsvm.selection.leakage import LeakageWarning

Array = NDArray[np.float64]
#: Shares of the training texts below all of them.
SHARES = (0.1, 0.2, 0.4, 0.8)
#: Exponents that are tried, and resamples of the folds.
POWERS, RESAMPLES = np.linspace(0.1, 1.5, 29), 300
#: A gain of a smaller share of the error is hardly one.
WORTH = 0.05


@dataclass(frozen=True)
class LearningCurve:
    """Errors by the number of training texts.

    Attributes
    ----------
    metric : str
        Of which the error is the value itself ("mae"), or what it lacks to 1.
    n : float64 array, shape (n_points,)
        Training texts, mean over folds.
    error, sd : float64 arrays, shape (n_points,)
        Mean and sample standard deviation over folds.
    power_law : (float, float, float)
        a, b and c.
    expected : float
        The law's error of machines that learn from twice as many texts.
    interval : (float, float)
        Of `expected`, 95 % over folds.
    gain : (float, float, float)
        By how much the error falls with twice as many texts, and the bounds of it.
    """

    metric: str
    n: Array
    error: Array
    sd: Array
    power_law: tuple[float, float, float]
    expected: float
    interval: tuple[float, float]
    gain: tuple[float, float, float]

    @property
    def would_help(self) -> str:
        """Whether more texts would help: "yes", "hardly" or "unclear"."""
        worth, (_, low, high) = WORTH * self.error[-1], self.gain
        if low >= worth > 0:
            return "yes"
        return "hardly" if high <= worth else "unclear"

    def law(self, n: ArrayLike) -> Array:
        """The fitted error of machines that learn from n texts."""
        a, b, c = self.power_law
        return a + b * np.asarray(n, float) ** -c

    def as_dict(self) -> dict[str, Any]:
        """JSON values."""
        return to_json({**vars(self), "would_help": self.would_help})


def learning_curve(
    model: KernelMachine,
    X: Any,
    y: Any,
    result: CrossValidation,
    *,
    shares: Sequence[float] = SHARES,
    sample_weight: ArrayLike | None = None,
    progress: StageProgress | None = None,
) -> LearningCurve:
    """The errors of a cross-validation, and of its folds with fewer training texts.

    Parameters
    ----------
    model : SVC, MultilabelSVC or SVR
    X, y, sample_weight
        As given to `textsvm.selection.cross_validation.cross_validate`.
    result : CrossValidation
        What that gave: its folds, and the errors with all training texts.
    shares : sequence of float
        Ascending, between 0 and 1.
    progress : callable, optional

    Raises
    ------
    InputError
        If there are too few texts for a curve.
    """
    metric = next(name for name in ("mae", "micro_f1", "accuracy") if name in result.mean)
    strata = np.zeros(len(result.tested)) if metric != "accuracy" else np.asarray(y, object)
    folds = [
        (part, test)
        for fold, (train, test) in enumerate(result.folds)
        for part in _thinned(train, strata, shares, fold)
    ]
    if min(len(part) for part, _ in folds) < 4:
        raise InputError(
            f"{len(result.tested):,} documents are too few for a learning curve; a tenth of a training part "
            "must be 4 at least"
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LeakageWarning)  # those of these folds have been told of
        thin = cross_validate(
            model, X, y, cv=folds, sample_weight=sample_weight, metrics=[metric], progress=progress
        )
    k = len(result.folds)
    fewer = [[row[metric] for row in thin.table[f * len(shares) : (f + 1) * len(shares)]] for f in range(k)]
    values = np.column_stack([np.array(fewer), [row[metric] for row in result.table]])
    sizes = np.array([len(part) for part, _ in folds]).reshape(k, -1)
    sizes = np.column_stack([sizes, [len(train) for train, _ in result.folds]])
    return fit(metric, sizes.mean(axis=0), values if metric == "mae" else 1 - values)


def fit(metric: str, n: Array, errors: Array) -> LearningCurve:
    """A curve from the errors of each fold.

    Parameters
    ----------
    metric : str
    n : float64 array, shape (n_points,)
        Training texts, ascending.
    errors : float64 array, shape (n_folds, n_points)
    """
    mean = errors.mean(axis=0)
    law, random = _power_law(n, mean), np.random.default_rng(0)
    drawn = errors[random.integers(0, len(errors), (RESAMPLES, len(errors)))].mean(axis=1)
    later = np.array([_at(_power_law(n, each), np.array([n[-1], 2 * n[-1]])) for each in drawn])
    now, twice = _at(law, np.array([n[-1], 2 * n[-1]]))
    low, high = np.percentile(later[:, 1], [2.5, 97.5])
    least, most = np.percentile(later[:, 0] - later[:, 1], [2.5, 97.5])
    sd = errors.std(axis=0, ddof=1) if len(errors) > 1 else np.full(len(n), np.nan)
    gain = float(now - twice), float(least), float(most)
    return LearningCurve(metric, n, mean, sd, law, float(twice), (float(low), float(high)), gain)


def _thinned(
    train: NDArray[np.int64], strata: NDArray[Any], shares: Sequence[float], seed: int
) -> list[NDArray[np.int64]]:
    """Nested shares of a training part, class by class, at least one document of each class."""
    random = np.random.default_rng(seed)
    mixed = random.permutation(train)
    classes = [mixed[strata[mixed] == each] for each in np.unique(strata[train])]
    return [
        np.sort(np.concatenate([each[: max(1, round(share * len(each)))] for each in classes]))
        for share in shares
    ]


def _power_law(n: Array, error: Array) -> tuple[float, float, float]:
    """a, b and c of least squares, the residuals relative to the errors."""
    best = (np.inf, (float(error[-1]), 0.0, 1.0))
    weight = 1 / np.maximum(error, 1e-3 * max(float(error.max()), 1e-12))
    for c in POWERS.tolist():
        basis = np.column_stack([np.ones(len(n)), (n / n[-1]) ** -c])
        (a, b), residual = nnls(basis * weight[:, None], error * weight)
        best = min(best, (float(residual), (float(a), float(b * n[-1] ** c), c)))
    return best[1]


def _at(law: tuple[float, float, float], n: Array) -> Array:
    a, b, c = law
    return a + b * n**-c
