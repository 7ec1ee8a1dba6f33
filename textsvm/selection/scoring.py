"""Metrics of decision values and predictions, for cross-validation and grids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from textsvm.arrays import AnyArray, Floats
from textsvm.errors import InputError, warn_user
from textsvm.evaluation.metrics import grades_of, scores
from textsvm.model.settings import Settings
from textsvm.solvers.problems import Machines
from textsvm.training.targets import Target, labels_of
from textsvm.training.train import unfinished

AREAS = {"roc_auc", "average_precision"}  #: Metrics that take longer than all other metrics together.

SPELLINGS = {"f1_macro": "macro_f1", "f1_micro": "micro_f1", "matthews_corrcoef": "mcc"}  #: scikit-learn's


def metric_names(target: Target, metrics: Iterable[str] | str | None) -> list[str]:
    """Validated names of metrics; all metrics for None."""
    truth, classes = labels_of(target), target.classes
    two = classes is not None and len(classes) == 2 and not target.multilabel
    shape = len(truth) if classes is None or two else (len(truth), len(classes))
    values = scores(truth, truth, np.zeros(shape), classes, areas=False)
    if metrics is None:
        return list(values)
    names = [SPELLINGS.get(str(name), name) for name in ([metrics] if isinstance(metrics, str) else metrics)]
    for name in names:
        if name not in [*values]:
            raise InputError(f"metric {name!r} is not one of {', '.join(values)}")
    return names


def judge(
    truth: AnyArray, decision: Floats, target: Target, names: Sequence[str], predicted: AnyArray
) -> dict[str, float]:
    """Metrics of decision values and predictions; undefined metrics, as of an absent class, are NaN."""
    grades = grades_of(target.values, None) if target.classes is None else None
    areas = not AREAS.isdisjoint(names)
    metrics = scores(truth, predicted, decision, target.classes, grades, areas, target.positive)
    return {name: metrics.get(name, np.nan) for name in names}


def mean_and_sd(table: Sequence[dict[str, float]]) -> tuple[dict[str, float], dict[str, float]]:
    """Mean and sample standard deviation of each metric over the folds that define it."""
    mean, sd = {}, {}
    for name in table[0]:
        values = np.array([row[name] for row in table])
        values = values[~np.isnan(values)]
        mean[name] = float(values.mean()) if len(values) else np.nan
        sd[name] = float(values.std(ddof=1)) if len(values) > 1 else np.nan
    return mean, sd


def warn_unfinished(settings: Settings, machines: Sequence[Machines], target: Target) -> None:
    """Warn once if the machines of some folds did not converge."""
    messages = [unfinished(settings, solved, target) for solved in machines]
    if stopped := [message for message in messages if message]:
        from sklearn.exceptions import ConvergenceWarning

        message = f"{len(stopped)} of {len(messages)} fits did not converge; the first: {stopped[0]}"
        warn_user(message, ConvergenceWarning)
