"""Charts of a report, each in its section, and the control to try out thresholds."""

from __future__ import annotations

import numpy as np

from textsvm.arrays import Bools, Floats, Ints, Json
from textsvm.evaluation.metrics import average_precisions, precision_recall_curve, roc_area, roc_curve
from textsvm.evaluation.results import Results, wilson
from textsvm.reporting.charts import BOTTOM, LEFT, RIGHT, TOP, WIDE, Axis, Chart, log_ticks, percent, plain
from textsvm.reporting.formatting import cut, format_metric, key, safe, section
from textsvm.reporting.report import worst_classes

MOST_CURVES = 6  #: Curves that are shown at first
MOST_CHOICES = 100  #: Maximum number of curves that can be chosen
BINS = 40  #: Bins of a histogram
STYLES = 8  #: Colours of curves in the style sheet
MOST_SCORES = 20_000  #: Scores in the page's data; more are joined


def roc(results: Results) -> str:
    """ROC curves; of more than two classes each against the rest."""
    chart = Chart("ROC curves", _share("false positive rate"), _share("true positive rate"))
    chart.diagonal()
    if not (drawn := _draw_curves(chart, "roc", results)):
        return ""
    if results.task == "binary":
        truth, positive = (labels == results.labels[1] for labels in (results.truth, results.predicted))
        chart.marker("roc-dot", float(positive[~truth].mean()), float(positive[truth].mean()))
    note = "Figures: areas under the curves. Dashed: chance." + _left_out(results, len(drawn))
    return card("ROC curve", chart, drawn, note, choice=_choice(drawn))


def precision_recall(results: Results) -> str:
    """Precision against recall; of more than two classes each against the rest."""
    chart = Chart("Precision-recall curves", _share("recall"), _share("precision"))
    if not (drawn := _draw_curves(chart, "pr", results)):
        return ""
    note = "Figures: average precision."
    if results.task == "binary":
        chart.level(float((results.truth == results.labels[1]).mean()))
        chart.marker("pr-dot", results.recall, results.precision)
        note += " Dashed: chance."
    note += _left_out(results, len(drawn))
    return card("Precision and recall", chart, drawn, note, choice=_choice(drawn))


def _draw_curves(chart: Chart, kind: str, results: Results) -> list[tuple[str, str]]:
    """Draw a curve for each class; returns the key: names with areas, and styles."""
    drawn = []
    for i, (label, truth, score, style) in enumerate(_one_against_rest(results)):
        xs, ys, area = curve_of(kind, truth, score)
        chart.line(xs, ys, style, fill=results.task == "binary")
        chart.only(str(i), i < MOST_CURVES)
        drawn.append((f"{label} {area:.4f}", style))
    return drawn


def curve_of(kind: str, truth: Bools, score: Floats) -> tuple[Floats, Floats, float]:
    """Points of a "roc" or "pr" curve, and its area."""
    if kind == "roc":
        return *roc_curve(truth, score), roc_area(truth, score)
    precision, recall = precision_recall_curve(truth, score)
    return recall, precision, average_precisions(truth[:, None], score[:, None])[0]


def calibration(results: Results) -> str:
    """Share of documents of the class by their predicted probability."""
    if results.probability is None:
        return ""
    if results.task == "binary":
        probability, correct = results.probability, results.truth == results.labels[1]
        name = f"{results.labels[1]}"
    else:
        probability, correct = results.probability.max(1), results.truth == results.predicted
        name = "the predicted class"
    chart = Chart("Calibration", _share(f"probability of {name}"), _share("share that it was"))
    chart.diagonal()
    groups = [group for group in np.array_split(np.argsort(probability, kind="stable"), 10) if len(group)]
    x = np.array([probability[group].mean() for group in groups])
    y = np.array([correct[group].mean() for group in groups])
    low, high = wilson(y, np.array([len(group) for group in groups]))
    chart.whiskers(x, low, high, "c3")
    chart.line(x, y, "c3")
    chart.dots(x, y, "c3", 4)
    note = "Tenths of the documents by probability, with 95 % intervals. Dashed: perfectly calibrated."
    return card("Calibration", chart, [], note)


