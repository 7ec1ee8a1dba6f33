"""Options of texts and machines -> estimators; lists with commas are grids for `tune`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Annotated, Any

import typer

from textsvm.cli import options
from textsvm.cli.console import WrongUsage
from textsvm.cli.kernels import several
from textsvm.errors import InputError

if TYPE_CHECKING:
    from textsvm.estimators.base import KernelMachine
    from textsvm.kernels import Kernel

_TEXT = "Text"
_MACHINE = "Machine"


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
        Normalise,
        typer.Option(
            help="unicode: NFKC, case folded; paper: a-z0-9, all else one space.", rich_help_panel=_TEXT
        ),
    ] = Normalise.unicode
    drop_punctuation: Annotated[
        bool, typer.Option("--drop-punctuation", help="Punctuation counts as space.", rich_help_panel=_TEXT)
    ] = False
    max_length: Annotated[
        int | None,
        typer.Option(help="Only so many first symbols count (default: all).", rich_help_panel=_TEXT),
    ] = None

    def as_dict(self) -> dict[str, Any]:
        """As parameters of an estimator."""
        return {
            "normalise": self.normalise.value,
            "punctuation": not self.drop_punctuation,
            "max_length": self.max_length,
        }


@dataclass(frozen=True)
class MachineOptions:
    """The machine and its solver; in `tune`, C, epsilon and multiclass may be lists with commas."""

    C: Annotated[
        str | None,
        typer.Option(
            "-C",
            metavar="NUMBER",
            help="Penalty of violations (default: 10; tune 1,10,100).",
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
            metavar="ovo|ovr|crammer-singer",
            help="More than two classes: a machine a pair (default), a machine a class, or all at once.",
            rich_help_panel=_MACHINE,
        ),
    ] = None
    class_weight: Annotated[
        ClassWeight | None,
        typer.Option(help="balanced: rare classes count as much as common ones.", rich_help_panel=_MACHINE),
    ] = None
    tol: Annotated[
        float, typer.Option(help="Stopping tolerance of the solver.", rich_help_panel=_MACHINE)
    ] = 1e-3
    duality_gap: Annotated[
        float | None,
        typer.Option(
            help="Stop as well at this relative duality gap, such as 0.01.", rich_help_panel=_MACHINE
        ),
    ] = None
    max_iter: Annotated[
        int, typer.Option(help="Bound on solver iterations; -1: none.", rich_help_panel=_MACHINE)
    ] = -1
    memory: Annotated[
        str | None,
        typer.Option(
            help="Memory for the kernel matrix, such as 2GiB (default: half of what is free).",
            rich_help_panel=_MACHINE,
        ),
    ] = None
    device: options.Device = "auto"

    def penalties(self, default: str) -> list[float]:
        """The values of C."""
        return several("-C", self.C or default, float)

    def strategies(self) -> list[str]:
        """The ways to tell several classes apart."""
        return several("--multiclass", self.multiclass or "ovo", str)

    def epsilons(self) -> list[float]:
        """The values of epsilon."""
        return several("--epsilon", self.epsilon or "0.1", float)

    def estimators(
        self, kernels: list[Kernel], text: TextOptions, regression: bool, default_C: str
    ) -> list[KernelMachine]:
        """A machine for every point of the grid, checked; its device is there."""
        if regression:
            self.refuse(
                ("--multiclass", self.multiclass), ("--class-weight", self.class_weight), of="--regress"
            )
        else:
            self.refuse(("--epsilon", self.epsilon), of="a classifier; it goes with --regress")
        return [
            checked(partial(self._made, kernel, text, regression, C, epsilon, strategy))
            for kernel, C, epsilon, strategy in product(
                kernels, self.penalties(default_C), self.epsilons(), self.strategies()
            )
        ]

    def estimator(self, kernel: Kernel, text: TextOptions, regression: bool) -> KernelMachine:
        """The one that the options describe."""
        made = self.estimators([kernel], text, regression, "10")
        if len(made) > 1:
            raise WrongUsage(
                "-C, --epsilon and --multiclass take one value here; `textsvm tune` tries several"
            )
        return made[0]

    def one_class(self, kernel: Kernel, text: TextOptions, nu: float) -> KernelMachine:
        """A one-class machine, checked."""
        from textsvm.estimators.one_class import OneClassSVM

        self.refuse(
            ("--multiclass", self.multiclass), ("--class-weight", self.class_weight),
            ("--epsilon", self.epsilon), of="--one-class",
        )  # fmt: skip
        return checked(lambda: OneClassSVM(kernel, nu, **self._solver(), **text.as_dict()))

    @staticmethod
    def refuse(*given: tuple[str, object], of: str) -> None:
        """Options that mean nothing beside another."""
        for option, value in given:
            if value is not None:
                raise WrongUsage(f"{option} is not an option of {of}")

    def _made(
        self, kernel: Kernel, text: TextOptions, regression: bool, C: float, epsilon: float, strategy: str
    ) -> KernelMachine:
        from textsvm.estimators.svc import SVC
        from textsvm.estimators.svr import SVR

        common: dict[str, Any] = self._solver() | text.as_dict()
        if regression:
            return SVR(kernel, C, epsilon=epsilon, **common)
        return SVC(
            kernel,
            C,
            multiclass=strategy,
            class_weight=None if self.class_weight is None else self.class_weight.value,
            **common,
        )

    def _solver(self) -> dict[str, Any]:
        names = ("tol", "duality_gap", "max_iter", "memory", "device")
        return {name: getattr(self, name) for name in names}


def checked(make: Callable[[], KernelMachine]) -> KernelMachine:
    """An estimator whose parameters are in range and whose device is there, else wrong usage."""
    from textsvm.device import select

    try:
        model = make()
        model.check()
        select(model.device)
    except InputError as error:
        raise WrongUsage(str(error)) from error
    return model
