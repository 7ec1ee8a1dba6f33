"""Charts of a `ClassMap`: trees and scatter plots on the first two principal components."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from textsvm.arrays import Ints
from textsvm.evaluation.class_map import ClassMap, Projection
from textsvm.reporting.charts import TOP, WIDE, Axis, Chart, percent, plain
from textsvm.reporting.curves import STYLES, card
from textsvm.reporting.formatting import cut
from textsvm.runtime.compiled import scipy

#: Leaves of a tree; a larger tree is not drawn.
MOST_LEAVES = 150
#: Classes whose documents have a colour of their own.
MOST_COLOURS = STYLES
#: Maximum number of documents whose names are shown on the map.
MOST_NAMED = 50
#: Height of a leaf in pixels.
_LEAF = 18
#: Maximum number of symbols of a name.
_MOST_SYMBOLS = 40
#: Style of documents without a class, or of too many classes.
_NEUTRAL = 6
_COMPONENTS = "The first two components of kernel PCA; near points have similar texts."


def map_sections(mapped: ClassMap, ids: Sequence[str]) -> list[str]:
    """Sections of a page: the tree, the map of class means, and the map of documents.

    `ids` are the names of the documents, shown if there are few; empty to show none.
    """
    names = mapped.classes or ids
    sections = [_tree(mapped, names)]
    if mapped.class_means is not None:
        styles = np.arange(len(names)) % STYLES
        chart = _scatter("Map of the classes", mapped.class_means, styles, names)
        sections.append(card("Map of the classes", chart, [], _COMPONENTS, wide=True))
    named = ids if len(ids) <= MOST_NAMED else []
    coloured = len(mapped.classes) <= MOST_COLOURS
    styles = mapped.label if coloured else np.full(len(mapped.documents.points), _NEUTRAL)
    chart = _scatter("Map of the documents", mapped.documents, styles, named)
    if mapped.classes and not named:
        for code, name in enumerate(mapped.classes):
            x, y = mapped.documents.points[mapped.label == code].mean(0)
            _write_name(chart, x, y, name, f"c{code % STYLES + 1}", "■ ")
    key = [(name, f"c{code + 1}") for code, name in enumerate(mapped.classes)] if coloured else []
    more = " Squares: means of the classes." if mapped.classes and not named else ""
    sections.append(card("Map of the documents", chart, key, _COMPONENTS + more, wide=True, first=len(key)))
    return [section for section in sections if section]


def _scatter(title: str, projection: Projection, styles: Ints, names: Sequence[str]) -> Chart:
    """Points with a style each; with `names` each point has its name."""
    points = projection.points
    low, high = points.min(0), points.max(0)
    margin = 0.05 * np.maximum(high - low, 1e-9)
    ends = zip(low - margin, high + margin, projection.variance, strict=True)
    axes = [
        Axis((float(a), float(b)), f"component {i}: {percent(float(f'{share:.3g}'))} of the variance")
        for i, (a, b, share) in enumerate(ends, 1)
    ]
    chart = Chart(title, *axes, width=WIDE, height=460)
    for style in np.unique(styles):
        part = points[styles == style]
        chart.dots(part[:, 0], part[:, 1], f"c{style + 1}", 3.5 if names else 2.5)
    for (x, y), name, style in zip(points, names, styles, strict=False):
        _write_name(chart, x, y, name, f"c{style + 1}")
    return chart


def _write_name(chart: Chart, x: float, y: float, name: str, style: str, before: str = "") -> None:
    """Write a name beside a point, at its left in the right part of the chart; `before` marks it."""
    shift, end, text = (0.0 if before else 7.0), "", before + cut(name, _MOST_SYMBOLS)
    if chart.px(x) > 0.7 * chart.width:
        shift, end, text = -shift, " end", f"{cut(name, _MOST_SYMBOLS)} {before.strip()}".strip()
    chart.text(chart.px(x) + shift, chart.py(y) + 4, text, f"name {style}{end}")


def _tree(mapped: ClassMap, names: Sequence[str]) -> str:
    """Dendrogram with the names of its leaves at the right, and the height of each join."""
    if not 0 < len(mapped.tree) < MOST_LEAVES:
        return ""
    drawn = scipy.cluster.hierarchy.dendrogram(mapped.tree, no_plot=True)
    title = f"Tree of the {'classes' if mapped.classes else 'documents'}"
    top = float(mapped.tree[-1, 2]) or 1.0
    leaves = [names[i] for i in drawn["leaves"]]
    # Room at the right for the names: the axis goes on below 0 without ticks.
    room = 0.012 * max(len(cut(name, _MOST_SYMBOLS)) for name in leaves) * top
    x = Axis((-top, room), "distance at which clusters join", lambda x: plain(-x), [-top, -top / 2, 0])
    y = Axis((0, len(leaves)), "", ticks=())
    chart = Chart(title, x, y, width=WIDE, height=TOP + 60 + _LEAF * len(leaves))
    for places, heights in zip(drawn["icoord"], drawn["dcoord"], strict=True):  # leaf i is at 10 i + 5
        chart.line([-height for height in heights], [place / 10 for place in places], f"c{_NEUTRAL + 1}")
    for place, leaf in enumerate(drawn["leaves"]):
        style = f"name c{(leaf if mapped.classes else _NEUTRAL) % STYLES + 1}"
        chart.text(chart.px(0) + 6, chart.py(place + 0.5) + 4, cut(names[leaf], _MOST_SYMBOLS), style)
    leaf_kind = "the means of the classes" if mapped.classes else "documents"
    note = f"Ward's clustering of the distances between {leaf_kind}."
    return card(title, chart, [], note + " Neighbours that join far to the right are similar.", wide=True)
