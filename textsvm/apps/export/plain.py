"""Plain description of a trained model: normal form of texts, weights of features, and decisions.

No other module of this package asks a model anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from textsvm import InputError, TrainedModel
from textsvm.arrays import Arrays, Floats, Json
from textsvm.kernels.contract import FeatureTerm
from textsvm.kernels.inputs import TextForm
from textsvm.kernels.spelling import spell
from textsvm.model.conformal import Conformity
from textsvm.model.rules import CalibratedRule, ClassRule, LabelRule
from textsvm.model.settings import Settings
from textsvm.model.top_features import TopFeatures
from textsvm.model.trained import as_model, is_ours
from textsvm.runtime import device as devices
from textsvm.sources.base import KernelSource
from textsvm.text.characters import exported_tokenizer
from textsvm.version import __version__

#: Information of a model that exported files repeat: no paths, no ids of training texts.
PUBLIC = ("n_train", "n_support", "classes", "C", "loss", "drift", "estimate")
#: Of it, measures on the texts of `train --holdout`.
HELD_OUT = ("task", "n", "accuracy", "macro_f1", "micro_f1", "rmse", "log_loss")
UNSURE = "unsure"  #: Label of rejected texts.
N_TOP = 20  #: Number of heaviest features that are listed of a class.
#: Most classes whose heaviest features are listed, which takes up to half a second for each.
MOST_LISTED = 30
#: Task of each estimator.
TASK_OF = {
    "SVC": "classes",
    "CalibratedSVC": "classes",
    "MultilabelSVC": "labels",
    "SVR": "number",
    "OneClassSVM": "novelty",
}


@dataclass(frozen=True)
class PlainModel:
    """A trained model without code, for writers of export formats."""

    task: str  #: "classes", "labels" (several per text), "number" or "novelty"
    text: TextForm  #: How texts are normalised
    terms: Sequence[FeatureTerm]  #: The kernel as a sum; values of machines are summed over the terms.
    biases: Floats  #: shape (n_machines,): Added to the values of the machines
    #: Decision values from values of machines: "identity"; "difference" of the second and the first; "ovo",
    #: votes of machines for pairs of classes, see `textsvm.model.rules.class_scores`.
    combine: str
    classes: list[Any] | None  #: Labels as JSON values
    thresholds: Floats | None  #: shape (n_classes,): A text gets label k if its value is above thresholds[k].
    calibration: Arrays | None  #: See `CalibratedRule.maps`
    reject: tuple[float, ...]  #: Bounds of probabilities of rejected texts: none, one or two
    conformity: Conformity | None  #: For prediction sets
    kernel: str  #: Kernel in its short form
    info: Json  #: Information saved with the model, such as training data
    top: list[TopFeatures]  #: The heaviest features of each class, at most `MOST_LISTED` classes

    @property
    def columns(self) -> list[str]:
        """Columns of texts of a table; none if the model reads texts."""
        return list(dict.fromkeys(name for names in self.joined for name in names))

    @property
    def joined(self) -> list[tuple[str, ...]]:
        """Columns of each text that the terms read, which joins them by line breaks."""
        return list(dict.fromkeys(term.view.columns for term in self.terms if term.view.columns))

    @property
    def words(self) -> str:
        """Tokens that are words: "words" or "runs", not both."""
        return "runs" if any(term.view.tokens == "runs" for term in self.terms) else "words"

    @property
    def n_machines(self) -> int:
        """Number of binary machines."""
        return len(self.biases)

    @property
    def n_decisions(self) -> int:
        """Number of decision values."""
        of_classes = 0 if self.classes is None else len(self.classes)
        return {"identity": self.n_machines, "difference": 1, "ovo": of_classes}[self.combine]

    @property
    def about(self) -> Json:
        """JSON values that describe the model, for all formats; without paths and ids of documents."""
        holdout = self.info.get("holdout") or {}
        return {
            "written_by": f"textsvm {__version__}",
            "task": self.task,
            "kernel": self.kernel,
            "columns": self.columns,
            "joined": self.joined,
            "classes": self.classes,
            "top_features": [features.as_dict() for features in self.top],
            "training": {
                **{name: self.info[name] for name in PUBLIC if name in self.info},
                "holdout": {name: holdout[name] for name in HELD_OUT if holdout.get(name) is not None},
            },
        }


def plain_model(model: object) -> PlainModel:
    """Describe a fitted estimator, or a Pipeline of it alone; InputError if it cannot be exported."""
    model = trained_model(model)
    if model.support.index:  # support vectors are counted once, for the tables and the heaviest features
        with model.at_work(devices.select("cpu")):
            weights = model.source.without_texts(model.support, model.predictor.dual_coef).weights
        support = replace(model.support, index=(), weights=weights)
        model = replace(model, predictor=replace(model.predictor, support=support))
    rule, settings, intercept = model.rule, model.record.settings, model.predictor.intercept
    assert isinstance(settings, Settings)
    task, terms = TASK_OF[rule.estimator], _terms(model, settings.text_form)
    assert model.kernel is not None
    combine = "identity"
    if task == "classes" and len(rule.classes) == len(intercept) == 2:
        combine = "difference"
    elif isinstance(rule, ClassRule) and len(rule.classes) > 2 and rule.strategy == "ovo":
        combine = "ovo"
    listed = None if rule.classes is None else rule.classes.tolist()[:MOST_LISTED]
    plain = PlainModel(
        task, settings.text_form, terms, np.asarray(intercept, np.float64), combine,
        None if rule.classes is None else rule.classes.tolist(),
        rule.thresholds if isinstance(rule, LabelRule) else None,
        calibration=None, reject=(), conformity=None,
        kernel=spell(model.kernel), info=model.info,
        top=model.top_features(N_TOP, listed),
    )  # fmt: skip
    if not isinstance(rule, CalibratedRule):
        return plain
    reject = () if rule.reject is None else tuple(np.atleast_1d(np.asarray(rule.reject, float)).tolist())
    return replace(plain, calibration=dict(rule.maps), reject=reject, conformity=rule.conformity)


def trained_model(model: object) -> TrainedModel:
    """The trained model of an estimator or of the only step of a Pipeline; InputError for other objects."""
    steps = [step for _, step in getattr(model, "steps", []) if step not in (None, "passthrough")]
    if len(steps) > 1:
        raise InputError(
            f"a {type(model).__name__} of several steps cannot be exported: an exported model reads texts as "
            "they are, so its first steps would be missing"
        )
    model = steps[0] if steps else model
    if not is_ours(model) or as_model(model).rule.estimator not in TASK_OF:
        name = model.rule.estimator if isinstance(model, TrainedModel) else type(model).__name__
        names = ", ".join(name for name in TASK_OF if name != CalibratedRule.estimator)
        raise InputError(f"a model of {name} cannot be exported; export takes {names} and CalibratedSVC")
    return as_model(model).uncut("exported")


def _terms(model: TrainedModel, form: TextForm) -> Sequence[FeatureTerm]:
    """The kernel as a sum of kernels with features; InputError if it has another form."""
    if reason := _obstacle(model.kernel):
        raise InputError(
            f"{reason} cannot be exported; kernels of texts with features can: spectrum, words, gapped, "
            "bounded-gap, and sums of these"
        )
    with model.at_work(cpu := devices.select("cpu")):
        reader: Any = model.reader
        predictor: Any = KernelSource.predictor(reader, model.support, model.predictor.dual_coef, cpu)
        terms: Sequence[FeatureTerm] = predictor.feature_terms(model.support.documents)
    for encoder in dict.fromkeys(term.view.encoder for term in terms if term.view.encoder is not None):
        if exported_tokenizer(encoder.tokenizer).scores is not None and form.normalise == "none":
            name = f"the Unigram tokenizer of the encoder {encoder.name}"
            raise InputError(f"{name} cannot be exported with normalise='none'; take 'unicode', the default")
    return terms


def _obstacle(kernel: Any) -> str:
    """Why this kernel cannot be exported, as the start of an error message, or ""."""
    if kernel is None:
        return "a model of a precomputed kernel matrix, which reads no texts,"
    if numbers := [view.columns for view in kernel.structure.views if view.of_numbers]:
        names = ", ".join(name for columns in numbers for name in columns)
        return (
            f"a model with the numbers of columns {names}" if names else "a model of vectors instead of texts"
        )
    if any(callable(view.tokens) for view in kernel.structure.views):
        return "a model with a function of tokens"
    if {"words", "runs"} <= {view.tokens for view in kernel.structure.views}:
        return "a kernel of both words and runs"
    for _, term in kernel.structure.terms:
        if term.features is None:
            return f"the kernel {spell(term)}, which has no list of features,"
        if term.canonical:
            return f"the kernel {spell(term)} of both strands of DNA"
        if term.structure.view.tokens == "blosum62":
            return f"the kernel {spell(term)} of proteins"
    return ""
