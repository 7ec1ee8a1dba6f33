"""Many machines at once from features: an augmented Lagrangian with semismooth Newton steps, no kernel value.

A column is one machine. With K = X X' + diag(r) over n rows of features (`textsvm.features.rows`) its dual is

    minimise   1/2 |X'b|^2 + sum_i g_i(b_i),   g_i(b) = q_i b + epsilon |b| + r_i b^2 / 2  on [low_i, high_i],
    subject to sum b = total,

b = sign alpha (`coef`): classification has epsilon = 0, q = -y and a box [0, C] or [-C, 0]; regression q = -y
and a box [-C, C]; one class q = 0, a box [0, 1] and total = nu n. The constraint's multiplier is the bias.

Proximal steps on b (method of multipliers; Rockafellar 1976), each of which is smooth in the primal:

    b <- argmin of the dual + |b - b_old|^2 / (2 sigma) = p(X w + bias),
    p(f) = clip(soft(b_old - sigma (f + q), sigma epsilon) / (1 + sigma r), low, high),

where (w, bias) minimises

    phi = 1/2 |w|^2 + total bias + sum_i max_b (-f_i b - g_i(b) - (b - b_old)^2 / (2 sigma)),
    gradient:  w - X'p(f),  total - sum p(f),
    Hessian:   I + X_J' D X_J,  D_i = sigma / (1 + sigma r_i)  on the free rows J, inside of box and tube.

Newton's equation is solved by conjugate gradients, loosely; a step is halved until phi falls. Only free rows
enter the Hessian. sigma starts at START C and grows by GROW each proximal step; with sigma >= C the first
Hessian would be empty. Li, Sun, Toh 2018 (semismooth Newton augmented Lagrangians); Yin and Li 2019 (for SVMs).

What stands beside X are sums of fixed order or of integers: two runs give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from textsvm.device import to_host
from textsvm.parallel import Progress
from textsvm.solvers.solution import log_progress

#: CuPy or NumPy arrays.
Array = Any

#: sigma over C at the start, and how it grows.
START, GROW = 0.2, 3.0
#: The gradient's share of the violation that ends a proximal step, and the residual's of the gradient that
#: ends conjugate gradients.
INNER, FORCING = 0.2, 0.2
#: What a Newton step takes the bias' curvature to be besides, in that of one free row: there may be none.
HOLD = 0.01
#: By how much of C sums of coefficients may be off.
UNBALANCED = 1e-3
#: Armijo's constant, and the smallest step.
DESCENT, SMALLEST_STEP = 1e-4, 2.0**-20
#: Bounds on Newton steps in a proximal step, and on products with the Hessian in a Newton step.
MOST_STEPS, MOST_PRODUCTS = 50, 500
#: Bound on proximal steps: sigma has grown out of float64's reach by then.
MOST_PROXIMAL = 40


class Products(Protocol):
    """Products with the rows of X and a column of constants beside it, for the bias; on either device."""

    @property
    def xp(self) -> Any:
        """NumPy or CuPy."""

    @property
    def ridge(self) -> Array:
        """r, shape (n,)."""

    @property
    def constant(self) -> float:
        """What stands beside X."""

    def values(self, weights: Array, bias: Array) -> Array:
        """X weights + constant bias: (n_features, k) and (k,) -> (n, k)."""

    def combine(self, coef: Array) -> Array:
        """X' coef: (n, k) -> (n_features, k)."""

    def free_rows(self, curvature: Array) -> Any:
        """Prepare `curve`, given D: (n, k), 0 at rows that are not free."""

    def curve(self, rows: Any, weights: Array, bias: Array) -> tuple[Array, Array]:
        """X' D (X weights + constant bias), and what stands for the bias: constant times D's sum."""


@dataclass(frozen=True)
class ColumnDuals:
    """The duals of k machines over n rows; a row that a machine does not see has a box of [0, 0].

    Attributes
    ----------
    linear : float64 array, shape (n, k)
        q.
    low, high : float64 arrays, shape (n, k)
        Bounds of sign * alpha.
    epsilon : float
    total : float64 array, shape (k,)
    start : float64 array, shape (n, k)
        Values within the bounds to start from.
    """

    linear: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    epsilon: float
    total: NDArray[np.float64]
    start: NDArray[np.float64]

    @classmethod
    def beside(cls, parts: Sequence[ColumnDuals]) -> ColumnDuals:
        """The columns of several, whose epsilon is the same."""
        linear, low, high, total, start = (
            np.concatenate([getattr(part, name) for part in parts], axis=-1)
            for name in ("linear", "low", "high", "total", "start")
        )
        return cls(linear, low, high, parts[0].epsilon, total, start)


@dataclass(frozen=True)
class NewtonSolution:
    """What was learnt.

    Attributes
    ----------
    coef : float64 array, shape (n, k)
        sign * alpha, of sum `total`; on the host.
    values : float64 array, shape (n, k)
        K coef; on the host.
    passes : int
        Passes over all rows.
    products : int
        Passes over free rows.
    """

    coef: NDArray[np.float64]
    values: NDArray[np.float64]
    passes: int
    products: int


