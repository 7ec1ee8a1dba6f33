"""What the estimators share: a source of rows -> a Gram -> machines -> fitted attributes.

`fit` is prepare -> problem -> solve -> keep. The steps are separate methods, so that model selection runs
`prepare` once and the others for every fold and every parameter over the same rows.

What estimators know of training examples before anything is learnt from their labels.

What is said of machines whose solver stopped before they converged.

The parameter `approximate` of the estimators: "nystrom:4096".

How a machine shows itself: in a notebook, and its report on labelled examples.
"""

from __future__ import annotations

import os
import re
import sys
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from textsvm.errors import InputError
from textsvm.estimators.decisions import quiet_overflow, require_numbers
from textsvm.estimators.storing import check_store, make_gram
from textsvm.estimators.targets import Target, as_weights, is_integer, is_number, with_classes
from textsvm.estimators.training import Prepared, check_solver, train
from textsvm.gram.measure import allowed_bytes
from textsvm.gram.plan import parse_bytes
from textsvm.kernels.base import Kernel, Predictor, Weights
from textsvm.kernels.spelling import make_kernel, reads_of
from textsvm.kernels.user import KernelFunction
from textsvm.runtime import device as devices
from textsvm.runtime import parallel
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import Lock, StageProgress, of_stage
from textsvm.solvers.problems import Machines, Problem
from textsvm.sources.base import Kept, Source
from textsvm.sources.columns import ColumnSource
from textsvm.sources.matrix import MatrixSource
from textsvm.sources.texts import TextForm, TextSource
from textsvm.sources.vectors import VectorSource
from textsvm.text.documents import Documents, Views

if TYPE_CHECKING:  # reports are built on machines
    from collections.abc import Sequence


def how_far(machines: Machines, tol: float, names: Callable[[int], list[str]]) -> str:
    """Which of the machines did not converge and how far they got; "" if all did.

    Parameters
    ----------
    machines : Machines
    tol : float
        What they were to reach.
    names : callable
        Number of machines -> what each does, where there are several.
    """
    solutions = machines.solutions
    open_ones = [k for k, solution in enumerate(solutions) if not solution.converged]
    if not open_ones:
        return ""
    worst = max(open_ones, key=lambda k: solutions[k].violation)
    violation = f"violation {solutions[worst].violation:.2g}, tol {tol:g}"
    if len(solutions) == 1:
        return f"the solver stopped before it converged ({solutions[0].status}): {violation}"
    learnt = np.flatnonzero(~np.isnan(machines.bias))
    name = names(len(machines.bias))[learnt[worst]]
    return (
        f"{len(open_ones)} of {len(solutions)} machines stopped before they converged; the worst is "
        f"{name} ({solutions[worst].status}): {violation}"
    )


