"""Normalised kernel values, k(s, t) / sqrt(k(s, s) k(t, t)).

A document without any feature has k(s, s) = 0. Its normalised value is 1 with an equal document and 0 with
all others, so that the kernel stays a function of two strings. `Normalisation.groups` numbers the distinct
texts of such documents from 1; documents with features have number 0.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from textsvm.arrays import Array, Bools, Floats, Floats32, Ints, Ints32
from textsvm.errors import InputError
from textsvm.kernels.contract import FeatureTerm
from textsvm.linalg.products import finish_half
from textsvm.linalg.rows import FeatureRows, side_by_side
from textsvm.linalg.sparse import Sparse
from textsvm.runtime import device as devices
from textsvm.text.documents import Documents


def inverse_roots(self_values: Floats) -> Floats:
    """1 / sqrt(k(s, s)), 0 for a document without any feature."""
    return np.divide(1, np.sqrt(self_values), out=np.zeros(len(self_values)), where=self_values > 0)


def require_float32(self_values: Floats, name: str) -> None:
    """Raise InputError if k(s, s) of an unnormalised kernel exceed the range of float32."""
    if not ((self_values > 1e-30) & (self_values < 1e38)).all():
        raise InputError(
            f"k(s, s) of the {name} kernel, {self_values.min():.3g} to {self_values.max():.3g}, exceeds the "
            "range of float32; leave normalised=True, or take another p or decay"
        )


class Normalisation:
    """k(s, s) of documents, and the factors of their kernel values.

    `values` are k(s, s) on the scale of the sums that are normalised, and `columns` the normalisation of the
    documents that these are compared with: equal texts get the same number in `groups`. `scale` is
    1 / sqrt(k(s, s)), 0 for a document without any feature, and 1 without normalisation.
    """

    def __init__(
        self, documents: Documents, values: Floats, normalised: bool, columns: Normalisation | None = None
    ) -> None:
        self.self_values, self.normalised = values, normalised
        self._known: dict[bytes, int] = {} if columns is None else dict(columns._known)
        self.groups = np.zeros(len(documents), np.int32)
        self.scale = np.ones(len(documents))
        if normalised:
            self.scale = inverse_roots(values)
            for i in np.flatnonzero(values == 0):
                codes = documents.codes[documents.offsets[i] : documents.offsets[i + 1]]
                text = codes.astype(np.uint32).tobytes()
                self.groups[i] = self._known.setdefault(text, len(self._known) + 1)

    @property
    def featureless(self) -> Ints:
        """Documents without any feature, of a normalised kernel."""
        return np.flatnonzero(self.groups)

    def diagonal(self) -> Floats32:
        """Kernel values of the documents with themselves, shape (n,)."""
        return (np.ones(len(self.groups)) if self.normalised else self.self_values).astype(np.float32)

    def take(self, indices: Ints) -> Self:
        selection = object.__new__(type(self))
        selection.__dict__ |= self.__dict__
        selection.self_values, selection.scale = self.self_values[indices], self.scale[indices]
        selection.groups = self.groups[indices]
        return selection

    def finish_rows(self, matrix: Array, columns: Normalisation) -> None:
        """Set the rows of documents without features, in a matrix (documents, columns) of either device."""
        if not len(self.featureless):
            return
        groups = devices.array_module(devices.device_of(matrix)).asarray(columns.groups)
        for i in self.featureless:
            matrix[int(i)] = groups == int(self.groups[i])

    def finish_gram(self, matrix: Array, first: int = 0) -> None:
        """Set the diagonal of a square matrix, and the rows and columns of documents without features.

        The matrix may be a part: some columns, from number `first` on.
        """
        xp = devices.array_module(devices.device_of(matrix))
        groups, last = xp.asarray(self.groups), first + matrix.shape[1]
        for i in map(int, self.featureless):
            same = groups == int(self.groups[i])
            matrix[i] = same[first:last]
            if first <= i < last:
                matrix[:, i - first] = same
        here = xp.arange(last - first)
        matrix[here + first, here] = xp.asarray(self.diagonal()[first:last])

    def finish_values(self, values: Floats, coef: Floats, columns: Normalisation) -> None:
        """Set decision values (n, n_machines) of documents without features; coef (n_machines, columns)."""
        values[self.featureless] = 0.0
        self.add_values(values, coef, columns)

    def add_values(self, values: Floats, coef: Floats, columns: Normalisation) -> None:
        """Add the decision values of documents without features."""
        for i in self.featureless:
            values[i] += coef[:, columns.groups == self.groups[i]].sum(axis=1)


def feature_term(
    kernel: Any, columns: Normalisation, coef: Floats, examples: Documents, **fields: Any
) -> FeatureTerm:
    """A `FeatureTerm` of these fields, with the support vectors without features, and values of equal texts.

    `columns` belongs to the support vectors, `coef` has shape (n_machines, n_sv); both may be empty.
    """
    texts, values = [], []
    for group in range(1, int(columns.groups.max(initial=0)) + 1):
        same = np.flatnonzero(columns.groups == group)
        begin, end = examples.offsets[same[0] : same[0] + 2]
        texts.append(examples.codes[begin:end].astype(np.int64))
        values.append(coef[:, same].sum(axis=1))
    rest = np.array(values).reshape(len(texts), coef.shape[0])
    fields |= {"view": kernel.structure.view, "alphabet": examples.alphabet, "normalised": kernel.normalised}
    return FeatureTerm(kernel, featureless=texts, featureless_values=rest, **fields)


def finished_gram(normalisation: Normalisation, total: Floats32, in_place: bool) -> Floats32:
    """Kernel matrix from the sums in the upper half of a matrix."""
    out = total if in_place else np.empty_like(total)
    finish_half(total, normalisation.scale, out)
    normalisation.finish_gram(out)
    return out


def featureless_groups(documents: Documents, featureless: Bools) -> tuple[Ints, Ints32, Floats, int]:
    """Private features of texts too short for any feature: equal texts share one, so that their value is 1.

    Returns indptr and features of the documents, their ridges, and the number of features.
    """
    groups = Normalisation(documents, np.where(featureless, 0.0, 1.0), True).groups
    sizes = np.bincount(groups)
    sizes[0] = 0
    together = sizes[groups] > 1
    indptr = np.concatenate([[0], np.cumsum(together)])
    return indptr, groups[together], np.where(together, -1.0, 0.0), len(sizes)


def match_featureless(documents: Documents, rows: FeatureRows, none_alone: Bools) -> FeatureRows:
    """Add the features of `featureless_groups` to normalised rows.

    `none_alone` (n,) says whether a document lacks features that no other document has.
    """
    indptr, features, ridge, size = featureless_groups(documents, (rows.ridge == 1) & none_alone)
    if not len(features):
        return rows
    x = Sparse(indptr, features, np.ones(len(features), np.float32), size)
    return side_by_side([rows, FeatureRows(x, ridge)], [1.0, 1.0])
