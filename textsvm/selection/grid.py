"""Models of a grid of parameters, and their Grams: documents are encoded once, each Gram is built once."""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sklearn.model_selection import ParameterGrid

from textsvm.errors import InputError
from textsvm.gram.base import allowed_bytes
from textsvm.gram.build import grams
from textsvm.gram.plan import Case
from textsvm.kernels.base import Kernel
from textsvm.kernels.spectrum.kernel import fixed_default
from textsvm.model.settings import Settings, is_default
from textsvm.runtime import device as devices
from textsvm.runtime.parallel import StageProgress, of_stage
from textsvm.training.fold_grams import FoldGrams, terms_of
from textsvm.training.grams import PreparedRows, check, store_together
from textsvm.training.targets import Target, with_classes

#: Parameters that can be tuned besides the parameters of the kernel.
TUNABLE = (
    "kernel", "C", "epsilon", "multiclass", "class_weight", "normalise", "punctuation", "max_length",
)  # fmt: skip


@dataclass(frozen=True)
class GridPoint:
    """A point of a grid: its parameters, and settings with these parameters."""

    params: dict[str, Any]
    settings: Settings


@dataclass(frozen=True)
class SharedExamples:
    """Examples encoded in the same form, their kernels, and the numbers of each kernel's settings."""

    examples: Any
    kernels: list[Kernel]
    members: list[list[int]]


def grid_points(settings: Settings, grid: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> list[GridPoint]:
    """Every combination of a grid; InputError if it is empty, or a parameter or value is invalid."""
    try:
        every = list(ParameterGrid(grid))
    except (TypeError, ValueError) as error:
        raise InputError(f"the grid cannot be used: {' '.join(str(error).split())}") from error
    points = [_with(settings, params) for params in every]
    if all(is_default(point.settings.kernel) for point in points):
        raise InputError('the grid has only kernel="auto"; judge it by cross_validate, or name other kernels')
    settings.source.require_tunable({name for params in every for name in params})
    if any(type(point.settings.source) is not type(settings.source) for point in points):
        raise InputError("a grid cannot go over texts and kernel matrices; give one of them")
    return points


def _with(settings: Settings, params: dict[str, Any]) -> GridPoint:
    """Settings with the parameters of a point; nested parameters are those of the kernel.

    Unless the point names kernel="auto", a kernel that the classifier would choose is the fixed default,
    which becomes a parameter of the point.
    """
    kernel = params.get("kernel", settings.kernel)
    nested = {name.partition("__")[2]: value for name, value in params.items() if "__" in name}
    if isinstance(kernel, str) and "kernel" not in params and nested:
        settings.source.require_tunable(params)
        kernel = settings.new_kernel()  # so that its parameters can be set
    tunable = [name for name in TUNABLE if name in settings.as_dict()]
    for name in params:
        if name.partition("__")[0] not in tunable or ("__" in name and not name.startswith("kernel__")):
            raise InputError(f"{name!r} cannot be tuned; {', '.join(tunable)} and kernel__PARAMETER can")
    try:
        # Each point gets its own kernel: nested parameters must not change another point's.
        kernel = _own(kernel)
        if nested:
            if not isinstance(kernel, Kernel):
                raise ValueError(
                    f"kernel is {kernel!r} and has no parameter {next(iter(nested))!r}; set "
                    "kernel=Spectrum(...) or another kernel first"
                )
            kernel.set_params(**{name: _own(value) for name, value in nested.items()})
        plain = {name: _own(value) for name, value in params.items() if "__" not in name}
        point = replace(settings, **{**plain, "kernel": kernel})
    except (ValueError, AttributeError) as error:
        raise InputError(f"the grid cannot be used: {' '.join(str(error).split())}") from error
    if is_default(params.get("kernel", settings.kernel)) and params.get("kernel") != "auto":
        point = replace(point, kernel=fixed_default()) if is_default(point.kernel) else point
        params = {**params, "kernel": point.kernel}
    elif point.encoder is not None and not is_default(point.kernel):
        params = {**params, "kernel": point.new_kernel()}
    check(point)
    return GridPoint(params, point)


def _own(value: object) -> Any:
    """A copy of a kernel, or of a list of kernels."""
    if isinstance(value, list | tuple) and all(isinstance(part, Kernel) for part in value):
        return type(value)(part.__sklearn_clone__() for part in value)
    return value.__sklearn_clone__() if isinstance(value, Kernel) else value


def encode_all(
    settings: Settings, points: Sequence[GridPoint], X: object, target: Target, progress: StageProgress | None
) -> list[SharedExamples]:
    """Encode the texts in every form of a point; check that every kernel has something to compare."""
    forms: dict[Hashable, list[int]] = {}
    for k, point in enumerate(points):
        if is_default(point.settings.kernel):
            continue
        forms.setdefault(point.settings.source.form, []).append(k)
    shared = []
    for of_form in forms.values():
        sources = [points[k].settings.source for k in of_form]
        examples = with_classes(sources[0].encode_for(sources, X, progress), target)
        kernels: dict[Hashable, Kernel] = {}
        members: dict[Hashable, list[int]] = {}
        for k in of_form:
            kernel = points[k].settings.source.kernel_for(examples)
            original = points[k].params.get("kernel", settings.kernel)
            # A callable object is copied, so the original identifies it.
            key = kernel.structure.key if kernel.structure.comparable else id(original)
            kernels.setdefault(key, kernel)
            members.setdefault(key, []).append(k)
        shared.append(SharedExamples(examples, list(kernels.values()), list(members.values())))
    return shared


def all_grams(
    settings: Settings, shared: Sequence[SharedExamples], progress: StageProgress | None = None
) -> Iterator[tuple[list[int], FoldGrams]]:
    """The numbers of each kernel's settings and its Grams, which are valid until the next are requested.

    Kernels that learn come last, with Grams that are computed on demand. With a store, Grams of kernels that
    share a pass are computed together, and others on demand. Raises InputError if a store would need texts in
    several forms.
    """
    device, compute = devices.select(settings.device), settings.compute_options
    if compute.store is not None and len(shared) > 1:
        raise InputError(
            "a store keeps kernel matrices of texts in one form, and this grid has several (normalise, "
            "punctuation, max_length); tune these without a store"
        )
    for group in shared:
        kernels, members = group.kernels, group.members
        memory = settings.source.memory(compute.memory, len(group.examples), device)
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
            yield members[k], FoldGrams(settings, group.examples, kernels[k], whole)
            clock = time.perf_counter()
        if compute.store is not None:
            store_together(settings, kernels, group.examples, device, making)
        terms = terms_of(settings, [kernels[k] for k in learning], group.examples)
        for k in learning:
            of_kernel = FoldGrams(settings, group.examples, kernels[k], terms=terms)
            yield members[k], of_kernel
            of_kernel.release()
            terms.done(kernels[k])


def simplicity(point: GridPoint) -> tuple[float, float]:
    """Smaller is simpler: a smaller C, then a wider tube."""
    values = point.settings.as_dict()
    return float(values["C"]), -float(values.get("epsilon", 0.0))
