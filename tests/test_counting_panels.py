"""Without a GPU: how documents are divided into panels that a card counts one after another."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from textsvm.kernels.shared.counting_cuda import MAX_PANEL, PANEL_BYTES, PANEL_SHARE, plan_panels

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
