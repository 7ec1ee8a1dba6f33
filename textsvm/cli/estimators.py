"""Estimators that the options of a command describe.

Parameters without an option keep the defaults of the estimators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import product
from typing import Any, TypeAlias

from textsvm.cli.console import DECIMALS, WrongUsage, wrong_usage
from textsvm.cli.kernels import several
from textsvm.cli.machines import COMPUTE, ModelOptions, requested
from textsvm.cli.options import LearningOptions
from textsvm.kernels import Kernel
from textsvm.kernels.encoder import as_encoder, encoders_of
from textsvm.kernels.spelling import spell
from textsvm.model.settings import (
    ClassifierSettings,
    Compute,
    MultilabelSettings,
    NoveltySettings,
    RegressionSettings,
    Settings,
)
from textsvm.runtime.device import select
from textsvm.training.grams import check

#: Values of each parameter.
Grid: TypeAlias = dict[str, list[Any]]
#: Default values of C in `tune`.
_GRID_OF_C = "1,10,100"


def single(options: ModelOptions, learning: LearningOptions, solver: str | None = None) -> Settings:
    """Checked estimator for a task of `learning`."""
    regress = "--regress" if learning.regress is not None else None
    kernel = _kernel(options, "--multilabel" if learning.multilabel else regress)
    points = {"kernel": [kernel], **options.machine.varied()}
    models = _estimators(options, points, learning, **requested(time_budget=options.budget, solver=solver))
    if len(models) > 1:
        raise WrongUsage(
            "-C, --epsilon and --multiclass take a single value here; `textsvm tune` tries several, and "
            + DECIMALS
        )
    return models[0]


def one_class(options: ModelOptions, nu: float | None, solver: str | None = None) -> Settings:
    """Checked one-class machine."""
    options.machine.refuse("multiclass", "ordered", "class_weight", "scoring", "epsilon", of="--one-class")
    parameters = {"kernel": _kernel(options, "--one-class")}
    parameters |= requested(nu=nu, solver=solver, **_encoder(options, parameters.values()))
    parameters |= options.machine.fixed()
    return checked(partial(_machine, NoveltySettings, parameters | options.text.as_dict()))


def grid(options: ModelOptions, learning: LearningOptions) -> tuple[Grid, Settings]:
    """Grid of `tune`, all points checked, and an estimator whose parameters will be set to its points."""
    points: Grid = {"kernel": options.kernel.grid(tuning=True)}
    points["C"] = several("-C", _GRID_OF_C, float)
    points |= options.machine.varied()
    return points, _estimators(options, points, learning)[0]


def _estimators(options: ModelOptions, grid: Grid, learning: LearningOptions, **more: Any) -> list[Settings]:
    make: type[Settings] = ClassifierSettings
    machine = options.machine
    if learning.multilabel:
        make = MultilabelSettings
        machine.refuse("multiclass", "ordered", "class_weight", "scoring", "epsilon", of="--multilabel")
    elif learning.regress is not None:
        make = RegressionSettings
        machine.refuse("multiclass", "ordered", "class_weight", "scoring", of="--regress")
    else:
        machine.refuse("epsilon", of="a classifier; it goes with --regress")
    fixed = machine.fixed() | options.text.as_dict() | _encoder(options, grid["kernel"]) | more
    points = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
    return [checked(partial(_machine, make, point | fixed)) for point in points]


def encoder_of(text: str, kernels: Iterable[Kernel | str | None]) -> Kernel:
    """The kernel of --encoder, to be added to these kernels."""
    for kernel in kernels:
        if isinstance(kernel, Kernel) and encoders_of(kernel):
            raise WrongUsage(
                f"--encoder {text} does not go with --kernel {spell(kernel)}, which names an encoder; leave "
                "one of them out"
            )
    with wrong_usage(f"--encoder {text}: "):
        return as_encoder(text)


def _encoder(options: ModelOptions, kernels: Iterable[Kernel | str]) -> dict[str, Any]:
    return {} if options.encoder is None else {"encoder": encoder_of(options.encoder, kernels)}


def _kernel(options: ModelOptions, mode: str | None) -> Kernel | str:
    """Kernel, or the name of a way to choose it; `mode` is the option that excludes such a choice."""
    default = options.kernel.default()
    if options.budget is not None and mode is not None:
        raise WrongUsage(f"--budget is for classifiers and does not go with {mode}")
    if options.budget is not None and default != "auto":
        raise WrongUsage("--budget is for --kernel auto; leave it out if a kernel is named")
    if mode == "--multilabel" and not options.kernel.kernel:
        return "fast"
    return options.kernel.single() if mode is not None or default is None else default


def _machine(kind: type[Settings], parameters: dict[str, Any]) -> Settings:
    """A machine with these parameters; some of them go into its `Compute`."""
    compute = {name: parameters[name] for name in (*COMPUTE, "solver") if name in parameters}
    rest = {name: value for name, value in parameters.items() if name not in compute}
    return kind(**rest, compute=Compute(**compute) if compute else None)


def checked(make: Callable[[], Settings]) -> Settings:
    """Settings from `make`; raises WrongUsage for parameters out of range and missing devices."""
    with wrong_usage():
        settings = make()
        check(settings)
        select(settings.device)
    return settings
