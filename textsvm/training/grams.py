"""Rows of a training: check `compute`, plan, build a Gram or features, and solve."""

from __future__ import annotations

import os
import time
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from textsvm.errors import InputError
from textsvm.gram.base import FeatureProducts, Gram, allowed_bytes
from textsvm.gram.build import build_gram
from textsvm.gram.cards import sharded_gram, spread
from textsvm.gram.plan import GRAM, SOLVERS, TIERS, Case, FeatureCase, Passes, Plan, plan_features
from textsvm.gram.store import GramRequest, Store
from textsvm.gram.stored import complete_together
from textsvm.kernels.base import Kernel
from textsvm.kernels.inputs import TextForm
from textsvm.kernels.spelling import spell
from textsvm.linalg.vectors import Vectors
from textsvm.model.settings import CalibrationSettings, ClassifierSettings, Settings
from textsvm.runtime import device as devices
from textsvm.runtime.device import Device
from textsvm.runtime.memory import require_free, trim
from textsvm.runtime.parallel import Progress, StageProgress, lap, of_stage
from textsvm.solvers.feature_machines import ROUGH
from textsvm.solvers.many_classes import has_many_classes
from textsvm.solvers.problems import Classification, Labelling, OneClass, Problem, Regression
from textsvm.sources.base import KernelSource
from textsvm.text.documents import Documents, MultiView

LEARNT = 0.1  #: Share of the memory for the Gram of a kernel that its learnt weights take.
FEW_SYMBOLS = 1 << 19  #: Symbols below which memory always suffices.
#: Predicted solver time on a CPU relative to a classifier of texts, which coordinate descent solves. Up
#: to 42, 8 and, on numbers, 44 were measured for up to 8,000 examples; the first two grow with their number.
SLOWER: dict[type, float] = {Regression: 50.0, OneClass: 20.0}
SLOWER_ON_NUMBERS = 60.0
MATRIX_BYTES = 9  #: Bytes per value of a kernel matrix, and of a copy, that certainly stay in memory.
MOST_BYTES = 64  #: Upper bound of the bytes of a feature occurrence, in memory or on disk.


@dataclass(frozen=True)
class PreparedRows:
    """Encoded examples, the fitted kernel, and its Gram or features."""

    examples: Any  #: Encoded documents, or a given kernel matrix
    kernel: Kernel  #: Fitted to all examples, or to a training part
    gram: Any  #: `Gram` or `FeatureProducts` of all examples
    seconds: dict[str, float]  #: Wall time of the stages so far: "encode", "gram" or "features"
    reason: str = ""  #: Why features are not used, if that was predicted to take longer

    @property
    def description(self) -> str:
        """Origin of the rows."""
        return "; ".join(filter(None, [str(self.gram.description), self.reason]))


def plan_training(
    settings: Settings, kernel: Kernel, documents: Any, problem: Problem, device: Device, memory: int
) -> Plan:
    """The plan to train from features, or a Gram, in `memory` bytes."""
    compute = settings.compute_options
    gram_requested = compute.solver == "gram" or compute.store is not None or compute.tier != "auto"
    if gram_requested or not isinstance(documents, Documents | MultiView | Vectors):
        return GRAM
    if obstacle := why_no_features(kernel, device, problem.strategy):
        features = FeatureCase(obstacle=obstacle)
    else:
        features = features_of(kernel, documents, problem, settings.solver_tol, device, memory)
    case = Case(len(documents), memory, device.kind)
    return plan_features(case, features, compute.solver == "features")


def require_memory(kernel: Kernel, documents: Any, plan: Plan, device: Device) -> None:
    """Raise InputError if a training on a CPU is predicted to need more memory than is free."""
    if device.kind == "cpu" and plan.tier != "disk" and isinstance(documents, Documents | MultiView):
        if int(documents.lengths.sum()) < FEW_SYMBOLS:
            return
        trim()
        gram, leaves = plan.way == "gram", [leaf for leaf in kernel.structure.leaves if leaf.features]
        needed = [leaf.features.bytes(leaf.structure.read(documents), gram) for leaf in leaves]
        if gram:  # of one term after the other, beside what all have learnt
            learnt = [size for leaf, size in zip(leaves, needed, strict=True) if leaf.structure.learns]
            needed = [max(needed, default=0), round(LEARNT * sum(learnt))]
        require_free(sum(needed), "training is predicted to take", "")


def can_square_hinge(problem: Classification, memory: int, device: Device) -> bool:
    """Whether machines with the squared hinge loss can be trained from a kernel matrix: if it fits."""
    fits = MATRIX_BYTES * len(problem.index) ** 2 <= memory
    return fits and not device.cards and problem.strategy != "crammer-singer"


def memory_limit(settings: Settings, n: int, device: Device) -> int:
    """Bytes that the rows of n examples may take on a device."""
    return allowed_bytes(requested_memory(settings, n, device), device)


