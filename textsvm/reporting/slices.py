"""Slices of a report: the figures of each value of a column, the worst first."""

from __future__ import annotations

from textsvm.evaluation.slices import METRICS, Slice, Slices
from textsvm.reporting.escape import safe
from textsvm.reporting.format_metrics import NAMES, format_interval, format_metric
from textsvm.reporting.intervals import Line, picture, with_value

#: Values that are drawn, and those in the table.
DRAWN, LISTED = 15, 100
STYLES = {"worse": "c2", "better": "c3", "": "c7"}


def section(slices: Slices | None) -> str:
    """The slices as HTML."""
    if slices is None:
        return ""
    metric, column = slices.metric, safe(slices.column)
    lines = [
        Line(f"{each.value} ({each.n:,})", each.metrics[metric], each.intervals[metric], STYLES[each.apart])
        for each in slices.slices[:DRAWN]
    ]
    drawn = picture(
        f"{NAMES[metric]} by {slices.column}",
        metric,
        NAMES[metric],
        lines,
        slices.overall,
        with_value(metric),
    )
    names = _names(slices)
    head = "".join(f"<th>{NAMES[name]}</th>" for name in names)
    rows = "".join(
        f"<tr><th>{safe(each.value)}</th><td>{each.n:,}</td>"
        + "".join(f"<td>{value}<br><small>{bounds}</small></td>" for value, bounds in _cells(each, names))
        + "</tr>"
        for each in slices.slices[:LISTED]
    )
    return (
        f'<section class="wide"><h2>By {column}</h2><ul class="key"><li class="c2">worse than all documents'
        '</li><li class="c3">better</li><li class="c7">no difference that is sure</li></ul>'
        f'{drawn}<div class="scroll"><table class="figures"><thead><tr><th>{column}</th><th>documents</th>'
        f'{head}</tr></thead><tbody>{rows}</tbody></table></div><p class="note">Below each figure '
        f"its 95 % interval. {explanation(slices)}</p></section>"
    )


def cells(slices: Slices) -> tuple[list[str], list[list[str]]]:
    """Head and rows of a short table without markup; the values are as they are in the data."""
    names = _names(slices)
    head = [
        slices.column,
        "documents",
        NAMES[names[0]],
        "95 % interval",
        *(NAMES[name] for name in names[1:]),
    ]
    rows = []
    for each in slices.slices[:LISTED]:
        (value, bounds), *others = _cells(each, names)
        rows.append([each.value, f"{each.n:,}", value, bounds, *(other for other, _ in others)])
    return head, rows


def explanation(slices: Slices) -> str:
    """What the order is, in a sentence or two."""
    left = len(slices.slices) - LISTED
    shown = f" {left:,} more values are left out." if left > 0 else ""
    return (
        "The worst first, as far as is sure: by the better end of the interval, so few documents do not come "
        f"first for a few mistakes. All documents: {format_metric(slices.metric, slices.overall)}.{shown}"
        " Of many values one in twenty leaves out the figure of all by chance."
    )


def _names(slices: Slices) -> tuple[str, ...]:
    return next(names for names in METRICS.values() if slices.slices[0].metrics.keys() == set(names))


def _cells(found: Slice, names: tuple[str, ...]) -> list[tuple[str, str]]:
    return [
        (format_metric(name, found.metrics[name]), format_interval(name, found.intervals[name]))
        for name in names
    ]
