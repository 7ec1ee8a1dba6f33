"""The CUDA multiclass solver: all that the CPU twin must satisfy, and the CPU twin (`-m gpu`)."""

import numpy as np
import pytest
from problems import ArrayRows, gaussian_gram, solve_dual
from test_crammer_singer import CrammerSingerContract, classes, judge, vectors

from textsvm.errors import InputError
from textsvm.gram.base import DenseGram
from textsvm.runtime import device as devices
from textsvm.solvers import crammer_singer_cuda, cuda_queue
from textsvm.solvers import dual as duals
from textsvm.solvers.solution import Stopping
from textsvm.solvers.solve import solve_chains

pytestmark = pytest.mark.gpu


class TestCrammerSingerOnAGpu(CrammerSingerContract):
    def gram(self, matrix):
        return DenseGram(devices.cupy().asarray(matrix))

    def rows(self, matrix):
        return ArrayRows(devices.cupy().asarray(matrix))

    @pytest.mark.parametrize(
        ("n", "k"), [(300, 3), (1024, 8), (1025, 26), (2000, 32), (1500, 33), (1200, 105)]
    )
    @pytest.mark.parametrize("C", [0.1, 2])
    def test_equals_the_cpu_twin(self, n, k, C):
        matrix, y = classes(n, k)
        gpu = self.solve(matrix, y, C, tol=1e-6)
        cpu = solve_dual(DenseGram(matrix), duals.crammer_singer(y, k, C), tol=1e-6)
        judge(gpu, matrix, y, k, C, tol=1e-6)
        assert gpu.converged
        assert gpu.objective == pytest.approx(cpu.objective, rel=1e-6)
        np.testing.assert_allclose(gpu.coef @ matrix, cpu.coef @ matrix, atol=1e-3)

    def test_gradients_in_global_memory_give_the_same(self, monkeypatch):
        matrix, y = classes(1500, 40)
        on_chip = self.solve(matrix, y, 5.0)
        monkeypatch.setattr(crammer_singer_cuda, "_STATIC", 1 << 30)
        np.testing.assert_array_equal(self.solve(matrix, y, 5.0).coef, on_chip.coef)

    @pytest.mark.parametrize("name", ["letter.scale", "pendigits"])
    def test_equals_the_cpu_twin_on_real_vectors(self, data, name):
        points, y = vectors(data, name, 4000)
        matrix, k = gaussian_gram(points, 1.0), int(y.max()) + 1
        gpu = self.solve(matrix, y, 4.0, tol=1e-5)
        judge(gpu, matrix, y, k, 4.0, tol=1e-5)
        cpu = solve_dual(DenseGram(matrix), duals.crammer_singer(y, k, 4.0), tol=1e-5)
        assert gpu.objective == pytest.approx(cpu.objective, rel=1e-6)
        ours, theirs = gpu.coef @ matrix, cpu.coef @ matrix
        clear = np.ptp(np.sort(theirs, axis=0)[-2:], axis=0) > 1e-3  # two classes may tie
        np.testing.assert_array_equal(ours.argmax(0)[clear], theirs.argmax(0)[clear])

    def test_more_classes_than_lanes_hold(self):
        matrix, _ = classes(600, 3)
        y = np.arange(600) % 513
        with pytest.raises(InputError, match="got 513"):
            self.solve(matrix, y, 1.0)
        y = np.arange(600) % 512
        solution = self.solve(matrix, y, 1.0)
        assert solution.converged
        judge(solution, matrix, y, 512, 1.0)

    @pytest.mark.parametrize("slots", [1, 3, 132])
    def test_chains_side_by_side_have_the_bits_of_one_alone(self, slots, monkeypatch):
        monkeypatch.setattr(cuda_queue, "most_slots", lambda: slots)
        matrix, y = classes(1500, 6)
        gram = self.gram(matrix)
        folds = [np.flatnonzero(np.arange(1500) % 5 != k) for k in range(5)]
        folds[1] = folds[1][:700]
        path = [[duals.crammer_singer(y[fold], 6, C, index=fold) for C in (0.1, 1.0, 10.0)] for fold in folds]
        seen = []
        many = solve_chains(gram, path, Stopping(), progress=lambda *now: seen.append(now[0] / now[1]))
        assert seen == sorted(seen)
        assert seen[-1] == pytest.approx(1.0)
        for chain, solutions, fold in zip(path, many, folds, strict=True):
            [alone] = solve_chains(gram, [chain], Stopping())
            for solution, other, C in zip(solutions, alone, (0.1, 1.0, 10.0), strict=True):
                assert solution.converged
                judge(solution, np.ascontiguousarray(matrix[np.ix_(fold, fold)]), y[fold], 6, C)
                np.testing.assert_array_equal(solution.coef, other.coef)

    def test_both_kinds_in_one_call(self):
        matrix, y = classes(600, 4)
        gram = self.gram(matrix)
        mixed = [
            [duals.crammer_singer(y, 4, 1.0)],
            [duals.svc(np.where(y == 1, 1.0, -1.0), 1.0)],
            [duals.crammer_singer(y % 3, 3, 1.0)],
        ]
        for solutions, chain in zip(solve_chains(gram, mixed, Stopping()), mixed, strict=True):
            [[alone]] = solve_chains(gram, [chain], Stopping())
            np.testing.assert_array_equal(solutions[0].coef, alone.coef)
