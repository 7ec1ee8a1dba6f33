"""The sigmoid kernel of vectors on the command line."""

from __future__ import annotations

from textsvm.kernels.option import COEF0, GAMMA

OPTIONS = (
    GAMMA,
    COEF0,
)
