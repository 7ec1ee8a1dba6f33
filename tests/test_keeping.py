"""The benchmarks of rows kept, of searches and of regression, on little data."""

from __future__ import annotations

import numpy as np
import pytest
from problems import gaussian, solve_dual
from test_smo import ArrayRows

from benchmarks import corpora, keeping, sigma, tight_search
from benchmarks.__main__ import main
from textsvm.gram.base import DenseGram, needed_bytes
from textsvm.solvers.dual import svr

pytestmark = pytest.mark.slow


def fewest(trace, capacity):
    """Rows computed at best, by trying all there is to give up."""
    states = {frozenset(): 0}
    for row in trace:
        found = {}
        for kept, misses in states.items():
            if row in kept:
                choices, cost = [kept], misses
            else:
                cost = misses + 1
                choices = [kept | {row}] if len(kept) < capacity else [kept - {one} | {row} for one in kept]
            for choice in choices:
                found[choice] = min(cost, found.get(choice, cost))
        states = found
    return min(states.values())


@pytest.mark.parametrize("seed", range(8))
def test_the_future_known_is_the_least(seed):
    trace = np.random.default_rng(seed).integers(0, 6, 30)
    for capacity in (2, 3):
        assert keeping.misses_if_known(trace, capacity) == fewest(trace.tolist(), capacity)


def problem(n=60):
    matrix, y = gaussian(n)[:2]
    return keeping.Problem("some", ArrayRows(matrix), svr(y + np.linspace(0, 1, n), 10.0, 0.01))


def test_the_row_of_the_smallest_index_makes_room_but_none_in_use():
    gram = keeping.Lowest(problem().rows, needed_bytes(60, 4))
    window = gram.window()
    for rows in ([5, 9], [2, 30], [2, 40]):
        window.refill(np.array(rows))
    assert np.flatnonzero(window.slots >= 0).tolist() == [2, 9, 30, 40]


def test_every_way_of_keeping_gives_the_same_solution():
    some, objective = problem(), []
    cells = [keeping.way_row(some, 0.25, way, objective) for way in keeping.WAYS]
    known = keeping.bound_row(some, DenseGram(some.rows.gram()), 0.25)
    computed = [cell["rows computed"] for cell in cells if not cell["way"].startswith("LRU, with")]
    assert len({cell["iterations"] for cell in cells}) == 1
    assert len(objective) == len(keeping.WAYS)
    assert objective[0] < 0
    assert 0 < known["rows computed"] <= min(computed)


@pytest.mark.parametrize("tight", [False, True])
def test_the_reference_finds_the_optimum(tight):
    some = problem()
    gram = DenseGram(some.rows.gram())
    objective, trace, share = tight_search.reference(gram, some.dual, tight, 100_000)
    assert objective == pytest.approx(solve_dual(gram, some.dual).objective, rel=1e-5)
    assert len(trace) > 20
    assert share < 0.9 if tight else share == 1


def test_places_keep_their_order():
    rng = np.random.default_rng(3)
    m = 40
    low, high, coef = np.full(m, -1.0), np.ones(m), rng.choice([-1.0, 0.0, 1.0], m)
    row, F, name = np.arange(m), rng.normal(size=m), np.arange(m)
    expected = F.copy()
    free, grow = tight_search._order(row, F, coef, low, high, name)
    for _ in range(50):
        assert (coef[:free] == 1).all()
        assert (coef[free:grow] == 0).all()
        assert (coef[grow:] == -1).all()
        np.testing.assert_array_equal(F, expected[name])
        at = rng.integers(m)
        coef[at] = rng.choice([-1.0, 0.0, 1.0])
        free, grow = tight_search._place(at, free, grow, row, F, coef, low, high, name)


def test_hits_of_a_cache():
    trace = np.array([[0, 1], [0, 2], [1, 0], [0, 1]])
    assert tight_search.hits(trace, 2) == pytest.approx(3 / 8)
    assert tight_search.hits(trace, 3) == pytest.approx(5 / 8)


def test_the_objective_of_regression_is_the_solver_s():
    rng = np.random.default_rng(0)
    x, y = rng.uniform(-1, 1, (80, 3)), rng.normal(size=80)
    cell = sigma.row("some", x, y, (32.0, 0.0625), "cpu")
    assert abs(float(cell["(ours - LIBSVM's) / LIBSVM's"])) <= sigma.BOUND
    assert cell["n"] == 80
    assert cell["C"] == 32


@pytest.mark.parametrize(
    ("name", "shape"),
    list(zip(corpora.REGRESSION, [(506, 13), (4177, 8), (8192, 12), (20640, 8)], strict=True)),
)
def test_sets_of_numbers(name, shape, data):
    x, y = corpora.regression(data, name)
    assert x.shape == shape
    assert y.shape == shape[:1]
    np.testing.assert_allclose(
        [x.min(axis=0), x.max(axis=0)], np.outer([-1, 1], np.ones(shape[1])), atol=1e-12
    )
    assert (y.mean(), y.std()) == (pytest.approx(0, abs=1e-9), pytest.approx(1))


def test_the_report_of_searches(tmp_path):
    main(["tight_search", "--quick", "-o", str(tmp_path / "r")])
    assert [line.split(" | ")[3] for line in (tmp_path / "r.md").read_text().splitlines()[8:]] == list(
        tight_search.WAYS
    )
