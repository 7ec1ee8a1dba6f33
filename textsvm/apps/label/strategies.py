"""Strategies: the texts of a pool in the order in which to label them.

Each strategy is a function of `Candidates` and of a number n, and returns n positions among the candidates,
the best first. Without a machine, before two labels have texts, every strategy except "random" takes typical
texts of different clusters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from textsvm.apps.label.machine import Machine
from textsvm.arrays import Floats, Ints

MOST = 500  #: Maximum number of candidates that are compared with each other


@dataclass(frozen=True)
class Candidates:
    """The m texts without a label, as a machine of n texts sees them."""

    index: Ints  #: shape (m,): Numbers of the texts
    labelled: Ints  #: shape (n,): Numbers of the labelled texts
    values: Floats | None  #: shape (m, k): Decision values; None without a machine
    machine: Machine | None
    #: (texts, others) -> kernel values, shape (len(texts), len(others))
    similarity: Callable[[Ints, Ints], NDArray[np.floating]]
    rng: np.random.Generator
    relevant: int | None = None  #: Column of the label whose texts are searched for; None before the first

    def uncertainty(self) -> Floats:
        """1 less the difference between the probabilities of the two likeliest labels, shape (m,)."""
        assert self.machine is not None
        assert self.values is not None
        p = self.machine.probabilities(self.values)
        if self.machine.multilabel:
            return np.asarray(1 - 2 * np.abs(p - 0.5).min(axis=1))
        two = np.partition(p, -2, axis=1)[:, -2:]
        return np.asarray(1 - two[:, 1] + two[:, 0])

    def cover(self, weight: Floats, n: int) -> Ints:
        """Greedy facility location: n of at most `MOST` random candidates.

        Each raises the weighted sum, over these candidates, of the similarity to the most similar labelled or
        chosen text. The similarity is the kernel value, centred on these candidates, if it is positive.
        `weight` has shape (m,).
        """
        sample = np.sort(self.rng.permutation(len(self.index))[:MOST])
        index, weight = self.index[sample], weight[sample]
        kernel, covered = self.similarity(index, index), np.zeros(len(sample), np.float32)
        offset = (kernel.mean(axis=1) - kernel.mean())[:, None]
        among = np.maximum(kernel - offset - kernel.mean(axis=0), 0)
        if len(self.labelled):
            near = self.similarity(index, self.labelled)
            covered = np.maximum(near - offset - near.mean(axis=0), 0).max(axis=1)
        chosen: list[int] = []
        for _ in range(min(n, len(sample))):
            gain = weight @ np.maximum(among - covered[:, None], 0)
            gain[chosen] = -1
            chosen.append(int(gain.argmax()))
            covered = np.maximum(covered, among[:, chosen[-1]])
        return sample[np.asarray(chosen, np.int64)]


def at_random(candidates: Candidates, n: int) -> Ints:
    """Random texts."""
    return np.asarray(candidates.rng.permutation(len(candidates.index))[:n], np.int64)


def typical(candidates: Candidates, n: int) -> Ints:
    """Typical texts of different clusters, by greedy facility location."""
    return candidates.cover(np.ones(len(candidates.index)), n)


def margin(candidates: Candidates, n: int) -> Ints:
    """Smallest difference between the probabilities of the two likeliest labels."""
    return _largest(candidates.uncertainty(), n)


def density(candidates: Candidates, n: int) -> Ints:
    """Facility location weighted by uncertainty: texts in the midst of uncertain texts, in new clusters."""
    return candidates.cover(candidates.uncertainty(), n)


def relevance(candidates: Candidates, n: int) -> Ints:
    """Largest value of the label whose texts are searched for; before the first of these, typical texts."""
    if candidates.relevant is None:
        return typical(candidates, n)
    assert candidates.values is not None
    return _largest(candidates.values[:, candidates.relevant], n)


def mixture(candidates: Candidates, n: int) -> Ints:
    """Texts of "density" and of "margin" in turns."""
    turns = np.stack([density(candidates, n), margin(candidates, n)], axis=1)
    if len(candidates.labelled) % 2:
        turns = turns[:, ::-1]
    return np.array(list(dict.fromkeys(turns.ravel().tolist()))[:n], np.int64)


def _largest(score: Floats, n: int) -> Ints:
    """Positions of the n largest scores, the largest first."""
    best = np.argpartition(-score, n - 1)[:n] if 0 < n < len(score) else np.arange(len(score))
    return np.asarray(best[np.argsort(-score[best], kind="stable")][:n], np.int64)


Strategy = Callable[[Candidates, int], Ints]
STRATEGIES: dict[str, Strategy] = {
    "mixture": mixture,
    "random": at_random,
    "margin": margin,
    "relevance": relevance,
}


def rank(name: str, candidates: Candidates, n: int) -> Ints:
    """The n texts to label next by a strategy, as positions among the candidates."""
    if candidates.machine is None and name != "random":
        return typical(candidates, n)
    return STRATEGIES[name](candidates, n)
