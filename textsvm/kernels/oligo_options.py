"""The oligo kernel on the command line."""

from __future__ import annotations

from textsvm.kernels.option import SYMBOLS, Option, whole

OPTIONS = (
    Option("k", "length of the substrings", "NUMBER", "3", "2,3,4", whole, bare=True),
    Option("sigma", "positions that they may be apart, about", "NUMBER", "2", "1,4,16", float),
    *SYMBOLS,
)
