"""Many machines at once from sparse features: dual coordinate descent over columns (hinge loss, free bias).

A column is one machine: signs y in {-1, 0, +1} (0: not trained on) and a box. All columns read the same rows
of X, and that is what costs: row i is read once, its values f_c = w_c . x_i + b_c are made for all columns
side by side (contiguous in memory, so vector units do them together), each alpha takes its best step

    alpha <- clip(alpha - (y f + r alpha - 1) / (|x|^2 + r), 0, U),       w_c += (change of y alpha) x_i,

and the row is read once more if any changed. r_i is the ridge of `textsvm.features.rows`.

The bias is not penalised, so y'alpha = 0 must hold. Method of multipliers: b is the multiplier, a step of
alpha moves it by RHO y as if it were the weight of a feature sqrt(RHO), and each epoch adds RHO y'alpha once
more. What of y'alpha is left at the end, less than the tolerance, is taken from the free alphas.

Rows whose alphas all stand at a bound, well on its right side, are left out until the others are done
(shrinking, as in LIBLINEAR). Hsieh et al. 2008 (dual coordinate descent); Hestenes 1969 (multipliers).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from textsvm.features.rows import FeatureRows
from textsvm.parallel import Progress, run

Array = NDArray[Any]
#: The square of the feature that the bias would be.
RHO = 1.0
#: Columns that are worth a thread of their own, and that are enough for one.
LEAST_COLUMNS, MOST_COLUMNS = 4, 16
#: Where columns part: far from the optimum most rows move in some column, near it few do, other ones in each.
TOGETHER = 0.03


@dataclass(frozen=True)
class Columns:
    """Machines to be trained on the same rows.

    Attributes
    ----------
    index : int64 array, shape (number of rows trained on,)
    signs : int8 array, shape (n, m)
        -1, +1, or 0 where a column is not trained on a row.
    box : float32 array, shape (n, m)
        The largest alpha.
    """

    index: NDArray[np.int64]
    signs: NDArray[np.int8]
    box: NDArray[np.float32]


@dataclass(frozen=True)
class ColumnSolution:
    """What was learnt.

    Attributes
    ----------
    alpha : float32 array, shape (n, m)
    bias : float32 array, shape (m,)
    weights : float32 array, shape (n_features, m)
    epochs : int
    violation : float
        Largest violation of the optimality conditions that the last epoch met.
    """

    alpha: NDArray[np.float32]
    bias: NDArray[np.float32]
    weights: NDArray[np.float32]
    epochs: int
    violation: float


def solve_columns(
    rows: FeatureRows,
    columns: Columns,
    tol: float,
    max_epochs: int = 1000,
    seed: int = 0,
    progress: Progress | None = None,
) -> ColumnSolution:
    """Train all columns; those of several threads side by side.

    Parameters
    ----------
    rows : FeatureRows, n of them
    columns : Columns
    tol : float
        Stop when no alpha violates its optimality condition by more, and y'alpha is as near to 0.
    max_epochs : int
    seed : int
        Of the order of the rows.
    progress : callable, optional
        Of the columns, once they part.
    """
    m = columns.signs.shape[1]
    work = _Work(rows, columns.index, max_epochs, seed)
    _ = work.arrays  # made before threads share them
    pieces = _pieces(m)
    found: list[Any] = [None] * (m if tol < TOGETHER else pieces)

    def solve_piece(k: int) -> None:
        first, last = m * k // pieces, m * (k + 1) // pieces
        state = work.descend(work.begin(columns, first, last), max(tol, TOGETHER))
        if tol >= TOGETHER:
            found[k] = state
        else:
            started[first:last] = [_one_of(state, c) for c in range(last - first)]

    def solve_column(c: int) -> None:
        found[c] = work.descend(started[c], tol)
        started[c] = None

    started: list[Any] = [None] * m
    run(solve_piece, range(pieces))
    if tol < TOGETHER:
        run(solve_column, range(m), progress=progress)
    weights, alpha, bias = (np.concatenate([one[0][j] for one in found], axis=-1) for j in (2, 3, 4))
    return ColumnSolution(alpha, bias, weights, max(one[1] for one in found), max(one[2] for one in found))


def _pieces(m: int) -> int:
    """Into how many pieces m columns are cut: the same for any number of threads, for bits depend on it."""
    return 1 if m < 2 * LEAST_COLUMNS else 2 * max(1, m // (2 * MOST_COLUMNS))


@dataclass(frozen=True)
class _Work:
    rows: FeatureRows
    index: NDArray[np.int64]
    max_epochs: int
    seed: int

    @cached_property
    def arrays(self) -> tuple[Array, ...]:
        """What compiled loops read of the rows."""
        x, ridge = self.rows.x, self.rows.ridge
        return x.indptr, x.features, x.values, x.squares().astype(np.float32), ridge.astype(np.float32)

    def begin(self, columns: Columns, first: int, last: int) -> tuple[Array, ...]:
        """Signs, box, weights, alpha and bias of some columns at the start."""
        signs, box = (np.ascontiguousarray(a[:, first:last]) for a in (columns.signs, columns.box))
        weights = np.zeros((self.rows.x.n_features, signs.shape[1]), np.float32)
        return signs, box, weights, np.zeros(signs.shape, np.float32), np.zeros(signs.shape[1], np.float32)

    def descend(self, state: tuple[Array, ...], tol: float) -> tuple[tuple[Array, ...], int, float]:
        """The same after descent to a tolerance, the epochs it took, and the largest violation."""
        signs, box, weights, alpha, bias = state
        indptr, features, values, squares, ridge = self.arrays
        epochs, worst = _descend(
            self.index, indptr, features, values, squares, ridge, signs, box, weights, alpha, bias,
            tol, self.max_epochs, self.seed,
        )  # fmt: skip
        return state, int(epochs), float(worst)


def _one_of(state: tuple[tuple[Array, ...], int, float], c: int) -> tuple[Array, ...]:
    """One column of several, in memory of its own."""
    return tuple(np.ascontiguousarray(array[..., c : c + 1]) for array in state[0])


@njit(nogil=True, cache=True, fastmath={"nsz", "arcp", "contract", "reassoc"})
def _descend(
    index: Array,
    indptr: Array,
    features: Array,
    values: Array,
    squares: Array,
    ridge: Array,
    signs: Array,
    box: Array,
    weights: Array,
    alpha: Array,
    bias: Array,
    tol: float,
    max_epochs: int,
    seed: int,
) -> tuple[int, float]:
    m, n = signs.shape[1], len(index)
    rho = np.float32(RHO)
    state = np.uint64(seed)
    order = index.copy()
    active, margin = n, np.float32(np.inf)
    g, step, balance = np.empty(m, np.float32), np.empty(m, np.float32), np.zeros(m, np.float32)
    for i in index:
        for c in range(m):
            balance[c] += alpha[i, c] * np.float32(signs[i, c])
    worst = 0.0
    for epoch in range(max_epochs):
        for i in range(active - 1, 0, -1):
            state = state * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
            j = np.int64((state >> np.uint64(33)) % np.uint64(i + 1))
            order[i], order[j] = order[j], order[i]
        worst = 0.0
        at = 0
        while at < active:
            i = order[at]
            g[:] = bias
            for k in range(indptr[i], indptr[i + 1]):
                v, u = values[k], features[k]
                for c in range(m):
                    g[c] += v * weights[u, c]
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
                    new = min(max(a - gradient / (squares[i] + rho + ridge[i]), np.float32(0)), u)
                    alpha[i, c] = new
                    step[c] = y * (new - a)
                    moved = moved or new != a
            if moved:
                for c in range(m):
                    bias[c] += rho * step[c]
                    balance[c] += step[c]
                for k in range(indptr[i], indptr[i + 1]):
                    v, u = values[k], features[k]
                    for c in range(m):
                        weights[u, c] += v * step[c]
            if idle:
                active -= 1
                order[at], order[active] = order[active], order[at]
            else:
                at += 1
        settled = worst <= tol
        for c in range(m):
            worst = max(worst, float(rho * abs(balance[c])))
            bias[c] += rho * balance[c]
        margin = np.float32(max(worst, tol))
        if settled:  # but for rows that were left out, which a bias on its way may have reached
            if worst <= tol and active == n:
                return epoch + 1, float(worst)
            active, margin = n, np.float32(np.inf)
    return max_epochs, float(worst)
