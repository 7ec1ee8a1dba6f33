"""Search for the next pair of variables (Wen et al., SIGMA, section 4.2).

One reference solver of plain pairs (Fan, Chen, Lin 2005), in one thread and without shrinking, in two forms:

    loose  three passes an iteration over all m variables, each asking of every one whether it can
           grow or shrink
    tight  variables are kept in the order: only to shrink, free, only to grow; a pass reads one part of it

beside ours (`textsvm.solvers.smo_loop`: no question in the loop, the search for i within the update), without
shrinking and with it. Equal objectives are asserted. All rows are in memory; hits are those of the pairs'
rows in an LRU cache of a tenth of the Gram.
"""

from __future__ import annotations

import argparse
import time
from collections import OrderedDict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import BenchmarkReport, benchmark, data_folder, option
from benchmarks.keeping import Problem, problems
from textsvm.gram.base import DenseGram
from textsvm.runtime.compiled import njit
from textsvm.solvers.chains import solve_chains
from textsvm.solvers.dual import Dual
from textsvm.solvers.smo_loop import TAU
from textsvm.solvers.solution import Stopping, bounds

TOL = 1e-3
WAYS = ("loose", "tight", "ours, no shrinking", "ours")


@njit(cache=True, error_model="numpy")
def pairs(
    K: Any, row: Any, F: Any, coef: Any, low: Any, high: Any, name: Any, tight: Any, tol: Any, trace: Any
) -> Any:
    """Optimise pairs until the violation is at most `tol` or `trace` is full.

    Parameters
    ----------
    K : float32 array, shape (n, n)
    row : int64 array, shape (m,)
        Of K, of the variable at each place.
    F, coef, low, high : float64 arrays, shape (m,)
        By place.
    name : int64 array, shape (m,)
        Which variable is at each place.
    tight : bool
        Keep the order: places before `free` can only shrink, from `grow` on only grow.
    trace : int64 array, shape (t, 2)
        Rows of each pair.

    Returns
    -------
    iterations, and the mean share of all places that a pass has read
    """
    m, diag = len(F), np.empty(len(K))
    for k in range(len(K)):
        diag[k] = K[k, k]
    free, grow = 0, m
    if tight:
        free, grow = _order(row, F, coef, low, high, name)
    read = 0.0
    for done in range(len(trace)):
        best, i = np.inf, -1
        for k in range(free, m):
            if (tight or coef[k] < high[k]) and F[k] < best:
                best, i = F[k], k
        worst, gain, j = -np.inf, 0.0, -1
        K_i, diag_i = K[row[i]], diag[row[i]]
        for k in range(grow):
            if tight or coef[k] > low[k]:
                worst = max(worst, F[k])
        read += (2 * grow + m - free) / (3 * m)
        if worst - best <= tol:
            return done, read / (done + 1)
        for k in range(grow):
            if (tight or coef[k] > low[k]) and F[k] > best:
                curvature = diag_i + diag[row[k]] - 2 * np.float64(K_i[row[k]])
                found = (F[k] - best) ** 2 / max(curvature, TAU)
                if found > gain:
                    gain, j = found, k
        K_j = K[row[j]]
        curvature = max(diag_i + diag[row[j]] - 2 * np.float64(K_i[row[j]]), TAU)
        step = min((F[j] - F[i]) / curvature, high[i] - coef[i], coef[j] - low[j])
        coef[i] = high[i] if step >= high[i] - coef[i] else coef[i] + step
        coef[j] = low[j] if step >= coef[j] - low[j] else coef[j] - step
        for k in range(m):
            F[k] += step * (np.float64(K_i[row[k]]) - np.float64(K_j[row[k]]))
        trace[done, 0], trace[done, 1] = row[i], row[j]
        if tight:
            for variable in (name[i], name[j]):
                at = i if name[i] == variable else j
                if name[at] != variable:
                    at = _find(name, variable)
                free, grow = _place(at, free, grow, row, F, coef, low, high, name)
    return len(trace), read / len(trace)


@njit(cache=True)
def _find(name: Any, variable: Any) -> Any:
    for k in range(len(name)):
        if name[k] == variable:
            return k
    return -1


@njit(cache=True)
def _swap(a: Any, b: Any, row: Any, F: Any, coef: Any, low: Any, high: Any, name: Any) -> Any:
    row[a], row[b] = row[b], row[a]
    name[a], name[b] = name[b], name[a]
    F[a], F[b] = F[b], F[a]
    coef[a], coef[b] = coef[b], coef[a]
    low[a], low[b] = low[b], low[a]
    high[a], high[b] = high[b], high[a]


