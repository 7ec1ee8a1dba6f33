"""Rows of features and their solver on a GPU, against the CPU's."""

from dataclasses import replace

import numpy as np
import pytest
from test_newton import KERNELS, check_equal, problem_of, texts_of
from test_spectrum import CPU

from textsvm import Spectrum
from textsvm.kernels.shared import counting_cuda
from textsvm.linalg import packed_cuda
from textsvm.linalg.packed_cuda import PackedRows
from textsvm.runtime import device as gpu
from textsvm.solvers import newton as newton_machines
from textsvm.solvers import newton_cuda
from textsvm.solvers.problems import Classification
from textsvm.solvers.solution import Stopping
from textsvm.text.documents import encode

pytestmark = pytest.mark.gpu
ALL = {**KERNELS, "odds": Spectrum((2, 3), "log", idf=True, odds=True), "long": Spectrum((6, 9), "presence")}


def documents_of(texts):
    return encode(texts).with_classes(np.arange(len(texts)) % 3)


def gram_of(rows, eye):
    x = rows.x.dot(eye)
    return gpu.to_host(x @ x.T) + np.diag(gpu.to_host(rows.ridge))


@pytest.mark.parametrize("batch", [1 << 28, 1 << 9])
@pytest.mark.parametrize("name", ALL)
def test_rows_have_the_same_kernel_values(name, batch, device, monkeypatch):
    monkeypatch.setattr(counting_cuda, "MAX_PANEL", batch)
    documents, kernel = documents_of(texts_of(160)), ALL[name]
    host = kernel.features.rows(documents, CPU)
    with gpu.use(device):
        rows = kernel.features.rows(documents, device)
        found = gram_of(rows, gpu.cupy().eye(rows.x.n_features))
    expected = gram_of(host, np.eye(host.x.n_features))
    np.testing.assert_allclose(found, expected, atol=1e-6 * expected.max())
    assert rows.x.n_features == host.x.n_features


def test_weights_are_learnt_on_the_card(device):
    documents = documents_of(texts_of(160))
    for kernel in (ALL["odds"], ALL["log idf"]):
        host, card = (kernel.fit(documents, where).weights_ for where in (CPU, device))
        np.testing.assert_allclose(card.table, host.table, rtol=1e-12)
        for q, keys in host.vocabulary.keys.items():
            np.testing.assert_array_equal(card.vocabulary.keys[q], keys)


@pytest.mark.parametrize("k", [1, 3, 8, 11])
def test_products(k, device):
    rng = np.random.default_rng(k)
    documents = documents_of(texts_of(300))
    with gpu.use(device):
        cp = gpu.cupy()
        x = ALL["log idf"].features.rows(documents, device).x
        dense = x.dot(cp.eye(x.n_features)).get()
        u, w = rng.normal(size=(len(x), k)), rng.normal(size=(x.n_features, k)).astype(np.float32)
        np.testing.assert_allclose(x.dot(cp.asarray(w)).get(), dense @ w, atol=1e-6)
        np.testing.assert_allclose(x.transposed_dot(cp.asarray(u)).get(), dense.T @ u, atol=1e-5)
        some = np.arange(7, 200, 3)
        np.testing.assert_array_equal(x.take(some).dot(cp.eye(x.n_features)).get(), dense[some])
        np.testing.assert_allclose(x.squares().get(), (dense**2).sum(axis=1), rtol=1e-6)


def test_lists_of_some_rows_are_taken_from_those_of_all(device):
    documents = documents_of(texts_of(3000))
    with gpu.use(device):
        x = ALL["log idf"].features.rows(documents, device).x
        for some in (np.arange(7, 2900, 3), np.arange(0), np.arange(3000)):
            taken, expected = x.part(gpu.cupy().asarray(some)).columns, x.take(some).columns
            for name in ("starts", "rows", "values"):
                np.testing.assert_array_equal(getattr(taken, name).get(), getattr(expected, name).get())


def test_lists_of_free_rows_change_no_bit(device, monkeypatch):
    texts = texts_of(300)
    with gpu.use(device):
        rows = KERNELS["log idf"].features.rows(documents_of(texts), device)
        found = []
        for most, worth in ((0.0, 6), (1.0, -1)):
            monkeypatch.setattr(newton_cuda, "MAX_FREE", most)
            monkeypatch.setattr(newton_cuda, "WORTH", worth)
            found.append(newton_machines.solve_by_newton(problem_of("ovr", len(texts)), rows, Stopping()))
    np.testing.assert_array_equal(found[0].coef, found[1].coef)


