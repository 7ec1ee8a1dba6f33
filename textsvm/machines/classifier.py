"""Support vector classification; with kernel="auto" or "fast" the classifier chooses the kernel."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from textsvm.choice import candidates
from textsvm.choice.candidates import Candidate
from textsvm.errors import InputError
from textsvm.kernels.base import Kernel
from textsvm.kernels.user import KernelFunction
from textsvm.machines.base import KernelMachine, is_default
from textsvm.machines.targets import (
    Target,
    as_classes,
    check_class_weight,
    class_factors,
    is_number,
    with_classes,
)
from textsvm.runtime import device as devices
from textsvm.runtime.parallel import StageProgress, lap
from textsvm.solvers.dual import LOSSES
from textsvm.sources.base import Source
from textsvm.sources.texts import TextSource
from textsvm.text.documents import Documents, MultiView

if TYPE_CHECKING:
    from typing import Self

    from textsvm.machines.training import PreparedRows
    from textsvm.solvers.problems import Classification, Machines

STRATEGIES = ("ovo", "ovr", "crammer-singer")
#: Factor of `tol` for kernel="auto" and "fast": training takes a third of the time, and decision values
#: change by at most 0.01.
ROUGHER = 20.0

#: Change of the bias of a class, for kernel="auto" and "fast", when its total weight falls by a factor of e;
#: half as much with two classes.
RARE = 0.05


def rare_class_bias(totals: NDArray[np.float64]) -> NDArray[np.float64]:
    """Additions to the biases of one-vs-rest machines that favour rare classes, shape (n_machines,).

    `totals` are the sums of the weights of the classes. On 62 public sets the addition raises macro-F1 by 0.2
    points, at the same accuracy (reports/default_study.md).
    """
    logs = np.log(totals)
    if len(logs) == 2:
        return np.array([RARE * (logs[0] - logs[1]) / 2])
    return np.asarray(RARE * (logs.mean() - logs))


@dataclass(repr=False, eq=False)
class Classifier(KernelMachine):
    """The machine of `textsvm.SVC`."""

    kernel: Kernel | KernelFunction | str = "auto"
    C: float = 1.0
    _: KW_ONLY
    multiclass: str = "ovr"
    class_weight: Mapping[Any, float] | str | None = None
    time_budget: float | None = None
    loss: str | None = None

    estimator_name = "SVC"
    _POSITIVE = ("C", "tol", "duality_gap")

    @property
    def source(self) -> Source:
        """Input type of the machine; a fitted classifier keeps the chosen kernel."""
        if is_default(self.kernel) and getattr(self, "kernel_", None) is not None:
            chosen: Any = self.kernel_
            return TextSource(chosen, self.text_form)
        return super().source

    @property
    def solver_tol(self) -> float:
        return ROUGHER * self.tol if is_default(self.kernel) else self.tol

    def check(self) -> None:
        super().check()
        if not isinstance(self.multiclass, str) or self.multiclass not in STRATEGIES:
            raise InputError(f"multiclass={self.multiclass!r} is not one of {', '.join(STRATEGIES)}")
        check_class_weight(self.class_weight)
        if self.loss not in (None, *LOSSES):
            raise InputError(f"loss={self.loss!r} is not None or one of {', '.join(LOSSES)}")
        if self.loss == "squared_hinge" and self.multiclass == "crammer-singer":
            raise InputError("crammer-singer has no squared hinge loss; choose multiclass ovr or ovo")
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
            Factors of C, >= 0; weight 2 counts a text twice. A text of weight 0 counts in idf and odds alone.
        progress : callable, optional
            Called with the stage, the work done and the total work (`StageProgress`).
        """
        if is_default(self.kernel):
            self._choose_and_fit(X, y, sample_weight, progress)
        else:
            self._fit(X, y, sample_weight, progress)
            self.C_, self.loss_, self.chosen_ = self.C, self.loss or "hinge", ""
            self.held_out_accuracy_: float | None = None  # of the choice, or of a calibration
        return self

    def _choose_and_fit(
        self, X: Any, y: Any, sample_weight: ArrayLike | None, progress: StageProgress | None
    ) -> None:
        from textsvm.machines.training import train

        texts, target, weight = self._validate_training_data(X, y, sample_weight)
        self.device_ = devices.select(self.device)
        seconds: dict[str, float] = {}
        with self.at_work(self.device_):
            clock = time.perf_counter()
            default = self._default(texts)
            documents = self._encode_for(default, texts, target, progress)
            clock = lap(seconds, "encode", clock)
            kernel, C, loss, self.chosen_ = self._choice(default, documents, target, weight, progress)
            lap(seconds, "choose", clock)
            self.C_, self.loss_ = float(C), loss
            problem = self.problem(target, np.arange(len(texts)), weight, C)
            problem = replace(problem, loss=loss)
            machines, self.gram_description_ = train(self, kernel, documents, problem, seconds, progress)
        self.seconds_ = seconds
        self.keep_machines(kernel, documents, target, machines)
        if self.multiclass == "ovr":
            totals = np.bincount(problem.target, problem.weight).astype(np.float64)
            self.intercept_ = np.asarray(self.intercept_ + rare_class_bias(totals))

    def choose_parameters(
        self,
        texts: list[str],
        target: Target,
        weight: NDArray[np.float64] | None,
        progress: StageProgress | None,
    ) -> str:
        """Set `kernel`, `C` and `loss` to those of kernel="auto" or "fast"; return a sentence about them."""
        default = self._default(texts)
        with self.at_work(devices.select(self.device)):
            documents = self._encode_for(default, texts, target, progress)
            choice = self._choice(default, documents, target, weight, progress)
        self.kernel, self.C, self.loss, reason = choice
        return reason

    def _default(self, texts: list[str]) -> Candidate:
        choose = candidates.auto if self.kernel == "auto" else candidates.fast
        default = choose(texts, self.normalise != "none")
        return default if self.loss is None else default.with_loss(self.loss)

    def _encode_for(
        self, default: Candidate, texts: list[str], target: Target, progress: StageProgress | None
    ) -> Documents | MultiView:
        documents = TextSource(default.kernel(), self.text_form).encode(texts, None, progress)
        if not documents.lengths.any():
            raise InputError("every document is empty once it is normalised; give documents with some text")
        return with_classes(documents, target)

    def _choice(
        self,
        default: Candidate,
        documents: Documents | MultiView,
        target: Target,
        weight: NDArray[np.float64] | None,
        progress: StageProgress | None,
    ) -> tuple[Kernel, float, str, str]:
        """Kernel, C, loss and a sentence: of the default, or chosen by trials within `time_budget`.

        The loss is hinge if machines with the squared hinge loss cannot be trained.
        """
        from textsvm.machines.training import can_square_hinge

        self.held_out_accuracy_, self.n_trials_ = None, 0
        problem = self.problem(target, np.arange(len(documents)), weight, 1.0)
        given = (default.kernel(), documents, problem, devices.select(self.device))
        if self.loss is None and default.loss != "hinge" and not can_square_hinge(self, *given):
            default = default.with_loss("hinge")
        if self.kernel == "fast" or self.time_budget is None:
            return default.kernel(), default.C * self.C, default.loss, default.description(self.C)
        from textsvm.choice.choose import choose

        C, seconds = float(self.C), self.time_budget
        choice = choose(default, documents, target.values, problem.weight, C, seconds, progress)
        self.held_out_accuracy_ = choice.accuracy
        self.n_trials_ = len(choice.trials)
        return choice.kernel, choice.C, default.loss, choice.description

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
        """Predict the class of each text, shape (n,)."""
        return self.predictions(self._scores(X), self.classes_)

    def keep(self, prepared: PreparedRows, target: Target, machines: Machines) -> None:
        super().keep(prepared, target, machines)
        self.C_, self.loss_, self.chosen_ = self.C, self.loss or "hinge", ""

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
        """The learning problem of the rows `index`, with `C` in place of the parameter if given."""
        from textsvm.solvers.problems import Classification

        assert target.classes is not None
        codes = target.values[index]
        weight = np.ones(len(index)) if sample_weight is None else sample_weight[index]
        totals: NDArray[np.float64] = np.bincount(codes, weight, len(target.classes)).astype(np.float64)
        for a in np.flatnonzero(totals == 0)[:1]:
            weightless = (codes == a).any()
            why = "sample_weight is zero for all of its documents" if weightless else "it has no document"
            raise InputError(f"there is nothing to learn the class {target.classes[a]!s} from: {why}")
        factors = class_factors(self.class_weight, target.classes, totals)
        penalty = float(self.C if C is None else C)
        weight = weight * factors[codes]
        loss = self.loss or "hinge"
        return Classification(index, codes, len(target.classes), penalty, weight, self.multiclass, loss)

    def scores(self, values: NDArray[np.float64], n_classes: int) -> NDArray[np.float64]:
        if n_classes == 2 and values.shape[1] == 2:
            return values[:, 1] - values[:, 0]  # Crammer-Singer; the margin is on the difference
        return class_scores(values, n_classes, self.multiclass)

    def predictions(self, scores: NDArray[np.float64], classes: NDArray[Any] | None) -> NDArray[Any]:
        assert classes is not None
        return classes[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]

    def n_machines(self, n_classes: int) -> int:
        if self.multiclass == "ovo" or (n_classes == 2 and self.multiclass == "ovr"):
            return n_classes * (n_classes - 1) // 2
        return n_classes

    def machine_names(self, classes: NDArray[Any] | None, n_machines: int) -> list[str]:
        assert classes is not None
        if self.multiclass == "ovo" or (len(classes) == 2 and self.multiclass == "ovr"):
            return [f"{a!s} against {b!s}" for a, b in combinations(classes, 2)]
        return [f"{a!s} against the rest" for a in classes]


def class_scores(values: NDArray[np.float64], n_classes: int, strategy: str) -> NDArray[np.float64]:
    """Class scores from the values of all machines; the largest score wins.

    "ovo" counts votes, and breaks ties by the sum of the values, scaled to less than half a vote. Shapes are
    (n, n_machines) -> (n, n_classes), or (n,) if there is a single machine for two classes.
    """
    if values.shape[1] == 1:
        return values[:, 0]
    if strategy != "ovo":
        return values
    votes = np.zeros((len(values), n_classes))
    sums = np.zeros((len(values), n_classes))
    for k, (a, b) in enumerate(combinations(range(n_classes), 2)):
        second = values[:, k] > 0
        votes[:, b] += second
        votes[:, a] += ~second
        sums[:, b] += values[:, k]
        sums[:, a] -= values[:, k]
    return votes + sums / (3 * (np.abs(sums) + 1))
