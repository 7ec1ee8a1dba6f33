"""From a kernel and examples to machines: by a Gram or by features, whichever is predicted to be quicker."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from textsvm import device as devices
from textsvm import scratch
from textsvm.device import Device
from textsvm.documents import Documents, Views
from textsvm.errors import InputError
from textsvm.gram.plan import allowed_bytes
from textsvm.kernels.base import Kernel
from textsvm.parallel import StageProgress, lap, n_threads, of_stage
from textsvm.solvers import from_features
from textsvm.solvers.problems import Classification, Labelling, Machines, Problem
from textsvm.solvers.side_by_side import solve
from textsvm.solvers.solution import Stopping

SOLVERS = ("auto", "gram", "features")
#: A `textsvm.estimators.base.KernelMachine`, which imports this module.
Machine = Any


@dataclass(frozen=True)
class Rates:
    """Seconds, measured on two cores of a Xeon and on an H200.

    Attributes
    ----------
    pair : float
        A kernel value of two documents, made and solved with.
    symbol : float
        A symbol of a document, counted and solved with, by features.
    machine : float
        A machine from features, however few documents there are.
    """

    pair: float
    symbol: float
    machine: float


#: By the kind of device; of the CPU for one core.
RATES = {"cpu": Rates(8e-8, 8e-7, 0.5), "cuda": Rates(1e-9, 2e-8, 0.15)}


@dataclass(frozen=True)
class Way:
    """How machines are to be trained.

    Attributes
    ----------
    features : bool
        Without a Gram.
    why : str
        For people.
    """

    features: bool
    why: str


def choose_way(
    machine: Machine, kernel: Kernel, documents: Documents | Views, problem: Problem, device: Device
) -> Way:
    """Decide between a Gram and features, by predicted seconds and by memory.

    Raises
    ------
    InputError
        If features are asked for and there are none, or the problem cannot be solved with them.
    """
    possible = kernel.has_features and kernel.approximation is None and from_features.can_solve(problem)
    if machine.solver == "features" and not possible:
        raise InputError(
            'solver="features" is for kernels that are sums of features (spectrum, gapped k-mers of one '
            'weight, bounded gaps) and for machines with a bias; take solver="auto" or another kernel'
        )
    if machine.solver != "auto" or not possible:
        return Way(machine.solver == "features", "as asked for" if possible else "the kernel has no features")
    n = len(documents)
    gram, features = predicted(kernel, documents, problem, device)
    if 4 * n * n > allowed_bytes(machine.memory, device) and features < 30 * gram:
        return Way(True, "the Gram does not fit")
    return Way(features < gram, f"predicted: Gram {gram:.2g} s, features {features:.2g} s")


def predicted(
    kernel: Kernel, documents: Documents | Views, problem: Problem, device: Device
) -> tuple[float, float]:
    """Seconds by a Gram and by features, roughly."""
    n, rates = len(documents), RATES[device.kind]
    threads = n_threads() if device.kind == "cpu" else 1
    symbols = float(sum(leaf.read(documents).lengths.sum() for leaf in kernel.leaves))
    machines = n_machines(problem)
    gram = rates.pair * n**2 / threads
    return gram, (rates.symbol * symbols + rates.machine * machines) / threads


def n_machines(problem: Problem) -> int:
    """How many machines a problem has."""
    if isinstance(problem, Labelling):
        return len(problem.learnt)
    if not isinstance(problem, Classification) or problem.n_classes == 2:
        return 1
    k = problem.n_classes
    return k * (k - 1) // 2 if problem.strategy == "ovo" else k


def train(
    machine: Machine,
    kernel: Kernel,
    documents: Any,
    problem: Problem,
    seconds: dict[str, float],
    progress: StageProgress | None,
) -> tuple[Machines, str]:
    """The machines of a problem, and what they came from; `seconds` gets the times of the stages.

    Parameters
    ----------
    machine : KernelMachine
    kernel : Kernel
        Not fitted yet.
    documents : Examples
    problem : Problem
        Its index counts `documents`.
    seconds : dict
    progress : callable, optional
    """
    device = devices.select(machine.device)
    way = Way(False, "")
    if isinstance(documents, Documents | Views):
        way = choose_way(machine, kernel, documents, problem, device)
    elif machine.solver == "features":
        raise InputError('solver="features" is for texts; a kernel matrix that is given is solved as it is')
    stopping = Stopping(machine.tol, machine.max_iter, machine.duality_gap)
    clock = time.perf_counter()
    if way.features:
        disk = _on_disk(machine, kernel, documents, device)
        with scratch.on_disk(disk):
            rows = kernel.feature_rows(documents, device)
            devices.synchronize(device)
            clock = lap(seconds, "features", clock)
            machines = from_features.solve(problem, rows, stopping, of_stage(progress, "solve"))
        lap(seconds, "solve", clock)
        place = " on disk" if disk else ""
        return (
            machines,
            f"none, {len(rows.x.values):,} values of features of {len(documents):,} texts{place} ({way.why})",
        )
    kernel.fit_on(kernel.read(documents), device)
    prepared = machine.compare(documents, kernel, progress)
    lap(seconds, "encode", clock)
    seconds["encode"] -= prepared.seconds["gram"]
    seconds.update(prepared.seconds)
    clock = time.perf_counter()
    [[machines]] = solve(
        prepared.gram,
        [[problem]],
        tol=machine.tol,
        max_iter=machine.max_iter,
        duality_gap=machine.duality_gap,
        progress=of_stage(progress, "solve"),
    )
    lap(seconds, "solve", clock)
    return machines, described(prepared)


def _on_disk(machine: Machine, kernel: Kernel, documents: Documents | Views, device: Device) -> bool:
    """Whether features of documents are more than may be kept in memory."""
    if device.kind != "cpu":
        return False
    needed = sum(leaf.feature_bytes(leaf.read(documents)) for leaf in kernel.leaves)
    return needed > allowed_bytes(machine.memory, device)


def described(prepared: Any) -> str:
    """What the rows of a Gram came from, and what they stand for."""
    approximation, gram = prepared.kernel.approximation, prepared.gram.description
    return gram if approximation is None else f"{approximation.description}; {gram}"


def check_solver(solver: object) -> None:
    """Raise InputError if this is none of the solvers."""
    if not isinstance(solver, str) or solver not in SOLVERS:
        raise InputError(f"solver={solver!r} is not one of {', '.join(SOLVERS)}")
