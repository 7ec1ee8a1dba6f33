"""Train and compare several classifiers on the same parts of a corpus, each against the first.

The predictions on all test parts are judged together. A training on a few documents beforehand compiles the
kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binomtest
from sklearn.metrics import f1_score

from textsvm.errors import InputError
from textsvm.estimators.default import NAMES, is_default
from textsvm.estimators.svc import SVC
from textsvm.evaluation.opponents import Answer, answer, opponents_of
from textsvm.evaluation.paired import Paired, compare_predictions
from textsvm.kernels.spelling import parse
from textsvm.readers.columns import some
from textsvm.runtime.parallel import StageProgress
from textsvm.runtime.plain_json import to_json

#: Rows to train on and rows to test on.
Part = tuple[Sequence[int], Sequence[int]]
#: Documents per class in the warm-up.
WARM_UP = 20


@dataclass(frozen=True)
class Compared:
    """One classifier of a comparison.

    Attributes
    ----------
    name : str
    n : int
        Number of test documents.
    accuracy, macro_f1 : float
    interval : (float, float)
        Wilson interval of the accuracy, 95 %.
    fit, predict : float
        Seconds of wall time.
    chosen : str
        Automatically chosen parameters.
    ours : bool
        Whether it is a string-kernel machine.
    paired : Paired, optional
        Comparison with the first classifier; None for the first.
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
    """Judge the predictions of one classifier.

    Parameters
    ----------
    truth, predicted : array-like, shape (n,)
        Labels.
    first : array-like, shape (n,), optional
        Predictions of the first classifier.
    **known
        The other attributes of `Compared`: name, fit, predict, chosen, ours.
    """
    labels, predictions = np.asarray(truth), np.asarray(predicted)
    right, n = int((labels == predictions).sum()), len(labels)
    bounds = binomtest(right, n).proportion_ci(0.95, "wilson")
    return Compared(
        n=n,
        accuracy=right / n,
        macro_f1=float(f1_score(labels, predictions, average="macro", zero_division=0.0)),
        interval=(float(bounds.low), float(bounds.high)),
        paired=None if first is None else compare_predictions(labels, predictions, first),
        **known,
    )


def candidates(device: str) -> dict[str, Callable[[], Any]]:
    """Default candidates, by name."""
    named = ("spectrum:2-7,log,idf", "spectrum:1-7,intersection")
    return {name: partial(machine, name, device) for name in (*NAMES, *named)}


def machine(name: str, device: str) -> SVC:
    """Classifier with the kernel "auto", "fast" or as spelled on the command line."""
    return SVC(name if is_default(name) else parse(name), device=device)


def compare(
    texts: Any,
    labels: Sequence[Any],
    parts: Sequence[Part],
    ours: Mapping[str, Callable[[], Any]],
    progress: StageProgress | None = None,
) -> list[Compared]:
    """Train and judge both opponents and the given classifiers.

    Parameters
    ----------
    texts : sequence of str, or vectors, or a dict of columns; n of them
    labels : sequence of length n
    parts : sequence of (train, test)
        Indices; test parts are disjoint.
    ours : mapping of str to callable
        Makers of unfitted classifiers, by name.
    progress : callable, optional
        See `textsvm.runtime.parallel.StageProgress`; the stage is "compare".

    Returns
    -------
    list of Compared
        The opponents first.

    Raises
    ------
    InputError
        If a classifier cannot be trained on these documents.
    """
    opponents = opponents_of(texts)
    if taken := [name for name in ours if name in opponents]:
        raise InputError(f"{taken[0]!r} is the name of an opponent; give the classifier another")
    truth = np.array([labels[i] for _, test in parts for i in test])
    makers: dict[str, Callable[[], Any]] = {**opponents, **ours}
    results: list[Compared] = []
    first = None
    for number, (name, make) in enumerate(makers.items()):
        if name in ours:
            _warm_up(make, texts, labels, parts)
        answers = []
        for k, part in enumerate(parts):
            if progress is not None:
                progress("compare", number * len(parts) + k, len(makers) * len(parts))
            answers.append(_answer(make(), texts, labels, part))
        predicted = np.concatenate([each.predicted for each in answers])
        results.append(
            judge_prediction(truth, predicted, first, name=name, ours=name in ours, **_cost(answers))
        )
        first = predicted if first is None else first
    return results


def _answer(model: Any, texts: Any, labels: Sequence[Any], part: Part) -> Answer:
    train, test = part
    return answer(model, some(texts, train), some(labels, train), some(texts, test))


def _cost(answers: Sequence[Answer]) -> dict[str, Any]:
    return {
        "fit": sum(each.fit for each in answers),
        "predict": sum(each.predict for each in answers),
        "chosen": ", ".join(dict.fromkeys(each.chosen for each in answers if each.chosen)),
    }


def _warm_up(make: Callable[[], Any], texts: Any, labels: Sequence[Any], parts: Sequence[Part]) -> None:
    train = np.asarray(parts[0][0])
    of_train: NDArray[Any] = np.asarray(some(labels, train.tolist()))
    few = np.concatenate([train[of_train == label][:WARM_UP] for label in np.unique(of_train)])
    _answer(make(), texts, labels, (few.tolist(), few[:WARM_UP].tolist()))
