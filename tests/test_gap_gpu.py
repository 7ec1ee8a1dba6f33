"""The CUDA twin of the gap-weighted kernel, against the oracle and the CPU twin."""

import numpy as np
import pytest
from contracts import random_texts
from hypothesis import given, settings
from hypothesis import strategies as st
from test_gap import GapContract, case, reference_gram

from textsvm.errors import InputError
from textsvm.kernels.gap import cuda as gap_cuda
from textsvm.kernels.gap.cuda import variant_of
from textsvm.kernels.gap.kernel import GapWeighted
from textsvm.runtime.device import select
from textsvm.text.documents import encode

pytestmark = pytest.mark.gpu


class TestGapGpuContract(GapContract):
    pass


def agree(texts, kernel, device, others=None, rtol=1e-5):
    """Both twins: the matrix, rows, other documents, and decision values."""
    documents = encode(texts)
    cpu, cuda = kernel.rows(documents, select("cpu")), kernel.rows(documents, device)
    gram = cuda.gram().get()
    np.testing.assert_array_equal(gram, gram.T)
    np.testing.assert_allclose(gram, cpu.gram(), rtol=rtol, atol=1e-9)
    some = np.arange(len(texts))[::-3]
    np.testing.assert_allclose(cuda.rows(some).get(), gram[some], rtol=rtol, atol=1e-9)
    others = encode(others or texts[::-1], documents.alphabet)
    cross = cpu.cross(others)
    np.testing.assert_allclose(cuda.cross(others).get(), cross, rtol=rtol, atol=1e-9)
    coef = np.random.default_rng(0).normal(size=(len(texts), 3))
    np.testing.assert_allclose(
        cuda.decision(others, coef), cross.astype(np.float64) @ coef, rtol=1e-4, atol=1e-5 * len(texts) ** 0.5
    )


@pytest.mark.parametrize("weights", [None, (0.0, 1.0, 1.0, 1.0, 1.0)])
@pytest.mark.parametrize("decay", [0.2, 0.5, 0.9, 1.0])
def test_sums_of_two_floats_are_those_of_float64(decay, weights, device, monkeypatch):
    texts = random_texts([2_000, 5, 40, 200, 9, 10, 11, 299, 64, 65] * 3, "abcdef", 5)
    documents, kernel = encode(texts), GapWeighted(5, decay, weights=weights)
    coef = np.random.default_rng(0).normal(size=(len(texts), 2))

    def values():
        rows = kernel.rows(documents, device)
        return [rows.gram().get(), rows.rows(np.arange(7)).get(), rows.decision(documents, coef)]

    exact, loaded, load = values(), [], gap_cuda.gpu.load
    monkeypatch.setattr("textsvm.runtime.device.fast_float64", lambda: False)
    monkeypatch.setattr(gap_cuda.gpu, "load", lambda *args: loaded.append(args) or load(*args))
    two_floats = values()
    assert any(("TWO_FLOATS", 1) in defines for _, defines in loaded) or decay != 0.5
    for mine, theirs in zip(two_floats, exact, strict=True):
        assert mine.dtype == theirs.dtype
        np.testing.assert_allclose(mine, theirs, rtol=2.5e-7, atol=1e-6 if mine is two_floats[2] else 1e-30)


@pytest.mark.parametrize(("p", "decay"), [(5, 0.5), (10, 0.01), (10, 0.9), (5, 1.0), (10, 1)])
def test_one_repeated_character(p, decay, device):
    texts = ["a" * n for n in (10, 11, 64, 100, 1000, 3001, 20_000)]
    values = GapWeighted(p, decay).rows(encode(texts), device).gram().get()
    np.testing.assert_allclose(values, 1, rtol=1e-5)


@pytest.mark.parametrize(("p", "decay", "longest"), [(5, 0.5, 20_000), (3, 0.99, 6_000), (2, 1.0, 6_000)])
def test_long_documents(p, decay, longest, device):
    texts = random_texts([longest, 2_000, 700, 100], "etaoin shrdlu", p)
    texts[1] = texts[0][1_000:3_000] + texts[1]
    documents = encode(texts)
    values = GapWeighted(p, decay).rows(documents, device).gram().get()
    np.testing.assert_allclose(values, reference_gram(documents, p, decay), rtol=1e-5)


