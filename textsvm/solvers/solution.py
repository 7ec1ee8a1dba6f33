"""Stopping rules, solutions with their figures of optimality, and warm starts.

A problem starts at zeros, at given variables, or at the solution of a similar problem (with other bounds or
another linear term). With coefficients b = sign * a, bounds low <= b <= high and q = sign * p (see
`textsvm.solvers.smo`), the objective along the multiples r b of the former solution is

    f(r) = r^2/2 b'Kb + r q'b,      smallest at  r = -q'b / b'Kb,

and Kb = F - q follows from that solution's responses F. So the best r within the new bounds, and the
responses at r b, r (F - q) + q_new, need no row. If C grows, r = 1 is within the bounds: the start is at
least as good as the former variables, and as zeros.

If the new bounds cut the former variables (C falls, weights change) or the total differs, the variables are
clipped, the difference to the total is spread over all variables in proportion to their room, and responses
are computed anew. Coefficients of a `MulticlassDual` are kept, and scaled down to the bounds where necessary.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import ModuleType

import numpy as np

from textsvm.arrays import Array, Floats, Ints
from textsvm.runtime.parameters import with_short_repr
from textsvm.solvers.dual import MOST_SLACK, Dual, MulticlassDual

SHARE = 0.3  #: Violation of a working set, as a fraction of that of all variables, at which a round ends.
#: Later steps of a long run, in units of the best step. Values in (0, 2) decrease the objective; of steps
#: that are taken together, values up to 1.6 (kernels_cu/crammer_singer_set.cu).
RELAXATION = 1.6
#: Responses are computed anew before optimality is judged if their estimated error is more than this fraction
#: of the tolerance.
ROUNDING = 0.01
RENEWALS = 20  #: Maximum number of times that new responses continue a run.

NOT_FINITE = "the kernel matrix holds a value that is not a finite number"
NO_STEP_LEFT = "stalled: no step is left in float64"


@with_short_repr
@dataclass(frozen=True)
class Solution:
    """Solution of a dual (see `textsvm.solvers.dual`) and its distance from the optimum.

    Figures are accurate to a hundredth of the tolerance, or to the rounding of a single sum in float64.
    """

    #: shape (m,), or (n_classes, m) of a `MulticlassDual`: The variables; exactly at a bound if it is active.
    alpha: Floats
    #: the same shape: Value at x: sum_i coef[i] K(index_i, x) + bias. It is sign * alpha, and alpha itself of
    #: a `MulticlassDual`, with a row per class and columns that sum to 0.
    coef: Floats
    bias: float  #: 0 of a `MulticlassDual`, which has none
    objective: float  #: The minimised function, 1/2 a'Qa + p'a (LIBSVM's "obj"; negative for a classifier)
    #: Relative: 2 (P - D) / (P + D), P the primal and D = -objective the dual value, as in GTSVM. A bound on
    #: the distance from the optimum if the Gram is positive semi-definite; otherwise still 0 at a stationary
    #: point and nowhere else.
    duality_gap: float
    #: The largest violation of the optimality conditions, in units of decision values: m(a) - M(a) of pairs
    #: of variables (Fan, Chen and Lin 2005), or the largest of the examples of a `MulticlassDual`; 0 or less
    #: at a stationary point.
    violation: float
    iterations: int  #: Pairs of variables, or examples of a `MulticlassDual`, optimised
    converged: bool  #: Whether the violation is within the tolerance, or the duality gap within its bound
    status: str  #: "converged", or why the solver stopped earlier
    #: int64 array: Variables above 0; examples of a `MulticlassDual` that have a coefficient other than 0.
    support: Ints
    #: the shape of alpha: The gradient with respect to `coef`: sum_j coef[j] K(index_i, index_j) + sign_i
    #: p_i, -bias at free variables; of a `MulticlassDual`, class values, less 1 for an example's own class.
    responses: Floats


@dataclass(frozen=True)
class Stopping:
    """When a solver stops."""

    tol: float = 1e-3  #: Largest violation to accept, > 0
    max_iter: int = -1  #: Maximum number of optimised pairs, or examples; -1 is max(10 million, 100 m)
    #: Relative duality gap to accept (the rule of GTSVM; Cotter, Srebro and Keshet 2011). Solvers of pairs
    #: check it whenever the violation has fallen to a tenth.
    duality_gap: float | None = None

    def max_iterations(self, m: int) -> int:
        """The bound on iterations for m variables."""
        return self.max_iter if self.max_iter >= 0 else max(10_000_000, 100 * m)

    def tolerances(self) -> list[float]:
        """Violations at which to check the duality gap; the last is `tol`."""
        if self.duality_gap is None:
            return [self.tol]
        return [*(10.0**-k for k in range(16) if 10.0**-k > self.tol), self.tol]

    def satisfied(self, duality_gap: float) -> bool:
        """Whether a duality gap is small enough."""
        return self.duality_gap is not None and duality_gap <= self.duality_gap


def assess(
    dual: Dual, coef: Floats, responses: Floats, iterations: int, status: str, stopping: Stopping,
    tol: float | None = None,
) -> Solution:  # fmt: skip
    """Compute a Solution from coefficients and responses, all in float64; `tol` overrides that of `stopping`.

    With b = sign * a the dual reads: minimise 1/2 b'Kb + q'b, q = sign * p, between bounds low <= b <= high,
    sum b fixed. Its gradient is the responses F = Kb + q, and for any bias the sum over i of
    (F_i + bias) b_i - min over the box of the same is P - D.
    """
    low, high = bounds(dual)
    violation, bias = violation_and_bias(responses, coef, low, high)
    slack, slopes = responses + bias, responses + dual.sign * dual.linear
    with np.errstate(over="ignore", invalid="ignore"):  # without bounds, 0 times infinity
        gap = float(np.maximum(slack * (coef - low), slack * (coef - high)).sum())
    if dual.loss_diagonal is not None:
        gap = float(_squared_hinge_gaps(dual, coef, responses + bias).sum())
    objective = 0.5 * float(coef @ slopes)
    total = gap - 2 * objective
    alpha = dual.sign * coef + 0.0
    relative = 2 * gap / abs(total) if total else 0.0
    if gap == np.inf:
        relative = np.inf
    converged = violation <= (stopping.tol if tol is None else tol) or stopping.satisfied(relative)
    status, support = "converged" if converged else status, np.flatnonzero(alpha > 0)
    figures = bias, objective, relative, violation, iterations, converged, status
    return Solution(alpha, dual.sign * alpha, *figures, support, responses)


def violation_and_bias(F: Floats, coef: Floats, low: Floats, high: Floats) -> tuple[float, float]:
    """Largest violation of the optimality conditions by a pair of variables, and the bias.

    The bias is the mean of -F of free variables; without any the middle of max over UP and min over DOWN of
    -F, either of which may be infinite.
    """
    up, down, values = coef < high, coef > low, -F
    first, last = float(values[up].max(initial=-np.inf)), float(values[down].min(initial=np.inf))
    free, finite = values[up & down], [end for end in (first, last) if np.isfinite(end)]
    violation = first - last if len(finite) == 2 else 0.0
    if len(free):
        return violation, float(free.sum()) / len(free)
    return violation, sum(finite) / max(1, len(finite))


def _squared_hinge_gaps(dual: Dual, coef: Floats, gradient: Floats) -> Floats:
    """Terms of P - D with the squared hinge loss; `gradient` is that of coefficients, and the bias.

    With r the diagonal of the loss and M the slack from which it is linear, the loss of a slack s is
    inner (s - inner / 2) / r with inner = min(s, M), and its conjugate r a^2 / 2.
    """
    assert dual.loss_diagonal is not None
    alpha, r = dual.sign * coef, dual.loss_diagonal
    slack = r * alpha - dual.sign * gradient
    inner = np.clip(slack, 0.0, MOST_SLACK)
    loss = np.divide(inner * (slack - inner / 2), r, out=np.zeros(len(r)), where=r > 0)
    return np.where(dual.upper > 0, loss + r * alpha**2 / 2 - alpha * slack, 0.0)


def assess_multiclass(
    dual: MulticlassDual, coef: Floats, gradient: Floats, iterations: int, status: str, stopping: Stopping,
    tol: float | None = None,
) -> Solution:  # fmt: skip
    """`assess` for coefficients of all classes, shape (n_classes, m), and their gradient."""
    low = np.where(coef[dual.own] < dual.upper, gradient[dual.own], np.inf)
    for values, changes in zip(gradient, coef, strict=True):  # each class in cache
        np.minimum(low, np.where(changes < 0, values, np.inf), out=low)
    violation = float(np.max(gradient.max(0) - low, initial=0.0))
    objective, gap = objective_and_gap(dual, coef, gradient)
    converged = violation <= (stopping.tol if tol is None else tol) or stopping.satisfied(gap)
    status, support = "converged" if converged else status, np.flatnonzero(coef.any(0))
    figures = 0.0, objective, gap, violation, iterations, converged, status
    return Solution(coef, coef, *figures, support, gradient)


def objective_and_gap(dual: MulticlassDual, coef: Floats, gradient: Floats) -> tuple[float, float]:
    """-D and the relative duality gap of coefficients of all classes."""
    own = float(coef[dual.own].sum())
    slope = float(np.einsum("rc,rc->", coef, gradient))
    objective = 0.5 * (slope - own)
    gap = slope + float(dual.upper @ (gradient.max(0) - gradient[dual.own]))
    total = gap - 2 * objective
    return objective, 2 * gap / abs(total) if total else 0.0


def rounding(size: float, most: float, largest: float, steps: int) -> float:
    """Estimated error of responses after a number of steps since they were computed from coefficients.

    Rounding of responses mostly cancels; that of a coefficient can be the same in every step. `size` and
    `most` are the sum and the maximum of |coef|, `largest` is the largest |kernel value|.
    """
    return float(np.finfo(np.float64).eps) * largest * max(size * math.sqrt(steps), most * steps)


def bounds(dual: Dual) -> tuple[Floats, Floats]:
    """Bounds low <= sign * a <= high, shapes (m,)."""
    signed = dual.sign * dual.upper
    return np.minimum(signed, 0.0), np.maximum(signed, 0.0)


def log_progress(first: float, now: float, tol: float) -> tuple[float, float]:
    """Progress (done, total) from the violation at the start, now, and to be reached."""
    total = max(math.log(max(first, tol) / tol), 1e-9)
    return min(max(total - math.log(max(now, tol) / tol), 0.0), total), total


def start_multiclass(dual: MulticlassDual, initial: Floats) -> Floats:
    """A copy of feasible coefficients of a former problem, scaled down to the bounds."""
    coef = np.array(initial, np.float64, order="C")
    positive = coef[dual.own]
    excess = positive > dual.upper
    coef[:, excess] *= dual.upper[excess] / positive[excess]
    coef[dual.target[excess], excess] = dual.upper[excess]
    return coef


def warm_start(dual: Dual, former: Dual, solution: Solution) -> tuple[Floats, Floats | None]:
    """Start a problem from the solution of `former`, which has the same `sign` and `index`.

    Returns feasible coefficients sign * alpha, and their responses, or None if these need rows.
    """
    coef, q, (low, high) = dual.sign * solution.alpha, dual.sign * dual.linear, bounds(dual)
    product = solution.responses - dual.sign * former.linear
    if dual.total != former.total or (coef < low).any() or (coef > high).any():
        return _with_total(np.clip(coef, low, high), low, high, dual.total), None
    if dual.total != 0:
        return coef, product + q
    used = np.flatnonzero(coef)
    ratio = _best_multiple(coef, product, q, np.min(dual.upper[used] / np.abs(coef[used]), initial=np.inf))
    scaled = np.clip(ratio * coef, low, high)
    # A coefficient within rounding of a bound is put at it: the solver would spend steps on the difference.
    at_bound = np.abs(scaled) >= (1 - 1e-12) * dual.upper
    return np.where(at_bound, dual.sign * dual.upper, scaled), ratio * product + q


def carried_over(rounding: float, former: Dual, solved: Floats, coef: Floats) -> float:
    """Estimated error of the responses of a warm start, from that of the former responses.

    `solved` is sign * alpha of the former solution and `coef` that of the start, a multiple of it.
    """
    before, now = float(np.abs(solved).sum()), float(np.abs(coef).sum())
    lost = float(np.finfo(np.float64).eps * np.abs(former.linear).max())
    return (rounding + lost) * now / before if before else 0.0


def _best_multiple(coef: Floats, product: Floats, q: Floats, most: float) -> float:
    """The r up to `most` that minimises r^2/2 b'Kb + r q'b."""
    if np.isinf(most):
        return 0.0
    curvature, slope = float(coef @ product), float(coef @ q)
    if curvature > 0:
        return min(max(-slope / curvature, 0.0), most)
    # Without positive curvature the minimum is at an end: 0 or `most`.
    return most if most * (most * curvature / 2 + slope) < 0 else 0.0


def _with_total(coef: Floats, low: Floats, high: Floats, total: float) -> Floats:
    """Move coefficients, in proportion to their room, until they sum to `total`: towards 0, then away."""
    for towards in (np.zeros(len(coef)), np.where(total > coef.sum(), high, low)):
        lacking = total - coef.sum()
        room = np.clip(np.sign(lacking) * (towards - coef), 0.0, None)
        if lacking and room.any():
            coef = coef + np.sign(lacking) * room * min(1.0, abs(lacking) / room.sum())
    return np.clip(coef, low, high)


def balance_columns(xp: ModuleType, coef: Array, low: Array, high: Array, total: Array) -> Array:
    """Make the sums of coefficients (n, k) exact, within the bounds, by moving free coefficients equally."""
    for _ in range(100):
        rest = sums(coef) - total
        off = abs(rest) > 1e-12 * sums(abs(coef))  # rounding: coefficients at their bounds stay there
        if not bool(off.any()):
            break
        free = (coef > low) & (coef < high) & (coef != 0)
        movable = xp.where(free.any(axis=0), free, xp.where(rest > 0, coef > low, coef < high)) & off
        number = xp.maximum(sums(movable), 1)
        coef = xp.clip(coef - xp.where(movable, rest / number, 0), low, high)
    return coef


def sums(a: Array) -> Array:
    """The sum of every column, (n, k) -> (k,)."""
    # CuPy sums an axis with a block per result, but a whole array with all of the card.
    return a.reshape(-1).sum(keepdims=True) if a.shape[1] == 1 else a.sum(axis=0)
