"""The CUDA twin of the edit-distance kernel, against the oracle and the CPU twin."""

import numpy as np
import pytest
from contracts import KernelContract, random_texts
from oracles import edit
from test_edit import BORDERS, WIDE

from textsvm.kernels.edit.cuda import LONG, MIDDLE, SHORT
from textsvm.kernels.edit.kernel import EditDistance
from textsvm.runtime.device import select
from textsvm.text.documents import encode

pytestmark = pytest.mark.gpu


class TestEditGpuContract(KernelContract):
    cases = [  # noqa: RUF012
        (EditDistance(0.05), lambda s, t: edit(s, t, 0.05)),
        (EditDistance(0.005), lambda s, t: edit(s, t, 0.005)),
        (EditDistance(2.0, relative=True), lambda s, t: edit(s, t, 2.0, relative=True)),
    ]


def both(texts, others, device, kernel=None):
    """Rows of the CPU twin and of the CUDA twin, and the documents."""
    documents = encode(texts)
    kernel = kernel or EditDistance(0.05)
    return (
        kernel.rows(documents, select("cpu")),
        kernel.rows(documents, device),
        encode(others, documents.alphabet),
    )


def agree(texts, others, device):
    cpu, cuda, others = both(texts, others, device)
    np.testing.assert_array_equal(cuda.distances_gram().get(), cpu.distances_gram())
    np.testing.assert_array_equal(cuda.distances(others).get(), cpu.distances(others))


@pytest.mark.parametrize("alphabet", ["a", "ab", "abcdefghijklmnopqrstuvwxyz ", WIDE])
def test_lengths_around_word_and_strip_borders(alphabet, device):
    texts = random_texts(BORDERS * 2, alphabet)
    near = [t[: len(t) // 2] + "#" + t[len(t) // 2 + 1 :] for t in texts]
    agree(texts, near, device)


@pytest.mark.parametrize("alphabet", ["ab", "abcdefghij", WIDE])
def test_every_variant_at_its_longest_and_one_more(alphabet, device):
    limits = [8 * v.words - 1 for v in SHORT] + [32 * v.words for v in MIDDLE]
    limits += [32 * v.words * strips for v in LONG for strips in (2, 3)]
    texts = random_texts([length + more for length in limits for more in (-1, 0, 1, 2)], alphabet, seed=3)
    agree(texts, [t[1:] + "x" for t in texts[::-1]], device)


def test_mixed_lengths_more_than_a_block(device):
    rng = np.random.default_rng(5)
    lengths = np.minimum(rng.geometric(1 / 150, 700), 3000)
    texts = random_texts(lengths, "abcdefghijklmnopqrstuvwxyz ")
    agree(texts, texts[:90], device)
    picks = rng.integers(0, len(texts), 130)
    cpu, cuda, _ = both(texts, [], device)
    np.testing.assert_array_equal(cuda.rows(picks).get(), cpu.rows(picks))


def test_a_gamma_beyond_float32(device):
    texts = ["banana", "banana", "bandana", ""]
    for relative in (False, True):
        kernel = EditDistance(1e300, relative=relative)
        rows = kernel.rows(encode(texts), device)
        np.testing.assert_array_equal(rows.gram().get(), kernel.rows(encode(texts), select("cpu")).gram())


@pytest.mark.parametrize("relative", [False, True])
def test_values_are_those_of_the_cpu(relative, device):
    texts = random_texts(np.random.default_rng(6).integers(0, 300, 200), "abcdef ")
    cpu, cuda, _ = both(texts, [], device, EditDistance(0.3, relative))
    np.testing.assert_allclose(cuda.gram().get(), cpu.gram(), rtol=1e-6 if relative else 0)


def test_a_hundred_thousand_symbols(device):
    texts = random_texts([100_000, 99_000, 70_001, 0, 3], "abcdefghijklmnopqrstuvwxyz ")
    agree(texts, [texts[0][:50_000] + texts[0][50_010:], "", "abc"], device)


def test_an_alphabet_of_exactly_256_symbols_and_others_that_have_more(device):
    symbols = "".join(chr(0x100 + k) for k in range(256))
    texts = random_texts([300] * 8, symbols)
    assert len(encode(texts).alphabet) == 256
    agree(texts, random_texts([200, 400, 5], symbols + "xyz"), device)
    cpu, cuda, others = both(texts, random_texts([200, 400, 5], symbols + "xyz"), device)
    coef = np.ones((8, 1))
    np.testing.assert_allclose(cuda.decision(others, coef), cpu.decision(others, coef), rtol=1e-6)


@pytest.mark.parametrize("classes", [1, 3])
@pytest.mark.parametrize("relative", [False, True])
def test_decision_is_the_weighted_sum(classes, relative, device):
    rng = np.random.default_rng(7)
    texts = random_texts(np.minimum(rng.geometric(1 / 120, 400), 2000), "abcdefgh ")
    new = random_texts(rng.integers(0, 700, 333), "abcdefghÄÖÜ ")
    cpu, cuda, others = both(texts, new, device, EditDistance(0.02, relative))
    coef = rng.standard_normal((len(texts), classes))
    decision = cuda.decision(others, coef)
    assert decision.dtype == np.float64
    expected = cpu.cross(others).astype(np.float64) @ coef
    np.testing.assert_allclose(decision, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(decision, cuda.decision(others, coef))


def test_no_documents(device):
    cpu, cuda, others = both([], ["a"], device)
    assert cuda.gram().shape == (0, 0)
    assert cuda.cross(others).shape == (1, 0)
    assert cuda.decision(others, np.zeros((0, 2))).tolist() == cpu.decision(others, np.zeros((0, 2))).tolist()
