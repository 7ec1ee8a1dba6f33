"""Several models side by side in a report: figures, differences, curves in one chart, disagreements."""

from __future__ import annotations

import numpy as np

from textsvm.evaluation.metrics import average_precisions, precision_recall_curve, roc_area, roc_curve
from textsvm.evaluation.results import Results
from textsvm.evaluation.side_by_side import Difference, Disagreement, SideBySide
from textsvm.reporting import curves
from textsvm.reporting.charts import Axis, Chart, percent, plain
from textsvm.reporting.escape import safe
from textsvm.reporting.format_metrics import NAMES, SHARES, format_interval, format_metric
from textsvm.reporting.intervals import Line, picture, with_value

#: Figures of a table, as far as there are such.
SHOWN = (
    "accuracy",
    "f1",
    "macro_f1",
    "micro_f1",
    "subset_accuracy",
    "roc_auc",
    "mae",
    "r2",
    "qwk",
    "log_loss",
)


def section(beside: SideBySide | None) -> str:
    """The models as HTML."""
    if beside is None:
        return ""
    head, rows = cells(beside)
    names = [safe(name) for name in beside.names]
    body = "".join(
        f"<tr><th>{name}</th>{''.join(f'<td>{cell}</td>' for cell in row[1:])}</tr>"
        for name, row in zip(names, rows, strict=True)
    )
    table = (
        f'<section class="wide"><h2>Models side by side</h2>{_picture(beside)}<div class="scroll">'
        '<table class="figures">'
        f"<thead><tr>{''.join(f'<th>{title}</th>' for title in head)}</tr></thead><tbody>{body}</tbody>"
        f'</table></div><p class="note">{safe(explanation(beside))}</p></section>'
    )
    charts = [chart for chart in _charts(beside) if chart]
    drawn = f'<div class="grid">{"".join(charts)}</div>' if len(charts) > 1 else "".join(charts)
    return table + drawn + _disagreements(beside)


def cells(beside: SideBySide) -> tuple[list[str], list[list[str]]]:
    """Head and rows of a table without markup."""
    metric = _metric(beside)
    names = [name for name in SHOWN if all(name in each.metrics for each in beside.results)]
    head = ["", *(x for name in names for x in ([NAMES[name], "95 % interval"][: 1 + (name == metric)]))]
    rows = []
    for name, results, difference in zip(beside.names, beside.results, beside.differences, strict=True):
        row = [name]
        for each in names:
            row.append(format_metric(each, results.metrics[each]))
            if each == metric:
                row.append(format_interval(each, results.intervals.get(each)))
        rows.append([*row, *_difference(difference)])
    return [*head, "difference", "p"], rows


def explanation(beside: SideBySide) -> str:
    """What the differences are, and on how many documents the models agree; names as they are."""
    n, numbers = beside.results[0].n, _metric(beside) == "mae"
    alone = "nearest" if numbers else "alone right"
    only = ", ".join(f"{name} {count:,}" for name, count in zip(beside.names, beside.only, strict=True))
    test = "" if numbers else "; p: exact McNemar test"
    wrong = "" if numbers else f", and are all wrong on {beside.all_wrong:,}"
    return (
        f"On the same {n:,} documents. Difference: {NAMES[_metric(beside)]}, less that of "
        f"{beside.names[0]}, with its 95 % bootstrap interval over documents{test}. The models agree on "
        f"{beside.alike:,} documents{wrong}. Documents on which one is {alone}: {only}."
    )


def _metric(beside: SideBySide) -> str:
    return next(each.metric for each in beside.differences if each is not None)


def _difference(difference: Difference | None) -> tuple[str, str]:
    if difference is None:
        return "", ""
    scale = 100 if difference.metric in SHARES else 1
    value, low, high = (f"{scale * x:+.3g}" for x in (difference.value, *difference.interval))
    p_value = "" if np.isnan(difference.p_value) else f"{difference.p_value:.2g}"
    return f"{value} ({low} to {high})", p_value


def _picture(beside: SideBySide) -> str:
    metric = _metric(beside)
    lines = [
        Line(name, results.metrics[metric], results.intervals[metric], f"c{i + 1}")
        for i, (name, results) in enumerate(zip(beside.names, beside.results, strict=True))
    ]
    title = f"{NAMES[metric]} of each model, with 95 % intervals"
    return picture(title, metric, NAMES[metric], lines, lines[0].value, with_value(metric))


def _charts(beside: SideBySide) -> list[str]:
    """Curves of all models in one chart, of each kind that fits the task."""
    task = beside.results[0].task
    if task == "binary":
        return [_curves(beside, "ROC curves of all models", *_ROC), _curves(beside, *_PRECISION_RECALL)]
    if task == "multilabel":
        return [_curves(beside, *_PRECISION_RECALL, wide=True)]
    return [_errors(beside)] if task == "regression" else [_coverage(beside)]


