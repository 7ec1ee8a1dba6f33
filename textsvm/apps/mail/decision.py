"""Decision values as P(spam) and a kind, and the state of a store that decisions need.

Platt's sigmoid (2000), P = 1 / (1 + exp(-(slope value + offset))), is fitted by maximum likelihood to
decision values of mails that the machine had not learnt. Values of learnt mails are first corrected to those
without their lesson (`OnlineMachine.left_out`). The targets are 1 / (m + 2) and 1 - 1 / (m + 2) for m mails
of a kind instead of 0 and 1, so that a few separable lessons do not lead to scores of 0 and 1.

Both kinds have the same total weight, so that scores do not depend on the share of spam. The prior counts as
much as `PRIOR_MAILS` mails of each kind, spam at the value v(number of spam lessons) with the score .99, and
ham at -v(number of ham lessons) with .01. Values of new mails of a kind grow with the number n of its
lessons, because more of their features are known: v(n) = FIRST (n / 10)^(1/3) was chosen so that the false-
positive rate after 10, 20 and `MANY_LESSONS` lessons of each kind is about Bogofilter's. With more lessons v
grows as n^0.6, to `LAST`, and the prior counts less. After many spams and few hams, new hams have values like
those of new spams of a balanced filter. The prior then expects new spams at a larger v, so that the spam
threshold lies above the values of these hams. A fit of negative slope is replaced by a flat sigmoid.

The threshold P = .5 is the zero of the decision function. It lies at the centre of the values of both kinds
(`_centre`), or at the fitted P = .5 if that is higher, so that the centre never calls more mail spam than the
fit. After few lessons all values lean towards the kind with more lessons. The centre corrects this, so that
values and scores of mails that come at different times are comparable. Measurements: reports/mail_start.md.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from textsvm.apps.mail import features
from textsvm.apps.mail.lessons import C, Lessons
from textsvm.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from textsvm.apps.mail.features import Keys, Values
    from textsvm.arrays import Bools, Floats
    from textsvm.solvers.online import OnlineMachine

SPAM = 0.99  #: Least P(spam) of spam, as in Bogofilter
HAM = 0.45  #: Largest P(spam) of ham
READING = 2  #: Version of the text of a mail
#: Settings of the features, which a store holds.
FEATURES = [READING, features.P, features.MAX_HEADER, features.MAX_BYTES, *features.SHARES]
PRIOR = 5.0  #: Slope before there are lessons of both kinds
FIRST = 0.295  #: Decision value of the prior with the score .99 after ten lessons of each kind
LAST = 0.92  #: Upper bound of this value
PRIOR_MAILS = 100.0  #: Number of mails of each kind that count as the prior
MANY_LESSONS = 50  #: Number of lessons of each kind from which the prior counts less
CENTRE_SHARE = 0.5  #: Share of the centre, as in `OnlineMachine.left_out`
CENTRE_MAILS = 3  #: Number of mails of each kind that count as values of 0 in the centre
CENTRE_POWER = 0.1  #: Power of the ratio of the numbers of lessons in the centre


class Decision(NamedTuple):
    """The decision on a message."""

    kind: str  #: {"spam", "ham", "unsure"}
    score: float  #: P(spam)
    value: float  #: The decision function; P(spam) is .5 at 0
    category: str = ""  #: Name of the category, if the message has any (`categories.py`)
    category_score: float = 0.0  #: P(category)

    def for_lesson(self, kind: str | None) -> Decision:
        """The decision on a message that was learnt as `kind`: its score is moved to that threshold."""
        if kind is None or kind == self.kind:
            return self
        score = max(self.score, SPAM) if kind == "spam" else min(self.score, HAM)
        return self._replace(kind=kind, score=score)


def kind_of(score: float) -> str:
    """The kind of a message of this P(spam)."""
    if score >= SPAM:
        return "spam"
    return "ham" if score <= HAM else "unsure"


class PlattSigmoid(NamedTuple):
    """P(spam) = 1 / (1 + exp(-(slope value + offset))); the slope is 0 or more."""

    slope: float = 0.0
    offset: float = 0.0

    def probability(self, value: float) -> float:
        """P(spam) at a decision value."""
        score = self.slope * value + self.offset
        if score < 0:
            power = math.exp(max(score, -700.0))
            return power / (1 + power)
        return 1 / (1 + math.exp(-min(score, 700.0)))

    def decide(self, value: float, both: bool = True) -> Decision:
        """The decision at <w, x>; "unsure" unless the filter knows both kinds."""
        score = self.probability(value)
        kind = kind_of(score) if both else "unsure"
        return Decision(kind, score, value + self.offset / (self.slope or 1.0))


def new_machine() -> OnlineMachine:
    """An empty machine."""
    from textsvm.solvers.online import OnlineMachine

    return OnlineMachine(C, free_bias=False, blocks=len(features.SHARES))


def calibrate(machine: OnlineMachine) -> PlattSigmoid:
    """The sigmoid of a machine: that of the fit, moved up to the centre between both kinds."""
    slope, offset = fit_sigmoid(*machine.left_out())
    values, spam = machine.left_out(CENTRE_SHARE)
    centred = -slope * _centre(values, spam)
    return PlattSigmoid(slope, min(offset, centred) if spam.any() and not spam.all() else centred)


def _centre(values: Floats, spam: Bools) -> float:
    """The mean of the mean values of both kinds, drawn to 0 while there are few lessons of a kind."""
    groups = [values[spam], values[~spam]]
    few, many = sorted(len(group) for group in groups)
    middle = sum(group.sum() / (len(group) + CENTRE_MAILS) for group in groups) / 2
    return float(middle) * ((few + 1) / (many + 1)) ** CENTRE_POWER


def fit_sigmoid(values: ArrayLike, spam: ArrayLike) -> PlattSigmoid:
    """The sigmoid of maximum a posteriori likelihood; without mails of both kinds its slope is `PRIOR`.

    `values` are decision values of mails as if they had not been learnt; `spam` are bools.
    """
    values, spam = np.asarray(values, np.float64), np.asarray(spam, bool)
    n_spam = int(np.count_nonzero(spam))
    n_ham = len(spam) - n_spam
    if not n_spam or not n_ham:
        return PlattSigmoid(PRIOR)
    few = min(n_spam, n_ham)
    mails = PRIOR_MAILS * min(1.0, MANY_LESSONS / few)
    target = np.append(np.where(spam, 1 - 1 / (n_spam + 2), 1 / (n_ham + 2)), [SPAM, 1 - SPAM])
    weight = np.append(np.where(spam, few / n_spam, few / n_ham), [mails, mails])
    values = np.append(values, [_prior_value(n_spam), -_prior_value(n_ham)])
    from textsvm.model.rules import fit_logistic  # not above: a decision needs no fit

    slope, offset = fit_logistic(values, target, weight)
    return PlattSigmoid(slope, offset) if slope > 0 else PlattSigmoid()


def _prior_value(n: int) -> float:
    """The value of a new mail of a kind with n lessons, in the prior."""
    return min(LAST, FIRST * (min(n, MANY_LESSONS) / 10) ** (1 / 3) * max(1.0, n / MANY_LESSONS) ** 0.6)


class DecisionModel(NamedTuple):
    """Weights and calibration of a state of a store, enough for decisions."""

    state: tuple[int, int]  #: `Lessons.state`
    both: bool  #: Whether there are lessons of both kinds
    weights: features.WeightVector
    calibration: PlattSigmoid

    def decide(self, keys: Keys, values: Values) -> Decision:
        """The decision on the message with these features."""
        terms = self.weights.of(keys).astype(np.float64) * values
        return self.calibration.decide(math.fsum(terms.tolist()), self.both)


def read_model(lessons: Lessons, weights: features.WeightVector | None = None) -> DecisionModel:
    """Read the decision model of a store, inside `Lessons.reading`.

    The weights come from their file. If it is stale, they are the argument `weights` (of the store's
    state) or the sum over the support vectors, and are written to the file.
    """
    check_features(lessons)
    path = lessons.path.with_name("weights")
    if (stored := features.read_weights(path, lessons.state[1])) is None:
        if weights is None:
            lessons.check_rows()
        stored = weights or features.sum_vectors(
            (lesson.keys, lesson.values, lesson.alpha if lesson.kind == "spam" else -lesson.alpha)
            for lesson in lessons.iterate(supports=True)
        )
        stored.write(path, lessons.state[1])
    return DecisionModel(lessons.state, min(lessons.counts().values()) > 0, stored, read_calibration(lessons))


def read_calibration(lessons: Lessons) -> PlattSigmoid:
    """The sigmoid that was last fitted."""
    return PlattSigmoid(*lessons.meta("calibration", [0.0, 0.0]))


def check_features(lessons: Lessons) -> None:
    """Raise InputError if a store has features of another version."""
    if lessons.meta("features", FEATURES) != FEATURES:
        raise InputError(f"{lessons.path} has features of another version; run textsvm mail retrain")
