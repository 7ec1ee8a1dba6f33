"""Types of arrays, and of data without a static type (`Any` elsewhere stands for callers' data); runs."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array: TypeAlias = Any  #: NumPy or CuPy array, also a sparse matrix of SciPy or CuPy; the device decides.
#: NumPy array of any type of elements.
AnyArray: TypeAlias = NDArray[Any]
Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]
Floats32: TypeAlias = NDArray[np.float32]
Ints32: TypeAlias = NDArray[np.int32]
Words: TypeAlias = NDArray[np.uint64]  #: Keys of p-mers, and sets of bits.
#: int32 or int64, as few bytes as the largest number needs.
SignedInts: TypeAlias = NDArray[np.signedinteger]
UnsignedInts: TypeAlias = NDArray[np.unsignedinteger]  #: uint8, uint16 or uint32, such as codes of symbols.
Json: TypeAlias = dict[str, Any]  #: Object of a JSON document.
Arrays: TypeAlias = dict[str, NDArray[Any]]  #: Arrays of a file, by name.


def runs_of(numbers: AnyArray) -> list[tuple[int, int]]:
    """First and end of each run of equal numbers."""
    cuts = np.flatnonzero(np.diff(numbers)) + 1
    return list(pairwise([0, *cuts.tolist(), len(numbers)])) if len(numbers) else []


def distinct_of(values: AnyArray) -> AnyArray:
    """Distinct values, sorted; np.unique, which hashes them, takes up to thirty times as long."""
    ordered = np.sort(values)
    return ordered[np.append([True], ordered[1:] != ordered[:-1])[: len(ordered)]]


def first_true(mask: ArrayLike) -> int | None:
    """Index of the first true value; None if all are false."""
    places = np.flatnonzero(mask)
    return int(places[0]) if len(places) else None
