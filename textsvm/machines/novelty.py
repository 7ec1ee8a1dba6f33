"""One-class machine: the region of the training texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from textsvm.errors import InputError
from textsvm.kernels.base import Kernel
from textsvm.kernels.user import KernelFunction
from textsvm.machines.base import KernelMachine
from textsvm.machines.compute import Compute
from textsvm.machines.targets import Target, is_number
from textsvm.runtime.parallel import StageProgress

if TYPE_CHECKING:
    from typing_extensions import Self

    from textsvm.solvers.problems import OneClass


class NoveltyDetector(KernelMachine):
    """The machine of `textsvm.OneClassSVM`."""

    nu: float

    estimator_name = "OneClassSVM"
    _POSITIVE = ("tol", "duality_gap")

    def __init__(
        self,
        kernel: Kernel | KernelFunction | str = "spectrum",
        nu: float = 0.5,
        *,
        normalise: str = "unicode",
        punctuation: bool = True,
        max_length: int | None = None,
        tol: float = 1e-3,
        duality_gap: float | None = None,
        max_iter: int = -1,
        device: str = "auto",
        n_jobs: int | None = None,
        compute: Compute | None = None,
    ) -> None:
        self._assign(locals())

    def check(self) -> None:
        """Raise InputError if a parameter is out of range; `fit` calls it first."""
        super().check()
        if not is_number(self.nu) or not 0 < self.nu <= 1:
            raise InputError(f"nu={self.nu!r} must be above 0 and at most 1")

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        progress: StageProgress | None = None,
    ) -> Self:
        """Train on texts.

        Parameters
        ----------
        X : list, NumPy string or object array, or pandas, Polars or Arrow column; n texts
            With a kernel of vectors an array, sparse matrix or data frame of finite numbers, shape (n, d);
            with ``kernel="precomputed"`` the kernel matrix, shape (n, n).
        y : ignored
        sample_weight : array-like, shape (n,), optional
            Upper bounds of the dual variables, >= 0; 1 each by default.
        progress : callable, optional
            See `StageProgress`.
        """
        self._fit(X, y, sample_weight, progress)
        return self

    def decision_function(self, X: Any, progress: StageProgress | None = None) -> NDArray[np.float64]:
        """Distance from the boundary, shape (n,); negative outside."""
        return self._scores(X, progress)

    def score_samples(self, X: Any) -> NDArray[np.float64]:
        """`decision_function` without the offset, shape (n,)."""
        return self.decision_function(X) + self.offset_

    def predict(self, X: Any) -> NDArray[np.int64]:
        """+1 for texts inside, -1 for outliers, shape (n,)."""
        return self.predictions(self._scores(X), None)

    @property
    def offset_(self) -> float:
        """``-intercept_``."""
        return -float(self.intercept_[0])

    def as_target(self, y: Any, n: int) -> Target:
        return Target(np.zeros(n), None)

    def problem(
        self, target: Target, index: NDArray[np.int64], sample_weight: NDArray[np.float64] | None = None
    ) -> OneClass:
        from textsvm.solvers.problems import OneClass

        weight = np.ones(len(index)) if sample_weight is None else sample_weight[index]
        if not weight.any():
            raise InputError("sample_weight is zero for all documents; there is nothing to learn from")
        return OneClass(index, float(self.nu), weight)

    def predictions(self, scores: NDArray[np.float64], classes: NDArray[Any] | None) -> NDArray[np.int64]:
        return np.where(scores >= 0, 1, -1)