#: A chart that stands alone.
_WIDE = {"width": curves.WIDE, "height": 280}
_ROC = ("false positive rate", "true positive rate")
_PRECISION_RECALL = ("Precision and recall of all models", "recall", "precision")


def _curves(beside: SideBySide, title: str, x: str, y: str, wide: bool = False) -> str:
    chart = Chart(title, Axis((0, 1), x, percent), Axis((0, 1), y, percent), **(_WIDE if wide else {}))
    key = []
    for i, (name, results) in enumerate(zip(beside.names, beside.results, strict=True)):
        truth, score = _scores(results)
        there = np.isfinite(score)
        truth, score = truth[there], score[there]
        if not 0 < truth.sum() < len(truth):
            return ""
        if y == "precision":
            ys, xs = precision_recall_curve(truth, score)
            area = average_precisions(truth[:, None], score[:, None])[0]
        else:
            xs, ys = roc_curve(truth, score)
            area = roc_area(truth, score)
        chart.line(xs, ys, f"c{i + 1}")
        key.append((f"{name} {area:.4f}", f"c{i + 1}"))
    return curves.card(title, chart, key, "Figures: areas under the curves.", wide, first=len(key))


def _scores(results: Results) -> tuple[np.ndarray, np.ndarray]:
    """Of all decisions together, whether they should be positive, and how much they are."""
    if results.task == "binary":
        return results.truth == results.labels[1], results.decision
    bounds = np.array([each["threshold"] for each in results.per_class])
    return results.truth.ravel(), (results.decision - bounds).ravel()


def _coverage(beside: SideBySide) -> str:
    """How many are right among the documents that a model is most decided on."""
    leads = [curves.leads(results) for results in beside.results]
    shares = np.linspace(0.02, 1, 50)
    found = []
    for results, lead in zip(beside.results, leads, strict=True):
        order = np.argsort(-lead, kind="stable")
        right = np.cumsum((results.truth == results.predicted)[order]) / np.arange(1, results.n + 1)
        found.append(right[np.maximum(np.ceil(shares * results.n).astype(int) - 1, 0)])
    low = max(0.0, min(float(each.min()) for each in found) - 0.02)
    title = "The clearest decisions of all models"
    chart = Chart(
        title,
        Axis((0, 1), "share of documents, the clearest first", percent),
        Axis((low, 1), "share right", percent),
        **_WIDE,
    )
    for i, each in enumerate(found):
        chart.line(shares, each, f"c{i + 1}")
    key = [(name, f"c{i + 1}") for i, name in enumerate(beside.names)]
    note = "How many are right, if a model may leave out the documents on which its lead is least."
    return curves.card(title, chart, key, note, True, first=len(key))


def _errors(beside: SideBySide) -> str:
    """The share of documents with an error of at most so much."""
    errors = [np.sort(np.abs(each.predicted - each.truth)) for each in beside.results]
    most = max(float(np.percentile(each, 99)) for each in errors) or 1.0
    at = np.linspace(0, most, 120)
    title = "Errors of all models"
    chart = Chart(
        title,
        Axis((0, most), "error of at most", plain),
        Axis((0, 1), "share of documents", percent),
        **_WIDE,
    )
    for i, each in enumerate(errors):
        chart.line(at, np.searchsorted(each, at, "right") / len(each), f"c{i + 1}")
    key = [(name, f"c{i + 1}") for i, name in enumerate(beside.names)]
    return curves.card(title, chart, key, "", True, first=len(key))


def _disagreements(beside: SideBySide) -> str:
    if not beside.disagreements:
        return ""
    head = "".join(f"<th>{safe(name)}</th>" for name in ("", "truth", *beside.names))
    rows = "".join(_row(each, len(beside.names)) for each in beside.disagreements)
    return (
        '<section><h2>Where the models disagree</h2><div class="scroll"><table class="figures apart">'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div></section>"
    )


def _row(each: Disagreement, models: int) -> str:
    said = "".join(
        f'<td class="{"good" if right else "bad"}">{safe(shown(label))}</td>'
        for label, right in zip(each.predicted, each.right, strict=True)
    )
    text = (
        f'<tr class="text"><td colspan="{models + 2}" dir="auto">{safe(each.text)}</td></tr>'
        if each.text
        else ""
    )
    return f"<tr><th>{safe(each.id)}</th><td>{safe(shown(each.truth))}</td>{said}</tr>{text}"


def shown(label: object) -> str:
    """A label, or a number in four digits."""
    return f"{label:.4g}" if isinstance(label, float) else str(label)
