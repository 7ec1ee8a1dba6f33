"""Strategies: the texts of a pool in the order in which to label them, and when to stop labelling.

Each strategy is a function of `Candidates` and of a number n, and returns n positions among the candidates,
the best first. Without a machine, before two labels have texts, every strategy except "random" takes typical
texts of different clusters.

Stopping
--------
Accuracy and recall are estimated from labels that the strategy did not choose.

Accuracy. About every tenth text is the next one without a label in a random order of all texts. The texts up
to there, drawn or chosen by the strategy before their turn, are a random sample. A machine that was trained
without a text and its near-copies classifies it. The share of correct labels estimates the accuracy on texts
of the corpus. Clopper and Pearson's interval assumes a number of texts that is fixed beforehand, and skipped
and unsure texts are missing.

Retrieval. Labelling may stop once a binomial test of the latest answers rejects, with probabilities of the
machine and with equal ones, that too many relevant texts are still without a label. reports/labelling.md has
the test, which is no theorem, and its rate of success in simulated searches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, expit

from textsvm.apps.label.machine import Machine
from textsvm.arrays import Bools, Floats, Ints
from textsvm.model.rules import fit_logistic

MOST = 500  #: Maximum number of candidates that are compared with each other
RECALL = 0.95  #: Recall to reach
#: Recall to reach if the missing texts are unlike those found, so that the machine does not rank them.
UNRANKED_RECALL = 0.8
LEVEL = 0.05  #: Probability of the latest answers, if the recall is lower, at which a search may stop
HITS = 10  #: Maximum number of relevant texts among the latest answers


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


@dataclass(frozen=True)
class Retrieval:
    """State of a search for all relevant texts."""

    n_found: int  #: Relevant texts with a label
    total: float | None  #: Estimated number of relevant texts; None without relevant and other texts
    enough: bool  #: Whether the recall is probably reached


def retrieval(relevant: Bools, values: Floats, unlabelled: Floats, n_outside: int) -> Retrieval:
    """Judge whether enough relevant texts are labelled.

    `relevant` are the answers, in their order, and `values` the decision values of these texts by machines
    without them. `unlabelled` are values of the other texts of the pool; `n_outside` is the number of texts
    without a label outside the pool.
    """
    n, n_found = len(relevant), int(relevant.sum())
    n_unlabelled = len(unlabelled) + n_outside
    if n_found in (0, n) or not n_unlabelled:
        return Retrieval(n_found, None if n_unlabelled else n_found, not n_unlabelled)
    # Platt's sigmoid (2000), with a slope of at least 0: else the ranking is worse than none.
    target = np.where(relevant, (n_found + 1) / (n_found + 2), 1 / (n - n_found + 2))
    odds = float(np.log((n_found + 1) / (n - n_found + 1)))
    slope, offset = fit_logistic(values, target, np.ones(n), (1.0, odds))
    slope, offset = (slope, offset) if slope >= 0 else (0.0, odds)
    p, p_unlabelled = expit(slope * values + offset), float(expit(slope * unlabelled + offset).sum())
    missing = p_unlabelled + n_outside * (n_found + p_unlabelled) / (n + len(unlabelled))
    starts = np.append(0, np.flatnonzero(relevant) + 1)[::-1][: HITS + 1]
    enough = _unlikely(n_found, RECALL, np.array([p[start:].sum() for start in starts.tolist()]), missing)
    enough = enough and _unlikely(n_found, UNRANKED_RECALL, n - starts, n_unlabelled)
    return Retrieval(n_found, n_found + missing, enough)


def _unlikely(n_found: int, recall: float, latest: Floats, rest: float) -> bool:
    """Whether so few relevant texts among the latest answers are unlikely if the recall is lower.

    `latest` are sums of probabilities of these answers, with 0, 1, ... relevant texts, `rest` of the others.
    """
    k, hits = int(n_found / recall + 1e-9) + 1 - n_found, np.arange(len(latest))
    return bool(bdtr(hits, k + hits, latest / (latest + rest)).min() <= LEVEL)


def labels_per_point(curve: Sequence[tuple[int, float]]) -> float | None:
    """Labels that one more percent of accuracy would cost, by a power law; None if it is unknown.

    `curve` has the number of labels and the accuracy of each point. The law is error = b n^-c, without a term
    for the error that no number of labels removes: near that error it promises too much.
    """
    if len(curve) < 3:
        return None
    sizes, accuracy = np.array(curve, np.float64).T
    slope, start = np.polyfit(np.log(sizes), np.log(np.maximum(1 - accuracy, 1e-3)), 1, w=np.sqrt(sizes))
    goal = np.exp(start + slope * np.log(sizes[-1])) - 0.01
    if slope > -0.02 or goal <= 0:
        return None
    return float(np.exp((np.log(goal) - start) / slope) - sizes[-1])
