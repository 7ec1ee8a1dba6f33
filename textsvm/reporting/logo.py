"""Sequence logos as SVG: letters as high as their values, negative values below the line.

A logo is a file of its own (`document`) or part of a page (`svg`), whose style sheet has the classes of the
letters. The colours are by Okabe and Ito, which people with any colour vision can tell apart. They are
attributes of the elements, too, for programs that read no style sheet.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from textsvm.arrays import Floats
from textsvm.evaluation.mutations import Motif, Mutations
from textsvm.reporting.charts import COLOURS, plain
from textsvm.reporting.formatting import safe

#: Letters of a line.
LINE = 60
#: Width of a letter, in pixels.
CELL = 15
#: Height of a line, in pixels.
HEIGHT = 88
# Margins, in pixels.
LEFT = 48
RIGHT = 10
TOP = 22
BOTTOM = 22
#: Height of capitals in fonts like Arial, as a share of the font size.
CAPITAL = 0.72
#: Font size before stretching, in pixels.
SIZE = 20
_FONT = "Arial, Helvetica, 'Liberation Sans', 'DejaVu Sans', sans-serif"
#: Colours of letters in the dark theme; those in light are `COLOURS`.
_DARK = {
    "c1": "#5fb3ea", "c2": "#ff9655", "c3": "#3ecfa0", "c5": "#eebc4c", "c7": "#a8a8a8", "c8": "#b9a2ec",
}  # fmt: skip
_BASES = {"A": "c3", "C": "c1", "G": "c5", "T": "c2", "U": "c2"}
#: Amino acids by chemistry: basic, acidic, polar, neutral, hydrophobic.
_ACIDS = {"HKR": "c1", "DE": "c2", "CGSTY": "c3", "NQ": "c8", "AFILMPVW": "c5"}
_ALONE = (
    "@media (prefers-color-scheme: dark) { .page { fill: #1b1e22; } .tick { fill: #9aa1ab; }"
    + "".join(f" .letters .{name} {{ fill: {colour}; }}" for name, colour in _DARK.items())
    + " }"
)


@dataclass(frozen=True)
class Panel:
    """A sequence of stacks of letters, in lines of 60."""

    title: str
    letters: str
    #: shape (L, len(letters)): Of each letter at each position; negative values are drawn below the line.
    heights: Floats
    unit: str  #: Unit of the heights
    high: float | None = None  #: Height of a line; default that of its highest stack


def panel_of_symbols(title: str, text: str, heights: Floats, unit: str) -> Panel:
    """A text whose letters have heights, shape (len(text),)."""
    letters = "".join(sorted(set(text)))
    same = np.array([[letter == own for own in letters] for letter in text]).reshape(len(text), len(letters))
    return Panel(title, letters, same * heights[:, None], unit)


def panel_of_mutations(title: str, mutations: Mutations) -> Panel:
    """Letters of a text with the fall of its value when they are changed, for its most likely class."""
    side = int(mutations.values.argmax())
    towards = mutations.towards[side]
    unit = "fall of the value when the letter is changed" + ("" if towards is None else f", for {towards}")
    return panel_of_symbols(title, mutations.text, mutations.importance[side], unit)


def panel_of_motif(motif: Motif) -> Panel:
    """A motif in bits."""
    towards = "a higher number" if motif.towards is None else str(motif.towards)
    title = f"{towards}: the best {motif.kmers:,} k-mers, aligned"
    return Panel(title, motif.letters, motif.bits, "bits", float(np.log2(len(motif.letters))))


def document(panels: Sequence[Panel], title: str) -> str:
    """Logos below each other, as an SVG file."""
    return svg(panels, title, f"<style>{_ALONE}</style>", ' xmlns="http://www.w3.org/2000/svg"') + "\n"


def svg(panels: Sequence[Panel], title: str, style: str = "", more: str = "") -> str:
    """Logos below each other; with a `style` element a background is drawn, `more` are attributes."""
    parts, y, width = [], 0, 0
    for panel in panels:
        for line in _lines(panel, y):
            parts.append(line)
            y += TOP + HEIGHT + BOTTOM
        width = max(width, min(len(panel.heights), LINE))
    width = max(LEFT + RIGHT + CELL * width, 420)
    behind = f'<rect class="page" width="{width}" height="{y}" fill="#ffffff"/>' if style else ""
    letters = f'<g font-family="{_FONT}" font-size="12">{"".join(parts)}</g>'
    return (
        f'<svg class="logo"{more} viewBox="0 0 {width} {y}" width="{width}" height="{y}" role="img">'
        f"<title>{safe(title)}</title>{style}{behind}{letters}</svg>"
    )


def _lines(panel: Panel, y: int) -> Iterator[str]:
    """The lines of a panel, from pixel row y."""
    high = panel.high or float(np.maximum(panel.heights, 0).sum(axis=1).max(initial=0.0))
    low = float(np.minimum(panel.heights, 0).sum(axis=1).min(initial=0.0))
    scale = HEIGHT / (high - low) if high > low else 0.0
    for first in range(0, max(len(panel.heights), 1), LINE):
        line = y + TOP + high * scale
        part = panel.heights[first : first + LINE]
        parts = [_text(0, y + 13, f"{panel.title} ({panel.unit})" if not first else "", "tick")]
        marks = [(y + TOP, high), (y + TOP + HEIGHT, low)]
        for at, value in marks:
            if abs(at - line) > 12:  # would overlap the 0
                parts.append(_text(LEFT - 6, at + 4, plain(float(f"{value:.2g}")), "tick end"))
        parts.append(_text(LEFT - 6, line + 4, "0", "tick end"))
        right = LEFT + CELL * len(part)
        parts.append(f'<path class="axis" stroke="#808080" d="M{LEFT} {line:.1f}H{right}"/>')
        parts.append(f'<g class="letters" font-weight="700" font-size="{SIZE}">')
        for i, heights in enumerate(part.tolist()):
            parts += _stack(panel.letters, heights, LEFT + CELL * i, line, scale)
        parts.append("</g>")
        for number in range(first + 1, first + len(part) + 1):
            x = LEFT + CELL * (number - first - 1)
            if number % 10 == 0 or number == 1:
                parts.append(_text(x + CELL / 2, y + TOP + HEIGHT + 16, f"{number}", "tick mid"))
        yield "".join(parts)
        y += TOP + HEIGHT + BOTTOM


def _stack(letters: str, heights: list[float], x: float, line: float, scale: float) -> Iterator[str]:
    """The letters of one position: the smallest nearest to the line."""
    up = down = line
    for height, letter in sorted(zip(heights, letters, strict=True), key=lambda pair: abs(pair[0])):
        size = abs(height) * scale
        if size < 0.05:
            continue
        if height > 0:
            yield _letter(letter, letters, x, up, size)
            up -= size
        else:
            down += size
            yield _letter(letter, letters, x, down, size)


def _letter(letter: str, letters: str, x: float, bottom: float, size: float) -> str:
    text = letter.upper() if len(letter.upper()) == 1 else letter
    style = _style(text, letters.upper())
    stretch = f"translate({x:.1f} {bottom:.2f}) scale({CELL / SIZE:.3f} {size / (SIZE * CAPITAL):.4f})"
    return (
        f'<text class="{style}" fill="{COLOURS[style]}" transform="{stretch}" textLength="{SIZE}" '
        f'lengthAdjust="spacingAndGlyphs">{safe(text)}</text>'
    )


def _style(letter: str, letters: str) -> str:
    if set(letters) <= set("ACGTUN"):
        return _BASES.get(letter, "c7")
    return next((style for acids, style in _ACIDS.items() if letter in acids), "c7")


def _text(x: float, y: float, text: str, style: str) -> str:
    if not text:
        return ""
    anchor = {"end": "end", "mid": "middle"}.get(style.split()[-1], "start")
    return (
        f'<text class="{style}" x="{x:.1f}" y="{y:.1f}" fill="#656b75" text-anchor="{anchor}"'
        f">{safe(text)}</text>"
    )
