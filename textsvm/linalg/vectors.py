"""Numeric vectors as examples, dense or sparse: the counterpart of `textsvm.text.documents.Documents`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from textsvm.arrays import Array, Ints
from textsvm.linalg.dense import DenseRows
from textsvm.linalg.rows import FeatureRows
from textsvm.linalg.sparse import Sparse, index_type
from textsvm.runtime import device as devices
from textsvm.text.documents import View

NUMBERS = View("numbers")  #: View of kernels on vectors.


def is_sparse(values: Array) -> bool:
    """Whether values are a sparse matrix; without SciPy, which prediction of texts does not import."""
    return hasattr(values, "tocsr")


@dataclass(frozen=True)
class Vectors:
    """Vectors, the rows of a matrix."""

    #: shape (n, d), float32 or float64, finite: NumPy, CuPy, or CSR matrix with sorted, unique indices.
    values: Array

    def __len__(self) -> int:
        return int(self.values.shape[0])

    @property
    def n_features(self) -> int:
        return int(self.values.shape[1])

    @property
    def sparse(self) -> bool:
        """Whether the matrix is in CSR form."""
        return is_sparse(self.values)

    @property
    def lengths(self) -> Ints:
        """Number of stored values of each vector, shape (n,)."""
        if self.sparse:
            return np.diff(self.values.indptr).astype(np.int64)
        return np.full(len(self), self.n_features, np.int64)

    @property
    def variance(self) -> float:
        """Variance of all values, including zeros that are not stored."""
        values = self.values
        with np.errstate(over="ignore", invalid="ignore"):  # too large values are reported by the kernel rows
            if not self.sparse:
                return float(values.var(dtype=np.float64))
            mean = values.sum(dtype=np.float64) / np.prod(values.shape)
            squares = np.square(values.data, dtype=np.float64).sum() / np.prod(values.shape)
            return float(squares - mean**2)

    def of(self, view: View) -> Vectors:
        return self

    def take(self, indices: Sequence[int] | NDArray[np.integer]) -> Vectors:
        xp = devices.array_module(devices.device_of(self.values))
        return Vectors(self.values[xp.asarray(indices)])


def feature_rows(vectors: Vectors) -> FeatureRows:
    """Vectors as feature rows on the host; sparse vectors in float32."""
    x: Array = DenseRows(devices.to_host(vectors.values))
    if vectors.sparse:
        rows, d = vectors.values, vectors.n_features
        indices = rows.indices.astype(index_type(d), copy=False)
        x = Sparse(rows.indptr.astype(np.int64), indices, rows.data.astype(np.float32), d)
    return FeatureRows(x, np.zeros(len(vectors)), descent=False)
