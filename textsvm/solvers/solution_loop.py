"""The compiled passes over the variables that a problem takes when it ends and when the next one starts.

Hundreds of problems that a GPU solves side by side, on folds and along C, end within milliseconds of each
other; as a dozen NumPy expressions each, these passes took longer than the GPU did. Sums are left to NumPy:
its order of adding is part of the result.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from textsvm.compiled import njit


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