def warn_user(trouble: str) -> None:
    """Warn where the user's code called this package, however many calls that is from here."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals["__name__"].startswith("textsvm."):
        level, frame = level + 1, frame.f_back
    warnings.warn(trouble, ConvergenceWarning, stacklevel=level)


_FORM = re.compile(r"nystrom:0*([1-9][0-9]{0,17})")


def landmarks_of(approximate: Any) -> int | None:
    """How many landmarks are asked for; None if the kernel is not to be approximated.

    Raises
    ------
    InputError
        If it is neither None nor "nystrom:" and a whole number above 0.
    """
    if approximate is None:
        return None
    found = _FORM.fullmatch(approximate) if isinstance(approximate, str) else None
    if found is None:
        raise InputError(
            f'approximate={approximate!r} must be "nystrom:" and how many landmarks, a whole number above 0, '
            'such as "nystrom:1000"; or None'
        )
    return int(found[1])


def check_approximate(approximate: Any, kernel: object) -> None:
    """Raise InputError if `approximate` is out of range, or does not go with the kernel."""
    if landmarks_of(approximate) is None:
        return
    from textsvm.estimators.default import is_default  # and with it scikit-learn

    if is_default(kernel):
        raise InputError(
            f"approximate is for a kernel that is named; kernel={kernel!r} takes one that is exact with any "
            "number of documents; name one, such as gap, or leave approximate out"
        )
    if isinstance(kernel, str) and kernel == "precomputed":
        raise InputError("a kernel matrix that is given is not approximated; leave approximate out")


class Shown:
    """What estimators have for people."""

    def report(
        self,
        X: Any,
        y: Any,
        *,
        positive: Any = None,
        ids: Sequence[str] | None = None,
        title: str = "Evaluation",
        mistakes: int = 10,
    ) -> Any:
        """Judge it on labelled examples: the report that ``textsvm evaluate --report`` writes.

        Parameters
        ----------
        X : see `fit`; n examples, not those that it was trained on
        y : sequence, length n
            Their labels or numbers.
        positive : label, optional
            Of two classes the one to be found; the second if not given. A OneClassSVM needs it.
        ids : sequence of str, length n, optional
            What the examples are called; their numbers if not given.
        title : str
        mistakes : int
            How many of the worst are shown with the text and why it was decided so.

        Returns
        -------
        SavedReport
            `results` has the figures; ``save("x.html")`` (or .md, .json) writes it, and a notebook shows it.

        Raises
        ------
        InputError
            If examples and labels do not fit each other, or the model.
        """
        files: Any = import_module("textsvm.reporting.files")
        return files.report(self, X, y, positive, ids=ids, title=title, mistakes=mistakes)

    def _sk_visual_block_(self) -> Any:
        """scikit-learn's picture of an estimator: one block, with kernel and device below its name."""
        return SimpleNamespace(
            kind="single",
            estimators=self,
            names=type(self).__name__,
            name_details=str(self),
            name_caption=_caption(self),
            doc_link_label=None,
            dash_wrapped=True,
        )


def _caption(machine: Any) -> str:
    """Kernel and device: those that were used, or those that it asks for."""
    asked = getattr(machine, "estimator", None) or machine
    fitted = hasattr(machine, "dual_coef_")
    kernel = machine.kernel_ if fitted else getattr(asked, "kernel", "auto")
    used = getattr(machine, "device_", None) if fitted else None
    device = getattr(asked, "device", "auto") if used is None else used.description
    return f"kernel: {'precomputed' if kernel is None else kernel}; device: {device}"


#: Rows to train on and rows to test on.
Fold = tuple[NDArray[np.int64], NDArray[np.int64]]
#: Held while a predictor is made, so that threads that share a model make one.
_making = Lock()


