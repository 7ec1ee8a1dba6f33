"""Optional sections of a report: models side by side, slices, the learning curve, the worst mistakes.

Each has an HTML form (`..._section`); for Markdown and the terminal `..._table` returns a head and rows
without markup, and `..._note` a paragraph of explanation.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from textsvm.arrays import Floats
from textsvm.errors import plural
from textsvm.evaluation.comparison import Difference, SideBySide
from textsvm.evaluation.explanation import Explanation
from textsvm.evaluation.slices import Slices
from textsvm.model.top_features import TopFeatures
from textsvm.reporting.charts import (
    WIDE,
    Axis,
    Chart,
    IntervalLine,
    bars_chart,
    intervals_chart,
    log_ticks,
    percent,
    plain,
)
from textsvm.reporting.curves import card, curve_of, leads
from textsvm.reporting.formatting import (
    NAMES,
    SHARES,
    cut,
    format_interval,
    format_metric,
    html_table,
    key,
    label_text,
    runs,
    safe,
    section,
    sides,
    visible,
)
from textsvm.reporting.report import MOST_CLASSES, Mistake, Report
from textsvm.selection.cross_validation import LearningCurve

#: Metrics in the table of models, as far as they are defined.
SHOWN_METRICS = (
    "accuracy", "f1", "macro_f1", "micro_f1", "subset_accuracy", "roc_auc", "mae", "r2", "qwk", "log_loss",
)  # fmt: skip
DRAWN_SLICES = 15  #: Slices in the chart
LISTED_SLICES = 100  #: Slices in the table
SLICE_STYLES = {"worse": "c2", "better": "c3", "": "c7"}  #: By the relation to all documents
SHOWN_FEATURE = 40  #: Symbols shown of a feature
SHOWN_SYMBOLS = 2000  #: Symbols shown of a document
SHOWN_SIMILAR = 300  #: Symbols shown of a similar document
PASSAGE = 300  #: Symbols of a passage
SHOWN_PASSAGES = 10  #: Number of passages that are listed
_SENTENCE_END = re.compile(r"[.!?…。！？]+[\"'»”)]*\s+|\n+")
_VERDICTS = {
    "yes": "More texts would probably help",
    "hardly": "More texts would hardly help",
    "unclear": "Whether more texts would help cannot be told from these",
}


def models_section(models: SideBySide | None) -> str:
    """Metrics, differences and disagreements of several models, and their curves in a common chart."""
    if models is None:
        return ""
    metric = _metric(models)
    lines = [
        IntervalLine(name, results.metrics[metric], results.intervals[metric], f"c{i + 1}")
        for i, (name, results) in enumerate(zip(models.names, models.results, strict=True))
    ]
    title = f"{NAMES[metric]} of each model, with 95 % intervals"
    head, rows = models_table(models)
    chart = intervals_chart(title, metric, NAMES[metric], lines, lines[0].value)
    table = html_table(head, [[safe(name), *cells] for name, *cells in rows], "figures")
    first = section("Models side by side", chart, table, note=safe(models_note(models)), style="wide")
    # Curves of all models in a common chart, of each kind that fits the task.
    drawn = {
        "binary": lambda: [_curves(models, "roc"), _curves(models, "pr")],
        "multilabel": lambda: [_curves(models, "pr", wide=True)],
        "regression": lambda: [_errors(models)],
        "multiclass": lambda: [_coverage(models)],
    }[models.results[0].task]()
    charts = [chart for chart in drawn if chart]
    grid = f'<div class="grid">{"".join(charts)}</div>' if len(charts) > 1 else "".join(charts)
    return first + grid + _disagreements(models)


def models_table(models: SideBySide) -> tuple[list[str], list[list[str]]]:
    """Metrics of each model and its difference from the first."""
    metric = _metric(models)
    names = [name for name in SHOWN_METRICS if all(name in model.metrics for model in models.results)]
    head = ["", *(x for name in names for x in ([NAMES[name], "95 % interval"][: 1 + (name == metric)]))]
    rows = []
    for name, results, difference in zip(models.names, models.results, models.differences, strict=True):
        row = [name]
        for metric_name in names:
            row.append(format_metric(metric_name, results.metrics[metric_name]))
            if metric_name == metric:
                row.append(format_interval(metric_name, results.intervals.get(metric_name)))
        rows.append([*row, *_difference(difference)])
    return [*head, "difference", "p"], rows


def models_note(models: SideBySide) -> str:
    """Meaning of the differences, and on how many documents the models agree."""
    n, metric = models.results[0].n, _metric(models)
    numbers = metric == "mae"
    alone = "nearest" if numbers else "alone right"
    only = ", ".join(
        f"{name} {count:,}" for name, count in zip(models.names, models.n_only_correct, strict=True)
    )
    kind, test = ("bootstrap ", "") if numbers else ("", "; p: exact McNemar test")
    wrong = "" if numbers else f", and are all wrong on {models.all_wrong:,}"
    return (
        f"On the same {n:,} documents. Difference: {NAMES[metric]}, less that of "
        f"{models.names[0]}, with its 95 % {kind}interval over documents{test}. The models agree on "
        f"{models.n_same:,} documents{wrong}. Documents on which a model is {alone}: {only}."
    )


def _metric(models: SideBySide) -> str:
    return next(difference.metric for difference in models.differences if difference is not None)


def _difference(difference: Difference | None) -> tuple[str, str]:
    if difference is None:
        return "", ""
    scale = 100 if difference.metric in SHARES else 1
    value, low, high = (f"{scale * x:+.3g}" for x in (difference.value, *difference.interval))
    return f"{value} ({low} to {high})", "" if np.isnan(difference.p_value) else f"{difference.p_value:.2g}"


def _curves(models: SideBySide, kind: str, wide: bool = False) -> str:
    roc = kind == "roc"
    title = "ROC curves of all models" if roc else "Precision and recall of all models"
    labels = ("false positive rate", "true positive rate") if roc else ("recall", "precision")
    x, y = (Axis((0, 1), label, percent) for label in labels)
    curves, names = [], []
    for name, results in zip(models.names, models.results, strict=True):
        if results.task == "binary":
            truth, score = results.truth == results.labels[1], results.decision
        else:  # all decisions together
            thresholds = np.array([row["threshold"] for row in results.per_class])
            truth, score = results.truth.ravel(), (results.decision - thresholds).ravel()
        finite = np.isfinite(score) & ~np.isnan(truth)
        truth, score = truth[finite] == 1, score[finite]
        if not 0 < truth.sum() < len(truth):
            return ""
        *curve, area = curve_of(kind, truth, score)
        curves.append(curve)
        names.append(f"{name} {area:.4f}")
    return _common_chart(title, x, y, curves, names, "Figures: areas under the curves.", wide)


def _coverage(models: SideBySide) -> str:
    """Accuracy among the documents with the largest leads."""
    shares, curves = np.linspace(0.02, 1, 50), []
    for results in models.results:
        order = np.argsort(-leads(results), kind="stable")
        right = np.cumsum((results.truth == results.predicted)[order]) / np.arange(1, results.n + 1)
        curves.append((shares, right[np.maximum(np.ceil(shares * results.n).astype(int) - 1, 0)]))
    low = max(0.0, min(float(curve.min()) for _, curve in curves) - 0.02)
    x = Axis((0, 1), "share of documents, the clearest first", percent)
    note = "How many are right, if a model may leave out the documents on which its lead is least."
    title = "The clearest decisions of all models"
    return _common_chart(title, x, Axis((low, 1), "share right", percent), curves, models.names, note)


def _errors(models: SideBySide) -> str:
    errors = [np.sort(np.abs(results.predicted - results.truth)) for results in models.results]
    most = max(float(np.percentile(model_errors, 99)) for model_errors in errors) or 1.0
    bounds = np.linspace(0, most, 120)
    curves = [(bounds, np.searchsorted(own, bounds, "right") / len(own)) for own in errors]
    x, y = Axis((0, most), "error of at most", plain), Axis((0, 1), "share of documents", percent)
    return _common_chart("Errors of all models", x, y, curves, models.names, "")


def _common_chart(
    title: str, x: Axis, y: Axis, curves: Sequence, names: Sequence[str], note: str, wide: bool = True
) -> str:
    """A curve of each model, with its name in the key."""
    chart = Chart(title, x, y, **({"width": WIDE, "height": 280} if wide else {}))
    for i, (xs, ys) in enumerate(curves, 1):
        chart.line(xs, ys, f"c{i}")
    return card(title, chart, [(name, f"c{i}") for i, name in enumerate(names, 1)], note, wide)


def _disagreements(models: SideBySide) -> str:
    if not models.disagreements:
        return ""
    head = "".join(f"<th>{safe(name)}</th>" for name in ("", "truth", *models.names))
    rows = ""
    for row in models.disagreements:
        predictions = "".join(
            f'<td class="{"good" if right else "bad"}">{safe(label_text(label))}</td>'
            for label, right in zip(row.predicted, row.correct, strict=True)
        )
        rows += f"<tr><th>{safe(row.id)}</th><td>{safe(label_text(row.truth))}</td>{predictions}</tr>"
        width = len(models.names) + 2
        if row.text:
            rows += f'<tr class="text"><td colspan="{width}" dir="auto">{safe(row.text)}</td></tr>'
    table = f'<table class="figures apart"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
    return section("Where the models disagree", f'<div class="scroll">{table}</div>')


def features_section(features: Sequence[TopFeatures]) -> str:
    """Bar charts of the features with the largest weights for each class."""
    charts = []
    for top in features:
        texts = [visible(cut(feature.text, SHOWN_FEATURE)) for feature in top.features]
        chart = bars_chart(f"{top.kind} for {top.label}", texts, [feature.weight for feature in top.features])
        charts.append(section(f"{safe(top.label)}: {safe(top.kind)}", chart))
    if not charts:
        return ""
    intro = section("Features with the largest weights", note=features_note(features))
    return f'{intro}<div class="grid">{"".join(charts)}</div>'


def features_note(features: Sequence[TopFeatures]) -> str:
    kinds = {top.kind for top in features}
    merged = " Overlapping substrings are merged." if "substrings" in kinds else ""
    spaces = " ␣ is a space." if kinds != {"words"} else " A space joins words, even where texts have none."
    summed = " Weights of patterns are sums over the support vectors." if "patterns" in kinds else ""
    return (
        f"They add most to the decision value of a class.{merged}{spaces}{summed} Of more than "
        f"{MOST_CLASSES} classes, those with the lowest F1 are shown."
    )


def features_table(features: TopFeatures) -> tuple[list[str], list[list[str]]]:
    rows = [[visible(cut(item.text, SHOWN_FEATURE)), f"{item.weight:.4g}"] for item in features.features]
    return [f"{features.kind} for {features.label}", "weight"], rows


def slices_section(slices: Slices | None) -> str:
    """Metrics of each value of a column, the worst first."""
    if slices is None:
        return ""
    metric, lines = slices.metric, []
    for part in slices.slices[:DRAWN_SLICES]:
        name, style = f"{part.value} ({part.n:,})", SLICE_STYLES[part.apart]
        lines.append(IntervalLine(name, part.metrics[metric], part.intervals[metric], style))
    title = f"{NAMES[metric]} by {slices.column}"
    chart = intervals_chart(title, metric, NAMES[metric], lines, slices.overall)
    head, rows = slices_table(slices)
    table = html_table(map(safe, head), [[*map(safe, row)] for row in rows], "figures")
    styles = key([("worse than all documents", "c2"), ("better", "c3"), ("no clear difference", "c7")])
    return section(f"By {safe(slices.column)}", styles, chart, table, note=slices_note(slices), style="wide")


def slices_table(slices: Slices, most: int = LISTED_SLICES) -> tuple[list[str], list[list[str]]]:
    """Metrics of the worst slices, with the interval of the first; their class and commonest wrong class."""
    names, labelled = tuple(slices.slices[0].metrics), bool(slices.slices[0].classes)
    rows = []
    for part in slices.slices[:most]:
        first, *others = (format_metric(name, part.metrics[name]) for name in names)
        interval = format_interval(names[0], part.intervals[names[0]])
        rows.append([part.value, f"{part.n:,}", first, interval, *others])
        if labelled:
            classes, mistakes = list(part.classes), part.mistakes.items()
            rows[-1].append(classes[0] if len(classes) == 1 else plural(len(classes), "class"))
            rows[-1].append(next((f"{label} {n:,}" for label, n in mistakes), ""))
    head, *others = (NAMES[name] for name in names)
    more = ["class", "most often mistaken for"] if labelled else []
    return [slices.column, "documents", head, "95 % interval", *others, *more], rows


def slices_note(slices: Slices, most: int = LISTED_SLICES) -> str:
    omitted = slices.n_values - most
    more = f" {omitted:,} more values are left out." if omitted > 0 else ""
    return (
        "The worst first, by the better end of the interval, so that few documents do not come first for a "
        f"few mistakes. All documents: {format_metric(slices.metric, slices.overall)}.{more}"
        " By chance, the intervals of one value in twenty exclude the figure of all documents."
    )


def learning_section(curve: LearningCurve | None) -> str:
    """The learning curve, and whether more texts would help."""
    if curve is None:
        return ""
    sd, twice = np.nan_to_num(curve.sd), 2 * float(curve.n[-1])
    bounds = 0.85 * float(curve.n[0]), 1.15 * twice
    top = 1.08 * max(float((curve.error + sd).max()), curve.interval[1], 1e-3)
    x = Axis(bounds, "training texts", ticks=log_ticks(*bounds), log=True)
    y = Axis((0, top), _error_name(curve), plain if curve.metric == "mae" else percent)
    chart = Chart("Learning curve", x, y, width=WIDE, height=300)
    grid = np.geomspace(curve.n[0], twice, 60)
    chart.line(grid, np.minimum(curve.law(grid), top), "c7")
    chart.whiskers(curve.n, np.maximum(curve.error - sd, 0), curve.error + sd, "c1")
    chart.dots(curve.n, curve.error, "c1", 4.5)
    chart.whiskers([twice], [max(0.0, curve.interval[0])], [curve.interval[1]], "c2")
    chart.dots([twice], [curve.expected], "c2", 4.5)
    styles = [
        ("measured, with the standard deviation over folds", "c1"),
        ("power law", "c7"),
        ("expected of twice as many texts, with 95 % interval", "c2"),
    ]
    body = (f"<p>{learning_sentence(curve)}</p>", key(styles), chart.svg())
    return section("Would more texts help?", *body, note=learning_note(curve), style="wide")


def learning_sentence(curve: LearningCurve) -> str:
    """The answer, with its uncertainty."""
    is_error = curve.metric == "mae"
    value, low, high = (f"{x:.3g}" if is_error else f"{100 * x:.2f} points" for x in curve.gain)
    return (
        f"{_VERDICTS[curve.would_help]}: by a power law through these errors twice as many "
        f"({2 * round(curve.n[-1]):,}) would take the {_error_name(curve)} down by {value} (95 % interval "
        f"over folds: {low.removesuffix(' points')} to {high}), from "
        f"{_error_text(curve, float(curve.error[-1]))} now."
    )


def learning_note(curve: LearningCurve) -> str:
    a, b, c = curve.power_law
    return (
        f"Power law {a:.4g} + {b:.4g} n^-{c:.3g} of n training texts, by least squares; its interval is over "
        "resampled folds, and holds if the law does and new texts are like these."
    )


def learning_table(curve: LearningCurve) -> tuple[list[str], list[list[str]]]:
    rows = [
        [f"{round(n):,}", _error_text(curve, error), "-" if np.isnan(sd) else _error_text(curve, sd)]
        for n, error, sd in zip(*(own.tolist() for own in (curve.n, curve.error, curve.sd)), strict=True)
    ]
    return ["training texts", _error_name(curve), "SD over folds"], rows


def _error_name(curve: LearningCurve) -> str:
    return {"accuracy": "share wrong", "micro_f1": "1 less micro F1"}.get(curve.metric) or NAMES[curve.metric]


def _error_text(curve: LearningCurve, value: float) -> str:
    return f"{value:.4g}" if curve.metric == "mae" else f"{100 * value:.2f} %"


def mistakes_section(report: Report) -> str:
    """The worst mistakes: texts coloured by contributions, substrings, and similar training documents."""
    results = report.results
    wrong = int(results.wrong.sum())
    if not report.mistakes:
        count = f"{wrong:,} of {results.n:,} documents; texts are left out of this report."
        return section("Mistakes", f"<p>{count if wrong else 'None.'}</p>")
    regression = results.task == "regression"
    title = "The largest errors" if regression else f"The worst of {wrong:,} mistakes"
    explained = [mistake.explanation for mistake in report.mistakes if mistake.explanation is not None]
    styles = ""
    if explained:
        method = f" The colours are {explained[0].method.description}."
        if len(explained) < len(report.mistakes):
            method += " Where a text has no colours, they would have taken too long."
        towards, against = {
            "multiclass": ("the prediction", "other classes"),
            "multilabel": ("the label of the largest value", "the others"),
            "regression": ("a higher number", "a lower one"),
        }.get(results.task) or (results.labels[1], results.labels[0])
        styles = key([(f"speaks for {towards}", "c2"), (f"speaks for {against}", "c1")])
        note = (
            "Texts are shown as the model reads them: normalised, and the first "
            f"{SHOWN_SYMBOLS:,} symbols.{method}"
        )
    else:
        why = "they would have taken too long, or no model with its texts is there to explain them"
        note = f"The first {SHOWN_SYMBOLS:,} symbols of each, without colours: {why}."
    intro = section(title, styles, note=note)
    return intro + "".join(_mistake(mistake, regression) for mistake in report.mistakes)


def _mistake(mistake: Mistake, regression: bool) -> str:
    verdict = f"is {mistake.truth}, predicted {mistake.predicted} ({mistake.value:+.3f})"
    if regression:
        verdict = f"is {mistake.truth:.4g}, predicted {mistake.predicted:.4g} ({mistake.value:+.4g})"
    head = f'<article><h3>{safe(mistake.id)}</h3><p class="note">{safe(verdict)}</p>'
    explanation = mistake.explanation
    if explanation is None:
        text = safe(cut(mistake.text, SHOWN_SYMBOLS))
        return f'{head}<div class="document" dir="auto">{text}</div></article>'
    beginning, symbols = explanation.text[:SHOWN_SYMBOLS], explanation.symbols[:SHOWN_SYMBOLS]
    more = len(explanation.text) - len(beginning)
    rest = f'<p class="note">… {more:,} more symbols</p>' if more else ""
    body = f'<div class="document" dir="auto">{_coloured(beginning, symbols)}</div>{rest}'
    parts = f'<p class="note">{safe(explanation.shares)}</p>' if explanation.parts else ""
    return f"{head}{body}{parts}{_evidence(explanation)}</article>"


def explanation_section(name: str, explanation: Explanation) -> str:
    """A document: its passages by their contribution, the whole text in colours, and similar texts."""
    towards, against = sides(explanation)
    verdict = f"{label_text(explanation.prediction)}, {explanation.verdict}"
    styles = key([(f"speaks for {towards}", "c2"), (f"speaks for {against}", "c1")])
    head = f'<article><h3>{safe(name)}</h3><p class="note">{safe(verdict)}</p>{styles}'
    shares = f'<p class="note">{safe(explanation.shares)}</p>' if explanation.parts else ""
    ranked = sorted(passages(explanation), key=lambda passage: -abs(passage[0]))[:SHOWN_PASSAGES]
    items = "".join(f"<li>{_signed(value)} {safe(cut(text, SHOWN_SIMILAR))}</li>" for value, text in ranked)
    text = f'<div class="document" dir="auto">{_coloured(explanation.text, explanation.symbols)}</div>'
    method = f'<p class="note">The text as the model reads it; {safe(explanation.method.description)}.</p>'
    listed = _details("passages", "similar", items, " open") if len(ranked) > 1 else ""
    return f"{head}{shares}{listed}{_evidence(explanation)}{method}{text}</article>"


def passages(explanation: Explanation) -> list[tuple[float, str]]:
    """Contribution and text of passages of about `PASSAGE` symbols, which end with a sentence or line."""
    text, symbols, result, first = explanation.text, explanation.symbols, [], 0
    while first < len(text):
        end = _SENTENCE_END.search(text, first + PASSAGE // 2, first + PASSAGE)
        last = end.end() if end else text.find(" ", first + PASSAGE) + 1 or len(text)
        last = min(last, first + 2 * PASSAGE)
        result.append((float(symbols[first:last].sum()), text[first:last].strip()))
        first = last
    return result


def _coloured(text: str, symbols: Floats) -> str:
    return "".join(
        f'<span class="{"f" if step > 0 else "a"}{abs(step)}">{safe(piece)}</span>' if step else safe(piece)
        for piece, step in runs(text, symbols)
    )


def _evidence(explanation: Explanation) -> str:
    substrings = "".join(
        f"<li><code>{safe(visible(part.text))}</code>{f' × {part.count}' if part.count > 1 else ''} "
        f"{_signed(part.contribution)}</li>"
        for part in explanation.merged
    )
    similar = "".join(
        f"<li>{_signed(text.contribution)} training document {safe(text.name)}, "
        f"similarity {text.kernel:.3f}: {safe(cut(text.text, SHOWN_SIMILAR))}</li>"
        for text in explanation.similar
    )
    first = _details(explanation.kind, "substrings", substrings, " open")
    return first + _details("training documents", "similar", similar)


def _details(subject: str, style: str, items: str, state: str = "") -> str:
    if not items:
        return ""
    summary = f"<summary>{subject} that count most</summary>"
    return f'<details{state}>{summary}<ul class="{style}">{items}</ul></details>'


def _signed(value: float) -> str:
    return f'<b class="{"for" if value > 0 else "against"}">{value:+.3f}</b>'.replace("-", "−")
