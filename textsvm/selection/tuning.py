"""Tune parameters: the Gram of every kernel is computed once, for all its settings on all folds.

The folds are the same for all settings. A kernel that learns from documents has a Gram for each training part
(see `textsvm.training.fold_grams`). For each Gram, the problems of all folds, settings and class pairs are
solved side by side, as paths along C. The best setting so far is fitted to all documents while its Gram
exists, so that no Gram is kept or computed twice. Nested cross-validation only adds folds: inner folds of the
training part of each outer fold, which choose the outer fold's setting, and the outer fold itself.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from textsvm.errors import InputError, warn_user
from textsvm.model.settings import Fold, Settings, is_default, settings_of
from textsvm.model.trained import TrainedModel
from textsvm.runtime import device as devices
from textsvm.runtime.parallel import StageProgress, lap, of_stage
from textsvm.runtime.parameters import notebook_table, with_short_repr
from textsvm.runtime.plain_json import to_json
from textsvm.selection.grid import SharedExamples, all_grams, encode_all, grid_points
from textsvm.selection.scoring import mean_and_sd, warn_unfinished
from textsvm.selection.search import GridSearch, TrialFile, left
from textsvm.training.fold_grams import of_all, solving_seconds
from textsvm.training.folds import Splitting, n_together, report_leaks
from textsvm.training.leakage import Leak
from textsvm.training.targets import is_number
from textsvm.training.train import read_training_data


@dataclass(frozen=True)
class Nested:
    """Unbiased estimate of the result of tuning, on documents that took no part in the choice."""

    params: list[dict[str, Any]]  #: Setting chosen on the training part of each outer fold
    table: list[dict[str, float]]  #: Metrics of this setting on the test part
    mean: dict[str, float]  #: Mean and sample standard deviation over the outer folds.
    sd: dict[str, float]


@with_short_repr
@dataclass(frozen=True)
class Tuning:
    """Outcome of a search."""

    best_params_: dict[str, Any]
    best_score: float  #: Mean of the metric over the folds; optimistic, as it was chosen, see `nested`
    best_model: TrainedModel  #: With these parameters, trained on all documents
    best_estimator: Any  #: The estimator that was tuned, with these parameters and this model; else None
    metric: str
    #: In the order of the grid: "params", "mean" and "sd" of the metric, "folds" (the metric on each fold),
    #: "metrics" (means of all metrics, without areas under curves unless such is the metric) and "seconds"
    #: (share of the work on its Gram).
    table: list[dict[str, Any]]
    untried: list[dict[str, Any]]  #: Settings left out because the time was over
    nested: Nested | None
    folds: list[Fold]
    #: Near-duplicates across folds, see `textsvm.selection.cross_validation.CrossValidation`.
    leaks: list[Leak]
    seconds: dict[str, float]  #: Wall time of "encode", "gram", "duplicates", "solve" and "score"
    copies: int = 0  #: As in `textsvm.selection.cross_validation.CrossValidation`

    def _repr_html_(self) -> str:
        rows = [(row["mean"], row["sd"], row["params"]) for row in self.table]
        rows.sort(key=lambda row: np.nan_to_num(abs(row[0] - self.best_score), nan=np.inf))  # the best first
        return notebook_table(f"{len(rows):,} settings", [(self.metric, "sd", "parameters"), *rows])

    def as_dict(self) -> dict[str, Any]:
        """JSON values; NaN is None, a kernel is its name and parameters."""
        names = ("metric", "best_score", "table", "untried", "copies", "seconds")
        values = {
            **{name: vars(self)[name] for name in names},
            "best_params": self.best_params_,
            "nested": None if self.nested is None else vars(self.nested),
            "leaks": [leak.as_dict() for leak in self.leaks],
        }
        return to_json(values)


def tune(
    model: object,
    X: object,
    y: object,
    grid: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    *,
    metric: str | None = None,
    cv: object = 5,
    repeats: int = 1,
    groups: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    minutes: float | None = None,
    nested: int | None = None,
    group_duplicates: float | None = None,
    random_state: int | None = 0,
    positive: object = None,
    resume: str | os.PathLike[str] | None = None,
    progress: StageProgress | None = None,
) -> Tuning:
    """Search a grid of parameters by cross-validation; the model itself is not changed.

    Parameters
    ----------
    model : SVC, MultilabelSVC or SVR
        If neither the model nor the grid names a kernel, ``Spectrum((1, 5), "log", idf=True)`` is tuned, and
        named in `best_params_`.
    X : n texts or vectors, or a kernel matrix with ``kernel="precomputed"``
    y : array-like, shape (n,)
        Labels or numbers; several labels per document as `MultilabelSVC.fit` takes them.
    grid : dict of lists, or several
        As for scikit-learn's `ParameterGrid`: ``{"kernel__p": [3, 4, 5], "C": [1, 10]}``, or
        ``{"kernel": [GapWeighted(p=4), Spectrum(p=5)], "C": [1, 10]}``. The kernel "auto" is the default of
        `SVC`, which chooses a kernel on each training part. It wins unless another setting is better by more
        than a standard error.
    metric : str, optional
        Name of a metric; default accuracy for a classifier, micro_f1 for several labels per document, r2 for
        a regressor.
    cv, repeats, groups, sample_weight, group_duplicates, random_state, positive
        As for `textsvm.cross_validate`. The kernel whose Gram is computed first detects near-duplicates. A
        kernel that learns from documents needs a Gram for each training part. Sums of kernels share the Grams
        of their parts, if memory suffices.
    minutes : float, optional
        Time budget: when it ends, the remaining kernels are left out with a warning.
    nested : int, optional
        Number of outer folds for an unbiased estimate of the result of tuning, over the same Grams.
    resume : path, optional
        File that stores the settings tried: an interrupted search continues from it, with equal results. A
        file of other documents, labels, folds or metric is refused.
    progress : callable, optional
        Called with the stage, the work done and the total work; stages are "encode", "gram", "duplicates",
        "solve" (work in Grams), and "tune", the whole search in predicted seconds.

    Raises
    ------
    InputError
        If an argument is invalid; before the work starts.

    Examples
    --------
    >>> from textsvm import SVC, Spectrum, tune
    >>> texts = ["red apple", "red cherry", "ripe apple", "ripe cherry"]
    >>> texts += ["fast car", "fast train", "slow car", "slow train"]
    >>> grid = {"kernel": [Spectrum(1), Spectrum(2)], "C": [0.1, 1, 10]}
    >>> tune(SVC(), texts, ["fruit"] * 4 + ["ride"] * 4, grid, cv=4).best_params_
    {'C': 0.1, 'kernel': Spectrum(p=1)}
    """
    if minutes is not None and not (is_number(minutes) and minutes > 0):
        raise InputError(f"minutes={minutes!r} must be a number above 0")
    settings, started = settings_of(model), time.perf_counter()
    examples, target, weight = read_training_data(settings, X, y, sample_weight, positive, groups)
    search = GridSearch(grid_points(settings, grid), target, weight, metric)
    search.split(Splitting(cv, None, repeats, random_state, group_duplicates), nested)
    call = partial(_try_settings, settings, examples, search, (started, minutes), resume, progress)
    checked = time.perf_counter() - started
    leaks, seconds = devices.run_on(settings.device, call)
    seconds["check"] = seconds.get("check", 0.0) + checked
    return _outcome(model, X, search, leaks, seconds)


def _try_settings(
    settings: Settings,
    examples: Any,
    search: GridSearch,
    budget: tuple[float, float | None],
    resume: str | os.PathLike[str] | None,
    progress: StageProgress | None,
    device: str,
) -> tuple[list[Leak], dict[str, float]]:
    """Try the settings of a search that are not tried yet on a device.

    `budget` is the time of the start and the number of minutes. Returns near-duplicates across folds, and the
    times of the stages.
    """
    started, minutes = budget
    settings = settings.on(device)
    search.points = [replace(point, settings=point.settings.on(device)) for point in search.points]
    seconds = dict.fromkeys(("encode", "gram", "duplicates", "solve", "score"), 0.0)
    leaks, clock = list[Leak](), time.perf_counter()
    with settings.at_work(devices.select(settings.device)):
        shared = encode_all(settings, search.points, examples, search.target, progress)
        clock = lap(seconds, "encode", clock)
        trials = None if resume is None else TrialFile(Path(resume), search, examples)
        every, shared = shared, left(shared, search.tried, first=True)
        n_kernels = sum(len(group.kernels) for group in shared)
        if progress is not None:
            progress = WholeProgress(progress, shared, search)
        for number, (members, grams) in enumerate(all_grams(settings, shared, progress)):
            if number == 0:
                whole = grams.near_duplicate_rows(progress)
                clock = lap(seconds, "gram", clock)
                step = of_stage(progress, "duplicates")
                if search.splitting.group_duplicates is None:
                    leaks = report_leaks(whole, search.folds, step)
                else:
                    search.split(search.splitting.with_duplicates(whole, step), search.n_outer)
                clock = lap(seconds, "duplicates", clock)
            clock = lap(seconds, "gram", clock)
            if not all(k in search.tried for k in members):
                search.run(members, grams, seconds, of_all(progress, number, n_kernels))
                clock = time.perf_counter()
                if trials is not None:
                    trials.add(members)
            clock = lap(seconds, "record", clock)
            if minutes is not None and clock - started > 60 * minutes and number + 1 < n_kernels:
                left_out = f"{minutes:g} minutes are over after {number + 1} of {n_kernels} kernels"
                warn_user(f"{left_out}; the others are left out", UserWarning)
                break
        else:
            for k in (k for k, point in enumerate(search.points) if is_default(point.settings.kernel)):
                search.try_default(k, examples, seconds)
        clock = time.perf_counter()
        best = search.choose(range(len(search.folds)))
        clock = lap(seconds, "score", clock)
        if search.best != best:  # its results are from the file: not fitted to all documents yet
            others = set(range(len(search.points))) - {best}
            for members, grams in all_grams(settings, left(every, others, first=False)):
                lap(seconds, "gram", clock)
                search.run(members, grams, seconds, None)
    return leaks, seconds


def _outcome(model: Any, X: Any, search: GridSearch, leaks: list[Leak], seconds: dict[str, float]) -> Tuning:
    assert search.best is not None
    assert search.best_model is not None
    clock = time.perf_counter()
    best = search.points[search.best]
    if search.best_machines:
        warn_unfinished(best.settings, search.best_machines, search.target)
    nested = None
    if search.inner:
        params, judged = search.nested()
        nested = Nested(params, judged, *mean_and_sd(judged))
    table = search.table()
    estimator = None if model is settings_of(model) else model.with_model(search.best_model, X)
    lap(seconds, "score", clock)
    return Tuning(
        best_params_=best.params,
        best_score=next(row["mean"] for row in table if row["params"] is best.params),
        best_model=search.best_model.on(settings_of(model).device, search.best_model.n_jobs),
        best_estimator=estimator,
        metric=search.metric,
        table=table,
        untried=[point.params for k, point in enumerate(search.points) if k not in search.tried],
        nested=nested,
        folds=search.folds,
        leaks=leaks,
        seconds=seconds,
        copies=n_together(search.target.copies, search.folds),
    )


class WholeProgress:
    """Forwards progress, and adds the stage "tune": predicted seconds done and of the whole search.

    A display divides them by the time elapsed, so its estimate covers the whole search and is corrected by
    measurement.
    """

    def __init__(self, progress: StageProgress, shared: Sequence[SharedExamples], search: GridSearch) -> None:
        self.progress, self.number, self.shown = progress, 0, 0.0
        self.seconds = list[float]()  # of the Gram of each kernel, and then of its solutions
        for group in shared:
            for k in sorted(range(len(group.kernels)), key=lambda k: group.kernels[k].structure.learns):
                points = [search.points[m].settings for m in group.members[k]]
                grams = len(search.all_folds) if group.kernels[k].structure.learns else 1
                whole = group.kernels[k].cost.seconds(group.examples, group.examples) / 2
                self.seconds += [grams * whole, solving_seconds(points, search.target, search.all_folds)]

    def __call__(self, stage: str, done: float, total: float) -> None:
        self.progress(stage, done, total)
        if stage not in ("gram", "solve"):
            return
        if stage == "solve":  # in kernels
            self.number = min(int(done), len(self.seconds) // 2 - 1)
        part = min(done - self.number, 1.0) if stage == "solve" else done / (total or 1)
        at = 2 * self.number + (stage == "solve")
        self.shown = max(self.shown, sum(self.seconds[:at]) + self.seconds[at] * part)
        self.progress("tune", self.shown, sum(self.seconds))
