"""The p-spectrum kernel on a GPU: the contract, the CPU twin bit for bit where both are exact."""

import numpy as np
import oracles
import pytest
from contracts import KernelContract, to_numpy
from loading import load
from test_spectrum import CPU, news, oracle, variants

from textsvm import SVC, Sum, save
from textsvm.errors import InputError
from textsvm.kernels.options import WEIGHTS
from textsvm.kernels.spectrum import features as spectrum_features
from textsvm.kernels.spectrum.cuda import cuda_grams
from textsvm.kernels.spectrum.kernel import Spectrum
from textsvm.linalg import products_cuda, sparse_cuda
from textsvm.runtime import device as devices
from textsvm.text.documents import encode

pytestmark = pytest.mark.gpu


class TestSpectrumOnTheGpu(KernelContract):
    cases = variants()


def twins(kernel, documents, device):
    kernel.fit(documents)
    return kernel.rows(documents, CPU), kernel.rows(documents, device)


@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("idf", [False, True])
@pytest.mark.parametrize("p", [1, 3, 12, (1, 5)])
def test_both_twins_agree(p, weight, idf, device):
    documents = encode(news(1500))
    cpu, cuda = twins(Spectrum(p, weight, idf), documents, device)
    expected, gram = cpu.gram(), to_numpy(cuda.gram())
    # Exact sums, rounded once: only the order of the two scale factors' rounding could differ.
    # Other features are on a grid, on a CPU that of each length.
    rtol, atol = (2e-7, 0) if not idf and weight != "log" else (2e-6, 3e-8)
    np.testing.assert_allclose(gram, expected, rtol=rtol, atol=atol)
    np.testing.assert_array_equal(gram, gram.T)
    np.testing.assert_array_equal(to_numpy(cuda.diag()), cpu.diag())
    some = np.array([7, 1499, 0, 7, *range(100, 300)])
    np.testing.assert_allclose(to_numpy(cuda.rows(some)), expected[some], rtol=rtol, atol=atol)
    new = encode([*news(1100, 1), "", "☃", "eee" * 9000], documents.alphabet)
    np.testing.assert_allclose(to_numpy(cuda.cross(new)), cpu.cross(new), rtol=rtol, atol=atol)
    coef = np.random.default_rng(0).normal(size=(1500, 2))
    np.testing.assert_allclose(
        cuda.decision(new, coef), to_numpy(cuda.cross(new)) @ coef, rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize(
    ("narrow", "wide"), [(0.0, 0.0), (2.0, 2.0), (0.3, 0.3)], ids=["dense", "lists", "both"]
)
@pytest.mark.parametrize("weight", WEIGHTS)
def test_every_split_of_the_columns_gives_the_same(narrow, wide, weight, device, monkeypatch):
    monkeypatch.setattr(products_cuda, "NARROW_SHARE", narrow)
    monkeypatch.setattr(products_cuda, "WIDE_SHARE", wide)
    documents = encode(news(700))
    for idf in (False, True):
        cpu, cuda = twins(Spectrum(2, weight, idf), documents, device)
        np.testing.assert_allclose(to_numpy(cuda.gram()), cpu.gram(), rtol=2e-6, atol=3e-8)
        np.testing.assert_allclose(to_numpy(cuda.cross(documents)), cpu.gram(), rtol=2e-6, atol=3e-8)


def test_more_columns_than_a_block_can_sum(device, monkeypatch):
    monkeypatch.setattr(products_cuda, "SHARED", 1 << 10)
    monkeypatch.setattr(products_cuda, "TILE_BYTES", 1 << 22)
    documents = encode(news(1100))
    for kernel in (Spectrum(3), Spectrum(3, "log", True)):
        cpu, cuda = twins(kernel, documents, device)
        np.testing.assert_allclose(to_numpy(cuda.gram()), cpu.gram(), rtol=2e-6, atol=3e-8)
        np.testing.assert_allclose(to_numpy(cuda.cross(documents)), cpu.gram(), rtol=2e-6, atol=3e-8)


@pytest.mark.parametrize("repeats", [100, 30_000, 100_000])
def test_counts_and_sums_beyond_every_small_type(repeats, device):
    many = "".join(chr(0x4E00 + i) for i in range(20_000))
    texts = ["a" * repeats + many, many + "a" * (repeats // 3), "ab", "aaa"] * 30
    documents = encode(texts)
    kernel = Spectrum(1, normalised=False)
    rows = kernel.rows(documents, device)
    gram = to_numpy(rows.gram())
    for i in range(4):
        for j in range(4):
            exact = np.float32(oracles.spectrum(texts[i], texts[j], 1))
            assert gram[i, 4 + j] == exact
            assert to_numpy(rows.cross(documents.take([i])))[0, j] == exact


@pytest.mark.parametrize("p", [(1, 2), 64])
def test_wide_alphabets_and_long_substrings(p, device):
    rng = np.random.default_rng(0)
    points = np.delete(np.arange(0x100, 0x100 + 62_100), slice(0xD800 - 0x100, 0xE000 - 0x100))
    flat = "".join(map(chr, rng.permutation(points)))
    texts = [flat, flat[:30_000] + flat[40_000:], flat[::-1], flat[100:200] * 3]
    documents = encode(texts)
    value = oracle(*(p if isinstance(p, tuple) else (p, p)))
    expected = [[value(s, t) for t in texts] for s in texts]
    rows = Spectrum(p).rows(documents, device)
    np.testing.assert_allclose(to_numpy(rows.gram()), expected, rtol=1e-6)
    np.testing.assert_allclose(to_numpy(rows.cross(documents)), expected, rtol=1e-6)


def test_a_document_of_a_million_symbols(device):
    documents = encode(["ab" * 500_000, "abc" * 20, "a" * 1_000_000, ""])
    for weight in WEIGHTS:
        cpu, cuda = twins(Spectrum(5, weight), documents, device)
        np.testing.assert_allclose(to_numpy(cuda.gram()), cpu.gram(), rtol=1e-6, atol=3e-8)


@pytest.mark.parametrize("kernel", [Spectrum((1, 3)), Spectrum(2, "log", idf=True)])
def test_two_runs_give_the_same_bits_with_all_three_kinds_of_columns(kernel, device):
    documents = encode([t + "e" * (i % 300) for i, t in enumerate(news(1300))])
    kernel.fit(documents)
    first = kernel.rows(documents, device)
    assert first.columns.n_wide
    gram = to_numpy(first.gram())
    for _ in range(3):
        np.testing.assert_array_equal(to_numpy(kernel.rows(documents, device).gram()), gram)


@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("idf", [False, True])
@pytest.mark.parametrize("p", [1, 3, (1, 5)])
def test_prediction_happens_on_the_gpu_and_is_the_same(p, weight, idf, device, monkeypatch):
    documents = encode([*news(500), "", "e"])
    kernel = Spectrum(p, weight, idf).fit(documents)
    coef = np.random.default_rng(0).normal(size=(3, len(documents)))
    new = encode([*news(300, 1), "", "e", "☃", "eee" * 9000], documents.alphabet)
    expected = kernel.predictor(documents, coef, CPU).values(new)
    monkeypatch.setattr(spectrum_features, "count", None)
    predictor = kernel.predictor(documents, coef, device)
    assert predictor.device == device
    values = predictor.values(new)
    np.testing.assert_allclose(values, expected, rtol=1e-10, atol=1e-10)
    np.testing.assert_array_equal(kernel.predictor(documents, coef, device).values(new), values)
    np.testing.assert_array_equal(predictor.values(new.take([5]))[0], values[5])
    assert predictor.values(encode([], documents.alphabet)).shape == (0, 3)


@pytest.mark.parametrize(
    "kernel",
    [
        Spectrum(1),
        Spectrum((2, 4), normalised=False),
        Spectrum((1, 5), "log", idf=True),
        Spectrum((3, 6), "presence", idf=True, odds=True),
        Spectrum((1, 4), "intersection"),
        Spectrum((1, 4), "intersection", idf=True),
        Sum([Spectrum((1, 4), "log", idf=True), Spectrum((1, 2), tokens="words")]),
    ],
    ids=str,
)
def test_a_model_without_texts_decides_on_the_gpu(kernel, device, tmp_path):
    texts = ["a banana", "the bandana", "banana bread", "on monday", "a sunday", "monday, tuesday"]
    model = SVC(kernel, C=5, device="cpu").fit(texts, ["a", "b", "a", "b", "c", "c"])
    save(model, tmp_path / "m", texts=False)
    again = load(tmp_path / "m")
    again.device = "cuda"
    new = [*texts, "", "x", "日本 banana", "Ünseen sýmbols!", "bbbbbbbananananana"]
    np.testing.assert_allclose(again.decision_function(new), model.decision_function(new), atol=2e-6)
    assert again.device_.kind == "cuda"


def test_lengths_that_no_document_has_change_nothing(device):
    documents = encode(["banana", "bandana", "", "the cat", "nab"])
    kernels = [Spectrum((2, p), "log", idf=True) for p in (3, 7, 8, 1_000_000_000)]
    matrices = cuda_grams(kernels, documents, device)
    for i, gram in matrices:
        cpu, cuda = twins(kernels[i], documents, device)
        np.testing.assert_allclose(to_numpy(cuda.gram()), cpu.gram(), rtol=2e-6, atol=3e-8)
        np.testing.assert_allclose(to_numpy(gram), cpu.gram(), rtol=2e-6, atol=3e-8)


def test_more_features_than_are_numbered_are_refused(device, monkeypatch):
    monkeypatch.setattr(sparse_cuda, "MAX_INT32", 50)
    with pytest.raises(InputError, match="at most 50"):
        Spectrum((1, 4)).rows(encode(news(20)), device)


def test_too_little_memory_is_said_before_it_is_asked_for(device, monkeypatch):
    documents = encode(news(200))
    rows = Spectrum(3).rows(documents, device)
    monkeypatch.setattr(devices, "free_memory", lambda: 1 << 10)
    monkeypatch.setattr(devices, "SMALL", 0)
    with pytest.raises(InputError, match="memory"):
        rows.gram()
    with pytest.raises(InputError, match="memory"):
        Spectrum(3).rows(documents, device)


def test_real_corpus(data, device):
    from textsvm.readers.read import read_corpus

    path = data / "r8" / "r8-test-all-terms.txt.xz"
    if not path.exists():
        pytest.skip(f"no {path}")
    corpus = read_corpus(path)
    documents = encode(corpus.texts[:2000])
    for kernel in (Spectrum(4), Spectrum((1, 5)), Spectrum((2, 6), "intersection")):
        cpu, cuda = twins(kernel, documents, device)
        np.testing.assert_allclose(to_numpy(cuda.gram()), cpu.gram(), rtol=2e-7)
