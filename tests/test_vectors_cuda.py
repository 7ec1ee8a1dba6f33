"""Vectors as digits, in NumPy: products of digits are the kernels', and errors stay in their bounds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from textsvm.linalg.vectors_cuda import EIGHT, MAX_NUMBER, SIX, SLAB, TOLERANCE, gaussian_error, power_of_two


def digits_of(numbers):
    """a, b, c of whole numbers, as vectors.cu takes them apart."""
    c = (numbers + 128) % 256 - 128
    b = ((numbers - c) // 256 + 128) % 256 - 128
    a = (numbers - c - 256 * b) // 65536
    return a, b, c


def product(x, y, way):
    """<x, y> of vectors of digits in whole units, (m, d) and (n, d), as the tiles sum it up."""
    (a, b, c), (p, q, r) = ([part.astype(np.int64) for part in digits_of(numbers)] for numbers in (x, y))
    total = np.zeros((len(x), len(y)), np.int64)
    for first in range(0, x.shape[1], SLAB):
        k = slice(first, first + SLAB)

        def sums(*pairs, k=k):
            return sum(one[:, k] @ other[:, k].T for one, other in pairs)

        high, middle, third = sums((a, p)), sums((a, q), (b, p)), sums((a, r), (b, q), (c, p))
        if way == SIX:
            total += (256 * high + middle + ((third + 128) >> 8)) << 24
        else:
            low = (sums((b, r), (c, q)) + 128) >> 8
            total += (65536 * high + 256 * middle + third + low) << 16
    return total.astype(np.float64)


def gaussian(x, way, gamma, unit):
    numbers = np.rint(x / unit).astype(np.int64)
    assert np.abs(numbers).max(initial=0) <= MAX_NUMBER + 1
    inner = product(numbers, numbers, way)
    squares = inner.diagonal()
    return np.exp(-gamma * unit**2 * np.maximum(squares[:, None] + squares - 2 * inner, 0))


@given(st.integers(-MAX_NUMBER, MAX_NUMBER))
def test_digits_are_the_number_and_fit_a_byte(number):
    digits = digits_of(np.array([number]))
    assert sum(int(digit[0]) * 256 ** (2 - place) for place, digit in enumerate(digits)) == number
    assert all(-128 <= digit[0] <= 127 for digit in digits)


@given(st.floats(1e-300, 1e300))
def test_the_power_of_two_is_the_smallest(least):
    found = power_of_two(least)
    assert np.frexp(found)[0] == 0.5
    assert found / 2 < least <= found


def test_the_power_of_two_of_one_that_is_none():
    assert [power_of_two(2.0**k) for k in (-3, 0, 5)] == [0.125, 1, 32]
    assert power_of_two(0) == 1


@pytest.mark.parametrize("way", [SIX, EIGHT])
@given(
    d=st.integers(1, 200),
    seed=st.integers(0, 10**6),
    mean=st.floats(-5, 5),
    heavy=st.booleans(),
    narrow=st.floats(-3, 2),
)
@settings(max_examples=30)
def test_values_are_as_near_as_it_says(way, d, seed, mean, heavy, narrow):
    draw = np.random.default_rng(seed)
    x = draw.standard_t(4, (20, d)) if heavy else draw.normal(mean, 1, (20, d))
    x[10:] = x[:10] + draw.normal(0, 10.0 ** -draw.uniform(0, 4), (10, d))  # near each other, as well
    x -= (x.max(axis=0) + x.min(axis=0)) / 2
    unit, gamma = np.abs(x).max() / MAX_NUMBER, 10**narrow / d
    expected = np.exp(-gamma * ((x[:, None] - x) ** 2).sum(axis=2))
    found = gaussian(x, way, gamma, unit)
    assert np.abs(found - expected).max() <= gaussian_error(way, gamma, unit, d, rounded=True) + 1e-12
    np.testing.assert_array_equal(found.diagonal(), 1)


@pytest.mark.parametrize("d", [16, 100, 784])
def test_the_gamma_that_is_the_default_needs_no_float64(d):
    unit = 5 / MAX_NUMBER  # numbers of deviation 1
    assert gaussian_error(EIGHT, 1 / d, unit, d, rounded=True) <= TOLERANCE


def test_whole_numbers_are_exact_in_a_power_of_two():
    numbers = np.random.default_rng(0).integers(-1000, 1001, (9, 40))
    x = numbers << 13
    for way in (SIX, EIGHT):
        np.testing.assert_array_equal(product(x, x, way), (numbers @ numbers.T) * 2.0**26)


def test_equal_vectors_keep_distance_zero_however_products_are_rounded():
    x = np.random.default_rng(0).integers(-MAX_NUMBER, MAX_NUMBER, (5, 70))
    inner = product(np.vstack([x, x]), x, SIX)
    np.testing.assert_array_equal(inner[:5], inner[5:])
