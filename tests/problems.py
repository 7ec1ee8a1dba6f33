"""Grams and duals that both solver twins are tested on, and a judge that trusts nothing they say."""

import numpy as np
from scipy.sparse import csr_array, random
from sklearn.svm import SVC

from textsvm.gram.base import allowed_bytes
from textsvm.gram.store import Store
from textsvm.gram.stored import StoredRows
from textsvm.runtime.device import device_of
from textsvm.solvers import dual as duals
from textsvm.solvers.solution import Stopping
from textsvm.solvers.solve import solve_chains


class ArrayRows:
    """Kernel rows read from a matrix, as a kernel would compute them."""

    def __init__(self, matrix):
        self.matrix, self.n, self.device = matrix, len(matrix), device_of(matrix)

    def diag(self):
        return self.matrix.diagonal().copy()

    def rows(self, indices):
        return self.matrix[indices]

    def gram(self, progress=None):
        return self.matrix.copy()


def solve_dual(gram, dual, tol=1e-3, max_iter=-1, initial=None, progress=None, duality_gap=None):
    """The solution of a single dual."""
    return solve_chains(gram, [[dual]], Stopping(tol, max_iter, duality_gap), [initial], progress)[0][0]


def stored_rows(folder, request, memory=None, progress=None):
    """Rows of a Gram in a store, where missing rows are computed first."""
    rows = StoredRows(Store(folder).find(request, allowed_bytes(memory, request.device)), request)
    rows.complete(progress)
    return rows


def random_sparse(shape, density, rng, dtype=None, values=None):
    """Random entries at random places. SciPy renamed the keyword for the generator, and left its place."""
    return csr_array(random(*shape, density, "coo", dtype, np.random.default_rng(rng), values))


def gaussian_gram(points, gamma):
    """The Gram of the Gaussian kernel."""
    squares = (points**2).sum(1)
    matrix = np.exp(-gamma * np.maximum(squares[:, None] + squares - 2 * points @ points.T, 0))
    matrix = ((matrix + matrix.T) / 2).astype(np.float32)
    np.fill_diagonal(matrix, 1)
    return matrix


def gaussian(n, seed=0, width=0.1, noise=0.7):
    """A positive definite Gram and overlapping classes."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(n, 6))
    matrix = gaussian_gram(points, width)
    y = np.where(points[:, 0] + noise * rng.normal(size=n) > 0, 1.0, -1.0)
    y[:2] = 1, -1
    return matrix, y


def indefinite(n, seed=0):
    """A symmetric matrix with unit diagonal and about as many negative as positive eigenvalues."""
    rng = np.random.default_rng(seed)
    matrix = rng.uniform(-1, 1, size=(n, n))
    matrix = ((matrix + matrix.T) / 2).astype(np.float32)
    np.fill_diagonal(matrix, 1)
    y = rng.choice([-1.0, 1.0], n)
    y[:2] = 1, -1
    return matrix, y


def degenerate():
    """Name -> Gram and labels at the edges of what can occur."""
    matrix, y = gaussian(40)
    twice = np.repeat(np.arange(20), 2)
    opposed = np.where(np.arange(40) % 2, 1.0, -1.0)
    zeros = matrix.copy()
    zeros[5:9] = 0
    zeros[:, 5:9] = 0
    return {
        "duplicates": (matrix[np.ix_(twice, twice)], y[twice]),
        "duplicates of both labels": (matrix[np.ix_(twice, twice)], opposed),
        "constant": (np.ones((40, 40), np.float32), y),
        "all zero": (np.zeros((40, 40), np.float32), y),
        "zero rows": (zeros, y),
        "identity": (np.eye(40, dtype=np.float32), y),
        "negative": (-matrix, y),
        "two": (np.eye(2, dtype=np.float32), np.array([1.0, -1.0])),
        "two equal": (np.ones((2, 2), np.float32), np.array([1.0, -1.0])),
        "one against many": (matrix, np.where(np.arange(40) == 7, 1.0, -1.0)),
        "large values": (matrix * np.float32(1e6), y),
        "small values": (matrix * np.float32(1e-6), y),
    }


def judge(solution, matrix, dual, tol):
    """Recompute everything in float64 from the Gram and the variables."""
    alpha = solution.alpha
    assert np.isfinite(alpha).all()
    assert (alpha >= 0).all()
    assert (alpha <= dual.upper).all()
    coef = dual.sign * alpha
    scale = max(1.0, float(np.abs(coef).sum()))
    assert abs(coef.sum() - dual.total) <= 1e-9 * scale
    q = dual.sign * dual.linear
    values = matrix.astype(np.float64)[np.ix_(dual.index, dual.index)]
    responses = values @ coef + q
    rounding = 1e-10 * scale * max(1.0, float(np.abs(values).max()))
    np.testing.assert_allclose(solution.responses, responses, rtol=0, atol=rounding)
    grows, falls = alpha < dual.upper, alpha > 0
    up = np.where(dual.sign > 0, grows, falls)
    down = np.where(dual.sign > 0, falls, grows)
    violation = np.max(-responses[up], initial=-np.inf) - np.min(-responses[down], initial=np.inf)
    if np.isfinite(violation):
        assert abs(solution.violation - violation) <= 2 * rounding
    assert solution.converged == (solution.violation <= tol)
    assert (solution.status == "converged") == solution.converged
    assert abs(solution.objective - (0.5 * coef @ (values @ coef) + q @ coef)) <= rounding * scale
    np.testing.assert_array_equal(solution.support, np.flatnonzero(alpha))
    np.testing.assert_array_equal(solution.coef, coef)


def libsvm(matrix, y, C, tol=1e-3, sample_weight=None):
    """LIBSVM's coefficients, bias and objective, the last one recomputed in float64."""
    values = matrix.astype(np.float64)
    model = SVC(kernel="precomputed", C=C, tol=tol).fit(values, y, sample_weight=sample_weight)
    coef = np.zeros(len(y))
    coef[model.support_] = model.dual_coef_[0]
    return coef, float(model.intercept_[0]), 0.5 * coef @ (values @ coef) - coef @ y


