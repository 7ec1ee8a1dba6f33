"""Charts as inline SVG: no library, no script, colours from the page's style sheet.

`Chart` maps coordinates of the data to pixels. Series have the classes c1, c2, .. of `report.css`, so they
follow the light and dark theme. `write_figures` writes the charts of a page as SVG files, which need no style
sheet: white background, light colours, key below.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from string import Template
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from textsvm.reporting.formatting import SHARES, format_metric, safe
from textsvm.runtime.files import replacing

# Margins for tick labels and axis titles, in pixels.
LEFT, RIGHT, TOP, BOTTOM = 52, 18, 30, 42
WIDE = 760  #: Width of a chart as wide as the page, in pixels
LINE_HEIGHT = 46  #: Height of a line of `intervals_chart`, in pixels
BAR = 20  #: Height of a bar of `bars_chart`, in pixels
#: Colours of the light theme of report.css.
COLOURS = {
    "c1": "#0072b2", "c2": "#d55e00", "c3": "#009e73", "c4": "#b5518f",
    "c5": "#b98500", "c6": "#3d9bd6", "c7": "#6f6f6f", "c8": "#7a5bb5",
    "c9": "#a0352c", "c10": "#5d7a1f", "c11": "#008b96", "c12": "#8c5a3c", "c13": "#27408b",
}  # fmt: skip
#: Shapes of points, with a radius of 1 around the point at which the path begins.
SHAPES = {
    "●": "m-1 0a1 1 0 1 0 2 0a1 1 0 1 0 -2 0z",
    "■": "m-.9 -.9h1.8v1.8h-1.8z",
    "▲": "m0 -1.1l1.1 2h-2.2z",
    "◆": "m0 -1.2l1.2 1.2l-1.2 1.2l-1.2 -1.2z",
    "▼": "m0 1.1l1.1 -2h-2.2z",
    "✚": "m-.4 -1.2h.8v.8h.8v.8h-.8v.8h-.8v-.8h-.8v-.8h.8z",
}
KEY_LINE = 17  #: Height of a line of the key, in pixels
_FILE_STYLE = (
    "text { font-family: Arial, Helvetica, 'Liberation Sans', sans-serif; font-size: ${size}px; "
    "fill: #4a4f57; } .mid { text-anchor: middle; } .end { text-anchor: end; } .off { display: none; } "
    "path { fill: none; } .grid { stroke: #e6e4de; } .axis { stroke: #9a9fa8; } "
    ".dash { stroke: #9a9fa8; stroke-dasharray: 4 4; } .line { stroke-width: 2; stroke-linejoin: round; } "
    ".area { fill-opacity: .15; } .dots { stroke-linecap: round; } .faint { opacity: .35; } "
    ".whisker { stroke-width: 1.4; } .marker { stroke: #21242a; stroke-width: 1.6; fill: #ffffff; } "
    "path.marker { fill: none; } .point { fill-opacity: .8; } .band { fill: #21242a; opacity: .08; }"
) + "".join(
    f" .{name}.line, .{name}.dots, .{name}.whisker {{ stroke: {colour}; }} "
    f".{name}.area, .{name}.point, text.{name} {{ fill: {colour}; }}"
    for name, colour in COLOURS.items()
)
_XMLNS = 'xmlns="http://www.w3.org/2000/svg"'
_SVG_HEAD = re.compile(r'<svg viewBox="0 0 (\d+) (\d+)"')
_FILE_SIZE = re.compile(r'width="(\d+)" height="(\d+)"')
_KEY_ENTRY = re.compile(r'<li class="(c\d+)"[^>]*>(.*?)</li>')


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers between two bounds, at least two."""
    if not high > low:
        return [low]
    raw = (high - low) / about
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(f * power for f in (1, 2, 5, 10) if f * power >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    values = [round(k * step, 12) + 0.0 for k in range(first, math.floor(high / step + 1e-9) + 1)]
    return values if len(values) > 1 else ticks(low, high, 2 * about)


def percent(value: float) -> str:
    """A share as a tick label."""
    return f"{100 * value:.4g} %"


def plain(value: float) -> str:
    """A number as a tick label."""
    return f"{value:,.4g}".replace("-", "−")


@dataclass(frozen=True)
class Axis:
    """An axis of a chart."""

    bounds: tuple[float, float]  #: Of the data
    label: str
    format: Callable[[float], str] = plain  #: Number -> tick label
    ticks: Sequence[float] | None = None
    log: bool = False  #: Logarithmic; bounds > 0

    @property
    def span(self) -> tuple[float, float]:
        """Bounds, low to low + 1 for an empty range."""
        low, high = self.bounds
        return low, high if high > low else low + 1


class Chart:
    """A pair of axes to draw on; `title` is for screen readers, `width` and `height` are pixels."""

    def __init__(self, title: str, x: Axis, y: Axis, *, width: int = 440, height: int = 300) -> None:
        self.title, self.width, self.height, self.log_x, self.log_y = title, width, height, x.log, y.log
        self.x, self.y = x.span, y.span
        self.parts: list[str] = []
        self._names: list[tuple[float, float, float]] = []  #: Left and right end, and row, of each name
        floor, right = height - BOTTOM, width - RIGHT
        for value in ticks(*self.y) if y.ticks is None else y.ticks:
            at = self.py(value)
            self.parts.append(f'<path class="grid" d="M{LEFT} {at:.1f}H{right}"/>')
            self.text(LEFT - 7, at + 4, y.format(value), "tick end")
        for value in ticks(*self.x) if x.ticks is None else x.ticks:
            self.text(self.px(value), floor + 17, x.format(value), "tick mid")
        self.parts.append(f'<path class="axis" d="M{LEFT} {floor}H{right}"/>')
        self.text((LEFT + right) / 2, height - 8, x.label, "label mid")
        self.text(0, 13, y.label, "label")

    def px(self, value: float) -> float:
        return LEFT + _share(value, self.x, self.log_x) * (self.width - LEFT - RIGHT)

    def py(self, value: float) -> float:
        return self.height - BOTTOM - _share(value, self.y, self.log_y) * (self.height - BOTTOM - TOP)

    def _pixels(self, xs: ArrayLike, ys: ArrayLike) -> list[tuple[float, float]]:
        return [(self.px(x), self.py(y)) for x, y in zip(_floats(xs), _floats(ys), strict=True)]

    def line(self, xs: ArrayLike, ys: ArrayLike, style: str, fill: bool = False) -> None:
        """A line through points, without invisible detail; `fill` tints the area under it."""
        pixels = self._pixels(xs, ys)
        points = pixels[:1]
        for x, y in pixels:  # without points within half a pixel of the previous, except the last
            if abs(x - points[-1][0]) + abs(y - points[-1][1]) > 0.5:
                points.append((x, y))
        if not points:
            return
        points += pixels[-1:] if points[-1] != pixels[-1] else []
        path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        if fill:
            floor = self.py(self.y[0])
            closed = f"{path}L{points[-1][0]:.1f} {floor:.1f}L{points[0][0]:.1f} {floor:.1f}Z"
            self.parts.append(f'<path class="area {style}" d="{closed}"/>')
        self.parts.append(f'<path class="line {style}" d="{path}"/>')

    def only(self, name: str, visible: bool) -> None:
        """Let the page's script show and hide the element drawn last, by its name."""
        off = "" if visible else ' class="off"'
        self.parts.append(f'<g data-curve="{name}"{off}>{self.parts.pop()}</g>')

    def diagonal(self) -> None:
        """The dashed line y = x, in the bounds of the chart."""
        low, high = max(self.x[0], self.y[0]), min(self.x[1], self.y[1])
        path = f"M{self.px(low):.1f} {self.py(low):.1f}L{self.px(high):.1f} {self.py(high):.1f}"
        self.parts.append(f'<path class="dash" d="{path}"/>')

    def level(self, y: float) -> None:
        self.parts.append(f'<path class="dash" d="M{LEFT} {self.py(y):.1f}H{self.width - RIGHT}"/>')

    def bars(self, edges: ArrayLike, heights: ArrayLike, style: str) -> None:
        """A histogram as a stepped area from the floor."""
        e, floor = [self.px(x) for x in _floats(edges)], self.py(max(self.y[0], 0.0))
        path = f"M{e[0]:.1f} {floor:.1f}"
        for at, height in zip(e[1:], _floats(heights), strict=True):
            path += f"V{self.py(max(height, self.y[0])):.1f}H{at:.1f}"
        self.parts.append(f'<path class="area line {style}" d="{path}V{floor:.1f}Z"/>')

    def dots(self, xs: ArrayLike, ys: ArrayLike, style: str, radius: float = 3.5) -> None:
        """Points, drawn as the round caps of a path."""
        points = "".join(f"M{x:.1f} {y:.1f}h0" for x, y in self._pixels(xs, ys))
        self.parts.append(f'<path class="dots {style}" stroke-width="{2 * radius:g}" d="{points}"/>')

    def name(self, x: float, y: float, name: str, style: str, mark: str = "") -> None:
        """A name at a point, or beside it, in the nearest free row; at its left in the right part."""
        end, at, row = self.px(x) > 0.7 * self.width, self.px(x), self.py(y) + 4
        text, shift = (f"{name} {mark}" if end else f"{mark} {name}").strip(), 0 if mark else 7
        left, right = (at - 7 * len(text), at - shift) if end else (at + shift, at + 7 * len(text))
        while any(abs(row - other) < 12 and left < b and a < right for a, b, other in self._names):
            row += 3
        self._names.append((left, right, row))
        self.text(right if end else left, row, text, f"name {style}{' end' if end else ''}")

    def points(
        self, xs: ArrayLike, ys: ArrayLike, style: str, shape: str, titles: Sequence[str], radius: float
    ) -> None:
        """Points of a kind of `SHAPES`, each with a title that a browser shows under the pointer."""
        for (x, y), title in zip(self._pixels(xs, ys), titles, strict=True):
            place = f'transform="translate({x:.1f} {y:.1f}) scale({radius:g})"'
            path = f'<path class="point {style}" {place} d="M0 0{SHAPES[shape]}">'
            self.parts.append(f"{path}<title>{safe(title)}</title></path>")

    def whiskers(self, xs: ArrayLike, lows: ArrayLike, highs: ArrayLike, style: str) -> None:
        ends = zip(self._pixels(xs, lows), self._pixels(xs, highs), strict=True)
        path = "".join(f"M{x:.1f} {low:.1f}V{high:.1f}" for (x, low), (_, high) in ends)
        self.parts.append(f'<path class="whisker {style}" d="{path}"/>')

    def marker(self, name: str, x: float, y: float | None = None) -> None:
        """A point, or without `y` a vertical line, which the page's script moves by its id."""
        path = f'<path id="{name}" class="marker" d="M{self.px(x):.1f} {TOP}V{self.height - BOTTOM}"/>'
        if y is not None:
            path = f'<circle id="{name}" class="marker" cx="{self.px(x):.1f}" cy="{self.py(y):.1f}" r="5"/>'
        self.parts.append(path)

    def svg(self) -> str:
        scale = f'data-x="{self.x[0]:.6g} {self.x[1]:.6g}" data-y="{self.y[0]:.6g} {self.y[1]:.6g}"'
        return (
            f'<svg viewBox="0 0 {self.width} {self.height}" role="img" {scale}>'
            f"<title>{safe(self.title)}</title>{''.join(self.parts)}</svg>"
        )

    def text(self, x: float, y: float, text: str, style: str) -> None:
        """Text at a pixel; `style` is a class of the style sheet."""
        self.parts.append(f'<text class="{style}" x="{x:.1f}" y="{y:.1f}">{safe(text)}</text>')


def _share(value: float, bounds: tuple[float, float], log: bool) -> float:
    """Position of a value on an axis, from 0 to 1."""
    low, high = bounds
    return math.log(value / low) / math.log(high / low) if log else (value - low) / (high - low)


def log_ticks(low: float, high: float) -> list[float]:
    """Round numbers on a logarithmic axis, two to six."""
    powers = [10.0**k for k in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]
    for factors in ((1, 2, 5), (1, 3), (1,)):
        values = [f * power for power in powers for f in factors if low <= f * power <= high]
        if len(values) <= 6:
            break
    return values if len(values) > 1 else ticks(low, high)


def _floats(values: ArrayLike) -> list[float]:
    return np.asarray(values, float).tolist()


def bars_chart(title: str, texts: Sequence[str], values: Sequence[float]) -> str:
    """Horizontal bars from 0 below each other, each with its text on it and its value at the right."""
    chart = Chart(title, Axis((0, 1), "", ticks=()), Axis((0, 1), "", ticks=()), height=BAR * len(texts) + 4)
    chart.parts.clear()
    longest = max(values) or 1.0
    for place, (text, value) in enumerate(zip(texts, values, strict=True)):
        top, width = 2 + BAR * place, chart.width * value / longest
        chart.parts.append(f'<path class="area c2" d="M0 {top + 1}H{width:.1f}V{top + BAR - 1}H0Z"/>')
        chart.text(5, top + BAR - 6, text, "name")
        chart.text(chart.width - 5, top + BAR - 6, plain(float(f"{value:.3g}")), "tick end")
    return chart.svg()


class IntervalLine(NamedTuple):
    """A metric with its interval; `style` is a class of the style sheet."""

    name: str
    value: float
    interval: tuple[float, float]
    style: str


def intervals_chart(title: str, metric: str, label: str, lines: Sequence[IntervalLine], level: float) -> str:
    """Intervals of a metric below each other, with a dashed line at a reference value."""
    low = min(level, *(line.interval[0] for line in lines))
    high = max(level, *(line.interval[1] for line in lines))
    margin, share = 0.04 * (high - low), metric in SHARES
    bounds = max(0.0, low - margin), min(1.0, high + margin) if share else high + margin
    x, y = Axis(bounds, label, percent if share else plain), Axis((-0.5, len(lines) - 0.35), "", ticks=())
    chart = Chart(title, x, y, width=WIDE, height=80 + LINE_HEIGHT * len(lines))
    chart.parts.append(f'<path class="dash" d="M{chart.px(level):.1f} {TOP}V{chart.height - BOTTOM}"/>')
    for place, line in enumerate(reversed(lines)):
        low, high = map(chart.px, line.interval)
        path = f"M{low:.1f} {chart.py(place - 0.1):.1f}H{high:.1f}"
        chart.parts.append(f'<path class="whisker {line.style}" d="{path}"/>')
        chart.dots([line.value], [place - 0.1], line.style, 5)
        value = format_metric(metric, line.value)
        chart.text(LEFT, chart.py(place + 0.18), f"{line.name[:60]}: {value}", "label")
    return chart.svg()


def figures(page: str) -> dict[str, str]:
    """Charts of a page of `textsvm.reporting.html` as SVG files, by file name without suffix."""
    charts: dict[str, str] = {}
    for section in re.split("<(?:section|article)", page):
        key = _KEY_ENTRY.findall(section)
        for svg in re.findall(r"<svg .*?</svg>", section, re.DOTALL):
            title = unescape(re.search("<title>(.*?)</title>", svg, re.DOTALL)[1])  # type: ignore[index]
            name = re.sub("[^a-z0-9]+", "-", title.lower()).strip("-")[:60].strip("-") or "chart"
            number = 1 + sum(re.fullmatch(rf"{name}(-\d+)?", chart) is not None for chart in charts)
            charts[name if number == 1 else f"{name}-{number}"] = _alone(svg, key)
    return charts


def stacked(page: str) -> str:
    """All charts of a page in a single SVG file, below each other."""
    parts, width, height = [], 0, 0
    for svg in figures(page).values():
        chart = _FILE_SIZE.search(svg)
        parts.append(svg.replace("<svg ", f'<svg y="{height}" ', 1))
        width, height = max(width, int(chart[1])), height + int(chart[2])  # type: ignore[index]
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    return f"<svg {_XMLNS} {size}>{''.join(parts)}</svg>\n"


def _alone(svg: str, key: list[tuple[str, str]]) -> str:
    """An SVG element of a page as a file, with the lines of the key (style, escaped name) below."""
    head = _SVG_HEAD.match(svg)
    assert head is not None
    width, height = int(head[1]), int(head[2])
    style = Template(_FILE_STYLE).substitute(size=10 if width == WIDE else 12)
    lines = "".join(
        f'<text class="{colour}" x="8" y="{height + KEY_LINE * (i + 1) - 5}">■ {name}</text>'
        for i, (colour, name) in enumerate(key)
    )
    whole = height + KEY_LINE * len(key)
    start = f'<svg {_XMLNS} width="{width + 12}" height="{whole}" viewBox="-6 0 {width + 12} {whole}"'
    behind = f'<style>{style}</style><rect x="-6" width="{width + 12}" height="{whole}" fill="#ffffff"/>'
    body = svg[head.end() : -len("</svg>")].replace("</title>", f"</title>{behind}", 1)
    return f"{start}{body}{lines}</svg>\n"


def write_figures(folder: Path, page: str) -> list[Path]:
    """Write the charts of a page into a folder, which is created; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, svg in figures(page).items():
        paths.append(folder / f"{name}.svg")
        with replacing(paths[-1]) as temporary:
            temporary.write_text(svg, "utf-8", newline="\n")
    return paths
