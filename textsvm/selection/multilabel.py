"""Several labels a document: one machine a label on one Gram, and thresholds from values out of fold.

A document has every label whose machine gives it more than the label's threshold. At 0, where a machine puts
it, rare labels are hardly ever predicted; thresholds are chosen from decision values of documents that the
machines were not trained on, see `textsvm.selection.thresholds`. As with calibration, every fold and the fit
to all documents are problems over one Gram, solved side by side.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from textsvm.errors import InputError
from textsvm.kernels.base import Kernel
from textsvm.kernels.user import KernelFunction
from textsvm.machines.base import Fold, KernelMachine
from textsvm.machines.compute import Compute
from textsvm.machines.labels import FORMS, as_indicator, in_form
from textsvm.machines.targets import Target
from textsvm.runtime import device as devices
from textsvm.runtime.parallel import StageProgress, lap
from textsvm.selection.thresholds import choose

if TYPE_CHECKING:
    from typing_extensions import Self

    from textsvm.solvers.problems import Labelling, Machines

THRESHOLDS = ("cv", "zero")


class MultilabelClassifier(KernelMachine):
    """The machine of `textsvm.MultilabelSVC`."""

    thresholds: str
    cv: Any
    random_state: int | None

    estimator_name = "MultilabelSVC"

    C: float

    def __init__(
        self,
        kernel: Kernel | KernelFunction | str = "fast",
        C: float = 1.0,
        *,
        thresholds: str = "cv",
        cv: Any = 5,
        normalise: str = "unicode",
        punctuation: bool = True,
        max_length: int | None = None,
        tol: float = 1e-3,
        duality_gap: float | None = None,
        max_iter: int = -1,
        device: str = "auto",
        n_jobs: int | None = None,
        compute: Compute | None = None,
        random_state: int | None = 0,
    ) -> None:
        self._assign(locals())

    def check(self) -> None:
        """Raise InputError if a parameter is out of range; `fit` calls it first."""
        super().check()
        if not isinstance(self.thresholds, str) or self.thresholds not in THRESHOLDS:
            raise InputError(f"thresholds={self.thresholds!r} is not one of {', '.join(THRESHOLDS)}")

    def fit(
        self, X: Any, y: Any, sample_weight: ArrayLike | None = None, progress: StageProgress | None = None
    ) -> Self:
        """Train on texts; folds share the Gram of all, unless the kernel learns (idf).

        Parameters
        ----------
        X : list, NumPy string or object array, or pandas, Polars or Arrow column; n texts
            With a kernel of vectors an array, sparse matrix or data frame of finite numbers, shape (n, d);
            with ``kernel="precomputed"`` the kernel matrix, shape (n, n).
        y : sequence of n tuples, lists or sets of labels; or array or sparse matrix, shape (n, n_classes)
            A matrix holds 0 and 1, as `sklearn.preprocessing.MultiLabelBinarizer` makes it.
        sample_weight : array-like, shape (n,), optional
            Factors of C, >= 0. Thresholds count every text once.
        progress : callable, optional
            See `StageProgress`.
        """
        if self.thresholds == "zero":
            self._fit(X, y, sample_weight, progress)
            return self
        from textsvm.selection.fold_grams import Task, grams_of, train_and_test
        from textsvm.selection.folds import make_folds
        from textsvm.selection.scoring import read_training_data

        given, target, weight = read_training_data(self, X, y, sample_weight)
        self.read(X)  # a table names its columns, and the fitted estimator keeps the names
        folds = make_folds(self.cv, target, random_state=self.random_state)
        everyone = np.arange(len(target.values))
        task = Task(target, weight, [*folds, (everyone, np.empty(0, np.int64))])
        seconds = dict.fromkeys(("encode", "gram", "solve", "score"), 0.0)
        self.device_ = devices.select(self.device)
        with self.at_work(self.device_):
            clock = time.perf_counter()
            examples = self.encode(given, None, progress)
            grams = grams_of(self, examples, task)
            lap(seconds, "encode", clock)
            found = train_and_test([self], grams, task, seconds, progress)
        clock = time.perf_counter()
        self.keep(found.last, target, found.machines[0][-1])
        self.learn_from_folds(found.values[0], folds, target)
        seconds["thresholds"] = seconds.pop("score") + time.perf_counter() - clock
        self.seconds_ = seconds
        return self

    def decision_function(self, X: Any, progress: StageProgress | None = None) -> NDArray[np.float64]:
        """Values of the machines, float64, shape (n, n_classes); a label is given above its threshold."""
        return self._scores(X, progress)

    def predict(self, X: Any) -> Any:
        """The labels of each text, in the form that they were given in: tuples, array or sparse matrix."""
        found = self.predictions(self._scores(X), self.classes_)
        return in_form(found, self.classes_, self.label_form_)

    def as_target(self, y: Any, n: int) -> Target:
        classes, indicator, form = as_indicator(y, n)
        return Target(indicator, classes, form)

    def problem(
        self, target: Target, index: NDArray[np.int64], sample_weight: NDArray[np.float64] | None = None
    ) -> Labelling:
        """See `KernelMachine`; labels that none or all of the documents have are left out."""
        from textsvm.solvers.problems import Labelling

        weight = np.ones(len(index)) if sample_weight is None else sample_weight[index]
        return Labelling(index, target.values[index], float(self.C), weight)

    def scores(self, values: NDArray[np.float64], n_classes: int) -> NDArray[np.float64]:
        return values

    def predictions(self, scores: NDArray[np.float64], classes: NDArray[Any] | None) -> NDArray[np.bool_]:
        """Which labels are given, shape (n, n_classes); a machine that was left out (NaN) gives none."""
        return scores > vars(self).get("thresholds_", 0.0)

    def fold_predictions(
        self, values: Sequence[NDArray[np.float64]], folds: Sequence[Fold], target: Target
    ) -> list[NDArray[np.bool_]]:
        """See `KernelMachine`; the thresholds of a fold are chosen on documents that it does not test.

        Machines of those other folds were trained on its documents, thresholds never saw their values.
        """
        if self.thresholds == "zero":
            return [one > 0 for one in values]
        found = []
        for number, (_, test) in enumerate(folds):
            others = [k for k in range(len(folds)) if k != number]
            bounds = _thresholds([values[k] for k in others], [folds[k] for k in others], target, test)
            found.append(values[number] > bounds)
        return found

    def learn_from_folds(
        self, values: Sequence[NDArray[np.float64]], folds: Sequence[Fold], target: Target
    ) -> None:
        """See `KernelMachine`: the thresholds."""
        if self.thresholds == "cv":
            self.thresholds_ = _thresholds(values, folds, target)

    def n_machines(self, n_classes: int) -> int:
        return n_classes

    def machine_names(self, classes: NDArray[Any] | None, n_machines: int) -> list[str]:
        assert classes is not None
        return [f"{a!s} against the rest" for a in classes]

    def keep_machines(self, kernel: Kernel, examples: Any, target: Target, machines: Machines) -> None:
        """See `KernelMachine`; thresholds are 0 until folds say otherwise."""
        assert target.classes is not None
        assert target.form is not None
        for a in np.flatnonzero(np.isnan(machines.bias))[:1]:
            raise InputError(
                f"there is nothing to learn the label {target.classes[a]!s} from: sample_weight is zero for "
                "all documents that have it, or that have it not"
            )
        super().keep_machines(kernel, examples, target, machines)
        self.restore_labels(np.zeros(len(machines.bias)), target.form)

    def restore_labels(self, thresholds: NDArray[np.float64], form: str) -> None:
        """Take thresholds and the form of the labels; raises ValueError if they do not fit the machines."""
        if form not in FORMS:
            raise ValueError(f"its labels are in no known form, {form!r}")
        if thresholds.shape != self.intercept_.shape or thresholds.dtype != np.float64:
            raise ValueError("its thresholds do not fit its labels")
        if np.isnan(thresholds).any():
            raise ValueError("its thresholds are no numbers")
        self.thresholds_, self.label_form_ = thresholds, form

    def _count_support(self, target: NDArray[Any], classes: NDArray[Any] | None) -> NDArray[np.int64]:
        return (self.dual_coef_ != 0).sum(axis=1)


def _thresholds(
    values: Sequence[NDArray[np.float64]],
    folds: Sequence[Fold],
    target: Target,
    without: NDArray[np.int64] | None = None,
) -> NDArray[np.float64]:
    """Thresholds from the values of test parts, but for those of some documents."""
    from textsvm.selection.scoring import mean_values

    if not values:
        return np.zeros(target.values.shape[1])
    decision, tested = mean_values(values, folds, len(target.values))
    if without is not None:
        tested[without] = 0
    return choose(decision[tested > 0], target.values[tested > 0])
