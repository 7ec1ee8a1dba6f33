"""Neighbours as a sparse matrix in a file, for `scipy.sparse.load_npz`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from textsvm.kernels.near import Pairs
from textsvm.runtime.files import replacing


def write_pairs(
    path: str | os.PathLike[str], pairs: Pairs, ids: Sequence[str], column_ids: Sequence[str]
) -> None:
    """Write values, in the order of rows and columns; the file is there complete or not at all.

    `numpy.load` finds ids, column_ids, and distances in the order of the values, where there are any.

    Raises
    ------
    InputError
        If the file cannot be written.
    """
    order = np.lexsort((pairs.columns, pairs.rows))
    pairs = pairs.take(order)
    shape = (len(ids), len(column_ids))
    matrix = csr_array((pairs.values, (pairs.rows, pairs.columns)), shape=shape)
    arrays: dict[str, Any] = {"format": np.array(b"csr"), "shape": np.array(shape, np.int64)}
    arrays |= {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr}
    arrays |= {"ids": np.array(ids, str), "column_ids": np.array(column_ids, str)}
    if pairs.distances is not None:
        arrays["distances"] = pairs.distances
    with replacing(path) as temporary, open(temporary, "wb") as stream:
        np.savez_compressed(stream, **arrays)
