"""The weighted degree kernel on the command line."""

from __future__ import annotations

from textsvm.kernels.option import SYMBOLS, Option, whole

OPTIONS = (
    Option(
        "degree", "length of the longest substrings that count", "NUMBER", "8", "5,8,12", whole, bare=True
    ),
    Option("shift", "positions that they may be apart", "NUMBER", "0", convert=whole),
    *SYMBOLS,
)