def requested_memory(settings: Settings, n: int, device: Device) -> int | str | None:
    """Limit of the settings for the rows of n examples."""
    return settings.source.memory(settings.compute_options.memory, n, device)


def features_of(
    kernel: Kernel, documents: Any, problem: Problem, tol: float, device: Device, memory: int = 0
) -> FeatureCase:
    """Size and cost of training from features, for the planner.

    Predicting the size on disk takes a pass over the texts, so it is left out if `memory` certainly suffices.
    """
    machines, numbers, passes = n_machines(problem), reads_numbers(kernel), None
    terms = [(term.features, term.structure.read(documents)) for _, term in kernel.structure.terms]
    of_terms = [int(features.occurrences(read.lengths).sum()) for features, read in terms]
    occurrences = sum(of_terms)
    shared = sum(number * features.density for number, (features, _) in zip(of_terms, terms, strict=True))
    in_passes = device.kind == "cuda" and all(features.in_passes for features, _ in terms)
    parts = [0]
    if device.kind == "cpu" and MOST_BYTES * occurrences > memory:
        leaves = [(leaf.features, leaf.structure.read(documents)) for leaf in kernel.structure.leaves]
        parts = [features.bytes(read) if features else 0 for features, read in leaves]
    if isinstance(problem, Classification | Labelling) and not numbers:
        passes = Passes(problem.C, tol >= ROUGH)
    return FeatureCase(
        occurrences=occurrences,
        machines=machines,
        density=shared / max(occurrences, 1),
        slowdown=SLOWER_ON_NUMBERS if numbers else SLOWER.get(type(problem), 1.0),
        passes=passes,
        disk_bytes=sum(parts) if all(parts) else None,
        host_memory=allowed_bytes(None, devices.select("cpu")) if in_passes else 0,
        many_classes=isinstance(problem, Classification) and has_many_classes(problem),
    )


def why_no_features(kernel: Kernel, device: Device, strategy: str = "") -> str:
    """Why machines cannot be trained from the features of a kernel, in a sentence; empty if they can."""
    features, instead = kernel.features, 'choose solver="auto" (--solver auto)'
    if features is None or not features.countable:
        return (
            f"the kernel {spell(kernel)} has no list of features to train from, as spectrum, gapped, "
            f"bounded-gap, linear and their sums have; {instead} or another kernel"
        )
    if device.kind == "cuda" and (features.host_only or reads_numbers(kernel)):
        kind = "gapped k-mers" if features.host_only else "vectors"
        return f"machines of {kind} are trained from kernel values on a card; {instead}"
    if strategy == "crammer-singer":  # the dual has a constraint for each example
        return f"machines of crammer-singer are trained from kernel values; {instead}, or ovr or ovo"
    return ""


def reads_numbers(kernel: Kernel) -> bool:
    """Whether a part of the kernel compares vectors."""
    return any(view.tokens == "numbers" for view in kernel.structure.views)


def n_machines(problem: Problem) -> int:
    """Number of machines on all documents with the same cost: k (k - 1) / 2 pairs of classes cost k - 1."""
    if isinstance(problem, Labelling):
        return len(problem.learnt)
    if not isinstance(problem, Classification) or problem.n_classes == 2:
        return 1
    return problem.n_classes - (problem.strategy == "ovo")


def fit_and_prepare(
    settings: Settings,
    kernel: Kernel,
    documents: Any,
    plan: Plan,
    device: Device,
    seconds: dict[str, float],
    progress: StageProgress | None,
) -> PreparedRows:
    """Fit a kernel to all documents, and build its features if that is planned, else its Gram matrix.

    The wall time of each stage is added to `seconds`.
    """
    clock = time.perf_counter()
    require_memory(kernel, documents, plan, device)
    if plan.way == "features":
        features = kernel.features.rows(documents, device)
        devices.synchronize(device)
        prepared = PreparedRows(documents, kernel, FeatureProducts(features, device, plan.reason), {})
        lap(seconds, "features", clock)
        return prepared
    kernel.fit(kernel.structure.read(documents), device)
    lap(seconds, "encode", clock)
    prepared = prepare_gram(settings, documents, kernel, device, progress)
    seconds.update(prepared.seconds)
    return replace(prepared, reason=plan.reason)


def prepare_gram(
    settings: Settings, examples: Any, kernel: Kernel, device: Device, progress: StageProgress | None = None
) -> PreparedRows:
    """Build the Gram matrix of encoded examples; `kernel` is fitted to all or some; inside `at_work`."""
    clock = time.perf_counter()
    if progress is not None:
        # Preparation, and compilation at first use, come before any work is counted.
        progress("gram", 0, 1)
    memory = requested_memory(settings, len(examples), device)
    step = of_stage(progress, "gram")
    store, tier = settings.compute_options.store, settings.compute_options.tier
    gram: Gram | None = None
    if store is None and tier in ("auto", "device"):
        gram = sharded_gram(kernel, examples, device, memory, step)
    if gram is None:
        request = gram_request(settings, kernel, examples, device)
        movable = not (tier == "auto" and store is None and _no_stored_matrix(settings))
        gram = spread(build_gram(request, memory, tier, store, step, movable), device, memory)
    devices.synchronize(device)
    return PreparedRows(examples, kernel, gram, {"gram": time.perf_counter() - clock})


