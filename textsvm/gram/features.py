"""The Gram of rows of features, K = X X': made only for a solver that wants rows of it."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from textsvm.gram.base import DenseGram, Gram, Window
from textsvm.gram.cached import CachedGram
from textsvm.gram.plan import allowed_bytes, make_gram, plan
from textsvm.kernels.contract import MatrixRows
from textsvm.linalg.rows import FeatureRows
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import Progress


class RowsOfFeatures(MatrixRows, Protocol):
    """Rows of a kernel matrix that are products of features."""

    def make_features(self, progress: Progress | None = None) -> FeatureRows:
        """The features, made once."""


class FeatureGram(Gram):
    """Rows of a kernel that has features (`Gram`); who can use the features themselves finds them here.

    Parameters
    ----------
    kernel_rows : RowsOfFeatures
    memory : int
        Bytes that rows may take.
    progress : callable, optional
        While features are made.
    """

    def __init__(self, kernel_rows: RowsOfFeatures, memory: int, progress: Progress | None = None) -> None:
        self.n, self.device = kernel_rows.n, kernel_rows.device
        self.features: Any = kernel_rows.make_features(progress)
        self._kernel_rows: Any = kernel_rows
        self._plan = plan(self.n, memory)
        self.concurrent = self._plan.dense
        #: Whether any rows were made, for people.
        self.description = f"none, {self.features.x.n_features:,} features of {self.n:,} texts"

    def holds(self, most: int) -> bool:
        """Whether the whole matrix fits, and has no more rows than that."""
        return self._plan.dense and self.n <= most

    @cached_property
    def _made(self) -> Gram:
        self.description = self._plan.description
        if self._plan.dense:
            return DenseGram(self._kernel_rows.gram())
        return CachedGram(self._kernel_rows, self._plan.memory)

    def diag(self) -> Any:
        """See `Gram`."""
        return self._kernel_rows.diag()

    def rows(self, indices: NDArray[np.int64]) -> Any:
        """See `Gram`."""
        return self._kernel_rows.rows(indices)

    def window(self) -> Window:
        """See `Gram`; whatever rows there is room for are made."""
        return self._made.window()

    def release(self) -> None:
        """See `Gram`."""
        if "_made" in vars(self):
            self._made.release()
        self.features = self._kernel_rows = None


class SparseGram(FeatureGram):
    """Rows of a kernel that are never made: who solves it does so from sparse features.

    Parameters
    ----------
    features : FeatureRows
    device : Device
        Where they are.
    why : str
        For people.
    """

    def __init__(self, features: FeatureRows, device: Device, why: str) -> None:
        self.n, self.device, self.features, self.concurrent = len(features.x), device, features, False
        self.description = f"none, {features.x.values.size:,} values of features of {self.n:,} texts ({why})"

    def holds(self, most: int) -> bool:
        return False

    def release(self) -> None:
        """See `Gram`."""
        self.features = None


def gram_of(kernel_rows: Any, memory: int | str | None, progress: Progress | None = None) -> Gram:
    """Rows of a kernel matrix, those of features as they are; see `textsvm.gram.plan.make_gram`."""
    if hasattr(kernel_rows, "make_features"):
        return FeatureGram(kernel_rows, allowed_bytes(memory, kernel_rows.device), progress)
    return make_gram(kernel_rows, memory, progress)
