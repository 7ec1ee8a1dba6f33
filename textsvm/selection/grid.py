"""A grid of parameters -> models, and the Grams they need: documents encoded once, each Gram made once."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid

from textsvm import device as devices
from textsvm.documents import Documents
from textsvm.errors import InputError
from textsvm.estimators.base import KernelMachine, Prepared, require_features
from textsvm.gram.shared import grams
from textsvm.kernels.base import Kernel
from textsvm.kernels.user import UserKernel
from textsvm.parallel import StageProgress, of_stage

#: What can be tuned besides the parameters of the kernel; the first three make other documents of the texts.
TEXT_FORM = ("normalise", "punctuation", "max_length")
TUNABLE = ("kernel", "C", "epsilon", "multiclass", "class_weight", *TEXT_FORM)


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
    """Encoded documents, and the kernels wanted on them.

    Attributes
    ----------
    documents : Documents
    kernels : list of Kernel
    members : list of list of int
        Numbers of the settings of each kernel.
    """

    documents: Documents
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
    if model.precomputed and any("kernel" in name for params in points for name in params):
        raise InputError("a grid over kernels needs texts; this model takes a kernel matrix")
    return settings


def _with(model: KernelMachine, params: dict[str, Any]) -> KernelMachine:
    made = clone(model)
    if isinstance(made.kernel, str) and not made.precomputed and "kernel" not in params:
        made.kernel = made.make_kernel()  # so that its parameters can be set
    for name in params:
        if name.partition("__")[0] not in TUNABLE or (name in TUNABLE and name not in made.get_params()):
            known = [one for one in TUNABLE if one in made.get_params()]
            raise InputError(f"{name!r} cannot be tuned; {', '.join(known)} and kernel__PARAMETER can")
    try:
        # A kernel of its own for each setting: nested parameters must not change that of another one.
        made.set_params(**{k: clone(v) if isinstance(v, Kernel) else v for k, v in params.items()})
    except (ValueError, AttributeError) as error:
        raise InputError(f"the grid cannot be used: {' '.join(str(error).split())}") from error
    made.check()
    return made


def encode_all(
    model: KernelMachine, settings: Sequence[Setting], X: Any, progress: StageProgress | None
) -> list[Shared]:
    """Encode the texts in every form that is wanted; check that every kernel finds something there."""
    forms: dict[tuple[Any, ...], list[int]] = {}
    for k, setting in enumerate(settings):
        forms.setdefault(tuple(getattr(setting.model, name) for name in TEXT_FORM), []).append(k)
    shared = []
    for of_form in forms.values():
        documents = settings[of_form[0]].model.encode(X, None, progress)
        kernels: dict[str, Kernel] = {}
        members: dict[str, list[int]] = {}
        for k in of_form:
            kernel = settings[k].model.make_kernel()
            require_features(kernel, documents)
            given = settings[k].params.get("kernel", model.kernel)
            # A callable object is copied with its model; it is known by what was given.
            known = id(given) if isinstance(kernel, UserKernel) else sorted(kernel.get_params().items())
            key = f"{type(kernel)} {known}"
            kernels.setdefault(key, kernel)
            members.setdefault(key, []).append(k)
        shared.append(Shared(documents, list(kernels.values()), list(members.values())))
    return shared


def prepared_grams(
    model: KernelMachine, shared: Sequence[Shared], progress: StageProgress | None = None
) -> Iterator[tuple[list[int], Prepared]]:
    """The Gram of every kernel and the numbers of its settings; it lasts until the next is asked for."""
    device = devices.select(model.device)
    clock = time.perf_counter()
    for one in shared:
        making = of_stage(progress, "gram")
        for k, gram in grams(one.kernels, one.documents, device, model.memory, making):
            devices.synchronize(device)
            seconds = {"gram": time.perf_counter() - clock}
            yield one.members[k], Prepared(one.documents, one.kernels[k], gram, seconds)
            clock = time.perf_counter()


def simplicity(setting: Setting) -> tuple[float, float]:
    """Smaller is simpler: a smaller C, then a wider tube."""
    return float(setting.model.get_params()["C"]), -float(getattr(setting.model, "epsilon", 0.0))


def subset(shared: Sequence[Shared], rows: np.ndarray[Any, np.dtype[np.int64]]) -> list[Shared]:
    """The same kernels on some of the documents."""
    return [Shared(one.documents.take(rows), one.kernels, one.members) for one in shared]
