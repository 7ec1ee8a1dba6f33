"""One float32 copy of a dense Gram, and a budget that is kept."""

import gc
import tracemalloc
from unittest.mock import patch

import numpy as np
import pytest

from textsvm import SVC, Compute, EditDistance, GappedKmers, GapWeighted, Spectrum
from textsvm.gram.base import CachedGram
from textsvm.runtime import compiled

pytestmark = pytest.mark.slow

N = 2000


@pytest.fixture(scope="module")
def task():
    rng = np.random.default_rng(0)
    words = np.array(["banana", "monday", "papaya", "sunday", "mango", "friday"])
    return [" ".join(rng.choice(words, 4)) for _ in range(N)], rng.integers(0, 2, N)


@patch.object(compiled, "NUMPY_SIZE", 0)  # arrays of NumPy take the place of functions to compile
def peak_of_fit(task, kernel, memory=None):
    compute = Compute(memory, solver="gram")
    SVC(kernel, max_iter=100, compute=compute, n_jobs=2).fit(
        *task
    )  # compiles or loads what the next one calls
    tracemalloc.start()
    try:
        model = SVC(kernel, max_iter=100, compute=compute, n_jobs=2).fit(*task)
        return tracemalloc.get_traced_memory()[1], model
    finally:
        tracemalloc.stop()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "kernel", [Spectrum(p=3), EditDistance(), GapWeighted(p=2), GappedKmers(3, 1)], ids=str
)
def test_the_dense_matrix_exists_once_and_a_memory_budget_is_kept(task, kernel):
    peak, model = peak_of_fit(task, kernel)
    assert "whole kernel matrix" in model.gram_description_
    assert peak < 1.5 * 4 * N * N
    budget = 2 << 20
    peak, model = peak_of_fit(task, kernel, memory=budget)
    assert "on demand" in model.gram_description_
    # Beside the rows: the texts, their codes and the solver's vectors, all linear in n.
    assert peak < budget + 3000 * N


def test_rows_are_given_back_when_a_machine_is_trained():
    """A Gram and its window are a cycle, which may be found much later, and a card has no memory to wait."""
    gc.collect()
    gc.disable()
    try:
        random = np.random.default_rng(0)
        texts = ["".join(random.choice(list("abc "), 30)) for _ in range(300)]
        machine = SVC(EditDistance(), compute=Compute(memory=100_000), device="cpu").fit(
            texts, np.arange(300) % 2
        )
        assert "rows on demand" in machine.gram_description_
        left = [one for one in gc.get_objects() if issubclass(type(one), CachedGram)]
        assert all(one.window().values is None for one in left)
    finally:
        gc.enable()
