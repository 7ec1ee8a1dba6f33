"""Support vector classification."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from textsvm.errors import InputError
from textsvm.kernels.base import Kernel
from textsvm.kernels.inputs import TextForm
from textsvm.kernels.user import KernelFunction
from textsvm.machines.base import KernelMachine, is_default
from textsvm.machines.compute import Compute
from textsvm.machines.decisions import scores_of_classes, winners
from textsvm.machines.targets import (
    Target,
    as_classes,
    as_weights,
    check_class_weight,
    class_factors,
    is_number,
)
from textsvm.runtime.parallel import StageProgress
from textsvm.solvers.class_scores import STRATEGIES, number_of_machines
from textsvm.sources.base import Source
from textsvm.sources.texts import TextSource

if TYPE_CHECKING:
    from typing_extensions import Self

    from textsvm.machines.training import Prepared
    from textsvm.solvers.problems import Classification, Machines


class Classifier(KernelMachine):
    """The machine of `textsvm.SVC`."""

    multiclass: str
    class_weight: Mapping[Any, float] | str | None
    time_budget: float | None

    estimator_name = "SVC"

    C: float

    def __init__(
        self,
        kernel: Kernel | KernelFunction | str = "auto",
        C: float = 1.0,
        *,
        multiclass: str = "ovr",
        class_weight: Mapping[Any, float] | str | None = None,
        normalise: str = "unicode",
        punctuation: bool = True,
        max_length: int | None = None,
        tol: float = 1e-3,
        duality_gap: float | None = None,
        max_iter: int = -1,
        device: str = "auto",
        n_jobs: int | None = None,
        compute: Compute | None = None,
        time_budget: float | None = None,
    ) -> None:
        self._assign(locals())

    @property
    def source(self) -> Source:
        """Where the rows of the kernel matrix come from; a chosen kernel stays."""
        if is_default(self.kernel) and getattr(self, "kernel_", None) is not None:
            chosen: Any = self.kernel_
            return TextSource(chosen, TextForm(self.normalise, self.punctuation, self.max_length))
        return super().source

    def check(self) -> None:
        """Raise InputError if a parameter is out of range; `fit` calls it first."""
        super().check()
        if not isinstance(self.multiclass, str) or self.multiclass not in STRATEGIES:
            raise InputError(f"multiclass={self.multiclass!r} is not one of {', '.join(STRATEGIES)}")
        check_class_weight(self.class_weight)
        seconds = self.time_budget
        if seconds is not None and not (is_number(seconds) and 0 <= seconds < np.inf):
            raise InputError(f"time_budget must be a number of seconds or None, got {seconds!r}")

    def fit(
        self, X: Any, y: Any, sample_weight: ArrayLike | None = None, progress: StageProgress | None = None
    ) -> Self:
        """Train on texts.

        Parameters
        ----------
        X : list, NumPy string or object array, or pandas, Polars or Arrow column; n texts
            With a kernel of vectors an array, sparse matrix or data frame of finite numbers, shape (n, d);
            with kernels on columns (`On`) a pandas or Polars DataFrame, an Arrow table, a dict of columns or
            a list of dicts; with ``kernel="precomputed"`` the kernel matrix, shape (n, n).
        y : array-like, shape (n,)
            Labels of two or more classes: strings, whole numbers or bools.
        sample_weight : array-like, shape (n,), optional
            Factors of C, >= 0; a text of weight 2 counts as two equal ones, one of weight 0 as none.
        progress : callable, optional
            See `StageProgress`.
        """
        if not is_default(self.kernel):
            self._fit(X, y, sample_weight, progress)
            self.C_, self.chosen_ = self.C, ""
            return self
        from textsvm.machines.default import Given, fit_default

        self.check()
        texts = self.read(X)
        if not texts:
            raise InputError("there are no documents to train on")
        target = self.as_target(y, len(texts))
        fit_default(self, Given(texts, target, as_weights(sample_weight, len(texts))), progress)
        return self

    def decision_function(self, X: Any, progress: StageProgress | None = None) -> NDArray[np.float64]:
        """Decision values of texts for the classes; the largest wins.

        Texts are compared with the support vectors only, in batches of bounded memory.

        Returns
        -------
        float64 array
            Two classes, shape (n,): signed distance to the boundary in units of the margin; positive is
            ``classes_[1]``. More, shape (n, n_classes): votes with ties broken by the values of the machines
            ("ovo"), or values of the machines.
        """
        return self._scores(X, progress)

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each text, shape (n,)."""
        return self.predictions(self._scores(X), self.classes_)

    def keep(self, prepared: Prepared, target: Target, machines: Machines) -> None:
        """Set the fitted attributes, with a named kernel."""
        super().keep(prepared, target, machines)
        self.C_, self.chosen_ = self.C, ""

    def as_target(self, y: Any, n: int) -> Target:
        classes, codes = as_classes(y, n)
        return Target(codes, classes)

    def problem(
        self,
        target: Target,
        index: NDArray[np.int64],
        sample_weight: NDArray[np.float64] | None = None,
        C: float | None = None,
    ) -> Classification:
        """The learning problem of some rows, with `C` in place of the parameter if given."""
        from textsvm.solvers.problems import Classification

        assert target.classes is not None
        codes = target.values[index]
        weight = np.ones(len(index)) if sample_weight is None else sample_weight[index]
        totals: NDArray[np.float64] = np.bincount(codes, weight, len(target.classes)).astype(np.float64)
        for a in np.flatnonzero(totals == 0)[:1]:
            why = (
                "sample_weight is zero for all of its documents"
                if (codes == a).any()
                else "it has no document"
            )
            raise InputError(f"there is nothing to learn the class {target.classes[a]!s} from: {why}")
        factors = class_factors(self.class_weight, target.classes, totals)
        return Classification(
            index,
            codes,
            len(target.classes),
            float(self.C if C is None else C),
            weight * factors[codes],
            self.multiclass,
        )

    def scores(self, values: NDArray[np.float64], n_classes: int) -> NDArray[np.float64]:
        return scores_of_classes(values, n_classes, self.multiclass)

    def predictions(self, scores: NDArray[np.float64], classes: NDArray[Any] | None) -> NDArray[Any]:
        assert classes is not None
        return winners(scores, classes)

    def n_machines(self, n_classes: int) -> int:
        return number_of_machines(n_classes, self.multiclass)

    def machine_names(self, classes: NDArray[Any] | None, n_machines: int) -> list[str]:
        assert classes is not None
        if self.multiclass == "ovo" or (len(classes) == 2 and self.multiclass == "ovr"):
            return [f"{a!s} against {b!s}" for a, b in combinations(classes, 2)]
        return [f"{a!s} against the rest" for a in classes]
