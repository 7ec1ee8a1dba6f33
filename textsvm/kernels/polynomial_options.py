"""The polynomial kernel of vectors on the command line."""

from __future__ import annotations

from textsvm.kernels.option import COEF0, GAMMA, Option, whole

OPTIONS = (
    Option("degree", "degree of the polynomial", "NUMBER", "3", convert=whole),
    GAMMA,
    COEF0,
)
