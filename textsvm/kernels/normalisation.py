"""From kernel values as they are summed up to normalised ones, k(s, t) / sqrt(k(s, s) k(t, t)).

A document without any feature has k(s, s) = 0. A kernel is a function of two strings: normalised, such a
document is 1 with an equal one and 0 with all others. `groups` numbers these by their text, from 1; documents
with features have 0. Without normalisation there is nothing to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from textsvm.linalg.products import finish_half
from textsvm.runtime import device as devices
from textsvm.text.documents import Documents

if TYPE_CHECKING:
    from typing_extensions import Self


def inverse_roots(self_values: NDArray[np.float64]) -> NDArray[np.float64]:
    """1 / sqrt(k(s, s)), 0 for a document without any feature."""
    return np.divide(1, np.sqrt(self_values), out=np.zeros(len(self_values)), where=self_values > 0)


class Normalisation:
    """k(s, s) of documents, and what their kernel values are multiplied by.

    Parameters
    ----------
    documents : Documents, n of them
    self_values : float64 array, shape (n,)
        k(s, s), on the scale of the sums that are to be normalised.
    normalised : bool
        Whether the kernel is.
    columns : Normalisation, optional
        Of the documents that these are compared with: equal texts get the numbers they have there.

    Attributes
    ----------
    self_values : float64 array, shape (n,)
    scale : float64 array, shape (n,)
        1 / sqrt(k(s, s)), 0 for a document without any feature; 1 without normalisation.
    groups : int32 array, shape (n,)
    """

    def __init__(
        self,
        documents: Documents,
        self_values: NDArray[np.float64],
        normalised: bool,
        columns: Normalisation | None = None,
    ) -> None:
        self.self_values, self.normalised = self_values, normalised
        self._known: dict[bytes, int] = {} if columns is None else dict(columns._known)
        self.groups = np.zeros(len(documents), np.int32)
        self.scale = np.ones(len(documents))
        if normalised:
            self.scale = inverse_roots(self_values)
            for i in np.flatnonzero(self_values == 0):
                codes = documents.codes[documents.offsets[i] : documents.offsets[i + 1]]
                text = codes.astype(np.uint32).tobytes()
                self.groups[i] = self._known.setdefault(text, len(self._known) + 1)

    @property
    def featureless(self) -> NDArray[np.int64]:
        """The documents without any feature, of a normalised kernel."""
        return np.flatnonzero(self.groups)

    def diagonal(self) -> NDArray[np.float32]:
        """Kernel values of the documents with themselves, shape (n,)."""
        return (np.ones(len(self.groups)) if self.normalised else self.self_values).astype(np.float32)

    def take(self, indices: NDArray[np.int64]) -> Self:
        """That of some of the documents."""
        some = object.__new__(type(self))
        some.__dict__ |= self.__dict__
        some.self_values, some.scale = self.self_values[indices], self.scale[indices]
        some.groups = self.groups[indices]
        return some

    def finish_rows(self, matrix: Any, columns: Normalisation) -> None:
        """Set the rows of documents without any feature: matrix of (these, columns), NumPy or CuPy."""
        groups = devices.array_module(devices.device_of(matrix)).asarray(columns.groups)
        for i in self.featureless:
            matrix[int(i)] = groups == int(self.groups[i])

    def finish_gram(self, matrix: Any, first: int = 0) -> None:
        """Set rows and columns of documents without any feature, and the diagonal, of a square matrix.

        Or of some of its columns, from number `first` on.
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

    def finish_values(
        self, values: NDArray[np.float64], coef: NDArray[np.float64], columns: Normalisation
    ) -> None:
        """Set the sums over columns of coef times kernel value, (these, machines), of such documents.

        Parameters
        ----------
        values : float64 array, shape (n, n_machines)
        coef : float64 array, shape (n_machines, number of columns)
        columns : Normalisation
        """
        for i in self.featureless:
            values[i] = coef[:, columns.groups == self.groups[i]].sum(axis=1)


def finished_gram(
    normalisation: Normalisation, total: NDArray[np.float32], in_place: bool
) -> NDArray[np.float32]:
    """Kernel values from the sums in the upper half of a matrix, both halves."""
    out = total if in_place else np.empty_like(total)
    finish_half(total, normalisation.scale, out)
    normalisation.finish_gram(out)
    return out


def longest_of(documents: Documents) -> int:
    """Length of the longest document."""
    return int(documents.lengths.max(initial=0))


def normalisation_of(
    kernel: Any, documents: Documents, columns: Normalisation | None = None
) -> Normalisation:
    """k(s, s) of documents that are compared with `columns`, or with each other."""
    values = kernel.definition(longest_of(documents)).self_values(documents)
    return Normalisation(documents, values, bool(kernel.normalised), columns)
