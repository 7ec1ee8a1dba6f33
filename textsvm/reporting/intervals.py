"""Figures with intervals, a line each, as a picture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from textsvm.reporting.charts import Axis, Chart, percent, plain
from textsvm.reporting.curves import WIDE
from textsvm.reporting.escape import printable
from textsvm.reporting.format_metrics import SHARES, format_metric

#: Pixels of a line of the picture.
LINE = 46


class Line(NamedTuple):
    """A figure with its interval, and its colour in the style sheet."""

    name: str
    value: float
    interval: tuple[float, float]
    style: str


def picture(
    title: str, metric: str, label: str, lines: Sequence[Line], reference: float, note: Callable[[Line], str]
) -> str:
    """The lines from top to bottom, a dashed line through a figure that they are compared with.

    Parameters
    ----------
    title : str
        For those who cannot see it.
    metric, label : str
        Which figures they are, and what the axis is called.
    lines : sequence of Line
    reference : float
    note : callable
        What is written above a line.
    """
    low = min(reference, *(each.interval[0] for each in lines))
    high = max(reference, *(each.interval[1] for each in lines))
    margin, share = 0.04 * (high - low), metric in SHARES
    bounds = max(0.0, low - margin), min(1.0, high + margin) if share else high + margin
    chart = Chart(
        title,
        Axis(bounds, label, percent if share else plain),
        Axis((-0.5, len(lines) - 0.35), "", ticks=()),
        width=WIDE,
        height=80 + LINE * len(lines),
    )
    chart.upright(reference)
    for place, each in enumerate(reversed(lines)):
        chart.intervals([each.interval[0]], [each.interval[1]], [place - 0.1], each.style)
        chart.dots([each.value], [place - 0.1], each.style, 5)
        chart.note(place + 0.18, printable(note(each)))
    return chart.svg()


def with_value(metric: str, more: str = "") -> Callable[[Line], str]:
    """Notes of a name and its figure."""
    return lambda line: f"{line.name[:60]}: {format_metric(metric, line.value)}{more}"
