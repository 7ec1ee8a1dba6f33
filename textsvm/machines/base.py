"""Kernel machines: parameters, training and decisions, without scikit-learn.

`fit` runs read -> as_target -> problem -> encode -> `training.train` (plan, features or Gram, solve) ->
keep_machines. The steps are separate methods, so that model selection encodes texts and computes rows once
for all folds and parameters. `textsvm.estimators` adds the interface of scikit-learn. Modules that only
training needs are imported when it starts: predicting a single text waits for neither SciPy nor Numba.
"""

from __future__ import annotations

import re
import sys
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from textsvm.errors import InputError
from textsvm.kernels.base import Kernel
from textsvm.kernels.contract import Predictor, Weights
from textsvm.kernels.given import as_kernel, structure_of
from textsvm.kernels.inputs import TextForm
from textsvm.kernels.spelling import is_spelled_out, parse
from textsvm.kernels.user import KernelFunction
from textsvm.machines.compute import Compute
from textsvm.machines.decisions import quiet_overflow, require_numbers
from textsvm.machines.targets import Target, as_weights, is_integer, is_number, with_classes
from textsvm.runtime import device as devices
from textsvm.runtime import parallel
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import Lock, StageProgress, of_stage
from textsvm.runtime.parameters import Parameters
from textsvm.sources.base import Kept, Source
from textsvm.sources.texts import TextSource
from textsvm.text.documents import Documents, Views

if TYPE_CHECKING:
    from typing_extensions import Self

    from textsvm.machines.training import Prepared
    from textsvm.solvers.problems import Machines, Problem

#: Values of `kernel` that leave the kernel to the classifier.
DEFAULT_KERNELS = ("auto", "fast")
#: Indices of training rows and of test rows.
Fold = tuple[NDArray[np.int64], NDArray[np.int64]]
_NYSTROM = re.compile(r"nystrom:0*([1-9][0-9]{0,17})")
#: Held while a predictor is prepared, so that threads that share a machine prepare it once.
_preparing = Lock()


class NotConvergedWarning(UserWarning):
    """The solver stopped before it converged. Estimators warn with scikit-learn's ConvergenceWarning."""


def is_default(kernel: object) -> bool:
    """Whether the classifier chooses the kernel."""
    return isinstance(kernel, str) and kernel in DEFAULT_KERNELS


def convergence_message(machines: Machines, tol: float, names: Callable[[int], list[str]]) -> str:
    """Machines that did not converge, and their worst violation; "" if all converged.

    `names` maps the number of machines to a name for each.
    """
    solutions = machines.solutions
    unfinished = [k for k, solution in enumerate(solutions) if not solution.converged]
    if not unfinished:
        return ""
    worst = max(unfinished, key=lambda k: solutions[k].violation)
    violation = f"violation {solutions[worst].violation:.2g}, tol {tol:g}"
    if len(solutions) == 1:
        return f"the solver stopped before it converged ({solutions[0].status}): {violation}"
    learnt = np.flatnonzero(~np.isnan(machines.bias))
    name = names(len(machines.bias))[learnt[worst]]
    return (
        f"{len(unfinished)} of {len(solutions)} machines stopped before they converged; the worst is "
        f"{name} ({solutions[worst].status}): {violation}"
    )


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn at the line of the user's code that called this package."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals["__name__"].startswith("textsvm."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def landmarks_of(approximate: Any) -> int | None:
    """Number of landmarks in `approximate`, or None; InputError if it is neither None nor "nystrom:N"."""
    if approximate is None:
        return None
    match = _NYSTROM.fullmatch(approximate) if isinstance(approximate, str) else None
    if match is None:
        raise InputError(
            f'approximate={approximate!r} must be "nystrom:" and the number of landmarks, above 0, '
            'such as "nystrom:1000"; or None'
        )
    return int(match[1])


def check_approximate(approximate: Any, kernel: object) -> None:
    """Raise InputError if `approximate` is out of range, or does not go with the kernel."""
    if landmarks_of(approximate) is None:
        return
    if is_default(kernel):
        raise InputError(
            f"approximate needs a named kernel; kernel={kernel!r} is exact with any number of documents: "
            "name a kernel, such as gap, or leave approximate out"
        )
    if isinstance(kernel, str) and kernel == "precomputed":
        raise InputError("a precomputed kernel matrix is not approximated; leave approximate out")


