"""Values of machines at the rows of a Gram, against the sum written out."""

import numpy as np
import pytest
from problems import gaussian

from textsvm.gram.base import CachedGram, DenseGram, needed_bytes
from textsvm.kernels import Spectrum
from textsvm.linalg.products import Half
from textsvm.linalg.sparse import Sparse, unary_starts
from textsvm.runtime.device import select
from textsvm.solvers import problems
from textsvm.solvers.problems import Machines, decision_values
from textsvm.text.documents import encode


def random_machines(n, seed=0):
    """Machines on all rows, on some rows in any order, on rows given twice, and without support vectors."""
    rng = np.random.default_rng(seed)
    made = []
    for k, index in [
        (3, np.arange(n)),
        (1, rng.permutation(n)[: n // 3]),
        (2, rng.integers(0, n, n)),
        (1, np.arange(4)),
    ]:
        coef = rng.normal(size=(k, len(index))) * (rng.random((k, len(index))) < 0.4)
        made.append(Machines(index, coef, rng.normal(size=k), ()))
    made[-1].coef[:] = 0
    return made


def written_out(matrix, machines):
    values = [np.zeros((len(one.bias), len(matrix))) for one in machines]
    for one, out in zip(machines, values, strict=True):
        for k in range(len(one.bias)):
            for i, row in enumerate(one.index):
                out[k] += one.coef[k, i] * matrix[row].astype(np.float64)
            out[k] += one.bias[k]
    return values


@pytest.mark.parametrize("rows", [1, 7, 1000])
@pytest.mark.parametrize("sparse", [0, 1])
def test_the_sum_written_out(set_values, rows, sparse):
    matrix, _ = gaussian(60)
    set_values(problems, BLOCK_BYTES=rows * 8 * 60, SPARSE=sparse)
    machines = random_machines(60)
    values = decision_values(DenseGram(matrix), machines)
    assert [v.shape for v in values] == [(3, 60), (1, 60), (2, 60), (1, 60)]
    for found, expected in zip(values, written_out(matrix, machines), strict=True):
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_rows_on_demand_each_computed_once_and_only_those_that_count():
    documents = encode([f"text {i} {'ab' * (i % 5)} {i * i}" for i in range(40)])
    rows = Spectrum(p=2).fit(documents).rows(documents, select("cpu"))
    gram = CachedGram(rows, needed_bytes(40, 8))
    coef = np.zeros((2, 40))
    coef[0, [3, 7]], coef[1, [7, 30]] = 1.5, -2
    machines = [Machines(np.arange(40), coef, np.zeros(2), ())]
    values = decision_values(gram, machines)[0]
    assert gram.computed == 3
    np.testing.assert_allclose(values, written_out(rows.gram(), machines)[0], rtol=1e-6, atol=1e-9)


def test_no_machines():
    assert decision_values(DenseGram(np.eye(3, dtype=np.float32)), []) == []


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("n", [7, 150])
def test_products_of_repeated_columns_have_the_bits_of_the_unary_code(n, weights):
    rng = np.random.default_rng(n)
    lengths = rng.integers(0, 40, n)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    features = np.concatenate([rng.choice(60, size, replace=False) for size in lengths]).astype(np.int32)
    times = rng.geometric(0.15, len(features)).astype(np.int32)
    table = np.sqrt(rng.random(60)) if weights else np.ones(60)
    x = Sparse(indptr, features, table[features].astype(np.float32), 60)
    code = x.unary(times, unary_starts(features, times, 60))
    for matrix in (x, code):
        vars(matrix)["by_numpy"] = False
    totals = np.zeros((2, n, n), np.float32)
    Half(x.on_grid(times=times), times).add_to(totals[0])
    Half(code.on_grid()).add_to(totals[1])
    upper = np.triu_indices(n)
    np.testing.assert_array_equal(x.squares(times=times), code.squares())
    np.testing.assert_array_equal(totals[0][upper], totals[1][upper])
