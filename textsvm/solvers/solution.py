"""When a solver stops, what it returns, and the figures of optimality in it.

The compiled passes over the variables that a problem takes when it ends and when the next one starts.

Hundreds of problems that a GPU solves side by side, on folds and along C, end within milliseconds of each
other; as a dozen NumPy expressions each, these passes took longer than the GPU did. Sums are left to NumPy:
its order of adding is part of the result.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.errors import InputError
from textsvm.runtime.compiled import njit
from textsvm.solvers.dual import Dual, MulticlassDual


@njit(nogil=True, cache=True, error_model="numpy")
def thresholds(coef: Any, responses: Any, low: Any, high: Any, free: Any) -> Any:
    """max of -F over UP, min over DOWN (NaN if one of these F is), how many are free, and -F of these."""
    first, last, count, bad_first, bad_last = -np.inf, np.inf, 0, False, False
    for i in range(len(coef)):
        up, down, value = coef[i] < high[i], coef[i] > low[i], -responses[i]
        if up:
            bad_first |= value != value
            if value > first:
                first = value
        if down:
            bad_last |= value != value
            if value < last:
                last = value
        if up and down:
            free[count] = value
            count += 1
    return np.nan if bad_first else first, np.nan if bad_last else last, count


@njit(nogil=True, cache=True, error_model="numpy")
def terms(
    coef: Any, responses: Any, low: Any, high: Any, q: Any, bias: Any, gaps: Any, slopes: Any
) -> Any:  # fmt: skip
    """What the duality gap and the objective are sums of, each variable's; slopes times coef is summed."""
    for i in range(len(coef)):
        slack = responses[i] + bias
        above, below = slack * (coef[i] - low[i]), slack * (coef[i] - high[i])
        gaps[i] = below if below > above or below != below else above
        slopes[i] = responses[i] + q[i]


@njit(nogil=True, cache=True, error_model="numpy")
def resumed(
    sign: Any, alpha: Any, upper: Any, linear: Any, former: Any, responses: Any,
    coef: Any, q: Any, product: Any,
) -> Any:  # fmt: skip
    """Coefficients of a solution, q of the next problem and Kb; whether they are within the bounds.

    And the largest r with r |b| <= upper, infinite if all coefficients are 0.
    """
    within, most = True, np.inf
    for i in range(len(sign)):
        coef[i] = sign[i] * alpha[i]
        q[i] = sign[i] * linear[i]
        product[i] = responses[i] - sign[i] * former[i]
        signed = sign[i] * upper[i]
        within &= min(signed, 0.0) <= coef[i] <= max(signed, 0.0)
        if coef[i] != 0:
            most = min(most, upper[i] / abs(coef[i]))
    return within, most


@njit(nogil=True, cache=True, error_model="numpy")
def multiplied(
    sign: Any, upper: Any, ratio: Any, coef: Any, product: Any, q: Any, scaled: Any, responses: Any
) -> Any:  # fmt: skip
    """ratio b within the bounds, at a bound exactly or not at all, and its responses.

    One rounding error of room would be worth steps to the solver.
    """
    for i in range(len(sign)):
        signed = sign[i] * upper[i]
        value = min(max(ratio * coef[i], min(signed, 0.0)), max(signed, 0.0))
        scaled[i] = signed if abs(value) >= (1 - 1e-12) * upper[i] else value
        responses[i] = ratio * product[i] + q[i]


NOT_FINITE = "the kernel matrix holds a value that is not a finite number"
NO_STEP_LEFT = "stalled: no step is left in float64"


@dataclass(frozen=True)
class Solution:
    """A solved dual (see `textsvm.solvers.dual`), with an honest account of how well.

    Figures are those of `coef` as it is, up to a hundredth of the tolerance or the rounding of one sum in
    float64, whatever rounding a run's steps have added up.

    Attributes
    ----------
    alpha : float64 array, shape (m,) or, of a `MulticlassDual`, (n_classes, m)
        The variables; exactly at a bound where one holds.
    coef : float64 array, the same shape
        Value at x: sum_i coef[i] K(index_i, x) + bias. It is sign * alpha, and alpha itself of a
        `MulticlassDual`, one row a class; there the columns sum to 0.
    bias : float
        0 of a `MulticlassDual`, which has none.
    objective : float
        What the solver minimises: 1/2 a'Qa + p'a (LIBSVM's "obj"; negative for a classifier).
    duality_gap : float
        Relative: 2 (P - D) / (P + D), P the primal and D = -objective the dual value, as in GTSVM.
        A bound on the distance from the optimum if the Gram is positive semi-definite; otherwise still 0
        at a stationary point and nowhere else.
    violation : float
        The largest violation of the optimality conditions, in units of decision values: m(a) - M(a) by a
        pair of variables (Fan, Chen and Lin 2005), or that of an example of a `MulticlassDual`; 0 or less
        at a stationary point.
    iterations : int
        Pairs of variables, or examples of a `MulticlassDual`, optimised.
    converged : bool
        The violation is within the tolerance, or the duality gap within the bound that was given.
    status : str
        "converged", or why the solver stopped before.
    support : int64 array
        Variables above 0; examples of a `MulticlassDual` that have a coefficient other than 0.
    responses : float64 array, the shape of alpha
        The gradient with respect to `coef`: sum_j coef[j] K(index_i, index_j) + sign_i p_i, which is -bias at
        free variables; of a `MulticlassDual`, the values of the classes, less 1 at the own one.
    """

    alpha: NDArray[np.float64]
    coef: NDArray[np.float64]
    bias: float
    objective: float
    duality_gap: float
    violation: float
    iterations: int
    converged: bool
    status: str
    support: NDArray[np.int64]
    responses: NDArray[np.float64]


