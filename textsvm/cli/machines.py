"""Options of texts, machines and workers; `textsvm.cli.estimators` builds estimators from them.

The signatures of the estimators define the defaults. The help texts repeat them, and a test compares the two.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any

from textsvm.cli import options
from textsvm.cli.console import Console, WrongUsage, wrong_usage
from textsvm.cli.kernels import KernelOptions, several
from textsvm.cli.options import KERNEL_PANEL, option_field

_text = partial(option_field, panel="Text")
_machine = partial(option_field, panel="Machine")
#: Options that are parameters of `textsvm.Compute`.
COMPUTE = ("memory", "store", "tier")
Normalise = Enum("Normalise", {"unicode": "unicode", "paper": "paper", "none": "none"})
ClassWeight = Enum("ClassWeight", {"balanced": "balanced"})
Scoring = Enum("Scoring", {"accuracy": "accuracy", "f1_macro": "f1_macro"})


@dataclass(frozen=True)
class TextOptions:
    """Preparation of texts."""

    normalise: Normalise | None = _text(
        "unicode: NFKC, case folded, without zero-width characters; paper: a-z0-9 (default: unicode)."
    )
    drop_punctuation: bool = _text("Replace punctuation by spaces.", default=False)
    max_length: int | None = _text("Use only the first N symbols of each text (default: all).")

    def as_dict(self) -> dict[str, Any]:
        """Options with a value as parameters of an estimator."""
        values = requested(normalise=self.normalise, max_length=self.max_length)
        return values | ({"punctuation": False} if self.drop_punctuation else {})


@dataclass(frozen=True)
class MachineOptions:
    """The machine and its solver; in `tune`, C, epsilon and multiclass may be comma-separated lists."""

    C: str | None = _machine("Penalty of violations (default: 1; tune 1,10,100).", "-C", metavar="NUMBER")
    epsilon: str | None = _machine(
        "Regression: errors up to epsilon are not penalised (default: 0.1).", metavar="NUMBER"
    )
    multiclass: str | None = _machine(
        "More than two classes: one machine per class, per pair, one joint machine, or machines of ordered "
        "classes, such as 'ordered:low<medium<high' (default: ovr).",
        metavar="ovr|ovo|crammer-singer|ordered",
    )
    ordered: bool = _machine(
        "The labels are grades, ordered by their numbers: a wrong label is a near one (multiclass ordered).",
        default=False,
    )
    class_weight: ClassWeight | None = _machine("balanced: rare classes count as much as common ones.")
    scoring: Scoring | None = _machine(
        "f1_macro: move the biases to raise macro-F1 in cross-validation (default: accuracy)."
    )
    tol: float | None = _machine("Stopping tolerance of the solver (default: 0.001).")
    duality_gap: float | None = _machine("Also stop at this relative duality gap, such as 0.01.")
    max_iter: int | None = _machine("Most solver iterations; -1: limit of the solver (default: -1).")
    memory: str | None = _machine(
        "Memory for the kernel matrix or features, such as 2GiB (default: half of the free memory)."
    )
    store: options.StoreFolder = None
    tier: str | None = _machine(
        "Place of the kernel matrix: device, host (main memory), disk (with --store) or recompute; auto: "
        "lowest predicted time (default: auto).",
        metavar="PLACE",
    )
    device: options.Device = "auto"

    def varied(self) -> dict[str, list[Any]]:
        """Values of C, epsilon and multiclass."""
        values: dict[str, list[Any]] = {}
        if self.C is not None:
            values["C"] = several("-C", self.C, float)
        if self.epsilon is not None:
            values["epsilon"] = several("--epsilon", self.epsilon, float)
        if self.multiclass is not None:
            values["multiclass"] = several("--multiclass", self.multiclass, str)
        if self.ordered:
            if self.multiclass is not None:
                raise WrongUsage("--ordered and --multiclass do not go together")
            values["multiclass"] = ["ordered"]
        return values

    def fixed(self) -> dict[str, Any]:
        """Other options with a value as parameters of an estimator."""
        varied = ("C", "epsilon", "multiclass", "ordered")
        return requested(**{name: value for name, value in vars(self).items() if name not in varied})

    def refuse(self, *names: str, of: str) -> None:
        """Raise WrongUsage for options that an estimator does not have."""
        for name in names:
            if vars(self)[name] not in (None, False):
                raise WrongUsage(f"--{name.replace('_', '-')} is not an option of {of}")


@dataclass(frozen=True)
class ClusterOptions:
    """Distribution over several computers."""

    workers: str | None = option_field(
        "Distribute the work over the workers of a Dask scheduler, such as tcp://HOST:8786, or over one "
        "process per core (local).",
        metavar="ADDRESS|local",
        show_default=False,
    )

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


@dataclass(frozen=True)
class ModelOptions:
    """All options of an estimator."""

    kernel: KernelOptions
    text: TextOptions
    machine: MachineOptions
    cluster: ClusterOptions
    encoder: str | None = option_field(
        "Compare texts by meaning, too, with an encoder of model2vec, sentence-transformers or ONNX.",
        metavar="FOLDER|OWNER/NAME",
        panel=KERNEL_PANEL,
    )
    budget: float | None = option_field(
        "--kernel auto: predicted time of trials by cross-validation (default: none).",
        metavar="SECONDS",
        min=0,
        panel=KERNEL_PANEL,
    )


def requested(**options: Any) -> dict[str, Any]:
    """Options with a value; enumeration members by their values."""
    return {
        name: value.value if isinstance(value, Enum) else value
        for name, value in options.items()
        if value is not None
    }
