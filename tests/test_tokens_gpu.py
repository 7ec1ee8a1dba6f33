"""Words as symbols, and alphabets beyond 65,536, on a GPU: the CPU twins judge."""

from functools import partial

import numpy as np
import pytest
from contracts import to_numpy
from test_tokens import KERNELS_OF_WORDS, LABELS, NEW, TEXTS, large

from textsvm import SVC, EditDistance, GapWeighted, Spectrum
from textsvm.kernels.edit import cuda as edit_cuda
from textsvm.kernels.edit.cpu import narrow_runs
from textsvm.runtime.device import select
from textsvm.text.documents import encode, encode_as

pytestmark = pytest.mark.gpu

KERNELS = [
    Spectrum((1, 2)),
    Spectrum(1, "log", idf=True),
    Spectrum((1, 3), "intersection"),
    GapWeighted(1, 0.5),
    GapWeighted(2, 0.5),
    GapWeighted(3, 0.5, weights=(1.0, 0.0, 2.0)),
    EditDistance(0.1),
    EditDistance(2.0, relative=True),
]


def agree(kernel, documents, others, device):
    """The matrix, rows, other documents and decision values of both twins."""
    kernel.fit(documents)
    cpu, cuda = kernel.rows(documents, select("cpu")), kernel.rows(documents, device)
    gram = to_numpy(cuda.gram())
    np.testing.assert_array_equal(gram, gram.T)
    np.testing.assert_allclose(gram, cpu.gram(), rtol=1e-5, atol=1e-7)
    some = np.arange(len(documents))[::-2]
    np.testing.assert_allclose(to_numpy(cuda.rows(some)), gram[some], rtol=1e-5, atol=1e-7)
    cross = cpu.cross(others)
    np.testing.assert_allclose(to_numpy(cuda.cross(others)), cross, rtol=1e-5, atol=1e-7)
    coef = np.random.default_rng(0).normal(size=(len(documents), 3))
    expected = cross.astype(np.float64) @ coef
    np.testing.assert_allclose(cuda.decision(others, coef), expected, rtol=1e-4, atol=1e-5)
    if isinstance(kernel, EditDistance):
        np.testing.assert_array_equal(to_numpy(cuda.distances_gram()), cpu.distances_gram())
        np.testing.assert_array_equal(to_numpy(cuda.distances(others)), cpu.distances(others))
        same = to_numpy(cuda.gram_of(kernel, cuda.distances_gram()))
        np.testing.assert_allclose(same, gram, rtol=1e-5, atol=1e-7)


def zipf(n_symbols, lengths, seed):
    """Texts of words of a large vocabulary, common ones often."""
    rng = np.random.default_rng(seed)
    rare = rng.integers(0, n_symbols, (len(lengths), max(lengths)))
    common = np.minimum(rng.zipf(1.5, rare.shape), n_symbols) - 1
    chosen = np.where(rng.random(rare.shape) < 0.5, rare, common)
    return [
        " ".join(f"w{code}" for code in row[:length]) for row, length in zip(chosen, lengths, strict=True)
    ]


@pytest.mark.parametrize("tokens", ["characters", "words"])
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_more_than_65_536_symbols(kernel, tokens, device):
    documents, others, _, _ = large(tokens)
    agree(kernel, documents, others, device)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_others_with_an_alphabet_that_grows_past_two_bytes(kernel, device):
    few = ["banana band", "a banana", "the cat sat on the mat", ""]
    more = ["".join(map(chr, range(0x10000, 0x10000 + 70_000))), "\U0001000a banana\U00020003", "cat"]
    documents = encode(few)
    others = encode(more, documents.alphabet).take([1, 2])
    assert others.codes.dtype == np.uint32
    agree(kernel, documents, others, device)


@pytest.mark.parametrize("kernel", [KERNELS[0], KERNELS[4], KERNELS[6]], ids=str)
def test_long_documents_of_many_words(kernel, device):
    lengths = [700, 1, 30, 31, 33, 600, 64, 8, 7, 300, 0, 513] * 4
    texts = zipf(100_000, lengths, 1)
    everything = encode_as([" ".join(f"w{code}" for code in range(100_000)), *texts], "whitespace")
    documents = everything.take(np.arange(1, len(everything)))
    others = encode_as(zipf(110_000, lengths[:15], 2), "whitespace", documents)
    agree(kernel, documents, others, device)


@pytest.mark.parametrize("most", [4, 7])
def test_edit_distances_in_several_runs(most, device, monkeypatch):
    monkeypatch.setattr(edit_cuda, "narrow_runs", partial(narrow_runs, most=most))
    documents, others, _, _ = large("words")
    agree(EditDistance(0.1), documents, others, device)


@pytest.mark.parametrize("kernel", KERNELS_OF_WORDS, ids=str)
def test_models_of_words(kernel, device):
    cpu, cuda = (SVC(kernel, C=10, device=name).fit(TEXTS, LABELS) for name in ("cpu", "cuda"))
    expected = cpu.decision_function([*NEW, *TEXTS])
    np.testing.assert_allclose(cuda.decision_function([*NEW, *TEXTS]), expected, atol=5e-3)
