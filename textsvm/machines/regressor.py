"""Support vector regression."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from textsvm.errors import InputError
from textsvm.kernels.base import Kernel
from textsvm.kernels.user import KernelFunction
from textsvm.machines.base import KernelMachine
from textsvm.machines.compute import Compute
from textsvm.machines.targets import Target, as_numbers, is_number
from textsvm.runtime.parallel import StageProgress

if TYPE_CHECKING:
    from typing_extensions import Self

    from textsvm.solvers.problems import Regression


class Regressor(KernelMachine):
    """The machine of `textsvm.SVR`."""

    epsilon: float

    estimator_name = "SVR"

    C: float

    def __init__(
        self,
        kernel: Kernel | KernelFunction | str = "spectrum",
        C: float = 1.0,
        *,
        epsilon: float = 0.1,
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
        if not is_number(self.epsilon) or not 0 <= self.epsilon < np.inf:
            raise InputError(f"epsilon={self.epsilon!r} must be a finite number of at least 0")

    def fit(
        self, X: Any, y: Any, sample_weight: ArrayLike | None = None, progress: StageProgress | None = None
    ) -> Self:
        """Train on texts.

        Parameters
        ----------
        X : list, NumPy string or object array, or pandas, Polars or Arrow column; n texts
            With a kernel of vectors an array, sparse matrix or data frame of finite numbers, shape (n, d);
            with ``kernel="precomputed"`` the kernel matrix, shape (n, n).
        y : array-like, shape (n,)
            Finite numbers, in any unit.
        sample_weight : array-like, shape (n,), optional
            Factors of C, >= 0.
        progress : callable, optional
            See `StageProgress`.
        """
        self._fit(X, y, sample_weight, progress)
        return self

    def predict(self, X: Any, progress: StageProgress | None = None) -> NDArray[np.float64]:
        """The number of each text, float64, shape (n,)."""
        return self._scores(X, progress)

    def as_target(self, y: Any, n: int) -> Target:
        return Target(as_numbers(y, n), None)

    def problem(
        self, target: Target, index: NDArray[np.int64], sample_weight: NDArray[np.float64] | None = None
    ) -> Regression:
        from textsvm.solvers.problems import Regression

        weight = np.ones(len(index)) if sample_weight is None else sample_weight[index]
        if not weight.any():
            raise InputError("sample_weight is zero for all documents; there is nothing to learn from")
        return Regression(index, target.values[index], float(self.C), weight, float(self.epsilon))

    def predictions(self, scores: NDArray[np.float64], classes: NDArray[Any] | None) -> NDArray[np.float64]:
        return scores
