"""The scikit-learn face of the one-class machine on string kernels."""

from __future__ import annotations

import os
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import OutlierMixin
from sklearn.utils.metadata_routing import UNUSED

from textsvm.errors import InputError
from textsvm.estimators.base import KernelMachine, Target
from textsvm.estimators.targets import check_is_named, is_number
from textsvm.kernels.base import Kernel
from textsvm.kernels.user import KernelFunction
from textsvm.runtime.parallel import StageProgress
from textsvm.solvers.problems import OneClass


class OneClassSVM(OutlierMixin, KernelMachine):
    """The region where texts, or vectors, like the training ones lie.

    Solves the dual of the one-class machine (Schoelkopf et al. 2001; scaled as in LIBSVM) exactly.

    Parameters
    ----------
    kernel : Kernel, str or callable
        See `textsvm.SVC`.
    nu : float
        Bound on the share of training texts outside, and below the share of support vectors; in (0, 1].
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
        Their dual variables; they sum to nu times the sum of the weights.
    intercept_ : float64 array, shape (1,)
        The bias.
    offset_ : float
        ``-intercept_``: `decision_function` is `score_samples` less this.
    n_support_ : int64 array, shape (1,)
    kernel_, solutions_, n_iter_, device_, gram_, seconds_, info_, n_features_in_
        See `textsvm.SVC`.

    Examples
    --------
    >>> from textsvm import OneClassSVM, Spectrum
    >>> model = OneClassSVM(Spectrum(2), nu=0.1).fit(["banana", "bananas", "a banana", "ananas"])
    >>> model.predict(["bananas", "xylophone"]).tolist()
    [1, -1]
    """

    __metadata_request__decision_function: ClassVar[dict[str, str]] = {"progress": UNUSED}

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
        solver: str = "auto",
        memory: int | str | None = None,
        device: str = "auto",
        n_jobs: int | None = None,
        approximate: str | None = None,
        store: str | os.PathLike[str] | None = None,
        tier: str = "auto",
    ) -> None:
        self.kernel = kernel
        self.nu = nu
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
        if not is_number(self.nu) or not 0 < self.nu <= 1:
            raise InputError(f"nu={self.nu!r} must be above 0 and at most 1")

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        progress: StageProgress | None = None,
    ) -> OneClassSVM:
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

        Raises
        ------
        InputError
            If a parameter, a text or a weight is unusable, or no text is long enough for the kernel.
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
        """See `KernelMachine`; there is no target."""
        return Target(np.zeros(n), None)

    def problem(
        self, target: Target, index: NDArray[np.int64], sample_weight: NDArray[np.float64] | None = None
    ) -> OneClass:
        """See `KernelMachine`."""
        weight = np.ones(len(index)) if sample_weight is None else sample_weight[index]
        if not weight.any():
            raise InputError("sample_weight is zero for all documents; there is nothing to learn from")
        return OneClass(index, float(self.nu), weight)

    def scores(self, values: NDArray[np.float64], n_classes: int) -> NDArray[np.float64]:
        """See `KernelMachine`."""
        return values[:, 0]

    def predictions(self, scores: NDArray[np.float64], classes: NDArray[Any] | None) -> NDArray[np.int64]:
        """See `KernelMachine`."""
        return np.where(scores >= 0, 1, -1)
