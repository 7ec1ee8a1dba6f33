"""Solve learning problems over a Gram, by its rows or by its features, or over features alone.

solve             the entry: chooses the solver
solve_chains      duals over rows of a Gram (SMO; Crammer and Singer)
solve_by_descent  classifiers of sparse features on a CPU, by coordinate descent
solve_many        classifiers of thousands of classes, on some rows for each machine
solve_by_newton   other problems over features

A chain is a list of dual problems, each of which starts from the solution of the previous one. Chains are
independent. On a CPU each runs in a thread, if the Gram allows concurrent reads; otherwise (rows computed on
demand would evict each other) chains run in sequence. If there are fewer multiclass chains than cores, they
run in sequence too, and all cores work on the same problem.

On a GPU all chains run in slots (`textsvm.solvers.cuda_queue`). If the Gram is sharded over several cards,
all cards solve each problem together (`textsvm.solvers.shards_cuda`); with many problems and room for a copy
of the Gram on every card, problems are divided among the cards instead. Chains are then cut into the
stretches that a single card with all multiprocessors would use, so that results are the same.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from textsvm.arrays import Floats, Floats32
from textsvm.errors import InputError
from textsvm.gram.base import DenseGram, FeatureProducts, Gram
from textsvm.linalg.rows import FeatureRows
from textsvm.linalg.sparse import Sparse
from textsvm.runtime import device as devices
from textsvm.runtime import parallel
from textsvm.runtime.device import array_module, device_of
from textsvm.runtime.parallel import Progress
from textsvm.solvers import crammer_singer, crammer_singer_cuda, cuda_queue, smo, smo_cuda
from textsvm.solvers.dual import AnyDual, Dual, MulticlassDual, loss_diagonal
from textsvm.solvers.feature_machines import solve_by_descent
from textsvm.solvers.many_classes import has_many_classes, solve_many
from textsvm.solvers.newton import solve_by_newton
from textsvm.solvers.problems import Classification, Labelling, Machines, Problem, collect, machine_duals
from textsvm.solvers.solution import NOT_FINITE, Solution, Stopping, start_multiclass, warm_start


def solve(
    rows: Gram | FeatureProducts,
    paths: Sequence[Sequence[Problem]],
    stopping: Stopping | None = None,
    progress: Progress | None = None,
) -> list[list[Machines]]:
    """Solve many problems over the same rows, side by side; the machines of each path.

    The problems of a path differ in C or epsilon alone (best with C ascending): each starts from the solution
    of the previous problem.
    """
    stopping = stopping or Stopping()
    problems = [problem for path in paths for problem in path]
    if not isinstance(rows, FeatureProducts) and all(problem.loss == "hinge" for problem in problems):
        return _solve_side_by_side(rows, paths, stopping, progress)
    steps = (parallel.part(progress, k, 1, len(problems)) for k in range(len(problems)))
    return [[_solve_alone(rows, problem, stopping, next(steps)) for problem in path] for path in paths]


def _solve_alone(
    rows: Gram | FeatureProducts, problem: Problem, stopping: Stopping, progress: Progress | None
) -> Machines:
    if not isinstance(rows, FeatureProducts):
        matrix = _matrix_with_loss(rows, problem)
        [[machines]] = _solve_side_by_side(matrix, [[problem]], stopping, progress)
        return machines
    assert rows.features is not None
    features = _features_with_loss(rows.features, problem)
    descends = features.descent and isinstance(features.x, Sparse)
    if not descends or not isinstance(problem, Classification | Labelling):
        return solve_by_newton(problem, features, stopping, progress)
    if isinstance(problem, Classification) and has_many_classes(problem):
        return solve_many(problem, features, stopping, progress)
    return solve_by_descent(problem, features, stopping, progress)


def _features_with_loss(features: FeatureRows, problem: Problem) -> FeatureRows:
    """Features with the diagonal of the loss function of a problem."""
    if problem.loss == "hinge":
        return features
    assert isinstance(problem, Classification)
    xp, ridge = array_module(device_of(features.ridge)), features.ridge.copy()
    ridge[xp.asarray(problem.index)] += xp.asarray(loss_diagonal(problem.C * problem.weight))
    return replace(features, ridge=ridge)


def _matrix_with_loss(gram: Gram, problem: Problem) -> Gram:
    """A copy of a kernel matrix with the diagonal of the loss function of a problem."""
    if problem.loss == "hinge":
        return gram
    assert isinstance(problem, Classification)
    if gram.matrix is None or len(np.unique(problem.index)) < len(problem.index):
        raise InputError(
            'loss="squared_hinge" needs a kernel with features, or a kernel matrix that fits in memory and '
            "training parts without repetitions; raise memory (--memory), or leave loss out"
        )
    xp, matrix = array_module(gram.device), gram.matrix.copy()
    at = xp.asarray(problem.index)
    matrix[at, at] += xp.asarray(loss_diagonal(problem.C * problem.weight), np.float32)
    return DenseGram(matrix, gram.description)


def _solve_side_by_side(
    gram: Gram, paths: Sequence[Sequence[Problem]], stopping: Stopping, progress: Progress | None
) -> list[list[Machines]]:
    parts = [[machine_duals(problem) for problem in path] for path in paths]
    chains = [chain for path in parts for chain in zip(*path, strict=True)]
    duals = [[part.dual for part in chain] for chain in chains]
    initial = [chain[0].initial for chain in chains]
    solved = iter(solve_chains(gram, duals, stopping, initial, progress))
    result: list[list[Machines]] = []
    for path, path_parts in zip(paths, parts, strict=True):
        # Transpose: from a list of solutions along the path for each dual to a list of solutions per problem.
        by_machine = [next(solved) for _ in path_parts[0]]
        by_problem = zip(*by_machine, strict=True) if by_machine else [()] * len(path)
        result.append([collect(*triple) for triple in zip(path, path_parts, by_problem, strict=True)])
    return result


Chain = Sequence[AnyDual]


def solve_chains(
    gram: Gram,
    chains: Sequence[Chain],
    stopping: Stopping | None = None,
    initial: Sequence[Floats | None] | None = None,
    progress: Progress | None = None,
) -> list[list[Solution]]:
    """Solve chains of dual problems of either kind over a Gram, on the Gram's device.

    The problems of a chain have the same variables (sign or target, index) and differ in `upper` or `linear`;
    each starts from the previous solution (`textsvm.solvers.solution.warm_start`), unless a GPU has room for
    all at once. `initial` are feasible variables for the first problem of each chain, zeros by default; for a
    `MulticlassDual` coefficients of shape (n_classes, m). `progress` is called every few hundredths of a
    second with (done, total), on a logarithmic scale of the violations, and may raise to stop. `status` of a
    solution says whether the bound on iterations or the precision of float64 ended the run.
    """
    stopping = stopping or Stopping()
    initial = [None] * len(chains) if initial is None else initial
    with devices.use(gram.device):
        diag = np.ascontiguousarray(devices.to_host(gram.diag()), np.float32)
    starts = [_start(chain[0], alpha, diag) for chain, alpha in zip(chains, initial, strict=True)]
    if gram.device.kind == "cpu":
        threads = min(parallel.n_threads(), len(chains)) if gram.concurrent else 1
        tile_bytes = min(smo.TILE_BYTES, 4 * gram.window().capacity * gram.n // max(8, threads))
        return _on_cores(smo.Common(gram, diag, stopping, tile_bytes), chains, starts, progress)
    # Between rounds the host works on short vectors, where many BLAS threads only take longer.
    with parallel.one_blas_thread():
        work = _GpuWork(gram, chains, starts, stopping, progress)
        return work.solve_on_shards() if gram.shards else work.solve()


def _start(first: AnyDual, initial: Floats | None, diag: Floats32) -> Floats:
    if not np.isfinite(diag[first.index]).all():
        raise InputError(NOT_FINITE)
    if isinstance(first, MulticlassDual):
        zeros = np.zeros((first.n_classes, len(first)))
        return zeros if initial is None else start_multiclass(first, initial)
    return np.zeros(len(first)) if initial is None else first.sign * initial


class _Stopped(Exception):
    """Another chain has failed, or the caller has been interrupted."""


class _SharedProgress:
    """Shared progress and cancellation flag of all chains, or cards."""

    def __init__(self, costs: Sequence[float], progress: Progress | None) -> None:
        self.costs, self.done = np.array(costs), np.zeros(len(costs))
        self.progress, self.stopped = progress, threading.Event()

    def of_chain(self, c: int, report: Callable[[], None] = lambda: None) -> Progress:
        """Progress callback of chain or card c, which calls `report` after each update."""

        def progress(done: float, total: float) -> None:
            if self.stopped.is_set():
                raise _Stopped
            self.done[c] = max(self.done[c], self.costs[c] * min(1.0, done / total))
            report()

        return progress

    def report(self) -> None:
        """Call the caller's callback, in the caller's thread."""
        if self.progress is not None:
            with self.stopping():
                self.progress(float(self.done.sum()), float(self.costs.sum()))

    @contextmanager
    def stopping(self) -> Iterator[None]:
        """Have the others stop if the block fails; it ends quietly if another has failed."""
        try:
            yield
        except _Stopped:
            pass
        except BaseException:
            self.stopped.set()
            raise


def _cost(chain: Chain) -> float:
    classes = chain[0].n_classes if isinstance(chain[0], MulticlassDual) else 1
    return classes * len(chain) * float(len(chain[0])) ** 2


def _solve_chain(common: smo.Common, chain: Chain, coef: Floats, progress: Progress) -> list[Solution]:
    """Solve a chain over a Gram in host memory, starting from `coef`, which may be overwritten."""
    solutions: list[Solution] = []
    responses: Floats | None = None
    run: smo.Run | None = None
    for j, dual in enumerate(chain):
        of_problem = parallel.part(progress, j, 1, len(chain))
        assert of_problem is not None
        if isinstance(dual, MulticlassDual):
            coef = start_multiclass(dual, solutions[-1].coef) if j else coef
            many = crammer_singer.MulticlassRun
            solutions.append(many(common.gram, dual, coef, common.stopping, of_problem).solve())
        else:
            if run is not None:
                coef, responses = warm_start(dual, run.dual, solutions[-1])
            run = smo.Run(common, dual, coef, responses, of_problem, run)
            solutions.append(run.solve())
    return solutions


def _on_cores(
    common: smo.Common, chains: Sequence[Chain], starts: Sequence[Floats], progress: Progress | None
) -> list[list[Solution]]:
    shared = _SharedProgress([_cost(chain) for chain in chains], progress)
    results: list[list[Solution]] = [[] for _ in chains]

    def work(c: int, report: Callable[[], None] = lambda: None) -> None:
        of_chain = shared.of_chain(c, report)
        with shared.stopping():
            results[c] = _solve_chain(common, chains[c], starts[c], of_chain)
            of_chain(1.0, 1.0)

    threads = parallel.n_threads() if common.gram.concurrent else 1
    together = [c for c in range(len(chains)) if len(chains) >= threads or isinstance(chains[c][0], Dual)]
    together = together if min(threads, len(together)) > 1 else []
    together.sort(key=lambda c: -shared.costs[c])
    with shared.stopping():
        if together:
            parallel.run(lambda c: work(c), together, watch=shared.report)
        for c in sorted({*range(len(chains))} - {*together}):
            work(c, shared.report)
    return results


@dataclass(frozen=True)
class _GpuWork:
    """Chains to solve over a Gram in device memory, and the coefficients that they start from."""

    gram: Gram
    chains: Sequence[Chain]
    starts: Sequence[Floats]
    stopping: Stopping
    progress: Progress | None

    def solve(self, cuts: bool = True) -> list[list[Solution]]:
        """Solve two-class chains side by side, then those of 2, 3, .. classes together."""
        chains, starts = self.chains, self.starts
        results: list[list[Solution]] = [[] for _ in chains]
        classes = [chain[0].n_classes if isinstance(chain[0], MulticlassDual) else 0 for chain in chains]
        done = 0
        for kind in sorted({*classes}):
            numbers = [c for c in range(len(chains)) if classes[c] == kind]
            part = parallel.part(self.progress, done, len(numbers), len(chains))
            of_kind, of_starts = [chains[c] for c in numbers], [starts[c] for c in numbers]
            with devices.use(self.gram.device):
                slots = self._slots(of_kind, kind)
                solved = cuda_queue.Queue(slots, of_kind, of_starts, part, cuts and not kind).solve()
            for c, solutions in zip(numbers, solved, strict=True):
                results[c] = solutions
            done += len(numbers)
        return results

    def _slots(self, chains: Sequence[Chain], n_classes: int) -> cuda_queue.Slots:
        """Slots for two-class chains (`n_classes` is 0), or for chains of this number of classes."""
        gram, stride = self.gram, max(len(chain[0]) for chain in chains)
        if n_classes:
            many = crammer_singer_cuda
            kind: Any = many.ShardedMulticlassSlots if gram.shards else many.MulticlassSlots
            return kind(gram, (n_classes, stride), len(chains), self.stopping)
        kind = smo_cuda.ShardedDualSlots if gram.shards else smo_cuda.DualSlots
        return kind(gram, (stride,), sum(len(chain) for chain in chains), self.stopping)

    def solve_on_shards(self) -> list[list[Solution]]:
        """Divide chains among cards that have room for a copy each, or have all cards solve each together."""
        shards = self.gram.shards
        try:
            slots = 0
            for shard in shards:
                with devices.use(shard.device):
                    slots += cuda_queue.most_slots()
            cuts = all(isinstance(chain[0], Dual) for chain in self.chains)
            pieces = list(cuda_queue.stretches(self.chains, slots, cuts))
            copies = self.gram.copies() if len(pieces) >= len(shards) > 1 else []
            return self._solve_on_copies(copies, pieces) if copies else self.solve()
        except BaseException:  # an interruption leaves cards at work, maybe in each other's memory
            with suppress(Exception):  # of a card that has failed
                for shard in shards:
                    devices.synchronize(shard.device)
            raise

    def _solve_on_copies(
        self, grams: Sequence[Gram], pieces: Sequence[tuple[int, int, int]]
    ) -> list[list[Solution]]:
        """Divide pieces, (chain, first problem, last problem + 1), among cards, with a thread per card."""
        parts = [self.chains[c][first:last] for c, first, last in pieces]
        costs = [_cost(part) for part in parts]
        shares = divide(costs, len(grams))
        shared = _SharedProgress([sum(costs[k] for k in share) for share in shares], self.progress)
        solved: list[list[Solution]] = [[] for _ in pieces]

        def start_of(k: int) -> Floats:
            c, first, _ = pieces[k]
            return self.starts[c] if first == 0 else np.zeros(len(parts[k][0]))

        def work(card: int) -> None:
            share, of_card = shares[card], shared.of_chain(card)
            with shared.stopping():
                problems = [parts[k] for k in share], [start_of(k) for k in share]
                of_share = _GpuWork(grams[card], *problems, self.stopping, of_card).solve(cuts=False)
                for k, solutions in zip(share, of_share, strict=True):
                    solved[k] = solutions
                of_card(1.0, 1.0)

        with shared.stopping(), parallel.limit(len(grams)):
            parallel.run(work, range(len(grams)), watch=shared.report)
        results: list[list[Solution]] = [[] for _ in self.chains]
        for k in sorted(range(len(pieces)), key=lambda k: pieces[k]):
            results[pieces[k][0]] += solved[k]
        return results


def divide(costs: Sequence[float], cards: int) -> list[list[int]]:
    """The pieces of each card, in order: the largest first, each to the card with the least cost so far."""
    shares: list[list[int]] = [[] for _ in range(cards)]
    loads = [0.0] * cards
    for k in sorted(range(len(costs)), key=lambda k: -costs[k]):
        least = loads.index(min(loads))
        shares[least].append(k)
        loads[least] += costs[k]
    return [sorted(share) for share in shares]
