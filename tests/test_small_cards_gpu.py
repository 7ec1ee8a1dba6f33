"""On a GPU: training in several passes, without lists by feature, or from main memory, changes no bit."""

import numpy as np
import pytest
from test_newton import KERNELS, problem_of, texts_of
from test_spectrum import news

from textsvm import SVC, BoundedGap, Compute, Spectrum
from textsvm.kernels.gap import bounded_cuda
from textsvm.kernels.shared import counting_cuda
from textsvm.kernels.shared.counting_cuda import CudaCounts, CudaPmers
from textsvm.kernels.spectrum import cuda as spectrum_cuda
from textsvm.linalg import packed_cuda, rows_cuda
from textsvm.linalg.packed_cuda import PackedRows, packed_bytes
from textsvm.runtime import device as gpu
from textsvm.solvers import newton, newton_cuda
from textsvm.solvers.solution import Stopping
from textsvm.text.documents import DeviceDocuments, encode

pytestmark = pytest.mark.gpu
ALL = {**KERNELS, "odds": Spectrum((2, 3), "log", idf=True, odds=True), "long": Spectrum((6, 9), "presence")}


def documents_of(n):
    texts = [*texts_of(n), "", "a", "", "eee" * 400, "a"]
    return encode(texts).with_classes(np.arange(len(texts)) % 3)


def in_passes(monkeypatch, documents, passes, lengths=1):
    """Make panels so small that documents are counted in this number of passes."""
    size = len(documents.codes) * lengths
    for most in np.linspace(size, 1, 500).astype(int):
        monkeypatch.setattr(counting_cuda, "MAX_PANEL", int(most))
        if len(counting_cuda.plan_panels(documents.lengths, lengths, 1 << 40)) >= passes:
            return


def in_main_memory(monkeypatch):
    """Keep rows in page-locked memory, and no lists by feature."""
    monkeypatch.setattr(rows_cuda, "LIST_BYTES", 1 << 60)
    monkeypatch.setattr(gpu, "SMALL", 0)
    empty = gpu.empty
    monkeypatch.setattr(gpu, "empty", lambda size, dtype, reserve=0: empty(size, dtype, 1 << 60))


def assert_same(first, second, names):
    for name in names:
        one, other = getattr(first, name), getattr(second, name)
        # Arrays in page-locked memory are copied by a kernel.
        np.testing.assert_array_equal((one + 0).get(), (other + 0).get(), name)


@pytest.mark.parametrize("passes", [2, 3, 7, 40])
@pytest.mark.parametrize("table", [0, 1 << 24], ids=["sorted", "tabulated"])
@pytest.mark.parametrize("name", ALL)
def test_rows(name, table, passes, device, monkeypatch):
    documents, kernel = documents_of(160), ALL[name]
    with gpu.use(device):
        whole = kernel.features.rows(documents, device)
        weights = getattr(kernel, "weights_", None)
        in_passes(monkeypatch, documents, passes)
        monkeypatch.setattr(counting_cuda, "TABLE", table)
        monkeypatch.setattr(spectrum_cuda, "KEPT_SHARE", 0.0 if passes == 7 else 0.5)
        rows = kernel.features.rows(documents, device)
        assert name == "sum" or rows.note.startswith("counted in")
        assert_same(whole.x, rows.x, ("indptr", "features", "values"))
        assert_same(whole, rows, ("ridge",))
        assert whole.x.n_features == rows.x.n_features
        if weights is not None:
            np.testing.assert_array_equal(weights.table, kernel.weights_.table)


@pytest.mark.parametrize("normalised", [True, False])
@pytest.mark.parametrize("table", [1, 1 << 24], ids=["sorted", "tabulated"])
def test_rows_of_bounded_gaps(normalised, table, device, monkeypatch):
    documents = documents_of(160)
    kernel = BoundedGap(3, 0.5, normalised=normalised)
    monkeypatch.setattr(counting_cuda, "TABLE", table)
    with gpu.use(device):
        whole = kernel.features.rows(documents, device)
        assert not whole.note
        monkeypatch.setattr(bounded_cuda, "BATCH", 20_000)
        rows = kernel.features.rows(documents, device)
        assert rows.note.startswith("counted in")
        assert_same(whole.x, rows.x, ("indptr", "features", "values"))
        assert_same(whole, rows, ("ridge",))


