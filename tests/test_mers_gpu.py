"""Kernels of distances between l-mers on a GPU: the contract, and the bits of the CPU twin."""

import numpy as np
import pytest
from contracts import KernelContract, dna, to_numpy
from test_mers import CPU, OF_DNA, variants

from textsvm.errors import InputError
from textsvm.kernels import Gkm, Mismatch
from textsvm.kernels.mers import cuda as mer_distances_cuda
from textsvm.kernels.mers import rows as mer_scores
from textsvm.text.documents import encode

pytestmark = pytest.mark.gpu
#: Of few and of many symbols and distances.
KERNELS = [*OF_DNA, Gkm(10, 6, 3, canonical=True), Gkm(5, 1, 4, "none"), Mismatch(5, 2, alphabet=20)]


class TestMersOnTheGpu(KernelContract):
    cases = variants()


@pytest.mark.parametrize("shared", [mer_distances_cuda.SHARED, 4000])
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_both_twins_have_the_same_bits(kernel, shared, device, monkeypatch):
    monkeypatch.setattr(mer_distances_cuda, "SHARED", shared)
    monkeypatch.setattr(mer_distances_cuda, "LAUNCH", 1e7)
    letters = "acgt" if kernel.canonical or kernel.alphabet == 4 else "acgtuvwxyz"
    documents = encode([*dna(600, letters=letters, length=150), "", "ac", "ac"])
    cpu, cuda, n = kernel.rows(documents, CPU), kernel.rows(documents, device), len(documents)
    gram = cpu.gram()
    np.testing.assert_array_equal(to_numpy(cuda.gram()), gram)
    np.testing.assert_array_equal(to_numpy(cuda.diag()), cpu.diag())
    some = np.array([7, n - 1, 0, 7, *range(100, 300)])
    np.testing.assert_array_equal(to_numpy(cuda.rows(some)), gram[some])
    letters = "acgtn" if kernel.canonical else "acgt" + "".join(map(chr, range(0x4E00, 0x4E40)))
    new = encode([*dna(200, 1, letters=letters, length=150), "", "ac", "g"], documents.alphabet)
    cross = cpu.cross(new)
    np.testing.assert_array_equal(to_numpy(cuda.cross(new)), cross)
    coef = np.random.default_rng(0).normal(size=(n, 2))
    for room in (mer_scores.TABLE_BYTES, 0):
        monkeypatch.setattr(mer_scores, "TABLE_BYTES", room)
        np.testing.assert_allclose(cuda.decision(new, coef), cross @ coef, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(cuda.decision(new, coef), cpu.decision(new, coef), rtol=1e-5, atol=1e-5)


def test_other_letters_are_refused_on_both_strands(device):
    with pytest.raises(InputError, match="no letter of DNA or RNA"):
        Mismatch(3, 1, True).rows(encode(["acxgt"]), device)
