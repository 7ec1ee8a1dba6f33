"""Kernels of columns on the command line: they are spelled out, see spelling.py."""

from __future__ import annotations

from textsvm.kernels.option import Option

OPTIONS: tuple[Option, ...] = ()
