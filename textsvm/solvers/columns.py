"""Many machines at once from sparse features: dual coordinate descent over columns (hinge loss, free bias).

A column is a machine: signs y in {-1, 0, +1} (0: not trained on) and a box. All columns read the same rows
of X, and reading is the main cost: row i is read once, its values f_c = w_c . x_i + b_c are computed for all
columns side by side (contiguous in memory, for vector units), each alpha takes its best step

    alpha <- clip(alpha - (y f + r alpha - 1) / (|x|^2 + r), 0, U),       w_c += (change of y alpha) x_i,

and the row is read once more if any changed. r_i is the ridge of `textsvm.linalg.rows`.

The bias is not penalised, so y'alpha = 0 must hold. Method of multipliers: b is the multiplier, a step of
alpha moves it by rho y as if it were the weight of a feature sqrt(rho), and each epoch adds rho y'alpha once
more; rho grows where y'alpha does not fall. The rest of y'alpha at the end, less than the tolerance, is taken
from the free alphas.

Rows whose alphas are all at a bound, and whose gradients clearly keep them there, are left out until the
others are done (shrinking, as in LIBLINEAR). With a single column, up to `PARTIAL` epochs after each epoch
of all active rows visit only the rows whose violation was large at their last visit: near the optimum these
are few. It visits blocks of rows in random order, and the rows of a block in the order of memory.

Hsieh et al. 2008 (dual coordinate descent); Glasmachers and Dogan 2013 (rows visited at different
frequencies); Hestenes 1969 (multipliers).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.arrays import AnyArray, Floats32, Ints
from textsvm.linalg.rows import FeatureRows
from textsvm.linalg.sparse import unsigned
from textsvm.runtime.compiled import Imported, njit
from textsvm.runtime.parallel import run

#: The square of the bias feature of a single column at first, for rows of mean k(s, s) = 1. It is small, as a
#: feature that all rows share shortens steps and couples the rows: with 1, descent takes 1.5 to 2 times as
#: many visits of rows. Several columns have 1.
RHO = 0.03
#: It becomes four times as large, up to 1, after an epoch in which the condition of the bias is violated 100
#: times as much as any row, and not by half as much as before: with a small C, most rows are at a bound.
AHEAD_OF_ROWS, SLOW = 100.0, 0.5
#: Minimum number of columns of a piece, which a thread solves.
MIN_COLUMNS = 4
#: Approximate number of columns of a piece; at most twice as many.
MAX_COLUMNS = 16
#: Features or values in a cache line.
LINE = 16
#: A row is prefetched so many rows before it is read.
AHEAD = 2
#: Maximum number of rows of a block: neighbours in memory are read faster, larger blocks converge slower.
BLOCK = 8
#: Rows visited per row of a block: short epochs have smaller blocks, so that their order stays random.
FEW = 512
#: Rows at a bound with a gradient above this multiple of the largest violation are left out.
SHRINK = np.float32(0.5)
#: Rows that are left out are checked for the first time at a violation of so many tolerances.
REOPEN = np.float32(10)
#: Partial epochs skip rows with a violation below this share of the largest.
COLD = np.float32(0.1)
#: Maximum number of partial epochs after each epoch of all active rows.
PARTIAL = 4

prefetch = Imported("textsvm.runtime.simd", "prefetch")


@dataclass(frozen=True)
class MachineColumns:
    """m machines to be trained on the rows `index` of n."""

    index: Ints
    signs: NDArray[np.int8]  #: shape (n, m): -1 or +1; 0 if a machine is not trained on a row
    box: Floats32  #: shape (n, m): Upper bound of alpha


@dataclass(frozen=True)
class ColumnSolution:
    """Trained columns."""

    weights: list[Floats32]  #: shapes (n_features, some columns), together m columns
    alpha: Floats32  #: shape (n, m)
    bias: Floats32  #: shape (m,)
    epochs: int


def solve_columns(
    rows: FeatureRows, columns: MachineColumns, tol: float, max_epochs: int = 1000
) -> ColumnSolution:
    """Train all columns, pieces of them in several threads.

    Stops when no alpha violates its optimality condition by more than `tol`, |y'alpha| is at most `tol`, or
    after `max_epochs`.
    """
    m = columns.signs.shape[1]
    descent = Descent(rows, columns.index)
    pieces = n_pieces(m)
    results: list[Any] = [None] * pieces

    def solve_piece(k: int) -> None:
        results[k] = descent.solve(columns, m * k // pieces, m * (k + 1) // pieces, tol, max_epochs)

    run(solve_piece, range(pieces))
    weights, alphas, biases, epochs = zip(*results, strict=True)
    alpha, bias = np.concatenate(alphas, axis=-1), np.concatenate(biases, axis=-1)
    return ColumnSolution(list(weights), alpha, bias, max(epochs))


def n_pieces(m: int) -> int:
    """Number of pieces of m columns: the same for any number of threads, because bits depend on it."""
    if m < MIN_COLUMNS:
        return m
    return 1 if m < 2 * MIN_COLUMNS else 2 * max(1, m // (2 * MAX_COLUMNS))


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

    def solve(
        self, columns: MachineColumns, first: int, last: int, tol: float, max_epochs: int
    ) -> tuple[AnyArray, AnyArray, AnyArray, int]:
        """Weights, alpha and bias of some columns, started at 0, and the number of epochs."""
        signs, box = (np.ascontiguousarray(a[:, first:last]) for a in (columns.signs, columns.box))
        shape = (self.rows.x.n_features, last - first)
        state = np.zeros(shape, np.float32), np.zeros(signs.shape, np.float32), np.zeros(shape[1], np.float32)
        if shape[1] == 1:
            trained = self.index[signs[self.index, 0] != 0]
            column = signs[:, 0], box[:, 0], state[0][:, 0], state[1][:, 0], state[2]
            return *state, self.solve_column(trained, column, tol, max_epochs)[0]
        dense = np.zeros((shape[1], self.rows.dense), np.float32)
        arguments: Any = (
            self.index, *self.arrays, signs, box, *state, dense, self.square, tol, max_epochs,
        )  # fmt: skip
        epochs = _descend(*arguments)
        state[0][shape[0] - self.rows.dense :] = dense.T
        return *state, int(epochs)

    def solve_column(
        self, order: Ints, column: tuple[AnyArray, ...], tol: float, max_epochs: int
    ) -> tuple[int, float]:
        """Descend with a single column over the rows `order`; the epochs and the largest violation.

        `order`, ascending, is permuted. `column` holds 1-d arrays: signs, box, weights, alpha, and the bias,
        of length 1; the last three are updated.
        """
        signs, box, weights, *rest = column
        dense = weights[len(weights) - self.rows.dense :]
        arguments: Any = (
            order, np.empty_like(order), np.ones(len(signs), np.uint8), *self.arrays, signs, box, weights,
            *rest, dense, self.square, tol, max_epochs,
        )  # fmt: skip
        epochs, worst = _descend_one(*arguments)
        return int(epochs), float(worst)


@njit(nogil=True, cache=True, fastmath={"nsz", "arcp", "contract", "reassoc"})
def _descend_one(
    order, queue, activity, indptr, features, values, squares, ridge, signs,
    box, weights, alpha, bias, dense, square, tol, max_epochs,
):  # fmt: skip
    """`_descend` for a column, 1-d arrays; `dense` views the last weights. An epoch is len(order) visits.

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
        prefetch(features, k)
        prefetch(values, k)


