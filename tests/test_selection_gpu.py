"""Selection where the Gram is on a GPU: products, groups, choices and probabilities are those of the CPU."""

import gc

import numpy as np
import pytest
from problems import gaussian
from test_leakage import random_matrix, same_partition
from test_products import random_machines, written_out
from test_selection import classes_of, numbers, texts

from textsvm.estimators.calibrated import CalibratedSVC
from textsvm.estimators.svm import SVC, SVR
from textsvm.gram import nearest as search
from textsvm.gram.base import CachedGram, DenseGram, needed_bytes
from textsvm.kernels import EditDistance, GapWeighted, Spectrum
from textsvm.runtime.device import cupy, select, use
from textsvm.selection.cross_validation import cross_validate
from textsvm.selection.doubts import doubts
from textsvm.selection.tuning import tune
from textsvm.solvers import problems
from textsvm.solvers.problems import decision_values
from textsvm.text.documents import encode
from textsvm.training.leakage import find_leaks, near_duplicates

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore::textsvm.training.leakage.LeakageWarning")]


@pytest.mark.parametrize("blocks", [(7, 2), (1000, 1000)])
def test_products(monkeypatch, device, blocks):
    matrix, _ = gaussian(60)
    monkeypatch.setattr(problems, "BLOCK_BYTES", blocks[0] * 8 * 60)
    monkeypatch.setattr(problems, "VALUES_BYTES", blocks[1] * 8 * 60)
    machines = random_machines(60)
    with use(device):
        values = decision_values(DenseGram(cupy().asarray(matrix)), machines)
    for found, expected in zip(values, written_out(matrix, machines), strict=True):
        assert isinstance(found, np.ndarray)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_products_of_rows_on_demand(device):
    documents = encode([f"text {i} {'ab' * (i % 5)} {i * i}" for i in range(60)])
    kernel = Spectrum(p=2).fit(documents)
    machines = random_machines(60)
    expected = written_out(kernel.rows(documents, select("cpu")).gram(), machines)
    with use(device):
        gram = CachedGram(kernel.rows(documents, device), needed_bytes(60, 8))
        values = decision_values(gram, machines)
    for found, wanted in zip(values, expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_near_duplicates(monkeypatch, device):
    monkeypatch.setattr(search, "BLOCK", 60 * 7)
    matrix = random_matrix(60, 5)
    folds = [(np.arange(0, 60, 2), np.arange(1, 60, 2)), (np.arange(30), np.arange(30, 50))]
    with use(device):
        gram = DenseGram(cupy().asarray(matrix))
        groups, leaks = near_duplicates(gram, 0.97), find_leaks(gram, folds, 0.97)
    assert same_partition(groups.tolist(), near_duplicates(DenseGram(matrix), 0.97).tolist())
    for found, expected in zip(leaks, find_leaks(DenseGram(matrix), folds, 0.97), strict=True):
        assert len(expected.test) > 3
        np.testing.assert_array_equal(found.test, expected.test)
        np.testing.assert_allclose(found.value, expected.value, rtol=1e-5)


@pytest.mark.parametrize("multiclass", ["ovo", "ovr", "crammer-singer"])
@pytest.mark.parametrize("k", [2, 4])
def test_cross_validation(multiclass, k):
    matrix, y = classes_of(400, k)
    options = {"kernel": "precomputed", "C": 3, "tol": 1e-6, "multiclass": multiclass}
    cpu, gpu = (cross_validate(SVC(**options, device=d), matrix, y, repeats=2) for d in ("cpu", "cuda"))
    # Votes change where a value is close to 0.
    far = np.abs(cpu.decision - gpu.decision).reshape(400, -1).max(axis=1) < 1e-3
    assert far.mean() > 0.98
    assert np.mean(cpu.predictions == gpu.predictions) > 0.99


def test_regression():
    matrix, y = numbers(300)
    options = {"kernel": "precomputed", "C": 3, "tol": 1e-6}
    cpu, gpu = (cross_validate(SVR(**options, device=d), matrix, y) for d in ("cpu", "cuda"))
    np.testing.assert_allclose(gpu.decision, cpu.decision, atol=1e-3)


def test_tuning_with_nested_folds():
    documents, y = texts(150, seed=1)
    kernels = [Spectrum(p=2), Spectrum(p=(2, 3)), GapWeighted(p=2), GapWeighted(p=3), EditDistance(gamma=0.1)]
    grid = {"kernel": kernels, "C": [0.01, 0.1, 1]}
    cpu, gpu = (
        tune(SVC(tol=1e-6, device=d), documents, y, grid, cv=3, nested=3, minutes=10) for d in ("cpu", "cuda")
    )
    assert gpu.best_estimator.device_.kind == "cuda"
    for a, b in zip(cpu.table, gpu.table, strict=True):
        np.testing.assert_allclose(a["folds"], b["folds"], atol=0.021)
    np.testing.assert_allclose(cpu.nested.mean["accuracy"], gpu.nested.mean["accuracy"], atol=0.03)
    fitted = SVC(**gpu.best_params_, tol=1e-6, device="cuda").fit(documents, y)
    np.testing.assert_allclose(
        gpu.best_estimator.decision_function(documents), fitted.decision_function(documents), atol=1e-4
    )


def test_grams_of_a_grid_are_given_back(device):
    documents, y = texts(600, seed=1)
    grid = {"kernel__gamma": list(np.linspace(0.01, 0.1, 20))}
    with use(device):
        gc.collect()
        before = cupy().get_default_memory_pool().used_bytes()
        tune(SVC(EditDistance(), device="cuda"), documents, y, grid, cv=2)
        gc.collect()
        # Twenty of them are 29 MB.
        assert cupy().get_default_memory_pool().used_bytes() - before < 6e6


@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
def test_probabilities(method):
    documents, y = texts(200, seed=3)
    cpu, gpu = (
        CalibratedSVC(SVC(Spectrum(p=2), tol=1e-6, device=d), method).fit(documents, y)
        for d in ("cpu", "cuda")
    )
    new, _ = texts(50, seed=4)
    atol = 1e-3 if method == "sigmoid" else 0.1
    np.testing.assert_allclose(gpu.predict_proba(new), cpu.predict_proba(new), atol=atol)


def test_doubts_and_promises(device):
    documents, labels = texts(80)
    found = [doubts(SVC(Spectrum(3), device=each), documents, labels, cv=4) for each in ("cpu", "cuda")]
    np.testing.assert_allclose(found[0].score, found[1].score, atol=1e-2)
    np.testing.assert_allclose(found[0].nearest.value, found[1].nearest.value, atol=1e-5)
    assert np.array_equal(found[0].outlier, found[1].outlier)
    machines = [
        CalibratedSVC(SVC(Spectrum(3), device=each)).fit(documents, labels) for each in ("cpu", "cuda")
    ]
    scores = [machine.score_samples(documents) for machine in machines]
    np.testing.assert_allclose(*scores, atol=5e-3)