@njit(cache=True)
def _place(at: Any, free: Any, grow: Any, row: Any, F: Any, coef: Any, low: Any, high: Any, name: Any) -> Any:
    """Bring the variable at a place into its part, at most two swaps; where the parts begin then."""
    only_shrinks, only_grows = coef[at] >= high[at], coef[at] <= low[at]
    if at < free and not only_shrinks:
        free -= 1
        _swap(at, free, row, F, coef, low, high, name)
        at = free
    elif at >= grow and not only_grows:
        _swap(at, grow, row, F, coef, low, high, name)
        at = grow
        grow += 1
    if free <= at < grow:
        if only_shrinks:
            _swap(at, free, row, F, coef, low, high, name)
            free += 1
        elif only_grows:
            grow -= 1
            _swap(at, grow, row, F, coef, low, high, name)
    return free, grow


@njit(cache=True)
def _order(row: Any, F: Any, coef: Any, low: Any, high: Any, name: Any) -> Any:
    """All variables count as free at first, and each goes where it belongs."""
    free, grow = 0, len(F)
    for variable in range(len(name)):
        free, grow = _place(_find(name, variable), free, grow, row, F, coef, low, high, name)
    return free, grow


def reference(gram: DenseGram, dual: Dual, tight: bool, most: int) -> tuple[float, NDArray[np.int64], float]:
    """Objective, rows of all pairs, and the share of places that a pass has read."""
    low, high = bounds(dual)
    start = dual.sign * dual.linear
    row, F, coef = np.array(dual.index, np.int64), start.copy(), np.zeros(len(dual))
    name, trace = np.arange(len(dual)), np.empty((most, 2), np.int64)
    done, share = pairs(gram.matrix, row, F, coef, low.copy(), high.copy(), name, tight, TOL, trace)
    assert done < most
    return float(0.5 * coef @ (F + start[name])), trace[:done], float(share)


def hits(trace: NDArray[np.int64], capacity: int) -> float:
    """Of the rows used in turn, those that an LRU cache has."""
    kept: OrderedDict[int, None] = OrderedDict()
    found = 0
    for row in trace.ravel().tolist():
        if row in kept:
            found += 1
            kept.move_to_end(row)
        else:
            kept[row] = None
            if len(kept) > capacity:
                kept.popitem(last=False)
    return found / trace.size


def _solved(problem: Problem, gram: DenseGram, way: str, most: int) -> tuple[int, float, Any]:
    """Iterations, objective, and of the reference the rows of pairs and the share of places read."""
    if way.startswith("ours"):
        stopping = Stopping(TOL, shrinking=way == "ours")
        [[solution]] = solve_chains(gram, [[problem.dual]], stopping)
        return solution.iterations, solution.objective, None
    objective, trace, share = reference(gram, problem.dual, way == "tight", most)
    return len(trace), objective, (trace, share)


def way_row(
    problem: Problem, gram: DenseGram, way: str, objectives: list[float], most: int
) -> dict[str, Any]:
    """One way of searching; `objectives` are those found so far, which agree."""
    cell: dict[str, Any] = {"problem": problem.name, "n": gram.n, "variables": len(problem.dual), "way": way}
    times: list[float] = []
    while len(times) < 3 and sum(times) < 2:  # the least, for others use the machine too
        clock = time.perf_counter()
        found = _solved(problem, gram, way, most)
        times.append(time.perf_counter() - clock)
    iterations, objective, about = found
    if about is not None:
        trace, share = about
        cell |= {"variables read by a pass": f"{share:.0%}", "hits": f"{hits(trace, gram.n // 10):.1%}"}
    objectives.append(objective)
    assert abs(objective - objectives[0]) <= 1e-4 * abs(objective), objectives
    return cell | {
        "iterations": iterations, "objective": f"{objective:.5g}", "seconds": min(times),
        "microseconds an iteration": 1e6 * min(times) / max(1, iterations),
    }  # fmt: skip


@benchmark(
    "tight_search",
    "Search for the next pair of variables",
    "reports/cpu_tight_search",
    option("--rows", type=int, default=4000, help="maximum number of vectors per set"),
    option("--texts", type=int, default=700, help="maximum number of texts"),
    option("--most", type=int, default=2_000_000, help="maximum number of pairs"),
    quick="use the bundled samples",
)
def main(options: argparse.Namespace, report: BenchmarkReport) -> None:
    """Solve each problem with each form of the search."""
    for number, make in enumerate(
        problems(None if options.quick else data_folder(), options.rows, options.texts)
    ):
        problem = make()
        gram, objectives = DenseGram(problem.rows.gram()), []  # type: tuple[DenseGram, list[float]]
        for way in WAYS:
            if not number:  # compiles
                way_row(problem, gram, way, objectives, options.most)
            report.row(f"{problem.name} {way}", way_row, problem, gram, way, objectives, options.most)
