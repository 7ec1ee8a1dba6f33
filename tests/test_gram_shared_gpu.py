"""Grams of a grid, and kernels written by the user, on a GPU."""

import numpy as np
import pytest
from contracts import to_numpy
from test_gram_shared import SharedContract
from test_user_kernel import UserKernelContract, lengths, rows_of

from textsvm.text.documents import encode

pytestmark = pytest.mark.gpu


class TestShared(SharedContract):
    pass


class TestUserKernel(UserKernelContract):
    pass


def test_rows_live_on_the_gpu(device):
    rows = rows_of(lengths, ["a", "ab"], device)
    for values in (rows.gram(), rows.diag(), rows.rows(np.array([1])), rows.cross(encode(["abc"]))):
        assert hasattr(values, "get")
    np.testing.assert_array_equal(to_numpy(rows.gram()), [[1, 2], [2, 4]])
