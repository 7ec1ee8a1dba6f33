"""Estimators of trained models, for scikit-learn's tools."""

from __future__ import annotations

from typing import Any

from sklearn.exceptions import ConvergenceWarning

from textsvm.estimators.calibrated import CalibratedSVC
from textsvm.estimators.multilabel import MultilabelSVC
from textsvm.estimators.online import OnlineSVC
from textsvm.estimators.svm import SVC, SVR, OneClassSVM
from textsvm.model.rules import CalibratedRule
from textsvm.model.settings import OnlineSettings
from textsvm.model.trained import TrainedModel
from textsvm.training.online import OnlineLearner

_ESTIMATORS = {face.__name__: face for face in (SVC, SVR, OneClassSVM, MultilabelSVC, CalibratedSVC)}


def as_estimator(model: TrainedModel) -> Any:
    """A fitted estimator that holds a trained model.

    Parameters
    ----------
    model : TrainedModel
        For instance the result of `textsvm.load`.

    Returns
    -------
    SVC, SVR, OneClassSVM, MultilabelSVC, CalibratedSVC or OnlineSVC
        With the settings of the model. It predicts as the model does, and works in scikit-learn's pipelines,
        scorers, displays and inspection; `sklearn.frozen.FrozenEstimator` of it is not trained again. `fit`
        trains it anew. An OnlineSVC goes on learning, from a copy of the model.

    Examples
    --------
    >>> from textsvm import SVC, Spectrum, as_estimator, load, save
    >>> save(SVC(Spectrum(3)).fit(["win cash now", "lunch at noon"], ["spam", "ham"]), "spam.textsvm")
    >>> as_estimator(load("spam.textsvm")).score(["cash", "lunch"], ["spam", "ham"])
    1.0
    """
    settings, rule = model.record.settings, model.rule
    if isinstance(settings, OnlineSettings):
        online = OnlineSVC(**settings.as_dict())
        online.learner_ = OnlineLearner(settings, model, ConvergenceWarning)
        return online
    parameters = {**settings.as_dict(), "device": model.device, "n_jobs": model.n_jobs}
    if isinstance(rule, CalibratedRule):
        estimator: Any = CalibratedSVC(SVC(**parameters), rule.method, reject=rule.reject)
    else:
        estimator = _ESTIMATORS[rule.estimator](**parameters)
    estimator.model_ = model
    if model.support.n_features is not None:
        estimator.n_features_in_ = model.support.n_features
    return estimator
