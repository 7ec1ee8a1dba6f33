"""Maps from decision values to probabilities, fitted by scikit-learn's `CalibratedClassifierCV`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV


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


def fit_maps(
    method: str,
    decision: NDArray[np.float64],
    codes: NDArray[np.int64],
    weight: NDArray[np.float64] | None,
) -> dict[str, NDArray[np.float64 | np.int64]]:
    """Calibrate decision values; maps in the form of `CalibratedRule.maps`."""
    maps = [_fit_map(method, *each) for each in _one_against_the_rest(decision, codes, weight)]
    if method == "sigmoid":
        return {name: np.array([getattr(each, f"{name}_") for each in maps], np.float64) for name in "ab"}
    return {
        "x": np.concatenate([each.X_thresholds_ for each in maps]).astype(np.float64),
        "y": np.concatenate([each.y_thresholds_ for each in maps]).astype(np.float64),
        "starts": np.cumsum([0, *(len(each.X_thresholds_) for each in maps)]).astype(np.int64),
    }


def _one_against_the_rest(
    decision: NDArray[np.float64], codes: NDArray[np.int64], weight: NDArray[np.float64] | None
) -> Iterator[tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.float64] | None]]:
    """Decision values, membership in the class, and weights, for each map.

    A class that was never tested has no values: its map is fitted to all other classes together.
    """
    if decision.ndim == 1:
        yield decision, codes == 1, weight
        return
    tested = np.unique(codes)
    for k in range(decision.shape[1]):
        some = [k] if k in tested else tested.tolist()
        values = np.concatenate([decision[:, a] for a in some])
        member = np.concatenate([codes == a for a in some])
        yield values, member, None if weight is None else np.tile(weight, len(some))


def _fit_map(
    method: str, values: NDArray[np.float64], member: NDArray[np.bool_], weight: NDArray[np.float64] | None
) -> Any:
    """scikit-learn's calibrator of the values of a class against the rest."""
    everyone = np.arange(len(values))
    # Without an ensemble a single map is fitted to the values of all folds.
    machinery = CalibratedClassifierCV(
        _DecisionValues(), method=method, cv=[(everyone, everyone)], ensemble=False
    ).fit(values[:, None], member.astype(np.int64), sample_weight=weight)
    return machinery.calibrated_classifiers_[0].calibrators[0]
