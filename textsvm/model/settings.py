"""Settings of a training: kernel, learning problem, solver and device, without fitted state.

Each estimator has a class of settings, a frozen dataclass with its parameters, which the command line
shares. `textsvm/training/problems.py` derives the learning problem and the decision rule from settings and
targets. `textsvm.training.train` takes settings, examples and targets, and returns a `TrainedModel`. Modules
that only training needs are imported when it starts, as the command line checks settings before.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import KW_ONLY, dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np

from textsvm.arrays import Ints, Json
from textsvm.errors import InputError
from textsvm.kernels.base import Kernel, is_number, is_whole
from textsvm.kernels.encoder import as_encoder
from textsvm.kernels.inputs import TextForm
from textsvm.kernels.resolve import as_kernel, structure_of, with_encoder
from textsvm.kernels.spelling import is_spelled_out, parse
from textsvm.kernels.user import KernelFunction
from textsvm.model.rules import check_reject
from textsvm.runtime import device as devices
from textsvm.runtime import parallel
from textsvm.runtime.device import Device
from textsvm.runtime.memory import bounded, parse_bytes
from textsvm.solvers.dual import LOSSES
from textsvm.sources.base import Source
from textsvm.sources.texts import TextSource
from textsvm.text.byte_pmers import LONGEST as LONGEST_PMER
from textsvm.text.encoders import FunctionEncoder, TextEncoder

#: Kernel as users give it: an object, a name or notation, or a Python function.
KernelLike: TypeAlias = Kernel | KernelFunction | str
DEFAULT_KERNELS = ("auto", "fast")  #: Values of `kernel` that leave the kernel to the classifier.
Fold: TypeAlias = tuple[Ints, Ints]  #: Indices of training rows and of test rows.
STRATEGIES = ("ovo", "ovr", "crammer-singer")  #: Of classes without an order
SCORINGS = ("accuracy", "f1_macro")
LARGEST = 1e100  #: C, weights and tolerances: products of larger ones are infinite
THRESHOLDS = ("cv", "zero")
METHODS = ("sigmoid", "isotonic")
#: Factor of `tol` for kernel="auto" and "fast": training takes a third of the time, and decision values
#: change by at most 0.01.
DEFAULT_KERNEL_TOL = 20.0
NEEDS_DECISION_VALUES = (
    '{} needs decision values of classes, and multiclass="ovo" has votes; take "ovr" or "crammer-singer"'
)


class NotConvergedWarning(UserWarning):
    """The solver stopped before it converged. Estimators warn with scikit-learn's ConvergenceWarning."""


def copied(setting: object) -> Any:
    """Copy of a kernel, of class weights or of a list; other settings are not modified by anybody."""
    if isinstance(setting, Kernel):
        return setting.__sklearn_clone__()
    if isinstance(setting, list):
        return list(setting)
    return dict(setting) if isinstance(setting, Mapping) else setting


def is_default(kernel: object) -> bool:
    """Whether the classifier chooses the kernel."""
    return isinstance(kernel, str) and kernel in DEFAULT_KERNELS


def check_jobs(n_jobs: Any) -> None:
    """Raise InputError if `n_jobs` is out of range."""
    if n_jobs is not None and not (is_whole(n_jobs) and (n_jobs > 0 or n_jobs == -1)):
        raise InputError(f"n_jobs={n_jobs!r} must be a whole number above 0, -1 or None for all cores")


