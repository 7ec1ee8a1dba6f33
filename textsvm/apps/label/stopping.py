"""When to stop: estimates from labels that the strategy did not choose, and a stopping rule for retrieval.

Accuracy. About every tenth text is the next one without a label in a random order of all texts. The texts up
to there, drawn or chosen by the strategy before their turn, are a random sample. A machine that was trained
without a text and its near-copies classifies it. The share of correct labels estimates the accuracy on texts
of the corpus. Clopper and Pearson's interval assumes a number of texts that is fixed beforehand, and skipped
and unsure texts are missing.

Retrieval. The machine gives every text a probability p of being relevant: Platt's sigmoid of the decision
value of a machine that was trained without the text. Take the latest answers, h of them relevant, and suppose
that k relevant texts are still without a label. If the probabilities are right about which texts are more
likely relevant than others, each of these k + h texts is among the latest answers with probability

    rho = sum of p over the latest answers / sum of p over the latest answers and the texts without a label.

The number of these k + h texts among the latest answers is Binomial(k + h, rho). Labelling may stop once
P(at most h) <= 0.05 for the smallest k that takes the recall below 95 %, and for the answers since one of the
latest 11 relevant texts. With equal p, a ranking that says nothing, it is a test of random draws, as that of
Callaghan and Mueller-Hansen (2020). With few relevant texts k is 1, and nearly all of the sum must be read.

A machine that has only seen relevant texts of one kind gives those of another kind too low a probability. So
the test with equal p must hold, too, for the smallest k that takes the recall below 80 %.

This is no theorem, for the probabilities are estimates and the test is repeated; reports/labelling.md has its
rate of success in simulated searches. Texts outside the pool have the mean probability: nothing ranks them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import bdtr, expit

from textsvm.arrays import Bools, Floats

RECALL = 0.95  #: Recall to reach
#: Recall to reach if the missing texts are unlike those found, so that the machine does not rank them.
UNRANKED_RECALL = 0.8
LEVEL = 0.05  #: Probability of the latest answers, if the recall is lower, at which a search may stop
HITS = 10  #: Maximum number of relevant texts among the latest answers
STEPS, STEP = 25, 5.0  #: Maximum number of Newton steps of the sigmoid, and maximum size of a step


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
    slope, offset = _sigmoid(values, relevant)
    p, p_unlabelled = expit(slope * values + offset), float(expit(slope * unlabelled + offset).sum())
    missing = p_unlabelled + n_outside * (n_found + p_unlabelled) / (n + len(unlabelled))
    starts = np.append(0, np.flatnonzero(relevant) + 1)[::-1][: HITS + 1]
    latest = np.array([p[start:].sum() for start in starts.tolist()])
    enough = _unlikely(n_found, RECALL, latest, missing)
    enough = enough and _unlikely(n_found, UNRANKED_RECALL, n - starts, n_unlabelled)
    return Retrieval(n_found, n_found + missing, enough)


def _unlikely(n_found: int, recall: float, latest: Floats, rest: float) -> bool:
    """Whether so few relevant texts among the latest answers are unlikely if the recall is lower.

    `latest` are sums of probabilities of these answers, with 0, 1, ... relevant texts, `rest` of the others.
    """
    k, hits = int(n_found / recall + 1e-9) + 1 - n_found, np.arange(len(latest))
    return bool(bdtr(hits, k + hits, latest / (latest + rest)).min() <= LEVEL)


def _sigmoid(values: Floats, relevant: Bools) -> tuple[float, float]:
    """Slope, at least 0, and offset of Platt's sigmoid (2000), by Newton's method."""
    n_relevant, n_other = int(relevant.sum()), int((~relevant).sum())
    target = np.where(relevant, (n_relevant + 1) / (n_relevant + 2), 1 / (n_other + 2))
    design = np.stack([values, np.ones(len(values))])
    point = np.array([1.0, np.log((n_relevant + 1) / (n_other + 1))])
    for _ in range(STEPS):
        p = expit(point @ design)
        curvature = (design * (p * (1 - p))) @ design.T + 1e-6 * np.eye(2)
        step = np.linalg.solve(curvature, design @ (p - target))
        point = point - step * min(1.0, STEP / max(np.abs(step).max(), 1e-9))
    if point[0] < 0:  # the ranking is worse than none
        return 0.0, float(np.log((n_relevant + 1) / (n_other + 1)))
    return float(point[0]), float(point[1])


def labels_per_point(curve: Sequence[tuple[int, float]]) -> float | None:
    """Labels that one more percent of accuracy would cost, by a power law; None if it is unknown.

    `curve` has the number of labels and the accuracy of each point. The law is error = b n^-c, without a term
    for the error that no number of labels removes: near that error it promises too much.
    """
    if len(curve) < 3:
        return None
    sizes, accuracy = np.array(curve, np.float64).T
    error = np.maximum(1 - accuracy, 1e-3)
    slope, start = np.polyfit(np.log(sizes), np.log(error), 1, w=np.sqrt(sizes))
    goal = np.exp(start + slope * np.log(sizes[-1])) - 0.01
    if slope > -0.02 or goal <= 0:
        return None
    return float(np.exp((np.log(goal) - start) / slope) - sizes[-1])
