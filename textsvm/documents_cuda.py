"""Documents on a card: the one form that every launch reads texts in."""

from __future__ import annotations

from typing import Any

import numpy as np

from textsvm import device as devices
from textsvm.documents import Documents


class DeviceDocuments:
    """Documents, uploaded to the current card.

    Parameters
    ----------
    documents : Documents, n of them
    dtype : {numpy.uint8, numpy.uint16, numpy.uint32}, optional
        Of the codes on the card; as in `documents` by default, and at least as wide.

    Attributes
    ----------
    n : int
    size : int
        Symbols of all documents.
    n_symbols : int
        Size of the alphabet.
    lengths : int64 array, shape (n,)
        On the host.
    codes : CuPy uint8, uint16 or uint32 array, shape (size,)
    offsets : CuPy int64 array, shape (n + 1,)
        Document i is ``codes[offsets[i]:offsets[i + 1]]``.

    Raises
    ------
    InputError
        If the card has not the memory.
    """

    def __init__(self, documents: Documents, dtype: Any = None) -> None:
        cp = devices.cupy()
        codes = np.asarray(documents.codes, dtype)
        self.n, self.size, self.n_symbols = len(documents), len(codes), len(documents.alphabet)
        self.lengths = documents.lengths
        devices.require_memory(codes.nbytes + documents.offsets.nbytes, "the documents")
        self.codes, self.offsets = cp.asarray(codes), cp.asarray(documents.offsets)
