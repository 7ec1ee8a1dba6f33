"""The multiclass solver against an independent QP, the optimality conditions and LIBLINEAR; the edges."""

import bz2
from itertools import pairwise
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import crammer_singer as oracle
from problems import ArrayRows, degenerate, gaussian, gaussian_gram, indefinite, solve_dual
from refusals import refuses
from scipy.optimize import minimize
from sklearn.datasets import load_svmlight_file
from sklearn.svm import LinearSVC

from textsvm.gram.base import CachedGram, DenseGram, needed_bytes
from textsvm.runtime import parallel
from textsvm.solvers import crammer_singer
from textsvm.solvers import dual as duals


def vectors(data, name, n=None):
    """Points scaled to -1..1 and their classes, of a LIBSVM data set."""
    with bz2.open(data / "libsvm" / f"{name}.bz2") as lines:
        points, labels = load_svmlight_file(lines)
    points = points.toarray()[:n]
    points = points / 50 - 1 if points.max() > 1 else points
    return points, np.unique(labels[:n], return_inverse=True)[1]


def classes(n, k, seed=0):
    """Classes that a Gaussian Gram of `problems.gaussian` can half tell apart; each occurs."""
    matrix, _ = gaussian(n, seed)
    rng = np.random.default_rng(seed)
    anchors = rng.choice(n, k, replace=False)
    y = np.argmax(matrix[anchors] + 0.1 * rng.normal(size=(k, n)), axis=0)
    y[anchors] = np.arange(k)
    return matrix, y


def judge(solution, matrix, y, k, C, weight=None, tol=1e-3, duality_gap=-1.0):
    """Recompute everything in float64 from the Gram and the coefficients, as the definitions say."""
    a = solution.coef
    upper = np.zeros((k, len(y)))
    upper[y, np.arange(len(y))] = C * (np.ones(len(y)) if weight is None else weight)
    assert a.shape == upper.shape
    assert np.isfinite(a).all()
    assert (a <= upper).all()
    scale = max(1.0, float(np.abs(a).sum()))
    np.testing.assert_allclose(a.sum(0), 0, atol=1e-12 * max(1.0, np.abs(a).max()))
    values = matrix.astype(np.float64)
    rounding = 1e-10 * scale * max(1.0, float(np.abs(values).max()))
    own = np.arange(k)[:, None] == y
    f = a @ values
    G = f - own
    violation = np.max(G.max(0) - np.where(a < upper, G, np.inf).min(0), initial=0)
    assert abs(solution.violation - violation) <= rounding
    norm, linear = 0.5 * np.sum(a * f), np.sum(a[own])
    slack = np.max(1 - own + f, axis=0) - np.sum(own * f, axis=0)
    primal, dual = norm + np.sum(upper * slack), linear - norm
    loose = rounding * max(scale, float(upper.sum()))
    assert abs(solution.objective + dual) <= loose
    gap = 2 * (primal - dual) / abs(primal + dual) if primal + dual else 0
    assert abs(solution.duality_gap - gap) <= 2 * loose / max(abs(primal + dual), 1e-300)
    assert solution.converged == (solution.violation <= tol or solution.duality_gap <= duality_gap)
    assert (solution.status == "converged") == solution.converged
    np.testing.assert_array_equal(solution.support, np.flatnonzero(a.any(0)))
    np.testing.assert_allclose(solution.responses, G, rtol=0, atol=rounding)
    assert solution.alpha is solution.coef
    assert solution.bias == 0


