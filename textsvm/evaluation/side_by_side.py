"""Several models on the same documents: figures, whether one is better than the first, where they disagree.

The difference from the first model is paired: of classes the difference in accuracy (several labels: in the
share of documents whose labels are all right) with McNemar's exact test, see `textsvm.evaluation.paired`; of
numbers the difference in mean absolute error, with a percentile bootstrap interval over documents.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.errors import InputError
from textsvm.evaluation.paired import compare_predictions
from textsvm.evaluation.results import Results
from textsvm.runtime.plain_json import to_json

#: Models that a page has room and colours for, documents that are shown, and symbols of each.
MOST_MODELS, MOST_SHOWN, SYMBOLS = 8, 12, 240


@dataclass(frozen=True)
class Difference:
    """A model less the first one.

    Attributes
    ----------
    metric : {"accuracy", "subset_accuracy", "mae"}
    value : float
    interval : (float, float)
        95 %.
    p_value : float
        Of the test that neither is better; NaN for numbers.
    """

    metric: str
    value: float
    interval: tuple[float, float]
    p_value: float


@dataclass(frozen=True)
class Disagreement:
    """A document that models do not agree on.

    Attributes
    ----------
    id : str
    text : str
        Its beginning, as it was given.
    truth : label or number
    predicted : list of label or number
        Of each model.
    right : list of bool
        Regression: whether a model is nearest to the truth.
    """

    id: str
    text: str
    truth: Any
    predicted: list[Any]
    right: list[bool]


@dataclass(frozen=True)
class SideBySide:
    """Models that have judged the same documents.

    Attributes
    ----------
    names : list of str
    results : list of Results
        With intervals, the first model first.
    differences : list of Difference or None
        None for the first model.
    alike, all_wrong : int
        Documents on which all predictions are the same; on which all are wrong (classes).
    only : list of int
        Of each model the documents on which it alone is right (regression: nearest).
    disagreements : list of Disagreement
    """

    names: list[str]
    results: list[Results] = field(repr=False)
    differences: list[Difference | None]
    alike: int
    all_wrong: int
    only: list[int]
    disagreements: list[Disagreement]

    def as_dict(self) -> dict[str, Any]:
        """JSON values."""
        models = [
            {
                "name": name,
                **results.metrics,
                "intervals": results.intervals,
                "difference": difference and vars(difference),
                "only_right": only,
            }
            for name, results, difference, only in zip(
                self.names, self.results, self.differences, self.only, strict=True
            )
        ]
        disagreements = [vars(each) for each in self.disagreements]
        return to_json(
            {
                "models": models,
                "alike": self.alike,
                "all_wrong": self.all_wrong,
                "disagreements": disagreements,
            }
        )


def side_by_side(found: Mapping[str, Results], texts: Sequence[str] | None, ids: Sequence[str]) -> SideBySide:
    """Compare results of several models with those of the first.

    Parameters
    ----------
    found : mapping of str -> Results
        By the name of the model; of the same documents in the same order.
    texts : sequence of str, optional
        All documents that were given to them; None if they are not texts.
    ids : sequence of str

    Raises
    ------
    InputError
        If the models are not of one kind, or have not judged the same documents.
    """
    names, results = list(found), list(found.values())
    first = results[0]
    for name, each in found.items():
        _require_alike(names[0], first, name, each)
    results = [each if each.intervals else each.with_intervals() for each in results]
    right = np.stack([_right(each, results) for each in results])
    said = [[str(each.labels_of(i)[1]) for i in range(first.n)] for each in results]
    same = np.array([len(set(each)) == 1 for each in zip(*said, strict=True)])
    shown = [_disagreement(i, results, right, texts, ids) for i in _telling(results, right, ~same)]
    alone = right & (right.sum(axis=0) == 1)
    differences = [None, *(_difference(each, first) for each in results[1:])]
    wrong = 0 if first.task == "regression" else int((~right.any(axis=0)).sum())
    return SideBySide(names, results, differences, int(same.sum()), wrong, alone.sum(axis=1).tolist(), shown)


def _require_alike(name: str, first: Results, other: str, results: Results) -> None:
    if first.task != results.task or first.labels != results.labels:
        raise InputError(
            f"models side by side need the same labels or numbers, and {name} is {_kind(first)}, {other} "
            f"{_kind(results)}"
        )
    if not np.array_equal(first.index, results.index):
        raise InputError(f"{name} and {other} were not judged on the same documents, and cannot be compared")


def _kind(results: Results) -> str:
    labels = ", ".join(map(str, results.labels[:5])) + ", ..." * (len(results.labels) > 5)
    return f"{results.task} ({labels})" if labels else results.task


def _errors(results: Results) -> NDArray[np.float64]:
    return np.abs(results.predicted - results.truth)


def _right(results: Results, everyone: Sequence[Results]) -> NDArray[np.bool_]:
    """Which documents a model is right on; of numbers nearest to, of all models."""
    if results.task == "regression":
        return _errors(results) <= np.min([_errors(each) for each in everyone], axis=0)
    same = results.predicted == results.truth
    return same.all(axis=1) if results.task == "multilabel" else same


def _difference(results: Results, first: Results) -> Difference:
    if results.task == "regression":
        apart = _errors(results) - _errors(first)
        random = np.random.default_rng(0)
        means = [apart[random.integers(0, len(apart), len(apart))].mean() for _ in range(1000)]
        low, high = np.percentile(means, [2.5, 97.5])
        return Difference("mae", float(apart.mean()), (float(low), float(high)), np.nan)
    right, theirs = (_right(each, []) for each in (results, first))
    paired = compare_predictions(np.ones(len(right), bool), right, theirs)
    metric = "subset_accuracy" if results.task == "multilabel" else "accuracy"
    return Difference(metric, paired.difference, paired.interval, paired.p_value)


def _telling(results: Sequence[Results], right: NDArray[np.bool_], differ: NDArray[np.bool_]) -> list[int]:
    """Documents to show: half where the first model is wrong and another right, half the other way."""
    if results[0].task == "regression":
        errors = np.stack([_errors(each) for each in results])
        spread = errors.max(axis=0) - errors.min(axis=0)
        return [i for i in np.argsort(-spread, kind="stable")[:MOST_SHOWN].tolist() if spread[i] > 0]
    sides = [differ & ~right[0] & right.any(axis=0), differ & right[0]]
    halves = [np.flatnonzero(side).tolist() for side in sides]
    half = MOST_SHOWN // 2
    room = [MOST_SHOWN - min(half, len(halves[1])), MOST_SHOWN - min(half, len(halves[0]))]
    return [i for side, most in zip(halves, room, strict=True) for i in side[:most]]


def _disagreement(
    i: int,
    results: Sequence[Results],
    right: NDArray[np.bool_],
    texts: Sequence[str] | None,
    ids: Sequence[str],
) -> Disagreement:
    given = int(results[0].index[i])
    text = "" if texts is None else " ".join(texts[given][: 2 * SYMBOLS].split())
    return Disagreement(
        ids[given],
        text if len(text) <= SYMBOLS else text[:SYMBOLS] + " …",
        results[0].labels_of(i)[0],
        [each.labels_of(i)[1] for each in results],
        right[:, i].tolist(),
    )
