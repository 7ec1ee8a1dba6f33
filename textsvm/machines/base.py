"""Kernel machines: parameters, training and decisions, without scikit-learn.

`KernelMachine._fit`, which the `fit` of each subclass calls, validates texts and targets, states the learning
problem, encodes the texts, trains (`textsvm.machines.training`: plan, features or Gram matrix, solver) and
sets the fitted attributes. The steps are separate methods, so that model selection encodes texts and computes
rows once for all folds and parameters. `textsvm.estimators` adds the interface of scikit-learn. Modules that
only training needs are imported when it starts: predicting a single text waits for neither SciPy nor Numba.
"""

from __future__ import annotations

import os
import re
import sys
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, replace
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
from textsvm.machines.targets import Target, as_weights, check_order, is_integer, is_number, with_classes
from textsvm.machines.top_features import TopFeatures, coefficients, top_features
from textsvm.runtime import device as devices
from textsvm.runtime import parallel
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import Lock, StageProgress, of_stage
from textsvm.runtime.parameters import Parameters
from textsvm.sources.base import Kept, Source
from textsvm.sources.texts import TextSource
from textsvm.text.documents import Documents, MultiView

if TYPE_CHECKING:
    from typing import Self

    from textsvm.machines.training import PreparedRows
    from textsvm.solvers.problems import Machines, Problem


#: Values of `kernel` that leave the kernel to the classifier.
DEFAULT_KERNELS = ("auto", "fast")
#: Indices of training rows and of test rows.
Fold = tuple[NDArray[np.int64], NDArray[np.int64]]
#: In place of the kernel of a machine that is not fitted; None is that of a precomputed kernel matrix.
_UNFITTED: Any = object()
_NYSTROM = re.compile(r"nystrom:0*([1-9][0-9]{0,17})")
#: Held while a predictor is prepared, so that threads that share a machine prepare it once.
_preparing = Lock()


class NotConvergedWarning(UserWarning):
    """The solver stopped before it converged. Estimators warn with scikit-learn's ConvergenceWarning."""


def is_default(kernel: object) -> bool:
    """Whether the classifier chooses the kernel."""
    return isinstance(kernel, str) and kernel in DEFAULT_KERNELS


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn at the line of the user's code that called this package."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals["__name__"].startswith("textsvm."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def check_jobs(n_jobs: Any) -> None:
    """Raise InputError if `n_jobs` is out of range."""
    if n_jobs is not None and not (is_integer(n_jobs) and (n_jobs > 0 or n_jobs == -1)):
        raise InputError(f"n_jobs={n_jobs!r} must be a whole number above 0, -1 or None for all cores")


