"""Dense vectors on a GPU: every form of them against float64, and every verb against the others."""

import numpy as np
import pytest
from contracts import to_numpy

from textsvm.errors import InputError
from textsvm.kernels.vectors.kernels import Gaussian, Linear, Polynomial, Sigmoid, VectorFunction
from textsvm.linalg import vectors_cuda
from textsvm.linalg import vectors_cuda as float64_cuda
from textsvm.linalg.vectors import Vectors
from textsvm.linalg.vectors_cuda import EIGHT, ONE, SIX, Float64Columns

pytestmark = pytest.mark.gpu

KERNELS = [Gaussian(), Linear(), Polynomial(3, coef0=1.0), Polynomial(2), Sigmoid(0.01, 0.1)]
FEATURES = [1, 2, 7, 16, 100, 123, 784, 2000]


def normal(n, d, seed=0, mean=0.0, deviation=1.0):
    return np.random.default_rng(seed).normal(mean, deviation, (n, d))


def whole(n, d, seed=0, share=0.3):
    return (np.random.default_rng(seed).random((n, d)) < share).astype(np.float32)


def expected(kernel, x, y):
    """Values in float64, and what an error is relative to: |x| |y|, where values are not bounded."""
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    if isinstance(kernel, Gaussian):  # cancels less
        distances = np.array([((row - y) ** 2).sum(axis=1) for row in x]).reshape(len(x), len(y))
        return np.exp(-kernel.function.gamma * distances), 1.0
    squares = (x * x).sum(axis=1)[:, None], (y * y).sum(axis=1)
    size = np.sqrt(squares[0] * squares[1])
    if isinstance(kernel, Sigmoid):
        return np.tanh(kernel.function.gamma * (x @ y.T) + kernel.coef0), 1 + kernel.function.gamma * size
    if isinstance(kernel, Polynomial):
        largest = (kernel.function.gamma * size + abs(kernel.coef0)) ** kernel.degree
        return (kernel.function.gamma * (x @ y.T) + kernel.coef0) ** kernel.degree, largest
    return x @ y.T, size


def check(kernel, x, device, others=None, bound=1e-6):
    """All verbs against float64; the rows they were taken from."""
    others = x[::2] if others is None else others
    rows = kernel.fit(Vectors(x)).rows(Vectors(x), device)
    gram, (values, size) = to_numpy(rows.gram()), expected(kernel, x, x)
    assert gram.dtype == np.float32
    assert np.all(np.abs(gram - values) <= bound * size + 1e-37)
    np.testing.assert_array_equal(gram, gram.T)
    np.testing.assert_allclose(to_numpy(rows.diag()), gram.diagonal(), rtol=1e-6)
    for some in (np.array([0]), np.arange(len(x))[-5:], np.arange(len(x))[::-1]):
        np.testing.assert_allclose(to_numpy(rows.rows(some)), gram[some], rtol=2e-7, atol=1e-30)
    values, size = expected(kernel, others, x)
    assert np.all(np.abs(to_numpy(rows.cross(Vectors(others))) - values) <= bound * size + 1e-37)
    return rows


def way(rows):
    return rows.columns.digits.grid.way if isinstance(rows.columns, vectors_cuda.DigitColumns) else None


