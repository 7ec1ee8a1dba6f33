"""Rows of features and their solver on a GPU, against the CPU's."""

import numpy as np
import pytest
from test_newton import KERNELS, check_equal, problem_of, texts_of
from test_spectrum import CPU

from textsvm import Spectrum
from textsvm.kernels.spectrum import counted_documents_cuda
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
    monkeypatch.setattr(counted_documents_cuda, "BATCH", batch)
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
