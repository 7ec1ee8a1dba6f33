"""The gap-weighted kernel of bounded span on the command line."""

from __future__ import annotations

from typing import Any

from textsvm.kernels.option import SYMBOLS, Option, whole

SPAN = "p+2"


def _span(text: str) -> int | None:
    return None if text == SPAN else whole(text)


def _span_text(params: dict[str, Any]) -> str:
    return SPAN if params["span"] is None else str(params["span"])


OPTIONS = (
    Option("p", "symbols of a subsequence", "LENGTH", "4", "3,4,5", whole, bare=True),
    Option("decay", "lambda in (0, 1], the cost of a symbol spanned", "NUMBER", "0.1", "0.05,0.1,0.2", float),
    Option("span", "symbols from the first to the last", "NUMBER", SPAN, convert=_span, text=_span_text),
    *SYMBOLS,
)
