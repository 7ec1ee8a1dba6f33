"""Trainer of classifiers with probabilities, calibrated on out-of-fold decision values.

The decision values of a model on its own training documents are too good, so calibration uses the values of a
cross-validation, from machines that were not trained on the document. The folds share the Gram of all
documents, unless the kernel learns from documents (idf weights): it then learns from each training part. The
values are mapped to probabilities (`textsvm.model.rules.CalibratedRule`); scikit-learn's
`CalibratedClassifierCV` fits the maps. The classifier itself is fitted to all documents.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV

from textsvm.arrays import Arrays, Bools, Floats, Ints
from textsvm.errors import InputError
from textsvm.model.conformal import Conformity
from textsvm.model.rules import CalibratedRule, ClassRule, check_reject, margins
from textsvm.model.settings import CalibrationSettings, is_default
from textsvm.model.trained import TrainedModel
from textsvm.runtime.parallel import StageProgress, lap
from textsvm.sources.copies import n_separated
from textsvm.training import fold_grams
from textsvm.training.classifier import ChosenKernel, choose_kernel
from textsvm.training.folds import make_folds
from textsvm.training.problems import problem_of
from textsvm.training.targets import Target
from textsvm.training.thresholds import mean_values
from textsvm.training.train import read_training_data


def train_calibrated(
    settings: CalibrationSettings,
    X: Any,
    y: Any,
    sample_weight: ArrayLike | None = None,
    progress: StageProgress | None = None,
) -> TrainedModel:
    """Train a classifier; all folds and the final machines share a Gram, unless the kernel learns (idf).

    Weights count in the machines and in the calibration.
    """
    settings.check()
    classifier = settings.classifier
    examples, target, weight = read_training_data(classifier, X, y, sample_weight)
    task, tested = _task(settings, target, weight)
    seconds = dict.fromkeys(("encode", "gram", "solve", "score"), 0.0)
    chosen: ChosenKernel | None = None
    if is_default(classifier.kernel):
        clock = time.perf_counter()
        chosen = choose_kernel(classifier, examples, target, weight, progress)
        classifier = replace(classifier, kernel=chosen.kernel, C=chosen.C, loss=chosen.loss, encoder=None)
        lap(seconds, "choose", clock)
    model, values = fold_grams.fit_with_folds(classifier, examples, task, seconds, progress)
    assert model is not None
    assert isinstance(model.rule, ClassRule)
    clock = time.perf_counter()
    decision, _ = mean_values(values, task.folds[:-1], len(target.values))
    decision, codes = decision[tested], target.values[tested]
    tested_weight = None if weight is None else weight[tested]
    maps = fit_maps(settings.method, decision, codes, tested_weight)
    rule = CalibratedRule(
        model.rule.classes, model.rule.strategy, method=settings.method, maps=maps, reject=settings.reject
    )
    probability = rule.probabilities(decision)
    rule = replace(rule, conformity=Conformity.of(probability, decision, codes))
    seconds["calibrate"] = seconds.pop("score") + time.perf_counter() - clock
    # Not by the probabilities: their maps are fitted to these values.
    right = model.rule.predictions(decision) == model.rule.classes[codes]
    accuracy = float(np.average(right, weights=tested_weight))
    model = model.with_record(
        chosen="" if chosen is None else chosen.description,
        n_trials=0 if chosen is None else chosen.n_trials,
        held_out_accuracy=None if n_separated(target.copies, task.folds) else accuracy,
        margin=float(np.median(margins(decision))),
        seconds=seconds,
    )
    return replace(model, rule=rule)


def _task(
    settings: CalibrationSettings, target: Target, weight: Floats | None
) -> tuple[fold_grams.Task, Ints]:
    """Folds, the last with all documents and no test part; and the documents that are tested."""
    assert target.classes is not None
    check_reject(settings.reject, target.classes)
    folds = make_folds(settings.cv, target, random_state=settings.random_state)
    tested = np.unique(np.concatenate([test for _, test in folds]))
    missing = np.setdiff1d(np.arange(len(target.classes)), target.values[tested])
    if len(missing) and not isinstance(settings.cv, int | np.integer):
        raise InputError(f"no document of class {target.classes[missing[0]]!s} is in the test part of a fold")
    folds.append((np.arange(len(target.values)), np.empty(0, np.int64)))
    for train, _ in folds:
        problem_of(settings.classifier, target, train, weight)
    return fold_grams.Task(target, weight, folds), tested


class _DecisionValues(ClassifierMixin, BaseEstimator):
    """Minimal estimator with decision values as X, as scikit-learn calibrates estimators only."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> _DecisionValues:
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X: Any) -> Any:
        return X[:, 0]

    def predict(self, X: Any) -> Any:
        """Required by scikit-learn, but not used."""
        return self.classes_[(X[:, 0] > 0).astype(int)]


def fit_maps(method: str, decision: Floats, codes: Ints, weight: Floats | None) -> Arrays:
    """Calibrate decision values; maps in the form of `CalibratedRule.maps`."""
    maps = [_fit_map(method, *fitted) for fitted in _one_against_the_rest(decision, codes, weight)]
    if method == "sigmoid":
        return {name: np.array([getattr(fitted, f"{name}_") for fitted in maps], np.float64) for name in "ab"}
    return {
        "x": np.concatenate([fitted.X_thresholds_ for fitted in maps]).astype(np.float64),
        "y": np.concatenate([fitted.y_thresholds_ for fitted in maps]).astype(np.float64),
        "starts": np.cumsum([0, *(len(fitted.X_thresholds_) for fitted in maps)]).astype(np.int64),
    }


def _one_against_the_rest(
    decision: Floats, codes: Ints, weight: Floats | None
) -> Iterator[tuple[Floats, Bools, Floats | None]]:
    """Decision values, membership in the class, and weights, for each map.

    A class that was never tested has no values: its map is fitted to all other classes together.
    """
    if decision.ndim == 1:
        yield decision, codes == 1, weight
        return
    tested = np.unique(codes)
    for k in range(decision.shape[1]):
        columns = [k] if k in tested else tested.tolist()
        values = np.concatenate([decision[:, a] for a in columns])
        member = np.concatenate([codes == a for a in columns])
        yield values, member, None if weight is None else np.tile(weight, len(columns))


def _fit_map(method: str, values: Floats, member: Bools, weight: Floats | None) -> Any:
    """scikit-learn's calibrator of the values of a class against the rest."""
    everyone = np.arange(len(values))
    # Without an ensemble a single map is fitted to the values of all folds.
    machinery = CalibratedClassifierCV(
        _DecisionValues(), method=method, cv=[(everyone, everyone)], ensemble=False
    ).fit(values[:, None], member.astype(np.int64), sample_weight=weight)
    return machinery.calibrated_classifiers_[0].calibrators[0]
