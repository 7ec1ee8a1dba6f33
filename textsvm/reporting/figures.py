"""Charts of a page as SVG files that need no style sheet: white background, light colours, key below."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from string import Template

from textsvm.reporting.charts import WIDE
from textsvm.runtime.files import replacing

#: Colours of the light theme of report.css.
COLOURS = {
    "c1": "#0072b2", "c2": "#d55e00", "c3": "#009e73", "c4": "#b5518f",
    "c5": "#b98500", "c6": "#3d9bd6", "c7": "#6f6f6f", "c8": "#7a5bb5",
}  # fmt: skip
#: Height of a line of the key, in pixels.
KEY_LINE = 17
_STYLE = (
    "text { font-family: Arial, Helvetica, 'Liberation Sans', sans-serif; font-size: ${size}px; "
    "fill: #4a4f57; } .mid { text-anchor: middle; } .end { text-anchor: end; } .off { display: none; } "
    "path { fill: none; } .grid { stroke: #e6e4de; } .axis { stroke: #9a9fa8; } "
    ".dash { stroke: #9a9fa8; stroke-dasharray: 4 4; } .line { stroke-width: 2; stroke-linejoin: round; } "
    ".area { fill-opacity: .15; } .dots { stroke-linecap: round; } .faint { opacity: .35; } "
    ".whisker { stroke-width: 1.4; } .marker { stroke: #21242a; stroke-width: 1.6; fill: #ffffff; } "
    "path.marker { fill: none; } .band { fill: #21242a; opacity: .08; }"
) + "".join(
    f" .{name}.line, .{name}.dots, .{name}.whisker {{ stroke: {colour}; }} "
    f".{name}.area, text.{name} {{ fill: {colour}; }}"
    for name, colour in COLOURS.items()
)
_HEAD = re.compile(r'<svg viewBox="0 0 (\d+) (\d+)"')
_KEY = re.compile(r'<li class="(c\d)"[^>]*>(.*?)</li>')


def figures(page: str) -> dict[str, str]:
    """Charts of a page of `textsvm.reporting.html` as SVG files, by file name without suffix."""
    charts: dict[str, str] = {}
    for section in re.split("<(?:section|article)", page):
        key = _KEY.findall(section)
        for svg in re.findall(r"<svg .*?</svg>", section, re.DOTALL):
            title = unescape(re.search("<title>(.*?)</title>", svg, re.DOTALL)[1])  # type: ignore[index]
            name = re.sub("[^a-z0-9]+", "-", title.lower()).strip("-")[:60].strip("-") or "chart"
            number = 1 + sum(re.fullmatch(rf"{name}(-\d+)?", chart) is not None for chart in charts)
            charts[name if number == 1 else f"{name}-{number}"] = _alone(svg, key)
    return charts


def _alone(svg: str, key: list[tuple[str, str]]) -> str:
    """An SVG element of a page as a file, with the lines of the key (style, escaped name) below."""
    xmlns = 'xmlns="http://www.w3.org/2000/svg"'
    head = _HEAD.match(svg)
    if head is None:  # a sequence logo has its style in its attributes
        return svg.replace("<svg ", f"<svg {xmlns} ", 1) + "\n"
    width, height = int(head[1]), int(head[2])
    style = Template(_STYLE).substitute(size=10 if width == WIDE else 12)
    lines = "".join(
        f'<text class="{colour}" x="8" y="{height + KEY_LINE * (i + 1) - 5}">■ {name}</text>'
        for i, (colour, name) in enumerate(key)
    )
    whole = height + KEY_LINE * len(key)
    start = f'<svg {xmlns} width="{width + 12}" height="{whole}" viewBox="-6 0 {width + 12} {whole}"'
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
