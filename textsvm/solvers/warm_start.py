"""Where a problem starts: at zeros, at variables that are given, or where a similar one ended.

The last, when a problem with other bounds or another linear term has been solved.

With coefficients b = sign * a, bounds low <= b <= high and q = sign * p (see `textsvm.solvers.smo`), the
objective along the multiples r b of the former solution is

    f(r) = r^2/2 b'Kb + r q'b,      smallest at  r = -q'b / b'Kb,

and Kb = F - q comes with that solution's responses F. So the best r of those within the new bounds costs no
row, and neither do the responses at r b, r (F - q) + q_new. When C grows, r = 1 is within the bounds: the
start is never worse than the former variables as they are, nor than zeros.

Bounds that cut the former variables (C falls, weights change), or another total: the variables are cut too,
and what the total then lacks or has too much comes from all that can give it, in proportion. Their responses
have to be worked out anew.

Coefficients of a `MulticlassDual` start as they are, and those above the bounds are scaled down to them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from textsvm.errors import InputError
from textsvm.solvers import solution as loop
from textsvm.solvers.dual import Dual, MulticlassDual
from textsvm.solvers.solution import Solution, bounds

Vector = NDArray[np.float64]


def start(dual: Dual, initial: Vector | None) -> Vector:
    """Coefficients sign * alpha at `initial`, variables that are checked, or at zeros."""
    if initial is None:
        if dual.total != 0:
            raise InputError("a problem whose coefficients do not sum to 0 needs initial variables")
        return np.zeros(len(dual))
    alpha = np.asarray(initial, np.float64)
    if alpha.shape != dual.sign.shape or not ((alpha >= 0) & (alpha <= dual.upper)).all():
        raise InputError("the initial variables are not one a variable between 0 and its upper bound")
    if abs(dual.sign @ alpha - dual.total) > 1e-9 * max(1.0, float(alpha.sum())):
        raise InputError(f"the initial variables do not satisfy sign'a = {dual.total:g}")
    return dual.sign * alpha


def start_multiclass(dual: MulticlassDual, initial: Vector | None) -> Vector:
    """Coefficients of all classes at `initial`, such as a solution for another C, or at zeros; a copy."""
    shape = (dual.n_classes, len(dual))
    if initial is None:
        return np.zeros(shape)
    coef = np.array(initial, np.float64, order="C")
    if coef.shape != shape or not np.isfinite(coef).all():
        raise InputError(f"the initial coefficients are not {shape[0]} x {shape[1]} finite numbers")
    others = coef.copy()
    others[dual.own] = 0
    if (others > 0).any() or (np.abs(coef.sum(0)) > 1e-9 * (1 + np.abs(coef).sum(0))).any():
        raise InputError(
            "the initial coefficients of an example must sum to 0, and only its own class's be above 0"
        )
    positive = coef[dual.own]
    excess = positive > dual.upper
    coef[:, excess] *= dual.upper[excess] / positive[excess]
    coef[dual.target[excess], excess] = dual.upper[excess]
    return coef


def warm_start(dual: Dual, former: Dual, solution: Solution) -> tuple[Vector, Vector | None]:
    """Start a problem from the solution of another one over the same variables.

    Parameters
    ----------
    dual : Dual
        The problem to start.
    former : Dual
        The same `sign` and `index`.
    solution : Solution
        Of `former`.

    Returns
    -------
    coef : float64 array, shape (m,)
        sign * alpha, feasible.
    responses : float64 array, shape (m,), or None
        K coef + sign * linear, if they come without reading rows.
    """
    coef, q, product = (np.empty(len(dual)) for _ in range(3))
    within, most = loop.resumed(
        dual.sign, solution.alpha, dual.upper, dual.linear, former.linear, solution.responses,
        coef, q, product,
    )  # fmt: skip
    if dual.total != former.total or not within:
        low, high = bounds(dual)
        return _with_total(np.clip(coef, low, high), low, high, dual.total), None
    if dual.total != 0:
        return coef, product + q
    scaled, responses = np.empty(len(dual)), np.empty(len(dual))
    ratio = _best_multiple(coef, product, q, most)
    loop.multiplied(dual.sign, dual.upper, ratio, coef, product, q, scaled, responses)
    return scaled, responses


def carried_over(rounding: float, former: Dual, solved: Vector, coef: Vector) -> float:
    """How far the responses that come with a warm start may be off.

    Parameters
    ----------
    rounding : float
        How far those of the former solution may be.
    former : Dual
    solved, coef : float64 arrays, shape (m,)
        sign * alpha of the former solution, and of the start: a multiple of it, as the responses are.
    """
    before, now = float(np.abs(solved).sum()), float(np.abs(coef).sum())
    lost = float(np.finfo(np.float64).eps * np.abs(former.linear).max())
    return (rounding + lost) * now / before if before else 0.0


def _best_multiple(coef: Vector, product: Vector, q: Vector, most: float) -> float:
    """The r up to `most` that minimises r^2/2 b'Kb + r q'b."""
    if np.isinf(most):
        return 0.0
    curvature, slope = float(coef @ product), float(coef @ q)
    if curvature > 0:
        return min(max(-slope / curvature, 0.0), most)
    # A Gram that is not positive semi-definite can fall off on the way out.
    return most if most * (most * curvature / 2 + slope) < 0 else 0.0


def _with_total(coef: Vector, low: Vector, high: Vector, total: float) -> Vector:
    """The nearest coefficients, in proportion, that sum to `total`: towards 0 first, then away from it."""
    for towards in (np.zeros(len(coef)), np.where(total > coef.sum(), high, low)):
        lacking = total - coef.sum()
        room = np.clip(np.sign(lacking) * (towards - coef), 0.0, None)
        if lacking and room.any():
            coef = coef + np.sign(lacking) * room * min(1.0, abs(lacking) / room.sum())
    return np.clip(coef, low, high)