@dataclass(frozen=True)
class Compute:
    """How a model is trained: from kernel values or features, and where the kernel matrix is kept.

    The optimum that is learnt is the same for all values. An estimator takes ``compute=Compute(...)``, or
    None for the defaults; ``set_params(compute__memory="2GiB")`` sets a single parameter.

    Parameters
    ----------
    memory : int or str, optional
        Bytes for rows of the kernel matrix or of features, such as "2GiB"; on several GPUs the bytes of each.
        None: half of the free memory, for vectors on a CPU a quarter. On a CPU a training of texts that is
        predicted to take more in all, and more than 128 MiB, is refused.
    store : path, optional
        Folder in which the kernel matrix is kept on disk (`textsvm.gram.store`). Every later training on the
        same texts reads it. A run that is killed resumes where it stopped.
    tier : {"auto", "device", "host", "disk", "recompute"}
        Where the kernel matrix is kept during training: on `device`; in main memory, with the rows in use on
        the GPU; in the `store`, with the rows in use in memory; or nowhere, with rows computed on demand.
        "auto" takes "device" if it fits, else the tier with the lowest predicted time; `gram_description_`
        says which. On a CPU "host" and "device" are the same.
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
    solver: str = "auto"

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name, for scikit-learn."""
        return dict(vars(self))

    def __sklearn_clone__(self) -> Compute:
        return self  # immutable

    def __repr__(self) -> str:
        changed = (f"{name}={own!r}" for name, own in vars(self).items() if own != getattr(Compute, name))
        return f"Compute({', '.join(changed)})"


@dataclass(frozen=True, eq=False)
class Settings:
    """Settings that all kernel machines share; `textsvm.SVC` documents them."""

    kernel: KernelLike = "spectrum"
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
    encoder: Any = None

    estimator: ClassVar[str]  #: Name of the estimator, in model files and reports.

    def __post_init__(self) -> None:
        if callable(self.encoder) and not isinstance(self.encoder, TextEncoder | Kernel):
            object.__setattr__(self, "encoder", FunctionEncoder(self.encoder))  # it keeps its vectors
        # Only classifiers choose a kernel, and with it the weight of the encoder.
        if self.encoder is not None and not (
            isinstance(self, ClassifierSettings) and is_default(self.kernel)
        ):
            object.__setattr__(self, "kernel", with_encoder(self.kernel, self.encoder))

    def as_dict(self) -> Json:
        """Copies of the settings by name."""
        return {field.name: copied(getattr(self, field.name)) for field in fields(self)}

    @property
    def machine(self) -> Settings:
        """Settings of the machines, also of a calibrated classifier."""
        return self

    # Computed once: a training asks for them at every step.

    @cached_property
    def compute_options(self) -> Compute:
        """The setting `compute`, or its default."""
        return self.compute or Compute()

    @cached_property
    def text_form(self) -> TextForm:
        """How texts are normalised."""
        return TextForm(self.normalise, self.punctuation, self.max_length)

    @cached_property
    def source(self) -> Source:
        """Input type, chosen by the kernel."""
        return self.source_of(self.kernel)

    def source_of(self, kernel: KernelLike | None) -> Source:
        """Input type of a kernel; None is a precomputed kernel matrix."""
        if kernel is None or (isinstance(kernel, str) and kernel == "precomputed"):
            from textsvm.sources.matrix import MatrixSource

            return MatrixSource()
        if isinstance(kernel, str) and is_spelled_out(kernel):
            kernel = parse(kernel)
        structure = structure_of(kernel)
        if structure.reads_vectors:
            from textsvm.sources.vectors import VectorSource

            return VectorSource(kernel)
        if structure.reads_tables:
            from textsvm.sources.vectors import ColumnSource

            return ColumnSource(kernel, self.text_form)
        return TextSource(kernel, self.text_form)

    @property
    def solver_tol(self) -> float:
        """Violation of the optimality conditions at which the solver stops."""
        return self.tol

    def new_kernel(self) -> Kernel:
        """A new kernel with the parameters of `kernel`; InputError if `kernel` is not a kernel."""
        if isinstance(self.kernel, str) and is_spelled_out(self.kernel):
            return parse(self.kernel)
        return as_kernel(self.kernel)

    def on(self, device: str) -> Self:
        """The same settings with another device."""
        return self if device == self.device else replace(self, device=device)

    @contextmanager
    def at_work(self, device: Device) -> Iterator[None]:
        """Limit the threads to `n_jobs`, and memory on a CPU, and make the device current."""
        memory = None if self.compute is None or device.kind != "cpu" else parse_bytes(self.compute.memory)
        with parallel.limit(self.n_jobs), devices.use(device), bounded(memory) if memory else nullcontext():
            yield

    def check(self) -> None:
        """Raise InputError if a setting is out of range; training calls it first."""
        if not isinstance(self.compute, Compute | None):
            raise InputError(f"compute must be textsvm.Compute(...) or None, got {self.compute!r}")
        compute = self.compute_options
        self.source.check()
        if self.encoder is not None:
            as_encoder(self.encoder)
        for name in ("C", "tol", "duality_gap"):
            value = getattr(self, name, 1.0)  # novelty detection has no C
            unset = name == "duality_gap" and value is None
            if not unset and not (is_number(value) and 0 < value <= LARGEST):
                raise InputError(f"{name}={value!r} must be a number above 0, at most {LARGEST:g}")
        if not (is_whole(self.max_iter) and (self.max_iter > 0 or self.max_iter == -1)):
            raise InputError(f"max_iter={self.max_iter!r} must be a whole number above 0, or -1 for no bound")
        check_jobs(self.n_jobs)
        if compute.memory is not None:
            parse_bytes(compute.memory)


