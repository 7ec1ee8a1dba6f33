"""The charts of a report, each in its section."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import metrics

from textsvm.evaluation.results import Results
from textsvm.reporting.charts import Axis, Chart, log_ticks, percent, plain
from textsvm.reporting.escape import safe
from textsvm.reporting.format_metrics import format_metric

Array = NDArray[np.float64]
#: Curves that are shown at first, and those that can be chosen.
MOST_CURVES, MOST_CHOICES = 6, 100
BINS = 40
#: Colours of curves in the style sheet.
STYLES = 8
#: Pixels of a chart as wide as the page.
WIDE = 760


def roc(results: Results) -> str:
    """Receiver operating characteristic; of more than two classes each against the rest."""
    chart = Chart("ROC curves", _share("false positive rate"), _share("true positive rate"))
    chart.diagonal()
    shown = []
    for i, (label, truth, score, style) in enumerate(_one_against_rest(results)):
        fpr, tpr, _ = metrics.roc_curve(truth, score)
        chart.line(fpr, tpr, style, fill=results.task == "binary")
        chart.only(str(i), i < MOST_CURVES)
        shown.append((f"{label} {metrics.roc_auc_score(truth, score):.4f}", style))
    if not shown:
        return ""
    if results.task == "binary":
        said = results.predicted == results.labels[1]
        chart.marker("roc-dot", float(said[~truth].mean()), float(said[truth].mean()))
    note = "Figures: areas under the curves. Dashed: chance." + _left_out(results, len(shown))
    return card("ROC curve", chart, shown, note, choice=_choice(shown))


def precision_recall(results: Results) -> str:
    """Precision against recall; of more than two classes each against the rest."""
    chart = Chart("Precision-recall curves", _share("recall"), _share("precision"))
    shown = []
    for i, (label, truth, score, style) in enumerate(_one_against_rest(results)):
        precision, recall, _ = metrics.precision_recall_curve(truth, score)
        chart.line(recall[::-1], precision[::-1], style, fill=results.task == "binary")
        chart.only(str(i), i < MOST_CURVES)
        area = metrics.average_precision_score(truth, score)
        shown.append((f"{label} {area:.4f}", style))
    if not shown:
        return ""
    note = "Figures: average precision."
    if results.task == "binary":
        chart.level(float(truth.mean()))
        chart.marker("pr-dot", results.recall, results.precision)
        note += " Dashed: chance."
    return card(
        "Precision and recall", chart, shown, note + _left_out(results, len(shown)), choice=_choice(shown)
    )


def calibration(results: Results) -> str:
    """How often documents of a probability are what they are said to be."""
    if results.probability is None:
        return ""
    if results.task == "binary":
        said, came = results.probability, results.truth == results.labels[1]
        name = f"{results.labels[1]}"
    else:
        said, came = results.probability.max(1), results.truth == results.predicted
        name = "the predicted class"
    chart = Chart("Calibration", _share(f"probability of {name}"), _share("share that it was"))
    chart.diagonal()
    groups = [group for group in np.array_split(np.argsort(said, kind="stable"), 10) if len(group)]
    x = np.array([said[group].mean() for group in groups])
    y = np.array([came[group].mean() for group in groups])
    low, high = _wilson(y, np.array([len(group) for group in groups]))
    chart.whiskers(x, low, high, "c3")
    chart.line(x, y, "c3")
    chart.dots(x, y, "c3", 4)
    note = "Tenths of the documents by probability, with 95 % intervals. Dashed: perfectly calibrated."
    return card("Calibration", chart, [], note)


def margins(results: Results) -> str:
    """By how much the predicted class leads, of right and of wrong predictions."""
    if results.task != "multiclass":
        return ""
    lead = leads(results)
    right = results.truth == results.predicted
    low, high = np.percentile(lead, [0.5, 99.5]).tolist()
    low, high = min(low, 0.0), max(high, low + 1e-6)
    edges = np.linspace(low, high, BINS + 1)
    counts = [np.histogram(np.clip(lead[part], low, high), edges)[0] for part in (right, ~right)]
    top = 1.08 * max(1, *(int(each.max()) for each in counts))
    chart = Chart(
        "Lead of the predicted class",
        Axis((low, high), "value of the predicted class less that of the next"),
        Axis((0, top), "documents"),
    )
    chart.bars(edges, counts[0], "c3")
    chart.bars(edges, counts[1], "c2")
    return card("How clear the decisions are", chart, [("right", "c3"), ("wrong", "c2")], "")


def leads(results: Results) -> Array:
    """By how much the predicted class leads, of more than two classes."""
    place = {label: a for a, label in enumerate(results.labels)}
    said = np.array([place[label] for label in results.predicted.tolist()])
    values, everyone = _machine_sums(results.decision), np.arange(results.n)
    others = values.copy()
    others[everyone, said] = -np.inf
    return values[everyone, said] - others.max(axis=1)


def _machine_sums(decision: Array) -> Array:
    """Decision values of each class; of one-vs-one the sums of its machines, without the votes.

    There the sums s are the fractions s / (3 (|s| + 1)), see `textsvm.solvers.class_scores.class_scores`.
    """
    k, votes = decision.shape[1], np.rint(decision)
    fraction = decision - votes
    if np.all(votes.sum(axis=1) == k * (k - 1) // 2) and np.all(np.abs(fraction) < 1 / 3):
        return 3 * fraction / (1 - 3 * np.abs(fraction))
    return decision


def by_length(results: Results, lengths: NDArray[np.int64], wide: bool = False) -> str:
    """What the length of a document has to do with being right."""
    size = np.maximum(lengths, 1).astype(float)
    if size.max() <= size.min():
        return ""
    regression = results.task == "regression"
    wrong = np.abs(results.predicted - results.truth) if regression else results.predicted != results.truth
    edges = np.unique(np.percentile(size, np.linspace(0, 100, 9)))
    which = np.clip(np.searchsorted(edges, size, "right") - 1, 0, len(edges) - 2)
    groups = [np.flatnonzero(which == b) for b in range(len(edges) - 1)]
    groups = [group for group in groups if len(group)]
    x = [float(np.median(size[group])) for group in groups]
    y = np.array([wrong[group].mean() for group in groups])
    n = np.array([len(group) for group in groups])
    if regression:
        error = np.array([1.96 * wrong[group].std() / np.sqrt(len(group)) for group in groups])
        low, high = np.maximum(y - error, 0), y + error
    else:
        low, high = _wilson(y, n)
    bounds = (max(1.0, 0.8 * x[0]), 1.25 * x[-1])
    error_axis = ("mean absolute error", plain) if regression else ("share wrong", percent)
    chart = Chart(
        "Errors by length of the document",
        Axis(bounds, "symbols of a document", ticks=log_ticks(*bounds), log=True),
        Axis((0, float(high.max()) * 1.08), *error_axis),
        width=WIDE if wide else 440,
        height=280 if wide else 300,
    )
    chart.level(float(wrong.mean()))
    chart.whiskers(x, low, high, "c1")
    chart.line(x, y, "c1")
    chart.dots(x, y, "c1", 4)
    note = f"{len(groups)} groups of documents by length, with 95 % intervals. Dashed: all documents."
    return card("Length of documents", chart, [], note, wide)


def scatter(results: Results) -> str:
    """Predicted against true numbers."""
    truth, predicted = results.truth, results.predicted
    low, high = float(min(truth.min(), predicted.min())), float(max(truth.max(), predicted.max()))
    pad = 0.03 * (high - low) or 1.0
    bounds = (low - pad, high + pad)
    chart = Chart(
        "Predicted against true numbers", Axis(bounds, "truth"), Axis(bounds, "predicted"), height=400
    )
    chart.diagonal()
    drawn = np.arange(len(truth))
    if len(truth) > 3000:
        drawn = np.sort(np.random.default_rng(0).choice(len(truth), 3000, replace=False))
    chart.dots(truth[drawn], predicted[drawn], "c1 faint", 3)
    note = "Dashed: perfect." + (" 3,000 documents drawn at random." if len(drawn) < len(truth) else "")
    return card("Predicted and true", chart, [], note)


def error_histogram(results: Results) -> str:
    """How far off predictions are."""
    error = results.predicted - results.truth
    bound = float(np.percentile(np.abs(error), 99.5)) or 1.0
    edges = np.linspace(-bound, bound, BINS + 1)
    counts = np.histogram(np.clip(error, -bound, bound), edges)[0]
    chart = Chart(
        "Histogram of errors",
        Axis((-bound, bound), "predicted less true"),
        Axis((0, 1.08 * max(1, int(counts.max()))), "documents"),
        height=400,
    )
    chart.bars(edges, counts, "c1")
    return card(
        "Errors",
        chart,
        [],
        f"Mean {error.mean():+.3g}, {format_metric('mae', np.abs(error).mean())} off on average.",
    )


def _one_against_rest(results: Results) -> list[tuple[str, NDArray[np.bool_], Array, str]]:
    """Name, truth, score and style of each curve; the largest classes, and only where both sides occur."""
    if results.task == "binary":
        truth = results.truth == results.labels[1]
        both = 0 < truth.sum() < len(truth)
        return [(str(results.labels[1]), truth, results.decision, "c2")] if both else []
    several = results.task == "multilabel"
    largest = sorted(range(len(results.labels)), key=lambda a: -results.per_class[a]["support"])
    curves = [
        (
            str(results.labels[a]),
            results.truth[:, a] if several else results.truth == results.labels[a],
            results.decision[:, a],
        )
        for a in largest
    ]
    curves = [curve for curve in curves if 0 < curve[1].sum() < results.n and np.all(np.isfinite(curve[2]))]
    return [(*curve, f"c{i % STYLES + 1}") for i, curve in enumerate(curves[:MOST_CHOICES])]


def _share(label: str) -> Axis:
    return Axis((0, 1), label, percent)


def _left_out(results: Results, curves: int) -> str:
    if results.task == "binary":
        return ""
    left = len(results.labels) - curves
    largest = f" Shown at first: the {MOST_CURVES} largest." if curves > MOST_CURVES else ""
    return (
        f" Each class against the rest.{largest}{f' Without {left} that have no curve.' if left > 0 else ''}"
    )


def _choice(shown: list[tuple[str, str]]) -> str:
    """Which curves are shown, where there are more than at first; the page's script needs it."""
    if len(shown) <= MOST_CURVES:
        return ""
    names = [("first", f"the {MOST_CURVES} largest classes"), ("all", "all of them")]
    names += [(str(i), label.rpartition(" ")[0]) for i, (label, _) in enumerate(shown)]
    options = "".join(f'<option value="{value}">{safe(name)}</option>' for value, name in names)
    select = f'<select data-first="{MOST_CURVES}">{options}</select>'
    return f'<label class="choice" hidden>curves of {select}</label>'


