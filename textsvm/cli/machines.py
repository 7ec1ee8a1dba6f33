"""Options of texts and machines -> estimators; lists with commas are grids for `tune`.

What is not given is left to the estimators, so that their signatures are the only place of the defaults; the
help texts repeat them, and a test compares the two.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from itertools import product
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from textsvm.cli import options
from textsvm.cli.cluster import Cluster
from textsvm.cli.console import WrongUsage
from textsvm.cli.kernels import PANEL as KERNEL_PANEL
from textsvm.cli.kernels import KernelOptions, several
from textsvm.errors import InputError

if TYPE_CHECKING:
    from textsvm.estimators.features import SpectrumFeatures
    from textsvm.kernels import Kernel
    from textsvm.machines.base import KernelMachine

Made = TypeVar("Made", bound="KernelMachine | SpectrumFeatures")
_TEXT = "Text"
_MACHINE = "Machine"
#: Options that are parameters of `textsvm.Compute`.
_COMPUTE = ("memory", "approximate", "store", "tier")
#: Values of C that `tune` tries if none are given.
_GRID_OF_C = "1,10,100"


class Normalise(Enum):
    """Forms of a text."""

    unicode = "unicode"
    paper = "paper"
    none = "none"


class ClassWeight(Enum):
    """How much a class counts."""

    balanced = "balanced"


@dataclass(frozen=True)
class TextOptions:
    """What of a text counts."""

    normalise: Annotated[
        Normalise | None,
        typer.Option(
            help="unicode: NFKC, case folded; paper: a-z0-9, all else one space (default: unicode).",
            rich_help_panel=_TEXT,
        ),
    ] = None
    drop_punctuation: Annotated[
        bool, typer.Option("--drop-punctuation", help="Punctuation counts as space.", rich_help_panel=_TEXT)
    ] = False
    max_length: Annotated[
        int | None,
        typer.Option(help="Only so many first symbols count (default: all).", rich_help_panel=_TEXT),
    ] = None

    def as_dict(self) -> dict[str, Any]:
        """Those that are given, as parameters of an estimator."""
        found = _given(normalise=self.normalise, max_length=self.max_length)
        return found | ({"punctuation": False} if self.drop_punctuation else {})


@dataclass(frozen=True)
class MachineOptions:
    """The machine and its solver; in `tune`, C, epsilon and multiclass may be lists with commas."""

    C: Annotated[
        str | None,
        typer.Option(
            "-C",
            metavar="NUMBER",
            help="Penalty of violations (default: 1; tune 1,10,100).",
            rich_help_panel=_MACHINE,
        ),
    ] = None
    epsilon: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER",
            help="Regression: deviations up to this cost nothing (default: 0.1).",
            rich_help_panel=_MACHINE,
        ),
    ] = None
    multiclass: Annotated[
        str | None,
        typer.Option(
            metavar="ovr|ovo|crammer-singer",
            help="More than two classes: a machine a class, a machine a pair, or all at once (default: ovr).",
            rich_help_panel=_MACHINE,
        ),
    ] = None
    class_weight: Annotated[
        ClassWeight | None,
        typer.Option(help="balanced: rare classes count as much as common ones.", rich_help_panel=_MACHINE),
    ] = None
    tol: Annotated[
        float | None,
        typer.Option(help="Stopping tolerance of the solver (default: 0.001).", rich_help_panel=_MACHINE),
    ] = None
    duality_gap: Annotated[
        float | None,
        typer.Option(
            help="Stop as well at this relative duality gap, such as 0.01.", rich_help_panel=_MACHINE
        ),
    ] = None
    max_iter: Annotated[
        int | None,
        typer.Option(
            help="Bound on solver iterations; -1: the solver's own (default: -1).", rich_help_panel=_MACHINE
        ),
    ] = None
    memory: Annotated[
        str | None,
        typer.Option(
            help="Memory for the kernel matrix or features, such as 2GiB (default: half of what is free).",
            rich_help_panel=_MACHINE,
        ),
    ] = None
    approximate: Annotated[
        str | None,
        typer.Option(
            metavar="nystrom:N",
            help="Compare texts with N of the training texts only, such as nystrom:4096 (default: all).",
            rich_help_panel=_MACHINE,
        ),
    ] = None
    store: options.StoreFolder = None
    tier: Annotated[
        str | None,
        typer.Option(
            metavar="TIER",
            help="Where the kernel matrix lies: device, host (main memory), disk (with --store) or recompute "
            "(nowhere); auto goes by predicted seconds (default: auto).",
            rich_help_panel=_MACHINE,
        ),
    ] = None
    device: options.Device = "auto"

    def varied(self) -> dict[str, list[Any]]:
        """The values of C, epsilon and multiclass, as far as they are given."""
        named = (("C", "-C", float), ("epsilon", "--epsilon", float), ("multiclass", "--multiclass", str))
        texts = {name: getattr(self, name) for name, _, _ in named}
        return {
            name: several(option, texts[name], convert)
            for name, option, convert in named
            if texts[name] is not None
        }

    def fixed(self) -> dict[str, Any]:
        """The others that are given, as parameters of an estimator."""
        names = ("class_weight", "tol", "duality_gap", "max_iter", "device", *_COMPUTE)
        return _given(**{name: getattr(self, name) for name in names})

    def refuse(self, *names: str, of: str) -> None:
        """Options that mean nothing to an estimator."""
        for name in names:
            if getattr(self, name) is not None:
                raise WrongUsage(f"--{name.replace('_', '-')} is not an option of {of}")


@dataclass(frozen=True)
class ModelOptions:
    """All that an estimator is made from."""

    kernel: KernelOptions
    text: TextOptions
    machine: MachineOptions
    cluster: Cluster

    def grid(self, learning: options.Learning) -> tuple[dict[str, list[Any]], KernelMachine]:
        """The grid of `tune`, every point of it checked, and a machine to be set to its points."""
        grid: dict[str, list[Any]] = {
            "kernel": self.kernel.grid(tuning=True),
            "C": several("-C", _GRID_OF_C, float),
        }
        grid |= self.machine.varied()
        return grid, self._estimators(grid, learning)[0]

    def _estimators(
        self, grid: dict[str, list[Any]], learning: options.Learning, **others: Any
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
        return [checked(lambda point=point: _made(make, point | fixed)) for point in points]  # type: ignore[misc]


@dataclass(frozen=True)
class Choosing:
    """How the kernel of a classifier is found if none is named."""

    fast: Annotated[
        bool,
        typer.Option(
            "--fast", help="Choose nothing: the same as --kernel fast.", rich_help_panel=KERNEL_PANEL
        ),
    ] = False
    budget: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="--kernel auto: predicted time that the choice may take (default: half of what TF-IDF of "
            "characters with a linear SVM would take, and at least a second).",
            rich_help_panel=KERNEL_PANEL,
        ),
    ] = None


@dataclass(frozen=True)
class SingleOptions(ModelOptions):
    """All that one estimator is made from."""

    choosing: Choosing

    def estimator(self, learning: options.Learning, solver: str | None = None) -> KernelMachine:
        """The one that the options describe, checked."""
        regress = "--regress" if learning.regress is not None else None
        kernel = self._kernel("--multilabel" if learning.multilabel else regress)
        grid = {"kernel": [kernel], **self.machine.varied()}
        made = self._estimators(grid, learning, **_given(time_budget=self.choosing.budget, solver=solver))
        if len(made) > 1:
            raise WrongUsage(
                "-C, --epsilon and --multiclass take one value here; `textsvm tune` tries several"
            )
        return made[0]

    def one_class(self, nu: float | None, solver: str | None = None) -> KernelMachine:
        """A one-class machine, checked."""
        from textsvm.machines.novelty import NoveltyDetector

        self.machine.refuse("multiclass", "class_weight", "epsilon", of="--one-class")
        parameters = {"kernel": self._kernel("--one-class"), **_given(nu=nu, solver=solver)}
        parameters |= self.machine.fixed()
        return checked(lambda: _made(NoveltyDetector, parameters | self.text.as_dict()))

    def _kernel(self, other: str | None) -> Kernel | str:
        """The kernel, or the name of a way to find one; for an `other` machine than a classifier a kernel."""
        fast, budget = self.choosing.fast, self.choosing.budget
        if other is not None and (fast or budget is not None):
            raise WrongUsage(
                f"--{'fast' if fast else 'budget'} is for classifiers and does not go with {other}"
            )
        default = self.kernel.default()
        if other == "--multilabel" and default is not None and not self.kernel.kernel:
            return "fast"
        if fast:
            if default is None or self.kernel.kernel:
                raise WrongUsage("--fast is a kernel of its own; give no other, and no options of kernels")
            default = "fast"
        if budget is not None and default != "auto":
            raise WrongUsage("--budget is for --kernel auto; where a kernel is named nothing is chosen")
        return self.kernel.one() if other is not None or default is None else default


def _given(**options: Any) -> dict[str, Any]:
    """Options that are given, choices by their values."""
    return {
        name: value.value if isinstance(value, Enum) else value
        for name, value in options.items()
        if value is not None
    }


def _made(kind: type[KernelMachine], parameters: dict[str, Any]) -> KernelMachine:
    """A machine with these parameters; some of them go into its `Compute`."""
    from textsvm.machines.compute import Compute

    compute = {name: parameters[name] for name in (*_COMPUTE, "solver") if name in parameters}
    rest = {name: value for name, value in parameters.items() if name not in compute}
    return kind(**rest, compute=Compute(**compute))


def checked(make: Callable[[], Made]) -> Made:
    """An estimator whose parameters are in range and whose device is there, else wrong usage."""
    from textsvm.runtime.device import select

    try:
        model = make()
        model.check()
        select(model.device)
    except InputError as error:
        raise WrongUsage(str(error)) from error
    return model
