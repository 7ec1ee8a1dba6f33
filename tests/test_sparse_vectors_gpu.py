"""Kernel values of sparse vectors on a GPU: each way against float64, in all verbs, the same bits twice."""

import numpy as np
import pytest
from problems import random_sparse
from scipy.sparse import csr_matrix, vstack

from textsvm.errors import InputError
from textsvm.gram.build import gram_of_rows
from textsvm.kernels.vectors import cuda as vector_rows
from textsvm.kernels.vectors.cuda import SparseColumns, sparse_columns, upload
from textsvm.kernels.vectors.kernels import Gaussian, Linear, Polynomial, Sigmoid
from textsvm.linalg import products_cuda
from textsvm.linalg.sparse_cuda import Finish
from textsvm.linalg.vectors import Vectors
from textsvm.linalg.vectors_cuda import DigitColumns
from textsvm.runtime import device as devices

pytestmark = pytest.mark.gpu


class Unknown(Gaussian):
    """A kernel that finish.cuh does not have."""

    finish = ""


KERNELS = [Gaussian(0.05), Polynomial(3, 0.1, 1.0), Sigmoid(0.01, 0.1), Linear(), Unknown(0.05)]


def finish_of(kernel):
    return Finish(kernel.function.name, kernel.function.numbers, kernel.function.value)


def columns(kernel, x):
    return SparseColumns(upload(x), finish_of(kernel))


def sparse(n, d, density=0.1, seed=0, whole=0):
    """Random rows; the first two are alike, the fourth is empty, and the last feature has no entry."""
    rng = np.random.default_rng(seed)
    x = csr_matrix(random_sparse((n, d), density, rng))
    x.data = (
        rng.integers(1, whole + 1, x.nnz) * rng.choice([-1.0, 1.0], x.nnz)
        if whole
        else rng.normal(size=x.nnz)
    )
    x = csr_matrix(vstack([x[:1], x[:1], x[2:3], csr_matrix((1, d)), x[4:]])) if n > 4 else x
    x.data[x.indices == d - 1] = 0
    x.eliminate_zeros()
    x.sort_indices()
    return x


def exact(kernel, x, y):
    x, y = x.toarray().astype(np.float64), y.toarray().astype(np.float64)
    return kernel.function.value(x @ y.T, np.square(x).sum(axis=1)[:, None], np.square(y).sum(axis=1))


def check(values, expected, kernel):
    """Within 1e-6 of float64; a function that changes its sign is judged by its largest value.

    Below float32's normal numbers there is nothing but 0.
    """
    values = values.get()
    assert values.dtype == np.float32
    atol = np.finfo(np.float32).tiny if type(kernel) is Gaussian else 1e-6 * np.abs(expected).max(initial=0)
    np.testing.assert_allclose(values, expected, rtol=1e-6, atol=atol)


def check_all(kernel, x, others):
    found = columns(kernel, x)
    gram, expected = found.half("values"), exact(kernel, x, x)
    check(gram, expected, kernel)
    np.testing.assert_array_equal(gram.get(), gram.get().T)
    np.testing.assert_array_equal(gram.get(), found.half("values").get())
    np.testing.assert_array_equal(gram.get(), columns(kernel, x).half("values").get())
    check(found.diagonal, np.diag(expected), kernel)
    which = np.random.default_rng(1).integers(0, x.shape[0], 70)
    check(found.rows(devices.cupy().asarray(which), "values"), expected[which], kernel)
    check(found.cross(others, "values"), exact(kernel, others, x), kernel)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: type(kernel).__name__)
@pytest.mark.parametrize("whole", [0, 3, 500])
def test_values_are_those_of_float64(kernel, whole, device):
    with devices.use(device):
        check_all(kernel, sparse(700, 90, whole=whole), sparse(65, 90, seed=1, whole=whole))


@pytest.mark.parametrize(("n", "d"), [(1, 1), (1, 50), (2, 3), (31, 1), (257, 64), (600, 100_000)])
def test_any_shape(n, d, device):
    density = min(0.2, 60 / d)
    with devices.use(device):
        check_all(Gaussian(0.01), sparse(n, d, density), sparse(40, d, density, seed=1))


@pytest.mark.parametrize(("mine", "theirs"), [(0, 3), (3, 0), (3, 100_000)])
def test_whole_and_other_numbers_meet(mine, theirs, device):
    with devices.use(device):
        x, others = sparse(400, 50, whole=mine), sparse(90, 50, seed=1, whole=theirs)
        check(columns(Linear(), x).cross(others, "values"), exact(Linear(), others, x), Linear())


