"""Options of kernels -> kernel objects; in `tune`, comma-separated lists are grids.

A kernel is given by its name and options (``--kernel spectrum --p 4``), or spelled out, as sums and products
are (``--kernel spectrum:2-7,log,idf+gap:4``, see `textsvm.kernels.spelling`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, make_dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, TypeVar

from textsvm.cli.console import WrongUsage, wrong_usage
from textsvm.cli.options import KERNEL_PANEL, option_field
from textsvm.kernels import KERNELS, Kernels, spelling

if TYPE_CHECKING:
    from textsvm.kernels import Kernel
    from textsvm.kernels.options import Option

T = TypeVar("T")
#: Names with which a classifier sets or chooses its kernel, as in `textsvm.SVC`.
DEFAULTS = ("auto", "fast")


@dataclass(frozen=True)
class _KernelOptions:
    """The kernel. `options_of` adds the options of the kernels as fields of a subclass."""

    kernel: list[str] | None = option_field(
        "Kernel name, or several kernels spelled out as a sum (+) or product (*), such as "
        "spectrum:2-7,log,idf+words:1-2,log,idf. auto: chosen by cross-validation; fast: "
        "spectrum:1-5,log,idf (default: auto in train and cv of a classifier, else spectrum; with "
        "kernel options alone spectrum). Repeatable in tune.",
        metavar="|".join([*DEFAULTS, *spelling.names()]),
        panel=KERNEL_PANEL,
    )

    @property
    def named(self) -> bool:
        """Whether the user names a kernel or gives kernel options."""
        return any(
            value not in (None, False, [], [DEFAULTS[0]], [DEFAULTS[1]]) for value in vars(self).values()
        )

    def default(self) -> str | None:
        """`auto` or `fast` if the user names it, `auto` without any kernel option, else None."""
        others = [name for name, value in self._given() if name != "kernel"]
        names = self.kernel or ([] if others else ["auto"])
        if len(names) != 1 or names[0] not in DEFAULTS:
            return None
        if others:
            raise WrongUsage(f"--{others[0].replace('_', '-')} does not go with --kernel {names[0]}")
        return names[0]

    def _given(self) -> list[tuple[str, Any]]:
        """Options that are given."""
        return [(name, value) for name, value in vars(self).items() if value not in (None, False)]

    def grid(self, tuning: bool = False, default: str = "spectrum") -> list[Kernel]:
        """All kernels that the options describe; `default` is the kernel if none is named.

        With `tuning`, options that are not given take all values that a search tries.
        """
        from textsvm.kernels.spectrum.kernel import fixed_default

        given = []
        for text in self.kernel or [default]:
            given += [text] if spelling.is_spelled_out(text) else several("--kernel", text, str)
        spelled = [text for text in given if spelling.is_spelled_out(text)]
        fast = [fixed_default() for name in given if name == "fast"]
        names = [name for name in given if name not in spelled and name != "fast"]
        if "auto" in names:
            raise WrongUsage("--kernel auto is only for train and cv of a classifier; name a kernel here")
        for name in names:
            if name not in KERNELS.simple():
                other = f"called {spelling.IN_SKLEARN[name]} here" if name in spelling.IN_SKLEARN else ""
                raise WrongUsage(f"--kernel {name} is {other or 'not one of ' + ', '.join(spelling.names())}")
        self._refuse_others(names, spelled)
        options = {name: KERNELS.options(name) for name in names}
        return [
            *(kernel for name in names for kernel in self._of(KERNELS[name], options[name], tuning)),
            *map(spelled_out, spelled),
            *fast,
        ]

    def _refuse_others(self, names: list[str], spelled: list[str]) -> None:
        """Raise WrongUsage for options of other kernels."""
        known = {each.name for name in names for each in KERNELS.options(name)}
        for field_name, _ in self._given():
            name = field_name.replace("_", "-")
            if field_name != "kernel" and spelled:
                raise WrongUsage(
                    f"--{name} does not go with --kernel {spelled[0]}, which contains its options"
                )
            if field_name != "kernel" and field_name not in known:
                raise WrongUsage(f"--{name} is not an option of the {' or '.join(names or ['fast'])} kernel")

    def single(self) -> Kernel:
        """Single kernel that the options describe."""
        kernels = self.grid()
        if len(kernels) > 1:
            raise WrongUsage(f"the options describe {len(kernels)} kernels; `textsvm tune` tries them all")
        return kernels[0]

    def _of(self, kernel: type[Kernel], options: tuple[Option, ...], tuning: bool) -> Iterator[Kernel]:
        """All combinations of the values; the first option varies fastest."""
        for values in product(*[self._parameters(each, tuning) for each in reversed(options)]):
            point = kernel(**{name: value for each in values for name, value in each.items()})
            with wrong_usage():
                point.check()
            yield point

    def _parameters(self, of: Option, tuning: bool) -> list[dict[str, Any]]:
        """Kernel parameters that each value of an option sets."""
        given = getattr(self, of.name)
        if not of.metavar:
            return [of.parameters(given)]
        text = given or (tuning and of.tuned) or of.default

        def convert(piece: str) -> Any:
            with wrong_usage(f"--{of.name} {piece} "):
                return of.convert(piece)

        return [of.parameters(value) for value in several(f"--{of.name}", text, convert)]


def options_of(kernels: Kernels) -> type[_KernelOptions]:
    """Dataclass of the options of the given kernels; kernels may share options."""
    owners: dict[str, dict[str, Option]] = {}
    for name in kernels:
        for each in kernels.options(name):
            owners.setdefault(each.name, {})[name] = each
    fields: list[tuple[str, Any, Any]] = []
    for name, of_kernels in owners.items():
        first = next(iter(of_kernels.values()))
        help = f"{', '.join(of_kernels)}: {first.help}{_defaults(of_kernels)}."
        if first.metavar:
            fields.append((name, str | None, option_field(help, metavar=first.metavar, panel=KERNEL_PANEL)))
        else:
            flag = f"--{name.replace('_', '-')}"
            fields.append((name, bool, option_field(help, flag, panel=KERNEL_PANEL, default=False)))
    return make_dataclass("KernelOptions", fields, bases=(_KernelOptions,), frozen=True)


def _defaults(of_kernels: dict[str, Option]) -> str:
    """Default of the first kernel, other defaults, and the values of `tune`, in brackets."""
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
    """Parse a spelled-out kernel; raises WrongUsage."""
    with wrong_usage(f"--kernel {text}: "):
        return spelling.parse(text)


def several(name: str, text: str, convert: Callable[[str], T]) -> list[T]:
    """Values of a comma-separated list, without repetitions."""
    try:
        return list(dict.fromkeys(convert(piece.strip()) for piece in text.split(",")))
    except WrongUsage:
        raise
    except ValueError:
        raise WrongUsage(f"{name} {text} is neither a number nor a list such as 1,10,100") from None
