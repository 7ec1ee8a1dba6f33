"""A grid of parameters -> models, and the Grams they need: documents encoded once, each Gram made once."""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import ParameterGrid

from textsvm.errors import InputError
from textsvm.gram.plan import allowed_bytes, plan
from textsvm.gram.shared import grams
from textsvm.kernels.base import Kernel
from textsvm.kernels.spectrum.kernel import fixed_default
from textsvm.machines.base import KernelMachine, is_default
from textsvm.machines.storing import store_together
from textsvm.machines.targets import Target, with_classes
from textsvm.machines.training import Prepared
from textsvm.runtime import device as devices
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import StageProgress, of_stage
from textsvm.selection.fold_grams import FoldGrams, terms_of

#: What can be tuned besides the parameters of the kernel.
TUNABLE = (
    "kernel", "C", "epsilon", "multiclass", "class_weight", "normalise", "punctuation", "max_length",
)  # fmt: skip


@dataclass(frozen=True)
class Setting:
    """One point of a grid.

    Attributes
    ----------
    params : dict
        What it sets, as the grid names it.
    model : KernelMachine
        A model with these parameters, not fitted.
    """

    params: dict[str, Any]
    model: KernelMachine


@dataclass(frozen=True)
class Shared:
    """Examples of one form, and the kernels wanted on them.

    Attributes
    ----------
    examples : Examples
        As `KernelMachine.encode` makes them.
    kernels : list of Kernel
    members : list of list of int
        Numbers of the settings of each kernel.
    """

    examples: Any
    kernels: list[Kernel]
    members: list[list[int]]


def settings_of(model: KernelMachine, grid: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> list[Setting]:
    """Every combination of a grid, checked.

    Raises
    ------
    InputError
        If the grid is empty, or names something that cannot be tuned or set to that value.
    """
    try:
        points = list(ParameterGrid(grid))
    except (TypeError, ValueError) as error:
        raise InputError(f"the grid cannot be used: {' '.join(str(error).split())}") from error
    settings = [Setting(params, _with(model, params)) for params in points]
    model.source.require_tunable({name for params in points for name in params})
    if any(type(setting.model.source) is not type(model.source) for setting in settings):
        raise InputError("a grid cannot go over texts and kernel matrices; give one of them")
    return settings


def _with(model: KernelMachine, params: dict[str, Any]) -> KernelMachine:
    made = model.copy()
    if isinstance(made.kernel, str) and "kernel" not in params and any("kernel__" in name for name in params):
        made.source.require_tunable(params)
        made.kernel = made.make_kernel()  # so that its parameters can be set
    for name in params:
        if name.partition("__")[0] not in TUNABLE or (name in TUNABLE and name not in made.get_params()):
            known = [one for one in TUNABLE if one in made.get_params()]
            raise InputError(f"{name!r} cannot be tuned; {', '.join(known)} and kernel__PARAMETER can")
    try:
        # A kernel of its own for each setting: nested parameters must not change that of another one.
        made.set_params(**{name: _own(value) for name, value in params.items()})
    except (ValueError, AttributeError) as error:
        raise InputError(f"the grid cannot be used: {' '.join(str(error).split())}") from error
    if params.get("kernel") == "auto":
        raise InputError(
            '"auto" chooses a kernel by itself and has no place in a grid; cross_validate judges it'
        )
    if is_default(made.kernel):
        made.kernel = fixed_default()
    made.check()
    return made


def _own(value: Any) -> Any:
    """A copy of a kernel, or of a list of kernels."""
    if isinstance(value, list | tuple) and all(isinstance(part, Kernel) for part in value):
        return type(value)(part.__sklearn_clone__() for part in value)
    return value.__sklearn_clone__() if isinstance(value, Kernel) else value


def encode_all(
    model: KernelMachine, settings: Sequence[Setting], X: Any, target: Target, progress: StageProgress | None
) -> list[Shared]:
    """Encode the texts in every form that is wanted; check that every kernel finds something there."""
    forms: dict[Hashable, list[int]] = {}
    for k, setting in enumerate(settings):
        forms.setdefault(setting.model.source.form, []).append(k)
    shared = []
    for of_form in forms.values():
        sources = [settings[k].model.source for k in of_form]
        examples = with_classes(sources[0].prepare_for(sources, X, progress), target)
        kernels: dict[Hashable, Kernel] = {}
        members: dict[Hashable, list[int]] = {}
        for k in of_form:
            kernel = settings[k].model.source.kernel_for(examples)
            given = settings[k].params.get("kernel", model.kernel)
            # A callable object is copied with its model; it is known by what was given.
            key = kernel.structure.key if kernel.structure.comparable else id(given)
            kernels.setdefault(key, kernel)
            members.setdefault(key, []).append(k)
        shared.append(Shared(examples, list(kernels.values()), list(members.values())))
    return shared


def all_grams(
    model: KernelMachine, shared: Sequence[Shared], progress: StageProgress | None = None
) -> Iterator[tuple[list[int], FoldGrams]]:
    """The Grams of every kernel and the numbers of its settings; they last until the next are asked for.

    Kernels that learn come last, their Grams as yet not made. With a store those of kernels that share a pass
    are made there together where they can be, and every other one when it is first wanted.

    Raises
    ------
    InputError
        If there is a store, and texts are wanted in several forms.
    """
    device = devices.select(model.device)
    if model.compute.store is not None and len(shared) > 1:
        raise InputError(
            "a store has kernel matrices of texts in one form, and this grid has several (normalise, "
            "punctuation, max_length); tune these without a store"
        )
    for one in shared:
        memory = model.source.memory(model.compute.memory, len(one.examples), device)
        learning = [k for k, kernel in enumerate(one.kernels) if kernel.structure.learns]
        if model.compute.store is not None or not _together(model, len(one.examples), memory, device):
            learning = sorted(range(len(one.kernels)), key=lambda k: one.kernels[k].structure.learns)
        fixed = [k for k in range(len(one.kernels)) if k not in learning]
        making, clock = of_stage(progress, "gram"), time.perf_counter()
        for at, gram in grams([one.kernels[k] for k in fixed], one.examples, device, memory, making):
            devices.synchronize(device)
            seconds, k = {"gram": time.perf_counter() - clock}, fixed[at]
            whole = Prepared(one.examples, one.kernels[k], gram, seconds)
            yield one.members[k], FoldGrams(model, one.examples, one.kernels[k], whole)
            clock = time.perf_counter()
        if model.compute.store is not None:
            store_together(model, one.kernels, one.examples, device, making)
            clock = time.perf_counter()
        terms = terms_of(model, [one.kernels[k] for k in learning], one.examples)
        for k in learning:
            made = FoldGrams(model, one.examples, one.kernels[k], terms=terms)
            yield one.members[k], made
            made.release()
            terms.done(one.kernels[k])


def _together(model: KernelMachine, n: int, memory: int | str | None, device: Device) -> bool:
    """Whether whole matrices are made in memory, where kernels can share a pass."""
    return model.compute.tier in ("auto", "device") and plan(n, allowed_bytes(memory, device)).dense


def simplicity(setting: Setting) -> tuple[float, float]:
    """Smaller is simpler: a smaller C, then a wider tube."""
    return float(setting.model.get_params()["C"]), -float(getattr(setting.model, "epsilon", 0.0))


def subset(shared: Sequence[Shared], rows: NDArray[np.int64]) -> list[Shared]:
    """The same kernels on some of the examples."""
    return [Shared(one.examples.take(rows), one.kernels, one.members) for one in shared]