@pytest.mark.parametrize("shares", [(0.0, 0.0), (2.0, 2.0), (0.1, 0.1)], ids=["dense", "lists", "both"])
@pytest.mark.parametrize("whole", [0, 3, 500])
def test_every_split_of_the_features(shares, whole, device, monkeypatch):
    monkeypatch.setattr(products_cuda, "NARROW_SHARE", shares[0])
    monkeypatch.setattr(products_cuda, "VECTOR_SHARE", shares[1])
    with devices.use(device):
        check_all(Gaussian(1e-3), sparse(500, 200, whole=whole), sparse(30, 200, seed=1, whole=whole))


@pytest.mark.parametrize("scale", [1e-12, 1e9])
def test_numbers_of_any_size(scale, device):
    x = sparse(300, 60) * scale
    with devices.use(device):
        check_all(Linear(), x, x[:20])
        check_all(Gaussian(0.1 / scale**2), x, x[:20])


def test_nothing_is_stored(device):
    with devices.use(device):
        check_all(Gaussian(0.1), csr_matrix((70, 9)), csr_matrix((3, 9)))


KINDS = {"one": 1, "whole": 100, "real": 0}


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: type(kernel).__name__)
@pytest.mark.parametrize("whole", KINDS.values(), ids=KINDS)
def test_vectors_that_are_made_dense(kernel, whole, device, monkeypatch):
    monkeypatch.setattr(vector_rows, "choose", lambda sparsity: ("digits", "dense"))
    x, others = sparse(500, 70, whole=whole), sparse(80, 70, seed=1, whole=whole)
    rows = kernel.rows(Vectors(x), device)
    assert isinstance(rows.columns, DigitColumns if kernel.function.name else SparseColumns)
    expected, bound = exact(kernel, x, x), 2e-6 * np.abs(exact(kernel, x, x)).max()
    gram = rows.gram().get()
    np.testing.assert_allclose(gram, expected, rtol=0, atol=bound)
    some = np.array([7, 3, 499])
    np.testing.assert_allclose(rows.rows(some).get(), gram[some], rtol=1e-6, atol=bound / 10)
    np.testing.assert_allclose(
        rows.cross(Vectors(others)).get(), exact(kernel, others, x), rtol=0, atol=bound
    )


def test_digits_of_sparse_vectors_are_those_of_dense_ones(device):
    x = sparse(600, 40, density=0.4)
    there = Gaussian(0.1).rows(Vectors(x.toarray()), device)
    here = Gaussian(0.1).rows(Vectors(x), device)
    assert here.description.startswith("sparse vectors made dense (predicted ")
    assert here.description.endswith(there.description)
    np.testing.assert_array_equal(here.gram().get(), there.gram().get())


@pytest.mark.parametrize("room", [1 << 40, 0])
def test_the_rule_decides_and_the_gram_says_so(room, device, monkeypatch):
    monkeypatch.setattr(vector_rows.gpu, "free_memory", lambda *_: room)
    monkeypatch.setattr(vector_rows.gpu, "require_memory", lambda *_: None)
    x, kernel = sparse(500, 300), Gaussian(0.1)
    rows = kernel.rows(Vectors(x), device)
    assert isinstance(rows.columns, DigitColumns) == bool(room)
    assert rows.description in gram_of_rows(rows, memory=1 << 30).description
    np.testing.assert_allclose(rows.gram().get(), exact(kernel, x, x), rtol=0, atol=1e-6)


def test_what_no_grid_is_near_enough_for_stays_sparse(device, monkeypatch):
    x = sparse(300, 40)
    x.data[5] = 1e9
    with devices.use(device):
        found = sparse_columns(x, finish_of(Gaussian(0.5)))
        assert isinstance(found, SparseColumns)
        assert found.description.startswith("sparse products with")


def test_too_little_memory_is_one_sentence(device, monkeypatch):
    with devices.use(device):
        found = columns(Gaussian(0.1), sparse(500, 300))
        monkeypatch.setattr(devices, "SMALL", 0)
        monkeypatch.setattr(devices, "free_memory", lambda *_: 1000)
        with pytest.raises(InputError, match=r"matrix of the values needs .* of GPU memory"):
            found._columns(False).rows(devices.cupy().arange(3), "the values")


def test_progress_ends_at_the_total(device):
    seen = []
    with devices.use(device):
        columns(Gaussian(0.1), sparse(500, 300)).half("values", lambda *done: seen.append(done))
    assert seen[-1][0] == seen[-1][1]
