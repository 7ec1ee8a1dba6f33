"""The scikit-learn face of epsilon-insensitive regression on string kernels."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin

from textsvm.errors import InputError
from textsvm.estimators.base import KernelMachine, Target
from textsvm.estimators.targets import as_numbers, check_is_named, is_number
from textsvm.kernels.base import Kernel
from textsvm.kernels.user import KernelFunction
from textsvm.runtime.parallel import StageProgress
from textsvm.solvers.problems import Regression


class SVR(RegressorMixin, KernelMachine):
    """Support vector regression of numbers on texts with a string kernel, or on vectors.

    Solves the dual of the epsilon-insensitive loss with an unregularised bias (Drucker et al. 1997; as in
    LIBSVM) exactly.

    Parameters
    ----------
    kernel : Kernel, str or callable
        See `textsvm.SVC`.
    C : float
        Penalty of deviations past epsilon, > 0.
    epsilon : float
        Deviations up to this cost nothing, >= 0, in the unit of the targets.
    normalise, punctuation, max_length, tol, duality_gap, max_iter, solver, memory, device, n_jobs,
    approximate, store, tier
        See `textsvm.SVC`.

    Attributes
    ----------
    support_ : int64 array, shape (n_sv,)
        Indices of the support vectors in the training texts.
    support_documents_ : Documents
        Their encoded texts; None with a precomputed kernel matrix.
    dual_coef_ : float64 array, shape (1, n_sv)
        The difference of each one's two dual variables.
    intercept_ : float64 array, shape (1,)
        The bias.
    n_support_ : int64 array, shape (1,)
    kernel_, solutions_, n_iter_, device_, gram_, seconds_, info_, n_features_in_
        See `textsvm.SVC`.

    Examples
    --------
    >>> from textsvm import SVR, Spectrum
    >>> model = SVR(Spectrum(1), C=10.0).fit(["a", "ab", "abb", "abbb"], [0, 1, 2, 3])
    >>> model.predict(["abb"]).round(1).tolist()
    [2.1]
    """

    _POSITIVE = ("C", "tol", "duality_gap")

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
        solver: str = "auto",
        memory: int | str | None = None,
        device: str = "auto",
        n_jobs: int | None = None,
        approximate: str | None = None,
        store: str | os.PathLike[str] | None = None,
        tier: str = "auto",
    ) -> None:
        self.kernel = kernel
        self.C = C
        self.epsilon = epsilon
        self.normalise = normalise
        self.punctuation = punctuation
        self.max_length = max_length
        self.tol = tol
        self.duality_gap = duality_gap
        self.max_iter = max_iter
        self.solver = solver
        self.memory = memory
        self.device = device
        self.n_jobs = n_jobs
        self.approximate = approximate
        self.store = store
        self.tier = tier

    def check(self) -> None:
        """Raise InputError if a parameter is out of range; `fit` calls it first."""
        super().check()
        check_is_named(self.kernel)
        if not is_number(self.epsilon) or not 0 <= self.epsilon < np.inf:
            raise InputError(f"epsilon={self.epsilon!r} must be a finite number of at least 0")

    def fit(
        self, X: Any, y: Any, sample_weight: ArrayLike | None = None, progress: StageProgress | None = None
    ) -> SVR:
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

        Raises
        ------
        InputError
            If a parameter, a text, a target or a weight is unusable, all targets are the same, or no text
            is long enough for the kernel.
        """
        self._fit(X, y, sample_weight, progress)
        return self

    def predict(self, X: Any, progress: StageProgress | None = None) -> NDArray[np.float64]:
        """The number of each text, float64, shape (n,)."""
        return self._scores(X, progress)

    def as_target(self, y: Any, n: int) -> Target:
        """See `KernelMachine`."""
        return Target(as_numbers(y, n), None)

    def problem(
        self, target: Target, index: NDArray[np.int64], sample_weight: NDArray[np.float64] | None = None
    ) -> Regression:
        """See `KernelMachine`."""
        weight = np.ones(len(index)) if sample_weight is None else sample_weight[index]
        if not weight.any():
            raise InputError("sample_weight is zero for all documents; there is nothing to learn from")
        return Regression(index, target.values[index], float(self.C), weight, float(self.epsilon))

    def scores(self, values: NDArray[np.float64], n_classes: int) -> NDArray[np.float64]:
        """See `KernelMachine`."""
        return values[:, 0]

    def predictions(self, scores: NDArray[np.float64], classes: NDArray[Any] | None) -> NDArray[np.float64]:
        """See `KernelMachine`."""
        return scores
