"""A learning problem becomes a dual."""

import numpy as np
import pytest
from problems import gaussian, judge, solve_dual
from sklearn.svm import SVR, OneClassSVM

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


@pytest.mark.parametrize("epsilon", [0.0, 0.1])
@pytest.mark.parametrize("weighted", [False, True])
def test_svr_is_that_of_libsvm(epsilon, weighted):
    matrix, _ = gaussian(120)
    rng = np.random.default_rng(1)
    y = matrix[:, 3] + 0.2 * rng.normal(size=120)
    weight = rng.uniform(0.2, 2, 120) if weighted else None
    dual = svr(y, 2.0, epsilon, weight)
    solution = solve_dual(DenseGram(matrix), dual, tol=1e-6)
    judge(solution, matrix, dual, 1e-6)
    values = matrix.astype(np.float64)
    theirs = SVR(kernel="precomputed", C=2.0, epsilon=epsilon, tol=1e-6).fit(values, y, sample_weight=weight)
    coef = np.bincount(dual.index, dual.sign * solution.alpha)
    np.testing.assert_allclose(values @ coef + solution.bias, theirs.predict(values), atol=1e-4)


@pytest.mark.parametrize("nu", [0.05, 0.5, 0.9])
@pytest.mark.parametrize("weighted", [False, True])
def test_one_class_is_that_of_libsvm(nu, weighted):
    matrix, _ = gaussian(120)
    weight = np.random.default_rng(1).choice([0.5, 1.0, 1.5], 120) if weighted else None
    dual, start = one_class(120, nu, weight)
    solution = solve_dual(DenseGram(matrix), dual, tol=1e-6, initial=start)
    judge(solution, matrix, dual, 1e-6)
    values = matrix.astype(np.float64)
    theirs = OneClassSVM(kernel="precomputed", nu=nu, tol=1e-6).fit(values, sample_weight=weight)
    ours = values @ solution.alpha + solution.bias
    np.testing.assert_allclose(ours, theirs.decision_function(values), atol=2e-4)


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
