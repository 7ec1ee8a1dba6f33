"""Machines on texts that were read from a file and decide, without scikit-learn, whose import takes a second.

They answer as the estimator of the same file does (`textsvm.load`), and can nothing else: what there is of
`decision_function`, `predict`, `predict_proba`, `classes_`, `thresholds_`, `kernel_`, `info_` and `device_`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.estimators.decisions import (
    decide,
    probabilities_of,
    quiet_overflow,
    require_numbers,
    scores_of_classes,
    winners,
)
from textsvm.kernels.contract import Predictor
from textsvm.runtime import device as devices
from textsvm.runtime.parallel import Lock, StageProgress, of_stage
from textsvm.sources.base import Kept
from textsvm.sources.texts import TextSource

#: Held while a predictor is made, so that threads that share a machine make one.
_making = Lock()


@dataclass
class FittedMachine:
    """What decides of any estimator.

    Attributes
    ----------
    source : TextSource
    kept : Kept
    dual_coef_ : float64 array, shape (n_machines, n_sv)
    intercept_ : float64 array, shape (n_machines,)
    info_ : dict
    device : str
        As `textsvm.SVC` takes it.
    """

    source: TextSource
    kept: Kept
    dual_coef_: NDArray[np.float64]
    intercept_: NDArray[np.float64]
    info_: dict[str, Any]
    device: str = field(default="auto", kw_only=True)

    @property
    def kernel_(self) -> Any:
        """The kernel with what it learnt."""
        return self.kept.kernel

    def values(self, X: Any, progress: StageProgress | None = None) -> NDArray[np.float64]:
        """Values of all machines, shape (n, n_machines)."""
        given = self.source.read(X, self, fitting=False)
        self.device_ = devices.select(self.device)
        if not len(self.kept.support) and self.kept.weights is None:
            return np.tile(self.intercept_, (len(given), 1))
        with devices.use(self.device_), quiet_overflow():
            others = self.source.others(given, self.kept)
            made: Any = self._prepared()
            return require_numbers(self.intercept_ + made.values(others, of_stage(progress, "predict")))

    def _prepared(self) -> Predictor:
        with _making:
            if "_predictor" not in vars(self):
                self._predictor = self.source.predictor(self.kept, self.dual_coef_, self.device_)
            return self._predictor


@dataclass
class FittedRegressor(FittedMachine):
    """A `textsvm.SVR`."""

    def predict(self, X: Any, progress: StageProgress | None = None) -> NDArray[np.float64]:
        """The number of each text, shape (n,)."""
        return self.values(X, progress)[:, 0]


@dataclass
class FittedOneClass(FittedMachine):
    """A `textsvm.OneClassSVM`."""

    def decision_function(self, X: Any, progress: StageProgress | None = None) -> NDArray[np.float64]:
        """Distance from the boundary, shape (n,); negative outside."""
        return self.values(X, progress)[:, 0]


@dataclass
class FittedClassifier(FittedMachine):
    """A `textsvm.SVC`; with `thresholds_` a `textsvm.MultilabelSVC`."""

    classes_: NDArray[Any]
    multiclass: str = "ovr"
    thresholds_: NDArray[np.float64] | None = None

    def decision_function(self, X: Any, progress: StageProgress | None = None) -> NDArray[np.float64]:
        """See `textsvm.SVC.decision_function`."""
        values = self.values(X, progress)
        if self.thresholds_ is not None:
            return values
        return scores_of_classes(values, len(self.classes_), self.multiclass)

    def predictions(self, scores: NDArray[np.float64], classes: Any = None) -> NDArray[Any]:
        """The decision function -> classes, shape (n,); or which labels are given, shape (n, n_classes)."""
        return winners(scores, self.classes_) if self.thresholds_ is None else scores > self.thresholds_


class FittedCalibrated:
    """A `textsvm.CalibratedSVC`.

    Parameters
    ----------
    estimator : FittedClassifier
    maps : dict of arrays
    reject : see `textsvm.CalibratedSVC`
    """

    def __init__(self, estimator: FittedClassifier, maps: Mapping[str, NDArray[Any]], reject: Any) -> None:
        self.estimator_, self.calibration_, self.reject = estimator, maps, reject

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "estimator_":
            raise AttributeError(name)
        return getattr(self.estimator_, name)

    def probabilities(self, decision: NDArray[np.float64]) -> NDArray[np.float64]:
        """See `textsvm.CalibratedSVC.probabilities`."""
        return probabilities_of(self.calibration_, decision)

    def predict_proba(self, X: Any, progress: StageProgress | None = None) -> NDArray[np.float64]:
        """The probability of each class, shape (n, n_classes)."""
        return self.probabilities(self.decision_function(X, progress))

    def decide(self, probabilities: NDArray[np.float64]) -> NDArray[Any]:
        """See `textsvm.CalibratedSVC.decide`."""
        return decide(probabilities, self.classes_, self.reject)
