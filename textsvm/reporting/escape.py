"""Text of documents for pages and terminals: escaped, visible white space, runs of one colour."""

from __future__ import annotations

import unicodedata
from html import escape
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.errors import printable

__all__ = ["levels", "printable", "runs", "safe", "visible"]

#: Colours on each side.
LEVELS = 4


def safe(value: Any) -> str:
    """Text as HTML that shows it: escaped, and what no page may hold replaced."""
    return escape(printable(str(value)))


def visible(text: str) -> str:
    """A substring with visible white space."""
    return printable(text.replace(" ", "␣").replace("\n", "⏎").replace("\t", "⇥"))


def levels(symbols: NDArray[np.float64]) -> NDArray[np.int64]:
    """Contributions as steps of colour, -LEVELS..LEVELS; the strongest symbols get the last one."""
    if not len(symbols):
        return np.zeros(0, np.int64)
    strongest = np.percentile(np.abs(symbols), 98) or np.abs(symbols).max()
    if strongest == 0:
        return np.zeros(len(symbols), np.int64)
    steps = np.minimum(np.floor(np.abs(symbols) / strongest * LEVELS + 0.3), LEVELS)
    return (np.sign(symbols) * steps).astype(np.int64)


def runs(text: str, symbols: NDArray[np.float64]) -> list[tuple[str, int]]:
    """Pieces of text of one step of colour; a combining mark goes with what it stands on."""
    steps = levels(symbols).tolist()
    for i, symbol in enumerate(text):
        if i and unicodedata.combining(symbol):
            steps[i] = steps[i - 1]
    pairs = groupby(zip(text, steps, strict=True), key=lambda pair: pair[1])
    return [("".join(symbol for symbol, _ in run), step) for step, run in pairs]
