"""Several classifiers on the same documents: how good each is, and whether it is better than the first."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import binomtest

from textsvm.evaluation.metrics import scores
from textsvm.evaluation.paired import Paired, compare_predictions
from textsvm.runtime.plain_json import to_json


@dataclass(frozen=True)
class Compared:
    """One classifier of a comparison.

    Attributes
    ----------
    name : str
    n : int
        Documents that it was judged on.
    accuracy, macro_f1 : float
    interval : (float, float)
        Of the accuracy (Wilson, 95 %).
    fit, predict : float
        Seconds of wall time.
    chosen : str
        What it chose by itself.
    ours : bool
        Whether it is a string-kernel machine.
    paired : Paired, optional
        Against the first classifier of the comparison; None for that one.
    """

    name: str
    n: int
    accuracy: float
    macro_f1: float
    interval: tuple[float, float]
    fit: float
    predict: float
    chosen: str
    ours: bool
    paired: Paired | None = None

    @property
    def seconds(self) -> float:
        return self.fit + self.predict

    def as_dict(self) -> dict[str, Any]:
        """JSON values."""
        return to_json(asdict(self))


def judge_prediction(
    truth: ArrayLike, predicted: ArrayLike, first: ArrayLike | None, **known: Any
) -> Compared:
    """One line of a comparison.

    Parameters
    ----------
    truth, predicted : array-like, shape (n,)
        Labels.
    first : array-like, shape (n,), optional
        What the first classifier of the comparison predicts.
    **known
        The other attributes of `Compared`: name, fit, predict, chosen, ours.
    """
    labels, said = np.asarray(truth), np.asarray(predicted)
    right, n = int((labels == said).sum()), len(labels)
    bounds = binomtest(right, n).proportion_ci(0.95, "wilson")
    return Compared(
        n=n,
        accuracy=right / n,
        macro_f1=scores(labels, said, None, np.unique(np.append(labels, said)))["macro_f1"],
        interval=(float(bounds.low), float(bounds.high)),
        paired=None if first is None else compare_predictions(labels, said, first),
        **known,
    )