def check_jobs(n_jobs: Any) -> None:
    """Raise InputError if `n_jobs` is out of range."""
    if n_jobs is not None and not (is_integer(n_jobs) and (n_jobs > 0 or n_jobs == -1)):
        raise InputError(f"n_jobs={n_jobs!r} must be a whole number above 0, -1 or None for all cores")


class KernelMachine(Parameters, ABC):
    """Parameters and steps of all machines; their parameters are documented at `textsvm.SVC`."""

    kernel: Kernel | KernelFunction | str
    C: float
    normalise: str
    punctuation: bool
    max_length: int | None
    tol: float
    duality_gap: float | None
    max_iter: int
    device: str
    n_jobs: int | None
    compute: Compute | None

    #: Name of the estimator, in model files and reports.
    estimator_name: ClassVar[str]
    #: Category of the warning that the solver did not converge.
    warning: ClassVar[type[Warning]] = NotConvergedWarning
    #: Parameters that must be finite numbers above 0 (`duality_gap` may be None).
    _POSITIVE: ClassVar[tuple[str, ...]] = ("C", "tol", "duality_gap")

    def copy(self) -> Self:
        """A machine with the same parameters that is not fitted."""
        return Parameters.__sklearn_clone__(self)

    def _assign(self, parameters: dict[str, Any]) -> None:
        """Set the parameters of the constructor, given its `locals()`."""
        vars(self).update((name, value) for name, value in parameters.items() if name != "self")

    @property
    def compute_options(self) -> Compute:
        """The parameter `compute`, or its default."""
        return self.compute or Compute()

    def _default_of(self, name: str) -> Any:
        return Compute() if name == "compute" else None

    @property
    def source(self) -> Source:
        """Where the rows of the kernel matrix come from."""
        kernel = self.kernel
        if isinstance(kernel, str) and kernel == "precomputed":
            from textsvm.sources.matrix import MatrixSource

            return MatrixSource()
        if isinstance(kernel, str) and is_spelled_out(kernel):
            kernel = parse(kernel)
        structure, landmarks = structure_of(kernel), landmarks_of(self.compute_options.approximate)
        if structure.reads_vectors:
            from textsvm.sources.vectors import VectorSource

            return VectorSource(kernel, landmarks)
        form = TextForm(self.normalise, self.punctuation, self.max_length)
        if structure.reads_tables:
            from textsvm.sources.columns import ColumnSource

            return ColumnSource(kernel, form, landmarks)
        return TextSource(kernel, form, landmarks)

    def check(self) -> None:
        """Raise InputError if a parameter is out of range; `fit` calls it first."""
        if not isinstance(self.compute, Compute | None):
            raise InputError(f"compute must be textsvm.Compute(...) or None, got {self.compute!r}")
        compute = self.compute_options
        self.source.check()
        check_approximate(compute.approximate, self.kernel)
        for name in self._POSITIVE:
            value = getattr(self, name)
            if not (name == "duality_gap" and value is None) and not (
                is_number(value) and 0 < value < np.inf
            ):
                raise InputError(f"{name}={value!r} must be a finite number above 0")
        if not (is_integer(self.max_iter) and (self.max_iter > 0 or self.max_iter == -1)):
            raise InputError(f"max_iter={self.max_iter!r} must be a whole number above 0, or -1 for no bound")
        check_jobs(self.n_jobs)
        if compute.memory is not None:
            from textsvm.gram.plan import parse_bytes

            parse_bytes(compute.memory)
        if (compute.solver, compute.store, compute.tier) != ("auto", None, "auto"):
            from textsvm.machines.storing import check_store
            from textsvm.machines.training import check_solver

            check_solver(self)
            check_store(self)

    def require_fitted(self) -> None:
        """Raise InputError before `fit`."""
        if "support_" not in vars(self):
            raise InputError(f"this {self.estimator_name} is not fitted; call fit first")

    def make_kernel(self) -> Kernel:
        """A fresh kernel with the parameters of `kernel`.

        Raises
        ------
        InputError
            If `kernel` is nothing that a kernel can be made from.
        """
        if isinstance(self.kernel, str) and is_spelled_out(self.kernel):
            return parse(self.kernel)
        return as_kernel(self.kernel)

    def encode(
        self, texts: list[str], known: Documents | Views | None = None, progress: StageProgress | None = None
    ) -> Any:
        """Normalise and encode texts; codes of `known` documents stay comparable."""
        return self.source.prepare(texts, known, progress)

    def read(self, X: Any, fitting: bool = True) -> Any:
        """Check X and return a list of str, `Vectors`, `Columns`, or a kernel matrix (array).

        Parameters
        ----------
        X : see `fit`
        fitting : bool
            Whether these are the training examples, or others to be predicted.

        Raises
        ------
        InputError
            If X cannot be used. `prepare` checks the values of a training matrix.
        """
        return self.source.read(X, self, fitting)

    def check_rows(self, X: Any, vectors: bool) -> Any:
        """Rows of numbers as an array, sparse vectors as CSR; estimators leave the check to scikit-learn."""
        if vectors and hasattr(X, "tocsr"):
            values = X.tocsr()
        else:
            try:
                values = np.asarray(X)
                values = values.astype(np.float64) if values.dtype.kind not in "biuf" else values
            except (TypeError, ValueError) as error:
                raise InputError(f"X is not rows of numbers: {error}") from error
        if values.ndim != 2 or 0 in values.shape:
            raise InputError(f"X has the shape {values.shape}; rows of numbers are needed")
        if vectors and values.dtype not in (np.float64, np.float32):
            values = values.astype(np.float64)
        return np.ascontiguousarray(values) if vectors and isinstance(values, np.ndarray) else values

    def check_columns(self, X: Any, n: int, fitting: bool) -> None:
        """Set the number of columns, or compare with it; estimators also compare the names of columns."""
        if fitting:
            self.n_features_in_ = n
        elif n != self.n_features_in_:
            raise InputError(
                f"X has {n} features, but {self.estimator_name} is expecting "
                f"{self.n_features_in_} features as input"
            )

    def prepare(self, X: Any, progress: StageProgress | None = None) -> Prepared:
        """The first half of `fit`: encode the examples and build their kernel matrix."""
        self.check()
        return self._prepare(self.read(X), progress)

    def compare(self, examples: Any, kernel: Kernel, progress: StageProgress | None = None) -> Prepared:
        """Build the Gram of encoded examples and a kernel fitted to some or all of them; inside `at_work`."""
        from textsvm.gram.measure import allowed_bytes
        from textsvm.machines.storing import make_gram
        from textsvm.machines.training import Prepared

        device, clock = devices.select(self.device), time.perf_counter()
        if progress is not None:
            # Preparing, and compiling at first use, come before any work is counted.
            progress("gram", 0, 1)
        memory = self.source.memory(self.compute_options.memory, len(examples), device)
        kernel.cost.require_memory(len(examples), allowed_bytes(memory, device))
        gram = make_gram(self, kernel, examples, device, memory, of_stage(progress, "gram"))
        devices.synchronize(device)
        return Prepared(examples, kernel, gram, {"gram": time.perf_counter() - clock})

    @abstractmethod
    def as_target(self, y: Any, n: int) -> Target:
        """Check the targets of n examples; InputError if there are not n, or a target is unusable."""

    @abstractmethod
    def problem(
        self, target: Target, index: NDArray[np.int64], sample_weight: NDArray[np.float64] | None = None
    ) -> Problem:
        """The learning problem of some rows of the Gram.

        Parameters
        ----------
        target : Target
            Of all n examples.
        index : int64 array, shape (m,)
            The rows to learn from; class weights are computed on these.
        sample_weight : float64 array, shape (n,), optional
            Checked weights of all n examples, see `textsvm.machines.targets.as_weights`.

        Raises
        ------
        InputError
            If there is nothing to learn from these rows.
        """

    def scores(self, values: NDArray[np.float64], n_classes: int) -> NDArray[np.float64]:
        """Decision function from the values of all machines, shape (n, n_machines)."""
        return values[:, 0]

    @abstractmethod
    def predictions(self, scores: NDArray[np.float64], classes: NDArray[Any] | None) -> NDArray[Any]:
        """Predictions from the decision function, shape (n,)."""

    def fold_predictions(
        self, values: Sequence[NDArray[np.float64]], folds: Sequence[Fold], target: Target
    ) -> list[NDArray[Any]]:
        """Predictions from the scores of test parts; thresholds come from the other folds."""
        return [self.predictions(scores, target.classes) for scores in values]

    def learn_from_folds(
        self, values: Sequence[NDArray[np.float64]], folds: Sequence[Fold], target: Target
    ) -> None:
        """Learn thresholds from the scores of test parts; most machines have none."""

    def n_machines(self, n_classes: int) -> int:
        """Number of binary machines."""
        return 1

    def machine_names(self, classes: NDArray[Any] | None, n_machines: int) -> list[str]:
        """A name for each binary machine, for messages."""
        return [""] * n_machines

    def keep(self, prepared: Prepared, target: Target, machines: Machines) -> None:
        """Set the fitted attributes from a solved problem; warn if it did not converge."""
        self.gram_ = prepared.description
        self.seconds_ = dict(prepared.seconds)
        self.keep_machines(prepared.kernel, prepared.examples, target, machines)

    def keep_machines(self, kernel: Kernel, examples: Any, target: Target, machines: Machines) -> None:
        """Set the fitted attributes that do not depend on where the rows came from."""
        self.approximation_ = kernel.structure.approximation
        kernel, index, every = kernel.structure.condense(machines.index, machines.coef)
        used = np.flatnonzero((every != 0).any(axis=0))
        support = index[used]
        self.solutions_ = machines.solutions
        self.n_iter_ = sum(solution.iterations for solution in machines.solutions)
        before = vars(self).get("kernel_", self)
        had_columns = before is None or (before is not self and not before.structure.reads_texts)
        kept = self.source.keep(kernel, examples, support)
        coef = np.ascontiguousarray(every[:, used])
        self.restore(kept.kernel, kept.documents, support, coef, machines.bias, target.classes, {})
        if kept.n_features is not None:
            self.n_features_in_ = kept.n_features
        elif had_columns:  # of a fit to a matrix before
            for name in {"n_features_in_", "feature_names_in_"} & set(vars(self)):
                delattr(self, name)
        self.n_support_ = self._count_support(target.values[support], target.classes)
        if message := self.unfinished(machines, target.classes):
            warn_user(message, self.warning)

    def unfinished(self, machines: Machines, classes: NDArray[Any] | None) -> str:
        """Machines that did not converge, in a sentence; "" if all did."""
        return convergence_message(
            machines, self.tol, lambda n_machines: self.machine_names(classes, n_machines)
        )

    def restore(
        self,
        kernel: Kernel | None,
        support_documents: Any,
        support: NDArray[np.int64],
        dual_coef: NDArray[np.float64],
        intercept: NDArray[np.float64],
        classes: NDArray[Any] | None,
        info: dict[str, Any],
    ) -> Self:
        """Set the fitted state that prediction needs."""
        self.kernel_ = kernel
        self.support_documents_, self.support_ = support_documents, support
        self.weight_vectors_: Weights | None = None
        self.dual_coef_ = dual_coef
        self.intercept_ = intercept
        if classes is not None:
            self.classes_ = classes
        self.info_ = info
        #: The machines prepared for prediction, by the parameter `device`.
        self._predictors: dict[str, Predictor] = {}
        return self

    @property
    def kept(self) -> Kept:
        """The fitted state that `source` needs for prediction and saves."""
        n_features, weights = (vars(self).get(name) for name in ("n_features_in_", "weight_vectors_"))
        return Kept(self.support_, self.kernel_, self.support_documents_, n_features, weights)

    @contextmanager
    def at_work(self, device: Device) -> Iterator[None]:
        """Limit the threads to `n_jobs` and make the device current."""
        with parallel.limit(self.n_jobs), devices.use(device):
            yield

    def _fit(self, X: Any, y: Any, sample_weight: ArrayLike | None, progress: StageProgress | None) -> None:
        from textsvm.machines.training import train

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
            kernel.fit(kernel.structure.read(examples), devices.select(self.device))
            encoded = {"encode": time.perf_counter() - clock}
            prepared = self.compare(examples, kernel, progress)
        return replace(prepared, seconds=encoded | prepared.seconds)

    def predictor(self) -> Predictor:
        """The machines prepared for prediction on `device`, again when `device` changes.

        Raises
        ------
        InputError
            If there is no such device.
        """
        with _preparing:
            if self.device not in self._predictors:
                self._predictors.clear()
                device = devices.select(self.device)
                with self.at_work(device):
                    predictor = self.source.predictor(self.kept, self.dual_coef_, device)
                self._predictors[self.device] = predictor
                self.device_ = predictor.device
            return self._predictors[self.device]

    def machine_values(self, X: Any, progress: StageProgress | None = None) -> NDArray[np.float64]:
        """Values of all machines, shape (n, n_machines); texts are compared with support vectors only."""
        self.require_fitted()
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
        # A predictor holds device memory or large indexes; it is prepared again when needed.
        state = dict(vars(self))
        return {**state, "_predictors": {}} if "_predictors" in state else state
