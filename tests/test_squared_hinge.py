"""The squared hinge loss: the optimum of the primal, by every solver, from features and from a matrix."""

import numpy as np
import pytest
from refusals import refuses
from scipy.optimize import minimize
from sklearn.base import clone
from test_spectrum import CPU

from textsvm import SVC, CalibratedSVC, Compute, InputError, Spectrum, cross_validate
from textsvm.gram.base import DenseGram, FeatureProducts
from textsvm.solvers.dual import MOST_SLACK
from textsvm.solvers.newton import solve_by_newton
from textsvm.solvers.problems import Classification
from textsvm.solvers.solution import Stopping
from textsvm.solvers.solve import _features_with_loss, solve
from textsvm.text.documents import encode

KERNEL = Spectrum((1, 3))


def examples(n=80, n_classes=2, seed=0):
    """Random texts and labels that do not separate them."""
    rng = np.random.default_rng(seed)
    texts = ["".join(rng.choice(list("abcde"), 30)) for _ in range(n)]
    counts = np.array([text.count("ab") + text.count("e") // 3 for text in texts])
    return texts, np.digitize(counts, np.quantile(counts, np.arange(1, n_classes) / n_classes))


def primal(gram, signs, penalties):
    """The smallest value of the primal with a free bias, and its decision values, by L-BFGS.

    Beyond a slack of `MOST_SLACK` the loss is linear.
    """
    values, vectors = np.linalg.eigh(gram)
    x = vectors * np.sqrt(np.maximum(values, 0))

    def objective(w):
        slack = np.maximum(0, 1 - signs * (x @ w[:-1] + w[-1]))
        inner = np.minimum(slack, MOST_SLACK)
        loss = penalties * (inner**2 + 2 * MOST_SLACK * (slack - inner))
        slope = -2 * penalties * inner * signs
        return w[:-1] @ w[:-1] / 2 + loss.sum(), np.append(w[:-1] + x.T @ slope, slope.sum())

    options = {"maxiter": 20000, "maxfun": 40000, "ftol": 1e-15, "gtol": 1e-9}
    best = minimize(objective, np.zeros(len(gram) + 1), jac=True, method="L-BFGS-B", options=options)
    return best.fun, x @ best.x[:-1] + best.x[-1]


@pytest.mark.parametrize(("seed", "C"), [(0, 0.03), (1, 1.0), (2, 30.0)])
def test_every_solver_has_the_optimum_of_the_primal(seed, C):
    texts, y = examples(40, seed=seed)
    weight = np.random.default_rng(seed).choice([0.0, 0.5, 1.0, 4.0], 40)
    weight[[y.argmin(), y.argmax()]] = 1.0
    problem = Classification(np.arange(40), y, 2, C, weight, "ovr", "squared_hinge")
    documents = encode(texts)
    gram = KERNEL.rows(documents, CPU).gram()
    value, decision = primal(gram.astype(float), 2 * y - 1, problem.C * weight)
    rows = KERNEL.features.rows(documents, CPU)
    products = FeatureProducts(rows, CPU, "")
    before = gram.copy()
    [[by_descent]] = solve(products, [[problem]], Stopping(1e-6))
    [[by_smo]] = solve(DenseGram(gram), [[problem]], Stopping(1e-6))
    by_newton = solve_by_newton(problem, _features_with_loss(rows, problem), Stopping(1e-3))
    np.testing.assert_array_equal(gram, before)
    for machines in (by_descent, by_smo, by_newton):
        [solution] = machines.solutions
        assert solution.converged
        assert -solution.objective == pytest.approx(value, rel=1e-4)
        assert -1e-9 <= solution.duality_gap < 1e-5
        assert not solution.alpha[weight == 0].any()
        fitted = gram.astype(float) @ machines.coef[0] + machines.bias
        np.testing.assert_allclose(fitted[weight > 0], decision[weight > 0], atol=3e-3)


def test_the_duality_gap_bounds_the_distance_from_the_optimum():
    texts, y = examples()
    exact = SVC(KERNEL, C=3.0, loss="squared_hinge", tol=1e-7).fit(texts, y).solutions_[0].objective
    for tol in (0.3, 0.1, 0.01):
        [solution] = SVC(KERNEL, C=3.0, loss="squared_hinge", tol=tol).fit(texts, y).solutions_
        assert -1e-7 <= 2 * (solution.objective - exact) / abs(2 * exact) <= solution.duality_gap + 1e-7


@pytest.mark.parametrize("multiclass", ["ovr", "ovo"])
def test_features_and_a_matrix_give_the_same_machines(multiclass):
    texts, y = examples(n_classes=3)
    given = {"loss": "squared_hinge", "multiclass": multiclass, "tol": 1e-6, "device": "cpu"}
    models = [
        SVC(KERNEL, 2.0, compute=Compute(solver=solver), **given).fit(texts, y)
        for solver in ("features", "gram")
    ]
    matrix = np.array(models[1].kernel_.rows(encode(texts), CPU).gram())
    matrix.setflags(write=False)
    models.append(SVC("precomputed", 2.0, **given).fit(matrix, y))
    expected = models[0].decision_function(texts)
    np.testing.assert_allclose(models[1].decision_function(texts), expected, atol=1e-3)
    np.testing.assert_allclose(models[2].decision_function(matrix), expected, atol=1e-3)
    hinge = SVC(KERNEL, 2.0, multiclass=multiclass, device="cpu").fit(texts, y)
    assert np.abs(hinge.decision_function(texts) - expected).max() > 0.05


def test_cross_validation_and_calibration_train_with_the_loss():
    texts, y = examples()
    folds = [(np.arange(20, 80), np.arange(20)), (np.arange(60), np.arange(60, 80))]
    model = SVC(KERNEL, 2.0, loss="squared_hinge", tol=1e-5)
    result = cross_validate(model, texts, y, cv=folds)
    for k, (train, test) in enumerate(folds):
        fitted = clone(model).fit([texts[i] for i in train], y[train])
        right = fitted.score([texts[i] for i in test], y[test])
        assert result.table[k]["accuracy"] == pytest.approx(right)
    calibrated = CalibratedSVC(model).fit(texts, y)
    assert calibrated.loss_ == "squared_hinge"
    expected = clone(model).fit(texts, y).decision_function(texts)
    np.testing.assert_allclose(calibrated.decision_function(texts), expected, atol=1e-3)


def test_a_loss_that_is_not_possible_is_refused():
    texts, y = examples()
    refuses("loss='square' is not", SVC(KERNEL, loss="square").fit, texts, y)
    with pytest.raises(InputError, match="crammer-singer has no squared hinge"):
        SVC(KERNEL, loss="squared_hinge", multiclass="crammer-singer").fit(texts, y)
    with pytest.raises(InputError, match="matrix that fits in memory"):
        SVC("edit", loss="squared_hinge", compute=Compute(memory=9000)).fit(texts, y)


def test_the_gap_is_right_beyond_the_largest_slack():
    x = np.where(np.arange(100) % 2, 0.1, -0.1)
    x[0] = 2.0  # a wrong label far beyond the margin
    weight = np.where(np.arange(100) == 0, 0.001, 1.0)
    model = SVC("linear", C=100.0, loss="squared_hinge", tol=1e-6).fit(x[:, None], np.arange(100) % 2, weight)
    assert 1 + model.decision_function(x[:1, None])[0] > MOST_SLACK
    [solution] = model.solutions_
    assert solution.converged
    assert -1e-9 <= solution.duality_gap < 1e-6
