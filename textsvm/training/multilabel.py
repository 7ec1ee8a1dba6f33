"""Trainer of several labels per document: a machine for each label on a shared Gram, and out-of-fold
thresholds.

As with calibration, all folds and the fit to all documents are solved side by side on the same Gram.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from textsvm.model.settings import MultilabelSettings
from textsvm.model.trained import TrainedModel
from textsvm.runtime.parallel import StageProgress
from textsvm.training import fold_grams, folds
from textsvm.training.problems import fit_offsets
from textsvm.training.train import read_training_data, train_machines, with_offsets


def train_multilabel(
    settings: MultilabelSettings,
    X: Any,
    y: Any,
    sample_weight: ArrayLike | None = None,
    progress: StageProgress | None = None,
) -> TrainedModel:
    """Train a machine for each label; folds share the Gram of all texts, unless the kernel learns (idf)."""
    if settings.thresholds == "zero":
        return train_machines(settings, X, y, sample_weight, progress)
    examples, target, weight = read_training_data(settings, X, y, sample_weight)
    parts = folds.make_folds(settings.cv, target, random_state=settings.random_state)
    everyone = np.arange(len(target.values))
    task = fold_grams.Task(target, weight, [*parts, (everyone, np.empty(0, np.int64))])
    seconds = dict.fromkeys(("encode", "gram", "solve", "score"), 0.0)
    model, values = fold_grams.fit_with_folds(settings, examples, task, seconds, progress)
    assert model is not None
    clock = time.perf_counter()
    model = with_offsets(model, fit_offsets(settings, values, parts, target))
    seconds["thresholds"] = seconds.pop("score") + time.perf_counter() - clock
    return model.with_record(seconds=seconds)
