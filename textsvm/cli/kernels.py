"""Options of kernels -> kernel objects; lists with commas are grids for `tune`.

A kernel is given by its name and options of the command (``--kernel spectrum --p 4``), or spelled out, as
sums and products are (``--kernel spectrum:2-7,log,idf+gap:4``, see `textsvm.kernels.spelling`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, make_dataclass
from itertools import product
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from textsvm.cli.console import WrongUsage
from textsvm.errors import InputError
from textsvm.kernels import KERNELS, Kernels, spelling

if TYPE_CHECKING:
    from textsvm.kernels import Kernel
    from textsvm.kernels.options import Option

T = TypeVar("T")
PANEL = "Kernel"
#: Names that leave the kernel to a classifier, as in `textsvm.SVC`.
DEFAULTS = ("auto", "fast")


@dataclass(frozen=True)
class _KernelOptions:
    """The kernel; in `tune` each may be a list with commas, and `--kernel` may be given several times.

    The options of the kernels follow as fields of a subclass, see `options_of`.
    """

    kernel: Annotated[
        list[str] | None,
        typer.Option(
            metavar="|".join([*DEFAULTS, *spelling.names()]),
            help="Which kernel; spelled out, a sum (+) or product (*) of several: "
            "spectrum:2-7,log,idf+words:1-2,log,idf. auto: chosen by cross-validation; fast: "
            "spectrum:1-5,log,idf (default: train and cv of a classifier auto, others spectrum; with options "
            "of a kernel alone spectrum).",
            rich_help_panel=PANEL,
        ),
    ] = None

    @property
    def named(self) -> bool:
        """Whether a kernel is asked for, and not left to be found."""
        return any(
            value not in (None, False, [], [DEFAULTS[0]], [DEFAULTS[1]]) for value in vars(self).values()
        )

    def default(self) -> str | None:
        """Auto or fast if that is asked for, auto too if nothing is; None if a kernel is."""
        others = [
            name for name, value in vars(self).items() if name != "kernel" and value not in (None, False)
        ]
        named = self.kernel or ([] if others else ["auto"])
        if len(named) != 1 or named[0] not in DEFAULTS:
            return None
        if others:
            raise WrongUsage(f"--{others[0].replace('_', '-')} does not go with --kernel {named[0]}")
        return named[0]

    def grid(self, tuning: bool = False, default: str = "spectrum") -> list[Kernel]:
        """Every kernel that the options describe; options of no kernel that is asked for are refused.

        With `tuning`, options that are not given take the values that a search tries. If no kernel is named
        it is the `default`.
        """
        from textsvm.kernels.spectrum.kernel import fixed_default

        given = []
        for text in self.kernel or [default]:
            given += [text] if spelling.is_spelled_out(text) else several("--kernel", text, str)
        spelled = [text for text in given if spelling.is_spelled_out(text)]
        fast = [fixed_default() for name in given if name == "fast"]
        names = [name for name in given if name not in spelled and name != "fast"]
        if "auto" in names:
            raise WrongUsage("--kernel auto is for train and cv of a classifier, alone; name a kernel here")
        for name in names:
            if name not in KERNELS.simple():
                raise WrongUsage(f"--kernel {name} is not one of {', '.join(spelling.names())}")
        self._refuse_others(names, spelled)
        options = {name: KERNELS.options(name) for name in names}
        return [
            *(kernel for name in names for kernel in self._of(KERNELS[name], options[name], tuning)),
            *map(spelled_out, spelled),
            *fast,
        ]

    def _refuse_others(self, names: list[str], spelled: list[str]) -> None:
        """Wrong usage, if there are options of no kernel that is asked for by name."""
        known = {option.name for name in names for option in KERNELS.options(name)}
        for option, value in vars(self).items():
            if option == "kernel" or value in (None, False):
                continue
            name = option.replace("_", "-")
            if spelled:
                raise WrongUsage(
                    f"--{name} does not go with --kernel {spelled[0]}, which has its options in itself"
                )
            if option not in known:
                raise WrongUsage(f"--{name} is not an option of the {' or '.join(names or ['fast'])} kernel")

    def one(self) -> Kernel:
        """The kernel that the options describe."""
        kernels = self.grid()
        if len(kernels) > 1:
            raise WrongUsage(f"the options describe {len(kernels)} kernels; `textsvm tune` tries them all")
        return kernels[0]

    def _of(self, kernel: type[Kernel], options: tuple[Option, ...], tuning: bool) -> Iterator[Kernel]:
        """Every combination, the values of the first option next to each other."""
        for values in product(*[self._parameters(option, tuning) for option in reversed(options)]):
            made = kernel(**{name: value for each in values for name, value in each.items()})
            try:
                made.check()
            except InputError as error:
                raise WrongUsage(str(error)) from error
            yield made

    def _parameters(self, option: Option, tuning: bool) -> list[dict[str, Any]]:
        """What each value of an option sets."""
        given = getattr(self, option.name)
        if not option.metavar:
            return [option.parameters(given)]
        text = given or (tuning and option.tuned) or option.default

        def convert(piece: str) -> Any:
            try:
                return option.convert(piece)
            except InputError as error:
                raise WrongUsage(f"--{option.name} {piece} {error}") from error

        return [option.parameters(value) for value in several(f"--{option.name}", text, convert)]


def options_of(kernels: Kernels) -> type[_KernelOptions]:
    """The group of options for these kernels; kernels may have options in common."""
    owners: dict[str, dict[str, Option]] = {}
    for name in kernels:
        for option in kernels.options(name):
            owners.setdefault(option.name, {})[name] = option
    fields: list[tuple[str, Any, Any]] = []
    for name, of_kernels in owners.items():
        first = next(iter(of_kernels.values()))
        help = f"{', '.join(of_kernels)}: {first.help}{_defaults(of_kernels)}."
        if first.metavar:
            shown = typer.Option(metavar=first.metavar, help=help, rich_help_panel=PANEL)
            fields.append((name, Annotated[str | None, shown], field(default=None)))
        else:
            shown = typer.Option(f"--{name.replace('_', '-')}", help=help, rich_help_panel=PANEL)
            fields.append((name, Annotated[bool, shown], field(default=False)))
    return make_dataclass("KernelOptions", fields, bases=(_KernelOptions,), frozen=True)


def _defaults(of_kernels: dict[str, Option]) -> str:
    """(default: that of the first kernel, those of others that differ; what is tuned)"""
    first = next(iter(of_kernels.values()))
    if not first.metavar:
        return ""
    others = [f"{name} {each.default}" for name, each in of_kernels.items() if each.default != first.default]
    tuned = f"; tune {first.tuned}" if first.tuned else ""
    return f" (default: {', '.join([first.default, *others])}{tuned})"


if TYPE_CHECKING:
    KernelOptions = _KernelOptions
else:
    KernelOptions = options_of(KERNELS)


def spelled_out(text: str) -> Kernel:
    """The kernel that a text spells out, or wrong usage."""
    try:
        return spelling.parse(text)
    except InputError as error:
        raise WrongUsage(f"--kernel {text}: {error}") from error


def several(option: str, text: str, convert: Callable[[str], T]) -> list[T]:
    """A list with commas."""
    try:
        return list(dict.fromkeys(convert(piece.strip()) for piece in text.split(",")))
    except WrongUsage:
        raise
    except ValueError:
        raise WrongUsage(f"{option} {text} is neither a number nor a list such as 1,10,100") from None
