"""Thresholds of labels and offsets of classes, chosen from out-of-fold decision values.

Thresholds of labels. A document has every label whose decision value is above the label's threshold. With the
threshold 0, rare labels are hardly ever predicted, so thresholds are chosen from out-of-fold decision values.
SCut (Yang 2001) takes for each label the threshold with the best F1 on out-of-fold values; it overfits labels
with few documents. Two remedies of Yang (2001) and Fan and Lin (2007):

    fbr    if the best F1 is under 0.3, the threshold is the largest value: the label is hardly ever predicted
    mean   of the thresholds from five subsets, each without a fifth of the documents

Offsets for macro-F1: a constant for the bias of each class. Coordinate ascent maximises macro-F1 + 0.5
accuracy of out-of-fold values; a step is accepted if it gains more than 0.5/sqrt(n). Offsets are the mean of
five searches, each without a fifth of the documents. reports/default_study.md has figures.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from textsvm.arrays import AnyArray, Floats, Ints
from textsvm.training.targets import Target

PARTS = 5  #: Parts of the documents, left out in turn.
FBR = 0.3  #: Thresholds: labels with a lower best F1 are hardly ever predicted.
ROUNDS = 3  #: Offsets: most rounds of a search.
GAIN = 0.5  #: Offsets: smallest gain of a step, times the root of n.
ACCURACY = 0.5  #: Offsets: weight of accuracy beside macro-F1.
#: Offsets: steps in units of the standard deviation of the values.
STEPS = (-0.8, -0.4, -0.2, -0.1, -0.05, 0.05, 0.1, 0.2, 0.4, 0.8)


def mean_values(values: Sequence[Floats], folds: Sequence[tuple[Ints, Ints]], n: int) -> tuple[Floats, Ints]:
    """Mean test value of each of n documents (NaN if untested), and how often it was tested."""
    total, tested = np.zeros((n, *values[0].shape[1:])), np.zeros(n, np.int64)
    for value, (_, test) in zip(values, folds, strict=True):
        np.add.at(total, test, value)
        np.add.at(tested, test, 1)
    with np.errstate(invalid="ignore"):
        return (total.T / np.where(tested > 0, tested, np.nan)).T, tested


def out_of_fold_values(
    values: Sequence[Floats], folds: Sequence[tuple[Ints, Ints]], target: Target
) -> Floats:
    """Decision values of all documents; NaN without a test or a weight, the last value of several."""
    decision = np.full((len(target.values), *values[0].shape[1:]), np.nan)
    for scores, (_, test) in zip(values, folds, strict=True):
        decision[test] = scores
    if target.weight is not None:
        decision[target.weight == 0] = np.nan
    return decision


def choose_thresholds(decision: Floats, truth: AnyArray) -> Floats:
    """Threshold of each label, shape (n_labels,), from out-of-fold decision values and truth, (n, n_labels).

    A document gets labels with values above it. NaN, of a label without a machine or unknown, is ignored.
    """
    n_labels = range(truth.shape[1])
    return np.mean(
        [[_best(decision[rows, a], truth[rows, a]) for a in n_labels] for rows in _subsets(len(decision))],
        axis=0,
    )


def _subsets(n: int) -> list[Ints]:
    """Subsets of n documents, each without a part; all documents if there are few."""
    part = np.random.default_rng(0).permutation(n) % PARTS
    return [np.flatnonzero(part != number) for number in range(PARTS)] if n >= 2 * PARTS else [np.arange(n)]


def _best(values: Floats, truth: AnyArray) -> float:
    """Threshold with the best F1, halfway between two values; the largest value if that F1 is low."""
    defined = ~np.isnan(values) & ~np.isnan(truth)
    values, truth = values[defined], truth[defined]
    if not len(values):
        return 0.0
    order = np.argsort(-values, kind="stable")
    values = values[order]
    f1 = 2 * np.cumsum(truth[order]) / (np.arange(1, len(values) + 1) + truth.sum())
    # Documents with equal values get a label together.
    f1[:-1][values[:-1] == values[1:]] = -1.0
    best = int(f1.argmax())
    if f1[best] < FBR:
        return float(values[0])
    if best + 1 == len(values):
        return float(np.nextafter(values[best], -np.inf))
    return float((values[best] + values[best + 1]) / 2)


def choose_offsets(decision: Floats, target: Target) -> Floats:
    """Offset of each class, shape (n_classes,), from out-of-fold values; NaN, without a test, is ignored."""
    assert target.classes is not None
    columns = np.column_stack([-decision / 2, decision / 2]) if decision.ndim == 1 else decision
    tested = ~np.isnan(columns).any(axis=1)
    columns, truth = columns[tested], target.values[tested]
    unit, n_classes = float(columns.std()), len(target.classes)
    searches = [_ascend(columns[rows], truth[rows], n_classes, unit) for rows in _subsets(len(truth))]
    return np.mean(searches, axis=0)


def _ascend(values: Floats, truth: Ints, n_classes: int, unit: float) -> Floats:
    """Offsets by coordinate ascent, the rarest class first."""
    offsets, totals = np.zeros(n_classes), np.bincount(truth, minlength=n_classes)
    order = [k for k in np.argsort(totals, kind="stable") if totals[k]]
    best = _merit(values.argmax(axis=1), truth, totals)
    for _ in range(ROUNDS):
        before = best
        for k in order[: 1 if n_classes == 2 else None]:
            moved = values + offsets
            own = moved[:, k].copy()
            moved[:, k] = -np.inf
            other = moved.argmax(axis=1)
            lead = own - moved.max(axis=1)
            merits = [_merit(np.where(lead + step * unit > 0, k, other), truth, totals) for step in STEPS]
            if max(merits) > best + GAIN / np.sqrt(len(truth)):
                best = max(merits)
                offsets[k] += STEPS[merits.index(best)] * unit
        if best == before:
            break
    return np.asarray(offsets - offsets.mean())


def _merit(predicted: Ints, truth: Ints, totals: Ints) -> float:
    """Macro-F1 over the classes with documents, plus a share of the accuracy."""
    right = predicted == truth
    hits = np.bincount(truth[right], minlength=len(totals))
    f1 = 2 * hits / np.maximum(totals + np.bincount(predicted, minlength=len(totals)), 1)
    return float(f1[totals > 0].mean() + ACCURACY * right.mean())
