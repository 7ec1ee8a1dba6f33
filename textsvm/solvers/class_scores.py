"""Class scores from the decision values of all machines of a classifier."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

STRATEGIES = ("ovo", "ovr", "crammer-singer")


def class_scores(values: NDArray[np.float64], n_classes: int, strategy: str) -> NDArray[np.float64]:
    """Class scores from the values of all machines; the largest score wins.

    "ovo" counts votes, and breaks ties by the sum of the values, scaled to less than half a vote. Shapes are
    (n, n_machines) -> (n, n_classes), or (n,) if there is a single machine for two classes.
    """
    if values.shape[1] == 1:
        return values[:, 0]
    if strategy != "ovo":
        return values
    votes = np.zeros((len(values), n_classes))
    sums = np.zeros((len(values), n_classes))
    for k, (a, b) in enumerate(combinations(range(n_classes), 2)):
        second = values[:, k] > 0
        votes[:, b] += second
        votes[:, a] += ~second
        sums[:, b] += values[:, k]
        sums[:, a] -= values[:, k]
    return votes + sums / (3 * (np.abs(sums) + 1))


def number_of_machines(n_classes: int, strategy: str) -> int:
    """Number of machines of a classifier."""
    if strategy == "ovo" or (n_classes == 2 and strategy == "ovr"):
        return n_classes * (n_classes - 1) // 2
    return n_classes
