"""The threshold control: a histogram of the scores, sliders, and data for the page's script."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.evaluation.results import Results
from textsvm.reporting.charts import BOTTOM, LEFT, RIGHT, TOP, Axis, Chart, log_ticks
from textsvm.reporting.curves import BINS, WIDE, key_of
from textsvm.reporting.escape import safe

Array = NDArray[np.float64]
#: Scores that are embedded one by one; more are joined.
MOST_SCORES = 20_000


def section(results: Results) -> str:
    """Histogram of the scores of both classes, and the controls that a threshold is tried out with."""
    if results.task != "binary":
        return ""
    score, positive, name, (low, high), start = _scores_of(results)
    edges = np.linspace(low, high, BINS + 1)
    shares = [np.histogram(np.clip(score[part], low, high), edges)[0] for part in (~positive, positive)]
    top = max(1, *(int(counts.max()) for counts in shares))
    # Most probabilities are near 0 or 1: on a linear axis nothing is seen of those between.
    log = results.probability is not None and top > 10
    axis = (
        Axis((0.6, 1.3 * top), "documents (logarithmic)", ticks=log_ticks(1, top), log=True)
        if log
        else Axis((0, 1.08 * top), "documents")
    )
    chart = Chart(
        f"Histogram of the {name} by true class", Axis((low, high), name), axis,
        width=WIDE, height=280,
    )  # fmt: skip
    for counts, style in zip(shares, ("c1", "c2"), strict=True):
        chart.bars(edges, counts, style)
    floor = chart.height - BOTTOM - TOP
    chart.parts.append(f'<rect id="score-band" class="band" x="0" y="{TOP}" width="0" height="{floor}"/>')
    chart.marker("score-line", start)
    step = (high - low) / 400
    tp, fp = int((score[positive] > start).sum()), int((score[~positive] > start).sum())
    n_positive = int(positive.sum())
    now = {
        "precision": ("precision", _share(tp, tp + fp)),
        "recall": ("recall", _share(tp, n_positive)),
        "f1": ("F1", _share(2 * tp, tp + fp + n_positive)),
        "unsure": ("unsure", "0.00 %"),
        "found": ("found", f"{tp:,}"),
        "missed": ("missed", f"{n_positive - tp:,}"),
        "alarms": ("false alarms", f"{fp:,}"),
    }
    tiles = "".join(f'<div><dt>{dt}</dt><dd id="now-{key}">{dd}</dd></div>' for key, (dt, dd) in now.items())
    digits = _digits(step)
    said, key = safe(results.labels[1]), key_of(results.labels, ("c1", "c2"))
    return (
        f'<section class="wide"><h2>Where to draw the line</h2>{key}{chart.svg()}'
        '<div class="controls" id="controls" hidden>'
        f"{_slider('threshold', 'threshold', low, high, start, f'{start:.{digits}f}')}"
        f"{_slider('band', 'unsure within', 0, (high - low) / 4, 0, '0')}</div>"
        f'<dl class="tiles readout" aria-live="polite">{tiles}</dl><p class="note">A document is called '
        f"{said} if its {safe(name)} is above the threshold. Unsure ones are not found.</p></section>"
    )


def slider_place() -> dict[str, str]:
    """Where the axis of a wide chart begins and how wide it is, in per cent: the sliders lie under it."""
    return {"left": f"{100 * LEFT / WIDE:.3f}", "span": f"{100 * (WIDE - LEFT - RIGHT) / WIDE:.3f}"}


def _slider(name: str, label: str, low: float, high: float, start: float, shown: str) -> str:
    return (
        f'<p><label for="{name}">{label}</label><output id="{name}-value" for="{name}">{shown}</output></p>'
        f'<input type="range" id="{name}" min="{low:.6g}" max="{high:.6g}" step="any" value="{start:g}">'
    )


def data(results: Results) -> dict[str, Any] | None:
    """Scores of both classes, ascending, and the geometry of the charts, for the page's script."""
    if results.task != "binary":
        return None
    score, positive, _, (low, high), start = _scores_of(results)
    sides = {"positive": score[positive], "negative": score[~positive]}
    geometry = {
        "left": LEFT,
        "right": RIGHT,
        "top": TOP,
        "bottom": BOTTOM,
        "digits": _digits((high - low) / 400),
    }
    most = MOST_SCORES if results.n > MOST_SCORES else results.n
    return geometry | {name: _embedded(values, start, results.n / most) for name, values in sides.items()}


def _embedded(score: Array, start: float, joined: float) -> dict[str, Any]:
    """Four digits of each score, on its side of the threshold; of very many every so manieth, with counts."""
    score = np.sort(score)
    counts = None
    if joined > 1:
        cuts = np.unique(
            np.append(np.arange(0, len(score), int(np.ceil(joined))), np.searchsorted(score, start, "right"))
        )
        cuts = cuts[cuts < len(score)]
        counts = np.diff(np.append(cuts, len(score))).tolist()
        score = score[np.append(cuts[1:], len(score)) - 1]  # the highest of each lot
    shown = np.array([float(f"{value:.4g}") for value in score])
    crossed = (shown > start) != (score > start)
    shown[crossed] = score[crossed]
    side: dict[str, Any] = {"scores": np.maximum.accumulate(shown).tolist() if len(shown) else []}
    return side if counts is None else {**side, "counts": counts}


def _scores_of(results: Results) -> tuple[Array, NDArray[np.bool_], str, tuple[float, float], float]:
    """Score, truth, name of the score, bounds of its axis, and the threshold that the predictions have."""
    positive = results.truth == results.labels[1]
    if results.probability is not None:
        return results.probability, positive, f"probability of {results.labels[1]}", (0.0, 1.0), 0.5
    low, high = np.percentile(results.decision, [0.1, 99.9])
    low, high = min(float(low), -1.2), max(float(high), 1.2)
    return results.decision, positive, "decision value", (low, high), 0.0


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.2f} %" if whole else "–"


def _digits(step: float) -> int:
    return max(0, min(6, -int(np.floor(np.log10(step)))))
