"""The kernel of gapped k-mers on the command line."""

from __future__ import annotations

from textsvm.errors import InputError
from textsvm.kernels.option import SYMBOLS, Option, one_of

WEIGHTS = ("count", "presence", "log")


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InputError("is no whole number") from None


OPTIONS = (
    Option("g", "symbols of a window", "NUMBER", "9", convert=_whole, bare=True),
    Option("m", "positions of a window that may hold anything", "NUMBER", "3", convert=_whole),
    Option("canonical", "a sequence of DNA or RNA is its reverse complement too"),
    Option("weight", "what a count weighs", "|".join(WEIGHTS), "log", convert=one_of(*WEIGHTS), bare=True),
    *SYMBOLS,
)
