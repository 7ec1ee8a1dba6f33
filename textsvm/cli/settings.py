"""Settings of machines that the options of a command describe, and the kernel that fits a corpus."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from itertools import product
from os.path import exists, expanduser
from typing import Any, TypeAlias

import numpy as np

from textsvm.cli.console import DECIMALS, Console, WrongUsage, wrong_usage
from textsvm.cli.corpora import KernelOrName, kind_of, require_kind
from textsvm.cli.machines import KernelOptions, ModelOptions, requested, several
from textsvm.cli.options import LearningOptions
from textsvm.kernels import Gaussian, Kernel
from textsvm.kernels.encoder import Encoder, as_encoder, encoders_of
from textsvm.kernels.resolve import structure_of, sum_on_columns
from textsvm.kernels.spelling import spell
from textsvm.model.settings import (
    ClassifierSettings,
    Compute,
    MultilabelSettings,
    NoveltySettings,
    RegressionSettings,
    Settings,
)
from textsvm.readers.corpus import VECTORS, Corpus
from textsvm.runtime.device import select
from textsvm.training.grams import check

Grid: TypeAlias = dict[str, list[Any]]  #: Values of each parameter.
_GRID_OF_C = "1,10,100"  #: Default values of C in `tune`.
_COMPUTE = ("memory", "store", "solver")  #: Options that are parameters of `textsvm.Compute`.


def single(options: ModelOptions, learning: LearningOptions) -> Settings:
    """Checked settings of a classifier, or for the task of `learning`."""
    default = options.kernel.default()
    kernel: Kernel | str
    if learning.multilabel and not options.kernel.kernel:
        kernel = "fast"
    elif default is None or learning.multilabel or learning.regress is not None:
        kernel = options.kernel.single()
    else:
        kernel = default
    models = _all_settings(options, {"kernel": [kernel], **options.machine.varied()}, learning)
    if len(models) > 1:
        raise WrongUsage(
            "-C, --epsilon and --multiclass take a single value here; `textsvm tune` tries several, and "
            + DECIMALS
        )
    return models[0]


def one_class(options: ModelOptions, nu: float | None) -> Settings:
    """Checked settings of a one-class machine."""
    options.machine.refuse("multiclass", "class_weight", "scoring", "epsilon", of="--one-class")
    kernel = options.kernel.single()
    parameters = {"kernel": kernel, **requested(nu=nu, encoder=encoder_of(options.encoder, [kernel]))}
    parameters |= options.machine.fixed() | options.text.as_dict()
    return checked(partial(_settings, NoveltySettings, parameters))


def grid(options: ModelOptions, learning: LearningOptions) -> tuple[Grid, Settings]:
    """Grid of `tune`, all points checked, and settings whose parameters will be set to its points."""
    points: Grid = {"kernel": options.kernel.grid(tuning=True)}
    points["C"] = several("-C", _GRID_OF_C, float)
    points |= options.machine.varied()
    return points, _all_settings(options, points, learning)[0]


def _all_settings(options: ModelOptions, grid: Grid, learning: LearningOptions) -> list[Settings]:
    make: type[Settings] = ClassifierSettings
    machine = options.machine
    if learning.multilabel:
        make = MultilabelSettings
        machine.refuse("multiclass", "class_weight", "scoring", "epsilon", of="--multilabel")
    elif learning.regress is not None:
        make = RegressionSettings
        machine.refuse("multiclass", "class_weight", "scoring", of="--regress")
    else:
        machine.refuse("epsilon", of="a classifier; it goes with --regress")
    fixed = machine.fixed() | options.text.as_dict()
    fixed |= requested(encoder=encoder_of(options.encoder, grid["kernel"]))
    points = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
    return [checked(partial(_settings, make, point | fixed)) for point in points]


def encoder_of(text: str | None, kernels: Iterable[Kernel | str | None]) -> Kernel | None:
    """The kernel of --encoder, a folder or NAME,bits=8, to be added to these kernels; None without."""
    if text is None:
        return None
    for kernel in kernels:
        if isinstance(kernel, Kernel) and encoders_of(kernel):
            raise WrongUsage(
                f"--encoder {text} does not go with --kernel {spell(kernel)}, which names an encoder; leave "
                "one of them out"
            )
    bits = None if exists(expanduser(text)) else re.fullmatch(r"(.+?)\s*,\s*bits=([0-9]+)", text)
    with wrong_usage(f"--encoder {text}: "):
        return as_encoder(Encoder(bits[1], int(bits[2])) if bits else text)


def _settings(kind: type[Settings], parameters: dict[str, Any]) -> Settings:
    """Settings with these parameters; some of them go into its `Compute`."""
    compute = {name: parameters[name] for name in _COMPUTE if name in parameters}
    rest = {name: value for name, value in parameters.items() if name not in compute}
    return kind(**rest, compute=Compute(**compute) if compute else None)


def checked(make: Callable[[], Settings]) -> Settings:
    """Settings from `make`; raises WrongUsage for parameters out of range and missing devices."""
    with wrong_usage():
        settings = make()
        check(settings)
        select(settings.device)
    return settings


def settle(console: Console, settings: Settings, is_named: bool, corpus: Corpus, auto: bool) -> Settings:
    """Settings with the kernel that fits a corpus, reported if none was named; `auto` chooses on columns."""
    kernel = kernel_for(settings.kernel if is_named else None, corpus, settings.encoder)
    if not 1e-6 <= (C := settings.as_dict().get("C", 1.0)) <= 1e6:
        console.say(f"note: C = {C:g} is far from usual values, 0.01 to 1000")
    chosen = auto and isinstance(settings, ClassifierSettings) and kind_of(corpus) == "columns"
    if kernel is None or (chosen and not is_named):
        return settings
    settings = replace(settings, kernel=kernel)
    check(settings)
    if not is_named:
        equal = ", each column with the same weight" * (kind_of(corpus) == "columns")
        console.say(f"note: the default kernel for {kind_of(corpus)} is used: {spell(kernel)}{equal}")
    return settings


def settle_grid(
    options: KernelOptions, settings: Settings, grid: Grid, corpus: Corpus
) -> tuple[Settings, list[Grid]]:
    """`settle` for `tune`: settings, and the grid, with the default of classifiers.

    For vectors without a named kernel the grid has several values of gamma.
    """
    if kind_of(corpus) == "vectors" and not options.named:
        grid["kernel"] = options.grid(tuning=True, default="gaussian")
    grid["kernel"] = [kernel_for(kernel, corpus, settings.encoder) or kernel for kernel in grid["kernel"]]
    settings = replace(settings, kernel=grid["kernel"][0])
    if isinstance(settings, ClassifierSettings) and kind_of(corpus) == "texts" and options.tries_default:
        return settings, [grid, {"kernel": ["auto"], "C": [1.0]}]
    if options.kernel and options.tries_default:
        raise WrongUsage("--kernel auto is only for classifiers of texts; name another kernel")
    return settings, [grid]


def kernel_for(kernel: KernelOrName, corpus: Corpus, encoder: object = None) -> Kernel | None:
    """Kernel to set for the documents of a corpus; None to keep `kernel`."""
    kind, reads = kind_of(corpus), "" if kernel is None else structure_of(kernel).examples
    if kind == "columns":
        if isinstance(kernel, Kernel) and reads == "columns":
            return kernel
        # A sum of a text kernel on each text column and a vector kernel on all numbers and on the vectors;
        # `kernel` replaces the default for its kind of column.
        columns = corpus.examples
        numbers = [
            name for name, value in columns.items() if isinstance(value, np.ndarray) and name != VECTORS
        ]
        texts = [name for name in columns if name not in numbers and name != VECTORS]
        own = {reads: kernel} if isinstance(kernel, Kernel) else {}
        return sum_on_columns(texts, [numbers, [VECTORS] * (VECTORS in columns)], own, encoder)
    if kernel is not None:
        require_kind(reads, "the kernel", corpus)
    return Gaussian() if kind == "vectors" and kernel is None else None
