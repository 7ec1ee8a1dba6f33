"""The multiclass problem, checked, and its solution, assessed; for both twins of the solver."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from textsvm.errors import InputError
from textsvm.gram.base import Gram
from textsvm.solvers.dual import _positive, _rows, _weights


@dataclass(frozen=True)
class Solution:
    """A solved problem, with an honest account of how well.

    Attributes
    ----------
    coef : float64 array, shape (n_classes, m)
        Value of class k at x: sum_i coef[k, i] K(index_i, x). Columns sum to 0.
    objective : float
        The dual objective -D, which the solver minimises.
    duality_gap : float
        Relative: 2 (P - D) / (P + D). A bound on the distance from the optimum if the Gram is positive
        semi-definite; otherwise still 0 at a stationary point and nowhere else.
    violation : float
        The largest v_i, in units of decision values.
    iterations : int
        Examples optimised.
    converged : bool
        The violation is within the tolerance, or the duality gap within the bound that was given.
    status : str
        "converged", or why the solver stopped before.
    support : int64 array
        Examples with a coefficient that is not 0.
    """

    coef: NDArray[np.float64]
    objective: float
    duality_gap: float
    violation: float
    iterations: int
    converged: bool
    status: str
    support: NDArray[np.int64]


@dataclass(frozen=True)
class Problem:
    """What is to be solved; names and derivation in `textsvm.solvers.crammer_singer`.

    Attributes
    ----------
    index, target : int64 arrays, shape (m,)
        Rows of the Gram, and classes.
    upper : float64 array, shape (m,)
        C_i.
    n_classes : int
    tol : float
    duality_gap : float
        -1 if no bound was given.
    bound : int
        Most steps.
    """

    index: NDArray[np.int64]
    target: NDArray[np.int64]
    upper: NDArray[np.float64]
    n_classes: int
    tol: float
    duality_gap: float
    bound: int

    def __len__(self) -> int:
        return len(self.target)

    @cached_property
    def own(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where the true classes are in an array of shape (n_classes, m)."""
        return self.target, np.arange(len(self))

    def start(self) -> NDArray[np.float64]:
        """The gradients where all coefficients are 0, shape (n_classes, m)."""
        G = np.zeros((self.n_classes, len(self)))
        G[self.own] = -1.0
        return G

    def figures(self, coef: NDArray[np.float64], G: NDArray[np.float64]) -> tuple[float, float]:
        """-D and the relative duality gap."""
        own = float(coef[self.own].sum())
        slope = float(np.einsum("rc,rc->", coef, G))
        objective = 0.5 * (slope - own)
        gap = slope + float(self.upper @ (G.max(0) - G[self.own]))
        both = gap - 2 * objective
        return objective, 2 * gap / abs(both) if both else 0.0

    def assess(
        self, coef: NDArray[np.float64], G: NDArray[np.float64], iterations: int, status: str
    ) -> Solution:
        """Work out everything else from coefficients and gradients."""
        limit = np.zeros_like(coef)
        limit[self.own] = self.upper
        low = np.where(coef < limit, G, np.inf).min(0)
        violation = float(np.max(G.max(0) - low, initial=0.0))
        objective, gap = self.figures(coef, G)
        converged = violation <= self.tol or gap <= self.duality_gap
        status = "converged" if converged else status
        support = np.flatnonzero(coef.any(0))
        return Solution(coef, objective, gap, violation, iterations, converged, status, support)


def checked(
    gram: Gram, target: ArrayLike, n_classes: int, C: float, sample_weight: ArrayLike | None,
    index: NDArray[np.int64] | None, tol: float, max_iter: int, duality_gap: float | None,
) -> Problem:  # fmt: skip
    """The problem, once it is known to make sense; see `textsvm.solvers.crammer_singer.solve`."""
    classes = np.asarray(target)
    if n_classes < 2 or classes.ndim != 1 or not len(classes) or classes.dtype.kind not in "iu":
        raise InputError(f"the solver takes a vector of classes, whole numbers from 0 to {n_classes - 1}")
    if classes.min() < 0 or classes.max() >= n_classes:
        raise InputError(
            f"the classes {classes.min()} to {classes.max()} are not all in 0 to {n_classes - 1}"
        )
    m = len(classes)
    rows = _rows(index, m)
    if rows.shape != (m,) or rows.min() < 0 or rows.max() >= gram.n:
        raise InputError(f"the {m} examples of the problem do not fit a Gram of {gram.n} rows")
    return Problem(
        np.ascontiguousarray(rows, np.int64),
        np.ascontiguousarray(classes, np.int64),
        _positive("C", C) * _weights(sample_weight, m),
        n_classes,
        _positive("tol", tol),
        -1.0 if duality_gap is None else duality_gap,
        max_iter if max_iter >= 0 else max(10_000_000, 100 * m),
    )


def starting_coef(problem: Problem, initial: NDArray[np.float64] | None) -> NDArray[np.float64]:
    """Feasible coefficients to start from, a copy."""
    shape = (problem.n_classes, len(problem))
    if initial is None:
        return np.zeros(shape)
    coef = np.array(initial, np.float64, order="C")
    if coef.shape != shape or not np.isfinite(coef).all():
        raise InputError(f"the initial coefficients are not {shape[0]} x {shape[1]} finite numbers")
    others = coef.copy()
    others[problem.own] = 0
    if (others > 0).any() or (np.abs(coef.sum(0)) > 1e-9 * (1 + np.abs(coef).sum(0))).any():
        raise InputError(
            "the initial coefficients of an example must sum to 0, and only its own class's be above 0"
        )
    positive = coef[problem.own]
    excess = positive > problem.upper
    coef[:, excess] *= problem.upper[excess] / positive[excess]
    coef[problem.target[excess], excess] = problem.upper[excess]
    return coef
