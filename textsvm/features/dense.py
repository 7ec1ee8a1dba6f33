"""Dense rows of features: the verbs of `textsvm.features.sparse.Sparse` that solvers use, on either device.

Rows are kept in float32. Products are sums in float64: on a card of what is read once (`dense_cuda`), on
the host of blocks of rows that are copied to float64 one at a time: a copy of all would take twice their
memory again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from textsvm.device import array_module, device_of

if TYPE_CHECKING:
    from textsvm.features.dense_cuda import CudaDense

#: Bytes of the float64 copy of a block of rows, on the host and on a card.
HOST_BLOCK, DEVICE_BLOCK = 16 << 20, 1 << 30
#: Bytes of rows that the host keeps in float64 for many products: then nothing is copied for each.
HOST_DOUBLE = 256 << 20


@dataclass(frozen=True)
class DenseRows:
    """Rows of Z, all of whose features have values.

    Attributes
    ----------
    values : float32 or float64 array, shape (n, n_features), NumPy or CuPy
        What is computed lives where they do.
    """

    values: Any

    def __len__(self) -> int:
        return len(self.values)

    @property
    def n_features(self) -> int:
        """How many features there are."""
        return int(self.values.shape[1])

    def take(self, indices: NDArray[np.int64]) -> DenseRows:
        """The rows at `indices`."""
        return DenseRows(self.values[self._xp.asarray(indices)])

    def take_for_products(self, indices: NDArray[np.int64]) -> DenseRows | CudaDense:
        """The same for many products: not copied on a card; in float64 on the host if not too large."""
        if self._xp is not np:
            return self._on_card(self._xp.asarray(indices))
        some = self.take(indices).values
        return DenseRows(some.astype(np.float64) if 8 * some.size <= HOST_DOUBLE else some)

    def squares(self) -> Any:
        """|z|^2 of every row, float64, shape (n,)."""
        found = self._xp.empty(len(self))
        for rows, block in self._blocks():
            found[rows] = self._xp.square(block).sum(axis=1)
        return found

    def dot(self, dense: Any) -> Any:
        """Z @ dense: (n_features, k) -> float64 (n, k)."""
        by = self._xp.asarray(dense, np.float64)
        if self._xp is not np:
            return self._on_card().dot(by)
        found = np.empty((len(self), by.shape[1]))
        for rows, block in self._blocks():
            found[rows] = block @ by
        return found

    def transposed_dot(self, dense: Any) -> Any:
        """Z.T @ dense: (n, k) -> float64 (n_features, k)."""
        by = self._xp.asarray(dense, np.float64)
        if self._xp is not np:
            return self._on_card().transposed_dot(by)
        found = np.zeros((self.n_features, by.shape[1]))
        for rows, block in self._blocks():
            found += block.T @ by[rows]
        return found

    def scatter(self, indices: Any, weights: Any, constant: float) -> Any:
        """A.T @ diag(weights) @ A, float64, shape (n_features + 1,) * 2; A: rows, beside them `constant`."""
        xp, d = self._xp, self.n_features
        found, root = xp.zeros((d + 1, d + 1)), xp.sqrt(weights)[:, None]
        for rows, block in self._blocks(indices):
            scaled = xp.empty((len(block), d + 1))
            xp.multiply(block, root[rows], out=scaled[:, :d])
            scaled[:, d:] = constant * root[rows]
            found += scaled.T @ scaled
        return found

    def _blocks(self, indices: Any = None) -> Iterator[tuple[slice, Any]]:
        """Consecutive rows, or some at a time of those at `indices`, in float64."""
        size = HOST_BLOCK if self._xp is np else DEVICE_BLOCK
        step = max(1, size // (8 * max(1, self.n_features)))
        n = len(self if indices is None else indices)
        for first in range(0, n, step):
            rows = slice(first, min(first + step, n))
            yield rows, self.values[rows if indices is None else indices[rows]].astype(np.float64, copy=False)

    def _on_card(self, indices: Any = None) -> CudaDense:
        from textsvm.features.dense_cuda import CudaDense

        return CudaDense(self._xp.ascontiguousarray(self.values), indices)

    @property
    def _xp(self) -> Any:
        return array_module(device_of(self.values))