@dataclass(frozen=True)
class _Point:
    """Where a Newton iteration stands.

    Attributes
    ----------
    weights, bias : the primal point (n_features, k), (k,)
    f : its values, (n, k)
    coef : p(f), (n, k)
    phi : (k,)
    """

    weights: Array
    bias: Array
    f: Array
    coef: Array
    phi: Array


#: Whether coefficients and K times these, both on the host, are good enough before the tolerance is reached.
Satisfied = Callable[[NDArray[np.float64], NDArray[np.float64]], bool]


def solve_newton(
    products: Products,
    duals: ColumnDuals,
    tol: float,
    max_passes: int = 10_000,
    progress: Progress | None = None,
    satisfied: Satisfied | None = None,
) -> NewtonSolution:
    """Train all columns side by side.

    Parameters
    ----------
    products : Products
        With the rows of features.
    duals : ColumnDuals
    tol : float
        Stop when the violation of the optimality conditions of each is within this.
    max_passes : int
        Bound on passes over all rows.
    progress : callable, optional
    satisfied : callable, optional
    """
    solver = _Solver(products, duals, tol, max_passes)
    with np.errstate(divide="ignore", invalid="ignore"):
        solver.solve(progress, satisfied)
    coef = to_host(solver.coef)
    for k in range(coef.shape[1]):
        coef[:, k] = balanced(coef[:, k], duals.low[:, k], duals.high[:, k], duals.total[k])
    solver.coef = products.xp.asarray(coef)
    values = to_host(solver.responses() - solver.q)
    return NewtonSolution(coef, values, solver.passes, solver.made)


def balanced(
    coef: NDArray[np.float64], low: NDArray[np.float64], high: NDArray[np.float64], total: float
) -> NDArray[np.float64]:
    """Coefficients in their bounds whose sum is exact: what is left over is taken from free ones."""
    for _ in range(100):
        rest = coef.sum() - total
        if abs(rest) <= 1e-12 * np.abs(coef).sum():  # rounding: coefficients at their bounds stay there
            break
        movable = (coef > low) & (coef < high) & (coef != 0)
        if not movable.any():
            movable = coef > low if rest > 0 else coef < high
        if not movable.any():
            break
        coef = coef.copy()
        coef[movable] -= rest / np.count_nonzero(movable)
        coef = np.clip(coef, low, high)
    return coef


