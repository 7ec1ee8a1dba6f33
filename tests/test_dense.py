"""Products of dense matrices on the host (`textsvm.linalg.dense`)."""

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from textsvm.linalg.dense import DenseRows, matmul
from textsvm.runtime import parallel

SHAPES = [(3, 700, 800), (500, 700, 2), (0, 5, 3), (4, 0, 3), (2000, 300, 1), (1, 300, 5000), (700, 700, 700)]


@pytest.mark.parametrize(("m", "n", "k"), SHAPES)
@pytest.mark.parametrize("transposed", [False, True])
def test_products_have_the_same_bits_with_any_number_of_threads(m, n, k, transposed):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(n, m)).T if transposed else rng.normal(size=(m, n)), rng.normal(size=(n, k))
    products = []
    for threads in (1, 2):
        with parallel.limit(threads), threadpool_limits(threads, user_api="blas"):
            products.append(matmul(a, b))
    np.testing.assert_array_equal(*products)
    np.testing.assert_allclose(products[0], a @ b, rtol=1e-10, atol=1e-10)


def test_products_with_dense_rows_have_the_same_bits_with_any_number_of_threads():
    rng = np.random.default_rng(0)
    rows = DenseRows(rng.normal(size=(3000, 70)).astype(np.float32))
    weights, coef, curvature = rng.normal(size=(70, 3)), rng.normal(size=(3000, 3)), rng.random(3000)
    results = []
    for threads in (1, 2):
        with parallel.limit(threads), threadpool_limits(threads, user_api="blas"):
            scatter = rows.scatter(np.arange(3000), curvature, 1.0)
            results.append((rows.dot(weights), rows.transposed_dot(coef), scatter))
    for one, two in zip(*results, strict=True):
        np.testing.assert_array_equal(one, two)
