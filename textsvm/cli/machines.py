"""Options of kernels, texts, machines and workers; `textsvm.cli.settings` makes settings of them.

A kernel is spelled out with its options (``--kernel spectrum:2-7,log,idf+gap:4``, see
`textsvm.kernels.spelling`). `tune` has an option for some parameters too, with a comma-separated list of
values (``--kernel gap --p 3,4,5``): its grid.

The signatures of the estimators define the defaults. The help texts repeat them, and a test compares the two.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, make_dataclass
from enum import Enum
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from textsvm.cli import options
from textsvm.cli.console import DECIMALS, Console, WrongUsage, wrong_usage
from textsvm.cli.options import KERNEL_PANEL, option_field
from textsvm.kernels import KERNELS, Kernels, spelling
from textsvm.kernels.options import SPELLED_ONLY

if TYPE_CHECKING:
    from textsvm.kernels import Kernel
    from textsvm.kernels.options import Option

T = TypeVar("T")
DEFAULTS = ("auto", "fast")  #: Names with which a classifier sets or chooses its kernel, as in `textsvm.SVC`.
KERNEL_NAMES = [*DEFAULTS, *spelling.names()]
_text = partial(option_field, panel="Text")
_machine = partial(option_field, panel="Machine")
Normalise = Enum("Normalise", {"unicode": "unicode", "paper": "paper", "none": "none"})
ClassWeight = Enum("ClassWeight", {"balanced": "balanced"})
Scoring = Enum("Scoring", {"accuracy": "accuracy", "f1_macro": "f1_macro"})
Solver = Enum("Solver", {"auto": "auto", "gram": "gram", "features": "features"})


@dataclass(frozen=True)
class KernelOptions:
    """The kernel. `options_of` adds the parameters of the kernels as fields of a subclass."""

    kernel: list[str] | None = option_field(
        "Kernel with its options, as in gap:4 or spectrum:2-7,log,idf; several are summed (+) or multiplied "
        "(*), as in spectrum:2-7,log,idf+words:1-2,log,idf. auto: a sum that suits most texts; fast: a part "
        "of it, spectrum:1-5,log,idf in tune (default: auto in train, cv and doubts of a classifier, else "
        "spectrum). Repeatable in tune.",
        metavar="|".join(KERNEL_NAMES),
        panel=KERNEL_PANEL,
        autocompletion=lambda: KERNEL_NAMES,
    )

    @property
    def named(self) -> bool:
        """Whether the user names a kernel or a parameter of kernels."""
        return any(value not in ([DEFAULTS[0]], [DEFAULTS[1]]) for _, value in self._requested())

    def default(self) -> str | None:
        """`auto` or `fast` if the user names it, `auto` without any kernel, else None."""
        names = self.kernel or ["auto"]
        return names[0] if len(names) == 1 and names[0] in DEFAULTS else None

    @property
    def tries_default(self) -> bool:
        """Whether `tune` tries the default of classifiers: it is named, or no kernel is."""
        return not self._requested() or DEFAULTS[0] in (self.kernel or [])

    def _requested(self) -> list[tuple[str, Any]]:
        """Options with a value."""
        return [(name, value) for name, value in vars(self).items() if value not in (None, False, [])]

    def grid(self, tuning: bool = False, default: str = "spectrum") -> list[Kernel]:
        """All kernels that the options describe; `default` is the kernel if none is named.

        With `tuning`, parameters without an option take all values that a search tries.
        """
        from textsvm.kernels.spectrum.kernel import fixed_default

        kernels = []
        for text in [name for name in self.kernel or [] if not tuning or name != DEFAULTS[0]] or [default]:
            kernels += [text] if spelling.is_spelled_out(text) else several("--kernel", text, str)
        spelled = [text for text in kernels if spelling.is_spelled_out(text)]
        names = [name for name in kernels if name not in spelled and name != "fast"]
        if "auto" in names:
            raise WrongUsage("--kernel auto is only for classifiers, and not for this command; name a kernel")
        for name in names:
            if name not in KERNELS.simple():
                other = f"called {spelling.IN_SKLEARN[name]} here" if name in spelling.IN_SKLEARN else ""
                raise WrongUsage(f"--kernel {name} is {other or 'not one of ' + ', '.join(spelling.names())}")
        self._refuse_others(names, spelled)
        return [
            *(kernel for name in names for kernel in self._of(name, tuning)),
            *map(spelled_out, spelled),
            *(fixed_default() for name in kernels if name == "fast"),
        ]

    def _refuse_others(self, names: list[str], spelled: list[str]) -> None:
        """Raise WrongUsage for parameters of other kernels."""
        parameters = {option.name for name in names for option in KERNELS.options(name)}
        for field_name, _ in self._requested():
            name = field_name.replace("_", "-")
            if field_name != "kernel" and spelled:
                raise WrongUsage(f"--{name} does not go with --kernel {spelled[0]}, which has its options")
            if field_name != "kernel" and field_name not in parameters:
                raise WrongUsage(f"--{name} is not an option of the {' or '.join(names or ['fast'])} kernel")

    def single(self, default: str = "spectrum") -> Kernel:
        """Single kernel that the options describe; `default` is the kernel if none is named."""
        kernels = self.grid(default=default)
        if len(kernels) > 1:
            raise WrongUsage(f"--kernel names {len(kernels)} kernels; `textsvm tune` tries them all")
        return kernels[0]

    def _of(self, name: str, tuning: bool) -> Iterator[Kernel]:
        """A kernel with all combinations of its values; the first parameter varies fastest."""
        options = reversed(KERNELS.options(name))
        for values in product(*[self._parameters(option, tuning) for option in options]):
            point = KERNELS[name](**{key: value for pairs in values for key, value in pairs.items()})
            with wrong_usage():
                point.check()
            yield point

    def _parameters(self, of: Option, tuning: bool) -> list[dict[str, Any]]:
        """Kernel parameters that each value of an option sets."""
        value = vars(self).get(of.name)
        if not of.metavar:
            return [of.parameters(bool(value))]

        def convert(piece: str) -> Any:
            with wrong_usage(f"--{of.name} {piece} "):
                return of.convert(piece)

        texts = value or (tuning and of.tuned) or of.default
        return [of.parameters(converted) for converted in several(f"--{of.name}", texts, convert)]


def options_of(kernels: Kernels) -> type[KernelOptions]:
    """Dataclass with the parameters of kernels as options; kernels may share options."""
    owners: dict[str, dict[str, Option]] = {}
    for name in kernels:
        for option in (option for option in kernels.options(name) if option.name not in SPELLED_ONLY):
            owners.setdefault(option.name, {})[name] = option
    fields: list[tuple[str, Any, Any]] = []
    for name, of_kernels in owners.items():
        first = next(iter(of_kernels.values()))
        help = f"{', '.join(of_kernels)}: {first.help}{_defaults(of_kernels)}."
        if first.metavar:
            fields.append((name, str | None, option_field(help, metavar=first.metavar, panel=KERNEL_PANEL)))
        else:
            fields.append((name, bool, option_field(help, panel=KERNEL_PANEL, default=False)))
    return make_dataclass("KernelGrid", fields, bases=(KernelOptions,), frozen=True)


def _defaults(of_kernels: dict[str, Option]) -> str:
    """Values that a search tries by default, of the first kernel and of kernels that differ, in brackets."""
    first, *others = ((name, option.tuned or option.default) for name, option in of_kernels.items())
    if not first[1]:
        return ""
    differing = (f"{name} {values}" for name, values in others if values != first[1])
    return f" (default: {', '.join([first[1], *differing])})"


def spelled_out(text: str) -> Kernel:
    """Parse a spelled-out kernel; raises WrongUsage."""
    hint = f"{DECIMALS}: " if re.search(r"=\d*,\d", text) else ""
    with wrong_usage(f"--kernel {text}: {hint}"):
        return spelling.parse(text)


def several(name: str, text: str, convert: Callable[[str], T]) -> list[T]:
    """Values of a comma-separated list, without repetitions; "0,5" is probably meant to be 0.5."""
    if convert is not int and re.fullmatch(r"-?0?,\d+", text.strip()):
        raise WrongUsage(f"{name} {text} is a list of 0 and another number; {DECIMALS}")
    try:
        return list(dict.fromkeys(convert(piece.strip()) for piece in text.split(",")))
    except WrongUsage:
        raise
    except ValueError:
        raise WrongUsage(
            f"{name} {text} is neither a number nor a list such as 1,10,100; {DECIMALS}"
        ) from None


@dataclass(frozen=True)
class TextOptions:
    """Preparation of texts."""

    normalise: Normalise | None = _text(
        "unicode: NFKC, case folded, without zero-width characters; paper: a-z0-9 (default: unicode)."
    )
    max_length: int | None = _text("Use only the first N symbols of each text (default: all).")

    def as_dict(self) -> dict[str, Any]:
        """Options with a value as parameters of an estimator."""
        return requested(normalise=self.normalise, max_length=self.max_length)


@dataclass(frozen=True)
class MachineOptions:
    """The machine and its solver; in `tune`, C, epsilon and multiclass may be comma-separated lists."""

    C: str | None = _machine("Penalty of violations (default: 1; tune 1,10,100).", "-C", metavar="NUMBER")
    epsilon: str | None = _machine(
        "Regression: errors up to epsilon are not penalised (default: 0.1).", metavar="NUMBER"
    )
    multiclass: str | None = _machine(
        "More than two classes: one machine per class, per pair, one joint machine, or machines of grades: "
        "ordered by their numbers, or as in 'ordered:low<medium<high' (default: ovr).",
        metavar="ovr|ovo|crammer-singer|ordered",
    )
    class_weight: ClassWeight | None = _machine("balanced: rare classes count as much as common ones.")
    scoring: Scoring | None = _machine(
        "f1_macro: move the biases to raise macro-F1 in cross-validation (default: accuracy)."
    )
    tol: float | None = _machine("Stopping tolerance of the solver (default: 0.001).")
    memory: str | None = _machine(
        "Memory for the kernel matrix or features, such as 2GiB (default: half of the free memory)."
    )
    store: Path | None = _machine(
        "Folder of the kernel matrix. Later commands on the same texts reuse it, and an interrupted command "
        "continues.", "--store", metavar="DIR",
    )  # fmt: skip
    solver: Solver | None = _machine(
        "Train on the kernel matrix (gram) or, for kernels with sparse features such as spectrum, on "
        "these (features): same optimum. auto: lower predicted time (default: auto)."
    )
    device: options.Device = "auto"

    def varied(self) -> dict[str, list[Any]]:
        """Values of C, epsilon and multiclass."""
        kinds: dict[str, type] = {"-C": float, "--epsilon": float, "--multiclass": str}
        texts = {option: vars(self)[option.lstrip("-")] for option in kinds}
        return {x.lstrip("-"): several(x, y, kinds[x]) for x, y in texts.items() if y is not None}

    def fixed(self) -> dict[str, Any]:
        """Other options with a value as parameters of an estimator."""
        varied = ("C", "epsilon", "multiclass")
        return requested(**{name: value for name, value in vars(self).items() if name not in varied})

    def refuse(self, *names: str, of: str) -> None:
        """Raise WrongUsage for options that an estimator does not have."""
        for name in names:
            if vars(self)[name] is not None:
                raise WrongUsage(f"--{name.replace('_', '-')} is not an option of {of}")


@dataclass(frozen=True)
class ModelOptions:
    """All options of an estimator."""

    kernel: KernelOptions
    text: TextOptions
    machine: MachineOptions
    encoder: str | None = options.encoder_field(panel=KERNEL_PANEL)


@dataclass(frozen=True)
class ClusterOptions:
    """Distribution over several computers."""

    workers: str | None = option_field(
        "Distribute the work over the workers of a Dask scheduler, such as tcp://HOST:8786, or over one "
        "process per core (local).",
        metavar="ADDRESS|local", show_default=False,
    )  # fmt: skip

    def check(self) -> None:
        """Raise WrongUsage if Dask is not installed."""
        if self.workers is not None:
            from textsvm.runtime.workers import require_dask

            with wrong_usage(f"--workers {self.workers}: "):
                require_dask()

    @contextmanager
    def at_work(self, console: Console, store: str | os.PathLike[str] | None = None) -> Iterator[None]:
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


def requested(**options: Any) -> dict[str, Any]:
    """Options with a value; enumeration members by their values."""
    return {
        name: value.value if isinstance(value, Enum) else value
        for name, value in options.items()
        if value is not None
    }
