"""Distinct p-mers of a string of bytes, packed into keys of 64 bits, with NumPy alone.

The mail filter imports this module for each decision, so it must stay light. p is in the highest byte of a
key, the bytes of the p-mer are below, the first byte highest: keys of different p differ, and keys of equal p
ascend with the bytes of their p-mers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["LONGEST", "byte_pmers", "spelled", "unit"]

LONGEST = 7  #: Largest p: seven bytes fit beside it.


def byte_pmers(data: bytes, p: int) -> NDArray[np.uint64]:
    """Keys of the distinct p-mers of `data`, ascending; p from 1 to 7."""
    codes = np.frombuffer(data, np.uint8)
    n = max(len(codes) - p + 1, 0)
    kind: Any = np.uint32 if p <= 4 else np.uint64
    packed = np.zeros(n, kind)
    for k in range(p):
        packed = packed << kind(8) | codes[k : k + n]
    return np.unique(packed).astype(np.uint64) | np.uint64(p << 56)


def unit(keys: NDArray[np.uint64]) -> NDArray[np.float32]:
    """Equal values for all keys; the vector has unit length."""
    return np.full(len(keys), 1 / np.sqrt(max(len(keys), 1)), np.float32)


def spelled(key: int) -> str:
    """Text of the p-mer of a key; bytes that are not UTF-8 as ``\\\\xNN``."""
    p, code = int(key) >> 56, int(key) & (1 << 56) - 1
    return code.to_bytes(LONGEST, "big")[LONGEST - p :].decode("utf-8", "backslashreplace")
