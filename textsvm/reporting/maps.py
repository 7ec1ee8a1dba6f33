"""Charts of a `ClassMap`: trees and scatter plots on the first two principal components."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from textsvm.arrays import Ints
from textsvm.evaluation.class_map import ClassMap, Projection
from textsvm.evaluation.explanation import Explanation
from textsvm.model.trained import TrainedModel
from textsvm.readers.corpus import Corpus
from textsvm.reporting.charts import SHAPES, TOP, WIDE, Axis, Chart, percent, plain, ticks
from textsvm.reporting.curves import card
from textsvm.reporting.formatting import cut, html_table, key, label_text, safe, section, sides
from textsvm.runtime.compiled import scipy

MOST_LEAVES = 150  #: Leaves of a tree; a larger tree is not drawn
PALETTE = (3, 4, 5, 13, 9, 8, 11, 12, 10, 6, 2, 1)  #: Colours of classes, last those of for and against
MOST_NAMED = 50  #: Maximum number of documents whose names are shown on the map
_LEAF = 18  #: Height of a leaf in pixels
_MOST_SYMBOLS = 40  #: Maximum number of symbols of a name
_NEUTRAL = 7  #: Number of the colour of documents without a class
_COMPONENTS = "The first two components of kernel PCA; near points have similar texts."


def map_sections(mapped: ClassMap, ids: Sequence[str]) -> list[str]:
    """Sections of a page: the tree, the map of class means, and the map of documents.

    `ids` are the names of the documents, shown if there are few, else under the pointer; empty to show none.
    """
    classes = mapped.classes
    sections = [_tree(mapped, classes or ids)]
    if mapped.class_means is not None:
        chart = _scatter("Map of the classes", mapped.class_means, np.arange(len(classes)), classes, classes)
        sections.append(card("Map of the classes", chart, [], _COMPONENTS, wide=True))
    named = ids if len(ids) <= MOST_NAMED else []
    labels = mapped.label if classes else np.full(len(mapped.documents.points), -1)
    titles = [
        ": ".join(filter(None, (classes[label] if label >= 0 else "", name)))
        for label, name in zip(labels.tolist(), ids or [""] * len(labels), strict=True)
    ]
    chart = _scatter("Map of the documents", mapped.documents, labels, titles, named)
    if classes and not named:
        for code, name in enumerate(classes):
            x, y = mapped.documents.points[mapped.label == code].mean(0)
            chart.name(x, y, cut(name, _MOST_SYMBOLS), colour_of(code), shape_of(code))
    entries = [(f"{shape_of(code)} {name}", colour_of(code)) for code, name in enumerate(classes)]
    more = " The name of a class stands at the mean of its documents." if classes and not named else ""
    sections.append(card("Map of the documents", chart, entries, _COMPONENTS + more, wide=True))
    return [section for section in sections if section]


def rolling_section(model: TrainedModel, pieces: Corpus, explained: Sequence[Explanation]) -> str:
    """Class of each piece, and its decision values along each text, of two classes as a line."""
    if model.classes is None or pieces.piece_of is None:
        return ""
    decision, lines = model.decision_function(pieces.texts), [*map(str, model.classes)]
    if decision.ndim == 1:  # the signs of the explanations
        decision = np.array([[own.value] for own in explained])
        lines = ["{} above 0, {} below".format(*sides(explained[0]))]
    bounds, charts = (min(0.0, float(decision.min())), max(0.0, float(decision.max()))), []
    for rows in np.split(np.arange(len(explained)), np.flatnonzero(np.diff(pieces.piece_of)) + 1):
        name, n = pieces.ids[rows[0]].rpartition(", piece ")[0], len(rows)
        whole = [tick for tick in ticks(1, n) if tick % 1 == 0]
        x = Axis((1, n), f"piece of {cut(name, _MOST_SYMBOLS)}", ticks=whole)
        chart = Chart(f"Decisions along the pieces of {name}", x, Axis(bounds, "decision"), width=WIDE)
        chart.level(0)
        for code, line in enumerate(lines):
            titles = [f"{line}: {pieces.ids[i]}" for i in rows]
            points = np.arange(1, n + 1), decision[rows, code], colour_of(code)
            chart.line(*points)
            chart.points(*points, shape_of(code), titles, 3.0)
        charts.append(chart.svg())
    styles = key((f"{shape_of(code)} {line}", colour_of(code)) for code, line in enumerate(lines))
    cells = zip(pieces.ids, explained, strict=True)
    listed = [(safe(name), safe(label_text(own.prediction)), f"{own.value:+.3f}") for name, own in cells]
    table = html_table(("piece", "class", "decision"), listed)
    note = "The decision of a text is the mean of those of its pieces."
    drawn = section("Which piece is whose", styles, *charts, note=note, style="wide")
    return drawn + section("Pieces", table)


def colour_of(code: int) -> str:
    """Style of a class by its number; of documents without a class by -1."""
    return f"c{PALETTE[code % len(PALETTE)] if code >= 0 else _NEUTRAL}"


def shape_of(code: int) -> str:
    """Shape of the points of a class: another for classes of the same and of the next colour."""
    shapes = [*SHAPES]
    return shapes[(code + code // len(PALETTE)) % len(shapes)] if code >= 0 else shapes[0]


def _scatter(
    title: str, projection: Projection, codes: Ints, titles: Sequence[str], names: Sequence[str]
) -> Chart:
    """Points with the style of a class each, and their titles; with `names` each point has its name."""
    points = projection.points
    low, high = points.min(0), points.max(0)
    margin = 0.05 * np.maximum(high - low, 1e-9)
    ends = zip(low - margin, high + margin, projection.variance, strict=True)
    axes = [
        Axis((float(a), float(b)), f"component {i}: {percent(float(f'{share:.3g}'))} of the variance")
        for i, (a, b, share) in enumerate(ends, 1)
    ]
    chart = Chart(title, *axes, width=WIDE, height=460)
    for code in np.unique(codes).tolist():
        rows = np.flatnonzero(codes == code).tolist()
        part, hovers = points[rows], [titles[i] for i in rows]
        chart.points(part[:, 0], part[:, 1], colour_of(code), shape_of(code), hovers, 4 if names else 3)
    for (x, y), name, code in zip(points, names, codes.tolist(), strict=False):
        chart.name(x, y, cut(name, _MOST_SYMBOLS), colour_of(code))
    return chart


def _tree(mapped: ClassMap, names: Sequence[str]) -> str:
    """Dendrogram with the names of its leaves at the right, and the height of each join."""
    if not 0 < len(mapped.tree) < MOST_LEAVES:
        return ""
    drawn = scipy.cluster.hierarchy.dendrogram(mapped.tree, no_plot=True)
    title = f"Tree of the {'classes' if mapped.classes else 'documents'}"
    top, leaves = float(mapped.tree[-1, 2]) or 1.0, [names[i] for i in drawn["leaves"]]
    # Room at the right for the names: the axis goes on below 0 without ticks.
    room = 0.012 * max(len(cut(name, _MOST_SYMBOLS)) for name in leaves) * top
    x = Axis((-top, room), "distance at which clusters join", lambda x: plain(-x), [-top, -top / 2, 0])
    y = Axis((0, len(leaves)), "", ticks=())
    chart = Chart(title, x, y, width=WIDE, height=TOP + 60 + _LEAF * len(leaves))
    for places, heights in zip(drawn["icoord"], drawn["dcoord"], strict=True):  # leaf i is at 10 i + 5
        chart.line([-height for height in heights], [place / 10 for place in places], colour_of(-1))
    for place, leaf in enumerate(drawn["leaves"]):
        style = f"name {colour_of(leaf if mapped.classes else -1)}"
        chart.text(chart.px(0) + 6, chart.py(place + 0.5) + 4, cut(names[leaf], _MOST_SYMBOLS), style)
    leaf_kind = "the means of the classes" if mapped.classes else "documents"
    note = f"Ward's clustering of the distances between {leaf_kind}."
    return card(title, chart, [], note + " Neighbours that join far to the right are similar.", wide=True)
