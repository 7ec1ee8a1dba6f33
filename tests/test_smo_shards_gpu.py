"""Problems over a Gram in shards on several cards: the bits of one card with all of it (`-m gpu`).

Every test runs with shards on the same card; where there are two cards, also with one on each.
"""

from functools import lru_cache

import numpy as np
import pytest
from problems import chains, gaussian, indefinite, solve_dual, svr
from test_crammer_singer import classes

from textsvm.errors import InputError
from textsvm.gram.base import DenseGram
from textsvm.gram.cards import Shard, ShardedGram
from textsvm.runtime import device as devices
from textsvm.runtime.device import Device
from textsvm.solvers import cuda_queue, smo_cuda
from textsvm.solvers import dual as duals
from textsvm.solvers.dual import svc
from textsvm.solvers.solution import Stopping
from textsvm.solvers.solve import solve_chains

pytestmark = pytest.mark.gpu


@pytest.fixture(params=[(0, 0), (0, 1), (0, 0, 0)], ids=str)
def cards(request):
    if max(request.param) >= devices.cupy().cuda.runtime.getDeviceCount():
        pytest.skip("there is one card")
    return request.param


def dense(matrix):
    return DenseGram(devices.cupy().asarray(matrix))


def sharded(matrix, cards, bounds=None):
    """Columns of the matrix on these cards; `bounds`: where each but the first begins."""
    n, cp = len(matrix), devices.cupy()
    between = [n * k // len(cards) for k in range(1, len(cards))] if bounds is None else bounds
    bounds, shards = [0, *between, n], []
    for k, card in enumerate(cards):
        device, columns = Device("cuda", card, f"cuda:{card}"), slice(bounds[k], bounds[k + 1])
        with devices.use(device):
            part = cp.asarray(np.ascontiguousarray(matrix[:, columns]))
        shards.append(Shard(device, bounds[k], bounds[k + 1], part))
    return ShardedGram(Device("cuda", 0, "cuda:0", cards=tuple(cards)), shards)


def same_bits(one, other):
    np.testing.assert_array_equal(one.alpha, other.alpha)
    np.testing.assert_array_equal(one.responses, other.responses)
    assert (one.bias, one.iterations, one.status) == (other.bias, other.iterations, other.status)


def same_chains(many, others):
    for chain, solutions in zip(many, others, strict=True):
        for one, other in zip(chain, solutions, strict=True):
            same_bits(one, other)


@lru_cache(maxsize=2)
def one_of_each(n):
    """Name -> Gram, problem, where it starts."""
    matrix, y = gaussian(n)
    rough, labels = indefinite(n)
    some, back = np.flatnonzero(np.arange(n) % 3 != 1), np.arange(n)[::-1].copy()
    weights = np.random.default_rng(0).choice([0.0, 0.5, 1.0, 3.0], n)
    start = np.zeros(n)
    start[np.flatnonzero(y > 0)[:5]] = start[np.flatnonzero(y < 0)[:5]] = 0.5
    return {
        "svc": (matrix, svc(y, 10), None),
        "indefinite": (rough, svc(labels, 10), None),
        "regression": (matrix, svr(matrix[:, 3].astype(float), 1.0, 0.05), None),
        "some rows": (matrix, svc(y[some], 5, index=some), None),
        "rows in another order": (matrix, svc(y[back], 5, index=back), None),
        "weights": (matrix, svc(y, 2.0, weights), None),
        "one class": (matrix, *duals.one_class(n, 0.3)),
        "warm": (matrix, svc(y, 10), start),
    }


@pytest.mark.parametrize("n", [13, 1025, 3001])
@pytest.mark.parametrize("name", one_of_each(20))
def test_one_problem(name, n, cards):
    matrix, dual, start = one_of_each(n)[name]
    alone = solve_dual(dense(matrix), dual, initial=start)
    same_bits(solve_dual(sharded(matrix, cards), dual, initial=start), alone)
    assert alone.converged


@pytest.mark.parametrize("first", [1, 31, 1999])
def test_a_shard_may_be_tiny(first, cards):
    matrix, y = gaussian(2000)
    bounds = sorted([first, *([1000] if len(cards) > 2 else [])])
    same_bits(solve_dual(sharded(matrix, cards, bounds), svc(y, 10)), solve_dual(dense(matrix), svc(y, 10)))


def test_a_problem_may_lie_in_one_shard(cards):
    matrix, y = gaussian(900)
    for index in (np.arange(200), np.arange(700, 900)):
        dual = svc(y[index], 10, index=index)
        same_bits(solve_dual(sharded(matrix, cards), dual), solve_dual(dense(matrix), dual))


def test_a_tight_tolerance_and_a_bound(cards):
    matrix, y = gaussian(2500)
    for options in ({"tol": 1e-6}, {"max_iter": 50}, {"tol": 1e-6, "duality_gap": 0.05}):
        one, other = (
            solve_dual(gram, svc(y, 10), **options) for gram in (sharded(matrix, cards), dense(matrix))
        )
        same_bits(one, other)


@pytest.mark.parametrize("place", [(3, 3), (3, 47), (47, 47)])
def test_a_value_that_is_not_finite_is_refused_wherever_it_is(place, cards):
    matrix, y = gaussian(50)
    matrix[place] = matrix[place[::-1]] = np.nan
    with pytest.raises(InputError, match="finite"):
        solve_dual(sharded(matrix, cards), svc(y, 10))


@pytest.mark.parametrize("name", chains(20))
@pytest.mark.parametrize("slots", [1, 3, 132])
def test_side_by_side_where_copies_have_no_room(name, slots, cards, monkeypatch):
    monkeypatch.setattr(cuda_queue, "most_slots", lambda: slots)
    monkeypatch.setattr(smo_cuda, "BURST", 100)
    monkeypatch.setattr(ShardedGram, "copies", lambda gram: [])
    matrix, problems, initial = chains(1300)[name]
    many = solve_chains(sharded(matrix, cards), problems, initial=initial)
    same_chains(many, solve_chains(dense(matrix), problems, initial=initial))


@pytest.mark.parametrize("name", ["folds, C up", "C up and down", "regression, C", "lengths"])
def test_shared_out_as_one_card_with_the_slots_of_all(name, cards, monkeypatch):
    matrix, problems, initial = chains(1300)[name]
    monkeypatch.setattr(smo_cuda, "PAIRS", smo_cuda.BURST)  # a card with one slot takes no more at once
    monkeypatch.setattr(cuda_queue, "most_slots", lambda: 2 * len(cards))
    alone = solve_chains(dense(matrix), problems, initial=initial)
    monkeypatch.setattr(cuda_queue, "most_slots", lambda: 2)
    gram, seen = sharded(matrix, cards), []
    same_chains(solve_chains(gram, problems, initial=initial, progress=lambda *now: seen.append(now)), alone)
    assert len(gram.copies()) == len(cards)
    assert [now[0] for now in seen] == sorted(now[0] for now in seen)
    assert seen[-1][0] == seen[-1][1]
    gram.release()
    assert not gram.copies()


def test_copies_are_the_matrix_and_are_kept(cards):
    matrix, _ = gaussian(777)
    gram = sharded(matrix, cards)
    copies = gram.copies()
    assert [copy.device.index for copy in copies] == [*cards]
    for copy in copies:
        np.testing.assert_array_equal(copy.matrix.get(), matrix)
    assert gram.copies() is copies


def test_no_copies_without_room(cards, monkeypatch):
    matrix, _ = gaussian(100)
    gram = sharded(matrix, cards)
    monkeypatch.setattr(devices, "free_memory", lambda card=None: 4 * 100**2)
    assert not gram.copies()


def test_rows_and_diagonal_come_together(cards):
    matrix, _ = gaussian(333)
    gram, some = sharded(matrix, cards), np.array([0, 5, 200, 332, 7])
    np.testing.assert_array_equal(gram.diag().get(), matrix.diagonal())
    np.testing.assert_array_equal(gram.rows(some).get(), matrix[some])
    np.testing.assert_array_equal(gram.window().values.get(), matrix)


@pytest.mark.parametrize("together", [False, True])
def test_progress_grows_and_may_stop(together, cards, monkeypatch):
    matrix, problems, _ = chains(1300)["folds, C up"]
    if together:
        monkeypatch.setattr(ShardedGram, "copies", lambda gram: [])
    gram, seen = sharded(matrix, cards), []
    solve_chains(gram, problems, progress=lambda *now: seen.append(now))
    assert [now[0] for now in seen] == sorted(now[0] for now in seen)
    assert seen[-1][0] == seen[-1][1]

    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        solve_chains(gram, problems, progress=stop)
    assert solve_dual(gram, problems[0][0]).converged


@pytest.mark.parametrize(("n", "k"), [(40, 3), (1025, 26), (1500, 33)])
def test_crammer_singer(n, k, cards):
    matrix, y = classes(n, k)
    dual = duals.crammer_singer(y, k, 2.0)
    alone = solve_dual(dense(matrix), dual)
    other = solve_dual(sharded(matrix, cards), dual)
    np.testing.assert_array_equal(other.coef, alone.coef)
    assert (other.iterations, other.status, other.objective) == (
        alone.iterations,
        alone.status,
        alone.objective,
    )
    warm = [
        solve_dual(gram, duals.crammer_singer(y, k, 1.0), initial=alone.coef)
        for gram in (dense(matrix), sharded(matrix, cards))
    ]
    np.testing.assert_array_equal(warm[0].coef, warm[1].coef)


@pytest.mark.parametrize("together", [False, True])
def test_crammer_singer_in_chains(together, cards, monkeypatch):
    if together:
        monkeypatch.setattr(ShardedGram, "copies", lambda gram: [])
    matrix, y = classes(900, 4)
    problems = [
        [duals.crammer_singer(y, 4, C) for C in path] for path in ([0.1, 1.0], [2.0], [0.5, 0.2, 3.0])
    ]
    one, other = (
        solve_chains(gram, problems, Stopping()) for gram in (sharded(matrix, cards), dense(matrix))
    )
    for chain, solutions in zip(one, other, strict=True):
        for a, b in zip(chain, solutions, strict=True):
            np.testing.assert_array_equal(a.coef, b.coef)
            assert (a.iterations, a.status) == (b.iterations, b.status)
