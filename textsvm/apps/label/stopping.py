"""When to stop: estimates from labels that the strategy did not choose, and a stopping rule for retrieval.

Accuracy. About every tenth text is the next one without a label in a random order of all texts. The texts up
to there, drawn or chosen by the strategy before their turn, are a random sample. A machine that was trained
without a text and its near-copies classifies it. The share of correct labels estimates the accuracy on texts
of the corpus. Clopper and Pearson's interval assumes a number of texts that is fixed beforehand, and skipped
and unsure texts are missing.

Retrieval. Let F relevant texts be labelled and U texts be unlabelled before a random draw from the latter. If
T texts of the corpus are relevant, the draw is relevant with probability (T - F) / U, whatever the strategy
did before. Hence the likelihood L(T) of all draws is known up to T, and with weights w of smaller totals

    E(T) = sum over r of w_r L(r T) / L(T)

is a martingale with mean 1 if T is the true total: by Ville's inequality it ever exceeds 1 / 0.05 with
probability at most 0.05 (Robbins 1970; Waudby-Smith and Ramdas 2020). Labelling may stop once E(T) is that
large for every T of which F is less than 95 %. The rule may be checked after every answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp, xlog1py, xlogy

from textsvm.arrays import Floats

#: Recall to reach.
RECALL = 0.95
#: Share of the accuracy with the labels of all texts that is planned for.
FULL = 0.95
#: Confidence in the recall.
CONFIDENCE = 0.95
#: Smaller totals r T, as shares s: r = RECALL + s (1 - RECALL).
SMALLER_SHARES = (0.0, 0.4, 0.6, 0.8)
#: Weight w_r of each smaller total.
SMALLER_WEIGHTS = (0.6, 0.2, 0.1, 0.1)
#: Number of consecutive totals that are compared, from the smallest on.
CONSECUTIVE = 200
#: Number of larger totals that are compared, in a geometric sequence.
GEOMETRIC = 100
#: Number of consecutive irrelevant texts after which more texts are drawn at random.
MISSES = 30
#: Share of the texts that are then drawn at random.
LATE_SHARE = 0.9


class Draw(NamedTuple):
    """A random draw from the texts without a label."""

    n_found: int  #: Relevant texts with a label before the draw
    n_unlabelled: int  #: Texts without a label before the draw
    relevant: bool


@dataclass(frozen=True)
class Retrieval:
    """State of a search for all relevant texts."""

    n_found: int  #: Relevant texts with a label
    total: float  #: Likeliest number of relevant texts
    enough: bool  #: Whether the recall is reached with the confidence


def retrieval(draws: Sequence[Draw], n_found: int, n_unlabelled: int) -> Retrieval:
    """Judge whether enough relevant texts are labelled.

    `draws` are all random draws, in their order. `n_found` relevant texts have a label now, and each of the
    `n_unlabelled` texts without a label may be relevant.
    """
    most = n_found + n_unlabelled
    totals = _grid(n_found, most)
    likeliest = float(totals[log_likelihood(draws, totals).argmax()])
    too_many = _grid(int(np.floor(n_found / RECALL + 1e-9)) + 1, most)
    terms = [
        np.log(weight) + log_likelihood(draws, (RECALL + share * (1 - RECALL)) * too_many)
        for share, weight in zip(SMALLER_SHARES, SMALLER_WEIGHTS, strict=True)
    ]
    against = logsumexp(terms, axis=0) - log_likelihood(draws, too_many)
    return Retrieval(n_found, likeliest, bool((against >= -np.log(1 - CONFIDENCE)).all()))


def random_share(share: float, misses: int) -> float:
    """Share of the texts to draw at random if the last `misses` texts were irrelevant."""
    return share if misses < MISSES else max(share, LATE_SHARE)


def log_likelihood(draws: Sequence[Draw], totals: Floats) -> Floats:
    """Logarithm of the likelihood of random draws for numbers of relevant texts, shape (len(totals),)."""
    n_found, n_unlabelled, relevant = np.array(draws, np.float64).reshape(-1, 3).T[:, :, None]
    p = np.clip((totals - n_found) / n_unlabelled, 0, 1)
    return np.asarray(np.where(relevant > 0, xlogy(1.0, p), xlog1py(1.0, -p)).sum(axis=0))


def _grid(least: int, most: int) -> Floats:
    """Numbers from `least` to `most`, far ones in a geometric sequence."""
    near = np.arange(least, min(most, least + CONSECUTIVE) + 1)
    if most <= least + CONSECUTIVE:
        return near.astype(np.float64)
    far = np.rint(np.geomspace(least + CONSECUTIVE, most, GEOMETRIC))
    return np.unique(np.append(near, far)).astype(np.float64)


def labels_per_point(curve: Sequence[tuple[int, float]], n_texts: int | None = None) -> float | None:
    """Labels that one more percent of accuracy would cost, by a power law; None if it is unknown.

    With the number of all texts, labels until `FULL` of the accuracy with all labels. `curve` has the number
    of labels and the accuracy of each point. The law is error = b n^-c, without a term for the error that no
    number of labels removes: near that error it promises too much.
    """
    if len(curve) < 3:
        return None
    sizes, accuracy = np.array(curve, np.float64).T
    error = np.maximum(1 - accuracy, 1e-3)
    slope, start = np.polyfit(np.log(sizes), np.log(error), 1, w=np.sqrt(sizes))
    goal = np.exp(start + slope * np.log(n_texts or sizes[-1])) - 0.01
    if n_texts is not None:
        goal = 1 - FULL * (0.99 - goal)
    if slope > -0.02 or goal <= 0:
        return None
    return float(np.exp((np.log(goal) - start) / slope) - sizes[-1])


def cohen_kappa(first: Sequence[object], second: Sequence[object]) -> float:
    """Agreement of two people beyond chance (Cohen 1960); NaN if both always give the same label."""
    labels = {label: code for code, label in enumerate(dict.fromkeys([*first, *second]))}
    if not labels:
        return float("nan")
    a, b = (np.array([labels[label] for label in person], np.int64) for person in (first, second))
    shares = [np.bincount(codes, minlength=len(labels)) / len(codes) for codes in (a, b)]
    chance = float(shares[0] @ shares[1])
    return (float((a == b).mean()) - chance) / (1 - chance) if chance < 1 else float("nan")
