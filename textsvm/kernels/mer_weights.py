"""What two l-mers that differ at d positions count, for d = 0, 1, ...: the weights of kernels of mismatches.

**(k, m) mismatch kernel** (Leslie, Eskin, Cohen, Weston, Noble 2004). phi_z(s) is the number of k-mers of s
within m mismatches of z, z any string of k letters, so w(d) is how many z are within m of both of two k-mers.
Over an alphabet of b letters, let z differ from both at i of the k - d positions where these are equal, and
be as the first at p, as the second at q of the d others:

    w(d) = sum_(i, p, q) C(k - d, i) (b - 1)^i  C(d, p) C(d - p, q) (b - 2)^(d - p - q),
           i + d - p <= m,  i + d - q <= m,                        w(d) = 0 for d > 2m

**gkm kernels** (Ghandi, Lee, Mohammad-Noori, Beer 2014). Two l-mers share C(l - d, k) gapped k-mers: that is
the filter "none". The others compare counts of l-mers as the counts of gapped k-mers say them. These are A x,
x the counts of the b^l l-mers and A one row for each choice of k of l positions and k letters, and the
estimate of least length is A+ A x, A+ the pseudo-inverse. P = A+ A depends on d alone:

    P(d) = sum_i W(i) C(d, i) C(l - d, k - i)
    W(i) = (-1)^i C(l - k + i - 1, i) / C(k, i)  sum_(j = 0)^(k - i) C(l, j) (b - 1)^j  /  (C(l, k) b^l)

The kernel of the estimates has the weights P P, and P P = P since P is a projection: that is the filter
"full". The filter "truncated" sets P(d) to 0 from the first d on where it is not positive, T, and its weights
are T T: with t(d, a, c) the number of l-mers at distance a of one and c of the other of two at distance d,

    w(d) = sum_(a, c) t(d, a, c) T(a) T(c)

All of it is done in whole numbers and fractions, and rounded once.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from math import comb

import numpy as np
from numpy.typing import NDArray


@lru_cache(maxsize=64)
def mismatch_weights(k: int, m: int, b: int) -> NDArray[np.float64]:
    """Strings of k of b letters within m mismatches of both of two, for d = 0 .. min(k, 2m)."""
    found = [
        sum(number for a, c, number in around(k, d, b) if a <= m and c <= m) for d in range(min(k, 2 * m) + 1)
    ]
    return np.array(found, float)


@lru_cache(maxsize=64)
def gkm_weights(l: int, k: int, d: int, b: int, filtered: str) -> NDArray[np.float64]:  # noqa: E741
    """Weights of l-mers with k informative positions, for 0 .. d mismatches.

    Parameters
    ----------
    l, k, d : int
    b : int
        Letters of the alphabet; of no matter with "none".
    filtered : {"none", "full", "truncated"}
    """
    if filtered == "none":
        return np.array([comb(l - i, k) for i in range(d + 1)], float)
    full = estimates(l, k, b)
    if filtered == "full":
        return np.array([float(value) for value in full[: d + 1]])
    last = next((i for i, value in enumerate(full) if value <= 0), l + 1)
    kept = full[:last]
    return np.array([
        float(sum(number * kept[a] * kept[c] for a, c, number in around(l, i, b) if max(a, c) < last))
        for i in range(d + 1)
    ])  # fmt: skip


def estimates(l: int, k: int, b: int) -> list[Fraction]:  # noqa: E741
    """P(d) for d = 0 .. l."""
    weights = [
        Fraction((-1) ** i * _binomial(l - k + i - 1, i) * sum(_ball(l, k - i, b)), comb(k, i))
        for i in range(k + 1)
    ]
    total = comb(l, k) * b**l
    return [
        sum((weights[i] * comb(d, i) * comb(l - d, k - i) for i in range(min(d, k) + 1)), Fraction(0)) / total
        for d in range(l + 1)
    ]


def around(l: int, d: int, b: int) -> Iterator[tuple[int, int, int]]:  # noqa: E741
    """(a, c, number of l-mers at distance a of one and c of the other of two l-mers at distance d)."""
    for i in range(l - d + 1):
        outside = comb(l - d, i) * (b - 1) ** i
        for p in range(d + 1):
            for q in range(d - p + 1):
                number = outside * comb(d, p) * comb(d - p, q) * (b - 2) ** (d - p - q)
                yield i + d - p, i + d - q, number


def _ball(l: int, most: int, b: int) -> list[int]:  # noqa: E741
    return [comb(l, j) * (b - 1) ** j for j in range(most + 1)]


def _binomial(n: int, r: int) -> int:
    """C(n, r), C(-1, 0) = 1."""
    return 1 if r == 0 else comb(n, r) if n >= 0 else 0
