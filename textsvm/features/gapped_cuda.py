"""Documents -> gapped k-mers, the launches of kernels_cu/gapped.cu: `features.gapped`, on a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from textsvm import device as gpu
from textsvm.features.gapped import MaskedWindows, Stage, Windows
from textsvm.features.pmers_cuda import documents_of

Array = Any  # a CuPy array
SOURCE = "gapped.cu"
#: What may be launched: (source, defines).
DEFINE_SETS: list[tuple[str, gpu.Defines]] = [(SOURCE, ())]
#: Keys of which a table is made, whatever the number of windows.
TABLE = 1 << 24


class CudaWindows:
    """Windows, uploaded to the current card: texts for `pmers_cuda`, each window a symbol.

    Parameters
    ----------
    windows : Windows

    Attributes
    ----------
    n, size, n_symbols : int
        Documents, windows, and size of the alphabet of the codes.
    codes, starts : int32 array; int64 array, shape (size,)
    offsets : int64 array, shape (n + 1,)
        Where the windows of each document begin.
    document : int32 array, shape (size,)
        Of each window.
    """

    def __init__(self, windows: Windows) -> None:
        cp = gpu.cupy()
        self.n, self.size, self.n_symbols = len(windows.indptr) - 1, len(windows.starts), windows.n_symbols
        gpu.require_memory(64 * self.size, f"counting gapped k-mers of {self.size:,} windows")
        self.codes, self.starts = cp.asarray(windows.codes), cp.asarray(windows.starts)
        self.offsets = cp.asarray(windows.indptr)
        self.document = documents_of(self.offsets, self.n, self.size)


class CudaMaskedWindows(MaskedWindows):
    """`MaskedWindows` with arrays on the device."""

    @staticmethod
    def rank(windows: Any, kept: Array, ids: Array, bound: int) -> tuple[Stage, Array]:
        cp = gpu.cupy()
        if not windows.size:
            return Stage(kept, cp.empty(0, np.uint64), None), ids
        keys = CudaMaskedWindows.keys_of(windows, kept, ids, windows.n_symbols)
        if bound > max(TABLE, 4 * windows.size):
            distinct, found = cp.unique(keys, return_inverse=True)
            return Stage(kept, distinct.astype(np.uint64), None), found.astype(np.int32)
        seen = cp.zeros(bound, bool)
        seen[keys] = True
        ranks = cp.where(seen, cp.cumsum(seen, dtype=np.int32) - 1, -1).astype(np.int32)
        return Stage(kept, cp.flatnonzero(seen).astype(np.uint64), ranks), ranks[keys]

    @staticmethod
    def keys_of(windows: Any, kept: Array, ids: Array, n_symbols: int) -> Array:
        cp = gpu.cupy()
        keys, places = cp.empty(windows.size, np.int64), cp.asarray(kept.astype(np.int32))
        ids = ids.astype(np.int64, copy=False)
        sizes = (windows.codes, windows.starts, places, np.int32(len(kept)), ids, np.int64(n_symbols))
        gpu.each(gpu.function(SOURCE, "masked_keys"), windows.size, *sizes, keys)
        return keys


class MaskTokens:
    """The windows under one mask as `pmers_cuda.CudaCounts` takes them: substrings of one symbol.

    Parameters
    ----------
    windows : CudaWindows
    ids : int32 array, shape (number of windows,)
    n_pmers : int
        Number of ids.
    """

    def __init__(self, windows: CudaWindows, ids: Array, n_pmers: int) -> None:
        self.text, self.document, self.n_pmers = windows, windows.document, n_pmers
        self.ids, self.sizes = [(1, ids)], {1: n_pmers}

    def windows(self, q: int) -> int:
        """Number of substrings."""
        return self.text.size