@dataclass(frozen=True, eq=False)
class ClassifierSettings(Settings):
    """Settings of `textsvm.SVC`."""

    kernel: KernelLike = "auto"
    C: float = 1.0
    _: KW_ONLY
    multiclass: str = "ovr"
    class_weight: Mapping[Any, float] | str | None = None
    time_budget: float | None = None
    loss: str | None = None
    scoring: str = "accuracy"

    estimator = "SVC"

    @property
    def solver_tol(self) -> float:
        return DEFAULT_KERNEL_TOL * self.tol if is_default(self.kernel) else self.tol

    def check(self) -> None:
        super().check()
        name = self.multiclass.partition(":")[0] if isinstance(self.multiclass, str) else ""
        if self.multiclass not in STRATEGIES and name != "ordered":
            raise InputError(f"multiclass={self.multiclass!r} is not one of {', '.join(STRATEGIES)}, ordered")
        if self.multiclass == "ordered:":
            raise InputError('"ordered:" names no class; give "ordered:low<high", or "ordered" for numbers')
        check_class_weight(self.class_weight)
        if self.loss not in (None, *LOSSES):
            raise InputError(f"loss={self.loss!r} is not None or one of {', '.join(LOSSES)}")
        if self.loss == "squared_hinge" and self.multiclass == "crammer-singer":
            raise InputError("crammer-singer has no squared hinge loss; choose multiclass ovr or ovo")
        seconds = self.time_budget
        if seconds is not None and not (is_number(seconds) and 0 <= seconds < np.inf):
            raise InputError(f"time_budget must be a number of seconds or None, got {seconds!r}")
        if not isinstance(self.scoring, str) or self.scoring not in SCORINGS:
            raise InputError(f"scoring={self.scoring!r} is not one of {', '.join(SCORINGS)}")
        if self.scoring != "accuracy" and self.multiclass == "ovo":
            raise InputError(NEEDS_DECISION_VALUES.format('scoring="f1_macro"'))


@dataclass(frozen=True, eq=False)
class RegressionSettings(Settings):
    """Settings of `textsvm.SVR`."""

    C: float = 1.0
    _: KW_ONLY
    epsilon: float = 0.1

    estimator = "SVR"

    def check(self) -> None:
        super().check()
        if not is_number(self.epsilon) or not 0 <= self.epsilon < np.inf:
            raise InputError(f"epsilon={self.epsilon!r} must be a finite number of at least 0")


@dataclass(frozen=True, eq=False)
class NoveltySettings(Settings):
    """Settings of `textsvm.OneClassSVM`."""

    nu: float = 0.5

    estimator = "OneClassSVM"

    def check(self) -> None:
        super().check()
        if not is_number(self.nu) or not 0 < self.nu <= 1:
            raise InputError(f"nu={self.nu!r} must be above 0 and at most 1")


@dataclass(frozen=True, eq=False)
class MultilabelSettings(Settings):
    """Settings of `textsvm.MultilabelSVC`."""

    kernel: KernelLike = "fast"
    C: float = 1.0
    _: KW_ONLY
    thresholds: str = "cv"
    cv: Any = 5
    random_state: int | None = 0

    estimator = "MultilabelSVC"

    def check(self) -> None:
        super().check()
        if not isinstance(self.thresholds, str) or self.thresholds not in THRESHOLDS:
            raise InputError(f"thresholds={self.thresholds!r} is not one of {', '.join(THRESHOLDS)}")


