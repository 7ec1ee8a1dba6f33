"""Metrics -> their names and values as people write them."""

from __future__ import annotations

import math

#: Metrics that are shown, in this order; F1 of single classes stands in the table of classes.
NAMES = {
    "accuracy": "accuracy",
    "precision": "precision",
    "recall": "recall",
    "f1": "F1",
    "micro_f1": "micro F1",
    "macro_f1": "macro F1",
    "micro_precision": "micro precision",
    "micro_recall": "micro recall",
    "subset_accuracy": "all labels right",
    "hamming_loss": "Hamming loss",
    "precision_at_1": "precision at 1",
    "precision_at_3": "precision at 3",
    "precision_at_5": "precision at 5",
    "mcc": "MCC",
    "roc_auc": "ROC AUC",
    "average_precision": "AUPRC",
    "qwk": "QWK",
    "mae": "mean absolute error",
    "rmse": "root mean squared error",
    "r2": "R²",
    "pearson": "Pearson correlation",
    "brier": "Brier score",
    "log_loss": "log loss",
}
#: Columns of the table of classes, where their names are not those of the figures.
HEADS = {"f1": "F1", "average_precision": "AUPRC", "break_even": "break-even point"}
#: Shares, written in per cent.
SHARES = {
    "accuracy", "precision", "recall", "f1", "macro_f1", "micro_f1", "micro_precision", "micro_recall",
    "subset_accuracy", "precision_at_1", "precision_at_3", "precision_at_5", "break_even",
}  # fmt: skip


def format_metric(name: str, value: float | None) -> str:
    """A metric's value: shares in per cent with two decimals, others with four or in four digits."""
    if value is None or not math.isfinite(value):
        return "-"
    if name in SHARES:
        return f"{100 * value:.2f} %"
    return f"{value:.4g}" if name in ("mae", "rmse") else f"{value:.4f}"


def length_alone(metrics: dict[str, float]) -> str:
    """A sentence about the baseline of a regression; "" if there is none."""
    if not metrics:
        return ""
    figures = ", ".join(
        f"{NAMES[name]} {format_metric(name, metrics[name])}" for name in NAMES if name in metrics
    )
    return f"The length of a text alone, a monotone fit to the training documents, reaches {figures}."


def format_interval(name: str, bounds: tuple[float, float] | None) -> str:
    """The bounds of a metric; "" if there are none."""
    if bounds is None or not all(map(math.isfinite, bounds)):
        return ""
    low, high = (format_metric(name, bound) for bound in bounds)
    return f"{low.removesuffix(' %')} to {high}"
