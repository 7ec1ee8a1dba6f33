"""Many machines at once from features: an augmented Lagrangian with semismooth Newton steps, no kernel value.

A column is one machine. With K = X X' + diag(r) over n rows of features (`textsvm.linalg.rows`) its dual is

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
Hessian would be empty. Li, Sun, Toh 2018 (semismooth Newton augmented Lagrangians); Yin, Li 2019 (of SVMs).

Rows that stand at a bound and far from the kink of p are left out of a proximal step (shrinking): what they
add to the gradient is constant. All rows are looked at behind it, and the step goes on where one has moved.

What stands beside X are sums of fixed order or of integers: two runs give the same bits.

Machines of any problem from rows of features, by `newton`: classes, labels, numbers, one class.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.linalg.rows import FeatureRows
from textsvm.runtime.device import to_host
from textsvm.runtime.parallel import Progress, part
from textsvm.solvers.dual import Dual, MulticlassDual
from textsvm.solvers.newton_products import products_of
from textsvm.solvers.problems import Machines, Part, Problem, Regression, collect, parts_of
from textsvm.solvers.proximal import ColumnDuals, Point, Products, ProximalProblem
from textsvm.solvers.solution import Solution, Stopping, assess, bounds, log_progress

#: CuPy or NumPy arrays.
Array = Any

#: sigma over C at the start, and how it grows.
START, GROW = 0.2, 3.0
#: The gradient's share of the violation that ends a proximal step.
INNER = 0.5
#: Bound on proximal steps: sigma has grown out of float64's reach by then.
MOST_PROXIMAL = 40
#: By how much more than at best conditions are missed when sigma has grown out of the products' precision.
WORSE = 10.0
#: How far from the kink of p, in units of f, a row is left out: a multiple of the violation, and more. Where
#: more than a share of the rows are nearer, or left out in vain a few times, all take part.
FAR, FARTHER, LEAST_NEAR, MOST_NEAR, MOST_TRIES = 0.7, 0.05, 500, 0.5, 4


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
        responses = solver.solve(progress, satisfied)
    values = to_host(responses - solver.q)
    return NewtonSolution(to_host(solver.coef), values, int(solver.passes), solver.made)


def balanced(xp: Any, coef: Array, low: Array, high: Array, total: Array) -> Array:
    """Coefficients (n, k) in their bounds whose sums are exact: what is left over is taken from free ones."""
    for _ in range(100):
        rest = coef.sum(axis=0) - total
        off = abs(rest) > 1e-12 * abs(coef).sum(axis=0)  # rounding: those at their bounds stay there
        if not bool(off.any()):
            break
        free = (coef > low) & (coef < high) & (coef != 0)
        movable = xp.where(free.any(axis=0), free, xp.where(rest > 0, coef > low, coef < high)) & off
        number = xp.maximum(movable.sum(axis=0), 1)
        coef = xp.clip(coef - xp.where(movable, rest / number, 0), low, high)
    return coef


class _Solver:
    def __init__(self, products: Products, duals: ColumnDuals, tol: float, max_passes: int) -> None:
        self.products, self.tol, self.max_passes = products, tol, max_passes
        self.xp = xp = products.xp
        self.q, self.low, self.high, self.total, self.coef = (
            xp.asarray(a) for a in (duals.linear, duals.low, duals.high, duals.total, duals.start)
        )
        self.epsilon, self.ridge = duals.epsilon, products.ridge[:, None]
        self.made, self.passes = 0, 0.0
        self.sigma = START * (self.high - self.low).max(axis=0)

    def solve(self, progress: Progress | None, satisfied: Satisfied | None) -> Array:
        """Proximal steps until the violation is small enough; K coef + q."""
        xp = self.xp
        weights, bias = self.combine(self.coef), xp.zeros(len(self.total))
        f = self.values(weights, bias)
        violation = self.violation(f + self.q + self.ridge * self.coef)
        first, least, best = float(violation.max()), np.inf, (self.coef, f)
        for _ in range(MOST_PROXIMAL):
            point = self.proximal_step(weights, bias, f, violation)
            weights, bias, f = point.weights, point.bias, point.f
            self.coef = balanced(xp, point.coef, self.low, self.high, self.total)
            responses = self.responses()
            violation = self.violation(responses)
            worst = float(violation.max())
            if progress is not None:
                progress(*log_progress(first, worst, self.tol))
            if worst < least:
                least, best = worst, (self.coef, responses)
            if worst <= self.tol or self.passes > self.max_passes or worst > WORSE * least:
                break
            if satisfied is not None and satisfied(to_host(self.coef), to_host(responses - self.q)):
                break
            self.sigma = self.sigma * xp.where(violation > self.tol, GROW, 1.0)
        self.coef, responses = best
        return responses

    @property
    def duals(self) -> ColumnDuals:
        """What is to be solved, from where it has come."""
        return ColumnDuals(self.q, self.low, self.high, self.epsilon, self.total, self.coef)

    def proximal_step(self, weights: Array, bias: Array, f: Array, violation: Array) -> Point:
        """The minimum of phi, of rows that may matter first."""
        xp = self.xp
        goal = xp.maximum(INNER * self.tol, INNER * xp.minimum(violation, 1.0))
        whole = ProximalProblem(self.products, self.duals, self.sigma)
        margin = FAR * min(1.0, float(violation.max())) + FARTHER
        for _ in range(MOST_TRIES):
            near, before = whole.near(f, margin), whole.proximal(f)
            index = xp.flatnonzero(near)
            room = ((self.high - self.low) * near[:, None]).sum(axis=0)
            enough = bool((room >= 2 * xp.abs(self.total - before.sum(axis=0))).all())
            if not enough or not LEAST_NEAR < len(index) < MOST_NEAR * len(near):
                break
            part = whole.part(index, before)
            self.passes += 1
            point = self._minimised(part, weights, bias, f[index], goal, len(index) / len(near))
            weights, bias = point.weights, point.bias
            f = self.values(weights, bias)
            after = whole.proximal(f)
            if bool((near | (after == before).all(axis=1)).all()) or self.passes > self.max_passes:
                return Point(weights, bias, f, after, point.phi)
            margin *= 2
        return self._minimised(whole, weights, bias, f, goal, 1.0)

    def _minimised(
        self, problem: ProximalProblem, weights: Array, bias: Array, f: Array, goal: Array, share: float
    ) -> Point:
        point = problem.minimise(weights, bias, f, goal, (self.max_passes - self.passes) / max(share, 1e-9))
        self.passes += share * problem.passes
        self.made += problem.made
        return point

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


Values = NDArray[np.float64]
#: Machines that are trained side by side.
TOGETHER = 8
#: What of the tolerance is aimed at: objectives are 1e-5 from the optimum then, as SMO's are.
SHARE = 0.7
STOPPED = "stopped at its bound on passes"


def can_solve(problem: Problem) -> bool:
    """Whether a problem comes apart into duals of one constraint: all but Crammer and Singer's."""
    return getattr(problem, "strategy", "") != "crammer-singer"


