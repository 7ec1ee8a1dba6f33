"""One proximal step of `newton`: a smooth problem over some rows, minimised by semismooth Newton steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from textsvm.linalg.rows import FeatureRows

#: CuPy or NumPy arrays.
Array = Any

#: The residual's share of the gradient that ends conjugate gradients: at most, and at least. Between, as much
#: as the square of what the step before left of the gradient (Eisenstat and Walker 1996): where the free rows
#: are still changing, an exact step is in vain.
LOOSE, TIGHT = 0.5, 1e-4
#: What a Newton step takes the bias' curvature to be besides, in that of one free row: there may be none.
HOLD = 0.01
#: By how much of C sums of coefficients may be off.
UNBALANCED = 1e-3
#: Armijo's constant, and the smallest step.
DESCENT, SMALLEST_STEP = 1e-4, 2.0**-20
#: Bounds on Newton steps in a proximal step, and on products with the Hessian in a Newton step.
MOST_STEPS, MOST_PRODUCTS = 50, 500


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

    def take(self, index: Array) -> Products:
        """Those with some of the rows, the same constant beside them."""

    def newton_step(self, system: NewtonSystem) -> tuple[Array, Array, int]:
        """Solve for a step: (n_features, k), (k,), and how many products with the Hessian it took."""


@dataclass(frozen=True)
class NewtonSystem:
    """(I + X'DX, and the bias beside it) step = -gradient.

    Attributes
    ----------
    curvature : array, shape (n, k)
        D, 0 at rows that are not free.
    gradient : array, shape (n_features, k)
    of_bias : array, shape (k,)
        Its last entry.
    hold : array, shape (k,)
        What is added to the bias' curvature.
    forcing : array, shape (k,)
        The residual's share of the gradient that is small enough.
    """

    curvature: Array
    gradient: Array
    of_bias: Array
    hold: Array
    forcing: Array


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

    linear: Array
    low: Array
    high: Array
    epsilon: float
    total: Array
    start: Array

    def at(self, index: Array) -> ColumnDuals:
        """Those over some of the rows."""
        linear, low, high, start = (a[index] for a in (self.linear, self.low, self.high, self.start))
        return ColumnDuals(linear, low, high, self.epsilon, self.total, start)

    @classmethod
    def beside(cls, parts: Sequence[ColumnDuals]) -> ColumnDuals:
        """The columns of several, whose epsilon is the same."""
        linear, low, high, total, start = (
            np.concatenate([getattr(part, name) for part in parts], axis=-1)
            for name in ("linear", "low", "high", "total", "start")
        )
        return cls(linear, low, high, parts[0].epsilon, total, start)


@dataclass(frozen=True)
class Point:
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


class ProximalProblem:
    """phi of `textsvm.solvers.newton`, over all rows or some.

    Parameters
    ----------
    products : Products
    duals : ColumnDuals
        Where they start is b_old.
    sigma : array, shape (k,)
    fixed : arrays, shapes (n_features, k) and (k,), optional
        X'b and the sum of b of rows that are left out.
    """

    def __init__(
        self, products: Products, duals: ColumnDuals, sigma: Array, fixed: tuple[Array, Array] | None = None
    ) -> None:
        self.products, self.xp, self.duals = products, products.xp, duals
        self.q, self.low, self.high, self.coef = duals.linear, duals.low, duals.high, duals.start
        self.total, self.epsilon, self.sigma, self.fixed = duals.total, duals.epsilon, sigma, fixed
        self.ridge = products.ridge[:, None]
        self.width = (self.high - self.low).max(axis=0) if len(self.low) else 0 * self.total
        self.made, self.passes = 0, 0

    def near(self, f: Array, margin: float) -> Array:
        """Which rows are free, or would be if their values changed by `margin`: bool, shape (n,)."""
        z, reach = self.shrunk(f), margin * self.sigma / (1 + self.sigma * self.ridge)
        return ((z > self.low - reach) & (z < self.high + reach) & (self.low < self.high)).any(axis=1)

    def part(self, index: Array, coef: Array) -> ProximalProblem:
        """The same over the rows at `index`, the others' coefficients fixed."""
        rest = coef.copy()
        rest[index] = 0
        fixed = self.products.combine(rest), rest.sum(axis=0)
        return ProximalProblem(self.products.take(index), self.duals.at(index), self.sigma, fixed)

    def minimise(self, weights: Array, bias: Array, f: Array, goal: Array, most_passes: float) -> Point:
        """Newton steps from a point of values f until the gradient is within `goal`, (k,)."""
        xp, reach, point = self.xp, self.products.constant, self.point(weights, bias, f)
        before = None
        for _ in range(MOST_STEPS):
            gradient, of_bias = self.gradient(point)
            size = reach * xp.sqrt(square(gradient, of_bias))
            moving = (size > goal) | (abs(of_bias) > UNBALANCED * reach * self.width)
            if not bool(moving.any()) or self.passes > most_passes:
                break
            size = xp.maximum(size, 1e-300)
            forcing = xp.full_like(size, LOOSE) if before is None else 0.9 * (size / before) ** 2
            forcing, before = xp.clip(xp.maximum(forcing, 0.5 * goal / size), TIGHT, LOOSE), size
            down = xp.where(moving, gradient, 0), xp.where(moving, of_bias, 0)
            step = self.direction(point, *down, forcing)
            point, moved = self.line(point, gradient, of_bias, *step)
            if not moved:
                break
        return point

    def gradient(self, point: Point) -> tuple[Array, Array]:
        """Of phi, by weights and by bias."""
        self.passes += 1
        gradient, rest = (
            point.weights - self.products.combine(point.coef),
            self.total - point.coef.sum(axis=0),
        )
        if self.fixed is not None:
            gradient, rest = gradient - self.fixed[0], rest - self.fixed[1]
        return gradient, self.products.constant * rest

    def direction(self, point: Point, gradient: Array, of_bias: Array, forcing: Array) -> tuple[Array, Array]:
        """Newton's direction."""
        hold = HOLD * self.sigma * self.products.constant**2
        system = NewtonSystem(self.curvature(point.f), gradient, of_bias, hold, forcing)
        step, step_bias, made = self.products.newton_step(system)
        self.made += made
        return step, step_bias

    def line(
        self, point: Point, gradient: Array, of_bias: Array, step: Array, step_bias: Array
    ) -> tuple[Point, bool]:
        """The point after a step, halved until phi falls enough, and whether any column moved."""
        xp = self.xp
        slope = (gradient * step).sum(axis=0) + of_bias * step_bias
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
        """Everything at a primal point, given its values."""
        coef, total = self.proximal(f), self.total
        inside = -(f + self.q) * coef - (self.epsilon * self.xp.abs(coef) + 0.5 * self.ridge * coef**2)
        inside -= (coef - self.coef) ** 2 / (2 * self.sigma)
        phi = 0.5 * (weights**2).sum(axis=0) + inside.sum(axis=0)
        if self.fixed is not None:
            phi -= (weights * self.fixed[0]).sum(axis=0)
            total = total - self.fixed[1]
        return Point(weights, bias, f, coef, phi + self.products.constant * total * bias)

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


#: D X d for a direction: X'D (X d + constant d_bias), and constant times the sum of D (..).
Curve = Callable[[Array, Array], tuple[Array, Array]]


def conjugate_gradients(
    xp: Any, system: NewtonSystem, curve: Curve, precondition: Curve | None = None
) -> tuple[Array, Array, int]:
    """`Products.newton_step`, given products with the Hessian less the identity.

    Parameters
    ----------
    xp : module
    system : NewtonSystem
    curve : callable
    precondition : callable, optional
        Products with about the inverse of the Hessian, symmetric and positive definite; none by default.
    """
    x, x_bias = xp.zeros_like(system.gradient), xp.zeros_like(system.of_bias)
    r, r_bias = -system.gradient, -system.of_bias
    rest, made = square(r, r_bias), 0
    goal = rest * system.forcing**2
    d, d_bias = (r, r_bias) if precondition is None else precondition(r, r_bias)
    gain = rest if precondition is None else (r * d).sum(axis=0) + r_bias * d_bias
    while bool((rest > goal).any()) and made < MOST_PRODUCTS:
        curved, curved_bias = curve(d, d_bias)
        made += 1
        curved, curved_bias = curved + d, curved_bias + system.hold * d_bias
        along = (d * curved).sum(axis=0) + d_bias * curved_bias
        size = xp.where((rest > goal) & (along > 0), gain / xp.where(along > 0, along, 1), 0)
        x, x_bias = x + size * d, x_bias + size * d_bias
        r, r_bias = r - size * curved, r_bias - size * curved_bias
        rest = xp.where(size > 0, square(r, r_bias), xp.minimum(rest, goal))
        z, z_bias = (r, r_bias) if precondition is None else precondition(r, r_bias)
        before, gain = gain, rest if precondition is None else (r * z).sum(axis=0) + r_bias * z_bias
        share = xp.where(before > 0, gain / xp.where(before > 0, before, 1), 0)
        d, d_bias = z + share * d, z_bias + share * d_bias
    return x, x_bias, made


def square(a: Array, b: Array) -> Array:
    """|(a, b)|^2 of every column."""
    return (a**2).sum(axis=0) + b**2


def constant_of(rows: FeatureRows, squares: Array) -> float:
    """What the bias is multiplied by: as much as a row is long."""
    mean = float((squares + rows.ridge).mean()) if len(rows.ridge) else 1.0
    return mean**0.5 if mean > 0 else 1.0
