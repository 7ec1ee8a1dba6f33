"""What decides: the weights and the calibration of one generation of a store, and no lesson."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from textsvm.errors import InputError
from textsvm.mail.decision import Decision, decision
from textsvm.mail.features import MOST_BYTES, MOST_HEADER, P
from textsvm.mail.lessons import Lessons
from textsvm.mail.probability import Sigmoid
from textsvm.mail.weights import Weights, read_weights, sum_of

#: What tells features of one version from another's.
FEATURES = [P, MOST_HEADER, MOST_BYTES]


@dataclass(frozen=True)
class Known:
    """What a filter knows at one generation of its store.

    Attributes
    ----------
    generation : int
    both : bool
        Whether there are lessons of both kinds.
    weights : Weights
    calibration : Sigmoid
    """

    generation: int
    both: bool
    weights: Weights
    calibration: Sigmoid

    def decide(self, keys: NDArray[np.uint64], values: NDArray[np.float32]) -> Decision:
        """What the message with these features is."""
        return decision(float(self.weights.of(keys) @ values), self.calibration, self.both)


def read_known(lessons: Lessons, made: Weights | None = None) -> Known:
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
    return Known(generation, both, weights, calibration_of(lessons))


def calibration_of(lessons: Lessons) -> Sigmoid:
    """What turns decision values into P(spam), as it was last fitted."""
    return Sigmoid(*lessons.meta("calibration", []))


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