def margins(results: Results) -> str:
    """Histograms of the lead of the predicted class, for correct and wrong predictions."""
    if results.task != "multiclass":
        return ""
    lead, right = leads(results), results.truth == results.predicted
    low, high = np.percentile(lead, [0.5, 99.5]).tolist()
    low, high = min(low, 0.0), max(high, low + 1e-6)
    edges = np.linspace(low, high, BINS + 1)
    counts = [np.histogram(np.clip(lead[part], low, high), edges)[0] for part in (right, ~right)]
    top = 1.08 * max(1, *(int(heights.max()) for heights in counts))
    axis = Axis((low, high), "value of the predicted class less that of the next")
    chart = Chart("Lead of the predicted class", axis, Axis((0, top), "documents"))
    chart.bars(edges, counts[0], "c3")
    chart.bars(edges, counts[1], "c2")
    return card("How clear the decisions are", chart, [("right", "c3"), ("wrong", "c2")], "")


def confusion(results: Results) -> str:
    """Confusion matrix as a chart: rows are true classes; the colour is the share of the row."""
    labels, k = [cut(str(label), 24) for label in results.labels], len(results.labels)
    if not 1 < k <= MOST_CHOICES or not results.confusion:
        return ""
    side, left = 44 if k <= 25 else 14, 30 + 7 * max(map(len, labels))
    # Coordinates are pixels from the upper left corner of the matrix.
    axis = Axis((0, 1), "")
    chart = Chart("Confusion matrix", axis, axis, width=max(left + side * k + 20, 380))
    chart.height = left + side * k + 50
    chart.parts = [
        f'<text class="label" x="0" y="{left + side * k + 40}">{results.n:,} documents. Rows: true class. '
        "Columns: predicted class.</text>"
    ]
    for a, (label, counts) in enumerate(zip(labels, results.confusion, strict=True)):
        y, total = left + side * a, max(1, sum(counts))
        chart.text(left - 8, y + side / 2 + 4, label, "name end")
        turn = f"translate({left + side * (a + 0.5) + 4} {left - 8}) rotate(-90)"
        chart.parts.append(f'<text class="name" transform="{turn}">{safe(label)}</text>')
        for b, count in enumerate(counts):
            colour, opacity = 3 if a == b else 2, 0.04 + 0.8 * count / total
            style = f'class="area c{colour}" style="fill-opacity:{opacity:.3f}"'
            path = f"M{left + side * b} {y}h{side - 1}v{side - 1}h{1 - side}z"
            chart.parts.append(f'<path {style} d="{path}"/>')
            if k <= 25 and count:
                chart.text(left + side * (b + 0.5), y + side / 2 + 4, f"{count:,}", "name mid")
    return chart.svg()


