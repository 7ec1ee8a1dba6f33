"""Products with rows of features for `newton`: on the CPU.

Newton's equation for k columns is solved by conjugate gradients, which need only products with the Hessian.
`newton_cuda` has its own for rows on a GPU.

A preconditioner for dense rows: the Hessian of some free rows, factored. With A = [X, constant] and d
features Newton's equation has H = diag(1, .., 1, hold) + A'DA, (d + 1)^2 numbers, for each column. A sample
of SAMPLE d free rows, each with the weight of the rows it stands for, gives a P with |P^-1/2 H P^-1/2 - I| of
about SAMPLE^-1/2, whatever the condition of H: a handful of iterations instead of hundreds, at a cost that
does not grow with n. A P of another sigma or of other free rows is still correct, only slower; it is computed
anew when that is cheaper than the additional iterations of the previous step.

P^-1 = W'W with W the inverse of P's Cholesky factor, all in float64: it stays positive definite when rounded.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from textsvm.arrays import Array
from textsvm.linalg.dense import DenseRows
from textsvm.linalg.products import InvertedIndex
from textsvm.linalg.rows import FeatureRows
from textsvm.linalg.sparse import Sparse
from textsvm.runtime.parallel import one_blas_thread
from textsvm.solvers.solution import sums

#: D X d for a direction: X'D (X d + constant d_bias), and constant times the sum of D (..).
Curve = Callable[[Array, Array], tuple[Array, Array]]

MAX_PRODUCTS = 500  #: Maximum number of products with the Hessian in a Newton step.
SAMPLE = 16  #: Free rows in the sample of a preconditioner, per feature.
RATE = 32  #: Speed of a product of matrices relative to a pass over rows, which waits for memory.
FRESH = 10  #: Iterations with a new preconditioner.
FACTOR = 3  #: Cost of a factor and its inverse, in products of d x d matrices.
MAX_BYTES = 2 << 30  #: Maximum bytes of W, for all columns together.


class Products(ABC):
    """Products with the rows of X and a column of constants beside it, for the bias; on either device."""

    xp: ModuleType  #: NumPy or CuPy
    x: Any  #: The rows
    ridge: Array  #: shape (n,): r
    constant: float  #: The number in the column beside X

    def values(self, weights: Array, bias: Array) -> Array:
        """X weights + constant bias: (n_features, k) and (k,) -> (n, k)."""
        return self.x.dot(weights) + self.constant * bias

    def combine(self, coef: Array) -> Array:
        """X' coef: (n, k) -> (n_features, k)."""
        return self.x.transposed_dot(coef)

    @abstractmethod
    def take(self, index: Array) -> Products:
        """Products with some of the rows, beside the same constant."""

    @abstractmethod
    def newton_step(self, system: NewtonSystem) -> tuple[Array, Array, int]:
        """Solve for a step: (n_features, k), (k,), and the number of products with the Hessian."""


@dataclass(frozen=True)
class NewtonSystem:
    """Newton's equation of k columns: H [step; step_bias] = -[gradient; gradient_bias].

    H is I + X'DX, bordered by the row and the column of the bias.
    """

    curvature: Array  #: shape (n, k): D, 0 at rows that are not free
    gradient: Array  #: shape (n_features, k)
    gradient_bias: Array  #: shape (k,)
    hold: Array  #: shape (k,): Added to the curvature of the bias
    forcing: Array  #: shape (k,): Norm of the residual at which to stop, in units of the gradient's norm


def conjugate_gradients(
    system: NewtonSystem, curve: Curve, precondition: Curve | None = None
) -> tuple[Array, Array, int]:
    """Solve a Newton system by preconditioned conjugate gradients (Saad 2003, algorithm 9.1).

    `curve` multiplies with the Hessian minus the identity, `precondition` with an approximate inverse of the
    Hessian, symmetric and positive definite. A column that has reached its residual does not move any more.
    Returns the step, the step of the bias, and the number of products with the Hessian.
    """
    x, x_bias = np.zeros_like(system.gradient), np.zeros_like(system.gradient_bias)
    r, r_bias = -system.gradient, -system.gradient_bias
    residual, products = square(r, r_bias), 0
    goal = residual * system.forcing**2
    p, p_bias = (r, r_bias) if precondition is None else precondition(r, r_bias)
    rz = residual if precondition is None else sums(r * p) + r_bias * p_bias
    while bool((residual > goal).any()) and products < MAX_PRODUCTS:
        Ap, Ap_bias = curve(p, p_bias)
        products += 1
        Ap, Ap_bias = Ap + p, Ap_bias + system.hold * p_bias
        pAp = sums(p * Ap) + p_bias * Ap_bias
        alpha = np.where((residual > goal) & (pAp > 0), rz / np.where(pAp > 0, pAp, 1), 0)
        x, x_bias = x + alpha * p, x_bias + alpha * p_bias
        r, r_bias = r - alpha * Ap, r_bias - alpha * Ap_bias
        residual = np.where(alpha > 0, square(r, r_bias), np.minimum(residual, goal))
        z, z_bias = (r, r_bias) if precondition is None else precondition(r, r_bias)
        former_rz, rz = rz, residual if precondition is None else sums(r * z) + r_bias * z_bias
        beta = np.where(former_rz > 0, rz / np.where(former_rz > 0, former_rz, 1), 0)
        p, p_bias = z + beta * p, z_bias + beta * p_bias
    return x, x_bias, products


