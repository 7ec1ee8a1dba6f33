"""What holds for all kernels and their counts."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from textsvm.kernels.shared.counting import pmer_texts, rank


@settings(max_examples=80)
@given(st.integers(0, 2**32 - 1), st.integers(1, 3000), st.integers(1, 64))
def test_ranks_of_keys_are_numpys_whatever_the_bound(seed, n, bits):
    """Keys and positions fit into one word only where the bound is small enough."""
    rng = np.random.default_rng(seed)
    keys = rng.choice(rng.integers(0, 2**64, min(n, 50 + n // 2), np.uint64) >> np.uint64(64 - bits), n)
    expected, places = np.unique(keys, return_inverse=True)
    distinct, ranks = rank(keys.copy(), 1 << bits)
    assert np.array_equal(distinct, expected)
    assert np.array_equal(ranks, places)


@given(st.lists(st.text(st.sampled_from("a\0é\U0010ffff b"), min_size=3, max_size=3), min_size=1, max_size=9))
def test_names_of_pmers_are_their_characters_also_zeros(names):
    alphabet = np.array(sorted({ord(c) for name in names for c in name}), np.uint32)
    codes = np.searchsorted(alphabet, [[ord(c) for c in name] for name in names]).astype(np.int32)
    assert pmer_texts(codes, alphabet).tolist() == names
