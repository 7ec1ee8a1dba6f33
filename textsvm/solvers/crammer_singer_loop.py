"""The compiled loops of `textsvm.solvers.crammer_singer`: steps on a working set, and what follows from them.

Arrays over classes and examples have the shape (k, ..): a pass over the examples of one class is then a pass
over adjacent values, which LLVM vectorises.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from textsvm.compiled import njit

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