def _wilson(share: Array, n: NDArray[np.int64]) -> tuple[Array, Array]:
    """95 % intervals of shares of n (Wilson 1927)."""
    z2 = 1.96**2
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = np.sqrt(share * (1 - share) / n + z2 / (4 * n * n)) * 1.96 / (1 + z2 / n)
    return np.maximum(middle - half, 0), np.minimum(middle + half, 1)


def card(
    title: str,
    chart: Chart,
    key: list[tuple[str, str]],
    note: str,
    wide: bool = False,
    choice: str = "",
    first: int = MOST_CURVES,
) -> str:
    """A chart with its title, key and note; `first` entries of the key are shown at first."""
    names, styles = [name for name, _ in key], [style for _, style in key]
    below = f'<p class="note">{note.strip()}</p>' if note else ""
    style = ' class="wide"' if wide else ""
    above = f"<h2>{title}</h2>{choice}{key_of(names, styles, first)}"
    return f"<section{style}>{above}{chart.svg()}{below}</section>"


def key_of(names: Any, styles: Any, first: int = MOST_CURVES) -> str:
    items = "".join(
        f'<li class="{style}{" off" * (i >= first)}" data-curve="{i}">{safe(name)}</li>'
        for i, (name, style) in enumerate(zip(names, styles, strict=True))
    )
    return f'<ul class="key">{items}</ul>' if items else ""