def test_odds_of_some_classes_at_a_time(device, monkeypatch):
    documents, kernel = documents_of(160), ALL["odds"]
    with gpu.use(device):
        kernel.features.rows(documents, device)
        expected, free = kernel.weights_.table, gpu.free_memory
        monkeypatch.setattr(gpu, "free_memory", lambda *where: free(*where) if where else 1 << 16)
        kernel.features.rows(documents, device)
        np.testing.assert_array_equal(kernel.weights_.table, expected)


@pytest.mark.parametrize("unary", [False, True])
@pytest.mark.parametrize("p", [1, 3, 12, (1, 5), (3, 8)])
def test_counts(p, unary, device, monkeypatch):
    documents = encode([*news(300), "", "eee" * 400])
    p1, p2 = p if isinstance(p, tuple) else (p, p)
    with gpu.use(device):
        whole = CudaCounts.of_panels(CudaPmers(DeviceDocuments(documents), p1, p2), unary)
        for table in (0, 1 << 24):
            monkeypatch.setattr(counting_cuda, "TABLE", table)
            in_passes(monkeypatch, documents, 7, p2 + 1 - p1)
            pmers = CudaPmers(DeviceDocuments(documents), p1, p2)
            assert len(pmers.panels) >= 7
            counts = CudaCounts.of_panels(pmers, unary)
            names = ["indptr", "documents", "pmers", "features", "df", "highest"]
            assert_same(whole, counts, [*names, "starts"] if unary else [*names, "counts"])


@pytest.mark.parametrize("part", [1 << 28, 5000])
@pytest.mark.parametrize("table", [64, packed_cuda.MAX_TABLE])
def test_products_without_lists(table, part, device, monkeypatch):
    monkeypatch.setattr(packed_cuda, "MAX_TABLE", table)
    monkeypatch.setattr(rows_cuda, "LIST", 32)
    monkeypatch.setattr(rows_cuda, "PART", part)
    rng, documents = np.random.default_rng(0), documents_of(3000)
    found = []
    with gpu.use(device):
        cp = gpu.cupy()
        u = rng.normal(size=(len(documents), 3)) * (rng.random((len(documents), 1)) < 0.5)
        d = rng.normal(size=1 << 20).astype(np.float32)
        for limited in (False, True):
            if limited:
                in_main_memory(monkeypatch)
            x = ALL["log idf"].features.rows(documents, device).x
            assert (x.columns.x is not None) == limited
            index = cp.flatnonzero(cp.arange(len(x)) % 5 != 1)
            n, dense = len(index), cp.asarray(d[: x.n_features, None])
            packed = PackedRows(x, index, float(x.squares().max()) ** 0.5)
            out, rounded = cp.empty((n, 1)), cp.empty((n, 1), np.float32)
            sums, is_open = cp.empty(dense.shape, np.int64), cp.ones(1, np.int32)
            packed.dot(dense, cp.full(1, 0.5), cp.ones((n, 1)), out, rounded, is_open)
            packed.transposed_dot(rounded, cp.full(1, 2.0**30), sums, is_open)
            some = x.part(index[::2].copy())
            products = x.transposed_dot(cp.asarray(u)), some.transposed_dot(cp.asarray(u[: len(some)]))
            found.append([values.get() for values in (out, rounded, sums, *products, x.dot(dense))])
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_packed_copy_without_lists_needs_half_the_bytes(device, monkeypatch):
    monkeypatch.setattr(rows_cuda, "LIST_BYTES", 1 << 60)
    monkeypatch.setattr(gpu, "SMALL", 0)
    monkeypatch.setattr(packed_cuda, "SORT_ROOM", 1 << 20)
    with gpu.use(device):
        cp = gpu.cupy()
        x = ALL["log idf"].features.rows(documents_of(20_000), device).x
        index, largest = cp.arange(0, len(x), 2), float(x.squares().max()) ** 0.5
        entries = int(cp.diff(x.indptr)[index].sum())
        needed = packed_bytes(x, len(index), entries)
        assert needed < 14 * entries + 150 * x.n_features + (1 << 20)
        pool = cp.cuda.MemoryPool()
        pool.set_limit(needed)
        monkeypatch.setattr(gpu, "free_memory", lambda: needed - pool.used_bytes())
        assert len(x.columns.first_rows)  # computed once, before
        with cp.cuda.using_allocator(pool.malloc):
            PackedRows(x, index, largest)