@pytest.mark.parametrize("weights", [None, (1.0, 0.0, 0.5, 2.0)])
@pytest.mark.parametrize(
    "symbols", ["ab", "abcdefghijklmnopqrstuvwxyz ", [chr(0x4E00 + i) for i in range(500)]]
)
def test_mixed_lengths_in_many_packs(symbols, weights, device):
    rng = np.random.default_rng(5)
    lengths = np.concatenate(
        [np.minimum(rng.geometric(1 / 150, 300), 3000), [0, 0, 1, 2, 3, 24, 25, 26, 800, 801]]
    )
    agree(random_texts(lengths, symbols, 3), GapWeighted(4, 0.6, weights), device)


@pytest.mark.parametrize("columns", [25, 50])
@pytest.mark.parametrize("decay", [0.01, 0.3, 0.5, 1.0])
def test_lengths_at_the_edges_of_lanes_and_strips(decay, columns, device, monkeypatch):
    monkeypatch.setattr(gap_cuda, "columns_of", lambda variant, _: 20 if variant.double else columns)
    lengths = [k * columns + more for k in (1, 4, 31, 32, 33, 64, 65) for more in (-1, 0, 1)]
    agree(random_texts(lengths, "abcdefgh", 1), GapWeighted(5, decay), device)


def test_documents_alike_and_symbols_never_seen(device):
    texts = ["banana " * 20] * 40 + ["", "x", "banana", "bandana"] * 3
    agree(
        texts,
        GapWeighted(3, 0.5),
        device,
        ["Ωmega banana", "", "x", "日本語" * 30, "banana " * 20, "bandana"],
    )
    agree(texts, GapWeighted(3, 0.5, normalised=False), device)


@settings(max_examples=25)
@given(
    texts=st.lists(
        st.text(alphabet="ab", max_size=60) | st.text(alphabet="aXé🙂語", max_size=90),
        min_size=1,
        max_size=40,
    ),
    decay=st.sampled_from([0.01, 0.5, 0.9, 1.0]),
    p=st.sampled_from([1, 2, 4]),
)
def test_any_texts(texts, decay, p):
    kernel, oracle = case(p, decay)
    values = kernel.rows(encode(texts), select("cuda")).gram().get()
    expected = [[oracle(s, t) for t in texts[:3]] for s in texts]
    np.testing.assert_allclose(values[:, :3], expected, rtol=1e-5, atol=1e-9)


def test_two_runs_give_the_same_bits(device):
    rng = np.random.default_rng(6)
    texts = random_texts(rng.integers(0, 2000, 200), "etaoin shrdlu", 4)
    documents = encode(texts)
    coef = rng.normal(size=(200, 2))
    first, second = (GapWeighted().rows(documents, device) for _ in range(2))
    np.testing.assert_array_equal(first.gram().get(), second.gram().get())
    np.testing.assert_array_equal(first.decision(documents, coef), second.decision(documents, coef))


def test_a_decay_too_small_for_a_gpu(device):
    with pytest.raises(InputError, match="passes the range of float64 on a GPU"):
        GapWeighted(40, 1e-12).rows(encode(["a" * 50, "b"]), device)


def test_batches_of_documents_to_predict(device, monkeypatch):
    rng = np.random.default_rng(7)
    documents = encode(random_texts(rng.integers(0, 300, 100), "etaoin shrdlu", 5))
    rows = GapWeighted(3, 0.5).rows(documents, device)
    coef = rng.normal(size=(100, 2))
    whole = rows.decision(documents, coef)
    monkeypatch.setattr(gap_cuda, "BATCH", 1000)
    np.testing.assert_allclose(rows.decision(documents, coef), whole, rtol=1e-5, atol=1e-6)


def test_short_documents_take_lanes_of_fewer_columns(device):
    of_lengths = {
        length: variant_of(4, False, False, True, 0, length).columns for length in (20, 40, 60, 100, 1000)
    }
    assert of_lengths == {20: 25, 40: 50, 60: 25, 100: 50, 1000: 50}
    texts = random_texts(np.arange(21), "abcd", 8)
    for p in (1, 2, 3, 5, 7):
        agree(texts, GapWeighted(p, 0.5), device)


def test_weights_have_the_layout_of_the_cu():
    for double in (False, True):
        weights = variant_of(4, double, False, True).weights
        assert weights.fields["out"][1] % 8 == 0
        assert weights.itemsize % 8 == 0
