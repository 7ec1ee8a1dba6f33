"""A decision value as a word and a score, with Bogofilter's thresholds and exit codes."""

from __future__ import annotations

from dataclasses import dataclass

from textsvm.mail.probability import Sigmoid

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


def decision(value: float, calibration: Sigmoid, both: bool = True) -> Decision:
    """What a decision value means; "unsure" unless the filter knows both kinds."""
    score = calibration.probability(value)
    return Decision(kind_of(score) if both else "unsure", score, value)
