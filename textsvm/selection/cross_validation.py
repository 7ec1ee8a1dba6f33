"""Cross-validation over one Gram: every fold and every class pair is a problem on its rows.

The rows of the kernel matrix are computed once, for all documents. A fold trains on some of them, and its
machines are evaluated at the others; all folds are solved side by side, and all values are one product.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from textsvm import device as devices
from textsvm.errors import InputError
from textsvm.estimators.base import KernelMachine, Target
from textsvm.gram.base import Gram
from textsvm.parallel import Progress, StageProgress, of_stage
from textsvm.plain_json import to_json
from textsvm.selection.folds import Fold, as_groups, make_folds
from textsvm.selection.leakage import (
    Leak,
    LeakageWarning,
    check_bound,
    find_leaks,
    leakage_sentence,
    merge_groups,
    near_duplicates,
)
from textsvm.selection.scoring import (
    fold_scores,
    judge,
    labels_of,
    mean_and_sd,
    mean_values,
    metric_names,
    read,
    solve_folds,
    warn_unfinished,
)


@dataclass(frozen=True)
class CrossValidation:
    """How well a model does on documents that it was not trained on.

    Attributes
    ----------
    table : list of dict
        The metrics of each fold.
    mean, sd : dict
        Their mean and sample standard deviation over the folds in which they are defined.
    pooled : dict
        The same metrics over all tested documents at once.
    decision : float64 array, shape (n,) or (n, n_classes)
        What `decision_function` (regression: `predict`) gives for each document, by machines that were not
        trained on it; the mean where it was tested several times, NaN where it never was.
    predictions : array, shape (n,)
        From these values; None where a document was never tested.
    tested : int64 array, shape (n,)
        How often each document was tested.
    folds : list of (train, test)
    leaks : list of Leak
        Near-duplicates between the training and the test part of each fold; empty where they were kept
        together.
    gram : str
        Where the rows of the kernel matrix came from.
    seconds : dict
        Wall time of "encode", "gram", "duplicates", "solve" and "score".
    """

    table: list[dict[str, float]]
    mean: dict[str, float]
    sd: dict[str, float]
    pooled: dict[str, float]
    decision: NDArray[np.float64]
    predictions: NDArray[Any]
    tested: NDArray[np.int64]
    folds: list[Fold]
    leaks: list[Leak]
    gram: str
    seconds: dict[str, float]

    def as_dict(self) -> dict[str, Any]:
        """JSON values; NaN is None."""
        rows = [
            {"n_train": len(train), "test": test, "metrics": row}
            for (train, test), row in zip(self.folds, self.table, strict=True)
        ]
        return to_json(
            {
                "folds": rows,
                "mean": self.mean,
                "sd": self.sd,
                "pooled": self.pooled,
                "decision": self.decision,
                "predictions": self.predictions,
                "tested": self.tested,
                "leaks": [leak.as_dict() for leak in self.leaks],
                "gram": self.gram,
                "seconds": self.seconds,
            }
        )


def cross_validate(
    model: KernelMachine,
    X: Any,
    y: Any,
    *,
    cv: Any = 5,
    repeats: int = 1,
    groups: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    metrics: Iterable[str] | None = None,
    group_duplicates: float | None = None,
    random_state: int | None = 0,
    progress: StageProgress | None = None,
) -> CrossValidation:
    """Cross-validate a classifier or a regressor; the model itself stays as it is.

    A kernel that learns from documents (idf weights) learns from the texts of all of them, those of the test
    parts included; never from labels.

    Parameters
    ----------
    model : SVC or SVR
    X : n texts, or a kernel matrix with ``kernel="precomputed"``
    y : array-like, shape (n,)
        Labels or numbers.
    cv : int, scikit-learn splitter or sequence of (train, test) index pairs
        A number of folds means shuffled ones, stratified by class for a classifier.
    repeats : int
        Times that a number of folds is made, each time shuffled anew.
    groups : array-like, shape (n,), optional
        Documents of one group are never on both sides of a fold.
    sample_weight : array-like, shape (n,), optional
        Weights in training; metrics count every document once.
    metrics : iterable of str, optional
        Names of the metrics wanted; all by default.
    group_duplicates : float, optional
        Keep documents together whose normalised kernel value is at least this. None: they are only looked for
        (0.98 and more), and a `LeakageWarning` says so before the work starts.
    random_state : int, optional
        Seed of the folds.
    progress : callable, optional
        See `textsvm.parallel.StageProgress`; stages are "encode", "gram", "duplicates" and "solve".

    Returns
    -------
    CrossValidation

    Raises
    ------
    InputError
        If what is given cannot be used, before the work starts.
    """
    X, target, weight = read(model, X, y, sample_weight)
    names = metric_names(target, metrics)
    folds = first_folds(cv, target, groups, repeats, random_state, group_duplicates)
    for train, _ in folds:
        model.problem(target, train, weight)
    prepared = model.prepare(X, progress)
    gram, seconds = prepared.gram, dict(prepared.seconds)
    with model.at_work(devices.select(model.device)):
        clock = time.perf_counter()
        looking = of_stage(progress, "duplicates")
        if group_duplicates is not None:
            groups = with_duplicates(gram, groups, group_duplicates, looking)
            folds = make_folds(cv, target, groups, repeats, random_state)
        leaks = report_leaks(gram, folds, looking) if group_duplicates is None else []
        seconds["duplicates"] = time.perf_counter() - clock
        clock = time.perf_counter()
        machines = solve_folds([model], gram, target, folds, weight, of_stage(progress, "solve"))
        seconds["solve"] = time.perf_counter() - clock
        clock = time.perf_counter()
        [values] = fold_scores([model], gram, target, folds, machines)
    warn_unfinished(model, machines[0], target)
    truth = labels_of(target)
    tests = [test for _, test in folds]
    table = [judge(model, truth[t], v, target, names) for t, v in zip(tests, values, strict=True)]
    decision, tested = mean_values(values, folds, len(truth))
    pooled = judge(model, truth[tested > 0], decision[tested > 0], target, names)
    predictions = _predictions(model, decision, tested, target)
    seconds["score"] = time.perf_counter() - clock
    mean, sd = mean_and_sd(table)
    return CrossValidation(
        table, mean, sd, pooled, decision, predictions, tested, folds, leaks, gram.description, seconds
    )


def first_folds(
    cv: Any,
    target: Target,
    groups: ArrayLike | None,
    repeats: int,
    random_state: int | None,
    group_duplicates: float | None,
) -> list[Fold]:
    """The folds as long as no near-duplicates are known."""
    if group_duplicates is not None:
        check_bound(group_duplicates)
        if not isinstance(cv, int | np.integer) and not hasattr(cv, "split"):
            raise InputError("near-duplicates cannot be kept together in given folds; give a number of folds")
    return make_folds(cv, target, groups, repeats, random_state)


def with_duplicates(
    gram: Gram, groups: ArrayLike | None, bound: float, progress: Progress | None
) -> NDArray[np.int64]:
    """Groups that keep together what was given and near-duplicates, shape (n,)."""
    together = near_duplicates(gram, bound, progress)
    return together if groups is None else merge_groups(as_groups(groups, gram.n), together)


def report_leaks(gram: Gram, folds: Sequence[Fold], progress: Progress | None) -> list[Leak]:
    """Look for near-duplicates across folds, and warn of them."""
    leaks = find_leaks(gram, folds, progress=progress)
    if sentence := leakage_sentence(leaks):
        warnings.warn(sentence, LeakageWarning, stacklevel=3)
    return leaks


def _predictions(
    model: KernelMachine, decision: NDArray[np.float64], tested: NDArray[np.int64], target: Target
) -> NDArray[Any]:
    found = model.predictions(decision, target.classes)
    if (tested == 0).any():
        found = found.astype(object)
        found[tested == 0] = None
    return found
