"""The features of a mail's text: which strings of four bytes it holds.

A text's UTF-8 bytes x_1 .. x_n have the p-mers x_i .. x_{i+p-1}. A feature counts once, however often it
occurs, and the vector of a text has unit length: with m distinct p-mers every value is 1 / sqrt(m), so that
the product of two texts is the cosine of their sets, |A & B| / sqrt(|A| |B|). These are the features with
which Sculley and Wachman (2007) won TREC's spam track: they need no words, and so stand spelling tricks,
and any language. Only the first `MOST_BYTES` bytes are read: what a mail is shows at its beginning, and a long
one costs no more than they do.

A p-mer is packed into 64 bits: p in the highest byte, its bytes below, the first one highest. So keys of
different p differ, and in ascending order p-mers stand in the order of their bytes.

This file needs NumPy alone, for a process that decides on one mail.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

#: Bytes of a p-mer.
P = 4
#: Bytes of a text that are read.
MOST_BYTES = 6000


def features(text: str) -> tuple[NDArray[np.uint64], NDArray[np.float32]]:
    """The distinct p-mers of a text, and values of unit length.

    Parameters
    ----------
    text : str

    Returns
    -------
    keys : uint64 array, shape (m,)
        Ascending; none of a text of fewer than `P` bytes.
    values : float32 array, shape (m,)
        All equal, of unit length together.
    """
    data = text[:MOST_BYTES].encode("utf-8", "surrogatepass")[:MOST_BYTES]
    codes = np.frombuffer(data, np.uint8).astype(np.uint32)
    n = max(len(codes) - P + 1, 0)
    packed = np.zeros(n, np.uint32)
    for k in range(P):
        packed = packed << np.uint32(8) | codes[k : k + n]
    keys = np.unique(packed).astype(np.uint64) | np.uint64(P << 56)
    return keys, np.full(len(keys), 1 / np.sqrt(max(len(keys), 1)), np.float32)


def spelled(key: int) -> str:
    """The p-mer of a key, for people; bytes that are not UTF-8 as \\xNN."""
    key = int(key)
    return (key & (1 << 56) - 1).to_bytes(7, "big")[7 - (key >> 56) :].decode("utf-8", "backslashreplace")
