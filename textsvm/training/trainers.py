"""The trainer of each class of settings. Modules are imported when their trainer is called."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from textsvm.model.settings import CalibrationSettings, ClassifierSettings, MultilabelSettings, Settings
from textsvm.model.trained import TrainedModel
from textsvm.runtime.parallel import StageProgress


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
        from textsvm.training.calibration import train_calibrated

        return train_calibrated(settings, X, y, sample_weight, progress)
    if isinstance(settings, ClassifierSettings):
        from textsvm.training.classifier import train_classifier

        return train_classifier(settings, X, y, sample_weight, progress)
    if isinstance(settings, MultilabelSettings):
        from textsvm.training.multilabel import train_multilabel

        return train_multilabel(settings, X, y, sample_weight, progress)
    from textsvm.training.train import train_machines

    return train_machines(settings, X, y, sample_weight, progress)


def check(settings: Settings | CalibrationSettings) -> None:
    """Raise InputError if a setting is out of range, before examples are read."""
    settings.check()
    settings = settings.classifier if isinstance(settings, CalibrationSettings) else settings
    compute = settings.compute_options
    if (compute.solver, compute.store, compute.tier) != ("auto", None, "auto"):
        from textsvm.training.grams import check_solver, check_store

        check_solver(settings)
        check_store(settings)
