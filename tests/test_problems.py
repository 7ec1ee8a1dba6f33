"""Learning problems on rows of a Gram against LIBSVM: multiclass, regression, one class, folds, weights."""

import threading
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from problems import gaussian
from sklearn.svm import SVC, SVR, OneClassSVM

from textsvm.gram.base import DenseGram
from textsvm.model.rules import class_scores
from textsvm.runtime import parallel
from textsvm.solvers import crammer_singer
from textsvm.solvers.problems import Classification, OneClass, Regression
from textsvm.solvers.solution import Stopping
from textsvm.solvers.solve import solve

N = 160


@pytest.fixture(scope="module")
def world():
    """A Gram, classes and numbers that depend on it, and weights."""
    matrix, _ = gaussian(N, seed=3)
    rng = np.random.default_rng(3)
    target = np.argmax(matrix[:, :4] + 0.1 * rng.normal(size=(N, 4)), axis=1)
    numbers = matrix[:, 5].astype(np.float64) + 0.1 * rng.normal(size=N)
    return matrix, target, numbers, rng.choice([0.5, 1.0, 2.0], N)


def values_of(matrix, machines):
    """Values of the machines at every row, shape (n, n_machines)."""
    return matrix.astype(np.float64)[:, machines.index] @ machines.coef.T + machines.bias


def classification(target, strategy="ovo", C=2.0, index=None, weight=None):
    index = np.arange(len(target)) if index is None else index
    weight = np.ones(len(target)) if weight is None else weight
    return Classification(index, target[index], int(target.max()) + 1, C, weight[index], strategy)


def objectives(machines):
    return [solution.objective for solution in machines.solutions]


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("weighted", [False, True])
def test_one_vs_one_is_that_of_libsvm(world, classes, weighted):
    matrix, target, _, weight = world
    target = target % classes
    weight = weight if weighted else np.ones(N)
    machines = solve(DenseGram(matrix), [[classification(target, weight=weight)]], Stopping(1e-6))[0][0]
    model = SVC(kernel="precomputed", C=2.0, tol=1e-6, decision_function_shape="ovo")
    theirs = model.fit(matrix.astype(np.float64), target, sample_weight=weight).decision_function(matrix)
    ours = values_of(matrix, machines)
    if classes > 2:  # there a positive value means the first class of the pair
        np.testing.assert_allclose(-ours, theirs, atol=1e-4)
        model.decision_function_shape = "ovr"
        np.testing.assert_allclose(
            class_scores(ours, classes, "ovo"), model.decision_function(matrix), atol=1e-4
        )
        predicted = class_scores(ours, classes, "ovo").argmax(1)
    else:
        np.testing.assert_allclose(ours[:, 0], theirs, atol=1e-4)
        predicted = (class_scores(ours, 2, "ovo") > 0).astype(int)
    sure = np.abs(ours).min(1) > 1e-3
    np.testing.assert_array_equal(predicted[sure], model.predict(matrix)[sure])


def test_one_vs_rest_is_that_of_libsvm(world):
    matrix, target, _, weight = world
    problem = classification(target, "ovr", weight=weight)
    machines = solve(DenseGram(matrix), [[problem]], Stopping(1e-6))[0][0]
    ours = class_scores(values_of(matrix, machines), 4, "ovr")
    for a in range(4):
        model = SVC(kernel="precomputed", C=2.0, tol=1e-6)
        model.fit(matrix.astype(np.float64), target == a, sample_weight=weight)
        np.testing.assert_allclose(ours[:, a], model.decision_function(matrix), atol=1e-4)


def test_folds_and_paths_are_those_of_libsvm(world):
    matrix, target, _, _ = world
    folds = [np.flatnonzero(np.arange(N) % 4 != k) for k in range(4)]
    grid = [0.1, 1.0, 10.0]
    paths = [[classification(target, C=C, index=fold) for C in grid] for fold in folds]
    for fold, machines in zip(folds, solve(DenseGram(matrix), paths, Stopping(1e-6)), strict=True):
        for C, one in zip(grid, machines, strict=True):
            model = SVC(kernel="precomputed", C=C, tol=1e-6, decision_function_shape="ovo")
            model.fit(matrix[np.ix_(fold, fold)].astype(np.float64), target[fold])
            theirs = model.decision_function(matrix[:, fold])
            np.testing.assert_allclose(-values_of(matrix, one), theirs, atol=2e-4)


@pytest.mark.parametrize("along", ["epsilon", "C", "nu"])
def test_paths_of_numbers_and_of_one_class_are_those_of_libsvm(world, along):
    matrix, _, numbers, weight = world
    index = np.flatnonzero(np.arange(N) % 3)
    problem, model = Regression(index, numbers[index], 2.0, weight[index], 0.1), SVR(epsilon=0.1, C=2.0)
    if along == "nu":
        problem, model = OneClass(index, 0.1, weight[index]), OneClassSVM()
    values = (0.05, 0.8, 0.2)
    path = [replace(problem, **{along: value}) for value in values]
    for value, machines in zip(values, solve(DenseGram(matrix), [path], Stopping(1e-6))[0], strict=True):
        model.set_params(kernel="precomputed", tol=1e-6, **{along: value})
        model.fit(matrix[np.ix_(index, index)].astype(np.float64), numbers[index], weight[index])
        theirs = (model.predict if along != "nu" else model.decision_function)(matrix[:, index])
        np.testing.assert_allclose(values_of(matrix, machines)[:, 0], theirs, atol=2e-4)


