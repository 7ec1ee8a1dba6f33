"""Cross-validation: every fold and every class pair is a problem on the rows of a Gram.

A fold trains on some of the rows, and its machines are evaluated at the others; all folds of one Gram are
solved side by side, and all values are one product.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from textsvm.estimators.base import KernelMachine, Target
from textsvm.estimators.default import Given, fit_default, is_default
from textsvm.estimators.svc import SVC
from textsvm.estimators.targets import with_classes
from textsvm.runtime import device as devices
from textsvm.runtime.parallel import StageProgress, lap, of_stage
from textsvm.runtime.plain_json import to_json
from textsvm.selection.fold_grams import FoldGrams, Task, of_all, train_and_test
from textsvm.selection.folds import Fold
from textsvm.selection.leakage import Leak
from textsvm.selection.scoring import (
    judge,
    labels_of,
    mean_and_sd,
    mean_values,
    metric_names,
    read_training_data,
    warn_unfinished,
)
from textsvm.selection.splitting import Splitting, report_leaks


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
    predictions : array, shape (n,) or (n, n_classes)
        From these values; None where a document was never tested. Several labels a document: a bool array,
        by thresholds that come from the other folds; False where a document was never tested, and in most of
        its tests where there were several.
    tested : int64 array, shape (n,)
        How often each document was tested.
    folds : list of (train, test)
    leaks : list of Leak
        Near-duplicates between the training and the test part of each fold; empty where they were kept
        together.
    gram : str
        Where the rows of the kernel matrix came from.
    seconds : dict
        Wall time of "encode", "gram", "duplicates", "solve" and "score"; of "choose" too.
    chosen : list of str
        What ``SVC("auto")`` chose on the training part of each fold; empty for other models.
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
    chosen: list[str] = field(default_factory=list)

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
                "chosen": self.chosen,
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
    positive: Any = None,
    progress: StageProgress | None = None,
) -> CrossValidation:
    """Cross-validate a classifier or a regressor; the model itself stays as it is.

    The rows of the kernel matrix are computed once, for all documents, unless the kernel learns from them
    (idf weights): it then learns from the training part of each fold anew, and each has its own matrix.
    ``SVC("auto")`` chooses a kernel and C on the training part of each fold anew, and shares no matrix;
    near-duplicates are then those of the kernel of ``SVC("fast")``, whose matrix is made to find them.

    Parameters
    ----------
    model : SVC, MultilabelSVC or SVR
    X : n texts or vectors, or a kernel matrix with ``kernel="precomputed"``
    y : array-like, shape (n,)
        Labels or numbers; several labels a document as `MultilabelSVC.fit` takes them.
    cv : int, scikit-learn splitter or sequence of (train, test) index pairs
        A number of folds means shuffled ones, stratified by class for a classifier of one label a document.
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
        (0.98 and more; vectors: 0.99999), and a `LeakageWarning` says so before the work starts.
    random_state : int, optional
        Seed of the folds.
    positive : label, optional
        Of two classes the one that precision, recall, F1 and average precision are of; the second one, as
        they sort, if not given.
    progress : callable, optional
        See `runtime.parallel.StageProgress`; stages are "encode", "gram", "duplicates" and "solve"; with
        ``SVC("auto")`` "choose" too.

    Returns
    -------
    CrossValidation

    Raises
    ------
    InputError
        If what is given cannot be used, before the work starts.

    Examples
    --------
    >>> from textsvm import SVC, Spectrum, cross_validate
    >>> texts = ["red apple", "red cherry", "ripe apple", "ripe cherry"]
    >>> texts += ["fast car", "fast train", "slow car", "slow train"]
    >>> found = cross_validate(SVC(Spectrum(2)), texts, ["fruit"] * 4 + ["ride"] * 4, cv=4)
    >>> found.pooled["accuracy"]
    1.0
    """
    given, target, weight = read_training_data(model, X, y, sample_weight, positive)
    names = metric_names(target, metrics)
    anew = isinstance(model, SVC) and is_default(model.kernel)
    model = clone(model) if anew else model  # without what it may have chosen before
    splitting = Splitting(cv, groups, repeats, random_state, group_duplicates)
    folds, leaks = splitting.folds(target), []
    for train, _ in folds:
        model.problem(target, train, weight)
    seconds = dict.fromkeys(("encode", "gram", "duplicates", "solve", "score"), 0.0)
    with model.at_work(devices.select(model.device)):
        clock = time.perf_counter()
        examples = with_classes(model.encode(given, None, progress), target)
        grams = FoldGrams(model, examples, model.source.kernel_for(examples))
        clock = lap(seconds, "encode", clock)
        whole = grams.copies_by(progress)
        clock = lap(seconds, "gram", clock)
        looking = of_stage(progress, "duplicates")
        if group_duplicates is not None:
            folds = splitting.with_duplicates(whole, looking).folds(target)
        else:
            leaks = report_leaks(whole, folds, looking)
        lap(seconds, "duplicates", clock)
        task = Task(target, weight, folds)
        if anew:
            grams.release()
            values, chosen = _anew(model, given, task, seconds, progress)
            description = "of each fold its own, or none where features are enough"
            return _judged(
                model, task, values, names, leaks=leaks, gram=description, seconds=seconds, chosen=chosen
            )
        found = train_and_test([model], grams, task, seconds, progress)
    warn_unfinished(model, found.machines[0], target)
    description = grams.describe((whole or found.last).gram.description, folds)
    return _judged(model, task, found.values[0], names, leaks=leaks, gram=description, seconds=seconds)


def _anew(
    model: KernelMachine,
    texts: list[str],
    task: Task,
    seconds: dict[str, float],
    progress: StageProgress | None,
) -> tuple[list[NDArray[np.float64]], list[str]]:
    """Decision values of the test parts, by copies fitted to the training parts; and what these chose."""
    values, chosen = [], []
    for number, (train, test) in enumerate(task.folds):
        step, fitted = of_all(progress, number, len(task.folds)), clone(model)
        target = Target(task.target.values[train], task.target.classes)
        weight = None if task.weight is None else task.weight[train]
        fit_default(fitted, Given([texts[i] for i in train], target, weight), step)
        for stage, spent in fitted.seconds_.items():
            seconds[stage] = seconds.get(stage, 0.0) + spent
        clock = time.perf_counter()
        values.append(fitted.decision_function([texts[i] for i in test]))
        lap(seconds, "score", clock)
        chosen += [fitted.chosen_] if fitted.chosen_ else []
    return values, chosen


def _judged(
    model: KernelMachine, task: Task, values: list[NDArray[np.float64]], names: list[str], **known: Any
) -> CrossValidation:
    """Decision values of the test parts -> the outcome."""
    clock, target = time.perf_counter(), task.target
    truth = labels_of(target)
    tests = [test for _, test in task.folds]
    said = model.fold_predictions(values, task.folds, target)
    table = [judge(model, truth[t], v, target, names, p) for t, v, p in zip(tests, values, said, strict=True)]
    decision, tested = mean_values(values, task.folds, len(truth))
    if target.multilabel:
        share, _ = mean_values([each.astype(float) for each in said], task.folds, len(truth))
        predictions = share > 0.5
    else:
        predictions = _predictions(model, decision, tested, target)
    some = tested > 0
    pooled = judge(model, truth[some], decision[some], target, names, predictions[some])
    mean, sd = mean_and_sd(table)
    lap(known["seconds"], "score", clock)
    return CrossValidation(table, mean, sd, pooled, decision, predictions, tested, list(task.folds), **known)


def _predictions(
    model: KernelMachine, decision: NDArray[np.float64], tested: NDArray[np.int64], target: Target
) -> NDArray[Any]:
    found = model.predictions(decision, target.classes)
    if (tested == 0).any():
        found = found.astype(object)
        found[tested == 0] = None
    return found
