"""The compiled passes when a problem ends and the next one starts, against NumPy: the same bits."""

import numpy as np
import pytest

from textsvm.solvers.dual import Dual
from textsvm.solvers.solution import Solution, Stopping, assess, bounds, warm_start


def assessed(dual, coef, responses):
    """Bias, objective, duality gap and violation, in NumPy's words."""
    low, high = bounds(dual)
    up, down = coef < high, coef > low
    first = float(np.max(np.where(up, -responses, -np.inf), initial=-np.inf))
    last = float(np.min(np.where(down, -responses, np.inf), initial=np.inf))
    free = up & down
    if free.any():
        bias = float(np.mean(-responses[free]))
    elif np.isfinite(first) and np.isfinite(last):
        bias = (first + last) / 2
    else:
        bias = first if np.isfinite(first) else last if np.isfinite(last) else 0.0
    slack = responses + bias
    gap = float(np.maximum(slack * (coef - low), slack * (coef - high)).sum())
    objective = 0.5 * float(coef @ (responses + dual.sign * dual.linear))
    both = gap - 2 * objective
    violation = first - last if np.isfinite(first) and np.isfinite(last) else 0.0
    return bias, objective, 2 * gap / abs(both) if both else 0.0, violation


def started(dual, former, solution):
    """Where a problem with room for the former variables starts, in NumPy's words; None without room."""
    low, high = bounds(dual)
    coef = dual.sign * solution.alpha
    if not np.array_equal(np.clip(coef, low, high), coef):
        return None
    q = dual.sign * dual.linear
    product = solution.responses - former.sign * former.linear
    some = coef != 0
    ratio = 0.0
    if some.any():
        most = float(np.min(dual.upper[some] / np.abs(coef[some])))
        curvature, slope = float(coef @ product), float(coef @ q)
        if curvature > 0:
            ratio = min(max(-slope / curvature, 0.0), most)
        elif most * (most * curvature / 2 + slope) < 0:
            ratio = most
    scaled = np.clip(ratio * coef, low, high)
    at_bound = np.abs(scaled) >= (1 - 1e-12) * dual.upper
    scaled[at_bound] = (dual.sign * dual.upper)[at_bound]
    return scaled, ratio * product + q


def problem(seed, m, C, free):
    """A dual, and coefficients of which a share is free."""
    random = np.random.default_rng(seed)
    sign, upper = random.choice([-1.0, 1.0], m), C * random.choice([0.5, 1.0, 2.0], m)
    dual = Dual(sign, np.full(m, -1.0), upper, np.arange(m))
    alpha = np.where(random.random(m) < free, random.random(m), random.integers(0, 2, m)) * upper
    return dual, alpha, random.normal(size=m)


@pytest.mark.parametrize("m", [1, 2, 7, 500, 3001])
@pytest.mark.parametrize("free", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("seed", range(5))
def test_passes_have_the_bits_of_numpy(m, free, seed):
    dual, alpha, responses = problem(seed, m, 1.0, free)
    found = assess(dual, dual.sign * alpha, responses, 3, "", Stopping(1e-3))
    assert (found.bias, found.objective, found.duality_gap, found.violation) == assessed(
        dual, dual.sign * alpha, responses
    )
    wider = Dual(dual.sign, dual.linear, 1.5 * dual.upper, dual.index)
    for a, b in zip(warm_start(wider, dual, found), started(wider, dual, found), strict=True):
        np.testing.assert_array_equal(a, b)
    narrow = Dual(dual.sign, dual.linear, 0.7 * dual.upper, dual.index)
    assert (warm_start(narrow, dual, found)[1] is None) == (started(narrow, dual, found) is None)


def test_nothing_has_been_learnt():
    dual, _, responses = problem(0, 50, 1.0, 0.5)
    coef, at = warm_start(dual, dual, assess(dual, np.zeros(50), responses, 0, "", Stopping(1e-3)))
    assert not coef.any()
    np.testing.assert_array_equal(at, dual.sign * dual.linear)


@pytest.mark.parametrize("place", range(3))
def test_a_response_that_is_no_number_is_no_convergence(place):
    dual = Dual(np.array([1.0, -1.0, 1.0]), np.full(3, -1.0), np.ones(3), np.arange(3))
    responses = np.array([0.3, -0.2, 0.1])
    responses[place] = np.nan
    found: Solution = assess(dual, np.array([0.5, -0.5, 0.0]), responses, 1, "", Stopping(1e-3))
    expected = assessed(dual, np.array([0.5, -0.5, 0.0]), responses)
    np.testing.assert_array_equal([found.bias, found.objective, found.duality_gap], expected[:3])
    assert found.violation == expected[3]


def start_near_the_bound(share):
    """A problem whose optimum is `share` of the bounds, its warm start from half of them, the responses."""
    dual = Dual(np.array([1.0, -1.0]), np.full(2, -share), np.ones(2), np.arange(2))
    coef = dual.sign / 2
    half = assess(dual, coef, coef + dual.sign * dual.linear, 1, "", Stopping(1e-3))
    return (dual, *warm_start(dual, dual, half))


@pytest.mark.parametrize("share", [0.999, 0.9995, 1 - 1e-6, 1 - 1e-9])
def test_a_warm_start_near_a_bound_is_not_moved_to_it(share):
    dual, coef, responses = start_near_the_bound(share)
    np.testing.assert_allclose(coef, share * dual.sign, rtol=1e-14)
    np.testing.assert_allclose(responses, coef + dual.sign * dual.linear, atol=1e-14)


def test_a_warm_start_within_rounding_of_a_bound_is_moved_to_it():
    dual, coef, _ = start_near_the_bound(1 - 1e-14)
    np.testing.assert_array_equal(coef, dual.sign)
