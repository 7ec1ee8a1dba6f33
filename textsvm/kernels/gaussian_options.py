"""The gaussian kernel of vectors on the command line."""

from __future__ import annotations

from textsvm.kernels.option import GAMMA

OPTIONS = (GAMMA,)