@dataclass(frozen=True, eq=False)
class CalibrationSettings:
    """Settings of `textsvm.CalibratedSVC`."""

    classifier: ClassifierSettings = ClassifierSettings()
    method: str = "sigmoid"
    cv: Any = 5
    reject: Sequence[float] | float | None = None
    random_state: int | None = 0

    estimator: ClassVar[str] = "CalibratedSVC"

    @property
    def machine(self) -> ClassifierSettings:
        return self.classifier

    @property
    def device(self) -> str:
        return self.classifier.device

    def on(self, device: str) -> Self:
        """The same settings with another device."""
        return replace(self, classifier=self.classifier.on(device))

    def check(self) -> None:
        """Raise InputError if a setting is out of range; the trainer calls it first."""
        if not isinstance(self.classifier, ClassifierSettings):
            raise InputError(f"estimator={self.classifier!r} is not an SVC")
        self.classifier.check()
        if self.classifier.scoring != "accuracy":
            raise InputError(
                f"scoring={self.classifier.scoring!r} has no effect on probabilities, and a calibrated model "
                "predicts the likeliest class; leave scoring out"
            )
        if self.method not in METHODS:
            raise InputError(f"method={self.method!r} is not one of {', '.join(METHODS)}")
        check_reject(self.reject)


#: Settings by the name of their estimator.
SETTINGS: dict[str, type[Settings]] = {
    settings.estimator: settings
    for settings in (ClassifierSettings, RegressionSettings, NoveltySettings, MultilabelSettings)
}


def check_class_weight(class_weight: object) -> None:
    """Raise InputError unless `class_weight` is None, "balanced" or a dict of numbers above 0."""
    if class_weight is None or (isinstance(class_weight, str) and class_weight == "balanced"):
        return
    if not isinstance(class_weight, Mapping):
        raise InputError(f"class_weight={class_weight!r} is not None, 'balanced' or a dict of class: weight")
    for name, weight in class_weight.items():
        number = isinstance(weight, int | float | np.number) and not isinstance(weight, bool)
        if not number or not 0 < weight <= LARGEST:
            raise InputError(
                f"the class_weight of {name!s} is {weight!r}, not a number above 0 and up to {LARGEST:g}"
            )


@dataclass(frozen=True)
class OnlineSettings:
    """Settings of `textsvm.OnlineSVC`."""

    C: float = 1.0
    p: int = 4
    _: KW_ONLY
    tol: float = 1e-3
    max_texts: int | None = None
    max_bytes: int | None = None

    estimator: ClassVar[str] = "OnlineSVC"

    def as_dict(self) -> Json:
        """Settings by name."""
        return dict(vars(self))

    def check(self) -> None:
        """Raise InputError if a setting is out of range."""
        for name, value in (("C", self.C), ("tol", self.tol)):
            if not (is_number(value) and 0 < value < np.inf):
                raise InputError(f"{name}={value!r} must be a number above 0")
        if not (is_whole(self.p) and 1 <= self.p <= LONGEST_PMER):
            raise InputError(f"p={self.p!r} must be a whole number from 1 to {LONGEST_PMER}")
        for name, most in (("max_texts", self.max_texts), ("max_bytes", self.max_bytes)):
            if most is not None and not (is_whole(most) and most > 0):
                raise InputError(f"{name}={most!r} must be a whole number above 0, or None")


def settings_of(model: object) -> Settings:
    """The settings of an estimator with targets, or settings themselves; InputError for other objects."""
    settings = getattr(model, "settings", model)
    if not isinstance(settings, Settings) or isinstance(settings, NoveltySettings):
        others = "take scikit-learn's GridSearchCV or cross_val_score"
        remedy = "tune its estimator" if isinstance(settings, CalibrationSettings) else others
        raise InputError(f"{type(model).__name__} is neither SVC nor SVR nor MultilabelSVC; {remedy}")
    return settings
