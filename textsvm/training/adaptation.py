"""Adaptation of a classifier to unlabelled texts by self-training.

In each round a larger share of the unlabelled texts of each predicted class, those with the largest margins,
joins the training texts under their predicted labels. The quotas by class keep a frequent class from taking
the texts of the others. It pays if the unlabelled texts differ from the training texts, so that their margins
are smaller than out-of-fold margins; if they differ too much, predicted labels are bad, and more of them make
the model worse. reports/adapt.md has figures.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from textsvm.arrays import Floats, Ints
from textsvm.errors import InputError
from textsvm.model.rules import added_bias, margins
from textsvm.model.settings import DEFAULT_KERNEL_TOL, NEEDS_DECISION_VALUES, ClassifierSettings
from textsvm.model.trained import TrainedModel
from textsvm.runtime.parallel import StageProgress
from textsvm.training import classifier
from textsvm.training.problems import as_target
from textsvm.training.thresholds import choose_offsets
from textsvm.training.train import with_bias

#: Rounds of training.
TRAININGS = 4
#: Fewest texts.
FEWEST = 50
#: Bounds of the ratio of margins.
MARGINS = (0.7, 0.95)


@dataclass(frozen=True)
class Adaptation:
    """Decision of the gate of `SVC.adapt`."""

    adapted: bool
    margin_ratio: float  #: Median margin of the unlabelled texts, divided by the out-of-fold median margin
    texts: int
    added: int  #: Texts that joined the training texts in the last round

    def __str__(self) -> str:
        bounds = "its range of {} to {}".format(*MARGINS)
        ratio = f"median margin {self.margin_ratio:.2f} of that of held-out training texts"
        if self.adapted:
            return f"adapted with {self.added:,} of {self.texts:,} texts: {ratio}, in {bounds}"
        return f"not adapted to {self.texts:,} texts: {ratio}, outside {bounds}"


def adapt(
    settings: ClassifierSettings,
    model: TrainedModel | None,
    X: Any,
    y: Any,
    unlabelled: Any,
    sample_weight: ArrayLike | None = None,
    progress: StageProgress | None = None,
) -> TrainedModel:
    """Adapt a model to unlabelled texts, if a gate expects a gain; `textsvm.SVC.adapt` has the details.

    `model` was trained with the settings on X and y; None trains it.
    """
    if settings.multiclass == "ovo":
        raise InputError(NEEDS_DECISION_VALUES.format("adapt"))
    source = settings.source
    examples, texts = source.validate(X), source.validate(unlabelled)
    if not (isinstance(examples, list) and isinstance(texts, list)):
        raise InputError("adapt needs texts; it has no use for vectors, tables or a kernel matrix")
    if len(texts) < FEWEST:
        raise InputError(f"adapt needs {FEWEST} unlabelled texts or more, got {len(texts)}")
    weight = classifier.checked_weights(settings, examples, y, sample_weight, "adapt")
    if model is None:
        model = classifier.train_classifier(settings, examples, y, sample_weight, progress)
    held, target = classifier.out_of_fold(settings, model, examples, y, sample_weight, progress)
    assert model.classes is not None
    if target.classes is None or target.classes.tolist() != model.classes.tolist():
        raise InputError("the labels of X are not the classes of this model; give its training texts")
    decision, confident = model.decision_function(texts), np.empty(0, np.int64)
    if settings.scoring != "accuracy":  # out-of-fold values have no offsets
        decision = decision - added_bias(choose_offsets(held, target), decision.ndim)
    ratio = float(np.median(margins(decision)) / max(np.nanmedian(margins(held)), 1e-12))
    adapted, result = MARGINS[0] <= ratio <= MARGINS[1], model
    true_labels = target.classes[target.values]
    for number in range(1, TRAININGS + 1) if adapted else ():
        confident = most_confident(decision, number / (TRAININGS + 1))
        labels = np.append(true_labels, model.rule.predictions(decision[confident]))
        weights = np.append(weight, np.full(len(confident), weight[weight > 0].mean()))
        every = [*examples, *(texts[i] for i in confident)]
        fixed = classifier.with_chosen(settings, model, DEFAULT_KERNEL_TOL * settings.tol)
        result = classifier.train_classifier(fixed, every, labels, weights, progress)
        result = result.with_record(chosen=model.record.chosen, settings=settings)
        if model.record.chosen:
            bias = classifier.default_bias(settings, as_target(settings, labels, len(every)), weights)
            result = with_bias(result, bias)
        decision = result.decision_function(texts)
    if adapted and settings.scoring != "accuracy":
        result = classifier.with_fitted_offsets(settings, result, every, labels, weights, progress)
    return result.with_record(adaptation=Adaptation(adapted, ratio, len(texts), len(confident)))


def most_confident(decision: Floats, share: float) -> Ints:
    """Sorted indices of this share (rounded up) of each predicted class, with the largest margins."""
    codes = decision.argmax(axis=1) if decision.ndim == 2 else decision > 0
    order = np.argsort(-margins(decision), kind="stable")
    by_class = [order[codes[order] == k] for k in np.unique(codes)]
    return np.sort(np.concatenate([rows[: int(np.ceil(share * len(rows)))] for rows in by_class]))
