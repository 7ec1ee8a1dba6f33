"""The compiled inner loop of `textsvm.solvers.smo`: optimises pairs of variables until Python has to act.

The passes over the variables are written so that LLVM vectorises them: they find extrema block by block, and
then the position inside the winning block. Indices are unsigned, which saves the test for negative numbers.
A small problem is solved by the same loop in Python, with the passes by NumPy, while Numba is not loaded.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from textsvm.runtime.compiled import njit, simd, use_numpy

#: Why the loop stopped.
BUDGET, OPTIMAL, MISSING, STALLED = 0, 1, 2, 3
TAU = 1e-12  #: Replaces curvature that is not positive (indefinite kernels, duplicates), as in LIBSVM.
#: Indices into the integer state.
AT_I, AT_J, CLOCK, NEXT = 0, 1, 2, 3
#: Indices into the float state: max of -F over UP, min of -F over DOWN, objective decrease.
FIRST, LAST, DECREASE = 0, 1, 2
_BLOCK = 512
#: Iterations by NumPy between two calls of `use_numpy`, and the entries that take NumPy as long as its calls.
_FEW, _CALLS = 100, 1000


def find_first(F: Any, up: Any, down: Any, row: Any, state: Any, extrema: Any) -> None:
    """Set AT_I, FIRST and LAST from scratch, as `_update` does after a step; `row` is any finite row."""
    update = _update_by_numpy if use_numpy(len(F)) else _update
    update(F, up, down, row, row, 0.0, state, extrema)


def iterate(budget: int, F: Any, *arguments: Any) -> tuple[int, int]:
    """Call `_iterate`, or its NumPy form with the same bits as long as `use_numpy` allows."""
    done = 0
    while use_numpy(_FEW * (len(F) + _CALLS)):
        with np.errstate(all="ignore"):  # as in compiled code; callers look for numbers that are not finite
            reason, more = _iterate_by_numpy(min(_FEW, budget - done), F, *arguments)
        done += more
        if reason != BUDGET or done == budget:
            return reason, done
    reason, more = _iterate(budget - done, F, *arguments)
    return reason, done + more


@njit(nogil=True, cache=True, error_model="numpy", inline="never")
def _update(F, up, down, row_i, row_j, step, state, extrema):
    """F += step (K_i - K_j); in the same pass find the next i and both extrema."""
    n = len(F)
    best, best_start, last = -np.inf, -1, -np.inf
    for start in range(0, n, _BLOCK):
        stop = min(start + _BLOCK, n)
        top = bottom = -np.inf
        for k in range(np.uint64(start), np.uint64(stop)):
            f = F[k] + step * (np.float64(row_i[k]) - np.float64(row_j[k]))
            F[k] = f
            top = simd.larger(top, up[k] - f)
            bottom = simd.larger(bottom, down[k] + f)
        if top > best:
            best, best_start = top, start
        last = max(last, bottom)
    state[AT_I] = -1
    if best_start >= 0:
        for k in range(best_start, min(best_start + _BLOCK, n)):
            if up[k] - F[k] == best:
                state[AT_I] = k
                break
    extrema[FIRST], extrema[LAST] = best, -last


@njit(nogil=True, cache=True, error_model="numpy", inline="never")
def _second(F, down, diag, row_i, first, diag_i, gains):
    """The j with the largest predicted decrease, (F_j - F_i)^2 / curvature, or -1.

    Float32 is enough for a choice.
    """
    n = len(F)
    best, best_start = np.float32(0), -1
    for start in range(0, n, _BLOCK):
        stop = min(start + _BLOCK, n)
        top = np.float32(0)
        for k in range(np.uint64(start), np.uint64(stop)):
            gap = np.float32(F[k] + down[k] + first)
            curvature = diag_i + diag[k] - np.float32(2) * row_i[k]
            curvature = curvature if curvature > np.float32(0) else np.float32(TAU)
            gain = gap * gap / curvature
            gain = gain if gap > np.float32(0) else np.float32(0)
            gains[k] = gain
            top = simd.larger(top, gain)
        if top > best:
            best, best_start = top, start
    if best_start >= 0:
        for k in range(best_start, min(best_start + _BLOCK, n)):
            if gains[k] == best:
                return k
    return -1


@njit(nogil=True, cache=True, error_model="numpy", inline="never")
def _row(k, other, rows, buffer, slots, used, tile, tile_slot, tile_owner, state):
    """Slot of the row of variable k in the tile (or in the buffer if there is no tile), or -1.

    A row that is in the buffer alone is copied into the tile, in place of a row other than that of `other`.
    """
    if len(tile) and tile_slot[k] >= 0:
        return tile_slot[k]
    slot = slots[rows[k]]
    if slot < 0:
        return -1
    used[slot] = state[CLOCK]
    if not len(tile):
        return slot
    place = state[NEXT]
    if other >= 0 and place == tile_slot[other]:
        place = (place + 1) % len(tile)
    state[NEXT] = (place + 1) % len(tile)
    if tile_owner[place] >= 0:
        tile_slot[tile_owner[place]] = -1
    tile_owner[place] = k
    tile_slot[k] = place
    source, target = buffer[slot], tile[place]
    for t in range(len(rows)):
        target[t] = source[rows[t]]
    return place


@njit(nogil=True, cache=True, error_model="numpy")
def _iterate(
    budget, F, tol, relaxation, buffer, slots, used,
    tile, tile_slot, tile_owner, rows, coef, low, high,
    up, down, diag, gains, state, extrema,
):  # fmt: skip
    """Optimise up to `budget` pairs of the k active variables, until FIRST - LAST is at most `tol`.

    `up` (`down`) is 0 where the coefficient can still grow (shrink), else -inf. `relaxation` is the step in
    units of the best step for the pair alone. `buffer`, `slots` and `used` are those of
    `textsvm.gram.base.Window`; `tile`, float32 of shape (t, k), has rows of active variables in their columns
    alone, and with t = 0 rows are read from the buffer. `rows` has the row of the Gram of each variable, and
    `state` and `extrema` are as in the constants above.

    Returns BUDGET, OPTIMAL, MISSING (rows AT_I and, if not -1, AT_J have to be loaded) or STALLED, and the
    number of pairs optimised.
    """
    store = tile if len(tile) else buffer
    for done in range(budget):
        i = state[AT_I]
        state[AT_J] = -1
        state[CLOCK] += 1
        if i < 0 or extrema[FIRST] - extrema[LAST] <= tol:
            return OPTIMAL, done
        at_i = _row(i, state[AT_J], rows, buffer, slots, used, tile, tile_slot, tile_owner, state)
        if at_i < 0:
            return MISSING, done
        row_i = store[at_i]
        j = _second(F, down, diag, row_i, extrema[FIRST], diag[i], gains)
        if j < 0:
            return STALLED, done
        at_j = _row(j, i, rows, buffer, slots, used, tile, tile_slot, tile_owner, state)
        if at_j < 0:
            state[AT_J] = j
            return MISSING, done
        curvature = np.float64(diag[i]) + np.float64(diag[j]) - 2.0 * np.float64(row_i[j])
        if curvature <= 0.0:
            curvature = np.float64(TAU)
        gap = F[j] - F[i]
        step = min(relaxation * gap / curvature, high[i] - coef[i], coef[j] - low[j])
        old_i, old_j = coef[i], coef[j]
        coef[i] = high[i] if step >= high[i] - old_i else old_i + step
        coef[j] = low[j] if step >= old_j - low[j] else old_j - step
        if coef[i] == old_i and coef[j] == old_j:
            return STALLED, done
        for k in (i, j):
            up[k] = 0.0 if coef[k] < high[k] else -np.inf
            down[k] = 0.0 if coef[k] > low[k] else -np.inf
        extrema[DECREASE] += step * (gap - 0.5 * curvature * step)
        _update(F, up, down, row_i, store[at_j], step, state, extrema)
    return BUDGET, budget


def _update_by_numpy(F, up, down, row_i, row_j, step, *results):
    state, extrema = results
    F += step * np.subtract(row_i[: len(F)], row_j[: len(F)], dtype=np.float64)
    top = up - F
    extrema[FIRST], extrema[LAST] = top.max(initial=-np.inf), -(down + F).max(initial=-np.inf)
    state[AT_I] = top.argmax() if extrema[FIRST] > -np.inf else -1


def _second_by_numpy(F, down, diag, row_i, first, diag_i, gains):
    gap = np.fmax((F + down + first).astype(np.float32), np.float32(0))
    curvature = diag_i + diag - np.float32(2) * row_i[: len(F)]
    gains[:] = gap * gap / np.where(curvature > 0, curvature, np.float32(TAU))
    j = int(gains.argmax())
    return j if gains[j] > 0 else -1


#: A loop over all columns takes one step, with a slice as its index.
_row_by_numpy = _row.in_python(range=lambda n: [slice(n)])
_iterate_by_numpy = _iterate.in_python(_row=_row_by_numpy, _second=_second_by_numpy, _update=_update_by_numpy)


def add_rows(F: Any, columns: Any, change: Any, at: Any, buffer: Any) -> None:
    """F[v] += sum over k of change[k] buffer[at[k], columns[v]]; bits do not depend on how F is divided."""
    if use_numpy(len(at) * len(F)):
        for factor, row in zip(change, buffer[at], strict=True):
            F += factor * row[columns].astype(np.float64)
    else:
        _add_rows(F, columns, change, at, buffer)


@njit(nogil=True, cache=True, error_model="numpy")
def _add_rows(F, columns, change, at, buffer):
    left = len(at) % 4
    for k in range(left):
        row = buffer[at[k]]
        for v in range(len(F)):
            F[v] += change[k] * np.float64(row[columns[v]])
    for k in range(left, len(at), 4):
        a, b, c, d = buffer[at[k]], buffer[at[k + 1]], buffer[at[k + 2]], buffer[at[k + 3]]
        for v in range(len(F)):
            t = columns[v]
            f = F[v] + change[k] * np.float64(a[t])
            f += change[k + 1] * np.float64(b[t])
            f += change[k + 2] * np.float64(c[t])
            F[v] = f + change[k + 3] * np.float64(d[t])
