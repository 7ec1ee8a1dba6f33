"""The gap-weighted kernel on the command line."""

from __future__ import annotations

from typing import Any

from textsvm.kernels.option import SYMBOLS, Option, lengths


def _p(low_and_high: tuple[int, int]) -> dict[str, Any]:
    """A range is the blend of its lengths."""
    low, high = low_and_high
    weights = None if low == high else tuple(float(q >= low) for q in range(1, high + 1))
    return {"p": high, "weights": weights}


def _p_text(params: dict[str, Any]) -> str:
    """Other weights than those of a range have no text."""
    p, weights = params["p"], params["weights"]
    return str(p) if weights is None else f"{1 + sum(weight == 0 for weight in weights)}-{p}"


OPTIONS = (
    Option(
        "p",
        "length of what is compared, or a range such as 3-5",
        "LENGTH",
        "5",
        "3,4,5",
        lengths,
        _p,
        _p_text,
        bare=True,
    ),
    Option("decay", "lambda in (0, 1], the cost of a symbol spanned", "NUMBER", "0.5", convert=float),
    *SYMBOLS,
)
