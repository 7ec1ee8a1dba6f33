"""Real vectors as vectors of whole numbers: how large their unit may be, and how far values are then off.

    x = centre + unit * N,    N = 65536 a + 256 b + c,    a, b, c from -128 to 127

so that a product of two vectors is products of digits, which are exact in 32 bits, whatever their order. One
digit is enough for vectors of small whole numbers (0 and 1, or pixels, in any power of 2); three are 24 bits
of the largest number. Distances are those of points on one grid, exact but for the lowest products: none is
lost where |x|^2 + |y|^2 - 2 <x, y> cancels: what a point moves when it is put on the grid is all.

Of three digits, six products of two digits are summed up (SIX: a a', a b' + b a', and a c' + b b' + c a' in
units of 2^24, rounded once for each 32 features), or eight (EIGHT: these in units of 2^16, and b c' + c b'
rounded likewise). The rest is below that.
"""

from __future__ import annotations

import math

#: Ways to multiply: how many sums are kept of each product.
ONE, SIX, EIGHT = 1, 2, 3
#: Largest N of three digits; one less than 127 in each, for a centre on the grid.
MOST = 127 * 65536 + 127 * 256 + 127 - 1
#: Features of which sums of digits stay below 2^31.
MOST_FEATURES = 32_000
#: Features whose lower products are rounded together.
SLAB = 32
#: How far a value exp(-gamma |x - y|^2) may be off.
TOLERANCE = 8e-7
_DEVIATIONS = 6.0  # of a normal variable: what one of 10^9 values exceeds
_DIGIT = 256 / math.sqrt(12)  # the deviation of a digit that is anything
_STEEPEST = math.sqrt(2 / math.e)  # the largest slope of exp(-t^2)


def power_of_two(least: float) -> float:
    """The smallest power of 2 that is not less; 1 for 0."""
    if least <= 0:
        return 1.0
    mantissa, exponent = math.frexp(least)
    return math.ldexp(1.0, exponent - (mantissa == 0.5))


def gaussian_error(way: int, gamma: float, unit: float, n_features: int, *, rounded: bool) -> float:
    """How far exp(-gamma |x - y|^2) may be off for vectors of three digits in this unit.

    Low digits are taken to be anything: six standard deviations.

    Parameters
    ----------
    way : {SIX, EIGHT}
    gamma, unit : float
    n_features : int
    rounded : bool
        Whether numbers were rounded to the unit.
    """
    slabs = -(-n_features // SLAB)
    if way == SIX:
        variance = slabs * 2.0**48 / 12 + n_features * 2 * (256 * _DIGIT**2) ** 2
    else:
        variance = slabs * 2.0**32 / 12 + n_features * _DIGIT**4
    error = 2 * gamma * unit * unit * _DEVIATIONS * math.sqrt(variance)
    if rounded:  # each number moves by unit / sqrt(12), in both vectors
        error += _DEVIATIONS * _STEEPEST * math.sqrt(gamma / 6) * unit + gamma * unit * unit * n_features / 6
    return error
