"""Chains of problems over one Gram, side by side: on all cores, on one GPU, or on several.

A chain runs in one thread, each problem from the solution of the one before, and chains share nothing that
is written. Where rows are computed on demand and make room for others, one chain runs after another. The
multiclass solver can use all cores for one problem; it does, chain by chain, when there are fewer chains than
cores.

Where a Gram is in shards on several cards, all of them solve one problem together
(`textsvm.solvers.shards_cuda`). Many problems share nothing: each card takes a copy of the Gram, if it has
room, and some of the chains, cut into stretches as one card with the multiprocessors of all would cut them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.errors import InputError
from textsvm.gram.base import DenseGram, Gram
from textsvm.gram.cards import ShardedGram
from textsvm.runtime import device as devices
from textsvm.runtime import parallel
from textsvm.runtime.parallel import Progress
from textsvm.solvers import crammer_singer_cpu, crammer_singer_cuda, cuda_queue, smo_cpu, smo_cuda
from textsvm.solvers.dual import AnyDual, Dual, MulticlassDual
from textsvm.solvers.solution import NOT_FINITE, Solution, Stopping
from textsvm.solvers.warm_start import start, start_multiclass

Vector = NDArray[np.float64]


def solve_chains(
    gram: Gram,
    chains: Sequence[Sequence[AnyDual]],
    stopping: Stopping,
    initial: Sequence[Vector | None] | None = None,
    progress: Progress | None = None,
) -> list[list[Solution]]:
    """Solve chains of dual problems of either kind over one Gram, where the Gram lives.

    Parameters
    ----------
    gram : Gram, n rows
    chains : sequence of sequences of Dual, or of MulticlassDual
        The problems of a chain have the same variables (sign or target, index) and differ in `upper` or
        `linear`; one starts from the solution of the one before (`textsvm.solvers.warm_start`), unless a GPU
        has room for all at once.
    stopping : Stopping
        Counts for each problem.
    initial : sequence of float64 arrays or None, one a chain, optional
        Variables that the first problem of each chain starts from; zeros by default.
    progress : callable, optional
        Called every few hundredths of a second with (done, total), done growing from 0 to total on a
        logarithmic scale of the violations; may raise to stop.

    Returns
    -------
    list of lists of Solution, in the shape of `chains`
        Also when the bound on iterations or the precision of float64 ended the work: see their `status`.

    Raises
    ------
    InputError
        If a dual does not fit the Gram, a start is infeasible or the Gram holds a value that is not a finite
        number.
    ValueError
        If the problems of a chain have different variables.
    """
    given = [None] * len(chains) if initial is None else initial
    with devices.use(gram.device):
        diag = np.ascontiguousarray(devices.to_host(gram.diag()), np.float32)
    starts = [_start(chain, alpha, diag) for chain, alpha in zip(chains, given, strict=True)]
    if gram.device.kind == "cpu":
        common = smo_cpu.Common(gram, diag, stopping, _tile_bytes(gram, len(chains)))
        return _on_cores(common, chains, starts, progress)
    return _on_gpu(gram, chains, starts, stopping, progress)


def _start(chain: Sequence[AnyDual], initial: Vector | None, diag: NDArray[np.float32]) -> Vector:
    """Check a chain; the coefficients to start from."""
    first, n = chain[0], len(diag)
    if any(not _same_variables(first, other) for other in chain[1:]):
        raise ValueError("the problems of a chain have different variables")
    if len(first) == 0 or first.index.min() < 0 or first.index.max() >= n:
        raise InputError(f"the {len(first)} variables of the problem do not fit a Gram of {n} rows")
    if not np.isfinite(diag[first.index]).all():
        raise InputError(NOT_FINITE)
    if isinstance(first, MulticlassDual):
        return start_multiclass(first, initial)
    return start(first, initial)


def _same_variables(one: AnyDual, other: AnyDual) -> bool:
    if isinstance(one, Dual) and isinstance(other, Dual):
        same = np.array_equal(one.sign, other.sign)
    elif isinstance(one, MulticlassDual) and isinstance(other, MulticlassDual):
        same = one.n_classes == other.n_classes and np.array_equal(one.target, other.target)
    else:
        same = False
    return same and np.array_equal(one.index, other.index)


def _tile_bytes(gram: Gram, chains: int) -> int:
    threads = min(parallel.n_threads(), chains) if gram.concurrent else 1
    return min(smo_cpu.TILE_BYTES, 4 * gram.window().capacity * gram.n // max(8, threads))


def _on_cores(
    common: smo_cpu.Common,
    chains: Sequence[Sequence[AnyDual]],
    starts: Sequence[Vector],
    progress: Progress | None,
) -> list[list[Solution]]:
    total = _Total([_cost(chain) for chain in chains], progress)
    results: list[list[Solution]] = [[] for _ in chains]

    def work(c: int, report: Callable[[], None]) -> None:
        of_chain = total.of_chain(c, report)
        try:
            chain: Any = chains[c]
            if isinstance(chain[0], MulticlassDual):
                solve = crammer_singer_cpu.solve_chain
                results[c] = solve(common.gram, chain, starts[c], common.stopping, of_chain)
            else:
                results[c] = smo_cpu.solve_chain(common, chain, starts[c], of_chain)
            of_chain(1.0, 1.0)
        except _Stopped:
            return
        except BaseException:
            total.stopped.set()
            raise

    threads = parallel.n_threads() if common.gram.concurrent else 1
    together = [c for c in range(len(chains)) if len(chains) >= threads or isinstance(chains[c][0], Dual)]
    together = together if min(threads, len(together)) > 1 else []
    together.sort(key=lambda c: -total.costs[c])
    try:
        if together:
            parallel.run(lambda c: work(c, _nothing), together, watch=total.report)
        for c in sorted({*range(len(chains))} - {*together}):
            work(c, total.report)
    except BaseException:
        total.stopped.set()
        raise
    return results


class _Stopped(Exception):
    """Another chain has failed, or the caller has been interrupted."""


def _nothing() -> None:
    pass


class _Total:
    """How far all chains, or cards, are together, and the word to stop."""

    def __init__(self, costs: Sequence[float], progress: Progress | None) -> None:
        self.costs, self.done = np.array(costs), np.zeros(len(costs))
        self.progress, self.stopped = progress, threading.Event()

    def of_chain(self, c: int, report: Callable[[], None]) -> Progress:
        """The progress callback of chain or card c; `report` is called after each look."""

        def progress(done: float, total: float) -> None:
            if self.stopped.is_set():
                raise _Stopped
            self.done[c] = max(self.done[c], self.costs[c] * min(1.0, done / total))
            report()

        return progress

    def report(self) -> None:
        """Tell the caller, in the caller's thread."""
        if self.progress is None:
            return
        try:
            self.progress(float(self.done.sum()), float(self.costs.sum()))
        except BaseException:
            self.stopped.set()
            raise


