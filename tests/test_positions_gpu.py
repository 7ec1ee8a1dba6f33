"""Kernels that know positions on a GPU: the contract, and the bits of the CPU twin."""

import numpy as np
import pytest
from contracts import KernelContract, to_numpy
from test_positions import CASES, CPU

from textsvm.kernels import LocalityImproved, Oligo, WeightedDegree
from textsvm.kernels.positions import cuda as positions_cuda
from textsvm.text.documents import encode

pytestmark = pytest.mark.gpu
KERNELS = [
    WeightedDegree(),
    WeightedDegree(32, 3),
    WeightedDegree(1, 200),
    Oligo(3, 2.0),
    Oligo(1, 30.0, normalised=False),
    Oligo(32, 1.0),
    LocalityImproved(),
    LocalityImproved(31, 10, 3),
    LocalityImproved(1, 1, 1, normalised=False),
]
LENGTHS = [0, 0, 1, 2, 31, 32, 33, 63, 64, 65, 95, 96, 97, 128, 129, 300, 5, 17, 40] * 16


class TestPositionsOnTheGpu(KernelContract):
    cases = CASES


def normal(values):
    """Values below float32's smallest normal number as 0, which a card makes of them."""
    return np.where(np.abs(values) < np.finfo(np.float32).tiny, np.float32(0), values)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("symbols", [1, 4, 20, 200, 3000, 40_000, 70_000])
def test_both_twins_have_the_same_bits(kernel, symbols, device, monkeypatch):
    rng = np.random.default_rng(symbols)
    points = np.setdiff1d(np.arange(0x100, 0x20000), np.arange(0xD800, 0xE000))
    letters = np.array(list(map(chr, points[:symbols])))
    documents = encode(["".join(rng.choice(letters, n)) for n in LENGTHS] + ["".join(letters)])
    others = ["".join(rng.choice(letters, n)) + "z" for n in LENGTHS[::3]]
    new = encode([*others, "", "zz"], documents.alphabet)
    cpu, cuda = kernel.rows(documents, CPU), kernel.rows(documents, device)
    gram, cross = normal(cpu.gram()), normal(cpu.cross(new))
    np.testing.assert_array_equal(to_numpy(cuda.gram()), gram)
    np.testing.assert_array_equal(to_numpy(cuda.cross(new)), cross)
    some = rng.integers(0, len(documents), 40)
    np.testing.assert_array_equal(to_numpy(cuda.rows(some)), gram[some])
    np.testing.assert_array_equal(to_numpy(cuda.diag()), cpu.diag())
    coef = rng.normal(size=(len(documents), 2))
    np.testing.assert_allclose(cuda.decision(new, coef), cpu.decision(new, coef), rtol=1e-5, atol=1e-5)
    monkeypatch.setattr(positions_cuda, "MOST_ROWS", 7)
    monkeypatch.setattr(positions_cuda, "LAUNCH", 1e-9)
    np.testing.assert_array_equal(to_numpy(cuda.gram(lambda done, total: None)), gram)


def test_no_documents(device):
    documents = encode([])
    for kernel in KERNELS:
        rows = kernel.rows(documents, device)
        assert rows.gram().shape == (0, 0)
        assert rows.cross(encode(["a"])).shape == (1, 0)


def test_long_texts(device):
    rng = np.random.default_rng(0)
    documents = encode(["".join(rng.choice(list("acgt"), n)) for n in (100_000, 99_999, 3, 50_000)])
    for kernel in (WeightedDegree(20, 4), Oligo(6, 1.0), LocalityImproved(9, 4, 2)):
        gram = kernel.rows(documents, device).gram()
        np.testing.assert_array_equal(to_numpy(gram), kernel.rows(documents, CPU).gram())
