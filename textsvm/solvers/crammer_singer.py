"""Crammer and Singer's multiclass machine (2001), in the form of the GTSVM paper: no bias.

k classes, m examples with classes y_i and weights w_i. Class r has the value f_r(x) = sum_i a_ri K(x_i, x),
and the largest value wins. With C_i = C w_i the machine minimises

    P = 1/2 sum_r a_r'K a_r + sum_i C_i xi_i,   xi_i = max_r (1 - [r = y_i] + f_r(x_i) - f_(y_i)(x_i)),

C on the scale of the GTSVM paper (Cotter, Srebro and Keshet 2011, eq. 3) and of LIBLINEAR's -s 4. Its dual,
which is solved here, is over a, k x m (K in float32, everything else in float64):

    minimise  -D = 1/2 sum_r a_r'K a_r - sum_i a_(y_i)i,   sum_r a_ri = 0,   a_ri <= U_ri = C_i [r = y_i].

Its gradient is G_ri = f_r(x_i) - [r = y_i], and xi_i = max_r G_ri - G_(y_i)i. Hence

    P - D = sum_i sum_r (U_ri - a_ri) (max_s G_si - G_ri),   every term 0 or more,

vanishes where every a_ri below its bound has the largest gradient of its example. The violation of example i
is what is missing, v_i = max_r G_ri - min {G_ri: a_ri < U_ri} (0 if C_i = 0), as in LIBLINEAR, and the
stopping rule is max_i v_i <= tol, in units of values of classes: the margin is 1.

One example (a step). The others fixed, example i minimises G'd + A/2 |d|^2 over its k changes d, A = K_ii
(TAU where that is not positive). With b_r = a_ri - G_ri / A the solution is a_ri = min(U_ri, b_r + shift),
where shift makes the sum 0: U - a is the projection of U - b onto a simplex. Beginning with no class at its
bound, shift = -(sum of b over the classes below their bounds + sum of the other bounds) / how many are below;
with that shift more classes may reach their bounds, none leaves (Michelot 1986), so a few passes over the
classes end it. Replacing A by A / 1.6 over-relaxes the step, and still G'd <= -A/1.6 |d|^2: -D decreases.

A decomposition. A round takes the examples that entered in the last one (half of the set at most) and the
worst violators, SET of them in all. With the tile of their kernel values and a copy of their gradients, both
in cache, it sweeps over those that violate by more than 0.3 of what the worst of the set does, until that is
0.3 of what it was among all. A step costs w c multiplications and additions, w the size of the set, c the
classes whose coefficient changes. Then G += K change, columns in strips over all cores: that reads w rows of
m float32 values and costs w m c, the larger part of the time of a large problem. It is sparse in the classes:
with 26 of them (letter), 10 have a coefficient at a support vector.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from textsvm import parallel
from textsvm.errors import InputError
from textsvm.gram.base import Gram
from textsvm.parallel import Progress
from textsvm.solvers import crammer_singer_loop as loop
from textsvm.solvers.crammer_singer_problem import Problem, Solution, checked, starting_coef
from textsvm.solvers.solution import log_progress

#: Examples of a working set; not a power of two, or the classes of an example would compete for cache lines.
SET = 1000
#: Violation of the set, as a fraction of that of all examples, at which a round ends.
SHARE = 0.3
#: Steps after the first SET of a round, in units of the example's own best one; 0 to 2 decrease -D.
RELAXATION = 1.6
#: Steps of a round at most (some 50 ms).
BUDGET = 50_000
#: Rounds without progress after which no more is expected.
STALLS = 8
#: Multiplications and additions from which all cores are worth waking.
_THREADED = 1 << 24

NOT_FINITE = "the kernel matrix holds a value that is not a finite number"


def solve(
    gram: Gram,
    target: NDArray[np.integer],
    n_classes: int,
    C: float,
    sample_weight: ArrayLike | None = None,
    index: NDArray[np.int64] | None = None,
    tol: float = 1e-3,
    max_iter: int = -1,
    duality_gap: float | None = None,
    initial: NDArray[np.float64] | None = None,
    progress: Progress | None = None,
) -> Solution:
    """Solve the dual over a Gram, where the Gram lives.

    Parameters
    ----------
    gram : Gram, n rows
    target : int array, shape (m,)
        Class of each example, 0 to n_classes-1.
    n_classes : int
        2 or more.
    C : float
        Penalty of margin violations, > 0.
    sample_weight : array, shape (m,), optional
        Factors of C, >= 0; class weights come in here too.
    index : int64 array, shape (m,), optional
        Rows of the Gram that the examples are; 0..m-1 by default.
    tol : float
        Largest violation to accept, > 0, in units of decision values.
    max_iter : int
        Bound on the examples optimised; -1 is max(10 million, 100 m).
    duality_gap : float, optional
        Stop as well once the relative duality gap is at most this (the rule of the GTSVM paper).
    initial : float64 array, shape (n_classes, m), optional
        Coefficients to start from, such as the solution for another C: where they exceed the bounds of this
        one they are scaled down. Zeros by default.
    progress : callable, optional
        Called with (done, total), done growing from 0 to total on a logarithmic scale of the violation; may
        raise to stop.

    Returns
    -------
    Solution
        Also when the bound on iterations or the precision of float64 ended the work: see its `status`.

    Raises
    ------
    InputError
        If the problem does not fit the Gram, a parameter is out of range, `initial` is no such coefficients,
        or the Gram holds a value that is not a finite number.
    """
    problem = checked(gram, target, n_classes, C, sample_weight, index, tol, max_iter, duality_gap)
    coef = starting_coef(problem, initial)
    if not np.isfinite(gram.diag()[problem.index]).all():
        raise InputError(NOT_FINITE)
    if gram.device.kind == "cuda":
        from textsvm.solvers import crammer_singer_cuda

        return crammer_singer_cuda.solve(gram, problem, coef, progress)
    return _Run(gram, problem, coef, progress).solve()


class _Run:
    """One solve on the CPU."""

    def __init__(
        self, gram: Gram, problem: Problem, coef: NDArray[np.float64], progress: Progress | None
    ) -> None:
        self.gram, self.window = gram, gram.window()
        self.problem, self.coef, self.progress = problem, coef, progress
        m = len(problem)
        self.direct = bool((problem.index == np.arange(m)).all())
        self.limit = min(SET, m, self.window.capacity)
        self.top, self.low = np.empty(m), np.empty(m)
        self.members = np.zeros(0, np.int64)
        self.newcomers = np.zeros(0, np.int64)
        self.G = problem.start()
        moved = np.flatnonzero(coef.any(0))
        for start in range(0, max(1, len(moved)), self.limit):
            some = moved[start : start + self.limit]
            self.update(some, np.ascontiguousarray(coef[:, some]))

    def solve(self) -> Solution:
        problem = self.problem
        iterations, total, stalls = 0, 0.0, 0
        first = best = float((self.top - self.low).max(initial=0.0))
        while True:
            violation = self.top - self.low
            worst = float(violation.max(initial=0.0))
            best = min(best, worst)
            if self.progress is not None:
                self.progress(*log_progress(first, best, problem.tol))
            status = ""
            if worst <= problem.tol or self.gap_is_small():
                status = "converged"
            elif iterations >= problem.bound:
                status = f"stopped at {problem.bound:,} iterations"
            elif stalls >= STALLS:
                status = "stalled: no step is left in float64"
            if status:
                return problem.assess(self.coef, self.G, iterations, status)
            steps, decrease = self.round(violation, worst, min(BUDGET, problem.bound - iterations))
            iterations, total = iterations + steps, total + decrease
            stalls = stalls + 1 if decrease <= 1e-15 * total else 0

    def gap_is_small(self) -> bool:
        bound = self.problem.duality_gap
        return bound >= 0 and self.problem.figures(self.coef, self.G)[1] <= bound

    def round(self, violation: NDArray[np.float64], worst: float, budget: int) -> tuple[int, float]:
        """Choose a working set, optimise it, bring all gradients up to date."""
        problem = self.problem
        self.choose(violation)
        rows = problem.index[self.members]
        slots = self.resident(rows)
        tile = np.empty((len(rows), len(rows)), np.float32)
        read = partial(loop.gather, self.window.values, slots, rows, tile)
        _spread(read, len(rows), 2 * len(rows) * self.gram.n)
        # take, not [:, members]: that would put the classes of an example side by side.
        before, G = np.take(self.coef, self.members, 1), np.take(self.G, self.members, 1)
        coef = before.copy()
        whole = len(self.members) == len(problem)
        enough = 0.99 * problem.tol if whole else max(0.99 * problem.tol, SHARE * worst)
        w = len(rows)
        steps, decrease = loop.optimise(
            tile, G, coef, problem.target[self.members], problem.upper[self.members], enough, RELAXATION,
            budget, np.empty(w), np.empty(w),
        )  # fmt: skip
        self.coef[:, self.members] = coef
        self.update(self.members, coef - before)
        return int(steps), float(decrease)

    def choose(self, violation: NDArray[np.float64]) -> None:
        """Who entered in the last round stays; the worst violators come in."""
        kept = self.newcomers
        half = self.limit // 2 if self.limit > 3 else 0
        kept = kept[:: -(-len(kept) // half)] if half and len(kept) else kept[:0]
        wish = violation.copy()
        wish[kept] = -np.inf
        room = min(self.limit, len(wish)) - len(kept)
        worst = np.sort(np.argpartition(-wish, room - 1)[:room])
        worst = worst[wish[worst] > 0]
        self.newcomers = np.setdiff1d(worst, self.members)
        self.members = np.union1d(kept, worst)

    def resident(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Slots of these rows in the Gram's buffer, once they are there."""
        slots = self.window.slots[rows]
        if (slots < 0).any():
            self.window.refill(np.unique(rows))
            slots = self.window.slots[rows]
        return slots.astype(np.int64)

    def update(self, examples: NDArray[np.int64], change: NDArray[np.float64]) -> None:
        """G += K change and, on the way, the gradients that make up the violations."""
        problem = self.problem
        moved = np.flatnonzero(change.any(0))
        slots = self.resident(problem.index[examples[moved]])
        first, row, value = _sparse(change[:, moved])
        fine = []

        def strip(start: int, stop: int) -> None:
            loop.update(
                self.window.values, slots, problem.index, self.direct, first, row, value, self.G, start, stop
            )
            fine.append(
                loop.measure(
                    self.G, self.coef, problem.target, problem.upper, self.top, self.low, start, stop
                )
            )

        m = len(problem)
        _spread(strip, m, (len(value) + problem.n_classes) * m)
        if not all(fine):
            raise InputError(NOT_FINITE)


def _spread(function: Callable[[int, int], object], n: int, work: int) -> None:
    """Call function(start, stop) for parts of 0..n, on all cores if there is enough to do."""
    threads = parallel.n_threads() if work > _THREADED else 1
    width = n if threads == 1 else -(-n // (4 * threads) // 64) * 64
    pieces = [(start, min(start + width, n)) for start in range(0, n, width)]
    if len(pieces) == 1:
        function(0, n)
    else:
        parallel.run(lambda piece: function(*piece), pieces)


def _sparse(
    change: NDArray[np.float64],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """The changes that are not 0, as `loop.update` takes them."""
    k, w = change.shape
    firsts, rows, values = [np.zeros(1, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0)]
    for start in range(0, w, loop._CHUNK):
        part = change[:, start : start + loop._CHUNK]
        at = np.nonzero(part)
        firsts.append(firsts[-1][-1] + np.cumsum(np.bincount(at[0], minlength=k)))
        rows.append(at[1] + start)
        values.append(part[at])
    return np.concatenate(firsts), np.concatenate(rows), np.concatenate(values)
