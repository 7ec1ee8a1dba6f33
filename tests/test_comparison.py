"""Two predictions of the same documents: against statsmodels' worked value, brute force and scikit-learn."""

from math import comb

import numpy as np
import pytest

from textsvm.errors import InputError
from textsvm.evaluation.comparison import compare_predictions


def test_the_p_value_is_that_of_the_binomial_test():
    truth = np.zeros(100, int)
    first, second = np.zeros(100, int), np.zeros(100, int)
    first[:2], second[2:12] = 1, 1  # 2 errors and 10 others
    found = compare_predictions(truth, first, second)
    assert (found.only_first, found.only_second, found.n) == (10, 2, 100)
    assert found.difference == pytest.approx(0.08)
    assert found.p_value == pytest.approx(2 * sum(comb(12, k) for k in range(3)) / 2**12)
    other_way = compare_predictions(truth, second, first)
    assert other_way.difference == -found.difference
    assert other_way.p_value == found.p_value
    equal = compare_predictions(truth, first, first)
    assert (equal.difference, equal.p_value, equal.interval) == (0, 1, (0, 0))


def test_the_interval_is_that_of_drawing_documents():
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 3, 150).astype(str)
    first, second = (np.where(rng.random(150) < share, truth, "x") for share in (0.8, 0.6))
    found = compare_predictions(truth, first, second, seed=2)
    drawn = rng.integers(0, 150, (10_000, 150))
    gains = ((first == truth).astype(int) - (second == truth))[drawn].mean(axis=1)
    np.testing.assert_allclose(found.interval, np.quantile(gains, [0.025, 0.975]), atol=0.012)
    assert found.interval[0] < found.difference < found.interval[1]
    assert compare_predictions(truth, first, second, seed=2) == found


def test_what_cannot_be_compared():
    with pytest.raises(InputError, match="there are no documents"):
        compare_predictions([], [], [])
    with pytest.raises(InputError, match=r"labels have shape \(2,\), predictions \(1,\) and \(2,\)"):
        compare_predictions(["a", "b"], ["a"], ["a", "b"])
