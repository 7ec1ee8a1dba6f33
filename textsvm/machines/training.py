"""Train machines from a kernel and examples: plan, prepare rows of a Gram or features, solve."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from textsvm.errors import InputError
from textsvm.gram.base import FeatureProducts
from textsvm.gram.measure import allowed_bytes
from textsvm.gram.plan import SOLVERS, Case, FeatureCase, Plan, plan_features
from textsvm.kernels.base import Kernel
from textsvm.kernels.spelling import spell
from textsvm.linalg.vectors import Vectors
from textsvm.runtime import device as devices
from textsvm.runtime import memory as scratch
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import StageProgress, lap, of_stage
from textsvm.solvers import newton
from textsvm.solvers.problems import Classification, Labelling, Machines, OneClass, Problem, Regression
from textsvm.solvers.solution import Stopping
from textsvm.solvers.solve import solve
from textsvm.text.documents import Documents, Views

#: A `textsvm.machines.base.KernelMachine`, which imports this module.
Machine = Any
#: Predicted solver time on a CPU of other problems and of numeric features, where a text classifier, which
#: coordinate descent solves, is 1.
SLOWER: dict[type, float] = {Regression: 50.0, OneClass: 7.0}
OF_NUMBERS = 20.0
#: More bytes than an occurrence of a feature takes, in memory or on disk.
MOST_BYTES = 64


@dataclass(frozen=True)
class Prepared:
    """Training examples before any label is used."""

    examples: Any  #: The encoded documents, or the kernel matrix that was given
    kernel: Kernel  #: Fitted
    gram: Any  #: `Gram` or `FeatureProducts` of all examples
    seconds: dict[str, float]  #: Wall time of "encode" and "gram", where needed

    @property
    def description(self) -> str:
        """Origin of the rows, and the approximation of the kernel if there is one."""
        approximation = self.kernel.structure.approximation
        parts = [] if approximation is None else [approximation.description]
        return "; ".join([*parts, self.gram.description])


def plan_training(
    machine: Machine, kernel: Kernel, documents: Any, problem: Problem, device: Device
) -> Plan | None:
    """The plan to train from features; None if a Gram is better, requested or given."""
    compute = machine.compute_options
    requested = compute.solver == "gram" or compute.store is not None or compute.tier != "auto"
    if requested or not isinstance(documents, Documents | Views | Vectors):
        return None
    memory = allowed_bytes(compute.memory, device)
    trouble = obstacle(machine, kernel, device, problem)
    features = features_of(kernel, documents, problem, device, trouble, memory)
    return plan_features(Case(len(documents), memory, device.kind), features, compute.solver == "features")


def features_of(
    kernel: Kernel, documents: Any, problem: Problem, device: Device, obstacle: str = "", memory: int = 0
) -> FeatureCase:
    """Size and cost of training from features, for the planner; `obstacle` says why it is impossible.

    Predicting the size on disk takes a pass over the texts, so it is left out if `memory` certainly suffices.
    """
    if obstacle:
        return FeatureCase(obstacle=obstacle)
    terms = [(term.features, term.structure.read(documents)) for _, term in kernel.structure.terms]
    occurrences = int(sum(features.occurrences(read.lengths).sum() for features, read in terms))
    parts = [0]
    if device.kind == "cpu" and MOST_BYTES * occurrences > memory:
        leaves = [(leaf.features, leaf.structure.read(documents)) for leaf in kernel.structure.leaves]
        parts = [features.bytes(read) if features else 0 for features, read in leaves]
    return FeatureCase(
        occurrences=occurrences,
        machines=n_machines(problem),
        slowdown=OF_NUMBERS if _reads_numbers(kernel) else SLOWER.get(type(problem), 1.0),
        disk_bytes=sum(parts) if all(parts) else None,
    )


def obstacle(machine: Machine, kernel: Kernel, device: Device, problem: Problem | None = None) -> str:
    """Why machines cannot be trained from the features of a kernel, in a sentence; empty if they can."""
    instead = 'choose solver="auto" (--solver auto)'
    if machine.compute_options.approximate is not None:
        return f"machines on landmarks are trained from kernel values of all texts; {instead}"
    if kernel.features is None or not kernel.features.countable:
        return (
            f"the kernel {spell(kernel)} has no list of features to train from, as spectrum, bounded-gap, "
            f"linear and their sums have; {instead} or another kernel"
        )
    if device.kind == "cuda" and _reads_numbers(kernel):
        return f"machines of vectors are trained from kernel values on a card; {instead}"
    with_bias = getattr(machine, "multiclass", None) != "crammer-singer"
    if not (with_bias if problem is None else newton.can_solve(problem)):
        return f"machines of crammer-singer are trained from kernel values; {instead}, or ovr or ovo"
    return ""


def _reads_numbers(kernel: Kernel) -> bool:
    """Whether a part of the kernel compares vectors."""
    return any(view.tokens == "numbers" for view in kernel.structure.views)


def n_machines(problem: Problem) -> int:
    """Number of machines on all documents with the same cost: k (k - 1) / 2 pairs of classes cost k - 1."""
    if isinstance(problem, Labelling):
        return len(problem.learnt)
    if not isinstance(problem, Classification) or problem.n_classes == 2:
        return 1
    return problem.n_classes - (problem.strategy == "ovo")


def train(
    machine: Machine,
    kernel: Kernel,
    documents: Any,
    problem: Problem,
    seconds: dict[str, float],
    progress: StageProgress | None,
) -> tuple[Machines, str]:
    """Train the machines of a problem.

    Parameters
    ----------
    machine : KernelMachine
    kernel : Kernel
        Not fitted yet.
    documents : Examples
    problem : Problem
        Its index counts `documents`.
    seconds : dict
        Gets the wall time of each stage.
    progress : callable, optional

    Returns
    -------
    machines : Machines
    description : str
        What the machines were trained from.
    """
    device = devices.select(machine.device)
    decision, clock = plan_training(machine, kernel, documents, problem, device), time.perf_counter()
    with scratch.on_disk(decision is not None and decision.tier == "disk"):
        if decision is not None:
            gram = FeatureProducts(kernel.features.rows(documents, device), device, decision.reason)
            devices.synchronize(device)
            prepared = Prepared(documents, kernel, gram, {"features": time.perf_counter() - clock})
        else:
            kernel.fit(kernel.structure.read(documents), device)
            seconds["encode"] += time.perf_counter() - clock
            prepared = machine.compare(documents, kernel, progress)
        seconds.update(prepared.seconds)
        clock = time.perf_counter()
        stopping = Stopping(machine.tol, machine.max_iter, machine.duality_gap)
        [[machines]] = solve(prepared.gram, [[problem]], stopping, of_stage(progress, "solve"))
    lap(seconds, "solve", clock)
    description = prepared.description
    # At once: the garbage collector would free the cycle of a Gram and its window too late for a card.
    prepared.gram.release()
    return machines, description


def check_solver(machine: Machine) -> None:
    """Raise InputError if `solver` is unknown, or requests features and there are none."""
    solver = machine.compute_options.solver
    if not isinstance(solver, str) or solver not in SOLVERS:
        raise InputError(f"solver must be one of {', '.join(SOLVERS)}, got {solver!r}")
    if solver != "features":
        return
    if isinstance(machine.kernel, str) and machine.kernel == "precomputed":
        raise InputError("a kernel matrix that is given has no features; leave solver out")
    if trouble := obstacle(machine, machine.make_kernel(), devices.select(machine.device)):
        raise InputError(trouble)
