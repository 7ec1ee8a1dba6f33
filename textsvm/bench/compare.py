"""Candidates and both opponents on the parts of one corpus; see `textsvm compare`.

Everyone is trained on the same training parts and predicts the same test parts; predictions of all test parts
are judged together. What compiles is compiled before, on a few documents.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.bench.opponents import Answer, answer, opponents_of
from textsvm.errors import InputError
from textsvm.estimators.svm import SVC
from textsvm.evaluation.comparison import Compared, judge_prediction
from textsvm.kernels.spelling import parse
from textsvm.machines.base import DEFAULT_KERNELS, is_default
from textsvm.readers.columns import some
from textsvm.runtime.parallel import StageProgress

#: Rows to train on and rows to test on.
Part = tuple[Sequence[int], Sequence[int]]
#: Documents of each class that compile what will be timed.
WARM_UP = 20


def candidates(device: str) -> dict[str, Callable[[], Any]]:
    """What is compared if no kernel is named, by name."""
    named = ("spectrum:2-7,log,idf", "spectrum:1-7,intersection")
    return {name: partial(machine, name, device) for name in (*DEFAULT_KERNELS, *named)}


def machine(name: str, device: str) -> SVC:
    """The classifier of "auto", "fast" or a kernel that is spelled out."""
    return SVC(name if is_default(name) else parse(name), device=device)


def compare(
    texts: Any,
    labels: Sequence[Any],
    parts: Sequence[Part],
    ours: Mapping[str, Callable[[], Any]],
    progress: StageProgress | None = None,
) -> list[Compared]:
    """Train and judge both opponents and classifiers of one's own.

    Parameters
    ----------
    texts : sequence of str, or vectors, or a dict of columns; n of them
    labels : sequence of length n
    parts : sequence of (train, test)
        Indices; no document is in two test parts.
    ours : mapping of str to callable
        Makes a classifier that is not fitted, by its name.
    progress : callable, optional
        See `textsvm.runtime.parallel.StageProgress`; the stage is "compare".

    Returns
    -------
    list of Compared
        The opponents first.

    Raises
    ------
    InputError
        If one of them cannot be trained on these documents.
    """
    opponents = opponents_of(texts)
    if taken := [name for name in ours if name in opponents]:
        raise InputError(f"{taken[0]!r} is the name of an opponent; give the classifier another")
    truth = np.array([labels[i] for _, test in parts for i in test])
    everyone: dict[str, Callable[[], Any]] = {**opponents, **ours}
    found: list[Compared] = []
    first = None
    for number, (name, make) in enumerate(everyone.items()):
        if name in ours:
            _warm_up(make, texts, labels, parts)
        answers = []
        for k, part in enumerate(parts):
            if progress is not None:
                progress("compare", number * len(parts) + k, len(everyone) * len(parts))
            answers.append(_answer(make(), texts, labels, part))
        predicted = np.concatenate([each.predicted for each in answers])
        found.append(
            judge_prediction(truth, predicted, first, name=name, ours=name in ours, **_cost(answers))
        )
        first = predicted if first is None else first
    return found


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