def _cost(chain: Sequence[AnyDual]) -> float:
    classes = chain[0].n_classes if isinstance(chain[0], MulticlassDual) else 1
    return classes * len(chain) * float(len(chain[0])) ** 2


def _on_gpu(
    gram: Gram,
    chains: Sequence[Sequence[AnyDual]],
    starts: Sequence[Vector],
    stopping: Stopping,
    progress: Progress | None,
) -> list[list[Solution]]:
    """On one card or on several.

    What the host does between rounds are short vectors, which many threads of BLAS only take longer for.
    """
    with parallel.one_blas_thread():
        if not isinstance(gram, ShardedGram):
            return _on_card(gram, chains, starts, stopping, progress)
        return _on_shards(gram, chains, starts, stopping, progress)


def _on_shards(
    gram: ShardedGram,
    chains: Sequence[Sequence[AnyDual]],
    starts: Sequence[Vector],
    stopping: Stopping,
    progress: Progress | None,
) -> list[list[Solution]]:
    """Shared out among cards that have room for a copy each, or side by side on all of them."""
    try:
        pieces = _pieces(gram, chains)
        copies = gram.copies() if len(pieces) >= len(gram.shards) > 1 else []
        if copies:
            return _on_cards(copies, pieces, chains, starts, stopping, progress)
        return _on_card(gram, chains, starts, stopping, progress)
    except BaseException:  # an interruption leaves cards at work, maybe in each other's memory
        with suppress(Exception):  # of a card that has failed
            for shard in gram.shards:
                devices.synchronize(shard.device)
        raise


