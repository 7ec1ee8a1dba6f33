"""A learning problem becomes a dual, and bad ones are refused."""

import numpy as np
import pytest

from textsvm.errors import InputError
from textsvm.solvers.dual import svc

Y = np.array([1, -1, -1])


def test_svc():
    dual = svc(Y, 2.5)
    np.testing.assert_array_equal(dual.sign, [1, -1, -1])
    np.testing.assert_array_equal(dual.linear, [-1, -1, -1])
    np.testing.assert_array_equal(dual.upper, [2.5, 2.5, 2.5])
    np.testing.assert_array_equal(dual.index, [0, 1, 2])
    assert dual.total == 0
    assert len(dual) == 3


def test_sample_weights_are_factors_of_C():
    np.testing.assert_array_equal(svc(Y, 2.0, np.array([0, 1, 3])).upper, [0, 2, 6])


@pytest.mark.parametrize("C", [0, -1, np.nan, np.inf])
def test_C_out_of_range(C):
    with pytest.raises(InputError, match="above 0"):
        svc(Y, C)


@pytest.mark.parametrize("y", [[0, 1], [1, 2], [[1, -1]], [1, np.nan]])
def test_other_labels(y):
    with pytest.raises(InputError, match="labels"):
        svc(np.array(y), 1)


def test_one_class_only():
    with pytest.raises(InputError, match="two classes"):
        svc(np.ones(4), 1)


@pytest.mark.parametrize("weight", [[1, 1], [1, -1, 1], [1, np.nan, 1], [1, np.inf, 1]])
def test_bad_weights(weight):
    with pytest.raises(InputError, match="weights"):
        svc(Y, 1, np.array(weight))
