"""Rows held in main memory for a card: on any device the same rows."""

import time
import weakref
from math import inf

import numpy as np
import pytest
from problems import stored_rows
from test_gram import MATRIX, GramContract, N
from test_store import Table, small, wanted  # noqa: F401 (a fixture)

from textsvm.gram.base import needed_bytes
from textsvm.gram.build import measured_rate
from textsvm.gram.plan import BANDS, Case, Rates
from textsvm.gram.stored import HeldGram, held_rows
from textsvm.runtime import memory
from textsvm.runtime.device import select


def held(request, stored=None):
    memory = needed_bytes(N, 6)
    return HeldGram(held_rows(request, memory, stored), memory)


@pytest.mark.usefixtures("small")
class TestHeld(GramContract):
    """Rows made in memory, and cached."""

    def gram(self):
        return held(wanted())


def test_half_of_the_values_are_computed(small):  # noqa: F811
    kernel = Table()
    gram = held(wanted(kernel))
    assert kernel.values < 0.6 * N * N
    for row in range(N):
        np.testing.assert_array_equal(gram.rows(np.array([row])), MATRIX[[row]])
    assert kernel.values < 0.6 * N * N


def test_rows_of_a_store_are_read_and_not_computed(small, tmp_path):  # noqa: F811
    stored_rows(tmp_path, wanted())
    kernel = Table()
    rows = stored_rows(tmp_path, wanted(kernel))
    gram = held(wanted(kernel), rows)
    for path in tmp_path.glob("*/*.rows"):
        path.unlink()
    np.testing.assert_array_equal(gram.rows(np.arange(N)), MATRIX)
    np.testing.assert_array_equal(gram.diag(), MATRIX.diagonal())
    assert kernel.values == 0


def test_rates_are_measured():
    compute, call = measured_rate(Table().rows(wanted().examples, select("cpu")))
    assert compute > 1e4
    assert 0 <= call < 1


class SleepingRows:
    """Rows of which a call takes a known time, and a row in addition."""

    n, device, ahead = 16_000, select("cpu"), 8

    def __init__(self, call, row):
        self.call, self.row, self.asked = call, row, []

    def rows(self, indices):
        self.asked.append(len(indices))
        time.sleep(self.call + self.row * len(indices))


def test_slow_rows_are_measured_on_fewer():
    rows = SleepingRows(0.0, 0.01)
    compute, _ = measured_rate(rows)
    assert 400_000 < compute < 3_000_000
    assert rows.asked[:2] == [1, 8]
    assert 16 <= max(rows.asked) <= 25


def test_the_memory_of_released_rows_is_freed():
    gram = held(wanted())
    matrix = weakref.ref(gram._kernel_rows.panels.matrix)
    assert matrix() is not None
    gram.release()
    memory.free()
    assert matrix() is None


@pytest.mark.parametrize(("call", "row"), [(0.1, 1e-4), (0.0, 0.01), (0.02, 2e-3)])
def test_predictions_are_near_the_known_seconds(call, row):
    """Within a factor of 4, whether calls or values take most of the time; sleep takes a little longer."""
    rows = SleepingRows(call, row)
    compute, per_call = measured_rate(rows)
    rates, case = (
        Rates(compute, per_call, bus=inf, allocate=inf),
        Case(rows.n, 0, capacity=4000, request=rows.ahead),
    )
    recomputed = case.rows_read / rows.ahead * (call + row * rows.ahead)
    assert 1 / 4 < case.seconds("recompute", rates) / recomputed < 4
    kept = 32 * call + (0.5 + 0.5 / BANDS) * row * rows.n
    assert 1 / 4 < case.seconds("host", rates) / kept < 4