@pytest.mark.parametrize("pack", [1, 1 << 40], ids=["packed", "not packed"])
@pytest.mark.parametrize("kind", ["labels", "svr", "one class"])
def test_machines(kind, pack, device, monkeypatch):
    monkeypatch.setattr(newton_cuda, "PACK", pack)
    monkeypatch.setattr(newton, "TOGETHER", 1)
    monkeypatch.setattr(newton, "MIN_NEAR", 20)  # also some of the rows
    monkeypatch.setattr(rows_cuda, "LIST", 32)
    documents, problem, found = encode(texts_of(300)), problem_of(kind, 300), []
    with gpu.use(device):
        for passes in (1, 3):
            if passes > 1:
                in_passes(monkeypatch, documents, passes)
                in_main_memory(monkeypatch)
            rows = ALL["log idf"].features.rows(documents, device)
            found.append(newton.solve_by_newton(problem, rows, Stopping()))
    np.testing.assert_array_equal(found[0].coef, found[1].coef)


@pytest.mark.parametrize("passes", [2, 7])
def test_a_classifier_and_its_predictions(passes, device, monkeypatch):
    texts, labels = news(400), np.arange(400) % 2
    documents, found = encode(texts), []
    for several in (False, True):
        if several:
            in_passes(monkeypatch, documents, passes, 5)
            in_main_memory(monkeypatch)
        model = SVC(Spectrum((1, 5), "log", idf=True), device="cuda", compute=Compute(solver="features"))
        model.fit(texts, labels)
        found.append((model.dual_coef_, model.decision_function(news(200, 1))))
    assert f"counted in {passes}" in model.gram_description_
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("weight", ["count", "presence", "log", "intersection"])
@pytest.mark.parametrize("idf", [False, True])
def test_predictors_in_passes(weight, idf, device, monkeypatch):
    documents = encode([*news(120), "", "eee" * 400, "a"])
    new = encode([*news(50, 1), "", "a", "☃"], documents.alphabet)
    kernel = Spectrum((1, 4), weight, idf).fit(documents)
    coef = np.random.default_rng(0).normal(size=(9, len(documents)))
    whole = kernel.predictor(documents, coef, device).values(new)
    expected = kernel.predictor(documents, coef, gpu.select("cpu")).values(new)
    np.testing.assert_allclose(whole, expected, atol=1e-9 * abs(expected).max())
    in_passes(monkeypatch, documents, 7)
    free = gpu.free_memory
    np.testing.assert_array_equal(kernel.predictor(documents, coef, device).values(new), whole)
    monkeypatch.setattr(gpu, "free_memory", lambda *where: free(*where) if where else 1 << 20)
    np.testing.assert_array_equal(kernel.predictor(documents, coef, device).values(new), whole)


@pytest.mark.parametrize("normalised", [True, False])
def test_predictors_of_bounded_gaps_in_passes(normalised, device, monkeypatch):
    documents = encode([*news(120), "", "eee" * 400, "a"])
    new = encode([*news(20, 1), "", "a", "☃"], documents.alphabet)
    kernel, free = BoundedGap(3, 0.5, normalised=normalised), gpu.free_memory
    coef = np.random.default_rng(0).normal(size=(9, len(documents)))
    whole = kernel.predictor(documents, coef, device).values(new)
    expected = kernel.predictor(documents, coef, gpu.select("cpu")).values(new)
    np.testing.assert_allclose(whole, expected, atol=1e-9 * abs(expected).max())
    monkeypatch.setattr(gpu, "SMALL", 0)
    monkeypatch.setattr(gpu, "free_memory", lambda *where: free(*where) if where else 1 << 20)
    np.testing.assert_array_equal(kernel.predictor(documents, coef, device).values(new), whole)
