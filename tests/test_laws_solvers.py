"""What holds for solvers: a solution is optimal on all rows, also on those that it did not see."""

import numpy as np
import scipy.sparse
from test_many_classes import CPU, KERNEL, corpus

from textsvm.solvers import many_classes
from textsvm.solvers.many_classes import solve_many
from textsvm.solvers.problems import Classification
from textsvm.solvers.solution import Stopping
from textsvm.text.documents import encode


def violation(coef, bias, y, gram):
    """Range of the projected gradients of a machine on all rows, with C = 1."""
    alpha, missing = coef * y, 1 - y * (coef @ gram + bias)
    gradient = np.where(alpha <= 1e-12, np.maximum(missing, 0), missing)
    gradient = np.where(alpha >= 1 - 1e-9, np.minimum(missing, 0), gradient)
    return np.ptp(np.append(gradient, 0))


def test_machines_of_many_classes_are_optimal_on_rows_that_they_did_not_see(set_values):
    """What the solver leaves on its rows, and what other rows add, are together within the tolerance."""
    set_values(many_classes, FIRST=6, MORE=2)
    for seed in (0, 1, 2):
        texts, y = corpus(40, 4, seed=seed)
        rows, n = KERNEL.features.rows(encode(texts), CPU), len(texts)
        problem = Classification(np.arange(n), y, 40, 1.0, np.ones(n), "ovr", "hinge")
        machines = solve_many(problem, rows, Stopping(tol=1e-3))
        x = scipy.sparse.csr_array((rows.x.values, rows.x.features, rows.x.indptr), (n, rows.x.n_features))
        gram = (x @ x.T).toarray().astype(float) + np.diag(rows.ridge)
        coef = scipy.sparse.csr_array(machines.coef).toarray()
        for k in range(40):
            signs = np.where(y == k, 1.0, -1.0)
            assert violation(coef[k], machines.bias[k], signs, gram) <= 1.02e-3, (seed, k)
