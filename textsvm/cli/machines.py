"""Options of texts and machines -> estimators; in `tune`, comma-separated lists are grids.

Options that are not given are left to the estimators, whose signatures define the defaults. The help texts
repeat the defaults, and a test compares the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from textsvm.cli import options
from textsvm.cli.console import Console, WrongUsage, wrong_usage
from textsvm.cli.kernels import PANEL as KERNEL_PANEL
from textsvm.cli.kernels import KernelOptions, several
from textsvm.cli.options import option

if TYPE_CHECKING:
    from textsvm.estimators.features import SpectrumFeatures
    from textsvm.kernels import Kernel
    from textsvm.machines.base import KernelMachine

Made = TypeVar("Made", bound="KernelMachine | SpectrumFeatures")
_text = partial(option, panel="Text")
_machine = partial(option, panel="Machine")
_choice = partial(option, panel=KERNEL_PANEL)
#: Options that are parameters of `textsvm.Compute`.
_COMPUTE = ("memory", "approximate", "store", "tier")
#: Default values of C in `tune`.
_GRID_OF_C = "1,10,100"


class Normalise(Enum):
    """Normal forms of a text."""

    unicode = "unicode"
    paper = "paper"
    none = "none"


class ClassWeight(Enum):
    """Class weights."""

    balanced = "balanced"


@dataclass(frozen=True)
class TextOptions:
    """Preparation of texts."""

    normalise: Annotated[
        Normalise | None,
        _text("unicode: NFKC, case folded; paper: a-z0-9, all else one space (default: unicode)."),
    ] = None
    drop_punctuation: Annotated[bool, _text("Replace punctuation by spaces.", "--drop-punctuation")] = False
    max_length: Annotated[int | None, _text("Use only the first N symbols of each text (default: all).")] = (
        None
    )

    def as_dict(self) -> dict[str, Any]:
        """Given options as parameters of an estimator."""
        given = _given(normalise=self.normalise, max_length=self.max_length)
        return given | ({"punctuation": False} if self.drop_punctuation else {})


@dataclass(frozen=True)
class MachineOptions:
    """The machine and its solver; in `tune`, C, epsilon and multiclass may be comma-separated lists."""

    C: Annotated[
        str | None, _machine("Penalty of violations (default: 1; tune 1,10,100).", "-C", metavar="NUMBER")
    ] = None
    epsilon: Annotated[
        str | None,
        _machine("Regression: errors up to epsilon are not penalised (default: 0.1).", metavar="NUMBER"),
    ] = None
    multiclass: Annotated[
        str | None,
        _machine(
            "More than two classes: one machine per class, per pair, or one joint machine (default: ovr).",
            metavar="ovr|ovo|crammer-singer",
        ),
    ] = None
    class_weight: Annotated[
        ClassWeight | None, _machine("balanced: rare classes count as much as common ones.")
    ] = None
    tol: Annotated[float | None, _machine("Stopping tolerance of the solver (default: 0.001).")] = None
    duality_gap: Annotated[
        float | None, _machine("Also stop at this relative duality gap, such as 0.01.")
    ] = None
    max_iter: Annotated[
        int | None, _machine("Most solver iterations; -1: limit of the solver (default: -1).")
    ] = None
    memory: Annotated[
        str | None,
        _machine(
            "Memory for the kernel matrix or features, such as 2GiB (default: half of the free memory)."
        ),
    ] = None
    approximate: Annotated[
        str | None,
        _machine(
            "Approximate the kernel from N training texts, such as nystrom:4096 (default: exact).",
            metavar="nystrom:N",
        ),
    ] = None
    store: options.StoreFolder = None
    tier: Annotated[
        str | None,
        _machine(
            "Place of the kernel matrix: device, host (main memory), disk (with --store) or recompute; auto: "
            "lowest predicted time (default: auto).",
            metavar="TIER",
        ),
    ] = None
    device: options.Device = "auto"

    def varied(self) -> dict[str, list[Any]]:
        """Given values of C, epsilon and multiclass."""
        named = (("C", "-C", float), ("epsilon", "--epsilon", float), ("multiclass", "--multiclass", str))
        texts = {name: getattr(self, name) for name, _, _ in named}
        return {
            name: several(shown, texts[name], convert)
            for name, shown, convert in named
            if texts[name] is not None
        }

    def fixed(self) -> dict[str, Any]:
        """Other given options as parameters of an estimator."""
        names = ("class_weight", "tol", "duality_gap", "max_iter", "device", *_COMPUTE)
        return _given(**{name: getattr(self, name) for name in names})

    def refuse(self, *names: str, of: str) -> None:
        """Raise WrongUsage for given options that an estimator does not have."""
        for name in names:
            if getattr(self, name) is not None:
                raise WrongUsage(f"--{name.replace('_', '-')} is not an option of {of}")


@dataclass(frozen=True)
class ClusterOptions:
    """Distribution over several machines."""

    workers: Annotated[
        str | None,
        option(
            "Distribute the work over the workers of a Dask scheduler, such as tcp://HOST:8786, or over one "
            "process per core (local).",
            metavar="ADDRESS|local", show_default=False,
        ),
    ] = None  # fmt: skip

    def check(self) -> None:
        """Raise WrongUsage if Dask is not installed."""
        from textsvm.runtime.workers import require_dask

        if self.workers is not None:
            with wrong_usage(f"--workers {self.workers}: "):
                require_dask()

    @contextmanager
    def at_work(self, console: Console, store: Any = None) -> Iterator[None]:
        """`Console.work`, with the work of the block distributed over the workers."""
        if self.workers is None:
            with console.work(store):
                yield
            return
        from textsvm.runtime.workers import on_workers

        with on_workers(self.workers) as workers:
            console.say(f"workers: {workers.description}")
            with console.work(store):
                yield


@dataclass(frozen=True)
class ModelOptions:
    """All options of an estimator."""

    kernel: KernelOptions
    text: TextOptions
    machine: MachineOptions
    cluster: ClusterOptions

    def grid(self, learning: options.LearningOptions) -> tuple[dict[str, list[Any]], KernelMachine]:
        """Grid of `tune`, all points checked, and an estimator whose parameters will be set to its points."""
        grid: dict[str, list[Any]] = {"kernel": self.kernel.grid(tuning=True)}
        grid["C"] = several("-C", _GRID_OF_C, float)
        grid |= self.machine.varied()
        return grid, self._estimators(grid, learning)[0]

    def _estimators(
        self, grid: dict[str, list[Any]], learning: options.LearningOptions, **others: Any
    ) -> list[KernelMachine]:
        from textsvm.machines.classifier import Classifier
        from textsvm.machines.regressor import Regressor
        from textsvm.selection.multilabel import MultilabelClassifier

        make: type[KernelMachine] = Classifier
        if learning.multilabel:
            make = MultilabelClassifier
            self.machine.refuse("multiclass", "class_weight", "epsilon", of="--multilabel")
        elif learning.regress is not None:
            make = Regressor
            self.machine.refuse("multiclass", "class_weight", of="--regress")
        else:
            self.machine.refuse("epsilon", of="a classifier; it goes with --regress")
        fixed = self.machine.fixed() | self.text.as_dict() | others
        points = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
        return [checked(partial(_machine_of, make, point | fixed)) for point in points]


@dataclass(frozen=True)
class ChoiceOptions:
    """Choice of a classifier's kernel if none is named."""

    fast: Annotated[bool, _choice("Same as --kernel fast: no choice of a kernel.", "--fast")] = False
    budget: Annotated[
        float | None,
        _choice(
            "--kernel auto: predicted time of the choice (default: half of the time of TF-IDF of characters "
            "with a linear SVM, at least a second).",
            metavar="SECONDS",
        ),
    ] = None


