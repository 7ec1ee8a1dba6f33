"""The trainer of each class of settings. Modules are imported when their trainer is called."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from textsvm.kernels.inputs import InputTable, is_table
from textsvm.kernels.resolve import sum_on_columns
from textsvm.model.settings import CalibrationSettings, ClassifierSettings, MultilabelSettings, Settings
from textsvm.model.trained import TrainedModel
from textsvm.runtime.device import run_on
from textsvm.runtime.parallel import StageProgress

AnySettings = TypeVar("AnySettings", bound=Settings)


def train(
    settings: Settings | CalibrationSettings,
    X: Any,
    y: Any = None,
    sample_weight: ArrayLike | None = None,
    progress: StageProgress | None = None,
) -> TrainedModel:
    """Train a model.

    Parameters
    ----------
    settings : Settings or CalibrationSettings
    X : n examples
        As `fit` of the estimator with these settings takes them, see `textsvm.SVC.fit`.
    y : targets of n examples; None for novelty detection
    sample_weight : array-like, shape (n,), optional
    progress : callable, optional

    Raises
    ------
    InputError
        If a setting, an example or a target is invalid.
    """
    if isinstance(settings, CalibrationSettings):
        settings.check()  # the device is that of the classifier, which may be none
    model = run_on(settings.device, lambda device: _train(settings.on(device), X, y, sample_weight, progress))
    if model.device == settings.device:
        return model
    if isinstance(model.record.settings, Settings):
        model = model.with_record(settings=model.record.settings.on(settings.device))
    return model.on(settings.device, model.n_jobs)


def _train(
    settings: Settings | CalibrationSettings,
    X: Any,
    y: Any,
    sample_weight: ArrayLike | None,
    progress: StageProgress | None,
) -> TrainedModel:
    if isinstance(settings, CalibrationSettings):
        from textsvm.training.calibration import train_calibrated

        settings = replace(settings, classifier=_on_columns(settings.classifier, X))
        return train_calibrated(settings, X, y, sample_weight, progress)
    settings = _on_columns(settings, X)
    if isinstance(settings, ClassifierSettings):
        from textsvm.training.classifier import train_classifier

        return train_classifier(settings, X, y, sample_weight, progress)
    if isinstance(settings, MultilabelSettings) and settings.thresholds != "zero":
        return _train_multilabel(settings, X, y, sample_weight, progress)
    from textsvm.training.train import train_machines

    return train_machines(settings, X, y, sample_weight, progress)


def _train_multilabel(
    settings: MultilabelSettings, X: Any, y: Any, weights: ArrayLike | None, progress: StageProgress | None
) -> TrainedModel:
    """Train a machine for each label, and choose thresholds from out-of-fold decision values.

    The folds and the fit to all texts share a Gram, unless the kernel learns (idf).
    """
    from textsvm.training import fold_grams, folds, problems
    from textsvm.training import train as training

    examples, target, weight = training.read_training_data(settings, X, y, weights)
    parts = folds.make_folds(settings.cv, target, random_state=settings.random_state)
    everyone = np.arange(len(target.values))
    task = fold_grams.Task(target, weight, [*parts, (everyone, np.empty(0, np.int64))])
    seconds = dict.fromkeys(("encode", "gram", "solve", "score"), 0.0)
    model, values = fold_grams.fit_with_folds(settings, examples, task, seconds, progress)
    assert model is not None
    clock = time.perf_counter()
    model = training.with_offsets(model, problems.fit_offsets(settings, values, parts, target))
    seconds["thresholds"] = seconds.pop("score") + time.perf_counter() - clock
    return model.with_record(seconds=seconds)


def _on_columns(settings: AnySettings, X: Any) -> AnySettings:
    """Settings with a sum of kernels on the columns of a table if they have the default kernel, of texts."""
    if not isinstance(settings.kernel, str) or settings.kernel != type(settings)().kernel or not is_table(X):
        return settings
    table = InputTable.of(X)
    texts = table.text_names
    if not texts or (len(table.names) == 1 and not isinstance(X, Mapping | list | tuple)):
        return settings  # `as_texts` reads a single column
    numbers = [name for name in table.names if name not in texts]
    return replace(settings, kernel=sum_on_columns(texts, [numbers], None, settings.encoder))


def check(settings: Settings | CalibrationSettings) -> None:
    """Raise InputError if a setting is out of range, before examples are read."""
    settings.check()
    settings = settings.classifier if isinstance(settings, CalibrationSettings) else settings
    compute = settings.compute_options
    if (compute.solver, compute.store, compute.tier) != ("auto", None, "auto"):
        from textsvm.training.grams import check_solver, check_store

        check_solver(settings)
        check_store(settings)
