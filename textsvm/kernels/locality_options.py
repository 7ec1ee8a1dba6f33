"""The locality-improved kernel on the command line."""

from __future__ import annotations

from textsvm.kernels.option import SYMBOLS, Option, whole

OPTIONS = (
    Option("window", "positions of a window, odd", "NUMBER", "9", "5,9,15", whole, bare=True),
    Option("inner_degree", "power of a window's share of matches", "NUMBER", "4", "1,2,4", whole),
    Option("outer_degree", "power of the sum over windows", "NUMBER", "1", convert=whole),
    *SYMBOLS,
)
