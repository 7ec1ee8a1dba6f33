"""Choosing parameters: every kernel's Gram once, and every setting of it on every fold over its rows.

The folds are the same for all settings. A kernel that learns from documents has a Gram for each training
part (see `textsvm.selection.fold_grams`). For each Gram, the problems of all folds, settings and class pairs
are solved side by side, as paths along C. The best setting so far is fitted to all documents while its Gram
is there, so that no Gram is kept or made twice. Nested cross-validation only adds folds: those inside the
training part of each outer fold, from which the outer fold's setting is chosen, and the outer fold itself.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from textsvm.errors import InputError
from textsvm.estimators.base import KernelMachine, Prepared
from textsvm.runtime import device as devices
from textsvm.runtime.parallel import Progress, StageProgress, lap, of_stage
from textsvm.runtime.plain_json import to_json
from textsvm.runtime.workers import here
from textsvm.selection.budget import require_time
from textsvm.selection.fold_grams import Task, of_all
from textsvm.selection.folds import Fold
from textsvm.selection.grid import all_grams, encode_all, settings_of
from textsvm.selection.leakage import Leak
from textsvm.selection.record import Record, left, of_kernel
from textsvm.selection.scoring import mean_and_sd, read_training_data, warn_unfinished
from textsvm.selection.search import Search
from textsvm.selection.splitting import Splitting, report_leaks
from textsvm.selection.whole import WholeProgress


@dataclass(frozen=True)
class Nested:
    """What tuning itself achieves, on documents that no choice was made from.

    Attributes
    ----------
    params : list of dict
        The setting chosen on the training part of each outer fold.
    table : list of dict
        Its metrics on the test part.
    mean, sd : dict
        Mean and sample standard deviation over the outer folds.
    """

    params: list[dict[str, Any]]
    table: list[dict[str, float]]
    mean: dict[str, float]
    sd: dict[str, float]


@dataclass(frozen=True)
class Tuning:
    """The outcome of a search.

    Attributes
    ----------
    best_params_ : dict
    best_score : float
        Mean of the metric over the folds; too good by having been chosen, see `nested`.
    best_estimator : KernelMachine
        With these parameters, fitted to all documents.
    metric : str
    table : list of dict
        In the order of the grid: "params", "mean" and "sd" of the metric, "folds" (the metric on each fold),
        "metrics" (means of the others too, without the area under the curve unless it is the metric) and
        "seconds" (its share of the work on its Gram).
    untried : list of dict
        Settings that time ran out for.
    nested : Nested, optional
    folds : list of (train, test)
    leaks : list of Leak
        Near-duplicates across folds, see `textsvm.selection.cross_validation.CrossValidation`.
    seconds : dict
        Wall time of "estimate", "encode", "gram", "duplicates", "solve" and "score".
    """

    best_params_: dict[str, Any]
    best_score: float
    best_estimator: KernelMachine
    metric: str
    table: list[dict[str, Any]]
    untried: list[dict[str, Any]]
    nested: Nested | None
    folds: list[Fold]
    leaks: list[Leak]
    seconds: dict[str, float]

    def as_dict(self) -> dict[str, Any]:
        """JSON values; NaN is None, a kernel is its name and parameters."""
        return to_json(
            {
                "metric": self.metric,
                "best_params": self.best_params_,
                "best_score": self.best_score,
                "table": self.table,
                "untried": self.untried,
                "nested": None if self.nested is None else vars(self.nested),
                "leaks": [leak.as_dict() for leak in self.leaks],
                "seconds": self.seconds,
            }
        )


def tune(
    model: KernelMachine,
    X: Any,
    y: Any,
    grid: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    *,
    metric: str | None = None,
    cv: Any = 5,
    repeats: int = 1,
    groups: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    minutes: float | None = None,
    nested: int | None = None,
    group_duplicates: float | None = None,
    random_state: int | None = 0,
    positive: Any = None,
    resume: str | os.PathLike[str] | None = None,
    progress: StageProgress | None = None,
) -> Tuning:
    """Search a grid of parameters by cross-validation; the model itself stays as it is.

    Parameters
    ----------
    model : SVC, MultilabelSVC or SVR
        Of ``SVC()``, whose kernel is "auto", the kernel of ``SVC("fast")`` is tuned if the grid names none.
    X : n texts or vectors, or a kernel matrix with ``kernel="precomputed"``
    y : array-like, shape (n,)
        Labels or numbers; several labels a document as `MultilabelSVC.fit` takes them.
    grid : dict of lists, or several
        As scikit-learn's `ParameterGrid`: ``{"kernel__p": [3, 4, 5], "C": [1, 10]}``, or
        ``{"kernel": [GapWeighted(p=4), Spectrum(p=5)], "C": [1, 10]}``.
    metric : str, optional
        Name of a metric; accuracy for a classifier, micro_f1 where documents may have several labels, r2 for
        a regressor.
    cv, repeats, groups, sample_weight, group_duplicates, random_state, positive
        See `textsvm.selection.cross_validation.cross_validate`. Near-duplicates are those of the kernel
        whose Gram is made first. A kernel that learns from documents takes a Gram for each training part.
        Sums of kernels share the Grams of their parts, as far as there is memory.
    minutes : float, optional
        Time budget. A grid that is estimated to take longer is refused before the work starts (the estimate
        is for this machine alone, without workers); if the
        estimate was wrong, kernels whose turn has not come when time is over are left out, with a warning.
    nested : int, optional
        Outer folds for an unbiased estimate of what tuning achieves, over the same Grams.
    resume : path, optional
        A file that keeps the settings tried, as they are: a search that was interrupted goes on from there,
        with equal results. One of other documents, labels, folds or metric is refused.
    progress : callable, optional
        See `textsvm.runtime.parallel.StageProgress`; stages are "encode", "gram", "duplicates" and "solve",
        the last one in Grams done; and "tune", all of these in predicted seconds.

    Returns
    -------
    Tuning

    Raises
    ------
    InputError
        If what is given cannot be used or the grid does not fit the budget, before the work starts.

    Examples
    --------
    >>> from textsvm import SVC, Spectrum, tune
    >>> texts = ["red apple", "red cherry", "ripe apple", "ripe cherry"]
    >>> texts += ["fast car", "fast train", "slow car", "slow train"]
    >>> grid = {"kernel": [Spectrum(1), Spectrum(2)], "C": [0.1, 1, 10]}
    >>> tune(SVC(), texts, ["fruit"] * 4 + ["ride"] * 4, grid, cv=4).best_params_
    {'C': 0.1, 'kernel': Spectrum(p=1)}
    """
    started = time.perf_counter()
    if minutes is not None:
        _check_minutes(minutes)
    given, target, weight = read_training_data(model, X, y, sample_weight, positive)
    search = Search(settings_of(model, grid), target, weight, metric)
    splitting = Splitting(cv, groups, repeats, random_state, group_duplicates)
    search.split(splitting, nested)
    seconds = dict.fromkeys(("estimate", "encode", "gram", "duplicates", "solve", "score"), 0.0)
    leaks: list[Leak] = []
    with model.at_work(devices.select(model.device)):
        clock = time.perf_counter()
        shared = encode_all(model, search.settings, given, target, progress)
        clock = lap(seconds, "encode", clock)
        if minutes is not None:
            task = Task(target, weight, search.all_folds)
            with here():
                require_time(minutes, search.settings, shared, task, search.names)
            clock = lap(seconds, "estimate", clock)
        record = None if resume is None else Record(Path(resume), search, given)
        every, shared = shared, left(shared, search.tried, first=True)
        n_kernels = sum(len(one.kernels) for one in shared)
        if progress is not None:
            progress = WholeProgress(progress, shared, search)
        for number, (members, grams) in enumerate(all_grams(model, shared, progress)):
            if number == 0:
                whole = grams.copies_by(progress)
                clock = lap(seconds, "gram", clock)
                leaks = _mind_duplicates(search, splitting, nested, whole, of_stage(progress, "duplicates"))
                clock = lap(seconds, "duplicates", clock)
            lap(seconds, "gram", clock)
            if not all(k in search.tried for k in members):
                search.run(members, grams, seconds, of_all(progress, number, n_kernels))
                if record is not None:
                    record.add(members)
            clock = time.perf_counter()
            if minutes is not None and clock - started > 60 * minutes and number + 1 < n_kernels:
                warnings.warn(
                    f"{minutes:g} minutes are over after {number + 1} of {n_kernels} kernels; "
                    "the others are left out",
                    stacklevel=2,
                )
                break
        best = search.choose(range(len(search.folds)))
        if search.best != best:  # found before the search was resumed, and not fitted to all documents
            for members, grams in all_grams(model, of_kernel(every, best)):
                search.run(members, grams, seconds, None)
    search.best_model().read(X)  # a table names its columns, and the fitted model keeps the names
    return _outcome(search, leaks, seconds)


def _mind_duplicates(
    search: Search,
    splitting: Splitting,
    nested: int | None,
    whole: Prepared | None,
    progress: Progress | None,
) -> list[Leak]:
    """Keep near-duplicates together if that is wished for, else warn of those that folds part."""
    if splitting.group_duplicates is None:
        return report_leaks(whole, search.folds, progress, stacklevel=4)
    search.split(splitting.with_duplicates(whole, progress), nested)
    return []


def _outcome(search: Search, leaks: list[Leak], seconds: dict[str, float]) -> Tuning:
    assert search.best is not None
    best = search.settings[search.best]
    warn_unfinished(best.model, search.best_machines, search.target)
    nested = None
    if search.inner:
        params, judged = search.nested()
        nested = Nested(params, judged, *mean_and_sd(judged))
    table = search.table()
    return Tuning(
        best_params_=best.params,
        best_score=next(row["mean"] for row in table if row["params"] is best.params),
        best_estimator=best.model,
        metric=search.metric,
        table=table,
        untried=[setting.params for k, setting in enumerate(search.settings) if k not in search.tried],
        nested=nested,
        folds=search.folds,
        leaks=leaks,
        seconds=seconds,
    )


def _check_minutes(minutes: float) -> None:
    if isinstance(minutes, bool) or not isinstance(minutes, int | float | np.number) or not minutes > 0:
        raise InputError(f"minutes={minutes!r} must be a number above 0")
