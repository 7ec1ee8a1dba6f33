"""Strategies: the texts of a pool in the order in which to label them.

Each strategy is a function of `Candidates` and of a number m, and returns m positions among the candidates,
the best first. Without a machine, before two labels have texts, every strategy except "random" takes typical
texts of different clusters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from textsvm.apps.label.machine import Machine

Array = NDArray[np.float64]
Index = NDArray[np.int64]
#: Candidates that are compared with each other: this many per text asked for, and at least and at most.
PER_TEXT, FEWEST, MOST = 10, 50, 500


@dataclass(frozen=True)
class Candidates:
    """The m texts without a label, as a machine of n texts sees them."""

    index: Index  #: shape (m,): Numbers of the texts
    labelled: Index  #: shape (n,): Numbers of the labelled texts
    values: Array | None  #: shape (m, k): Decision values; None without a machine
    machine: Machine | None
    #: (texts, others) -> kernel values, shape (len(texts), len(others))
    similarity: Callable[[Index, Index], NDArray[np.floating]]
    rng: np.random.Generator
    relevant: int | None = None  #: Column of the label whose texts are to be found; None before the first

    def probability(self) -> Array:
        """Probability of each label, shape (m, k)."""
        assert self.machine is not None
        return self.machine.probabilities(self.given_values())

    def uncertainty(self) -> Array:
        """1 less the difference between the probabilities of the two likeliest labels, shape (m,)."""
        p = self.probability()
        if self.machine is not None and self.machine.multilabel:
            return np.asarray(1 - 2 * np.abs(p - 0.5).min(axis=1))
        two = np.partition(p, -2, axis=1)[:, -2:]
        return np.asarray(1 - two[:, 1] + two[:, 0])

    def sample(self, most: int = MOST) -> Index:
        """Positions of random candidates."""
        return np.sort(self.rng.permutation(len(self.index))[:most])

    def given_values(self) -> Array:
        """Decision values, shape (m, k), which there are once there is a machine."""
        assert self.values is not None
        return self.values


def at_random(candidates: Candidates, n: int) -> Index:
    """Random texts."""
    return np.asarray(candidates.rng.permutation(len(candidates.index))[:n], np.int64)


def typical(candidates: Candidates, n: int) -> Index:
    """Typical texts of different clusters, by greedy facility location."""
    some = candidates.sample()
    return some[_cover(candidates, some, np.ones(len(some)), n)]


def margin(candidates: Candidates, n: int) -> Index:
    """Smallest difference between the probabilities of the two likeliest labels."""
    return _largest(candidates.uncertainty(), n)


def entropy(candidates: Candidates, n: int) -> Index:
    """Largest entropy of the calibrated probabilities."""
    p = candidates.probability()
    terms = -xlogy(p, p) - xlogy(1 - p, 1 - p)
    return _largest(terms.sum(axis=1), n)


def change(candidates: Candidates, n: int) -> Index:
    """Largest expected change of the values: mean of |y - f| over the labels that the text may have."""
    p, values = candidates.probability(), candidates.given_values()
    expected = p * np.abs(values - 1) + (1 - p) * np.abs(values + 1)
    return _largest(expected.sum(axis=1), n)


def diverse(candidates: Candidates, n: int) -> Index:
    """Farthest first among the least certain: each differs most from the labelled and the chosen texts."""
    some = margin(candidates, _listed(n))
    index = candidates.index[some]
    among = candidates.similarity(index, index)
    nearest = candidates.similarity(index, candidates.labelled).max(axis=1)
    chosen: list[int] = []
    for _ in range(min(n, len(some))):
        nearest[chosen] = np.inf
        chosen.append(int(nearest.argmin()))
        nearest = np.maximum(nearest, among[:, chosen[-1]])
    return some[chosen]


def density(candidates: Candidates, n: int) -> Index:
    """Facility location weighted by uncertainty: texts in the midst of uncertain texts, in new clusters."""
    some = candidates.sample()
    return some[_cover(candidates, some, candidates.uncertainty()[some], n, 2)]


def relevance(candidates: Candidates, n: int) -> Index:
    """Largest value of the label whose texts are to be found; before the first of these, typical texts."""
    if candidates.relevant is None:
        return typical(candidates, n)
    return _largest(candidates.given_values()[:, candidates.relevant], n)


def mixture(candidates: Candidates, n: int) -> Index:
    """Texts of "density" and of "margin" in turns."""
    turns = np.stack([density(candidates, n), margin(candidates, n)], axis=1)
    if len(candidates.labelled) % 2:
        turns = turns[:, ::-1]
    return np.array(list(dict.fromkeys(turns.ravel().tolist()))[:n], np.int64)


def _cover(candidates: Candidates, some: Index, weight: Array, n: int, power: int = 1) -> Index:
    """Greedy facility location: n of some candidates.

    Each raises the weighted sum, over these candidates, of the similarity, to a power, to the most similar
    labelled or chosen text.
    """
    index = candidates.index[some]
    among, covered = candidates.similarity(index, index) ** power, np.zeros(len(some), np.float32)
    if len(candidates.labelled):
        covered = candidates.similarity(index, candidates.labelled).max(axis=1) ** power
    chosen: list[int] = []
    for _ in range(min(n, len(some))):
        gain = weight @ np.maximum(among - covered[:, None], 0)
        gain[chosen] = -1
        chosen.append(int(gain.argmax()))
        covered = np.maximum(covered, among[:, chosen[-1]])
    return np.asarray(chosen, np.int64)


def _listed(n: int) -> int:
    return min(max(PER_TEXT * n, FEWEST), max(n, MOST))


def _largest(score: Array, n: int) -> Index:
    """Positions of the n largest scores, the largest first."""
    some = np.argpartition(-score, n - 1)[:n] if 0 < n < len(score) else np.arange(len(score))
    return np.asarray(some[np.argsort(-score[some], kind="stable")][:n], np.int64)


Strategy = Callable[[Candidates, int], Index]
STRATEGIES: dict[str, Strategy] = {
    "mixture": mixture,
    "random": at_random,
    "margin": margin,
    "entropy": entropy,
    "change": change,
    "diverse": diverse,
    "density": density,
    "relevance": relevance,
}


def rank(name: str, candidates: Candidates, n: int) -> Index:
    """The n texts to label next by a strategy, as positions among the candidates."""
    if candidates.machine is None and name != "random":
        return typical(candidates, n)
    return STRATEGIES[name](candidates, n)
