"""Models of a grid of parameters, and their Grams: documents are encoded once, each Gram is built once."""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import ParameterGrid

from textsvm.errors import InputError
from textsvm.gram.measure import allowed_bytes
from textsvm.gram.plan import Case
from textsvm.gram.shared import grams
from textsvm.kernels.base import Kernel
from textsvm.kernels.spectrum.kernel import fixed_default
from textsvm.machines.base import KernelMachine, is_default
from textsvm.machines.targets import Target, with_classes
from textsvm.machines.training import PreparedRows, store_together
from textsvm.runtime import device as devices
from textsvm.runtime.parallel import StageProgress, of_stage
from textsvm.selection.fold_grams import FoldGrams, terms_of

#: Parameters that can be tuned besides the parameters of the kernel.
TUNABLE = (
    "kernel", "C", "epsilon", "multiclass", "class_weight", "normalise", "punctuation", "max_length",
)  # fmt: skip


@dataclass(frozen=True)
class Setting:
    """A point of a grid: its parameters, and a model with these parameters that is not fitted."""

    params: dict[str, Any]
    model: KernelMachine


@dataclass(frozen=True)
class SharedExamples:
    """Examples encoded in the same form, their kernels, and the numbers of each kernel's settings."""

    examples: Any
    kernels: list[Kernel]
    members: list[list[int]]


def settings_of(model: KernelMachine, grid: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> list[Setting]:
    """Every combination of a grid; InputError if it is empty, or a parameter or value is invalid."""
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
    copy = model.copy()
    if isinstance(copy.kernel, str) and "kernel" not in params and any("kernel__" in name for name in params):
        copy.source.require_tunable(params)
        copy.kernel = copy.new_kernel()  # so that its parameters can be set
    for name in params:
        if name.partition("__")[0] not in TUNABLE or (name in TUNABLE and name not in copy.get_params()):
            known = [each for each in TUNABLE if each in copy.get_params()]
            raise InputError(f"{name!r} cannot be tuned; {', '.join(known)} and kernel__PARAMETER can")
    try:
        # Each setting gets its own kernel: nested parameters must not change another setting's.
        copy.set_params(**{name: _own(value) for name, value in params.items()})
    except (ValueError, AttributeError) as error:
        raise InputError(f"the grid cannot be used: {' '.join(str(error).split())}") from error
    if params.get("kernel") == "auto":
        raise InputError(
            'kernel="auto" chooses a kernel by itself and cannot be in a grid; judge it with cross_validate'
        )
    if is_default(copy.kernel):
        copy.kernel = fixed_default()
    copy.check()
    return copy


def _own(value: Any) -> Any:
    """A copy of a kernel, or of a list of kernels."""
    if isinstance(value, list | tuple) and all(isinstance(part, Kernel) for part in value):
        return type(value)(part.__sklearn_clone__() for part in value)
    return value.__sklearn_clone__() if isinstance(value, Kernel) else value


def encode_all(
    model: KernelMachine, settings: Sequence[Setting], X: Any, target: Target, progress: StageProgress | None
) -> list[SharedExamples]:
    """Encode the texts in every form of a setting; check that every kernel has something to compare."""
    forms: dict[Hashable, list[int]] = {}
    for k, setting in enumerate(settings):
        forms.setdefault(setting.model.source.form, []).append(k)
    shared = []
    for of_form in forms.values():
        sources = [settings[k].model.source for k in of_form]
        examples = with_classes(sources[0].encode_for(sources, X, progress), target)
        kernels: dict[Hashable, Kernel] = {}
        members: dict[Hashable, list[int]] = {}
        for k in of_form:
            kernel = settings[k].model.source.kernel_for(examples)
            given = settings[k].params.get("kernel", model.kernel)
            # A callable object is copied with its model, so the original identifies it.
            key = kernel.structure.key if kernel.structure.comparable else id(given)
            kernels.setdefault(key, kernel)
            members.setdefault(key, []).append(k)
        shared.append(SharedExamples(examples, list(kernels.values()), list(members.values())))
    return shared


def all_grams(
    model: KernelMachine, shared: Sequence[SharedExamples], progress: StageProgress | None = None
) -> Iterator[tuple[list[int], FoldGrams]]:
    """The numbers of each kernel's settings and its Grams, which are valid until the next are requested.

    Kernels that learn come last, with Grams that are computed on demand. With a store, Grams of kernels that
    share a pass are computed together, and others on demand. Raises InputError if a store would need texts in
    several forms.
    """
    device, compute = devices.select(model.device), model.compute_options
    if compute.store is not None and len(shared) > 1:
        raise InputError(
            "a store keeps kernel matrices of texts in one form, and this grid has several (normalise, "
            "punctuation, max_length); tune these without a store"
        )
    for group in shared:
        kernels, members = group.kernels, group.members
        memory = model.source.memory(compute.memory, len(group.examples), device)
        # Kernels can share a pass only if whole matrices are computed in memory.
        fits = Case(len(group.examples), allowed_bytes(memory, device)).fits
        learning = [k for k, kernel in enumerate(kernels) if kernel.structure.learns]
        if compute.store is not None or compute.tier not in ("auto", "device") or not fits:
            learning = sorted(range(len(kernels)), key=lambda k: kernels[k].structure.learns)
        fixed = [k for k in range(len(kernels)) if k not in learning]
        making, clock = of_stage(progress, "gram"), time.perf_counter()
        for at, gram in grams([kernels[k] for k in fixed], group.examples, device, memory, making):
            devices.synchronize(device)
            seconds, k = {"gram": time.perf_counter() - clock}, fixed[at]
            whole = PreparedRows(group.examples, kernels[k], gram, seconds)
            yield members[k], FoldGrams(model, group.examples, kernels[k], whole)
            clock = time.perf_counter()
        if compute.store is not None:
            store_together(model, kernels, group.examples, device, making)
        terms = terms_of(model, [kernels[k] for k in learning], group.examples)
        for k in learning:
            of_kernel = FoldGrams(model, group.examples, kernels[k], terms=terms)
            yield members[k], of_kernel
            of_kernel.release()
            terms.done(kernels[k])


def simplicity(setting: Setting) -> tuple[float, float]:
    """Smaller is simpler: a smaller C, then a wider tube."""
    return float(setting.model.get_params()["C"]), -float(getattr(setting.model, "epsilon", 0.0))


def subset(shared: Sequence[SharedExamples], rows: NDArray[np.int64]) -> list[SharedExamples]:
    """The same kernels on some of the examples."""
    return [SharedExamples(group.examples.take(rows), group.kernels, group.members) for group in shared]
