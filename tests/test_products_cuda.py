"""Without a GPU: what kernels of products are launched with, by a CuPy that is NumPy and launches nothing."""

from types import SimpleNamespace

import numpy as np
import pytest
from problems import random_sparse

from textsvm.kernels.vectors.kernels import Gaussian
from textsvm.linalg import vectors_cuda
from textsvm.linalg import vectors_cuda as digits_cuda
from textsvm.linalg.products_cuda import PRODUCTS, CudaColumns, Factors
from textsvm.linalg.sparse_cuda import EXACT, FINISHES, FIXED, GRID, CudaSparse, Finish, finish_fields
from textsvm.linalg.vectors_cuda import ONE, WORK, DigitColumns, Float64Columns
from textsvm.runtime import device

NUMBERS = {"linear": (), "polynomial": (0.5, 1.0, 3.0), "gaussian": (0.25,), "sigmoid": (0.5, -1.0)}


class OnCard(np.ndarray):
    """An array with the address that CuPy's have."""

    @property
    def data(self):
        return SimpleNamespace(ptr=self.ctypes.data)

    def get(self):
        return np.asarray(self)


def on_card(function):
    return lambda *args, **options: np.asarray(function(*args, **options)).view(OnCard)


class Cupy:
    def __getattr__(self, name):
        return on_card(getattr(np, name))

    empty = staticmethod(on_card(np.zeros))  # no kernel fills it


@pytest.fixture
def launched(monkeypatch):
    """(kernel, defines, arguments) of every launch to come."""
    found = []

    def function(source, name, defines=()):
        def launch(blocks, threads, arguments, **options):
            found.append((name, defines, arguments))

        return launch

    monkeypatch.setattr(device, "cupy", Cupy)
    monkeypatch.setattr(device, "function", function)
    monkeypatch.setattr(device, "require_memory", lambda *_: None)
    monkeypatch.setattr(device, "shared_memory", lambda: 227 << 10)
    monkeypatch.setattr(device, "fast_float64", lambda: True)
    monkeypatch.setattr(device, "multiprocessors", lambda: 1)
    return found


def sparse(whole, dtype):
    """Three rows of two features."""
    arrays = [[0, 1, 2, 4], [0, 1, 2, 2], [0, 1, 0, 1], [1, 2, 3, 4], [2, 2], [3, 4]]
    kinds = [np.int64, np.int32, np.int32, dtype, np.int32, np.int32]
    return CudaSparse(*(np.array(a, kind).view(OnCard) for a, kind in zip(arrays, kinds, strict=True)), whole)


def columns(kernel, whole=True):
    x = sparse(whole, np.float64 if kernel else np.float32)
    squares = np.array([1.0, 4.0, 25.0]).view(OnCard)
    return CudaColumns(x, Factors(squares, squares), kernel)


def verbs(found, x):
    """All three, each with one launch of `rows`."""
    found.half("values")
    found.rows(np.array([2, 0]).view(OnCard), "values")
    found.cross(x, found.factors, "values")


@pytest.mark.parametrize("whole", [True, False])
def test_products_of_texts_have_no_finish(launched, whole):
    found = columns(None, whole)
    verbs(found, found.x)
    rows = [
        (defines, argument.view(PRODUCTS)) for name, defines, (argument, *_) in launched if name == "rows"
    ]
    assert [int(argument["half"]) for _, argument in rows] == [1, 0, 0]
    for defines, argument in rows:
        assert defines == (EXACT[np.uint32] if whole else GRID)
        assert argument["unit"] == 1.0
        assert [argument[name].item() for name in ("n", "width", "degree", "gamma", "coef0")] == [
            3,
            3,
            0,
            0,
            0,
        ]
        assert argument["scale"].item() == found.factors.scale.ctypes.data
        assert argument["lists"].item() == found.lists.ctypes.data
    others = {(name, defines) for name, defines, _ in launched if name not in ("rows", "squares")}
    assert {defines for _, defines in others} == {EXACT[np.uint32] if whole else GRID}


@pytest.mark.parametrize("name", [*FINISHES, "another"])
def test_products_of_vectors_have_that_of_their_kernel(launched, name):
    finish = Finish(name, NUMBERS.get(name, (0.5,)), lambda *_: None)
    found = columns(finish)
    verbs(found, found.x)
    rows = [
        (defines, argument.view(PRODUCTS)) for kernel, defines, (argument, *_) in launched if kernel == "rows"
    ]
    assert len(rows) == 3
    for defines, argument in rows:
        assert dict(defines) == {
            **dict(FIXED),
            "VALUE": "double",
            "FINISH": name if name in FINISHES else "linear",
        }
        assert {key: argument[key].item() for key in ("gamma", "coef0", "degree")} == finish_fields(finish)


def test_every_field_of_a_finish_is_one_of_both_structures():
    for finish in (None, Finish("gaussian", (0.5,), lambda *_: None)):
        assert finish_fields(finish).keys() <= set(PRODUCTS.names) & set(WORK.names)


def digits(finish, n=3):
    grid = digits_cuda.Grid(ONE, np.zeros(2), 1.0, True)
    squares = np.ones(n).view(OnCard)
    return digits_cuda.Digits(grid, np.zeros((n, 1, 32), np.int8).view(OnCard), squares, squares, True)


@pytest.mark.parametrize("name", FINISHES)
def test_rows_of_digits(launched, name):
    finish = Finish(name, NUMBERS[name], lambda *_: None)
    found = DigitColumns(None, digits(finish), finish)
    assert found.description == "digits: one product"
    for m in (1, 2, 9):
        found.rows((np.arange(m) % 3).view(OnCard), "values")
    found.half("values")
    assert [kernel for kernel, _, _ in launched] == ["one", "few", "tiles", "tiles"]
    for (kernel, defines, (work, *_)), m in zip(launched, (1, 2, 9, 3), strict=True):
        tile = (("HIGH", 128), ("STAGES", 4)) if kernel == "tiles" else ()
        assert defines == (("SUMS", ONE), ("FINISH", name), *tile)
        work = work.view(WORK)
        assert [work[key].item() for key in ("m", "n", "slabs")] == [m, 3, 1]
        assert {key: work[key].item() for key in ("gamma", "coef0", "degree")} == finish_fields(finish)


def test_far_vectors_are_compared_by_differences(launched):
    draw = np.random.default_rng(0)
    x = np.vstack([draw.normal(size=(60, 30)), 1e6 + draw.normal(size=(60, 30)), np.full((1, 30), 1e8)])
    kernel = Gaussian(0.05)
    found = Float64Columns(x.view(OnCard), Finish("gaussian", kernel.function.numbers, kernel.function.value))
    expected = np.exp(-0.05 * ((x[:, None] - x) ** 2).sum(axis=2))
    np.testing.assert_allclose(found.cross(x, "values"), expected, rtol=0, atol=1e-7)
    some = np.array([0, 70, 120])
    np.testing.assert_allclose(found.rows(some.view(OnCard), "values"), expected[some], rtol=0, atol=1e-7)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(7, 5), (3, 0), (0, 4), (1, 1)])
def test_sparse_vectors_become_dense_on_the_card(launched, dtype, shape):
    x = random_sparse(shape, 0.3, 0, dtype)
    dense = vectors_cuda.on_card(x)
    assert dense.dtype == dtype
    np.testing.assert_array_equal(dense, x.toarray())
