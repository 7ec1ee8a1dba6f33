"""Plots of the benchmarks, where Matplotlib is installed (the extra `plot`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from textsvm.runtime.files import replacing

#: Okabe and Ito's colours, which colour-blind people tell apart.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")

#: Number of series whose names have room between the lines.
FEW = 4

Series = dict[str, list[tuple[float, float]]]


def lines(path: Path, panels: Sequence[tuple[str, Series]], y_label: str, log: bool = True) -> bool:
    """Lines, a panel for each (label of x, series), log-log or linear; False if Matplotlib is not there."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return False
    figure = Figure(figsize=(4.5 * len(panels), 3.6), layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for axis, (x_label, series) in zip(axes, panels, strict=True):
        for (name, points), colour in zip(series.items(), COLOURS, strict=False):
            axis.plot(*zip(*points, strict=True), marker="o", markersize=4, color=colour, label=name)
        if log:
            places = sorted({round(x) for points in series.values() for x, _ in points})
            axis.set(xscale="log", yscale="log")
            axis.set_xticks(places, [f"{place:,}" for place in places], rotation=30, fontsize=8)
            axis.minorticks_off()
        axis.set(xlabel=x_label, ylabel=y_label)
        axis.grid(which="major", color="#e0e0e0", linewidth=0.6)
        axis.spines[["top", "right"]].set_visible(False)
        if len(series) <= FEW:
            axis.legend(frameon=False, fontsize=8)
    if len(series) > FEW:  # they would cover the lines
        figure.legend(*axis.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    with replacing(path) as temporary:
        figure.savefig(temporary, format=path.suffix.removeprefix("."))
    return True


def bars(path: Path, ratios: Sequence[tuple[str, float]], x_label: str) -> bool:
    """Horizontal bars on a log scale, a line at 1; False if Matplotlib is not there."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return False
    figure = Figure(figsize=(7.5, 0.6 + 0.34 * len(ratios)), layout="constrained")
    axis = figure.subplots()
    names, values = zip(*reversed(ratios), strict=True)
    drawn = axis.barh(names, values, color=COLOURS[0], height=0.62)
    axis.bar_label(drawn, [f"{value:.3g}" for value in values], padding=3, fontsize=8)
    axis.axvline(1, color="#404040", linewidth=0.8)
    axis.set(xscale="log", xlabel=x_label)
    axis.tick_params(labelsize=8, left=False)
    axis.spines[["top", "right", "left"]].set_visible(False)
    axis.margins(x=0.12)
    with replacing(path) as temporary:
        figure.savefig(temporary, format=path.suffix.removeprefix("."))
    return True
