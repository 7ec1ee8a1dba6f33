"""Chains of problems over one Gram, side by side: on all cores, or on one GPU.

A chain runs in one thread, each problem from the solution of the one before, and chains share nothing that
is written. Where rows are computed on demand and make room for others, one chain runs after another. The
multiclass solver can use all cores for one problem; it does, chain by chain, when there are fewer chains than
cores.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm import device as devices
from textsvm import parallel
from textsvm.errors import InputError
from textsvm.gram.base import Gram
from textsvm.parallel import Progress
from textsvm.solvers import crammer_singer_cpu, crammer_singer_cuda, smo_cpu, smo_cuda
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
    total = _Total(chains, progress)
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
    """How far all chains are together, and the word to stop."""

    def __init__(self, chains: Sequence[Sequence[AnyDual]], progress: Progress | None) -> None:
        self.costs = np.array([_cost(chain) for chain in chains])
        self.done = np.zeros(len(chains))
        self.progress, self.stopped = progress, threading.Event()

    def of_chain(self, c: int, report: Callable[[], None]) -> Progress:
        """The progress callback of chain c; `report` is called after each look."""

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
    """Two-class chains side by side, then those of 2, 3, .. classes together."""
    results: list[list[Solution]] = [[] for _ in chains]
    classes = [chain[0].n_classes if isinstance(chain[0], MulticlassDual) else 0 for chain in chains]
    done = 0
    for kind in sorted({*classes}):
        some = [c for c in range(len(chains)) if classes[c] == kind]
        solve: Any = crammer_singer_cuda.solve_many if kind else smo_cuda.solve_many
        part = parallel.part(progress, done, len(some), len(chains))
        solved = solve(gram, [chains[c] for c in some], [starts[c] for c in some], stopping, part)
        for c, solutions in zip(some, solved, strict=True):
            results[c] = solutions
        done += len(some)
    return results
