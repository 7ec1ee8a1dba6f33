"""Parts of fitted models for evaluation and reports. Only this module asks which kind a model is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from textsvm.arrays import AnyArray, Floats, Ints, Json

if TYPE_CHECKING:
    from textsvm.linalg.vectors import Vectors
    from textsvm.runtime.device import Device
    from textsvm.text.documents import Documents, MultiView


@dataclass(frozen=True)
class ModelParts:
    """Parts of a fitted model."""

    machine: Any  #: For a calibrated model the machine inside it
    kind: str  #: {"classes", "labels", "one class", "numbers"}; "labels": several labels per document
    classes: AnyArray | None  #: Sorted; None for "one class" and "numbers"
    probabilistic: bool  #: Whether the model gives probabilities
    #: Support vectors; None for a precomputed kernel matrix and for an online model.
    support: Documents | MultiView | Vectors | None
    info: Json  #: Information of the model file
    device: Device | None  #: None before the first prediction of a loaded model
    C: object  #: A number if the model has a single C
    conformity: Any  #: `textsvm.selection.conformal.Conformity` of a calibrated model, else None
    margin: float | None  #: Median out-of-fold margin of a calibrated model
    #: Leave-one-out decision values and class numbers of an online model.
    left_out: Callable[[], tuple[Floats, Ints]] | None


def parts_of(model: Any) -> ModelParts:
    """The parts of a fitted model."""
    machine, classes = getattr(model, "estimator_", model), getattr(model, "classes_", None)
    info = getattr(model, "info_", None)
    kind = "labels" if hasattr(model, "label_form_") else "classes"
    if classes is None:
        kind = "one class" if hasattr(model, "decision_function") else "numbers"
    return ModelParts(
        machine,
        kind,
        classes,
        hasattr(model, "predict_proba"),
        getattr(model, "support_documents_", None),
        info if isinstance(info, dict) else {},
        getattr(model, "device_", None),
        getattr(machine, "C", None),
        getattr(model, "conformity_", None),
        getattr(model, "margin_", None),
        getattr(model, "left_out", None),
    )