class KernelMachine(Shown, BaseEstimator, ABC):
    """The parameters and the steps of SVC, MultilabelSVC, SVR and OneClassSVM; described at `textsvm.SVC`."""

    kernel: Kernel | KernelFunction | str
    normalise: str
    punctuation: bool
    max_length: int | None
    tol: float
    duality_gap: float | None
    max_iter: int
    solver: str
    memory: int | str | None
    device: str
    n_jobs: int | None
    approximate: str | None
    store: str | os.PathLike[str] | None = None
    tier: str = "auto"

    #: Parameters that must be finite numbers above 0 (`duality_gap` may be None).
    _POSITIVE: ClassVar[tuple[str, ...]] = ("tol", "duality_gap")
    # `progress` is nothing that a meta-estimator could route.
    __metadata_request__fit: ClassVar[dict[str, str]] = {"progress": UNUSED}

    @property
    def source(self) -> Source:
        """Where the rows of the kernel matrix come from."""
        if isinstance(self.kernel, str) and self.kernel == "precomputed":
            return MatrixSource()
        if reads_of(self.kernel) == "vectors":
            return VectorSource(self.kernel, landmarks_of(self.approximate))
        form = TextForm(self.normalise, self.punctuation, self.max_length)
        kind = ColumnSource if reads_of(self.kernel) == "columns" else TextSource
        return kind(self.kernel, form, landmarks_of(self.approximate))

    def check(self) -> None:
        """Raise InputError if a parameter is out of range; `fit` calls it first."""
        self.source.check()
        check_approximate(self.approximate, self.kernel)
        for name in self._POSITIVE:
            value = getattr(self, name)
            if not (name == "duality_gap" and value is None) and not (
                is_number(value) and 0 < value < np.inf
            ):
                raise InputError(f"{name}={value!r} must be a finite number above 0")
        if not (is_integer(self.max_iter) and (self.max_iter > 0 or self.max_iter == -1)):
            raise InputError(f"max_iter={self.max_iter!r} must be a whole number above 0, or -1 for no bound")
        jobs = self.n_jobs
        if jobs is not None and not (is_integer(jobs) and (jobs > 0 or jobs == -1)):
            raise InputError(f"n_jobs={jobs!r} must be a whole number above 0, -1 or None for all cores")
        parse_bytes(self.memory)
        check_solver(self)
        check_store(self)

    @property
    def precomputed(self) -> bool:
        """Deprecated: whether X is a kernel matrix instead of texts."""
        warnings.warn("ask for the source of a machine instead of precomputed", DeprecationWarning, 2)
        return isinstance(self.source, MatrixSource)

    def make_kernel(self) -> Kernel:
        """A fresh kernel with the parameters of `kernel`.

        Raises
        ------
        InputError
            If `kernel` is nothing that a kernel can be made from.
        """
        return make_kernel(self.kernel)

    def encode(
        self, texts: list[str], known: Documents | Views | None = None, progress: StageProgress | None = None
    ) -> Any:
        """Normalise and encode texts; `known` documents are some of this machine to be compared with."""
        return self.source.prepare(texts, known, progress)

    def read(self, X: Any, fitting: bool = True) -> Any:
        """Texts as a list of str, or what is to be the kernel matrix as an array of two dimensions.

        Parameters
        ----------
        X : see `fit`
        fitting : bool
            Whether they are the training texts, or others to be predicted.

        Raises
        ------
        InputError
            If it is neither; the values of a training matrix are looked at by `prepare`.
        """
        return self.source.read(X, self, fitting)

    def prepare(self, X: Any, progress: StageProgress | None = None) -> Prepared:
        """The first half of `fit`: encode the texts and make the rows of their kernel matrix.

        Parameters
        ----------
        X : texts, or a kernel matrix with ``kernel="precomputed"``; see `fit`
        progress : callable, optional
            See `StageProgress`.
        """
        self.check()
        return self._prepare(self.read(X), progress)

    def compare(self, examples: Any, kernel: Kernel, progress: StageProgress | None = None) -> Prepared:
        """Make the rows of examples; inside `at_work`.

        Parameters
        ----------
        examples : Examples
            As `encode` makes them.
        kernel : Kernel
            Fitted, to these examples or to some of them.
        progress : callable, optional
            See `StageProgress`.
        """
        device, clock = devices.select(self.device), time.perf_counter()
        if progress is not None:
            # Preparing, and compiling at first use, come before any work is counted.
            progress("gram", 0, 1)
        memory = self.source.memory(self.memory, len(examples), device)
        kernel.require_memory(len(examples), allowed_bytes(memory, device))
        gram = make_gram(self, kernel, examples, device, memory, of_stage(progress, "gram"))
        devices.synchronize(device)
        return Prepared(examples, kernel, gram, {"gram": time.perf_counter() - clock})

    @abstractmethod
    def as_target(self, y: Any, n: int) -> Target:
        """Check the targets of n examples.

        Raises
        ------
        InputError
            If there are not n, or one of them is unusable.
        """

    @abstractmethod
    def problem(
        self, target: Target, index: NDArray[np.int64], sample_weight: NDArray[np.float64] | None = None
    ) -> Problem:
        """What is to be learnt from the rows `index` of the Gram.

        Parameters
        ----------
        target : Target
            Of all n examples.
        index : int64 array, shape (m,)
            The rows to learn from; class weights are worked out on these.
        sample_weight : float64 array, shape (n,), optional
            Checked weights of all n examples, see `textsvm.estimators.targets.as_weights`.

        Raises
        ------
        InputError
            If there is nothing to learn from these rows.
        """

    @abstractmethod
    def scores(self, values: NDArray[np.float64], n_classes: int) -> NDArray[np.float64]:
        """Values of all machines, shape (n, n_machines) -> what `decision_function` gives."""

    @abstractmethod
    def predictions(self, scores: NDArray[np.float64], classes: NDArray[Any] | None) -> NDArray[Any]:
        """Scores -> what `predict` gives, shape (n,)."""

    def fold_predictions(
        self, values: Sequence[NDArray[np.float64]], folds: Sequence[Fold], target: Target
    ) -> list[NDArray[Any]]:
        """Scores of the test parts of folds -> predictions; thresholds are learnt from the other folds."""
        return [self.predictions(one, target.classes) for one in values]

    def learn_from_folds(
        self, values: Sequence[NDArray[np.float64]], folds: Sequence[Fold], target: Target
    ) -> None:
        """Learn what is learnt from scores of the test parts of folds besides: for most machines, nothing."""

    def n_machines(self, n_classes: int) -> int:
        """How many machines there are."""
        return 1

    def machine_names(self, classes: NDArray[Any] | None, n_machines: int) -> list[str]:
        """What each machine does, for people."""
        return [""] * n_machines

    def keep(self, prepared: Prepared, target: Target, machines: Machines) -> None:
        """Set the fitted attributes from a solved problem; warn where it did not converge."""
        self.gram_ = prepared.description
        self.seconds_ = dict(prepared.seconds)
        self.keep_machines(prepared.kernel, prepared.examples, target, machines)

    def keep_machines(self, kernel: Kernel, examples: Any, target: Target, machines: Machines) -> None:
        """The same, of what solved it wherever the rows came from."""
        self.approximation_ = kernel.approximation
        kernel, index, every = kernel.condense(machines.index, machines.coef)
        used = np.flatnonzero((every != 0).any(axis=0))
        support = index[used]
        self.solutions_ = machines.solutions
        self.n_iter_ = sum(solution.iterations for solution in machines.solutions)
        before = vars(self).get("kernel_", self)
        had_columns = before is None or getattr(before, "reads", "texts") != "texts"
        kept = self.source.keep(kernel, examples, support)
        coef = np.ascontiguousarray(every[:, used])
        self.restore(kept.kernel, kept.documents, support, coef, machines.bias, target.classes, {})
        if kept.n_features is not None:
            self.n_features_in_ = kept.n_features
        elif had_columns:  # of a fit to a matrix before
            for name in {"n_features_in_", "feature_names_in_"} & set(vars(self)):
                delattr(self, name)
        self.n_support_ = self._count_support(target.values[support], target.classes)
        if trouble := self.unfinished(machines, target.classes):
            warn_user(trouble)

    def unfinished(self, machines: Machines, classes: NDArray[Any] | None) -> str:
        """Which of the machines did not converge and how far they got; "" if all did."""
        return how_far(machines, self.tol, lambda n_machines: self.machine_names(classes, n_machines))

    def restore(
        self,
        kernel: Kernel | None,
        support_documents: Any,
        support: NDArray[np.int64],
        dual_coef: NDArray[np.float64],
        intercept: NDArray[np.float64],
        classes: NDArray[Any] | None,
        info: dict[str, Any],
    ) -> KernelMachine:
        """Take the fitted state that prediction needs; `textsvm.load` builds an estimator with it."""
        self.kernel_ = kernel
        self.support_documents_, self.support_ = support_documents, support
        self.weight_vectors_: Weights | None = None
        self.dual_coef_ = dual_coef
        self.intercept_ = intercept
        if classes is not None:
            self.classes_ = classes
        self.info_ = info
        #: The machines prepared for prediction, once they are, by the `device` that was asked for.
        self._predictors: dict[str, Predictor] = {}
        return self

    @property
    def kept(self) -> Kept:
        """The fitted state that its source of rows takes for prediction, and saves."""
        n_features, weights = (vars(self).get(name) for name in ("n_features_in_", "weight_vectors_"))
        return Kept(self.support_, self.kernel_, self.support_documents_, n_features, weights)

    @contextmanager
    def at_work(self, device: Device) -> Iterator[None]:
        """Where numerics run: `n_jobs` threads at most, and the card made current."""
        with parallel.limit(self.n_jobs), devices.use(device):
            yield

    def _fit(self, X: Any, y: Any, sample_weight: ArrayLike | None, progress: StageProgress | None) -> None:
        self.check()
        given = self.read(X)
        n = len(given)
        if n == 0:
            raise InputError("there are no documents to train on")
        target = self.as_target(y, n)
        problem = self.problem(target, np.arange(n), as_weights(sample_weight, n))
        self.device_ = devices.select(self.device)
        with self.at_work(self.device_):
            clock = time.perf_counter()
            examples = self.encode(given, None, progress)
            kernel = self.source.kernel_for(examples)
            examples, seconds = with_classes(examples, target), {"encode": time.perf_counter() - clock}
            machines, self.gram_ = train(self, kernel, examples, problem, seconds, progress)
        self.seconds_ = seconds
        self.keep_machines(kernel, examples, target, machines)

    def _prepare(self, given: Any, progress: StageProgress | None, target: Target | None = None) -> Prepared:
        with self.at_work(devices.select(self.device)):
            clock = time.perf_counter()
            examples = self.encode(given, None, progress)
            kernel = self.source.kernel_for(examples)
            examples = with_classes(examples, target)
            kernel.fit_on(kernel.read(examples), devices.select(self.device))
            encoded = {"encode": time.perf_counter() - clock}
            prepared = self.compare(examples, kernel, progress)
        return replace(prepared, seconds=encoded | prepared.seconds)

    def predictor(self) -> Predictor:
        """The machines, prepared to decide on `device`: made once, and again when `device` changes.

        Raises
        ------
        InputError
            If there is no such device.
        """
        with _making:
            if self.device not in self._predictors:
                self._predictors.clear()
                device = devices.select(self.device)
                with self.at_work(device):
                    made = self.source.predictor(self.kept, self.dual_coef_, device)
                self._predictors[self.device] = made
                self.device_ = made.device
            return self._predictors[self.device]

    def machine_values(self, X: Any, progress: StageProgress | None = None) -> NDArray[np.float64]:
        """Values of all machines, shape (n, n_machines); texts are compared with support vectors only."""
        check_is_fitted(self)
        given = self.read(X, fitting=False)
        if not len(self.support_) and self.kept.weights is None:
            self.device_ = devices.select(self.device)
            return np.tile(self.intercept_, (len(given), 1))
        predictor = self.predictor()
        with self.at_work(predictor.device), quiet_overflow():
            others = self.source.others(given, self.kept)
            return require_numbers(predictor.values(others, of_stage(progress, "predict")) + self.intercept_)

    def _scores(self, X: Any, progress: StageProgress | None = None) -> NDArray[np.float64]:
        values = self.machine_values(X, progress)
        return self.scores(values, len(getattr(self, "classes_", ())))

    def _count_support(self, target: NDArray[Any], classes: NDArray[Any] | None) -> NDArray[np.int64]:
        if classes is None:
            return np.array([len(target)])
        return np.bincount(target, minlength=len(classes)).astype(np.int64)

    def __getstate__(self) -> dict[str, Any]:
        # A predictor holds device memory or large indexes; it is made again when first needed.
        state = super().__getstate__()
        return {**state, "_predictors": {}} if "_predictors" in state else state

    def __sklearn_is_fitted__(self) -> bool:
        # scikit-learn's own way walks over all attributes, which another thread may be adding to.
        return "support_" in vars(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        self.source.tag(tags.input_tags)
        return tags
