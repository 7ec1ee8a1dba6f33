"""The gap-weighted kernel of bounded span on a GPU: the contract, and the CPU twin."""

import numpy as np
import pytest
from contracts import KernelContract, random_texts, to_numpy
from scipy.sparse import csr_matrix
from test_bounded_gap import CPU, news, variants

from textsvm.kernels import BoundedGap
from textsvm.kernels.gap import bounded_cuda as subsequences_cuda
from textsvm.kernels.gap import subsequences
from textsvm.kernels.gap.subsequences import patterns_of
from textsvm.kernels.shared import counting_cuda
from textsvm.runtime import device as gpu
from textsvm.text.documents import encode

pytestmark = pytest.mark.gpu


class TestBoundedGapOnTheGpu(KernelContract):
    cases = variants()


@pytest.mark.parametrize("normalised", [True, False])
@pytest.mark.parametrize(("p", "decay", "span"), [(1, 0.5, 1), (3, 0.1, 5), (4, 0.1, 7), (5, 0.8, 6)])
def test_both_twins_agree(p, decay, span, normalised, device):
    documents = encode([*random_texts(700), *news(200), "", "ac", "ac"])
    kernel, n = BoundedGap(p, decay, span, normalised), len(documents)
    cpu, cuda = kernel.rows(documents, CPU), kernel.rows(documents, device)
    expected, gram = cpu.gram(), to_numpy(cuda.gram())
    within = 3e-8 * expected.max()  # features are on a grid
    np.testing.assert_allclose(gram, expected, rtol=2e-6, atol=within)
    np.testing.assert_array_equal(gram, gram.T)
    np.testing.assert_array_equal(to_numpy(cuda.diag()), cpu.diag())
    new = encode([*random_texts(300, "abcdx", 1), *news(20), "", "ac", "g"], documents.alphabet)
    coef = np.random.default_rng(0).normal(size=(n, 2))
    some = np.array([7, n - 1, 0, 7, *range(100, 300)])
    np.testing.assert_allclose(to_numpy(cuda.rows(some)), expected[some], rtol=2e-6, atol=within)
    np.testing.assert_allclose(to_numpy(cuda.cross(new)), cpu.cross(new), rtol=2e-6, atol=within)
    np.testing.assert_allclose(cuda.decision(new, coef), cpu.decision(new, coef), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("n_letters", [2, 70, 3000])
@pytest.mark.parametrize(("p", "span"), [(1, 1), (3, 5), (12, 13)])
def test_features_are_those_of_the_cpu_bit_by_bit(n_letters, p, span, device, monkeypatch):
    rng = np.random.default_rng(0)
    points = 0x4E00 + rng.integers(0, n_letters, (60, 90)) ** 2 // n_letters
    texts = ["".join(map(chr, row)) for row in points]
    known = encode([*texts[:40], "", "short"])
    others = encode([*texts[30:], "x" * 50], known.alphabet)
    patterns = patterns_of(p, span)
    for table, room, batch in ((1 << 24, 1 << 62, 1 << 26), (1, 1 << 62, 5000), (1, 1 << 33, 1)):
        monkeypatch.setattr(counting_cuda, "TABLE", table)
        monkeypatch.setattr(subsequences_cuda, "BATCH", batch)
        for module in (subsequences, subsequences_cuda):
            monkeypatch.setattr(module, "ROOM", room)
        own, x = subsequences.count(known, patterns, 0.3)
        theirs, _ = subsequences.count(others, patterns, 0.3)
        with gpu.use(device):
            ours, on_card = subsequences_cuda.count(known, patterns, 0.3)
            found = to_numpy(ours.find(subsequences_cuda.count(others, patterns, 0.3)[0]))
        assert len(ours.stages) == len(own.stages)
        np.testing.assert_array_equal(to_numpy(on_card.indptr), x.indptr)
        np.testing.assert_array_equal(to_numpy(on_card.features), x.features)
        np.testing.assert_array_equal(to_numpy(on_card.values), x.values)
        np.testing.assert_array_equal(to_numpy(on_card.df), np.bincount(x.features, minlength=x.n_features))
        np.testing.assert_array_equal(found, own.find(theirs))


@pytest.mark.parametrize("normalised", [True, False])
def test_rows_of_features_give_the_gram(normalised, device):
    documents = encode([*random_texts(300), "", "ac", "ac", "b"])
    kernel = BoundedGap(3, 0.5, normalised=normalised)
    with gpu.use(device):
        rows = kernel.features.rows(documents, device)
        x = rows.x
        parts = (to_numpy(a) for a in (x.values, x.features, x.indptr))
        dense = csr_matrix(tuple(parts), shape=(len(x), x.n_features)).toarray().astype(np.float64)
        gram = dense @ dense.T + np.diag(to_numpy(rows.ridge))
    np.testing.assert_allclose(gram, kernel.rows(documents, CPU).gram(), rtol=1e-5, atol=1e-7)
