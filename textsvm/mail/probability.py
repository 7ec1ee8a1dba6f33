"""The value of a decision as a probability of spam, so that a score means the same whatever was learnt.

Platt's sigmoid (2000), P = 1 / (1 + exp(-(slope value + offset))), fitted by maximum likelihood to values of
mails that the machine had not learnt when it gave them, or as if it had not (`OnlineMachine.left_out`).
It aims not at 0 and 1 but at 1 / (m + 2) and 1 - 1 / (m + 2) for m mails of a kind, what one believes who
has seen m of m; so a few lessons that are told apart without error do not make scores of 0 and 1.

Both kinds weigh the same together: a score is what to believe of a mail that might as well be the one as the
other, and does not turn with the flood of spam or of lists. What is believed before there are lessons counts
as much as `MADE_UP` mails of each kind, at the values 1 and -1 that the machine gives its lessons: so a score
grows with the value from the first lesson on. Where a fit would have it fall, it is flat.

Measured on SpamAssassin's corpus (`python -m benchmarks mail`): no more ham has a score of .99 before it is
learnt than Bogofilter gives one, and more of the spam.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

#: Log odds that are believed at value 1 before any mail is known, and how many of each kind that is worth.
PRIOR, MADE_UP = 5.0, 3.0
#: Newton steps at most; four to ten are taken, until one promises less than this.
_STEPS, _ENOUGH = 50, 1e-12


@dataclass(frozen=True)
class Sigmoid:
    """P(spam) = 1 / (1 + exp(-(slope value + offset))).

    Attributes
    ----------
    slope : float
        0 or more.
    offset : float
    """

    slope: float = 0.0
    offset: float = 0.0

    def probability(self, value: float) -> float:
        """P(spam) at a decision value."""
        score = self.slope * value + self.offset
        if score < 0:
            power = math.exp(max(score, -700.0))
            return power / (1 + power)
        return 1 / (1 + math.exp(-min(score, 700.0)))


def fit(values: ArrayLike, spam: ArrayLike) -> Sigmoid:
    """The sigmoid of greatest likelihood.

    Parameters
    ----------
    values : float array, shape (n,)
        Decision values of mails, as if they had not been learnt.
    spam : bool array, shape (n,)
        Which of them are spam.

    Returns
    -------
    Sigmoid
        Of slope `PRIOR` if there are not both kinds.
    """
    values, spam = np.asarray(values, np.float64), np.asarray(spam, bool)
    n_spam, n_ham = np.count_nonzero(spam), np.count_nonzero(~spam)
    if not n_spam or not n_ham:
        return Sigmoid(PRIOR)
    prior, few = Sigmoid(PRIOR), min(n_spam, n_ham)
    aim = np.where(spam, 1 - 1 / (n_spam + 2), 1 / (n_ham + 2))
    weight = np.where(spam, few / n_spam, few / n_ham)
    aim = np.append(aim, [prior.probability(1.0), prior.probability(-1.0)])
    weight = np.append(weight, [MADE_UP, MADE_UP])
    slope, offset = _newton(np.append(values, [1.0, -1.0]), aim, weight / weight.sum())
    return Sigmoid(slope, offset) if slope > 0 else Sigmoid()


def _newton(
    values: NDArray[np.float64], aim: NDArray[np.float64], weight: NDArray[np.float64]
) -> tuple[float, float]:
    """The two numbers of least weighted log loss, which is convex; a step that does not descend is halved."""
    design = np.stack([values, np.ones_like(values)])

    def loss(at: NDArray[np.float64]) -> float:
        score = at @ design
        return float(weight @ (np.logaddexp(0.0, score) - aim * score))

    at = np.zeros(2)
    now = loss(at)
    for _ in range(_STEPS):
        p = 1 / (1 + np.exp(-np.clip(at @ design, -700, 700)))
        gradient = design @ (weight * (p - aim))
        curvature = (design * (weight * p * (1 - p))) @ design.T + 1e-12 * np.eye(2)
        step = -np.linalg.solve(curvature, gradient)
        if -(gradient @ step) <= _ENOUGH:
            break
        while (then := loss(at + step)) > now and np.abs(step).max() > _ENOUGH:
            step /= 2
        at, now = at + step, then
    return float(at[0]), float(at[1])
