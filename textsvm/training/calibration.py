"""Probabilities of a classifier, by maps that are fitted to out-of-fold decision values.

The decision values of a model on its own training documents are too good, so the maps
(`textsvm.model.rules.CalibratedRule`) are fitted to the values of a cross-validation, from machines that were
not trained on the document. A class against the rest has the map

    sigmoid    p = 1 / (1 + exp(a f + b)), a and b of largest likelihood (Platt 1999), found by Newton's
               method with backtracking (Lin, Lin and Weng 2007)
    isotonic   the non-decreasing function with the smallest squared error (Zadrozny and Elkan 2002)
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from textsvm.arrays import Arrays, Bools, Floats, Ints
from textsvm.model.conformal import Conformity
from textsvm.model.rules import CalibratedRule, ClassRule, fit_logistic, mapped_probabilities
from textsvm.model.settings import CalibrationSettings


def calibrated_rule(
    calibration: CalibrationSettings, rule: ClassRule, decision: Floats, codes: Ints, weight: Floats | None
) -> CalibratedRule:
    """The rule with maps that fit decision values, classes and weights of held-out documents."""
    maps = fit_maps(calibration.method, decision, codes, weight)
    conformity = Conformity.of(mapped_probabilities(maps, decision), decision, codes)
    return CalibratedRule(
        rule.classes, rule.strategy, reject=calibration.reject,
        method=calibration.method, maps=maps, conformity=conformity,
    )  # fmt: skip


def fit_maps(method: str, decision: Floats, codes: Ints, weight: Floats | None) -> Arrays:
    """Calibrate decision values; maps in the form of `CalibratedRule.maps`."""
    fits = _one_against_the_rest(decision, codes, weight)
    if method == "sigmoid":
        a, b = zip(*(fit_sigmoid(*fit) for fit in fits), strict=True)
        return {"a": np.array(a), "b": np.array(b)}
    from sklearn.isotonic import IsotonicRegression

    maps = [IsotonicRegression(out_of_bounds="clip").fit(*fit) for fit in fits]
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


def fit_sigmoid(values: Floats, member: Bools, weight: Floats | None = None) -> tuple[float, float]:
    """The parameters a and b of largest likelihood, with Platt's targets instead of 0 and 1."""
    weight = np.ones(len(values)) if weight is None else weight
    inside, outside = float(weight[member].sum()), float(weight[~member].sum())
    targets = np.where(member, (inside + 1) / (inside + 2), 1 / (outside + 2))
    unit = float(np.abs(values).max()) or 1.0
    start = 0.0, float(np.log((inside + 1) / (outside + 1)))
    slope, offset = fit_logistic(values / unit, targets, weight, start)
    return -slope / unit, -offset
