"""Metrics of predictions: classes, several labels per document, and numbers.

Every metric is computed for weighted documents, all rows of weights at once: a row of ones gives the metric
of the documents themselves, rows of counts give it for bootstrap resamples (`textsvm.evaluation.results`).
Undefined metrics (a correlation with a constant, the area under the curve of a single class) are NaN, and
None in JSON. Tests compare all of them with scikit-learn.

Classes:

    accuracy, mcc      share of correct predictions; Matthews correlation
    precision, recall, f1   of the positive class, with two classes; f1[label] of each class; NaN without a
                       document of the class
    macro_f1           mean F1 over the classes that occur in truth or prediction
    roc_auc            with more than two classes the mean over the classes that occur, each against the rest
    average_precision  sum over values v, from the largest, of (recall(v) - recall(above v)) precision(v),
                       without interpolation; with more than two classes the mean as for roc_auc
    qwk                quadratic weighted kappa 1 - E[(t - p)^2] / (E[t^2] + E[p^2] - 2 E[t] E[p])
    log_loss, brier    of probabilities

Several labels per document; where the truth is NaN, unknown, nothing counts, and macro_f1 is the mean over
labels that a document has:

    micro_f1           F1 of all decisions together, for every document and label
    subset_accuracy    share of documents with exactly the right labels
    hamming_loss       share of wrong decisions
    precision_at_k     precision of the k labels with the largest decision values, mean over documents; NaN if
                       some are unknown
    break-even point   precision of the m documents with the largest values, where m documents have the label:
                       precision equals recall there (Joachims 1998; Lodhi et al. 2002)

Numbers: mae, rmse, r2, pearson, qwk.

Quadratic weighted kappa needs grades, whole numbers in a range: the given range, else the range of the
classes or of the true numbers. Predicted numbers are rounded (halves to even) and clipped to it. Classes 1
and 3 are twice as far apart as 1 and 2, also without a class 2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from textsvm.arrays import AnyArray, Bools, Floats, Ints, Json

MOST_GRADES = 1000  #: A wider range of whole numbers is not treated as grades: years, prices
AT = (1, 3, 5)  #: The k of precision at k, as far as there are as many labels


def scores(
    truth: ArrayLike, predicted: ArrayLike, decision: Floats | None, classes: AnyArray | None,
    grades: tuple[int, int] | None = None, areas: bool = True, positive: object = None,
) -> dict[str, float]:  # fmt: skip
    """All metrics by name; the names depend on the truth alone.

    Truth and predictions are labels out of the sorted `classes` (None for regression), numbers, or for
    several labels indicator matrices, shape (n, n_classes). Decision values have that shape, or (n,) for two
    classes; without them, there are no areas under curves, which take long (else NaN without `areas`), and no
    precision at k. `grades` is the range of the quadratic weighted kappa, `positive` the class of two, by
    default ``classes[1]``.
    """
    truth, predicted = np.asarray(truth), np.asarray(predicted)
    weight = np.ones((1, len(truth)))
    with np.errstate(divide="ignore", invalid="ignore"):
        if classes is None:
            values = number_metrics(weight, truth.astype(float), predicted.astype(float), grades)
        elif truth.ndim == 2:
            values = label_metrics(weight, truth, predicted, decision, classes.tolist(), areas)
        else:
            true, guess = np.searchsorted(classes, truth), np.searchsorted(classes, predicted)
            labels = np.asarray(classes).tolist()
            decision = decision if areas else None
            if len(labels) == 2 and positive is not None and positive == labels[0]:
                labels, true, guess = labels[::-1], 1 - true, 1 - guess
                decision = None if decision is None else -decision
            values = class_metrics(weight, true, guess, decision, labels, grades)
    return {name: float(value[0]) for name, value in values.items()}


def class_metrics(
    weight: Floats, true: Ints, predicted: Ints, decision: Floats | None, labels: Sequence[object],
    grades: tuple[int, int] | None = None, probability: Floats | None = None,
) -> dict[str, Floats]:  # fmt: skip
    """Metrics for a single label per document, arrays of shape (resamples,).

    `weight` has shape (resamples, n); `true` and `predicted` are indices into `labels`. Decision values and
    probabilities have shape (n, n_labels), or (n,) for two labels, the second of which is the positive class.
    """
    k = len(labels)
    support, n_predicted = _sums_by(weight, true, k), _sums_by(weight, predicted, k)
    hits = _sums_by(weight * (true == predicted), true, k)
    shares = precision_recall_f1(hits, support, n_predicted)
    of_classes = np.where(support > 0, shares, np.nan)
    occurs, n = support + n_predicted > 0, support.sum(1)
    spread = np.sqrt((n**2 - (support**2).sum(1)) * (n**2 - (n_predicted**2).sum(1)))
    metrics = {
        "accuracy": hits.sum(1) / n,
        "macro_f1": shares[2].sum(1) / occurs.sum(1),
        "mcc": _ratio(hits.sum(1) * n - (support * n_predicted).sum(1), spread),
        **_rankings(weight, true, decision, support),
    }
    if k == 2:
        metrics |= dict(zip(("precision", "recall", "f1"), of_classes[:, :, 1], strict=True))
    elif (values := as_grades(np.asarray(labels))) is not None:
        span = grades or (int(values.min()), int(values.max()))
        metrics["qwk"] = _kappa(weight, values[true], values[predicted], span)
    metrics |= dict(zip([f"f1[{label}]" for label in labels], of_classes[2].T, strict=True))
    if probability is None:
        return metrics
    if k == 2:
        of_truth, brier = np.where(true == 1, probability, 1 - probability), (probability - true) ** 2
    else:
        of_truth, brier = probability[np.arange(len(true)), true], None
    eps = np.finfo(probability.dtype).eps
    metrics["log_loss"] = _mean(weight, -np.log(np.clip(of_truth, eps, 1 - eps)))
    return metrics if brier is None else metrics | {"brier": _mean(weight, brier)}


def label_metrics(
    weight: Floats, truth: AnyArray, predicted: Bools, decision: Floats | None, labels: Sequence[object],
    areas: bool = True,
) -> dict[str, Floats]:  # fmt: skip
    """Metrics for several labels per document, like `class_metrics`; truth and predictions are indicators.

    NaN as the decision value of a label without a machine ranks below all numbers. Without `areas`, the
    average precision is NaN.
    """
    asked, true = ~np.isnan(truth), truth == 1
    predicted = asked & (predicted == 1)
    hits, support, n_predicted = (weight @ indicator for indicator in (true & predicted, true, predicted))
    _, _, f1 = precision_recall_f1(hits, support, n_predicted)
    micro = precision_recall_f1(*(counts.sum(axis=1) for counts in (hits, support, n_predicted)))
    wrong, share = true != predicted, asked.mean(axis=1)
    metrics = {
        "micro_f1": micro[2],
        "macro_f1": _ratio(f1.sum(axis=1), (support > 0).sum(axis=1)),
        "micro_precision": micro[0],
        "micro_recall": micro[1],
        "subset_accuracy": _mean(weight * (share > 0), ~wrong.any(axis=1)),
        "hamming_loss": _mean(weight, wrong.mean(axis=1)) / _mean(weight, share),
        "average_precision": np.full(len(weight), np.nan),
    }
    if decision is not None:
        if areas:
            metrics["average_precision"] = mean_of_defined(average_precisions(truth, decision, weight))
        order = np.argsort(-_ranked(decision), axis=1, kind="stable")
        right = np.take_along_axis(true if asked.all() else np.full(truth.shape, np.nan), order, axis=1)
        for k in [k for k in AT if k <= truth.shape[1]]:
            metrics[f"precision_at_{k}"] = _mean(weight, right[:, :k].mean(axis=1))
    return metrics | dict(zip([f"f1[{x}]" for x in labels], np.where(support > 0, f1, np.nan).T, strict=True))


def number_metrics(
    weight: Floats, truth: Floats, predicted: Floats, grades: tuple[int, int] | None = None
) -> dict[str, Floats]:
    """Metrics for regression, like `class_metrics`; with "qwk" if the true numbers are grades."""
    error = predicted - truth
    squared = _mean(weight, error**2)
    t, p = truth - truth.mean(), predicted - predicted.mean()  # centred, so that variances do not cancel
    mean_t, mean_p = _mean(weight, t), _mean(weight, p)
    variances = [_mean(weight, x * x) - mean**2 for x, mean in ((t, mean_t), (p, mean_p))]
    # A variance is 0 up to rounding.
    pairs = zip(variances, (t, p), strict=True)
    t_variance, p_variance = (np.where(v > 1e-12 * (x**2).max(), v, np.nan) for v, x in pairs)
    metrics = {
        "mae": _mean(weight, np.abs(error)),
        "rmse": np.sqrt(squared),
        "r2": 1 - squared / t_variance,
        "pearson": (_mean(weight, t * p) - mean_t * mean_p) / np.sqrt(t_variance * p_variance),
    }
    if (span := grades_of(truth, grades)) is not None:
        metrics["qwk"] = _kappa(weight, truth, predicted, span)
    return metrics


def precision_recall_f1(
    hits: AnyArray, support: AnyArray, predicted: AnyArray
) -> tuple[Floats, Floats, Floats]:
    """Precision, recall and F1 from counts: correct, of the class, predicted; 0 if undefined."""
    return _ratio(hits, predicted), _ratio(hits, support), _ratio(2 * hits, support + predicted)


def class_table(
    counts: tuple[AnyArray, AnyArray, AnyArray], areas: Floats, labels: Sequence[object],
    more: Sequence[dict[str, float]] | None = None,
) -> list[Json]:  # fmt: skip
    """Rows of `Results.per_class`; shares of a label without a document are NaN.

    `counts`: documents of each label that are correct, of the label, predicted; `areas`: average precisions;
    `more`: further columns before the numbers of documents.
    """
    names = ("precision", "recall", "f1", "average_precision")
    shares = np.where(counts[1] > 0, precision_recall_f1(*counts), np.nan)
    columns = dict(zip(names, (*shares, areas), strict=True))
    return [
        {
            "label": label,
            **{name: float(values[a]) for name, values in columns.items()},
            **(more[a] if more else {}),
            "support": int(counts[1][a]),
            "predicted": int(counts[2][a]),
        }
        for a, label in enumerate(labels)
    ]


def break_even(truth: AnyArray, decision: Floats) -> float:
    """Break-even point of a label; equal values share the last places. NaN if no document has the label."""
    asked = ~np.isnan(truth)
    truth, decision = truth[asked] == 1, decision[asked]
    m = int(truth.sum())
    if m == 0:
        return math.nan
    values = _ranked(decision)
    last = np.sort(values)[-m]
    above, level = values > last, values == last
    return float((truth[above].sum() + (m - int(above.sum())) * truth[level].mean()) / m)


def as_grades(labels: AnyArray) -> Ints | None:
    """Labels that are whole numbers, or spell them, as integers; None for other labels or a wide range."""
    kind = labels.dtype.kind
    if kind in "iu" or (kind == "f" and np.all(np.isfinite(labels) & (labels == np.rint(labels)))):
        values = labels.astype(np.int64)
    elif kind in "UO" and all(isinstance(label, str) for label in labels.tolist()):
        digits = [label.removeprefix("-") for label in labels.tolist()]
        if not all(text.isascii() and text.isdigit() and len(text) < 10 for text in digits):
            return None
        values = np.array([int(label) for label in labels.tolist()])
    else:
        return None
    return values if len(values) and np.ptp(values) < MOST_GRADES else None


def grades_of(truth: AnyArray, grades: tuple[int, int] | None) -> tuple[int, int] | None:
    """Range of grades: as given, else of the true labels or numbers; None if they are not grades."""
    if (values := as_grades(truth)) is None:
        return None
    return grades or (int(values.min()), int(values.max()))


# Rankings by decision value


def average_precisions(truth: AnyArray, decision: Floats, weight: Floats | None = None) -> Floats:
    """Average precision of each class against the rest, shape (n_classes,), or (resamples, n_classes).

    Truth and decision values have shape (n, n_classes), weights (resamples, n). NaN ranks below all numbers;
    the average precision of a class without documents is NaN.
    """
    values, weights = _ranked(decision), np.ones((1, len(truth))) if weight is None else weight
    areas = np.full((len(weights), truth.shape[1]), np.nan)
    for a in np.flatnonzero((truth == 1).any(axis=0)).tolist():
        areas[:, a] = _average_precision(weights, truth[:, a], values[:, a])
    return areas[0] if weight is None else areas


def one_against_rest(true: Ints, decision: Floats) -> tuple[Bools, Floats]:
    """Truth and decision values of each class against the rest, arrays of shape (n, n_classes)."""
    values = np.column_stack([-decision, decision]) if decision.ndim == 1 else decision
    return true[:, None] == np.arange(values.shape[1]), values


def mean_of_defined(values: Floats) -> Floats:
    """Mean over the last axis without NaN; NaN if all values are."""
    defined = ~np.isnan(values)
    count = defined.sum(axis=-1)
    return np.where(count > 0, np.where(defined, values, 0.0).sum(axis=-1) / np.maximum(count, 1), np.nan)


def roc_curve(truth: Bools, score: Floats) -> tuple[Floats, Floats]:
    """False and true positive rates, ascending from 0 to 1, without points inside straight lines."""
    true, false = _counts_from_the_top(truth, score)
    if len(true) > 2:
        turns = np.r_[True, (np.diff(true, 2) != 0) | (np.diff(false, 2) != 0), True]
        true, false = true[turns], false[turns]
    true, false = np.append(0, true), np.append(0, false)
    return false / false[-1], true / true[-1]


def precision_recall_curve(truth: Bools, score: Floats) -> tuple[Floats, Floats]:
    """Precision and recall by ascending recall, from (1, 0) on."""
    true, false = _counts_from_the_top(truth, score)
    return np.append(1.0, true / (true + false)), np.append(0.0, true / true[-1])


def roc_area(truth: Bools, score: Floats) -> float:
    """Area under the ROC curve; NaN unless both classes occur."""
    with np.errstate(invalid="ignore"):
        return float(_area_under_roc(np.ones((1, len(truth))), truth, score)[0])


def _counts_from_the_top(truth: Bools, score: Floats) -> tuple[AnyArray, AnyArray]:
    """Numbers of positive and negative documents with at least each distinct score, from the largest."""
    order = np.argsort(-score, kind="stable")
    last = np.append(np.flatnonzero(np.diff(score[order])), len(score) - 1)
    true = np.cumsum(truth[order])[last]
    return true, 1 + last - true


def _rankings(weight: Floats, true: Ints, decision: Floats | None, support: Floats) -> dict[str, Floats]:
    """Areas under curves: of the second of two classes, else the mean over the classes that occur."""
    if decision is None or not np.all(np.isfinite(decision)):
        return dict.fromkeys(("roc_auc", "average_precision"), np.full(len(weight), np.nan))
    truth, values = one_against_rest(true, decision)
    if decision.ndim == 1:
        truth, values = truth[:, 1:], values[:, 1:]
    rankings = zip(truth.T, values.T, strict=True)
    roc = np.stack([_area_under_roc(weight, *ranking) for ranking in rankings], axis=1)
    if decision.ndim == 2:
        roc = np.where(support > 0, roc, np.nan)
    precisions = average_precisions(truth, values, weight)
    return {
        "roc_auc": roc[:, 0] if decision.ndim == 1 else mean_of_defined(roc),
        "average_precision": np.where((support > 0).sum(1) > 1, mean_of_defined(precisions), np.nan),
    }


def _area_under_roc(weight: Floats, positive: Bools, score: Floats) -> Floats:
    """Share of pairs of a positive and a negative document in the right order; equal scores count half."""
    order = np.argsort(score, kind="stable")
    starts = np.flatnonzero(np.diff(score[order], prepend=-np.inf))
    weight = weight[:, order]
    good = np.add.reduceat(weight * positive[order], starts, axis=1)
    bad = np.add.reduceat(weight, starts, axis=1) - good
    return (good * (np.cumsum(bad, axis=1) - bad + bad / 2)).sum(1) / (good.sum(1) * bad.sum(1))


def _average_precision(weight: Floats, positive: AnyArray, score: Floats) -> Floats:
    """Average precision of each row of weights; NaN without a positive document, unknown ones left out."""
    order = np.argsort(-score, kind="stable")
    order = order[~np.isnan(positive[order])]
    ranked, weight = score[order], weight[:, order]
    starts = np.flatnonzero(np.append(True, ranked[1:] != ranked[:-1]))
    hits = np.add.reduceat(weight * positive[order], starts, axis=1)
    above, hits_above = np.cumsum(np.add.reduceat(weight, starts, axis=1), axis=1), np.cumsum(hits, axis=1)
    precision = np.divide(hits_above, above, out=np.zeros_like(above), where=above > 0)
    area, n_hits = (hits * precision).sum(axis=1), hits_above[:, -1]
    return np.divide(area, n_hits, out=np.full(len(area), np.nan), where=n_hits > 0)


def _ranked(decision: Floats) -> Floats:
    return np.asarray(np.nan_to_num(decision, nan=-np.finfo(np.float64).max))


# Weighted sums


def _kappa(weight: Floats, truth: AnyArray, predicted: AnyArray, grades: tuple[int, int]) -> Floats:
    """Quadratic weighted kappa of numbers rounded and clipped to grades."""
    t, p = (np.clip(np.rint(x), *grades).astype(np.float64) for x in (truth, predicted))
    apart, mean_t, mean_p, square_t, square_p = (_mean(weight, x) for x in ((t - p) ** 2, t, p, t * t, p * p))
    by_chance = square_t + square_p - 2 * mean_t * mean_p
    return np.where(by_chance > 1e-9, 1 - apart / by_chance, np.nan)


def _mean(weight: Floats, values: AnyArray) -> Floats:
    return np.asarray(weight @ values / weight.sum(axis=1))


def _ratio(part: AnyArray, whole: AnyArray) -> Floats:
    return np.where(whole > 0, part / np.where(whole > 0, whole, 1), 0.0)


def _sums_by(weight: Floats, group: Ints, groups: int) -> Floats:
    """Sums of the weights of each group, shape (resamples, groups)."""
    order = np.argsort(group, kind="stable")
    numbers, starts = np.unique(group[order], return_index=True)
    sums = np.zeros((len(weight), groups))
    sums[:, numbers] = np.add.reduceat(weight[:, order], starts, axis=1)
    return sums
