"""Conjugate gradients with dense rows: preconditioned they are as right, and take few products."""

import numpy as np
import pytest

from textsvm.linalg.dense import DenseRows
from textsvm.linalg.rows import FeatureRows
from textsvm.solvers import newton as newton_machines
from textsvm.solvers import newton_products as preconditioner
from textsvm.solvers.newton import products_of
from textsvm.solvers.newton_products import NewtonSystem, sampled, square
from textsvm.solvers.problems import Classification, OneClass, Regression
from textsvm.solvers.solution import Stopping


def values_of(n=3000, d=60, seed=0):
    """Rows whose features decay, so that plain conjugate gradients are slow; float32."""
    rng = np.random.default_rng(seed)
    values = (0.5 + rng.normal(size=(n, d))) * np.arange(1, d + 1) ** -1.0
    return np.float32(values / np.sqrt((values**2).sum(axis=1, keepdims=True)))


def rows_of(values, xp=np):
    return FeatureRows(DenseRows(xp.asarray(values)), xp.zeros(len(values)))


def system_of(values, free, sigma=50.0, forcing=1e-3, xp=np):
    """A system whose columns have shares `free` of free rows."""
    rng = np.random.default_rng(1)
    n, k = len(values), len(free)
    curvature = np.where(rng.random((n, k)) < free, sigma * (1 + np.arange(k)), 0)
    gradient, gradient_bias = values.T @ rng.normal(size=(n, k)), rng.normal(size=k)
    given = (curvature, gradient, gradient_bias, np.full(k, 0.5), np.full(k, forcing))
    return NewtonSystem(*(xp.asarray(a) for a in given))


def problem_of(kind, values, classes=2):
    rng = np.random.default_rng(2)
    n = len(values)
    scores = values @ rng.normal(size=(values.shape[1], classes)) + 0.1 * rng.normal(size=(n, classes))
    index, weight = np.arange(n), np.ones(n)
    return {
        "classes": Classification(index, scores.argmax(axis=1), classes, 10.0, weight, "ovr"),
        "numbers": Regression(index, scores[:, 0], 10.0, weight, 0.05),
        "one class": OneClass(index, 0.3, weight),
    }[kind]


@pytest.mark.parametrize("free", [(0.5,), (0.9, 0.0, 0.02)])
def test_steps_are_as_right_in_fewer_products(free):
    values = values_of()
    products, system = products_of(rows_of(values)), system_of(values, free)
    made = []
    for _ in range(2):  # the first is plain, and so slow that the second is not
        step, step_bias, count = products.newton_step(system)
        bent = system.curvature * (values @ step + products.constant * step_bias)
        rest = values.T @ bent + step + system.gradient
        rest_bias = products.constant * bent.sum(axis=0) + system.hold * step_bias + system.gradient_bias
        asked = system.forcing**2 * square(system.gradient, system.gradient_bias)
        assert (square(rest, rest_bias) <= 1.01 * asked).all()
        made.append(count)
    assert made[1] * 3 <= made[0]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["classes", "numbers", "one class"])
def test_the_optimum_is_the_same(kind, monkeypatch):
    values = values_of()
    problem = problem_of(kind, values)
    ours, again = (
        newton_machines.solve_by_newton(problem, rows_of(values), Stopping(1e-5)) for _ in range(2)
    )
    monkeypatch.setattr(preconditioner, "MAX_BYTES", 0)
    plain = newton_machines.solve_by_newton(problem, rows_of(values), Stopping(1e-5))
    np.testing.assert_array_equal(ours.coef, again.coef)  # the same bits
    for mine, other in zip(ours.solutions, plain.solutions, strict=True):
        assert mine.converged
        assert mine.objective == pytest.approx(other.objective, rel=1e-7)


def test_machines_that_are_not_all_side_by_side():
    values = values_of(400, 20)
    problem = problem_of("classes", values, classes=newton_machines.TOGETHER + 3)
    assert all(
        one.converged
        for one in newton_machines.solve_by_newton(problem, rows_of(values), Stopping()).solutions
    )


@pytest.mark.parametrize("values", [
    values_of(300, 1), np.repeat(values_of(10, 8), 30, axis=0), np.zeros((50, 4), np.float32),
    np.float32(1e6) * values_of(300, 8),
], ids=["one feature", "twins", "zeros", "large"])  # fmt: skip
def test_degenerate_rows(values, monkeypatch):
    monkeypatch.setattr(preconditioner, "FRESH", -1e9)  # anew in every step
    products = products_of(rows_of(values))
    for share in (0.0, 0.5, 1.0):
        step, step_bias, _ = products.newton_step(system_of(values, (share, 1.0)))
        assert np.isfinite(step).all()
        assert np.isfinite(step_bias).all()


def test_a_sample_is_spread_evenly_and_stands_for_all():
    curvature = np.zeros(10_000)
    curvature[::2] = 3
    index, scale = sampled(curvature, 500)
    assert scale * len(index) == 5000
    assert (curvature[index] == 3).all()
    np.testing.assert_allclose(np.diff(index).mean(), 20, rtol=0.05)
    index, scale = sampled(curvature, 5000)
    np.testing.assert_array_equal(index, np.arange(0, 10_000, 2))
    assert scale == 1