class CrammerSingerContract:
    """What both twins must satisfy; a subclass says where a Gram lives."""

    def gram(self, matrix):
        raise NotImplementedError

    def rows(self, matrix):
        raise NotImplementedError

    def solve(self, matrix, y, C, **options):
        k = options.pop("n_classes", None) or int(y.max()) + 1
        weight, index = options.pop("sample_weight", None), options.pop("index", None)
        dual = duals.crammer_singer(y, k, C, weight, index)
        return solve_dual(self.gram(matrix), dual, **options)

    @pytest.mark.parametrize(
        ("name", "gamma", "C"),
        [
            ("letter.scale", 4.0, 16),
            ("letter.scale", 0.5, 1),
            ("pendigits", 0.5, 10),
            ("pendigits", 0.1, 0.3),
        ],
    )
    def test_equals_an_independent_qp_on_real_vectors(self, data, name, gamma, C):
        points, y = vectors(data, name, 120)
        matrix = gaussian_gram(points, gamma)
        k = int(y.max()) + 1
        _, dual, primal = oracle(matrix, y, C, accuracy=1e-6)
        loose, tight = (self.solve(matrix, y, C, tol=tol) for tol in (1e-3, 1e-6))
        judge(loose, matrix, y, k, C)
        judge(tight, matrix, y, k, C, tol=1e-6)
        assert tight.converged
        assert -loose.objective == pytest.approx(dual, rel=1e-5)
        assert dual * (1 - 1e-9) <= -tight.objective <= primal * (1 + 1e-9)

    @pytest.mark.slow
    @pytest.mark.parametrize("seed", range(4))
    @pytest.mark.parametrize("k", [2, 3, 9])
    def test_equals_an_independent_qp_on_random_grams(self, seed, k):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(k + 2, 70))
        points = rng.normal(size=(n, int(rng.integers(2, 30))))
        matrix = (points @ points.T / points.shape[1]).astype(np.float32)
        matrix = (matrix + matrix.T) / 2
        y = rng.permutation(np.arange(n) % k)
        weight, C = rng.uniform(0.1, 3, n), float(rng.choice([0.03, 1.0]))
        coef, dual, primal = oracle(matrix, y, C, weight, accuracy=1e-7)
        solution = self.solve(matrix, y, C, sample_weight=weight, tol=1e-7)
        judge(solution, matrix, y, k, C, weight, tol=1e-7)
        assert dual - 1e-7 * abs(dual) <= -solution.objective <= primal + 1e-7 * abs(primal)
        # Coefficients of a singular Gram are not unique, values are.
        np.testing.assert_allclose(solution.coef @ matrix, coef @ matrix, atol=3e-3)

    @pytest.mark.parametrize("C", [0.1, 10])
    def test_two_classes_are_a_binary_machine_without_bias(self, C):
        # a is b_i at the own class and -b_i at the other: minimise b'Qb - sum b, 0 <= b <= C, the dual of 2K.
        matrix, y = classes(150, 2)
        sign = np.where(y == 1, 1.0, -1.0)
        Q = sign[:, None] * sign * matrix.astype(np.float64)
        binary = minimize(
            lambda b: (b @ Q @ b - b.sum(), 2 * Q @ b - 1),
            np.zeros(150),
            jac=True,
            bounds=[(0, C)] * 150,
            options={"maxiter": 20_000, "maxfun": 100_000, "ftol": 1e-15, "gtol": 1e-9},
        )
        solution = self.solve(matrix, y, C, tol=1e-7)
        assert solution.objective == pytest.approx(binary.fun, rel=1e-7)
        np.testing.assert_allclose(
            solution.coef @ matrix, [-sign * binary.x @ matrix, sign * binary.x @ matrix], atol=1e-4
        )

    @pytest.mark.parametrize("C", [0.01, 1])
    def test_agrees_with_liblinear(self, C):
        rng = np.random.default_rng(0)
        y = np.arange(400) % 5
        points = rng.integers(-2, 3, size=(400, 12)) + 2 * (np.arange(12) % 5 == y[:, None])
        matrix = (points @ points.T).astype(np.float32)
        model = LinearSVC(multi_class="crammer_singer", fit_intercept=False, C=C, tol=1e-9, max_iter=100_000)
        w = model.fit(points, y).coef_
        f = w @ points.T
        own = np.arange(5)[:, None] == y
        primal = 0.5 * np.sum(w**2) + C * np.sum(np.max(1 - own + f, axis=0) - np.sum(own * f, axis=0))
        solution = self.solve(matrix, y, C, tol=1e-6)
        judge(solution, matrix, y, 5, C, tol=1e-6)
        assert -solution.objective == pytest.approx(primal, rel=1e-6)
        new = rng.integers(-3, 4, size=(500, 12))
        ours, theirs = solution.coef @ (points @ new.T), w @ new.T
        np.testing.assert_allclose(ours, theirs, atol=1e-3)
        clear = np.ptp(np.sort(theirs, axis=0)[-2:], axis=0) > 2e-3
        np.testing.assert_array_equal(ours.argmax(0)[clear], theirs.argmax(0)[clear])

    def test_a_duplicate_is_a_weight_of_two(self):
        matrix, y = classes(300, 4)
        some = np.random.default_rng(1).random(300) < 0.3
        weight = np.where(some, 2.0, 1.0)
        index = np.concatenate([np.arange(300), np.flatnonzero(some)])
        weighted = self.solve(matrix, y, 2.0, sample_weight=weight, tol=1e-6)
        twice = self.solve(matrix, y[index], 2.0, index=index, tol=1e-6)
        judge(twice, matrix[np.ix_(index, index)], y[index], 4, 2.0, tol=1e-6)
        assert twice.objective == pytest.approx(weighted.objective, rel=1e-6)
        together = np.zeros((4, 300))
        np.add.at(together.T, index, twice.coef.T)
        np.testing.assert_allclose(together @ matrix, weighted.coef @ matrix, atol=1e-4)

    def test_a_weight_of_zero_is_no_example(self):
        matrix, y = classes(200, 3)
        weight = np.random.default_rng(0).choice([0.0, 1.0, 3.0], 200)
        kept = np.flatnonzero(weight)
        solution = self.solve(matrix, y, 1.0, sample_weight=weight, tol=1e-6)
        judge(solution, matrix, y, 3, 1.0, weight, tol=1e-6)
        assert not solution.coef[:, weight == 0].any()
        without = self.solve(
            matrix, y[kept], 1.0, sample_weight=weight[kept], index=kept, n_classes=3, tol=1e-6
        )
        assert solution.objective == pytest.approx(without.objective, rel=1e-8)
        nothing = self.solve(matrix, y, 1.0, sample_weight=np.zeros(200))
        assert nothing.converged
        assert not nothing.coef.any()

    def test_rows_by_index(self):
        matrix, y = classes(400, 5)
        rows = np.random.default_rng(0).permutation(400)[:250]
        inside = np.ascontiguousarray(matrix[np.ix_(rows, rows)])
        solution = self.solve(matrix, y[rows], 3.0, index=rows, n_classes=5, tol=1e-6)
        judge(solution, inside, y[rows], 5, 3.0, tol=1e-6)
        assert solution.objective == pytest.approx(
            self.solve(inside, y[rows], 3.0, n_classes=5, tol=1e-6).objective, rel=1e-7
        )

    def test_a_class_without_examples(self):
        matrix, y = classes(100, 3)
        solution = self.solve(matrix, y, 1.0, n_classes=5, tol=1e-6)
        judge(solution, matrix, y, 5, 1.0, tol=1e-6)
        with_it = oracle(matrix, y, 1.0, accuracy=1e-7, k=5)[1]
        assert -solution.objective == pytest.approx(with_it, rel=1e-5)

    def test_scales(self):
        matrix, y = classes(200, 4)
        solution = self.solve(matrix, y, 1.0)
        scaled = self.solve(matrix * np.float32(64), y, 1 / 64)
        assert scaled.objective == pytest.approx(solution.objective / 64, rel=1e-5)
        np.testing.assert_allclose(scaled.coef * 64, solution.coef, atol=1e-2)
        renamed = np.array([2, 0, 3, 1])
        other = self.solve(matrix, renamed[y], 1.0, tol=1e-6)
        tight = self.solve(matrix, y, 1.0, tol=1e-6)
        assert other.objective == pytest.approx(tight.objective, rel=1e-8)
        np.testing.assert_allclose(other.coef[renamed] @ matrix, tight.coef @ matrix, atol=1e-4)

    def test_a_path_along_C_ends_where_cold_starts_end(self):
        matrix, y = classes(300, 6)
        start, warm = None, 0
        path = [0.1, 1.0, 10.0, 100.0, 5.0, 0.5]
        for C in path:
            solution = self.solve(matrix, y, C, initial=start, tol=1e-6)
            judge(solution, matrix, y, 6, C, tol=1e-6)
            cold = self.solve(matrix, y, C, tol=1e-6)
            assert solution.objective == pytest.approx(cold.objective, rel=1e-7)
            start, warm = solution.coef, warm + solution.iterations
        again = self.solve(matrix, y, path[-1], initial=start, tol=1e-5)
        assert again.converged
        assert again.iterations == 0

    @pytest.mark.parametrize("n", [3, 60, 1000, 1001, 1500])
    def test_sizes_around_the_working_set(self, n):
        matrix, y = classes(n, 3)
        solution = self.solve(matrix, y, 5.0)
        assert solution.converged
        judge(solution, matrix, y, 3, 5.0)
        assert solution.duality_gap < 0.02

    @pytest.mark.parametrize("k", [33, 105])
    def test_many_classes(self, k):
        matrix, y = classes(500, k)
        solution = self.solve(matrix, y, 2.0, tol=1e-5)
        assert solution.converged
        judge(solution, matrix, y, k, 2.0, tol=1e-5)
        assert solution.duality_gap < 1e-4

    @pytest.mark.parametrize("seed", range(3))
    @pytest.mark.parametrize("n", [200, 1300])
    def test_indefinite_grams_end_at_a_stationary_point(self, seed, n):
        matrix, y = indefinite(n, seed)
        y = np.random.default_rng(seed).integers(0, 4, n)
        solution = self.solve(matrix, y, 1.0, n_classes=4)
        judge(solution, matrix, y, 4, 1.0)
        assert solution.converged

    @pytest.mark.parametrize("name", degenerate())
    @pytest.mark.parametrize("C", [1e-6, 1.0, 1e10])
    def test_degenerate_grams(self, name, C):
        matrix, sign = degenerate()[name]
        y = (sign > 0) + np.where(np.arange(len(sign)) % 3 == 0, 1, 0)
        solution = self.solve(matrix, y, C, n_classes=3, tol=1e-6, max_iter=200_000)
        judge(solution, matrix, y, 3, C, tol=1e-6)
        assert solution.converged or C > 1
        if C == 1 and name not in ("negative", "large values"):
            dual = oracle(matrix, y, C, accuracy=1e-6, k=3)[1]
            assert -solution.objective == pytest.approx(dual, rel=1e-5)

    @pytest.mark.parametrize("rows", [2, 3, 5, 60, 300])
    def test_rows_on_demand(self, rows):
        n = 400 if rows > 5 else 60
        matrix, y = classes(n, 4)
        gram = CachedGram(self.rows(matrix), needed_bytes(n, rows))
        assert gram.capacity == rows
        solution = solve_dual(gram, duals.crammer_singer(y, 4, 5.0), tol=1e-4)
        assert solution.converged
        judge(solution, matrix, y, 4, 5.0, tol=1e-4)

    def test_stops_at_a_duality_gap(self):
        matrix, y = classes(1500, 5)
        loose = self.solve(matrix, y, 1.0, tol=1e-6, duality_gap=0.05)
        judge(loose, matrix, y, 5, 1.0, tol=1e-6, duality_gap=0.05)
        assert loose.converged
        assert loose.violation > 1e-6
        assert loose.duality_gap <= 0.05
        assert loose.iterations < self.solve(matrix, y, 1.0, tol=1e-6).iterations

    @pytest.mark.parametrize("bound", [0, 1, 7, 100])
    def test_stops_at_the_bound(self, bound):
        matrix, y = classes(300, 3)
        solution = self.solve(matrix, y, 1.0, max_iter=bound)
        judge(solution, matrix, y, 3, 1.0)
        assert solution.iterations == bound
        assert not solution.converged
        assert str(bound) in solution.status

    def test_two_runs_give_the_same_bits(self):
        matrix, y = classes(1200, 6)
        first, second = (self.solve(matrix, y, 10.0) for _ in range(2))
        np.testing.assert_array_equal(first.coef, second.coef)

    def test_progress_is_called_and_may_stop_the_work(self):
        matrix, y = classes(1300, 4)
        seen = []
        self.solve(matrix, y, 10.0, progress=lambda done, total: seen.append((done, total)))
        assert len(seen) > 1
        assert seen[-1][0] == pytest.approx(seen[-1][1])
        assert all(a[0] <= b[0] for a, b in pairwise(seen))

        with pytest.raises(KeyboardInterrupt):
            self.solve(matrix, y, 10.0, progress=Mock(side_effect=KeyboardInterrupt))

    @pytest.mark.parametrize("value", [np.nan, np.inf])
    @pytest.mark.parametrize("at", [(3, 3), (3, 90)])
    def test_values_that_are_not_finite_are_refused(self, value, at):
        matrix, y = classes(100, 3)
        matrix[at] = matrix[at[::-1]] = value
        refuses("finite", self.solve, matrix, y, 1.0)