def leads(results: Results) -> Floats:
    """Decision value of the predicted class less the largest of the others, of more than two classes."""
    values, rows = results.decision, np.arange(results.n)
    k, votes = values.shape[1], np.rint(values)
    fraction = values - votes
    if np.all(votes.sum(axis=1) == k * (k - 1) // 2) and np.all(np.abs(fraction) < 1 / 3):
        # Of ovo the sums s of the machines without the votes, recovered from the fractions s / (3 (|s| + 1)),
        # see `textsvm.model.rules.class_scores`.
        values = 3 * fraction / (1 - 3 * np.abs(fraction))
    predicted, others = results.codes(results.predicted), values.copy()
    others[rows, predicted] = -np.inf
    return values[rows, predicted] - others.max(axis=1)


def by_length(results: Results, lengths: Ints, wide: bool = False) -> str:
    """Errors by the length of the document."""
    size = np.maximum(lengths, 1).astype(float)
    if size.max() <= size.min():
        return ""
    regression = results.task == "regression"
    wrong = np.abs(results.predicted - results.truth) if regression else results.wrong
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
        low, high = wilson(y, n)
    bounds = (max(1.0, 0.8 * x[0]), 1.25 * x[-1])
    error_axis = ("mean absolute error", plain) if regression else ("share wrong", percent)
    x_axis = Axis(bounds, "symbols of a document", ticks=log_ticks(*bounds), log=True)
    y_axis = Axis((0, float(high.max()) * 1.08), *error_axis)
    shape = {"width": WIDE, "height": 280} if wide else {}
    chart = Chart("Errors by length of the document", x_axis, y_axis, **shape)
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
    axes = Axis(bounds, "truth"), Axis(bounds, "predicted")
    chart = Chart("Predicted against true numbers", *axes, height=400)
    chart.diagonal()
    sample = np.arange(len(truth))
    if len(truth) > 3000:
        sample = np.sort(np.random.default_rng(0).choice(len(truth), 3000, replace=False))
    chart.dots(truth[sample], predicted[sample], "c1 faint", 3)
    note = "Dashed: perfect." + (" 3,000 documents drawn at random." if len(sample) < len(truth) else "")
    return card("Predicted and true", chart, [], note)


def error_histogram(results: Results) -> str:
    """Histogram of the errors of a regression."""
    error = results.predicted - results.truth
    bound = float(np.percentile(np.abs(error), 99.5)) or 1.0
    edges = np.linspace(-bound, bound, BINS + 1)
    counts = np.histogram(np.clip(error, -bound, bound), edges)[0]
    axes = Axis((-bound, bound), "predicted less true"), Axis((0, 1.08 * max(1, counts.max())), "documents")
    chart = Chart("Histogram of errors", *axes, height=400)
    chart.bars(edges, counts, "c1")
    note = f"Mean {error.mean():+.3g}, {format_metric('mae', np.abs(error).mean())} off on average."
    return card("Errors", chart, [], note)


def _one_against_rest(results: Results) -> list[tuple[str, Bools, Floats, str]]:
    """Name, truth, score and style of each curve, in ascending order of the F1 of the classes."""
    if results.task == "binary":
        truth = results.truth == results.labels[1]
        both = 0 < truth.sum() < len(truth)
        return [(str(results.labels[1]), truth, results.decision, "c2")] if both else []
    curves = []
    for a in worst_classes(results):
        truth = results.truth[:, a] if results.task == "multilabel" else results.truth == results.labels[a]
        asked = ~np.isnan(truth)
        truth, score = truth[asked] == 1, results.decision[asked, a]
        if 0 < truth.sum() < len(truth) and np.all(np.isfinite(score)):
            curves.append((str(results.labels[a]), truth, score))
    return [(*curve, f"c{i % STYLES + 1}") for i, curve in enumerate(curves[:MOST_CHOICES])]


def _share(label: str) -> Axis:
    return Axis((0, 1), label, percent)


def _left_out(results: Results, curves: int) -> str:
    if results.task == "binary":
        return ""
    omitted, note = len(results.labels) - curves, " Each class against the rest."
    note += f" Shown at first: the {MOST_CURVES} with the lowest F1." if curves > MOST_CURVES else ""
    return note + (f" Without {omitted} that have no curve." if omitted > 0 else "")


def _choice(entries: list[tuple[str, str]]) -> str:
    """Control of the curves shown, if there are more than `MOST_CURVES`; needs the page's script."""
    if len(entries) <= MOST_CURVES:
        return ""
    names = [("first", f"the {MOST_CURVES} classes with the lowest F1"), ("all", "all of them")]
    names += [(str(i), label.rpartition(" ")[0]) for i, (label, _) in enumerate(entries)]
    options = "".join(f'<option value="{value}">{safe(name)}</option>' for value, name in names)
    select = f'<select data-first="{MOST_CURVES}">{options}</select>'
    return f'<label class="choice" hidden>curves of {select}</label>'


def card(
    title: str, chart: Chart, entries: list[tuple[str, str]], note: str, wide: bool = False, choice: str = ""
) -> str:
    """A chart with its title, key and note; with a `choice` the first entries of the key are shown."""
    style, marks = "wide" if wide else "", key(entries, MOST_CURVES if choice else None)
    return section(title, choice, marks, chart.svg(), note=note.strip(), style=style)


def threshold_section(results: Results) -> str:
    """Histogram of the scores of both classes, and the controls to try out a threshold."""
    if results.task != "binary":
        return ""
    score, positive, name, (low, high), start = _scores_of(results)
    edges = np.linspace(low, high, BINS + 1)
    shares = [np.histogram(np.clip(score[part], low, high), edges)[0] for part in (~positive, positive)]
    top = max(1, *(int(counts.max()) for counts in shares))
    # Most probabilities are near 0 or 1: a linear axis would hide the others.
    axis = Axis((0, 1.08 * top), "documents")
    if results.probability is not None and top > 10:
        axis = Axis((0.6, 1.3 * top), "documents (logarithmic)", ticks=log_ticks(1, top), log=True)
    title = f"Histogram of the {name} by true class"
    chart = Chart(title, Axis((low, high), name), axis, width=WIDE, height=280)
    for counts, style in zip(shares, ("c1", "c2"), strict=True):
        chart.bars(edges, counts, style)
    floor = chart.height - BOTTOM - TOP
    chart.parts.append(f'<rect id="score-band" class="band" x="0" y="{TOP}" width="0" height="{floor}"/>')
    chart.parts.append('<path id="cost-line" class="line c3" d=""/>')
    chart.marker("score-line", start)
    step = (high - low) / 400
    tp, fp = int((score[positive] > start).sum()), int((score[~positive] > start).sum())
    n_positive = int(positive.sum())
    now = {
        "precision": ("precision", _percent_of(tp, tp + fp)),
        "recall": ("recall", _percent_of(tp, n_positive)),
        "f1": ("F1", _percent_of(2 * tp, tp + fp + n_positive)),
        "unsure": ("unsure", "0.00 %"),
        "found": ("found", f"{tp:,}"),
        "missed": ("missed", f"{n_positive - tp:,}"),
        "alarms": ("false alarms", f"{fp:,}"),
        "cost": ("cost a document", "–"),
    }
    tiles = "".join(f'<div><dt>{dt}</dt><dd id="now-{x}">{dd}</dd></div>' for x, (dt, dd) in now.items())
    target = safe(results.labels[1])
    costs = "".join(
        f'<label>{label} costs <input type="number" id="cost-{field}" min="0" step="any"></label>'
        for field, label in (("missed", f"a missed {target}"), ("alarm", "a false alarm"))
    )
    controls = (
        f"{_slider('threshold', 'threshold', low, high, start, f'{start:.{_digits(step)}f}')}"
        f"{_slider('band', 'unsure within', 0, (high - low) / 4, 0, '0')}"
        f'<p class="costs">{costs}<output id="least" for="cost-missed cost-alarm"></output></p>'
    )
    return section(
        "Where to draw the line",
        key(zip(results.labels, ("c1", "c2"), strict=True)),
        chart.svg(),
        f'<div class="controls" id="controls" hidden>{controls}</div>',
        f'<dl class="tiles readout" aria-live="polite">{tiles}</dl>',
        note=f"A document is called {target} if its {safe(name)} is above the threshold; unsure documents "
        "count as not found. With both costs, the threshold moves to the least cost on these documents, with "
        "their share of each class; the green line is the cost at each threshold, from 0 to the largest. "
        "Other documents will cost a little more.",
        style="wide",
    )


def slider_place() -> dict[str, str]:
    """Left end and width of the axis of a wide chart in per cent, for the sliders below it."""
    return {"left": f"{100 * LEFT / WIDE:.3f}", "span": f"{100 * (WIDE - LEFT - RIGHT) / WIDE:.3f}"}


def _slider(name: str, label: str, low: float, high: float, start: float, text: str) -> str:
    return (
        f'<p><label for="{name}">{label}</label><output id="{name}-value" for="{name}">{text}</output></p>'
        f'<input type="range" id="{name}" min="{low:.6g}" max="{high:.6g}" step="any" value="{start:g}">'
    )


def threshold_data(results: Results) -> Json | None:
    """Ascending scores of both classes, and the geometry of the charts, for the page's script."""
    if results.task != "binary":
        return None
    score, positive, _, (low, high), start = _scores_of(results)
    sides = {"positive": score[positive], "negative": score[~positive]}
    geometry = {"left": LEFT, "right": RIGHT, "top": TOP, "bottom": BOTTOM}
    geometry["digits"] = _digits((high - low) / 400)
    most = min(results.n, MOST_SCORES)
    return geometry | {name: _embedded(values, start, results.n / most) for name, values in sides.items()}


def _embedded(score: Floats, start: float, joined: float) -> Json:
    """Scores with four digits, on their side of the threshold; with counts if `joined` scores are joined."""
    score, counts = np.sort(score), None
    if joined > 1:
        starts = np.arange(0, len(score), int(np.ceil(joined)))
        cuts = np.unique(np.append(starts, np.searchsorted(score, start, "right")))
        cuts = cuts[cuts < len(score)]
        counts = np.diff(np.append(cuts, len(score))).tolist()
        score = score[np.append(cuts[1:], len(score)) - 1]  # the highest of each lot
    rounded = np.array([float(f"{value:.4g}") for value in score])
    crossed = (rounded > start) != (score > start)
    rounded[crossed] = score[crossed]
    side: Json = {"scores": np.maximum.accumulate(rounded).tolist() if len(rounded) else []}
    return side if counts is None else {**side, "counts": counts}


def _scores_of(results: Results) -> tuple[Floats, Bools, str, tuple[float, float], float]:
    """Score, truth, name of the score, bounds of its axis, and the threshold of the predictions."""
    positive = results.truth == results.labels[1]
    if results.probability is not None:
        return results.probability, positive, f"probability of {results.labels[1]}", (0.0, 1.0), 0.5
    low, high = np.percentile(results.decision, [0.1, 99.9])
    low, high = min(float(low), -1.2), max(float(high), 1.2)
    return results.decision, positive, "decision value", (low, high), 0.0


def _percent_of(part: int, whole: int) -> str:
    return f"{100 * part / whole:.2f} %" if whole else "–"


def _digits(step: float) -> int:
    return max(0, min(6, -int(np.floor(np.log10(step)))))
