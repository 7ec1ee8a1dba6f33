"""Clusters of sparse vectors."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from problems import random_sparse
from scipy.sparse import csr_matrix

from benchmarks.clusters import SIZE, SLOTS, cluster

pytestmark = pytest.mark.slow


def clustered(x):
    return cluster(x.indptr, x.indices, x.shape[1])


def check(x):
    """Every vector is in one cluster of the right size, whose active features are those of its vectors."""
    found, n = clustered(x), x.shape[0]
    assert sorted(found.order) == list(range(n))
    assert len(found) == -(-n // SIZE)
    for c in range(len(found)):
        own = found.order[c * SIZE : (c + 1) * SIZE]
        features = found.features[found.starts[c] : found.starts[c + 1]]
        expected = np.unique(np.concatenate([x.indices[x.indptr[i] : x.indptr[i + 1]] for i in own]))
        np.testing.assert_array_equal(features, expected)
        for i in own:
            entries = slice(x.indptr[i], x.indptr[i + 1])
            assert np.all(found.places[entries] >= found.starts[c])
            assert np.all(found.places[entries] < found.starts[c + 1])
            np.testing.assert_array_equal(found.features[found.places[entries]], x.indices[entries])
    assert found.active <= x.nnz / max(len(found), 1)
    return found


@given(st.integers(0, 700), st.integers(1, 300), st.floats(0, 0.3), st.integers(0, 5))
def test_every_vector_is_in_one_cluster(n, d, density, seed):
    check(csr_matrix(random_sparse((n, d), density, seed)))


def test_more_clusters_than_are_open_at_a_time():
    x = csr_matrix(random_sparse((70 * SIZE + 3, 40), 0.1, 0))
    assert len(check(x)) == 71 > SLOTS


def test_vectors_of_one_kind_are_together():
    kinds = [np.arange(10 * kind, 10 * kind + 10) for kind in range(8)]
    rows = np.random.default_rng(0).permutation(np.repeat(np.arange(8), SIZE))
    indices = np.concatenate([kinds[kind] for kind in rows])
    x = csr_matrix((np.ones(len(indices)), indices, np.arange(0, len(indices) + 1, 10)))
    found = check(x)
    assert found.active == 10
    assert all(len(set(rows[found.order[c * SIZE : (c + 1) * SIZE]])) == 1 for c in range(8))


def algorithm_2(x, order):
    """The paper's, in sets: the members of each cluster."""
    n, rows = x.shape[0], [set(x.indices[a:b]) for a, b in pairwise(x.indptr)]
    count = -(-n // SIZE)
    most = [min(SIZE, n - c * SIZE) for c in range(count)]
    members, active = [[] for _ in range(count)], [set() for _ in range(count)]
    slot, opened = list(range(min(SLOTS, count))), min(SLOTS, count)
    for i in order:
        costs = [len(members[c]) * len(rows[i] - active[c]) + len(active[c] - rows[i]) for c in slot]
        at = int(np.argmin(costs))
        members[slot[at]].append(i)
        active[slot[at]] |= rows[i]
        if len(members[slot[at]]) == most[slot[at]]:
            slot[at : at + 1] = [opened] if opened < count else []
            opened += 1
    return members


@pytest.mark.parametrize("n", [300, 2000, 66 * SIZE + 5])
def test_they_are_those_of_the_paper(n):
    x = csr_matrix(random_sparse((n, 60), 0.08, 2))
    order, found = np.random.default_rng(0).permutation(n), clustered(x)
    for c, expected in enumerate(algorithm_2(x, order)):
        np.testing.assert_array_equal(found.order[c * SIZE : (c + 1) * SIZE], expected)


def test_the_same_every_time():
    x = csr_matrix(random_sparse((2000, 100), 0.05, 1))
    first, second = clustered(x), clustered(x)
    np.testing.assert_array_equal(first.order, second.order)