def square(a: Array, b: Array) -> Array:
    """Squared norm of each column of a, shape (n, k), with the number b of the column below it."""
    return sums(a**2) + b**2


def constant_of(rows: FeatureRows, squares: Array) -> float:
    """The constant beside X: the root mean square length of a row."""
    mean = float((squares + rows.ridge).mean()) if len(rows.ridge) else 1.0
    return mean**0.5 if mean > 0 else 1.0


class HostProducts(Products):
    """Products with sparse rows on all cores, stored by rows and by columns."""

    def __init__(self, rows: FeatureRows, constant: float | None = None) -> None:
        self.x, self._rows, by_columns = rows.x, rows, InvertedIndex(rows.x)
        self.xp, self.ridge = np, rows.ridge
        self.constant = constant_of(rows, self.x.squares()) if constant is None else constant
        # By columns, each row of X' is a separate sum, which threads can share out.
        self._columns = Sparse(by_columns.indptr, by_columns.documents, by_columns.values, len(self.x))

    def combine(self, coef: Array) -> Array:
        return self._columns.dot(coef)

    def take(self, index: Array) -> HostProducts:
        return HostProducts(self._rows.take(index), self.constant)

    def newton_step(self, system: NewtonSystem) -> tuple[Array, Array, int]:
        index, bent = np.flatnonzero(system.curvature.any(axis=1)), np.zeros_like(system.curvature)
        free, curvature = self.x.take(index), system.curvature[index]

        def curve(d: Array, d_bias: Array) -> tuple[Array, Array]:
            bent[index] = curvature * (free.dot(d) + self.constant * d_bias)
            return self.combine(bent), self.constant * sums(bent)

        return conjugate_gradients(system, curve)


class DenseProducts(Products):
    """Products with dense rows, with a preconditioner."""

    def __init__(self, rows: FeatureRows, preconditioner: Preconditioner | None = None) -> None:
        self._rows, self.x, self.ridge = rows, rows.x, rows.ridge
        self.xp = np
        self.preconditioner = preconditioner or Preconditioner(constant_of(rows, self.x.squares()))
        self.constant = self.preconditioner.constant

    def take(self, index: Array) -> DenseProducts:
        return DenseProducts(self._rows.take(index), self.preconditioner)

    def newton_step(self, system: NewtonSystem) -> tuple[Array, Array, int]:
        index = np.flatnonzero(system.curvature.any(axis=1))
        free, curvature = self.x.take_for_products(index), system.curvature[index]

        def curve(d: Array, d_bias: Array) -> tuple[Array, Array]:
            bent = curvature * (free.dot(d) + self.constant * d_bias)
            return free.transposed_dot(bent), self.constant * sums(bent)

        self.preconditioner.prepare(self.x, system)
        *step, self.preconditioner.iterations = conjugate_gradients(system, curve, self.preconditioner.apply)
        return step[0], step[1], self.preconditioner.iterations


class Preconditioner:
    """P^-1 of each column, the identity at first."""

    def __init__(self, constant: float) -> None:
        self.constant, self.iterations = constant, 0
        self._inverses: list[Array] = []

    def prepare(self, x: DenseRows, system: NewtonSystem) -> None:
        """Compute it for a system, if that is worth the cost."""
        d, k = system.gradient.shape
        if len(self._inverses) != k:  # computed for other machines
            self._inverses.clear()
        free = (system.curvature > 0).sum(axis=0)
        rows = float(np.minimum(free, SAMPLE * d).sum()) + FACTOR * k * d
        cost = rows * d / (2 * RATE * max(1, int((system.curvature > 0).any(axis=1).sum())))
        if self.iterations > FRESH + cost and 8 * k * (d + 1) ** 2 <= MAX_BYTES:
            self._inverses.clear()  # frees memory for the new ones
            self._inverses += [self._inverse(x, system, c) for c in range(k)]

    def apply(self, r: Array, r_bias: Array) -> tuple[Array, Array]:
        """P^-1 r of each column."""
        if not self._inverses:
            return r, r_bias
        columns = np.concatenate([r, r_bias[None]]).T
        with one_blas_thread():
            products = np.stack([w.T @ (w @ a) for w, a in zip(self._inverses, columns, strict=True)], axis=1)
        return products[:-1], products[-1]

    def _inverse(self, x: DenseRows, system: NewtonSystem, c: int) -> Array:
        index, scale = sampled(system.curvature[:, c], SAMPLE * x.n_features)
        hessian = x.scatter(index, system.curvature[index, c] * scale, self.constant)
        diagonal = hessian.reshape(-1)[:: len(hessian) + 1]
        rounding = len(hessian) * np.finfo(np.float64).eps * diagonal.sum()
        diagonal[:-1] += 1
        diagonal[-1] += system.hold[c]
        diagonal += rounding
        with one_blas_thread():
            return np.linalg.inv(np.linalg.cholesky(hessian))


def sampled(curvature: Array, most: int) -> tuple[Array, float]:
    """At most `most` free rows, spread evenly, and the number of rows that each of them stands for."""
    index = np.flatnonzero(curvature)
    n = len(index)
    if n <= most:
        return index, 1.0
    at = (np.arange(most) + np.random.default_rng(0).random(most)) * (n / most)
    return index[np.minimum(at.astype(np.int64), n - 1)], n / most
