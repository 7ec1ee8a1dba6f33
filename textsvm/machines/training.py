"""From a kernel and examples to machines: by a Gram or by features, whichever is predicted to be quicker."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from textsvm.errors import InputError
from textsvm.gram.base import Gram
from textsvm.gram.features import SparseGram
from textsvm.gram.plan import allowed_bytes, show_bytes
from textsvm.kernels.base import Kernel
from textsvm.kernels.spelling import spell
from textsvm.linalg.vectors import Vectors
from textsvm.runtime import device as devices
from textsvm.runtime import memory as scratch
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import StageProgress, lap, of_stage
from textsvm.solvers import from_features
from textsvm.solvers.problems import Classification, Labelling, Machines, OneClass, Problem, Regression
from textsvm.solvers.side_by_side import solve
from textsvm.text.documents import Documents, Views

SOLVERS = ("auto", "gram", "features")
#: A `textsvm.machines.base.KernelMachine`, which imports this module.
Machine = Any


@dataclass(frozen=True)
class Prepared:
    """What is known of the training examples before anything is learnt from their labels.

    Attributes
    ----------
    examples : Examples
        The encoded documents, or the kernel matrix that was given.
    kernel : Kernel
        Fitted.
    gram : Gram
        Rows of the kernel matrix of all examples.
    seconds : dict
        Wall time of "encode" and "gram", as far as they were needed.
    """

    examples: Any
    kernel: Kernel
    gram: Gram
    seconds: dict[str, float]


@dataclass(frozen=True)
class Rates:
    """Seconds that training takes, and memory, by what there is of each.

    Attributes
    ----------
    count, solve, machine : float
        Seconds an occurrence of a feature: counted, solved with, and that for each machine.
    row, start : float
        Seconds a document, and a machine, are solved with.
    pair, product : float
        Seconds a kernel value, made and solved with: of any two documents, and for each occurrence of a
        feature in one.
    memory : int
        Bytes an occurrence of a feature, from counting to the last machine.
    """

    count: float
    solve: float
    machine: float
    row: float
    start: float
    pair: float
    product: float
    memory: int


#: By the kind of device; of the CPU for one core, fitted to reports/feature_solver_ways.md; of an H200 to
#: reports/gpu/million.md.
RATES = {
    "cpu": Rates(3e-8, 4e-8, 2.5e-8, 1.5e-5, 0.0, 8e-9, 4e-11, 24),
    "cuda": Rates(1e-9, 3.5e-9, 0.0, 0.0, 1.5, 1.3e-9, 0.0, 12),
}
#: Of the CPU that a way is chosen for, whatever there are: 1 core and 16 train the same model.
CORES = 4
#: How much longer machines take that coordinate descent does not solve, on a CPU.
SLOWER: dict[type, float] = {Regression: 50.0, OneClass: 7.0}
#: The same of any machines of vectors, which Newton's method solves.
OF_VECTORS = 20.0


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


def choose_way(machine: Machine, kernel: Kernel, documents: Any, problem: Problem, device: Device) -> Way:
    """Decide between a Gram and features, by predicted seconds and by memory; a Gram that is given stays.

    Raises
    ------
    InputError
        If features are asked for and there are none, or the problem cannot be solved with them.
    """
    asked = (
        machine.compute.solver == "gram"
        or machine.compute.store is not None
        or machine.compute.tier != "auto"
    )
    if asked or not isinstance(documents, Documents | Views | Vectors):
        return Way(False, "as asked for")
    n, allowed = len(documents), allowed_bytes(machine.compute.memory, device)
    trouble = why_not(machine, kernel, device, from_features.can_solve(problem)) or too_large(
        kernel, documents, device, allowed
    )
    if machine.compute.solver == "features":
        if trouble:
            raise InputError(trouble)
        return Way(True, "as asked for")
    if trouble:
        return Way(False, trouble)
    gram, features = predicted(kernel, documents, problem, device)
    if 4 * n * n > allowed and features < 30 * gram:
        return Way(True, f"a kernel matrix would take {show_bytes(4 * n * n)} of {show_bytes(allowed)}")
    return Way(features < gram, f"predicted: {features:.2g} s, by a kernel matrix {gram:.2g} s")


def why_not(machine: Machine, kernel: Kernel, device: Device, with_bias: bool) -> str:
    """Why machines cannot be trained from the features of a kernel, in a sentence; "" if they can."""
    instead = 'take solver="auto" (--solver auto)'
    if machine.compute.approximate is not None:
        return f"machines on landmarks are trained from their values with all texts; {instead}"
    if kernel.features is None or not kernel.features.countable:
        return (
            f"the kernel {spell(kernel)} has no list of features to be trained from, as spectrum, "
            f"bounded-gap, linear and sums of them have; {instead} or another kernel"
        )
    if device.kind == "cuda" and _reads_numbers(kernel):
        return f"machines of vectors are trained from kernel values on a card; {instead}"
    if not with_bias:
        return f"machines of crammer-singer are trained from kernel values; {instead}, or ovr or ovo"
    return ""


def _reads_numbers(kernel: Kernel) -> bool:
    """Whether a part of the kernel compares vectors."""
    return any(view.tokens == "numbers" for view in kernel.structure.views)


def too_large(kernel: Kernel, documents: Any, device: Device, allowed: int) -> str:
    """Why the features of documents do not fit in the bytes that are allowed; "" if they do."""
    needed = RATES[device.kind].memory * occurrences(kernel, documents)
    if needed <= allowed or disk_bytes(kernel, documents, device) is not None:
        return ""
    return (
        f"the features of {len(documents):,} documents need about {show_bytes(needed)} of memory and "
        f"{show_bytes(allowed)} are allowed; take fewer lengths (p), shorten the documents (max_length, "
        "--max-length) or raise memory (--memory)"
    )


def occurrences(kernel: Kernel, documents: Any) -> int:
    """How often any feature occurs in documents."""
    terms = [(term.features, term.structure.read(documents)) for _, term in kernel.structure.terms]
    return int(sum(features.occurrences(read.lengths).sum() for features, read in terms))


def predicted(kernel: Kernel, documents: Any, problem: Problem, device: Device) -> tuple[float, float]:
    """Seconds by a Gram and by features, roughly; on any CPU as on one of `CORES`."""
    n, found, machines = len(documents), occurrences(kernel, documents), n_machines(problem)
    threads, rates = CORES if device.kind == "cpu" else 1, RATES[device.kind]
    gram = found * rates.count + n**2 * rates.pair + n * found * rates.product
    solve = found * (rates.solve + machines * rates.machine) + n * rates.row + machines * rates.start
    if device.kind == "cpu":
        solve *= OF_VECTORS if _reads_numbers(kernel) else SLOWER.get(type(problem), 1.0)
    return gram / threads, found * rates.count / threads + solve / max(1, min(threads, machines))


def n_machines(problem: Problem) -> int:
    """How many machines over all documents a problem is worth: those of pairs of classes are smaller."""
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
    way = choose_way(machine, kernel, documents, problem, device)
    clock, disk = time.perf_counter(), way.features and _on_disk(machine, kernel, documents, device)
    with scratch.on_disk(disk):
        if way.features:
            rows = kernel.features.rows(documents, device)
            gram: Any = SparseGram(rows, device, way.why + "; on disk" * disk)
            devices.synchronize(device)
            prepared = Prepared(documents, kernel, gram, {"features": time.perf_counter() - clock})
        else:
            kernel.fit(kernel.structure.read(documents), device)
            seconds["encode"] += time.perf_counter() - clock
            prepared = machine.compare(documents, kernel, progress)
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
    said = described(prepared)
    # At once, not when the cycle of a Gram and its window is found: a card has no memory to wait for that.
    prepared.gram.release()
    return machines, said


def _on_disk(machine: Machine, kernel: Kernel, documents: Any, device: Device) -> bool:
    """Whether features of documents are more than may be kept in memory, and can lie on disk."""
    needed = disk_bytes(kernel, documents, device)
    return needed is not None and needed > allowed_bytes(machine.compute.memory, device)


def disk_bytes(kernel: Kernel, documents: Any, device: Device) -> int | None:
    """Bytes of the features of documents, if they can lie on disk: those of spectrum kernels, on the CPU."""
    leaves = kernel.structure.leaves
    parts = [leaf.features.bytes(leaf.structure.read(documents)) if leaf.features else 0 for leaf in leaves]
    return sum(parts) if device.kind == "cpu" and all(parts) else None


def described(prepared: Prepared) -> str:
    """What the rows of a Gram came from, and what they stand for."""
    approximation, gram = prepared.kernel.structure.approximation, prepared.gram.description
    return gram if approximation is None else f"{approximation.description}; {gram}"


def check_solver(machine: Machine) -> None:
    """Raise InputError if `solver` is none of the solvers, or features are asked for and there are none."""
    solver = machine.compute.solver
    if not isinstance(solver, str) or solver not in SOLVERS:
        raise InputError(f"solver={solver!r} is not one of {', '.join(SOLVERS)}")
    if solver != "features":
        return
    if isinstance(machine.kernel, str) and machine.kernel == "precomputed":
        raise InputError("a kernel matrix that is given has no features; leave solver out")
    with_bias = getattr(machine, "multiclass", None) != "crammer-singer"
    if trouble := why_not(machine, machine.make_kernel(), devices.select(machine.device), with_bias):
        raise InputError(trouble)
