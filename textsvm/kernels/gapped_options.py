"""The kernel of gapped k-mers on the command line."""

from __future__ import annotations

from textsvm.kernels.option import SYMBOLS, Option, one_of, whole

WEIGHTS = ("count", "presence", "log")


OPTIONS = (
    Option("g", "symbols of a window", "NUMBER", "9", convert=whole, bare=True),
    Option("m", "positions of a window that may hold anything", "NUMBER", "3", convert=whole),
    Option("canonical", "a sequence of DNA or RNA is its reverse complement too"),
    Option("weight", "what a count weighs", "|".join(WEIGHTS), "log", convert=one_of(*WEIGHTS), bare=True),
    *SYMBOLS,
)
