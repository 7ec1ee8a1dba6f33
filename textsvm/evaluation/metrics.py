"""Decision values and true labels -> one results object."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import metrics

from textsvm.errors import InputError


@dataclass(frozen=True)
class Results:
    """How well a binary classifier did on labelled documents.

    Attributes
    ----------
    n : int
    labels : list
        The two classes, negative first; rows (truth) and columns (prediction) of `confusion`.
    accuracy, precision, recall, f1, macro_f1 : float
        Shares in 0..1; precision, recall and F1 are those of the positive class.
    roc_auc : float or None
        None if only one class is present.
    confusion : list of list of int
    seconds : dict
        Wall time of the stages that led here.
    """

    n: int
    labels: list[Any]
    accuracy: float
    precision: float
    recall: float
    f1: float
    macro_f1: float
    roc_auc: float | None
    confusion: list[list[int]]
    seconds: dict[str, float] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """JSON values."""
        return asdict(self)


def evaluate(
    truth: Sequence[Any],
    decision: NDArray[np.float64],
    negative: Any,
    positive: Any,
    seconds: dict[str, float] | None = None,
) -> Results:
    """Judge decision values, positive ones meaning the class `positive`.

    Parameters
    ----------
    truth : sequence of labels, length n
    decision : float64 array, shape (n,)
    negative, positive : labels
    seconds : dict, optional
        Kept in the results.

    Raises
    ------
    InputError
        If there are no documents, or a true label is neither of the two.
    """
    if len(truth) == 0:
        raise InputError("there are no labelled documents to evaluate on")
    for i, label in enumerate(truth):
        if label != negative and label != positive:
            raise InputError(
                f"document {i} has the label {label!s}, and the model knows {negative!s} and {positive!s}"
            )
    y = np.array([label == positive for label in truth], int)
    predicted = (decision > 0).astype(int)
    precision, recall, f1, _ = metrics.precision_recall_fscore_support(
        y, predicted, average="binary", zero_division=0.0
    )
    return Results(
        n=len(y),
        labels=[negative, positive],
        accuracy=float(metrics.accuracy_score(y, predicted)),
        precision=float(precision),
        recall=float(recall),
        f1=float(f1),
        macro_f1=float(metrics.f1_score(y, predicted, average="macro", labels=[0, 1], zero_division=0.0)),
        roc_auc=float(metrics.roc_auc_score(y, decision)) if 0 < y.sum() < len(y) else None,
        confusion=metrics.confusion_matrix(y, predicted, labels=[0, 1]).tolist(),
        seconds=dict(seconds or {}),
    )
