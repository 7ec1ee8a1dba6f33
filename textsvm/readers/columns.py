"""Columns of a corpus: texts, in memory or stored, numbers, dense and sparse vectors. Light to import."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import pairwise
from typing import Any

from textsvm.errors import InputError
from textsvm.text.stored import StoredTexts


def take(values: Any, indices: Sequence[int]) -> Any:
    """The values at `indices`, in that order."""
    if hasattr(values, "dtype"):
        return values[indices]
    return values.take(indices) if isinstance(values, StoredTexts) else [values[i] for i in indices]


def some(examples: Any, indices: Sequence[int]) -> Any:
    """The examples at `indices`: texts, vectors, or a dict of columns (`Corpus.examples`)."""
    if isinstance(examples, dict):
        return {name: take(values, indices) for name, values in examples.items()}
    return take(examples, indices)


def number_column(values: Sequence[Any]) -> Any:
    """Numbers as a float64 array."""
    import numpy as np

    return np.array(values, np.float64)


def join(parts: Sequence[Any]) -> Any:
    """Lists, arrays or sparse matrices as one; of these the widest has the number of columns."""
    if len(parts) == 1:
        return parts[0]
    import numpy as np
    from scipy import sparse

    if sparse.issparse(parts[0]):
        width = max(each.shape[1] for each in parts)
        for each in parts:
            each.resize(each.shape[0], width)
        return sparse.vstack(parts, "csr")
    if isinstance(parts[0], np.ndarray):
        if len({each.shape[1:] for each in parts}) > 1:
            raise InputError("vectors of several files have different numbers of columns")
        return np.concatenate(parts)
    return [each for part in parts for each in part]


def bytes_of(values: Any) -> Iterator[bytes]:
    """Texts, numbers or vectors, one by one."""
    if hasattr(values, "indptr"):
        starts = values.indptr.tolist()
        for a, b in pairwise(starts):
            yield values.indices[a:b].tobytes() + values.data[a:b].tobytes()
    elif hasattr(values, "dtype"):
        yield from (row.tobytes() for row in values)
    else:
        yield from (text.encode("utf-8", "surrogatepass") for text in values)


def digest(*parts: bytes) -> bytes:
    made = blake2b(digest_size=16)
    for each in parts:
        made.update(len(each).to_bytes(8, "little") if len(parts) > 1 else b"")
        made.update(each)
    return made.digest()
