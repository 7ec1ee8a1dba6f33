"""Crammer and Singer's multiclass machine (2001), in the form of the GTSVM paper: no bias.

k classes, m examples with classes y_i and weights w_i. Class r has the value f_r(x) = sum_i a_ri K(x_i, x),
and the largest value wins. With C_i = C w_i the machine minimises

    P = 1/2 sum_r a_r'K a_r + sum_i C_i xi_i,   xi_i = max_r (1 - [r = y_i] + f_r(x_i) - f_(y_i)(x_i)),

C on the scale of the GTSVM paper (Cotter, Srebro and Keshet 2011, eq. 3) and of LIBLINEAR's -s 4. Its dual,
which is solved here, is over a, k x m (K in float32, everything else in float64):

    minimise  -D = 1/2 sum_r a_r'K a_r - sum_i a_(y_i)i,   sum_r a_ri = 0,   a_ri <= U_ri = C_i [r = y_i].

The gradient is G_ri = f_r(x_i) - [r = y_i], and xi_i = max_r G_ri - G_(y_i)i. Hence

    P - D = sum_i sum_r (U_ri - a_ri) (max_s G_si - G_ri),   every term 0 or more,

vanishes where every a_ri below its bound has the largest gradient of its example. The violation of example i
is v_i = max_r G_ri - min {G_ri: a_ri < U_ri} (0 if C_i = 0), as in LIBLINEAR, and the
stopping rule is max_i v_i <= tol, in units of values of classes: the margin is 1.

A step. With other examples fixed, example i minimises G'd + A/2 |d|^2 over its k changes d, A = K_ii
(TAU where that is not positive). With b_r = a_ri - G_ri / A the solution is a_ri = min(U_ri, b_r + shift),
where shift makes the sum 0: U - a is the projection of U - b onto a simplex. Beginning with no class at its
bound, shift = -(sum of b over the classes below their bounds + sum of the other bounds) / number of classes
below; with that shift more classes may reach their bounds, none leaves (Michelot 1986), so a few passes over
the classes suffice. Replacing A by A / 1.6 over-relaxes the step, and still G'd <= -A/1.6 |d|^2: -D
decreases.

A decomposition. A round takes the examples that entered in the last round (half of the set at most) and the
worst violators, some 1,000 in all. With the tile of their kernel values and a copy of their gradients, both
in cache, it sweeps over the examples whose violation is more than 0.3 of the largest in the set, until the
largest is 0.3 of the largest among all examples before the round. A step costs w c multiplications and
additions, w the size of the set, c the classes whose coefficient changes. Then G += K change: that reads w
rows of m float32 values and costs w m c, the larger part of the time of a large problem. It is sparse in the
classes: with 26 of them (letter), 10 have a coefficient at a support vector.

Rounds run in one thread; columns of the gradients are spread in strips over all cores, or stay in the thread
of the chain when chains run side by side (`textsvm.solvers.solve`): the bits are the same. Arrays over
classes and examples have the shape (k, ..): a pass over the examples of one class is then a pass over
adjacent values, which LLVM vectorises.

This is the CPU twin; the GPU twin is `textsvm.solvers.crammer_singer_cuda`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from textsvm.arrays import Floats, Ints
from textsvm.errors import InputError
from textsvm.gram.base import Gram
from textsvm.runtime import parallel
from textsvm.runtime.compiled import njit
from textsvm.runtime.parallel import Progress, run
from textsvm.solvers import solution
from textsvm.solvers.dual import MulticlassDual

TAU = 1e-12  #: Replaces curvature that is not positive (indefinite kernels, empty documents), as in LIBSVM.
#: Examples of a working set; not a power of two, or the classes of an example would compete for cache lines.
SET = 1000
BUDGET = 50_000  #: Maximum number of steps of a round (some 50 ms).
STALLS = 8  #: Consecutive rounds without progress, up to rounding, after which the run ends.
_SWEEP = 0.3  #: A sweep takes the examples whose violation is above this fraction of the largest in the set.
#: Columns at a time, and rows at a time: with their kernel values they stay in a core's cache.
_STRIP, CHUNK = 512, 256
_THREADED = 1 << 24  #: Multiplications and additions above which several threads are used.


class MulticlassRun:
    """A run of the solver from feasible coefficients, shape (n_classes, m), which are overwritten."""

    def __init__(
        self, gram: Gram, dual: MulticlassDual, coef: Floats, stopping: solution.Stopping, progress: Progress
    ) -> None:
        self.gram, self.window = gram, gram.window()
        self.dual, self.coef, self.stopping, self.progress = dual, coef, stopping, progress
        m = len(dual)
        self.direct = bool((dual.index == np.arange(m)).all())
        self.limit = min(SET, m, self.window.capacity)
        self.top, self.low = np.empty(m), np.empty(m)
        #: The working set, and its examples that were not in the previous set.
        self.members = self.newcomers = np.zeros(0, np.int64)
        self.largest = 0.0  #: The largest kernel value that has been seen.
        self.renew()

    def renew(self) -> None:
        """Compute the gradients and violations anew, from the coefficients alone."""
        self.G, self.steps = self.dual.gradient_at_zero(), 0
        moved = np.flatnonzero(self.coef.any(0))
        for start in range(0, max(1, len(moved)), self.limit):
            block = moved[start : start + self.limit]
            self.update(block, np.ascontiguousarray(self.coef[:, block]))

    def solve(self) -> solution.Solution:
        tol, bound = self.stopping.tol, self.stopping.max_iterations(len(self.dual))
        iterations, total, stalls, renewals = 0, 0.0, 0, 0
        first = best = float((self.top - self.low).max(initial=0.0))
        while True:
            violation = self.top - self.low
            worst = float(violation.max(initial=0.0))
            best = min(best, worst)
            self.progress(*solution.log_progress(first, best, tol))
            status = ""
            if worst <= tol or (
                self.stopping.duality_gap is not None
                and self.stopping.satisfied(solution.objective_and_gap(self.dual, self.coef, self.G)[1])
            ):
                status = "converged"
            elif iterations >= bound:
                status = f"stopped at {bound:,} iterations"
            elif stalls >= STALLS:
                status = solution.NO_STEP_LEFT
            doubted = bool(status) and self.rounding() > solution.ROUNDING * tol
            if doubted and renewals < solution.RENEWALS and iterations < bound:
                self.renew()
                renewals, stalls = renewals + 1, 0
            elif status:
                return self.assessed(status, iterations, doubted)
            else:
                steps, decrease = self.round(violation, worst, min(BUDGET, bound - iterations))
                iterations, total = iterations + steps, total + decrease
                self.steps += steps
                stalls = stalls + 1 if decrease <= 1e-15 * total else 0

    def rounding(self) -> float:
        """Estimated error of the gradients."""
        values = np.abs(self.coef)
        return solution.rounding(float(values.sum(1).max()), float(values.max()), self.largest, self.steps)

    def assessed(self, status: str, iterations: int, doubted: bool) -> solution.Solution:
        """The solution; gradients that may be inaccurate, or of an incomplete run, are computed anew."""
        if self.steps and (doubted or status != "converged"):
            self.renew()
        status = solution.NO_STEP_LEFT if status == "converged" else status
        return solution.assess_multiclass(self.dual, self.coef, self.G, iterations, status, self.stopping)

    def round(self, violation: Floats, worst: float, budget: int) -> tuple[int, float]:
        """Choose a working set, optimise it and update all gradients; return the steps and the decrease."""
        dual, tol = self.dual, self.stopping.tol
        self.choose(violation)
        rows = dual.index[self.members]
        slots = self.resident(rows)
        tile = np.empty((len(rows), len(rows)), np.float32)
        read = partial(gather, self.window.values, slots, rows, tile)
        _spread(read, len(rows), 2 * len(rows) * self.gram.n)
        for values in (tile[0], tile.diagonal()):
            self.largest = max(self.largest, float(np.abs(values).max()))
        # take, not [:, members]: that would put the classes of an example side by side.
        before, G = np.take(self.coef, self.members, 1), np.take(self.G, self.members, 1)
        coef = before.copy()
        whole = len(self.members) == len(dual)
        enough = 0.99 * tol if whole else max(0.99 * tol, solution.SHARE * worst)
        w = len(rows)
        steps, decrease = optimise(
            tile, G, coef, dual.target[self.members], dual.upper[self.members], enough, solution.RELAXATION,
            budget, np.empty(w), np.empty(w),
        )  # fmt: skip
        self.coef[:, self.members] = coef
        self.update(self.members, coef - before)
        return int(steps), float(decrease)

    def choose(self, violation: Floats) -> None:
        """Keep the examples that entered in the last round, and add the worst violators."""
        staying = self.newcomers
        half = self.limit // 2 if self.limit > 3 else 0
        staying = staying[:: -(-len(staying) // half)] if half and len(staying) else staying[:0]
        priority = violation.copy()
        priority[staying] = -np.inf
        room = min(self.limit, len(priority)) - len(staying)
        worst = np.sort(np.argpartition(-priority, room - 1)[:room])
        worst = worst[priority[worst] > 0]
        self.newcomers = np.setdiff1d(worst, self.members)
        self.members = np.union1d(staying, worst)

    def resident(self, rows: Ints) -> Ints:
        """Load these rows into the Gram's buffer, and return their slots."""
        slots = self.window.slots[rows]
        if (slots < 0).any():
            self.window.refill(np.unique(rows))
            slots = self.window.slots[rows]
        return slots.astype(np.int64)

    def update(self, examples: Ints, change: Floats) -> None:
        """G += K change; update the extreme gradients, which the violations are computed from."""
        dual = self.dual
        moved = np.flatnonzero(change.any(0))
        slots = self.resident(dual.index[examples[moved]])
        first, row, value = _sparse(change[:, moved])
        finite = []

        def strip(start: int, stop: int) -> None:
            update(self.window.values, slots, dual.index, self.direct, first, row, value, self.G, start, stop)
            extremes = self.top, self.low
            finite.append(measure(self.G, self.coef, dual.target, dual.upper, *extremes, start, stop))

        m = len(dual)
        _spread(strip, m, (len(value) + dual.n_classes) * m)
        if not all(finite):
            raise InputError(solution.NOT_FINITE)