@dataclass(frozen=True)
class Compute:
    """How a machine computes: from kernel values or features, and where the kernel matrix is kept.

    Only `approximate` changes the model that is learnt. A machine takes ``compute=Compute(...)``, or None for
    the defaults; ``set_params(compute__memory="2GiB")`` sets a single parameter.

    Parameters
    ----------
    memory : int or str, optional
        Bytes for rows of the kernel matrix or of features, such as "2GiB"; on several GPUs the bytes of each.
        None: half of the free memory, for vectors on a CPU a quarter.
    store : path, optional
        Folder in which the kernel matrix is kept on disk (`textsvm.gram.store`). Every later training on the
        same texts reads it. A run that is killed resumes where it stopped.
    tier : {"auto", "device", "host", "disk", "recompute"}
        Where the kernel matrix is kept during training: on `device`; in main memory, with the rows in use on
        the GPU; in the `store`, with the rows in use in memory; or nowhere, with rows computed on demand.
        "auto" takes "device" if it fits, else the tier with the lowest predicted time; `gram_description_`
        says which. On a CPU "host" and "device" are the same.
    approximate : str, optional
        "nystrom:4096" replaces the kernel by its Nystroem approximation with 4,096 landmarks
        (`textsvm.kernels.nystroem`): 4,096 kernel values per text instead of a value for each pair of texts.
        The landmarks are drawn from the training texts without regard to labels, in model selection from each
        training part. Choose C again for the approximation.
    solver : {"auto", "gram", "features"}
        Train from kernel values, or from the features of kernels that have features: the optimum is the same.
        "auto" takes the solver with the lower predicted time; `gram_description_` says which.

    Examples
    --------
    >>> from textsvm import SVC, Compute, EditDistance
    >>> model = SVC(EditDistance(), compute=Compute(memory="1GiB"))
    >>> model.set_params(compute__tier="recompute").compute
    Compute(memory='1GiB', tier='recompute')
    """

    memory: int | str | None = None
    store: str | os.PathLike[str] | None = None
    tier: str = "auto"
    approximate: str | None = None
    solver: str = "auto"

    @property
    def landmarks(self) -> int | None:
        """Number of landmarks of `approximate`; InputError if it is neither None nor "nystrom:N"."""
        if self.approximate is None:
            return None
        match = _NYSTROM.fullmatch(self.approximate) if isinstance(self.approximate, str) else None
        if match is None:
            raise InputError(
                f'approximate={self.approximate!r} must be "nystrom:" and the number of landmarks, above 0, '
                'such as "nystrom:1000"; or None'
            )
        return int(match[1])

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name, for scikit-learn."""
        return dict(vars(self))

    def __sklearn_clone__(self) -> Compute:
        return self  # immutable

    def __repr__(self) -> str:
        changed = (
            f"{name}={value!r}" for name, value in vars(self).items() if value != getattr(Compute, name)
        )
        return f"Compute({', '.join(changed)})"


@dataclass(repr=False, eq=False)
class KernelMachine(Parameters, ABC):
    """Shared parameters and the steps of all machines; `textsvm.SVC` documents the parameters."""

    kernel: Kernel | KernelFunction | str = "spectrum"
    _: KW_ONLY
    normalise: str = "unicode"
    punctuation: bool = True
    max_length: int | None = None
    tol: float = 1e-3
    duality_gap: float | None = None
    max_iter: int = -1
    device: str = "auto"
    n_jobs: int | None = None
    compute: Compute | None = None

    #: Name of the estimator, in model files and reports.
    estimator_name: ClassVar[str]
    #: Category of the warning that the solver did not converge.
    warning: ClassVar[type[Warning]] = NotConvergedWarning
    #: Parameters that must be finite numbers above 0 (`duality_gap` may be None).
    _POSITIVE: ClassVar[tuple[str, ...]] = ("tol", "duality_gap")

    def copy(self) -> Self:
        """A machine with the same parameters that is not fitted."""
        return Parameters.__sklearn_clone__(self)

    @property
    def compute_options(self) -> Compute:
        """The parameter `compute`, or its default."""
        return self.compute or Compute()

    def _default_of(self, name: str) -> Any:
        return Compute() if name == "compute" else None

    @property
    def text_form(self) -> TextForm:
        """How texts are normalised."""
        return TextForm(self.normalise, self.punctuation, self.max_length)

    @property
    def source(self) -> Source:
        """Input type of the machine, chosen by its kernel."""
        kernel = self.kernel
        if isinstance(kernel, str) and kernel == "precomputed":
            from textsvm.sources.matrix import MatrixSource

            return MatrixSource()
        if isinstance(kernel, str) and is_spelled_out(kernel):
            kernel = parse(kernel)
        structure, landmarks = structure_of(kernel), self.compute_options.landmarks
        if structure.reads_vectors:
            from textsvm.sources.vectors import VectorSource

            return VectorSource(kernel, landmarks)
        if structure.reads_tables:
            from textsvm.sources.vectors import ColumnSource

            return ColumnSource(kernel, self.text_form, landmarks)
        return TextSource(kernel, self.text_form, landmarks)

    def check(self) -> None:
        """Raise InputError if a parameter is out of range; `fit` calls it first."""
        if not isinstance(self.compute, Compute | None):
            raise InputError(f"compute must be textsvm.Compute(...) or None, got {self.compute!r}")
        compute = self.compute_options
        self.source.check()
        if compute.landmarks is not None:
            self._check_approximated()
        for name in self._POSITIVE:
            value = getattr(self, name)
            unset = name == "duality_gap" and value is None
            if not unset and not (is_number(value) and 0 < value < np.inf):
                raise InputError(f"{name}={value!r} must be a finite number above 0")
        if not (is_integer(self.max_iter) and (self.max_iter > 0 or self.max_iter == -1)):
            raise InputError(f"max_iter={self.max_iter!r} must be a whole number above 0, or -1 for no bound")
        check_jobs(self.n_jobs)
        if compute.memory is not None:
            from textsvm.gram.plan import parse_bytes

            parse_bytes(compute.memory)
        if (compute.solver, compute.store, compute.tier) != ("auto", None, "auto"):
            from textsvm.machines.training import check_solver, check_store

            check_solver(self)
            check_store(self)

    def _check_approximated(self) -> None:
        """Raise InputError if the kernel cannot be approximated by landmarks."""
        if is_default(self.kernel):
            raise InputError(
                f"approximate needs a named kernel; kernel={self.kernel!r} is exact with any number of "
                "documents: name a kernel, such as gap, or leave approximate out"
            )
        if isinstance(self.kernel, str) and self.kernel == "precomputed":
            raise InputError("a precomputed kernel matrix is not approximated; leave approximate out")

    @property
    def solver_tol(self) -> float:
        """Violation of the optimality conditions at which the solver stops."""
        return self.tol

    def require_fitted(self) -> None:
        """Raise InputError before `fit`."""
        if "support_" not in vars(self):
            raise InputError(f"this {self.estimator_name} is not fitted; call fit first")

    def new_kernel(self) -> Kernel:
        """A new kernel with the parameters of `kernel`; InputError if `kernel` is not a kernel."""
        if isinstance(self.kernel, str) and is_spelled_out(self.kernel):
            return parse(self.kernel)
        return as_kernel(self.kernel)

    def validate(self, X: Any, fitting: bool = True) -> Any:
        """Check the examples of a user, and return a list of str, `Vectors`, `InputTable` or kernel matrix.

        Parameters
        ----------
        X : n examples, as `fit` takes them
        fitting : bool
            Whether X are training examples; if not, examples to be predicted.

        Raises
        ------
        InputError
            If X cannot be used. The values of a training matrix are checked when its rows are built.
        """
        return self.source.validate(X, self, fitting)

    def encode(
        self, texts: Any, known: Documents | MultiView | None = None, progress: StageProgress | None = None
    ) -> Any:
        """Normalise and encode validated texts, over an extension of the alphabet of `known` documents."""
        return self.source.encode(texts, known, progress)

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

    def prepare(self, X: Any, progress: StageProgress | None = None) -> PreparedRows:
        """Encode training examples, fit the kernel to them and build their Gram matrix."""
        from textsvm.machines.training import prepare_gram

        self.check()
        given = self.validate(X)
        device = devices.select(self.device)
        with self.at_work(device):
            clock = time.perf_counter()
            examples = self.encode(given, None, progress)
            kernel = self.source.kernel_for(examples)
            kernel.fit(kernel.structure.read(examples), device)
            encoded = {"encode": time.perf_counter() - clock}
            prepared = prepare_gram(self, examples, kernel, progress)
        return replace(prepared, seconds=encoded | prepared.seconds)

    @abstractmethod
    def as_target(self, y: Any, n: int) -> Target:
        """Check the targets of n examples; InputError if there are not n, or a target is unusable."""

    @abstractmethod
    def problem(
        self, target: Target, index: NDArray[np.int64], sample_weight: NDArray[np.float64] | None = None
    ) -> Problem:
        """The learning problem of the rows `index`; InputError if there is nothing to learn from them.

        `target` and `sample_weight`, shape (n,), are of all n examples; class weights count these rows only.
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
        shifted = self.fold_values(values, folds, target)
        return [self.predictions(scores, target.classes) for scores in shifted]

    def fold_values(
        self, values: Sequence[NDArray[np.float64]], folds: Sequence[Fold], target: Target
    ) -> list[NDArray[np.float64]]:
        """Decision values from the scores of test parts; offsets come from the other folds."""
        return list(values)

    def learn_from_folds(
        self, values: Sequence[NDArray[np.float64]], folds: Sequence[Fold], target: Target
    ) -> None:
        """Learn thresholds or offsets, if any, from the scores of test parts."""

    def n_machines(self, n_classes: int) -> int:
        """Number of binary machines."""
        return 1

    def machine_names(self, classes: NDArray[Any] | None, n_machines: int) -> list[str]:
        """A name for each binary machine, for messages."""
        return [""] * n_machines

    def keep(self, prepared: PreparedRows, target: Target, machines: Machines) -> None:
        """Set the fitted attributes from a solved problem; warn if it did not converge."""
        self.gram_description_ = prepared.description
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
        earlier = vars(self).get("kernel_", _UNFITTED)
        kept = self.source.keep(kernel, examples, support)
        coef = np.ascontiguousarray(every[:, used])
        self.restore(kept, coef, machines.bias, target.classes, {})
        # An earlier fit to a matrix, vectors or a table has set the number and names of its columns. They are
        # out of date if this fit has no number of columns.
        had_columns = earlier is None or (earlier is not _UNFITTED and not earlier.structure.reads_texts)
        if kept.n_features is None and had_columns:
            for name in {"n_features_in_", "feature_names_in_"} & set(vars(self)):
                delattr(self, name)
        self.n_support_ = self._count_support(target.values[support], target.classes)
        if message := self.unfinished(machines, target.classes):
            warn_user(message, self.warning)

    def unfinished(self, machines: Machines, classes: NDArray[Any] | None) -> str:
        """Message about machines that did not converge, with the worst violation; "" if all did."""
        solutions = machines.solutions
        unfinished = [k for k, solution in enumerate(solutions) if not solution.converged]
        if not unfinished:
            return ""
        worst = max(unfinished, key=lambda k: solutions[k].violation)
        violation = f"violation {solutions[worst].violation:.2g}, tol {self.solver_tol:g}"
        if len(solutions) == 1:
            return f"the solver stopped before it converged ({solutions[0].status}): {violation}"
        learnt = np.flatnonzero(~np.isnan(machines.bias))
        name = self.machine_names(classes, len(machines.bias))[learnt[worst]]
        return (
            f"{len(unfinished)} of {len(solutions)} machines stopped before they converged; the worst is "
            f"{name} ({solutions[worst].status}): {violation}"
        )

    def restore(
        self,
        kept: Kept,
        dual_coef: NDArray[np.float64],
        intercept: NDArray[np.float64],
        classes: NDArray[Any] | None,
        info: dict[str, Any],
    ) -> Self:
        """Set the fitted state that prediction needs."""
        self.kernel_, self.support_documents_, self.support_ = kept.kernel, kept.documents, kept.support
        self.weight_vectors_: Weights | None = kept.weights
        self.dual_coef_, self.intercept_ = dual_coef, intercept
        if kept.n_features is not None:
            self.n_features_in_ = kept.n_features
        if classes is not None:
            self.classes_ = classes
        self.info_ = info
        #: Machines prepared for prediction, by the parameter `device`.
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

        given, target, weight = self._validate_training_data(X, y, sample_weight)
        problem = self.problem(target, np.arange(len(given)), weight)
        self.device_ = devices.select(self.device)
        with self.at_work(self.device_):
            clock = time.perf_counter()
            examples = self.encode(given, None, progress)
            kernel = self.source.kernel_for(examples)
            examples = with_classes(examples, target)
            seconds = {"encode": time.perf_counter() - clock}
            machines, self.gram_description_ = train(self, kernel, examples, problem, seconds, progress)
        self.seconds_ = seconds
        self.keep_machines(kernel, examples, target, machines)

    def _validate_training_data(
        self, X: Any, y: Any, sample_weight: ArrayLike | None
    ) -> tuple[Any, Target, NDArray[np.float64] | None]:
        self.check()
        given = self.validate(X)
        if len(given) == 0:
            raise InputError("there are no documents to train on")
        target = self.as_target(y, len(given))
        check_order(given, target)
        return given, target, as_weights(sample_weight, len(given))

    @property
    def coef_(self) -> NDArray[np.float64]:
        """Weights of the features, shape (n_machines, n_features), as `get_feature_names_out` orders them.

        Only for kernels with a list of features (spectrum, linear, and sums of these); they refer to the
        features of texts as the kernel normalises them.
        """
        return self._coefficients()[1]

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Names of the features of `coef_`; `input_features` is ignored."""
        return self._coefficients()[0]

    def _coefficients(self) -> tuple[NDArray[np.object_], NDArray[np.float64]]:
        if "support_" not in vars(self):
            raise AttributeError(f"this {self.estimator_name} is not fitted; call fit first")
        return coefficients(self)

    def top_features(self, n: int = 30) -> list[TopFeatures]:
        """The `n` features with the largest weights for each class.

        Parameters
        ----------
        n : int

        Returns
        -------
        list of TopFeatures
            A class or direction each, with `label`, `kind` ("substrings", "words", "numbers", "patterns" or
            "training documents") and `features`, which have `text`, `weight` and `merged`. A sum of kernels
            has an element for each term.
        """
        self.require_fitted()
        return top_features(self, n)

    def predictor(self) -> Predictor:
        """The machines prepared for prediction on `device`, prepared again when `device` changes."""
        prepared = self._predictors.get(self.device)
        if prepared is not None:  # without waiting for another machine that is being prepared
            return prepared
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
        given = self.validate(X, fitting=False)
        if not len(self.support_) and self.kept.weights is None:
            self.device_ = devices.select(self.device)
            return np.tile(self.intercept_, (len(given), 1))
        predictor = self.predictor()
        # Values that overflow are reported below, by document.
        with self.at_work(predictor.device), np.errstate(over="ignore", invalid="ignore"):
            examples = self.source.encode_test(given, self.kept)
            values = predictor.values(examples, of_stage(progress, "predict")) + self.intercept_
        for i in np.flatnonzero(~np.isfinite(values).all(axis=1))[:1]:
            raise InputError(
                f"document {i + 1:,} of those given has no finite decision value: its numbers, or those of "
                "the model, are too large for this kernel; scale them, or train it again"
            )
        return values

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
