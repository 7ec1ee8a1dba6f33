"""The kernel of gapped k-mers on a GPU: the contract, and the CPU twin."""

import numpy as np
import pytest
from contracts import KernelContract, dna, to_numpy
from test_gapped import CPU, variants

from textsvm.errors import InputError
from textsvm.kernels import GappedKmers
from textsvm.kernels.mers import gapped_cuda as gapped_dense_cuda
from textsvm.kernels.mers import gapped_rows as gapped_features
from textsvm.kernels.mers.gapped_cuda import CudaMaskedWindows, CudaWindows
from textsvm.kernels.mers.windows import Mask, MaskedWindows, windows_of
from textsvm.kernels.options import GAPPED_WEIGHTS as WEIGHTS
from textsvm.kernels.shared import counting_cuda
from textsvm.text.documents import encode

pytestmark = pytest.mark.gpu


class TestGappedOnTheGpu(KernelContract):
    cases = variants()


@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("canonical", [False, True])
@pytest.mark.parametrize(("g", "m"), [(4, 1), (6, 3), (8, 0)])
def test_both_twins_agree(g, m, canonical, weight, device, monkeypatch):
    documents = encode([*dna(900), "", "ac", "ac"])
    kernel, n = GappedKmers(g, m, canonical, weight), len(documents)
    cpu, cuda = kernel.rows(documents, CPU), kernel.rows(documents, device)
    expected, gram = cpu.gram(), to_numpy(cuda.gram())
    np.testing.assert_allclose(gram, expected, rtol=2e-6, atol=3e-8)
    np.testing.assert_array_equal(gram, gram.T)
    np.testing.assert_array_equal(to_numpy(cuda.diag()), cpu.diag())
    new = encode([*dna(300, 1, letters="acgtn"), "", "ac", "g"], documents.alphabet)
    coef = np.random.default_rng(0).normal(size=(n, 2))
    some = np.array([7, n - 1, 0, 7, *range(100, 300)])
    for keep in (gapped_features.KEEP_BYTES, 0):
        monkeypatch.setattr(gapped_features, "KEEP_BYTES", keep)
        rows = kernel.rows(documents, device)
        np.testing.assert_allclose(to_numpy(rows.rows(some)), expected[some], rtol=2e-6, atol=3e-8)
        np.testing.assert_allclose(to_numpy(rows.cross(new)), cpu.cross(new), rtol=2e-6, atol=3e-8)
        np.testing.assert_allclose(rows.decision(new, coef), cpu.decision(new, coef), rtol=1e-9, atol=1e-9)
    monkeypatch.setattr(gapped_features, "WEIGHT_BYTES", 0)  # by rows
    by_rows = kernel.predictor(documents, coef.T, device).values(new)
    np.testing.assert_allclose(by_rows, cpu.cross(new) @ coef, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("n_letters", [4, 70, 3000])
@pytest.mark.parametrize("mask", [Mask((0,)), Mask((1, 3, 4)), Mask(tuple(range(0, 40, 2)))])
def test_ids_are_those_of_the_cpu(n_letters, mask, device, monkeypatch):
    rng = np.random.default_rng(0)
    points = 0x4E00 + rng.integers(0, n_letters, (60, 90)) ** 2 // n_letters
    texts = ["".join(map(chr, row)) for row in points]
    known = encode([*texts[:40], "", "short"])
    others = encode([*texts[30:], "x" * 50], known.alphabet)
    ours, theirs = windows_of(known, 41, False), windows_of(others, 41, False)
    expected, ids = MaskedWindows.learn(ours, mask)
    for table in (counting_cuda.TABLE, 1):
        monkeypatch.setattr(counting_cuda, "TABLE", table)
        found, on_card = CudaMaskedWindows.learn(CudaWindows(ours), mask)
        np.testing.assert_array_equal(to_numpy(on_card), ids)
        np.testing.assert_array_equal(to_numpy(found.find(CudaWindows(theirs))), expected.find(theirs))


def test_other_letters_are_refused_on_both_strands(device):
    with pytest.raises(InputError, match="no letter of DNA or RNA"):
        GappedKmers(3, 1, True).rows(encode(["acxgt"]), device)


@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("canonical", [False, True])
def test_dense_rows_and_lists_agree(canonical, weight, device, monkeypatch):
    """Tiles and groups of several sizes, texts that repeat one letter, an `n`, texts without windows."""
    documents = encode([*dna(700, letters="acgtn"), "", "ac", "a" * 400, "ca" * 200])
    kernel = GappedKmers(7, 3, canonical, weight)
    with_dense = kernel.rows(documents, device)
    expected = kernel.rows(documents, CPU).gram()
    for tile, group in ((2048, 1 << 30), (256, 1)):
        monkeypatch.setattr(gapped_dense_cuda, "TILE", tile)
        monkeypatch.setattr(gapped_dense_cuda, "GROUP_BYTES", group)
        gram = to_numpy(with_dense.gram())
        np.testing.assert_allclose(gram, expected, rtol=2e-6, atol=3e-8)
        np.testing.assert_array_equal(gram, to_numpy(with_dense.gram()))
    monkeypatch.setattr(gapped_dense_cuda, "MOST_KEYS", 0)
    np.testing.assert_allclose(to_numpy(with_dense.gram()), expected, rtol=2e-6, atol=3e-8)


def test_whole_numbers_are_exact(device):
    documents = encode([*dna(300), "ac" * 700])
    kernel = GappedKmers(8, 2, weight="count", normalised=False)
    expected = kernel.rows(documents, CPU).gram()
    small = expected < 1 << 24
    np.testing.assert_array_equal(to_numpy(kernel.rows(documents, device).gram())[small], expected[small])


@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("canonical", [False, True])
def test_looking_up_is_counting(canonical, weight, device, monkeypatch):
    documents = encode([*dna(200), "a" * 90, "", "ac"])
    others = encode([*dna(300, 1, letters="acgtn"), "", "ac", "t" * 1000], documents.alphabet)
    coef = np.random.default_rng(0).normal(size=(3, len(documents)))
    kernel = GappedKmers(7, 3, canonical, weight)
    expected = kernel.predictor(documents, coef, CPU).values(others)
    predictor = kernel.predictor(documents, coef, device)
    found = predictor.values(others)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(found, predictor.values(others))
    monkeypatch.setattr(gapped_dense_cuda, "MOST_WINDOWS", 0)
    counted = kernel.predictor(documents, coef, device).values(others)
    np.testing.assert_allclose(counted, expected, rtol=1e-9, atol=1e-9)