@given(
    seed=st.integers(0, 200),
    classes=st.integers(2, 4),
    strategy=st.sampled_from(["ovo", "ovr"]),
    kind=st.sampled_from(["classes", "numbers"]),
)
def test_a_duplicated_example_equals_weight_two(seed, classes, strategy, kind):
    n = 24
    matrix, y = gaussian(n, seed)
    rng = np.random.default_rng(seed)
    target = np.concatenate([np.arange(classes), rng.integers(0, classes, n - classes)])
    weight = rng.choice([1.0, 2.0, 3.0], n)
    twice = np.repeat(np.arange(n), weight.astype(int))
    if kind == "classes":
        heavy = classification(target, strategy, weight=weight)
        many = replace(heavy, index=twice, target=target[twice], weight=np.ones(len(twice)))
    else:
        heavy = Regression(np.arange(n), y + rng.normal(size=n), 2.0, weight, 0.1)
        many = replace(heavy, index=twice, target=heavy.target[twice], weight=np.ones(len(twice)))
    one, other = (m[0] for m in solve(DenseGram(matrix), [[heavy], [many]], Stopping(1e-8)))
    np.testing.assert_allclose(objectives(one), objectives(other), rtol=1e-6)
    np.testing.assert_allclose(values_of(matrix, one), values_of(matrix, other), atol=1e-3)


def test_paths_of_different_kinds_side_by_side(world):
    matrix, target, numbers, weight = world
    index = np.arange(N)
    paths = [
        [classification(target, C=C) for C in (0.5, 5.0)],
        [Regression(index, numbers, 1.0, weight, 0.1)],
        [OneClass(index, 0.3, weight)],
        [classification(target, "ovr")],
        [classification(target, "crammer-singer", C=C) for C in (0.5, 5.0)],
    ]
    seen = []
    many = solve(DenseGram(matrix), paths, Stopping(1e-6), progress=lambda *now: seen.append(now))
    assert [[len(m.bias) for m in machines] for machines in many] == [[6, 6], [1], [1], [4], [4, 4]]
    for path, machines in zip(paths, many, strict=True):
        for problem, one in zip(path, machines, strict=True):
            alone = solve(DenseGram(matrix), [[problem]], Stopping(1e-6))[0][0]
            np.testing.assert_allclose(objectives(one), objectives(alone), rtol=1e-6, atol=1e-9)
            np.testing.assert_array_equal(one.index, problem.index)
            assert all(solution.converged for solution in one.solutions)
    shares = [done / total for done, total in seen]
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1.0)


@pytest.fixture
def together(world):
    """Paths of Crammer and Singer's machine on four folds, and one-vs-one paths on two of them."""
    _, target, _, weight = world
    folds = [np.flatnonzero(np.arange(N) % 4 != k) for k in range(4)]
    kinds = ["crammer-singer"] * 4 + ["ovo"] * 2
    return [
        [classification(target, kind, C, fold, weight) for C in (0.3, 3.0)]
        for kind, fold in zip(kinds, [*folds, *folds[:2]], strict=True)
    ]


def test_folds_of_crammer_singer_have_the_bits_of_one_alone(world, together):
    matrix = world[0]
    found = []
    for threads in (1, 2, 3, 8):
        with parallel.limit(threads):
            found.append(solve(DenseGram(matrix), together))
    alone = [solve(DenseGram(matrix), [path])[0] for path in together]
    for many in found:
        for path, others in zip(many, alone, strict=True):
            for one, other in zip(path, others, strict=True):
                np.testing.assert_array_equal(one.coef, other.coef)
                np.testing.assert_array_equal(one.bias, other.bias)
                assert one.solutions[0].iterations == other.solutions[0].iterations
                assert one.solutions[0].objective == other.solutions[0].objective


@pytest.mark.parametrize(("threads", "side_by_side"), [(2, True), (8, False)])
def test_folds_of_crammer_singer_run_side_by_side(world, together, threads, side_by_side, monkeypatch):
    # With fewer problems than cores, each has all of them.
    run, cores = crammer_singer.MulticlassRun.solve, []
    both = threading.Barrier(2, timeout=20)

    def recorded(self):
        cores.append(parallel.n_threads())
        if side_by_side and len(cores) <= 2:
            both.wait()  # breaks unless two folds are under way
        return run(self)

    monkeypatch.setattr(crammer_singer.MulticlassRun, "solve", recorded)
    with parallel.limit(threads):
        solve(DenseGram(world[0]), [path[:1] for path in together[:4]])
    assert cores == ([1] * 4 if side_by_side else [threads] * 4)


def test_votes_and_their_ties():
    # In the first row each class beats another: the sums of the values, 2, 0.5 and -2.5, decide.
    scores = class_scores(np.array([[1.0, -3.0, 0.5], [-1.0, -1.0, 2.0], [3.0, 1.0, 1.0]]), 3, "ovo")
    np.testing.assert_array_equal(scores.argmax(1), [0, 0, 2])
    np.testing.assert_array_equal(np.rint(scores), [[1, 1, 1], [2, 0, 1], [0, 1, 2]])
    assert (np.abs(scores - np.rint(scores)) < 0.5).all()
