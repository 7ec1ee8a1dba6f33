"""Documents are counted in panels, one after another: on a CPU, and, planned without a GPU, on a card."""

import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from textsvm.kernels.shared import counting
from textsvm.kernels.shared.counting import Vocabulary, count, count_each
from textsvm.kernels.shared.counting_cuda import MAX_PANEL, PANEL_BYTES, PANEL_SHARE, plan_panels
from textsvm.kernels.spectrum.kernel import Spectrum
from textsvm.runtime import compiled
from textsvm.runtime import device as devices
from textsvm.text.documents import encode

GIB = 1 << 30
LENGTHS = st.lists(st.integers(0, 50), max_size=60).map(lambda lengths: np.array(lengths, np.int64))


@given(LENGTHS, st.integers(1, 8), st.integers(0, 200_000))
def test_panels_are_all_documents_in_order_and_fit(lengths, n_lengths, free):
    panels = plan_panels(lengths, n_lengths, free)
    assert panels[0][0] == 0
    assert panels[-1][1] == len(lengths)
    assert all(before[1] == after[0] for before, after in pairwise(panels))
    assert all(first < last for first, last in panels) or not len(lengths)
    room = max(int(PANEL_SHARE * free) // PANEL_BYTES // n_lengths, 1) + lengths.max(initial=0)
    assert all(lengths[first:last].sum() <= room for first, last in panels)


@pytest.mark.parametrize(
    ("n", "length", "free", "passes"),
    [
        (10, 100, 8 * GIB, 1),
        (100_000, 800, 8 * GIB, 9),
        (100_000, 800, 80 * GIB, 6),
        (200_000, 300, 8 * GIB, 7),
    ],
)
def test_number_of_passes(n, length, free, passes):
    assert len(plan_panels(np.full(n, length), 5, free)) == passes


def test_a_pass_is_never_larger_than_sorts_need():
    assert len(plan_panels(np.full(1000, MAX_PANEL // 500), 5, 1 << 50)) == 10


@given(
    st.lists(st.text("abcé", max_size=30), min_size=1, max_size=12),
    st.tuples(st.integers(1, 6), st.integers(0, 20)),
    st.integers(1, 90),
)
def test_counts_in_panels_have_the_bits_of_counts_of_all_documents(texts, lengths, panel):
    documents, (p1, more) = encode(texts), lengths
    results = []
    for symbols, long in ((1 << 22, 1 << 16), (panel, 0)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(counting, "PANEL", symbols)
            patch.setattr(counting, "LONG", long)
            vocabulary, counts = count(documents, p1, p1 + more)
            empty = Vocabulary.empty(documents, p1, p1 + more)
            by_length = list(count_each(documents, empty))
        assert empty.keys.keys() == vocabulary.keys.keys()
        assert all((empty.keys[q] == keys).all() for q, keys in vocabulary.keys.items())
        results.append([(0, len(counts.indptr), counts), *by_length])
        results[-1] += [(q, len(keys), keys) for q, keys in vocabulary.keys.items()]
    for (q, size, before), (same, as_many, after) in zip(*results, strict=True):
        assert (q, size) == (same, as_many)
        arrays = [(before, after)] if isinstance(before, np.ndarray) else []
        arrays = arrays or [(getattr(before, name), getattr(after, name)) for name in vars(before)]
        for old, new in arrays:
            assert old.dtype == new.dtype
            assert (old == new).all()


@pytest.mark.parametrize("each", [False, True])
def test_memory_grows_with_a_panel_and_not_with_the_documents(each, monkeypatch):
    part = "".join(map(chr, 97 + np.random.default_rng(0).integers(0, 12, 1 << 14)))
    documents = encode([part * 64] * 12)
    monkeypatch.setattr(counting, "PANEL", 1 << 20)
    count(documents.take([0]), 1, 5)  # compiles
    tracemalloc.start()
    try:
        vocabulary = Vocabulary.empty(documents, 1, 5)
        for result in count_each(documents, vocabulary) if each else [count(documents, 1, 5)]:
            assert result
        assert tracemalloc.get_traced_memory()[1] < 6 * len(documents.codes)
    finally:
        tracemalloc.stop()


def test_small_matrices_of_long_texts_have_no_unary_code(monkeypatch, set_values):
    documents = encode(["ab" * 500_000, "ba" * 500_000])
    columns = Spectrum((1, 2), "intersection").rows(documents, devices.select("cpu"))
    expected = columns.gram()
    set_values(compiled, NUMPY_SIZE=10_000, _by_numpy=0)
    monkeypatch.setattr(compiled.Compiled, "compilations", 1)  # as if functions were not in the cache
    tracemalloc.start()
    try:
        assert (columns.gram() == expected).all()
        assert tracemalloc.get_traced_memory()[1] < 40 * len(documents.codes)
    finally:
        tracemalloc.stop()