@dataclass(frozen=True)
class SingleOptions(ModelOptions):
    """Options of a single estimator."""

    choosing: ChoiceOptions

    def estimator(self, learning: options.LearningOptions, solver: str | None = None) -> KernelMachine:
        """Checked estimator that the options describe."""
        regress = "--regress" if learning.regress is not None else None
        kernel = self._kernel("--multilabel" if learning.multilabel else regress)
        grid = {"kernel": [kernel], **self.machine.varied()}
        models = self._estimators(grid, learning, **_given(time_budget=self.choosing.budget, solver=solver))
        if len(models) > 1:
            raise WrongUsage(
                "-C, --epsilon and --multiclass take one value here; `textsvm tune` tries several"
            )
        return models[0]

    def one_class(self, nu: float | None, solver: str | None = None) -> KernelMachine:
        """Checked one-class machine."""
        from textsvm.machines.novelty import NoveltyDetector

        self.machine.refuse("multiclass", "class_weight", "epsilon", of="--one-class")
        parameters = {"kernel": self._kernel("--one-class"), **_given(nu=nu, solver=solver)}
        parameters |= self.machine.fixed()
        return checked(partial(_machine_of, NoveltyDetector, parameters | self.text.as_dict()))

    def _kernel(self, mode: str | None) -> Kernel | str:
        """Kernel, or the name of a way to choose it; `mode` is the option that excludes such a choice."""
        fast, budget = self.choosing.fast, self.choosing.budget
        if mode is not None and (fast or budget is not None):
            raise WrongUsage(
                f"--{'fast' if fast else 'budget'} is for classifiers and does not go with {mode}"
            )
        default = self.kernel.default()
        if mode == "--multilabel" and default is not None and not self.kernel.kernel:
            return "fast"
        if fast:
            if default is None or self.kernel.kernel:
                raise WrongUsage("--fast does not go with --kernel or kernel options")
            default = "fast"
        if budget is not None and default != "auto":
            raise WrongUsage("--budget is for --kernel auto; leave it out if a kernel is named")
        return self.kernel.single() if mode is not None or default is None else default


def _given(**options: Any) -> dict[str, Any]:
    """Options that are given; enumeration members by their values."""
    return {
        name: value.value if isinstance(value, Enum) else value
        for name, value in options.items()
        if value is not None
    }


def _machine_of(kind: type[KernelMachine], parameters: dict[str, Any]) -> KernelMachine:
    """A machine with these parameters; some of them go into its `Compute`."""
    from textsvm.machines.base import Compute

    compute = {name: parameters[name] for name in (*_COMPUTE, "solver") if name in parameters}
    rest = {name: value for name, value in parameters.items() if name not in compute}
    return kind(**rest, compute=Compute(**compute) if compute else None)


def checked(make: Callable[[], Made]) -> Made:
    """Estimator from `make`; raises WrongUsage for parameters out of range and missing devices."""
    from textsvm.runtime.device import select

    with wrong_usage():
        model = make()
        model.check()
        select(model.device)
    return model