class _Solver:
    def __init__(self, products: Products, duals: ColumnDuals, tol: float, max_passes: int) -> None:
        self.products, self.tol, self.max_passes = products, tol, max_passes
        self.xp = xp = products.xp
        self.q, self.low, self.high, self.total, self.coef = (
            xp.asarray(a) for a in (duals.linear, duals.low, duals.high, duals.total, duals.start)
        )
        self.epsilon, self.ridge = duals.epsilon, products.ridge[:, None]
        self.made, self.passes = 0, 0

    def solve(self, progress: Progress | None, satisfied: Satisfied | None) -> None:
        """Proximal steps until the violation is small enough."""
        xp = self.xp
        none, weights = xp.zeros(len(self.total)), self.combine(self.coef)
        self.width = (self.high - self.low).max(axis=0)
        self.sigma = START * self.width
        point = self.point(weights, none, self.values(weights, none))
        violation = self.violation(point.f + self.q + self.ridge * self.coef)
        first = float(violation.max())
        for _ in range(MOST_PROXIMAL):
            point = self.minimise(point, violation)
            self.coef = point.coef
            responses = self.responses()
            violation = self.violation(responses)
            worst = float(violation.max())
            if progress is not None:
                progress(*log_progress(first, worst, self.tol))
            if worst <= self.tol or self.passes > self.max_passes:
                return
            if satisfied is not None and satisfied(to_host(self.coef), to_host(responses - self.q)):
                return
            self.sigma = self.sigma * xp.where(violation > self.tol, GROW, 1.0)
            point = self.point(point.weights, point.bias, point.f)

    def minimise(self, point: _Point, violation: Array) -> _Point:
        """Newton steps to the minimum of phi."""
        xp, reach = self.xp, self.products.constant
        goal = xp.maximum(INNER * self.tol, INNER * xp.minimum(violation, 1.0))
        for _ in range(MOST_STEPS):
            gradient = point.weights - self.combine(point.coef)
            of_bias = reach * (self.total - point.coef.sum(axis=0))
            off = reach * xp.sqrt(_square(gradient, of_bias)) > goal
            moving = off | (abs(of_bias) > UNBALANCED * reach * self.width)
            if not bool(moving.any()) or self.passes > self.max_passes:
                break
            step = self.direction(point, xp.where(moving, gradient, 0), xp.where(moving, of_bias, 0))
            point, moved = self.line(point, gradient, of_bias, *step)
            if not moved:
                break
        return point

    def direction(self, point: _Point, gradient: Array, of_bias: Array) -> tuple[Array, Array]:
        """Newton's direction by conjugate gradients."""
        xp = self.xp
        x, x_bias = xp.zeros_like(gradient), xp.zeros_like(of_bias)
        r, r_bias = -gradient, -of_bias
        d, d_bias, rest = r, r_bias, _square(r, r_bias)
        goal = rest * FORCING**2
        rows = self.products.free_rows(self.curvature(point.f))
        hold = HOLD * self.sigma * self.products.constant**2
        for _ in range(MOST_PRODUCTS):
            if not bool((rest > goal).any()):
                break
            curved, curved_bias = self.products.curve(rows, d, d_bias)
            self.made += 1
            curved, curved_bias = curved + d, curved_bias + hold * d_bias
            along = (d * curved).sum(axis=0) + d_bias * curved_bias
            size = xp.where((rest > goal) & (along > 0), rest / xp.where(along > 0, along, 1), 0)
            x, x_bias = x + size * d, x_bias + size * d_bias
            r, r_bias = r - size * curved, r_bias - size * curved_bias
            before, rest = rest, xp.where(size > 0, _square(r, r_bias), xp.minimum(rest, goal))
            share = xp.where(before > 0, rest / xp.where(before > 0, before, 1), 0)
            d, d_bias = r + share * d, r_bias + share * d_bias
        return x, x_bias

    def line(
        self, point: _Point, gradient: Array, of_bias: Array, step: Array, step_bias: Array
    ) -> tuple[_Point, bool]:
        """The point after a step, halved until phi falls enough, and whether any column moved."""
        xp = self.xp
        slope = (gradient * step).sum(axis=0) + of_bias * step_bias
        change = self.values(step, step_bias)
        t = xp.where(slope < 0, 1.0, 0.0)
        while True:
            after = self.point(point.weights + t * step, point.bias + t * step_bias, point.f + t * change)
            rounding = 1e-13 * xp.abs(point.phi)
            short = (after.phi > point.phi + DESCENT * t * slope + rounding) & (t > 0)
            if not bool(short.any()):
                return after, bool((t > 0).any())
            t = xp.where(short, xp.where(t > SMALLEST_STEP, t / 2, 0), t)

    def point(self, weights: Array, bias: Array, f: Array) -> _Point:
        """Everything at a primal point, given its values."""
        coef = self.proximal(f)
        inside = -(f + self.q) * coef - (self.epsilon * self.xp.abs(coef) + 0.5 * self.ridge * coef**2)
        inside -= (coef - self.coef) ** 2 / (2 * self.sigma)
        phi = 0.5 * (weights**2).sum(axis=0) + self.products.constant * self.total * bias + inside.sum(axis=0)
        return _Point(weights, bias, f, coef, phi)

    def proximal(self, f: Array) -> Array:
        """p(f)."""
        return self.xp.clip(self.shrunk(f), self.low, self.high)

    def shrunk(self, f: Array) -> Array:
        """The same before it is brought into the box."""
        xp, z = self.xp, self.coef - self.sigma * (f + self.q)
        if self.epsilon:
            z = xp.sign(z) * xp.maximum(xp.abs(z) - self.sigma * self.epsilon, 0)
        return z / (1 + self.sigma * self.ridge)

    def curvature(self, f: Array) -> Array:
        """D, 0 at rows that are not free."""
        z = self.shrunk(f)
        free = (z > self.low) & (z < self.high)
        if self.epsilon:
            free &= z != 0
        return self.xp.where(free, self.sigma / (1 + self.sigma * self.ridge), 0)

    def responses(self) -> Array:
        """K coef + q."""
        weights = self.combine(self.coef)
        return self.values(weights, self.xp.zeros(len(self.total))) + self.ridge * self.coef + self.q

    def violation(self, responses: Array) -> Array:
        """By how much the optimality conditions are missed, (k,): of pairs, as SMO measures it."""
        xp, infinite = self.xp, np.inf
        rise, fall = responses, responses
        if self.epsilon:
            rise = responses + xp.where(self.coef >= 0, self.epsilon, -self.epsilon)
            fall = responses + xp.where(self.coef > 0, self.epsilon, -self.epsilon)
        first = xp.where(self.coef < self.high, -rise, -infinite).max(axis=0)
        last = xp.where(self.coef > self.low, -fall, infinite).min(axis=0)
        found = first - last
        return xp.where(xp.isfinite(found), xp.maximum(found, 0), 0)

    def values(self, weights: Array, bias: Array) -> Array:
        """A pass over all rows."""
        self.passes += 1
        return self.products.values(weights, bias)

    def combine(self, coef: Array) -> Array:
        """Another one."""
        self.passes += 1
        return self.products.combine(coef)


def _square(a: Array, b: Array) -> Array:
    return (a**2).sum(axis=0) + b**2
