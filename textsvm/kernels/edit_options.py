"""The edit-distance kernel on the command line."""

from __future__ import annotations

from textsvm.kernels.option import SYMBOLS, Option

OPTIONS = (
    Option("gamma", "exp(-gamma distance)", "NUMBER", "0.05", convert=float),
    Option("relative", "distance over the longer length"),
    *SYMBOLS,
)
