"""Random learning problems with their Grams on a card: what a solver says is true (`-m gpu`)."""

import numpy as np
import pytest
from problems import solve_dual

from benchmarks import numerics
from benchmarks.random_problems import PROBLEMS
from textsvm.gram.base import DenseGram
from textsvm.gram.cards import Shard, ShardedGram
from textsvm.runtime import device as devices
from textsvm.runtime.device import Device
from textsvm.solvers.dual import svc

pytestmark = pytest.mark.gpu


def on_card(matrix):
    return DenseGram(devices.cupy().asarray(matrix))


def in_shards(matrix):
    """Two halves of the columns, both on the first card."""
    n, card = len(matrix), Device("cuda", 0, "cuda:0")
    halves = [(0, n // 2), (n // 2, n)] if n > 1 else [(0, n)]
    with devices.use(card):
        parts = [devices.cupy().asarray(np.ascontiguousarray(matrix[:, a:b])) for a, b in halves]
    shards = [Shard(card, a, b, part) for (a, b), part in zip(halves, parts, strict=True)]
    return ShardedGram(Device("cuda", 0, "cuda:0", cards=(0,) * len(shards)), shards)


@pytest.mark.parametrize("start", range(0, 200, 50))
def test_two_hundred_problems(start):
    trials = [numerics.trial(seed, on_card) for seed in range(start, start + 50)]
    assert [one for one in trials if one.wrong] == []
    assert sum(one.excess is not None for one in trials) > 15
    assert len({one.kind for one in trials}) == len(PROBLEMS)
    assert {one.converged for one in trials} == {True, False}


def test_fifty_problems_in_shards():
    trials = [numerics.trial(seed, in_shards) for seed in range(50)]
    assert [one for one in trials if one.wrong] == []


@pytest.mark.parametrize("seed", [165, 254, 920, 18404])
def test_seeds_that_were_wrong_on_the_cpu(seed):
    one = numerics.trial(seed, on_card)
    assert not one.wrong
    assert not (one.converged and one.beyond)


def test_iterations_are_those_of_all_starts():
    """At C = 1e6 rounding counts, so the problem is judged anew; the bound holds for all of it."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(300, 4))
    matrix = np.exp(-0.1 * ((points[:, None] - points) ** 2).sum(2)).astype(np.float32)
    dual = svc(np.where(rng.random(300) < 0.5, 1, -1), 1e6)
    for bound in (0, 1, 5000):
        solution = solve_dual(on_card(matrix), dual, 1e-6, bound)
        assert solution.iterations == bound
        assert solution.status == f"stopped at {bound:,} iterations"
        assert numerics.judge(matrix, dual, solution, 1e-6, 1.0)[0] == ""


def test_all_variables_end_at_their_bounds():
    dual = svc(np.resize([1, -1], 2000), 0.5)
    solution = solve_dual(on_card(np.eye(2000, dtype=np.float32)), dual)
    assert solution.status == "converged"
    np.testing.assert_array_equal(np.abs(solution.coef), 0.5)