@pytest.mark.parametrize("table", [64, 1000, packed_cuda.MAX_TABLE])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
def test_products_with_packed_rows(table, scale, device, monkeypatch):
    monkeypatch.setattr(packed_cuda, "MAX_TABLE", table)
    rng = np.random.default_rng(0)
    with gpu.use(device):
        cp = gpu.cupy()
        rows = ALL["log idf"].features.rows(documents_of(texts_of(3000)), device)
        x = replace(rows.x, values=rows.x.values * np.float32(scale))
        index = cp.flatnonzero(cp.arange(3000) % 5 != 1)
        n, d = len(index), cp.asarray(rng.normal(size=(x.n_features, 1)).astype(np.float32))
        shift, factor, unit = cp.full(1, 0.5), cp.asarray(rng.random((n, 1))), cp.full(1, 2.0**30)
        out, rounded, sums = cp.empty((n, 1)), cp.empty((n, 1), np.float32), cp.empty(d.shape, np.int64)
        packed = PackedRows(x, index, float(x.squares().max()) ** 0.5)
        packed.dot(d, shift, factor, out, rounded, cp.ones(1, np.int32))
        packed.transposed_dot(rounded, unit, sums, cp.ones(1, np.int32))
        dense = x.take(index).dot(cp.eye(x.n_features)).get()
        expected = factor.get() * (dense @ d.get() + 0.5)
        np.testing.assert_allclose(out.get(), expected, atol=5e-4 * abs(expected).max())
        np.testing.assert_array_equal(rounded.get(), out.get().astype(np.float32))
        expected = dense.T @ out.get()
        np.testing.assert_allclose(sums.get() / 2.0**30, expected, atol=5e-4 * abs(expected).max())
        before = out.get(), sums.get()
        packed.dot(-d, shift, factor, out, rounded, cp.zeros(1, np.int32))
        np.testing.assert_array_equal(out.get(), before[0])  # done: nothing is computed
        packed.dot(d, shift, factor, out, rounded, cp.ones(1, np.int32))
        packed.transposed_dot(rounded, unit, sums, cp.ones(1, np.int32))
        np.testing.assert_array_equal(out.get(), before[0])  # the same bits
        np.testing.assert_array_equal(sums.get(), before[1])


@pytest.mark.parametrize("kind", ["labels", "svr", "one class"])
def test_the_optimum_with_packed_rows(kind, device, monkeypatch):
    monkeypatch.setattr(newton_cuda, "PACK", 1)
    monkeypatch.setattr(newton_machines, "TOGETHER", 1)
    monkeypatch.setattr(newton_machines, "MIN_NEAR", 20)  # also some of the rows
    problem, documents = problem_of(kind, 300), documents_of(texts_of(300))
    theirs = newton_machines.solve_by_newton(
        problem, KERNELS["log idf"].features.rows(documents, CPU), Stopping()
    )
    with gpu.use(device):
        rows = KERNELS["log idf"].features.rows(documents, device)
        ours, again = (newton_machines.solve_by_newton(problem, rows, Stopping()) for _ in range(2))
    check_equal(ours, theirs)
    np.testing.assert_array_equal(ours.coef, again.coef)  # the same bits


@pytest.mark.parametrize("kind", ["ovr", "ovo", "svr", "one class", "labels"])
@pytest.mark.parametrize("name", ["log idf", "count", "sum"])
def test_the_optimum_is_that_of_the_cpu(kind, name, device):
    texts = texts_of(300)
    documents, kernel = documents_of(texts), KERNELS[name]
    problem = problem_of(
        kind, len(texts), 0.01 if name == "count" and kind in ("ovr", "ovo", "labels") else 1.0
    )
    theirs = newton_machines.solve_by_newton(problem, kernel.features.rows(documents, CPU), Stopping())
    with gpu.use(device):
        rows = kernel.features.rows(documents, device)
        ours, again = (newton_machines.solve_by_newton(problem, rows, Stopping()) for _ in range(2))
    check_equal(ours, theirs)
    np.testing.assert_array_equal(ours.coef, again.coef)  # the same bits


def test_many_machines_and_long_documents(device):
    rng = np.random.default_rng(3)
    texts = [
        "".join(rng.choice(list("abcdefgh "), 900, p=np.roll(np.arange(1, 10) / 45, i % 12)))
        for i in range(120)
    ]
    documents, classes = encode(texts), np.arange(120) % 12
    index = np.arange(120)
    problem = Classification(index, classes, 12, 1.0, np.ones(120), "ovr")
    kernel = Spectrum((1, 4), "log", idf=True)
    theirs = newton_machines.solve_by_newton(problem, kernel.features.rows(documents, CPU), Stopping())
    with gpu.use(device):
        ours = newton_machines.solve_by_newton(problem, kernel.features.rows(documents, device), Stopping())
    check_equal(ours, theirs)
