"""Grams of a grid: what is shared equals what is computed alone, is computed once, and fits its budget."""

import tracemalloc
from itertools import pairwise
from unittest.mock import Mock

import numpy as np
import oracles
import pytest
from contracts import TEXTS, to_numpy
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refuses

from textsvm.gram.base import CachedGram, DenseGram
from textsvm.gram.build import grams
from textsvm.kernels import EditDistance, GapWeighted, Spectrum, UserKernel
from textsvm.kernels.edit import kernel as edit
from textsvm.kernels.gap import kernel as gap
from textsvm.kernels.shared import counting
from textsvm.runtime.device import select
from textsvm.text.documents import encode


def lengths(a, b):
    return np.outer([len(s) for s in a], [len(t) for t in b])


GRID = [
    GapWeighted(3, 0.5),
    Spectrum((1, 3)),
    EditDistance(0.1),
    GapWeighted(5, 0.5),
    GapWeighted(3, 0.5, (1, 0, 2)),
    GapWeighted(5, 0.5, (0, 0, 0, 1e-9, 0)),
    GapWeighted(4, 0.5, normalised=False),
    GapWeighted(2, 0.5, (1e-9, 1)),
    GapWeighted(2, 1.0),
    GapWeighted(1, 1.0),
    Spectrum((1, 5)),
    Spectrum((1, 3), normalised=False),
    Spectrum((1, 4), "log", True),
    Spectrum((1, 6), "log", True),
    Spectrum((2, 6), "intersection"),
    Spectrum((2, 3), "intersection"),
    Spectrum(3),
    EditDistance(0.5),
    EditDistance(2, relative=True),
    EditDistance(0.5, relative=True),
    UserKernel(lengths),
]


class SharedContract:
    """What holds on any device."""

    @pytest.mark.slow
    @pytest.mark.parametrize("name", TEXTS)
    def test_equal_to_each_alone(self, name, device):
        documents = encode(TEXTS[name] * 2 + ["kitten"])
        seen = []
        for number, gram in grams(GRID, documents, device):
            alone = DenseGram(GRID[number].fit(documents).rows(documents, device).gram())
            assert gram.n == len(documents)
            shared, expected = to_numpy(gram.matrix), to_numpy(alone.matrix)
            np.testing.assert_allclose(
                shared,
                expected,
                rtol=2e-6,
                atol=1e-6 * max(1, abs(expected).max()),
                err_msg=str(GRID[number]),
            )
            np.testing.assert_array_equal(shared, shared.T)
            assert "whole kernel matrix in memory" in gram.description
            seen.append(number)
        assert sorted(seen) == list(range(len(GRID)))

    @pytest.mark.parametrize("decay", [pytest.param(0.05, marks=pytest.mark.slow), 0.5, 1.0])
    def test_many_lengths_of_the_gap_weighted_kernel(self, decay, device):
        rng = np.random.default_rng(0)
        texts = [
            "".join(rng.choice(list("abc "), n)) for n in [*rng.integers(0, 40, 30), 63, 64, 65, 130, 200]
        ]
        documents = encode(texts)
        kernels = [GapWeighted(p, decay) for p in (1, 2, 3, 5)]
        for number, gram in grams(kernels, documents, device):
            alone = kernels[number].rows(documents, device).gram()
            np.testing.assert_allclose(to_numpy(gram.matrix), to_numpy(alone), rtol=1e-5, atol=1e-6)

    @pytest.mark.slow
    def test_a_budget_that_leaves_no_room(self, device):
        documents = encode(["banana", "bandana", "cat", "the cat sat", "kitten", "sitting"] * 5)
        matrix = 4 * len(documents) ** 2
        for memory, kind in ((matrix - 1, CachedGram), (matrix, DenseGram), (2 * matrix, DenseGram)):
            for number, gram in grams(GRID, documents, device, memory):
                assert isinstance(gram, kind)
                assert ("on demand" in gram.description) == (kind is CachedGram)
                alone = GRID[number].rows(documents, device)
                some = np.array([0, 7, 29])
                np.testing.assert_allclose(
                    to_numpy(gram.rows(some)), to_numpy(alone.rows(some)), rtol=1e-5, atol=1e-6
                )


class TestShared(SharedContract):
    pass


@pytest.mark.slow
@settings(max_examples=25)
@given(
    texts=st.lists(st.text("ab c", max_size=30), min_size=1, max_size=12),
    p=st.sets(st.sampled_from([1, 2, 3]), max_size=2),
    weights=st.lists(st.just(0) | st.floats(1e-30, 3), min_size=3, max_size=3).filter(any),
)
def test_any_grid_of_the_gap_weighted_kernel(texts, p, weights):
    kernels = [GapWeighted(q, 0.5) for q in (5, *p)] + [GapWeighted(3, 0.5, weights)]
    for number, gram in grams(kernels, encode(texts), select("cpu")):
        kernel = kernels[number]

        def oracle(s, t, kernel=kernel):
            return oracles.gap(s, t, kernel.p, 0.5, kernel.weights)

        expected = [[oracles.normalised(oracle, s, t) for t in texts[:3]] for s in texts]
        np.testing.assert_allclose(gram.matrix[:, :3], expected, rtol=1e-5, atol=1e-6)


