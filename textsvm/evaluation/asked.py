"""What a fitted model says of documents, in one form for all kinds of models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.errors import InputError


def predict(
    model: Any, texts: Any, truth: Sequence[Any], positive: Any, progress: Any
) -> tuple[NDArray[Any] | None, NDArray[Any], NDArray[np.float64], NDArray[np.float64] | None]:
    """Classes (None for regression), predictions, decision values, and probabilities if there are any."""
    if not hasattr(model, "decision_function"):
        values = model.predict(texts, progress)
        return None, values, values, None
    decision = model.decision_function(texts, progress)
    if hasattr(model, "predict_proba"):
        probability = model.probabilities(decision)
        return model.classes_, model.decide(probability), decision, probability
    if hasattr(model, "classes_"):
        return model.classes_, model.predictions(decision, model.classes_), decision, None
    if positive is None:
        raise InputError(
            "a one-class model needs to know which label it was trained on: give the positive one"
        )
    others = sorted({label for label in truth if label != positive}) or ["rest"]
    if len(others) > 1:
        raise InputError(
            f"a one-class model tells {positive!s} from all others, and there are the labels "
            f"{', '.join(map(str, others[:5]))}; reduce them to two"
        )
    classes = np.array(sorted([positive, others[0]]))
    inside = decision >= 0
    predicted = np.where(inside, positive, others[0])
    return classes, predicted, decision if classes[1] == positive else -decision, None


def machine_of(model: Any) -> Any:
    """The kernel machine of a calibrated model, or the model itself."""
    return getattr(model, "estimator_", model)
