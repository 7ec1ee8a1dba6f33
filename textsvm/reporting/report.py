"""Content of a report in any format: results, facts, text lengths, the worst mistakes, optional sections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from textsvm.arrays import Floats, Ints, Json
from textsvm.evaluation.class_map import ClassMap, class_map, sample
from textsvm.evaluation.comparison import SideBySide
from textsvm.evaluation.explanation import Explanation, explain
from textsvm.evaluation.results import Results, evaluate, evaluate_labels
from textsvm.evaluation.slices import Slices
from textsvm.kernels.spelling import spell
from textsvm.linalg.vectors import Vectors
from textsvm.model.top_features import MAX_DOCUMENTS, TopFeatures, has_feature_list
from textsvm.model.trained import TrainedModel
from textsvm.readers.corpus import take
from textsvm.runtime.device import to_host
from textsvm.runtime.parallel import Progress
from textsvm.runtime.plain_json import to_json
from textsvm.selection.cross_validation import CrossValidation, LearningCurve
from textsvm.version import __version__

MISTAKES = 10  #: Mistakes shown by default
MOST_CLASSES = 6  #: Maximum number of classes whose features are shown
FEATURES = 20  #: Features shown of a class
#: Predicted seconds of a core for the explanations of a report: about half a minute on two cores.
EXPLAINING = 60.0
MAP_DOCUMENTS = 500  #: Maximum number of documents on the map of a report


@dataclass(frozen=True)
class Mistake:
    """A document with a wrong prediction."""

    id: str
    truth: Any
    predicted: Any
    #: Two classes: the score. More: by how much the wrong class leads. Several labels per document: the
    #: largest distance of a wrong label from its threshold. Regression: the error.
    value: float
    text: str  #: As the model reads it
    explanation: Explanation | None  #: None if it would have taken too long


@dataclass(frozen=True)
class Report:
    """Content of a report."""

    title: str
    results: Results  #: With intervals
    facts: list[tuple[str, str]]  #: Names and values: the model, this evaluation
    lengths: Ints = field(repr=False)  #: shape (n,): Symbols of each document as the model reads it.
    mistakes: list[Mistake]  #: The worst first
    slices: Slices | None = None
    beside: SideBySide | None = None  #: Several models, this model first
    learning: LearningCurve | None = None
    #: Features with the largest weights for each class, at most `MOST_CLASSES` classes.
    features: Sequence[TopFeatures] = ()
    class_map: ClassMap | None = None  #: Of documents judged, or of a sample of them
    map_ids: Sequence[str] = ()  #: Names of the documents on the map

    def as_dict(self) -> Json:
        """JSON values."""
        more = {"slices": self.slices, "beside": self.beside, "learning_curve": self.learning}
        values = {
            "title": self.title,
            **self.results.as_dict(),
            "facts": dict(self.facts),
            "mistakes": [
                {**vars(x), "explanation": x.explanation and x.explanation.as_dict()} for x in self.mistakes
            ],
            "features": [features.as_dict() for features in self.features],
            **({"class_map": self.class_map.as_dict()} if self.class_map else {}),
            **{name: section.as_dict() for name, section in more.items() if section is not None},
        }
        return to_json(values)


def make_report(
    model: TrainedModel, results: Results, texts: object, ids: Sequence[str], title: str = "Evaluation",
    mistakes: int = MISTAKES, progress: Progress | None = None,
) -> Report:  # fmt: skip
    """Report on a fitted model and its results; explains the worst mistakes within a time budget.

    Bootstrap intervals are computed if the results have none; vectors are not shown.
    """
    results = results if results.intervals else results.with_intervals()
    documents = model.encode(texts, extending=False).take(results.index)
    facts = _facts(model, results)
    if isinstance(documents, Vectors):
        return Report(title, results, facts, np.zeros(results.n, np.int64), [])
    rows, values = worst(results, mistakes), how_wrong(results)
    positive = results.labels[1] if results.task == "binary" else None
    mistaken = take(texts, results.index[rows].tolist())
    explained = explain_within_budget(model, mistaken, documents.lengths[rows], positive, progress)
    wrong = []
    for i, explanation in zip(rows, explained, strict=True):
        name, text = ids[results.index[i]], documents.shown(i)
        wrong.append(Mistake(name, *results.labels_of(i), float(values[i]), text, explanation))
    features = _features(model, results) if mistakes else []
    class_map, drawn = _class_map(model, results, texts, documents.lengths)
    map_ids = [ids[i] for i in drawn] if mistakes else []
    return Report(
        title, results, facts, documents.lengths, wrong,
        features=features, class_map=class_map, map_ids=map_ids,
    )  # fmt: skip


def _class_map(
    model: TrainedModel, results: Results, texts: object, lengths: Ints
) -> tuple[ClassMap | None, list[int]]:
    """Map of judged documents by their true classes, and their indices; fewer documents of slow kernels."""
    kernel = model.kernel
    if kernel is None or results.task not in ("binary", "multiclass") or results.n < 2:
        return None, []
    labels, most = results.truth.tolist(), MAP_DOCUMENTS
    while most > 2:
        drawn = sample(labels, results.n, most)
        if kernel.attribution.seconds(lengths[drawn], lengths[drawn]).sum() <= EXPLAINING:
            break
        most //= 2
    rows = results.index[drawn].tolist()
    examples = kernel.structure.read(model.encode(take(texts, rows)))
    with model.at_work(model.device_in_use):
        values = to_host(kernel.rows(examples, model.device_in_use).gram())
    return class_map(values, [labels[i] for i in drawn]), rows


def worst_classes(results: Results) -> list[int]:
    """Indices of the classes in ascending order of their F1, the larger class first of equals."""
    table = results.per_class
    return sorted(
        range(len(table)), key=lambda a: (not table[a]["support"], table[a]["f1"], -table[a]["support"])
    )


def _features(model: TrainedModel, results: Results) -> list[TopFeatures]:
    """Features with the largest weights of the worst classes, if they take at most `EXPLAINING` seconds."""
    kernel = model.kernel
    if kernel is None or kernel.structure.reads_vectors:
        return []
    labels = None
    if len(results.labels) > 2:
        labels = {results.labels[a] for a in worst_classes(results)[:MOST_CLASSES]}
    if model.support.weights is None and not has_feature_list(kernel):
        lengths = model.support.documents.lengths
        longest = np.sort(lengths)[-MAX_DOCUMENTS:]
        if kernel.attribution.seconds(longest, lengths).sum() * len(labels or "ab") > EXPLAINING:
            return []
    features = model.top_features(FEATURES, labels)
    return [top for top in features if top.features and top.kind != "training documents"]


def results_of(result: CrossValidation, truth: Sequence[Any], positive: object = None) -> Results:
    """Results of all tested documents of a cross-validation together."""
    tested = np.flatnonzero(result.tested)
    truths, predicted = [truth[i] for i in tested.tolist()], result.predictions[tested]
    decision = result.decision[tested]
    if predicted.ndim == 2:
        classes = np.unique([label for labels in truth for label in labels])
        thresholds = np.full(len(classes), np.nan)  # every fold has its own
        results = evaluate_labels(truths, predicted.astype(bool), decision, classes, thresholds)
    elif "mae" in result.mean:
        results = evaluate(truths, predicted.astype(float), decision, None)
    else:
        classes = np.unique(np.asarray(truth))
        results = evaluate(truths, predicted.astype(classes.dtype), decision, classes, positive=positive)
    return replace(results, index=tested[results.index], seconds=result.seconds)


def report_of_folds(
    results: Results, texts: Sequence[str], ids: Sequence[str], title: str,
    facts: list[tuple[str, str]], mistakes: int = MISTAKES,
) -> Report:  # fmt: skip
    """Report on a cross-validation: its models are gone, so mistakes are shown without explanations."""
    results = results if results.intervals else results.with_intervals()
    if not len(texts):
        return Report(title, results, facts, np.zeros(results.n, np.int64), [])
    lengths, wrong = np.array([len(texts[i]) for i in results.index.tolist()]), []
    if results.task != "multilabel":
        values = how_wrong(results)
        for i in worst(results, mistakes):
            j = int(results.index[i])
            wrong.append(Mistake(ids[j], *results.labels_of(i), float(values[i]), texts[j], None))
    return Report(title, results, facts, lengths, wrong)


def worst(results: Results, most: int) -> list[int]:
    """Indices, among the judged documents, of the worst mistakes."""
    how_bad = np.where(results.wrong, np.abs(how_wrong(results)), -1.0)
    return [i for i in np.argsort(-how_bad, kind="stable")[:most].tolist() if results.wrong[i]]


def explain_within_budget(
    model: TrainedModel, texts: object, lengths: Ints, positive: object, progress: Progress | None
) -> list[Explanation | None]:
    """Explanations of the first texts, as many as take at most `EXPLAINING` seconds as predicted."""
    kernel, support = model.kernel, model.support.documents
    if kernel is None or support is None or model.pieces is not None:
        return [None] * len(lengths)
    seconds = np.cumsum(kernel.attribution.seconds(lengths, support.lengths))
    affordable = int(np.searchsorted(seconds, EXPLAINING, side="right"))
    first = take(texts, range(affordable))
    explanations = explain(model, first, positive=positive, substrings=12, similar=3, progress=progress)
    return [*explanations, *[None] * (len(lengths) - affordable)]


def how_wrong(results: Results) -> Floats:
    """`Mistake.value` of each document."""
    if results.task == "regression":
        return results.predicted - results.truth
    if results.task == "binary":
        return results.decision
    if results.task == "multilabel":
        thresholds = np.array([row["threshold"] for row in results.per_class])
        wrong = results.predicted != (results.truth == 1)
        return np.where(wrong, np.abs(results.decision - thresholds), 0.0).max(axis=1)
    rows, predicted = np.arange(results.n), results.codes(results.predicted)
    return results.decision[rows, predicted] - results.decision[rows, results.codes(results.truth)]


def _facts(model: TrainedModel, results: Results) -> list[tuple[str, str]]:
    kernel, info, C = model.kernel, model.info, model.record.settings.as_dict().get("C")
    count, chosen = f"{len(model.support.indices):,}", model.record.chosen
    left_out = "left out: too many documents and classes" if results.areas_left_out else None
    promises = {
        f"sets that promise {row['promised']:.0%}": f"hold the true class of {row['coverage']:.2%}; "
        f"{row['mean_size']:.2f} classes on average, a single class in {row['single']:.1%}"
        for row in results.sets
    }
    if results.rejected:
        allowed, unlike = results.rejected["allowed"], results.rejected["unlike"]
        promises["unlike every class"] = f"{unlike:.2%} of these documents, where {allowed:.0%} may be"
    facts = {
        "machine": model.estimator_name,
        "kernel": kernel and spell(kernel),
        # Also an encoder of weight 0, when the kernel is without it.
        "choice of the kernel": kernel and (chosen if "encoder" in chosen else None),
        "C": f"{C:g}" if isinstance(C, int | float) else None,
        "trained on": info["corpus"] if isinstance(info.get("corpus"), str) else None,
        "training documents": f"{info['n_train']:,}" if isinstance(info.get("n_train"), int) else None,
        "support vectors": count if model.support.weights is None else "left out, with their texts",
        "documents judged": f"{results.n:,}",
        "intervals of areas under curves": left_out,
        **promises,
        "device": model.device_in_use.description,
        **{f"seconds to {stage}": f"{seconds:.2f}" for stage, seconds in results.seconds.items()},
        "written by": f"textsvm {__version__}",
    }
    return [(name, str(fact)) for name, fact in facts.items() if fact]
