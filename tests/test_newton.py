"""The augmented Lagrangian in feature space: against SMO on the Gram of the same rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_spectrum import CPU

from textsvm import Spectrum, Sum
from textsvm.gram.base import DenseGram
from textsvm.runtime.parallel import limit
from textsvm.solvers import newton
from textsvm.solvers import newton as newton_machines
from textsvm.solvers.newton import ProximalProblem, balance_columns
from textsvm.solvers.problems import Classification, Labelling, OneClass, Regression
from textsvm.solvers.solution import Stopping
from textsvm.solvers.solve import solve
from textsvm.text.documents import encode

KERNELS = {
    "log idf": Spectrum((1, 4), "log", idf=True),
    "count": Spectrum(3, normalised=False),
    "intersection": Spectrum((1, 3), "intersection"),
    "sum": Sum([Spectrum(2), Spectrum((1, 3), "presence", idf=True)], weights=[1, 3]),
}


def texts_of(n, seed=0):
    """Random texts of three classes; some empty, short, or twice there."""
    rng = np.random.default_rng(seed)
    shares = [0.3, 0.2, 0.2, 0.1, 0.1, 0.1]
    texts = [
        "".join(rng.choice(list("abcde "), rng.integers(0, 40), p=np.roll(shares, i % 3))) for i in range(n)
    ]
    return [*texts[:-4], "", "", "x", texts[0]]


def problem_of(kind, n, weight_of=1.0, seed=1):
    """A problem over most of n rows."""
    rng = np.random.default_rng(seed)
    index = np.sort(rng.permutation(n)[: n - 20])
    classes, weight = index % 3, weight_of * rng.uniform(0.5, 2, len(index))
    numbers = classes + rng.normal(size=len(index))
    return {
        "ovr": Classification(index, classes, 3, 1.0, weight, "ovr"),
        "ovo": Classification(index, classes, 3, 10.0, weight, "ovo"),
        "svr": Regression(index, numbers, 2.0, weight, 0.1),
        "svr without tube": Regression(index, numbers, 2.0, weight, 0.0),
        "one class": OneClass(index, 0.3, np.minimum(weight, 1)),
        "labels": Labelling(index, np.stack([classes == 0, classes < 2, classes < 9], 1), 1.0, weight),
    }[kind]


def check_equal(ours, theirs, tol=1e-3):
    """Machines reach the same optimum."""
    for mine, other in zip(ours.solutions, theirs.solutions, strict=True):
        assert mine.converged
        assert mine.violation <= tol
        assert mine.objective <= other.objective + 1e-5 * abs(other.objective) + 1e-6
        assert abs(mine.objective - other.objective) <= 1e-4 * abs(other.objective)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ovr", "ovo", "svr", "svr without tube", "one class", "labels"])
@pytest.mark.parametrize("name", KERNELS)
def test_the_optimum_is_that_of_smo(kind, name):
    texts = texts_of(160)
    documents, kernel = encode(texts), KERNELS[name]
    # Values of raw counts are large, and so is a C of 1 with them.
    small = 0.01 if name == "count" and kind in ("ovr", "ovo", "labels") else 1.0
    problem = problem_of(kind, len(texts), small)
    rows = kernel.features.rows(documents, CPU)
    gram = DenseGram(kernel.rows(documents, CPU).gram())
    [[theirs]] = solve(gram, [[problem]])
    ours = newton_machines.solve_by_newton(problem, rows, Stopping())
    check_equal(ours, theirs)
    values = gram.matrix[:, problem.index].astype(np.float64)
    wide = max(1.0, gram.matrix.max())
    differ = values @ ours.coef.T + ours.bias - values @ theirs.coef.T - theirs.bias
    np.testing.assert_allclose(np.nan_to_num(differ), 0, atol=0.03 * wide)


@settings(max_examples=30)
@given(
    texts=st.lists(st.text(st.sampled_from("ab "), max_size=8), min_size=4, max_size=14),
    C=st.sampled_from([0.01, 1.0, 100.0]),
    data=st.data(),
)
def test_any_small_problem_converges(texts, C, data):
    n = len(texts)
    classes = np.array(data.draw(st.lists(st.integers(0, 1), min_size=n, max_size=n)))
    classes[:2] = 0, 1
    problem = Classification(np.arange(n), classes, 2, C, np.ones(n), "ovr")
    kernel, documents = Spectrum((1, 2), "presence", idf=True), encode(texts)
    rows = kernel.features.rows(documents, CPU)
    [[theirs]] = solve(DenseGram(kernel.rows(documents, CPU).gram()), [[problem]])
    check_equal(newton_machines.solve_by_newton(problem, rows, Stopping()), theirs)


def test_bits_do_not_depend_on_the_number_of_threads():
    texts = texts_of(600)
    rows = KERNELS["log idf"].features.rows(encode(texts), CPU)
    problem = problem_of("ovr", len(texts))
    found = []
    for threads in (1, 2):
        with limit(threads):
            found.append(newton_machines.solve_by_newton(problem, rows, Stopping()))
    np.testing.assert_array_equal(found[0].coef, found[1].coef)


def test_a_duality_gap_ends_it_sooner():
    texts = texts_of(160)
    rows = KERNELS["log idf"].features.rows(encode(texts), CPU)
    problem = problem_of("ovr", len(texts))
    loose = newton_machines.solve_by_newton(problem, rows, Stopping(1e-6, duality_gap=0.05)).solutions
    tight = newton_machines.solve_by_newton(problem, rows, Stopping(1e-6)).solutions
    assert all(one.converged and one.duality_gap <= 0.05 for one in loose)
    assert loose[0].iterations < tight[0].iterations


def test_what_did_not_converge_says_so():
    rows = KERNELS["log idf"].features.rows(encode(texts_of(160)), CPU)
    [machine, *_] = newton_machines.solve_by_newton(
        problem_of("ovo", 160), rows, Stopping(max_iter=3 * 160)
    ).solutions
    assert not machine.converged
    assert machine.status == newton_machines.STOPPED
    assert machine.violation > 1e-3


def test_sums_are_made_exact_within_bounds():
    low, high = (np.array(a)[:, None] for a in ([0.0, 0, -1, 0], [1.0, 1, 0, 1]))
    found = balance_columns(np, np.array([[0.5], [1.0], [-0.7], [0.9]]), low, high, np.array([0.3]))
    assert found.sum() == pytest.approx(0.3, abs=1e-15)
    assert ((found >= low) & (found <= high)).all()
    assert found[1] == 1


@pytest.mark.slow
def test_rows_that_are_left_out_change_nothing(monkeypatch, set_values):
    texts = [text + " " + "abc"[i % 3] * 3 for i, text in enumerate(texts_of(400))]
    rows = KERNELS["log idf"].features.rows(encode(texts), CPU)
    parts = []
    part = ProximalProblem.part
    monkeypatch.setattr(ProximalProblem, "part", lambda *given: parts.append(given) or part(*given))
    for kind in ("ovr", "svr"):
        problem = problem_of(kind, len(texts))
        monkeypatch.setattr(newton, "MIN_NEAR", 10_000)
        whole = newton_machines.solve_by_newton(problem, rows, Stopping(1e-5))
        assert not parts
        set_values(newton, MIN_NEAR=5, MAX_NEAR=0.99)
        some = newton_machines.solve_by_newton(problem, rows, Stopping(1e-5))
        assert parts, kind
        parts.clear()
        for mine, other in zip(some.solutions, whole.solutions, strict=True):
            assert mine.converged
            assert mine.objective == pytest.approx(other.objective, rel=1e-8)