@pytest.mark.parametrize("d", FEATURES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gaussian_values_of_real_numbers(d, dtype, device):
    found = way(check(Gaussian(), normal(301, d).astype(dtype), device))
    assert found in (SIX, EIGHT) or d == 1


@pytest.mark.parametrize("d", FEATURES)
def test_one_digit_is_enough_for_zeros_and_ones_and_for_pixels(d, device):
    assert way(check(Gaussian(), whole(259, d), device)) == ONE
    pixels = np.random.default_rng(d).integers(0, 256, (259, d)).astype(np.float32)
    assert way(check(Gaussian(), pixels, device)) == ONE
    assert way(check(Gaussian(), pixels / 256 + 3, device)) == ONE


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("n", [1, 2, 63, 129, 400])
def test_every_kernel_and_numbers_of_vectors_beside_the_tiles(kernel, n, device):
    check(kernel, normal(n, 37), device)
    check(kernel, whole(n, 37), device)
    check(kernel, 5.0 * whole(n, 37) - 3 * whole(n, 37, 1), device)


@pytest.mark.parametrize("kernel", [Gaussian(), Linear()], ids=str)
def test_more_rows_than_a_group_of_tiles(kernel, device):
    for x in (normal(1300, 20), whole(2200, 9)):
        check(kernel, x, device)


@pytest.mark.parametrize("scale", [1e-20, 1e-3, 1e20])
def test_numbers_of_any_size(scale, device):
    for d in (3, 100):
        check(Gaussian(), normal(200, d, deviation=scale), device)
        check(Gaussian(), scale * whole(200, d), device)


@pytest.mark.parametrize("d", [1, 16, 123])
def test_a_mean_that_is_large_against_the_differences(d, device):
    check(Gaussian(), normal(300, d, mean=100), device)
    check(Gaussian(), normal(300, d, mean=1e6), device)


def test_narrow_kernels_take_more_products_then_float64(device):
    x = normal(300, 16)
    found = [way(check(Gaussian(gamma), x, device)) for gamma in (1e-4, 0.5, 1e4)]
    assert found == [SIX, EIGHT, None]


def test_one_vector_far_from_the_others(device):
    check(Gaussian(1.0), np.vstack([normal(200, 30), np.full((1, 30), 1e6)]), device)


def test_vectors_that_are_equal_have_the_value_one(device):
    for x in (normal(150, 40), normal(150, 40, mean=100), whole(150, 40)):
        x[100:] = x[:50]
        rows = Gaussian(1.0).rows(Vectors(x), device)
        gram = to_numpy(rows.gram())
        np.testing.assert_array_equal(gram[np.arange(50), np.arange(100, 150)], 1)
        np.testing.assert_array_equal(gram.diagonal(), 1)
        np.testing.assert_array_equal(to_numpy(rows.rows(np.array([3])))[0, [3, 103]], 1)


@pytest.mark.parametrize("kilobytes", [64, 99])
@pytest.mark.parametrize("kernel", [Gaussian(), Polynomial(2), Linear()], ids=str)
@pytest.mark.parametrize("d", [7, 33, 64, 65, 300])
def test_small_cards_have_other_tiles_and_the_same_bits(kilobytes, kernel, d, device, monkeypatch):
    others = [normal(n, d, seed=n) for n in (40, 700)]
    for x in (normal(401, d), whole(401, d)):
        model = kernel.fit(Vectors(x))

        def values(x=x, model=model):
            rows = model.rows(Vectors(x), device)
            crossed = [to_numpy(rows.cross(Vectors(y.astype(x.dtype)))) for y in others]
            return [to_numpy(rows.gram()), to_numpy(rows.rows(np.arange(401)[::-2])), *crossed]

        large = values()
        with monkeypatch.context() as patch:
            patch.setattr("textsvm.runtime.device.shared_memory", lambda: kilobytes << 10)
            small = values()
        for mine, theirs in zip(small, large, strict=True):
            np.testing.assert_array_equal(mine, theirs)


def test_others_outside_of_the_grid(device):
    check(Gaussian(), whole(200, 30), device, others=normal(70, 30))
    check(Gaussian(), normal(200, 30), device, others=normal(70, 30, deviation=5))
    check(Gaussian(), normal(200, 30), device, others=normal(70, 30, deviation=1e9))
    check(Linear(), whole(200, 30), device, others=normal(70, 30))


def test_constant_columns_and_vectors_of_zeros(device):
    x = normal(140, 20)
    x[:, 3], x[7] = 5, 0
    for kernel in KERNELS:
        check(kernel, x, device)
    check(Gaussian(), np.zeros((3, 2)), device)


@pytest.mark.parametrize("x", [normal(500, 100), whole(500, 100)], ids=["real", "whole"])
def test_all_verbs_give_the_same_bits(x, device):
    rows = Gaussian().fit(Vectors(x)).rows(Vectors(x), device)
    gram = to_numpy(rows.gram())
    np.testing.assert_array_equal(to_numpy(rows.gram()), gram)
    np.testing.assert_array_equal(to_numpy(rows.gram(lambda done, total: None)), gram)
    np.testing.assert_array_equal(to_numpy(rows.cross(Vectors(x))), gram)
    for m in (1, 5, 8, 9, 200):
        some = np.random.default_rng(m).integers(0, len(x), m)
        np.testing.assert_array_equal(to_numpy(rows.rows(some)), gram[some])


def test_decisions_a_block_at_a_time(device, monkeypatch):
    monkeypatch.setattr("textsvm.kernels.vectors.cuda.BLOCK_BYTES", 4 * 200 * 64)
    x, others, coef = normal(200, 12), normal(150, 12, 1), normal(200, 3, 2)
    rows = Gaussian().fit(Vectors(x)).rows(Vectors(x), device)
    seen = []
    values = rows.decision(Vectors(others), coef, lambda done, total: seen.append((done, total)))
    np.testing.assert_allclose(values, expected(rows.kernel, others, x)[0] @ coef, atol=1e-4)
    assert seen == [(64, 150), (128, 150), (150, 150)]


def test_vectors_on_the_card_stay_there(device):
    cp = pytest.importorskip("cupy")
    x = normal(200, 30).astype(np.float32)
    here, there = (Gaussian(0.1).rows(Vectors(values), device) for values in (x, cp.asarray(x)))
    np.testing.assert_array_equal(to_numpy(here.gram()), to_numpy(there.gram()))


def test_a_kernel_of_ones_own_is_finished_by_its_value(device):
    class InverseFunction(VectorFunction):
        def value(self, products, rows, columns):
            return 1 / (1 + rows + columns - 2 * products)

    class Inverse(Gaussian):
        function = InverseFunction()

    x = normal(300, 5)
    rows = Inverse(1.0).rows(Vectors(x), device)
    distances = ((x[:, None] - x) ** 2).sum(axis=2)
    np.testing.assert_allclose(to_numpy(rows.gram()), 1 / (1 + distances), rtol=1e-6)
    assert isinstance(rows.columns, Float64Columns)


def test_float64_by_tiles(device, monkeypatch):
    monkeypatch.setattr(float64_cuda, "TILE_BYTES", 8 * 300 * 70)
    assert way(check(Gaussian(1e4), normal(300, 16, deviation=0.02), device)) is None


def test_progress_may_stop_the_work(device):
    x, seen = normal(3000, 4), []
    rows = Gaussian().fit(Vectors(x)).rows(Vectors(x), device)
    rows.gram(lambda done, total: seen.append((done, total)))
    assert len(seen) > 5
    assert seen[-1][0] == seen[-1][1]

    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rows.gram(stop)


def test_memory_is_asked_for_before_it_is_taken(device, monkeypatch):
    digits = Gaussian(1.0).rows(Vectors(whole(10_000, 4)), device)
    products = Gaussian(1e4).rows(Vectors(normal(10_000, 4)), device)  # three tiles of 256 MiB besides
    digits.diag(), products.diag()
    assert isinstance(products.columns, Float64Columns)
    monkeypatch.setattr(vectors_cuda.gpu, "free_memory", lambda: 1 << 20)
    for rows, needed in ((digits, r"0\.37"), (products, r"1\.12")):
        with pytest.raises(
            InputError, match=rf"10,000 x 10,000 matrix of the gaussian kernel needs {needed}"
        ):
            rows.gram()


def test_what_is_said_of_rows(device):
    said = {
        "digits: one product": whole(50, 9),
        "digits: six products": normal(50, 100),
        "float64 products": np.vstack([normal(50, 9), np.full((1, 9), 1e6)]),
    }
    for expected, x in said.items():
        assert Gaussian(0.001).rows(Vectors(x), device).description == expected
