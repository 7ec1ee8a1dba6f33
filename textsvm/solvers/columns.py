"""Machines from sparse features: dual coordinate descent over the rows (hinge loss, free bias).

A machine has signs y and a box. Row i is read, its value f = w . x_i + b is computed, alpha takes its best
step

    alpha <- clip(alpha - (y f + r alpha - 1) / (|x|^2 + r), 0, U),       w += (change of y alpha) x_i,

and the row is read once more if it changed. r_i is the ridge of `textsvm.linalg.rows`. Several machines are
trained by several threads: to read a row for all of them at once took 1.4 to 2.4 times as long, as near the
optimum each machine moves other rows.

The bias is not penalised, so y'alpha = 0 must hold. Method of multipliers: b is the multiplier, a step of
alpha moves it by rho y as if it were the weight of a feature sqrt(rho), and each epoch adds rho y'alpha once
more; rho grows where y'alpha does not fall. The rest of y'alpha at the end, less than the tolerance, is taken
from the free alphas.

Rows whose alphas are at a bound, and whose gradients clearly keep them there, are left out until the others
are done (shrinking, as in LIBLINEAR). Up to `PARTIAL` epochs after each epoch of all active rows visit only
the rows whose violation was large at their last visit: near the optimum these are few. Blocks of rows are
visited in random order, and the rows of a block in the order of memory.

Hsieh et al. 2008 (dual coordinate descent); Glasmachers and Dogan 2013 (rows visited at different
frequencies); Hestenes 1969 (multipliers).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.arrays import AnyArray, Floats32, Ints
from textsvm.linalg.rows import FeatureRows
from textsvm.linalg.sparse import unsigned
from textsvm.runtime.compiled import njit, simd
from textsvm.runtime.parallel import run

#: The square of the bias feature at first, for rows of mean k(s, s) = 1. It is small, as a
#: feature that all rows share shortens steps and couples the rows: with 1, descent takes 1.5 to 2 times as
#: many visits of rows.
RHO = 0.03
#: It becomes four times as large, up to 1, after an epoch in which the condition of the bias is violated 100
#: times as much as any row, and not by half as much as before: with a small C, most rows are at a bound.
AHEAD_OF_ROWS, SLOW = 100.0, 0.5
LINE = 16  #: Features or values in a cache line.
AHEAD = 2  #: A row is prefetched so many rows before it is read.
#: Maximum number of rows of a block: neighbours in memory are read faster, larger blocks converge slower.
BLOCK = 8
#: Rows visited per row of a block: short epochs have smaller blocks, so that their order stays random.
FEW = 512
#: Rows at a bound with a gradient above this multiple of the largest violation are left out.
SHRINK = np.float32(0.5)
#: Rows that are left out are checked for the first time at a violation of so many tolerances.
REOPEN = np.float32(10)
COLD = np.float32(0.1)  #: Partial epochs skip rows with a violation below this share of the largest.
PARTIAL = 4  #: Maximum number of partial epochs after each epoch of all active rows.


def solve_columns(
    rows: FeatureRows, index: Ints, signs: NDArray[np.int8], box: Floats32, tol: float, max_epochs: int
) -> tuple[Floats32, Floats32]:
    """Train m machines on the rows `index`; weights, shape (m, n_features), and biases, shape (m,).

    Signs (-1 or +1) have a column for each machine, shape (n, m); `box` are the upper bounds of alpha. Stops
    when no alpha violates its optimality condition by more than `tol` and |y'alpha| is at most `tol`, or
    after `max_epochs`.
    """
    m, descent = signs.shape[1], Descent(rows, index)
    weights, bias = np.zeros((m, rows.x.n_features), np.float32), np.zeros(m, np.float32)

    def solve_machine(c: int) -> None:
        own, alpha = np.ascontiguousarray(signs[:, c]), np.zeros(len(signs), np.float32)
        descent.solve_column(index.copy(), (own, box, weights[c], alpha, bias[c : c + 1]), tol, max_epochs)

    run(solve_machine, range(m))
    return weights, bias


class Descent:
    """Coordinate descent over the rows `index`, in a pseudo-random order."""

    def __init__(self, rows: FeatureRows, index: Ints) -> None:
        x, squares, ridge = rows.x, rows.x.squares().astype(np.float32), rows.ridge.astype(np.float32)
        self.rows, self.index = rows, index
        #: Rows as the compiled loops read them.
        self.arrays = unsigned(x.indptr), unsigned(x.features), x.values, squares, ridge
        mean = float(np.mean(squares[index], dtype=np.float64) + np.mean(ridge[index], dtype=np.float64))
        #: Mean k(s, s) of the rows, 1 if it is 0: the unit of the square of the bias feature.
        self.square = mean if mean > 0 else 1.0

    def solve_column(
        self, order: Ints, column: tuple[AnyArray, ...], tol: float, max_epochs: int
    ) -> tuple[int, float]:
        """Train a machine on the rows `order`; the epochs and the largest violation.

        `order`, ascending, is permuted. `column` holds 1-d arrays: signs, box, weights, alpha, and the bias,
        of length 1; the last three are updated.
        """
        signs, box, weights, *rest = column
        dense = weights[len(weights) - self.rows.dense :]
        arguments: Any = (
            order, np.empty_like(order), np.ones(len(signs), np.uint8), *self.arrays, signs, box, weights,
            *rest, dense, self.square, tol, max_epochs,
        )  # fmt: skip
        epochs, worst = _descend(*arguments)
        return int(epochs), float(worst)


@njit(nogil=True, cache=True, fastmath={"nsz", "arcp", "contract", "reassoc"})
def _descend(
    order, queue, activity, indptr, features, values, squares, ridge, signs,
    box, weights, alpha, bias, dense, square, tol, max_epochs,
):  # fmt: skip
    """Coordinate descent; `dense` views the last weights. An epoch is len(order) visits.

    `queue` is work space. activity[i], 1 at first, is 0 if row i is left out, 2 if partial epochs visit it.
    """
    state, scale = np.uint64(0), np.float32(RHO * square)
    active, hot, partial, visits, reopened = len(order), 0, 0, 0, False
    end = active  # order[end:] is shrunk
    margin, cold = np.float32(np.inf), np.float32(0)
    b, balance, worst, worst_of_all = bias[0], np.float32(0), np.float32(0), np.float32(np.inf)
    before = np.float32(np.inf)
    while visits < max_epochs * len(order):
        partial = 0 if hot == 0 or partial == PARTIAL else partial + 1
        visited = stay = 0
        for at in range(end):  # keeps the order: rows of a block are near each other in memory
            i = order[at]
            if activity[i] > 0:
                order[at], order[stay] = order[stay], i
                stay += 1
                if activity[i] == 2 or partial == 0:
                    queue[visited] = i
                    visited += 1
        end = stay
        state = _shuffle(queue, visited, state, min(BLOCK, 1 + visited // FEW))
        visits += visited
        worst, hot = np.float32(0), 0
        for at in range(visited):
            i = queue[at]
            if at + AHEAD < visited:
                _prefetch_row(queue[at + AHEAD], indptr, features, values)
            first, last = indptr[i], indptr[i + 1] - np.uint64(len(dense))
            g, own = b, values[last : indptr[i + 1]]
            for k in range(first, last):
                g += values[k] * weights[features[k]]
            for j in range(len(dense)):
                g += own[j] * dense[j]
            y, a, u = np.float32(signs[i]), alpha[i], box[i]
            gradient = y * g + ridge[i] * a - np.float32(1)
            size = abs(gradient)
            bounded = (a <= 0 and gradient > 0) or (a >= u and gradient < 0)
            activity[i] = 1
            if bounded:
                if size > margin:
                    activity[i] = 0
                    active -= 1
                continue
            if size > cold:
                activity[i] = 2
                hot += 1
            worst = max(worst, size)
            if size > np.float32(0.1) * tol:
                new = min(max(a - gradient / (squares[i] + scale + ridge[i]), np.float32(0)), u)
                step = y * (new - a)
                alpha[i] = new
                if step != 0:
                    b += scale * step
                    balance += step
                    for k in range(first, last):
                        weights[features[k]] += values[k] * step
                    for j in range(len(dense)):
                        dense[j] += own[j] * step
        unbalanced = np.float32(square) * abs(balance)
        if unbalanced > max(np.float32(AHEAD_OF_ROWS) * worst, np.float32(SLOW) * before):
            scale = min(np.float32(4) * scale, np.float32(square))
        worst, before = max(worst, unbalanced), unbalanced
        b += scale * balance
        bias[0], cold = b, COLD * max(worst, np.float32(tol))
        if partial == 0:
            worst_of_all, margin = worst, max(SHRINK * worst, np.float32(tol))
            if worst <= tol and visited == len(order):
                break
            if worst <= tol or active == 0 or (worst <= REOPEN * tol and not reopened):
                active = end = len(order)
                hot, reopened = 0, True
                for i in order:
                    activity[i] = 1
    return -(-visits // max(1, len(order))), float(worst_of_all)


@njit(inline="always")
def _prefetch_row(i, indptr, features, values):
    """Ask for a row while those before it are processed: rows in random order are seldom in a cache."""
    for k in range(indptr[i], indptr[i + 1], LINE):
        simd.prefetch(features, k)
        simd.prefetch(values, k)


@njit(nogil=True, cache=True)
def _shuffle(order, active, state, size):
    """Shuffle blocks of `size` rows among the first `active`; return the new state of the generator."""
    for i in range(active // size - 1, 0, -1):
        state = state * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
        j = np.int64((state >> np.uint64(33)) % np.uint64(i + 1))
        for k in range(size):
            order[i * size + k], order[j * size + k] = order[j * size + k], order[i * size + k]
    return state
