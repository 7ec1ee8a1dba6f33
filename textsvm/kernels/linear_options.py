"""The linear kernel of vectors on the command line: it has no option."""

from __future__ import annotations

from textsvm.kernels.option import Option

OPTIONS: tuple[Option, ...] = ()