class TestCrammerSinger(CrammerSingerContract):
    def gram(self, matrix):
        return DenseGram(matrix)

    def rows(self, matrix):
        return ArrayRows(matrix)

    @settings(max_examples=40)
    @given(
        n=st.integers(2, 40),
        k=st.integers(2, 6),
        seed=st.integers(0, 1000),
        C=st.sampled_from([1e-4, 1.0, 100.0]),
        tol=st.sampled_from([1e-1, 1e-3, 1e-6]),
        definite=st.booleans(),
    )
    def test_random_small_problems(self, n, k, seed, C, tol, definite):
        matrix, _ = gaussian(n, seed) if definite else indefinite(n, seed)
        rng = np.random.default_rng(seed)
        y, weight = rng.integers(0, k, n), rng.choice([0.0, 0.5, 1.0, 2.0], n)
        solution = self.solve(matrix, y, C, n_classes=k, sample_weight=weight, tol=tol, max_iter=1_000_000)
        judge(solution, matrix, y, k, C, weight, tol)
        assert solution.converged
        if definite:
            assert solution.duality_gap >= -1e-12

    def test_the_number_of_threads_changes_no_bit(self, monkeypatch):
        monkeypatch.setattr(crammer_singer, "_THREADED", 0)
        matrix, y = classes(1300, 4)
        result = []
        for threads in (1, 3):
            with parallel.limit(threads):
                result.append(self.solve(matrix, y, 10.0).coef)
        np.testing.assert_array_equal(*result)
