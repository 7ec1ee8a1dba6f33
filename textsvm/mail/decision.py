"""A decision value as a word and a score, with Bogofilter's thresholds and exit codes.

The value of a decision as a probability of spam, so that a score means the same whatever was learnt.

Platt's sigmoid (2000), P = 1 / (1 + exp(-(slope value + offset))), fitted by maximum likelihood to values of
mails that the machine had not learnt when it gave them, or as if it had not (`OnlineMachine.left_out`).
It aims not at 0 and 1 but at 1 / (m + 2) and 1 - 1 / (m + 2) for m mails of a kind, what one believes who
has seen m of m; so a few lessons that are told apart without error do not make scores of 0 and 1.

Both kinds weigh the same together: a score is what to believe of a mail that might as well be the one as the
other, and does not turn with the flood of spam or of lists. What is believed before there are lessons counts
as much as `MADE_UP` mails of each kind, at the values 1 and -1 that the machine gives its lessons: so a score
grows with the value from the first lesson on. Where a fit_sigmoid would have it fall, it is flat.

Measured on SpamAssassin's corpus (`textsvm bench mail`): no more ham has a score of .99 before it is learnt
than Bogofilter gives one, and more of the spam.

What decides: the weights and the calibration of one generation of a store, and no lesson.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from textsvm.errors import InputError
from textsvm.mail.features import MOST_BYTES, MOST_HEADER, P, read_weights
from textsvm.mail.features import WeightVector as Weights
from textsvm.mail.features import sum_vectors as sum_of
from textsvm.mail.lessons import Lessons

#: Log odds that are believed at value 1 before any mail is known, and how many of each kind that is worth.
PRIOR, MADE_UP = 5.0, 3.0
#: Newton steps at most; four to ten are taken, until one promises less than this.
_STEPS, _ENOUGH = 50, 1e-12


@dataclass(frozen=True)
class PlattSigmoid:
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


def fit_sigmoid(values: ArrayLike, spam: ArrayLike) -> PlattSigmoid:
    """The sigmoid of greatest likelihood.

    Parameters
    ----------
    values : float array, shape (n,)
        Decision values of mails, as if they had not been learnt.
    spam : bool array, shape (n,)
        Which of them are spam.

    Returns
    -------
    PlattSigmoid
        Of slope `PRIOR` if there are not both kinds.
    """
    values, spam = np.asarray(values, np.float64), np.asarray(spam, bool)
    n_spam, n_ham = np.count_nonzero(spam), np.count_nonzero(~spam)
    if not n_spam or not n_ham:
        return PlattSigmoid(PRIOR)
    prior, few = PlattSigmoid(PRIOR), min(n_spam, n_ham)
    aim = np.where(spam, 1 - 1 / (n_spam + 2), 1 / (n_ham + 2))
    weight = np.where(spam, few / n_spam, few / n_ham)
    aim = np.append(aim, [prior.probability(1.0), prior.probability(-1.0)])
    weight = np.append(weight, [MADE_UP, MADE_UP])
    slope, offset = _newton(np.append(values, [1.0, -1.0]), aim, weight / weight.sum())
    return PlattSigmoid(slope, offset) if slope > 0 else PlattSigmoid()


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


#: At least so likely spam is called spam, at most so likely is called ham (Bogofilter's thresholds).
SPAM, HAM = 0.99, 0.45
#: Exit codes of a filter.
CODES = {"spam": 0, "ham": 1, "unsure": 2}


@dataclass(frozen=True)
class Decision:
    """What the filter says of a message.

    Attributes
    ----------
    kind : {"spam", "ham", "unsure"}
    score : float
        P(spam).
    value : float
        The decision function.
    """

    kind: str
    score: float
    value: float


def kind_of(score: float) -> str:
    """What a message of this P(spam) is called."""
    return "spam" if score >= SPAM else "ham" if score <= HAM else "unsure"


def decision(value: float, calibration: PlattSigmoid, both: bool = True) -> Decision:
    """What a decision value means; "unsure" unless the filter knows both kinds."""
    score = calibration.probability(value)
    return Decision(kind_of(score) if both else "unsure", score, value)


#: What tells features of one version from another's.
FEATURES = [P, MOST_HEADER, MOST_BYTES]


@dataclass(frozen=True)
class DecisionModel:
    """What a filter knows at one generation of its store.

    Attributes
    ----------
    generation : int
    both : bool
        Whether there are lessons of both kinds.
    weights : Weights
    calibration : PlattSigmoid
    """

    generation: int
    both: bool
    weights: Weights
    calibration: PlattSigmoid

    def decide(self, keys: NDArray[np.uint64], values: NDArray[np.float32]) -> Decision:
        """What the message with these features is."""
        return decision(float(self.weights.of(keys) @ values), self.calibration, self.both)


def read_model(lessons: Lessons, made: Weights | None = None) -> DecisionModel:
    """What a store knows; its weights from their file, or summed and written there.

    Parameters
    ----------
    lessons : Lessons
        Inside `Lessons.reading`.
    made : Weights, optional
        Of the store's generation, where somebody has them.

    Raises
    ------
    InputError
        If the store's features are another version's.
    """
    check_features(lessons)
    generation, both = lessons.generation, min(lessons.counts().values()) > 0
    path, store = lessons.path.with_name("weights"), lessons.meta("store")
    weights = read_weights(path, store, generation)
    if weights is None:
        weights = made if made is not None else _summed(lessons)
        weights.write(path, store, generation)
    return DecisionModel(generation, both, weights, calibration_of(lessons))


def calibration_of(lessons: Lessons) -> PlattSigmoid:
    """What turns decision values into P(spam), as it was last fitted."""
    return PlattSigmoid(*lessons.meta("calibration", []))


def check_features(lessons: Lessons) -> None:
    """Raise InputError if the store's features are another version's."""
    if lessons.meta("features", FEATURES) != FEATURES:
        raise InputError(
            f"the features in {lessons.path} are another version's: textsvm mail retrain makes them anew"
        )


def _summed(lessons: Lessons) -> Weights:
    supports = lessons.read(supports=True)
    return sum_of(
        (each.keys, each.values, each.alpha if each.kind == "spam" else -each.alpha) for each in supports
    )
