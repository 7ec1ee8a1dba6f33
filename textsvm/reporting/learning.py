"""The learning curve of a report, and in a sentence whether more texts would help."""

from __future__ import annotations

import numpy as np

from textsvm.reporting.charts import Axis, Chart, log_ticks, percent, plain
from textsvm.reporting.curves import WIDE
from textsvm.reporting.format_metrics import NAMES
from textsvm.selection.learning_curve import LearningCurve

_VERDICTS = {
    "yes": "More texts would probably help",
    "hardly": "More texts would hardly help",
    "unclear": "Whether more texts would help cannot be told from these",
}


def section(curve: LearningCurve | None) -> str:
    """The curve as HTML."""
    if curve is None:
        return ""
    format = plain if curve.metric == "mae" else percent
    bounds = 0.85 * float(curve.n[0]), 2.3 * float(curve.n[-1])
    sd = np.nan_to_num(curve.sd)
    top = 1.08 * max(float((curve.error + sd).max()), curve.interval[1], 1e-3)
    label = _label(curve)
    chart = Chart(
        "Learning curve",
        Axis(bounds, "training texts", ticks=log_ticks(*bounds), log=True),
        Axis((0, top), label, format),
        width=WIDE,
        height=300,
    )
    grid = np.geomspace(curve.n[0], 2 * curve.n[-1], 60)
    chart.line(grid, np.minimum(curve.law(grid), top), "c7")
    chart.whiskers(curve.n, np.maximum(curve.error - sd, 0), curve.error + sd, "c1")
    chart.dots(curve.n, curve.error, "c1", 4.5)
    twice = 2 * float(curve.n[-1])
    chart.whiskers([twice], [max(0.0, curve.interval[0])], [curve.interval[1]], "c2")
    chart.dots([twice], [curve.expected], "c2", 4.5)
    key = (
        '<ul class="key"><li class="c1">measured, with the standard deviation over folds</li>'
        '<li class="c7">power law</li><li class="c2">expected of twice as many texts, with 95 % interval</li>'
        "</ul>"
    )
    return (
        f'<section class="wide"><h2>Would more texts help?</h2><p>{sentence(curve)}</p>{key}{chart.svg()}'
        f'<p class="note">{explanation(curve)}</p></section>'
    )


def sentence(curve: LearningCurve) -> str:
    """The answer, with its uncertainty."""
    value, low, high = (_change(curve, gain) for gain in curve.gain)
    return (
        f"{_VERDICTS[curve.would_help]}: by a power law through these errors twice as many "
        f"({2 * round(curve.n[-1]):,}) would take the {_label(curve)} down by {value} (95 % interval over "
        f"folds: {low.removesuffix(' points')} to {high}), from {_shown(curve, float(curve.error[-1]))} now."
    )


def explanation(curve: LearningCurve) -> str:
    """What was fitted."""
    a, b, c = curve.power_law
    return (
        f"Power law {a:.4g} + {b:.4g} n^-{c:.3g} of n training texts, by least squares; its interval is over "
        "folds drawn anew, and holds if the law does and new texts are like these."
    )


def cells(curve: LearningCurve) -> tuple[list[str], list[list[str]]]:
    """Head and rows of a table."""
    rows = [
        [f"{round(n):,}", _shown(curve, error), "-" if np.isnan(sd) else _shown(curve, sd)]
        for n, error, sd in zip(*(each.tolist() for each in (curve.n, curve.error, curve.sd)), strict=True)
    ]
    return ["training texts", _label(curve), "SD over folds"], rows


def _label(curve: LearningCurve) -> str:
    lacking = {"accuracy": "share wrong", "micro_f1": "1 less micro F1"}
    return lacking.get(curve.metric) or NAMES[curve.metric]


def _shown(curve: LearningCurve, value: float) -> str:
    return f"{value:.4g}" if curve.metric == "mae" else f"{100 * value:.2f} %"


def _change(curve: LearningCurve, gain: float) -> str:
    return f"{gain:.3g}" if curve.metric == "mae" else f"{100 * gain:.2f} points"
