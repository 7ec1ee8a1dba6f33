"""Many machines at once from features: an augmented Lagrangian with semismooth Newton steps, no kernel value.

A column is a machine. With K = X X' + diag(r) over n rows of features (`textsvm.linalg.rows`) its dual is

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

Newton's equation is solved by conjugate gradients, to a loose tolerance; a step is halved until phi falls.
Only free rows enter the Hessian. sigma starts at START C and grows by GROW each proximal step; with sigma >=
C the first Hessian would be empty. Li, Sun, Toh 2018 (semismooth Newton augmented Lagrangians); Yin, Li 2019
(of SVMs).

Rows at a bound and far from the kink of p are left out of a proximal step (shrinking): their contribution to
the gradient is constant. All rows are checked after the step, which continues if a left-out row has moved.

All sums have a fixed order or are sums of integers: two runs give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from textsvm.arrays import Array, Floats
from textsvm.linalg.rows import FeatureRows
from textsvm.linalg.rows_cuda import CudaRows
from textsvm.linalg.sparse import Sparse
from textsvm.runtime.device import to_host
from textsvm.runtime.parallel import Progress, part, report
from textsvm.solvers.dual import Dual, MulticlassDual
from textsvm.solvers.newton_cuda import CudaProducts
from textsvm.solvers.newton_products import DenseProducts, HostProducts, NewtonSystem, Products, square
from textsvm.solvers.problems import MachineDual, Machines, Problem, Regression, collect, machine_duals
from textsvm.solvers.solution import Solution, Stopping, assess, balance_columns, bounds, log_progress, sums

TOGETHER = 8  #: Machines that are trained side by side.
#: Share of the tolerance to reach: objectives are then 1e-5 from the optimum, as with SMO.
SHARE = 0.7
STOPPED = "stopped at its bound on passes"
START = 0.2  #: sigma at the start, in units of C.
GROW = 3.0  #: Factor by which sigma grows each proximal step.
INNER = 0.5  #: Gradient at which a proximal step ends, in units of the violation.
MAX_PROXIMAL = 40  #: Bound on proximal steps: sigma has outgrown float64 by then.
#: Violation, in units of the best so far, at which sigma has outgrown the precision of the products.
WORSE = 10.0
#: A row is left out if its distance from the kink of p, in units of f, is more than FAR times the violation
#: plus FARTHER.
FAR = 0.7
FARTHER = 0.05
MIN_NEAR = 500  #: No row is left out if fewer rows than this are nearer.
MAX_NEAR = 0.5  #: No row is left out if more than this share of the rows is nearer.
MAX_TRIES = 4  #: No row is left out after this number of failed attempts.
#: Largest and smallest residual, in units of the gradient, that ends conjugate gradients. Between them it is
#: the square of the share of the gradient that the previous step left (Eisenstat and Walker 1996), because an
#: exact step is wasted while free rows are changing.
LOOSE = 0.5
TIGHT = 1e-4
#: Curvature added for the bias, in units of the curvature of a free row: there may be no free row.
HOLD = 0.01
UNBALANCED = 1e-3  #: Accepted deviation of sums of coefficients, in units of C.
DESCENT = 1e-4  #: Armijo's constant: share of the predicted decrease that a step must attain.
SMALLEST_STEP = 2.0**-20  #: Smallest length of a step, in units of Newton's step.
MAX_STEPS = 50  #: Bound on Newton steps in a proximal step.

#: Whether coefficients and K times these, both on the host, are good enough before the tolerance is reached.
Satisfied = Callable[[Floats, Floats], bool]


def solve_by_newton(
    problem: Problem, rows: FeatureRows, stopping: Stopping, progress: Progress | None = None
) -> Machines:
    """Train the machines of a problem, not of Crammer and Singer; its index refers to `rows`.

    The bound on iterations of `stopping` counts passes over a row.
    """
    products, parts = products_of(rows), machine_duals(problem)
    solutions: list[Solution] = []
    for first in range(0, len(parts), TOGETHER):
        batch = parts[first : first + TOGETHER]
        within = part(progress, first, len(batch), len(parts))
        solutions += _solve_parts(products, problem, batch, stopping, within)
    return collect(problem, parts, solutions)


def products_of(rows: FeatureRows) -> Products:
    """Products with rows, sparse or dense, on the device of the rows."""
    x: Any = rows.x
    if isinstance(x, Sparse):
        return HostProducts(rows)
    return CudaProducts(rows) if isinstance(x, CudaRows) else DenseProducts(rows)


def _solve_parts(
    products: Products, problem: Problem, parts: Sequence[MachineDual], stopping: Stopping,
    progress: Progress | None,
) -> list[Solution]:  # fmt: skip
    n = len(products.ridge)
    linear, low, high, start = np.concatenate([_column(problem, part, n) for part in parts], axis=2)
    epsilon = problem.epsilon if isinstance(problem, Regression) else 0.0
    totals = np.array([part.dual.total for part in parts if isinstance(part.dual, Dual)])
    duals = ColumnDuals(linear, low, high, epsilon, totals, start)
    most = 10_000 if stopping.max_iter < 0 else max(1, stopping.max_iter // n)

    def assessed(coef: Floats, values: Floats, passes: int = 0) -> list[Solution]:
        columns = zip(parts, coef.T, values.T, strict=True)
        return [_assess(part, problem, b, fitted, passes * n, stopping) for part, b, fitted in columns]

    def satisfied(coef: Floats, values: Floats) -> bool:
        return all(solution.converged for solution in assessed(coef, values))

    enough = satisfied if stopping.duality_gap else None
    return assessed(*_ProximalMethod(products, duals, SHARE * stopping.tol, most).solve(progress, enough))


def _column(problem: Problem, part: MachineDual, n: int) -> Floats:
    """Linear terms, bounds and start of a machine over all n rows, shape (4, n, 1), as in `ColumnDuals`."""
    assert not isinstance(part.dual, MulticlassDual)
    dual, index = part.dual, part.dual.index
    low, high = bounds(dual)
    linear = dual.sign * dual.linear
    if isinstance(problem, Regression):  # the two variables of an example become a single variable
        half = len(index) // 2
        low, high, linear, index = low[half:], high[:half], -problem.target, index[:half]
    columns = np.zeros((4, n, 1))
    columns[:3, index, 0] = linear, low, high
    if part.initial is not None:
        columns[3, index, 0] = dual.sign * part.initial
    return columns


def _assess(
    part: MachineDual, problem: Problem, coef: Floats, values: Floats, iterations: int, stopping: Stopping
) -> Solution:
    dual = part.dual
    assert isinstance(dual, Dual)
    coef, fitted = coef[dual.index], values[dual.index]
    if isinstance(problem, Regression):
        half = len(coef) // 2
        coef = np.concatenate([np.maximum(coef[:half], 0), np.minimum(coef[half:], 0)])
    return assess(dual, coef, fitted + dual.sign * dual.linear, iterations, STOPPED, stopping)


@dataclass(frozen=True)
class ColumnDuals:
    """The duals of k machines over n rows; a row that a machine does not use has a box of [0, 0]."""

    linear: Array  #: shape (n, k): q
    low: Array  #: shape (n, k): Lower bounds of sign * alpha
    high: Array  #: shape (n, k): Upper bounds
    epsilon: float
    total: Array  #: shape (k,)
    start: Array  #: shape (n, k): Feasible sign * alpha

    def at(self, index: Array) -> ColumnDuals:
        """The duals over some of the rows."""
        linear, low, high, start = (own[index] for own in (self.linear, self.low, self.high, self.start))
        return replace(self, linear=linear, low=low, high=high, start=start)


class _ProximalMethod:
    """The outer loop: proximal steps with growing sigma."""

    def __init__(self, products: Products, duals: ColumnDuals, tol: float, max_passes: int) -> None:
        self.products, self.tol, self.max_passes = products, tol, max_passes
        self.xp = xp = products.xp
        arrays = {name: xp.asarray(value) for name, value in vars(duals).items() if name != "epsilon"}
        self.duals = replace(duals, **arrays)
        self.q, self.low, self.high = self.duals.linear, self.duals.low, self.duals.high
        self.total, self.coef = self.duals.total, self.duals.start
        self.epsilon, self.ridge = duals.epsilon, products.ridge[:, None]
        self.passes = 0.0
        self.sigma = START * (self.high - self.low).max(axis=0)

    @np.errstate(divide="ignore", invalid="ignore")
    def solve(self, progress: Progress | None, satisfied: Satisfied | None) -> tuple[Floats, Floats, int]:
        """Train all columns side by side until the violation of each is at most `tol`.

        Returns sign * alpha and K times these, float64 (n, k) on the host, and the passes over all rows.
        """
        xp = self.xp
        weights, bias = self.combine(self.coef), xp.zeros(len(self.total))
        f = self.values(weights, bias)
        violation = self.violation(f + self.q + self.ridge * self.coef)
        first, least, best = float(violation.max()), np.inf, (self.coef, f)
        for _ in range(MAX_PROXIMAL):
            point = self.proximal_step(weights, bias, f, violation)
            weights, bias, f = point.weights, point.bias, point.f
            self.coef = balance_columns(xp, point.coef, self.low, self.high, self.total)
            responses = self.responses()
            violation = self.violation(responses)
            worst = float(violation.max())
            report(progress, *log_progress(first, worst, self.tol))
            if worst < least:
                least, best = worst, (self.coef, responses)
            if worst <= self.tol or self.passes > self.max_passes or worst > WORSE * least:
                break
            if satisfied is not None and satisfied(to_host(self.coef), to_host(responses - self.q)):
                break
            self.sigma = self.sigma * xp.where(violation > self.tol, GROW, 1.0)
        coef, responses = best
        return to_host(coef), to_host(responses - self.q), int(self.passes)

    def proximal_step(self, weights: Array, bias: Array, f: Array, violation: Array) -> Point:
        """Minimise phi, over the rows near the kink first."""
        xp = self.xp
        goal = xp.maximum(INNER * self.tol, INNER * xp.minimum(violation, 1.0))
        whole = ProximalProblem(self.products, replace(self.duals, start=self.coef), self.sigma)
        margin = FAR * min(1.0, float(violation.max())) + FARTHER
        for _ in range(MAX_TRIES):
            near, before = whole.near(f, margin), whole.proximal(f)
            index = xp.flatnonzero(near)
            room = sums((self.high - self.low) * near[:, None])
            enough = bool((room >= 2 * xp.abs(self.total - sums(before))).all())
            if not enough or not MIN_NEAR < len(index) < MAX_NEAR * len(near):
                break
            part = whole.part(index, before)
            self.passes += 1
            point = self._minimise(part, weights, bias, f[index], goal, len(index) / len(near))
            weights, bias = point.weights, point.bias
            f = self.values(weights, bias)
            after = whole.proximal(f)
            if bool((near | (after == before).all(axis=1)).all()) or self.passes > self.max_passes:
                return Point(weights, bias, f, after, point.phi)
            margin *= 2
        return self._minimise(whole, weights, bias, f, goal, 1.0)

    def _minimise(
        self, problem: ProximalProblem, weights: Array, bias: Array, f: Array, goal: Array, share: float
    ) -> Point:
        point = problem.minimise(weights, bias, f, goal, (self.max_passes - self.passes) / max(share, 1e-9))
        self.passes += share * problem.passes
        return point

    def responses(self) -> Array:
        weights = self.combine(self.coef)
        return self.values(weights, self.xp.zeros(len(self.total))) + self.ridge * self.coef + self.q

    def violation(self, responses: Array) -> Array:
        """Largest violation of the optimality conditions by a pair, as SMO measures it, (k,)."""
        xp, infinite = self.xp, np.inf
        rise, fall = responses, responses
        if self.epsilon:
            rise = responses + xp.where(self.coef >= 0, self.epsilon, -self.epsilon)
            fall = responses + xp.where(self.coef > 0, self.epsilon, -self.epsilon)
        first = xp.where(self.coef < self.high, -rise, -infinite).max(axis=0)
        last = xp.where(self.coef > self.low, -fall, infinite).min(axis=0)
        violation = first - last
        return xp.where(xp.isfinite(violation), xp.maximum(violation, 0), 0)

    def values(self, weights: Array, bias: Array) -> Array:
        """X weights + constant bias, a pass over all rows."""
        self.passes += 1
        return self.products.values(weights, bias)

    def combine(self, coef: Array) -> Array:
        """X' coef, a pass over all rows."""
        self.passes += 1
        return self.products.combine(coef)


