"""Options of kernels -> kernel objects; lists with commas are grids for `tune`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from textsvm.cli.console import WrongUsage
from textsvm.errors import InputError

if TYPE_CHECKING:
    from textsvm.kernels import Kernel

T = TypeVar("T")
_KERNEL = "Kernel"
#: Which kernels have an option, by the name of its field.
_OWNERS = {
    "p": ("spectrum", "gap"),
    "weight": ("spectrum",),
    "idf": ("spectrum",),
    "gamma": ("edit",),
    "relative": ("edit",),
    "decay": ("gap",),
}
WEIGHTS = ("count", "presence", "intersection", "log")


@dataclass(frozen=True)
class KernelOptions:
    """The kernel; in `tune` each may be a list with commas."""

    kernel: Annotated[
        str, typer.Option(metavar="spectrum|edit|gap", help="Which kernel.", rich_help_panel=_KERNEL)
    ] = "spectrum"
    p: Annotated[
        str | None,
        typer.Option(
            metavar="LENGTH",
            help="spectrum, gap: length of what is compared, or a range such as 3-5 "
            "(default: 4, gap 5; tune 3,4,5).",
            rich_help_panel=_KERNEL,
        ),
    ] = None
    weight: Annotated[
        str | None,
        typer.Option(
            metavar="|".join(WEIGHTS),
            help="spectrum: what a count weighs (default: count).",
            rich_help_panel=_KERNEL,
        ),
    ] = None
    idf: Annotated[
        bool, typer.Option("--idf", help="spectrum: rare substrings weigh more.", rich_help_panel=_KERNEL)
    ] = False
    gamma: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER", help="edit: exp(-gamma distance) (default: 0.05).", rich_help_panel=_KERNEL
        ),
    ] = None
    relative: Annotated[
        bool,
        typer.Option("--relative", help="edit: distance over the longer length.", rich_help_panel=_KERNEL),
    ] = False
    decay: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER",
            help="gap: lambda in (0, 1], the cost of a symbol spanned (default: 0.5).",
            rich_help_panel=_KERNEL,
        ),
    ] = None

    def grid(self, default_p: str | None = None) -> list[Kernel]:
        """Every kernel that the options describe; options of no kernel that is asked for are refused."""
        from textsvm.kernels import KERNELS

        names = several("--kernel", self.kernel, str)
        for name in names:
            if name not in KERNELS:
                raise WrongUsage(f"--kernel {name} is not one of {', '.join(KERNELS)}")
        for option, owners in _OWNERS.items():
            if getattr(self, option) not in (None, False) and not set(owners) & set(names):
                raise WrongUsage(f"--{option} is not an option of the {' or '.join(names)} kernel")
        kernels = [kernel for name in names for kernel in getattr(self, f"_{name}")(default_p)]
        for kernel in kernels:
            try:
                kernel.check()
            except InputError as error:
                raise WrongUsage(str(error)) from error
        return kernels

    def one(self) -> Kernel:
        """The kernel that the options describe."""
        kernels = self.grid()
        if len(kernels) > 1:
            raise WrongUsage(f"the options describe {len(kernels)} kernels; `textsvm tune` tries them all")
        return kernels[0]

    def _spectrum(self, default_p: str | None) -> list[Kernel]:
        from textsvm.kernels import Spectrum

        weights = several("--weight", self.weight or "count", str)
        for weight in weights:
            if weight not in WEIGHTS:
                raise WrongUsage(f"--weight {weight} is not one of {', '.join(WEIGHTS)}")
        lengths = several("--p", self.p or default_p or "4", _lengths)
        return [
            Spectrum(p=low if low == high else (low, high), weight=weight, idf=self.idf)
            for weight, (low, high) in product(weights, lengths)
        ]

    def _edit(self, default_p: str | None) -> list[Kernel]:
        from textsvm.kernels import EditDistance

        gammas = several("--gamma", self.gamma or "0.05", float)
        return [EditDistance(gamma=gamma, relative=self.relative) for gamma in gammas]

    def _gap(self, default_p: str | None) -> list[Kernel]:
        from textsvm.kernels import GapWeighted

        decays = several("--decay", self.decay or "0.5", float)
        lengths = several("--p", self.p or default_p or "5", _lengths)
        return [
            GapWeighted(p=high, decay=decay, weights=_blend(low, high))
            for decay, (low, high) in product(decays, lengths)
        ]


def describe(kernel: dict[str, Any]) -> str:
    """A kernel's name and parameters, as far as they say something, on a line."""
    parts = [kernel["name"]]
    for name, value in kernel.items():
        if name not in ("name", "normalised") and value is not None and value is not False:
            text = "-".join(map(str, value)) if name == "p" and isinstance(value, tuple) else str(value)
            parts.append(name if value is True else f"{name} {text}")
    return ", ".join(parts)


def several(option: str, text: str, convert: Callable[[str], T]) -> list[T]:
    """A list with commas."""
    try:
        return list(dict.fromkeys(convert(piece.strip()) for piece in text.split(",")))
    except WrongUsage:
        raise
    except ValueError:
        raise WrongUsage(f"{option} {text} is neither a number nor a list such as 1,10,100") from None


def _lengths(p: str) -> tuple[int, int]:
    low, _, high = p.partition("-")
    try:
        lengths = int(low), int(high or low)
    except ValueError:
        raise WrongUsage(f"--p {p} is neither a number nor a range such as 3-5") from None
    if not 1 <= lengths[0] <= lengths[1]:
        raise WrongUsage(f"--p {p} must be 1 or more, and a range must not fall")
    return lengths


def _blend(low: int, high: int) -> tuple[float, ...] | None:
    """Weights of the gap-weighted kernel's lengths 1..high."""
    return None if low == high else tuple(float(q >= low) for q in range(1, high + 1))
