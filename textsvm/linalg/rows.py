"""Feature rows for linear solvers: k(s, t) = x_s . x_t for s != t.

A feature that occurs in a single document contributes only to that document's own kernel value. More than
half of the features of real texts do; they are dropped, and k(s, s) - |x_s|^2 is kept exactly as the ridge.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from textsvm.arrays import AnyArray, Array, Floats, Floats32, Ints, SignedInts
from textsvm.linalg.dense import DenseRows
from textsvm.linalg.sparse import Sparse, index_type, run_on_ranges, slabs_of
from textsvm.runtime.compiled import njit
from textsvm.runtime.memory import empty, shrink


@dataclass(frozen=True)
class FeatureRows:
    """Feature rows, and the part of each document's own kernel value that they lack."""

    x: Sparse
    ridge: Floats  #: shape (n,): k(s, s) - |x_s|^2, at least 0
    #: Whether coordinate descent converges quickly: rows of similar length and many features, as for texts,
    #: not vectors of arbitrary scale.
    descent: bool = True
    #: Number of the last features, which every row has, in their order at its end (vectors of an encoder).
    dense: int = 0
    note: str = ""  #: How a GPU with little memory counted and keeps them, for people

    def take(self, indices: Ints) -> FeatureRows:
        """The rows at `indices`."""
        return replace(self, x=self.x.take(indices), ridge=self.ridge[indices])


@dataclass(frozen=True)
class SharedFeatures:
    """Unweighted features that at least two documents share, and the norm of the others."""

    indptr: Ints  #: shape (n + 1,)
    #: int32 or int64, shape (entries,): Shared features, numbered by decreasing frequency for locality.
    features: SignedInts
    values: Floats32  #: shape (entries,)
    number: Ints  #: shape (n_features,): Original number of each shared feature
    alone: Floats  #: shape (n,): Sum of squares of the features that only this document has

    @classmethod
    def of(cls, x: Sparse, df: Ints) -> SharedFeatures:
        """From feature rows and the document frequency of each feature."""
        number, target = _numbered(df)
        shared = x.select(target, len(number))
        return cls(shared.indptr, shared.features, shared.values, number, x.squares() - shared.squares())

    @classmethod
    def of_slabs(cls, slabs: Iterable[Sparse], df: Ints) -> SharedFeatures:
        """`of` the rows of all slabs, the last rows first, of which only one is in memory."""
        number, target = _numbered(df)
        begin = size = int(df[number].sum())
        features, values = empty(size, index_type(len(number))), empty(size, np.float32)
        indptr, alone = [np.array([size])], [np.empty(0)]
        for x in slabs:
            shared = x.select(target, len(number))
            begin, end = begin - len(shared.features), begin
            features[begin:end], values[begin:end] = shared.features, shared.values
            indptr.append(begin + shared.indptr[:-1])
            alone.append(x.squares() - shared.squares())
            del x, shared  # before the next slab
        return cls(np.concatenate(indptr[::-1]), features, values, number, np.concatenate(alone[::-1]))

    def weighed(
        self, weights: Floats | None, alone: Floats | float, normalised: bool, in_place: bool = False
    ) -> FeatureRows:
        """Feature rows with a weight per shared feature, and `alone` for features of a single document.

        `normalised` divides rows by their norms; a document without features has kernel value 1 with itself.
        `in_place` overwrites the values.
        """
        values = self.values if in_place else empty(len(self.values), np.float32)
        ridge = np.empty(len(self.indptr) - 1)
        table = np.ones(len(self.number)) if weights is None else weights
        rest = self.alone * np.square(alone)
        arrays = (self.indptr, self.features, self.values)
        run_on_ranges(self.indptr, lambda i, j: _weigh(*arrays, i, j, table, rest, normalised, values, ridge))
        return FeatureRows(Sparse(self.indptr, self.features, values, len(self.number)), ridge)


def side_by_side(parts: list[FeatureRows], weights: Sequence[float]) -> FeatureRows:
    """Feature rows of sum_i w_i k_i: the features of all parts, each part scaled by sqrt(w_i).

    `parts` is emptied to free memory.
    """
    if len(parts) == 1 and weights[0] == 1:
        return parts[0]
    ridge = np.sum([weight * part.ridge for part, weight in zip(parts, weights, strict=True)], axis=0)
    descent, dense_tail = all(part.descent for part in parts), parts[-1].dense
    matrices: list[Any] = [part.x for part in parts]
    if isinstance(matrices[0], DenseRows):
        scaled = [np.sqrt(weight) * x.values for x, weight in zip(matrices, weights, strict=True)]
        dense: Array = DenseRows(np.hstack(scaled))
        return FeatureRows(dense, ridge, descent)
    indptr = np.sum([x.indptr for x in matrices], axis=0)
    first = np.cumsum([0] + [x.n_features for x in matrices])
    starts, features_of_parts = [x.indptr for x in matrices], [x.features for x in matrices]
    values, roots = [x.values for x in matrices], [float(np.sqrt(weight)) for weight in weights]
    parts.clear()
    matrices.clear()
    kind = index_type(int(first[-1]))
    features = _joined(starts, features_of_parts, [(1, base) for base in first.tolist()], indptr, kind)
    scaled_values = _joined(starts, values, [(root, 0) for root in roots], indptr, np.float32)
    return FeatureRows(Sparse(indptr, features, scaled_values, int(first[-1])), ridge, descent, dense_tail)


def _joined(
    starts: list[Ints], arrays: list[AnyArray], maps: list[tuple[float, int]], indptr: Ints, dtype: Any
) -> AnyArray:
    """Entries of all parts, row by row, times the factor of the part, plus its base.

    They are written from the last slab on, and the arrays shrink as they are read.
    """
    out = empty(int(indptr[-1]), dtype)
    for first, last in reversed(slabs_of(indptr)):
        begin = indptr[first:last].copy()
        for own, array, of_part in zip(starts, arrays, maps, strict=False):
            slab = own[first : last + 1]
            run_on_ranges(slab, partial(_place, slab, array, *of_part, begin, out))
            begin += np.diff(slab)
        del array  # a reference
        shrink(arrays, (own[first] for own in starts))
    return out


def _numbered(df: Ints) -> tuple[Ints, SignedInts]:
    """Shared features by decreasing frequency, and the position of every feature among them, or -1."""
    shared = np.flatnonzero(df > 1)
    number = shared[np.argsort(-df[shared], kind="stable")]
    target = np.full(len(df), -1, index_type(len(df)))
    target[number] = np.arange(len(number))
    return number, target


@njit(nogil=True, cache=True)
def _weigh(indptr, features, unweighted, first, last, weights, alone, normalised, values, ridge):
    """Values and ridges of some rows."""
    for i in range(first, last):
        total = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            v = unweighted[k] * weights[features[k]]
            values[k] = np.float32(v)
            total += v * v
        ridge[i] = alone[i]
        if normalised:
            whole = total + alone[i]
            scale = 1 / np.sqrt(whole) if whole > 0 else 1.0
            for k in range(indptr[i], indptr[i + 1]):
                values[k] = np.float32(values[k] * scale)
            ridge[i] = alone[i] * scale * scale if whole > 0 else 1.0


@njit(nogil=True, cache=True)
def _place(indptr, array, factor, base, to, out, first, last):
    for i in range(first, last):
        for k in range(indptr[i + 1] - indptr[i]):
            out[to[i] + k] = array[indptr[i] + k] * factor + base
