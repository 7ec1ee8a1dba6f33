"""What a filter knows a mail by: which strings of four bytes its header fields and its text hold.

The UTF-8 bytes x_1 .. x_n of a text have the 4-mers x_i .. x_{i+3}. A feature counts once, however often it
occurs, and the vector of a mail has unit length: with m distinct 4-mers every value is 1 / sqrt(m), and the
product of two mails is the cosine of their sets, |A & B| / sqrt(|A| |B|). These are the features with
which Sculley and Wachman (2007) won TREC's spam track: they need no words, and so stand spelling tricks, and
any language. What `read_message` gives up to its first empty line are the header fields; their 4-mers are
other features than those of the text below. ASCII letters are read as small ones, digits as 0. Only the
beginnings of both are read: what a mail is shows there, and a long one costs no more than they do.

Measured: reports/mail.md.

This file needs NumPy alone, for a process that decides on one mail.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from textsvm.kernels.spectrum.byte_pmers import byte_pmers, spelled, unit

__all__ = ["HEADER", "MOST_BYTES", "MOST_HEADER", "P", "blocks", "features", "parted", "spelled"]

#: Bytes of a feature.
P = 4
#: Bytes that are read of the header fields, and of the text below.
MOST_HEADER, MOST_BYTES = 3000, 10_000
#: In the keys of header fields; above the bytes of a 4-mer, and near enough for keys to be kept as gaps.
HEADER = 1 << 32
#: What each byte is read as.
_READ = bytes(range(256)).lower().translate(bytes.maketrans(b"123456789", b"000000000"))


def features(text: str) -> tuple[NDArray[np.uint64], NDArray[np.float32]]:
    """The distinct 4-mers of a mail, and values of unit length.

    Parameters
    ----------
    text : str
        As `textsvm.mail.message.read_message` gives it.

    Returns
    -------
    keys : uint64 array, shape (m,)
        Ascending; see `textsvm.kernels.spectrum.byte_pmers`. Those of header fields have `HEADER` besides.
    values : float32 array, shape (m,)
        All equal, of unit length together.
    """
    fields, below = (byte_pmers(block, P) for block in blocks(text))
    keys = np.concatenate([below, fields | np.uint64(HEADER)])
    return keys, unit(keys)


def parted(text: str) -> tuple[str, str]:
    """A mail's header fields, and the text below the empty line; without one there are no fields."""
    fields, empty, below = text.partition("\n\n")
    return (fields, below) if empty else ("", text)


def blocks(text: str) -> tuple[bytes, bytes]:
    """What is read of both parts of a mail."""
    fields, below = parted(text)
    return _read(fields, MOST_HEADER), _read(below, MOST_BYTES)


def _read(block: str, most: int) -> bytes:
    return block[:most].encode("utf-8", "surrogatepass")[:most].translate(_READ)
