"""Rows held in main memory for a card: on any device the same rows."""

import time
import weakref

import numpy as np
import pytest
from test_gram import MATRIX, GramContract, N
from test_store import Table, small, wanted  # noqa: F401 (a fixture)

from textsvm.gram.base import needed_bytes
from textsvm.gram.build import stored_rows
from textsvm.gram.measure import measured_rate
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
    rows = Table().rows(wanted().examples, select("cpu"))
    assert measured_rate(rows) > 1e4


def test_slow_rows_are_measured_on_fewer():
    rows, asked = Table().rows(wanted().examples, select("cpu")), []
    plain = rows.rows

    def slow(indices):
        asked.append(len(indices))
        time.sleep(0.01 * len(indices))
        return plain(indices)

    rows.rows = slow
    assert 2000 < measured_rate(rows) < 6100
    assert asked == [1, 8]


def test_the_memory_of_released_rows_is_freed():
    gram = held(wanted())
    matrix = weakref.ref(gram._kernel_rows.panels.matrix)
    assert matrix() is not None
    gram.release()
    memory.free()
    assert matrix() is None
