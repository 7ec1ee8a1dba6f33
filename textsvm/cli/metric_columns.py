"""Which metrics the tables of cross-validation show, under short names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from textsvm.reporting.formatting import format_metric

#: As far as there are such; JSON has all, and of several labels precision at 3 and 5 too.
SHOWN = {
    "accuracy": "accuracy", "micro_f1": "micro F1", "macro_f1": "macro F1", "mcc": "MCC",
    "roc_auc": "ROC AUC", "average_precision": "AUPRC", "qwk": "QWK", "subset_accuracy": "all right",
    "hamming_loss": "Hamming", "precision_at_1": "P@1", "mae": "MAE", "rmse": "RMSE", "r2": "R²",
    "pearson": "Pearson",
}  # fmt: skip


def cells(metrics: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """Metrics for people; what is not defined is a dash."""
    return [format_metric(name, metrics.get(name)) for name in names]
