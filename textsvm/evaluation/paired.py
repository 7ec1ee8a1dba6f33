"""Two classifiers on the same documents: is the one that was right more often really better?

Only the documents on which exactly one of them is right speak. If neither is better, such a document is for
the one or the other with probability 1/2 (McNemar 1947; here exact, by the binomial distribution). The
difference in accuracy has a percentile bootstrap interval over documents: resampled counts of "only the
first right", "only the second", "both or none" are multinomial.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import binomtest

from textsvm.errors import InputError


@dataclass(frozen=True)
class Paired:
    """How two classifiers differ on the same documents.

    Attributes
    ----------
    n : int
    difference : float
        Accuracy of the first less that of the second.
    interval : (float, float)
        Of the difference.
    only_first, only_second : int
        Documents on which only that one is right.
    p_value : float
        Of the exact test that neither is better, two-sided.
    """

    n: int
    difference: float
    interval: tuple[float, float]
    only_first: int
    only_second: int
    p_value: float


def compare_predictions(
    truth: ArrayLike,
    first: ArrayLike,
    second: ArrayLike,
    *,
    resamples: int = 10_000,
    level: float = 0.95,
    seed: int = 0,
) -> Paired:
    """Compare two predictions of the same documents.

    Parameters
    ----------
    truth, first, second : array-like, shape (n,)
        Labels.
    resamples : int
        Of the bootstrap.
    level : float
        Share of the resamples between the bounds of the interval.
    seed : int

    Raises
    ------
    InputError
        If there are no documents, or not as many predictions as labels.
    """
    labels, one, other = (np.asarray(given) for given in (truth, first, second))
    if labels.ndim != 1 or labels.shape != one.shape or labels.shape != other.shape:
        raise InputError(
            f"there are {labels.shape} labels and predictions of {one.shape} and {other.shape} documents; "
            "give one of each a document"
        )
    n = len(labels)
    if n == 0:
        raise InputError("there are no documents to compare predictions on")
    right, right_too = one == labels, other == labels
    only_first, only_second = int((right & ~right_too).sum()), int((right_too & ~right).sum())
    counts = np.array([only_first, only_second, n - only_first - only_second])
    drawn = np.random.default_rng(seed).multinomial(n, counts / n, resamples)
    tail = (1 - level) / 2
    low, high = np.quantile((drawn[:, 0] - drawn[:, 1]) / n, [tail, 1 - tail])
    apart = only_first + only_second
    p_value = float(binomtest(only_first, apart).pvalue) if apart else 1.0
    return Paired(
        n, (only_first - only_second) / n, (float(low), float(high)), only_first, only_second, p_value
    )
