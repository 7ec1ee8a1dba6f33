"""The p-spectrum kernel on the command line."""

from __future__ import annotations

from typing import Any

from textsvm.kernels.option import SYMBOLS, Option, lengths, one_of

WEIGHTS = ("count", "presence", "intersection", "log")


def _p(low_and_high: tuple[int, int]) -> dict[str, Any]:
    low, high = low_and_high
    return {"p": low if low == high else low_and_high}


def _p_text(params: dict[str, Any]) -> str:
    p = params["p"]
    return f"{p[0]}-{p[1]}" if isinstance(p, tuple | list) else str(p)


OPTIONS = (
    Option(
        "p",
        "length of what is compared, or a range such as 3-5",
        "LENGTH",
        "4",
        "3,4,5",
        lengths,
        _p,
        _p_text,
        bare=True,
    ),
    Option("weight", "what a count weighs", "|".join(WEIGHTS), "count", convert=one_of(*WEIGHTS), bare=True),
    Option("idf", "rare substrings weigh more"),
    Option("odds", "substrings that tell classes apart weigh more"),
    *SYMBOLS,
)
