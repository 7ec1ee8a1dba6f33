"""Which rows of a Gram to keep under a byte budget.

The same solver on the same problems under budgets of 5 to 50 % of the Gram; every way takes the same
iterations to the same objective, which is asserted, and differs in the rows it computes:

    LRU               rows used longest ago make room (`textsvm.gram.base`)
    LRU, with 8 (64)  the same, when that many rows are asked for at a time: the worst violators, too
    LAT               the row of the smallest index makes room (Wen et al., SIGMA, section 4.1.4)
    free pinned       LRU, but rows of free variables stay while there are others
    least violating   rows of variables set aside make room, then those of the smallest violation
    the future known  the row used last makes room (Belady), from a trace of rows used: a bound

A hit is a row that was used (two an iteration) without being computed for it. Vectors: the first rows of
a shuffle, Gaussian kernel; Reuters: Earn vs Rest in the papers' form, 100 symbols, gap-weighted.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.corpora import REGRESSION, paper_tasks, regression, vectors
from benchmarks.harness import BenchmarkReport, benchmark, data_folder, option
from textsvm.gram.base import CachedGram, DenseGram, Gram, needed_bytes
from textsvm.kernels import GapWeighted, Gaussian
from textsvm.kernels.contract import MatrixRows
from textsvm.linalg.vectors import Vectors
from textsvm.runtime.device import select
from textsvm.solvers import smo
from textsvm.solvers import smo_loop as loop
from textsvm.solvers.chains import _tile_bytes
from textsvm.solvers.dual import Dual, svc, svr
from textsvm.solvers.solution import RELAXATION, Solution, Stopping
from textsvm.text.documents import encode

BUDGETS = (0.05, 0.1, 0.25, 0.5)
#: C and gamma: a9a's as in GTSVM's line of reports, the others' of SIGMA's Table 2.
PARAMETERS = {
    "a9a": (1.0, 0.05),
    "abalone": (64.0, 0.25),
    "cpu_small": (64.0, 0.25),
    "cal_housing": (256.0, 0.125),
}
EPSILON = 0.1


@dataclass(frozen=True)
class Problem:
    """Rows computed on demand, and a dual over them."""

    name: str
    rows: MatrixRows
    dual: Dual


class Lowest(CachedGram):
    """LAT: the rows of the smallest index make room."""

    def _victims(self, count: int) -> NDArray[np.int64]:
        used = self._window.used
        key = np.where(used == used.max(), self.n, self._owner)  # those in use are not given up
        return np.argpartition(key, count - 1)[:count]


class FreePinned(smo.Run):
    """Rows of free variables count as used just now, in the order of their last use."""

    def fetch(self) -> None:
        used, clock = self.window.used, int(self.state[loop.CLOCK])
        slots = np.unique(self.window.slots[self.rows[(self.up == 0) & (self.down == 0)]])
        slots = slots[slots >= 0]
        used[slots[np.argsort(used[slots], kind="stable")]] = clock + np.arange(len(slots))
        super().fetch()


class LeastViolating(smo.Run):
    """Evict rows of inactive variables in the order of their last use, then rows by violation."""

    def fetch(self) -> None:
        used, slots = self.window.used, self.window.slots[self.rows]
        first, last = self.extrema[loop.FIRST], self.extrema[loop.LAST]
        violation = np.maximum(self.up - self.active_F - last, self.down + self.active_F + first)
        score = np.full(self.window.capacity, -np.inf)
        np.maximum.at(score, slots[slots >= 0], violation[slots >= 0])
        here = self.window.slots[self.rows[self.state[loop.AT_I]]]
        score[here] = np.inf if here >= 0 else score[here]
        if (used > 0).all():
            count = max(2, int(self.gram.ahead))
            used[np.lexsort((used, score))[:count]] = 1
        super().fetch()


class Recording(smo.Run):
    """On a whole Gram: every row that a cache would have been asked for, in turn."""

    trace: list[int]

    def stretch(self, budget: int) -> int:
        relaxation = 1.0 if self.iterations < 2 * len(self.dual) else RELAXATION
        for _ in range(budget):
            why, done = loop.iterate(
                1, self.active_F, self.tol, relaxation, self.window.values, self.window.slots,
                self.window.used, self.tile.values, self.tile.slot, self.tile.owner, self.rows,
                self.active_coef, self.active_low, self.active_high, self.up, self.down, self.active_diag,
                self.gains, self.state, self.extrema,
            )  # fmt: skip
            self.iterations += done
            if why != loop.OPTIMAL:
                self.trace.extend(np.flatnonzero(self.window.used == self.state[loop.CLOCK]).tolist())
            if why != loop.BUDGET:
                return int(why)
        return loop.BUDGET

    def load(self, rows: NDArray[np.int64]) -> None:
        self.trace.extend(rows.tolist())
        super().load(rows)


#: Gram, run, and rows asked for at a time (None: what the kernel says).
WAYS: dict[str, tuple[type[CachedGram], type[smo.Run], int | None]] = {
    "LRU": (CachedGram, smo.Run, None),
    "LRU, with 8": (CachedGram, smo.Run, 8),
    "LRU, with 64": (CachedGram, smo.Run, 64),
    "LAT": (Lowest, smo.Run, None),
    "free pinned": (CachedGram, FreePinned, None),
    "least violating": (CachedGram, LeastViolating, None),
}
#: What takes minutes with vectors, and says nothing new.
LONG = "LRU, with 64"


def vector_problem(folder: Path, name: str, most: int) -> Problem:
    """A set of vectors, `most` of them, with a Gaussian kernel."""
    C, gamma = PARAMETERS[name]
    if name in REGRESSION:
        x, y = regression(folder, name)
    else:
        x, y = vectors(folder, "a9a")[:2]
        x = x.toarray()
    some = np.random.default_rng(0).permutation(len(y))[:most]
    examples, target = Vectors(np.ascontiguousarray(x[some])), y[some]
    dual = svr(target, C, EPSILON) if name in REGRESSION else svc(target, C)
    return Problem(name, Gaussian(gamma).fit(examples).rows(examples, select("cpu")), dual)


def text_problem(folder: Path | None, most: int) -> Problem:
    """Earn vs Rest, 100 symbols, gap-weighted; `most` of the texts, evenly spaced."""
    task = paper_tasks(folder, 100)[1]
    every = -(-len(task.train) // most)
    documents = encode(task.train[::every])
    kernel = GapWeighted(p=5, decay=0.5).fit(documents)
    return Problem("Reuters gap", kernel.rows(documents, select("cpu")), svc(task.y_train[::every], 10.0))


def problems(folder: Path | None, rows: int, texts: int) -> list[Callable[[], Problem]]:
    """How each problem is made; without a folder, of the bundled sample alone."""
    found: list[Callable[[], Problem]] = [lambda: text_problem(folder, texts)]
    if folder is None:
        return found
    return found + [lambda name=name: vector_problem(folder, name, rows) for name in PARAMETERS]


def solve(kind: type[smo.Run], gram: Gram, dual: Dual, tile_bytes: int) -> tuple[Any, Solution, float]:
    """The run, its solution and seconds."""
    common = smo.Common(gram, np.ascontiguousarray(gram.diag()), Stopping(), tile_bytes)
    clock = time.perf_counter()
    run = kind.__new__(kind)
    if isinstance(run, Recording):
        run.trace = []
    kind.__init__(run, common, dual, np.zeros(len(dual)), None, lambda done, total: None)
    solution = run.solve()
    return run, solution, time.perf_counter() - clock


def misses_if_known(trace: NDArray[np.int64], capacity: int) -> int:
    """Rows computed when the one used last makes room (Belady 1966)."""
    following = np.empty(len(trace), np.int64)
    last: dict[int, int] = {}
    for t in range(len(trace) - 1, -1, -1):
        following[t] = last.get(row := int(trace[t]), len(trace) + t)
        last[row] = t
    kept: dict[int, int] = {}
    latest: list[tuple[int, int]] = []
    misses = 0
    for row, then in zip(trace.tolist(), following.tolist(), strict=True):
        if row not in kept:
            misses += 1
            while len(kept) >= capacity:
                when, other = heappop(latest)
                if kept.get(other) == -when:
                    del kept[other]
        kept[row] = then
        heappush(latest, (-then, row))
    return misses


def way_row(problem: Problem, share: float, way: str, objective: list[float]) -> dict[str, Any]:
    """One way under one budget; `objective` is that of the first, which the others equal."""
    gram_kind, run_kind, ahead = WAYS[way]
    gram = gram_kind(problem.rows, _budget(problem, share))
    gram.ahead = gram.ahead if ahead is None else ahead
    _, solution, seconds = solve(run_kind, gram, problem.dual, _tile_bytes(gram, 1))
    assert solution.converged
    objective.append(solution.objective)
    assert objective[0] == solution.objective, "what is kept changes no result"
    return _cell(problem, share, way, gram.computed, solution) | {"seconds": seconds}


def bound_row(problem: Problem, dense: DenseGram, share: float) -> dict[str, Any]:
    """The fewest rows that could be computed for one at a time, the future known."""
    gram = CachedGram(problem.rows, _budget(problem, share))
    run, solution, _ = solve(Recording, dense, problem.dual, _tile_bytes(gram, 1))
    misses = misses_if_known(np.array(run.trace, np.int64), gram.capacity)
    return _cell(problem, share, "the future known", misses, solution)


def _budget(problem: Problem, share: float) -> int:
    """Bytes: this share of the Gram, or what four rows take."""
    return max(needed_bytes(problem.rows.n, 4), int(4 * problem.rows.n**2 * share))


def _cell(problem: Problem, share: float, way: str, computed: int, solution: Solution) -> dict[str, Any]:
    return {
        "problem": problem.name, "n": problem.rows.n, "budget": f"{share:.0%}", "way": way,
        "iterations": solution.iterations, "rows computed": computed,
        "hits": f"{max(0.0, 1 - computed / (2 * solution.iterations)):.2%}",
    }  # fmt: skip


@benchmark(
    "keeping",
    "Which rows of a Gram to keep",
    "reports/cpu_keeping",
    option("--rows", type=int, default=5000, help="maximum number of vectors per set"),
    option("--texts", type=int, default=700, help="maximum number of texts"),
    quick="use the bundled samples",
)
def main(options: argparse.Namespace, report: BenchmarkReport) -> None:
    """Count the rows computed by each replacement rule."""
    folder, texts = (None, 60) if options.quick else (data_folder(), options.texts)
    for make in problems(folder, options.rows, texts):
        problem = make()
        dense, objective = DenseGram(problem.rows.gram()), []  # type: tuple[DenseGram, list[float]]
        for share in BUDGETS:
            for way in [each for each in WAYS if each != LONG or problem.name not in PARAMETERS]:
                report.row(f"{problem.name} {share} {way}", way_row, problem, share, way, objective)
            report.row(f"{problem.name} {share} known", bound_row, problem, dense, share)