@njit(nogil=True, cache=True)
def _shuffle(order, active, state, size):
    """Shuffle blocks of `size` rows among the first `active`; return the new state of the generator."""
    for i in range(active // size - 1, 0, -1):
        state = state * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
        j = np.int64((state >> np.uint64(33)) % np.uint64(i + 1))
        for k in range(size):
            order[i * size + k], order[j * size + k] = order[j * size + k], order[i * size + k]
    return state


@njit(inline="always")
def _add_products(entries, features, values, own, weights, dense, g):
    """Add the products of a row with the weights of each column to g; `own` are its dense features."""
    for k in entries:
        v, u = values[k], features[k]
        for c in range(len(g)):
            g[c] += v * weights[u, c]
    for c in range(len(g)):
        total = np.float32(0)
        for j in range(len(own)):
            total += own[j] * dense[c, j]
        g[c] += total


@njit(nogil=True, cache=True, fastmath={"nsz", "arcp", "contract", "reassoc"})
def _descend(
    index, indptr, features, values, squares, ridge, signs,
    box, weights, alpha, bias, dense, square, tol, max_epochs,
):  # fmt: skip
    """Descend with several columns, from alpha = 0, and return the number of epochs.

    Arrays have the shape (n, m) or (m,). `dense`, shape (m, dense features), are the weights of these
    features, a row for each column.
    """
    tail = np.uint64(dense.shape[1])
    m, n = signs.shape[1], len(index)
    scale = np.float32(square)
    state = np.uint64(0)
    order = index.copy()
    active, margin = n, np.float32(np.inf)
    g, step, balance = np.empty(m, np.float32), np.empty(m, np.float32), np.zeros(m, np.float32)
    for epoch in range(max_epochs):
        state = _shuffle(order, active, state, 1)
        worst = 0.0
        at = 0
        while at < active:
            i = order[at]
            g[:] = bias
            last = indptr[i + 1] - tail
            own = values[last : indptr[i + 1]]
            _add_products(range(indptr[i], last), features, values, own, weights, dense, g)
            moved, idle = False, True
            for c in range(m):
                step[c] = 0
                y = np.float32(signs[i, c])
                if y == 0:
                    continue
                a, u = alpha[i, c], box[i, c]
                gradient = y * g[c] + ridge[i] * a - np.float32(1)
                if a <= 0 and gradient > 0:
                    idle = idle and gradient > margin
                    continue
                if a >= u and gradient < 0:
                    idle = idle and gradient < -margin
                    continue
                idle = False
                size = abs(gradient)
                worst = max(worst, float(size))
                if size > 0.1 * tol:
                    new = min(max(a - gradient / (squares[i] + scale + ridge[i]), np.float32(0)), u)
                    alpha[i, c] = new
                    step[c] = y * (new - a)
                    moved = moved or new != a
            if moved:
                for c in range(m):
                    bias[c] += scale * step[c]
                    balance[c] += step[c]
                for k in range(indptr[i], last):
                    v, u = values[k], features[k]
                    for c in range(m):
                        weights[u, c] += v * step[c]
                for c in range(m):
                    for j in range(len(own) if step[c] != 0 else 0):
                        dense[c, j] += own[j] * step[c]
            if idle:
                active -= 1
                order[at], order[active] = order[active], order[at]
            else:
                at += 1
        settled = worst <= tol
        for c in range(m):
            worst = max(worst, float(square * abs(balance[c])))
            bias[c] += scale * balance[c]
        margin = np.float32(max(worst, tol))
        if settled:  # check the rows left out too: the bias may have moved past them
            if worst <= tol and active == n:
                return epoch + 1
            active, margin = n, np.float32(np.inf)
    return max_epochs
