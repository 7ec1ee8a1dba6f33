"""One-class machine: the region of the training texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from textsvm.errors import InputError
from textsvm.machines.base import KernelMachine
from textsvm.machines.targets import Target, is_number, weights_of
from textsvm.runtime.parallel import StageProgress

if TYPE_CHECKING:
    from typing import Self

    from textsvm.solvers.problems import OneClass


@dataclass(repr=False, eq=False)
class NoveltyDetector(KernelMachine):
    """The machine of `textsvm.OneClassSVM`."""

    nu: float = 0.5

    estimator_name = "OneClassSVM"

    def check(self) -> None:
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
        X, progress
            See `textsvm.SVC.fit`.
        y : ignored
        sample_weight : array-like, shape (n,), optional
            Upper bounds of the dual variables, >= 0; 1 each by default.
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
        """Predict +1 for texts inside and -1 for outliers, shape (n,)."""
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

        return OneClass(index, float(self.nu), weights_of(index, sample_weight))

    def predictions(self, scores: NDArray[np.float64], classes: NDArray[Any] | None) -> NDArray[np.int64]:
        return np.where(scores >= 0, 1, -1)
