"""The multiclass dual on the CPU: rounds of a working set in one thread and of all gradients on all cores.

The problem, the step of one example and the rounds are those of `textsvm.solvers.crammer_singer`; the loops
are `textsvm.solvers.crammer_singer_cpu`. Columns of the gradients are spread in strips over all cores, or
stay in the thread of the chain when chains run side by side (`textsvm.solvers.chains`): the same bits.

The compiled loops of `textsvm.solvers.crammer_singer`: steps on a working set, and what follows from them.

Arrays over classes and examples have the shape (k, ..): a pass over the examples of one class is then a pass
over adjacent values, which LLVM vectorises.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.errors import InputError
from textsvm.gram.base import Gram
from textsvm.runtime import parallel
from textsvm.runtime.compiled import njit
from textsvm.runtime.parallel import Progress
from textsvm.solvers.dual import MulticlassDual
from textsvm.solvers.solution import (
    NO_STEP_LEFT,
    NOT_FINITE,
    Solution,
    Stopping,
    assess_multiclass,
    log_progress,
    objective_and_gap,
    rounding,
)
from textsvm.solvers.warm_start import start_multiclass
from textsvm.solvers.workingset import RELAXATION, RENEWALS, ROUNDING, SHARE

#: Curvature in place of one that is not positive (indefinite kernels, empty documents), as in LIBSVM.
TAU = 1e-12
#: Examples of a sweep: those whose violation is above this fraction of the largest in the set.
_SWEEP = 0.3
#: Columns at a time, and rows at a time: with their kernel values they stay in a core's cache.
_STRIP, CHUNK = 512, 256


@njit(nogil=True, cache=True, error_model="numpy")
def measure(G: Any, coef: Any, target: Any, upper: Any, top: Any, low: Any, start: Any, stop: Any) -> Any:
    """Of each example from start to stop, the largest gradient and the smallest of those that can grow.

    `low` is inf where none can. False if a gradient is not finite.
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
def _strip(direct: Any, buffer: Any, slots: Any, tile: Any, p: Any, left: Any, width: Any) -> Any:
    """A strip of row p, where it stands or from the tile."""
    if direct:
        return buffer[slots[p], left : left + width]
    return tile[p % CHUNK, :width]


@njit(nogil=True, cache=True, error_model="numpy")
def update(
    buffer: Any, slots: Any, index: Any, direct: Any, first: Any, row: Any, value: Any, G: Any,
    start: Any, stop: Any,
) -> Any:  # fmt: skip
    """G[r, c] += sum of value K(row, c) over the changes of class r, for the columns start <= c < stop.

    Parameters
    ----------
    buffer : float32 array, shape (capacity, n)
    slots : int64 array, shape (w,)
        Where the w rows are in the buffer.
    index : int64 array, shape (m,)
        Column of the Gram of each example.
    direct : bool
        `index` is 0..m-1.
    first : int64 array, shape (chunks * k + 1,)
        Where the changes of each class begin, chunk of rows by chunk of rows.
    row, value : int64, float64 arrays
        A change: which of the w rows, and by how much.
    G : float64 array, shape (k, m)
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
def gather(buffer: Any, slots: Any, rows: Any, tile: Any, start: Any, stop: Any) -> Any:
    """Rows start to stop of the tile, float32 (w, w): the kernel values of the w examples of a set."""
    for p in range(start, stop):
        source = buffer[slots[p]]
        for q in range(len(rows)):
            tile[p, q] = source[rows[q]]


@njit(nogil=True, cache=True, error_model="numpy")
def _best(G: Any, coef: Any, i: Any, y: Any, upper: Any, curvature: Any, new: Any) -> Any:
    """new[r] = the coefficients of example i that minimise its subproblem; see the derivation."""
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
def optimise(
    tile: Any, G: Any, coef: Any, target: Any, upper: Any, enough: Any, relaxation: Any, budget: Any,
    top: Any, low: Any,
) -> Any:  # fmt: skip
    """Sweep over the w examples of a working set until none violates by more than `enough`.

    Parameters
    ----------
    tile : float32 array, shape (w, w)
        Their kernel values.
    G, coef : float64 arrays, shape (k, w)
    target, upper : int64, float64 arrays, shape (w,)
    enough : float
    relaxation : float
        Step, after the first w, in units of the example's own best one.
    budget : int
        Most steps.
    top, low : float64 arrays, shape (w,), for `measure`

    Returns
    -------
    steps : int
    decrease : float
        Of the objective.
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
            # top was measured before the sweep; what the sweep has mended since is left alone.
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


#: Examples of a working set; not a power of two, or the classes of an example would compete for cache lines.
SET = 1000
#: Steps of a round at most (some 50 ms).
BUDGET = 50_000
#: Rounds in a row that lower -D by no more than rounding, after which no more is expected.
STALLS = 8
#: Multiplications and additions from which all cores are worth waking.
_THREADED = 1 << 24


def solve_chain(
    gram: Gram,
    chain: Sequence[MulticlassDual],
    coef: NDArray[np.float64],
    stopping: Stopping,
    progress: Progress,
) -> list[Solution]:
    """Solve a chain of problems over a Gram in host memory, starting from `coef`, a copy of the caller's."""
    solutions: list[Solution] = []
    for j, dual in enumerate(chain):
        if j:
            coef = start_multiclass(dual, solutions[-1].coef)
        of_problem = parallel.part(progress, j, 1, len(chain))
        assert of_problem is not None
        solutions.append(Run(gram, dual, coef, stopping, of_problem).solve())
    return solutions


