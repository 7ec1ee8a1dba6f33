"""How many columns a launch multiplies at a time: kernels are compiled for some widths."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from textsvm import device as gpu

Array = Any  # a CuPy array

#: Columns that kernels are compiled for.
WIDTHS = (1, 2, 4, 8)


def slices(k: int) -> Iterator[tuple[slice, int]]:
    """The columns that a kernel takes at once, and how many it is compiled for."""
    for first in range(0, k, WIDTHS[-1]):
        last = min(first + WIDTHS[-1], k)
        yield slice(first, last), next(width for width in WIDTHS if width >= last - first)


def padded(array: Array, width: int) -> Array:
    """An array with columns of zeros behind, contiguous."""
    cp = gpu.cupy()
    if array.shape[-1] == width:
        return cp.ascontiguousarray(array)
    out = cp.zeros((*array.shape[:-1], width), array.dtype)
    out[..., : array.shape[-1]] = array
    return out
