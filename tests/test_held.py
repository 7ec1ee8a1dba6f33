"""Rows held in main memory for a card: the decision, and on any device the same rows."""

import numpy as np
import pytest
from test_gram import MATRIX, GramContract, N
from test_store import Table, small, wanted  # noqa: F401 (a fixture)

from textsvm.device import select
from textsvm.gram import held
from textsvm.gram.cached import needed_bytes
from textsvm.gram.held import BUS, LEAST, held_gram, held_if_better, holds, measured_rate


@pytest.mark.usefixtures("small")
class TestHeld(GramContract):
    """Rows made in memory, and cached."""

    def gram(self):
        return held_gram(wanted(), needed_bytes(N, 6), 1e6)


def test_half_of_the_values_are_computed(small):  # noqa: F811
    kernel = Table()
    gram = held_gram(wanted(kernel), needed_bytes(N, 6), 2.4e8)
    assert kernel.values < 0.6 * N * N
    for row in range(N):
        np.testing.assert_array_equal(gram.rows(np.array([row])), MATRIX[[row]])
    assert kernel.values < 0.6 * N * N
    assert "held in main memory (14.1 KiB)" in gram.description
    assert "computed at 0.24 G values/s and brought at 12 G" in gram.description


@pytest.mark.parametrize(
    ("n", "host", "rate", "held"),
    [
        (50_000, 1 << 34, 2.4e8, True),  # gap-weighted, 100 symbols
        (50_000, 1 << 34, 5.9e9, True),  # edit distance
        (50_000, 1 << 34, BUS / 2, False),
        (50_000, 1 << 34, 1e11, False),  # dense vectors
        (50_000, 1 << 33, 2.4e8, False),  # 10 GB have no room in 8 GiB
        (10_000, 1 << 34, 1.0, False),
        (int((LEAST / 4) ** 0.5), 1 << 34, 1.0, True),
    ],
)
def test_what_is_better_held(n, host, rate, held):
    assert holds(n, host, rate) is held


def test_rates_are_measured():
    rows = Table().rows(wanted().examples, select("cpu"))
    assert measured_rate(rows) > 1e4


def test_a_cpu_has_no_other_memory(monkeypatch):
    monkeypatch.setattr(held, "LEAST", 1)
    rows = Table().rows(wanted().examples, select("cpu"))
    assert held_if_better(rows, wanted(), needed_bytes(N, 6)) is None
