"""Truth, predictions and decision values of documents with several labels -> metrics.

    micro_f1          F1 of all decisions together, a document and a label each
    macro_f1          mean of the F1 of each label that occurs in truth or prediction
    subset_accuracy   share of documents whose labels are all right, and no other is given
    hamming_loss      share of wrong decisions, a document and a label each
    precision_at_k    share of right ones among the k labels of the largest values, mean over documents
    average_precision mean over the labels that occur in truth, each as in `evaluation.precision_recall`
    break-even point  precision of the m documents of the largest values, m as many as have the label: there
                      precision is recall (Joachims 1998; Lodhi et al. 2002)

A machine that was left out has values that are NaN; they rank below all others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import metrics

from textsvm.evaluation import precision_recall
from textsvm.evaluation.precision_recall import average_precisions, mean_of_defined

#: The k of precision at k, as far as there are so many labels.
AT = (1, 3, 5)


def scores(
    truth: NDArray[np.bool_],
    predicted: NDArray[np.bool_],
    decision: NDArray[np.float64] | None,
    classes: NDArray[Any],
    areas: bool = True,
) -> dict[str, float]:
    """Metrics by name: those above and "f1[label]" of each class.

    Parameters
    ----------
    truth, predicted : bool arrays, shape (n, n_classes)
    decision : float64 array, shape (n, n_classes), optional
        None: no precision at k.
    classes : array, shape (n_classes,)
    areas : bool
        Whether the average precision is wanted, which takes longer than all else; NaN if not.
    """
    _, _, f1, support = metrics.precision_recall_fscore_support(truth, predicted, zero_division=0.0)
    occurs = (support > 0) | predicted.any(axis=0)
    precision, recall, micro, _ = metrics.precision_recall_fscore_support(
        truth, predicted, average="micro", zero_division=0.0
    )
    found = {
        "micro_f1": float(micro),
        "macro_f1": float(f1[occurs].mean()) if occurs.any() else 0.0,
        "micro_precision": float(precision),
        "micro_recall": float(recall),
        "subset_accuracy": float(metrics.accuracy_score(truth, predicted)),
        "hamming_loss": float(metrics.hamming_loss(truth, predicted)),
    }
    found["average_precision"] = float("nan")
    if decision is not None:
        if areas:
            found["average_precision"] = float(mean_of_defined(average_precisions(truth, decision)))
        found |= {name: float(each.mean()) for name, each in precisions_at(truth, decision).items()}
    return found | {f"f1[{label}]": float(value) for label, value in zip(classes, f1, strict=True)}


def precisions_at(truth: NDArray[np.bool_], decision: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """Precision at each k of every document, float64 arrays of shape (n,), by name."""
    order = np.argsort(-_ranked(decision), axis=1, kind="stable")
    right = np.take_along_axis(truth, order, axis=1)
    return {f"precision_at_{k}": right[:, :k].mean(axis=1) for k in AT if k <= truth.shape[1]}


def break_even(truth: NDArray[np.bool_], decision: NDArray[np.float64]) -> float:
    """The break-even point of one label; NaN if no document has it.

    Parameters
    ----------
    truth : bool array, shape (n,)
    decision : float64 array, shape (n,)
        Of documents with equal values as many count as there is room for, with their mean.
    """
    m = int(truth.sum())
    if m == 0:
        return float("nan")
    values = _ranked(decision)
    last = np.sort(values)[-m]
    above, level = values > last, values == last
    room = m - int(above.sum())
    return float((truth[above].sum() + room * truth[level].mean()) / m)


def per_class(
    truth: NDArray[np.bool_],
    predicted: NDArray[np.bool_],
    decision: NDArray[np.float64],
    classes: NDArray[Any],
    thresholds: Sequence[float] | NDArray[np.float64],
) -> list[dict[str, Any]]:
    """Figures of each label: "label", "precision", "recall", "f1", "average_precision", "break_even",
    "threshold", "support", "predicted"."""
    areas = average_precisions(truth, decision)
    shares = metrics.precision_recall_fscore_support(truth, predicted, zero_division=0.0)
    return [
        {
            "label": label,
            "precision": float(precision),
            "recall": float(recall),
            "f1": float(f1),
            "average_precision": float(areas[a]),
            "break_even": break_even(truth[:, a], decision[:, a]),
            "threshold": float(thresholds[a]),
            "support": int(support),
            "predicted": int(predicted[:, a].sum()),
        }
        for a, (label, precision, recall, f1, support) in enumerate(
            zip(classes.tolist(), *shares, strict=True)
        )
    ]


def resampled(
    weight: NDArray[np.float64],
    truth: NDArray[np.bool_],
    predicted: NDArray[np.bool_],
    decision: NDArray[np.float64],
    classes: Sequence[Any],
) -> dict[str, NDArray[np.float64]]:
    """The metrics of `scores` in bootstrap resamples, see `textsvm.evaluation.bootstrap`.

    Parameters
    ----------
    weight : float64 array, shape (resamples, n)
        How often each document was drawn.
    """
    hits, true, said = (weight @ each for each in (truth & predicted, truth, predicted))
    occurs, total = true + said > 0, weight.sum(axis=1)
    f1 = np.where(occurs, 2 * hits / np.where(occurs, true + said, 1), 0.0)
    wrong = truth != predicted
    all_hits, all_true, all_said = (each.sum(axis=1) for each in (hits, true, said))
    found = {
        "micro_f1": 2 * all_hits / np.maximum(all_true + all_said, 1),
        "macro_f1": f1.sum(axis=1) / np.maximum(occurs.sum(axis=1), 1),
        "micro_precision": all_hits / np.maximum(all_said, 1),
        "micro_recall": all_hits / np.maximum(all_true, 1),
        "subset_accuracy": weight @ ~wrong.any(axis=1) / total,
        "hamming_loss": weight @ wrong.mean(axis=1) / total,
    }
    found["average_precision"] = mean_of_defined(precision_recall.resampled(weight, truth, decision))
    found |= {name: weight @ each / total for name, each in precisions_at(truth, decision).items()}
    return found | {f"f1[{label}]": f1[:, a] for a, label in enumerate(classes)}


def _ranked(decision: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(np.isnan(decision), -np.inf, decision)
