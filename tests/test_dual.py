"""A learning problem becomes a dual."""

import numpy as np
import pytest
from problems import gaussian, solve_dual

from textsvm.gram.base import DenseGram
from textsvm.solvers.dual import one_class, svc, svr

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


def test_svr_has_two_variables_an_example():
    dual = svr(np.array([0.5, -2.0]), 3.0, 0.1, np.array([1.0, 2.0]), np.array([4, 7]))
    np.testing.assert_array_equal(dual.sign, [1, 1, -1, -1])
    np.testing.assert_allclose(dual.linear, [-0.4, 2.1, 0.6, -1.9])
    np.testing.assert_array_equal(dual.upper, [3, 6, 3, 6])
    np.testing.assert_array_equal(dual.index, [4, 7, 4, 7])
    assert dual.total == 0


def test_one_class_of_outliers_alone():
    matrix, _ = gaussian(30)
    dual, start = one_class(30, 1.0)
    solution = solve_dual(DenseGram(matrix), dual, initial=start)
    assert solution.converged
    np.testing.assert_array_equal(solution.alpha, 1.0)  # LIBSVM's bias is not finite here
    assert (matrix.astype(np.float64) @ solution.alpha + solution.bias <= 1e-3).all()


def test_constant_targets_have_nothing_to_learn():
    matrix, _ = gaussian(20)
    solution = solve_dual(DenseGram(matrix), svr(np.full(20, 4.0), 1.0, 0.1))
    assert solution.converged
    assert not solution.alpha.any()
    assert solution.bias == pytest.approx(4.0, abs=0.1)