def check(settings: Settings | CalibrationSettings) -> None:
    """Raise InputError if a setting is out of range, before examples are read."""
    settings.check()
    check_compute(settings.machine)


def check_compute(settings: Settings) -> None:
    """Raise InputError if `solver`, `store` or `tier` is invalid, or impossible for the kernel."""
    if settings.compute is not None:
        _check_solver(settings)
        _check_store(settings)


def _check_solver(settings: Settings) -> None:
    """Raise InputError if `solver` is unknown, or requests features and there are none."""
    solver = settings.compute_options.solver
    if not isinstance(solver, str) or solver not in SOLVERS:
        raise InputError(f"solver must be one of {', '.join(SOLVERS)}, got {solver!r}")
    if solver != "features":
        return
    if isinstance(settings.kernel, str) and settings.kernel == "precomputed":
        raise InputError("a kernel matrix that is given has no features; leave solver out")
    strategy = settings.multiclass if isinstance(settings, ClassifierSettings) else ""
    if trouble := why_no_features(settings.new_kernel(), devices.select(settings.device), strategy):
        raise InputError(trouble)


def _check_store(settings: Settings) -> None:
    """Raise InputError if `store` or `tier` is invalid, or the machine has no kernel matrix for them."""
    store, tier = settings.compute_options.store, settings.compute_options.tier
    if not isinstance(tier, str) or tier not in TIERS:
        raise InputError(f"tier must be one of {', '.join(TIERS)}, got {tier!r}")
    if tier != "auto":
        if trouble := _no_stored_matrix(settings) if tier in ("host", "disk") else _no_matrix(settings):
            raise InputError(f"{trouble}; leave tier out")
        if tier == "disk" and store is None:
            raise InputError(
                'tier="disk" needs a folder to keep the kernel matrix in: name one (store, --store)'
            )
        if tier == "recompute" and store is not None:
            raise InputError('tier="recompute" computes rows again and reads no store; leave out one of them')
    if store is None:
        return
    if not isinstance(store, str | os.PathLike) or not str(store):
        raise InputError(f"store must be the name of a folder, got {store!r}")
    if trouble := _no_stored_matrix(settings):
        raise InputError(f"{trouble}; leave store out (--store)")
    Store(store)


def without_store(settings: Settings) -> Settings:
    """Settings without a store, for other examples."""
    tier = "auto" if settings.compute_options.tier == "disk" else settings.compute_options.tier
    return replace(settings, compute=replace(settings.compute_options, store=None, tier=tier))


def _no_matrix(settings: Settings) -> str:
    """Why a machine has no kernel matrix of its own; empty if it has a matrix."""
    kernel, compute = settings.kernel, settings.compute_options
    if isinstance(kernel, str) and kernel == "precomputed":
        return "a kernel matrix that is given is not stored again"
    if isinstance(kernel, str) and kernel == "auto":
        return 'kernel="auto" has no kernel matrix of all texts to store, as a named kernel has'
    if isinstance(compute.solver, str) and compute.solver == "features":
        return 'with solver="features" there is no kernel matrix to store'
    return ""


def _no_stored_matrix(settings: Settings) -> str:
    """Why the rows of a machine cannot be stored and identified again; empty if they can."""
    if trouble := _no_matrix(settings):
        return trouble
    source = settings.source
    assert isinstance(source, KernelSource)
    structure = source.unfitted.structure
    if not structure.comparable or any(callable(view.tokens) for view in structure.views):
        return "a function has no parameters that identify a stored kernel matrix"
    return ""


def gram_request(settings: Settings, kernel: Kernel, examples: Any, device: Device) -> GramRequest:
    """The Gram of a fitted kernel, as a store identifies it."""
    form = settings.source.form
    return GramRequest(kernel, examples, asdict(form) if isinstance(form, TextForm) else {}, device)


def store_together(
    settings: Settings, kernels: Sequence[Kernel], examples: Any, device: Device, progress: Progress | None
) -> None:
    """Compute missing Grams in the store together, for kernels that share a pass; skip the others."""
    store = settings.compute_options.store
    assert store is not None
    memory = memory_limit(settings, len(examples), device)
    alike: dict[Hashable, list[Kernel]] = {}
    for kernel in kernels:
        if kernel.cost.sharing is not None and not kernel.structure.learns:
            alike.setdefault((kernel.cost.sharing, kernel.structure.view), []).append(kernel)
    with settings.at_work(device):
        for several in alike.values():
            fitted = [kernel.fit(kernel.structure.read(examples)) for kernel in several]
            requests = [gram_request(settings, kernel, examples, device) for kernel in fitted]
            complete_together(store, requests, memory, progress)
