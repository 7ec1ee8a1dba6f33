"""Truth, predictions and decision values -> metrics of any number of classes, or of regression.

Figures come from scikit-learn. What has no value (a correlation with a constant, the area under the curve of
a single class) is NaN, and None in JSON.

Ranges of the quadratic weighted kappa: it is defined for grades, whole numbers from `low` to `high`, a range
that the user may give; without one it is the range of the model's classes, and in regression that of the
truth. Predicted numbers are rounded (halves to even) and clipped to it. Classes that differ by 2 are twice
as far apart as those that differ by 1, whether there is one between them or not.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import metrics

from textsvm.errors import InputError
from textsvm.evaluation import multilabel
from textsvm.evaluation.precision_recall import average_precisions, mean_of_defined, of_each

#: More steps than these are no grades: years, prices.
MOST_GRADES = 1000


def scores(
    truth: ArrayLike,
    predicted: ArrayLike,
    decision: NDArray[np.float64] | None,
    classes: NDArray[Any] | None,
    grades: tuple[int, int] | None = None,
    areas: bool = True,
    positive: Any = None,
) -> dict[str, float]:
    """Metrics by name.

    Parameters
    ----------
    truth, predicted : array-like, shape (n,)
        Labels out of `classes`, or numbers; bool arrays of shape (n, n_classes) where a document may have
        several labels, see `textsvm.evaluation.multilabel`.
    decision : float64 array, optional
        Two classes: shape (n,), positive means ``classes[1]``. More: shape (n, n_classes). None: no areas.
    classes : array, shape (n_classes,), sorted; or None
        None means regression.
    grades : (int, int), optional
        Lowest and highest grade of the quadratic weighted kappa.
    areas : bool
        Whether areas under curves are wanted, which take longer than all else; NaN if not.
    positive : label, optional
        Of two classes the one to be found; ``classes[1]`` if not given.

    Returns
    -------
    dict
        Classes: "accuracy", "macro_f1" (over the classes that occur in truth or prediction), "mcc", "roc_auc"
        and "average_precision" (more than two classes: mean of each that occurs against the rest; two:
        average precision of the positive one), with two classes "precision", "recall" and "f1" of the
        positive one, with more than two that are whole numbers "qwk", and "f1[label]" of each class.
        Regression: "mae", "rmse", "r2", "pearson", and "qwk" if the truth is of grades.
        The same names for any predictions of the same truth.
    """
    truth, predicted = np.asarray(truth), np.asarray(predicted)
    if classes is None:
        return _regression(truth.astype(float), predicted.astype(float), grades)
    classes = np.asarray(classes)
    if truth.ndim == 2:
        return multilabel.scores(truth, predicted, decision, classes, areas)
    true, said = np.searchsorted(classes, truth), np.searchsorted(classes, predicted)
    k, found_one = len(classes), 0 if positive is not None and positive == classes[0] else 1
    _, _, f1, support = metrics.precision_recall_fscore_support(
        true, said, labels=np.arange(k), zero_division=0.0
    )
    occurs = (support > 0) | (np.bincount(said, minlength=k) > 0)
    if decision is not None and not (areas and np.all(np.isfinite(decision))):
        decision = None
    found = {
        "accuracy": float(metrics.accuracy_score(true, said)),
        "macro_f1": float(f1[occurs].mean()),
        "mcc": float(metrics.matthews_corrcoef(true, said)) if occurs.sum() > 1 else 0.0,
        "roc_auc": _roc_auc(true, decision, k),
        "average_precision": _average_precision(true, decision, k, found_one),
    }
    if k == 2:
        precision, recall, _, _ = metrics.precision_recall_fscore_support(
            true, said, pos_label=found_one, average="binary", zero_division=0.0
        )
        found |= {"precision": float(precision), "recall": float(recall), "f1": float(f1[found_one])}
    elif (values := as_grades(classes)) is not None:
        found["qwk"] = quadratic_kappa(
            values[true], values[said], grades or (int(values.min()), int(values.max()))
        )
    return found | {f"f1[{label}]": float(value) for label, value in zip(classes, f1, strict=True)}


def as_grades(labels: NDArray[Any]) -> NDArray[np.int64] | None:
    """Labels that are whole numbers, or written as such, as numbers; None if they are not, or too many."""
    kind = labels.dtype.kind
    if kind in "iu" or (kind == "f" and np.all(np.isfinite(labels) & (labels == np.rint(labels)))):
        values = labels.astype(np.int64)
    elif kind in "UO" and all(isinstance(label, str) for label in labels.tolist()):
        digits = [label.removeprefix("-") for label in labels.tolist()]
        if not all(each.isascii() and each.isdigit() and len(each) < 10 for each in digits):
            return None
        values = np.array([int(label) for label in labels.tolist()])
    else:
        return None
    return values if len(values) and np.ptp(values) < MOST_GRADES else None


def as_grade(numbers: NDArray[Any], grades: tuple[int, int]) -> NDArray[np.int64]:
    """Numbers rounded and clipped to the range of grades."""
    return np.clip(np.rint(numbers), *grades).astype(np.int64)


def quadratic_kappa(truth: NDArray[Any], predicted: NDArray[Any], grades: tuple[int, int]) -> float:
    """Quadratic weighted kappa of numbers made grades low..high; NaN if there is only one."""
    true, said = as_grade(truth, grades), as_grade(predicted, grades)
    if not len(true) or np.ptp(np.append(true, said)) == 0:
        return math.nan
    steps = np.arange(grades[0], grades[1] + 1)
    return float(metrics.cohen_kappa_score(true, said, labels=steps, weights="quadratic"))


def check_grades(grades: tuple[int, int] | None) -> None:
    """Raise InputError if `grades` is no range."""
    if grades is not None and not 0 < grades[1] - grades[0] < MOST_GRADES:
        raise InputError(f"grades from {grades[0]} to {grades[1]} are no range of 2 to {MOST_GRADES} grades")


def _regression(
    truth: NDArray[np.float64], predicted: NDArray[np.float64], grades: tuple[int, int] | None
) -> dict[str, float]:
    varied = len(truth) > 1 and np.ptp(truth) > 0
    found = {
        "mae": float(metrics.mean_absolute_error(truth, predicted)),
        "rmse": float(math.sqrt(metrics.mean_squared_error(truth, predicted))),
        "r2": float(metrics.r2_score(truth, predicted)) if varied else math.nan,
        "pearson": math.nan,
    }
    if varied and np.ptp(predicted) > 0:
        found["pearson"] = float(np.corrcoef(truth, predicted)[0, 1])
    if (span := grades_of(truth, grades)) is not None:
        found["qwk"] = quadratic_kappa(truth, predicted, span)
    return found


def grades_of(truth: NDArray[np.float64], grades: tuple[int, int] | None) -> tuple[int, int] | None:
    """The range of grades of a regression: that given, or the truth's; None if the truth is not of grades."""
    values = as_grades(truth)
    if values is None or grades is not None:
        return grades if values is not None else None
    return int(values.min()), int(values.max())


def _roc_auc(true: NDArray[np.int64], decision: NDArray[np.float64] | None, k: int) -> float:
    occurring = np.unique(true)
    if decision is None or len(occurring) < 2:
        return math.nan
    if k == 2:
        return float(metrics.roc_auc_score(true, decision))
    return float(np.mean([metrics.roc_auc_score(true == a, decision[:, a]) for a in occurring]))


def _average_precision(
    true: NDArray[np.int64], decision: NDArray[np.float64] | None, k: int, positive: int
) -> float:
    if decision is None or len(np.unique(true)) < 2:
        return math.nan
    if k == 2:
        return float(metrics.average_precision_score(true == positive, decision if positive else -decision))
    return float(mean_of_defined(average_precisions(*of_each(true, decision))))
