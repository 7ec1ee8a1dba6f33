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
from textsvm.runtime.compiled import njit, scipy
from textsvm.runtime.memory import empty, shrink
from textsvm.runtime.parallel import Progress, run

ROUNDING = 2e-5  #: Pairs are searched for from so much below the least value, for rounding errors
Pairs = tuple[Ints, Ints, Floats]  #: Numbers i < j of pairs, and their values


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
    def of(cls, slabs: Iterable[Sparse], df: Ints) -> SharedFeatures:
        """From slabs of rows, the last first (one is in memory), and the frequency of each feature."""
        shared_features = np.flatnonzero(df > 1)
        number = shared_features[np.argsort(-df[shared_features], kind="stable")]
        target = np.full(len(df), -1, index_type(len(df)))
        target[number] = np.arange(len(number))
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


def similar_rows(
    rows: FeatureRows, least: float, blocks: list[slice], progress: Progress | None
) -> list[Pairs]:
    """Pairs i < j of rows with k(i, j) of at least `least` sqrt(k(i, i) k(j, j)), for each block of rows i.

    Prefix filtering (Bayardo, Ma and Srikant 2007): all features are ordered, the rarest first, and the
    prefix of x is x without its last features, as many as have a norm below ``least |x|``. Similar x and y
    share a feature of both prefixes: else all features in common are among the last of x, or all among the
    last of y, and x . y is below ``least |x| |y|`` by the Cauchy-Schwarz inequality.
    """
    x, n, indptr, rank = rows.x, len(rows.x), rows.x.indptr, np.empty(rows.x.n_features, np.int64)
    squares = x.squares() + rows.ridge
    scale = np.divide(1, np.sqrt(squares), out=np.zeros(n), where=squares > 0)
    rank[np.argsort(x.frequencies(), kind="stable")] = np.arange(x.n_features)
    ordered = scipy.sparse.csr_array((x.values.copy(), rank[x.features], indptr), shape=(n, x.n_features))
    ordered.sort_indices()
    features, values, owner = ordered.indices, ordered.data, np.repeat(np.arange(n), np.diff(indptr))
    added = np.concatenate([[0.0], np.cumsum(np.square(values * scale[owner]))])
    # Features of a single document, whose squares are `ridge`, are the rarest, and in no pair.
    before = added[:-1] - added[indptr[owner]] + (rows.ridge * np.square(scale))[owner]
    prefix = np.flatnonzero(before <= 1 - (least - ROUNDING) ** 2)
    ends = indptr[:-1] + np.bincount(owner[prefix], minlength=n)
    lists = prefix[np.argsort(features[prefix], kind="stable")]
    starts, members = np.searchsorted(features[lists], np.arange(x.n_features + 1)), owner[lists]
    later = np.bincount(members, starts[features[lists] + 1] - np.arange(len(lists)) - 1, n)
    arrays = indptr, ends, features, values, scale, starts, members
    pairs: list[Pairs] = [(members, members, scale)] * len(blocks)

    def search(k: int) -> None:
        begin, stop = blocks[k].start, blocks[k].stop
        most = int(min(later[begin:stop].sum(), n * (stop - begin)))
        first, second, value = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.float32)
        compared, row = np.full(n, -1), np.zeros(x.n_features)
        size = _compare(arrays, compared, row, (first, second, value), least, begin, stop)
        order = np.lexsort((second[:size], first[:size]))
        pairs[k] = first[order], second[order], value[order].astype(np.float64)

    run(search, range(len(blocks)), progress=progress)
    return pairs


@njit(nogil=True, cache=True)
def _compare(arrays, compared, row, pairs, least, begin, stop):
    """Similar pairs of rows begin..stop and later rows with a feature in both prefixes; their number."""
    indptr, ends, features, values, scale, starts, members = arrays
    first, second, value = pairs
    n = 0
    for i in range(begin, stop):
        for k in range(indptr[i], indptr[i + 1]):
            row[features[k]] = values[k]
        for k in range(indptr[i], ends[i]):
            for j in members[starts[features[k]] : starts[features[k] + 1]][::-1]:
                if j <= i:
                    break
                if compared[j] < i:
                    compared[j], product = i, 0.0
                    for at in range(indptr[j], indptr[j + 1]):
                        product += row[features[at]] * values[at]
                    first[n], second[n], value[n] = i, j, product * scale[i] * scale[j]
                    n += value[n] >= least
        for k in range(indptr[i], indptr[i + 1]):
            row[features[k]] = 0
    return n


@njit(nogil=True, cache=True)
def _weigh(indptr, features, unweighted, first, last, weights, alone, normalised, values, ridge):
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
