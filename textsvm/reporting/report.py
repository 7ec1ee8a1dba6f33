"""What a report is made of, whatever its form: results, facts, lengths, the worst mistakes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

import textsvm
from textsvm.evaluation.asked import machine_of
from textsvm.evaluation.explanation import Explanation, explain
from textsvm.evaluation.results import Results
from textsvm.evaluation.side_by_side import SideBySide
from textsvm.evaluation.slices import Slices
from textsvm.kernels.spelling import spell
from textsvm.linalg.vectors import Vectors
from textsvm.readers.columns import some
from textsvm.runtime.parallel import Progress
from textsvm.runtime.plain_json import to_json
from textsvm.selection.learning_curve import LearningCurve

#: Mistakes that are shown.
MISTAKES = 10
#: Seconds of a core that explanations may take in a report, as predicted: about half a minute on two cores.
EXPLAINING = 60.0


@dataclass(frozen=True)
class Mistake:
    """A document that the model gets wrong.

    Attributes
    ----------
    id : str
    truth, predicted : label or number
    value : float
        The score, or for more than two classes by how much the wrong class leads; of several labels how far
        the worst is from its threshold; the error for regression.
    text : str
        As the model reads it.
    explanation : Explanation, optional
        None where it would have taken too long.
    """

    id: str
    truth: Any
    predicted: Any
    value: float
    text: str
    explanation: Explanation | None


@dataclass(frozen=True)
class Report:
    """All that a report shows.

    Attributes
    ----------
    title : str
    results : Results
        With intervals.
    facts : list of (str, str)
        About the model and this evaluation.
    lengths : int64 array, shape (n,)
        Symbols of each document as the model reads it.
    mistakes : list of Mistake
        The worst first.
    slices : Slices, optional
    beside : SideBySide, optional
        Other models, this one the first.
    learning : LearningCurve, optional
    """

    title: str
    results: Results
    facts: list[tuple[str, str]]
    lengths: NDArray[np.int64] = field(repr=False)
    mistakes: list[Mistake]
    slices: Slices | None = None
    beside: SideBySide | None = None
    learning: LearningCurve | None = None

    @property
    def more(self) -> dict[str, Slices | SideBySide | LearningCurve]:
        """What was asked for besides, by its name."""
        asked = {"slices": self.slices, "beside": self.beside, "learning_curve": self.learning}
        return {name: each for name, each in asked.items() if each is not None}

    def as_dict(self) -> dict[str, Any]:
        """JSON values."""
        return to_json(
            {
                "title": self.title,
                **self.results.as_dict(),
                "facts": dict(self.facts),
                "mistakes": [
                    {**vars(each), "explanation": each.explanation and each.explanation.as_dict()}
                    for each in self.mistakes
                ],
                **{name: each.as_dict() for name, each in self.more.items()},
            }
        )


def make_report(
    model: Any,
    results: Results,
    texts: Any,
    ids: Sequence[str],
    title: str = "Evaluation",
    mistakes: int = MISTAKES,
    progress: Progress | None = None,
) -> Report:
    """Put together what a report shows; bootstrap intervals are computed if the results have none.

    Parameters
    ----------
    model : SVC, MultilabelSVC, SVR, OneClassSVM or CalibratedSVC
    results : Results
        Of `textsvm.evaluation.judge.judge`.
    texts : sequence of str, or vectors, or a dict of columns
        All documents that were given to it. Of vectors there is nothing to show.
    ids : sequence of str
    title : str
    mistakes : int
        How many are explained.
    progress : callable, optional
    """
    results = results if results.intervals else results.with_intervals()
    chosen = worst(results, mistakes)
    machine = machine_of(model)
    documents = machine.encode(machine.read(texts, fitting=False), None).take(results.index)
    if isinstance(documents, Vectors):
        return Report(title, results, _facts(model, results), np.zeros(results.n, np.int64), [])
    positive = results.labels[1] if results.task == "binary" else None
    explained = explain_within_budget(
        model, some(texts, results.index[chosen].tolist()), documents.lengths[chosen], positive, progress
    )
    found = [
        Mistake(
            ids[results.index[i]],
            *results.labels_of(i),
            float(how_wrong(results)[i]),
            documents.shown(i),
            explanation,
        )
        for i, explanation in zip(chosen, explained, strict=True)
    ]
    return Report(title, results, _facts(model, results), documents.lengths, found)


def worst(results: Results, most: int) -> list[int]:
    """The documents that are furthest from being right, numbers among those judged."""
    wrong = results.predicted != results.truth
    if results.task == "multilabel":
        wrong = wrong.any(axis=1)
    how_bad = np.where(wrong, np.abs(how_wrong(results)), -1.0)
    order = np.argsort(-how_bad, kind="stable")[:most]
    return [i for i in order.tolist() if wrong[i]]


def explain_within_budget(
    model: Any, texts: Any, lengths: NDArray[np.int64], positive: Any, progress: Progress | None
) -> list[Explanation | None]:
    """Explanations of the first texts, as many as there is time for."""
    if getattr(model, "support_documents_", None) is None:
        return [None] * len(lengths)
    if not len(lengths):
        return []
    seconds = np.cumsum(model.kernel_.contributions_cost(lengths, model.support_documents_.lengths))
    affordable = int(np.searchsorted(seconds, EXPLAINING, side="right"))
    done: list[Explanation | None] = []
    first = some(texts, range(affordable))
    done += explain(model, first, positive=positive, substrings=12, similar=3, progress=progress)
    return done + [None] * (len(lengths) - affordable)


def how_wrong(results: Results) -> NDArray[np.float64]:
    """The `value` of each document as a mistake; see `Mistake`."""
    if results.task == "regression":
        return results.predicted - results.truth
    if results.task == "binary":
        return results.decision
    if results.task == "multilabel":
        bounds = np.array([each["threshold"] for each in results.per_class])
        wrong = results.predicted != results.truth
        return np.where(wrong, np.abs(results.decision - bounds), 0.0).max(axis=1)
    rows, place = np.arange(results.n), {label: a for a, label in enumerate(results.labels)}
    true, said = (
        np.array([place[label] for label in y.tolist()]) for y in (results.truth, results.predicted)
    )
    return results.decision[rows, said] - results.decision[rows, true]


def _facts(model: Any, results: Results) -> list[tuple[str, str]]:
    kernel = getattr(model, "kernel_", None)
    info = getattr(model, "info_", {})
    facts = [("machine", model.estimator_name)]
    if kernel is not None:
        facts.append(("kernel", spell(kernel)))
    machine = machine_of(model)
    if isinstance(getattr(machine, "C", None), int | float):
        facts.append(("C", f"{machine.C:g}"))
    if isinstance(info.get("corpus"), str):
        facts.append(("trained on", info["corpus"]))
    if isinstance(info.get("n_train"), int):
        facts.append(("training documents", f"{info['n_train']:,}"))
    left = f"{len(model.support_):,}" if machine.kept.weights is None else "left out, with their texts"
    facts.append(("support vectors", left))
    facts.append(("documents judged", f"{results.n:,}"))
    facts += _promises(results)
    if hasattr(model, "device_"):
        facts.append(("device", model.device_.description))
    facts += [(f"seconds to {stage}", f"{seconds:.2f}") for stage, seconds in results.seconds.items()]
    return [*facts, ("written by", f"textsvm {textsvm.__version__}")]


def _promises(results: Results) -> list[tuple[str, str]]:
    """What prediction sets and rejection promised, and what they did."""
    found = [
        (
            f"sets that promise {each['promised']:.0%}",
            f"hold the true class of {each['coverage']:.2%}; {each['mean_size']:.2f} classes on average, one "
            f"alone in {each['single']:.1%}",
        )
        for each in results.sets
    ]
    if results.rejected:
        allowed, unlike = results.rejected["allowed"], results.rejected["unlike"]
        found.append(("unlike every class", f"{unlike:.2%} of these documents, where {allowed:.0%} may be"))
    return found