def svr(y, C, epsilon):
    """The dual of epsilon-regression: doubled variables over the same rows."""
    n = len(y)
    sign = np.repeat([1.0, -1.0], n)
    linear = np.concatenate([epsilon - y, epsilon + y])
    return duals.Dual(sign, linear, np.full(2 * n, C), np.tile(np.arange(n), 2))


def chains(n, seed=0):
    """Name -> a Gram, chains of duals over its rows, and where each chain starts."""
    matrix, y = gaussian(n, seed)
    rng = np.random.default_rng(seed)
    target = matrix[:, 3] + 0.2 * rng.normal(size=n)
    classes = rng.integers(0, 3, n)
    up, both = [0.01, 0.1, 1.0, 10.0], [1.0, 0.1, 5.0, 0.02]
    folds = [np.flatnonzero(np.arange(n) % 5 != k) for k in range(5)]
    pairs = [np.flatnonzero(classes != k) for k in range(3)]
    weights = [rng.choice([0.0, 0.5, 1.0, 3.0], n) for _ in range(4)]
    nu = [0.1, 0.5, 0.5, 0.2]
    ones = [duals.one_class(n, v, w) for v, w in zip(nu, [None, None, weights[0], None], strict=True)]
    made = {
        "folds, C up": [[duals.svc(y[i], C, index=i) for C in up] for i in folds],
        "C up and down": [[duals.svc(y, C) for C in both], [duals.svc(y, C) for C in up[::-1]]],
        "pairs of classes": [
            [duals.svc(np.where(classes[i] == (k + 1) % 3, 1.0, -1.0), C, index=i) for C in up]
            for k, i in enumerate(pairs)
        ],
        "regression, epsilon": [
            [duals.svr(target[i], 1.0, e, index=i) for e in (0.5, 0.1, 0.0, 0.3)] for i in folds[:2]
        ],
        "regression, C": [[duals.svr(target[i], C, 0.05, index=i) for C in up] for i in folds[:2]],
        "weights": [[duals.svc(y, 2.0, w) for w in weights]],
        "lengths": [[duals.svc(y, C) for C in up[:k]] for k in (1, 4, 2)],
        "one class": [[dual for dual, _ in ones]],
    }
    starts = {"one class": [ones[0][1]]}
    return {name: (matrix, duals_, starts.get(name)) for name, duals_ in made.items()}