def _on_card(
    gram: Gram,
    chains: Sequence[Sequence[AnyDual]],
    starts: Sequence[Vector],
    stopping: Stopping,
    progress: Progress | None,
    cuts: bool = True,
) -> list[list[Solution]]:
    """Two-class chains side by side, then those of 2, 3, .. classes together."""
    results: list[list[Solution]] = [[] for _ in chains]
    classes = [chain[0].n_classes if isinstance(chain[0], MulticlassDual) else 0 for chain in chains]
    done = 0
    for kind in sorted({*classes}):
        some = [c for c in range(len(chains)) if classes[c] == kind]
        solve: Any = crammer_singer_cuda.solve_many if kind else partial(smo_cuda.solve_many, cuts=cuts)
        part = parallel.part(progress, done, len(some), len(chains))
        solved = solve(gram, [chains[c] for c in some], [starts[c] for c in some], stopping, part)
        for c, solutions in zip(some, solved, strict=True):
            results[c] = solutions
        done += len(some)
    return results


Piece = tuple[int, int, int]  # problems first..last-1 of a chain


def _pieces(gram: ShardedGram, chains: Sequence[Sequence[AnyDual]]) -> list[Piece]:
    """What cards take: the chains, cut as one card with the slots of all would cut them."""
    slots = 0
    for shard in gram.shards:
        with devices.use(shard.device):
            slots += cuda_queue.most_slots()
    return list(cuda_queue.stretches(chains, slots, all(isinstance(chain[0], Dual) for chain in chains)))


def divide(costs: Sequence[float], cards: int) -> list[list[int]]:
    """Share work out among cards: the largest first, each to the card that has the least so far.

    Parameters
    ----------
    costs : sequence of float
        Of the pieces.
    cards : int

    Returns
    -------
    list of lists of int
        The pieces of each card, in order.
    """
    shares: list[list[int]] = [[] for _ in range(cards)]
    loads = [0.0] * cards
    for k in sorted(range(len(costs)), key=lambda k: -costs[k]):
        least = loads.index(min(loads))
        shares[least].append(k)
        loads[least] += costs[k]
    return [sorted(share) for share in shares]


def _on_cards(
    grams: Sequence[DenseGram],
    pieces: Sequence[Piece],
    chains: Sequence[Sequence[AnyDual]],
    starts: Sequence[Vector],
    stopping: Stopping,
    progress: Progress | None,
) -> list[list[Solution]]:
    """Each card some of the pieces, by a thread of its own."""
    parts = [chains[c][first:last] for c, first, last in pieces]
    costs = [_cost(part) for part in parts]
    shares = divide(costs, len(grams))
    total = _Total([sum(costs[k] for k in share) for share in shares], progress)
    solved: list[list[Solution]] = [[] for _ in pieces]

    def start(k: int) -> Vector:
        c, first, _ = pieces[k]
        return starts[c] if first == 0 else np.zeros(len(parts[k][0]))

    def work(card: int) -> None:
        share, of_card = shares[card], total.of_chain(card, _nothing)
        try:
            some = [parts[k] for k in share], [start(k) for k in share]
            of_share = _on_card(grams[card], *some, stopping, of_card, cuts=False)
            for k, solutions in zip(share, of_share, strict=True):
                solved[k] = solutions
            of_card(1.0, 1.0)
        except _Stopped:
            return
        except BaseException:
            total.stopped.set()
            raise

    try:
        with parallel.limit(len(grams)):
            parallel.run(work, range(len(grams)), watch=total.report)
    except BaseException:
        total.stopped.set()
        raise
    results: list[list[Solution]] = [[] for _ in chains]
    for k in sorted(range(len(pieces)), key=lambda k: pieces[k]):
        results[pieces[k][0]] += solved[k]
    return results
