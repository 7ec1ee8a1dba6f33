"""Apply a fitted model to documents: predictions in the same form for all kinds of models, and results."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from textsvm.arrays import AnyArray, Array, Floats, Json
from textsvm.errors import InputError
from textsvm.evaluation.results import Results, evaluate, evaluate_labels
from textsvm.model.rules import CalibratedRule, LabelRule, NumberRule, ScaledRule, margins
from textsvm.model.settings import Settings
from textsvm.model.trained import TrainedModel, as_model
from textsvm.runtime.parallel import StageProgress, lap
from textsvm.sources.copies import BUT_FOR, share_in
from textsvm.text.documents import Documents, MultiView

if TYPE_CHECKING:
    from textsvm.linalg.vectors import Vectors

UNSEEN = 0.05  #: Warn if more than this share of the symbols is not in the model's alphabet
SEEN = 0.01  #: Warn if more than this share of the documents are training documents
KNOWN = (
    f"{{:.1%}} of these documents were in the training of the model (equal {BUT_FOR}): it knows them and "
    "will do less well on others"
)


def predict(
    model: TrainedModel, texts: Any, truth: Sequence[Any], positive: Any, progress: Any
) -> tuple[AnyArray | None, AnyArray, Floats, Floats | None]:
    """Classes (None for regression), predictions, decision values, and probabilities if there are any.

    A one-class model needs `positive`, its class, and `truth` for the name of the other class.
    """
    rule, decision = model.rule, model.decision_function(texts, progress)
    if isinstance(rule, NumberRule):
        return None, decision, decision, None
    if isinstance(rule, CalibratedRule | ScaledRule):
        probability = rule.probabilities(decision)
        return rule.classes, rule.decide(probability), decision, probability
    if rule.classes is not None:
        return rule.classes, rule.predictions(decision), decision, None
    if positive is None:
        raise InputError("a one-class model needs the label that it was trained on: give the positive label")
    others = sorted({label for label in truth if label != positive}) or ["rest"]
    if len(others) > 1:
        names = ", ".join(map(str, others[:5]))
        raise InputError(f"a one-class model separates {positive!s} from {names}; reduce them to two labels")
    classes = np.array(sorted([positive, others[0]]))
    predicted = np.where(decision >= 0, positive, others[0])
    return classes, predicted, decision if classes[1] == positive else -decision, None


def rows_of(
    classes: AnyArray | None, predicted: Array, decision: Array, probability: Floats | None, positive: object
) -> Iterator[Json]:
    """Printed values of each document; without the classes of a classifier, numbers."""
    if classes is None:
        yield from ({"value": value} for value in predicted.tolist())
        return
    names = [str(label) for label in classes]
    if predicted.ndim == 2:
        for present, values in zip(predicted.tolist(), decision.tolist(), strict=True):
            labels = [name for name, has_label in zip(names, present, strict=True) if has_label]
            yield {"labels": labels, "decision": dict(zip(names, values, strict=True))}
        return
    sign = -1.0 if decision.ndim == 1 and positive == names[0] else 1.0
    for i, (label, value) in enumerate(zip(predicted.tolist(), (sign * decision).tolist(), strict=True)):
        row = {"label": label, "decision": value}
        if isinstance(value, list):
            row["decision"] = dict(zip(names, value, strict=True))
        if probability is not None:
            row["probabilities"] = dict(zip(names, probability[i].tolist(), strict=True))
        yield row


def row_without_text(model: TrainedModel, reason: str | None) -> Json:
    """Printed values of a document that cannot be predicted."""
    return {{LabelRule: "labels", NumberRule: "value"}.get(type(model.rule), "label"): None, "reason": reason}


def with_top(
    rows: Iterable[Json], classes: Array, decision: Array, probability: Floats | None, top: int
) -> Iterator[Json]:
    """Rows with the best labels in place of the values of all classes."""
    names = [str(label) for label in classes]
    for i, row in enumerate(rows):
        values = decision[i].tolist() if decision.ndim == 2 else [-float(decision[i]), float(decision[i])]
        scores = {"decision": values} | (
            {} if probability is None else {"probability": probability[i].tolist()}
        )
        ranks = [*scores.values()][-1]
        order = sorted(range(len(names)), key=lambda j: -ranks[j])[:top]
        best = [{"label": names[j], **{key: row[j] for key, row in scores.items()}} for j in order]
        yield {name: row[name] for name in ("label", "labels") if name in row} | {"top": best}


def predict_one_class(
    settings: Settings, model: TrainedModel, combined: Any, inliers: list[bool], n_old: int, folds: int,
    positive: Any,
) -> AnyArray:  # fmt: skip
    """Predictions on new documents by one-class machines that were not trained on the document."""
    from textsvm.training.train import train_here

    inside = np.array(inliers)
    groups = np.arange(len(combined)) if combined.groups is None else np.array(combined.groups)
    fresh = np.arange(n_old, len(combined))
    parts = [(model, fresh[~inside[fresh]])]
    for test in np.array_split(fresh[inside[fresh]], folds):
        train = combined.subset(np.flatnonzero(inside & ~np.isin(groups, groups[test])).tolist())
        train = train if model.pieces is None or not len(test) else train.cut(model.pieces)
        if len(test):
            tested = train_here(settings, train.examples, None, train.weights)
            parts.append((replace(tested, pieces=model.pieces), test))
    predicted = np.full(len(combined), None)
    for tested, test in parts:
        if len(test):
            inside = tested.predict(combined.subset(test.tolist()).examples) > 0
            predicted[test] = np.where(inside, str(positive), "rest")
    return predicted[n_old:]


def judge(
    model: Any, texts: Any, truth: Sequence[Any], positive: Any = None, progress: StageProgress | None = None,
) -> Results:  # fmt: skip
    """Predict labelled documents by a model or estimator, and compute results.

    A calibrated model predicts its likeliest class. `truth` are labels, numbers for an SVR, and for several
    labels tuples or an indicator. `positive` is the positive class of two, and that of a OneClassSVM.
    """
    if len(truth) == 0:
        raise InputError("there are no labelled documents to evaluate on")
    model, clock, seconds = as_model(model), time.perf_counter(), dict[str, float]()
    classes, predicted, decision, probability = predict(model, texts, truth, positive, progress)
    clock = lap(seconds, "predict", clock)
    if classes is not None and predicted.ndim == 2:
        results = evaluate_labels(truth, predicted, decision, classes, model.rule.thresholds)
    else:
        if classes is not None and probability is not None:
            predicted = classes[probability.argmax(axis=1)]
        results = evaluate(truth, predicted, decision, classes, positive=positive, probability=probability)
        if isinstance(model.rule, CalibratedRule) and classes is not None and probability is not None:
            conformity = model.rule.conformity
            codes = np.searchsorted(classes, results.truth)
            sets, unlike = conformity.summary(probability[results.index], decision[results.index], codes)
            results.sets.extend(sets)
            results.rejected.update(unlike)
    results.warnings.extend(data_warnings(model, texts))
    lap(seconds, "judge", clock)
    results.seconds.update(seconds)
    return results


def share_of_training(model: TrainedModel, texts: object) -> float:
    """Share of texts that were in the training; 0 without digests of these."""
    if model.record.texts is None:
        return 0.0
    examples = model.source.validate(texts)
    examples = examples if model.pieces is None else model.pieces.cut_all(examples)[0]
    return share_in(model.record.texts, examples, model.source)


def data_warnings(model: TrainedModel, texts: object) -> list[str]:
    """Warnings about documents in another language, and about training documents among the documents."""
    support, kernel, warnings = model.support.documents, model.kernel, list[str]()
    if (share := share_of_training(model, texts)) > SEEN:
        warnings.append(KNOWN.format(share))
    if kernel is None or not isinstance(support, Documents | MultiView):
        return warnings
    documents = model.encode(texts)
    unseen = max(_unseen(documents.of(view), support.of(view)) for view in kernel.structure.views)
    if unseen > UNSEEN:
        warnings.append(
            f"{100 * unseen:.0f} % of the symbols of these documents do not occur in the model's support "
            "vectors: another language, or another encoding?"
        )
    return warnings


def _unseen(documents: Documents | Vectors, support: Documents | Vectors) -> float:
    """Share of the symbols that no support vector has; 0 for tokens, where new tokens are normal."""
    if not isinstance(support, Documents) or not isinstance(documents, Documents) or support.of_tokens:
        return 0.0
    return float(np.mean(documents.codes >= len(support.alphabet))) if len(documents.codes) else 0.0


def confidence(
    model: TrainedModel, classes: AnyArray, predicted: Array, decision: Floats, probability: Floats | None
) -> Floats:
    """Probability of each label; without calibration the margin, for labels that to the nearest threshold."""
    if isinstance(model.rule, LabelRule):
        thresholds = 0.0 if model.rule.thresholds is None else model.rule.thresholds
        nearest: Floats = np.abs(decision - thresholds).min(axis=1)
        return nearest
    if probability is None:
        return margins(decision)
    own = np.asarray(predicted)[:, None] == classes
    return np.where(own.any(axis=1), (own * probability).sum(axis=1), probability.max(axis=1))


def with_sets(
    model: TrainedModel, rows: Iterable[Json], decision: Floats, probability: Floats | None,
    coverage: float | None, none: float | None,
) -> Iterator[Json]:  # fmt: skip
    """Rows of a calibrated model with prediction sets, and without labels of documents unlike every class.

    `coverage` is the probability that a set contains the true class; `none` is the largest share of documents
    of the classes that get no label.
    """
    rule = model.calibrated()
    names, conformity = [str(label) for label in rule.classes], rule.conformity
    sets = familiar = None
    if coverage is not None:
        assert probability is not None
        sets = conformity.sets(probability, coverage, False).tolist()
    if none is not None:
        familiar = conformity.known(decision, none).tolist()
    for i, row in enumerate(rows):
        if sets is not None:
            row = {**row, "set": [name for name, inside in zip(names, sets[i], strict=True) if inside]}
        yield row if familiar is None or familiar[i] else {**row, "label": None}
