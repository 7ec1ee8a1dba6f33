"""Support vector regression."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from textsvm.errors import InputError
from textsvm.machines.base import KernelMachine
from textsvm.machines.targets import Target, as_numbers, is_number, weights_of
from textsvm.runtime.parallel import StageProgress

if TYPE_CHECKING:
    from typing import Self

    from textsvm.solvers.problems import Regression


@dataclass(repr=False, eq=False)
class Regressor(KernelMachine):
    """The machine of `textsvm.SVR`."""

    C: float = 1.0
    _: KW_ONLY
    epsilon: float = 0.1

    estimator_name = "SVR"
    _POSITIVE = ("C", "tol", "duality_gap")

    def check(self) -> None:
        super().check()
        if not is_number(self.epsilon) or not 0 <= self.epsilon < np.inf:
            raise InputError(f"epsilon={self.epsilon!r} must be a finite number of at least 0")

    def fit(
        self, X: Any, y: Any, sample_weight: ArrayLike | None = None, progress: StageProgress | None = None
    ) -> Self:
        """Train on texts.

        Parameters
        ----------
        X, progress
            See `textsvm.SVC.fit`.
        y : array-like, shape (n,)
            Finite numbers, in any unit.
        sample_weight : array-like, shape (n,), optional
            Factors of C, >= 0.
        """
        self._fit(X, y, sample_weight, progress)
        return self

    def predict(self, X: Any, progress: StageProgress | None = None) -> NDArray[np.float64]:
        """Predict the number of each text, float64, shape (n,)."""
        return self._scores(X, progress)

    def as_target(self, y: Any, n: int) -> Target:
        return Target(as_numbers(y, n), None)

    def problem(
        self, target: Target, index: NDArray[np.int64], sample_weight: NDArray[np.float64] | None = None
    ) -> Regression:
        from textsvm.solvers.problems import Regression

        weight = weights_of(index, sample_weight)
        return Regression(index, target.values[index], float(self.C), weight, float(self.epsilon))

    def predictions(self, scores: NDArray[np.float64], classes: NDArray[Any] | None) -> NDArray[np.float64]:
        return scores