def solve(
    problem: Problem, rows: FeatureRows, stopping: Stopping, progress: Progress | None = None
) -> Machines:
    """Train the machines of a problem; see `textsvm.solvers.problems.solve`.

    Parameters
    ----------
    problem : Problem
        One that `can_solve` accepts; its index counts rows.
    rows : FeatureRows
    stopping : Stopping
        Its bound on iterations counts passes over a row.
    progress : callable, optional
    """
    products, parts = products_of(rows), parts_of(problem)
    solutions: list[Solution] = []
    for first in range(0, len(parts), TOGETHER):
        some = parts[first : first + TOGETHER]
        within = part(progress, first, len(some), len(parts))
        solutions += _solve_parts(products, problem, some, stopping, within)
    return collect(problem, parts, solutions)


def _solve_parts(
    products: Products,
    problem: Problem,
    parts: Sequence[Part],
    stopping: Stopping,
    progress: Progress | None,
) -> list[Solution]:
    n = len(products.ridge)
    duals = ColumnDuals.beside([_column(problem, one, n) for one in parts])
    most = 10_000 if stopping.max_iter < 0 else max(1, stopping.max_iter // n)

    def assessed(coef: Values, values: Values, passes: int = 0) -> list[Solution]:
        columns = zip(parts, coef.T, values.T, strict=True)
        return [_assess(one, problem, b, fitted, passes * n, stopping) for one, b, fitted in columns]

    def satisfied(coef: Values, values: Values) -> bool:
        return all(solution.converged for solution in assessed(coef, values))

    enough = satisfied if stopping.duality_gap else None
    found = solve_newton(products, duals, SHARE * stopping.tol, most, progress, enough)
    return assessed(found.coef, found.values, found.passes)


def _column(problem: Problem, one: Part, n: int) -> ColumnDuals:
    """The dual of a machine over all rows."""
    assert not isinstance(one.dual, MulticlassDual)
    dual, epsilon = one.dual, 0.0
    index = dual.index
    low, high = bounds(dual)
    linear = dual.sign * dual.linear
    if isinstance(problem, Regression):  # the two variables of an example become one
        half, epsilon = len(index) // 2, problem.epsilon
        low, high, linear, index = low[half:], high[:half], -problem.target, index[:half]
    columns = np.zeros((4, n))
    columns[0, index], columns[1, index], columns[2, index] = linear, low, high
    if one.initial is not None:
        columns[3, index] = dual.sign * one.initial
    shaped = columns[:, :, None]
    return ColumnDuals(shaped[0], shaped[1], shaped[2], epsilon, np.array([dual.total]), shaped[3])


def _assess(
    one: Part, problem: Problem, coef: Values, values: Values, iterations: int, stopping: Stopping
) -> Solution:
    dual = one.dual
    assert isinstance(dual, Dual)
    mine, fitted = coef[dual.index], values[dual.index]
    if isinstance(problem, Regression):
        half = len(mine) // 2
        mine = np.concatenate([np.maximum(mine[:half], 0), np.minimum(mine[half:], 0)])
    made = assess(dual, mine, fitted + dual.sign * dual.linear, iterations, STOPPED, stopping.tol)
    if stopping.satisfied(made.duality_gap):
        made = replace(made, converged=True, status="converged")
    return made
