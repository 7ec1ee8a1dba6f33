"""Machines as one weight a feature: products with them on all cores, and their smallest exact form as arrays.

The p-mers of a vocabulary (vocabulary.py) are saved as pairs, as they were found: for each p-mer of the
length that one begins with, how many begin with it ("begins_q"), and what each ends with ("ends_q"). That is
about two bytes a p-mer where its key takes eight. No text can be had from it beyond its p-mers.

Weights are rows, one for each feature that has a weight other than 0 ("weighed", a bit for each feature).
Where most values of the rows are 0, as with many classes, only the others are kept, with their machines.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.errors import InputError
from textsvm.kernels.spectrum.counting import share
from textsvm.kernels.spectrum.vocabulary import Vocabulary, plan
from textsvm.linalg.sparse import Sparse, feature_type
from textsvm.runtime import device as devices
from textsvm.runtime.compiled import few, njit

Array = NDArray[Any]
#: Bytes of memory that sparse weights may take, whatever their bytes in a file, and how many times those.
ROOM, MOST_TIMES = 1 << 28, 500


@dataclass(frozen=True)
class WeightVectors:
    """The weights of machines, for the features of some p-mers; on the host.

    Attributes
    ----------
    vocabulary : Vocabulary
    starts : int64 array, shape (number of p-mers + 1,)
        Where the features of each p-mer start.
    row : int32 or int64 array, shape (n_features + 1,)
        The row of `weights` of each feature, -1 if all of its weights are 0; behind them -1.
    weights : float32 or float64 array, shape (n_rows, n_machines)
    """

    vocabulary: Vocabulary
    starts: NDArray[np.int64]
    row: NDArray[np.signedinteger]
    weights: NDArray[np.floating]

    @classmethod
    def of(
        cls, vocabulary: Vocabulary, starts: NDArray[np.int64], dense: NDArray[np.floating]
    ) -> WeightVectors:
        """From all weights, shape (n_features, n_machines)."""
        weighed = (dense != 0).any(axis=1)
        return cls(vocabulary, starts, _rows_of(weighed), dense[weighed])

    def over(self, vocabulary: Vocabulary) -> WeightVectors:
        """The same over a vocabulary that has all p-mers of this one.

        Raises
        ------
        InputError
            If it has not.
        """
        found, lengths = vocabulary.find(self.vocabulary), np.diff(self.starts)
        if (found < 0).any():
            raise InputError("the kernel did not learn from the support vectors; train the model again")
        longer = np.ones(int(vocabulary.first[-1]), np.int64)
        longer[found] = lengths
        starts = np.concatenate([[0], np.cumsum(longer)])
        row = np.full(starts[-1] + 1, -1, self.row.dtype)
        row[np.repeat(starts[found] - self.starts[:-1], lengths) + np.arange(self.starts[-1])] = self.row[:-1]
        return WeightVectors(vocabulary, starts, row, self.weights)

    def state(self, tolerance: float, unary: bool) -> dict[str, NDArray[Any]]:
        """Arrays that `from_state` reads.

        Parameters
        ----------
        tolerance : float
            How far values of documents of length 1 may move: float32 weights where that holds them.
        unary : bool
            Whether a p-mer may have several features.
        """
        weighed = self.row[:-1] >= 0
        rows = _rounded(self.weights[self.row[:-1][weighed]], tolerance)
        state = {"weighed": np.packbits(weighed), "machines": np.array([rows.shape[1]])}
        if unary:
            state["features"] = _small(np.diff(self.starts))
        return state | _packed_rows(rows)

    @classmethod
    def from_state(cls, state: dict[str, NDArray[Any]], vocabulary: Vocabulary, unary: bool) -> WeightVectors:
        """Read and check what `state` gave, of features of the p-mers of `vocabulary`.

        Raises
        ------
        KeyError, ValueError
            If it is damaged.
        """
        bits, n_pmers = state["weighed"], int(vocabulary.first[-1])
        if bits.dtype != np.uint8 or bits.ndim != 1:
            raise ValueError("what is weighed is not one row of bits")
        starts = np.arange(n_pmers + 1)
        if unary:
            features = _whole(state, "features")
            if len(features) != n_pmers or (len(features) and features.min() < 1):
                raise ValueError("features do not match the keys")
            starts = np.concatenate([[0], np.cumsum(features, dtype=np.float64)])
            if starts[-1] > 8 * len(bits):  # before so many are made
                raise ValueError("what is weighed does not match the features")
        n_features = int(starts[-1])
        if len(bits) != -(-n_features // 8) or np.unpackbits(bits)[n_features:].any():
            raise ValueError("what is weighed does not match the features")
        weighed = np.unpackbits(bits, count=n_features).astype(bool)
        rows = _read_rows(state, int(weighed.sum()))
        return cls(vocabulary, starts.astype(np.int64), _rows_of(weighed), rows)


def pack(vocabulary: Vocabulary) -> dict[str, NDArray[Any]]:
    """The keys of a vocabulary as arrays that `unpack` reads."""
    state = {}
    for q, a, b in plan(vocabulary.p1, vocabulary.p2):
        width = np.uint64(max(vocabulary.size(b), 1))
        begins = (vocabulary.keys[q] // width).astype(np.int64)
        state[f"begins_{q}"] = _small(np.bincount(begins, minlength=vocabulary.size(a)))
        state[f"ends_{q}"] = _small(vocabulary.keys[q] % width)
    return state


def unpack(state: dict[str, NDArray[Any]], p1: int, p2: int, n_symbols: int) -> dict[str, NDArray[np.uint64]]:
    """The keys of each length as "keys_q", not checked to ascend; raises ValueError if they are damaged."""
    keys: dict[str, NDArray[np.uint64]] = {}
    sizes = {1: n_symbols}
    for q, a, b in plan(p1, p2):
        if f"ends_{q}" not in state:
            break  # and no longer one either
        begins, ends = _whole(state, f"begins_{q}"), _whole(state, f"ends_{q}")
        if len(begins) != sizes[a] or begins.sum(dtype=np.float64) != len(ends):
            raise ValueError(f"begins_{q} does not match ends_{q}")
        if len(ends) and ends.max() >= sizes[b]:
            raise ValueError(f"ends_{q} is out of range")
        left = np.repeat(np.arange(len(begins), dtype=np.uint64), begins.astype(np.int64))
        keys[f"keys_{q}"] = left * np.uint64(sizes[b]) + ends.astype(np.uint64)
        sizes[q] = len(ends)
    return keys


def dot(x: Sparse, target: NDArray[np.signedinteger], dense: NDArray[np.float64]) -> NDArray[np.float64]:
    """X @ dense on all cores, feature u of X being row `target[u]` of `dense`, and left out where it is -1.

    Parameters
    ----------
    x : Sparse, n rows
    target : int32 or int64 array, shape (x.n_features,)
    dense : float64 array, shape (n_rows, n_machines)

    Returns
    -------
    float64 array, shape (n, n_machines)
    """
    out, dense = np.zeros((len(x), dense.shape[1])), np.ascontiguousarray(dense)
    if few(len(x.values) * dense.shape[1]):
        known = target[x.features] >= 0
        owner = np.repeat(np.arange(len(x)), np.diff(x.indptr))[known]
        terms = x.values[known, None].astype(np.float64) * dense[target[x.features[known]]]
        for c, column in enumerate(terms.T):
            out[:, c] = np.bincount(owner, column, len(x))
        return out
    if dense.shape[1] == 1:
        arrays = (x.indptr, x.features, x.values, target, dense[:, 0], out[:, 0])
        share(x.indptr, lambda first, last: _dot_one(*arrays, first, last))
    else:
        several = (x.indptr, x.features, x.values, target, dense, out)
        share(x.indptr, lambda first, last: _dot(*several, first, last))
    return out


@njit(nogil=True, cache=True)
def _dot_one(
    indptr: Array,
    features: Array,
    values: Array,
    target: Array,
    dense: Array,
    out: Array,
    first: int,
    last: int,
) -> None:
    for i in range(first, last):
        total = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            row = target[features[k]]
            if row >= 0:
                total += np.float64(values[k]) * dense[row]
        out[i] = total


@njit(nogil=True, cache=True)
def _dot(
    indptr: Array,
    features: Array,
    values: Array,
    target: Array,
    dense: Array,
    out: Array,
    first: int,
    last: int,
) -> None:
    for i in range(first, last):
        for k in range(indptr[i], indptr[i + 1]):
            row = target[features[k]]
            if row >= 0:
                value = np.float64(values[k])
                for machine in range(dense.shape[1]):
                    out[i, machine] += value * dense[row, machine]


def _rows_of(weighed: NDArray[np.bool_]) -> NDArray[np.signedinteger]:
    """The number of each that is weighed among those; -1 for the others, and behind them."""
    row = np.full(len(weighed) + 1, -1, feature_type(len(weighed)))
    row[:-1][weighed] = np.arange(np.count_nonzero(weighed))
    return row


def _rounded(weights: NDArray[np.floating], tolerance: float) -> NDArray[np.floating]:
    """The weights as float32 if no document of length 1 has a value that moves further than `tolerance`.

    The difference of two weight vectors times such a document is at most the length of the difference.
    """
    shorter = weights.astype(np.float32)
    moved = np.sqrt(np.square(shorter - weights.astype(np.float64)).sum(axis=0)).max(initial=0)
    return shorter if moved <= tolerance else weights


def _packed_rows(rows: NDArray[np.floating]) -> dict[str, NDArray[Any]]:
    """Rows as they take less space: all of their values, or those other than 0 with their machines."""
    owner, machine = np.nonzero(rows)
    each, of = _small(np.bincount(owner, minlength=len(rows))), _small(machine)
    if each.nbytes + of.nbytes + rows.itemsize * len(of) >= rows.nbytes:
        return {"weights": rows}
    return {"weights": rows[owner, machine], "weights_each": each, "weights_of": of}


def _read_rows(state: dict[str, NDArray[Any]], n_rows: int) -> NDArray[np.floating]:
    weights, shape = state["weights"], (n_rows, *sizes_of(state, "machines", 1))
    if weights.dtype not in (np.float32, np.float64) or not np.isfinite(weights).all():
        raise ValueError("weights are no finite numbers")
    if "weights_of" not in state:
        if weights.shape != shape:
            raise ValueError("weights do not match the features and machines")
        return weights
    each, machine = _whole(state, "weights_each"), _whole(state, "weights_of")
    if not len(weights) == len(machine) == each.sum(dtype=np.float64) or len(each) != n_rows:
        raise ValueError("weights do not match the features")
    if len(machine) and machine.max() >= shape[1]:
        raise ValueError("weights do not match the machines")
    need, free = weights.itemsize * n_rows * shape[1], devices.free_memory(devices.select("cpu"))
    if need > free:
        raise InputError(f"its weights take {need:,} bytes of memory and {free:,} are free")
    held = weights.nbytes + each.nbytes + machine.nbytes
    if need > max(ROOM, MOST_TIMES * held):
        raise InputError(f"its weights would take {need:,} bytes of memory and {held:,} in the file")
    rows = np.zeros(shape, weights.dtype)
    rows[np.repeat(np.arange(n_rows), each.astype(np.int64)), machine] = weights
    return rows


def sizes_of(state: dict[str, NDArray[Any]], name: str, n: int) -> list[int]:
    """The n sizes that an array holds; raises ValueError if it does not."""
    array = state[name]
    if array.dtype != np.int64 or array.shape != (n,) or (array < 0).any():
        raise ValueError(f"{name} are no sizes")
    sizes: list[int] = array.tolist()
    return sizes


def _small(numbers: NDArray[Any]) -> NDArray[np.unsignedinteger]:
    """The same in the smallest type that holds them."""
    small: NDArray[np.unsignedinteger] = numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))))
    return small


def _whole(state: dict[str, NDArray[Any]], name: str) -> NDArray[np.unsignedinteger]:
    array = state[name]
    if array.dtype.kind != "u" or array.ndim != 1:
        raise ValueError(f"{name} is not one row of unsigned integers")
    return array