def _spread(function: Callable[[int, int], object], n: int, work: int) -> None:
    """Call function(start, stop) for parts of 0..n, on all cores if there is enough work."""
    threads = parallel.n_threads() if work > _THREADED else 1
    width = n if threads == 1 else -(-n // (4 * threads) // 64) * 64
    pieces = [(start, min(start + width, n)) for start in range(0, n, width)]
    run(lambda piece: function(*piece), pieces)


def _sparse(change: Floats) -> tuple[Ints, Ints, Floats]:
    """The changes that are not 0, as (first, row, value) of `update`."""
    k, w = change.shape
    firsts, rows, values = [np.zeros(1, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0)]
    for start in range(0, w, CHUNK):
        part = change[:, start : start + CHUNK]
        at = np.nonzero(part)
        firsts.append(firsts[-1][-1] + np.cumsum(np.bincount(at[0], minlength=k)))
        rows.append(at[1] + start)
        values.append(part[at])
    return np.concatenate(firsts), np.concatenate(rows), np.concatenate(values)


@njit(nogil=True, cache=True, error_model="numpy")
def measure(G, coef, target, upper, top, low, start, stop):
    """Set the largest gradient of each example, and the smallest of classes that can grow (inf if none).

    Returns False if a gradient is not finite.
    """
    bad = 0
    for c in range(start, stop):
        top[c], low[c] = -np.inf, np.inf
    for r in range(len(G)):
        g, a = G[r], coef[r]
        for c in range(start, stop):
            x = g[c]
            grows = a[c] < (upper[c] if target[c] == r else 0.0)
            y = x if grows else np.inf
            top[c] = x if x > top[c] else top[c]
            low[c] = y if y < low[c] else low[c]
            bad += 1 if x - x != 0.0 else 0
    return bad == 0


@njit(nogil=True, cache=True, error_model="numpy")
def _strip(direct, buffer, slots, tile, p, left, width):
    """A strip of row p, in place in the buffer or from the tile."""
    if direct:
        return buffer[slots[p], left : left + width]
    return tile[p % CHUNK, :width]


@njit(nogil=True, cache=True, error_model="numpy")
def update(buffer, slots, index, direct, first, row, value, G, start, stop):
    """G[r, c] += sum of value K(row, c) over the changes of class r, for the columns start <= c < stop.

    The w rows are in `slots` of the buffer; `index`, shape (m,), is the column of the Gram of each example
    (0..m-1 if `direct`). `row` and `value` are the changes, sorted by chunk of rows and then by class, `row`
    counted among the w; `first`, shape (chunks * k + 1,), is the start of each chunk and class.
    """
    k, w = len(G), len(slots)
    tile = np.empty((min(w, CHUNK), _STRIP), np.float32)
    for left in range(start, stop, _STRIP):
        width = min(_STRIP, stop - left)
        for chunk in range(0, w, CHUNK):
            if not direct:
                for p in range(chunk, min(chunk + CHUNK, w)):
                    source, copy = buffer[slots[p]], tile[p - chunk]
                    for c in range(width):
                        copy[c] = source[index[left + c]]
            for r in range(k):
                g = G[r, left : left + width]
                at = chunk // CHUNK * k + r
                q, end = first[at], first[at + 1]
                while q + 4 <= end:
                    t0 = _strip(direct, buffer, slots, tile, row[q], left, width)
                    t1 = _strip(direct, buffer, slots, tile, row[q + 1], left, width)
                    t2 = _strip(direct, buffer, slots, tile, row[q + 2], left, width)
                    t3 = _strip(direct, buffer, slots, tile, row[q + 3], left, width)
                    v0, v1, v2, v3 = value[q], value[q + 1], value[q + 2], value[q + 3]
                    for c in range(width):
                        g[c] += (v0 * t0[c] + v1 * t1[c]) + (v2 * t2[c] + v3 * t3[c])
                    q += 4
                while q < end:
                    t0, v0 = _strip(direct, buffer, slots, tile, row[q], left, width), value[q]
                    for c in range(width):
                        g[c] += v0 * t0[c]
                    q += 1


@njit(nogil=True, cache=True, error_model="numpy")
def gather(buffer, slots, rows, tile, start, stop):
    """Fill rows start to stop of the tile, float32 (w, w): the kernel values of the w examples of a set."""
    for p in range(start, stop):
        source = buffer[slots[p]]
        for q in range(len(rows)):
            tile[p, q] = source[rows[q]]


@njit(nogil=True, cache=True, error_model="numpy")
def _best(G, coef, i, y, upper, curvature, new):
    """new[r] = the coefficients of example i that minimise its subproblem (see the head of this module)."""
    k = len(G)
    total = 0.0
    for r in range(k):
        new[r] = coef[r, i] - G[r, i] / curvature
        total += new[r]
    free, shift = k, -total / k
    while True:
        total, count = 0.0, 0
        for r in range(k):
            bound = upper if r == y else 0.0
            below = new[r] + shift < bound
            count += 1 if below else 0
            total += new[r] if below else bound
        if count >= free or count == 0:
            break
        free, shift = count, -total / count
    total = 0.0
    for r in range(k):
        if r != y:
            new[r] = min(0.0, new[r] + shift)
            total -= new[r]
    if new[y] + shift >= upper or total >= upper:
        new[y] = upper
        if total <= 0.0:  # the shift was lost in rounding: all to the other class with the largest gradient
            worst = 1 if y == 0 else 0
            for r in range(k):
                if r != y and G[r, i] > G[worst, i]:
                    worst = r
            new[worst] = -upper
            return
        for r in range(k):
            if r != y:
                new[r] *= upper / total
    else:
        new[y] = total


@njit(nogil=True, cache=True, error_model="numpy")
def optimise(tile, G, coef, target, upper, enough, relaxation, budget, top, low):
    """Sweep over the w examples of a working set until the largest violation is at most `enough`.

    `tile` holds their kernel values, shape (w, w). Steps after the first w are `relaxation` times the best
    step of the example alone. Returns the number of steps, at most `budget`, and the objective decrease.
    """
    k, w = G.shape
    new = np.empty(k)
    steps, decrease = 0, 0.0
    while True:
        measure(G, coef, target, upper, top, low, 0, w)
        worst = 0.0
        for i in range(w):
            top[i] -= low[i]
            worst = max(worst, top[i])
        if not worst > enough or steps >= budget:
            return steps, decrease
        least = max(enough, _SWEEP * worst)
        moved = False
        for i in range(w):
            # top is from before the sweep: skip examples that other steps have brought to the optimum since.
            if top[i] <= least or steps >= budget:
                continue
            y = target[i]
            highest, lowest = -np.inf, np.inf
            for r in range(k):
                highest = max(highest, G[r, i])
                if coef[r, i] < (upper[i] if r == y else 0.0):
                    lowest = min(lowest, G[r, i])
            if highest - lowest <= least:
                continue
            own = max(np.float64(tile[i, i]), TAU)
            _best(G, coef, i, y, upper[i], own if steps < w else own / relaxation, new)
            values = tile[i]
            for r in range(k):
                change = new[r] - coef[r, i]
                if change != 0.0:
                    moved = True
                    coef[r, i] = new[r]
                    decrease -= change * (G[r, i] + 0.5 * np.float64(tile[i, i]) * change)
                    g = G[r]
                    for c in range(w):
                        g[c] += change * values[c]
            steps += 1
        if not moved:
            return steps, decrease
