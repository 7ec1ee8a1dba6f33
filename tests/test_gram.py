"""Where rows come from: every provider gives the same rows, the budget is honoured, the plan is said."""

import tracemalloc

import numpy as np
import pytest
from problems import ArrayRows, gaussian, solve_dual
from refusals import refuses

from textsvm.errors import InputError
from textsvm.gram.base import CachedGram, DenseGram, needed_bytes
from textsvm.gram.build import gram_of_rows
from textsvm.kernels import GappedKmers, GapWeighted, Spectrum, Sum
from textsvm.kernels.contract import AHEAD
from textsvm.runtime.device import select
from textsvm.runtime.memory import parse_bytes
from textsvm.solvers.dual import svc
from textsvm.text.documents import encode

N = 60
MATRIX = gaussian(N)[0]


class GramContract:
    """What every provider satisfies."""

    def gram(self):
        raise NotImplementedError

    def test_rows_and_diagonal(self):
        gram = self.gram()
        assert gram.n == N
        np.testing.assert_array_equal(gram.diag(), MATRIX.diagonal())
        some = np.array([3, 59, 3, 0, 17, 20, 21, 22, 23, 24, 25, 26, 27])
        for _ in range(2):
            rows = gram.rows(some)
            assert rows.dtype == np.float32
            np.testing.assert_array_equal(rows, MATRIX[some])
            rows[:] = 0

    def test_loaded_rows_are_resident(self):
        window = self.gram().window()
        for pair in ([5, 9], [9, 11], [11, 5], [40, 41], [5, 5]):
            window.refill(np.array(pair))
            slots = window.slots[pair]
            assert (slots >= 0).all()
            np.testing.assert_array_equal(window.values[slots], MATRIX[pair])

    def test_whatever_is_said_to_be_resident_is(self):
        window = self.gram().window()
        rng = np.random.default_rng(0)
        for _ in range(50):
            window.refill(rng.integers(0, N, 2))
            resident = np.flatnonzero(window.slots >= 0)
            np.testing.assert_array_equal(window.values[window.slots[resident]], MATRIX[resident])
            assert not window.complete or len(resident) == N

    def test_windows_of_several_threads(self):
        gram = self.gram()
        one, other = gram.window(), gram.window()
        if gram.concurrent:
            one.used[:] = 7
            assert not other.used.any()
        else:
            assert one is other

    def test_where_the_rows_live(self):
        assert self.gram().device.kind == "cpu"


class TestDense(GramContract):
    def gram(self):
        return DenseGram(MATRIX)


class TestCachedTwoRows(GramContract):
    capacity = 2

    def gram(self):
        return CachedGram(ArrayRows(MATRIX), needed_bytes(N, self.capacity))


class TestCachedSome(TestCachedTwoRows):
    capacity = 11


class TestCachedAll(TestCachedTwoRows):
    capacity = N


def test_a_dense_gram_is_not_copied():
    assert DenseGram(MATRIX).matrix is MATRIX


def test_what_does_not_fit():
    refuses(r"1,\d+ bytes for two rows.* 500 are allowed", CachedGram, ArrayRows(MATRIX), 500)
    with pytest.raises(ValueError, match="do not fit"):
        CachedGram(ArrayRows(MATRIX), needed_bytes(N, 2)).window().refill(np.arange(3))


def test_the_row_used_longest_ago_goes_first():
    gram = CachedGram(ArrayRows(MATRIX), needed_bytes(N, 4))
    window = gram.window()
    for row in (0, 1, 2, 3, 0, 1):
        window.refill(np.array([row]))
    window.used[window.slots[2]] = window.used.max() + 5  # the solver has read row 2
    window.refill(np.array([10]))
    assert sorted(np.flatnonzero(window.slots >= 0)) == [0, 1, 2, 10]
    assert gram.computed == 5


def test_a_row_that_cannot_be_computed_leaves_the_cache_right():
    class Failing(ArrayRows):
        def rows(self, indices):
            if 7 in indices:
                raise KeyboardInterrupt
            return super().rows(indices)

    gram = CachedGram(Failing(MATRIX), needed_bytes(N, 2))
    gram.window().refill(np.array([1, 2]))
    with pytest.raises(KeyboardInterrupt):
        gram.window().refill(np.array([2, 7]))
    resident = np.flatnonzero(gram.window().slots >= 0)
    np.testing.assert_array_equal(gram.window().values[gram.window().slots[resident]], MATRIX[resident])


@pytest.mark.parametrize("memory", [100_000, 1_000_000])
def test_the_budget_is_honoured(memory):
    n = 2000

    class Rows(ArrayRows):
        def __init__(self):
            self.n, self.device = n, select("cpu")

        def diag(self):
            return np.ones(n, np.float32)

        def rows(self, indices):
            return np.full((len(indices), n), 0.5, np.float32)

    rows = Rows()
    tracemalloc.start()
    gram = CachedGram(rows, memory)
    for start in range(0, n, 40):
        gram.window().refill(np.arange(start, start + min(40, gram.capacity)))
        gram.rows(np.array([start]))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert memory / 2 < peak <= memory


@pytest.mark.parametrize(("memory", "where"), [(None, "whole"), ("1MiB", "whole"), ("6k", "rows on demand")])
def test_the_gram_of_rows_says_how_they_are_made(memory, where):
    rows = ArrayRows(MATRIX)
    gram = gram_of_rows(rows, memory)
    assert where in gram.description
    assert isinstance(gram, CachedGram if "demand" in where else DenseGram)
    np.testing.assert_array_equal(gram.rows(np.array([4])), MATRIX[[4]])
    rows.description = "digits: one product"
    assert gram_of_rows(rows, memory).description == f"{gram.description}; digits: one product"


@pytest.mark.parametrize(
    ("text", "count"),
    [("8GiB", 8 << 30), ("1.5 mb", 3 << 19), (12345, 12345), ("2T", 2 << 40), ("7 B", 7), (None, None)]
    + [(text, InputError) for text in ("", "much", "-1", 0, "0GB", "1.5.2G", True, 2.5e-9)],
)
def test_bytes_as_they_are_written(text, count):
    if count is not InputError:
        assert parse_bytes(text) == count
        return
    refuses("memory must be a positive number", parse_bytes, text)


@pytest.mark.slow
def test_of_a_costly_kernel_no_row_is_computed_before_it_is_needed(monkeypatch):
    rng = np.random.default_rng(0)
    documents = encode(["".join(rng.choice(list("abc"), 20)) for _ in range(40)])
    kernel_rows = GapWeighted(3).fit(documents).rows(documents, select("cpu"))
    compute, asked = kernel_rows.rows, []
    monkeypatch.setattr(kernel_rows, "rows", lambda indices: asked.append(len(indices)) or compute(indices))
    gram = CachedGram(kernel_rows, needed_bytes(40, 32))
    assert solve_dual(gram, svc(np.where(rng.random(40) < 0.5, 1.0, -1.0), 10.0)).converged
    assert len(asked) > 20
    assert max(asked) <= 2


def test_rows_of_a_sum_are_asked_for_as_its_costliest_part_likes():
    documents = encode(["what is that? " * 50, "that is what it is. " * 50])

    def ahead(*kernels):
        return Sum(kernels).fit(documents).rows(documents, select("cpu")).ahead

    assert ahead(Spectrum(2), GapWeighted(3)) == ahead(GapWeighted(3), Spectrum(2)) == 1
    assert ahead(Spectrum(2), Spectrum(3)) == ahead(GappedKmers(4, 1), GappedKmers(3, 1)) == AHEAD > 1
