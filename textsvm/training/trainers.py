"""The trainer of each class of settings. Modules are imported when their trainer is called."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from numpy.typing import ArrayLike

from textsvm.kernels.inputs import as_texts
from textsvm.model.settings import CalibrationSettings, ClassifierSettings, MultilabelSettings, Settings
from textsvm.model.trained import TrainedModel
from textsvm.runtime.parallel import StageProgress
from textsvm.sources.copies import sample_digests
from textsvm.sources.texts import TextSource


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
    trainer: Callable[..., TrainedModel]
    if isinstance(settings, CalibrationSettings):
        from textsvm.training.calibration import train_calibrated as trainer
    elif isinstance(settings, ClassifierSettings):
        from textsvm.training.classifier import train_classifier as trainer
    elif isinstance(settings, MultilabelSettings):
        from textsvm.training.multilabel import train_multilabel as trainer
    else:
        from textsvm.training.train import train_machines as trainer
    if isinstance(X, Iterator):
        X = as_texts(X)
    return with_digests(trainer(settings, X, y, sample_weight, progress), X)


def with_digests(model: TrainedModel, X: Any) -> TrainedModel:
    """The model with digests of its training texts."""
    source = model.reader
    if not isinstance(source, TextSource):
        return model
    return model.with_record(texts=sample_digests(source.validate(X), source))


def check(settings: Settings | CalibrationSettings) -> None:
    """Raise InputError if a setting is out of range, before examples are read."""
    settings.check()
    settings = settings.classifier if isinstance(settings, CalibrationSettings) else settings
    compute = settings.compute_options
    if (compute.solver, compute.store, compute.tier) != ("auto", None, "auto"):
        from textsvm.training.grams import check_solver, check_store

        check_solver(settings)
        check_store(settings)