@dataclass(frozen=True)
class Point:
    """A primal point (weights, bias), its values f, shape (n, k), coef = p(f), and phi, shape (k,)."""

    weights: Array
    bias: Array
    f: Array
    coef: Array
    phi: Array


class ProximalProblem:
    """phi, a smooth problem over all rows or some, minimised by semismooth Newton steps.

    b_old is the `start` of `duals`. `fixed` holds X'b, shape (n_features, k), and the sum of b, shape (k,),
    of the rows that are left out.
    """

    def __init__(
        self, products: Products, duals: ColumnDuals, sigma: Array, fixed: tuple[Array, Array] | None = None
    ) -> None:
        self.products, self.xp, self.duals = products, products.xp, duals
        self.q, self.low, self.high, self.coef = duals.linear, duals.low, duals.high, duals.start
        self.total, self.epsilon, self.sigma, self.fixed = duals.total, duals.epsilon, sigma, fixed
        self.ridge = products.ridge[:, None]
        self.width = (self.high - self.low).max(axis=0) if len(self.low) else 0 * self.total
        self.passes = 0

    def near(self, f: Array, margin: float) -> Array:
        """Whether each row is free, or would be if its values changed by `margin`: bool, shape (n,)."""
        z, reach = self.shrunk(f), margin * self.sigma / (1 + self.sigma * self.ridge)
        return ((z > self.low - reach) & (z < self.high + reach) & (self.low < self.high)).any(axis=1)

    def part(self, index: Array, coef: Array) -> ProximalProblem:
        """The problem over the rows at `index`, with the coefficients of the others fixed."""
        rest = coef.copy()
        rest[index] = 0
        fixed = self.products.combine(rest), sums(rest)
        return ProximalProblem(self.products.take(index), self.duals.at(index), self.sigma, fixed)

    def minimise(self, weights: Array, bias: Array, f: Array, goal: Array, most_passes: float) -> Point:
        """Take Newton steps from a point with values f until the gradient is within `goal`, (k,)."""
        xp, reach, point = self.xp, self.products.constant, self.point(weights, bias, f)
        before = None
        for _ in range(MAX_STEPS):
            gradient, gradient_bias = self.gradient(point)
            size = reach * xp.sqrt(square(gradient, gradient_bias))
            moving = (size > goal) | (abs(gradient_bias) > UNBALANCED * reach * self.width)
            if not bool(moving.any()) or self.passes > most_passes:
                break
            size = xp.maximum(size, 1e-300)
            forcing = xp.full_like(size, LOOSE) if before is None else 0.9 * (size / before) ** 2
            forcing, before = xp.clip(xp.maximum(forcing, 0.5 * goal / size), TIGHT, LOOSE), size
            down = xp.where(moving, gradient, 0), xp.where(moving, gradient_bias, 0)
            step = self.direction(point, *down, forcing)
            point, moved = self.line(point, gradient, gradient_bias, *step)
            if not moved:
                break
        return point

    def gradient(self, point: Point) -> tuple[Array, Array]:
        """Gradient of phi, by weights and by bias."""
        self.passes += 1
        gradient = point.weights - self.products.combine(point.coef)
        rest = self.total - sums(point.coef)
        if self.fixed is not None:
            gradient, rest = gradient - self.fixed[0], rest - self.fixed[1]
        return gradient, self.products.constant * rest

    def direction(
        self, point: Point, gradient: Array, gradient_bias: Array, forcing: Array
    ) -> tuple[Array, Array]:
        """Newton's direction."""
        hold = HOLD * self.sigma * self.products.constant**2
        system = NewtonSystem(self.curvature(point.f), gradient, gradient_bias, hold, forcing)
        return self.products.newton_step(system)[:2]

    def line(
        self, point: Point, gradient: Array, gradient_bias: Array, step: Array, step_bias: Array
    ) -> tuple[Point, bool]:
        """The point after a step, halved until phi falls enough, and whether any column moved."""
        xp = self.xp
        slope = sums(gradient * step) + gradient_bias * step_bias
        self.passes += 1
        change = self.products.values(step, step_bias)
        t = xp.where(slope < 0, 1.0, 0.0)
        while True:
            after = self.point(point.weights + t * step, point.bias + t * step_bias, point.f + t * change)
            rounding = 1e-13 * xp.abs(point.phi)
            short = (after.phi > point.phi + DESCENT * t * slope + rounding) & (t > 0)
            if not bool(short.any()):
                return after, bool((t > 0).any())
            t = xp.where(short, xp.where(t > SMALLEST_STEP, t / 2, 0), t)

    def point(self, weights: Array, bias: Array, f: Array) -> Point:
        """The Point at a primal point, given its values f."""
        coef, total = self.proximal(f), self.total
        inside = -(f + self.q) * coef - (self.epsilon * self.xp.abs(coef) + 0.5 * self.ridge * coef**2)
        inside -= (coef - self.coef) ** 2 / (2 * self.sigma)
        phi = 0.5 * sums(weights**2) + sums(inside)
        if self.fixed is not None:
            phi -= sums(weights * self.fixed[0])
            total = total - self.fixed[1]
        return Point(weights, bias, f, coef, phi + self.products.constant * total * bias)

    def proximal(self, f: Array) -> Array:
        return self.xp.clip(self.shrunk(f), self.low, self.high)

    def shrunk(self, f: Array) -> Array:
        """p(f) before it is clipped to the box."""
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
