"""Machines as weight vectors over features: products on all cores, and their smallest exact saved form.

The keys of a vocabulary (shared/counting.py) are saved in two arrays per length q: "begins_q", the number of
p-mers that begin with each p-mer of the first part, and "ends_q", the second part of each p-mer. This takes
about two bytes per p-mer; a key takes eight. Of the texts, the file reveals nothing but their p-mers.

Only features with a nonzero weight have a row of weights ("weighed", a bit per feature). If most values of
the rows are 0, as with many classes, only nonzero values are kept, with their machines.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from textsvm.arrays import AnyArray, Array, Arrays, Bools, Ints, SignedInts, UnsignedInts, Words
from textsvm.errors import InputError
from textsvm.kernels.shared.counting import Vocabulary, plan
from textsvm.linalg.factored import keep_sparse, scipy_sparse
from textsvm.linalg.sparse import MAX_INT32, index_type
from textsvm.runtime import device as devices
from textsvm.runtime.compiled import scipy

#: Sparse weights that are read may use ROOM bytes of memory, or MOST_TIMES their size in the file.
ROOM = 1 << 28
MOST_TIMES = 500


@dataclass(frozen=True)
class WeightVectors:
    """Weight vectors of machines over the features of p-mers, on the host."""

    vocabulary: Vocabulary
    starts: Ints  #: shape (number of p-mers + 1,): First feature of each p-mer
    #: int32 or int64 array, shape (n_features + 1,): Row of `weights` of each feature, -1 if all of its
    #: weights are 0; the last entry is -1.
    row: SignedInts
    weights: Array  #: float32 or float64 array or csr_array, shape (n_rows, n_machines)

    @classmethod
    def of(cls, vocabulary: Vocabulary, starts: Ints, weights: Array) -> WeightVectors:
        """From weights, shape (n_features, n_machines)."""
        weighed = (weights != 0).sum(axis=1) > 0
        return cls(vocabulary, starts, _rows_of(weighed), weights if weighed.all() else weights[weighed])

    def over(self, vocabulary: Vocabulary) -> WeightVectors:
        """Renumber to a vocabulary that contains this vocabulary; InputError if it does not."""
        pmers, lengths = vocabulary.find(self.vocabulary), np.diff(self.starts)
        if (pmers < 0).any():
            raise InputError("the kernel did not learn from the support vectors; train the model again")
        longer = np.ones(int(vocabulary.first[-1]), np.int64)
        longer[pmers] = lengths
        starts = np.concatenate([[0], np.cumsum(longer)])
        row = np.full(starts[-1] + 1, -1, self.row.dtype)
        row[np.repeat(starts[pmers] - self.starts[:-1], lengths) + np.arange(self.starts[-1])] = self.row[:-1]
        return WeightVectors(vocabulary, starts, row, self.weights)

    def state(self, tolerance: float, unary: bool) -> Arrays:
        """Arrays for `from_state`.

        Weights are rounded to float32 if values of documents of norm 1 change by at most `tolerance`; with
        `unary`, a p-mer may have several features.
        """
        weighed = self.row[:-1] >= 0
        rows = _rounded(self.weights[self.row[:-1][weighed]], tolerance)
        state = {"weighed": np.packbits(weighed), "machines": np.array([rows.shape[1]])}
        if unary:
            state["features"] = small(np.diff(self.starts))
        return state | _packed_rows(rows)

    @classmethod
    def from_state(cls, state: Arrays, vocabulary: Vocabulary, unary: bool) -> WeightVectors:
        """Restore from checked arrays of `state`; KeyError or ValueError if they are damaged."""
        bits, n_pmers = state["weighed"], int(vocabulary.first[-1])
        if bits.dtype != np.uint8 or bits.ndim != 1:
            raise ValueError("weighed must be a uint8 vector")
        starts = np.arange(n_pmers + 1)
        if unary:
            features = _unsigned(state, "features")
            if len(features) != n_pmers or (len(features) and features.min() < 1):
                raise ValueError("features do not match the keys")
            starts = np.concatenate([[0], np.cumsum(features, dtype=np.float64)])
            if starts[-1] > 8 * len(bits):  # checked before larger arrays are allocated
                raise ValueError("weighed does not match the features")
        n_features = int(starts[-1])
        if len(bits) != -(-n_features // 8) or np.unpackbits(bits)[n_features:].any():
            raise ValueError("weighed does not match the features")
        weighed = np.unpackbits(bits, count=n_features).astype(bool)
        rows = _read_rows(state, int(weighed.sum()))
        return cls(vocabulary, starts.astype(np.int64), _rows_of(weighed), rows)


def pack(vocabulary: Vocabulary) -> Arrays:
    """Keys of a vocabulary as arrays for `unpack`."""
    state = {}
    for q, a, b in plan(vocabulary.p1, vocabulary.p2):
        width = np.uint64(max(vocabulary.size(b), 1))
        begins = (vocabulary.keys[q] // width).astype(np.int64)
        state[f"begins_{q}"] = small(np.bincount(begins, minlength=vocabulary.size(a)))
        state[f"ends_{q}"] = small(vocabulary.keys[q] % width)
    return state


def unpack(state: Arrays, p1: int, p2: int, n_symbols: int) -> dict[str, Words]:
    """Keys of each length as "keys_q", not checked to be sorted; ValueError if the arrays are damaged."""
    keys: dict[str, Words] = {}
    sizes = {1: n_symbols}
    for q, a, b in plan(p1, p2):
        if f"ends_{q}" not in state:
            break  # longer lengths are missing too
        begins, ends = _unsigned(state, f"begins_{q}"), _unsigned(state, f"ends_{q}")
        if len(begins) != sizes[a] or begins.sum(dtype=np.float64) != len(ends):
            raise ValueError(f"begins_{q} does not match ends_{q}")
        if len(ends) and ends.max() >= sizes[b]:
            raise ValueError(f"ends_{q} is out of range")
        left = np.repeat(np.arange(len(begins), dtype=np.uint64), begins.astype(np.int64))
        keys[f"keys_{q}"] = left * np.uint64(sizes[b]) + ends.astype(np.uint64)
        sizes[q] = len(ends)
    return keys


def _rows_of(weighed: Bools) -> SignedInts:
    """Row of each feature with weights, -1 for the others and as the last entry."""
    row = np.full(len(weighed) + 1, -1, index_type(len(weighed)))
    row[:-1][weighed] = np.arange(np.count_nonzero(weighed))
    return row


def _rounded(weights: Array, tolerance: float) -> Array:
    """Weights as float32 if values of documents of norm 1 change by at most `tolerance`.

    The change is at most the norm of the difference of the weight vectors.
    """
    shorter = weights.astype(np.float32)
    change = shorter - weights.astype(np.float64)
    moved = np.sqrt((change * change).sum(axis=0)).max(initial=0)
    return shorter if moved <= tolerance else weights


def _packed_rows(rows: Array) -> Arrays:
    """The smaller form of rows: all values, or nonzero values with their machines."""
    if scipy_sparse(rows):
        rows.sort_indices()
        values, numbers, machines = rows.data, small(np.diff(rows.indptr)), small(rows.indices)
    else:
        owner, machine = np.nonzero(rows)
        numbers, machines = small(np.bincount(owner, minlength=len(rows))), small(machine)
        if numbers.nbytes + machines.nbytes + rows.itemsize * len(machines) >= rows.nbytes:
            return {"weights": rows}
        values = rows[owner, machine]
    return {"weights": values, "weights_each": numbers, "weights_of": machines}


def _read_rows(state: Arrays, n_rows: int) -> Array:
    weights, shape = state["weights"], (n_rows, *sizes_of(state, "machines", 1))
    if weights.dtype not in (np.float32, np.float64) or not np.isfinite(weights).all():
        raise ValueError("weights must be finite floats")
    if "weights_of" not in state:
        if weights.shape != shape:
            raise ValueError("weights do not match the features and machines")
        return weights
    numbers, machine = _unsigned(state, "weights_each"), _unsigned(state, "weights_of")
    if not len(weights) == len(machine) == numbers.sum(dtype=np.float64) or len(numbers) != n_rows:
        raise ValueError("weights do not match the features")
    if len(machine) and machine.max() >= shape[1]:
        raise ValueError("weights do not match the machines")
    if shape[1] <= MAX_INT32 and keep_sparse((n_rows, shape[1]), len(weights)):
        starts = np.cumsum([0, *numbers.astype(np.int64)])
        return scipy.sparse.csr_array((weights, machine.astype(np.int32), starts), shape=shape)
    need, free = weights.itemsize * n_rows * shape[1], devices.free_memory(devices.select("cpu"))
    if need > free:
        raise InputError(f"its weights need {need:,} bytes of memory, but only {free:,} are free")
    stored_bytes = weights.nbytes + numbers.nbytes + machine.nbytes
    if need > max(ROOM, MOST_TIMES * stored_bytes):
        raise InputError(
            f"its weights need {need:,} bytes of memory, but only {stored_bytes:,} bytes in the file"
        )
    rows = np.zeros(shape, weights.dtype)
    rows[np.repeat(np.arange(n_rows), numbers.astype(np.int64)), machine] = weights
    return rows


def sizes_of(state: Arrays, name: str, n: int) -> list[int]:
    """Array of n sizes as a list; ValueError if it is damaged."""
    array = state[name]
    if array.dtype != np.int64 or array.shape != (n,) or (array < 0).any():
        raise ValueError(f"{name} must be {n} non-negative int64 numbers")
    return array.tolist()


def small(numbers: AnyArray) -> UnsignedInts:
    """Numbers in the smallest unsigned type."""
    return numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))))


def _unsigned(state: Arrays, name: str) -> UnsignedInts:
    array = state[name]
    if array.dtype.kind != "u" or array.ndim != 1:
        raise ValueError(f"{name} must be a vector of unsigned integers")
    return array