@dataclass(frozen=True)
class Stopping:
    """When a solver stops.

    Attributes
    ----------
    tol : float
        Largest violation to accept, > 0.
    max_iter : int
        Bound on the pairs, or examples, optimised; -1 is max(10 million, 100 m).
    duality_gap : float, optional
        Relative duality gap to accept (the rule of GTSVM; Cotter, Srebro and Keshet 2011). Solvers of pairs
        look at it whenever the violation has fallen to a tenth.
    shrinking : bool
        Whether a solver of pairs sets variables aside that look settled (CPU).

    Raises
    ------
    InputError
        If `tol` is not above 0.
    """

    tol: float = 1e-3
    max_iter: int = -1
    duality_gap: float | None = None
    shrinking: bool = True

    def __post_init__(self) -> None:
        if not self.tol > 0:
            raise InputError(f"tol={self.tol!r} must be a number above 0")

    def bound(self, m: int) -> int:
        """The bound on iterations for m variables."""
        return self.max_iter if self.max_iter >= 0 else max(10_000_000, 100 * m)

    def tolerances(self) -> list[float]:
        """Violations at which to look at the duality gap, the last one `tol`."""
        if self.duality_gap is None:
            return [self.tol]
        return [*(10.0**-k for k in range(16) if 10.0**-k > self.tol), self.tol]

    def satisfied(self, duality_gap: float) -> bool:
        """Whether a duality gap is small enough."""
        return self.duality_gap is not None and duality_gap <= self.duality_gap


def assess(
    dual: Dual,
    coef: NDArray[np.float64],
    responses: NDArray[np.float64],
    iterations: int,
    status: str,
    tol: float,
) -> Solution:
    """Work out everything else from coefficients and responses, all in float64.

    With b = sign * a the dual reads: minimise 1/2 b'Kb + q'b, q = sign * p, between bounds low <= b <= high,
    sum b fixed. Its gradient is the responses F = Kb + q, and for any bias the sum over i of
    (F_i + bias) b_i - min over the box of the same is P - D.
    """
    low, high = bounds(dual)
    gaps, slopes = np.empty(len(coef)), np.empty(len(coef))
    first, last, n_free = thresholds(coef, responses, low, high, gaps)
    if n_free:
        bias = float(np.mean(gaps[:n_free]))
    elif np.isfinite(first) and np.isfinite(last):
        bias = (first + last) / 2
    else:
        bias = first if np.isfinite(first) else last if np.isfinite(last) else 0.0
    terms(coef, responses, low, high, dual.sign * dual.linear, bias, gaps, slopes)
    gap, objective = float(gaps.sum()), 0.5 * float(coef @ slopes)
    both = gap - 2 * objective
    violation = first - last if np.isfinite(first) and np.isfinite(last) else 0.0
    alpha = dual.sign * coef + 0.0
    return Solution(
        alpha=alpha,
        coef=dual.sign * alpha,
        bias=bias,
        objective=objective,
        duality_gap=2 * gap / abs(both) if both else 0.0,
        violation=violation,
        iterations=iterations,
        converged=violation <= tol,
        status="converged" if violation <= tol else status,
        support=np.flatnonzero(alpha > 0),
        responses=responses,
    )


def assess_multiclass(
    dual: MulticlassDual,
    coef: NDArray[np.float64],
    gradient: NDArray[np.float64],
    iterations: int,
    status: str,
    stopping: Stopping,
) -> Solution:
    """The same for coefficients of all classes, shape (n_classes, m), and their gradient."""
    limit = np.zeros_like(coef)
    limit[dual.own] = dual.upper
    low = np.where(coef < limit, gradient, np.inf).min(0)
    violation = float(np.max(gradient.max(0) - low, initial=0.0))
    objective, gap = objective_and_gap(dual, coef, gradient)
    converged = violation <= stopping.tol or stopping.satisfied(gap)
    return Solution(
        alpha=coef,
        coef=coef,
        bias=0.0,
        objective=objective,
        duality_gap=gap,
        violation=violation,
        iterations=iterations,
        converged=converged,
        status="converged" if converged else status,
        support=np.flatnonzero(coef.any(0)),
        responses=gradient,
    )


def objective_and_gap(
    dual: MulticlassDual, coef: NDArray[np.float64], gradient: NDArray[np.float64]
) -> tuple[float, float]:
    """-D and the relative duality gap."""
    own = float(coef[dual.own].sum())
    slope = float(np.einsum("rc,rc->", coef, gradient))
    objective = 0.5 * (slope - own)
    gap = slope + float(dual.upper @ (gradient.max(0) - gradient[dual.own]))
    both = gap - 2 * objective
    return objective, 2 * gap / abs(both) if both else 0.0


def rounding(size: float, most: float, largest: float, steps: int) -> float:
    """About how far responses that steps were added to may be from those of the coefficients.

    Rounding of the responses mostly evens out; that of a coefficient, moved to and fro, can be the same each
    time.

    Parameters
    ----------
    size, most : float
        The sum of the coefficients without their signs, and the largest.
    largest : float
        The largest kernel value, without its sign.
    steps : int
        Since the responses were made from coefficients.
    """
    return float(np.finfo(np.float64).eps) * largest * max(size * math.sqrt(steps), most * steps)


def bounds(dual: Dual) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Bounds low <= sign * a <= high, shapes (m,)."""
    signed = dual.sign * dual.upper
    return np.minimum(signed, 0.0), np.maximum(signed, 0.0)


def log_progress(first: float, now: float, tol: float) -> tuple[float, float]:
    """Work done and work in all, from the violation at the start, now, and to be reached."""
    total = max(math.log(max(first, tol) / tol), 1e-9)
    return min(max(total - math.log(max(now, tol) / tol), 0.0), total), total