class Run:
    """One solve.

    Parameters
    ----------
    gram : Gram, n rows
    dual : MulticlassDual, m examples
    coef : float64 array, shape (n_classes, m)
        To start from, feasible; it is changed.
    stopping : Stopping
    progress : callable
    """

    def __init__(
        self,
        gram: Gram,
        dual: MulticlassDual,
        coef: NDArray[np.float64],
        stopping: Stopping,
        progress: Progress,
    ) -> None:
        self.gram, self.window = gram, gram.window()
        self.dual, self.coef, self.stopping, self.progress = dual, coef, stopping, progress
        m = len(dual)
        self.direct = bool((dual.index == np.arange(m)).all())
        self.limit = min(SET, m, self.window.capacity)
        self.top, self.low = np.empty(m), np.empty(m)
        self.members = np.zeros(0, np.int64)
        self.newcomers = np.zeros(0, np.int64)
        #: The largest kernel value that has been seen.
        self.largest = 0.0
        self.renew()

    def renew(self) -> None:
        """Make the gradients, and the violations, from the coefficients alone."""
        self.G, self.steps = self.dual.gradient_at_zero(), 0
        moved = np.flatnonzero(self.coef.any(0))
        for start in range(0, max(1, len(moved)), self.limit):
            some = moved[start : start + self.limit]
            self.update(some, np.ascontiguousarray(self.coef[:, some]))

    def solve(self) -> Solution:
        tol, bound = self.stopping.tol, self.stopping.bound(len(self.dual))
        iterations, total, stalls, renewals = 0, 0.0, 0, 0
        first = best = float((self.top - self.low).max(initial=0.0))
        while True:
            violation = self.top - self.low
            worst = float(violation.max(initial=0.0))
            best = min(best, worst)
            self.progress(*log_progress(first, best, tol))
            status = ""
            if worst <= tol or self.gap_is_small():
                status = "converged"
            elif iterations >= bound:
                status = f"stopped at {bound:,} iterations"
            elif stalls >= STALLS:
                status = NO_STEP_LEFT
            doubted = bool(status) and self.rounding() > ROUNDING * tol
            if doubted and renewals < RENEWALS and iterations < bound:
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
        """About how far the gradients may be from those of the coefficients."""
        values = np.abs(self.coef)
        return rounding(float(values.sum(1).max()), float(values.max()), self.largest, self.steps)

    def assessed(self, status: str, iterations: int, doubted: bool) -> Solution:
        """The solution; its gradients anew where they may be off, or the run has stopped short."""
        if self.steps and (doubted or status != "converged"):
            self.renew()
        why = NO_STEP_LEFT if status == "converged" else status
        return assess_multiclass(self.dual, self.coef, self.G, iterations, why, self.stopping)

    def gap_is_small(self) -> bool:
        if self.stopping.duality_gap is None:
            return False
        return self.stopping.satisfied(objective_and_gap(self.dual, self.coef, self.G)[1])

    def round(self, violation: NDArray[np.float64], worst: float, budget: int) -> tuple[int, float]:
        """Choose a working set, optimise it, bring all gradients up to date."""
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
        enough = 0.99 * tol if whole else max(0.99 * tol, SHARE * worst)
        w = len(rows)
        steps, decrease = optimise(
            tile, G, coef, dual.target[self.members], dual.upper[self.members], enough, RELAXATION,
            budget, np.empty(w), np.empty(w),
        )  # fmt: skip
        self.coef[:, self.members] = coef
        self.update(self.members, coef - before)
        return int(steps), float(decrease)

    def choose(self, violation: NDArray[np.float64]) -> None:
        """Who entered in the last round stays; the worst violators come in."""
        staying = self.newcomers
        half = self.limit // 2 if self.limit > 3 else 0
        staying = staying[:: -(-len(staying) // half)] if half and len(staying) else staying[:0]
        wish = violation.copy()
        wish[staying] = -np.inf
        room = min(self.limit, len(wish)) - len(staying)
        worst = np.sort(np.argpartition(-wish, room - 1)[:room])
        worst = worst[wish[worst] > 0]
        self.newcomers = np.setdiff1d(worst, self.members)
        self.members = np.union1d(staying, worst)

    def resident(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Slots of these rows in the Gram's buffer, once they are there."""
        slots = self.window.slots[rows]
        if (slots < 0).any():
            self.window.refill(np.unique(rows))
            slots = self.window.slots[rows]
        return slots.astype(np.int64)

    def update(self, examples: NDArray[np.int64], change: NDArray[np.float64]) -> None:
        """G += K change and, on the way, the gradients that make up the violations."""
        dual = self.dual
        moved = np.flatnonzero(change.any(0))
        slots = self.resident(dual.index[examples[moved]])
        first, row, value = _sparse(change[:, moved])
        fine = []

        def strip(start: int, stop: int) -> None:
            update(self.window.values, slots, dual.index, self.direct, first, row, value, self.G, start, stop)
            fine.append(measure(self.G, self.coef, dual.target, dual.upper, self.top, self.low, start, stop))

        m = len(dual)
        _spread(strip, m, (len(value) + dual.n_classes) * m)
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
    """The changes that are not 0, as `update` takes them."""
    k, w = change.shape
    firsts, rows, values = [np.zeros(1, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0)]
    for start in range(0, w, CHUNK):
        part = change[:, start : start + CHUNK]
        at = np.nonzero(part)
        firsts.append(firsts[-1][-1] + np.cumsum(np.bincount(at[0], minlength=k)))
        rows.append(at[1] + start)
        values.append(part[at])
    return np.concatenate(firsts), np.concatenate(rows), np.concatenate(values)