@pytest.fixture
def calls(monkeypatch):
    """How often each costly computation was begun."""
    counted = {"sweeps": 0, "distances": 0, "lengths": []}

    def count(module, name, note):
        original = getattr(module, name)

        def counting(*args, **kwargs):
            note(*args)
            return original(*args, **kwargs)

        monkeypatch.setattr(module, name, counting)

    count(gap, "products", lambda *args: counted.update(sweeps=counted["sweeps"] + 1))
    count(edit, "fill_distances", lambda *args: counted.update(distances=counted["distances"] + 1))
    count(counting, "count_ids", lambda offsets, q, *args: counted["lengths"].append(q))
    return counted


def gaps(*lengths, decays=(0.5,)):
    return [GapWeighted(p, decay) for p in lengths for decay in decays]


@pytest.mark.parametrize(
    ("kernels", "memory", "times"),
    [
        ([*gaps(3, 4, 5), GapWeighted(2, 0.5, (0, 1))], None, 1),
        ([*gaps(3, 4, 5), GapWeighted(2, 0.5, (1, 1))], None, 2),  # a blend has its own
        (gaps(3, 5, decays=(0.5, 0.8)), None, 2),
        (gaps(3, 4, 5), 2 * 4 * 8**2, 2),  # two matrices fit: p = 4 and 5, then 3 alone
        ([EditDistance(gamma) for gamma in (0.01, 0.1, 1)], None, 1),
        ([Spectrum((1, p)) for p in (5, 3, 8)], None, 1),
    ],
)
def test_what_is_shared_is_computed_once(calls, kernels, memory, times):
    def run(kernels, memory=None):
        documents = encode([f"the {word} sat on the mat, {word}" * 2 for word in TEXTS["words"]])
        calls.update(sweeps=0, distances=0, lengths=[])
        order = [number for number, _ in grams(kernels, documents, select("cpu"), memory)]
        return order, dict(calls)

    largest = GapWeighted(5, 0.5) if isinstance(kernels[0], GapWeighted) else kernels[-1]
    _, alone = run([largest])
    order, shared = run(kernels, memory)
    assert memory is None or order == [1, 2, 0]
    assert (shared["sweeps"], shared["distances"]) == (times * alone["sweeps"], times * alone["distances"])
    assert shared["lengths"] == alone["lengths"]
    assert any(alone.values())


def test_a_gram_is_released_before_the_next(device):
    n = 1000
    documents = encode([f"text {i} of {n}" for i in range(n)])
    for kernels, matrices in (
        ([EditDistance(gamma) for gamma in (0.1, 0.2, 0.3, 0.4)], 2),
        ([Spectrum((2, p)) for p in (2, 3, 4, 5)], 2),
        ([UserKernel(lengths)] * 4, 1),
    ):
        for _ in grams(kernels[:2], documents, device):  # compiled before memory is counted
            pass
        tracemalloc.start()
        before = None
        for _, gram in grams(kernels, documents, device):
            assert before is None or before.matrix is None
            before = gram
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        # The rest is working memory of each.
        assert peak < (matrices + 1) * 4 * n * n + (16 << 20), kernels


def test_progress_runs_over_all_the_work_and_may_stop_it():
    documents = encode(TEXTS["words"] * 10)
    seen = []
    for _ in grams(GRID, documents, select("cpu"), progress=lambda done, total: seen.append((done, total))):
        pass
    assert len(seen) > len(GRID) / 2
    assert all(a <= b for (a, _), (b, _) in pairwise(seen))
    assert {total for _, total in seen} == {seen[-1][0]}

    with pytest.raises(KeyboardInterrupt):
        next(grams(GRID, documents, select("cpu"), progress=Mock(side_effect=KeyboardInterrupt)))


def test_kernels_are_fitted():
    kernels = [Spectrum((1, p), "log", idf=True) for p in (2, 3)]
    documents = encode(TEXTS["words"])
    for number, _ in grams(kernels, documents, select("cpu")):
        assert kernels[number].weights_.n == len(documents)


def test_wrong_parameters_are_told_at_once():
    documents = encode(["a"])
    refuses("p=0", grams, [Spectrum(2), GapWeighted(0)], documents, select("cpu"))
    refuses("memory must be", grams, [Spectrum(2)], documents, select("cpu"), "much")


def test_nothing_to_do():
    assert list(grams([], encode(["a"]), select("cpu"))) == []
    (_, gram), *_ = list(grams([Spectrum((1, 2)), Spectrum((1, 3))], encode([]), select("cpu")))
    assert gram.n == 0
